"""Programs of one state: compiled into one function, and the option for small loops."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import jaxcfa
from helpers import assert_close
from jaxcfa import Transform, latency
from jaxcfa.closed_chains import connect, constrained_forward_dynamics
from mechanisms import mechanism, random_state

PROGRAM = """
import os
import jax
import jax.numpy as jnp
import jaxcfa

jaxcfa.enable_low_latency()
jaxcfa.enable_low_latency()
print(os.environ["XLA_FLAGS"])
model, x = jaxcfa.chain(3), jnp.zeros(3)
program = jax.jit(lambda *x: jaxcfa.forward_dynamics(model, *x)).lower(x, x, x).compile()
print(program.as_text().count("xla_cpu_small_call"), jnp.all(jnp.isfinite(program(x, x, x))))
jaxcfa.enable_low_latency()
loop = jax.jit(lambda x: jax.lax.fori_loop(0, 10_000, lambda _, x: jnp.sin(x) + 0.1, x))
loop(jnp.zeros(1000)).block_until_ready()
print(loop(jnp.ones(1000)).is_ready())
"""


def test_loops_are_one_function_that_the_caller_computes():
    flags = "--xla_backend_optimization_level=0 --xla_backend_extra_options=xla_cpu_flatten_after_fusion"
    command = [sys.executable, "-c", PROGRAM]
    environment = {**os.environ, "XLA_FLAGS": flags}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    given, found, is_ready = result.stdout.splitlines()
    assert given == f"{flags},xla_cpu_small_while_loop_byte_threshold=1000000"
    calls, finite = found.split()
    assert int(calls) >= 3
    assert finite == "True"
    assert is_ready == "True"


def test_it_says_if_it_comes_too_late():
    jaxcfa.chain(1)
    with pytest.raises(ValueError, match="comes too late: JAX has computed something already"):
        jaxcfa.enable_low_latency()
    with pytest.raises(ValueError, match="loop_bytes must be a positive integer, got 0"):
        jaxcfa.enable_low_latency(0)
    with pytest.raises(ValueError, match="got True"):
        jaxcfa.enable_low_latency(True)


def dynamics_and_simulation(model, x):
    """Forward dynamics with its gradient, and a motion, on joints of all kinds."""

    def potential(q, v, tau):
        return jnp.sum(jnp.sin(jaxcfa.forward_dynamics(model, q, v, tau)))

    gradient = jax.grad(potential, (1, 2))(x.q, x.v, x.qdd)
    motion = jaxcfa.rollout(model, x.q, x.v, lambda t, q, v: -v, dt=1e-3, steps=4)
    return gradient, (motion.q, motion.v), jaxcfa.mass_matrix(model, x.q)


@pytest.mark.slow
def test_a_program_is_one_function():
    model = mechanism("humanoid-like")
    x = random_state(model)
    program = jaxcfa.low_latency(dynamics_and_simulation)
    # The model's arrays are arguments of which XLA uses some only to find that their products with zero are zero.
    assert_close(program(model, x), jax.jit(dynamics_and_simulation)(model, x), rtol=1e-11)
    text = program.lower(model, x).compile().as_text()
    main = text[text.index("ENTRY ") :]
    assert "xla_cpu_small_call" in main
    assert " fusion(" not in main
    assert " while(" not in main


@pytest.mark.slow
def test_gradients_of_constrained_dynamics_are_one_function():
    """Of a robot that is held at four places."""
    model = mechanism("humanoid-like")
    x = random_state(model)
    poses = jaxcfa.forward_kinematics(model, x.q)
    feet = [
        connect(model, body, (-1, Transform(poses.rotation[body], poses.translation[body])))
        for body in range(model.nb - 4, model.nb)
    ]

    def total(q, v, tau):
        return jnp.sum(jnp.sin(constrained_forward_dynamics(model, feet, q, v, tau).qdd))

    gradient, arguments = jax.grad(total, (0, 1, 2)), (x.q, x.v, x.qdd)
    assert_close(jaxcfa.low_latency(gradient)(*arguments), jax.jit(gradient)(*arguments), rtol=1e-9)


def test_arguments_that_nothing_uses():
    """XLA would stop the process at one that it finds out about only after it has taken the call for one function."""

    def selected(x, y, z, n):
        return jnp.where(jnp.full(3, True), x, y) + lax.fori_loop(0, 3, lambda _, c: (2 * c[0], c[1]), (x, z))[0], x, n

    x = jnp.arange(3.0)
    for found in (jaxcfa.low_latency(selected)(x, x + 1, x + 2, 4), jaxcfa.low_latency(selected)(x, x, x, n=4)):
        assert_close(found, (9 * x, x, jnp.asarray(4)))
    assert_close(jaxcfa.low_latency(lambda x: jnp.ones(2))(x), jnp.ones(2))
    assert jaxcfa.low_latency(lambda: None)() is None


def test_inside_other_transformations():
    program = jaxcfa.low_latency(lambda x, n=2: x**n, static_argnames="n")
    x = jnp.array([1.0, 2.0])
    assert_close(program(x, n=3), x**3)
    assert_close(jax.vmap(program)(x), x**2)
    assert_close(jax.jit(jax.grad(lambda x: jnp.sum(program(x))))(x), 2 * x)
    assert_close(jaxcfa.low_latency(jax.vmap(program))(x), x**2)
    assert_close(jaxcfa.low_latency(jaxcfa.batched(program, piece=1))(x), x**2)
    assert_close(jaxcfa.low_latency(lambda x, n: x**n, static_argnums=1)(x, 3), x**3)


def test_on_several_devices():
    mesh = jaxcfa.device_mesh("batch")
    model, states = jaxcfa.chain(3), jaxcfa.spread(jnp.linspace(0.0, 1.0, 32 * 3).reshape(32, 3), mesh, "batch")

    def dynamics(q):
        return jaxcfa.forward_dynamics(model, q, q, q)

    spread = jaxcfa.low_latency(jaxcfa.batched(dynamics, piece=2, mesh=mesh))(states)
    assert_close(spread, jax.vmap(dynamics)(states), rtol=1e-12)
    assert len(spread.sharding.device_set) == mesh.size == 8


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (jnp.sort, "it has sorting"),
        (jnp.linalg.inv, "calls of a library"),
        (lambda x: jnp.fft.fft(x).real, "it has Fourier transforms"),
    ],
)
def test_what_it_cannot_compile(function, reason):
    with pytest.raises(ValueError, match=rf"low_latency cannot compile .* into one function: .*{reason}.*Use jax.jit"):
        jaxcfa.low_latency(function)(jnp.eye(3))


def test_versions_of_xla_without_the_option(monkeypatch):
    monkeypatch.setattr(latency, "_NO_LIBRARY", {"xla_cpu_option_of_another_version": ""})
    assert_close(jaxcfa.low_latency(jnp.sin)(jnp.ones(2)), jnp.sin(jnp.ones(2)))


def test_other_errors_are_left_alone():
    with pytest.raises(TypeError, match="incompatible shapes"):
        jaxcfa.low_latency(jnp.add)(jnp.ones(2), jnp.ones(3))

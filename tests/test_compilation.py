"""Programs of one state that compile sooner."""

from importlib import metadata

import jax
import jax.numpy as jnp

import jaxcfa
from helpers import assert_close
from jaxcfa import compilation
from jaxcfa.compilation import jit_of_one_state, quick_compilation


def test_results_are_the_same():
    model, x = jaxcfa.chain(3), jnp.array([0.3, -0.2, 0.5])

    def potential(q):
        return jnp.sum(jaxcfa.forward_dynamics(model, q, x, x))

    options = quick_compilation()
    assert options or not metadata.version("jaxlib").startswith("0.10.")
    assert_close(jax.jit(jax.grad(potential), compiler_options=options)(x), jax.jit(jax.grad(potential))(x))


def test_only_calls_outside_of_programs_are_compiled_sooner():
    asked = []

    def jit(function, **options):
        def traced(*arguments):
            asked.append(options)
            return function(*arguments)

        return jax.jit(traced, **options)

    double = jit_of_one_state(lambda x: 2 * x, jit)
    assert double(1.0) == 2.0
    assert asked == [{"compiler_options": quick_compilation()}]
    inside = [jax.jit(double), jax.grad(double), jax.vmap(double), jax.jit(jax.vmap(jax.grad(double)))]
    for function in inside[:2]:
        assert function(1.0) == 2.0
    for function in inside[2:]:
        assert jnp.all(function(jnp.ones(3)) == 2.0)
    assert {} in asked
    assert asked.count({"compiler_options": quick_compilation()}) == 1


def test_there_are_no_options_for_other_backends_and_versions(monkeypatch):
    with jaxcfa.compiling_for("tpu"):
        assert quick_compilation() == {}
    monkeypatch.setattr(compilation, "_TOGETHER", {"xla_cpu_no_such_option": True})
    compilation._are_known.cache_clear()
    assert quick_compilation() == {}
    compilation._are_known.cache_clear()

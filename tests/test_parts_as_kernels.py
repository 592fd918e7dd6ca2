"""Parts of programs as kernels of a GPU, as Pallas evaluates them without one, against `jax.vmap` of the functions."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.interpreters import mlir

import evaluation
import jaxcfa
from helpers import assert_close
from jaxcfa.one_function import _on_gpu, _primitive, as_one_function, without_marks

pytestmark = pytest.mark.compiled


@pytest.fixture
def made(monkeypatch):
    """The sizes of the batches of all kernels, in the order in which they are written, as if the CPU were a GPU."""
    sizes = []

    def run(line, leaves):
        sizes.append(len(leaves[0]))
        return run_as_kernel(line, leaves, interpret=True)

    run_as_kernel = _on_gpu.run_as_kernel
    monkeypatch.setattr(_on_gpu, "run_as_kernel", run)
    mlir.register_lowering(_primitive.one_function_p, _primitive._lower_on_cuda, platform="cpu")
    jax.clear_caches()
    with jaxcfa.compiling_for("gpu"):
        yield sizes
    mlir.register_lowering(_primitive.one_function_p, _primitive._lower_on_cpu, platform="cpu")
    jax.clear_caches()


@pytest.fixture(scope="module")
def chain():
    """Made before programs are compiled one by one."""
    return jaxcfa.chain(2)


def plain(function, *arguments):
    """The results without any kernels, by NumPy."""
    with without_marks(), evaluation.evaluated():
        return jax.jit(lambda *x: function(*x))(*arguments)


TABLE = np.random.default_rng(1).normal(size=(4, 4))


def wave(x, y, scale):
    """A loop, and constants that are no arguments."""
    carry, each = jax.lax.scan(lambda c, a: (jnp.sin(c) + a * scale, c * a), y[0], x)
    return {"last": carry + TABLE.astype(y.dtype) @ y, "each": each * x}


part = as_one_function(wave)
x, y = np.random.default_rng(0).normal(size=(2, 40, 4))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_states_and_batches(made, dtype):
    a, b, scale = x.astype(dtype), y.astype(dtype), dtype(2)

    def everything(a, b, scale):
        over_states = jax.vmap(part, (0, 0, None))
        nested = jax.vmap(lambda s: jax.vmap(part, (0, None, None))(a[:3], b[0], s))(jnp.stack([scale, scale + 1]))
        last = jax.vmap(part, (-1, 0, None))(a[:4].T, b[:4], scale)
        return (
            part(a[0], b[0], scale),
            over_states(a, b, scale),
            nested,
            last,
            jax.vmap(over_states)(a.reshape(4, 10, 4), b.reshape(4, 10, 4), jnp.stack([scale] * 4)),
        )

    found = jax.jit(everything)(a, b, scale)
    assert sorted(made) == [1, 4, 6, 40, 40]
    assert {x.dtype for x in jax.tree.leaves(found)} == {np.dtype(dtype)}
    one = jax.vmap(wave, (0, 0, None))
    assert_close(found[0], wave(a[0], b[0], scale), 1e-6 if dtype == np.float32 else 1e-14)
    assert_close(found[1], one(a, b, scale), 1e-6 if dtype == np.float32 else 1e-14)
    expected = plain(everything, a, b, scale)
    assert_close(found, expected, 1e-6 if dtype == np.float32 else 1e-14)


def test_derivatives_in_every_order(made):
    modes = jax.jacfwd, jax.jacrev

    def everything(x, y, scale):
        over_states = functools.partial(jax.vmap, in_axes=(0, 0, None))
        return [
            [over_states(mode(part, (0, 1, 2)))(x, y, scale) for mode in modes],
            [mode(over_states(part), 2)(x, y, scale) for mode in modes],
            [o(i(part, (1, 2)), (0, 2))(x[0], y[0], scale) for o in modes for i in modes],
            jax.grad(jax.checkpoint(lambda y: jnp.sum(part(x[0], y, scale)["last"] ** 3)))(y[0]),
        ]

    found = jax.jit(everything)(x[:3], y[:3], 1.5)
    assert made
    assert_close(found, plain(everything, x[:3], y[:3], 1.5), 1e-12)


def test_dynamics_with_a_known_model(made, chain):
    """Forward dynamics and its gradient are a kernel each way; a model that is an argument makes no difference."""

    def both(model, q, v, tau):
        one = functools.partial(jaxcfa.forward_dynamics, model)
        gradient = jax.grad(lambda *state: jnp.sum(jnp.sin(one(*state))), (0, 1, 2))
        return jax.vmap(one)(q, v, tau), jax.vmap(gradient)(q, v, tau)

    state = x[:5, :2], y[:5, :2], y[:5, 2:]
    found = jax.jit(functools.partial(both, chain))(*state)
    assert made == [5, 5, 5]
    assert_close(found, plain(functools.partial(both, chain), *state), 1e-12)
    assert_close(eqx.filter_jit(both)(chain, *state), found, 1e-12)


def test_shared_motions_are_found_again(made, chain):
    def one(q, v, qdd):
        motions = jaxcfa.body_motions(chain, q, v)
        return jaxcfa.inverse_dynamics(chain, q, v, qdd, motions=motions), jaxcfa.jacobian(chain, q, 1, motions=motions)

    state = x[:5, :2], y[:5, :2], y[:5, 2:]
    assert_close(jax.jit(jax.vmap(one))(*state), plain(jax.vmap(one), *state), 1e-13)
    assert made == [5, 5]


def test_what_is_long_stays_as_it_is(made, monkeypatch):
    """The function, or its derivative alone."""
    operations = len(_on_gpu.line_of_program(jax.make_jaxpr(wave)(x[0], y[0], 2.0)).operations)

    def results(x, y):
        total = lambda x, y: sum(jnp.sum(z) for z in jax.tree.leaves(part(x, y, 2.0)))  # noqa: E731
        return jax.vmap(lambda x, y: part(x, y, 2.0))(x, y), jax.vmap(jax.grad(total, (0, 1)))(x, y)

    for longest, number in ((operations - 10, 0), (operations + 10, 2)):
        made.clear()
        monkeypatch.setattr(_on_gpu, "_LONGEST", longest)
        found = jax.jit(lambda x, y: results(x, y))(x[:3], y[:3])
        assert len(made) <= number
        assert bool(made) == bool(number)
        assert_close(found, plain(results, x[:3], y[:3]), 1e-12)


def test_what_is_no_operation_on_numbers_stays_as_it_is(made):
    sorting = as_one_function(lambda x: jnp.sort(x) * 2)
    empty = as_one_function(lambda x: {"none": jnp.zeros((0, 3)) * x[0], "one": x + 1})
    traced = jax.jit(lambda a, x: jax.vmap(as_one_function(lambda x: a * x))(x))(2.0, x)
    assert_close(jax.jit(jax.vmap(sorting))(x), 2 * np.sort(x), 0)
    assert_close(jax.jit(jax.vmap(empty))(x)["one"], x + 1, 0)
    assert_close(traced, 2 * x, 0)


def test_what_pallas_refuses_stays_as_it_is(made, monkeypatch):
    def refuse(line, leaves):
        made.append(len(leaves[0]))
        raise RuntimeError("No supported GPU devices found")

    monkeypatch.setattr(_on_gpu, "run_as_kernel", refuse)
    found = jax.jit(jax.vmap(lambda x, y: part(x, y, 2.0)))(x, y)
    assert made == [40]
    assert_close(found, jax.vmap(lambda x, y: wave(x, y, 2.0))(x, y), 1e-13)


def test_exported_programs_have_no_kernels(made):
    exported = export.export(jax.jit(jax.vmap(lambda x, y: part(x, y, 2.0))))(x, y)
    assert not made
    assert_close(exported.call(x, y), jax.vmap(lambda x, y: wave(x, y, 2.0))(x, y), 1e-13)
    (n,) = export.symbolic_shape("n")
    shapes = [jax.ShapeDtypeStruct((n, 4), x.dtype)] * 2
    assert export.export(jax.jit(jax.vmap(lambda x, y: part(x, y, 2.0))))(*shapes)
    assert not made


def test_batches_over_devices_have_no_kernels(made):
    mesh = jax.make_mesh((2,), ("states",), devices=jax.devices()[:2])
    spread = jax.device_put(x, jax.NamedSharding(mesh, jax.P("states")))
    assert_close(jax.jit(jax.vmap(lambda x: part(x, x, 2.0)))(spread), jax.vmap(lambda x: wave(x, x, 2.0))(x), 1e-13)
    assert not made


def test_without_compilation_nothing_is_traced_anew(made, chain):
    """Outside of `jax.jit` a batch of dynamics is one program, which later calls use again."""
    q, v, tau = x[:5, :2], y[:5, :2], y[:5, 2:]
    found = [jax.vmap(functools.partial(jaxcfa.forward_dynamics, chain))(q, v, tau) for _ in range(2)]
    assert len(made) <= 1
    assert_close(found[0], found[1], 0)

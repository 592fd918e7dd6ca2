"""Batches as straight lines, on CPUs and, as Pallas evaluates them without a GPU, as kernels, against `jax.vmap`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxcfa
from helpers import assert_close
from jaxcfa.one_function import _one_kernel, one_kernel

pytestmark = pytest.mark.compiled


@pytest.fixture
def on_gpu(monkeypatch):
    """As if the CPU were a GPU."""
    monkeypatch.setattr(_one_kernel.backend, "backend", lambda: "gpu")
    monkeypatch.setattr(_one_kernel.backend, "GPUS", ("cpu",))
    monkeypatch.setattr(_one_kernel, "_on_gpu", functools.partial(_one_kernel._on_gpu, interpret=True))


@pytest.fixture(params=["cpu", "gpu"])
def target(request):
    """On a CPU, and as if it were a GPU."""
    request.getfixturevalue(f"on_{request.param}")
    return request.param


def rows(*shapes, dtype=float):
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def mixed(state, scale):
    """Of several arrays, some wider than what is read at once, to results of several types."""
    wide, narrow = state["wide"], state["narrow"]
    turned = jnp.sin(wide) * scale + narrow[0]
    return {"wide": turned[::-1], "signs": narrow > 0, "matrix": jnp.outer(narrow, narrow), "ones": jnp.ones((2, 2))}


@pytest.mark.parametrize("size", [1, 32, 70])
def test_arrays(size, dtype):
    wide, narrow, scale = rows((size, 150), (size, 3), (size,), dtype=dtype)
    arguments = {"wide": wide, "narrow": narrow}, scale
    expected = jax.vmap(mixed)(*arguments)
    for short in (0, 4000):
        found = _one_kernel._on_gpu(mixed, *arguments, interpret=True, short=short)
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6), found, expected)
        assert jax.tree.map(lambda x: x.dtype, found) == jax.tree.map(lambda x: x.dtype, expected)


@pytest.mark.parametrize("size", [1, 128, 300])
def test_arrays_on_cpus(size, dtype):
    """Of one piece, and of several, the last of which is not full."""
    wide, narrow, scale = rows((size, 50), (size, 3), (size,), dtype=dtype)
    arguments = {"wide": wide, "narrow": narrow}, scale
    found, expected = one_kernel(mixed)(*arguments), jax.vmap(mixed)(*arguments)
    assert_close(found, expected, 1e-6 if dtype == np.float32 else 1e-15)
    assert jax.tree.map(lambda x: x.dtype, found) == jax.tree.map(lambda x: x.dtype, expected)


def test_dynamics(target, dtype):
    model = jaxcfa.chain(2).astype(dtype)
    q, v, tau = rows((40, 2), (40, 2), (40, 2), dtype=dtype)
    found = one_kernel(lambda *x: jaxcfa.forward_dynamics(model, *x))(q, v, tau)
    assert_close(found, jax.vmap(lambda *x: jaxcfa.forward_dynamics(model, *x))(q, v, tau))


def test_transformations(target):
    def function(x, y):
        return jnp.sin(x) * y, jnp.sum(x * x, keepdims=True)

    kernel, plain = one_kernel(function), jax.vmap(function)
    x, y = rows((5, 3), (5, 3))
    assert_close(jax.jit(kernel)(x, y), plain(x, y))
    assert_close(jax.jvp(kernel, (x, y), (y, x)), jax.jvp(plain, (x, y), (y, x)))

    def total(f):
        return lambda x, y: sum(jnp.sum(z**3) for z in f(x, y))

    assert_close(jax.grad(total(kernel), (0, 1))(x, y), jax.grad(total(plain), (0, 1))(x, y))
    assert_close(jax.hessian(total(kernel))(x, y), jax.hessian(total(plain))(x, y))
    for axes in ((0, 0), (0, None), (None, 0), (1, None)):
        stacked = [z if axis is None else np.stack([z, 2 * z], axis) for z, axis in zip((x, y), axes, strict=True)]
        assert_close(jax.vmap(kernel, axes)(*stacked), jax.vmap(plain, axes)(*stacked))

    def rounds(f):
        return jax.jit(lambda x, y: lax.scan(lambda z, _: (f(z, y)[0], None), x, None, length=3)[0])

    assert_close(rounds(kernel)(x, y), rounds(plain)(x, y))
    # A derivative inside.
    slope = jax.grad(lambda x, y: jnp.sum(function(x, y)[0]))
    assert_close(one_kernel(slope)(x, y), jax.vmap(slope)(x, y))


def test_numbers_of_all_types(target):
    """Counts and flags beside states, and derivatives by the latter alone."""

    def function(x, count, on):
        return jnp.where(on, x**2, x) * (count + 1), count + 1, ~on

    x, count, on = np.linspace(-1, 1, 5), np.arange(5), np.arange(5) > 2
    kernel, plain = one_kernel(function), jax.vmap(function)
    for found, expected in zip(kernel(x, count, on), plain(x, count, on), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype

    def total(f):
        return lambda x: jnp.sum(f(x, count, on)[0])

    assert_close(jax.grad(total(kernel))(x), jax.grad(total(plain))(x))


def test_kernels_are_written_once(target):
    calls = []
    kernel = one_kernel(lambda x: calls.append(0) or jnp.sin(x))
    for _ in range(3):
        kernel(np.ones((4, 3)))
    assert len(calls) == {"cpu": 1, "gpu": 2}[target]  # as a kernel, and for other devices that a program may be for


def test_empty(target):
    assert jax.vmap(one_kernel(jnp.sin))(np.zeros((2, 0, 3))).shape == (2, 0, 3)
    assert jax.vmap(one_kernel(lambda x: x[:0]))(np.ones((2, 4, 3))).shape == (2, 4, 0)
    assert one_kernel(jnp.sin)(np.zeros((0, 3))).shape == (0, 3)
    assert one_kernel(lambda x: x[:0])(np.ones((4, 3))).shape == (4, 0)
    assert one_kernel(lambda x: ())(np.ones((4, 3))) == ()


def test_what_cannot_be_written_so_is_left_to_vmap_on_cpus(on_cpu, monkeypatch):
    (x,) = rows((4, 3))
    with pytest.warns(UserWarning, match=r"leaves sort to jax\.vmap, .* it has .*sort"):
        np.testing.assert_array_equal(one_kernel(jnp.sort)(x), np.sort(x))
    monkeypatch.setattr(_one_kernel, "LONGEST", 2)
    with pytest.warns(UserWarning, match=r"it has 3 operations .* minutes"):
        assert_close(one_kernel(lambda x: jnp.sin(x))(x), np.sin(x))


def test_batches_that_are_spread_over_devices_stay_so():
    (x,) = rows((16, 3))
    mesh = jaxcfa.device_mesh("batch", devices=jax.devices("cpu"))
    found = one_kernel(jnp.sin)(jaxcfa.spread(x, mesh, "batch"))
    assert len(found.sharding.device_set) == 8
    assert_close(found, np.sin(x), 1e-14)


def test_the_device_decides(monkeypatch):
    """On a machine with a GPU, of whose kernels sorting is none, and which the CPU does not run."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    cpu, (x,) = jax.devices("cpu")[1], rows((4, 3))
    with pytest.raises(ValueError, match="cannot make a kernel of sort"):
        one_kernel(jnp.sort)(x)
    committed = jax.device_put(x, cpu)
    with pytest.warns(UserWarning, match="runs on CPUs"):
        np.testing.assert_array_equal(one_kernel(jnp.sort)(committed), np.sort(x))
    for device in (cpu, "cpu"):
        with jax.default_device(device), pytest.warns(UserWarning, match="runs on CPUs"):
            np.testing.assert_array_equal(one_kernel(jnp.sort)(x), np.sort(x))
    # Inside of other programs nothing is known of the device before these are compiled.
    program = jax.jit(lambda x: one_kernel(jnp.sin)(x))
    assert_close(program(committed), np.sin(x), 1e-12)
    with jaxcfa.compiling_for("gpu"):
        assert "pallas_call" in str(program.trace(x).jaxpr)


def test_derivatives_by_what_the_function_closes_over(on_cpu):
    """By `jax.vmap`, because of a straight line that would be a constant."""
    (x,) = rows((4, 3))

    def total(scale):
        return jnp.sum(one_kernel(lambda x: jnp.sin(scale * x))(x))

    with pytest.warns(UserWarning, match="traced value that is not among"):
        assert_close(jax.grad(total)(2.0), np.sum(x * np.cos(2 * x)), 1e-12)


def test_errors(on_gpu, monkeypatch):
    with pytest.raises(ValueError, match="must be a function of one state"):
        one_kernel(jaxcfa.chain(2))
    for arguments in ((), (np.ones(3), np.ones(4)), (np.ones((3, 2)), 1.0)):
        with pytest.raises(ValueError, match="leading axis"):
            one_kernel(jnp.add)(*arguments)
    with pytest.raises(ValueError, match=r"cannot make a kernel of sort: it has .*sort.*jax\.vmap"):
        one_kernel(jnp.sort)(np.ones((4, 3)))
    with pytest.raises(ValueError, match="traced value that is not among"):
        jax.jit(lambda a, x: one_kernel(lambda x: a * x)(x))(2.0, np.ones((4, 3)))
    monkeypatch.setattr(_one_kernel, "LONGEST", 2)
    with pytest.raises(ValueError, match=r"has 3 operations .* Use jax\.vmap"):
        one_kernel(lambda x: jnp.sin(x))(np.ones((4, 3)))

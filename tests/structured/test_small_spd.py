"""Small symmetric positive definite systems against dense linear algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from helpers import assert_close, tolerance
from jaxcfa.structured import LDL, ldl_factor, ldl_solve, spd_inverse, spd_solve
from jaxcfa.structured._small_spd import root_solve, root_solve_transposed

SIZES = [(0, (2, 3)), (1, ()), (3, (2, 3)), (6, (4,)), (12, (2,))]


def random_spd(key, *shape, dtype=jnp.float64):
    a = np.asarray(jax.random.normal(key, (*shape, shape[-1])))
    return jnp.asarray(a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1]), dtype)


def dense(factor: LDL):
    pivots = np.asarray(factor.pivots)
    lower = np.tril(factor.lower, -1) + np.eye(pivots.shape[-1])
    return lower * pivots[..., None, :] @ np.swapaxes(lower, -1, -2)


def solve_symmetrised(matrix, b):
    """Depends on all elements alike, so that any difference quotient is meaningful."""
    return spd_solve(0.5 * (matrix + jnp.swapaxes(matrix, -1, -2)), b)


@jax.jit
def everything(matrix, b):
    factor = ldl_factor(matrix)
    return factor, ldl_solve(factor, b), spd_solve(matrix, b[..., 0]), spd_inverse(matrix)


@pytest.mark.parametrize(("k", "batch"), SIZES)
def test_factor_and_solve(key, dtype, k, batch):
    matrix = random_spd(key, *batch, k, dtype=dtype)
    b = jax.random.normal(key, (*batch, k, 4), dtype)
    factor, x, x0, inverse = everything(matrix, b)
    assert x.dtype == inverse.dtype == dtype
    rtol = tolerance(dtype)
    assert_close(dense(factor), np.asarray(matrix), rtol)
    assert_close(np.asarray(matrix) @ np.asarray(x), np.asarray(b), rtol)
    assert_close(x0, x[..., 0], rtol)
    assert_close(np.asarray(inverse) @ np.asarray(b), np.asarray(x), rtol)


@pytest.mark.parametrize("k", [3, 12])
def test_transformations(key, k):
    matrix, b = random_spd(key, 4, k), jax.random.normal(key, (4, k))
    expected = np.linalg.solve(matrix, b[..., None])[..., 0]
    assert_close(jax.jit(jax.vmap(spd_solve))(matrix, b), expected)
    check_grads(jax.jit(solve_symmetrised), (matrix, b), order=1, modes=["fwd", "rev"])


@pytest.mark.parametrize("k", [1, 3, 12])
def test_not_positive_definite_gives_nan(key, k):
    singular = jnp.ones((k, k)) if k > 1 else jnp.zeros((1, 1))
    stacked = jnp.stack([singular, jnp.eye(k)])
    x = jax.jit(spd_solve)(stacked, jnp.ones((2, k)))
    assert jnp.all(jnp.isnan(x[0]))
    assert_close(x[1], jnp.ones(k))


@pytest.mark.parametrize("k", [2, 12])
def test_pivots_below_the_floor_give_nan(k):
    matrix = jnp.stack([jnp.eye(k), jnp.eye(k).at[1, 1].set(1e-3)])
    factor = jax.jit(ldl_factor)(matrix, jnp.full((2, k), 1e-2))
    assert_close(factor.pivots[0], jnp.ones(k))
    assert jnp.isnan(factor.pivots[1, 1])
    assert jnp.all(jnp.isfinite(jax.jit(spd_solve)(matrix, jnp.ones((2, k)))))


@pytest.mark.parametrize("k", [2, 12, 70, 130])
def test_pivots_below_the_floor_are_replaced(k):
    """Row by row, of a matrix that is not positive definite; the floor of the last pivot is its own."""
    root = np.tril(np.random.default_rng(0).normal(size=(k, k)), -1) / k + np.eye(k)
    pivots, floor = np.linspace(1.0, 2.0, k), np.full(k, 1e-3)
    pivots[k // 2 - 1], floor[-1] = -0.5, 100.0
    matrix = root * pivots @ root.T
    factor = jax.jit(ldl_factor, static_argnums=2)(matrix, floor, 3.0)
    assert_close(factor.pivots[jnp.array([k // 2 - 1, k - 1])], np.array([3.0, 3.0]))
    rest = matrix
    for i, least in enumerate(floor):
        pivot = rest[i, i] if rest[i, i] > least else 3.0
        column = rest[:, i] / pivot
        assert_close(factor.pivots[i], pivot)
        assert_close(factor.lower[i + 1 :, i], column[i + 1 :])
        rest = rest - np.outer(column, rest[i])


def test_badly_scaled_systems(dtype):
    """Without pivoting the error does not depend on the units of the rows and columns."""
    units = jnp.array([1e-6, 1.0, 1e4, 1e-3, 1.0, 1e6], dtype)
    matrix = (jnp.ones((6, 6), dtype) + jnp.eye(6, dtype=dtype)) * units[:, None] * units
    x = jax.jit(spd_solve)(matrix, units)
    assert_close(x * units, np.full(6, 1 / 7, dtype), rtol=1e-6)


@pytest.mark.parametrize("k", [2, 12, 70])
def test_arguments(k):
    matrix = 2 * np.eye(k, dtype=int)
    found = spd_solve(matrix.tolist(), [1] * k)
    assert found.dtype == jnp.float64
    assert_close(found, jnp.full(k, 0.5))
    assert spd_solve(jnp.asarray(matrix, jnp.float64), jnp.ones(k, jnp.float32)).dtype == jnp.float64
    for b in (jnp.ones(k + 1), jnp.ones(1), jnp.float64(1.0)):
        with pytest.raises(ValueError, match=f"with k = {k}"):
            spd_solve(matrix, b)
    with pytest.raises(ValueError, match=f"with k = {k}"):
        spd_solve(np.stack([matrix] * 3), jnp.ones(k))
    with pytest.raises(ValueError, match="matrix must be square"):
        spd_inverse(jnp.ones((k, k + 1)))


@pytest.mark.parametrize("k", [1, 6, 12, 70])
def test_roots(k):
    """`C^-T C^-1 = A^-1` with `A = C C^T`, and the second is the transpose of the first."""
    matrix, b = random_spd(jax.random.key(0), 3, k), jnp.linspace(-1.0, 2.0, 3 * k).reshape(3, k)
    factor = ldl_factor(matrix)
    half = root_solve(factor, b)
    assert_close(root_solve_transposed(factor, half), spd_solve(matrix, b), 1e-12)
    assert_close(jnp.sum(half**2), jnp.sum(b * spd_solve(matrix, b)), 1e-12)
    # Two calls of libraries at a time may wait for one another.
    assert k > 64 or "custom_call" not in jax.jit(root_solve).lower(factor, b).as_text()

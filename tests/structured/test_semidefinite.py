"""Reduction of positive semidefinite matrices to as many rows as their rank."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa.structured._semidefinite import reduce_semidefinite

SIZE = 7


def matrices(dtype):
    """Of ranks 0 to 7; one in which rows are repeated, and one of blocks."""
    basis = np.linalg.qr(np.random.default_rng(2).normal(size=(SIZE, SIZE)))[0]
    roots = [basis * (np.arange(SIZE) < rank) for rank in range(SIZE + 1)]
    repeated = np.tile(np.eye(SIZE)[:2], (4, 1))[:SIZE]
    blocks = np.kron(np.eye(SIZE)[:, :1], np.ones((1, SIZE))) + np.diag([0, 1, 1, 0, 0, 1, 0])
    return np.stack([root @ root.T for root in (*roots, repeated, blocks)]).astype(dtype)


def test_rows_chosen_determine_the_others(dtype):
    tolerance = 1e-5 if dtype == jnp.float32 else 1e-11
    a = matrices(dtype)
    found = jax.jit(jax.vmap(lambda x: reduce_semidefinite(x, tolerance)))(a)
    null = jax.vmap(lambda x: x.null_space())(found)
    assert null.dtype == found.inverse.dtype == dtype
    for matrix, chosen, inverse, relations, basis in zip(
        a, found.chosen, found.inverse, found.relations, null, strict=True
    ):
        b, n = np.flatnonzero(chosen), np.flatnonzero(~chosen)
        assert len(b) == np.linalg.matrix_rank(matrix.astype(float), tol=1e-4)
        assert_close(
            np.asarray(inverse)[np.ix_(b, b)] @ matrix[np.ix_(b, b)], np.eye(len(b), dtype=dtype), 1e3 * tolerance
        )
        assert_close(np.asarray(relations)[np.ix_(n, b)] @ matrix[b], matrix[n], 1e2 * tolerance)
        assert_close(matrix @ np.asarray(basis), 0 * matrix, 1e2 * tolerance)
        assert np.linalg.matrix_rank(np.asarray(basis)) == len(n)
        assert not np.any(np.asarray(inverse)[n])
        assert not np.any(np.asarray(relations)[b])


def test_nothing_and_what_is_not_finite():
    assert reduce_semidefinite(jnp.zeros((0, 0)), 1e-9).null_space().shape == (0, 0)
    found = reduce_semidefinite(jnp.eye(3).at[1, 2].set(jnp.nan), 1e-9)
    assert np.all(np.isnan(found.inverse))
    assert np.all(np.isnan(found.relations))


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_largest_pivots_come_first(backend):
    """So multipliers stay small: with the small row first there would be relations of size 1e6."""
    matrix = jnp.array([[1e-12, 1e-6], [1e-6, 1.0]])
    with jaxcfa.compiling_for(backend):
        found = jax.jit(lambda x: reduce_semidefinite(x, 1e-9))(matrix)
    assert found.chosen.tolist() == [False, True]
    assert_close(found.relations, jnp.array([[0, 1e-6], [0, 0]]), 1e-15)

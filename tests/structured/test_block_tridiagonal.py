"""Solvers for block-tridiagonal systems against dense linear algebra."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from helpers import assert_close, tolerance, traced_again
from jaxcfa.structured import BlockLDL, BlockTridiagonal, CyclicReduction, OddEvenElimination, Refined
from program_size import equations, loop_trips

SOLVERS = [BlockLDL(), OddEvenElimination(), CyclicReduction(1)]


@functools.cache
def random_system(n, k, m=2):
    """`A = B B^T + 1` with a block-bidiagonal B, and right-hand sides."""
    rng = np.random.default_rng(100 * n + k)
    own, below = rng.normal(size=(2, n, k, k))
    below[0] = 0
    diagonal = own @ own.swapaxes(1, 2) + below @ below.swapaxes(1, 2) + np.eye(k)
    return diagonal, below[1:] @ own[:-1].swapaxes(1, 2), rng.normal(size=(n, k, m))


def stretched_chain(n):
    """The constraint forces of a straight chain of n planar links: condition number about n^3."""
    along, across = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])
    compliance = np.diag([1.0, 1.0, 12.0])
    arm = np.array([0.0, 0.0, 0.5])
    inner, outer = np.stack([along, across - arm]), np.stack([along, across + arm])
    own, carried = inner @ compliance @ inner.T, outer @ compliance @ outer.T
    diagonal = np.stack([own + (carried if i else 0) for i in range(n)])
    return diagonal, np.broadcast_to(-inner @ compliance @ outer.T, (n - 1, 2, 2))


def dense(diagonal, lower):
    n, k, _ = diagonal.shape
    matrix = np.zeros((n, k, n, k))
    for i in range(n):
        matrix[i, :, i] = diagonal[i]
    for i in range(n - 1):
        matrix[i + 1, :, i], matrix[i, :, i + 1] = lower[i], lower[i].T
    return matrix.reshape(n * k, n * k)


def solve_densely(diagonal, lower, b):
    matrix = dense(*(np.asarray(x, float) for x in (diagonal, lower)))
    return np.linalg.solve(matrix, np.reshape(b, (len(matrix), -1))).reshape(b.shape)


def solver_function(solver):
    return jax.jit(lambda diagonal, lower, b: BlockTridiagonal(diagonal, lower).solve(b, solver))


def solve_all(solver, systems):
    """By name, in one program."""
    return jax.jit(lambda x: {name: BlockTridiagonal(*y[:2]).solve(y[2], solver) for name, y in x.items()})(systems)


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_solve(solver):
    sizes = [(1, 3), (2, 3), (3, 1), (3, 3), (5, 1), (17, 1), (17, 3), (64, 1), (1000, 1)]
    systems = {f"n={n}, k={k}": random_system(n, k) for n, k in sizes}
    for name, x in solve_all(solver, systems).items():
        assert_close(x, solve_densely(*systems[name]), what=name)


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_block_sizes_and_precisions(solver, dtype):
    systems = {}
    for k in (1, 6, 10):
        diagonal, lower, b = (x.astype(dtype) for x in random_system(6, k, 1))
        systems[f"k={k}"] = diagonal, lower, b[..., 0]
    for name, x in solve_all(solver, systems).items():
        assert x.dtype == dtype
        assert_close(x, solve_densely(*systems[name]), tolerance(dtype), name)


@pytest.mark.parametrize(
    "solver", [CyclicReduction(levels=20), CyclicReduction(2, BlockLDL()), CyclicReduction(0)], ids=str
)
def test_levels_of_cyclic_reduction(solver):
    systems = {f"n={n}": random_system(n, 1) for n in (13, 16)}
    for name, x in solve_all(solver, systems).items():
        assert_close(x, solve_densely(*systems[name]), what=name)


@pytest.mark.parametrize("solver", [OddEvenElimination(), Refined(CyclicReduction(1))], ids=str)
def test_parts(solver):
    """A matrix that falls into parts takes fewer rounds, those of its longest one."""
    diagonal, lower, b = random_system(8, 2)
    lower = lower * np.array([1, 1, 0, 1, 1, 0, 1])[:, None, None]
    padded = np.concatenate([np.zeros((1, 2, 2)), lower])

    def solve(longest):
        return lambda diagonal, lower, b: solver.factor_parts(diagonal, lower, longest).solve(b)

    assert_close(solve(3)(diagonal, padded, b), solve_densely(diagonal, lower, b))
    assert loop_trips(solve(3), diagonal, padded, b) < loop_trips(solve(8), diagonal, padded, b)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_operator_matches_its_dense_matrix(n):
    diagonal, lower, b = random_system(n, 3)
    matrix = BlockTridiagonal(diagonal, lower)
    np.testing.assert_array_equal(matrix.as_matrix(), dense(diagonal, lower))
    expected = (dense(diagonal, lower) @ b.reshape(n * 3, 2)).reshape(b.shape)
    assert_close(matrix.mv(b), expected)
    assert_close(matrix.mv(b[..., 0]), expected[..., 0])


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_derivatives(solver):
    diagonal, lower, b = random_system(3, 2, 1)

    def solve(diagonal, lower, b):
        symmetric = 0.5 * (diagonal + diagonal.swapaxes(1, 2))
        return BlockTridiagonal(symmetric, lower).solve(b, solver)

    check_grads(jax.jit(solve), (diagonal, lower, b), order=1, modes=["fwd", "rev"])


def test_second_derivatives():
    diagonal, lower, b = random_system(3, 1, 1)
    check_grads(solver_function(OddEvenElimination()), (diagonal, lower, b), order=2, modes=["fwd", "rev"])


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_gradient_reuses_the_factorisation(solver):
    """Forward and backward solution share one factorisation: the second costs no further eliminations."""
    system = random_system(16, 2)
    solve = solver_function(solver)
    factor_only = loop_trips(lambda *blocks: BlockTridiagonal(*blocks).factor(solver).factors, *system[:2])
    once = loop_trips(solve, *system)
    with_gradient = loop_trips(jax.grad(lambda *x: jnp.sum(solve(*x)), argnums=(0, 1, 2)), *system)
    assert with_gradient == factor_only + 2 * (once - factor_only)


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_vmap(solver):
    diagonal, lower, b = random_system(5, 2)
    scale = np.array([0.5, 1.0, 2.0])[:, None, None, None]
    solve = jax.jit(jax.vmap(solver_function(solver), in_axes=(0, 0, None)))
    expected = np.stack([solve_densely(s * diagonal, s * lower, b) for s in scale[:, 0, 0]])
    assert_close(solve(scale * diagonal, scale * lower, b), expected)
    columns = jax.jit(jax.vmap(solver_function(solver), in_axes=(None, None, 2), out_axes=2))
    assert_close(columns(diagonal, lower, b), solve_densely(diagonal, lower, b))


def test_factor_once_and_solve_twice():
    diagonal, lower, b = random_system(5, 2)
    factored = BlockTridiagonal(diagonal, lower).factor(OddEvenElimination())
    solve = jax.jit(lambda factored, b: factored.solve(b))
    assert_close(solve(factored, b), solve_densely(diagonal, lower, b))
    assert_close(solve(factored, -2 * b), -2 * solve_densely(diagonal, lower, b))


@functools.cache
def ill_conditioned(dtype):
    """A system, its matrix with condition number and norm, and the exact solution."""
    n = 200
    diagonal, lower = (x.astype(dtype) for x in stretched_chain(n))
    b = np.random.default_rng(0).normal(size=(n, 2)).astype(dtype)
    matrix = dense(diagonal, lower)
    return (
        (diagonal, lower, b),
        matrix,
        np.linalg.cond(matrix),
        np.linalg.norm(matrix, 2),
        solve_densely(diagonal, lower, b),
    )


@pytest.mark.parametrize("solver", [*SOLVERS, Refined(OddEvenElimination())], ids=str)
def test_ill_conditioned_systems(solver, dtype):
    """The error stays below the condition number times the rounding error of a few operations.

    Refinement makes the residual of odd-even elimination as small as that of the sequential solver.
    """
    system, matrix, condition, norm, expected = ill_conditioned(dtype)
    x, b, eps = np.asarray(solver_function(solver)(*system), float), system[2], np.finfo(dtype).eps
    assert condition > 1e4
    assert np.linalg.norm(x - expected) < 10 * condition * eps * np.linalg.norm(expected)
    if isinstance(solver, BlockLDL | Refined):
        assert np.linalg.norm(matrix @ x.ravel() - b.ravel()) < eps * norm * np.linalg.norm(x)


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_rank_deficient_couplings(solver):
    """Independent systems one after the other, and couplings of rank one."""
    diagonal, lower, b = random_system(6, 3)
    lower = lower.copy()
    lower[2] = 0
    lower[[1, 3], 1:] = 0
    system = diagonal + 10 * np.eye(3), lower, b
    assert_close(solver_function(solver)(*system), solve_densely(*system))


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_indefinite_matrices_give_nan(solver):
    diagonal, lower, b = random_system(5, 1)
    assert np.any(np.isnan(solver_function(solver)(diagonal - 2 * diagonal.max(), lower, b)))


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_nothing_to_do(solver):
    nothing = BlockTridiagonal(np.zeros((0, 3, 3)), np.zeros((0, 3, 3)))
    assert nothing.solve(np.zeros((0, 3)), solver).shape == (0, 3)
    assert nothing.mv(np.zeros((0, 3))).shape == (0, 3)
    assert nothing.as_matrix().shape == (0, 0)
    assert BlockTridiagonal(np.zeros((4, 0, 0)), np.zeros((3, 0, 0))).solve(np.zeros((4, 0)), solver).shape == (4, 0)
    matrix = BlockTridiagonal(np.broadcast_to(np.eye(3), (4, 3, 3)), np.zeros((3, 3, 3)))
    assert matrix.solve(np.zeros((4, 3, 0)), solver).shape == (4, 3, 0)


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_program_does_not_grow(solver):
    def size(n):
        return equations(solver_function(solver), *random_system(n, 2))

    assert size(64) == size(1000)


def test_depth_is_logarithmic():
    def trips(n, solver):
        return loop_trips(solver_function(solver), *random_system(n, 1))

    rounds = [trips(n, OddEvenElimination()) for n in (1, 2, 3, 64, 65, 1000)]
    assert rounds == [0, 2, 4, 12, 14, 20]
    assert trips(1000, CyclicReduction(levels=3)) == 14
    assert trips(1000, BlockLDL()) == 2998


def test_invalid_arguments():
    diagonal, lower, b = random_system(4, 2)
    with pytest.raises(ValueError, match=r"lower must have shape \(n - 1, k, k\) = \(3, 2, 2\)"):
        BlockTridiagonal(diagonal, diagonal)
    with pytest.raises(ValueError, match=r"diagonal must be square blocks.*jax\.vmap"):
        BlockTridiagonal(diagonal[None], lower[None])
    with pytest.raises(ValueError, match="b must have shape"):
        BlockTridiagonal(diagonal, lower).solve(b[:-1])


def test_calls_outside_of_programs_are_traced_once(caplog):
    diagonal, lower, b = random_system(3, 1)
    matrix = BlockTridiagonal(diagonal, lower)
    assert traced_again(caplog, lambda: (matrix.solve(b), matrix.factor(OddEvenElimination()).solve(b))) == []

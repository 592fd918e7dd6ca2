"""Systems on the edges of trees: every solver against the dense matrix."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import assert_close
from jaxcfa.structured import (
    BlockLDL,
    ChainsAndNodes,
    CyclicReduction,
    Dense,
    EdgeSystem,
    LeafToRoot,
    OddEvenElimination,
    TreeSchedule,
)

SOLVERS = [
    LeafToRoot(),
    ChainsAndNodes(BlockLDL()),
    ChainsAndNodes(OddEvenElimination()),
    ChainsAndNodes(CyclicReduction(levels=1)),
    Dense(),
]
RNG = np.random.default_rng(5)
PARENTS = {
    "one": np.array([-1]),
    "chain": np.arange(-1, 7),
    "star": np.array([-1, *[0] * 5]),
    "many roots": np.array([-1, -1, -1, 0, 2, 4]),
    "root with limbs": np.array([-1, 0, 1, 2, 0, 4, 5, 0]),
    "trunk and branches": np.array([-1, 0, 1, 2, 3, 2, 5, 4, 7, 4, 9, 6, 6]),
    "random": np.array([-1] + [int(RNG.integers(max(i - 4, -1), i)) for i in range(1, 30)]),
}


def side_by_side(parts):
    """One forest of all."""
    starts = np.cumsum([0, *map(len, parts)])
    return np.concatenate(
        [np.where(part < 0, -1, part + start) for part, start in zip(parts, starts[:-1], strict=True)]
    )


PARENTS["side by side"] = side_by_side(list(PARENTS.values()))
# Those by themselves that have only interiors of chains, or only separators.
CASES = [
    ("one", "float64"),
    ("chain", "float64"),
    ("star", "float64"),
    ("side by side", "float64"),
    ("side by side", "float32"),
]


@functools.cache
def system(name, dtype="float64", k=4, m=3):
    tree = TreeSchedule(PARENTS[name])
    n = len(tree.parents)
    rng = np.random.default_rng(n + 3)  # a seed that leaves single precision some digits
    own, carried = rng.normal(size=(2, n, k, m))
    root = rng.normal(size=(n, k, k))
    mass = root @ np.swapaxes(root, -1, -2) + np.eye(k)
    # As in mechanisms: a direction in which nothing acts, with a unit on the diagonal.
    own[0, :, 0] = carried[0, :, 0] = 0
    extra = np.zeros((n, m, m))
    extra[0, 0, 0] = 1
    arrays = (own, carried, mass, np.linalg.inv(mass), extra)
    return EdgeSystem(tree, *(jnp.asarray(x, dtype) for x in arrays)), jnp.asarray(rng.normal(size=(n, m, 2)), dtype)


@pytest.mark.parametrize("name", ["one", "side by side"])
def test_matrix(name):
    """Positive definite, with the pattern of edges that meet."""
    operator, y = system(name)
    n, m, _ = y.shape
    dense = np.asarray(operator.as_matrix())
    assert_close(operator.mv(y), (dense @ np.reshape(y, (n * m, -1))).reshape(y.shape))
    assert np.linalg.eigvalsh(dense).min() > 0
    blocks = dense.reshape(n, m, n, m)
    assert_close(operator.diagonal(), blocks[np.arange(n), :, np.arange(n)])
    parents = PARENTS[name]
    for i in range(n):
        for j in range(n):
            meet = i == j or parents[i] == j or parents[j] == i or parents[i] == parents[j] >= 0
            assert meet == bool(np.any(blocks[i, :, j]))


@pytest.mark.parametrize(("name", "dtype"), CASES)
@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_solvers(solver, name, dtype):
    operator, b = system(name, dtype)
    x = jax.jit(lambda operator, b: solver.factor(operator).solve(b))(operator, b)
    assert x.dtype == dtype
    expected = np.linalg.solve(np.asarray(system(name)[0].as_matrix()), np.reshape(system(name)[1], (-1, 2)))
    assert_close(x, expected.reshape(x.shape))


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_batches(solver):
    operator, b = system("trunk and branches")
    factors = jnp.array([0.5, 2.0])
    x = jax.jit(jax.vmap(lambda f: solver.factor(operator).solve(f * b)))(factors)
    assert_close(x, factors[:, None, None, None] * Dense().factor(operator).solve(b))


def test_chains_are_solved_apart():
    """Partition of a trunk with branches: what is a separator, and what hangs on what."""
    parts = TreeSchedule(PARENTS["trunk and branches"]).chain_partition
    assert parts.separators.tolist() == [3, 5, 7, 9, 11, 12]
    assert parts.interior.tolist() == [0, 1, 2, 4, 6, 8, 10]
    assert parts.upper.tolist() == [-1, -1, 0, 0, 1, 1]
    assert parts.above.tolist() == [-1, 0, 1, 2, 3]
    assert parts.longest == 3

"""Recurrences over trees by every schedule, against loops over the nodes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import assert_close
from jaxcfa.structured import AncestorMask, Associative, Chunked, Doubling, Levels, Sequential, TreeSchedule
from program_size import equations, loop_trips

SCHEDULES = [Sequential(), Levels(), Doubling(), AncestorMask(), Associative(), Chunked(4)]
RNG = np.random.default_rng(0)
PARENTS = {
    "none": np.zeros(0, dtype=np.int64),
    "one": np.array([-1]),
    "chain": np.arange(-1, 16),
    "star": np.array([-1, *[0] * 8]),
    "forest": np.array([-1, -1, -1, 0, 2, 4]),
    "random": np.array([-1] + [int(RNG.integers(-1, i)) for i in range(1, 40)]),
    "two limbs": np.array([-1, 0, 1, 0, 3, 4, 5]),
}
TREES = {name: TreeSchedule(parents) for name, parents in PARENTS.items()}


def recurrence(n, k=3, m=2):
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, k, k)) * 0.5, rng.normal(size=(n, k, m))


def outward_by_loop(parents, a, b):
    y = b.copy()
    for i, p in enumerate(parents):
        if p >= 0:
            y[i] += a[i] @ y[p]
    return y


def inward_by_loop(parents, a, b):
    y = b.copy()
    for i in range(len(parents) - 1, -1, -1):
        if parents[i] >= 0:
            y[parents[i]] += a[i].T @ y[i]
    return y


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", TREES)
def test_recurrences(schedule, name, dtype):
    tree = TREES[name]
    n = len(tree.parents)
    a, b = (x.astype(dtype) for x in recurrence(n))
    ones = np.zeros_like(a) + np.eye(3, dtype=dtype)

    def compose(first, second):
        return second[0] @ first[0], second[0] @ first[1] + second[1]

    @jax.jit
    def all_of_them(a, b):
        outward = schedule.outward(tree, compose, (a, b))[1]
        return outward, schedule.inward(tree, a, b), schedule.ancestor_sum(tree, b), schedule.subtree_sum(tree, b)

    outward, inward, ancestors, subtrees = all_of_them(a, b)
    assert {x.dtype for x in (outward, inward, ancestors, subtrees)} == {np.dtype(dtype)}
    assert_close(outward, outward_by_loop(tree.parents, a, b))
    assert_close(inward, inward_by_loop(tree.parents, a, b))
    assert_close(ancestors, outward_by_loop(tree.parents, ones, b))
    assert_close(subtrees, inward_by_loop(tree.parents, ones, b))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("place", [0, 1, 3, 5])
def test_what_is_not_finite_goes_inwards_only(schedule, place):
    """NaN in a node, or in its map to the parent, goes inwards, and not to other branches or trees."""
    tree = TREES["forest"]
    a, b = recurrence(6)
    inward = jax.jit(lambda a, b: schedule.inward(tree, a, b))
    for spoilt in range(2):
        given = [x.copy() for x in (a, b)]
        given[spoilt][place] = np.nan
        np.testing.assert_array_equal(np.isnan(inward(*given)), np.isnan(inward_by_loop(tree.parents, *given)))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_sums_of_pytrees_batched_and_transposed(schedule):
    """The two sums are each other's transposes, also as derivatives in reverse mode."""
    tree = TREES["random"]
    x, y = (RNG.normal(size=(2, len(tree.parents), 3)) for _ in range(2))

    @jax.jit
    @jax.vmap
    def both(x, y):
        sums, transpose = jax.vjp(lambda x: schedule.ancestor_sum(tree, {"x": x})["x"], x)
        return sums, transpose(y)[0], schedule.subtree_sum(tree, y)

    sums, transposed, subtrees = both(x, y)
    assert_close(transposed, subtrees)
    assert_close(jnp.vdot(sums, y), jnp.vdot(x, subtrees))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_derivatives_where_products_with_zero_have_none(schedule):
    def turned(first, second):  # unit complex numbers
        product = jnp.stack([first[0] * second[0] - first[1] * second[1], first[0] * second[1] + first[1] * second[0]])
        return product / jnp.linalg.norm(product)

    x = RNG.normal(size=(6, 2))
    gradient = jax.grad(lambda x: jnp.sum(schedule.outward(TREES["forest"], turned, x)[5]))(x)
    assert np.all(np.isfinite(gradient))
    np.testing.assert_array_equal(np.flatnonzero(np.any(gradient != 0, axis=1)), [2, 4, 5])


def test_number_of_steps():
    """Doubling needs the logarithm of the depth, levels the depth, the mask no loop."""
    rng = np.random.default_rng(1)
    bushy = np.array([-1] + [int(rng.integers(0, i)) for i in range(1, 1000)])
    comb = np.array([-1, *(i for i in range(250) for _ in range(2))])  # each pair of children on the next node
    for parents in (bushy, comb):
        tree = TreeSchedule(parents)
        x = np.ones(len(parents))
        rounds = int(np.ceil(np.log2(tree.depths.max())))
        trips = [
            loop_trips(lambda x, s=s, tree=tree: s.subtree_sum(tree, x), x)
            for s in (Doubling(), Levels(), AncestorMask())
        ]
        assert trips == [rounds, tree.depths.max(), 0]


@pytest.mark.parametrize("schedule", [Sequential(), Levels(), Doubling(), Chunked(4)], ids=str)
def test_programs_do_not_grow(schedule):
    small, large = (TreeSchedule(np.array([-1] + [(i - 1) // 2 for i in range(1, n)])) for n in (63, 1000))

    def size(tree):
        return equations(lambda a, b: schedule.inward(tree, a, b), *recurrence(len(tree.parents)))

    # Sweeps choose among as many registers as the tree is deep.
    more = large.registers - small.registers if schedule == Sequential() else 0
    assert more <= 4
    assert size(large) == size(small) + 8 * more


@pytest.mark.parametrize("name", TREES)
def test_heavy_paths(name):
    """Every node is on one path; a path is a line of descent, and hangs on one of the layer before."""
    tree = TREES[name]
    paths = tree.heavy_paths
    assert sorted(paths.nodes[paths.nodes >= 0]) == list(range(len(tree.parents)))
    assert len(paths.nodes) <= 1 + np.log2(max(len(tree.parents), 1))
    layer = {node: row for row, nodes in enumerate(paths.nodes) for node in nodes if node >= 0}
    lengths = []
    for row, (nodes, heads) in enumerate(zip(paths.nodes, paths.heads, strict=True)):
        for slot, (node, head) in enumerate(zip(nodes, heads, strict=True)):
            parent = -2 if node < 0 else tree.parents[node]
            assert head == (node < 0 or parent == -1 or layer[parent] == row - 1)
            assert head or nodes[slot - 1] == parent
            lengths.append(1 if head else lengths[-1] + 1)
    assert max(lengths, default=0) == paths.longest

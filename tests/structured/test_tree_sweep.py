"""Sweeps over trees against recursion, and the order and storage that they use."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa import backend
from jaxcfa.structured._tree_schedule import TreeSchedule, heavy_last_order
from jaxcfa.structured._tree_sweep import sweep_inward, sweep_outward
from jaxcfa.structured._tree_tables import children_lists, subtree_sizes
from program_size import equations


def random_parents(n: int, seed: int, window: int | None = None, roots: int = 1):
    rng = np.random.default_rng(seed)
    earliest = np.zeros(n, int) if window is None else np.maximum(np.arange(n) - window, 0)
    parents = np.array([rng.integers(low, i) if i else -1 for i, low in enumerate(earliest)])
    parents[:1] = -1
    parents[rng.choice(n, roots - 1, replace=False)] = -1
    return parents


def balanced(levels: int):
    """A binary tree, level by level: the worst order for a depth-first sweep."""
    return (np.arange(2**levels - 1) + 1) // 2 - 1


TREES = {
    "nothing": np.zeros(0, int),
    "one node": np.array([-1]),
    "chain": np.arange(12) - 1,
    "star": np.array([-1] + [0] * 15),
    "only roots": np.full(5, -1),
    "random": random_parents(40, 0),
    "forest": random_parents(40, 1, window=3, roots=6),
    "two chains side by side": np.arange(20) - 2 + (np.arange(20) == 0),
    "balanced": balanced(8),
    "balanced forest": np.where(balanced(8) < 1, -1, balanced(8)),
}
REORDERED = ["balanced", "balanced forest"]
parametrized = pytest.mark.parametrize("name", TREES)


class Example:
    """A linear recurrence of both directions, `value = a parent + b`, with random data for a tree."""

    def __init__(self, parents):
        n = len(parents)
        rng = np.random.default_rng(n)
        self.parents, self.schedule = parents, TreeSchedule(parents)
        self.a, self.b = rng.normal(size=(n, 3, 3)) / 2, rng.normal(size=(n, 3))
        self.base = {"x": rng.normal(size=3)}

    def data(self, b=None):
        return jnp.asarray(self.a), jnp.asarray(self.b if b is None else b)

    def outward(self, base, data):
        def step(parent, data):
            a, b = data
            value = a @ parent["x"] + b
            return {"x": value}, (value, parent["x"][0])

        return sweep_outward(self.schedule, step, base, [data])[0]

    def inward(self, data):
        def step(children, data):
            a, b = data
            total = children["x"] + b
            return {"x": a.T @ total}, total

        return sweep_inward(self.schedule, step, {"x": jnp.zeros(3)}, [data])[0]


@functools.cache
def sweeps(name: str):
    """A tree with the results of both sweeps, the inward one for other data `y`."""
    example = Example(TREES[name])
    y = np.random.default_rng(99).normal(size=example.b.shape)
    run = jax.jit(lambda base, data, other: (example.outward(base, data), example.inward(other)))
    outward, totals = run({"x": jnp.asarray(example.base["x"])}, example.data(), example.data(y))
    return example, y, outward, np.asarray(totals)


@parametrized
def test_outward(name):
    """Outputs include something of the parent, so that each node is known to have met its own."""
    example, _, outward, _ = sweeps(name)
    values, seen = np.zeros((len(example.parents), 3)), np.zeros(len(example.parents))
    for i, parent in enumerate(example.parents):
        above = example.base["x"] if parent < 0 else values[parent]
        values[i], seen[i] = example.a[i] @ above + example.b[i], above[0]
    assert_close(outward, (values, seen), 1e-12)


@parametrized
def test_inward(name):
    example, y, _, totals = sweeps(name)
    expected = y.copy()
    for i, parent in reversed(list(enumerate(example.parents))):
        if parent >= 0:
            expected[parent] += example.a[i].T @ expected[i]
    assert_close(totals, expected, 1e-12)


@parametrized
def test_the_sweeps_are_transposes(name):
    """`y . outward(base, b) = inward(y) . (b + a base at the roots)`."""
    example, y, (values, _), totals = sweeps(name)
    sources = example.b + np.where(example.parents[:, None] < 0, example.a @ example.base["x"], 0)
    assert_close(np.sum(totals * sources), np.sum(np.asarray(values) * y), 1e-12)


@pytest.mark.parametrize("name", ["random", "balanced"])
def test_transformations(name):
    """The reverse derivative of one sweep is the other, also for a batch."""
    example = Example(TREES[name])
    a, b = example.data()
    weights = jnp.asarray(np.random.default_rng(98).normal(size=(2, *b.shape)))

    def weighted(b, y):
        return jnp.sum(y * example.outward({"x": jnp.zeros(3)}, (a, b))[0])

    gradients = jax.jit(jax.vmap(jax.grad(weighted), (None, 0)))(b, weights)
    expected = jax.jit(jax.vmap(lambda y: example.inward((a, y))))(weights)
    assert_close(gradients, np.asarray(expected), 1e-12)


def test_segments_may_have_different_shapes():
    """A sweep over runs of nodes with one, two and one columns, as over one padded run."""
    parents = np.array([-1, 0, 1, 2, 1, 4, 0, 6, 7, 6, 9, 9])
    schedule = TreeSchedule(parents)
    assert schedule.order is None
    assert schedule.registers == 2
    rng = np.random.default_rng(4)
    columns, sizes = rng.normal(size=(12, 3, 2)), np.array([1, *(5 * [2]), *(6 * [1])])
    columns[sizes == 1, :, 1] = 0
    runs = [(0, 1, 1), (1, 6, 2), (6, 12, 1)]
    segments = [jnp.asarray(columns[start:stop, :, :d]) for start, stop, d in runs]

    def outward(parent, block):
        value = parent + block @ jnp.ones(block.shape[1])
        return value, jnp.sin(parent) @ block

    def inward(children, block):
        value = children + block @ jnp.ones(block.shape[1])
        return value, jnp.sin(children) @ block

    for sweep, step in ((sweep_outward, outward), (sweep_inward, inward)):
        (whole,) = sweep(schedule, step, jnp.zeros(3), [jnp.asarray(columns)])
        parts = sweep(schedule, step, jnp.zeros(3), segments)
        for (start, stop, d), part in zip(runs, parts, strict=True):
            assert_close(part, np.asarray(whole)[start:stop, :d], 1e-14)


def test_reordering_takes_one_segment():
    example = Example(TREES["balanced"])
    halves = [jax.tree.map(lambda x: x[:100], example.data()), jax.tree.map(lambda x: x[100:], example.data())]
    with pytest.raises(ValueError, match="takes one segment, got 2"):
        sweep_outward(example.schedule, lambda value, data: (value, value), jnp.zeros(3), halves)


@pytest.mark.parametrize("parents", [[1, -1], [-1, 5], [-2], [-1.0], [[-1]], -1])
def test_parents_come_before_their_children(parents):
    with pytest.raises(ValueError, match=r"parents must be integers of shape \(n,\)"):
        TreeSchedule(parents)
    assert TreeSchedule([-1, 0, 1]).is_chain
    assert TreeSchedule([]).is_chain


@pytest.mark.parametrize("name", [*TREES, "large"])
def test_registers_hold_what_is_still_needed(name):
    """Simulates the visits: every node finds its parent, just visited or kept, which no other has overwritten."""
    parents = random_parents(3000, 5) if name == "large" else TREES[name]
    schedule, n = TreeSchedule(parents), len(parents)
    assert sorted(schedule.visits) == list(range(n))
    registers, before = np.full(schedule.registers, -1), -1
    for visit, node in enumerate(schedule.visits):
        assert (registers[schedule.source[visit]] if schedule.begins[visit] else before) == parents[node]
        if schedule.keeps[visit]:
            registers[schedule.target[visit]] = node
        before = node
    if schedule.order is not None:
        assert np.array_equal(schedule.order[schedule.inverse_order], np.arange(n))


@pytest.mark.parametrize(
    ("name", "registers"), [("chain", 0), ("one node", 0), ("star", 1), ("only roots", 1), ("balanced", 7)]
)
def test_number_of_registers(name, registers):
    assert TreeSchedule(TREES[name]).registers == registers


@pytest.mark.parametrize("name", REORDERED)
def test_nodes_are_reordered_only_where_that_saves_something(name):
    parents = TREES[name]
    order = TreeSchedule(parents).order
    assert order is not None
    # The same tree in the order of visit needs no other.
    renumbered = np.append(np.argsort(order), -1)[parents[order]]
    assert TreeSchedule(renumbered).order is None
    assert all(TreeSchedule(TREES[other]).order is None for other in ("chain", "star", "only roots"))


@pytest.mark.parametrize("seed", range(3))
def test_registers_grow_with_the_logarithm(seed):
    for n in (10, 1000, 20_000):
        assert TreeSchedule(random_parents(n, seed)).registers <= max(6, 1 + np.log2(n))


@pytest.mark.parametrize("name", TREES)
def test_subtrees(name):
    parents = TREES[name]
    children, sizes = children_lists(parents), subtree_sizes(parents)
    assert [sorted(nodes) for nodes in children] == [
        np.flatnonzero(parents == node).tolist() for node in [*range(len(parents)), -1]
    ]
    assert sizes.tolist() == [1 + sum(sizes[child] for child in children[i]) for i in range(len(parents))]
    order = heavy_last_order(parents).tolist()
    for nodes in children:
        if nodes:
            last = max(nodes, key=order.index)
            assert sizes[last] == max(sizes[node] for node in nodes)
    # Depth first: the nodes of a subtree follow each other.
    for position, node in enumerate(order):
        inside = {node}
        for other in order[position + 1 : position + sizes[node]]:
            assert parents[other] in inside
            inside.add(other)


@pytest.mark.parametrize("shape", ["chain", "random", "balanced"])
def test_program_grows_with_the_registers_only(shape):
    def sizes(n: int) -> tuple[int, int, int]:
        parents = {"chain": np.arange(n) - 1, "random": random_parents(n, 0), "balanced": balanced(n.bit_length())}
        example = Example(parents[shape])
        base = {"x": jnp.asarray(example.base["x"])}
        outward, inward = equations(example.outward, base, example.data()), equations(example.inward, example.data())
        return example.schedule.registers, outward, inward

    (few, *small), (many, *large) = sizes(300), sizes(3000)
    assert many <= few + 4
    # Of every register what it holds, and whether it is the one that is meant, in two places out and three in.
    for before, after, places in zip(small, large, (2, 3), strict=True):
        assert after - before <= 3 * places * (many - few)


FORMS = {
    "inlined": backend.LoopForm(written_out=64, unroll=1, fence=3, fence_together=True, inline=True),
    "called": backend.LoopForm(written_out=64, unroll=1, fence=1),
    "blocks": backend.LoopForm(written_out=0, unroll=4, fence=1),
}


@functools.cache
def pulled_back(form: str | None):
    """Values and reverse derivatives of both sweeps over trees with branches, for a batch."""
    examples = [Example(TREES[name]) for name in ("random", "forest", "star")]

    def run(base, data):
        both = [(x.outward(base, d), x.inward(d)) for x, d in zip(examples, data, strict=True)]
        return sum(jnp.sum(jnp.sin(y)) for y in jax.tree.leaves(both)), both

    arguments = {"x": jnp.asarray(np.random.default_rng(0).normal(size=(2, 3)))}, [x.data() for x in examples]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(backend._FORMS, "gpu", FORMS.get(form))
        with jaxcfa.compiling_for("gpu" if form else "cpu"):
            of_batch = jax.vmap(jax.value_and_grad(run, (0, 1), has_aux=True), ({"x": 0}, None))
            return jax.jit(of_batch)(*arguments)


@pytest.mark.parametrize("form", FORMS)
def test_forms_for_accelerators(form):
    """Without a loop, or several nodes at a time without branches: the same values and derivatives."""
    assert_close(pulled_back(form), pulled_back(None), 1e-12)

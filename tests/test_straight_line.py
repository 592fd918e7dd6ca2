"""Functions as operations on numbers, computed one by one, against the functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import evaluation
import jaxcfa
from helpers import assert_close
from jaxcfa.one_function._straight_line import Unsupported, Value, straight_line
from mechanisms import mechanism, random_states


def evaluated(line, *arguments):
    """The results of a batch, operation by operation."""
    leaves = [np.asarray(x) for x in jax.tree.leaves(arguments)]
    size = len(leaves[0])

    def column(x, known):
        return known[x.number] if isinstance(x, Value) else np.full(size, x)

    def compute(*known):
        known = list(known)
        for operation in line.operations:
            operands = [column(x, known) for x in operation.operands]
            known.append(operation.primitive.bind(*operands, **operation.params))
            assert known[-1].dtype == operation.dtype
        return [[column(x, known) for x in leaf] for leaf in line.outputs]

    inputs = [column for x in leaves for column in x.reshape(size, -1).T]
    traced, results = jax.make_jaxpr(compute, return_shape=True)(*inputs)
    found = evaluation.evaluate(traced.jaxpr, traced.consts, inputs, evaluation.Budget(10**6))
    outputs = jax.tree.unflatten(jax.tree.structure(results), found)
    columns = [np.stack(leaf, 1) if leaf else np.zeros((size, 0)) for leaf in outputs]
    shapes = jax.tree.leaves(line.results)
    arrays = [x.reshape(size, *shape.shape).astype(shape.dtype) for x, shape in zip(columns, shapes, strict=True)]
    return jax.tree.unflatten(jax.tree.structure(line.results), arrays)


def both(function, *arguments):
    line = straight_line(function, *jax.tree.map(lambda x: x[0], arguments))
    return evaluated(line, *arguments), jax.jit(jax.vmap(function))(*arguments), line


def dynamics(model):
    def function(q, v, tau):
        qdd = jaxcfa.forward_dynamics(model, q, v, tau)
        return qdd, jaxcfa.mass_matrix(model, q), jaxcfa.inverse_dynamics(model, q, v, tau)

    return function


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("forest", "humanoid-like")]


@pytest.mark.parametrize("name", ["mixed tree", *SLOW])
def test_dynamics(name, dtype):
    model = mechanism(name, dtype.name)
    state = random_states(model, 3)
    found, expected, _ = both(dynamics(model), state.q, state.v, state.qdd)
    assert_close(found, expected)


def test_gradient():
    model = mechanism("mixed tree")
    state = random_states(model, 2)
    gradient = jax.grad(lambda *state: jnp.sum(jaxcfa.forward_dynamics(model, *state) ** 2), (0, 1, 2))
    found, expected, _ = both(gradient, state.q, state.v, state.qdd)
    assert_close(found, expected)


def test_what_is_known_costs_nothing():
    """Joints along an axis, and links without a rotation between them."""
    model, rng = jaxcfa.chain(4), np.random.default_rng(0)
    axis = rng.normal(size=3)
    turned = jaxcfa.chain(4, axes=np.tile(axis / np.linalg.norm(axis), (4, 1)))
    states = rng.normal(size=(3, 2, 4))
    counts = []
    for each in (model, turned):
        found, expected, line = both(lambda *x, each=each: jaxcfa.forward_dynamics(each, *x), *states)
        assert_close(found, expected)
        counts.append(len(line.operations))
    assert counts[0] < 0.7 * counts[1]


ZEROS = np.array([0.0, -0.0, -1.0])
A = np.random.default_rng(1).normal(size=(4, 3))
FUNCTIONS = {
    "moves": lambda x: (x[::-1, 1:], jnp.roll(x, 1, 0).T, jnp.tile(x, (2, 1)), jnp.split(x, 2), jnp.pad(x, 1)),
    "negative padding": lambda x: lax.pad(x, 1.0, ((-1, 0, 0), (0, 2, 1))),
    "indices": lambda x: (x[jnp.array([3, 0, 3])], x[:, jnp.array([[1], [2]])], jnp.take_along_axis(x, IOTA, 0)),
    "slices": lambda x: (lax.dynamic_slice(x, (1, 1), (2, 2)), lax.dynamic_update_slice(x, x[:2, :1] ** 2, (1, 2))),
    "assignments": lambda x: (x.at[jnp.array([0, 2, 0])].add(x[1]), x.at[1].set(x[0]), x.at[1, 2].multiply(1.0)),
    "products": lambda x: (x @ x.T, jnp.einsum("ij,kj->ik", x, A), jnp.einsum("ij,ik->ijk", x, x), jnp.vdot(x, x)),
    "products of two types": lambda x: (jnp.arange(8).reshape(2, 4) @ x, x.T @ A.astype(np.float32), x[0] @ IOTA.T),
    "reductions": lambda x: (x.sum(0), x.max(), x.min(1), x.prod(), (x > 0).any(0), (x > 0).all(), jnp.cumsum(x, 0)),
    "reverse sums": lambda x: (lax.cumsum(x, 1, reverse=True), lax.cumprod(x, 0), lax.cumsum(x[0], reverse=True)),
    "choices": lambda x: (jnp.where(x > 0, x, -2.0 * x), jnp.clip(x, -0.5, 0.5), jnp.maximum(x, 0), jnp.sign(x)),
    "functions": lambda x: (jnp.sin(x) / jnp.sqrt(1 + x**2), jnp.arctan2(x, x + 1), jnp.exp(-(x**3)), jnp.tanh(x)),
    "types": lambda x: (jnp.floor(x), (x > 0).astype(int) + 1, x.astype(jnp.float32)),
    "scan": lambda x: lax.scan(lambda a, b: (a + b * jnp.sum(b), (a, a[:1])), x[0], x, reverse=True),
    "scan without rows": lambda x: lax.scan(lambda a, _: (a * a + 1, None), x[0, 0], None, length=3)[0],
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, a: a.at[i].set(a[i] * i + a[0]), x),
    "branch": lambda x: lax.cond(x[0, 0] > 0, lambda a: a * 2, lambda a: a - A, x),
    "known branch": lambda x: lax.switch(2, [lambda a: a, lambda a: a + 1, lambda a: a + 2], x),
    "several branches": lambda x: jax.tree.map(lambda f: f(x), [jnp.sum, lambda a: a]),
    "zeros": lambda x: (1 / jnp.asarray(ZEROS) + 0 * x, x - 0.0, jnp.full(3, 1e300) * 1e300),
    "of nothing": lambda x: (x[:0].sum(0), x[:0].prod(), (x[:0] > 0).all(), jnp.cumsum(x[:0], 0), x[:0].T @ x[:0]),
    "nothing": lambda x: (jnp.zeros((0, 2)), jnp.ones(3), x[:0]),
    "rule": lambda x: jax.nn.relu(jax.checkpoint(jnp.sin)(x)),
}
IOTA = np.array([[0, 1, 2], [3, 0, 1]])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rules(name):
    x = np.random.default_rng(0).normal(size=(5, 4, 3))
    found, expected, _ = both(FUNCTIONS[name], x)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-13, 1e-14), found, expected)
    assert jax.tree.map(lambda a: a.dtype, found) == jax.tree.map(lambda a: a.dtype, expected)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (jnp.sort, "sort"),
        (lambda x: x[jnp.int32(x[0])], "known only at run time"),
        (lambda x: lax.while_loop(lambda a: a.sum() < 9, lambda a: 2 * a, x), "number of rounds"),
        (lambda x: jnp.linalg.eigh(jnp.outer(x, x))[0], "eigh"),
        (lambda x: jax.random.normal(jax.random.key(0), x.shape) + x, "random"),
    ],
)
def test_unsupported(function, words):
    with pytest.raises(Unsupported, match=words):
        straight_line(function, jnp.ones(3))

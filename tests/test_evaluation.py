"""What evaluates the programs of the tests in the place of XLA gives XLA's results."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import evaluation
import jaxcfa
from evaluation import most_evaluations

rng = np.random.default_rng(0)
LOWER = np.tril(rng.normal(size=(2, 4, 4))) + 3 * np.eye(4)
DEFINITE = LOWER @ np.swapaxes(LOWER, 1, 2)
WIDE, HIGH = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 4, 3))
BOX = rng.normal(size=(5, 6, 7))
ROWS = np.array([1, 2, 3, 9, 0])  # one of them outside
PLACES = np.array([[0, 9], [2, -1], [-8, 4]])
MODES = "fill", "clip", "promise_in_bounds"
CHANGES = "add", "set", "multiply", "min", "max"


def triangular(a, b, c):
    """In all eight ways."""
    ways = [(lower, transposed) for lower in (True, False) for transposed in (True, False)]
    for lower, transposed in ways:
        matrix = a if lower else jnp.swapaxes(a, 1, 2)
        for side, right in ((True, c), (False, b)):
            yield lax.linalg.triangular_solve(matrix, right, left_side=side, lower=lower, transpose_a=transposed)


def taken(x, places):
    for mode in MODES:
        i = jnp.clip(places, 0, 4) if mode == "promise_in_bounds" else places
        yield x.at[i].get(mode=mode)
        yield x.at[:, i, 2].get(mode=mode)
        yield x.at[i[:, 0], 1:3, i[:, 1]].get(mode=mode)
        for change in CHANGES:
            yield getattr(x.at[i[:, 0]], change)(2.0, mode=mode)
            yield getattr(x.at[i[:1, 0], 1:3, i[:1, 1]], change)(jnp.arange(1.0, 3.0), mode=mode)


def along(x):
    yield jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cummax(x, 1, reverse=True), lax.cumsum(x, 2, reverse=True)
    yield x.sum((0, 2)), x.max(1), x.argmax(2), jnp.any(x > 1, 0), jnp.all(x > -9), x.prod(0)
    yield jnp.min(x[:, :0], 1, initial=3.0), lax.pad(x, 0.0, ((1, -1, 2), (-1, 3, 0), (0, 0, 1))), x[::-1, ::2]
    yield lax.sort((x, -x), num_keys=1, dimension=1), jnp.tril(x), jnp.roll(x, 2, 1), jnp.split(x, [2, 3], 1)


def numbers(x):
    yield x.astype(jnp.int32), x.astype(bool), x.astype(jnp.float32), jnp.round(x), lax.round(x), jnp.sign(x)
    yield x**-2, x**3, jnp.abs(x) ** 0.3, jnp.logaddexp(x, 1.0), jnp.arctan2(x, 2.0), lax.rsqrt(x * x + 1)
    yield jnp.hypot(x, 1.0), jnp.cbrt(x), jax.nn.softplus(x), jax.scipy.special.erf(x), jnp.sinc(x), 1 / (0 * x)


def integers(a, b):
    yield a // b, a % b, lax.div(a, b), lax.rem(a, b), a << 1, a >> 1, jnp.bitwise_count(b), ~a, a.astype(bool)


def products(x, y):
    yield jnp.einsum("ijk,ilk->jil", x, y), jnp.einsum("ijk,ijk->", x, y), jnp.einsum("ijk,lmk->iljm", x, y)


def programs(x):
    yield lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 2), (0, x))
    yield jax.vmap(lambda y: lax.while_loop(lambda c: jnp.any(c < 9), lambda c: 2 * c + 1, y))(jnp.abs(x))
    yield lax.switch(2, [lambda x: x, lambda x: 2 * x, lambda x: 3 * x], x)
    yield lax.scan(lambda c, a: (c + a, (c * a, a.sum())), jnp.zeros((6, 7)), x, reverse=True)
    yield jax.hessian(lambda y: jnp.sum(jnp.sin(jnp.linalg.solve(y, y[0]))))(x[0, :3, :3])
    model = jaxcfa.chain(2)
    yield jax.vmap(jax.grad(lambda q: jnp.sum(jaxcfa.forward_dynamics(model, q, q, q))))(x[0, :, :2])


def decompositions(a, b):
    yield jnp.linalg.cholesky(a), jnp.linalg.solve(a, b), jnp.linalg.svd(a)[1], jnp.linalg.eigh(a)[0]
    yield jnp.linalg.cholesky(-a), jnp.linalg.solve(a, b)
    yield jnp.linalg.inv(a), jnp.linalg.det(a), jnp.linalg.qr(b)[1], jnp.linalg.pinv(b)


def batches(x, rows):
    yield jax.vmap(lambda x, i: x[i])(x, rows), jax.vmap(lambda x, i: x.at[i].set(7.0))(x, rows)
    yield jnp.take_along_axis(x, rows[:, None, None] % 4, 1), jax.random.normal(jax.random.key(rows[0]), (3,))


def randomness(seed):
    key = jax.random.key(seed)
    keys = jax.random.split(key, (2, 3))
    yield jax.random.normal(key, (3, 2)), jax.random.uniform(keys[1, 0], (), jnp.float32)
    yield jax.random.bits(key, 5, "uint8"), jax.random.bits(key, (), "uint64")
    yield jax.random.key_data(keys[::-1]), jax.random.randint(key, (4,), 0, 9), jax.random.permutation(key, 5)
    yield jax.vmap(jax.vmap(lambda key: jax.random.normal(key, 2)))(keys)
    yield jax.vmap(lambda i: jax.random.key_data(jax.random.fold_in(key, i)))(jnp.arange(-1, 3))
    yield jax.vmap(lambda key, i: jax.random.uniform(jax.random.fold_in(key, i)))(keys[0], jnp.arange(3))
    yield lax.scan(lambda key, i: (jax.random.fold_in(key, i), jax.random.bits(key)), key, jnp.arange(4))[1]
    yield jax.random.key_data(lax.scan(lambda c, key: (c, key), 0, keys[0], reverse=True)[1])
    yield jax.random.bits(jnp.where(seed > 0, keys[0, :2], keys[1, 1:]).reshape(2, 1)[0, 0], 3)


CASES = {
    triangular: (LOWER, WIDE, HIGH),
    taken: (BOX, PLACES),
    along: (BOX,),
    numbers: (BOX,),
    integers: (np.array([7, -7, 7, -7]), np.array([2, 2, -2, -3])),
    products: (BOX, BOX[::-1]),
    programs: (BOX,),
    decompositions: (DEFINITE, HIGH),
    batches: (BOX, ROWS),
    randomness: (3,),
}


@pytest.mark.compiled
@pytest.mark.parametrize("operations", CASES, ids=lambda x: x.__name__)
def test_results_are_those_of_compiled_programs(operations):
    def run(*arguments):
        return list(operations(*arguments))

    arguments = CASES[operations]
    traced = jax.make_jaxpr(run)(*arguments)
    found = evaluation.evaluate(traced.jaxpr, traced.consts, arguments, evaluation.Budget(10**6))
    expected = jax.tree.leaves(jax.jit(run)(*arguments))
    assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in expected]
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


def test_what_turns_often_is_compiled():
    def turns(n):
        return jax.make_jaxpr(lambda x: lax.fori_loop(0, n, lambda _, y: jnp.sin(y), x))(1.0)

    for n, pays in ((5, True), (5000, False)):
        assert (most_evaluations(turns(n).jaxpr) > 0) is pays
    unknown = turns(jnp.asarray(5000))
    budget = evaluation.Budget(most_evaluations(unknown.jaxpr))
    with pytest.raises(evaluation.TooLongError):
        evaluation.evaluate(unknown.jaxpr, unknown.consts, (1.0,), budget)

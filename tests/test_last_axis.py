"""Programs of many states along the last axis of every array, against `jax.vmap`."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from helpers import assert_close
from jaxcfa.one_function import _last_axis
from jaxcfa.one_function._last_axis import along_last_axis

SIZE = 6  # states, more than any other axis has


def numberwise(x, y, s, i):
    where = x > s
    return jnp.where(where, x, y), jnp.where(s > 0, x, -x), lax.clamp(-s, x, s), x**2 + s, where & (x < 1)


def shapes(x, y, s, i):
    stacked = jnp.stack([y, jnp.ones(4), s * y])
    parts = jnp.split(x, [1], axis=1)
    return [
        x.reshape(4, 3),
        x.T,
        x[:, None, ::2],
        x[1, 1:],
        jnp.squeeze(x[:1]),
        jnp.concatenate([x, jnp.ones((1, 4)), y[None]]),
        *parts,
        *jnp.unstack(x),
        stacked,
        jnp.pad(x, ((1, 2), (0, 1))),
        lax.pad(x, 0.0, [(-1, 0, 0), (1, 0, 1)]),
        lax.pad(y, y[0], [(1, 0, 1)]),
        jnp.flip(x, 1),
        jnp.broadcast_to(y[:, None], (2, 4, 3)),
    ]


def along_axes(x, y, s, i):
    sums = jnp.sum(x, 0), jnp.max(x), jnp.min(x, 1), jnp.prod(y), jnp.any(x > s), jnp.all(x > s, 1)
    both = lax.sort((x, jnp.ones((3, 4))), dimension=0, num_keys=1)
    return sums, jnp.cumsum(x, 1), lax.cummax(x, 0), jnp.argmax(x, 0), jnp.argmin(y), jnp.sort(x, 1), both


def at_indices(x, y, s, i):
    own = jnp.argmax(y)  # of each state
    return [
        x[i],
        x[own],
        y[jnp.array([2, 0, 2])],
        x[:, jnp.array([1, 3])],
        jnp.take(jnp.arange(4.0), own),
        x.at[i].set(y),
        x.at[own % 3].add(1.0),
        jnp.zeros((3, 4)).at[jnp.array([0, 2]), 1].set(y[:2]),
        lax.dynamic_update_slice(jnp.ones((3, 4)), y[None, :2], (i, 1)),
        lax.dynamic_update_slice(x, jnp.ones((2, 2)), (own % 2, i)),
    ]


def products(x, y, s, i):
    wide = jnp.concatenate([x, 2 * x, x**2], axis=1)  # (3, 12)
    constant = jnp.arange(12.0).reshape(4, 3)
    blocks = jnp.stack([x, x + 1])  # (2, 3, 4)
    return [
        x @ y,
        y @ y,
        x @ constant,
        constant @ x,
        wide @ wide.T,
        jnp.einsum("bij,bkj->bik", blocks, 2 * blocks),
        jnp.einsum("bij,j->ib", blocks, y),
        jnp.einsum("ij,kl->ikjl", x, constant),
        x[:, :0] @ constant[:0],
        jnp.arange(3) @ (x > 0).astype(int),
    ]


def loops(x, y, s, i):
    def grows(carry, row):
        constant, total, _ = carry
        return (constant, total + row * constant, total), (total, constant)

    def inner(carry, row):
        return lax.scan(lambda c, a: (c + a, c * s), carry, row, reverse=True)

    def until(carry):
        return carry[0] < s * 4, carry

    return [
        lax.scan(grows, (s, jnp.zeros(4), jnp.zeros(4)), x),
        lax.scan(grows, (s, jnp.zeros(4), jnp.zeros(4)), jnp.ones((3, 4))),
        lax.scan(inner, s, x),
        lax.scan(lambda c, _: (c + 1, c), y, None, length=3, unroll=2),
        lax.while_loop(lambda c: until(c)[0], lambda c: (c[0] + 1.0, c[1] * 2), (y[0], y)),
        lax.fori_loop(0, 3, lambda k, c: c + x[k], y),
        lax.cond(s > 0, lambda a: (a, s), lambda a: (2 * a, s), y),
        lax.cond(y[0] > 0, lambda a: a, lambda a: 2 * a, y),
        lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], y),
    ]


@jax.custom_vjp
def with_own_gradient(x):
    return jnp.sin(x)


with_own_gradient.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (2 * g * x,))


def calls(x, y, s, i):
    matrix = x @ x.T + 3 * jnp.eye(3)
    return [
        jax.jit(lambda a: (a * s, s))(x),
        jax.nn.relu(x),
        with_own_gradient(x),
        jax.checkpoint(jnp.sin)(y),
        lax.custom_linear_solve(lambda v: matrix @ v, y[:3], lambda _, b: jnp.linalg.solve(matrix, b), symmetric=True),
        jnp.linalg.cholesky(matrix),
        jnp.linalg.eigh(matrix)[0],
        jax.random.normal(jax.random.fold_in(jax.random.key(0), jnp.argmax(y)), (2,)),
        jax.grad(lambda y: jnp.sum(jnp.sin(x @ y) ** 2))(y),
        jax.hessian(lambda y: jnp.sum(jnp.sin(x @ y) ** 2))(y),
        lax.optimization_barrier((x, s, y)),
        (s, 3.0, jnp.zeros(0), jnp.arange(3)),
    ]


def test_every_operation_is_that_of_vmap():
    """Also of states that differ in one argument only, so that operands with and without the axis meet."""
    functions = numberwise, shapes, along_axes, at_indices, products, loops, calls
    draws = np.random.default_rng(0)
    x, y = jnp.asarray(draws.normal(size=(SIZE, 3, 4))), jnp.asarray(draws.normal(size=(SIZE, 4)))
    s, i = jnp.asarray(0.7), jnp.asarray(1)

    def everything(way):
        return [
            way(function, varies, (x if varies[0] else x[0], y if varies[1] else y[0], s, i))
            for varies in ((True, True), (True, False), (False, True))
            for function in functions
        ]

    def along_last(function, varies, arguments):
        varies = (*varies, False, False)
        one = [a[0] if own else a for a, own in zip(arguments, varies, strict=True)]
        program, shape = jax.make_jaxpr(function, return_shape=True)(*one)
        given = [jnp.moveaxis(a, 0, -1) if own else a for a, own in zip(arguments, varies, strict=True)]
        found = along_last_axis(program, varies, SIZE)(*given)
        return jax.tree.unflatten(jax.tree.structure(shape), [jnp.moveaxis(a, -1, 0) for a in found])

    def by_vmap(function, varies, arguments):
        return jax.vmap(function, [0 if own else None for own in (*varies, False, False)])(*arguments)

    found, expected = (jax.jit(lambda way=way: everything(way))() for way in (along_last, by_vmap))
    assert_close(found, expected, rtol=1e-12)
    dtypes = [[a.dtype for a in jax.tree.leaves(results)] for results in (found, expected)]
    assert dtypes[0] == dtypes[1]


def test_what_has_rules_is_not_left_to_vmap(monkeypatch):
    """Numbers of axes are not moved, then."""
    monkeypatch.setattr(_last_axis, "_by_vmap", lambda step, *_: (_ for _ in ()).throw(AssertionError(step)))

    def ruled(x, y):
        carry, every = lax.scan(lambda c, row: (jnp.sin(c) + row @ y, c), 0.0, x)
        return x @ y + carry, every[1:], jnp.pad(x.T, 1), jnp.stack([y, x[0]]), x[jnp.array([2, 0])], x.at[1].set(y)

    program = jax.make_jaxpr(ruled)(jnp.ones((3, 4)), jnp.ones(4))
    found = along_last_axis(program, (True, True), SIZE)(jnp.ones((3, 4, SIZE)), jnp.ones((4, SIZE)))
    assert all(x.shape[-1] == SIZE for x in found)

"""Scans, recurrences and block-bidiagonal operators against loops and dense linear algebra."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from helpers import assert_close, tolerance, traced_again
from jaxcfa.structured import Associative, BlockBidiagonal, Chunked, Doubling, Sequential, affine_scan, prefix_sum
from program_size import equations, loop_trips

SCHEDULES = [Sequential(), Associative(), Doubling(), Chunked(4)]
SIZES = [1, 2, 3, 5, 17, 64, 1000]


@functools.cache
def random_recurrence(n, k, m):
    rng = np.random.default_rng(n * k)
    return rng.normal(size=(n, k, k)) * 0.5 / math.sqrt(k), rng.normal(size=(n, k, m))


def by_loop(a, b, x, reverse=False):
    result = np.zeros(b.shape)
    for i in reversed(range(len(a))) if reverse else range(len(a)):
        x = result[i] = a[i] @ x + b[i]
    return result


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_recurrence(schedule):
    """Of all sizes, in both directions, in one program. The largest takes long to compile without a loop."""
    sizes = SIZES[:-1] if schedule == Associative() else SIZES
    systems = {n: random_recurrence(n, 2, 3) for n in sizes}
    x0 = np.ones((2, 3))

    @jax.jit
    def both(systems, x0):
        ways = (False, True)
        return {n: [affine_scan(*x, schedule, x0, reverse=reverse) for reverse in ways] for n, x in systems.items()}

    for n, (forward, backward) in both(systems, x0).items():
        assert_close(forward, by_loop(*systems[n], x0), what=f"n={n}")
        assert_close(backward, by_loop(*systems[n], x0, reverse=True), what=f"n={n}, reverse")


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_block_sizes_and_precisions(schedule, dtype):
    systems = {k: tuple(x.astype(dtype) for x in random_recurrence(5, k, 1)) for k in (1, 6, 10)}
    scans = jax.jit(lambda systems: {k: affine_scan(a, b[..., 0], schedule) for k, (a, b) in systems.items()})
    for k, x in scans(systems).items():
        assert x.dtype == dtype
        assert_close(x, by_loop(*systems[k], np.zeros((k, 1)))[..., 0], tolerance(dtype), f"k={k}")


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_derivatives_are_those_of_the_recurrence(schedule):
    a, b = random_recurrence(5, 2, 1)

    def solve(a, b, x0):
        return affine_scan(a, b[..., 0], schedule, x0)

    check_grads(jax.jit(solve), (a, b, np.ones(2)), order=1, modes=["fwd", "rev"])


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_vmap(schedule):
    a, b = random_recurrence(5, 2, 3)
    x = jax.jit(jax.vmap(lambda b: affine_scan(a, b, schedule), in_axes=2, out_axes=2))(b)
    assert_close(x, by_loop(a, b, np.zeros((2, 3))))
    scale = np.array([1.0, -1.0])
    x = jax.jit(jax.vmap(lambda s: affine_scan(s * a, b, schedule)))(scale)
    assert_close(x[1], by_loop(-a, b, np.zeros((2, 3))))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_any_associative_operation(schedule, reverse):
    """Here one that does not commute, on a pytree: joining strings of digits, kept as value and length."""

    def join(a, b):
        return {"value": a["value"] * 10.0 ** b["length"] + b["value"], "length": a["length"] + b["length"]}

    digits = {"value": jnp.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), "length": jnp.ones(6)}
    joined = jax.jit(lambda x: schedule.scan(join, x, reverse))(digits)
    expected = [6, 65, 654, 6543, 65432, 654321][::-1] if reverse else [1, 12, 123, 1234, 12345, 123456]
    assert_close(joined["value"], np.array(expected, float))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_prefix_sum(schedule, dtype):
    x = np.random.default_rng(0).normal(size=(50, 3)).astype(dtype)
    sums = jax.jit(lambda x: prefix_sum({"x": x}, schedule)["x"])
    assert sums(x).dtype == dtype
    assert_close(sums(x), np.cumsum(x, axis=0))
    _, transpose = jax.vjp(sums, x)
    assert_close(transpose(x)[0], np.cumsum(x[::-1], axis=0)[::-1])


def test_prefix_sum_from_the_end():
    assert_close(prefix_sum(np.arange(1.0, 6.0), reverse=True), np.array([15.0, 14.0, 12.0, 9.0, 5.0]))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_prefix_sums_of_booleans_count(schedule):
    sums = prefix_sum(np.array([True, False, True, True]), schedule)
    assert jnp.issubdtype(sums.dtype, jnp.integer)
    np.testing.assert_array_equal(sums, [1, 1, 2, 3])


@pytest.mark.parametrize("n", [1, 2, 5])
def test_block_bidiagonal_matches_its_dense_matrix(n):
    blocks, c = random_recurrence(n, 3, 2)
    lower = BlockBidiagonal(blocks)
    for operator in (lower, lower.T, lower.T.T):
        dense = np.asarray(operator.as_matrix())
        assert_close(np.reshape(operator.mv(c), (n * 3, 2)), dense @ c.reshape(n * 3, 2))
        x = jax.jit(lambda operator, c: operator.solve(c))(operator, c)
        assert_close(operator.mv(x), c)
    np.testing.assert_array_equal(lower.T.as_matrix(), lower.as_matrix().T)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_transpose_duality(schedule):
    """`<y, L^-1 c> = <L^-T y, c>`."""
    blocks, c = random_recurrence(17, 3, 1)
    y = np.random.default_rng(1).normal(size=c.shape)
    operator = BlockBidiagonal(blocks)
    outward = jax.jit(lambda c: operator.solve(c, schedule))
    inward = jax.jit(lambda y: operator.T.solve(y, schedule))
    assert_close(jnp.vdot(y, outward(c)), jnp.vdot(inward(y), c))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_nothing_to_do(schedule):
    assert affine_scan(np.zeros((0, 3, 3)), np.zeros((0, 3)), schedule, np.ones(3)).shape == (0, 3)
    assert affine_scan(np.zeros((4, 0, 0)), np.zeros((4, 0)), schedule).shape == (4, 0)
    assert BlockBidiagonal(np.zeros((0, 3, 3))).as_matrix().shape == (0, 0)


@pytest.mark.parametrize("schedule", [Sequential(), Doubling(), Chunked(4)], ids=str)
def test_program_does_not_grow(schedule):
    def size(n):
        return equations(lambda a, b: affine_scan(a, b, schedule), *random_recurrence(n, 2, 1))

    assert size(64) == size(1000)


def test_depth_of_doubling():
    def trips(n):
        return loop_trips(lambda x: Doubling().scan(jnp.add, x), np.ones(n))

    assert [trips(n) for n in (1, 2, 3, 17, 64, 65, 1000)] == [0, 1, 2, 5, 6, 7, 10]


def test_the_start_is_promoted_too():
    narrow = jnp.ones((1, 1, 1), jnp.float32)
    found = affine_scan(narrow, narrow[0], x0=np.full(1, 0.1))
    assert found.dtype == jnp.float64
    assert_close(found, jnp.full((1, 1), 1.1))


def test_schedules_are_hashable():
    assert len({Sequential(), Doubling(), Chunked(4), Chunked(4), Chunked(5)}) == 4


def test_invalid_arguments():
    a = np.zeros((4, 3, 3))
    with pytest.raises(ValueError, match="square blocks"):
        affine_scan(np.zeros((4, 3, 2)), np.zeros((4, 3)))
    with pytest.raises(ValueError, match=r"b must have shape \(n, k\) = \(4, 3\)"):
        affine_scan(a, np.zeros((3, 3)))
    with pytest.raises(ValueError, match="x0 must have the shape of one step"):
        affine_scan(a, np.zeros((4, 3)), x0=np.zeros(2))
    with pytest.raises(ValueError, match=r"jax\.vmap"):
        BlockBidiagonal(np.zeros((2, 4, 3, 3)))
    with pytest.raises(ValueError, match="one leading axis"):
        Doubling().scan(jnp.add, (np.zeros(3), np.zeros(4)))
    with pytest.raises(ValueError, match=r"got shapes \(\), \(\)"):
        prefix_sum([1.0, 2.0])
    with pytest.raises(ValueError, match="must be real, got dtype complex"):
        affine_scan(a, np.zeros((4, 3)), x0=np.zeros(3) * 1j)
    with pytest.raises(ValueError, match="must be real, got dtype complex"):
        affine_scan(a * 1j, np.zeros((4, 3)))


@pytest.mark.parametrize("schedule", [Sequential(), Doubling()], ids=str)
def test_calls_outside_of_programs_are_traced_once(caplog, schedule):
    a, b = random_recurrence(5, 2, 1)

    def call():
        BlockBidiagonal(a).T.solve(affine_scan(a, b, schedule, reverse=True), schedule)
        prefix_sum(b, schedule)

    assert traced_again(caplog, call) == []

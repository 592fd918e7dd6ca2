"""Quadratic functions within bounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import assert_close
from jaxcfa.structured._box_quadratic import box_quadratic


def problem(seed: int, n: int, rows: int, dtype=np.float64) -> tuple[np.ndarray, ...]:
    """Some bounds are infinite, some are zero, and some meet."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(rows, n))
    lower, upper = (rng.choice([0, 0.1, 1, np.inf], n) for _ in range(2))
    found = a.T @ a + 1e-3 * np.eye(n), a.T @ rng.normal(size=rows), -lower, upper
    return tuple(np.asarray(x, dtype) for x in found)


@pytest.mark.parametrize(("n", "rows"), [(1, 1), (2, 3), (7, 6), (20, 10), (20, 25)])
def test_no_bound_can_be_left_and_nothing_else_made_less(n, rows, dtype):
    """In a batch: the slope is zero of what no bound holds, and leads beyond the bound of the others."""
    batch = [np.stack(x) for x in zip(*(problem(seed, n, rows, dtype) for seed in range(20)), strict=True)]
    x = np.asarray(jax.jit(jax.vmap(box_quadratic))(*batch))
    assert x.dtype == dtype
    hessian, gradient, lower, upper = batch
    assert np.all((x >= lower) & (x <= upper))
    slope = np.einsum("bij,bj->bi", hessian, x) + gradient
    held = (x <= lower) & (slope > 0) | (x >= upper) & (slope < 0)
    assert np.any(held)
    scale = np.abs(gradient).max()
    assert np.max(np.where(held, 0, np.abs(slope))) <= (1e-13 if dtype == np.float64 else 1e-5) * scale


def test_derivatives_of_any_order_are_those_of_differences():
    hessian, gradient, lower, upper = problem(2, 7, 9)
    root = np.linalg.cholesky(hessian)
    weights = np.linspace(1, 2, 7)

    def value(root, gradient, scale):
        ends = (jnp.where(np.isfinite(x), np.where(np.isfinite(x), x, 1) * scale, x) for x in (lower, upper))
        return weights @ box_quadratic(root @ root.T, gradient, *ends) ** 3

    x = box_quadratic(hessian, gradient, lower, upper)
    assert 0 < np.sum((x == lower) | (x == upper)) < 6
    point, rng = (jnp.asarray(root), jnp.asarray(gradient), jnp.asarray(1.0)), np.random.default_rng(0)
    direction = [jnp.asarray(rng.normal(size=np.shape(x))) for x in point]
    along = jax.jit(lambda t: value(*(x + t * d for x, d in zip(point, direction, strict=True))))
    first, second = jax.jit(jax.grad(along)), jax.jit(jax.grad(jax.grad(along)))
    h = 1e-5
    assert_close(first(0.0), (along(h) - along(-h)) / (2 * h), 1e-7)
    assert_close(second(0.0), (first(h) - first(-h)) / (2 * h), 1e-7)
    assert_close(jax.jvp(first, (0.0,), (1.0,))[1], np.asarray(second(0.0)), 1e-12)

"""Identities of reciprocal bases, on random mass matrices and constraints."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import assert_close
from jaxcfa.structured import change_of_basis


def problem(n, r, dtype=np.float64):
    rng = np.random.default_rng(n + r)
    root = rng.normal(size=(n, n))
    return (root @ root.T + np.eye(n)).astype(dtype), rng.normal(size=(n, r)).astype(dtype)


@pytest.mark.parametrize(("n", "r"), [(6, 1), (6, 3), (6, 6), (6, 0), (1, 1), (20, 7)])
def test_identities(n, r, dtype):
    mass, free = problem(n, r, dtype)
    # As numpy's, whose products are of full precision on every device.
    bases = jax.tree.map(np.asarray, jax.jit(change_of_basis)(mass, free))
    assert {x.dtype for x in jax.tree.leaves(bases)} == {np.dtype(dtype)}
    motions = np.hstack([bases.free, bases.blocked])
    forces = np.hstack([bases.active, bases.constraint])
    assert_close(motions.T @ forces, np.eye(n))
    decoupled = motions.T @ mass @ motions
    assert_close(decoupled[:r, r:], np.zeros((r, n - r)))
    inverse = np.linalg.inv(mass)
    assert_close(decoupled[r:, r:], np.linalg.inv(bases.constraint.T @ inverse @ bases.constraint))
    # Constrained = unconstrained - immobilised.
    constrained = free @ np.linalg.inv(free.T @ mass @ free) @ free.T
    immobilised = bases.blocked @ bases.constraint.T @ inverse
    assert_close(constrained, inverse - immobilised)


def test_any_active_basis_serves_on_the_right_hand_side():
    """`T' (right-hand side) T' = (S1^T M S1)^-1` for every T' with S1^T T' = 1."""
    mass, free = problem(6, 2)
    bases = change_of_basis(mass, free)
    inverse = np.linalg.inv(mass)
    right = inverse - bases.blocked @ bases.constraint.T @ inverse
    other = bases.active + bases.constraint @ np.random.default_rng(0).normal(size=(4, 2))
    assert_close(other.T @ right @ other, np.linalg.inv(free.T @ mass @ free))


def test_derivatives_and_batches():
    mass, free = problem(4, 2)

    def projector(scale):
        bases = change_of_basis(mass, free + scale * jnp.eye(4, 2))
        return bases.free @ bases.active.T

    h = 1e-5
    rate = jax.jacfwd(projector)(0.3)
    assert_close(rate, (projector(0.3 + h) - projector(0.3 - h)) / (2 * h), 1e-8)
    assert_close(jax.vmap(projector)(jnp.array([0.3, 0.5]))[1], projector(0.5))


@pytest.mark.parametrize("free", [problem(5, 2)[1], np.eye(5, 2)], ids=["any", "unit vectors"])
def test_derivatives_of_both_sides_are_equal(free):
    """Constrained = unconstrained - immobilised, in both modes and twice; also where the columns are unit vectors."""
    mass, other = problem(5, 2)

    def constrained(x):
        moved = free + x * other
        return moved @ jnp.linalg.inv(moved.T @ mass @ moved) @ moved.T

    def unconstrained_less_immobilised(x):
        bases, inverse = change_of_basis(mass, free + x * other), jnp.linalg.inv(mass)
        return inverse - bases.blocked @ bases.constraint.T @ inverse

    for derivative in (jax.jacfwd, jax.jacrev, lambda f: jax.jacfwd(jax.jacfwd(f))):
        expected, found = (jax.jit(derivative(f))(0.0) for f in (constrained, unconstrained_less_immobilised))
        assert_close(found, np.asarray(expected))


def test_shapes_are_checked():
    with pytest.raises(ValueError, match=r"got \(4, 4\) and \(3, 2\)"):
        change_of_basis(np.eye(4), np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"got \(\) and \(\)"):
        change_of_basis(1.0, 1.0)

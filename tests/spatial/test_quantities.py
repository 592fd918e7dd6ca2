"""The algebra by components against arrays."""

import jax
import jax.numpy as jnp
import numpy as np

from helpers import assert_close
from jaxcfa.spatial import (
    ArticulatedInertia,
    Force,
    Inertia,
    Matrix,
    Motion,
    Pose,
    RigidInertia,
    Symmetric,
    Transform,
    TurnedForces,
    Vector,
    rotation_exp,
    shift_force,
    shift_motion,
)

RNG = np.random.default_rng(3)
A, B = RNG.normal(size=(2, 5, 3, 3))
S = A + np.swapaxes(A, 1, 2)
X, Y, R = RNG.normal(size=(3, 5, 3))
M, F = RNG.normal(size=(2, 5, 6))
TURN = np.asarray(rotation_exp(jnp.asarray(X)))
MASS = np.linspace(1.0, 2.0, 5)
# `[w; v + w x r]` as a matrix.
SHIFT = np.tile(np.eye(6), (5, 1, 1))
SHIFT[:, 3:, :3] = np.cross(np.eye(3), R[:, None]).swapaxes(1, 2)


def product(a, b):
    return np.einsum("nij,nj...->ni...", a, b)


def _turned(inertia, velocity, wrench, theta, r):
    """Of momenta: `2 B m`, both ways. Of a wrench at r: its change, both ways."""
    m = Motion(theta, Vector.of(X + R))
    twice = velocity.cross_force(inertia @ m) + m.cross_force(inertia @ velocity)
    less = inertia @ velocity.cross(m)
    momenta, loads = TurnedForces.of_momentum(inertia, velocity), TurnedForces.of_wrench(wrench, r)
    changed = Force(theta.cross(wrench.moment), theta.cross(wrench.force)).carried(r)
    return (
        ((momenta @ theta * 2.0).array(), (twice - less).array()),
        ((loads @ theta).array(), changed.array()),
        (momenta.transposed(velocity).dot(theta), velocity.dot(momenta @ theta)),
    )


@jax.jit
def everything():
    a, b, s, x, y, r = Matrix.of(A), Matrix.of(B), Symmetric.of(S), Vector.of(X), Vector.of(Y), Vector.of(R)
    motion, force, turn = Motion.of(M), Force.of(F), Matrix.of(TURN)
    rigid = RigidInertia.of_com(jnp.asarray(MASS), jnp.asarray(Y), jnp.asarray(S))
    articulated = ArticulatedInertia.of(
        jnp.asarray(np.concatenate([np.concatenate([S, A], 2), np.concatenate([A.swapaxes(1, 2), S + 1], 2)], 1))
    )
    return {
        "algebra": (
            (x + y - x * 2.0).array(),
            x.cross(y).array(),
            x.dot(y),
            (a @ x).array(),
            (a @ b.T - a).array(),
            (s @ x).array(),
            s.congruent(a).array(),
        ),
        "vectors": (
            motion.at(r).array(),
            force.carried(r).array(),
            motion.dot(force),
            motion.rotated(turn).array(),
            Motion.columns(jnp.asarray(np.stack([M, F], -1))).matrix(),
        ),
        "rigid": (
            (rigid @ motion).array(),
            (rigid.rotated(turn) @ motion).array(),
            (rigid.carried(r) @ motion).array(),
        ),
        "turned": _turned(rigid, motion, force, x, r),
        "gyroscopic": rigid.gyroscopic(x).array(),
        "articulated": (
            (articulated @ motion).array(),
            articulated.plus(rigid).array() - articulated.array(),
            articulated.carried(r).array(),
            articulated.less_outer(force, force).array() - articulated.array(),
            articulated.array(),
        ),
        "pose": (Pose.of(Transform(TURN, X)) @ Pose.of(Transform(TURN, Y))).arrays(),
    }


def test_components_are_arrays():
    found = everything()
    assert_close(
        found["algebra"],
        (
            Y - X,
            np.cross(X, Y),
            np.sum(X * Y, 1),
            product(A, X),
            product(A, B.swapaxes(1, 2)) - A,
            product(S, X),
            product(A, product(S, A.swapaxes(1, 2))),
        ),
        1e-14,
    )
    both = np.stack([M, F], -1)
    assert_close(
        found["vectors"],
        (
            shift_motion(M, R),
            shift_force(F, R),
            np.sum(M * F, 1),
            np.concatenate([product(TURN, M[:, :3]), product(TURN, M[:, 3:])], 1),
            both,
        ),
        1e-14,
    )


def test_inertias_are_matrices():
    found = everything()
    inertia = Inertia.from_com(jnp.asarray(MASS), jnp.asarray(Y), jnp.asarray(S))
    assert_close(found["rigid"], (inertia.mv(M), inertia.rotated(TURN).mv(M), inertia.shifted(R).mv(M)), 1e-13)
    # Turning about the origin, which rests, changes the momentum by `w x*`.
    momentum = inertia.mv(jnp.asarray(np.concatenate([X, 0 * X], 1)))
    rates = np.concatenate([np.cross(X, momentum[:, :3]), np.cross(X, momentum[:, 3:])], 1)
    assert_close(found["gyroscopic"], rates, 1e-13)
    moved, added, shifted, less, matrix = found["articulated"]
    matrix = np.asarray(matrix)
    assert_close(moved, product(matrix, M), 1e-13)
    assert_close(added, inertia.as_matrix(), 1e-13)
    assert_close(shifted, product(SHIFT.swapaxes(1, 2), product(matrix, SHIFT)), 1e-13)
    assert_close(less, -F[:, :, None] * F[:, None], 1e-13)


def test_poses_compose():
    expected = Transform(TURN, X) @ Transform(TURN, Y)
    assert_close(everything()["pose"], jax.tree.map(np.asarray, expected), 1e-14)


def test_forces_that_turn():
    for found, expected in everything()["turned"]:
        assert_close(found, expected, 1e-13)

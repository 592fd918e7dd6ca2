"""Residuals of constraints between two bodies, as these move.

A residual as the pose of one frame, or the place of one point, relative to the other is differentiated as that: then
velocities and accelerations of bodies enter in closed form. Any other is differentiated as it stands.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import AbstractFrameConstraint, AbstractPointConstraint, AbstractPoseConstraint
from ..numerics import cross, matmul, matvec, skew, transpose
from ..spatial import Transform


class MovingBody(eqx.Module):
    """Pose, velocity and (classical) acceleration of a body, world axes; or of m bodies, to be mapped over."""

    pose: Transform
    velocity: Float[Array, "*m 6"]
    acceleration: Float[Array, "*m 6"]

    def point(self, lever: Float[Array, "3"]) -> tuple[Array, Array, Array]:
        """Position, velocity and acceleration of a point of the body, `lever` from its origin."""
        spin = self.velocity[:3]
        around = cross(spin, lever)
        velocity = self.velocity[3:] + around
        acceleration = self.acceleration[3:] + cross(self.acceleration[:3], lever) + cross(spin, around)
        return self.pose.translation + lever, velocity, acceleration


class _Turn(NamedTuple):
    """A rotation with its angular velocity and acceleration, in the axes that it leads to."""

    rotation: Float[Array, "3 3"]
    velocity: Float[Array, "3"]
    acceleration: Float[Array, "3"]

    def at(self, t: Float[Array, ""]) -> Float[Array, "3 3"]:
        """The rotation at time t, to second order."""
        w = skew(self.velocity)
        turn = jnp.eye(3, dtype=w.dtype) + t * w + 0.5 * t**2 * (skew(self.acceleration) + matmul(w, w))
        return matmul(turn, self.rotation)


class _Path(NamedTuple):
    """A position with its first two derivatives in time."""

    position: Float[Array, "3"]
    velocity: Float[Array, "3"]
    acceleration: Float[Array, "3"]

    def at(self, t: Float[Array, ""]) -> Float[Array, "3"]:
        return self.position + t * self.velocity + 0.5 * t**2 * self.acceleration


def residual_in_motion(
    constraint: AbstractFrameConstraint, first: MovingBody, second: MovingBody
) -> tuple[Float[Array, "k"], Float[Array, "k"], Float[Array, "k"]]:
    """The residual, and its first two derivatives in time."""
    dtype = first.velocity.dtype
    if isinstance(constraint, AbstractPointConstraint):
        rod = _separation(constraint, first, second)
        return two_derivatives(lambda t: constraint.relation(rod.at(t)), dtype)
    if isinstance(constraint, AbstractPoseConstraint):
        turn, path = _relative_motion(constraint, first, second)
        return two_derivatives(lambda t: constraint.relation(turn.at(t), path.at(t)), dtype)
    poses = [
        (_Turn(x.pose.rotation, x.velocity[:3], x.acceleration[:3]), _Path(*x.point(jnp.zeros(3, dtype))))
        for x in (first, second)
    ]
    return two_derivatives(
        lambda t: constraint.residual(*(Transform(turn.at(t), path.at(t)) for turn, path in poses)), dtype
    )


def residual_slopes(
    constraint: AbstractFrameConstraint, first: Transform, second: Transform
) -> tuple[Float[Array, "k 6"], Float[Array, "k 6"]]:
    """Derivatives of the residual by motions of the two bodies, world axes about their origins."""
    zero = jnp.zeros(3, first.rotation.dtype)
    if isinstance(constraint, AbstractPointConstraint):
        levers = _point_levers(constraint, first, second)
        rod = (second.translation + levers[1]) - (first.translation + levers[0])
        by_rod = jax.jacfwd(constraint.relation)(rod)
        return _of_point(-by_rod, levers[0]), _of_point(by_rod, levers[1])
    if isinstance(constraint, AbstractPoseConstraint):
        (frame1, frame2), (lever1, lever2) = _frames(constraint, first, second)
        into, between = transpose(frame1.rotation), frame2.translation - frame1.translation
        turned = matmul(into, frame2.rotation)

        def relation(turn: Array, shift: Array) -> Array:
            return constraint.relation(turned + matmul(skew(turn), turned), matvec(into, between) + shift)

        by_turn, by_shift = (matmul(x, into) for x in jax.jacfwd(relation, (0, 1))(zero, zero))
        # Of the second frame's origin, as a point of either body.
        ours, others = _of_point(by_shift, lever1 + between), _of_point(by_shift, lever2)
        turns = jnp.concatenate([by_turn, jnp.zeros_like(by_turn)], axis=1)
        return -turns - ours, turns + others

    def moved(a: Array, b: Array) -> Array:
        return constraint.residual(_displaced(first, a), _displaced(second, b))

    still = jnp.zeros(6, zero.dtype)
    by_first, by_second = jax.jacfwd(moved, (0, 1))(still, still)
    return by_first, by_second


def two_derivatives(residual: Callable[[Array], Array], dtype) -> tuple[Array, Array, Array]:
    """Value, first and second derivative of a function of time, at time zero."""
    zero, one = jnp.zeros((), dtype), jnp.ones((), dtype)

    def with_rate(t: Array) -> tuple[Array, Array]:
        return jax.jvp(residual, (t,), (one,))

    (value, rate), (_, acceleration) = jax.jvp(with_rate, (zero,), (one,))
    return value, rate, acceleration


def _point_levers(constraint: AbstractPointConstraint, first: Transform, second: Transform) -> tuple[Array, Array]:
    return matvec(first.rotation, constraint.point1), matvec(second.rotation, constraint.point2)


def _separation(constraint: AbstractPointConstraint, first: MovingBody, second: MovingBody) -> _Path:
    """Vector from point 1 to point 2, world axes."""
    levers = _point_levers(constraint, first.pose, second.pose)
    return _Path(*(b - a for a, b in zip(first.point(levers[0]), second.point(levers[1]), strict=True)))


def _frames(
    constraint: AbstractPoseConstraint, first: Transform, second: Transform
) -> tuple[tuple[Transform, Transform], tuple[Array, Array]]:
    """The two frames in the world, and their origins from those of the bodies."""
    frames = first @ constraint.frame1, second @ constraint.frame2
    levers = (
        matvec(first.rotation, constraint.frame1.translation),
        matvec(second.rotation, constraint.frame2.translation),
    )
    return frames, levers


def _relative_motion(constraint: AbstractPoseConstraint, first: MovingBody, second: MovingBody) -> tuple[_Turn, _Path]:
    """How frame 2 moves in frame 1, in the axes of that, which turns itself."""
    (frame1, frame2), levers = _frames(constraint, first.pose, second.pose)
    into = transpose(frame1.rotation)
    spin, turning = first.velocity[:3], first.acceleration[:3]
    relative = second.velocity[:3] - spin
    alpha = second.acceleration[:3] - turning - cross(spin, relative)
    d, rate, acceleration = (b - a for a, b in zip(first.point(levers[0]), second.point(levers[1]), strict=True))
    around = cross(spin, d)
    apparent = acceleration - cross(turning, d) - 2 * cross(spin, rate) + cross(spin, around)
    turn = _Turn(matmul(into, frame2.rotation), matvec(into, relative), matvec(into, alpha))
    return turn, _Path(matvec(into, d), matvec(into, rate - around), matvec(into, apparent))


def _of_point(slope: Float[Array, "k 3"], lever: Float[Array, "3"]) -> Float[Array, "k 6"]:
    """By motions of a body, from that by the position of its point: `slope (v + w x lever)`."""
    return jnp.concatenate([-matmul(slope, skew(lever)), slope], axis=1)


def _displaced(pose: Transform, by: Float[Array, "6"]) -> Transform:
    """The pose displaced by a small motion, to first order."""
    turn = jnp.eye(3, dtype=by.dtype) + skew(by[:3])
    return Transform(matmul(turn, pose.rotation), pose.translation + by[3:])

"""Constraints in a state: their residuals, rates, accelerations and Jacobians.

All derivatives come from the residuals: along a motion `(R(t), r(t))` of the bodies with the velocities and
accelerations that they have, the first and second derivative of a residual are its rate and acceleration.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ..model import (
    AbstractConstraint,
    AbstractFrameConstraint,
    AbstractPointConstraint,
    AbstractPoseConstraint,
    JointCoupling,
    Model,
    join_bodies,
)
from ..model._assemble import group_key
from ..model._ranges import rated_coordinates, turning_coordinates
from ..motion import BodyMotions, accelerations, drifts
from ..motion._jacobians import point_jacobians
from ..numerics import matmul, picked, product, sum_of
from ..spatial import Motion as BodyMotion, Transform
from ._residuals import MovingBody, residual_in_motion, residual_slopes, two_derivatives

Constraints = tuple[AbstractConstraint, ...]


class Places(eqx.Module):
    """Where all bodies are.

    **Fields:** `pose` in the world; `in_tree`, positions from the first body of the tree, and `root`, where that is.
    """

    pose: Transform
    in_tree: Float[Array, "nb 3"]
    root: Float[Array, "nb 3"]

    @staticmethod
    def of(motions: BodyMotions) -> "Places":
        return Places(motions.poses, motions.origins, motions.roots)

    def of_both(
        self, constraint: AbstractConstraint, first: np.ndarray, second: np.ndarray
    ) -> tuple[Transform, Transform]:
        """Poses (m) of the bodies that each of m constraints relates.

        Where only the way from one to the other matters, it is seen from the first body of a tree, whose own place
        vanishes within the tree: far from the world's origin no digits are lost.
        """
        if not isinstance(constraint, (AbstractPointConstraint, AbstractPoseConstraint)):
            return _row(self.pose, first), _row(self.pose, second)
        centre = _rows(self.root, np.where(first >= 0, first, second))

        def seen(numbers: np.ndarray) -> Transform:
            position = _rows(self.in_tree, numbers) + (_rows(self.root, numbers) - centre)
            return Transform(_row(self.pose, numbers).rotation, position)

        return seen(first), seen(second)


class Bodies(eqx.Module):
    """All bodies in a state.

    **Fields:** their `places`; `velocity` and (classical) `acceleration` in the world; `columns` of the joints' motion
    subspaces, world axes about the bodies' origins.
    """

    places: Places
    velocity: Float[Array, "nb 6"]
    acceleration: Float[Array, "nb 6"]
    columns: Float[Array, "nv 6"]

    @staticmethod
    def of(motions: BodyMotions, qdd: Float[Array, "nv"] | None = None) -> "Bodies":
        """The motions at these joint accelerations, or at none."""
        at_rest = BodyMotion.zero(motions.q.dtype)
        found = drifts(motions) if qdd is None else accelerations(motions, qdd, at_rest)
        acceleration = join_bodies(motions.topology, [x.array() for x in found])
        return Bodies(Places.of(motions), motions.velocities, acceleration, motions.subspace_columns)

    def of_both(
        self, constraint: AbstractConstraint, first: np.ndarray, second: np.ndarray
    ) -> tuple[MovingBody, MovingBody]:
        """`Places.of_both`, with motions."""
        poses = self.places.of_both(constraint, first, second)
        moving = [
            MovingBody(pose, _rows(self.velocity, numbers), _rows(self.acceleration, numbers))
            for pose, numbers in zip(poses, (first, second), strict=True)
        ]
        return moving[0], moving[1]


# Of each group of m constraints: `residual_slopes` (m, k, 6) of both bodies; none for couplings of joints.
Slopes = tuple[tuple[Float[Array, "_ _ 6"], ...], ...]


class Motion(eqx.Module):
    """How constraints are violated.

    **Fields:** `residual` phi; `rate` `J v`; `acceleration` `J qdd + (dJ/dt) v`, each (k,).
    """

    residual: Float[Array, "k"]
    rate: Float[Array, "k"]
    acceleration: Float[Array, "k"]


class _Group(NamedTuple):
    """m constraints of one structure, stacked, with their numbers, their rows (m, k), and the pairs of bodies or joints
    that they relate; of joints also which coordinates of these, zeros of bodies."""

    numbers: np.ndarray
    rows: np.ndarray
    stacked: AbstractConstraint
    related: tuple[np.ndarray, np.ndarray]
    coordinates: tuple[np.ndarray, np.ndarray]

    def dofs(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of the velocity that couplings relate; -1 for none."""
        starts = model.topology.v_starts
        pairs = zip(self.related, self.coordinates, strict=True)
        first, second = (np.where(joints >= 0, starts[joints] + own, -1) for joints, own in pairs)
        return first, second


def motion_of_constraints(
    model: Model,
    constraints: Constraints,
    bodies: Bodies,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    qdd: Float[Array, "nv"],
) -> Motion:
    """Residuals and their first two derivatives in time, of all constraints in order."""

    def of_joints(constraint, first: Array, second: Array) -> tuple[Array, Array, Array]:
        def residual(t: Array) -> Array:
            return constraint.residual(*(x[0] + t * x[1] + 0.5 * t**2 * x[2] for x in (first, second)))[None]

        return two_derivatives(residual, q.dtype)

    parts = []
    for group in _groups(constraints):
        if isinstance(group.stacked, AbstractFrameConstraint):
            moving = bodies.of_both(group.stacked, *group.related)
            parts.append(jax.vmap(residual_in_motion)(group.stacked, *moving))
        else:
            joints = (_joint_motion(model, q, v, qdd, x) for x in group.dofs(model))
            parts.append(jax.vmap(of_joints)(group.stacked, *joints))
    return Motion(*(_in_order(constraints, [part[i] for part in parts], q.dtype) for i in range(3)))


def residuals_of_constraints(
    model: Model, constraints: Constraints, places: Places, q: Float[Array, "nq"]
) -> Float[Array, "k"]:
    """Residuals of all constraints in order."""

    def of_joints(constraint, first: Array, second: Array) -> Array:
        return constraint.residual(first, second)[None]

    parts = []
    for group in _groups(constraints):
        if isinstance(group.stacked, AbstractFrameConstraint):
            both = places.of_both(group.stacked, *group.related)
            parts.append(jax.vmap(lambda constraint, *x: constraint.residual(*x))(group.stacked, *both))
        else:
            parts.append(jax.vmap(of_joints)(group.stacked, *(_position(model, q, x) for x in group.dofs(model))))
    return _in_order(constraints, parts, q.dtype)


def jacobian_of_constraints(
    model: Model, constraints: Constraints, bodies: Bodies, q: Float[Array, "nq"]
) -> tuple[Slopes, Float[Array, "k nv"], Float[Array, "k nv"], Float[Array, "k"]]:
    """Slopes; J; how large its elements would be if no directions were perpendicular; and the reach of each row.

    That is how far one radian of some joint may move it: one for rows that are angles, a length of the mechanism for
    those that are lengths. Where none turns it, it is how far the range of a sliding joint may, as that of fingers that
    mimic one another, or a metre if that has no ends or is longer. Against that residuals are large or small. Near an
    axis it is no less than makes up for the rounding of the positions that are compared.
    """
    all_slopes: list[tuple[Array, ...]] = []
    jacobians, sizes, distances = [], [], []
    for group in _groups(constraints):
        if isinstance(group.stacked, AbstractFrameConstraint):
            poses = bodies.places.of_both(group.stacked, *group.related)
            slopes = jax.vmap(residual_slopes)(group.stacked, *poses)
            all_slopes.append(slopes)
            distances.append(
                sum_of(
                    _length(s[..., 3:]) * _length(p.translation)[:, None] for s, p in zip(slopes, poses, strict=True)
                )
            )
            both = [
                point_jacobians(model, bodies.columns, bodies.places.in_tree, _rows(bodies.places.in_tree, x), x)
                for x in group.related
            ]
            jacobians.append(sum_of(map(matmul, slopes, both)))
            sizes.append(sum_of(map(_sizes, slopes, both)))
        else:
            all_slopes.append(())
            jacobians.append(_coupling_jacobian(model, group, q)[:, None])
            distances.append(jnp.abs(_position(model, q, group.dofs(model)[0]))[:, None])
            sizes.append(jnp.abs(jacobians[-1]))
    jacobian = _in_order(constraints, jacobians, q.dtype, model.nv)
    size = lax.stop_gradient(_in_order(constraints, sizes, q.dtype, model.nv))
    turns = jnp.any(bodies.columns[:, :3] != 0, axis=1)
    turned = jnp.max(jnp.where(turns, size, 0), axis=1, initial=0)
    reach = jnp.where(turned > 0, turned, _travel(model, size))
    least = float(jnp.finfo(q.dtype).eps) ** 0.25 * lax.stop_gradient(_in_order(constraints, distances, q.dtype))
    return tuple(all_slopes), jacobian, size, jnp.where(reach > 0, jnp.maximum(reach, least), 1)


def _travel(model: Model, size: Float[Array, "k nv"]) -> Float[Array, "k"]:
    """How far the range of some sliding joint may move each row, of which a metre counts at most; zero if none does."""
    own = rated_coordinates(model)
    slides = np.flatnonzero((own >= 0) & ~turning_coordinates(model)[own])
    if not len(slides):
        return jnp.zeros(len(size), size.dtype)
    ends = lax.stop_gradient((model.limits.lower, model.limits.upper))
    lower, upper = (picked(jnp.asarray(x), own[slides]).astype(size.dtype) for x in ends)
    span = jnp.where((upper - lower > 0) & (upper - lower < 1), upper - lower, 1)
    return jnp.max(picked(size.T, slides) * span[:, None], axis=0, initial=0)


def constraint_wrenches(
    constraints: Constraints, slopes: Slopes, multipliers: Float[Array, "k"]
) -> Float[Array, "nc 2 6"]:
    """Wrenches on both bodies of each constraint, about the bodies' origins; zero for couplings."""
    groups, wrenches = _groups(constraints), [jnp.zeros((0, 2, 6), multipliers.dtype)]
    for group, of_group in zip(groups, slopes, strict=True):
        if of_group:
            own = picked(multipliers, group.rows)
            both = [matmul(own[:, None], slope)[:, 0] for slope in of_group]
            wrenches.append(jnp.stack(both, axis=1))
        else:
            wrenches.append(jnp.zeros((len(group.numbers), 2, 6), multipliers.dtype))
    order = np.concatenate([np.zeros(0, int), *(group.numbers for group in groups)])
    return picked(jnp.concatenate(wrenches), np.argsort(order))


def forces_of_constraints(
    model: Model, constraints: Constraints, places: Places, q: Float[Array, "nq"], multipliers: Float[Array, "k"]
) -> tuple[Float[Array, "nb 6"], Float[Array, "nv"]]:
    """Wrenches on all bodies, world axes about their origins, and torques of couplings of joints."""
    wrenches, torques = jnp.zeros((model.nb, 6), q.dtype), jnp.zeros(model.nv, q.dtype)
    for group in _groups(constraints):
        if not isinstance(group.stacked, AbstractFrameConstraint):
            own = picked(multipliers, group.rows[:, 0])
            torques = torques + product(own, _coupling_jacobian(model, group, q))
            continue
        slopes = jax.vmap(residual_slopes)(group.stacked, *places.of_both(group.stacked, *group.related))
        own = picked(multipliers, group.rows)
        for bodies, slope in zip(group.related, slopes, strict=True):
            # A product, since scattered sums are none that XLA compiles into one function.
            belongs = jnp.asarray(np.arange(model.nb)[:, None] == bodies, q.dtype)
            wrenches = wrenches + product(belongs, matmul(own[:, None], slope)[:, 0])
    return wrenches, torques


def row_starts(constraints: Constraints) -> np.ndarray:
    """(nc + 1,): where the rows of each constraint begin."""
    return np.concatenate([[0], np.cumsum([number_of_rows(c) for c in constraints], dtype=int)])


def _groups(constraints: Constraints) -> list[_Group]:
    """Constraints that differ in numbers only are evaluated together."""
    plain, starts = [_without_names(constraint) for constraint in constraints], row_starts(constraints)
    kinds: dict[object, list[int]] = {}
    for number, constraint in enumerate(plain):
        kinds.setdefault(group_key(constraint), []).append(number)
    groups = []
    for numbers in kinds.values():
        stacked = jax.tree.map(lambda *x: jnp.stack(x), *(plain[number] for number in numbers))
        rows = starts[numbers][:, None] + np.arange(number_of_rows(constraints[numbers[0]]))
        first, second = np.array([related(constraints[number]) for number in numbers]).T
        own = np.array([coupled(constraints[number]) for number in numbers]).T
        groups.append(_Group(np.array(numbers), rows, stacked, (first, second), (own[0], own[1])))
    return groups


def _without_names(constraint: AbstractConstraint) -> AbstractConstraint:
    of_joints = ("joint", "reference", "joint_coordinate", "reference_coordinate")
    numbers = ("body1", "body2") if isinstance(constraint, AbstractFrameConstraint) else of_joints
    changes: dict[str, Any] = {"name": "", **dict.fromkeys(numbers, 0)}
    return dataclasses.replace(constraint, **changes)


def related(constraint: AbstractConstraint) -> tuple[int, int]:
    """Numbers of the two bodies or joints."""
    if isinstance(constraint, AbstractFrameConstraint):
        return constraint.body1, constraint.body2
    return constraint.joint, constraint.reference  # type: ignore[attr-defined]


def coupled(constraint: AbstractConstraint) -> tuple[int, int]:
    """Which coordinates of the two joints; zeros for bodies."""
    if not isinstance(constraint, JointCoupling):
        return 0, 0
    return constraint.joint_coordinate, constraint.reference_coordinate


def number_of_rows(constraint: AbstractConstraint) -> int:
    """Number of rows."""
    if not isinstance(constraint, AbstractFrameConstraint):
        return 1
    leaves, structure = jax.tree.flatten(_without_names(constraint))
    return _number_of_rows(structure, tuple((jnp.shape(x), jnp.result_type(x)) for x in leaves))


@functools.lru_cache(maxsize=256)
def _number_of_rows(structure: jax.tree_util.PyTreeDef, leaves: tuple[tuple[tuple[int, ...], jnp.dtype], ...]) -> int:
    """That of all constraints between bodies that differ in numbers only."""
    pose = Transform.identity()
    constraint = jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(*leaf) for leaf in leaves])
    return jax.eval_shape(lambda c: c.residual(pose, pose), constraint).shape[-1]


def _in_order(constraints: Constraints, parts: list[Array], dtype, *rest: int) -> Array:
    """Results of groups (m, k, ...), as rows in the order of the constraints."""
    if not parts:
        return jnp.zeros((0, *rest), dtype)
    rows = np.concatenate([group.rows.reshape(-1) for group in _groups(constraints)])
    together = jnp.concatenate([part.reshape(part.shape[0] * part.shape[1], *part.shape[2:]) for part in parts])
    return picked(together, np.argsort(rows))


def _sizes(slope: Float[Array, "m k 6"], jacobian: Float[Array, "m 6 nv"]) -> Float[Array, "m k nv"]:
    """Products of the lengths of angular and linear parts."""
    return (
        _length(slope[..., :3])[..., None] * _length(jacobian[:, :3], 1)[:, None]
        + _length(slope[..., 3:])[..., None] * _length(jacobian[:, 3:], 1)[:, None]
    )


def _length(x: Array, axis: int = -1) -> Array:
    return jnp.sqrt(jnp.sum(lax.stop_gradient(x) ** 2, axis=axis))


def _row(pose: Transform, numbers: np.ndarray) -> Transform:
    """Poses of bodies, the identity for the world."""
    world = Transform.identity(pose.translation.dtype)
    return jax.tree.map(lambda x, y: _or_last(jnp.concatenate([x, y[None]]), numbers), pose, world)


def _rows(x: Float[Array, "nb k"], numbers: np.ndarray) -> Float[Array, "m k"]:
    """Rows of bodies; zero for the world."""
    return _or_last(jnp.concatenate([x, jnp.zeros((1, x.shape[1]), x.dtype)]), numbers)


def _or_last(x: Float[Array, "n *rest"], numbers: np.ndarray) -> Float[Array, "m *rest"]:
    """Rows; the last one for the world."""
    return picked(x, np.where(numbers < 0, len(x) - 1, numbers))


def _joint_motion(model: Model, q: Array, v: Array, qdd: Array, dofs: np.ndarray) -> Float[Array, "m 3"]:
    """Position, velocity and acceleration of degrees of freedom that are rates of coordinates; zero for none."""
    exists = jnp.asarray(dofs >= 0)
    rates = (jnp.where(exists, picked(x, np.maximum(dofs, 0)), 0) for x in (v, qdd))
    return jnp.stack([_position(model, q, dofs), *rates], axis=-1)


def _position(model: Model, q: Array, dofs: np.ndarray) -> Float[Array, "m"]:
    """The coordinates whose rates these degrees of freedom are; zero for none."""
    return jnp.where(jnp.asarray(dofs >= 0), picked(q, rated_coordinates(model)[np.maximum(dofs, 0)]), 0)


def _coupling_jacobian(model: Model, group: _Group, q: Float[Array, "nq"]) -> Float[Array, "m nv"]:
    dofs = group.dofs(model)
    where = [_position(model, q, x) for x in dofs]
    slopes = jax.vmap(jax.grad(lambda c, x, y: c.residual(x, y), (1, 2)))(group.stacked, *where)
    result = jnp.zeros((len(group.numbers), model.nv), q.dtype)
    for own, slope in zip(dofs, slopes, strict=True):
        result = result + jnp.where(own[:, None] == np.arange(model.nv), slope[:, None], 0)
    return result

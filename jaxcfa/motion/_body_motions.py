"""Poses and motions of all bodies: the one value that kinematics and dynamics are computed from.

Everything is in world axes about each body's own origin. The only quantity that then passes between neighbours in
position is the offset of their origins, and recurrences over the tree add vectors instead of multiplying matrices.
Accelerations are classical: derivatives of the velocity of the body's origin. Spatial accelerations differ by
`w x v`, whose large terms would cancel in float32 on a fast-moving body.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from ..defaults import choose_schedule
from ..joints import AbstractJoint
from ..model import (
    WORLD,
    Model,
    Topology,
    join_bodies,
    join_dofs,
    joints_of_segments,
    map_joints,
    motion_subspace_blocks,
    split_bodies,
    split_dofs,
)
from ..model._arguments import as_arrays, is_concrete
from ..numerics import (
    add,
    cross,
    instantiate,
    is_perturbed,
    jvp_of_perturbed,
    matmul,
    matvec,
    no_tangent,
    perturbed,
    picked,
)
from ..one_function import Shared, as_one_function
from ..spatial import Matrix, Motion, Pose, RigidInertia, Transform, Vector, ZeroVector, pack, rotate
from ..structured import AbstractSchedule, Sequential
from ..structured._tree_scan import from_parents
from ..structured._tree_sweep import outward
from ..typing import ConfigurationLike, VelocityLike


class Link(eqx.Module):
    """How a body is placed, moves and resists, in world axes about its origin, by components.

    **Fields:** `rotation`; `position` in the world, and `in_tree`, relative to the root of its tree; `offset` from the
    parent's origin; motion `subspace` S of its joint, padded to the segment's d columns; `velocity`; `bias`, its
    acceleration relative to the parent's at zero joint acceleration: with the parent's `[alpha; a]`,
    `A = [alpha; a + alpha x offset] + bias + S qdd`; `drift`, its acceleration if no joint accelerates (see `drifts`);
    `inertia`.
    """

    rotation: Matrix
    position: Vector
    in_tree: Vector
    offset: Vector
    subspace: Motion
    velocity: Motion
    bias: Motion
    drift: Motion | None
    inertia: RigidInertia


class BodyMotions(Shared):
    """Poses, velocities and all else that a state (q, v) says about the bodies of a mechanism.

    Made by `body_motions`, and taken as `motions` by every function that would otherwise make it again. Derivatives
    are with respect to the model, q and v that are handed in beside it; this value only saves work, and in batches on
    CPUs, where it is made again faster than it is read, that is done.

    **Fields:** `q` (nq,) and `v` (nv,); `schedule` of the recurrences over the bodies; `links`, the bodies by
    components, one entry for each segment of the `topology`, in order of visit; `of_model`, zero, and differentiated
    where the model was that they are made of; `has_velocity`, whether they were made with a velocity, without which
    they serve functions of q only.
    """

    q: Float[Array, "nq"]
    v: Float[Array, "nv"]
    of_model: Float[Array, ""]
    schedule: AbstractSchedule
    links: tuple[Link, ...]
    topology: Topology = eqx.field(static=True)
    has_velocity: bool = eqx.field(static=True, default=True)

    def of_body(self, body: int, name: str) -> PyTree[Array]:
        """What a field of its `Link` is for one body; of the world only its pose and velocity are known."""
        if body == WORLD:
            return getattr(_World.at_rest(self.q.dtype), name)
        visit = int(np.flatnonzero(self.topology.schedule.visits == body)[0])
        segment, of_segment = next(
            (segment, link)
            for segment, link in zip(self.topology.segments, self.links, strict=True)
            if visit < segment.stop
        )
        number = visit - segment.start
        return jax.tree.map(lambda x: lax.index_in_dim(x, number, keepdims=False), getattr(of_segment, name))

    @property
    def poses(self) -> Transform:
        """Poses (nb) of all bodies in the world."""
        return join_bodies(self.topology, [Pose(x.rotation, x.position) for x in self.links]).arrays()

    @property
    def velocities(self) -> Float[Array, "nb 6"]:
        """`[angular velocity; velocity of the origin]` of all bodies, world axes [rad/s, m/s]."""
        return join_bodies(self.topology, [x.velocity.dense() for x in self.links]).array()

    @property
    def origins(self) -> Float[Array, "nb 3"]:
        """Origins of all bodies relative to that of the root of their tree, world axes [m].

        Differences between bodies of one tree keep their digits, however far from the world's origin it is.
        """
        return join_bodies(self.topology, [x.in_tree for x in self.links]).array()

    @property
    def roots(self) -> Float[Array, "nb 3"]:
        """World position of the first body of each body's tree [m]."""
        return picked(self.poses.translation, self.topology.roots)

    @property
    def columns(self) -> Motion:
        """Motion subspaces about the bodies' own origins, world axes, by degree of freedom (nv)."""
        return join_dofs(self.topology, [x.subspace.dense() for x in self.links])

    @property
    def subspace_columns(self) -> Float[Array, "nv 6"]:
        """`columns` as an array, one row for each degree of freedom."""
        return self.columns.array()

    def at_rest(self) -> "BodyMotions":
        """The same configuration without velocity."""
        still = [dataclasses.replace(x, **jax.tree.map(jnp.zeros_like, _moving(x))) for x in self.links]
        return dataclasses.replace(self, v=jnp.zeros_like(self.v), links=tuple(still), has_velocity=True)


def _moving(link: Link) -> dict[str, Motion | None]:
    return {name: getattr(link, name) for name in ("velocity", "bias", "drift")}


def body_motions(
    model: Model, q: ConfigurationLike, v: VelocityLike | None = None, schedule: AbstractSchedule | None = None
) -> BodyMotions:
    """How all bodies are placed and move, to be used by several functions of one state.

    They hold placements and inertias of the model, too: the functions must be given the same, which nothing compares.

    **Arguments:** `q` (nq,); `v` (nv,), without which the motions serve functions of q only; `schedule`:
    `Sequential()`, or one that is parallel along the mechanism such as `Doubling()`; see `default_schedule`.

    **Raises:** `ValueError` for a wrong shape.
    """
    state = as_arrays(model, q=q) if v is None else as_arrays(model, q=q, v=v)
    return _body_motions(model, state[0], None if v is None else state[1], choose_schedule(model, schedule))


def schedule_for(
    model: Model,
    schedule: AbstractSchedule | None,
    motions: BodyMotions | None,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"] | None = None,
) -> AbstractSchedule:
    """The schedule that a user chooses, or that of the motions, which `check_motions` has seen, or the default.

    **Raises:** `ValueError` for what is no schedule, and as `check_motions`.
    """
    check_motions(model, motions, q, v)
    return choose_schedule(model, schedule) if motions is None or schedule is not None else motions.schedule


def check_motions(
    model: Model,
    motions: BodyMotions | None,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"] | None = None,
) -> None:
    """Raises `ValueError` for motions of another mechanism than the model's, and of another state than q (and v, if the
    velocity is needed as well) where that can be seen: not where it is traced. Parameters are not compared."""
    if motions is None:
        return
    if not isinstance(motions, BodyMotions):
        raise ValueError(f"motions must come from body_motions(model, q, v), got {motions!r}.")
    if motions.topology != model.topology:
        raise ValueError("motions are of another mechanism: make them by body_motions(model, q, v) of this model.")
    if v is not None and not motions.has_velocity:
        raise ValueError("motions were made without v, which is needed here: make them by body_motions(model, q, v).")
    _check_state(motions, q=q, **({} if v is None else {"v": v}))


def _check_state(motions: BodyMotions, **state: Array) -> None:
    """Raises `ValueError` for motions of another q or v, compared in the coarser of both types."""
    for name, given in state.items():
        known = getattr(motions, name)
        if given is known or not is_concrete((given, known)):
            continue
        dtype = min(given.dtype, known.dtype, key=lambda x: x.itemsize)
        if not np.array_equal(np.asarray(given, dtype), np.asarray(known, dtype), equal_nan=True):
            raise ValueError(
                f"motions are of another state, whose {name} is not the {name} given: make them by "
                "body_motions(model, q, v) of the same q and v, or leave them out."
            )


def motions_at(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"] | None,
    schedule: AbstractSchedule,
    motions: BodyMotions | None = None,
    by_rules: bool = False,
) -> BodyMotions:
    """The motions in a state, those that a user hands in or new ones, with this schedule for what follows.

    `by_rules`: whether what follows is differentiated by rules of its own, which look at q and v of the motions only.
    """
    if motions is not None:
        parts = motions.v, motions.of_model, motions.links
        known_v, of_model, links = jax.tree.map(lambda x: x.astype(q.dtype), parts)
        given = dataclasses.replace(motions, v=known_v, of_model=of_model, links=links)
        v = known_v if v is None else v
        if not by_rules:
            of_model, links = of_model + _trace_of(model), _following(model, q, v, given)
        return dataclasses.replace(given, q=q, v=v, of_model=of_model, schedule=schedule, links=links)
    moves, v = v is not None, jnp.zeros(model.nv, q.dtype) if v is None else v
    placement = Pose.of(model.placement)
    poses = map_joints(model, lambda joint, frame, x: joint.placed(frame, x), ("body", placement), ("q", q))
    bias = map_joints(model, lambda joint, x, dx: joint.bias(x, dx), ("q", q), ("v", v))
    inertia = RigidInertia.of_com(model.mass, model.com, model.inertia)
    blocks, speeds = motion_subspace_blocks(model, q), split_dofs(model.topology, v)
    carried = jnp.asarray(model.topology.parents >= 0, q.dtype)
    bodies = split_bodies(model.topology, (poses, inertia, carried))
    subspaces = [Motion.columns(block) for block in blocks]
    biases = split_bodies(model.topology, Motion.of(bias))
    known = list(map(_known, joints_of_segments(model), biases, subspaces))
    joints = [(*body, *own, v) for body, own, v in zip(bodies, known, speeds, strict=True)]
    if isinstance(schedule, Sequential):
        found = outward(model.topology.schedule, _move, _World.at_rest(q.dtype), joints)
    else:
        parents = split_bodies(
            model.topology, _parents(model, schedule, poses.arrays(), blocks, speeds if moves else None)
        )
        found = [jax.vmap(lambda parent, joint: _move(parent, joint)[1])(*x) for x in zip(parents, joints, strict=True)]
    return BodyMotions(q, v, _trace_of(model), schedule, tuple(found), model.topology, moves)


_body_motions = jax.jit(as_one_function(motions_at, derivatives=False, handed_on=True))


def _made_of(model: Model) -> PyTree[Array]:
    """What of a model motions depend on; of its tangents, if given these."""
    return model.joints, model.placement, model.mass, model.com, model.inertia


def _first(arrays: list[Array], dtype: Any) -> list[Array]:
    return [x.reshape(-1)[0].astype(dtype) for x in arrays if x.size and jnp.issubdtype(x.dtype, jnp.floating)]


@jax.custom_jvp
def _trace_of(model: Model) -> Float[Array, ""]:
    """Zero, with a tangent where anything that motions are made of has one."""
    zero = jnp.zeros((), model.dtype)
    # JAX refuses derivatives of batches whose tangents are many where the value, a constant, is one.
    return jnp.where(False, sum(_first(jax.tree.leaves(_made_of(model)), zero.dtype), start=zero), zero)


def _trace_of_jvp(primals: tuple[Model], tangents: tuple[Model]) -> tuple[Array, Any]:
    zero = _trace_of(*primals)
    moving = _first(perturbed(_made_of(tangents[0])), zero.dtype)
    # Constants would have no tangent where JAX linearises.
    return zero, 0 * moving[0] if moving else no_tangent(zero)


_trace_of.defjvp(_trace_of_jvp, symbolic_zeros=True)


@jax.custom_jvp
def _following(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], motions: BodyMotions) -> tuple[Link, ...]:
    """The links of motions that a user hands in, with the derivatives of those made of `model`, `q` and `v`."""
    return motions.links


def _following_jvp(primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    """What the motions carry themselves is not found again: only by what they were made without are they made anew."""
    *made_of, motions = primals
    *directions, own = tangents
    known = (
        is_perturbed(own.of_model) or not is_perturbed(_made_of(directions[0])),
        *map(is_perturbed, (own.q, own.v)),
    )
    missing = tuple(
        no_tangent(x) if carried else x_dot for x, x_dot, carried in zip(made_of, directions, known, strict=True)
    )
    links = _following(*primals)
    if not is_perturbed(missing):
        return links, own.links

    def again(model: Model, q: Array, v: Array) -> tuple[Link, ...]:
        return jax.tree.map(lambda x: x.astype(q.dtype), motions_at(model, q, v, motions.schedule).links)

    _, links_dot = jvp_of_perturbed(again, tuple(made_of), missing)
    return links, add(instantiate(own.links), links_dot)


_following.defjvp(_following_jvp, symbolic_zeros=True)


def _known(joints: list[AbstractJoint], bias: Motion, subspace: Motion) -> tuple[Motion, Motion]:
    """Bias and subspace with the zeros that are known for all joints of a segment."""
    zero: Any = ZeroVector()
    if all(joint.has_fixed_axes for joint in joints):
        bias = Motion(zero, zero)
    if all(joint.only_turns for joint in joints):
        subspace = Motion(subspace.angular, zero)
    return bias, subspace


class _World(eqx.Module):
    """What a body needs to know of its parent, whose `drift` scans leave out."""

    rotation: Matrix
    position: Vector
    in_tree: Vector
    velocity: Motion
    drift: Motion | None

    @staticmethod
    def at_rest(dtype: jnp.dtype) -> "_World":
        pose = Pose.identity(dtype)
        return _World(pose.rotation, pose.translation, pose.translation, Motion.zero(dtype), Motion.zero(dtype))


def _move(parent: _World, joint: tuple) -> tuple[_World, Link]:
    """Pose and motion of a body from those of its parent, and its joint's motion in body axes."""
    local, inertia, carried, joint_bias, subspace, v = joint
    offset = parent.rotation @ local.translation
    rotation = parent.rotation @ local.rotation
    subspace = subspace.rotated(rotation)
    relative = subspace.combined(v)
    spin, w, u = parent.velocity.angular, relative.angular, relative.linear
    coriolis = Motion(spin.cross(w), spin.cross(spin.cross(offset) + u * 2.0) + w.cross(u))
    bias = joint_bias.rotated(rotation) + coriolis
    here = _World(
        rotation,
        parent.position + offset,
        parent.in_tree + offset * carried,
        parent.velocity.at(offset) + relative,
        None if parent.drift is None else parent.drift.at(offset) + bias,
    )
    link = Link(
        rotation=rotation,
        position=here.position,
        in_tree=here.in_tree,
        offset=offset,
        subspace=subspace,
        velocity=here.velocity,
        bias=bias,
        drift=here.drift,
        inertia=inertia.rotated(rotation),
    )
    return here, link


def _parents(
    model: Model,
    schedule: AbstractSchedule,
    local: Transform,
    blocks: tuple[Array, ...],
    speeds: list[Array] | None,
) -> _World:
    """What all bodies (nb) need to know of their parents, by scans: rotations are cumulative products, and all else
    cumulative sums (Yang, Wu & Pan 2016, sec. II, in other coordinates). Without `speeds` nothing moves."""
    tree, dtype = model.topology.schedule, local.rotation.dtype
    rotation = schedule.outward(tree, matmul, local.rotation)
    at_parent = from_parents(tree, rotation, jnp.eye(3, dtype=dtype))
    offset = matvec(at_parent, local.translation)
    within = offset * jnp.asarray(model.topology.parents >= 0, dtype)[:, None]

    def sums_at_parents(*terms: Float[Array, "nb 3"]) -> list[Float[Array, "nb 3"]]:
        sums = schedule.ancestor_sum(tree, jnp.concatenate(terms, axis=1))
        return jnp.split(from_parents(tree, sums, jnp.zeros(3 * len(terms), dtype)), len(terms), axis=1)

    if speeds is None:
        position, in_tree = sums_at_parents(offset, within)
        velocity = jnp.zeros((model.nb, 6), dtype)
    else:
        joints = join_bodies(model.topology, [matvec(s, v) for s, v in zip(blocks, speeds, strict=True)])
        relative = rotate(rotation, joints)
        position, in_tree, angular = sums_at_parents(offset, within, relative[:, :3])
        (linear,) = sums_at_parents(relative[:, 3:] + cross(angular, offset))
        velocity = pack(angular, linear)
    return _World(Matrix.of(at_parent), Vector.of(position), Vector.of(in_tree), Motion.of(velocity), None)

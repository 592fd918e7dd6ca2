"""Recurrences over the bodies: motions outward and forces inward, by the schedule with which the motions were made.

This is the only place that chooses between loops over bodies and scans. Quantities of bodies are lists with one entry
for each segment of the topology, by components, in order of visit.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import Model, Topology, join_bodies, join_dofs, split_bodies, split_dofs
from ..numerics import cross
from ..spatial import Force, Motion, Vector, pack, shift_force, shift_motion
from ..structured import AbstractSchedule, Sequential
from ..structured._tree_scan import from_parents, sum_of_children
from ..structured._tree_sweep import inward, outward, sweep_inward, sweep_outward
from ._body_motions import BodyMotions


def fictitious_acceleration(model: Model) -> Float[Array, "6"]:
    """Acceleration `[0; -g]` of the world that has the same effect as gravity."""
    return jnp.concatenate([jnp.zeros_like(model.gravity), -model.gravity])


def resting_world(model: Model, dtype: jnp.dtype) -> Motion:
    """`fictitious_acceleration` by components."""
    return Motion.of(fictitious_acceleration(model).astype(dtype))


def carried_motions(motions: BodyMotions, relative: Sequence[Motion], base: Motion) -> list[Motion]:
    """`V = [w; u + w x offset] + relative` with the parent's `[w; u]`, that of the world being `base`."""
    topology, offsets = motions.topology, [link.offset for link in motions.links]
    if not isinstance(motions.schedule, Sequential):
        offset, own = join_bodies(topology, [(r.array(), x.array()) for r, x in zip(offsets, relative, strict=True)])
        found = scan_velocities(topology, offset, own, motions.schedule) + base.array()[None]
        return [Motion.of(x) for x in split_bodies(topology, found)]

    def step(parent: Motion, x: tuple[Vector, Motion]):
        value = parent.at(x[0]) + x[1]
        return value, value

    return outward(topology.schedule, step, base, list(zip(offsets, relative, strict=True)))


def accelerations(motions: BodyMotions, qdd: Float[Array, "nv"], base: Motion) -> list[Motion]:
    """Classical accelerations of all bodies, that of the world being `base`."""
    relative = [link.bias + own for link, own in zip(motions.links, joint_motions(motions, qdd), strict=True)]
    return carried_motions(motions, relative, base)


def drifts(motions: BodyMotions) -> list[Motion]:
    """Accelerations of all bodies if no joint accelerates, classical and without gravity: `(dJ/dt) v` of the bodies."""
    found = [link.drift for link in motions.links if link.drift is not None]
    if len(found) == len(motions.links):
        return found
    return carried_motions(motions, [link.bias for link in motions.links], Motion.zero(motions.q.dtype))


def total_forces(motions: BodyMotions, own: Sequence[Force]) -> list[Force]:
    """`F = own + sum of the children's F`, shifted: what joints transmit to the bodies, about their origins."""
    topology, offsets = motions.topology, [link.offset for link in motions.links]
    if not isinstance(motions.schedule, Sequential):
        offset, wrench = join_bodies(topology, [(r.array(), x.array()) for r, x in zip(offsets, own, strict=True)])
        return [Force.of(x) for x in split_bodies(topology, scan_wrenches(topology, offset, wrench, motions.schedule))]

    def step(children: Force, x: tuple[Vector, Force]):
        total = children + x[1]
        return total.carried(x[0]), total

    zero = Force.zero(own[0].moment.x.dtype)
    return inward(topology.schedule, step, zero, list(zip(offsets, own, strict=True)))


def joint_motions(motions: BodyMotions, x: Float[Array, "nv"]) -> list[Motion]:
    """`S x`: relative motions of the bodies at joint velocities or accelerations x."""
    return [
        jax.vmap(Motion.combined)(link.subspace, x)
        for link, x in zip(motions.links, split_dofs(motions.topology, x), strict=True)
    ]


def joint_torques(motions: BodyMotions, forces: Sequence[Force]) -> Float[Array, "nv"]:
    """`S^T F`: what forces on the bodies do along the joints."""
    return join_dofs(
        motions.topology,
        [jax.vmap(Motion.dot)(link.subspace, force) for link, force in zip(motions.links, forces, strict=True)],
    )


def scan_velocities(
    topology: Topology, offset: Float[Array, "nb 3"], relative: Float[Array, "nb 6"], schedule: AbstractSchedule
) -> Float[Array, "nb 6"]:
    """`V = [w; u + w x r] + relative` with the parent's `[w; u]`, zero for the world."""
    tree = topology.schedule
    if isinstance(schedule, Sequential):

        def step(parent: Array, x: tuple[Array, Array]):
            value = shift_motion(parent, x[0]) + x[1]
            return value, value

        return sweep_outward(tree, step, jnp.zeros(6, relative.dtype), [(offset, relative)])[0]
    angular = schedule.ancestor_sum(tree, relative[:, :3])
    at_parent = from_parents(tree, angular, jnp.zeros(3, angular.dtype))
    return pack(angular, schedule.ancestor_sum(tree, relative[:, 3:] + cross(at_parent, offset)))


def scan_wrenches(
    topology: Topology, offset: Float[Array, "nb 3"], wrench: Float[Array, "nb 6"], schedule: AbstractSchedule
) -> Float[Array, "nb 6"]:
    """Total wrenches on each body and all that it carries, about its origin: `F = f + sum of X^T F` of the children."""
    tree = topology.schedule
    if isinstance(schedule, Sequential):

        def step(children: Array, x: tuple[Array, Array]):
            total = children + x[1]
            return shift_force(total, x[0]), total

        return sweep_inward(tree, step, jnp.zeros(6, wrench.dtype), [(offset, wrench)])[0]
    force = schedule.subtree_sum(tree, wrench[:, 3:])
    levers = sum_of_children(tree, cross(offset, force))
    return pack(schedule.subtree_sum(tree, wrench[:, :3] + levers), force)

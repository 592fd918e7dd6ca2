"""Several arms and the object that they hold, by the factors of the arms' mass matrices.

Contact wrenches f act on the object, and -f on the arms. With `J` and `A` that take velocities of all joints and of the
object to the contacts, and accelerations in a world that accelerates against gravity (Rodriguez & Kreutz, part II, here
for trees with any joints, in world axes and with classical accelerations):

    M qdd + C + J^T f = tau,    M_o alpha + b_o = A^T f,    relative acceleration at the contacts = 0
    Omega f = relative acceleration without contacts,    Omega = J M^-1 J^T + A M_o^-1 A^T

With `B` from contacts to bodies `J M^-1 J^T = (H psi B)^T D^-1 (H psi B)`, one block for each arm.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Float

from ..dynamics._factors import bias_wrench
from ..model import Model
from ..model._assemble import group_key
from ..numerics import cross, linear_solution, matmul, matvec, product, symmetrise, transpose
from ..spatial import Inertia, Transform, inverse_inertia, pack, shift_force, shift_motion
from ..structured import spd_inverse
from ._arms import Arm, centripetal, prepare_arm
from ._delassus import AbstractConstraintSolver, AbstractDelassus
from ._grasps import Grasp, RigidObject, perpendicular


class JointState(NamedTuple):
    """State of the joints of one arm."""

    q: Float[Array, "*n nq"]
    v: Float[Array, "*n nv"]
    tau: Float[Array, "*n nv"]
    f_ext: Float[Array, "*n nb 6"]


class ObjectState(NamedTuple):
    """Pose and motion of the object, and the wrench on it."""

    pose: Transform
    velocity: Float[Array, "6"]
    wrench: Float[Array, "6"]


class GraspProblem(eqx.Module):
    """What is given.

    **Fields:** `tips`, for each arm the number of the body that holds the object; `arms`; `points`, origins of the
    frames in these bodies; the object and how it is held; the states of arms and object.
    """

    tips: tuple[int, ...] = eqx.field(static=True)
    arms: tuple[Model, ...]
    points: tuple[Float[Array, "3"], ...]
    object: RigidObject
    grasps: tuple[Grasp, ...]
    states: tuple[JointState, ...]
    held: ObjectState


# One entry for each stack of arms of equal structure.
Stacks = tuple[Float[Array, "_ _ _"], ...]


class GraspSystem(eqx.Module):
    """Arms and object in a state, without contact wrenches, and the equations for these.

    **Fields:** `order` of the arms, which is that of all arrays below; `arms`, in stacks of equal structure; `contacts`
    (l, 3) from the object's origin; `axes` (3, d) of free rotations, one entry for each contact; `transmitted` N
    (6l, k), an orthonormal basis of the contact wrenches; `mobility` of the object, `M_o^-1`; its acceleration
    `released`, without contacts and against gravity; `bias` (l, 6), relative accelerations (arm less object) while
    neither joints nor object accelerate; `omega`, `N^T Omega N`, and the same `prepared` by a solver.
    """

    order: tuple[int, ...] = eqx.field(static=True)
    arms: tuple[Arm, ...]
    contacts: Float[Array, "l 3"]
    axes: tuple[Float[Array, "3 _"], ...]
    transmitted: Float[Array, "m k"]
    mobility: Float[Array, "6 6"]
    released: Float[Array, "6"]
    bias: Float[Array, "l 6"]
    omega: Float[Array, "k k"]
    prepared: AbstractDelassus

    @property
    def torques(self) -> Stacks:
        """`tau - C`."""
        return tuple(arm.torques for arm in self.arms)

    def filter(self, torques: Stacks, wrenches: Float[Array, "l 6"]) -> Stacks:
        """`Arm.filter` of all arms."""
        return self._each(lambda arm, t, f: arm.filter(t, f), torques, wrenches)

    def smooth(self, left: Stacks) -> tuple[Stacks, Float[Array, "l 6"]]:
        """`Arm.smooth` of all arms."""
        joints, tips = zip(*self._each(lambda arm, x: arm.smooth(x), left), strict=True)
        return joints, jnp.concatenate(tips)

    def project(self, left: Stacks) -> Float[Array, "l 6"]:
        """`Arm.project` of all arms."""
        return jnp.concatenate(self._each(lambda arm, x: arm.project(x), left))

    def felt(self, wrenches: Float[Array, "l 6"]) -> Stacks:
        """`H psi B f`, by a product."""
        return self._each(lambda arm, f: product(f, arm.influence.reshape(6, -1)).reshape(arm.torques.shape), wrenches)

    def contact_wrenches(self, tips: Float[Array, "l 6"]) -> Float[Array, "l 6"]:
        """`Omega f = r`, where the arms without contact wrenches accelerate their contacts by `tips`.

        Only those that the contacts transmit, `f = N x`, with `N^T H = 0` for free rotations about H. This is
        `f = (Omega^-1 - Omega^-1 H (H^T Omega^-1 H)^-1 H^T Omega^-1) r` (part II, appendix B), which would need an
        inverse of the whole Omega.

        Derivatives are those of the equation, not of the solver, whose rank has none. Where the matrix is singular they
        lack internal forces, which no motion feels.
        """
        free = product(self.transmitted.T, self.relative_acceleration(tips, self.released).reshape(-1))
        x = linear_solution(lambda x: product(self.omega, x), free, lambda found, b: found.solve(b), self.prepared)
        return product(self.transmitted, x).reshape(-1, 6)

    def object_acceleration(self, wrenches: Float[Array, "l 6"]) -> Float[Array, "6"]:
        """Acceleration of the object under wrenches at the contacts, in a world that accelerates against gravity."""
        return self.released + matvec(self.mobility, jnp.sum(shift_force(wrenches, self.contacts), axis=0))

    def relative_acceleration(self, tips: Float[Array, "l 6"], held: Float[Array, "6"]) -> Float[Array, "l 6"]:
        """Accelerations of the arms at their contacts, less those of the object there."""
        return tips + self.bias - at_contacts(held, self.contacts)

    def _each(self, function: Callable[..., Any], *arguments: Stacks | Float[Array, "l 6"]) -> tuple[Any, ...]:
        """`function(arm, ...)` for all arms."""
        ends = np.cumsum([len(arm.point) for arm in self.arms])[:-1].tolist()
        parts = [x if isinstance(x, tuple) else jnp.split(x, ends) for x in arguments]
        return tuple(jax.vmap(function)(*each) for each in zip(self.arms, *parts, strict=True))


def at_contacts(motion: Float[Array, "6"], contacts: Float[Array, "l 3"]) -> Float[Array, "l 6"]:
    """What a motion of the object is at its contacts."""
    return jax.vmap(shift_motion, in_axes=(None, 0))(motion, contacts)


def assemble(solver: AbstractConstraintSolver, problem: GraspProblem) -> GraspSystem:
    """The equations in a state."""
    stacks = stacks_of(problem.arms, problem.tips)
    order = [i for stack in stacks for i in stack]
    arms = tuple(
        jax.vmap(functools.partial(prepare_arm, problem.tips[stack[0]]))(
            *_stacked([(problem.arms[i], *problem.states[i], problem.points[i]) for i in stack])
        )
        for stack in stacks
    )
    grasps, pose = [problem.grasps[i] for i in order], problem.held.pose
    rotations = [matmul(pose.rotation, x.placement.rotation) for x in grasps]
    contacts = jnp.stack([matvec(pose.rotation, x.placement.translation) for x in grasps])
    axes = tuple(matmul(r, transpose(x.axes)) for r, x in zip(rotations, grasps, strict=True))
    # Orthonormal bases (3, 3 - d) of the moments that are transmitted.
    moments = [matmul(r, perpendicular(x.axes)) for r, x in zip(rotations, grasps, strict=True)]
    angular, velocities = problem.held.velocity[None, :3], jnp.concatenate([arm.velocity for arm in arms])
    mobility, released = _object_alone(problem.object, problem.held)
    transmitted = block_diag(*(block_diag(m, jnp.eye(3, dtype=m.dtype)) for m in moments))
    relative = zip(moments, angular - velocities[:, :3], strict=True)
    free = jnp.stack([w - matvec(m, matvec(transpose(m), w)) for m, w in relative])
    # The axes of free rotations turn with the object.
    turning = cross(angular, free)
    carried = pack(turning, jnp.zeros_like(turning)) - centripetal(angular, contacts)
    omega = _contact_matrix(arms, contacts, transmitted, mobility)
    fixed = lax.stop_gradient(omega)
    return GraspSystem(
        order=tuple(order),
        arms=arms,
        contacts=contacts,
        axes=axes,
        transmitted=transmitted,
        mobility=mobility,
        released=released,
        bias=jnp.concatenate([arm.bias for arm in arms]) + carried,
        omega=omega,
        prepared=solver.factor(fixed, jnp.diagonal(fixed)),
    )


def _object_alone(object: RigidObject, held: ObjectState) -> tuple[Float[Array, "6 6"], Float[Array, "6"]]:
    """Its mobility, and its acceleration without contacts and against gravity."""
    rotation, second = held.pose.rotation, symmetrise(object.inertia)
    inertia = Inertia.from_com(object.mass, object.com, second).rotated(rotation)
    compliance = spd_inverse(matmul(matmul(rotation, second), transpose(rotation)))
    mobility = inverse_inertia(object.mass, matvec(rotation, object.com), compliance)
    return mobility, -matvec(mobility, bias_wrench(inertia, held.velocity[:3], held.wrench))


def _contact_matrix(
    arms: tuple[Arm, ...],
    contacts: Float[Array, "l 3"],
    transmitted: Float[Array, "m k"],
    mobility: Float[Array, "6 6"],
) -> Float[Array, "k k"]:
    """`N^T Omega N`."""
    blocks = jnp.concatenate([jax.vmap(lambda arm: arm.mobility())(stack) for stack in arms])
    columns = jax.vmap(at_contacts, in_axes=(0, None))(jnp.eye(6, dtype=contacts.dtype), contacts)
    carried = product(transmitted.T, columns.reshape(6, -1).T)
    of_arms = product(product(transmitted.T, block_diag(*blocks)), transmitted)
    return symmetrise(of_arms + product(product(carried, mobility), carried.T))


def stacks_of(models: tuple[Model, ...], tips: tuple[int, ...]) -> list[list[int]]:
    """Groups of arms, by number, that can be stacked: of equal structure, and holding with the same body."""
    stacks: dict[Any, list[int]] = {}
    for i, (model, tip) in enumerate(zip(models, tips, strict=True)):
        stacks.setdefault((group_key(model), tip), []).append(i)
    return list(stacks.values())


def _stacked(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *x: jnp.stack(x), *trees)

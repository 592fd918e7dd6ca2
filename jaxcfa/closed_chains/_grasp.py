"""Forward dynamics of several arms that hold one rigid object."""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import block_diag
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from .._arguments import as_arrays, is_concrete
from .._motion import bias_wrench
from .._small import cross, matmul, matvec, symmetrise, transpose
from .._types import BodyForcesLike, ConfigurationLike, VelocityLike
from ..dynamics._suitability import refuse_massless_subtrees
from ..model import WORLD, Model, unpad_dofs
from ..spatial import Inertia, Transform, inverse_inertia, pack
from ..structured import spd_inverse, spd_solve
from ._arms import Arm, centripetal, prepare_arm
from ._delassus import LEAST_NORM, AbstractConstraintSolver
from ._grasp_algorithms import RCCFD2, AbstractGraspAlgorithm, GraspSystem, at_contacts, contact_matrix
from ._grasps import Grasp, RigidObject, check_pose, perpendicular
from ._status import ConstraintStatus

_RCCFD2 = RCCFD2()


class GraspSolution(eqx.Module):
    """How arms and the object that they hold accelerate.

    **Fields:**

    - `qdd`: joint accelerations (nv,) of each arm [rad/s^2, m/s^2].
    - `object_acceleration` (6,): derivative of the object's `velocity`, world axes.
    - `wrenches` (l, 6): `[moment; force]` of each arm on the object at the contact point, world axes [N m, N]. Of those
      that no motion determines (internal forces), what the solver chooses.
    - `relative_accelerations`: of each grasp (d,), rates of the speeds of rotation of the object relative to the arm
      about the grasp's axes [rad/s^2].
    - `residual`: largest relative acceleration at a contact that should be zero.
    - `status`: flags of `ConstraintStatus`.
    """

    qdd: tuple[Float[Array, "_"], ...]
    object_acceleration: Float[Array, "6"]
    wrenches: Float[Array, "l 6"]
    relative_accelerations: tuple[Float[Array, "_"], ...]
    residual: Float[Array, ""]
    status: Int[Array, ""]


def grasp_forward_dynamics(
    arms: Sequence[Model],
    object: RigidObject,
    grasps: Sequence[Grasp],
    q: Sequence[ConfigurationLike],
    v: Sequence[VelocityLike],
    pose: Transform,
    velocity: Annotated[ArrayLike, "6"],
    tau: Sequence[VelocityLike],
    f_ext: Sequence[BodyForcesLike | None] | None = None,
    wrench: Annotated[ArrayLike, "6"] | None = None,
    algorithm: AbstractGraspAlgorithm = _RCCFD2,
    solver: AbstractConstraintSolver = LEAST_NORM,
) -> GraspSolution:
    """Accelerations and contact wrenches of l arms that hold one rigid object (Rodriguez & Kreutz 1992, part II).

    The time grows with the number of bodies, and with the cube of the number of arms. Each arm is a tree of its own,
    with any joints, and holds the object once; one model may be given several times, for several such arms. For one
    mechanism with several hands, or one that closes loops in other ways, see `constrained_forward_dynamics`. Arms of
    equal structure that hold the object with the same body are computed side by side.

    Contacts neither slip nor break: it is for the caller to see whether friction allows the wrenches.

    **Arguments:**

    - `arms`: l models with the same gravity, which the object feels too; `object`; `grasps`, one for each arm.
    - `q` (nq,), `v` (nv,), `tau` (nv,) of each arm.
    - `pose` of the object in the world, and its `velocity` (6,), `[angular velocity; velocity of its origin]` in world
      axes [rad/s, m/s].
    - `f_ext`: for each arm wrenches (nb, 6) on its bodies, world axes, at their origins, or `None`. `wrench` (6,) on
      the object, world axes, about its origin, without gravity and contacts [N m, N].
    - `algorithm`: `RCCFD1()`, `RCCFD2()` (the default) or `RCCFD3()`.
    - `solver` for the contact wrenches: `LeastNorm()` by default, with which the object may be held by more than it
      needs.

    **Returns:** a `GraspSolution`. Derivatives are exact, but for internal forces: those of contact wrenches that no
    motion determines lack them.

    **Raises:** `ValueError` for numbers and shapes that do not fit, unknown frames, different gravity, bodies that move
    no inertia, and, unless traced, for contact wrenches that are not unique if the solver needs them to be.
    """
    _check_types(arms, object, grasps, algorithm, solver)
    _check_number("grasps", grasps, arms)
    check_pose("pose", pose)
    places = [_locate(i, arm, grasp) for i, (arm, grasp) in enumerate(zip(arms, grasps, strict=True))]
    states = _joint_states(arms, q=q, v=v, tau=tau, f_ext=[None] * len(arms) if f_ext is None else f_ext)
    dtype = jnp.result_type(*(arm.dtype for arm in arms))
    held = _ObjectState(pose, _vector("velocity", velocity, dtype), _vector("wrench", wrench, dtype))
    parameters = object, tuple(grasps), states, held
    dtype = jnp.result_type(dtype, *jax.tree.leaves(parameters))
    placements = tuple(place.translation for _, place in places)
    everything = jax.tree.map(lambda x: jnp.asarray(x, dtype), (tuple(arms), placements, *parameters))
    solution = _solve(algorithm, solver, tuple(body for body, _ in places), *everything)
    if is_concrete(solution):
        _explain(solution, everything)
    return solution


class _JointState(NamedTuple):
    """Of one arm."""

    q: Float[Array, "*n nq"]
    v: Float[Array, "*n nv"]
    tau: Float[Array, "*n nv"]
    f_ext: Float[Array, "*n nb 6"]


class _ObjectState(NamedTuple):
    """Where the object is, how it moves, and the wrench on it."""

    pose: Transform
    velocity: Float[Array, "6"]
    wrench: Float[Array, "6"]


@eqx.filter_jit
def _solve(
    algorithm: AbstractGraspAlgorithm,
    solver: AbstractConstraintSolver,
    tips: tuple[int, ...],
    models: tuple[Model, ...],
    placements: tuple[Float[Array, "3"], ...],
    object: RigidObject,
    grasps: tuple[Grasp, ...],
    states: tuple[_JointState, ...],
    held: _ObjectState,
) -> GraspSolution:
    stacks = _alike(models, tips)
    order = [i for stack in stacks for i in stack]
    back = np.argsort(order)
    # Accelerators give less than full precision by default.
    with jax.default_matmul_precision("highest"):
        arms = tuple(
            jax.vmap(functools.partial(prepare_arm, tips[stack[0]]))(
                *_stacked([(models[i], *states[i], placements[i]) for i in stack])
            )
            for stack in stacks
        )
        contacts = _contacts([grasps[i] for i in order], held.pose)
        system = _system(solver, arms, contacts, object, held)
        joints, tip_change, wrenches = algorithm.solve(system)
        acceleration = system.object_acceleration(wrenches)
        relative = system.relative_acceleration(tip_change, acceleration)
        residual = jnp.max(jnp.abs(system.transmitted.T @ relative.reshape(-1)))
    spins = [
        spd_solve(matmul(transpose(h), h), -matvec(transpose(h), x[:3]))
        for h, x in zip(contacts.axes, relative, strict=True)
    ]
    each = [x[i] for x in joints for i in range(len(x))]
    gravity = pack(jnp.zeros_like(models[0].gravity), models[0].gravity)
    return GraspSolution(
        tuple(unpad_dofs(model, each[i]) for model, i in zip(models, back, strict=True)),
        acceleration + gravity,
        wrenches[back],
        tuple(spins[i] for i in back),
        residual,
        _status(system, held, [s.v for s in states], residual, [*joints, tip_change, acceleration]),
    )


class _Contacts(NamedTuple):
    """In world axes: `levers` (l, 3) from the object's origin; `axes`, each (3, d), of free rotations, and an
    orthonormal basis of the `moments`, each (3, 3 - d), that are transmitted."""

    levers: Float[Array, "l 3"]
    axes: list[Float[Array, "3 _"]]
    moments: list[Float[Array, "3 _"]]


def _contacts(grasps: list[Grasp], pose: Transform) -> _Contacts:
    rotations = [matmul(pose.rotation, grasp.placement.rotation) for grasp in grasps]
    levers = jnp.stack([matvec(pose.rotation, grasp.placement.translation) for grasp in grasps])
    axes = [matmul(r, transpose(grasp.axes)) for r, grasp in zip(rotations, grasps, strict=True)]
    moments = [matmul(r, perpendicular(grasp.axes)) for r, grasp in zip(rotations, grasps, strict=True)]
    return _Contacts(levers, axes, moments)


def _system(
    solver: AbstractConstraintSolver,
    arms: tuple[Arm, ...],
    contacts: _Contacts,
    object: RigidObject,
    held: _ObjectState,
) -> GraspSystem:
    rotation, angular = held.pose.rotation, held.velocity[:3]
    inertia = Inertia.from_com(object.mass, object.com, symmetrise(object.inertia)).rotated(rotation)
    compliance = spd_inverse(matmul(matmul(rotation, symmetrise(object.inertia)), transpose(rotation)))
    mobility = inverse_inertia(object.mass, matvec(rotation, object.com), compliance)
    forces = [block_diag(moments, jnp.eye(3, dtype=angular.dtype)) for moments in contacts.moments]
    transmitted = block_diag(*forces)
    velocities = jnp.concatenate([arm.velocity for arm in arms])
    free = jnp.stack(
        [
            w - matvec(t, matvec(transpose(t), w))
            for t, w in zip(contacts.moments, angular - velocities[:, :3], strict=True)
        ]
    )
    # The axes of free rotations turn with the object.
    turning = cross(angular, free)
    carried = pack(turning, jnp.zeros_like(turning)) - centripetal(angular, contacts.levers)
    omega = contact_matrix(arms, contacts.levers, transmitted, mobility)
    fixed = lax.stop_gradient(omega)
    return GraspSystem(
        arms=arms,
        contacts=contacts.levers,
        transmitted=transmitted,
        mobility=mobility,
        released=-matvec(mobility, bias_wrench(inertia, angular, held.wrench)),
        bias=jnp.concatenate([arm.bias for arm in arms]) + carried,
        omega=omega,
        prepared=solver.factor(fixed, jnp.diagonal(fixed)),
    )


def _status(
    system: GraspSystem,
    held: _ObjectState,
    speeds: list[Float[Array, "_"]],
    residual: Float[Array, ""],
    accelerations: list[Array],
) -> Int[Array, ""]:
    """Flags, each for what exceeds `sqrt(eps)` of the largest length, speed or acceleration."""
    points, velocities = (
        jnp.concatenate(x) for x in zip(*((arm.point, arm.velocity) for arm in system.arms), strict=True)
    )
    lengths = [jnp.sum(jnp.abs(arm.factors.bodies.motion.offset), axis=(1, 2)) for arm in system.arms]
    gap = held.pose.translation + system.contacts - points
    slip = system.transmitted.T @ (at_contacts(held.velocity, system.contacts) - velocities).reshape(-1)
    wrong = {
        ConstraintStatus.SINGULAR: system.prepared.is_singular,
        ConstraintStatus.UNSATISFIED: _exceeds(residual, [*accelerations, system.bias]),
        ConstraintStatus.OPEN: _exceeds(gap, [*lengths, points, system.contacts]),
        ConstraintStatus.MOVING: _exceeds(slip, [*speeds, velocities, held.velocity]),
    }
    return sum((jnp.where(is_so, int(flag), 0) for flag, is_so in wrong.items()), jnp.zeros((), jnp.int32)).astype(
        jnp.int32
    )


def _exceeds(error: Array, sizes: list[Array]) -> Bool[Array, ""]:
    """Also where it is not a number."""
    size = functools.reduce(jnp.maximum, [jnp.max(jnp.abs(x), initial=0) for x in sizes])
    return ~(jnp.max(jnp.abs(error)) <= float(jnp.finfo(error.dtype).eps) ** 0.5 * size)


def _alike(models: tuple[Model, ...], tips: tuple[int, ...]) -> list[list[int]]:
    """Numbers of the arms that can be stacked: of equal structure, and holding with the same body."""
    stacks: dict[Any, list[int]] = {}
    for i, (model, tip) in enumerate(zip(models, tips, strict=True)):
        leaves, structure = jax.tree.flatten(model)
        stacks.setdefault((structure, tuple(x.shape for x in leaves), tip), []).append(i)
    return list(stacks.values())


def _stacked(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *x: jnp.stack(x), *trees)


def _check_types(arms, object, grasps, algorithm, solver) -> None:
    if isinstance(arms, Model) or not arms or not all(isinstance(arm, Model) for arm in arms):
        raise ValueError(f"arms must be a sequence of one Model or more, got {arms!r}.")
    if not isinstance(object, RigidObject):
        raise ValueError(f"object must be a RigidObject, got {object!r}.")
    if isinstance(grasps, Grasp) or not all(isinstance(grasp, Grasp) for grasp in grasps):
        raise ValueError(f"grasps must be a sequence of Grasp, got {grasps!r}.")
    if not isinstance(algorithm, AbstractGraspAlgorithm):
        raise ValueError(f"algorithm must be RCCFD1(), RCCFD2() or RCCFD3(), got {algorithm!r}.")
    if not isinstance(solver, AbstractConstraintSolver):
        raise ValueError(f"solver must be one such as LeastNorm(), got {solver!r}.")
    if is_concrete(arms):
        gravities = np.stack([np.asarray(arm.gravity, dtype=float) for arm in arms])
        if not np.allclose(gravities, gravities[0], rtol=1e-5, atol=0):
            raise ValueError(f"All arms must have the same gravity, got {gravities.tolist()}.")
        for arm in arms:
            refuse_massless_subtrees(arm)


def _locate(number: int, arm: Model, grasp: Grasp) -> tuple[int, Transform]:
    """The body that holds the object, and the contact's frame in it."""
    with _about(number):
        body, placement = arm.locate(grasp.frame)
        if body == WORLD:
            raise ValueError(f"Frame {grasp.frame!r} is fixed to the world, and no arm can hold anything with it.")
    return body, placement


def _joint_states(arms: Sequence[Model], **arguments: Sequence) -> tuple[_JointState, ...]:
    """Checked arguments of each arm."""
    for name, values in arguments.items():
        _check_number(name, values, arms)
    states = []
    for i, (arm, *values) in enumerate(zip(arms, *arguments.values(), strict=True)):
        with _about(i):
            states.append(_JointState(*as_arrays(arm, **dict(zip(arguments, values, strict=True)))))
    return tuple(states)


def _check_number(name: str, values: Sequence, arms: Sequence[Model]) -> None:
    if not hasattr(values, "__len__"):
        raise ValueError(f"{name} must be a sequence with one entry for each arm, got {values!r}.")
    if len(values) != len(arms):
        raise ValueError(f"{name} must have one entry for each of the {len(arms)} arms, got {len(values)}.")


@contextlib.contextmanager
def _about(number: int) -> Iterator[None]:
    """Says in error messages which arm they are about."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"arms[{number}]: {error}") from error


def _vector(name: str, value: ArrayLike | None, dtype: jnp.dtype) -> Float[Array, "6"]:
    """An argument of six components; zero for `None`."""
    if value is None:
        return jnp.zeros(6, dtype)
    array = jnp.asarray(value)
    if array.shape != (6,):
        raise ValueError(f"{name} must have shape (6,), got {array.shape}.")
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(dtype)


def _explain(solution: GraspSolution, given: Any) -> None:
    """Raises if a result that is not finite comes from finite arguments."""
    if _finite((solution.qdd, solution.object_acceleration)) or not _finite(given[2:]):
        return
    if ConstraintStatus.SINGULAR in ConstraintStatus(int(solution.status)):
        raise ValueError(
            "The contact wrenches are not unique: the object is held by more than it needs, or arms are in singular "
            "configurations. Use LeastNorm(), which finds the motion all the same, and the smallest wrenches."
        )
    raise ValueError(
        "The accelerations of arms and object are not finite: the mass matrix of an arm is singular at this "
        "configuration, because some joint moves no inertia. Give its bodies inertia about its axis, or armature."
    )


def _finite(tree: Any) -> bool:
    return all(np.all(np.isfinite(x)) for x in jax.tree.leaves(tree))

"""Forward dynamics of several arms that hold one rigid object."""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from ..compilation import jit_of_one_state
from ..dynamics._run import are_finite, mechanism_of
from ..dynamics._suitability import refuse_massless_subtrees
from ..model import WORLD, Model, unpad_dofs
from ..model._arguments import as_arrays, check_instance, is_concrete
from ..numerics import all_finite, matmul, matvec, product, transpose
from ..numerics._options import any_numbers
from ..one_function import as_one_function
from ..spatial import Transform, pack
from ..structured import spd_solve
from ..typing import BodyForcesLike, ConfigurationLike, VelocityLike
from ._delassus import LEAST_NORM, AbstractConstraintSolver, check_solver
from ._grasp_algorithms import RCCFD2, AbstractGraspAlgorithm
from ._grasp_system import GraspProblem, GraspSystem, JointState, ObjectState, assemble, at_contacts
from ._grasps import Grasp, RigidObject, check_pose
from ._status import ConstraintStatus, combined, exceeds, status_tolerance

_RCCFD2 = RCCFD2()
_ROUNDING = 32  # units in the last place of positions


class GraspSolution(eqx.Module):
    """Accelerations of arms and of the object that they hold.

    **Fields:**

    - `qdd`: joint accelerations (nv,) of each arm [rad/s^2, m/s^2].
    - `object_acceleration` (6,): derivative of the object's `velocity`, world axes.
    - `wrenches` (l, 6): `[moment; force]` of each arm on the object at the contact point, world axes [N m, N]. Internal
      forces, which no motion determines, are chosen by the solver.
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
    problem = pose_problem(arms, object, grasps, q, v, pose, velocity, tau, f_ext, wrench)
    check_instance("algorithm", algorithm, AbstractGraspAlgorithm, "RCCFD1(), RCCFD2() or RCCFD3()")
    check_solver(solver)
    solution = _solve(algorithm, solver, problem)
    if is_concrete(solution):
        _explain(solution, problem)
    return solution


def pose_problem(arms, object, grasps, q, v, pose, velocity, tau, f_ext=None, wrench=None) -> GraspProblem:
    """Checked arguments, of one floating-point type."""
    _check_types(arms, object, grasps)
    _check_number("grasps", grasps, arms)
    check_pose("pose", pose)
    given = {"q": q, "v": v, "tau": tau, "f_ext": [None] * len(arms) if f_ext is None else f_ext}
    for name, values in given.items():
        _check_number(name, values, arms)
    places, states = [], []
    for number, (arm, grasp, *own) in enumerate(zip(arms, grasps, *given.values(), strict=True)):
        with _about(number):
            places.append(_place_of(arm, grasp))
            states.append(JointState(*as_arrays(arm, **dict(zip(given, own, strict=True)))))
    dtype = jnp.result_type(*(arm.dtype for arm in arms))
    held = ObjectState(pose, _vector("velocity", velocity, dtype), _vector("wrench", wrench, dtype))
    dtype = jnp.result_type(dtype, *jax.tree.leaves((object, grasps, states, held)))
    tips, points = tuple(body for body, _ in places), tuple(place.translation for _, place in places)
    problem = GraspProblem(tips, tuple(arms), points, object, tuple(grasps), tuple(states), held)
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), problem)


@partial(jit_of_one_state, jit=eqx.filter_jit)
@as_one_function
def _solve(algorithm: AbstractGraspAlgorithm, solver: AbstractConstraintSolver, problem: GraspProblem) -> GraspSolution:
    return solve_system(algorithm, problem, assemble(solver, problem))


def solve_system(algorithm: AbstractGraspAlgorithm, problem: GraspProblem, system: GraspSystem) -> GraspSolution:
    """The solution, in the order in which arms were given."""
    joints, tips, wrenches = algorithm.solve(system)
    acceleration = system.object_acceleration(wrenches)
    relative = system.relative_acceleration(tips, acceleration)
    residual = jnp.max(jnp.abs(product(system.transmitted.T, relative.reshape(-1))))
    spins = [
        spd_solve(matmul(transpose(h), h), -matvec(transpose(h), x[:3]))
        for h, x in zip(system.axes, relative, strict=True)
    ]
    rows = [x for stack in joints for x in stack]
    back = np.argsort(system.order)
    gravity = problem.arms[0].gravity
    return GraspSolution(
        tuple(unpad_dofs(model.topology, rows[i]) for model, i in zip(problem.arms, back, strict=True)),
        acceleration + pack(jnp.zeros_like(gravity), gravity),
        wrenches[back],
        tuple(spins[i] for i in back),
        residual,
        _status(system, problem, residual, [*joints, tips, acceleration], wrenches),
    )


def _status(
    system: GraspSystem,
    problem: GraspProblem,
    residual: Float[Array, ""],
    accelerations: list[Array],
    wrenches: Float[Array, "l 6"],
) -> Int[Array, ""]:
    """Flags, each for what exceeds the tolerance times the largest length, speed or acceleration.

    Lengths are those of the arms and the object, wherever they are; far away the rounding of positions is allowed, too.
    """
    held, speeds = problem.held, [state.v for state in problem.states]
    points, velocities = (jnp.concatenate(x) for x in zip(*((a.point, a.velocity) for a in system.arms), strict=True))
    gyration = jnp.sqrt(jnp.trace(problem.object.inertia) / problem.object.mass)
    lengths = [gyration, system.contacts, *(arm.length for arm in system.arms)]
    rounding = _ROUNDING * float(jnp.finfo(points.dtype).eps) / status_tolerance(points.dtype)
    gap = held.pose.translation[None] + system.contacts - points
    slip = product(system.transmitted.T, (at_contacts(held.velocity, system.contacts) - velocities).reshape(-1))
    return combined(
        {
            ConstraintStatus.SINGULAR: system.prepared.is_singular,
            ConstraintStatus.UNSATISFIED: _exceeds(residual, [*accelerations, system.bias]),
            ConstraintStatus.OPEN: _exceeds(gap, [*lengths, rounding * held.pose.translation, rounding * points]),
            ConstraintStatus.MOVING: _exceeds(slip, [*speeds, velocities, held.velocity]),
            ConstraintStatus.NOT_FINITE: ~all_finite((residual, accelerations, wrenches)),
        }
    )


def _exceeds(error: Array, sizes: list[Array]) -> Bool[Array, ""]:
    size = functools.reduce(jnp.maximum, [jnp.max(jnp.abs(x), initial=0) for x in sizes])
    return exceeds(error, status_tolerance(error.dtype) * size)


def _check_types(arms, object, grasps) -> None:
    if not _are_all(Model, arms) or not len(arms):
        raise ValueError(f"arms must be a sequence of one Model or more, got {arms!r}.")
    check_instance("object", object, RigidObject, "a RigidObject")
    if not _are_all(Grasp, grasps):
        raise ValueError(f"grasps must be a sequence of Grasp, got {grasps!r}.")
    if is_concrete(arms):
        gravities = np.stack([np.asarray(arm.gravity, dtype=float) for arm in arms])
        apart = np.linalg.norm(gravities - gravities[0], axis=-1)
        if not np.all(apart <= 1e-5 * np.linalg.norm(gravities[0])):
            raise ValueError(f"All arms must have the same gravity, got {gravities.tolist()}.")
        for arm in arms:
            refuse_massless_subtrees(arm)


def _are_all(kind: type, values) -> bool:
    """Whether these are a sequence of such objects."""
    return hasattr(values, "__len__") and all(isinstance(x, kind) for x in values)


def _place_of(arm: Model, grasp: Grasp) -> tuple[int, Transform]:
    """The body that holds the object, and the contact's frame in it."""
    body, placement = arm.locate(grasp.frame)
    if body == WORLD:
        raise ValueError(f"Frame {grasp.frame!r} is fixed to the world, and no arm can hold anything with it.")
    return body, placement


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
    array = any_numbers(name, value)
    if array.shape != (6,):
        raise ValueError(f"{name} must have shape (6,), got {array.shape}.")
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(dtype)


def _explain(solution: GraspSolution, problem: GraspProblem) -> None:
    """Raises if a result that is not finite comes from finite arguments."""
    given = problem.points, problem.object, problem.grasps, problem.states, problem.held
    arms = list(map(mechanism_of, problem.arms))
    if are_finite(solution.qdd, solution.object_acceleration) or not are_finite(given, arms):
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

"""Trajectories of many steps."""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, SupportsIndex

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from ..closed_chains import AbstractConstraintSolver, AbstractStabilization, ConstraintStatus
from ..closed_chains._delassus import LEAST_NORM
from ..compilation import jit_of_one_state
from ..contacts import AbstractContacts
from ..dynamics import AbstractForwardDynamics
from ..model import AbstractConstraint, Model
from ..model._arguments import FOR_ACTUATORS, NO_ACTUATORS, as_arrays, check_model, is_concrete, positive_integer
from ..numerics import without_derivatives
from ..numerics._options import traceable
from ..typing import ConfigurationLike, VelocityLike
from ._checkpointed_scan import checkpointed_scan
from ._equation_of_motion import EquationOfMotion, Options, equation_of_motion
from ._inputs import Actuated, check_arguments, checked_dt, driven_by, input_size
from ._integrators import AbstractIntegrator, check_integrator
from ._step import SEMI_IMPLICIT_EULER, advance, is_sound
from ._stops import Stops

Policy = Callable[[Float[Array, ""], Float[Array, "nq"], Float[Array, "nv"]], ArrayLike]


class Trajectory(NamedTuple):
    """States at `steps + 1` instants, and the torques of the `steps` between.

    **Fields:** `t` (steps + 1,) [s], from zero; `q` (steps + 1, nq); `v` (steps + 1, nv) [rad/s, m/s]; `tau` (steps,
    nv) [N m, N] at the start of each step, those of the actuators if controls are theirs, and within the effort limits
    if these act; `status`: flags of `closed_chains.ConstraintStatus`, all that are set in some state, 0 if all is well.
    A loop counts as open, or as moving, if its error is more than a hundredth of what it is compared with (a length of
    the mechanism, or the range of what slides; its speeds): more than integrators should leave. Without constraints
    only `NOT_FINITE` can be set, also by velocities of 10,000 rad or m in one step.
    """

    t: Float[Array, "steps+1"]
    q: Float[Array, "steps+1 nq"]
    v: Float[Array, "steps+1 nv"]
    tau: Float[Array, "steps nv"]
    status: Int[Array, ""]


def rollout(
    model: Model,
    q0: ConfigurationLike,
    v0: VelocityLike,
    controls: ArrayLike | Policy,
    dt: ArrayLike,
    integrator: AbstractIntegrator = SEMI_IMPLICIT_EULER,
    f_ext: ArrayLike | None = None,
    method: AbstractForwardDynamics | None = None,
    *,
    steps: SupportsIndex | None = None,
    passive_forces: bool = True,
    friction_velocity: ArrayLike = 1e-3,
    constraints: AbstractConstraint | Sequence[AbstractConstraint] = (),
    stabilization: AbstractStabilization | None = None,
    solver: AbstractConstraintSolver = LEAST_NORM,
    actuated: Actuated = False,
    limits: bool | Stops = False,
    contacts: AbstractContacts | None = None,
    checkpoint: SupportsIndex = 1,
) -> Trajectory:
    """The trajectory from a state under given torques or controls of actuators, or under those of a policy.

    Springs, damping and dry friction of the joints act too, and the limits in `model.limits` on request, as in `step`.
    Reverse-mode derivatives keep the states alone, of which the trajectory consists anyway: each step is computed once
    more when it is differentiated, which takes about as long as to store and to load what its derivative needs.

    **Arguments:** `q0` (nq,); `v0` (nv,) [rad/s, m/s]. `controls`: joint torques (steps, nv) [N m, N], each held for
    one step, or a policy: `controls(t, q, v)` gives the torques (nv,) for the step from t on, and `steps` says how many
    there are. (Calls outside `jit` compile anew for every new function object; an `equinox.Module` with `__call__`,
    whose arrays may change, does not; nor do objects of ordinary classes, whose attributes must not change.)
    `dt`: length of one step [s]. `integrator`, `method`, `passive_forces`, `friction_velocity`, `constraints`,
    `stabilization`, `solver`, `limits`, `contacts`: as for `step`. `actuated`: as for `step`: `controls` are torques of
    some joints, (steps, m), or those of `model.actuators`, (steps, nu), or a policy gives such (m,) or (nu,). `f_ext`:
    external wrenches (nb, 6), constant, or (steps, nb, 6). `checkpoint`: the largest number of steps that are
    computed anew together, by default one. With more, fewer states are kept, and what the derivatives of so many steps
    need; `steps` stores everything and computes nothing anew.

    **Returns:** a `Trajectory`, whose first state is the given one. If constraints could not be held, its `status`
    says so, and (unless traced) a warning.

    **Raises:** `ValueError` for a wrong shape, integrator, stabilisation or solver, a `method` together with
    constraints, a policy without `steps`, a number of steps or a `checkpoint` below one, and whatever else `step`
    refuses: a `dt` that is not positive, for example.
    """
    check_model(model)
    check_integrator(integrator)
    driven = driven_by(model, actuated)
    count, letters = input_size(model, driven)
    if isinstance(controls, type):
        raise ValueError(
            f"controls must be an array or a function of t, q and v, got the class {controls.__name__}. "
            f"Write {controls.__name__}(...)."
        )
    if callable(controls):
        check_arguments("controls must be an array or a function of t, q and v", controls, "t", "q", "v")
    inputs = None if callable(controls) else _per_step(model, "controls", controls, (count,), letters)
    steps = _number_of_steps(inputs, steps)
    length = positive_integer("checkpoint", checkpoint)
    q0, v0 = as_arrays(model, q0=q0, v0=v0)
    wrenches = _wrenches(model, f_ext, steps)
    dtype = jnp.result_type(q0, wrenches, q0 if inputs is None else inputs)
    q0, v0, wrenches = q0.astype(dtype), v0.astype(dtype), wrenches.astype(dtype)
    dt = checked_dt(dt, dtype)
    options = Options(method, passive_forces, friction_velocity, constraints, stabilization, solver, limits, contacts)
    equation = equation_of_motion(model, options, driven, dt)
    source = controls if inputs is None else inputs.astype(dtype)
    found = _rollout(integrator, equation, q0, v0, source, wrenches, dt, steps, length)
    if equation.constraints and is_concrete(found) and found.status:
        _warn(ConstraintStatus(int(found.status)))
    return found


@partial(jit_of_one_state, jit=eqx.filter_jit)
def _rollout(
    integrator: AbstractIntegrator,
    equation: EquationOfMotion,
    q0: Float[Array, "nq"],
    v0: Float[Array, "nv"],
    controls: Any,
    f_ext: Float[Array, "*steps nb 6"],
    dt: Float[Array, ""],
    steps: int,
    length: int,
) -> Trajectory:
    model, dtype = equation.model, q0.dtype
    policy = "controls(t, q, v)"
    sizes = {policy: input_size(model, equation.actuated)}
    t = dt * jnp.arange(steps + 1, dtype=dtype)

    def body(state: tuple[Array, Array], x: tuple[Array, Array | None, Array | None]):
        (q, v), (now, inputs, wrenches) = state, x
        if inputs is None:
            with traceable(policy, controls):
                found = controls(now, q, v)
            (inputs,) = (x.astype(dtype) for x in as_arrays(model, sizes=sizes, **{policy: found}))
        tau = equation.torques(q, v, inputs)
        state = advance(integrator, equation, q, v, inputs, f_ext if wrenches is None else wrenches, dt)
        return state, (q, v, tau)

    xs = (t[:-1], None if callable(controls) else controls, f_ext if f_ext.ndim == 3 else None)
    (q, v), (qs, vs, taus) = checkpointed_scan(body, (q0, v0), xs, steps, length)
    qs, vs = jnp.concatenate([qs, q[None]]), jnp.concatenate([vs, v[None]])
    return Trajectory(t, qs, vs, taus, _status(equation, qs, vs, taus, f_ext, dt))


def _status(
    equation: EquationOfMotion,
    q: Float[Array, "n nq"],
    v: Float[Array, "n nv"],
    tau: Float[Array, "steps nv"],
    f_ext: Float[Array, "*steps nb 6"],
    dt: Float[Array, ""],
) -> Int[Array, ""]:
    """The flags of all states together; of the last one under the torques and wrenches of the last step.

    Not in the loop over steps, so that nothing of it is computed where it is not used, nor differentiated.
    """
    equation, q, v, tau, f_ext = without_derivatives((equation, q, v, tau, f_ext))
    status = jnp.where(
        is_sound(q, v, jax.lax.stop_gradient(dt)), 0, jnp.asarray(ConstraintStatus.NOT_FINITE, jnp.int32)
    )
    if not equation.constraints:
        return status

    def merged(flags: Array, x: tuple[Array, Array, Array, Array | None]) -> tuple[Array, None]:
        q, v, tau, wrenches = x
        return flags | equation.status(q, v, tau, f_ext if wrenches is None else wrenches), None

    xs = q, v, jnp.concatenate([tau, tau[-1:]]), jnp.concatenate([f_ext, f_ext[-1:]]) if f_ext.ndim == 3 else None
    return jax.lax.scan(merged, status, xs)[0]


def _warn(status: ConstraintStatus) -> None:
    reasons = {
        ConstraintStatus.NOT_FINITE: "joints go 10,000 rad or m in a step, or states are not finite",
        ConstraintStatus.SINGULAR: "Delassus' matrix is singular (LeastNorm() and Proximal() can solve that)",
        ConstraintStatus.UNSATISFIED: "the accelerations do not satisfy them: they contradict one another",
        ConstraintStatus.OPEN: "loops are open (see project_configuration for the start, or take shorter steps)",
        ConstraintStatus.MOVING: "loops open with some velocity (see project_velocity for the start, or take shorter "
        "steps or stabilization=Projection())",
    }
    found = "; ".join(reason for flag, reason in reasons.items() if flag in status)
    warnings.warn(f"The constraints could not be held at some time of the trajectory: {found}.", stacklevel=3)


def _number_of_steps(inputs: Array | None, steps: SupportsIndex | None) -> int:
    if inputs is None:
        if steps is None:
            raise ValueError("A policy needs the number of steps: rollout(..., steps=1000).")
        return positive_integer("steps", steps)
    if steps is not None and positive_integer("steps", steps) != inputs.shape[0]:
        raise ValueError(f"controls has {inputs.shape[0]} rows, one for each step, but steps is {steps}. Omit steps.")
    return positive_integer("steps", inputs.shape[0])


def _wrenches(model: Model, f_ext: Any, steps: int) -> Float[Array, "*steps nb 6"]:
    try:
        axes = 0 if f_ext is None else jnp.asarray(f_ext).ndim
    except (TypeError, ValueError):  # explained below
        axes = 0
    if axes != 3:
        return as_arrays(model, f_ext=f_ext)[0]
    wrenches = _per_step(model, "f_ext", f_ext, (model.nb, 6), "nb, 6")
    if wrenches.shape[0] != steps:
        raise ValueError(f"f_ext has wrenches for {wrenches.shape[0]} steps, but there are {steps}.")
    return wrenches


def _per_step(model: Model, name: str, value: Any, shape: tuple[int, ...], letters: str) -> Array:
    """An array with a leading axis over steps."""
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be an array of shape (steps, {letters}) or a function, got {value!r:.200}."
        ) from error
    if array.shape[1:] != shape or array.ndim != len(shape) + 1:
        expected = ", ".join(["steps", *map(str, shape)])
        batch = array.ndim > len(shape) + 1 and array.shape[-len(shape) :] == shape
        remedy = " Functions are for one state; batch them with jax.vmap." if batch else ""
        if letters == "nu" and not shape[0]:
            remedy = f" {NO_ACTUATORS}"
        elif letters == "nv" and array.size and array.shape[1:] == (len(model.actuators.names),):
            remedy = f" {FOR_ACTUATORS}"
        elif name == "controls" and array.shape == shape:
            remedy = " Constant ones are a function, lambda t, q, v: tau, together with steps."
        raise ValueError(f"{name} must have shape (steps, {letters}) = ({expected}), got {array.shape}.{remedy}")
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise ValueError(f"{name} must be real, got dtype {array.dtype}.")
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(model.dtype)

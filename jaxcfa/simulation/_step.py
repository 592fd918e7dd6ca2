"""One step in time."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from ..closed_chains import AbstractConstraintSolver, AbstractStabilization
from ..closed_chains._delassus import LEAST_NORM
from ..compilation import jit_of_one_state
from ..contacts import AbstractContacts
from ..dynamics import AbstractForwardDynamics
from ..model import AbstractConstraint, Model
from ..model._arguments import as_arrays
from ..typing import BodyForcesLike, Configuration, ConfigurationLike, Velocity, VelocityLike
from ._equation_of_motion import EquationOfMotion, Options, equation_of_motion
from ._inputs import Actuated, checked_dt, driven_by, input_size
from ._integrators import AbstractIntegrator, SemiImplicitEuler, check_integrator
from ._stops import Stops

SEMI_IMPLICIT_EULER = SemiImplicitEuler()
_FARTHEST = 1e4  # rad, m: in one step


class State(NamedTuple):
    """The state of a mechanism: configuration `q` (nq,) and velocity `v` (nv,) [rad/s, m/s]."""

    q: Configuration
    v: Velocity


def step(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    tau: ArrayLike,
    dt: ArrayLike,
    integrator: AbstractIntegrator = SEMI_IMPLICIT_EULER,
    f_ext: BodyForcesLike | None = None,
    method: AbstractForwardDynamics | None = None,
    *,
    passive_forces: bool = True,
    friction_velocity: ArrayLike = 1e-3,
    constraints: AbstractConstraint | Sequence[AbstractConstraint] = (),
    stabilization: AbstractStabilization | None = None,
    solver: AbstractConstraintSolver = LEAST_NORM,
    actuated: Actuated = False,
    limits: bool | Stops = False,
    contacts: AbstractContacts | None = None,
) -> State:
    """The state after one step in time, under constant torques.

    Unlike in `forward_dynamics`, the springs, damping and dry friction of the joints act too. The limits in
    `model.limits` do so on request; otherwise joints move beyond their range, and torques of any size are taken.

    **Arguments:** `q` (nq,); `v` (nv,) [rad/s, m/s]; `tau` (nv,) [N m, N], held during the step; `dt` [s], positive.
    `integrator`: `SemiImplicitEuler()`, `RungeKutta4()`, `ImplicitMidpoint()`, `ExplicitEuler()`, or your own. `f_ext`
    (nb, 6): external wrench `[moment; force]` on each body, world axes, at the body's origin [N m, N], held during the
    step. `method`: the algorithm for forward dynamics, if there are no constraints. `passive_forces`: whether
    `jaxcfa.passive_forces` act; `friction_velocity` [rad/s, m/s]: its argument. `constraints`: loops to be kept closed,
    as for `constrained_forward_dynamics`, with the `solver` for their forces, and `stabilization`: `Baumgarte`, by
    default at 20 rad/s (`0.4 / dt` in steps of more than 0.02 s), which bounds the drift, or `Projection()`, which
    leaves none, in steps that take about twice as long (`SemiImplicitEuler`: up to ten times). `actuated`: names or
    numbers of the joints that `tau` (m,) belongs to, in this order, where the others have none (`None`: all joints but
    `Free` ones); or `True` or `"actuators"`: `tau` are the controls (nu,) of `model.actuators`, whose forces
    (`actuator_forces`) follow the state during the step. `limits`: whether torques are clipped to
    `model.limits.effort`, as those of actuators always are, and positions kept within `model.limits.lower` and `upper`
    by springs and dampers, those of `Stops()` or others. Limits of velocities never act. `contacts` with
    the ground or between bodies, of `jaxcfa.ground_contacts`, `body_contacts` or their sum, whose forces are solved
    for implicitly, by `SemiImplicitEuler` alone.

    **Returns:** a `State`: the pair `q`, `v`. It is NaN where the mass matrix is singular. Whether constraints could
    be held is in the `status` of `rollout` (also of one step, `rollout(model, q, v, tau[None], dt, ...)`), and in that
    of `constrained_forward_dynamics` for one state.

    **Raises:** `ValueError` for a wrong shape, integrator, stabilisation or solver, a `method` together with
    constraints, contacts with another integrator or of another model, unknown joints, a `dt` or a `friction_velocity`
    that is not positive, effort limits of zero to which torques would be clipped, and a model whose mass matrix is
    singular everywhere (if these can be looked at: not while they are traced; the `friction_velocity` has to be known).
    """
    options = Options(method, passive_forces, friction_velocity, constraints, stabilization, solver, limits, contacts)
    checked = checked_step(model, q, v, tau, dt, integrator, f_ext, actuated, options)
    return State(*_step(*checked))


def checked_step(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    tau: ArrayLike,
    dt: ArrayLike,
    integrator: AbstractIntegrator,
    f_ext: BodyForcesLike | None,
    actuated: Actuated,
    options: Options,
) -> tuple[AbstractIntegrator, EquationOfMotion, Array, Array, Array, Array, Array]:
    """Integrator, equation of motion, q, v, inputs, f_ext and dt: the arguments of `step`, checked."""
    check_integrator(integrator)
    driven = driven_by(model, actuated)
    name = "control" if driven == "actuators" else "tau"
    given: dict[str, Any] = {"q": q, "v": v, name: tau, "f_ext": f_ext}
    q, v, inputs, f_ext = as_arrays(model, sizes={name: input_size(model, driven)}, **given)
    dt = checked_dt(dt, q.dtype)
    equation = equation_of_motion(model, options, driven, dt)
    return integrator, equation, q, v, inputs, f_ext, dt


def is_sound(q: Float[Array, "*n nq"], v: Float[Array, "*n nv"], dt: Float[Array, ""]) -> Bool[Array, ""]:
    """Whether states are finite, and can go on. Integrations that fail come to 1e30 rad/s before they are infinite."""
    way = jnp.abs(v) * dt.astype(v.dtype)
    return jnp.all(jnp.isfinite(q)) & jnp.all(way < _FARTHEST)


def advance(
    integrator: AbstractIntegrator,
    equation: EquationOfMotion,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    inputs: Float[Array, "nu"],
    f_ext: Float[Array, "nb 6"],
    dt: Float[Array, ""],
) -> tuple[Configuration, Velocity]:
    """The state after `dt` under inputs that are held, stabilised: what all integrators leave to their callers."""
    tau = equation.torques(q, v, inputs)
    after = integrator.step(equation.during_step(inputs), q, v, tau, f_ext, dt)
    return equation.after_step(q, *after, dt)


@partial(jit_of_one_state, jit=eqx.filter_jit)
def _step(
    integrator: AbstractIntegrator,
    equation: EquationOfMotion,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    inputs: Float[Array, "nu"],
    f_ext: Float[Array, "nb 6"],
    dt: Float[Array, ""],
) -> tuple[Configuration, Velocity]:
    return advance(integrator, equation, q, v, inputs, f_ext, dt)

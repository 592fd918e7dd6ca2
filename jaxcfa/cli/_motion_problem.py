"""The problem of optimal control that `jaxcfa optimise` solves, for a robot of which every joint moves the frame."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float

from ..closed_chains import Projection, project_configuration
from ..closed_chains._system import geometry
from ..configuration import difference, integrate
from ..dynamics import inverse_dynamics
from ..model import Model
from ..model._arguments import driven_coordinates
from ..model._ranges import ends_of_ranges
from ..motion import body_motions
from ..optimal_control import (
    AbstractTerm,
    Bounds,
    Control,
    Cost,
    Equality,
    Position,
    Posture,
    Problem,
    RobotDynamics,
    Stage,
    Velocity,
)

_UNLIMITED = 100.0  # stands for efforts without limits in the cost [N m, N]
_NARROWEST = 1e-3  # of a range, so that there is something between its ends [rad, m]


class _Rows(AbstractTerm):
    """Some elements of a term."""

    term: AbstractTerm
    rows: np.ndarray

    def __call__(self, stage: Stage) -> Float[Array, "k"]:
        return self.term(stage)[self.rows]


def end_at(model: Model, q: Float[Array, "nq"]) -> tuple[AbstractTerm, AbstractTerm]:
    """Terms that vanish at rest in a configuration: as many coordinates as loops leave free, which decide the rest."""
    if not model.constraints:
        return Posture(q), Velocity()
    jacobian = np.asarray(geometry(model, model.constraints, body_motions(model, q)).jacobian)
    # The rank that `closed_chains` finds, whose pivots are squares: files have axes that are parallel to a few digits.
    free = scipy.linalg.null_space(jacobian, rcond=float(np.finfo(jacobian.dtype).eps) ** 0.35)
    _, _, order = scipy.linalg.qr(free.T, pivoting=True)
    rows = np.sort(order[: free.shape[1]])
    return _Rows(Posture(q), rows), _Rows(Velocity(), rows)


def motion_problem(model: Model, end: Sequence[AbstractTerm], seconds: float, steps: int) -> tuple[Problem, np.ndarray]:
    """Small efforts, relative to their limits, and velocities, within all limits, until all of `end` vanishes.

    **Returns:** the problem, and the coordinates of the velocity that its controls drive.
    """
    dt, limits, loops = seconds / steps, model.limits, model.constraints
    joints, weakest, strongest = _efforts(model)
    strength = jnp.maximum(-weakest, strongest)
    scale = jnp.where(jnp.isfinite(strength) & (strength > 0), strength, _UNLIMITED)
    # Those that are given: zero for coordinates that no actuator drives, of joints that have several.
    given, free = np.flatnonzero(weakest == strongest), np.flatnonzero(weakest != strongest)
    lower, upper = _ranges(model)
    speed = _known(limits.velocity)
    problem = Problem(
        RobotDynamics(model, dt, actuated=joints, constraints=loops, stabilization=Projection() if loops else None),
        steps,
        costs=[Cost(Control(), dt * (10 / scale) ** 2), Cost(Velocity(), jnp.asarray(10 * dt))],
        constraints=[
            Bounds(Position(), lower, upper, during=(1, None)),  # the start may be at the end of a range
            Bounds(Velocity(), -speed, speed),
            *([Bounds(_Rows(Control(), free), weakest[free], strongest[free])] if len(free) else []),
            *([Equality(_Rows(Control(weakest), given))] if len(given) else []),
        ],
        end_constraints=[*map(Equality, end), Bounds(Position(), lower, upper)],
    )
    return problem, np.array(driven_coordinates(model, joints))


def first_guess(
    model: Model, driven: np.ndarray, start: Float[Array, "nq"], end: Float[Array, "nq"], steps: int
) -> tuple[Array, Array]:
    """All joints go straight to the configuration that reaches the target, and are held against gravity."""
    parts = jnp.linspace(0.0, 1.0, steps + 1)
    states, torques = _on_the_way(model, start, difference(model, start, end), parts)
    return states, torques[:-1, driven]


@jax.jit
def _on_the_way(model: Model, start: Array, way: Array, parts: Float[Array, "n"]) -> tuple[Array, Array]:
    """States at rest after some parts of the way, and the torques that hold them."""
    still = jnp.zeros(model.nv)

    def at(part: Array) -> tuple[Array, Array]:
        q = integrate(model, start, way, part)
        if model.constraints:
            q = project_configuration(model, model.constraints, q).q
        return jnp.concatenate([q, still]), inverse_dynamics(model, q, still, still)

    return jax.vmap(at)(parts)


def _ranges(model: Model) -> tuple[Array, Array]:
    """Ends of the joints' ranges, a little apart."""
    lower, upper = ends_of_ranges(model)
    is_narrow = upper - lower < _NARROWEST
    half = 0.5 * _NARROWEST
    return jnp.where(is_narrow, lower - half, lower), jnp.where(is_narrow, upper + half, upper)


def _efforts(model: Model) -> tuple[list[str], Array, Array]:
    """Joints that are driven, and the ends of their efforts (n,): those of the actuators too, if there are any."""
    most = _known(model.limits.effort)
    actuators = model.actuators
    if not actuators.names:
        return list(model.joint_names), -most, most
    moment = np.asarray(actuators.moment)
    acts = moment != 0
    sides = [np.where(acts, np.where(acts, moment, 1) * ends[:, None], 0) for ends in _forces(model)]
    lower, upper = (side(*sides).sum(axis=0) for side in (np.minimum, np.maximum))
    driven = [name for name in model.joint_names if np.any(acts[:, model.v_slice(name)])]
    if not driven:
        raise ValueError(
            "No actuator of the file drives a joint that moves the frame. (Thrusters, which push on frames, are for "
            'optimal_control.RobotDynamics(model, dt, actuated="actuators").)'
        )
    weakest, strongest = jnp.maximum(-most, lower), jnp.minimum(most, upper)
    for name in driven:
        own = model.v_slice(name)
        if not np.all(weakest[own] <= strongest[own]):
            raise ValueError(
                f"The actuators of {name!r} give from {lower[own]} to {upper[own]}, which its effort of {most[own]} "
                "does not allow. Correct one of them in the file."
            )
    rows = np.array(driven_coordinates(model, driven))
    return driven, weakest[rows], strongest[rows]


def _forces(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the actuators' forces. Controls limit those of motors; servos are driven by their errors, too."""
    actuators = model.actuators
    gain = np.asarray(actuators.gain)
    is_motor = (gain != 0) & ~np.any(np.asarray(actuators.bias), axis=1)
    controls = np.stack([actuators.control_lower, actuators.control_upper])
    lower, upper = np.sort(np.where(gain != 0, gain, 1) * controls, axis=0)
    weakest, strongest = np.asarray(actuators.force_lower), np.asarray(actuators.force_upper)
    return (
        np.where(is_motor, np.maximum(weakest, lower), weakest),
        np.where(is_motor, np.minimum(strongest, upper), strongest),
    )


def _known(limit: Array) -> Array:
    """Limits of which those that are zero are not given."""
    return jnp.where(limit > 0, limit, jnp.inf)

"""A robot on legs that goes where it is told."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from ..actuation import actuator_forces
from ..configuration import integrate
from ..contacts import GroundContacts, contact_state
from ..contacts._ground_contacts import check_contacts
from ..joints import Free
from ..model import WORLD, Actuators, Model, add_servos, neutral_configuration
from ..model._arguments import as_arrays, check_model
from ..model._given import Numbers, not_negative
from ..model._ranges import ends_of_ranges
from ..numerics import dot, matvec, product, transpose
from ..optimal_control import RobotDynamics
from ..spatial import quaternion_to_matrix
from ..typing import ConfigurationLike, Key, NameOrNumber
from ._plant import Plant, step_of
from ._robot import AbstractRobotEnvironment

_SHARES = {"velocity": 0.7, "turning": 0.3}  # of the reward
_NEAR = {"velocity": 0.25, "turning": 0.5}  # m/s, rad/s: where these are halved
_TILT, _BOUNCE, _POSTURE, _EFFORT = 0.5, 0.1, 0.05, 0.05
_GRAVITY, _SOFTNESS, _DELAY = 9.81, 1.0, 0.02  # m/s^2, 1/rad, s: of the servos
_DISPLACED = 0.1  # rad, m: at the start
_OF_RATES = 0.1  # of the joints: what is seen
_FALLEN = 0.5  # of the cosine of the tilt, and of the height at the start


class Walker(AbstractRobotEnvironment):
    """A robot with a floating base, on legs, that is to go with the velocity it is told.

    - Action (m,): where the joints shall be, `home + reach * action` [rad, m]; servos pull them there.
    - Observation, all as the robot feels it: the linear velocity of its base [m/s], the angular velocity [rad/s], and
      the direction upwards, in the axes of the base (3 each); displacements of the joints from `home` (m,) [rad, m],
      a tenth of their velocities (m,) [rad/s, m/s]; the command (3,).
    - Reward, at most 1: `velocity`, `0.7 / (1 + (error / 0.25 m/s)^2)`, and `turning`, `0.3 / (1 + (error /
      0.5 rad/s)^2)`; less `tilt`, 0.5 of one minus its cosine, `bounce`, 0.1 of the squared vertical velocity,
      `posture`, 0.05 of the mean of the squared displacements of the joints, and `effort`, 0.05 of the mean of their
      squared torques, as parts of their limits.
    - Start: on the ground, at rest near `home`, each joint displaced by at most 0.1 (rad, m).
    - End: it leans by more than 60 degrees, or its base is at half of the height at home.

    The task in a state's `info` is the command (3,): velocities along the x and y axes of the base [m/s], and the
    angular velocity about its z axis [rad/s], drawn from up to `fastest` in both directions.

    **Fields:** `plant`; `home` (nq,), with the feet on the ground; `fastest` (3,).
    """

    plant: Plant
    home: Float[Array, "nq"]
    fastest: Float[Array, "3"]

    def __init__(
        self,
        model: Model,
        contacts: GroundContacts,
        *,
        home: ConfigurationLike | None = None,
        fastest: Numbers = (1.0, 0.5, 1.0),
        reach: ArrayLike = 0.5,
        stiffness: Numbers | None = None,
        damping: Numbers | None = None,
        joints: NameOrNumber | Sequence[NameOrNumber] | None = None,
        dt: float = 0.02,
        substeps: int = 4,
    ):
        """
        **Arguments:** `model`: a robot with a floating base. `contacts` of its feet with the ground, by
        `ground_contacts(model, feet, radius=...)`. `home` (nq,), a pose in which it stands, wherever its base is; by
        default its first keyframe, or its neutral configuration. `fastest` (3,): the largest commands [m/s, m/s,
        rad/s]. `reach` of an action of 1, one number or (m,) [rad, m]. `stiffness` [N m/rad, N/m] and `damping`
        [N m s/rad, N s/m] of the servos, as for `add_servos`; by default the robot's weight, with the height of its
        base as a lever, turns a joint by a radian, and damping is 0.02 s times the stiffness. `joints` that have
        servos, by default all; others are loose, and actuators of the model are not used. Time `dt` of one action [s]
        and the number of `substeps` in it.

        **Raises:** `ValueError` for a robot without a floating base, contacts of another one, wrong shapes, and what
        `add_servos` refuses.
        """
        check_model(model)
        check_contacts(model, contacts)
        base = _base(model)
        (q,) = as_arrays(model, q=_at_home(model) if home is None else home)
        self.home = _put_down(model, contacts, q)
        self.fastest = not_negative("fastest", fastest).astype(model.dtype)
        if self.fastest.shape != (3,):
            raise ValueError(f"fastest must have shape (3,), forward, to the left and turning, got {fastest}.")
        if stiffness is None:
            height, _ = contacts.ground.clearance(self.home[base.q][:3])
            stiffness = _SOFTNESS * _GRAVITY * jnp.sum(model.mass) * height
        if damping is None:
            damping = _DELAY * jnp.asarray(stiffness)
        model = dataclasses.replace(model, actuators=Actuators.none(model.nq, model.nv, model.dtype))
        model = add_servos(model, stiffness, damping, joints=joints)
        dynamics = RobotDynamics(model, step_of(dt, substeps), actuated="actuators", limits=True, contacts=contacts)
        self.plant = Plant(dynamics, reach, substeps, middle=_lengths(model, self.home))

    def start(self, key: Key) -> tuple[Array, Array, Float[Array, "3"]]:
        model, (near, far) = self.plant.model, jax.random.split(key)
        moment, dtype = model.actuators.moment, self.home.dtype
        displaced = jax.random.uniform(near, moment.shape[:1], dtype, -_DISPLACED, _DISPLACED)
        q = jnp.clip(integrate(model, self.home, product(displaced, moment)), *ends_of_ranges(model))
        command = self.fastest * jax.random.uniform(far, (3,), dtype, -1.0, 1.0)
        return _put_down(model, self._contacts, q.astype(dtype)), jnp.zeros(model.nv, dtype), command

    def observe(self, q: Float[Array, "nq"], v: Float[Array, "nv"], task: Float[Array, "3"]) -> Array:
        feeling, model = self._feeling(q, v), self.plant.model
        offset = _lengths(model, q) - _lengths(model, self.home)
        return jnp.concatenate([*feeling, offset, _OF_RATES * product(model.actuators.moment, v), task])

    def reward(
        self, q: Float[Array, "nq"], v: Float[Array, "nv"], action: Float[Array, "m"], task: Float[Array, "3"]
    ) -> dict[str, Array]:
        model, plant = self.plant.model, self.plant
        velocity, turning, up = self._feeling(q, v)
        control = plant.middle + plant.scale * action
        effort = jnp.where(model.limits.effort > 0, model.limits.effort, jnp.inf)
        torque = product(model.actuators.moment, actuator_forces(model, q, v, control) / effort)
        errors = {"velocity": velocity[:2] - task[:2], "turning": turning[2] - task[2]}
        rewards = {name: _SHARES[name] / (1 + jnp.sum(x**2) / _NEAR[name] ** 2) for name, x in errors.items()}
        return rewards | {
            "tilt": _TILT * (up[2] - 1),
            "bounce": -_BOUNCE * dot(velocity, up) ** 2,
            "posture": -_POSTURE * jnp.mean((_lengths(model, q) - plant.middle) ** 2),
            "effort": -_EFFORT * jnp.mean(torque**2),
        }

    def terminated(self, q: Float[Array, "nq"], v: Float[Array, "nv"], task: Float[Array, "3"]) -> Bool[Array, ""]:
        ground, base = self._contacts.ground, _base(self.plant.model)
        height, at_home = (ground.clearance(x[base.q][:3])[0] for x in (q, self.home))
        return (self._feeling(q, v).up[2] < _FALLEN) | (height < _FALLEN * at_home)

    @property
    def _contacts(self) -> GroundContacts:
        return cast(GroundContacts, self.plant.dynamics.equation.contacts)

    def _feeling(self, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> "_Feeling":
        base = _base(self.plant.model)
        to_base, v = transpose(quaternion_to_matrix(q[base.q][3:])), v[base.v]
        return _Feeling(matvec(to_base, v[:3]), v[3:], to_base[:, 2])


class _Feeling(NamedTuple):
    """The base's linear and angular velocity and the direction upwards, in its axes (3,) each."""

    velocity: Float[Array, "3"]
    turning: Float[Array, "3"]
    up: Float[Array, "3"]


class _Base(NamedTuple):
    """Where the coordinates of a floating base are."""

    q: slice
    v: slice


def _base(model: Model) -> _Base:
    """**Raises:** `ValueError` if not one body, and that on no other, moves by a free joint."""
    roots = np.flatnonzero(np.asarray(model.topology.parents) == WORLD)
    joint = model.joints[model.topology.place_in_groups(int(roots[0]))[0]]
    if len(roots) > 1 or not isinstance(joint, Free):
        raise ValueError(
            "Walker is for one robot with a floating base, which load_model(file, floating_base=True) gives it, but "
            f"{'several bodies hang' if len(roots) > 1 else 'its first joint hangs'} on the world: "
            f"{[model.joint_names[root] for root in roots]!r:.200}."
        )
    return _Base(model.q_slice(int(roots[0])), model.v_slice(int(roots[0])))


def _at_home(model: Model) -> Float[Array, "nq"]:
    return model.keyframes.q[0] if model.keyframes.names else neutral_configuration(model)


def _put_down(model: Model, contacts: GroundContacts, q: Float[Array, "nq"]) -> Float[Array, "nq"]:
    """The configuration with its base so high that the lowest foot is on the ground."""
    state = contact_state(model, contacts, q, jnp.zeros(model.nv, q.dtype))
    return q.at[_base(model).q.start + 2].add(-jnp.min(state.gap / state.normal[:, 2]))


def _lengths(model: Model, q: Float[Array, "nq"]) -> Float[Array, "m"]:
    """What servos measure."""
    return product(model.actuators.length_gradient, q)

"""A robot on legs that goes where it is told."""

import dataclasses
import warnings
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from ..actuation import actuator_forces
from ..configuration import integrate
from ..contacts import AbstractContacts, AllContacts, contact_state
from ..contacts._point_contacts import check_contacts
from ..contacts._surfaces import height_above
from ..joints import Free
from ..model import WORLD, Actuators, Model, add_servos, neutral_configuration
from ..model._arguments import as_arrays, check_model, is_concrete
from ..model._attachments import INITIAL
from ..model._given import Numbers, not_negative
from ..model._joint_groups import free_dofs
from ..model._motors import driven_by_servos
from ..model._parts import joint_parts
from ..model._ranges import ends_of_ranges, rated_coordinates, turning_coordinates
from ..numerics import dot, matmul, matvec, product, transpose
from ..optimal_control import RobotDynamics
from ..spatial import quaternion_to_matrix
from ..typing import ConfigurationLike, Key, NameOrNumber
from ._plant import Plant, soft_stops, step_of
from ._robot import AbstractRobotEnvironment

_SHARES = {"velocity": 0.7, "turning": 0.3}  # of the reward
_NEAR = {"velocity": 0.25, "turning": 0.5}  # m/s, rad/s: where these are halved
_TILT, _BOUNCE, _POSTURE, _EFFORT = 0.5, 0.1, 0.05, 0.05
_GRAVITY, _SOFTNESS, _SAG, _DELAY = 9.81, 1.0, 0.05, 0.02  # m/s^2, 1/rad, of the height, s: of the servos
_DISPLACED = 0.1  # rad, m: at the start
_OF_RATES = 0.1  # of the joints: what is seen
_FALLEN = 0.5  # of the cosine of the tilt, and of the height at the start
_STEPS_DOWN = 20  # to the ground


class Walker(AbstractRobotEnvironment):
    """A robot with a floating base, on legs, that is to go with the velocity it is told.

    - Action (m,): where the joints shall be, `home + reach * action` [rad, m]; servos pull them there.
    - Observation, all as the robot feels it: the linear velocity of its base [m/s], the angular velocity [rad/s], and
      the direction upwards, in the axes of the base (3 each); displacements of the joints from `home` (m,) [rad, m],
      a tenth of their velocities (m,) [rad/s, m/s]; the command (3,).
    - Reward, at most 1: `velocity`, `0.7 / (1 + (error / 0.25 m/s)^2)`, and `turning`, `0.3 / (1 + (error /
      0.5 rad/s)^2)`; less `tilt`, 0.5 of one minus its cosine, `bounce`, 0.1 of the squared vertical velocity,
      `posture`, 0.05 of the mean of the squared displacements of the joints, and `effort`, 0.05 of the mean of their
      squared torques, as parts of their limits of effort (zero where there are none).
    - Start: on the ground, at rest near `home`, each joint displaced by at most 0.1 (rad, m).
    - End: it leans by more than 60 degrees, or its base's centre of mass is at half of the height at home.

    Mimic joints and other constraints of the model are not held: lock such joints, by `lock_joints`.

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
        contacts: AbstractContacts,
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
        `ground_contacts(model, feet, radius=...)`, to which those of `body_contacts` may be added. `home` (nq,), a pose
        in which it stands, wherever its base is; by default the first keyframe of its file, or else as it stands in an
        MJCF file, or else its neutral configuration. `fastest` (3,): the largest commands [m/s, m/s, rad/s]. `reach` of
        an action of 1, one number or (m,) [rad, m]. `stiffness` [N m/rad, N/m] and `damping` [N m s/rad, N s/m] of the
        servos, as for `add_servos`; by default the robot's weight, with the height of its base as a lever, turns a
        joint by a radian, or makes one slide by a twentieth of that height, and damping is 0.02 s times the stiffness.
        `joints` that have servos, by default all that can, so none that are spherical, of which it warns; others are
        loose, and actuators of the model are not used. Time `dt` of one action [s] and the number of `substeps` in it.

        **Raises:** `ValueError` for a robot without a floating base, contacts of another one or without the ground, a
        ground on which it cannot be put or at which its base is at home, wrong shapes, a `reach` that is not positive,
        and what `add_servos` refuses.
        """
        check_model(model)
        check_contacts(model, contacts)
        if not contacts.grounds:
            raise ValueError("Walker needs contacts with the ground, of ground_contacts; those given are with bodies.")
        (q,) = as_arrays(model, q=_at_home(model) if home is None else home)
        self.home = _put_down(model, contacts, q)
        self.fastest = not_negative("fastest", fastest).astype(model.dtype)
        if self.fastest.shape != (3,):
            raise ValueError(f"fastest must have shape (3,), forward, to the left and turning, got {fastest}.")
        if is_concrete(self.home) and not np.all(np.isfinite(self.home)):
            raise ValueError("The robot cannot be put on this ground, which is upright or has no normal at its feet.")
        center = _pose(model, self.home).center
        height = _height(contacts, center)
        if is_concrete(height) and not height > 0:
            raise ValueError(f"At home the base must be above the ground, but its centre of mass is at {height:.3g} m.")
        if is_concrete(reach) and not np.all(np.asarray(reach) > 0):
            raise ValueError(f"reach must be positive, got {reach}.")
        if stiffness is None:
            turns = turning_coordinates(model)[rated_coordinates(model)[driven_by_servos(model, joints)[0]]]
            weight = _GRAVITY * jnp.sum(model.mass)
            feet = contact_state(model, contacts, self.home, jnp.zeros(model.nv)).position
            lever = jnp.where(jnp.isfinite(height), height, center[2] - jnp.min(feet[:, 2]))
            stiffness = weight * jnp.where(turns, _SOFTNESS * lever, 1 / (_SAG * lever))
        if damping is None:
            damping = _DELAY * jnp.asarray(stiffness)
        if joints is None:
            _warn_of_loose_joints(model)
        model = dataclasses.replace(model, actuators=Actuators.none(model.nq, model.nv, model.dtype))
        model = add_servos(model, stiffness, damping, joints=joints)
        shorter, stops = step_of(dt, substeps), soft_stops()
        dynamics = RobotDynamics(model, shorter, actuated="actuators", limits=stops, contacts=contacts)
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
        height, at_home = (_height(self._contacts, _pose(self.plant.model, x).center) for x in (q, self.home))
        low = jnp.isfinite(at_home) & (height < _FALLEN * at_home)  # beside a wall nothing is known of a height
        return (self._feeling(q, v).up[2] < _FALLEN) | low

    @property
    def _contacts(self) -> AbstractContacts:
        return cast(AbstractContacts, self.plant.dynamics.equation.contacts)

    def _feeling(self, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> "_Feeling":
        base = _base(self.plant.model)
        to_base, v = transpose(quaternion_to_matrix(q[base.q][3:])), v[base.v]
        return _Feeling(matvec(to_base, v[:3]), v[3:], _pose(self.plant.model, q).rotation[2])


def _warn_of_loose_joints(model: Model) -> None:
    driven = set(driven_by_servos(model, None)[0].tolist()) | set(np.flatnonzero(free_dofs(model)).tolist())
    loose = [
        part.name
        for part in joint_parts(model.joints, model.topology)
        if not driven.issuperset(range(part.v.start, part.v.stop))
    ]
    if loose:
        warnings.warn(
            f"The joints {loose} have no servos, which drive joints by angles and lengths alone: nothing holds them. "
            "Make each of three revolute joints, or name those that have servos: joints=[...].",
            stacklevel=4,
        )


class _Feeling(NamedTuple):
    """The base's linear and angular velocity and the direction upwards, in its axes (3,) each."""

    velocity: Float[Array, "3"]
    turning: Float[Array, "3"]
    up: Float[Array, "3"]


class _Base(NamedTuple):
    """The number of the body that floats, and where its coordinates are."""

    number: int
    q: slice
    v: slice


class _Pose(NamedTuple):
    """The base's axes (3, 3) and its centre of mass (3,) [m], in the world."""

    rotation: Float[Array, "3 3"]
    center: Float[Array, "3"]


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
    root = int(roots[0])
    return _Base(root, model.q_slice(root), model.v_slice(root))


def _pose(model: Model, q: Float[Array, "nq"]) -> _Pose:
    base = _base(model)
    q, frame = q[base.q], jax.tree.map(lambda x: x[base.number].astype(q.dtype), model.placement)
    rotation = matmul(frame.rotation, quaternion_to_matrix(q[3:]))
    center = frame.translation + matvec(frame.rotation, q[:3])
    return _Pose(rotation, center + matvec(rotation, model.com[base.number].astype(q.dtype)))


def _at_home(model: Model) -> Float[Array, "nq"]:
    """The first keyframe of the file, or else as the robot stands in an MJCF file, or else neutral."""
    names = model.keyframes.names
    own = [i for i, name in enumerate(names) if name != INITIAL]
    return model.keyframes.q[(own or [0])[0]] if names else neutral_configuration(model)


def _height(contacts: AbstractContacts, point: Float[Array, "3"]) -> Float[Array, ""]:
    """How far a point is above the grounds, by the nearest below it [m]; infinite beside walls alone."""
    return jnp.min(jnp.stack([height_above(ground, point) for ground in contacts.grounds]))


def _put_down(model: Model, contacts: AbstractContacts, q: Float[Array, "nq"]) -> Float[Array, "nq"]:
    """The configuration with its base so high that the lowest foot is on the ground, where it comes from above."""
    feet = AllContacts(tuple(part.in_type(q.dtype) for part in contacts.parts if part.carrier is None))
    state = contact_state(model, feet, q, jnp.zeros(model.nv, q.dtype))
    center = state.position + jnp.concatenate([part.radius for part in feet.parts])[:, None] * state.normal
    ends = np.cumsum([len(part.frames) for part in feet.parts])[:-1]

    def lowest(rise: Float[Array, ""]) -> Float[Array, ""]:
        raised = jnp.split(center.at[:, 2].add(rise), ends)
        heights = [
            jax.vmap(partial(height_above, part.surface))(x, part.radius)
            for part, x in zip(feet.parts, raised, strict=True)
        ]
        return jnp.min(jnp.concatenate(heights))

    legs = jnp.abs(_pose(model, q).center[2] - jnp.min(center[:, 2]))

    def lower(_: ArrayLike, rise: Float[Array, ""]) -> Float[Array, ""]:
        height = lowest(rise)
        return rise - jnp.where(jnp.isfinite(height), height, legs / 5)  # where all feet are beside walls

    base = _base(model)
    rise = jax.lax.fori_loop(0, _STEPS_DOWN, lower, 2 * legs)
    rise = rise - lowest(rise)  # infinite if there are walls alone
    up = model.placement.rotation[base.number][2].astype(q.dtype)  # in the axes of the joint
    return q.at[base.q.start : base.q.start + 3].add(rise * up)


def _lengths(model: Model, q: Float[Array, "nq"]) -> Float[Array, "m"]:
    """What servos measure."""
    return product(model.actuators.length_gradient, q)

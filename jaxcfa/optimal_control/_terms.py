"""Residuals that costs and constraints are made of, for robots."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..configuration import difference
from ..dynamics import center_of_mass
from ..model._arguments import as_array, as_positive, check_quaternions, is_concrete
from ..numerics import cross, matmul, matvec, transpose
from ..numerics._options import check_hashable, is_hashable
from ..simulation._inputs import check_arguments
from ..spatial import Transform, rotation_log, unit
from ..spatial._transform import are_rotations
from ..typing import NameOrNumber
from ._frame_motions import moving_frame, placed_frame
from ._free_duration import of_given_duration
from ._robot_dynamics import RobotInverseDynamics
from ._stage import Stage


class AbstractTerm(eqx.Module):
    """A vector-valued function of a `Stage`; any function of one serves as well, `lambda stage: stage.x[:2]`."""

    def __check_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.metadata.get("static") and not is_hashable(value):
                raise ValueError(
                    f"The {field.name} of {type(self).__name__}, a static field, must be hashable, such as one "
                    f"name, got {value!r:.200}. Of several frames make one term each; numbers are given by name, as in "
                    "point=[0.4, 0, 0.3]."
                )

    @abc.abstractmethod
    def __call__(self, stage: Stage) -> Float[Array, "k"]:
        """The residual (k,), of which costs take half the square."""


class SmoothTerm(AbstractTerm):
    """Terms whose derivatives are finite wherever they are."""


class FramePose(SmoothTerm):
    """`log(target^-1 pose)` (6,) `[rotation; translation]` of a frame or body: the screw from the target to it."""

    frame: NameOrNumber = eqx.field(static=True)
    target: Transform

    def __check_init__(self):
        _check_target("FramePose", self.target)

    def __call__(self, stage: Stage) -> Float[Array, "6"]:
        _check_one_target("FramePose", self.target)
        return (self.target.inverse() @ _pose(stage, self.frame)).log()


class RelativePose(SmoothTerm):
    """`log(target^-1 pose)` (6,) `[rotation; translation]` of a frame or body as seen from another one, `reference`.

    The target is the identity, where both coincide, unless it is given: of two hands, for example, how they are to hold
    one object.
    """

    frame: NameOrNumber = eqx.field(static=True)
    reference: NameOrNumber = eqx.field(static=True)
    target: Transform | None = None

    def __check_init__(self):
        if self.target is not None:
            _check_target("RelativePose", self.target)

    def __call__(self, stage: Stage) -> Float[Array, "6"]:
        seen = _pose(stage, self.reference).inverse() @ _pose(stage, self.frame)
        if self.target is None:
            return seen.log()
        _check_one_target("RelativePose", self.target)
        return (self.target.inverse() @ seen).log()


class FramePosition(SmoothTerm):
    """Position (3,) of a frame or body minus `target`, in world axes [m]."""

    frame: NameOrNumber = eqx.field(static=True)
    target: Float[Array, "..."] = eqx.field(converter=as_array("target"), default=0.0)

    def __call__(self, stage: Stage) -> Float[Array, "3"]:
        return _difference(self, _pose(stage, self.frame).translation, self.target)


class FrameOrientation(SmoothTerm):
    """The rotation vector (3,) from `target` (3, 3) to the orientation of a frame or body [rad]."""

    frame: NameOrNumber = eqx.field(static=True)
    target: Float[Array, "3 3"] = eqx.field(converter=as_array("target"))

    def __check_init__(self):
        _check_rotation("FrameOrientation", self.target)

    def __call__(self, stage: Stage) -> Float[Array, "3"]:
        if self.target.shape != (3, 3):
            raise ValueError(f"The target of FrameOrientation must be a matrix (3, 3), got shape {self.target.shape}.")
        return rotation_log(matmul(transpose(self.target), _pose(stage, self.frame).rotation))


class FrameDirection(SmoothTerm):
    """The direction (3,) of an `axis` of a frame or body minus the `direction` wanted, both of unit length.

    `axis` (3,) in the frame, z by default; `direction` (3,) in world axes. The residual is the chord, so its length is
    the angle between them where that is small, and two at most; from the opposite direction no small turn reduces it.
    """

    frame: NameOrNumber = eqx.field(static=True)
    direction: Float[Array, "3"] = eqx.field(converter=as_array("direction"))
    axis: Float[Array, "3"] = eqx.field(converter=as_array("axis"), default=(0.0, 0.0, 1.0))

    def __check_init__(self):
        for name, vector in (("direction", self.direction), ("axis", self.axis)):
            _check_points_somewhere(name, "FrameDirection", vector)

    def __call__(self, stage: Stage) -> Float[Array, "3"]:
        for name, vector in (("direction", self.direction), ("axis", self.axis)):
            if vector.shape != (3,):
                raise ValueError(f"The {name} of FrameDirection must be a vector (3,), got shape {vector.shape}.")
        return matvec(_pose(stage, self.frame).rotation, unit(self.axis)) - unit(self.direction)


class FrameDistance(SmoothTerm):
    """Distance (1,) of two frames or bodies, or of one and a point of the world, minus `target` [m].

    The point is the origin unless it is given. The derivative where the distance is zero is zero: what is to coincide
    is found by `FramePosition` and `RelativePose`.
    """

    frame: NameOrNumber = eqx.field(static=True)
    other: NameOrNumber | None = eqx.field(static=True, default=None)
    point: Float[Array, "..."] | None = eqx.field(
        converter=lambda x: None if x is None else as_array("point")(x), default=None
    )
    target: Float[Array, ""] = eqx.field(converter=as_array("target"), default=0.0)

    def __check_init__(self):
        if self.other is not None and self.point is not None:
            raise ValueError(
                f"FrameDistance is that to another frame or to a point, got both: {self.other!r} and {self.point!r}."
            )

    def __call__(self, stage: Stage) -> Float[Array, "1"]:
        here = _pose(stage, self.frame).translation
        if self.other is not None:
            apart = here - _pose(stage, self.other).translation
        else:
            apart = here if self.point is None else _difference(self, here, self.point, "point")
        square = jnp.sum(apart * apart)
        together = square == 0
        return _difference(self, jnp.where(together, 0, jnp.sqrt(jnp.where(together, 1, square)))[None], self.target)


class FrameVelocity(SmoothTerm):
    """`[angular velocity; velocity of the origin]` (6,) of a frame or body minus `target`, world axes [rad/s, m/s]."""

    frame: NameOrNumber = eqx.field(static=True)
    target: Float[Array, "..."] = eqx.field(converter=as_array("target"), default=0.0)

    def __call__(self, stage: Stage) -> Float[Array, "6"]:
        return _difference(self, _twist(stage, self.frame), self.target)


class PointVelocity(SmoothTerm):
    """Velocity (3,) of the origin of a frame or body minus `target`, in world axes [m/s]."""

    frame: NameOrNumber = eqx.field(static=True)
    target: Float[Array, "..."] = eqx.field(converter=as_array("target"), default=0.0)

    def __call__(self, stage: Stage) -> Float[Array, "3"]:
        return _difference(self, _twist(stage, self.frame)[3:], self.target)


class ContactForce(SmoothTerm):
    """The force (3,) on the robot at a contact of `RobotInverseDynamics`, minus `target`, in world axes [N]."""

    frame: NameOrNumber = eqx.field(static=True)
    target: Float[Array, "..."] = eqx.field(converter=as_array("target"), default=0.0)

    def __call__(self, stage: Stage) -> Float[Array, "3"]:
        dynamics = of_given_duration(stage.dynamics)
        if not isinstance(dynamics, RobotInverseDynamics):
            raise ValueError(
                "Forces at contacts are controls of RobotInverseDynamics(model, dt, contacts) only, got "
                f"{type(dynamics).__name__}."
            )
        return _difference(self, dynamics.force(stage.u, self.frame), self.target)


class FrictionPyramid(SmoothTerm):
    """Room (4,) in the friction pyramid at a contact of `RobotInverseDynamics` [N]: `Bounds(..., lower=0)` keeps to it.

    `mu f_n -+ f_1` and `mu f_n -+ f_2`, with the force's part `f_n` along the `normal` of the ground, z by default, and
    two across: x and y where that is z. None is negative only where `f_n` is not. The pyramid is about the cone of
    Coulomb's friction; that of `mu / sqrt(2)` is in it.
    """

    frame: NameOrNumber = eqx.field(static=True)
    friction: Float[Array, ""] = eqx.field(converter=as_positive("friction of FrictionPyramid"))
    normal: Float[Array, "3"] = eqx.field(converter=as_array("normal"), default=(0.0, 0.0, 1.0))

    def __check_init__(self):
        if self.normal.shape[-1:] != (3,):
            raise ValueError(f"The normal of FrictionPyramid must be a vector (3,), got shape {self.normal.shape}.")
        _check_points_somewhere("normal", "FrictionPyramid", self.normal)

    def __call__(self, stage: Stage) -> Float[Array, "4"]:
        force, normal = ContactForce(self.frame)(stage), unit(self.normal)
        x, y = jnp.eye(3, dtype=normal.dtype)[:2]
        other = jnp.where(jnp.abs(normal[0]) < 0.8, x, y)
        first = unit(other - normal * jnp.sum(normal * other))
        limit = self.friction * jnp.sum(force * normal)
        across = jnp.stack([jnp.sum(force * first), jnp.sum(force * cross(normal, first))])
        return jnp.concatenate([limit - across, limit + across])


class CenterOfMass(SmoothTerm):
    """Centre of mass (3,) minus `target`, in world axes [m]."""

    target: Float[Array, "..."] = eqx.field(converter=as_array("target"), default=0.0)

    def __call__(self, stage: Stage) -> Float[Array, "3"]:
        return _difference(self, center_of_mass(stage.model, stage.q, stage.placed), self.target)


class Posture(SmoothTerm):
    """`difference(model, target, q)` (nv,): the displacement from a configuration [rad, m]."""

    target: Float[Array, "nq"] = eqx.field(converter=as_array("target"))

    def __call__(self, stage: Stage) -> Float[Array, "nv"]:
        if self.target.shape != (stage.model.nq,):
            raise ValueError(
                f"The target of Posture must be a configuration of shape (nq,) = ({stage.model.nq},), got "
                f"{self.target.shape}."
            )
        check_quaternions(stage.model, "The target of Posture", self.target)
        return difference(stage.model, self.target, stage.q)


class Velocity(SmoothTerm):
    """Velocity (nv,) minus `target` [rad/s, m/s]."""

    target: Float[Array, "*nv"] = eqx.field(converter=as_array("target"), default=0.0)

    def __call__(self, stage: Stage) -> Float[Array, "nv"]:
        return _difference(self, stage.v, self.target)


class StateDifference(SmoothTerm):
    """The displacement (n,) from a state to x; of robots, whose states are `[q; v]`, in tangent coordinates."""

    target: Float[Array, "nx"] = eqx.field(converter=as_array("target"))

    def __call__(self, stage: Stage) -> Float[Array, "n"]:
        dynamics = of_given_duration(stage.dynamics)
        if self.target.shape != (dynamics.state_size,):
            raise ValueError(
                f"The target of StateDifference must be a state of shape {(dynamics.state_size,)}, got "
                f"{self.target.shape}."
            )
        return dynamics.minus(stage.x, self.target.astype(stage.x.dtype))


class Position(SmoothTerm):
    """The configuration (nq,) itself, for limits [rad, m]."""

    def __call__(self, stage: Stage) -> Float[Array, "nq"]:
        return stage.q


class Control(SmoothTerm):
    """The control (m,) minus `target`."""

    target: Float[Array, "*m"] = eqx.field(converter=as_array("target"), default=0.0)

    def __call__(self, stage: Stage) -> Float[Array, "m"]:
        return _difference(self, stage.u, self.target)


class Duration(SmoothTerm):
    """The root of twice the time to the next stage (1,): a `Cost` of it adds up to its weight times the duration.

    Of problems with `step_lengths`; weights of about 100 suit the solver.
    """

    def __call__(self, stage: Stage) -> Float[Array, "1"]:
        return jnp.sqrt(2 * stage.dt)[None]


class JointTorques(SmoothTerm):
    """Torques and forces (nv,) of the joints, which the control makes [N m, N]."""

    def __call__(self, stage: Stage) -> Float[Array, "nv"]:
        return stage.tau


class _Function(AbstractTerm):
    """A function that holds no arrays of its own, as far as JAX is concerned."""

    function: Callable = eqx.field(static=True)

    def __call__(self, stage: Stage) -> Any:
        return self.function(stage)

    def __repr__(self) -> str:
        return repr(self.function)


def as_term(term: Any) -> Any:
    """A pytree of arrays that is called as `term` is: functions become static.

    **Raises:** `ValueError` for those that programs cannot be known by, and that take other arguments.
    """
    if not callable(term) or isinstance(term, eqx.Module | jax.tree_util.Partial):
        return term
    check_hashable("A function of a stage", term)
    check_arguments("A term must be a function of a stage alone", term, "stage")
    return _Function(term)


Term = AbstractTerm | Callable[[Stage], ArrayLike]


def _difference(term: AbstractTerm, x: Float[Array, "k"], target: ArrayLike, name: str = "target") -> Float[Array, "k"]:
    """`x - target`, where broadcasting must not make more rows than x has."""
    if jnp.shape(target) not in ((), x.shape):
        raise ValueError(
            f"The {name} of {type(term).__name__} must be a number or have shape {x.shape}, got {jnp.shape(target)}."
        )
    return x - target


def _check_points_somewhere(name: str, term: str, vector: Array) -> None:
    """Raises `ValueError` for a vector, or one of several, that is known to be zero."""
    if vector.shape[-1:] == (3,) and is_concrete(vector) and not np.all(np.any(np.asarray(vector), axis=-1)):
        raise ValueError(f"The {name} of {term} must not be zero, which points nowhere, got {vector.tolist()}.")


def _check_target(term: str, target: Any) -> None:
    """Raises `ValueError` for what is no pose."""
    if not isinstance(target, Transform):
        raise ValueError(
            f"The target of {term} must be a Transform, got {type(target).__name__}. Of a matrix (4, 4) it is "
            "Transform.from_matrix(matrix)."
        )
    _check_rotation(term, target.rotation)


def _check_one_target(term: str, target: Transform) -> None:
    """Raises `ValueError` for several poses."""
    if jnp.shape(target.translation) != (3,) or jnp.shape(target.rotation) != (3, 3):
        raise ValueError(
            f"The target of {term} must be one Transform, got one with translations of shape "
            f"{jnp.shape(target.translation)}. Batch what solves for one target with jax.vmap."
        )


def _check_rotation(term: str, rotation: Any) -> None:
    """Raises `ValueError` for what is known to be none: its logarithm would be some rotation vector, even zero."""
    if not (isinstance(rotation, jax.Array | np.ndarray) and is_concrete(rotation)) or rotation.shape[-2:] != (3, 3):
        return
    known = np.asarray(rotation)
    if np.all(np.isfinite(known)) and not are_rotations(known):
        raise ValueError(
            f"The target of {term} must be a rotation, an orthogonal matrix of determinant 1, got "
            f"{known.tolist()!s:.200}. Transform.from_quaternion, from_rpy and the like make such."
        )


def _pose(stage: Stage, frame: NameOrNumber) -> Transform:
    return placed_frame(frame, stage.model, stage.q, stage.constant_motions)


def _twist(stage: Stage, frame: NameOrNumber) -> Float[Array, "6"]:
    return moving_frame(frame, stage.model, stage.q, stage.v, stage.constant_motions)

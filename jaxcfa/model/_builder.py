"""Building a model body by body."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..joints import AbstractJoint, Fixed
from ..numerics._options import check_instance
from ..typing import NameOrNumber
from ._assemble import STANDARD_GRAVITY, assemble, group_joints
from ._given import (
    as_coordinates,
    as_finite,
    as_inertia,
    as_mass,
    as_pose,
    check_name,
    check_quaternions_have_no_range,
    check_spring,
)
from ._layout import PARAMETERS
from ._model import Model, as_number
from ._topology import WORLD

_Pose = tuple[np.ndarray, np.ndarray]  # rotation, translation


class _Link(NamedTuple):
    """A body as it was added, fixed ones included."""

    name: str
    joint_name: str
    parent: int
    joint: AbstractJoint
    rotation: np.ndarray
    translation: np.ndarray
    mass: float
    com: np.ndarray
    inertia: np.ndarray
    dofs: dict[str, np.ndarray]


class _Frame(NamedTuple):
    name: str
    link: int
    rotation: np.ndarray
    translation: np.ndarray


class ModelBuilder:
    """Adds bodies one by one, then builds a `Model`.

    Bodies attached by a `Fixed` joint, or another without degrees of freedom, are merged into their parent when the
    model is built; they stay available as frames under their own name.

    ```python
    builder = jaxcfa.ModelBuilder()
    upper = builder.add_body("upper_arm", joint=Revolute((0, 1, 0)), mass=2.0, com=(0, 0, 0.2), inertia=0.01)
    builder.add_body("forearm", upper, Revolute((0, 1, 0)), (0, 0, 0.4), mass=1.0, com=(0, 0, 0.2), inertia=0.01)
    builder.add_frame("hand", "forearm", (0, 0, 0.4))
    model = builder.build()
    ```
    """

    def __init__(self):
        self._links: list[_Link] = []
        self._frames: list[_Frame] = []
        self._index: dict[str, int] = {}
        self._joint_names: set[str] = set()
        self._frame_names: set[str] = set()

    def add_body(
        self,
        name: str | None = None,
        parent: NameOrNumber | None = None,
        joint: AbstractJoint | None = None,
        placement=None,
        *,
        mass=0.0,
        com=(0.0, 0.0, 0.0),
        inertia=0.0,
        joint_name: str | None = None,
        **dofs,
    ) -> int:
        """Add a body and the joint that attaches it to its parent.

        **Arguments:**

        - `name`: unique; `"body{i}"` by default.
        - `parent`: name, or number as returned by this method; `None` for the world.
        - `joint`: `Fixed()` by default.
        - `placement`: pose of the joint's frame in the parent's: a `Transform`, a 4 x 4 matrix, or a translation [m].
        - `mass` [kg], `com` [m], `inertia` [kg m^2]: rotational inertia about the centre of mass, in body axes: a
          3 x 3 matrix, three principal moments, or one number for all three.
        - `joint_name`: unique; `"{name}_joint"` by default. That of a `Composite` names its joints, with plus signs
          between them: `"roll+pitch"`.
        - `armature` [kg m^2, kg], `damping` [N m s/rad, N s/m], `friction_loss` [N m, N], `stiffness` [N m/rad, N/m],
          `velocity_limit` [rad/s, m/s], `effort_limit` [N m, N], `stop_frequency` [rad/s] of the stops at the ends of
          its range: one number, or one for each degree of freedom; zero by default, limits infinite, stops 224. A
          stiffness may be negative: a spring that pushes away. `spring_reference`, `lower`, `upper` [rad, m]: one
          number, or one for each configuration coordinate of the joint; neutral and infinite by default.

        **Returns:** the number of the body, to be used as `parent`. (Bodies of the finished model are numbered
        without the merged ones.)

        **Raises:** `ValueError` for duplicate names, unknown parents, invalid sizes or values, and parameters of
        degrees of freedom that a fixed body does not have.
        """
        number = len(self._links)
        name = f"body{number}" if name is None else name
        joint_name = f"{name}_joint" if joint_name is None else joint_name
        joint = Fixed() if joint is None else joint
        what = f"body {name!r}"
        self._check_new(name)
        check_name(f"The joint_name of {what}", joint_name)
        if joint_name in self._joint_names:
            raise ValueError(f"Duplicate joint name {joint_name!r}; names must be unique.")
        check_instance(f"The joint of {what}", joint, AbstractJoint, "an instance of a joint type")
        rotation, translation = as_pose(placement, what)
        link = _Link(
            name,
            joint_name,
            self._find(parent, what),
            joint,
            rotation,
            translation,
            as_mass(mass, what),
            as_finite(com, (3,), f"centre of mass of {what}"),
            as_inertia(inertia, what),
            _as_dofs(dofs, joint, what),
        )
        self._links.append(link)
        self._index[name] = number
        self._joint_names.add(joint_name)
        return number

    def add_frame(self, name: str, body: NameOrNumber | None = None, placement=None) -> None:
        """Add a named frame at `placement` (as for `add_body`) in a body, or in the world."""
        what = f"frame {name!r}"
        self._check_new(name)
        self._frames.append(_Frame(name, self._find(body, what), *as_pose(placement, what)))
        self._frame_names.add(name)

    def _check_new(self, name: str) -> None:
        check_name("The name of a body or frame", name)
        if name in self._index or name in self._frame_names:
            raise ValueError(f"Duplicate body or frame name {name!r}; names must be unique.")

    def _find(self, link: NameOrNumber | None, what: str) -> int:
        if link is None:
            return WORLD
        if isinstance(link, str):
            if link in self._frame_names:
                carrier = next(frame.link for frame in self._frames if frame.name == link)
                where = "the world" if carrier == WORLD else f"body {self._links[carrier].name!r}"
                raise ValueError(
                    f"{_at_start(what)} refers to {link!r}, which is a frame of {where}; give "
                    f"{'None' if carrier == WORLD else 'that body'}, and a placement in it."
                )
            if link not in self._index:
                raise ValueError(
                    f"{_at_start(what)} refers to unknown body {link!r}; add that one first. (None is the world.)"
                )
            return self._index[link]
        number = as_number(link, "body")
        if not WORLD <= number < len(self._links):
            raise ValueError(f"{_at_start(what)} refers to body {number}, but only {len(self._links)} were added.")
        return number

    def build(self, *, gravity=STANDARD_GRAVITY, dtype=None) -> Model:
        """The model of all bodies added so far.

        **Arguments:** `gravity` (3,) [m/s^2], world axes. `dtype`: of the arrays; JAX's default float type if absent.
        """
        merged = _merge_fixed(self._links)
        links = [self._links[i] for i in merged.moving]
        joints, group_bodies = group_joints([link.joint for link in links])
        frames = [*merged.frames, *(_carried(frame, merged) for frame in self._frames)]
        return assemble(
            np.array([merged.body[link.parent] for link in links], dtype=np.int64).reshape(-1),
            joints,
            group_bodies,
            rotation=_stack([pose[0] for pose in merged.joint_poses], (3, 3)),
            translation=_stack([pose[1] for pose in merged.joint_poses], (3,)),
            mass=np.array([body.mass for body in merged.inertias]),
            com=_stack([body.com for body in merged.inertias], (3,)),
            inertia=_stack([body.inertia for body in merged.inertias], (3, 3)),
            body_names=[link.name for link in links],
            joint_names=[link.joint_name for link in links],
            dofs={key: _stack([link.dofs[key] for link in links], None) for key in PARAMETERS},
            frame_names=[frame.name for frame in frames],
            frame_bodies=[frame.link for frame in frames],
            frame_rotation=_stack([frame.rotation for frame in frames], (3, 3)),
            frame_translation=_stack([frame.translation for frame in frames], (3,)),
            gravity=gravity,
            dtype=dtype,
        )


class _Mass(NamedTuple):
    """Mass, centre of mass and inertia about it."""

    mass: float
    com: np.ndarray
    inertia: np.ndarray

    def moved(self, rotation: np.ndarray, translation: np.ndarray) -> "_Mass":
        return _Mass(self.mass, rotation @ self.com + translation, rotation @ self.inertia @ rotation.T)

    def plus(self, other: "_Mass") -> "_Mass":
        total = self.mass + other.mass
        com = (self.mass * self.com + other.mass * other.com) / total if total > 0 else np.zeros(3)
        inertia = self.inertia + other.inertia
        for part in (self, other):
            d = part.com - com
            inertia = inertia + part.mass * (d @ d * np.eye(3) - np.outer(d, d))
        return _Mass(total, com, inertia)


class _Merged:
    """Bookkeeping of `_merge_fixed`: moving links, and for every link its body and its pose in that body."""

    def __init__(self):
        self.moving: list[int] = []
        self.body: dict[int, int] = {WORLD: WORLD}
        self.pose: dict[int, _Pose] = {WORLD: (np.eye(3), np.zeros(3))}
        self.joint_poses: list[_Pose] = []
        self.inertias: list[_Mass] = []
        self.frames: list[_Frame] = []


def _merge_fixed(links: list[_Link]) -> _Merged:
    merged = _Merged()
    for number, link in enumerate(links):
        body = merged.body[link.parent]
        pose = _composed(merged.pose[link.parent], (link.rotation, link.translation))
        mass = _Mass(link.mass, link.com, link.inertia)
        if link.joint.nv:
            merged.body[number], merged.pose[number] = len(merged.moving), merged.pose[WORLD]
            merged.moving.append(number)
            merged.joint_poses.append(pose)
            merged.inertias.append(mass)
        else:
            pose = _composed(pose, _pose_at_rest(link.joint))
            merged.body[number], merged.pose[number] = body, pose
            merged.frames.append(_Frame(link.name, body, *pose))
            if body != WORLD:
                merged.inertias[body] = merged.inertias[body].plus(mass.moved(*pose))
    return merged


def _composed(outer: _Pose, inner: _Pose) -> _Pose:
    return outer[0] @ inner[0], outer[0] @ inner[1] + outer[1]


def _pose_at_rest(joint: AbstractJoint) -> _Pose:
    """Where a joint without degrees of freedom holds its body."""
    if type(joint) is Fixed:
        return np.eye(3), np.zeros(3)
    with jax.ensure_compile_time_eval():
        pose = jax.tree.map(jnp.asarray, joint).transform(jnp.asarray(_neutral(joint)))
        return np.asarray(pose.rotation, float), np.asarray(pose.translation, float)


def _carried(frame: _Frame, merged: _Merged) -> _Frame:
    pose = _composed(merged.pose[frame.link], (frame.rotation, frame.translation))
    return _Frame(frame.name, merged.body[frame.link], *pose)


def _stack(arrays: list[np.ndarray], shape: tuple[int, ...] | None) -> np.ndarray:
    if shape is None:
        return np.concatenate(arrays) if arrays else np.zeros(0)
    return np.stack(arrays) if arrays else np.zeros((0, *shape))


def _as_dofs(values: dict, joint: AbstractJoint, what: str) -> dict[str, np.ndarray]:
    unknown = sorted(set(values) - set(PARAMETERS))
    if unknown:
        raise ValueError(f"Unknown argument {unknown[0]!r} for {what}; known are {', '.join(PARAMETERS)}.")
    if values and not joint.nq:
        raise ValueError(
            f"{_at_start(what)} is fixed to its parent, so that it has no {next(iter(values))}. Give it a joint that "
            "moves, such as joint=Revolute((0, 0, 1)), or leave that out."
        )
    result, sizes = {}, {"nq": joint.nq, "nv": joint.nv}
    for key, parameter in PARAMETERS.items():
        value = values.get(key)
        check_quaternions_have_no_range(joint, key, value, what)
        value = parameter.default if value is None else value
        value = _neutral(joint) if value is None else value
        result[key] = as_coordinates(key, value, sizes[parameter.letters], what)
    check_spring(joint, result["spring_reference"], result["stiffness"], what)
    if np.any(result["lower"] > result["upper"]):
        raise ValueError(
            f"The lower limit of {what} exceeds the upper: {result['lower'].tolist()}, {result['upper'].tolist()}."
        )
    return result


def _at_start(what: str) -> str:
    """As a sentence begins with it; the names in it are the user's."""
    return what[0].upper() + what[1:]


def _neutral(joint: AbstractJoint) -> np.ndarray:
    # Parameters in double precision would make JAX warn where only single precision is enabled. Models are built within
    # functions that are traced, too.
    with jax.ensure_compile_time_eval():
        return np.asarray(jax.tree.map(jnp.asarray, joint).neutral())

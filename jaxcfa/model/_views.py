"""Read-only views of the parameters of one joint or body."""

import dataclasses

import jax
import numpy as np
from jaxtyping import Array, Float

from ..joints import AbstractJoint
from ..spatial import Transform


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class JointView:
    """The parameters of one joint of a model, or of one of those in a composite joint, as `model.joint(name)` gives
    them. `with_joint` changes them.

    **Fields:** `name`; `number`, also of the body that it moves; `body`, that body's name, and `parent`, the one it
    hangs on (`None` for the world); `joint`, the joint itself with its axis and the like; `placement` of its frame in
    the parent. `q`, `v`: where its coordinates are. `lower`, `upper` (nq of the joint,), limits [rad, m], and
    `velocity_limit` [rad/s, m/s], `effort_limit` [N m, N], `stop_frequency` [rad/s] (nv,); `armature` [kg m^2, kg],
    `damping` [N m s/rad, N s/m], `friction_loss` [N m, N], `stiffness` [N m/rad, N/m] (nv,) and `spring_reference`
    (nq,) [rad, m], see `Model`.
    """

    name: str
    number: int
    body: str
    parent: str | None
    joint: AbstractJoint
    placement: Transform
    q: slice
    v: slice
    lower: Float[Array, "nq"]
    upper: Float[Array, "nq"]
    velocity_limit: Float[Array, "nv"]
    effort_limit: Float[Array, "nv"]
    stop_frequency: Float[Array, "nv"]
    armature: Float[Array, "nv"]
    damping: Float[Array, "nv"]
    friction_loss: Float[Array, "nv"]
    stiffness: Float[Array, "nv"]
    spring_reference: Float[Array, "nq"]

    def __repr__(self) -> str:
        return _described(self, f"Joint {self.name!r}")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class BodyView:
    """The parameters of one body of a model, as `model.body(name)` gives them. `with_body` changes them.

    **Fields:** `name`, `number`; `joint`, the name of the joint that moves it; `parent`, the name of the body it hangs
    on (`None` for the world), and `children`; `frames` that it carries; `mass` [kg]; `com` (3,), its centre of mass in
    body axes [m]; `inertia` (3, 3) about that centre in body axes [kg m^2].
    """

    name: str
    number: int
    joint: str
    parent: str | None
    children: tuple[str, ...]
    frames: tuple[str, ...]
    mass: Float[Array, ""]
    com: Float[Array, "3"]
    inertia: Float[Array, "3 3"]

    def __repr__(self) -> str:
        return _described(self, f"Body {self.name!r}")


def _described(view: JointView | BodyView, title: str) -> str:
    """The fields, one in a line."""
    names = [field.name for field in dataclasses.fields(view) if field.name != "name"]
    width = max(map(len, names))
    return "\n".join([title, *(f"  {name:<{width}}  {_shown(getattr(view, name))}" for name in names)])


def _shown(value: object) -> str:
    if isinstance(value, slice):
        return f"{value.start}:{value.stop}"
    if isinstance(value, Transform):
        return f"translation {_shown(value.translation)}, rotation {_shown(value.rotation)}"
    if isinstance(value, AbstractJoint):
        names = [field.name for field in dataclasses.fields(value)]
        return f"{type(value).__name__}({', '.join(f'{name}={_shown(getattr(value, name))}' for name in names)})"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_shown, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, jax.core.Tracer) or not hasattr(value, "shape"):
        return repr(value)
    return np.array2string(np.asarray(value), precision=6, separator=", ").replace("\n", "")

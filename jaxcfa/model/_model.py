"""Robot models as pytrees."""

import difflib
import operator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..joints import AbstractJoint
from ..numerics import symmetrise
from ..numerics._options import check_instance, floating_type, quoted
from ..spatial import Inertia, Transform
from ..typing import NameOrNumber
from ._attachments import Actuators, Keyframes
from ._constraints import AbstractConstraint
from ._layout import PARAMETERS, array_at
from ._parts import JointPart, part_named, parts_of_composites, whole_joint
from ._topology import WORLD, Topology
from ._views import BodyView, JointView


class Limits(eqx.Module):
    """Limits of the joints; infinite where there is none.

    By themselves they bound only `random_configuration`, inverse kinematics, `actuator_forces` and the actions of
    environments; simulations heed them on request (`limits` of `step`), optimal control by constraints.

    **Fields:** `lower`, `upper` (nq,): configuration [rad, m]; `velocity` (nv,): largest speed [rad/s, m/s]; `effort`
    (nv,): largest torque or force [N m, N]; `stop_frequency` (nv,): how hard the stops are at the ends of the range,
    zero for none [rad/s], see `simulation.Stops`.
    """

    lower: Float[Array, "*batch nq"]
    upper: Float[Array, "*batch nq"]
    velocity: Float[Array, "*batch nv"]
    effort: Float[Array, "*batch nv"]
    stop_frequency: Float[Array, "*batch nv"]


class Model(eqx.Module):
    """A mechanism: bodies joined in a tree (or several), with everything physical as an array leaf.

    Any leaf can be replaced (`equinox.tree_at`), batched and differentiated; nothing derived from the leaves is
    stored. What cannot change without recompilation is in `topology`.

    **Fields:**

    - `joints`: the joints, stacked by structure in the order of `topology.groups`.
    - `placement` (nb): pose of each joint's frame in the frame of the parent body [m].
    - `mass` (nb,) [kg]; `com` (nb, 3), centre of mass in body axes [m]; `inertia` (nb, 3, 3), rotational inertia
      about the centre of mass in body axes [kg m^2].
    - `armature` (nv,): rotor inertia reflected to the joint, added to the diagonal of the mass matrix [kg m^2, kg].
    - `damping` [N m s/rad, N s/m], `friction_loss` [N m, N], `stiffness` [N m/rad, N/m] (nv,), `spring_reference` (nq,)
      [rad, m]: see `passive_forces`.
    - `limits`: a `Limits`.
    - `gravity` (3,): acceleration of gravity in world axes [m/s^2].
    - `frame_placement` (nf): pose of each named frame in the body that carries it [m].
    - `constraints`: loop closures and couplings read from a file, mimic joints too. They hold only where they are
      handed on, as in `rollout(..., constraints=model.constraints)`.
    - `actuators`, `keyframes`: read from a file, or added; see `actuator_forces` and `keyframe`.
    - `topology`: static structure and names.
    """

    joints: tuple[AbstractJoint, ...]
    placement: Transform
    mass: Float[Array, "*batch nb"]
    com: Float[Array, "*batch nb 3"]
    inertia: Float[Array, "*batch nb 3 3"]
    armature: Float[Array, "*batch nv"]
    damping: Float[Array, "*batch nv"]
    friction_loss: Float[Array, "*batch nv"]
    stiffness: Float[Array, "*batch nv"]
    spring_reference: Float[Array, "*batch nq"]
    limits: Limits
    gravity: Float[Array, "*batch 3"]
    frame_placement: Transform
    constraints: tuple[AbstractConstraint, ...]
    actuators: Actuators
    keyframes: Keyframes
    topology: Topology = eqx.field(static=True)

    @property
    def nb(self) -> int:
        """Number of (moving) bodies."""
        return self.topology.nb

    @property
    def nq(self) -> int:
        """Number of configuration coordinates."""
        return self.topology.nq

    @property
    def nv(self) -> int:
        """Number of velocity coordinates (degrees of freedom)."""
        return self.topology.nv

    @property
    def body_names(self) -> tuple[str, ...]:
        """Names of the bodies, in order."""
        return self.topology.body_names

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints; joint i moves body i."""
        return self.topology.joint_names

    @property
    def frame_names(self) -> tuple[str, ...]:
        """Names of the frames: merged links, sites and frames added by hand."""
        return self.topology.frame_names

    @property
    def dtype(self) -> jnp.dtype:
        """Floating-point type of the arrays (but frames, constraints, keyframes; the widest where they differ)."""
        inertial = self.joints, self.placement, self.mass, self.com, self.inertia, self.armature, self.gravity
        passive = self.damping, self.friction_loss, self.stiffness, self.spring_reference
        leaves = jax.tree.leaves((inertial, passive, self.limits, self.actuators))
        # Every function asks for it, and promotion takes long.
        types: set[Any] = {getattr(x, "dtype", None) for x in leaves}
        return jnp.result_type(*leaves) if None in types or len(types) > 1 else types.pop()

    @property
    def spatial_inertia(self) -> Inertia:
        """(nb) inertias about the bodies' origins, in body axes."""
        # Only the symmetric part counts, so that derivatives keep inertias symmetric.
        return Inertia.from_com(self.mass, self.com, symmetrise(self.inertia))

    def astype(self, dtype) -> "Model":
        """The same model with all arrays in another floating-point type; `ValueError` for any other type."""
        dtype = floating_type(dtype)
        return jax.tree.map(lambda x: jnp.asarray(x, dtype), self)

    def body_index(self, body: NameOrNumber) -> int:
        """Number of a body given by name or number; `ValueError` if there is none."""
        return _lookup(body, self.topology.body_indices, "body", self.topology)

    def joint_index(self, joint: NameOrNumber) -> int:
        """Number of a joint given by name or number; `ValueError` if there is none, and for a part of one."""
        if isinstance(joint, str) and joint not in self.topology.joint_indices:
            part = joint_part(self, joint)
            raise ValueError(
                f"{joint!r} is part of the joint {self.joint_names[part.body]!r}; give that one, of which it has the "
                f"coordinates q_slice({joint!r}) and v_slice({joint!r})."
            )
        return _lookup(joint, self.topology.joint_indices, "joint", self.topology)

    def q_slice(self, joint: NameOrNumber) -> slice:
        """Where the configuration of a joint, or of one of those in a composite joint, is in `q`."""
        return joint_part(self, joint).q

    def v_slice(self, joint: NameOrNumber) -> slice:
        """Where the velocity of a joint, or of one of those in a composite joint, is in `v`, as its torque in `tau`."""
        return joint_part(self, joint).v

    def joint(self, joint: NameOrNumber) -> JointView:
        """The parameters of a joint given by name or number; not of a batch of models. `with_joint` changes them.

        A joint in a composite joint is given by its name; its number, body, parent and placement are the whole's.
        """
        part = joint_part(self, joint)
        require_single(self, "Model.joint")
        group, place = self.topology.place_in_groups(part.body)
        own = stacked_joint(self.joints[group], part)
        rows = {"nq": part.q, "nv": part.v}
        return JointView(
            name=part.name,
            number=part.body,
            body=self.body_names[part.body],
            parent=self._parent(part.body),
            joint=jax.tree.map(lambda x: x[place], own),
            placement=self.placement[part.body],
            q=part.q,
            v=part.v,
            **{key: array_at(self, x.place)[rows[x.letters]] for key, x in PARAMETERS.items()},
        )

    def body(self, body: NameOrNumber) -> BodyView:
        """The parameters of a body given by name or number; not of a batch of models. `with_body` changes them."""
        i, topology = self.body_index(body), self.topology
        require_single(self, "Model.body")
        return BodyView(
            name=self.body_names[i],
            number=i,
            joint=self.joint_names[i],
            parent=self._parent(i),
            children=tuple(self.body_names[child] for child in np.flatnonzero(topology.parents == i)),
            frames=tuple(self.frame_names[frame] for frame in np.flatnonzero(topology.frame_bodies == i)),
            mass=self.mass[i],
            com=self.com[i],
            inertia=self.inertia[i],
        )

    def _parent(self, body: int) -> str | None:
        parent = int(self.topology.parents[body])
        return None if parent == WORLD else self.body_names[parent]

    def keyframe(self, name: str) -> Float[Array, "nq"]:
        """The configuration stored under `name`; not of a batch of models."""
        require_single(self, "Model.keyframe")
        return self.keyframes.q[self._keyframe_index(name)]

    def keyframe_control(self, name: str) -> Float[Array, "nu"]:
        """What the actuators are told in the keyframe called `name`; not of a batch of models."""
        require_single(self, "Model.keyframe_control")
        return self.keyframes.control[self._keyframe_index(name)]

    def _keyframe_index(self, name: str) -> int:
        return _lookup(name, {key: i for i, key in enumerate(self.keyframes.names)}, "keyframe", self.topology)

    def frame_number(self, frame: NameOrNumber) -> int:
        """Number of a frame or body for the functions of frames, which also take numbers that are traced.

        -1 is the world, 0 to nb - 1 are the bodies, and nb + i is frame i of `frame_names`. A name is looked up among
        the frames first, then the bodies.

        **Raises:** `ValueError` for an unknown name, and for a number out of range.
        """
        if isinstance(frame, str):
            names = self.topology
            if frame in names.frame_indices:
                return self.nb + names.frame_indices[frame]
            if frame not in names.body_indices:
                if frame == "world":
                    raise ValueError("No frame or body is named 'world'; the world itself is number -1.")
                known = (*self.frame_names, *self.body_names)
                raise ValueError(f"No frame or body named {frame!r}{_explanation(frame, known, names)}")
            return names.body_indices[frame]
        number = as_number(frame, "frame or body")
        self.check_frame_numbers(np.array(number))
        return number

    def check_frame_numbers(self, numbers: np.ndarray) -> None:
        """Raises `ValueError` if one of the integers is no `frame_number`."""
        nb, stop = self.nb, self.nb + len(self.frame_names)
        wrong = numbers[(numbers < WORLD) | (numbers >= stop)]
        if wrong.size:
            raise ValueError(
                f"No frame or body number {wrong.flat[0]}: numbers go from -1 (the world) to {stop - 1}. The first "
                f"{nb} from 0 are bodies, the following {stop - nb} frames."
            )

    def locate(self, frame: NameOrNumber) -> tuple[int, Transform]:
        """The body (number, -1 for the world) that carries a frame or body, and the frame's pose in it.

        **Arguments:** `frame`: name or `frame_number`. **Raises:** `ValueError` if there is none, and for frames of a
        batch of models.
        """
        number = self.frame_number(frame)
        if number < self.nb:
            return number, Transform.identity(self.dtype)
        require_single(self, "Model.locate")
        return carrier(self, number), self.frame_placement[number - self.nb]

    def __repr__(self) -> str:
        return f"Model(nb={self.nb}, nq={self.nq}, nv={self.nv}, frames={len(self.frame_names)}, dtype={self.dtype})"


def carrier(model: Model, frame: NameOrNumber) -> int:
    """The number of the body that carries a frame, or is it; -1 for the world. `ValueError` if there is none."""
    number = model.frame_number(frame)
    return number if number < model.nb else int(model.topology.frame_bodies[number - model.nb])


def joint_part(model: Model, joint: NameOrNumber) -> JointPart:
    """The joint given by name or number, or the part of a composite joint given by name; `ValueError` if none is."""
    topology = model.topology
    if isinstance(joint, str) and joint not in topology.joint_indices:
        part = part_named(model.joints, topology, joint)
        if part is None:
            known = (*topology.joint_names, *(each.name for each in parts_of_composites(model.joints, topology)))
            raise ValueError(f"No joint named {joint!r}{_explanation(joint, known, topology)}")
        return part
    return whole_joint(topology, _lookup(joint, topology.joint_indices, "joint", topology))


def stacked_joint(joint: AbstractJoint, part: JointPart) -> AbstractJoint:
    """Of stacked joints, of which a part is one: those that are what the part is."""
    return joint if part.place is None else joint.joints[part.place]  # type: ignore[attr-defined]


def _lookup(key: object, indices: dict[str, int], kind: str, topology: Topology) -> int:
    if isinstance(key, str):
        if key not in indices:
            raise ValueError(f"No {kind} named {key!r}{_explanation(key, tuple(indices), topology)}")
        return indices[key]
    number = as_number(key, kind)
    if not 0 <= number < len(indices):
        raise ValueError(f"No {kind} number {number}: the model has {len(indices)}, numbered from 0.")
    return number


def _explanation(name: str, known: tuple[str, ...], topology: Topology) -> str:
    """What of another kind has a name that is none of those known; else what could have been meant."""
    if name in topology.body_indices:
        return f": it is a body, which the joint {topology.joint_names[topology.body_indices[name]]!r} moves."
    if name in topology.joint_indices:
        return f": it is a joint, which moves the body {topology.body_names[topology.joint_indices[name]]!r}."
    if name in topology.frame_indices:
        body = int(topology.frame_bodies[topology.frame_indices[name]])
        carrier = "the world" if body == WORLD else f"the body {topology.body_names[body]!r}"
        return f": it is a frame, fixed to {carrier}."
    return f"; {suggestion(name, known)}"


def as_number(key: object, kind: str) -> int:
    """The number that was given instead of a name."""
    if isinstance(key, jax.core.Tracer):
        raise ValueError(
            f"A {kind} must be known while tracing, got {key!r}. Give its name, or a number that is not traced, for "
            "example as a static argument of jax.jit."
        )
    try:
        # Booleans are integers in Python.
        return operator.index(None if isinstance(key, (bool, np.bool_)) else key)  # type: ignore[arg-type]
    except TypeError as error:
        raise ValueError(
            f"A {kind} must be a name (a string) or a number (an integer), got {key!r}. Give one of these; of several, "
            "one after the other."
        ) from error


def check_model(model: object) -> None:
    """Raises `ValueError` for what is no model."""
    if not isinstance(model, Model):
        check_instance("model", model, Model, "a jaxcfa.Model, as load_model(file) and chain(7) give")


def require_single(model: Model, function: str = "This function", what: str = "masses") -> None:
    """`ValueError` for a batch of models, or of some of its arrays, or others that do not fit; for what is no model."""
    check_model(model)
    # This is done at every call: attributes of modules take longer to look up than these dictionaries.
    fields = vars(model)
    for part, shapes in fields["topology"].array_shapes.items():
        arrays = vars(fields[part]) if part else fields
        for name, shape in shapes.items():
            if getattr(arrays[name], "shape", None) != shape:
                place = f"{part}.{name}" if part else name
                raise ValueError(_misshapen(place, arrays[name], shape, function, what))


def _misshapen(name: str, given: Any, expected: tuple[int, ...], function: str, what: str) -> str:
    """What to say of an array of a model that has not the shape it should have."""
    shape = getattr(given, "shape", None)
    if shape is not None and len(shape) > len(expected):
        kind, single = (what, f"{expected}") if name == "mass" else (f"values of {name}", f"{len(expected)} axes")
        return (
            f"{function} takes single models, but {kind} have shape {shape} instead of {single}. "
            "Use jax.vmap for batches of models."
        )
    got = f"{given!r:.200}" if shape is None else f"shape {shape}"
    remedy = "jnp.array([0, 0, -9.81]), or give it to load_model" if name == "gravity" else f"jnp.full({expected}, ...)"
    return f"The {name} of a model must be an array of shape {expected}, got {got}. Write {remedy}."


def suggestion(name: str, names: tuple[str, ...]) -> str:
    """What could have been meant by a name that is none of these."""
    close = difflib.get_close_matches(name, names, n=3)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"there are: {quoted(names)}." if names else "there are none."

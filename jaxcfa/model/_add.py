"""Frames and masses added to bodies, and configurations added to a model."""

import dataclasses
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..numerics import matmul, product, transpose
from ..spatial import steiner
from ..typing import NameOrNumber
from ._arguments import as_arrays
from ._attachments import Keyframes
from ._given import Numbers, Placement, as_placement, check_name, given_com, given_inertia, given_mass, is_concrete
from ._inertia_checks import warn_of_inertia
from ._layout import LAYOUT
from ._model import Model, require_single
from ._topology import WORLD

FramesToAdd = Mapping[str, NameOrNumber | tuple[NameOrNumber, Placement]]


def add_frames(model: Model, frames: FramesToAdd) -> Model:
    """The model with more named frames, after those it has.

    **Arguments:** `frames`: by name, the frame or body it is placed in (name, or number of a body, -1 for the world),
    or a pair of this and a placement: a `Transform`, a 4 x 4 matrix, or a translation [m]. Placements may be traced.

    **Raises:** `ValueError` for names that a frame or body has, unknown frames or bodies, invalid placements, and a
    batch of models.
    """
    require_single(model, "add_frames")
    if not isinstance(frames, Mapping):
        raise ValueError(f"frames must be a dictionary, from names to frames or bodies, got {frames!r}.")
    taken = {*model.frame_names, *model.body_names}
    bodies, poses = [], []
    for name, where in frames.items():
        check_name("The name of a frame", name)
        if name in taken:
            raise ValueError(f"The model has a frame or body named {name!r}; names must be unique.")
        if isinstance(where, tuple) and len(where) != 2:
            raise ValueError(
                f"Frame {name!r} needs a frame or body, or a pair of this and a placement, got {where!r:.200}."
            )
        place, placement = where if isinstance(where, tuple) else (where, None)
        body, pose = model.locate(place)
        bodies.append(body)
        poses.append(pose @ as_placement(placement, model.dtype, f"frame {name!r}"))
    topology = model.topology
    added = [jax.tree.map(lambda x: x[None], pose) for pose in poses]
    return dataclasses.replace(
        model,
        frame_placement=jax.tree.map(lambda *x: jnp.concatenate(x), model.frame_placement, *added),
        topology=topology.replace(
            frame_names=(*topology.frame_names, *frames),
            frame_bodies=np.concatenate([topology.frame_bodies, np.array(bodies, dtype=np.int64)]),
        ),
    )


def add_payload(
    model: Model,
    frame: NameOrNumber,
    mass: ArrayLike,
    com: Numbers = (0.0, 0.0, 0.0),
    inertia: Numbers = 0.0,
) -> Model:
    """The model with a rigid mass fixed to a frame: a load in a hand, a camera, the palm of a gripper.

    **Arguments:** `frame`: name of a frame or body, or a body's number. `mass` [kg]; `com` (3,), its centre in the
    frame [m]; `inertia` [kg m^2]: about that centre, in the frame's axes: a 3 x 3 matrix, three principal moments, or
    one number for all three. They, and the model's leaves, may be traced: a model of a batch of loads is made by
    `jax.vmap`.

    **Raises:** `ValueError` for an unknown frame, one that is fixed to the world, invalid values, and a batch of
    models; and warns of an inertia that no rigid body has, unless it is traced.
    """
    require_single(model, "add_payload")
    body, pose = model.locate(frame)
    if body == WORLD:
        raise ValueError(f"{frame!r} is fixed to the world, where a mass has no effect; give a frame that moves.")
    given = given_mass(mass, model.dtype, "the payload"), given_com(com, model.dtype, "the payload")
    about_com = given_inertia(inertia, model.dtype, "the payload")
    if is_concrete(about_com):
        warn_of_inertia(about_com, "The payload")
    turned = matmul(matmul(pose.rotation, about_com), transpose(pose.rotation))
    return with_parts(model, np.array([body]), given[0][None], pose.apply(given[1])[None], turned[None])


def with_parts(
    model: Model,
    bodies: np.ndarray,
    mass: Float[Array, "n"],
    com: Float[Array, "n 3"],
    inertia: Float[Array, "n 3 3"],
) -> Model:
    """The model with rigid parts added to its bodies; one body may get several.

    About centres of mass throughout, as inertias about distant origins would lose digits. Derivatives are finite for
    masses of zero.

    **Arguments:** `bodies` (n,): which one gets each part. `com`: centres of mass in the body's frame [m]; `inertia`
    about them, in its axes [kg m^2].
    """
    if not len(bodies):
        return model
    hosts, slots = np.unique(bodies, return_inverse=True)
    slots = np.concatenate([np.arange(len(hosts)), slots])

    def total(x: Array) -> Array:
        return jnp.zeros((len(hosts), *x.shape[1:]), x.dtype).at[slots].add(x)

    mass = jnp.concatenate([model.mass[hosts], mass])
    com = jnp.concatenate([model.com[hosts], com])
    inertia = jnp.concatenate([model.inertia[hosts], inertia])
    together = total(mass)
    massless = (together == 0)[:, None]
    centre = jnp.where(
        massless, model.com[hosts], total(mass[:, None] * com) / jnp.where(massless, 1, together[:, None])
    )
    lever = com - centre[slots]
    about_centre = total(inertia + steiner(lever, mass[:, None] * lever))
    return eqx.tree_at(
        lambda m: (m.mass, m.com, m.inertia),
        model,
        (
            jnp.asarray(model.mass).at[hosts].set(together),
            jnp.asarray(model.com).at[hosts].set(centre),
            jnp.asarray(model.inertia).at[hosts].set(about_centre),
        ),
    )


def add_keyframe(
    model: Model, name: str, q: Numbers, v: Numbers | None = None, control: Numbers | None = None
) -> Model:
    """The model with one more named configuration, `model.keyframe(name)`, after those it has.

    **Arguments:** `q` (nq,); `v` (nv,) [rad/s, m/s], zero if not given; `control` (nu,), what the actuators are told
    there, `model.keyframe_control(name)`: if not given, position servos hold what they drive at `q`, and all others get
    zero. All may be traced.

    **Raises:** `ValueError` for a name that a keyframe has, wrong shapes, zero quaternions, what is not finite, and a
    batch of models.
    """
    require_single(model, "add_keyframe")
    check_name("The name of a keyframe", name)
    old = model.keyframes
    if name in old.names:
        raise ValueError(f"The model has a keyframe named {name!r}; names must be unique.")
    (q,) = as_arrays(model, q=q)
    v = jnp.zeros(model.nv, model.dtype) if v is None else v
    given = as_arrays(model, q=q, v=v, control=_holding(model, q) if control is None else control)
    rows = []
    for letters, x in zip(LAYOUT["keyframes"], given, strict=True):
        if is_concrete(x) and not np.all(np.isfinite(x)):
            raise ValueError(f"{letters} of the keyframe {name!r} must be finite, got {np.asarray(x).tolist()}.")
        before = getattr(old, letters)
        rows.append(jnp.concatenate([before, x.astype(before.dtype)[None]]))
    return dataclasses.replace(model, keyframes=Keyframes((*old.names, name), *rows))


def _holding(model: Model, q: Float[Array, "nq"]) -> Float[Array, "nu"]:
    """Controls with which position servos pull nowhere; zero for other actuators."""
    actuators = model.actuators
    length = product(actuators.length_gradient.astype(q.dtype), q) + actuators.length_offset
    is_servo = (actuators.gain != 0) & (actuators.gain == -actuators.bias[:, 1])
    return jnp.where(is_servo, length, 0)

"""Thrusters on the bodies of robots: propellers, jets, whatever pushes along a direction of a frame."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..numerics._options import any_numbers
from ..typing import NameOrNumber
from ._attachments import Actuators
from ._given import Numbers, as_list, check_name, is_concrete, vector_of_each
from ._model import Model, carrier, require_single
from ._topology import WORLD
from ._with_actuators import check_new_names, with_actuators


def add_thrusters(
    model: Model,
    frames: NameOrNumber | Sequence[NameOrNumber],
    force: Numbers = (0.0, 0.0, 1.0),
    moment: Numbers = (0.0, 0.0, 0.0),
    *,
    lower: Numbers = -jnp.inf,
    upper: Numbers = jnp.inf,
    names: str | Sequence[str] | None = None,
) -> Model:
    """The model with thrusters: actuators that push on frames, along directions which turn with them.

    The control `u` of each makes the force `force u` and the moment `moment u` at the origin of its frame, in the
    frame's axes. So with the default `force` controls are thrusts along z [N], and the `moment` is the drag of a
    propeller, in newton metres for each newton:

        rotors = {f"rotor{i}": ("body", place) for i, place in enumerate(places)}
        drag = [[0, 0, 0.02 * (-1) ** i] for i in range(len(places))]
        drone = jaxcfa.add_frames(drone, rotors)
        drone = jaxcfa.add_thrusters(drone, list(rotors), moment=drag, lower=0, upper=8)
        state = jaxcfa.step(drone, q, v, thrusts, dt=0.005, actuated="actuators")

    **Arguments:** `frames`: names or numbers of frames or bodies, one or n. `force` [N], `moment` [N m]: of the control
    1, (3,) for all or (n, 3). `lower`, `upper`: ends of the controls, one number for all or (n,). They, and the model's
    leaves, may be traced. `names` of the actuators: by default those of the frames. They come after the model's own.

    **Raises:** `ValueError` for a batch of models, unknown frames and those that are fixed to the world, names that
    actuators have, wrong shapes, numbers that are not finite, and a `lower` that is above `upper`.
    """
    require_single(model, "add_thrusters")
    where = [_frame_name(model, frame) for frame in as_list(frames)]
    count, called = len(where), _names(where, names)
    check_new_names(model, called, "thrusters", "give each a name of its own, names=[...]")
    ends = [_ends("lower", lower, count, model.dtype), _ends("upper", upper, count, model.dtype)]
    if is_concrete(*ends) and np.any(np.asarray(ends[0]) > np.asarray(ends[1])):
        raise ValueError(f"lower must not be above upper, got {lower} and {upper}.")
    given = ("moment", moment), ("force", force)
    wrench = jnp.concatenate([vector_of_each(*x, count, model.dtype) for x in given], axis=1)
    zero = jnp.zeros(count, model.dtype)
    thrusters = Actuators(
        names=called,
        frames=tuple(where),
        moment=jnp.zeros((count, model.nv), model.dtype),
        wrench=wrench,
        length_gradient=jnp.zeros((count, model.nq), model.dtype),
        length_offset=zero,
        gain=zero + 1,
        bias=jnp.zeros((count, 3), model.dtype),
        control_lower=ends[0],
        control_upper=ends[1],
        force_lower=zero - jnp.inf,
        force_upper=zero + jnp.inf,
    )
    return with_actuators(model, thrusters)


def _frame_name(model: Model, frame: NameOrNumber) -> str:
    """The name of a frame or body that moves."""
    number = model.frame_number(frame)
    if carrier(model, number) == WORLD:
        raise ValueError(f"{frame!r} is fixed to the world, which nothing pushes; give a frame that moves.")
    return (*model.body_names, *model.frame_names)[number]


def _names(frames: list[str], given: str | Sequence[str] | None) -> tuple[str, ...]:
    names = frames if given is None else [given] if isinstance(given, str) else list(given)
    if not frames or len(names) != len(frames):
        raise ValueError(
            f"add_thrusters needs one frame or more, and a name for each, got {frames} and {given!r:.200}."
        )
    for name in names:
        check_name("The name of a thruster", name)
    return tuple(names)


def _ends(what: str, value: Numbers, count: int, dtype: jnp.dtype) -> Float[Array, "count"]:
    array = any_numbers(what, value).astype(dtype)
    if array.shape not in ((), (count,)):
        raise ValueError(f"{what} must be one number, or one for each of {count} thrusters, got shape {array.shape}.")
    if is_concrete(array) and np.any(np.isnan(array)):
        raise ValueError(f"{what} must not be NaN, got {value}.")
    return jnp.broadcast_to(array, (count,))

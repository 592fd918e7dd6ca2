"""Actuators added to those that a model has."""

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from ._attachments import Actuators
from ._layout import LAYOUT
from ._model import Model


def check_new_names(model: Model, names: Sequence[str], kind: str, remedy: str) -> None:
    """Raises `ValueError` for names that two of the new actuators have, or one of the model's."""
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"Two {kind} would be named {repeated[0]!r}; {remedy}.")
    if taken := set(names) & set(model.actuators.names):
        raise ValueError(f"The model has an actuator named {min(taken)!r}; {remedy}.")


def with_actuators(model: Model, added: Actuators, control: Float[Array, "nk n"] | None = None) -> Model:
    """The model with more actuators after its own, and what these are told in its keyframes: zero if not given."""
    own, keyframes = model.actuators, model.keyframes
    if control is None:
        control = jnp.zeros((len(keyframes.names), len(added.names)))
    arrays = {name: jnp.concatenate([getattr(own, name), getattr(added, name)]) for name in LAYOUT["actuators"]}
    told = jnp.concatenate([keyframes.control, control.astype(keyframes.control.dtype)], axis=1)
    return dataclasses.replace(
        model,
        actuators=Actuators((*own.names, *added.names), (*own.frames, *added.frames), **arrays),
        keyframes=dataclasses.replace(keyframes, control=told),
    )

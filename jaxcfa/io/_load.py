"""Models from files of either format."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from ..model import Model
from ._mjcf import load_mjcf
from ._source import PathOrText, read_source, root_tag
from ._urdf import load_urdf


def load_model(path_or_text: PathOrText, floating_base: bool = False, *, gravity=None, dtype=None) -> Model:
    """The model that a URDF or MJCF file describes; see `load_urdf` and `load_mjcf`.

    The format follows from the root element, `<robot>` or `<mujoco>`.

    **Arguments:**

    - `path_or_text`: path of a file, or its content.
    - `floating_base`: attach the root to the world by a free joint, whose coordinates come first.
    - `gravity` (3,) [m/s^2]: acceleration of gravity in world axes, in place of the file's, or of (0, 0, -9.81).
    - `dtype`: of the arrays; JAX's default float type if absent.

    **Raises:** `FileNotFoundError` for a wrong path; `ValueError` for anything malformed, naming file and element;
    `ImportError` without the packages that read files.
    """
    source = read_source(path_or_text)
    try:
        tag = root_tag(source.data)
    except ValueError as error:
        raise ValueError(f"{source.name}: {error}") from error
    if tag == "robot":
        model = load_urdf(path_or_text, floating_base, dtype=dtype)
    elif tag == "mujoco":
        text = path_or_text.decode(errors="replace") if isinstance(path_or_text, bytes) else path_or_text
        model = load_mjcf(text, floating_base, dtype=dtype)
    else:
        raise ValueError(f"{source.name}: the root element is <{tag}>; give URDF (<robot>) or MJCF (<mujoco>).")
    return model if gravity is None else _with_gravity(model, gravity)


def _with_gravity(model: Model, gravity) -> Model:
    array = np.asarray(gravity, dtype=float)
    if array.shape != (3,) or not np.all(np.isfinite(array)):
        raise ValueError(f"The gravity must be 3 finite numbers, got {gravity!r}.")
    return dataclasses.replace(model, gravity=jnp.asarray(array, model.dtype))

"""Models from files of any format."""

import dataclasses
from collections.abc import Mapping, Sequence

import jax.numpy as jnp

from ..model import Model
from ..numerics._options import as_finite, check_flag
from ._archive import check_types
from ._mjcf import load_mjcf
from ._mjcf_compile import ASSETS_OF_URDF, check_assets
from ._saved import read_model
from ._source import FileOrCompiled, PathOrText, is_archive, read_file, read_source, root_tag, unknown_root
from ._urdf import load_urdf


def load_model(
    path_or_text: FileOrCompiled,
    floating_base: bool = False,
    *,
    gravity=None,
    dtype=None,
    types: Sequence[type] = (),
    assets: Mapping[str, bytes] | None = None,
) -> Model:
    """The model that a URDF or MJCF file describes, see `load_urdf` and `load_mjcf`, or that `save_model` wrote.

    The format follows from the root element, `<robot>` or `<mujoco>`, or the ending `.npz`. Nothing in a file is
    executed. What others have loaded by MuJoCo already is taken as it is: a `mujoco.MjModel` or `mujoco.MjSpec`.

    **Arguments:**

    - `path_or_text`: path of a file, or (of URDF and MJCF) its content; or a `mujoco.MjModel` or `mujoco.MjSpec`.
    - `floating_base`: attach the root to the world by a free joint, whose coordinates come first. Not for saved models,
      which keep their base.
    - `gravity` (3,) [m/s^2]: acceleration of gravity in world axes, in place of the file's, or of (0, 0, -9.81); of all
      models of a batch.
    - `dtype`: of the arrays; if absent JAX's default float type, or that of a saved model (of which doubles become
      single precision where JAX's double precision is off).
    - `types`: your own classes of joints and constraints that are in a saved model, each of another name.
    - `assets`: contents of the files that MJCF text names, by these names; for nothing else.

    **Raises:** `FileNotFoundError` for a wrong path; `ValueError` for anything malformed, naming file and element, for
    a saved model that is damaged, newer or has types that are not given, and for `assets` of anything but MJCF text;
    `ImportError` without the packages that read URDF and MJCF.
    """
    check_flag("floating_base", floating_base)
    check_types(types)
    check_assets(assets, path_or_text)
    if is_archive(path_or_text):
        model = _load_saved(path_or_text, floating_base, dtype, types)
        return model if gravity is None else _with_gravity(model, gravity)
    source = read_source(path_or_text)
    try:
        tag = root_tag(source.data)
        if tag not in ("robot", "mujoco"):
            raise unknown_root(tag)
    except ValueError as error:
        raise ValueError(f"{source.name}: {error}") from error
    if tag == "robot":
        if assets is not None:
            raise ValueError(f"{source.name}: {ASSETS_OF_URDF}")
        model = load_urdf(path_or_text, floating_base, dtype=dtype)
    else:
        model = load_mjcf(path_or_text, floating_base, dtype=dtype, assets=assets)
    return model if gravity is None else _with_gravity(model, gravity)


def _load_saved(path: PathOrText, floating_base: bool, dtype, types: Sequence[type]) -> Model:
    source = read_file(path)
    if floating_base:
        raise ValueError(f"{source.name}: a saved model has the base that it was saved with; omit floating_base.")
    model = read_model(source.data, source.name, types)
    return model if dtype is None else model.astype(dtype)


def _with_gravity(model: Model, gravity) -> Model:
    given = jnp.asarray(as_finite(gravity, (3,), "gravity"), model.dtype)
    return dataclasses.replace(model, gravity=jnp.broadcast_to(given, model.gravity.shape))

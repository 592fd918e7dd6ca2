"""Models from MJCF, MuJoCo's format."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..model import Model, ModelBuilder
from ..numerics._options import check_flag
from ._mjcf_attachments import read_actuators, read_keyframes
from ._mjcf_bodies import add_bodies
from ._mjcf_check import check_numbers
from ._mjcf_compile import check_assets, compile_mjcf
from ._mjcf_dofs import is_disabled, read_dofs
from ._mjcf_equalities import read_equalities
from ._mjcf_layout import read_layout
from ._mjcf_unsupported import note_unsupported
from ._report import Report
from ._source import FileOrCompiled, read_source


def load_mjcf(
    path_or_text: FileOrCompiled,
    floating_base: bool = False,
    *,
    gravity=None,
    dtype=None,
    assets: Mapping[str, bytes] | None = None,
) -> Model:
    """The model that an MJCF file describes, as MuJoCo's own compiler understands it, or that it has compiled.

    `q` and `v` of the model are MuJoCo's `qpos` and `qvel`, coordinate by coordinate. Several joints of one body become
    one composite joint, called after all of them with "+" between. Bodies without joints are merged into their parent
    and stay available as frames, `fusestatic` or not, as do all sites (called "site:NAME" where a body has that name).
    Names that would occur twice get underscores. Limits are infinite where a flag switches them off. `model.keyframe`
    has the stored configurations, and the initial one as "qpos0", `model.keyframe_control` their controls;
    `model.constraints` the active `connect`, `weld` and `joint` equalities (`weld` with the `torquescale` zero as
    `Connect`); `model.actuators` those on joints, fixed tendons and sites whose force is affine in the control, the
    position and the velocity (motors, position and velocity servos, general).

    Geoms serve the compiler to find masses; nothing collides by itself (see `ground_contacts`), and the time step and
    the options of the solver are not taken, without a warning. What else is not modelled gives one `ModelWarning` that
    names it: spatial tendons, forces of tendons of their own, actuators of other kinds, activations, fluids, gravity
    compensation, motion capture bodies, springs and damping that are not linear, flexes, sensors, plugins, constraints
    within one body. Missing files of meshes and textures matter only where masses depend on them.

    **Arguments:**

    - `path_or_text`: path of a file, or its content; or a `mujoco.MjModel`, of which everything is copied, or a
      `mujoco.MjSpec`, of which a copy is compiled.
    - `floating_base`: give the one body that is fixed to the world and carries the mechanism a free joint
      "root_joint", whose coordinates come first. A model in which a root body has a free joint stays as it is. What
      MuJoCo computes from masses (damping by `dampratio` and `springdamper`) is that of the fixed base.
    - `gravity` (3,) [m/s^2]: acceleration of gravity in world axes, in place of the file's.
    - `dtype`: of the arrays; JAX's default float type if absent.
    - `assets`: contents of the files that a text names, by these names, as for `MjModel.from_xml_string`.

    **Raises:** `FileNotFoundError` for a wrong path. `ValueError` for anything that MuJoCo rejects, for values that are
    not finite, for `floating_base` where no single body can be the base, and for `assets` of what is no text.
    `ImportError` without the package `mujoco`.
    """
    check_flag("floating_base", floating_base)
    check_assets(assets, path_or_text)
    source = read_source(path_or_text)
    report = Report(source.name)
    try:
        mj, messages, _ = compile_mjcf(path_or_text, source, fixed_too=floating_base, assets=assets)
        for message in messages:
            report.add(f"MuJoCo says: {message}")
        model = _convert(mj, floating_base, gravity, dtype, report)
    except ValueError as error:
        raise ValueError(f"{source.name}: {error}") from error
    report.warn()
    return model


def _convert(mj: Any, floating_base: bool, gravity, dtype, report: Report) -> Model:
    check_numbers(mj)
    layout = read_layout(mj, floating_base)
    builder = ModelBuilder()
    add_bodies(builder, mj, layout, read_dofs(mj, layout, report), report)
    if gravity is None:
        gravity = np.zeros(3) if is_disabled(mj, "GRAVITY") else mj.opt.gravity
    model = builder.build(gravity=gravity, dtype=dtype)
    actuators = read_actuators(mj, layout, model.dtype, report)
    model = dataclasses.replace(
        model,
        constraints=read_equalities(mj, layout, model, report),
        actuators=actuators,
        keyframes=read_keyframes(mj, layout, actuators.names, model.dtype),
    )
    note_unsupported(mj, layout, report)
    return model

"""MJCF models that ship with the packages mujoco and mujoco-mjx, and MuJoCo's own results for them."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path

import mujoco
import numpy as np

_ROOT = Path(mujoco.__file__).parent

REPRESENTATIVE = (
    "mjx/test_data/pendula.xml",
    "mjx/test_data/humanoid/humanoid.xml",
    "mjx/test_data/barkour_v0/assets/barkour_v0_mjx.xml",
    "mjx/test_data/shadow_hand/right_hand.xml",
    "testdata/model.xml",
)


def shipped_models() -> list[str]:
    """Paths of all models, relative to the package's folder."""
    return sorted(str(path.relative_to(_ROOT)) for path in _ROOT.rglob("*.xml"))


def path_of(name: str) -> Path:
    """The file of a shipped model."""
    return _ROOT / name


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without MuJoCo's warnings, which it writes to a file in the working directory too."""
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        mujoco.set_mju_user_warning(before)


def compiled(source: str | Path) -> mujoco.MjModel:
    """A model compiled from a file or text, without the range of muscles' lengths, which can fail to converge."""
    text = isinstance(source, str)
    spec = mujoco.MjSpec.from_string(source) if text else mujoco.MjSpec.from_file(str(source))
    spec.compiler.LRopt.mode = mujoco.mjtLRMode.mjLRMODE_NONE
    with quiet():
        return spec.compile()


def without_unmodelled(mj: mujoco.MjModel, actuators: tuple[str, ...]) -> mujoco.MjModel:
    """Switch off, in place, what jaxcfa reports as not modelled: forces of tendons and fluids, and other actuators."""
    for values in (mj.tendon_stiffness, mj.tendon_damping, mj.tendon_armature, mj.body_gravcomp):
        values[:] = 0
    mj.opt.density = mj.opt.viscosity = 0
    for i in range(len(mj.actuator_trntype)):
        if (mj.actuator(i).name or f"actuator{i}") not in actuators:
            mj.actuator_group[i] = 30
            mj.opt.disableactuator |= 1 << 30
    return mj


def random_state(mj: mujoco.MjModel, seed: int = 0) -> mujoco.MjData:
    """Random positions, velocities and controls, and everything that MuJoCo computes from them."""
    generator = np.random.default_rng(seed)
    data = mujoco.MjData(mj)
    mujoco.mj_integratePos(mj, data.qpos, generator.normal(size=mj.nv), 1.0)
    data.qvel[:] = generator.normal(size=mj.nv)
    data.ctrl[:] = generator.normal(size=mj.nu)
    with quiet():
        mujoco.mj_forward(mj, data)
    return data


def mass_matrix(mj: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    """The mass matrix, column by column."""
    columns = np.zeros((mj.nv, mj.nv))
    for unit, column in zip(np.eye(mj.nv), columns, strict=True):
        mujoco.mj_mulM(mj, data, column, unit)
    return columns

"""Models read from MJCF move as in MuJoCo."""

import warnings
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from jaxtyping import Array

from helpers import assert_close
from jaxcfa import combine, dynamics
from jaxcfa.actuation import actuator_forces
from jaxcfa.io import ModelWarning, load_mjcf
from jaxcfa.kinematics import forward_kinematics
from jaxcfa.model import Model
from jaxcfa.spatial import Transform
from mujoco_models import (
    compiled,
    mass_matrix,
    path_of,
    random_state,
    shipped_models,
    without_unmodelled,
)

TOLERANCE = 1e-9
GRAVITY = np.array([1.0, 2.0, -3.0])
_SINGULAR = ("mjx/test_data/actuator/general_dyntype.xml",)
# MuJoCo takes the mass matrix of free bodies for diagonal where the centre of mass is 1e-9 beside the origin.
_ROUNDED = {"mjx/test_data/convex.xml": 1e-8}


def load_quietly(source, **arguments) -> Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return load_mjcf(source, **arguments)


class Results(NamedTuple):
    """Everything that is compared, computed in one go: compiling is what takes time."""

    poses: Transform
    mass_matrix: Array
    bias: Array
    passive: Array
    driven: Array
    acceleration: Array


@jax.jit
def compute(model: Model, q, v, control) -> Results:
    frictionless = eqx.tree_at(lambda m: m.friction_loss, model, jnp.zeros(model.nv))
    passive = dynamics.passive_forces(frictionless, q, v)
    driven = actuator_forces(model, q, v, control)
    return Results(
        forward_kinematics(model, q),
        dynamics.mass_matrix(model, q),
        dynamics.bias_forces(model, q, v),
        passive,
        driven,
        dynamics.forward_dynamics(model, q, v, passive + driven),
    )


class Pair(NamedTuple):
    """A model in both packages, and a random state of it in MuJoCo."""

    model: Model
    mj: mujoco.MjModel
    data: mujoco.MjData

    @staticmethod
    def of(model: Model, mj: mujoco.MjModel, seed: int = 0) -> "Pair":
        """What is not modelled is switched off in `mj`. Gravity has been read, and is then the same for all."""
        off = int(mujoco.mjtDisableBit.mjDSBL_GRAVITY)
        assert np.array_equal(model.gravity, mj.opt.gravity * (not mj.opt.disableflags & off))
        mj.opt.gravity[:] = GRAVITY
        mj.opt.disableflags &= ~off
        model = eqx.tree_at(lambda m: m.gravity, model, GRAVITY)
        return Pair(model, mj, random_state(without_unmodelled(mj, model.actuators.names), seed))

    @property
    def control(self) -> np.ndarray:
        """That of the actuators which are modelled."""
        names = [self.mj.actuator(i).name or f"actuator{i}" for i in range(self.mj.nu)]
        return self.data.ctrl[[i for i, name in enumerate(names) if name in self.model.actuators.names]]


def check_against_mujoco(pairs: dict[str, Pair]) -> None:
    """All side by side as one model, and so one program."""
    forest = combine([pair.model for pair in pairs.values()], [f"{name}: " for name in pairs])
    q, v = (np.concatenate([getattr(pair.data, x) for pair in pairs.values()]) for x in ("qpos", "qvel"))
    control = np.concatenate([pair.control for pair in pairs.values()])
    results = jax.tree.map(np.asarray, compute(forest, q, v, control))
    start = 0
    for name, pair in pairs.items():
        dofs = slice(start, start + pair.model.nv)
        start = dofs.stop
        check_poses(forest, results.poses, name, pair)
        check_forces(results, dofs, name, pair)


def check_poses(forest: Model, poses: Transform, name: str, pair: Pair) -> None:
    """Of bodies and sites."""
    _, mj, data = pair
    bodies = [mj.body(i).name or f"body{i}" for i in range(1, mj.nbody)]
    sites = [mj.site(i).name or f"site{i}" for i in range(mj.nsite)]
    sites = [f"site:{site}" if site in bodies else site for site in sites]
    body_positions = np.concatenate([poses.translation, np.zeros((1, 3))])  # number -1 is the world
    body_rotations = np.concatenate([poses.rotation, np.eye(3)[None]])
    positions, rotations = (
        np.concatenate(x) for x in ((data.xpos[1:], data.site_xpos), (data.xmat[1:], data.site_xmat))
    )
    for frame, position, rotation in zip(bodies + sites, positions, rotations, strict=True):
        body, local = forest.locate(f"{name}: {frame}")
        turned, what = body_rotations[body], f"{name}: pose of {frame}"
        assert_close(body_positions[body] + turned @ np.asarray(local.translation), position, TOLERANCE, what)
        assert_close(turned @ np.asarray(local.rotation), rotation.reshape(3, 3), TOLERANCE, what)


def check_forces(results: Results, dofs: slice, name: str, pair: Pair) -> None:
    """And masses and accelerations."""
    mj, data, rtol = pair.mj, pair.data, _ROUNDED.get(name, TOLERANCE)
    assert_close(results.mass_matrix[dofs, dofs], mass_matrix(mj, data), rtol, f"{name}: mass matrix")
    assert_close(results.bias[dofs], data.qfrc_bias, rtol, f"{name}: bias forces")
    assert_close(results.passive[dofs], data.qfrc_passive, TOLERANCE, f"{name}: passive forces")
    assert_close(results.driven[dofs], data.qfrc_actuator, TOLERANCE, f"{name}: forces of actuators")
    if name not in _SINGULAR:
        assert_close(results.acceleration[dofs], data.qacc_smooth, rtol, f"{name}: accelerations")


EVERYTHING = """
<mujoco>
  <compiler angle="radian" autolimits="true"/>
  <option gravity="1 2 -3"/>
  <worldbody>
    <site name="base" pos="1 2 3" euler="0.1 0.2 0.3"/>
    <body name="a" pos="0.1 0.2 0.3" euler="0.3 0.2 0.1">
      <joint name="a1" axis="1 2 3" pos="0.1 0.2 -0.1" ref="0.4" springref="0.2" stiffness="3" damping="0.7"/>
      <joint name="a2" type="slide" axis="0 1 3" ref="-0.3" armature="0.2" pos="1 1 1"/>
      <joint name="a3" axis="0 1 0.5" pos="-0.3 0.2 0" ref="1.1" stiffness="2" actuatorfrcrange="-0.2 0.2"/>
      <inertial pos="0.1 0 0.2" mass="2" fullinertia="0.3 0.2 0.4 0.01 0.02 0.03"/>
      <body name="b" pos="0.4 0 0" euler="0 1 0">
        <joint name="b1" type="ball" pos="0.2 0.1 0" damping="0.3" stiffness="1.5"/>
        <joint name="b2" type="slide" axis="1 1 0" ref="0.6"/>
        <geom size="0.1 0.2 0.3" type="box" pos="0.1 0 0"/>
        <body name="welded" pos="0 0.2 0" euler="0.5 0 0">
          <geom size="0.1" pos="0.2 0 0"/>
          <site name="tip" pos="0.1 0.2 0.3" quat="1 2 3 4"/>
          <body name="c" pos="0 0 0.1">
            <joint name="c1" ref="0.5" axis="0 0 1" range="-1 2" frictionloss="0.3"/>
            <geom size="0.1 0.2" type="capsule" pos="0 0.1 0.1"/>
          </body>
        </body>
      </body>
    </body>
    <body name="d" pos="1 1 1" euler="0.2 0.1 0">
      <freejoint name="d1"/>
      <geom size="0.1 0.2 0.15" type="ellipsoid" pos="0.1 0.1 0.1"/>
      <site name="rotor" pos="0.3 -0.1 0.2" euler="0.4 0 0.7"/>
    </body>
  </worldbody>
  <tendon>
    <fixed name="both" actuatorfrcrange="-0.8 0.6">
      <joint joint="a1" coef="0.5"/> <joint joint="c1" coef="-2"/>
    </fixed>
  </tendon>
  <actuator>
    <motor name="m1" joint="a1" gear="3" armature="0.5" damping="2" ctrlrange="-0.1 0.1"/>
    <position name="p1" joint="a3" kp="5" kv="0.3" gear="-2"/>
    <velocity name="v1" joint="c1" kv="3" forcerange="-0.5 0.5"/>
    <general name="g1" jointinparent="c1" gainprm="2" biastype="affine" biasprm="0.1 0.2 0.3" gear="0.5"/>
    <motor name="ball" joint="b1" gear="1 2 3"/>
    <motor name="free" joint="d1" gear="1 2 3 4 5 6" armature="0.1" damping="0.2"/>
    <position name="pull" tendon="both" kp="4" kv="0.2" gear="1.5" ctrlrange="-0.5 0.5"/>
    <motor name="thrust" site="rotor" gear="0.1 0 2 0 0.3 -0.2" ctrlrange="0 2"/>
    <general name="jet" site="tip" gear="1 2 3 4 5 6" gainprm="2" biastype="affine" biasprm="0.1 0.2 -0.3"/>
    <motor name="second" site="rotor" gear="1 0 0 0 0 0"/>
  </actuator>
</mujoco>
"""


FLOATING = """
<mujoco>
  <worldbody>
    <body name="base" pos="0.1 0.2 0.3" euler="10 20 30">
      <geom size="0.1 0.2 0.3" type="box" pos="0.1 0 0"/>
      <body name="arm" pos="0.3 0 0"> <joint name="j" ref="20"/> <geom size="0.1" pos="0 0.2 0"/> </body>
    </body>
  </worldbody>
  <actuator> <position name="servo" joint="j" kp="3"/> </actuator>
  <keyframe> <key name="bent" qpos="0.5" qvel="0.1"/> </keyframe>
</mujoco>
"""


def floating_in_mujoco() -> mujoco.MjModel:
    freed = FLOATING.replace('30">', '30"> <freejoint name="root_joint"/>')
    return compiled(freed.split("<keyframe>")[0] + "</mujoco>")


@pytest.mark.slow
def test_models_move_as_in_mujoco():
    """All that are shipped, every feature at once in three states, and a base made floating."""
    pairs = {"floating base": Pair.of(load_mjcf(FLOATING, floating_base=True), floating_in_mujoco())}
    for seed in range(3):
        pairs[f"every feature, {seed}"] = Pair.of(load_mjcf(EVERYTHING), compiled(EVERYTHING), seed)
    for name in shipped_models():
        try:
            mj = compiled(path_of(name))
        except ValueError:
            with pytest.raises(ValueError, match="MuJoCo cannot compile it"):
                load_mjcf(path_of(name))
        else:
            pairs[name] = Pair.of(load_quietly(path_of(name)), mj)
    check_against_mujoco(pairs)


def test_actuators_are_read():
    actuators = load_mjcf(EVERYTHING).actuators
    assert actuators.names == ("m1", "p1", "v1", "g1", "ball", "free", "pull", "thrust", "jet", "second")
    assert actuators.frames[6:] == (None, "rotor", "tip", "rotor")


def test_floating_base_is_what_mujoco_makes_of_a_free_joint():
    model, reference = load_mjcf(FLOATING, floating_base=True), floating_in_mujoco()
    assert model.joint_names == ("root_joint", "j")
    assert model.nq == 8
    assert_close(model.keyframe("qpos0"), reference.qpos0)
    assert_close(model.keyframe("bent"), np.append(reference.qpos0[:7], 0.5))
    assert_close(model.keyframes.v[1], np.append(np.zeros(6), 0.1))


def test_damping_by_ratio_is_that_of_the_fixed_base():
    text = FLOATING.replace('kp="3"', 'kp="3" dampratio="1"')
    fixed, floating = (load_mjcf(text, floating_base=free).actuators for free in (False, True))
    assert np.all(fixed.bias[:, 2] < 0)
    assert_close(floating.bias, fixed.bias)

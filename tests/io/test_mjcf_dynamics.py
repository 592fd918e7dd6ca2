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
from jaxcfa import dynamics
from jaxcfa.actuation import actuator_forces
from jaxcfa.io import ModelWarning, load_mjcf
from jaxcfa.kinematics import forward_kinematics
from jaxcfa.model import Model
from jaxcfa.spatial import Transform
from mujoco_models import (
    REPRESENTATIVE,
    compiled,
    mass_matrix,
    path_of,
    random_state,
    shipped_models,
    without_unmodelled,
)

TOLERANCE = 1e-9
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


def check_poses(model: Model, poses: Transform, names, positions, rotations) -> None:
    body_positions = np.concatenate([poses.translation, np.zeros((1, 3))])  # number -1 is the world
    body_rotations = np.concatenate([poses.rotation, np.eye(3)[None]])
    for name, position, rotation in zip(names, positions, rotations, strict=True):
        body, local = model.locate(name)
        turned = body_rotations[body]
        assert_close(body_positions[body] + turned @ np.asarray(local.translation), position, TOLERANCE)
        assert_close(turned @ np.asarray(local.rotation), rotation.reshape(3, 3), TOLERANCE)


def check_against_mujoco(model: Model, mj: mujoco.MjModel, regular=True, seed=0, rtol=TOLERANCE) -> None:
    data = random_state(without_unmodelled(mj, model.actuators.names), seed)
    kept = [i for i in range(mj.nu) if (mj.actuator(i).name or f"actuator{i}") in model.actuators.names]
    results = compute(model, jnp.asarray(data.qpos), jnp.asarray(data.qvel), jnp.asarray(data.ctrl[kept]))
    bodies = [mj.body(i).name or f"body{i}" for i in range(1, mj.nbody)]
    check_poses(model, results.poses, bodies, data.xpos[1:], data.xmat[1:])
    sites = [mj.site(i).name or f"site{i}" for i in range(mj.nsite)]
    sites = [f"site:{name}" if name in bodies else name for name in sites]
    check_poses(model, results.poses, sites, data.site_xpos, data.site_xmat)
    assert_close(results.mass_matrix, mass_matrix(mj, data), rtol)
    assert_close(results.bias, data.qfrc_bias, rtol)
    assert_close(results.passive, data.qfrc_passive, TOLERANCE)
    assert_close(results.driven, data.qfrc_actuator, TOLERANCE)
    if regular:
        assert_close(results.acceleration, data.qacc_smooth, rtol)


@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_representative_models_move_as_in_mujoco(name):
    check_against_mujoco(load_quietly(path_of(name)), compiled(path_of(name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(shipped_models()) - set(REPRESENTATIVE)))
def test_all_shipped_models_move_as_in_mujoco(name):
    try:
        mj = compiled(path_of(name))
    except ValueError:
        with pytest.raises(ValueError, match="MuJoCo cannot compile it"):
            load_mjcf(path_of(name))
        return
    rtol = _ROUNDED.get(name, TOLERANCE)
    check_against_mujoco(load_quietly(path_of(name)), mj, regular=name not in _SINGULAR, rtol=rtol)


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
    </body>
  </worldbody>
  <actuator>
    <motor name="m1" joint="a1" gear="3" armature="0.5" damping="2" ctrlrange="-0.1 0.1"/>
    <position name="p1" joint="a3" kp="5" kv="0.3" gear="-2"/>
    <velocity name="v1" joint="c1" kv="3" forcerange="-0.5 0.5"/>
    <general name="g1" jointinparent="c1" gainprm="2" biastype="affine" biasprm="0.1 0.2 0.3" gear="0.5"/>
    <motor name="ball" joint="b1" gear="1 2 3"/>
    <motor name="free" joint="d1" gear="1 2 3 4 5 6" armature="0.1" damping="0.2"/>
  </actuator>
</mujoco>
"""


@pytest.mark.parametrize("seed", range(3))
def test_every_feature_at_once(seed):
    model = load_mjcf(EVERYTHING)
    assert model.actuators.names == ("m1", "p1", "v1", "g1", "ball", "free")
    check_against_mujoco(model, compiled(EVERYTHING), seed=seed)


def test_floating_base_is_what_mujoco_makes_of_a_free_joint():
    text = """
    <mujoco>
      <worldbody>
        <body name="base" pos="0.1 0.2 0.3" euler="10 20 30">
          <geom size="0.1 0.2 0.3" type="box" pos="0.1 0 0"/>
          <body name="arm" pos="0.3 0 0"> <joint name="j" ref="20"/> <geom size="0.1" pos="0 0.2 0"/> </body>
        </body>
      </worldbody>
      <actuator> <position name="servo" joint="j" kp="3"/> </actuator>
      <keyframe> <key name="bent" qpos="0.5" qvel="0.1"/> </keyframe>
    </mujoco>"""
    model = load_mjcf(text, floating_base=True)
    assert model.joint_names == ("root_joint", "j")
    assert model.nq == 8
    reference = compiled(
        text.replace('30">', '30"> <freejoint name="root_joint"/>').split("<keyframe>")[0] + "</mujoco>"
    )
    check_against_mujoco(model, reference)
    assert_close(model.keyframe("qpos0"), reference.qpos0)
    assert_close(model.keyframe("bent"), np.append(reference.qpos0[:7], 0.5))
    assert_close(model.keyframes.v[1], np.append(np.zeros(6), 0.1))

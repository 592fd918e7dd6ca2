"""Actuators in time steps: their controls are held, their forces follow the state."""

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa.simulation import (
    ExplicitEuler,
    ImplicitMidpoint,
    RungeKutta4,
    SemiImplicitEuler,
    linearize,
    rollout,
    step,
)

ARM = """<mujoco><option timestep="0.004" integrator="implicitfast"/>
<worldbody>
  <body pos="0 0 1"><joint name="a" axis="0 1 0" armature="0.1" damping="1"/>
    <geom type="capsule" fromto="0 0 0 .2 0 0" size=".03" mass="1"/>
    <body pos=".2 0 0"><joint name="b" axis="0 1 0" armature="0.1" actuatorfrcrange="-30 30"/>
      <geom type="capsule" fromto="0 0 0 .1 0 0" size=".03" mass=".5"/>
      <body pos=".1 0 0"><joint name="c" axis="0 0 1"/><geom type="sphere" size=".04" mass=".1"/></body>
    </body>
  </body>
</worldbody>
<actuator>
  <position joint="a" kp="4000" kv="450"/>
  <position joint="b" kp="2000" kv="200"/>
  <general joint="b" gear="2" gainprm="3" biastype="affine" biasprm="0 0 -1"/>
  <velocity joint="c" kv="20" gear="3" forcerange="-2 2"/>
</actuator></mujoco>"""


def test_stiff_servos_of_files_move_as_in_mujoco():
    """Damping of 450 where steps that take it at their start bear 60; bounds of force and torque hold meanwhile."""
    target, steps = np.array([0.3, -1.0, 0.5, 0.2]), 60
    reference = mujoco.MjModel.from_xml_string(ARM)
    data, states = mujoco.MjData(reference), []
    data.ctrl[:] = target
    for _ in range(steps):
        mujoco.mj_step(reference, data)
        states.append(np.concatenate([data.qpos, data.qvel]))
    model, rest = jaxcfa.load_model(ARM), jnp.zeros(3)
    found = rollout(model, rest, rest, jnp.tile(target, (steps, 1)), 0.004, actuated=True)
    assert_close(jnp.concatenate([found.q, found.v], axis=1)[1:], jnp.array(states), rtol=1e-8)
    assert np.max(np.abs(found.tau[:, 1])) == 30
    assert np.max(np.abs(found.tau[:, 2])) == 6


@pytest.mark.parametrize("integrator", [RungeKutta4(), ImplicitMidpoint(), ExplicitEuler(), SemiImplicitEuler()])
def test_servos_are_springs_and_dampers(integrator):
    """Of joints they have the motion that the joints' own springs and dampers make, in every integrator."""
    springs = jaxcfa.chain(3)
    names = ["stiffness", "damping", "spring_reference"]
    values = [jnp.array([3.0, 2.0, 1.0]), jnp.array([0.3, 0.2, 0.1]), jnp.array([0.5, -0.5, 0.2])]
    springs = eqx.tree_at(lambda m: [getattr(m, name) for name in names], springs, values)
    servos = jaxcfa.add_servos(jaxcfa.chain(3), values[0])
    servos = eqx.tree_at(lambda m: m.actuators.bias, servos, servos.actuators.bias.at[:, 2].set(-values[1]))
    start, none = jnp.array([0.1, 0.2, -0.3]), jnp.zeros((10, 3))
    expected = rollout(springs, start, start, none, 1e-3, integrator=integrator)
    found = rollout(servos, start, start, none + values[2], 1e-3, integrator=integrator, actuated=True)
    assert_close((found.q, found.v), (expected.q, expected.v), rtol=1e-12)


@pytest.mark.parametrize("integrator", [SemiImplicitEuler(), RungeKutta4()])
def test_linearised_under_servos(integrator):
    """By differences, with all that acts; forces at their bounds do not damp."""
    model = jaxcfa.load_model(ARM)
    options = {"dt": 0.01, "integrator": integrator, "actuated": True, "limits": True}
    q, v, u = jnp.array([0.1, 0.2, 0.3]), jnp.array([0.2, -0.1, 0.4]), jnp.array([0.11, 0.19, 0.5, 0.6])

    def after(x):
        return jnp.concatenate(step(model, *jnp.split(x, [3, 6]), **options))

    x, h = jnp.concatenate([q, v, u]), 1e-6
    columns = jax.jit(jax.vmap(lambda d: (after(x + h * d) - after(x - h * d)) / (2 * h)))(jnp.eye(10))
    a, b = linearize(model, q, v, u, **options)
    assert_close(jnp.concatenate([a, b], axis=1), columns.T, rtol=1e-6)


def test_coupled_joints_are_stable_too():
    """A servo on a tendon over two joints, whose damping no step of an explicit kind would bear."""
    model = jaxcfa.load_model(
        """<mujoco><worldbody>
        <body><joint name="a" axis="0 1 0"/><geom type="sphere" size=".05" pos=".2 0 0"/></body>
        <body pos="0 1 0"><joint name="b" axis="0 1 0"/><geom type="sphere" size=".05" pos=".1 0 0"/></body>
        </worldbody>
        <tendon><fixed name="t"><joint joint="a" coef="1"/><joint joint="b" coef="-2"/></fixed></tendon>
        <actuator><velocity tendon="t" kv="50"/></actuator></mujoco>"""
    )
    rest = jnp.zeros(2)
    found = rollout(model, rest, rest, jnp.full((200, 1), 0.5), 0.01, actuated=True)
    assert found.status == 0
    np.testing.assert_allclose(found.v[-20:] @ jnp.array([1.0, -2.0]), 0.5, atol=0.02)


def test_what_runs_away_is_no_sound_motion():
    """Far beyond what a joint can do, before it is infinite."""
    model = jaxcfa.chain(1)
    fast = rollout(model, jnp.zeros(1), jnp.full(1, 1e8), jnp.zeros((3, 1)), 1e-3)
    assert fast.status == 16
    assert np.all(np.isfinite(fast.q))
    assert rollout(model, jnp.zeros(1), jnp.full(1, 1e6), jnp.zeros((3, 1)), 1e-3).status == 0

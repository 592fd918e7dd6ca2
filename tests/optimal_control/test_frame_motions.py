"""Poses and velocities of frames with derivatives in closed form: those of kinematics."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa.optimal_control._frame_motions import moving_frame, placed_frame
from mechanisms import mechanism, random_state


@pytest.mark.parametrize("name", ["humanoid-like", "mixed tree"])
def test_derivatives_are_those_of_kinematics(name):
    model = mechanism(name)
    state = random_state(model)
    (q, v), frame = state[:2], (*model.body_names, *model.frame_names)[-1]

    def entries(kinematics, dq, dv, longer):
        moved = eqx.tree_at(lambda m: m.placement.translation, model, model.placement.translation * longer)
        pose, twist = kinematics(moved, jaxcfa.integrate(model, q, dq), v + dv)
        return jnp.concatenate([pose.rotation.reshape(-1), pose.translation, twist])

    def recursive(model, q, v):
        return jaxcfa.frame_pose(model, q, frame), jaxcfa.frame_velocity(model, q, v, frame)

    def closed(model, q, v):
        motions = jaxcfa.body_motions(model, q, v)
        return placed_frame(frame, model, q, motions), moving_frame(frame, model, q, v, motions)

    @jax.jit
    def derivatives(dq, dv, along):
        def of(kinematics):
            value = jax.jacfwd(lambda *x: entries(kinematics, *x), (0, 1, 2))(dq, dv, jnp.ones(()))
            slope = jax.grad(lambda dq, dv: jnp.sum(jnp.sin(entries(kinematics, dq, dv, 1.0))), (0, 1))
            return value, jax.jvp(slope, (dq, dv), (along, along[::-1]))

        return of(closed), of(recursive)

    still = jnp.zeros(model.nv)
    assert_close(*derivatives(still, still, jnp.linspace(-1, 1, model.nv)))

"""Poses of frames with derivatives in closed form: those of forward kinematics."""

import equinox as eqx
import jax
import jax.numpy as jnp

import jaxcfa
from helpers import assert_close
from jaxcfa.optimal_control._frame_poses import placed_frame
from mechanisms import mechanism, random_state


def test_derivatives_are_those_of_forward_kinematics():
    model = mechanism("ball joints")
    q = random_state(model).q

    def entries(pose, dq, longer):
        moved = eqx.tree_at(lambda m: m.placement.translation, model, model.placement.translation * longer)
        found = pose(moved, jaxcfa.integrate(model, q, dq))
        return jnp.concatenate([found.rotation.reshape(-1), found.translation])

    def recursive(model, q):
        return jaxcfa.frame_pose(model, q, model.nb - 1)

    def closed(model, q):
        return placed_frame(model.nb - 1, model, q, jaxcfa.body_motions(model, q))

    @jax.jit
    def derivatives(dq, along):
        def of(pose):
            value = jax.jacfwd(lambda *x: entries(pose, *x), (0, 1))(dq, jnp.ones(()))
            slope = jax.grad(lambda dq: jnp.sum(jnp.sin(entries(pose, dq, 1.0))))
            return value, jax.jvp(slope, (dq,), (along,))

        return of(closed), of(recursive)

    assert_close(*derivatives(jnp.zeros(model.nv), jnp.linspace(-1, 1, model.nv)))

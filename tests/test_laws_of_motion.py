"""Frames and totals are derivatives of one another along a motion, on trees of all joint types."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa.spatial import rotation_exp
from mechanisms import mechanism, random_state


@functools.cache
def forest() -> jaxcfa.Model:
    """Two trees, gravity askew, and a frame that is turned against its body."""
    model = jaxcfa.combine([mechanism("mixed tree"), mechanism("humanoid-like")], ["mixed ", ""])
    turned, gravity = rotation_exp(jnp.array([[0.3, 1.0, -0.4]])), jnp.array([1.0, 2.0, -9.0])
    return eqx.tree_at(lambda m: (m.frame_placement.rotation, m.gravity), model, (turned, gravity))


FRAMES = ("hand", "limb0_1", 3, -1, "hand", "trunk", 7)
# In one tree (where one carries the other, and where neither does), in two trees, and the world.
REFERENCE = ("trunk", "hand", "hand", 5, -1, "hand", 2)


def angular_velocity(rotation, rate):
    spin = rate @ jnp.swapaxes(rotation, -1, -2)
    return jnp.stack([spin[..., 2, 1], spin[..., 0, 2], spin[..., 1, 0]], axis=-1)


def of_poses(poses, rates):
    return jnp.concatenate([angular_velocity(poses.rotation, rates.rotation), rates.translation], axis=-1)


def in_motion(q, v) -> dict:
    """What has a rate that is known by another function."""
    model, motions = forest(), jaxcfa.body_motions(forest(), q, v)
    return {
        "poses": jaxcfa.frame_pose(model, q, FRAMES, motions=motions),
        "relative": jaxcfa.relative_pose(model, q, FRAMES, REFERENCE, motions=motions),
        "velocity": jaxcfa.frame_velocity(model, q, v, FRAMES, motions=motions),
        "mass matrix": jaxcfa.mass_matrix(model, q, motions=motions),
        "momentum": jaxcfa.momentum(model, q, v, motions=motions),
        "center": jaxcfa.center_of_mass(model, q, motions=motions),
        "potential": jaxcfa.potential_energy(model, q, motions=motions),
    }


@functools.cache
def laws() -> dict[str, tuple]:
    """Both sides of every law, from one program."""
    model = forest()

    @jax.jit
    def run(q, v, qdd):
        def at(t):
            return in_motion(jaxcfa.integrate(model, q, v, t), v + t * qdd)

        x, rate = jax.jvp(at, (0.0,), (1.0,))
        known = {"motions": jaxcfa.body_motions(model, q, v)}
        world, local = (jaxcfa.jacobian(model, q, FRAMES, axes, **known) for axes in ("world", "local"))
        drift = [jaxcfa.jacobian_dot_v(model, q, v, FRAMES, axes, **known) for axes in ("world", "local")]
        acceleration = [jaxcfa.frame_acceleration(model, q, v, qdd, FRAMES, axes, **known) for axes in AXES]
        relative = jaxcfa.relative_velocity(model, q, v, FRAMES, REFERENCE, **known)
        wrenches = jnp.sin(jnp.arange(6.0 * len(FRAMES))).reshape(-1, 6)
        applied = [jaxcfa.wrench_at(model, q, FRAMES, wrenches, axes, **known) for axes in AXES]
        coriolis, gravity = jaxcfa.coriolis_matrix(model, q, v, **known), jaxcfa.gravity_forces(model, q, **known)
        skew = rate["mass matrix"] - 2 * coriolis
        matrix = jaxcfa.centroidal_momentum_matrix(model, q, **known)
        bias = jaxcfa.centroidal_momentum_bias(model, q, v, **known)
        masses, centers = jaxcfa.subtree_masses(model), jaxcfa.subtree_centers_of_mass(model, q, **known)
        first = np.flatnonzero(model.topology.parents < 0)
        turned = jnp.swapaxes(x["poses"].rotation, -1, -2)[:, None]
        in_frames = (turned @ x["velocity"].reshape(-1, 2, 3, 1)).reshape(-1, 6)
        reference = jaxcfa.frame_pose(model, q, REFERENCE, **known)
        return {
            "velocities": (x["velocity"], of_poses(x["poses"], rate["poses"])),
            "velocities in the frames' axes": (jaxcfa.frame_velocity(model, q, v, FRAMES, "local", **known), in_frames),
            "accelerations": (acceleration[0], rate["velocity"]),
            "Jacobians": ((world @ v, local @ v), (x["velocity"], in_frames)),
            "drift": ((world @ qdd + drift[0], local @ qdd + drift[1]), tuple(acceleration)),
            "relative poses": ((reference @ x["relative"]).as_matrix(), x["poses"].as_matrix()),
            "relative velocities": (relative, of_poses(x["relative"], rate["relative"])),
            "relative Jacobians": (jaxcfa.relative_jacobian(model, q, FRAMES, REFERENCE, **known) @ v, relative),
            "wrenches": (
                [jaxcfa.generalized_forces(model, q, x, **known) for x in applied],
                [jnp.einsum("mij,mi->j", jacobian, wrenches) for jacobian in (world, local)],
            ),
            "Coriolis forces": (coriolis @ v + gravity, jaxcfa.bias_forces(model, q, v, **known)),
            "skew symmetry": (skew, -skew.T),
            "gravity": (gravity @ v, rate["potential"]),
            "momentum": (matrix @ v, x["momentum"]),
            "rate of momentum": (matrix @ qdd + bias, rate["momentum"]),
            "velocity of the centre": (jaxcfa.center_of_mass_velocity(model, q, v, **known), rate["center"]),
            "Jacobian of the centre": (jaxcfa.center_of_mass_jacobian(model, q, **known) @ v, rate["center"]),
            "centres of subtrees": (masses[first] @ centers[first], x["center"] * jnp.sum(model.mass)),
        }

    return jax.device_get(run(*random_state(model)[:3]))


AXES = ("world", "local")
LAWS = (
    *("velocities", "velocities in the frames' axes", "accelerations", "Jacobians", "drift"),
    *("relative poses", "relative velocities", "relative Jacobians", "wrenches"),
    *("Coriolis forces", "skew symmetry", "gravity", "momentum", "rate of momentum"),
    *("velocity of the centre", "Jacobian of the centre", "centres of subtrees"),
)


@pytest.mark.parametrize("law", LAWS)
def test_law(law):
    assert_close(*laws()[law], 1e-12)


def test_all_laws_are_tested():
    assert set(LAWS) == set(laws())

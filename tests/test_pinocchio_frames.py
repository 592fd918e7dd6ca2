"""Frames and totals of an arm, a quadruped and a humanoid on floating bases, against Pinocchio."""

import jax
import jax.numpy as jnp
import numpy as np
import pinocchio as pin
import pytest

import jaxcfa
from helpers import cast
from mechanisms import random_state
from pinocchio_reference import Robots, without_others
from robots import urdf_path

pytestmark = [pytest.mark.filterwarnings("ignore::jaxcfa.io.ModelWarning"), pytest.mark.slow]

ROBOTS = ("panda.urdf", "anymal_c_simple_description/urdf/anymal.urdf", "talos_full_v2.urdf")
AXES = {"world": pin.LOCAL_WORLD_ALIGNED, "local": pin.LOCAL}


def names_of(model: jaxcfa.Model) -> list[str]:
    """A link that was merged, the last body and the one in the middle."""
    return [model.frame_names[-1], model.body_names[-1], model.body_names[model.nb // 2]]


def everything(both: Robots, model: jaxcfa.Model, q, v, qdd) -> dict[str, jax.Array]:
    """Of all robots side by side; totals of each by itself along a leading axis."""
    known = {"motions": jaxcfa.body_motions(model, q, v)}
    frames = [f"{number}: {name}" for number, x in enumerate(both.models) for name in names_of(x)]
    reference = [f"{number}: {x.body_names[0]}" for number, x in enumerate(both.models) for _ in names_of(x)]
    result = {
        "coriolis": jaxcfa.coriolis_matrix(model, q, v, **known),
        "gravity": jaxcfa.gravity_forces(model, q, **known),
        "subtree masses": jaxcfa.subtree_masses(model),
        "subtree centers": jaxcfa.subtree_centers_of_mass(model, q, **known),
        "relative pose": jaxcfa.relative_pose(model, q, frames, reference, **known).as_matrix(),
    }
    for axes in AXES:
        result |= {
            f"jacobian, {axes}": jaxcfa.jacobian(model, q, frames, axes, **known),
            f"velocity, {axes}": jaxcfa.frame_velocity(model, q, v, frames, axes, **known),
            f"acceleration, {axes}": jaxcfa.frame_acceleration(model, q, v, qdd, frames, axes, **known),
            f"drift, {axes}": jaxcfa.jacobian_dot_v(model, q, v, frames, axes, **known),
        }

    def totals(mask: jax.Array) -> dict[str, jax.Array]:
        alone = without_others(model, mask)
        return {
            "center jacobian": jaxcfa.center_of_mass_jacobian(alone, q),
            "center velocity": jaxcfa.center_of_mass_velocity(alone, q, v),
            "momentum matrix": jaxcfa.centroidal_momentum_matrix(alone, q),
            "momentum bias": jaxcfa.centroidal_momentum_bias(alone, q, v),
        }

    return result | jax.vmap(totals)(both.masks)


def of_robot(both: Robots, found: dict, number: int) -> dict[str, np.ndarray]:
    """What of everything belongs to one robot."""
    dof, body, frames = both.dofs[number], both.bodies[number], slice(3 * number, 3 * number + 3)
    result = {}
    for name, x in found.items():
        if name in ("center jacobian", "momentum matrix"):
            result[name] = x[number][:, dof]
        elif name in ("center velocity", "momentum bias"):
            result[name] = x[number]
        elif "subtree" in name:
            result[name] = x[body]
        elif name == "gravity":
            result[name] = x[dof]
        elif name == "coriolis":
            result[name] = x[dof, dof]
        else:
            result[name] = x[frames][..., dof] if "jacobian" in name else x[frames]
    return result


def rows(motion: pin.Motion) -> np.ndarray:
    return np.concatenate([motion.angular, motion.linear])


def angular_first(matrix: np.ndarray) -> np.ndarray:
    return np.concatenate([matrix[3:], matrix[:3]])


def by_pinocchio(pin_model: pin.Model, names, q, v, accelerations, turn, rate) -> dict[str, np.ndarray]:
    """Of one robot. `turn` maps velocities to Pinocchio's; `accelerations` are those of none and of some here."""
    data = pin_model.createData()
    drift, forced = accelerations
    pin.crba(pin_model, data, q)
    mass_matrix = np.triu(data.M) + np.triu(data.M, 1).T
    coriolis = pin.computeCoriolisMatrix(pin_model, data, q, v).copy()
    gravity = pin.computeGeneralizedGravity(pin_model, data, q).copy()
    pin.dccrba(pin_model, data, q, v)
    bias = angular_first(data.dAg @ v + data.Ag @ drift)
    result = {
        "coriolis": turn.T @ (mass_matrix @ rate + coriolis @ turn),
        "gravity": turn.T @ gravity,
        "momentum matrix": angular_first(data.Ag @ turn),
        "momentum bias": bias,
        "center jacobian": pin.jacobianCenterOfMass(pin_model, data, q) @ turn,
    }
    pin.centerOfMass(pin_model, data, q, v, True)
    joints = range(1, pin_model.njoints)
    result["center velocity"] = data.vcom[0].copy()
    result["subtree masses"] = np.array([data.mass[i] for i in joints])
    result["subtree centers"] = np.array([data.oMi[i].act(data.com[i]) for i in joints])
    pin.computeJointJacobians(pin_model, data, q)
    pin.updateFramePlacements(pin_model, data)
    frames = [pin_model.getFrameId(name, pin.FrameType.BODY) for name in names]
    result["relative pose"] = np.array([data.oMi[1].actInv(data.oMf[i]).homogeneous for i in frames])
    for axes, kind in AXES.items():
        jacobians = [angular_first(pin.getFrameJacobian(pin_model, data, i, kind)) @ turn for i in frames]
        result[f"jacobian, {axes}"] = np.array(jacobians)
        for name, acceleration in (("drift", drift), ("acceleration", forced)):
            pin.forwardKinematics(pin_model, data, q, v, acceleration)
            found = [rows(pin.getFrameClassicalAcceleration(pin_model, data, i, kind)) for i in frames]
            result[f"{name}, {axes}"] = np.array(found)
        result[f"velocity, {axes}"] = np.array([rows(pin.getFrameVelocity(pin_model, data, i, kind)) for i in frames])
    return result


def test_everything():
    """In double precision, and in single precision as good as that allows."""
    both = Robots.read(list(map(urdf_path, ROBOTS)), floating_base=True)
    q, v, qdd, _ = random_state(both.model)
    c = both.coordinates

    @jax.jit
    def conversions(q, v, qdd):
        turn, rate = jax.jvp(lambda t: c.velocity_map(jaxcfa.integrate(both.model, q, v, t)), (0.0,), (1.0,))
        return c.q_to(q), c.v_to(q, v), c.qdd_to(q, v, 0 * qdd), c.qdd_to(q, v, qdd), turn, rate

    q_pin, v_pin, drift, forced, turn, rate = jax.device_get(conversions(q, v, qdd))
    compiled = jax.jit(lambda *x: everything(both, *x))
    found = jax.device_get(compiled(both.model, q, v, qdd))
    rounded = jax.device_get(compiled(*cast((both.model, q, v, qdd), jnp.float32)))
    wrong = {}
    for number, (model, pin_model) in enumerate(zip(both.models, both.pin_models, strict=True)):
        dof, part = both.dofs[number], both.q_pin[number]
        motion = q_pin[part], v_pin[dof], (drift[dof], forced[dof])
        theirs = by_pinocchio(pin_model, names_of(model), *motion, turn[dof, dof], rate[dof, dof])
        for ours, allowed in ((found, 1e-9), (rounded, 2e-5)):
            own = of_robot(both, ours, number)
            assert own.keys() == theirs.keys()
            for name, expected in theirs.items():
                assert own[name].shape == expected.shape, name
                error = np.max(np.abs(own[name] - expected)) / max(1.0, np.max(np.abs(expected)))
                if not error < allowed:
                    wrong[ROBOTS[number], name, str(own[name].dtype)] = error
    assert not wrong

"""The same quantities from this package and from Pinocchio."""

import jax
import jax.numpy as jnp
import numpy as np
import pinocchio as pin
from jaxtyping import Array

import jaxcfa
from jaxcfa import Model

QUANTITIES = {
    "rotations": lambda model, q, v, qdd: jaxcfa.forward_kinematics(model, q).rotation,
    "positions": lambda model, q, v, qdd: jaxcfa.forward_kinematics(model, q).translation,
    "velocities": lambda model, q, v, qdd: jaxcfa.body_velocities(model, q, v),
    "accelerations": jaxcfa.body_accelerations,
    "jacobian": lambda model, q, v, qdd: jaxcfa.jacobian(model, q, model.nb - 1),
    "jacobian_dot_v": lambda model, q, v, qdd: jaxcfa.jacobian_dot_v(model, q, v, model.nb - 1),
    "mass matrix": lambda model, q, v, qdd: jaxcfa.mass_matrix(model, q),
    "bias forces": lambda model, q, v, qdd: jaxcfa.bias_forces(model, q, v),
    "inverse dynamics": jaxcfa.inverse_dynamics,
    "centre of mass": lambda model, q, v, qdd: jaxcfa.center_of_mass(model, q),
    "momentum": lambda model, q, v, qdd: jaxcfa.momentum(model, q, v),
    "kinetic energy": lambda model, q, v, qdd: jaxcfa.kinetic_energy(model, q, v),
    "potential energy": lambda model, q, v, qdd: jaxcfa.potential_energy(model, q),
}
# What fails if anything that depends on the type of the base is wrong, compiled in half the time.
ESSENTIAL = ("rotations", "positions", "mass matrix", "inverse dynamics", "centre of mass")


@jax.jit(static_argnames="names")
def quantities(names: tuple[str, ...], model: Model, q: Array, v: Array, qdd: Array) -> dict[str, Array]:
    """The named quantities by one program, so that a robot is compiled once. The last body stands for frames."""
    return {name: QUANTITIES[name](model, q, v, qdd) for name in names}


def pinocchio_quantities(pin_model, coordinates: jaxcfa.convert.Pinocchio, q, v, qdd) -> dict[str, np.ndarray]:
    """What Pinocchio computes, in this package's conventions."""
    data, last = pin_model.createData(), pin_model.njoints - 1
    q_pin, v_pin = np.asarray(coordinates.q_to(q)), np.asarray(coordinates.v_to(q, v))
    free, forced = (np.asarray(coordinates.qdd_to(q, v, x)) for x in (jnp.zeros_like(qdd), qdd))
    momentum = pin.computeCentroidalMomentum(pin_model, data, q_pin, v_pin)
    pin.computeJointJacobians(pin_model, data, q_pin)
    jacobian = pin.getJointJacobian(pin_model, data, last, pin.LOCAL_WORLD_ALIGNED)
    upper = np.triu(pin.crba(pin_model, data, q_pin))
    pin.forwardKinematics(pin_model, data, q_pin, v_pin, free)
    drift = _stacked(pin.getClassicalAcceleration(pin_model, data, last, pin.LOCAL_WORLD_ALIGNED))
    pin.forwardKinematics(pin_model, data, q_pin, v_pin, forced)
    bodies = range(1, pin_model.njoints)
    return {
        "rotations": np.array([data.oMi[i].rotation for i in bodies]),
        "positions": np.array([data.oMi[i].translation for i in bodies]),
        "velocities": _stacked(*(pin.getVelocity(pin_model, data, i, pin.LOCAL_WORLD_ALIGNED) for i in bodies)),
        "accelerations": _stacked(
            *(pin.getClassicalAcceleration(pin_model, data, i, pin.LOCAL_WORLD_ALIGNED) for i in bodies)
        ),
        "jacobian": coordinates.jacobian_from(q, jacobian),
        "jacobian_dot_v": drift[0],
        "mass matrix": coordinates.mass_matrix_from(q, upper + np.triu(upper, 1).T),
        "bias forces": coordinates.tau_from(q, pin.rnea(pin_model, data, q_pin, v_pin, free)),
        "inverse dynamics": coordinates.tau_from(q, pin.rnea(pin_model, data, q_pin, v_pin, forced)),
        "centre of mass": pin.centerOfMass(pin_model, data, q_pin),
        "momentum": _stacked(momentum)[0],
        "kinetic energy": np.array(pin.computeKineticEnergy(pin_model, data, q_pin, v_pin)),
        "potential energy": np.array(pin.computePotentialEnergy(pin_model, data, q_pin)),
    }


def pinocchio_forward_dynamics(pin_model, coordinates: jaxcfa.convert.Pinocchio, q, v, tau) -> Array:
    """Joint accelerations by Pinocchio's articulated-body algorithm, in this package's conventions."""
    arguments = coordinates.q_to(q), coordinates.v_to(q, v), coordinates.tau_to(q, tau)
    qdd = pin.aba(pin_model, pin_model.createData(), *map(np.asarray, arguments))
    return coordinates.qdd_from(q, v, jnp.asarray(qdd))


def _stacked(*motions) -> np.ndarray:
    """Motions or forces as rows, angular part first."""
    return np.array([np.concatenate([motion.angular, motion.linear]) for motion in motions])

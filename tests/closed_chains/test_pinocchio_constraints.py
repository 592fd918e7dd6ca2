"""Constrained forward dynamics of real robots against Pinocchio's proximal solver."""

import dataclasses
import functools
import itertools

import jax
import numpy as np
import pinocchio as pin
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa.closed_chains import connect, constrained_forward_dynamics, project_velocity, weld
from robots import urdf_path

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::jaxcfa.io.ModelWarning")]

# File, kind of constraint, and the frames that it holds; one frame is held by the world.
CASES = {
    "quadruped on point feet": (
        "anymal_c_simple_description/urdf/anymal.urdf",
        "CONTACT_3D",
        [("LF_FOOT",), ("RF_FOOT",), ("LH_FOOT",), ("RH_FOOT",)],
    ),
    "humanoid on flat feet": ("talos_reduced.urdf", "CONTACT_6D", [("left_sole_link",), ("right_sole_link",)]),
    "hands of a humanoid tied together": (
        "talos_reduced.urdf",
        "CONTACT_3D",
        [("gripper_left_base_link", "gripper_right_base_link"), ("left_sole_link",)],
    ),
}


@functools.cache
def robot(name):
    """The robot with its constraints, Pinocchio's model and a state, whose velocities do not fit yet."""
    file, kind, held_frames = CASES[name]
    path = urdf_path(file)
    model = jaxcfa.load_model(path, floating_base=True, dtype="float64")
    q = jaxcfa.random_configuration(model, jax.random.key(2))
    v, tau = np.asarray(jax.random.normal(jax.random.key(3), (2, model.nv)))
    # What is held by the world is held where it is.
    make = {"CONTACT_3D": connect, "CONTACT_6D": weld}[kind]
    pairs = [
        frames if len(frames) == 2 else ((-1, jaxcfa.frame_pose(model, q, *frames)), *frames) for frames in held_frames
    ]
    constraints = tuple(make(model, *pair) for pair in pairs)
    pin_model = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    return dataclasses.replace(model, constraints=constraints), pin_model, (q, v, tau)


@functools.cache
def ours():
    """Velocities that fit, and accelerations, of all robots by one program."""
    robots = [robot(name) for name in CASES]
    model = jaxcfa.combine([model for model, *_ in robots], [f"{name}: " for name in CASES])

    @jax.jit
    def run(model, q, v, tau):
        v = project_velocity(model, model.constraints, q, v)
        return v, constrained_forward_dynamics(model, model.constraints, q, v, tau)

    return run(model, *map(np.concatenate, zip(*(state for *_, state in robots), strict=True)))


def held(pin_model, pin_data, kind, frames):
    """The constraint in both packages. A point of the world is where the frame is now."""
    places = []
    for name in frames:
        frame = pin_model.frames[pin_model.getFrameId(name)]
        places.append((frame.parentJoint, frame.placement))
    if len(places) == 1:
        places.append((0, pin_data.oMf[pin_model.getFrameId(frames[0])]))
    (joint1, placement1), (joint2, placement2) = places
    return pin.RigidConstraintModel(
        getattr(pin.ContactType, kind),
        pin_model,
        joint1,
        placement1,
        joint2,
        placement2,
        pin.ReferenceFrame.LOCAL,
    )


@pytest.mark.parametrize("name", CASES)
def test_accelerations(name):
    _, kind, held_frames = CASES[name]
    model, pin_model, (q, _, tau) = robot(name)
    coordinates = jaxcfa.convert.Pinocchio(model, pin_model)
    all_v, found = ours()
    start = sum(robot(before)[0].nv for before in itertools.takewhile(name.__ne__, CASES))
    v, qdd = (x[start : start + model.nv] for x in (all_v, found.qdd))

    q_pin, v_pin = np.asarray(coordinates.q_to(q)), np.asarray(coordinates.v_to(q, v))
    data = pin_model.createData()
    pin.framesForwardKinematics(pin_model, data, q_pin)
    contacts, contact_data = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for frames in held_frames:
        contacts.append(held(pin_model, data, kind, frames))
        contact_data.append(contacts[-1].createData())
    settings = pin.ProximalSettings(1e-13, 1e-12, 100)
    pin.initConstraintDynamics(pin_model, data, contacts, contact_data)
    qdd_pin = pin.constraintDynamics(
        pin_model, data, q_pin, v_pin, np.asarray(coordinates.tau_to(q, tau)), contacts, contact_data, settings
    )
    assert found.residual < 1e-9
    assert_close(qdd, np.asarray(coordinates.qdd_from(q, v, qdd_pin)), 1e-8)

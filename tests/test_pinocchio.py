"""Kinematics and dynamics of real robots, against Pinocchio."""

import jax
import numpy as np
import pinocchio as pin
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa.model import massless_subtrees
from mechanisms import random_state
from pinocchio_reference import (
    ESSENTIAL,
    QUANTITIES,
    pinocchio_forward_dynamics,
    pinocchio_quantities,
    quantities,
)
from robots import HANDFUL, robot_id, robot_paths, urdf_path

pytestmark = pytest.mark.filterwarnings("ignore::jaxcfa.io.ModelWarning")


def check(path, floating_base: bool, names: tuple[str, ...] = tuple(QUANTITIES)) -> None:
    model = jaxcfa.load_model(path, floating_base=floating_base)
    if model.nv == 0:
        assert jaxcfa.inverse_dynamics(model, *[np.zeros(0)] * 3).shape == (0,)
        assert jaxcfa.forward_kinematics(model, np.zeros(0)).translation.shape == (0, 3)
        return
    pin_model = pin.buildModelFromUrdf(str(path), *([pin.JointModelFreeFlyer()] if floating_base else []))
    coordinates = jaxcfa.convert.Pinocchio(model, pin_model)
    q, v, qdd, _ = random_state(model)
    ours, theirs = quantities(names, model, q, v, qdd), pinocchio_quantities(pin_model, coordinates, q, v, qdd)
    for name in names:
        assert error(ours[name], theirs[name]) < 1e-9, name
    tau = ours["inverse dynamics"]
    if massless_subtrees(model):
        with pytest.raises(ValueError, match="no inertia"):
            jaxcfa.forward_dynamics(model, q, v, tau)
    else:
        forward = jax.jit(jaxcfa.forward_dynamics)
        # Where the mass matrix is badly conditioned both lose the same digits; compare what it makes of the result.
        accelerations = forward(model, q, v, tau), pinocchio_forward_dynamics(pin_model, coordinates, q, v, tau)
        assert error(accelerations[0], qdd) < 1e-9 or error(accelerations[1], qdd) > 1e-10
        assert error(*(ours["mass matrix"] @ x for x in accelerations)) < 1e-9


def error(actual, expected) -> float:
    """Largest difference, relative to the largest magnitude; some quantities vanish but for rounding."""
    expected = np.asarray(expected)
    return float(np.max(np.abs(np.asarray(actual) - expected)) / max(np.max(np.abs(expected)), 1e-6))


@pytest.mark.parametrize("floating_base", [False, True])
@pytest.mark.parametrize("name", HANDFUL)
def test_handful(name, floating_base):
    check(urdf_path(name), floating_base)


# Every file once, with a fixed and a floating base in turn: a program for each costs seconds.
_OTHERS = [path for path in robot_paths() if path not in map(urdf_path, HANDFUL)]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "path"), list(enumerate(_OTHERS)), ids=list(map(robot_id, _OTHERS)))
def test_all(number, path):
    floating_base = number % 2 == 1
    check(path, floating_base, ESSENTIAL if floating_base else tuple(QUANTITIES))


@pytest.mark.slow
@pytest.mark.parametrize("method", [jaxcfa.CFA(), jaxcfa.ABA("scan"), jaxcfa.JSI()], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("name", ["panda.urdf", "anymal_c_simple_description/urdf/anymal.urdf"])
def test_parallel_forward_dynamics(name, method):
    path = urdf_path(name)
    model, pin_model = (
        jaxcfa.load_model(path, floating_base=True),
        pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer()),
    )
    coordinates = jaxcfa.convert.Pinocchio(model, pin_model)
    q, v, tau, _ = random_state(model)
    forward = jax.jit(lambda *x: jaxcfa.forward_dynamics(model, *x, method=method))
    expected = pinocchio_forward_dynamics(pin_model, coordinates, q, v, tau)
    assert error(forward(q, v, tau), expected) < 1e-9


def test_frames(key):
    """Poses and Jacobians of links behind fixed joints."""
    path = urdf_path("panda.urdf")
    model, pin_model = jaxcfa.load_model(path), pin.buildModelFromUrdf(str(path))
    data, q = pin_model.createData(), jaxcfa.random_configuration(model, key)
    coordinates = jaxcfa.convert.Pinocchio(model, pin_model)
    pin.computeJointJacobians(pin_model, data, np.asarray(coordinates.q_to(q)))
    pin.updateFramePlacements(pin_model, data)
    for name in model.frame_names:
        frame = pin_model.getFrameId(name, pin.FrameType.BODY)
        pose = jaxcfa.frame_pose(model, q, name)
        assert_close(pose.translation, data.oMf[frame].translation, 1e-12)
        assert_close(pose.rotation, data.oMf[frame].rotation, 1e-12)
        expected = pin.getFrameJacobian(pin_model, data, frame, pin.LOCAL_WORLD_ALIGNED)
        assert_close(jaxcfa.jacobian(model, q, name), coordinates.jacobian_from(q, expected), 1e-12)

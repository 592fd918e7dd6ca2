"""Kinematics and dynamics of real robots, against Pinocchio."""

import jax
import numpy as np
import pinocchio as pin
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa.model import massless_subtrees
from mechanisms import random_state
from pinocchio_reference import Robots
from robots import robot_id, robot_paths, urdf_path

pytestmark = pytest.mark.filterwarnings("ignore::jaxcfa.io.ModelWarning")


def error(actual, expected, least=1e-6) -> float:
    """Largest difference, relative to the largest magnitude; some quantities vanish but for rounding."""
    return float(np.max(np.abs(actual - expected)) / max(np.max(np.abs(expected)), least))


def errors(ours: dict, theirs: dict, qdd, massless: bool) -> dict[str, float]:
    """The errors of one robot by quantity. Forward dynamics has none where moving bodies have no inertia."""
    # Of a free body it is a difference of accelerations of order one.
    least = {"jacobian_dot_v": 1e-2}
    compared = [name for name in theirs if name != "forward dynamics"]
    result = {name: error(ours[name], theirs[name], least.get(name, 1e-6)) for name in compared}
    if not massless:
        # Where the mass matrix is badly conditioned both lose the same digits; compare what it makes of the result.
        found, expected = ours["forward dynamics"], theirs["forward dynamics"]
        result["forward dynamics"] = error(ours["mass matrix"] @ found, ours["mass matrix"] @ expected)
        if error(expected, qdd) <= 1e-10:
            result["forward dynamics of inverse dynamics"] = error(found, qdd)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("floating_base", [False, True])
def test_every_robot(floating_base):
    """All as one forest, and so one program."""
    paths = [path for path in robot_paths() if floating_base or path not in IMMOBILE]
    both = Robots.read(paths, floating_base)
    q, v, qdd, _ = random_state(both.model)
    ours = both.quantities(q, v, qdd)
    tau = np.concatenate([own["inverse dynamics"] for own in ours])
    theirs = both.pinocchio_quantities(q, v, qdd, tau)
    wrong, singular = {}, []
    for path, model, dof, *pair in zip(paths, both.models, both.dofs, ours, theirs, strict=True):
        massless = bool(massless_subtrees(model))
        found = errors(*pair, np.asarray(qdd[dof]), massless)
        wrong |= {(robot_id(path), name): x for name, x in found.items() if not x < 1e-9}
        singular += [path] if massless else []
    assert not wrong
    assert singular == list(map(urdf_path, SINGULAR))


# With a fixed base nothing of these moves.
IMMOBILE = [urdf_path(name) for name in ("quadrotor_base.urdf", "iris_simple.urdf")]
# Moving links without any inertia.
SINGULAR = ("romeo.urdf", "romeo_laas_small.urdf")


@pytest.mark.parametrize("path", IMMOBILE, ids=robot_id)
def test_nothing_that_moves(path):
    model = jaxcfa.load_model(path)
    assert model.nv == 0
    assert jaxcfa.inverse_dynamics(model, *[np.zeros(0)] * 3).shape == (0,)
    assert jaxcfa.forward_kinematics(model, np.zeros(0)).translation.shape == (0, 3)


@pytest.mark.parametrize("name", SINGULAR)
def test_singular_mass_matrices_are_explained(name):
    model = jaxcfa.load_model(urdf_path(name))
    with pytest.raises(ValueError, match="no inertia"):
        jaxcfa.forward_dynamics(model, *[np.zeros(model.nv)] * 3)


@pytest.mark.parametrize("method", [jaxcfa.CFA(), jaxcfa.ABA("scan"), jaxcfa.JSI()], ids=lambda x: type(x).__name__)
def test_parallel_forward_dynamics(method):
    names = ("panda.urdf", "anymal_c_simple_description/urdf/anymal.urdf")
    both = Robots.read(list(map(urdf_path, names)), floating_base=True)
    q, v, tau, _ = random_state(both.model)
    found = np.asarray(jax.jit(lambda *x: jaxcfa.forward_dynamics(both.model, *x, method=method))(q, v, tau))
    theirs = both.pinocchio_quantities(q, v, 0 * v, tau)
    for name, dof, own in zip(names, both.dofs, theirs, strict=True):
        assert error(found[dof], own["forward dynamics"]) < 1e-9, name


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

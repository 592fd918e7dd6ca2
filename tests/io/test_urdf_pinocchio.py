"""Every number of a model read from URDF, against Pinocchio's reading of the same file."""

import jax
import numpy as np
import pytest

from jaxcfa.io import load_model, load_urdf
from jaxcfa.model import Model
from robots import HANDFUL, robot_id, robot_paths, urdf_path, urdf_paths

pin = pytest.importorskip("pinocchio")
pytestmark = pytest.mark.filterwarnings("ignore::jaxcfa.io.ModelWarning")


def pinocchio_model(path, floating_base: bool):
    return pin.buildModelFromUrdf(str(path), *([pin.JointModelFreeFlyer()] if floating_base else []))


def check(path, floating_base: bool) -> None:
    # Arrays of NumPy, of which single numbers are had a hundred times faster.
    ours, theirs = jax.tree.map(np.asarray, load_urdf(path, floating_base)), pinocchio_model(path, floating_base)
    check_structure(ours, theirs)
    check_bodies(ours, theirs)
    check_joints(ours, theirs)
    check_links(ours, theirs)


def check_structure(ours: Model, theirs) -> None:
    assert list(ours.joint_names) == list(theirs.names)[1:]
    np.testing.assert_array_equal(ours.topology.parents, np.array(theirs.parents, dtype=int)[1:] - 1)
    assert ours.nv == theirs.nv
    # Pinocchio has cosine and sine for an angle without limits.
    unlimited = sum(joint.nq != joint.nv for joint in theirs.joints[1:] if joint.nv == 1)
    assert ours.nq == theirs.nq - unlimited


def check_bodies(ours: Model, theirs) -> None:
    inertias = list(theirs.inertias)[1:]
    np.testing.assert_allclose(ours.mass, np.array([body.mass for body in inertias]), rtol=1e-12)
    for i, body in enumerate(inertias):
        if body.mass > 0:
            np.testing.assert_allclose(ours.com[i], body.lever, rtol=0, atol=1e-12)
        scale = max(1.0, np.max(np.abs(body.inertia)))
        np.testing.assert_allclose(ours.inertia[i], body.inertia, rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(ours.gravity, theirs.gravity.linear)


def check_joints(ours: Model, theirs) -> None:
    data = theirs.createData()
    pin.computeJointJacobians(theirs, data, pin.neutral(theirs))
    for i, joint in enumerate(theirs.joints[1:]):
        placement = theirs.jointPlacements[i + 1]
        np.testing.assert_allclose(ours.placement.rotation[i], placement.rotation, rtol=0, atol=1e-12)
        np.testing.assert_allclose(ours.placement.translation[i], placement.translation, rtol=0, atol=1e-12)
        if joint.nv == 1:
            q, v = ours.q_slice(i), ours.v_slice(i)
            subspace = pin.getJointJacobian(theirs, data, i + 1, pin.LOCAL)[:, joint.idx_v]
            np.testing.assert_allclose(axis_of(ours, i), np.roll(subspace, 3), rtol=0, atol=1e-12)
            if joint.nq == 1:
                assert ours.limits.lower[q] == theirs.lowerPositionLimit[joint.idx_q]
                assert ours.limits.upper[q] == theirs.upperPositionLimit[joint.idx_q]
            else:
                assert ours.limits.lower[q] == -np.inf
                assert ours.limits.upper[q] == np.inf
            assert ours.limits.velocity[v] == theirs.velocityLimit[joint.idx_v]
            assert ours.limits.effort[v] == theirs.effortLimit[joint.idx_v]
            assert ours.damping[v] == theirs.damping[joint.idx_v]
            assert ours.friction_loss[v] == theirs.friction[joint.idx_v]


def axis_of(model: Model, body: int) -> np.ndarray:
    """Motion subspace of a joint with one degree of freedom, angular part first."""
    for joints, group in zip(model.joints, model.topology.groups, strict=True):
        for i in np.flatnonzero(group.bodies == body):
            angular = type(joints).__name__ == "Revolute"
            axis, zero = np.asarray(joints.axis[i]), np.zeros(3)
            return np.concatenate([axis, zero] if angular else [zero, axis])
    raise AssertionError(body)


def check_links(ours: Model, theirs) -> None:
    links = [frame for frame in theirs.frames if frame.type == pin.FrameType.BODY]
    assert {link.name for link in links} == {*ours.body_names, *ours.frame_names}
    for link in links:
        body, placement = ours.locate(link.name)
        assert body == link.parentJoint - 1
        np.testing.assert_allclose(placement.rotation, link.placement.rotation, rtol=0, atol=1e-12)
        np.testing.assert_allclose(placement.translation, link.placement.translation, rtol=0, atol=1e-12)


BASES = pytest.mark.parametrize("floating_base", [False, True], ids=["fixed", "floating"])


@BASES
@pytest.mark.parametrize("name", HANDFUL)
def test_model_is_that_of_pinocchio(name, floating_base):
    check(urdf_path(name), floating_base)


@pytest.mark.slow
@BASES
@pytest.mark.parametrize("path", robot_paths(), ids=robot_id)
def test_every_model_is_that_of_pinocchio(path, floating_base):
    check(path, floating_base)


@pytest.mark.slow
def test_only_one_file_is_refused():
    refused = {path for path in urdf_paths() if not loads(path)}
    assert {robot_id(path) for path in refused} == {"ur_description/urdf/ur3"}
    assert len(urdf_paths()) == 69


def loads(path) -> bool:
    try:
        load_model(path)
    except ValueError:
        return False
    return True

"""Chains and random trees."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import assert_close
from jaxcfa import forward_kinematics, neutral, passive_forces
from jaxcfa.joints import AbstractJoint, Anchored, Free, Helical, Prismatic, Revolute, Spherical
from jaxcfa.model import chain, inertia_problems, random_tree


def test_chain_is_straight():
    model = chain(4, length=0.5, mass=2.0, radius=0.1, armature=0.3, damping=0.4, gravity=(0, 1, 0), dtype="float32")
    assert (model.nb, model.nq, model.nv, model.dtype) == (4, 4, 4, jnp.float32)
    assert model.body_names == ("link0", "link1", "link2", "link3")
    assert model.joint_names == ("joint0", "joint1", "joint2", "joint3")
    positions = forward_kinematics(model, neutral(model)).translation
    assert_close(positions, np.outer(np.arange(4), [0.5, 0, 0]))
    body, tip = model.locate("tip")
    assert (body, tip.translation.tolist()) == (3, [0.5, 0, 0])
    assert model.mass.tolist() == 4 * [2.0]
    assert_close(model.armature, np.full(4, 0.3))
    assert_close(model.damping, np.full(4, 0.4))
    assert model.gravity.tolist() == [0, 1, 0]


def test_links_are_cylinders():
    """Against the integral over a solid cylinder, by quadrature."""
    length, radius, mass = 0.4, 0.15, 3.0
    model = chain(1, length=length, radius=radius, mass=mass)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    along, across = length / 2 * nodes, radius / 2 * (nodes + 1)
    # The mean of x^2 over the length, and of r^2 over the disc.
    xx = weights @ along**2 / 2
    rr = weights @ across**3 / (weights @ across)
    expected = mass * np.diag([rr, xx + rr / 2, xx + rr / 2])
    assert_close(model.inertia[0], expected, 1e-14)
    assert model.com[0].tolist() == [length / 2, 0, 0]
    assert_close(chain(1, length=length, mass=mass).inertia, chain(1, length=length, mass=mass, radius=0.04).inertia)


@pytest.mark.parametrize(("n", "nq", "nv"), [(1, 7, 6), (3, 9, 8)])
def test_chain_with_floating_base(n, nq, nv):
    model = chain(n, floating_base=True)
    assert (model.nb, model.nq, model.nv) == (n, nq, nv)
    assert isinstance(model.joints[0], Free)


def test_chain_with_other_joints():
    axes = np.array([[0, 0, 2.0], [0, 1.0, 0], [3.0, 0, 4.0]])
    (joint,) = chain(3, Prismatic((1.0, 0.0, 0.0)), axes=axes).joints
    assert isinstance(joint, Prismatic)
    assert_close(joint.axis, axes / np.linalg.norm(axes, axis=1, keepdims=True), 1e-15)
    assert chain(3, Spherical()).nq == 12
    revolute = chain(3, floating_base=True, axes=axes).joints[1]
    assert_close(revolute.axis, np.array([[0, 1, 0], [0.6, 0, 0.8]]), 1e-15)


def test_springs_are_at_rest_in_the_neutral_configuration():
    """Quaternions too, or else simulations would begin with NaN."""
    model = random_tree(5, jax.random.key(0), [Spherical, Revolute], floating_base=True)
    assert np.array_equal(model.spring_reference, neutral(model))
    assert np.array_equal(passive_forces(model, neutral(model), np.zeros(model.nv)), np.zeros(model.nv))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n must be a positive integer, got 0"),
        ({"n": 2, "joint": Spherical(), "axes": np.ones((2, 3))}, "Spherical has no field `axis`"),
        ({"n": 2, "axes": np.ones(3)}, r"axes must have shape \(2, 3\), got \(3,\)"),
        ({"n": 2, "axes": np.eye(3)[:2] * [[1], [0]]}, "finite and not zero"),
        ({"n": 1, "axes": np.array([[0, np.nan, 1]])}, "finite and not zero"),
        ({"n": 1, "dtype": int}, "floating-point type"),
        ({"n": 2, "axes": "z"}, "axes must be a known number or an array of such, got 'z'"),
        ({"n": 1, "mass": -1.0}, "mass of a rod must not be negative, got -1.0"),
        ({"n": 2, "damping": np.ones(3)}, r"damping of the joints must be one number or have shape \(2,\), got \(3,\)"),
    ],
)
def test_senseless_chains_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        chain(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dtype": 1.5}, "floating-point type, got 1.5. Write jnp.float32"),
        ({"gravity": -9.81}, r"gravity must have shape \(3,\), got \(\)"),
        ({"gravity": (0, 0, np.nan)}, "gravity must be finite"),
        ({"armature": np.nan}, "armature of the joints must not be NaN"),
        ({"armature": (0.1, -0.1)}, "armature of the joints must not be negative"),
        ({"armature": np.ones(3)}, r"armature of the joints must be one number or have shape \(2,\), got \(3,\)"),
    ],
)
def test_senseless_options_of_mechanisms_are_refused(arguments, message):
    for make in (chain, lambda n, **more: random_tree(n, jax.random.key(0), [Revolute], **more)):
        with pytest.raises(ValueError, match=message):
            make(2, **arguments)


@pytest.mark.parametrize("make", [chain, lambda n: random_tree(n, jax.random.key(0))], ids=["chain", "random_tree"])
def test_size_is_linear_in_the_number_of_bodies(make):
    n = 100_000
    model = make(n)
    assert model.nb == n
    # Nothing has two axes over bodies, and all together is some hundred numbers for each.
    assert sum(leaf.size for leaf in jax.tree.leaves(model)) < 100 * n
    assert model.topology.schedule.depths.max() <= n
    first, last = model.topology.intervals
    assert (first.shape, last.shape) == ((n,), (n,))
    assert model.topology.schedule.registers <= 1 + np.log2(n)


def leaves_equal(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def test_random_trees_repeat_by_key():
    model, again, other = (random_tree(30, jax.random.key(seed)) for seed in (5, 5, 6))
    assert model.topology == again.topology
    assert leaves_equal(model, again)
    assert model.topology != other.topology
    assert not np.array_equal(model.mass, other.mass)


def test_random_trees_are_those_of_rigid_bodies(key):
    model = random_tree(200, key)
    assert inertia_problems(model) == []
    assert np.all(np.asarray(model.mass) > 0)
    rotations = np.asarray(model.placement.rotation)
    assert_close(rotations @ rotations.transpose(0, 2, 1), np.broadcast_to(np.eye(3), (200, 3, 3)), 1e-14)
    assert_close(np.linalg.det(rotations), np.ones(200), 1e-14)
    assert {type(joint).__name__ for joint in model.joints} == {
        *("Revolute", "Prismatic", "Helical", "Cylindrical", "Universal", "Planar", "Spherical")
    }


@pytest.mark.parametrize(("branching", "roots"), [(0.0, 1), (0.5, 3), (1.0, 1), (1.0, 20)])
def test_shape_of_random_trees(key, branching, roots):
    n = 20 if roots == 20 else 300
    model = random_tree(n, key, [Revolute], branching=branching, roots=roots)
    parents, depth = model.topology.parents, model.topology.schedule.depths.max()
    assert np.sum(parents < 0) == roots
    if branching == 0:
        assert np.array_equal(parents, np.arange(n) - 1)
    elif branching == 1:
        # A random recursive tree has a depth of about e ln n.
        assert depth <= 2 * np.e * np.log(n)
    else:
        assert np.e * np.log(n) < depth < n / 2


def test_options_of_random_trees(key):
    instance = Helical((0.0, 0.0, 1.0), 0.7)
    options = {"floating_base": True, "armature": 0.2, "gravity": (1, 2, 3), "dtype": "float32"}
    model = random_tree(12, key, [instance, Spherical], **options)
    assert [type(joint) for joint in model.joints] == [Free, Helical, Spherical]
    assert np.all(np.asarray(model.joints[1].axis) == (0, 0, 1))
    assert_close(model.joints[1].pitch, np.full(len(model.topology.group_bodies[1]), 0.7))
    assert_close(model.armature, np.full(model.nv, 0.2))
    assert (model.dtype, model.gravity.tolist()) == (jnp.float32, [1, 2, 3])
    assert model.body_names == tuple(f"body{i}" for i in range(12))


def test_random_axes_of_one_joint_are_perpendicular(key):
    """So that no universal joint is singular at zero."""
    model = random_tree(40, key)
    (universal,) = (joint for joint in model.joints if type(joint).__name__ == "Universal")
    products = np.sum(np.asarray(universal.axis1) * np.asarray(universal.axis2), axis=1)
    assert_close(products, np.zeros(len(products)), 1e-14)
    assert_close(np.linalg.norm(universal.axis1, axis=1), np.ones(len(products)), 1e-14)


class Unknown(AbstractJoint):
    """Abstract still, so that there can be no example of it."""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n must be a positive integer, got 0"),
        ({"n": 2.0}, r"n must be a positive integer, got 2\.0"),
        ({"key": 0}, "key must be a random key"),
        ({"branching": 1.5}, "probability between 0 and 1, got 1.5"),
        ({"branching": -0.1}, "probability"),
        ({"roots": 0}, "roots must be between 1 and the number of bodies 3, got 0"),
        ({"roots": 4}, "roots must be"),
        ({"joint_types": []}, "at least one joint type"),
        (
            {"joint_types": [Revolute, Anchored]},
            "No example of joint type .*Anchored.* pass an instance, or one of Cyl",
        ),
        ({"joint_types": [Unknown]}, "No example of joint type"),
    ],
)
def test_senseless_trees_are_refused(arguments, message, key):
    with pytest.raises(ValueError, match=message):
        random_tree(**({"n": 3, "key": key} | arguments))

"""Joint types: the laws of the interface, their parameters, and types of a user's own."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from helpers import assert_close
from jaxcfa.configuration import random_configuration
from jaxcfa.dynamics import (
    coriolis_matrix,
    forward_dynamics,
    inverse_dynamics,
    inverse_dynamics_derivatives,
    mass_matrix,
)
from jaxcfa.joints import (
    AbstractJoint,
    AbstractVectorJoint,
    Anchored,
    Composite,
    Cylindrical,
    Fixed,
    Free,
    Helical,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Universal,
    check_joint,
)
from jaxcfa.kinematics import forward_kinematics
from jaxcfa.model import ModelBuilder, lock_joints
from jaxcfa.spatial import Transform, axis_angle_to_matrix, quaternion_to_matrix

JOINTS = {
    "revolute": Revolute((1.0, 2.0, -3.0)),
    "prismatic": Prismatic((0.0, -2.0, 1.0)),
    "helical": Helical((0.3, 0.1, 1.0), 0.2),
    "cylindrical": Cylindrical((0.0, 1.0, 1.0)),
    "universal": Universal((1.0, 0.0, 0.0), (0.0, 1.0, 0.5)),
    "planar": Planar((1.0, 1.0, 0.0), (0.0, 1.0, 2.0)),
    "spherical": Spherical(),
    "free": Free(),
    "fixed": Fixed(),
    "anchored": Anchored(Universal((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)), (0.1, -0.2, 0.3)),
    "anchored ball": Anchored(Spherical(), (0.1, -0.2, 0.3)),
    "composite": Composite(
        (Prismatic((1.0, 0.0, 0.0)), Anchored(Revolute((0.0, 1.0, 0.2)), (0.3, 0.0, 0.1)), Spherical())
    ),
}


@pytest.mark.parametrize("name", JOINTS)
def test_laws(name, key):
    check_joint(JOINTS[name], key)


def test_derivatives_are_finite_at_the_zero_configuration():
    """Of all joints in one program."""

    def everything(joint, q, v):
        pose = joint.transform(q)
        reached = joint.integrate(q, v)
        parts = pose.rotation, pose.translation, joint.motion_subspace(q), joint.bias(q, v), reached
        return [*parts, joint.difference(q, q), joint.difference(q, joint.integrate(q, 0 * v))]

    def derivatives(joint):
        q, v = joint.neutral(), jnp.ones(joint.nv)
        outputs, forward = jax.linearize(lambda q, v: everything(joint, q, v), q, v)
        transposed = jax.linear_transpose(forward, q, v)
        return forward(jnp.ones_like(q), v), transposed(jax.tree.map(jnp.ones_like, outputs))

    of_all = jax.jit(lambda joints: {name: derivatives(joint) for name, joint in joints.items()})
    for name, found in of_all(jax.tree.map(jnp.asarray, JOINTS)).items():
        assert all(np.all(np.isfinite(derivative)) for derivative in jax.tree.leaves(found)), name


@pytest.mark.parametrize("name", JOINTS)
def test_quaternions_are_where_the_joint_says(name):
    """At zero configurations have no orientation there, and only there."""
    joint = jax.tree.map(jnp.asarray, JOINTS[name])
    q = np.zeros(joint.nq)
    assert bool(joint.quaternions) != bool(np.all(np.isfinite(joint.transform(jnp.asarray(q)).rotation)))
    for start in joint.quaternions:
        q[start] = 1.0
    assert np.array_equal(joint.neutral(), q)


def test_difference_is_the_shortest_way():
    joint = Spherical()
    turned = joint.integrate(joint.neutral(), jnp.array([0.0, 0.0, 1.5 * jnp.pi]))
    assert_close(joint.difference(joint.neutral(), turned), jnp.array([0.0, 0.0, -0.5 * jnp.pi]))


def test_quaternions_stay_normalised(key):
    joint = Free()
    q, _ = jax.lax.scan(lambda q, v: (joint.integrate(q, v), None), joint.neutral(), jax.random.normal(key, (50, 6)))
    assert_close(jnp.linalg.norm(q[3:]), jnp.array(1.0), 1e-14)


def test_random_configurations_keep_to_the_limits(key):
    lower, upper = jnp.array([-0.5, -jnp.inf, 2.0]), jnp.array([0.5, -7.0, jnp.inf])
    q = jax.vmap(lambda k: Planar().random(k, lower, upper))(jax.random.split(key, 200))
    assert jnp.all((q >= lower) & (q <= upper))
    assert jnp.all(jnp.ptp(q, axis=0) > 0.5)


def test_enormous_limits_are_none(dtype, key):
    """Their difference would overflow."""
    largest = 0.9 * jnp.finfo(dtype).max
    q = Planar().random(key, jnp.array([-largest, -largest, 2.0], dtype), jnp.array([largest, 1.0, largest], dtype))
    assert jnp.all(jnp.abs(q) < 7)
    assert q[1] <= 1
    assert q[2] >= 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Revolute((0, 0, 0)), "must not be zero"),
        (lambda: Prismatic((0, np.nan, 1)), "must be finite"),
        (lambda: Helical((0, 1), 0.1), r"axis of a joint must have shape \(3,\), got \(2,\)"),
        (lambda: Revolute("z"), "axis of a joint must be a known number or an array of such, got 'z'"),
        (lambda: Helical((0, 0, 1), np.nan), "pitch of a helical joint must be finite, got nan"),
        (lambda: Helical((0, 0, 1), (0, 0, 1)), r"pitch of a helical joint must have shape \(\), got \(3,\)"),
        (lambda: Anchored(Revolute((0, 0, 1)), 0.1), r"anchor of a joint must have shape \(3,\), got \(\)"),
        (lambda: Anchored(Revolute((0, 0, 1)), (0, 0, np.inf)), "anchor of a joint must be finite"),
        (lambda: Anchored(Spherical, (0, 0, 1)), r"joint must be .* Write Spherical\(\)"),
        (lambda: Composite((Spherical,)), r"joints must be .* Write Spherical\(\)"),
        (lambda: Composite(Spherical()), "joints must be a sequence of joints, got Spherical"),
        (lambda: Planar((0, 0, 1), (0, 0, 2)), "along its normal"),
        (lambda: Universal((0, 0, 1), (0, 0, -1)), "parallel"),
        (lambda: Composite(()), "at least one"),
    ],
)
def test_senseless_parameters_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_joints_in_a_list_are_those_in_a_tuple():
    parts = [Prismatic((1, 0, 0)), Spherical()]
    assert Composite(parts).joints == tuple(parts)


class Cam(AbstractJoint):
    """A user's own joint: the body slides along x with the square of its angle about z."""

    rise: Array = eqx.field(converter=np.asarray)
    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1

    def transform(self, q):
        half = jnp.concatenate([jnp.cos(q / 2), jnp.zeros_like(q), jnp.zeros_like(q), jnp.sin(q / 2)])
        return Transform(quaternion_to_matrix(half), jnp.stack([self.rise * q[0] ** 2, 0 * q[0], 0 * q[0]]))

    def motion_subspace(self, q):
        c, s, slope = jnp.cos(q[0]), jnp.sin(q[0]), 2 * self.rise * q[0]
        zero = jnp.zeros_like(c)
        return jnp.stack([zero, zero, jnp.ones_like(c), slope * c, -slope * s, zero])[:, None]

    def bias(self, q, v):
        return jax.jvp(lambda x: self.motion_subspace(x)[:, 0] * v[0], (q,), (v,))[1]

    def integrate(self, q, dv):
        return q + dv

    def difference(self, q0, q1):
        return q1 - q0

    def neutral(self):
        return jnp.zeros(1)

    def random(self, key, lower, upper):
        return jax.random.uniform(key, (1,), lower.dtype, -1.0, 1.0)


def test_own_joint_type(key):
    check_joint(Cam(0.3), key)
    builder = ModelBuilder()
    for i, joint in enumerate([Cam(0.3), Revolute((1, 0, 0)), Cam(-0.1)]):
        builder.add_body(f"b{i}", i - 1 if i else None, joint, (0.1, 0.2, 0.3), mass=1, com=(0.1, 0, 0.2), inertia=0.1)
    model = builder.build()
    q, v, qdd = jax.random.normal(key, (3, model.nv))

    @jax.jit
    def run(model, q, v, qdd):
        tau, bias = inverse_dynamics(model, q, v, qdd), inverse_dynamics(model, q, v, 0 * qdd)
        gradient = jax.grad(lambda m: inverse_dynamics(m, q, v, qdd).sum())(model)
        again = forward_dynamics(model, q, v, tau)
        return tau - bias, again, mass_matrix(model, q) @ qdd, gradient.joints[0].rise

    inertial, again, product, slope = run(model, q, v, qdd)
    assert_close(again, qdd)
    assert_close(product, inertial)
    assert jnp.isfinite(slope).all()


class Hinge(AbstractVectorJoint):
    """A user's own joint about z, whose constants are of another type than the coordinates."""

    constant: str = eqx.field(static=True)
    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1

    def transform(self, q):
        axis = jnp.array([0.0, 0.0, 1.0], "float64")
        return Transform(axis_angle_to_matrix(axis, q[0]), jnp.zeros(3, self.constant))

    def motion_subspace(self, q):
        return jnp.array([[0, 0, 1, 0, 0, 0]], self.constant).T

    def bias(self, q, v):
        return jnp.zeros(6, self.constant)

    def random(self, key, lower, upper):
        return jax.random.uniform(key, (1,), "float64", -1, 1)


@pytest.mark.parametrize("around", [lambda x: x, lambda x: Composite([x]), lambda x: Anchored(x, (0, 0, 0))])
def test_results_have_the_type_of_the_coordinates(around):
    def built(joint):
        builder = ModelBuilder()
        builder.add_body("a", None, joint, mass=1, com=(1, 0, 0), inertia=0.1)
        builder.add_body("b", "a", Revolute((0, 1, 0)), (1, 0, 0), mass=1, com=(1, 0, 0), inertia=0.1)
        return builder.build(dtype="float32", gravity=(0, 1, 0))

    model, expected = built(around(Hinge("float64"))), built(Revolute((0, 0, 1)))
    q = jnp.array([0.3, 0.4], "float32")
    for function in (forward_dynamics, inverse_dynamics, jax.jacfwd(inverse_dynamics, 1), inverse_dynamics_derivatives):
        for result, wanted in zip(*(jax.tree.leaves(function(x, q, q, q)) for x in (model, expected)), strict=True):
            assert result.dtype == jnp.float32
            assert_close(result, wanted, 1e-5)
    assert_close(coriolis_matrix(model, q, q), coriolis_matrix(expected, q, q), 1e-5)
    assert lock_joints(model, ["b_joint"], q).placement.translation.dtype == jnp.float32
    assert random_configuration(model, jax.random.key(0)).dtype == jnp.float32


def test_check_joint_finds_integers(key):
    check_joint(Hinge("float32"), key)
    with pytest.raises(ValueError, match=r"Hinge\.motion_subspace must return floating-point numbers, got int32"):
        check_joint(Hinge("int32"), key)


class Wrong(Cam):
    """Its bias forgets a term."""

    def bias(self, q, v):
        return jnp.zeros(6)


def test_check_joint_finds_a_broken_law(key):
    with pytest.raises(ValueError, match="bias"):
        check_joint(Wrong(0.3), key)


class Mirrored(Revolute):
    """Its axes are left-handed, and turn as they should."""

    def transform(self, q):
        pose = super().transform(q)
        return Transform(-pose.rotation, pose.translation)


def test_check_joint_finds_mirrors(key):
    with pytest.raises(ValueError, match="must not mirror"):
        check_joint(Mirrored((0.0, 0.0, 1.0)), key)


class Misplaced(Revolute):
    """It says where it is in two ways."""

    def placed(self, placement, q):
        return super().placed(placement, 2 * q)


def test_check_joint_finds_a_place_of_its_own(key):
    with pytest.raises(ValueError, match="placed"):
        check_joint(Misplaced((0.0, 0.0, 1.0)), key)


class Geared(Revolute):
    """Turns three times as far as it is told."""

    def transform(self, q):
        return super().transform(3 * q)

    def motion_subspace(self, q):
        return 3 * super().motion_subspace(q)


def test_types_that_replace_transform_are_placed_by_it(key):
    joint = Geared((0.0, 0.6, 0.8))
    check_joint(joint, key)
    builder = ModelBuilder()
    builder.add_body("wheel", joint=joint, mass=1.0, com=(0.1, 0, 0), inertia=0.01)
    rotation = forward_kinematics(builder.build(), [0.2]).rotation[0]
    assert_close(rotation, joint.transform(jnp.array([0.2])).rotation)


class Reckless(Spherical):
    """Its velocities are half of what they are."""

    def velocity(self, q, q_dot):
        return super().velocity(q, q_dot) / 2


def test_check_joint_finds_velocities_of_its_own(key):
    with pytest.raises(ValueError, match="velocity"):
        check_joint(Reckless(), key)


class Counted(Spherical):
    """Displacements in half turns."""

    def integrate(self, q, dv):
        return super().integrate(q, jnp.pi * dv)

    def difference(self, q0, q1):
        return super().difference(q0, q1) / jnp.pi

    def motion_subspace(self, q):
        return jnp.pi * super().motion_subspace(q)


def test_types_that_replace_difference_have_their_own_velocity(key):
    check_joint(Counted(), key)


class Askew(Cam):
    """Its axes turn, which it denies."""

    has_fixed_axes = True


def test_check_joint_finds_axes_that_turn(key):
    with pytest.raises(ValueError, match="constant"):
        check_joint(Askew(0.3), key)

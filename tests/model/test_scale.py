"""Geometrically similar models."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa import ModelBuilder, closed_chains, scale
from jaxcfa.joints import (
    AbstractJoint,
    Anchored,
    Composite,
    Cylindrical,
    Free,
    Helical,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Universal,
)
from jaxcfa.model import AbstractFrameConstraint, JointCoupling, Keyframes
from mechanisms import random_state

LENGTH, DENSITY = 1.7, 0.6


def with_keyframe(model):
    """The model with a random state as a keyframe, by which the test knows the similar state too."""
    x = random_state(model)
    return dataclasses.replace(
        model, keyframes=Keyframes(("pose",), x.q[None], x.v[None], jnp.zeros((1, len(model.actuators.names))))
    )


def everything():
    """Joints of all types, in one body."""
    builder = ModelBuilder()
    body = {"mass": 1.0, "com": (0.1, 0.0, 0.2), "inertia": (0.3, 0.2, 0.4)}
    parts = Prismatic((0, 1, 0)), Cylindrical((1, 0, 0)), Planar(), Universal((1, 0, 0), (0, 1, 0)), Revolute((0, 0, 1))
    joint = Composite((*parts, Free(), Spherical(), Anchored(Helical((1, 0, 0), 0.3), (0.1, 0.2, 0.3))))
    builder.add_body("hand", None, joint, (0.1, 0.2, 0.3), upper=[0.4, *(joint.nq - 1) * [np.inf]], **body)
    builder.add_frame("eye", "hand", (0.1, 0.0, 0.5))
    model = builder.build()
    return with_keyframe(eqx.tree_at(lambda m: m.spring_reference, model, jnp.ones(model.nq)))


@pytest.mark.slow
def test_states_are_similar():
    """Poses, velocities and energies of similar states, with joints of all types; and derivatives by the length."""

    def quantities(model, length, density):
        model = scale(model, length, density)
        q, v = model.keyframes.q[0], model.keyframes.v[0]
        motions = jaxcfa.body_motions(model, q, v)
        pose = jaxcfa.frame_pose(model, q, "eye", motions=motions)
        energies = (
            jaxcfa.kinetic_energy(model, q, v, motions=motions),
            jaxcfa.potential_energy(model, q, motions=motions),
        )
        return pose.rotation, pose.translation, jaxcfa.frame_velocity(model, q, v, "eye", motions=motions), *energies

    @jax.jit
    def with_slopes(model, length, density):
        return jax.jvp(lambda x: quantities(model, x, density), (length,), (1.0,))

    model = everything()
    (turn, origin, velocity, kinetic, potential), _ = with_slopes(model, 1.0, 1.0)
    found, slopes = with_slopes(model, LENGTH, DENSITY)
    expected = (
        turn,
        LENGTH * origin,
        velocity.at[3:].multiply(LENGTH),
        DENSITY * LENGTH**5 * kinetic,
        DENSITY * LENGTH**4 * potential,
    )
    assert_close(found, expected, 1e-12)
    assert_close(slopes[1], origin, 1e-12)
    assert_close(slopes[3:], (5 * expected[3] / LENGTH, 4 * expected[4] / LENGTH), 1e-12)
    same = scale(model)
    assert_close((same.keyframes, same.mass, same.joints), (model.keyframes, model.mass, model.joints), 0)


def test_what_is_scaled_and_what_is_not():
    model = everything()
    other = scale(model, LENGTH)
    before, after = model.joint("hand_joint"), other.joint("hand_joint")
    np.testing.assert_allclose(after.upper, before.upper.at[0].multiply(LENGTH), rtol=1e-14)
    is_length = np.array([1, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, *9 * [0]])
    assert_close(after.spring_reference, np.where(is_length, LENGTH, 1), 1e-14)
    assert_close(after.placement.translation, LENGTH * before.placement.translation, 1e-14)
    for field in ("gravity", "armature", "damping", "friction_loss", "stiffness", "actuators"):
        assert_close(getattr(other, field), getattr(model, field), 0)
    for field in ("velocity", "effort"):
        np.testing.assert_array_equal(getattr(other.limits, field), getattr(model.limits, field))
    assert other.topology == model.topology
    slope = jax.grad(lambda x: scale(model, x).limits.upper @ jnp.ones(model.nq))(LENGTH)
    assert_close(slope, 0.4, 1e-14)


def test_mass_matrix_of_revolute_joints(dtype):
    model = jaxcfa.chain(3, dtype=dtype)
    q = random_state(model).q
    expected = DENSITY * LENGTH**5 * jaxcfa.mass_matrix(model, q)
    found = jaxcfa.mass_matrix(scale(model, LENGTH, DENSITY), q)
    assert found.dtype == dtype
    assert_close(found, expected)


def linkage():
    """Constraints of all types on joints that turn and that translate, and a keyframe."""
    builder = ModelBuilder()
    body = {"mass": 1.0, "com": (0.1, 0.0, 0.2), "inertia": (0.3, 0.2, 0.4)}
    builder.add_body("a", joint=Free(), **body)
    builder.add_body("b", "a", Prismatic((0, 0, 1)), (0, 0, 0.4), joint_name="slide", **body)
    builder.add_body("c", "b", Revolute((0, 1, 0)), (0.1, 0, 0.4), joint_name="turn", **body)
    builder.add_body("d", "c", Prismatic((1, 0, 0)), joint_name="push", **body)
    builder.add_frame("tip", "d", (0.1, 0.2, 0.3))
    model = builder.build()
    constraints = (
        closed_chains.weld(model, "a", "tip"),
        closed_chains.connect(model, "a", "tip"),
        closed_chains.distance(model, "tip", -1, 0.7),
        closed_chains.loop_joint(model, "tip", -1, Helical((0, 0, 1), 0.3)),
        closed_chains.couple(model, "slide", "turn", (0.3, 2.0, 1.0)),
        closed_chains.couple(model, "turn", "push", (0.3, 2.0, 1.0)),
        closed_chains.couple(model, "slide", "push", (0.3, 2.0, 1.0)),
    )
    return with_keyframe(dataclasses.replace(model, constraints=constraints))


@jax.jit
def residuals(model):
    q = model.keyframes.q[0]
    poses = jaxcfa.forward_kinematics(model, q)

    def of(constraint):
        if isinstance(constraint, JointCoupling):
            return constraint.residual(*(q[model.q_slice(x).start] for x in (constraint.joint, constraint.reference)))
        bodies = constraint.body1, constraint.body2
        return constraint.residual(*(poses[x] if x >= 0 else jaxcfa.Transform.identity() for x in bodies))

    return [of(constraint) for constraint in model.constraints]


def test_constraints_are_similar():
    model = linkage()
    weld, point, rod, screw, slide, turn, push = residuals(model)
    expected = [weld.at[3:].multiply(LENGTH), LENGTH * point, LENGTH * rod, None, LENGTH * slide, turn, LENGTH * push]
    expected[3] = screw.at[-3:].multiply(LENGTH)
    assert_close(residuals(scale(model, LENGTH)), expected, 1e-12)


class Hinge(Revolute):
    """A joint of a type of its own that says that it only turns."""


class Slide(AbstractJoint):
    """A joint of a type of its own that does not."""

    nq = 1
    nv = 1

    def transform(self, q):
        return jaxcfa.Transform(jnp.eye(3), jnp.array([1.0, 0.0, 0.0]) * q[0])

    def motion_subspace(self, q):
        return jnp.zeros((6, 1)).at[3, 0].set(1.0)

    def bias(self, q, v):
        return jnp.zeros(6)

    def integrate(self, q, dv):
        return q + dv

    def difference(self, q0, q1):
        return q1 - q0

    def neutral(self):
        return jnp.zeros(1)

    def random(self, key, lower, upper):
        return jax.random.normal(key, (1,))


class Level(AbstractFrameConstraint):
    """A constraint of a type of its own."""

    body1: int = eqx.field(static=True)
    body2: int = eqx.field(static=True)
    height: jax.Array
    name: str = eqx.field(static=True, default="")

    def residual(self, body1, body2):
        return (body1.translation[2] - body2.translation[2] - self.height)[None]


def single(joint):
    builder = ModelBuilder()
    builder.add_body("body", joint=joint, mass=1.0, com=(0.0, 0.0, 0.2), inertia=0.1)
    return builder.build()


def test_own_types():
    assert_close(scale(single(Hinge((0, 0, 1))), 2.0).com, [[0.0, 0.0, 0.4]], 1e-14)
    with pytest.raises(ValueError, match=r"a Slide joint are lengths.*only_turns"):
        scale(single(Slide()), 2.0)
    model = dataclasses.replace(single(Revolute((0, 0, 1))), constraints=(Level(0, -1, jnp.array(0.3)),))
    with pytest.raises(ValueError, match="fields of Level are lengths"):
        scale(model, 2.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"length": 0.0}, "length must be a positive number, got 0.0"),
        ({"density": np.inf}, "density must be a positive number"),
        ({"length": [1.0, 2.0]}, r"length must be one number, got shape \(2,\)"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        scale(jaxcfa.chain(1), **arguments)

"""The four groupings of factored forward dynamics, and the inertia at frames."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa import FactoredFD
from jaxcfa.joints import Revolute
from jaxcfa.structured import Doubling, Sequential
from mechanisms import mechanism, random_state, random_states, trees
from program_size import equations, loop_trips
from robots import urdf_path

pytestmark = pytest.mark.filterwarnings("ignore::jaxcfa.io.ModelWarning")

VARIANTS = (1, 2, 3, 4)


@functools.cache
def all_variants(schedule):
    """One program, so that what the variants have in common is compiled once."""

    def run(model, *state):
        return [jaxcfa.joint_reactions(model, *state, FactoredFD(variant, schedule)) for variant in VARIANTS]

    return jax.jit(run)


@jax.jit
def expected(model, q, v, tau, f_ext):
    qdd, wrenches = jaxcfa.joint_reactions(model, q, v, tau, f_ext, jaxcfa.ABA())
    return qdd, wrenches, jaxcfa.body_accelerations(model, q, v, qdd)


CASES = [pytest.param("all together", Sequential(), marks=pytest.mark.slow), ("ball joints", Doubling())]


@pytest.mark.parametrize(("name", "schedule"), CASES, ids=str)
def test_variants_are_the_articulated_body_algorithm(name, schedule):
    model = mechanism(name)
    state = random_state(model)
    reference = expected(model, *state)
    for qdd, wrenches in all_variants(schedule)(model, *state):
        for tree in trees(model):
            found = qdd[tree.dofs], wrenches[tree.bodies]
            assert_close(found, (reference[0][tree.dofs], reference[1][tree.bodies]), 1e-10, tree.name)


@pytest.mark.parametrize("variant", VARIANTS)
def test_accelerations_of_bodies(variant):
    model = mechanism("all together")
    state = random_state(model)
    qdd, _, bodies = expected(model, *state)
    q, v, tau, f_ext = state
    motions = jaxcfa.body_motions(model, q, v)
    found = jax.jit(FactoredFD(variant).solve_with_body_accelerations)(model, motions, jaxcfa.Loads(tau, f_ext))
    assert_close(found, (qdd, bodies), 1e-11)


@pytest.mark.slow
def test_the_first_two_are_the_same_for_joints():
    """Number by number: so both lose the same digits."""
    model = mechanism("ball joints")
    state = random_state(model)
    first, second = (jaxcfa.forward_dynamics(model, *state, method=FactoredFD(i)) for i in (1, 2))
    np.testing.assert_array_equal(first, second)


def test_derivatives_batches_and_single_precision():
    """All through `forward_dynamics`, whose rule for derivatives serves every method."""
    model = mechanism("straight chain")
    states = random_states(model, 2)

    @jax.jit
    @jax.vmap
    def slopes(q, v, tau, f_ext):
        def value(mass, method):
            heavier = eqx.tree_at(lambda m: m.mass, model, mass)
            return jnp.sum(jaxcfa.forward_dynamics(heavier, q, v, tau, f_ext, method) ** 2)

        return [jax.grad(value)(model.mass, method) for method in (FactoredFD(3), jaxcfa.ABA())]

    assert_close(*slopes(*states), 1e-9)
    single = mechanism("straight chain", "float32")
    state = random_state(single)
    qdd = jaxcfa.forward_dynamics(single, *state, method=FactoredFD(3))
    assert qdd.dtype == np.float32
    assert_close(qdd, jaxcfa.forward_dynamics(single, *state, method=jaxcfa.ABA()), 1e-4)


def test_programs_do_not_grow():
    def accelerate(n):
        model = jaxcfa.chain(n)
        zero = jnp.zeros(n)
        return (lambda q: jaxcfa.forward_dynamics(model, q, zero, zero, method=FactoredFD(4, Doubling()))), zero

    assert equations(*accelerate(1000)) == equations(*accelerate(64))
    assert loop_trips(*accelerate(4096)) < 8 * 12


@functools.partial(jax.jit, static_argnums=2)
def operational_space(model, q, frames, schedule):
    found = jaxcfa.operational_space_inertia(model, q, frames, schedule)
    dense = jnp.concatenate([jaxcfa.jacobian(model, q, frame) for frame in frames])
    return found, found.inertia, found.dynamically_consistent_inverse, dense, jaxcfa.mass_matrix(model, q)


def check_operational_space(model, q, frames, schedule=None):
    found, inertia, inverse, jacobian, matrix = operational_space(model, q, frames, schedule)
    mobility = np.linalg.solve(matrix, np.asarray(jacobian).T)
    assert_close(found.jacobian, jacobian, 1e-12)
    assert_close(found.mobility, mobility, 1e-9)
    assert_close(found.inverse_inertia, jacobian @ mobility, 1e-9)
    dense = np.asarray(jacobian @ mobility)
    if np.linalg.cond(dense) < 1e8:
        assert_close(inertia @ dense, np.eye(len(dense)), 1e-8)
        assert_close(jacobian @ inverse, np.eye(len(dense)), 1e-8)
    # A generalised inverse in any case.
    assert_close(dense @ inertia @ dense, dense, 1e-8)


@pytest.mark.parametrize("schedule", [Sequential(), Doubling()], ids=str)
def test_inertia_at_frames_of_a_tree(schedule):
    """Frames on one limb, on different limbs, the trunk, the world, and one frame twice."""
    model = mechanism("humanoid-like")
    q = random_state(model).q
    check_operational_space(model, q, ("hand", "limb0_2"), schedule)
    check_operational_space(model, q, ("hand", "limb3_1", "trunk", -1, "hand"), schedule)


@pytest.mark.slow
def test_inertia_at_feet_and_hands_of_a_humanoid():
    model = jaxcfa.load_model(urdf_path("talos_full_v2.urdf"), floating_base=True, dtype="float64")
    q = jaxcfa.random_configuration(model, jax.random.key(3))
    frames = ("left_sole_link", "right_sole_link", "gripper_left_base_link", "gripper_right_base_link")
    check_operational_space(model, q, frames)


def test_inertia_where_the_arm_is_straight():
    """The pseudo-inverse: no acceleration along the arm."""
    model = jaxcfa.chain(3, dtype="float64")
    found = jaxcfa.operational_space_inertia(model, np.zeros(3), "tip")
    of_traced = jax.jit(lambda i: jaxcfa.operational_space_inertia(model, np.zeros(3), [i]).inverse_inertia)
    assert_close(of_traced(model.frame_number("tip")), np.asarray(found.inverse_inertia), 1e-14)
    omega, inertia = np.asarray(found.inverse_inertia), np.asarray(found.inertia)
    assert np.all(np.isfinite(inertia))
    assert_close(omega @ inertia @ omega, omega, 1e-10)
    assert np.linalg.matrix_rank(omega, tol=1e-9) == np.linalg.matrix_rank(inertia, tol=1e-9) < 6


def test_inertia_where_rounding_is_no_direction():
    """About an axis that is only nearly one of the world's, and at a point far along it."""
    builder = jaxcfa.ModelBuilder()
    turned = jaxcfa.Transform(jaxcfa.spatial.rpy_to_matrix(jnp.array([np.pi / 2, 0.0, 0.0])), jnp.zeros(3))
    builder.add_body("wheel", None, Revolute((0, 0, 1)), turned, inertia=0.1)
    builder.add_frame("far", "wheel", (0.0, 0.0, 10.0))
    model = builder.build(dtype="float64")
    found = jaxcfa.operational_space_inertia(model, np.zeros(1), ["wheel", "far"])
    assert_close(found.inertia[:6, :6], np.diag([0.0, 0.025, 0.0, 0.0, 0.0, 0.0]), 1e-12)
    alone = jaxcfa.operational_space_inertia(model, np.array([0.4]), "far")
    assert_close(alone.inertia, np.diag([0.0, 0.1, 0.0, 0.0, 0.0, 0.0]), 1e-12)

    # What is zero here has a slope all the same.
    def felt(tilt):
        tilted = eqx.tree_at(lambda m: m.joints[0].axis, model, jnp.stack([jnp.zeros(1), tilt[None], jnp.ones(1)], 1))
        return jaxcfa.operational_space_inertia(tilted, np.zeros(1), "wheel").inverse_inertia[1, 2]

    assert_close(jax.grad(felt)(0.0), np.array(-10.0), 1e-12)


def test_inertia_where_nothing_moves():
    model = jaxcfa.lock_joints(jaxcfa.chain(2), ["joint0", "joint1"])
    found = jaxcfa.operational_space_inertia(model, np.zeros(0), -1)
    assert found.jacobian.shape == (6, 0)
    assert np.all(found.inertia == 0)


def test_inertia_at_frames_differentiates():
    model = jaxcfa.chain(7, axes=np.random.default_rng(0).normal(size=(7, 3)), dtype="float64")
    q, v, _, _ = random_state(model)

    @jax.jit
    def slope(q):
        def value(t):
            moved = jaxcfa.integrate(model, q, t * v)
            return jnp.sum(jaxcfa.operational_space_inertia(model, moved, "tip").inertia)

        step = 1e-5
        return jax.grad(value)(0.0), (value(step) - value(-step)) / (2 * step)

    assert_close(*slope(q), 1e-6)


def test_invalid_arguments():
    with pytest.raises(ValueError, match="variant must be 1, 2, 3 or 4, got 5"):
        FactoredFD(5)
    model = mechanism("straight chain")
    with pytest.raises(ValueError, match="No frame or body named 'nose'"):
        jaxcfa.operational_space_inertia(model, np.zeros(6), "nose")
    with pytest.raises(ValueError, match="one frame or more"):
        jaxcfa.operational_space_inertia(model, np.zeros(6), [])


def test_lineax_operator():
    model = mechanism("straight chain")
    operator = jaxcfa.mass_operator(model, random_state(model).q)
    x = np.arange(1.0, 7.0)
    matrix = operator.as_lineax()
    assert_close(matrix.as_matrix(), operator.as_matrix())
    solution = lineax.linear_solve(matrix + lineax.DiagonalLinearOperator(np.ones(6)), x)
    assert_close(solution.value, np.linalg.solve(operator.as_matrix() + np.eye(6), x))

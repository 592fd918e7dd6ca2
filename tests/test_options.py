"""Options of the wrong kind are refused with a `ValueError` that says what to write."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from jaxcfa import ABA, CFA, JSI, FactoredFD, Transform, environments, inverse_kinematics, simulation, spatial
from jaxcfa.closed_chains import Baumgarte, LeastNorm, Projection
from jaxcfa.joints import Revolute, check_joint
from jaxcfa.optimal_control import FDDP, MultipleShooting, Shooting
from jaxcfa.structured import (
    BlockBidiagonal,
    BlockLDL,
    BlockTridiagonal,
    ChainsAndNodes,
    Chunked,
    CyclicReduction,
    Doubling,
    LeafToRoot,
    LinearQuadratic,
    OddEvenElimination,
    Refined,
    Riccati,
    StageMultipliers,
    affine_scan,
    prefix_sum,
    steady_riccati,
)
from urdf_text import LIMIT, one_joint

BLOCKS, COLUMN = jnp.tile(jnp.eye(2), (3, 1, 1)), jnp.ones((3, 2))
MODEL, STATE = jaxcfa.chain(2), (jnp.zeros(2),) * 3
KEY, CART_POLE = jax.random.key(0), environments.CartPole()
PROBLEM = LinearQuadratic(BLOCKS, BLOCKS, jnp.tile(jnp.eye(2), (4, 1, 1)), BLOCKS)

CLASSES = [
    ("solver", "OddEvenElimination()", lambda: BlockTridiagonal(BLOCKS, BLOCKS[1:]).solve(COLUMN, OddEvenElimination)),
    ("solver", "BlockLDL()", lambda: Refined(BlockLDL)),
    ("rest", "BlockLDL()", lambda: CyclicReduction(rest=BlockLDL)),
    ("chains", "CyclicReduction()", lambda: ChainsAndNodes(CyclicReduction)),
    ("solver", "BlockLDL()", lambda: StageMultipliers(BlockLDL)),
    ("solver", "Refined(...)", lambda: StageMultipliers(Refined)),
    ("solver", "Riccati()", lambda: PROBLEM.solve(PROBLEM.terms(), Riccati)),
    ("schedule", "Doubling()", lambda: Riccati(Doubling)),
    ("across", "Doubling()", lambda: Chunked(4, Doubling)),
    ("schedule", "Chunked()", lambda: affine_scan(BLOCKS, COLUMN, Chunked)),
    ("schedule", "Doubling()", lambda: prefix_sum(COLUMN, Doubling)),
    ("schedule", "Doubling()", lambda: BlockBidiagonal(BLOCKS).solve(COLUMN, Doubling)),
    ("solver", "LeafToRoot()", lambda: CFA(LeafToRoot)),
    ("schedule", "Doubling()", lambda: ABA(Doubling)),
    ("schedule", "Doubling()", lambda: JSI(Doubling)),
    ("schedule", "Doubling()", lambda: FactoredFD(1, Doubling)),
    ("method", "ABA()", lambda: jaxcfa.forward_dynamics(MODEL, *STATE, method=ABA)),
    ("schedule", "Doubling()", lambda: jaxcfa.inverse_dynamics(MODEL, *STATE, schedule=Doubling)),
    ("method", "CFA()", lambda: jaxcfa.step(MODEL, *STATE, 0.1, method=CFA)),
    ("integrator", "RungeKutta4()", lambda: jaxcfa.step(MODEL, *STATE, 0.1, simulation.RungeKutta4)),
    ("limits", "Stops()", lambda: jaxcfa.step(MODEL, *STATE, 0.1, limits=simulation.Stops)),
    ("stabilization", "Projection()", lambda: jaxcfa.step(MODEL, *STATE, 0.1, stabilization=Projection)),
    ("stabilization", "Baumgarte(...)", lambda: jaxcfa.step(MODEL, *STATE, 0.1, stabilization=Baumgarte)),
    ("solver", "LeastNorm()", lambda: jaxcfa.step(MODEL, *STATE, 0.1, solver=LeastNorm)),
]
NUMBERS = {
    "size must be a positive integer, got 0": lambda: Chunked(0),
    "size must be a positive integer, got 1.5": lambda: Chunked(1.5),
    "levels must be an integer that is not negative, got -1": lambda: CyclicReduction(levels=-1),
    "steps must be an integer that is not negative, got 0.5": lambda: Refined(BlockLDL(), steps=0.5),
    "rank_tolerance must be positive and finite, one known number, got 'small'": lambda: LeastNorm("small"),
    "rank_tolerance must be between 0 and 1, got 2": lambda: LeastNorm(2),
    "max_iterations must be a positive integer, got 50.0": lambda: MultipleShooting(max_iterations=50.0),
    "max_iterations must be a positive integer, got 0": lambda: Shooting(max_iterations=0),
    "together must be a positive integer, got 0": lambda: MultipleShooting(together=0),
    "tolerance must be finite and not negative, one known number, got -1": lambda: FDDP(tolerance=-1),
    "stationarity must be finite and not negative, one known number, got nan": lambda: Shooting(stationarity=np.nan),
    "barrier must be positive and finite, one known number, got 0": lambda: MultipleShooting(barrier=0),
    "side_branches must be an integer that is not negative, got -1": lambda: CFA(side_branches=-1),
}


@pytest.mark.parametrize(("name", "instance", "call"), CLASSES)
def test_a_class_in_the_place_of_an_instance(name, instance, call):
    with pytest.raises(ValueError, match=rf"^{name} must be .* Write {re.escape(instance)}\.$"):
        call()


def test_options_of_solvers_are_plain_numbers():
    """Whatever they are given as, or programs could not be told apart by them."""
    solver = MultipleShooting(max_iterations=np.int64(7), tolerance=jnp.float32(0.5), barrier=np.float32(0.25))
    assert hash(solver) == hash(MultipleShooting(max_iterations=7, tolerance=0.5, barrier=0.25))
    assert [type(x) for x in (solver.max_iterations, solver.tolerance, solver.barrier)] == [int, float, float]


@pytest.mark.parametrize("message", NUMBERS)
def test_numbers(message):
    with pytest.raises(ValueError, match=message):
        NUMBERS[message]()


def test_what_is_no_class_of_the_kind_has_no_remedy():
    with pytest.raises(ValueError, match=r"such as Doubling\(\), got <class .*BlockLDL'>\.$"):
        Riccati(BlockLDL)


WRONG = {
    "model must be a jaxcfa.Model.*got 3": lambda f: f(jaxcfa.step)(3, *STATE, 0.1),
    "model must be a jaxcfa.Model.*got 'panda'": lambda f: f(jaxcfa.forward_dynamics)("panda", *STATE),
    "model must be a jaxcfa.Model.*got None": lambda f: f(jaxcfa.rollout)(None, *STATE, 0.1),
    "model must be a jaxcfa.Model.*got <class": lambda f: f(jaxcfa.neutral)(jaxcfa.Model),
    r"model must be a jaxcfa.Model.*got \[\]": lambda f: f(jaxcfa.lock_joints)([], "joint0"),
    "model must be a jaxcfa.Model.*got 'arm'": lambda f: f(inverse_kinematics.solve)("arm", []),
    "joint must be an instance of a joint type, got 'revolute'": lambda f: f(jaxcfa.chain)(2, "revolute"),
    "n must be a positive integer, got '3'": lambda f: f(jaxcfa.chain)("3"),
    "The mass of a rod must be a known number or an array of such, got 'a'": lambda f: f(jaxcfa.chain)(2, mass="a"),
    "dt must be a number or an array of numbers, got 'soon'": lambda f: f(jaxcfa.integrate)(MODEL, *STATE[:2], "soon"),
    "frames must be a dictionary.*got 'tip'": lambda f: f(jaxcfa.add_frames)(MODEL, "tip"),
    "names must be a dictionary.*got 1": lambda f: f(jaxcfa.rename)(MODEL, 1),
    "The mass of the payload must be a known number.*got {}": lambda f: f(jaxcfa.add_payload)(MODEL, "tip", {}),
    "length must be a known number.*got {}": lambda f: f(jaxcfa.scale)(MODEL, {}),
    "wrenches must be a number or an array of numbers, got 'push'": lambda f: f(jaxcfa.wrench_at)(
        MODEL, STATE[0], "tip", "push"
    ),
    "roll must be a number or an array of numbers, got 'up'": lambda f: f(Transform.from_rpy)("up", 0, 0),
    "yaw must be real, got dtype complex": lambda f: f(Transform.from_rpy)(0, 0, 1j),
    "screw must be a number or an array of numbers, got None": lambda f: f(Transform.exp)(None),
    "state_cost must be a number or an array of numbers, got {}": lambda f: f(steady_riccati)(1, 1, {}, 1),
    "floating_base must be True or False, got 'false'": lambda f: f(jaxcfa.load_model)(one_joint(LIMIT), "false"),
    "dt must be a time step in seconds, got True": lambda f: f(jaxcfa.step)(MODEL, *STATE, True),
    "gravity must be a known number.*got 'g'": lambda f: f(jaxcfa.load_model)(one_joint(LIMIT), gravity="g"),
    "environment must be one such as CartPole": lambda f: f(environments.unroll)(3, None, None, KEY, 1),
    "controls must be an array or a function.*the class Generator. Write": lambda f: f(jaxcfa.rollout)(
        MODEL, *STATE[:2], np.random.Generator, 0.1, steps=1
    ),
    r"types must be a list of classes, such as \[MyJoint\], got 3": lambda f: f(jaxcfa.load_model)(
        one_joint(LIMIT), types=3
    ),
    r"types must be a list of classes.* got <class": lambda f: f(jaxcfa.load_model)(one_joint(LIMIT), types=Revolute),
    "A file is given by its path, got 3": lambda f: f(jaxcfa.load_trajectory)(3),
    "key must be a random key, .*got 'seed'": lambda f: f(check_joint)(Revolute((0, 0, 1)), "seed"),
    "x must be a number or an array of numbers, got 'up'": lambda f: spatial.unit("up"),
    "state must be what environment.reset": lambda f: f(environments.unroll)(CART_POLE, None, None, KEY, 1),
}


@pytest.mark.parametrize("message", WRONG)
def test_arguments_of_the_wrong_kind(message):
    """Without the checks of types that the tests switch on, as users have it."""
    with pytest.raises(ValueError, match=message):
        WRONG[message](inspect.unwrap)

"""Programs for accelerators, traced and lowered but not compiled, which needs none.

Matrix products ask for full precision, which accelerators do not give by default; both platforms have all operations;
programs of float32 compute nothing in float64.
"""

import functools
import re

import jax
import jax.numpy as jnp
import pytest
from jax.lax import Precision

import jaxcfa
from jaxcfa import ABA, CFA, JSI, FactoredFD, closed_chains, inverse_kinematics, optimal_control, structured
from jaxcfa.closed_chains import RCCFD1, RCCFD2, RCCFD3, Direct, Grasp, LeastNorm, Projection, Proximal, RigidObject
from jaxcfa.simulation import step
from jaxcfa.structured import (
    BlockLDL,
    ChainsAndNodes,
    CyclicReduction,
    Dense,
    Doubling,
    LeafToRoot,
    OddEvenElimination,
    Riccati,
)
from program_size import matrix_products

# Numbers of Python are of float64 at first, also when they are broadcast to arrays that are then converted.
DOUBLE_ARITHMETIC = re.compile(r"stablehlo\.(add|subtract|multiply|divide|sqrt|dot_general)\b.*tensor<\d[^>]*xf64>")


SIZE = 8  # bodies, one more than what is written out as sums


@functools.cache
def tree() -> jaxcfa.Model:
    """Large enough for products that are not written out as sums."""
    with jax.ensure_compile_time_eval():  # a test may be the first to ask for it while it traces
        return jaxcfa.random_tree(
            SIZE, jax.random.key(0), [jaxcfa.joints.Revolute], branching=0.4, armature=0.1, dtype="float32"
        )


def zeros(*shape: int) -> jax.Array:
    return jnp.zeros(shape, "float32")


def check(function, *arguments, gradient: bool = False, has_products: bool = False) -> None:
    """The function, or its value and gradient, as a program for accelerators, is as the top of this file says."""

    def summed(*x):
        return sum(jnp.sum(y) for y in jax.tree.leaves(function(*x)) if jnp.issubdtype(y.dtype, jnp.floating))

    with jaxcfa.compiling_for("gpu"):
        traced = jax.jit(jax.value_and_grad(summed) if gradient else function).trace(*arguments)
        text = traced.lower(lowering_platforms=("tpu", "cuda")).as_text()
    assert not DOUBLE_ARITHMETIC.search(text)
    found = matrix_products(traced.jaxpr.jaxpr)
    assert {equation.params["precision"] for equation in found} <= {(Precision.HIGHEST, Precision.HIGHEST)}
    assert found or not has_products


METHODS = [
    *(ABA(), ABA("scan"), ABA("hybrid"), JSI(), *map(FactoredFD, (1, 2, 3, 4))),
    *(CFA(x) for x in (OddEvenElimination(), CyclicReduction(), BlockLDL(), ChainsAndNodes(), LeafToRoot(), Dense())),
]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_forward_dynamics(method):
    model, x = tree(), zeros(SIZE)
    check(lambda q: jaxcfa.forward_dynamics(model, q, x, x, method=method), x, gradient=method == CFA())


def test_tree_dynamics():
    model, x = tree(), zeros(SIZE)
    check(lambda q: jaxcfa.inverse_dynamics(model, q, x, x, schedule=Doubling()), x)
    check(lambda q: jaxcfa.forward_dynamics_derivatives(model, q, x, x), x, has_products=True)
    check(lambda q: jaxcfa.mass_matrix(model, q), x)
    check(lambda q: jaxcfa.regressor(model, q, x, x), x)
    check(lambda q: jaxcfa.joint_reactions(model, q, x, x), x)
    check(lambda theta: jaxcfa.LogCholesky(theta).apply(model).inertia, zeros(SIZE, 10))


def test_mass_operator():
    def evaluate(q):
        operator = jaxcfa.mass_operator(tree(), q)
        return operator.mv(q), operator.solve(q), operator.inv_sqrt_mv(q), operator.as_matrix(), operator.logdet()

    check(evaluate, zeros(SIZE))


def test_operational_space():
    def evaluate(q):
        found = jaxcfa.operational_space_inertia(tree(), q, [3, 7])
        return found.inverse_inertia, found.inertia, found.dynamically_consistent_inverse

    check(evaluate, zeros(SIZE), gradient=True, has_products=True)


def test_change_of_basis():
    eye = jnp.eye(6, dtype="float32")
    check(
        lambda m: structured.change_of_basis(m, eye[:, :2]).active,
        jnp.eye(6, dtype="float32"),
        has_products=True,
    )


def test_actuators():
    model = jaxcfa.load_model(
        '<mujoco><worldbody><body><joint name="j"/><geom size=".1"/></body></worldbody>'
        '<actuator><motor joint="j"/></actuator></mujoco>',
        dtype="float32",
    )
    x = zeros(1)
    check(lambda q: jaxcfa.actuator_forces(model, q, x, x), x, has_products=True)


LOOP = functools.partial(closed_chains.connect, frame1=7, frame2=3)


@pytest.mark.parametrize("solver", [LeastNorm(), Proximal(), Direct()], ids=str)
def test_closed_chains(solver):
    model, x = tree(), zeros(SIZE)

    def evaluate(q):
        return closed_chains.constrained_forward_dynamics(model, LOOP(model), q, x, x, solver=solver)

    check(evaluate, x, gradient=solver == LeastNorm(), has_products=True)


def test_projections_impacts_and_inverse_dynamics_of_closed_chains():
    model, x = tree(), zeros(SIZE)
    loop = LOOP(model)
    options = {"constraints": loop, "stabilization": Projection()}
    for function in (
        lambda q: closed_chains.constrained_inverse_dynamics(model, loop, q, x, x, actuated=[0, 1]),
        lambda q: closed_chains.project_configuration(model, loop, q),
        lambda q: closed_chains.project_velocity(model, loop, q, x),
        lambda q: closed_chains.impulse(model, loop, q, x),
        lambda q: step(model, q, x, x, 0.1, **options),
    ):
        check(function, x, has_products=True)


@pytest.mark.parametrize("algorithm", [RCCFD1(), RCCFD2(), RCCFD3()], ids=str)
def test_grasps(algorithm):
    arm, x = jaxcfa.chain(3, dtype="float32"), zeros(3)
    pose, mass = jaxcfa.Transform.identity("float32"), jnp.float32(1)
    box = RigidObject(mass, zeros(3), 0.1 * mass)
    grasps = [Grasp.rigid(arm.body_names[2], pose), Grasp.ball(arm.body_names[2], pose)]

    def evaluate(q):
        arguments = (q, x), (x, x), pose, zeros(6), (x, x)
        return closed_chains.grasp_forward_dynamics([arm, arm], box, grasps, *arguments, algorithm=algorithm)

    check(evaluate, x, has_products=True)


def test_simulation():
    model, x, steps = jaxcfa.chain(2, dtype="float32"), zeros(2), zeros(3, 2)
    check(lambda q: jaxcfa.rollout(model, q, x, steps, 0.1), x, gradient=True)
    check(lambda q: tuple(jaxcfa.linearize(model, q, x, x, 0.1)), x)


@pytest.mark.slow
def test_optimal_control_and_inverse_kinematics():
    """One iteration by a scan over time, under bounds."""
    model, x = jaxcfa.chain(2, dtype="float32"), zeros(2)
    tip = optimal_control.FramePosition("tip", jnp.ones(3, "float32"))
    solver = optimal_control.MultipleShooting(1, schedule=Riccati(Doubling()), steps="linear")
    problem = optimal_control.Problem(
        optimal_control.RobotDynamics(model, 0.1),
        4,
        [optimal_control.Cost(optimal_control.Control())],
        [optimal_control.Cost(tip)],
        [optimal_control.Bounds(optimal_control.Control(), -1.0, 1.0)],
    )
    check(lambda q: optimal_control.solve(problem, (q, x), solver=solver), x)
    check(lambda q: inverse_kinematics.solve(model, tip, q), x)

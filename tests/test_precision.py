"""Matrix products ask for full precision, which accelerators do not give by default. Programs are traced only."""

import functools

import jax
import jax.numpy as jnp
import pytest
from jax.lax import Precision

import jaxcfa
from jaxcfa import ABA, CFA, JSI, FactoredFD, closed_chains, structured
from jaxcfa.closed_chains import RCCFD1, RCCFD2, RCCFD3, Direct, Grasp, LeastNorm, Projection, Proximal, RigidObject
from jaxcfa.simulation import step
from jaxcfa.structured import BlockLDL, ChainsAndNodes, CyclicReduction, Dense, Doubling, LeafToRoot, OddEvenElimination
from program_size import matrix_products


@functools.cache
def tree() -> jaxcfa.Model:
    """Large enough for products that are not written out as sums."""
    return jaxcfa.random_tree(10, jax.random.key(0), [jaxcfa.joints.Revolute], branching=0.4, armature=0.1)


def check(function, *arguments, gradient: bool = False, has_products: bool = False) -> None:
    """All products of the function, or of its value and gradient, have the highest precision."""

    def summed(*x):
        return sum(jnp.sum(y) for y in jax.tree.leaves(function(*x)) if jnp.issubdtype(y.dtype, jnp.floating))

    found = matrix_products(jax.value_and_grad(summed) if gradient else function, *arguments)
    assert {equation.params["precision"] for equation in found} <= {(Precision.HIGHEST, Precision.HIGHEST)}
    assert found or not has_products


METHODS = [
    *(ABA(), ABA("scan"), ABA("hybrid"), JSI(), *map(FactoredFD, (1, 2, 3, 4))),
    *(CFA(x) for x in (OddEvenElimination(), CyclicReduction(), BlockLDL(), ChainsAndNodes(), LeafToRoot(), Dense())),
]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_forward_dynamics(method):
    model, x = tree(), jnp.zeros(10)
    check(lambda q: jaxcfa.forward_dynamics(model, q, x, x, method=method), x, gradient=method == CFA())


def test_tree_dynamics():
    model, x = tree(), jnp.zeros(10)
    check(lambda q: jaxcfa.inverse_dynamics(model, q, x, x, schedule=Doubling()), x)
    check(lambda q: jaxcfa.forward_dynamics_derivatives(model, q, x, x), x, has_products=True)
    check(lambda q: jaxcfa.mass_matrix(model, q), x)
    check(lambda q: jaxcfa.regressor(model, q, x, x), x)
    check(lambda q: jaxcfa.joint_reactions(model, q, x, x), x)
    check(lambda theta: jaxcfa.LogCholesky(theta).apply(model).inertia, jnp.zeros((10, 10)))


def test_mass_operator():
    def evaluate(q):
        operator = jaxcfa.mass_operator(tree(), q)
        return operator.mv(q), operator.solve(q), operator.inv_sqrt_mv(q), operator.as_matrix(), operator.logdet()

    check(evaluate, jnp.zeros(10))


def test_operational_space():
    def evaluate(q):
        found = jaxcfa.operational_space_inertia(tree(), q, [3, 9])
        return found.inverse_inertia, found.inertia, found.dynamically_consistent_inverse

    check(evaluate, jnp.zeros(10), gradient=True, has_products=True)


def test_change_of_basis():
    check(lambda m: structured.change_of_basis(m, jnp.eye(6)[:, :2]).active, jnp.eye(6), has_products=True)


def test_actuators():
    model = jaxcfa.load_model(
        '<mujoco><worldbody><body><joint name="j"/><geom size=".1"/></body></worldbody>'
        '<actuator><motor joint="j"/></actuator></mujoco>'
    )
    x = jnp.zeros(1)
    check(lambda q: jaxcfa.actuator_forces(model, q, x, x), x, has_products=True)


LOOP = functools.partial(closed_chains.connect, frame1=9, frame2=3)


@pytest.mark.parametrize("solver", [LeastNorm(), Proximal(), Direct()], ids=str)
def test_closed_chains(solver):
    model, x = tree(), jnp.zeros(10)

    def evaluate(q):
        return closed_chains.constrained_forward_dynamics(model, LOOP(model), q, x, x, solver=solver)

    check(evaluate, x, gradient=solver == LeastNorm(), has_products=True)


def test_projections_impacts_and_inverse_dynamics_of_closed_chains():
    model, x = tree(), jnp.zeros(10)
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
    arm, x = jaxcfa.chain(3), jnp.zeros(3)
    pose, box = jaxcfa.Transform.identity(), RigidObject(1.0, (0.0, 0.0, 0.0), 0.1)
    grasps = [Grasp.rigid(arm.body_names[2], pose), Grasp.ball(arm.body_names[2], pose)]

    def evaluate(q):
        arguments = (q, x), (x, x), pose, jnp.zeros(6), (x, x)
        return closed_chains.grasp_forward_dynamics([arm, arm], box, grasps, *arguments, algorithm=algorithm)

    check(evaluate, x, has_products=True)

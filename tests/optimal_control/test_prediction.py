"""Model predictive control in closed loop: plans stay plans."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import jaxcfa
from helpers import cast
from jaxcfa import optimal_control as oc
from jaxcfa.joints import Revolute

pytestmark = pytest.mark.slow

TORQUE = 40.0


def reaching() -> oc.Problem:
    """A planar arm with a light hand, which brings it to a target in few long steps, and brakes in the last of them."""
    builder, parent, start = jaxcfa.ModelBuilder(), None, 0.0
    for name, length, mass in (("upper", 0.4, 2.0), ("lower", 0.3, 1.0), ("hand", 0.1, 0.05)):
        across = mass * length**2 / 12
        com, inertia = (length / 2, 0.0, 0.0), (1e-3, across, across)
        builder.add_body(
            name, parent, Revolute((0.0, -1.0, 0.0)), (start, 0.0, 0.0), mass=mass, com=com, inertia=inertia
        )
        parent, start = name, length
    builder.add_frame("tip", "hand", (start, 0.0, 0.0))
    model, dt = builder.build(dtype="float64"), 0.05
    target = jaxcfa.frame_pose(model, jnp.array([0.6, 0.5, 0.3]), "tip").translation
    reach = oc.FramePosition("tip", target)
    return oc.Problem(
        oc.RobotDynamics(model, dt),
        12,
        costs=[oc.Cost(oc.Control(), 1e-3 * dt), oc.Cost(reach, 10 * dt), oc.Cost(oc.Velocity(), 0.1 * dt)],
        end_costs=[oc.Cost(reach, 1e3), oc.Cost(oc.Velocity(), 100.0)],
        constraints=[oc.Bounds(oc.Control(), -TORQUE, TORQUE)],
    )


@pytest.mark.compiled  # one program, that of `solve`
@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_arms_that_are_other_than_planned_are_brought_to_rest(dtype):
    """The control that stopped the arm would set it in motion again, and each plan would be worse than the last. Where
    plans have gaps, or the arm moves faster than planned, simulating them anew would not converge either."""
    problem = cast(reaching(), dtype)
    model = problem.dynamics.equation.model

    @jax.jit
    def step(mass, x, u):
        arm = eqx.tree_at(lambda m: (m.mass, m.inertia), model, (mass * model.mass, mass * model.inertia))
        plant = eqx.tree_at(lambda dynamics: dynamics.equation.model, problem.dynamics, arm)
        return plant.step(x, jnp.clip(u, -TORQUE, TORQUE), 0)

    first = oc.solve(problem, (jnp.array([-1.2, 0.8, 0.5], dtype), jnp.zeros(3, dtype)))
    assert bool(first.solved)
    for mass, iterations, worst, last in (
        (1.0, 1, 2.0, 1.5),
        (1.0, 4, 2.0, 1.02),
        (0.8, 1, 3.0, 1.2),
        (0.8, 2, 2.0, 1.2),
        (1.2, 1, 2.0, 1.3),
    ):
        plan, x = first, first.states[0]
        for _ in range(25):
            x = step(jnp.asarray(mass, dtype), x, plan.controls[0])
            plan = oc.mpc_step(problem, x, plan, iterations=iterations)
            assert bool(jnp.all(jnp.isfinite(plan.gains)))
            assert float(plan.cost) < worst * float(first.cost)
        best = oc.solve(problem, x, plan)
        assert bool(best.solved)
        assert float(plan.cost) < last * float(best.cost)
        assert float(best.cost) < (0.02 if mass <= 1 else 0.03) * float(first.cost)


def test_a_plan_that_is_lost_is_made_anew():
    problem = oc.Problem(
        oc.FunctionDynamics(lambda x, u, t: x + 0.1 * jnp.stack([x[1], u[0]]), 2, 1),
        10,
        [oc.Cost(oc.Control(), 0.1)],
        [oc.Cost(lambda stage: stage.x, 100.0)],
        constraints=[oc.Bounds(oc.Control(), -5.0, 5.0)],
    )
    x = jnp.array([0.5, 0.0])
    plan = oc.solve(problem, x)
    for lost in (jnp.inf, jnp.nan):
        for where in (lambda plan: plan.states, lambda plan: plan.controls, lambda plan: plan.multipliers.costates):
            found = oc.mpc_step(problem, x, eqx.tree_at(where, plan, where(plan).at[1].set(lost)), iterations=20)
            assert abs(float(found.cost / plan.cost) - 1) < 1e-6

"""Mechanisms with loops in motion: they stay closed, and keep their energy as the integrator's order says."""

import functools
import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import jaxcfa
from helpers import assert_close, cast
from jaxcfa import simulation
from jaxcfa.closed_chains import (
    ConstraintStatus,
    Direct,
    Projection,
    Proximal,
    constrained_forward_dynamics,
    couple,
)
from jaxcfa.joints import Prismatic
from jaxcfa.simulation import AbstractIntegrator, RungeKutta4, SemiImplicitEuler, State, rollout, step
from jaxcfa.simulation._rollout import _warn
from loops import make, some_loops

EULER, RUNGE_KUTTA = SemiImplicitEuler(), RungeKutta4()


def energies(model, parts, q, v):
    """Of each mechanism, as if the others had no mass and no springs."""
    bodies, dofs = (
        np.array([np.isin(np.arange(n), np.arange(n)[getattr(part, where)]) for part in parts])
        for n, where in ((model.nb, "bodies"), (model.nv, "v"))
    )

    def one(bodies, dofs):
        own = eqx.tree_at(
            lambda m: (m.mass, m.inertia, m.armature, m.stiffness),
            model,
            (model.mass * bodies, model.inertia * bodies[:, None, None], model.armature * dofs, model.stiffness * dofs),
        )
        return jaxcfa.kinetic_energy(own, q, v) + jaxcfa.potential_energy(own, q) + jaxcfa.elastic_energy(own, q)

    return jax.vmap(one)(bodies, dofs)


def violations(model, constraints, state):
    """The largest residual, and the largest rate."""
    motion = constrained_forward_dynamics(model, constraints, *state, jnp.zeros_like(state[1])).motion
    return jnp.array([jnp.max(jnp.abs(motion.residual)), jnp.max(jnp.abs(motion.rate))])


def simulation_of(integrator, stabilization, *names):
    """Of mechanisms side by side: largest violations and changes of their energies, looked at a hundred times."""
    model, parts, (q, v, _) = some_loops(*names)

    @jax.jit
    def simulate(model, q, v, dt, steps):
        constraints, tau, before = model.constraints, jnp.zeros_like(v), energies(model, parts, q, v)

        def advance(_, state):
            return step(model, *state, tau, dt, integrator, constraints=constraints, stabilization=stabilization)

        def stretch(_, carry):
            state, worst, change = carry
            state = jax.lax.fori_loop(0, steps // 100, advance, state)
            now = jnp.abs(energies(model, parts, *state) - before)
            return state, jnp.maximum(worst, violations(model, constraints, state)), jnp.maximum(change, now)

        start = State(q, v), jnp.zeros(2), jnp.zeros(len(parts))
        return jax.lax.fori_loop(0, 100, stretch, start)[1:]

    return functools.partial(simulate, model, q, v)


@pytest.mark.slow
def test_ten_seconds():
    names = ("four-bar", "spatial four-bar", "delta", "bricard")
    run = simulation_of(RUNGE_KUTTA, None, *names)
    (opening, _), changes = run(8e-3, 1250)
    (finer_opening, _), finer_changes = run(4e-3, 2500)
    assert opening < 1e-5
    assert finer_opening < 1e-6
    for name, change, finer_change in zip(names, changes, finer_changes, strict=True):
        # Order four: a sixteenth, or rounding.
        assert np.log2(change / finer_change) > 3.5 or change < 1e-10, name


@pytest.mark.slow
def test_projection_closes_loops_to_rounding_and_leaves_the_order():
    """Where Baumgarte's stabilisation leaves 1e-9 and more."""
    names = ("five-bar", "leg")
    run = simulation_of(RUNGE_KUTTA, Projection(), *names)
    (opening, rate), changes = run(2e-3, 200)
    assert opening < 1e-12
    assert rate < 1e-9
    for name, change, finer_change in zip(names, changes, run(1e-3, 400)[1], strict=True):
        assert np.log2(change / finer_change) > 3.5, name


@pytest.mark.slow
def test_the_energy_stays_bounded_with_projection_after_euler_steps():
    """It would grow by 7 J if the velocities did not take part in the closing of the loops."""
    (opening, rate), (change,) = simulation_of(EULER, Projection(), "five-bar")(2e-3, 1000)
    assert opening < 1e-12
    assert rate < 1e-6
    assert change < 1


class Explicit(AbstractIntegrator):
    """Euler's explicit method, as users may write one."""

    def step(self, equation, q, v, tau, f_ext, dt):
        return jaxcfa.integrate(equation.model, q, v, dt), v + dt * equation.acceleration(q, v, tau, f_ext)


@pytest.mark.slow
def test_derivatives_of_steps_with_projection():
    """In both modes, with redundant constraints."""
    model, _, (q, v, tau) = some_loops("four-bar by points")
    constraints = model.constraints
    weights = jax.random.normal(jax.random.key(1), (model.nq + model.nv,))
    x = {"mass": jnp.ones(model.nb), "tau": jnp.asarray(tau), "dt": jnp.array(0.01, float), "v": jnp.asarray(v)}
    x["dq"] = jnp.zeros(model.nv)

    def final(x):
        changed = eqx.tree_at(lambda m: m.mass, model, model.mass * x["mass"])
        options = {"constraints": constraints, "stabilization": Projection()}
        start = jaxcfa.integrate(model, q, x["dq"]), x["v"]
        found = rollout(changed, *start, jnp.stack([x["tau"]] * 2), x["dt"], checkpoint=1, **options)
        return weights @ jnp.concatenate([found.q[-1], found.v[-1]])

    flat, unflatten = ravel_pytree(x)
    directions = np.zeros((len(x), len(flat)))
    for number, name in enumerate(x):
        direction = jax.tree.map(jnp.zeros_like, x) | {name: jax.random.normal(jax.random.key(number), x[name].shape)}
        directions[number] = ravel_pytree(direction)[0]

    def function(flat):
        return final(unflatten(flat))

    @jax.jit
    def both_modes(flat):
        value, forward = jax.linearize(function, flat)
        return jax.vmap(forward)(directions), jax.linear_transpose(forward, flat)(jnp.ones_like(value))[0]

    h = 1e-6
    slopes, gradient = both_modes(flat)
    values = jax.jit(jax.vmap(function))
    before, after = values(flat - h * directions), values(flat + h * directions)
    expected = (after - before) / (2 * h)
    assert np.all(np.abs(expected) > 1e-6)
    np.testing.assert_allclose(slopes, expected, rtol=1e-6)
    np.testing.assert_allclose(directions @ gradient, expected, rtol=1e-6)


@pytest.mark.slow
def test_projection_after_steps_of_any_integrator_in_batches_and_single_precision():
    """Unprojected, these steps leave 1e-3."""
    model, _, (q, v, _) = some_loops("four-bar")
    constraints = model.constraints
    speeds = np.array([1.0, 0.5, -2.0])[:, None] * v

    def run(model, constraints, q, v):
        options = {"constraints": constraints, "stabilization": Projection(), "checkpoint": 20}
        found = rollout(model, q, v, jnp.zeros((20, model.nv), q.dtype), 0.005, Explicit(), **options)
        return found, violations(model, constraints, (found.q[-1], found.v[-1]))

    batch = jax.jit(jax.vmap(run, (None, None, None, 0)))
    single, left = batch(*cast((model, constraints, q, speeds), np.float32))
    assert {x.dtype for x in single[:4]} == {np.dtype(np.float32)}
    assert np.all(left < 1e-5)
    assert np.all(single.status == 0)
    double, left = jax.jit(run)(model, constraints, q, speeds[2])
    assert np.all(left < 1e-9)
    assert_close(single.q[2], double.q, 1e-4)


def sliders():
    """Two of them, side by side."""
    builder = jaxcfa.ModelBuilder()
    for name in ("slider", "other"):
        builder.add_body(name, None, Prismatic((1, 0, 0)), mass=1.0)
    return builder.build(dtype="float64")


def test_loops_close_again_in_long_steps_too():
    """By default, after an oscillation at most, in as many steps as these are long."""
    model = sliders()
    coupled = couple(model, 0, 1, (0.0, 1.0))

    @jax.jit
    def gaps(dt):
        found = rollout(model, jnp.array([0.0, 1.0]), np.zeros(2), np.zeros((60, 2)), dt, constraints=coupled)
        return jnp.abs(found.q[:, 1] - found.q[:, 0])

    for dt in (0.01, 0.05, 0.3):
        found = gaps(dt)
        assert jnp.all(found <= 1)
        assert found[-1] < 1e-3


def test_the_status_of_a_trajectory_says_whether_constraints_could_be_held():
    """With a solver that needs the constraints to be independent."""
    model = sliders()

    def run(q, ratios):
        coupled = [couple(model, 0, 1, (0.0, ratio)) for ratio in ratios]
        options = {"constraints": coupled, "solver": Direct(), "passive_forces": False}
        found = rollout(model, q, np.zeros(2), np.ones((3, 2)), 0.005, **options)
        return found, ConstraintStatus(int(found.status))

    found, status = run(np.zeros(2), (1.0, 2.0))
    assert status == ConstraintStatus.OK
    assert_close(found.q[-1], np.zeros(2))
    with pytest.warns(UserWarning, match="could not be held .* loops are open"):
        _, status = run(np.ones(2), (1.0, 2.0))
    assert ConstraintStatus.OPEN in status
    assert ConstraintStatus.NOT_FINITE not in status
    with pytest.warns(UserWarning, match="not finite; Delassus' matrix is singular"):
        _, status = run(np.zeros(2), (1.0, 1.0))
    assert ConstraintStatus.SINGULAR | ConstraintStatus.NOT_FINITE in status
    with pytest.warns(UserWarning, match=r"some velocity .*, or take shorter steps or stabilization=Projection\(\)"):
        _warn(ConstraintStatus.MOVING)


def test_errors_name_the_argument_and_the_remedy():
    model, constraints, q, *_ = make("four-bar")
    v = tau = np.zeros(3)
    # Without the checks of types that the tests switch on, as users have them.
    forward, step = map(inspect.unwrap, (constrained_forward_dynamics, simulation.step))
    for message, call in {
        r"Baumgarte\(...\) or None, got Projection.* give it to step or rollout": lambda: forward(
            model, constraints, q, v, tau, stabilization=Projection()
        ),
        r"stabilization must be .*Projection.* Write Projection\(\)": lambda: step(
            model, q, v, tau, 0.1, constraints=constraints, stabilization=Projection
        ),
        "stabilization must be .*, got 20.0": lambda: step(
            model, q, v, tau, 0.1, constraints=constraints, stabilization=20.0
        ),
        r"method is .* without constraints, got ABA.* Omit it, .* solver=LeastNorm\(\)": lambda: step(
            model, q, v, tau, 0.1, constraints=constraints, method=jaxcfa.ABA()
        ),
        r"solver must be .* Write Proximal\(\)": lambda: step(
            model, q, v, tau, 0.1, constraints=constraints, solver=Proximal
        ),
        "iterations must be a positive integer, got 0": lambda: Projection(0),
        "iterations must be a positive integer, got 1.5": lambda: Projection(1.5),
    }.items():
        with pytest.raises(ValueError, match=message):
            call()

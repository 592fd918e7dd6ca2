"""Derivatives of forward dynamics come from the law of motion, whatever the algorithm."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import jaxcfa
from helpers import assert_close, second_derivatives
from jaxcfa.dynamics import ABA, AbstractForwardDynamics, AbstractMassSolver
from mechanisms import mechanism, random_state


def through_the_algorithm(model, q, v, tau, f_ext):
    return ABA().solve(model, jaxcfa.body_motions(model, q, v), jaxcfa.Loads(tau, f_ext))


def test_derivatives_equal_those_through_the_algorithm():
    """With respect to the model and all arguments: in reverse mode, against forward mode in some directions."""
    model = mechanism("ball joints")
    arguments = model, *random_state(model)
    leaves, structure = jax.tree.flatten(arguments)
    rng = np.random.default_rng(0)
    along = [rng.normal(size=(5, *leaf.shape)) for leaf in leaves]
    weights = jnp.arange(1.0, 1.0 + model.nv)

    @jax.jit
    def slopes(arguments, along):
        gradient = jax.grad(lambda *x: jaxcfa.forward_dynamics(*x) @ weights, argnums=range(5))(*arguments)

        def through(x):
            return jax.jvp(through_the_algorithm, arguments, jax.tree.unflatten(structure, x))[1] @ weights

        by_gradient = jax.vmap(lambda x: sum(map(jnp.vdot, jax.tree.leaves(gradient), x)))(along)
        return by_gradient, jax.vmap(through)(along), gradient[0].inertia

    found, expected, inertia = slopes(arguments, along)
    assert_close(found, expected, 1e-10)
    assert_close(inertia, jnp.swapaxes(inertia, 1, 2), 1e-12)


@pytest.mark.slow
def test_second_derivatives():
    model = mechanism("straight chain")
    q, v, tau, f_ext = random_state(model)

    @jax.jit
    def hessians(q):
        """Forward over reverse, and through the algorithm forward over forward."""
        orders = (jax.grad, jaxcfa.forward_dynamics), (jax.jacfwd, through_the_algorithm)
        return [
            jax.jacfwd(first(lambda q, f=function: jnp.sum(jnp.sin(f(model, q, v, tau, f_ext)))))(q)
            for first, function in orders
        ]

    assert_close(*hessians(q), 1e-10)


def reactions(model, q, v, tau, f_ext):
    qdd, wrenches = jaxcfa.joint_reactions(model, q, v, tau, f_ext)
    return jnp.append(qdd, wrenches)


FUNCTIONS = {
    "forward_dynamics": jaxcfa.forward_dynamics,
    "joint_reactions": reactions,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_by_torques_alone(name):
    """What stays fixed has tangents that JAX knows to be zero, which not all of its rules accept."""
    model = jaxcfa.chain(2)
    q, v, tau, f_ext = random_state(model)

    def orders(loss):
        def function(tau):
            y = FUNCTIONS[name](model, q, v, tau, f_ext)
            return loss(y) @ jnp.arange(1.0, 1.0 + len(y))

        return second_derivatives(function, tau, v)

    jax.eval_shape(lambda: orders(lambda y: y))
    if name == "forward_dynamics":
        *found, expected = jax.jit(lambda: orders(lambda y: jnp.sin(0.01 * y)))()
        assert_close(found, [np.asarray(expected)] * 4, 1e-7)


class Dense(AbstractForwardDynamics):
    """A user's own method that has no derivative itself."""

    def solve(self, model, motions, loads):
        mass_matrix = jaxcfa.mass_matrix(model, motions.q, motions)
        bias = jaxcfa.bias_forces(model, motions.q, motions.v, loads.f_ext, motions=motions)
        return jax.lax.stop_gradient(jnp.linalg.solve(mass_matrix, loads.tau - bias))


def test_methods_need_no_derivatives_of_their_own():
    model = mechanism("straight chain")
    q, v, tau, f_ext = random_state(model)

    def loss(method, armature):
        changed = eqx.tree_at(lambda m: m.armature, model, armature)
        return jnp.sum(jnp.cos(jaxcfa.forward_dynamics(changed, q, v, tau, f_ext, method)))

    gradients = [jax.grad(loss, argnums=1)(method, model.armature) for method in (Dense(), ABA())]
    assert_close(*gradients, 1e-10)


class SolverWithNumbers(AbstractMassSolver):
    """With leaves that are no numbers of the model's type, one of them not finite."""

    inverse_of_mass: Array
    order: Array
    unused: Array

    def solve(self, model, b):
        return self.inverse_of_mass[self.order][:, self.order] @ b


class Numbered(AbstractForwardDynamics):
    """A user's own method with a field of integers and one of booleans, and such a solver."""

    order: Array
    switch: Array

    def solve(self, model, motions, loads):
        return self.solve_and_factor(model, motions, loads)[0]

    def solve_and_factor(self, model, motions, loads):
        inverse = jnp.linalg.inv(jaxcfa.mass_matrix(model, motions.q))
        solver = SolverWithNumbers(inverse, self.order, jnp.array(jnp.nan))
        return solver.solve(model, loads.tau - jaxcfa.bias_forces(model, motions.q, motions.v, loads.f_ext)), solver


class NumberedAtRest(Numbered):
    """The same without a solver of its own."""

    def solve_and_factor(self, model, motions, loads):
        return self.solve(model, motions, loads), super(Numbered, self).solve_and_factor(model, motions, loads)[1]

    def solve(self, model, motions, loads):
        return super().solve_and_factor(model, motions, loads)[0]


@pytest.mark.parametrize("kind", [Numbered, NumberedAtRest])
def test_methods_and_solvers_may_have_integers(kind):
    """They have no derivatives. And of a solver only the accelerations that it finds must be finite."""
    model = jaxcfa.chain(2)
    state = random_state(model)
    method = kind(jnp.arange(2), jnp.array(True))

    inverse = np.linalg.inv(jaxcfa.mass_matrix(model, state.q))
    total = jax.grad(lambda tau: jnp.sum(jaxcfa.forward_dynamics(model, *state[:2], tau, None, method)))
    assert_close(total(state.qdd), np.sum(inverse, axis=0))
    jax.eval_shape(jax.jacfwd(total), state.qdd)
    if kind is Numbered:
        assert_close(jaxcfa.forward_dynamics_derivatives(model, *state, method).dtau, inverse)


@pytest.mark.slow
def test_derivatives_are_differences():
    """Forward and reverse mode agree with differences, also at zero angles, unit quaternions and straight chains."""
    model = mechanism("all together")
    state, direction = random_state(model), random_state(model, 7)
    weights = jnp.arange(1.0, 1.0 + model.nv)

    def along(t, q, v):
        moved = jaxcfa.integrate(model, q, direction.v, t)
        heavier = eqx.tree_at(lambda m: (m.mass, m.com), model, (model.mass * (1 + t), model.com + t))
        arguments = moved, v + t * direction.qdd, state.qdd + t, state.f_ext + t * direction.f_ext
        return jaxcfa.forward_dynamics(heavier, *arguments)

    h = 1e-4
    times = h * jnp.array([-2.0, -1.0, 1.0, 2.0])

    @jax.jit
    def both_modes(q, v):
        _, forward = jax.linearize(lambda t: along(t, q, v), 0.0)
        reverse = jax.linear_transpose(forward, 0.0)(weights)[0]
        return forward(1.0), reverse, jax.vmap(lambda t: along(t, q, v))(times)

    for q, v in ((state.q, state.v), (jaxcfa.neutral(model), 0 * state.v)):
        forward, reverse, values = both_modes(q, v)
        # Fourth-order central differences.
        near, far = values[2] - values[1], values[3] - values[0]
        assert_close(forward, (8 * near - far) / (12 * h), 1e-7)
        assert_close(reverse, forward @ weights, 1e-9)


def test_matrices_where_precisions_are_mixed():
    """Everything is done in the widest type, also by scans, whose carries have one type."""
    model = jaxcfa.chain(2).astype("float32")
    q, v, tau = np.array([0.3, -0.8], np.float32), np.ones(2, np.float32), np.array([0.1, 0.2])
    found = jaxcfa.forward_dynamics_derivatives(model, q, v, tau, method=ABA(schedule="scan"))
    assert found.dq.dtype == np.float64
    assert_close(found, jaxcfa.forward_dynamics_derivatives(model.astype("float64"), q, v, tau), 1e-5)

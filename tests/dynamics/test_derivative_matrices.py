"""Closed forms of the derivatives of inverse and forward dynamics, against differentiation and against Pinocchio."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pinocchio as pin
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa.structured import Doubling, Sequential
from mechanisms import mechanism, random_state, random_states
from pinocchio_reference import Robots
from robots import urdf_path

pytestmark = pytest.mark.filterwarnings("ignore::jaxcfa.io.ModelWarning")


def closed_forms(model, q, v, x, f_ext, schedule=None):
    return (
        jaxcfa.inverse_dynamics_derivatives(model, q, v, x, f_ext, schedule),
        jaxcfa.forward_dynamics_derivatives(model, q, v, x, f_ext, schedule=schedule),
    )


compiled = jax.jit(closed_forms, static_argnames="schedule")


@functools.partial(jax.jit, static_argnums=0)
def by_differentiation(function, model, q, v, x, f_ext):
    def moved(dq, v, x):
        return function(model, jaxcfa.integrate(model, q, dq), v, x, f_ext)

    return jax.jacfwd(moved, (0, 1, 2))(jnp.zeros_like(v), v, x)


CASES = [
    pytest.param("mixed tree", Sequential(), marks=pytest.mark.slow),
    ("ball joints", Doubling()),
    ("straight chain", None),
]


@pytest.mark.parametrize(("name", "schedule"), CASES, ids=str)
def test_closed_forms_are_derivatives(name, schedule):
    """All joint types, several roots, external wrenches and gravity askew; and at rest in the neutral configuration."""
    model = mechanism(name)
    state = random_state(model)
    still = (jaxcfa.neutral(model), *(0 * x for x in state[1:]))
    for arguments in (state, still):
        inverse, forward = compiled(model, *arguments, schedule=schedule)
        assert_close(tuple(inverse), by_differentiation(jaxcfa.inverse_dynamics, model, *arguments), 1e-10)
        if name == "straight chain":
            assert_close(tuple(forward), by_differentiation(jaxcfa.forward_dynamics, model, *arguments), 1e-10)


def test_derivatives_of_the_closed_forms():
    """With respect to a parameter: the solver that they are found with has no derivative of its own."""
    model = mechanism("straight chain")
    arguments = random_state(model)

    def total(scale):
        changed = eqx.tree_at(lambda m: m.mass, model, scale * model.mass)
        return sum(jnp.sum(jnp.sin(x)) for x in jaxcfa.forward_dynamics_derivatives(changed, *arguments))

    found = jax.jit(jax.value_and_grad(total))
    (above, _), (below, _), (_, slope) = (found(1.0 + h) for h in (1e-6, -1e-6, 0.0))
    np.testing.assert_allclose((above - below) / 2e-6, slope, rtol=1e-7)


def test_nothing_that_moves():
    model, empty = jaxcfa.ModelBuilder().build(), jnp.zeros(0)
    for found in closed_forms(model, empty, empty, empty, jnp.zeros((0, 6))):
        assert all(matrix.shape == (0, 0) for matrix in found)


@pytest.mark.slow
def test_batches_and_single_precision():
    model = mechanism("straight chain", "float32")
    states = random_states(model, 2)
    found = jax.jit(jax.vmap(lambda *x: closed_forms(model, *x)))(*states)
    double = [compiled(mechanism("straight chain"), *(np.asarray(x[i], float) for x in states)) for i in range(2)]
    for x, *y in zip(jax.tree.leaves(found), *map(jax.tree.leaves, double), strict=True):
        assert x.dtype == np.float32
        assert_close(x, np.stack(y), 3e-5)


def test_second_derivatives():
    """The closed forms can be differentiated: those of the mass matrix by configurations, say."""
    model = mechanism("straight chain")
    q, v, qdd, f_ext = random_state(model)

    @jax.jit
    def both(q):
        by_form = jax.jvp(lambda q: jaxcfa.inverse_dynamics_derivatives(model, q, v, qdd, f_ext).dq @ v, (q,), (qdd,))
        by_jax = jax.jvp(
            lambda q: jax.jvp(lambda q: jaxcfa.inverse_dynamics(model, q, v, qdd, f_ext), (q,), (v,))[1], (q,), (qdd,)
        )
        return by_form, by_jax

    assert_close(*both(q), 1e-10)


def in_our_coordinates(both, state, result, matrices, x_to, result_from):
    """Pinocchio's derivatives of `(q, v, x) -> result` in this package's coordinates.

    A floating base has other velocities there, and the map between the two depends on the configuration: so what
    Pinocchio's matrices say is differentiated together with that map.
    """
    (q, v, x), coordinates = state, both.coordinates
    turn, v_there, x_there = coordinates.velocity_map(q), coordinates.v_to(q, v), x_to(q, v, x)

    def ours(dq, v, x):
        moved = jaxcfa.integrate(both.model, q, dq)
        by_q, by_v, by_x = matrices
        change = by_q @ (turn @ dq) + by_v @ (coordinates.v_to(moved, v) - v_there)
        return result_from(moved, v, result + change + by_x @ (x_to(moved, v, x) - x_there))

    return jax.jacfwd(ours, (0, 1, 2))(jnp.zeros_like(v), v, x)


def symmetric(upper):
    """Pinocchio fills in only the upper triangle."""
    return np.triu(upper) + np.triu(upper, 1).T


def pinocchio_derivatives(pin_model, q, v, qdd, tau):
    """Torques and their derivatives, accelerations and theirs, in Pinocchio's coordinates."""
    data = pin_model.createData()
    torques = pin.rnea(pin_model, data, q, v, qdd).copy()
    *inverse, matrix = (x.copy() for x in pin.computeRNEADerivatives(pin_model, data, q, v, qdd))
    accelerations = pin.aba(pin_model, data, q, v, tau).copy()
    pin.computeABADerivatives(pin_model, data, q, v, tau)
    forward = data.ddq_dq.copy(), data.ddq_dv.copy(), symmetric(data.Minv)
    return torques, accelerations, *inverse, symmetric(matrix), *forward


ROBOTS = {
    False: ("panda.urdf", "ur5_robot.urdf", "double_pendulum_continuous.urdf"),
    True: ("anymal_c_simple_description/urdf/anymal.urdf", "talos_reduced.urdf", "solo12.urdf"),
}


@pytest.mark.slow
@pytest.mark.parametrize("floating_base", ROBOTS)
def test_robots_against_pinocchio(floating_base):
    names = ROBOTS[floating_base]
    both = Robots.read(list(map(urdf_path, names)), floating_base)
    model, c = both.model, both.coordinates
    q, v, x, _ = random_state(model)

    @jax.jit
    def there(q, v, x):
        return c.q_to(q), c.v_to(q, v), c.qdd_to(q, v, x), c.tau_to(q, x)

    @jax.jit
    def here(state, torques, accelerations, matrices):
        by_torques = in_our_coordinates(both, state, torques, matrices[:3], c.qdd_to, lambda q, v, y: c.tau_from(q, y))
        return *by_torques, *in_our_coordinates(
            both, state, accelerations, matrices[3:], lambda q, v, y: c.tau_to(q, y), c.qdd_from
        )

    q_pin, *others = jax.tree.map(np.asarray, there(q, v, x))
    parts = [
        pinocchio_derivatives(pin_model, q_pin[part], *(y[dof] for y in others))
        for pin_model, part, dof in zip(both.pin_models, both.q_pin, both.dofs, strict=True)
    ]
    torques, accelerations, *matrices = zip(*parts, strict=True)
    vectors = map(np.concatenate, (torques, accelerations))
    expected = here((q, v, x), *vectors, list(map(both.block_diagonal, matrices)))
    found = jax.tree.leaves(compiled(model, q, v, x, jnp.zeros((model.nb, 6))))
    for ours, theirs in zip(found, expected, strict=True):
        for name, dof in zip(names, both.dofs, strict=True):
            assert np.max(np.abs(ours[dof] - theirs[dof])) < 1e-8 * np.max(np.abs(theirs[dof])), name

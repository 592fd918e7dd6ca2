"""Linearised steps: those in closed form and those differentiated by JAX, against differences of steps."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa.closed_chains import Projection, connect
from jaxcfa.joints import Spherical
from jaxcfa.model import Actuators
from jaxcfa.simulation import ExplicitEuler, ImplicitMidpoint, RungeKutta4, SemiImplicitEuler, linearize, step
from mechanisms import random_state

DT = 0.02
# So that differences see the friction's derivative.
FRICTION_VELOCITY = 0.5


def with_all_forces(model: jaxcfa.Model) -> jaxcfa.Model:
    """Passive forces, two actuators, and for the last degree of freedom a range and an effort limit."""
    random = np.random.default_rng(0)
    unlimited = np.full(2, np.inf)
    moment, gradient = np.zeros((2, model.nv)), np.zeros((2, model.nq))
    moment[:, -2:], gradient[:, -2:] = random.normal(size=(2, 2, 2))
    actuators = Actuators(
        names=("one", "two"),
        frames=(None, None),
        moment=moment,
        wrench=np.zeros((2, 6)),
        length_gradient=gradient,
        length_offset=np.zeros(2),
        gain=np.array([2.0, 3.0]),
        bias=random.normal(size=(2, 3)),
        control_lower=-unlimited,
        control_upper=unlimited,
        force_lower=-unlimited,
        force_upper=unlimited,
    )
    changes = {
        "damping": random.uniform(0.1, 0.5, model.nv),
        "friction_loss": random.uniform(0.1, 0.5, model.nv),
        "stiffness": random.uniform(0.1, 0.5, model.nv),
        "actuators": actuators,
    }
    model = dataclasses.replace(model, **jax.tree.map(jnp.asarray, changes))
    limits = model.limits.upper.at[-1].set(0.3), model.limits.effort.at[-1].set(0.3)
    return eqx.tree_at(lambda m: (m.limits.upper, m.limits.effort), model, limits)


def check(model, q, v, inputs, integrator, **options):
    """A and B are the central differences of steps, in tangent coordinates."""
    n, h = 2 * model.nv + len(inputs), 1e-5
    changes = h * np.concatenate([np.zeros((1, n)), np.eye(n), -np.eye(n)])

    @jax.jit
    def both(q, v, inputs):
        def displaced(x):
            dq, dv, du = jnp.split(x, [model.nv, 2 * model.nv])
            return step(model, jaxcfa.integrate(model, q, dq), v + dv, inputs + du, DT, integrator, **options)

        q_next, v_next = jax.vmap(displaced)(changes)
        dq = jax.vmap(lambda x: jaxcfa.difference(model, q_next[0], x))(q_next)
        _, plus, minus = jnp.split(jnp.concatenate([dq, v_next], axis=1), [1, n + 1])
        return linearize(model, q, v, inputs, DT, integrator, **options), (plus - minus).T / (2 * h)

    (a, b), expected = both(q, v, inputs)
    assert a.shape == (2 * model.nv, 2 * model.nv)
    assert_close(jnp.concatenate([a, b], axis=1), expected, rtol=2e-7)


def of_all_types() -> tuple:
    """A tree of all joint types with a hinge at its end, and a state."""
    tree = jaxcfa.random_tree(8, jax.random.key(1), armature=0.05, floating_base=True)
    model = jaxcfa.combine([tree, jaxcfa.chain(2)], ["", "chain "])
    x = random_state(model)
    return model, x.q, x.v


@pytest.mark.parametrize(
    "mechanism",
    [
        lambda: (jaxcfa.chain(2, length=0.5), jnp.array([0.3, 1.2]), jnp.array([2.0, -1.0])),
        pytest.param(of_all_types, marks=pytest.mark.slow),
    ],
    ids=["double pendulum", "joints of all types"],
)
def test_steps_of_euler_with_all_forces(mechanism):
    """In closed form: passive forces, actuators, one of which is at a limit, and a stop."""
    model, q, v = mechanism()
    model, q = with_all_forces(model), q.at[-1].set(0.32)  # beyond the range
    controls = jnp.array([0.1, 5.0])
    assert jnp.abs(jaxcfa.actuator_forces(model, q, v, controls))[-1] == 0.3
    options = {"actuated": True, "limits": True, "friction_velocity": FRICTION_VELOCITY}
    check(model, q, v, controls, SemiImplicitEuler(), **options)


def test_explicit_steps_of_euler():
    q, v, tau = jnp.array([[0.3, -1.2], [2.0, -3.0], [0.5, 0.1]])
    check(jaxcfa.chain(2, length=0.5, damping=0.1), q, v, tau, ExplicitEuler())


def test_subclasses_are_differentiated_as_they_are():
    """A step of one's own is not the one that it is derived from."""

    class Backwards(ExplicitEuler):
        def step(self, equation, q, v, tau, f_ext, dt):
            return super().step(equation, q, v, tau, f_ext, -dt)

    q, v, tau = jnp.array([[0.3, -1.2], [2.0, -3.0], [0.5, 0.1]])
    check(jaxcfa.chain(2, length=0.5, damping=0.1), q, v, tau, Backwards())


@pytest.mark.slow
@pytest.mark.parametrize("integrator", [RungeKutta4(), ImplicitMidpoint()], ids=["RK4", "midpoint"])
def test_other_steps(integrator):
    """Quaternions count three times."""
    model = jaxcfa.chain(2, Spherical(), length=0.5, damping=0.1)
    x = random_state(model)
    check(model, x.q, 3 * x.v, jnp.ones(model.nv), integrator)


@pytest.mark.parametrize("stabilization", [None, pytest.param(Projection(), marks=pytest.mark.slow)], ids=str)
def test_steps_with_loops(stabilization):
    """A planar loop, so that one row is redundant, in a state that is off it: steps are defined there, too."""
    model = jaxcfa.chain(3, length=0.5)
    q, v, tau = jnp.array([[0.3, 1.9, 2.3], [1.0, -2.0, 0.5], [1.0, 2.0, 3.0]])
    options = {"constraints": connect(model, 0, 2), "stabilization": stabilization}
    check(model, q, v, tau, SemiImplicitEuler(), **options)

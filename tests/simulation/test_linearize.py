"""Linearised steps: those in closed form and those differentiated by JAX, against differences of steps."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa.closed_chains import Projection
from jaxcfa.joints import Revolute, Spherical
from jaxcfa.model import Actuators
from jaxcfa.simulation import ExplicitEuler, ImplicitMidpoint, RungeKutta4, SemiImplicitEuler, linearize, step
from loops import make
from mechanisms import random_state

DT = 0.02
# So that differences see the friction's derivative.
FRICTION_VELOCITY = 0.5


@functools.cache
def robot() -> jaxcfa.Model:
    """A body on a ball joint with two hinges, one of them in a range; passive forces and actuators."""
    builder = jaxcfa.ModelBuilder()
    body = {"mass": 1.0, "com": (0.1, 0.05, 0.2), "inertia": (0.02, 0.03, 0.015), "armature": 0.01}
    hinge = {"lower": -0.5, "upper": 0.3, "effort_limit": 0.3}
    builder.add_body("trunk", joint=Spherical(), **body)
    builder.add_body("lower", "trunk", Revolute((0, 1, 0)), (0.0, 0.2, 0.3), **(body | hinge))
    builder.add_body("other", "trunk", Revolute((1, 0, 0)), (0.0, 0.3, 0.0), **body)
    model = builder.build()
    random = np.random.default_rng(0)
    passive = tuple(random.uniform(0.1, 0.5, (3, model.nv)))
    model = eqx.tree_at(lambda m: (m.damping, m.friction_loss, m.stiffness), model, passive)
    unlimited = np.full(2, np.inf)
    driven = [np.r_[of("lower_joint"), of("other_joint")] for of in (model.v_slice, model.q_slice)]
    moment, gradient = np.zeros((2, model.nv)), np.zeros((2, model.nq))
    moment[:, driven[0]], gradient[:, driven[1]] = random.normal(size=(2, 2, 2))
    actuators = Actuators(
        names=("both", "hinge"),
        moment=moment,
        length_gradient=gradient,
        length_offset=np.zeros(2),
        gain=np.array([2.0, 3.0]),
        bias=random.normal(size=(2, 3)),
        control_lower=-unlimited,
        control_upper=unlimited,
        force_lower=-unlimited,
        force_upper=unlimited,
    )
    return eqx.tree_at(lambda m: m.actuators, model, jax.tree.map(jnp.asarray, actuators))


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


def test_steps_of_euler_with_all_forces():
    """In closed form: passive forces, actuators, one of which is at a limit, and a stop."""
    model, v = robot(), jnp.array(np.random.default_rng(1).normal(size=5))
    q = jnp.array([0.5, -0.5, 0.1, 0.7, 0.4, 0.4])  # one hinge is beyond its range, the other has none
    controls = jnp.array([0.1, 5.0])
    clipped = jnp.abs(jaxcfa.actuator_forces(model, q, v, controls)) == model.limits.effort
    assert clipped[model.v_slice("lower_joint")].all()
    options = {"actuated": True, "limits": True, "friction_velocity": FRICTION_VELOCITY}
    check(model, q, v, controls, SemiImplicitEuler(), **options)


def test_explicit_steps_of_euler():
    q, v, tau = jnp.array([[0.3, -1.2], [2.0, -3.0], [0.5, 0.1]])
    check(jaxcfa.chain(2, length=0.5, damping=0.1), q, v, tau, ExplicitEuler())


@pytest.mark.slow
@pytest.mark.parametrize("integrator", [RungeKutta4(), ImplicitMidpoint()], ids=["RK4", "midpoint"])
def test_other_steps(integrator):
    """Quaternions count three times."""
    model = jaxcfa.chain(2, Spherical(), length=0.5, damping=0.1)
    x = random_state(model)
    check(model, x.q, 3 * x.v, jnp.ones(model.nv), integrator)


@pytest.mark.parametrize("stabilization", [None, pytest.param(Projection(), marks=pytest.mark.slow)], ids=str)
def test_steps_with_loops(stabilization):
    """With redundant constraints, in a state that is off them: steps are defined there, too."""
    loop = make("four-bar by points")
    q, v, tau = jnp.asarray(loop.guess), jnp.array([1.0, -2.0, 0.5]), jnp.array([1.0, 2.0, 3.0])
    options = {"constraints": loop.constraints, "stabilization": stabilization}
    check(loop.model, q, v, tau, SemiImplicitEuler(), **options)

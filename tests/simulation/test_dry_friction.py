"""Dry friction of joints in implicit steps, against Coulomb's law and short steps."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close, second_derivatives
from jaxcfa.closed_chains import connect
from jaxcfa.joints import Free, Prismatic
from jaxcfa.simulation import SemiImplicitEuler, linearize, rollout, step

MASS, LOSS = 2.0, 3.0
SPEED = 1e-3  # the default friction velocity


@functools.cache
def sliders() -> jaxcfa.Model:
    """Two sliders with dry friction and one without, along x; and a ball that falls, far above the ground."""
    builder = jaxcfa.ModelBuilder()
    for name, loss in {"rough": LOSS, "rougher": 2 * LOSS, "smooth": 0.0}.items():
        builder.add_body(name, None, Prismatic((1, 0, 0)), mass=MASS, friction_loss=loss)
    builder.add_body("ball", None, Free(), placement=[0, 0, 9], mass=1.0, inertia=np.eye(3))
    return builder.build()


def options(kind: str) -> dict:
    """Options of steps: contacts that touch nothing, or none."""
    return {"contacts": jaxcfa.ground_contacts(sliders(), "ball", radius=0.1)} if kind == "contacts" else {}


def pulled(force, v0, dt: float, seconds: float, kind: str = "tree") -> jax.Array:
    """Velocities of the sliders (case, t, 3) after steps under forces from velocities, both of each case (case, 3)."""
    model, steps = sliders(), round(seconds / dt)

    def one(force, v0):
        tau = jnp.zeros((steps, model.nv)).at[:, :3].set(force)
        v = jnp.zeros(model.nv).at[:3].set(v0)
        return rollout(model, jaxcfa.neutral(model), v, tau, dt, **options(kind)).v[1:, :3]

    return jax.vmap(one)(jnp.asarray(force), jnp.asarray(v0))


@pytest.mark.parametrize(("dt", "kind"), [(0.01, "tree"), (0.01, "contacts"), (0.001, "tree")])
def test_sliders_obey_coulombs_law(dt, kind):
    """Pulled by little more than friction, by less, and by more against the velocity, through zero."""
    close = 3 * SPEED
    forces, starts = [[3.5, 7.0, 1.0], [2.5, -5.9, 0.0], [0.0, -8.0, 0.0]], [[0.0] * 3, [0.0] * 3, [0.2, 0.5, 0.3]]
    start, stick, v = pulled(forces, starts, dt, 0.2, kind)
    assert_close(start[-1], [0.5 / MASS * 0.2, 1 / MASS * 0.2, 1 / MASS * 0.2], close)
    assert jnp.all(jnp.abs(stick[-1]) < jnp.array([1.6, close / SPEED, 1e-9]) * SPEED)
    stops, turns = 0.1 * 2.0 * MASS / LOSS, 0.5 * MASS / (2 * LOSS + 8.0)
    t = dt * np.arange(1, 1 + len(v))
    coulomb = np.where(t < turns, 0.5 - 14 / MASS * t, -2 / MASS * (t - turns))
    assert_close(v[:, 0], np.maximum(0.2 - LOSS / MASS * t, 0), 2 * LOSS / MASS * dt + SPEED)
    assert stops < 0.2
    assert_close(v[:, 1], coulomb, 14 / MASS * dt + close)
    assert_close(v[:, 2], np.full(len(v), 0.3))


def test_friction_never_exceeds_its_bound():
    """Of one slider, from all kinds of velocities under all kinds of forces; and it never drives."""
    model = sliders()
    force, v = (x.ravel() for x in np.meshgrid(np.linspace(-20, 20, 41), np.linspace(-0.1, 0.1, 41) ** 3))

    def felt(force, v, dt):
        tau = jnp.zeros(model.nv).at[0].set(force)
        after = step(model, jaxcfa.neutral(model), tau.at[0].set(v), tau, dt).v[0]
        return force - MASS * (after - v) / dt, after

    for dt in (0.02, 1e-4):
        friction, after = jax.vmap(functools.partial(felt, dt=dt))(force, v)
        assert jnp.max(jnp.abs(friction)) < LOSS * (1 + 1e-9)
        assert jnp.max(jnp.abs(friction)) > LOSS * (1 - 1e-6)
        assert jnp.all(friction * after > -1e-9)


def test_closed_loops():
    """Two sliders that are held together feel the friction of both."""
    model = sliders()
    tau = jnp.zeros((20, model.nv)).at[:, 0].set(10.0)
    q = jaxcfa.neutral(model)
    motion = rollout(model, q, jnp.zeros(model.nv), tau, 0.01, constraints=connect(model, "rough", "rougher"))
    assert_close(motion.v[-1, :2], np.full(2, 1 / (2 * MASS) * 0.2), 4 * SPEED)


@functools.cache
def arm(dtype: str = "float64") -> jaxcfa.Model:
    """Three links without weight, and with dry friction in all joints but the last."""
    model = jaxcfa.chain(3, length=0.3, gravity=(0, 0, 0))
    return eqx.tree_at(lambda m: m.friction_loss, model, jnp.array([0.5, 0.3, 0.0])).astype(dtype)


def test_motions_of_an_arm_converge():
    """Joints that stop and turn, against steps that are 25 times shorter. Without the second round it is 20 %."""

    def moved(dt):
        t = dt * jnp.arange(round(0.6 / dt))
        tau = jnp.sin(9 * t[:, None]) * jnp.array([1.5, 0.7, 0.2])
        model = eqx.tree_at(lambda m: m.friction_loss, arm(), jnp.array([0.5, 0.3, 0.05]))
        return rollout(model, jnp.array([0.5, -0.8, 0.4]), jnp.zeros(3), tau, dt).v[:: round(0.005 / dt)]

    exact = moved(0.005 / 25)
    assert jnp.linalg.norm(moved(0.005) - exact) < 0.07 * jnp.linalg.norm(exact)


def test_models_that_are_traced():
    """By values that only show at run time: the same motion, one by one and in a batch with and without friction."""
    model = arm()
    without = eqx.tree_at(lambda m: m.friction_loss, model, jnp.zeros(3))
    q, v, tau = jnp.array([[0.5, -0.8, 0.4], [0.0, 0.2, -0.1], [1.0, -0.5, 0.3]])

    def after(model):
        return step(model, q, v, tau, 0.01).v

    expected = [after(model), after(without)]
    for x, y in zip((model, without), expected, strict=True):
        assert_close(jax.jit(after)(x), y, 1e-12)
    both = jax.tree.map(lambda *x: jnp.stack(x), model, without)
    assert_close(jax.vmap(after)(both), jnp.stack(expected), 1e-12)
    assert_close(after(without), v + 0.01 * jaxcfa.forward_dynamics(without, q, v, tau), 1e-12)


def test_derivative_by_friction_where_there_is_none():
    """A body of 1 kg that 1 N pulls loses F dt of its speed."""
    model = jaxcfa.chain(1, Prismatic((1, 0, 0)), mass=1.0)

    def speed(loss):
        own = eqx.tree_at(lambda m: m.friction_loss, model, loss[None])
        return rollout(own, jnp.zeros(1), jnp.zeros(1), jnp.ones((20, 1)), 0.01).v[-1, 0]

    for loss in (0.0, 1e-3):
        assert_close(jax.grad(speed)(jnp.array(loss)), -0.2, 1e-6)


def test_rounds():
    """One is the friction of the old velocity, and smooth."""
    model = jaxcfa.chain(1, Prismatic((1, 0, 0)), mass=MASS)
    model = eqx.tree_at(lambda m: m.friction_loss, model, jnp.array([LOSS]))
    v, tau, zero, dt = jnp.array([0.3 * SPEED]), jnp.array([5.0]), jnp.zeros(1), 0.01
    once = SemiImplicitEuler(friction_rounds=1)
    damping = LOSS * np.tanh(0.3) / v
    expected = (MASS * v + dt * tau) / (MASS + dt * damping)
    assert_close(step(model, zero, v, tau, dt, once).v, expected, 1e-12)
    a, b = linearize(model, zero, v, tau, dt, once)
    of_v, of_tau = jax.jacobian(lambda v, tau: step(model, zero, v, tau, dt, once).v, (0, 1))(v, tau)
    assert_close(jnp.concatenate([a[1:, 1:], b[1:]]), jnp.concatenate([of_v, of_tau]))
    assert SemiImplicitEuler() == SemiImplicitEuler(2)
    for wrong in (0, 3, 1.5):
        with pytest.raises(ValueError, match="friction_rounds must be"):
            SemiImplicitEuler(friction_rounds=wrong)


@pytest.mark.parametrize("kind", ["tree", pytest.param("contacts", marks=pytest.mark.slow)])
def test_derivatives(kind):
    """Sticking, sliding and turning; by the state, torques and friction; to second order."""
    model = jaxcfa.chain(2, Prismatic((1, 0, 0)), mass=MASS)
    touching = {"contacts": jaxcfa.ground_contacts(model, "tip", [0, 0, 9])} if kind == "contacts" else {}

    def total(x):
        v, tau, loss = jnp.split(x, 3)
        own = eqx.tree_at(lambda m: m.friction_loss, model, loss)
        end = step(own, jnp.zeros(2), v, tau, 0.02, friction_velocity=0.05, **touching).v
        return jnp.sin(end[0]) + jnp.cos(3 * end[1])

    along = jnp.array([0.3, -0.2, 0.5, 0.4, 0.2, 0.1])
    found = jax.jit(jax.vmap(lambda x: jnp.stack(second_derivatives(total, x, along))))(
        jnp.array([[0.0, 0.5, 2.0, 3.5, 3.0, 2.0], [0.02, -0.01, -9.0, 9.0, 3.0, 6.0]])
    )
    for x in found:
        assert_close(x[1:4], x[0] * jnp.ones(3), 1e-9)
        assert_close(x[0], x[4], 1e-6)
        assert abs(x[4]) > 1e-3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_linearised_from_rest(dtype):
    """Nothing is NaN at rest, and what sticks does not move."""
    model, zero = arm(dtype), jnp.zeros(3, dtype)
    a, b = linearize(model, zero, zero, zero, 0.01)
    assert a.dtype == dtype
    assert np.all(np.isfinite(a))
    assert np.all(np.isfinite(b))
    assert jnp.abs(b[3:5]).max() < 0.03 * jnp.abs(b[5, 2])
    slope = jax.jacobian(lambda tau: step(model, zero, zero, tau, 0.01).v)(zero)
    assert_close(b[3:], slope)


def test_friction_velocity_may_be_traced():
    """Batched, differentiated, and changed without a new program."""
    model = eqx.tree_at(lambda m: m.friction_loss, jaxcfa.chain(1), jnp.full(1, 0.2))
    v = jnp.full(1, 0.05)

    def after(velocity):
        return jaxcfa.step(model, jnp.zeros(1), v, jnp.zeros(1), 0.01, friction_velocity=velocity).v[0]

    velocities = jnp.array([0.01, 0.1, 1.0])
    assert_close(jax.vmap(after)(velocities), jnp.stack([after(float(x)) for x in velocities]))
    h = 1e-5
    assert_close(jax.grad(after)(0.1), (after(0.1 + h) - after(0.1 - h)) / (2 * h), rtol=1e-6)
    with pytest.raises(ValueError, match="friction_velocity must be positive"):
        after(-1.0)
    with pytest.raises(ValueError, match=r"friction_velocity must be one number, got shape \(3,\)"):
        jax.jit(after)(velocities)

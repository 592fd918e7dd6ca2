"""Accelerations on contacts are the same in either kind of unknowns, and by every algorithm."""

import functools

import jax
import jax.numpy as jnp
import pytest

import jaxcfa
from helpers import assert_close, cast
from jaxcfa import ABA, CFA, JSI, ground_contacts, joints
from jaxcfa.contacts._step import _law, accelerations_in_contact
from jaxcfa.contacts._systems import Linearised, system_of
from jaxcfa.dynamics import FactoredFD
from jaxcfa.dynamics._method import Loads
from jaxcfa.simulation._equation_of_motion import _OfTree

CORNERS = [[x, y, z] for x in (-0.1, 0.1) for y in (-0.2, 0.2) for z in (-0.1, 0.1)]


class OfTreeWithoutRoot(_OfTree):
    """For which impulses are the unknowns."""

    def respond_by_root(self):
        return None


def fallen(dtype):
    """A tree of 4 bodies, of which sixteen points of two are in the ground or near it, and slide."""
    model = jaxcfa.random_tree(4, jax.random.key(3), floating_base=True)
    contacts = ground_contacts(
        model, [0] * 8 + [2] * 8, CORNERS + CORNERS, friction=0.7, stiffness=500.0, dissipation=0.2
    )
    q = jaxcfa.random_configuration(model, jax.random.key(1))
    v = 0.3 * jax.random.normal(jax.random.key(2), (model.nv,))
    gaps = jnp.sort(jaxcfa.contact_state(model, contacts, q, v).gap)
    return cast((model, contacts, q.at[2].add(-0.5 * (gaps[5] + gaps[6])), v), dtype)


@functools.partial(jax.jit, static_argnums=(0, 5))
def accelerations(kind, model, contacts, q, v, method=None):
    loads = Loads(jnp.zeros_like(v), jnp.zeros((model.nb, 6), v.dtype))
    motion = kind(ABA() if method is None else method, model, q, v, loads)
    return accelerations_in_contact(model, contacts, q, v, motion, jnp.asarray(2e-3, v.dtype))


@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_impulses_and_velocities_are_unknowns_of_the_same_equations(dtype):
    model, contacts, q, v = fallen(dtype)
    assert model.nv < 3 * contacts.count

    @functools.partial(jax.jit, static_argnums=0)
    def found(kind, model, q, v):
        def change(model, q, v):
            return v + 2e-3 * accelerations(kind, model, contacts, q, v)

        along = jax.jvp(change, (model, q, v), jax.tree.map(lambda x: 0.1 * jnp.ones_like(x), (model, q, v)))
        back = jax.grad(lambda q, v: jnp.sum(change(model, q, v) ** 2), (0, 1))(q, v)
        return *along, *back

    forces = jaxcfa.contact_state(model, contacts, q, v).force
    assert 4 <= jnp.sum(jnp.any(forces != 0, axis=1)) <= 12
    given = model, q, v
    assert_close(found(_OfTree, *given), found(OfTreeWithoutRoot, *given), 1e-10 if dtype == jnp.float64 else 2e-4)


def test_linear_equations_and_their_transposes():
    model, contacts, q, v = fallen(jnp.float64)
    dt, keys = jnp.asarray(2e-3), jax.random.split(jax.random.key(4), 4)
    sizes = (model.nv,), (contacts.count, 3)
    b, y = (tuple(map(jax.random.normal, pair, sizes)) for pair in (keys[:2], keys[2:]))

    @functools.partial(jax.jit, static_argnums=0)
    def solutions(kind):
        motion = kind(ABA(), model, q, v, Loads(jnp.zeros_like(v), jnp.zeros((model.nb, 6))))
        jacobian, law = _law(model, contacts, q, v, dt)
        u = jacobian @ v
        roots = law.roots(u, law.impulses(u))
        linear = Linearised(motion, jacobian, law, law.slopes(u), roots, system_of(motion, jacobian)[1])
        return linear.solve(b), linear.solve_transposed(y)

    (x, z), others = solutions(_OfTree), solutions(OfTreeWithoutRoot)
    assert_close((x, z), others, 1e-10)
    product = sum(jnp.vdot(*pair) for pair in zip(y, x, strict=True))
    assert_close(sum(jnp.vdot(*pair) for pair in zip(z, b, strict=True)), product, 1e-10)


def test_algorithms_agree():
    state = fallen(jnp.float64)
    expected = accelerations(_OfTree, *state)
    for method in (ABA("scan"), CFA(), JSI(), FactoredFD()):
        assert_close(accelerations(_OfTree, *state, method), expected, 1e-9, str(method))


def test_forces_in_a_step_satisfy_its_equation_of_motion():
    """A leg that sinks to its knee while its foot sticks: after a step its friction is another one."""
    builder = jaxcfa.ModelBuilder()
    builder.add_body("trunk", joint=joints.Free(), mass=2.0, inertia=0.02)
    leg = {"mass": 0.5, "com": (0.0, 0.0, -0.1), "inertia": 2e-3}
    builder.add_body("thigh", "trunk", joints.Revolute((0.0, 1.0, 0.0)), **leg)
    builder.add_body("shank", "thigh", joints.Revolute((0.0, 1.0, 0.0)), (0.0, 0.0, -0.2), **leg)
    model = builder.build(dtype="float64")
    contacts = ground_contacts(model, ["shank"], [[0.0, 0.0, -0.2]], friction=0.8)
    dt, q = 2e-3, jaxcfa.neutral(model).at[7:].set(jnp.array([0.5, -1.0]))
    q = q.at[2].set(0.4 * jnp.cos(0.5) - 1e-3)
    motion = jaxcfa.rollout(model, q, jnp.zeros(8), jnp.zeros((40, 8)), dt=dt, contacts=contacts)

    @jax.vmap
    def left(q, v, v_after, q_after):
        """What the equation of motion lacks with the force in the step, or that of the state after it; the force."""
        force = jaxcfa.contact_forces(model, contacts, q, v, v_after, dt)[0]
        other = jaxcfa.contact_state(model, contacts, q_after, v_after).force[0]
        jacobian = jax.jacobian(lambda v: jaxcfa.contact_state(model, contacts, q, v).velocity[0])(v)
        acting = jaxcfa.inverse_dynamics(model, q, v, (v_after - v) / dt)
        return acting - force @ jacobian, acting - other @ jacobian, force

    in_step, after, force = left(motion.q[:-1], motion.v[:-1], motion.v[1:], motion.q[1:])
    assert jnp.max(jnp.abs(in_step)) < 1e-8 * jnp.max(force)
    assert jnp.max(jnp.abs(after)) > 0.3 * jnp.max(jnp.abs(force[:, 0]))

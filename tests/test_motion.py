"""The motion of the bodies as one value."""

import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close, second_derivatives
from jaxcfa.closed_chains import constrained_forward_dynamics
from jaxcfa.structured import Doubling
from loops import make
from mechanisms import mechanism, random_state
from program_size import sweeps


def results(model, state, motions=None):
    """Of everything that takes motions."""
    q, v, qdd, f_ext = state
    hand = model.body_names[-1]
    return {
        "kinematics": (
            jaxcfa.forward_kinematics(model, q, motions=motions),
            jaxcfa.frame_pose(model, q, hand, motions=motions),
            jaxcfa.body_velocities(model, q, v, motions=motions),
            jaxcfa.body_accelerations(model, q, v, qdd, motions=motions),
            jaxcfa.jacobian(model, q, hand, motions=motions),
            jaxcfa.jacobian_dot_v(model, q, v, hand, motions=motions),
            jaxcfa.generalized_forces(model, q, f_ext, motions=motions),
        ),
        "inverse dynamics": (
            jaxcfa.inverse_dynamics(model, q, v, qdd, f_ext, motions=motions),
            jaxcfa.bias_forces(model, q, v, f_ext, motions=motions),
            jaxcfa.mass_matrix(model, q, motions=motions),
            jaxcfa.inverse_dynamics_derivatives(model, q, v, qdd, f_ext, motions=motions),
            jaxcfa.regressor(model, q, v, qdd, motions=motions),
        ),
        "forward dynamics": (
            jaxcfa.forward_dynamics(model, q, v, qdd, f_ext, motions=motions),
            jaxcfa.joint_reactions(model, q, v, qdd, f_ext, motions=motions),
            jaxcfa.forward_dynamics_derivatives(model, q, v, qdd, f_ext, motions=motions),
            jaxcfa.mass_operator(model, q, motions=motions).solve(qdd),
            jaxcfa.operational_space_inertia(model, q, hand, motions=motions).inverse_inertia,
        ),
        "totals": (
            jaxcfa.center_of_mass(model, q, motions=motions),
            jaxcfa.momentum(model, q, v, motions=motions),
            jaxcfa.kinetic_energy(model, q, v, motions=motions),
            jaxcfa.potential_energy(model, q, motions=motions),
        ),
    }


@pytest.mark.slow
def test_results_are_the_same_with_motions_made_before():
    model = mechanism("ball joints")
    state = random_state(model)

    @jax.jit
    def both(state):
        return results(model, state), results(model, state, jaxcfa.body_motions(model, *state[:2], Doubling()))

    expected, found = both(state)
    assert_close(found, jax.tree.map(np.asarray, expected), 1e-11)


def test_derivatives_go_through_the_state():
    """Also where the motions are made outside of the function that uses them."""
    model = mechanism("ball joints")
    q, v, tau, f_ext = random_state(model)

    @jax.jit
    def gradients(q, v, tau):
        motions = jaxcfa.body_motions(model, q, v)

        def loss(q, v, tau, motions=None):
            return jnp.sum(jnp.sin(jaxcfa.forward_dynamics(model, q, v, tau, f_ext, motions=motions)))

        inside = lambda q, v, tau: loss(q, v, tau, jaxcfa.body_motions(model, q, v))  # noqa: E731
        return [jax.grad(f, (0, 1, 2))(q, v, tau) for f in (loss, inside, lambda *x: loss(*x, motions))]

    expected, *found = gradients(q, v, tau)
    for gradient in found:
        assert_close(gradient, jax.tree.map(np.asarray, expected), 1e-12)


def test_derivatives_of_what_has_no_rules_of_its_own():
    """By the state and the model, with motions made outside, inside, and of a part of what is differentiated."""
    model, q, v = jaxcfa.chain(2, dtype="float64"), jnp.array([0.3, -0.8]), jnp.array([1.5, 0.4])

    def energy(model, q, v, motions=None):
        return jaxcfa.kinetic_energy(model, q, v, motions) + jaxcfa.potential_energy(model, q, motions)

    @jax.jit
    def gradients(model, q, v):
        outside = jaxcfa.body_motions(model, q, v)
        by_all = lambda f: jax.grad(f, (0, 1, 2))(model, q, v)  # noqa: E731
        by_state = lambda f: jax.grad(lambda q, v: energy(model, q, v, f(q, v)), (0, 1))(q, v)  # noqa: E731
        expected = by_all(energy)
        found = [by_all(lambda *x: energy(*x, outside))]
        found.append(by_all(lambda *x: energy(*x, jaxcfa.body_motions(x[0], x[1], v))))
        # The motions carry the state, but not the model, which is another value there.
        found.append(by_all(lambda *x: energy(*x, jaxcfa.body_motions(model, *x[1:]))))
        of_parts = [by_state(lambda x, _: jaxcfa.body_motions(model, x, v)), by_state(lambda _, x: outside)]
        return expected, [*found, *((expected[0], *x) for x in of_parts)]

    expected, found = gradients(model, q, v)
    assert np.all(np.abs(jnp.concatenate(expected[1:])) > 0.01)
    for gradient in found:
        assert_close(gradient, jax.tree.map(np.asarray, expected), 1e-12)


def test_second_derivatives_with_motions_made_before():
    """In all orders, also with motions that move with the outer derivative only."""
    model, q, along = jaxcfa.chain(2, dtype="float64"), jnp.array([0.3, -0.8]), jnp.array([1.5, 0.4])

    def energy(q, motions=None):
        return jaxcfa.potential_energy(model, q, motions)

    @jax.jit
    def both(q):
        motions = jaxcfa.body_motions(model, q)
        # Not the last one, by differences, for which the motions would have to move.
        found = second_derivatives(lambda q: energy(q, motions), q, along)[:-1]
        outer = lambda q: jax.grad(energy)(q, jaxcfa.body_motions(model, q)) @ along  # noqa: E731
        return [*found, jax.jvp(outer, (q,), (along,))[1]], second_derivatives(energy, q, along)[0]

    found, expected = both(q)
    for second in found:
        assert_close(second, np.asarray(expected), 1e-12)


def test_second_derivatives_by_the_model_with_motions_made_before():
    """In all orders: derivatives by the model are counted once at every level."""
    model, q, v = jaxcfa.chain(2, dtype="float64"), jnp.array([0.3, -0.8]), jnp.array([1.5, 0.4])

    def energy(s, motions=None):
        larger = eqx.tree_at(lambda m: m.placement.translation, model, s * model.placement.translation)
        made = None if motions is None else jaxcfa.body_motions(larger, q, v)
        return jaxcfa.kinetic_energy(larger, q, v, made)

    expected, found = (
        jax.jit(lambda s, m=m: second_derivatives(lambda s: energy(s[0], m), s, jnp.ones(1)))(jnp.ones(1))
        for m in (None, True)
    )
    for second in found:
        assert_close(second, np.asarray(expected[0]), 1e-8)


def test_motions_made_before_cost_nothing():
    """Nothing is swept again where nothing is differentiated, or by rules, or where the motions carry it themselves."""
    model, x = jaxcfa.chain(7), jnp.ones(7)
    motions = jaxcfa.body_motions(model, x, x)
    assert sweeps(lambda q, v: jaxcfa.kinetic_energy(model, q, v, motions), 7, x, x) == 0

    def slope(function):
        return sweeps(jax.grad(lambda q: jnp.sum(function(q))), 7, x)

    def inside(q):
        return jaxcfa.kinetic_energy(model, q, x, jaxcfa.body_motions(model, q, x))

    assert slope(lambda q: jaxcfa.kinetic_energy(model, q, x, motions)) == slope(inside) == 2
    by_rules = [lambda q, m=m: jaxcfa.forward_dynamics(model, q, x, x, motions=m) for m in (None, motions)]
    assert slope(by_rules[1]) == slope(by_rules[0]) - 1


def test_batches_make_their_motions_again():
    """Which takes less time than to read them; where only some results are used, too, and in batches of batches."""
    model = jaxcfa.chain(3)
    q = v = jnp.linspace(-1.0, 1.0, 96).reshape(32, 3)

    def few(q, v, share):
        motions = jaxcfa.body_motions(model, q, v) if share else None
        poses = jaxcfa.forward_kinematics(model, q, motions=motions)
        return poses.translation, jaxcfa.jacobian(model, q, 2, motions=motions), jaxcfa.mass_matrix(model, q, motions)

    def compiled(share):
        return jax.jit(jax.vmap(lambda q, v: few(q, v, share))).lower(q, v).compile()

    shared, alone = compiled(True), compiled(False)
    assert_close(shared(q, v), jax.tree.map(np.asarray, alone(q, v)), 1e-14)
    numbers = [x.memory_analysis().temp_size_in_bytes for x in (shared, alone)]
    assert numbers[0] == numbers[1]
    passes = [sweeps(lambda q, v, s=s: few(q, v, s), 3, q[0], v[0]) for s in (True, False)]  # of a single one
    assert passes[0] < passes[1]

    def pairs(share):
        return jax.vmap(lambda q: jax.vmap(lambda v: few(q, v, share))(v))(q)

    assert_close(
        jax.jit(pairs, static_argnums=0)(True), jax.tree.map(np.asarray, jax.jit(pairs, static_argnums=0)(False)), 1e-14
    )


def test_motions_of_another_precision():
    model = jaxcfa.chain(2)
    q, v = np.array([0.3, -0.8]), np.array([1.5, 0.4])
    single = jaxcfa.body_motions(model.astype("float32"), np.float32(q), np.float32(v))
    model = model.astype("float64")
    found = jaxcfa.forward_dynamics(model, q, v, v, method=jaxcfa.ABA(schedule="scan"), motions=single)
    assert found.dtype == np.float64
    assert_close(found, jaxcfa.forward_dynamics(model, q, v, v), 1e-4)


@pytest.mark.slow
def test_number_of_sweeps():
    """Kinematics is swept once, whatever is computed and differentiated."""
    model, x = jaxcfa.chain(7), jnp.zeros(7)

    def forward(*state):
        return jaxcfa.forward_dynamics(model, *state)

    def gradient(*state):
        return jax.grad(lambda *x: jnp.sum(forward(*x)), (0, 1, 2))(*state)

    def step(*state):
        return jaxcfa.step(model, *state, 1e-3)

    assert sweeps(lambda q: jaxcfa.forward_kinematics(model, q), 7, x) == 1
    assert sweeps(lambda q: jaxcfa.mass_matrix(model, q), 7, x) == 2
    assert sweeps(lambda *state: jaxcfa.inverse_dynamics(model, *state), 7, x, x, x) == 3
    assert sweeps(forward, 7, x, x, x) == sweeps(step, 7, x, x, x) == 3
    # That of both dynamics, and five sums over ancestors and subtrees.
    assert sweeps(gradient, 7, x, x, x) == 12

    four_bar, constraints, *_ = make("four-bar")
    state = jnp.zeros((3, 3))

    def constrained(*state):
        return jnp.sum(constrained_forward_dynamics(four_bar, constraints, *state).qdd)

    assert sweeps(constrained, 3, *state) <= 8
    # Motions and forces are found again for the rates, instead of stored.
    assert sweeps(jax.grad(constrained, (0, 1, 2)), 3, *state) <= 17


def test_senseless_motions_are_refused():
    model, other = jaxcfa.chain(2), jaxcfa.chain(3)
    zero = np.zeros(2)
    with pytest.raises(ValueError, match=r"must come from body_motions\(model, q, v\), got 3"):
        jaxcfa.inverse_dynamics(model, zero, zero, zero, motions=3)
    with pytest.raises(ValueError, match="motions are of another mechanism"):
        jaxcfa.mass_matrix(model, zero, jaxcfa.body_motions(other, np.zeros(3)))
    with pytest.raises(ValueError, match=r"q must be an array .*, got body motions\. .* beside q, as motions=motions"):
        inspect.unwrap(jaxcfa.center_of_mass)(model, jaxcfa.body_motions(model, zero))
    with pytest.raises(ValueError, match=r"q must be an array .{,250}$"):
        inspect.unwrap(jaxcfa.center_of_mass)(model, [model] * 100)
    with pytest.raises(ValueError, match=r"v must have shape \(nv,\) = \(2,\)"):
        jaxcfa.body_motions(model, zero, np.zeros(3))


def test_motions_of_another_state_are_refused():
    """Where that can be seen; motions without a velocity are never those of a state that moves, traced or not."""
    model, q, v = jaxcfa.chain(2), np.array([0.3, -0.8]), np.array([1.5, 0.4])
    motions, placed = jaxcfa.body_motions(model, q, v), jaxcfa.body_motions(model, q)
    with pytest.raises(ValueError, match=r"motions are of another state, whose q is not the q given: make them by"):
        jaxcfa.mass_matrix(model, 2 * q, motions)
    with pytest.raises(ValueError, match="motions are of another state, whose v is not the v given"):
        jaxcfa.forward_dynamics(model, q, 2 * v, v, motions=motions)
    without = pytest.raises(ValueError, match="motions were made without v, which is needed here")
    with without:
        jaxcfa.kinetic_energy(model, q, v, placed)
    with without:
        jax.make_jaxpr(lambda q, v: jaxcfa.bias_forces(model, q, v, motions=jaxcfa.body_motions(model, q)))(q, v)
    of_lists = jaxcfa.forward_dynamics(model, q.tolist(), v.tolist(), [0, 1], motions=motions)
    assert_close(of_lists, np.asarray(jaxcfa.forward_dynamics(model, q, v, [0, 1])), 1e-14)
    # What fits is taken: of q only, at rest, as lists, in another precision, and where nothing can be seen.
    assert_close(jaxcfa.mass_matrix(model, q.tolist(), placed), np.asarray(jaxcfa.mass_matrix(model, q, motions)))
    assert jaxcfa.kinetic_energy(model, q, np.zeros(2), placed.at_rest()) == 0
    jax.make_jaxpr(lambda q: jaxcfa.mass_matrix(model, q, motions))(2 * q)


def test_batches_of_motions():
    """A value like any other, for one state each."""
    model = mechanism("mixed tree")
    states = jax.tree.map(lambda *x: jnp.stack(x), *(random_state(model, seed) for seed in range(3)))
    motions = jax.vmap(lambda q, v: jaxcfa.body_motions(model, q, v))(states.q, states.v)
    found = jax.vmap(lambda m, qdd: jaxcfa.inverse_dynamics(model, m.q, m.v, qdd, motions=m))(motions, states.qdd)
    expected = jax.vmap(lambda s: jaxcfa.inverse_dynamics(model, *s[:3]))(states)
    assert_close(found, np.asarray(expected), 1e-13)
    single = jax.tree.map(lambda x: x[1], motions)
    assert_close(single.poses, jax.tree.map(np.asarray, jaxcfa.forward_kinematics(model, states.q[1])), 1e-13)

"""The factored mass matrix against the dense one."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa.structured import Doubling, Sequential
from mechanisms import mechanism, random_state
from program_size import equations, loop_trips

CASES = [
    pytest.param("all together", Sequential(), marks=pytest.mark.slow),
    ("ball joints", Doubling()),
    ("humanoid-like", None),
]


@functools.cache
def operator(name, schedule=None, dtype="float64"):
    model = mechanism(name, dtype)
    return jaxcfa.mass_operator(model, random_state(model).q, schedule)


@jax.jit
def everything(operator, x):
    return {
        "mv": operator.mv(x),
        "solve": operator.solve(x),
        "sqrt": operator.sqrt_mv(x),
        "sqrt transpose": operator.sqrt_transpose_mv(x),
        "inv sqrt": operator.inv_sqrt_mv(x),
        "inv sqrt transpose": operator.inv_sqrt_transpose_mv(x),
        "logdet": operator.logdet(),
        "inverse diagonal": operator.inverse_diagonal(),
    }


@pytest.mark.parametrize(("name", "schedule"), CASES, ids=str)
def test_operator_is_the_dense_matrix(name, schedule):
    op = operator(name, schedule)
    model = op.factors.model
    matrix = np.asarray(jaxcfa.mass_matrix(model, random_state(model).q))
    inverse = np.linalg.inv(matrix)
    found = everything(op, np.eye(model.nv))
    assert_close(found["mv"], matrix, 1e-11)
    assert_close(found["solve"] @ matrix, np.eye(model.nv), 1e-10)
    root = np.asarray(found["sqrt"])
    assert_close(root @ root.T, matrix, 1e-11)
    assert_close(found["sqrt transpose"], root.T, 1e-11)
    assert_close(found["inv sqrt"] @ root, np.eye(model.nv), 1e-10)
    assert_close(found["inv sqrt transpose"] @ root.T, np.eye(model.nv), 1e-10)
    assert_close(found["logdet"], np.linalg.slogdet(matrix)[1], 1e-11)
    assert_close(found["inverse diagonal"], np.diag(inverse), 1e-10)


def test_square_root_is_triangular_with_the_zeros_of_the_matrix():
    op = operator("humanoid-like")
    found = everything(op, np.eye(op.factors.model.nv))
    root, matrix = np.asarray(found["sqrt"]), np.asarray(found["mv"])
    bodies = op.factors.model.topology.dof_bodies
    ancestors = op.factors.model.topology.schedule.ancestor_mask.T[bodies][:, bodies]  # of the column's body, the row's
    assert np.all(root[~ancestors] == 0)
    assert np.all(np.abs(matrix[~(ancestors | ancestors.T)]) < 1e-12)


def test_single_vectors_quadratic_forms_and_types():
    op, x = operator("straight chain", Doubling()), np.arange(1.0, 7.0)
    matrix = np.asarray(jaxcfa.mass_matrix(op.factors.model, random_state(op.factors.model).q))

    @jax.jit
    def run(op, x):
        several = jnp.stack([x, 2 * x], axis=1)
        forms = op.quadratic_form(x), op.inverse_quadratic_form(several)
        again = op.mv(op.solve(x))
        return op.mv(x), op.solve(x), op.as_matrix(), op.inverse_as_matrix(), *forms, again

    inverse = np.linalg.inv(matrix)
    forms = x @ matrix @ x, x @ inverse @ x * np.array([1, 4])
    expected = matrix @ x, inverse @ x, matrix, inverse, *forms, x
    assert_close(run(op, x), expected)
    single = operator("straight chain", Doubling(), "float32")
    found = run(single, np.float32(x))
    assert all(y.dtype == np.float32 for y in found)
    assert_close(found[-1], x, 1e-4)


@pytest.mark.slow
def test_derivatives_of_solutions():
    """With respect to configuration, model and right-hand side, without differentiating the factors."""
    model = mechanism("ball joints")
    q, b, w, _ = random_state(model)

    def value(t):
        heavier = eqx.tree_at(lambda m: (m.mass, m.armature), model, replace_fn=lambda x: x * (1 + t))
        moved = jaxcfa.integrate(model, q, t * w)
        return jaxcfa.mass_operator(heavier, moved).solve((1 + t) * b) @ w

    def dense(t):
        heavier = eqx.tree_at(lambda m: (m.mass, m.armature), model, replace_fn=lambda x: x * (1 + t))
        return jnp.linalg.solve(jaxcfa.mass_matrix(heavier, jaxcfa.integrate(model, q, t * w)), (1 + t) * b) @ w

    @jax.jit
    def slopes(t):
        _, forward = jax.linearize(value, t)
        return jax.linear_transpose(forward, t)(1.0)[0], forward(1.0), jax.jvp(dense, (t,), (1.0,))[1]

    reverse, forward, expected = slopes(0.2)
    assert_close(reverse, expected)
    assert_close(forward, expected)


@pytest.mark.parametrize("schedule", [Sequential(), Doubling()], ids=str)
def test_programs_do_not_grow(schedule):
    def solve(n):
        model = jaxcfa.chain(n)
        return (lambda q: jaxcfa.mass_operator(model, q, schedule).solve(q)), jnp.zeros(n)

    assert equations(*solve(1000)) == equations(*solve(64))
    if schedule == Doubling():
        assert loop_trips(*solve(4096)) == 4 * 12


def test_invalid_arguments():
    op = operator("straight chain", Doubling())
    with pytest.raises(ValueError, match=r"shape \(nv,\) = \(6,\), or \(nv, m\) for m of them, got \(5,\)"):
        op.mv(np.ones(5))
    massless = eqx.tree_at(lambda m: (m.mass, m.inertia, m.armature), op.factors.model, replace_fn=jnp.zeros_like)
    with pytest.raises(ValueError, match="no inertia"):
        jaxcfa.mass_operator(massless, np.zeros(6))

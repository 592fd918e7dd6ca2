"""Large mechanisms: accuracy, and programs that do not grow with the number of bodies."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close, tolerance
from mechanisms import random_state
from program_size import equations


@pytest.mark.slow
def test_round_trip_on_large_trees_and_long_chains(dtype, key):
    """Trees of all joint types, and in double precision chains, side by side."""
    models = {
        "40 bodies": jaxcfa.random_tree(40, key, branching=1.0, roots=3, armature=0.05),
        "200 bodies": jaxcfa.random_tree(200, key, branching=0.3, armature=0.05),
    }
    if dtype == np.float64:
        models["chain"] = jaxcfa.random_tree(300, key, branching=0.0)
        models["chain of revolute joints"] = jaxcfa.random_tree(300, key, [jaxcfa.joints.Revolute], branching=0.0)
    forest = jaxcfa.combine(list(models.values()), [f"{name}: " for name in models]).astype(dtype)
    q, v, qdd, f_ext = random_state(forest)
    tau = jaxcfa.inverse_dynamics(forest, q, v, qdd, f_ext)
    again = jaxcfa.forward_dynamics(forest, q, v, tau, f_ext)
    mass_matrix = np.asarray(jaxcfa.mass_matrix(forest, q))
    start = 0
    for name, model in models.items():
        dofs = slice(start, start + model.nv)
        start = dofs.stop
        # In float32 about a tenth of the largest acceleration times the condition number's digits is left.
        allowed = tolerance(dtype) if dtype == np.float64 else 5e-3
        if name.startswith("chain"):
            allowed = max(allowed, 1e-16 * np.linalg.cond(mass_matrix[dofs, dofs]))
        assert_close(again[dofs], qdd[dofs], allowed, name)


FUNCTIONS = {
    "forward_kinematics": lambda m, q, v: jaxcfa.forward_kinematics(m, q),
    "jacobian": lambda m, q, v: jaxcfa.jacobian(m, q, m.nb - 1),
    "inverse_dynamics": lambda m, q, v: jaxcfa.inverse_dynamics(m, q, v, v),
    "forward_dynamics": lambda m, q, v: jaxcfa.forward_dynamics(m, q, v, v),
    "mass_matrix": lambda m, q, v: jaxcfa.mass_matrix(m, q),
}


@pytest.mark.parametrize("floating_base", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs_do_not_grow_with_the_chain(name, floating_base):
    def size(n: int) -> int:
        model = jaxcfa.chain(n, floating_base=floating_base)
        arguments = jnp.zeros(model.nq), jnp.zeros(model.nv)
        return equations(lambda q, v: FUNCTIONS[name](model, q, v), *arguments)

    assert size(10) == size(100)
    assert size(200) == size(1000)  # of which the mass matrix is not found pair by pair


def test_long_planar_chains_in_single_precision():
    """Their inertia is huge in the directions in which they cannot move; that does not make a pivot small."""
    model = jaxcfa.chain(1000, dtype=np.float32)
    q = 0.05 * jnp.sin(jnp.arange(1000.0, dtype=np.float32))
    v = jnp.zeros(1000, np.float32)
    single = jaxcfa.forward_dynamics(model, q, v, v)
    double = jaxcfa.forward_dynamics(model.astype(np.float64), q.astype(np.float64), *[v.astype(np.float64)] * 2)
    assert_close(single, double, 1e-2)

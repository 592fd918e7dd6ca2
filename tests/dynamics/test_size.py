"""Large mechanisms: accuracy, and programs that do not grow with the number of bodies."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close, tolerance
from mechanisms import random_state
from program_size import equations


@pytest.mark.parametrize(("n", "branching", "roots"), [(40, 1.0, 3), (200, 0.3, 1)])
def test_round_trip_on_large_trees_of_all_joint_types(n, branching, roots, dtype, key):
    model = jaxcfa.random_tree(n, key, branching=branching, roots=roots, armature=0.05).astype(dtype)
    q, v, qdd, f_ext = random_state(model)
    tau = jaxcfa.inverse_dynamics(model, q, v, qdd, f_ext)
    # In float32 about a tenth of the largest acceleration times the condition number's digits is left.
    allowed = tolerance(dtype) if dtype == np.float64 else 5e-3
    assert_close(jaxcfa.forward_dynamics(model, q, v, tau, f_ext), qdd, allowed)


@pytest.mark.parametrize("joint_types", [None, [jaxcfa.joints.Revolute]])
def test_long_chains(joint_types, key):
    model = jaxcfa.random_tree(300, key, joint_types, branching=0.0)
    q, v, qdd, _ = random_state(model)
    tau = jaxcfa.inverse_dynamics(model, q, v, qdd)
    again = jaxcfa.forward_dynamics(model, q, v, tau)
    condition = np.linalg.cond(np.asarray(jaxcfa.mass_matrix(model, q)))
    assert_close(again, qdd, max(1e-9, 1e-16 * condition))


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

    assert size(1000) == size(10)


def test_long_planar_chains_in_single_precision():
    """Their inertia is huge in the directions in which they cannot move; that does not make a pivot small."""
    model = jaxcfa.chain(1000, dtype=np.float32)
    q = 0.05 * jnp.sin(jnp.arange(1000.0, dtype=np.float32))
    v = jnp.zeros(1000, np.float32)
    single = jaxcfa.forward_dynamics(model, q, v, v)
    double = jaxcfa.forward_dynamics(model.astype(np.float64), q.astype(np.float64), *[v.astype(np.float64)] * 2)
    assert_close(single, double, 1e-2)

"""One mechanism, or one problem of optimal control, in pieces on several devices."""

import re
from collections import Counter

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import jaxcfa
from helpers import assert_close
from jaxcfa import ABA, CFA, device_mesh, optimal_control as oc, spread
from jaxcfa.structured import (
    BlockTridiagonal,
    Distributed,
    Doubling,
    LinearQuadratic,
    OddEvenElimination,
    Partitioned,
    Riccati,
    Sequential,
)
from jaxcfa.structured._scan import compose_affine

LINKS = 24  # three on each of eight devices


def mesh_of(devices: int, axis: str = "links") -> jax.sharding.Mesh:
    return device_mesh(axis, devices=jax.devices()[:devices])


def chain_state(n: int):
    """A chain that bends in all directions, and a state."""
    model = jaxcfa.chain(n, axes=np.resize([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], (n, 3)))
    q, v, x = np.random.default_rng(0).normal(size=(3, n)) * np.array([0.5, 0.2, 1.0])[:, None] / np.sqrt(n)
    return model, jnp.asarray(q), jnp.asarray(v), jnp.asarray(x)


def collectives(function, *arguments) -> Counter:
    """How often a compiled program exchanges data between devices, by kind."""
    text = jax.jit(function).lower(*arguments).compile().as_text()
    kinds = "all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter"
    return Counter(re.findall(rf" ({kinds})(?:-start)?\(", text))


def memory(function, *arguments) -> int:
    """Intermediate values, arguments and results on one device [bytes]."""
    found = jax.jit(function).lower(*arguments).compile().memory_analysis()
    return found.temp_size_in_bytes + found.argument_size_in_bytes + found.output_size_in_bytes


# ------------------------------------------------------------------------------------------------- building blocks


@pytest.mark.parametrize("n", [1, 5, 8, 24, 27])
@pytest.mark.parametrize("inside", [Sequential(), Doubling()])
def test_scans_in_both_directions(n, inside):
    random = np.random.default_rng(n)
    elements = jnp.asarray(random.normal(size=(n, 3, 3))), jnp.asarray(random.normal(size=(n, 3, 1)))
    schedule = Distributed(mesh_of(8), "links", inside)

    def scans(schedule):
        return jax.jit(lambda x: [schedule.scan(compose_affine, x, reverse) for reverse in (False, True)])

    assert_close(scans(schedule)(elements), scans(Sequential())(elements), rtol=1e-12)


@pytest.mark.parametrize(("n", "devices"), [(3, 4), (8, 4), (24, 4), (26, 4), (24, 1)])
def test_block_tridiagonal_systems(n, devices):
    random = np.random.default_rng(n)
    lower = random.normal(size=(n - 1, 2, 2))
    diagonal = random.normal(size=(n, 2, 2))
    diagonal = np.swapaxes(diagonal, 1, 2) @ diagonal + 6 * np.eye(2)
    b = random.normal(size=(n, 2))

    def found(solver, diagonal, lower, b):
        return jax.value_and_grad(lambda *x: jnp.sum(BlockTridiagonal(*x[:2]).solve(x[2], solver) ** 3), (0, 1, 2))(
            diagonal, lower, b
        )

    partitioned = Partitioned(mesh_of(devices), "links", inside=OddEvenElimination())
    ours, expected = (
        jax.jit(lambda *x, solver=solver: found(solver, *x))(diagonal, lower, b)
        for solver in (partitioned, OddEvenElimination())
    )
    assert_close(ours, expected, rtol=1e-11)


@pytest.mark.parametrize(("stages", "start"), [(16, "given"), (13, "periodic")])
def test_linear_quadratic_problems(stages, start):
    """Multiples of the number of devices and others, with all that a problem may have."""
    random = np.random.default_rng(stages)
    a = np.eye(3) + 0.3 * random.normal(size=(stages, 3, 3))
    b, s = random.normal(size=(stages, 3, 2)), 0.1 * random.normal(size=(stages, 2, 3))
    q, r = np.broadcast_to(np.eye(3), (stages + 1, 3, 3)), np.broadcast_to(np.eye(2), (stages, 2, 2))
    rows, offsets = random.normal(size=(1, 3)), random.normal(size=(stages, 3))

    def solution(schedule, a, b, q, r, s, offsets):
        problem = LinearQuadratic(a, b, q, r, s, rows, start=start)
        return problem.solve(problem.terms(offsets=offsets, start=np.ones(3), end=np.ones(1)), Riccati(schedule))

    arguments = (a, b, q, r, s, offsets)
    schedule = Distributed(mesh_of(8, "time"), "time")
    placed = [spread(x, schedule.mesh, "time") if len(x) % 8 == 0 else x for x in arguments]
    found = jax.jit(lambda *x: solution(schedule, *x))(*placed)
    assert_close(found, jax.jit(lambda *x: solution(Sequential(), *x))(*arguments), rtol=1e-11)


# ------------------------------------------------------------------------------------------------- mechanisms


@pytest.mark.slow
def test_dynamics_of_one_chain_are_those_on_one_device():
    """Forward and inverse dynamics, their gradients by state and model, kinematics."""
    mesh = mesh_of(8)
    distributed = Distributed(mesh, "links")
    arguments = chain_state(LINKS)

    def results(schedule, methods, model, q, v, x):
        def inverse(model, q, v, x):
            return jaxcfa.inverse_dynamics(model, q, v, x, schedule=schedule)

        def slopes(function):
            def total(mass, *state):
                return jnp.sum(function(eqx.tree_at(lambda m: m.mass, model, mass), *state) ** 2)

            return jax.grad(total, (0, 1, 2, 3))(model.mass, q, v, x)

        first = methods[0]
        return (
            [jaxcfa.forward_dynamics(model, q, v, x, method=method) for method in methods],
            inverse(model, q, v, x),
            jaxcfa.forward_kinematics(model, q, schedule=schedule),
            slopes(inverse),
            slopes(lambda model, *state: jaxcfa.forward_dynamics(model, *state, method=first)),
        )

    by_pieces = ABA(distributed), CFA(Partitioned(mesh, "links"), distributed)
    found = jax.jit(lambda *x: results(distributed, by_pieces, *x))(*spread(arguments, mesh, "links"))
    expected = jax.jit(lambda *x: results(Sequential(), (ABA(), ABA()), *x))(*arguments)
    assert_close(found, expected, rtol=1e-9)
    assert {shard.data.shape for shard in found[1].addressable_shards} == {(LINKS // 8,)}


@pytest.mark.slow
def test_lengths_that_cannot_be_cut_evenly_batches_and_other_derivatives():
    mesh = mesh_of(3)
    model, q, v, x = chain_state(7)

    def inverse(schedule):
        return lambda q, v, x: jaxcfa.inverse_dynamics(model, q, v, x, schedule=schedule)

    def results(schedule):
        f = inverse(schedule)
        batch = jax.vmap(f)(*(jnp.stack([a, -a]) for a in (q, v, x)))
        along = jax.jvp(lambda q: jax.grad(lambda q: jnp.sum(f(q, v, x) ** 2))(q), (q,), (v,))[1]
        return batch, along

    assert_close(jax.jit(lambda: results(Distributed(mesh, "links")))(), jax.jit(lambda: results(None))(), rtol=1e-10)


def test_trees_that_branch_are_right():
    model = jaxcfa.random_tree(9, key=jax.random.key(1))
    q = jaxcfa.random_configuration(model, jax.random.key(2))
    v = jnp.ones(model.nv)
    found = jaxcfa.inverse_dynamics(model, q, v, v, schedule=Distributed(mesh_of(4), "links"))
    assert_close(found, jaxcfa.inverse_dynamics(model, q, v, v), rtol=1e-10)


def test_exchanges_are_as_many_for_any_number_of_devices_and_memory_falls_with_it():
    def compiled(count, devices, n=1024):
        mesh = mesh_of(devices)
        arguments = spread(chain_state(n), mesh, "links")
        return count(lambda *x: jaxcfa.inverse_dynamics(*x, schedule=Distributed(mesh, "links")), *arguments)

    two, eight = (compiled(collectives, devices) for devices in (2, 8))
    assert two == eight
    assert set(eight) == {"all-gather", "collective-permute"}
    assert sum(eight.values()) <= 12
    one, eighth = (compiled(memory, devices, n=8192) for devices in (1, 8))
    assert eighth < one / 6


@pytest.mark.slow
def test_trajectories_are_optimised_in_pieces_of_time():
    """A pendulum swings up within its torque, 18 steps on eight devices."""

    def pendulum(x, u, t):
        rate = x[1] + 0.1 * (u[0] - 4 * jnp.sin(x[0]))
        return jnp.stack([x[0] + 0.1 * rate, rate])

    problem = oc.Problem(
        oc.FunctionDynamics(pendulum, 2, 1),
        18,
        costs=[oc.Cost(oc.Control(), 1e-2)],
        end_costs=[oc.Cost(lambda stage: stage.x - jnp.array([1.0, 0.0]), 10.0)],
        constraints=[oc.Bounds(oc.Control(), -4.0, 4.0)],
    )

    def solution(schedule):
        return oc.solve(problem, jnp.zeros(2), solver=oc.MultipleShooting(schedule=Riccati(schedule), steps="linear"))

    found, expected = solution(Distributed(mesh_of(8, "time"), "time")), solution(Sequential())
    assert found.status == expected.status == oc.SolveStatus.SOLVED
    assert_close((found.states, found.cost), (expected.states, expected.cost), rtol=1e-6)


def test_meshes_are_checked():
    with pytest.raises(ValueError, match=r"mesh must be a jax\.sharding\.Mesh"):
        Distributed(8, "links")
    with pytest.raises(ValueError, match="axis must be one of the mesh's, 'links', got 'time'"):
        Partitioned(mesh_of(2), "time")
    explicit = jax.make_mesh((8,), ("links",), axis_types=(AxisType.Explicit,))
    with pytest.raises(ValueError, match="axis 'links' must be automatic"):
        Distributed(explicit, "links")

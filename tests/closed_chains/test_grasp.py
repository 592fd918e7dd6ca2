"""Several arms that hold one object: three algorithms, against dense linear algebra and open chains."""

import functools
import itertools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close, cast
from jaxcfa.closed_chains._delassus import LEAST_NORM, Direct
from jaxcfa.closed_chains._grasp import GraspSolution, _solve, grasp_forward_dynamics, pose_problem, solve_system
from jaxcfa.closed_chains._grasp_algorithms import RCCFD1, RCCFD2, RCCFD3
from jaxcfa.closed_chains._grasp_system import assemble
from jaxcfa.closed_chains._grasps import Grasp, RigidObject
from jaxcfa.closed_chains._status import ConstraintStatus
from jaxcfa.joints import Prismatic, Revolute, Spherical
from jaxcfa.spatial import matrix_to_quaternion, rotation_exp

ALGORITHMS = (RCCFD1(), RCCFD2(), RCCFD3())
GRAVITY = (1.0, -2.0, -9.0)


class Held(NamedTuple):
    """The arguments of `grasp_forward_dynamics`, and what a test needs of the kinematics."""

    arms: tuple
    object: RigidObject
    grasps: tuple
    q: tuple
    v: tuple
    pose: jaxcfa.Transform
    velocity: np.ndarray
    tau: tuple
    f_ext: tuple
    wrench: np.ndarray


@functools.cache
def arm(name: str) -> jaxcfa.Model:
    axes = np.random.default_rng(len(name)).normal(size=(8, 3))
    return {
        "seven": lambda: jaxcfa.chain(7, axes=axes[:7], length=0.3, gravity=GRAVITY, armature=0.02),
        "floating": lambda: jaxcfa.chain(4, axes=axes[:4], floating_base=True, gravity=GRAVITY),
        "branched": lambda: jaxcfa.random_tree(
            6, jax.random.key(5), [Revolute, Spherical, Prismatic], branching=0.3, gravity=GRAVITY, armature=0.05
        ),
        "planar": lambda: jaxcfa.chain(3, axes=np.tile([0.0, 0.0, 1.0], (3, 1)), gravity=GRAVITY),
    }[name]().astype("float64")


def rotation(rng) -> np.ndarray:
    return np.asarray(rotation_exp(jnp.asarray(rng.normal(size=3))))


def skew(r) -> np.ndarray:
    return np.array([[0, -r[2], r[1]], [r[2], 0, -r[0]], [-r[1], r[0], 0]])


def random_object(rng) -> RigidObject:
    a = rng.normal(size=(3, 3))
    return RigidObject(1.5, 0.1 * rng.normal(size=3), 0.1 * (np.sum(a**2) * np.eye(3) - a @ a.T))


def configuration(model: jaxcfa.Model, rng) -> np.ndarray:
    if model.nq == model.nv:
        return rng.uniform(-np.pi, np.pi, model.nq)
    return np.asarray(jaxcfa.random_configuration(model, jax.random.key(rng.integers(100))))


def make_grasp(kind: str, frame: str, placement: jaxcfa.Transform, rng) -> Grasp:
    direction = rng.normal(size=3)
    return {
        "rigid": lambda: Grasp.rigid(frame, placement),
        "hinge": lambda: Grasp.hinge(frame, placement, direction),
        "soft finger": lambda: Grasp.soft_finger(frame, placement, direction),
        "ball": lambda: Grasp.ball(frame, placement),
        "oblique": lambda: Grasp(frame, placement, np.array([[1.0, 0, 0], [0.6, 0.8, 0]])),
    }[kind]()


@functools.partial(jax.jit, static_argnums=4)
def equations(model, q, v, f_ext, frame):
    """Of one arm: mass matrix, bias forces, Jacobian, bias acceleration and position of the tip."""
    return (
        jaxcfa.mass_matrix(model, q),
        jaxcfa.bias_forces(model, q, v, f_ext),
        jaxcfa.jacobian(model, q, frame),
        jaxcfa.jacobian_dot_v(model, q, v, frame),
        jaxcfa.frame_pose(model, q, frame).translation,
    )


def hold(held_by: list[tuple[str, str, str]], seed: int = 0) -> Held:
    """Random arms, wherever their tips are, holding an object there, with velocities that fit."""
    rng = np.random.default_rng(seed)
    arms = tuple(arm(name) for name, _, _ in held_by)
    q = tuple(configuration(model, rng) for model in arms)
    pose = jaxcfa.Transform(jnp.asarray(rotation(rng)), jnp.asarray(rng.normal(size=3)))
    grasps = []
    for model, x, (_, frame, kind) in zip(arms, q, held_by, strict=True):
        tip = equations(model, x, np.zeros(model.nv), np.zeros((model.nb, 6)), frame)[-1]
        placement = jaxcfa.Transform(jnp.asarray(rotation(rng)), pose.inverse().apply(tip))
        grasps.append(make_grasp(kind, frame, placement, rng))
    f_ext = tuple(rng.normal(size=(model.nb, 6)) for model in arms)
    tau = tuple(rng.normal(size=model.nv) for model in arms)
    still = tuple(np.zeros(model.nv) for model in arms)
    state = Held(arms, random_object(rng), tuple(grasps), q, still, pose, np.zeros(6), tau, f_ext, rng.normal(size=6))
    _, rows, _ = constraints(
        state, [equations(*x, g.frame) for *x, g in zip(arms, q, still, f_ext, grasps, strict=True)]
    )
    # A random velocity, less what violates the contacts.
    x = rng.normal(size=rows.shape[1])
    x = x - np.linalg.lstsq(rows, rows @ x, rcond=1e-10)[0]
    starts = np.cumsum([0, *(model.nv for model in arms)])
    v = tuple(x[a:b] for a, b in itertools.pairwise(starts))
    return state._replace(v=v, velocity=x[starts[-1] : starts[-1] + 6])


def constraints(held: Held, each: list) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Contacts: levers from the object's origin, rows for (v, V, W), and axes of free rotation in the world."""
    turned = np.asarray(held.pose.rotation)
    levers = np.array([turned @ np.asarray(g.placement.translation) for g in held.grasps])
    axes = [turned @ np.asarray(g.placement.rotation) @ np.asarray(g.axes).T for g in held.grasps]
    widths = [np.shape(e[2])[1] for e in each] + [6] + [h.shape[1] for h in axes]
    starts = np.cumsum([0, *widths])
    rows = np.zeros((6 * len(each), starts[-1]))
    for i, (e, r, h) in enumerate(zip(each, levers, axes, strict=True)):
        own = slice(6 * i, 6 * i + 6)
        rows[own, starts[i] : starts[i + 1]] = e[2]
        rows[own, starts[len(each)] : starts[len(each) + 1]] = -np.block(
            [[np.eye(3), np.zeros((3, 3))], [-skew(r), np.eye(3)]]
        )
        rows[6 * i : 6 * i + 3, starts[len(each) + 1 + i] : starts[len(each) + 2 + i]] = h
    return levers, rows, axes


def dense(held: Held):
    """The same from one linear system for all accelerations and wrenches (with a least-norm solution)."""
    each = [
        [np.asarray(x) for x in equations(*s, g.frame)]
        for *s, g in zip(held.arms, held.q, held.v, held.f_ext, held.grasps, strict=True)
    ]
    levers, rows, axes = constraints(held, each)
    w, turned, n, k = held.velocity[:3], np.asarray(held.pose.rotation), rows.shape[1], len(rows)
    mass, com = float(held.object.mass), turned @ np.asarray(held.object.com)
    second = turned @ np.asarray(held.object.inertia) @ turned.T - mass * skew(com) @ skew(com)
    weight = mass * np.asarray(GRAVITY)
    matrix, b = np.zeros((n + k, n + k)), np.zeros(n + k)
    start = 0
    for e, tau in zip(each, held.tau, strict=True):
        own = slice(start, start + len(tau))
        matrix[own, own], b[own] = e[0], tau - e[1]
        start += len(tau)
    own = slice(start, start + 6)
    matrix[own, own] = np.block([[second, mass * skew(com)], [-mass * skew(com), mass * np.eye(3)]])
    gyroscopic = np.concatenate([np.cross(w, second @ w), mass * np.cross(w, np.cross(w, com))])
    b[own] = held.wrench + np.concatenate([np.cross(com, weight), weight]) - gyroscopic
    matrix[:n, n:], matrix[n:, :n] = rows.T, rows
    for i, (e, v, r, h) in enumerate(zip(each, held.v, levers, axes, strict=True)):
        relative = w - (e[2] @ v)[:3]
        turning = np.cross(w, h @ np.linalg.lstsq(h, relative)[0]) if h.shape[1] else np.zeros(3)
        b[n + 6 * i : n + 6 * i + 6] = -e[3] + np.concatenate([-turning, np.cross(w, np.cross(w, r))])
    x = np.linalg.lstsq(matrix, b, rcond=1e-11)[0]
    ends = np.cumsum([len(tau) for tau in held.tau])
    spins = np.split(x[start + 6 : n], np.cumsum([h.shape[1] for h in axes])[:-1])
    return np.split(x[:start], ends[:-1]), x[start : start + 6], x[n:].reshape(-1, 6), spins


@functools.partial(jax.jit, static_argnames="solver")
def all_algorithms(held: Held, solver=LEAST_NORM) -> list[GraspSolution]:
    """One program, so that what they have in common is compiled once."""
    problem = pose_problem(*held)
    system = assemble(solver, problem)
    return [solve_system(algorithm, problem, system) for algorithm in ALGORITHMS]


def everything(solution: GraspSolution):
    motion = list(solution.qdd), solution.object_acceleration
    return *motion, solution.wrenches, list(solution.relative_accelerations)


HELD = {
    "two alike": [("seven", "tip", "rigid"), ("seven", "tip", "rigid")],
    "five": [
        ("seven", "tip", "ball"),
        ("branched", "body5", "rigid"),
        ("floating", "tip", "hinge"),
        ("branched", "body5", "oblique"),
        ("seven", "tip", "soft finger"),
    ],
}


@pytest.mark.parametrize("name", ["two alike", pytest.param("five", marks=pytest.mark.slow)])
def test_algorithms_solve_the_equations_of_motion(name):
    held = hold(HELD[name])
    expected = dense(held)
    for found in all_algorithms(held):
        assert_close(everything(found), expected, 1e-9)
        assert found.status == ConstraintStatus.OK
        assert found.residual < 1e-9


def test_open_loops_and_wrong_velocities_are_reported():
    held = hold(HELD["two alike"])
    moved = jaxcfa.Transform(held.pose.rotation, held.pose.translation + 1e-4)
    drifted = held.velocity + np.array([0, 0, 0, 1e-4, 0, 0])
    for wrong, flag in (({"pose": moved}, ConstraintStatus.OPEN), ({"velocity": drifted}, ConstraintStatus.MOVING)):
        assert flag in ConstraintStatus(int(all_algorithms(held._replace(**wrong))[0].status))


def test_what_is_open_is_so_anywhere_in_the_world():
    """Five centimetres, at twenty metres in single precision; what is closed there is not open by rounding."""
    held, far = hold(HELD["two alike"]), np.array([20.0, -20.0, 20.0])
    root = held.arms[0].placement.translation + far * (np.arange(7) == 0)[:, None]
    arms = tuple(eqx.tree_at(lambda m: m.placement.translation, arm, root) for arm in held.arms)
    for gap, status in ((0.0, ConstraintStatus.OK), (0.05, ConstraintStatus.OPEN)):
        pose = jaxcfa.Transform(held.pose.rotation, held.pose.translation + far + gap)
        found = grasp_forward_dynamics(*cast(held._replace(arms=arms, pose=pose), "float32"), algorithm=RCCFD3())
        assert ConstraintStatus(int(found.status)) == status


def chain_with_object(held: Held, kind: str) -> jaxcfa.Model:
    """The arm of a `Held` with the object as a part: of the last link, or joined to it by a spherical joint."""
    model, (grasp,) = held.arms[0], held.grasps
    last = jaxcfa.frame_pose(model, held.q[0], "link6").inverse() @ held.pose
    builder = jaxcfa.ModelBuilder()
    axes = np.asarray(model.joints[0].axis)
    for i in range(7):
        builder.add_body(
            joint=Revolute(axes[i]),
            parent=i - 1 if i else None,
            placement=model.placement[i],
            mass=float(model.mass[i]),
            com=model.com[i],
            inertia=model.inertia[i],
            armature=float(model.armature[i]),
        )
    body = {"mass": float(held.object.mass), "inertia": held.object.inertia}
    if kind == "rigid":
        builder.add_body(parent=6, placement=last, com=held.object.com, **body)
    else:
        com = held.object.com - grasp.placement.translation
        builder.add_body(parent=6, joint=Spherical(), placement=(0.3, 0, 0), com=com, **body)
    return builder.build(gravity=GRAVITY)


@pytest.mark.parametrize("kind", ["rigid", "ball"])
def test_one_arm_is_a_chain_with_the_object(kind):
    held = hold([("seven", "tip", kind)], seed=3)
    model = chain_with_object(held, kind)
    held = held._replace(f_ext=(np.zeros((7, 6)),), wrench=np.zeros(6))
    found = jax.jit(grasp_forward_dynamics)(*held)
    q, v, tau = held.q[0], held.v[0], held.tau[0]
    if kind == "ball":
        turned = jaxcfa.frame_pose(held.arms[0], q, "tip").rotation.T @ held.pose.rotation
        spin = held.velocity[:3] - (jaxcfa.jacobian(held.arms[0], q, "tip") @ v)[:3]
        q = np.concatenate([q, matrix_to_quaternion(turned)])
        v = np.concatenate([v, held.pose.rotation.T @ spin])
        tau = np.concatenate([tau, np.zeros(3)])
    qdd = jaxcfa.forward_dynamics(model, q, v, tau)
    assert_close(found.qdd[0], qdd[:7], 1e-9)
    if kind == "ball":
        # The speeds are about the axes of the contact, which is turned in the object.
        assert_close(found.relative_accelerations[0], held.grasps[0].placement.rotation.T @ qdd[7:], 1e-9)


PLANAR = [("planar", "tip", "rigid")] * 3


def test_an_object_that_is_held_by_more_than_it_needs():
    """Where loops stay closed, accelerations have derivatives though the matrix is singular."""
    held = hold(PLANAR)

    @jax.jit
    def slope(t, qdd, acceleration):
        def value(t):
            return everything(grasp_forward_dynamics(*moved(held, qdd, acceleration, t), algorithm=RCCFD3()))

        return jax.jvp(value, (t,), (1.0,))

    qdd, acceleration, *others = dense(held)
    step = 1e-4
    (before, _), (found, found_dot), (after, _) = (slope(t, qdd, acceleration) for t in (-step, 0.0, step))
    assert_close(found, (qdd, acceleration, *others), 1e-8)
    difference = jax.tree.map(lambda x, y: (x - y) / (2 * step), after[:2], before[:2])
    assert_close(found_dot[:2], difference, 1e-6)


def test_wrenches_that_are_not_unique_are_refused_by_a_direct_solver():
    held = hold(PLANAR)
    with pytest.raises(ValueError, match=r"more than it needs.*LeastNorm\(\)"):
        grasp_forward_dynamics(*held, solver=Direct())
    found = _solve(RCCFD2(), Direct(), pose_problem(*held))
    assert ConstraintStatus.SINGULAR | ConstraintStatus.NOT_FINITE in ConstraintStatus(int(found.status))
    assert not np.any(np.isfinite(found.wrenches))


def moved(held: Held, qdd, acceleration, t) -> Held:
    """Where arms and object are a short time later."""
    q = [q + t * v + t**2 / 2 * a for q, v, a in zip(held.q, held.v, qdd, strict=True)]
    v = [v + t * a for v, a in zip(held.v, qdd, strict=True)]
    velocity = held.velocity + t * acceleration
    shift = t * held.velocity + t**2 / 2 * acceleration
    pose = jaxcfa.Transform(rotation_exp(shift[:3]) @ held.pose.rotation, held.pose.translation + shift[3:])
    return held._replace(q=tuple(q), v=tuple(v), velocity=velocity, pose=pose)


@pytest.mark.compiled
@pytest.mark.slow
def test_batches_and_derivatives():
    """Reverse mode with respect to states and parameters, against differences of a batch."""
    held = hold(HELD["two alike"])
    rng = np.random.default_rng(1)
    direction = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=np.shape(x))), held)

    @jax.jit
    def slopes(step):
        def value(t):
            there = jax.tree.map(lambda x, dx: x + t * dx, parameters, parameters_dot)
            solution = grasp_forward_dynamics(*with_parameters(held, there))
            return sum(jnp.sum(jnp.sin(x)) for x in jax.tree.leaves(everything(solution)))

        parameters, parameters_dot = map(parameters_of, (held, direction))
        (before, _, after), (_, slope, _) = jax.vmap(jax.value_and_grad(value))(jnp.array([-step, 0, step]))
        return slope, (after - before) / (2 * step)

    assert_close(*slopes(1e-6), 1e-6)


def parameters_of(held: Held) -> list:
    """What may be displaced as a vector."""
    state = [*held.q, *held.v, held.velocity, *held.tau, *held.f_ext, held.wrench, held.pose.translation]
    body = [held.object.mass, held.object.com, held.object.inertia]
    arms = [x for arm in held.arms for x in (arm.mass, arm.com, arm.gravity)]
    return state + body + arms + [grasp.placement.translation for grasp in held.grasps]


def with_parameters(held: Held, parameters: list) -> Held:
    return eqx.tree_at(parameters_of, held, parameters)


def test_single_precision_without_jit():
    held = hold(HELD["two alike"])
    (_, expected, _) = all_algorithms(held)
    found = grasp_forward_dynamics(*cast(held, "float32"), algorithm=RCCFD3())
    assert {x.dtype for x in jax.tree.leaves(everything(found))} == {np.dtype("float32")}
    assert_close(everything(found), everything(expected), 1e-3)
    assert found.status == ConstraintStatus.OK


def test_invalid_arguments():
    held = hold(HELD["two alike"])

    def refused(message: str, **changes):
        with pytest.raises(ValueError, match=message):
            grasp_forward_dynamics(**(held._asdict() | changes))

    for several in ("arms", "grasps"):
        refused(f"{several} must be a sequence of .*, got None", **{several: None})
    refused("sequence of one Model or more", arms=())
    refused("grasps must have one entry for each of the 2 arms, got 1", grasps=held.grasps[:1])
    refused("q must have one entry for each of the 2 arms, got 3", q=(*held.q, held.q[0]))
    refused(r"arms\[1\]: tau must have shape \(nv,\) = \(7,\), got \(5,\)", tau=(held.tau[0], held.tau[1][:5]))
    refused(r"velocity must have shape \(6,\), got \(3,\)", velocity=np.zeros(3))
    refused(r"wrench must have shape \(6,\), got \(\)", wrench=1.0)
    refused("velocity must be a number or an array of numbers, got .fast.", velocity="fast")
    refused(
        r"arms\[0\]: No frame or body named 'top'; did you mean 'tip'",
        grasps=(Grasp.ball("top", held.pose), held.grasps[1]),
    )
    refused("same gravity", arms=(held.arms[0], eqx.tree_at(lambda m: m.gravity, held.arms[1], np.zeros(3))))


def test_invalid_grasps_and_objects():
    place = jaxcfa.Transform.identity()
    with pytest.raises(ValueError, match=r"axis must be finite and not zero, got \[0.0, 0.0, 0.0\]"):
        Grasp.hinge("tip", place, np.zeros(3))
    with pytest.raises(ValueError, match=r"normal must have shape \(3,\), got \(2,\)"):
        Grasp.soft_finger("tip", place, np.ones(2))
    with pytest.raises(ValueError, match="axes must be linearly independent"):
        Grasp("tip", place, np.array([[1.0, 0, 0], [-1.0, 0, 0]]))
    with pytest.raises(ValueError, match="axes must be unit vectors"):
        Grasp("tip", place, np.array([[1.0, 1.0, 0]]))
    with pytest.raises(ValueError, match=r"axes must have shape \(d, 3\)"):
        Grasp("tip", place, np.ones(3))
    with pytest.raises(ValueError, match=r"mass of an object must be positive and finite, got 0\.0"):
        RigidObject(0.0, np.zeros(3), 1.0)
    with pytest.raises(ValueError, match="positive definite"):
        RigidObject(1.0, np.zeros(3), (1.0, 1.0, -1.0))
    with pytest.raises(ValueError, match="com of an object must be finite"):
        RigidObject(1.0, (0.0, np.nan, 0.0), 1.0)
    with pytest.raises(ValueError, match="mass of an object must be a number or an array of numbers, got 'heavy'"):
        RigidObject("heavy", np.zeros(3), 1.0)
    with pytest.raises(ValueError, match="symmetric"):
        RigidObject(1.0, np.zeros(3), np.triu(np.ones((3, 3))))
    with pytest.warns(UserWarning, match="An object: inertia that breaks the triangle inequality"):
        RigidObject(1.0, np.zeros(3), (1.0, 1.0, 3.0))
    assert_close(RigidObject(1, (0, 0, 0), (1, 2, 3)).inertia, np.diag([1.0, 2, 3]))


def test_objects_of_known_numbers_are_made_in_compiled_functions():
    mass, com, moments = jnp.array(2.0), jnp.zeros(3), jnp.eye(3)
    assert jax.jit(lambda x: x * RigidObject(mass, com, moments).mass)(3.0) == 6
    heavy = -mass
    with pytest.raises(ValueError, match=r"mass of an object must be positive and finite, got -2\.0"):
        jax.eval_shape(lambda x: x * RigidObject(heavy, com, moments).mass, 3.0)

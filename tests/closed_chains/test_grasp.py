"""Several arms that hold one object: three algorithms, against dense linear algebra and open chains."""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close, cast, quick_options
from jaxcfa.closed_chains._delassus import Direct, LeastNorm, Proximal
from jaxcfa.closed_chains._grasp import GraspSolution, grasp_forward_dynamics
from jaxcfa.closed_chains._grasp_algorithms import RCCFD1, RCCFD2, RCCFD3
from jaxcfa.closed_chains._grasps import Grasp, RigidObject
from jaxcfa.closed_chains._status import ConstraintStatus
from jaxcfa.joints import Prismatic, Revolute, Spherical
from jaxcfa.spatial import rotation_exp

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
        "six": lambda: jaxcfa.chain(6, axes=axes[:6], length=0.3, gravity=GRAVITY, armature=0.02),
        "seven": lambda: jaxcfa.chain(7, axes=axes[:7], length=0.2, gravity=GRAVITY),
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
    return RigidObject(1.5, 0.1 * rng.normal(size=3), 0.1 * a @ a.T + 0.05 * np.eye(3))


def make_grasp(kind: str, frame: str, placement: jaxcfa.Transform, rng) -> Grasp:
    direction = rng.normal(size=3)
    return {
        "rigid": lambda: Grasp.rigid(frame, placement),
        "hinge": lambda: Grasp.hinge(frame, placement, direction),
        "soft finger": lambda: Grasp.soft_finger(frame, placement, direction),
        "ball": lambda: Grasp.ball(frame, placement),
        "oblique": lambda: Grasp(frame, placement, np.array([[1.0, 0, 0], [0.6, 0.8, 0]])),
    }[kind]()


@functools.partial(jax.jit, static_argnums=4, compiler_options=quick_options())
def equations(model, q, v, f_ext, frame):
    """Of one arm: mass matrix, bias forces, Jacobian, bias acceleration and position of the tip."""
    return (
        jaxcfa.mass_matrix(model, q),
        jaxcfa.bias_forces(model, q, v, f_ext),
        jaxcfa.jacobian(model, q, frame),
        jaxcfa.jacobian_dot_v(model, q, v, frame),
        jaxcfa.frame_pose(model, q, frame).translation,
    )


def hold(held_by: list[tuple[str, str, str]], seed: int = 0, spinning: bool = True) -> Held:
    """Random arms, wherever their tips are, holding an object there, with velocities that fit."""
    rng = np.random.default_rng(seed)
    arms = tuple(arm(name) for name, _, _ in held_by)
    q = tuple(jaxcfa.random_configuration(model, jax.random.key(seed + i)) for i, model in enumerate(arms))
    pose = jaxcfa.Transform(jnp.asarray(rotation(rng)), jnp.asarray(rng.normal(size=3)))
    grasps = []
    for model, x, (_, frame, kind) in zip(arms, q, held_by, strict=True):
        point = pose.inverse().apply(jaxcfa.frame_pose(model, x, frame).translation)
        grasps.append(make_grasp(kind, frame, jaxcfa.Transform(jnp.asarray(rotation(rng)), point), rng))
    f_ext = tuple(rng.normal(size=(model.nb, 6)) for model in arms)
    tau = tuple(rng.normal(size=model.nv) for model in arms)
    still = tuple(np.zeros(model.nv) for model in arms)
    state = Held(arms, random_object(rng), tuple(grasps), q, still, pose, np.zeros(6), tau, f_ext, rng.normal(size=6))
    _, rows, spins = constraints(state, [equations(*x, g.frame) for *x, g in zip(arms, q, still, f_ext, grasps)])
    # A random velocity, less what violates the contacts.
    x = rng.normal(size=rows.shape[1]) * spinning
    x = x - np.linalg.lstsq(rows, rows @ x, rcond=1e-10)[0]
    starts = np.cumsum([0, *(model.nv for model in arms)])
    v = tuple(x[a:b] for a, b in zip(starts, starts[1:]))
    return state._replace(v=v, velocity=x[starts[-1] : starts[-1] + 6])


def constraints(held: Held, each: list) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Contacts: levers from the object's origin, rows for (v, V, W), and axes of free rotation in the world."""
    turned = np.asarray(held.pose.rotation)
    levers = np.array([turned @ np.asarray(g.placement.translation) for g in held.grasps])
    axes = [turned @ np.asarray(g.placement.rotation) @ np.asarray(g.axes).T for g in held.grasps]
    widths = [np.shape(e[2])[1] for e in each] + [6] + [h.shape[1] for h in axes]
    starts = np.cumsum([0, *widths])
    rows = np.zeros((6 * len(each), starts[-1]))
    for i, (e, r, h) in enumerate(zip(each, levers, axes)):
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
        for *s, g in zip(held.arms, held.q, held.v, held.f_ext, held.grasps)
    ]
    levers, rows, axes = constraints(held, each)
    w, turned, n, k = held.velocity[:3], np.asarray(held.pose.rotation), rows.shape[1], len(rows)
    mass, com = float(held.object.mass), turned @ np.asarray(held.object.com)
    second = turned @ np.asarray(held.object.inertia) @ turned.T - mass * skew(com) @ skew(com)
    weight = mass * np.asarray(GRAVITY)
    matrix, b = np.zeros((n + k, n + k)), np.zeros(n + k)
    start = 0
    for e, tau in zip(each, held.tau):
        own = slice(start, start + len(tau))
        matrix[own, own], b[own] = e[0], tau - e[1]
        start += len(tau)
    own = slice(start, start + 6)
    matrix[own, own] = np.block([[second, mass * skew(com)], [-mass * skew(com), mass * np.eye(3)]])
    gyroscopic = np.concatenate([np.cross(w, second @ w), mass * np.cross(w, np.cross(w, com))])
    b[own] = held.wrench + np.concatenate([np.cross(com, weight), weight]) - gyroscopic
    matrix[:n, n:], matrix[n:, :n] = rows.T, rows
    for i, (e, v, r, h) in enumerate(zip(each, held.v, levers, axes)):
        relative = w - (e[2] @ v)[:3]
        turning = np.cross(w, h @ np.linalg.lstsq(h, relative)[0]) if h.shape[1] else np.zeros(3)
        b[n + 6 * i : n + 6 * i + 6] = -e[3] + np.concatenate([-turning, np.cross(w, np.cross(w, r))])
    x = np.linalg.lstsq(matrix, b, rcond=1e-11)[0]
    ends = np.cumsum([len(tau) for tau in held.tau])
    spins = np.split(x[start + 6 : n], np.cumsum([h.shape[1] for h in axes])[:-1])
    return np.split(x[:start], ends[:-1]), x[start : start + 6], x[n:].reshape(-1, 6), spins


@functools.partial(jax.jit, static_argnames="solver", compiler_options=quick_options())
def all_algorithms(held: Held, solver=LeastNorm()) -> list[GraspSolution]:
    return [grasp_forward_dynamics(*held, algorithm, solver) for algorithm in ALGORITHMS]


def motion(solution: GraspSolution):
    return list(solution.qdd), solution.object_acceleration


def everything(solution: GraspSolution):
    return *motion(solution), solution.wrenches, list(solution.relative_accelerations)


HELD = {
    "two alike": [("six", "tip", "rigid"), ("six", "tip", "rigid")],
    "three": [("six", "tip", "soft finger"), ("branched", "body5", "hinge"), ("seven", "tip", "ball")],
    "five": [
        ("six", "tip", "ball"),
        ("floating", "tip", "rigid"),
        ("six", "tip", "hinge"),
        ("branched", "body5", "oblique"),
        ("six", "tip", "soft finger"),
    ],
}


@pytest.mark.parametrize("name", HELD)
def test_algorithms_solve_the_equations_of_motion(name):
    held = hold(HELD[name])
    expected = dense(held)
    for found in all_algorithms(held):
        assert_close(everything(found), expected, 1e-9)
        assert found.status == ConstraintStatus.OK
        assert found.residual < 1e-9

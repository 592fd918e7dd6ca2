"""Steps of a quadruped on its feet, beside MuJoCo and MJX, whose laws of contact are others."""

import time
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

import jaxcfa
from jaxcfa import Model
from jaxcfa.contacts import AbstractContacts

from .case import COMPARED, Case, Contestant, Prepared
from .contestant import compared, compiled
from .peers import PEERS
from .peers.in_mujoco import Order, build, joint_names
from .peers.one_by_one import one_by_one
from .problem import Problem
from .robots import ROBOTS, problem
from .settings import Settings

TITLE = "Steps of a quadruped on its feet"
REMARK = """\
A Go2 with four spheres as feet on flat ground, one step of 5 ms without torques from states in which all feet are a
millimetre deep and move at random. MuJoCo's contacts follow another law, so that results are not compared.
`1 iteration` is what MJX's quadrupeds are trained with: one iteration of its solver, five of its line search; the
others are as they are set by default. MJX has one of XLA's threads: with more, batches of its solves may wait for one
another forever. It is compiled with XLA's older code for fusions, as the newer one computes some things many times.
"""
STEP, GRADIENT = "step on the ground", "gradient of a step on the ground"
_DT, _FRICTION, _RADIUS = 5e-3, 0.8, 0.022
_FOOT = (0.0, 0.0, -0.213)  # in each calf [m]
_LEGS = (0.0, 0.8, -1.5)
_BATCH = 1024


@cache
def standing(dtype: str, batch: int) -> tuple[Problem, AbstractContacts]:
    """States in which feet are in the ground, and no torques."""
    robot = problem("Go2", dtype, batch)
    model, contacts = robot.model, _feet(robot.model)
    rng = np.random.default_rng(0)
    v = 0.3 * rng.standard_normal((COMPARED, model.nv))
    legs = np.resize(_LEGS, model.nq - 7) + 0.02 * rng.standard_normal((COMPARED, model.nq - 7))
    level = jnp.tile(jaxcfa.neutral(model), (COMPARED, 1)).at[:, 7:].set(jnp.asarray(legs, dtype))
    gap = jax.jit(jax.vmap(lambda q: jaxcfa.contact_state(model, contacts, q, jnp.zeros(model.nv, dtype)).gap))(level)
    q = level.at[:, 2].add(-1e-3 - jnp.max(gap, axis=1))
    rows = np.arange(batch) % COMPARED
    states = (q[rows], jnp.asarray(v, dtype)[rows], jnp.zeros((batch, model.nv), dtype))
    return Problem(model, *(x if batch > 1 else x[0] for x in states), robot.file, robot.ends), contacts


def _feet(model: Model) -> AbstractContacts:
    return jaxcfa.ground_contacts(model, ROBOTS["Go2"].ends, _FOOT, _RADIUS, friction=_FRICTION)


def own(quantity: str, dtype: str, batch: int) -> Prepared:
    """This package, by `jax.vmap`."""
    found, contacts = standing(dtype, batch)

    def step(q: jax.Array, v: jax.Array, tau: jax.Array) -> jax.Array:
        return jaxcfa.step(found.model, q, v, tau, _DT, contacts=contacts)[1]

    def gradient(q: jax.Array, v: jax.Array, tau: jax.Array) -> jax.Array:
        return jax.grad(lambda tau: jnp.sum(step(q, v, tau)))(tau)

    function = step if quantity == STEP else gradient
    over_states = jax.vmap(function) if batch > 1 else function
    return compiled(over_states, found.q, found.v, found.x, value=compared if batch > 1 else np.asarray)


def in_mjx(dtype: str, batch: int, iterations: int | None) -> Prepared:
    """MJX, whose gradients are not defined: its solver is a loop of unknown length, or one iteration."""
    started = time.perf_counter()
    from mujoco import mjx

    found, in_c = standing(dtype, batch)[0], _on_ground(standing(dtype, batch)[0])
    if iterations is not None:
        in_c.opt.iterations, in_c.opt.ls_iterations = iterations, 5
    model, order = mjx.put_model(in_c), Order(found, joint_names(in_c))

    def step(q, v, tau):
        data = mjx.make_data(model).replace(qpos=q, qvel=v, qfrc_applied=tau)
        return mjx.step(model, data).qvel

    states = map(jnp.asarray, order.of(found.q, found.v, found.x))
    seconds = {"model": time.perf_counter() - started}
    prepared = compiled(jax.vmap(step) if batch > 1 else step, *states, value=None)
    return prepared._replace(seconds=seconds | prepared.seconds)


def in_mujoco(batch: int) -> Prepared:
    """MuJoCo's own engine, one state after the other."""
    started = time.perf_counter()
    import mujoco

    found = standing("float64", batch)[0]
    model = _on_ground(found)
    data, order = mujoco.MjData(model), Order(found, joint_names(model))

    def step(q, v, tau):
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, v, tau
        data.qacc_warmstart[:] = 0.0
        mujoco.mj_step(model, data)
        return data.qvel.copy()

    return one_by_one(started, step, order.of(*found.rows()), None)


def _on_ground(found: Problem):
    """MuJoCo's model with spheres as feet on a plane, and no other contacts."""
    import mujoco

    def add_ground(spec) -> None:
        friction = [_FRICTION, 0.0, 0.0]
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], friction=friction, condim=3)
        for end in found.ends:
            sphere = {"type": mujoco.mjtGeom.mjGEOM_SPHERE, "size": [_RADIUS, 0, 0], "pos": _FOOT, "mass": 0.0}
            spec.body(end).add_geom(**sphere, friction=friction, condim=3, contype=2, conaffinity=1)

    model = build(found, change=add_ground)
    model.opt.disableflags &= ~(mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    model.opt.timestep = _DT
    return model


def cases(settings: Settings) -> list[Case]:
    if settings.smoke:
        return []

    def case(quantity: str, dtype: str, batch: int) -> Case:
        contestants = [Contestant("jaxcfa", partial(own, quantity, dtype, batch))]
        if quantity == STEP:
            environment = PEERS["MJX"].environment(dtype)
            for name, iterations in (("MJX", None), ("MJX, 1 iteration", 1)):
                prepare = partial(in_mjx, dtype, batch, iterations)
                contestants.append(Contestant(name, prepare, "MJX", environment))
            if dtype == "float64":
                contestants.append(Contestant("MuJoCo", partial(in_mujoco, batch), "C++", environment))
        label = "one state" if batch == 1 else f"{batch} states"
        return Case(quantity, label, contestants, None, dtype, batch)

    return [
        case(quantity, dtype, batch)
        for quantity in (STEP, GRADIENT)
        for dtype, batch in (("float64", 1), ("float64", _BATCH), ("float32", _BATCH))
    ]

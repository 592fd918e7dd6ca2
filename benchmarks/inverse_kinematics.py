"""Inverse kinematics: poses that a robot can reach, all at once, beside Pinocchio's closed-loop inverse kinematics."""

import time
from functools import cache, partial

import jax
import numpy as np

import jaxcfa
from jaxcfa import inverse_kinematics as ik

from .case import Case, Contestant, Prepared
from .contestant import compiled
from .robots import example_robot, load
from .settings import Settings

TITLE = "Inverse kinematics of random reachable poses, within the joints' limits"
TARGETS = 1000
TOLERANCE = 1e-4  # as in Pinocchio's example
# Starts, iterations of each, length of steps, damping: those of Pinocchio's example, and what serves it better here.
_CLIK = {"Pinocchio's example": (1, 1000, 0.1, 1e-12), "Pinocchio, 20 starts": (20, 50, 1.0, 1e-3)}
_ROBOTS = {
    "Panda, hand": ("panda_description/urdf/panda.urdf", ("panda_hand",)),
    "Talos, both hands": (
        "talos_data/robots/talos_full_v2.urdf",
        ("gripper_left_base_link", "gripper_right_base_link"),
    ),
}


def cases(settings: Settings) -> list[Case]:
    return [
        Case(f"{TARGETS} targets", label, _contestants(path, frames), batch=TARGETS)
        for label, (path, frames) in settings.sizes(tuple(_ROBOTS.items()), ())
    ]


def _contestants(path: str, frames: tuple[str, ...]) -> list[Contestant]:
    return [
        Contestant("jaxcfa", lambda: _ours(*_problem(path, frames)), "jaxcfa 1"),
        *(Contestant(name, partial(_clik, path, frames, *options), "C++") for name, options in _CLIK.items()),
    ]


@cache
def _problem(path: str, frames: tuple[str, ...]) -> tuple[jaxcfa.Model, tuple[str, ...], list[jaxcfa.Transform]]:
    """The robot, and poses that it can reach."""
    model = load(example_robot(path)).astype("float64")

    def poses(key: jax.Array) -> list[jaxcfa.Transform]:
        q = jaxcfa.random_configuration(model, key)
        return [jaxcfa.frame_pose(model, q, frame) for frame in frames]

    return model, frames, jax.jit(jax.vmap(poses))(jax.random.split(jax.random.key(0), TARGETS))


def _ours(model: jaxcfa.Model, frames: tuple[str, ...], targets: list[jaxcfa.Transform]) -> Prepared:
    def solve(*poses: jaxcfa.Transform):
        found = ik.solve(model, [ik.FramePose(*x) for x in zip(frames, poses, strict=True)], tolerance=TOLERANCE)
        return found.reached, found.iterations

    return compiled(jax.vmap(solve), *targets, value=None)._replace(note=_note)


def _clik(path: str, frames: tuple[str, ...], starts: int, most: int, length: float, damping: float) -> Prepared:
    """Damped steps on the logarithm of the error, clipped to the limits."""
    import pinocchio as pin

    _, _, targets = _problem(path, frames)
    started = time.perf_counter()
    model = pin.buildModelFromUrdf(str(example_robot(path)))
    data, numbers = model.createData(), [model.getFrameId(frame) for frame in frames]
    seconds = time.perf_counter() - started
    rows = [
        [pin.SE3(np.asarray(x.rotation[i], float), np.asarray(x.translation[i], float)) for x in targets]
        for i in range(len(targets[0].translation))
    ]
    lower, upper = np.maximum(model.lowerPositionLimit, -np.pi), np.minimum(model.upperPositionLimit, np.pi)
    rng = np.random.default_rng(0)

    def reach(goals: list, q: np.ndarray) -> tuple[bool, int]:
        for iteration in range(most):
            pin.framesForwardKinematics(model, data, q)
            errors, jacobians = [], []
            for number, goal in zip(numbers, goals, strict=True):
                between = data.oMf[number].actInv(goal)
                errors.append(pin.log6(between).vector)
                own = pin.computeFrameJacobian(model, data, q, number, pin.LOCAL)
                jacobians.append(-pin.Jlog6(between.inverse()) @ own)
            error, jacobian = np.concatenate(errors), np.concatenate(jacobians)
            if np.max(np.abs(error)) <= TOLERANCE:
                return True, iteration
            damped = jacobian @ jacobian.T + damping * np.eye(len(error))
            step = -jacobian.T @ np.linalg.solve(damped, error)
            q = np.clip(pin.integrate(model, q, length * step), lower, upper)
        return False, most

    def solve(goals: list) -> tuple[bool, int]:
        total, q = 0, np.clip(0.5 * (lower + upper), lower, upper)
        for _ in range(starts):
            reached, iterations = reach(goals, q)
            total += iterations
            if reached:
                return True, total
            q = rng.uniform(lower, upper)
        return False, total

    return Prepared(lambda: np.array([solve(goals) for goals in rows]).T, {"model": seconds}, None, None, _note)


def _note(found) -> str:
    reached, iterations = (np.asarray(x, float) for x in found)
    return f"{100 * np.mean(reached):.1f} % reached, {np.mean(iterations):.0f} iterations on average"

"""`jaxcfa optimise`: a motion that brings a frame to a point."""

import functools
import warnings
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from rich.console import Console
from rich.markup import escape

from ..dynamics import inverse_dynamics, passive_forces
from ..joints import Free
from ..model import WORLD, Model, lock_joints
from ..optimal_control import MultipleShooting, Solution, SolveStatus, solve
from ..simulation import Trajectory
from ._motion_files import check_out, write_motion
from ._motion_problem import first_guess, motion_problem
from ._progress import working
from ._reach import Target, describe, reach, start_of

Columns = tuple[np.ndarray, np.ndarray]
_WORDS = {
    SolveStatus.SOLVED: "[green]Solved:[/] the motion is optimal, and within all limits",
    SolveStatus.STALLED: "[red]Not solved:[/] all limits are kept, but no step makes the motion better any more",
    SolveStatus.INFEASIBLE: "[red]Not solved:[/] no motion within the limits was found; try more --seconds",
    SolveStatus.ITERATIONS: "[red]Not solved:[/] the iterations were used up; try another --seed, or more --steps",
}


class Settings(NamedTuple):
    """Length of the motion [s], the number of its steps, where it begins (see `start_of`)."""

    seconds: float
    steps: int
    keyframe: str | None
    seed: int | None


def run_optimisation(
    console: Console, file: Path, model: Model, target: Target, settings: Settings, out: Path | None
) -> Trajectory | None:
    """Finds the motion, says how good it is, and writes it to a file if one is given; `None` if there is none."""
    check_out(out)
    target = target.checked(model)
    start = start_of(console, model, settings.keyframe, settings.seed)
    moving = _moving_joints(model, target)
    held = [name for name in model.joint_names if name not in moving]
    part = lock_joints(model, held, start)
    if held:
        console.print(f"Held where they are: {len(held)} joints that do not move {escape(target.frame)}")
    if part.constraints:
        console.print(f"[yellow]Warning:[/] {len(part.constraints)} constraints of the file are not held.")
    columns = _columns(model, moving)
    found = reach(console, part, target, start[columns[0]], loops=False)
    describe(console, target, found)
    if not found.is_reached:
        return None
    problem, driven = motion_problem(part, target, settings.seconds, settings.steps)
    with working(console, f"Compiling and optimising {settings.steps} steps"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the status says it in words
        guess = first_guess(part, driven, start[columns[0]], found.q, settings.steps)
        x0 = start[columns[0]], jnp.zeros(part.nv)
        solution = jax.block_until_ready(solve(problem, x0, guess, MultipleShooting(steps="linear")))
    status = SolveStatus(int(solution.status))
    console.print(
        f"{_WORDS[status]}; {int(solution.iterations)} iterations, cost {float(solution.cost):.6g}, "
        f"{target.miss(part, solution.q[-1])} from the target at the end",
        highlight=False,
    )
    if status != SolveStatus.SOLVED:
        return None
    trajectory = _whole(model, solution, driven, start, columns, settings.seconds / settings.steps)
    _warn_of_efforts(console, model, trajectory, held)
    write_motion(console, file, model, trajectory, out)
    return trajectory


def _moving_joints(model: Model, target: Target) -> list[str]:
    """Names of the joints between the world and the frame."""
    body = model.locate(target.frame)[0]
    names = []
    while body != WORLD:
        if isinstance(model.joint(body).joint, Free):
            raise ValueError(
                f"{model.joint_names[body]!r} lets the robot float, and no motor drives it; optimise is for robots "
                "with a fixed base."
            )
        names.append(model.joint_names[body])
        body = int(model.topology.parents[body])
    return names[::-1]


def _columns(model: Model, joints: list[str]) -> Columns:
    """Where the coordinates of some joints are in q and in v."""
    slices = [[f(name) for name in sorted(joints, key=model.joint_index)] for f in (model.q_slice, model.v_slice)]
    q, v = (np.concatenate([np.arange(s.start, s.stop) for s in of]) for of in slices)
    return q, v


def _whole(
    model: Model, solution: Solution, driven: np.ndarray, start: Array, columns: Columns, dt: float
) -> Trajectory:
    """The motion of the whole robot, with the torques that hold the joints which do not move."""
    steps, (in_q, in_v) = len(solution.controls), columns
    q = jnp.tile(start, (steps + 1, 1)).at[:, in_q].set(solution.q)
    v = jnp.zeros((steps + 1, model.nv)).at[:, in_v].set(solution.v)
    tau = jnp.zeros((steps, model.nv))
    if len(in_v) < model.nv:
        tau = _torques(model, q[:-1], v[:-1], (v[1:] - v[:-1]) / dt).at[:, in_v].set(0.0)
    tau = tau.at[:, in_v[driven]].set(solution.controls)
    return Trajectory(dt * jnp.arange(steps + 1), q, v, tau, jnp.zeros((), jnp.int32))


@jax.jit
@functools.partial(jax.vmap, in_axes=(None, 0, 0, 0))
def _torques(model: Model, q: Array, v: Array, qdd: Array) -> Array:
    return inverse_dynamics(model, q, v, qdd) - passive_forces(model, q, v)


def _warn_of_efforts(console: Console, model: Model, trajectory: Trajectory, held: list[str]) -> None:
    """Names held joints that would need more than their efforts."""
    weak = []
    for name in held:
        rows = model.v_slice(name)
        needed = np.max(np.abs(np.asarray(trajectory.tau[:, rows])), axis=0, initial=0.0)
        most = np.asarray(model.limits.effort[rows])
        weak += [
            f"{name} ({need:.3g} of {limit:g})" for need, limit in zip(needed, most, strict=True) if need > limit > 0
        ]
    if weak:
        console.print(
            f"[yellow]Warning:[/] to be held, these joints need more than their effort limits: "
            f"{escape(', '.join(weak))}",
            highlight=False,
        )

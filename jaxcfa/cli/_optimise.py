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
from ..model import Model
from ..optimal_control import Posture, Solution, SolveStatus, solve
from ..simulation import Trajectory
from ._facts import joint_types
from ._motion_files import Output, check_out, write_motion
from ._motion_problem import first_guess, motion_problem
from ._progress import working
from ._reach import Columns, Target, describe, mover, reach
from ._start import start_of

_WORDS = {
    SolveStatus.SOLVED: "[green]Solved:[/] the motion is optimal, and within all limits.",
    SolveStatus.STALLED: "[red]Not solved:[/] all limits are kept, but no step makes the motion better any more.",
    SolveStatus.INFEASIBLE: "[red]Not solved:[/] no motion within all limits was found. Try more --seconds or --steps.",
    SolveStatus.ITERATIONS: "[red]Not solved:[/] the iterations were used up. Try more --steps, or another --seed.",
}


class Settings(NamedTuple):
    """Length of the motion [s], the number of its steps, where it begins (see `start_of`)."""

    seconds: float
    steps: int
    keyframe: str | None
    seed: int | None


def run_optimisation(
    console: Console, file: Path, model: Model, target: Target, settings: Settings, out: Output
) -> Trajectory | None:
    """Finds the motion, says how good it is, and writes it to a file if one is given; `None` if there is none."""
    check_out(out, settings.seconds)
    target = target.checked(model)
    start = start_of(console, model, settings.keyframe, settings.seed)
    part, columns, held = mover(model, target, start)
    _check_base(part)
    if held:
        names = ", ".join(held) if len(held) < 4 else f"{len(held)} joints"
        console.print(f"Held, as it does not move {target.frame}: {names}", markup=False, highlight=False)
    if part.constraints:
        console.print(f"[yellow]Warning:[/] {len(part.constraints)} constraints of the file are not held.")
    found = reach(console, part, target, start[columns[0]], loops=False)
    describe(console, target, found)
    if not found.is_reached:
        return None
    solution, driven = _solution(console, part, target, start[columns[0]], found.q, settings)
    status = SolveStatus(int(solution.status))
    console.print(_WORDS[status])
    console.print(
        f"Iterations {int(solution.iterations)}, cost {float(solution.cost):.6g}, "
        f"final distance {target.miss(part, solution.q[-1])}",
        highlight=False,
    )
    if status != SolveStatus.SOLVED:
        return None
    trajectory = _whole(model, solution, driven, start, columns, settings.seconds / settings.steps)
    _warn_of_efforts(console, model, trajectory, held)
    write_motion(console, file, model, trajectory, out)
    return trajectory


def _solution(
    console: Console, model: Model, target: Target, start: Array, end: Array, settings: Settings
) -> tuple[Solution, np.ndarray]:
    """The motion and the coordinates that are driven.

    If none is found that ends at the target in any posture, one is looked for that ends in the posture `end` which
    reaches it: where the arm is stretched, for example, the frame's position alone is no regular constraint.
    """
    text = f"Compiling and optimising {settings.steps} steps"
    for term, title in ((target.term, text), (Posture(end), f"{text} to a given posture")):
        with working(console, title), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the status says it in words
            problem, driven = motion_problem(model, term, settings.seconds, settings.steps)
            guess = first_guess(model, driven, start, end, settings.steps)
            solution = jax.block_until_ready(solve(problem, (start, jnp.zeros(model.nv)), guess))
        if solution.status == SolveStatus.SOLVED:
            break
    return solution, driven


def _check_base(model: Model) -> None:
    """`ValueError` for a robot that floats."""
    for name, kind in zip(model.joint_names, joint_types(model), strict=True):
        if kind == Free.__name__:
            raise ValueError(
                f"{name!r} lets the robot float without a motor; optimise is for robots with a fixed base."
            )


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

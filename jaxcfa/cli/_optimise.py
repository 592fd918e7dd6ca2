"""`jaxcfa optimise`: a motion that brings a frame to a point."""

import functools
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from rich.console import Console

from ..closed_chains import constrained_forward_dynamics
from ..closed_chains._system import geometry
from ..dynamics import inverse_dynamics, passive_forces
from ..model import Model
from ..motion import body_motions
from ..optimal_control import Problem, Solution, SolveStatus, Velocity, solve
from ..simulation import Trajectory
from ._motion_files import Output, check_out, write_motion
from ._motion_problem import end_at, first_guess, motion_problem
from ._progress import quietly, warn
from ._reach import Mover, Target, closed_start, describe, mover, reach

_WORDS = {
    SolveStatus.SOLVED: "[green]Solved:[/] the motion is optimal, and within all limits.",
    SolveStatus.STALLED: "[red]Not solved:[/] all limits are kept, but no step makes the motion better any more.",
    SolveStatus.INFEASIBLE: "[red]Not solved:[/] no motion within all limits was found. Try more --seconds or --steps.",
    SolveStatus.ITERATIONS: "[red]Not solved:[/] the iterations were used up. Try more --steps, or another --seed.",
}


class Settings(NamedTuple):
    """Length of the motion [s], the number of its steps, where it begins (see `closed_start`)."""

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
    start = closed_start(console, model, settings.keyframe, settings.seed)
    part = mover(model, target, start, base=False)
    if part.held:
        names = ", ".join(part.held) if len(part.held) < 4 else f"{len(part.held)} joints"
        console.print(f"Held: {names}", markup=False, highlight=False)
    in_q, _ = part.columns
    found = reach(console, part.model, target, start[in_q])
    describe(console, target, found)
    if not found.is_reached:
        return None
    problem, solution = _solution(console, part.model, target, start[in_q], found.q, settings)
    status = SolveStatus(int(solution.status))
    console.print(_WORDS[status])
    console.print(
        f"Iterations {int(solution.iterations)}, cost {float(solution.cost):.6g}, "
        f"final distance {target.miss(part.model, solution.q[-1])}",
        highlight=False,
    )
    if not solution.solved:
        return None
    trajectory = with_held(model, part, solution.trajectory(problem), start)
    _warn_of_efforts(console, model, trajectory, part.held)
    write_motion(console, file, model, trajectory, out)
    return trajectory


def _solution(
    console: Console, model: Model, target: Target, start: Array, end: Array, settings: Settings
) -> tuple[Problem, Solution]:
    """The problem and the motion.

    If none is found that ends at the target in any posture, one is looked for that ends in the posture `end` which
    reaches it: where the arm is stretched, for example, the frame's position alone is no regular constraint. Nor is it
    where loops leave fewer freedoms than it has coordinates.
    """
    text = f"Compiling and optimising {settings.steps} steps"
    ends = [(end_at(model, end), f"{text} to a given posture")]
    if not model.constraints:
        ends.insert(0, ((target.term, Velocity()), text))
    for terms, title in ends:
        with quietly(console, title):  # the status says it in words
            problem, driven = motion_problem(model, terms, settings.seconds, settings.steps)
            guess = first_guess(model, driven, start, end, settings.steps)
            solution = jax.block_until_ready(solve(problem, (start, jnp.zeros(model.nv)), guess))
        if solution.solved:
            break
    return problem, solution


def with_held(model: Model, part: Mover, motion: Trajectory, start: Array) -> Trajectory:
    """The motion of the whole robot from that of a part, with the torques that hold the joints which do not move."""
    n, (in_q, in_v) = len(motion.t), part.columns
    q = jnp.tile(start, (n, 1)).at[:, in_q].set(motion.q)
    v = jnp.zeros((n, model.nv)).at[:, in_v].set(motion.v)
    tau = jnp.zeros((n - 1, model.nv))
    if part.held:
        tau = _torques(model, q[:-1], v[:-1], jnp.diff(v, axis=0) / jnp.diff(motion.t)[:, None])
    if part.held and part.constraints:
        tau -= _constraint_forces(model, part, q[:-1], motion.q[:-1], motion.v[:-1], motion.tau)
    return motion._replace(q=q, v=v, tau=tau.at[:, in_v].set(motion.tau))


@jax.jit
@functools.partial(jax.vmap, in_axes=(None, 0, 0, 0))
def _torques(model: Model, q: Array, v: Array, qdd: Array) -> Array:
    return inverse_dynamics(model, q, v, qdd) - passive_forces(model, q, v)


def _constraint_forces(model: Model, part: Mover, q: Array, q_part: Array, v: Array, tau: Array) -> Array:
    """Generalised forces (n, nv) of the constraints on the whole robot, in states and under torques of its part."""

    @jax.jit
    @jax.vmap
    def forces(q: Array, q_part: Array, v: Array, tau: Array) -> Array:
        loads = tau + passive_forces(part.model, q_part, v)
        found = constrained_forward_dynamics(part.model, part.model.constraints, q_part, v, loads)
        return geometry(model, part.constraints, body_motions(model, q)).jacobian.T @ found.multipliers

    return forces(q, q_part, v, tau)


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
        warn(console, f"to be held, these joints need more than their effort limits: {', '.join(weak)}")

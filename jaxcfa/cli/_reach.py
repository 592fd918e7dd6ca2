"""`jaxcfa ik`, and whether a target is within reach."""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .. import __version__
from ..closed_chains._relations import related
from ..inverse_kinematics import FramePose, FramePosition, solve
from ..joints import Free
from ..kinematics import frame_pose
from ..model import WORLD, AbstractConstraint, JointCoupling, Model, lock_joints
from ..model._joint_groups import coordinate_names
from ..spatial import Transform, rotation_log
from ._facts import Facts, joint_types, plain
from ._progress import quietly
from ._start import start_of

Numbers = tuple[float, float, float]
Columns = tuple[np.ndarray, np.ndarray]  # of coordinates in q and in v


class Target(NamedTuple):
    """Where a frame is to be: its name, position [m], and angles of roll, pitch and yaw [rad] if these count."""

    frame: str
    position: Numbers
    rpy: Numbers | None

    def checked(self, model: Model) -> "Target":
        """The same; `ValueError` for a frame that is none or does not move, and for what is not finite, and for
        angles that look like degrees."""
        if model.locate(self.frame)[0] == WORLD:
            raise ValueError(f"{self.frame!r} is fixed to the world; no joint moves it.")
        for option, numbers in (("--target", self.position), ("--rpy", self.rpy or ())):
            if not all(map(math.isfinite, numbers)):
                raise ValueError(f"{option} must be finite numbers, got {numbers}.")
        if any(abs(angle) > 2 * math.pi for angle in self.rpy or ()):
            raise ValueError(f"--rpy must be angles in radians, between -2 pi and 2 pi, got {self.rpy}.")
        return self

    @property
    def pose(self) -> Transform:
        """The pose; without angles its rotation means nothing."""
        return Transform.from_rpy(*(self.rpy or (0.0, 0.0, 0.0)), jnp.array(self.position))

    @property
    def term(self) -> FramePose | FramePosition:
        """The residual that vanishes there."""
        if self.rpy is None:
            return FramePosition(self.frame, jnp.array(self.position))
        return FramePose(self.frame, self.pose)

    def miss(self, model: Model, q: jax.Array) -> "Miss":
        """How far the frame is from it."""
        pose, target = frame_pose(model, q, self.frame), self.pose
        distance = float(np.linalg.norm(np.asarray(pose.translation - target.translation)))
        if self.rpy is None:
            return Miss(distance, None)
        turn = rotation_log(target.rotation.T @ pose.rotation)
        return Miss(distance, float(np.linalg.norm(np.asarray(turn))))


class Miss(NamedTuple):
    """How far a frame is from its target: the distance [m], and the angle [rad] if the orientation counts."""

    distance: float
    angle: float | None

    def __str__(self) -> str:
        turned = "" if self.angle is None else f" and {self.angle:.3g} rad"
        return f"{self.distance:.3g} m{turned}"


class Reach(NamedTuple):
    """What inverse kinematics found: a configuration, whether it reaches the target, how far it is from it, and the
    number of starts."""

    q: jax.Array
    is_reached: bool
    miss: Miss
    starts: int


class Mover(NamedTuple):
    """The joints that move a frame: as a robot of its own, with the constraints between them; where their coordinates
    are; these constraints in the whole robot; names of the joints that are held."""

    model: Model
    columns: Columns
    constraints: tuple[AbstractConstraint, ...]
    held: list[str]


def mover(model: Model, target: Target, start: jax.Array, *, base: bool = True) -> Mover:
    """The joints that move the frame, and those that loops move with them; `base`: those that let a robot float, too.

    **Raises:** `ValueError` where nothing else moves the frame.
    """
    still = set() if base else {i for i, kind in enumerate(joint_types(model)) if kind == Free.__name__}
    moving = _ancestors(model, model.locate(target.frame)[0]) - still
    if not moving:
        raise ValueError(f"{target.frame!r} is part of the base, which is held; no other joint moves it.")
    bound: set[int] = set()
    while more := {
        i for i, x in enumerate(model.constraints) if i not in bound and not moving.isdisjoint(_between(model, x))
    }:
        bound |= more
        moving = moving.union(*(_between(model, model.constraints[i]) for i in more)) - still
    chosen = sorted(moving)
    q, v = (
        np.concatenate([np.arange(s.start, s.stop) for s in map(of, chosen)]) for of in (model.q_slice, model.v_slice)
    )
    held = [name for i, name in enumerate(model.joint_names) if i not in moving]
    constraints = tuple(model.constraints[i] for i in sorted(bound))
    part = lock_joints(dataclasses.replace(model, constraints=constraints), held, start)
    return Mover(part, (q, v), constraints, held)


def _ancestors(model: Model, body: int) -> set[int]:
    """Numbers of the joints that move a body."""
    found = set()
    while body != WORLD:
        found.add(body)
        body = int(model.topology.parents[body])
    return found


def _between(model: Model, constraint: AbstractConstraint) -> set[int]:
    """Numbers of the joints between the two bodies of a constraint, or of the joints that it couples."""
    first, second = related(constraint)
    if isinstance(constraint, JointCoupling):
        return {first, second} - {WORLD}
    return _ancestors(model, first) ^ _ancestors(model, second)


def closed_start(console: Console, model: Model, keyframe: str | None, seed: int | None) -> jax.Array:
    """`start_of` with the loops of the file closed, within the joints' ranges."""
    start = start_of(console, model, keyframe, seed)
    if not model.constraints:
        return start
    with quietly(console, "Closing the loops of the file"):
        found = jax.block_until_ready(solve(model, (), start, constraints=model.constraints))
    if not found.reached:
        raise ValueError("No configuration was found that closes the loops of the file within the joints' ranges.")
    return found.q


def reach(console: Console, model: Model, target: Target, start: jax.Array) -> Reach:
    """The configuration that brings a frame to its target, or as near as was found; the model's loops are closed."""
    # What is not reached is said by the callers.
    with quietly(console, "Looking for a configuration that reaches the target"):
        found = jax.block_until_ready(solve(model, target.term, start, constraints=model.constraints))
    return Reach(found.q, bool(found.reached), target.miss(model, found.q), int(found.starts))


def describe(console: Console, target: Target, found: Reach) -> None:
    """Says whether the target is within reach."""
    place = f"{escape(target.frame)} to {' '.join(f'{x:g}' for x in target.position)}"
    if found.is_reached:
        console.print(f"Within reach: a configuration brings {place}", highlight=False)
    else:
        console.print(
            f"[red]Out of reach:[/] none of {found.starts} starts led to a configuration within the joints' ranges "
            f"that brings {place}; the nearest one misses it by {found.miss}",
            highlight=False,
        )


def run_ik(console: Console, model: Model, target: Target, keyframe: str | None, seed: int | None) -> Reach:
    """The configuration of the whole robot that brings a frame to its target, or as near as was found."""
    target = target.checked(model)
    start = closed_start(console, model, keyframe, seed)
    part = mover(model, target, start)
    columns, _ = part.columns
    found = reach(console, part.model, target, start[columns])
    return found._replace(q=start.at[columns].set(found.q))


def show_reach(console: Console, model: Model, target: Target, found: Reach) -> None:
    """Prints what was found: whether the target is within reach, and all coordinates."""
    describe(console, target, found)
    table = Table("joint", "q (rad, m)", box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name, value in zip(coordinate_names(model, "q"), np.asarray(found.q), strict=True):
        table.add_row(escape(name), f"{value: .6f}")
    console.print(table)


def reach_facts(file: str, model: Model, target: Target, found: Reach) -> Facts:
    """The same for machines; lengths [m], angles [rad]."""
    return plain(
        {
            "jaxcfa": __version__,
            "file": file,
            "frame": target.frame,
            "target": list(target.position),
            "rpy": None if target.rpy is None else list(target.rpy),
            "reached": found.is_reached,
            "distance": found.miss.distance,
            "angle": found.miss.angle,
            "starts": found.starts,
            "names": coordinate_names(model, "q"),
            "q": np.asarray(found.q),
        }
    )

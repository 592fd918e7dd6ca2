"""Motions in files of jaxcfa's own."""

from typing import Any

from ..environments import Transition
from ..optimal_control import History, Solution
from ..optimal_control._local import Multipliers, Rows
from ..simulation import Linearization, State, Trajectory
from ..spatial import Transform
from ._archive import read_archive, types_by_name, write_archive
from ._source import PathOrText, read_file

_KNOWN = types_by_name([Trajectory, State, Linearization, Transition, Solution, History, Multipliers, Rows, Transform])


def save_trajectory(path: PathOrText, trajectory: Any) -> None:
    """Write a motion to a file, from which `load_trajectory` reads it again, bit by bit.

    **Arguments:** `path`: of the file, which is overwritten; it must end with `.npz`. `trajectory`: what `rollout`,
    `step`, `linearize` or `optimal_control.solve` returns, or the `Transition` of `environments.unroll`, one or a
    batch; or dictionaries, tuples and lists of such, arrays, numbers and strings, for example
    `{"robot": "arm", "q": q, "forces": wrenches}`. Arrays are called after their places, as in
    `numpy.load(path)["q"]`.

    **Raises:** `ValueError` for another ending, for what is traced, and for what cannot be stored.
    """
    write_archive(path, "trajectory", trajectory, _KNOWN)


def load_trajectory(path: PathOrText) -> Any:
    """What `save_trajectory` wrote: the same types, with JAX arrays.

    Doubles become single precision where JAX's double precision is off. Nothing in the file is executed.

    **Raises:** `FileNotFoundError` for a wrong path; `ValueError` for a file that is damaged, of another kind, or
    written by a newer version.
    """
    source = read_file(path)
    return read_archive(source.data, source.name, "trajectory", _KNOWN)

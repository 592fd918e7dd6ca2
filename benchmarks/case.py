"""Cases and contestants: what benchmarks consist of."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

COMPARED = 64  # states of a batch whose results are compared
OWN = "jaxcfa"  # how the names of processes of this package start


class Unable(Exception):
    """A contestant cannot take part; the message is the reason that the report gives."""


class Prepared(NamedTuple):
    """A contestant that is ready to run.

    **Fields:** `run`: does the work, and waits for it. `seconds`: what preparation took, by step. `value`: turns what
    `run` returns into an array that can be compared with that of other contestants, of the first `COMPARED` states of a
    batch; or is `None`. `memory`: what the program needs for intermediate results and outputs [bytes], if that is
    known. `note`: says in words what `run` has found.
    """

    run: Callable[[], Any]
    seconds: dict[str, float]
    value: Callable[[Any], np.ndarray] | None = np.asarray
    memory: int | None = None
    note: Callable[[Any], str] | None = None


class Contestant(NamedTuple):
    """Something to prepare once and to run many times, in a process of its package.

    **Fields:** `prepare`: called there. `package`: contestants of one package share a process, those of different ones
    never do. `environment`: variables of that process. `reference`: its result is what others are compared with; by
    default that of the first. `timed`: whether it is measured.
    """

    name: str
    prepare: Callable[[], Prepared]
    package: str = OWN
    environment: tuple[tuple[str, str], ...] = ()
    reference: bool = False
    timed: bool = True


@dataclasses.dataclass(frozen=True)
class Case:
    """One column of a table.

    **Fields:** `quantity`: what is computed; cases of the same quantity make a table. `label`: of the column.
    `contestants`: in order. `size`: a number that grows from case to case, if there is one. `dtype`: of this package's
    numbers and of other packages that have both. `batch`: how many states one run computes. `fresh`: nothing is timed
    but the first call, of each contestant alone in a new process. `later`: cases of a smaller number come
    first, in all benchmarks; the last ones only if there is time.
    """

    quantity: str
    label: str
    contestants: Sequence[Contestant]
    size: int | None = None
    dtype: str = "float64"
    batch: int = 1
    fresh: bool = False
    later: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        return self.quantity, self.label, self.dtype

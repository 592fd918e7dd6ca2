"""Cases: what benchmarks consist of."""

from collections.abc import Callable
from typing import NamedTuple

from .contestant import Contestant


class Case(NamedTuple):
    """One column of a table.

    **Fields:** `quantity`: what is computed; cases of the same quantity make a table. `label`: of the column. `size`:
    a number that grows from case to case, if there is one. `contestants`: makes the contestants. `prepare_only`:
    nothing is run; preparation itself is measured several times.
    """

    quantity: str
    label: str
    size: int | None
    contestants: Callable[[], list[Contestant]]
    prepare_only: bool = False

"""What the command line decides."""

import dataclasses
from pathlib import Path

import numpy as np

from . import methods
from .methods import Function


@dataclasses.dataclass(frozen=True)
class Settings:
    """Options of a run.

    **Fields:** `smoke`: tiny sizes, to see that everything runs. `dtype`: of this package's and frax's numbers; other
    packages have float64 only. `repetitions`: samples per measurement. `cap`: time for one measurement [s]; a
    contestant that takes or is expected to take longer is dropped for larger sizes. `methods`: names of the
    algorithms to measure; all if empty. `output`: folder of the results.
    """

    smoke: bool = False
    dtype: str = "float64"
    repetitions: int = 15
    cap: float = 20.0
    methods: tuple[str, ...] = ()
    output: Path = Path("output/bench")

    def sizes(self, full: tuple, smoke: tuple) -> tuple:
        """The sizes of a benchmark."""
        return smoke if self.smoke else full

    @property
    def forward(self) -> dict[str, Function]:
        """The chosen algorithms for forward dynamics."""
        names = self.methods or tuple(methods.FORWARD)
        return {name: methods.FORWARD[name] for name in names}

    @property
    def inverse(self) -> dict[str, Function]:
        """The algorithms for inverse dynamics; only the first in a smoke test."""
        return dict(list(methods.INVERSE.items())[: 1 if self.smoke else None])

    @property
    def float_type(self) -> np.dtype:
        return np.dtype(self.dtype)

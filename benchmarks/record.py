"""Results of measurements, and their JSON files."""

import dataclasses
import json
from pathlib import Path

import numpy as np


@dataclasses.dataclass
class Record:
    """What was measured of one contestant in one case.

    **Fields:** `seconds`: samples of the time of one run; none if it failed, for the `reason` given. `preparation`:
    samples of the time of each step of the preparation. `difference`: from the first contestant's result of the same
    shape, relative to the largest entry. `memory` for intermediate results and outputs [bytes], if known.
    `note`: what was found, in words.
    """

    quantity: str
    label: str
    size: int | None
    contestant: str
    seconds: list[float] = dataclasses.field(default_factory=list)
    preparation: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    difference: float | None = None
    reason: str | None = None
    memory: int | None = None
    note: str | None = None

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """First quartile, median and third quartile of the run times; NaN without any."""
        return quartiles(self.seconds)

    @property
    def preparation_medians(self) -> dict[str, float]:
        return {step: quartiles(samples)[1] for step, samples in self.preparation.items()}


@dataclasses.dataclass
class Result:
    """The records of one benchmark, and how they came about."""

    benchmark: str
    title: str
    dtype: str
    date: str
    commit: str
    settings: dict
    environment: dict[str, str]
    records: list[Record]

    @property
    def stem(self) -> str:
        return f"{self.benchmark}-{self.dtype}"

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.stem}.json").write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")


def read(path: Path) -> Result:
    fields = json.loads(path.read_text())
    return Result(**fields | {"records": [Record(**record) for record in fields["records"]]})


def quartiles(samples: list[float]) -> tuple[float, float, float]:
    return tuple(np.percentile(samples, (25, 50, 75)).tolist()) if samples else (np.nan,) * 3

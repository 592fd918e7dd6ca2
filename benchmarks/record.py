"""Results of measurements, and their JSON files."""

import dataclasses
import json
from pathlib import Path

import numpy as np

_DIGITS = 4  # of a sample in a file
NOT_FINITE = "its result is not finite"


@dataclasses.dataclass
class Record:
    """What was measured of one contestant in one case.

    **Fields:** `seconds`: samples of the time of one run; none if it failed, for the `reason` given. `preparation`:
    the time of each step of the preparation, and `first`, of the run after it. `difference` from the reference's
    result, relative to the largest entry; `reference`: whether this is it. `peer`: whether it is another package.
    `memory` for intermediate results and outputs [bytes], if known. `resident`: the largest memory of the process
    that had nothing else to do [bytes]. `note`: what was found, in words.
    """

    quantity: str
    label: str
    size: int | None
    contestant: str
    dtype: str = "float64"
    batch: int = 1
    seconds: list[float] = dataclasses.field(default_factory=list)
    preparation: dict[str, float] = dataclasses.field(default_factory=dict)
    first: float | None = None
    difference: float | None = None
    reference: bool = False
    peer: bool = False
    reason: str | None = None
    memory: int | None = None
    resident: int | None = None
    note: str | None = None

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """First quartile, median and third quartile of the run times; NaN without any."""
        return tuple(np.percentile(self.seconds, (25, 50, 75)).tolist()) if self.seconds else (np.nan,) * 3

    @property
    def timed(self) -> bool:
        return bool(self.seconds) and self.reason is None

    @property
    def trusted(self) -> bool:
        """Whether the result is near enough to the reference to be recommended; also where there is none."""
        limit = {"float32": 1e-3, "float64": 1e-6}[self.dtype]
        return self.timed and self.note != NOT_FINITE and (self.difference or 0.0) < limit

    @property
    def median(self) -> float:
        return self.quartiles[1]

    @property
    def key(self) -> tuple[str, str, str]:
        """That of the case."""
        return self.quantity, self.label, self.dtype


@dataclasses.dataclass
class Result:
    """The records of one benchmark, and how they came about.

    **Fields:** `minutes`: how long all of its cases took. `missing`: how many cases were left out for want of time.
    """

    benchmark: str
    title: str
    date: str
    commit: str
    settings: dict
    environment: dict[str, str]
    records: list[Record]
    minutes: float = 0.0
    missing: int = 0

    def write(self, folder: Path) -> None:
        """A file with one line for each record."""
        folder.mkdir(parents=True, exist_ok=True)
        fields = {name: value for name, value in vars(self).items() if name != "records"}
        records = ",\n".join(json.dumps(_compact(record)) for record in self.records)
        text = json.dumps(fields, indent=1).removesuffix("\n}") + f',\n "records": [\n{records}\n]}}\n'
        path = folder / f"{self.benchmark}.json"
        part = path.with_suffix(".part")
        part.write_text(text)
        part.replace(path)  # so that an interruption leaves either the old file or the new


def read(path: Path) -> Result:
    fields = json.loads(path.read_text())
    return Result(**fields | {"records": [Record(**record) for record in fields["records"]]})


def _compact(record: Record) -> dict:
    """What differs from the defaults, with few digits."""
    empty = Record("", "", None, "")
    fields = {name: value for name, value in vars(record).items() if value != getattr(empty, name)}
    for name in ("quantity", "label", "contestant"):
        fields[name] = getattr(record, name)
    return {"size": record.size} | json.loads(
        json.dumps(fields), parse_float=lambda x: float(f"{float(x):.{_DIGITS}g}")
    )

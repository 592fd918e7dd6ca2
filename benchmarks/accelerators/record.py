"""Results, and their JSON file."""

import dataclasses
import json
from pathlib import Path

from .reading import Figures


@dataclasses.dataclass
class Record:
    """What became of one program.

    **Fields:** names of the `program` and the `target`; seconds to `trace` and to `compile`, and of all processors
    for both (`work`), which other programs on the machine change less; `temporary` memory [MiB]; `figures`, `None` if
    it failed for the `reason` given.
    """

    program: str
    target: str
    trace: float = 0.0
    compile: float = 0.0
    work: float = 0.0
    temporary: float = 0.0
    figures: Figures | None = None
    reason: str | None = None


@dataclasses.dataclass
class Results:
    """**Fields:** `versions` of what has compiled; `date`; `records`."""

    versions: dict[str, str]
    date: str
    records: list[Record]

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")


def read(path: Path) -> Results:
    """The results in a file."""
    fields = json.loads(path.read_text())
    return Results(fields["versions"], fields["date"], [_record(x) for x in fields["records"]])


def _record(fields: dict) -> Record:
    return Record(**fields | {"figures": fields["figures"] and Figures(**fields["figures"])})

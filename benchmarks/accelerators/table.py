"""Results as tables."""

from pathlib import Path

from .record import Record, Results, read
from .targets import TARGETS

_HEAD = {
    "gpu": ("program", "kernels", "MB moved", "temporary MiB", "compile s", "CPU s", "libraries"),
    "tpu": ("program", "kcycles", "kernels", "MB moved", "temporary MiB", "compile s", "CPU s", "libraries"),
}


def section(path: Path) -> str:
    """The part of the report on what is in a file."""
    return markdown(read(path))


def markdown(results: Results) -> str:
    """A table for each target."""
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    counted = (
        "What is in loops counts as often as they run, `>=` where XLA does not know how often. Cycles are those that "
        "XLA:TPU estimates. MB moved are those between kernels; TPUs keep most of them in fast memory. Seconds of "
        "compilation have tracing with them."
    )
    parts = [f"Compiled on {results.date} by {versions} for devices that were not there; float32.", counted]
    for name, target in TARGETS.items():
        records = [record for record in results.records if record.target == name]
        if records:
            parts.append(f"### {target.title}\n\n{_table(records, _HEAD[target.backend])}")
    return "\n\n".join(parts) + "\n"


def _table(records: list[Record], head: tuple[str, ...]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---" + "|---:" * (len(head) - 2) + "|---|"]
    for record in records:
        cells = cells_of(record)
        lines.append(f"| {' | '.join(cells[column] for column in head)} |")
    return "\n".join(lines)


def cells_of(record: Record) -> dict[str, str]:
    """The figures of a record as text, by column."""
    figures = record.figures
    if figures is None:
        reason = (record.reason or "").splitlines()[0][:200].replace("|", "/")
        return dict.fromkeys((*_HEAD["tpu"], "notes"), "") | {
            "program": record.program,
            "libraries": f"fails: {reason}",
        }
    at_least = "" if figures.exact else ">= "
    notes = [f"{count} {name}" for name, count in figures.calls.items()]
    notes += [f"{figures.low_precision} products of low precision"] if figures.low_precision else []
    notes += [f"{figures.double} instructions in float64"] if figures.double else []
    return {
        "program": record.program,
        "kernels": f"{at_least}{figures.kernels:,}",
        "kcycles": f"{at_least}{figures.kilocycles:,.0f}",
        "MB moved": f"{at_least}{figures.megabytes:,.1f}",
        "temporary MiB": f"{record.temporary:,.1f}",
        "compile s": f"{record.trace + record.compile:.0f}",
        "CPU s": f"{record.work:.0f}",
        "libraries": ", ".join(notes),
    }

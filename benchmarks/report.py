"""The report: Markdown tables of all results."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from .record import Record, Result

_INTRODUCTION = """\
Times are medians over repetitions, with the first and third quartile in brackets. The contestants of a column run in
turn, repetition by repetition, so that a disturbance of the machine meets all of them. A column is one program or
one loop of calls: divide by the size of the batch for the time per state. Pinocchio and MuJoCo are called from
Python for one state after the other, on one core and in float64 always. Compilation starts from empty caches.
"""
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def report(environment: dict[str, str], results: Sequence[Result], left_out: Sequence[str]) -> str:
    """All results as Markdown; `left_out` names those that were measured elsewhere."""
    lines = ["# Benchmarks", "", _INTRODUCTION, *table(["", ""], list(environment.items()))]
    if left_out:
        lines += ["", f"Left out, since measured with other hardware or versions: {', '.join(left_out)}."]
    for result in results:
        lines += ["", *_section(result)]
    return "\n".join(lines) + "\n"


def unique(items: Iterable[str]) -> list[str]:
    """The items without duplicates, in order."""
    return list(dict.fromkeys(items))


def _section(result: Result) -> list[str]:
    smoke = " **Smoke test: tiny sizes, no optimisation; the times mean nothing.**" if result.settings["smoke"] else ""
    source = f"`{result.benchmark}`, {result.dtype}, {result.date}, commit {result.commit}"
    limits = f"at most {result.settings['repetitions']} repetitions and {result.settings['cap']:g} s each"
    lines = [f"## {result.title}", "", f"{source}; {limits}.{smoke}"]
    for quantity in unique(record.quantity for record in result.records):
        lines += _quantity(quantity, [record for record in result.records if record.quantity == quantity])
    return [*lines, "", f"![{result.title}]({result.stem}.png)"]


def _quantity(quantity: str, records: list[Record]) -> list[str]:
    lines = []
    if any(record.seconds for record in records):
        first = records[0].contestant
        lines += ["", f"### {quantity}: run time", "", *_pivot(records, _run_time)]
        lines += ["", f"Run time relative to {first}:", "", *_pivot(records, _relative_to(records))]
        if any(record.memory for record in records):
            lines += ["", "Memory for intermediate results and outputs:", "", *_pivot(records, _memory)]
    lines += ["", f"### {quantity}: preparation", "", "Sum of tracing, lowering and compiling, or reading a model:"]
    lines += ["", *_pivot(records, _preparation, _growth)]
    return [*lines, *_remarks(records)]


def _remarks(records: list[Record]) -> list[str]:
    lines = []
    differences: dict[str, float] = {}
    for record in records:
        if record.difference:
            differences[record.contestant] = max(differences.get(record.contestant, 0.0), record.difference)
    if differences:
        parts = ", ".join(f"{name} {value:.0e}" for name, value in differences.items())
        lines += ["", f"Largest difference from the first such result, relative to the largest entry: {parts}."]
    notes = [f"- {record.contestant} at {record.label}: {record.note}" for record in records if record.note]
    if notes:
        lines += ["", "Found:", "", *notes]
    reasons: dict[tuple[str, str], list[str]] = {}
    for record in records:
        if record.reason:
            reasons.setdefault((record.contestant, record.reason), []).append(record.label)
    if reasons:
        lines += ["", "Not measured:", ""]
        lines += [f"- {name} at {', '.join(labels)}: {reason}" for (name, reason), labels in reasons.items()]
    return lines


def _pivot(
    records: list[Record], cell: Callable[[Record], str], last: Callable[[list[Record]], str] | None = None
) -> list[str]:
    """A table with a row for each contestant and a column for each case; `last` makes a last column of a row."""
    labels = unique(record.label for record in records)
    last = last if len(labels) > 1 and records[0].size is not None else None
    rows = []
    for name in unique(record.contestant for record in records):
        own = {record.label: record for record in records if record.contestant == name}
        cells = [cell(own[label]) if label in own else "" for label in labels]
        rows.append([name, *cells, *([last(list(own.values()))] if last else [])])
    return table(["", *labels, *(["last : first"] if last else [])], rows)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return [f"| {' | '.join(cells)} |" for cells in (header, rule, *rows)]


def _run_time(record: Record) -> str:
    if not record.seconds:
        return "-"
    low, median, high = record.quartiles
    scale, unit = next((x for x in _UNITS if median >= x[0]), _UNITS[-1])
    return f"{_digits(median / scale)} {unit} ({_digits(low / scale)}, {_digits(high / scale)})"


def _relative_to(records: list[Record]) -> Callable[[Record], str]:
    first = {
        record.label: record.quartiles[1] for record in reversed(records) if record.contestant == records[0].contestant
    }

    def cell(record: Record) -> str:
        ratio = record.quartiles[1] / first.get(record.label, np.nan)
        return f"{_digits(ratio)}" if np.isfinite(ratio) else "-"

    return cell


def _preparation(record: Record) -> str:
    steps = record.preparation_medians
    if not steps:
        return "-"
    parts = f" ({' + '.join(f'{x:.2f}' for x in steps.values())})" if len(steps) > 1 else ""
    return f"{sum(steps.values()):.2f} s{parts}"


def _memory(record: Record) -> str:
    return "-" if record.memory is None else f"{_digits(record.memory / 2**20)} MiB"


def _growth(records: list[Record]) -> str:
    sums = [sum(record.preparation_medians.values()) for record in records if record.preparation]
    return f"{sums[-1] / sums[0]:.2f}" if len(sums) > 1 else "-"


def _digits(x: float) -> str:
    return f"{x:.3g}" if x < 1000 else f"{x:.0f}"

"""Plots: run times by size, or bars by case."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from .record import Record, Result

# Of benchmarks with many quantities, what is drawn.
_DRAWN = {"states": ("forward dynamics, 2048 states", "gradient, 2048 states", "derivative matrices, 2048 states")}
# The same file for the same numbers.
_SETTINGS = {"svg.hashsalt": "jaxcfa", "svg.fonttype": "none", "font.size": 9}


def plot(result: Result, folder: Path) -> Path | None:
    """Draws a panel for each quantity, and returns the file; none if nothing was timed."""
    timed = [record for record in result.records if record.timed]
    drawn = _DRAWN.get(result.benchmark)
    if drawn is not None:
        timed = [record for record in timed if record.quantity in drawn and record.dtype == "float32"]
    quantities = list(dict.fromkeys(record.quantity for record in timed))
    if not quantities:
        return None
    path = folder / f"{result.benchmark}.svg"
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(10, 3.6 * len(quantities)), layout="constrained")
        FigureCanvasSVG(figure)
        for axes, quantity in zip(figure.subplots(len(quantities), 1, squeeze=False)[:, 0], quantities, strict=True):
            records = [record for record in timed if record.quantity == quantity]
            numeric = len({record.size for record in records} - {None}) > 1
            (_lines if numeric else _bars)(axes, records)
            batched = any(record.batch > 1 for record in records)
            axes.set(title=quantity, yscale="log", ylabel="time of a state [s]" if batched else "time [s]")
            axes.grid(visible=True, alpha=0.3)
            axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
        figure.savefig(path, metadata={"Date": None})
    return path


def _names(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(record.contestant for record in records))


def _lines(axes: Axes, records: list[Record]) -> None:
    for number, name in enumerate(_names(records)):
        own = [record for record in records if record.contestant == name]
        low, median, high = (np.array([r.quartiles for r in own]) / [[r.batch] for r in own]).T
        style = {"color": f"C{number % 10}", "linestyle": "-" if number < 10 else "--"}
        axes.plot([record.size for record in own], median, marker="o", markersize=3, label=name, **style)
        axes.fill_between([record.size for record in own], low, high, color=style["color"], alpha=0.2)
    axes.set(xscale="log", xlabel="size")


def _bars(axes: Axes, records: list[Record]) -> None:
    labels, names = list(dict.fromkeys(record.label for record in records)), _names(records)
    width = 0.8 / len(names)
    for number, name in enumerate(names):
        own = {record.label: record for record in records if record.contestant == name}
        heights = [own[label].median / own[label].batch if label in own else np.nan for label in labels]
        axes.bar(np.arange(len(labels)) + (number + 0.5) * width - 0.4, heights, width, label=name)
    axes.set_xticks(np.arange(len(labels)), labels)

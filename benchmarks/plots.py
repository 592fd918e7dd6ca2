"""Plots: run times by size, or bars by case; preparation times where nothing was run."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from .record import Record, Result
from .report import unique


def plot(result: Result, folder: Path) -> Path:
    """Draws a panel for each quantity, and returns the file."""
    quantities = unique(record.quantity for record in result.records)
    figure = Figure(figsize=(1 + 5.5 * len(quantities), 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(quantities), squeeze=False)[0]
    for axes, quantity in zip(panels, quantities, strict=True):
        records = [record for record in result.records if record.quantity == quantity]
        runs = any(record.seconds for record in records)
        numeric = records[0].size is not None and len({record.size for record in records}) > 1
        (_lines if numeric and runs else _bars)(axes, records)
        axes.set(title=quantity, yscale="log", ylabel="run time [s]" if runs else "preparation [s]")
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize="small")
    figure.suptitle(f"{result.title} ({result.dtype})")
    path = folder / f"{result.stem}.png"
    figure.savefig(path, dpi=120)
    return path


def _lines(axes: Axes, records: list[Record]) -> None:
    for name in unique(record.contestant for record in records):
        own = [record for record in records if record.contestant == name and record.seconds]
        sizes = [record.size for record in own]
        low, median, high = np.array([record.quartiles for record in own]).reshape(-1, 3).T
        (line,) = axes.plot(sizes, median, marker="o", markersize=3, label=name)
        axes.fill_between(sizes, low, high, color=line.get_color(), alpha=0.2)
    axes.set(xscale="log", xlabel="size")


def _bars(axes: Axes, records: list[Record]) -> None:
    labels = unique(record.label for record in records)
    names = unique(record.contestant for record in records)
    width = 0.8 / len(names)
    for number, name in enumerate(names):
        own = {record.label: record for record in records if record.contestant == name}
        heights = [_height(own.get(label)) for label in labels]
        axes.bar(np.arange(len(labels)) + (number + 0.5) * width - 0.4, heights, width, label=name)
    axes.set_xticks(np.arange(len(labels)), labels)


def _height(record: Record | None) -> float:
    if record is None or not (record.seconds or record.preparation):
        return np.nan
    return record.quartiles[1] if record.seconds else sum(record.preparation_medians.values())

"""Curves of a motion over time."""

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..model import Model
from ..model._arguments import check_model
from ..model._joint_groups import coordinate_names
from ._picture import new_figure

_FEW = 12  # curves that a legend of one column in usual print has room for
_ROWS = 18  # of a legend with more, in small print
_STYLES = ("-", "--", ":", "-.")  # one after the other, each with all ten colours
_COLORS = 10


def plot_trajectory(model: Model, trajectory: Any, file: str | os.PathLike | None = None) -> Any:
    """Configuration, velocity and torques of a trajectory over time; a legend names all curves.

    **Arguments:** `trajectory`: what `rollout` gives, or anything with `t` (n,) [s], `q` (n, nq), `v` (n, nv), and
    `tau` (n or n - 1, nv), or without torques. `file`: where the picture goes, if anywhere.

    **Returns:** matplotlib's figure.

    **Raises:** `ValueError` for wrong shapes; `ImportError` without matplotlib.
    """
    check_model(model)
    if not all(hasattr(trajectory, name) for name in ("t", "q", "v")):
        raise ValueError(f"trajectory must have t, q and v, as what rollout gives, got {trajectory!r:.200}.")
    t, q, v = (np.asarray(getattr(trajectory, name)) for name in ("t", "q", "v"))
    expected = {"q": (len(t), model.nq), "v": (len(t), model.nv)}
    for name, array in (("q", q), ("v", v)):
        if array.shape != expected[name]:
            raise ValueError(
                f"The trajectory's {name} must have shape {expected[name]}, for {len(t)} instants, got {array.shape}. "
                "Plot the trajectories of a batch one by one."
            )
    tau = getattr(trajectory, "tau", None)
    curves: list[tuple[np.ndarray, np.ndarray, str, Literal["q", "v"]]]
    curves = [(t, q, "configuration [rad, m]", "q"), (t, v, "velocity [rad/s, m/s]", "v")]
    if tau is not None:
        tau = np.asarray(tau)
        if tau.shape not in ((len(t), model.nv), (len(t) - 1, model.nv)):
            raise ValueError(
                f"The trajectory's tau must have shape {(len(t), model.nv)} or {(len(t) - 1, model.nv)}, for {len(t)} "
                f"instants and all velocities, got {tau.shape}. Give torques of all joints, or none (tau=None)."
            )
        curves.append((t[: len(tau)], tau, "torque [N m, N]", "v"))
    width = 8 + 0.8 * (_legend_columns(max(model.nq, model.nv)) - 1)
    figure = new_figure((width, 2.6 * len(curves)), layout="constrained")
    for axes, (times, values, title, layout) in zip(figure.subplots(len(curves), sharex=True), curves, strict=True):
        plot_coordinates(axes, times, values, title, coordinate_names(model, layout))
    figure.axes[-1].set_xlabel("time [s]")
    if file is not None:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=150)
    return figure


def plot_coordinates(axes: Any, t: np.ndarray, values: np.ndarray, title: str, names: list[str]) -> None:
    """Curves (n, k) of coordinates, with a legend beside them unless there are no names."""
    few = len(names) <= _FEW
    for k, curve in enumerate(np.transpose(values)):
        style = {"color": f"C{k % _COLORS}", "linestyle": _STYLES[k // _COLORS % len(_STYLES)]}
        axes.plot(t, curve, label=names[k] if names else None, linewidth=1.4 if few else 0.8, **style)
    axes.set_ylabel(title)
    axes.grid(visible=True, alpha=0.3)
    axes.margins(x=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if names:
        small = {} if few else {"handlelength": 1.8, "columnspacing": 1.0, "labelspacing": 0.3}
        axes.legend(
            loc="upper left",
            bbox_to_anchor=(1.0, 1.0),
            fontsize="small" if few else "xx-small",
            ncol=_legend_columns(len(names)),
            frameon=False,
            **small,
        )


def _legend_columns(n: int) -> int:
    """In how many columns the names of n curves fit beside these."""
    return 1 if n <= _FEW else -(-n // _ROWS)

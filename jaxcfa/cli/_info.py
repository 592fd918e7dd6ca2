"""`jaxcfa info`: tables of what a model holds."""

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..model import WORLD, Model


def show_info(console: Console, title: str, model: Model, messages: list[str]) -> None:
    """Prints joints and bodies, totals, frames and warnings."""
    console.print(f"[bold]{escape(title)}[/]: {_count(model.nb, 'moving body', 'moving bodies')}, ", end="")
    console.print(f"nq = {model.nq}, nv = {model.nv}, total moving mass {float(np.asarray(model.mass).sum()):.6g} kg")
    if model.nb:
        console.print(_joint_table(model))
        console.print(_body_table(model))
    _print_list(console, "Frames", model.frame_names)
    _print_list(console, "Constraints, kept as data", [c.name or type(c).__name__ for c in model.constraints])
    _print_list(console, "Actuators", model.actuators.names)
    _print_list(console, "Keyframes", model.keyframes.names)
    for message in messages:
        console.print(f"[yellow]Warning:[/] {escape(message)}", highlight=False)


def _joint_table(model: Model) -> Table:
    table = Table(
        "#", "joint", "type", "q", "v", "lower", "upper", "velocity", "effort", "armature", "damping", "friction"
    )
    kinds = _joint_types(model)
    limits = model.limits
    for i, name in enumerate(model.joint_names):
        q, v = model.q_slice(i), model.v_slice(i)
        bounds = [_numbers(x) for x in (limits.lower[q], limits.upper[q], limits.velocity[v], limits.effort[v])]
        passive = [_numbers(x[v]) for x in (model.armature, model.damping, model.friction_loss)]
        table.add_row(str(i), escape(name), kinds[i], _range(q), _range(v), *bounds, *passive)
    return table


def _body_table(model: Model) -> Table:
    table = Table("#", "body", "parent", "mass (kg)", "centre of mass (m)", "principal inertias (kg m2)")
    moments = np.linalg.eigvalsh(np.asarray(model.inertia))
    for i, name in enumerate(model.body_names):
        parent = int(model.topology.parents[i])
        parent_name = "world" if parent == WORLD else model.body_names[parent]
        mass, com = f"{float(model.mass[i]):.6g}", _numbers(model.com[i])
        table.add_row(str(i), escape(name), escape(parent_name), mass, com, _numbers(moments[i]))
    return table


def _joint_types(model: Model) -> list[str]:
    kinds = [""] * model.nb
    for joint, group in zip(model.joints, model.topology.groups, strict=True):
        for body in group.bodies:
            kinds[body] = type(joint).__name__
    return kinds


def _numbers(x) -> str:
    """Numbers on one line; once where all are equal, nothing where all are infinite."""
    values = np.asarray(x, dtype=float)
    if values.size == 0 or np.all(np.isinf(values)):
        return "-"
    if np.all(values == values[0]):
        values = values[:1]
    return " ".join(f"{value:.4g}" for value in values)


def _range(s: slice) -> str:
    return str(s.start) if s.stop == s.start + 1 else f"{s.start}..{s.stop - 1}"


def _count(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"


def _print_list(console: Console, title: str, names) -> None:
    if names:
        console.print(f"[bold]{title}[/] ({len(names)}): {escape(', '.join(names))}", highlight=False)

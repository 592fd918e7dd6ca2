"""`jaxcfa info`: tables of what a model holds."""

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..model import WORLD, Model

_LONGEST_NAME = 40


def show_info(console: Console, title: str, model: Model, messages: list[str]) -> None:
    """Prints joints and bodies, totals, frames and warnings."""
    mass = float(np.asarray(model.mass).sum())
    console.print(
        f"[bold]{escape(title)}[/]: {_count(model.nb, 'moving body', 'moving bodies')}, nq = {model.nq}, "
        f"nv = {model.nv}, total moving mass {mass:.6g} kg"
    )
    if model.nb:
        for columns in (_joint_columns(model), _body_columns(model)):
            for table in _tables(columns, console.width):
                console.print(table)
    _print_list(console, "Frames", model.frame_names)
    _print_list(console, "Constraints, kept as data", [c.name or type(c).__name__ for c in model.constraints])
    _print_list(console, "Actuators", model.actuators.names)
    _print_list(console, "Keyframes", model.keyframes.names)
    for message in messages:
        console.print(f"[yellow]Warning:[/] {escape(message)}", highlight=False)


def _joint_columns(model: Model) -> dict[str, list[str]]:
    limits = model.limits
    columns: dict[str, list[str]] = {"joint": list(model.joint_names), "type": _joint_types(model)}
    columns["q"], columns["v"] = (
        [_range(slices(i)) for i in range(model.nb)] for slices in (model.q_slice, model.v_slice)
    )
    for title, values, slices in (
        ("lower", limits.lower, model.q_slice),
        ("upper", limits.upper, model.q_slice),
        ("velocity", limits.velocity, model.v_slice),
        ("effort", limits.effort, model.v_slice),
        ("armature", model.armature, model.v_slice),
        ("damping", model.damping, model.v_slice),
        ("friction", model.friction_loss, model.v_slice),
        ("stiffness", model.stiffness, model.v_slice),
    ):
        array = np.asarray(values)
        columns[title] = [_numbers(array[slices(i)]) for i in range(model.nb)]
    return {title: cells for title, cells in columns.items() if set(cells) - {"-", "0"}}


def _body_columns(model: Model) -> dict[str, list[str]]:
    parents = ["world" if p == WORLD else model.body_names[p] for p in model.topology.parents]
    return {
        "body": list(model.body_names),
        "parent": parents,
        "mass (kg)": [f"{mass:.6g}" for mass in np.asarray(model.mass)],
        "centre of mass (m)": [_numbers(com) for com in np.asarray(model.com)],
        "principal inertias (kg m2)": [_numbers(x) for x in np.linalg.eigvalsh(np.asarray(model.inertia))],
    }


def _tables(columns: dict[str, list[str]], width: int) -> list[Table]:
    """Numbered tables, as many as the width of the terminal demands, which all begin with the first column."""
    (name, names), *others = columns.items()
    widths = {title: 2 + max(map(len, (title, *cells))) for title, cells in columns.items()}
    numbers = 2 + len(str(len(names) - 1))
    tables: list[dict[str, list[str]]] = []
    for title, cells in others:
        if not tables or numbers + sum(widths[x] for x in tables[-1]) + widths[title] > width:
            tables.append({name: names})
        tables[-1][title] = cells
    return [_table(columns) for columns in tables]


def _table(columns: dict[str, list[str]]) -> Table:
    """A numbered table. What is too wide for the terminal is folded, so that nothing is lost, but names are not."""
    table = Table("#", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for number, (title, cells) in enumerate(columns.items()):
        whole = min(max(map(len, cells)), _LONGEST_NAME) if number == 0 else None
        table.add_column(title, overflow="fold", min_width=whole)
    for i, row in enumerate(zip(*columns.values(), strict=True)):
        table.add_row(str(i), *map(escape, row))
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

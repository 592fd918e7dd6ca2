"""`jaxcfa info`: tables of what a model holds."""

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..model import WORLD, AbstractConstraint, Model
from ..model._model import stacked_joint
from ..model._parts import JointPart, joint_parts
from ._facts import constraint_facts, driven_joints
from ._progress import warn

_LONGEST_NAME = 40
_LIMITS = ("lower", "upper", "velocity", "effort")


def show_info(console: Console, title: str, model: Model, messages: list[str]) -> None:
    """Prints totals, joints, bodies, actuators, frames and warnings."""
    mass = float(np.asarray(model.mass).sum())
    console.print(
        f"[bold]{escape(title)}[/]: {_count(model.nb, 'moving body', 'moving bodies')}, nq = {model.nq}, "
        f"nv = {model.nv}, total moving mass {mass:.6g} kg"
    )
    console.print("All in SI units, angles in rad.")
    bodies = [part.body for part in joint_parts(model.joints, model.topology)]
    tables = ((_joint_columns(model), bodies), (_actuator_columns(model), None), (_body_columns(model), None))
    for columns, rows in tables:
        if not columns:
            continue
        for table in _tables(columns, console.width, rows):
            console.print()
            console.print(table)
    console.print()
    _print_list(console, "Frames", model.frame_names)
    _print_list(console, "Constraints (see jaxcfa.closed_chains)", [_constraint(model, x) for x in model.constraints])
    _print_list(console, "Keyframes", model.keyframes.names)
    for message in messages:
        warn(console, message)


def _joint_columns(model: Model) -> dict[str, list[str]]:
    """Of all joints, the parts of composite ones instead of these."""
    limits, parts = model.limits, joint_parts(model.joints, model.topology)
    columns: dict[str, list[str]] = {"joint": [part.name for part in parts], "type": [_type(model, x) for x in parts]}
    q, v = [part.q for part in parts], [part.v for part in parts]
    ranges = [*map(_range, q)], [*map(_range, v)]
    columns |= {"q, v": ranges[0]} if q == v else {"q": ranges[0], "v": ranges[1]}
    for title, values, slices in (
        ("lower", limits.lower, q),
        ("upper", limits.upper, q),
        ("velocity", limits.velocity, v),
        ("effort", limits.effort, v),
        ("armature", model.armature, v),
        ("damping", model.damping, v),
        ("friction", model.friction_loss, v),
        ("stiffness", model.stiffness, v),
    ):
        array = np.asarray(values)
        columns[title] = [_numbers(array[own]) for own in slices]
    return _telling(columns)


def _type(model: Model, part: JointPart) -> str:
    """The type of a joint, and of what it is a part."""
    group, _ = model.topology.place_in_groups(part.body)
    kind = type(stacked_joint(model.joints[group], part)).__name__
    return kind if part.place is None else f"{kind} of {model.joint_names[part.body]}"


def _actuator_columns(model: Model) -> dict[str, list[str]]:
    actuators, count = model.actuators, range(len(model.actuators.names))
    if not count:
        return {}
    gain, bias, gear = (np.asarray(x) for x in (actuators.gain, actuators.bias, actuators.moment))
    gear = np.concatenate([gear, np.asarray(actuators.wrench)], axis=1)
    ends = [
        np.asarray(getattr(actuators, f"{name}_{end}")) for name in ("control", "force") for end in ("lower", "upper")
    ]
    columns = {
        "actuator": list(actuators.names),
        "joint" if actuators.frames == (None,) * len(count) else "joint or frame": [
            " ".join([*driven_joints(model, i), actuators.frames[i] or ""]).strip() for i in count
        ],
        "gear": [_numbers(gear[i][gear[i] != 0]) for i in count],
        "control": [_interval(ends[0][i], ends[1][i]) for i in count],
        "force": [_interval(ends[2][i], ends[3][i]) for i in count],
        "gain": [_numbers(gain[i]) for i in count],
        "bias": [_numbers(bias[i]) for i in count],
    }
    return _telling(columns)


def _constraint(model: Model, constraint: AbstractConstraint) -> str:
    """Its type, and between what it is."""
    name, kind, first, second = constraint_facts(model, constraint).values()
    text = f"{kind} of {first or 'the world'} and {second or 'the world'}"
    return f"{name} ({text})" if name else text


def _telling(columns: dict[str, list[str]]) -> dict[str, list[str]]:
    """The columns that say more than that there is nothing; a limit of zero is something."""
    return {title: cells for title, cells in columns.items() if set(cells) - {"-", "" if title in _LIMITS else "0"}}


def _body_columns(model: Model) -> dict[str, list[str]]:
    if not model.nb:
        return {}
    parents = ["world" if p == WORLD else model.body_names[p] for p in model.topology.parents]
    return {
        "body": list(model.body_names),
        "parent": parents,
        "mass (kg)": [f"{mass:.6g}" for mass in np.asarray(model.mass)],
        "centre of mass (m)": [_numbers(com) for com in np.asarray(model.com)],
        "principal inertias (kg m2)": [_numbers(x) for x in np.linalg.eigvalsh(np.asarray(model.inertia))],
    }


def _tables(columns: dict[str, list[str]], width: int, rows: list[int] | None) -> list[Table]:
    """Numbered tables, as many as the width of the terminal demands, which all begin with the first column; `rows`: the
    numbers, if they are not those of the rows."""
    (name, names), *others = columns.items()
    widths = {title: 2 + max(map(len, (title, *cells))) for title, cells in columns.items()}
    numbers = 2 + len(str(len(names) - 1))
    tables: list[dict[str, list[str]]] = []
    for title, cells in others:
        if not tables or numbers + sum(widths[x] for x in tables[-1]) + widths[title] > width:
            tables.append({name: names})
        tables[-1][title] = cells
    return [_table(columns, [*range(len(names))] if rows is None else rows) for columns in tables]


def _table(columns: dict[str, list[str]], rows: list[int]) -> Table:
    """A numbered table. What is too wide for the terminal is folded, so that nothing is lost, but names are not."""
    table = Table("#", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for number, (title, cells) in enumerate(columns.items()):
        whole = min(max(map(len, cells)), _LONGEST_NAME) if number == 0 else None
        table.add_column(title, overflow="fold", min_width=whole)
    for i, row in zip(rows, zip(*columns.values(), strict=True), strict=True):
        table.add_row(str(i), *map(escape, row))
    return table


def _numbers(x) -> str:
    """Numbers on one line; once where all are equal, nothing where all are infinite."""
    values = np.atleast_1d(np.asarray(x, dtype=float))
    if values.size == 0 or np.all(np.isinf(values)):
        return "-"
    if np.all(values == values[0]):
        values = values[:1]
    return " ".join(f"{value:.4g}" for value in values)


def _interval(lower: float, upper: float) -> str:
    return "-" if np.isinf(lower) and np.isinf(upper) else f"{lower:.4g} to {upper:.4g}"


def _range(s: slice) -> str:
    return str(s.start) if s.stop == s.start + 1 else f"{s.start}..{s.stop - 1}"


def _count(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"


def _print_list(console: Console, title: str, names) -> None:
    if names:
        console.print(f"[bold]{title}[/] ({len(names)}): {escape(', '.join(names))}", highlight=False)

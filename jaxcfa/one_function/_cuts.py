"""How a program is cut into functions for CPUs."""

from collections.abc import Iterable, Sequence
from typing import Any

from jax.extend.core import Literal

from ._able import is_able, steps

# What XLA must not compute again wherever it is used: see `layers`.
_COSTLY = frozenset(("sin", "cos", "tan", "exp", "log", "pow", "tanh"))
# XLA's time to compile one function grows faster than the function, so larger ones are cut into several.
_MOST_STEPS = 700
# So many operations of one function may be computed again.
_MOST_AGAIN = 600
# What computes nothing.
_MOVES = frozenset(("broadcast_in_dim", "reshape", "squeeze", "slice", "transpose", "concatenate", "pad"))


def needed_steps(program: Sequence[Any], outcome: Sequence[Any]) -> list[Any]:
    """The steps that lead to these variables."""
    wanted, needed = set(variables(outcome)), []
    for step in reversed(program):
        if not wanted.isdisjoint(step.outvars):
            needed.append(step)
            wanted.update(variables(step.invars))
    return needed[::-1]


def layers(program: Sequence[Any]) -> list[list[Any]]:
    """Steps that lead to sines and the like, those that lead to sines of these, and so on; the rest comes last.

    XLA would compute a sine again in every loop that uses it, and for each element of a matrix that it is multiplied
    by: nine times for a rotation. What comes out of one function is not computed again in another.
    """
    depths: dict[Any, int] = {}
    costly: dict[int, list[Any]] = {}
    for step in program:
        depth = max((depths.get(x, 0) for x in variables(step.invars)), default=0)
        if step.primitive.name in _COSTLY:
            costly.setdefault(depth, []).append(step)
            depth += 1
        depths.update(dict.fromkeys(step.outvars, depth))
    found, rest = [], list(program)
    for _, ends in sorted(costly.items()):
        wanted = variables(x for step in ends for x in step.outvars)
        layer, others = [], []
        for step in reversed(rest):
            if any(x in wanted for x in step.outvars):
                wanted |= variables(step.invars)
                layer.append(step)
            else:
                others.append(step)
        found.append(layer[::-1])
        rest = others[::-1]
    return [*found, rest]


def parts_of(program: Sequence[Any]) -> list[tuple[bool, list[Any]]]:
    """Consecutive steps that can be one function, and not too long a one, and those that cannot be."""
    parts: list[tuple[bool, list[Any]]] = []
    size = 0
    for step in program:
        able, own = is_able([step]), steps([step])
        if parts and parts[-1][0] == able and (not able or size + own <= _MOST_STEPS):
            parts[-1][1].append(step)
            size += own
        else:
            parts.append((able, [step]))
            size = own
    return parts


def variables(atoms: Iterable[Any]) -> dict[Any, None]:
    """The distinct variables among the atoms, in order."""
    return dict.fromkeys(x for x in atoms if not isinstance(x, Literal))


def wanted(parts: Sequence[Sequence[Any]], later: dict[Any, None]) -> list[list[Any]]:
    """The variables of each part that are used by the parts after it, or `later`."""
    found = []
    for part in reversed(parts):
        found.append([x for step in part for x in step.outvars if x in later])
        later = later | variables(x for step in part for x in step.invars)
    return found[::-1]


def without_repetition(part: Sequence[Any]) -> list[list[Any]]:
    """Steps of one function in pieces, in none of which XLA would compute much again.

    It puts what leads to a number into the loop that uses it, and so into each of several loops. What comes out of one
    piece is not computed again in another. Pieces are counted as if everything but loops were put into what uses it.
    """
    pieces: list[list[Any]] = [[]]
    leads: dict[Any, int] = {}  # to a variable of this piece, which steps lead, as bits of a number
    again = 0
    used: set[Any] = set()
    for step in part:
        own = [x for x in variables(step.invars) if x in leads]
        more = sum(leads[x].bit_count() for x in own if x in used)
        if again + more > _MOST_AGAIN:
            pieces.append([])
            leads, own, again, more = {}, [], 0, 0
            used.clear()
        again += more
        used.update(own)
        name, before = step.primitive.name, 0
        for x in own:
            before |= leads[x]
        if name in ("scan", "while"):
            before = 0
        elif name not in _MOVES:
            before |= 1 << len(pieces[-1])
        pieces[-1].append(step)
        leads.update(dict.fromkeys(step.outvars, before))
    return pieces

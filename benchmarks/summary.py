"""The summary of the report, by rules from the numbers: nothing is said that was not measured."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from .contestant import BATCHED, ONE_FUNCTION, STRAIGHT_LINE
from .latency import ENABLED
from .quantities import FORWARD, GRADIENT
from .record import Record, Result
from .states import BATCH

_OWN = "jaxcfa"
_SAME = 1.1  # a smaller ratio of times is called equal
_TRUSTED = """
Written by rules from the numbers below. Programs whose error is larger than 1e-3 in float32, or 1e-6 in float64, do not
count here.
"""


def lines(results: Sequence[Result]) -> list[str]:
    """A section, or nothing if nothing was measured that it is about."""
    by_name = {result.benchmark: result.records for result in results if not result.settings["smoke"]}
    makers: dict[str, tuple[Callable[[list[Record]], list[str]], ...]] = {
        "states": (_beside_others, _by_batched, _precisions),
        "gpu": (_on_gpu,),
        "chain": (_by_length,),
        "batch": (_by_group,),
        "latency": (_latency,),
    }
    found = [
        part for name, parts in makers.items() if name in by_name for make in parts for part in make(by_name[name])
    ]
    return ["## Summary", _TRUSTED, *found] if found else []


def _cases(records: list[Record]) -> dict[tuple[str, str, str], dict[str, Record]]:
    """By case, then by contestant: those that were measured, and whose results can be trusted."""
    cases: dict[tuple[str, str, str], dict[str, Record]] = defaultdict(dict)
    for record in records:
        if record.trusted:
            cases[record.key][record.contestant] = record
    return cases


def _beside_others(records: list[Record]) -> list[str]:
    """For each quantity, how this package compares with Pinocchio, one by one, and with the fastest other package."""
    rows: dict[tuple[str, str], list[tuple[str, float | None, float, str, float]]] = defaultdict(list)
    for (quantity, label, dtype), found in _cases(records).items():
        if not _summarised(quantity, dtype):
            continue
        own = [found[name] for name in found if not found[name].peer]
        peers = [found[name] for name in found if found[name].peer]
        if not own or not peers:
            continue
        best, other = (min(group, key=lambda r: r.median) for group in (own, peers))
        pinocchio = found["Pinocchio"].median / best.median if "Pinocchio" in found else None
        rows[quantity, dtype].append((label, pinocchio, other.median / best.median, other.contestant, best.difference))
    cells = []
    for (quantity, dtype), found in rows.items():
        first = [ratio for _, ratio, *_ in found if ratio is not None]
        others = "; ".join(dict.fromkeys(name for *_, name, _ in found))
        errors = [error for *_, error in found if error is not None]
        spans = _span(first), _span([r for _, _, r, _, _ in found])
        error = f"{max(errors):.0e}" if errors else "-"
        cells.append((f"{quantity}, {dtype}", str(len(found)), *spans, others, error))
    return _table(
        "**Beside other packages.** How many times as fast this package's fastest program is: "
        "as Pinocchio, one state after the other from Python, and as the fastest of all other packages. Less than "
        "1 is slower. The least and the largest over the robots.",
        ("robots", "as Pinocchio", "as the fastest other", "which is", "largest error"),
        "rrrlr",
        cells,
    )


def _on_gpu(records: list[Record]) -> list[str]:
    """How both ways to compute batches compare with the fastest other package, whose errors are larger."""
    cases: dict[str, dict[str, dict[str, Record]]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        if record.seconds:
            cases[record.quantity][record.label][record.contestant] = record
    rows = []
    for quantity, robots in cases.items():
        others = {label: [r for r in found.values() if r.peer] for label, found in robots.items()}
        best = {label: min(found, key=lambda r: r.median) for label, found in others.items() if found}
        spans = [
            _span([best[x].median / robots[x][name].median for x in best if name in robots[x]])
            for name in (f"{_OWN}, {STRAIGHT_LINE}", _OWN)
        ]
        errors = [f"{r.difference:.0e}" if r.difference is not None else "not finite" for r in best.values()]
        names = "; ".join(dict.fromkeys(r.contestant for r in best.values()))
        rows.append((quantity, str(len(best)), *spans, names, ", ".join(dict.fromkeys(errors))))
    return _table(
        "**On a GPU.** How many times as fast as the fastest other package, whatever its errors, a batch is by "
        "`jaxcfa.one_kernel` and by `jax.vmap`: the least and the largest over the robots. float32.",
        ("robots", "one kernel", "`vmap`", "the fastest other is", "its errors"),
        "rrrll",
        rows,
    )


def _summarised(quantity: str, dtype: str) -> bool:
    """All quantities in the batch that every package runs; two of them in the others."""
    return (f", {BATCH} states" in quantity and dtype == "float32") or quantity.startswith((FORWARD, GRADIENT))


def _by_batched(records: list[Record]) -> list[str]:
    ratios = {
        (quantity, label): found[_OWN].median / found[f"{_OWN}, {BATCHED}"].median
        for (quantity, label, _), found in _cases(records).items()
        if {_OWN, f"{_OWN}, {BATCHED}"} <= found.keys()
    }
    if not ratios:
        return []
    (quantity, label), most = max(ratios.items(), key=lambda item: item[1])
    better = _are(sum(ratio > _SAME for ratio in ratios.values()))
    worse = _are(sum(ratio < 1 / _SAME for ratio in ratios.values()))
    return [
        (
            f"**`batched`.** Of {len(ratios)} programs, {better} faster by `jaxcfa.batched` than by `jax.vmap`, "
            f"{worse} slower, and the rest equal to within 10 %. The largest gain is {most:.2g} times, for "
            f"{quantity} on {label}."
        ),
        "",
    ]


def _are(number: int) -> str:
    return f"{number or 'none'} {'is' if number == 1 else 'are'}"


def _precisions(records: list[Record]) -> list[str]:
    cases = _cases(records)
    ratios = [
        found[_OWN].median / cases[quantity, label, "float32"][_OWN].median
        for (quantity, label, dtype), found in cases.items()
        if dtype == "float64" and _OWN in found and _OWN in cases.get((quantity, label, "float32"), {})
    ]
    return [f"**Precision.** float64 takes {_span(ratios)} times as long as float32.", ""] if ratios else []


def _fastest(records: list[Record], text: str, sizes: str) -> list[str]:
    """By quantity and size the fastest own methods, with those that are equal to within 10 %."""
    rows = []
    for (quantity, label, _), found in _cases(records).items():
        own = sorted((r for r in found.values() if not r.peer), key=lambda r: r.median)
        if own:
            rows.append((quantity, label, ", ".join(r.contestant for r in own if r.median < _SAME * own[0].median)))
    return _table(text, (sizes, "fastest"), "rl", rows)


def _by_length(records: list[Record]) -> list[str]:
    text = (
        "**One long chain.** The fastest methods for one state, on these cores, by number of links (float64); "
        "those within 10 % of the fastest are named too."
    )
    return _fastest(records, text, "links")


def _by_group(records: list[Record]) -> list[str]:
    text = "**Groups of chains.** The fastest methods for forward dynamics in a batch (float32)."
    return _fastest(records, text, "batch")


def _latency(records: list[Record]) -> list[str]:
    found = _cases(records).values()
    sentences = []
    for way, name in (("low_latency", f"{_OWN}, {ONE_FUNCTION}"), ("enable_low_latency", ENABLED)):
        ratios = [case[_OWN].median / case[name].median for case in found if {_OWN, name} <= case.keys()]
        if ratios:
            sentences.append(f"`{way}` makes it {_span(ratios)} times as fast.")
    return ["**One state at a time.** " + " ".join(sentences), ""] if sentences else []


def _span(ratios: Sequence[float]) -> str:
    if not ratios:
        return "-"
    low, high = (f"{x:.2g}" for x in (min(ratios), max(ratios)))
    return low if low == high else f"{low} to {high}"


def _table(text: str, header: Sequence[str], sides: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """A paragraph and a table, or nothing without rows. `sides`: r or l for each column behind the first."""
    rule = "".join({"r": "---:|", "l": "---|"}[side] for side in sides)
    lines = [f"| | {' | '.join(header)} |", f"|---|{rule}", *(f"| {' | '.join(cells)} |" for cells in rows)]
    return [text, "", *lines, ""] if rows else []

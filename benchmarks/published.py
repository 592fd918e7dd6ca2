"""What the papers that benchmarks follow have published, and how it compares with what was measured."""

from .record import Record, Result

_YANG = "Y. Yang, Y. Wu and J. Pan, arXiv:1609.06779, 2016 (a Tesla K40c beside an i7-6700)"
_LIU = "F. Liu, Q. Hu and J. Zhang, Chinese Journal of Theoretical and Applied Mechanics 48(1), 2016"


def lines(result: Result) -> list[str]:
    """Paragraphs for a benchmark's section, or none."""
    makers = {"chain": _chain, "batch": _batch, "space": _space}
    return makers[result.benchmark](result.records) if result.benchmark in makers else []


def _chain(records: list[Record]) -> list[str]:
    text = (
        f"Fig. 2 of {_YANG} has curves without numbers, on axes from 10 to 1000 links and from 0.1 ms to 10 s; no "
        "point of them is quoted here. Its text: CFA is dearer than hybrid ABA and JSI for few links, and faster than "
        "both for many."
    )
    found = []
    for label in dict.fromkeys(record.label for record in records):
        times = {r.contestant: r.median for r in records if r.label == label and r.seconds}
        if {"CFA OEE", "ABA hybrid"} <= times.keys():
            found.append(f"{times['CFA OEE'] / times['ABA hybrid']:.2g} at {label} links")
    return [text, "", f"Here, time of CFA OEE over that of ABA hybrid: {', '.join(found)}."] if found else [text]


def _batch(records: list[Record]) -> list[str]:
    text = (
        f"Fig. 3 of {_YANG} has curves without numbers, on axes from 1 to 1000 groups and 0.1 ms to 1 s (10 links), "
        "and from 1 to 100 groups and 1 ms to 1 s (200 links). Its text: with 10 links JSI and CFA take about the same "
        "for more than 100 groups, and hybrid ABA more; with 200 links CFA takes least, and JSI most."
    )
    found = []
    for quantity in dict.fromkeys(record.quantity for record in records):
        for label in ("100", "1000", "10000"):
            own = [r for r in records if (r.quantity, r.label) == (quantity, label) and r.seconds]
            order = sorted((r for r in own if r.contestant in ("CFA OEE", "ABA hybrid", "JSI")), key=lambda r: r.median)
            if len(order) > 1:
                names = ", ".join(f"{r.contestant} ({r.median / order[0].median:.2g})" for r in order)
                found.append(f"- {quantity}, {label} groups: {names}")
    return [text, "", "Here, fastest first, with the time relative to it:", "", *found] if found else [text]


def _space(records: list[Record]) -> list[str]:
    text = (
        f"The four models of Table 1 of {_LIU}, 10 s in steps of 2 ms. The copy at hand lacks the table's numbers. Its "
        "text: Kane's equations take longest and recursion least; of the two constraint force algorithms between them "
        "the serial one takes less."
    )
    label = next((r.label for r in records if r.label.startswith("simulation") and r.seconds), None)
    own = sorted((r for r in records if r.label == label and r.seconds), key=lambda r: r.median)
    found = ", ".join(f"{r.contestant} {r.median:.3g} s" for r in own)
    return [text, "", f"Here, fastest first: {found}."] if own else [text]

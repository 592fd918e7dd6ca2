"""Measures the contestants of a benchmark in turn, case after case."""

import math
import time
from collections.abc import Callable

import numpy as np

from .case import Case
from .contestant import Contestant, Prepared, Unable
from .record import Record
from .settings import Settings

_SHORTEST_SAMPLE = 1e-3  # s; faster runs are repeated within a sample
_PREPARATIONS = 3
Report = Callable[[str], None]


class Runner:
    """Remembers which contestants failed or became slow, and leaves them out for larger sizes."""

    def __init__(self, settings: Settings, report: Report):
        self._settings = settings
        self._report = report
        self._costs: dict[tuple[str, str], list[tuple[int, float, float]]] = {}
        self._dropped: dict[tuple[str, str], str] = {}

    def measure(self, case: Case) -> list[Record]:
        """Records of all contestants. What goes wrong with one of them becomes its reason."""
        try:
            contestants = case.contestants()
        except Exception as error:  # a file or a package that is not there
            return [Record(case.quantity, case.label, case.size, "all", reason=_reason(error))]
        records = {c.name: Record(case.quantity, case.label, case.size, c.name) for c in contestants}
        if case.prepare_only:
            self._prepare_repeatedly(case, contestants, records)
        else:
            self._race(case, contestants, records)
        return list(records.values())

    def _prepare_repeatedly(self, case: Case, contestants: list[Contestant], records: dict[str, Record]) -> None:
        for _ in range(1 if self._settings.smoke else _PREPARATIONS):
            for contestant in contestants:
                if records[contestant.name].reason is None:
                    self._prepare(case, contestant, records[contestant.name])

    def _race(self, case: Case, contestants: list[Contestant], records: dict[str, Record]) -> None:
        runs: dict[str, tuple[Prepared, int]] = {}
        references: dict[tuple[int, ...], np.ndarray] = {}
        for contestant in contestants:
            record = records[contestant.name]
            prepared = self._prepare(case, contestant, record)
            if prepared is None:
                continue
            try:
                # The first run warms up, and says how many runs make a sample.
                value, first = _timed(prepared.run)
                record.note = None if prepared.note is None else prepared.note(value)
                value = None if prepared.value is None else np.asarray(prepared.value(value), dtype=float)
                if value is not None:
                    record.difference = _difference(value, references.setdefault(value.shape, value))
            except Exception as error:  # whatever another package throws
                self._drop(case, record, error)
                continue
            self._remember(case, record, first)
            runs[contestant.name] = prepared, max(1, math.ceil(_SHORTEST_SAMPLE / first))
            if first > self._settings.cap:
                record.seconds.append(first)
        for _ in range(self._settings.repetitions):
            for name, (prepared, number) in runs.items():
                samples = records[name].seconds
                if sum(samples) * number < self._settings.cap:
                    samples.append(_timed(prepared.run, number)[1])

    def _prepare(self, case: Case, contestant: Contestant, record: Record) -> Prepared | None:
        key = case.quantity, contestant.name
        reason = self._dropped.get(key) or self._expected_too_slow(case, contestant.name)
        if reason is not None:
            record.reason = reason
            return None
        self._report(f"{case.quantity}, {case.label}: {contestant.name}")
        try:
            prepared = contestant.prepare()
        except Exception as error:  # whatever another package throws
            self._drop(case, record, error)
            return None
        record.memory = prepared.memory
        for step, seconds in prepared.seconds.items():
            record.preparation.setdefault(step, []).append(seconds)
        return prepared

    def _drop(self, case: Case, record: Record, error: Exception) -> None:
        record.reason = _reason(error)
        if case.size is not None:
            self._dropped[case.quantity, record.contestant] = record.reason

    def _remember(self, case: Case, record: Record, run: float) -> None:
        if case.size is not None:
            costs = self._costs.setdefault((case.quantity, record.contestant), [])
            costs.append((case.size, sum(map(sum, record.preparation.values())), run))

    def _expected_too_slow(self, case: Case, name: str) -> str | None:
        """A reason to leave a contestant out, if the power laws through its last two sizes exceed the cap."""
        costs = self._costs.get((case.quantity, name), [])
        if not costs or case.size is None:
            return None
        expected = _extrapolated([(size, seconds) for size, seconds, _ in costs], case.size, default=0.0)
        expected += _extrapolated([(size, seconds) for size, _, seconds in costs], case.size, default=1.0)
        if expected <= self._settings.cap:
            return None
        return f"dropped: {expected:.0f} s expected for compiling and one run, {self._settings.cap:g} s allowed"


def _extrapolated(points: list[tuple[int, float]], size: int, default: float) -> float:
    """The power law through the last two points, or with the default exponent through the only one; never falling."""
    last_size, last = points[-1]
    exponent = default
    if len(points) > 1:
        before_size, before = points[-2]
        exponent = max(0.0, math.log(max(last, 1e-9) / max(before, 1e-9)) / math.log(last_size / before_size))
    return last * (size / last_size) ** exponent


def _timed(run: Callable[[], object], number: int = 1) -> tuple[object, float]:
    """The last result, and the time of one run."""
    result = None
    start = time.perf_counter()
    for _ in range(number):
        result = run()
    return result, (time.perf_counter() - start) / number


def _reason(error: Exception) -> str:
    first_line = (str(error).strip().splitlines() or [""])[0][:200]
    return first_line if isinstance(error, Unable) else f"{type(error).__name__}: {first_line}"


def _difference(value: np.ndarray, reference: np.ndarray) -> float:
    """Largest difference relative to the largest entry."""
    return float(np.max(np.abs(value - reference)) / np.max(np.abs(reference)))

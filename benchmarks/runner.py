"""Measures the contestants of a benchmark's cases: several cases are prepared together, then timed one by one."""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from .case import OWN, Case, Contestant
from .record import NOT_FINITE, Record
from .settings import Settings
from .worker import Failed, Outcome, Worker

_SHORTEST_SAMPLE = 1e-2  # s; faster runs are repeated within a sample
_FEWEST_SAMPLES, _LONG_SAMPLE = 3, 5.0  # whatever time they take, if each takes less than so many seconds
_GROUP = 8  # cases prepared together
_FASTEST = 1e-6  # s
_LONGEST_RUNS = 2  # times the cap: when a run is stopped
Report = Callable[[str], None]
# A process: precision, package, environment.
_Key = tuple[str, str, tuple[tuple[str, str], ...]]


def groups(cases: Sequence[tuple[int, Case]]) -> Iterator[list[tuple[int, Case]]]:
    """Neighbours of one precision, at most `_GROUP`; cases of fresh processes are alone."""
    group: list[tuple[int, Case]] = []
    for number, case in cases:
        if group and (len(group) == _GROUP or case.fresh or group[-1][1].dtype != case.dtype):
            yield group
            group = []
        group.append((number, case))
    if group:
        yield group


class Runner:
    """Remembers which contestants failed or became slow, and leaves them out for larger sizes.

    **Arguments:** `benchmark`: its name. `log`: a file for what packages print. `report`: shown while it works.
    `workers`: processes that benchmarks share; by default each has its own, and only those that it needs at a time.
    """

    def __init__(
        self, benchmark: str, settings: Settings, log: Path, report: Report, workers: dict[_Key, Worker] | None = None
    ):
        self._benchmark = benchmark
        self._settings = settings
        self._log = log
        self._report = report
        self._shares = workers is not None
        self._workers: dict[_Key, Worker] = {} if workers is None else workers
        self._costs: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
        self._dropped: dict[tuple[str, str], str] = {}
        self._stopped: dict[tuple[str, str, str], str] = {}

    def close(self) -> None:
        for worker in self._workers.values():
            worker.stop()
        self._workers.clear()

    def measure(self, group: list[tuple[int, Case]]) -> Iterator[tuple[Case, list[Record]]]:
        """Records of all contestants of each case. What goes wrong with one of them becomes its reason."""
        outcomes: dict[tuple[int, str], Outcome | str] = {}
        by_process: dict[_Key, list[tuple[int, Case, Contestant]]] = defaultdict(list)
        for number, case in group:
            for contestant in case.contestants:
                by_process[self._key(case, contestant)].append((number, case, contestant))
        for key in set() if self._shares else set(self._workers) - set(by_process):
            self._workers.pop(key).stop()
        fresh = any(case.fresh for _, case in group)
        with ThreadPoolExecutor(1 if fresh else self._settings.together) as threads:
            for part in threads.map(self._prepare_in, by_process, by_process.values()):
                outcomes |= part
        for number, case in group:
            yield case, self._race(number, case, outcomes)
        for worker in self._workers.values():
            if worker.running:
                worker.ask(60.0, "forget")

    def _key(self, case: Case, contestant: Contestant) -> _Key:
        package = contestant.name if case.fresh else contestant.package
        # A reference that is not timed is in float64.
        return ("float64" if not contestant.timed else case.dtype), package, contestant.environment

    def _prepare_in(self, key: _Key, items: list[tuple[int, Case, Contestant]]) -> dict[tuple[int, str], Outcome | str]:
        """Prepares contestants in their process. If it has to be stopped, those before are prepared again."""
        if key not in self._workers:
            self._workers[key] = Worker(self._settings, key[0], key[2], self._log)
        worker = self._workers[key]
        outcomes: dict[tuple[int, str], Outcome | str] = {}
        # What was ready once is prepared again whatever has become of the contestant elsewhere.
        todo = [(item, False) for item in items]
        while todo:
            item, again = todo.pop(0)
            number, case, contestant = item
            reason = None if again else self._reason_to_skip(case, contestant.name)
            outcome = reason or self._prepare(worker, number, contestant)
            outcomes[number, contestant.name] = outcome
            if reason:
                continue
            if not worker.running:
                if not contestant.package.startswith(OWN):
                    self._stopped[case.label, case.dtype, contestant.name] = str(outcome)
                ready = [x for x in items if isinstance(outcomes.get((x[0], x[2].name)), Outcome) and x is not item]
                if not case.fresh:
                    todo = [(x, True) for x in ready] + [x for x in todo if not x[1]]
                for lost in ready:
                    outcomes.pop((lost[0], lost[2].name))
            if case.size is not None and not again:
                name = case.quantity, contestant.name
                if isinstance(outcome, str):
                    self._dropped[name] = outcome
                else:
                    self._costs[name].append((case.size, outcome.first))
        if items[0][1].fresh:
            self._workers.pop(key).stop()
        return outcomes

    def _prepare(self, worker: Worker, number: int, contestant: Contestant) -> Outcome | str:
        self._report(f"{self._benchmark}: preparing {contestant.name}")
        key = self._benchmark, number, contestant.name
        started = time.perf_counter()
        try:
            worker.ask(self._settings.compile_limit, "prepare", *key)
        except Failed as failure:
            text = str(failure)
            return f"compiling {text}" if text.startswith("takes") else text
        total = {"total": time.perf_counter() - started}
        try:
            outcome = worker.ask(_LONGEST_RUNS * self._settings.cap, "first", *key)
            return outcome._replace(seconds=outcome.seconds | total)
        except Failed as failure:
            return f"one run {failure}" if str(failure).startswith("takes") else str(failure)

    def _race(self, number: int, case: Case, outcomes: dict[tuple[int, str], Outcome | str]) -> list[Record]:
        self._report(f"{self._benchmark}: timing {case.quantity}, {case.label}")
        records, numbers = [], {}
        reference = _reference(number, case, outcomes)
        for contestant in case.contestants:
            outcome = outcomes[number, contestant.name]
            record = Record(case.quantity, case.label, case.size, contestant.name, case.dtype, case.batch)
            record.peer = not contestant.package.startswith(OWN)
            if isinstance(outcome, str):
                record.reason = outcome
            else:
                record.preparation = outcome.seconds
                record.memory, record.note = outcome.memory, outcome.note
                record.first, record.resident = outcome.first, outcome.resident if case.fresh else None
                record.reference = reference is not None and reference[0] == contestant.name
                if reference is not None and outcome.value is not None and not record.reference:
                    record.difference = difference(outcome.value, reference[1])
                    if record.difference is not None and not math.isfinite(record.difference):
                        record.difference, record.note = None, NOT_FINITE
                if contestant.timed and not case.fresh:
                    numbers[contestant.name] = max(1, math.ceil(_SHORTEST_SAMPLE / max(outcome.first, _FASTEST)))
            if contestant.timed or record.reason:
                records.append(record)
        self._repeat(number, case, {r.contestant: r for r in records}, numbers)
        return records

    def _repeat(self, number: int, case: Case, records: dict[str, Record], numbers: dict[str, int]) -> None:
        """Samples of each contestant in turn, again and again."""
        workers = {c.name: self._workers.get(self._key(case, c)) for c in case.contestants}
        spent = dict.fromkeys(numbers, 0.0)
        for repetition in range(self._settings.repetitions):
            for name, runs in numbers.items():
                record = records[name]
                if record.reason or (spent[name] > self._settings.seconds and _has_enough(record)):
                    continue
                try:
                    seconds = workers[name].ask(
                        _LONGEST_RUNS * self._settings.cap, "run", self._benchmark, number, name, runs
                    )
                except Failed as failure:
                    record.reason = str(failure)
                    continue
                if repetition == 0:
                    # The very first run, which the number was guessed from, is not typical.
                    numbers[name] = max(1, math.ceil(_SHORTEST_SAMPLE / max(seconds, _FASTEST)))
                record.seconds.append(seconds)
                spent[name] += runs * seconds

    def _reason_to_skip(self, case: Case, name: str) -> str | None:
        """That a contestant failed before, or that the power law through its last two sizes exceeds the cap.

        Another package that had to be stopped is not tried again for other quantities of the same column: each costs
        minutes.
        """
        stopped = self._stopped.get((case.label, case.dtype, name))
        if stopped is not None and case.size is None:
            return f"not tried, since another quantity was stopped ({stopped})"
        reason = self._dropped.get((case.quantity, name))
        costs = self._costs.get((case.quantity, name), [])
        if reason or not costs or case.size is None:
            return reason
        expected = _extrapolated(costs, case.size)
        if expected <= self._settings.cap:
            return None
        return f"dropped: {expected:.0f} s expected for one run, {self._settings.cap:g} s allowed"


def _has_enough(record: Record) -> bool:
    """Whether a median of the samples means something, or more would take too long."""
    return len(record.seconds) >= _FEWEST_SAMPLES or max(record.seconds, default=0) > _LONG_SAMPLE


def _reference(
    number: int, case: Case, outcomes: dict[tuple[int, str], Outcome | str]
) -> tuple[str, np.ndarray] | None:
    """The name and result of the contestant that others are compared with: the first if there is no reference."""
    found = [(c, outcomes[number, c.name]) for c in case.contestants]
    values = [(c, o.value) for c, o in found if isinstance(o, Outcome) and o.value is not None]
    values.sort(key=lambda item: not item[0].reference)
    return (values[0][0].name, values[0][1]) if values else None


def _extrapolated(points: list[tuple[int, float]], size: int) -> float:
    """The power law through the last two points, or a linear one through the only one; never falling."""
    last_size, last = points[-1]
    exponent = 1.0
    if len(points) > 1 and points[-2][0] < last_size:
        before_size, before = points[-2]
        exponent = max(0.0, math.log(max(last, 1e-9) / max(before, 1e-9)) / math.log(last_size / before_size))
    return last * (size / last_size) ** exponent


def difference(value: np.ndarray, reference: np.ndarray) -> float | None:
    """Largest difference relative to the largest entry, over the states that both have."""
    if value.shape[1:] != reference.shape[1:] or value.ndim != reference.ndim:
        return None
    common = min(len(value), len(reference)) if value.ndim else None
    value, reference = value[:common], reference[:common]
    return float(np.max(np.abs(value - reference)) / np.max(np.abs(reference)))

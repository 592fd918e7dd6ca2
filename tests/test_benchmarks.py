"""The benchmarks run, contestants agree, and the published page says what was measured. Times mean nothing here."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import report, runner, scale, summary
from benchmarks.benchmarks import BENCHMARKS
from benchmarks.case import Case, Contestant, Prepared, Unable
from benchmarks.problem import revolute_chain, with_states
from benchmarks.record import Record, Result, read
from benchmarks.runner import Runner, difference, groups
from benchmarks.settings import Settings
from benchmarks.worker import Desk, Failed, Worker

ROOT = Path(__file__).parent.parent
# Of the others a smoke test has no case: they compile for long, or do what another one does.
SMOKED = [name for name in BENCHMARKS if BENCHMARKS[name].cases(Settings(smoke=True))]


@pytest.fixture
def run_module(monkeypatch, capsys):
    """As `python -m` does, in this process: what a module prints."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

    def run(name: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        with pytest.raises(SystemExit) as end:
            runpy.run_module(name, run_name="__main__")
        assert not end.value.code
        return capsys.readouterr().out

    return run


@pytest.mark.slow
def test_smoke(tmp_path, run_module):
    run_module("benchmarks", "--smoke", "--output", str(tmp_path))
    folder = tmp_path / "smoke"
    text = (folder / "report.md").read_text()
    for name in SMOKED:
        result = read(folder / f"{name}.json")
        assert result.title in text
        assert result.records
        for record in result.records:
            reason = record.reason or ""
            assert not reason or reason.startswith("ModuleNotFoundError"), record
            assert (record.difference or 0.0) < {"float32": 1e-5, "float64": 1e-9}[record.dtype], record
    assert (folder / "chain.svg").stat().st_size > 0
    # Nothing is measured twice.
    before = (folder / "chain.json").read_text()
    assert "0/0" in run_module("benchmarks", "chain", "--smoke", "--output", str(tmp_path))
    assert (folder / "chain.json").read_text() == before


@pytest.mark.slow
def test_scale():
    """One chain over eight devices, and what the report makes of it and of a task that failed."""
    found = scale.chain(16, 8)
    assert all(row["error"] < 1e-9 for row in found.values())
    assert sum(found["forward dynamics"]["exchanges"].values()) < 20
    tasks = {"chain:16:1": found, "chain:16:8": found, "gain:8:1": {"failed": "Killed"}}
    text = scale.markdown({"date": "today", "commit": "none", "tasks": tasks})
    assert "| forward dynamics | 8 | " in text
    assert "gain 8 1 failed: Killed" in text


@pytest.mark.slow
def test_accuracy(tmp_path, run_module):
    path = tmp_path / "accuracy.md"
    run_module("benchmarks.accuracy", "--size", "4", "--method", "ABA", "--output", str(path))
    text = path.read_text()
    assert "ABA, round trip" in text
    assert "fails" not in text


def test_published_page_is_what_the_published_results_generate():
    folder = ROOT / "docs" / "benchmarks"
    assert (ROOT / "docs" / "benchmarks.md").read_text() == report.page(folder, folder.parent)
    assert sum(path.stat().st_size for path in folder.glob("*")) < 2e6


def test_cases_are_told_apart():
    for name, benchmark in BENCHMARKS.items():
        for smoke in (False, True):
            cases = benchmark.cases(Settings(smoke=smoke))
            assert len({case.key for case in cases}) == len(cases), name
            for case in cases:
                names = [contestant.name for contestant in case.contestants]
                assert len(set(names)) == len(names), (name, case.key)
            numbers = [number for group in groups(list(enumerate(cases))) for number, _ in group]
            assert numbers == list(range(len(cases)))


def records() -> list[Record]:
    ours = Record("sums, 2048 states", "Panda", None, "jaxcfa", "float32", 4, [2e-6, 1e-6, 4e-6], {"compile": 1.0}, 0.1)
    ours.difference, ours.memory = 2.34567e-7, 2**20
    theirs = Record("sums, 2048 states", "Panda", None, "Pinocchio", "float32", 4, [8e-6], {}, 0.1)
    theirs.reference = theirs.peer = True
    slow = Record("sums, 2048 states", "Panda", None, "MJX", "float32", 4, reason="compiling takes more than 120 s")
    slow.peer = True
    return [ours, theirs, slow]


def test_report_shows_what_was_measured(tmp_path):
    result = Result("states", "Sums of states", "2026-01-01", "abc", vars(Settings()), {"cores": "2"}, records())
    result.write(tmp_path)
    assert read(tmp_path / "states.json").records[0].difference == 2.346e-07
    text = report.page(tmp_path, tmp_path)
    assert "| jaxcfa | 500 ns (375, 750)<br>4 x, 2e-07, 1 MiB |" in text
    assert "| Pinocchio | 2 µs (2, 2)<br>reference |" in text
    assert "- MJX, Panda: compiling takes more than 120 s" in text
    # Of one robot, the least and the largest ratio are one number.
    assert "| sums, 2048 states, float32 | 1 | 4 | 4 | Pinocchio | 2e-07 |" in text
    assert summary.lines([]) == []
    result.benchmark = "gpu"
    assert "| sums, 2048 states | 1 | - | 4 | Pinocchio | not finite |" in summary.lines([result])


def test_difference():
    reference = np.array([[1.0, 2.0], [4.0, 0.0]])
    assert difference(reference[:1] + 0.02, reference) == pytest.approx(0.01)
    assert difference(np.zeros((2, 3)), reference) is None


def fails():
    raise Unable("it does not have this")


def made(value: float) -> Prepared:
    return Prepared(lambda: np.array([value, 1.0]), {"model": 0.0})


class WorkerHere:
    """Answers in this process; has to be stopped while it prepares `slow`, and the second case of `grows`."""

    def __init__(self, cases: list[Case]):
        self.desk, self.running = Desk(Settings()), False
        self.desk._cases["sums"] = cases

    def ask(self, limit, name, *arguments):
        self.running = True
        if name == "prepare" and (arguments[-1] == "slow" or arguments[-2:] == (1, "grows")):
            self.stop()
            raise Failed("takes more than 2 s")
        try:
            return getattr(self.desk, name)(*arguments)
        except Unable as error:
            raise Failed(str(error)) from None

    def stop(self):
        self.desk.forget()
        self.running = False


def test_contestants_are_stopped_and_compared(tmp_path, monkeypatch):
    contestants = [
        Contestant("exact", lambda: made(2.0), "C++", reference=True),
        Contestant("near", lambda: made(2.002)),
        Contestant("without", fails),
        Contestant("ready before", lambda: made(2.0), "slow"),
        Contestant("slow", lambda: made(2.0), "slow"),
    ]
    cases = [Case("sums", "two", contestants), Case("products", "two", contestants)]
    monkeypatch.setattr(runner, "Worker", lambda *_: WorkerHere(cases))
    measuring = Runner("sums", Settings(repetitions=2), tmp_path / "log", lambda text: None)
    (_, found), (_, later) = measuring.measure(list(enumerate(cases)))
    by_name = {record.contestant: record for record in found}
    assert by_name["exact"].reference
    assert by_name["near"].difference == pytest.approx(0.001)
    assert len(by_name["near"].seconds) == 2
    assert by_name["without"].reason == "it does not have this"
    assert by_name["slow"].reason == "compiling takes more than 2 s"
    assert by_name["ready before"].reason is None
    assert len(by_name["ready before"].seconds) == 2
    assert later[-1].reason.startswith("not tried")


def test_slow_runs_have_a_median(tmp_path, monkeypatch):
    """Of three, unless each takes many seconds."""
    numbers = {}
    for seconds in (1.0, 6.0):
        case = Case("sums", "two", [Contestant("slow one", lambda: made(2.0))])
        here = WorkerHere([case])
        ask = here.ask
        monkeypatch.setattr(here, "ask", lambda *x, s=seconds, ask=ask: s if x[1] == "run" else ask(*x))
        monkeypatch.setattr(runner, "Worker", lambda *_, here=here: here)
        measuring = Runner("sums", Settings(), tmp_path / "log", lambda text: None)
        ((_, (record,)),) = measuring.measure([(0, case)])
        numbers[seconds] = len(record.seconds)
    assert numbers == {1.0: 3, 6.0: 1}


@pytest.mark.parametrize("sizes", [(1, 2, 3), (None, None, None)])
def test_what_was_ready_is_kept_when_a_later_case_is_stopped(tmp_path, monkeypatch, sizes):
    contestants = [Contestant("grows", lambda: made(2.0), "other"), Contestant("beside", lambda: made(2.0), "other")]
    quantities = ["sums"] * 3 if sizes[0] else ["sums", "products", "roots"]
    cases = [Case(q, "two", contestants, size) for q, size in zip(quantities, sizes, strict=True)]
    monkeypatch.setattr(runner, "Worker", lambda *_: WorkerHere(cases))
    measuring = Runner("sums", Settings(repetitions=2), tmp_path / "log", lambda text: None)
    found = [
        {record.contestant: record for record in records} for _, records in measuring.measure(list(enumerate(cases)))
    ]
    assert found[0]["grows"].reason is None
    assert len(found[0]["grows"].seconds) == 2
    assert found[1]["grows"].reason == "compiling takes more than 2 s"
    assert "more than 2 s" in found[2]["grows"].reason
    assert all(records["beside"].reason is None and len(records["beside"].seconds) == 2 for records in found)


def test_files_for_other_packages_are_removed():
    with with_states(revolute_chain(2), "float32").urdf() as path:
        assert "<robot" in path.read_text()
    assert not path.parent.exists()


def test_a_process_that_was_killed_has_a_reason():
    assert scale.reason(subprocess.CompletedProcess([], -9, "", "")) == "its process ended, with status -9"
    assert scale.reason(subprocess.CompletedProcess([], 1, "", "Traceback\nValueError: no\n")) == "ValueError: no"


def test_a_process_is_stopped_when_its_time_is_over(tmp_path):
    worker = Worker(Settings(), "float32", (("JAXCFA_TEST", "1"),), tmp_path / "log")
    with pytest.raises(Failed, match="takes more than 0 s"):
        worker.ask(0.01, "forget")
    assert not worker.running
    assert "JAXCFA_TEST" not in os.environ

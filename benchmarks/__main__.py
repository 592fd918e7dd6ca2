"""The command line: `python -m benchmarks [NAMES] [--smoke]`; `python -m benchmarks report`."""

import enum
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Annotated

import jax
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from . import methods, scale
from .accelerators.__main__ import main as compile_for_accelerators
from .benchmarks import BENCHMARKS
from .case import Case
from .machine import commit, environment
from .record import Result, read
from .report import results_in, write_report
from .runner import Runner, groups
from .settings import Settings

PUBLISHED = Path("docs")
REPORT = "report"
SCALE = "scale"
Name = enum.StrEnum("Name", {name: name for name in (*BENCHMARKS, SCALE, REPORT)})
MethodName = enum.StrEnum("MethodName", {name: name for name in methods.FORWARD})


def main(
    names: Annotated[list[Name] | None, typer.Argument(help="Benchmarks to run; all by default.")] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="Tiny sizes, to see that everything runs.")] = False,
    method: Annotated[list[MethodName] | None, typer.Option(help="Algorithms to measure; all by default.")] = None,
    repetitions: Annotated[int, typer.Option(min=1, help="Samples of each measurement, at most.")] = 15,
    seconds: Annotated[float, typer.Option(min=0.01, help="Time for the samples of a measurement [s].")] = 0.5,
    minutes: Annotated[float, typer.Option(min=0.1, help="After these, what is left is not measured.")] = 57.0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what is in the folder already.")] = False,
    output: Annotated[Path, typer.Option(help="Folder for results, report and plots.")] = Path("output/bench"),
    publish: Annotated[bool, typer.Option("--publish", help="Results and report into docs/, too.")] = False,
) -> None:
    """Measure jaxcfa beside other packages, and write a report. `report` alone writes docs/benchmarks.md anew.

    Results are written after every case. What is in the folder already, of this commit, machine and versions, is not
    measured again.
    """
    chosen = tuple(str(x) for x in method or ())
    settings = Settings(smoke, 1 if smoke else repetitions, 0.01 if smoke else seconds, methods=chosen)
    folder = output / "smoke" if smoke else output
    folder.mkdir(parents=True, exist_ok=True)
    console = Console()
    only_report = REPORT in (names or [])
    if not only_report:
        # Each process would take three quarters of a GPU's memory for itself, this one first.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        here = [name for name, x in BENCHMARKS.items() if getattr(x, "NEEDS", None) in (None, jax.default_backend())]
        everything = [*here, *([] if smoke else [SCALE])]
        wanted, deadline = [str(name) for name in names or everything], time.monotonic() + 60 * minutes
        if SCALE in wanted:
            wanted.remove(SCALE)
            with console.status(SCALE) as status:
                scale.measure(folder, smoke, status.update)
        run(wanted, settings, folder, deadline, fresh, console)
        console.print(f"Report: {write_report(folder, folder / 'report.md')}", soft_wrap=True)
    if publish:
        for result in results_in(folder):
            result.write(PUBLISHED / "benchmarks")
        if (folder / "scale.json").exists():
            shutil.copy(folder / "scale.json", PUBLISHED / "benchmarks")
    if publish or only_report:
        console.print(f"Report: {write_report(PUBLISHED / 'benchmarks', PUBLISHED / 'benchmarks.md')}", soft_wrap=True)


def run(names: list[str], settings: Settings, folder: Path, deadline: float, fresh: bool, console: Console) -> None:
    """Measures what is not in the folder yet, what may come later last, until the deadline [s of `time.monotonic`]."""
    results = {name: _start(name, settings, folder, fresh) for name in names}
    todo: list[tuple[str, list[tuple[int, Case]]]] = []
    cases = {name: list(enumerate(BENCHMARKS[name].cases(settings))) for name in names}
    for later in sorted({case.later for own in cases.values() for _, case in own}):
        for name in names:
            done = {record.key for record in results[name].records}
            left = [(i, case) for i, case in cases[name] if case.later == later and case.key not in done]
            todo += [(name, group) for group in groups(left)]
    runners: dict[str, Runner] = {}
    shared = {} if settings.smoke else None
    columns = BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, TextColumn("{task.description}"), console=console) as progress:
        task = progress.add_task("", total=sum(len(group) for _, group in todo))

        def show(text: str) -> None:
            progress.update(task, description=text)

        for name, group in todo:
            result, started = results[name], time.monotonic()
            if started > deadline:
                result.missing += len(group)
                result.write(folder)
                continue
            for other in set() if settings.smoke else runners.keys() - {name}:
                runners[other].close()
            if name not in runners:
                runners[name] = Runner(name, settings, folder / "packages.log", show, shared)
            before = len(result.records)
            try:
                for _, records in runners[name].measure(group):
                    result.records += records
                    result.minutes += (time.monotonic() - started) / 60
                    started = time.monotonic()
                    result.write(folder)
                    progress.advance(task)
            except Exception:  # a mistake in one benchmark leaves the others to be measured
                console.print_exception()
                done = {record.key for record in result.records[before:]}
                result.missing += sum(case.key not in done for _, case in group)
                result.write(folder)
                runners.pop(name).close()
        show("done")
    for runner in runners.values():
        runner.close()


def _start(name: str, settings: Settings, folder: Path, fresh: bool) -> Result:
    """What is in the folder already, if it is of this commit, environment and options; else an empty result."""
    options = json.loads(json.dumps(vars(settings)))
    empty = Result(name, BENCHMARKS[name].TITLE, time.strftime("%Y-%m-%d"), commit(), options, environment(), [])
    path = folder / f"{name}.json"
    if fresh or not path.exists():
        return empty
    found = read(path)
    if any(getattr(found, part) != getattr(empty, part) for part in ("commit", "environment", "settings")):
        return empty
    found.missing = 0
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["accelerators"]:
        sys.exit(compile_for_accelerators(sys.argv[2:]))
    typer.run(main)

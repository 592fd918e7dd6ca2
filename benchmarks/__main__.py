"""The command line: `python -m benchmarks [--only] [NAMES] [--smoke] [--dtype float32]`."""

import enum
import sys
import time
from pathlib import Path
from typing import Annotated

import jax
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from . import (
    batch,
    chain,
    compile_time,
    derivatives,
    inverse_kinematics,
    methods,
    operators,
    optimal_control,
    robots,
    space,
)
from .accelerators.__main__ import main as compile_for_accelerators
from .machine import commit, environment
from .record import Result, read
from .report import report
from .runner import Runner
from .settings import Settings

BENCHMARKS = {
    "chain": chain,
    "batch": batch,
    "space": space,
    "operators": operators,
    "compile": compile_time,
    "robots": robots,
    "derivatives": derivatives,
    "inverse_kinematics": inverse_kinematics,
    "optimal_control": optimal_control,
}
Name = enum.StrEnum("Name", {name: name for name in BENCHMARKS})
MethodName = enum.StrEnum("MethodName", {name: name for name in methods.FORWARD})


class Precision(enum.StrEnum):
    float64 = "float64"
    float32 = "float32"


def main(
    names: Annotated[list[Name] | None, typer.Argument(help="Benchmarks to run; all by default.")] = None,
    only: Annotated[list[Name] | None, typer.Option(help="The same; further names may follow.")] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="Tiny sizes, to see that everything runs.")] = False,
    dtype: Annotated[Precision, typer.Option(help="Precision of this package and frax.")] = Precision.float64,
    method: Annotated[list[MethodName] | None, typer.Option(help="Algorithms to measure; all by default.")] = None,
    repetitions: Annotated[int, typer.Option(min=1, help="Samples for each measurement.")] = 15,
    cap: Annotated[
        float, typer.Option(min=0.1, help="Time for one measurement [s]; what takes longer is dropped.")
    ] = 20.0,
    output: Annotated[Path, typer.Option(help="Folder for results, report and plots.")] = Path("output/bench"),
) -> None:
    """Measure the dynamics algorithms of jaxcfa against each other and against other packages."""
    jax.config.update("jax_enable_x64", dtype == Precision.float64)
    # A smoke test takes one algorithm, and compiles quickly what it hardly runs.
    jax.config.update("jax_disable_most_optimizations", smoke)
    chosen = tuple(method or list(methods.FORWARD)[: 1 if smoke else None])
    folder = output / "smoke" if smoke else output
    settings = Settings(smoke, dtype.value, 2 if smoke else repetitions, cap, tuple(map(str, chosen)), folder)
    console = Console()
    wanted = [*(only or []), *(names or [])] or list(Name)
    for name in wanted:
        result = run(str(name), settings, console)
        result.write(folder)
        draw(result, folder, console)
    path = write_report(folder)
    console.print(f"Report: {path}", soft_wrap=True)


def run(name: str, settings: Settings, console: Console) -> Result:
    """All measurements of one benchmark."""
    benchmark = BENCHMARKS[name]
    options = {key: str(value) if isinstance(value, Path) else value for key, value in vars(settings).items()}
    date = time.strftime("%Y-%m-%d")
    records = []
    columns = TextColumn(f"{name:>8}"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, TextColumn("{task.description}"), console=console) as progress:
        cases = benchmark.cases(settings)
        task = progress.add_task("", total=len(cases))
        runner = Runner(settings, lambda text: progress.update(task, description=text))
        for case in cases:
            records += runner.measure(case)
            progress.advance(task)
        progress.update(task, description="done")
    return Result(name, benchmark.TITLE, settings.dtype, date, commit(), options, environment(), records)


def draw(result: Result, folder: Path, console: Console) -> None:
    """The plot, where matplotlib is installed."""
    try:
        from .plots import plot
    except ImportError as error:
        console.print(f"No plot: {error}", highlight=False)
    else:
        plot(result, folder)


def write_report(folder: Path) -> Path:
    """One report of all results in the folder that were measured here, in this environment."""
    here = environment()
    results = [read(path) for path in sorted(folder.glob("*.json"))]
    order = list(BENCHMARKS)
    results.sort(key=lambda result: (order.index(result.benchmark), result.dtype))
    same = [result for result in results if result.environment == here]
    left_out = [result.stem for result in results if result.environment != here]
    path = folder / "report.md"
    path.write_text(report(here, same, left_out))
    return path


if __name__ == "__main__":
    if sys.argv[1:2] == ["accelerators"]:
        sys.exit(compile_for_accelerators(sys.argv[2:]))
    typer.run(main)

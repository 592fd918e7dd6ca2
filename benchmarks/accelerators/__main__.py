"""The command line: `python -m benchmarks.accelerators [TARGETS] [--only PATTERN] [--hlo FOLDER]`."""

import argparse
import re
import sys
import time
from pathlib import Path

import jax
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import jaxcfa

from ..machine import version
from .programs import PROGRAMS, Program
from .reading import read as read_figures
from .record import Record, Results, read
from .table import cells_of
from .targets import TARGETS, Target, without_devices

_PACKAGES = ("jax", "jaxlib", "libtpu", "jax-cuda12-pjrt")
_COLUMNS = ("kernels", "MB moved", "kcycles", "compile s", "CPU s", "libraries")


def main(arguments: list[str] | None = None) -> int:
    """Compiles the programs; 1 if one fails or asks for low precision or float64, 2 if a compiler is missing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks accelerators", description=__doc__)
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--only", default="", help="regular expression of program names; keeps the others' results")
    parser.add_argument("--hlo", type=Path, help="folder for the texts of compiled programs")
    parser.add_argument("--output", type=Path, default=Path("output/bench/accelerators.json"))
    given = parser.parse_args(arguments)
    unknown = [name for name in given.targets if name not in TARGETS]
    if unknown:
        parser.error(f"no target {unknown[0]!r}; there are {', '.join(TARGETS)}")
    without_devices()
    console = Console()
    programs = [program for program in PROGRAMS if re.search(given.only, program.name)]
    records = []
    for name in given.targets or TARGETS:
        try:
            TARGETS[name].sharding()
        except Exception as error:
            console.print(f"No compiler for {name} ({error}). `make accelerators` installs it.", soft_wrap=True)
            return 2
        records += compile_all(name, programs, given.hlo, given.output, console)
    console.print(f"Results: {given.output}", soft_wrap=True)
    return int(any(_is_bad(record) for record in records))


def compile_all(name: str, programs: list[Program], hlo: Path | None, output: Path, console: Console) -> list[Record]:
    """All programs for one target, with a table."""
    columns = TextColumn(f"{name:>5}"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn()
    records = []
    with Progress(*columns, TextColumn("{task.description}"), console=console) as progress:
        task = progress.add_task("", total=len(programs))
        for program in programs:
            progress.update(task, description=program.name)
            records.append(compile_one(name, program, hlo))
            _write(output, records[-1:])
            progress.advance(task)
        progress.update(task, description="done")
    table = Table("program", *_COLUMNS, title=TARGETS[name].title)
    for record in records:
        cells = cells_of(record)
        table.add_row(*(cells[column] for column in ("program", *_COLUMNS)))
    console.print(table)
    return records


def compile_one(name: str, program: Program, hlo: Path | None = None) -> Record:
    """One program for one target."""
    record = Record(program.name, name)
    before = time.process_time()
    try:
        text, record.trace, record.compile, record.temporary = compiled(TARGETS[name], program)
    except Exception as error:
        record.reason = f"{type(error).__name__}: {error}"
        return record
    record.work = time.process_time() - before
    if hlo is not None:
        hlo.mkdir(parents=True, exist_ok=True)
        (hlo / f"{name} {program.name}.hlo".replace(" ", "-").replace("/", "_")).write_text(text)
    record.figures = read_figures(text)
    return record


def compiled(target: Target, program: Program) -> tuple[str, float, float, float]:
    """The compiled program's text, seconds of tracing and compiling, and MiB of temporary memory."""
    with jaxcfa.compiling_for(target.backend):
        function, *shapes = program.make()
        sharding = target.sharding()
        arguments = [jax.ShapeDtypeStruct(shape, "float32", sharding=sharding) for shape in shapes]
        start = time.perf_counter()
        lowered = jax.jit(function).lower(*arguments)
        traced = time.perf_counter()
        result = lowered.compile()
    done = time.perf_counter()
    return result.as_text(), traced - start, done - traced, result.memory_analysis().temp_size_in_bytes / 2**20


def _is_bad(record: Record) -> bool:
    return record.figures is None or bool(record.figures.low_precision or record.figures.double)


def _write(path: Path, records: list[Record]) -> None:
    """Adds to what the file has of the same versions."""
    versions = {name: found for name in _PACKAGES if (found := version(name))}
    new = {(record.target, record.program): record for record in records}
    old = read(path) if path.exists() else None
    if old is not None and old.versions == versions:
        new = {(record.target, record.program): record for record in old.records} | new
    order = {name: i for i, name in enumerate(program.name for program in PROGRAMS)}
    kept = [record for record in new.values() if record.program in order]
    kept.sort(key=lambda record: (list(TARGETS).index(record.target), order[record.program]))
    Results(versions, time.strftime("%Y-%m-%d"), kept).write(path)


if __name__ == "__main__":
    sys.exit(main())

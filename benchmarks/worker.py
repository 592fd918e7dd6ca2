"""Processes in which contestants are prepared and run, so that they can be stopped, and have settings of their own."""

import multiprocessing
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .case import Case, Contestant, Prepared, Unable
from .settings import Settings

_ENVIRONMENT = threading.Lock()


class Outcome(NamedTuple):
    """What the preparation and first run of a contestant have shown.

    **Fields:** `seconds`: of preparation, by step. `first`: of the first run. `value`: to be compared. `resident`: the
    largest memory of the process so far [bytes].
    """

    seconds: dict[str, float]
    first: float
    value: np.ndarray | None
    memory: int | None
    note: str | None
    resident: int


class Failed(Exception):
    """A contestant failed in its process; the message is the reason."""


class Worker:
    """A process, started when it is first asked something.

    **Arguments:** `dtype`: float32 or float64. `environment`: variables that differ from those of this process. `log`:
    a file for what packages print.
    """

    def __init__(self, settings: Settings, dtype: str, environment: tuple[tuple[str, str], ...], log: Path):
        self._arguments = settings, dtype, str(log)
        self._environment = dict(environment)
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None

    def ask(self, limit: float, *request: Any) -> Any:
        """The answer. Raises `Failed` if there is none within the limit [s], and ends the process."""
        if self._process is None:
            self._start()
        try:
            self._connection.send(request)
            if not self._connection.poll(limit):
                self.stop()
                raise Failed(f"takes more than {limit:.0f} s")
            answer = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(5.0)  # until then it has no status
            code = self._process.exitcode
            self.stop()
            raise Failed(f"its process ended, with status {code}") from None
        if isinstance(answer, str):
            raise Failed(answer)
        return answer

    @property
    def running(self) -> bool:
        return self._process is not None

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = self._connection = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, *self._arguments), daemon=True)
        # A process has the environment of the moment in which it starts.
        with _ENVIRONMENT:
            before = dict(os.environ)
            os.environ.update(self._environment)
            try:
                self._process.start()
            finally:
                os.environ.clear()
                os.environ.update(before)
        theirs.close()


def _serve(connection: Connection, settings: Settings, dtype: str, log: str) -> None:
    """Answers requests in the process, until the connection is closed. A failure is answered by its reason."""
    with Path(log).open("a") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    import jax

    import jaxcfa

    # For every package: whether a process gives memory back, by chance, is half of the time of some quantities.
    jaxcfa.keep_memory()
    jax.config.update("jax_enable_x64", dtype == "float64")
    # A smoke test compiles quickly what it hardly runs.
    jax.config.update("jax_disable_most_optimizations", settings.smoke)
    desk = Desk(settings)
    while True:
        try:
            name, *arguments = connection.recv()
        except EOFError:
            return
        try:
            connection.send(getattr(desk, name)(*arguments))
        except Exception as error:  # whatever another package throws
            connection.send(_reason(error))


class Desk:
    """What a process can be asked."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._cases: dict[str, list[Case]] = {}
        self._prepared: dict[tuple, Prepared] = {}

    def prepare(self, benchmark: str, number: int, name: str) -> dict[str, float]:
        """Prepares a contestant of a benchmark's case: the seconds of the steps."""
        contestant = self._contestant(benchmark, number, name)
        prepared = contestant.prepare()
        self._prepared[benchmark, number, name] = prepared
        return prepared.seconds

    def first(self, *key) -> Outcome:
        """Runs for the first time."""
        prepared = self._known(key)
        result, seconds = timed(prepared.run)
        note = None if prepared.note is None else prepared.note(result)
        value = None if prepared.value is None else np.asarray(prepared.value(result), dtype=float)
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return Outcome(prepared.seconds, seconds, value, prepared.memory, note, resident)

    def run(self, *key_and_number) -> float:
        """The seconds of one of a number of runs."""
        *key, number = key_and_number
        return timed(self._known(tuple(key)).run, number)[1]

    def forget(self) -> bool:
        """Drops what was prepared."""
        self._prepared.clear()
        return True

    def _known(self, key: tuple) -> Prepared:
        if key not in self._prepared:
            raise Unable("its process was stopped at another quantity")
        return self._prepared[key]

    def _contestant(self, benchmark: str, number: int, name: str) -> Contestant:
        from .benchmarks import BENCHMARKS

        if benchmark not in self._cases:
            self._cases[benchmark] = BENCHMARKS[benchmark].cases(self._settings)
        return next(x for x in self._cases[benchmark][number].contestants if x.name == name)


def timed(run: Callable[[], object], number: int = 1) -> tuple[object, float]:
    """The last result, and the time of one run. Each result is dropped before the next, which takes its place."""
    result = None
    start = time.perf_counter()
    for _ in range(number):
        result = None
        result = run()
    return result, (time.perf_counter() - start) / number


def _reason(error: Exception) -> str:
    first_line = (str(error).strip().splitlines() or [""])[0][:200]
    return first_line if isinstance(error, Unable) else f"{type(error).__name__}: {first_line}"

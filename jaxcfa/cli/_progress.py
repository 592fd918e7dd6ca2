"""Saying what takes its time."""

import contextlib
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn


@contextlib.contextmanager
def working(console: Console, text: str) -> Iterator[None]:
    """Shows a text with the seconds that have passed, on terminals only."""
    columns = SpinnerColumn(), _text(), TimeElapsedColumn()
    with _shown(console, *columns) as progress:
        progress.add_task(text, total=None)
        yield


def counted(console: Console, text: str, parts: Sequence[int]) -> Iterator[int]:
    """The parts of some work, with a bar that shows how many are done, and the seconds that have passed."""
    columns = _text(), BarColumn(), TimeElapsedColumn()
    with _shown(console, *columns) as progress:
        yield from progress.track(parts, description=text)


def _text() -> TextColumn:
    return TextColumn("{task.description}", markup=False)  # which may be the name of a file


def _shown(console: Console, *columns: ProgressColumn) -> Progress:
    """Gone when it is over. Elsewhere than on a terminal it would leave an empty line."""
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)

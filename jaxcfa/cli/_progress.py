"""Saying what takes its time, and what to beware of."""

import contextlib
import warnings
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn


@contextlib.contextmanager
def working(console: Console, text: str) -> Iterator[None]:
    """Shows a text with the seconds that have passed, on terminals only."""
    columns = SpinnerColumn(), _text(), TimeElapsedColumn()
    with _shown(console, *columns) as progress:
        progress.add_task(text, total=None)
        yield


@contextlib.contextmanager
def quietly(console: Console, text: str) -> Iterator[list[warnings.WarningMessage]]:
    """As `working`; warnings do not reach the user, but the list that it gives."""
    with working(console, text), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def warn(console: Console, text: str, *, soft_wrap: bool = False) -> None:
    """Prints a warning; the text is no markup."""
    console.print(f"[yellow]Warning:[/] {escape(text)}", highlight=False, soft_wrap=soft_wrap)


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

"""What a model does not take from a file, collected into one warning."""

import sys
import warnings
from collections.abc import Iterable, Mapping

_SHOWN = 8
_PACKAGE = __name__.partition(".")[0]


class ModelWarning(UserWarning):
    """A file was read, but something in it is not modelled, was changed, or is doubtful.

    The text names the first few elements of each kind; the attribute `notes` has all of them, by kind.
    """

    def __init__(self, message: str, notes: Mapping[str, tuple[str, ...]] | None = None):
        super().__init__(message)
        self.notes = dict(notes or {})


class Report:
    """Notes taken while a file is read.

    **Arguments:** `source`: what is being read, as the user knows it.
    """

    def __init__(self, source: str):
        self.source = source
        self._notes: dict[str, dict[str, None]] = {}

    def add(self, note: str, elements: str | Iterable[str] = ()) -> None:
        """Take a note, once for each kind, about elements of the file."""
        names = [elements] if isinstance(elements, str) else elements
        self._notes.setdefault(note, {}).update(dict.fromkeys(names))

    @property
    def notes(self) -> dict[str, tuple[str, ...]]:
        """The elements that each note is about."""
        return {note: tuple(elements) for note, elements in self._notes.items()}

    def warn(self) -> None:
        """Issues one `ModelWarning` with all notes, if any, at the line that called this package."""
        if self._notes:
            lines = [f"- {note}{_listed(elements)}" for note, elements in self.notes.items()]
            message = "\n".join([f"{self.source} holds what is not modelled, or doubtful:", *lines])
            warnings.warn(ModelWarning(message, self.notes), stacklevel=_levels_inside_package())


def _listed(elements: tuple[str, ...]) -> str:
    if not elements:
        return ""
    more = f" and {len(elements) - _SHOWN} more" if len(elements) > _SHOWN else ""
    return f" ({len(elements)}): " + ", ".join(elements[:_SHOWN]) + more


def _levels_inside_package() -> int:
    """The `stacklevel` with which this function's caller blames the first caller outside of the package."""
    level, frame = 0, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        level, frame = level + 1, frame.f_back
    return level

"""What a file holds and a model does not, collected into one warning."""

import warnings
from collections.abc import Iterable

_SHOWN = 4


class ModelWarning(UserWarning):
    """A file was read, but something in it is not modelled or was changed."""


class Report:
    """Notes taken while a file is read.

    **Arguments:** `source`: what is being read, as the user knows it.
    """

    def __init__(self, source: str):
        self.source = source
        self._notes: dict[str, list[str]] = {}

    def add(self, note: str, elements: str | Iterable[str] = ()) -> None:
        """Take a note, once for each kind, about elements of the file."""
        names = [elements] if isinstance(elements, str) else list(elements)
        known = self._notes.setdefault(note, [])
        known.extend(name for name in names if name not in known)

    @property
    def notes(self) -> dict[str, tuple[str, ...]]:
        """The elements that each note is about."""
        return {note: tuple(elements) for note, elements in self._notes.items()}

    def warn(self, stacklevel: int = 2) -> None:
        """Give one `ModelWarning` with all notes; none if there are no notes."""
        if self._notes:
            lines = [f"- {note}{_listed(elements)}" for note, elements in self._notes.items()]
            message = "\n".join([f"{self.source}:", *lines])
            warnings.warn(message, ModelWarning, stacklevel=stacklevel + 1)


def _listed(elements: list[str]) -> str:
    if not elements:
        return ""
    more = f" and {len(elements) - _SHOWN} more" if len(elements) > _SHOWN else ""
    return f" ({len(elements)}): " + ", ".join(elements[:_SHOWN]) + more

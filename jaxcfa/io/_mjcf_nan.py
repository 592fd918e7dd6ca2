"""NaN in MJCF, refused here because MuJoCo's parser (4.0.0) has been seen to hang on it."""

import re
from collections.abc import Mapping
from pathlib import Path

from .._optional import optional_module
from ._source import Element, tag_of, with_usual_version

_SUSPECT = re.compile(rb"(?i)\bnan\b|<include\b|<model\b")
_NAN = re.compile(r"[+-]?nan(\(\w*\))?", re.IGNORECASE)
# Attributes that hold names, which may be anything.
_NAMES = """
    name class childclass model file dir body body1 body2 joint joint1 joint2 site site1 site2 geom geom1 geom2 material
    texture mesh hfield tendon tendon1 tendon2 actuator objname refname target prefix jointinparent cranksite slidersite
    refsite plugin instance key value parent child attachment
"""
_WORDS = frozenset(_NAMES.split())
_WITH_MJCF = ("include", "model")  # elements whose `file` is MJCF, too


def refuse_nan(data: bytes, folder: Path, assets: Mapping[str, bytes]) -> None:
    """Raises `ValueError` for such a number in a document, or in one that it includes.

    **Arguments:** `folder` of the document, from which MuJoCo looks for files; `assets`: contents of files by names.
    """
    pending, seen = [(data, "", folder)], set[str | Path]()
    while pending:
        data, name, place = pending.pop()
        for element in _elements(data):
            _check(element, name)
            if tag_of(element) not in _WITH_MJCF or "file" not in element.attrib:
                continue
            # First from the main file, then from the one that includes.
            for path in (folder / element.attrib["file"], place / element.attrib["file"]):
                found = _found(path, assets)
                if found not in seen:
                    seen.add(found)
                    pending.append((_content(found, assets), element.attrib["file"], path.parent))


def _elements(data: bytes) -> list[Element]:
    """All that could be of interest; none where the document has nothing to look for."""
    if not _SUSPECT.search(data):
        return []
    etree = optional_module("lxml.etree", "io")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
    root = etree.fromstring(with_usual_version(data), parser)
    return [] if root is None else list(root.iter("*"))


def _found(path: Path, assets: Mapping[str, bytes]) -> str | Path:
    """The name of an asset, by which it is known wherever it is included, or a path."""
    return next((name for name in (path.as_posix(), path.name) if name in assets), path)


def _content(found: str | Path, assets: Mapping[str, bytes]) -> bytes:
    """Nothing of what cannot be read: MuJoCo says so."""
    if isinstance(found, str):
        return assets[found]
    try:
        return found.read_bytes() if found.is_file() else b""
    except (OSError, ValueError):  # ValueError: characters that no path can have
        return b""


def _check(element: Element, file: str) -> None:
    for name, value in element.attrib.items():
        if name not in _WORDS and any(_NAN.fullmatch(word) for word in value.split()):
            where = f"<{tag_of(element)}> on line {element.sourceline}{file and f' of {file!r}'}"
            raise ValueError(f"{where}: {name}={value!r} must be finite. Correct the file.")

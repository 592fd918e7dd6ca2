"""From a path or a text to the root element of an XML document."""

import io
import os
import re
import stat
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from .._optional import optional_module

PathOrText = str | bytes | os.PathLike
FileOrCompiled = PathOrText | Any  # or a mujoco.MjModel or mujoco.MjSpec: the package is optional
Element = Any  # lxml.etree._Element: the package is optional
_DECLARATION = re.compile(r"^\s*<\?xml\b[^>]*\?>")
_XML_STARTS = (b"<", b"\xff\xfe", b"\xfe\xff")  # the others are marks of UTF-16
_ADDRESS = re.compile(r"^([A-Za-z][\w+.-]+):/+")  # two letters or more: C:/ is a drive; paths lose one of two slashes
_VERSION = re.compile(rb"""^(\s*)<\?xml\s+version\s*=\s*("[^"]*"|'[^']*')""")


class Source(NamedTuple):
    """The content of a file, or a text, and how messages call it."""

    name: str
    data: bytes


def read_source(path_or_text: FileOrCompiled) -> Source:
    """The content of a file, or the text itself if it starts with `<`. Bytes are always taken for text.

    Of a model or specification of MuJoCo's, no more than the root element that its file has.
    """
    if is_of_mujoco(path_or_text):
        return Source(f"{type(path_or_text).__name__} {_name_in_mujoco(path_or_text)!r:.200}", b"<mujoco/>")
    if isinstance(path_or_text, bytes):
        return _not_empty(Source("XML text", path_or_text))
    if isinstance(path_or_text, str) and is_text(path_or_text):
        # Decoded already, so what the declaration says about the encoding no longer holds.
        text = _DECLARATION.sub("", path_or_text.lstrip("\ufeff"), count=1)
        return _not_empty(Source("XML text", text.encode("utf-8", "surrogatepass")))
    if not isinstance(path_or_text, (str, os.PathLike)):
        raise ValueError(
            "A robot is given by the path of a file, by XML text, or as a mujoco.MjModel or mujoco.MjSpec, got "
            f"{path_or_text!r:.200}."
        )
    return _not_empty(read_file(path_or_text))


def is_text(path_or_text: FileOrCompiled) -> bool:
    """Whether this is the text itself, and neither a path nor a model of MuJoCo's."""
    if isinstance(path_or_text, str):
        return path_or_text.lstrip("\ufeff").lstrip()[:1] in ("", "<")
    return isinstance(path_or_text, bytes)


def read_file(path: PathOrText) -> Source:
    """The content of a file."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise ValueError(f"A file is given by its path, got {path!r:.200}.")
    path = Path(os.fsdecode(path))
    return Source(str(path)[:500], _read_bytes(path))


def is_of_mujoco(robot: object) -> bool:
    """Whether this is a `mujoco.MjModel` or `mujoco.MjSpec`, which only those have who have imported the package."""
    mujoco = sys.modules.get("mujoco")
    return mujoco is not None and isinstance(robot, (mujoco.MjModel, mujoco.MjSpec))


def _name_in_mujoco(robot: Any) -> str:
    """Of a compiled model, the first of all names."""
    if hasattr(robot, "modelname"):
        return robot.modelname
    return robot.names.partition(b"\0")[0].decode("utf-8", "replace")


def is_archive(path_or_text: FileOrCompiled) -> bool:
    """Whether this is the path of a file that `save_model` writes."""
    return isinstance(path_or_text, (str, os.PathLike)) and os.fsdecode(path_or_text).endswith(".npz")


def _read_bytes(path: Path) -> bytes:
    shown = f"{str(path)!r:.200}"
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
        data = path.read_bytes() if regular else b""
    except PermissionError as error:
        raise ValueError(f"{shown} must not be read; change its permissions.") from error
    except (OSError, ValueError) as error:  # ValueError: characters that no path can have
        if _ADDRESS.match(str(path)):
            address = _ADDRESS.sub(r"\1://", str(path))
            raise FileNotFoundError(
                f"{address!r:.200} is an address, and nothing is fetched from a network. Download the file first, and "
                "give its path."
            ) from error
        raise FileNotFoundError(
            f"There is no file {shown}. Check the path; relative ones start at {str(Path.cwd())!r}. "
            "(XML text instead of a path must start with '<'.)"
        ) from error
    if not regular:
        raise ValueError(f"{shown} is no file that holds a robot; give the path of a URDF or MJCF file.")
    return data


def _not_empty(source: Source) -> Source:
    if not source.data.strip():
        raise ValueError(f"{source.name}: empty; a robot file starts with <robot> (URDF) or <mujoco> (MJCF).")
    return source


def parse_xml(data: bytes) -> Element:
    """The root element, without comments and default namespaces. No entities, no network."""
    data = with_usual_version(data)
    etree = optional_module("lxml.etree", "io")
    options = {"resolve_entities": False, "no_network": True, "remove_comments": True, "remove_pis": True}
    try:
        root = etree.fromstring(data, etree.XMLParser(**options))
    except (etree.XMLSyntaxError, LookupError, ValueError) as error:
        root = _without_namespaces(etree, data, options)
        if root is None:
            raise _not_well_formed(error, data) from error
    document_type = root.getroottree().docinfo.internalDTD
    if document_type is not None and next(document_type.iterentities(), None) is not None:
        raise ValueError("declares XML entities, which are not read; write out what they stand for.")
    for element in root.iter(etree.Element):
        if element.prefix is None and element.tag.startswith("{"):
            element.tag = tag_of(element)
    return root


def with_usual_version(data: bytes) -> bytes:
    """The document declared as version 1.0 at its beginning: published files have "0.0", and empty lines before it.

    The lines stay, within the declaration, so that numbers of lines in messages are those of the file.
    """
    return _VERSION.sub(rb'<?xml\1 version="1.0"', data, count=1)


def _without_namespaces(etree: ModuleType, data: bytes, options: dict) -> Element | None:
    """The root element if undeclared prefixes, which many tools do not mind, are all that is wrong."""
    parser = etree.XMLParser(recover=True, **options)
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, LookupError, ValueError):
        return None
    harmless = all(entry.domain == etree.ErrorDomains.NAMESPACE for entry in parser.error_log)
    return root if harmless else None


def _not_well_formed(error: Exception, data: bytes) -> ValueError:
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(_XML_STARTS):
        return ValueError("no XML, which URDF and MJCF are; give the file that describes the robot.")
    what = str(getattr(error, "msg", None) or error) or "there is no element"
    return ValueError(f"no well-formed XML: {what}. Correct the file there.")


def root_tag(data: bytes) -> str:
    """Name of the root element, without reading further."""
    etree = optional_module("lxml.etree", "io")
    stream = io.BytesIO(with_usual_version(data))
    events = etree.iterparse(stream, ("start",), resolve_entities=False, no_network=True, recover=True)
    try:
        _, root = next(events)
    except (etree.XMLSyntaxError, LookupError, ValueError, StopIteration) as error:
        raise _not_well_formed(error, data) from error
    return tag_of(root)


def unknown_root(tag: str) -> ValueError:
    """The error for a file of another format."""
    whole = ", such as the file that includes this part" if tag == "mujocoinclude" else ""
    return ValueError(f"the root element is <{tag}>; give URDF (<robot>) or MJCF (<mujoco>){whole}.")


def attribute_of(element: Element, name: str) -> str:
    """Name of an attribute as it is written: with its prefix, if any, instead of the address of its namespace."""
    address, _, local = name.rpartition("}")
    prefixes = (prefix for prefix, known in element.nsmap.items() if prefix and known == address[1:])
    prefix = next(prefixes, None) if address else None
    return local if prefix is None else f"{prefix}:{local}"


def tag_of(element: Element) -> str:
    """Name of an element: with its prefix, if any, but without the address of its namespace."""
    name = element.tag.rpartition("}")[2]
    return name if element.prefix is None else f"{element.prefix}:{name}"

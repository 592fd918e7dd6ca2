"""Objects made of arrays, in one `.npz` file: the arrays, and their structure as JSON. Nothing is executed.

Arrays are called after their places, "q" or "history.cost", so that others can read them too; in format 1 by numbers.
Fields that files of older formats do not have, as couplings in format 2, have their defaults, or are given them by who
reads the file.
"""

import dataclasses
import io
import json
import re
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..model import Topology
from ..model._topology import TOPOLOGY_FIELDS
from ._source import PathOrText

_FORMAT, _VERSION, _HEADER = "jaxcfa", 5, "header"
_RESERVED = (_HEADER, "file", "allow_pickle")  # arguments of NumPy's functions
_PLAIN = (type(None), bool, int, float, str)
_SEQUENCES: dict[type, str] = {tuple: "tuple", list: "list"}
_KINDS = {"model": "a model; read it with load_model", "trajectory": "a trajectory; read it with load_trajectory"}

Types = Mapping[str, type]
Upgrade = Callable[[int, Any, dict[str, np.ndarray]], None]


def types_by_name(types: Iterable[type]) -> dict[str, type]:
    """Classes by their names, under which files refer to them."""
    return {kind.__name__: kind for kind in types}


def check_types(own: Any) -> None:
    """Raises `ValueError` for what is no list of classes that a file may hold."""
    if isinstance(own, str) or not isinstance(own, Collection):
        raise ValueError(f"types must be a list of classes, such as [MyJoint], got {own!r:.200}.")
    for kind in own:
        if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
            raise ValueError(f"types must be classes of joints or constraints, got {kind!r:.200}.")


def with_own_types(known: Types, own: Sequence[type]) -> Types:
    """The package's types and a user's; `ValueError` for two of one name."""
    known = dict(known)
    for kind in own:
        _add_name(kind, known)
    return known


def write_archive(path: PathOrText, kind: str, value: Any, known: Types, own: bool = False) -> None:
    """Write an object that consists of arrays, numbers, strings, containers and dataclasses.

    **Arguments:** `known`: types that the reader has; `own`: whether it may be given others.

    **Raises:** `ValueError` for a path that does not end with `.npz`, and for what is traced or cannot be stored.
    """
    target = Path(path) if isinstance(path, str) or hasattr(path, "__fspath__") else None
    if target is None or target.suffix != ".npz":
        raise ValueError(f"A {kind} is saved under a path that ends with .npz, got {path!r:.200}.")
    arrays: dict[str, np.ndarray] = {}
    content = _encoded(value, dict(known), own, arrays, kind)
    header = {"format": _FORMAT, "version": _VERSION, "kind": kind, "content": content}
    stream = io.BytesIO()
    named: dict[str, Any] = {_HEADER: np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays}
    np.savez_compressed(stream, **named)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(stream.getvalue())
    except OSError as error:
        raise type(error)(f"{str(target)!r} cannot be written ({error.strerror}). Give another path.") from error


def read_archive(data: bytes, name: str, kind: str, known: Types, upgrade: Upgrade | None = None) -> Any:
    """The object that `write_archive` wrote, with JAX arrays.

    **Arguments:** `name`: of the file, for messages. `known`: the only types that are made, by name. `upgrade`: adds,
    in place, what files of a format have not yet, to their content and their arrays by name.

    **Raises:** `ValueError` for a file that is damaged, of another kind, or newer, and for types that are not known.
    """
    content, arrays, version = _contents(data, name, kind)
    try:
        if upgrade is not None:
            upgrade(version, content, arrays)
        value = _decoded(content, known, arrays)
    except _UnknownType as error:
        raise ValueError(
            f"{name}: holds a {error}, which is no type of jaxcfa. Give the class: load_model(path, types=[{error}])."
        ) from error
    except Exception as error:
        raise _damaged(name, error) from error
    return jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, np.ndarray) else x, value)


def _damaged(name: str, error: object) -> ValueError:
    return ValueError(f"{name}: damaged, or no file that jaxcfa has saved ({error!s:.200}).")


def _contents(data: bytes, name: str, kind: str) -> tuple[Any, dict[str, np.ndarray], int]:
    # For anything else NumPy speaks of pickles, and advises to load them unsafely.
    if not zipfile.is_zipfile(io.BytesIO(data)):
        raise _damaged(name, "no archive")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        header = json.loads(arrays.pop(_HEADER).tobytes())
        found, version, content = header["format"], header["version"], header["content"]
        stored = header["kind"]
    except Exception as error:  # zipfile, zlib, numpy and json have errors of their own for everything
        raise _damaged(name, error) from error
    if found != _FORMAT or not isinstance(version, int):
        raise _damaged(name, f"format {found!r}")
    if version > _VERSION:
        raise ValueError(
            f"{name}: written by a newer version of jaxcfa, in format {version}; this one reads formats up to "
            f"{_VERSION}. Update jaxcfa."
        )
    if stored != kind:
        raise ValueError(f"{name}: holds {_KINDS.get(stored, 'something else')}.")
    return content, arrays, version


class _UnknownType(Exception):
    """The name of a type that is in a file."""


def _fields(kind: type) -> tuple[str, ...]:
    """Names of the fields of a dataclass or named tuple, and of a topology."""
    if kind is Topology:
        return TOPOLOGY_FIELDS
    if issubclass(kind, tuple):
        return kind._fields  # type: ignore[attr-defined]
    return tuple(field.name for field in dataclasses.fields(kind))  # type: ignore[arg-type]


def _add_name(kind: type, known: dict[str, type]) -> None:
    other = known.setdefault(kind.__name__, kind)
    if other is not kind:
        whose = "A type of jaxcfa" if other.__module__.partition(".")[0] == _FORMAT else "Another of your types"
        raise ValueError(f"{whose} has the name {kind.__name__!r} too; give your class another one.")


def _check_known(kind: type, known: Types, where: str) -> None:
    if known.get(kind.__name__) is not kind:
        raise ValueError(
            f"{where} cannot be saved: it is a {kind.__name__}, which load_trajectory does not know. Save models by "
            "save_model, and of others a dictionary of their fields."
        )


def _encoded(value: Any, known: dict[str, type], own: bool, arrays: dict[str, np.ndarray], where: str) -> Any:
    """What JSON can hold; arrays are put aside. `own`: whether classes that are not known, to which they are added, may
    be among it."""
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) in _PLAIN:
        return value
    if isinstance(value, jax.core.Tracer):
        raise ValueError(f"{where} is being traced and has no value yet; save outside of jax.jit and the like.")
    if isinstance(value, (jax.Array, np.ndarray)):
        return _encoded_array(value, arrays, where)

    def parts(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        return {key: _encoded(part, known, own, arrays, f"{where}.{key}") for key, part in items}

    kind = type(value)
    if kind in _SEQUENCES:
        return {_SEQUENCES[kind]: list(parts((str(i), part) for i, part in enumerate(value)).values())}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": parts(value.items())}
    if dataclasses.is_dataclass(value) or kind is Topology or (isinstance(value, tuple) and kind.__name__ in known):
        if own:
            _add_name(kind, known)
        else:
            _check_known(kind, known, where)
        return {"type": kind.__name__, "fields": parts((name, getattr(value, name)) for name in _fields(kind))}
    raise ValueError(f"{where} cannot be saved: {value!r:.200} is no array, number, string, container or dataclass.")


def _encoded_array(value: jax.Array | np.ndarray, arrays: dict[str, np.ndarray], where: str) -> dict[str, Any]:
    try:
        array = np.asarray(value)
    except TypeError as error:  # random keys
        raise ValueError(f"{where} cannot be saved: {error}") from error
    try:
        jnp.asarray(np.zeros((), array.dtype.newbyteorder("=")))
    except TypeError as error:
        raise ValueError(f"{where} cannot be saved: arrays are of JAX's numbers, not of {array.dtype}.") from error
    name = _array_name(where, arrays)
    arrays[name] = array
    return {"array": name, "dtype": array.dtype.name}


def _array_name(where: str, taken: Collection[str]) -> str:
    """The place of an array without what it is a place of; a number where that is no name for a file in an archive."""
    name = where.partition(".")[2] or where
    if not re.fullmatch(r"\w+(\.\w+)*", name) or name.endswith(".npy"):
        name = f"array{len(taken)}"
    while name in taken or name in _RESERVED:
        name += "_"
    return name


def _decoded(node: Any, known: Types, arrays: Mapping[str, np.ndarray]) -> Any:
    if type(node) in _PLAIN:
        return node
    match node:
        case {"array": int() | str() as key, "dtype": str(dtype)}:
            stored, wanted = arrays[str(key)], jnp.dtype(dtype)
            # The name of a type does not say the order of bytes.
            array = stored.astype(stored.dtype.newbyteorder("="), copy=False)
            # NumPy's format knows types of low precision by their size only.
            return array if array.dtype == wanted else array.view(wanted)
        case {"tuple": list(items)}:
            return tuple(_decoded(item, known, arrays) for item in items)
        case {"list": list(items)}:
            return [_decoded(item, known, arrays) for item in items]
        case {"dict": dict(items)}:
            return {key: _decoded(item, known, arrays) for key, item in items.items()}
        case {"type": str(name), "fields": dict(fields)}:
            if name not in known:
                raise _UnknownType(name)
            return _made(known[name], {key: _decoded(item, known, arrays) for key, item in fields.items()})
    raise ValueError(f"unknown content {node!r:.100}")


def _defaults(kind: type) -> dict[str, Any]:
    """The fields of a dataclass that have defaults which are numbers or strings."""
    if kind is Topology or issubclass(kind, tuple):
        return {}
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    return {field.name: field.default for field in fields if type(field.default) in (int, str)}


def _made(kind: type, fields: dict[str, Any]) -> Any:
    fields = _defaults(kind) | fields
    if set(fields) != set(_fields(kind)):
        raise ValueError(f"{kind.__name__} has the fields {sorted(_fields(kind))}, in the file {sorted(fields)}")
    if kind is Topology or issubclass(kind, tuple):
        return kind(**fields)
    # As JAX does it: constructors are for single joints, not for stacked ones.
    value = object.__new__(kind)
    for name, field in fields.items():
        object.__setattr__(value, name, field)
    return value

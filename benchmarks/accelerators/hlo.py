"""The text of compiled programs (HLO) as instructions."""

import dataclasses
import math
import re
from collections.abc import Iterator

_BYTES = {
    **dict.fromkeys(("pred", "s8", "u8"), 1),
    **dict.fromkeys(("s16", "u16", "f16", "bf16"), 2),
    **dict.fromkeys(("s32", "u32", "f32"), 4),
    **dict.fromkeys(("s64", "u64", "f64", "c64"), 8),
    "c128": 16,
}
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\](?:\{([^}]*)\})?")
_HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) .*\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = (.*)$")


@dataclasses.dataclass
class Instruction:
    """**Fields:** `shape`, as text; `op`; names of the `operands`; `rest`, arguments and attributes as text."""

    name: str
    shape: str
    op: str
    operands: list[str]
    rest: str
    is_root: bool

    def called(self, key: str) -> str | None:
        """The computation that an attribute names."""
        return self.says(key + r"=%?([\w.\-]+)")

    def says(self, pattern: str) -> str | None:
        """The first group of a pattern in the attributes."""
        found = re.search(pattern, self.rest)
        return found and found[1]

    @property
    def number(self) -> int:
        """Of a parameter."""
        return int(self.rest[1 : self.rest.index(")")])


Computation = dict[str, Instruction]


def parse(text: str) -> tuple[dict[str, Computation], str]:
    """Computations by name, each its instructions by name, and the name of the entry."""
    computations: dict[str, Computation] = {}
    entry, body = "", None
    for line in text.splitlines():
        if body is None:
            head = None if line.startswith("HloModule") else _HEAD.match(line)
            if head:
                body = computations.setdefault(head[2], {})
                entry = head[2] if head[1] else entry
        elif line.startswith("}"):
            body = None
        else:
            found = _INSTRUCTION.match(line)
            if found:
                body[found[2]] = _instruction(*found.groups())
    return computations, entry


def _instruction(root: str | None, name: str, text: str) -> Instruction:
    shape, rest = _split_balanced(text)
    op = re.match(r"\s*([\w\-]+)\(", rest)
    arguments, attributes = _split_balanced(rest[op.end() - 1 :])
    return Instruction(name, shape, op[1], re.findall(r"%([\w.\-]+)", arguments), arguments + attributes, bool(root))


def _split_balanced(text: str) -> tuple[str, str]:
    """The first shape, or what is within parentheses, and the rest."""
    pairs = "()" if text.startswith("(") else "{}()"
    depth = 0
    for i, c in enumerate(text):
        depth += (c in pairs[::2]) - (c in pairs[1::2])
        if depth == 0 and (c == " " or text.startswith("(")):
            return (text[: i + 1], text[i + 1 :]) if text.startswith("(") else (text[:i], text[i:])
    return text, ""


def arrays(shape: str) -> Iterator[tuple[str, list[int], str]]:
    """Type, dimensions and layout of all arrays of a shape."""
    for dtype, dims, layout in _ARRAY.findall(shape):
        if dtype in _BYTES:
            yield dtype, [int(d) for d in dims.split(",") if d], layout


def elements(shape: str) -> int:
    """Numbers in all arrays of a shape."""
    return sum(math.prod(dims) for _, dims, _ in arrays(shape))


def size(shape: str) -> int:
    """Bytes of all arrays of a shape, with the padding of tiles. On-chip arrays count as well."""
    return sum(_padded(dims, layout) * _BYTES[dtype] for dtype, dims, layout in arrays(shape))


def _padded(dims: list[int], layout: str) -> int:
    order = [int(x) for x in layout.split(":")[0].split(",") if x.isdigit()]
    ordered = [dims[i] for i in reversed(order)] if len(order) == len(dims) else list(dims)
    tile = re.search(r"T\(([\d,]+)\)", layout)
    if tile and ordered:
        sizes = [int(x) for x in tile[1].split(",")]
        for i in range(1, min(len(sizes), len(ordered)) + 1):
            ordered[-i] = -(-ordered[-i] // sizes[-i]) * sizes[-i]
    return math.prod(ordered)

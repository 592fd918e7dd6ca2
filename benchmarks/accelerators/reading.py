"""What a compiled program does: kernels run, bytes moved, products and libraries called."""

import collections
import dataclasses
from collections.abc import Iterator

from .hlo import Computation, Instruction, elements, parse, size

# What takes no time on the device.
_FREE = {
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "while", "conditional", "call"),
    *("partition-id", "replica-id", "copy-done", "async-done", "async-update", "slice-done", "dynamic-slice-done"),
    *("opt-barrier", "add-dependency"),
}
_SLICES = ("dynamic-slice", "slice", "gather")
_LARGEST_ESTIMATE = 1 << 40
_OWN_KERNEL = "__gpu$xla.gpu.triton"  # is no library


@dataclasses.dataclass
class Figures:
    """Of one call of a program, what is in loops counted as often as these run.

    **Fields:** `kernels` run; `exact`, whether the trip counts of all loops are known (where not, one is taken);
    `megabytes` moved between kernels, in device memory and, on TPUs, in the fast memory too; `kilocycles` that XLA:TPU
    estimates; matrix `products`, and those of `low_precision`; instructions with float64 (`double`); `calls` of
    libraries, by name.
    """

    kernels: int = 0
    exact: bool = True
    megabytes: float = 0.0
    kilocycles: float = 0.0
    products: int = 0
    low_precision: int = 0
    double: int = 0
    calls: dict[str, int] = dataclasses.field(default_factory=dict)


def read(text: str) -> Figures:
    """The figures of a compiled program's text."""
    computations, entry = parse(text)
    reader = _Reader(computations)
    reader.visit(entry, 1)
    reader.figures.double = sum("f64[" in x.shape for body in computations.values() for x in body.values())
    reader.figures.calls = dict(reader.calls)
    return reader.figures


class _Reader:
    def __init__(self, computations: dict[str, Computation]):
        self.computations = computations
        self.figures = Figures()
        self.calls: collections.Counter[str] = collections.Counter()

    def visit(self, name: str, times: int) -> None:
        """Adds what a computation does in so many executions."""
        body = self.computations[name]
        for x in body.values():
            if x.op == "while":
                trips = _trip_count(x, body, self.computations[x.called("condition")])
                self.figures.exact &= trips is not None
                self.visit(x.called("body"), times * (1 if trips is None else trips))
            elif x.op == "conditional":
                self.visit(max(_branches(x), key=lambda name: len(self.computations[name])), times)
            elif x.op == "call" or (x.op == "async-start" and x.called("calls")):
                self.visit(x.called("to_apply") or x.called("calls"), times)
            elif x.op not in _FREE and "AllocateBuffer" not in x.rest:
                self._count(x, body, times)

    def _count(self, x: Instruction, body: Computation, times: int) -> None:
        figures = self.figures
        # Scalars are for the sequencer, and copies that start are for the DMA engine.
        if not x.op.endswith("-start") and (elements(x.shape) > 1 or x.op in ("fusion", "custom-call")):
            figures.kernels += times
        cycles = int(x.says(r'estimated_cycles":"(\d+)"') or 0)
        figures.kilocycles += times * cycles / 1e3 if cycles < _LARGEST_ESTIMATE else 0
        figures.megabytes += times * self._bytes(x, body) / 1e6
        if x.op == "custom-call" and (target := x.says(r'custom_call_target="([^"]*)"')) != _OWN_KERNEL:
            self.calls[target] += 1
        for product in self._products(x):
            figures.products += 1
            figures.low_precision += "highest" not in product.rest.lower()

    def _products(self, x: Instruction) -> Iterator[Instruction]:
        if x.op in ("dot", "convolution") or (
            x.op == "custom-call" and "gemm" in x.says(r'custom_call_target="([^"]*)"')
        ):
            yield x
        elif x.op == "fusion":
            for y in self.computations[x.called("calls")].values():
                yield from self._products(y)

    def _bytes(self, x: Instruction, body: Computation) -> int:
        if x.op == "fusion":
            inner = self.computations[x.called("calls")]
            read = sum(self._read(inner, y) for y in inner.values() if y.op == "parameter")
            return read + self._written(inner, next(y for y in inner.values() if y.is_root))
        if x.op in _SLICES:
            return 2 * size(x.shape)
        if x.op == "dynamic-update-slice":
            return 2 * size(body[x.operands[1]].shape)
        if x.op in ("iota", "broadcast") or x.op.endswith("-start"):
            return size(x.shape)
        return size(x.shape) + sum(size(body[name].shape) for name in x.operands if name in body)

    def _read(self, body: Computation, source: Instruction) -> int:
        """Bytes that are read of a fusion's parameter, or of what is cut from it: slices, if only these are used."""
        whole, total = size(source.shape), 0
        is_parameter = source.op == "parameter"
        if source.is_root:
            return 0 if is_parameter else whole
        for x in body.values():
            if source.name not in x.operands:
                continue
            if x.op in ("bitcast", *_SLICES) and x.operands[0] == source.name:
                total += size(x.shape) if x.op == "gather" else self._read(body, x)
            elif x.op == "fusion":
                inner, place = self.computations[x.called("calls")], x.operands.index(source.name)
                total += self._read(inner, next(y for y in inner.values() if y.op == "parameter" and y.number == place))
            elif not (is_parameter and x.op == "tuple") and not (
                x.op == "dynamic-update-slice" and x.operands[0] == source.name
            ):
                return whole
        return min(total, whole)

    def _written(self, body: Computation, x: Instruction) -> int:
        if x.op == "tuple":
            return sum(self._written(body, body[name]) for name in x.operands)
        if x.op == "bitcast":
            return self._written(body, body[x.operands[0]])
        return size(body[x.operands[1]].shape if x.op == "dynamic-update-slice" else x.shape)


def _branches(x: Instruction) -> list[str]:
    listed = x.says(r"branch_computations=\{([^}]*)\}")
    if listed is None:
        return [x.called("true_computation"), x.called("false_computation")]
    return [name.strip().lstrip("%") for name in listed.split(",")]


def _trip_count(loop: Instruction, body: Computation, condition: Computation) -> int | None:
    """What XLA says, or what a counter that starts from a constant and is compared with one implies."""
    said = loop.says(r'known_trip_count":\{"n":"(\d+)"')
    if said:
        return int(said)
    test = next(x for x in condition.values() if x.is_root)
    if test.op != "compare" or "direction=LT" not in test.rest:
        return None

    def constant(x: Instruction | None, scope: Computation) -> int | None:
        if x is None:
            return None
        if x.op == "constant":
            number = x.says(r"^\((-?\d+)\)")
            return None if number is None else int(number)
        if x.op in ("copy", "bitcast"):
            return constant(scope.get(x.operands[0]), scope)
        if x.op == "get-tuple-element" and scope is condition:
            start = body.get(loop.operands[0])
            if start is not None and start.op == "tuple":
                return constant(body.get(start.operands[int(x.says(r"index=(\d+)"))]), body)
        return None

    first, last = (constant(condition.get(name), condition) for name in test.operands)
    return None if first is None or last is None else last - first

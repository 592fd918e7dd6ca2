"""Sequences in chunks on the devices of a mesh: recurrences, and block-tridiagonal systems.

Each device works on its chunk by itself; what the chunks have to know of each other is one value of each, which one
collective hands to all (`all_gather`). So the number of collectives depends neither on the length nor on the devices.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, Mesh, PartitionSpec
from jaxtyping import Array, Float, PyTree

from ..numerics import choose, lengthened, transpose
from ._arguments import Blocks, Columns
from ._block_ldl import BLOCK_LDL
from ._products import matmul
from ._scan import (
    DOUBLING,
    SEQUENTIAL,
    AbstractParallelSchedule,
    AbstractSchedule,
    Combine,
    Element,
    check_schedule,
    common_length,
)
from ._small_spd import STRICT, PivotRule
from ._tridiagonal_solver import AbstractTridiagonalFactor, AbstractTridiagonalSolver, check_tridiagonal_solver


class Distributed(AbstractParallelSchedule):
    """Chunks of a sequence on the devices of a mesh: `inside` each by itself, and by doubling between their products.

    O(n / devices) work and memory a device, and one collective for each scan. Arrays along the sequence are best
    sharded along it from the beginning; lengths that are no multiple of the number of devices are padded, which costs
    further collectives. Trees that branch are served correctly, by pointer doubling, but not in pieces.

    **Fields:** `mesh` of devices, with automatic axes (`jax.sharding.AxisType.Auto`); name of the `axis` over which the
    sequence is spread; `inside`: the schedule within a chunk.
    """

    mesh: Mesh = eqx.field(static=True)
    axis: str = eqx.field(static=True)
    inside: AbstractSchedule = SEQUENTIAL

    def __check_init__(self):
        check_mesh(self.mesh, self.axis)
        check_schedule(self.inside, "inside")

    def scan(self, combine: Combine, elements: Element, reverse: bool = False) -> Element:
        """`AbstractSchedule.scan`; in reverse each device reverses its own chunk."""
        elements = jax.tree.map(jnp.asarray, elements)
        n = common_length(elements)
        if n == 0:
            return elements
        missing = -n % self.mesh.shape[self.axis]
        # Copies at that end of the sequence which comes last.
        padded = jax.tree.map(lambda x: lengthened(x, missing, reverse), elements)
        whole = _across(self.mesh, self.axis, lambda chunk: self._of_chunk(combine, chunk, reverse), padded)
        return jax.tree.map(lambda x: x[missing:] if reverse else x[:n], whole) if missing else whole

    def prefix(self, combine: Combine, elements: Element) -> Element:
        return self.scan(combine, elements)

    def _of_chunk(self, combine: Combine, chunk: Element, reverse: bool) -> Element:
        inside = self.inside.scan(combine, chunk, reverse)
        last = 0 if reverse else -1
        totals = lax.all_gather(jax.tree.map(lambda x: x[last], inside), self.axis)
        reached = DOUBLING.scan(combine, totals, reverse)
        place, first = lax.axis_index(self.axis), (self.mesh.shape[self.axis] - 1 if reverse else 0)
        before = jax.tree.map(lambda x: x[place + (1 if reverse else -1)], reached)
        joined = jax.vmap(combine, (None, 0))(before, inside)
        return choose(place == first, inside, joined)


class Partitioned(AbstractTridiagonalSolver):
    """Chunks of blocks on the devices of a mesh: each eliminates all of its own but the last; these are one system.

    The partition method (Wang 1981) or substructuring: what is left is block-tridiagonal again, one block for each
    device. O(n / devices) work and memory a device, one collective for a factorisation and one for a solution.

    **Fields:** `mesh`, `axis` as for `Distributed`; `inside`: the solver within a chunk; `across`: that of the rest.
    """

    mesh: Mesh = eqx.field(static=True)
    axis: str = eqx.field(static=True)
    inside: AbstractTridiagonalSolver = BLOCK_LDL
    across: AbstractTridiagonalSolver = BLOCK_LDL

    def __check_init__(self):
        check_mesh(self.mesh, self.axis)
        for name in ("inside", "across"):
            check_tridiagonal_solver(getattr(self, name), name)

    def factor(self, diagonal: Blocks, lower: Blocks, pivots: PivotRule = STRICT) -> AbstractTridiagonalFactor:
        """With i the inner blocks of a chunk, s its last one and r that of the chunk before:

        `S_ss = A_ss - A_si A_ii^-1 A_is - (the same of the next chunk's first block)`, `S_sr = -A_si A_ii^-1 A_ir`.
        """
        (n, k), devices = diagonal.shape[:2], self.mesh.shape[self.axis]
        if n <= devices:
            return self.across.factor(diagonal, lower, pivots)
        missing = -n % devices
        identity = jnp.broadcast_to(jnp.eye(k, dtype=diagonal.dtype), (missing, k, k))
        if missing:
            diagonal = jnp.concatenate([diagonal, identity])
            lower = jnp.concatenate([lower, jnp.zeros_like(identity)])

        def of_chunk(blocks: tuple[Array, Array]) -> tuple["_Chunk", Array, Array]:
            diagonal, lower = blocks
            first, last = lower[0], lower[-1]
            inner = self.inside.factor(diagonal[:-1], lower[:-1].at[0].set(0), pivots)
            ends = jnp.zeros((len(lower) - 1, k, 2 * k), lower.dtype)
            ends = ends.at[0, :, :k].set(first).at[-1, :, k:].set(transpose(last))
            solved = inner.solve(ends)
            before, after = solved[..., :k], solved[..., k:]
            own = diagonal[-1] - matmul(last, after[-1])
            given_back = matmul(transpose(first), before[0])
            own, given_back, coupling = lax.all_gather((own, given_back, -matmul(last, before[-1])), self.axis)
            reduced = own.at[:-1].add(-given_back[1:])
            chunk = _Chunk(first, last, inner, before, after)
            return jax.tree.map(lambda x: x[None], chunk), reduced, coupling  # with an axis for the devices

        out = PartitionSpec(self.axis), PartitionSpec(), PartitionSpec()
        chunks, reduced, coupling = _across(self.mesh, self.axis, of_chunk, (diagonal, lower), out=out)
        return PartitionedFactor(self.mesh, self.axis, missing, chunks, self.across.factor(reduced, coupling, pivots))


class _Chunk(eqx.Module):
    """The inner blocks of a chunk, factorised, and `A_ii^-1` times what couples them to the blocks before and after.

    **Fields:** `first` and `last`, A_{0, r} and A_{s, s-1} (k, k); `inner`; `before` and `after` (i, k, k).
    """

    first: Float[Array, "k k"]
    last: Float[Array, "k k"]
    inner: AbstractTridiagonalFactor
    before: Float[Array, "i k k"]
    after: Float[Array, "i k k"]


class PartitionedFactor(AbstractTridiagonalFactor):
    """**Fields:** how many blocks were `missing` of a multiple of the number of devices; `chunks`, one on each device;
    `rest`, the factorised system of their last blocks.
    """

    mesh: Mesh = eqx.field(static=True)
    axis: str = eqx.field(static=True)
    missing: int = eqx.field(static=True)
    chunks: _Chunk
    rest: AbstractTridiagonalFactor

    def solve(self, b: Columns) -> Columns:
        n = len(b)
        if self.missing:
            b = jnp.concatenate([b, jnp.zeros((self.missing, *b.shape[1:]), b.dtype)])

        def of_chunk(x: tuple[_Chunk, Array], rest: AbstractTridiagonalFactor) -> Array:
            chunk, b = jax.tree.map(lambda x: x[0], x[0]), x[1]
            inner = chunk.inner.solve(b[:-1])
            own = b[-1] - matmul(chunk.last, inner[-1])
            own, given_back = lax.all_gather((own, matmul(transpose(chunk.first), inner[0])), self.axis)
            ends = rest.solve(own.at[:-1].add(-given_back[1:]))
            place = lax.axis_index(self.axis)
            end = ends[place]
            before = jnp.where(place == 0, 0, ends[place - 1])
            inner = inner - matmul(chunk.before, before) - matmul(chunk.after, end)
            return jnp.concatenate([inner, end[None]])

        return _across(self.mesh, self.axis, of_chunk, (self.chunks, b), self.rest)[:n]


def _across(
    mesh: Mesh, axis: str, function: Callable, chunks: PyTree[Array], *same: PyTree[Array], out: PyTree | None = None
):
    """`function(chunk, *same)` on every device along an axis. `out`: where the results go, chunks by default."""
    local, whole = PartitionSpec(axis), PartitionSpec()
    return jax.shard_map(
        function,
        mesh=mesh,
        in_specs=(local, *[whole] * len(same)),
        out_specs=local if out is None else out,
        axis_names={axis},
        check_vma=False,
    )(chunks, *same)


def check_mesh(mesh: object, *axes: str) -> None:
    """Raises `ValueError` unless all `axes` are of the mesh, and automatic."""
    if not isinstance(mesh, Mesh):
        raise ValueError(f"mesh must be a jax.sharding.Mesh, such as jaxcfa.device_mesh('links'), got {mesh!r}.")
    types = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    for axis in axes:
        if axis not in types:
            raise ValueError(f"axis must be one of the mesh's, {', '.join(map(repr, types))}, got {axis!r}.")
        if types[axis] != AxisType.Auto:
            raise ValueError(
                f"The mesh's axis {axis!r} must be automatic: make the mesh by jaxcfa.device_mesh, or by jax.make_mesh "
                "with axis_types=(jax.sharding.AxisType.Auto,)."
            )

"""A batch as one kernel: what users call."""

import functools
import warnings
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, PyTree

from .. import backend
from . import _vectors
from ._on_gpu import SHORT, run_as_kernel
from ._straight_line import StraightLine, Unsupported, straight_line

LONGEST = 25_000  # operations


def one_kernel(function: Callable[..., PyTree[Array]]) -> Callable[..., PyTree[Array]]:
    """`jax.jit(jax.vmap(function))` that runs several times as fast on GPUs, may on CPUs, and compiles longer.

    The function becomes a straight line of operations on numbers. Everything that is not an argument (a model, say) is
    a constant of it, and what is zero or one costs nothing. On GPUs the line is one kernel, in which each thread
    computes one state. The functions of this package are kernels by themselves there, each its own, if they are short
    enough; what is not takes some dozens of kernels, between which all intermediate results go through memory, and
    whose starts are most of the time of a few thousand states. On CPUs each operation is done for a vector of states,
    which stays in the cache, without any loops over bodies: it may be faster where a model has many zeros, such as axes
    along x, y or z, and may be slower (measure both). Compilers take seconds for arms, and a minute for humanoids.

        dynamics = jaxcfa.one_kernel(lambda q, v, tau: jaxcfa.forward_dynamics(model, q, v, tau))
        accelerations = dynamics(q, v, tau)  # of thousands of states

    For use inside or outside of `jax.jit`, `lax.scan` and `jax.vmap`. Derivatives of the result are those of
    `jax.vmap(function)`, which may be many kernels: take `one_kernel(jax.grad(cost))` instead. On other devices this
    is `jax.jit(jax.vmap(function))`. On machines that have a GPU, arguments that are committed to a CPU, or
    `jax.default_device`, have it run there. Batches that are spread over several CPUs are `jax.vmap`'s; inside of
    `jax.jit`, where that is not seen, take `jax.shard_map(one_kernel(function), ..., check_vma=False)`.

    Batches of any size, in programs exported with `jax.export.symbolic_shape`, are `jax.vmap`'s, too.

    What cannot be written so: functions that close over a traced value, or have loops of unknown length, indices that
    depend on the state, sorting, random numbers, or calls of libraries, as in `jnp.linalg`; and more than 25,000
    operations. GPUs refuse it, and on CPUs `jax.vmap` computes it, which a warning says.

    **Arguments:** `function` of arrays (pytrees) of one state, which closes over everything that all states share.

    **Returns:** a function of a batch: all arguments have a leading axis of equal length, and so have the results.

    **Raises:** `ValueError`, when called, for arguments without a common leading axis; on GPUs also for what cannot be
    written as operations on numbers.
    """
    if not callable(function):
        raise ValueError(f"function must be a function of one state, got {function!r}.")
    plain = jax.vmap(function)

    def elsewhere(*arguments):
        with backend.compiling_for("cpu"):
            return plain(*arguments)

    def on_gpus(*arguments):
        # Which device it will be is not known inside of other programs: a CPU, if their arguments are committed to it.
        by_kernel = functools.partial(_on_gpu, function)
        return lax.platform_dependent(*arguments, default=elsewhere, **dict.fromkeys(backend.GPUS, by_kernel))

    def of_batch(*arguments):
        if export.is_symbolic_dim(np.shape(jax.tree.leaves(arguments)[0])[0]):
            return plain(*arguments)
        if backend.is_gpu():
            fast = on_gpus
        elif backend.backend() == "cpu" and (line := _line_on_cpu(function, arguments)) is not None:
            fast = functools.partial(_of_line, line, _vectors.run)
        else:
            # The rule below would refuse derivatives by what the function closes over.
            return plain(*arguments)
        kernel = jax.custom_jvp(fast)
        kernel.defjvp(functools.partial(jax.jvp, plain))
        return kernel(*arguments)

    # Writing a kernel takes seconds, which are spent once for each size of the batch.
    compiled, compiled_plain = jax.jit(of_batch), jax.jit(plain)

    @functools.wraps(function)
    def checked(*arguments: PyTree[Array]) -> PyTree[Array]:
        lengths = sorted({np.shape(x)[:1] for x in jax.tree.leaves(arguments)})
        if len(lengths) != 1 or lengths[0] == ():
            raise ValueError(f"All arrays need a leading axis of the batch's length, got {lengths or 'no arrays'}.")
        with backend.following(arguments):
            # A loop over pieces of what is spread over devices would gather it on each of them.
            whole = backend.backend() != "cpu" or not _are_spread(arguments)
            return (compiled if whole else compiled_plain)(*arguments)

    return checked


def _are_spread(arguments: PyTree[Array]) -> bool:
    arrays = (x for x in jax.tree.leaves(arguments) if isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer))
    return any(len(x.sharding.device_set) > 1 for x in arrays)


def _line(function: Callable, arguments: Sequence[PyTree[Array]]) -> StraightLine:
    leaves, structure = jax.tree.flatten(arguments)
    one = jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(np.shape(x)[1:], jnp.result_type(x)) for x in leaves])
    line = straight_line(function, *one)
    if len(line.operations) > LONGEST:
        raise Unsupported(
            f"it has {len(line.operations)} operations on numbers, and more than {LONGEST} take minutes to compile"
        )
    return line


def _line_on_cpu(function: Callable, arguments: Sequence[PyTree[Array]]) -> StraightLine | None:
    try:
        return _line(function, arguments)
    except Unsupported as error:
        message = f"one_kernel leaves {_name(function)} to jax.vmap, as which it runs on CPUs: {error}."
        warnings.warn(message, stacklevel=2)
        return None


def _on_gpu(
    function: Callable, *arguments: PyTree[Array], interpret: bool = False, short: int = SHORT
) -> PyTree[Array]:
    """The batch by a kernel. `interpret`: without a GPU, for tests. `short`: see `SHORT`."""
    try:
        line = _line(function, arguments)
    except Unsupported as error:
        message = f"one_kernel cannot make a kernel of {_name(function)}: {error}. Use jax.vmap."
        raise ValueError(message) from None
    return _of_line(line, functools.partial(run_as_kernel, short=short, interpret=interpret), arguments)


def _name(function: Callable) -> str:
    return getattr(function, "__name__", repr(function))


def _of_line(
    line: StraightLine, run: Callable[[StraightLine, list[Array]], list[Array]], *arguments: PyTree[Array]
) -> PyTree[Array]:
    """The batch by `run`."""

    @custom_vmap
    def kernel(*leaves):
        return run(line, list(leaves))

    @kernel.def_vmap
    def _of_batches(size, batched, *leaves):
        # Two axes of a batch are one.
        pairs = zip(leaves, batched, strict=True)
        full = [x if is_batched else jnp.broadcast_to(x, (size, *x.shape)) for x, is_batched in pairs]
        length = full[0].shape[1]
        results = kernel(*(x.reshape(size * length, *x.shape[2:]) for x in full))
        return [x.reshape(size, length, *x.shape[1:]) for x in results], [True] * len(results)

    results = kernel(*map(jnp.asarray, jax.tree.leaves(arguments)))
    return jax.tree.unflatten(jax.tree.structure(line.results), results)

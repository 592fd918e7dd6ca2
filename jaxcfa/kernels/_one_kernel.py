"""A batch as one kernel: what users call."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, PyTree

from .. import backend
from ._straight_line import Unsupported, straight_line

# Triton compiles in a time that is the product of the square of the operations with the number of reads and writes.
SHORT = 4000  # operations of kernels that read and write each array by itself; others have few arrays
LONGEST = 25_000  # operations


def one_kernel(function: Callable[..., PyTree[Array]]) -> Callable[..., PyTree[Array]]:
    """`jax.jit(jax.vmap(function))`, on GPUs as one kernel in which each thread computes one state.

    Otherwise a batch takes some dozens of kernels, between which all intermediate results go through memory, and whose
    starts are most of the time of a few thousand states. Everything that is not an argument (a model, say) is a
    constant of the kernel, and what is zero or one in it costs nothing. The function becomes a straight line of
    operations on numbers, of which compilers take a time that grows with the square of their count: seconds for arms,
    a minute for humanoids.

        dynamics = jaxcfa.one_kernel(lambda q, v, tau: jaxcfa.forward_dynamics(model, q, v, tau))
        accelerations = dynamics(q, v, tau)  # of thousands of states

    For use inside or outside of `jax.jit`, `lax.scan` and `jax.vmap`. Derivatives of the result are those of
    `jax.vmap(function)`, which are not one kernel: take `one_kernel(jax.grad(cost))` instead. On other devices this is
    `jax.jit(jax.vmap(function))`: on CPUs of machines that have a GPU, too, where arguments are committed to a CPU, or
    it is `jax.default_device`.

    **Arguments:** `function` of arrays (pytrees) of one state, which closes over everything that all states share.

    **Returns:** a function of a batch: all arguments have a leading axis of equal length, and so have the results.

    **Raises:** `ValueError`, when called, for arguments without a common leading axis; on GPUs also if the function
    closes over a traced value, or has what cannot be written as operations on numbers: loops of unknown length, indices
    that depend on the state, sorting, random numbers, or calls of libraries, as in `jnp.linalg`; or if it has more than
    25,000 operations.
    """
    if not callable(function):
        raise ValueError(f"function must be a function of one state, got {function!r}.")
    plain = jax.vmap(function)

    def elsewhere(*arguments):
        with backend.compiling_for("cpu"):
            return plain(*arguments)

    @jax.custom_jvp
    def kernel(*arguments):
        # Which device it will be is not known inside of other programs: a CPU, if their arguments are committed to it.
        by_kernel = functools.partial(_run, function)
        return lax.platform_dependent(*arguments, default=elsewhere, **dict.fromkeys(backend.GPUS, by_kernel))

    @kernel.defjvp
    def _of_tangents(primals, tangents):
        return jax.jvp(plain, primals, tangents)

    def of_batch(*arguments):
        # The rule would refuse derivatives by what the function closes over, which without a kernel there are.
        return (kernel if backend.is_gpu() else plain)(*arguments)

    # Writing a kernel takes seconds, which are spent once for each size of the batch.
    compiled = jax.jit(of_batch)

    @functools.wraps(function)
    def checked(*arguments: PyTree[Array]) -> PyTree[Array]:
        lengths = sorted({np.shape(x)[:1] for x in jax.tree.leaves(arguments)})
        if len(lengths) != 1 or lengths[0] == ():
            raise ValueError(f"All arrays need a leading axis of the batch's length, got {lengths or 'no arrays'}.")
        with backend.following(arguments):
            return compiled(*arguments)

    return checked


def _run(function: Callable, *arguments: PyTree[Array], interpret: bool = False, short: int = SHORT) -> PyTree[Array]:
    """The batch by a kernel. `interpret`: without a GPU, for tests. `short`: see `SHORT`."""
    from ._triton import run  # what it needs of JAX is not there on every platform

    leaves, structure = jax.tree.flatten(arguments)
    one = jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(np.shape(x)[1:], jnp.result_type(x)) for x in leaves])
    name = getattr(function, "__name__", repr(function))
    try:
        line = straight_line(function, *one)
    except Unsupported as error:
        raise ValueError(f"one_kernel cannot make a kernel of {name}: {error}. Use jax.vmap.") from None
    if len(line.operations) > LONGEST:
        raise ValueError(
            f"{name} has {len(line.operations)} operations on numbers, and a kernel of more than {LONGEST} takes "
            "minutes to compile. Use jax.vmap."
        )

    @custom_vmap
    def kernel(*leaves):
        return run(line, leaves, together=len(line.operations) > short, interpret=interpret)

    @kernel.def_vmap
    def _of_batches(size, batched, *leaves):
        # Two axes of a batch are one.
        pairs = zip(leaves, batched, strict=True)
        full = [x if is_batched else jnp.broadcast_to(x, (size, *x.shape)) for x, is_batched in pairs]
        length = full[0].shape[1]
        results = kernel(*(x.reshape(size * length, *x.shape[2:]) for x in full))
        return [x.reshape(size, length, *x.shape[1:]) for x in results], [True] * len(results)

    return jax.tree.unflatten(jax.tree.structure(line.results), kernel(*map(jnp.asarray, leaves)))

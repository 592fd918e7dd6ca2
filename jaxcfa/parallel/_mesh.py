"""Meshes of devices, and arrays spread over them."""

import math
from collections.abc import Iterable, Sequence
from typing import TypeVar

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from ..model import Model
from ..model._arguments import check_instance, positive_integer
from ..model._layout import PLACES, array_at
from ..structured._distributed import check_mesh

Tree = TypeVar("Tree")


def device_mesh(
    *names: str, shape: Sequence[int] | None = None, devices: Sequence[jax.Device] | None = None
) -> jax.sharding.Mesh:
    """A mesh of devices, over whose axes batches, links or stages are spread.

    The CPU is one device, unless `jax.config.update("jax_num_cpu_devices", n)` comes before anything is computed.

    **Arguments:** `names` of the axes, such as "batch" or "links"; `shape`: their sizes, not needed for one axis;
    `devices`: all by default.

    **Raises:** `ValueError` if names, shape and devices do not fit.
    """
    available = _listed("devices", jax.devices() if devices is None else devices, "a sequence of devices")
    for device in available:
        check_instance("devices", device, jax.Device, "a sequence of JAX's devices, such as jax.devices()")
    given = (len(available),) if shape is None and len(names) == 1 else () if shape is None else shape
    sizes = tuple(positive_integer("shape", size) for size in _listed("shape", given, "a sequence of integers"))
    named = bool(names) and all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
    if not named or len(sizes) != len(names) or math.prod(sizes) != len(available):
        raise ValueError(
            f"A mesh of {len(available)} devices needs different names, and a shape with one size for each name and "
            f"that many devices in all; got the names {names!r} and the shape {shape!r}."
        )
    return Mesh(np.array(available).reshape(sizes), names, axis_types=(AxisType.Auto,) * len(names))


def _listed(name: str, value: object, wanted: str) -> list:
    if not isinstance(value, Iterable):
        raise ValueError(f"{name} must be {wanted}, got {value!r}.")
    return list(value)


def spread(tree: Tree, mesh: jax.sharding.Mesh, axis: str) -> Tree:
    """The same arrays, each with a part of its leading axis on every device along an axis of the mesh.

    Of a model, the parameters of bodies and joints are spread; what cannot be cut evenly is copied to all devices. Of a
    batch of models, as `jax.vmap` makes them, each device has some.

    **Arguments:** `tree`: a pytree of arrays and models; `mesh`: of devices, as `device_mesh` makes it; `axis`: one of
    its names.

    **Raises:** `ValueError` for an array that cannot be cut into equal parts, and for an axis that does not exist.
    """
    check_mesh(mesh, axis)
    size = mesh.shape[axis]
    parts, copies = NamedSharding(mesh, PartitionSpec(axis)), NamedSharding(mesh, PartitionSpec())

    def cannot_cut(what: str) -> str:
        return (
            f"{what} cannot be cut into {size} equal parts along its first axis, one for each device along {axis!r}: "
            f"use a multiple of {size}, or other devices (see device_mesh)."
        )

    def of_array(x: Array) -> Array:
        shape = np.shape(x)
        if not shape or shape[0] % size:
            raise ValueError(cannot_cut(f"An array of shape {shape}"))
        return jax.device_put(x, parts)

    def of_model(model: Model) -> Model:
        own = {place: (array_at(model, place), letters) for place, letters in PLACES.items()}
        batched = {len(x) for x, letters in own.values() if np.ndim(x) > len(letters.split())}
        if uneven := [n for n in batched if n % size]:
            raise ValueError(cannot_cut(f"A batch of {uneven[0]} models"))
        lengths = batched or {n for n in (model.nb, model.nq, model.nv) if n % size == 0}

        def place(x: Array) -> Array:
            return jax.device_put(x, parts if np.ndim(x) and len(x) in lengths else copies)

        return jax.tree.map(place, model)

    def is_model(x: object) -> bool:
        return isinstance(x, Model)

    return jax.tree.map(lambda x: of_model(x) if is_model(x) else of_array(x), tree, is_leaf=is_model)

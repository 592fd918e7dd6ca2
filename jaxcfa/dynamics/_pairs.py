"""What matrices have in common whose entries are formed pair by pair from composites of subtrees.

All by components, about one point common to all bodies of a tree: the origin of its first body. There the composites
are sums, and the entries products of components by row and by column.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from .. import backend
from ..joints import AbstractJoint
from ..model import Model, join_dofs, joints_of_segments, split_bodies
from ..motion import BodyMotions, Link
from ..motion._jacobians import moving_dofs
from ..numerics import picked, product
from ..spatial import Motion, ZeroVector
from ..structured import Sequential
from ..structured._tree_scan import from_parents

Value = TypeVar("Value")
Columns = TypeVar("Columns")

# Up to so many bodies sums are products with a matrix of ones and zeros, not loops over bodies.
FEW = 64


def over_ancestors(motions: BodyMotions, own: Value, base: Value) -> Value:
    """Sums (nb) over all that carries each body, without itself, starting at `base`."""
    tree, schedule = motions.topology.schedule, motions.schedule
    if _by_products(motions):
        mask = tree.ancestor_mask & ~np.eye(len(tree.parents), dtype=bool)
        return jax.tree.map(lambda x, start: product(jnp.asarray(mask, x.dtype), x) + start, own, base)
    array, values = _stacked(own)
    start = jnp.stack(jax.tree.leaves(base))
    return values(from_parents(tree, schedule.ancestor_sum(tree, array) + start, start))


def over_subtrees(motions: BodyMotions, own: Value) -> Value:
    """Sums (nv) over the bodies that each degree of freedom moves."""
    tree, bodies = motions.topology.schedule, motions.topology.dof_bodies
    if _by_products(motions):
        mask = tree.ancestor_mask.T[bodies]
        return jax.tree.map(lambda x: product(jnp.asarray(mask, x.dtype), x), own)
    array, values = _stacked(own)
    return values(picked(motions.schedule.subtree_sum(tree, array), bodies))


def _by_products(motions: BodyMotions) -> bool:
    return isinstance(motions.schedule, Sequential) and motions.topology.nb <= FEW


def _stacked(values: Value) -> tuple[Float[Array, "nb k"], Callable[[Array], Value]]:
    """All components in one array, so that there is one scan, and the way back."""
    leaves, structure = jax.tree.flatten(values)
    return jnp.stack(leaves, axis=-1), lambda array: jax.tree.unflatten(structure, jnp.unstack(array, axis=-1))


def moved_columns(motions: BodyMotions, *columns: list[Motion]) -> list[Motion]:
    """The joints' motions (nv) about the common point, and with them other columns, given by segment in body axes."""

    def moved(link: Link, columns: tuple[Motion, ...]) -> list[Motion]:
        subspace = link.subspace.at(-link.in_tree)
        zero = jax.tree.map(jnp.zeros_like, subspace)
        known = (isinstance(x.angular, ZeroVector) for x in columns)
        others = (x.rotated(link.rotation).at(-link.in_tree) for x in columns)
        return [subspace, *(zero if is_zero else x for is_zero, x in zip(known, others, strict=True))]

    segments = zip(motions.links, zip(*columns, strict=True), strict=True)
    parts = [jax.vmap(moved)(*segment) for segment in segments]
    return jax.tree.map(lambda *parts: join_dofs(motions.topology, parts), *parts)


def columns_of_joints(model: Model, columns: Float[Array, "nb d 6"]) -> list[Motion]:
    """What is zero for joints with axes fixed in the body, by segment, and known to be where all joints are such."""
    topology = model.topology
    zero: Any = ZeroVector()
    segments = zip(split_bodies(topology, columns), topology.segments, joints_of_segments(model), strict=True)
    return [
        Motion(zero, zero) if have_fixed_axes(joints) else Motion.of(x[:, : segment.d])
        for x, segment, joints in segments
    ]


def have_fixed_axes(joints: Iterable[AbstractJoint]) -> bool:
    """Whether all of them have."""
    return all(joint.has_fixed_axes for joint in joints)


def each_dof(motions: BodyMotions, function: Callable[..., Columns], *arguments: PyTree[Array]) -> Columns:
    """`function` of the arguments (nv) of each degree of freedom.

    On CPUs in a loop: XLA would else compute it again and again where its results are put together for `of_pairs`.
    """
    if isinstance(motions.schedule, Sequential) and backend.loop_form().unroll == 1:
        return lax.map(lambda x: function(*x), arguments)
    return jax.vmap(function)(*arguments)


def of_pairs(
    model: Model, within: tuple[PyTree[Array], PyTree[Array]], beyond: tuple[PyTree[Array], PyTree[Array]]
) -> Float[Array, "nv nv"]:
    """Products of rows and columns: those of `within` where the column's body is the row's or carries it, those of
    `beyond` where the row's body carries the column's, and 0 elsewhere.

    Both are a pair of rows and columns, components (nv,) in the same order. Products of arrays, since a component of
    the columns is not contiguous in the results of a batch: element by element it takes four times as long for thirty.
    """

    def products(rows: PyTree[Array], columns: PyTree[Array]) -> Array:
        return product(jnp.stack(jax.tree.leaves(rows), axis=-1), jnp.stack(jax.tree.leaves(columns)))

    carried = moving_dofs(model.topology, model.topology.dof_bodies)
    return jnp.where(carried, products(*within), jnp.where(carried.T, products(*beyond), 0))

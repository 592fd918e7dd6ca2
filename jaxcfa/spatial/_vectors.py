"""Spatial motion and force vectors `[angular; linear]`, in one set of axes, about one reference point.

Throughout the dynamics every body's vectors are in world axes about the body's own origin, so moving one between a
parent and a child is a pure change of reference point by `r`, the vector from the parent's origin to the child's.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import cross, matmul, matvec, skew, transpose
from ._numbers import of_numbers

SpatialVector = Float[Array, "*#batch 6"]
Point = Float[Array, "*#batch 3"]


@of_numbers
def pack(angular_part: Point, linear_part: Point) -> Float[Array, "*batch 6"]:
    """`[angular; linear]`."""
    return jnp.concatenate([angular_part, linear_part], axis=-1)


@of_numbers
def rotate(rotation: Float[Array, "*#batch 3 3"], x: SpatialVector) -> Float[Array, "*batch 6"]:
    """Express a motion or force vector in other axes: both parts are multiplied by `rotation`."""
    return pack(matvec(rotation, x[..., :3]), matvec(rotation, x[..., 3:]))


@of_numbers
def rotate_columns(rotation: Float[Array, "*#batch 3 3"], x: Float[Array, "*#batch 6 d"]) -> Float[Array, "*batch 6 d"]:
    """`rotate` for the columns of a 6 x d matrix."""
    return jnp.concatenate([matmul(rotation, x[..., :3, :]), matmul(rotation, x[..., 3:, :])], axis=-2)


@of_numbers
def shift_motion(x: SpatialVector, r: Point) -> Float[Array, "*batch 6"]:
    """Move a motion vector's reference point by `r`: `[w; v + w x r]`."""
    return pack(x[..., :3], x[..., 3:] + cross(x[..., :3], r))


@of_numbers
def shift_force(f: SpatialVector, r: Point) -> Float[Array, "*batch 6"]:
    """Move a wrench's reference point by `-r` (child origin to parent origin): `[n + r x f; f]`."""
    return pack(f[..., :3] + cross(r, f[..., 3:]), f[..., 3:])


@of_numbers
def shift_force_columns(f: Float[Array, "*#batch 6 d"], r: Point) -> Float[Array, "*batch 6 d"]:
    """`shift_force` for the columns of a 6 x d matrix."""
    force = f[..., 3:, :]
    return jnp.concatenate([f[..., :3, :] + matmul(skew(r), force), force], axis=-2)


@of_numbers
def motion_cross(v: SpatialVector, m: SpatialVector) -> Float[Array, "*batch 6"]:
    """`v x m = [w x m_w; v x m_w + w x m_v]` for motion vectors (Featherstone, RBDA Eq. 2.31)."""
    vw, vv, mw, mv = v[..., :3], v[..., 3:], m[..., :3], m[..., 3:]
    return pack(cross(vw, mw), cross(vv, mw) + cross(vw, mv))


@of_numbers
def force_cross(v: SpatialVector, f: SpatialVector) -> Float[Array, "*batch 6"]:
    """`v x* f = [w x n + v x f; w x f]` (RBDA Eq. 2.32)."""
    w, u, n, g = v[..., :3], v[..., 3:], f[..., :3], f[..., 3:]
    return pack(cross(w, n) + cross(u, g), cross(w, g))


@of_numbers
def motion_transform(rotation: Float[Array, "*#batch 3 3"], r: Point) -> Float[Array, "*batch 6 6"]:
    """Plucker matrix A -> B of motion vectors, for B with axes `rotation` and origin `r` in A (RBDA Eq. 2.24)."""
    e = transpose(rotation)
    top = jnp.concatenate([e, jnp.zeros_like(e)], axis=-1)
    bottom = jnp.concatenate([-matmul(e, skew(r)), e], axis=-1)
    return jnp.concatenate([top, bottom], axis=-2)

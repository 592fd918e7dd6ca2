"""The mass matrix as an operator that is factored and inverted without being formed."""

import functools
from collections.abc import Callable
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .._arguments import as_arrays, is_concrete
from .._linear_solution import linear_solution
from .._small import matmul, matvec, symmetrise, transpose
from .._types import ConfigurationLike, Velocity
from ..model import Model, pad_dofs, unpad_dofs
from ..motion import BodyMotions, motions_at, scan_velocities, scan_wrenches, schedule_for
from ..spatial import shift_force
from ..structured import AbstractSchedule, Sequential, ldl_solve
from ..structured._tree_scan import from_parents
from ._articulated_joints import free_motions
from ._factors import Factors, LinkVector, factorise, filter_inward, mass_product, smooth_outward
from ._suitability import joints_without_inertia, refuse_massless_subtrees

Vectors = Annotated[ArrayLike, "nv"] | Annotated[ArrayLike, "nv m"]


class MassOperator(eqx.Module):
    """The joint-space mass matrix `M = L D L^T`, armature included (Rodriguez & Kreutz 1992; Jain 2011).

    `L = 1 + H Phi K` is unit triangular with the zeros of M, and its inverse is `1 - H Psi K`: each is one sweep over
    the bodies, where `K = I^A S D^-1` are the gains of the articulated-body algorithm and D is block-diagonal. So every
    product below takes O(n) for each column, by the schedule the operator was made with. With `D = C C^T` the square
    root is `R = L C`, `M = R R^T`.

    All methods take one vector (nv,) or m of them (nv, m), and are linear in them.

    **Fields:** `factors`, of which the members are no part of the interface.
    """

    factors: Factors

    @property
    def nv(self) -> int:
        """Number of rows and columns."""
        return self.factors.model.nv

    @property
    def dtype(self) -> jnp.dtype:
        """Floating-point type of the factors."""
        return self.factors.joints.gain.dtype

    def mv(self, x: Vectors) -> Array:
        """`M x`: the torques that give accelerations x from rest without gravity."""
        return _columns(_product, self, x)

    def solve(self, b: Vectors) -> Array:
        """`M^-1 b`. The derivatives, in both modes, are those of the solution of `M x = b`."""
        return _columns(_solution, self, b)

    def sqrt_mv(self, x: Vectors) -> Array:
        """`R x`, where `R R^T = M`."""
        return _columns(_sqrt, self, x)

    def sqrt_transpose_mv(self, x: Vectors) -> Array:
        """`R^T x`; its square is `x^T M x`, twice the kinetic energy at the velocity x."""
        return _columns(_sqrt_transpose, self, x)

    def inv_sqrt_mv(self, x: Vectors) -> Array:
        """`R^-1 x`; its square is `x^T M^-1 x`."""
        return _columns(_inv_sqrt, self, x)

    def inv_sqrt_transpose_mv(self, x: Vectors) -> Array:
        """`R^-T x`; of white noise x it has the covariance `M^-1`."""
        return _columns(_inv_sqrt_transpose, self, x)

    def quadratic_form(self, x: Vectors) -> Array:
        """`x^T M x`, of each column."""
        return jnp.sum(self.sqrt_transpose_mv(x) ** 2, axis=0)

    def inverse_quadratic_form(self, x: Vectors) -> Array:
        """`x^T M^-1 x`, of each column."""
        return jnp.sum(self.inv_sqrt_mv(x) ** 2, axis=0)

    def logdet(self) -> Float[Array, ""]:
        """`log det M`."""
        return jnp.sum(jnp.log(self.factors.joints.pivot.pivots))

    def inverse_diagonal(self) -> Velocity:
        """The diagonal of `M^-1`: what each joint alone yields to its own torque, all others being free."""
        return _inverse_diagonal(self.factors)

    def as_matrix(self) -> Float[Array, "nv nv"]:
        """M, dense."""
        return self.mv(jnp.eye(self.nv, dtype=self.dtype))

    def inverse_as_matrix(self) -> Float[Array, "nv nv"]:
        """`M^-1`, dense."""
        return self.solve(jnp.eye(self.nv, dtype=self.dtype))

    def as_lineax(self):
        """M as a `lineax.FunctionLinearOperator`, symmetric and positive definite, to combine with others.

        **Raises:** `ImportError` without the package `lineax`.
        """
        import lineax

        vector = jax.ShapeDtypeStruct((self.nv,), self.dtype)
        return lineax.FunctionLinearOperator(self.mv, vector, lineax.positive_semidefinite_tag)


def mass_operator(
    model: Model,
    q: ConfigurationLike,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> MassOperator:
    """The joint-space mass matrix at a configuration, factored.

    **Arguments:** `q` (nq,); `schedule`: of the sweeps, chosen by `default_schedule` if not given. With a parallel one
    the factors are found by a scan too, if the model is known to allow that. `motions`: `body_motions` of the same q.

    **Raises:** `ValueError` for a wrong shape, and for bodies that move no inertia.
    """
    (q,) = as_arrays(model, q=q)
    schedule = schedule_for(model, schedule, motions)
    by_scan = False
    if is_concrete(model):
        refuse_massless_subtrees(model)
        by_scan = not isinstance(schedule, Sequential) and not joints_without_inertia(model)
    return _mass_operator(model, q, schedule, by_scan, motions)


@eqx.filter_jit
def _mass_operator(
    model: Model, q: Float[Array, "nq"], schedule: AbstractSchedule, by_scan: bool, motions: BodyMotions | None
) -> MassOperator:
    return MassOperator(factorise(model, motions_at(model, q, None, schedule, motions), by_scan))


def _columns(function: Callable[[Factors, Array], Array], operator: MassOperator, x: Vectors) -> Array:
    """`function` of one column, or of each of several."""
    array, nv = jnp.asarray(x), operator.nv
    if array.ndim not in (1, 2) or len(array) != nv:
        raise ValueError(f"Expected a vector of shape (nv,) = ({nv},), or (nv, m) for m of them, got {array.shape}.")
    return _apply(function, operator.factors, array.astype(jnp.result_type(array, operator.dtype)))


@functools.partial(jax.jit, static_argnums=0)
def _apply(function: Callable[[Factors, Array], Array], factors: Factors, x: Array) -> Array:
    if x.ndim == 1:
        return function(factors, x)
    return jax.vmap(function, in_axes=(None, 1), out_axes=1)(factors, x)


def _product(f: Factors, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
    return mass_product(f.model, f.schedule, f.bodies, x)


def _solution(f: Factors, b: Float[Array, "nv"]) -> Float[Array, "nv"]:
    def solve(factors: Factors, b: Array) -> Array:
        scaled = _in_joints(factors, lambda d: ldl_solve(factors.joints.pivot, d), _lower_inverse(factors, b))
        return _lower_inverse_transpose(factors, scaled)

    return linear_solution(lambda x: _product(f, x), b, solve, f)


def _sqrt(f: Factors, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
    return _lower(f, _in_joints(f, lambda d: matvec(_root(f), d), x))


def _sqrt_transpose(f: Factors, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
    return _in_joints(f, lambda d: matvec(transpose(_root(f)), d), _lower_transpose(f, x))


def _inv_sqrt(f: Factors, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """`C^-1 L^-1 x`, with `C^-1 = C^T D^-1`."""
    root = transpose(_root(f))
    return _in_joints(f, lambda d: matvec(root, ldl_solve(f.joints.pivot, d)), _lower_inverse(f, x))


def _inv_sqrt_transpose(f: Factors, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """`L^-T C^-T x`, with `C^-T = D^-1 C`."""
    scaled = _in_joints(f, lambda d: ldl_solve(f.joints.pivot, matvec(_root(f), d)), x)
    return _lower_inverse_transpose(f, scaled)


def _root(f: Factors) -> Float[Array, "nb d d"]:
    """Lower triangular C in `D = C C^T`."""
    pivot = f.joints.pivot
    d = pivot.pivots.shape[-1]
    return jnp.where(jnp.tri(d, dtype=bool), pivot.lower, 0) * jnp.sqrt(pivot.pivots)[..., None, :]


def _in_joints(f: Factors, function: Callable[[Array], Array], x: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """A function of the padded degrees of freedom (nb, d)."""
    return unpad_dofs(f.model.topology, function(pad_dofs(f.model.topology, x)))


def _lower(f: Factors, e: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """`(1 + H Phi K) e`, inwards: what arrives at a joint from those that it carries."""
    given = matvec(transpose(f.joints.gain), pad_dofs(f.model.topology, e))
    arriving = scan_wrenches(f.model.topology, f.bodies.motion.offset, given, f.schedule) - given
    return unpad_dofs(f.model.topology, matvec(transpose(f.bodies.motion.subspace), arriving)) + e


def _lower_transpose(f: Factors, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """`(1 + H Phi K)^T x`, outwards."""
    relative = matvec(f.bodies.motion.subspace, pad_dofs(f.model.topology, x))
    carried = scan_velocities(f.model.topology, f.bodies.motion.offset, relative, f.schedule) - relative
    return x + unpad_dofs(f.model.topology, matvec(f.joints.gain, carried))


def _lower_inverse(f: Factors, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """`(1 - H Psi K) x`, inwards: torques less what the bodies that a joint carries make it feel."""
    nothing = jnp.zeros((f.model.nb, 6), x.dtype)
    return unpad_dofs(
        f.model.topology, filter_inward(f, LinkVector(nothing, nothing, pad_dofs(f.model.topology, x)))[1]
    )


def _lower_inverse_transpose(f: Factors, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """`(1 - H Psi K)^T x`, outwards."""
    return unpad_dofs(
        f.model.topology, smooth_outward(f, pad_dofs(f.model.topology, x), jnp.zeros((f.model.nb, 6), x.dtype))[1]
    )


@jax.jit
def _inverse_diagonal(f: Factors) -> Float[Array, "nv"]:
    """`D^-1 + K^T X Omega X^T K` with the parent's mobility Omega, from `Omega = Y Omega_parent Y^T + S D^-1 S^T`."""
    subspace, gain = f.bodies.motion.subspace, f.joints.gain
    own = ldl_solve(f.joints.pivot, transpose(subspace))
    mobility = f.schedule.outward(
        f.bodies.tree, _compose_congruences, (free_motions(f.bodies, f.joints), matmul(subspace, own))
    )[1]
    parent = from_parents(f.bodies.tree, mobility, jnp.zeros((6, 6), mobility.dtype))
    d = subspace.shape[-1]
    identity = jnp.broadcast_to(jnp.eye(d, dtype=gain.dtype), (len(gain), d, d))
    carried = transpose(shift_force(gain, f.bodies.motion.offset[:, None]))
    blocks = ldl_solve(f.joints.pivot, identity) + matmul(transpose(carried), matmul(parent, carried))
    return unpad_dofs(f.model.topology, jnp.diagonal(blocks, axis1=-2, axis2=-1))


def _compose_congruences(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    """The map `C -> Y C Y^T + B`, given as (Y, B), that applies `first`, then `second`."""
    (y1, b1), (y2, b2) = first, second
    return matmul(y2, y1), symmetrise(matmul(matmul(y2, b1), transpose(y2))) + b2

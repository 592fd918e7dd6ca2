"""The mass matrix as an operator that is factored and inverted without being formed."""

import functools
from collections.abc import Callable
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..model import Model
from ..model._arguments import as_arrays, is_concrete
from ..motion import BodyMotions, motions_at, schedule_for
from ..numerics import linear_solution, matvec, transpose
from ..one_function import as_one_function
from ..structured import AbstractSchedule, Sequential, ldl_solve
from ..structured._small_spd import lower_root, root_solve, root_solve_transposed
from ..typing import ConfigurationLike, Velocity
from ._factors import AbstractFactors, factorise
from ._run import are_finite, refuse_singular
from ._suitability import joints_without_inertia, refuse_massless_subtrees
from ._swept_factors import eliminated_by_sweep

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

    factors: AbstractFactors

    @property
    def nv(self) -> int:
        """Number of rows and columns."""
        return self.factors.model.nv

    @property
    def dtype(self) -> jnp.dtype:
        """Floating-point type of the factors."""
        return self.factors.dtype

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
        return jnp.sum(jnp.log(self.factors.pivots()))

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

    **Raises:** `ValueError` for a wrong shape, for bodies that move no inertia, and for a configuration in which the
    matrix is singular, such as gimbal lock. (If that is traced, what needs the inverse gives NaN instead.)
    """
    (q,) = as_arrays(model, q=q)
    schedule = schedule_for(model, schedule, motions, q)
    operator = _mass_operator(model, q, schedule, may_scan(model, schedule), motions)
    pivots = operator.factors.stored_pivots  # and no more: other arrays would be copied from the device for nothing
    if is_concrete(pivots) and not are_finite(pivots):
        refuse_singular(model, q)
    return operator


def may_scan(model: Model, schedule: AbstractSchedule) -> bool:
    """Whether factors can be found by a scan, as far as is known. **Raises:** `ValueError` for massless subtrees."""
    if not is_concrete(model):
        return False
    refuse_massless_subtrees(model)
    return not isinstance(schedule, Sequential) and not joints_without_inertia(model)


@eqx.filter_jit
@functools.partial(as_one_function, handed_on=True)
def _mass_operator(
    model: Model, q: Float[Array, "nq"], schedule: AbstractSchedule, by_scan: bool, motions: BodyMotions | None
) -> MassOperator:
    return operator_of_motions(model, motions_at(model, q, None, schedule, motions), by_scan)


def operator_of_motions(model: Model, motions: BodyMotions, by_scan: bool) -> MassOperator:
    """The operator in a state, by the schedule that its motions were made with."""
    if isinstance(motions.schedule, Sequential):
        return MassOperator(eliminated_by_sweep(model, motions))
    return MassOperator(factorise(model, motions, by_scan))


def _columns(function: Callable[[AbstractFactors, Array], Array], operator: MassOperator, x: Vectors) -> Array:
    """`function` of one column, or of each of several."""
    array, nv = jnp.asarray(x), operator.nv
    if array.ndim not in (1, 2) or len(array) != nv:
        raise ValueError(f"Expected a vector of shape (nv,) = ({nv},), or (nv, m) for m of them, got {array.shape}.")
    return _apply(function, operator.factors, array.astype(jnp.result_type(array, operator.dtype)))


@functools.partial(jax.jit, static_argnums=0)
@as_one_function
def _apply(function: Callable[[AbstractFactors, Array], Array], factors: AbstractFactors, x: Array) -> Array:
    if x.ndim == 1:
        return function(factors, x)
    return jax.vmap(function, in_axes=(None, 1), out_axes=1)(factors, x)


def _product(f: AbstractFactors, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
    return f.mass_product(x)


def _solution(f: AbstractFactors, b: Float[Array, "nv"]) -> Float[Array, "nv"]:
    def solve(factors: AbstractFactors, b: Array) -> Array:
        return factors.lower_inverse_transpose(factors.in_joints(ldl_solve, factors.lower_inverse(b)))

    return linear_solution(f.mass_product, b, solve, f)


def _sqrt(f: AbstractFactors, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
    return f.lower(f.in_joints(lambda pivot, d: matvec(lower_root(pivot), d), x))


def _sqrt_transpose(f: AbstractFactors, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
    return f.in_joints(lambda pivot, d: matvec(transpose(lower_root(pivot)), d), f.lower_transpose(x))


def _inv_sqrt(f: AbstractFactors, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """`C^-1 L^-1 x`."""
    return f.in_joints(root_solve, f.lower_inverse(x))


def _inv_sqrt_transpose(f: AbstractFactors, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """`L^-T C^-T x`."""
    return f.lower_inverse_transpose(f.in_joints(root_solve_transposed, x))


@jax.jit
@as_one_function
def _inverse_diagonal(f: AbstractFactors) -> Float[Array, "nv"]:
    return f.inverse_diagonal()

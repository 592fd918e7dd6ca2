"""Forward dynamics by the mass matrix."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import Model
from ..motion import BodyMotions
from ..numerics import symmetrise
from ..structured import AbstractSchedule, Doubling, ldl_factor, ldl_solve
from ..structured._rounds import rounds
from ..structured._scan import check_schedule
from ..typing import Velocity
from ._articulated_joints import links
from ._factors import mass_product
from ._inverse import inverse_dynamics_of_motions
from ._method import AbstractForwardDynamics, Loads


class JSI(AbstractForwardDynamics):
    """Joint-space inertia algorithm (JSIIA in Yang, Wu & Pan 2016): O(n^2) work for the mass matrix, then O(n^3).

    Columns of the mass matrix are inverse dynamics of unit accelerations, at rest and without gravity: cumulative sums,
    for all columns at once. It is factorised as `L D L^T`, beyond 64 coordinates by a library's Cholesky method; the
    factors are not handed out, see `mass_operator` for such. For mechanisms of few bodies. The condition number of the
    mass matrix grows with the fourth power of the length, so that in float32 there is no result for chains of more than
    some fifty links.

    **Fields:** `schedule`: of the cumulative sums.
    """

    schedule: AbstractSchedule = Doubling()

    def __check_init__(self):
        check_schedule(self.schedule)

    def solve(self, model: Model, motions: BodyMotions, loads: Loads) -> Velocity:
        if not model.nv:
            return loads.tau
        matrix = self.mass_matrix(model, motions)
        # Unit diagonal, so that the test for zero pivots does not depend on units.
        scale = 1 / jnp.sqrt(jnp.diagonal(matrix))
        floor = 4 * model.nv * float(jnp.finfo(matrix.dtype).eps)
        factor = ldl_factor(matrix * scale[:, None] * scale[None], floor)

        def correct(_, qdd: Array) -> Array:
            missing = loads.tau - inverse_dynamics_of_motions(model, motions, qdd, loads.f_ext)
            return qdd + scale * ldl_solve(factor, scale * missing)

        # The second time gives back digits that the condition number of the mass matrix has cost.
        return rounds(2, correct, jnp.zeros_like(loads.tau))

    def mass_matrix(self, model: Model, motions: BodyMotions) -> Float[Array, "nv nv"]:
        """Joint-space mass matrix, armature included, by cumulative sums."""
        bodies, identity = links(model, motions), jnp.eye(model.nv, dtype=motions.q.dtype)
        columns = jax.vmap(lambda x: mass_product(model, motions.schedule, bodies, x))(identity)
        return symmetrise(columns)

    def motion_schedule(self) -> AbstractSchedule:
        return self.schedule

"""Equalities of a stage that follow from others of it to first order, such as the places of many points of one foot.

Together they contradict one another to second order, and what no step can close would be added to their multipliers in
every iteration, without end. So steps are taken by the others alone, which close them, too.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import transpose
from ..structured._products import matmul, matvec
from ..structured._semidefinite import reduce_semidefinite
from ._local import LocalModel, Multipliers, Rows, StageModel

_DEPENDENT = 0.6  # power of the machine epsilon: the square of what is left of a row of size one


def independent(local: LocalModel, multipliers: Multipliers) -> tuple[LocalModel, Multipliers]:
    """The model with zeros in the place of equalities that follow from others, and multipliers under which
    the gradient of the Lagrangian is the same, zero for these."""
    h, y = local.values.equalities, multipliers.equalities
    stages, h_stages, y_stages = jax.vmap(_of_stage)(local.stages, h.stages, y.stages)
    end, h_end, y_end = _of_stage(local.end, h.end, y.end)
    values = local.values._replace(equalities=Rows(h_stages, h_end))
    equalities = Rows(y_stages, y_end)
    return local._replace(values=values, stages=stages, end=end), multipliers._replace(equalities=equalities)


def with_equalities(local: LocalModel, other: LocalModel) -> LocalModel:
    """The model with the values and equalities of another of the same point."""
    stages, end = (
        x._replace(equalities=y.equalities) for x, y in ((local.stages, other.stages), (local.end, other.end))
    )
    return local._replace(values=other.values, stages=stages, end=end)


def _of_stage(
    model: StageModel, h: Float[Array, "e"], y: Float[Array, "e"]
) -> tuple[StageModel, Float[Array, "e"], Float[Array, "e"]]:
    rows = model.equalities
    if len(rows) < 2:
        return model, h, y
    size = jnp.sqrt(jnp.sum(rows**2, axis=1))
    size = jnp.where(size > 0, size, 1)
    unit = rows / size[:, None]
    # Those that are farthest from all others come first. In the order in which they stand, points that are next to one
    # another would be chosen, whose places amplify what is wrong with the others, and steps would be short.
    found = reduce_semidefinite(matmul(unit, transpose(unit)), float(jnp.finfo(rows.dtype).eps) ** _DEPENDENT)
    chosen = found.chosen
    y = jnp.where(chosen, y + matvec(transpose(found.relations), size * y) / size, 0)
    return model._replace(equalities=jnp.where(chosen[:, None], rows, 0)), jnp.where(chosen, h, 0), y

"""Forces against gravity."""

from jaxtyping import Array, Float

from ..compilation import jit_of_one_state
from ..model import Model
from ..model._arguments import as_arrays
from ..motion import BodyMotions, joint_torques, motions_at, resting_world, schedule_for, total_forces
from ..one_function import in_batches
from ..structured import AbstractSchedule
from ..typing import ConfigurationLike, Velocity


def gravity_forces(
    model: Model, q: ConfigurationLike, schedule: AbstractSchedule | None = None, motions: BodyMotions | None = None
) -> Velocity:
    """Joint torques and forces that hold the mechanism still against gravity: `bias_forces` at rest.

    The gradient of `potential_energy` in the tangent space.

    **Arguments:** `q` (nq,); `schedule` as for `inverse_dynamics`; `motions`: `body_motions` of the same q, if they are
    known already.

    **Returns:** (nv,) [N m, N]. **Raises:** `ValueError` for a wrong shape.
    """
    (q,) = as_arrays(model, q=q)
    return _gravity_forces(model, q, schedule_for(model, schedule, motions, q), motions)


@jit_of_one_state
@in_batches
def _gravity_forces(
    model: Model, q: Float[Array, "nq"], schedule: AbstractSchedule, motions: BodyMotions | None
) -> Velocity:
    motions = motions_at(model, q, None, schedule, motions)
    world = resting_world(model, q.dtype)
    return joint_torques(motions, total_forces(motions, [link.inertia @ world for link in motions.links]))

"""The inertia of a mechanism as it is felt at frames."""

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from ..kinematics._frames import place_frames
from ..model import Model
from ..model._arguments import as_arrays, as_frames, is_concrete
from ..motion import BodyMotions, motions_at, schedule_for
from ..motion._jacobians import point_jacobians
from ..numerics import product, symmetrise
from ..one_function import as_one_function
from ..structured import AbstractSchedule
from ..typing import ConfigurationLike, Frames
from ._mass_operator import may_scan, operator_of_motions
from ._run import are_finite, refuse_singular


class OperationalSpace(eqx.Module):
    """A mechanism seen from m frames: `J qdd + (dJ/dt) v = Omega F` under wrenches F at the frames alone.

    Rows are those of `jacobian`, `[angular; linear]` in world axes at the origin of a frame, frame after frame.

    **Fields:** `jacobian` J (6m, nv); `inverse_inertia` `Omega = J M^-1 J^T` (6m, 6m), positive semidefinite;
    `mobility` `M^-1 J^T` (nv, 6m): joint accelerations under unit wrenches at the frames.
    """

    jacobian: Float[Array, "m nv"]
    inverse_inertia: Float[Array, "m m"]
    mobility: Float[Array, "nv m"]

    @property
    def inertia(self) -> Float[Array, "m m"]:
        """Operational-space inertia `Omega^-1` (Khatib 1987).

        Where there are directions in which the frames cannot accelerate (fewer joints than rows, a singular
        configuration, frames on one body) the pseudo-inverse, of rows and columns scaled to a unit diagonal: such a
        direction has no inertia instead of an infinite one.
        """
        rank_tolerance = len(self.inverse_inertia) * 10 * float(jnp.finfo(self.inverse_inertia.dtype).eps)
        # Unit diagonal, so that what counts as zero does not depend on units.
        diagonal = jnp.diagonal(self.inverse_inertia)
        scale = jnp.where(diagonal > 0, 1 / jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1)), 0)
        scaled = self.inverse_inertia * scale[:, None] * scale[None]
        inverse = jnp.linalg.pinv(scaled, rtol=rank_tolerance, hermitian=True)
        return symmetrise(inverse * scale[:, None] * scale[None])

    @property
    def dynamically_consistent_inverse(self) -> Float[Array, "nv m"]:
        """`M^-1 J^T Omega^-1`: the inverse of J of which joint torques `(1 - J^T (.)^T) tau` do not move the frames."""
        return product(self.mobility, self.inertia)


def operational_space_inertia(
    model: Model,
    q: ConfigurationLike,
    frames: Frames,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> OperationalSpace:
    """Inertia at one or several frames, with the coupling between them, in O(n).

    With the factors of the mass matrix `Omega = W^T W`, where `W = R^-1 J^T = D^-1/2 H psi B` is one inward sweep
    (Rodriguez & Kreutz 1992, sec. 6; here for trees and any joints). Its depth is logarithmic with a parallel schedule.

    **Arguments:** `q` (nq,); `frames` as for `frame_pose`, one or several; `schedule` and `motions` as for
    `mass_operator`.

    **Returns:** an `OperationalSpace`, of one frame too with rows for all of them: `jacobian` (6m, nv),
    `inverse_inertia` (6m, 6m), and as properties `inertia` (6m, 6m) and `dynamically_consistent_inverse` (nv, 6m).

    **Raises:** `ValueError` for a wrong shape, an unknown name, bodies that move no inertia, and as `mass_operator` for
    a configuration in which the mass matrix is singular. (If that is traced, the result is NaN.)
    """
    (q,) = as_arrays(model, q=q)
    numbers = jnp.atleast_1d(as_frames(model, frames))
    if not len(numbers):
        raise ValueError("frames must name one frame or more, got none.")
    schedule = schedule_for(model, schedule, motions, q)
    space = _operational_space(model, q, numbers, schedule, may_scan(model, schedule), motions)
    if is_concrete(space.inverse_inertia) and not are_finite(space.inverse_inertia):
        refuse_singular(model, q)
    return space


@eqx.filter_jit
@as_one_function
def _operational_space(
    model: Model,
    q: Float[Array, "nq"],
    numbers: Int[Array, "m"],
    schedule: AbstractSchedule,
    by_scan: bool,
    motions: BodyMotions | None,
) -> OperationalSpace:
    motions = motions_at(model, q, None, schedule, motions)
    operator = operator_of_motions(model, motions, by_scan)
    frames, columns, origins = place_frames(model, motions, numbers), motions.subspace_columns, motions.origins
    points = frames.rows(origins) + frames.lever
    jacobian = point_jacobians(model, columns, origins, points, frames.bodies)
    exact = _without_rounding(jacobian, columns, points[:, None] - origins[model.topology.dof_bodies][None])
    jacobian, exact = (x.reshape(6 * len(numbers), model.nv) for x in (jacobian, exact))
    half = operator.inv_sqrt_mv(exact.T)
    return OperationalSpace(jacobian, product(half.T, half), operator.inv_sqrt_transpose_mv(half))


def _without_rounding(
    jacobian: Float[Array, "m 6 nv"], columns: Float[Array, "nv 6"], levers: Float[Array, "m nv 3"]
) -> Float[Array, "m 6 nv"]:
    """The Jacobian with zeros for what is not more than rounding of perpendicular directions, whose inverse is huge.

    Such an element is compared with what it would be in general position: the length of the joint's axis, and for
    velocities that times the length of its lever to the frame. Derivatives stay.
    """
    parts = lax.stop_gradient((columns[:, :3], columns[:, 3:], levers))
    turning, sliding, lever = (jnp.linalg.norm(x, axis=-1) for x in parts)
    size = jnp.stack([jnp.broadcast_to(turning, lever.shape), sliding[None] + turning[None] * lever], axis=1)
    rounding = 32 * float(jnp.finfo(jacobian.dtype).eps) * jnp.repeat(size, 3, axis=1)
    return jacobian - lax.stop_gradient(jnp.where(jnp.abs(jacobian) > rounding, 0, jacobian))

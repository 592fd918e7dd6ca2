"""Wrenches that joints transmit."""

from jaxtyping import Array, Float

from ..model import Model
from ..motion import BodyMotions
from ..typing import BodyForcesLike, ConfigurationLike, Velocity, VelocityLike
from ._forward import default_method
from ._method import AbstractForwardDynamics
from ._run import explained, solve_with_wrenches


def joint_reactions(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    tau: VelocityLike,
    f_ext: BodyForcesLike | None = None,
    method: AbstractForwardDynamics | None = None,
    motions: BodyMotions | None = None,
) -> tuple[Velocity, Float[Array, "nb 6"]]:
    """Forward dynamics with the wrench that each joint transmits: what its bearings and motors have to bear.

    These are the actual wrenches (those of inverse dynamics at the accelerations found), with gravity, velocities and
    external wrenches: `S^T F = tau - armature * qdd` along the joint, the reaction across it.

    **Arguments:** as for `forward_dynamics`. `CFA()` has the wrenches as its unknowns; other methods add one pass of
    inverse dynamics.

    **Returns:** `qdd` (nv,) [rad/s^2, m/s^2]; (nb, 6) wrenches `[moment; force]` that joint i applies to body i, world
    axes, at the origin of body i [N m, N]. The parent receives the opposite.

    **Raises:** as `forward_dynamics`.
    """
    method = default_method(model) if method is None else method
    return explained(solve_with_wrenches, method, model, q, v, tau, f_ext, motions)

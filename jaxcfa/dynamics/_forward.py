"""Forward dynamics by any algorithm."""

from .._types import BodyForcesLike, ConfigurationLike, Velocity, VelocityLike
from ..model import Model
from ._articulated_body import ABA
from ._method import AbstractForwardDynamics, solve_forward_dynamics


def forward_dynamics(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    tau: VelocityLike,
    f_ext: BodyForcesLike | None = None,
    method: AbstractForwardDynamics | None = None,
) -> Velocity:
    """Joint accelerations under joint torques: `qdd = M(q)^-1 (tau - bias(q, v))`.

    **Arguments:** `q` (nq,); `v` (nv,) [rad/s, m/s]; `tau` (nv,) [N m, N]; `f_ext` (nb, 6): external wrench
    `[moment; force]` on each body, world axes, at the body's origin [N m, N]. `method`: the algorithm, `ABA()` by
    default.

    **Returns:** `qdd` (nv,) [rad/s^2, m/s^2]. Armature is included; `passive_forces` are to be added to `tau`.

    **Raises:** `ValueError` for a wrong shape, and where the mass matrix is singular: a moving body without inertia
    and all that it carries. Under `jit` and `vmap` a singularity that depends on traced values gives NaN instead.
    """
    return solve_forward_dynamics(ABA() if method is None else method, model, q, v, tau, f_ext)

"""Forward dynamics by any algorithm."""

from ..defaults import prefers_parallel
from ..model import Model
from ..model._arguments import check_model, is_concrete
from ..motion import BodyMotions
from ..typing import BodyForces, BodyForcesLike, ConfigurationLike, Velocity, VelocityLike
from ._articulated_body import ABA
from ._method import AbstractForwardDynamics
from ._run import explained, solve, solve_with_wrenches
from ._suitability import joints_without_inertia


def forward_dynamics(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    tau: VelocityLike,
    f_ext: BodyForcesLike | None = None,
    method: AbstractForwardDynamics | None = None,
    motions: BodyMotions | None = None,
) -> Velocity:
    """Joint accelerations under joint torques: `qdd = M(q)^-1 (tau - bias(q, v))`.

    **Arguments:** `q` (nq,); `v` (nv,) [rad/s, m/s]; `tau` (nv,) [N m, N]; `f_ext` (nb, 6): external wrench
    `[moment; force]` on each body, world axes, at the body's origin [N m, N]. `method`: the algorithm: `ABA()`,
    `CFA()`, `JSI()`, with their options, or your own. By default the fastest that is known for the backend and the
    depth of the mechanism; see `default_method`. `motions`: `body_motions` of the same q and v, if they are known.

    **Returns:** `qdd` (nv,) [rad/s^2, m/s^2]. Armature is included; `passive_forces` are to be added to `tau`.

    **Raises:** `ValueError` for a wrong shape, and where the mass matrix is singular: a moving body without inertia
    and all that it carries. Under `jit` and `vmap` a singularity that depends on traced values gives NaN instead.
    """
    method = default_method(model) if method is None else method
    return explained(solve, method, model, q, v, tau, f_ext, motions)


def aba(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    tau: VelocityLike,
    f_ext: BodyForcesLike | None = None,
    motions: BodyMotions | None = None,
) -> Velocity:
    """`forward_dynamics` by the articulated-body algorithm."""
    return forward_dynamics(model, q, v, tau, f_ext, ABA(), motions)


def joint_reactions(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    tau: VelocityLike,
    f_ext: BodyForcesLike | None = None,
    method: AbstractForwardDynamics | None = None,
    motions: BodyMotions | None = None,
) -> tuple[Velocity, BodyForces]:
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


def default_method(model: Model) -> AbstractForwardDynamics:
    """The algorithm that `forward_dynamics` uses if none is given; docs/methods.md says when to take another.

    `ABA()` on CPUs and for mechanisms of up to 32 bodies in depth, else `ABA(schedule="scan")` if the model allows it,
    and `ABA()` if it does not or cannot be looked at because it is traced.
    """
    check_model(model)
    if prefers_parallel(model) and is_concrete(model) and not joints_without_inertia(model):
        return ABA(schedule="scan")
    return ABA()

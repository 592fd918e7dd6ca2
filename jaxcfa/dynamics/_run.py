"""Running an algorithm for forward dynamics: with arguments checked, and an explanation where there is no result."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..compilation import jit_of_one_state
from ..model import Model
from ..model._arguments import as_arrays, is_concrete
from ..motion import check_motions, motions_at
from ..numerics import product
from ..numerics._options import quoted
from ..one_function import as_one_function
from ..typing import BodyForces, Velocity
from ._articulated_body import ABA
from ._inverse import inverse_dynamics_of_motions
from ._method import (
    AbstractForwardDynamics,
    AbstractMassSolver,
    Loads,
    accelerations_and_solver,
    accelerations_and_wrenches,
    check_method,
)
from ._suitability import joints_with_dependent_axes


def explained(function, method, model: Model, q, v, tau, f_ext, motions):
    """`function(method, model, ...)` with checked arguments, and with an explanation where it has no finite result."""
    check_method(method)
    arguments = as_arrays(model, q=q, v=v, tau=tau, f_ext=f_ext)
    check_motions(model, motions, *arguments[:2])
    if is_concrete(model) and not is_concrete(arguments):
        # Results cannot be looked at while tracing, but the model usually can.
        method.refuse(model)
    result = function(method, model, *arguments, motions)
    # Not at the solver or the wrenches, which would be copied from the device for nothing.
    qdd = result[0] if isinstance(result, tuple) else result
    if is_concrete(qdd) and not are_finite(qdd):
        _explain(method, model, arguments)
    return result


@jit_of_one_state
@as_one_function
def solve(method, model, q, v, tau, f_ext, motions) -> Velocity:
    """Joint accelerations by the method."""
    motions = motions_at(model, q, v, method.motion_schedule(), motions, by_rules=True)
    return accelerations_and_solver(method, model, motions, Loads(tau, f_ext))[0]


@jit_of_one_state
@as_one_function
def solve_with_wrenches(method, model, q, v, tau, f_ext, motions) -> tuple[Velocity, BodyForces]:
    """The same with the wrenches that joints transmit, as `accelerations_and_wrenches`."""
    motions = motions_at(model, q, v, method.motion_schedule(), motions, by_rules=True)
    return accelerations_and_wrenches(method, model, motions, Loads(tau, f_ext))


@as_one_function
def accelerations_and_responses(
    method, model, q, v, tau, f_ext, directions: Float[Array, "k nv"]
) -> tuple[Velocity, Float[Array, "k nv"], AbstractMassSolver]:
    """The accelerations, `M^-1` times each direction, and a solver for others; the latter two have no derivatives."""
    motions = motions_at(model, q, v, method.motion_schedule())
    qdd, solver = accelerations_and_solver(method, model, motions, Loads(tau, f_ext))
    if len(directions) < model.nv // 2:
        return qdd, jax.vmap(lambda b: solver.solve(model, b))(directions), solver
    inverse = solver.inverse(model, q.dtype)
    return qdd, product(directions, inverse), _KnownInverse(inverse)


@as_one_function
def accelerations_and_root(method, model, q, v, tau, f_ext) -> tuple[Velocity, Float[Array, "nv nv"]]:
    """The accelerations, and R with `M^-1 = R^T R`, which has no derivatives."""
    motions = motions_at(model, q, v, method.motion_schedule())
    qdd, solver = accelerations_and_solver(method, model, motions, Loads(tau, f_ext))
    return qdd, solver.inverse_root(model, q.dtype)


class _KnownInverse(AbstractMassSolver):
    """`M^-1` itself."""

    matrix: Float[Array, "nv nv"]

    def solve(self, model: Model, b: Float[Array, "nv"]) -> Velocity:
        return product(self.matrix, b)


@as_one_function
def unbalanced_torques(method, model, q, v, tau, f_ext, qdd: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """What is left of torques beyond those that accelerations need (nv,) [N m, N]."""
    motions = motions_at(model, q, v, method.motion_schedule())
    return tau - inverse_dynamics_of_motions(model, motions, qdd, f_ext)


def are_finite(*trees) -> bool:
    """Whether no number in the trees is infinite or NaN."""
    return all(np.all(np.isfinite(x)) for x in jax.tree.leaves(trees))


def mechanism_of(model: Model) -> tuple:
    """All that accelerations depend on. (Limits of a model may be infinite.)"""
    bodies = model.placement, model.mass, model.com, model.inertia
    return model.joints, *bodies, model.armature, model.gravity


def refuse_without_accelerations(model: Model, q: Float[Array, "nq"]) -> None:
    """Raises `ValueError` about why there are no finite accelerations."""
    refuse_singular(model, q)
    raise ValueError(
        f"The accelerations are too large for {q.dtype}: velocities, torques or wrenches are enormous. See what "
        "made them so; a simulation that diverges needs a shorter step."
    )


def refuse_singular(model: Model, q: Float[Array, "nq"]) -> None:
    """Raises `ValueError` if the mass matrix is singular at q: there are no accelerations at rest without loads.

    Not if q or the model is not finite itself.
    """
    still = jnp.zeros(model.nv, q.dtype)
    if not are_finite(q, mechanism_of(model)):
        return
    if are_finite(solve(ABA(), model, q, still, still, jnp.zeros((model.nb, 6), q.dtype), None)):
        return
    singular = "Forward dynamics needs an invertible mass matrix, but it is singular at this configuration: "
    joints = joints_with_dependent_axes(model, q)
    if joints:
        raise ValueError(
            f"{singular}the axes of joint {quoted(joints)} are dependent there (gimbal lock), so that it moves in "
            "fewer directions than it has coordinates. Use Spherical or Free in its place, stay away from such "
            "configurations, or give it armature."
        )
    raise ValueError(
        f"{singular}some joint moves no inertia. Give the bodies it carries inertia about its axis, or the joint "
        "armature."
    )


def _explain(method: AbstractForwardDynamics, model: Model, arguments: list[Array]) -> None:
    """Raises if a result that is not finite comes from finite arguments."""
    if not are_finite(arguments, mechanism_of(model)):
        return
    method.refuse(model)
    if method != ABA() and are_finite(solve(ABA(), model, *arguments, None)):
        name = eqx.tree_pformat(method, width=200)
        raise ValueError(
            f"{name} lost all digits at this configuration: some joint moves almost no inertia of its own body, or the "
            f"mechanism is too long for {arguments[0].dtype}, as long planar chains are. Use ABA(), or float64."
        )
    refuse_without_accelerations(model, arguments[0])

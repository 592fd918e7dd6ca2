"""The interface of forward-dynamics algorithms, and what all of them share."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import Model
from ..model._arguments import check_instance
from ..motion import BodyMotions
from ..numerics import jvp_of_perturbed, linear_solution, no_tangent, transpose
from ..structured import AbstractSchedule, Sequential, ldl_factor
from ..structured._small_spd import lower_root
from ..typing import BodyForces, Velocity
from ._inverse import (
    inverse_dynamics_of_motions,
    joint_wrenches_of_motions,
    mass_product_of_motions,
    without_gravity,
)
from ._suitability import refuse_massless_subtrees


class AbstractMassSolver(eqx.Module):
    """Solves with the mass matrix at one configuration, by what an algorithm has computed already."""

    @abc.abstractmethod
    def solve(self, model: Model, b: Float[Array, "nv"]) -> Velocity:
        """`M^-1 b` (nv,), of the model it was made for."""

    def inverse(self, model: Model, dtype: jnp.dtype) -> Float[Array, "nv nv"]:
        """`M^-1`, dense."""
        return jax.vmap(self.solve, (None, 1), 1)(model, jnp.eye(model.nv, dtype=dtype))

    def inverse_root(self, model: Model, dtype: jnp.dtype) -> Float[Array, "nv nv"]:
        """A matrix R with `M^-1 = R^T R`."""
        return transpose(lower_root(ldl_factor(self.inverse(model, dtype))))


class Loads(eqx.Module):
    """What acts on a mechanism.

    **Fields:** `tau` (nv,), joint torques and forces [N m, N]; `f_ext` (nb, 6), external wrenches `[moment; force]` on
    the bodies, world axes, at their origins [N m, N].
    """

    tau: Float[Array, "nv"]
    f_ext: BodyForces


class AbstractForwardDynamics(eqx.Module):
    """An algorithm for forward dynamics, as an object whose fields are its options.

    A new one is a subclass with `solve`, handed to `forward_dynamics` as `method`. It need not be differentiable:
    derivatives come from those of inverse dynamics. (So there are none with respect to fields of the method.) The
    other methods have defaults, which may be replaced.
    """

    @abc.abstractmethod
    def solve(self, model: Model, motions: BodyMotions, loads: Loads) -> Velocity:
        """Joint accelerations (nv,); not finite where the mass matrix is singular."""

    def solve_with_wrenches(self, model: Model, motions: BodyMotions, loads: Loads) -> tuple[Velocity, BodyForces]:
        """Joint accelerations, and the wrenches that joints transmit: by default those of inverse dynamics."""
        qdd = self.solve(model, motions, loads)
        return qdd, joint_wrenches_of_motions(model, motions, qdd, loads.f_ext)

    def solve_and_factor(self, model: Model, motions: BodyMotions, loads: Loads) -> tuple[Velocity, AbstractMassSolver]:
        """Joint accelerations, and a solver with the same mass matrix for derivatives: by default `solve` at rest."""
        return self.solve(model, motions, loads), _SolverAtRest(self, motions.at_rest())

    def motion_schedule(self) -> AbstractSchedule:
        """How the motions of the bodies and inverse dynamics are found: as parallel as the algorithm."""
        return Sequential()

    def refuse(self, model: Model) -> None:
        """Raises `ValueError` for a concrete model that the algorithm cannot serve in any configuration."""
        refuse_massless_subtrees(model)


@jax.custom_jvp
def accelerations_and_solver(
    method: AbstractForwardDynamics, model: Model, motions: BodyMotions, loads: Loads
) -> tuple[Velocity, AbstractMassSolver]:
    """`method.solve_and_factor` with the derivatives of the law of motion; the solver has none."""
    return method.solve_and_factor(model, motions, loads)


def _accelerations_and_solver_jvp(primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    """Differentiates the law of motion instead of the algorithm: `M dqdd = dtau - dID` at the qdd found.

    This holds for any parameter, and needs the derivatives of inverse dynamics only. `M^-1` is what the algorithm has
    found anyway; since M is symmetric that serves reverse mode too. How the solver was found has no derivative.
    """
    qdd, solver = accelerations_and_solver(*primals)
    _, model, motions, _ = primals

    def residual(model: Model, motions: BodyMotions, loads: Loads) -> Array:
        return loads.tau - inverse_dynamics_of_motions(model, motions, qdd, loads.f_ext)

    qdd_dot = linear_solution(
        lambda x: mass_product_of_motions(model, motions, x),
        jvp_of_perturbed(residual, primals[1:], tangents[1:])[1],
        lambda found, b: found[0].solve(found[1], b),
        (solver, model),
    )
    return (qdd, solver), (qdd_dot, no_tangent(solver))


accelerations_and_solver.defjvp(_accelerations_and_solver_jvp, symbolic_zeros=True)


class _SolverAtRest(AbstractMassSolver):
    """The algorithm itself, without bias."""

    method: AbstractForwardDynamics
    motions: BodyMotions

    def solve(self, model: Model, b: Float[Array, "nv"]) -> Velocity:
        unloaded = jnp.zeros((model.nb, 6), b.dtype)
        return self.method.solve(without_gravity(model), self.motions, Loads(b, unloaded))


def check_method(method: object) -> None:
    """Raises `ValueError` for what is no algorithm for forward dynamics."""
    check_instance("method", method, AbstractForwardDynamics, "an algorithm for forward dynamics, such as ABA()")


@jax.custom_jvp
def accelerations_and_wrenches(
    method: AbstractForwardDynamics, model: Model, motions: BodyMotions, loads: Loads
) -> tuple[Velocity, BodyForces]:
    return method.solve_with_wrenches(model, motions, loads)


def accelerations_and_wrenches_jvp(primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    """The wrenches are those of inverse dynamics at the accelerations found, and so are their derivatives."""
    result = accelerations_and_wrenches(*primals)
    method, model, motions, loads = primals
    _, model_dot, motions_dot, loads_dot = tangents
    qdd, qdd_dot = jvp_of_perturbed(lambda *x: accelerations_and_solver(method, *x)[0], primals[1:], tangents[1:])
    _, wrenches_dot = jvp_of_perturbed(
        joint_wrenches_of_motions,
        (model, motions, qdd, loads.f_ext),
        (model_dot, motions_dot, qdd_dot, loads_dot.f_ext),
    )
    return result, (qdd_dot, wrenches_dot)


accelerations_and_wrenches.defjvp(accelerations_and_wrenches_jvp, symbolic_zeros=True)

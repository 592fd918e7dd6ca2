"""Forward dynamics by the factors of the mass matrix: four groupings of the same sweeps."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import Model, pad_dofs, unpad_dofs
from ..motion import BodyMotions, fictitious_acceleration
from ..numerics import matvec, transpose
from ..spatial import shift_motion
from ..structured import AbstractSchedule, Sequential
from ..structured._scan import SEQUENTIAL, check_schedule
from ..structured._tree_scan import from_parents
from ..typing import BodyForces, Velocity
from ._factors import (
    Factors,
    LinkVector,
    bias_wrench,
    drift_accelerations,
    drift_wrenches,
    factorise,
    solve_links,
    torques_only,
)
from ._method import AbstractForwardDynamics, AbstractMassSolver, Loads
from ._suitability import refuse_joints_without_inertia, refuse_massless_subtrees


class FactoredFD(AbstractForwardDynamics):
    """Forward dynamics in operator form (Rodriguez & Kreutz 1992, sec. 5): FD1 to FD4.

    With the bias accelerations `xi` of all bodies (at zero joint accelerations) and the wrenches `b` that velocities
    and external wrenches demand, they differ in where these enter the filter `eps = (1 - H Psi K) tau - H psi (...)`,
    which is followed by `D^-1` and the smoother:

    | variant | before | filter | accelerations of the bodies |
    |---|---|---|---|
    | 1 | `xi` outwards, `t = tau - H phi (I xi + b)` inwards | t | |
    | 2 | the same | t | those of the smoother, and `xi` |
    | 3 | `xi` outwards | tau, `I xi + b` | those of the smoother, and `xi` |
    | 4 | | tau, b, and the local part of `xi` at each joint | those of the smoother |

    The fourth is the articulated-body algorithm. The first and the second differ only in the accelerations of the
    bodies that they give; their joint accelerations are identical, and lose digits on long chains: 4e-11 on 1024 links
    in float64.

    **Fields:** `variant`: 1, 2, 3 or 4. `schedule` of the sweeps; with one that is parallel along the mechanism the
    factors are found by a scan too, for which every joint must move some inertia of its own body, or armature.
    """

    variant: int = eqx.field(static=True, default=4)
    schedule: AbstractSchedule = SEQUENTIAL

    def __check_init__(self):
        if self.variant not in (1, 2, 3, 4):
            raise ValueError(f"variant must be 1, 2, 3 or 4, got {self.variant!r}.")
        check_schedule(self.schedule)

    def solve(self, model: Model, motions: BodyMotions, loads: Loads) -> Velocity:
        return self.solve_and_factor(model, motions, loads)[0]

    def solve_and_factor(self, model: Model, motions: BodyMotions, loads: Loads) -> tuple[Velocity, AbstractMassSolver]:
        factors, found = self._links(model, motions, loads)
        return unpad_dofs(model.topology, found.joints), _SolverOfFactors(factors)

    def solve_with_wrenches(self, model: Model, motions: BodyMotions, loads: Loads) -> tuple[Velocity, BodyForces]:
        _, found = self._links(model, motions, loads)
        return unpad_dofs(model.topology, found.joints), found.wrench

    def solve_with_body_accelerations(
        self, model: Model, motions: BodyMotions, loads: Loads
    ) -> tuple[Velocity, BodyForces]:
        """Joint accelerations, and those of `body_accelerations`, which the sweeps have found."""
        _, found = self._links(model, motions, loads)
        return unpad_dofs(model.topology, found.joints), found.bodies - fictitious_acceleration(model).astype(
            loads.tau.dtype
        )

    def _links(self, model: Model, motions: BodyMotions, loads: Loads) -> tuple[Factors, LinkVector]:
        factors = factorise(model, motions, by_scan=not isinstance(self.schedule, Sequential))
        return factors, _GROUPINGS[self.variant](factors, pad_dofs(model.topology, loads.tau), loads.f_ext)

    def motion_schedule(self) -> AbstractSchedule:
        return self.schedule

    def refuse(self, model: Model) -> None:
        refuse_massless_subtrees(model)
        if not isinstance(self.schedule, Sequential):
            refuse_joints_without_inertia(model, "FactoredFD with a parallel schedule", "FactoredFD()")


class _SolverOfFactors(AbstractMassSolver):
    """The filter and the smoother again."""

    factors: Factors

    def solve(self, model: Model, b: Float[Array, "nv"]) -> Velocity:
        return unpad_dofs(model.topology, solve_links(self.factors, torques_only(model, b)).joints)


def _bias_torques_first(factors: Factors, tau: Float[Array, "nb d"], f_ext: BodyForces) -> LinkVector:
    """FD1 and FD2, which differ only in whether the accelerations and wrenches of the bodies are used."""
    model, schedule, bodies = factors.model, factors.schedule, factors.bodies
    drift = drift_accelerations(model, schedule, bodies)
    wrench = drift_wrenches(model, schedule, bodies, drift, f_ext)
    nothing = jnp.zeros_like(f_ext)
    left = tau - matvec(transpose(bodies.motion.subspace), wrench)
    found = solve_links(factors, LinkVector(nothing, nothing, left))
    return LinkVector(found.bodies + drift, found.wrench + wrench, found.joints)


def _bias_wrenches_in_the_filter(factors: Factors, tau: Float[Array, "nb d"], f_ext: BodyForces) -> LinkVector:
    """FD3."""
    drift = drift_accelerations(factors.model, factors.schedule, factors.bodies)
    wrench = factors.bodies.inertia.mv(drift) + _bias(factors, f_ext)
    found = solve_links(factors, LinkVector(jnp.zeros_like(f_ext), wrench, tau))
    return LinkVector(found.bodies + drift, found.wrench, found.joints)


def _local_bias_accelerations(factors: Factors, tau: Float[Array, "nb d"], f_ext: BodyForces) -> LinkVector:
    """FD4."""
    motion = factors.bodies.motion
    world = fictitious_acceleration(factors.model).astype(f_ext.dtype)
    base = from_parents(factors.bodies.tree, jnp.zeros_like(f_ext), world)
    drift = motion.bias + shift_motion(base, motion.offset)
    return solve_links(factors, LinkVector(drift, _bias(factors, f_ext), tau))


_GROUPINGS = {
    1: _bias_torques_first,
    2: _bias_torques_first,
    3: _bias_wrenches_in_the_filter,
    4: _local_bias_accelerations,
}


def _bias(factors: Factors, f_ext: BodyForces) -> Float[Array, "nb 6"]:
    return bias_wrench(factors.bodies.inertia, factors.bodies.motion.angular, f_ext)

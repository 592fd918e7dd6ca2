"""Three groupings of the same sweeps and the same dense system (Rodriguez & Kreutz 1992, part II, sec. 6).

Here `t = tau - C`, and `Omega f = r` stands for `GraspSystem.contact_wrenches`.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import add
from ._grasp_system import GraspSystem, Stacks


class AbstractGraspAlgorithm(eqx.Module):
    """How the accelerations of arms that hold an object are found."""

    @abc.abstractmethod
    def solve(self, system: GraspSystem) -> tuple[Stacks, Float[Array, "l 6"], Float[Array, "l 6"]]:
        """Accelerations of the joints, and what these give to the contacts; the contact wrenches."""


class RCCFD1(AbstractGraspAlgorithm):
    """Free motion of all arms, then its correction (Rodriguez & Kreutz, part II, eq. 6.11).

        free = (1 - H Psi K)^T D^-1 (1 - H Psi K) t,    correction = -(1 - H Psi K)^T D^-1 H psi B f

    Two filters and two smoothers. The sum loses digits where the correction almost cancels the free motion.
    """

    def solve(self, system: GraspSystem) -> tuple[Stacks, Float[Array, "l 6"], Float[Array, "l 6"]]:
        torques = system.torques
        free, tips = system.smooth(system.filter(torques, jnp.zeros_like(system.bias)))
        wrenches = system.contact_wrenches(tips)
        correction, change = system.smooth(system.filter(jax.tree.map(jnp.zeros_like, torques), wrenches))
        return add(free, correction), tips + change, wrenches


class RCCFD2(AbstractGraspAlgorithm):
    """Torques and contact wrenches filtered together (Rodriguez & Kreutz, part II, eq. 6.18).

        qdd = (1 - H Psi K)^T D^-1 (t - H psi (K t + B f)),    K t in the frames of the parents

    Two filters and two smoothers, as `RCCFD1`, but accelerations are not the sum of two.
    """

    def solve(self, system: GraspSystem) -> tuple[Stacks, Float[Array, "l 6"], Float[Array, "l 6"]]:
        _, tips = system.smooth(system.filter(system.torques, jnp.zeros_like(system.bias)))
        wrenches = system.contact_wrenches(tips)
        return *system.smooth(system.filter(system.torques, wrenches)), wrenches


class RCCFD3(AbstractGraspAlgorithm):
    """What contacts leave of the filtered torques (Rodriguez & Kreutz, part II, eq. 6.22).

        eps = (1 - H Psi K) t,    y = (H psi B)^T D^-1 eps,    qdd = (1 - H Psi K)^T D^-1 (eps - H psi B f)

    The two smoothers there are one by linearity. `H psi B` is known from Omega, so that one filter and one smoother
    are left: fewer sweeps than any other.
    """

    def solve(self, system: GraspSystem) -> tuple[Stacks, Float[Array, "l 6"], Float[Array, "l 6"]]:
        left = system.filter(system.torques, jnp.zeros_like(system.bias))
        wrenches = system.contact_wrenches(system.project(left))
        return *system.smooth(jax.tree.map(jnp.subtract, left, system.felt(wrenches))), wrenches

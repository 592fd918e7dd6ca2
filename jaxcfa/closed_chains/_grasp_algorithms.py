"""Several arms and the object that they hold, by the factors of the arms' mass matrices.

Contact wrenches f act on the object, and -f on the arms. With `J` and `A` that take velocities of all joints and of the
object to the contacts, and accelerations in a world that accelerates against gravity (Rodriguez & Kreutz, part II, here
for trees with any joints, in world axes and with classical accelerations):

    M qdd + C + J^T f = tau,    M_o alpha + b_o = A^T f,    relative acceleration at the contacts = 0
    Omega f = relative acceleration without contacts,    Omega = J M^-1 J^T + A M_o^-1 A^T

With `B` from contacts to bodies `J M^-1 J^T = (H psi B)^T D^-1 (H psi B)`, one block for each arm.
"""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Float

from .._small import matvec, symmetrise
from ..spatial import shift_force, shift_motion
from ._arms import Arm
from ._delassus import AbstractDelassus

# One entry for each stack of arms of equal structure.
Stacks = tuple[Float[Array, "_ _ _"], ...]


class GraspSystem(eqx.Module):
    """Arms and object in a state, without contact wrenches, and the equations for these.

    **Fields:** `arms`, in stacks; `contacts` (l, 3) from the object's origin; `transmitted` N (6l, k), an orthonormal
    basis of the contact wrenches; `mobility` of the object, `M_o^-1`; its acceleration `released`, without contacts and
    against gravity; `bias` (l, 6), relative accelerations (arm less object) while neither joints nor object accelerate;
    `omega`, `N^T Omega N`, and the same `prepared` by a solver.
    """

    arms: tuple[Arm, ...]
    contacts: Float[Array, "l 3"]
    transmitted: Float[Array, "m k"]
    mobility: Float[Array, "6 6"]
    released: Float[Array, "6"]
    bias: Float[Array, "l 6"]
    omega: Float[Array, "k k"]
    prepared: AbstractDelassus

    @property
    def torques(self) -> Stacks:
        """`tau - C`."""
        return tuple(arm.torques for arm in self.arms)

    def filter(self, torques: Stacks, wrenches: Float[Array, "l 6"]) -> Stacks:
        """`Arm.filter` of all."""
        return self._each(lambda arm, t, f: arm.filter(t, f), torques, wrenches)

    def smooth(self, left: Stacks) -> tuple[Stacks, Float[Array, "l 6"]]:
        """`Arm.smooth` of all."""
        joints, tips = zip(*self._each(lambda arm, x: arm.smooth(x), left), strict=True)
        return joints, jnp.concatenate(tips)

    def project(self, left: Stacks) -> Float[Array, "l 6"]:
        """`Arm.project` of all."""
        return jnp.concatenate(self._each(lambda arm, x: arm.project(x), left))

    def felt(self, wrenches: Float[Array, "l 6"]) -> Stacks:
        """`H psi B f`, by a product."""
        return self._each(lambda arm, f: jnp.tensordot(f, arm.influence, 1), wrenches)

    def contact_wrenches(self, tips: Float[Array, "l 6"]) -> Float[Array, "l 6"]:
        """`Omega f = r`, where the arms without contact wrenches accelerate their contacts by `tips`.

        Only those that the contacts transmit, `f = N x`, with `N^T H = 0` for free rotations about H. This is
        `f = (Omega^-1 - Omega^-1 H (H^T Omega^-1 H)^-1 H^T Omega^-1) r` (part II, appendix B), which would need an
        inverse of the whole Omega.

        Derivatives are those of the equation, not of the solver: eigenvectors of equal eigenvalues have none. Where the
        matrix is singular they lack internal forces, which no motion feels.
        """
        free = self.transmitted.T @ self.relative_acceleration(tips, self.released).reshape(-1)
        x = lax.custom_linear_solve(lambda x: self.omega @ x, free, lambda _, b: self.prepared.solve(b), symmetric=True)
        return (self.transmitted @ x).reshape(-1, 6)

    def object_acceleration(self, wrenches: Float[Array, "l 6"]) -> Float[Array, "6"]:
        """Of the object under wrenches at the contacts, against gravity."""
        return self.released + matvec(self.mobility, jnp.sum(shift_force(wrenches, self.contacts), axis=0))

    def relative_acceleration(self, tips: Float[Array, "l 6"], held: Float[Array, "6"]) -> Float[Array, "l 6"]:
        """Of the arms at their contacts, less that of the object."""
        return tips + self.bias - at_contacts(held, self.contacts)

    def _each(self, function: Callable[..., Any], *arguments: Stacks | Float[Array, "l 6"]) -> tuple[Any, ...]:
        """`function(arm, ...)` for all arms."""
        ends = np.cumsum([len(arm.point) for arm in self.arms])[:-1].tolist()
        parts = [x if isinstance(x, tuple) else jnp.split(x, ends) for x in arguments]
        return tuple(jax.vmap(function)(*each) for each in zip(self.arms, *parts, strict=True))


def at_contacts(motion: Float[Array, "6"], contacts: Float[Array, "l 3"]) -> Float[Array, "l 6"]:
    """What a motion of the object is at its contacts."""
    return jax.vmap(shift_motion, in_axes=(None, 0))(motion, contacts)


def contact_matrix(
    arms: tuple[Arm, ...],
    contacts: Float[Array, "l 3"],
    transmitted: Float[Array, "m k"],
    mobility: Float[Array, "6 6"],
) -> Float[Array, "k k"]:
    """`N^T Omega N`."""
    blocks = jnp.concatenate([jax.vmap(lambda arm: arm.mobility())(stack) for stack in arms])
    columns = jax.vmap(at_contacts, in_axes=(0, None))(jnp.eye(6, dtype=contacts.dtype), contacts)
    carried = transmitted.T @ columns.reshape(6, -1).T
    return symmetrise(transmitted.T @ block_diag(*blocks) @ transmitted + carried @ mobility @ carried.T)


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
        return jax.tree.map(jnp.add, free, correction), tips + change, wrenches


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

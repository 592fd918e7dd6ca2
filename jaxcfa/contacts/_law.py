"""The law of contact: impulses of compliant points with friction, by their velocities at the end of a step."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import dot, outer, transpose
from ._placed_contacts import PlacedContacts

_RESOLVED = 64  # units of rounding of the velocity that the largest friction makes


class ContactLaw(eqx.Module):
    """The forces of contacts during a step, each by the velocity u (3,) of its point after it, relative to the surface.

    The normal force is that at the end of the step, `k x+ d+` with `x+ = max(0, x - dt u_n)` and
    `d+ = max(0, 1 - d u_n)` (Hunt & Crossley). Friction is `-mu N u_t / sqrt(u_t^2 + s^2)`, with the normal force N at
    the start of the step: so all forces are gradients of convex potentials, and a step has one solution. (The lagged
    model of Castro, Han & Masterjohn, Irrotational contact fields, 2023.)

    **Fields:** unit `normal` (n, 3); depth `x` (n,) at the start [m]; `stiffness` k (n,) [N/m]; `dissipation` d (n,)
    [s/m]; `held` (n,), the largest force of friction [N]; `stiction_velocity` s (n,) [m/s];
    `dt` [s].
    """

    normal: Float[Array, "n 3"]
    depth: Float[Array, "n"]
    stiffness: Float[Array, "n"]
    dissipation: Float[Array, "n"]
    held: Float[Array, "n"]
    stiction_velocity: Float[Array, "n"]
    dt: Float[Array, ""]

    def forces(self, u: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
        """Forces on the bodies of the points [N]."""
        normal, sliding = self._split(u)
        return self.push(normal)[:, None] * self.normal - self._grip(sliding)[:, None] * sliding

    def impulses(self, u: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
        """Their impulses [N s]."""
        return self.dt * self.forces(u)

    def mean(self, impulses: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """The mean forces [N] of impulses during the step, none in a step of no length."""
        return impulses / jnp.where(self.dt == 0, 1, self.dt)

    def slopes(self, u: Float[Array, "n 3"]) -> Float[Array, "n 3 3"]:
        """G >= 0, of which `-G du` are the changes of the impulses [kg]."""
        normal, sliding = self._split(u)
        direction = sliding / self.speed(sliding)[:, None]
        along = self._tangent() - outer(direction, direction)
        along = self._grip(sliding)[:, None, None] * along
        return self.dt * (self.normal_slope(normal)[:, None, None] * self._across() + along)

    def roots(self, u: Float[Array, "n 3"], impulses: Float[Array, "n 3"]) -> Float[Array, "n 3 3"]:
        """Symmetric roots of slopes that also depend on the impulses so far, and are G where these obey the law.

        Friction is held against `-u_t / speed`, whose slope says nothing of what lies beyond the end of sliding. With
        one of the two factors `u_t / speed` in G replaced by the impulse so far, Newton's method takes six steps
        instead of thirty (Chan, Golub & Mulet, A nonlinear primal-dual method for total variation, 1999, in symmetric
        form). Not differentiable where slopes are zero.
        """
        normal, sliding = self._split(u)
        largest = self.dt * self.held[:, None]
        _, friction = self._split(impulses)
        direction, other = sliding / self.speed(sliding)[:, None], -friction / jnp.where(largest > 0, largest, 1)
        other = other / jnp.sqrt(jnp.maximum(dot(other, other), 1))[:, None]
        # The root of a symmetric matrix of two by two: (A + sqrt(det A)) / sqrt(tr A + 2 sqrt(det A)).
        both, product = outer(direction, other), dot(direction, other)
        det = (1 - product / 2) ** 2 - dot(direction, direction) * dot(other, other) / 4
        middle = jnp.sqrt(jnp.maximum(det, 0))
        scale = jnp.sqrt(self.dt * self._grip(sliding) / (2 - product + 2 * middle))[:, None, None]
        along = (1 + middle)[:, None, None] * self._tangent() - (both + transpose(both)) / 2
        return jnp.sqrt(self.dt * self.normal_slope(normal))[:, None, None] * self._across() + scale * along

    def along(self, u: Float[Array, "n 3"], direction: Float[Array, "n 3"]) -> "LawAlongLine":
        """The law where velocities change along a line, by numbers of each contact instead of matrices."""
        return LawAlongLine(self, *self._split(u), *self._split(direction))

    def resolved(self, mobility: Float[Array, "n"]) -> "ContactLaw":
        """The law with stiction velocities that are no less than the precision resolves.

        They are so only of points that are centimetres deep, in single precision. `mobility`, velocities by impulses
        at each point [1/kg], is taken for a constant.
        """
        velocities = mobility * self.dt * self.held
        least = _RESOLVED * float(jnp.finfo(velocities.dtype).eps) * velocities
        return dataclasses.replace(self, stiction_velocity=jnp.maximum(self.stiction_velocity, least))

    def _split(self, u: Float[Array, "n 3"]) -> tuple[Float[Array, "n"], Float[Array, "n 3"]]:
        normal = dot(self.normal, u)
        return normal, u - normal[:, None] * self.normal

    def push(self, normal: Float[Array, "n"]) -> Float[Array, "n"]:
        """Normal forces [N] for normal velocities."""
        depth, damped = self.depth - self.dt * normal, 1 - self.dissipation * normal
        return self.stiffness * jnp.maximum(depth, 0) * jnp.maximum(damped, 0)

    def normal_slope(self, normal: Float[Array, "n"]) -> Float[Array, "n"]:
        """By how much they fall with these [N s/m]."""
        depth, damped = self.depth - self.dt * normal, 1 - self.dissipation * normal
        slope = self.dt * damped + self.dissipation * depth
        return jnp.where((depth > 0) & (damped > 0), slope, 0) * self.stiffness

    def speed(self, sliding: Float[Array, "n 3"]) -> Float[Array, "n"]:
        """The length of sliding velocities, and at least that of stiction [m/s]."""
        return jnp.sqrt(dot(sliding, sliding) + self.stiction_velocity**2)

    def _grip(self, sliding: Float[Array, "n 3"]) -> Float[Array, "n"]:
        return self.held / self.speed(sliding)

    def _across(self) -> Float[Array, "n 3 3"]:
        return outer(self.normal, self.normal)

    def _tangent(self) -> Float[Array, "n 3 3"]:
        return jnp.eye(3, dtype=self.normal.dtype) - self._across()


class LawAlongLine(eqx.Module):
    """The law for velocities u + t w, t being a number.

    **Fields:** the `law`; `normal` (n,) and `sliding` (n, 3) parts of u, and of w: `approach`, `turning`.
    """

    law: ContactLaw
    normal: Float[Array, "n"]
    sliding: Float[Array, "n 3"]
    approach: Float[Array, "n"]
    turning: Float[Array, "n 3"]

    def power(self, t: Float[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The sum `w . impulses(u + t w)`, and the sum `w . G w`, by which it falls with t."""
        normal, sliding = self.normal + t * self.approach, self.sliding + t * self.turning
        speed = self.law.speed(sliding)
        grip, along = self.law.held / speed, dot(sliding, self.turning)
        power = self.law.push(normal) * self.approach - grip * along
        slope = self.law.normal_slope(normal) * self.approach**2
        slope = slope + grip * (dot(self.turning, self.turning) - (along / speed) ** 2)
        return self.law.dt * jnp.sum(power), self.law.dt * jnp.sum(slope)


def law_of_contact(placed: PlacedContacts, u: Float[Array, "n 3"], dt: Float[Array, ""]) -> ContactLaw:
    """The law for a step `dt` [s], which may be zero, from a state in which the points move with u (n, 3) [m/s]."""
    depth, k, d = -placed.gap, placed.stiffness, placed.dissipation
    force = k * jnp.maximum(depth, 0) * jnp.maximum(1 - d * dot(placed.normal, u), 0)
    force = jnp.where(jnp.any(placed.normal != 0, axis=1), force, 0)  # where no direction leads out, nothing holds
    return ContactLaw(placed.normal, depth, k, d, placed.friction * force, placed.stiction_velocity, dt)

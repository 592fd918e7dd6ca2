"""Accelerations of a robot on the ground during one step."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..defaults import choose_schedule
from ..model import Model
from ..motion import motions_at
from ..numerics import jvp_of_perturbed, linear_solution, matmul, matvec, product
from ..one_function import as_one_function
from ..structured._small_spd import LARGEST_IN_BLOCKS, LDL, ldl_factor, ldl_solve
from ..typing import Velocity
from ._ground_contacts import GroundContacts, place_contacts
from ._law import ContactLaw, law_of_contact

_MOST_ITERATIONS = 100  # of Newton's method, which takes two to ten
_RIDGE = 8.0  # of large inner matrices, by their largest element and the precision
_SLOPE, _MOST_BISECTIONS = 0.5, 30  # of the slope along a step what may be left, and how often its bounds are halved


class AbstractAccelerations(eqx.Module):
    """The accelerations of a robot in a state by more torques than those that act anyway, in which they are affine."""

    @abc.abstractmethod
    def __call__(self, more: Float[Array, "nv"]) -> Velocity:
        """The accelerations (nv,)."""

    def with_responses(self, directions: Float[Array, "k nv"]) -> tuple[Velocity, Float[Array, "k nv"]]:
        """The accelerations by no more torques, and their changes by torques in each direction, without derivatives."""
        qdd, respond = jax.linearize(self, jnp.zeros_like(directions[0]))
        return qdd, jax.vmap(respond)(directions)


def accelerations_on_ground(
    model: Model,
    contacts: GroundContacts,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    accelerate: AbstractAccelerations,
    dt: Float[Array, ""],
) -> Velocity:
    """The mean accelerations (nv,) during a step `dt` [s] from the state `q`, `v`, for `v' = v + dt qdd`."""
    jacobian, law = _law(model, contacts, q, v, dt)
    return _solved(accelerate, jacobian, law, v)[0]


@as_one_function
def _law(
    model: Model, contacts: GroundContacts, q: Float[Array, "nq"], v: Float[Array, "nv"], dt: Float[Array, ""]
) -> tuple[Float[Array, "n 3 nv"], ContactLaw]:
    """The Jacobian of the contacts that may push, and their law in a step."""
    placed = place_contacts(model, contacts, motions_at(model, q, None, choose_schedule(model, None)))
    law = law_of_contact(contacts, placed, product(placed.jacobian, v), dt)
    if contacts.most is None:
        return placed.jacobian, law
    which = law.deepest(contacts.most)
    return placed.jacobian[which], law.only(which)


@jax.custom_jvp
def _solved(
    accelerate: AbstractAccelerations, jacobian: Float[Array, "n 3 nv"], law: ContactLaw, v: Float[Array, "nv"]
) -> tuple[Velocity, Float[Array, "n 3"]]:
    """Accelerations, and the impulses of the contacts: `lambda = law(J (v + dt qdd(J^T lambda / dt)))`."""
    qdd, system = _System.of(jacobian, accelerate)
    impulses = _newton(law, system, product(jacobian, v + law.dt * qdd))
    return qdd + product(law.mean(impulses).reshape(-1), system.mobility), impulses


def _solved_jvp(primals: tuple, tangents: tuple) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Differentiates the equation that has been solved: `(1 + G W) dlambda = its derivative at fixed lambda`."""
    qdd, impulses = _solved(*primals)
    accelerate, jacobian, law, v = primals

    def demanded(accelerate: AbstractAccelerations, jacobian: Array, law: ContactLaw, v: Array) -> tuple[Array, Array]:
        qdd = accelerate(_torques(jacobian, law.mean(impulses)))
        return qdd, law.impulses(product(jacobian, v + law.dt * qdd))

    _, (qdd_dot, impulses_dot) = jvp_of_perturbed(demanded, primals, tangents)
    _, respond = jax.linearize(accelerate, jnp.zeros_like(v))
    u = product(jacobian, v + law.dt * qdd)
    slopes = law.slopes(u)

    def residual(x: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
        return x + matvec(slopes, product(jacobian, respond(_torques(jacobian, x))))

    _, system = lax.stop_gradient(_System.of(jacobian, accelerate))
    prepared = _Inverse.of(law.roots(u, law.impulses(u)), system)
    change = linear_solution(residual, impulses_dot, _Inverse.solve, prepared, _Inverse.solve_transposed)
    return (qdd, impulses), (qdd_dot + respond(_torques(jacobian, law.mean(change))), change)


_solved.defjvp(_solved_jvp, symbolic_zeros=True)


def _torques(jacobian: Float[Array, "n 3 nv"], impulses: Float[Array, "n 3"]) -> Velocity:
    return product(impulses.reshape(-1), jacobian.reshape(-1, jacobian.shape[-1]))


class _System(eqx.Module):
    """How velocities answer impulses at the contacts.

    **Fields:** `mobility` (k, nv), `J M^-1`; `delassus` W (k, k), with k = 3n, `J M^-1 J^T` [1/kg].
    """

    mobility: Float[Array, "k nv"]
    delassus: Float[Array, "k k"]

    @staticmethod
    def of(jacobian: Float[Array, "n 3 nv"], accelerate: AbstractAccelerations) -> tuple[Velocity, "_System"]:
        """The system, which has no derivatives, and accelerations without impulses."""
        rows = jacobian.reshape(-1, jacobian.shape[-1])
        qdd, mobility = accelerate.with_responses(rows)
        return qdd, _System(mobility, product(mobility, rows.T))

    def velocities(self, impulses: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
        """Changes of the contacts' velocities by impulses."""
        return product(self.delassus, impulses.reshape(-1)).reshape(impulses.shape)


class _Inverse(eqx.Module):
    """`(1 + G W)^-1 = 1 - R (1 + R W R)^-1 R W`, with the root R of the slopes G: the inner matrix is symmetric.

    **Fields:** `roots` R (n, 3, 3); the `system`; the `factor` of the inner matrix (3n, 3n).
    """

    roots: Float[Array, "n 3 3"]
    system: _System
    factor: LDL

    @staticmethod
    def of(roots: Float[Array, "n 3 3"], system: _System) -> "_Inverse":
        n, size = len(roots), 3 * len(roots)
        half = matmul(roots, system.delassus.reshape(n, 3, size)).reshape(size, n, 3)
        both = matmul(half.transpose(1, 0, 2), roots).transpose(1, 0, 2).reshape(size, size)
        # Where points are deep in the ground, rounding errors are larger than one, which no pivot is below in truth.
        one = 1 + _RIDGE * jnp.finfo(both.dtype).eps * jnp.max(jnp.diagonal(both)) if size > LARGEST_IN_BLOCKS else 1
        factor = ldl_factor(one * jnp.eye(size, dtype=both.dtype) + (both + both.T) / 2, floor=1.0, instead=1.0)
        return _Inverse(roots, system, factor)

    def solve(self, b: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
        return b - self._inner(self.system.velocities(b))

    def solve_transposed(self, b: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
        """`(1 + W G)^-1 b`."""
        return b - self.system.velocities(self._inner(b))

    def _inner(self, b: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
        found = ldl_solve(self.factor, matvec(self.roots, b).reshape(-1))
        return matvec(self.roots, found.reshape(b.shape))


class _Iterate(eqx.Module):
    """**Fields:** `impulses` (n, 3), and the velocities `u` (n, 3) with them; by how much these changed last."""

    impulses: Float[Array, "n 3"]
    u: Float[Array, "n 3"]
    change: Float[Array, ""]
    number: Int[Array, ""]


@as_one_function
def _newton(law: ContactLaw, system: _System, free: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
    """The impulses for which `lambda = law(free + W lambda)`, which minimise `1/2 lambda^T W lambda + potential(u)`.

    Newton's method, with the minimum along each direction: converges from every start. It starts with the law as it is
    near rest, in which everything sticks; of points that only come down to the ground, as it is for free motion, since
    near rest these have no force.
    """
    scale = jnp.maximum(jnp.max(jnp.abs(free)), law.stiction_velocity)
    tolerance = float(jnp.finfo(free.dtype).eps) ** 0.75 * scale

    def unfinished(x: _Iterate) -> Bool[Array, ""]:
        return (x.change > tolerance) & (x.number < _MOST_ITERATIONS)

    def improve(x: _Iterate) -> _Iterate:
        first = x.number == 0
        near = jnp.where(first & (law.depth > 0)[:, None], 0, x.u)
        roots = law.roots(near, x.impulses)
        demanded = law.impulses(near) - matvec(roots, matvec(roots, x.u - near))
        step = _Inverse.of(roots, system).solve(demanded - x.impulses)
        faster = system.velocities(step)
        length = jnp.where(first, 1, _length(law, x, step, faster))
        change = length * faster
        return _Iterate(x.impulses + length * step, x.u + change, jnp.max(jnp.abs(change)), x.number + 1)

    start = _Iterate(jnp.zeros_like(free), free, jnp.full_like(scale, jnp.inf), jnp.zeros((), int))
    return lax.while_loop(unfinished, improve, start).impulses


def _length(law: ContactLaw, x: _Iterate, step: Float[Array, "n 3"], faster: Float[Array, "n 3"]) -> Float[Array, ""]:
    """How far to go along a step: to the minimum nearly, where the slope is zero, but not beyond the step.

    The slope increases, and where sliding ends it jumps: Newton's method, between bounds that are halved at least.
    """
    line = law.along(x.u, faster)
    already, further = jnp.sum(faster * x.impulses), jnp.sum(faster * step)

    def slope(length: Float[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        power, falls = line.power(length)
        return already + length * further - power, further + falls

    def unfinished(state: Any) -> Bool[Array, ""]:
        _, high, length, value, _, number = state
        return (jnp.abs(value) > least) & ((length < high) | (value > 0)) & (number < _MOST_BISECTIONS)

    def narrowed(state: Any) -> Any:
        low, high, length, value, curvature, number = state
        low, high = jnp.where(value < 0, length, low), jnp.where(value < 0, high, length)
        newton = length - value / curvature
        length = jnp.where((low < newton) & (newton < high), newton, (low + high) / 2)
        return low, high, length, *slope(length), number + 1

    zero, one = jnp.zeros_like(already), jnp.ones_like(already)
    at_start = slope(zero)[0]
    rounding = 16 * float(jnp.finfo(zero.dtype).eps) * (jnp.abs(already) + jnp.abs(at_start - already))
    least = jnp.maximum(_SLOPE * jnp.abs(at_start), rounding)
    return lax.while_loop(unfinished, narrowed, (zero, one, one, *slope(one), jnp.zeros((), int)))[2]

"""Accelerations of a robot that touches the ground, or itself, during one step."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree

from ..defaults import choose_schedule
from ..model import Model
from ..motion import motions_at
from ..numerics import jvp_of_perturbed, linear_solution, matmul, matvec, no_tangent, product
from ..one_function import as_one_function
from ..structured._lane_loop import lane_loop
from ..structured._small_spd import LARGEST_IN_BLOCKS, LDL, ldl_factor, ldl_solve
from ..typing import Velocity
from ._law import ContactLaw, law_of_contact
from ._placed_contacts import place_contacts
from ._point_contacts import AbstractContacts

_MOST_ITERATIONS = 100  # of Newton's method, which takes two to ten
_LANES = 32  # members of a batch at a time, of many points
_RIDGE = 8.0  # of large inner matrices, by their largest element and the precision
_SLOPE, _MOST_BISECTIONS = 0.5, 12  # of the slope along a step what may be left, and how often its bounds are halved
_SHORTER = 0.5  # than the step before, if rounding errors hide whether it leads down

_Solution = tuple[Float[Array, "nv"], Float[Array, "n 3"]]  # accelerations, impulses


class AbstractLawOfMotion(eqx.Module):
    """How a robot in a state accelerates by torques, besides those that act anyway: an affine function, `a + P tau`."""

    @abc.abstractmethod
    def respond(self, directions: Float[Array, "k nv"]) -> tuple[Velocity, Float[Array, "k nv"], PyTree]:
        """The accelerations a (nv,), their changes P b by torques b in each direction, and what `solve` needs.

        Derivatives of these do not matter.
        """

    @abc.abstractmethod
    def unbalanced(self, qdd: Float[Array, "nv"], tau: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """`E (a + P tau - qdd)`, with a matrix E such that `E^-1` and `E P` are symmetric. With derivatives."""

    @abc.abstractmethod
    def solve(self, needed: PyTree, b: Float[Array, "nv"]) -> Velocity:
        """`E^-1 b`."""


def accelerations_in_contact(
    model: Model,
    contacts: AbstractContacts,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    motion: AbstractLawOfMotion,
    dt: Float[Array, ""],
) -> Velocity:
    """The mean accelerations (nv,) during a step `dt` [s] from the state `q`, `v`, for `v' = v + dt qdd`."""
    return _solved(motion, *_law(model, contacts, q, v, dt), v)[0]


@as_one_function
def _law(
    model: Model, contacts: AbstractContacts, q: Float[Array, "nq"], v: Float[Array, "nv"], dt: Float[Array, ""]
) -> tuple[Float[Array, "n 3 nv"], ContactLaw]:
    """The Jacobian of the contacts that may push, and their law in a step."""
    motions = motions_at(model, q, None, choose_schedule(model, None))
    placed = place_contacts(model, contacts, motions)
    placed = placed.only(contacts.pushing(-placed.gap))
    jacobian = placed.jacobian(model, motions)
    return jacobian, law_of_contact(placed, product(jacobian, v), dt)


@jax.custom_jvp
def _solved(
    motion: AbstractLawOfMotion, jacobian: Float[Array, "n 3 nv"], law: ContactLaw, v: Float[Array, "nv"]
) -> tuple[Velocity, Float[Array, "n 3"], tuple["_System", PyTree]]:
    """Accelerations and the impulses of contacts, `lambda = law(J (v + dt qdd))`; what was found on the way."""
    rows = jacobian.reshape(-1, jacobian.shape[-1])
    qdd, mobility, needed = motion.respond(rows)
    system = _System(mobility, product(mobility, rows.T))
    impulses = _newton(law.resolved(system.delassus), system, product(jacobian, v + law.dt * qdd))
    return qdd + product(law.mean(impulses).reshape(-1), mobility), impulses, (system, needed)


def _solved_jvp(primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    """Differentiates both equations at what solves them, instead of the way there."""
    qdd, impulses, found = _solved(*primals)
    motion, jacobian, law, v = primals

    def errors(motion: AbstractLawOfMotion, jacobian: Array, law: ContactLaw, v: Array, *solution: Array) -> _Solution:
        qdd, impulses = solution
        demanded = law.resolved(found[0].delassus).impulses(product(jacobian, v + law.dt * qdd))
        return motion.unbalanced(qdd, _torques(jacobian, law.mean(impulses))), demanded - impulses

    def matrix(x: _Solution) -> _Solution:
        _, change = jax.jvp(lambda *solution: errors(*primals, *solution), (qdd, impulses), x)
        return jax.tree.map(jnp.negative, change)

    _, b = jvp_of_perturbed(lambda *x: errors(*x, qdd, impulses), primals, tangents)
    u, law = product(jacobian, v + law.dt * qdd), law.resolved(found[0].delassus)
    linear = _Linearised(motion, jacobian, law, law.slopes(u), law.roots(u, law.impulses(u)), *found)
    qdd_dot, impulses_dot = linear_solution(matrix, b, _Linearised.solve, linear, _Linearised.solve_transposed)
    return (qdd, impulses, found), (qdd_dot, impulses_dot, no_tangent(found))


_solved.defjvp(_solved_jvp, symbolic_zeros=True)


def _torques(jacobian: Float[Array, "n 3 nv"], forces: Float[Array, "n 3"]) -> Float[Array, "nv"]:
    return product(forces.reshape(-1), jacobian.reshape(-1, jacobian.shape[-1]))


class _Linearised(eqx.Module):
    """Both equations about a solution: `E (x - P J^T l / dt)` and `l + dt G J x` for changes x of qdd, l of impulses.

    **Fields:** the law of `motion`; `jacobian` J (n, 3, nv); the `law` of contact, its `slopes` G and `roots`
    (n, 3, 3); the `system`, and what `motion` needs.
    """

    motion: AbstractLawOfMotion
    jacobian: Float[Array, "n 3 nv"]
    law: ContactLaw
    slopes: Float[Array, "n 3 3"]
    roots: Float[Array, "n 3 3"]
    system: "_System"
    needed: PyTree

    def solve(self, b: _Solution) -> _Solution:
        y = self.motion.solve(self.needed, b[0])
        dragged = matvec(self.slopes, product(self.jacobian, self.law.dt * y))
        impulses = _Inverse.of(self.roots, self.system).solve(b[1] - dragged)
        return y + product(self.law.mean(impulses).reshape(-1), self.system.mobility), impulses

    def solve_transposed(self, b: _Solution) -> _Solution:
        answered = self.law.mean(product(self.system.mobility, b[0]).reshape(b[1].shape))
        impulses = _Inverse.of(self.roots, self.system).solve_transposed(b[1] + answered)
        dragged = _torques(self.jacobian, self.law.dt * matvec(self.slopes, impulses))
        return self.motion.solve(self.needed, b[0] - dragged), impulses


class _System(eqx.Module):
    """How velocities answer impulses at the contacts.

    **Fields:** `mobility` (k, nv), `J M^-1`; `delassus` W (k, k), with k = 3n, `J M^-1 J^T` [1/kg].
    """

    mobility: Float[Array, "k nv"]
    delassus: Float[Array, "k k"]

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
        # Where points are deep in the ground, rounding errors are larger than one, which no pivot is below in truth. Of
        # large matrices, which a library factorises, they are kept above it.
        is_large = size > LARGEST_IN_BLOCKS
        one = 1 + _RIDGE * jnp.finfo(both.dtype).eps * jnp.max(jnp.diagonal(both)) if is_large else 1
        matrix = one * jnp.eye(size, dtype=both.dtype) + (both + both.T) / 2
        factor = ldl_factor(matrix) if is_large else ldl_factor(matrix, floor=1.0, instead=1.0)
        return _Inverse(roots, system, factor)

    def solve(self, b: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
        """Refined once: rounding errors make large impulses that move nothing, where points are redundant."""
        x = b - self._inner(self.system.velocities(b))
        rest = b - x - matvec(self.roots, matvec(self.roots, self.system.velocities(x)))
        return x + rest - self._inner(self.system.velocities(rest))

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


def _newton(law: ContactLaw, system: _System, free: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
    """The impulses for which `lambda = law(free + W lambda)`, which minimise `1/2 lambda^T W lambda + potential(u)`."""
    search = _Search(law, system, free)
    if free.size <= LARGEST_IN_BLOCKS:
        return _at_once(search)
    # Libraries factorise one matrix after the other, so that members of a batch need not wait for each other.
    return lane_loop(_Search.unfinished, _Search.improve, search, search.start(), _LANES, steps=1).impulses


class _Search(eqx.Module):
    """Newton's method, with the minimum along each direction: converges from every start.

    It starts with the law as it is near rest, in which everything sticks; of points that only come down to the ground,
    as it is for free motion, since near rest these have no force.

    **Fields:** the `law`, the `system`, and velocities of the points without impulses, `free` (n, 3).
    """

    law: ContactLaw
    system: _System
    free: Float[Array, "n 3"]

    @property
    def tolerance(self) -> Float[Array, ""]:
        """By how much velocities still change in the end."""
        scale = jnp.maximum(jnp.max(jnp.abs(self.free)), jnp.min(self.law.stiction_velocity))
        return float(jnp.finfo(self.free.dtype).eps) ** 0.75 * scale

    def start(self) -> _Iterate:
        """No impulses."""
        free = self.free
        return _Iterate(jnp.zeros_like(free), free, jnp.full_like(free[0, 0], jnp.inf), jnp.zeros((), int))

    def unfinished(self, x: _Iterate) -> Bool[Array, ""]:
        return (x.change > self.tolerance) & (x.number < _MOST_ITERATIONS)

    def improve(self, x: _Iterate) -> _Iterate:
        law, system = self.law, self.system
        first = x.number == 0
        near = jnp.where(first & (law.depth > 0)[:, None], 0, x.u)
        roots = law.roots(near, x.impulses)
        demanded = law.impulses(near) - matvec(roots, matvec(roots, x.u - near))
        step = _Inverse.of(roots, system).solve(demanded - x.impulses)
        faster = system.velocities(step)
        length = jnp.where(first, 1, _length(law, x, step, faster, self.tolerance))
        impulses = x.impulses + length * step
        # Not `x.u + length * faster`, which keeps the rounding errors of impulses that were too large on the way.
        u = self.free + system.velocities(impulses)
        return _Iterate(impulses, u, jnp.max(jnp.abs(length * faster)), x.number + 1)


@as_one_function
def _at_once(search: _Search) -> Float[Array, "n 3"]:
    return lax.while_loop(lambda x: search.unfinished(x), lambda x: search.improve(x), search.start()).impulses


def _length(
    law: ContactLaw, x: _Iterate, step: Float[Array, "n 3"], faster: Float[Array, "n 3"], tolerance: Float[Array, ""]
) -> Float[Array, ""]:
    """How far to go along a step: to the minimum nearly, where the slope is zero, but not beyond the step.

    The slope increases, and where sliding ends it jumps: Newton's method, between bounds that are halved at least. It
    ends where it would change no velocity by more than the tolerance. A slope that is not negative at the start is made
    of rounding errors: of steps that become shorter the whole is gone then, of others nothing.
    """
    line, largest = law.along(x.u, faster), jnp.max(jnp.abs(faster))
    already, further = jnp.sum(faster * x.impulses), jnp.sum(faster * step)

    def slope(length: Float[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        power, falls = line.power(length)
        return already + length * further - power, further + falls

    zero, one = jnp.zeros_like(already), jnp.ones_like(already)
    at_start = slope(zero)[0]

    def unfinished(state: Any) -> Bool[Array, ""]:
        _, high, length, value, curvature, number = state
        steep = (jnp.abs(value) > _SLOPE * jnp.abs(at_start)) & (jnp.abs(value) * largest > tolerance * curvature)
        return steep & ((length < high) | (value > 0)) & (at_start < 0) & (number < _MOST_BISECTIONS)

    def narrowed(state: Any) -> Any:
        low, high, length, value, curvature, number = state
        low, high = jnp.where(value < 0, length, low), jnp.where(value < 0, high, length)
        newton = length - value / curvature
        length = jnp.where((low < newton) & (newton < high), newton, (low + high) / 2)
        return low, high, length, *slope(length), number + 1

    start = jnp.where((at_start < 0) | (largest < _SHORTER * x.change), one, zero)
    return lax.while_loop(unfinished, narrowed, (zero, one, start, *slope(one), jnp.zeros((), int)))[2]

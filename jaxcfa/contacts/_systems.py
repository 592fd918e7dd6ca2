"""Equations of motion and of contact together, solved in as few unknowns as there are: impulses, or velocities.

With the slopes G of the law, a step of Newton's method from impulses x to those that are `demanded - G u`, where
velocities change by u, solves a matrix of the size of W, or one of the size of M (Woodbury):

    (1 + G W) dx = demanded - x            (M + J^T G J) dv = J^T demanded - M (v - v0)

The former is small where a robot stands on its feet, the latter where many points of few bodies touch.
"""

import abc
from functools import partial

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..numerics import matmul, matvec, product
from ..one_function import as_one_function
from ..structured._small_spd import LARGEST_IN_BLOCKS, LDL, ldl_factor, ldl_solve
from ..typing import Velocity
from ._law import ContactLaw

_RIDGE = 8.0  # of large inner matrices, by their largest element and the precision

Unknowns = Float[Array, "n 3"] | Float[Array, "nv"]
Solution = tuple[Float[Array, "nv"], Float[Array, "n 3"]]  # accelerations, impulses


class AbstractLawOfMotion(eqx.Module):
    """How a robot in a state accelerates by torques, besides those that act anyway: an affine function, `a + P tau`."""

    @abc.abstractmethod
    def respond(self, directions: Float[Array, "k nv"]) -> tuple[Velocity, Float[Array, "k nv"], PyTree]:
        """The accelerations a (nv,), their changes P b by torques b in each direction, and what `solve` needs.

        Derivatives of these do not matter.
        """

    def respond_by_root(self) -> tuple[Velocity, Float[Array, "nv nv"]] | None:
        """The accelerations, and a matrix R with `P = R^T R = E^-1`, if there is one. Derivatives do not matter."""
        return None

    @abc.abstractmethod
    def unbalanced(self, qdd: Float[Array, "nv"], tau: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """`E (a + P tau - qdd)`, with a matrix E such that `E^-1` and `E P` are symmetric. With derivatives."""

    @abc.abstractmethod
    def solve(self, needed: PyTree, b: Float[Array, "nv"]) -> Velocity:
        """`E^-1 b`."""


class Step(eqx.Module):
    """A step of Newton's method.

    **Fields:** by what the `unknowns`, the `impulses` and the velocities `u` (n, 3) of contacts change; the derivatives
    along the step of `1/2 x^T W x`, of impulses x, the first and the second.
    """

    unknowns: Unknowns
    impulses: Float[Array, "n 3"]
    u: Float[Array, "n 3"]
    slope: Float[Array, ""]
    curvature: Float[Array, ""]


class AbstractSystem(eqx.Module):
    """How the velocities of contacts answer impulses, `W = J P J^T` (3n, 3n) [1/kg], in factors."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """How many unknowns there are."""

    @abc.abstractmethod
    def mobility(self) -> Float[Array, "n"]:
        """The largest diagonal element of W at each contact."""

    @abc.abstractmethod
    def start(self) -> Unknowns:
        """The unknowns without impulses."""

    @abc.abstractmethod
    def velocities(self, unknowns: Unknowns) -> Float[Array, "n 3"]:
        """By what the contacts' velocities change."""

    @abc.abstractmethod
    def joint_velocities(self, unknowns: Unknowns) -> Velocity:
        """By what those of the joints do (nv,)."""

    @abc.abstractmethod
    def step(
        self, roots: Float[Array, "n 3 3"], demanded: Float[Array, "n 3"], unknowns: Unknowns, x: Float[Array, "n 3"]
    ) -> Step:
        """From impulses x to those that are `demanded - G u`, where velocities change by u: with the roots of G."""

    @abc.abstractmethod
    def solve(self, linear: "Linearised", b: Solution) -> Solution:
        """Solves the equations of `linear`."""

    @abc.abstractmethod
    def solve_transposed(self, linear: "Linearised", b: Solution) -> Solution:
        """Solves the transposed equations."""


class Linearised(eqx.Module):
    """Both equations about a solution: `E (x - P J^T l / dt)` and `l + dt G J x` for changes x of qdd, l of impulses.

    **Fields:** the law of `motion`; `jacobian` J (n, 3, nv); the `law` of contact, its `slopes` G and `roots`
    (n, 3, 3); the `system`.
    """

    motion: AbstractLawOfMotion
    jacobian: Float[Array, "n 3 nv"]
    law: ContactLaw
    slopes: Float[Array, "n 3 3"]
    roots: Float[Array, "n 3 3"]
    system: AbstractSystem

    def solve(self, b: Solution) -> Solution:
        return self.system.solve(self, b)

    def solve_transposed(self, b: Solution) -> Solution:
        return self.system.solve_transposed(self, b)

    def dragged(self, x: Float[Array, "nv"]) -> Float[Array, "n 3"]:
        """`dt G J x`."""
        return matvec(self.slopes, product(self.jacobian, self.law.dt * x))

    def dragged_transposed(self, y: Float[Array, "n 3"]) -> Float[Array, "nv"]:
        """`dt J^T G y`."""
        return torques_of(self.jacobian, self.law.dt * matvec(self.slopes, y))


def torques_of(jacobian: Float[Array, "n 3 nv"], forces: Float[Array, "n 3"]) -> Float[Array, "nv"]:
    """`J^T f`."""
    return product(forces.reshape(-1), jacobian.reshape(-1, jacobian.shape[-1]))


# Of batches of small matrices XLA:CPU has the library make one after the other, which takes five times as long.
_small_product = partial(as_one_function, derivatives=False)(product)


class ByImpulses(AbstractSystem):
    """The unknowns are the impulses.

    **Fields:** `responses` (3n, nv), `J P`; `delassus` W (3n, 3n); what the law of motion `needed`.
    """

    responses: Float[Array, "k nv"]
    delassus: Float[Array, "k k"]
    needed: PyTree

    @staticmethod
    def of(motion: AbstractLawOfMotion, jacobian: Float[Array, "n 3 nv"]) -> tuple[Velocity, "ByImpulses"]:
        """The accelerations without contacts, and the system."""
        rows = jacobian.reshape(-1, jacobian.shape[-1])
        qdd, responses, needed = motion.respond(rows)
        return qdd, ByImpulses(responses, _small_product(responses, rows.T), needed)

    @property
    def size(self) -> int:
        return len(self.delassus)

    def mobility(self) -> Float[Array, "n"]:
        return jnp.max(jnp.diagonal(self.delassus).reshape(-1, 3), axis=1)

    def start(self) -> Unknowns:
        return jnp.zeros((self.size // 3, 3), self.delassus.dtype)

    def velocities(self, unknowns: Unknowns) -> Float[Array, "n 3"]:
        return product(self.delassus, unknowns.reshape(-1)).reshape(unknowns.shape)

    def joint_velocities(self, unknowns: Unknowns) -> Velocity:
        return product(unknowns.reshape(-1), self.responses)

    def step(
        self, roots: Float[Array, "n 3 3"], demanded: Float[Array, "n 3"], unknowns: Unknowns, x: Float[Array, "n 3"]
    ) -> Step:
        change = self._inverse(roots).solve(demanded - x)
        u = self.velocities(change)
        return Step(change, change, u, jnp.sum(u * x), jnp.sum(u * change))

    def solve(self, linear: Linearised, b: Solution) -> Solution:
        y = linear.motion.solve(self.needed, b[0])
        impulses = self._inverse(linear.roots).solve(b[1] - linear.dragged(y))
        return y + self.joint_velocities(linear.law.mean(impulses)), impulses

    def solve_transposed(self, linear: Linearised, b: Solution) -> Solution:
        answered = linear.law.mean(product(self.responses, b[0]).reshape(b[1].shape))
        impulses = self._inverse(linear.roots).solve_transposed(b[1] + answered)
        return linear.motion.solve(self.needed, b[0] - linear.dragged_transposed(impulses)), impulses

    def _inverse(self, roots: Float[Array, "n 3 3"]) -> "_Inverse":
        n, size = len(roots), self.size
        half = matmul(roots, self.delassus.reshape(n, 3, size)).reshape(size, n, 3)
        both = matmul(half.transpose(1, 0, 2), roots).transpose(1, 0, 2).reshape(size, size)
        return _Inverse(roots, self, _factor((both + both.T) / 2))


class _Inverse(eqx.Module):
    """`(1 + G W)^-1 = 1 - R (1 + R W R)^-1 R W`, with the root R of the slopes G: the inner matrix is symmetric.

    **Fields:** `roots` R (n, 3, 3); the `system`; the `factor` of the inner matrix (3n, 3n).
    """

    roots: Float[Array, "n 3 3"]
    system: ByImpulses
    factor: LDL

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


class ByVelocities(AbstractSystem):
    """The unknowns z (nv,) make velocities `R^T z` of joints; their square is twice the kinetic energy of these.

    **Fields:** `root` R (nv, nv), with `P = R^T R`; `rows` A (n, 3, nv), `J R^T`, of which `A z` are the velocities of
    contacts, and `A^T x` is what impulses x make of z.
    """

    root: Float[Array, "nv nv"]
    rows: Float[Array, "n 3 nv"]

    @staticmethod
    def of(motion: AbstractLawOfMotion, jacobian: Float[Array, "n 3 nv"]) -> "tuple[Velocity, ByVelocities] | None":
        """The same, where inertia has a root."""
        found = motion.respond_by_root()
        if found is None:
            return None
        qdd, root = found
        return qdd, ByVelocities(root, _small_product(jacobian, root.T))

    @property
    def size(self) -> int:
        return len(self.root)

    def mobility(self) -> Float[Array, "n"]:
        return jnp.max(jnp.sum(self.rows**2, axis=2), axis=1)

    def start(self) -> Unknowns:
        return jnp.zeros(self.size, self.root.dtype)

    def velocities(self, unknowns: Unknowns) -> Float[Array, "n 3"]:
        return product(self.rows, unknowns)

    def joint_velocities(self, unknowns: Unknowns) -> Velocity:
        return product(unknowns, self.root)

    def step(
        self, roots: Float[Array, "n 3 3"], demanded: Float[Array, "n 3"], unknowns: Unknowns, x: Float[Array, "n 3"]
    ) -> Step:
        change = ldl_solve(self._matrix(roots), torques_of(self.rows, demanded) - unknowns)
        u = self.velocities(change)
        impulses = demanded - matvec(roots, matvec(roots, u)) - x
        return Step(change, impulses, u, jnp.sum(change * unknowns), jnp.sum(change * change))

    def solve(self, linear: Linearised, b: Solution) -> Solution:
        x = self._accelerations(linear, b[0] + torques_of(linear.jacobian, linear.law.mean(b[1])))
        return x, b[1] - linear.dragged(x)

    def solve_transposed(self, linear: Linearised, b: Solution) -> Solution:
        x = self._accelerations(linear, b[0] - linear.dragged_transposed(b[1]))
        return x, b[1] + linear.law.mean(product(linear.jacobian, x))

    def _accelerations(self, linear: Linearised, torques: Float[Array, "nv"]) -> Velocity:
        return product(ldl_solve(self._matrix(linear.roots), product(self.root, torques)), self.root)

    def _matrix(self, roots: Float[Array, "n 3 3"]) -> LDL:
        """`1 + A^T G A`, factorised."""
        half = matmul(roots, self.rows).reshape(-1, self.size)
        return _factor(product(half.T, half))


def _factor(matrix: Float[Array, "k k"]) -> LDL:
    """`1 + matrix`, factorised, for one that is positive semidefinite.

    Where points are deep in the ground, rounding errors are larger than one, which no pivot is below in truth. Of large
    matrices, which a library factorises, they are kept above it.
    """
    size = len(matrix)
    if size <= LARGEST_IN_BLOCKS:
        return ldl_factor(matrix + jnp.eye(size, dtype=matrix.dtype), floor=1.0, instead=1.0)
    one = 1 + _RIDGE * jnp.finfo(matrix.dtype).eps * jnp.max(jnp.diagonal(matrix))
    return ldl_factor(matrix + one * jnp.eye(size, dtype=matrix.dtype))


def system_of(motion: AbstractLawOfMotion, jacobian: Float[Array, "n 3 nv"]) -> tuple[Velocity, AbstractSystem]:
    """The accelerations (nv,) without contacts, and the system of fewer unknowns."""
    n, _, nv = jacobian.shape
    found = ByVelocities.of(motion, jacobian) if nv < 3 * n else None
    return ByImpulses.of(motion, jacobian) if found is None else found

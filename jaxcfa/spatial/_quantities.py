"""Spatial quantities by components: motions, forces, poses and inertias, in world axes about a body's own origin.

So the recursions of dynamics read as in the textbooks, and compile to plain loops over a batch; see `_algebra`. Motions
and forces that stand for the columns of a matrix have components (d,); a scalar quantity then acts on each column.
"""

import abc
import operator
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import sum_of, symmetrise
from ._algebra import (
    AnyVector,
    Matrix,
    Scalar,
    Symmetric,
    Vector,
    ZeroVector,
    cross_columns,
    outer,
    skew,
    symmetric_outer,
)
from ._transform import Transform

# Not `typing.Self`, which beartype takes in classes that it decorates only.
Vectors = TypeVar("Vectors", bound="AbstractSpatialVector")


class AbstractSpatialVector(eqx.Module):
    """What motions and forces share: two vectors, `[angular; linear]` or `[moment; force]`."""

    @property
    @abc.abstractmethod
    def parts(self) -> tuple[AnyVector, AnyVector]:
        """The two."""

    @classmethod
    def of(cls: type[Vectors], array: Float[Array, "*n 6"]) -> Vectors:
        """From an array whose last axis has both."""
        return cls(*_two_vectors(array, -1))

    @classmethod
    def columns(cls: type[Vectors], array: Float[Array, "*n 6 d"]) -> Vectors:
        """The columns of a matrix."""
        return cls(*_two_vectors(array, -2))

    @classmethod
    def zero(cls: type[Vectors], dtype: jnp.dtype) -> Vectors:
        """Two vectors of zeros."""
        return cls(_zero(dtype), _zero(dtype))

    def array(self) -> Float[Array, "*n 6"]:
        """Both along a last axis."""
        return _stacked(*self.parts)

    def matrix(self) -> Float[Array, "*n 6 d"]:
        """Columns as a matrix."""
        return _stacked(*self.parts, axis=-2)

    def __add__(self: Vectors, other: Vectors) -> Vectors:
        return type(self)(*map(operator.add, self.parts, other.parts))

    def __sub__(self: Vectors, other: Vectors) -> Vectors:
        return type(self)(*map(operator.sub, self.parts, other.parts))

    def __mul__(self: Vectors, factor: Scalar) -> Vectors:
        return type(self)(*(part * factor for part in self.parts))

    def rotated(self: Vectors, by: Matrix) -> Vectors:
        """The same in other axes."""
        return type(self)(*(by @ part for part in self.parts))

    def combined(self: Vectors, x: Float[Array, "d"]) -> Vectors:
        """The sum of the columns times x."""
        return type(self)(*(_combined(part, x) for part in self.parts))


class Motion(AbstractSpatialVector):
    """Velocity or acceleration of a body: that of its axes, and that of the point that it is taken about.

    Either may be known to be zero, as the linear part for joints that only turn.
    """

    angular: AnyVector
    linear: AnyVector

    @property
    def parts(self) -> tuple[AnyVector, AnyVector]:
        return self.angular, self.linear

    def at(self, r: Vector) -> "Motion":
        """The same about a point of the body displaced by r: `[w; v + w x r]`."""
        return Motion(self.angular, self.linear + self.angular.cross(r))

    def cross(self, other: "Motion") -> "Motion":
        """Rate of a motion that is fixed to what moves with this one: `[w x a; w x b + v x a]`."""
        w, v = self.parts
        return Motion(w.cross(other.angular), w.cross(other.linear) + v.cross(other.angular))

    def cross_force(self, force: "Force") -> "Force":
        """Rate of a force that is fixed to what moves with this motion: `[w x n + v x f; w x f]`."""
        w, v = self.parts
        return Force(w.cross(force.moment) + v.cross(force.force), w.cross(force.force))

    def dense(self) -> "Motion":
        """The same with explicit zeros for parts that are known to be zero."""
        one = jax.tree.leaves(self)[0]
        return Motion(_dense(self.angular, one), _dense(self.linear, one))

    def dot(self, force: "Force") -> Float[Array, "*n"]:
        """Power of a force."""
        return self.angular.dot(force.moment) + self.linear.dot(force.force)


class Force(AbstractSpatialVector):
    """A wrench, or momentum: its moment about a point, and the force."""

    moment: Vector
    force: Vector

    @property
    def parts(self) -> tuple[AnyVector, AnyVector]:
        return self.moment, self.force

    def carried(self, r: Vector) -> "Force":
        """The same about a point displaced by -r, such as the parent's origin: `[n + r x f; f]`."""
        return Force(self.moment + r.cross(self.force), self.force)


class Pose(eqx.Module):
    """Pose of a frame B in a frame A: `x_A = rotation x_B + translation`."""

    rotation: Matrix
    translation: Vector

    @staticmethod
    def of(transform: Transform) -> "Pose":
        """From arrays."""
        return Pose(Matrix.of(transform.rotation), Vector.of(transform.translation))

    @staticmethod
    def identity(dtype: jnp.dtype) -> "Pose":
        """The pose of a frame in itself."""
        return Pose(Symmetric(*jnp.array([1, 0, 0, 1, 0, 1], dtype)).full, _zero(dtype))

    def arrays(self) -> Transform:
        """The pose as arrays."""
        return Transform(self.rotation.array(), self.translation.array())

    def __matmul__(self, other: "Pose") -> "Pose":
        return Pose(self.rotation @ other.rotation, self.rotation @ other.translation + self.translation)


class RigidInertia(eqx.Module):
    """Inertia of a rigid body about a point: mass, first moment and second moment."""

    mass: Float[Array, "*n"]
    moment: Vector
    rotational: Symmetric

    @staticmethod
    def of_com(mass: Float[Array, "*n"], com: Float[Array, "*n 3"], inertia: Float[Array, "*n 3 3"]) -> "RigidInertia":
        """From mass, centre of mass and the inertia about it, whose symmetric part is taken."""
        centre = Vector.of(com)
        moment = centre * mass
        # So that derivatives by inertias are symmetric.
        about_com = Symmetric.of(symmetrise(inertia))
        return RigidInertia(mass, moment, about_com + _steiner(centre, moment))

    @staticmethod
    def zero(dtype: jnp.dtype) -> "RigidInertia":
        """The inertia of no body."""
        o = jnp.zeros((), dtype)
        return RigidInertia(o, Vector(o, o, o), Symmetric(o, o, o, o, o, o))

    def rotated(self, by: Matrix) -> "RigidInertia":
        """The same in other axes."""
        return RigidInertia(self.mass, by @ self.moment, self.rotational.congruent(by))

    def carried(self, r: Vector) -> "RigidInertia":
        """The same about a point displaced by -r, such as the parent's origin."""
        displaced = r * self.mass
        cross = symmetric_outer(self.moment, r) + symmetric_outer(r, self.moment)
        # J + 2 (h . r) - (h r^T + r h^T) + m (r . r - r r^T)
        square = 2 * self.moment.dot(r) + displaced.dot(r)
        rotational = (self.rotational - cross - symmetric_outer(displaced, r)).plus_diagonal(square)
        return RigidInertia(self.mass, self.moment + displaced, rotational)

    def __add__(self, other: "RigidInertia") -> "RigidInertia":
        return RigidInertia(self.mass + other.mass, self.moment + other.moment, self.rotational + other.rotational)

    def __matmul__(self, motion: Motion) -> Force:
        """Momentum `[J w + h x v; m v - h x w]`."""
        w, v = motion.angular, motion.linear
        return Force(self.rotational @ w + self.moment.cross(v), v * self.mass - self.moment.cross(w))

    def gyroscopic(self, w: Vector) -> Force:
        """What turning takes: `[w x J w; w x (w x h)]`."""
        return Force(w.cross(self.rotational @ w), w.cross(w.cross(self.moment)))


class TurnedForces(eqx.Module):
    """How the wrench of forces changes that turn about the points r that they act on, and couples n with them.

    `theta -> [sum of r x (theta x f) + theta x n; theta x sum of f]`. Of the momenta of all parts of a body this is the
    matrix B of inertia and velocity V, `2 B m = V x* (I m) - I (V x m) + m x* (I V)`: `B m` depends on the angular part
    of m only. Of wrenches fixed in the world it says how they change in axes that turn. Sums are those of systems.

    **Fields:** `couple`, the matrix of the moment; `force`, the sum of the forces.
    """

    couple: Matrix
    force: Vector

    @staticmethod
    def of_wrench(wrench: Force, r: Vector) -> "TurnedForces":
        """A force and a couple at the point r."""
        moment = outer(-wrench.force, r) + skew(-wrench.moment)
        return TurnedForces(_plus_diagonal(moment, r.dot(wrench.force)), wrench.force)

    @staticmethod
    def of_momentum(inertia: "RigidInertia", motion: Motion) -> "TurnedForces":
        """The momenta of the parts of a body."""
        w, v, h = motion.angular, motion.linear, inertia.moment
        # Integrals of the momenta's components times the points', with `1/2 tr(J) 1 - J` those of the points' alone.
        j = inertia.rotational
        negative = j.plus_diagonal(-0.5 * (j.xx + j.yy + j.zz)).full
        moment = cross_columns(w, negative) - outer(v, h)
        return TurnedForces(_plus_diagonal(moment, v.dot(h)), v * inertia.mass - h.cross(w))

    def __matmul__(self, theta: Vector) -> Force:
        return Force(self.couple @ theta, theta.cross(self.force))

    def transposed(self, motion: Motion) -> Vector:
        """`theta . y` is the power on a motion of the change by theta."""
        return self.couple.T @ motion.angular + self.force.cross(motion.linear)


class ArticulatedInertia(eqx.Module):
    """`[[angular, coupling], [coupling^T, linear]]`, symmetric: 21 numbers."""

    angular: Symmetric
    coupling: Matrix
    linear: Symmetric

    @staticmethod
    def zero(dtype: jnp.dtype) -> "ArticulatedInertia":
        """The inertia of no body."""
        o = jnp.zeros((), dtype)
        nothing = Symmetric(o, o, o, o, o, o)
        return ArticulatedInertia(nothing, nothing.full, nothing)

    @staticmethod
    def of(array: Float[Array, "*n 6 6"]) -> "ArticulatedInertia":
        """From a symmetric matrix."""
        return ArticulatedInertia(
            Symmetric.of(array[..., :3, :3]), Matrix.of(array[..., :3, 3:]), Symmetric.of(array[..., 3:, 3:])
        )

    def array(self) -> Float[Array, "*n 6 6"]:
        """The inertia as a matrix."""
        top = jnp.concatenate([self.angular.array(), self.coupling.array()], axis=-1)
        return jnp.concatenate([top, jnp.concatenate([self.coupling.T.array(), self.linear.array()], axis=-1)], axis=-2)

    def plus(self, body: RigidInertia) -> "ArticulatedInertia":
        """The sum with the inertia of a rigid body."""
        return ArticulatedInertia(
            self.angular + body.rotational,
            self.coupling + skew(body.moment),
            self.linear.plus_diagonal(body.mass),
        )

    def __add__(self, other: "ArticulatedInertia") -> "ArticulatedInertia":
        return ArticulatedInertia(
            self.angular + other.angular, self.coupling + other.coupling, self.linear + other.linear
        )

    def __matmul__(self, motion: Motion) -> Force:
        w, v = motion.angular, motion.linear
        return Force(self.angular @ w + self.coupling @ v, self.coupling.T @ w + self.linear @ v)

    def less_outer(self, a: Force, b: Force) -> "ArticulatedInertia":
        """`I - a b^T`, where that is symmetric."""
        return ArticulatedInertia(
            self.angular - symmetric_outer(a.moment, b.moment),
            self.coupling - outer(a.moment, b.force),
            self.linear - symmetric_outer(a.force, b.force),
        )

    def carried(self, r: Vector) -> "ArticulatedInertia":
        """The same about a point displaced by -r: `X^T I X` with `X = [[1, 0], [-[r]x, 1]]`."""
        coupling = self.coupling + cross_columns(r, self.linear.full)
        lever = cross_columns(r, self.coupling.T) + cross_columns(r, coupling.T).T
        return ArticulatedInertia(self.angular + Symmetric.upper(lever), coupling, self.linear)


def _plus_diagonal(matrix: Matrix, value: Scalar) -> Matrix:
    x, y, z = matrix.x, matrix.y, matrix.z
    return Matrix(Vector(x.x + value, x.y, x.z), Vector(y.x, y.y + value, y.z), Vector(z.x, z.y, z.z + value))


def _zero(dtype: jnp.dtype) -> Vector:
    o = jnp.zeros((), dtype)
    return Vector(o, o, o)


def _two_vectors(array: Array, axis: int) -> tuple[Vector, Vector]:
    """The first three and the last three of six components along an axis."""
    components = jnp.unstack(array, axis=axis)
    return Vector(*components[:3]), Vector(*components[3:])


def _stacked(*parts: AnyVector, axis: int = -1) -> Array:
    one = jax.tree.leaves(parts)[0]
    dense = [_dense(part, one) for part in parts]
    return jnp.stack([c for part in dense for c in (part.x, part.y, part.z)], axis)


def _dense(vector: AnyVector, like: Array) -> Vector:
    return Vector(*[jnp.zeros_like(like)] * 3) if isinstance(vector, ZeroVector) else vector


def _combined(columns: AnyVector, x: Float[Array, "d"]) -> AnyVector:
    if isinstance(columns, ZeroVector):
        return columns
    each = jnp.unstack(x)
    return Vector(*(sum_of(map(operator.mul, jnp.unstack(c), each)) for c in (columns.x, columns.y, columns.z)))


def _steiner(r: Vector, h: Vector) -> Symmetric:
    """`(r . h) 1 - h r^T`."""
    o = jnp.zeros_like(r.x)
    return (Symmetric(o, o, o, o, o, o) - symmetric_outer(h, r)).plus_diagonal(r.dot(h))

"""Standard mechanisms of any size: chains and random trees."""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np

from ..joints import (
    AbstractJoint,
    Cylindrical,
    Free,
    Helical,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Universal,
)
from ..numerics._options import check_instance, checked_key, known_numbers, positive_integer
from ..typing import Key
from ._assemble import STANDARD_GRAVITY, assemble
from ._given import as_coordinates, as_finite, as_mass
from ._model import Model

_EXAMPLES: tuple[AbstractJoint, ...] = (
    Revolute((0.0, 0.0, 1.0)),
    Prismatic((1.0, 0.0, 0.0)),
    Helical((0.0, 1.0, 0.0), 0.1),
    Cylindrical((0.0, 0.0, 1.0)),
    Universal((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)),
    Planar(),
    Spherical(),
)


def chain(
    n: int,
    joint: AbstractJoint | None = None,
    *,
    length: float = 0.1,
    mass: float = 1.0,
    radius: float | None = None,
    floating_base: bool = False,
    armature: float = 0.0,
    damping: float = 0.0,
    axes: np.ndarray | None = None,
    gravity=STANDARD_GRAVITY,
    dtype=None,
) -> Model:
    """An open chain of `n` equal slender rods lying along their x axes, each jointed to the tip of the previous one.

    **Arguments:** `joint`: of every link; revolute about y by default. `length` [m], `mass` [kg] and `radius` [m] (a
    tenth of the length by default) of a rod. `floating_base`: the first link moves freely instead. `armature` [kg m^2,
    kg] and `damping` [N m s/rad, N s/m] of every degree of freedom, or (nv,), one for each. `axes` (n, 3): one axis for
    every joint, for joints that have a field `axis`. `gravity` (3,) [m/s^2], world axes. `dtype`: of the arrays. Time
    and memory are linear in `n`.

    **Returns:** a model with bodies `link0`, `link1`, ... and a frame `tip` at the end of the last one.
    """
    n = positive_integer("n", n)
    joint = Revolute((0.0, 1.0, 0.0)) if joint is None else joint
    check_instance("joint", joint, AbstractJoint, "an instance of a joint type")
    length, mass = float(as_finite(length, (), "length of a rod")), as_mass(mass, "a rod")
    stacked = jax.tree.map(lambda x: np.broadcast_to(x, (n, *np.shape(x))), joint)
    if axes is not None:
        stacked = _with_axes(stacked, known_numbers("axes", axes), n)
    bodies = np.arange(n)
    joints, group_bodies = [stacked], [bodies]
    if floating_base:
        rest = jax.tree.map(lambda x: x[1:], stacked)
        joints, group_bodies = [Free(), rest][: 1 + (n > 1)], [bodies[:1], bodies[1:]][: 1 + (n > 1)]
    radius = 0.1 * length if radius is None else float(as_finite(radius, (), "radius of a rod"))
    axial, transverse = mass * radius**2 / 2, mass * (3 * radius**2 + length**2) / 12
    translation = np.zeros((n, 3))
    translation[1:, 0] = length
    return assemble(
        bodies - 1,
        joints,
        group_bodies,
        rotation=np.eye(3),
        translation=translation,
        mass=np.full(n, mass),
        com=np.array([length / 2, 0.0, 0.0]),
        inertia=np.diag([axial, transverse, transverse]),
        body_names=[f"link{i}" for i in range(n)],
        joint_names=[f"joint{i}" for i in range(n)],
        dofs=_of_all(joints, group_bodies, armature=armature, damping=damping),
        frame_names=["tip"],
        frame_bodies=[n - 1],
        frame_translation=np.array([length, 0.0, 0.0]),
        gravity=gravity,
        dtype=dtype,
    )


def random_tree(
    n: int,
    key: Key,
    joint_types: Sequence[type[AbstractJoint] | AbstractJoint] | None = None,
    *,
    branching: float = 0.5,
    roots: int = 1,
    floating_base: bool = False,
    armature: float = 0.0,
    gravity=STANDARD_GRAVITY,
    dtype=None,
) -> Model:
    """A random tree of `n` bodies with random axes, placements and physically consistent inertias.

    **Arguments:** `joint_types`: joint classes or instances to draw from; all but `Free` by default. Instances keep
    their parameters, classes get random axes. `branching`: probability that a body hangs on a random earlier body
    instead of the previous one; 0 is a chain, 1 a random recursive tree of logarithmic depth. `roots`: number of
    trees. `floating_base`: the first body moves freely. `armature` [kg m^2, kg] of every degree of freedom, or (nv,),
    one for each. `gravity` (3,) [m/s^2], world axes. `dtype`: of the arrays.

    **Returns:** a model with bodies `body0`, `body1`, ...

    **Raises:** `ValueError` for numbers out of range, an invalid random key, and joint types that cannot be drawn.
    """
    n = positive_integer("n", n)
    if not 0 <= float(as_finite(branching, (), "branching")) <= 1:
        raise ValueError(f"branching is a probability between 0 and 1, got {branching}.")
    if not 1 <= positive_integer("roots", roots, or_zero=True) <= n:
        raise ValueError(f"roots must be between 1 and the number of bodies {n}, got {roots}.")
    rng = np.random.default_rng(np.asarray(jax.random.key_data(checked_key(key))).astype(np.uint32).tolist())
    joints, group_bodies = _random_joints(_example_joints(joint_types), n, floating_base, rng)
    mass = rng.uniform(0.5, 2.0, n)
    return assemble(
        _random_parents(n, branching, roots, rng),
        joints,
        group_bodies,
        rotation=_random_rotations(n, rng),
        translation=rng.uniform(-0.5, 0.5, (n, 3)),
        mass=mass,
        com=rng.uniform(-0.1, 0.1, (n, 3)),
        inertia=_random_inertias(mass, rng),
        body_names=[f"body{i}" for i in range(n)],
        joint_names=[f"joint{i}" for i in range(n)],
        dofs=_of_all(joints, group_bodies, armature=armature),
        gravity=gravity,
        dtype=dtype,
    )


def _with_axes(joint: AbstractJoint, axes: np.ndarray, n: int) -> AbstractJoint:
    if not hasattr(joint, "axis"):
        raise ValueError(f"axes are given, but {type(joint).__name__} has no field `axis`.")
    if axes.shape != (n, 3):
        raise ValueError(f"axes must have shape ({n}, 3), got {axes.shape}.")
    lengths = np.linalg.norm(axes, axis=1, keepdims=True)
    if not np.all(np.isfinite(axes)) or np.any(lengths < 1e-12):
        raise ValueError("axes must be finite and not zero.")
    return eqx.tree_at(lambda j: j.axis, joint, axes / lengths)


def _of_all(joints: list[AbstractJoint], group_bodies: list[np.ndarray], **dofs) -> dict[str, np.ndarray]:
    """Parameters of all degrees of freedom (nv,), one number for each of them or one for all."""
    nv = sum(joint.nv * len(bodies) for joint, bodies in zip(joints, group_bodies, strict=True))
    return {key: as_coordinates(key, value, nv, "the joints") for key, value in dofs.items()}


class _Kind(NamedTuple):
    """A joint to copy, and whether to give the copies random axes."""

    joint: AbstractJoint
    randomise: bool


def _example_joints(joint_types: Sequence[type[AbstractJoint] | AbstractJoint] | None) -> list[_Kind]:
    if joint_types is None:
        return [_Kind(joint, True) for joint in _EXAMPLES]
    if not joint_types:
        raise ValueError("joint_types must name at least one joint type.")
    examples = {type(joint): joint for joint in (*_EXAMPLES, Free())}
    kinds = []
    for entry in joint_types:
        if isinstance(entry, AbstractJoint):
            kinds.append(_Kind(entry, False))
        elif entry in examples:
            kinds.append(_Kind(examples[entry], True))
        else:
            known = ", ".join(sorted(kind.__name__ for kind in examples))
            raise ValueError(f"No example of joint type {entry!r} is known; pass an instance, or one of {known}.")
    return kinds


def _random_joints(
    kinds: list[_Kind], n: int, floating_base: bool, rng: np.random.Generator
) -> tuple[list[AbstractJoint], list[np.ndarray]]:
    choice = rng.integers(len(kinds), size=n)
    if floating_base:
        choice[0] = -1
    joints: list[AbstractJoint] = [Free()] if floating_base else []
    group_bodies = [np.array([0])] if floating_base else []
    for number, kind in enumerate(kinds):
        bodies = np.flatnonzero(choice == number)
        if len(bodies):
            joints.append(_copies(kind, len(bodies), rng))
            group_bodies.append(bodies)
    return joints, group_bodies


def _copies(kind: _Kind, n: int, rng: np.random.Generator) -> AbstractJoint:
    """`n` stacked copies of a joint. Its fields that are axes become columns of random rotations."""
    frames = _random_rotations(n, rng)
    axes = iter(frames.transpose(2, 0, 1))

    def leaf(x):
        is_axis = kind.randomise and np.shape(x) == (3,)
        return next(axes) if is_axis else np.broadcast_to(x, (n, *np.shape(x)))

    return jax.tree.map(leaf, kind.joint)


def _random_parents(n: int, branching: float, roots: int, rng: np.random.Generator) -> np.ndarray:
    previous = np.arange(n) - 1
    earlier = np.floor(rng.uniform(size=n) * np.arange(n)).astype(np.int64)
    parents = np.where(rng.uniform(size=n) < branching, earlier, previous)
    parents[0] = -1
    if roots > 1:
        parents[rng.choice(np.arange(1, n), roots - 1, replace=False)] = -1
    return parents


def _random_rotations(n: int, rng: np.random.Generator) -> np.ndarray:
    rotations = np.linalg.qr(rng.normal(size=(n, 3, 3)))[0]
    return rotations * np.linalg.det(rotations)[:, None, None]


def _random_inertias(mass: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Inertias of random mass distributions: J = tr(C) 1 - C with a random positive definite C."""
    n = len(mass)
    axes = _random_rotations(n, rng)
    spread = rng.uniform(0.03, 0.15, (n, 3)) ** 2 * mass[:, None]
    covariance = np.einsum("nij,nj,nkj->nik", axes, spread, axes)
    return np.trace(covariance, axis1=1, axis2=2)[:, None, None] * np.eye(3) - covariance

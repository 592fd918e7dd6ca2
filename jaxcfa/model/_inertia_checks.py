"""What is wrong with the masses and inertias of a mechanism. On the host, outside of JAX."""

import warnings

import numpy as np
from jax.typing import ArrayLike

from ._model import Model, require_single

_TOLERANCE = 1e-6  # of the largest moment: rounding in files and in single precision is no mistake


def doubtful_inertias(mass: np.ndarray, inertia: np.ndarray) -> dict[str, np.ndarray]:
    """What makes inertias impossible for rigid bodies: descriptions, and for which bodies (n,) they hold.

    **Arguments:** `mass` (n,); `inertia` (n, 3, 3), about the centre of mass.
    """
    mass, inertia = np.asarray(mass, dtype=float), np.asarray(inertia, dtype=float)
    finite = np.isfinite(mass) & np.all(np.isfinite(inertia), axis=(-2, -1))
    moments = np.linalg.eigvalsh(np.where(finite[:, None, None], inertia, 0.0))
    size = np.max(np.abs(moments), axis=-1, initial=0.0)
    indefinite = moments[:, 0] < -_TOLERANCE * size
    unbalanced = moments[:, 0] + moments[:, 1] < (1 - _TOLERANCE) * moments[:, 2]
    return {
        "mass or inertia that is not finite": ~finite,
        "negative mass": finite & (mass < 0),
        "inertia without mass": (mass == 0) & (size > 0),
        "inertia that is indefinite": indefinite,
        "inertia that breaks the triangle inequality": unbalanced & ~indefinite,
    }


def warn_of_inertia(inertia: ArrayLike, what: str) -> None:
    """In the words of `inertia_problems`, of what the inertia alone says: the mass may be given next."""
    problems = doubtful_inertias(np.ones(1), np.asarray(inertia)[None])
    for problem in (problem for problem, where in problems.items() if where[0]):
        moments = np.linalg.eigvalsh(np.asarray(inertia, float)).tolist()
        warnings.warn(f"{what}: {problem}, its principal moments being {moments}.", stacklevel=3)


def inertia_problems(model: Model) -> list[str]:
    """One line for each body and each reason why no rigid body can have its mass and inertia; empty if all is well.

    Bodies include what is attached to them by fixed joints, so that problems of single links may cancel.

    **Raises:** `ValueError` for a batch of models.
    """
    require_single(model, "inertia_problems")
    problems = doubtful_inertias(np.asarray(model.mass), np.asarray(model.inertia))
    return [
        f"body {model.body_names[body]!r}: {problem}"
        for problem, where in problems.items()
        for body in np.flatnonzero(where)
    ]


def massless_subtrees(model: Model) -> list[str]:
    """Names of the bodies whose joints move no inertia at all, so that the mass matrix is singular everywhere.

    These are the bodies that have neither mass nor inertia, nor has any body that they carry, and whose joint has a
    degree of freedom without armature. (The mass matrix may also be singular for other reasons, such as a point mass
    on a joint's axis.)

    **Raises:** `ValueError` for a batch of models.
    """
    require_single(model, "massless_subtrees")
    topology = model.topology
    has_inertia = (np.asarray(model.mass) != 0) | np.any(np.asarray(model.inertia) != 0, axis=(-2, -1))
    first, last = topology.intervals
    counts = np.zeros(topology.nb + 1, dtype=np.int64)
    counts[first + 1] = has_inertia
    counts = np.cumsum(counts)
    massless = counts[last] == counts[first]
    free = np.zeros(topology.nb, dtype=bool)
    free[topology.dof_bodies[np.asarray(model.armature) == 0]] = True
    return [topology.body_names[body] for body in np.flatnonzero(massless & free)]

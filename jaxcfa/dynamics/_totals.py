"""What sums over all bodies have in common."""

import jax
import jax.numpy as jnp
import numpy as np

from ..model import Model, join_bodies
from ..model._arguments import is_concrete
from ..motion import BodyMotions
from ..spatial import Force, RigidInertia, Vector


def bodies_as_components(model: Model, motions: BodyMotions) -> tuple[RigidInertia, Vector, Force]:
    """Inertias, origins and momenta (about these) of all bodies (nb), world axes.

    Origins are relative to that of the first body, so that levers lose no digits far from the world's origin.
    """
    inertia, momentum = join_bodies(
        model.topology, [(link.inertia, link.inertia @ link.velocity) for link in motions.links]
    )
    return inertia, Vector.of(motions.origins + (motions.roots - motions.roots[:1])), momentum


def mean_position(inertia: RigidInertia, position: Vector) -> Vector:
    """Centre of mass of all bodies."""
    total = jnp.sum(inertia.mass)
    return jax.tree.map(lambda x: jnp.sum(x) / total, position * inertia.mass + inertia.moment)


def check_mass(model: Model) -> None:
    """Raises `ValueError` if it is known that nothing that moves has mass."""
    if is_concrete(model.mass) and not np.any(np.asarray(model.mass)):
        raise ValueError("The model has no moving body with mass, so its centre of mass is not defined.")

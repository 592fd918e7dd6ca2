"""Masses that become parts of bodies."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..spatial import steiner
from ._model import Model


def with_parts(
    model: Model,
    bodies: np.ndarray,
    mass: Float[Array, "n"],
    com: Float[Array, "n 3"],
    inertia: Float[Array, "n 3 3"],
) -> Model:
    """The model with rigid parts added to its bodies; one body may get several.

    About centres of mass throughout, as inertias about distant origins would lose digits. Derivatives are finite for
    masses of zero.

    **Arguments:** `bodies` (n,): which one gets each part. `com`: centres of mass in the body's frame [m]; `inertia`
    about them, in its axes [kg m^2].
    """
    if not len(bodies):
        return model
    hosts, slots = np.unique(bodies, return_inverse=True)
    slots = np.concatenate([np.arange(len(hosts)), slots])

    def total(x: Array) -> Array:
        return jnp.zeros((len(hosts), *x.shape[1:]), x.dtype).at[slots].add(x)

    mass = jnp.concatenate([model.mass[hosts], mass])
    com = jnp.concatenate([model.com[hosts], com])
    inertia = jnp.concatenate([model.inertia[hosts], inertia])
    together = total(mass)
    massless = (together == 0)[:, None]
    centre = jnp.where(
        massless, model.com[hosts], total(mass[:, None] * com) / jnp.where(massless, 1, together[:, None])
    )
    lever = com - centre[slots]
    about_centre = total(inertia + steiner(lever, mass[:, None] * lever))
    return eqx.tree_at(
        lambda m: (m.mass, m.com, m.inertia),
        model,
        (
            jnp.asarray(model.mass).at[hosts].set(together),
            jnp.asarray(model.com).at[hosts].set(centre),
            jnp.asarray(model.inertia).at[hosts].set(about_centre),
        ),
    )

"""Where contacts are, how they move, and how hard they push."""

from functools import partial

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..compilation import jit_of_one_state
from ..defaults import choose_schedule
from ..model import Model
from ..model._arguments import as_arrays
from ..motion import motions_at
from ..numerics import product
from ..one_function import as_one_function
from ..typing import ConfigurationLike, VelocityLike
from ._law import law_of_contact
from ._placed_contacts import place_contacts
from ._point_contacts import AbstractContacts, check_contacts


class ContactState(eqx.Module):
    """Contacts in a state, in world axes.

    **Fields:** `gap` (n,) to the surface [m], negative in it; `position` (n, 3) of the points, on spheres those nearest
    to the surface [m]; unit `normal` (n, 3), out of the surface; `velocity` (n, 3) of the points, relative to the body
    that carries the surface [m/s]; `force` (n, 3) on the bodies of the points [N].
    """

    gap: Float[Array, "n"]
    position: Float[Array, "n 3"]
    normal: Float[Array, "n 3"]
    velocity: Float[Array, "n 3"]
    force: Float[Array, "n 3"]


def contact_state(model: Model, contacts: AbstractContacts, q: ConfigurationLike, v: VelocityLike) -> ContactState:
    """Gaps, velocities and forces of contacts in a state.

    After a step that is not too long the normal forces are those during it. Friction of what sticks follows from
    velocities of less than the stiction velocity, and in float32 has few digits.

    **Arguments:** `contacts` of `ground_contacts` or `body_contacts`, or their sum, whose order results have; `q`
    (nq,); `v` (nv,) [rad/s, m/s].

    **Raises:** `ValueError` for wrong shapes, and contacts that are not of this model.
    """
    q, v = as_arrays(model, q=q, v=v)
    check_contacts(model, contacts)
    return _contact_state(model, contacts, q, v)


@partial(jit_of_one_state, jit=eqx.filter_jit)
@as_one_function
def _contact_state(
    model: Model, contacts: AbstractContacts, q: Float[Array, "nq"], v: Float[Array, "nv"]
) -> ContactState:
    motions = motions_at(model, q, None, choose_schedule(model, None))
    placed = place_contacts(model, contacts, motions)
    u = product(placed.jacobian(model, motions), v)
    law = law_of_contact(placed, u, jnp.zeros((), u.dtype))
    which = contacts.pushing(law.depth)
    pushes = jnp.any(jnp.asarray(which)[:, None] == jnp.arange(contacts.count), axis=0)
    force = jnp.where(pushes[:, None], law.forces(u), 0)
    return ContactState(placed.gap, placed.position, placed.normal, u, force)

"""Where contacts are, how they move, and how hard they push."""

from functools import partial

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..compilation import jit_of_one_state
from ..defaults import choose_schedule
from ..model import Model
from ..model._arguments import as_arrays, check_positive
from ..motion import motions_at
from ..numerics import product
from ..one_function import as_one_function
from ..typing import ConfigurationLike, VelocityLike
from ._law import law_of_contact
from ._placed_contacts import PlacedContacts, place_contacts
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

    Forces that acted in a step of a simulation are `contact_forces`: those of the state after it are nearly the same
    along the normals, but not the friction of what sticks, which follows from velocities of less than the stiction
    velocity. Turned a little further, the points of a robot in motion are faster by far.

    **Arguments:** `contacts` of `ground_contacts` or `body_contacts`, or their sum, whose order results have; `q`
    (nq,); `v` (nv,) [rad/s, m/s].

    **Raises:** `ValueError` for wrong shapes, and contacts that are not of this model.
    """
    q, v = as_arrays(model, q=q, v=v)
    check_contacts(model, contacts)
    return _contact_state(model, contacts, q, v)


def contact_forces(
    model: Model,
    contacts: AbstractContacts,
    q: ConfigurationLike,
    v: VelocityLike,
    v_after: VelocityLike,
    dt: ArrayLike,
) -> Float[Array, "n 3"]:
    """Forces of contacts in a step of a simulation, in world axes, on the bodies of the points [N].

    They are the law of the contacts for velocities after the step, in the configuration before it, by which the step
    was found. Of a motion of `rollout`:

        forces = jax.vmap(lambda q, v, v_after: contact_forces(model, contacts, q, v, v_after, dt))
        forces(motion.q[:-1], motion.v[:-1], motion.v[1:])

    In float32 the friction of what sticks has few digits: it follows from velocities of less than the stiction
    velocity.

    **Arguments:** `contacts` as in the simulation; `q` (nq,) and `v` (nv,) before the step; `v_after` (nv,) after it
    [rad/s, m/s]; `dt` [s].

    **Raises:** `ValueError` for wrong shapes, contacts that are not of this model, and a `dt` that is not positive.
    """
    q, v, v_after = as_arrays(model, q=q, v=v, v_after=v_after)
    check_contacts(model, contacts)
    check_positive("dt", dt)
    return _contact_forces(model, contacts, q, v, v_after, jnp.asarray(dt, q.dtype))


@partial(jit_of_one_state, jit=eqx.filter_jit)
@as_one_function
def _contact_forces(
    model: Model,
    contacts: AbstractContacts,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    v_after: Float[Array, "nv"],
    dt: Float[Array, ""],
) -> Float[Array, "n 3"]:
    placed, jacobian = _placed(model, contacts, q)
    return _forces(contacts, placed, product(jacobian, v), product(jacobian, v_after), dt)


@partial(jit_of_one_state, jit=eqx.filter_jit)
@as_one_function
def _contact_state(
    model: Model, contacts: AbstractContacts, q: Float[Array, "nq"], v: Float[Array, "nv"]
) -> ContactState:
    placed, jacobian = _placed(model, contacts, q)
    u = product(jacobian, v)
    force = _forces(contacts, placed, u, u, jnp.zeros((), u.dtype))
    return ContactState(placed.gap, placed.position, placed.normal, u, force)


def _placed(
    model: Model, contacts: AbstractContacts, q: Float[Array, "nq"]
) -> tuple[PlacedContacts, Float[Array, "n 3 nv"]]:
    """The contacts in a configuration, and their Jacobian."""
    motions = motions_at(model, q, None, choose_schedule(model, None))
    placed = place_contacts(model, contacts, motions)
    return placed, placed.jacobian(model, motions)


def _forces(
    contacts: AbstractContacts,
    placed: PlacedContacts,
    u: Float[Array, "n 3"],
    u_after: Float[Array, "n 3"],
    dt: Float[Array, ""],
) -> Float[Array, "n 3"]:
    """Those of a step in which the points' velocities change from u to `u_after`, of those that may push in it."""
    law = law_of_contact(placed, u, dt)
    which = contacts.pushing(law.depth)
    pushes = jnp.any(jnp.asarray(which)[:, None] == jnp.arange(contacts.count), axis=0)
    return jnp.where(pushes[:, None], law.forces(u_after), 0)

"""Accelerations of a robot that touches the ground, or itself, during one step."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..defaults import choose_schedule
from ..model import Model
from ..motion import motions_at
from ..numerics import jvp_of_perturbed, linear_solution, no_tangent, product, with_rule
from ..one_function import as_one_function
from ..typing import Velocity
from ._law import ContactLaw, law_of_contact
from ._newton import newton
from ._placed_contacts import place_contacts
from ._point_contacts import AbstractContacts
from ._systems import AbstractLawOfMotion, AbstractSystem, Linearised, Solution, system_of, torques_of


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


def _found(
    motion: AbstractLawOfMotion, jacobian: Float[Array, "n 3 nv"], law: ContactLaw, v: Float[Array, "nv"]
) -> tuple[Velocity, Float[Array, "n 3"], AbstractSystem]:
    """Accelerations and the impulses of contacts, `lambda = law(J (v + dt qdd))`; what was found on the way."""
    qdd, system = system_of(motion, jacobian)
    found = newton(law.resolved(system.mobility()), system, product(jacobian, v + law.dt * qdd))
    return qdd + law.mean(system.joint_velocities(found.unknowns)), found.impulses, system


def _rates(primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    """Differentiates both equations at what solves them, instead of the way there."""
    qdd, impulses, system = _solved(*primals)
    motion, jacobian, law, v = primals
    mobility = system.mobility()

    def errors(motion: AbstractLawOfMotion, jacobian: Array, law: ContactLaw, v: Array, *solution: Array) -> Solution:
        qdd, impulses = solution
        demanded = law.resolved(mobility).impulses(product(jacobian, v + law.dt * qdd))
        return motion.unbalanced(qdd, torques_of(jacobian, law.mean(impulses))), demanded - impulses

    def matrix(x: Solution) -> Solution:
        _, change = jax.jvp(lambda *solution: errors(*primals, *solution), (qdd, impulses), x)
        return jax.tree.map(jnp.negative, change)

    _, b = jvp_of_perturbed(lambda *x: errors(*x, qdd, impulses), primals, tangents)
    u, law = product(jacobian, v + law.dt * qdd), law.resolved(mobility)
    linear = Linearised(motion, jacobian, law, law.slopes(u), law.roots(u, law.impulses(u)), system)
    tangents = linear_solution(matrix, b, Linearised.solve, linear, Linearised.solve_transposed)
    return (qdd, impulses, system), (*tangents, no_tangent(system))


_solved = with_rule(_found, _rates)

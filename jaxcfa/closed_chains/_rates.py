"""How the equations of motion of a mechanism with constraints change with the state and the parameters.

By the state that is in closed form: bodies are displaced as `dynamics/_inverse_tangent.py` finds them, and constraints
see nothing else of it. Their forces are wrenches on the bodies, so that no Jacobian is differentiated.
"""

import equinox as eqx
from jaxtyping import Array, Float

from ..dynamics import Loads
from ..dynamics._inverse import accelerations_and_forces, newton_euler
from ..dynamics._inverse_tangent import Direction, InverseMotion, displacements, torques_tangent
from ..model import Model
from ..motion import BodyMotions, motions_at
from ..numerics import add, instantiate, is_perturbed, jvp_of_perturbed, no_tangent, picked
from ..structured import AbstractSchedule
from ._relations import Bodies, Constraints, Places, forces_of_constraints, motion_of_constraints
from ._stabilization import Baumgarte, stabilising

Equations = tuple[Constraints, Model, Baumgarte | None, Array, Array, Loads]


def missing_rate(
    schedule: AbstractSchedule,
    known: BodyMotions | None,
    qdd: Float[Array, "nv"],
    multipliers: Float[Array, "k"],
    primals: Equations,
    tangents: Equations,
) -> tuple[Float[Array, "nv"], Float[Array, "k"]]:
    """The tangents of `M qdd + bias - J^T lambda - tau` and of `J qdd + (dJ/dt) v` with what stabilisation demands.

    At fixed `qdd` and `multipliers` (lambda), at which both are zero. `primals` and `tangents`: constraints, model,
    stabilisation, q, v and loads; `known`: the motions in that state, if they are.
    """
    constraints, model, stabilization, q, v, loads = primals
    constraints_dot, model_dot, stabilization_dot, q_dot, v_dot, loads_dot = tangents
    q_dot, v_dot = instantiate((q_dot, v_dot))
    motions = motions_at(model, q, v, schedule, known)
    roots = motions.topology.roots

    def forces_and_violation(
        constraints: Constraints, stabilization: Baumgarte | None, bodies: Bodies, q: Array, v: Array
    ) -> tuple[Array, Array, Array]:
        motion = motion_of_constraints(model, constraints, bodies, q, v, qdd)
        wrenches, torques = forces_of_constraints(model, constraints, bodies.places, q, multipliers)
        return wrenches, torques, motion.acceleration + stabilising(stabilization, motion)

    seen = Bodies.of(motions, qdd), q, v
    wrenches, _, _ = forces_and_violation(constraints, stabilization, *seen)
    moved, totals = accelerations_and_forces(model, motions, qdd, loads.f_ext + wrenches)
    where = InverseMotion.of(motions, moved, totals)
    along = Direction(q_dot, v_dot, *no_tangent((qdd, loads.f_ext)))
    displaced = displacements(model, motions, qdd, where, along)
    pose_dot, velocity_dot, acceleration_dot = displaced.of_bodies(motions, where)
    root_dot = picked(pose_dot.translation, roots)
    places_dot = Places(pose_dot, pose_dot.translation - root_dot, root_dot)
    bodies_dot = Bodies(places_dot, velocity_dot, acceleration_dot, no_tangent(seen[0].columns))
    _, (wrenches_dot, torques_dot, violation_dot) = jvp_of_perturbed(
        forces_and_violation,
        (constraints, stabilization, *seen),
        (constraints_dot, stabilization_dot, bodies_dot, q_dot, v_dot),
    )
    along = Direction(q_dot, v_dot, along.qdd, wrenches_dot + instantiate(loads_dot.f_ext))
    torque_dot = torques_tangent(model, motions, where, along, displaced)[0] - torques_dot - instantiate(loads_dot.tau)
    if is_perturbed(model_dot.armature):
        torque_dot = torque_dot + model_dot.armature * qdd
    if not is_perturbed(without_armature(model_dot)):
        return torque_dot, violation_dot

    def of_model(model: Model) -> tuple[Array, Array]:
        again = motions_at(model, q, v, schedule)
        wrenches, torques, violation = forces_and_violation(constraints, stabilization, Bodies.of(again, qdd), q, v)
        return newton_euler(model, again, qdd, loads.f_ext + wrenches)[0] - torques, violation

    _, by_model = jvp_of_perturbed(of_model, (model,), (without_armature(model_dot),))
    return add((torque_dot, violation_dot), by_model)


def without_armature(model_dot: Model) -> Model:
    """The tangent of a model, but for that of the armature, which simulations add damping to."""
    return eqx.tree_at(lambda m: m.armature, model_dot, no_tangent(instantiate(model_dot.armature)))

"""Every public function that takes a model, as one table that tests of all functions go through."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, PyTree

import jaxcfa
from jaxcfa import (
    ABA,
    CFA,
    JSI,
    ExplicitEuler,
    FactoredFD,
    ImplicitMidpoint,
    LogCholesky,
    Model,
    RungeKutta4,
    Transform,
    add_frames,
    add_motors,
    add_payload,
    add_servos,
    add_thrusters,
    add_velocity_servos,
    attach,
    body_contacts,
    body_motions,
    closed_chains,
    ground_contacts,
    lock_joints,
    rename,
    scale,
    subtree,
    with_body,
    with_joint,
)
from jaxcfa.closed_chains import RCCFD1, RCCFD2, RCCFD3, Baumgarte, Direct, Grasp, Projection, Proximal, RigidObject
from jaxcfa.contacts import AbstractContacts, FlatGround, Sphere
from jaxcfa.structured import CyclicReduction, Doubling, LeafToRoot
from mechanisms import State

DT = 0.01


class Function(NamedTuple):
    """A public function: `evaluate(model, state)` gives arrays, which depend on these fields of the state.

    All depend on the model. `qdd` stands for torques, controls and velocities that follow q too.
    """

    evaluate: Callable[[Model, State], PyTree]
    arguments: tuple[str, ...]


def last(model: Model) -> int:
    return model.nb - 1


def products(model: Model, x: State) -> list[Array]:
    """All that a mass operator can do."""
    operator = jaxcfa.mass_operator(model, x.q)
    of_vectors = (operator.mv, operator.solve, operator.sqrt_mv, operator.sqrt_transpose_mv, operator.inv_sqrt_mv)
    of_vectors = (*of_vectors, operator.inv_sqrt_transpose_mv, operator.quadratic_form)
    values = [function(x.v) for function in (*of_vectors, operator.inverse_quadratic_form)]
    return [*values, operator.logdet(), operator.inverse_diagonal(), operator.inverse_as_matrix()]


def solution(model: Model, x: State, **options) -> list[Array]:
    operator = jaxcfa.mass_operator(model, x.q, **options)
    return [operator.solve(x.v), operator.inv_sqrt_mv(x.v)]


def operational_space(model: Model, x: State, **options) -> list[Array]:
    found = jaxcfa.operational_space_inertia(model, x.q, [last(model)], **options)
    return [found.inverse_inertia, found.inertia, found.dynamically_consistent_inverse]


def with_motions(function: Callable) -> Callable[[Model, State], PyTree]:
    """The function of (model, state, motions) with the motions of the same state."""
    return lambda model, x: function(model, x, body_motions(model, x.q, x.v))


def of_motions(model: Model, x: State, motions: jaxcfa.BodyMotions) -> list[PyTree]:
    """The functions that take motions, but for those of dynamics."""
    return [
        jaxcfa.forward_kinematics(model, x.q, motions=motions),
        jaxcfa.frame_pose(model, x.q, last(model), motions=motions),
        jaxcfa.body_velocities(model, x.q, x.v, motions=motions),
        jaxcfa.body_accelerations(model, x.q, x.v, x.qdd, motions=motions),
        jaxcfa.frame_velocity(model, x.q, x.v, last(model), motions=motions),
        jaxcfa.frame_acceleration(model, x.q, x.v, x.qdd, last(model), motions=motions),
        jaxcfa.jacobian(model, x.q, last(model), motions=motions),
        jaxcfa.jacobian_dot_v(model, x.q, x.v, last(model), motions=motions),
        jaxcfa.relative_pose(model, x.q, last(model), 0, motions=motions),
        jaxcfa.relative_velocity(model, x.q, x.v, last(model), 0, motions=motions),
        jaxcfa.relative_jacobian(model, x.q, last(model), 0, motions=motions),
        jaxcfa.wrench_at(model, x.q, [last(model), 0], x.f_ext[:2], motions=motions),
        jaxcfa.generalized_forces(model, x.q, x.f_ext, motions=motions),
        jaxcfa.mass_matrix(model, x.q, motions=motions),
        jaxcfa.center_of_mass(model, x.q, motions=motions),
        jaxcfa.momentum(model, x.q, x.v, motions=motions),
        *totals(model, x, motions),
        jaxcfa.kinetic_energy(model, x.q, x.v, motions=motions),
        jaxcfa.potential_energy(model, x.q, motions=motions),
        jaxcfa.regressor(model, x.q, x.v, x.qdd, motions=motions),
    ]


def totals(model: Model, x: State, motions: jaxcfa.BodyMotions | None = None) -> list[Array]:
    """Matrices and rates of momentum and of centres of mass."""
    return [
        jaxcfa.center_of_mass_velocity(model, x.q, x.v, motions=motions),
        jaxcfa.center_of_mass_jacobian(model, x.q, motions=motions),
        jaxcfa.centroidal_momentum_matrix(model, x.q, motions=motions),
        jaxcfa.centroidal_momentum_bias(model, x.q, x.v, motions=motions),
        jaxcfa.coriolis_matrix(model, x.q, x.v, motions=motions),
        jaxcfa.gravity_forces(model, x.q, motions=motions),
        jaxcfa.subtree_masses(model),
        jaxcfa.subtree_centers_of_mass(model, x.q, motions=motions),
    ]


def other_inertias(model: Model, x: State) -> Array:
    """Inverse dynamics of a model whose inertias went through both kinds of parameters."""
    model = jaxcfa.with_inertial_parameters(model, jaxcfa.inertial_parameters(model))
    return jaxcfa.inverse_dynamics(LogCholesky.of(model).apply(model), *x)


def combined(model: Model, x: State) -> Array:
    both = jaxcfa.combine([model, model], ["left ", "right "])
    return jaxcfa.inverse_dynamics(both, *(jnp.concatenate([y, y]) for y in x))


def edited(model: Model, x: State) -> list[PyTree]:
    """The model on its own last body, the first joint of which is locked; its first body and what it carries."""
    other = with_joint(with_body(model, 0, mass=2 * model.mass[0]), 0, damping=0.3)
    both = attach(add_payload(scale(model, 1.1, 0.9), last(model), 0.5), last(model), rename(other, "other {}".format))
    both = add_frames(both, {"a frame": (0, Transform.identity(model.dtype))})
    root, own = model.nb, slice(model.nv)
    rest = [jnp.concatenate([y, y[model.v_slice(0).stop :]]) for y in x[1:3]]
    locked = lock_joints(both, root, jnp.concatenate([x.q, x.q]))
    tau = jaxcfa.inverse_dynamics(locked, jnp.concatenate([x.q, x.q[model.q_slice(0).stop :]]), *rest)
    part, driven = subtree(model, last(model)), add_servos(model, 2 * model.mass[0], model.mass[0])
    turned, turning = add_motors(model, 1 + model.mass[0]), add_velocity_servos(model, model.mass[0])
    laws = [driven.actuators.gain, driven.damping, turned.actuators.gain, turning.actuators.bias]
    return [tau[own], part.spatial_inertia, part.mass, *laws]


def pushed(model: Model, x: State) -> Array:
    """By a thruster on the last body, beside the actuators that there are."""
    model = add_thrusters(model, last(model), model.com[0], -2 * model.com[0], names="thruster")
    return jaxcfa.actuator_forces(model, x.q, x.v, jnp.ones(len(model.actuators.names), model.dtype))


def closure(model: Model, rod: bool = False) -> tuple[closed_chains.AbstractConstraint, ...]:
    """The model's own constraints, or a point, and on request a rod, that close it."""
    ends = (model, 0, last(model))
    rods = [closed_chains.distance(*ends, 0.7, "rod")] if rod else []
    return model.constraints or (closed_chains.connect(*ends, "point"), *rods)


def constrained(model: Model, x: State, rod: bool = False, **options) -> closed_chains.ConstrainedSolution:
    return closed_chains.constrained_forward_dynamics(model, closure(model, rod), *x, **options)


def on_a_ball(model: Model) -> AbstractContacts:
    """The last body, on the ground, and deep in a ball that the first one carries."""
    law = {"stiffness": 5.0, "dissipation": 0.1, "stiction_velocity": 1.0}
    return on_soft_ground(model) + body_contacts(model, last(model), 0, Sphere(3.0), [0.1, 0.0, 0.0], **law)


def on_soft_ground(model: Model) -> AbstractContacts:
    """The last body, deep in a ground that gives way."""
    ground = FlatGround(point=[0.0, 0.0, 3.0])
    return ground_contacts(
        model, last(model), [0.1, 0.0, 0.0], ground=ground, stiffness=5.0, dissipation=0.1, stiction_velocity=1.0
    )


def grasp(model: Model, x: State, algorithm: closed_chains.AbstractGraspAlgorithm) -> closed_chains.GraspSolution:
    """Two arms in the same state that hold an object with their last bodies."""
    box = RigidObject(0.5, jnp.array([0.1, 0.0, 0.2]), 0.1 * jnp.eye(3))
    hand, identity = model.body_names[-1], Transform.identity(model.dtype)
    velocity = jaxcfa.body_velocities(model, x.q, x.v)[last(model)]
    q, v, tau, f_ext = ([y, y] for y in x)
    grasps = [Grasp.rigid(hand, identity), Grasp.ball(hand, identity)]
    pose = jaxcfa.frame_pose(model, x.q, hand)
    return closed_chains.grasp_forward_dynamics(
        [model, model], box, grasps, q, v, pose, velocity, tau, f_ext, x.f_ext[0], algorithm
    )


def forward(method: jaxcfa.AbstractForwardDynamics | None) -> Function:
    return Function(lambda m, x: jaxcfa.forward_dynamics(m, *x, method), ("q", "v", "qdd", "f_ext"))


Q, QV, ALL = ("q",), ("q", "v"), ("q", "v", "qdd", "f_ext")
MOTION = ("q", "v", "qdd")

# By names of functions; what follows the name says which options are meant.
FUNCTIONS = {
    "integrate": Function(lambda m, x: jaxcfa.integrate(m, x.q, x.v, DT), QV),
    "difference": Function(lambda m, x: jaxcfa.difference(m, x.q, jaxcfa.integrate(m, x.q, x.v, DT)), QV),
    "body_motions": Function(lambda m, x: body_motions(m, x.q, x.v).velocities, QV),
    "body_motions by scans": Function(lambda m, x: body_motions(m, x.q, x.v, Doubling()).velocities, QV),
    "forward_kinematics": Function(lambda m, x: jaxcfa.forward_kinematics(m, x.q), Q),
    "frame_pose": Function(lambda m, x: jaxcfa.frame_pose(m, x.q, last(m)), Q),
    "body_velocities": Function(lambda m, x: jaxcfa.body_velocities(m, x.q, x.v), QV),
    "body_accelerations": Function(lambda m, x: jaxcfa.body_accelerations(m, x.q, x.v, x.qdd), MOTION),
    "jacobian": Function(lambda m, x: jaxcfa.jacobian(m, x.q, last(m)), Q),
    "jacobian_dot_v": Function(lambda m, x: jaxcfa.jacobian_dot_v(m, x.q, x.v, last(m)), QV),
    "frame_velocity": Function(lambda m, x: jaxcfa.frame_velocity(m, x.q, x.v, [last(m), -1], "local"), QV),
    "frame_acceleration": Function(
        lambda m, x: jaxcfa.frame_acceleration(m, x.q, x.v, x.qdd, [last(m), -1], "local"), MOTION
    ),
    "jacobian in the frame's axes": Function(lambda m, x: jaxcfa.jacobian(m, x.q, [last(m), -1], "local"), Q),
    "relative_pose": Function(lambda m, x: jaxcfa.relative_pose(m, x.q, [last(m), -1], 0), Q),
    "relative_velocity": Function(lambda m, x: jaxcfa.relative_velocity(m, x.q, x.v, [last(m), -1], 0), QV),
    "relative_jacobian": Function(lambda m, x: jaxcfa.relative_jacobian(m, x.q, [last(m), -1], 0), Q),
    "wrench_at": Function(lambda m, x: jaxcfa.wrench_at(m, x.q, [last(m), -1], x.f_ext[:2], "local"), ("q", "f_ext")),
    "generalized_forces": Function(lambda m, x: jaxcfa.generalized_forces(m, x.q, x.f_ext), ("q", "f_ext")),
    "kinematics of motions": Function(with_motions(of_motions), ALL),
    "center_of_mass": Function(lambda m, x: jaxcfa.center_of_mass(m, x.q), Q),
    "center_of_mass_velocity": Function(lambda m, x: jaxcfa.center_of_mass_velocity(m, x.q, x.v), QV),
    "center_of_mass_jacobian": Function(lambda m, x: jaxcfa.center_of_mass_jacobian(m, x.q), Q),
    "subtree_centers_of_mass, subtree_masses": Function(
        lambda m, x: [jaxcfa.subtree_centers_of_mass(m, x.q), jaxcfa.subtree_masses(m)], Q
    ),
    "centroidal_momentum_matrix": Function(lambda m, x: jaxcfa.centroidal_momentum_matrix(m, x.q), Q),
    "centroidal_momentum_bias": Function(lambda m, x: jaxcfa.centroidal_momentum_bias(m, x.q, x.v), QV),
    "coriolis_matrix": Function(lambda m, x: jaxcfa.coriolis_matrix(m, x.q, x.v), QV),
    "coriolis_matrix by scans": Function(lambda m, x: jaxcfa.coriolis_matrix(m, x.q, x.v, Doubling()), QV),
    "gravity_forces": Function(lambda m, x: jaxcfa.gravity_forces(m, x.q), Q),
    "momentum": Function(lambda m, x: jaxcfa.momentum(m, x.q, x.v), QV),
    "kinetic_energy": Function(lambda m, x: jaxcfa.kinetic_energy(m, x.q, x.v), QV),
    "potential_energy": Function(lambda m, x: jaxcfa.potential_energy(m, x.q), Q),
    "elastic_energy": Function(lambda m, x: jaxcfa.elastic_energy(m, x.q), Q),
    "passive_forces": Function(lambda m, x: jaxcfa.passive_forces(m, x.q, x.v), QV),
    "actuator_forces": Function(
        lambda m, x: jaxcfa.actuator_forces(m, x.q, x.v, jnp.resize(x.qdd, len(m.actuators.names))), MOTION
    ),
    "inverse_dynamics": Function(lambda m, x: jaxcfa.inverse_dynamics(m, *x), ALL),
    "inverse_dynamics by scans": Function(lambda m, x: jaxcfa.inverse_dynamics(m, *x, Doubling()), ALL),
    "inverse_dynamics of motions": Function(
        with_motions(lambda m, x, motions: jaxcfa.inverse_dynamics(m, *x, motions=motions)), ALL
    ),
    "bias_forces": Function(lambda m, x: jaxcfa.bias_forces(m, x.q, x.v, x.f_ext), ("q", "v", "f_ext")),
    "mass_matrix": Function(lambda m, x: jaxcfa.mass_matrix(m, x.q), Q),
    "mass_operator": Function(products, QV),
    "mass_operator by scans": Function(lambda m, x: solution(m, x, schedule=Doubling()), QV),
    "mass_operator of motions": Function(with_motions(lambda m, x, motions: solution(m, x, motions=motions)), QV),
    "operational_space_inertia": Function(operational_space, Q),
    "operational_space_inertia of motions": Function(
        with_motions(lambda m, x, motions: operational_space(m, x, motions=motions)), Q
    ),
    "regressor": Function(lambda m, x: jaxcfa.regressor(m, x.q, x.v, x.qdd), MOTION),
    "with_inertial_parameters, inertial_parameters": Function(other_inertias, ALL),
    "inverse_dynamics_derivatives": Function(lambda m, x: tuple(jaxcfa.inverse_dynamics_derivatives(m, *x)), ALL),
    "forward_dynamics_derivatives": Function(lambda m, x: tuple(jaxcfa.forward_dynamics_derivatives(m, *x)), ALL),
    "forward_dynamics_derivatives of motions": Function(
        with_motions(lambda m, x, motions: tuple(jaxcfa.forward_dynamics_derivatives(m, *x, motions=motions))), ALL
    ),
    "forward_dynamics": forward(None),
    "forward_dynamics of motions": Function(
        with_motions(lambda m, x, motions: jaxcfa.forward_dynamics(m, *x, motions=motions)), ALL
    ),
    "aba": Function(with_motions(lambda m, x, motions: jaxcfa.aba(m, *x, motions=motions)), ALL),
    "forward_dynamics, ABA scan": forward(ABA("scan")),
    "forward_dynamics, ABA hybrid": forward(ABA("hybrid")),
    "forward_dynamics, CFA": forward(CFA()),
    "forward_dynamics, CFA by cyclic reduction": forward(CFA(CyclicReduction())),
    "forward_dynamics, CFA from leaf to root": forward(CFA(LeafToRoot())),
    "forward_dynamics, JSI": forward(JSI()),
    **{f"forward_dynamics, FactoredFD({i})": forward(FactoredFD(i)) for i in (1, 2, 3, 4)},
    "joint_reactions": Function(lambda m, x: jaxcfa.joint_reactions(m, *x), ALL),
    "joint_reactions, CFA": Function(lambda m, x: jaxcfa.joint_reactions(m, *x, CFA()), ALL),
    "joint_reactions, ABA scan": Function(lambda m, x: jaxcfa.joint_reactions(m, *x, ABA("scan")), ALL),
    "joint_reactions of motions": Function(
        with_motions(lambda m, x, motions: jaxcfa.joint_reactions(m, *x, motions=motions)), ALL
    ),
    "combine": Function(combined, ALL),
    "lock_joints, attach, subtree, add_frames, add_payload, add_servos, add_motors, add_velocity_servos, rename, "
    "scale, with_joint, with_body": Function(edited, MOTION),
    "add_thrusters": Function(pushed, QV),
    "step": Function(lambda m, x: jaxcfa.step(m, *x[:3], DT, f_ext=x.f_ext), ALL),
    "step by Runge and Kutta": Function(lambda m, x: jaxcfa.step(m, *x[:3], DT, RungeKutta4(), x.f_ext), ALL),
    "step, explicit": Function(lambda m, x: jaxcfa.step(m, *x[:3], DT, ExplicitEuler(), x.f_ext), ALL),
    "step by the midpoint rule": Function(lambda m, x: jaxcfa.step(m, *x[:3], DT, ImplicitMidpoint(1), x.f_ext), ALL),
    "step within limits": Function(lambda m, x: jaxcfa.step(m, *x[:3], DT, f_ext=x.f_ext, limits=True), ALL),
    "step of loops": Function(
        lambda m, x: jaxcfa.step(m, *x[:3], DT, f_ext=x.f_ext, constraints=closure(m), stabilization=Baumgarte(0.1)),
        ALL,
    ),
    "step on the ground": Function(
        lambda m, x: jaxcfa.step(m, *x[:3], DT, f_ext=x.f_ext, contacts=on_soft_ground(m)), ALL
    ),
    "contact_state, ground_contacts, body_contacts": Function(
        lambda m, x: jaxcfa.contact_state(m, on_a_ball(m), x.q, x.v), QV
    ),
    "contact_forces": Function(lambda m, x: jaxcfa.contact_forces(m, on_soft_ground(m), x.q, x.v, 0.9 * x.v, DT), QV),
    "rollout": Function(lambda m, x: jaxcfa.rollout(m, x.q, x.v, jnp.stack([x.qdd] * 3), DT, f_ext=x.f_ext), ALL),
    "rollout of a policy": Function(lambda m, x: jaxcfa.rollout(m, x.q, x.v, lambda t, q, v: -v, DT, steps=3), QV),
    "rollout of actuators": Function(
        lambda m, x: jaxcfa.rollout(m, x.q, x.v, jnp.zeros((2, len(m.actuators.names))), DT, actuated=True), QV
    ),
    "rollout of loops": Function(
        lambda m, x: jaxcfa.rollout(
            m, x.q, x.v, jnp.stack([x.qdd] * 2), DT, constraints=closure(m), stabilization=Projection()
        ),
        MOTION,
    ),
    "linearize": Function(lambda m, x: tuple(jaxcfa.linearize(m, *x[:3], DT, f_ext=x.f_ext)), ALL),
    "constrained_forward_dynamics": Function(constrained, ALL),
    "constrained_forward_dynamics, Proximal": Function(lambda m, x: constrained(m, x, solver=Proximal()), ALL),
    "constrained_forward_dynamics, Direct": Function(lambda m, x: constrained(m, x, solver=Direct()), ALL),
    "constrained_forward_dynamics, stabilised": Function(
        lambda m, x: constrained(m, x, rod=True, stabilization=Baumgarte(0.1), schedule=Doubling()), ALL
    ),
    "constrained_inverse_dynamics": Function(
        lambda m, x: closed_chains.constrained_inverse_dynamics(m, closure(m), *x), ALL
    ),
    "impulse": Function(lambda m, x: closed_chains.impulse(m, closure(m), x.q, x.v, 0.5), QV),
    "project_configuration": Function(
        lambda m, x: closed_chains.project_configuration(m, closure(m, rod=True), x.q), Q
    ),
    "project_velocity": Function(lambda m, x: closed_chains.project_velocity(m, closure(m), x.q, x.v), QV),
    **{
        f"grasp_forward_dynamics, {algorithm}": Function(lambda m, x, a=algorithm: grasp(m, x, a), ALL)
        for algorithm in (RCCFD1(), RCCFD2(), RCCFD3())
    },
}

# Public functions with a model that are not in the table, with the reason.
EXCEPTIONS = {
    "neutral": "depends on the structure only",
    "random_configuration": "depends on the structure only",
    "default_method": "gives no arrays",
    "default_schedule": "gives no arrays",
    **dict.fromkeys(("connect", "couple", "distance", "loop_joint", "weld"), "makes constraints, on the host"),
    "save_model": "writes a file, on the host",
    "add_keyframe": "keeps what it is given",
    "crba": "another name of mass_matrix",
    "rnea": "another name of inverse_dynamics",
}

"""What is compiled: every kind of program that the package makes."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import jaxcfa
from jaxcfa import ABA, CFA, JSI, FactoredFD, Model, closed_chains, inverse_kinematics, optimal_control as oc
from jaxcfa.closed_chains import RCCFD1, RCCFD2, RCCFD3, Direct, Grasp, LeastNorm, Projection, Proximal, RigidObject
from jaxcfa.simulation import ImplicitMidpoint, RungeKutta4
from jaxcfa.structured import (
    AncestorMask,
    Associative,
    BlockLDL,
    Chunked,
    CyclicReduction,
    Doubling,
    LeafToRoot,
    Levels,
    Riccati,
)

from ..methods import by, inverse_by
from .mechanisms import chain, four_bar, quadruped

BATCH, FEW, STEPS = 4096, 64, 10
_DT = 0.01

Made = tuple  # a function of float32 arrays, and their shapes


class Program(NamedTuple):
    """**Fields:** `name`; `make`: gives a function of float32 arrays and their shapes, for the backend then chosen."""

    name: str
    make: Callable[[], Made]


def _of_state(
    function: Callable[..., Any], mechanism: Callable[[], Model], parts: str = "qvx", batch: int | None = BATCH
) -> Made:
    """`function(model, q, v, x)`, or of those named, for a batch of states or for one."""
    model = mechanism()
    sizes = {"q": model.nq, "v": model.nv, "x": model.nv}

    def one(*state: jax.Array) -> Any:
        return function(model, *state)

    if batch is None:
        return one, *((sizes[part],) for part in parts)
    return jax.vmap(one), *((batch, sizes[part]) for part in parts)


def _gradient(made: Callable[[], Made]) -> Made:
    """The gradient of the sum of squares with respect to all arguments."""
    function, *shapes = made()

    def total(*arguments: jax.Array) -> jax.Array:
        found = (y for y in jax.tree.leaves(function(*arguments)) if jnp.issubdtype(y.dtype, jnp.floating))
        return sum(jnp.sum(y**2) for y in found)

    return jax.grad(total, tuple(range(len(shapes)))), *shapes


def _gradient_by_model(mechanism: Callable[[], Model]) -> Made:
    """With respect to masses, centres of mass, inertias, placements and all else that is physical."""
    model = mechanism()

    def total(model: Model, q: jax.Array, v: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sum(jax.vmap(partial(jaxcfa.forward_dynamics, model))(q, v, x) ** 2)

    return partial(jax.grad(total), model), (BATCH, model.nq), (BATCH, model.nv), (BATCH, model.nv)


def _kinematics(model: Model, q: jax.Array, v: jax.Array) -> Any:
    motions, hand = jaxcfa.body_motions(model, q, v), model.nb - 1
    return jaxcfa.forward_kinematics(model, q, motions=motions), jaxcfa.jacobian(model, q, hand, motions=motions)


def _operators(model: Model, q: jax.Array, v: jax.Array) -> Any:
    operator = jaxcfa.mass_operator(model, q)
    found = jaxcfa.operational_space_inertia(model, q, [model.nb - 1])
    return operator.solve(v), operator.inv_sqrt_mv(v), operator.logdet(), found.inertia


def _momentum(model: Model, q: jax.Array, v: jax.Array) -> Any:
    return (
        jaxcfa.centroidal_momentum_matrix(model, q),
        jaxcfa.coriolis_matrix(model, q, v),
        jaxcfa.kinetic_energy(model, q, v),
    )


def _closed(function: Callable[..., Any], parts: str = "qvx") -> Made:
    """`function(model, constraints, q, v, x)` of the four-bar linkage."""
    model, constraints = four_bar()
    made, *shapes = _of_state(lambda model, *state: function(model, constraints, *state), lambda: model, parts)
    return made, *shapes


def _accelerations(solver: closed_chains.AbstractConstraintSolver) -> Callable[..., Any]:
    return lambda *x: closed_chains.constrained_forward_dynamics(*x, solver=solver).qdd


def _grasp(algorithm: closed_chains.AbstractGraspAlgorithm) -> Made:
    arm, identity = chain(7), jaxcfa.Transform.identity("float32")
    box = RigidObject(jnp.float32(1.0), jnp.zeros(3, "float32"), 0.1 * jnp.eye(3, dtype="float32"))
    grasps = [Grasp.rigid(arm.body_names[-1], identity), Grasp.ball(arm.body_names[-1], identity)]

    def one(q: jax.Array, v: jax.Array, x: jax.Array) -> Any:
        states = ([y, y] for y in (q, v, x))
        q, v, x = states
        pose, velocity = jaxcfa.frame_pose(arm, q[0], arm.nb - 1), jnp.zeros(6, "float32")
        return closed_chains.grasp_forward_dynamics(
            [arm, arm], box, grasps, q, v, pose, velocity, x, algorithm=algorithm
        )

    return jax.vmap(one), *[(BATCH, 7)] * 3


def _rollout(model: Model, q: jax.Array, v: jax.Array, x: jax.Array) -> Any:
    return jaxcfa.rollout(model, q, v, jnp.stack([x] * STEPS), _DT)


def _iteration(solver: oc.AbstractSolver) -> Made:
    """One iteration from rest, for a few problems at once: an arm to a point, within bounds."""
    model = chain(7)
    hand = oc.FramePosition(model.body_names[-1], jnp.array([0.3, 0.2, 0.4], "float32"))
    problem = oc.Problem(
        oc.RobotDynamics(model, _DT),
        4 * STEPS,
        costs=[oc.Cost(oc.Control(), _DT)],
        end_costs=[oc.Cost(hand, 10.0)],
        constraints=[oc.Bounds(oc.Control(), -20.0, 20.0)],
    )

    def one(q: jax.Array, v: jax.Array) -> Any:
        found = oc.solve(problem, (q, v), solver=solver)
        return found.states, found.controls

    return jax.vmap(one), *[(FEW, 7)] * 2


def _inverse_kinematics(model: Model, q: jax.Array) -> jax.Array:
    target = oc.FramePosition(model.body_names[-1], jnp.array([0.3, 0.2, 0.4], "float32"))
    return inverse_kinematics.solve(model, target, q, starts=2, max_iterations=20).q


def _programs() -> Iterator[tuple[str, Callable[[], Made]]]:
    mechanisms = {"7": partial(chain, 7), "30": partial(chain, 30), "quadruped": quadruped}
    for name, mechanism in mechanisms.items():
        forward = partial(_of_state, by(ABA()), mechanism)
        inverse = partial(_of_state, jaxcfa.inverse_dynamics, mechanism)
        yield f"forward dynamics {name}, ABA", forward
        yield f"forward dynamics {name}, ABA, gradient", partial(_gradient, forward)
        yield f"inverse dynamics {name}", inverse
        yield f"mass matrix {name}", partial(_of_state, jaxcfa.mass_matrix, mechanism, "q")
        if name == "30":
            continue
        yield f"forward dynamics {name}, ABA, gradient by the model", partial(_gradient_by_model, mechanism)
        yield (
            f"forward dynamics {name}, derivative matrices",
            partial(_of_state, lambda *x: tuple(jaxcfa.forward_dynamics_derivatives(*x)), mechanism),
        )
        yield f"inverse dynamics {name}, gradient", partial(_gradient, inverse)
        yield f"kinematics and a Jacobian {name}", partial(_of_state, _kinematics, mechanism, "qv")
    for name, mechanism in (("7", partial(chain, 7)), ("quadruped", quadruped)):
        solvers = {"": CFA(), " from leaf to root": CFA(LeafToRoot())}
        if name == "7":
            solvers |= {" by cyclic reduction": CFA(CyclicReduction()), " by L D L^T": CFA(BlockLDL())}
        methods = {"ABA scan": ABA("scan"), "ABA hybrid": ABA("hybrid"), "JSI": JSI()}
        methods |= {f"CFA{how}": method for how, method in solvers.items()}
        methods |= {f"FactoredFD({i})": FactoredFD(i) for i in ((1, 2, 3, 4) if name == "7" else ())}
        for title, method in methods.items():
            yield f"forward dynamics {name}, {title}", partial(_of_state, by(method), mechanism)
        yield f"inverse dynamics {name}, doubling", partial(_of_state, inverse_by(Doubling()), mechanism)
    for title, schedule in {"levels": Levels(), "ancestor mask": AncestorMask()}.items():
        yield f"inverse dynamics quadruped, {title}", partial(_of_state, inverse_by(schedule), quadruped)
    for n in (64, 1024, 4096, 16384):
        for title, method in {"ABA scan": ABA("scan"), "CFA by cyclic reduction": CFA(CyclicReduction())}.items():
            yield f"one chain of {n}, {title}", partial(_of_state, by(method), partial(chain, n), "qvx", None)
    long = {"mechanism": partial(chain, 4096), "batch": None}
    for title, method in {"ABA": ABA(), "CFA": CFA()}.items():
        yield f"one chain of 4096, {title}", partial(_of_state, by(method), **long)
    for title, schedule in {"doubling": Doubling(), "chunks": Chunked(64), "associative": Associative()}.items():
        yield f"one chain of 4096, inverse dynamics, {title}", partial(_of_state, inverse_by(schedule), **long)
    scanned = partial(_of_state, by(ABA("scan")), **long)
    yield "one chain of 4096, ABA scan, gradient", partial(_gradient, scanned)
    yield "mass operator and operational space 7", partial(_of_state, _operators, partial(chain, 7), "qv")
    yield "momentum, Coriolis and energy quadruped", partial(_of_state, _momentum, quadruped, "qv")
    yield "regressor 7", partial(_of_state, jaxcfa.regressor, partial(chain, 7))
    yield "joint reactions 7", partial(_of_state, jaxcfa.joint_reactions, partial(chain, 7))
    for solver in (LeastNorm(), Proximal(), Direct()):
        yield f"four-bar, {type(solver).__name__}", partial(_closed, _accelerations(solver))
    yield "four-bar, LeastNorm, gradient", partial(_gradient, partial(_closed, _accelerations(LeastNorm())))
    yield "four-bar, inverse dynamics", partial(_closed, closed_chains.constrained_inverse_dynamics)
    yield "four-bar, impulse", partial(_closed, closed_chains.impulse, "qv")
    yield "four-bar, projection", partial(_closed, closed_chains.project_configuration, "q")
    yield (
        "four-bar, a step with projection",
        partial(_closed, lambda m, c, *x: jaxcfa.step(m, *x, _DT, constraints=c, stabilization=Projection())),
    )
    for algorithm in (RCCFD1(), RCCFD2(), RCCFD3()):
        yield f"two arms with a box, {type(algorithm).__name__}", partial(_grasp, algorithm)
    for title, integrator in {"Runge-Kutta": RungeKutta4(), "midpoint": ImplicitMidpoint()}.items():
        yield (
            f"step 7, {title}",
            partial(_of_state, lambda *x, i=integrator: jaxcfa.step(*x, _DT, i), partial(chain, 7)),
        )
    rollout = partial(_of_state, _rollout, partial(chain, 7))
    yield f"rollout 7, {STEPS} steps", rollout
    yield f"rollout 7, {STEPS} steps, gradient", partial(_gradient, rollout)
    yield "linearisation 7", partial(_of_state, lambda *x: tuple(jaxcfa.linearize(*x, _DT)), partial(chain, 7))
    shooting = oc.MultipleShooting(max_iterations=1, schedule=Riccati(Doubling()), steps="linear")
    yield "trajectory optimisation 7, multiple shooting by a scan", partial(_iteration, shooting)
    yield "inverse kinematics 7", partial(_of_state, _inverse_kinematics, partial(chain, 7), "q", FEW)


PROGRAMS = [Program(name, make) for name, make in _programs()]

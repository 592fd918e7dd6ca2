"""All public functions under JAX's transformations, alone and one within another.

Compiling is what costs. So that everything can be traced at all is seen function by function, without compiling; values
are those of few programs, each of many functions on a forest of all kinds of mechanisms.
"""

import functools
import inspect
import itertools
import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa import closed_chains, io, joints, simulation, spatial, structured
from jaxcfa.joints import Free, Revolute, Spherical
from mechanisms import State, random_state
from public_functions import EXCEPTIONS, FUNCTIONS
from test_package import public_objects
from urdf_text import INERTIAL, LIMIT, joint, link, robot

# Of functions with one rule for their derivatives each has some of the arguments, so that together they have all.
# Others have one, in turn.
WITH_RULES = {
    "inverse_dynamics": ("q", "mass"),
    "inverse_dynamics by scans": ("v",),
    "inverse_dynamics of motions": ("qdd", "f_ext"),
    "forward_dynamics": ("q", "mass"),
    "forward_dynamics of motions": ("v",),
    "forward_dynamics, ABA scan": ("qdd",),
    "forward_dynamics, JSI": ("f_ext",),
    "joint_reactions": ("q", "mass"),
    "joint_reactions of motions": ("v",),
    "joint_reactions, CFA": ("qdd",),
    "joint_reactions, ABA scan": ("f_ext",),
    "mass_operator": ("q", "v"),
    "mass_operator of motions": ("mass",),
    "constrained_forward_dynamics": ("q", "mass"),
    "constrained_forward_dynamics, Proximal": ("v",),
    "constrained_forward_dynamics, Direct": ("qdd",),
    "constrained_forward_dynamics, stabilised": ("f_ext",),
    # Of steps torques are what is optimised.
    "step": ("qdd",),
    "rollout": ("qdd",),
}
EVERYTHING = os.environ.get("JAXCFA_ALL_DERIVATIVES", "0") != "0"  # takes some twenty minutes


def test_the_table_is_complete():
    taken = set()
    for module in (jaxcfa, closed_chains, io, joints, simulation, spatial, structured):
        for name, value in public_objects(module).items():
            if not isinstance(value, type) and {"model", "models", "arms"} & set(inspect.signature(value).parameters):
                taken.add(name)
    listed = {part.split()[0].rstrip(",") for name in FUNCTIONS for part in name.split(", ")}
    assert taken <= listed | set(EXCEPTIONS)
    assert not listed & set(EXCEPTIONS)
    assert {*WITH_RULES, *QUICKEST} <= set(FUNCTIONS)
    for function in ("inverse_dynamics", "forward_dynamics", "joint_reactions", "constrained_forward_dynamics"):
        by = [x for name, arguments in WITH_RULES.items() if name.startswith(function) for x in arguments]
        assert sorted(by) == sorted([*FUNCTIONS[function].arguments, "mass"])


def floating(tree) -> list:
    return [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.floating)]


def displaced(model, x: State, along: State, weight, argument: str, t) -> tuple[jaxcfa.Model, State]:
    """Model and state with one argument moved along a direction, all else being known not to move."""
    if argument == "mass":
        return eqx.tree_at(lambda m: m.mass, model, model.mass * (1 + t * weight)), x
    if argument == "q":
        return model, x._replace(q=jaxcfa.integrate(model, x.q, along.v, t))
    return model, x._replace(**{argument: getattr(x, argument) + t * getattr(along, argument)})


@functools.cache
def small() -> tuple[jaxcfa.Model, State, State]:
    model = jaxcfa.chain(2, armature=0.1, damping=0.1)
    return model, random_state(model), random_state(model, 1)


def forward(function):
    return lambda t: jax.jvp(function, (t,), (1.0,))[1]


ORDERS = {
    "forward over forward": (forward, forward),
    "forward over reverse": (forward, jax.grad),
    "reverse over forward": (jax.grad, forward),
    "reverse over reverse": (jax.grad, jax.grad),
}
TURNS = itertools.cycle(ORDERS)
# Others take up to three times as long, and are those of what the functions are made of.
QUICKEST = dict.fromkeys(
    (
        *("step", "step of loops", "rollout", "rollout of a policy", "rollout of actuators", "rollout of loops"),
        *("constrained_forward_dynamics, Proximal", "project_configuration", "inverse_dynamics_derivatives"),
        "grasp_forward_dynamics, RCCFD3()",
    ),
    "forward over reverse",
)


def second_derivatives_of(name: str, place: int) -> list[tuple[str, str]]:
    """Which arguments in which order: each function has its turn, so that all together have all."""
    arguments = (*FUNCTIONS[name].arguments, "mass")
    if EVERYTHING:
        return list(itertools.product(arguments, ORDERS))
    chosen = WITH_RULES.get(name) or [arguments[place % len(arguments)]]
    return [(argument, QUICKEST.get(name) or next(TURNS)) for argument in chosen]


CASES = {name: second_derivatives_of(name, place) for place, name in enumerate(FUNCTIONS)}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_second_derivatives_by_one_argument_can_be_traced(name):
    """What stays fixed has tangents that JAX knows to be zero, which not all of its rules accept."""
    model, x, along = small()
    for argument, order in CASES[name]:

        def value(t, argument=argument):
            moved = displaced(model, x, along, 1.0, argument, t)
            return sum(jnp.sum(jnp.sin(y)) for y in floating(FUNCTIONS[name].evaluate(*moved)))

        outer, inner = ORDERS[order]
        assert jax.eval_shape(outer(inner(value)), 0.0).shape == (), (argument, order)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_batches_can_be_traced(name):
    """Of states and of models together, in parts, also where results are computed again for derivatives."""
    model, x, _ = small()
    many, states = jax.tree.map(lambda y: jnp.stack([y] * 4), (model, x))

    def evaluate(model, x):
        # Without empty arrays, on which JAX's map by batches divides by zero.
        return [y for y in jax.tree.leaves(FUNCTIONS[name].evaluate(model, x)) if y.size]

    def in_parts(many, states):
        return jax.lax.map(lambda pair: jax.checkpoint(evaluate)(*pair), (many, states), batch_size=2)

    one, batch = jax.eval_shape(evaluate, model, x), jax.eval_shape(in_parts, many, states)
    assert [(4, *y.shape) for y in one] == [y.shape for y in batch]


def test_second_derivatives_of_batches_of_models_can_be_traced():
    """By what makes the models different: values that do not depend on it have tangents that do."""
    model, x, along = small()

    def total(t):
        def one(weight):
            moved = displaced(model, x, along, weight, "mass", t)
            return sum(jnp.sum(y) for y in floating(FUNCTIONS["kinematics of motions"].evaluate(*moved)))

        return jnp.sum(jax.vmap(jax.jit(one))(jnp.arange(2.0)))

    assert jax.eval_shape(forward(forward(total)), 0.0).shape == ()


@pytest.mark.slow
def test_ranks_are_not_promoted():
    """For users who have JAX refuse that: of each part of the package something."""
    model = jaxcfa.random_tree(4, jax.random.key(1), branching=0.9, armature=0.05)
    names = ["kinematics of motions", "mass_operator", "inverse_dynamics", "regressor", "step of loops"]
    names += ["forward_dynamics", "forward_dynamics, ABA scan", "forward_dynamics, CFA", "forward_dynamics, JSI"]
    with jax.numpy_rank_promotion("raise"):
        for name in names:
            jax.eval_shape(FUNCTIONS[name].evaluate, model, random_state(model))


MJCF = """
<mujoco>
  <option gravity="0 0 -9.81"/>
  <worldbody>
    <body name="cart"><joint name="slide" type="slide" axis="1 0 0" damping="0.3"/>
      <geom type="box" size="0.1 0.2 0.1" mass="2"/>
      <body name="pole" pos="0 0 0.1"><joint name="swing" axis="0 1 0" stiffness="2" frictionloss="0.1"/>
        <geom type="capsule" fromto="0 0 0 0.1 0 0.4" size="0.02" mass="0.5"/></body></body>
  </worldbody>
  <actuator><motor name="motor" joint="slide" gear="2"/></actuator>
</mujoco>
"""


@functools.cache
def forest() -> jaxcfa.Model:
    """A chain, a tree of all joint types, a floating base and what was read from URDF and MJCF."""
    builder = jaxcfa.ModelBuilder()
    body = {"mass": 1.0, "com": (0.02, 0.0, 0.1), "inertia": (0.02, 0.03, 0.01), "armature": 0.05}
    builder.add_body("base", joint=Free(), **body)
    builder.add_body("arm", "base", Revolute((0.0, 1.0, 0.0)), (0.1, 0.0, 0.2), **body)
    builder.add_body("ball", "base", Spherical(), (-0.1, 0.0, 0.2), stiffness=1.0, **body)
    links = [link(name, INERTIAL) for name in ("base", "upper", "lower")]
    urdf = robot(*links, joint("j1", "base", "upper", LIMIT), joint("j2", "upper", "lower", LIMIT))
    models = [
        jaxcfa.chain(2, armature=0.02),
        jaxcfa.random_tree(7, jax.random.key(1), armature=0.05),
        builder.build(),
        jaxcfa.load_model(urdf),
        jaxcfa.load_model(MJCF),
    ]
    prefixes = [f"{i} " for i in range(len(models))]
    return jaxcfa.combine(models, prefixes).astype("float64")


# Those that are compiled, and others.
COMPILED = ("difference", "inverse_dynamics", "step")
OTHERS = ("integrate", "kinematics of motions", "passive_forces", "actuator_forces", "joint_reactions")


def together(names, model, x) -> list:
    return [floating(FUNCTIONS[name].evaluate(model, x)) for name in names]


@pytest.mark.slow
def test_batches_of_models_and_states():
    """One batch of both in one program gives what single calls give."""
    model = forest()
    heavier = eqx.tree_at(lambda m: m.mass, model, 1.5 * model.mass)
    pairs = [(model, random_state(model)), (heavier, random_state(model, 1))]
    many = jax.tree.map(lambda *y: jnp.stack(y), *pairs)
    for names, run in ((COMPILED, lambda program: program.lower(*many).compile()), (OTHERS, lambda program: program)):
        function = functools.partial(together, names)
        batch, single = run(jax.jit(jax.vmap(function)))(*many), jax.jit(function)
        for i, pair in enumerate(pairs):
            found = jax.tree.map(lambda y, i=i: y[i], batch)
            assert all(np.all(np.isfinite(y)) for y in jax.tree.leaves(found))
            assert_close(found, single(*pair), 1e-11)

"""Models side by side, against the models by themselves."""

import dataclasses
import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa import ModelBuilder, closed_chains, combine
from jaxcfa.joints import Composite, Helical, Prismatic, Revolute
from jaxcfa.model import Actuators, Keyframes, Weld
from jaxcfa.model._constraints import AbstractConstraint
from mechanisms import mechanism, random_state


def attached(model, keys=("home",), tension=1.0):
    """The model with keyframes and a motor on its first and last degrees of freedom."""
    names = tuple(f"motor{i}" for i in (0, 1))
    moment = jnp.zeros((2, model.nv)).at[0, 0].set(tension).at[1, -1].set(2 * tension)
    bounds = jnp.full((2,), jnp.inf)
    actuators = Actuators(
        names=names,
        frames=(None, None),
        moment=moment,
        wrench=jnp.zeros((2, 6)),
        length_gradient=jnp.zeros((2, model.nq)).at[1, -1].set(3.0),
        length_offset=jnp.array([0.1, 0.2]),
        gain=jnp.array([1.0, 2.0]) * tension,
        bias=jnp.array([[0.0, 0.5, 0.1], [0.3, 0.0, 0.0]]),
        control_lower=-bounds,
        control_upper=bounds,
        force_lower=-bounds,
        force_upper=bounds,
    )
    q = jnp.stack([random_state(model, i).q for i in range(len(keys))])
    keyframes = Keyframes(tuple(keys), q, jnp.ones((len(keys), model.nv)), jnp.ones((len(keys), 2)))
    return dataclasses.replace(model, actuators=actuators, keyframes=keyframes)


def arm(**options):
    """Springs, limits, frames in the world and a joint that is a series."""
    builder = ModelBuilder()
    body = {"mass": 1.0, "com": (0.0, 0.1, 0.2), "inertia": (0.02, 0.03, 0.02)}
    springs = {"stiffness": 3.0, "spring_reference": 0.2, "damping": 0.4, "friction_loss": 0.1}
    builder.add_body("upper", joint=Revolute((0, 1, 0)), lower=-0.5, upper=1.0, effort_limit=7.0, **springs, **body)
    wrist = Composite((Prismatic((1, 0, 0)), Revolute((0, 0, 1))))
    builder.add_body("hand", "upper", wrist, (0, 0, 0.4), joint_name="slide+turn", armature=0.1, **body)
    builder.add_frame("nail", "hand", (0.0, 0.0, 0.3))
    builder.add_frame("base", None, (0.0, 0.0, 1.0))
    return builder.build(**options)


def split(parts, x, size):
    """What of a vector over coordinates is each part's."""
    return np.split(np.asarray(x), np.cumsum([getattr(part, size) for part in parts])[:-1])


@jax.jit
def dynamics(model, state):
    q, v, qdd, f_ext = state
    return {
        "nv": (jaxcfa.forward_dynamics(model, q, v, qdd, f_ext), jaxcfa.passive_forces(model, q, v)),
        "nq": (jaxcfa.integrate(model, q, v), model.spring_reference),
        "nb": (model.mass, model.inertia),
    }


@pytest.mark.slow
def test_dynamics_are_those_of_the_parts():
    part = mechanism("forest")
    parts = [arm(gravity=part.gravity), part, arm(gravity=part.gravity)]
    model = combine(parts, ["a/", "b/", "c/"])
    states = [random_state(part, seed) for seed, part in enumerate(parts)]
    state = jax.tree.map(lambda *x: jnp.concatenate(x), *states)
    found, expected = dynamics(model, state), list(map(dynamics, parts, states))
    for size, arrays in found.items():
        for number, array in enumerate(arrays):
            for piece, own in zip(split(parts, array, size), expected, strict=True):
                assert_close(piece, own[size][number], 1e-11)
    frame = jaxcfa.frame_pose(model, state.q, "c/nail")
    assert_close(frame, jaxcfa.frame_pose(parts[2], states[2].q, "nail"), 1e-12)
    # One group for each structure, whatever the number of models.
    assert sorted(type(joint).__name__ for joint in model.joints) == ["Composite", "Free", "Revolute", "Spherical"]


def test_names():
    model = combine([arm(), arm()], ["left_", "right_"])
    assert model.body_names == ("left_upper", "left_hand", "right_upper", "right_hand")
    assert model.joint_names == (
        "left_upper_joint",
        "left_slide+left_turn",
        "right_upper_joint",
        "right_slide+right_turn",
    )
    assert model.frame_names == ("left_nail", "left_base", "right_nail", "right_base")
    assert model.v_slice("right_slide+right_turn") == slice(4, 6)
    assert model.locate("right_base")[0] == -1
    assert model.locate("right_nail")[0] == 3
    other = jaxcfa.chain(2)
    assert combine([other, arm()]).body_names == ("link0", "link1", "upper", "hand")


def test_models_of_a_generator():
    both = combine((jaxcfa.chain(n) for n in (1, 2)), (f"{side}_" for side in ("left", "right")))
    assert both.body_names == ("left_link0", "right_link0", "right_link1")


def test_one_model_is_itself():
    model = attached(arm())
    again = combine([model])
    assert again.topology == model.topology
    assert jax.tree.all(jax.tree.map(np.array_equal, again, model))


def test_actuators_and_keyframes():
    """A keyframe of one model only says nothing about the whole."""
    parts = [attached(arm(), ("home", "up")), attached(jaxcfa.chain(3), ("down", "home"), tension=5.0)]
    model = combine(parts, ["a_", "b_"])
    assert model.actuators.names == ("a_motor0", "a_motor1", "b_motor0", "b_motor1")
    q, v, u = random_state(model).q, random_state(model).v, jnp.array([1.0, -2.0, 3.0, 0.5])
    found = split(parts, jaxcfa.actuator_forces(model, q, v, u), "nv")
    for i, part in enumerate(parts):
        own = split(parts, q, "nq")[i], split(parts, v, "nv")[i], u[2 * i : 2 * i + 2]
        assert_close(found[i], jaxcfa.actuator_forces(part, *own), 1e-14)
    assert model.keyframes.names == ("home",)
    assert_close(model.keyframe("home"), np.concatenate([part.keyframe("home") for part in parts]), 0)
    assert model.keyframes.v.shape == (1, model.nv)
    assert combine([parts[0], mechanism("mixed tree")]).keyframes.names == ()


def test_constraints_are_renumbered():
    ends = (
        closed_chains.weld(jaxcfa.chain(3), "tip", -1),
        closed_chains.couple(jaxcfa.chain(3), "joint2", "joint0", (0.0, 2.0)),
    )
    looped = dataclasses.replace(jaxcfa.chain(3), constraints=ends)
    model = combine([mechanism("mixed tree"), looped, looped], ["", "a_", "b_"])
    weld, coupling = model.constraints[2:]
    first = model.body_index("b_link0")
    assert isinstance(weld, Weld)
    assert (weld.body1, weld.body2) == (first + 2, -1)
    assert (coupling.joint, coupling.reference) == (first + 2, first)
    named = [dataclasses.replace(constraint, name="loop") for constraint in ends]
    model = combine([jaxcfa.chain(1), dataclasses.replace(looped, constraints=tuple(named))], ["", "a_"])
    assert [constraint.name for constraint in model.constraints] == ["a_loop", "a_loop"]


def test_types_are_promoted():
    single, double = jaxcfa.chain(2, dtype="float32"), arm(dtype="float64")
    model = combine([single, double])
    assert all(leaf.dtype == np.float64 for leaf in jax.tree.leaves(model))
    assert model.gravity[2] == -9.81  # not its value in single precision
    assert combine([single]).dtype == np.float32


def test_groups_are_in_the_order_of_bodies():
    """A model may have several groups of one structure."""
    kinds = [Helical((0, 0, 1), 0.1), Helical((0, 0, 1), 0.2)]
    part = jaxcfa.random_tree(6, jax.random.key(4), kinds)
    assert len(part.joints) == 2
    model = combine([part, part], ["a", "b"])
    (joint,), (bodies,) = model.joints, model.topology.group_bodies
    assert bodies.tolist() == list(range(12))
    state = random_state(part)
    twice = jnp.concatenate([state.q, state.q])
    expected = jaxcfa.forward_kinematics(part, state.q).translation
    assert_close(jaxcfa.forward_kinematics(model, twice).translation, np.concatenate([expected, expected]), 1e-14)
    assert joint.pitch.shape == (12,)


def test_models_without_bodies():
    nothing = ModelBuilder().build()
    model = combine([nothing, jaxcfa.chain(2), nothing])
    assert (model.nb, model.topology) == (2, jaxcfa.chain(2).topology)
    assert combine([nothing, nothing]).nb == 0


def test_traced_models():
    """A batch of models beside one, and derivatives."""
    fixed, base = mechanism("straight chain"), arm()
    q = jnp.ones(fixed.nq + base.nq)

    def energy(scale, gravity=base.gravity):
        scaled = eqx.tree_at(lambda m: (m.mass, m.gravity), base, (base.mass * scale, gravity))
        return jaxcfa.potential_energy(combine([fixed, scaled]), q)

    @jax.jit
    def everything(scales):
        return jax.vmap(energy)(scales), jax.grad(energy)(1.0), energy(1.0, base.gravity * scales[0])

    batch, slope, heavier = everything(jnp.array([2.0, 3.0]))
    assert_close(batch[1] - batch[0], slope, 1e-12)
    assert np.isnan(heavier)  # another gravity, found while the program runs


class Strange(AbstractConstraint):
    """A constraint that is none between frames."""

    name: str = eqx.field(static=True, default="")


def test_errors():
    model, other = jaxcfa.chain(2), arm()
    strange = dataclasses.replace(model, constraints=(Strange(),))
    messages = {
        "bodies or frames named 'link0', 'link1', 'tip'. Give each model a prefix": lambda: combine([model, model]),
        "actuators named 'motor0', 'motor1'": lambda: combine([attached(model), attached(other)]),
        "gravity, but that of model 1 is": lambda: combine([model, arm(gravity=(0, 0, -1.62))]),
        "one prefix for each of the 2 models, got 'ab'": lambda: combine([model, model], "ab"),
        "one prefix for each of the 1 models": lambda: combine([model], ["a", "b"]),
        "a sequence of one model or more": lambda: combine([]),
        "a sequence of one model or more.": lambda: inspect.unwrap(combine)(5),
        "one prefix for each of the 1 models, got 5": lambda: inspect.unwrap(combine)([model], 5),
        "cannot renumber the bodies of Strange": lambda: combine([strange]),
        r"masses of model 0 have shape \(3, 2\) instead of \(2,\). Use jax.vmap for batches of models": lambda: combine(
            [jax.tree.map(lambda x: jnp.stack([x] * 3), model)]
        ),
    }
    for message, attempt in messages.items():
        with pytest.raises(ValueError, match=message):
            attempt()

"""Mechanisms with closed loops, by name."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxcfa
from jaxcfa import Model, ModelBuilder, Transform
from jaxcfa.closed_chains import (
    connect,
    couple,
    distance,
    loop_joint,
    project_configuration,
    project_velocity,
    weld,
)
from jaxcfa.closed_chains._relations import row_starts
from jaxcfa.joints import Free, Prismatic, Revolute, Spherical
from jaxcfa.spatial import rotation_exp


class Loop(NamedTuple):
    """A mechanism, what closes it, and a configuration to start closing it from.

    `mobility`: how many degrees of freedom are left; `redundant`: rows that say nothing new.
    """

    model: Model
    constraints: tuple
    guess: np.ndarray
    mobility: int
    redundant: int = 0


def pose(translation=(0.0, 0.0, 0.0), rotation=(0.0, 0.0, 0.0)) -> np.ndarray:
    """A homogeneous matrix from a translation and a rotation vector."""
    turn = rotation_exp(jnp.asarray(rotation, float))
    return np.asarray(Transform(turn, jnp.asarray(translation, float)).as_matrix())


def rod(length: float, axis: int = 0) -> dict:
    """Mass properties of a rod along an axis."""
    com, moments = np.zeros(3), np.full(3, length**3 / 12)
    com[axis], moments[axis] = length / 2, 1e-3 * length
    return {"mass": length, "com": com, "inertia": moments}


def bars(builder: ModelBuilder, lengths, base, axes, joint=Revolute, parent=None, prefix="bar"):
    """Rods one after the other along x, with joints about the given axes; the last one has a frame "end"."""
    before = 0.0
    for i, (length, axis) in enumerate(zip(lengths, axes, strict=True)):
        placement = base if i == 0 else pose((before, 0.0, 0.0))
        parent = builder.add_body(f"{prefix}{i}", parent, joint(axis), placement, **rod(length))
        before = length
    builder.add_frame(f"{prefix} end", parent, (before, 0.0, 0.0))


# A plane in no special direction, so that what should be zero is rounding.
TILTED = pose((0.2, -0.1, 0.5), (0.4, -0.7, 0.3))


def four_bar(close, **counts) -> Loop:
    builder = ModelBuilder()
    bars(builder, (0.4, 1.0, 0.8), TILTED, [(0, 1, 0)] * 3)
    builder.add_frame("ground", None, TILTED @ pose((1.1, 0.0, 0.0)))
    model = builder.build(dtype="float64")
    return Loop(model, (close(model),), np.array([0.3, -1.0, 1.9]), **counts)


def floating_four_bar() -> Loop:
    """The frame of the four-bar floats, with a ball-jointed tail."""
    builder = ModelBuilder()
    builder.add_body("frame", joint=Free(), **rod(1.1))
    bars(builder, (0.4, 1.0, 0.8), np.eye(4), [(0, 1, 0)] * 3, parent="frame")
    builder.add_frame("ground", "frame", (1.1, 0.0, 0.0))
    builder.add_body("tail", "frame", Spherical(), (-0.1, 0.0, 0.0), **rod(0.3, 2))
    model = builder.build(dtype="float64")
    close = loop_joint(model, "ground", "bar end", Revolute((0, 1, 0)))
    guess = np.concatenate([jaxcfa.neutral(model)[:7], [0.3, -1.0, 1.9], [1.0, 0.0, 0.0, 0.0]])
    return Loop(model, (close,), guess, mobility=10, redundant=3)


def spatial_four_bar() -> Loop:
    """Crank, coupler on two ball joints, rocker with an axis askew; the coupler may spin."""
    builder = ModelBuilder()
    builder.add_body("crank", joint=Revolute((0, 0, 1)), **rod(0.3))
    builder.add_body("coupler", "crank", Spherical(), (0.3, 0.0, 0.0), **rod(1.0))
    builder.add_body("rocker", None, Revolute((0, 1, 0.3)), (1.0, 0.2, 0.0), **rod(0.6, 2))
    builder.add_frame("ball 1", "coupler", (1.0, 0.0, 0.0))
    builder.add_frame("ball 2", "rocker", (0.0, 0.0, 0.6))
    model = builder.build(dtype="float64")
    guess = np.array([0.5, 1.0, 0.0, 0.0, 0.1, 0.2])
    return Loop(model, (connect(model, "ball 2", "ball 1"),), guess, mobility=2)


def slider_crank() -> Loop:
    builder = ModelBuilder()
    bars(builder, (0.3, 0.9), np.eye(4), [(0, 1, 0)] * 2)
    builder.add_body("slider", None, Prismatic((1, 0, 0)), mass=0.7, inertia=0.01)
    model = builder.build(dtype="float64")
    close = loop_joint(model, "slider", "bar end", Revolute((0, 1, 0)))
    return Loop(model, (close,), np.array([0.6, -0.8, 1.0]), mobility=1, redundant=3)


def five_bar() -> Loop:
    builder = ModelBuilder()
    bars(builder, (0.4, 0.6), TILTED, [(0, 1, 0)] * 2, prefix="left")
    bars(builder, (0.4, 0.6), TILTED @ pose((0.5, 0.0, 0.0)), [(0, 1, 0)] * 2, prefix="right")
    model = builder.build(dtype="float64")
    close = connect(model, "left end", "right end")
    return Loop(model, (close,), np.array([-2.0, 1.3, -1.0, -1.3]), mobility=2, redundant=1)


def delta() -> Loop:
    """Three arms, each with a rod on two ball joints as a distance, so that the platform keeps three freedoms.

    Springs hold the arms, as motors do: without them the platform falls into singular configurations.
    """
    builder = ModelBuilder()
    builder.add_body("platform", joint=Free(), mass=0.5, inertia=0.01)
    directions = [pose(rotation=(0.0, 0.0, 2 * np.pi * i / 3)) for i in range(3)]
    for i, turn in enumerate(directions):
        placement = turn @ pose((0.2, 0.0, 0.0))
        builder.add_body(f"arm{i}", None, Revolute((0, 1, 0)), placement, stiffness=20.0, **rod(0.3))
        for side in (-1, 1):
            builder.add_frame(f"elbow{i}{side}", f"arm{i}", (0.3, 0.05 * side, 0.0))
            builder.add_frame(f"wrist{i}{side}", "platform", turn @ pose((0.1, 0.05 * side, 0.0)))
    model = builder.build(dtype="float64")
    rods = tuple(distance(model, f"elbow{i}{side}", f"wrist{i}{side}", 0.7) for i in range(3) for side in (-1, 1))
    guess = np.array([0.0, 0.02, -0.6, 1.0, 0.0, 0.0, 0.0, 0.1, 0.2, 0.0])
    return Loop(model, rods, guess, mobility=3)


def bricard() -> Loop:
    """Six equal links with twists of 90 and -90 degrees (Bricard): rigid by count of freedoms, but it moves."""
    builder, parent = ModelBuilder(), None
    length = 0.6
    turn = pose((length, 0.0, 0.0)) @ pose(rotation=(np.pi / 2, 0.0, 0.0))
    back = pose((length, 0.0, 0.0)) @ pose(rotation=(-np.pi / 2, 0.0, 0.0))
    placement = np.eye(4)
    for i in range(5):
        parent = builder.add_body(f"link{i}", parent, Revolute((0, 0, 1)), placement, **rod(length))
        placement = turn if i % 2 == 0 else back
    builder.add_frame("end", parent, placement)
    builder.add_frame("ground", None, pose(rotation=(np.pi / 2, 0.0, 0.0)) @ pose((-length, 0.0, 0.0)))
    model = builder.build(dtype="float64")
    close = loop_joint(model, "ground", "end", Revolute((0, 0, 1)))
    return Loop(model, (close,), np.array([2.0, -2.0, 2.0, -2.0, 2.0]), mobility=1, redundant=1)


LEG = """
<mujoco>
  <option gravity="0 0 -9.81"/>
  <worldbody>
    <body name="pelvis" pos="0 0 1">
      <joint name="height" type="slide" axis="0 0 1" armature="0.1"/>
      <geom type="box" size="0.1 0.1 0.1" mass="5"/>
      <body name="thigh" pos="0.1 0 0">
        <joint name="hip" axis="0 1 0" armature="0.05"/>
        <geom type="capsule" fromto="0 0 0 0.1 0 -0.5" size="0.03" mass="2"/>
        <body name="knee" pos="0.1 0 -0.5">
          <joint name="knee" axis="0 1 0" armature="0.02"/>
          <geom type="capsule" fromto="0 0 0 -0.1 0 -0.1" size="0.02" mass="0.5"/>
          <body name="shin" pos="-0.1 0 -0.1">
            <joint name="shin" axis="0 1 0" stiffness="100"/>
            <geom type="capsule" fromto="0 0 0 0.05 0 -0.4" size="0.02" mass="1"/>
          </body>
        </body>
        <body name="achilles" pos="0 0 -0.05">
          <joint name="achilles" type="ball"/>
          <geom type="capsule" fromto="0 0 0 0 0 -0.62" size="0.01" mass="0.2"/>
        </body>
      </body>
    </body>
  </worldbody>
  <equality>
    <connect name="heel spring" body1="achilles" body2="shin" anchor="0 0 -0.62"/>
    <joint name="held" joint1="hip" joint2="height" polycoef="0.1 0.5 0.2 0 0"/>
  </equality>
</mujoco>
"""


def cassie_like_leg() -> Loop:
    model = jaxcfa.load_model(LEG, dtype="float64")
    return Loop(model, model.constraints, np.asarray(jaxcfa.neutral(model)), mobility=model.nv - 4)


def welded_twice() -> Loop:
    """Two arms welded together at two places at once."""
    builder = ModelBuilder()
    axes = [(0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0), (0, 1, 0)]
    bars(builder, [0.4] * 7, np.eye(4), axes, prefix="left")
    bars(builder, [0.4] * 7, pose((1.0, 0.3, 0.0)), axes, prefix="right")
    for side in ("left", "right"):
        builder.add_frame(f"{side} grip", f"{side}6", pose((0.3, 0.1, 0.0)))
    model = builder.build(dtype="float64")
    constraints = weld(model, "left end", "right end", "first"), weld(model, "left grip", "right grip", "second")
    guess = np.random.default_rng(4).normal(size=14)
    return Loop(model, constraints, guess, mobility=8, redundant=6)


def geared() -> Loop:
    """A branching mechanism of joints of all kinds, with a gear and a point held at a distance from the world."""
    builder = ModelBuilder()
    builder.add_body("hub", joint=Spherical(), **rod(0.5))
    for i in range(2):
        builder.add_body(f"wheel{i}", "hub", Revolute((0, 0, 1)), (0.1 + 0.3 * i, 0.0, 0.1), mass=1.0, inertia=0.02)
    builder.add_body("plunger", "hub", Prismatic((0, 0, 1)), (0.5, 0.0, 0.0), armature=0.1, **rod(0.3, 2))
    builder.add_frame("tip", "plunger", (0.0, 0.0, 0.3))
    model = builder.build(dtype="float64")
    constraints = (
        couple(model, "wheel0_joint", "wheel1_joint", (0.1, -2.0, 0.3)),
        distance(model, -1, "tip", 0.7, "tether"),
    )
    return Loop(model, constraints, np.array([1.0, 0.1, 0.2, 0.0, 0.3, 0.2, 0.1]), mobility=4)


_MAKERS = {
    "four-bar": lambda: four_bar(
        lambda model: loop_joint(model, "ground", "bar end", Revolute((0, 1, 0))), mobility=1, redundant=3
    ),
    "four-bar by points": lambda: four_bar(lambda model: connect(model, "ground", "bar end"), mobility=1, redundant=1),
    "floating four-bar": floating_four_bar,
    "spatial four-bar": spatial_four_bar,
    "slider-crank": slider_crank,
    "five-bar": five_bar,
    "delta": delta,
    "bricard": bricard,
    "leg": cassie_like_leg,
    "welded twice": welded_twice,
    "geared": geared,
}
NAMES = tuple(_MAKERS)


@functools.cache
def make(name: str) -> Loop:
    """The mechanism, not closed."""
    return _MAKERS[name]()


@jax.jit
def closed(model: Model, constraints: tuple, guess, v):
    found = project_configuration(model, constraints, guess)
    return found, project_velocity(model, constraints, found.q, v)


class LoopState(NamedTuple):
    """A state that satisfies the constraints, and torques."""

    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray


@functools.cache
def loop(name: str) -> tuple[Loop, LoopState]:
    """The mechanism and a state of it."""
    made = make(name)
    return made, _state(made.model, made.constraints, [name])


class Part(NamedTuple):
    """One of several mechanisms side by side, and where its coordinates, degrees of freedom and rows are."""

    name: str
    loop: Loop
    bodies: slice
    q: slice
    v: slice
    rows: slice

    def of(self, state: LoopState) -> LoopState:
        """Its state."""
        return LoopState(state.q[self.q], state.v[self.v], state.tau[self.v])


def side_by_side(names: tuple[str, ...]) -> tuple[Model, list[Part]]:
    """The mechanisms as one model with all their constraints, so that one program serves all."""
    loops = [make(name) for name in names]
    models = [dataclasses.replace(made.model, constraints=tuple(made.constraints)) for made in loops]
    rows = [int(row_starts(model.constraints)[-1]) for model in models]
    ends = np.cumsum([(m.nb, m.nq, m.nv, k) for m, k in zip(models, rows, strict=True)], axis=0)
    starts = np.concatenate([np.zeros((1, 4), int), ends[:-1]])
    parts = [
        Part(name, made, *map(slice, start, end))
        for name, made, start, end in zip(names, loops, starts.tolist(), ends.tolist(), strict=True)
    ]
    return jaxcfa.combine(models, [f"{name}: " for name in names]), parts


@functools.cache
def all_loops() -> tuple[Model, list[Part], LoopState]:
    """All mechanisms side by side, and a state of them."""
    model, parts = side_by_side(NAMES)
    return model, parts, _state(model, model.constraints, NAMES)


@functools.cache
def some_loops(*names: str) -> tuple[Model, list[Part], LoopState]:
    """Some of them side by side, in the same states."""
    _, parts, state = all_loops()
    states = {part.name: part.of(state) for part in parts}
    return *side_by_side(names), LoopState(*map(np.concatenate, zip(*(states[name] for name in names), strict=True)))


def _state(model: Model, constraints: tuple, names: Sequence[str]) -> LoopState:
    keys = jax.random.split(jax.random.key(7), 2)
    loops = [make(name) for name in names]
    v, tau = (np.concatenate([jax.random.normal(key, (made.model.nv,)) for made in loops]) for key in keys)
    found, v = closed(model, constraints, np.concatenate([made.guess for made in loops]), v)
    assert found.closed, names
    return LoopState(np.asarray(found.q), np.asarray(v), tau)

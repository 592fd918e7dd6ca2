"""Mechanisms and states that the tests share. Cached, so that compiled functions are shared too."""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxcfa import Model, ModelBuilder, chain, combine, random_configuration, random_tree
from jaxcfa.joints import Free, Revolute, Spherical

NAMES = ("straight chain", "mixed tree", "forest", "humanoid-like")
# All of them in one program, and one whose base is a segment of its own, which costs another loop.
TOGETHER = ("all together", "humanoid-like")


@functools.cache
def mechanism(name: str, dtype: str = "float64") -> Model:
    """A mechanism by name: small ones that together have every joint type, branches, roots and armature."""
    return _MAKERS[name]().astype(dtype)


def _humanoid_like() -> Model:
    """A free base with four limbs: one heavy segment followed by many single joints, and a balanced tree."""
    builder = ModelBuilder()
    body = {"mass": 1.0, "com": (0.02, 0.0, 0.1), "inertia": (0.02, 0.03, 0.01)}
    builder.add_body("trunk", joint=Free(), **body)
    for limb in range(4):
        parent = "trunk"
        for link in range(3):
            axis = np.eye(3)[(limb + link) % 3]
            name = f"limb{limb}_{link}"
            builder.add_body(name, parent, Revolute(axis), (0.1 * limb, 0.0, 0.2), armature=0.01, **body)
            parent = name
    builder.add_frame("hand", "limb3_2", (0.0, 0.0, 0.3))
    return builder.build()


def _all_together() -> Model:
    names = (*NAMES, "free body")
    gravity = mechanism("forest").gravity
    models = [eqx.tree_at(lambda m: m.gravity, mechanism(name), gravity) for name in names]
    return combine(models, [f"{name}: " for name in names])


_MAKERS = {
    "straight chain": lambda: chain(6, armature=0.02),
    "mixed tree": lambda: random_tree(8, jax.random.key(1), armature=0.05),
    "forest": lambda: random_tree(
        7, jax.random.key(2), [Revolute, Spherical, Free], branching=0.8, roots=3, gravity=(1.0, -2.0, 3.0)
    ),
    "humanoid-like": _humanoid_like,
    # Joints of one kind make programs half as large: for what does not depend on the kinds, as rules of derivatives.
    "ball joints": lambda: random_tree(
        7, jax.random.key(4), [Spherical], branching=0.6, roots=2, armature=0.05, gravity=(1.0, -2.0, 3.0)
    ),
    "free body": lambda: random_tree(1, jax.random.key(3), [Free]),
    "all together": _all_together,
}


class Tree(NamedTuple):
    """One tree of a forest: the name of its root, its bodies and degrees of freedom."""

    name: str
    bodies: np.ndarray
    dofs: np.ndarray


def trees(model: Model) -> list[Tree]:
    """What of a forest is to be compared by itself, as magnitudes differ."""
    topology = model.topology
    root = np.arange(model.nb)
    for body, parent in enumerate(topology.parents):
        if parent >= 0:
            root[body] = root[parent]
    return [
        Tree(model.body_names[i], np.flatnonzero(root == i), np.flatnonzero(root[topology.dof_bodies] == i))
        for i in np.unique(root)
    ]


class State(NamedTuple):
    """A random state, acceleration and external wrenches of a model."""

    q: Array
    v: Array
    qdd: Array
    f_ext: Array


def random_state(model: Model, seed: int = 0) -> State:
    """Random values of order one, in the model's precision."""
    keys = jax.random.split(jax.random.key(seed), 4)
    v, qdd = (jax.random.normal(k, (model.nv,), model.dtype) for k in keys[1:3])
    return State(random_configuration(model, keys[0]), v, qdd, jax.random.normal(keys[3], (model.nb, 6), model.dtype))


def random_states(model: Model, n: int) -> State:
    """A batch of random states."""
    return jax.tree.map(lambda *x: jnp.stack(x), *(random_state(model, seed) for seed in range(n)))

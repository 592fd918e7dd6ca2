"""The mechanisms that programs are compiled for, in float32."""

from functools import cache

import numpy as np

import jaxcfa
from jaxcfa import closed_chains
from jaxcfa.joints import Free, Revolute


@cache
def chain(n: int) -> jaxcfa.Model:
    return jaxcfa.chain(n, dtype="float32")


@cache
def quadruped() -> jaxcfa.Model:
    """A trunk that floats, with four legs of three joints each, as Unitree's Go2 has them."""
    builder = jaxcfa.ModelBuilder()
    builder.add_body("trunk", joint=Free(), mass=7.0, com=(0.02, 0.0, 0.0), inertia=(0.025, 0.098, 0.107))
    for leg in range(4):
        front, left = 1 - 2 * (leg // 2), 1 - 2 * (leg % 2)
        parent, placement = "trunk", (0.19 * front, 0.047 * left, 0.0)
        for link, (axis, below) in enumerate(zip(((1, 0, 0), (0, 1, 0), (0, 1, 0)), (0.0, 0.0, -0.21), strict=True)):
            name = f"leg{leg}_{link}"
            at = (0.0, 0.095 * left, 0.0) if link == 1 else (0.0, 0.0, below)
            builder.add_body(
                name,
                parent,
                Revolute(axis),
                placement if link == 0 else at,
                mass=0.7,
                com=(0.0, 0.01 * left, -0.03),
                inertia=(0.004, 0.004, 0.001),
                armature=0.01,
            )
            parent = name
    return builder.build(dtype="float32")


@cache
def four_bar() -> tuple[jaxcfa.Model, tuple[closed_chains.AbstractConstraint, ...]]:
    """Three bars and the ground, closed by a joint."""
    builder = jaxcfa.ModelBuilder()
    parent, before = None, 0.0
    for name, length in (("crank", 0.4), ("coupler", 1.0), ("rocker", 0.8)):
        inertia = np.array([1e-3 * length, length**3 / 12, length**3 / 12])
        at, com = (before, 0.0, 0.0), (length / 2, 0.0, 0.0)
        builder.add_body(name, parent, Revolute((0, 1, 0)), at, mass=length, com=com, inertia=inertia)
        parent, before = name, length
    builder.add_frame("end", parent, (before, 0.0, 0.0))
    builder.add_frame("ground", None, (1.1, 0.0, 0.0))
    model = builder.build(dtype="float32")
    return model, (closed_chains.loop_joint(model, "ground", "end", Revolute((0, 1, 0))),)

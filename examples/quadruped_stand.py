"""Drops a quadruped on the ground, where it stands by motors that are springs and dampers.

The robot is that of quadruped_walk.py. Prints what its feet carry, and draws where it begins and stands. Run:

    python examples/quadruped_stand.py [--robot go2.urdf --feet FL_foot FR_foot RL_foot RR_foot] [--height 0.2]
"""

import argparse
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp

import jaxcfa
from _robots import installed
from jaxcfa.viz import snapshot
from quadruped_walk import FEET, LEG, robot_model

RADIUS = 0.02  # of a foot [m]
TIME_STEP, STEPS = 2e-3, 750
STIFFNESS, DAMPING = 100.0, 5.0  # [N m/rad], [N m s/rad]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", type=Path, help="URDF or MJCF file of a quadruped with twelve joints")
    parser.add_argument("--feet", nargs=4, default=FEET, help="frames of the feet")
    parser.add_argument("--height", type=float, default=0.2, help="of the feet above the ground, at first [m]")
    parser.add_argument("--output", type=Path, default=Path("output/quadruped_stand.png"), help="file of the picture")
    arguments = parser.parse_args()

    jax.config.update("jax_enable_x64", True)
    name, model = robot_model(arguments.robot)
    contacts = jaxcfa.ground_contacts(model, arguments.feet, radius=RADIUS, friction=0.8)
    pose, still = jaxcfa.neutral(model).at[7:].set(jnp.tile(jnp.array(LEG), 4)), jnp.zeros(model.nv)
    gap = jaxcfa.contact_state(model, contacts, pose, still).gap
    start = pose.at[2].add(arguments.height - jnp.min(gap))

    def feedback(t, q, v):
        return still.at[6:].set(-STIFFNESS * (q[7:] - pose[7:]))

    # Damping of the model, unlike that of feedback, is stable in steps that are as long as these.
    damped = eqx.tree_at(lambda x: x.damping, model, still.at[6:].set(DAMPING))
    motion = jaxcfa.rollout(damped, start, still, feedback, TIME_STEP, steps=STEPS, limits=True, contacts=contacts)
    end = jaxcfa.contact_state(model, contacts, motion.q[-1], motion.v[-1])
    carried = end.force[:, 2] / (9.81 * jnp.sum(model.mass))
    limits = model.limits.effort[6:]
    print(f"{name}: dropped from {arguments.height} m, seen for {STEPS * TIME_STEP} s")
    for label, value in {
        "height of the body over that of the pose [m]": motion.q[-1, 2] - (start[2] - arguments.height),
        "largest velocity in the end [rad/s, m/s]": jnp.max(jnp.abs(motion.v[-1])),
        **{f"upward force on {foot} / weight": force for foot, force in zip(arguments.feet, carried, strict=True)},
        "largest torque in the end / limit": jnp.max(jnp.abs(feedback(0, motion.q[-1], motion.v[-1])[6:]) / limits),
    }.items():
        print(f"{label:48}{float(value):12.5g}")
    shapes = arguments.robot or installed("go2.urdf")
    snapshot(model, motion.q[jnp.array([0, -1])], arguments.output, shapes, ground=contacts.ground)
    print(f"Picture: {arguments.output}")


if __name__ == "__main__":
    main()

"""Draws motion.png: a Panda brings its hand from one side of a post to the other, by optimal control.

Needs the package example-robot-data. `python docs/figures/motion.py`
"""

import dataclasses
import warnings
from importlib import metadata
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np

import jaxcfa
from jaxcfa import inverse_kinematics as ik, optimal_control as oc, viz

mpl.use("Agg")
import matplotlib.pyplot as plt

jax.config.update("jax_enable_x64", True)
warnings.simplefilter("ignore")

ROBOTS = Path(
    str(metadata.distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots"))
)
FILE = ROBOTS / "panda_description/urdf/panda.urdf"
HAND, DT, STEPS = "panda_hand", 0.04, 50

model = jaxcfa.load_model(FILE)
fingers = ["panda_finger_joint1", "panda_finger_joint2"]
model = jaxcfa.lock_joints(model, fingers, jnp.full(model.nq, 0.04))
visuals = viz.load_visuals(FILE, model)
ready = jnp.array([0.0, -0.4, 0.0, -2.0, 0.0, 1.6, 0.8])
down = jnp.array([0.0, 0.0, -1.0])


def reach(point):
    targets = [ik.FramePosition(HAND, jnp.array(point)), ik.FrameDirection(HAND, down)]
    return ik.solve(model, targets, ready, preferences=ik.Posture(ready)).q


start, end = reach([0.45, -0.45, 0.25]), reach([0.45, 0.45, 0.25])
POST, CLEARANCE = jnp.array([0.55, 0.0, 0.3]), 0.3


def over_the_post(stage):
    """The hand keeps away from the top of the post."""
    apart = jaxcfa.frame_pose(model, stage.q, HAND, motions=stage.motions).translation - POST
    return jnp.sum(apart**2)[None] - CLEARANCE**2


problem = oc.Problem(
    oc.RobotDynamics(model, DT),
    STEPS,
    costs=[oc.Cost(oc.Control(), 1e-3 * DT), oc.Cost(oc.Velocity(), 0.1 * DT)],
    constraints=[
        oc.Bounds(oc.Position(), model.limits.lower, model.limits.upper),
        oc.Bounds(oc.Control(), -model.limits.effort, model.limits.effort),
        oc.Bounds(over_the_post, lower=0.0),
    ],
    end_costs=[oc.Cost(oc.Posture(end), 1e3), oc.Cost(oc.Velocity(), 1e2)],
)
guess = jnp.linspace(jnp.concatenate([start, jnp.zeros(7)]), jnp.concatenate([end, jnp.zeros(7)]), STEPS + 1)
hold = jax.vmap(lambda q: jaxcfa.gravity_forces(model, q))(guess[:-1, :7])
plan = oc.solve(problem, (start, jnp.zeros(7)), (guess, hold))
print(oc.SolveStatus(int(plan.status)).name, float(plan.cost), int(plan.iterations))

# White parts are coloured by the body, and the ball that the hand keeps away from is shown smaller than its distance.
shown = [dataclasses.replace(part, color=None) if min(part.color) > 0.8 else part for part in visuals]
pose = np.eye(4)
pose[:3, 3] = POST
ball = viz.Visual(viz.Sphere(0.1), None, pose, (0.8, 0.25, 0.25, 1.0))

figure, (left, *right) = plt.subplots(1, 2, figsize=(11, 5), width_ratios=(1.2, 1), layout="constrained")
viz.draw(left, model, np.asarray(plan.q[jnp.array([0, 14, 25, 36, 50])]), [*shown, ball], azimuth=-25, elevation=32)
t = np.arange(STEPS) * DT
right[0].plot(t, plan.controls, label=model.joint_names)
right[0].set(xlabel="time [s]", ylabel="torque [N m]")
right[0].legend(fontsize="small", frameon=False)
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)

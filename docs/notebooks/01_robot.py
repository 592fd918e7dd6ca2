# %% [markdown]
# # A robot, and all there is to compute
#
# This page is a script, `docs/notebooks/01_robot.py`: `jupytext --to notebook 01_robot.py` makes a notebook of it,
# and Jupyter with jupytext opens it as one.
#
# We load a Franka Panda from its URDF file, look at it, compute where its parts are, how they move, and what torques
# that takes; then we change the robot, and bring its hand to places of our choice.

# %%
import warnings
from importlib import metadata
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import jaxcfa
from jaxcfa import inverse_kinematics as ik, viz

jax.config.update("jax_enable_x64", True)
np.set_printoptions(precision=3, suppress=True)

TARGETS = 48  # of inverse kinematics, on a circle
RADIUS = 0.22  # of the circle [m]
PAYLOAD = 2.0  # in the hand [kg]

# %% [markdown]
# ## Load and look
#
# The file comes with the package `example-robot-data`. What it holds beyond inertias, joints and shapes (here
# controllers of its makers) is named in a warning, which we know and leave out.

# %%
package = metadata.distribution("example-robot-data")
robots = Path(str(package.locate_file("cmeel.prefix/share/example-robot-data/robots")))
file = robots / "panda_description/urdf/panda.urdf"
with warnings.catch_warnings():
    warnings.simplefilter("ignore", jaxcfa.io.ModelWarning)
    model = jaxcfa.load_model(file)
    visuals = viz.load_visuals(file, model)

print(f"{model.nb} bodies, {model.nq} coordinates, {float(model.mass.sum()):.2f} kg that move")
print("joints:", ", ".join(model.joint_names))
print(model.joint("panda_joint4"))

# %% [markdown]
# ## Everything, for one state
#
# Functions take a model and one state. A program that computes many results of it is an ordinary function under
# `jax.jit`; how the bodies move is computed once and handed on as `motions`.

# %%
hand = "panda_hand"
ready = jnp.array([0.0, -0.6, 0.0, -2.2, 0.0, 1.7, 0.8, 0.04, 0.04])
v = jnp.array([0.3, -0.2, 0.4, 0.5, -0.6, 0.2, 0.8, 0.0, 0.0])
qdd = jnp.array([1.0, -1.0, 0.5, 2.0, 1.0, -2.0, 3.0, 0.0, 0.0])


@jax.jit
def everything(model, q, v, qdd):
    motions = jaxcfa.body_motions(model, q, v)
    tau = jaxcfa.inverse_dynamics(model, q, v, qdd, motions=motions)
    return {
        "pose": jaxcfa.frame_pose(model, q, hand),
        "velocity": jaxcfa.frame_velocity(model, q, v, hand),
        "jacobian": jaxcfa.jacobian(model, q, hand),
        "torques": tau,
        "accelerations": jaxcfa.forward_dynamics(model, q, v, tau, motions=motions),
        "mass matrix": jaxcfa.mass_matrix(model, q),
        "bias": jaxcfa.bias_forces(model, q, v),
        "gravity": jaxcfa.gravity_forces(model, q),
        "center of mass": jaxcfa.center_of_mass(model, q),
        "momentum": jaxcfa.momentum(model, q, v),
        "kinetic energy": jaxcfa.kinetic_energy(model, q, v, motions=motions),
        "potential energy": jaxcfa.potential_energy(model, q),
    }


found = everything(model, ready, v, qdd)
print("hand at             ", np.round(found["pose"].translation, 3), "m")
print("hand moves with     ", np.round(found["velocity"][3:], 3), "m/s")
print("centre of mass      ", np.round(found["center of mass"], 3), "m")
print("linear momentum     ", np.round(found["momentum"][3:], 3), "kg m/s")
print("kinetic energy      ", f"{found['kinetic energy']:.3f} J")
print("torques of the arm  ", np.round(found["torques"][:7], 2), "N m")
print("of which for gravity", np.round(found["gravity"][:7], 2), "N m")

# %% [markdown]
# The results belong together, by laws that we can check: the Jacobian gives the hand's velocity, the mass matrix and
# the bias give the torques, forward dynamics undoes inverse dynamics, and kinetic energy is a product with the mass
# matrix.

# %%
mass_matrix = found["mass matrix"]
errors = {
    "J v - velocity of the hand": found["jacobian"] @ v - found["velocity"],
    "M qdd + bias - inverse dynamics": mass_matrix @ qdd + found["bias"] - found["torques"],
    "forward dynamics of inverse dynamics - qdd": found["accelerations"] - qdd,
    "v M v / 2 - kinetic energy": v @ mass_matrix @ v / 2 - found["kinetic energy"],
}
for law, error in errors.items():
    print(f"{law:45}{float(jnp.max(jnp.abs(error))):9.1e}")

# %% [markdown]
# ## Change it
#
# Models are values: functions return changed ones. Those of the same structure run in the same compiled program, so
# the payload below costs nothing to compile; the arm with locked fingers is another structure, with seven
# coordinates.

# %%
loaded = jaxcfa.add_payload(model, hand, mass=PAYLOAD, com=(0.0, 0.0, 0.1), inertia=0.002)
gravity = {f"{mass:g} kg": everything(m, ready, v, qdd)["gravity"][:7] for mass, m in ((0.0, model), (PAYLOAD, loaded))}
arm = jaxcfa.lock_joints(model, ["panda_finger_joint1", "panda_finger_joint2"], q=ready)
print(f"with locked fingers: {arm.nv} degrees of freedom, {float(arm.mass.sum()):.2f} kg")

# %% [markdown]
# ## Bring the hand somewhere
#
# Inverse kinematics for many targets at once: the hand points down, and its place goes round a circle in front of the
# robot. Targets are a batch by `jax.vmap`; a weak preference for a posture decides what the seventh joint leaves
# open.

# %%
angles = jnp.linspace(0, 2 * jnp.pi, TARGETS, endpoint=False)
circle = jnp.stack([0.5 + 0 * angles, RADIUS * jnp.cos(angles), 0.45 + RADIUS * jnp.sin(angles)], axis=1)


@jax.jit
@jax.vmap
def reach(point):
    targets = [ik.FramePosition(hand, point), ik.FrameDirection(hand, direction=jnp.array([0.0, 0.0, -1.0]))]
    return ik.solve(arm, targets, ready[:7], preferences=ik.Posture(ready[:7]))


solutions = reach(circle)
paths = jax.jit(jax.vmap(lambda q: jaxcfa.frame_pose(arm, q, hand).translation))(solutions.q)

# %%
figure = plt.figure(figsize=(11, 6.5), layout="constrained")
grid = figure.add_gridspec(2, 2, width_ratios=[1.3, 1])
scene, bars, joints = figure.add_subplot(grid[:, 0]), figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, 1])
shown = np.array([27, 0, 12]) * TARGETS // 48
full = np.column_stack([solutions.q[shown], np.full((len(shown), 2), 0.04)])
viz.draw(scene, model, full, visuals, azimuth=35)
scene.set_title("three configurations on the circle")
place = np.arange(7)
for shift, (label, values) in zip((-0.2, 0.2), gravity.items(), strict=True):
    bars.bar(place + shift, values, 0.4, label=f"payload {label}")
bars.set(xticks=place, xticklabels=place + 1, xlabel="joint", ylabel="torque against gravity [N m]")
bars.legend()
joints.plot(np.rad2deg(angles), np.rad2deg(solutions.q), label=[str(i + 1) for i in place])
joints.set(xlabel="place on the circle [degrees]", ylabel="joint angles [degrees]")
joints.legend(title="joint", fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
plt.show()

# %% [markdown]
# ## What was seen

# %%
worst = max(float(jnp.max(jnp.abs(error))) for error in errors.values())
print(f"The laws hold to {worst:.0e} in units of the quantities.")
print(
    f"A payload of {PAYLOAD:g} kg changes the torque of the shoulder from {gravity['0 kg'][1]:.1f} "
    f"to {gravity[f'{PAYLOAD:g} kg'][1]:.1f} N m."
)
print(
    f"{int(solutions.reached.sum())} of {TARGETS} targets were reached, "
    f"the worst to {1e3 * float(jnp.max(jnp.linalg.norm(paths - circle, axis=1))):.0e} mm."
)

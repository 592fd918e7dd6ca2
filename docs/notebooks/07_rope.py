# %% [markdown]
# # A rope of a thousand links
#
# This page is a script, `docs/notebooks/07_rope.py`: `jupytext --to notebook 07_rope.py` makes a notebook of it, and
# Jupyter with jupytext opens it as one.
#
# A rope hangs from a hook, as a chain of a thousand rods. Which start makes its free end pass a given point a third
# of a second later? The simulated motion has a derivative by all thousand velocities at the start, at the price of a
# few simulations, and a few steps along it find an answer. To keep this page quick the motion is short; everything
# else is as large as it says.

# %%
import time

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import jaxcfa

jax.config.update("jax_enable_x64", True)

LINKS = 1000
LENGTH, MASS = 2.0, 1.0  # of the rope [m, kg]
DAMPING = 2e-5  # of every joint [N m s]
DURATION, STEP = 0.3, 5e-4  # [s]; shorter steps for more links
TARGET = (0.35, -1.75)  # of the free end, x and z [m]
ITERATIONS = 15

# %% [markdown]
# ## The rope
#
# `jaxcfa.chain` lays its rods along x, with joints about y, and gravity here points along x: the rope hangs when its
# angles are zero. In the pictures "down" is this direction.

# %%
rope = jaxcfa.chain(LINKS, length=LENGTH / LINKS, mass=MASS / LINKS, damping=DAMPING, gravity=(9.81, 0.0, 0.0))
steps = round(DURATION / STEP)
hanging = jnp.zeros(LINKS)
torques = jnp.zeros((steps, LINKS))
print(f"{LINKS} links of {1e3 * LENGTH / LINKS:g} mm and {1e3 * MASS / LINKS:g} g, {steps} steps of {1e3 * STEP:g} ms")


def end(v0):
    """Where the free end is after the motion, to the side and up [m]."""
    motion = jaxcfa.rollout(rope, hanging, v0, torques, STEP)
    place = jaxcfa.frame_pose(rope, motion.q[-1], "tip").translation
    return jnp.stack([place[2], -place[0]])


# %% [markdown]
# ## The gradient of a whole motion
#
# Two numbers, the end's place, by a thousand: reverse mode needs two sweeps back through the motion. `rollout` keeps
# some fifty of its states and computes the others again. We hold the result against a difference in a random
# direction.


# %%
def with_slope(v0):
    """The end, and its derivative by the velocities at the start (2, links)."""
    place, pull = jax.vjp(end, v0)
    return place, jax.vmap(lambda row: pull(row)[0])(jnp.eye(2))


began = time.perf_counter()
forward, both = (jax.jit(f).lower(hanging).compile() for f in (end, with_slope))
print(f"compiled in {time.perf_counter() - began:.1f} s")
seconds = {}
ramp = 0.002 * jnp.linspace(2.0, 0.0, LINKS)
for name, program in (("motion", forward), ("with derivatives", both)):
    began = time.perf_counter()
    jax.block_until_ready(program(ramp))
    seconds[name] = time.perf_counter() - began
    print(f"{name:18}{seconds[name]:6.2f} s")
direction, h = 0.01 * jax.random.normal(jax.random.key(0), (LINKS,)), 1e-4
difference = (forward(ramp + h * direction) - forward(ramp - h * direction)) / (2 * h)
error = float(jnp.linalg.norm(both(ramp)[1] @ direction - difference) / jnp.linalg.norm(difference))

# %% [markdown]
# ## The start that reaches the target
#
# There are many; we want the one with the smallest velocities. Each iteration takes the smallest that would reach a
# place on the way to the target if the motion were linear in them: `v0 = J^T (J J^T)^-1 (wanted - place + J v0)`. The
# way is gone in steps, since the motion is far from linear.

# %%
target, v0, misses = jnp.array(TARGET), ramp, []
first, _ = both(v0)
for i in range(ITERATIONS):
    place, slope = both(v0)
    misses.append(float(jnp.linalg.norm(target - place)))
    wanted = place + (target - place) * min(1.0, 0.2 + i / ITERATIONS)
    gram = slope @ slope.T
    v0 = slope.T @ jnp.linalg.solve(gram + 1e-6 * jnp.trace(gram) * jnp.eye(2), wanted - place + slope @ v0)
misses.append(float(jnp.linalg.norm(target - forward(v0))))
print("missed by [mm]:", np.round(1e3 * np.array(misses), 3))

# %%
motion = jax.jit(lambda v0: jaxcfa.rollout(rope, hanging, v0, torques, STEP))(v0)
instants = np.linspace(0, steps, 9).round().astype(int)
outlines = jax.jit(jax.vmap(lambda q: jaxcfa.forward_kinematics(rope, q).translation))(motion.q[instants])

figure, (shapes, start, progress) = plt.subplots(1, 3, figsize=(11, 4), layout="constrained")
colors = plt.get_cmap("viridis_r")(np.linspace(0.1, 1.0, len(instants)))
for instant, outline, color in zip(instants, np.asarray(outlines), colors, strict=True):
    shapes.plot(outline[:, 2], -outline[:, 0], color=color, label=f"{STEP * instant:.2f} s")
shapes.plot(*TARGET, "x", color="tab:red", markersize=10, label="target")
shapes.set(xlabel="to the side [m]", ylabel="up [m]", aspect="equal")
shapes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
place_along = np.linspace(0, LENGTH, LINKS)
start.plot(place_along, np.cumsum(v0), label="turning of the rope at the start [rad/s]")
start.plot(place_along, motion.v[-1].cumsum(), label="and at the end [rad/s]")
start.set(xlabel="along the rope, from the hook [m]")
start.legend(fontsize="small")
progress.semilogy(1e3 * np.array(misses), ".-")
progress.set(xlabel="iteration", ylabel="the end misses the target by [mm]")
for axis in (start, progress):
    axis.grid(alpha=0.3)
plt.show()

# %% [markdown]
# ## What was seen

# %%
print(
    f"{steps} steps of {LINKS} links take {seconds['motion']:.2f} s, and "
    f"{seconds['with derivatives']:.2f} s with derivatives of both coordinates by all {LINKS} velocities,"
)
print(f"which agree with a finite difference to {error:.0e}.")
print(f"The free end passes the target at {misses[-1]:.0e} m after {ITERATIONS} iterations, from {misses[0]:.2f} m.")

# %% [markdown]
# # A robot in space turns itself
#
# This page is a script, `docs/notebooks/06_space_robot.py`: `jupytext --to notebook 06_space_robot.py` makes a
# notebook of it, and Jupyter with jupytext opens it as one.
#
# A satellite with two arms floats without any force from outside. Its momentum is zero and stays zero; and yet it can
# turn, as a falling cat does, by moving its arms round and back to where they were. We compute how far it turns from
# momentum alone, find by gradients the motion that turns it by a given angle, and then let motors do that motion in a
# simulation.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize

import jaxcfa
from jaxcfa import viz
from jaxcfa.joints import Free, Revolute
from jaxcfa.simulation import RungeKutta4, rollout

jax.config.update("jax_enable_x64", True)

ANGLE = 30.0  # by which the satellite should turn [degrees]
DURATION, STEPS = 6.0, 200  # of the motion [s]
BODY_MASS, SIZE = 50.0, 0.6  # of a cube [kg, m]
LINK_MASS, LENGTH = 4.0, 0.6  # of a rod; each arm has two [kg, m]
WAVES = 2  # sines and cosines of each joint
ITERATIONS = 40

# %% [markdown]
# ## The robot
#
# A cube with a free joint, and on opposite sides two arms of two rods each, whose joints turn about z. There is no
# gravity.

# %%
builder = jaxcfa.ModelBuilder()
builder.add_body("body", joint=Free(), mass=BODY_MASS, inertia=BODY_MASS * SIZE**2 / 6)
for side, direction in (("right", 1.0), ("left", -1.0)):
    parent, start = "body", direction * SIZE / 2
    for part in ("shoulder", "elbow"):
        name, across = f"{side}_{part}", LINK_MASS * LENGTH**2 / 12
        builder.add_body(
            name,
            parent,
            Revolute((0.0, 0.0, 1.0)),
            (start, 0.0, 0.0),
            mass=LINK_MASS,
            com=(direction * LENGTH / 2, 0.0, 0.0),
            inertia=(0.01, across, across),
        )
        parent, start = name, direction * LENGTH
    builder.add_frame(f"{side}_hand", parent, (start, 0.0, 0.0))
model = builder.build(gravity=(0.0, 0.0, 0.0))
posture = jnp.array([0.5, -1.0, 0.5, -1.0])  # shoulder and elbow, right and left [rad]
print(f"{model.nb} bodies, {model.nv} degrees of freedom, {float(model.mass.sum()):g} kg")

# %% [markdown]
# ## Turning by momentum alone
#
# Momentum is linear in velocity, `h = A(q) v`, and `centroidal_momentum_matrix` is A. Since h is zero, the arms'
# rates determine those of the body: `A_body v_body = -A_arms v_arms`. So the angle after a motion of the arms is an
# integral along their path, however fast they go through it. The paths are closed: sums of sines and cosines that
# begin and end in the same posture, their weights the unknowns.

# %%
times = jnp.linspace(0, DURATION, STEPS + 1)


def arms(weights, t):
    """Angles of the four joints at time t; the weights (waves, 2, 4) are of sines and of cosines."""
    phase = 2 * jnp.pi * t / DURATION * jnp.arange(1, WAVES + 1)[:, None]
    waves = weights[:, 0] * jnp.sin(phase) + weights[:, 1] * (jnp.cos(phase) - 1)
    return posture + jnp.sum(waves, axis=0)


def arm_rates(weights, t):
    return jax.jvp(lambda t: arms(weights, t), (t,), (jnp.ones_like(t),))[1]


def body_velocity(q, rates):
    """That of the free joint (6,), at which there is no momentum."""
    A = jaxcfa.centroidal_momentum_matrix(model, q)
    return -jnp.linalg.solve(A[:, :6], A[:, 6:] @ rates)


def floating(weights):
    """Configurations and velocities at all times, by midpoint steps."""
    dt = DURATION / STEPS

    def velocity(free, t):
        rates = arm_rates(weights, t)
        return jnp.concatenate([body_velocity(jnp.concatenate([free, arms(weights, t)]), rates), rates])

    def step(free, t):
        def moved(v, part):
            q = jnp.concatenate([free, arms(weights, t)])
            return jaxcfa.integrate(model, q, part * dt * v)[:7]

        v = velocity(free, t)
        middle = moved(v, 0.5)
        return moved(velocity(middle, t + dt / 2), 1.0), (free, v)

    first = jaxcfa.neutral(model)[:7]
    _, (free, v) = jax.lax.scan(step, first, times)
    return jnp.concatenate([free, jax.vmap(lambda t: arms(weights, t))(times)], axis=1), v


def angle(q):
    """Of the body about z [rad]."""
    return 2 * jnp.arctan2(q[..., 6], q[..., 3])


# %% [markdown]
# ## The motion that turns by a given angle
#
# Of all motions with the wanted angle we want the gentlest: small squared rates, integrated over time, which is the
# sum of squared weights, each times the square of its wave's number. The gradient of the angle goes through the whole
# motion; sequential quadratic programming (SciPy's) does the rest.

# %%
scale = np.arange(1, WAVES + 1)[:, None, None] ** 2
turned_by = jax.jit(jax.value_and_grad(lambda w: jnp.rad2deg(angle(floating(w.reshape(WAVES, 2, 4))[0][-1]))))
effort = jax.jit(jax.value_and_grad(lambda w: jnp.sum(scale * w.reshape(WAVES, 2, 4) ** 2)))
history = []

# Each elbow follows its shoulder by a quarter of a period: a loop in the plane of both angles.
guess = np.zeros((WAVES, 2, 4))
guess[0, 0, ::2], guess[0, 1, 1::2] = 0.6, -0.6
result = scipy.optimize.minimize(
    effort,
    guess.ravel(),
    jac=True,
    method="SLSQP",
    constraints={"type": "eq", "fun": lambda w: turned_by(w)[0] - ANGLE, "jac": lambda w: turned_by(w)[1]},
    callback=lambda w: history.append((float(turned_by(w)[0]), float(effort(w)[0]))),
    options={"maxiter": ITERATIONS, "ftol": 1e-4},
)
weights = jnp.asarray(result.x).reshape(WAVES, 2, 4)
turned, efforts = np.array(history).T
q, v = jax.jit(floating)(weights)
print(f"{result.nit} iterations ({result.message})")
for i in range(0, len(history), 4):
    print(f"iteration {i + 1:2}: angle {turned[i]:7.2f} degrees, effort {efforts[i]:7.3f}")
print(f"end:          angle {turned[-1]:7.2f} degrees, effort {efforts[-1]:7.3f}")

# %% [markdown]
# ## By motors
#
# In the simulation nothing is said about momentum. Motors at the four joints follow the motion: the torques that
# inverse dynamics gives along it, and feedback. The body has no actuator.

# %%
dt = DURATION / STEPS
still = jnp.zeros(model.nv)


def motors(t, q, v):
    """Computed torques: the body's acceleration is what leaves it without force."""
    acceleration = jax.jvp(lambda t: arm_rates(weights, t), (t,), (jnp.ones_like(t),))[1]
    wanted = acceleration + 25.0 * (arms(weights, t) - q[7:]) + 10.0 * (arm_rates(weights, t) - v[6:])
    mass_matrix, bias = jaxcfa.mass_matrix(model, q), jaxcfa.bias_forces(model, q, v)
    free = -jnp.linalg.solve(mass_matrix[:6, :6], mass_matrix[:6, 6:] @ wanted + bias[:6])
    return still.at[6:].set(mass_matrix[6:, :6] @ free + mass_matrix[6:, 6:] @ wanted + bias[6:])


motion = rollout(model, q[0], v[0], motors, dt, RungeKutta4(), steps=STEPS)
momentum = jax.jit(jax.vmap(lambda q, v: jaxcfa.momentum(model, q, v)))
momenta = momentum(motion.q, motion.v)
of_arms = momentum(motion.q, motion.v.at[:, :6].set(0.0))

# %%
figure, (scene, shape, turning) = plt.subplots(1, 3, figsize=(11, 3.9), layout="constrained", width_ratios=[1.2, 1, 1])
shapes = [viz.Visual(viz.Box((SIZE, SIZE, SIZE)), "body"), *viz.default_visuals(model)[2:]]
viz.draw(scene, model, motion.q[jnp.array([0, STEPS])], shapes, azimuth=-90, elevation=60, ground=False)
scene.set_title("at the start (pale) and at the end")
for start, side in ((7, "right"), (9, "left")):
    shape.plot(*np.rad2deg(motion.q[:, start : start + 2]).T, label=side)
shape.set(xlabel="shoulder [degrees]", ylabel="elbow [degrees]")
shape.legend()
turning.plot(times, np.rad2deg(angle(motion.q)), label="simulated")
turning.plot(times, np.rad2deg(angle(q)), "--", label="from momentum")
turning.set(xlabel="time [s]", ylabel="angle of the body [degrees]")
turning.legend()
for axis in (shape, turning):
    axis.grid(alpha=0.3)
plt.show()

# %% [markdown]
# ## What was seen

# %%
print(
    f"The body turns by {float(jnp.rad2deg(angle(motion.q[-1]))):.2f} degrees, and the arms end "
    f"{float(jnp.rad2deg(jnp.max(jnp.abs(motion.q[-1, 7:] - posture)))):.0e} degrees from where they began."
)
print(
    f"Angular momentum stays below {float(jnp.max(jnp.abs(momenta[:, :3]))):.0e} kg m²/s, "
    f"where the arms alone have up to {float(jnp.max(jnp.abs(of_arms[:, :3]))):.1f}."
)
print(
    f"Largest torque: {float(jnp.max(jnp.abs(motion.tau))):.2f} N m; largest rate: "
    f"{float(jnp.max(jnp.abs(motion.v[:, 6:]))):.2f} rad/s."
)

# %% [markdown]
# # Training a policy through the simulation
#
# This page is a script, `docs/notebooks/09_training.py`: `jupytext --to notebook 09_training.py` makes a notebook of
# it, and Jupyter with jupytext opens it as one.
#
# A small neural network learns to bring an arm's hand to any target, at once and then to stay there. The simulated
# motion is differentiable, so no rewards have to be guessed at: the gradient of the loss goes back through all steps
# of all motions in a batch, and Adam does the rest. It is an ordinary training loop of some thirty lines.

# %%
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from matplotlib.patches import Circle

import jaxcfa
from jaxcfa.joints import Revolute

BATCH, UPDATES = 64, 300
STEPS, STEP = 60, 0.025  # of a motion [s]
WIDTH = 64  # of the network's two hidden layers
RATE = 5e-3  # of learning, at first
TORQUE = np.array([20.0, 10.0, 3.0])  # the network's largest torques [N m]
TESTS = 256  # targets that were not seen in training

# %% [markdown]
# ## Arm, policy and loss
#
# The arm has three links and moves in a horizontal plane, where gravity does nothing. The policy sees the angles of
# elbow and wrist as sines and cosines, the velocities, and hand and target in the axes of the first link, since no
# direction in the plane differs from the others. It gives torques within limits.

# %%
LENGTHS = (0.4, 0.35, 0.2)  # [m]
builder, parent, start = jaxcfa.ModelBuilder(), None, 0.0
for number, length in enumerate(LENGTHS, start=1):
    mass = 5.0 * length
    builder.add_body(
        f"link{number}",
        parent,
        Revolute((0.0, 0.0, 1.0)),
        (start, 0.0, 0.0),
        mass=mass,
        com=(length / 2, 0.0, 0.0),
        inertia=mass * length**2 / 12,
        damping=0.1,
    )
    parent, start = f"link{number}", length
builder.add_frame("hand", parent, (start, 0.0, 0.0))
model = builder.build()


def hand(q):
    return jaxcfa.frame_pose(model, q, "hand").translation[:2]


class Policy(eqx.Module):
    """Torques (3,) by a network."""

    network: eqx.nn.MLP

    def __call__(self, q, v, target):
        c, s = jnp.cos(q[0]), jnp.sin(q[0])
        to_link = jnp.array([[c, s], [-s, c]])
        there, missing = to_link @ target, to_link @ (target - hand(q))
        close = missing / (0.1 + jnp.linalg.norm(missing))  # resolves what is small
        seen = jnp.concatenate([jnp.cos(q[1:]), jnp.sin(q[1:]), 0.3 * v, there, 2.0 * missing, close])
        return TORQUE * jnp.tanh(self.network(seen))


def motion(policy, q, target):
    """Configurations (steps + 1, 3), velocities and torques of one motion from rest."""
    trajectory = jaxcfa.rollout(model, q, jnp.zeros(3), lambda t, q, v: policy(q, v, target), STEP, steps=STEPS)
    return trajectory.q, trajectory.v, trajectory.tau


def loss(policy, qs, targets):
    """Distance from the target during the motion, and a little for velocities at the end and for torques."""

    def one(q, target):
        q, v, tau = motion(policy, q, target)
        distance = jnp.sqrt(jnp.sum((jax.vmap(hand)(q) - target) ** 2, axis=-1) + 1e-4)
        late = jnp.linspace(0.0, 1.0, STEPS + 1) > 0.5
        effort = 0.01 * jnp.mean(late[:, None] * v**2) + 1e-3 * jnp.mean((tau / TORQUE) ** 2)
        return jnp.mean(distance * (0.2 + late)) + effort

    return jnp.mean(jax.vmap(one)(qs, targets))


def draw_tasks(key, number):
    """Starts (number, 3) and targets (number, 2) within reach: the hand's places in other configurations."""
    a, b = jax.random.split(key)
    middle, spread = jnp.array([0.0, 1.3, 0.6]), jnp.array([jnp.pi, 0.9, 0.6])
    qs, others = (middle + spread * jax.random.uniform(k, (number, 3), minval=-1) for k in (a, b))
    return qs, jax.vmap(hand)(others)


# %% [markdown]
# ## Training
#
# One update is one compiled program: draw starts and targets, simulate, differentiate, take a step.

# %%
policy = Policy(eqx.nn.MLP(13, 3, WIDTH, 2, activation=jnp.tanh, key=jax.random.key(0)))
untrained = policy
optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(RATE, UPDATES)))


@eqx.filter_jit
def update(policy, state, key):
    value, gradient = eqx.filter_value_and_grad(loss)(policy, *draw_tasks(key, BATCH))
    change, state = optimiser.update(gradient, state)
    return eqx.apply_updates(policy, change), state, value


state, losses, began = optimiser.init(eqx.filter(policy, eqx.is_array)), [], time.perf_counter()
for key in jax.random.split(jax.random.key(1), UPDATES):
    policy, state, value = update(policy, state, key)
    losses.append(value)
losses, seconds = np.array(losses), time.perf_counter() - began
print(f"{UPDATES} updates with {BATCH} motions of {STEPS} steps each in {seconds:.0f} s, compiling included")

# %% [markdown]
# ## Test
#
# Targets and starts that were not in any batch, and motions twice as long as in training.

# %%
test_q, test_targets = draw_tasks(jax.random.key(2), TESTS)


@eqx.filter_jit
def test(policy):
    def one(q, target):
        path = jaxcfa.rollout(model, q, jnp.zeros(3), lambda t, q, v: policy(q, v, target), STEP, steps=2 * STEPS).q
        return path, jnp.linalg.norm(jax.vmap(hand)(path) - target, axis=-1)

    return jax.vmap(one)(test_q, test_targets)


before, (paths, distances) = test(untrained)[1], test(policy)

# %%
figure, (learning, approach, plane) = plt.subplots(1, 3, figsize=(11, 3.9), layout="constrained")
learning.semilogy(losses, color="0.7")
learning.semilogy(np.arange(9, UPDATES), np.convolve(losses, np.ones(10) / 10, "valid"))
learning.set(xlabel="update", ylabel="loss")
times = STEP * np.arange(2 * STEPS + 1)
for values, color, label in ((before, "0.6", "untrained"), (distances, "tab:blue", "trained")):
    low, middle, high = 100 * np.percentile(values, [10, 50, 90], axis=0)
    approach.fill_between(times, low, high, color=color, alpha=0.25)
    approach.plot(times, middle, color=color, label=f"{label}: median, and 10 to 90 %")
approach.axvline(STEP * STEPS, color="black", linewidth=0.8, linestyle="--")
approach.set(xlabel="time [s]", ylabel="distance from the target [cm]", yscale="log")
approach.legend(fontsize="small", loc="lower left")
corners = jax.vmap(jax.vmap(lambda q: jnp.stack([*jaxcfa.forward_kinematics(model, q).translation[:, :2], hand(q)])))
outlines = np.asarray(corners(paths[:3]))
for outline, target, color in zip(outlines, test_targets[:3], ("tab:blue", "tab:orange", "tab:green"), strict=True):
    plane.plot(*outline[0].T, "o-", color=color, alpha=0.3, markersize=3)
    plane.plot(*outline[-1].T, "o-", color=color, markersize=3)
    plane.plot(*outline[:, -1].T, ":", color=color)
    plane.add_patch(Circle(target, 0.03, color=color, alpha=0.5))
plane.set(xlabel="x [m]", ylabel="y [m]", aspect="equal")
plane.set_title("three tests: start (pale), end, path of the hand", fontsize="medium")
for axis in (learning, approach):
    axis.grid(alpha=0.3)
plt.show()

# %% [markdown]
# ## What was seen

# %%
print(f"The loss goes from {losses[:10].mean():.3f} to {losses[-10:].mean():.3f}.")
print(
    f"Of {TESTS} new targets, the hand is within 5 cm of {np.mean(distances[:, STEPS] < 0.05):.0%} after "
    f"{STEP * STEPS:g} s; the median distance is {100 * np.median(distances[:, STEPS]):.1f} cm, "
    f"and {100 * np.median(distances[:, -1]):.1f} cm after twice that time. "
    f"Untrained, it is {100 * np.median(before[:, STEPS]):.0f} cm."
)

# %% [markdown]
# # Past an obstacle, with a load that is heavier than planned
#
# This page is a script, `docs/notebooks/08_optimal_control.py`: `jupytext --to notebook 08_optimal_control.py` makes
# a notebook of it, and Jupyter with jupytext opens it as one.
#
# An arm of three links in a vertical plane moves its hand from one side of a ball to the other, within limits of its
# torques and velocities, by the least effort. That is a problem of optimal control. Then the plan meets reality: the
# hand carries a load that the plan does not know of. We compare the planned torques, the feedback that comes with the
# plan, and model predictive control (MPC), which plans anew in every step.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Circle

import jaxcfa
from jaxcfa import optimal_control as oc
from jaxcfa.joints import Revolute

jax.config.update("jax_enable_x64", True)

DURATION, STEPS = 1.0, 25  # of the motion [s]
TORQUE, VELOCITY = np.array([60.0, 30.0, 10.0]), 4.0  # limits [N m, rad/s]
BALL, RADIUS, CLEARANCE = (0.62, 0.0, 0.25), 0.13, 0.04  # the hand and the wrist keep away by radius and clearance [m]
LOAD = 0.3  # that nobody knows of, in a hand of 1 kg [kg]
LONGER = 15  # steps that are simulated after the planned ones

# %% [markdown]
# ## The problem
#
# Terms are functions of one instant; costs, bounds and equalities are made of them. The end is a strong cost, not an
# equality, so that there is a best plan however late it is made.

# %%
builder, parent, start = jaxcfa.ModelBuilder(), None, 0.0
for name, length, mass in (("upper_arm", 0.45, 3.0), ("forearm", 0.4, 2.0), ("hand", 0.2, 1.0)):
    across = mass * length**2 / 12
    builder.add_body(
        name,
        parent,
        Revolute((0.0, -1.0, 0.0)),
        (start, 0.0, 0.0),
        mass=mass,
        com=(length / 2, 0.0, 0.0),
        inertia=(0.001, across, across),
    )
    parent, start = name, length
builder.add_frame("tip", "hand", (start, 0.0, 0.0))
model = builder.build()
loaded = jaxcfa.add_payload(model, "tip", mass=LOAD, com=(0.0, 0.0, 0.0), inertia=0.0005)

dt, ball = DURATION / STEPS, jnp.array(BALL)
q_start, q_end = jnp.array([-0.75, 0.9, 0.4]), jnp.array([0.65, 0.7, 0.5])
rest = jnp.zeros(3)
dynamics = oc.RobotDynamics(model, dt)
distances = [oc.FrameDistance(frame, point=ball) for frame in ("hand", "tip")]
problem = oc.Problem(
    dynamics,
    STEPS,
    costs=[
        oc.Cost(oc.Control(), dt / TORQUE**2),
        oc.Cost(oc.Velocity(), 0.1 * dt),
        oc.Cost(oc.Posture(q_end), 20.0 * dt),  # the sooner there, the better
    ],
    end_costs=[oc.Cost(oc.Posture(q_end), 2000.0), oc.Cost(oc.Velocity(), 50.0)],
    constraints=[
        oc.Bounds(oc.Control(), -TORQUE, TORQUE),
        oc.Bounds(oc.Velocity(), -VELOCITY, VELOCITY),
        *(oc.Bounds(distance, RADIUS + CLEARANCE) for distance in distances),
    ],
)
way = q_start + jnp.linspace(0, 1, STEPS + 1)[:, None] * (q_end - q_start)
held = jax.vmap(lambda q: jaxcfa.gravity_forces(model, q))(way[:-1])
guess = jnp.concatenate([way, jnp.zeros_like(way)], axis=1), held  # through the ball
plan = oc.solve(problem, (q_start, rest), guess)
print(f"{oc.SolveStatus(int(plan.status)).name} after {int(plan.iterations)} iterations, cost {float(plan.cost):.3f}")

# %% [markdown]
# ## With an unknown load
#
# The arm with the load, under the limits of torque, goes on for some steps after the plan's end, where plan and
# feedback hold the last planned state. Feedback needs an error before it does anything, so the load pulls the arm
# away from the end a little.
#
# MPC takes the state of every instant, does two iterations from its last plan, and applies the first torques of the
# new one. Its model is the one without the load, and its end is always as far ahead. But it compares where the arm is
# with where the model should have been, and adds the torques that explain the difference to what it applies.

# %%
plant, total = oc.RobotDynamics(loaded, dt), STEPS + LONGER
hold = jaxcfa.gravity_forces(model, plan.q[-1])


def simulate(control, memory):
    """States (steps + 1, 6) and torques; `control(t, x, memory)` gives torques, and what it wants to remember."""

    def step(carry, t):
        x, memory = carry
        u, memory = control(t, x, memory)
        u = jnp.clip(u, -TORQUE, TORQUE)
        return (plant.step(x, u, t), memory), (x, u)

    (x, _), (states, controls) = jax.lax.scan(step, (plan.states[0], memory), jnp.arange(total))
    return jnp.concatenate([states, x[None]]), controls


def planned(part):
    """The plan's torques, and a part of its feedback."""

    def control(t, x, _):
        stage, ends = jnp.minimum(t, STEPS - 1), t >= STEPS
        wanted = jnp.where(ends, plan.states[-1], plan.states[stage])
        return jnp.where(ends, hold, plan.controls[stage]) + part * plan.gains[stage] @ (x - wanted), None

    return control


def predictive(t, x, memory):
    """Torques by the newest plan and for what the model lacks; the next plan begins where the model will be."""
    last, lacking, expected = memory
    change = jaxcfa.mass_matrix(model, x[:3]) @ (expected - x)[3:] / dt
    lacking = lacking + jnp.where(t > 0, change, 0.0)
    u = last.control(problem, 0, x)
    after = dynamics.step(x, jnp.clip(u, lacking - TORQUE, lacking + TORQUE), t)
    return u + lacking, (oc.mpc_step(problem, after, last, iterations=2), lacking, after)


open_loop, closed_loop = jax.jit(jax.vmap(lambda part: simulate(planned(part), None)[0]))(jnp.array([0.0, 1.0]))
by_mpc, _ = jax.jit(lambda plan: simulate(predictive, (plan, jnp.zeros(3), plan.states[0])))(plan)
motions = {"planned torques": open_loop, "feedback": closed_loop, "MPC": by_mpc}


# %%
@jax.jit
@jax.vmap
def seen(x):
    """The arm's corners in x and z (4, 2), and how far wrist and hand are from the ball."""
    corners = [jaxcfa.frame_pose(model, x[:3], name).translation for name in (*model.body_names, "tip")]
    return jnp.stack(corners)[:, ::2], jnp.stack([jnp.linalg.norm(x - ball) for x in corners[2:]])


all_states = {"plan, without load": plan.states, **motions}
corners, room = {}, {}
for name, states in all_states.items():
    corners[name], distance = map(np.asarray, seen(states))
    room[name] = float(distance.min()) - RADIUS
errors = {name: np.linalg.norm(x[:, 3] - corners["plan, without load"][-1, 3], axis=1) for name, x in corners.items()}

figure, (scene, paths, progress) = plt.subplots(1, 3, figsize=(11, 3.9), layout="constrained")
for i in np.linspace(0, STEPS, 6).round().astype(int):
    scene.plot(*corners["plan, without load"][i].T, "o-", color="tab:blue", alpha=0.2 + 0.8 * i / STEPS, markersize=3)
colors = dict(zip(all_states, ("black", "tab:red", "tab:orange", "tab:green"), strict=True))
for name, x in corners.items():
    paths.plot(*x[:, 3].T, color=colors[name], label=name)
    progress.semilogy(dt * np.arange(len(x)), 100 * errors[name] + 1e-2, color=colors[name], label=name)
for axis in (scene, paths):
    axis.add_patch(Circle(BALL[::2], RADIUS, color="0.6"))
    axis.add_patch(Circle(BALL[::2], RADIUS + CLEARANCE, fill=False, linestyle="--"))
    axis.set(xlabel="x [m]", ylabel="z [m]", aspect="equal")
scene.set_title("the plan", fontsize="medium")
paths.set_title("paths of the hand", fontsize="medium")
progress.set(xlabel="time [s]", ylabel="distance of the hand from the planned end [cm]")
progress.legend(fontsize="small", loc="lower left")
progress.grid(alpha=0.3)
plt.show()

# %% [markdown]
# ## What was seen

# %%
print(f"{'':20}{'from the end [cm]':>20}{'room to the ball [cm]':>24}")
for name in all_states:
    print(f"{name:20}{100 * errors[name][-1]:20.2f}{100 * room[name]:24.2f}")
print(
    f"The plan keeps a clearance of {100 * room['plan, without load']:.2f} cm, of {100 * CLEARANCE:g} cm wanted, "
    f"and uses {float(jnp.max(jnp.abs(plan.controls) / TORQUE)):.0%} of the torques."
)
worse = {name: errors["planned torques"][-1] / errors[name][-1] for name in ("feedback", "MPC")}
print(
    f"With {LOAD:g} kg more in the hand, feedback ends {worse['feedback']:.0f} times "
    f"and MPC {worse['MPC']:.0f} times nearer to the end than the planned torques."
)

# %% [markdown]
# # Two arms carry a box
#
# This page is a script, `docs/notebooks/05_two_arms.py`: `jupytext --to notebook 05_two_arms.py` makes a notebook of
# it, and Jupyter with jupytext opens it as one.
#
# Two arms of seven joints press a box between their hands, lift it and turn it. Arms that hold an object form closed
# loops; `grasp_forward_dynamics` finds how everything accelerates, and what each hand does to the box. Part of these
# forces moves the box, and part of them only squeezes it: without the squeeze, friction could not hold it.

# %%
import dataclasses
from importlib import resources

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import jaxcfa
from jaxcfa import Transform, inverse_kinematics as ik, viz
from jaxcfa.closed_chains import Grasp, RigidObject, grasp_forward_dynamics

jax.config.update("jax_enable_x64", True)

SIZE, MASS = (0.3, 0.2, 0.2), 4.0  # of the box [m, kg]
APART = 1.6  # the arms' bases [m]
SQUEEZE = 60.0  # with which the hands press [N]
LIFT, TURN = 0.2, 0.5  # of the box [m, rad]
DURATION, STEP = 1.5, 0.005  # of the motion [s]
STIFFNESS, DAMPING = 200.0, 30.0  # of the hands' tracking [1/s^2, 1/s]

# %% [markdown]
# ## Arms, box and grasps
#
# The arms stand opposite each other. Each hand holds the middle of one side of the box; with rubber tips as large as
# the hand, the grasp is rigid. Inverse kinematics brings the hands there.

# %%
arm = jaxcfa.load_model(resources.files("jaxcfa") / "data" / "arm7.urdf")
facing = Transform.from_rpy(0.0, 0.0, np.pi, (APART, 0.0, 0.0))
right_arm = jaxcfa.attach(jaxcfa.ModelBuilder().build(), -1, arm, facing)
arms, hand = [arm, right_arm], "tool"
half, toward = SIZE[0] / 2, np.pi / 2
contacts = [  # in the box; z is into it, as that of the hands
    Transform.from_rpy(0.0, toward, 0.0, (-half, 0.0, 0.0)),
    Transform.from_rpy(0.0, toward, np.pi, (half, 0.0, 0.0)),
]
box = RigidObject(MASS, (0.0, 0.0, 0.0), MASS / 12 * (np.sum(np.square(SIZE)) - np.square(SIZE)))
grasps = [Grasp.rigid(hand, contact) for contact in contacts]
start = Transform.from_translation((APART / 2, 0.0, 0.4))
posture = jnp.array([0.0, 0.2, 0.0, 1.6, 0.0, -0.2, 0.0])


@jax.jit
def reach(model, target):
    return ik.solve(model, ik.FramePose(hand, target), posture, preferences=ik.Posture(posture))


found = [reach(model, start @ contact) for model, contact in zip(arms, contacts, strict=True)]
print("hands in place:", [bool(x.reached) for x in found])
q0 = jnp.stack([x.q for x in found])

# %% [markdown]
# ## Torques for a motion and a squeeze
#
# The box needs a certain force and moment for its motion: mass times acceleration, against gravity. Each hand gives
# half, and presses with `SQUEEZE` besides: two opposite forces on one line, which cancel. Each arm then needs the
# torques of its own motion, by inverse dynamics, and those of the hand's wrench, `J^T f`. The hands' accelerations
# are those of the box, with feedback on what is off.

# %%
gravity = arm.gravity


def reference(t):
    """Pose, velocity and acceleration of the box: up and round, from rest to rest, by a polynomial of fifth order."""

    def part(t):
        s = jnp.clip(t / DURATION, 0, 1)
        return s**3 * (10 - 15 * s + 6 * s**2)

    rate = jax.grad(part)
    up = jnp.array([0.0, 0.0, 0.0, 0.0, 0.0, LIFT]).at[2].set(TURN)  # turns about z
    pose = Transform.from_rpy(0.0, 0.0, TURN * part(t), start.translation + LIFT * part(t) * jnp.array([0.0, 0.0, 1.0]))
    return pose, rate(t) * up, jax.grad(rate)(t) * up


def rotation_vector(rotation):
    return Transform(rotation, jnp.zeros(3)).as_rotation_vector()


def torques(t, q, v, squeeze):
    """Of each arm (2, 7)."""
    pose, velocity, acceleration = reference(t)
    turning, needed = velocity[:3], MASS * (acceleration[3:] - gravity)
    world_inertia = pose.rotation @ box.inertia @ pose.rotation.T
    moment = world_inertia @ acceleration[:3] + jnp.cross(turning, world_inertia @ turning)
    result = []
    for i, (model, contact) in enumerate(zip(arms, contacts, strict=True)):
        offset, target = pose.rotation @ contact.translation, pose @ contact
        wanted = jnp.concatenate([turning, velocity[3:] + jnp.cross(turning, offset)])
        swing = jnp.cross(acceleration[:3], offset) + jnp.cross(turning, jnp.cross(turning, offset))
        now = jaxcfa.frame_pose(model, q[i], hand)
        error = jnp.concatenate(
            [rotation_vector(target.rotation @ now.rotation.T), target.translation - now.translation]
        )
        J = jaxcfa.jacobian(model, q[i], hand)
        hand_acceleration = acceleration.at[3:].add(swing) + STIFFNESS * error + DAMPING * (wanted - J @ v[i])
        inverse = jnp.linalg.pinv(J)
        still = -10.0 * v[i]  # of what the hand leaves open
        bias = jaxcfa.jacobian_dot_v(model, q[i], v[i], hand)
        qdd = still + inverse @ (hand_acceleration - bias - J @ still)
        wrench = jnp.concatenate([moment / 2, needed / 2 + squeeze * target.rotation[:, 2]])
        result.append(jaxcfa.inverse_dynamics(model, q[i], v[i], qdd) + J.T @ wrench)
    return jnp.stack(result)


def accelerations(q, v, tau):
    """What the arms and the box do, whose pose and velocity are those that the left hand gives it."""
    place, twist = jaxcfa.frame_pose(arm, q[0], hand), jaxcfa.frame_velocity(arm, q[0], v[0], hand)
    pose = place @ contacts[0].inverse()
    velocity = twist.at[3:].add(jnp.cross(twist[:3], pose.translation - place.translation))
    return pose, grasp_forward_dynamics(arms, box, grasps, list(q), list(v), pose, velocity, list(tau))


@jax.jit
def simulate(q, v):
    def step(state, t):
        q, v = state
        tau = torques(t, q, v, SQUEEZE)
        pose, solution = accelerations(q, v, tau)
        after = v + STEP * jnp.stack(solution.qdd)
        return (q + STEP * after, after), (q, v, tau, pose, solution)

    return jax.lax.scan(step, (q, v), STEP * jnp.arange(round(DURATION / STEP) + 1))[1]


qs, vs, taus, poses, solutions = simulate(q0, jnp.zeros_like(q0))
times = STEP * np.arange(len(qs))

# %% [markdown]
# ## What the hands do to the box
#
# At rest, we press harder and harder. The wrenches that `grasp_forward_dynamics` finds show the forces normal to the
# box's sides and along them; their ratio is the friction that is needed. With no squeeze, friction would have to be
# infinite.

# %%
squeezes = jnp.linspace(0.0, 100.0, 21)


@jax.jit
@jax.vmap
def pressed(squeeze):
    still = jnp.zeros_like(q0)
    pose, solution = accelerations(q0, still, torques(0.0, q0, still, squeeze))
    normal = pose.rotation @ contacts[0].rotation[:, 2]
    force = solution.wrenches[0, 3:]
    across = jnp.linalg.norm(force - (force @ normal) * normal)
    return force @ normal, across, solution.object_acceleration


normal, tangential, rest = pressed(squeezes)
sides = jax.vmap(lambda pose: jnp.stack([pose.rotation @ c.rotation[:, 2] for c in contacts]))(poses)
forces = solutions.wrenches[:, :, 3:]
normal_forces = jnp.sum(forces * sides, axis=-1)
friction = jnp.linalg.norm(forces - normal_forces[..., None] * sides, axis=-1) / normal_forces

# %%
figure, (scene, static, moving) = plt.subplots(1, 3, figsize=(11, 4), layout="constrained", width_ratios=[1.3, 1, 1])
both = jaxcfa.attach(arm, -1, arm, facing, prefix="right_")
file = resources.files("jaxcfa") / "data" / "arm7.urdf"
shapes = viz.load_visuals(file, arm)
shapes += [dataclasses.replace(x, carrier=f"right_{x.carrier}") for x in shapes]
shapes.append(viz.Visual(viz.Box(SIZE), hand, np.asarray(contacts[0].inverse().as_matrix()), (0.8, 0.5, 0.3, 1.0)))
viz.draw(scene, both, qs[jnp.array([0, -1])].reshape(2, -1), shapes, azimuth=-70)
scene.set_title("at the start (pale) and at the end")
static.plot(squeezes, normal, label="force into the box")
static.plot(squeezes, tangential, label="force along its side")
static.set(xlabel="squeeze [N]", ylabel="of the left hand at rest [N]")
static.legend()
moving.plot(times, friction, label=["left hand", "right hand"])
moving.set(xlabel="time [s]", ylabel="friction that is needed, tangential / normal", ylim=(0, None))
moving.legend()
for axis in (static, moving):
    axis.grid(alpha=0.3)
plt.show()

# %% [markdown]
# ## What was seen

# %%
target, *_ = reference(times[-1])
off = jnp.linalg.norm(poses.translation[-1] - target.translation)
opening = jax.jit(jax.vmap(lambda q: jaxcfa.relative_pose(both, q.reshape(-1), f"right_{hand}", hand).translation))(qs)
print(
    f"The squeeze appears in full, {abs(float(normal[0])):.1f} to {float(normal[-1]):.1f} N, "
    f"and accelerates the box by no more than {float(jnp.max(jnp.abs(rest))):.0e} m/s²."
)
print(
    f"The box ends {1e3 * float(off):.2f} mm from its target; the distance of the hands changes by "
    f"{1e3 * float(np.ptp(np.linalg.norm(opening, axis=1))):.3f} mm."
)
print(
    f"Pressed with {SQUEEZE:g} N, it needs friction of {float(friction.max()):.2f}; the largest torque is "
    f"{float(jnp.max(jnp.abs(taus))):.0f} N m."
)

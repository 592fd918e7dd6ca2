# %% [markdown]
# # A linkage, designed by its derivatives
#
# This page is a script, `docs/notebooks/04_linkage.py`: `jupytext --to notebook 04_linkage.py` makes a notebook of
# it, and Jupyter with jupytext opens it as one.
#
# A four-bar linkage turns the rotation of a crank into the motion of a point on its coupler. Which lengths make that
# point move along a straight line, at an even speed? Engineers of the nineteenth century found answers by insight
# (Chebyshev, Hoeken); here the loop is closed numerically, and closed configurations have derivatives by the robot's
# parameters, so the Gauss-Newton method finds an answer. Then we let the linkage swing by itself.

# %%
import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import jaxcfa
from jaxcfa.closed_chains import Projection, connect, couple, project_configuration
from jaxcfa.joints import Revolute
from jaxcfa.simulation import RungeKutta4, rollout

jax.config.update("jax_enable_x64", True)

CRANK = 0.1  # the only length that is given [m]
STROKE = 0.4  # of the straight line [m]
TURN = (0.6 * np.pi, 1.4 * np.pi)  # of the crank meanwhile [rad]
ANGLES = 121  # of the crank in a full turn
EVEN = 0.1  # how much an even speed counts, in relation to straightness
ITERATIONS = 12
DURATION, STEP = 1.5, 0.003  # of the simulation [s]

# %% [markdown]
# ## The linkage
#
# Three bars hang on the ground as a tree: the crank, the coupler on it, and the rocker. A constraint that the ends of
# coupler and rocker meet closes the loop. The tree is built once; a design is the same tree with other arrays.

# %%
NAMES = ("ground", "coupler", "rocker", "along", "across")
GUESS = jnp.array([0.17, 0.3, 0.25, 0.45, 0.06])  # lengths, and the point in the coupler's axes [m]

builder, pin = jaxcfa.ModelBuilder(), Revolute((0.0, -1.0, 0.0))
for name, parent in (("crank", None), ("coupler", "crank"), ("rocker", None)):
    builder.add_body(name, parent, pin, mass=0.5, inertia=0.002, joint_name=f"{name}_joint")
for name, body in (("coupler_end", "coupler"), ("rocker_end", "rocker"), ("point", "coupler")):
    builder.add_frame(name, body)
bars = builder.build()


def linkage(design):
    """The tree with the lengths of a design, in the plane of x and z, and the constraint that closes the loop."""
    ground, coupler, rocker, along, across = design
    arrays = (
        jnp.zeros((3, 3)).at[1, 0].set(CRANK).at[2, 0].set(ground),
        jnp.zeros((3, 3)).at[:, 0].set(jnp.stack([CRANK, coupler, rocker]) / 2),
        jnp.zeros((3, 3)).at[:, 0].set(jnp.stack([coupler, rocker, along])).at[2, 2].set(across),
    )
    model = eqx.tree_at(lambda m: (m.placement.translation, m.com, m.frame_placement.translation), bars, arrays)
    return model, connect(model, "coupler_end", "rocker_end")


def closed(model, loop, angle):
    """The configuration in which the loop is closed and the crank stands at an angle."""
    held = couple(model, "crank_joint", None, [angle])
    return project_configuration(model, [loop, held], jnp.stack([angle, 0.9 - angle, jnp.asarray(2.2)])).q


def places(design, angles):
    """The point's x and z at angles of the crank (n, 2), and the configurations."""
    model, loop = linkage(design)
    q = jax.vmap(lambda angle: closed(model, loop, angle))(angles)
    return jax.vmap(lambda q: jaxcfa.frame_pose(model, q, "point").translation[::2])(q), q


# %% [markdown]
# ## Design
#
# While the crank turns through a given angle, the point should move along a line of given length, parallel to x: its
# height should not change, and its x fall evenly, which counts less. Where the line lies is left open. The residuals'
# derivatives by the five numbers of the design go through the closed loop by the implicit function theorem: nothing
# of the iterations that close it is differentiated.

# %%
angles = np.linspace(0, 2 * np.pi, ANGLES)
counts = (angles >= TURN[0]) & (angles <= TURN[1])


def residuals(design):
    """Where the point is off, (2 n,) [m]; for pictures also its path and the configurations of the full turn."""
    path, q = places(design, jnp.asarray(angles))
    x, z = (path[counts] - jnp.mean(path[counts], axis=0)).T
    return jnp.concatenate([EVEN * (x + STROKE * jnp.linspace(-0.5, 0.5, len(x))), z]), (path, q)


@jax.jit
def linearised(design):
    """The residuals, their Jacobian, and the rest."""

    def twice(design):
        error, rest = residuals(design)
        return error, (error, rest)

    jacobian, (error, rest) = jax.jacfwd(twice, has_aux=True)(design)
    return error, jacobian, rest


design, damping, costs = GUESS, 0.1, []
error, jacobian, first = linearised(design)
for _ in range(ITERATIONS):
    costs.append(float(error @ error))
    matrix = jacobian.T @ jacobian
    moved = design - jnp.linalg.solve(matrix + damping * jnp.diag(jnp.diag(matrix)), jacobian.T @ error)
    new = linearised(moved)
    better = new[0] @ new[0] < costs[-1]
    damping *= 0.2 if better else 10.0
    if better:
        design, (error, jacobian, last) = moved, new

paths = {"guess": np.asarray(first[0]), "design": np.asarray(last[0])}
straight = {name: path[counts] for name, path in paths.items()}
for name, value in zip(NAMES, design, strict=True):
    print(f"{name:8}{float(value):8.4f} m, {float(value) / CRANK:6.3f} cranks")

# %% [markdown]
# ## Let it go
#
# The linkage is let go at rest, and nothing drives or brakes it. `Projection` closes the loop in every step.

# %%
model, loop = linkage(design)
motion = rollout(
    model,
    last[1][ANGLES // 2],
    jnp.zeros(model.nv),
    jnp.zeros((round(DURATION / STEP), model.nv)),
    STEP,
    RungeKutta4(),
    constraints=[loop],
    stabilization=Projection(),
)


@jax.jit
@jax.vmap
def observed(q, v):
    """Energy, and how far the loop is open."""
    pose = jaxcfa.relative_pose(model, q, "coupler_end", "rocker_end")
    energy = jaxcfa.kinetic_energy(model, q, v) + jaxcfa.potential_energy(model, q)
    return energy, jnp.linalg.norm(pose.translation)


energies, gaps = observed(motion.q, motion.v)

# %%
figure, (drawing, progress, speeds) = plt.subplots(
    1, 3, figsize=(11, 3.8), layout="constrained", width_ratios=[1.5, 1, 1]
)
corner_names = ("crank", "coupler", "coupler_end", "point", "coupler_end", "rocker")
corners = jax.jit(
    jax.vmap(lambda q: jnp.stack([jaxcfa.frame_pose(model, q, n).translation[::2] for n in corner_names]))
)
instants = np.searchsorted(angles, np.linspace(*TURN, 5))
for i, outline in enumerate(np.asarray(corners(last[1][instants]))):
    drawing.plot(*outline.T, "o-", color="tab:blue", alpha=0.25 + 0.15 * i, markersize=3)
for name, color in zip(paths, ("0.6", "tab:red"), strict=True):
    drawing.plot(*straight[name].T, color=color, linewidth=3, label=f"path of the point, {name}")
drawing.plot(*paths["design"].T, color="tab:red", linewidth=1)
drawing.set(xlabel="x [m]", ylabel="z [m]", aspect="equal")
drawing.legend(fontsize="small", loc="lower right")
progress.semilogy(costs, ".-")
progress.set(xlabel="iteration", ylabel="sum of squares [m²]")
speeds.plot(motion.t, motion.v[:, 0], label="crank")
speeds.plot(motion.t, motion.v[:, 2], label="rocker")
speeds.set(xlabel="time [s]", ylabel="velocity of the free linkage [rad/s]")
speeds.legend()
for axis in (progress, speeds):
    axis.grid(alpha=0.3)
plt.show()

# %% [markdown]
# ## What was seen

# %%
heights = {name: 1e3 * float(np.ptp(path[:, 1])) for name, path in straight.items()}
length = float(np.ptp(straight["design"][:, 0]))
print(
    f"Along {1e3 * length:.0f} mm, the point leaves the straight line by {heights['design'] / 2:.3f} mm "
    f"to either side; before, it was {heights['guess'] / 2:.0f} mm."
)
print(
    f"The free linkage keeps its loop closed to {1e3 * float(gaps.max()):.0e} mm in {len(motion.tau)} steps, "
    f"and its energy to {float(np.ptp(energies)):.0e} J."
)

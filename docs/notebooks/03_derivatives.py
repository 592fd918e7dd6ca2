# %% [markdown]
# # Derivatives, and a robot that is weighed by its torques
#
# This page is a script, `docs/notebooks/03_derivatives.py`: `jupytext --to notebook 03_derivatives.py` makes a
# notebook of it, and Jupyter with jupytext opens it as one.
#
# Dynamics can be differentiated by states, torques, wrenches and every array of the model. First we hold derivatives
# against finite differences, and ask what they cost. Then we use them: the masses of an arm are found from noisy
# torques, and then all its inertias, in such a way that the bodies found are possible ones.

# %%
import time
from importlib import resources

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import jaxcfa
from jaxcfa import LogCholesky
from jaxcfa.model import inertia_problems

jax.config.update("jax_enable_x64", True)

SAMPLES = 128  # states at which torques are measured
NOISE = 0.02  # of measured torques [N m]
MASS_STEPS = 8  # of Gauss-Newton
INERTIA_STEPS = 15  # of Levenberg-Marquardt
SPREAD = 0.3  # of the first guess of inertias, relative

arm = jaxcfa.load_model(resources.files("jaxcfa") / "data" / "arm7.urdf")
keys = jax.random.split(jax.random.key(0), 9)

# %% [markdown]
# ## Against finite differences
#
# A number that depends on everything: the squared accelerations of the arm. Its derivative in a direction of all
# inputs, configuration, velocity, torques and every array of the model, must be what central differences approach.
# With long steps these are wrong by curvature, with short ones by rounding; in between they are right to some ten
# digits, and the derivative has to be there.

# %%
q = jnp.array([0.3, 0.8, -0.4, 1.2, 0.5, -0.9, 0.2])
v, tau = jax.random.normal(keys[1], (2, arm.nv))


def squares(inputs):
    model, q, v, tau = inputs
    return jnp.sum(jaxcfa.forward_dynamics(model, q, v, tau) ** 2)


gradient, value = jax.jit(jax.grad(squares)), jax.jit(squares)
inputs = (arm, q, v, tau)
# Inertias stay symmetric and axes of unit length: masses, centres of mass and placements are enough for the model.
moved = lambda model: (model.mass, model.com, model.placement.translation, model.armature)  # noqa: E731
arrays = moved(arm)
directions = [x * jax.random.normal(key, x.shape) for key, x in zip(jax.random.split(keys[2], 4), arrays, strict=True)]
dq, dv, dtau = jax.random.normal(keys[3], (3, arm.nv))


def along(h):
    """All inputs, moved by h."""
    model = eqx.tree_at(moved, arm, [x + h * d for x, d in zip(arrays, directions, strict=True)])
    return model, q + h * dq, v + h * dv, tau + h * dtau


by_model, *by_state = gradient(inputs)
pairs = zip((*moved(by_model), *by_state), (*directions, dq, dv, dtau), strict=True)
slope = float(sum(jnp.vdot(g, d) for g, d in pairs))
steps = np.logspace(-2, -12, 31)
differences = np.array([float(value(along(h)) - value(along(-h))) / (2 * h) for h in steps])
errors = np.abs(differences / slope - 1)
parameters = sum(x.size for x in arrays) + 3 * arm.nv
print(f"{parameters} inputs moved; derivative {slope:.12g}, best difference {differences[errors.argmin()]:.12g}")

# %% [markdown]
# One gradient gives the derivatives by all inputs at once, and costs some evaluations. We time it for a batch of
# states.

# %%
states = (jnp.tile(q, (1024, 1)) + 0.1, jnp.tile(v, (1024, 1)), jnp.tile(tau, (1024, 1)))
programs = {
    "forward dynamics": lambda q, v, tau: squares((arm, q, v, tau)),
    "gradient by q, v and tau": jax.grad(lambda q, v, tau: squares((arm, q, v, tau)), (0, 1, 2)),
}
milliseconds = {}
for name, function in programs.items():
    program = jax.jit(jax.vmap(function))
    jax.block_until_ready(program(*states))
    times = []
    for _ in range(10):
        began = time.perf_counter()
        jax.block_until_ready(program(*states))
        times.append(time.perf_counter() - began)
    milliseconds[name] = 1e3 * min(times)
    print(f"{name:26}{milliseconds[name]:7.2f} ms for 1024 states")

# %% [markdown]
# ## Masses from torques
#
# The arm's torques are measured at random states, with noise, and its masses are to be found. Torques depend on
# masses through inverse dynamics, and `jax.jacfwd` by the model's masses is all that the Gauss-Newton method needs.
# Logarithms keep the masses positive, and inertias scale along.

# %%
qs = jax.vmap(lambda key: jaxcfa.random_configuration(arm, key))(jax.random.split(keys[4], SAMPLES))
vs, accelerations = jax.random.normal(keys[5], (2, SAMPLES, arm.nv))


def torques(model):
    return jax.vmap(lambda *state: jaxcfa.inverse_dynamics(model, *state))(qs, vs, accelerations)


def with_masses(log_masses):
    scale = jnp.exp(log_masses) / arm.mass
    return eqx.tree_at(lambda m: (m.mass, m.inertia), arm, (arm.mass * scale, arm.inertia * scale[:, None, None]))


exact = torques(arm)
measured = exact + NOISE * jax.random.normal(keys[6], exact.shape)


@jax.jit
def gauss_newton(log_masses):
    def residual(x):
        return (torques(with_masses(x)) - measured).ravel()

    change, *_ = jnp.linalg.lstsq(jax.jacfwd(residual)(log_masses), residual(log_masses))
    return log_masses - change


guesses = [jnp.log(jnp.full_like(arm.mass, 2.0))]
for _ in range(MASS_STEPS):
    guesses.append(gauss_newton(guesses[-1]))
mass_errors = np.abs(np.exp(np.stack(guesses)) / np.asarray(arm.mass) - 1)
print("masses  ", np.round(arm.mass, 3), "kg")
print("found   ", np.round(jnp.exp(guesses[-1]), 3), "kg")

# %% [markdown]
# ## All inertias from torques
#
# Torques are linear in the ten inertial parameters of each body, and `jaxcfa.regressor` is the matrix. But torques do
# not tell all of them: of the first link, which stands on the floor, only the moment about one axis is ever felt.
# Linear least squares fits, and gives bodies that cannot exist. `LogCholesky` describes inertias by ten numbers of
# which every value is possible; we look for these, near a guess, by the Levenberg-Marquardt method.

# %%
truth = jaxcfa.inertial_parameters(arm).reshape(-1)
rows = jax.jit(jax.vmap(lambda *state: jaxcfa.regressor(arm, *state)))(qs, vs, accelerations).reshape(-1, truth.size)
right = (measured - arm.armature * accelerations).reshape(-1)
orthogonal, triangular = jnp.linalg.qr(rows)
small = orthogonal.T @ right
rank = int(jnp.linalg.matrix_rank(triangular, rtol=1e-9))

start = LogCholesky.of(arm).theta
length = jnp.exp(jnp.mean(start[:, 1:4], axis=1, keepdims=True))
size = SPREAD * jnp.concatenate([jnp.ones((arm.nb, 4)).at[:, 0].set(0.5), jnp.tile(length, 6)], axis=1)
start = start + size * jax.random.normal(keys[7], size.shape)


@jax.jit
def levenberg_marquardt(x, damping):
    """The next x, in deviations of the guess, and damping."""

    def residual(x):
        pi = LogCholesky(start + size * x).inertial_parameters().reshape(-1)
        return jnp.concatenate([(triangular @ pi - small) / NOISE, x.reshape(-1)])

    error, jacobian = residual(x), jax.jacfwd(residual)(x).reshape(-1, x.size)
    matrix = jacobian.T @ jacobian + damping * jnp.eye(x.size)
    moved = x - jnp.linalg.solve(matrix, jacobian.T @ error).reshape(x.shape)
    better = jnp.sum(residual(moved) ** 2) < jnp.sum(error**2)
    return jnp.where(better, moved, x), damping * jnp.where(better, 0.1, 10.0)


x, damping = jnp.zeros_like(size), jnp.asarray(1.0)
for _ in range(INERTIA_STEPS):
    x, damping = levenberg_marquardt(x, damping)

guess = LogCholesky(start).inertial_parameters().reshape(-1)
candidates = {
    "guess": guess,
    "least squares": guess + jnp.linalg.lstsq(triangular, small - triangular @ guess, rcond=1e-9)[0],
    "log-Cholesky": LogCholesky(start + size * x).inertial_parameters().reshape(-1),
}

# %% [markdown]
# What was found is judged at states that were not measured, and by whether the bodies can exist.

# %%
new_q = jax.vmap(lambda key: jaxcfa.random_configuration(arm, key))(jax.random.split(keys[0], SAMPLES))
new_v, new_qdd = jax.random.normal(keys[8], (2, SAMPLES, arm.nv))
new_rows = jax.jit(jax.vmap(lambda *state: jaxcfa.regressor(arm, *state)))(new_q, new_v, new_qdd)
expected = new_rows @ truth
torque_errors, impossible = {}, {}
for name, pi in candidates.items():
    deviation = jnp.sqrt(jnp.mean((new_rows @ pi - expected) ** 2))
    torque_errors[name] = float(deviation / jnp.sqrt(jnp.mean(expected**2)))
    problems = inertia_problems(jaxcfa.with_inertial_parameters(arm, pi.reshape(-1, 10)))
    impossible[name] = len({line.split("'")[1] for line in problems})
    print(f"{name:15}torques of new states off by {torque_errors[name]:7.2%}, impossible bodies: {impossible[name]}")

# %%
figure, (left, middle, right_axes) = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
left.loglog(steps, errors, ".-")
left.set(xlabel="step of the differences", ylabel="difference of both, relative", title="finite differences")
middle.semilogy(mass_errors, ".-", label=arm.body_names)
middle.set(xlabel="iteration", ylabel="error of the mass, relative", title="masses")
middle.legend(fontsize="small")
names = list(candidates)
right_axes.bar(names, [torque_errors[name] for name in names], color=["0.7", "tab:red", "tab:green"])
for i, name in enumerate(names):
    right_axes.annotate(f"{impossible[name]} impossible", (i, torque_errors[name]), ha="center", va="bottom")
right_axes.set(yscale="log", ylabel="error of torques at new states, relative", title="inertias")
right_axes.margins(y=0.15)
for axis in (left, middle):
    axis.grid(alpha=0.3)
plt.show()

# %% [markdown]
# ## What was seen

# %%
ratio = milliseconds["gradient by q, v and tau"] / milliseconds["forward dynamics"]
best = steps[errors.argmin()]
print(f"Finite differences come as near as {errors.min():.0e} to the derivative, with steps of {best:.0e}.")
print(f"The gradient by q, v and tau takes {ratio:.1f} times as long as forward dynamics.")
print(
    f"With noise of {NOISE / float(jnp.sqrt(jnp.mean(exact**2))):.2%} of the torques, masses are found to "
    f"{mass_errors[-1, 1:].max():.1%}, from guesses that are up to {mass_errors[0, 1:].max():.0%} off; "
    "but for the first link, which only turns about the vertical: "
    f"its mass is {mass_errors[-1, 0]:.0%} off, as it is hardly felt."
)
print(
    f"Of {truth.size} inertial parameters torques tell {rank} combinations. With log-Cholesky parameters, torques of "
    f"new states are right to {torque_errors['log-Cholesky']:.2%}, and every body is possible;"
)
print(
    f"linear least squares is right to {torque_errors['least squares']:.2%} with {impossible['least squares']} bodies "
    f"of {arm.nb} that cannot exist."
)

# %% [markdown]
# # Batches, precision and speed
#
# This page is a script, `docs/notebooks/10_speed.py`: `jupytext --to notebook 10_speed.py` makes a notebook of it,
# and Jupyter with jupytext opens it as one.
#
# What to expect in practice, measured on the machine that made this page: what a state costs in batches of all sizes,
# what chunks are for, what single precision loses, how long first calls take, and what one state alone costs.

# %%
import os
import time
from importlib import resources

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import jaxcfa
from jaxcfa import inverse_kinematics as ik

jax.config.update("jax_enable_x64", True)

BATCHES = [1, 16, 256, 2048, 16384]  # states; an accelerator wants more
CHUNK = 1024  # states at a time in a large batch
LINKS = 128  # of the chain whose precision is measured
SHORTEST = 0.1  # of a measurement [s]

arm = jaxcfa.load_model(resources.files("jaxcfa") / "data" / "arm7.urdf")
print(jax.devices()[0].device_kind, "with", os.cpu_count(), "cores")


def seconds(function, *arguments):
    """The shortest of several calls, after a first one. JAX returns before a result is there, so one waits for it."""
    jax.block_until_ready(function(*arguments))
    times = []
    while sum(times) < SHORTEST or len(times) < 5:
        began = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - began)
    return min(times)


# %% [markdown]
# ## Batches
#
# `jax.vmap` makes a function of one state one of many. Up to some dozen states a call costs nearly the same, whatever
# their number: what is paid for is starting it. Then the time per state is constant, since the functions of this
# package visit a batch in pieces that stay in the cache. `jaxcfa.batched` takes a whole function of yours through the
# batch in pieces, which bounds its memory; around one function of this package it gains no time. The matrices of
# derivatives show it.


# %%
def states(n, model, dtype=jnp.float64):
    keys = jax.random.split(jax.random.key(0), 3)
    q = jax.vmap(lambda key: jaxcfa.random_configuration(model, key))(jax.random.split(keys[0], n))
    return tuple(x.astype(dtype) for x in (q, *(jax.random.normal(key, (n, model.nv)) for key in keys[1:])))


def dynamics(model, *state):
    return jaxcfa.forward_dynamics(model, *state)


def matrices(model, *state):
    return jaxcfa.forward_dynamics_derivatives(model, *state)


AXES = (None, 0, 0, 0)
whole = jax.jit(jax.vmap(dynamics, AXES))
single = arm.astype(jnp.float32)
largest = states(max(BATCHES), arm)
per_state, first_call = {}, {}
for label, function, model, sizes in (
    ("float64", whole, arm, BATCHES),
    ("float32", whole, single, BATCHES),
    ("matrices", jax.jit(jax.vmap(matrices, AXES)), arm, BATCHES[-2:]),
    ("matrices, in chunks", jax.jit(jaxcfa.batched(matrices, AXES, piece=CHUNK)), arm, BATCHES[-1:]),
):
    for n in sizes:
        arguments = (model, *(x[:n].astype(model.dtype) for x in largest))
        began = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        first_call[label, n] = time.perf_counter() - began
        per_state[label, n] = seconds(function, *arguments) / n
labels = list(dict.fromkeys(label for label, _ in per_state))
for label in labels:
    row = {n: x for (other, n), x in per_state.items() if other == label}
    print(f"{label:20}", "  ".join(f"{n}: {1e6 * x:.2f} µs" for n, x in row.items()))

# %% [markdown]
# ## First calls
#
# The first call of each size compiles. Programs are as long for one state as for many, and as long for a short chain
# as for a long one, so the times below differ by the function, not by the size. To pay them once a machine, set
# `JAX_COMPILATION_CACHE_DIR`. Models are arguments here: those of one structure share the program.

# %%
compiling = np.array(list(first_call.values()))
print(f"{len(compiling)} first calls took {compiling.min():.1f} to {compiling.max():.1f} s each")
loaded, one = jaxcfa.add_payload(arm, "tool", 1.0, jnp.zeros(3), 0.001), [x[:1] for x in largest]
began = time.perf_counter()
jax.block_until_ready(whole(loaded, *one))
another = time.perf_counter() - began
print(f"the first call with another model of the same structure: {1e3 * another:.1f} ms")

# %% [markdown]
# ## Precision
#
# Results have the type to which JAX promotes those of model and state. We compare accelerations in float32 with those
# in float64, at the same states: for the arm, and for a chain with random axes, which is harder the longer it is.


# %%
def errors(model, n):
    """Of float32, relative to the largest acceleration of each state (n,)."""
    rounded = states(n, model, jnp.float32)
    exact = whole(model, *(x.astype(jnp.float64) for x in rounded))
    found = whole(model.astype(jnp.float32), *rounded)
    return np.asarray(jnp.max(jnp.abs(found - exact), axis=1) / jnp.max(jnp.abs(exact), axis=1))


rng = np.random.default_rng(0)
long = jaxcfa.chain(LINKS, axes=rng.normal(size=(LINKS, 3)), dtype=jnp.float32)
# Both models have numbers that float32 can hold, so that only errors of the computation are left.
models = {"arm": single.astype(jnp.float64), f"{LINKS} links": long.astype(jnp.float64)}
precision = {name: errors(model, 256) for name, model in models.items()}
for name, error in precision.items():
    print(f"{name:10} float32 is off by {np.median(error):.0e} as a rule, {error.max():.0e} at worst")

# %% [markdown]
# ## One state at a time
#
# Control loops have one state. There, JAX hands programs over to another thread, and XLA starts a small function for
# nearly every operation, and that is most of the time. Programs that begin with `jaxcfa.enable_low_latency()` run in
# the thread that calls them (0.4 to 0.9 of the time for forward dynamics; here it would be too late for that).
# Forward and inverse dynamics are one function each in all compiled programs. For programs of many other operations,
# such as inverse kinematics, `jaxcfa.low_latency`, in the place of `jax.jit`, has the whole compiled into one
# function.

# %%
target = jax.jit(lambda q: jaxcfa.frame_pose(arm, q, "tool"))(largest[0][0])
PROGRAMS = {
    "forward\ndynamics": (lambda q, v, tau: jaxcfa.forward_dynamics(arm, q, v, tau), [x[0] for x in largest]),
    "inverse\nkinematics": (lambda pose: ik.solve(arm, ik.FramePose("tool", pose)).q, [target]),
}
COMPILED = {"jax.jit": jax.jit, "low_latency": jaxcfa.low_latency}
latency = {
    (what, name): seconds(compiled(function), *arguments)
    for what, (function, arguments) in PROGRAMS.items()
    for name, compiled in COMPILED.items()
}
for (what, name), shortest in latency.items():
    print(f"{' '.join(what.split()):20} {name:12} {1e6 * shortest:8.0f} µs")

# %%
figure, (batches, digits, alone) = plt.subplots(
    1, 3, figsize=(11, 3.6), layout="constrained", width_ratios=[1.4, 1, 0.7]
)
for label in labels:
    sizes = [n for other, n in per_state if other == label]
    style = "o-" if len(sizes) > 1 else "x"
    batches.loglog(sizes, [1e6 * per_state[label, n] for n in sizes], style, label=label)
batches.set(xlabel="states in the batch", ylabel="time for one state [µs]", title="an arm: forward dynamics, matrices")
batches.legend()
batches.grid(alpha=0.3)
digits.boxplot([np.log10(x) for x in precision.values()], tick_labels=list(precision))
digits.set(ylabel="log10 of the relative error", title="float32")
for shift, (name, color) in zip((-0.2, 0.2), {"jax.jit": "0.7", "low_latency": "tab:green"}.items(), strict=True):
    alone.bar(np.arange(2) + shift, [1e6 * latency[what, name] for what in PROGRAMS], 0.4, label=name, color=color)
alone.set_xticks(range(2), list(PROGRAMS))
alone.set(ylabel="time [µs]", title="one state")
alone.legend(fontsize="small")
plt.show()

# %% [markdown]
# ## What was seen

# %%
double, float32, together, chunked = labels
best, largest_batch = min(per_state[double, n] for n in BATCHES), max(BATCHES)
print(
    f"A state alone takes {1e6 * per_state[double, 1]:.0f} µs, in a batch {1e6 * best:.2f} µs at best, and "
    f"{1e6 * per_state[double, largest_batch]:.2f} µs if the batch has {largest_batch}."
)
print(
    f"Matrices of derivatives take {1e6 * per_state[together, BATCHES[-2]]:.1f} µs in a batch of {BATCHES[-2]}, "
    f"{1e6 * per_state[together, largest_batch]:.1f} µs in one of {largest_batch}, "
    f"and {1e6 * per_state[chunked, largest_batch]:.1f} µs there in chunks of {CHUNK}."
)
print(
    f"float32 takes {per_state[float32, largest_batch] / per_state[double, largest_batch]:.0%} of the time of float64; "
    f"its median error is {np.median(precision['arm']):.0e} for the arm and "
    f"{np.median(precision[f'{LINKS} links']):.0e} for {LINKS} links."
)
for what in PROGRAMS:
    ratio = latency[what, "jax.jit"] / latency[what, "low_latency"]
    print(f"low_latency makes {' '.join(what.split())} of one state {ratio:.1f} times as fast.")

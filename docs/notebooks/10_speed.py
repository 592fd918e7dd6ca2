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

jax.config.update("jax_enable_x64", True)

BATCHES = [1, 16, 256, 2048, 16384]  # states; an accelerator wants more
CHUNK = 1024  # states at a time in a large batch
LINKS = 128  # of the chain whose precision is measured
CHAIN = 200  # links of the chain whose single states are timed
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
# `jax.vmap` makes a function of one state one of many. Up to some hundred states a call costs nearly the same,
# whatever their number: what is paid for is starting operations. Then the time per state is constant, until the
# values between two operations no longer fit into a cache. From there on `jaxcfa.batched`, a `vmap` in
# pieces, keeps it so.


# %%
def states(n, model, dtype=jnp.float64):
    keys = jax.random.split(jax.random.key(0), 3)
    q = jax.vmap(lambda key: jaxcfa.random_configuration(model, key))(jax.random.split(keys[0], n))
    return tuple(x.astype(dtype) for x in (q, *(jax.random.normal(key, (n, model.nv)) for key in keys[1:])))


def dynamics(model, *state):
    return jaxcfa.forward_dynamics(model, *state)


whole = jax.jit(jax.vmap(dynamics, in_axes=(None, 0, 0, 0)))
chunks = jax.jit(jaxcfa.batched(dynamics, in_axes=(None, 0, 0, 0), piece=CHUNK))
single = arm.astype(jnp.float32)
largest = states(max(BATCHES), arm)
per_state, first_call = {}, {}
for label, function, model, sizes in (
    ("float64", whole, arm, BATCHES),
    ("float32", whole, single, BATCHES),
    (f"float64, in chunks of {CHUNK}", chunks, arm, BATCHES[-1:]),
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
    print(f"{label:28}", "  ".join(f"{n}: {1e6 * x:.2f} µs" for n, x in row.items()))

# %% [markdown]
# ## First calls
#
# The first call of each size compiles. Programs are as long for one state as for many, and as long for a short chain
# as for a long one, so the times below are nearly the same. To pay them once a machine, not once a process, set
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
# Results have the type of the inputs. We compare accelerations in float32 with those in float64, at the same states:
# for the arm, and for a chain with random axes, which is harder the longer it is.


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
# Control loops have one state. There, XLA starts a few dozen small functions for every body in a loop, and that is
# most of the time. `jaxcfa.low_latency`, in the place of `jax.jit`, has it compile the whole program into one function.

# %%
chain, x = jaxcfa.chain(CHAIN), jnp.full(CHAIN, 0.01)
latency = {
    name: seconds(compiled(lambda q: jaxcfa.forward_dynamics(chain, q, q, q)), x)
    for name, compiled in {"jax.jit": jax.jit, "low_latency": jaxcfa.low_latency}.items()
}
for name, shortest in latency.items():
    print(f"{name:12} {1e6 * shortest:8.0f} µs for one state of a chain of {CHAIN} links")

# %%
figure, (batches, digits, alone) = plt.subplots(
    1, 3, figsize=(11, 3.6), layout="constrained", width_ratios=[1.4, 1, 0.7]
)
for label in labels:
    sizes = [n for other, n in per_state if other == label]
    style = "o-" if len(sizes) > 1 else "x"
    batches.loglog(sizes, [1e6 * per_state[label, n] for n in sizes], style, label=label)
batches.set(xlabel="states in the batch", ylabel="time for one state [µs]", title="forward dynamics of an arm")
batches.legend()
batches.grid(alpha=0.3)
digits.boxplot([np.log10(x) for x in precision.values()], tick_labels=list(precision))
digits.set(ylabel="log10 of the relative error", title="float32")
alone.bar(list(latency), [1e6 * x for x in latency.values()], color=["0.7", "tab:green"])
alone.set(ylabel="time [µs]", title=f"one state, {CHAIN} links")
plt.show()

# %% [markdown]
# ## What was seen

# %%
double, float32, chunked = labels
best, largest_batch = min(per_state[double, n] for n in BATCHES), max(BATCHES)
print(f"A state alone takes {1e6 * per_state[double, 1]:.0f} µs, and in a batch {1e6 * best:.2f} µs at best.")
print(
    f"In a batch of {largest_batch} it is {1e6 * per_state[double, largest_batch]:.2f} µs, "
    f"and {1e6 * per_state[chunked, largest_batch]:.2f} µs in chunks of {CHUNK}."
)
print(
    f"float32 takes {per_state[float32, largest_batch] / per_state[double, largest_batch]:.0%} of that time; "
    f"its median error is {np.median(precision['arm']):.0e} for the arm and "
    f"{np.median(precision[f'{LINKS} links']):.0e} for {LINKS} links."
)
print(
    f"As one function, one state of {CHAIN} links takes {latency['jax.jit'] / latency['low_latency']:.0f} times less."
)

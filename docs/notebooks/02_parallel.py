# %% [markdown]
# # Why parallel along the mechanism
#
# This page is a script, `docs/notebooks/02_parallel.py`: `jupytext --to notebook 02_parallel.py` makes a notebook of
# it, and Jupyter with jupytext opens it as one.
#
# The articulated-body algorithm visits the bodies of a chain one after the other: a chain of a thousand links takes a
# thousand steps, each too small to fill a modern processor. The constraint force algorithm (CFA) and the
# articulated-body algorithm as a scan do more arithmetic, but in a number of steps that grows with the logarithm of
# the length. This page counts both, for the programs that are really run, and then measures what a CPU makes of it:
# with few cores, the least work wins.

# %%
import time

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax.extend.core import Literal

import jaxcfa
from jaxcfa import ABA, CFA

jax.config.update("jax_enable_x64", True)

LENGTHS = [16, 128, 1024]  # links of the chains that are computed; raise them on an accelerator
COUNTED_ONLY = [8192]  # and of those whose programs are counted but not run
REPETITIONS = 20

# %% [markdown]
# ## The methods
#
# All solve the same problem, forward dynamics, and have the same derivatives. There are more: see [Choosing a
# method](../../methods/).

# %%
METHODS = {
    "ABA, one body after the other": ABA(),
    "ABA, scan": ABA("scan"),
    "CFA, odd-even elimination": CFA(),
}


def problem(n):
    """A chain with random axes and a state (q, v, tau) of it."""
    rng = np.random.default_rng(n)
    model = jaxcfa.chain(n, axes=rng.normal(size=(n, 3)))
    return model, *map(jnp.asarray, (rng.uniform(-1, 1, n), rng.normal(size=n) / np.sqrt(n), rng.normal(size=n)))


# %% [markdown]
# ## Counting steps and arithmetic
#
# JAX can show the program of a function before it is compiled. We walk through it. The *depth* is the number of
# operations on the longest path from inputs to results, where operations that do not wait for one another count once,
# and a loop counts as often as it runs: the steps that would remain with as many processors as one likes. The *work*
# is the number of numbers that all operations write together.


# %%
def cost(jaxpr):
    """Depth and work of a program."""
    depth, work, deepest = {}, 0, 0
    for equation in jaxpr.eqns:
        inner = [cost(getattr(x, "jaxpr", x)) for x in inner_programs(equation)]
        own = sum(np.prod(x.aval.shape, dtype=float) for x in equation.outvars)
        times = equation.params["length"] if equation.primitive.name == "scan" else 1
        inner_depth, inner_work = (max(x) for x in zip(*inner, strict=True)) if inner else (1, own)
        ready = max((depth.get(x, 0) for x in equation.invars if not isinstance(x, Literal)), default=0)
        finished = ready + times * inner_depth
        depth.update(dict.fromkeys(equation.outvars, finished))
        deepest, work = max(deepest, finished), work + times * inner_work
    return deepest, work


def inner_programs(equation):
    """The programs that an operation runs: loop bodies, branches, functions."""
    if equation.primitive.name == "while":
        raise ValueError("The number of turns of this loop is not known.")
    if "branches" in equation.params:
        return equation.params["branches"]
    # The last is this package's own, for parts that a CPU computes as one function.
    names = ("jaxpr", "call_jaxpr", "fun_jaxpr", "program")
    return [equation.params[name] for name in names if name in equation.params]


traced, counts, began = {}, {}, time.perf_counter()
for name, method in METHODS.items():
    for n in [*LENGTHS, *COUNTED_ONLY]:
        model, *state = problem(n)
        dynamics = jax.jit(lambda model, *s, method=method: jaxcfa.forward_dynamics(model, *s, method=method))
        traced[name, n] = dynamics.trace(model, *state)
        counts[name, n] = cost(traced[name, n].jaxpr.jaxpr)
print(f"{len(counts)} programs counted in {time.perf_counter() - began:.0f} s")

# %% [markdown]
# ## Measuring
#
# The same programs, compiled for this machine and run for one state of one chain. XLA's instructions say how long a
# program is, not how long it runs: loops are written once.

# %%
seconds, instructions, results = {}, {}, {}
for name, n in traced:
    if n in LENGTHS:
        program, arguments, times = traced[name, n].lower().compile(), problem(n), []
        results[name, n] = np.asarray(program(*arguments))
        for _ in range(REPETITIONS):
            began = time.perf_counter()
            jax.block_until_ready(program(*arguments))
            times.append(time.perf_counter() - began)
        seconds[name, n] = min(times)
        instructions[name, n] = sum(" = " in line for line in program.as_text().splitlines())

print(f"{jax.devices()[0].device_kind}: one state, forward dynamics, the fastest of {REPETITIONS} calls")
print(f"{'':32}{'links':>6}{'depth':>9}{'work':>12}{'instructions':>14}{'time [ms]':>11}")
for (name, n), (depth, work) in counts.items():
    measured = f"{instructions[name, n]:14}{1e3 * seconds[name, n]:11.3f}" if n in LENGTHS else ""
    print(f"{name:32}{n:6}{depth:9.0f}{work:12.2e}{measured}")

# %%
figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
for name in METHODS:
    n = [n for other, n in counts if other == name]
    depth, work = np.array([counts[name, k] for k in n]).T
    axes[0].loglog(n, depth, "o-", label=name)
    axes[1].loglog(n, work, "o-")
    axes[2].loglog([k for k in n if k in LENGTHS], [1e3 * seconds[name, k] for k in n if k in LENGTHS], "o-")
for axis, label in zip(
    axes, ["depth: steps one after another", "work: numbers written", "time here [ms]"], strict=True
):
    axis.set(xlabel="links of the chain", ylabel=label)
    axis.grid(alpha=0.3)
axes[0].legend(fontsize="small")
plt.show()

# %% [markdown]
# ## What was seen

# %%
sweep, scan, cfa = METHODS
longest, counted = LENGTHS[-1], max(n for _, n in counts)
worst = max(np.abs(x - results[sweep, n]).max() / np.abs(x).max() for (_, n), x in results.items())
print(f"All methods agree to {worst:.0e} of the largest acceleration.")
print(
    f"From {LENGTHS[0]} to {counted} links, {counted // LENGTHS[0]} times as many, the depth of the sequential "
    f"algorithm grows by a factor of {counts[sweep, counted][0] / counts[sweep, LENGTHS[0]][0]:.0f},"
)
print(
    f"that of the scan by {counts[scan, counted][0] / counts[scan, LENGTHS[0]][0]:.1f} "
    f"and that of CFA by {counts[cfa, counted][0] / counts[cfa, LENGTHS[0]][0]:.1f}."
)
print(
    f"At {counted} links CFA has {counts[sweep, counted][0] / counts[cfa, counted][0]:.0f} times fewer steps "
    f"and {counts[cfa, counted][1] / counts[sweep, counted][1]:.1f} times the work of the sequential algorithm."
)
fastest = min(METHODS, key=lambda name: seconds.get((name, longest), np.inf))
print(
    f"On this machine, {longest} links take {1e3 * seconds[sweep, longest]:.2f} ms by the sequential algorithm, "
    f"{1e3 * seconds[scan, longest]:.2f} ms by the scan and {1e3 * seconds[cfa, longest]:.2f} ms by CFA. "
    f"The fastest is '{fastest}'."
)

# %% [markdown]
# What counts on a CPU is work, and what it costs to start an operation. The defaults there are sequential sweeps, which
# have the least work, and which are compiled as one function each, so that nothing is started between two bodies. The
# parallel methods win nothing from few cores.
#
# An accelerator has thousands of lanes. With one long mechanism nearly all of them wait, so that time follows the
# depth: that is what the scan and CFA are for. With batches of thousands of states the lanes are full anyway, work
# counts again, and the sequential algorithm is right there, too.

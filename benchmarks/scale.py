"""Large batches and long chains over the CPU's cores as devices: `python -m benchmarks.scale`.

Each measurement runs in a process of its own, because the number of devices is fixed when JAX starts. Writes
output/bench/scale.json.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxcfa
from jaxcfa import ABA, batched, device_mesh, spread
from jaxcfa.structured import Distributed

from .machine import commit, environment
from .robots import ROBOTS

SAMPLES = 5
KINDS = "argument", "temp", "output"
COLLECTIVE = re.compile(r" (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(?:-start)?\(")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=1_000_000, help="states of the humanoid")
    parser.add_argument("--links", type=int, default=100_000, help="links of the chain")
    parser.add_argument("--devices", type=int, default=os.cpu_count(), help="devices for the states: the cores")
    parser.add_argument("--output", type=Path, default=Path("output/bench/scale.json"))
    parser.add_argument("--task", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        task, size, devices = given.task.split(":")
        json.dump(TASKS[task](int(size), int(devices)), sys.stdout)
        return
    tasks = [f"states:{given.states}:{n}" for n in sorted({1, given.devices})]
    tasks += [f"gain:16384:{n}" for n in sorted({1, given.devices})]
    tasks += [f"chain:{given.links}:{n}" for n in (1, 2, 4, 8)]
    found = {}
    for number, task in enumerate(tasks, 1):
        print(f"{number}/{len(tasks)} {task}", flush=True)
        found[task] = _in_a_process(task)
        print(json.dumps(found[task]), flush=True)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    record = {"date": time.strftime("%Y-%m-%d"), "commit": commit(), "environment": environment(), "tasks": found}
    given.output.write_text(json.dumps(record, indent=1) + "\n")
    print(markdown(record))


def _in_a_process(task: str) -> dict:
    devices = task.split(":")[2]
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    # Chains in double precision, because what is measured there is that pieces give the same result.
    settings = {"XLA_FLAGS": flags, "JAX_ENABLE_X64": str(int(task.startswith("chain")))}
    command = [sys.executable, "-m", "benchmarks.scale", "--task", task]
    # One device must not compute on several cores if it is to be compared with several.
    if devices == "1":
        command = ["taskset", "--cpu-list", "0", *command]
    run = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    return json.loads(run.stdout) if run.returncode == 0 else {"failed": run.stderr.strip().splitlines()[-1][:300]}


def states(count: int, devices: int) -> dict:
    """Forward dynamics of the humanoid G1 and its gradient in that many states, and the memory of the process."""
    functions, arguments = _humanoid(count)
    return {name: _timed(function, arguments, devices, 2) / count * 1e6 for name, function in functions.items()} | {
        "memory_GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    }


def gain(count: int, devices: int) -> dict:
    """The same of an arm and the humanoid, in microseconds a state, several times."""
    found = {}
    for name, (functions, arguments) in {"7 joints": _chain7(count), "G1": _humanoid(count)}.items():
        for quantity, function in functions.items():
            found[f"{name}, {quantity}"] = _timed(function, arguments, devices, 4 * SAMPLES) / count * 1e6
    return found


def _functions(model: jaxcfa.Model) -> dict:
    def dynamics(*state):
        return jaxcfa.forward_dynamics(model, *state)

    return {"forward dynamics": dynamics, "gradient": jax.grad(lambda *x: jnp.sum(dynamics(*x) ** 2), (0, 1, 2))}


def _humanoid(count: int):
    problem = ROBOTS["Unitree G1"](np.dtype("float32"), 64)
    # The same 64 states over and over: what they are does not change the time.
    return _functions(problem.model), [np.resize(x, (count, x.shape[1])) for x in map(np.asarray, _state(problem))]


def _chain7(count: int):
    problem = ROBOTS["7-joint arm"](np.dtype("float32"), 64)
    return _functions(problem.model), [np.resize(x, (count, x.shape[1])) for x in map(np.asarray, _state(problem))]


def _state(problem) -> tuple:
    return problem.q, problem.v, problem.x


def _timed(function, arguments, devices: int, samples: int) -> float:
    """The median time of a compiled batch over all devices [s]."""
    mesh = device_mesh("batch")
    assert mesh.size == devices
    placed = spread(tuple(arguments), mesh, "batch")
    program = jax.jit(batched(function, mesh=mesh)).lower(*placed).compile()
    jax.block_until_ready(program(*placed))
    times = []
    for _ in range(samples):
        start = time.perf_counter()
        jax.block_until_ready(program(*placed))
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def chain(links: int, devices: int) -> dict:
    """One chain over the devices: errors, exchanges, memory of a device, time."""
    model = jaxcfa.chain(links, axes=np.resize([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], (links, 3)))
    q, v, x = np.random.default_rng(0).normal(size=(3, links)) * np.array([[1.0], [0.1], [1.0]]) / np.sqrt(links)
    mesh = device_mesh("links")
    assert mesh.size == devices
    schedule = Distributed(mesh, "links")

    def total(function):
        return jax.grad(lambda *x: jnp.sum(function(*x) ** 2), (1, 2, 3))

    def inverse(model, q, v, x, schedule):
        return jaxcfa.inverse_dynamics(model, q, v, x, schedule=schedule)

    def forward(model, q, v, x, schedule):
        return jaxcfa.forward_dynamics(model, q, v, x, method=ABA() if schedule is None else ABA(schedule))

    def by_torques(model, q, v, x, schedule):
        return jax.grad(lambda x: jnp.sum(forward(model, q, v, x, schedule) ** 2))(x)

    functions = {
        "inverse dynamics": inverse,
        "its gradient": lambda m, q, v, x, s: total(lambda *y: inverse(*y, s))(m, q, v, x),
        "forward dynamics": forward,
        "its gradient by torques": by_torques,
    }
    placed, found = spread((model, q, v, x), mesh, "links"), {}
    for name, function in functions.items():
        program = jax.jit(lambda *y, f=function: f(*y, schedule)).lower(*placed).compile()
        result = jax.block_until_ready(program(*placed))
        start = time.perf_counter()
        jax.block_until_ready(program(*placed))
        seconds = time.perf_counter() - start
        reference = jax.jit(lambda *y, f=function: f(*y, None))(model, q, v, x)
        memory = program.memory_analysis()
        found[name] = {
            "error": max(map(_error, jax.tree.leaves(result), jax.tree.leaves(reference))),
            "exchanges": dict(Counter(COLLECTIVE.findall(program.as_text()))),
            "memory_MB": sum(getattr(memory, f"{kind}_size_in_bytes") for kind in KINDS) / 1e6,
            "seconds": seconds,
        }
    return found


def _error(found, reference) -> float:
    found, reference = np.asarray(found), np.asarray(reference)
    return float(np.max(np.abs(found - reference)) / np.max(np.abs(reference)))


def markdown(record: dict) -> str:
    """The record as tables."""
    tasks = {tuple(key.split(":")): value for key, value in record["tasks"].items()}
    lines = ["**Batches over all cores**, float32, `jaxcfa.batched`, us a state; one device is held to one core.", ""]
    gains = {int(n): value for (task, _, n), value in tasks.items() if task == "gain"}
    most = max(gains)
    lines += [f"| batch of 16384 | one core | {most} cores | gain |", "|---|---|---|---|"]
    for name, one in gains[1].items():
        lines.append(f"| {name} | {one:.2f} | {gains[most][name]:.2f} | {one / gains[most][name]:.2f} |")
    sizes = {(int(size), int(n)): value for (task, size, n), value in tasks.items() if task == "states"}
    for (size, n), value in sizes.items():
        figures = ", ".join(f"{name} {value[name]:.2f} us a state" for name in ("forward dynamics", "gradient"))
        lines += ["", f"{size:,} states of G1, {n} core(s): {figures}; the process took {value['memory_GB']:.1f} GB."]
    chains = {int(n): value for (task, _, n), value in tasks.items() if task == "chain"}
    links = next(size for task, size, _ in tasks if task == "chain")
    title = f"**One chain of {int(links):,} links over several devices**, float64, against sequential algorithms."
    lines += ["", title, ""]
    lines += ["| | devices | difference | exchanges | MB a device | s |", "|---|---|---|---|---|---|"]
    for name in chains[1]:
        for n, value in chains.items():
            row = value[name]
            exchanges = sum(row["exchanges"].values())
            figures = f"{row['error']:.0e} | {exchanges} | {row['memory_MB']:.0f} | {row['seconds']:.2f}"
            lines.append(f"| {name} | {n} | {figures} |")
    return "\n".join(lines) + "\n"


TASKS = {"states": states, "gain": gain, "chain": chain}

if __name__ == "__main__":
    main()

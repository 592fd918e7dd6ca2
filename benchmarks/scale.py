"""Large batches over all cores, and one long chain in pieces on several devices.

Each measurement runs in a process of its own, because the number of devices is fixed when JAX starts.
"""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxcfa
from jaxcfa import ABA, batched, device_mesh, spread
from jaxcfa.structured import Distributed

from .machine import commit, environment
from .robots import problem

SAMPLES = 5
KINDS = "argument", "temp", "output"
COLLECTIVE = re.compile(r" (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(?:-start)?\(")


def measure(folder: Path, smoke: bool, report: Callable[[str], None]) -> dict:
    """Everything, into scale.json in the folder. What fails there is a reason."""
    cores = sorted({1, 2 if smoke else os.cpu_count() or 1})
    states, batch, links = (16, 8, 16) if smoke else (1_000_000, 16_384, 100_000)
    tasks = [f"gain:{batch}:{n}" for n in cores] + [f"states:{states}:{cores[-1]}"]
    tasks += [f"chain:{links}:{n}" for n in ((1, 2) if smoke else (1, 2, 8))]
    found = {}
    for task in tasks:
        report("scale, {} of {}, devices: {}".format(*task.split(":")))
        found[task] = _in_a_process(task)
    record = {"date": time.strftime("%Y-%m-%d"), "commit": commit(), "environment": environment(), "tasks": found}
    (folder / "scale.json").write_text(json.dumps(record, indent=1) + "\n")
    return record


def main() -> None:
    """One task, in this process: `python -m benchmarks.scale chain:1000:8`."""
    task, size, devices = sys.argv[1].split(":")
    json.dump(TASKS[task](int(size), int(devices)), sys.stdout)


def _in_a_process(task: str) -> dict:
    devices = task.split(":")[2]
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    # Chains in double precision, because what is measured there is that pieces give the same result.
    settings = {"XLA_FLAGS": flags, "JAX_ENABLE_X64": str(int(task.startswith("chain")))}
    command = [sys.executable, "-m", "benchmarks.scale", task]
    # One device must not compute on several cores if it is to be compared with several.
    if devices == "1" and shutil.which("taskset"):
        command = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0))), *command]
    run = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    return json.loads(run.stdout) if run.returncode == 0 else {"failed": reason(run)}


def reason(run: subprocess.CompletedProcess[str]) -> str:
    """Why a process failed; one that was killed, for want of memory as a rule, has not said so."""
    return (run.stderr.strip().splitlines() or [f"its process ended, with status {run.returncode}"])[-1][:300]


def states(count: int, devices: int) -> dict:
    """Forward dynamics of the humanoid G1 and its gradient in that many states, and the memory of the process."""
    functions, arguments = _robot("G1", count)
    return {name: _timed(function, arguments, devices, 2) / count * 1e6 for name, function in functions.items()} | {
        "memory_GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    }


def gain(count: int, devices: int) -> dict:
    """The same of an arm and the humanoid, in microseconds a state, several times."""
    found = {}
    for name in ("chain of 7", "G1"):
        functions, arguments = _robot(name, count)
        for quantity, function in functions.items():
            found[f"{name}, {quantity}"] = _timed(function, arguments, devices, 4 * SAMPLES) / count * 1e6
    return found


def _functions(model: jaxcfa.Model) -> dict:
    def dynamics(*state):
        return jaxcfa.forward_dynamics(model, *state)

    return {"forward dynamics": dynamics, "gradient": jax.grad(lambda *x: jnp.sum(dynamics(*x) ** 2), (0, 1, 2))}


def _robot(name: str, count: int) -> tuple[dict, list[np.ndarray]]:
    """Functions of a robot, and 64 states over and over: what they are does not change the time."""
    found = problem(name, "float32", 64)
    states = (np.asarray(x) for x in (found.q, found.v, found.x))
    return _functions(found.model), [np.resize(x, (count, x.shape[1])) for x in states]


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


def section(path: Path) -> str:
    """The part of the report on what is in a file."""
    return markdown(json.loads(path.read_text()))


def markdown(record: dict) -> str:
    """The record as tables."""
    tasks = {tuple(key.split(":")): value for key, value in record["tasks"].items()}
    lines = [f"Measured on {record['date']}, commit {record['commit']}.", ""]
    lines += [f"- {' '.join(key)} failed: {value['failed']}" for key, value in tasks.items() if "failed" in value]
    tables = {"gain": _gains, "states": _states, "chain": _chains}
    for name, table in tables.items():
        own = {int(n): value for (task, _, n), value in tasks.items() if task == name and "failed" not in value}
        if own:
            size = next(int(size) for task, size, _ in tasks if task == name)
            lines += [*table(size, own), ""]
    return "\n".join(lines).rstrip() + "\n"


def _gains(size: int, found: dict[int, dict]) -> list[str]:
    most = max(found)
    lines = [f"Batches of {size:,} by `jaxcfa.batched`, float32, us a state; one device is held to one core.", ""]
    lines += [f"| | one core | {most} cores | gain |", "|---|---:|---:|---:|"]
    for name, one in found.get(1, {}).items():
        lines.append(f"| {name} | {one:.2f} | {found[most][name]:.2f} | {one / found[most][name]:.2f} |")
    return lines


def _states(size: int, found: dict[int, dict]) -> list[str]:
    lines = [f"{size:,} states of G1, float32, us a state, and the memory of the whole process:", ""]
    lines += ["| cores | forward dynamics | gradient | GB |", "|---|---:|---:|---:|"]
    for n, x in found.items():
        lines.append(f"| {n} | {x['forward dynamics']:.2f} | {x['gradient']:.2f} | {x['memory_GB']:.1f} |")
    return lines


def _chains(size: int, found: dict[int, dict]) -> list[str]:
    lines = [f"One chain of {size:,} links on several devices of one CPU, float64, against sequential algorithms:", ""]
    lines += ["| | devices | difference | exchanges | MB a device | s |", "|---|---:|---:|---:|---:|---:|"]
    for name in next(iter(found.values())):
        for n, value in found.items():
            row = value[name]
            exchanges = ", ".join(f"{count} {kind}" for kind, count in row["exchanges"].items()) or "none"
            figures = f"{row['error']:.0e} | {exchanges} | {row['memory_MB']:.0f} | {row['seconds']:.2f}"
            lines.append(f"| {name} | {n} | {figures} |")
    return lines


TASKS = {"states": states, "gain": gain, "chain": chain}

if __name__ == "__main__":
    main()

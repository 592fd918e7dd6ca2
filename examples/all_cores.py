"""Uses all cores of a CPU: one device of JAX for each, and batches spread over them.

Measures, for one device and for all: forward dynamics of many states, gradients of it, motions, and problems of optimal
control, a swing-up from many starts. Prints a table of times and gains, and checks that results are the same. Run:

    python examples/all_cores.py [--robot robot.urdf] [--states 16384] [--problems 16] [--devices 2]
"""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import jaxcfa
from jaxcfa import batched, device_mesh, optimal_control as oc, spread

SAMPLES = 7
STEPS, DT = 20, 1e-3  # of the motions
HANGING = np.array([np.pi / 2])  # a chain of one link, which is horizontal at zero


def swing_up() -> Callable:
    """A function of the start, near hanging: the cost of the best motion of a pendulum that a weak motor swings up."""
    problem = oc.Problem(
        oc.RobotDynamics(jaxcfa.chain(1), 0.03),
        40,
        costs=[oc.Cost(oc.Control(), 1e-2)],
        end_costs=[oc.Cost(oc.Posture(-HANGING), 100.0), oc.Cost(oc.Velocity(), 10.0)],
        constraints=[oc.Bounds(oc.Control(), -0.3, 0.3)],
    )
    return lambda x0: oc.solve(problem, x0).cost


def tasks(model: jaxcfa.Model, states: int, problems: int) -> dict[str, tuple[Callable, tuple]]:
    """Functions of one state, with arguments for many."""
    keys = jax.random.split(jax.random.key(0), states)
    q = jax.jit(jax.vmap(lambda key: jaxcfa.random_configuration(model, key)))(keys)
    v, tau = (jax.random.normal(jax.random.key(seed), (states, model.nv)) for seed in (1, 2))
    starts = jnp.append(HANGING, 0.0) + 0.1 * jax.random.normal(jax.random.key(3), (problems, 2))

    def dynamics(q, v, tau):
        return jaxcfa.forward_dynamics(model, q, v, tau)

    def motion(q, v, tau):
        return jaxcfa.rollout(model, q, v, jnp.broadcast_to(tau, (STEPS, model.nv)), DT).q[-1]

    gradient = jax.grad(lambda *state: jnp.sum(dynamics(*state) ** 2), (0, 1, 2))
    return {
        f"forward dynamics, {states} states": (dynamics, (q, v, tau)),
        f"its gradient, {states} states": (gradient, (q, v, tau)),
        f"motions of {STEPS} steps, {states} states": (motion, (q, v, tau)),
        f"swing-ups, {problems} starts": (swing_up(), (starts,)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", type=Path, help="URDF or MJCF file; an arm of seven joints by default")
    parser.add_argument("--states", type=int, default=16384, help="rounded up to a multiple of the devices")
    parser.add_argument("--problems", type=int, default=16, help="rounded up to a multiple of the devices")
    parser.add_argument("--devices", type=int, default=os.cpu_count())
    given = parser.parse_args()
    # Before anything is computed; afterwards the CPU is one device.
    jax.config.update("jax_num_cpu_devices", given.devices)
    model = jaxcfa.chain(7) if given.robot is None else jaxcfa.load_model(given.robot)
    model = model.astype("float32")

    console = Console()
    table = Table("", "1 device", f"{given.devices} devices", "gain", "difference")
    states, problems = (-(-number // given.devices) * given.devices for number in (given.states, given.problems))
    todo = tasks(model, states, problems)
    for name, (function, arguments) in track(todo.items(), "Measuring", console=console, transient=True):
        programs, placed, found = [], [], []
        for devices in (jax.devices()[:1], jax.devices()):
            mesh = device_mesh("batch", devices=devices)
            placed.append(spread(arguments, mesh, "batch"))
            programs.append(jax.jit(batched(function, mesh=mesh)).lower(*placed[-1]).compile())
            found.append(jax.block_until_ready(programs[-1](*placed[-1])))
        seconds: list[list[float]] = [[], []]
        for _ in range(SAMPLES):
            for program, states, times in zip(programs, placed, seconds, strict=True):
                start = time.perf_counter()
                jax.block_until_ready(program(*states))
                times.append(time.perf_counter() - start)
        one, every = map(np.median, seconds)
        difference = max(
            float(np.max(np.abs(np.asarray(x) - np.asarray(y))) / np.max(np.abs(np.asarray(x))))
            for x, y in zip(*map(jax.tree.leaves, found), strict=True)
        )
        table.add_row(name, f"{one * 1e3:.1f} ms", f"{every * 1e3:.1f} ms", f"{one / every:.2f}", f"{difference:.0e}")
    console.print(table)


if __name__ == "__main__":
    main()

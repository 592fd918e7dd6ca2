"""Learns to walk: a quadruped goes where it is told, by gradients through its dynamics and contacts with the ground.

A policy follows the derivatives of the rewards of short motions, as in learn_swing_up.py. Its actions are where the
joints shall be; the reward is for the velocity and the turning that it is told (`jaxcfa.environments.Walker`).

The mean return of whole episodes, about 110 untrained and at most 250, came to 203, 239 and 226 with the seeds 0, 1 and
2. With the least of these it went forward with 0.69 m/s where 0.6 were told, back with 0.32 for 0.4, to the left with
0.16 for 0.2, and turned with 0.50 rad/s for 0.6. On one core of a busy machine 0.77 million steps took 6 to 7 minutes,
and 4 to 5 to compile. The policy that returned most is the one that is shown. Without observations of equal size and
layers that are normalised it came to 153, 146 and 94.

Prints how it learned and what it does with some commands, and writes a plot and, as the robot walks forward, a motion.
The robot is that of quadruped_walk.py. Run:

    python examples/learn_to_walk.py [--robot go2.urdf --feet FL_foot FR_foot RL_foot RR_foot] [--seed 0]
        [--output output]
"""

import argparse
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from rich.console import Console
from rich.table import Table

import jaxcfa
from _robots import installed
from jaxcfa.environments import AutoReset, Walker
from jaxcfa.viz import animate
from learn_swing_up import WIDTH, Agent, Start, analytic_gradients, learn, plot, print_table
from quadruped_walk import FEET, LEG, robot_model

RADIUS = 0.022  # of a foot [m]
EPISODE = 250  # steps of 0.02 s
FASTEST = (0.8, 0.3, 0.8)  # forward, to the left [m/s], turning [rad/s]
COMMANDS = {"stand": (0.0, 0.0, 0.0), "forward": (0.6, 0.0, 0.0), "back": (-0.4, 0.0, 0.0), "left": (0.0, 0.2, 0.0)}
COMMANDS |= {"turn": (0.0, 0.0, 0.6), "curve": (0.5, 0.0, 0.4)}
UPDATES = 500
METHOD = analytic_gradients(
    actor=optax.chain(
        optax.clip_by_global_norm(1.0), optax.adam(optax.linear_schedule(1.5e-3, 1.5e-4, UPDATES), b1=0.7, b2=0.95)
    ),
    critic=optax.adam(2e-3),
    fits=8,
    robots=64,
    length=24,
    iterations=UPDATES,
    start=Start(0.1, 0.1, (eqx.nn.LayerNorm(WIDTH), eqx.nn.Lambda(jax.nn.elu)), window=50),
)


def environment(model: jaxcfa.Model, feet: list[str]) -> Walker:
    # Feet that stick over 2 cm/s, instead of 0.1 mm/s, have derivatives that say more of what is to come.
    contacts = jaxcfa.ground_contacts(model, feet, radius=RADIUS, friction=0.8, stiction_velocity=0.02)
    home = jaxcfa.neutral(model).at[7:].set(jnp.tile(jnp.array(LEG), 4))
    return Walker(model, contacts, home=home, fastest=FASTEST)


def walks(walker: Walker, agent: Agent) -> tuple[np.ndarray, np.ndarray]:
    """Configurations (n, EPISODE, nq) with each of the commands, and mean velocities (n, 3) after the first second."""

    @jax.jit
    @jax.vmap
    def walk(command):
        state = walker.reset(jax.random.key(0))
        state = state.replace(obs=state.obs.at[-3:].set(command), info=state.info | {"task": command})

        def body(state, _):
            state = walker.step(state, agent.mean(state.obs))
            return state, (state.q, jnp.append(state.obs[:2], state.obs[5]))

        return jax.lax.scan(body, state, length=EPISODE)[1]

    q, velocities = walk(jnp.array(list(COMMANDS.values())))
    return np.asarray(q), np.mean(velocities[:, 50:], axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", type=Path, help="URDF or MJCF file of a quadruped with twelve joints")
    parser.add_argument("--feet", nargs=4, default=FEET, help="frames of the feet")
    parser.add_argument("--seed", type=int, default=0, help="of networks, starts and actions")
    parser.add_argument("--part", type=float, default=1.0, help="of the iterations")
    parser.add_argument("--output", type=Path, default=Path("output"), help="folder of the plot and the motion")
    arguments = parser.parse_args()

    name, model = robot_model(arguments.robot)
    walker = environment(model, arguments.feet)
    iterations = max(1, round(arguments.part * METHOD.iterations))
    agent, curve = learn(AutoReset(walker, EPISODE), METHOD, arguments.seed, iterations, name)
    print_table({"analytic gradients": curve})
    plot({name: curve}, EPISODE, arguments.output / "learn_to_walk.png")

    q, velocities = walks(walker, agent)
    table = Table("command", "forward [m/s]", "left [m/s]", "turning [rad/s]")
    for command, wanted, found in zip(COMMANDS, COMMANDS.values(), velocities, strict=True):
        table.add_row(command, *(f"{x:5.2f} of {y:5.2f}" for x, y in zip(found, wanted, strict=True)))
    Console(width=90).print(table)
    motion, shapes = arguments.output / "learn_to_walk.gif", arguments.robot or installed("go2.urdf")
    animate(model, q[list(COMMANDS).index("forward")], float(walker.dt), motion, shapes, frames_per_second=12.5)
    print(f"Plot: {arguments.output / 'learn_to_walk.png'}, motion: {motion}")


if __name__ == "__main__":
    main()

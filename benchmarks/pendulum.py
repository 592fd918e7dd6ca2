"""A pendulum that swings up: the problem of diffilqrax's introduction, in arithmetic that both packages take."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Pendulum:
    """By Euler's steps, from hanging down or near it; effort along the way, and the distance from upright at the end.

    `tolerance`: of the gradient at a solution. `parameters`: mass [kg], length [m], gravity [m/s^2].
    """

    steps: int
    dt: float = 0.05
    tolerance: float = 1e-6

    @property
    def parameters(self) -> jax.Array:
        return jnp.array([1.0, 1.0, 9.81])

    def step(self, x: jax.Array, u: jax.Array, parameters: jax.Array) -> jax.Array:
        mass, length, gravity = parameters
        acceleration = -gravity / length * jnp.sin(x[0]) + u[0] / (mass * length**2)
        return x + self.dt * jnp.stack([x[1], acceleration])

    def cost(self, u: jax.Array) -> jax.Array:
        return 0.01 * jnp.sum(u**2)

    def final_cost(self, x: jax.Array) -> jax.Array:
        return 10.0 * ((x[0] - jnp.pi) ** 2 + x[1] ** 2)

    def used(self, states: jax.Array, controls: jax.Array) -> jax.Array:
        """What derivatives are taken of: a number in which all of the motion counts."""
        return jnp.sum(controls**2) + jnp.mean(states**2)

    def starts(self, number: int | None) -> jax.Array:
        """Hanging down at rest, or that many states near it."""
        if number is None:
            return jnp.zeros(2)
        return jnp.asarray(0.1 * np.random.default_rng(0).standard_normal((number, 2)))

"""What a problem controls: a system in discrete time, such as any function."""

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int

from ..model._arguments import positive_integer
from ..numerics._options import any_numbers, check_hashable, traceable

if TYPE_CHECKING:
    from ._stage import Stage

Time = Int[Array, ""]
"""The number of a stage, from 0 on."""

LinearizedStep = tuple[Float[Array, "nx"], Float[Array, "n n"], Float[Array, "n m"]]
"""The next state (nx,), and its derivatives by displacements of the state (n, n) and by the control (n, m)."""


class AbstractDynamics(eqx.Module):
    """A system in discrete time whose states x (nx,) are on a manifold with tangent vectors dx (n,).

    A new one is a subclass with what is abstract here.
    """

    @property
    @abc.abstractmethod
    def state_size(self) -> int:
        """How many numbers a state has: nx."""

    @property
    @abc.abstractmethod
    def tangent_blocks(self) -> tuple[int, ...]:
        """Sizes of the parts of a tangent vector that are differentiated separately; their sum is n."""

    @property
    @abc.abstractmethod
    def control_size(self) -> int:
        """How many controls there are: m."""

    @abc.abstractmethod
    def step(self, x: Float[Array, "nx"], u: Float[Array, "m"], t: Time) -> Float[Array, "nx"]:
        """The next state."""

    @abc.abstractmethod
    def plus(self, x: Float[Array, "nx"], dx: Float[Array, "n"]) -> Float[Array, "nx"]:
        """The state displaced by a tangent vector."""

    @abc.abstractmethod
    def minus(self, x: Float[Array, "nx"], origin: Float[Array, "nx"]) -> Float[Array, "n"]:
        """The displacement from `origin` to x."""

    def velocity(self, x: Float[Array, "nx"], x_dot: Float[Array, "nx"]) -> Float[Array, "n"]:
        """The tangent vector of a state that changes at the rates `x_dot`: the derivative of `minus(y, x)` at x."""
        return jax.jvp(lambda y: self.minus(y, x), (x,), (x_dot,))[1]

    @property
    def tangent_size(self) -> int:
        """How many numbers a tangent vector has: n."""
        return sum(self.tangent_blocks)

    def blocks(self, x: Float[Array, "nx"]) -> tuple[Array, ...]:
        """The parts of a state that are displaced by one block of a tangent vector each."""
        return (x,)

    def displaced(self, x: Float[Array, "nx"], *dx: Array) -> tuple[Array, ...]:
        """The `blocks` of the state displaced by those of a tangent vector."""
        return (self.plus(x, jnp.concatenate(dx)),)

    def linearized_step(self, x: Float[Array, "nx"], u: Float[Array, "m"], t: Time) -> LinearizedStep:
        """The next state (nx,), and its derivatives by displacements of the state (n, n) and by the control (n, m)."""
        after = self.step(x, u, t)

        def along(dx: Float[Array, "n"], du: Float[Array, "m"]) -> Float[Array, "n"]:
            def moved(dx: Float[Array, "n"], du: Float[Array, "m"]) -> Float[Array, "nx"]:
                return self.step(self.plus(x, dx), u + du, t)

            here = jnp.zeros_like(dx), jnp.zeros_like(du)
            return self.velocity(after, jax.jvp(moved, here, (dx, du))[1])

        n, m = self.tangent_size, self.control_size
        of_state, of_control = jnp.eye(n, n + m, dtype=x.dtype), jnp.eye(m, n + m, n, dtype=x.dtype)
        both = jax.vmap(along, in_axes=1, out_axes=1)(of_state, of_control)
        return after, both[:, :n], both[:, n:]

    def linearized_step_at(self, stage: "Stage") -> LinearizedStep:
        """`linearized_step` from a stage, some of whose quantities may be known."""
        return self.linearized_step(stage.x, stage.u, stage.t)

    @property
    def free_at_start(self) -> tuple[int, ...]:
        """Coordinates of tangent vectors that no start gives, such as those of unknown step lengths."""
        return ()

    @property
    def defect_size(self) -> int:
        """How many equations the steps leave to the solver: k, by default none."""
        return 0

    def defects(self, stage: "Stage") -> Float[Array, "k"]:
        """What these equations say is zero (k,), at every stage with a control."""
        return jnp.zeros(0, stage.x.dtype)


class FunctionDynamics(AbstractDynamics):
    """The system `x' = function(x, u, t)` with vectors x (n,) and u (m,); t is the number of the stage.

    **Fields:** `function`; `sizes` (n, m).
    """

    function: Callable[[Array, Array, Array], Array]
    sizes: tuple[int, int] = eqx.field(static=True)

    def __init__(self, function: Callable[[Array, Array, Array], Array], states: int, controls: int):
        if not callable(function):
            raise ValueError(f"function must be x' = function(x, u, t), got {function!r:.200}.")
        if not isinstance(function, eqx.Module | Partial):
            check_hashable("function", function)
            function = _Static(function)
        self.function = function
        self.sizes = positive_integer("states", states), positive_integer("controls", controls)

    @property
    def state_size(self) -> int:
        return self.sizes[0]

    @property
    def tangent_blocks(self) -> tuple[int, ...]:
        return (self.sizes[0],)

    @property
    def control_size(self) -> int:
        return self.sizes[1]

    def step(self, x: Float[Array, "nx"], u: Float[Array, "m"], t: Time) -> Float[Array, "nx"]:
        with traceable("function(x, u, t)", self.function):
            found = self.function(x, u, t)
        try:
            after = any_numbers("function(x, u, t)", found)
        except ValueError as error:
            raise ValueError(
                f"function(x, u, t) must return the next state of shape {x.shape}, real numbers, got {found!r:.200}."
            ) from error
        if after.shape != x.shape:
            raise ValueError(f"function(x, u, t) must return the next state of shape {x.shape}, got {after.shape}.")
        return after.astype(x.dtype)

    def plus(self, x: Float[Array, "nx"], dx: Float[Array, "n"]) -> Float[Array, "nx"]:
        return x + dx

    def minus(self, x: Float[Array, "nx"], origin: Float[Array, "nx"]) -> Float[Array, "n"]:
        return x - origin


class _Static(eqx.Module):
    """A function that holds no arrays of its own, as far as JAX is concerned."""

    function: Callable = eqx.field(static=True)

    def __call__(self, *arguments: Array) -> Array:
        return self.function(*arguments)

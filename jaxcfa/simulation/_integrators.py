"""Integrators on the configuration manifold: one step in time each."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import Configuration, Velocity
from ..configuration import displacement, integrate
from ..model import Model
from ._equation_of_motion import EquationOfMotion

# The classical Runge-Kutta method: each stage goes this part of the step along the slope before, and counts this much.
_STAGES = np.array([[0.0, 1 / 6], [1 / 2, 1 / 3], [1 / 2, 1 / 3], [1.0, 1 / 6]])


class AbstractIntegrator(eqx.Module):
    """A rule for one step in time. A new one is a subclass with `step`."""

    @abc.abstractmethod
    def step(
        self,
        equation: EquationOfMotion,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        tau: Float[Array, "nv"],
        f_ext: Float[Array, "nb 6"],
        dt: Float[Array, ""],
    ) -> tuple[Configuration, Velocity]:
        """The state after `dt` [s], under constant torques and wrenches."""


class SemiImplicitEuler(AbstractIntegrator):
    """`v' = v + dt qdd(q, v)`, then `q' = integrate(q, v', dt)`: order one, one evaluation of the dynamics.

    Where forces derive from a potential the energy error stays bounded for long times, as that of a symplectic method
    (Hairer, Lubich & Wanner, Geometric Numerical Integration, 2006, I.1.4; exactly so if the mass matrix is constant).
    Damping and dry friction are taken at `v'` (so does MuJoCo, for damping), which makes them stable at every `dt`.
    """

    def step(
        self,
        equation: EquationOfMotion,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        tau: Float[Array, "nv"],
        f_ext: Float[Array, "nb 6"],
        dt: Float[Array, ""],
    ) -> tuple[Configuration, Velocity]:
        v = v + dt * equation.acceleration_of_step(q, v, tau, f_ext, dt)
        return integrate(equation.model, q, v, dt), v


class RungeKutta4(AbstractIntegrator):
    """The classical Runge-Kutta method of order four, on the manifold; four evaluations of the dynamics.

    Within a step the configuration is `integrate(model, q, x)`, and the method is applied to x, which is in a vector
    space (Munthe-Kaas, High order Runge-Kutta methods on manifolds, 1999; Hairer, Lubich & Wanner, IV.8). So its order
    is four for quaternions too. MuJoCo 4.0 takes the same steps with its RK4. No joint with a quaternion may turn by
    half a turn or more in one step.

    All forces are explicit: strong damping or dry friction needs steps below about `2.8 M / D`.
    """

    def step(
        self,
        equation: EquationOfMotion,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        tau: Float[Array, "nv"],
        f_ext: Float[Array, "nb 6"],
        dt: Float[Array, ""],
    ) -> tuple[Configuration, Velocity]:
        model = equation.model

        def stage(carry, coefficients):
            (slope, total), (part, weight) = carry, coefficients
            x, change = part * dt * slope
            q_stage, v_stage = integrate(model, q, x), v + change
            rate = _coordinate_rate(model, q, q_stage, v_stage)
            slope = jnp.stack([rate, equation.acceleration(q_stage, v_stage, tau, f_ext)])
            return (slope, total + weight * slope), None

        still = jnp.zeros((2, *v.shape), v.dtype)
        # A loop, so that the program has the dynamics once.
        (_, mean), _ = jax.lax.scan(stage, (still, still), jnp.asarray(_STAGES, v.dtype))
        x, change = dt * mean
        return integrate(model, q, x), v + change


def _coordinate_rate(
    model: Model, origin: Float[Array, "nq"], q: Float[Array, "nq"], v: Float[Array, "nv"]
) -> Velocity:
    """The rate of `x = difference(origin, q)` when q moves with v: `dexp_x^-1 v` for quaternions, else v itself.

    Taken from the joints' own maps, so that it holds for joint types of the user too.
    """

    def coordinates(t: Array) -> Array:
        return displacement(model, origin, integrate(model, q, v, t))

    zero = jnp.zeros((), v.dtype)
    return jax.jvp(coordinates, (zero,), (zero + 1,))[1]

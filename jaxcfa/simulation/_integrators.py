"""Integrators on the configuration manifold: one step in time each."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..configuration import displacement, integrate
from ..model import Model
from ..model._arguments import check_instance, positive_integer
from ..numerics import jvp_of_perturbed, with_rule
from ..one_function import as_one_function
from ..typing import Configuration, Velocity
from ._derivatives import jacobian
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
        """The state after `dt` [s], under constant torques and wrenches.

        Where actuators act, `tau` is what they do at the start, and `equation` knows their controls: its accelerations
        are those under the actuators in any state.
        """


def check_integrator(integrator: Any) -> None:
    """Raises `ValueError` for anything but an integrator."""
    check_instance("integrator", integrator, AbstractIntegrator, "one such as SemiImplicitEuler() or RungeKutta4()")


class SemiImplicitEuler(AbstractIntegrator):
    """`v' = v + dt qdd(q, v)`, then `q' = integrate(q, v', dt)`: order one; one evaluation of the dynamics, or two.

    Where the mass matrix is constant and forces derive from a potential the method is symplectic, and its energy error
    stays bounded for long times (Hairer, Lubich & Wanner, Geometric Numerical Integration, 2006, I.1.4). Where the mass
    matrix is not constant energy may grow in long motions without friction, unlike with `ImplicitMidpoint`.
    Damping, also that of servos, is taken at `v'` (as by MuJoCo's `implicitfast`), stops where `v'` leads, which makes
    them stable at every `dt`. Dry friction is found in two rounds, two evaluations: one joint sticks or slides by
    Coulomb's law; of many that start and stop at once, the friction of some may be more than `friction_loss` in a step.

    **Fields:** `friction_rounds`, 1 or 2. One holds a joint back by more than its friction where that gets under way,
    but is more nearly linear and costs half: the default of optimal control.
    """

    friction_rounds: int = eqx.field(converter=lambda x: positive_integer("friction_rounds", x), static=True, default=2)

    def __check_init__(self):
        if self.friction_rounds > 2:
            raise ValueError(f"friction_rounds must be 1 or 2, got {self.friction_rounds}: more are no better.")

    def step(
        self,
        equation: EquationOfMotion,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        tau: Float[Array, "nv"],
        f_ext: Float[Array, "nb 6"],
        dt: Float[Array, ""],
    ) -> tuple[Configuration, Velocity]:
        step = as_one_function(_semi_implicit_step) if equation.is_unconstrained else _semi_implicit_step
        return step(self, equation, q, v, tau, f_ext, dt)


def _semi_implicit_step(
    own: SemiImplicitEuler, equation: EquationOfMotion, q: Array, v: Array, tau: Array, f_ext: Array, dt: Array
) -> tuple[Configuration, Velocity]:
    v = v + dt * equation.acceleration_of_step(q, v, tau, f_ext, dt, own.friction_rounds)
    return integrate(equation.model, q, v, dt), v


class ExplicitEuler(AbstractIntegrator):
    """`q' = integrate(q, v, dt)` and `v' = v + dt qdd(q, v)`: order one, and all forces explicit.

    For comparison with published problems that are stated so. Energy grows; `SemiImplicitEuler` costs the same.
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
        return integrate(equation.model, q, v, dt), v + dt * equation.acceleration(q, v, tau, f_ext)


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


class ImplicitMidpoint(AbstractIntegrator):
    """The implicit midpoint rule on the manifold: `u = v + dt/2 qdd(integrate(q, u, dt/2), u)`, order two.

    Then `q' = integrate(q, u, dt)` and `v' = 2 u - v`. A step back is the inverse of a step, so that the energies of
    oscillating and tumbling mechanisms do not drift (Hairer, Lubich & Wanner, V and XI); that of a single body that
    tumbles freely is conserved exactly. Springs and damping are stable at every `dt`.

    The equation for u is solved by Newton's method, with the derivatives of the dynamics: a step costs about as much as
    some ten evaluations. Where dry friction, stops or long steps make it so nonlinear that Newton's method needs more
    `iterations`, take more or shorter steps. The derivatives are those of the solution, in both modes.

    **Fields:** `iterations`: how many Newton steps.
    """

    iterations: int = eqx.field(converter=lambda x: positive_integer("iterations", x), static=True, default=3)

    def step(
        self,
        equation: EquationOfMotion,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        tau: Float[Array, "nv"],
        f_ext: Float[Array, "nb 6"],
        dt: Float[Array, ""],
    ) -> tuple[Configuration, Velocity]:
        middle = _middle_velocity(self, equation, q, v, tau, f_ext, dt)
        return integrate(equation.model, q, middle, dt), 2 * middle - v


def _found_by_newton(
    integrator: ImplicitMidpoint,
    equation: EquationOfMotion,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
    dt: Float[Array, ""],
) -> Velocity:
    """The velocity in the middle of a step, by Newton's method from that at its beginning."""

    def newton(_, u: Array) -> Array:
        residual, slope = jacobian(lambda u: _residual(u, equation, q, v, tau, f_ext, dt), u)
        return u - jnp.linalg.solve(slope, residual)

    return jax.lax.fori_loop(0, integrator.iterations, newton, v)


def _rate_of_middle_velocity(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    """Differentiates the equation that has been solved: `J du = -(its derivative at fixed u)`."""
    u = _middle_velocity(*primals)
    _, residual_dot = jvp_of_perturbed(lambda *x: _residual(u, *x), primals[1:], tangents[1:])
    _, slope = jacobian(lambda u: _residual(u, *primals[1:]), u)
    return u, -jnp.linalg.solve(slope, residual_dot)


_middle_velocity = with_rule(_found_by_newton, _rate_of_middle_velocity)


def _residual(u: Array, equation: EquationOfMotion, q: Array, v: Array, tau: Array, f_ext: Array, dt: Array) -> Array:
    middle = integrate(equation.model, q, u, dt / 2)
    return u - v - dt / 2 * equation.acceleration(middle, u, tau, f_ext)


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

"""diffilqrax: linear-quadratic problems, and smooth problems without constraints, solved in sequence or by scans.

Its import switches JAX to double precision, which is what all of its contestants are measured in.
"""

import jax
import jax.numpy as jnp

from jaxcfa.structured import LinearQuadratic, LinearTerms

from ..case import Prepared
from ..contestant import compiled
from ..pendulum import Pendulum


def linear_quadratic(problem: LinearQuadratic, terms: LinearTerms, parallel: bool) -> Prepared:
    """The states of a problem without linear costs, and without weights between states and controls."""
    from diffilqrax.lqr import solve_lqr
    from diffilqrax.plqr import solve_plqr
    from diffilqrax.typs import LQR, LQRParams

    n, m = problem.input.shape[-2:]
    steps = len(problem.input)
    posed = LQRParams(
        terms.start,
        LQR(
            A=problem.transition,
            B=problem.input,
            a=terms.offsets,
            Q=problem.state_cost[:-1],
            q=jnp.zeros((steps, n)),
            R=problem.control_cost,
            r=jnp.zeros((steps, m)),
            S=jnp.zeros((steps, n, m)),
            Qf=problem.state_cost[-1],
            qf=jnp.zeros(n),
        ),
    )
    solver = solve_plqr if parallel else solve_lqr
    return compiled(lambda posed: solver(posed)[0], posed)


def swung_up(pendulum: Pendulum, number: int | None, parallel: bool, slopes: bool) -> Prepared:
    """Costs, iterations and whether solved, or, by `slopes`, the derivatives of `Pendulum.used` by the parameters."""
    from diffilqrax.diff_ilqr import dilqr
    from diffilqrax.ilqr import ilqr_solver
    from diffilqrax.parallel_dilqr import pdilqr
    from diffilqrax.parallel_ilqr import pilqr_solver
    from diffilqrax.typs import ModelDims, System, iLQRParams

    system = System(
        lambda t, x, u, theta: pendulum.cost(u),
        lambda x, theta: pendulum.final_cost(x),
        lambda t, x, u, theta: pendulum.step(x, u, theta),
        ModelDims(n=2, m=1, horizon=pendulum.steps, dt=pendulum.dt),
    )
    guess = jnp.zeros((pendulum.steps, 1))
    settings = {"max_iter": 300, "kkt_tol": pendulum.tolerance}
    if parallel:
        settings |= {"rollout": "parallel", "make_psd": "full"}

    def solve(start: jax.Array, theta: jax.Array):
        solver = pilqr_solver if parallel else ilqr_solver
        _, cost, _, solved, iterations = solver(system, iLQRParams(start, theta), guess, return_info=True, **settings)
        return cost, iterations, solved

    def used(theta: jax.Array, start: jax.Array) -> jax.Array:
        found = (pdilqr if parallel else dilqr)(system, iLQRParams(start, theta), guess, **settings)
        return pendulum.used(found[:, :2], found[:-1, 2:])

    def slope(start: jax.Array, theta: jax.Array) -> jax.Array:
        return jax.grad(used)(theta, start)

    function = slope if slopes else solve
    many = function if number is None else jax.vmap(function, (0, None))
    return compiled(many, pendulum.starts(number), pendulum.parameters)

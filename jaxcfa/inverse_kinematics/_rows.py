"""What inverse kinematics is to make small: residuals, and their Jacobians by displacements of the configuration."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..closed_chains._relations import Bodies, Constraints, Places, jacobian_of_constraints, residuals_of_constraints
from ..configuration import integrate
from ..model import Model
from ..model._ranges import even_displacement
from ..motion import BodyMotions
from ..one_function import as_one_function
from ..optimal_control import Cost, RobotInverseDynamics, Stage
from ..optimal_control._problem import Parts


class Problem(eqx.Module):
    """Targets, preferences and loops of a robot.

    **Fields:** `dynamics`, of which only the model counts (and not its inertia); `targets` and `preferences`; `loops`
    to be kept closed; `lower` and `upper` (nq,) ends of the joints' ranges.
    """

    dynamics: RobotInverseDynamics
    targets: Parts
    preferences: Parts
    loops: Constraints
    lower: Float[Array, "nq"]
    upper: Float[Array, "nq"]

    @property
    def model(self) -> Model:
        """The robot."""
        return self.dynamics.model

    @property
    def has_preferences(self) -> bool:
        return bool(self.preferences.costs)

    @property
    def has_weights(self) -> Bool[Array, ""]:
        """Whether all weights are finite and not negative."""
        weights = [cost.weight for cost in (*self.targets.costs, *self.preferences.costs) if isinstance(cost, Cost)]
        return jnp.all(jnp.array([jnp.all((x >= 0) & jnp.isfinite(x)) for x in weights], bool))

    def clipped(self, q: Float[Array, "nq"]) -> Float[Array, "nq"]:
        """Within the ranges of the joints."""
        return jnp.clip(q, self.lower, self.upper)

    def start(self, origin: Float[Array, "nq"], number: Int[Array, ""]) -> Float[Array, "nq"]:
        """The start of that number: they cover the ranges evenly."""
        displacement = even_displacement(self.model, (self.lower, self.upper), origin, number)
        return self.clipped(integrate(self.model, origin, displacement))

    def stage(self, q: Float[Array, "nq"]) -> Stage:
        """The robot at rest."""
        x = jnp.concatenate([q, jnp.zeros(self.model.nv, q.dtype)])
        return Stage(self.dynamics, x, None, jnp.zeros((), int))


class Rows(eqx.Module):
    """**Fields:** unweighted `hard` rows, targets and loops; `values` (k,) of all with the roots of their weights,
    those of the preferences last; `jacobian` (k, nv) of these."""

    hard: Float[Array, "h"]
    values: Float[Array, "k"]
    jacobian: Float[Array, "k nv"]

    def preferring(self, weight: Float[Array, ""]) -> tuple[Float[Array, "k"], Float[Array, "k nv"]]:
        """Values and Jacobian with the preferences multiplied by a weight."""
        weights = jnp.where(np.arange(len(self.values)) < len(self.hard), 1, weight)
        return weights * self.values, weights[:, None] * self.jacobian


@partial(as_one_function, derivatives=False)
def rows_of(problem: Problem, q: Float[Array, "nq"]) -> Rows:
    """All rows in a configuration."""
    stage = problem.stage(q)
    hard, values, jacobian = _rows(problem.targets, stage)
    if problem.loops:
        open_by, slopes = _loops(problem, stage.motions)
        hard, values = (jnp.concatenate([x, open_by]) for x in (hard, values))
        jacobian = jnp.concatenate([jacobian, slopes])
    if problem.has_preferences:
        _, preferred, slopes = _rows(problem.preferences, stage)
        values, jacobian = jnp.concatenate([values, preferred]), jnp.concatenate([jacobian, slopes])
    return Rows(hard, values, jacobian)


def hard_rows(problem: Problem, q: Float[Array, "nq"]) -> Float[Array, "h"]:
    """The `hard` rows alone, unweighted."""
    stage = problem.stage(q)
    return jnp.concatenate([_weighted(problem.targets, stage)[0], *_open_by(problem, stage)])


def residuals(problem: Problem, q: Float[Array, "nq"], displacement: Float[Array, "nv"]) -> tuple[Array, Array]:
    """The `values` of hard rows and of preferences at the displaced configuration, to be differentiated by anything."""
    stage = problem.stage(integrate(problem.model, q, displacement))
    hard, soft = (_weighted(parts, stage)[1] for parts in (problem.targets, problem.preferences))
    return jnp.concatenate([hard, *_open_by(problem, stage)]), soft


def _open_by(problem: Problem, stage: Stage) -> list[Array]:
    if not problem.loops:
        return []
    return [residuals_of_constraints(problem.model, problem.loops, Places.of(stage.motions), stage.q)]


def _rows(parts: Parts, stage: Stage) -> tuple[Array, Array, Array]:
    """Residuals, the same weighted, and the Jacobian of these."""

    def displaced(dq: Array) -> Array:
        return _weighted(parts, stage.displaced(dq, jnp.zeros_like(dq), first_order=True))[1]

    return *_weighted(parts, stage), jax.jacfwd(displaced)(jnp.zeros_like(stage.v))


def _weighted(parts: Parts, stage: Stage) -> tuple[Array, Array]:
    residual, weights = parts.weighted(stage)
    positive = weights > 0
    roots = jnp.where(positive, jnp.sqrt(jnp.where(positive, weights, 1)), 0)
    return residual * positive.astype(residual.dtype), roots * residual


def _loops(problem: Problem, motions: BodyMotions) -> tuple[Array, Array]:
    bodies = Bodies.of(motions)
    _, jacobian, _, _ = jacobian_of_constraints(problem.model, problem.loops, bodies, motions.q)
    return residuals_of_constraints(problem.model, problem.loops, bodies.places, motions.q), jacobian

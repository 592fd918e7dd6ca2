"""The stages of linear-quadratic problems, and the interface of what solves them."""

import abc

import equinox as eqx
from jaxtyping import Array, Float


class Extremal(eqx.Module):
    """States, controls and multipliers of T stages: what solves the optimality conditions.

    **Fields:** `states` x (T + 1, n); `controls` u (T, m); `costates` lam (T + 1, n): the multipliers of the equations
    that define x_t, which are the gradients of the cost to go (the first belongs to the start);
    `end_multipliers` nu (k,).
    """

    states: Float[Array, "T+1 n"]
    controls: Float[Array, "T m"]
    costates: Float[Array, "T+1 n"]
    end_multipliers: Float[Array, "k"]


class Stages(eqx.Module):
    """The matrices of T stages and their end, in the notation of `LinearQuadratic`; S is `None` where it is zero."""

    transition: Float[Array, "T n n"]
    input: Float[Array, "T n m"]
    state_cost: Float[Array, "T+1 n n"]
    control_cost: Float[Array, "T m m"]
    cross_cost: Float[Array, "T m n"] | None

    def inner(self) -> "Stages":
        """Without the end, so that all leading axes are T."""
        return eqx.tree_at(lambda s: s.state_cost, self, self.state_cost[:-1])


class AbstractStageFactors(eqx.Module):
    """The factors of a problem whose start is given and whose end is free."""

    @abc.abstractmethod
    def solve(self, rhs: Extremal) -> Extremal:
        """The solution of the optimality conditions, to which `rhs.end_multipliers` do not belong."""


class AbstractStageSolver(eqx.Module):
    """A way to factorise linear-quadratic problems. A new one is a subclass with `factor`, and factors with `solve`.

    Derivatives are none of their concern: `LinearQuadratic.solve` supplies those.
    """

    @abc.abstractmethod
    def factor(self, stages: Stages) -> AbstractStageFactors:
        """Factors of the problem whose start is given and whose end is free."""

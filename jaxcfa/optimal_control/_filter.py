"""Which points a line search accepts: those that are less infeasible or cost less than all that it has left behind.

The filter of A. Waechter & L. T. Biegler, On the implementation of an interior-point filter line-search algorithm for
large-scale nonlinear programming, 2006, section 2.3, with their constants.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

_MARGIN, _ARMIJO = 1e-5, 1e-4
_LEAST, _MOST, _RESTORED = 1e-4, 1e4, 0.9


class Filter(NamedTuple):
    """**Fields:** `entries` (k, 2), each an infeasibility and a barrier function that are not to be reached again;
    `first`, the infeasibility at the start or 1 if that is more, which says what counts as little; `most` that is
    allowed: where there is more, it must become less."""

    entries: Float[Array, "k 2"]
    first: Float[Array, ""]
    most: Float[Array, ""]

    @staticmethod
    def empty(size: int, dtype) -> "Filter":
        """One that has seen nothing."""
        return Filter(jnp.full((size, 2), jnp.inf, dtype), *jnp.array([1.0, _MOST], dtype))

    def begun(self, infeasibility: Float[Array, ""]) -> "Filter":
        """The same for a problem whose first point is so infeasible."""
        first = jnp.maximum(infeasibility, 1)
        return self._replace(first=first, most=_MOST * first)

    def emptied(self) -> "Filter":
        """The same without entries."""
        return self._replace(entries=jnp.full_like(self.entries, jnp.inf))

    def restoring(self, infeasibility: Float[Array, ""]) -> "Filter":
        """One that asks for less infeasibility than there is, and forgets the costs, for where nothing is accepted."""
        return self.emptied()._replace(most=jnp.maximum(_RESTORED * infeasibility, _LEAST * self.first))

    def with_entry(self, i: Int[Array, ""], infeasibility: Float[Array, ""], value: Float[Array, ""]) -> "Filter":
        """The same with an entry, as number i."""
        return self._replace(entries=self.entries.at[i].set(jnp.stack([infeasibility, value])))

    def is_descent(
        self, infeasibility: Float[Array, ""], slope: Float[Array, ""], length: Float[Array, ""]
    ) -> Bool[Array, ""]:
        """Whether a step is for the cost's sake: little is left to be made feasible in comparison."""
        downhill = jnp.maximum(-slope, 0)
        switch = length * downhill**2.3 > infeasibility**1.1
        return (downhill > 0) & switch & (infeasibility <= _LEAST * self.first)

    def accepts(
        self,
        before: tuple[Float[Array, ""], Float[Array, ""]],
        after: tuple[Float[Array, ""], Float[Array, ""]],
        slope: Float[Array, ""],
        length: Float[Array, ""],
        rounding: Float[Array, ""],
    ) -> Bool[Array, ""]:
        """Whether a step is good enough from one infeasibility and barrier function to others."""
        (violated, value), (new_violated, new_value) = before, after
        enough = new_value <= value + _ARMIJO * length * slope + rounding
        closer = new_violated <= (1 - _MARGIN) * violated
        cheaper = new_value <= value - _MARGIN * violated + rounding
        theirs, costs = self.entries[:, 0], self.entries[:, 1]
        new = (new_violated <= (1 - _MARGIN) * theirs) | (new_value <= costs - _MARGIN * theirs + rounding)
        usual = jnp.where(self.is_descent(violated, slope, length), enough, closer | cheaper)
        usual = usual & jnp.all(new | jnp.isinf(theirs)) & (new_violated <= self.most)
        return jnp.where(violated > self.most, new_violated <= (1 - _ARMIJO * length) * violated, usual)

"""How users call what is a function of the motions of the bodies."""

from collections.abc import Callable
from typing import Any, TypeVar

from ..compilation import jit_of_one_state
from ..model import Model
from ..model._arguments import as_arrays
from ..one_function import as_one_function
from ..structured import AbstractSchedule
from ..structured._scan import SEQUENTIAL
from ._body_motions import BodyMotions, motions_at, schedule_for

Result = TypeVar("Result")


def of_motions(
    function: Callable[..., Result],
    *,
    check: Callable[[Model], None] | None = None,
    form: Callable[[Callable[..., Result]], Callable[..., Result]] = as_one_function,
) -> Callable[..., Result]:
    """`function(model, motions, ...)` as one of what users give: `of_state(model, motions, schedule, q=q, v=v, ...)`.

    Arguments are checked, motions are made if they are `None`, and other arguments than q and v follow them by order.
    The schedule is the default one if it is `None`. What is called by itself is compiled as a program of its own.

    **Arguments:** `check`: raises `ValueError` for models that the function does not serve; `form`: how it is written
    in compiled functions.
    """

    def at(model: Model, q: Any, v: Any, schedule: AbstractSchedule, motions: BodyMotions | None, *others: Any):
        return function(model, motions_at(model, q, v, schedule, motions), *others)

    at.__name__ = function.__name__
    compiled = jit_of_one_state(form(at))

    def of_state(
        model: Model, motions: BodyMotions | None, schedule: AbstractSchedule | None = SEQUENTIAL, /, **given: Any
    ) -> Result:
        q, *others = as_arrays(model, **given)
        v = others.pop(0) if "v" in given else None
        schedule = schedule_for(model, schedule, motions, q, v)
        if check is not None:
            check(model)
        return compiled(model, q, v, schedule, motions, *others)

    return of_state

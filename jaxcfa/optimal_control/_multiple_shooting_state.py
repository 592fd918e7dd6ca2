"""What multiple shooting knows from one iteration to the next, and what is decided before."""

from typing import NamedTuple

from jaxtyping import Array, Bool, Float, Int

from ..structured import AbstractStageSolver
from ._acceleration import Memory
from ._curvature import Curvature
from ._interior_point import Barrier, Point
from ._line_search import Penalty, Seen, Steps, Worth
from ._local import Hessian, LocalModel
from ._solution import History

FEW = 10  # iterations that are no search of their own, but go on with a plan
FAR_OFF = 0.1  # violations of constraints from which on Hessians are those of Gauss and Newton
DISTURBANCES = 2  # how often a start is disturbed from which constraints cannot be satisfied to first order


class Settings(NamedTuple):
    """What is decided before the first iteration: fields of `MultipleShooting`, none of them open, and limits that
    depend on the precision and the guess. The history has room for `recorded` iterations."""

    tolerance: float
    stationarity: float
    proximity: float
    smallest_barrier: float
    largest_price: float
    largest_regularization: float
    max_iterations: Int[Array, ""]
    recorded: int
    hessian: Hessian
    schedule: AbstractStageSolver
    steps: Steps
    barrier: float
    regularization: float
    together: int


class State(NamedTuple):
    """**Fields:** what has been reached, the weights of the search, how `soft` equalities are relative to what they are
    at first, the `length` of the last step, zero if none was taken, and what will be reported."""

    point: Point
    known: tuple[Point, LocalModel, Curvature] | None
    memory: Memory | None
    disturbances: Int[Array, ""]
    proofs: Int[Array, ""]
    contradicted: Bool[Array, ""]
    gains: Float[Array, "T m n"]
    barrier: Barrier
    soft: Float[Array, ""]
    regularization: Float[Array, ""]
    penalty: Penalty
    seen: Seen
    length: Float[Array, ""]
    worth: Worth
    stationarity: Float[Array, ""]
    iteration: Int[Array, ""]
    status: Int[Array, ""]
    done: Bool[Array, ""]
    history: History


def is_last(settings: Settings, state: State) -> Bool[Array, ""]:
    """Whether no iteration may follow."""
    return state.iteration + 1 >= settings.max_iterations

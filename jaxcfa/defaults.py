"""Which schedule and which forward dynamics are chosen where the user does not choose.

| | schedule | forward dynamics |
|---|---|---|
| CPU | `Sequential()` | `ABA()` |
| GPU and TPU, up to 15 bodies deep | `Sequential()` | `ABA()` |
| GPU and TPU, up to 32 bodies deep | `Doubling()` | `ABA()` |
| GPU and TPU, deeper | `Doubling()` | `ABA(schedule="scan")` if every joint moves inertia of its own body |

On CPUs a loop over the bodies is fastest at every length that was measured, in batches and for single states: it does
the least work, and in forward and inverse dynamics XLA compiles it as one function. Accelerators need as many bodies
side by side as possible, and their time for one state is that of the steps that follow one another, of which
logarithmic schedules have fewer. On an H100 `Doubling()` computes inverse dynamics of 16 bodies in half of the time,
for one state and for 256. There `ABA("scan")` is faster than `ABA()` from less than 16 bodies on for one state, and
from between 32 and 64 on for 256 (docs/methods.md has the times). Larger batches fill the device anyway; then choose
`ABA()`. The rule does not see the batch, because functions are for one state.

How loops over bodies are written for each backend is in `backend.py`.
"""

from .backend import backend
from .model import Model
from .structured import AbstractSchedule, Doubling, Sequential
from .structured._scan import check_schedule

# Accelerators take sequential sweeps up to so many bodies in depth, and sequential forward dynamics.
_DEEPEST_SWEEP, _DEEPEST_DYNAMICS = 15, 32


def default_schedule(model: Model) -> AbstractSchedule:
    """The schedule of kinematics and inverse dynamics where none is given; docs/methods.md says when to take another.

    `Sequential()` on CPUs and for mechanisms of up to 15 bodies in depth, else `Doubling()`.
    """
    return Doubling() if _is_deeper(model, _DEEPEST_SWEEP) else Sequential()


def choose_schedule(model: Model, schedule: AbstractSchedule | None) -> AbstractSchedule:
    """The given schedule, or the default. **Raises:** `ValueError` for anything else."""
    if schedule is None:
        return default_schedule(model)
    check_schedule(schedule)
    return schedule


def batch_piece() -> int:
    """How many states `batched` computes at a time: what stays in the caches of a CPU, and fills an accelerator."""
    return 1024 if backend() == "cpu" else 65536


def prefers_parallel(model: Model) -> bool:
    """Whether in forward dynamics fewer steps count for more than less work."""
    return _is_deeper(model, _DEEPEST_DYNAMICS)


def _is_deeper(model: Model, depth: int) -> bool:
    """Whether there is an accelerator for more bodies in a row than that."""
    return backend() != "cpu" and int(model.topology.schedule.depths.max(initial=0)) > depth

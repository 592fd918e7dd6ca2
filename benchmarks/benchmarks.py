"""All benchmarks by name, in the order of the report. To add one, add one line."""

from . import (
    batch,
    chain,
    first_call,
    inverse_kinematics,
    latency,
    operators,
    optimal_control,
    space,
    states,
)

BENCHMARKS = {
    "states": states,
    "chain": chain,
    "batch": batch,
    "space": space,
    "operators": operators,
    "first_call": first_call,
    "latency": latency,
    "inverse_kinematics": inverse_kinematics,
    "optimal_control": optimal_control,
}

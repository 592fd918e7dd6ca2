"""All benchmarks by name, in the order of the report. To add one, add one line."""

from . import (
    batch,
    chain,
    contacts,
    control_problems,
    first_call,
    gpu,
    inverse_kinematics,
    latency,
    operators,
    optimal_control,
    smooth_control,
    space,
    states,
)

BENCHMARKS = {
    "states": states,
    "gpu": gpu,
    "chain": chain,
    "batch": batch,
    "latency": latency,
    "first_call": first_call,
    "space": space,
    "contacts": contacts,
    "operators": operators,
    "inverse_kinematics": inverse_kinematics,
    "optimal_control": optimal_control,
    "smooth_control": smooth_control,
    "control_problems": control_problems,
}

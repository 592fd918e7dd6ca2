"""Batches of states by straight lines of operations on numbers, on GPUs as one kernel: `one_kernel`."""

from ._one_kernel import one_kernel as one_kernel, run_as_kernel as run_as_kernel
from ._straight_line import Unsupported as Unsupported, line_of_program as line_of_program

"""Batches of states by straight lines of operations on numbers, on GPUs as one kernel: `one_kernel`."""

from ._one_kernel import one_kernel as one_kernel

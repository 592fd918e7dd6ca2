"""Batches of states on GPUs as one kernel in which each thread computes a state: `one_kernel`."""

from ._one_kernel import one_kernel as one_kernel

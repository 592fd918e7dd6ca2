"""Programs compiled ahead of time for accelerators that need not be there, and what the compiled programs are like.

`python -m benchmarks accelerators` compiles every kind of program for NVIDIA GPUs and TPUs, and reads in the results
how many kernels run, how many bytes of device memory they move, what XLA:TPU estimates, which products are of low
precision and which libraries are called. Nothing runs. The compilers are packages: `make accelerators` installs them.
"""

from .table import markdown as markdown, section as section

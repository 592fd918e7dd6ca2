"""Parts of programs that are one function on CPUs, batches of them in pieces in the cache, and one kernel on GPUs.

XLA:CPU starts a small function for nearly every operation, and each of them goes through the whole batch. A call that
bears the attribute by which it marks small loops itself becomes one function instead, which nothing is started in; and
what some hundred states work on stays in the processor's cache.

How large a batch is must be known where the program is written. Rules of primitives know it, so a primitive stands for
such a part. Its derivatives are such parts too, which compute anew what they need, in the cache.

On GPUs it stands for a kernel, in which each thread computes a state from beginning to end, and memory is read and
written once. `one_kernel` makes one of all that a function does.
"""

from ._marks import (
    is_one_function as is_one_function,
    marked as marked,
    whole_program as whole_program,
    without_marks as without_marks,
)
from ._one_kernel import one_kernel as one_kernel
from ._primitive import Shared as Shared, as_one_function as as_one_function

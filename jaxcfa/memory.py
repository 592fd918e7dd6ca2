"""Memory that results of programs on CPUs are put into."""

import ctypes
from typing import SupportsIndex

from .numerics._options import positive_integer

# Parameters of glibc's `mallopt`, and the largest number that it takes.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST = 2**31 - 1


def keep_memory(most: SupportsIndex = 2**30) -> bool:
    """On CPUs, has results put where earlier ones were, instead of into memory that the system clears for them.

    The C library gives memory of large arrays back to the system when they are no longer used, and the system clears
    each page of what it gives out again. In functions that compute little for what they return this takes as long as
    the rest: poses and Jacobians of 2048 humanoids take 1.1 us a state with it, and 1.1 to 2.4 without, depending on
    what was allocated before. A call holds for the whole process, all of its libraries included, from then on. Arrays
    of more than some 30 MB may still be given back, by pools of single threads.

    **Arguments:** `most`: how much unused memory the process keeps [bytes], less than 2 GiB.

    **Returns:** whether the C library has such settings. Those of Linux mostly do (glibc); elsewhere nothing happens.

    **Raises:** `ValueError` for a size that is not a number of bytes below 2 GiB.
    """
    size = positive_integer("most", most)
    if size > _LARGEST:
        raise ValueError(f"most must be at most {_LARGEST} bytes, got {most!r}.")
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    # One pool for all threads would keep more, but programs compile a quarter longer where they wait for it.
    results = [set_option(option, size) for option in (_TRIM_THRESHOLD, _MMAP_THRESHOLD)]
    return all(result == 1 for result in results)

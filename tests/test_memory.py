"""Memory of results."""

import ctypes
import subprocess
import sys

import pytest

import jaxcfa

PROGRAM = """
import resource
import sys
import numpy as np
import jaxcfa

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        x = np.ones(5_000_000)  # 40 MB
        del x
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first = faults()
assert jaxcfa.keep_memory()
faults()
print(first, faults())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="settings of glibc")
def test_pages_are_given_back_no_more():
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    before, after = map(int, found.split())
    assert after < before / 100


def test_elsewhere_nothing_happens(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert jaxcfa.keep_memory() is False


@pytest.mark.parametrize("most", [0, -1, 1.5, "1 GB", True])
def test_sizes_are_checked(most):
    with pytest.raises(ValueError, match="most must be a positive integer, got"):
        jaxcfa.keep_memory(most)


def test_more_than_the_library_takes_is_refused():
    with pytest.raises(ValueError, match="most must be at most 2147483647 bytes, got 2147483648"):
        jaxcfa.keep_memory(2**31)

"""The option for programs of one state."""

import os
import subprocess
import sys

import pytest

import jaxcfa

PROGRAM = """
import os
import jax
import jax.numpy as jnp
import jaxcfa

jaxcfa.enable_low_latency()
jaxcfa.enable_low_latency()
print(os.environ["XLA_FLAGS"])
model, x = jaxcfa.chain(3), jnp.zeros(3)
program = jax.jit(lambda *x: jaxcfa.forward_dynamics(model, *x)).lower(x, x, x).compile()
print(program.as_text().count("xla_cpu_small_call"), jnp.all(jnp.isfinite(program(x, x, x))))
"""


def test_loops_are_compiled_into_one_function():
    flags = "--xla_backend_optimization_level=0 --xla_backend_extra_options=xla_cpu_flatten_after_fusion"
    command = [sys.executable, "-c", PROGRAM]
    environment = {**os.environ, "XLA_FLAGS": flags}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    given, found = result.stdout.splitlines()
    assert given == f"{flags},xla_cpu_small_while_loop_byte_threshold=1000000"
    calls, finite = found.split()
    assert int(calls) >= 3
    assert finite == "True"


def test_it_says_if_it_comes_too_late():
    jaxcfa.chain(1)
    with pytest.raises(ValueError, match="comes too late: JAX has computed something already"):
        jaxcfa.enable_low_latency()
    with pytest.raises(ValueError, match="loop_bytes must be a positive integer, got 0"):
        jaxcfa.enable_low_latency(0)

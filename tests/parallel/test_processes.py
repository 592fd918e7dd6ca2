"""Two processes with two devices each, joined by JAX over the loopback device."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys

import jax
import numpy as np
from jax.experimental.multihost_utils import process_allgather

import evaluation
import interpreter
import jaxcfa
from jaxcfa.structured import Distributed

evaluation.install()
interpreter.hasten()
jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_enable_x64", True)
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))

mesh = jaxcfa.device_mesh("links")
model = jaxcfa.chain(12)
state = tuple(np.random.default_rng(0).normal(size=(3, 12)))
placed = jaxcfa.spread((model, *state), mesh, "links")
tau = jax.jit(lambda *x: jaxcfa.inverse_dynamics(*x, schedule=Distributed(mesh, "links")))(*placed)
assert len(tau.addressable_shards) == 2
error = np.max(np.abs(process_allgather(tau, tiled=True) - jaxcfa.inverse_dynamics(model, *state)))

batch = tuple(np.random.default_rng(1).normal(size=(3, 8, 2)))
arm = jaxcfa.chain(2)
function = lambda *x: jaxcfa.inverse_dynamics(arm, *x)
found = jax.jit(jaxcfa.batched(function, mesh=mesh))(*jaxcfa.spread(batch, mesh, "links"))
error = max(error, np.max(np.abs(process_allgather(found, tiled=True) - jax.vmap(function)(*batch))))
print("devices", mesh.size, "error", error)
"""


@pytest.mark.slow
def test_two_processes_compute_one_result():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    command = [sys.executable, "-c", PROGRAM, address]
    here = Path(__file__).parent.parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(here.parent), str(here)])}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment}
    processes = [subprocess.Popen([*command, str(rank)], **options) for rank in range(2)]
    for process in processes:
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        line = output.splitlines()[-1].split()
        assert line[:2] == ["devices", "4"]
        assert float(line[3]) < 1e-9

"""The devices that programs are compiled for."""

import dataclasses
import os

import jax
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

# What XLA:GPU needs to know of a device, which a driver would tell (jaxlib's target_config, as text).
_GPU = """
gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64
  registers_per_core_limit: 65536 registers_per_block_limit: 65536 shared_memory_per_block: 49152
  shared_memory_per_core: {core_shared} shared_memory_per_block_optin: {shared}
  core_count: {cores} fpus_per_core: {fpus} memory_bandwidth: {bandwidth}
  l2_cache_size: {cache} clock_rate_ghz: {clock} device_memory_size: {memory}
  cuda_compute_capability {{ major: {major} }}
}}
platform_name: "CUDA" dnn_version_info {{ major: 9 minor: 8 }} runtime_version {{ major: 12 minor: 9 }}
device_description_str: "{name}"
"""
_H100 = {
    "core_shared": 233472,
    "shared": 232448,
    "cores": 132,
    "fpus": 128,
    "bandwidth": 3352320000000,
    "major": 9,
    "cache": 52428800,
    "clock": 1.98,
    "memory": 84942979072,
    "name": "NVIDIA H100 80GB HBM3",
}
_A100 = {
    "core_shared": 167936,
    "shared": 166912,
    "cores": 108,
    "fpus": 64,
    "bandwidth": 2039040000000,
    "major": 8,
    "cache": 41943040,
    "clock": 1.41,
    "memory": 85100068864,
    "name": "NVIDIA A100-SXM4-80GB",
}


@dataclasses.dataclass(frozen=True)
class Target:
    """A kind of device.

    **Fields:** `title`; `backend`, its name in JAX; `topology`: the options of `topologies.get_topology_desc`.
    """

    title: str
    backend: str
    topology: dict

    def sharding(self) -> SingleDeviceSharding:
        """The first device. Raises what JAX raises where the compiler is not installed."""
        return SingleDeviceSharding(topologies.get_topology_desc(**self.topology).devices[0])


def _gpu(title: str, facts: dict) -> Target:
    options = {"platform": "cuda", "target_config": _GPU.format(**facts), "topology": "1x1x1"}
    return Target(title, "gpu", options)


TARGETS = {
    "h100": _gpu("NVIDIA H100", _H100),
    "a100": _gpu("NVIDIA A100", _A100),
    "v5e": Target("TPU v5e", "tpu", {"platform": "tpu", "topology_name": "v5e:2x2"}),
    "v6e": Target("TPU v6e", "tpu", {"platform": "tpu", "topology_name": "v6e:2x2"}),
}


def without_devices() -> None:
    """Arrays live on the CPU, and libtpu does not ask the machine's metadata server. Before JAX is used."""
    jax.config.update("jax_platforms", "cpu")
    settings = {"TPU_SKIP_MDS_QUERY": "1", "TPU_ACCELERATOR_TYPE": "v5litepod-4", "TPU_WORKER_ID": "0"}
    for name, value in (settings | {"TPU_WORKER_HOSTNAMES": "localhost", "TF_CPP_MIN_LOG_LEVEL": "3"}).items():
        os.environ.setdefault(name, value)

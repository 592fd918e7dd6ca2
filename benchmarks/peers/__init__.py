"""Other packages. To add one, add one line: a function of a problem and a quantity that returns a `Prepared`.

A package that is not installed is reported as such. So is what a package cannot do.
"""

from collections.abc import Callable
from typing import NamedTuple

from ..case import Contestant, Prepared
from ..problem import Problem
from ..quantities import ALL, CONSTRAINED, FORWARD, GRADIENT, INVERSE, KINEMATICS, MASS, MATRICES
from .brax import brax
from .frax import frax
from .jaxsim import jaxsim, jaxsim_parallel
from .mjx import mjx
from .mujoco import mujoco, rollout
from .pinocchio import in_threads, pinocchio

Environment = tuple[tuple[str, str], ...]


class Peer(NamedTuple):
    """Another package, or one way to use it.

    **Fields:** `prepare`: of a problem and a quantity. `quantities`: what it has. `package`: names the process that it
    shares with other ways to use it. `compiled`: whether JAX has to compile it. `reference`: whether its results are
    in float64 and trusted. `variables`: environment that its documentation recommends.
    """

    name: str
    prepare: Callable[[Problem, str], Prepared]
    quantities: tuple[str, ...]
    package: str
    compiled: bool = True
    reference: bool = False
    variables: Environment = ()

    def environment(self, dtype: str) -> Environment:
        return (*self.variables, ("JAX_ENABLE_X64", "1" if dtype == "float64" else "0"))

    def contestant(self, make: Callable[[], Problem], quantity: str, dtype: str) -> Contestant:
        """For a problem that is made in its process."""
        environment = self.environment(dtype)
        return Contestant(self.name, lambda: self.prepare(make(), quantity), self.package, environment, self.reference)


_DYNAMICS = FORWARD, INVERSE, MASS
_FRAX = (
    ("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false --xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"),
    ("OPENBLAS_NUM_THREADS", "1"),
)
# Two of its solves of batches, on one of XLA's threads each, may wait for one another forever (jaxlib 0.10). The newer
# code of XLA for fusions computes its chains of bodies again and again: 10 ms a state for seven links instead of 10 us.
_MJX = (("NPROC", "1"), ("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false"))
_ALL = (
    Peer("Pinocchio", pinocchio, ALL, "C++", compiled=False, reference=True),
    Peer("Pinocchio, threads", in_threads, (FORWARD, INVERSE), "C++", compiled=False),
    Peer("MuJoCo", mujoco, (*_DYNAMICS, KINEMATICS, CONSTRAINED), "C++", compiled=False),
    Peer("MuJoCo rollout, threads", rollout, (FORWARD,), "C++", compiled=False),
    Peer("frax", frax, (*_DYNAMICS, KINEMATICS, GRADIENT, MATRICES), "frax", variables=_FRAX),
    Peer("MJX", mjx, (*_DYNAMICS, KINEMATICS, GRADIENT, MATRICES, CONSTRAINED), "MJX", variables=_MJX),
    Peer("JaxSim", jaxsim, (*_DYNAMICS, KINEMATICS, GRADIENT, MATRICES), "JaxSim"),
    Peer("JaxSim, parallel", jaxsim_parallel, (FORWARD, GRADIENT), "JaxSim"),
    Peer("Brax", brax, (*_DYNAMICS, GRADIENT, MATRICES), "Brax"),
)
PEERS = {peer.name: peer for peer in _ALL}


def of_peers(names: tuple[str, ...], make: Callable[[], Problem], quantity: str, dtype: str) -> list[Contestant]:
    """Contestants from other packages, by name."""
    return [PEERS[name].contestant(make, quantity, dtype) for name in names]

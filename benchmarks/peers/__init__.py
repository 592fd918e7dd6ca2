"""Other packages. To add one, add one line: a function of a problem and a quantity that returns a `Prepared`.

A package that is not installed is reported as such. So is what a package cannot do.
"""

from .frax import frax
from .mjx import mjx
from .mujoco import mujoco
from .pinocchio import pinocchio

PEERS = {
    "Pinocchio": pinocchio,
    "MuJoCo": mujoco,
    "frax": frax,
    "MJX": mjx,
}

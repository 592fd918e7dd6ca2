"""Names for array shapes used throughout the package.

Shape letters: `nb` bodies, `nq` configuration coordinates, `nv` velocity coordinates (degrees of freedom), `nf`
frames, `d` degrees of freedom of one joint. Spatial vectors have six components, angular part first.

The aliases that end in `Like` are for arguments of public functions. Those take anything that converts to an array
and check its shape themselves, so that a mistake gives a `ValueError` that explains it.
"""

from collections.abc import Sequence
from typing import Annotated, SupportsIndex

from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

Configuration = Float[Array, "nq"]
Velocity = Float[Array, "nv"]
BodyForces = Float[Array, "nb 6"]
Key = PRNGKeyArray

ConfigurationLike = Annotated[ArrayLike, "nq"]
VelocityLike = Annotated[ArrayLike, "nv"]
BodyForcesLike = Annotated[ArrayLike, "nb 6"]

# Of a body, joint or frame. Numbers are integers of any type, NumPy's too.
NameOrNumber = str | SupportsIndex

# Of frames and bodies: one, or several, which give results a leading axis. Arrays of integers are `SupportsIndex` too.
Frames = NameOrNumber | Sequence[NameOrNumber]

__all__ = [
    "BodyForces",
    "BodyForcesLike",
    "Configuration",
    "ConfigurationLike",
    "Frames",
    "Key",
    "NameOrNumber",
    "Velocity",
    "VelocityLike",
]

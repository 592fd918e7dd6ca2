"""Names for array shapes used throughout the package.

Shape letters: `nb` bodies, `nq` configuration coordinates, `nv` velocity coordinates (degrees of freedom), `nf`
frames, `d` degrees of freedom of one joint. Spatial vectors have six components, angular part first.
"""

from jaxtyping import Array, Float, PRNGKeyArray

Configuration = Float[Array, "nq"]
Velocity = Float[Array, "nv"]
Vector3 = Float[Array, "3"]
Matrix3 = Float[Array, "3 3"]
Motion = Float[Array, "6"]
Force = Float[Array, "6"]
BodyForces = Float[Array, "nb 6"]
Key = PRNGKeyArray

__all__ = ["BodyForces", "Configuration", "Force", "Key", "Matrix3", "Motion", "Vector3", "Velocity"]

"""Large batches, and several devices.

- `batched` is `jax.vmap` in pieces that fit into the cache, on all devices of a mesh.
- `device_mesh` makes such a mesh, `spread` places arrays and models on it: batches, the links of one long chain, or
  the stages of one long problem of optimal control. The schedule `structured.Distributed` works on them where they are.
"""

from ._batched import batched as batched
from ._mesh import device_mesh as device_mesh, spread as spread

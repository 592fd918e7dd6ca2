"""Mechanisms with states: what contestants are given."""

import dataclasses
import tempfile
from pathlib import Path

import jax
import numpy as np

import jaxcfa
from jaxcfa import Model
from jaxcfa.joints import Free

from .urdf import to_urdf

# Snakes bend up and down and left and right in turn; these are also the joints that Pinocchio is fastest with.
_AXES = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


@dataclasses.dataclass(frozen=True)
class Problem:
    """A model with one state or a batch of states.

    **Fields:** `q` (nq,) or (b, nq); `v` and `x` (nv,) or (b, nv), where `x` is the torque for forward dynamics and
    the acceleration for inverse dynamics; `file`: the URDF file that the model comes from, if any.
    """

    model: Model
    q: jax.Array
    v: jax.Array
    x: jax.Array
    file: Path | None = None

    @property
    def batched(self) -> bool:
        return self.q.ndim == 2

    @property
    def floating_base(self) -> bool:
        return any(isinstance(joint, Free) for joint in self.model.joints)

    def urdf(self) -> Path:
        """A URDF file of the model."""
        if self.file is not None:
            return self.file
        path = Path(tempfile.mkdtemp(prefix="jaxcfa-bench-")) / "model.urdf"
        path.write_text(to_urdf(self.model))
        return path

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The states as float64 rows (b, ...), for packages that compute one by one."""
        q, v, x = (np.atleast_2d(np.asarray(a, dtype=np.float64)) for a in (self.q, self.v, self.x))
        return q, v, x


def with_states(model: Model, dtype: np.dtype, batch: int | None = None, file: Path | None = None) -> Problem:
    """The model with random states; velocities are such that the last link of a long chain does not spin fast."""
    model = model.astype(dtype)
    keys = jax.random.split(jax.random.key(0), 3)
    shape = (model.nv,) if batch is None else (batch, model.nv)
    v, x = (jax.random.normal(key, shape, dtype) for key in keys[1:])
    if batch is None:
        q = jaxcfa.random_configuration(model, keys[0])
    else:
        q = jax.vmap(lambda key: jaxcfa.random_configuration(model, key))(jax.random.split(keys[0], batch))
    return Problem(model, q.astype(dtype), v / np.sqrt(max(1, model.nv)).astype(dtype), x, file)


def revolute_chain(n: int) -> Model:
    """Rods of 1 kg and 0.1 m in a row, with axes across and upright in turn."""
    return jaxcfa.chain(n, axes=np.resize(_AXES, (n, 3)))

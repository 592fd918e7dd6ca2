"""Mechanisms with states: what contestants are given."""

import dataclasses
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxcfa
from jaxcfa import Model
from jaxcfa.closed_chains import Connect, connect
from jaxcfa.joints import Free
from jaxcfa.spatial import Transform

from .case import COMPARED
from .urdf import to_urdf, without_shapes

# Snakes bend up and down and left and right in turn; these are also the joints that Pinocchio is fastest with.
_AXES = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
DISTINCT = COMPARED  # states of a batch, which repeats them


@dataclasses.dataclass(frozen=True)
class Problem:
    """A model with one state or a batch of states.

    **Fields:** `q` (nq,) or (b, nq); `v` and `x` (nv,) or (b, nv), where `x` is the torque for forward dynamics and
    the acceleration for inverse dynamics; `file`: the URDF file that the model comes from, if any; `ends`: names of
    bodies at the ends of arms or legs, which constrained motions hold in place.
    """

    model: Model
    q: jax.Array
    v: jax.Array
    x: jax.Array
    file: Path | None = None
    ends: tuple[str, ...] = ()

    @property
    def batched(self) -> bool:
        return self.q.ndim == 2

    @property
    def floating_base(self) -> bool:
        return any(isinstance(joint, Free) for joint in self.model.joints)

    @contextmanager
    def urdf(self) -> Iterator[Path]:
        """A URDF file of the model, without shapes, for as long as it is read."""
        text = to_urdf(self.model) if self.file is None else without_shapes(self.file)
        with tempfile.TemporaryDirectory(prefix="jaxcfa-bench-") as folder:
            path = Path(folder) / "model.urdf"
            path.write_text(text)
            yield path

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The states as float64 rows (b, ...), for packages that compute one by one."""
        q, v, x = (np.atleast_2d(np.asarray(a, dtype=np.float64)) for a in (self.q, self.v, self.x))
        return q, v, x

    def held(self) -> "Problem":
        """All states at rest in the first configuration: such that the ends can be held in place there."""
        return dataclasses.replace(
            self, q=jnp.broadcast_to(self.q.reshape(-1, self.q.shape[-1])[0], self.q.shape), v=jnp.zeros_like(self.v)
        )

    def constraints(self) -> list[Connect]:
        """The origins of the ends stay where they are in the first configuration."""
        poses = jaxcfa.forward_kinematics(self.model, self.q.reshape(-1, self.q.shape[-1])[0])
        places = [Transform(poses.rotation[i], poses.translation[i]) for i in map(self.model.body_index, self.ends)]
        return [connect(self.model, end, (-1, place)) for end, place in zip(self.ends, places, strict=True)]


def with_states(
    model: Model, dtype: str, batch: int | None = None, file: Path | None = None, ends: tuple[str, ...] = ()
) -> Problem:
    """The model with random states, of which a batch has `DISTINCT` different ones.

    Velocities are such that the last link of a long chain does not spin fast.
    """
    model = model.astype(dtype)
    number = 1 if batch is None else min(batch, DISTINCT)
    rng = np.random.default_rng(0)
    v, x = rng.standard_normal((2, DISTINCT, model.nv))[:, :number]
    keys = jax.random.split(jax.random.key(0), DISTINCT)[:number]
    q = np.asarray(jax.jit(jax.vmap(lambda key: jaxcfa.random_configuration(model, key)))(keys))
    rows = np.arange(number if batch is None else batch) % number
    states = (jnp.asarray(a[rows if batch is not None else 0], dtype) for a in (q, v / np.sqrt(max(1, model.nv)), x))
    return Problem(model, *states, file, ends or model.body_names[-1:])


def revolute_chain(n: int) -> Model:
    """Rods of 1 kg and 0.1 m in a row, with axes across and upright in turn."""
    return jaxcfa.chain(n, axes=np.resize(_AXES, (n, 3)))

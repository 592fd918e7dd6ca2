"""Initial configurations of commands."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.markup import escape

from ..configuration import random_configuration
from ..io._source import is_archive
from ..model import Model
from ..model._attachments import INITIAL
from ..model._ranges import ends_of_ranges, middle
from ..viz._poses import initial


def check_moves(file: Path, model: Model, consequence: str) -> None:
    """Raises `ValueError` for a robot without a moving body, with that consequence."""
    if model.nb:
        return
    kept = "A saved model keeps its base: save one that was loaded with floating_base=True."
    raise ValueError(
        f"The robot has no moving body{consequence}. {kept if is_archive(file) else 'Try --floating-base.'}"
    )


def chosen(model: Model, keyframe: str | None, seed: int | None) -> tuple[jax.Array, str] | None:
    """The configuration that options ask for, and what it is; `None` if they do not.

    **Raises:** `ValueError` for two of them, and a keyframe that the file has not.
    """
    if keyframe is not None and seed is not None:
        raise ValueError("--start and --seed are two ways to say where to begin; give one of them.")
    if seed is not None:
        return random_configuration(model, jax.random.key(seed)), f"a random configuration (seed {seed})"
    return None if keyframe is None else (model.keyframe(keyframe), f"the keyframe {keyframe!r}")


def rest_of(model: Model, keyframe: str | None, seed: int | None) -> jax.Array:
    """Where to begin what is only looked at: as options say, or else as the robot stands in its file."""
    found = chosen(model, keyframe, seed)
    return jnp.asarray(initial(model)) if found is None else found[0]


def start_of(console: Console, model: Model, keyframe: str | None, seed: int | None) -> jax.Array:
    """Where to begin a motion within the joints' ranges: as options say, at the first keyframe of the file, as the
    robot stands there if its ranges allow that, or else in the middle of them."""
    (lower, upper), own = ends_of_ranges(model), [name for name in model.keyframes.names if name != INITIAL]
    found = chosen(model, own[0] if own and keyframe is None and seed is None else keyframe, seed)
    if found is None:
        q = jnp.asarray(initial(model))
        stands = INITIAL in model.keyframes.names and bool(jnp.all((lower <= q) & (q <= upper)))
        found = (q, "as in the file") if stands else (middle(model), "the middle of the joints' ranges")
    q, name = found
    within = jnp.clip(q, lower, upper)
    clipped = "" if np.array_equal(within, q) else ", moved into the joints' ranges"
    console.print(f"Start: {escape(name)}{clipped}", highlight=False)
    return within

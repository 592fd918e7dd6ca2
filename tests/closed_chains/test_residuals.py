"""Residuals of relative poses and points, against the same ones differentiated as functions of two poses."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from helpers import assert_close
from jaxcfa.closed_chains import AbstractFrameConstraint, Connect, Distance, LoopJoint, Weld
from jaxcfa.closed_chains._residuals import MovingBody, residual_in_motion, residual_slopes
from jaxcfa.spatial import Transform, rotation_exp


class AsItStands(AbstractFrameConstraint):
    """The residual of another constraint, of which nothing else is known."""

    body1: int = eqx.field(static=True)
    body2: int = eqx.field(static=True)
    inner: AbstractFrameConstraint
    name: str = eqx.field(static=True, default="")

    def residual(self, body1, body2):
        return self.inner.residual(body1, body2)


def pose(numbers):
    return Transform(rotation_exp(jnp.asarray(numbers[:3])), jnp.asarray(numbers[3:]))


def constraints(rng):
    frames = [pose(0.6 * x) for x in rng.normal(size=(2, 6))]
    points = [jnp.asarray(x) for x in rng.normal(size=(2, 3))]
    turns, slides = (False, False, True), (True, False, False)
    return (
        Weld(0, 1, *frames),
        LoopJoint(0, 1, *frames, (*turns, *slides)),
        LoopJoint(0, 1, *frames, (*turns, False, False, False), jnp.asarray(0.2)),
        LoopJoint(0, 1, *frames, (True, True, False, False, False, False)),
        LoopJoint(0, 1, *frames, (True, True, True, *slides)),
        Connect(0, 1, *points),
        Distance(0, 1, *points, jnp.asarray(0.7)),
    )


def test_closed_forms():
    rng = np.random.default_rng(3)
    kinds = constraints(rng)
    numbers = rng.normal(size=(2, 18))

    @jax.jit
    def run(constraints, numbers):
        bodies = [MovingBody(pose(x[:6]), x[6:12], x[12:]) for x in numbers]
        return [(residual_in_motion(c, *bodies), residual_slopes(c, *(x.pose for x in bodies))) for c in constraints]

    found = run(kinds, numbers)
    expected = run(tuple(AsItStands(0, 1, c) for c in kinds), numbers)
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs, 1e-11)


def test_screws_at_right_angles_have_finite_slopes():
    """There is no angle about the axis then."""
    still = Transform(jnp.eye(3), jnp.zeros(3))
    screw = LoopJoint(0, 1, still, still, (False, False, True, False, False, False), jnp.asarray(0.2))
    tilted = jnp.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
    assert np.all(np.isfinite(jax.jacrev(screw.relation)(tilted, jnp.zeros(3))))

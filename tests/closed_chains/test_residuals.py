"""Residuals of relative poses and points, against the same ones differentiated as functions of two poses."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from helpers import assert_close, cast
from jaxcfa import ModelBuilder, body_motions
from jaxcfa.closed_chains import AbstractFrameConstraint, Connect, Distance, LoopJoint, Weld, connect, loop_joint
from jaxcfa.closed_chains._relations import Bodies, jacobian_of_constraints, motion_of_constraints, row_starts
from jaxcfa.closed_chains._residuals import MovingBody, residual_in_motion, residual_slopes
from jaxcfa.joints import Revolute
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


def test_far_from_the_origin():
    """Within a tree, between trees, and to the world; in single precision, against the same numbers in double."""
    builder = ModelBuilder()
    bars = [builder.add_body("bar0", None, Revolute((0, 1, 0)), (1e4, -5e3, 0.3), mass=1.0, inertia=0.1)]
    for i in (1, 2):
        bars.append(builder.add_body(f"bar{i}", bars[-1], Revolute((0, 1, 0.2)), (0.7, 0, 0), mass=1.0, inertia=0.1))
    other = builder.add_body("other", None, Revolute((0, 0, 1)), (1e4 + 0.5, -5e3, 0.0), mass=1.0, inertia=0.1)
    builder.add_frame("end", bars[-1], (0.3, 0.1, 0.0))
    builder.add_frame("tip", other, (0.2, 0.3, 0.0))
    builder.add_frame("ground", None, (1e4 + 1.0, -5e3, 0.25))
    model = builder.build(dtype="float32")
    constraints = (
        loop_joint(model, "bar0", "end", Revolute((0, 1, 0))),
        loop_joint(model, "ground", "end", Revolute((0, 1, 0))),
        connect(model, "tip", "end"),
        connect(model, "end", "ground"),
    )
    q, v = np.random.default_rng(0).normal(size=(2, model.nv)).astype("float32")

    @jax.jit
    def found(model, constraints, q, v):
        bodies = Bodies.of(body_motions(model, q, v))
        motion = motion_of_constraints(model, constraints, bodies, q, v, jnp.zeros_like(v))
        return motion, jacobian_of_constraints(model, constraints, bodies, q)[1:3]

    given = model, constraints, q, v
    assert_close(found(*given), found(*cast(given, "float64")), 3e-6)


def test_rows_of_a_kind_are_counted_once():
    """However many constraints differ in numbers, bodies and names only."""
    calls = []

    class Height(AbstractFrameConstraint):
        body1: int = eqx.field(static=True)
        body2: int = eqx.field(static=True)
        height: jax.Array
        name: str = eqx.field(static=True, default="")

        def residual(self, body1, body2):
            calls.append(self.body1)
            return (body2.translation - body1.translation)[1:] - self.height

    kinds = [Height(i, -1, jnp.asarray(0.1 * i), str(i)) for i in range(3)]
    assert list(row_starts(kinds)) == [0, 2, 4, 6]
    assert len(calls) == 1
    assert list(row_starts([Height(0, 1, jnp.ones(2)), *kinds])) == [0, 2, 4, 6, 8]
    assert len(calls) == 2

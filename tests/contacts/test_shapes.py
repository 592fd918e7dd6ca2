"""Distances from shapes: zero on their surfaces, growing at the rate one along normals, and negative inside."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import assert_close
from jaxcfa.contacts import Box, Capsule, Cylinder, FlatGround, Sphere

CENTER = np.array([0.3, -0.2, 0.1])
START, END = np.array([0.1, 0.0, -0.3]), np.array([0.4, 0.2, 0.3])


def in_capsule(x):
    t = np.clip((x - START) @ (END - START) / np.sum((END - START) ** 2), 0, 1)
    return np.linalg.norm(x - START - t[:, None] * (END - START), axis=1) < 0.3


SHAPES = {
    "sphere": (Sphere(0.4, CENTER), lambda x: np.linalg.norm(x - CENTER, axis=1) < 0.4),
    "capsule": (Capsule(START, END, 0.3), in_capsule),
    "cylinder": (
        Cylinder(0.3, 0.2, CENTER),
        lambda x: (np.linalg.norm((x - CENTER)[:, :2], axis=1) < 0.3) & (np.abs(x - CENTER)[:, 2] < 0.2),
    ),
    "box": (Box([0.3, 0.2, 0.4], CENTER), lambda x: np.all(np.abs(x - CENTER) < [0.3, 0.2, 0.4], axis=1)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_distances_are_those_from_the_nearest_point(name):
    shape, inside = SHAPES[name]
    points = np.random.default_rng(0).uniform(-0.8, 0.8, (500, 3))
    distance, normal = map(np.asarray, jax.jit(jax.vmap(shape.clearance))(points))
    np.testing.assert_allclose(np.linalg.norm(normal, axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(distance < 0, inside(points))
    assert 10 < np.sum(distance < 0) < 490
    # The distance is the smallest to any point of the surface: that of its nearest point, and no less elsewhere.
    nearest = points - distance[:, None] * normal
    np.testing.assert_allclose(jax.vmap(shape.distance)(nearest), 0, atol=1e-12)
    to_all = np.linalg.norm(points[:, None] - nearest, axis=2)
    assert np.all(to_all > np.abs(distance)[:, None] - 1e-12)


def test_a_capsule_of_no_length_is_a_sphere():
    points = jax.random.normal(jax.random.key(0), (20, 3))
    ball, capsule = Sphere(0.3, CENTER), Capsule(CENTER, CENTER, 0.3)
    for x, y in zip(*(jax.vmap(shape.clearance)(points) for shape in (ball, capsule)), strict=True):
        assert_close(x, y)


@pytest.mark.parametrize("name", SHAPES)
def test_singular_points_have_finite_derivatives(name):
    """Centres, edges, corners and faces, to the second order."""
    shape, _ = SHAPES[name]
    offsets = jnp.array(
        [[0, 0, 0], [0.3, 0.2, 0.4], [0.3, 0, 0], [0, 0, 0.4], [0.3, 0.2, 0], [0, 0, 0.2], [0.1, 0.1, 0.1]]
    )
    points = jnp.concatenate([CENTER + offsets, CENTER - offsets, jnp.stack([START, END, (START + END) / 2])])
    found = jax.jit(jax.vmap(lambda x: (shape.clearance(x), jax.jacfwd(shape.clearance)(x))))(points)
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(found))
    assert_close(Box([0.3, 0.2, 0.4]).clearance(jnp.zeros(3))[0], -0.2)
    assert_close(jnp.linalg.norm(Box([0.3, 0.3, 0.3]).clearance(jnp.zeros(3))[1]), 1.0)


def test_numbers_are_in_the_type_of_the_point():
    for shape, _ in SHAPES.values():
        single = jax.tree.map(lambda x: x.astype("float32"), shape)
        assert {x.dtype for x in single.clearance(jnp.ones(3, "float32"))} == {jnp.dtype("float32")}
    assert {x.dtype for x in FlatGround().clearance(jnp.ones(3, "float32"))} == {jnp.dtype("float32")}
    # The square of this number is zero.
    near = jnp.array([1e-30, 0.0, 0.0], "float32")
    assert_close(jax.tree.map(lambda x: x.astype("float32"), Cylinder(0.3, 0.2)).distance(near), jnp.float32(-0.2))


def test_what_cannot_be_is_refused():
    for message, make in {
        "radius of the sphere must be finite and not negative": lambda: Sphere(-1.0),
        "radius of the capsule must be one number": lambda: Capsule(START, END, [0.1, 0.2]),
        r"end of the capsule must have shape \(3,\)": lambda: Capsule(START, 0.0, 0.1),
        "half_length of the cylinder must be finite": lambda: Cylinder(0.1, np.inf),
        "half_lengths of the box must be finite and not negative": lambda: Box([0.1, -0.1, 0.1]),
        r"half_lengths of the box must have shape \(3,\)": lambda: Box(0.1),
        "center of the box must be finite": lambda: Box([0.1] * 3, [0.0, 0.0, np.nan]),
        "must be a number or an array of numbers": lambda: Sphere("0.1"),
    }.items():
        with pytest.raises(ValueError, match=message):
            make()

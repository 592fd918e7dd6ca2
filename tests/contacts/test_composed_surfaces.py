"""Surfaces that are made of others, of points or of heights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.spatial
from scipy.interpolate import RegularGridInterpolator

import jaxcfa
from helpers import assert_close
from jaxcfa.contacts import (
    Box,
    ConvexHull,
    Cylinder,
    Ellipsoid,
    FlatGround,
    HeightField,
    Placed,
    Rough,
    Sphere,
    Union,
    ground_contacts,
)

POSE = jaxcfa.Transform.from_rpy(0.3, -0.5, 1.1, [0.2, 0.1, -0.3])
BOX, BALL = Box([0.3, 0.2, 0.4]), Sphere(0.3, [0.5, 0.0, 0.0])
HEIGHTS = np.random.default_rng(0).uniform(-0.2, 0.2, (4, 6))
LOWER, UPPER = np.array([-1.0, -0.5]), np.array([0.8, 0.7])


def points(count: int = 300, scale: float = 1.0) -> np.ndarray:
    return np.random.default_rng(1).uniform(-scale, scale, (count, 3))


def clearances(surface, x):
    return jax.vmap(surface.clearance)(jnp.asarray(x))


def test_placed():
    """As if it stayed, and points were moved; placements as of frames, which may be traced."""
    distance, normal = clearances(BOX, points())
    moved = jax.vmap(POSE.apply)(points())
    for placement in (POSE, POSE.as_matrix()):
        found = clearances(Placed(BOX, placement), moved)
        assert_close(found[0], distance)
        assert_close(found[1], normal @ POSE.rotation.T)
    shifted = jax.jit(lambda x: Placed(BOX, x).clearance(jnp.ones(3)))(jnp.array([0.0, 0.0, 0.2]))
    assert_close(shifted[0], BOX.distance(jnp.array([1.0, 1.0, 0.8])))


def test_union():
    """What is nearest counts, alone."""
    both = Union([BOX, Placed(BALL, POSE), Ellipsoid([0.1, 0.2, 0.3], [0.0, -0.6, 0.0])])
    distance, normal = clearances(both, points())
    parts = [clearances(x, points()) for x in both.surfaces]
    nearest = np.argmin([x[0] for x in parts], axis=0)
    assert set(nearest) == {0, 1, 2}
    each = np.arange(300)
    assert_close(distance, np.stack([x[0] for x in parts])[nearest, each])
    assert_close(normal, np.stack([x[1] for x in parts])[nearest, each])
    assert_close(jax.vmap(both.distance)(points()), distance)
    # Of several that are nearest the first, also where some are alike, of which one program serves all.
    stairs = [Placed(Rough(Box([0.1, 1.0, 0.1 * k]), 0.1 * k), [0.2 * k, 0, 0]) for k in range(1, 5)]
    mixed = Union([stairs[0], Sphere(0.3), *stairs[1:], Rough(Sphere(0.3), 0.7), Sphere(0.2, [0, 0, 1.0])])
    x = jnp.asarray(points(40))
    found, each = (jax.vmap(mixed.touch)(x), [jax.vmap(part.touch)(x) for part in mixed.surfaces])
    nearest = np.argmin([part.distance for part in each], axis=0)
    assert 1 in nearest
    assert 5 not in nearest  # which is as near as that
    for i, k in enumerate(nearest):
        assert_close(found.distance[i], each[k].distance[i])
        assert_close(found.normal[i], each[k].normal[i])
        assert_close(found.friction[i], 0 if each[k].friction is None else each[k].friction[i])
    assert str(jax.make_jaxpr(mixed.touch)(x[0])).count("argmax") < 5  # of which each box has one
    twice = Union([BOX, BOX, FlatGround()])
    assert_close(twice.clearance(jnp.array([0.0, 0.0, 5.0]))[1], [0.0, 0.0, 1.0])
    assert_close(jnp.linalg.norm(twice.clearance(jnp.array([0.1, 0.0, -0.1]))[1]), 1.0)


def test_friction_of_surfaces(dtype):
    """That of what is nearest, wherever it is put, if it is larger than that of the contacts; with derivatives."""
    text = '<mujoco><worldbody><body name="ball"><freejoint/><geom size="0.1"/></body></worldbody></mujoco>'
    model = jaxcfa.load_model(text, dtype=dtype)
    ice, floor = Placed(Rough(FlatGround(), 0.1), [0.0, 0.0, -0.001]), Box([0.5, 1.0, 1.0], [0.5, 0.0, -1.0])
    v = jnp.zeros(6, dtype).at[1].set(-1.0)

    def start(x):
        return jnp.array([x, 0, -0.01, 1, 0, 0, 0], dtype)

    def share(x, mu, own):
        ground = Union([ice, Rough(Rough(floor, mu), 0.2), Placed(BALL, [0, 0, -9])])
        contacts = ground_contacts(model, "ball", ground=ground, friction=own)
        state = jaxcfa.contact_state(model, contacts, start(x), v)
        return state.force[0, 1] / state.force[0, 2]

    cases = [(0.3, 0.7, 0.0), (0.3, 0.1, 0.0), (-0.3, 0.7, 0.0), (-0.3, 0.7, 0.4), (0.3, 0.7, 0.4), (0.3, 0.7, 0.9)]
    found = jnp.array([share(*x) for x in cases])
    assert found.dtype == dtype
    np.testing.assert_allclose(found, [0.7, 0.2, 0.1, 0.4, 0.7, 0.9], rtol=1e-6)
    np.testing.assert_allclose([jax.grad(share, 1)(x, 0.7, 0.0) for x in (0.3, -0.3)], [1.0, 0.0], rtol=1e-6)
    assert Union([BOX, Placed(BALL, POSE)]).touch(jnp.ones(3)).friction is None
    either = [
        ground_contacts(model, "ball", ground=ground, friction=friction)
        for ground, friction in ((Rough(floor, 0.7), 0.0), (floor, 0.7))
    ]
    assert_close(*(jaxcfa.step(model, start(0.3), v, jnp.zeros(6), 0.01, contacts=x).v for x in either), 1e-6)


def test_hull_of_a_box():
    """As the box, beside faces, edges and corners, but where two faces are equally near."""
    corners = POSE.apply(jnp.array([[x, y, z] for x in (-0.3, 0.3) for y in (-0.2, 0.2) for z in (-0.4, 0.4)]))
    hull = ConvexHull(np.concatenate([corners, np.array(corners).mean(axis=0, keepdims=True)]))
    assert hull.normals.shape == (6, 3)
    assert hull.edges.shape == (12, 2, 3)
    x = points()
    moved = jax.vmap(POSE.apply)(x)
    distance, normal = clearances(BOX, x)
    assert_close(clearances(hull, moved), (distance, normal @ POSE.rotation.T))
    curvatures = [jax.vmap(jax.hessian(surface.distance))(y) for surface, y in ((BOX, x), (hull, moved))]
    of_points = ConvexHull(corners, exact=False)
    assert of_points.edges is None
    near, nearest_plane = clearances(of_points, moved)[0], clearances(hull, moved)[0]
    assert np.all(near <= nearest_plane + 1e-12)
    np.testing.assert_array_equal(near < 0, distance < 0)
    turned = POSE.rotation @ curvatures[0] @ POSE.rotation.T
    assert_close(curvatures[1], turned, rtol=1e-7)


def test_hull_of_a_cloud():
    cloud = np.random.default_rng(2).normal(size=(60, 3)) * [0.5, 0.3, 0.2]
    distance, normal = clearances(ConvexHull(cloud), points())
    np.testing.assert_array_equal(distance < 0, scipy.spatial.Delaunay(cloud).find_simplex(points()) >= 0)
    # The nearest point is on the hull, and the hull is below the plane across the way there.
    nearest = points() - distance[:, None] * normal
    assert_close(clearances(ConvexHull(cloud), nearest)[0], np.zeros(300))
    above = np.einsum("ij,kj->ik", normal, cloud) - np.sum(normal * nearest, axis=1)[:, None]
    assert np.all(above[distance > 0] < 1e-12)
    assert_close(np.linalg.norm(normal, axis=1), np.ones(300))
    assert np.max(clearances(ConvexHull(cloud), cloud)[0]) < 1e-12


@pytest.mark.parametrize("radii", [(0.2, 0.3, 0.5), (0.3, 0.3, 0.02), (0.4, 0.05, 0.05), (0.3, 0.3, 0.3)])
def test_ellipsoid(radii):
    """The nearest point is on it, with the normal of the gradient there; exact at any distance, in both precisions."""
    radii, center = np.array(radii), np.array([0.1, 0.0, -0.1])
    shape, x = Ellipsoid(radii, center), np.concatenate([points(), 10 * points(), 0.1 * points() + center])
    distance, normal = clearances(shape, x)
    np.testing.assert_array_equal(distance < 0, np.sum(((x - center) / radii) ** 2, axis=1) < 1)
    nearest = (x - distance[:, None] * normal - center) / radii
    assert_close(np.sum(nearest**2, axis=1), np.ones(900), rtol=1e-9)
    outward = nearest / radii
    assert_close(normal, outward / np.linalg.norm(outward, axis=1, keepdims=True), rtol=1e-9)
    # Of all points of the surface whose normal leads to it, the nearest one.
    directions = np.random.default_rng(2).normal(size=(2000, 3))
    surface = center + radii * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    others = np.min(np.linalg.norm(x[:, None] - surface, axis=-1), axis=1)
    assert np.all(np.abs(distance) <= others + 1e-9)
    single = clearances(jax.tree.map(jnp.float32, shape), x.astype(np.float32))
    assert_close(single, (distance, normal), rtol=3e-4)
    ball, same = Sphere(0.3, center), Ellipsoid([0.3] * 3, center)
    for a, b in zip(clearances(ball, points()), clearances(same, points()), strict=True):
        assert_close(a, b)


def test_ellipsoid_in_its_planes_and_its_derivatives():
    """In the middle one of two nearest points counts; curvatures are those by differences of normals."""
    shape = Ellipsoid([0.2, 0.3, 0.5])
    x = jnp.array(
        [[0.0, 0.0, 0.0], [0.0, 0.1, 0.0], [0.0, 0.0, 0.49], [0.0, 0.0, 0.6], [0.0, 0.31, 0.0], [0.0, 0.0, 0.2]]
    )
    distance, normal = clearances(shape, x)
    nearest = x - distance[:, None] * normal
    assert_close(jnp.sum((nearest / shape.radii) ** 2, axis=1), jnp.ones(6), rtol=1e-7)
    assert_close(distance[jnp.array([0, 2, 3, 4])], jnp.array([-0.2, -0.01, 0.1, 0.01]), rtol=1e-7)
    inside, h = jnp.array([0.1, -0.12, 0.2]), 1e-5
    for y in (inside, 3 * inside):
        _, normals = clearances(shape, y + h * jnp.concatenate([jnp.eye(3), -jnp.eye(3)]))
        curvature = (normals[:3] - normals[3:]) / (2 * h)
        assert_close(jax.grad(shape.distance)(y), shape.clearance(y)[1], rtol=1e-9)
        assert_close(jax.hessian(shape.distance)(y), curvature, rtol=1e-6)


def test_heights_are_bilinear():
    ground = HeightField(HEIGHTS, LOWER, UPPER)
    axes = np.linspace(LOWER[1], UPPER[1], 4), np.linspace(LOWER[0], UPPER[0], 6)
    expected = RegularGridInterpolator(axes, HEIGHTS)
    x = points(scale=2.0)
    inside = np.clip(x[:, :2], LOWER, UPPER)  # it goes on level beyond
    assert np.any(np.all(inside == x[:, :2], axis=1))
    assert_close(jax.vmap(ground.distance)(x), x[:, 2] - expected(inside[:, ::-1]))
    grid = np.stack(np.meshgrid(axes[1], axes[0]), axis=-1).reshape(-1, 2)
    corners = np.column_stack([grid, HEIGHTS.ravel()])
    assert_close(jax.vmap(ground.distance)(corners), np.zeros(24))
    assert np.all(np.isfinite(clearances(ground, corners)[1]))


def test_derivatives_by_arrays():
    """Of distances, by the heights and the placement, in both modes, against differences."""

    def distance(heights, offset):
        ground = Placed(HeightField(heights, LOWER, UPPER), offset)
        return jnp.sum(jax.vmap(ground.clearance)(points(20))[0] ** 2)

    arguments = jnp.asarray(HEIGHTS), jnp.array([0.01, -0.02, 0.03])
    along = jax.tree.map(lambda x: jnp.cos(jnp.arange(x.size)).reshape(x.shape), arguments)
    value, slope = jax.jvp(distance, arguments, along)
    step = 1e-6
    ends = [distance(*jax.tree.map(lambda x, d, s=s: x + s * step * d, arguments, along)) for s in (-1, 1)]
    assert_close(slope, (ends[1] - ends[0]) / (2 * step), 1e-7)
    gradient = jax.grad(distance, (0, 1))(*arguments)
    assert_close(sum(jnp.vdot(x, y) for x, y in zip(gradient, along, strict=True)), slope)
    assert np.isfinite(value)


def test_a_bounded_field_ends():
    """Beside it there is nothing, above and on it the same as without."""
    block, plain = HeightField(HEIGHTS, LOWER, UPPER, bounded=True), HeightField(HEIGHTS, LOWER, UPPER)
    x = points(scale=2.0)
    outside = np.any((x[:, :2] < LOWER) | (x[:, :2] > UPPER), axis=1)
    found = jax.vmap(block.distance)(x)
    assert np.all(found[outside] > 0)
    high = ~outside & (x[:, 2] > 0.2)
    assert_close(found[high], jax.vmap(plain.distance)(x)[high])
    assert_close(block.clearance(jnp.array([1.0, 0.0, -0.5]))[0], 0.2)
    assert_close(block.clearance(jnp.array([1.0, 0.0, -0.5]))[1], [1.0, 0.0, 0.0])


SURFACES = {
    "placed": Placed(BOX, POSE),
    "union": Union([BOX, BALL, BOX]),
    "heights": HeightField(HEIGHTS, LOWER, UPPER),
    "block": HeightField(HEIGHTS, LOWER, UPPER, bounded=True),
    "hull": ConvexHull(points(9)),
    "ellipsoid": Ellipsoid([0.1, 0.2, 0.3]),
    "rough": Rough(BOX, 0.5),
}


@pytest.mark.parametrize("name", SURFACES)
def test_singular_points_have_finite_derivatives(name):
    """Centres, corners, edges, ties, and borders of grids, to the second order; normals have length one, or zero."""
    rows = [POSE.translation, points(9)[0], points(9)[:2].mean(axis=0), [0.0, 0.0, 0.0], [0.3, 0.2, 0.4], [0.3, 0, 0]]
    corners = [[x, y, 0.0] for x in np.linspace(LOWER[0], UPPER[0], 6) for y in (*LOWER[1:], *UPPER[1:])]
    x = jnp.array([*rows, *corners, [*LOWER, HEIGHTS[0, 0]]])
    surface = SURFACES[name]
    found = jax.jit(jax.vmap(lambda x: (surface.clearance(x), jax.jacfwd(surface.clearance)(x))))(x)
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(found))
    lengths = np.linalg.norm(found[0][1], axis=1)
    assert np.all((np.abs(lengths - 1) < 1e-12) | ((lengths == 0) & (name == "ellipsoid")))
    assert_close(SURFACES["ellipsoid"].clearance(jnp.zeros(3))[0], -0.1, rtol=1e-7)


def test_single_precision():
    for surface in SURFACES.values():
        single = jax.tree.map(lambda x: x.astype("float32"), surface)
        for found, exact in zip(single.clearance(jnp.ones(3, "float32")), surface.clearance(jnp.ones(3)), strict=True):
            assert found.dtype == jnp.dtype("float32")
            np.testing.assert_allclose(found, exact, atol=1e-6)


def test_a_ball_stays_in_a_valley():
    """Of heights, and of two slopes: without friction it goes to and fro, and never gains energy."""
    text = '<mujoco><worldbody><body name="ball"><freejoint/><geom size="0.05"/></body></worldbody></mujoco>'
    ball = jaxcfa.load_model(text)
    x = np.linspace(-1, 1, 21)
    valley = HeightField(0.5 * x[None, :] ** 2 + 0.5 * (x[:, None] - 0.2) ** 2, [-1, -1], [1, 1])
    slopes = Union([FlatGround([-1, 0, 1]), FlatGround([1, 0, 1]), Placed(Cylinder(0.02, 1.0), POSE)])
    start = jnp.array([0.3, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0])
    for ground in (valley, slopes):
        touching = ground_contacts(ball, "ball", radius=0.05, ground=ground, friction=0.0, stiffness=1e4)
        motion = jaxcfa.rollout(ball, start, jnp.zeros(6), jnp.zeros((300, 6)), dt=0.01, contacts=touching)
        gaps = jax.vmap(lambda q, v, c=touching: jaxcfa.contact_state(ball, c, q, v).gap)(motion.q, motion.v)
        assert np.min(gaps) > -0.03  # where it runs from one slope into the other
        energy = jnp.sum(motion.v**2, axis=1) / 2 + 9.81 * motion.q[:, 2]  # slides, and does not turn
        assert np.max(energy) < energy[0] + 1e-2
        assert np.max(np.abs(motion.q[:, 0])) < 0.6


def test_errors():
    for message, make in {
        r"The surface must be one of jaxcfa.contacts": lambda: Placed(lambda p: p[2], [0, 0, 1]),
        r"placement of the surface must be": lambda: Placed(BOX, [0, 1]),
        r"The surface must be one of jaxcfa.contacts, such": lambda: Rough("ice", 0.1),
        r"friction of the surface must be finite and not negative": lambda: Rough(BOX, -0.1),
        r"friction of the surface must be one number, got shape \(2,\)": lambda: Rough(BOX, [0.1, 0.2]),
        r"surfaces of the union must be one or more": lambda: Union([]),
        r"surfaces of the union must be a list": lambda: Union(BOX),
        r"Each surface of the union must be": lambda: Union([BOX, "box"]),
        r"two rows and columns or more, got shape \(1, 3\)": lambda: HeightField(np.zeros((1, 3)), [0, 0], [1, 1]),
        r"lower must be less than upper": lambda: HeightField(HEIGHTS, [0, 0], [1, 0]),
        r"lower corner must have shape \(2,\)": lambda: HeightField(HEIGHTS, 0.0, [1, 0]),
        r"heights must be finite": lambda: HeightField(HEIGHTS * np.nan, [0, 0], [1, 1]),
        r"points of the hull must have shape \(n, 3\), n at least 4, got \(5, 2\)": lambda: ConvexHull(
            np.zeros((5, 2))
        ),
        r"n at least 4, got \(0, 3\)": lambda: ConvexHull(np.zeros((0, 3))),
        r"points of the hull must be finite": lambda: ConvexHull(np.full((4, 3), np.inf)),
        r"The 4 points of the hull are all in one plane": lambda: ConvexHull(np.eye(4)[:, :3] * [1, 1, 0]),
        r"radii of the ellipsoid must be positive": lambda: Ellipsoid([0.1, 0.0, 0.1]),
    }.items():
        with pytest.raises(ValueError, match=message):
            make()

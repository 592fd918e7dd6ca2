"""Points at which robots meet the ground, from the shapes that collide in their files."""

import re
import warnings
from itertools import product

import numpy as np
import pytest

import jaxcfa
from jaxcfa.io import ModelWarning
from jaxcfa.viz import Box, Ellipsoid, Plane, Sphere, collision_points, load_visuals
from jaxcfa.viz._collision_points import _outermost
from jaxcfa.viz._poses import body_poses
from robots import urdf_path, urdf_paths

TETRAHEDRON = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
OBJ = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4"
SIGNS = np.array(list(product((-1, 1), repeat=3)))
TURNED = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]])  # by a quarter about z


def urdf(*geometries: str, link: str = "palm") -> str:
    """A base, an arm, and a palm fixed to it: one of the links collides, and shows something else."""
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    collisions = "".join(
        f'<collision><origin xyz="0 0 0.2" rpy="0 0 1.5707963267948966"/><geometry>{x}</geometry></collision>'
        for x in geometries
    )
    seen = '<visual><geometry><sphere radius="9"/></geometry></visual>'
    links = "".join(
        f'<link name="{name}">{inertial}{seen + collisions if name == link else ""}</link>'
        for name in ("base", "arm", "palm")
    )
    return f"""<robot name="r">{links}
      <joint name="j" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/></joint>
      <joint name="f" type="fixed"><parent link="arm"/><child link="palm"/><origin xyz="0.5 0 0"/></joint></robot>"""


def rows(points) -> list[tuple[float, ...]]:
    """In an order of their own."""
    return sorted(map(tuple, np.round(np.asarray(points, dtype=float), 8) + 0.0))


RIM_AND_CENTER = np.array([[1, 0], [0, 1], [-1, 0], [0, -1], [0, 0]])


@pytest.mark.parametrize(
    ("element", "centres", "radius"),
    [
        ('<sphere radius="0.1"/>', [[0, 0, 0]], 0.1),
        ('<capsule radius="0.1" length="0.5"/>', [[0, 0, -0.25], [0, 0, 0.25]], 0.1),
        ('<box size="1 2 3"/>', SIGNS * [0.5, 1, 1.5], 0.0),
        (
            '<cylinder radius="0.1" length="0.5"/>',
            [(*(0.095 * x), z) for x in RIM_AND_CENTER for z in (-0.25, 0.25)],
            0.0,
        ),
        ('<mesh filename="mesh.obj" scale="2 1 -3"/>', TETRAHEDRON * [2, 1, -3], 0.0),
    ],
)
def test_shapes_of_a_merged_link(element, centres, radius, tmp_path):
    (tmp_path / "mesh.obj").write_text(OBJ)
    file = tmp_path / "robot.urdf"
    file.write_text(urdf(element))
    found = collision_points(file, jaxcfa.load_model(file))
    assert found.frames == ("palm",) * len(centres)
    assert rows(found.points) == rows(centres @ TURNED.T + [0, 0, 0.2])
    assert found.radius.tolist() == [radius] * len(centres)
    assert found.friction.tolist() == [1.0] * len(centres)
    at_center = np.isclose(np.linalg.norm(found.points - [0, 0, 0.2], axis=1), 0.25) & (len(centres) == 10)
    axis = TURNED @ [0, 0, 0.1]
    np.testing.assert_allclose(found.rims, at_center[:, None] * axis, atol=1e-12)
    assert not found.segments.any()


def test_only_what_moves_has_points():
    text = urdf('<sphere radius="0.1"/>', link="base")
    assert collision_points(text, jaxcfa.load_model(text, floating_base=True)).frames == ("base",)
    with pytest.raises(ValueError, match=r"XML text: no shape that collides.*ground_contacts the names of frames"):
        collision_points(text, jaxcfa.load_model(text))


def test_equal_points_are_one():
    text = urdf('<box size="1 1 1"/>', '<box size="1 1 1"/>', '<sphere radius="0.1"/>', '<box size="1 1 3"/>')
    assert len(collision_points(text, jaxcfa.load_model(text)).frames) == 8 + 1 + 8
    text = MJCF.replace(
        "</worldbody>", '<body><joint/><geom size=".2" friction="-1"/><geom size=".2" friction="2"/></body></worldbody>'
    )
    found = collision_points(text, jaxcfa.load_model(text))
    assert found.friction[np.array(found.frames) == "body3"].tolist() == [2.0]


MJCF = """<mujoco><asset><mesh name="x" vertex="0 0 0  1 0 0  0 1 0  0 0 1"/></asset>
  <default><geom friction="0.7"/></default>
  <worldbody><geom type="plane" size="0 0 1"/><geom size="1"/>
  <body name="arm" pos="1 2 3"><joint axis="1 1 0"/><inertial pos="0 0 0" mass="12" diaginertia="5 10 13"/>
    <geom type="box" size=".1 .2 .3" pos="0 0 1" euler="10 20 30" friction="0.2"/>
    <geom type="capsule" size=".1" fromto="0 0 0 1 0 0" contype="0"/>
    <geom type="sphere" size=".1" pos="1 1 1" group="3" rgba="0 0 0 0"/>
    <geom type="sphere" size="9" contype="0" conaffinity="0"/>
    <geom name="paired" type="sphere" size=".3" pos="1 0 1" contype="0" conaffinity="0"/>
    <geom type="cylinder" size=".1 .2" pos="0 1 0" euler="40 0 0"/>
    <geom type="mesh" mesh="x" pos=".1 .2 .3" euler="0 50 0"/>
    <body name="palm" pos="0 0 1" euler="0 0 60"><geom type="ellipsoid" size=".1 .2 .3" conaffinity="0"/>
  </body></body><geom name="floor" pos="9 0 0" size="1" contype="0" conaffinity="0"/></worldbody>
  <contact><pair geom1="floor" geom2="paired"/></contact></mujoco>"""


def test_geoms_are_where_mujoco_has_them():
    mujoco = pytest.importorskip("mujoco")
    theirs = mujoco.MjModel.from_xml_string(MJCF)
    data = mujoco.MjData(theirs)
    data.qpos[:] = 0.7
    mujoco.mj_forward(theirs, data)
    kinds, expected = mujoco.mjtGeom, []
    for geom in range(theirs.ngeom):
        size, kind = theirs.geom_size[geom], theirs.geom_type[geom]
        centres, radius = np.zeros((1, 3)), size[0]
        if kind == kinds.mjGEOM_CAPSULE:
            centres = np.array([[0, 0, -1], [0, 0, 1]]) * size[1]
        elif kind != kinds.mjGEOM_SPHERE:
            radius = 0.0
        if kind == kinds.mjGEOM_BOX:
            centres = SIGNS * size
        elif kind == kinds.mjGEOM_CYLINDER:
            places = 0.95 * size[0] * RIM_AND_CENTER
            centres = np.array([[*place, z * size[1]] for place in places for z in (-1, 1)])
        elif kind == kinds.mjGEOM_MESH:
            centres = theirs.mesh_vert
        elif kind == kinds.mjGEOM_ELLIPSOID:
            centres = np.concatenate([np.diag(size), -np.diag(size)])
        moves, silent = theirs.geom_bodyid[geom] > 0, size[0] == 9
        if moves and not silent:
            placed = centres @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom]
            expected += [(*x, radius, theirs.geom_friction[geom, 0]) for x in placed]
    model = jaxcfa.load_model(MJCF)
    found = collision_points(MJCF, model, most=8)
    assert set(found.frames) == {"arm", "palm"}
    # Of an ellipsoid, the ends of its axes, and two more.
    ends = np.abs(found.points / [0.1, 0.2, 0.3]).max(axis=1) > 1 - 1e-9
    kept = (np.array(found.frames) == "arm") | ends
    assert len(kept) - kept.sum() == 2
    table = np.column_stack([in_world(model, np.array([0.7]), found), found.radius, found.friction])[kept]
    assert table.shape == (8 + 2 + 1 + 1 + 10 + 4 + 6, 5)
    distance = np.abs(table[:, None] - np.array(expected)).max(axis=2)
    assert distance.shape[0] == distance.shape[1]
    assert max(distance.min(axis=0).max(), distance.min(axis=1).max()) < 1e-6


def in_world(model, q, found) -> np.ndarray:
    """(n, 3): where the points are."""
    poses = body_poses(model, q[None])
    places = [model.locate(frame) for frame in found.frames]
    return np.array(
        [
            poses.rotation[0, body] @ (np.asarray(frame.rotation) @ point + np.asarray(frame.translation))
            + poses.translation[0, body]
            for (body, frame), point in zip(places, found.points, strict=True)
        ]
    )


@pytest.mark.parametrize("address", ["package://none/mesh.stl", "broken.stl"])
def test_missing_meshes_are_left_out(address, tmp_path):
    (tmp_path / "broken.stl").write_bytes(b"solid, or not")
    file = tmp_path / "robot.urdf"
    file.write_text(urdf(f'<mesh filename="{address}"/>', '<sphere radius="0.1"/>'))
    model = jaxcfa.load_model(file)
    with pytest.warns(ModelWarning, match=f"mesh that .*; it is left out.*{address}") as caught:
        found = collision_points(file, model)
    assert len(caught) == 1
    assert found.radius.tolist() == [0.1]


def test_missing_meshes_of_mjcf_are_left_out_and_pairs_stay():
    meshes = '<mesh name="seen" file="a.stl"/><mesh name="y" file="b.stl"/></asset>'
    silent = 'contype="0" conaffinity="0"'
    geoms = f'<geom type="mesh" mesh="y"/><geom type="mesh" mesh="seen" {silent}/><geom type="capsule"'
    text = MJCF.replace("</asset>", meshes).replace('<geom type="capsule"', geoms)
    model = jaxcfa.load_model(text)
    with pytest.warns(ModelWarning, match="had to do without; it is left out.*'y' of body 'arm'") as caught:
        found = collision_points(text, model)
    assert "seen" not in str(caught[0].message)
    assert 0.3 in found.radius  # the geom that collides because of a pair


def test_shapes_that_collide_can_be_looked_at():
    text = urdf('<box size="1 2 3"/>')
    model = jaxcfa.load_model(text)
    assert [x.shape for x in load_visuals(text, model, collisions=True)] == [Box((1.0, 2.0, 3.0))]
    assert [x.shape for x in load_visuals(text, model)] == [Sphere(9.0)]
    nothing = urdf()
    assert load_visuals(nothing, jaxcfa.load_model(nothing), collisions=True) == []
    shapes = load_visuals(MJCF, jaxcfa.load_model(MJCF), collisions=True)
    assert [shapes[0].shape, shapes[-1].shape] == [Plane(), Ellipsoid((0.1, 0.2, 0.3))]
    assert {x.friction for x in shapes} == {0.7, 0.2}
    assert Sphere(0.1) in [x.shape for x in shapes]
    assert Sphere(9.0) not in [x.shape for x in shapes]


def test_outermost_points():
    """Of a cloud: vertices, so many, exact along the axes, better the more, the same for any order."""
    cloud = np.random.default_rng(0).normal(size=(2000, 3)) * [3, 2, 1]
    around = np.random.default_rng(1).normal(size=(500, 3))
    depths = []
    for most in (6, 8, 12, 24):
        points = _outermost(cloud, most)
        assert len(points) == most
        assert set(rows(points)) <= set(rows(cloud))
        np.testing.assert_array_equal([points.min(axis=0), points.max(axis=0)], [cloud.min(axis=0), cloud.max(axis=0)])
        depths.append(((around @ cloud.T).max(axis=1) - (around @ points.T).max(axis=1)).max())
        assert rows(_outermost(cloud[::-1], most)) == rows(points)
    assert sorted(depths, reverse=True) == depths


def test_outermost_points_of_boxes_and_flat_things():
    inside = np.random.default_rng(0).uniform(-1, 1, (500, 3))
    on_faces = inside / np.abs(inside).max(axis=1, keepdims=True)
    box = np.concatenate([on_faces, inside, SIGNS]) * [0.1, 0.05, 0.02]
    assert rows(_outermost(box, 8)) == rows(SIGNS * [0.1, 0.05, 0.02])
    flat = box * [1, 1, 0]
    assert rows(_outermost(flat, 8)) == rows(SIGNS[::2] * [0.1, 0.05, 0])
    assert rows(_outermost(np.ones((3, 3)), 8)) == [(1, 1, 1)]


needs_robots = pytest.mark.skipif(not urdf_paths(), reason="the package example-robot-data is not installed")
STANDING = {
    "go2.urdf": ("_foot", {"thigh": 0.8, "calf": -1.5}),
    "anymal_c_simple_description/urdf/anymal.urdf": (
        "_FOOT",
        {"F_HFE": 0.4, "H_HFE": -0.4, "F_KFE": -0.8, "H_KFE": 0.8},
    ),
    "solo12.urdf": ("_FOOT", {"HFE": 0.8, "KFE": -1.6}),
    "a1.urdf": ("_foot", {"thigh": 0.8, "calf": -1.5}),
}


def loaded(name):
    path = urdf_path(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        model = jaxcfa.load_model(path, floating_base=True)
        return path, model, collision_points(path, model)


@needs_robots
@pytest.mark.parametrize("name", STANDING)
def test_robots_stand_on_their_feet(name):
    foot, angles = STANDING[name]
    _, model, found = loaded(name)
    q = np.array(jaxcfa.neutral(model))
    for joint in model.joint_names:
        for part, angle in angles.items():
            if part in joint:
                q[model.q_slice(joint)] = angle
    heights = in_world(model, q, found)[:, 2] - found.radius
    lowest = {found.frames[i] for i in np.flatnonzero(heights < heights.min() + 0.005)}
    assert len(lowest) == 4
    assert all(foot in frame for frame in lowest), lowest


@needs_robots
@pytest.mark.parametrize("name", ["go2.urdf", "talos_full_v2.urdf"])
def test_points_are_on_the_hulls_that_pinocchio_has(name):
    pinocchio = pytest.importorskip("pinocchio")
    path, _, found = loaded(name)
    theirs = pinocchio.buildModelFromUrdf(str(path), pinocchio.JointModelFreeFlyer())
    folders = [str(folder) for folder in path.parents if (folder / "example-robot-data").is_dir()]
    geometry = pinocchio.buildGeomFromUrdf(theirs, str(path), pinocchio.GeometryType.COLLISION, package_dirs=folders)
    shapes = {}
    for shape in geometry.geometryObjects:
        frame = theirs.frames[shape.parentFrame]
        shapes.setdefault(frame.name, []).append((frame.placement.inverse() * shape.placement, corners(shape.geometry)))
    assert set(found.frames) == set(shapes)
    directions = np.random.default_rng(0).normal(size=(100, 3))
    for name, own in shapes.items():
        here = np.array(found.frames) == name
        points, radius = found.points[here], found.radius[here]
        hull = np.concatenate([vertices @ place.rotation.T + place.translation for place, vertices in own])
        reach = directions @ points.T + radius * np.linalg.norm(directions, axis=1, keepdims=True)
        beyond = reach.max(axis=1) - (directions @ hull.T).max(axis=1)
        assert np.all(beyond < 1e-6)
        if len(own) == 1:  # along the axes of the shape there is no difference
            ((place, vertices),) = own
            points = (points - place.translation) @ place.rotation
            rims = found.rims[here] @ place.rotation
            lengths = np.linalg.norm(rims, axis=1, keepdims=True)
            reach = radius[:, None] + np.sqrt(np.maximum(lengths**2 - rims**2, 0))  # of a circle, along the axes
            np.testing.assert_allclose((points - reach).min(axis=0), vertices.min(axis=0), atol=1e-6)
            np.testing.assert_allclose((points + reach).max(axis=0), vertices.max(axis=0), atol=1e-6)


def corners(geometry) -> np.ndarray:
    """Of a mesh the vertices, of others the corners of their bounding box."""
    if hasattr(geometry, "vertices"):
        return geometry.vertices()
    geometry.computeLocalAABB()
    box = geometry.aabb_local
    return np.array(list(product(*zip(box.min_, box.max_, strict=True))))


@pytest.mark.parametrize("most", [5, 0, 8.0, "many"])
def test_errors(most):
    text = urdf('<sphere radius="0.1"/>')
    with pytest.raises(ValueError, match="most must be"):
        collision_points(text, jaxcfa.load_model(text), most=most)
    with pytest.raises(ValueError, match=re.escape("collisions must be True or False")):
        load_visuals(text, jaxcfa.load_model(text), collisions=most)

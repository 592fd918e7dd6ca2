"""The shapes of robots: those of files, and those made for robots that have none."""

import re
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trimesh

import jaxcfa
from jaxcfa.contacts import AbstractSurface, FlatGround
from jaxcfa.io import ModelWarning
from jaxcfa.viz import (
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    Mesh,
    Plane,
    Sphere,
    Visual,
    _files,
    collision_contacts,
    collision_points,
    collision_surface,
    default_visuals,
    load_visuals,
)
from jaxcfa.viz._load import drawn_visuals
from jaxcfa.viz._poses import body_poses, carried_visuals
from robots import urdf_path, urdf_paths

TETRAHEDRON = (
    np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]]),
    np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]),
)
INERTIAL = '<inertial><mass value="12"/><inertia ixx="5" iyy="10" izz="13" ixy="0" ixz="0" iyz="0"/></inertial>'


def volume(shape) -> float:
    """By the divergence theorem: positive if faces look outward."""
    vertices, faces = shape.triangles()
    return float(np.linalg.det(vertices[faces]).sum() / 6)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (Box((1.0, 2.0, 3.0)), 6.0),
        (Sphere(0.5), np.pi / 6),
        (Ellipsoid((1.0, 2.0, 0.5)), 4 * np.pi / 3),
        (Cylinder(0.5, 2.0), np.pi / 2),
        (Capsule(0.5, 2.0), np.pi / 2 + np.pi / 6),
        (Mesh(*TETRAHEDRON), 1 / 6),
    ],
)
def test_surfaces_are_closed_and_look_outward(shape, expected):
    assert expected * 0.97 < volume(shape) <= expected * (1 + 1e-9)
    vertices, faces = shape.triangles()
    # Every edge belongs to two faces, in opposite directions.
    _, number = np.unique(vertices.round(9), axis=0, return_inverse=True)
    edges = np.concatenate([number.reshape(-1)[faces][:, [k, (k + 1) % 3]] for k in range(3)]).tolist()
    assert sorted(map(tuple, edges)) == sorted((b, a) for a, b in edges)


def test_planes():
    assert len(Plane().triangles().faces) == 0
    assert len(Plane((2.0, 1.0)).triangles().faces) == 2


def test_fields_of_any_type_are_converted():
    boxes = {Box((1.0, 2.0, 3.0)), Box([1, 2, 3]), Box(np.array([1, 2, 3]))}
    assert len(boxes) == 1
    assert len({Sphere(0.5), Sphere(jnp.asarray(0.5)), Plane([2, 1]), Plane((2.0, 1.0))}) == 2
    visual = Visual(Sphere(1), placement=np.eye(4).tolist(), color=np.array([1, 0, 0, 1]))
    assert visual.color == (1.0, 0.0, 0.0, 1.0)
    assert carried_visuals(jaxcfa.chain(1), [visual]).rotation.tolist() == [np.eye(3).tolist()]
    mesh = Mesh(*(array.tolist() for array in TETRAHEDRON))
    assert volume(mesh) == pytest.approx(1 / 6)
    assert mesh.faces.shape == (4, 3)


def urdf(visual: str, inertial: str = INERTIAL) -> str:
    """A fixed base, a moving arm, and a palm merged into it, which shows something."""
    return f"""<robot name="r"><material name="red"><color rgba="1 0 0 0.5"/></material>
      <link name="base"/>
      <link name="arm">{inertial}</link>
      <link name="palm">{inertial}<visual><origin xyz="0 0 0.2" rpy="0 0 1.5707963267948966"/>
        <geometry>{visual}</geometry><material name="red"/></visual></link>
      <joint name="j" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/></joint>
      <joint name="f" type="fixed"><parent link="arm"/><child link="palm"/><origin xyz="0.5 0 0"/></joint></robot>"""


@pytest.mark.parametrize(
    ("element", "shape"),
    [
        ('<box size="1 2 3"/>', Box((1.0, 2.0, 3.0))),
        ('<sphere radius="0.1"/>', Sphere(0.1)),
        ('<cylinder radius="0.1" length="0.5"/>', Cylinder(0.1, 0.5)),
        ('<capsule radius="0.1" length="0.5"/>', Capsule(0.1, 0.5)),
    ],
)
def test_urdf_shapes_on_a_merged_link(element, shape):
    text = urdf(element)
    model = jaxcfa.load_model(text)
    (visual,) = load_visuals(text, model)
    assert (visual.shape, visual.carrier, visual.color) == (shape, "palm", (1.0, 0.0, 0.0, 0.5))
    (turned,) = load_visuals(text.replace('rpy="0 0 1.5707963267948966"', 'quat_xyzw="0 0 3 3"'), model)
    np.testing.assert_allclose(turned.placement, visual.placement, atol=1e-15)
    poses = carried_visuals(model, [visual]).at(body_poses(model, np.array([[np.pi / 2]])))
    np.testing.assert_allclose(poses.translation[0, 0], [0, 0.5, 0.2], atol=1e-12)
    np.testing.assert_allclose(poses.rotation[0, 0], np.diag([-1, -1, 1]), atol=1e-12)


def test_urdf_shapes_in_a_default_namespace():
    text = urdf('<sphere radius="0.1"/>').replace("<robot ", '<robot xmlns="http://www.ros.org" ')
    (visual,) = load_visuals(text, jaxcfa.load_model(text))
    assert (visual.shape, visual.carrier, visual.color) == (Sphere(0.1), "palm", (1.0, 0.0, 0.0, 0.5))


def test_collisions_and_defaults_where_nothing_is_to_be_seen():
    text = urdf('<sphere radius="0.1"/>')
    model = jaxcfa.load_model(text)
    (collision,) = load_visuals(text.replace("visual", "collision"), model)
    assert collision.shape == Sphere(0.1)
    (limb,) = load_visuals(text.replace("visual", "nothing"), model)  # from the arm to the palm
    assert isinstance(limb.shape, Capsule)
    assert limb.shape.length == pytest.approx(0.5)


def write_mesh(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    vertices, faces = TETRAHEDRON
    lines = [f"v {x} {y} {z}" for x, y, z in vertices] + [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in faces]
    path.write_text("\n".join(lines))


@pytest.mark.parametrize(
    "place",
    ["folder", "space", "package.xml", "package_dirs", "ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH", "file", "relative"],
)
def test_meshes_are_found(place, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere" / "robot_description"
    if place == "AMENT_PREFIX_PATH":
        elsewhere = tmp_path / "ros" / "share" / "robot_description"
        monkeypatch.setenv("AMENT_PREFIX_PATH", f"/nowhere:{tmp_path / 'ros'}")
    is_elsewhere = place in ("package_dirs", "ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH")
    mesh = (elsewhere if is_elsewhere else tmp_path / "robot_description") / "mesh.obj"
    address, options = "package://robot_description/mesh.obj", {}
    if place == "space":
        mesh, address = mesh.parent / "a mesh.obj", "package://robot_description/a%20mesh.obj"
    elif place == "package.xml":
        mesh = tmp_path / "clone" / "mesh.obj"
        mesh.parent.mkdir()
        (mesh.parent / "package.xml").write_text("<package><name>robot_description</name></package>")
    elif place == "package_dirs":
        options = {"package_dirs": [elsewhere.parent]}
    elif place == "ROS_PACKAGE_PATH":
        monkeypatch.setenv("ROS_PACKAGE_PATH", f"/nowhere:{elsewhere.parent}")
    write_mesh(mesh)
    file = (tmp_path / "robot" if mesh.parent == elsewhere else mesh.parent) / "urdf" / "robot.urdf"
    if place == "file":
        address = mesh.as_uri()
    elif place == "relative":
        address = "../mesh.obj"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(urdf(f'<mesh filename="{address}" scale="2 2 -2"/>'))
    model = jaxcfa.load_model(file)
    (visual,) = load_visuals(file, model, **options)
    assert volume(visual.shape) == pytest.approx(8 / 6)  # outward in spite of the reflection
    assert visual.shape.triangles().vertices[:, 2].min() == -2


def test_lengths_are_in_the_unit_of_the_file(tmp_path):
    text = trimesh.Trimesh(*TETRAHEDRON).export(file_type="dae").decode()
    assert "<unit" not in text
    (tmp_path / "mesh.dae").write_text(text.replace("<asset>", '<asset><unit name="millimeter" meter="0.001"/>', 1))
    file = tmp_path / "robot.urdf"
    file.write_text(urdf('<mesh filename="mesh.dae" scale="2 2 2"/>'))
    model = jaxcfa.load_model(file)
    (visual,) = load_visuals(file, model)
    np.testing.assert_allclose(np.ptp(visual.shape.triangles().vertices, axis=0), 2e-3)


def test_places_in_a_texture_that_a_mesh_has_not_are_no_colour(tmp_path):
    vertices, faces = TETRAHEDRON
    lines = [f"v {x} {y} {z}\nvt {x} {y}" for x, y, z in vertices]
    lines += ["f " + " ".join(f"{k + 1}/{k + 1}" for k in face) for face in faces]
    (tmp_path / "mesh.obj").write_text("\n".join(lines))
    file = tmp_path / "robot.urdf"
    file.write_text(urdf('<mesh filename="mesh.obj"/>'))
    model = jaxcfa.load_model(file)
    (visual,) = load_visuals(file, model)
    assert visual.color == (1.0, 0.0, 0.0, 0.5)


def test_addresses_of_files_on_windows(tmp_path, monkeypatch):
    """What the standard library makes of the path in an address there, /C:/mesh.stl, is taken."""
    monkeypatch.setattr(_files, "url2pathname", lambda path: str(tmp_path / path.removeprefix("/C:/")))
    (tmp_path / "mesh.stl").touch()
    assert _files.find_file("file:///C:/mesh.stl", None) == tmp_path / "mesh.stl"


@pytest.mark.parametrize(
    ("address", "scale", "message"),
    [
        ("package://none/mesh.stl", "1 1 1", "missing;.*package_dirs.*{}' of link 'palm'$"),
        ("http://127.0.0.1:9/mesh.stl", "1 1 1", "missing;.*{}"),
        ("broken.stl", "1 1 1", "cannot be read; [^(]* .1.: '{}' of link 'palm': .*broken.stl holds no surface"),
        ("mesh.obj", "0.001", "cannot be read; [^(]* .1.: '{}' of link 'palm': scale='0.001' must be 3 finite numbers"),
    ],
)
def test_missing_meshes_are_boxes_and_named_in_one_warning(address, scale, message, tmp_path):
    (tmp_path / "broken.stl").write_bytes(b"solid, or not")
    write_mesh(tmp_path / "mesh.obj")
    file = tmp_path / "robot.urdf"
    file.write_text(urdf(f'<mesh filename="{address}" scale="{scale}"/>'))
    model = jaxcfa.load_model(file)
    with pytest.warns(ModelWarning, match=f"mesh that (is )?{message.format(address)}") as caught:
        (visual,) = load_visuals(file, model)
    assert len(caught) == 1
    assert visual.carrier == "palm"
    # m (b^2 + c^2) / 12 and so on, with m = 12: sides 3, 2, 1.
    assert sorted(visual.shape.size) == pytest.approx([1, 2, 3])


def test_colours_that_make_no_sense_are_named_and_others_found_anywhere():
    palm = '<visual><geometry><sphere radius="1"/></geometry><material name="{}">{}</material></visual>'
    color = '<color rgba="0.1 0.2 0.3 1"/>'
    text = urdf('<sphere radius="1"/>').replace("</visual>", "</visual>" + palm.format("blue", color), 1)
    text = text.replace(
        "</visual>", "</visual>" + palm.format("blue", "") + palm.format("bad", '<color rgba="1 1 1"/>'), 1
    )
    model = jaxcfa.load_model(text)
    with pytest.warns(ModelWarning, match="colour that cannot be read.*'bad'"):
        found = load_visuals(text, model)
    assert [x.color for x in found].count((0.1, 0.2, 0.3, 1.0)) == 2
    assert [x.color for x in found].count(None) == 1


def test_colours_without_a_name_are_of_one_shape_alone():
    palm = '<visual><geometry><sphere radius="1"/></geometry><material{}>{}</material></visual>'
    color = '<color rgba="0.1 0.2 0.3 1"/>'
    shapes = "".join(palm.format(name, x) for name in ("", ' name=""') for x in (color, ""))
    text = urdf('<sphere radius="1"/>').replace("</visual>", "</visual>" + shapes, 1)
    found = load_visuals(text, jaxcfa.load_model(text))
    assert [x.color for x in found][1:] == [(0.1, 0.2, 0.3, 1.0), None] * 2


def test_shapes_that_make_no_sense_are_named():
    text = urdf('<box size="1 x 3"/>')
    model = jaxcfa.load_model(text)
    with pytest.warns(ModelWarning, match="<box> of link 'palm'"):
        assert load_visuals(text, model)  # the default


MJCF = """<mujoco><asset><material name="m" rgba=".1 .2 .3 1"/>{asset}</asset>
  <worldbody><geom type="plane" size="0 0 1"/>
  <body name="arm"><joint/><inertial pos="0 0 0" mass="12" diaginertia="5 10 13"/>
    <geom type="box" size=".1 .2 .3" pos="0 0 1" material="m"/><geom type="sphere" size="9" group="3"/>
    <geom type="capsule" size=".1" fromto="0 0 0 1 0 0" rgba="1 0 0 1"/>{geom}
    <body name="palm" pos="0 0 1"><geom type="ellipsoid" size=".1 .2 .3"/></body></body></worldbody></mujoco>"""


def test_mjcf_geoms():
    text = MJCF.format(asset="", geom="")
    model = jaxcfa.load_model(text)
    plane, box, capsule, ellipsoid = load_visuals(text, model)
    assert (plane.shape, plane.carrier) == (Plane(), None)
    assert (box.shape, box.carrier) == (Box((0.2, 0.4, 0.6)), "arm")
    assert box.color == pytest.approx((0.1, 0.2, 0.3, 1))
    assert (capsule.shape, capsule.color) == (Capsule(0.1, 1.0), (1, 0, 0, 1))
    np.testing.assert_allclose(np.abs(capsule.placement[:3, 2]), [1, 0, 0], atol=1e-12)
    assert (ellipsoid.shape, ellipsoid.carrier) == (Ellipsoid((0.1, 0.2, 0.3)), "palm")
    only_collisions = text.replace(' group="3"', "").replace("<geom ", '<geom group="3" ')
    assert len(load_visuals(only_collisions, model)) == 5


def test_geoms_of_what_mujoco_has_loaded():
    mujoco = pytest.importorskip("mujoco")
    text = MJCF.format(asset="", geom="")
    model = jaxcfa.load_model(text)
    expected = [repr(x) for x in load_visuals(text, model)]
    for loaded in (mujoco.MjModel.from_xml_string(text), mujoco.MjSpec.from_string(text)):
        assert [repr(x) for x in load_visuals(loaded, model)] == expected
        assert len(drawn_visuals(model, loaded)) == len(expected) - 1  # all but the plane without end


def test_geoms_are_where_mujoco_has_them():
    mujoco = pytest.importorskip("mujoco")
    text = MJCF.format(asset="", geom="")
    model = jaxcfa.load_model(text)
    poses = carried_visuals(model, load_visuals(text, model)).at(body_poses(model, np.array([[0.7]])))
    theirs = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(theirs)
    data.qpos[:] = 0.7
    mujoco.mj_kinematics(theirs, data)
    shown = [i for i in range(theirs.ngeom) if theirs.geom_group[i] < 3]
    np.testing.assert_allclose(poses.translation[0], data.geom_xpos[shown], atol=1e-12)
    np.testing.assert_allclose(poses.rotation[0].reshape(-1, 9), data.geom_xmat[shown], atol=1e-12)


def test_assets_of_a_text():
    vertices, faces = TETRAHEDRON
    lines = [f"v {x} {y} {z}" for x, y, z in vertices] + [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in faces]
    assets = {"m.obj": "\n".join(lines).encode()}
    text = """<mujoco><asset><mesh file="m.obj"/></asset><worldbody><body name="b"><freejoint/>
        <geom type="mesh" mesh="m" mass="1"/></body></worldbody></mujoco>"""
    model = jaxcfa.load_model(text, assets=assets)
    (seen,) = load_visuals(text, model, assets=assets)
    assert volume(seen.shape) == pytest.approx(1 / 6)
    assert len(collision_points(text, model, assets=assets).frames) == 4
    assert isinstance(collision_surface(text, model, "b", assets=assets), AbstractSurface)
    assert collision_contacts(text, model, ground=FlatGround(), assets=assets).count == 4
    with pytest.raises(ValueError, match="but this is URDF: omit assets"):
        load_visuals(urdf('<sphere radius="1"/>'), model, assets=assets)


def test_robots_are_seen_whose_file_shows_only_a_floor():
    shapes = '<geom type="sphere" size="1" group="3"/>'
    text = f"""<mujoco><worldbody><geom type="plane" size="0 0 1"/><body name="a"><joint axis="0 1 0"/>
        <inertial pos="0 0 .2" mass="1" diaginertia=".1 .1 .1"/>{shapes}</body></worldbody></mujoco>"""
    for file, shape in ((text, Sphere), (text.replace(shapes, ""), Box)):
        model = jaxcfa.load_model(file)
        (seen,) = drawn_visuals(model, load_visuals(file, model))
        assert (seen.carrier, type(seen.shape)) == ("a", shape)


def test_mjcf_missing_mesh_is_a_box():
    text = MJCF.format(asset='<mesh name="x" file="none.stl"/>', geom='<geom type="mesh" mesh="x"/>')
    model = jaxcfa.load_model(text)
    with pytest.warns(ModelWarning, match="'x' of body 'arm'"):
        *_, box = load_visuals(text, model)
    assert box.carrier == "arm"
    assert sorted(box.shape.size) == pytest.approx([1, 2, 3])


def test_mjcf_missing_mesh_of_a_fixed_base():
    """Whose mass nothing needs, so that a model with a fixed base can do without."""
    text = """<mujoco><asset><mesh name="x" file="none.stl"/></asset><worldbody><body name="base">
        <geom type="mesh" mesh="x"/><body name="arm"><joint/><geom size=".1"/></body></body></worldbody></mujoco>"""
    model = jaxcfa.load_model(text)
    with pytest.warns(ModelWarning, match="'x' of body 'base'"):
        arm, base = load_visuals(text, model)
    assert (arm.carrier, base.carrier) == ("arm", "base")


@pytest.mark.parametrize("name", ["chain", "tree"])
def test_default_shapes_are_on_every_body(name):
    model = jaxcfa.chain(5) if name == "chain" else jaxcfa.random_tree(9, jax.random.key(3))
    visuals = default_visuals(model)
    assert {visual.carrier for visual in visuals} == set(model.body_names)
    lengths = [visual.shape.length for visual in visuals if isinstance(visual.shape, Capsule)]
    distances = np.linalg.norm(model.placement.translation, axis=1)[np.asarray(model.topology.parents) >= 0]
    assert set(np.round(lengths, 5)) <= set(np.round(distances, 5))
    assert isinstance(visuals[-1].shape, Box) == (name == "tree")  # the chain has a frame at its end


def test_errors():
    text = urdf('<sphere radius="1"/>')
    with pytest.raises(ValueError, match="No frame or body named 'palm'"):
        load_visuals(text, jaxcfa.chain(2))
    with pytest.raises(ValueError, match=r"\(4, 4\)"):
        Visual(Sphere(1.0), placement=np.eye(3))
    with pytest.raises(FileNotFoundError, match=r"none\.urdf"):
        load_visuals("none.urdf", jaxcfa.chain(2))
    with pytest.raises(FileNotFoundError, match="There is no folder 'nowhere', which is among package_dirs"):
        load_visuals(text, jaxcfa.chain(2), package_dirs=["nowhere"])
    with pytest.raises(ValueError, match=r"package_dirs must be a list of folders, such as \['nowhere'\]"):
        load_visuals(text, jaxcfa.chain(2), package_dirs="nowhere")
    with pytest.raises(ValueError, match="<sdf>"):
        load_visuals("<sdf/>", jaxcfa.chain(2))


WRONG = {
    "The radius of Sphere must not be negative, got -1": lambda: Sphere(-1.0),
    "The radius of Sphere must be finite, got nan": lambda: Sphere(np.nan),
    "The size of Box must have shape (3,), got ()": lambda: Box(1.0),
    "The length of Cylinder must not be negative, got -2": lambda: Cylinder(1.0, -2.0),
    "The radius of Capsule must be a known number or an array of such, got 'thin'": lambda: Capsule("thin", 1.0),
    "The size of Plane must have shape (2,), got (3,)": lambda: Plane((1.0, 1.0, 1.0)),
    "The radii of Ellipsoid must be finite, got": lambda: Ellipsoid((1.0, np.inf, 1.0)),
    "shape must be one such as Box((1, 1, 1)) or Mesh(vertices, faces), got 'box'": lambda: Visual("box"),
    "The color of a visual is red, green, blue and opacity, each from 0 to 1, got": lambda: Visual(
        Sphere(1.0), color=(255, 0, 0, 1)
    ),
    "The vertices of Mesh must have shape (n, 3), with n at least one, got (0, 3)": lambda: Mesh(
        np.zeros((0, 3)), np.zeros((0, 3), int)
    ),
    "The vertices of Mesh must be finite, got [0.0, nan, 0.0] at 1": lambda: Mesh(
        [[0, 0, 0], [0, np.nan, 0]], TETRAHEDRON[1]
    ),
    "The faces of Mesh must be triangles, of shape (m, 3), got (1, 4)": lambda: Mesh(TETRAHEDRON[0], [[0, 1, 2, 3]]),
    "The faces of Mesh must be integers, numbers of vertices, got float64": lambda: Mesh(
        TETRAHEDRON[0], [[0.0, 1.0, 2.0]]
    ),
    "The faces of Mesh must be numbers of its 4 vertices, from 0 to 3, got 0 to 4": lambda: Mesh(
        TETRAHEDRON[0], [[0, 1, 4]]
    ),
    "The placement of a visual must be finite, got": lambda: Visual(Sphere(1.0), placement=np.full((4, 4), np.nan)),
}


@pytest.mark.parametrize("message", WRONG)
def test_shapes_that_are_none(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        WRONG[message]()


@pytest.mark.skipif(not urdf_paths(), reason="the package example-robot-data is not installed")
@pytest.mark.parametrize("name", ["panda.urdf", "anymal_c_simple_description/urdf/anymal.urdf"])
def test_shapes_are_where_pinocchio_has_them(name):
    pinocchio = pytest.importorskip("pinocchio")
    path = urdf_path(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        model = jaxcfa.load_model(path)
        visuals = load_visuals(path, model)
    q = np.asarray(jaxcfa.random_configuration(model, jax.random.key(0)))
    poses = carried_visuals(model, visuals).at(body_poses(model, q[None]))
    theirs = pinocchio.buildModelFromUrdf(str(path))
    folders = [str(folder) for folder in path.parents if (folder / "example-robot-data").is_dir()]
    geometry = pinocchio.buildGeomFromUrdf(theirs, str(path), pinocchio.GeometryType.VISUAL, package_dirs=folders)
    data, placed = theirs.createData(), geometry.createData()
    pinocchio.updateGeometryPlacements(theirs, data, geometry, placed, q)  # of joints with one coordinate
    expected = {tuple(np.round(placed.oMg[i].translation, 9)) for i in range(len(geometry.geometryObjects))}
    assert {tuple(np.round(x, 9)) for x in poses.translation[0]} == expected

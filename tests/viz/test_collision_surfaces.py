"""Surfaces that points touch, from the shapes that collide in files."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from jaxcfa.contacts import Box, FlatGround, HeightField, Placed, Union
from jaxcfa.io import ModelWarning
from jaxcfa.viz import collision_points, collision_surface
from jaxcfa.viz._ground import surface_of
from robots import urdf_path, urdf_paths

GEOMS = {
    "ball": 'type="sphere" size=".2" pos=".1 0 .3"',
    "rod": 'type="capsule" size=".1" fromto="0 -.2 .1 .3 .4 .2"',
    "can": 'type="cylinder" size=".2 .3" pos="0 .1 0" euler="40 0 10"',
    "brick": 'type="box" size=".1 .2 .3" pos="0 0 .1" euler="10 20 30"',
    "egg": 'type="ellipsoid" size=".2 .2 .2" pos=".1 .1 .1"',
    "gem": 'type="mesh" mesh="gem" pos=".1 .2 .3" euler="0 50 0"',
}
SCENE = """<mujoco><asset><mesh name="gem" vertex="0 0 0  1 0 0  0 1 0  0 0 1"/></asset>
  <worldbody><geom name="floor" type="plane" size="1 1 1" pos="0 0 -.1" euler="5 0 0"/>
  <geom name="step" type="box" size=".2 .3 .1" pos="1 0 0" euler="0 0 20"/>
  <body name="post" pos="-1 0 0" euler="0 0 30"><geom name="post" type="cylinder" size=".2 1"/></body>
  {bodies}</worldbody></mujoco>""".format(
    bodies="".join(
        f'<body name="{name}" pos="5 {3 * i} 0" euler="{20 * i} 0 50"><freejoint/><geom name="{name}" {geom}/></body>'
        for i, (name, geom) in enumerate(GEOMS.items())
    )
)


def test_distances_are_those_of_mujoco():
    """Of points all around: exact, but next to edges of what is a mesh."""
    mujoco = pytest.importorskip("mujoco")
    probe = '<body name="probe" mocap="true"><geom name="probe" size="1e-6" contype="0" conaffinity="0"/></body>'
    theirs = mujoco.MjModel.from_xml_string(SCENE.replace("</worldbody>", f"{probe}</worldbody>"))
    data = mujoco.MjData(theirs)
    mujoco.mj_forward(theirs, data)
    model = jaxcfa.load_model(SCENE)
    offsets = np.random.default_rng(0).uniform(-0.6, 0.6, (40, 3))

    def distances(geoms, points):
        found = []
        for point in points:
            data.mocap_pos[0] = point
            mujoco.mj_kinematics(theirs, data)
            number = theirs.geom("probe").id
            found.append([mujoco.mj_geomDistance(theirs, data, theirs.geom(x).id, number, 10.0, None) for x in geoms])
        return np.min(found, axis=1) + 1e-6

    for name in (None, *GEOMS):
        center, axes = np.zeros(3), np.eye(3)
        if name is not None:
            center, axes = data.body(name).xpos.copy(), data.body(name).xmat.reshape(3, 3).copy()
        surface = collision_surface(SCENE, model, name)
        points = (center + offsets) * ([2, 1, 1] if name is None else 1)
        found = np.asarray(jax.vmap(surface.clearance)((points - center) @ axes)[0])
        expected = distances(["floor", "step", "post"] if name is None else [name], points)
        outside = expected > 0
        assert 5 < np.sum(outside) <= 40
        np.testing.assert_array_equal(found > 0, outside, err_msg=str(name))
        if name == "gem":
            assert np.all(found <= expected + 1e-6)
            assert np.sum(np.abs(found - expected) < 1e-6) > 10
        else:
            np.testing.assert_allclose(found[outside], expected[outside], atol=1e-5, err_msg=str(name))


def test_what_does_not_move_is_the_ground():
    """In world axes, also where it is on a body of its own; the base of a robot, if that is fixed."""
    model = jaxcfa.load_model(SCENE)
    world = collision_surface(SCENE, model)
    assert isinstance(world, Union)
    assert len(world.surfaces) == 3
    post = collision_surface(SCENE, model, "post")
    turned = jaxcfa.Transform.from_rpy(0.0, 0.0, np.pi / 6, [-1.0, 0.0, 0.0])
    assert abs(post.distance(turned.inverse().apply(jnp.array([-1.5, 0.0, 0.2]))) - 0.3) < 1e-6
    assert abs(world.distance(jnp.array([-1.5, 0.0, 0.9])) - 0.3) < 1e-6
    assert isinstance(collision_surface(FIXED, jaxcfa.load_model(FIXED)), Box)
    with pytest.raises(ValueError, match="what does not move collides"):
        collision_surface(FIXED, jaxcfa.load_model(FIXED, floating_base=True))
    flat = '<mujoco><worldbody><geom type="plane" size="1 1 1" friction="0.3"/></worldbody></mujoco>'
    assert isinstance(collision_surface(flat, model_of_ball()), FlatGround)
    rough = collision_surface(flat, model_of_ball(), friction=True)
    assert isinstance(rough.surface, FlatGround)
    assert rough.touch(jnp.ones(3)).friction == 0.3


FIXED = """<robot name="r"><link name="base"><collision><geometry><box size="1 1 1"/></geometry></collision></link>
  <link name="arm"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
  </link><joint name="j" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>
  </joint></robot>"""


def test_flat_meshes_are_thin(tmp_path):
    """A floor of one square, and a line, which have no hull of their own; a point has none at all."""
    for corners, has_hull in (
        ("0 0 0,2 0 0,2 2 0,0 2 0", True),
        ("0 0 0,1 1 0,2 2 0,0 0 0", True),
        ("1 1 1,1 1 1,1 1 1,1 1 1", False),
    ):
        vertices = "".join(f"v {x}\n" for x in corners.split(","))
        (tmp_path / "mesh.obj").write_text(f"{vertices}f 1 2 3\nf 1 3 4\n")
        file = tmp_path / "floor.urdf"
        file.write_text(FIXED.replace('<box size="1 1 1"/>', '<mesh filename="mesh.obj"/>'))
        model = jaxcfa.load_model(file)
        if not has_hull:
            with pytest.raises(ValueError, match=r"floor.urdf, shapes of 'base': The points of the hull"):
                collision_surface(file, model, "base")
            continue
        surface = collision_surface(file, model)
        assert abs(surface.distance(jnp.array([1.0, 1.0, 0.3])) - 0.3) < 0.01
        assert surface.distance(jnp.array([1.0, 1.0, 0.0])) < 0


def model_of_ball() -> jaxcfa.Model:
    return jaxcfa.load_model('<mujoco><worldbody><body><freejoint/><geom size="0.1"/></body></worldbody></mujoco>')


def test_height_fields():
    """As MuJoCo's rays find them, at points of the grid; those in between are another matter."""
    mujoco = pytest.importorskip("mujoco")
    text = """<mujoco><asset><hfield name="h" nrow="2" ncol="3" elevation="0 1 2  0 3 4" size="1 2 0.5 0.1"/></asset>
      <worldbody><geom type="hfield" hfield="h" pos="0 0 0.2"/></worldbody></mujoco>"""
    surface = collision_surface(text, model_of_ball())
    assert isinstance(surface, Placed)
    assert isinstance(surface.surface, HeightField)
    assert surface.surface.bounded
    corners = 0.999999 * np.array([[-1, -2, 3], [0, -2, 3], [1, -2, 3], [-1, 2, 3], [0, 2, 3], [1, 2, 3]])
    theirs = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(theirs)
    mujoco.mj_forward(theirs, data)
    down, hit = np.array([0, 0, -1.0]), np.zeros(1, np.int32)
    expected = [mujoco.mj_ray(theirs, data, corner, down, None, 1, -1, hit) for corner in corners]
    assert len(set(np.round(expected, 3))) > 3
    np.testing.assert_allclose(jax.vmap(surface.distance)(corners), expected, atol=1e-5)


needs_robots = pytest.mark.skipif(not urdf_paths(), reason="the package example-robot-data is not installed")


@needs_robots
@pytest.mark.parametrize("name", ["go2.urdf", "panda.urdf"])
def test_points_of_robots_are_on_their_surfaces(name):
    """Balls, boxes, cylinders and meshes: what meets a flat ground is at the surface, or inside of another shape."""
    path = urdf_path(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        model = jaxcfa.load_model(path, floating_base=True)
        found = collision_points(path, model)
        names = sorted(set(found.frames))[:5]
        for frame in names:
            surface = collision_surface(path, model, frame)
            here = np.array(found.frames) == frame
            depth = np.asarray(jax.vmap(surface.distance)(found.points[here])) + found.radius[here]
            assert np.max(depth) < 1e-6
            if not isinstance(surface, Union):
                assert np.min(depth) > -1e-6


def test_a_ball_lands_on_a_step():
    """In use: the ground of a file, and a body of it that another one lies on."""
    text = """<mujoco><worldbody><geom type="plane" size="1 1 1"/><geom type="box" size=".2 .2 .1" pos="1 0 .1"/>
      <body name="plate" pos="1 0 .32"><freejoint/><geom type="box" size=".15 .15 .02"/></body>
      <body name="ball" pos="1.02 0 .4"><freejoint/><geom size=".05"/></body></worldbody></mujoco>"""
    model = jaxcfa.load_model(text)
    points = collision_points(text, model)
    ground = jaxcfa.ground_contacts(model, *points[:3], ground=collision_surface(text, model))
    on_plate = jaxcfa.body_contacts(model, "ball", "plate", collision_surface(text, model, "plate"), radius=0.05)
    assert isinstance(on_plate.surface, Box)
    start, still = model.keyframe("qpos0"), jnp.zeros(model.nv)
    motion = jaxcfa.rollout(model, start, still, jnp.zeros((100, model.nv)), dt=0.01, contacts=ground + on_plate)
    np.testing.assert_allclose(motion.q[-1, [2, 9]], [0.22, 0.29], atol=3e-3)
    np.testing.assert_allclose(motion.q[-1, [0, 7]], [1.0, 1.02], atol=1e-2)


def test_grounds_of_files_are_drawn():
    """Seen from above: on the step its top, beside it the floor."""
    steps = Union([FlatGround(), Placed(Box([0.3, 2.0, 0.1]), [0.5, 0.0, 0.1])])
    vertices = surface_of(steps, np.zeros(3), 1.0).vertices
    on = np.abs(vertices[:, 0] - 0.5) < 0.29
    beside = np.abs(vertices[:, 0] - 0.5) > 0.31
    np.testing.assert_allclose(vertices[on, 2], 0.2, atol=1e-4)
    np.testing.assert_allclose(vertices[beside, 2], 0, atol=1e-4)
    # Walls between points of the grid, also far below, slopes, and what has no floor.
    model = jaxcfa.load_model(SCENE)
    heights = surface_of(collision_surface(SCENE, model), np.array([-0.4, 0.03, 0.5]), 1.3).vertices[:, 2]
    assert np.max(heights) == pytest.approx(1.0, abs=1e-3)
    assert np.min(heights) < -0.1
    steep = surface_of(FlatGround([40, 0, 1.0], [0, 0, 7.0]), np.zeros(3), 1.0).vertices
    np.testing.assert_allclose(steep[:, 2], 7 - 40 * steep[:, 0], atol=1e-2)
    table = surface_of(Box([0.3, 0.3, 0.1], [0.0, 0.0, 1.5]), np.array([0, 0, 1.6]), 0.5)
    np.testing.assert_allclose(table.vertices[np.unique(table.faces), 2], 1.6, atol=1e-3)
    assert np.max(np.abs(table.vertices[np.unique(table.faces), :2])) < 0.31
    with pytest.raises(ValueError, match="no surface of it is seen from above"):
        surface_of(Box([0.1, 0.1, 0.1]), np.array([5.0, 5.0, 0.0]), 1.0)


def test_errors():
    model = jaxcfa.load_model(SCENE)
    with pytest.raises(ValueError, match=r"no shape of 'probe' collides.*must be one that has some: 'ball', .*'rod'"):
        collision_surface(SCENE, model, "probe")
    with pytest.raises(ValueError, match=r"friction must be"):
        collision_surface(SCENE, model, friction=0.5)
    with pytest.raises(ValueError, match=r"frame must be the name of a link or body"):
        collision_surface(SCENE, model, 3)
    text = '<mujoco><worldbody><body name="a"><freejoint/><geom size="0.1"/></body></worldbody></mujoco>'
    with pytest.raises(ValueError, match=r"no shape of what does not move collides.*has some: 'a'"):
        collision_surface(text, jaxcfa.load_model(text))

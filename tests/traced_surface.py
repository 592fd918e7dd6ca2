"""Traces the public functions of the package, in both precisions; `test_annotations` says what for."""

import functools
from collections.abc import Callable
from importlib import resources

import jax
import jax.numpy as jnp
import numpy as np

import jaxcfa
from jaxcfa import contacts, environments, joints, spatial, structured
from jaxcfa.spatial import Matrix, Motion, Symmetric, Transform, Vector
from mechanisms import random_state
from public_functions import FUNCTIONS

# Of the small tree all but what is long to trace and made of the others.
_COMPOUND = (
    "rollout of loops",
    "linearize",
    "constrained_forward_dynamics, stabilised",
    "by cyclic reduction",
    "RCCFD1",
)
# On joints of all types, and in the other precision.
_SINGLE = ("integrate", "body_motions", "kinematics of motions", "inverse_dynamics", "mass_matrix", "regressor")
_SINGLE = (*_SINGLE, "forward_dynamics", "joint_reactions", "step", "with_inertial_parameters, inertial_parameters")


def trace() -> None:
    """Raises for what contradicts an annotation."""
    arm = resources.files("jaxcfa").joinpath("data/arm7.urdf").read_text()
    robot = jaxcfa.load_model(arm, floating_base=True, dtype="float32")
    # Whose numbers of bodies, of coordinates and of velocities differ, and one with joints of all types.
    options = {"branching": 0.9, "armature": 0.05, "dtype": "float64"}
    few = jaxcfa.random_tree(5, jax.random.key(1), [joints.Spherical, joints.Revolute], **options)
    tree = jaxcfa.random_tree(5, jax.random.key(1), **options)
    chain = jaxcfa.chain(2, dtype="float32")
    most = [name for name in FUNCTIONS if not any(part in name for part in _COMPOUND)]
    failures: list[str] = []
    for model, names in ((few, most), (tree, _SINGLE), (robot, _SINGLE), (chain, ("linearize", "combine"))):
        x = random_state(model)
        for name in names:
            _attempt(failures, f"{name} of {model}", FUNCTIONS[name].evaluate, model, x)
    cart_pole, acrobot = environments.CartPole(), environments.Acrobot(dtype="float32")
    hopper = jaxcfa.chain(2, floating_base=True)
    upright = jaxcfa.neutral(hopper).at[3:7].set(jnp.array([0.5, 0.0, 0.5, 0.0]) * 2**0.5)  # with its tip below
    walker = environments.Walker(hopper, jaxcfa.ground_contacts(hopper, "tip"), home=upright)
    for environment in (cart_pole, acrobot, environments.Reacher(chain, "tip", limit=1.0), walker):
        _attempt(failures, type(environment).__name__, functools.partial(_environment, environment))
    for dtype in (jnp.dtype("float32"), jnp.dtype("float64")):
        for name, function in _of_arrays(dtype).items():
            _attempt(failures, f"{name}, {dtype}", function)
    assert not failures, "\n\n".join(failures)


def _attempt(failures: list[str], name: str, function: Callable, *arguments) -> None:
    try:
        jax.eval_shape(function, *arguments)
    except Exception as error:
        failures.append(f"{name}: {type(error).__name__}: {str(error)[:1500]}")


def _environment(environment: environments.AbstractEnvironment) -> None:
    episodes = environments.AutoReset(environment, 3)
    state = episodes.reset(jax.random.key(0))
    environments.unroll(episodes, lambda obs, key: jnp.zeros(episodes.action_size), state, jax.random.key(1), 2)


def _of_arrays(dtype: jnp.dtype) -> dict[str, Callable]:
    """Functions that know of no model, by a name for the message."""
    return {
        "rotations": functools.partial(_rotations, dtype),
        "spatial vectors": functools.partial(_spatial_vectors, dtype),
        "components": functools.partial(_components, dtype),
        "structured": functools.partial(_structured, dtype),
        "surfaces": functools.partial(_surfaces, dtype),
        **{f"joint {joint}": functools.partial(_joint, joint, dtype) for joint in _JOINTS},
    }


def _surfaces(dtype: jnp.dtype) -> None:
    point = jnp.array([0.1, 0.2, 0.3], dtype)
    shapes = (
        contacts.Sphere(0.1),
        contacts.Capsule(point, -point, 0.1),
        contacts.Cylinder(0.1, 0.2),
        contacts.Box(point),
        contacts.Ellipsoid(point),
        contacts.ConvexHull(np.eye(4)[:, :3]),
        contacts.HeightField(jnp.ones((2, 3)), [0, 0], [1, 1], bounded=True),
        contacts.FlatGround(),
    )
    both = contacts.Union([contacts.Placed(shape, point) for shape in shapes])
    for surface in (both, contacts.Union([both, contacts.Rough(both, 0.5)])):
        jax.tree.map(lambda x: x.astype(dtype), surface).touch(point)


def _rotations(dtype: jnp.dtype) -> None:
    axis = jnp.ones((2, 3), dtype)
    q = spatial.random_quaternion(jax.random.key(0), dtype)
    spatial.quaternion_multiply(spatial.quaternion_conjugate(q), spatial.quaternion_exp(axis[0]))
    spatial.rotation_log(spatial.axis_angle_to_matrix(spatial.unit(axis), axis[:, 0]))
    spatial.quaternion_log(spatial.matrix_to_quaternion(spatial.quaternion_to_matrix(q)))
    pose = Transform(spatial.rotation_exp(axis), axis)
    (pose.inverse() @ pose).apply(axis)
    Transform.identity(dtype).as_matrix()
    for described in (
        Transform.from_quaternion(pose.as_quaternion(), axis[0]),
        Transform.from_rpy(*jnp.moveaxis(pose.as_rpy(), -1, 0), axis),
        Transform.from_axis_angle(*pose.as_axis_angle()),
        Transform.from_matrix(pose.as_matrix()),
        Transform.from_translation(axis),
        Transform.exp(pose.log()),
    ):
        described.as_rotation_vector()
    spatial.rpy_to_matrix(spatial.matrix_to_rpy(pose.rotation))
    spatial.matrix_to_axis_angle(pose.rotation)


def _spatial_vectors(dtype: jnp.dtype) -> None:
    x, r, turn, columns = (jnp.ones(shape, dtype) for shape in ((4, 6), (4, 3), (4, 3, 3), (4, 6, 2)))
    spatial.pack(r, r)
    for function in (spatial.shift_motion, spatial.shift_force):
        function(x, r)
        function(x[0], r[0])
    for function in (spatial.motion_cross, spatial.force_cross):
        function(x, x)
    spatial.rotate(turn, x)
    spatial.rotate_columns(turn, columns)
    spatial.shift_force_columns(columns, r)
    spatial.motion_transform(turn, r)
    inertia = spatial.Inertia.from_com(r[:, 0], r, turn)
    inertia.rotated(turn).shifted(r).mv(x)
    inertia.as_matrix()
    spatial.inverse_inertia(r[:, 0], r, turn)
    spatial.steiner(r, r)


def _components(dtype: jnp.dtype) -> None:
    """Components of one body, of several, and of the columns of a matrix."""
    for axes in ((), (4,), (4, 2)):
        vector, turn = Vector.of(jnp.ones((*axes, 3), dtype)), Matrix.of(jnp.ones((*axes, 3, 3), dtype))
        factor = vector.dot(vector.cross(-vector) + 2.0 * vector * vector.x)
        symmetric = Symmetric.of(turn.array()).congruent(turn).plus_diagonal(factor).plus_diagonal(1.0)
        (symmetric - symmetric + symmetric).array()
        ((turn.T @ turn - turn) @ (symmetric @ vector) - vector).array()
        motion = Motion.of(jnp.ones((*axes, 6), dtype)).at(vector).rotated(turn)
        rigid = spatial.RigidInertia.of_com(factor, vector.array(), turn.array()).rotated(turn).carried(vector)
        force = (rigid + rigid) @ (motion + motion * factor) + rigid.gyroscopic(vector)
        articulated = spatial.ArticulatedInertia.of(jnp.ones((*axes, 6, 6), dtype)).plus(rigid).carried(vector)
        force = force.carried(vector).rotated(turn) - (articulated + articulated).less_outer(force, force) @ motion
        motion.dot(force * factor)
        articulated.array()
        pose = spatial.Pose.of(Transform(turn.array(), vector.array()))
        (pose @ pose).arrays()
    columns = jnp.ones((6, 2), dtype)
    for kind in (Motion, spatial.Force):
        kind.columns(columns).combined(columns[0]).array()
        kind.columns(columns).matrix()
    # Columns are acted on by what has none.
    one = Matrix.of(jnp.ones((3, 3), dtype))
    (Motion.columns(columns).rotated(one).at(one.x) * 2.0).dot(spatial.Force.zero(dtype))
    spatial.Force.columns(columns).rotated(one).carried(one.x).matrix()
    spatial.RigidInertia.zero(dtype) @ Motion.columns(columns)
    spatial.ArticulatedInertia.zero(dtype) @ Motion.columns(columns)


def _structured(dtype: jnp.dtype) -> None:
    blocks, b = jnp.ones((5, 3, 3), dtype), jnp.ones((5, 3), dtype)
    schedules = (structured.Sequential(), structured.Associative(), structured.Doubling(), structured.Chunked(2))
    for schedule in schedules:
        structured.affine_scan(blocks, b, schedule)
        structured.prefix_sum(b, schedule, reverse=True)
        structured.BlockBidiagonal(blocks).solve(blocks, schedule)
    tree = structured.TreeSchedule(np.array([-1, 0, 1, 1, 0]))
    for schedule in (structured.Sequential(), structured.Doubling(), structured.Levels(), structured.AncestorMask()):
        schedule.ancestor_sum(tree, b)
        schedule.subtree_sum(tree, b)
    bidiagonal = structured.BlockBidiagonal(blocks).T
    bidiagonal.mv(b)
    bidiagonal.as_matrix()
    tridiagonal = structured.BlockTridiagonal(blocks, blocks[1:])
    tridiagonal.mv(blocks)
    tridiagonal.as_matrix()
    exact = (structured.BlockLDL(), structured.OddEvenElimination(), structured.CyclicReduction())
    for solver in (*exact, structured.Refined(exact[0])):
        tridiagonal.factor(solver).solve(b)
    system = structured.EdgeSystem(tree, blocks, blocks, blocks, blocks, blocks)
    system.as_matrix()
    system.with_unit_diagonal()
    for edges in (structured.ChainsAndNodes(), structured.LeafToRoot(), structured.Dense()):
        system.mv(edges.factor(system).solve(blocks))
    structured.spd_solve(blocks, b)
    structured.spd_inverse(blocks)
    structured.ldl_solve(structured.ldl_factor(blocks, 0.1), blocks)
    structured.change_of_basis(blocks[0], blocks[0, :, :2])
    port = structured.TwoPort(blocks[0], blocks[1], blocks[2])
    structured.star_product(port, port)
    structured.sweep_outward(tree, lambda value, x: (value + x, value), b[0], [b])
    structured.sweep_inward(tree, lambda value, x: (value + x, value), b[0], [b])


_JOINTS = (
    *(joints.Revolute((0, 1, 0)), joints.Prismatic((0, 0, 1)), joints.Helical((0, 0, 1), 0.1)),
    *(joints.Cylindrical((1, 0, 0)), joints.Universal((1, 0, 0), (0, 1, 0)), joints.Planar((1, 0, 0), (0, 1, 0))),
    *(joints.Spherical(), joints.Free(), joints.Fixed(), joints.Anchored(joints.Spherical(), (0.1, 0.2, 0.3))),
    joints.Composite((joints.Prismatic((0, 0, 1)), joints.Spherical())),
)


def _joint(joint: joints.AbstractJoint, dtype: jnp.dtype) -> None:
    joint = jax.tree.map(lambda x: jnp.asarray(x, dtype), joint)
    q, v = joint.neutral(), jnp.ones(joint.nv, dtype)
    joint.transform(q).apply(jnp.ones(3, dtype))
    joint.motion_subspace(q)
    joint.bias(q, v)
    joint.difference(q, joint.integrate(q, v))
    limits = jnp.full(joint.nq, jnp.inf, dtype)
    joint.random(jax.random.key(0), -limits, limits)

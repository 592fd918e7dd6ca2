"""Thrusters: actuators that push on frames."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close, cast
from jaxcfa.actuation import actuator_forces
from jaxcfa.joints import Free, Revolute

FORCE, MOMENT = np.array([[0.0, 0.0, 2.0], [0.3, 0.0, 1.0], [1.0, 2.0, 3.0]]), np.array([0.1, -0.2, 0.3])
FRAMES = ("rotor", "arm", "tip")
CONTROL = jnp.array([0.5, 2.0, -1.0])


def drone() -> jaxcfa.Model:
    """A free body with a rotor, and an arm of two joints with a tip; and a body on the world beside it."""
    builder = jaxcfa.ModelBuilder()
    shape = {"mass": 1.0, "inertia": 0.1, "com": (0.1, 0.0, 0.0)}
    builder.add_body("hull", joint=Free(), **shape)
    builder.add_body("arm", "hull", Revolute((0, 1, 0)), (0.1, 0, 0), **shape, joint_name="shoulder")
    builder.add_body("hand", "arm", Revolute((1, 1, 0)), (0.3, 0.1, 0), **shape, joint_name="wrist")
    builder.add_body("post", None, Revolute((0, 0, 1)), **shape, joint_name="swivel")
    turned = jaxcfa.Transform.from_rpy(0.3, -0.2, 0.5, (0.2, 0.1, -0.1))
    builder.add_frame("rotor", "hull", turned)
    builder.add_frame("tip", "hand", turned)
    builder.add_frame("floor", None)
    return builder.build()


def driven(model: jaxcfa.Model) -> jaxcfa.Model:
    return jaxcfa.add_thrusters(model, FRAMES, FORCE, MOMENT, lower=[0, 0, -2], upper=1.5)


def state(model: jaxcfa.Model, dtype=None):
    q = jaxcfa.random_configuration(model, jax.random.key(1))
    return cast((q, jnp.linspace(-1.0, 1.0, model.nv)), dtype or model.dtype)


def pushed(model: jaxcfa.Model, q, forces) -> np.ndarray:
    """What the thrusters, which push so hard, do to the joints: by the Jacobians in world axes."""
    total = np.zeros(model.nv)
    for frame, force, u in zip(FRAMES, FORCE, np.asarray(forces, float), strict=True):
        turn = np.asarray(jaxcfa.frame_pose(model, q, frame).rotation, float)
        wrench = u * np.concatenate([turn @ MOMENT, turn @ force])
        total += np.asarray(jaxcfa.jacobian(model, q, frame), float).T @ wrench
    return total


def test_forces_turn_with_the_frames_and_are_limited(dtype):
    model = cast(driven(drone()), dtype)
    q, v = state(model, dtype)
    tau = jax.jit(actuator_forces)(model, q, v, CONTROL.astype(dtype))
    assert tau.dtype == dtype
    assert_close(tau, pushed(model, q, [0.5, 1.5, -1.0]))


def test_derivatives():
    model = driven(drone())
    q, v = state(model)

    def force(x, frame_placement):
        at = jaxcfa.integrate(model, q, x)
        return actuator_forces(
            eqx.tree_at(lambda m: m.frame_placement.translation, model, frame_placement), at, v, CONTROL
        )

    x, place = jnp.zeros(model.nv), model.frame_placement.translation
    direction = jnp.linspace(0.5, -1.0, model.nv)
    step = 1e-6
    difference = (force(step * direction, place) - force(-step * direction, place)) / (2 * step)
    assert_close(jax.jvp(lambda y: force(y, place), (x,), (direction,))[1], difference, 1e-8)
    by_place = jax.jacrev(force, 1)(x, place)
    assert_close(by_place, jax.jacfwd(force, 1)(x, place))
    assert np.any(np.asarray(by_place) != 0)
    assert np.all(np.isfinite(jax.hessian(lambda y: jnp.sum(force(y, place) ** 2))(x)))


def test_models_taken_apart_and_put_together_are_pushed_alike():
    model = driven(drone())
    q, v = state(model)
    whole = np.asarray(actuator_forces(model, q, v, CONTROL))
    pair = jaxcfa.combine([model, model], ["left ", "right "])
    both = actuator_forces(pair, jnp.tile(q, 2), jnp.tile(v, 2), jnp.concatenate([CONTROL, 0 * CONTROL]))
    assert_close(both, np.concatenate([whole, 0 * whole]))
    assert pair.actuators.frames[3:] == tuple(f"right {frame}" for frame in FRAMES)
    locked = jaxcfa.lock_joints(model, ["shoulder", "swivel"], q)
    assert locked.actuators.frames == FRAMES
    keep = np.r_[:6, 7]
    assert_close(actuator_forces(locked, q[np.r_[:7, 8]], v[keep], CONTROL), whole[keep])
    arm = jaxcfa.subtree(model, "arm")
    assert (arm.actuators.names, arm.actuators.frames) == (("arm", "tip"), ("arm", "tip"))
    # The joint keeps its placement, so that forces on its own axes are what they are on the hull.
    assert_close(actuator_forces(arm, q[7:9], v[6:8], CONTROL[1:]), whole[6:8])
    assert jaxcfa.subtree(model, "post").actuators.names == ()
    on_post = jaxcfa.attach(jaxcfa.subtree(drone(), "post"), "post", model, prefix="new ")
    assert on_post.actuators.frames == tuple(f"new {frame}" for frame in FRAMES)
    renamed = jaxcfa.rename(model, {"rotor": "propeller", "tip": "end"})
    assert renamed.actuators.names == renamed.actuators.frames == ("propeller", "arm", "end")
    # Of what is fixed to the world nothing is left to be pushed.
    still = jaxcfa.lock_joints(model, ["hull_joint", "shoulder"])
    assert still.actuators.names == ("tip",)


def test_traced_models_and_directions(tmp_path):
    model = drone()
    q, v = state(model)

    @jax.vmap
    def forces(direction):
        return actuator_forces(jaxcfa.add_thrusters(model, "rotor", direction, upper=2 * direction[2]), q, v, [1.0])

    directions = jnp.array([[0, 0, 1.0], [0, 1.0, 0.4]])
    for direction, found in zip(directions, forces(directions), strict=True):
        one = jaxcfa.add_thrusters(model, ["rotor"], direction, upper=float(2 * direction[2]))
        assert_close(found, actuator_forces(one, q, v, [1.0]))
    path = tmp_path / "drone.npz"
    jaxcfa.save_model(path, driven(model))
    again = jaxcfa.load_model(path)
    assert_close(actuator_forces(again, q, v, CONTROL), actuator_forces(driven(model), q, v, CONTROL))


def test_a_quadrotor_hovers():
    builder = jaxcfa.ModelBuilder()
    builder.add_body("body", joint=Free(), mass=0.8, inertia=(0.004, 0.005, 0.008))
    places = 0.1 * np.array([[1, 1, 0], [1, -1, 0], [-1, -1, 0], [-1, 1, 0]])
    for i, place in enumerate(places):
        builder.add_frame(f"rotor{i}", "body", place)
    drag = [[0, 0, 0.02 * (-1) ** i] for i in range(4)]
    model = jaxcfa.add_thrusters(builder.build(), [f"rotor{i}" for i in range(4)], moment=drag, lower=0, upper=5)
    q, still = jaxcfa.neutral(model).at[2].set(1.0), jnp.zeros(6)
    hover = jnp.full(4, -model.mass[0] * model.gravity[2] / 4)
    motion = jaxcfa.rollout(model, q, still, jnp.tile(hover, (20, 1)), dt=0.01, actuated="actuators")
    assert_close(motion.q[-1], q)
    # More of the two that turn one way: the body turns the other way about z, and does not climb.
    turn = hover + 0.1 * jnp.array([1, -1, 1, -1])
    motion = jaxcfa.rollout(model, q, still, jnp.tile(turn, (20, 1)), dt=0.01, actuated="actuators")
    assert_close(motion.v[-1], np.array([0, 0, 0, 0, 0, 0.2 * 4 * 0.1 * 0.02 / 0.008]))


@pytest.mark.parametrize(
    ("message", "frames", "options"),
    [
        ("No frame or body named 'wing'", "wing", {}),
        ("'floor' is fixed to the world", ["rotor", "floor"], {}),
        ("fixed to the world", -1, {}),
        ("one frame or more, and a name for each", [], {}),
        ("one frame or more, and a name for each", ["rotor", "tip"], {"names": ["one"]}),
        ("Two thrusters would be named 'rotor'; give each a name", ["rotor", "rotor"], {}),
        ("The name of a thruster must be a string", "rotor", {"names": [3]}),
        (
            r"force must have shape \(n, 3\) = \(2, 3\), one for each frame, got \(3, 3\)",
            ["rotor", "tip"],
            {"force": FORCE},
        ),
        ("moment must be finite", "rotor", {"moment": [0, 0, np.nan]}),
        ("upper must be one number, or one for each of 2 thrusters", ["rotor", "tip"], {"upper": [1, 2, 3]}),
        ("lower must not be NaN", "rotor", {"lower": np.nan}),
        ("lower must not be above upper", ["rotor", "tip"], {"lower": 0, "upper": [1, -1]}),
    ],
)
def test_what_cannot_push(message, frames, options):
    with pytest.raises(ValueError, match=message):
        jaxcfa.add_thrusters(drone(), frames, **options)


def test_names_that_are_taken_and_batches():
    model = driven(drone())
    with pytest.raises(ValueError, match="The model has an actuator named 'rotor'"):
        jaxcfa.add_thrusters(model, "rotor")
    twice = jaxcfa.add_thrusters(model, ["rotor", "rotor"], names=["up", "down"])
    assert twice.actuators.names[3:] == ("up", "down")
    heavy = jax.vmap(lambda x: jaxcfa.with_body(model, "hull", mass=x))(jnp.ones(2))
    with pytest.raises(ValueError, match="add_thrusters takes single models"):
        jaxcfa.add_thrusters(heavy, "rotor", names="up")

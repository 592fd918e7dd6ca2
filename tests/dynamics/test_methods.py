"""Every algorithm for forward dynamics against the sequential articulated-body algorithm, and inverse dynamics."""

import functools
import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa import ABA, CFA, JSI
from jaxcfa.defaults import choose_schedule
from jaxcfa.joints import Fixed, Revolute, Spherical
from jaxcfa.structured import (
    AncestorMask,
    BlockLDL,
    ChainsAndNodes,
    Chunked,
    CyclicReduction,
    Dense,
    Doubling,
    LeafToRoot,
    Levels,
    OddEvenElimination,
    Refined,
    Sequential,
)
from mechanisms import mechanism, random_state, trees
from program_size import equations, loop_trips

METHODS = {
    "CFA by odd-even elimination": CFA(),
    "CFA by cyclic reduction": CFA(CyclicReduction(levels=1)),
    "CFA by block LDL": CFA(BlockLDL()),
    "CFA from leaves to roots": CFA(LeafToRoot()),
    "CFA with side branches": CFA(side_branches=3),
    "JSI": JSI(),
    "hybrid ABA": ABA("hybrid"),
    "scanned ABA": ABA("scan"),
}
PARALLEL = ("CFA by odd-even elimination", "CFA by cyclic reduction", "scanned ABA")


@functools.cache
def compiled(method):
    return jax.jit(lambda model, q, v, tau, f_ext: jaxcfa.joint_reactions(model, q, v, tau, f_ext, method))


def reference(model, q, v, tau, f_ext):
    return compiled(ABA())(model, q, v, tau, f_ext)


def joint_wrenches(model, q, v, qdd, f_ext):
    """By inverse dynamics body by body: rates of momentum of all that a joint carries, about the body's origin."""
    pose = jaxcfa.forward_kinematics(model, q)
    rotation, origin = np.asarray(pose.rotation), np.asarray(pose.translation)
    angular = np.asarray(jaxcfa.body_velocities(model, q, v))[:, :3]
    acceleration = np.asarray(jaxcfa.body_accelerations(model, q, v, qdd))
    total = -np.asarray(f_ext).copy()
    for body in reversed(range(model.nb)):
        inertia = rotation[body] @ np.asarray(model.inertia[body]) @ rotation[body].T
        lever, w, alpha = rotation[body] @ np.asarray(model.com[body]), angular[body], acceleration[body, :3]
        com = acceleration[body, 3:] + np.cross(alpha, lever) + np.cross(w, np.cross(w, lever))
        force = float(model.mass[body]) * (com - np.asarray(model.gravity))
        total[body, 3:] += force
        total[body, :3] += inertia @ alpha + np.cross(w, inertia @ w) + np.cross(lever, force)
        parent = model.topology.parents[body]
        if parent >= 0:
            total[parent, 3:] += total[body, 3:]
            total[parent, :3] += total[body, :3] + np.cross(origin[body] - origin[parent], total[body, 3:])
    return total


@functools.cache
def forest():
    """All mechanisms, small and large, so that each method is one program."""
    small = mechanism("all together")
    options = {"branching": 0.4, "floating_base": True, "armature": 0.02, "gravity": small.gravity}
    return jaxcfa.combine([small, jaxcfa.random_tree(64, jax.random.key(20_240_229), **options)], ["", LARGE])


LARGE = "64 bodies: "


@pytest.mark.parametrize(
    "method", [name if name in PARALLEL else pytest.param(name, marks=pytest.mark.slow) for name in METHODS]
)
def test_methods_agree(method):
    model = forest()
    state = random_state(model)
    qdd, wrenches = compiled(METHODS[method])(model, *state)
    expected = reference(model, *state)
    for tree in trees(model):
        rtol = 1e-10 if tree.name.startswith(LARGE) else 1e-11
        found = qdd[tree.dofs], wrenches[tree.bodies]
        assert_close(found, (expected[0][tree.dofs], expected[1][tree.bodies]), rtol, tree.name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["humanoid-like", "free body"])
@pytest.mark.parametrize("method", ["CFA by odd-even elimination", "scanned ABA"])
def test_methods_agree_on_mechanisms_alone(method, name):
    """Several loops over bodies, and none at all."""
    model = mechanism(name)
    state = random_state(model)
    assert_close(compiled(METHODS[method])(model, *state), reference(model, *state), 1e-11)


def test_reactions_are_rates_of_momentum():
    model = forest()
    q, v, tau, f_ext = random_state(model)
    qdd, wrenches = reference(model, q, v, tau, f_ext)
    expected = joint_wrenches(model, q, v, qdd, f_ext)
    columns = jaxcfa.body_motions(model, q).subspace_columns
    along = np.sum(columns * wrenches[model.topology.dof_bodies], axis=1)
    torques = tau - model.armature * qdd
    for tree in trees(model):
        assert_close(wrenches[tree.bodies], expected[tree.bodies], what=tree.name)
        assert_close(along[tree.dofs], torques[tree.dofs], what=tree.name)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["CFA by odd-even elimination", "scanned ABA"])
def test_single_precision(method):
    model = mechanism("humanoid-like", "float32")
    state = random_state(model)
    qdd, wrenches = compiled(METHODS[method])(model, *state)
    assert qdd.dtype == wrenches.dtype == np.float32
    double = reference(mechanism("humanoid-like"), *(np.asarray(x, np.float64) for x in state))
    assert_close((qdd, wrenches), double, 3e-5)


def in_other_units(model, length, mass):
    """The same mechanism of joints without displacements; accelerations stay what they are."""
    inertia = mass * length**2
    return eqx.tree_at(
        lambda m: (m.placement.translation, m.com, m.mass, m.inertia, m.armature, m.gravity),
        model,
        (
            model.placement.translation * length,
            model.com * length,
            model.mass * mass,
            model.inertia * inertia,
            model.armature * inertia,
            model.gravity * length,
        ),
    )


@functools.cache
def tree_and_chain(dtype):
    """A tree of joints without displacements, and a chain whose armature can be anything."""
    tree = jaxcfa.random_tree(8, jax.random.key(20_240_229), [Revolute, Spherical], armature=0.05)
    return jaxcfa.combine([tree, jaxcfa.chain(7)], ["", "chain: "]).astype(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["CFA by odd-even elimination", "CFA from leaves to roots", "scanned ABA", "JSI"])
def test_units_do_not_matter(method, dtype):
    """From watches to cranes: the same digits."""
    model = tree_and_chain(dtype)
    q, v, tau, _ = random_state(model)
    f_ext = jnp.zeros((model.nb, 6), dtype)
    expected = reference(model, q, v, tau, f_ext)[0]
    for length, mass in ((1.0, 1.0), (1e-3, 1e-7), (1.0, 1e6), (1e2, 1e-2)):
        scaled, torque = in_other_units(model, length, mass), tau * (mass * length**2)
        found = compiled(METHODS[method])(scaled, q, v, torque, f_ext)[0]
        for tree in trees(model):
            assert_close(found[tree.dofs], expected[tree.dofs], 1e-11 if dtype == np.float64 else 1e-4, tree.name)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["CFA by odd-even elimination", "scanned ABA"])
def test_armature_of_any_size(method, dtype):
    model = tree_and_chain(dtype)
    chain = trees(model)[-1].dofs
    q, v, tau, f_ext = random_state(model)
    for armature in (0.0, 1e-6, 1.0, 1e3, 1e6):
        heavy = eqx.tree_at(lambda m: m.armature, model, model.armature.at[chain].set(armature))
        double = heavy.astype(np.float64)
        expected = reference(double, *(x.astype(np.float64) for x in (q, v, tau, f_ext)))[0][chain]
        found = compiled(METHODS[method])(heavy, q, v, tau, f_ext)[0][chain]
        error = np.max(np.abs(found - expected)) / np.max(np.abs(expected))
        assert error < (1e-11 if dtype == np.float64 else 1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_nothing_that_moves(method):
    model, empty = jaxcfa.ModelBuilder().build(), jnp.zeros(0)
    qdd, wrenches = jaxcfa.joint_reactions(model, empty, empty, empty, method=METHODS[method])
    assert qdd.shape == (0,)
    assert wrenches.shape == (0, 6)
    for schedule in (Doubling(), Levels(), AncestorMask()):
        assert jaxcfa.inverse_dynamics(model, empty, empty, empty, schedule=schedule).shape == (0,)
        assert jaxcfa.body_accelerations(model, empty, empty, empty, schedule=schedule).shape == (0, 6)
        assert jaxcfa.generalized_forces(model, empty, np.zeros((0, 6)), schedule).shape == (0,)


@pytest.mark.parametrize("method", METHODS)
def test_fixed_joints_alone(method):
    model, empty = jaxcfa.chain(2, joint=Fixed(), dtype="float64"), jnp.zeros(0)
    qdd, wrenches = jax.jit(lambda x: jaxcfa.joint_reactions(model, x, x, x, method=METHODS[method]))(empty)
    assert qdd.shape == (0,)
    assert_close(wrenches[:, 3:], -np.array([[2.0], [1.0]]) * model.mass[:1] * model.gravity)


def long_chain(n, kind, dtype):
    rng = np.random.default_rng(0)
    axes = rng.normal(size=(n, 3)) if kind == "random axes" else np.tile([0.0, 1.0, 0.0], (n, 1))
    model = jaxcfa.chain(n, axes=axes / np.linalg.norm(axes, axis=1, keepdims=True), dtype=dtype)
    state = 0.0 if kind == "straight" else 1.0
    q, v, tau = (scale * rng.normal(size=n) for scale in (state * 0.6, state / np.sqrt(n), 1.0))
    return model, *(jnp.asarray(x.astype(np.float32), dtype) for x in (q, v, tau))


@functools.cache
def on_long_chain(n, kind, dtype, method):
    model, q, v, tau = long_chain(n, kind, dtype)
    return compiled(method)(model, q, v, tau, jnp.zeros((n, 6), dtype))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["random axes", "planar", "straight"])
@pytest.mark.parametrize("method", [*PARALLEL, "CFA by block LDL", "CFA from leaves to roots", "hybrid ABA"])
def test_long_chains(method, kind):
    """1024 links. Single precision loses what the orientation of the last link loses, whatever the algorithm."""
    expected = on_long_chain(1024, kind, "float64", ABA())
    found = on_long_chain(1024, kind, "float64", METHODS[method])
    assert_close(found[0], expected[0], 1e-10)
    # The reference's are those of inverse dynamics at its accelerations, whose rounding it magnifies by the length.
    assert_close(found[1], expected[1], 1e-7 if kind == "straight" else 1e-8)
    single = on_long_chain(1024, kind, "float32", METHODS[method])[0]
    assert_close(single, expected[0], 5e-5 if kind == "random axes" else 1e-5)


def test_bending_of_a_long_planar_chain_is_lost_in_single_precision():
    """Gravity across the plane of motion: CFA's error says so, and what to do."""
    model, q, v, tau = long_chain(256, "planar", "float32")
    sideways = eqx.tree_at(lambda m: m.gravity, model, jnp.array([0.0, 9.81, 0.0], jnp.float32))
    with pytest.raises(ValueError, match=r"CFA.* lost all digits .* Use ABA\(\), or float64"):
        jaxcfa.forward_dynamics(sideways, q, v, tau, method=CFA())
    assert np.all(np.isfinite(jaxcfa.forward_dynamics(model, q, v, tau, method=CFA())))


def along(scale, method):
    """A weighted sum of accelerations and reactions, on a way through models, states and loads."""
    model = mechanism("ball joints")
    q, v, tau, f_ext = random_state(model)
    weights = random_state(model, 3)
    heavier = eqx.tree_at(lambda m: (m.mass, m.com, m.armature), model, replace_fn=lambda x: x * scale)
    arguments = q * scale, v * scale, tau * scale, f_ext * scale
    qdd, wrenches = jaxcfa.joint_reactions(heavier, *arguments, method=method)
    return jnp.vdot(qdd, weights.qdd) + jnp.vdot(wrenches, weights.f_ext)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "mode"), [("CFA by odd-even elimination", "rev"), ("scanned ABA", "fwd")])
def test_derivatives_and_batches_of_models(method, mode):
    """Of accelerations and reactions, with respect to everything, for a batch of models."""
    mechanism("ball joints")  # models are not made while tracing

    def value_and_slope(scale):
        if mode == "rev":
            return jax.value_and_grad(lambda s: along(s, METHODS[method]))(scale)
        return jax.jvp(lambda s: along(s, METHODS[method]), (scale,), (1.0,))

    h = 1e-4
    scales = jnp.array([1.0, 1.2]) + h * jnp.arange(-2.0, 3.0)[:, None]
    values, slopes = jax.jit(jax.vmap(value_and_slope))(scales.ravel())
    values = values.reshape(scales.shape)
    by_differences = (8 * (values[3] - values[1]) - (values[4] - values[0])) / (12 * h)
    assert_close(slopes.reshape(scales.shape)[2], by_differences, 1e-8)


@functools.cache
def on_chain(n, method):
    """A function, which JAX traces once, and its argument."""
    model = jaxcfa.chain(n)
    return jax.jit(lambda q: jaxcfa.forward_dynamics(model, q, q, q, method=METHODS[method])), jnp.zeros(n)


@pytest.mark.parametrize("method", [*PARALLEL, "hybrid ABA", "JSI"])
def test_programs_do_not_grow(method):
    assert equations(*on_chain(2**12, method)) == equations(*on_chain(2**8, method))


@pytest.mark.parametrize("method", PARALLEL)
def test_number_of_steps_on_chains(method):
    """Grows with the logarithm of the length: by the same number when that is squared."""
    steps = [loop_trips(*on_chain(2**k, method)) for k in (4, 8, 12)]
    assert steps[2] - steps[1] == steps[1] - steps[0]
    assert steps[2] < 200


SCHEDULES = [("ball joints", schedule) for schedule in (Levels(), Doubling(), AncestorMask())]


@functools.cache
def everything(name, schedule):
    model = mechanism(name)
    last = model.nb - 1

    @jax.jit
    def run(q, v, qdd, f_ext):
        return {
            "torques": jaxcfa.inverse_dynamics(model, q, v, qdd, f_ext, schedule),
            "bias forces": jaxcfa.bias_forces(model, q, v, schedule=schedule),
            "bias forces with wrenches": jaxcfa.bias_forces(model, q, v, f_ext, schedule),
            "poses": jaxcfa.forward_kinematics(model, q, schedule),
            "pose of the last": jaxcfa.frame_pose(model, q, last, schedule),
            "velocities": jaxcfa.body_velocities(model, q, v, schedule),
            "accelerations": jaxcfa.body_accelerations(model, q, v, qdd, schedule),
            "jacobian": jaxcfa.jacobian(model, q, last, schedule=schedule),
            "drift": jaxcfa.jacobian_dot_v(model, q, v, last, schedule=schedule),
            "forces of wrenches": jaxcfa.generalized_forces(model, q, f_ext, schedule),
        }

    return run(*random_state(model))


@pytest.mark.parametrize(("name", "schedule"), [*SCHEDULES, ("straight chain", Chunked(4))], ids=str)
def test_schedules_of_inverse_dynamics_and_kinematics(name, schedule):
    found, expected = everything(name, schedule), everything(name, None)
    assert_close(found, expected, 1e-12)
    assert_close(found["forces of wrenches"], found["bias forces"] - expected["bias forces with wrenches"])
    assert_close(found["pose of the last"], jax.tree.map(lambda x: x[-1], expected["poses"]))


@pytest.mark.slow
def test_derivatives_of_scanned_inverse_dynamics():
    """In reverse mode, with respect to everything, against those of loops in forward mode in some directions."""
    model = mechanism("ball joints")
    arguments = model, *random_state(model)
    leaves, structure = jax.tree.flatten(arguments)
    rng = np.random.default_rng(0)
    along = [rng.normal(size=(5, *leaf.shape)) for leaf in leaves]

    def value(schedule, *arguments):
        torques = jaxcfa.inverse_dynamics(*arguments, schedule)
        return torques @ jnp.arange(1.0, 1.0 + torques.size)

    @jax.jit
    def slopes(arguments, along):
        gradient = jax.grad(functools.partial(value, Doubling()), argnums=range(5))(*arguments)
        by_gradient = jax.vmap(lambda x: sum(map(jnp.vdot, jax.tree.leaves(gradient), x)))(along)
        loops = functools.partial(value, Sequential())
        return by_gradient, jax.vmap(lambda x: jax.jvp(loops, arguments, jax.tree.unflatten(structure, x))[1])(along)

    assert_close(*slopes(arguments, along))


def with_massless(**wrist):
    """An arm whose wrist is between two links, and massless unless it is given something."""
    builder = jaxcfa.ModelBuilder()
    link = {"mass": 1.0, "com": (0.5, 0.0, 0.0), "inertia": 0.1}
    builder.add_body("upper", joint=Revolute((0, 1, 0)), **link)
    builder.add_body("wrist", "upper", Revolute((0, 0, 1)), (1.0, 0.0, 0.0), **wrist)
    builder.add_body("hand", "wrist", Revolute((0, 1, 0)), **link)
    return builder.build()


def test_bodies_without_inertia_are_named():
    model, x, f_ext = with_massless(), jnp.ones(3), jnp.zeros((3, 6))
    messages = {
        CFA(): "positive definite inertia by itself, which body 'wrist' lacks. Use ABA",
        ABA("scan"): "its own body, which that of body 'wrist' does not",
    }
    for method, message in messages.items():
        with pytest.raises(ValueError, match=message):
            jaxcfa.forward_dynamics(model, x, x, x, method=method)
        with pytest.raises(ValueError, match=message):
            jax.jit(lambda q, m=method: jaxcfa.joint_reactions(model, q, q, q, method=m))(x)
    expected = reference(model, x, x, x, f_ext)
    for method in (ABA("hybrid"), JSI()):
        assert_close(compiled(method)(model, x, x, x, f_ext), expected)
    model = with_massless(armature=0.01)
    assert_close(compiled(ABA("scan"))(model, x, x, x, f_ext), reference(model, x, x, x, f_ext))


def test_massless_bodies_may_be_on_side_branches():
    """A camera's massless pan joint on the first of many links."""
    builder = jaxcfa.ModelBuilder()
    link = {"mass": 1.0, "com": (0.1, 0.2, 0.3), "inertia": (0.1, 0.2, 0.25)}
    parent = None
    for i in range(4):
        builder.add_body(f"link{i}", parent, Revolute((0, 1, 0)), (1.0, 0.0, 0.0), **link)
        parent = f"link{i}"
    builder.add_body("pan", "link0", Revolute((0, 0, 1)), (0.0, 0.1, 0.0))
    builder.add_body("camera", "pan", Revolute((0, 1, 0)), **link)
    model = builder.build()
    x, f_ext = jnp.linspace(0.5, 1.0, 6), jnp.zeros((6, 6))
    with pytest.raises(ValueError, match="'pan'"):
        jax.jit(lambda x: jaxcfa.forward_dynamics(model, x, x, x, method=CFA()))(x)
    assert_close(compiled(CFA(side_branches=2))(model, x, x, x, f_ext), reference(model, x, x, x, f_ext))


def test_options_are_checked():
    with pytest.raises(ValueError, match=r"one of 'sequential', 'hybrid', 'scan', or of .* got 'parallel'"):
        ABA("parallel")
    model = mechanism("straight chain")
    # Without the checks of types that the tests switch on, as users have it.
    with pytest.raises(ValueError, match=r"such as Doubling\(\)"):
        inspect.unwrap(choose_schedule)(model, "scan")


@pytest.mark.slow
def test_one_algorithm_is_one_object():
    """So that it is compiled once."""
    assert ABA(Sequential()) == ABA()
    assert ABA(Doubling()) == ABA("scan")
    assert ABA(Chunked(4)) not in (ABA(), ABA("scan"))


def test_solvers_can_be_given_whole():
    model = mechanism("humanoid-like")
    q, v, tau, _ = random_state(model)
    f_ext = jnp.zeros((model.nb, 6))
    expected = reference(model, q, v, tau, f_ext)[0]
    for solver in (ChainsAndNodes(Refined(OddEvenElimination())), Dense()):
        assert_close(compiled(CFA(solver))(model, q, v, tau, f_ext)[0], expected)


def test_defaults():
    """On CPUs the sequential algorithms; on accelerators the parallel one for deep mechanisms that allow it."""
    deep, chain, x = jaxcfa.chain(64), mechanism("straight chain"), np.zeros(6)
    with jaxcfa.compiling_for("cpu"):
        assert jaxcfa.default_method(deep) == jaxcfa.default_method(chain) == ABA()
    assert_close(jaxcfa.forward_dynamics(chain, x, x, x), jaxcfa.aba(chain, x, x, x), 0)
    with jaxcfa.compiling_for("gpu"):
        assert jaxcfa.default_method(deep) == ABA("scan")
        schedules = [jaxcfa.default_schedule(jaxcfa.chain(n)) for n in (15, 16, 64)]
        assert schedules == [Sequential(), Doubling(), Doubling()]
        assert [jaxcfa.default_method(jaxcfa.chain(n)) for n in (32, 33)] == [ABA(), ABA("scan")]
        assert jaxcfa.default_method(mechanism("humanoid-like")) == ABA()
        massless = eqx.tree_at(lambda m: (m.mass, m.inertia), deep, (deep.mass.at[5].set(0), deep.inertia.at[5].set(0)))
        assert jaxcfa.default_method(massless) == ABA()

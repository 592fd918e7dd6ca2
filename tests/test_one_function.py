"""Parts of programs as one function: their values, batches, derivatives, and that XLA can compile them."""

import functools
import gc
import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.extend.core import Primitive

import jaxcfa
from helpers import assert_close
from jaxcfa import inverse_kinematics
from jaxcfa.one_function import _able, _last_axis, as_one_function, is_one_function, without_marks
from jaxcfa.one_function._cuts import without_repetition
from jaxcfa.structured._lane_loop import _first, lane_loop

MARK = "xla_cpu_small_call"


def compiled(function, *arguments):
    return jax.jit(function).lower(*arguments).compile()


def plain(function, *arguments):
    with without_marks():
        return jax.jit(lambda *x: function(*x))(*arguments)


def wave(x, y, scale):
    """A loop, and an argument that does not count."""
    carry, each = jax.lax.scan(lambda c, a: (jnp.sin(c) + a * scale, c * a), y[0], x)
    return {"last": carry + y, "each": each + 0 * y[1]}


marked_wave = as_one_function(wave)
handed_wave = as_one_function(wave, handed_on=True)


def doubled_wave(x, y):
    return marked_wave(x, y, 2.0)["each"]


def test_all_names_are_those_of_primitives():
    """What another version of JAX calls by another name would become slow, and nobody would be told."""
    known = {x.name for x in gc.get_objects() if isinstance(x, Primitive)}
    tables = _able._ABLE, _last_axis._NUMBERWISE, _last_axis._BY_AXES, _last_axis._CALLS, _last_axis._RULES
    assert set().union(*tables) - known <= {"closed_call"}  # of JAX before 0.11


def test_batches_of_no_states():
    x = jnp.zeros((0, 4))
    found = compiled(jax.vmap(marked_wave, (0, 0, None)), x, x, 2.0)(x, x, 2.0)
    assert {name: value.shape for name, value in found.items()} == {"last": (0, 4), "each": (0, 4)}


@pytest.mark.parametrize("size", [1, 2, 5, 128, 300])
def test_batches_of_any_size_are_those_of_the_function(size):
    x, y = (jnp.asarray(a) for a in np.random.default_rng(0).normal(size=(2, size, 4)))
    program = compiled(jax.vmap(marked_wave, (0, 0, None)), x, y, 2.0)
    assert MARK in program.as_text()
    assert_close(program(x, y, 2.0), jax.vmap(wave, (0, 0, None))(x, y, 2.0), rtol=1e-12)


@pytest.mark.parametrize("function", [marked_wave, handed_wave])
def test_batches_of_batches(function):
    x, y = (jnp.asarray(a) for a in np.random.default_rng(0).normal(size=(2, 3, 40, 4)))
    both = jax.jit(jax.vmap(jax.vmap(function, (0, 0, None)), (0, 0, None)))(x, y, 2.0)
    assert_close(both, jax.vmap(jax.vmap(wave, (0, 0, None)), (0, 0, None))(x, y, 2.0), rtol=1e-12)
    crossed = jax.jit(jax.vmap(jax.vmap(function, (None, 0, None)), (0, None, None)))(x[:, 0], y[0], 2.0)
    expected = jax.vmap(jax.vmap(wave, (None, 0, None)), (0, None, None))(x[:, 0], y[0], 2.0)
    assert_close(crossed, expected, rtol=1e-12)


def assembled(x, y):
    """Results that are put together of parts: from numbers and arrays, along all axes, and by what is picked."""
    a, b = jnp.sin(x), x * y
    matrix = jnp.stack([jnp.stack([a, b], axis=1), jnp.stack([b, a], axis=1)], axis=1)
    row = jnp.concatenate([a[None, :2], b[None], x[None, 1:]], axis=1)
    return {
        "matrix": matrix,
        "turned": jnp.concatenate([jnp.transpose(matrix, (2, 0, 1)), y[None, :, None] * jnp.ones((1, 1, 2))]),
        "row": jnp.concatenate([row, 2 * row, row]),
        "numbers": jnp.stack([a[0], b[1], jnp.zeros(()), x[2]]),
        "many": jnp.stack([a * i for i in range(70)]),
        "many of many": jnp.stack([jnp.stack([b + i * j for i in range(9)], axis=-1) for j in range(9)]),
        "picked": jnp.append(a, b)[np.array([[7, 0], [1, 1], [4, 6]])],
        "argument": x,
        "nothing": jnp.concatenate([a[:0], b[4:]]),
    }


@pytest.mark.compiled
@pytest.mark.parametrize("handed_on", [False, True])
@pytest.mark.parametrize("size", [20, 300])
def test_results_are_put_together_of_parts(size, handed_on):
    x, y = (jnp.asarray(a) for a in np.random.default_rng(0).normal(size=(2, size, 4)))
    found = jax.jit(jax.vmap(as_one_function(assembled, handed_on=handed_on)))(x, y)
    assert_close(found, jax.vmap(assembled)(x, y), rtol=1e-14)


def test_what_is_handed_on_keeps_its_axes():
    """Batches of one function and of two, of one such function that takes what another one returns, and derivatives."""

    def twice(function, x, y):
        first = function(x, y, 2.0)
        return function(first["each"], first["last"], 0.5)["last"]

    marked, expected = (functools.partial(twice, f) for f in (handed_wave, wave))
    x, y = (jnp.asarray(a) for a in np.random.default_rng(0).normal(size=(2, 3, 150, 4)))
    assert "transpose" not in str(jax.make_jaxpr(jax.vmap(marked, -1, -1))(x[0], x[0]))
    found, known = (
        [
            jax.jit(jax.vmap(f))(x[0], y[0]),
            jax.jit(jax.vmap(f, (1, None), 1))(x[0].T, y[0, 0]),
            jax.jit(jax.vmap(jax.vmap(f, (0, 1), 1), (0, 2)))(x, y.T),
            jax.jit(jax.vmap(jax.vmap(f, (None, 0)), (0, None)))(x[:, 0], y[0]),
            jax.jit(jax.grad(lambda x, y, f=f: jnp.sum(jax.vmap(f)(x, y) ** 2), (0, 1)))(x[0], y[0]),
            jax.jit(jax.vmap(jax.jacfwd(f, (0, 1)), (0, None)))(x[0], y[0, 0]),
        ]
        for f in (marked, expected)
    )
    assert_close(found, known, rtol=1e-12)


def test_derivatives_are_those_of_the_function():
    x, y = (jnp.asarray(a) for a in np.random.default_rng(0).normal(size=(2, 20, 4)))

    def total(function, x, y, scale):
        found = jax.vmap(function, (0, 0, None))(x, y, scale)
        return jnp.sum(found["last"] ** 2) + jnp.sum(found["each"])

    for derivative in (jax.grad, jax.hessian, lambda f, argnums: jax.jacfwd(jax.grad(f, argnums), argnums)):
        for argument in (1, 2):
            marked, expected = (
                jax.jit(derivative(lambda x, y, s, f=f: total(f, x, y, s), argument))(x, y, 2.0)
                for f in (marked_wave, wave)
            )
            assert_close(marked, expected, rtol=1e-12)


def test_derivatives_of_one_state_and_of_batches_in_every_order():
    x, y = (jnp.asarray(a) for a in np.random.default_rng(0).normal(size=(2, 20, 4)))
    scale = jnp.asarray(1.5)

    def products(function):
        """Several results, a sum of products, and a number whose derivative needs none of them."""

        def run(x, y, scale):
            found = function(x, y, scale)
            return found["last"], jnp.sum(found["each"] * x, 0) + scale

        return run

    def everything(f, x, y, scale):
        first, over_states = (0, 1, 2), functools.partial(jax.vmap, in_axes=(0, 0, None))
        modes = jax.jacfwd, jax.jacrev
        along = lambda y_dot: jax.jvp(lambda y: f(x[0], y, scale), (y[0],), (y_dot,))[1]  # noqa: E731
        return [
            [derivative(f, first)(x[:3, 0], y[0], scale) for derivative in modes],
            [over_states(derivative(f, first))(x, y, scale) for derivative in modes],
            [derivative(over_states(f), 2)(x, y, scale) for derivative in modes],
            [over_states(o(i(f, (1, 2)), (0, 2)))(x, y, scale) for o in modes for i in modes],
            jax.vmap(along)(y),  # many directions of one state, and back
            jax.vmap(jax.linear_transpose(along, y[0]))((y, y[:, 0])),
            jax.grad(jax.checkpoint(lambda y: jnp.sum(f(x[0], y, scale)[0] ** 3)))(y[0]),
        ]

    functions = as_one_function(products(wave)), products(wave)
    found, expected = (jax.jit(functools.partial(everything, f))(x, y, scale) for f in functions)
    assert_close(found, expected, rtol=1e-12)


def test_long_programs_are_several_functions():
    def long(x):
        for _ in range(250):
            x = 0.1 * x + 1 / (1 + x * x)
        return jnp.sort(x) * jnp.sum(x * x), jnp.arange(3.0)

    x = jnp.linspace(-1.0, 1.0, 60).reshape(20, 3)
    marked = as_one_function(long)
    one, batch = compiled(marked, x[0]), compiled(jax.vmap(marked), x)
    assert one.as_text().count(MARK) > 1
    assert_close(one(x[0]), long(x[0]), rtol=1e-12)
    assert_close(batch(x), jax.vmap(long)(x), rtol=1e-12)
    weights = jax.jit(jax.vmap(jax.grad(lambda x: marked(x)[0] @ jnp.arange(3.0))))(x)
    assert_close(weights, jax.vmap(jax.grad(lambda x: long(x)[0] @ jnp.arange(3.0)))(x), rtol=1e-12)


def test_arguments_that_are_results_are_handed_through():
    """Then batches do not repeat what they share, such as a model."""
    function = as_one_function(lambda x, y: {"given": [y, x], "product": x * y, "ones": jnp.ones(2)})
    x, y = jnp.ones((2, 3)), jnp.ones(3)
    program = jax.make_jaxpr(jax.vmap(function, (0, None), {"given": [None, 0], "product": 0, "ones": 0}))(x, y).jaxpr
    assert program.outvars[:2] == program.invars[::-1]
    _, rates = jax.jvp(jax.jit(function), (x[0], y), (2 * y, 3 * y))
    assert_close(rates, {"given": [3 * y, 2 * y], "product": 5 * y, "ones": jnp.zeros(2)}, rtol=0)


def test_arguments_that_are_constant_or_count_for_nothing():
    """XLA would stop the process at them."""
    x = jnp.ones(4)
    assert_close(jax.jit(lambda s: marked_wave(x, jnp.zeros(4), s))(2.0), wave(x, jnp.zeros(4), 2.0), rtol=1e-12)
    nothing = as_one_function(lambda x, y: (jnp.zeros(3), x * 0))
    assert_close(jax.jit(lambda x: nothing(x, 1.0))(x), (jnp.zeros(3), jnp.zeros(4)), rtol=0)
    many = jax.jit(jax.vmap(lambda x: nothing(jnp.ones(2), x)))(jnp.ones(200))
    assert many[0].shape == (200, 3)


@pytest.mark.compiled
def test_arrays_without_elements():
    """XLA would stop the process at them, if it simplifies no loops."""

    def function(x, nothing):
        products = jnp.outer(x, nothing) @ jnp.ones((0, 3)) + nothing.sum()
        total, rows = jax.lax.scan(lambda c, a: (c + a, jnp.concatenate([a * c, nothing])), x, products)
        total = total + jax.lax.dot(nothing, jnp.ones((0, 3)) * x)
        return total, rows, nothing * 2, jnp.zeros((2, 0)), jax.lax.fori_loop(0, 3, lambda _, n: n + 1, nothing)

    x, nothing = jnp.ones((20, 3)), jnp.zeros((20, 0))
    found = jax.jit(jax.vmap(as_one_function(function)))(x, nothing)
    assert_close(found, jax.vmap(function)(x, nothing), rtol=1e-12)
    assert_close(jax.jit(as_one_function(function))(x[0], nothing[0]), function(x[0], nothing[0]), rtol=1e-12)
    empty = jaxcfa.ModelBuilder().build()
    assert jax.jit(jax.vmap(lambda q: jaxcfa.forward_dynamics(empty, q, q, q)))(nothing).shape == (20, 0)


def test_what_xla_cannot_make_one_function_stays_in_parts():
    def function(a, b):
        total, _ = jax.lax.scan(lambda c, row: (c + row, None), jnp.zeros(3), a)
        return jnp.linalg.solve(a @ a.T + jnp.eye(3), total), jnp.sort(b), b.at[jnp.argmax(b)].add(1.0)

    a, b = jnp.asarray(np.random.default_rng(0).normal(size=(3, 3))), jnp.arange(3.0)
    assert_close(jax.jit(as_one_function(function))(a, b), function(a, b), rtol=1e-12)
    batch = jax.jit(jax.vmap(as_one_function(function), (None, 0)))(a, jnp.tile(b, (150, 1)))
    assert_close(jax.tree.map(lambda x: x[-1], batch), function(a, b), rtol=1e-12)


@pytest.mark.parametrize("dtype", [pytest.param(jnp.float32, marks=pytest.mark.slow), jnp.float64])
def test_dynamics_are_marked(dtype):
    kinds = [jaxcfa.joints.Spherical, jaxcfa.joints.Revolute][: 1 if dtype == jnp.float64 else 2]
    model = jaxcfa.random_tree(5, jax.random.key(3), kinds, dtype=dtype)
    q = jax.vmap(lambda key: jaxcfa.random_configuration(model, key))(jax.random.split(jax.random.key(0), 150))
    v = jnp.ones((150, model.nv), dtype)

    def several(q, v):
        return (
            jaxcfa.forward_dynamics(model, q, v, v),
            jaxcfa.inverse_dynamics(model, q, v, v),
            jaxcfa.mass_matrix(model, q),
        )

    one, batch = compiled(several, q[0], v[0]), compiled(jax.vmap(several), q, v)
    assert one.as_text().count(MARK) >= 3
    assert MARK in batch.as_text()
    tolerance = 1e-9 if dtype == jnp.float64 else 2e-4
    assert_close(one(q[0], v[0]), plain(several, q[0], v[0]), rtol=tolerance)
    found = batch(q, v)
    for i in (0, 127, 128, 149):  # of several pieces
        assert_close(jax.tree.map(lambda x, i=i: x[i], found), one(q[i], v[i]), rtol=tolerance)


MASS = jaxcfa.mass_operator(jaxcfa.chain(3), np.ones(3))
FUNCTIONS_OF_A_STATE = {
    "poses": lambda model, q, v: jaxcfa.forward_kinematics(model, q),
    "frame": lambda model, q, v: jaxcfa.frame_pose(model, q, -1),
    "velocities": jaxcfa.body_velocities,
    "jacobian": lambda model, q, v: jaxcfa.jacobian(model, q, -1),
    "derivatives": lambda model, q, v: jaxcfa.forward_dynamics_derivatives(model, q, v, v),
    "inverse derivatives": lambda model, q, v: jaxcfa.inverse_dynamics_derivatives(model, q, v, v),
    "linearization": lambda model, q, v: jaxcfa.linearize(model, q, v, v, dt=0.1),
    "mass operator": lambda model, q, v: jaxcfa.mass_operator(model, q),
    "solution": lambda model, q, v: MASS.solve(v),
    "inverse kinematics": lambda model, q, v: (
        inverse_kinematics.solve(model, inverse_kinematics.FramePosition(model.frame_names[-1], v[:3]), q).q
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS_OF_A_STATE)
def test_functions_of_a_state_are_marked(name):
    """For one state and for two, which take two to three times as long where XLA starts every operation by itself."""
    model = jaxcfa.chain(3)
    q = v = jnp.linspace(-1.0, 1.0, 3)
    one = functools.partial(FUNCTIONS_OF_A_STATE[name], model)
    assert MARK in jax.jit(one).lower(q, v).as_text()
    assert MARK in jax.jit(jax.vmap(one)).lower(q[None].repeat(2, 0), v[None].repeat(2, 0)).as_text()


@pytest.mark.slow
def test_gradients_of_dynamics_are_marked_and_store_nothing():
    model = jaxcfa.chain(4)
    q = v = jnp.linspace(-1.0, 1.0, 600).reshape(150, 4)

    def total(q, v, tau):
        qdd = jaxcfa.forward_dynamics(model, q, v, tau)
        return jnp.sum(qdd**2) + jnp.sum(jaxcfa.inverse_dynamics(model, q, v, tau) ** 2)

    gradient = jax.vmap(jax.grad(total, argnums=(0, 1, 2)))
    program = compiled(gradient, q, v, v)
    assert program.as_text().count(MARK) >= 4
    assert_close(program(q, v, v), plain(gradient, q, v, v), rtol=1e-9)
    with without_marks():
        stored = compiled(lambda *x: gradient(*x), q, v, v)
    bytes_needed, bytes_stored = (x.memory_analysis().temp_size_in_bytes for x in (program, stored))
    assert bytes_needed < bytes_stored


def test_what_many_loops_share_is_not_computed_in_each_of_them():
    """Every round uses both results of the one before twice."""

    def rounds(x):
        y = x + 1
        for _ in range(30):
            x, y = 0.9 * x + 0.2 * y, 0.5 * x * y
        return x, y

    program = jax.make_jaxpr(rounds)(jnp.ones(40)).jaxpr
    pieces = without_repetition(program.eqns)
    assert [step for piece in pieces for step in piece] == list(program.eqns)
    assert 2 < len(pieces) < 12
    assert len(without_repetition(program.eqns[:20])) == 1
    given = jnp.linspace(-0.1, 0.1, 160).reshape(40, 4)
    batch = compiled(jax.vmap(as_one_function(rounds)), given)
    assert "within_one_function" in batch.as_text()
    assert_close(batch(given), rounds(given), rtol=1e-12)


def test_without_compilation():
    model = jaxcfa.chain(2)
    x = jnp.ones(2)
    with jax.disable_jit():
        found = jaxcfa.forward_dynamics(model, x, x, x)
    assert_close(found, jaxcfa.forward_dynamics(model, x, x, x), rtol=1e-6)


def test_models_and_states():
    model, x = jaxcfa.chain(3), jnp.linspace(0.0, 1.0, 60).reshape(20, 3)
    models = jax.vmap(lambda s: eqx.tree_at(lambda m: m.mass, model, model.mass * s))(jnp.linspace(1.0, 2.0, 4))

    def accelerations(model, x):
        return jaxcfa.forward_dynamics(model, x, x, x)

    found = jax.jit(jax.vmap(jax.vmap(accelerations, (None, 0)), (0, None)))(models, x)
    swapped = jax.jit(jax.vmap(jax.vmap(accelerations, (0, None)), (None, 0)))(models, x)
    assert_close(found, jnp.swapaxes(swapped, 0, 1), rtol=1e-9)
    one = jax.tree.map(lambda leaf: leaf[2] if eqx.is_array(leaf) else leaf, models)
    assert_close(found[2, 7], accelerations(one, x[7]), rtol=1e-9)


@pytest.mark.parametrize(
    "of_batch",
    [
        jax.vmap(lambda x: doubled_wave(x, jnp.cos(x))),
        jax.vmap(jax.vmap(doubled_wave, (None, 0)), (0, None)),
        jax.vmap(jax.grad(lambda x, y: jnp.sum(doubled_wave(x, y)))),
        jax.grad(lambda x, y: jnp.sum(jax.vmap(doubled_wave)(x, y))),
        jax.vmap(lambda x, y: lane_loop(lambda _, s: s[0] < 9, lambda c, s: s + c, 1 + y * y, x)),
        jaxcfa.batched(doubled_wave),
        jaxcfa.one_kernel(doubled_wave),
    ],
)
def test_programs_are_exported_for_batches_of_any_size(of_batch):
    number = len(inspect.signature(of_batch).parameters)
    (size,) = export.symbolic_shape("n")
    program = export.export(jax.jit(of_batch))(*[jax.ShapeDtypeStruct((size, 4), jnp.float64)] * number)
    for n in (1, 40):
        given = [jnp.asarray(x) for x in np.random.default_rng(n).normal(size=(number, n, 4))]
        assert_close(program.call(*given), of_batch(*given), rtol=1e-12)


def test_conditions_of_loops_depend_on_two_numbers_of_the_state():
    """Of a single one XLA wants to know whether it counts, and copies all that it is computed from."""
    loop = lane_loop(lambda _, x: x[0] < 9, lambda step, x: (x[0] + step, x[1]), 3.0, (jnp.zeros(()), jnp.ones(2)))
    assert loop[0] == 9
    program = jax.make_jaxpr(lambda x: lane_loop(lambda _, x: x < 9, lambda step, x: x + step, 3.0, x))(0.0).jaxpr
    text = str(program)
    assert text.count("while[") == 1
    (condition,) = [
        step.params["cond_jaxpr"].jaxpr
        for call in program.eqns
        for step in call.params["call"].jaxpr.eqns
        if step.primitive.name == "while"
    ]
    used = {x for step in condition.eqns for x in step.invars if not hasattr(x, "val")}
    assert len(used.intersection(condition.invars)) == 2


def test_those_that_had_the_fewest_turns_come_first():
    turns = np.random.default_rng(0).integers(0, 4, 300)
    turns[7] = np.iinfo(np.int32).max  # more than can be told apart: after all others that go on
    unfinished = np.random.default_rng(1).uniform(size=300) < 0.6
    unfinished[7] = True
    found = np.asarray(_first(jnp.asarray(unfinished), jnp.asarray(turns, jnp.int32)))
    assert sorted(found.tolist()) == list(range(300))
    number = np.sum(unfinished)
    assert np.all(unfinished[found[:number]])
    assert found[number - 1] == 7
    assert np.all(np.diff(turns[found[: number - 1]]) >= 0)


@pytest.mark.parametrize(("size", "expected"), [(None, 2), (1, 2), (2, 3), (40, 3)])
def test_single_states_may_have_a_program_of_their_own(size, expected):
    """Not alike: here they even differ in their values, so that it shows which one is used."""

    @functools.partial(as_one_function, derivatives=False, alike=False)
    def scaled(x, unused):
        return (3 if is_one_function() else 2) * x

    x = jnp.arange(1.0, 5) if size is None else jnp.arange(1.0, 1 + size)
    found = scaled(x, x) if size is None else jax.vmap(scaled)(x, x)
    assert_close(found, expected * x, rtol=1e-15)
    slope = jax.grad(lambda x: jnp.sum(scaled(x, x) if size is None else jax.vmap(scaled)(x, x)))(x)
    assert_close(slope, np.full(len(x), expected), rtol=1e-15)

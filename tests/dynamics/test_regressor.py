"""Inverse dynamics as a linear function of inertial parameters, and inertias that rigid bodies can have."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pinocchio as pin
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa.dynamics import LogCholesky, inertial_parameters, regressor, with_inertial_parameters
from jaxcfa.model import inertia_problems
from jaxcfa.structured import Doubling
from mechanisms import mechanism, random_state, random_states, trees
from robots import urdf_path


@jax.jit
def regressor_and_torques(model, q, v, qdd):
    """The regressor, and what it multiplies the inertial parameters to."""
    torques = jaxcfa.inverse_dynamics(model, q, v, qdd)
    return regressor(model, q, v, qdd), torques - model.armature * qdd


@jax.jit
def parallel_regressor(model, q, v, qdd):
    return regressor(model, q, v, qdd, Doubling())


def test_inverse_dynamics_is_linear():
    """Every type of joint, branches, several roots."""
    model = mechanism("all together")
    q, v, qdd, _ = random_state(model)
    matrix, torques = regressor_and_torques(model, q, v, qdd)
    assert matrix.shape == (model.nv, 10 * model.nb)
    found = matrix @ inertial_parameters(model).reshape(-1)
    for tree in trees(model):
        assert_close(found[tree.dofs], torques[tree.dofs], 1e-13, tree.name)


def test_parallel_schedules():
    model = mechanism("all together")
    q, v, qdd, _ = random_state(model)
    expected, _ = regressor_and_torques(model, q, v, qdd)
    assert_close(parallel_regressor(model, q, v, qdd), expected, 1e-13)


def test_the_regressor_is_the_derivative_by_the_parameters():
    model = mechanism("mixed tree")
    q, v, qdd, _ = random_state(model)

    @jax.jit
    def derivative(pi):
        return jax.jacfwd(lambda pi: jaxcfa.inverse_dynamics(with_inertial_parameters(model, pi), q, v, qdd))(pi)

    expected, _ = regressor_and_torques(model, q, v, qdd)
    assert_close(derivative(inertial_parameters(model)).reshape(model.nv, -1), expected, 1e-12)


def test_batches_in_single_precision():
    model = mechanism("mixed tree")
    states = random_states(model, 3)
    single = model.astype("float32")
    arguments = [x.astype("float32") for x in (states.q, states.v, states.qdd)]
    batch = jax.jit(jax.vmap(lambda *state: regressor(single, *state)))(*arguments)
    assert batch.dtype == jnp.float32
    for i in range(3):
        expected, _ = regressor_and_torques(model, states.q[i], states.v[i], states.qdd[i])
        assert_close(batch[i], expected, 1e-5)


@pytest.mark.filterwarnings("ignore::jaxcfa.io.ModelWarning")
@pytest.mark.parametrize(
    ("name", "floating_base"), [("panda.urdf", False), ("anymal_c_simple_description/urdf/anymal.urdf", True)]
)
def test_pinocchio(name, floating_base):
    path = urdf_path(name)
    model = jaxcfa.load_model(path, floating_base=floating_base).astype("float64")
    pin_model = pin.buildModelFromUrdf(str(path), *([pin.JointModelFreeFlyer()] if floating_base else []))
    coordinates = jaxcfa.convert.Pinocchio(model, pin_model)
    q, v, qdd, _ = random_state(model)

    @jax.jit
    def compute(q, v, qdd):
        arguments = coordinates.q_to(q), coordinates.v_to(q, v), coordinates.qdd_to(q, v, qdd)
        return regressor(model, q, v, qdd), coordinates.velocity_map(q), arguments

    ours, velocity_map, arguments = jax.device_get(compute(q, v, qdd))
    theirs = pin.computeJointTorqueRegressor(pin_model, pin_model.createData(), *arguments)
    # Joints and bodies are in the same order.
    assert_close(ours, velocity_map.T @ theirs, 1e-12)
    parameters = [inertia.toDynamicParameters() for inertia in list(pin_model.inertias)[1:]]
    assert_close(inertial_parameters(model), np.array(parameters), 1e-6)


@pytest.mark.filterwarnings("ignore::jaxcfa.io.ModelWarning")
def test_base_parameters_of_a_known_robot():
    """The Panda without its hand has 43 (Gaz et al. 2019)."""
    model = jaxcfa.load_model(urdf_path("panda.urdf")).astype("float64")
    states = np.random.default_rng(0).normal(size=(10, 3, model.nv))
    rows = np.concatenate([regressor_and_torques(model, *state)[0][:7, :70] for state in states])
    assert np.linalg.matrix_rank(rows, tol=1e-9) == 43


def test_nothing_that_moves():
    model = jaxcfa.ModelBuilder().build()
    assert regressor(model, *[np.zeros(0)] * 3).shape == (0, 0)
    assert inertial_parameters(model).shape == (0, 10)
    assert LogCholesky.of(model).apply(model).mass.shape == (0,)


def test_parameters_round_trip(dtype):
    model = mechanism("forest", str(dtype))
    again = with_inertial_parameters(model, inertial_parameters(model))
    for name in ("mass", "com", "inertia"):
        assert getattr(again, name).dtype == dtype
        assert_close(getattr(again, name), getattr(model, name), 4 * float(jnp.finfo(dtype).eps))


def test_massless_bodies():
    """They stay massless, also in derivatives; a first moment without mass is an error."""
    model = mechanism("forest")
    massless = eqx.tree_at(lambda m: m.mass, model, model.mass.at[2].set(0))
    pi = inertial_parameters(massless)
    assert_close(inertial_parameters(with_inertial_parameters(massless, pi)), pi, 1e-14)
    both_ways = jax.jit(lambda pi: inertial_parameters(with_inertial_parameters(massless, pi)))
    derivative = jax.jacrev(both_ways)(pi)
    assert np.all(np.isfinite(derivative))
    with pytest.raises(ValueError, match=rf"{model.body_names[2]}.* have a first moment .* no mass"):
        with_inertial_parameters(massless, pi.at[2, 1].set(0.1))


def test_log_cholesky_round_trip(dtype):
    model = mechanism("forest", str(dtype))
    parameters, eps = LogCholesky.of(model), float(jnp.finfo(dtype).eps)
    assert parameters.theta.dtype == dtype
    again = parameters.apply(model)
    for name in ("mass", "com", "inertia"):
        assert_close(getattr(again, name), getattr(model, name), 10 * eps)
    pi = inertial_parameters(model)
    assert_close(parameters.inertial_parameters(), pi, 10 * eps)
    assert_close(LogCholesky.from_inertial_parameters(pi).theta, parameters.theta, 100 * eps)
    assert_close(LogCholesky.from_inertial_parameters(pi[0]).theta, parameters.theta[0], 100 * eps)


def test_log_cholesky_is_that_of_pinocchio():
    theta = np.random.default_rng(0).normal(size=(5, 10))
    theirs = np.array([pin.LogCholeskyParameters(row).toDynamicParameters() for row in theta])
    assert_close(LogCholesky(theta).inertial_parameters(), theirs, 1e-14)


def test_all_log_cholesky_parameters_are_consistent(dtype):
    model = jaxcfa.chain(200, dtype=dtype)
    theta = np.random.default_rng(0).normal(scale=0.7, size=(model.nb, 10)).astype(dtype)
    assert inertia_problems(LogCholesky(theta).apply(model)) == []


def test_log_cholesky_derivatives():
    """Finite, and each map's is the inverse of the other's, so that no inertia is out of reach."""
    model = mechanism("forest")

    @jax.jit
    @jax.vmap
    def jacobians(pi):
        def there(pi):
            return LogCholesky.from_inertial_parameters(pi).theta

        def back(theta):
            return LogCholesky(theta).inertial_parameters()

        return jax.jacfwd(there)(pi), jax.jacfwd(back)(there(pi))

    there, back = jacobians(inertial_parameters(model))
    assert np.all(np.isfinite(back))
    assert_close(there @ back, np.broadcast_to(np.eye(10), back.shape), 1e-10)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mass", 0.0),
        ("mass", -1.0),
        ("mass", np.nan),
        ("inertia", np.zeros((3, 3))),
        ("inertia", np.diag([1.0, 1.0, 3.0])),
        ("inertia", np.diag([1.0, 2.0, 3.0])),  # a sheet
        ("inertia", np.diag([1.0, 1.0, -0.1])),
    ],
)
def test_inconsistent_inertias(field, value):
    model = mechanism("forest")
    wrong = eqx.tree_at(lambda m: getattr(m, field), model, getattr(model, field).at[3].set(value))
    with pytest.raises(ValueError, match=rf"bodies \['{model.body_names[3]}'\] are not physically consistent"):
        LogCholesky.of(wrong)
    if field == "mass":
        with pytest.raises(ValueError, match=r"bodies \[3\] are not physically consistent"):
            LogCholesky.from_inertial_parameters(inertial_parameters(model).at[3, 0].set(value))


def test_log_cholesky_of_some_bodies():
    """The rows are those of all bodies, and a body without mass is none of them and stays."""
    model = mechanism("forest")
    full, massless = LogCholesky.of(model), 2
    model = eqx.tree_at(lambda m: m.mass, model, model.mass.at[massless].set(0.0))
    chosen = [model.body_names[4], 0, 3]
    some = LogCholesky.of(model, bodies=chosen)
    numbers = np.array([4, 0, 3])
    assert some.bodies == tuple(model.body_names[i] for i in numbers)
    assert_close(some.theta, full.theta[numbers], 1e-14)
    found, whole = LogCholesky(some.theta + 0.1, some.bodies).apply(model), LogCholesky(full.theta + 0.1).apply(model)
    for name in ("mass", "com", "inertia"):
        for body in range(model.nb):
            expected = getattr(whole if body in numbers else model, name)[body]
            assert_close(getattr(found, name)[body], expected, 1e-14)
    gradient = jax.grad(lambda x: jnp.sum(x.apply(model).mass))(some)
    assert_close(gradient.theta[:, 0], 2 * np.asarray(model.mass)[numbers], 1e-12)
    # Bodies are known by their names, also where other numbers have become theirs.
    held = jaxcfa.lock_joints(found, model.joint_names[5])
    again = some.apply(held)
    for number, name in zip(numbers, some.bodies, strict=True):
        assert_close(again.body(name).mass, model.mass[number], 1e-14)
    by_number = LogCholesky(some.theta, numbers.tolist())
    assert_close(by_number.apply(model).mass, some.apply(model).mass, 0)
    with pytest.raises(ValueError, match="No body named"):
        some.apply(jaxcfa.chain(7))
    for wrong, message in (("body3", "must be a list"), ([0, 0], "there once"), (["nobody"], "nobody")):
        with pytest.raises(ValueError, match=message):
            LogCholesky.of(model, bodies=wrong)
    with pytest.raises(ValueError, match="must be a list"):
        LogCholesky(some.theta, "body3")
    with pytest.raises(ValueError, match=r"theta must have shape \(3, 10\), a row for each of bodies, got \(2, 10\)"):
        LogCholesky(some.theta[:2], some.bodies).apply(model)


def test_shapes():
    model = mechanism("forest")
    q, v, qdd, _ = random_state(model)
    with pytest.raises(ValueError, match=r"qdd must have shape \(nv,\)"):
        regressor(model, q, v, qdd[1:])
    with pytest.raises(ValueError, match=r"pi must have shape \(nb, 10\) = \(7, 10\), got \(70,\)"):
        with_inertial_parameters(model, np.zeros(70))
    with pytest.raises(ValueError, match=r"theta must have shape \(\.\.\., 10\), got \(7, 9\)"):
        LogCholesky(np.zeros((7, 9)))
    with pytest.raises(ValueError, match=r"theta must have shape \(nb, 10\) = \(7, 10\), got \(6, 10\)"):
        LogCholesky(np.zeros((6, 10))).apply(model)

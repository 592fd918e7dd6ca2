"""Forces of actuators. (They are compared with MuJoCo's in `io/test_mjcf_dynamics.py`.)"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close, cast
from jaxcfa.actuation import actuator_forces
from jaxcfa.model import Actuators


@pytest.fixture
def model():
    """Two joints; a motor with gear 2, and a servo with gain 3 and damping 0.5 on both joints."""
    model = jaxcfa.chain(2)
    unlimited = jnp.array([jnp.inf, jnp.inf])
    actuators = Actuators(
        names=("motor", "servo"),
        frames=(None, None),
        wrench=jnp.zeros((2, 6)),
        moment=jnp.array([[2.0, 0.0], [1.0, -1.0]]),
        length_gradient=jnp.array([[2.0, 0.0], [1.0, -1.0]]),
        length_offset=jnp.array([0.0, 0.1]),
        gain=jnp.array([1.0, 3.0]),
        bias=jnp.array([[0.0, 0.0, 0.0], [0.2, -3.0, -0.5]]),
        control_lower=jnp.array([-1.0, -jnp.inf]),
        control_upper=jnp.array([1.0, jnp.inf]),
        force_lower=-unlimited,
        force_upper=unlimited,
    )
    return dataclasses.replace(model, actuators=actuators)


Q, V, CONTROL = jnp.array([0.3, -0.4]), jnp.array([0.5, 0.7]), jnp.array([0.8, 0.2])


def servo_force(control):
    return 3 * control + 0.2 - 3 * (0.3 + 0.4 + 0.1) - 0.5 * (0.5 - 0.7)


def test_affine_law(model, dtype):
    tau = actuator_forces(cast(model, dtype), *cast((Q, V, CONTROL), dtype))
    assert tau.dtype == dtype
    assert_close(tau, np.array([2 * 0.8 + servo_force(0.2), -servo_force(0.2)]))


def test_control_force_and_effort_are_clipped(model):
    tau = actuator_forces(model, Q, V, CONTROL.at[0].set(5.0))
    assert_close(tau[0], 2 * 1.0 + servo_force(0.2))
    actuators = dataclasses.replace(model.actuators, force_upper=jnp.array([0.3, 0.0]), force_lower=jnp.full(2, -0.1))
    limited = dataclasses.replace(model, actuators=actuators)
    assert_close(actuator_forces(limited, Q, V, CONTROL), np.array([2 * 0.3 - 0.1, 0.1]))
    limits = dataclasses.replace(limited.limits, effort=jnp.array([0.4, jnp.inf]))
    assert_close(actuator_forces(dataclasses.replace(limited, limits=limits), Q, V, CONTROL), np.array([0.4, 0.1]))


def test_batches_and_derivatives(model):
    controls = jnp.stack([CONTROL, -CONTROL, 3 * CONTROL])
    batch = jax.vmap(actuator_forces, (None, None, None, 0))(model, Q, V, controls)
    assert_close(batch, np.stack([actuator_forces(model, Q, V, control) for control in controls]))
    by_control = jax.jacobian(actuator_forces, 3)(model, Q, V, CONTROL)
    assert_close(by_control, np.asarray(model.actuators.moment.T * model.actuators.gain))
    assert np.all(np.isfinite(jax.jacobian(actuator_forces, 1)(model, Q, V, CONTROL)))


def test_a_model_without_actuators():
    assert_close(actuator_forces(jaxcfa.chain(2), Q, V, []), np.zeros(2))
    with pytest.raises(ValueError, match=r"\(nu,\) = \(0,\), got \(2,\)\. .*warning at loading.*add_servos"):
        actuator_forces(jaxcfa.chain(2), Q, V, jnp.zeros(2))


@pytest.mark.parametrize("control", [jnp.zeros(3), 1.0, jnp.zeros((4, 2))])
def test_a_wrong_number_of_controls(model, control):
    with pytest.raises(ValueError, match=r"control must have shape \(nu,\) = \(2,\)"):
        actuator_forces(model, Q, V, control)

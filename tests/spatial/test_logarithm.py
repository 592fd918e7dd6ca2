"""Logarithm and exponential of transforms against Pinocchio, and at the identity."""

import jax
import jax.numpy as jnp
import numpy as np
import pinocchio as pin

from helpers import assert_close
from jaxcfa.spatial import Transform


def test_against_pinocchio():
    """Pinocchio's screws are `[linear; angular]`."""
    screws = np.random.default_rng(0).standard_normal((5, 6))
    screws[0] = 0
    screws[1, :3] *= 1e-6
    screws[2, :3] *= 3.1 / np.linalg.norm(screws[2, :3])
    transforms = jax.jit(jax.vmap(Transform.exp))(screws)
    for screw, matrix in zip(screws, transforms.as_matrix(), strict=True):
        np.testing.assert_allclose(matrix, pin.exp6(np.roll(screw, 3)).homogeneous, atol=1e-12)
    assert_close(jax.jit(jax.vmap(Transform.log))(transforms), screws, rtol=1e-9)


def test_derivatives_at_the_identity():
    """The logarithm of the exponential is the identity, whose derivatives are known."""

    def there_and_back(screw):
        return Transform.exp(screw).log()

    zero = jnp.zeros(6)
    assert_close(jax.jit(jax.jacrev(there_and_back))(zero), np.eye(6))
    assert_close(jax.jit(jax.jacfwd(jax.jacrev(there_and_back)))(zero), np.zeros((6, 6, 6)))
    assert_close(Transform.identity().log(), zero)

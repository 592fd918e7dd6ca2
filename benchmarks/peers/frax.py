"""frax, another package for rigid-body dynamics in JAX."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np

from ..contestant import Prepared, Unable, compiled
from ..problem import Problem


def frax(problem: Problem, quantity: str) -> Prepared:
    if not np.allclose(problem.model.gravity, (0.0, 0.0, -9.81)):
        raise Unable("its gravity is fixed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice on environment variables at import
        import frax

        names = problem.model.joint_names[1:] if problem.floating_base else problem.model.joint_names
        base = "quaternion" if problem.floating_base else None
        robot = frax.Robot(str(problem.urdf()), joint_ordering=list(names), floating_base=base)
    # It has this package's coordinates, the free base's included.
    gravity = jnp.array([0.0, 0.0, 9.81, 0.0, 0.0, 0.0])

    def forward(q, v, tau):
        return robot.forward_dynamics(q, v, tau, None)

    def inverse(q, v, qdd):
        return robot.rnea(q, v, qdd, gravity, None)

    def gradient(q, v, tau):
        return jnp.concatenate(jax.grad(lambda *state: jnp.sum(forward(*state)), (0, 1, 2))(q, v, tau))

    function = {"forward dynamics": forward, "inverse dynamics": inverse, "gradient": gradient}[quantity]
    if problem.batched:
        function = jax.vmap(function)
    # Derivatives with respect to quaternions off the unit sphere are a matter of convention.
    value = None if quantity == "gradient" and problem.floating_base else np.asarray
    return compiled(function, problem.q, problem.v, problem.x, value=value)

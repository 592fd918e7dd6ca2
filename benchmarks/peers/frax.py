"""frax, another package for rigid-body dynamics in JAX."""

import time
import warnings

import jax.numpy as jnp
import numpy as np

from ..case import Prepared, Unable
from ..problem import Problem
from ..quantities import FORWARD, INVERSE, KINEMATICS, MASS
from .on_jax import on_states, with_derivatives


def frax(problem: Problem, quantity: str) -> Prepared:
    started = time.perf_counter()
    if not np.allclose(problem.model.gravity, (0.0, 0.0, -9.81)):
        raise Unable("its gravity is fixed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice on environment variables at import
        import frax

        names = problem.model.joint_names[1:] if problem.floating_base else problem.model.joint_names
        base = "quaternion" if problem.floating_base else None
        with problem.urdf() as path:
            robot = frax.Robot(str(path), joint_ordering=list(names), floating_base=base)
    # It has this package's coordinates, the free base's included.
    gravity = jnp.array([0.0, 0.0, 9.81, 0.0, 0.0, 0.0])

    def forward(q, v, tau):
        return robot.forward_dynamics(q, v, tau, None)

    def inverse(q, v, qdd):
        return robot.rnea(q, v, qdd, gravity, None)

    functions = {FORWARD: forward, INVERSE: inverse, MASS: lambda q, v, x: robot.crba(q)}
    if not problem.floating_base:  # the end's joints are not those of a quaternion
        chain = np.array(_joints_to(problem))

        def kinematics(q, v, x):
            poses = robot.joint_to_world_transforms(q)
            found = robot._frame_jacobian(poses, jnp.eye(4, dtype=q.dtype), chain)
            return poses, jnp.concatenate([found[3:], found[:3]])

        functions[KINEMATICS] = kinematics
    return on_states(problem, quantity, with_derivatives(functions), None, started)


def _joints_to(problem: Problem) -> list[int]:
    """The joints between the base and the end, which has the frame of the last of them."""
    body, found = problem.model.body_index(problem.ends[0]), []
    while body >= 0:
        found.append(body)
        body = int(problem.model.topology.parents[body])
    return found[::-1]

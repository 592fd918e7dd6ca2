"""Pinocchio, called from Python for one state after the other, or by its own pool of threads."""

import os
import time
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

import jaxcfa

from ..case import COMPARED, Prepared, Unable
from ..problem import Problem
from ..quantities import CONSTRAINED, FORWARD, GRADIENT, INVERSE, KINEMATICS, MASS, MATRICES
from .one_by_one import mapped, one_by_one

# Its Python model takes 2 GB of memory at 300 links and 14 GB at 600.
LARGEST = 200


def pinocchio(problem: Problem, quantity: str) -> Prepared:
    model, coordinates, started = _build(problem)
    if quantity == CONSTRAINED:
        problem = problem.held()
    rows = _rows(problem, coordinates, quantity)
    call = _calls(problem, model, rows[0][0])[quantity]
    back = _back(problem, coordinates, quantity)
    value = None if back is None else lambda results: _one_or_all(problem, back(np.array(results)))
    return one_by_one(started, call, rows, value)


def in_threads(problem: Problem, quantity: str) -> Prepared:
    """The whole batch in one call, on all cores."""
    if not problem.batched:
        raise Unable("one state")
    model, coordinates, started = _build(problem)
    import pinocchio as pin

    cores = os.cpu_count() or 1
    pool = pin.ModelPool(model, cores)
    rows = [np.asfortranarray(x.T) for x in _rows(problem, coordinates, quantity)]
    function = {FORWARD: pin.abaInParallel, INVERSE: pin.rneaInParallel}[quantity]
    seconds = {"model": time.perf_counter() - started}
    back = _back(problem, coordinates, quantity)
    return Prepared(lambda: function(cores, pool, *rows), seconds, lambda results: back(np.array(results.T[:COMPARED])))


def _build(problem: Problem):
    if problem.model.nb > LARGEST:
        raise Unable(f"its model takes much memory: 2 GB at 300 bodies; measured up to {LARGEST}")
    started = time.perf_counter()
    import pinocchio as pin

    base = (pin.JointModelFreeFlyer(),) if problem.floating_base else ()
    with problem.urdf() as path:
        model = pin.buildModelFromUrdf(str(path), *base)
    model.gravity.linear = np.asarray(problem.model.gravity, dtype=float)
    return model, jaxcfa.convert.Pinocchio(problem.model, model), started


def _rows(problem: Problem, coordinates, quantity: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    q, v, x = problem.rows()
    x_to = coordinates.qdd_to if quantity == INVERSE else lambda q, v, tau: coordinates.tau_to(q, tau)
    return mapped(coordinates.q_to, q), mapped(coordinates.v_to, q, v), mapped(x_to, q, v, x)


def _calls(problem: Problem, model, q: np.ndarray) -> dict[str, Callable]:
    import pinocchio as pin

    data = model.createData()
    end = model.frames[model.getFrameId(problem.ends[0])].parentJoint

    def kinematics(q, v, x):
        pin.computeJointJacobians(model, data, q)  # and all poses
        return pin.getJointJacobian(model, data, end, pin.LOCAL_WORLD_ALIGNED)

    def matrices(q, v, tau):
        return [x.copy() for x in pin.computeABADerivatives(model, data, q, v, tau)]

    contacts, contact_data = _contacts(problem, model, data, q)
    settings = pin.ProximalSettings(1e-12, 1e-12, 20)
    pin.initConstraintDynamics(model, data, contacts, contact_data)
    return {
        FORWARD: lambda q, v, tau: pin.aba(model, data, q, v, tau).copy(),
        INVERSE: lambda q, v, qdd: pin.rnea(model, data, q, v, qdd).copy(),
        MASS: lambda q, v, x: pin.crba(model, data, q).copy(),
        KINEMATICS: kinematics,
        # All of the matrices, of which the gradient is the sums of the columns.
        GRADIENT: matrices,
        MATRICES: matrices,
        CONSTRAINED: lambda q, v, tau: pin.constraintDynamics(
            model, data, q, v, tau, contacts, contact_data, settings
        ).copy(),
    }


def _contacts(problem: Problem, model, data, q: np.ndarray):
    """The ends stay where they are in the configuration."""
    import pinocchio as pin

    pin.framesForwardKinematics(model, data, q)
    contacts, contact_data = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for end in problem.ends:
        number = model.getFrameId(end)
        frame = model.frames[number]
        contacts.append(
            pin.RigidConstraintModel(
                pin.ContactType.CONTACT_3D,
                model,
                frame.parentJoint,
                frame.placement,
                0,
                data.oMf[number],
                pin.ReferenceFrame.LOCAL,
            )
        )
        contact_data.append(contacts[-1].createData())
    return contacts, contact_data


def _back(problem: Problem, coordinates, quantity: str) -> Callable[[np.ndarray], np.ndarray] | None:
    """Results of the first states in this package's coordinates; derivatives only where those are the same."""
    q, v, _ = (x[:COMPARED] for x in (problem.held() if quantity == CONSTRAINED else problem).rows())
    if quantity in (FORWARD, CONSTRAINED):
        return lambda found: mapped(coordinates.qdd_from, q, v, found)
    maps = {
        INVERSE: coordinates.tau_from,
        MASS: lambda q, upper: coordinates.mass_matrix_from(q, jnp.triu(upper) + jnp.triu(upper, 1).T),
        KINEMATICS: coordinates.jacobian_from,
    }
    if quantity in maps:
        return lambda found: mapped(maps[quantity], q, found)
    if problem.floating_base:
        return None
    # Fixed bases: the same coordinates, in another order perhaps.
    order = np.rint(mapped(coordinates.velocity_map, q[:1])[0]).argmax(axis=0)
    columns = np.concatenate([order + i * len(order) for i in range(3)])

    def in_our_order(found: np.ndarray) -> np.ndarray:
        beside = np.concatenate(list(np.moveaxis(found, 1, 0)), axis=-1)[:, order][..., columns]
        return beside.sum(axis=1) if quantity == GRADIENT else beside

    return in_our_order


def _one_or_all(problem: Problem, found: np.ndarray) -> np.ndarray:
    return found if problem.batched else found[0]

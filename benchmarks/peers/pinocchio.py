"""Pinocchio, called from Python for one state after the other."""

import time

import numpy as np

import jaxcfa

from ..contestant import Prepared, Unable
from ..problem import Problem
from .one_by_one import mapped, one_by_one

# Its Python model takes 2 GB of memory at 300 links and 14 GB at 600.
LARGEST = 200


def pinocchio(problem: Problem, quantity: str) -> Prepared:
    if problem.model.nb > LARGEST:
        raise Unable(f"its model takes much memory: 2 GB at 300 bodies; measured up to {LARGEST}")
    import pinocchio as pin

    started = time.perf_counter()
    base = (pin.JointModelFreeFlyer(),) if problem.floating_base else ()
    model = pin.buildModelFromUrdf(str(problem.urdf()), *base)
    model.gravity.linear = np.asarray(problem.model.gravity, dtype=float)
    data = model.createData()
    seconds = time.perf_counter() - started
    coordinates = jaxcfa.convert.Pinocchio(problem.model, model)
    q, v, x = problem.rows()
    x_to = {"inverse dynamics": coordinates.qdd_to}.get(quantity, lambda q, v, tau: coordinates.tau_to(q, tau))
    rows = mapped(coordinates.q_to, q), mapped(coordinates.v_to, q, v), mapped(x_to, q, v, x)

    def value(results: list) -> np.ndarray:
        stacked = np.array(results)
        if quantity == "inverse dynamics":
            back = mapped(coordinates.tau_from, q, stacked)
        else:
            back = mapped(coordinates.qdd_from, q, v, stacked)
        return back if problem.batched else back[0]

    calls = {
        "forward dynamics": lambda q, v, tau: pin.aba(model, data, q, v, tau).copy(),
        "inverse dynamics": lambda q, v, qdd: pin.rnea(model, data, q, v, qdd).copy(),
        # All of the Jacobians, of which the gradient is the sums of the columns.
        "gradient": lambda q, v, tau: pin.computeABADerivatives(model, data, q, v, tau),
    }
    return one_by_one(seconds, calls[quantity], rows, None if quantity == "gradient" else value)

"""The same quantities from this package and from Pinocchio, of many robots at once."""

import functools
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pinocchio as pin
from jaxtyping import Array

import jaxcfa
from jaxcfa import Model

# By body, and of all bodies together, all from motions that are found once. Jacobians come in addition.
_LOCAL = {
    "rotations": lambda model, q, v, qdd, **known: jaxcfa.forward_kinematics(model, q, **known).rotation,
    "positions": lambda model, q, v, qdd, **known: jaxcfa.forward_kinematics(model, q, **known).translation,
    "velocities": lambda model, q, v, qdd, **known: jaxcfa.body_velocities(model, q, v, **known),
    "accelerations": jaxcfa.body_accelerations,
    "mass matrix": lambda model, q, v, qdd, **known: jaxcfa.mass_matrix(model, q, **known),
    "bias forces": lambda model, q, v, qdd, **known: jaxcfa.bias_forces(model, q, v, **known),
    "inverse dynamics": jaxcfa.inverse_dynamics,
}
_TOTALS = {
    "centre of mass": lambda model, q, v, **known: jaxcfa.center_of_mass(model, q, **known),
    "momentum": jaxcfa.momentum,
    "kinetic energy": jaxcfa.kinetic_energy,
    "potential energy": lambda model, q, v, **known: jaxcfa.potential_energy(model, q, **known),
}


class Robots:
    """Robots side by side as one `model`, so that all are one program, and Pinocchio's model of each.

    **Arguments:** `models`, `pin_models`: in the same order. **Fields:** `coordinates`: the conversion between both.
    `bodies`, `dofs`, `q_pin`: where those of each robot are, the last in Pinocchio's configurations.
    """

    def __init__(self, models: Sequence[Model], pin_models: Sequence[pin.Model]):
        prefixes = [f"{number}: " for number in range(len(models))]
        self.models, self.pin_models = models, pin_models
        self.model = jaxcfa.combine(models, prefixes)
        self.coordinates = jaxcfa.convert.Pinocchio(self.model, _side_by_side(pin_models, prefixes))
        self.bodies = _split([model.nb for model in models])
        self.dofs = _split([model.nv for model in models])
        self.q_pin = _split([pin_model.nq for pin_model in pin_models])

    @staticmethod
    def read(paths: Sequence[Path], floating_base: bool) -> "Robots":
        """The robots of URDF files, in double precision."""
        models = [jaxcfa.load_model(path, floating_base=floating_base, dtype="float64") for path in paths]
        base = [pin.JointModelFreeFlyer()] if floating_base else []
        return Robots(models, [pin.buildModelFromUrdf(str(path), *base) for path in paths])

    @property
    def masks(self) -> np.ndarray:
        """For each robot, which bodies belong to it."""
        owners = np.repeat(np.arange(len(self.models)), [model.nb for model in self.models])
        return np.arange(len(self.models))[:, None] == owners

    def quantities(self, q: Array, v: Array, qdd: Array) -> list[dict[str, np.ndarray]]:
        """What this package computes, robot by robot. The last body of each stands for frames.

        Forward dynamics is that of the torques of inverse dynamics.
        """
        lasts = tuple(body.stop - 1 for body in self.bodies)
        local, totals, of_last = jax.tree.map(np.asarray, _quantities(self.model, self.masks, lasts, q, v, qdd))
        results = []
        for number, (body, dof) in enumerate(zip(self.bodies, self.dofs, strict=True)):
            own = {name: x[dof if len(x) == self.model.nv else body] for name, x in local.items()}
            own["mass matrix"] = own["mass matrix"][:, dof]
            own |= {name: x[number] for name, x in (totals | of_last).items()}
            own["jacobian"] = own["jacobian"][:, dof]
            results.append(own)
        return results

    def pinocchio_quantities(self, q: Array, v: Array, qdd: Array, tau: Array) -> list[dict[str, np.ndarray]]:
        """What Pinocchio computes, robot by robot, in this package's conventions."""
        to, back = jax.jit(self._to_pinocchio), jax.jit(self._from_pinocchio)
        q_pin, *others = jax.tree.map(np.asarray, to(q, v, qdd, tau))
        results = [
            _pinocchio_quantities(pin_model, q_pin[part], *(x[dof] for x in others))
            for pin_model, part, dof in zip(self.pin_models, self.q_pin, self.dofs, strict=True)
        ]
        # Jacobians and mass matrices of different robots share no columns.
        # Where mass matrices are singular there are no accelerations, which must not spread through matrix products.
        for own in results:
            own["forward dynamics"] = np.nan_to_num(own["forward dynamics"], posinf=0, neginf=0)
        columns = {name: [own[name] for own in results] for name in _IN_COORDINATES}
        whole = {name: np.concatenate(x, axis=-1) for name, x in columns.items() if name != "mass matrix"}
        whole["mass matrix"] = self.block_diagonal(columns["mass matrix"])
        converted = jax.tree.map(np.asarray, back(q, v, whole))
        for own, dof in zip(results, self.dofs, strict=True):
            own |= {name: x[..., dof] for name, x in converted.items()}
            own["mass matrix"] = own["mass matrix"][dof]
        return results

    def _to_pinocchio(self, q: Array, v: Array, qdd: Array, tau: Array) -> tuple[Array, ...]:
        c = self.coordinates
        return c.q_to(q), c.v_to(q, v), c.qdd_to(q, v, jnp.zeros_like(qdd)), c.qdd_to(q, v, qdd), c.tau_to(q, tau)

    def _from_pinocchio(self, q: Array, v: Array, found: dict[str, Array]) -> dict[str, Array]:
        c = self.coordinates
        return {
            "jacobian": c.jacobian_from(q, found["jacobian"]),
            "mass matrix": c.mass_matrix_from(q, found["mass matrix"]),
            "bias forces": c.tau_from(q, found["bias forces"]),
            "inverse dynamics": c.tau_from(q, found["inverse dynamics"]),
            "forward dynamics": c.qdd_from(q, v, found["forward dynamics"]),
        }

    def block_diagonal(self, blocks: Sequence[np.ndarray]) -> np.ndarray:
        """One matrix from one of each robot."""
        matrix = np.zeros((self.model.nv, self.model.nv))
        for dof, block in zip(self.dofs, blocks, strict=True):
            matrix[dof, dof] = block
        return matrix


def without_others(model: Model, mask: Array) -> Model:
    """For totals of one robot: all bodies but its own are without mass."""
    kept = model.mass * mask, model.inertia * mask[:, None, None], model.armature * mask[model.topology.dof_bodies]
    return eqx.tree_at(lambda m: (m.mass, m.inertia, m.armature), model, kept)


def _split(sizes: Sequence[int]) -> list[slice]:
    stops = np.cumsum(sizes).tolist()
    return [slice(stop - size, stop) for size, stop in zip(sizes, stops, strict=True)]


_IN_COORDINATES = ("jacobian", "mass matrix", "bias forces", "inverse dynamics", "forward dynamics")


@functools.partial(jax.jit, static_argnums=2)
def _quantities(
    model: Model, masks: Array, lasts: tuple[int, ...], q: Array, v: Array, qdd: Array
) -> tuple[dict, dict, dict]:
    known = {"motions": jaxcfa.body_motions(model, q, v)}
    local = {name: quantity(model, q, v, qdd, **known) for name, quantity in _LOCAL.items()}
    local["forward dynamics"] = jaxcfa.forward_dynamics(model, q, v, local["inverse dynamics"], **known)

    def totals(mask: Array) -> dict[str, Array]:
        alone = without_others(model, mask)
        own = {"motions": jaxcfa.body_motions(alone, q, v)}
        return {name: total(alone, q, v, **own) for name, total in _TOTALS.items()}

    of_last = {
        "jacobian": jaxcfa.jacobian(model, q, lasts, **known),
        "jacobian_dot_v": jaxcfa.jacobian_dot_v(model, q, v, lasts, **known),
    }
    return local, jax.vmap(totals)(masks), of_last


def _side_by_side(pin_models: Sequence[pin.Model], prefixes: Sequence[str]) -> SimpleNamespace:
    """What conversions need to know of Pinocchio's model of all robots."""
    names, joints, nq, nv = ["universe"], [None], 0, 0
    for pin_model, prefix in zip(pin_models, prefixes, strict=True):
        for name, joint in list(zip(pin_model.names, pin_model.joints, strict=True))[1:]:
            names.append(prefix + name)
            joints.append(SimpleNamespace(idx_q=nq + joint.idx_q, idx_v=nv + joint.idx_v, nq=joint.nq))
        nq, nv = nq + pin_model.nq, nv + pin_model.nv
    return SimpleNamespace(names=names, joints=joints, nq=nq)


def _pinocchio_quantities(pin_model: pin.Model, q, v, free, forced, tau) -> dict[str, np.ndarray]:
    """Everything in Pinocchio's coordinates; `free` are the accelerations there of none here."""
    data, last = pin_model.createData(), pin_model.njoints - 1
    bodies = range(1, pin_model.njoints)
    accelerations = pin.aba(pin_model, data, q, v, tau).copy()
    momentum = pin.computeCentroidalMomentum(pin_model, data, q, v)
    pin.computeJointJacobians(pin_model, data, q)
    jacobian = pin.getJointJacobian(pin_model, data, last, pin.LOCAL_WORLD_ALIGNED)
    upper = np.triu(pin.crba(pin_model, data, q))
    pin.forwardKinematics(pin_model, data, q, v, free)
    drift = _stacked(pin.getClassicalAcceleration(pin_model, data, last, pin.LOCAL_WORLD_ALIGNED))
    pin.forwardKinematics(pin_model, data, q, v, forced)
    return {
        "rotations": np.array([data.oMi[i].rotation for i in bodies]),
        "positions": np.array([data.oMi[i].translation for i in bodies]),
        "velocities": _stacked(*(pin.getVelocity(pin_model, data, i, pin.LOCAL_WORLD_ALIGNED) for i in bodies)),
        "accelerations": _stacked(
            *(pin.getClassicalAcceleration(pin_model, data, i, pin.LOCAL_WORLD_ALIGNED) for i in bodies)
        ),
        "jacobian": jacobian,
        "jacobian_dot_v": drift[0],
        "mass matrix": upper + np.triu(upper, 1).T,
        "bias forces": pin.rnea(pin_model, data, q, v, free).copy(),
        "inverse dynamics": pin.rnea(pin_model, data, q, v, forced).copy(),
        "forward dynamics": accelerations,
        "centre of mass": pin.centerOfMass(pin_model, data, q).copy(),
        "momentum": _stacked(momentum)[0],
        "kinetic energy": np.array(pin.computeKineticEnergy(pin_model, data, q, v)),
        "potential energy": np.array(pin.computePotentialEnergy(pin_model, data, q)),
    }


def _stacked(*motions) -> np.ndarray:
    """Motions or forces as rows, angular part first."""
    return np.array([np.concatenate([motion.angular, motion.linear]) for motion in motions])

"""All that `jaxcfa info` shows of a model, for machines."""

from functools import partial
from typing import Any

import jax
import numpy as np

from .. import __version__
from ..model import WORLD, AbstractConstraint, JointCoupling, Model
from ..model._joint_groups import joints_of_bodies
from ..model._parts import joint_parts, parts_of_composites

Facts = dict[str, Any]

_SHOWN = 8  # names in one warning


def facts_of(file: str, model: Model, messages: list[str]) -> Facts:
    """What JSON can hold: numbers that are not finite are `None`, and so are limits that are not there."""
    model = jax.tree.map(np.asarray, model)
    stored = model.keyframes
    keyframes = zip(stored.names, stored.q, stored.v, stored.control, strict=True)
    return plain(
        {
            "jaxcfa": __version__,
            "file": file,
            "nb": model.nb,
            "nq": model.nq,
            "nv": model.nv,
            "mass": model.mass.sum(),
            "gravity": model.gravity,
            "joints": [_joint(model, i, kind) for i, kind in enumerate(joint_types(model))],
            "bodies": [_body(model, i) for i in range(model.nb)],
            "frames": [_frame(model, i) for i in range(len(model.frame_names))],
            "constraints": [constraint_facts(model, constraint) for constraint in model.constraints],
            "actuators": [_actuator(model, i) for i in range(len(model.actuators.names))],
            "keyframes": [{"name": name, "q": q, "v": v, "control": u} for name, q, v, u in keyframes],
            "warnings": messages,
        }
    )


def doubtful_limits(model: Model) -> list[str]:
    """Warnings of limits that forbid joints to be driven or to move: often they are zero for want of better numbers."""
    found, parts = [], joint_parts(model.joints, model.topology)
    for kind, limits, consequence in (
        ("effort", model.limits.effort, "driven"),
        ("velocity", model.limits.velocity, "moved"),
    ):
        zero = np.asarray(limits) == 0
        names = [part.name for part in parts if np.any(zero[part.v])]
        if names:
            shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
            found.append(
                f"{kind.capitalize()} limit of zero ({len(names)} of {len(parts)} joints): {shown}. "
                f"Where limits count these cannot be {consequence}."
            )
    return found


def joint_types(model: Model) -> list[str]:
    """The type of each joint."""
    return [type(joint).__name__ for joint in joints_of_bodies(model)]


def driven_joints(model: Model, actuator: int) -> list[str]:
    """Names of the joints on which an actuator acts, of composite ones those of their parts."""
    moment = np.asarray(model.actuators.moment)[actuator]
    return [part.name for part in joint_parts(model.joints, model.topology) if np.any(moment[part.v])]


def constraint_facts(model: Model, constraint: AbstractConstraint) -> Facts:
    """Name and type of a constraint, and the joints or bodies that it is between; `None` for none, or the world."""
    facts: Facts = {"name": constraint.name, "type": type(constraint).__name__}
    if isinstance(constraint, JointCoupling):
        fields = ("joint", "reference")
        return facts | dict(zip(fields, map(partial(_coupled, model, constraint), fields), strict=True))
    for field in ("body1", "body2"):
        facts[field] = _name(model, getattr(constraint, field, WORLD))
    return facts


def _coupled(model: Model, coupling: JointCoupling, field: str) -> str | None:
    """The name of a joint that a coupling relates, or of a part of it."""
    joint, coordinate = getattr(coupling, field), getattr(coupling, f"{field}_coordinate")
    parts = [part for part in joint_parts(model.joints, model.topology) if part.body == joint]
    return next((part.name for part in parts if model.topology.v_starts[joint] + coordinate == part.v.start), None)


def _joint(model: Model, i: int, kind: str) -> Facts:
    q, v, limits = model.q_slice(i), model.v_slice(i), model.limits
    parts = [part for part in parts_of_composites(model.joints, model.topology) if part.body == i]
    return {
        "name": model.joint_names[i],
        "type": kind,
        "body": model.body_names[i],
        "parent": _name(model, model.topology.parents[i]),
        "position": model.placement.translation[i],
        "rotation": model.placement.rotation[i],
        "q": [q.start, q.stop],
        "v": [v.start, v.stop],
        "parts": [{"name": x.name, "q": [x.q.start, x.q.stop], "v": [x.v.start, x.v.stop]} for x in parts],
        "lower": limits.lower[q],
        "upper": limits.upper[q],
        "velocity_limit": limits.velocity[v],
        "effort_limit": limits.effort[v],
        "stop_frequency": limits.stop_frequency[v],
        "armature": model.armature[v],
        "damping": model.damping[v],
        "friction_loss": model.friction_loss[v],
        "stiffness": model.stiffness[v],
        "spring_reference": model.spring_reference[q],
    }


def _body(model: Model, i: int) -> Facts:
    return {
        "name": model.body_names[i],
        "parent": _name(model, model.topology.parents[i]),
        "mass": model.mass[i],
        "com": model.com[i],
        "inertia": model.inertia[i],
        "principal_inertias": np.linalg.eigvalsh(model.inertia[i]),
    }


def _frame(model: Model, i: int) -> Facts:
    return {
        "name": model.frame_names[i],
        "body": _name(model, model.topology.frame_bodies[i]),
        "position": model.frame_placement.translation[i],
        "rotation": model.frame_placement.rotation[i],
    }


def _actuator(model: Model, i: int) -> Facts:
    actuators = model.actuators
    fields = ("moment", "wrench", "length_gradient", "length_offset", "gain", "bias")
    ends = ("control_lower", "control_upper", "force_lower", "force_upper")
    return {
        "name": actuators.names[i],
        "joints": driven_joints(model, i),
        "frame": actuators.frames[i],
        **{field: getattr(actuators, field)[i] for field in (*fields, *ends)},
    }


def _name(model: Model, body: int) -> str | None:
    return None if body == WORLD else model.body_names[body]


def plain(value: Any) -> Any:
    """Python's own numbers and lists, which JSON can hold: `None` for what is not finite."""
    match value:
        case dict():
            return {key: plain(x) for key, x in value.items()}
        case list():
            return [plain(x) for x in value]
        case np.ndarray() | np.generic():
            return plain(value.tolist())
        case float():
            return value if np.isfinite(value) else None
    return value

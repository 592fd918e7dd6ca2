"""Mimic joints of a URDF file."""

import jax.numpy as jnp

from ..model import JointCoupling, Model
from ..numerics._options import quoted
from ._report import Report
from ._urdf_tree import Joint

_ONE_DOF = ("revolute", "continuous", "prismatic")


def read_mimics(joints: list[Joint], model: Model, report: Report) -> tuple[JointCoupling, ...]:
    """Couplings `q = multiplier q_reference + offset`; a fixed reference has the position zero.

    Unknown references, which published files have, are reported.

    **Raises:** `ValueError` for references without a single position, and for cycles.
    """
    by_name = {joint.name: joint for joint in joints}
    mimics = {joint.name: joint for joint in joints if joint.mimic is not None and _is_known(joint, by_name, report)}
    _check_no_cycle({name: joint.mimic.joint for name, joint in mimics.items()})
    return tuple(_coupling(mimics[name], model) for name in model.joint_names if name in mimics)


def _is_known(joint: Joint, joints: dict[str, Joint], report: Report) -> bool:
    reference = joints.get(joint.mimic.joint)
    if reference is None:
        report.add("<mimic> of a joint that is not in the file, left out", f"{joint.mimic.joint!r} in {joint.name!r}")
    elif reference.type not in (*_ONE_DOF, "fixed"):
        raise ValueError(
            f"joint {joint.name!r} mimics {reference.name!r}, which is {reference.type} and has no single position; "
            f"only {', '.join(_ONE_DOF)} joints can be mimicked."
        )
    return reference is not None


def _check_no_cycle(references: dict[str, str]) -> None:
    settled: set[str] = set()
    for start in references:
        path: dict[str, None] = {}
        joint = start
        while joint in references and joint not in settled:
            if joint in path:
                raise ValueError(f"the joints {quoted(list(path))} mimic one another; remove one <mimic>.")
            path[joint] = None
            joint = references[joint]
        settled.update(path)


def _coupling(joint: Joint, model: Model) -> JointCoupling:
    reference = model.topology.joint_indices.get(joint.mimic.joint)
    coefficients = [joint.mimic.offset] if reference is None else [joint.mimic.offset, joint.mimic.multiplier]
    zero = jnp.zeros((), model.dtype)
    return JointCoupling(
        joint=model.joint_index(joint.name),
        reference=-1 if reference is None else reference,
        coefficients=jnp.array(coefficients, model.dtype),
        joint_offset=zero,
        reference_offset=zero,
    )

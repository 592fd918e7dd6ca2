"""Names and places of a compiled MuJoCo model's elements in the model made of it."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

MjModel = Any  # mujoco.MjModel: the package is optional
FREE, BALL, SLIDE, HINGE = range(4)  # mujoco.mjtJoint
_WRAP_JOINT = 1  # mujoco.mjtWrap
_NQ = {FREE: 7, BALL: 4, SLIDE: 1, HINGE: 1}
_NV = {FREE: 6, BALL: 3, SLIDE: 1, HINGE: 1}


class Joint(NamedTuple):
    """A joint of the MuJoCo model.

    **Fields:** `number` and `body` in MuJoCo; `kind`, a constant of this file; `q`, `v`: its coordinates in MuJoCo.
    """

    number: int
    body: int
    kind: int
    q: slice
    v: slice


class Layout(NamedTuple):
    """What the parts of the loader share.

    **Fields:** `bodies`, `joints`, `sites`: unique names of MuJoCo's elements. `freed`: the body that gets a free joint
    in addition, or `None`; its coordinates precede all others.
    """

    bodies: list[str]
    joints: list[str]
    sites: list[str]
    freed: int | None

    def extended_q(self, mj: MjModel, q: np.ndarray) -> np.ndarray:
        """Configurations (..., nq) of MuJoCo with those of the freed body, where it was welded, in front."""
        if self.freed is None:
            return q
        pose = np.concatenate([mj.body_pos[self.freed], mj.body_quat[self.freed]])
        return np.concatenate([np.broadcast_to(pose, (*q.shape[:-1], 7)), q], axis=-1)

    def extended_v(self, v: np.ndarray) -> np.ndarray:
        """Velocities (..., nv) of MuJoCo, or anything dual to them, with zeros for the freed body in front."""
        return v if self.freed is None else np.concatenate([np.zeros((*v.shape[:-1], 6), v.dtype), v], axis=-1)


def read_layout(mj: MjModel, floating_base: bool) -> Layout:
    """Names of all elements; unnamed ones are called after their kind and number, or their body."""
    bodies = all_names(mj.body, mj.nbody, "body", set())
    sites = [mj.site(i).name for i in range(mj.nsite)]
    taken = {*bodies, *sites}
    sites = [unique_name(f"site:{name}", taken) if name in bodies else name for name in sites]
    sites = _filled(sites, "site", set(bodies))
    joints = [mj.joint(i).name for i in range(mj.njnt)]
    taken = set(joints)
    for body in range(mj.nbody):
        own = list(joints_of(mj, body))
        for k, joint in enumerate(own):
            if not joints[joint.number]:
                joints[joint.number] = unique_name(f"{bodies[body]}_joint{k if len(own) > 1 else ''}", taken)
    return Layout(bodies, joints, sites, _body_to_free(mj, bodies) if floating_base else None)


def joints_of(mj: MjModel, body: int) -> Iterator[Joint]:
    """The joints of a body, from its parent outward."""
    first = int(mj.body_jntadr[body])
    for number in range(first, first + int(mj.body_jntnum[body])):
        yield joint_of(mj, number)


def joint_of(mj: MjModel, number: int) -> Joint:
    """The joint of a number."""
    kind, q, v = int(mj.jnt_type[number]), int(mj.jnt_qposadr[number]), int(mj.jnt_dofadr[number])
    return Joint(number, int(mj.jnt_bodyid[number]), kind, slice(q, q + _NQ[kind]), slice(v, v + _NV[kind]))


def is_fixed_tendon(mj: MjModel, number: int) -> bool:
    """Whether the length of a tendon is a sum of coordinates."""
    return int(mj.wrap_type[mj.tendon_adr[number]]) == _WRAP_JOINT


def joints_of_tendon(mj: MjModel, number: int) -> Iterator[tuple[Joint, float]]:
    """The joints of a fixed tendon, and what their coordinates count in its length."""
    first = int(mj.tendon_adr[number])
    for place in range(first, first + int(mj.tendon_num[number])):
        yield joint_of(mj, int(mj.wrap_objid[place])), float(mj.wrap_prm[place])


def control_of(mj: MjModel, actuator: int) -> int:
    """The place of an actuator's first control in `ctrl`."""
    first = getattr(mj, "actuator_ctrladr", None)  # one control for each actuator before MuJoCo 4
    return actuator if first is None else int(first[actuator])


def actuator_names(mj: MjModel) -> list[str]:
    """Names of all actuators; unnamed ones are called after their number."""
    return all_names(mj.actuator, len(mj.actuator_trntype), "actuator", set())


def unique_name(name: str, taken: set[str]) -> str:
    """The name, with underscores as needed to differ from those taken, to which it is added."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def all_names(accessor: Callable[[int], Any], count: int, kind: str, taken: set[str]) -> list[str]:
    """Names of all elements of a kind; unnamed ones are called after the kind and their number."""
    return _filled([accessor(i).name for i in range(count)], kind, taken)


def _filled(names: list[str], kind: str, taken: set[str]) -> list[str]:
    taken = taken | set(names)
    return [name or unique_name(f"{kind}{i}", taken) for i, name in enumerate(names)]


def _body_to_free(mj: MjModel, names: list[str]) -> int | None:
    """The one body that is fixed to the world and carries the mechanism; `None` if that floats already."""
    roots = [body for body in range(1, mj.nbody) if mj.body_parentid[body] == 0]
    moving = set(mj.body_rootid[mj.jnt_bodyid].tolist())
    if any(joint.kind == FREE for body in roots for joint in joints_of(mj, body)):
        return None
    candidates = [body for body in roots if body in moving] or roots
    if len(candidates) != 1:
        listed = ", ".join(names[body] for body in candidates[:8]) or "none"
        raise ValueError(f"floating_base needs exactly one body that can be the base; there are: {listed}.")
    (base,) = candidates
    if mj.body_jntnum[base]:
        raise ValueError(
            f"floating_base needs a base that is fixed to the world, but body {names[base]!r} hangs on the world by "
            "a joint. Put a body without joints between them, and compile a mujoco.MjModel without fusestatic, which "
            "would take it away."
        )
    return base

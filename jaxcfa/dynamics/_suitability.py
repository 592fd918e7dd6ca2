"""Refusing models that an algorithm cannot serve, with the names of the bodies and the remedy. On the host."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..configuration import neutral
from ..model import Model, join_bodies, massless_subtrees, motion_subspace_blocks, pad_dofs
from ..numerics._options import quoted


def refuse_massless_subtrees(model: Model) -> None:
    """Raises `ValueError` if the mass matrix is singular everywhere."""
    bodies = massless_subtrees(model)
    if bodies:
        raise ValueError(
            f"Forward dynamics needs an invertible mass matrix, but body {quoted(bodies)} "
            "and all that it carries have no inertia. Give them some, give their joints armature, or fix them."
        )


def refuse_bodies_without_inertia(model: Model, which: np.ndarray) -> None:
    """Raises `ValueError` if the inertia of some of these bodies by itself is singular."""
    mass, inertia = np.asarray(model.mass), np.asarray(model.inertia)
    if not (np.all(np.isfinite(mass)) and np.all(np.isfinite(inertia))):
        return
    moments = np.linalg.eigvalsh(inertia)
    regular = (mass > 0) & (moments[:, 0] > np.finfo(inertia.dtype).eps * moments[:, -1])
    bodies = [model.body_names[body] for body in np.flatnonzero(which & ~regular)]
    if bodies:
        raise ValueError(
            f"The constraint force algorithm needs every body to have mass and a positive definite inertia by itself, "
            f"which body {quoted(bodies)} lacks. Use ABA(), which does not need it, put such bodies on side branches "
            "and fold these in (CFA(side_branches=...)), or merge them with their neighbours."
        )


def refuse_joints_without_inertia(
    model: Model, what: str = 'ABA(schedule="scan")', instead: str = 'ABA() or ABA(schedule="hybrid")'
) -> None:
    """Raises `ValueError` if some joint moves no inertia of its own body, at the neutral configuration."""
    bodies = joints_without_inertia(model)
    if bodies:
        raise ValueError(
            f"{what} needs every joint to move some inertia of its own body, which that of body {quoted(bodies)} does "
            f"not. Use {instead}, for which that does not matter, give the joint armature, or merge the body with a "
            "neighbour."
        )


def joints_without_inertia(model: Model) -> list[str]:
    """Names of bodies that give their joint no inertia at the neutral configuration."""
    with jax.ensure_compile_time_eval():
        blocks = motion_subspace_blocks(model, neutral(model))
        d = model.topology.widest
        padded = [jnp.pad(block, ((0, 0), (0, 0), (0, d - block.shape[-1]))) for block in blocks]
        subspace = np.asarray(join_bodies(model.topology, padded))
        inertia = np.asarray(model.spatial_inertia.as_matrix())
        armature = np.asarray(pad_dofs(model.topology, model.armature, missing=1.0))
    moved = np.swapaxes(subspace, -1, -2) @ inertia @ subspace + armature[:, None] * np.eye(armature.shape[-1])
    terms = np.einsum("nik,nij,njk->nk", *map(np.abs, (subspace, inertia, subspace))) + armature
    scale = np.sqrt(np.where(terms > 0, terms, 1.0))
    if not np.all(np.isfinite(moved)):
        return []
    smallest = np.linalg.eigvalsh(moved / scale[:, :, None] / scale[:, None, :])[:, 0]
    idle = smallest <= 4 * np.finfo(inertia.dtype).eps
    return [model.body_names[body] for body in np.flatnonzero(idle)]


def joints_with_dependent_axes(model: Model, q: Float[Array, "nq"]) -> list[str]:
    """Names of joints that have fewer directions of motion than coordinates without armature, at q."""
    idle = np.zeros(model.nb, bool)
    for joint, group in zip(model.joints, model.topology.groups, strict=True):
        subspace = np.asarray(jax.vmap(lambda joint, x: joint.motion_subspace(x))(joint, q[group.q_index]))
        armature = np.asarray(model.armature)[group.v_index]
        if subspace.shape[-1] < 2:
            continue
        length = np.linalg.norm(subspace, axis=1, keepdims=True)
        unit = subspace / np.where(length > 0, length, 1)
        gram = np.swapaxes(unit, -1, -2) @ unit + (armature > 0)[..., None] * np.eye(unit.shape[-1])
        idle[group.bodies] = np.linalg.eigvalsh(gram)[:, 0] <= 32 * np.finfo(subspace.dtype).eps
    return [name for name, own in zip(model.topology.joint_names, idle, strict=True) if own]

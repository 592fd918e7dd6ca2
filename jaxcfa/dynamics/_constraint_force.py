"""Forward dynamics by the constraint force algorithm."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .._motion import BodyMotion, bias_wrench, fictitious_acceleration
from .._motion_scan import scan_motions
from .._small import matmul, matvec, transpose
from .._types import Velocity
from ..model import Model, pad_dofs, unpad_dofs
from ..spatial import inverse_inertia, shift_force, shift_force_columns, shift_motion
from ..structured import (
    AbstractEdgeSolver,
    AbstractSchedule,
    AbstractTridiagonalSolver,
    ChainsAndNodes,
    Doubling,
    EdgeSystem,
    OddEvenElimination,
    TreeSchedule,
    ldl_factor,
    ldl_solve,
    spd_inverse,
)
from ..structured._small_spd import PINNING
from ..structured._tree_scan import from_parents, sum_of_children
from ._method import AbstractForwardDynamics
from ._side_branches import fold_branches, renumbered, side_bodies
from ._suitability import refuse_bodies_without_inertia

_CONVERGED = 1e-2
ODD_EVEN_ELIMINATION = OddEvenElimination()
DOUBLING = Doubling()


class CFA(AbstractForwardDynamics):
    """Constraint force algorithm (Fijany, Sharf & D'Eleuterio 1995; corrected, Featherstone & Fijany 1999).

    The unknowns are the wrenches with which joints constrain their bodies. They make a block-tridiagonal system on a
    chain, and on a tree one that couples joints that meet at a body (Liu, Hu & Zhang 2016). Everything else is local
    or a cumulative sum, so with a parallel solver the whole has logarithmic depth.

    Every body needs an inertia that is positive definite by itself, except on side branches that are folded in.

    **Fields:** `solver`: of the chains (`OddEvenElimination()`, `CyclicReduction()`, `BlockLDL()`), which a dense
    system then joins where the mechanism branches, or of the whole (`ChainsAndNodes(...)`, `LeafToRoot()`, `Dense()`).
    `schedule`: of the cumulative sums. `side_branches`: subtrees of up to so many bodies, on bodies that carry another
    one at least as large, are taken in by the articulated-body algorithm first; that saves where a long mechanism has
    short appendages. `refinements`: steps of iterative refinement. Without any, odd-even elimination loses some three
    digits more than sequential algorithms; with two, none.
    """

    solver: AbstractEdgeSolver
    schedule: AbstractSchedule
    side_branches: int = eqx.field(static=True)
    refinements: int = eqx.field(static=True)

    def __init__(
        self,
        solver: AbstractTridiagonalSolver | AbstractEdgeSolver = ODD_EVEN_ELIMINATION,
        schedule: AbstractSchedule = DOUBLING,
        side_branches: int = 0,
        refinements: int = 2,
    ):
        if isinstance(solver, AbstractTridiagonalSolver):
            solver = ChainsAndNodes(solver)
        if not isinstance(solver, AbstractEdgeSolver):
            raise ValueError(f"solver must be one of jaxcfa.structured, such as OddEvenElimination(), got {solver!r}.")
        for name, value in (("side_branches", side_branches), ("refinements", refinements)):
            if value < 0:
                raise ValueError(f"{name} must not be negative, got {value}.")
        self.solver, self.schedule = solver, schedule
        self.side_branches, self.refinements = side_branches, refinements

    def solve(
        self,
        model: Model,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        tau: Float[Array, "nv"],
        f_ext: Float[Array, "nb 6"],
    ) -> Velocity:
        return self.solve_with_wrenches(model, q, v, tau, f_ext)[0]

    def solve_with_wrenches(
        self,
        model: Model,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        tau: Float[Array, "nv"],
        f_ext: Float[Array, "nb 6"],
    ) -> tuple[Velocity, Float[Array, "nb 6"]]:
        if not model.nb:
            return tau, f_ext
        tree = model.topology.schedule
        motion = scan_motions(model, q, v, self.schedule)
        inertia = model.spatial_inertia.rotated(motion.rotation)
        bodies = Bodies(
            motion,
            inertia.as_matrix(),
            _compliances(model, motion.rotation),
            bias_wrench(inertia, motion.angular, f_ext),
            pad_dofs(model, jnp.ones_like(v)),
            pad_dofs(model, model.armature),
            pad_dofs(model, tau),
        )
        base = fictitious_acceleration(model).astype(q.dtype)
        side = side_bodies(tree.parents, self.side_branches) if self.side_branches else np.zeros(model.nb, dtype=bool)
        if side.any():
            qdd, wrench = self._solve_with_branches(tree, bodies, base, side)
        else:
            qdd, wrench, _ = self._solve(tree, bodies, base)
        return unpad_dofs(model, qdd), wrench

    def _solve(self, tree: TreeSchedule, bodies: "Bodies", base: Array) -> tuple[Array, Array, Array]:
        """Joint accelerations (nb, d), wrenches and accelerations of the bodies (nb, 6).

        Wrenches are `F = T tau + G y`, with y such that nothing moves against a joint: that
        `G^T (A - X A_parent - bias) + E y` is zero. The iteration starts from this residual of the wrenches, and ends
        with it. It is far more accurate than the matrix, which small differences of large compliances make up.
        """
        motion, compliance = bodies.motion, bodies.compliance
        active, constraint, extra = _joint_bases(motion.subspace, bodies.armature, bodies.present)
        carried = shift_force_columns(constraint, motion.offset)
        system, _ = EdgeSystem(tree, constraint, carried, bodies.inertia, compliance, extra).with_unit_diagonal()
        factor = self.solver.factor(system, PINNING)
        given = matvec(active, bodies.tau)

        def wrenches(y: Array) -> Array:
            return given + matvec(system.own, y)

        def accelerations(wrench: Array) -> tuple[Array, Array]:
            """Of all bodies, and of these against their joints' motion at zero joint acceleration."""
            from_children = sum_of_children(tree, shift_force(wrench, motion.offset))
            acceleration = matvec(compliance, wrench - from_children - bodies.bias)
            carried = shift_motion(from_parents(tree, acceleration, base), motion.offset) + motion.bias
            return acceleration, acceleration - carried

        def residual(y: Array) -> Array:
            return -matvec(transpose(system.own), accelerations(wrenches(y))[1]) - matvec(system.extra, y)

        y = jnp.zeros_like(given)
        rounding = 100 * jnp.finfo(given.dtype).eps * _largest(accelerations(given)[1])
        y = lax.fori_loop(0, 1 + self.refinements, lambda _, y: y + factor.solve(residual(y)[..., None])[..., 0], y)
        y = _unless_lost(y, residual(jnp.zeros_like(y)), residual(y), rounding)
        wrench = wrenches(y)
        acceleration, relative = accelerations(wrench)
        return matvec(transpose(active), relative), wrench, acceleration

    def _solve_with_branches(
        self, tree: TreeSchedule, bodies: "Bodies", base: Array, side: np.ndarray
    ) -> tuple[Array, Array]:
        """The same for a tree some of whose bodies are on side branches."""
        main, branch = np.flatnonzero(~side), np.flatnonzero(side)
        branches = TreeSchedule(renumbered(tree.parents, branch))
        folded = fold_branches(branches, *bodies.at(branch).for_folding())
        hung = np.flatnonzero(branches.parents < 0)
        on = np.searchsorted(main, tree.parents[branch[hung]])
        rest = bodies.at(main).loaded(on, folded.inertia[hung], folded.load[hung])
        *found, acceleration = self._solve(TreeSchedule(renumbered(tree.parents, main)), rest, base)
        found_on_branches = folded.accelerations(jnp.zeros_like(folded.load).at[hung].set(acceleration[on]))
        order = np.argsort(np.concatenate([main, branch]))
        qdd, wrench = (jnp.concatenate(x)[order] for x in zip(found, found_on_branches, strict=True))
        return qdd, wrench

    def inverse_schedule(self) -> AbstractSchedule:
        return self.schedule

    def refuse(self, model: Model) -> None:
        refuse_bodies_without_inertia(model, ~side_bodies(model.topology.parents, self.side_branches))


class Bodies(eqx.Module):
    """What the algorithm needs to know of bodies and their joints, these padded to d degrees of freedom.

    **Fields:** `motion`; `inertia` and its inverse, `compliance`, about the body's origin in world axes; `bias`
    wrench p; which degrees of freedom are `present`; `armature` and `tau` along them.
    """

    motion: BodyMotion
    inertia: Float[Array, "nb 6 6"]
    compliance: Float[Array, "nb 6 6"]
    bias: Float[Array, "nb 6"]
    present: Float[Array, "nb d"]
    armature: Float[Array, "nb d"]
    tau: Float[Array, "nb d"]

    def at(self, index: np.ndarray) -> "Bodies":
        """Some of the bodies."""
        return jax.tree.map(lambda x: x[index], self)

    def for_folding(self) -> tuple[BodyMotion, Array, Array, Array, Array]:
        """The arguments of `fold_branches`."""
        return self.motion, self.inertia, self.bias, self.armature + (1 - self.present), self.tau

    def loaded(self, on: np.ndarray, inertia: Float[Array, "s 6 6"], load: Float[Array, "s 6"]) -> "Bodies":
        """With further inertia and bias wrench on the bodies with the numbers `on`, which may repeat."""
        loaded = np.unique(on)
        total = self.inertia.at[on].add(inertia)
        compliance = self.compliance.at[loaded].set(spd_inverse(total[loaded]))
        changes = total, compliance, self.bias.at[on].add(load)
        return eqx.tree_at(lambda b: (b.inertia, b.compliance, b.bias), self, changes)


def _unless_lost(
    y: Float[Array, "nb 6"], before: Float[Array, "nb 6"], after: Float[Array, "nb 6"], rounding: Float[Array, ""]
) -> Float[Array, "nb 6"]:
    """NaN where the residuals before and after the iteration say that it did not converge.

    Then the matrix is singular but for rounding, in a direction that matters. Bending a long chain whose axes are
    parallel is such a direction in float32; as long as nothing bends it, it does not matter.
    """
    return jnp.where(_largest(after) <= jnp.maximum(_CONVERGED * _largest(before), rounding), y, jnp.nan)


def _largest(x: Float[Array, "nb 6"]) -> Float[Array, ""]:
    """`max |x|`, by an operation that XLA:CPU does not hand to an external library (see `_small`)."""
    return lax.reduce(jnp.abs(x), jnp.zeros((), x.dtype), lambda a, b: jnp.where((a > b) | jnp.isnan(a), a, b), (0, 1))


def _joint_bases(
    subspace: Float[Array, "nb 6 d"], armature: Float[Array, "nb d"], present: Float[Array, "nb d"]
) -> tuple[Float[Array, "nb 6 d"], Float[Array, "nb 6 6"], Float[Array, "nb 6 6"]]:
    """Bases of the wrenches that joints transmit: active T with `S^T T = 1`, constraint G, and E of the diagonal.

    `G = 1 - T S^T + T sqrt(J) S^T`: the projector on the constraint wrenches, whatever their number, and in the
    directions that it leaves out the torque that accelerates the armature J. There `E = S S^T` is on the diagonal;
    without armature those unknowns are zero. No basis is chosen, so everything is smooth in q and has the same shape
    for joints of every kind.
    """
    dtype, d = subspace.dtype, subspace.shape[-1]
    gram = matmul(transpose(subspace), subspace) + (1 - present)[..., None] * jnp.eye(d, dtype=dtype)
    active = transpose(ldl_solve(ldl_factor(gram), transpose(subspace)))
    free = matmul(active * (1 - jnp.sqrt(armature))[..., None, :], transpose(subspace))
    return active, jnp.eye(6, dtype=dtype) - free, matmul(subspace, transpose(subspace))


def _compliances(model: Model, rotation: Float[Array, "nb 3 3"]) -> Float[Array, "nb 6 6"]:
    """Inverse inertias of the bodies about their origins, world axes."""
    about_com = matmul(matmul(rotation, spd_inverse(model.inertia)), transpose(rotation))
    return inverse_inertia(model.mass, matvec(rotation, model.com), about_com)

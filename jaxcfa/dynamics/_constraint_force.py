"""Forward dynamics by the constraint force algorithm."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ..model import Model, pad_dofs, unpad_dofs
from ..model._arguments import check_instance, positive_integer
from ..motion import BodyArrays, BodyMotions, fictitious_acceleration
from ..numerics import dot, identity, matmul, matvec, transpose
from ..spatial import inverse_inertia, shift_force, shift_force_columns, shift_motion
from ..structured import (
    AbstractEdgeSolver,
    AbstractSchedule,
    AbstractTridiagonalSolver,
    ChainsAndNodes,
    EdgeSystem,
    OddEvenElimination,
    TreeSchedule,
    ldl_factor,
    ldl_solve,
    spd_inverse,
)
from ..structured._rounds import rounds
from ..structured._scan import DOUBLING, check_schedule
from ..structured._small_spd import PINNING
from ..structured._tree_scan import from_parents, sum_of_children
from ..typing import BodyForces, Velocity
from ._articulated_joints import links
from ._factors import bias_wrench
from ._method import AbstractForwardDynamics, Loads
from ._side_branches import fold_branches, renumbered, side_bodies
from ._suitability import refuse_bodies_without_inertia, refuse_massless_subtrees

_CONVERGED = 1e-2
ODD_EVEN_ELIMINATION = OddEvenElimination()


class CFA(AbstractForwardDynamics):
    """Constraint force algorithm (Fijany, Sharf & D'Eleuterio 1995; corrected, Featherstone & Fijany 1999).

    The unknowns are the wrenches with which joints constrain their bodies. They make a block-tridiagonal system on a
    chain, and on a tree one that couples joints that meet at a body (Liu, Hu & Zhang 2016). Everything else is local
    or a cumulative sum, so with a parallel solver the whole has logarithmic depth on chains. On trees a dense system of
    six unknowns for each joint at a body that branches comes on top, unless `LeafToRoot()` is the solver.

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
        kinds = AbstractEdgeSolver, AbstractTridiagonalSolver
        check_instance("solver", solver, kinds, "one of jaxcfa.structured, such as OddEvenElimination()")
        check_schedule(schedule)
        self.solver, self.schedule = solver, schedule
        self.side_branches = positive_integer("side_branches", side_branches, or_zero=True)
        self.refinements = positive_integer("refinements", refinements, or_zero=True)

    def solve(self, model: Model, motions: BodyMotions, loads: Loads) -> Velocity:
        return self.solve_with_wrenches(model, motions, loads)[0]

    def solve_with_wrenches(self, model: Model, motions: BodyMotions, loads: Loads) -> tuple[Velocity, BodyForces]:
        if not model.nb:
            return loads.tau, loads.f_ext
        tree, topology = model.topology.schedule, model.topology
        found = links(model, motions)
        bodies = Bodies(
            found.motion,
            found.inertia.as_matrix(),
            _compliances(model, found.motion.rotation),
            bias_wrench(found.inertia, found.motion.angular, loads.f_ext),
            pad_dofs(topology, jnp.ones_like(loads.tau)),
            pad_dofs(topology, model.armature),
            pad_dofs(topology, loads.tau),
        )
        base = fictitious_acceleration(model).astype(loads.tau.dtype)
        side = side_bodies(tree.parents, self.side_branches) if self.side_branches else np.zeros(model.nb, dtype=bool)
        if side.any():
            qdd, wrench = self._solve_with_branches(tree, bodies, base, side)
        else:
            qdd, wrench, _ = self._solve(tree, bodies, base)
        return unpad_dofs(model.topology, qdd), wrench

    def _solve(self, tree: TreeSchedule, bodies: "Bodies", base: Array) -> tuple[Array, Array, Array]:
        """Joint accelerations (nb, d), wrenches and accelerations of the bodies (nb, 6).

        Wrenches are `F = T tau + G y`, with y such that nothing moves against a joint: that
        `G^T (A - X A_parent - bias) + E y` is zero. The iteration starts from this residual of the wrenches, and ends
        with it. It is far more accurate than the matrix, which small differences of large compliances make up.
        """
        motion, compliance = bodies.motion, bodies.compliance
        active, along = _along_joints(bodies)
        load = bodies.armature * along
        constraint, extra = _constraint_bases(motion.subspace, active, load, along)
        carried = shift_force_columns(constraint, motion.offset)
        system, scale = EdgeSystem(tree, constraint, carried, bodies.inertia, compliance, extra).with_unit_diagonal()
        factor = self.solver.factor(system, PINNING)
        given = matvec(active, bodies.tau)

        def wrenches(y: Array) -> Array:
            return given + matvec(system.own, y)

        def accelerations(wrench: Array) -> tuple[Array, Array]:
            """Accelerations of all bodies, and the part of them that their own joints add."""
            from_children = sum_of_children(tree, shift_force(wrench, motion.offset))
            acceleration = matvec(compliance, wrench - from_children - bodies.bias)
            carried = shift_motion(from_parents(tree, acceleration, base), motion.offset) + motion.bias
            return acceleration, acceleration - carried

        def residual(y: Array) -> Array:
            return -matvec(transpose(system.own), accelerations(wrenches(y))[1]) - matvec(system.extra, y)

        y = jnp.zeros_like(given)
        sizes = matvec(transpose(jnp.abs(system.own)), jnp.abs(accelerations(given)[1]))
        rounding = 100 * jnp.finfo(given.dtype).eps * _largest(sizes)
        y = rounds(1 + self.refinements, lambda _, y: y + factor.solve(residual(y)[..., None])[..., 0], y)
        y = _unless_lost(y, residual(jnp.zeros_like(y)), residual(y), rounding)
        wrench = wrenches(y)
        acceleration, relative = accelerations(wrench)
        # Two expressions of qdd, weighted: by the bodies' accelerations, and by the torque that the armature takes.
        by_armature = along * jnp.sqrt(load / (1 + load)) * matvec(transpose(motion.subspace), scale * y)
        qdd = (matvec(transpose(active), relative) - by_armature) / (1 + load)
        return qdd, wrench, acceleration

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

    def motion_schedule(self) -> AbstractSchedule:
        return self.schedule

    def refuse(self, model: Model) -> None:
        refuse_massless_subtrees(model)
        refuse_bodies_without_inertia(model, ~side_bodies(model.topology.parents, self.side_branches))


class Bodies(eqx.Module):
    """What the algorithm needs to know of bodies and their joints, these padded to d degrees of freedom.

    **Fields:** `motion`; `inertia` and its inverse, `compliance`, about the body's origin in world axes; `bias`
    wrench p; which degrees of freedom are `present`; `armature` and `tau` along them.
    """

    motion: BodyArrays
    inertia: Float[Array, "nb 6 6"]
    compliance: Float[Array, "nb 6 6"]
    bias: Float[Array, "nb 6"]
    present: Float[Array, "nb d"]
    armature: Float[Array, "nb d"]
    tau: Float[Array, "nb d"]

    def at(self, index: np.ndarray) -> "Bodies":
        """Some of the bodies."""
        return jax.tree.map(lambda x: x[index], self)

    def for_folding(self) -> tuple[BodyArrays, Array, Array, Array, Array]:
        """The arguments of `fold_branches`."""
        return self.motion, self.inertia, self.bias, self.armature + (1 - self.present), self.tau

    def loaded(self, on: np.ndarray, inertia: Float[Array, "s 6 6"], load: Float[Array, "s 6"]) -> "Bodies":
        """The same with more inertia and bias wrenches on the bodies numbered `on`, where numbers may repeat."""
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
    """`max |x|`, NaN if any is.

    Magnitudes are compared as integers, whose order is the same. XLA:CPU hands maxima of floating-point numbers to an
    external library (see `_small`), and has none of its own making across devices.
    """
    integer = jnp.dtype(f"int{8 * x.dtype.itemsize}")
    return lax.bitcast_convert_type(jnp.max(lax.bitcast_convert_type(jnp.abs(x), integer)), x.dtype)


def _along_joints(bodies: Bodies) -> tuple[Float[Array, "nb 6 d"], Float[Array, "nb d"]]:
    """Bases T of the active wrenches, `S^T T = 1`, and the compliances of the bodies against them, `T^T I^-1 T`."""
    subspace, missing = bodies.motion.subspace, 1 - bodies.present
    gram = matmul(transpose(subspace), subspace)
    gram = gram + missing[..., None] * identity(subspace.shape[-1], gram)
    active = transpose(ldl_solve(ldl_factor(gram), transpose(subspace)))
    yielding = transpose(matmul(bodies.compliance, active))
    return active, dot(transpose(active), yielding) + missing


def _constraint_bases(
    subspace: Float[Array, "nb 6 d"],
    active: Float[Array, "nb 6 d"],
    load: Float[Array, "nb d"],
    along: Float[Array, "nb d"],
) -> tuple[Float[Array, "nb 6 6"], Float[Array, "nb 6 6"]]:
    """Bases of the wrenches that are unknown, G, and what their torques on armature add to the diagonal, E.

    `G = 1 - T S^T + T g S^T`, `g = sqrt(l / (1 + l))`: the projector on the constraint wrenches, whatever their number,
    and in the directions that it leaves out the torque that accelerates the armature J. There `E = S c / (1 + l) S^T`.
    `c` is the body's compliance `along` the joint and `l = J c` the `load`, so that nothing depends on units or becomes
    large with J; without armature those unknowns are zero. No basis is chosen, so everything is smooth in q and has the
    same shape for joints of every kind.
    """
    free = matmul(active * (1 - jnp.sqrt(load / (1 + load)))[..., None, :], transpose(subspace))
    extra = matmul(subspace * (along / (1 + load))[..., None, :], transpose(subspace))
    return identity(6, free) - free, extra


def _compliances(model: Model, rotation: Float[Array, "nb 3 3"]) -> Float[Array, "nb 6 6"]:
    """Inverse inertias of the bodies about their origins, world axes."""
    about_com = matmul(matmul(rotation, spd_inverse(model.inertia)), transpose(rotation))
    return inverse_inertia(model.mass, matvec(rotation, model.com), about_com)

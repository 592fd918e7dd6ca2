"""Linear algebra with the structure of a mechanism, or of time. Nothing here knows of robots.

- Trees: `TreeSchedule`, `sweep_outward` and `sweep_inward` go from the root to the leaves and back.
- Recurrences: schedules (`Sequential`, `Associative`, `Doubling`, `Chunked`, and for trees `Levels`, `AncestorMask`)
  evaluate cumulative products in any semigroup, along sequences and trees, `Distributed` in chunks on several devices;
  `affine_scan`, `prefix_sum` and `BlockBidiagonal` are built on them.
- Block-tridiagonal systems: `BlockTridiagonal` with the solvers `BlockLDL`, `OddEvenElimination`, `CyclicReduction`,
  `Partitioned` over several devices, and `Refined` around any of these.
- Systems on the edges of a tree: `EdgeSystem` with the solvers `ChainsAndNodes`, `LeafToRoot`, `Dense`.
- Riccati recursions: `TwoPort` and their `star_product`, for any schedule.
- Linear-quadratic problems of optimal control: `LinearQuadratic` with the solvers `Riccati` and `StageMultipliers`;
  `steady_riccati` for infinite horizons.
- `change_of_basis`: what a constraint leaves free, and what it takes.
- Small symmetric positive definite systems: `ldl_factor`, `ldl_solve`, `spd_solve`, `spd_inverse`.
"""

from ._affine_scan import BlockBidiagonal as BlockBidiagonal, affine_scan as affine_scan
from ._block_ldl import BlockLDL as BlockLDL
from ._block_tridiagonal import (
    BlockTridiagonal as BlockTridiagonal,
    FactoredBlockTridiagonal as FactoredBlockTridiagonal,
)
from ._chains_and_nodes import ChainsAndNodes as ChainsAndNodes
from ._change_of_basis import ReciprocalBases as ReciprocalBases, change_of_basis as change_of_basis
from ._cyclic_reduction import CyclicReduction as CyclicReduction
from ._distributed import Distributed as Distributed, Partitioned as Partitioned
from ._edge_system import AbstractEdgeSolver as AbstractEdgeSolver, Dense as Dense, EdgeSystem as EdgeSystem
from ._leaf_to_root import LeafToRoot as LeafToRoot
from ._linear_quadratic import (
    FactoredLinearQuadratic as FactoredLinearQuadratic,
    LinearQuadratic as LinearQuadratic,
    LinearTerms as LinearTerms,
)
from ._odd_even_elimination import OddEvenElimination as OddEvenElimination
from ._refinement import Refined as Refined
from ._riccati import (
    Riccati as Riccati,
    RiccatiFactors as RiccatiFactors,
    steady_riccati as steady_riccati,
)
from ._scan import (
    AbstractSchedule as AbstractSchedule,
    AncestorMask as AncestorMask,
    Associative as Associative,
    Chunked as Chunked,
    Doubling as Doubling,
    Levels as Levels,
    Sequential as Sequential,
    prefix_sum as prefix_sum,
)
from ._small_spd import (
    LDL as LDL,
    ldl_factor as ldl_factor,
    ldl_solve as ldl_solve,
    spd_inverse as spd_inverse,
    spd_solve as spd_solve,
)
from ._stage_multipliers import StageMultipliers as StageMultipliers
from ._stages import (
    AbstractStageFactors as AbstractStageFactors,
    AbstractStageSolver as AbstractStageSolver,
    Extremal as Extremal,
    Stages as Stages,
)
from ._tree_schedule import TreeSchedule as TreeSchedule
from ._tree_sweep import sweep_inward as sweep_inward, sweep_outward as sweep_outward
from ._tridiagonal_solver import (
    AbstractTridiagonalFactor as AbstractTridiagonalFactor,
    AbstractTridiagonalSolver as AbstractTridiagonalSolver,
)
from ._two_port import TwoPort as TwoPort, general_star_product as general_star_product, star_product as star_product

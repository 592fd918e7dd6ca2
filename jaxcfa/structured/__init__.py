"""Linear algebra with the structure of a mechanism, or of time: sweeps over trees, scans, block-banded systems.

Nothing here knows of robots.
"""

from ._small_spd import (
    LDL as LDL,
    ldl_factor as ldl_factor,
    ldl_solve as ldl_solve,
    spd_inverse as spd_inverse,
    spd_solve as spd_solve,
)
from ._tree_schedule import TreeSchedule as TreeSchedule
from ._tree_sweep import sweep_inward as sweep_inward, sweep_outward as sweep_outward

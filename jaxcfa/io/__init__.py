"""Files: robot descriptions (URDF and MJCF), saved models and motions."""

from ._load import load_model as load_model
from ._mjcf import load_mjcf as load_mjcf
from ._report import ModelWarning as ModelWarning
from ._saved import (
    load_trajectory as load_trajectory,
    save_model as save_model,
    save_trajectory as save_trajectory,
)
from ._urdf import load_urdf as load_urdf

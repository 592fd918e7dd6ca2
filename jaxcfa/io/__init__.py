"""Reading robot description files: URDF and MJCF."""

from ._load import load_model as load_model
from ._mjcf import load_mjcf as load_mjcf
from ._report import ModelWarning as ModelWarning
from ._urdf import load_urdf as load_urdf

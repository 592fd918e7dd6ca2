"""Joint types: one file each, behind the interface `AbstractJoint`."""

from ._anchored import Anchored as Anchored
from ._base import AbstractJoint as AbstractJoint, AbstractVectorJoint as AbstractVectorJoint
from ._check import check_joint as check_joint
from ._composite import Composite as Composite
from ._cylindrical import Cylindrical as Cylindrical
from ._fixed import Fixed as Fixed
from ._free import Free as Free
from ._helical import Helical as Helical
from ._planar import Planar as Planar
from ._prismatic import Prismatic as Prismatic
from ._revolute import Revolute as Revolute
from ._spherical import Spherical as Spherical
from ._universal import Universal as Universal

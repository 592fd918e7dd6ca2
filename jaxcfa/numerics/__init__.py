"""Arithmetic that all else is written in: products of small and of large matrices, and what derivative rules share."""

from ._linear_solution import linear_solution as linear_solution
from ._perturbed import (
    instantiate as instantiate,
    is_perturbed as is_perturbed,
    jvp_of_perturbed as jvp_of_perturbed,
    no_tangent as no_tangent,
    of_perturbed as of_perturbed,
    perturbed as perturbed,
)
from ._pieces import cut as cut, joined as joined, lengthened as lengthened, picked as picked
from ._precise import product as product
from ._sin_cos import sin_cos as sin_cos, sin_cos_of_any as sin_cos_of_any
from ._small import (
    cross as cross,
    dot as dot,
    identity as identity,
    matmul as matmul,
    matvec as matvec,
    outer as outer,
    skew as skew,
    sum_of as sum_of,
    symmetrise as symmetrise,
    transpose as transpose,
)
from ._trees import (
    add as add,
    all_finite as all_finite,
    choose as choose,
    without_derivatives as without_derivatives,
)
from ._with_rule import with_rule as with_rule

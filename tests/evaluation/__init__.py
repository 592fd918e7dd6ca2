"""Programs evaluated by NumPy, equation by equation, instead of compiled by XLA.

Most programs of the tests run once, and briefly. For a thousand equations XLA takes half a second, NumPy milliseconds.
What is evaluated is what JAX traced and transformed, so that is tested as it stands. That XLA makes of it what it says
is tested where programs run long, where work is divided over devices, and where tests are marked as `compiled`;
JAXCFA_OPTIMISED_TESTS=1 in the environment compiles all, as users have them.
"""

from ._choice import (
    compiled as compiled,
    evaluated as evaluated,
    install as install,
    most_evaluations as most_evaluations,
)
from ._programs import Budget as Budget, TooLongError as TooLongError, evaluate as evaluate

"""How tests compile: XLA's options, which it reads once, before the first computation.

What is compiled at all (see `evaluation`) compiles quickly, in a third of the time, and runs slowly. Programs that run
long are compiled by `helpers.optimised` instead, and JAXCFA_OPTIMISED_TESTS=1 in the environment compiles all as users
have them.
"""

from importlib import metadata

# Option: its value in tests, and as users have it. XLA ends the process at one that it does not know.
OPTIONS = {
    "xla_backend_optimization_level": (0, 3),
    "xla_llvm_disable_expensive_passes": (True, False),
    "xla_cpu_parallel_codegen_split_count": (1, 32),
    # In programs with loops in loops these two take as long as all else, and run up to 25 times.
    "xla_disable_hlo_passes": ("while-loop-invariant-code-motion,simplify-while-loops", ""),
}
if metadata.version("jaxlib").startswith("0.10."):
    OPTIONS["xla_cpu_use_fusion_emitters"] = (False, True)

QUICK_FLAGS = " ".join(f"--{name}={str(quick).lower()}" for name, (quick, _) in OPTIONS.items())
AS_USERS_HAVE_IT = {name: usual for name, (_, usual) in OPTIONS.items()}

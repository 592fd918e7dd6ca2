"""What JAX has no public name for; no other module takes anything from `jax._src`."""

# Whether nothing is being traced: what users call by itself is compiled as a program of its own.
from jax._src.core import trace_state_clean as trace_state_clean

# Makes the constants of a program its first arguments: as a parameter of a primitive it holds no arrays.
from jax._src.interpreters.partial_eval import convert_constvars_jaxpr as convert_constvars_jaxpr

# Whether XLA has read its options from the environment already.
from jax._src.xla_bridge import backends_are_initialized as backends_are_initialized

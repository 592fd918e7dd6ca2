"""What the compiled programs of batches must not contain: see `jaxcfa.numerics._small`."""

import functools

import jax
import jax.numpy as jnp
import pytest

import jaxcfa
from jaxcfa.structured import Doubling

pytestmark = pytest.mark.skipif(jax.default_backend() != "cpu", reason="other backends fuse differently")

FUNCTIONS = {
    "inverse dynamics": (jaxcfa.inverse_dynamics, 3),
    "inverse dynamics by scans": (functools.partial(jaxcfa.inverse_dynamics, schedule=Doubling()), 3),
    "mass matrix": (jaxcfa.mass_matrix, 1),
    "ABA": (jaxcfa.forward_dynamics, 3),
    "scanned ABA": (functools.partial(jaxcfa.forward_dynamics, method=jaxcfa.ABA("scan")), 3),
    "CFA": (functools.partial(jaxcfa.forward_dynamics, method=jaxcfa.CFA()), 3),
}


def compiled_text(function, *arguments) -> str:
    return jax.jit(jax.vmap(function)).lower(*arguments).compile().as_text()


def has_matrix_products(text: str) -> bool:
    return " dot(" in text or "__ynn_fusion" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_batches_need_no_matrix_products(name):
    """Products of tiny matrices stay plain loops, fused with their neighbours."""
    model = jaxcfa.chain(7, dtype="float32")
    function, count = FUNCTIONS[name]
    arguments = [jnp.zeros((512, 7), jnp.float32)] * count
    assert not has_matrix_products(compiled_text(lambda *x: function(model, *x), *arguments))


def test_matrix_products_are_recognised():
    """So that the test above can fail."""
    arguments = jnp.zeros((512, 7, 7), jnp.float32), jnp.zeros((512, 7, 7), jnp.float32)
    assert has_matrix_products(compiled_text(jnp.matmul, *arguments))

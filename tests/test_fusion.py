"""What the compiled programs of batches must not contain: see `jaxcfa._small`."""

import jax
import jax.numpy as jnp
import pytest

import jaxcfa

pytestmark = pytest.mark.skipif(jax.default_backend() != "cpu", reason="other backends fuse differently")

FUNCTIONS = {
    jaxcfa.inverse_dynamics: ("q", "v", "qdd"),
    jaxcfa.forward_dynamics: ("q", "v", "tau"),
    jaxcfa.mass_matrix: ("q",),
}


def compiled_text(function, *arguments) -> str:
    return jax.jit(jax.vmap(function)).lower(*arguments).compile().as_text()


def has_matrix_products(text: str) -> bool:
    return " dot(" in text or "__ynn_fusion" in text


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_batches_need_no_matrix_products(function):
    """Products of tiny matrices stay plain loops, fused with their neighbours."""
    model = jaxcfa.chain(7, dtype="float32")
    arguments = [jnp.zeros((512, 7), jnp.float32) for _ in FUNCTIONS[function]]
    assert not has_matrix_products(compiled_text(lambda *x: function(model, *x), *arguments))


def test_matrix_products_are_recognised():
    """So that the test above can fail."""
    arguments = jnp.zeros((512, 7, 7), jnp.float32), jnp.zeros((512, 7, 7), jnp.float32)
    assert has_matrix_products(compiled_text(jnp.matmul, *arguments))

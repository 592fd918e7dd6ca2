"""Programs traced for other backends give the same values, here on the CPU; see also `structured/test_tree_sweep`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa import ABA
from jaxcfa.structured import BlockTridiagonal, CyclicReduction, Doubling, affine_scan


def test_caches_know_of_the_backend(on_cpu):
    traced, deep = [], jaxcfa.chain(40)

    @jax.jit
    def function(x):
        traced.append(jaxcfa.default_method(deep))
        return x

    function(1.0)
    with jaxcfa.compiling_for("tpu"):
        function(1.0)
    function(1.0)
    assert traced == [ABA(), ABA("scan")]


def test_unknown_backends_are_refused():
    with pytest.raises(ValueError, match="must be one of 'cpu', 'gpu', 'tpu', got 'cuda'"):
        jaxcfa.compiling_for("cuda")


@functools.cache
def scans(backend: str):
    """Doubling along a sequence, a block-tridiagonal system and forward dynamics, with derivatives."""
    rng = np.random.default_rng(0)
    a, b, lower = rng.normal(size=(7, 2, 2)) / 2, rng.normal(size=(7, 2)), rng.normal(size=(6, 2, 2)) / 4
    model, x = jaxcfa.chain(2), jnp.array([0.1, -0.2])

    def function(b, x):
        system = BlockTridiagonal(jnp.broadcast_to(2 * jnp.eye(2), (7, 2, 2)), jnp.asarray(lower))
        found = [affine_scan(a, b, Doubling()), system.factor(CyclicReduction(1)).solve(b)]
        found.append(jaxcfa.forward_dynamics(model, x, x, x))
        return sum(jnp.sum(y**2) for y in found), found

    with jaxcfa.compiling_for(backend):
        return jax.jit(jax.value_and_grad(function, (0, 1), has_aux=True))(b, x)


def test_rounds_that_are_written_out():
    assert_close(scans("gpu"), scans("cpu"), 1e-10)

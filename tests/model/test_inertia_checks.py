"""What is said about masses and inertias that no rigid body has."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from jaxcfa.joints import Free, Prismatic, Revolute, Universal
from jaxcfa.model import ModelBuilder, chain, with_body
from jaxcfa.model._inertia_checks import inertia_problems, massless_subtrees

Z = (0.0, 0.0, 1.0)


def build(*bodies: dict):
    """A model of bodies b0, b1, ..., each on the one before unless it has another parent."""
    builder = ModelBuilder()
    for i, body in enumerate(bodies):
        options = {"parent": i - 1 if i else None, "joint": Revolute(Z), **body}
        builder.add_body(f"b{i}", **options)
    return builder.build()


@pytest.mark.parametrize(
    ("mass", "inertia", "problem"),
    [
        (1.0, (1.0, 1.0, 1.0), None),
        (1.0, 0.0, None),
        (0.0, 0.0, None),
        (1.0, (1.0, 2.0, 3.0), None),
        (1.0, (0.1, 0.2, 0.3 + 1e-9), None),
        (1e-9, (1e-15, 1e-15, 1e-15), None),
        (1.0, (1.0, 2.0, 3.1), "inertia that breaks the triangle inequality"),
        (1.0, (1e-9, 1e-9, 1e-8), "inertia that breaks the triangle inequality"),
        (1.0, (1.0, 1.0, -0.1), "inertia that is indefinite"),
        (1.0, ((1.0, 2.0, 0.0), (2.0, 1.0, 0.0), (0.0, 0.0, 1.0)), "inertia that is indefinite"),
        (0.0, (1.0, 1.0, 1.0), "inertia without mass"),
    ],
)
def test_inertia_problems(mass, inertia, problem, dtype):
    model = build({"mass": 1.0, "inertia": 1.0}, {"mass": mass, "inertia": inertia}).astype(dtype)
    assert inertia_problems(model) == ([] if problem is None else [f"body 'b1': {problem}"])


def test_new_inertias_are_looked_at():
    """In the same words, where they are known."""
    model = build({"mass": 1.0, "inertia": 1.0})
    with pytest.warns(UserWarning, match=r"body 'b0': inertia that breaks the triangle inequality, .* 5\.0\]"):
        assert with_body(model, "b0", inertia=(1, 1, 5)).inertia[0, 2, 2] == 5
    with pytest.warns(UserWarning, match="body 'b0': inertia that is indefinite"):
        with_body(model, "b0", inertia=(1, 1, -1))
    with_body(model, "b0", mass=0.0)
    with_body(model, "b0", inertia=(1, 1, 2))
    assert jax.eval_shape(lambda x: with_body(model, "b0", inertia=x).inertia, jnp.ones(3)).shape == (1, 3, 3)


def test_values_that_a_builder_refuses_are_found_too():
    model = build({"mass": 1.0, "inertia": 1.0})
    assert inertia_problems(eqx.tree_at(lambda m: m.mass, model, -model.mass)) == ["body 'b0': negative mass"]
    model = eqx.tree_at(lambda m: m.inertia, model, model.inertia * jnp.nan)
    assert inertia_problems(model) == ["body 'b0': mass or inertia that is not finite"]


def test_no_bodies():
    assert inertia_problems(build()) == []
    assert massless_subtrees(build()) == []


def test_massless_bodies_are_fine_where_they_carry_others():
    assert massless_subtrees(build({}, {}, {"mass": 1.0})) == []
    assert massless_subtrees(build({}, {}, {"inertia": 1.0})) == []
    assert massless_subtrees(build({}, {"mass": 1.0}, {}, {})) == ["b2", "b3"]


def test_branches_are_looked_at_one_by_one():
    bodies = [{}, {"mass": 1.0}, {"parent": "b0"}, {"parent": "b2"}, {"parent": "b1"}]
    assert massless_subtrees(build(*bodies)) == ["b2", "b3", "b4"]


def test_armature_of_every_degree_of_freedom_is_inertia():
    universal = Universal((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    assert massless_subtrees(build({"armature": 0.1})) == []
    assert massless_subtrees(build({"armature": 0.1}, {})) == ["b1"]
    assert massless_subtrees(build({"joint": universal, "armature": 0.1})) == []
    assert massless_subtrees(build({"joint": universal, "armature": (0.1, 0.0)})) == ["b0"]
    assert massless_subtrees(build({"joint": Free(), "mass": 1.0}, {"joint": Prismatic(Z)})) == ["b1"]


def test_long_chains():
    model = chain(20_000)
    assert massless_subtrees(model) == []
    assert inertia_problems(model) == []

"""Linear-quadratic problems against a dense solution of their optimality conditions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from jax.flatten_util import ravel_pytree

from helpers import assert_close, traced_again
from jaxcfa.structured import (
    Chunked,
    Doubling,
    Extremal,
    LinearQuadratic,
    OddEvenElimination,
    Riccati,
    StageMultipliers,
    TwoPort,
    general_star_product,
    steady_riccati,
)
from jaxcfa.structured._elimination import general_solve
from jaxcfa.structured._two_port import semidefinite_root

SOLVERS = {
    "one by one": Riccati(),
    "doubling": Riccati(Doubling()),
    "chunks": Riccati(Chunked(4)),
    "multipliers": StageMultipliers(OddEvenElimination()),
}
KINDS = (
    "regular",
    "singular transitions",
    "one input",
    "only the end counts",
    "no control cost",
    "one control cost",
    "no least cost",
)


def problem(kind="regular", stages=7, n=4, m=2, seed=0, dtype=np.float64, **ends):
    """A random problem; the end counts by a matrix of rank two where nothing else does."""
    random = np.random.default_rng([seed, stages])
    a = np.eye(n) + 0.4 * random.standard_normal((stages, n, n)) / np.sqrt(n)
    b = 0.5 * random.standard_normal((stages, n, m))
    root = random.standard_normal((stages, n + m, n + m)) / np.sqrt(n + m)
    hessian = root @ np.swapaxes(root, 1, 2) + np.diag([0.0] * n + [0.1] * m)
    q, s, r = hessian[:, :n, :n], hessian[:, n:, :n], hessian[:, n:, n:]
    end = random.standard_normal((n, n))
    end = end @ end.T
    if kind == "singular transitions":
        a = random.standard_normal((stages, n, 1)) * random.standard_normal((stages, 1, n)) / n
        a[stages // 2] = 0
    if kind == "one input":
        b[:, :, 1:], b[::3] = 0, 0
    if kind == "only the end counts":
        half = random.standard_normal((n, 2))
        q, s, end = 0 * q, None, half @ half.T
    if kind == "no control cost":
        q, r, s = q + 0.1 * np.eye(n), 0 * r, None
    if kind == "one control cost":
        r[:, 1:], r[:, :, 1:], s[:, 1:] = 0, 0, 0
    if kind == "no least cost":  # of stages; the whole has one
        q, end = q - 0.2 * np.eye(n), end + 3 * np.eye(n)
    k = 0 if ends.get("end_rows") is None else len(ends["end_rows"])
    arrays = [None if x is None else jnp.asarray(x, dtype) for x in (a, b, np.concatenate([q, end[None]]), r, s)]
    lq = LinearQuadratic(*arrays, **ends)
    shapes = {"offsets": (stages, n), "state_gradients": (stages + 1, n), "control_gradients": (stages, m)}
    given = {name: random.standard_normal(shape) for name, shape in {**shapes, "start": (n,), "end": (k,)}.items()}
    return lq, lq.terms(**{name: jnp.asarray(x, dtype) for name, x in given.items()})


def lagrangian(lq, terms, z: Extremal):
    """Its gradient is zero at the solution."""
    x, u, lam = z.states, z.controls, z.costates
    total = jnp.einsum("ti,tij,tj", x, lq.state_cost, x) / 2 + jnp.einsum("ti,tij,tj", u, lq.control_cost, u) / 2
    if lq.cross_cost is not None:
        total += jnp.einsum("ti,tij,tj", u, lq.cross_cost, x[:-1])
    total += jnp.vdot(terms.state_gradients, x) + jnp.vdot(terms.control_gradients, u)
    reached = jnp.einsum("tij,tj->ti", lq.transition, x[:-1]) + jnp.einsum("tij,tj->ti", lq.input, u) + terms.offsets
    total += jnp.vdot(lam[1:], reached - x[1:])
    if lq.regularization is not None:
        total -= lq.regularization * jnp.vdot(lam[1:], lam[1:]) / 2
    kinds = np.broadcast_to(np.array(lq.start), x[0].shape)
    missing = terms.start - x[0] + jnp.where(kinds == "periodic", x[-1], 0)
    total += lam[0] @ jnp.where(kinds == "free", lam[0] / 2, missing)
    if lq.end_rows is not None:
        total += z.end_multipliers @ (lq.end_rows @ x[-1] - terms.end)
    return total


@jax.jit
def dense(lq, terms) -> Extremal:
    """The stationary point of the Lagrangian, by one dense solution."""
    zero, restore = ravel_pytree(jax.tree.map(jnp.zeros_like, terms.right_hand_side()))
    gradient = jax.grad(lambda z: lagrangian(lq, terms, restore(z)))
    return restore(jnp.linalg.solve(jax.jacfwd(gradient)(zero), -gradient(zero)))


@functools.partial(jax.jit, static_argnums=2)
def solved(lq, terms, solvers):
    return [lq.solve(terms, SOLVERS[name]) for name in solvers]


def check(lq, terms, solvers=tuple(SOLVERS)):
    expected = dense(lq, terms)
    for name, found in zip(solvers, solved(lq, terms, solvers), strict=True):
        assert_close(found, expected, rtol=1e-10, what=name)


@pytest.mark.parametrize("kind", KINDS)
def test_solutions_are_those_of_the_dense_system(kind):
    check(*problem(kind), tuple(SOLVERS) if kind in KINDS[:3] else ("one by one", "doubling", "chunks"))


def test_without_controls():
    check(*problem(m=0), ("one by one", "doubling"))


def test_one_stage():
    check(*problem(stages=1), ("one by one", "chunks", "multipliers"))


@pytest.mark.parametrize(
    "start", ["given", "free", "periodic", ("free", "given", "given", "given"), ("given", "periodic", "free", "given")]
)
def test_ends(start):
    """All kinds of starts with conditions for the end, and without; dynamics that yield."""
    rows = np.random.default_rng(5).standard_normal((2, 4))
    check(*problem(start=start, end_rows=rows, regularization=0.3), ("one by one",))
    if start != "given":
        check(*problem(start=start), ("one by one",))
    else:
        check(*problem(end_rows=rows, regularization=0.3), ("doubling", "multipliers"))


@pytest.mark.parametrize("stages", [300, 1000])
def test_long_problems_agree_and_have_no_residual(stages):
    @jax.jit
    def all_of(lq, terms):
        solvers = (Riccati(), Riccati(Doubling()), StageMultipliers(OddEvenElimination()))
        found = [lq.solve(terms, solver) for solver in solvers]
        return found, jax.tree.map(jnp.subtract, terms.right_hand_side(), lq.mv(found[0]))

    (first, *others), residual = all_of(*problem(stages=stages))
    assert_close(residual, jax.tree.map(jnp.zeros_like, residual), rtol=1e-11)
    for other in others:
        assert_close(other, first, rtol=1e-9)


def test_single_precision():
    """Where only the end counts, products of two-ports without roots lose all digits."""
    lq, terms = problem("only the end counts", stages=128)
    expected = jax.jit(lambda lq, terms: lq.solve(terms))(lq, terms)
    single = jax.tree.map(lambda x: x.astype(jnp.float32), (lq, terms))
    for solver in (Riccati(), Riccati(Doubling())):
        found = jax.jit(lambda lq, terms, solver=solver: lq.solve(terms, solver))(*single)
        for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert x.dtype == jnp.float32
            assert x.size == 0 or np.linalg.norm(x - y) < 4e-5 * np.linalg.norm(y)


def test_derivatives():
    """Of the solution by everything at once, first and second, in both modes; and batches."""
    lq, terms = problem(stages=3, n=2, m=1, end_rows=np.array([[1.0, 0.5]]))
    matrices = lq.transition, lq.input, lq.state_cost, lq.control_cost, lq.cross_cost, lq.end_rows
    flat, restore = ravel_pytree((matrices, terms))
    directions = np.random.default_rng(1).standard_normal((2, len(flat)))
    weights = np.random.default_rng(2).standard_normal(ravel_pytree(dense(lq, terms))[0].shape)

    def through(solve):
        def value(x):
            matrices, terms = restore(x)
            return jnp.vdot(weights, ravel_pytree(solve(LinearQuadratic(*matrices), terms))[0])

        along = jnp.asarray(directions)
        first, second = jax.linearize(jax.grad(value), flat)
        return (
            first,
            jax.jvp(value, (flat,), (along[0],))[1],
            second(along[1]) @ along[0],
            jax.linear_transpose(second, flat)(along[0])[0] @ along[1],
            jax.vmap(value)(flat + 0.1 * along),
        )

    assert_close(jax.jit(lambda: through(LinearQuadratic.solve))(), jax.jit(lambda: through(dense))(), rtol=1e-9)


def test_products_of_two_ports_lose_no_digits():
    """Stiffness many orders larger than what is left of it in series with something soft."""
    random = np.random.default_rng(0)
    root = random.standard_normal((3, 3))
    stiff = TwoPort(jnp.eye(3), jnp.zeros((3, 3)), 1e12 * root @ root.T)
    soft = TwoPort(jnp.eye(3), jnp.eye(3), jnp.zeros((3, 3)))
    series = general_star_product(soft, stiff)
    assert_close(series.stiffness, np.linalg.inv(np.eye(3) + np.linalg.inv(stiff.stiffness)), rtol=1e-12)


@pytest.mark.parametrize(("size", "rank"), [(3, 1), (12, 0), (12, 7), (20, 20), (20, 5)])
def test_roots_of_semidefinite_matrices_of_any_rank(size, rank):
    """Also where rows are zero, and where later ones are combinations of earlier ones."""
    columns = np.random.default_rng(size).standard_normal((size, rank))
    columns[size // 2] = 0
    matrix = columns @ columns.T
    root = np.asarray(semidefinite_root(jnp.asarray(matrix)))
    assert_close(root @ root.T, matrix, rtol=1e-13)
    assert_close(np.triu(root, 1), np.zeros((size, size)), rtol=0)
    assert np.count_nonzero(np.abs(root).max(axis=0) > 1e-6) <= rank


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_general_systems_are_solved_with_pivoting(dtype):
    """Zeros on the diagonal, rows of very different sizes; singular ones are not finite."""
    random = np.random.default_rng(0)
    matrices = random.standard_normal((5, 6, 6)) * np.exp(3 * random.standard_normal((5, 6, 1)))
    matrices[:, range(6), range(6)] = 0
    matrices[0] = np.eye(6)[[1, 0, 3, 2, 5, 4]]
    b = random.standard_normal((5, 6, 2))
    found = jax.jit(jax.vmap(general_solve))(matrices.astype(dtype), b.astype(dtype))
    assert_close(found, np.linalg.solve(matrices, b), rtol=1e-3 if dtype == np.float32 else 1e-11)
    assert found.dtype == dtype
    assert not np.any(np.isfinite(general_solve(jnp.zeros((2, 2)), jnp.ones((2, 1)))))
    assert general_solve(jnp.zeros((0, 0)), jnp.ones((0, 3))).shape == (0, 3)


def test_derivatives_of_infinite_horizons():
    """A mass whose position alone has a cost, so that roots are singular; of lists and integers."""
    transition, control_cost = [[1.0, 0.1], [0.0, 1.0]], [[1]]

    def stiffness(cost_of_speed, input):
        return steady_riccati(transition, input, jnp.diag(jnp.stack([1.0, cost_of_speed])), control_cost)[0]

    @jax.jit
    def derivatives(input):
        by_cost, by_input = jax.jacfwd(stiffness, (0, 1))(0.0, input)
        backwards = jax.jacrev(stiffness, (0, 1))(0.0, input)
        return by_cost, by_input, backwards, jax.jacfwd(jax.jacfwd(stiffness, 1), 1)(0.0, input)

    input, step = jnp.array([[0.0], [0.1]]), 1e-4
    by_cost, by_input, backwards, second = derivatives(input)
    of = jax.jit(stiffness)
    moved = jnp.array([[step], [0.0]])
    before, here, after = of(0.0, input - moved), of(0.0, input), of(0.0, input + moved)
    assert_close(by_cost, (4 * of(step, input) - of(2 * step, input) - 3 * here) / (2 * step), rtol=1e-6)
    assert_close(by_input[:, :, 0, 0], (after - before) / (2 * step), rtol=1e-5)
    assert_close(second[:, :, 0, 0, 0, 0], (after + before - 2 * here) / step**2, rtol=1e-4)
    assert_close(backwards, (by_cost, by_input), rtol=1e-9)


@pytest.mark.parametrize("kind", ["regular", "no control cost", "one control cost", "one cost of both controls"])
def test_steady_solutions(kind):
    random, (n, m) = np.random.default_rng(3), (4, 2)
    a, b, root = 0.6 * random.normal(size=(n, n)), random.normal(size=(n, m)), random.normal(size=(6, n + m))
    if kind == "one cost of both controls":
        root[:, -1] = 2 * root[:, -2]
    elif kind != "regular":
        root[:, n if kind == "no control cost" else n + 1 :] = 0
    cost = root.T @ root
    q, s, r = cost[:n, :n], cost[n:, :n], cost[n:, n:]
    stiffness, gain = jax.jit(steady_riccati)(a, b, q, r, s)
    assert_close(stiffness, scipy.linalg.solve_discrete_are(a, b, q, r, s=s.T), rtol=1e-11)
    assert_close(gain, -np.linalg.solve(r + b.T @ stiffness @ b, b.T @ stiffness @ a + s), rtol=1e-11)
    # A stage has no least cost, but the whole.
    more = random.normal(size=(m, n))
    whatever = s + more
    s = s + 0.4 * more
    assert np.linalg.eigvalsh(np.block([[q, s.T], [s, r]]))[0] < -0.01
    stiffness, gain = jax.jit(steady_riccati)(a, b, q, r, s)
    pivot, closed = r + b.T @ stiffness @ b, a + b @ gain
    assert np.linalg.eigvalsh(pivot)[0] > 0
    assert np.max(np.abs(np.linalg.eigvals(closed))) < 1
    assert_close(stiffness, q + a.T @ stiffness @ closed + s.T @ gain, rtol=1e-11)
    # What is found is a solution, or is not finite.
    stiffness, gain = jax.jit(steady_riccati)(a, b, q, r, whatever)
    if np.all(np.isfinite(stiffness)):
        assert_close(stiffness, q + a.T @ stiffness @ (a + b @ gain) + whatever.T @ gain, rtol=1e-9)
    # Nor has the whole.
    assert np.all(np.isnan(jax.jit(steady_riccati)(a, b, q - 100 * np.eye(n), r, s)[1]))


def test_steady_solutions_take_any_numbers():
    """Lists and other precisions together; systems of other shapes are explained."""
    input, costs = jnp.array([[0.0], [0.1]], "float32"), (np.eye(2, dtype="float32"), [[1]])
    stiffness, gain = jax.eval_shape(lambda: steady_riccati([[1.0, 0.1], [0.0, 1.0]], input, *costs))
    assert (stiffness.shape, gain.shape, stiffness.dtype) == ((2, 2), (1, 2), jnp.float64)
    with pytest.raises(ValueError, match=r"is of one system.*got shapes \(3, 2, 2\)"):
        steady_riccati(jnp.ones((3, 2, 2)), input, *costs)
    # Of quadratic forms only the symmetric part counts, as in `LinearQuadratic`.
    transition, half = np.array([[1.0, 0.1], [0.0, 1.2]]), np.array([[1.0, 0.6], [0.0, 1.0]])
    found, expected = (steady_riccati(transition, input, q, [[1]]) for q in (half, (half + half.T) / 2))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)


def test_errors():
    lq, terms = problem(stages=3)
    with pytest.raises(ValueError, match=r"state_cost must have shape \(4, 4, 4\)"):
        LinearQuadratic(lq.transition, lq.input, lq.state_cost[:-1], lq.control_cost)
    with pytest.raises(ValueError, match=r"one state or more.*got shapes \(0, 0\)"):
        steady_riccati(np.zeros((0, 0)), np.zeros((0, 2)), np.zeros((0, 0)), np.eye(2))
    with pytest.raises(ValueError, match="one stage and one state or more"):
        LinearQuadratic(lq.transition[:0], lq.input[:0], lq.state_cost[:1], lq.control_cost[:0])
    with pytest.raises(ValueError, match="one stage and one state or more"):
        LinearQuadratic(lq.transition[:, :0, :0], lq.input[:, :0], lq.state_cost[:, :0, :0], lq.control_cost)
    with pytest.raises(ValueError, match="given"):
        LinearQuadratic(lq.transition, lq.input, lq.state_cost, lq.control_cost, start="fixed")
    with pytest.raises(ValueError, match="there is no offset"):
        lq.terms(offset=terms.offsets)
    with pytest.raises(ValueError, match=r"start must have shape \(4,\)"):
        lq.terms(start=jnp.zeros(3))


def test_calls_outside_of_programs_are_traced_once(caplog):
    lq, terms = problem(stages=3, n=2, m=1, start="free")
    one = lq.transition[0], lq.input[0], lq.state_cost[0], lq.control_cost[0]

    def call():
        lq.solve(terms)
        lq.factor(Riccati(Doubling())).solve(terms)
        steady_riccati(*one)

    assert traced_again(caplog, call) == []

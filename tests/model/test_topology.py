"""The static structure of a model, against brute force."""

import jax
import numpy as np
import pytest

from jaxcfa.model import Topology
from jaxcfa.model._topology import first_duplicate
from jaxcfa.motion._jacobians import moving_dofs

FOREST = [-1, 0, 1, 1, 0, -1, 5, 2, -1, 6]
NVS = [6, 1, 1, 2, 1, 3, 1, 1, 1, 2]


def topology(parents=FOREST, nvs=NVS, **changes) -> Topology:
    """Names and groups by default: all joints of one size together."""
    parents, nvs = np.array(parents, dtype=np.int64), np.array(nvs[: len(parents)])
    names = [f"n{i}" for i in range(len(parents))]
    arguments = {
        "parents": parents,
        "nqs": nvs + (nvs == 6),
        "nvs": nvs,
        "group_bodies": [np.flatnonzero(nvs == size) for size in np.unique(nvs)],
        "body_names": names,
        "joint_names": names,
        "frame_names": ["hand"],
        "frame_bodies": [0],
    }
    return Topology(**(arguments | changes))


def ancestors(parents, body) -> list[int]:
    """The body and all that it hangs on."""
    return [] if body < 0 else [body, *ancestors(parents, parents[body])]


def test_equal_content_is_equal():
    assert topology() == topology()
    assert hash(topology()) == hash(topology())
    assert topology() != "a topology"


@pytest.mark.parametrize(
    "changes",
    [
        {"parents": np.array([*FOREST[:-1], 5])},
        {"nqs": np.array(NVS)},
        {"nvs": np.array(NVS[::-1])},
        {"group_bodies": [np.arange(10)]},
        {"body_names": [f"m{i}" for i in range(10)]},
        {"joint_names": [f"m{i}" for i in range(10)]},
        {"frame_names": ["foot"]},
        {"frame_bodies": [1]},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_any_difference_counts(changes):
    assert topology(**changes) != topology()
    assert hash(topology(**changes)) != hash(topology())


def test_arrays_cannot_be_changed():
    parents = np.array([-1, 0])
    made = topology(parents)
    parents[1] = -1
    assert made.parents.tolist() == [-1, 0]
    with pytest.raises(ValueError, match="read-only"):
        made.parents[0] = 1


def test_intervals():
    made = topology()
    first, last = made.intervals
    for body in range(made.nb):
        expected = ancestors(FOREST, body)
        mask = np.isin(np.arange(made.nb), expected)
        assert np.array_equal((first <= first[body]) & (first[body] < last), mask)
        assert np.array_equal(moving_dofs(made, np.array(body)), mask[made.dof_bodies])
        assert np.array_equal(jax.jit(lambda body: moving_dofs(made, body))(body), mask[made.dof_bodies])
        assert made.schedule.depths[body] == len(expected)
    assert not moving_dofs(made, np.array(-1)).any()
    assert sorted(first) == list(range(made.nb))


def test_coordinates():
    made = topology()
    assert (made.nq, made.nv) == (20, 19)
    assert made.q_starts.tolist() == [0, 7, 8, 9, 11, 12, 15, 16, 17, 18]
    assert made.v_starts.tolist() == [0, 6, 7, 8, 10, 11, 14, 15, 16, 17]
    assert made.dof_bodies.tolist() == np.repeat(np.arange(10), NVS).tolist()
    for group in made.groups:
        for body, q, v in zip(group.bodies, group.q_index, group.v_index, strict=True):
            assert q.tolist() == list(range(made.q_starts[body], made.q_starts[body] + made.nqs[body]))
            assert v.tolist() == list(range(made.v_starts[body], made.v_starts[body] + made.nvs[body]))


@pytest.mark.parametrize(
    ("nvs", "expected"),
    [
        ([1, 1, 1, 1], [(0, 4, 1)]),
        ([6, 1, 1, 1], [(0, 1, 6), (1, 4, 1)]),
        ([6, 1, 1, 3, 3], [(0, 1, 6), (1, 3, 1), (3, 5, 3)]),
        ([6, 1, 2, 1, 2], [(0, 1, 6), (1, 5, 2)]),
        ([1, 2, 1, 2, 1], [(0, 5, 2)]),
        ([0, 0], [(0, 2, 1)]),
        ([], [(0, 0, 1)]),
    ],
)
def test_segments(nvs, expected):
    """Runs of equal size; one padded run where there would be many."""
    made = topology(np.arange(len(nvs)) - 1, nvs, frame_bodies=[-1])
    assert [tuple(segment) for segment in made.segments] == expected


def test_segments_are_in_order_of_visit():
    deep = np.append(np.arange(-1, 2**8 - 2) // 2, 0)
    deep[0] = -1
    made = topology(deep, [6] + [1] * (len(deep) - 1))
    assert made.schedule.order is not None
    assert made.schedule.order[0] == 0
    assert [tuple(segment) for segment in made.segments] == [(0, 1, 6), (1, len(deep), 1)]


@pytest.mark.parametrize("parents", [[0], [-1, 2, 1], [-2], [-1, 1]])
def test_parents_come_first(parents):
    with pytest.raises(ValueError, match="numbered after their parents"):
        topology(parents)


@pytest.mark.parametrize("kind", ["body", "joint", "frame"])
def test_names_are_unique(kind):
    names = [f"n{i}" for i in range(9)] + ["n3"]
    with pytest.raises(ValueError, match=f"Duplicate {kind} name 'n3'"):
        topology(**{f"{kind}_names": names}, **({"frame_bodies": [0] * 10} if kind == "frame" else {}))


def test_first_duplicate():
    assert first_duplicate("abc") is None
    assert first_duplicate("abcba") == "b"

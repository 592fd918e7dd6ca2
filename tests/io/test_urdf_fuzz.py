"""Whatever is done to a URDF file, it gives a sound model, `ValueError` or `FileNotFoundError`."""

import copy
from xml.etree import ElementTree

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from jaxcfa.io import load_model, load_urdf
from jaxcfa.model import Model
from urdf_text import INERTIA, INERTIAL, LIMIT, joint, link, robot

pytestmark = pytest.mark.filterwarnings("ignore::jaxcfa.io.ModelWarning")

_TURNED = f'<inertial><origin xyz="0.1 0 0" rpy="0.1 0.2 0.3"/><mass value="2"/>{INERTIA}</inertial>'
TEXT = robot(
    link("base"),
    link("arm", _TURNED + '<visual><geometry><box size="1 1 1"/></geometry></visual>'),
    link("slider"),
    link("wheel", ""),
    link("tool", INERTIAL),
    link("raft"),
    link("balloon"),
    joint("a", "base", "arm", LIMIT + '<axis xyz="0 1 0"/><dynamics damping="0.1" friction="0.2"/>'),
    joint("b", "arm", "slider", LIMIT + '<mimic joint="a" multiplier="2" offset="1"/>', "prismatic"),
    joint("c", "slider", "wheel", '<origin xyz="1 2 3" rpy="0.1 0.2 0.3"/>', "continuous"),
    joint("d", "wheel", "tool", '<origin xyz="1 2 3"/>', "fixed"),
    joint("e", "base", "raft", '<axis xyz="0 0 1"/>', "planar"),
    joint("f", "raft", "balloon", "", "floating"),
    '<transmission name="t"><joint name="a"/></transmission><gazebo reference="arm"/><material name="m"/>',
)
TREE = ElementTree.fromstring(TEXT)
SIZE = len(list(TREE.iter()))
TAGS = sorted({element.tag for element in TREE.iter()})
ATTRIBUTES = sorted({name for element in TREE.iter() for name in element.attrib})
VALUES = sorted({value for element in TREE.iter() for value in element.attrib.values()})
STRANGE = [
    "",
    " ",
    "nan",
    "inf",
    "-1",
    "0",
    "0 0 0",
    "1e308",
    "-1e308",
    "1e12",
    "1e-320",
    "1e400",
    "1_0",
    "${x}",
    "\u0661",
    "0x1",
]

value = st.sampled_from(VALUES) | st.sampled_from(STRANGE) | st.text(st.characters(exclude_categories=["Cc", "Cs"]))
position = st.integers(0, SIZE - 1)
change = st.one_of(
    st.tuples(st.just("set"), position, st.sampled_from(ATTRIBUTES), value),
    st.tuples(st.just("replace"), position, st.integers(0, 5), value),
    st.tuples(st.just("unset"), position, st.integers(0, 5)),
    st.tuples(st.just("rename"), position, st.sampled_from([*TAGS, "unknown"])),
    st.tuples(st.just("delete"), position),
    st.tuples(st.just("copy"), position, position),
)


def changed(changes: list[tuple]) -> str:
    root = copy.deepcopy(TREE)
    for action, where, *details in changes:
        elements = list(root.iter())
        element = elements[where % len(elements)]
        names = sorted(element.attrib)
        match action, *details:
            case "set", name, text:
                element.set(name, text)
            case "replace", i, text if names:
                element.set(names[i % len(names)], text)
            case "unset", i if names:
                del element.attrib[names[i % len(names)]]
            case "rename", tag:
                element.tag = tag
            case "delete":
                element.clear()
                for parent in elements:
                    if element in list(parent):
                        parent.remove(element)
            case "copy", to:
                elements[to % len(elements)].append(copy.deepcopy(element))
    return ElementTree.tostring(root, encoding="unicode")


def check(load, source, **options) -> None:
    try:
        model = load(source, **options)
    except UnicodeError:  # a ValueError, but one that nobody understands
        raise
    except (ValueError, FileNotFoundError):
        return
    check_sound(model)


def check_sound(model: Model) -> None:
    assert model.nb == len(model.mass) == len(model.joint_names)
    for leaf in jax.tree.leaves((model.joints, model.placement, model.frame_placement, model.inertia, model.com)):
        assert np.all(np.isfinite(leaf))
    assert not np.any(np.isnan(model.limits.lower))


def test_text_is_read():
    model = load_urdf(TEXT)
    assert model.joint_names == ("a", "b", "c", "e", "f")
    assert len(model.constraints) == 1


fuzz = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@fuzz
@given(st.lists(change, min_size=1, max_size=4), st.booleans(), st.sampled_from(["float32", "float64"]))
def test_changed_elements(changes, floating_base, dtype):
    check(load_urdf, changed(changes), floating_base=floating_base, dtype=dtype)


@fuzz
@given(st.data())
def test_changed_bytes(data):
    content = bytearray(TEXT.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        stop = start + data.draw(st.integers(0, 20))
        content[start:stop] = data.draw(
            st.binary(max_size=5) | st.sampled_from([b"<", b">", b'"', b"&", b"\0", b"]]>"])
        )
    check(load_model, bytes(content))


@fuzz
@given(st.text() | st.text().map("<".__add__) | st.binary())
def test_any_text(content):
    check(load_urdf, content)
    check(load_model, content)

"""Malformed input gives `ValueError` or `FileNotFoundError` that says where and what to do."""

import os
import re

import pytest

from jaxcfa.io import load_model, load_urdf
from urdf_text import INERTIA, LIMIT, joint, link, one_joint, robot

BOMB = '<!DOCTYPE r [<!ENTITY a0 "aaaaaaaaaa">' + "".join(
    f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12)
)


def inertial(mass: str = "1", inertia: str = INERTIA, origin: str = "") -> str:
    return one_joint(LIMIT, child=f'<inertial><origin {origin}/><mass value="{mass}"/>{inertia}</inertial>')


def mimic(references: dict[str, str], kind: str = "revolute") -> str:
    joints = [
        joint(name, "base", f"link_{name}", f"{LIMIT}<mimic joint='{reference}'/>")
        for name, reference in references.items()
    ]
    other = joint("other", "base", "link_other", kind=kind)
    return robot(*map(link, ["base", "link_other", *(f"link_{name}" for name in references)]), *joints, other)


MALFORMED = {
    "empty": ("", "empty"),
    "blank": (" \n", "empty"),
    "empty bytes": (b"", "empty"),
    "broken": ("<robot name='a'><link", "line 1"),
    "not closed": (robot(link("a"))[:-3], "XML"),
    "junk bytes": (bytes(range(256)), "XML"),
    "wrong encoding": ('<robot name="\xe9"><link name="a"/></robot>'.encode("latin-1"), "XML"),
    "unknown encoding": (b'<?xml version="1.0" encoding="klingon"?><robot/>', "XML"),
    "lone surrogate": ("<robot name='\ud800'/>", "XML"),
    "null character": ("<robot name='\0'/>", "XML"),
    "entity": ('<!DOCTYPE r [<!ENTITY e SYSTEM "file:///etc/passwd">]>' + robot("&e;", link("a")), "entities"),
    "entity bomb": (BOMB + ']><robot name="&a11;"/>', "XML"),
    "entity bomb in text": (BOMB + "]>" + robot("&a11;", link("a")), "XML"),
    "other root": ("<sdf/>", "root element is <sdf>"),
    "surface": (b"solid cube", "no XML, which URDF and MJCF are"),
    "no link": (robot(), "no <link>"),
    "xacro": (robot('<xacro:arm xmlns:xacro="http://ros.org/wiki/xacro"/>'), "expand the file first"),
    "xacro undeclared": (robot("<xacro:arm/>", link("a")), "expand the file first"),
    "xacro in a link": (robot(link("a", '<xacro:inertia mass="1"/>')), "<xacro:inertia> belongs to xacro"),
    "unexpanded name": (robot(link("${prefix}a")), "is no name. Expand the file with xacro first"),
    "link without name": (robot("\n<link/>"), "<link> on line 2"),
    "link with empty name": (robot('<link name=" "/>'), "'name' of <link> is empty"),
    "joint without name": (one_joint(LIMIT).replace('joint name="joint"', "joint"), "<joint> on line 3"),
    "duplicate link": (robot(link("a"), link("a")), "several links called 'a'"),
    "duplicate joint": (
        robot(link("a"), link("b"), link("c"), joint("j", "a", "b"), joint("j", "a", "c")),
        "several joints called 'j'",
    ),
    "joint without type": (one_joint(LIMIT).replace('type="revolute"', ""), "unknown type None"),
    "unknown joint type": (one_joint(LIMIT, "ball"), "unknown type 'ball'; known are revolute"),
    "joint without parent": (one_joint(LIMIT).replace('<parent link="base"/>', ""), "needs a <parent>"),
    "joint without child": (one_joint(LIMIT).replace('<child link="body"/>', ""), "needs a <child>"),
    "parent without link": (
        one_joint(LIMIT).replace('<parent link="base"/>', "<parent/>"),
        "needs the attribute 'link'",
    ),
    "unknown parent": (robot(link("b"), joint("j", "a", "b")), "parent link 'a' is not in the file"),
    "unknown child": (robot(link("a"), joint("j", "a", "b")), "child link 'b' is not in the file"),
    "two parents": (
        robot(link("a"), link("b"), link("c"), joint("j", "a", "c"), joint("k", "b", "c")),
        "link 'c' is the child of the joints 'j' and 'k'",
    ),
    "two roots": (robot(link("a"), link("b")), "2 root links"),
    "cycle": (robot(link("a"), link("b"), joint("j", "a", "b"), joint("k", "b", "a")), "cycle at links 'a', 'b'"),
    "cycle apart": (
        robot(link("a"), link("b"), link("c"), joint("j", "c", "b"), joint("k", "b", "c")),
        "cycle at links 'b', 'c'",
    ),
    "joint from a link to itself": (robot(link("r"), link("a"), joint("j", "a", "a")), "cycle at links 'a'"),
    "negative mass": (inertial("-1"), "must not be negative"),
    "NaN mass": (inertial("nan"), "finite number"),
    "infinite mass": (inertial("inf"), "finite number"),
    "enormous mass": (inertial("1e400"), "too large"),
    "mass in words": (inertial("heavy"), "finite number"),
    "mass with unit": (inertial("1kg"), "finite number"),
    "mass with underscore": (inertial("1_0"), "finite number"),
    "mass in other digits": (inertial("\u0661"), "finite number"),
    "empty mass": (inertial(""), "finite number"),
    "two masses": (inertial("1 2"), "must be 1 finite number"),
    "unexpanded mass": (inertial("${mass}"), "xacro"),
    "no mass": (one_joint(LIMIT, child=f"<inertial>{INERTIA}</inertial>"), "needs a <mass>"),
    "no inertia": (one_joint(LIMIT, child='<inertial><mass value="1"/></inertial>'), "needs a <inertia>"),
    "inertia without ixy": (inertial(inertia='<inertia ixx="1"/>'), "needs the attribute 'ixy'"),
    "NaN inertia": (inertial(inertia=INERTIA.replace("1", "nan", 1)), "ixx='nan' of <inertia>"),
    "infinite inertial origin": (inertial(origin='xyz="0 0 inf"'), "3 finite numbers"),
    "short origin": (one_joint(LIMIT + '<origin xyz="0 0"/>'), "xyz='0 0' of <origin> must be 3 finite numbers"),
    "NaN rotation": (one_joint(LIMIT + '<origin rpy="0 nan 0"/>'), "3 finite numbers"),
    "zero quaternion": (one_joint(LIMIT + '<origin quat_xyzw="0 0 0 0"/>'), "must be four numbers"),
    "short quaternion": (one_joint(LIMIT + '<origin quat_xyzw="0 0 1"/>'), "must be 4 finite numbers"),
    "angles and quaternion": (one_joint(LIMIT + '<origin rpy="0 0 0" quat_xyzw="0 0 0 1"/>'), "leave one of them out"),
    "zero axis": (one_joint(LIMIT + '<axis xyz="0 0 0"/>'), "must not be zero"),
    "zero planar axis": (one_joint('<axis xyz="0 0 0"/>', "planar"), "must not be zero"),
    "axis without xyz": (one_joint(LIMIT + "<axis/>"), "needs the attribute 'xyz'"),
    "NaN limit": (one_joint('<limit lower="nan"/>'), "lower='nan' of <limit>"),
    "infinite limit": (one_joint('<limit upper="inf"/>'), 'a joint that turns is type="continuous"'),
    "infinite effort": (one_joint('<limit effort="inf"/>'), "leave the attribute out"),
    "exchanged limits": (one_joint(LIMIT.replace("-1", "5")), "lower limit 5.0 exceeds"),
    "negative effort": (one_joint(LIMIT.replace("4", "-4")), "must not be negative"),
    "negative damping": (one_joint(LIMIT + '<dynamics damping="-1"/>'), "must not be negative"),
    "damping in words": (one_joint(LIMIT + '<dynamics damping="much"/>'), "damping='much'"),
    "mimic without joint": (one_joint(LIMIT + "<mimic/>"), "needs the attribute 'joint'"),
    "mimic of itself": (mimic({"a": "a"}), "'a' mimic one another"),
    "mimic cycle": (mimic({"c": "a", "a": "b", "b": "a"}), "'a', 'b' mimic one another"),
    "mimic of a floating joint": (mimic({"a": "other"}, "floating"), "no single position"),
}


@pytest.mark.filterwarnings("ignore::jaxcfa.io.ModelWarning")
@pytest.mark.parametrize("load", [load_urdf, load_model])
@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_text(name, load):
    text, expected = MALFORMED[name]
    with pytest.raises(ValueError, match=rf"(?s)^XML text: .*{re.escape(expected)}"):
        load(text)


@pytest.mark.parametrize("load", [load_urdf, load_model])
def test_errors_name_file_line_and_element(tmp_path, load):
    path = tmp_path / "arm.urdf"
    path.write_text(inertial("-1"))
    with pytest.raises(ValueError, match=r"arm\.urdf: link 'body', line 2: value='-1' of <mass> must not be negative"):
        load(path)


@pytest.mark.parametrize("load", [load_urdf, load_model])
@pytest.mark.parametrize(
    "path", ["no/such/file.urdf", "a\0b", "x" * 5000, "y/" * 3000, "\ud800", "hello", "{}", "name: robot\nlinks: []"]
)
def test_wrong_paths(load, path):
    with pytest.raises(FileNotFoundError, match="Check the path"):
        load(path)


@pytest.mark.parametrize("load", [load_urdf, load_model])
def test_what_is_no_file_of_a_robot(tmp_path, load):
    with pytest.raises(ValueError, match="is no file"):
        load(tmp_path)
    with pytest.raises(ValueError, match="is no file"):
        load("/dev/null")
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="empty"):
        load(tmp_path / "empty")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is no file"):
        load(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "empty" / "file")


def test_urdf_reader_says_that_mjcf_is_none():
    with pytest.raises(ValueError, match="root element is <mujoco>, but that of URDF is <robot>"):
        load_urdf("<mujoco/>")


def test_bad_arguments():
    with pytest.raises(ValueError, match="gravity"):
        load_urdf(one_joint(LIMIT), gravity=(0.0, 1.0))
    with pytest.raises(ValueError, match="floating-point"):
        load_urdf(one_joint(LIMIT), dtype=int)

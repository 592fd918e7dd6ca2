"""Models and motions in files: what is read is what was written, bit by bit, and files that are wrong say so."""

import dataclasses
import io
import json
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from jaxcfa import closed_chains, load_model, load_trajectory, save_model, save_trajectory
from jaxcfa.environments import Transition
from jaxcfa.joints import Anchored, Composite, Free, Helical, Prismatic, Revolute
from jaxcfa.model import AbstractFrameConstraint
from jaxcfa.optimal_control import History, Solution
from jaxcfa.optimal_control._local import Multipliers, Rows
from jaxcfa.simulation import Linearization, State, Trajectory
from mechanisms import mechanism
from urdf_text import LIMIT, one_joint

MJCF = """<mujoco><worldbody>
  <body name="arm"><joint name="a" axis="0 1 0" range="-1 1" limited="true" damping=".1"/><joint name="b" type="slide"/>
    <geom size="1"/><site name="tip" pos="1 0 0"/>
    <body name="hand" pos="0 0 1"><joint name="c" type="ball"/><geom size="1"/></body></body>
  <body name="other"><joint name="d" axis="0 0 1" pos="1 0 0"/><geom size="1"/></body></worldbody>
  <equality><connect body1="hand" body2="other" anchor="0 0 0"/><weld name="w" body1="hand" body2="other"/></equality>
  <actuator><motor name="m" joint="d" gear="3"/><position name="p" joint="d" kp="2"/></actuator>
  <keyframe><key name="up" qpos="1 0 1 0 0 0 2"/></keyframe></mujoco>"""


class Hinge(Revolute):
    """A joint of a type of its own, with a field that is no array."""

    label: str = eqx.field(static=True, default="mine")


class Apart(AbstractFrameConstraint):
    """A constraint of a type of its own."""

    body1: int = eqx.field(static=True)
    body2: int = eqx.field(static=True)
    heights: dict
    name: str = eqx.field(static=True, default="")

    def residual(self, body1, body2):
        return (body1.translation[2] - self.heights["low"] - body2.translation[2])[None]


def own_types():
    """A model of a user's joints and constraints, nested ones and one that is carried too."""
    builder = jaxcfa.ModelBuilder()
    builder.add_body("a", joint=Free(), mass=1.0, inertia=0.1)
    builder.add_body("b", "a", Hinge((0, 0, 1)), mass=1.0, inertia=0.1)
    builder.add_body("c", "b", Composite((Hinge((1, 0, 0)), Anchored(Helical((0, 1, 0), 0.1), (1, 2, 3)))), mass=1.0)
    builder.add_body("d", "c", Prismatic((0, 0, 1)), mass=1.0)
    model = builder.build()
    constraints = (
        Apart(0, 3, {"low": jnp.array(0.3)}, "apart"),
        closed_chains.loop_joint(model, "a", "d", Revolute((0, 0, 1))),
        closed_chains.distance(model, "a", "d", 0.5),
        closed_chains.couple(model, "d_joint", "b_joint", (1.0, 2.0)),
    )
    return jaxcfa.lock_joints(dataclasses.replace(model, constraints=constraints), "d_joint")


def assert_same(actual, expected):
    """Equal bit by bit, of the same types and the same structure, with which programs are found again."""
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    assert hash(jax.tree.structure(actual)) == hash(jax.tree.structure(expected))
    for x, y in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert isinstance(x, jax.Array)
        assert (x.dtype, x.shape, x.weak_type) == (y.dtype, y.shape, y.weak_type)
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


MODELS = {
    "chain": lambda: jaxcfa.chain(3),
    "every joint type": lambda: mechanism("all together"),
    "URDF": lambda: load_model(one_joint(LIMIT), floating_base=True),
    "MJCF": lambda: load_model(MJCF),
    "own types": own_types,
    "a batch": lambda: jax.tree.map(lambda x: jnp.stack([x, 2 * x]), mechanism("humanoid-like")),
    "one number that is a batch": lambda: eqx.tree_at(lambda m: m.mass, jaxcfa.chain(3), jnp.ones((5, 3))),
    "no bodies": lambda: jaxcfa.ModelBuilder().build(),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name, tmp_path):
    path = tmp_path / "model.npz"
    for dtype in ("float64", "float32", "bfloat16"):
        model = MODELS[name]().astype(dtype)
        save_model(path, model)
        assert_same(load_model(path, types=[Hinge, Apart]), model)
        assert_same(load_model(str(path), dtype="float32", types=[Hinge, Apart]), model.astype("float32"))
    if name == "MJCF":
        assert (len(model.constraints), len(model.actuators.names), model.keyframes.names) == (2, 2, ("qpos0", "up"))


def test_programs_are_found_again(tmp_path):
    model = load_model(MJCF)
    save_model(tmp_path / "model.npz", model)
    traces = []
    function = jax.jit(lambda model: traces.append(0) or model.mass)
    for each in (model, load_model(tmp_path / "model.npz")):
        function(each)
    assert len(traces) == 1


def test_gravity_of_a_batch(tmp_path):
    save_model(tmp_path / "batch.npz", jax.tree.map(lambda x: jnp.stack([x] * 3), jaxcfa.chain(2)))
    batch = load_model(tmp_path / "batch.npz", gravity=(0, 0, -1.62))
    assert batch.gravity.tolist() == 3 * [[0, 0, -1.62]]
    assert jax.vmap(jaxcfa.gravity_forces)(batch, jnp.zeros((3, 2))).shape == (3, 2)


def test_gravity(tmp_path):
    save_model(tmp_path / "model.npz", jaxcfa.chain(2))
    assert load_model(tmp_path / "model.npz", gravity=(0, 0, -1.62)).gravity.tolist() == [0, 0, -1.62]
    with pytest.raises(ValueError, match="has the base that it was saved with; omit floating_base"):
        load_model(tmp_path / "model.npz", floating_base=True)


def solution():
    """A solution with numbers in every place."""
    numbers = iter(jnp.arange(1000.0))
    rows = [Rows(jnp.full((4, 2), next(numbers)), jnp.full(3, next(numbers))) for _ in range(3)]
    multipliers = Multipliers(jnp.full((5, 2), next(numbers)), *rows[:2])
    fields = {field.name: next(numbers) for field in dataclasses.fields(Solution)}
    fields |= {"multipliers": multipliers, "slack": rows[2], "history": History.empty(3, "float32")}
    return Solution(**fields | {"status": jnp.ones((), int), "coordinates": 2})


def test_motions(tmp_path):
    path = tmp_path / "motion.npz"
    trajectory = Trajectory(jnp.arange(3.0), jnp.ones((3, 2)), jnp.ones((3, 2)), jnp.ones((2, 2)), jnp.zeros((), int))
    everything = {"robot": "arm", "both": [solution(), (trajectory, None)], "speed": 0.1, "loops": True}
    steps = [State(*trajectory[1:3]), Linearization(*trajectory[1:3]), Transition(*trajectory, None, (jnp.ones(2),))]
    for motion in (trajectory, solution(), *steps, {"q": jnp.ones((3, 2), "float32"), "n": jnp.arange(3)}):
        save_trajectory(path, motion)
        found = load_trajectory(str(path))
        assert type(found) is type(motion)
        assert_same(found, motion)
    swapped = np.arange(3.0).astype(">f8"), np.arange(3, dtype=">i4")
    save_trajectory(path, swapped)
    for x, y in zip(load_trajectory(path), swapped, strict=True):
        np.testing.assert_array_equal(x, y)
    save_trajectory(path, everything)
    found = load_trajectory(path)
    assert (found["robot"], found["speed"], found["loops"]) == ("arm", 0.1, True)
    assert_same(found["both"], everything["both"])
    with pytest.raises(ValueError, match="holds a trajectory; read it with load_trajectory"):
        load_model(path)


def test_arrays_are_called_after_their_places(tmp_path):
    path, one = tmp_path / "motion.npz", jnp.ones(2)
    save_trajectory(path, Trajectory(one, one, one, one, jnp.zeros((), int)))
    with np.load(path) as archive:
        assert sorted(archive.files) == ["header", "q", "status", "t", "tau", "v"]
    save_model(path, jaxcfa.chain(2))
    with np.load(path) as archive:
        assert {"mass", "placement.translation", "limits.lower", "joints.0.axis"} <= set(archive.files)
    odd = ("header", "file", "allow_pickle", "a.b", "a", "../x", "x.npy", "0", "", "x", "µ", "array5")
    motion = {name: jnp.full(2, i, "float32") for i, name in enumerate(odd)}
    motion["a"] = {"b": jnp.full(3, 7.0, "float32"), "npy": one}
    motion["more"] = [one, (one, 2 * one)]
    save_trajectory(path, motion)
    assert_same(load_trajectory(path), motion)
    save_trajectory(path, one)
    assert_same(load_trajectory(path), one)


def test_files_of_format_1(tmp_path):
    """Their arrays are numbered."""
    path, old = tmp_path / "model.npz", tmp_path / "old.npz"
    save_model(path, own_types())

    def numbered(header, arrays):
        numbers = {name: str(i) for i, name in enumerate(name for name in arrays if name != "header")}
        text = re.sub(r'"array": "([^"]*)"', lambda found: f'"array": {numbers[found[1]]}', json.dumps(header))
        header.update(json.loads(text), version=1)
        for name, number in numbers.items():
            arrays[number] = arrays.pop(name)

    old.write_bytes(altered(path, numbered))
    assert_same(*(load_model(each, types=[Hinge, Apart]) for each in (old, path)))


def test_files_of_format_2(tmp_path):
    """Their couplings are of joints of one coordinate only."""
    path, old = tmp_path / "model.npz", tmp_path / "old.npz"
    model = jaxcfa.chain(2)
    save_model(path, dataclasses.replace(model, constraints=(closed_chains.couple(model, 1, 0, [0.0, 2.0]),)))

    def without_coordinates(header, arrays):
        (coupling,) = fields(header)["constraints"]["tuple"]
        assert [coupling["fields"].pop(f"{end}_coordinate") for end in ("joint", "reference")] == [0, 0]
        header.update(version=2)

    old.write_bytes(altered(path, without_coordinates))
    assert_same(load_model(old), load_model(path))


def test_files_of_formats_3_and_4(tmp_path):
    """Their limits know of no stops; actuators have no frames before format 4, keyframes no controls. Also batches."""
    path, old = tmp_path / "model.npz", tmp_path / "old.npz"

    def without(version, parts):
        def older(header, arrays):
            for part, names in parts.items():
                for name in names:
                    arrays.pop(fields(header, part).pop(name).get("array"), None)
            header.update(version=version)

        return older

    stops = {"limits": ("stop_frequency",)}
    model = jaxcfa.add_keyframe(jaxcfa.add_servos(jaxcfa.chain(3), 2.0), "bent", jnp.ones(3), control=jnp.zeros(3))
    for each in (model, jax.vmap(lambda x: jaxcfa.with_body(model, 0, mass=x))(jnp.arange(1.0, 3.0))):
        save_model(path, each)
        wrenches = {"actuators": ("frames", "wrench"), "keyframes": ("control",)}
        for change in (without(3, wrenches | stops), without(4, stops)):
            old.write_bytes(altered(path, change))
            assert_same(load_model(old), load_model(path))


def altered(path, change):
    """A saved file with another header or other arrays."""
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(arrays["header"].tobytes())
    change(header, arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def fields(header, *names):
    node = header["content"]["fields"]
    for name in names:
        node = node[name]["fields"]
    return node


def test_files_that_are_wrong(tmp_path):
    path, other = tmp_path / "model.npz", tmp_path / "other.npz"
    save_model(path, own_types())
    data = path.read_bytes()
    stream = io.BytesIO()
    np.savez(stream, header=np.array([{"an": "object"}], dtype=object))

    def number_of(header, arrays, *names):
        return str(fields(header, *names[:-1])[names[-1]]["array"])

    def shorter(header, arrays):
        arrays[number_of(header, arrays, "mass")] = np.ones(7)

    def elsewhere(header, arrays):
        arrays[number_of(header, arrays, "topology", "parents")] = np.array([0, 1, 2])

    def otherwise(header, arrays):
        fields(header)["constraints"] = {"tuple": [1.0]}

    attempts = {
        "damaged, or no file that jaxcfa has saved": [
            data[: len(data) // 2],
            data[:-1],
            bytes([*data[:1000], data[1000] ^ 1, *data[1001:]]),
            b"text",
            b"",
            stream.getvalue(),  # pickled, which is never read
            altered(path, lambda header, arrays: header.update(format="another")),
            altered(path, lambda header, arrays: arrays.pop("mass")),
            altered(path, lambda header, arrays: fields(header).pop("mass")),
            altered(path, lambda header, arrays: fields(header).update(mass={"call": "os.system"})),
            altered(path, elsewhere),
        ],
        "written by a newer version of jaxcfa, in format 6": [
            altered(path, lambda header, arrays: header.update(version=6))
        ],
        "its parts do not fit together": [altered(path, change) for change in (shorter, otherwise)],
        "holds something else": [altered(path, lambda header, arrays: header.update(kind="policy"))],
    }
    for message, files in attempts.items():
        for content in files:
            other.write_bytes(content)
            with pytest.raises(ValueError, match=f"other.npz: .*{message}"):
                load_model(other, types=[Hinge, Apart])
    save_model(other, jaxcfa.chain(2))
    with pytest.raises(ValueError, match="holds a model; read it with load_model"):
        load_trajectory(other)
    with pytest.raises(ValueError, match=r"holds a Hinge, which is no type of jaxcfa.*types=\[Hinge\]"):
        load_model(path)
    for read in (load_model, load_trajectory):
        with pytest.raises(FileNotFoundError, match="There is no file"):
            read(tmp_path / "missing.npz")
        with pytest.raises(FileNotFoundError, match=r"'https://foo/bar\.npz' is an address.*Download the file first"):
            read("https://foo/bar.npz")


def test_folders_are_made(tmp_path):
    save_trajectory(tmp_path / "new" / "folder" / "motion.npz", {"t": jnp.zeros(2)})
    assert load_trajectory(tmp_path / "new" / "folder" / "motion.npz")["t"].shape == (2,)


def test_what_cannot_be_saved(tmp_path):
    path, model = tmp_path / "model.npz", jaxcfa.chain(2)
    namesake = dataclasses.make_dataclass("Revolute", [])
    other_hinge = type("Hinge", (Prismatic,), {})
    two_hinges = jaxcfa.ModelBuilder()
    for joint in (Hinge((0, 0, 1)), other_hinge((0, 0, 1))):
        two_hinges.add_body(joint=joint, mass=1.0, inertia=0.1)
    messages = {
        "a path that ends with .npz": lambda: save_model(tmp_path / "model.json", model),
        "save_model saves a Model": lambda: save_model(path, {"a": 1}),
        "model.joints.0.axis is being traced": lambda: jax.jit(lambda m: save_model(path, m))(model),
        "trajectory.q cannot be saved: <object": lambda: save_trajectory(path, {"q": object()}),
        "trajectory.key cannot be saved": lambda: save_trajectory(path, {"key": jax.random.key(0)}),
        "trajectory cannot be saved: arrays are of JAX's numbers, not of object": lambda: save_trajectory(
            path, np.array([{}])
        ),
        "trajectory.names cannot be saved: arrays are of JAX's numbers, not of <U1": lambda: save_trajectory(
            path, {"names": np.array(["a", "b"])}
        ),
        "trajectory.rows cannot be saved: arrays are of JAX's numbers, not of": lambda: save_trajectory(
            path, {"rows": np.zeros(2, [("q", float)])}
        ),
        "trajectory.robot cannot be saved: it is a Model, which load_trajectory does not know": lambda: save_trajectory(
            path, {"robot": model}
        ),
        "A type of jaxcfa has the name 'Revolute' too": lambda: load_model(path, types=[namesake]),
        "Another of your types has the name 'Hinge' too": lambda: load_model(path, types=[Hinge, Hinge, other_hinge]),
        "Another of your types has the name 'Hinge' too; give": lambda: save_model(path, two_hinges.build()),
        "types must be classes of joints or constraints": lambda: load_model(path, types=["Hinge"]),
    }
    (tmp_path / "folder.npz").mkdir()
    for target in (tmp_path / "folder.npz", path / "model.npz"):
        path.touch()
        with pytest.raises(OSError, match=r"cannot be written .* Give another path"):
            save_model(target, model)
    for message, attempt in messages.items():
        with pytest.raises(ValueError, match=message):
            attempt()

"""The examples run, and show what they say."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest

import jaxcfa
from compilation import QUICK_FLAGS

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_identify_masses(capsys):
    runpy.run_path(str(EXAMPLES / "identify_masses.py"), run_name="__main__")
    first, *_, last = capsys.readouterr().out.splitlines()
    error = [float(line.split()[-1].rstrip("%")) for line in (first, last)]
    assert error[0] > 50
    assert error[1] < 5


@pytest.mark.slow
def test_space_robot(capsys, monkeypatch, tmp_path):
    plot = tmp_path / "plot.png"
    monkeypatch.setattr(sys, "argv", ["space_robot.py", "--duration", "0.1", "--output", str(plot)])
    runpy.run_path(str(EXAMPLES / "space_robot.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()

    def numbers(start: str) -> list[float]:
        found = [re.findall(r"(?<= )\d\S+", line) for line in lines if line.startswith(start)]
        return [float(number) for row in found for number in row]

    differences, momentum, energy, orders = (
        numbers(start) for start in ("CFA - ABA:", "drift of momentum", "drift of kinetic", "order:")
    )
    assert len(differences) == 6
    assert max(differences) < 1e-9
    assert len(momentum) == 4
    assert max(momentum) < 1e-10
    assert len(energy) == 1
    assert max(energy) < 1e-10
    assert len(orders) == 2
    assert min(orders) > 3.7
    assert plot.stat().st_size > 0


@pytest.mark.slow
def test_reach_target(capsys, monkeypatch, tmp_path):
    robot = Path(jaxcfa.__file__).parent / "data" / "arm7.urdf"
    options = ["--robot", str(robot), "--targets", "2", "--iterations", "100", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["reach_target.py", *options])
    runpy.run_path(str(EXAMPLES / "reach_target.py"), run_name="__main__")
    rows = [line for line in capsys.readouterr().out.splitlines() if re.match(r"│ \d", line)]
    assert len(rows) == 2
    for row in rows:
        *_, distance, speed, _, _ = row.split("│")
        assert float(distance.split()[-1]) < 30
        assert float(speed.split()[-1]) < 0.5
    assert (tmp_path / "optimisation.png").stat().st_size > 0
    assert (tmp_path / "motion.gif").stat().st_size > 0


@pytest.mark.slow
def test_push_box(capsys, monkeypatch, tmp_path):
    """Few iterations bring the box nearer to where it is wanted, from behind it."""
    motion = tmp_path / "push_box.gif"
    options = ["--starts", "4", "--iterations", "3", "--goal", "0.02", "0", "0", "--output", str(motion)]
    monkeypatch.setattr(sys, "argv", ["push_box.py", *options])
    main = runpy.run_path(str(EXAMPLES / "push_box.py"))["main"]
    for name, value in {"DURATION": 0.2, "CHUNK": 3}.items():
        monkeypatch.setitem(main.__globals__, name, value)
    main()
    rows = [line.split("│") for line in capsys.readouterr().out.splitlines() if re.match(r"│ -?\d", line)]
    assert len(rows) == 4
    before, after = (float(x) for x in rows[0][2:4])
    assert after < before
    assert motion.stat().st_size > 0


@pytest.mark.slow
def test_identify_inertias(capsys, monkeypatch, tmp_path):
    robot, plot = Path(__file__).parent.parent / "jaxcfa" / "data" / "arm7.urdf", tmp_path / "plot.png"
    options = ["--robot", str(robot), "--samples", "100", "--iterations", "8", "--output", str(plot)]
    monkeypatch.setattr(sys, "argv", ["identify_inertias.py", *options])
    runpy.run_path(str(EXAMPLES / "identify_inertias.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    guess, found = (next(line for line in lines if name in line).split("│") for name in ("guess  ", "log-Cholesky"))
    errors = [[float(cell.strip(" %")) for cell in row[2:4]] for row in (guess, found)]  # of torques, base parameters
    assert min(errors[0]) > 10
    assert max(errors[1]) < 2
    assert found[5].split()[0] == "0"
    assert plot.stat().st_size > 0


@pytest.mark.slow
def test_arm_obstacle(capsys, monkeypatch, tmp_path):
    robot, plot = Path(__file__).parent.parent / "jaxcfa" / "data" / "arm7.urdf", tmp_path / "plot.png"
    options = ["--robot", str(robot), "--steps", "20", "--output", str(plot)]
    monkeypatch.setattr(sys, "argv", ["arm_obstacle.py", *options])
    runpy.run_path(str(EXAMPLES / "arm_obstacle.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert "SOLVED" in lines[0]
    assert float(lines[1].split()[-1]) < 1e-6
    room = [float(line.split()[-1]) for line in lines if line.startswith("least room")]
    assert len(room) == 8
    assert -1e-6 < min(room) < 1e-3
    assert plot.stat().st_size > 0


@pytest.mark.slow
def test_swing_up(capsys, monkeypatch, tmp_path):
    plot = tmp_path / "plot.png"
    monkeypatch.setattr(sys, "argv", ["swing_up.py", "--output", str(plot)])
    runpy.run_path(str(EXAMPLES / "swing_up.py"), run_name="__main__")
    first, _, *rows, _ = capsys.readouterr().out.splitlines()
    planned, same, feedback = (float(row.split()[-2]) for row in rows)
    assert "SOLVED" in first
    assert planned < 0.01
    assert same > 0.5
    assert feedback < 0.05
    assert max(float(row.split()[-1]) for row in rows) <= 3.0
    assert plot.stat().st_size > 0


@pytest.mark.slow
@pytest.mark.compiled  # NumPy would give up on its loops after seconds
def test_quadrotor(capsys, monkeypatch, tmp_path):
    plot = tmp_path / "plot.png"
    monkeypatch.setattr(sys, "argv", ["quadrotor.py", "--output", str(plot)])
    runpy.run_path(str(EXAMPLES / "quadrotor.py"), run_name="__main__")
    first, _, *rows, _ = capsys.readouterr().out.splitlines()
    assert "SOLVED" in first
    planned, same, feedback = ([float(x) for x in row.split()[-4:]] for row in rows)
    assert max(planned[0], planned[2]) < 1e-6
    assert abs(planned[1] - 60) < 1e-4
    assert same[2] > 3 * feedback[2]
    assert max(row[3] for row in (planned, same, feedback)) <= 6.0
    assert plot.stat().st_size > 0


@pytest.mark.slow
@pytest.mark.compiled  # NumPy would give up on its loops after seconds
def test_turning_in_space(capsys, monkeypatch, tmp_path):
    plot = tmp_path / "plot.png"
    monkeypatch.setattr(sys, "argv", ["turning_in_space.py", "--steps", "20", "--output", str(plot)])
    runpy.run_path(str(EXAMPLES / "turning_in_space.py"), run_name="__main__")
    first, *rows, _ = capsys.readouterr().out.splitlines()
    angle, posture, violation, angular, linear, torque, rate = (float(row.split()[-1]) for row in rows)
    assert "SOLVED" in first
    assert abs(angle - 30) < 1e-4
    assert max(posture, violation) < 1e-6
    assert angular < 0.01
    assert linear < 1e-9
    assert torque <= 10.0
    assert rate <= 1.5 + 1e-6
    assert plot.stat().st_size > 0


@pytest.mark.slow
def test_two_arms_carry(capsys, monkeypatch, tmp_path):
    plot = tmp_path / "plot.png"
    monkeypatch.setattr(sys, "argv", ["two_arms_carry.py", "--output", str(plot)])
    runpy.run_path(str(EXAMPLES / "two_arms_carry.py"), run_name="__main__")
    first, *rows, _ = capsys.readouterr().out.splitlines()
    x, z, violation, gap, torque = (float(row.split()[-1]) for row in rows)
    assert "SOLVED" in first
    assert abs(x - 0.65) < 1e-3
    assert abs(z - 0.75) < 1e-3
    assert violation < 1e-6
    assert gap < 0.01
    assert torque <= 40.0
    assert plot.stat().st_size > 0


@pytest.mark.slow
def test_long_chain(capsys, monkeypatch, tmp_path):
    plot = tmp_path / "plot.png"
    monkeypatch.setattr(sys, "argv", ["long_chain.py", "--links", "10", "--steps", "10", "--output", str(plot)])
    runpy.run_path(str(EXAMPLES / "long_chain.py"), run_name="__main__")
    _, *rows, _ = capsys.readouterr().out.splitlines()
    statuses, costs = zip(*((row.split()[1], float(row.split()[3])) for row in rows), strict=True)
    assert statuses == ("SOLVED", "SOLVED")
    assert abs(costs[0] - costs[1]) < 1e-4
    assert plot.stat().st_size > 0


@pytest.mark.slow
def test_learn_swing_up(capsys, monkeypatch, tmp_path):
    """Too short to swing up, but not to begin with it."""
    plot = tmp_path / "plot.png"
    monkeypatch.setattr(sys, "argv", ["learn_swing_up.py", "--part", "0.05", "--output", str(plot)])
    runpy.run_path(str(EXAMPLES / "learn_swing_up.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    rows = [next(line for line in lines if name in line).split("│") for name in ("analytic gradients", "PPO")]
    for row in rows:
        before, after = (float(cell) for cell in row[5:7])
        assert after > before + 0.5
    assert plot.stat().st_size > 0


@pytest.mark.slow
@pytest.mark.compiled  # NumPy would take minutes for its steps
def test_quadruped_stand(capsys, monkeypatch, tmp_path):
    plot = tmp_path / "plot.png"
    monkeypatch.setattr(sys, "argv", ["quadruped_stand.py", "--output", str(plot)])
    runpy.run_path(str(EXAMPLES / "quadruped_stand.py"), run_name="__main__")
    _, *rows, _ = capsys.readouterr().out.splitlines()
    height, velocity, *forces, torque = (float(row.split()[-1]) for row in rows)
    assert -0.02 < height < 0
    assert velocity < 0.05
    assert len(forces) == 4
    assert min(forces) > 0
    assert abs(sum(forces) - 1) < 0.01
    assert torque < 1
    assert plot.stat().st_size > 0


@pytest.mark.slow
@pytest.mark.compiled  # NumPy would take minutes for its steps
def test_learn_to_walk(capsys, monkeypatch, tmp_path):
    """With an untrained policy; that learning can be traced is seen, and compiled it is in what swings up."""
    example = runpy.run_path(str(EXAMPLES / "learn_to_walk.py"))
    swing_up = example["learn"].__globals__

    def untrained(environment, method, seed, iterations, title):
        key = jax.random.key(seed)
        agent = example["Agent"](environment.observation_size, environment.action_size, method.start, key)
        state = jax.eval_shape(lambda key: swing_up["first_state"](environment, key, method.robots), key)
        training = swing_up["Training"](agent, method.memory(agent), state, key)
        after = eqx.filter_eval_shape(lambda x: method.iteration(environment, x), training)
        assert jax.tree.structure(after.state) == jax.tree.structure(state)
        return agent, swing_up["Curve"](np.arange(2), np.ones(2), np.ones(2), 0.0)

    monkeypatch.setitem(example["main"].__globals__, "learn", untrained)
    monkeypatch.setitem(example["main"].__globals__, "EPISODE", 60)
    monkeypatch.setattr(sys, "argv", ["learn_to_walk.py", "--output", str(tmp_path)])
    example["main"]()
    rows = [line.split("│") for line in capsys.readouterr().out.splitlines() if " of " in line]
    assert len(rows) == len(example["COMMANDS"])
    for row, command in zip(rows, example["COMMANDS"].values(), strict=True):
        found, wanted = zip(*(map(float, cell.split(" of ")) for cell in row[2:5]), strict=True)
        assert wanted == command
        assert max(map(abs, found)) < 3
    assert {path.name for path in tmp_path.iterdir()} == {"learn_to_walk.gif", "learn_to_walk.png"}


def test_random_keys_are_used_once():
    """Where robots start, and where they are tested. (What reverse mode computes again uses keys again.)"""
    example = runpy.run_path(str(EXAMPLES / "learn_swing_up.py"))
    environment = jaxcfa.environments.AutoReset(jaxcfa.environments.CartPole(), 10)
    agent = example["Agent"](environment.observation_size, 1, example["Start"](0.1), jax.random.key(0))
    with jax.debug_key_reuse(True):
        first = jax.eval_shape(lambda key: example["first_state"](environment, key, 3), jax.random.key(1))
        returns = jax.eval_shape(lambda key: example["mean_return"](environment, agent, key), jax.random.key(2))
    assert first.done.shape == (3,)
    assert returns.shape == ()


@pytest.mark.slow
def test_all_cores():
    """In a process of its own, which has as many devices as it asks for."""
    options = ["--states", "8", "--problems", "2", "--devices", "2"]
    command = [sys.executable, str(EXAMPLES / "all_cores.py"), *options]
    environment = os.environ | {"XLA_FLAGS": QUICK_FLAGS}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    rows = [line for line in result.stdout.splitlines() if line.startswith("│")]
    assert len(rows) == 4
    assert all(float(row.split("│")[5]) < 1e-3 for row in rows)

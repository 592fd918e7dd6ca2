"""The examples run, and show what they say."""

import re
import runpy
import sys
from pathlib import Path

import pytest

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

"""The examples run, and show what they say."""

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_identify_masses(capsys):
    runpy.run_path(str(EXAMPLES / "identify_masses.py"), run_name="__main__")
    first, *_, last = capsys.readouterr().out.splitlines()
    error = [float(line.split()[-1].rstrip("%")) for line in (first, last)]
    assert error[0] > 50
    assert error[1] < 5

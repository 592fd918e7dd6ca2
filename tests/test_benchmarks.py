"""The benchmarks run, and their contestants agree. Times mean nothing here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BENCHMARKS = (
    "chain",
    "batch",
    "space",
    "operators",
    "compile",
    "robots",
    "derivatives",
    "inverse_kinematics",
    "optimal_control",
)


def run_module(*arguments: str) -> None:
    command = [sys.executable, "-m", *arguments]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
def test_smoke(tmp_path):
    run_module("benchmarks", "--smoke", "--output", str(tmp_path))
    folder = tmp_path / "smoke"
    report = (folder / "report.md").read_text()
    for name in BENCHMARKS:
        result = json.loads((folder / f"{name}-float64.json").read_text())
        assert result["title"] in report
        assert (folder / f"{name}-float64.png").stat().st_size > 0
        assert result["records"]
        for record in result["records"]:
            reason = record["reason"] or ""
            assert not reason or reason.startswith("ModuleNotFoundError"), record
            assert (record["difference"] or 0.0) < 1e-9, record


@pytest.mark.slow
def test_accuracy(tmp_path):
    path = tmp_path / "accuracy.md"
    run_module("benchmarks.accuracy", "--size", "4", "--method", "ABA", "--output", str(path))
    text = path.read_text()
    assert "ABA, round trip" in text
    assert "fails" not in text

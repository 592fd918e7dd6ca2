"""The benchmarks run, and their contestants agree. Times mean nothing here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.accelerators import markdown
from benchmarks.accelerators.reading import read
from benchmarks.accelerators.record import Record, Results

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


HLO = """HloModule jit_f

%fused (p.0: f32[8,4], p.1: s32[]) -> f32[4] {
  %p.0 = f32[8,4]{1,0} parameter(0)
  %p.1 = s32[] parameter(1)
  %zero = s32[] constant(0)
  %cut = f32[1,4]{1,0} dynamic-slice(%p.0, %p.1, %zero), dynamic_slice_sizes={1,4}
  ROOT %row = f32[4]{0} bitcast(%cut)
}

%body (state: (s32[], f32[8,4])) -> (s32[], f32[8,4]) {
  %state = (s32[], f32[8,4]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %x = f32[8,4]{1,0} get-tuple-element(%state), index=1
  %fusion = f32[4]{0} fusion(%x, %i), kind=kLoop, calls=%fused
  %dot = f32[4]{0} dot(%fusion, %x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT %out = (s32[], f32[8,4]{1,0}) tuple(%i, %x)
}

%condition (state.1: (s32[], f32[8,4])) -> pred[] {
  %state.1 = (s32[], f32[8,4]{1,0}) parameter(0)
  ROOT %less = pred[] constant(true)
}

ENTRY %main (a: f32[8,4]) -> (s32[], f32[8,4]) {
  %a = f32[8,4]{1,0} parameter(0)
  %none = s32[] constant(0)
  %start = (s32[], f32[8,4]{1,0}) tuple(%none, %a)
  %call = f32[4]{0} custom-call(%a), custom_call_target="library"
  ROOT %loop = (s32[], f32[8,4]{1,0}) while(%start), condition=%condition, body=%body, backend_config={"known_trip_count":{"n":"5"}}
}
"""  # noqa: E501


def test_programs_are_read():
    """Loops count as often as they run, of sliced arrays only the slice, and products that lack full precision."""
    figures = read(HLO)
    assert (figures.kernels, figures.exact) == (1 + 5 * 2, True)
    # The library takes an array and gives a row; the fusion takes an index and a row of the array; then the product.
    moved = (128 + 16) + 5 * (16 + 16 + 4) + 5 * (16 + 16 + 128)
    assert figures.megabytes == pytest.approx(moved / 1e6)
    assert (figures.products, figures.low_precision, figures.double) == (1, 1, 0)
    assert figures.calls == {"library": 1}


def test_accelerators_are_tabulated():
    record = Record("a program", "h100", figures=read(HLO))
    failed = Record("another", "v5e", reason="XlaRuntimeError: | no")
    text = markdown(Results({"jax": "1"}, "today", [record, failed]))
    assert "| a program | 11 |" in text
    assert "fails: XlaRuntimeError: / no" in text

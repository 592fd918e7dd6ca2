"""How programs that are compiled for accelerators are read and tabulated; nothing is compiled here."""

import pytest

from benchmarks.accelerators import markdown
from benchmarks.accelerators.reading import read
from benchmarks.accelerators.record import Record, Results

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

"""Kernels that the cuda engine writes for expressions, compiled for GPUs that need not be there."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

import anydml as dml
from anydml.ir import expressions as ex
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View

pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS='torch triton'")
pytest.importorskip("triton", reason="Triton is not installed: make test EXTRAS='torch triton'")

import triton

from anydml.engines.cuda.rows.reduce import ReduceProgram
from ptx import F16, F32, N, assembly, figures_for, kernels, rows_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.check_bounds


def computed(value: ex.Expr, *sources: View) -> Map:
    assert value.type is not None
    return Map(sources, View("y", value.type, (N, N), (N, 1)), value)


def loads(*types: dml.DataType) -> list[ex.Expr]:
    return [ex.load(slot, of) for slot, of in enumerate(types)]


X, Y, Z = loads(F32, F32, F32)
HALVES = [x.to(F32) for x in loads(F16, F16, F16)]
COLUMN = View("c", F32, (N, N), (1, 0))
"""An element a row."""
CHAINS = {
    "sum": computed(X + Y, rows_of("float32", "a"), rows_of("float32", "b")),
    "sum with a row": computed(X + Y, rows_of("float32", "a"), View("b", F32, (N, N), (0, 1))),
    "sum with a column": computed(X + Y, rows_of("float32", "a"), COLUMN),
    "chain": computed(ex.maximum(X * Y + Z, 0.0), *(rows_of("float32", name) for name in "abc")),
    "chain of float16": computed(
        ex.maximum(HALVES[0] * HALVES[1] + HALVES[2], 0.0).to(F16), *(rows_of("float16", name) for name in "abc")
    ),
    "two types": computed(HALVES[0] * Y, rows_of("float16", "a"), rows_of("float32", "b")),
    "gelu": computed(ex.call("gelu", X), rows_of("float32", "a")),
    "gelu of float16": computed(ex.call("gelu", HALVES[0]).to(F16), rows_of("float16", "a")),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_in_rows_moves_sixteen_bytes_at_once(name: str) -> None:
    (kernel,) = kernels(CHAINS[name], 90)
    text = assembly(kernel)
    assert "shared" not in text
    for access in ("ld", "st"):
        assert re.search(rf"{access}\.global\S*\.(v4\.b32|v2\.b64)", text), f"{access} is narrow"


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("of", [F32, dml.DataType.FLOAT64])
def test_every_operation_is_rounded_once_and_nothing_is_flushed(of: dml.DataType, capability: int) -> None:
    x, y = loads(of, of)
    value = ex.fma(x, y, 1.5) / ex.sqrt(ex.absolute(y)) - ex.floor(x) * ex.ceil(-y) + ex.rint(x) * ex.trunc(y)
    sources = [View(name, of, (N, N), (N, 1)) for name in "ab"]
    text = assembly(kernels(computed(value + ex.coordinate(1).to(of), *sources), capability)[0])
    assert f".target sm_{capability}" in text
    kind = f"f{8 * of.size_in_bytes}"
    for operation in ("fma.rn", "div.rn", "sqrt.rn", "mul.rn", f"cvt.rni.{kind}", f"cvt.rzi.{kind}"):
        assert f"{operation}.{kind}" in text
    assert "ftz" not in text
    assert "approx" not in text
    assert len(re.findall(rf"fma\.rn\.{kind}", text)) == len(re.findall(rf"div\.rn\.{kind}", text))


@pytest.mark.parametrize("function", ["exp", "sin", "pow", "fmod"])
def test_functions_keep_their_numbers_in_registers(function: str, tmp_path: Path) -> None:
    slots = range(ex.FUNCTIONS[function])
    value = ex.call(function, *(ex.load(slot, F32) for slot in slots))
    (kernel,) = kernels(computed(value, *(rows_of("float32", f"x{slot}") for slot in slots)), 90)
    code = tmp_path / "kernel.cubin"
    code.write_bytes(kernel._compiled((True,) * len(kernel.pointers)).asm["cubin"])
    command = [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", code]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - Triton's own
    assert "STACK:0 " in said
    assert "LOCAL:0 " in said


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rows_are_read_sixteen_bytes_at_a_time(dtype: str) -> None:
    of = dml.DataType(dtype)
    x = ex.load(0, of).to(F32)
    power = ex.call("exp", x - ex.fold("max", x))
    for length in (1024, 1008):
        view = View("x", of, (N, length), (length, 1))
        softmax = Reduce((view,), View("y", of, view.sizes, view.strides), (power / ex.fold("sum", power)).to(of), 1)
        program = ReduceProgram.plan(softmax, figures_for(90))
        ((kernel, _),) = program.steps
        text = assembly(kernel)
        for access in ("ld", "st"):
            assert re.search(rf"{access}\.global\S*\.(v4\.b32|v2\.b64)", text), (length, access)

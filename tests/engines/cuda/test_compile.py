"""The kernels of the cuda engine, compiled for GPUs that need not be there: they compile, and move 16 bytes at once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import anydml as dml
from anydml.ir import expressions as ex
from anydml.ir.attention import Attend
from anydml.ir.blocked_weights import number_in
from anydml.ir.fetches import reversal
from anydml.ir.patterns import filled, scaled
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View
from anydml.runtime.chunked_scan import carried
from paths import PATHS, ROOT
from ptx import N, assembly, kernels, rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from anydml.ir.verbs import Primitive

pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS='torch triton'")
pytest.importorskip("triton", reason="Triton is not installed: make test EXTRAS='torch triton'")

import triton

from anydml.engines.common.routes import TAKEN
from anydml.engines.cuda.attention.attention import AttentionProgram
from anydml.engines.cuda.gemm.gemm import GemmProgram
from anydml.engines.cuda.quant.int4_mma import Int4MmaProgram
from anydml.engines.cuda.rows.reduce import ReduceProgram
from anydml.engines.cuda.schedules import TABLES
from ptx import F16, F32, figures_for

pytestmark = pytest.mark.check_bounds


def sliced(dtype: str, *strides: int) -> dml.OperatorDesc:
    tensor = dml.TensorDesc(dtype, (N, N))
    return dml.Slice1.infer(
        input_tensor=tensor, input_window_offsets=(0, 0), input_window_sizes=(N, N), input_window_strides=strides
    )


def summed(dtype: str, sizes: tuple[int, ...], axis: int, **options: Any) -> dml.OperatorDesc:
    return dml.CumulativeSummation.infer(input_tensor=dml.TensorDesc(dtype, sizes), axis=axis, **options)


def gathered(sizes: tuple[int, ...], indices: tuple[int, ...]) -> dml.OperatorDesc:
    return dml.GatherND.infer(
        input_tensor=dml.TensorDesc("float32", sizes),
        indices_tensor=dml.TensorDesc("int64", indices),
        input_dimension_count=2,
        indices_dimension_count=2,
    )


BACK = {"axis_direction": "decreasing", "has_exclusive_sum": True}
# What is read and written 16 bytes at a time; the others are for compiling alone.
ROWS: dict[str, dml.OperatorDesc] = {
    "slice of rows": sliced("float32", -2, 1),
    "slice of bytes": sliced("uint8", 1, 1),
    "sum of rows": summed("float32", (N, N), 1),
    "sum of rows, float16": summed("float16", (N, N), 1),
    "sum of a long row": summed("float32", (2**28,), 0),
    "gather of rows": gathered((2**21, 128), (2**22, 1)),
}
OTHERS: dict[str, dml.OperatorDesc] = {
    "slice of columns": sliced("float32", 1, -2),
    "sum of columns": summed("float32", (N, N), 0),
    "sum of few columns": summed("int32", (2**20, 3), 0),
    "sum of a long row of int64": summed("int64", (2**28,), 0),
    "sum of a long row, backwards": summed("float32", (2**28,), 0, **BACK),
    "product": dml.CumulativeProduct.infer(input_tensor=dml.TensorDesc("float16", (N, N)), axis=1),
    "gather of scalars": gathered((8192, 8192), (2**26, 2)),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_move_sixteen_bytes_at_once(name: str) -> None:
    text = assembly(kernels(ROWS[name].lower()[0], 90)[0])
    for access in ("ld", "st"):
        assert re.search(rf"{access}\.global\S*\.(v4\.b32|v2\.b64)", text), f"{access} is narrow"


@pytest.mark.parametrize("name", OTHERS)
def test_every_kind_of_kernel_compiles(name: str) -> None:
    for kernel in kernels(OTHERS[name].lower()[0], 90):
        assert ".target sm_90" in assembly(kernel)


@pytest.mark.parametrize("has_before", [False, True])
@pytest.mark.parametrize("name", [name for name in OTHERS if "sum" in name or "product" in name])
def test_scans_with_a_carry_compile(name: str, has_before: bool) -> None:
    for kernel in kernels(carried(OTHERS[name], has_before=has_before), 90):
        assert ".target sm_90" in assembly(kernel)


# A process says how often it had Triton compile.
COMPILED = """
import triton.backends.nvidia.compiler as nvidia
from tests.engines.cuda.test_compile import ROWS, kernels
compile_it, times = nvidia.CUDABackend.make_ptx, []
nvidia.CUDABackend.make_ptx = lambda *arguments: times.append(1) or compile_it(*arguments)
kernels(ROWS["sum of a long row"].lower()[0], 90)
print(len(times))
"""


@pytest.mark.long
def test_processes_that_start_together_compile_a_kernel_once(tmp_path: Path) -> None:
    env = {
        **os.environ,
        "ANYDML_CACHE_DIR": str(tmp_path / "own"),
        "TRITON_CACHE_DIR": str(tmp_path / "triton"),
        "PYTHONPATH": os.pathsep.join(filter(None, [*PATHS, *sys.path])),
    }
    command = [sys.executable, "-c", COMPILED]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "env": env, "cwd": ROOT}
    group = [subprocess.Popen(command, **options) for _ in range(3)]  # noqa: S603 - a Python of ours
    assert sorted(process.communicate(timeout=300)[0].strip() for process in group) == ["0", "0", "1"]


@pytest.mark.parametrize("name", ["sum of rows", "gather of rows"])
def test_an_older_gpu_is_compiled_for(name: str) -> None:
    for kernel in kernels(ROWS[name].lower()[0], 80):
        assert ".target sm_80" in assembly(kernel)


@pytest.mark.parametrize("desc", [summed("float32", sizes, 0) for sizes in ((2**20, 1024), (2**20, 3), (2**28,))])
def test_what_is_handed_on_is_what_was_looked_at(desc: dml.OperatorDesc) -> None:
    """The compiler loads what it needs in two layouts twice, so a carry could be used that was not there yet.

    What it cannot do twice is assembly: one look before the waiting, one in it, and nothing volatile elsewhere.
    """
    text = assembly(kernels(desc.lower()[0], 90)[0], "ttgir")
    assert "isVolatile" not in text
    assert text.count("scf.while") == 1
    looks = [line.start() for line in re.finditer(r"elementwise_inline_asm .*ld\.relaxed", text)]
    assert len(looks) == 2
    assert looks[0] < text.index("scf.while") < looks[1]


def test_columns_of_float16_are_on_their_way_into_shared_memory() -> None:
    text = assembly(kernels(summed("float16", (N, N), 0).lower()[0], 90)[0])
    assert "cp.async" in text


# Maps, fills and reversals


def mapped(source: str, target: str, **numbers: float) -> Map:
    return scaled(rows_of(source), rows_of(target, "y"), **numbers)


def blocks_reversed() -> Map:
    x, y = (View(name, dml.DataType.FLOAT16, (512, 64, N), (64 * N, N, 1)) for name in "xy")
    return reversal(x, View("n", dml.DataType.UINT32, (1, 64, 1), (0, 1, 0)), y, 0)


def four_at_once() -> Map:
    """The four words that a counter gives, in four targets beside one another."""
    state, numbers = dml.TensorDesc("uint32", (6,)), dml.TensorDesc("uint32", (N,))
    return dml.RandomGenerator(input_state_tensor=state, output_tensor=numbers).lower()[0]


def rows_fetched() -> Map:
    """Rows by indices that are checked, and a sum."""
    pick = gathered((N, N), (N, 1)).lower()[0]
    assert isinstance(pick, Map)
    value = pick.value + ex.load(len(pick.sources), dml.DataType.FLOAT32)
    return Map((*pick.sources, rows_of("float32", "z")), rows_of("float32", "y"), value, checks=pick.checks)


def test_rows_that_are_fetched_move_sixteen_bytes_at_once_too() -> None:
    text = assembly(kernels(rows_fetched(), 90)[0])
    assert not re.search(r"ld\.global\S*\.b32", text.replace("v4.b32", ""))
    assert re.search(r"st\.global\S*\.(v4\.b32|v2\.b64)", text)


@pytest.mark.parametrize(
    ("primitive", "accesses"),
    [
        (mapped("float32", "float16"), ("ld", "st")),
        (mapped("uint8", "float32"), ("st",)),
        (filled(rows_of("uint8"), 1, 0), ("st",)),
        (blocks_reversed(), ("ld", "st")),
        (four_at_once(), ("st",)),
    ],
    ids=["to float16", "to float32", "constant", "blocks reversed", "four at once"],
)
def test_what_is_in_rows_moves_sixteen_bytes_at_once(primitive: Primitive, accesses: tuple[str, ...]) -> None:
    text = assembly(kernels(primitive, 90)[0])
    assert "shared" not in text
    for access in accesses:
        assert re.search(rf"{access}\.global\S*\.(v4\.b32|v2\.b64)", text), f"{access} is narrow"


@pytest.mark.parametrize(
    "primitive",
    [mapped("uint64", "float16", scale=0.1, bias=3.0), filled(rows_of("float16"), 1.0, 0.1)],
    ids=["scaled", "sequence"],
)
def test_a_product_and_a_sum_stay_apart_and_become_float16_at_once(primitive: Primitive) -> None:
    text = assembly(kernels(primitive, 90)[0])
    assert "mul.rn.f64" in text
    assert "add.rn.f64" in text
    assert "fma" not in text
    assert "cvt.rn.f16.f64" in text
    assert ".f32" not in text


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


def test_a_product_says_how_factors_are_read_and_cut() -> None:
    def ways(rows: int, of: Any) -> list[str]:
        sizes = (rows, 2048, 512)
        left, right = View("a", of, sizes, (512, 0, 1)), View("b", of, sizes, (0, 1, 2048))
        total = ex.fold("sum", ex.load(0, of).to(F32) * ex.load(1, of).to(F32)).to(of)
        verb = Reduce((left, right), View("c", of, (rows, 2048, 1), (2048, 1, 0)), total, 1)
        token = TAKEN.set([])
        try:
            assert TABLES.route(verb, figures_for(90), frozenset()).name == "GEMM"
            return [one.name for one in TAKEN.get() or ()]
        finally:
            TAKEN.reset(token)

    assert ways(1024, dml.DataType("float16")) == ["blocks", "tiles of 128 x 128 x 64"]
    assert ways(16, dml.DataType("float16")) == ["pointers", "tiles of 16 x 32 x 128"]
    assert ways(1, F32) == ["lines", "tiles of 1 x 32 x 256"]


@pytest.mark.parametrize("is_turned", [False, True])
def test_products_are_made_by_tensor_cores_of_blocks_that_the_hardware_reads(is_turned: bool) -> None:
    of, sizes = dml.DataType("float16"), (1024, 2048, 512)
    left = View("a", of, sizes, (512, 0, 1))
    right = View("b", of, sizes, (0, 512, 1) if is_turned else (0, 1, 2048))
    total = ex.fold("sum", ex.load(0, of).to(F32) * ex.load(1, of).to(F32)).to(of)
    target = View("c", of, (1024, 2048, 1), (2048, 1, 0))
    program = GemmProgram.plan(Reduce((left, right), target, total, 1), figures_for(90))
    assert program is not None
    text = assembly(program.kernel(program.way()))
    assert "wgmma.mma_async" in text
    assert "cp.async.bulk.tensor" in text
    assert re.search(r"st\.global\S*\.(v4\.b32|v2\.b64)", text)
    older = GemmProgram.plan(Reduce((left, right), target, total, 1), figures_for(80))
    assert older is not None
    assert "mma.sync" in assembly(older.kernel(older.way()))


def test_tiles_of_192_columns_are_two_products_of_which_none_waits_for_the_other() -> None:
    """Of 4096 rows by 768 columns they fill a H200's multiprocessors, two to each; older GPUs have other tiles."""
    of, sizes = dml.DataType("float16"), (4096, 768, 768)
    left, right = View("a", of, sizes, (768, 0, 1)), View("b", of, sizes, (0, 1, 768))
    total = ex.fold("sum", ex.load(0, of).to(F32) * ex.load(1, of).to(F32)).to(of)
    made = Reduce((left, right), View("c", of, (4096, 768, 1), (768, 1, 0)), total, 1)
    program, older = (GemmProgram.plan(made, figures_for(capability)) for capability in (90, 80))
    assert program is not None
    assert older is not None
    assert (program.shape.cuts[1], older.shape.more) == (192, 0)
    text = assembly(program.kernel("blocks"))
    assert set(re.findall(r"wgmma.mma_async\S*m64n(\d+)k16", text)) == {"64", "128"}
    assert re.findall(r"wgmma.wait_group.sync.aligned (\d+)", text)[0] == "2"


def test_convolutions_of_96_places_are_two_products_of_which_none_waits_for_the_other() -> None:
    """32 pictures of 14 x 14 by 256 channels fill a H200's multiprocessors."""
    sizes, strides = (32, 256, 14, 14), (256 * 196, 1, 256 * 14, 256)
    picture = dml.TensorDesc("float16", sizes, strides=strides)
    filters = dml.TensorDesc("float16", (256, 256, 3, 3), strides=(256 * 9, 1, 256 * 3, 256))
    desc = dml.Convolution(
        input_tensor=picture, filter_tensor=filters, output_tensor=picture, start_padding=(1, 1), end_padding=(1, 1)
    )
    program: Any = TABLES.plan(desc.lower()[-1], figures_for(90))
    assert (program.kernel.programs, program.kernel.constants["TILE"].beside) == (132, 32)
    text = assembly(program.kernel)
    assert set(re.findall(r"wgmma.mma_async\S*m64n(\d+)k16", text)) == {"32", "64"}
    assert re.findall(r"wgmma.wait_group.sync.aligned (\d+)", text)[0] == "2"


def test_attention_of_one_query_has_keys_on_their_way() -> None:
    of = dml.DataType("float16")
    one, many = ((8, length, 64) for length in (1, 1500))
    views = [View(name, of, sizes, (sizes[1] * 64, 64, 1)) for name, sizes in (("q", one), ("k", many), ("v", many))]
    primitive = Attend(tuple(views), View("o", of, one, (64, 64, 1)), ex.load(0, F32) * 0.125)
    text = assembly(AttentionProgram.plan(primitive, figures_for(90)).kernel)
    assert re.search(r"cp\.async\.cg\.shared\.global .*, 0x10", text)
    assert "mma" not in text


def test_a_constant_matrix_without_neighbours_is_laid_out_ahead() -> None:
    """As the filters of a transposed convolution are, of which each phase of the strides has every fourth."""
    of, sizes = dml.DataType("float16"), (1024, 128, 256)
    left, right = View("a", of, sizes, (256, 0, 1)), View("b", of, sizes, (0, 4, 512), 3)
    total = ex.fold("sum", ex.load(0, of).to(F32) * ex.load(1, of).to(F32)).to(of)
    made = Reduce((left, right), View("c", of, (1024, 128, 1), (128, 1, 0)), total, 1)
    programs = [GemmProgram.plan(made, figures_for(90), constants) for constants in (frozenset(), frozenset("b"))]
    assert [program and program.way() for program in programs] == ["pointers", "blocks"]
    (copy,) = programs[1].layouts.values()  # type: ignore[union-attr]  # a product is planned as one
    assert (copy.source.sizes, copy.source.strides, copy.source.offset) == ((256, 128), (512, 4), 3)
    assert copy.target.strides == (128, 1)


@pytest.mark.parametrize("data_type", ["float16", "float32"])
def test_attention_multiplies_by_matrices_and_reads_16_bytes_at_once(data_type: str) -> None:
    """Of keys with a limit too; numbers of FLOAT32 are three of 16 bits each, of queries that are too few for wgmma."""
    tensor = dml.TensorDesc(data_type, (1, 256, 4 * 64))
    given: dict[str, Any] = dict.fromkeys(("query_tensor", "key_tensor", "value_tensor"), tensor)
    cached = dml.MultiheadAttention1.infer(
        **given, past_sequence_lengths_tensor=dml.TensorDesc("int32", (1,)), query_head_count=4, key_value_head_count=4
    )
    for desc in (dml.MultiheadAttention.infer(**given, head_count=4), cached):
        (primitive,) = (one for one in desc.lower() if isinstance(one, Attend))
        text = assembly(AttentionProgram.plan(primitive, figures_for(90)).kernel)
        assert ("wgmma.mma_async" if data_type == "float16" else "mma.sync") in text
        assert re.search(r"cp\.async\.cg\.shared\.global .*, 0x10|ld\.global\S*\.v4\.b32", text)
    assert "mma.sync" in assembly(AttentionProgram.plan(primitive, figures_for(80)).kernel)


@pytest.mark.long
def test_weights_of_4_bits_lie_as_tensor_cores_take_them() -> None:
    """Assembly says what a lane has, so each element of its tensors must be of the thread of its number."""
    f16, f32, u8, i32 = (dml.DataType(name) for name in ("float16", "float32", "uint8", "int32"))
    walk = (4, 64, 96, 16, 2)
    x, packed = View("x", f16, walk, (3072, 0, 32, 2, 1)), View("w", u8, walk, (0, 1536, 16, 1, 0))
    scales, target = View("s", f16, walk, (0, 96, 1, 0, 0)), View("t", f16, (4, 64, 1, 1, 1), (64, 1, 0, 0, 0))
    number = number_in(ex.load(1, u8), dml.DataType("uint4"), ex.coordinate(4)).to(i32) - ex.const(8, u8).to(i32)
    total = ex.fold("sum", ex.load(0, f16).to(f32) * number.to(f32) * ex.load(2, f16).to(f32))
    product = Reduce((x, packed, scales), target, total.to(f16), 3)
    program = TABLES.plan(product, figures_for(90), frozenset("ws"))
    assert isinstance(program, Int4MmaProgram)
    kernel = program.kernel(is_aligned=True)
    text = assembly(kernel, "ttgir")
    lines = [line for line in text.splitlines() if "inline_asm" in line]
    layouts = {layout for line in lines for layout in re.findall(r"#blocked\d*", line)}
    lanes = r"sizePerThread = \[1\], threadsPerWarp = \[32\], warpsPerCTA = \[8\]"
    assert layouts
    assert all(re.search(rf"^{layout} = .*{lanes}", text, re.MULTILINE) for layout in layouts)
    text = assembly(kernel)
    assert "mma.sync" in text
    before, _, _ = text.partition("griddepcontrol.wait")
    assert before.count("ld.global.L1::no_allocate.L2::256B.v4") == 3 * 3  # weights and scales, three groups of a warp

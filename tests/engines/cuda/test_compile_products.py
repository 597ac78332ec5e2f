"""Products, convolutions and attention of the cuda engine, compiled for GPUs that need not be there."""

from __future__ import annotations

import re
from typing import Any

import pytest

import anydml as dml
from anydml.ir import expressions as ex
from anydml.ir.attention import Attend
from anydml.ir.blocked_weights import number_in
from anydml.ir.verbs import Reduce
from anydml.ir.views import View

pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS='torch triton'")
pytest.importorskip("triton", reason="Triton is not installed: make test EXTRAS='torch triton'")

from anydml.engines.common.routes import TAKEN
from anydml.engines.cuda.attention.attention import AttendProgram
from anydml.engines.cuda.gemm.gemm import ProductProgram
from anydml.engines.cuda.quant.weight_only import WeightsProgram
from anydml.engines.cuda.schedules import plan, route
from ptx import F32, assembly, figures_for

pytestmark = pytest.mark.check_bounds


def test_a_product_says_how_factors_are_read_and_cut() -> None:
    def ways(rows: int, of: Any) -> list[str]:
        sizes = (rows, 2048, 512)
        left, right = View("a", of, sizes, (512, 0, 1)), View("b", of, sizes, (0, 1, 2048))
        total = ex.fold("sum", ex.load(0, of).to(F32) * ex.load(1, of).to(F32)).to(of)
        verb = Reduce((left, right), View("c", of, (rows, 2048, 1), (2048, 1, 0)), total, 1)
        token = TAKEN.set([])
        try:
            assert route(verb, figures_for(90), frozenset()).name == "GEMM"
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
    program = ProductProgram.plan(Reduce((left, right), target, total, 1), figures_for(90))
    assert program is not None
    text = assembly(program.kernel(program.way()))
    assert "wgmma.mma_async" in text
    assert "cp.async.bulk.tensor" in text
    assert re.search(r"st\.global\S*\.(v4\.b32|v2\.b64)", text)
    older = ProductProgram.plan(Reduce((left, right), target, total, 1), figures_for(80))
    assert older is not None
    assert "mma.sync" in assembly(older.kernel(older.way()))


def test_tiles_of_192_columns_are_two_products_of_which_none_waits_for_the_other() -> None:
    """Of 4096 rows by 768 columns they fill a H200's multiprocessors, two to each; older GPUs have other tiles."""
    of, sizes = dml.DataType("float16"), (4096, 768, 768)
    left, right = View("a", of, sizes, (768, 0, 1)), View("b", of, sizes, (0, 1, 768))
    total = ex.fold("sum", ex.load(0, of).to(F32) * ex.load(1, of).to(F32)).to(of)
    made = Reduce((left, right), View("c", of, (4096, 768, 1), (768, 1, 0)), total, 1)
    program, older = (ProductProgram.plan(made, figures_for(capability)) for capability in (90, 80))
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
    program: Any = plan(desc.lower()[-1], figures_for(90))
    assert (program.kernel.programs, program.kernel.constants["TILE"].beside) == (132, 32)
    text = assembly(program.kernel)
    assert set(re.findall(r"wgmma.mma_async\S*m64n(\d+)k16", text)) == {"32", "64"}
    assert re.findall(r"wgmma.wait_group.sync.aligned (\d+)", text)[0] == "2"


def test_attention_of_one_query_has_keys_on_their_way() -> None:
    of = dml.DataType("float16")
    one, many = ((8, length, 64) for length in (1, 1500))
    views = [View(name, of, sizes, (sizes[1] * 64, 64, 1)) for name, sizes in (("q", one), ("k", many), ("v", many))]
    primitive = Attend(tuple(views), View("o", of, one, (64, 64, 1)), ex.load(0, F32) * 0.125)
    text = assembly(AttendProgram.plan(primitive, figures_for(90)).kernel)
    assert re.search(r"cp\.async\.cg\.shared\.global .*, 0x10", text)
    assert "mma" not in text


def test_a_constant_matrix_without_neighbours_is_laid_out_ahead() -> None:
    """As the filters of a transposed convolution are, of which each phase of the strides has every fourth."""
    of, sizes = dml.DataType("float16"), (1024, 128, 256)
    left, right = View("a", of, sizes, (256, 0, 1)), View("b", of, sizes, (0, 4, 512), 3)
    total = ex.fold("sum", ex.load(0, of).to(F32) * ex.load(1, of).to(F32)).to(of)
    made = Reduce((left, right), View("c", of, (1024, 128, 1), (128, 1, 0)), total, 1)
    programs = [ProductProgram.plan(made, figures_for(90), constants) for constants in (frozenset(), frozenset("b"))]
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
        text = assembly(AttendProgram.plan(primitive, figures_for(90)).kernel)
        assert ("wgmma.mma_async" if data_type == "float16" else "mma.sync") in text
        assert re.search(r"cp\.async\.cg\.shared\.global .*, 0x10|ld\.global\S*\.v4\.b32", text)
    assert "mma.sync" in assembly(AttendProgram.plan(primitive, figures_for(80)).kernel)


@pytest.mark.long
def test_weights_of_4_bits_lie_as_tensor_cores_take_them() -> None:
    """Assembly says what a lane has, so each element of its tensors must be of the thread of its number."""
    f16, f32, u8, i32 = (dml.DataType(name) for name in ("float16", "float32", "uint8", "int32"))
    walk = (4, 64, 32, 16, 2)
    x, packed = View("x", f16, walk, (1024, 0, 32, 2, 1)), View("w", u8, walk, (0, 512, 16, 1, 0))
    scales, target = View("s", f16, walk, (0, 32, 1, 0, 0)), View("t", f16, (4, 64, 1, 1, 1), (64, 1, 0, 0, 0))
    number = number_in(ex.load(1, u8), dml.DataType("uint4"), ex.coordinate(4)).to(i32) - ex.const(8, u8).to(i32)
    total = ex.fold("sum", ex.load(0, f16).to(f32) * number.to(f32) * ex.load(2, f16).to(f32))
    program = plan(Reduce((x, packed, scales), target, total.to(f16), 3), figures_for(90))
    assert isinstance(program, WeightsProgram)
    assert program.fast is not None
    text = assembly(program.fast, "ttgir")
    lines = [line for line in text.splitlines() if "inline_asm" in line]
    layouts = {layout for line in lines for layout in re.findall(r"#blocked\d*", line)}
    lanes = r"sizePerThread = \[1\], threadsPerWarp = \[32\], warpsPerCTA = \[8\]"
    assert layouts
    assert all(re.search(rf"^{layout} = .*{lanes}", text, re.MULTILINE) for layout in layouts)
    text = assembly(program.fast)
    assert "mma.sync" in text
    before, _, after = text.partition("griddepcontrol.wait")
    assert before.count("cp.async.bulk.prefetch.L2") == 2  # of weights and scales
    assert "prefetch" not in after

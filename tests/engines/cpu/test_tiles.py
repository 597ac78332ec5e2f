"""The texts of products, for CPUs of all kinds: they compile, and no vector is spilled."""

from __future__ import annotations

import itertools
import re

import pytest

import anydml as dml
from anydml.engines.cpu.build import _called
from anydml.engines.cpu.conv.stencil import Taps, make_stencil, suits_sdot
from anydml.engines.cpu.families import AVX512, NEOVERSE
from anydml.engines.cpu.gemm import blocking as tiles
from anydml.engines.cpu.gemm.blocking import BYTES, GROUP, UNROLLED, K4Packing, MicroTile, Packing
from anydml.engines.cpu.gemm.microkernel import make_microkernel
from anydml.engines.cpu.gemm.packing import BytePacker, NumberPacker
from anydml.engines.cpu.gemm.small_m import Dots, SmallM, Strip
from anydml.engines.cpu.quant.int8 import make_compensation, make_total
from anydml.ir.expressions import load
from assembled import assembly

pytestmark = [pytest.mark.sampled(2), pytest.mark.check_bounds]

TARGETS = {
    "NEON": ("aarch64-unknown-linux-gnu", "neoverse-n1", MicroTile(8, 3, 4, 8, by_lane=True)),
    "AVX2": ("x86_64-unknown-linux-gnu", "haswell", MicroTile(6, 2, 8, 8, by_lane=False)),
    "AVX-512": ("x86_64-unknown-linux-gnu", "skylake-avx512", MicroTile(14, 2, 16, 16, by_lane=False)),
    "AVX2, lines": ("x86_64-unknown-linux-gnu", "haswell", MicroTile(6, 2, 8, 8, by_lane=False, is_lined=True)),
    "AVX-512, lines": (
        "x86_64-unknown-linux-gnu",
        "skylake-avx512",
        MicroTile(14, 2, 16, 16, by_lane=False, is_lined=True),
    ),
    "AVX2, apart": ("x86_64-unknown-linux-gnu", "haswell", MicroTile(6, 2, 8, 8, by_lane=False, is_apart=True)),
    "AVX-512, apart": (
        "x86_64-unknown-linux-gnu",
        "skylake-avx512",
        MicroTile(14, 2, 16, 16, by_lane=False, is_apart=True, fetches=True),
    ),
    "AVX-512, fetched": (
        "x86_64-unknown-linux-gnu",
        "skylake-avx512",
        MicroTile(14, 2, 16, 16, by_lane=False, is_lined=True, fetches=True),
    ),
    "NEON, tail": ("aarch64-unknown-linux-gnu", "neoverse-n1", MicroTile(8, 3, 4, 8, by_lane=True, tail=3)),
    "AVX2, tail": ("x86_64-unknown-linux-gnu", "haswell", MicroTile(6, 2, 8, 8, by_lane=False, tail=5)),
    "NEON, halves": ("aarch64-unknown-linux-gnu", "neoverse-n1", MicroTile(4, 3, 4, 4, by_lane=True, kind="f16")),
    "AVX2, halves": ("x86_64-unknown-linux-gnu", "haswell", MicroTile(4, 2, 8, 4, by_lane=False, kind="f16")),
    "NEON, bytes": ("aarch64-unknown-linux-gnu", "neoverse-n1", MicroTile(8, 3, 4, 8, by_lane=True, kind="i8")),
    "VNNI": ("x86_64-unknown-linux-gnu", "icelake-server", MicroTile(14, 2, 16, 16, by_lane=False, kind="i8")),
    "AVX-VNNI": ("x86_64-unknown-linux-gnu", "alderlake", MicroTile(6, 2, 8, 8, by_lane=False, kind="i8")),
    "AVX-512, pairs": (
        "x86_64-unknown-linux-gnu",
        "skylake-avx512",
        MicroTile(10, 2, 16, 12, by_lane=False, kind="pairs"),
    ),
    "AVX2, pairs": ("x86_64-unknown-linux-gnu", "haswell", MicroTile(3, 2, 8, 4, by_lane=False, kind="pairs")),
    "AVX-512, small": (
        "x86_64-unknown-linux-gnu",
        "skylake-avx512",
        MicroTile(10, 2, 16, 12, by_lane=False, kind="small"),
    ),
    "AVX2, small": ("x86_64-unknown-linux-gnu", "haswell", MicroTile(3, 2, 8, 4, by_lane=False, kind="small")),
}

OLD = {
    "SSE2": ("x86_64-unknown-linux-gnu", "x86-64", MicroTile(4, 2, 4, 4, by_lane=False)),
    "SSE2, tail": ("x86_64-unknown-linux-gnu", "x86-64", MicroTile(4, 2, 4, 4, by_lane=False, tail=3)),
    "SSE2, pairs": ("x86_64-unknown-linux-gnu", "x86-64", MicroTile(3, 2, 4, 4, by_lane=False, kind="pairs")),
}
"""Without FLOAT16, and without products that are added with one rounding."""


LOWER = {
    f"{name}, {tile.rows} x {tile.vectors} x {tile.panels}": (*TARGETS[name][:2], tile)
    for name, rows, columns in (
        ("NEON", (2, 4, 6, 7), (9, 5, 4, 3)),
        ("AVX2", (1, 2, 3, 5), (6, 4, 3, 2)),
        ("AVX-512", (1, 4, 7, 9, 13), (12, 5, 3, 2, 2)),
        ("AVX-512, lines", (1, 3, 4, 9, 13), (12, 7, 5, 2, 2)),
        ("AVX-512, apart", (1, 3, 4, 9, 13), (1, 7, 5, 2, 2)),
    )
    for height, vectors in zip(rows, columns, strict=True)
    for own in [TARGETS[name][2]]
    for tile in (
        own._replace(rows=height, vectors=vectors, pitch=-(-height // GROUP) * GROUP),
        own._replace(rows=height, panels=max(6 // (height * own.vectors), 1), pitch=-(-height // GROUP) * GROUP),
    )
}
"""Tiles of fewer rows: as wide as registers hold, and over panels as wide as those of all rows."""
LOWER |= {
    f"{name}, one row in halves, {vectors} x {panels}": (*TARGETS[name][:2], tile)
    for name, vectors, panels in (
        *(("AVX2", *each) for each in ((4, 1), (2, 2))),
        *((f"AVX-512{lie}", *each) for lie in ("", ", lines") for each in ((8, 1), (2, 3))),
        ("AVX-512, apart", 8, 1),
    )
    for tile in [TARGETS[name][2]._replace(rows=1, vectors=vectors, panels=panels, is_halved=True)]
}


@pytest.mark.parametrize("name", [*TARGETS, *LOWER])
def test_no_vector_of_a_tile_is_spilled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stack slots inside the loop over the steps would cost more than arithmetic: 0.28-0.38 of the peak is left."""
    triple, cpu, tile = (TARGETS | LOWER)[name]
    if tile.by_lane:  # whatever CPU this is
        monkeypatch.setattr(tiles, "figures", lambda: NEOVERSE)
    blocks = re.split(r"^\.LBB\w+:", assembly(make_microkernel(tile), triple, cpu), flags=re.MULTILINE)
    products = re.compile(r"\b(?:fmla|sdot|vfmadd\w+|vpdpbusd|vpmaddwd)\b")
    loop = max(blocks, key=lambda block: len(products.findall(block)))
    assert len(products.findall(loop)) >= UNROLLED * tile.rows * tile.across
    stack = re.findall(r".*(?:\bsp\b|%[re]sp).*", loop)
    assert not [line for line in stack if re.search(r"\b[qv]\d+\b|%[xyz]mm", line)], loop


@pytest.mark.parametrize("name", [*TARGETS, *OLD])
def test_products_are_compiled_for_every_cpu(name: str) -> None:
    triple, cpu, tile = (TARGETS | OLD)[name]
    columns, number = tile.vectors * tile.lanes, load(0, dml.DataType.FLOAT32)
    panels = ((tile.rows, tile.pitch), (columns, columns))
    texts = [make_microkernel(tile)]
    if tile.kind in BYTES:
        for lie, is_left in itertools.product("ptsw", (True, False)):
            is_wide = is_left and tile.kind == "pairs"
            packing = K4Packing(
                lie, True, *panels[not is_left], tile.lanes, tile.by_lane, tile.kind == "i8", is_wide, is_left
            )
            texts += [BytePacker(packing).write(), make_total(packing)]
        taps = Taps("fma", 3, 3, 2, 2, 1, 1, 8, tile.by_lane, "u8")
        texts += [make_compensation(), make_stencil(taps)]
        texts += [make_stencil(taps._replace(is_dot4=True))] if suits_sdot(taps) else []
    else:
        shape = SmallM(5, tile.lanes, 8, tile.by_lane, False, False, (number,), "p")
        texts += [make(number * 2, shape).write() for make in (Strip, Dots)]
        kind = "f32" if name in OLD else "f16"
        texts += [NumberPacker(Packing(lie, kind, *panel)).write() for lie in "pts" for panel in panels]
        for op, step in itertools.product(("fma", "max", "sum"), (1, 2)):
            taps = Taps(op, 3, 3, step, step, 1, 1, tile.lanes, tile.by_lane, over=1)
            texts += [make_stencil(taps._replace(left=left)) for left in (None, 1)]
    for text in texts:
        assert not _called(assembly(text, triple, cpu)), text


def test_lanes_of_integers_are_added_up_in_pairs_on_an_x86() -> None:
    """LLVM 22 adds the low half of a vector to itself where the lanes that nobody asks for are given."""
    number = load(0, dml.DataType.INT8)
    shape = SmallM(2, 16, 8, False, False, False, (number,), "p")
    written = assembly(Dots(number.to(dml.DataType.INT32), shape).write(), *TARGETS["AVX-512"][:2])
    assert re.search(r"vpshufd\s+\$238", written)
    assert not re.search(r"vpbroadcastq\s+%xmm\d+, %xmm\d+\n\s+vpaddd", written)


def test_the_last_panel_of_rows_is_no_sliver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all panels are about alike there are no more of them."""
    monkeypatch.setattr(tiles, "figures", lambda: AVX512)
    assert [tiles.tile_for("f32", rows).rows for rows in (13, 14, 15, 30, 31, 128, 256, 1024)] == [
        13, 14, 8, 10, 14, 13, 14, 14,
    ]  # fmt: skip

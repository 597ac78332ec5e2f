"""The table of figures: which family a CPU is of, and what a family may say of itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anydml.engines.cpu import families, features
from anydml.engines.cpu.families import AVX2, AVX512, NEOVERSE, SSE, Family, Figures, Gemm
from anydml.engines.cpu.threads import scratch as layout

pytestmark = pytest.mark.check_bounds

FAMILIES = (SSE, AVX2, AVX512, NEOVERSE)


@pytest.mark.parametrize(
    ("wanted", "is_arm", "has"),
    [
        (SSE, False, "sse4.1"),
        (AVX2, False, "sse4.1 avx2"),
        (AVX512, False, "sse4.1 avx2 avx512f"),
        (NEOVERSE, True, "neon"),
    ],
    ids=[family.name for family in FAMILIES],
)
def test_a_family_is_chosen_by_features(
    wanted: Family, is_arm: bool, has: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(families, "IS_ARM", is_arm)
    monkeypatch.setattr(features, "find_cpu", lambda: ("", ",".join(f"+{name}" for name in has.split())))
    assert families.figures.__wrapped__() is wanted


def test_a_figure_that_nobody_reads_is_refused() -> None:
    with pytest.raises(TypeError, match="Gemm has no figures k_blok, rows"):
        Gemm(k_blok=256, k_block=512, rows=3)


@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
def test_tiles_fit_registers_and_a_scratch(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    of = family.gemm
    assert of.tile_rows * of.tile_vectors + of.tile_vectors < of.registers
    monkeypatch.setattr(layout, "figures", lambda: family)
    found = layout.workspace.__wrapped__()
    assert list(found) == sorted(found)
    assert found.left_at - layout.RIGHT_AT >= of.right_bytes
    assert found.size - found.sums_at == of.sum_bytes


def test_an_instruction_set_is_named_where_its_instructions_are_written() -> None:
    """All else asks for a figure of the family, or for what the CPU can (`features.py`): a new family is one table."""
    folder = Path(families.__file__).parent
    found = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if re.search(r"\bIS_ARM\b", path.read_text(encoding="utf-8"))
    }
    assert found - {"families.py", "features.py"} == {
        "codegen/expressions.py", "codegen/function.py", "quant/weight_only.py", "rows/lookup.py",
        "threads/team_kernel.py",
    }  # fmt: skip


def test_every_figure_is_read() -> None:
    folder = Path(families.__file__).parent
    read = {
        word
        for path in folder.rglob("*.py")
        if path.name != "families.py"
        for word in re.findall(r"\.(\w+)", path.read_text(encoding="utf-8"))
    }
    for group in Figures.__subclasses__():
        assert {name for name in vars(group) if not name.startswith("_")} <= read, group

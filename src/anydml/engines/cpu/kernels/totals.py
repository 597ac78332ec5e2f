"""The sums of the bytes of each column, which the rows' zero points are taken off sums of products by."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.steps import Steps


def read_totals(text: Steps) -> None:
    """The columns' totals, of all steps, that lie beside panels: the first block has them, the others nothing."""
    text.read("ahead", "right_bases + 8")
    with text.loop("t_c", 0, "columns"):
        one = text.new(f"load i32, ptr {text.place('ahead + (n0 + t_c) * 4')}, align 4")
        one = text.new(f"select i1 {text.new('icmp eq i64 %k0, 0')}, i32 {one}, i32 0")
        text.add(f"store i32 {one}, ptr {text.place('right_totals + t_c * 4')}, align 4")


def total_right(text: Steps) -> None:
    """The columns' totals, once rows have a zero point that is not 0: those of filters are 0 as a rule."""
    with text.loop("z_r", 0, "height"):
        one = text.new(f"load i32, ptr {text.place('left_zeros + z_r * 4')}, align 4")
        text.add(f"%zero_r = zext i32 {one} to i64")
        text.read("is_totalled", "totalled")
        with text.when("zero_r != 0 and is_totalled == 0"):
            text.put("totalled", 1)
            with text.loop("j_t", "n0", "n1", "tile_columns"):
                text.invoke(
                    "total_right", "right_memory + (j_t - n0) * packed * 4", "packed", "min(tile_columns, n1 - j_t)",
                    "right_totals + (j_t - n0) * 4",
                )  # fmt: skip

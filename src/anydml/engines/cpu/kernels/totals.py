"""The sums of the bytes of each row and column, which zero points are taken off sums of products by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels.fourfold import write_dot, write_pairs
from anydml.engines.cpu.kernels.pack import GROUP
from anydml.engines.cpu.kernels.steps import Steps

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.octet_vectors import Octets


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


def make_total(shape: Octets) -> str:
    """`kernel(panel, steps, rows, target)`: the sum of all bytes of each row or column of a packed panel."""
    text, vector = Steps(), f"<{shape.lanes} x i32>"
    ones = f"splat (i32 {0x01010101})"
    with text.loop("r", 0, "rows", 1 if shape.is_lined else GROUP):
        before, head, body, after = (text.label("sum") for _ in range(4))
        text.add(f"br label %{before}", f"{before}:", f"br label %{head}", f"{head}:")
        text.add(f"%s = phi i64 [ 0, %{before} ], [ %s.on, %{body} ]")
        text.add(f"%sum = phi {vector} [ zeroinitializer, %{before} ], [ %sum.on, %{body} ]")
        test = text.new("icmp slt i64 %s, %steps")
        text.add(f"br i1 {test}, label %{body}, label %{after}", f"{body}:")
        found = _to_total(text, shape)
        if shape.has_dots:
            factors = (ones, found[0]) if shape.is_signed else (found[0], ones)
            made = write_dot(text, shape.lanes, shape.is_arm, *factors, "%sum")
        elif shape.is_wide:
            made = write_pairs(text, shape.lanes, (found[0], found[1]), ones, "%sum", is_turned=False)
        else:
            both = (f"splat (i32 {0x00010001})",) * 2
            is_turned = not shape.is_signed
            made = write_pairs(text, shape.lanes, (both[0], both[1]), found[0], "%sum", is_turned=is_turned)
        text.lines[-1] = text.lines[-1].replace(made, "%sum.on", 1)
        text.add(f"%s.on = add i64 %s, {shape.lanes if shape.is_lined else 1}", f"br label %{head}", f"{after}:")
        if shape.is_lined:
            name = f"@llvm.vector.reduce.add.v{shape.lanes}i32"
            text.declared[f"declare i32 {name}({vector})"] = None
            total = text.new(f"call i32 {name}({vector} %sum)")
            text.add(f"store i32 {total}, ptr {text.place('target + r * 4')}, align 4")
        else:
            mask = ", ".join(f"i32 {k}" for k in range(4))
            four = text.new(f"shufflevector {vector} %sum, {vector} poison, <4 x i32> <{mask}>")
            text.add(f"store <4 x i32> {four}, ptr {text.place('target + r * 4')}, align 4")
    text.add("ret void")
    return text.define("void @kernel(i64 %panel, i64 %steps, i64 %rows, i64 %target)")


def _to_total(text: Steps, shape: Octets) -> list[str]:
    """The vectors added to the sums of a step: four rows or columns, or a line of one row."""
    vector = f"<{shape.lanes} x i32>"
    if shape.is_lined:
        line = f"panel + s * {shape.group} + r * {shape.filled}"
        return [text.new(f"load {vector}, ptr {text.place(line)}, align 4")]
    mask, found = ", ".join(f"i32 {min(k, 3)}" for k in range(shape.lanes)), []
    for i in range(2 if shape.is_wide else 1):
        line = f"panel + s * {shape.group} + r * 4 + {4 * shape.pitch * i}"
        four = text.new(f"load <4 x i32>, ptr {text.place(line)}, align 4")
        found.append(text.new(f"shufflevector <4 x i32> {four}, <4 x i32> poison, <{shape.lanes} x i32> <{mask}>"))
    return found

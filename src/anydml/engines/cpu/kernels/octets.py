"""Bytes packed for products, four steps at a time, as `fourfold` multiplies them.

A packed step is four steps of the folded dimension side by side, 0 where there are no more: the step of a tile, whose
elements have 32 bits. Bytes are of the signs that the instruction wants, a byte of the other sign less or plus 128. So
with a' = a - s and za' = za - s the sum of (a - za)·(b - zb) is that of a'·b', less zb'·(Σa' - count·za') and za'·Σb':
`mend` takes that off, from what `total` has summed up. Where products of 16 bits are added up, of the left factor there
are the first and third bytes of all rows as such, then the others. For matrix registers it lies in lines, 64 bytes of
each row.
"""

from __future__ import annotations

from anydml.engines.cpu.kernels.fourfold import FOUR
from anydml.engines.cpu.kernels.octet_vectors import Octets, flip, put, side_by_side, transpose, within
from anydml.engines.cpu.kernels.octet_windows import pack_windows
from anydml.engines.cpu.kernels.pack import GROUP
from anydml.engines.cpu.kernels.steps import Steps


def make_octets(shape: Octets) -> str:
    """The text of the packing: `kernel(source, row.step, step, rows, count, target)`, as `pack` has it."""
    text, group = Steps(), shape.group
    if shape.is_lined:
        _pack_lines(text, shape)
        text.add("ret void")
        return text.define(_HEAD)
    if shape.filled > FOUR:
        _fill(text, shape)
    if shape.lie == "p" and shape.panel % GROUP == 0:
        with text.when(f"rows % {shape.panel} == 0"):
            _pack_panels(text, shape)
            text.add("ret void")
            text.add(f"{text.label('never')}:")
    if shape.lie == "w":
        pack_windows(text, shape)
        text.add("ret void")
        return text.define(_HEAD)
    with text.loop("r", 0, "rows", GROUP):
        for i in range(GROUP):
            text.let(f"row{i}", f"source + min(r + {i}, rows - 1) * row_step")
        text.let("to", "target + r * 4")
        text.let("whole", f"count - count % {FOUR}")
        text.let("most", f"count - count % {FOUR * GROUP}" if shape.lie == "t" else 0)
        if shape.lie == "t":
            with text.loop("q", 0, "most", FOUR * GROUP):
                rows = [text.new(f"load <4 x i32>, ptr {text.place(f'row{i} + q')}, align 1") for i in range(GROUP)]
                for i, column in enumerate(transpose(text, rows)):
                    put(text, shape, flip(text, shape, column), f"to + (q // {FOUR} + {i}) * {group}")
        with text.loop("t", "most", "whole", FOUR):
            _store(text, shape, _one_by_one(text, [f"t + {j}" for j in range(FOUR)]), "t")
        with text.when("whole < count"):
            found = _one_by_one(text, [f"min(whole + {j}, count - 1)" for j in range(FOUR)])
            flipped = flip(text, shape, text.new(f"bitcast <16 x i8> {found} to <4 x i32>"))
            mask = within(text, "count - whole")
            put(text, shape, text.new(f"and <4 x i32> {flipped}, {mask}"), f"to + whole // {FOUR} * {group}")
    text.add("ret void")
    return text.define(_HEAD)


_HEAD = "void @kernel(i64 %source, i64 %row_step, i64 %step, i64 %rows, i64 %count, i64 %target)"


def _steps(shape: Octets) -> str:
    """The packed steps of a panel."""
    return f"(count + {shape.filled - 1}) // {shape.filled} * {shape.filled // FOUR}"


def _fill(text: Steps, shape: Octets) -> None:
    """Zeros in the packed steps of all panels that there are no bytes for."""
    text.let("filled", _steps(shape))
    with (
        text.loop("n_f", 0, f"(rows + {shape.panel - 1}) // {shape.panel}"),
        text.loop("z_f", f"(count + {FOUR - 1}) // {FOUR}", "filled"),
        text.loop("c_f", 0, shape.group, 8),
    ):
        text.put(f"target + (n_f * filled + z_f) * {shape.group} + c_f", 0)


def _pack_lines(text: Steps, shape: Octets) -> None:
    """Row by row, in lines of 64 bytes; past the end of the steps lies 0."""
    line, line_type, octets = shape.filled, "<16 x i32>", "<64 x i8>"
    text.let("whole", f"count - count % {line}")
    with text.loop("r", 0, "rows"):
        text.let("row", "source + r * row_step")
        text.let("to", f"target + r * {line}")
        text.let("last", f"to + whole * {shape.pitch}")
        if shape.lie == "t":
            with text.loop("q", 0, "whole", line):
                found = text.new(f"load {line_type}, ptr {text.place('row + q')}, align 1")
                found = flip(text, shape, found, line_type)
                text.add(f"store {line_type} {found}, ptr {text.place(f'to + q * {shape.pitch}')}, align 4")
        else:
            with text.loop("s", 0, "whole"):
                _put_byte(text, shape, "row + s * step", f"to + (s // {line}) * {line * shape.pitch} + s % {line}")
        with text.when("whole < count"):
            text.add(f"store {octets} zeroinitializer, ptr {text.place('last')}, align 4")
            with text.loop("z", "whole", "count"):
                _put_byte(text, shape, "row + z * step", "last + (z - whole)")


def _put_byte(text: Steps, shape: Octets, source: str, target: str) -> None:
    one = text.new(f"load i8, ptr {text.place(source)}")
    one = text.new(f"xor i8 {one}, -128") if shape.flips else one
    text.add(f"store i8 {one}, ptr {text.place(target)}")


def _pack_panels(text: Steps, shape: Octets) -> None:
    """Whole panels of rows that lie side by side, one after the other: lines of the cache are read once."""
    text.let("panel", f"{_steps(shape)} * {shape.group}")
    text.let("deep", f"count - count % {FOUR}")

    def write(k: str, mask: str | None) -> None:
        for j in range(FOUR):
            text.let(f"{k}_from{j}", f"source + min({k} + {j}, count - 1) * step")
        text.let(f"{k}_to", f"target + {k} * {shape.group // FOUR}")
        with text.loop(f"{k}_p", 0, f"rows // {shape.panel}"):
            for g in range(0, shape.panel, 2 * GROUP):
                lines = [f"{k}_from{j} + {k}_p * {shape.panel} + {g}" for j in range(FOUR)]
                for i, value in enumerate(side_by_side(text, lines, min(2 * GROUP, shape.panel - g))):
                    found = flip(text, shape, value)
                    found = found if mask is None else text.new(f"and <4 x i32> {found}, {mask}")
                    put(text, shape, found, f"{k}_to + {k}_p * panel + {4 * (g + GROUP * i)}")

    with text.loop("k", 0, "deep", FOUR):
        write("k", None)
    with text.when("deep < count"):
        text.let("z", "deep")
        write("z", within(text, "count - deep"))


def _store(text: Steps, shape: Octets, octets: str, step: str) -> None:
    value = flip(text, shape, text.new(f"bitcast <16 x i8> {octets} to <4 x i32>"))
    put(text, shape, value, f"to + {step} // {FOUR} * {shape.group}")


def _one_by_one(text: Steps, steps: list[str]) -> str:
    """Four rows of four steps, a byte at a time."""
    value = "poison"
    for i in range(GROUP):
        for j, step in enumerate(steps):
            one = text.new(f"load i8, ptr {text.place(f'row{i} + ({step}) * step')}")
            value = text.new(f"insertelement <16 x i8> {value}, i8 {one}, i32 {FOUR * i + j}")
    return value

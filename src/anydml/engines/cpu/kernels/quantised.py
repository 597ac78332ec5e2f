"""Columns of weights of 4 or 8 bits times a few rows of digits: integer products, scaled portion by portion.

`kernel(right, bases, n0, columns, digits, sums, powers, total, pitch, portions)` writes the rows of some columns to
`total`. Each column's weights lie side by side, two 4-bit ones to a byte and the first in its low half; so do its
scales, of which each is for `PORTION` weights or a multiple of them, and its zero points. The exact sum of a portion's
products is scaled, and added to one of four sums in turn, which are added in pairs in the end.

`right` are the words of a section with the weights, the scales and the zero points, which begin at `bases`; the digits
of a row follow those of the row before.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from anydml.engines.cpu.kernels.digits import PLACES, PORTION, TOGETHER
from anydml.engines.cpu.kernels.fours import FOUR, add_fours, read_weights, shuffled
from anydml.engines.cpu.kernels.steps import Steps

MOST_ROWS = 4
"""Rows whose sums have room in the registers."""
CHAINED = 2
"""Sums that are under way at once and no more, where those of a row's places are."""
WORDS = PORTION // 4
"""Words of four bytes of a portion's digits."""
SUMS = f"<{TOGETHER} x float>"

Place: TypeAlias = tuple[int, str]
"""A row, and a column by its name."""


class Quantised(NamedTuple):
    """The parameters of the text."""

    rows: int
    lanes: int
    """Sums of a dot product, 4 or 8."""
    bits: int
    is_signed: bool
    has_zeros: bool
    """Whether zero points are read; otherwise the sums are of the elements times the zero point, less than 0."""
    zero: int
    """Without those, what is taken off all weights as they are multiplied."""
    shared: int
    """Portions that share a scale, `TOGETHER` where there are more."""
    dots: bool
    """Whether the CPU adds up products of bytes by fours."""
    is_arm: bool
    places: int = PLACES
    """Bytes of a row's element: one where rows were rounded."""
    is_laid_out: bool = False
    """Whether words of the weights lie as they are multiplied: by `TOGETHER` portions, the first word of each, then the
    second ones."""

    @property
    def name(self) -> str:
        """The end of the kernels' names."""
        return " ".join(str(int(part)) for part in self)

    @property
    def width(self) -> int:
        """Bytes of a portion's weights."""
        return PORTION * self.bits // 8

    @property
    def views(self) -> tuple[str, ...]:
        """The values read of a column."""
        return ("weights", "scales", "zeros") if self.has_zeros else ("weights", "scales")

    @property
    def raised(self) -> int:
        """The excess of weights as they are multiplied: 0 .. 15 or 0 .. 255, but for an Arm that takes signed bytes."""
        if self.bits == 4:
            return 8 if self.is_signed else 0
        takes_signed = self.is_arm and self.dots
        return 0 if self.is_signed == takes_signed else -128 if takes_signed else 128


def make_quantised(shape: Quantised) -> str:
    """The text of the kernel."""
    return _Columns(shape).write()


def read_section(text: Steps, views: tuple[str, ...]) -> None:
    """Where the views of weights begin, how far columns are apart, and how many portions share a scale."""
    for i, name in enumerate(views):
        text.read(f"{name}_base", f"bases + {8 * i}")
        text.read(f"{name}_on", f"right + {24 + 8 * (2 * len(views) + i)}")
    text.read("shared", f"right + {24 + 8 * len(views)}")


class _Columns:
    def __init__(self, shape: Quantised) -> None:
        self.shape, self.text = shape, Steps()
        self.ints, self.octets = f"<{shape.lanes} x i32>", f"<{4 * shape.lanes} x i8>"

    def write(self) -> str:
        text = self.text
        read_section(text, self.shape.views)
        text.let("whole", f"portions - portions % {TOGETHER}")
        # Two columns at once have more sums under way than one, where there is room for them, and memory streams two
        # faster than four: one row takes 1.2 ms in place of 1.6, and rounded to bytes 0.66 in place of 0.70 or 0.76. An
        # Arm has the registers: its 8 rows take 8.4 ms in place of 9.4, as digits are read half as often.
        is_wide = self.shape.is_arm and self.shape.bits == 4
        beside = 2 if is_wide or self.shape.places == 1 or self.shape.rows == 1 else 1
        text.let("most", f"columns - columns % {beside}")
        with text.loop("n", 0, "most", beside):
            self._columns("n", beside)
        if beside > 1:
            with text.loop("o", "most", "columns"):
                self._columns("o", 1)
        text.add("ret void")
        names = ("right", "bases", "n0", "columns", "digits", "sums", "powers", "total", "pitch", "portions")
        return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")

    def _columns(self, at: str, count: int) -> None:
        text = self.text
        for c in range(count):
            for name in self.shape.views:
                text.let(f"{name}_{at}{c}", f"{name}_base + (n0 + {at} + {c}) * {name}_on")
        places = {(i, f"{at}{c}"): (i, c) for i in range(self.shape.rows) for c in range(count)}
        sums = self._sums(f"{at}p", "0", "whole", TOGETHER, dict.fromkeys(places, "zeroinitializer"))
        for place, value in self._sums(f"{at}q", "whole", "portions", 1, sums).items():
            i, c = places[place]
            to = text.place(f"total + {i} * pitch + ({at} + {c}) * 4")
            text.add(f"store float {self._fold(value)}, ptr {to}")

    def _sums(self, name: str, start: str, stop: str, step: int, given: dict[Place, str]) -> dict[Place, str]:
        """The sums of some rows and columns after some portions."""
        text = self.text
        before, head, body, after = (text.label(name) for _ in range(4))
        first, last = text.value(start), text.value(stop)
        text.add(f"br label %{before}", f"{before}:", f"br label %{head}", f"{head}:")
        text.add(f"%{name} = phi i64 [ {first}, %{before} ], [ %{name}.on, %{body} ]")
        for s, value in enumerate(given.values()):
            text.add(f"%{name}.s{s} = phi {SUMS} [ {value}, %{before} ], [ %{name}.t{s}, %{body} ]")
        test = text.new(f"icmp slt i64 %{name}, {last}")
        text.add(f"br i1 {test}, label %{body}, label %{after}", f"{body}:")
        made = self._portions(name, step, {place: f"%{name}.s{s}" for s, place in enumerate(given)})
        for s, value in enumerate(made.values()):
            text.add(f"%{name}.t{s} = bitcast {SUMS} {value} to {SUMS}")
        text.add(f"%{name}.on = add i64 %{name}, {step}", f"br label %{head}", f"{after}:")
        return {place: f"%{name}.s{s}" for s, place in enumerate(given)}

    def _portions(self, name: str, count: int, sums: dict[Place, str]) -> dict[Place, str]:
        """Some portions, for some rows and columns: a lane of the sums for each portion."""
        text, shape = self.text, self.shape
        rows, columns = list(dict.fromkeys(i for i, _ in sums)), list(dict.fromkeys(c for _, c in sums))
        weights = {c: read_weights(text, shape, f"weights_{c}", name, count) for c in columns}
        if count > 1:
            for c in columns:  # of the column that takes this one's place
                place = text.place(f"weights_{c} + {name} * {shape.width} + {len(columns)} * weights_on")
                text.fetch(place)
        parts: dict[Place, list[str]] = {place: [] for place in sums}
        taken = {i: self._of_row("sums", "i32", i, name, count) for i in rows}
        for digit in reversed(range(shape.places)):
            # What is taken off is where the lowest digits begin: 4 rows rounded to bytes take 1.65 ms so, not 1.8.
            starts = {i: "zeroinitializer" if digit or self._is_apart else self._wide(taken[i]) for i in rows}
            totals = {(i, c): starts[i] for i, c in sums}
            if digit < shape.places - 1 and self._is_chained(len(sums)):
                totals = {one: self._above(parts[one].pop(), total) for one, total in totals.items()}
            for v in range(count * WORDS // shape.lanes):
                for i in rows:
                    at = f"digits + {i} * portions * {PLACES * PORTION} + {name} * {shape.places * PORTION}"
                    at += f" + {count * PORTION * digit + 4 * shape.lanes * v}"
                    factor = text.new(f"load {self.octets}, ptr {text.place(at)}, align 4")
                    for c in columns:
                        totals[i, c] = add_fours(text, shape, weights[c][v], factor, totals[i, c])
            for one, total in totals.items():
                parts[one].append(total)
        scales = {c: self._by_scale(f"scales_{c}", name, count, "float", 4) for c in columns}
        zeros = {c: self._zeros(f"zeros_{c}", name, count) for c in columns}
        powers = {i: self._of_row("powers", "float", i, name, count) for i in rows}
        made = {}
        for i, c in sums:
            number = self._number(parts[i, c], count, taken[i], zeros[c])
            factor = text.new(f"fmul {SUMS} {scales[c]}, {powers[i]}")
            made[i, c] = text.call("fma", SUMS, [number, factor, sums[i, c]])
        return made

    def _of_row(self, base: str, kind: str, i: int, name: str, count: int) -> str:
        """The values that some portions of a row have one of, each in its lane."""
        place = self.text.place(f"{base} + ({i} * portions + {name}) * 4")
        return self._padded(self.text.new(f"load <{count} x {kind}>, ptr {place}, align 4"), kind, count)

    def _wide(self, four: str) -> str:
        """The same with 0 in the lanes that a dot product has more."""
        if self.shape.lanes == TOGETHER:
            return four
        return self._shuffled(four, "zeroinitializer", list(range(self.shape.lanes)), "i32", TOGETHER)

    def _shuffled(self, a: str, b: str, lanes: list[int], scalar: str, count: int) -> str:
        return shuffled(self.text, a, b, lanes, scalar, count)

    # Scales

    def _by_scale(self, base: str, name: str, count: int, scalar: str, width: int) -> str:
        """The values that there is one of for each scale, in the lane of each portion."""
        text, shared = self.text, self.shape.shared
        first = text.place(f"{base} + {name} // {shared if shared < TOGETHER else 'shared'} * {width}")
        few = max(count // shared, 1)
        loaded = text.new(f"load <{few} x {scalar}>, ptr {first}, align {width}")
        if few != count:
            loaded = self._shuffled(loaded, "poison", [u // shared for u in range(count)], scalar, few)
        return self._padded(loaded, scalar, count)

    def _zeros(self, base: str, name: str, count: int) -> str:
        """Zero points of the weights as they are multiplied; empty where there are none."""
        text, shape = self.text, self.shape
        if not shape.has_zeros:
            return ""
        octets = self._by_scale(base, name, count, "i8", 1)
        wide = text.new(f"{'sext' if shape.is_signed else 'zext'} <{TOGETHER} x i8> {octets} to {FOUR}")
        return text.new(f"add {FOUR} {wide}, splat (i32 {shape.raised})") if shape.raised else wide

    def _padded(self, vector: str, scalar: str, count: int) -> str:
        """The same with 0 in the lanes of portions that there are not."""
        if count == TOGETHER:
            return vector
        return self._shuffled(vector, "zeroinitializer", [min(k, count) for k in range(TOGETHER)], scalar, count)

    # Sums

    @property
    def _is_apart(self) -> bool:
        """Whether the sums of elements are not yet times the zero point."""
        return self.shape.has_zeros or self.shape.bits == 8

    def _is_chained(self, count: int) -> bool:
        """Whether the sum of a place begins with that of the place above: with a few, each would wait for the other.

        8 rows take 9.4 ms so in place of 10.2, and one 1.43 in place of 1.25 (Arm Neoverse-N1).
        """
        return self.shape.is_arm and self.shape.bits == 4 and count > CHAINED

    def _above(self, above: str, start: str) -> str:
        """Where a place's sum begins, given that of the place above."""
        up = self.text.new(f"shl {self.ints} {above}, splat (i32 8)")
        return up if start == "zeroinitializer" else self.text.new(f"add {self.ints} {up}, {start}")

    def _number(self, parts: list[str], count: int, sums: str, zeros: str) -> str:
        """The sums of products less the zero point's, FLOAT32."""
        text, shape = self.text, self.shape
        whole, *others = parts
        low = others.pop() if shape.bits == 8 and others else ""  # 32 bits have no room for all three
        for other in others:
            whole = text.new(f"add {self.ints} {text.new(f'shl {self.ints} {whole}, splat (i32 8)')}, {other}")
        if not low:
            together = self._together(whole, count)
            if self._is_apart:
                less = text.new(f"mul {FOUR} {sums}, {zeros or f'splat (i32 {shape.zero})'}")
                together = text.new(f"sub {FOUR} {together}, {less}")
            return self._float(together)
        most, least = (self._together(x, count) for x in (whole, low))
        if zeros or shape.zero:
            # Whole numbers are exact, however much larger than the result what is taken off is.
            zero = zeros or f"splat (i32 {shape.zero})"
            high = text.new(f"ashr {FOUR} {text.new(f'add {FOUR} {sums}, splat (i32 128)')}, splat (i32 8)")
            rest = text.new(f"sub {FOUR} {sums}, {text.new(f'shl {FOUR} {high}, splat (i32 8)')}")
            most = text.new(f"sub {FOUR} {most}, {text.new(f'mul {FOUR} {high}, {zero}')}")
            least = text.new(f"sub {FOUR} {least}, {text.new(f'mul {FOUR} {rest}, {zero}')}")
        return text.call("fma", SUMS, [self._float(most), "splat (float 256.0)", self._float(least)])

    def _float(self, number: str) -> str:
        return self.text.new(f"sitofp {FOUR} {number} to {SUMS}")

    def _together(self, total: str, count: int) -> str:
        """The sums of portions, each in its lane: of one portion all lanes are in the first."""
        text, lanes = self.text, self.shape.lanes
        if count == 1:
            name = f"@llvm.vector.reduce.add.v{lanes}i32"
            text.declared[f"declare i32 {name}({self.ints})"] = None
            one = text.new(f"call i32 {name}({self.ints} {total})")
            return text.new(f"insertelement {FOUR} zeroinitializer, i32 {one}, i32 0")
        if lanes > TOGETHER:
            a, b = (self._shuffled(total, "poison", list(range(k, k + 4)), "i32", lanes) for k in (0, 4))
            return text.new(f"add {FOUR} {a}, {b}")
        return total

    def _fold(self, value: str) -> str:
        """The sum of all lanes, in pairs."""
        text = self.text
        for lanes in (2, 1):
            mask = ", ".join(f"i32 {lanes + k if k < lanes else 'poison'}" for k in range(TOGETHER))
            other = text.new(f"shufflevector {SUMS} {value}, {SUMS} poison, {FOUR} <{mask}>")
            value = text.new(f"fadd {SUMS} {value}, {other}")
        return text.new(f"extractelement {SUMS} {value}, i32 0")

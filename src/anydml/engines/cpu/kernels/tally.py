"""The arithmetic of running sums and products: elements widened, combined and rounded, alone and by the vector."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from anydml.engines.cpu.features import rounds_to_float16
from anydml.engines.cpu.kernels.number import round_to_odd
from anydml.engines.cpu.language import (
    POINTER,
    load_lanes,
    load_vector,
    make_load,
    make_store,
    offset_by,
    store_lanes,
    store_vector,
    store_word,
    transpose_four,
)
from anydml.engines.cpu.translate import word


class Tally:
    """The arithmetic of a running sum or product over one kind of element.

    Floats are widened to float64 and rounded when they are written; integers wrap in their own width.
    """

    def __init__(self, kind: str, function: str) -> None:
        self.kind, self.function = kind, function
        self.width = int(kind[1:]) // 8
        self.is_float = kind[0] == "f"
        bits: Any = ir.IntType(8 * self.width)
        self.element = {"f16": ir.HalfType(), "f32": ir.FloatType(), "f64": ir.DoubleType()}.get(kind, bits)
        self.total = ir.DoubleType() if self.is_float else bits
        self.total_width = 8 if self.is_float else self.width
        # -0.0 is what leaves every float as it is, -0.0 included.
        start = 1 if function == "product" else -0.0 if self.is_float else 0
        self.start, self.zero = ir.Constant(self.total, start), ir.Constant(self.total, 0)
        self.load = make_load(self.element, self.widen)
        self.store = make_store(lambda builder, value: self.narrow(builder, value, self.element))
        self.load_total = make_load(self.total)
        self.store_total = store_word

    def widen(self, builder: Any, value: Any) -> Any:
        """An element, or a vector of them, as totals."""
        if not self.is_float or self.element == self.total:
            return value
        kind = ir.VectorType(self.total, value.type.count) if isinstance(value.type, ir.VectorType) else self.total
        return builder.fpext(value, kind)

    def narrow(self, builder: Any, value: Any, kind: Any) -> Any:
        """A total as an element, rounded once."""
        if not self.is_float or self.element == self.total:
            return value
        if self.kind == "f16" and not rounds_to_float16():
            value = round_to_odd(builder, value)
        return builder.fptrunc(value, kind)

    def combine(self, builder: Any, total: Any, value: Any) -> Any:
        """Take a value in."""
        if self.is_float:
            return builder.fadd(total, value) if self.function == "sum" else builder.fmul(total, value)
        return builder.add(total, value) if self.function == "sum" else builder.mul(total, value)

    def make_combine(self) -> Any:
        """combine(total, value) for single elements."""

        @word
        def combine(builder: Any, total: Any, value: Any) -> Any:
            return self.combine(builder, total, value)

        return combine

    def make_rows(self, columns: int, *, reverse: bool, exclusive: bool, stream: bool) -> Any:
        """rows(target, target_step, source, source_step, totals): four rows at once, some columns on.

        Rows are turned into columns in registers, because one row alone waits for each addition to end. With
        `reverse` the addresses are those of the last columns. The four totals go on. With `stream` the columns are
        written past the cache, and the targets must be aligned to them.
        """
        elements, totals_kind = ir.VectorType(self.element, 4), ir.VectorType(self.total, 4)

        @word
        def rows(builder: Any, target: Any, target_step: Any, source: Any, source_step: Any, totals: Any) -> None:
            targets, sources = [target], [source]
            for _ in range(3):
                targets.append(builder.add(targets[-1], target_step))
                sources.append(builder.add(sources[-1], source_step))
            place = builder.inttoptr(totals, POINTER)
            total = builder.load(place, typ=totals_kind)
            total.align = 8
            starts = [start * self.width for start in range(0, columns, 4)]
            written = []
            for start in reversed(starts) if reverse else starts:
                block = [load_vector(builder, offset_by(builder, source, start), elements) for source in sources]
                results = []
                for column in reversed(transpose_four(builder, block)) if reverse else transpose_four(builder, block):
                    after = self.combine(builder, total, self.widen(builder, column))
                    results.append(self.narrow(builder, total if exclusive else after, elements))
                    total = after
                written.append((start, transpose_four(builder, results[::-1] if reverse else results)))
            for i, target in enumerate(targets):  # a whole line of each row at a time
                for start, block in sorted(written, key=lambda pair: pair[0]):
                    where = offset_by(builder, target, start)
                    store_vector(builder, block[i], where, 4 * self.width if stream else 1, stream=stream)
            builder.store(total, place).align = 8

        return rows

    def make_reduce(self, width: int) -> Any:
        """reduce(source, totals): take so many elements into as many totals."""
        elements, totals_kind = ir.VectorType(self.element, width), ir.VectorType(self.total, width)

        @word
        def reduce(builder: Any, source: Any, totals: Any) -> None:
            place = builder.inttoptr(totals, POINTER)
            total = builder.load(place, typ=totals_kind)
            total.align = 8
            value = self.widen(builder, load_vector(builder, source, elements))
            builder.store(self.combine(builder, total, value), place).align = 8

        return reduce

    def make_columns(self, width: int, height: int, *, exclusive: bool, stream: bool, partly: bool = False) -> Any:
        """columns(target, target_step, source, source_step, totals): some columns, some rows on.

        With `stream` they are written past the cache, and the target must be aligned to them. With `partly` a last
        argument is the number of columns, of as many as there are totals: the others are neither read nor written.
        """
        elements, totals_kind = ir.VectorType(self.element, width), ir.VectorType(self.total, width)

        @word
        def columns(
            builder: Any, target: Any, target_step: Any, source: Any, source_step: Any, totals: Any, *count: Any
        ) -> None:
            place = builder.inttoptr(totals, POINTER)
            total = builder.load(place, typ=totals_kind)
            total.align = 8
            mask = _first_lanes(builder, count[0], width) if partly else None
            for _ in range(height):
                if mask is None:
                    element = load_vector(builder, source, elements)
                else:  # the other totals stay as they are
                    element = load_lanes(builder, source, mask, ir.Constant(elements, [self.start.constant] * width))
                after = self.combine(builder, total, self.widen(builder, element))
                result = self.narrow(builder, total if exclusive else after, elements)
                if mask is None:
                    store_vector(builder, result, target, width * self.width if stream else 1, stream=stream)
                else:
                    store_lanes(builder, result, target, mask)
                total = after
                source, target = builder.add(source, source_step), builder.add(target, target_step)
            builder.store(total, place).align = 8

        return columns


def _first_lanes(builder: Any, count: Any, width: int) -> Any:
    """Which lanes are the first so many."""
    kind = ir.VectorType(ir.IntType(32), width)
    some = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(some, builder.trunc(count, ir.IntType(32)), ir.Constant(ir.IntType(32), 0))
    return builder.icmp_unsigned(
        "<", ir.Constant(kind, list(range(width))), builder.shuffle_vector(one, some, ir.Constant(kind, None))
    )

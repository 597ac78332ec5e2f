"""Reductions with vectors across rows: a strip of rows is folded together, its accumulators on the stack.

A strip is a number of vectors, each with a place of its own on the stack, its slot. The last vector of the kernel's
rows ends with them, and overlaps the one before, or rows before the kernel's own: what it computes of those is right,
or made of elements that were written in place meanwhile, and not written again.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.engines.cpu.codegen.expressions import vector_type
from anydml.engines.cpu.codegen.function import vector_of
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.launch.record import LINE
from anydml.engines.cpu.rows.reduce_kernel import Writer, combine, combine_all, identity, size_of, width_of
from anydml.ir.expressions import FOLDS, LEAVES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.rows.reduce_kernel import ReduceShape
    from anydml.ir.expressions import Expr
    from anydml.ir.row_passes import Pass


def make_across(values: Sequence[Expr], shape: ReduceShape) -> str:
    """The text of a reduce with vectors across the rows, with a value for each target."""
    return _Across(values, shape).make()


class _Across(Writer):
    def make(self) -> str:
        f, lanes, strip = self.f, self.shape.lanes, self.shape.strip
        held = dict.fromkeys(node for step in self.passes for node in (*step.folds, *step.once))
        self.held = {node: f.stack("i8", strip * self._held_width(node)) for node in held}
        """Where on the stack the strip's results lie."""
        targets = [*self.by_row, *self.by_element] if self.by_element else []
        self.parts = {view: f.stack(vector_type(value, lanes)) for view, value in targets}
        self.last = f.value(0, "i64") if self.shape.masked else self.count - lanes
        """The row that the last vector begins at."""
        if self.shape.masked:
            self.mask = f.tail_mask(self.count, lanes)
        self.beginning = self.started(self.places)
        """Where the rows' first elements lie."""
        with f.rotated_loop(0, self.count, strip) as self.first:
            self._strip()
        return f.end()

    def _strip(self) -> None:
        left = self.count - self.first
        self.end = self.f.min(left, self.shape.strip)
        """How many rows the strip has."""
        self.known: set[Expr] = set()
        """What lies on the stack by now."""
        for step in self.passes:
            self._prepare(step)
            self.known.update((*step.folds, *step.once))
            if step.folds and self.shape.window and size_of(step) <= figures().reduce.few_operations:
                self._fold_window(step)
                continue
            if not step.folds:
                self._write_rows()
            with self.nest(self.places) as (places, number):
                (self._fold if step.folds else self._write)(step, places, number)
        if not self.by_element:
            self._write_rows()

    # The vectors of a strip, and their results so far, which lie on the stack

    def _slots(self, body: Callable[[Value], None], together: int = 1) -> None:
        """body(slot) for every vector; for several together as one, with as many lanes, where they are whole."""
        narrow, whole = self.shape, self.f.value(0, "i64")
        if together > 1:
            self.shape = narrow._replace(lanes=narrow.lanes * together)
            whole = self.end & -self.shape.lanes
            with self.f.rotated_loop(0, whole, self.shape.lanes) as slot:
                body(slot)
            self.shape = narrow
        with self.f.rotated_loop(whole, self.end, self.shape.lanes) as slot:
            body(slot)

    def _column(self, slot: Value) -> Value:
        """The row that a vector begins at."""
        return self.f.min(self.first + slot, self.last)

    def _hold(self, node: Expr, slot: Value) -> Value:
        """The place of a result."""
        return self.held[node] + slot * self._held_width(node)

    def _held_width(self, node: Expr) -> int:
        """The bytes of an element on the stack."""
        return 8 if self._is_long(node) else width_of(node)

    def _align(self, node: Expr) -> int:
        """Of a node's vectors on the stack."""
        return min(self.shape.lanes * width_of(node), LINE)

    def _is_long(self, node: Expr) -> bool:
        """Whether a result is a sum of FLOAT32 of very many, which are added up in float64."""
        return node.op == "fold_sum" and node.type is DataType.FLOAT32 and self.shape.long

    def _load_held(self, node: Expr, slot: Value) -> Value:
        """What lies on the stack: truth values a byte each, since several vectors may be read as one."""
        lanes = self.shape.lanes
        kind = vector_of(lanes, "double") if self._is_long(node) else vector_type(node, lanes)
        return self.f.load(
            vector_of(lanes, "i8") if node.type is None else kind, self._hold(node, slot), align=self._align(node)
        )

    def _store_held(self, node: Expr, slot: Value, value: Value) -> None:
        self.f.store(value, self._hold(node, slot), align=self._align(node))

    def _load(self, node: Expr, slot: Value) -> Value:
        """A result so far."""
        held = self._load_held(node, slot)
        if node.type is None:
            return self.f.cast("trunc", held, "i1")
        return self.f.cast("fptrunc", held, "float") if self._is_long(node) else held

    def _keep(self, node: Expr, slot: Value, value: Value) -> None:
        """Keep a result."""
        if node.type is None:
            value = self.f.cast("zext", value, "i8")
        self._store_held(node, slot, self.f.cast("fpext", value, "double") if self._is_long(node) else value)

    def _combine(self, node: Expr, slot: Value, value: Value) -> None:
        """Fold more into a result so far."""
        old = self._load_held(node, slot)
        if self._is_long(node):
            self._store_held(node, slot, old + self.f.cast("fpext", value, "double"))
        else:
            self._store_held(node, slot, combine(self.f, node, old, value, self.shape.lanes))

    def _leaf(self, leaf: Expr, places: Sequence[Value], column: Value) -> Value:
        """A number, or what is read of a view for the rows from one on."""
        if leaf in self.numbers:
            return self.f.splat(self.numbers[leaf], self.shape.lanes)
        view = self.shape.leaves.index(leaf)
        return self.read(view, places[view], column, self.row_steps[view], self.shape.lanes)

    def _compute(self, roots: Sequence[Expr], slot: Value) -> list[Value]:
        """The values that are the same for a whole row."""
        found: dict[Expr, str] = {}
        pending, column, seen = list(roots), self._column(slot), set()
        while pending:
            node = pending.pop()
            if node in seen or node.op == "const":
                continue
            seen.add(node)
            if node in self.known or node.op in FOLDS:
                found[node] = self._load(node, slot)
            elif node.op in LEAVES:
                found[node] = self._leaf(node, self.beginning, column)
            else:
                pending += node.args
        return self.tree(roots, found, self.shape.lanes)

    def _write_rows(self) -> None:
        """The values for whole rows; before those of their elements, which may take the place of a source."""

        def body(slot: Value) -> None:
            found, column = self._compute([value for _, value in self.by_row], slot), self._column(slot)
            if self.by_element:
                self._put(self.by_row, found, self.places, slot, column)
                return
            for (view, _), value in zip(self.by_row, found, strict=True):
                self.write(view, value, self.places[view], column, self.row_steps[view])

        if self.by_row:
            self._slots(body)

    def _prepare(self, step: Pass) -> None:
        """The values that a pass takes that are the same for a whole row, and the starts of its folds."""
        once = [node for node in step.once if node not in self.known]

        def body(slot: Value) -> None:
            for node, value in zip(once, self._compute(once, slot), strict=True):
                self._keep(node, slot, value)
            for fold in step.folds:
                self._keep(fold, slot, self.f.value(identity(fold), vector_type(fold, self.shape.lanes)))

        if once or step.folds:
            self._slots(body)

    # The elements of rows

    def _vectors(
        self, step: Pass, several: Sequence[Sequence[Value]], numbers: Sequence[Value], slot: Value, column: Value
    ) -> list[list[Value]]:
        """A pass's roots, for elements of some numbers in the row, which lie at several places: computed as one."""
        f, lanes, count = self.f, self.shape.lanes, len(numbers)
        found: dict[Expr, str] = {}
        for leaf in step.leaves:
            if leaf.op != "const":
                found[leaf] = self._joined([self._leaf(leaf, places, column) for places in several])
        for node in step.once:
            found[node] = self._joined([self._load(node, slot)] * count)
        rows = [number * self.shape.strip for number in numbers] if step.kept or step.keeps else []
        ons = [row + slot for row in rows]
        for node in step.kept:
            places = (self.spaces[node] + on * width_of(node) for on in ons)
            each = [f.load(vector_type(node, lanes), place, align=self._align(node)) for place in places]
            found[node] = self._joined(each)
        values = self.tree([*step.keeps, *step.roots], found, lanes * count)
        for node, value in zip(step.keeps, values, strict=False):
            for k, on in enumerate(ons):
                part = self.part(value, k, count)
                f.store(part, self.spaces[node] + on * width_of(node), align=self._align(node))
        roots = values[len(step.keeps) :]
        return [[self.part(value, k, count) for value in roots] for k in range(count)]

    def _joined(self, values: Sequence[Value]) -> Value:
        """Vectors of a power of two, one after the other in a wider one."""
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=True)
            values = [self.f.shuffle(a, b, range(2 * a.lanes)) for a, b in pairs]
        return values[0]

    def _at(self, places: Sequence[Value], i: Value) -> list[Value]:
        """The places of the rows' elements of a number, those of lines that begin with each of them too."""
        return self.started(self.move_all(places, i, self.strides[-1]))

    def _by(self, beside: int, body: Callable[[Value, int], None]) -> None:
        """body(i, count) for the elements of a run, so many at once, and then one by one."""
        size = self.sizes[-1]
        many = size & -beside
        with self.f.rotated_loop(0, many, beside) as i:
            body(i, beside)
        if beside > 1:
            with self.f.rotated_loop(many, size) as i:
                body(i, 1)

    def _fold(self, step: Pass, places: Sequence[Value], number: Value) -> None:
        def fold(i: Value, count: int) -> None:
            moved = [self._at(places, i + k) for k in range(count)]
            numbers = [number + (i + k) for k in range(count)]
            self._fold_all(step, moved, numbers, is_fetched=self.shape.far)

        self._by(self._beside(step), fold)

    def _fold_window(self, step: Pass) -> None:
        """All elements of the rows, side by side."""
        moved = []
        for place in itertools.product(*map(range, self.shape.window)):
            there: Sequence[Value] = self.places
            for k, i in enumerate(place):
                there = self.move_all(there, i, self.strides[k]) if i else there
            moved.append(self.started(there))
        numbers = [self.f.value(number, "i64") for number in range(len(moved))]
        self._fold_all(step, moved, numbers, is_fetched=False)

    def _fold_all(
        self, step: Pass, moved: Sequence[Sequence[Value]], numbers: Sequence[Value], *, is_fetched: bool
    ) -> None:
        """Add elements of the rows, which lie at some places, to the strip's results so far."""

        def body(slot: Value) -> None:
            column = self._column(slot)
            for there in moved if is_fetched else []:
                self._fetch_next(step, there, column, len(moved))
            if self.shape.masked and size_of(step) > figures().reduce.few_operations:
                new = self._vectors(step, moved, numbers, slot, column)
            else:
                each = zip(moved, numbers, strict=True)
                new = [self._vectors(step, [there], [at], slot, column)[0] for there, at in each]
            for k, one in enumerate(step.folds):
                self._combine(one, slot, combine_all(self.f, one, [values[k] for values in new], self.shape.lanes))

        self._slots(body, figures().reduce.vectors_at_once if self._is_wide(step) else 1)

    def _is_wide(self, step: Pass) -> bool:
        """Whether several vectors are computed as one: 8 x 64 x 1,024 take 0.70 ms so, and 1.15 one by one."""
        is_packed = {*self.shape.letters} <= {*"pr"} and not self.shape.masked
        return size_of(step) > figures().reduce.few_operations and is_packed and figures().reduce.vectors_at_once > 1

    def _beside(self, step: Pass) -> int:
        """The elements of a row that are folded side by side."""
        if size_of(step) > figures().reduce.few_operations:
            return figures().reduce.vectors_at_once if self.shape.masked else 1
        widest = max((width_of(fold) for fold in step.folds), default=0)
        is_wide = any(self.widths[view] < widest for view in self.packed(step))
        of = figures().reduce
        return (of.folded_across_far if is_wide else 1) if self.shape.far else of.folded_across

    def _write(self, step: Pass, places: Sequence[Value], number: Value) -> None:
        def write(i: Value, count: int) -> None:
            moved = [self._at(places, i + k) for k in range(count)]
            numbers = [number + (i + k) for k in range(count)]

            def body(slot: Value) -> None:
                column = self._column(slot)
                if figures().rows.fetches_written and not (self.shape.masked or self.shape.stream):
                    self._fetch_targets(moved[0], column)
                found = self._vectors(step, moved, numbers, slot, column)
                for values, there in zip(found, moved, strict=True):
                    self._put(self.by_element, values, there, slot, column, is_streamed=self.shape.stream)

            self._slots(body)

        is_wide = self.shape.masked and size_of(step) > figures().reduce.few_operations
        self._by(figures().reduce.vectors_at_once if is_wide else 1, write)

    def _put(
        self,
        targets: Sequence[tuple[int, Expr]],
        values: Sequence[Value],
        places: Sequence[Value],
        slot: Value,
        column: Value,
        *,
        is_streamed: bool = False,
    ) -> None:
        """Write vectors whole, or where rows before were written already, their last lanes."""
        f, lanes = self.f, self.shape.lanes
        if self.shape.masked:
            for (view, _), value in zip(targets, values, strict=True):
                self.write(view, value, places[view], column, self.row_steps[view])
            return
        own = self.end - slot
        with f.either(own >= lanes) as (whole, part):
            with whole:
                for (view, _), value in zip(targets, values, strict=True):
                    step = self.row_steps[view]
                    self.write(view, value, places[view], column, step, is_streamed=is_streamed)
            with part:
                for (view, node), value in zip(targets, values, strict=True):
                    f.store(value, self.parts[view], align=self._align(node))
                    with f.rotated_loop(lanes - own, lanes) as lane:
                        element = f.load(self.kinds[view], self.parts[view] + lane * self.widths[view], align=1)
                        f.store(element, places[view] + (column + lane) * self.row_steps[view], align=1)

    # Memory ahead

    def _fetch_next(self, step: Pass, places: Sequence[Value], column: Value, count: int) -> None:
        """Ask for what is read next: further along the strip, or the rows' elements that are so many on."""
        of = figures().reduce
        for view in self.packed(step):
            ahead = of.prefetch_bytes if self.shape.strip >= of.run_strip else self.strides[-1][view] * count
            self._fetch_all(view, places[view] + ahead + column * self.widths[view])

    def _fetch_targets(self, places: Sequence[Value], column: Value) -> None:
        """Ask for what is written next: a softmax along the second of 8 x 64 x 1,024 takes 0.70 ms so, not 0.79."""
        for view, _ in self.by_element:
            if self.shape.letters[view] == "p":
                place = places[view] + self.strides[-1][view] + column * self.widths[view]
                self._fetch_all(view, place, is_written=True)

    def _fetch_all(self, view: int, place: Value, *, is_written: bool = False) -> None:
        """Ask for the lines of a view's vector."""
        for on in range(0, self.shape.lanes * self.widths[view], LINE):
            self.f.prefetch(place + on if on else place, is_written=is_written)

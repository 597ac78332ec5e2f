"""Reductions with vectors across rows: a strip of rows is folded together, its accumulators on the stack."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING

from anydml.engines.cpu.codegen.expressions import kind_of, scalar_text
from anydml.engines.cpu.features import IS_ARM, has_feature
from anydml.engines.cpu.launch.record import LINE
from anydml.engines.cpu.rows.reduce_kernel import (
    SMALL,
    TOGETHER,
    VECTOR,
    Writer,
    combine,
    combine_all,
    identity,
    size_of,
    vector_of,
    width_of,
)
from anydml.enums import DataType
from anydml.ir.expressions import FOLDS, LEAVES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.cpu.rows.reduce_kernel import Shape
    from anydml.ir.expressions import Expr
    from anydml.ir.row_passes import Pass

# The vectors of a strip of rows: where they begin, and their results so far, which lie on the stack.


AHEAD, RUN = 512, 1024
"""Bytes ahead that are fetched of a strip of so many elements: it is read as it lies. 16384 x 1024 take 3.5 ms so, and
3.9 with the same column of the next row fetched, as narrow strips have it."""


class Strip(Writer):
    """A number of vectors across the rows, each with a place of its own on the stack, its slot."""

    held: Mapping[Expr, str]
    """Where on the stack the strip's results lie."""
    beginning: Sequence[str]
    """Where the rows' first elements lie."""
    first: str
    """The row that the strip begins at."""
    end: str
    """How many rows it has."""
    last: str
    """The row that the last vector begins at."""

    def slots(self, body: Callable[[str], None], together: int = 1) -> None:
        """body(slot) for every vector; for several together as one, with as many lanes, where they are whole."""

        def inside(slot: str, _: list[str]) -> list[str]:
            body(slot)
            return []

        narrow, whole = self.shape, "0"
        if together > 1:
            self.shape = narrow._replace(lanes=narrow.lanes * together)
            whole = self.text.new(f"and i64 {self.end}, {-self.shape.lanes}")
            self.loop("0", whole, self.shape.lanes, [], inside)
            self.shape = narrow
        self.loop(whole, self.end, self.shape.lanes, [], inside)

    def column(self, slot: str) -> str:
        """The row that a vector begins at."""
        text = self.text
        at = text.new(f"add i64 {self.first}, {slot}")
        is_inside = text.new(f"icmp slt i64 {at}, {self.last}")
        return text.new(f"select i1 {is_inside}, i64 {at}, i64 {self.last}")

    def hold(self, node: Expr, slot: str) -> str:
        """The place of a result."""
        return self.move(self.held[node], self.times(slot, self.held_width(node)))

    def align(self, node: Expr) -> int:
        """Of a node's vectors on the stack."""
        return min(self.shape.lanes * width_of(node), VECTOR)

    def load(self, node: Expr, slot: str) -> str:
        """A result so far."""
        if not self._is_long(node):
            place, vector = self.hold(node, slot), vector_of(node, self.shape.lanes)
            kept = self._bytes() if node.type is None else vector
            value = self.text.new(f"load {kept}, ptr {place}, align {self.align(node)}")
            return value if node.type is not None else self.text.new(f"trunc {kept} {value} to {vector}")
        wide, vector = self._wide(), vector_of(node, self.shape.lanes)
        return self.text.new(f"fptrunc {wide} {self._load_wide(node, slot)} to {vector}")

    def store(self, node: Expr, slot: str, value: str) -> None:
        """Keep a result; truth values a byte each, since several vectors may be read as one."""
        place, vector = self.hold(node, slot), vector_of(node, self.shape.lanes)
        if node.type is None:
            value, vector = self.text.new(f"zext {vector} {value} to {self._bytes()}"), self._bytes()
        if self._is_long(node):
            wide = self._wide()
            value, vector = self.text.new(f"fpext {vector} {value} to {wide}"), wide
        self.text.add(f"store {vector} {value}, ptr {place}, align {self.align(node)}")

    def combine(self, node: Expr, slot: str, value: str) -> None:
        """Fold more into a result so far."""
        text, lanes = self.text, self.shape.lanes
        if not self._is_long(node):
            self.store(node, slot, combine(text, node, self.load(node, slot), value, lanes))
            return
        wide, old = self._wide(), self._load_wide(node, slot)
        more = text.new(f"fpext {vector_of(node, lanes)} {value} to {wide}")
        total = text.new(f"fadd {wide} {old}, {more}")
        text.add(f"store {wide} {total}, ptr {self.hold(node, slot)}, align {self.align(node)}")

    def held_width(self, node: Expr) -> int:
        """The bytes of an element on the stack."""
        return 8 if self._is_long(node) else width_of(node)

    def _is_long(self, node: Expr) -> bool:
        """Whether a result is a sum of FLOAT32 of very many, which are added up in float64."""
        return node.op == "fold_sum" and node.type is DataType.FLOAT32 and self.shape.long

    def _bytes(self) -> str:
        return f"<{self.shape.lanes} x i8>"

    def _wide(self) -> str:
        return f"<{self.shape.lanes} x double>"

    def _load_wide(self, node: Expr, slot: str) -> str:
        return self.text.new(f"load {self._wide()}, ptr {self.hold(node, slot)}, align {self.align(node)}")

    def leaf(self, leaf: Expr, places: Sequence[str], column: str) -> str:
        """A number, or what is read of a view for the rows from one on."""
        lanes = self.shape.lanes
        if leaf in self.numbers:
            return self.text.spread(self.numbers[leaf], scalar_text(kind_of(leaf.type)), lanes)
        view = self.shape.leaves.index(leaf)
        return self.read(view, places[view], column, self.row_steps[view], lanes)

    def compute(self, roots: Sequence[Expr], slot: str, known: set[Expr]) -> list[str]:
        """The values that are the same for a whole row."""
        found: dict[Expr, str] = {}
        pending, column, seen = list(roots), self.column(slot), set()
        while pending:
            node = pending.pop()
            if node in seen or node.op == "const":
                continue
            seen.add(node)
            if node in known or node.op in FOLDS:
                found[node] = self.load(node, slot)
            elif node.op in LEAVES:
                found[node] = self.leaf(node, self.beginning, column)
            else:
                pending += node.args
        return self.tree(roots, found, self.shape.lanes)

    # Memory ahead

    def fetch_next(self, step: Pass, places: Sequence[str], column: str, count: int) -> None:
        """Ask for what is read next: further along the strip, or the rows' elements that are so many on."""
        for view in self.packed(step):
            is_run = self.shape.strip >= RUN
            on = self.move(places[view], str(AHEAD) if is_run else self.times(self.strides[-1][view], count))
            self._fetch_all(view, self.move(on, self.times(column, self.widths[view])))

    def fetch_targets(self, places: Sequence[str], column: str) -> None:
        """Ask for what is written next: a softmax along the second of 8 x 64 x 1,024 takes 0.70 ms so, not 0.79."""
        for view, _ in self.by_element:
            if self.shape.letters[view] == "p":
                on = self.move(places[view], self.strides[-1][view])
                self._fetch_all(view, self.move(on, self.times(column, self.widths[view])), to_write=True)

    def _fetch_all(self, view: int, place: str, *, to_write: bool = False) -> None:
        """Ask for the lines of a view's vector."""
        for on in range(0, self.shape.lanes * self.widths[view], LINE):
            self.text.fetch(self.move(place, str(on)) if on else place, is_written=to_write)


# Reduces whose vectors lie across the rows: a strip of rows is folded together, its results so far on the stack.
#
# A strip is a number of vectors, each with a place of its own on the stack. The last vector of the kernel's rows ends
# with them, and overlaps the one before, or rows before the kernel's own: what it computes of those is right, or made
# of elements that were written in place meanwhile, and not written again.


BESIDE = 8
"""Elements of a row that are folded before the strip's results so far are read and written, where they lie near: 512
KiB take 18 us, and 29 one by one. From far they come faster one row of memory after the other: 64 MiB in 3.9 ms, not
6.2 (one thread of an Arm Neoverse-N1)."""
BESIDE_WIDE = 2
"""Those that come from far, where a fold's type is wider: float64 sums of 64 MiB of float32 take 6.3 ms, not 8.3."""


def make_across(values: Sequence[Expr], shape: Shape) -> str:
    """The text of a reduce with vectors across the rows, with a value for each target."""
    return _Across(values, shape).make()


class _Across(Strip):
    def make(self) -> str:
        self.enter()
        lanes, strip, text = self.shape.lanes, self.shape.strip, self.text
        held = dict.fromkeys(node for step in self.passes for node in (*step.folds, *step.once))
        self.held = {node: text.new(f"alloca [{strip * self.held_width(node)} x i8], align 64") for node in held}
        targets = [*self.by_row, *self.by_element] if self.by_element else []
        self.parts = {view: text.new(f"alloca {vector_of(value, lanes)}, align 64") for view, value in targets}
        self.last = "0" if self.shape.masked else text.new(f"sub i64 %n, {lanes}")
        if self.shape.masked:
            counts = ", ".join(f"i32 {k}" for k in range(lanes))
            rows = text.spread(text.new("trunc i64 %n to i32"), "i32", lanes)
            self.mask = text.new(f"icmp ult <{lanes} x i32> <{counts}>, {rows}")
        self.beginning = self.started(self.places)
        self.loop("0", "%n", strip, [], self._strip)
        return self.finish()

    def _strip(self, first: str, _: list[str]) -> list[str]:
        text, strip = self.text, self.shape.strip
        left = text.new(f"sub i64 %n, {first}")
        is_last = text.new(f"icmp slt i64 {left}, {strip}")
        self.first, self.end = first, text.new(f"select i1 {is_last}, i64 {left}, i64 {strip}")
        known: set[Expr] = set()
        for step in self.passes:
            self._prepare(step, known)
            known.update((*step.folds, *step.once))
            if step.folds and self.shape.window and size_of(step) <= SMALL:
                self._fold_window(step)
                continue
            if not step.folds:
                self._write_rows(known)
            self._nest(self.places, functools.partial(self._fold if step.folds else self._write, step))
        if not self.by_element:
            self._write_rows(known)
        return []

    def _write_rows(self, known: set[Expr]) -> None:
        """The values for whole rows; before those of their elements, which may take the place of a source."""

        def body(slot: str) -> None:
            found, column = self.compute([value for _, value in self.by_row], slot, known), self.column(slot)
            if self.by_element:
                self._put(self.by_row, found, self.places, slot, column)
                return
            for (view, _), value in zip(self.by_row, found, strict=True):
                self.write(view, value, self.places[view], column, self.row_steps[view], self.shape.lanes)

        if self.by_row:
            self.slots(body)

    def _prepare(self, step: Pass, known: set[Expr]) -> None:
        """The values that a pass takes that are the same for a whole row, and the starts of its folds."""
        once = [node for node in step.once if node not in known]

        def body(slot: str) -> None:
            for node, value in zip(once, self.compute(once, slot, known), strict=True):
                self.store(node, slot, value)
            for fold in step.folds:
                self.store(fold, slot, identity(fold))

        if once or step.folds:
            self.slots(body)

    # The elements of rows

    def _nest(
        self, places: Sequence[str], body: Callable[[Sequence[str], str], None], dimension: int = 0, before: str = "0"
    ) -> None:
        """body(places, number) for every run of the innermost dimension."""
        if dimension == self.shape.rank - 1:
            body(places, self.times(before, self.sizes[-1]))
            return

        def inside(i: str, _: list[str]) -> list[str]:
            number = self.text.new(f"add i64 {self.times(before, self.sizes[dimension])}, {i}")
            self._nest(self.move_all(places, i, self.strides[dimension]), body, dimension + 1, number)
            return []

        self.loop("0", self.sizes[dimension], 1, [], inside)

    def _vectors(
        self, step: Pass, several: Sequence[Sequence[str]], numbers: Sequence[str], slot: str, column: str
    ) -> list[list[str]]:
        """A pass's roots, for elements of some numbers in the row, which lie at several places: computed as one."""
        text, lanes, count = self.text, self.shape.lanes, len(numbers)
        found: dict[Expr, str] = {}
        for leaf in step.leaves:
            if leaf.op != "const":
                found[leaf] = self._joined(leaf, [self.leaf(leaf, places, column) for places in several])
        for node in step.once:
            found[node] = self._joined(node, [self.load(node, slot)] * count)
        rows = [self.times(number, self.shape.strip) for number in numbers] if step.kept or step.keeps else []
        ons = [text.new(f"add i64 {row}, {slot}") for row in rows]

        def at(node: Expr, on: str) -> str:
            place = self.move(self.spaces[node], self.times(on, width_of(node)))
            return f"ptr {place}, align {self.align(node)}"

        for node in step.kept:
            kind = vector_of(node, lanes)
            found[node] = self._joined(node, [text.new(f"load {kind}, {at(node, on)}") for on in ons])
        values = self.tree([*step.keeps, *step.roots], found, lanes * count)
        for node in step.keeps:
            for k, on in enumerate(ons):
                part = self.part(node, found[node], k, lanes, count)
                text.add(f"store {vector_of(node, lanes)} {part}, {at(node, on)}")
        roots = list(zip(step.roots, values[len(step.keeps) :], strict=True))
        return [[self.part(root, value, k, lanes, count) for root, value in roots] for k in range(count)]

    def _joined(self, node: Expr, values: Sequence[str]) -> str:
        """Vectors of a power of two, one after the other in a wider one."""
        lanes = self.shape.lanes
        while len(values) > 1:
            kind, places = vector_of(node, lanes), ", ".join(f"i32 {k}" for k in range(2 * lanes))
            pairs = zip(values[::2], values[1::2], strict=True)
            mask = f"<{2 * lanes} x i32> <{places}>"
            values = [self.text.new(f"shufflevector {kind} {a}, {kind} {b}, {mask}") for a, b in pairs]
            lanes *= 2
        return values[0]

    def _at(self, places: Sequence[str], i: str) -> list[str]:
        """The places of the rows' elements of a number, those of lines that begin with each of them too."""
        return self.started(self.move_all(places, i, self.strides[-1]))

    def _fold(self, step: Pass, places: Sequence[str], number: str) -> None:
        text, beside = self.text, self._beside(step)
        size = self.sizes[-1]
        many = text.new(f"and i64 {size}, {-beside}")

        def fold(i: str, count: int) -> None:
            moved = [self._at(places, text.new(f"add i64 {i}, {k}") if k else i) for k in range(count)]
            numbers = [text.new(f"add i64 {number}, {text.new(f'add i64 {i}, {k}')}") for k in range(count)]
            self._fold_all(step, moved, numbers, is_fetched=self.shape.far)

        def by_many(i: str, _: list[str]) -> list[str]:
            fold(i, beside)
            return []

        def by_one(i: str, _: list[str]) -> list[str]:
            fold(i, 1)
            return []

        self.loop("0", many, beside, [], by_many)
        if beside > 1:
            self.loop(many, size, 1, [], by_one)

    def _fold_window(self, step: Pass) -> None:
        """All elements of the rows, side by side."""
        moved = []
        for place in itertools.product(*map(range, self.shape.window)):
            there: Sequence[str] = self.places
            for k, i in enumerate(place):
                there = self.move_all(there, str(i), self.strides[k]) if i else there
            moved.append(self.started(there))
        self._fold_all(step, moved, [str(number) for number in range(len(moved))], is_fetched=False)

    def _fold_all(
        self, step: Pass, moved: Sequence[Sequence[str]], numbers: Sequence[str], *, is_fetched: bool
    ) -> None:
        """Add elements of the rows, which lie at some places, to the strip's results so far."""
        text = self.text

        def body(slot: str) -> None:
            column = self.column(slot)
            for there in moved if is_fetched else []:
                self.fetch_next(step, there, column, len(moved))
            if self.shape.masked and size_of(step) > SMALL:
                new = self._vectors(step, moved, numbers, slot, column)
            else:
                each = zip(moved, numbers, strict=True)
                new = [self._vectors(step, [there], [at], slot, column)[0] for there, at in each]
            for k, one in enumerate(step.folds):
                value = combine_all(text, one, [values[k] for values in new], self.shape.lanes)
                self.combine(one, slot, value)

        self.slots(body, TOGETHER if self._is_wide(step) else 1)

    def _is_wide(self, step: Pass) -> bool:
        """Whether several vectors are computed as one: 8 x 64 x 1,024 take 0.70 ms so, and 1.15 one by one."""
        is_packed = {*self.shape.letters} <= {*"pr"} and not self.shape.masked
        return size_of(step) > SMALL and is_packed and has_feature("avx512f")

    def _beside(self, step: Pass) -> int:
        """The elements of a row that are folded side by side."""
        if size_of(step) > SMALL:
            return TOGETHER if self.shape.masked else 1
        widest = max((width_of(fold) for fold in step.folds), default=0)
        is_wide = any(self.widths[view] < widest for view in self.packed(step))
        return (BESIDE_WIDE if is_wide else 1) if self.shape.far else BESIDE

    def _write(self, step: Pass, places: Sequence[str], number: str) -> None:
        text = self.text
        hint = ", !nontemporal !0" if self.shape.stream else ""

        def write(i: str, count: int) -> list[str]:
            each = [text.new(f"add i64 {i}, {k}") if k else i for k in range(count)]
            moved = [self._at(places, one) for one in each]
            numbers = [text.new(f"add i64 {number}, {one}") for one in each]

            def body(slot: str) -> None:
                column = self.column(slot)
                if not (IS_ARM or self.shape.masked or self.shape.stream):
                    self.fetch_targets(moved[0], column)
                found = self._vectors(step, moved, numbers, slot, column)
                for values, there in zip(found, moved, strict=True):
                    self._put(self.by_element, values, there, slot, column, hint)

            self.slots(body)
            return []

        beside, size = TOGETHER if self.shape.masked and size_of(step) > SMALL else 1, self.sizes[-1]
        many = text.new(f"and i64 {size}, {-beside}")
        self.loop("0", many, beside, [], lambda i, _: write(i, beside))
        if beside > 1:
            self.loop(many, size, 1, [], lambda i, _: write(i, 1))

    def _put(
        self,
        targets: Sequence[tuple[int, Expr]],
        values: Sequence[str],
        places: Sequence[str],
        slot: str,
        column: str,
        hint: str = "",
    ) -> None:
        """Write vectors whole, or where rows before were written already, their last lanes."""
        text, lanes = self.text, self.shape.lanes
        if self.shape.masked:
            for (view, _), value in zip(targets, values, strict=True):
                self.write(view, value, places[view], column, self.row_steps[view], lanes)
            return
        own = text.new(f"sub i64 {self.end}, {slot}")
        is_whole = text.new(f"icmp sge i64 {own}, {lanes}")
        whole, part, done = (text.label(stem) for stem in ("whole", "part", "done"))
        text.add(f"br i1 {is_whole}, label %{whole}, label %{part}")
        text.open(whole)
        for (view, _), value in zip(targets, values, strict=True):
            self.write(view, value, places[view], column, self.row_steps[view], lanes, hint)
        text.add(f"br label %{done}")
        text.open(part)
        for (view, node), value in zip(targets, values, strict=True):
            place = f"ptr {self.parts[view]}, align {self.align(node)}"
            text.add(f"store {vector_of(node, lanes)} {value}, {place}")
            self._write_part(view, places[view], column, own)
        text.add(f"br label %{done}")
        text.open(done)

    def _write_part(self, view: int, place: str, column: str, own: str) -> None:
        """The last lanes of the vector in a target's part."""
        text, lanes, kind, width = self.text, self.shape.lanes, self.kinds[view], self.widths[view]

        def one(lane: str, _: list[str]) -> list[str]:
            source = self.move(self.parts[view], self.times(lane, width))
            element = text.new(f"load {kind}, ptr {source}, align 1")
            row = text.new(f"add i64 {column}, {lane}")
            target = self.move(place, self.times(row, self.row_steps[view]))
            text.add(f"store {kind} {element}, ptr {target}, align 1")
            return []

        self.loop(text.new(f"sub i64 {lanes}, {own}"), str(lanes), 1, [], one)

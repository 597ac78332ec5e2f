"""Reductions with vectors along the row: each pass folds by several vectors, whose lanes are folded at its end; and the
early exit of ARGMAX and its kin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.codegen.expressions import kind_of, number_text, scalar_text
from anydml.engines.cpu.features import IS_ARM, has_feature
from anydml.engines.cpu.rows.reduce_kernel import (
    SMALL,
    TOGETHER,
    VECTOR,
    Writer,
    across,
    combine,
    combine_all,
    finds_nan,
    identity,
    lanes_of,
    size_of,
    vector_of,
    width_of,
)
from anydml.ir.expressions import FOLDS
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.engines.cpu.rows.reduce_kernel import Shape
    from anydml.ir.expressions import Expr
    from anydml.ir.row_passes import Pass

# The number of a row's first element that meets a condition, as ARGMAX has it: nothing is read after that.


AT_ONCE, MOST = 4, 64
"""Vectors that are looked at before one decides, and their lanes at most, which are bits of a word then."""
LEAST = 8
"""Lanes of a vector at least."""


def is_first(writer: Writer, step: Pass) -> bool:
    """Whether a pass finds such a number alone: the least of numbers that grow along the row, or more than all."""
    if len(step.folds) != 1 or step.keeps or step.kept or writer.shape.rank != 1 or writer.shape.lanes < LEAST:
        return False
    (fold,), (root,) = step.folds, step.roots
    if fold.op != "fold_min" or root.op != "where" or root.args[2].op != "const":
        return False
    nodes = list(walk(root.args[1]))
    grows = all(
        node.op in ("coordinate", "add", "mul") or (node.op == "const" and float(node.value) >= 0) for node in nodes
    )
    varying = [leaf for leaf in step.leaves if writer.varies(leaf)]
    are_packed = all(writer.shape.letters[writer.shape.leaves.index(leaf)] == "p" for leaf in varying)
    return grows and are_packed and any(leaf in nodes for leaf in varying)


def wide_of(lanes: int) -> int:
    """The lanes of several vectors."""
    return min(lanes * AT_ONCE, MOST)


def write_first(
    writer: Writer, step: Pass, lanes: int, read: Callable[[Expr, str, int], str], same: dict[int, dict[Expr, str]]
) -> str:
    """Look at some vectors, then at one at a time; the last overlaps the one before. The number, in one lane.

    `read` gives a leaf's vector at an index; `same` what is the same for the whole row, by lanes.
    """
    text, size = writer.text, writer.sizes[-1]
    (root,) = step.roots
    condition, number, none = root.args
    kind = vector_of(number, 1)
    done = text.label("done")
    found: list[tuple[str, str]] = []
    """The numbers found, and the blocks that they come from."""

    def leaves(node: Expr, i: str, lanes: int) -> dict[Expr, str]:
        parts = set(walk(node, known=same[lanes]))
        varying = [leaf for leaf in step.leaves if leaf in parts and writer.varies(leaf)]
        return {**same[lanes], **{leaf: read(leaf, i, lanes) for leaf in varying}}

    def look(begin: str, end: str, lanes: int) -> None:
        head, hit, latch, after = (text.label(stem) for stem in ("look", "hit", "latch", "after"))
        before, i = text.block, f"%i.{head}"
        guard = text.new(f"icmp slt i64 {begin}, {end}")
        text.add(f"br i1 {guard}, label %{head}, label %{after}")
        text.open(head)
        at = len(text.lines)
        (mask,) = writer.tree([condition], leaves(condition, i, lanes), lanes)
        bits = text.new(f"bitcast <{lanes} x i1> {mask} to i{lanes}")
        is_any = text.new(f"icmp ne i{lanes} {bits}, 0")
        text.add(f"br i1 {is_any}, label %{hit}, label %{latch}")
        text.open(latch)
        following = text.new(f"add i64 {i}, {lanes}")
        again = text.new(f"icmp slt i64 {following}, {end}")
        text.add(f"br i1 {again}, label %{head}, label %{after}")
        text.lines.insert(at, f"{i} = phi i64 [ {begin}, %{before} ], [ {following}, %{latch} ]")
        text.open(hit)
        text.declared[f"declare i{lanes} @llvm.cttz.i{lanes}(i{lanes}, i1)"] = None
        first = text.new(f"call i{lanes} @llvm.cttz.i{lanes}(i{lanes} {bits}, i1 true)")
        first = first if lanes == 64 else text.new(f"zext i{lanes} {first} to i64")
        place = text.new(f"add i64 {i}, {first}")
        (value,) = writer.tree([number], leaves(number, place, 1), 1)
        found.append((value, text.block))
        text.add(f"br label %{done}")
        text.open(after)

    wide = wide_of(lanes)
    many, whole = (text.new(f"and i64 {size}, {-each}") for each in (wide, lanes))
    look("0", many, wide)
    look(many, whole, lanes)
    last = text.new(f"sub i64 {size}, {lanes}")
    is_over = text.new(f"icmp slt i64 {whole}, {size}")
    end = text.new(f"select i1 {is_over}, i64 {size}, i64 {last}")
    look(last, end, lanes)
    found.append((f"splat ({kind[5:-1]} {number_text(none.value, kind_of(none.type))})", text.block))
    text.add(f"br label %{done}")
    text.open(done)
    return text.new(f"phi {kind} " + ", ".join(f"[ {value}, %{block} ]" for value, block in found))


# Reduces whose vectors lie along the row: each pass folds by several vectors, whose lanes become one at its end.
#
# A row is at least as long as a vector. What is left at its end is taken by a vector that overlaps the last whole one:
# its lanes that were there before are not folded again. In the pass that writes, it is computed first and written last:
# in place, every element is read before it is written.


BESIDE = 2 if IS_ARM else 4
"""Vectors folded side by side, so that 4 additions or more are under way: they are 4 registers of an Arm's, or less."""
BLOCK = 2048
"""Elements of a long row that are folded for themselves: their sum is as precise as a short row's."""


def make_along(values: Sequence[Expr], shape: Shape) -> str:
    """The text of a reduce with vectors along the rows, with a value for each target."""
    return _Along(values, shape).make()


class _Along(Writer):
    def make(self) -> str:
        folds = [fold for step in self.passes for fold in step.folds]
        self._finds_nan = {fold: finds_nan(fold, self.values) for fold in folds}
        self._is_busy = any(size_of(step) > SMALL for step in self.passes if step.folds)
        """Whether a pass that folds keeps the CPU busy, and asks for memory meanwhile."""
        self.enter()
        self.loop("0", "%n", 1, [], self._row)
        return self.finish()

    def _row(self, row: str, _: list[str]) -> list[str]:
        places = self.started(self.move_all(self.places, row, self.row_steps))
        self.once: dict[Expr, str] = {}
        """The values that are the same for the whole row, in vectors of one lane."""
        for step in self.passes:
            if is_first(self, step):
                self._find_first(step, places)
                continue
            lanes = lanes_of(step, self.shape.lanes)
            found = self._same(step, places, lanes)
            if step.folds:
                self._fold(step, places, found, lanes)
            else:
                self._write_rows(places)
                self._write(step, places, found, lanes)
        if not self.by_element:
            self._write_rows(places)
        return []

    def _write_rows(self, places: Sequence[str]) -> None:
        """The values for the whole row; before those of its elements, which may take the place of a source."""
        computed = self._compute([node for _, node in self.by_row], places)
        for (view, _node), value in zip(self.by_row, computed, strict=True):
            self.write(view, value, places[view], "0", "0", 1)

    def _compute(self, roots: Sequence[Expr], places: Sequence[str]) -> list[str]:
        """The values that are the same for the whole row."""
        pending, seen = list(roots), set()
        while pending:
            node = pending.pop()
            if node not in self.once and node not in seen and node.op not in FOLDS:
                seen.add(node)  # a tree has 2ⁿ ways through n nodes that each name the one before twice
                pending += node.args
                if node.op != "fetch" and node in self.shape.leaves:
                    view = self.shape.leaves.index(node)
                    self.once[node] = self.one(view, places[view])
                elif node in self.given:
                    self.once[node] = self.text.spread(self.numbers[node], scalar_text(kind_of(node.type)), 1)
        return self.tree(roots, self.once, 1)

    def _same(self, step: Pass, places: Sequence[str], lanes: int) -> dict[Expr, str]:
        """The vectors of what a pass takes that is the same for the whole row."""
        same = [leaf for leaf in step.leaves if leaf.op != "const" and not self.varies(leaf)] + step.once
        self._compute(same, places)
        return {node: self.spread(node, self.once[node], lanes) for node in same}

    def _vectors(
        self, step: Pass, places: Sequence[str], spaces: dict[Expr, str], same: dict[Expr, str], i: str, lanes: int
    ) -> tuple[list[str], list[str]]:
        """A pass's roots at an index, and what is to be kept."""
        text, found = self.text, dict(same)
        for leaf in step.leaves:
            if self.varies(leaf):
                view = self.shape.leaves.index(leaf)
                found[leaf] = self.read(view, places[view], i, self.strides[-1][view], lanes)
        for node in step.kept:
            at = self.move(spaces[node], self.times(i, width_of(node)))
            found[node] = text.new(f"load {vector_of(node, lanes)}, ptr {at}, align 1")
        keeps = self.tree(step.keeps, found, lanes)
        return self.tree(step.roots, found, lanes), keeps

    def _keep(self, step: Pass, spaces: dict[Expr, str], i: str, values: Sequence[str], lanes: int) -> None:
        for node, value in zip(step.keeps, values, strict=True):
            at = self.move(spaces[node], self.times(i, width_of(node)))
            self.text.add(f"store {vector_of(node, lanes)} {value}, ptr {at}, align 1")

    def _nest(
        self,
        places: Sequence[str],
        carried: Sequence[tuple[str, str]],
        body: Callable[[Sequence[str], dict[Expr, str], list[str]], list[str]],
        dimension: int = 0,
        before: str = "0",
    ) -> list[str]:
        """body(places, spaces, values) for every run of the innermost dimension."""
        if dimension == self.shape.rank - 1:
            on = self.times(before, self.sizes[-1])
            spaces = {node: self.move(space, self.times(on, width_of(node))) for node, space in self.spaces.items()}
            spaces |= {node: places[view] for node, view in self.early.items()}
            if self.shape.keep == "target":
                spaces = {node: places[-1] for step in self.passes for node in step.keeps}
            return body(places, spaces, [value for _, value in carried])

        def inside(i: str, values: list[str]) -> list[str]:
            moved = self.move_all(places, i, self.strides[dimension])
            number = self.text.new(f"add i64 {self.times(before, self.sizes[dimension])}, {i}")
            kinds = [kind for kind, _ in carried]
            return self._nest(moved, list(zip(kinds, values, strict=True)), body, dimension + 1, number)

        return self.loop("0", self.sizes[dimension], 1, carried, inside)

    def _find_first(self, step: Pass, places: Sequence[str]) -> None:
        def read(leaf: Expr, i: str, lanes: int) -> str:
            view = self.shape.leaves.index(leaf)
            return self.read(view, places[view], i, self.strides[-1][view], lanes)

        ((condition, *_),) = (root.args for root in step.roots)
        lanes = min(self.shape.lanes, VECTOR // max(map(width_of, walk(condition, known=step.once))))
        same = {each: self._same(step, places, each) for each in (1, lanes, wide_of(lanes))}
        self.once[step.folds[0]] = write_first(self, step, lanes, read, same)

    def _split(self, lanes: int) -> tuple[str, str, str]:
        """Elements of whole vectors, where the last vector begins, and the elements that it adds."""
        text, size = self.text, self.sizes[-1]
        over = text.new(f"and i64 {size}, {lanes - 1}")
        return text.new(f"sub i64 {size}, {over}"), text.new(f"sub i64 {size}, {lanes}"), over

    def _fold(self, step: Pass, places: Sequence[str], same: dict[Expr, str], lanes: int) -> None:
        text, is_busy = self.text, size_of(step) > SMALL
        is_written = self._is_before_writing(step) and not self.shape.stream
        is_wide = is_busy and self._is_packed(step) and has_feature("avx512f")
        beside = (TOGETHER if is_wide else 1) if is_busy else BESIDE
        all_same = self._same(step, places, lanes * beside) if is_wide else {}
        whole, last, over = self._split(lanes)
        kinds = [vector_of(fold, lanes) for fold in step.folds] * beside
        many = text.new(f"and i64 {whole}, {-lanes * beside}")
        starts = [identity(fold) for fold in step.folds] * beside

        def run(places: Sequence[str], spaces: dict[Expr, str], values: list[str]) -> list[str]:
            def ask(i: str) -> None:
                if is_busy or self._is_near(step):
                    self._fetch_next(step, places, i)
                if is_busy or is_written:
                    self._fetch_targets(places, i)

            def fold(i: str, so_far: Sequence[str]) -> list[str]:
                ask(i)
                new, keeps = self._vectors(step, places, spaces, same, i, lanes)
                self._keep(step, spaces, i, keeps, lanes)
                return [self._combine(f, a, b, lanes) for f, a, b in zip(step.folds, so_far, new, strict=True)]

            def side_by_side(i: str, so_far: list[str]) -> list[str]:
                found: list[str] = []
                for k in range(beside):
                    at = text.new(f"add i64 {i}, {k * lanes}") if k else i
                    found += fold(at, so_far[k * len(step.folds) : (k + 1) * len(step.folds)])
                return found

            def together(i: str, so_far: list[str]) -> list[str]:
                for k in range(beside):
                    ask(text.new(f"add i64 {i}, {k * lanes}") if k else i)
                new, keeps = self._vectors(step, places, spaces, all_same, i, lanes * beside)
                self._keep(step, spaces, i, keeps, lanes * beside)
                folds = list(zip(step.folds, new, strict=True))
                parts = [self.part(f, value, k, lanes, beside) for k in range(beside) for f, value in folds]
                return [self._combine(*each, lanes) for each in zip(step.folds * beside, so_far, parts, strict=True)]

            def end(_: str, so_far: list[str]) -> list[str]:
                new, keeps = self._vectors(step, places, spaces, same, last, lanes)
                counts = ", ".join(f"i32 {k}" for k in range(lanes))
                first = text.spread(text.new(f"trunc i64 {text.new(f'sub i64 {lanes}, {over}')} to i32"), "i32", lanes)
                is_new = text.new(f"icmp sge <{lanes} x i32> <{counts}>, {first}")
                found = []
                for f, a, b in zip(step.folds, so_far[:count], new, strict=True):
                    kind = vector_of(f, lanes)
                    rest = text.new(f"select <{lanes} x i1> {is_new}, {kind} {b}, {kind} {identity(f)}")
                    found.append(self._combine(f, a, rest, lanes))
                return [*found, *keeps]

            def keep_end(_i: str, _: list[str]) -> list[str]:
                self._keep(step, spaces, last, kept, lanes)
                return []

            def block(i: str, so_far: list[str]) -> list[str]:
                left = text.new(f"sub i64 {many}, {i}")
                is_last = text.new(f"icmp slt i64 {left}, {BLOCK}")
                after = text.new(f"select i1 {is_last}, i64 {many}, i64 {text.new(f'add i64 {i}, {BLOCK}')}")
                new = self.loop(i, after, lanes * beside, list(zip(kinds, starts, strict=True)), vectors)
                return [self._combine(*pair, lanes) for pair in zip(step.folds * beside, so_far, new, strict=True)]

            def finish(values: list[str]) -> tuple[list[str], list[str]]:
                none = [(vector_of(node, lanes), "zeroinitializer") for node in step.keeps]
                found = self.loop("0", over, lanes, [*zip(kinds[:count], values[:count], strict=True), *none], end)
                return [*found[:count], *values[count:]], found[count:]

            vectors = together if is_wide else side_by_side
            count, kept = len(step.folds), list[str]()
            if lanes > 1 and step.keeps:  # what is kept may take the place of what is read
                values, kept = finish(values)
            by_vector, by_block = (lanes * beside, vectors), (BLOCK, block)
            size, body = by_block if self.shape.long else by_vector
            values = self.loop("0", many, size, list(zip(kinds, values, strict=True)), body)
            if beside > 1:
                one = list(zip(kinds[:count], values[:count], strict=True))
                values = [*self.loop(many, whole, lanes, one, fold), *values[count:]]
            if lanes > 1 and not step.keeps:  # memory is read from the first to the last: 4 MiB in 125 us, not in 170
                values, _ = finish(values)
            if kept:
                self.loop("0", over, lanes, [], keep_end)
            return values

        values = self._nest(places, list(zip(kinds, starts, strict=True)), run)
        for k, fold in enumerate(step.folds):
            is_found = self._finds_nan[fold]
            value = combine_all(text, fold, values[k :: len(step.folds)], lanes, finds_nan=is_found)
            self.once[fold] = across(text, fold, value, lanes, finds_nan=is_found)

    def _is_packed(self, step: Pass) -> bool:
        """Whether all that a pass reads along the row lies side by side."""
        views = [self.shape.leaves.index(leaf) for leaf in step.leaves if self.varies(leaf)]
        return all(self.shape.letters[view] == "p" for view in views)

    def _combine(self, fold: Expr, a: str, b: str, lanes: int) -> str:
        return combine(self.text, fold, a, b, lanes, finds_nan=self._finds_nan[fold])

    # While the CPU is busy, or reads what is near, it asks for lines of memory. A softmax of 4 MiB takes 1.6 ms so, 1.9
    # without the target's, and 2.0 without either; a layer norm of 16 MiB 3.9 ms, and 4.3 without; an RMS norm of 4 MiB
    # 0.54 ms, 0.56 without the target's, and 0.65 without either. A layer norm of 1,024 x 1,000 takes 0.58 ms, and 0.73
    # without the target's (a Xeon).

    def _is_near(self, step: Pass) -> bool:
        """Whether a pass is the first that reads a row again."""
        return bool(self.by_element) and self.passes.index(step) == 1 and not self._is_busy

    def _is_before_writing(self, step: Pass) -> bool:
        """Whether the next pass writes."""
        return bool(self.by_element) and self.passes[-2] is step

    def _fetch_next(self, step: Pass, places: Sequence[str], i: str) -> None:
        """Ask for the next row."""
        for view in self.packed(step):
            self.text.fetch(self.move(self.move(places[view], self.row_steps[view]), self.times(i, self.widths[view])))

    def _fetch_targets(self, places: Sequence[str], i: str) -> None:
        """Ask for what is written soon."""
        for view, _ in self.by_element:
            if self.shape.letters[view] == "p":
                self.text.fetch(self.move(places[view], self.times(i, self.widths[view])), is_written=True)

    def _write(self, step: Pass, places: Sequence[str], same: dict[Expr, str], lanes: int) -> None:
        whole, last, over = self._split(lanes)
        hint = ", !nontemporal !0" if self.shape.stream and not self._is_busy else ""
        kinds = [(vector_of(value, lanes), "zeroinitializer") for _, value in self.by_element]

        def run(places: Sequence[str], spaces: dict[Expr, str], _: list[str]) -> list[str]:
            def compute(i: str) -> list[str]:
                return self._vectors(step, places, spaces, same, i, lanes)[0]

            def put(values: Sequence[str], i: str, hint: str = "") -> None:
                for (view, _), value in zip(self.by_element, values, strict=True):
                    self.write(view, value, places[view], i, self.strides[-1][view], lanes, hint)

            def write(i: str, _: list[str]) -> list[str]:
                if self._is_near(step):
                    self._fetch_next(self.passes[0], places, i)
                put(compute(i), i, hint)
                return []

            def write_end(_i: str, _: list[str]) -> list[str]:
                put(rest, last)
                return []

            if lanes > 1:
                rest = self.loop("0", over, lanes, kinds, lambda _i, _: compute(last))
            self.loop("0", whole, lanes, [], write)
            if lanes > 1:
                self.loop("0", over, lanes, [], write_end)
            return []

        self._nest(places, [], run)

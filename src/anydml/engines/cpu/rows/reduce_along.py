"""Reductions with vectors along the row, softmax and layer normalisation among them: each pass folds by several
vectors, whose lanes are folded at its end; and the early exit of ARGMAX and its kin.

A softmax is three passes of `_row`: `_fold` finds the largest element; `_fold` adds up the exponentials, and keeps them
on the stack where a row fits; `_write` multiplies them with the sum's reciprocal. `find_passes` of `ir/row_passes.py`
says which passes there are.

A row is at least as long as a vector. What is left at its end is taken by a vector that overlaps the last whole one:
its lanes that were there before are not folded again. In the pass that writes, it is computed first and written last:
in place, every element is read before it is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.codegen.expressions import vector_type
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.rows.reduce_kernel import (
    Writer,
    across,
    combine,
    combine_all,
    finds_nan,
    identity,
    lanes_of,
    size_of,
    width_of,
)
from anydml.ir.expressions import FOLDS
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.rows.reduce_kernel import ReduceShape
    from anydml.ir.expressions import Expr
    from anydml.ir.row_passes import Pass

BLOCK = 2048
"""Elements of a long row that are folded for themselves: their sum is as precise as a short row's."""
AT_ONCE, MOST = 4, 64
"""Vectors that are looked at before one decides, and their lanes at most, which are bits of a word then."""
LEAST = 8
"""Lanes of a vector at least that is looked at so."""


def make_along(values: Sequence[Expr], shape: ReduceShape) -> str:
    """The text of a reduce with vectors along the rows, with a value for each target."""
    return _Along(values, shape).make()


class _Along(Writer):
    def make(self) -> str:
        folds = [fold for step in self.passes for fold in step.folds]
        self._finds_nan = {fold: finds_nan(fold, self.values) for fold in folds}
        self._is_busy = any(size_of(step) > figures().reduce.few_operations for step in self.passes if step.folds)
        """Whether a pass that folds keeps the CPU busy, and asks for memory meanwhile."""
        with self.f.rotated_loop(0, self.count) as row:
            self._row(self.started(self.move_all(self.places, row, self.row_steps)))
        return self.f.end()

    def _row(self, places: Sequence[Value]) -> None:
        self.once: dict[Expr, str] = {}
        """The values that are the same for the whole row, in vectors of one lane."""
        for step in self.passes:
            if self._is_first(step):
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

    def _write_rows(self, places: Sequence[Value]) -> None:
        """The values for the whole row; before those of its elements, which may take the place of a source."""
        computed, zero = self._compute([node for _, node in self.by_row], places), self.f.value(0, "i64")
        for (view, _node), value in zip(self.by_row, computed, strict=True):
            self.write(view, value, places[view], zero, zero)

    def _compute(self, roots: Sequence[Expr], places: Sequence[Value]) -> list[Value]:
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
                    self.once[node] = self.f.splat(self.numbers[node], 1)
        return self.tree(roots, self.once, 1)

    def _same(self, step: Pass, places: Sequence[Value], lanes: int) -> dict[Expr, str]:
        """The vectors of what a pass takes that is the same for the whole row."""
        same = [leaf for leaf in step.leaves if leaf.op != "const" and not self.varies(leaf)] + step.once
        values = self._compute(same, places)
        return {node: self.f.shuffle(one, None, [0] * lanes) for node, one in zip(same, values, strict=True)}

    def _leaves(self, leaves: Iterable[Expr], places: Sequence[Value], i: Value, lanes: int) -> dict[Expr, str]:
        """The vectors at an index of leaves that vary along the row."""
        views = {leaf: self.shape.leaves.index(leaf) for leaf in leaves if self.varies(leaf)}
        return {leaf: self.read(v, places[v], i, self.strides[-1][v], lanes) for leaf, v in views.items()}

    def _vectors(
        self,
        step: Pass,
        places: Sequence[Value],
        spaces: dict[Expr, Value],
        same: dict[Expr, str],
        i: Value,
        lanes: int,
    ) -> tuple[list[Value], list[Value]]:
        """A pass's roots at an index, and what is to be kept."""
        found = same | self._leaves(step.leaves, places, i, lanes)
        for node in step.kept:
            found[node] = self.f.load(vector_type(node, lanes), spaces[node] + i * width_of(node), align=1)
        keeps = self.tree(step.keeps, found, lanes)
        return self.tree(step.roots, found, lanes), keeps

    def _keep(self, step: Pass, spaces: dict[Expr, Value], i: Value, values: Sequence[Value]) -> None:
        for node, value in zip(step.keeps, values, strict=True):
            self.f.store(value, spaces[node] + i * width_of(node), align=1)

    def _spaces(self, places: Sequence[Value], on: Value) -> dict[Expr, Value]:
        """Where what is kept of a run lies, whose first element has a number."""
        if self.shape.keep == "target":
            return {node: places[-1] for step in self.passes for node in step.keeps}
        spaces = {node: space + on * width_of(node) for node, space in self.spaces.items()}
        return spaces | {node: places[view] for node, view in self.early.items()}

    def _split(self, lanes: int) -> tuple[Value, Value, Value]:
        """Elements of whole vectors, where the last vector begins, and the elements that it adds."""
        size = self.sizes[-1]
        over = size & (lanes - 1)
        return size - over, size - lanes, over

    def _fold(self, step: Pass, places: Sequence[Value], same: dict[Expr, str], lanes: int) -> None:
        f, count, is_busy = self.f, len(step.folds), size_of(step) > figures().reduce.few_operations
        is_written = self._is_before_writing(step) and not self.shape.stream
        of = figures().reduce
        is_wide = is_busy and self._is_packed(step) and of.vectors_at_once > 1
        beside = (of.vectors_at_once if is_wide else 1) if is_busy else of.folded_along
        all_same = self._same(step, places, lanes * beside) if is_wide else {}
        whole, last, over = self._split(lanes)
        many = whole & (-lanes * beside)
        starts = [f.value(identity(fold), vector_type(fold, lanes)) for fold in step.folds] * beside
        folded = list(starts)

        with self.nest(places, folded) as (there, number):
            spaces = self._spaces(there, number)

            def ask(i: Value) -> None:
                if is_busy or self._is_near(step):
                    self._fetch_next(step, there, i)
                if is_busy or is_written:
                    self._fetch_targets(there, i)

            def fold(i: Value, so_far: Sequence[Value]) -> list[Value]:
                ask(i)
                new, keeps = self._vectors(step, there, spaces, same, i, lanes)
                self._keep(step, spaces, i, keeps)
                return self._combine(step, so_far, new, lanes)

            def fold_many(i: Value, so_far: Sequence[Value]) -> list[Value]:
                if not is_wide:
                    each = (fold(i + k * lanes, so_far[k * count : (k + 1) * count]) for k in range(beside))
                    return [one for several in each for one in several]
                for k in range(beside):
                    ask(i + k * lanes)
                new, keeps = self._vectors(step, there, spaces, all_same, i, lanes * beside)
                self._keep(step, spaces, i, keeps)
                parts = [self.part(value, k, beside) for k in range(beside) for value in new]
                return self._combine(step, so_far, parts, lanes)

            def fold_last() -> list[Value]:
                """The last vector's new lanes; what of it is to be kept."""
                some = [*folded[:count], *(f.zero(vector_type(node, lanes)) for node in step.keeps)]
                with f.rotated_loop(0, over, lanes, carry=some):
                    new, keeps = self._vectors(step, there, spaces, same, last, lanes)
                    first = f.splat(f.cast("trunc", lanes - over, "i32"), lanes)
                    is_new = f.vector("i32", range(lanes)) >= first
                    rest = (f.select(is_new, *pair) for pair in zip(new, starts[:count], strict=True))
                    some[:] = [*self._combine(step, some[:count], rest, lanes), *keeps]
                folded[:count] = some[:count]
                return some[count:]

            kept = fold_last() if lanes > 1 and step.keeps else []  # which may take the place of what is read
            if self.shape.long:
                with f.rotated_loop(0, many, BLOCK, carry=folded) as i:
                    block, after = list(starts), f.select(many - i < BLOCK, many, i + BLOCK)
                    with f.rotated_loop(i, after, lanes * beside, carry=block) as j:
                        block[:] = fold_many(j, block)
                    folded[:] = self._combine(step, folded, block, lanes)
            else:
                with f.rotated_loop(0, many, lanes * beside, carry=folded) as i:
                    folded[:] = fold_many(i, folded)
            if beside > 1:
                one = folded[:count]
                with f.rotated_loop(many, whole, lanes, carry=one) as i:
                    one[:] = fold(i, one)
                folded[:count] = one
            if lanes > 1 and not step.keeps:  # memory is read from the first to the last: 4 MiB in 125 us, not in 170
                fold_last()
            if kept:
                with f.rotated_loop(0, over, lanes):
                    self._keep(step, spaces, last, kept)

        for k, one_fold in enumerate(step.folds):
            is_found = self._finds_nan[one_fold]
            value = combine_all(f, one_fold, folded[k::count], lanes, finds_nan=is_found)
            self.once[one_fold] = across(f, one_fold, value, finds_nan=is_found)

    def _is_packed(self, step: Pass) -> bool:
        """Whether all that a pass reads along the row lies side by side."""
        views = [self.shape.leaves.index(leaf) for leaf in step.leaves if self.varies(leaf)]
        return all(self.shape.letters[view] == "p" for view in views)

    def _combine(self, step: Pass, a: Sequence[Value], b: Iterable[Value], lanes: int) -> list[Value]:
        """Vectors of each fold, or of several of each, with others."""
        folds = step.folds * (len(a) // len(step.folds))
        each = zip(folds, a, b, strict=True)
        return [combine(self.f, fold, x, y, lanes, finds_nan=self._finds_nan[fold]) for fold, x, y in each]

    # The number of a row's first element that meets a condition, as ARGMAX has it: nothing is read after that.

    def _is_first(self, step: Pass) -> bool:
        """Whether a pass finds such a number alone: the least of numbers that grow along the row, or more than all."""
        if len(step.folds) != 1 or step.keeps or step.kept or self.shape.rank != 1 or self.shape.lanes < LEAST:
            return False
        (fold,), (root,) = step.folds, step.roots
        if fold.op != "fold_min" or root.op != "where" or root.args[2].op != "const":
            return False
        nodes = list(walk(root.args[1]))
        grows = all(
            node.op in ("coordinate", "add", "mul") or (node.op == "const" and float(node.value) >= 0) for node in nodes
        )
        return grows and self._is_packed(step) and any(leaf in nodes for leaf in step.leaves if self.varies(leaf))

    def _find_first(self, step: Pass, places: Sequence[Value]) -> None:
        """Look at some vectors, then at one at a time; the last overlaps the one before."""
        f, size, (condition, number, none) = self.f, self.sizes[-1], step.roots[0].args
        widest = max(map(width_of, walk(condition, known=step.once)))
        lanes = min(self.shape.lanes, figures().rows.vector_bytes // widest)
        wide = min(lanes * AT_ONCE, MOST)
        same = {each: self._same(step, places, each) for each in (1, lanes, wide)}
        nothing = f.value(none.value, vector_type(number, 1))
        found = [nothing]

        def compute(node: Expr, i: Value, lanes: int) -> Value:
            parts = set(walk(node, known=same[lanes]))
            leaves = (leaf for leaf in step.leaves if leaf in parts)
            return self.tree([node], same[lanes] | self._leaves(leaves, places, i, lanes), lanes)[0]

        def look(start: Value, stop: Value, each: int) -> None:
            with f.rotated_loop(start, stop, each) as i:
                bits = f.bitcast(compute(condition, i, each), f"i{each}")
                with f.when(bits.ne(0)):
                    first = f.intrinsic(f"cttz.i{each}", bits, f.value(1, "i1"))
                    found[0] = compute(number, i + f.cast("zext", first, "i64"), 1)
                    leave()

        with f.region(carry=found) as leave:
            many, whole = size & -wide, size & -lanes
            look(f.value(0, "i64"), many, wide)
            look(many, whole, lanes)
            last = size - lanes
            look(last, f.select(whole < size, size, last), lanes)
            found[0] = nothing
        self.once[step.folds[0]] = found[0]

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

    def _fetch_next(self, step: Pass, places: Sequence[Value], i: Value) -> None:
        """Ask for the next row."""
        for view in self.packed(step):
            self.f.prefetch(places[view] + self.row_steps[view] + i * self.widths[view])

    def _fetch_targets(self, places: Sequence[Value], i: Value) -> None:
        """Ask for what is written soon."""
        for view, _ in self.by_element:
            if self.shape.letters[view] == "p":
                self.f.prefetch(places[view] + i * self.widths[view], is_written=True)

    def _write(self, step: Pass, places: Sequence[Value], same: dict[Expr, str], lanes: int) -> None:
        f, (whole, last, over) = self.f, self._split(lanes)
        is_streamed = self.shape.stream and not self._is_busy
        with self.nest(places) as (there, number):
            spaces = self._spaces(there, number)

            def put(values: Sequence[Value], i: Value, *, is_streamed: bool = False) -> None:
                for (view, _), value in zip(self.by_element, values, strict=True):
                    self.write(view, value, there[view], i, self.strides[-1][view], is_streamed=is_streamed)

            rest = [f.zero(vector_type(value, lanes)) for _, value in self.by_element]
            if lanes > 1:
                with f.rotated_loop(0, over, lanes, carry=rest):
                    rest[:] = self._vectors(step, there, spaces, same, last, lanes)[0]
            with f.rotated_loop(0, whole, lanes) as i:
                if self._is_near(step):
                    self._fetch_next(self.passes[0], there, i)
                put(self._vectors(step, there, spaces, same, i, lanes)[0], i, is_streamed=is_streamed)
            if lanes > 1:
                with f.rotated_loop(0, over, lanes):
                    put(rest, last)

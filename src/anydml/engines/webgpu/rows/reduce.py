"""Reductions: an invocation a row, or a workgroup a row, in as many passes over it as folds depend on one another.

A fold of pairs (64-bit integers, double-floats) has two accumulators, which `ir.legalise.combine` goes on with.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.engines.webgpu.codegen.walks import TYPES, Leaves, compute, places, take_apart
from anydml.engines.webgpu.codegen.wgsl import WGSL, Body
from anydml.engines.webgpu.launch import LANES, KernelProgram
from anydml.engines.webgpu.move.checks import checked, guard
from anydml.ir.expressions import FOLDS, Expr, const, maximum, minimum
from anydml.ir.legalise import combine, legalise
from anydml.ir.loops import Loops, simplify
from anydml.ir.row_passes import levels_of, neutral, varies_along_row
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.common.program import Program
    from anydml.engines.webgpu.launch import Kernel
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.verbs import Reduce
    from anydml.ir.views import View

F32, I32, U32 = DataType.FLOAT32, DataType.INT32, DataType.UINT32
SHORT = 128
"""Elements of a row that one invocation folds; longer rows take a workgroup each, unless there are many of columns."""
MANY = 4096
"""Columns that keep a device busy with one invocation each. Rows of 1,024 in that way take 27 times as long as
PyTorch's softmax (H200): neighbouring invocations read lines of memory far apart."""


def plan_reduce(verb: Reduce, memory: Memory) -> Program:
    """Its kernel; one that is checked has an invocation a row, since a barrier may not come after a guard."""
    body = Body.on(memory.gpu)
    guard(body, verb.checks)
    kernel = reduce_kernel(verb, body, is_grouped=False if verb.checks else None)
    return checked(verb.checks, KernelProgram.of(memory.name, *([kernel] if kernel else [])), memory)


def reduce_kernel(verb: Reduce, body: Body, *, is_grouped: bool | None = None) -> Kernel | None:
    """The kernel of a reduce, whose body may have lines before it; None where there is nothing to compute."""
    return _Rows(verb, body).kernel(is_grouped)


# Folds


def _pair_of(fold: Expr) -> tuple[Expr, ...]:
    """The folds that go on together: both parts of a pair, or one alone."""
    if len(fold.args) == 1:
        return (fold,)
    return tuple(Expr(fold.op, arg.type, fold.args, k) for k, arg in enumerate(fold.args))


def _neutral(fold: Expr) -> tuple[Expr, ...]:
    if len(fold.args) == 1:
        return (neutral(fold),)
    first, second = fold.args
    if first.type is F32:
        return neutral(Expr(fold.op, F32, (first,))), const(0.0, F32)
    assert second.type is not None  # noqa: S101 - for type checkers: a part of a number
    if fold.op in ("fold_sum", "fold_product"):
        return const(int(fold.op == "fold_product"), U32), const(0, second.type)
    low, high = (-(2**63), 2**63 - 1) if second.type is I32 else (0, 2**64 - 1)
    number = low if fold.op == "fold_max" else high
    return const(number % 2**32, U32), const(number >> 32, second.type)


def _combined(fold: Expr, a: Sequence[Expr], b: Sequence[Expr]) -> tuple[Expr, ...]:
    """Two partial results as one."""
    if len(fold.args) > 1:
        return combine(fold, (a[0], a[1]), (b[0], b[1]))
    (x,), (y,) = a, b
    if fold.op == "fold_sum":
        return (x + y,)
    if fold.op == "fold_product":
        return (x * y,)
    return (maximum(x, y) if fold.op == "fold_max" else minimum(x, y),)


def _held(of: DataType | None, number: int) -> Expr:
    """A leaf for a variable, which has its name from the start."""
    return Expr("held", of, (), number)


# The walk


def _elements(view: View) -> int:
    return math.prod(size for size, stride in zip(view.sizes, view.strides, strict=True) if stride)


class _Rows:
    """The walk of a reduce, and the lines of its passes."""

    def __init__(self, verb: Reduce, body: Body) -> None:
        self.body, self.legal = body, legalise(verb, TYPES)
        self.leaves = leaves = Leaves.of(self.legal)
        kept = len(verb.sizes) - verb.depth
        none = (0,) * verb.depth
        strides = [(*v.strides[:kept], *none) if verb.has_rows(v) else v.strides for v in leaves.targets]
        whole = leaves.loops(verb.sizes, strides)
        inner = Loops(whole.sizes[kept:], tuple(row[kept:] for row in whole.strides), whole.offsets)
        outer_strides = tuple(row[:kept] for row in whole.strides)
        if whole.strides:
            lead = max(range(len(leaves.views)), key=lambda k: _elements(leaves.views[k]), default=0)
            self.along = simplify(inner, lead)
            self.rows = simplify(Loops(whole.sizes[:kept], outer_strides, self.along.offsets), lead)
        else:
            self.along, self.rows = inner, Loops(whole.sizes[:kept], (), ())
        self.read = (*leaves.loads, *leaves.coordinates)
        varying = {node for node, row in zip(self.read, self.along.strides, strict=False) if any(row)}
        self.changes = varies_along_row(leaves.values, varying)
        self.levels = levels_of(*leaves.values)
        written = self.along.strides[len(self.read) :]
        self.by_element = [any(row) for row in written]
        """Of the targets, whether they have a value for each element."""
        self.inserted_by_element = [self.changes[one.word] for one in self.legal.insertions]
        self.row_places: list[str] = []
        self.folded: dict[Expr, str] = {}

    def kernel(self, is_grouped: bool | None) -> Kernel | None:
        rows, length, body = math.prod(self.rows.sizes), math.prod(self.along.sizes), self.body
        has_elements = any(self.by_element) or any(self.inserted_by_element)
        if not rows or (has_elements and not length):
            return None
        if is_grouped is None:
            is_grouped = length > SHORT and (rows < MANY or self._is_along)
        body.take(*self.leaves.values)
        if is_grouped:
            body.say("let row = unit;", f"if (row >= {body.number(rows, 'rows')}) {{ return; }}")
        else:
            body.say(f"let row = unit * {LANES}u + lane;", f"if (row >= {body.number(rows, 'rows')}) {{ return; }}")
        names = take_apart(body, "row", self.rows, "r")
        for view, text in enumerate(places(body, self.rows, names, "r")):
            body.say(f"let at{view} = {text};")
            self.row_places.append(f"at{view}")
        deepest = max(self.levels.values(), default=0)
        for level in range(1, deepest + 1):
            folds = [node for node in walk(*self.leaves.values) if node.op in FOLDS and self.levels[node] == level]
            self._fold(folds, level, is_grouped=is_grouped)
        self._write_rows(is_grouped=is_grouped)
        if has_elements:
            self._write_elements(is_grouped=is_grouped)
        return body.kernel(rows if is_grouped else -(-rows // LANES))

    @property
    def _is_along(self) -> bool:
        """Whether neighbours in memory are of one row: then the lanes of a workgroup read them together."""
        return any(row[-1] == 1 for row in self.along.strides[: len(self.leaves.loads)] if row)

    # Passes

    def _once(self, roots: Sequence[Expr]) -> None:
        """Compute what is the same for the whole row."""
        same = [node for node in walk(*roots, known=self.body.names) if not self.changes[node]]
        texts = dict(zip(self.read, self.row_places, strict=False))
        compute(self.body, same, texts, self.legal.sources)

    def _fold(self, folds: Sequence[Expr], level: int, *, is_grouped: bool) -> None:
        body = self.body
        groups = list(dict.fromkeys(_pair_of(fold) for fold in folds))
        roots = [arg for group in groups for arg in group[0].args]
        self._once(roots)
        held: list[tuple[Expr, ...]] = []
        for number, group in enumerate(groups):
            own = tuple(_held(fold.type, 100 * level + 10 * number + k) for k, fold in enumerate(group))
            for leaf, start in zip(own, _neutral(group[0]), strict=True):
                name = f"a{leaf.value}"
                body.say(f"var {name} = {WGSL.constant(start)};")
                body.names[leaf] = name
            held.append(own)
        with body.scope():
            closing = self._loop(roots, is_grouped=is_grouped)
            for group, own in zip(groups, held, strict=True):
                self._accumulate(group[0], own)
            body.say(closing)
        for number, (group, own) in enumerate(zip(groups, held, strict=True)):
            if is_grouped:
                self._across_lanes(group[0], own, f"{level}_{number}")
            for fold, leaf in zip(group, own, strict=True):
                body.names[fold] = body.names[leaf]

    def _accumulate(self, fold: Expr, own: tuple[Expr, ...]) -> None:
        body = self.body
        (first, *_) = fold.args
        if fold.op == "fold_sum" and fold.type is F32 and len(own) == 1 and first.op == "mul":
            a, b = (body.names[arg] for arg in first.args)
            body.say(f"{body.names[own[0]]} = fma({a}, {b}, {body.names[own[0]]});")
            return
        self._assign(own, _combined(fold, own, fold.args))

    def _assign(self, own: Sequence[Expr], values: Sequence[Expr]) -> None:
        body = self.body
        body.take(*values)
        compute(body, values, {}, ())
        for leaf, value in zip(own, values, strict=True):
            body.say(f"{body.names[leaf]} = {body.names[value]};")

    def _across_lanes(self, fold: Expr, own: tuple[Expr, ...], name: str) -> None:
        """The lanes' partial results as one, by halves."""
        body = self.body
        for k, leaf in enumerate(own):
            body.share(f"s{name}_{k}", WGSL.types[leaf.type], LANES)
            body.say(f"s{name}_{k}[lane] = {body.names[leaf]};")
        body.say("workgroupBarrier();", f"for (var h = {LANES // 2}u; h > 0u; h = h / 2u) {{", "if (lane < h) {")
        with body.scope():
            others = tuple(_held(leaf.type, -1 - k) for k, leaf in enumerate(own))
            mine = tuple(_held(leaf.type, -11 - k) for k, leaf in enumerate(own))
            for k, (a, b) in enumerate(zip(mine, others, strict=True)):
                body.put(a, f"s{name}_{k}[lane]")
                body.put(b, f"s{name}_{k}[lane + h]")
            found = _combined(fold, mine, others)
            body.take(*found)
            compute(body, found, {}, ())
            body.say(*(f"s{name}_{k}[lane] = {body.names[value]};" for k, value in enumerate(found)))
        body.say("}", "workgroupBarrier();", "}")
        for k, leaf in enumerate(own):
            body.say(f"{body.names[leaf]} = s{name}_{k}[0];")
        body.say("workgroupBarrier();")

    def _loop(self, roots: Sequence[Expr], *, is_grouped: bool) -> str:
        """Begin a loop over a row's elements, and compute trees of each; the text that ends it."""
        body, along = self.body, self.along
        if is_grouped:
            count = body.number(math.prod(along.sizes), "length")
            body.say(f"for (var k = lane; k < {count}; k += {LANES}u) {{")
            names, closing = take_apart(body, "k", along, "k"), "}"
        else:
            names = [f"k{d}" for d in range(len(along.sizes))]
            for d, name in enumerate(names):
                size = body.number(along.sizes[d], ("k", "size", d))
                body.say(f"for (var {name} = 0u; {name} < {size}; {name}++) {{")
            closing = "}" * len(names)
            if not math.prod(along.sizes) and not names:  # an empty row without dimensions left cannot be
                body.say("if (false) {")
                closing = "}"
        found = places(body, along, names, "k", self.row_places)
        compute(body, roots, dict(zip(self.read, found, strict=False)), self.legal.sources)
        self.element_places = found[len(self.read) :]
        return closing or ""

    # What is written

    def _write_rows(self, *, is_grouped: bool) -> None:
        body, legal = self.body, self.legal
        places_of = self.row_places[len(self.read) :]
        writes = [(one, at) for one, at, each in zip(legal.writes, places_of, self.by_element, strict=True) if not each]
        inserts = [one for one, each in zip(legal.insertions, self.inserted_by_element, strict=True) if not each]
        values = [one.value for one, _ in writes] + [part for one in inserts for part in one[1:]]
        if not values:
            return
        self._once(values)
        if is_grouped:
            body.say("if (lane == 0u) {")
        for one, at in writes:
            body.store(one.target, at, body.names[one.value], one.value.type)
        for inserted in inserts:
            body.insert(inserted.target, *(body.names[part] for part in inserted[1:]))
        if is_grouped:
            body.say("}")

    def _write_elements(self, *, is_grouped: bool) -> None:
        body, legal = self.body, self.legal
        writes = [(k, one) for k, one in enumerate(legal.writes) if self.by_element[k]]
        inserts = [one for one, each in zip(legal.insertions, self.inserted_by_element, strict=True) if each]
        values = [one.value for _, one in writes] + [part for one in inserts for part in one[1:]]
        self._once(values)
        with body.scope():
            closing = self._loop(values, is_grouped=is_grouped)
            for k, one in writes:
                body.store(one.target, self.element_places[k], body.names[one.value], one.value.type)
            for inserted in inserts:
                body.insert(inserted.target, *(body.names[part] for part in inserted[1:]))
            body.say(closing)

"""Reductions: a row by one invocation, or by several of a workgroup, in as many passes over it as folds depend on one
another.

A row that fits in the registers of its invocations is read once, 16 bytes at a time where it lies so; what is dear and
needed again is kept there too. Longer rows are read by each pass. Short rows share a workgroup. A pass is a function of
an element, called for each; a fold of pairs (64-bit integers, double-floats) has two accumulators, which
`ir.legalise.combine` goes on with.
"""

from __future__ import annotations

import itertools
import math
import re
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.engines.common.tiles import ceil_power
from anydml.engines.webgpu.codegen.walks import TYPES, Leaves, compute, places, take_apart
from anydml.engines.webgpu.codegen.wgsl import WGSL, Body
from anydml.engines.webgpu.device import WORD
from anydml.engines.webgpu.launch import LANES, KernelProgram
from anydml.engines.webgpu.move.checks import checked, guard
from anydml.engines.webgpu.rows.map import QUAD, Aligned
from anydml.ir.expressions import Expr, const, maximum, minimum
from anydml.ir.legalise import combine, legalise
from anydml.ir.loops import Loops, simplify
from anydml.ir.row_passes import find_passes, neutral, varies_along_row
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.common.program import Program
    from anydml.engines.webgpu.launch import Bindable, Kernel
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.row_passes import Pass
    from anydml.ir.verbs import Reduce
    from anydml.ir.views import View

F32, I32, U32 = DataType.FLOAT32, DataType.INT32, DataType.UINT32
SHORTEST = 16
"""Elements of a row, neighbours in memory, that one invocation folds."""
SHORT = 128
"""The same of a row whose elements lie apart; longer ones take several, unless there are many rows."""
MANY = 4096
"""Rows that keep a device busy with one invocation each. Rows of 1,024 in that way take 27 times as long as PyTorch's
softmax (H200): neighbouring invocations read lines of memory far apart."""
EACH = 16
"""The most elements of a row that an invocation has, but for one that has 4,096 elements and more."""
BUSY = 2**17
"""Invocations that keep a device busy: where there are fewer, each has fewer elements."""
REGISTERS = 64
"""Numbers that an invocation keeps."""
AT_ONCE = 16
"""Partial results that an invocation reads one after the other."""
DEAR = 4
"""Operations that are not worth another number to keep."""


def plan_reduce(verb: Reduce, memory: Memory) -> Program:
    """Its kernel; one that is checked has an invocation a row, since a barrier may not come after a guard."""

    def rows(width: int) -> _Rows:
        body = Body.on(memory.gpu)
        guard(body, verb.checks)
        return _Rows(verb, body, width)

    found = rows(QUAD)
    if found.is_empty:
        return checked(verb.checks, KernelProgram.of(memory.name), memory)
    wide = found.kernel()
    kernel: Bindable = Aligned(wide, lambda: rows(1).kernel(), found.starts) if found.starts else wide
    return checked(verb.checks, KernelProgram.of(memory.name, kernel), memory)


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


def _kind(node: Expr) -> str:
    """The type of a node in a kernel."""
    return "i32" if node.op == "coordinate" else WGSL.types[node.type]


def _held(of: DataType | None, number: int) -> Expr:
    """A leaf for a variable, which has its name from the start."""
    return Expr("held", of, (), number)


class _Fold:
    """A fold as it goes on: both parts of a pair, or one alone, in variables of an invocation."""

    def __init__(self, body: Body, group: tuple[Expr, ...], name: str) -> None:
        self.body, self.group, self.name = body, group, name
        first = group[0].args[0]
        is_sum = group[0].op == "fold_sum" and group[0].type is F32 and len(group) == 1
        self.is_fused = is_sum and first.op == "mul"
        self.taken = first.args if self.is_fused else group[0].args
        """The numbers of an element that go in."""
        self.own = [f"a{name}_{k}" for k in range(len(group))]
        self.kinds = [WGSL.types[fold.type] for fold in group]
        for variable, start in zip(self.own, _neutral(group[0]), strict=True):
            body.say(f"var {variable} = {WGSL.constant(start)};")
        mine, others = (tuple(_held(fold.type, 10 * n + k) for k, fold in enumerate(group)) for n in range(2))
        given = dict(zip((*mine, *others), (f"p{k}" for k in range(2 * len(group))), strict=True))
        taken = ", ".join(f"p{k}: {kind}" for k, kind in enumerate(self.kinds * 2))
        result, form = self.kinds[0], "{0}"
        if len(group) > 1:
            result, form = f"Pair{name}", f"Pair{name}({{0}}, {{1}})"
            body.declare(f"struct {result} {{ r0: {self.kinds[0]}, r1: {self.kinds[1]} }}\n")
        body.function(f"join{name}", taken, result, given, _combined(group[0], mine, others), form)

    def add(self, numbers: Sequence[str]) -> None:
        """Go on with an element, or with what others have found."""
        body, own = self.body, self.own
        if len(numbers) > len(own):
            body.say(f"{own[0]} = fma({numbers[0]}, {numbers[1]}, {own[0]});")
        elif len(own) == 1:
            body.say(f"{own[0]} = join{self.name}({own[0]}, {numbers[0]});")
        else:
            found = body.line(f"join{self.name}({', '.join((*own, *numbers))})")
            body.say(*(f"{name} = {found}.r{k};" for k, name in enumerate(own)))

    def across(self, lanes: int) -> None:
        """What the invocations of a row have as one, in the same order for each: two times a few at once."""
        body, done = self.body, 1
        few = lanes if lanes <= AT_ONCE else ceil_power(math.isqrt(lanes - 1) + 1)
        for count in filter(lambda n: n > 1, (few, lanes // few)):
            names = [f"s{self.name}_{k}_{done}" for k in range(len(self.own))]
            for name, kind, own in zip(names, self.kinds, self.own, strict=True):
                body.share(name, kind, LANES // done)
                text = f"{name}[lane / {done}u] = {own};"
                body.say(f"if (lane % {done}u == 0u) {{ {text} }}" if done > 1 else text)
            first = body.line(f"lane / {done * count}u * {count}u")
            body.say("workgroupBarrier();", *(f"{o} = {n}[{first}];" for n, o in zip(names, self.own, strict=True)))
            body.say(f"for (var h = 1u; h < {count}u; h++) {{")
            self.add([f"{name}[{first} + h]" for name in names])
            body.say("}")
            done *= count


class _Step(NamedTuple):
    """The function of an element in a pass."""

    number: int
    outer: list[str]
    """The places that it is given."""
    given: list[Expr]
    """The nodes."""
    moved: dict[Expr, int]
    """Of these the loads that are moved 16 bytes at once, by number."""
    keeps: list[Expr]
    """What later passes are given of what it finds."""
    fields: dict[Expr, str]
    """Of what it gives."""
    wide: list[int]
    """The views that are written 16 bytes at once."""


# The walk


def _elements(view: View) -> int:
    return math.prod(size for size, stride in zip(view.sizes, view.strides, strict=True) if stride)


class _Rows:
    """The walk of a reduce, and the lines of its passes; `width` elements are moved at once where they can be."""

    def __init__(self, verb: Reduce, body: Body, width: int) -> None:
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
        written = self.along.strides[len(self.read) :]
        self.by_element = [any(row) for row in written]
        """Of the targets, whether they have a value for each element."""
        self.inserts = [one for one in self.legal.insertions if self.changes[one.word]]
        """The insertions for each element."""
        self.by_row = [one for one in self.legal.insertions if not self.changes[one.word]]
        self.values = [one.value for one, each in zip(self.legal.writes, self.by_element, strict=True) if each]
        self.values += [part for one in self.inserts for part in one[1:]]
        self.length, self.count = math.prod(self.along.sizes), math.prod(self.rows.sizes)
        self.is_empty = not self.count or (bool(self.values) and not self.length)
        self.row_places: list[str] = []
        self.kept: dict[Expr, list[str]] = {}
        """By node, its names for all elements of an invocation."""
        if not self.is_empty:
            self._share(verb, varying, width)

    def _share(self, verb: Reduce, varying: set[Expr], width: int) -> None:
        """Find the invocations of a row, the steps that each has, and what is moved 16 bytes a step."""
        loads = len(self.leaves.loads)
        # Narrow elements are parts of words, and wide ones two: their own views say whether they are neighbours.
        is_along = any(row[-1] == 1 for row in self.along.strides[:loads] if row) or any(
            verb.sizes[-1] > 1 and view.strides[-1] == 1 for view in verb.sources if view.sizes == verb.sizes != ()
        )
        is_long = self.length > SHORTEST if is_along else self.length > SHORT and self.count < MANY
        moved = [v for v in range(len(self.along.strides)) if v < loads or v >= len(self.read)]
        self.quads = [v for v in moved if self._is_quad(v)] if is_long and width > 1 and not verb.checks else []
        self.width = QUAD if self.quads else 1
        self.lanes, self.each, self.is_held, dear = 1, 1, False, 0
        self.steps = -(-self.length // self.width)
        passes = find_passes(self.leaves.values, self.values, varying, dear=DEAR)
        if is_long and not verb.checks:
            most = EACH // self.width if self.quads else EACH // 2
            leaves = [node for one in passes for node in dict.fromkeys(one.leaves) if node in varying]
            numbers = sum(len(one.keeps) for one in passes) + sum(leaves.count(node) > 1 for node in {*leaves})
            each = 2 * most if self.steps > LANES * most else most
            self.is_held = self.steps <= LANES * each and numbers * each * self.width <= REGISTERS
            each = each if self.is_held else most
            while each > 1 and self.count * self.steps < BUSY * each:
                each //= 2
            self.lanes = min(ceil_power(-(-self.steps // each)), LANES)
            self.each = min(-(-self.steps // self.lanes), 2 * most if self.is_held else most)
            dear = DEAR * self.is_held
        self.passes = find_passes(self.leaves.values, self.values, varying, dear=dear)
        self.is_whole = self.is_held and self.steps == self.lanes * self.each

    def _is_quad(self, v: int) -> bool:
        """Whether four neighbours of a view are 16 bytes, wherever the rows begin that its first one does."""
        is_row = len(self.along.sizes) == 1 and self.along.strides[v] == (1,) and not self.length % QUAD
        return is_row and not any(step % QUAD for step in self.rows.strides[v])

    def _view(self, v: int) -> View:
        read = len(self.read)
        return self.leaves.views[v] if v < read else self.leaves.targets[v - read]

    @property
    def starts(self) -> tuple[tuple[str, int], ...]:
        """By tensor, bytes from its first element to where quads begin."""
        found = {(self._view(v).tensor, self.rows.offsets[v] * WORD) for v in self.quads}
        return tuple(sorted(found))

    def kernel(self) -> Kernel:
        """The whole."""
        body, together = self.body, LANES // self.lanes
        rows = body.number(self.count, "rows")
        self.there = ["is_there"] if 1 < self.lanes < LANES else []
        body.take(*self.leaves.values)
        if self.there:  # all come to the barriers
            body.say(f"let row_there = unit * {together}u + lane / {self.lanes}u;")
            body.say(f"let is_there = row_there < {rows};", f"let row = min(row_there, {rows} - 1u);")
        else:
            body.say(f"let row = {'unit' if together == 1 else f'unit * {LANES}u + lane'};")
            body.say(f"if (row >= {rows}) {{ return; }}")
        names = take_apart(body, "row", self.rows, "r")
        for view, text in enumerate(places(body, self.rows, names, "r")):
            body.say(f"let at{view} = {text};")
            self.row_places.append(f"at{view}")
        for v in self.quads:
            body.say(f"let q{v} = ({body.base(body.tensor(self._view(v), 'vec4<u32>'))} + at{v}) / {QUAD}u;")
        for number, one in enumerate(self.passes):
            if not one.folds:
                self._write_rows()
            self._pass(number, one)
        if not self.values:
            self._write_rows()
        return body.kernel(-(-self.count // together))

    # Passes

    def _once(self, roots: Sequence[Expr]) -> None:
        """Compute what is the same for the whole row."""
        same = [node for node in walk(*roots, known=self.body.names) if not self.changes[node]]
        texts = dict(zip(self.read, self.row_places, strict=False))
        compute(self.body, same, texts, self.legal.sources)

    def _pass(self, number: int, one: Pass) -> None:
        body = self.body
        self._once(one.roots)
        groups = dict.fromkeys(_pair_of(fold) for fold in one.folds)
        folds = [_Fold(body, group, f"{number}_{k}") for k, group in enumerate(groups)]
        step = self._declare(number, one, folds)
        if self.is_held:
            if not number:
                self._count("")
            self._steps(step, folds)
        elif self.lanes > 1:
            body.say(f"for (var start = 0u; start < {body.number(self.steps, 'steps')}; "
                     f"start += {self.lanes * self.each}u) {{")  # fmt: skip
            self._count("start + ")
            self._steps(step, folds)
            body.say("}")
        else:
            for d, size in enumerate(self.along.sizes):
                body.say(f"for (var k{d} = 0u; k{d} < {body.number(size, ('k', 'size', d))}; k{d}++) {{")
            if self.length or self.along.sizes:  # else an empty row without dimensions left
                self._steps(step, folds)
            body.say("}" * len(self.along.sizes))
        for fold in folds:
            if self.lanes > 1:
                fold.across(self.lanes)
            body.names.update(zip(fold.group, fold.own, strict=True))

    def _count(self, first: str) -> None:
        """The steps that an invocation takes; one past the end reads the last one, and is left out."""
        body, steps = self.body, self.body.number(self.steps, "steps")
        for k in range(self.each):
            place = f"{first}lane % {self.lanes}u + {k * self.lanes}u"
            if self.is_whole:
                body.say(f"let x{k} = {place};")
            else:
                body.say(f"let y{k} = {place};", f"let x{k} = min(y{k}, {steps} - 1u);")

    def _steps(self, step: _Step, folds: Sequence[_Fold]) -> None:
        """Read what a function takes, call it, and go on with what it gives."""
        body = self.body
        for node, v in step.moved.items():
            for k in range(self.each):
                word = body.line(f"{body.tensor(self._view(v), 'vec4<u32>')}[q{v} + x{k}]")
                kind = WGSL.types[node.type]
                self.kept.setdefault(node, []).extend(f"bitcast<{kind}>({word}.{c})" for c in "xyzw")
        tests = [] if self.is_whole or self.lanes == 1 else ["y{0} < " + body.number(self.steps, "steps")]
        for k in range(self.each):
            test = " && ".join(part.format(k) for part in (*tests, *(self.there if not folds else ())))
            if test and not folds:
                body.say(f"if ({test}) {{")
            found = [self._call(step, k, c) for c in range(self.width)]
            if test and folds:
                body.say(f"if ({test}) {{")
            for fold, name in itertools.product(folds, found):
                fold.add([f"{name}.{step.fields[node]}" for node in fold.taken])
            for v in step.wide:
                value = self.legal.writes[v - len(self.read)].value
                parts = [f"{name}.{step.fields[value]}" for name in found]
                words = ", ".join(part if value.type is U32 else f"bitcast<u32>({part})" for part in parts)
                body.say(f"{body.tensor(self._view(v), 'vec4<u32>')}[q{v} + x{k}] = vec4<u32>({words});")
            if test:
                body.say("}")
        if not self.is_held:
            self.kept.clear()

    def _call(self, step: _Step, k: int, c: int) -> str:
        """The call for an element of a step; the name of what it gives."""
        body, x = self.body, f"x{k}" if self.width == 1 else f"x{k} * {self.width}u + {c}u"
        args = [x if name == "x" else name for name in step.outer]
        args += [self.kept[node][k * self.width + c] if node in self.kept else body.names[node] for node in step.given]
        text = f"step{step.number}({', '.join(args)})"
        if not step.fields:
            body.say(f"{text};")
            return ""
        name = body.line(text)
        for node in step.keeps:
            self.kept.setdefault(node, []).append(f"{name}.{step.fields[node]}")
        return name

    def _declare(self, number: int, one: Pass, folds: Sequence[_Fold]) -> _Step:
        """The function of an element: what is the same for a row, was moved or is kept is given; it reads the rest."""
        body, writes, reads = self.body, self.legal.writes, len(self.read)
        later = {node for after in self.passes[number + 1 :] for node in after.leaves} if self.is_held else set()
        quads = {node: v for v, node in enumerate(self.leaves.loads) if v in self.quads}
        same = [node for fold in folds for node in fold.taken if not self.changes[node]]
        stops = [node for node in dict.fromkeys((*one.stops, *same)) if node.op != "const"]
        moved = {node: quads[node] for node in stops if node in quads and node not in self.kept}
        given = [node for node in stops if node in body.names or node in self.kept or node in moved]
        read = [node for node in stops if node.op == "load" and node in later and node not in given]
        keeps = [*one.keeps, *read]
        own = [k for k, each in enumerate(self.by_element) if each and not one.folds]
        wide = [k for k in own if k + reads in self.quads]
        results = [*keeps, *(node for fold in folds for node in fold.taken), *(writes[k].value for k in wide)]
        fields = {node: f"r{k}" for k, node in enumerate(dict.fromkeys(results))}
        lines, names = body.lines, body.names
        body.lines, body.names = [], {node: f"p{k}" for k, node in enumerate(given)}
        along = [f"k{d}" for d in range(len(self.along.sizes))]
        if self.lanes > 1:
            along = take_apart(body, "x", self.along, "k")
        found = places(body, self.along, along, "k", self.row_places)
        texts = dict(zip(self.read, found, strict=False))
        compute(body, [*fields, *(() if one.folds else self.values)], texts, self.legal.sources)
        for k in own:
            if k not in wide:
                body.store(writes[k].target, found[reads + k], body.names[writes[k].value], writes[k].value.type)
        for inserted in () if one.folds else self.inserts:
            body.insert(inserted.target, *(body.names[part] for part in inserted[1:]))
        if fields:
            body.say(f"return Step{number}({', '.join(body.names[node] for node in fields)});")
        inner = "\n".join(body.lines)
        body.lines, body.names = lines, names
        outer = [*self.row_places, *(along if self.lanes == 1 else ["x"])]
        outer = [name for name in outer if re.search(rf"\b{name}\b", inner)]
        taken = [f"{name}: u32" for name in outer] + [f"p{k}: {_kind(node)}" for k, node in enumerate(given)]
        listed = ", ".join(f"{name}: {WGSL.types[node.type]}" for node, name in fields.items())
        head = f"struct Step{number} {{ {listed} }}\n" if fields else ""
        back = f" -> Step{number}" if fields else ""
        body.declare(f"{head}fn step{number}({', '.join(taken)}){back} {{\n{inner}\n}}\n")
        return _Step(number, outer, given, moved, keeps, fields, [k + reads for k in wide])

    def _write_rows(self) -> None:
        """What there is one of for each row."""
        body, legal = self.body, self.legal
        places_of = self.row_places[len(self.read) :]
        writes = [(one, at) for one, at, each in zip(legal.writes, places_of, self.by_element, strict=True) if not each]
        values = [one.value for one, _ in writes] + [part for one in self.by_row for part in one[1:]]
        if not values:
            return
        self._once(values)
        test = " && ".join([f"lane % {self.lanes}u == 0u", *self.there] if self.lanes > 1 else [])
        if test:
            body.say(f"if ({test}) {{")
        for one, at in writes:
            body.store(one.target, at, body.names[one.value], one.value.type)
        for inserted in self.by_row:
            body.insert(inserted.target, *(body.names[part] for part in inserted[1:]))
        if test:
            body.say("}")

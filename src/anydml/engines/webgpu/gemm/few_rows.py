"""Products of a few rows: the time is that of reading the right matrix, once for all rows.

Lanes of a workgroup have a column together, and parts of its sum each, where neighbours in memory are terms; else
neighbouring lanes have neighbouring columns, and sums are split where columns are few. Weights of 4 and 8 bits are read
as they lie, a word at once, and dequantised in registers: all that belongs to the terms of a word is written out.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from anydml.engines.common.routes import Route, note
from anydml.engines.webgpu.codegen.leaves import QUAD, LeafFolds, is_fused
from anydml.engines.webgpu.codegen.walks import COMPUTED, compute, places, take_apart
from anydml.engines.webgpu.codegen.wgsl import WGSL, Body, sum_of
from anydml.engines.webgpu.launch import LANES, KernelProgram
from anydml.engines.webgpu.rows.map import Aligned, write
from anydml.engines.webgpu.schedules import MOST_ROWS, TABLES
from anydml.ir.contraction import match_contraction
from anydml.ir.loops import Loops, runs
from anydml.ir.row_passes import neutral
from anydml.ir.split_k import PARTS, partial_sums, whole_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.engines.common.program import Program
    from anydml.engines.webgpu.codegen.leaves import Leaf
    from anydml.engines.webgpu.launch import Bindable, Kernel
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Reduce

LEAST_COLUMNS = 16
LEAST_TERMS = 64
"""Of a sum: shorter ones are an invocation's."""
BUSY = 65536
"""Lanes that keep a device busy."""
FEWEST_LANES = 32
"""Of a column."""
MOST_PARTS = 64
"""Of a sum."""
COLUMNS = 32
"""Columns of a workgroup where neighbouring lanes have neighbouring columns."""
PAIR = 2
"""Numbers of 4 bits in a byte."""
_PARTS = "xyzw"


def plan_few_rows(verb: Reduce, memory: Memory) -> Program | None:
    """For sums of products of at most 8 rows, and of as many as there are where it is not told; None for others."""
    found = _of(verb, memory)
    if found is None:
        return None
    product, parts = match_contraction(verb), found.parts()
    if product is None or parts == 1 or product.fold.type not in COMPUTED:
        return KernelProgram.of(memory.name, _kernel(found, memory))
    partial = partial_sums(verb, product.fold, _longest(verb), parts)
    first = _of(partial, memory)
    if first is None:
        return KernelProgram.of(memory.name, _kernel(found, memory))
    note(Route(f"split-K by {parts}", plan_few_rows))
    second = TABLES.plan(whole_of(verb, product.fold, partial), memory)
    assert isinstance(second, KernelProgram)  # noqa: S101 - for type checkers: folds are rows of kernels
    size = math.prod(partial.target.sizes) * partial.target.data_type.size_in_bytes
    return KernelProgram.of(memory.name, _kernel(first, memory), *second.kernels, scratch={PARTS: size})


def _of(verb: Reduce, memory: Memory) -> _FewRows | None:
    found = LeafFolds.of(verb)
    if found is None or len(found.folds) != 1 or found.folds[0].op != "fold_sum":
        return None
    read = {k for node, k in found.loads.items() if node in found.folded}
    if not read or any(leaf.limits for leaf in found.leaves):
        return None
    made = _FewRows(found, Body.on(memory.gpu), read, has_quads=True)
    return made if made.is_ours else None


def _kernel(wide: _FewRows, memory: Memory) -> Bindable:
    """The kernel that moves four elements at once, and the other for memory that begins elsewhere."""
    kernel = wide.kernel()

    def plain() -> Kernel:
        return _FewRows(wide.found, Body.on(memory.gpu), wide.read, has_quads=False).kernel()

    if len(kernel.bindings) > memory.gpu.most_bindings:
        return plain()
    return Aligned(kernel, plain, tuple((tensor, 0) for tensor in sorted(wide.aligned)))


def _longest(verb: Reduce) -> int:
    """The dimension with the most of the terms."""
    return max(range(len(verb.sizes) - verb.depth, len(verb.sizes)), key=lambda k: verb.sizes[k])


class _FewRows:
    def __init__(self, found: LeafFolds, body: Body, read: set[int], *, has_quads: bool) -> None:
        self.found, self.body, self.read, self.has_quads = found, body, read, has_quads
        self.sizes = sizes = found.verb.sizes
        self.aligned: set[str] = set()
        self.leaves = found.leaves
        weights = self.leaves[max(read, key=lambda k: (self._elements(self.leaves[k]), k))]
        steps = weights.strides
        wide = [k for k, size in enumerate(sizes) if size > 1]
        self.rows = [k for k in wide if k < found.kept and not steps[k]]
        columns = sorted((k for k in wide if k < found.kept and steps[k]), key=lambda k: (-abs(steps[k]), k))
        terms = [k for k in wide if k >= found.kept]
        self.halves = [k for k in terms if not steps[k] and sizes[k] == PAIR]
        """Dimensions of terms that lie in one byte."""
        self.near = next((k for k in terms if steps[k] == 1), None)
        """Along which neighbours in memory are terms."""
        self.each = QUAD if self.near is not None and sizes[self.near] % QUAD == 0 else 1
        outer = sorted((k for k in terms if k not in self.halves), key=lambda k: (-abs(steps[k]), k))
        if self.near is not None:
            outer = [*(k for k in outer if k != self.near), self.near]
        self.steps = [n // self.each if k == self.near else n for k, n in enumerate(sizes)]
        """The sizes of the walk, units of terms being one."""
        moving = [tuple(n * self._wide(k) for k, n in enumerate(row)) for row in found.moving()]
        self.columns = runs(columns, self.steps, moving)
        self.outer = runs(outer, self.steps, moving)
        self.count = math.prod(sizes[k] for k in columns)
        self.units = math.prod(self.steps[k] for k in outer)
        inside = [*self.halves, *([self.near] if self.near is not None else [])]
        ranges = [range(sizes[k]) for k in self.halves] + [range(self.each)] * (self.near is not None)
        self.unit = [dict(zip(inside, at, strict=True)) for at in itertools.product(*ranges)]
        """The terms that are written out, by dimension."""
        self.row_count = math.prod(sizes[k] for k in self.rows)
        self.terms = math.prod(sizes[k] for k in terms)
        reach = 1 + sum((size - 1) * abs(step) for size, step in zip(sizes, steps, strict=True))
        has_windows = self._elements(weights) > reach
        self.is_ours = not has_windows and (
            self.row_count <= MOST_ROWS and self.count >= LEAST_COLUMNS and self.terms >= LEAST_TERMS and self.units > 1
        )

    def parts(self) -> int:
        """Into how many parts sums are split: columns side by side are too few to keep a device busy by themselves."""
        if self.near is not None:
            return 1
        size = self.sizes[_longest(self.found.verb)]
        most = min(self.terms // LEAST_TERMS, 4 * BUSY * COLUMNS // (LANES * self.count), MOST_PARTS)
        return next(n for n in range(max(most, 1), 0, -1) if size % n == 0)

    def _elements(self, leaf: Leaf) -> int:
        return math.prod(size for size, step in zip(self.sizes, leaf.strides, strict=True) if step)

    def _wide(self, dimension: int) -> int:
        return self.each if dimension == self.near else 1

    def kernel(self) -> Kernel:
        body, fold = self.body, self.found.folds[0]
        body.take(*self.found.all.values)
        lanes = LANES // COLUMNS
        if self.near is not None:
            lanes = FEWEST_LANES
            while lanes < LANES and self.count * lanes < BUSY and lanes < self.units:
                lanes *= 2
        columns = LANES // lanes
        if self.near is not None:
            body.say(f"let part = lane % {lanes}u;", f"let own = lane / {lanes}u;")
        else:
            body.say(f"let own = lane % {columns}u;", f"let part = lane / {columns}u;")
        groups, count = -(-self.count // columns), body.number(self.count, "columns")
        body.say(f"if (unit >= {body.number(groups, 'groups')}) {{ return; }}")
        # Past the end the last column is summed again, and not written.
        body.say(f"let place = unit * {columns}u + own;", f"let column = min(place, {count} - 1u);")
        names = take_apart(body, "column", Loops(self._counts(self.columns), (), ()), "c")
        for k, leaf in enumerate(self.leaves):
            body.say(f"let at{k} = {self._at(k, leaf, names)};")
        kind = WGSL.types[fold.type]
        body.share("sums", kind, LANES * self.row_count)
        for m in range(self.row_count):
            body.say(f"var a{m} = {WGSL.constant(neutral(fold))};")
        units = body.number(self.units, "units")
        body.say(f"for (var u = part; u < {units}; u += {lanes}u) {{")
        with body.scope():
            self._step(names)
        body.say("}")
        apart = 1 if self.near is not None else columns
        body.say(*(f"sums[{m * LANES}u + lane] = a{m};" for m in range(self.row_count)), "workgroupBarrier();")
        body.say(f"for (var h = {lanes // 2}u; h > 0u; h = h / 2u) {{", "if (part < h) {")
        for m in range(self.row_count):
            body.say(f"sums[{m * LANES}u + lane] += sums[{m * LANES}u + lane + h * {apart}u];")
        body.say("}", "workgroupBarrier();", "}")
        body.say(f"if (part == 0u && place < {count}) {{")
        for m in range(self.row_count):
            self._finish(m, names)
        body.say("}")
        return body.kernel(groups)

    def _counts(self, groups: Sequence[Sequence[int]]) -> tuple[int, ...]:
        return tuple(math.prod(self.steps[k] for k in run) for run in groups)

    def _number(self, step: int, key: tuple[object, ...]) -> str:
        return self.body.number(step, key if step not in (0, 1) else None)

    def _at(self, k: int, leaf: Leaf, names: Sequence[str]) -> str:
        """Where a column begins."""
        steps = [self._number(leaf.strides[run[-1]], (k, "column", n)) for n, run in enumerate(self.columns)]
        return sum_of(self.body.number(leaf.start, (k, "first") if leaf.start else None), names, steps)

    def _row(self, m: int) -> dict[int, int]:
        """The coordinates of a row."""
        found = {}
        for k in reversed(self.rows):
            m, found[k] = divmod(m, self.sizes[k])
        return found

    def _far(self, k: int, leaf: Leaf, base: str, inside: Mapping[int, int]) -> str:
        """An index at known coordinates of some dimensions."""
        moving = [(f"{n}u", self._number(leaf.strides[d], (k, "in", d))) for d, n in inside.items() if n]
        return sum_of(base, [n for n, _ in moving], [step for _, step in moving])

    def _step(self, names: Sequence[str]) -> None:
        """Add the products of a unit of terms to the sums of all rows."""
        body, found, (fold,) = self.body, self.found, self.found.folds
        outer = take_apart(body, "u", Loops(self._counts(self.outer), (), ()), "u_")
        read = sorted({k for node, k in found.loads.items() if node in found.folded})
        bases, by_row = {}, {}
        for k in read:
            leaf = self.leaves[k]
            steps = [leaf.strides[run[-1]] * self._wide(run[-1]) for run in self.outer]
            texts = [self._number(step, (k, "outer", n)) for n, step in enumerate(steps)]
            bases[k] = body.line(sum_of(f"at{k}", outer, texts))
            by_row[k] = any(leaf.strides[d] for d in self.rows)
        once = {k: self._unit(k, bases[k], {}) for k in read if not by_row[k]}
        for m in range(self.row_count):
            row = self._row(m)
            elements = once | {k: self._unit(k, bases[k], row) for k in read if by_row[k]}
            for e, inside in enumerate(self.unit):
                with body.scope():
                    for node, k in found.loads.items():
                        if node in found.folded:
                            body.names[node] = elements[k][e]
                    parts = fold.args[0].args if is_fused(fold) else fold.args
                    compute(body, parts, self._texts(names, outer, row, inside), ())
                    texts = [body.names[part] for part in parts]
                    sums = f"fma({texts[0]}, {texts[1]}, a{m})" if is_fused(fold) else f"a{m} + {texts[0]}"
                    body.say(f"a{m} = {sums};")

    def _unit(self, k: int, base: str, row: Mapping[int, int]) -> list[str]:
        """The elements of a leaf for each term of a unit."""
        body, leaf = self.body, self.leaves[k]
        offsets = [sum(leaf.strides[d] * n for d, n in inside.items()) for inside in self.unit]
        at = self._far(k, leaf, base, row)
        inside = {*self.halves, self.near}
        others = [step * self._wide(d) for d, step in enumerate(leaf.strides) if d not in self.halves]
        is_dense = sorted(set(offsets)) == list(range(max(offsets) + 1)) and (max(offsets) + 1) % QUAD == 0
        if self.has_quads and is_dense and inside and not any(n % QUAD for n in (leaf.start, *others)):
            self.aligned.add(leaf.view.tensor)
            quads = [body.line(leaf.quad(body, f"{at} + {first}u")) for first in range(0, max(offsets) + 1, QUAD)]
            return [f"{quads[offset // QUAD]}.{_PARTS[offset % QUAD]}" for offset in offsets]
        made: dict[int, str] = {}
        for offset, place in zip(offsets, self.unit, strict=True):
            if offset not in made:
                made[offset] = body.line(leaf.text(body, self._far(k, leaf, at, place)))
        return [made[offset] for offset in offsets]

    def _texts(
        self, names: Sequence[str], outer: Sequence[str], row: Mapping[int, int], inside: Mapping[int, int]
    ) -> dict[Expr, str]:
        """Of coordinates."""
        own = {run[0]: name for run, name in zip((*self.columns, *self.outer), (*names, *outer), strict=False)}
        own |= {d: f"{n}u" for d, n in row.items()} | {d: f"{n}u" for d, n in inside.items() if d != self.near}
        if self.near is not None and self.near in own and inside:
            own[self.near] = f"{own[self.near]} * {self.each}u + {inside[self.near]}u"
        return {node: own.get(int(node.value), "0u") for node in self.found.all.coordinates}

    def _finish(self, m: int, names: Sequence[str]) -> None:
        """What follows the sum of a row, and its writes."""
        body, found = self.body, self.found
        row = self._row(m)
        with body.scope():
            body.put(found.folds[0], f"sums[{m * LANES}u + lane]")
            for node, k in found.loads.items():
                if node in found.after:
                    leaf = self.leaves[k]
                    body.names[node] = body.line(leaf.text(body, self._far(k, leaf, f"at{k}", row)))
            compute(body, found.all.values, self._texts(names, [], row, {}), ())
            targets = found.all.targets
            order = [*(run[-1] for run in self.columns), *self.rows]
            sizes = (*self._counts(self.columns), *(self.sizes[d] for d in self.rows))
            strides = tuple(tuple(view.strides[d] for d in order) for view in targets)
            loops = Loops(sizes, strides, tuple(view.offset for view in targets))
            write(body, found.legal, places(body, loops, [*names, *(f"{row[d]}u" for d in self.rows)], "to"))

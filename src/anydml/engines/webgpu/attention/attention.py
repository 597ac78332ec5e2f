"""Attention in one pass (as FlashAttention): a workgroup has some queries, and goes through the keys chunk by chunk.

Of each chunk it has the scores in registers, as sums of products of pieces of queries and keys in workgroup memory;
their powers go through workgroup memory to the sums of values that they weigh, which stay in registers. Rows whose
largest score grows are scaled. An invocation has four rows, side by side in a vector, of some keys and of some columns.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.core.memory import packed_strides
from anydml.engines.common.routes import Route, note
from anydml.engines.webgpu.codegen.leaves import QUAD, Leaf
from anydml.engines.webgpu.codegen.walks import TYPES, Leaves, compute, places, take_apart
from anydml.engines.webgpu.codegen.wgsl import WGSL, Body, sum_of
from anydml.engines.webgpu.launch import LANES, KernelProgram
from anydml.engines.webgpu.rows.map import Aligned, write
from anydml.ir.expressions import call, const, load, maximum, minimum
from anydml.ir.legalise import legalise
from anydml.ir.loops import Loops
from anydml.ir.trees import walk
from anydml.ir.verbs import Map
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.common.program import Program
    from anydml.engines.webgpu.launch import Kernel
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.attention import Attend
    from anydml.ir.expressions import Expr
    from anydml.ir.legalise import Legal

F32, I32, INT64 = DataType.FLOAT32, DataType.INT32, DataType.INT64
KEYS = 64
"""Of a chunk: workgroup memory takes 16 KiB, half of it for pieces of operands, half for powers."""
DEEP = 16
"""Numbers of queries and keys that are multiplied at once."""
HALF = 32
"""Keys of a chunk whose powers are in workgroup memory at once."""
_PARTS = "xyzw"


class AttentionTile(NamedTuple):
    """How an attention is cut: the queries of a workgroup, and the keys of a chunk that an invocation has."""

    rows: int
    across: int


TILES = AttentionTile(64, 4), AttentionTile(16, 1)


def tile_of(queries: int) -> AttentionTile:
    """The cut that leaves the fewest rows empty."""
    return min(TILES, key=lambda tile: (-(-queries // tile.rows) * tile.rows, -tile.rows))


def plan_attention(primitive: Attend, memory: Memory) -> Program:
    """One pass over the keys for each block of queries."""
    tile = tile_of(primitive.scores[-2])
    note(Route(f"tiles of {tile.rows} x {KEYS}", tile_of))
    wide = _Attention(primitive, tile, Body.on(memory.gpu), has_quads=True)
    kernel = wide.kernel()

    def plain() -> Kernel:
        return _Attention(primitive, tile, Body.on(memory.gpu), has_quads=False).kernel()

    if not wide.aligned or len(kernel.bindings) > memory.gpu.most_bindings:
        return KernelProgram.of(memory.name, plain())
    return KernelProgram.of(memory.name, Aligned(kernel, plain, tuple((name, 0) for name in sorted(wide.aligned))))


class _Tree:
    """A tree over coordinates of scores, views of them and a score's sum of products, in types of every device."""

    def __init__(self, primitive: Attend, value: Expr, kind: DataType) -> None:
        sizes = primitive.scores
        own = View("\0sum", F32, sizes, packed_strides(sizes))
        to = View("\0score", kind, sizes, packed_strides(sizes))
        self.legal = legalise(Map((own, *primitive.beside), to, value), TYPES)
        self.leaves = Leaves.of(self.legal)
        self.sums = [n for n in self.leaves.loads if self.legal.sources[int(n.value)].tensor == own.tensor]
        self.loops = self.leaves.loops(self.legal.sizes, [view.strides for view in self.leaves.targets])

    def text(self, body: Body, names: Sequence[str], total: str) -> str:
        """The value at coordinates, given the sum's text."""
        with body.scope():
            found = places(body, self.loops, names, "score")
            for node in self.sums:
                body.names[node] = total
            texts = dict(zip((*self.leaves.loads, *self.leaves.coordinates), found, strict=False))
            body.take(*self.leaves.values)
            compute(body, self.leaves.values, texts, self.legal.sources)
            return body.names[self.legal.writes[0].value]


class _Operand:
    """Queries, keys or values: lines of numbers that follow one another."""

    def __init__(self, attention: _Attention, name: str, view: View, *, has_quads: bool) -> None:
        self.body, self.name = attention.body, name
        strides = tuple(step if n > 1 else 0 for step, n in zip(view.strides, view.sizes, strict=True))
        self.leaf = Leaf(view, view.offset, strides, (), None)
        last, self.size = len(strides) - 1, view.sizes[-1]
        self.has_quads = has_quads and bool(strides[-1]) and self.leaf.has_quads(last, self.size)
        self.batch = strides[:-2]
        if self.has_quads:
            attention.aligned.add(view.tensor)

    def begin(self, batch: Sequence[str]) -> None:
        """Where a matrix begins."""
        first = self.body.number(self.leaf.start, (self.name, "first") if self.leaf.start else None)
        self.body.say(f"let {self.name}_at = {sum_of(first, batch, list(map(self._step, range(len(batch)))))};")

    def _step(self, k: int) -> str:
        step = self.leaf.strides[k]
        return self.body.number(step, (self.name, "step", k) if step not in (0, 1) else None)

    def fetch(self, variable: str, line: str, at: str) -> None:
        """Four numbers of a line, which are 0 past its end."""
        body, leaf, rank = self.body, self.leaf, len(self.leaf.strides)
        size = body.number(self.size, (self.name, "size"))
        begin = f"{self.name}_at" + (f" + {line} * {self._step(rank - 2)}" if leaf.strides[-2] else "")
        if self.has_quads:
            body.say(f"if ({at} < {size}) {{")
            text = leaf.quad(body, f"{begin} + {at}")
            body.say(f"{variable} = {text};", "}")
            return
        for e, part in enumerate(_PARTS):
            body.say(f"if ({at} + {e}u < {size}) {{")
            text = leaf.text(body, f"{begin} + ({at} + {e}u) * {self._step(rank - 1)}")
            body.say(f"{variable}.{part} = {text};", "}")


class _Attention:
    def __init__(self, primitive: Attend, tile: AttentionTile, body: Body, *, has_quads: bool) -> None:
        self.primitive, self.tile, self.body = primitive, tile, body
        self.aligned: set[str] = set()
        """The tensors of which four numbers are read at once."""
        names = zip(("query", "key", "value"), primitive.sources[:3], strict=True)
        self.query, self.key, self.value = (_Operand(self, *one, has_quads=has_quads) for one in names)
        self.rows = tile.rows // QUAD
        """Vectors of rows."""
        self.lanes = LANES // self.rows
        """Invocations that have the same rows."""
        self.panels = -(-primitive.depths[1] // KEYS)
        """Of columns, as many as a chunk has keys: an invocation has as many of each."""
        self.score = _Tree(primitive, primitive.score, F32)

    def kernel(self) -> Kernel:
        primitive, body, tile = self.primitive, self.body, self.tile
        *batch, queries, keys = primitive.scores
        tiles = -(-queries // tile.rows)
        units = tiles * math.prod(batch)
        _declare_power(body)
        body.share("tile", "vec4<f32>", KEYS * DEEP // 2)
        body.share("powers", "vec4<f32>", max(HALF * self.rows, LANES))
        query_count, key_count = body.number(queries, "queries"), body.number(keys, "keys")
        body.say(f"if (unit >= {body.number(units, 'units')}) {{ return; }}", f"let ty = lane / {self.lanes}u;")
        body.say(f"let tx = lane % {self.lanes}u;", f"let matrix = unit / {body.number(tiles, 'tiles')};")
        body.say(f"let row0 = (unit - matrix * {body.number(tiles, 'tiles')}) * {tile.rows}u;")
        self.batch = take_apart(body, "matrix", Loops(tuple(batch), (), ()), "m") if batch else []
        for operand in (self.query, self.key, self.value):
            operand.begin(self.batch)
        # Past the end the last row is computed again, and not written.
        for r in range(QUAD):
            body.say(f"let row_{r} = min(row0 + ty * 4u + {r}u, {query_count} - 1u);")
        self._limits(query_count, key_count)
        body.say(f"var top = vec4<f32>({LOWEST});", "var total = vec4<f32>(0);")
        for p, c in itertools.product(range(self.panels), range(tile.across)):
            body.say(f"var o{p}_{c} = vec4<f32>(0);")
        body.say(f"for (var first = 0u; first < end; first += {KEYS}u) {{")
        self._multiply(query_count)
        self._soften()
        self._add_values()
        body.say("}")
        self._finish(query_count)
        return body.kernel(units)

    def _limits(self, query_count: str, key_count: str) -> None:
        """How many keys each row sees, and how many the last one of the workgroup's does, which is the most."""
        primitive, body = self.primitive, self.body
        if primitive.limit is None:
            body.say(f"let end = {key_count};", *(f"let seen_{r} = {key_count};" for r in range(QUAD)))
            return
        inside = minimum(maximum(primitive.limit, const(0, INT64)), const(primitive.scores[-1], INT64))
        tree = _Tree(primitive, inside.to(I32), I32)
        for r in range(QUAD):
            body.say(f"let seen_{r} = u32({tree.text(body, [*self.batch, f'row_{r}', '0u'], '0.0')});")
        body.say(f"let last = min(row0 + {self.tile.rows - 1}u, {query_count} - 1u);", "if (lane == 0u) {")
        found = tree.text(body, [*self.batch, "last", "0u"], "0.0")
        body.say(f"powers[0] = vec4<f32>(bitcast<f32>({found}));", "}")
        # A limit is read from memory: that it is the same for all has to be said, for barriers in a loop up to it.
        body.say("let end = bitcast<u32>(workgroupUniformLoad(&powers[0]).x);")

    def _multiply(self, query_count: str) -> None:
        """The sums of products of a chunk, `s0` and on, each of four rows."""
        body, rows, across = self.body, self.rows, self.tile.across
        body.say(*(f"var s{c} = vec4<f32>(0);" for c in range(across)))
        size = body.number(self.primitive.depths[0], "depth")
        body.say(f"for (var deep = 0u; deep < {size}; deep += {DEEP}u) {{")
        key_start = DEEP * rows
        self._stage(self.query, self.tile.rows, f"min(row0 + line, {query_count} - 1u)", 0)
        self._stage(self.key, KEYS, "min(first + line, end - 1u)", key_start)
        body.say("workgroupBarrier();", f"for (var k = 0u; k < {DEEP}u; k++) {{", f"let q = tile[k * {rows}u + ty];")
        numbers = self._across(f"tile[{key_start}u + k * {KEYS // QUAD}u + ", "k")
        body.say(*(f"s{c} = fma(q, vec4<f32>({text}), s{c});" for c, text in enumerate(numbers)))
        body.say("}", "workgroupBarrier();", "}")

    def _across(self, start: str, name: str) -> list[str]:
        """The numbers of an invocation's keys, or columns, of a line of workgroup memory."""
        if self.tile.across == QUAD:
            self.body.say(f"let {name}4 = {start}tx];")
            return [f"{name}4.{part}" for part in _PARTS]
        return [f"{start}tx / 4u][tx % 4u]"]

    def _stage(self, operand: _Operand, lines: int, line: str, start: int) -> None:
        """A piece of queries or keys, turned: lines are side by side."""
        body, quads = self.body, DEEP // QUAD
        body.say("{" if lines * quads == LANES else f"if (lane < {lines * quads}u) {{")
        body.say(f"let line = lane / {quads}u;", f"let own = {line};", f"let part = (lane % {quads}u) * 4u;")
        body.say("var x = vec4<f32>(0);", "let at = deep + part;")
        operand.fetch("x", "own", "at")
        for e, part in enumerate(_PARTS):
            body.say(f"tile[{start}u + (part + {e}u) * {lines // QUAD}u + line / 4u][line % 4u] = x.{part};")
        body.say("}")

    def _soften(self) -> None:
        """Scores, and the powers of what each is below the largest one of its row so far."""
        body, across = self.body, self.tile.across
        lowest = WGSL.constant(const(float("-inf"), F32))
        for c in range(across):
            body.say(f"let key{c} = first + tx * {across}u + {c}u;")
            for r, part in enumerate(_PARTS):
                body.say(f"if (key{c} < seen_{r}) {{")
                text = self.score.text(body, [*self.batch, f"row_{r}", f"key{c}"], f"s{c}.{part}")
                body.say(f"s{c}.{part} = {text};", "} else {", f"s{c}.{part} = {lowest};", "}")
        most = "s0"
        for c in range(1, across):
            most = f"max({most}, s{c})"
        body.say(f"powers[lane] = {most};", "workgroupBarrier();", "var now = top;")
        body.say(f"for (var t = 0u; t < {self.lanes}u; t++) {{ now = max(now, powers[ty * {self.lanes}u + t]); }}")
        body.say("workgroupBarrier();", "let shrink = power4(top - now);", "top = now;", "total = total * shrink;")
        for c in range(across):
            body.say(f"s{c} = power4(s{c} - now);", f"total = total + s{c};")
        for p, c in itertools.product(range(self.panels), range(across)):
            body.say(f"o{p}_{c} = o{p}_{c} * shrink;")

    def _add_values(self) -> None:
        """The values of a chunk, each times its power, half of the keys after the other."""
        body, across = self.body, self.tile.across
        body.say(f"for (var half = 0u; half < {KEYS}u; half += {HALF}u) {{", "if (first + half >= end) { break; }")
        body.say(f"let place = tx * {across}u - half;", f"if (place < {HALF}u) {{")
        body.say(*(f"powers[(place + {c}u) * {self.rows}u + ty] = s{c};" for c in range(across)), "}")
        quads, value_count = KEYS // QUAD, HALF * KEYS // QUAD // LANES
        for p in range(self.panels):
            for slot in range(value_count):
                body.say("{", f"let line = (lane + {slot * LANES}u) / {quads}u;", "let own = first + half + line;")
                body.say(f"let at = {p * KEYS}u + (lane % {quads}u) * 4u;", "var x = vec4<f32>(0);", "if (own < end) {")
                self.value.fetch("x", "own", "at")
                body.say("}", f"tile[lane + {slot * LANES}u] = x;", "}")
            body.say("workgroupBarrier();", f"for (var k = 0u; k < {HALF}u; k++) {{")
            body.say(f"let weight = powers[k * {self.rows}u + ty];")
            numbers = self._across(f"tile[k * {quads}u + ", "v")
            body.say(*(f"o{p}_{c} = fma(weight, vec4<f32>({text}), o{p}_{c});" for c, text in enumerate(numbers)))
            body.say("}", "workgroupBarrier();")
        body.say("}")

    def _finish(self, query_count: str) -> None:
        """Each row over the sum of its powers; NaN where no key is seen."""
        body, primitive, across = self.body, self.primitive, self.tile.across
        nan = WGSL.constant(const(float("nan"), F32))
        body.say("powers[lane] = total;", "workgroupBarrier();", "var sum = vec4<f32>(0);")
        body.say(f"for (var t = 0u; t < {self.lanes}u; t++) {{ sum = sum + powers[ty * {self.lanes}u + t]; }}")
        legal = self._results()
        leaves = Leaves.of(legal)
        loops = leaves.loops(legal.sizes, [view.strides for view in leaves.targets])
        parts = 1 + max(legal.sources[int(node.value)].offset for node in leaves.loads)
        column_count = body.number(primitive.depths[1], "columns")
        for r, part in enumerate(_PARTS):
            body.say(f"if (row0 + ty * 4u + {r}u < {query_count}) {{")
            body.say(f"var part{r} = {nan};", f"if (sum.{part} != 0.0) {{ part{r} = divide(1.0, sum.{part}); }}")
            for p, c in itertools.product(range(self.panels), range(0, across, parts)):
                column = f"({p * KEYS}u + tx * {across}u + {c}u)"
                body.say(f"if ({column} < {column_count}) {{")
                with body.scope():
                    for node in leaves.loads:
                        which = c + legal.sources[int(node.value)].offset
                        body.names[node] = f"(o{p}_{which}.{part} * part{r})"
                    along = f"({column} / {parts}u)" if parts > 1 else column
                    found = places(body, loops, [*self.batch, f"row_{r}", along], "result")
                    body.take(*leaves.values)
                    texts = dict(zip((*leaves.loads, *leaves.coordinates), found, strict=False))
                    compute(body, leaves.values, texts, legal.sources)
                    write(body, legal, found[len(leaves.loads) + len(leaves.coordinates) :])
                body.say("}")
            body.say("}")

    def _results(self) -> Legal:
        """A map from results to the target: narrow ones are written by whole words where an invocation has them."""
        target = self.primitive.target
        own = View("\0result", F32, target.sizes, packed_strides(target.sizes))
        written = Map((own,), target, load(0, F32).to(target.data_type))
        return legalise(written, TYPES, by_words=self.tile.across == QUAD)


LOWEST = "-3.4028234663852886e38"
"""The least number: what the largest score of a row begins with, so that those of -∞ have a power of 0."""


def _declare_power(body: Body) -> None:
    """The power of each of four numbers."""
    one = View("\0x", F32, (1,), (1,))
    legal = legalise(Map((one,), replace(one, tensor="\0y"), call("exp", load(0, F32))), TYPES)
    value = legal.writes[0].value
    given = {node: "x" for node in walk(value) if node.op == "load"}
    body.function("power", "x: f32", "f32", given, [value], "{0}")
    body.declare(
        "fn power4(x: vec4<f32>) -> vec4<f32> { return vec4<f32>(power(x.x), power(x.y), power(x.z), power(x.w)); }\n"
    )

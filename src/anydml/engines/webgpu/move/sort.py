"""Sorts: an element's rank is counted, one invocation an element; long lines are sorted in runs by workgroups.

Runs are merged two by two: an element's place is its own in its run, and its rank in the other one, found by bisection.
Of each run no more is kept than the target has room for.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.engines.common.tiles import ceil_power
from anydml.engines.webgpu.codegen.cells import read, write
from anydml.engines.webgpu.codegen.walks import take_apart
from anydml.engines.webgpu.codegen.wgsl import Body
from anydml.engines.webgpu.device import WORD
from anydml.engines.webgpu.launch import LANES, KernelProgram
from anydml.ir.expressions import const, where
from anydml.ir.loops import Loops
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.common.program import Program
    from anydml.engines.webgpu.launch import Kernel
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Sort

RUN = 1024
"""Elements that a workgroup sorts: 12 KiB where they are of 64 bits."""
_RUNS = ("\0runs", "\0merged runs")
F32, U32, U64 = DataType.FLOAT32, DataType.UINT32, DataType.UINT64


def plan_sort(verb: Sort, memory: Memory) -> Program:
    """Places in the order of the elements."""
    source, target, axis = verb.source, verb.target, verb.axis
    lanes = math.prod(source.sizes)
    if not lanes or not math.prod(target.sizes):
        return KernelProgram.of(memory.name)
    body = Body.on(memory.gpu)
    kind = U64 if source.data_type.size_in_bytes == 8 else U32

    def key(element: Expr) -> Expr:
        return _key(element, is_largest=verb.largest)

    body.say(f"let i = unit * {LANES}u + lane;", f"if (i >= {body.number(lanes, 'lanes')}) {{ return; }}")
    names = take_apart(body, "i", Loops(source.sizes, (), ()), "c")
    own = read(body, source, kind, names, key)
    body.say("var rank = 0u;", f"for (var j = 0u; j < {body.number(source.sizes[axis], 'length')}; j++) {{")
    other = read(body, source, kind, [*names[:axis], "j", *names[axis + 1 :]], key)
    less, equal = f"{other[-1]} < {own[-1]}", f"{other[0]} == {own[0]}"
    if kind is U64:
        less = f"({less} || ({other[1]} == {own[1]} && {other[0]} < {own[0]}))"
        equal = f"({equal} && {other[1]} == {own[1]})"
    body.say(f"if ({less} || ({equal} && j < {names[axis]})) {{ rank++; }}", "}")
    body.say(f"if (rank >= {body.number(target.sizes[axis], 'room')}) {{ return; }}")
    write(body, target, U32, [names[axis]], [*names[:axis], "rank", *names[axis + 1 :]])
    return KernelProgram.of(memory.name, body.kernel(-(-lanes // LANES)))


# Long lines


def plan_runs(verb: Sort, memory: Memory) -> Program:
    """Runs in workgroup memory, and merges of them."""
    runs = _Runs(verb, memory)
    kernels = [runs.first(), *map(runs.merge, range(runs.passes))]
    size = runs.lines * runs.count * runs.words * WORD
    scratch = {_RUNS[k]: size for k in range(min(runs.passes, 2))}
    return KernelProgram.of(memory.name, *kernels, scratch=scratch)


class _Runs:
    """Numbers with their places, in runs; equal numbers keep their order."""

    def __init__(self, verb: Sort, memory: Memory) -> None:
        self.verb, self.memory = verb, memory
        axis, self.length = verb.axis, verb.source.sizes[verb.axis]
        self.room = verb.target.sizes[axis]
        self.outer = (*verb.source.sizes[:axis], *verb.source.sizes[axis + 1 :])
        self.lines = math.prod(self.outer)
        self.kind = U64 if verb.source.data_type.size_in_bytes == 8 else U32
        self.keys = 2 if self.kind is U64 else 1
        self.words = self.keys + 1
        self.size = min(max(ceil_power(self.length), 2), RUN)
        runs = -(-self.length // self.size)
        self.passes = (runs - 1).bit_length()
        self.count = runs * min(self.size, self.room)
        """Elements of a line that are kept of the first runs, and its stride in memory: later ones end no further."""

    def _less(self, a: Sequence[str], b: Sequence[str]) -> str:
        """Whether a number with its place comes first; the words of a key are its low one, and the high one."""
        text = f"{a[-1]} < {b[-1]}"
        for k in range(self.keys):
            text = f"({a[k]} < {b[k]} || ({a[k]} == {b[k]} && {text}))"
        return text

    def _view(self, name: str) -> View:
        return View(name, U32, (self.lines * self.count * self.words,), (1,))

    def _put(self, body: Body, number: int, line: str, place: str, parts: Sequence[str], rank: str) -> None:
        """An element of the runs of a pass, of which the last one is the order itself."""
        if number < self.passes:
            for k, part in enumerate(parts):
                body.store(self._view(_RUNS[number % 2]), f"({place}) * {self.words}u + {k}u", part, U32)
            return
        axis = self.verb.axis
        body.say(f"if ({rank} < {body.number(self.room, 'room')}) {{")
        with body.scope():
            names = take_apart(body, line, Loops(self.outer, (), ()), "l")
            write(body, self.verb.target, U32, [parts[-1]], [*names[:axis], rank, *names[axis:]])
        body.say("}")

    def _kept(self, number: int) -> int:
        """What is kept of a run before a pass."""
        return min(self.size << number, self.room)

    def _runs(self, number: int) -> int:
        return -(-self.length // (self.size << number))

    def first(self) -> Kernel:
        """Runs, each sorted by a workgroup: a bitonic network."""
        body, verb, axis = Body.on(self.memory.gpu), self.verb, self.verb.axis
        runs, size = body.number(self._runs(0), "runs"), body.number(self.size, "size")
        length, lines = body.number(self.length, "length"), body.number(self.lines, "lines")
        names = [f"held{k}" for k in range(self.words)]
        for name in names:
            body.share(name, "u32", RUN)
        body.say(
            f"let line = unit / {runs};", f"let run = unit - line * {runs};", f"if (line >= {lines}) {{ return; }}"
        )
        outer = take_apart(body, "line", Loops(self.outer, (), ()), "c")
        body.say(f"for (var i = lane; i < {size}; i += {LANES}u) {{", f"let at = run * {size} + i;")
        body.say(*(f"var w{k} = 0xffffffffu;" for k in range(self.keys)), f"if (at < {length}) {{")
        with body.scope():
            own = read(body, verb.source, self.kind, [*outer[:axis], "at", *outer[axis:]], self._key)
            body.say(*(f"w{k} = {own[k]};" for k in range(self.keys)), "}")
        body.say(*(f"held{k}[i] = w{k};" for k in range(self.keys)), f"held{self.keys}[i] = at;", "}")
        body.say("workgroupBarrier();", f"for (var wide = 2u; wide <= {size}; wide = wide * 2u) {{")
        body.say("for (var step = wide / 2u; step > 0u; step = step / 2u) {")
        body.say(f"for (var i = lane; i < {size} / 2u; i += {LANES}u) {{")
        body.say("let a = i / step * 2u * step + i % step;", "let b = a + step;")
        parts = [[f"held{k}[{side}]" for k in range(self.words)] for side in "ab"]
        body.say(f"if (({self._less(parts[1], parts[0])}) == ((a & wide) == 0u)) {{")
        for k in range(self.words):
            body.say(f"let x{k} = held{k}[a];", f"held{k}[a] = held{k}[b];", f"held{k}[b] = x{k};")
        body.say("} }", "workgroupBarrier();", "} }")
        kept = body.number(self._kept(0), "kept")
        body.say(f"for (var i = lane; i < {kept}; i += {LANES}u) {{", f"if (run * {size} + i < {length}) {{")
        place = f"line * {body.number(self.count, 'stride')} + run * {kept} + i"
        self._put(body, 0, "line", place, [f"held{k}[i]" for k in range(self.words)], "i")
        body.say("} }")
        return body.kernel(self.lines * self._runs(0))

    def merge(self, number: int) -> Kernel:
        """Runs, two by two."""
        body = Body.on(self.memory.gpu)
        runs, kept = self._runs(number), self._kept(number)
        total, name = self.lines * runs * kept, _RUNS[number % 2]
        count, some, room = (
            body.number(runs, "runs"),
            body.number(kept, "kept"),
            body.number(self._kept(number + 1), "to"),
        )
        stride = body.number(self.count, "stride")
        size, length = body.number(self.size << number, "size"), body.number(self.length, "length")
        body.say(
            f"let i = unit * {LANES}u + lane;",
            f"if (i >= {body.number(total, 'total')}) {{ return; }}",
            f"let all = i / {some};", f"let place = i - all * {some};",
            f"let line = all / {count};", f"let run = all - line * {count};",
            f"if (run * {size} + place >= {length}) {{ return; }}",
            "let other = run ^ 1u;",
            f"var high = select(0u, min({length} - min(other * {size}, {length}), {some}), other < {count});",
            f"let start = line * {stride} + other * {some};",
            f"let own_at = line * {stride} + run * {some} + place;",
        )  # fmt: skip
        view = self._view(name)
        own = [body.line(body.load(view, f"own_at * {self.words}u + {k}u", U32)) for k in range(self.words)]
        body.say("var low = 0u;", "while (low < high) {", "let middle = (low + high) / 2u;")
        with body.scope():
            parts = [
                body.line(body.load(view, f"(start + middle) * {self.words}u + {k}u", U32)) for k in range(self.words)
            ]
            body.say(f"if ({self._less(parts, own)}) {{ low = middle + 1u; }} else {{ high = middle; }}", "}")
        body.say("let rank = place + low;", f"if (rank < {room}) {{")
        self._put(body, number + 1, "line", f"line * {stride} + run / 2u * {room} + rank", own, "rank")
        body.say("}")
        return body.kernel(-(-total // LANES))

    def _key(self, element: Expr) -> Expr:
        return _key(element, is_largest=self.verb.largest)


def _key(x: Expr, *, is_largest: bool) -> Expr:
    """A number without a sign, in the order of the elements: NaN is the largest, and zeros are equal."""
    of = x.type
    assert of is not None  # noqa: S101 - for type checkers: elements are numbers
    if of.is_float:
        bits = x.to(F32).bits(U32)
        found = where(bits >= 1 << 31, ~bits, bits | 1 << 31)
        found = where((bits & 0x7FFFFFFF).equals(0), const(1 << 31, U32), found)
        found = where((bits & 0x7FFFFFFF) > 0x7F800000, const(0xFFFFFFFF, U32), found)
    elif of.size_in_bytes == 8:
        found = x.bits(U64) ^ (1 << 63) if of.is_signed else x
    else:
        found = x.to(DataType.INT32).bits(U32) ^ (1 << 31) if of.is_signed else x.to(U32)
    return ~found if is_largest else found

"""Running sums and products: a workgroup a line, or an invocation a line; long lines of which there are few in three
dispatches: the sums of tiles, the running sum of those, and the tiles. Nobody waits for another workgroup: WebGPU does
not promise that it runs.

Floats are summed in FLOAT64 where the device has it, else in double-floats, and rounded once; integers wrap. Products
of double-floats go one element after the other: a tile's own may pass the range of FLOAT32.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType
from anydml.engines.common.program import Program
from anydml.engines.common.tiles import ceil_power
from anydml.engines.webgpu.codegen.cells import read, write
from anydml.engines.webgpu.codegen.walks import compute, places, take_apart
from anydml.engines.webgpu.codegen.wgsl import Body
from anydml.engines.webgpu.device import WORD
from anydml.engines.webgpu.launch import LANES, KernelProgram
from anydml.engines.webgpu.rows.map import QUAD
from anydml.ir.expressions import Expr
from anydml.ir.loops import Loops
from anydml.ir.numerics.parts import Pair, to_half
from anydml.ir.views import View
from anydml.ir.words import Words, add, multiply

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.webgpu.launch import Kernel
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.verbs import Scan

F32, F16, F64 = DataType.FLOAT32, DataType.FLOAT16, DataType.FLOAT64
U32, U64 = DataType.UINT32, DataType.UINT64
FEW = 256
"""Lines that do not, with a workgroup each."""
NARROW = 16
"""The fewest invocations of a short line, of which a workgroup has several."""
EACH = 16
"""The most elements of a tile that an invocation has."""
TALLIES = 32
"""Sums of tiles that an invocation has, of long lines: 16,384 tiles took 70 us with one (H200)."""
DOUBLE = """
fn sum(a: f64, b: f64) -> f64 { return a + b; }
fn product(a: f64, b: f64) -> f64 { return a * b; }
fn lift(x: f32) -> f64 { return f64(x); }
fn high(a: f64) -> f32 { return keep(f32(a)); }
fn low(a: f64) -> f32 { return f32(a - f64(high(a))); }
"""
PAIR = """
fn is_finite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u; }
fn sum(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
  let s = keep(a.x + b.x);
  if (!is_finite(s)) { return vec2<f32>(s, 0.0); }
  let v = keep(s - a.x);
  let e = keep((a.x - keep(s - v)) + keep(b.x - v));
  let t = keep(e + keep(a.y + b.y));
  let h = select(keep(s + t), s, t == 0.0);
  return vec2<f32>(h, t - keep(h - s));
}
fn product(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
  let p = keep(a.x * b.x);
  if (!is_finite(p)) { return vec2<f32>(p, 0.0); }
  let e = keep(fused(a.x, b.x, -p) + keep(keep(a.x * b.y) + keep(a.y * b.x)));
  let h = keep(p + e);
  return vec2<f32>(h, keep(e - keep(h - p)));
}
fn lift(x: f32) -> vec2<f32> { return vec2<f32>(x, 0.0); }
fn sum_of_one(a: vec2<f32>, x: f32) -> vec2<f32> {
  let s = keep(a.x + x);
  if (!is_finite(s)) { return vec2<f32>(s, 0.0); }
  let v = keep(s - a.x);
  let e = keep((a.x - keep(s - v)) + keep(x - v));
  let t = keep(e + a.y);
  let h = select(keep(s + t), s, t == 0.0);
  return vec2<f32>(h, t - keep(h - s));
}
fn product_of_one(a: vec2<f32>, x: f32) -> vec2<f32> { return product(a, lift(x)); }
fn high(a: vec2<f32>) -> f32 { return a.x; }
fn low(a: vec2<f32>) -> f32 { return a.y; }
"""
CONVERTED = """
fn from_double(l: u32, h: u32) -> vec2<f32> {
  let sign = h & 0x80000000u;
  let e = (h >> 20u) & 0x7ffu;
  let m = h & 0xfffffu;
  if (e == 0x7ffu && (m | l) != 0u) { return vec2<f32>(bitcast<f32>(0x7fc00000u ^ N.zero), 0.0); }
  if (e > 1150u) { return vec2<f32>(bitcast<f32>((sign | 0x7f800000u) ^ N.zero), 0.0); }
  if (e < 897u) { return vec2<f32>(bitcast<f32>(sign ^ N.zero), 0.0); }
  let first = bitcast<f32>((sign | ((e - 896u) << 23u) | (m << 3u) | (l >> 29u)) ^ N.zero);
  let unit = bitcast<f32>((sign | ((e - 896u) << 23u)) ^ N.zero);
  let rest = keep(keep(f32(l & 0x1fffffffu) * 2.220446049250313e-16) * unit);
  let s = keep(first + rest);
  return vec2<f32>(s, keep(rest - keep(s - first)));
}
fn to_double(a: vec2<f32>) -> vec2<u32> {
  let x = bitcast<u32>(a.x); let y = bitcast<u32>(a.y);
  let sign = x & 0x80000000u;
  let e = (x >> 23u) & 255u;
  if (e == 255u) { return vec2<u32>(0u, sign | 0x7ff00000u | select(0u, 0x80000u, (x & 0x7fffffu) != 0u)); }
  if (e == 0u) { return vec2<u32>(0u, sign); }
  var h = ((x & 0x7fffffu) | 0x800000u) << 6u; var l = 0u;
  let f = (y >> 23u) & 255u;
  if (f != 0u && f <= e && e - f < 64u) {
    let d = e - f; let part = ((y & 0x7fffffu) | 0x800000u) << 6u;
    var ph = 0u; var pl = 0u;
    if (d == 0u) { ph = part; } else if (d < 32u) { ph = part >> d; pl = part << (32u - d); }
    else { pl = part >> (d - 32u); }
    if ((y & 0x80000000u) == sign) { l = pl; h = h + ph; }
    else { l = 0u - pl; h = h - ph - select(0u, 1u, pl != 0u); }
  }
  var k = e + 896u;
  if ((h & 0x20000000u) == 0u && (h & 0x40000000u) == 0u) { h = (h << 1u) | (l >> 31u); l = l << 1u; k = k - 1u; }
  let r = l + 0x100u; if (r < l) { h = h + 1u; } l = r;
  if ((h & 0x40000000u) != 0u) { l = (l >> 1u) | (h << 31u); h = h >> 1u; k = k + 1u; }
  return vec2<u32>((l >> 9u) | (h << 23u), sign | (k << 20u) | ((h >> 9u) & 0xfffffu));
}
"""


# Tallies


class _Integers:
    """A tally of 32 or 64 bits, which wraps: the same bits with a sign and without."""

    def __init__(self, verb: Scan, body: Body, _: Memory) -> None:
        self.verb, self.body = verb, body
        self.kind = U64 if verb.source.data_type.size_in_bytes == 8 else U32
        self.is_wide = self.kind is U64
        self.type = "vec2<u32>" if self.is_wide else "u32"
        self.words = 2 if self.is_wide else 1
        is_sum = verb.function == "sum"
        self.neutral = ("vec2<u32>(0u, 0u)" if is_sum else "vec2<u32>(1u, 0u)") if self.is_wide else f"{1 - is_sum}u"
        self.start = self.none = self.neutral
        body.declare(f"fn step(a: {self.type}, b: {self.type}) -> {self.type} {{ return join(a, b); }}\n")
        if not self.is_wide:
            body.declare(f"fn join(a: u32, b: u32) -> u32 {{ return a {'+' if is_sum else '*'} b; }}\n")
            return
        leaves = [Expr("held", U32, (), k) for k in range(4)]
        found = (add if is_sum else multiply)(Words(*leaves[:2]), Words(*leaves[2:]))
        given = dict(zip(leaves, ("a.x", "a.y", "b.x", "b.y"), strict=True))
        body.function("join", "a: vec2<u32>, b: vec2<u32>", "vec2<u32>", given, found, "vec2<u32>({0}, {1})")

    def read(self, view: View, at: Sequence[str]) -> str:
        """An element."""
        parts = read(self.body, view, self.kind, at)
        return f"vec2<u32>({', '.join(parts)})" if self.is_wide else parts[0]

    def of_word(self, word: str) -> str:
        """An element of a word."""
        return word

    def write(self, view: View, at: Sequence[str], tally: str) -> None:
        """A tally as an element."""
        parts = [f"{tally}.x", f"{tally}.y"] if self.is_wide else [tally]
        write(self.body, view, self.kind, parts, at)

    def word(self, tally: str) -> str:
        """A tally as the word of an element."""
        return tally

    def lifted(self, element: str) -> str:
        """An element as a tally."""
        return element

    taken = read
    handed = write


class _Floats:
    """A tally of FLOAT64, or a double-float."""

    words = 2

    def __init__(self, verb: Scan, body: Body, memory: Memory) -> None:
        self.verb, self.body = verb, body
        self.is_double = "shader-f64" in memory.gpu.features
        body.declare(DOUBLE if self.is_double else PAIR)
        self.type = "f64" if self.is_double else "vec2<f32>"
        zero = "bitcast<f32>(0x80000000u ^ N.zero)"  # -0.0, which changes no -0.0
        self.neutral = f"lift({zero if verb.function == 'sum' else 1.0})"
        self.start = f"lift({float(verb.function == 'product')})"
        """What comes before the first element."""
        self.none = self.neutral if self.is_double else self.neutral.removeprefix("lift(").removesuffix(")")
        """An element that changes nothing."""
        own, one = ("f64", "") if self.is_double else ("f32", "_of_one")
        body.declare(
            f"fn join(a: {self.type}, b: {self.type}) -> {self.type} {{ return {verb.function}(a, b); }}\n"
            f"fn step(a: {self.type}, x: {own}) -> {self.type} {{ return {verb.function}{one}(a, x); }}\n"
        )
        if (verb.before or verb.after) and not self.is_double:
            body.declare(CONVERTED)

    def read(self, view: View, at: Sequence[str]) -> str:
        """An element."""
        found = read(self.body, view, F32, at)[0]
        return f"lift({found})" if self.is_double else found

    def of_word(self, word: str) -> str:
        """An element of a word."""
        return f"lift(bitcast<f32>({word}))" if self.is_double else f"bitcast<f32>({word})"

    def lifted(self, element: str) -> str:
        """An element as a tally."""
        return element if self.is_double else f"lift({element})"

    def write(self, view: View, at: Sequence[str], tally: str) -> None:
        """A tally, rounded once."""
        body = self.body
        with body.scope():
            first, rest = (Expr("held", F32, (), k) for k in range(2))
            body.put(first, f"high({tally})")
            found: Expr = first
            if view.data_type is F16:
                body.put(rest, f"low({tally})")
                found = to_half(Pair(first, rest))
                body.take(found)
                compute(body, [found], {}, ())
            write(body, view, F32, [body.names[found]], at)

    def word(self, tally: str) -> str:
        """A tally as the word of an element."""
        return f"bitcast<u32>(high({tally}))"

    def taken(self, view: View, at: Sequence[str]) -> str:
        """A tally to go on from."""
        if self.is_double:
            return self.body.double(view, at)
        low, high = read(self.body, View(view.tensor, U64, view.sizes, view.strides, view.offset), U64, at)
        return f"from_double({low}, {high})"

    def handed(self, view: View, at: Sequence[str], tally: str) -> None:
        """The tally as one to go on from."""
        if self.is_double:
            self.body.say(f"{self.body.double(view, at)} = {tally};")
            return
        words = self.body.line(f"to_double({tally})")
        aim = View(view.tensor, U64, view.sizes, view.strides, view.offset)
        write(self.body, aim, U64, [f"{words}.x", f"{words}.y"], at)


def _tally(verb: Scan, body: Body, memory: Memory) -> _Integers | _Floats:
    return (_Floats if verb.source.data_type.is_float else _Integers)(verb, body, memory)


# Lines


def plan_scan(verb: Scan, memory: Memory) -> Program:
    """Lines, each by an invocation, which goes along it; any."""
    count = _lines(verb)
    if not count:
        return KernelProgram.of(memory.name)
    body = Body.on(memory.gpu)
    tally = _tally(verb, body, memory)
    body.say(f"let i = unit * {LANES}u + lane;", f"if (i >= {body.number(count, 'count')}) {{ return; }}")
    at = _line_of(verb, body, "i")
    _begin(verb, body, tally, at)
    length = body.number(verb.target.sizes[verb.axis], "length")
    body.say(f"for (var j = 0u; j < {length}; j++) {{")
    place = body.line(f"{length} - 1u - j") if verb.reverse else "j"
    element = body.line(tally.read(verb.source, at(place)))
    if verb.exclusive:
        tally.write(verb.target, at(place), _shown(verb, body, tally, "tally", "j"))
        body.say(f"tally = step(tally, {element});")
    else:
        body.say(f"tally = step(tally, {element});")
        tally.write(verb.target, at(place), "tally")
    body.say("}")
    if verb.after is not None:
        tally.handed(verb.after, at("0u"), "tally")
    return KernelProgram.of(memory.name, body.kernel(-(-count // LANES)))


def _lines(verb: Scan) -> int:
    sizes = verb.target.sizes
    return math.prod((*sizes[: verb.axis], *sizes[verb.axis + 1 :]))


def _line_of(verb: Scan, body: Body, number: str) -> Callable[[str], list[str]]:
    """The coordinates of a line's elements, given their place along it."""
    sizes, axis = verb.target.sizes, verb.axis
    names = take_apart(body, number, Loops((*sizes[:axis], *sizes[axis + 1 :]), (), ()), "c")
    return lambda place: [*names[:axis], place, *names[axis:]]


def _begin(verb: Scan, body: Body, tally: _Integers | _Floats, at: Callable[[str], list[str]]) -> None:
    """The tally that a line goes on from."""
    start = tally.neutral if verb.before is None else tally.taken(verb.before, at("0u"))
    body.say(f"var tally = {start};")


def _shown(verb: Scan, body: Body, tally: _Integers | _Floats, before: str, place: str) -> str:
    """What comes before an element as it is written: before the first one a zero without a sign."""
    if verb.before is not None or tally.start == tally.neutral:
        return before
    name = f"v{next(body.fresh)}"
    body.say(f"var {name} = {before};", f"if ({place} == 0u) {{ {name} = {tally.start}; }}")
    return name


# Tiles


def plan_tiles(verb: Scan, memory: Memory) -> Program:
    """Lines, each by a workgroup, or by several where lines are few and long."""
    axis, views, length = verb.axis, (verb.source, verb.target), verb.target.sizes[verb.axis]
    each = EACH if length >= NARROW * EACH else QUAD
    has_quads = length % QUAD == 0 and all(
        view.data_type.size_in_bytes == WORD
        and view.strides[axis] == 1
        and not any(stride % QUAD for k, stride in enumerate(view.strides) if k != axis)
        for view in views
    )
    plain = functools.partial(_kernels, verb, memory, min(each, QUAD), 1)
    scratch = {_TALLIES: _lines(verb) * -(-length // (LANES * QUAD)) * 2 * WORD}
    if not has_quads:
        return KernelProgram.of(memory.name, *plain(), scratch=scratch)
    starts = tuple((view.tensor, view.offset * WORD) for view in views)
    return AlignedProgram(
        starts,
        KernelProgram.of(memory.name, *_kernels(verb, memory, each, QUAD), scratch=scratch),
        lambda: KernelProgram.of(memory.name, *plain(), scratch=scratch),
    )


def _kernels(verb: Scan, memory: Memory, each: int, width: int) -> list[Kernel]:
    length = verb.target.sizes[verb.axis]
    tiles = -(-length // (LANES * each))
    ways = ("sums", "totals", "tiles") if tiles > 1 and _lines(verb) <= FEW else ("lines",)
    lanes = LANES if len(ways) > 1 else max(min(ceil_power(-(-length // each)), LANES), NARROW)
    return [getattr(_Tiles(verb, memory, each, width, lanes), way)() for way in ways]


@dataclass(frozen=True, slots=True)
class AlignedProgram(Program):
    """Tiles that move 16 bytes at once, and others for addresses that are no multiples of 16."""

    starts: tuple[tuple[str, int], ...]
    """By tensor, bytes from its first element to where quads begin."""
    wide: KernelProgram
    plain: Callable[[], KernelProgram]

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        is_aligned = all((places[tensor] + by) % (QUAD * WORD) == 0 for tensor, by in self.starts)
        return (self.wide if is_aligned else self.plain()).bind(places)


_TALLIES = "\0tallies"


class _Tiles:
    """Tiles of a line: `each` neighbours an invocation, and a scan of their tallies in workgroup memory."""

    def __init__(self, verb: Scan, memory: Memory, each: int, width: int, lanes: int) -> None:
        self.verb, self.each, self.width, self.lanes = verb, each, width, lanes
        self.body = Body.on(memory.gpu)
        self.tally = _tally(verb, self.body, memory)
        self.length = self.body.number(verb.target.sizes[verb.axis], "length")
        self.count = -(-verb.target.sizes[verb.axis] // (LANES * each))
        self.few = 1 << lanes.bit_length() // 2
        """The invocations that have a tally together."""
        self.body.share("held", self.tally.type, LANES)
        self.body.share("together", self.tally.type, LANES // self.few)
        tallies = _lines(verb) * self.count
        words = tallies if self.tally.type == "f64" else tallies * self.tally.words
        self.view = View(_TALLIES, U32, (words,), (1,))

    def _line(self) -> Callable[[str], list[str]]:
        lines = self.body.number(_lines(self.verb), "lines")
        self.body.say(f"let part = lane % {self.lanes}u;")
        if self.lanes == LANES:
            self.body.say(f"if (line >= {lines}) {{ return; }}", "let is_there = true;")
        else:  # all come to the barriers
            self.body.say(f"let is_there = line_there < {lines};", f"let line = min(line_there, {lines} - 1u);")
        return _line_of(self.verb, self.body, "line")

    def _element(self, index: str) -> str:
        name = self.body.tensor(self.view, self.tally.type)
        words = self.tally.words
        base = self.body.base(name)
        return f"{name}[{base if words == 1 else f'({base}) / {words}u'} + {index}]"

    # Kernels

    def lines(self) -> Kernel:
        """A workgroup a line, or a part of one a short line, tile after tile."""
        verb, body, tally, together = self.verb, self.body, self.tally, LANES // self.lanes
        if together == 1:
            body.say("let line = unit;")
        else:
            body.say(f"let line_there = unit * {together}u + lane / {self.lanes}u;")
        at = self._line()
        _begin(verb, body, tally, at)
        body.say(f"for (var start = 0u; start < {self.length}; start += {self.lanes * self.each}u) {{")
        with body.scope():
            self._scan(at)
            body.say("let run = join(tally, before);")
            self._put(at)
            body.say("tally = join(tally, whole);")
        body.say("}")
        if verb.after is not None:
            body.say("if (part == 0u && is_there) {")
            tally.handed(verb.after, at("0u"), "tally")
            body.say("}")
        return body.kernel(-(-_lines(verb) // together))

    def sums(self) -> Kernel:
        """The tallies of all tiles, each for itself."""
        body = self.body
        self._tile()
        at = self._line()
        self._take(at, is_apart=True)
        self._scan_lanes("own")
        body.say(f"if (lane == 0u) {{ {self._element('unit')} = whole; }}")
        return body.kernel(_lines(self.verb) * self.count)

    def totals(self) -> Kernel:
        """What comes before each tile, by a workgroup a line."""
        verb, body, tally = self.verb, self.body, self.tally
        body.say("let line = unit;")
        at = self._line()
        _begin(verb, body, tally, at)
        count = body.number(self.count, "tiles")
        body.say(
            f"for (var start = 0u; start < {count}; start += {LANES * TALLIES}u) {{",
            f"let first = start + lane * {TALLIES}u;",
            f"let last = min(first + {TALLIES}u, {count});",
            f"var own = {tally.neutral};",
            f"for (var k = first; k < last; k++) {{ own = join(own, {self._element(f'line * {count} + k')}); }}",
        )
        self._scan_lanes("own")
        one = self._element(f"line * {count} + k")
        body.say(
            "var run = join(tally, before);",
            f"for (var k = first; k < last; k++) {{ let next = join(run, {one}); {one} = run; run = next; }}",
            "tally = join(tally, whole);",
            "}",
        )
        if verb.after is not None:
            body.say("if (lane == 0u) {")
            tally.handed(verb.after, at("0u"), "tally")
            body.say("}")
        return body.kernel(_lines(verb))

    def tiles(self) -> Kernel:
        """Each tile, given what comes before it."""
        self._tile()
        at = self._line()
        self._scan(at)
        self.body.say(f"let run = join({self._element('unit')}, before);")
        self._put(at)
        return self.body.kernel(_lines(self.verb) * self.count)

    # Steps

    def _tile(self) -> None:
        count = self.body.number(self.count, "tiles")
        self.body.say(f"let line = unit / {count};", f"let start = (unit - line * {count}) * {LANES * self.each}u;")

    def _quads(self, view: View, at: Callable[[str], list[str]], name: str) -> str:
        """The quads of a view along a line: the text of where a quad of elements lies."""
        body, verb = self.body, self.verb
        loops = Loops(view.sizes, (view.strides,), (view.offset,))
        (first,) = places(body, loops, at("0u"), name)
        tensor = body.tensor(view, "vec4<u32>")
        body.say(f"let {name} = ({body.base(tensor)} + {first}) / {QUAD}u;")
        place = f"{self.length} / {QUAD}u - 1u - ({{0}})" if verb.reverse else "{0}"
        return f"{tensor}[{name} + {place}]"

    def _take(self, at: Callable[[str], list[str]], *, is_apart: bool = False) -> None:
        """An invocation's elements `e0`, `e1`, …, and `own`, their tally: neighbours, or steps a workgroup apart."""
        body, tally, width = self.body, self.tally, self.width
        body.say(f"let first = start + part * {width if is_apart else self.each}u;")
        letters = "wzyx" if self.verb.reverse else "xyzw"
        apart = width * LANES if is_apart else width
        quads = self._quads(self.verb.source, at, "from_line") if width == QUAD else ""
        for k in range(self.each // width if quads else 0):
            test = f"first + {k * apart}u < {self.length}"
            place = quads.format(f"first / {QUAD}u + {k * apart // QUAD}u")
            body.say(f"var q{k} = vec4<u32>();", f"if ({test}) {{ q{k} = {place}; }}")
        for k in range(self.each):
            past = k // width * apart + k % width
            body.say(f"var e{k} = {tally.none};", f"if (first + {past}u < {self.length}) {{")
            with body.scope():
                if quads:
                    found = tally.of_word(f"q{k // QUAD}.{letters[k % QUAD]}")
                else:
                    found = tally.read(self.verb.source, at(self._place(past)))
                body.say(f"e{k} = {found};", "}")
        body.say(f"var own = {tally.lifted('e0')};", *(f"own = step(own, e{k});" for k in range(1, self.each)))

    def _place(self, k: int) -> str:
        place = f"first + {k}u"
        return self.body.line(f"{self.length} - 1u - ({place})" if self.verb.reverse else place)

    def _scan(self, at: Callable[[str], list[str]]) -> None:
        self._take(at)
        self._scan_lanes("own")

    def _scan_lanes(self, own: str) -> None:
        """`before`: what the lanes before have; `whole`: what all have. By few lanes, and by what those have."""
        body, few, neutral = self.body, self.few, self.tally.neutral
        parts = self.lanes // few
        body.say(
            f"held[lane] = {own};",
            "workgroupBarrier();",
            f"var before = {neutral};",
            f"for (var h = lane - lane % {few}u; h < lane; h++) {{ before = join(before, held[h]); }}",
            f"if (lane % {few}u == {few - 1}u) {{ together[lane / {few}u] = join(before, {own}); }}",
            "workgroupBarrier();",
            f"var earlier = {neutral};",
            f"var whole = {neutral};",
            f"for (var h = 0u; h < {parts}u; h++) {{",
            f"if (h == part / {few}u) {{ earlier = whole; }}",
            f"whole = join(whole, together[lane / {self.lanes}u * {parts}u + h]);",
            "}",
            "before = join(earlier, before);",
        )

    def _put(self, at: Callable[[str], list[str]]) -> None:
        """The elements of the target."""
        body, tally, each, verb = self.body, self.tally, self.each, self.verb
        body.say(*(f"let r{k} = step({f'r{k - 1}' if k else 'run'}, e{k});" for k in range(each)))
        values = [f"r{k}" for k in range(each)]
        if verb.exclusive:
            values = [_shown(verb, body, tally, "run", "first"), *values[:-1]]
        if self.width == QUAD:
            quads = self._quads(verb.target, at, "to_line")
            for k in range(0, each, QUAD):
                parts = [tally.word(value) for value in values[k : k + QUAD]]
                whole = ", ".join(parts[::-1] if verb.reverse else parts)
                place = quads.format(f"first / {QUAD}u + {k // QUAD}u")
                body.say(f"if (is_there && first + {k}u < {self.length}) {{ {place} = vec4<u32>({whole}); }}")
            return
        for k, value in enumerate(values):
            body.say(f"if (is_there && first + {k}u < {self.length}) {{")
            with body.scope():
                tally.write(verb.target, at(self._place(k)), body.line(value))
            body.say("}")

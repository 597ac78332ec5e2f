"""Maps: an expression of each element, computed by rows of the simplified walk.

Where every view lies along the inner dimension an invocation moves 16 bytes of each at once: four elements, or words of
narrow ones. That wants addresses that are multiples of 16, which are known when a kernel is bound: it has another for
those that are not. What is the same for a whole row is computed once for it, as an index of a gather is.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.core.errors import Fault, UnsupportedError
from anydml.core.memory import word_bytes
from anydml.engines.common.tiles import ceil_power
from anydml.engines.webgpu.codegen.walks import TYPES, Leaves, compute, places, take_apart
from anydml.engines.webgpu.codegen.wgsl import WGSL, Body, sum_of
from anydml.engines.webgpu.device import WORD
from anydml.engines.webgpu.launch import LANES, KernelProgram, joined
from anydml.engines.webgpu.move.checks import checked, guarded
from anydml.engines.webgpu.rows.words import per_word, unpacked
from anydml.ir.expressions import Expr
from anydml.ir.legalise import Legal, legalise
from anydml.ir.loops import Loops, simplify
from anydml.ir.row_passes import varies_along_row
from anydml.ir.trees import fetched, rewrite, walk
from anydml.ir.verbs import Map, Scan, Sort

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.common.program import Program
    from anydml.engines.webgpu.device import Gpu
    from anydml.engines.webgpu.launch import Bindable, Kernel
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.verbs import Primitive, Verb
    from anydml.ir.views import View

QUAD = 4
"""Words of 16 bytes."""
MANY = 2**20
"""Steps of a walk from which on an invocation takes several, a workgroup apart."""
EACH = 4
"""The most of them."""
FULL = 0.7
"""The part of a row's lanes that must have an element; else elements are counted one by one."""
WELL = 0.9
"""The part of them that is worth no fewer lanes."""
SHORTEST = 32
"""Lanes that read one after the other."""
INNER = (0, 1, 2, 4)
"""Words from one element to the next that quads can be made of."""
MOST = 2**32 - 2**20
"""Elements of a walk: their numbers have 32 bits, those of the last workgroup too."""
CUT = 1024
"""Elements that parts of a dimension have a multiple of."""
U32, I32 = DataType.UINT32, DataType.INT32


@dataclass(frozen=True, slots=True)
class Aligned:
    """A kernel that moves 16 bytes at once, and another for addresses that are no multiples of 16."""

    wide: Kernel
    plain: Callable[[], Kernel]
    starts: tuple[tuple[str, int], ...]
    """By tensor, bytes from its first element to where quads begin."""

    def dispatch(self, memory: Memory, places: Mapping[str, int]) -> Callable[[], None]:
        """As of a kernel."""
        if all((places[tensor] + by) % (QUAD * WORD) == 0 for tensor, by in self.starts):
            return self.wide.dispatch(memory, places)
        return self.plain().dispatch(memory, places)


def plan_map(verb: Map, memory: Memory) -> Program:
    """Its kernels, after the checks of indices that it asks for."""
    fresh = functools.partial(guarded, verb.checks, memory.gpu)
    return checked(verb.checks, KernelProgram.of(memory.name, *map_kernels(verb, fresh, memory.gpu)), memory)


def map_kernels(verb: Map, fresh: Callable[[], Body], gpu: Gpu) -> list[Bindable]:
    """The kernels of a map, whose bodies may have lines before them; none where there is nothing to compute."""
    if not math.prod(verb.sizes):
        return []
    tensors = {view.tensor for view in verb.views}
    if len(tensors) > gpu.most_bindings:
        if len(verb.targets) > 1:
            return [Apart(tuple(tuple(map_kernels(one, fresh, gpu)) for one in verb.apart()), verb)]
        raise _unsupported(
            gpu, f"a kernel takes {len(tensors)} tensors, of which {gpu.most_bindings} are bound at most"
        )
    kernels: list[Bindable] = []
    for piece in pieces(flattened(verb), gpu):
        kernels += [made for part in _whole_words(piece) if (made := row_kernel(unpacked(part), fresh)) is not None]
    return kernels


def _unsupported(gpu: Gpu, rule: str) -> UnsupportedError:
    rule = f"{rule}, on {gpu.info}"
    return UnsupportedError(
        "Device", Fault(field="name", rule=rule, value=f"webgpu:{gpu.info.index}", way_out='use Device("cpu")')
    )


@dataclass(frozen=True, slots=True)
class Apart:
    """A map for each target of one that takes more tensors than a kernel can, where none is written over too early."""

    parts: tuple[tuple[Bindable, ...], ...]
    verb: Map

    def dispatch(self, memory: Memory, places: Mapping[str, int]) -> Callable[[], None]:
        """As of a kernel."""
        for target in self.verb.targets:
            low, high = _reach(target, places[target.tensor])
            for source in self.verb.sources:
                start, end = _reach(source, places[source.tensor])
                if start < high and low < end:
                    raise _unsupported(
                        memory.gpu, f"{source.tensor} is written over, and {len(self.parts)} kernels read it"
                    )
        return joined([one.dispatch(memory, places) for part in self.parts for one in part])


def _reach(view: View, address: int = 0) -> tuple[int, int]:
    """The bytes from a view's lowest element to its highest."""
    reach = [stride * (size - 1) for size, stride in zip(view.sizes, view.strides, strict=True)]
    low, high = view.offset + sum(min(r, 0) for r in reach), view.offset + sum(max(r, 0) for r in reach)
    width = view.data_type.size_in_bytes
    return address + low * width, address + (high + 1) * width


def pieces(verb: Verb, gpu: Gpu) -> list[Verb]:
    """Parts of a verb whose tensors can be bound, and of a map whose elements have numbers of 32 bits.

    A dimension is cut that nothing goes along. A verb without one is left to its kernels, which bind what they can.
    """
    room = gpu.largest_binding - 2 * gpu.offset_alignment
    fetched_slots = set(fetched(*verb.values))
    is_map = isinstance(verb, Map)
    loaded = [view for k, view in enumerate(verb.sources) if k not in fetched_slots] + [*verb.targets]
    for slot in fetched_slots:
        low, high = _reach(verb.sources[slot])
        if high - low > room and is_map:
            what = f"{word_bytes(high - low)} of {verb.sources[slot].tensor} are read at computed indices"
            raise _unsupported(gpu, f"{what}, and a kernel binds {word_bytes(room)} of a tensor at most")
    sizes = [(high - low, view) for view in loaded for low, high in [_reach(view)]]
    size, view = max(sizes, key=lambda one: one[0], default=(0, verb.target))
    if size <= room and (math.prod(verb.sizes) < MOST or not is_map):
        return [verb]
    steps = [abs(stride) * (n - 1) for n, stride in zip(view.sizes, view.strides, strict=True)]
    if size <= room:
        steps = [n - 1 for n in verb.sizes]
    free = _free(verb)
    k = max(free, key=steps.__getitem__, default=-1)
    if not is_map and size - sum(steps[n] for n in free) * view.data_type.size_in_bytes > room:
        return [verb]  # the smallest parts are too large as well
    if k < 0 or not steps[k]:
        raise _unsupported(gpu, f"{word_bytes(size)} of {view.tensor} cannot be bound in parts of {word_bytes(room)}")
    half = verb.sizes[k] // 2
    half -= half % (CUT if half > CUT else QUAD if half > QUAD else 1)
    return [
        piece
        for start, count in ((0, half), (half, verb.sizes[k] - half))
        for piece in pieces(_window(verb, fetched_slots, k, start, count), gpu)
    ]


def _free(verb: Primitive) -> list[int]:
    """The dimensions along which elements have nothing to do with each other."""
    if isinstance(verb, (Scan, Sort)):
        return [k for k in range(len(verb.sizes)) if k != verb.axis]
    return list(range(len(verb.sizes) - verb.depth))


def _window(verb: Verb, fetched_slots: set[int], k: int, start: int, count: int) -> Verb:
    """A part of a dimension."""
    first = tuple(start if n == k else 0 for n in range(len(verb.sizes)))

    def part(view: View) -> View:
        return view.window(first, (1,) * len(first), (*view.sizes[:k], count, *view.sizes[k + 1 :]))

    def change(node: Expr) -> Expr:
        is_cut = node.op == "coordinate" and node.value == k and start
        return node + start if is_cut else node

    sources = tuple(view if n in fetched_slots else part(view) for n, view in enumerate(verb.sources))
    return replace(verb, sources=sources).writing(part).computing(lambda value: rewrite(value, change))


def flattened(verb: Map) -> Map:
    """The same with as few dimensions as its views have in common, where nothing is asked of coordinates."""
    if _is_placed(verb):
        return verb
    views = (*verb.sources, *verb.targets)
    if not views:
        return verb
    loops = Loops(verb.sizes, tuple(view.strides for view in views), tuple(view.offset for view in views))
    found = simplify(loops, len(verb.sources))
    made = [
        replace(view, sizes=found.sizes, strides=strides, offset=offset)
        for view, strides, offset in zip(views, found.strides, found.offsets, strict=True)
    ]
    return _with(verb, made)


def _with(verb: Map, views: Sequence[View]) -> Map:
    count = len(verb.sources)
    also = tuple(write._replace(target=view) for write, view in zip(verb.also, views[count + 1 :], strict=True))
    return replace(verb, sources=tuple(views[:count]), target=views[count], also=also)


def _whole_words(verb: Map) -> list[Map]:
    """A row of narrow elements that is no whole number of words, in two: whole words, and the rest."""
    views, count = (*verb.sources, *verb.targets), math.prod(verb.sizes)
    per = max(map(per_word, views), default=1)
    is_row = len(verb.sizes) == 1 and count >= LANES and not any(target.offset % per for target in verb.targets)
    if count % per == 0 or not is_row or _is_placed(verb):
        return [verb]
    first = count // per * per
    return [
        _with(verb, [view.window((start,), (1,), (size,)) for view in views])
        for start, size in ((0, first), (first, count - first))
    ]


def _is_placed(verb: Map) -> bool:
    """Whether something is asked of coordinates."""
    return any(node.op in ("coordinate", "fetch") for node in walk(*verb.values))


def row_kernel(verb: Map, fresh: Callable[[], Body]) -> Kernel | Aligned | None:
    """By rows: quads where they fit, else element by element."""
    legal = legalise(verb, TYPES)
    if not math.prod(legal.sizes):
        return None
    found = _Walk(legal)
    if not found.loops.sizes:
        return counted_kernel(legal, fresh())
    if found.has_quads:
        wide = _Rows(found, fresh(), QUAD).kernel()
        return Aligned(wide, functools.partial(_plain, found, fresh), found.starts)
    return _plain(found, fresh)


def _plain(found: _Walk, fresh: Callable[[], Body]) -> Kernel:
    return _Rows(found, fresh(), 1).kernel() if found.has_rows else counted_kernel(found.legal, fresh())


def map_kernel(verb: Map, body: Body) -> Kernel | None:
    """One invocation an element, or a word of narrow ones, for any addresses."""
    legal = legalise(verb, TYPES)
    return counted_kernel(legal, body) if math.prod(legal.sizes) else None


def counted_kernel(legal: Legal, body: Body) -> Kernel:
    """Elements by their running number."""
    count = math.prod(legal.sizes)
    leaves = Leaves.of(legal)
    whole = leaves.loops(legal.sizes, [view.strides for view in leaves.targets])
    read = len(leaves.loads) + len(leaves.coordinates)
    # Nothing but insertions is led by what it reads.
    loops = simplify(whole, read if leaves.targets else 0) if whole.strides else whole.pick(())
    body.take(*leaves.values)
    body.say(f"let i = unit * {LANES}u + lane;", f"if (i >= {body.number(count, 'count')}) {{ return; }}")
    found = places(body, loops, take_apart(body, "i", loops, "c"), "c")
    compute(body, leaves.values, dict(zip((*leaves.loads, *leaves.coordinates), found, strict=False)), legal.sources)
    write(body, legal, found[read:])
    return body.kernel(-(-count // LANES))


def write(body: Body, legal: Legal, at: list[str]) -> None:
    """Lines that write what was computed."""
    for one, place in zip(legal.writes, at, strict=True):
        body.store(one.target, place, body.names[one.value], one.value.type)
    for insertion in legal.insertions:
        word, mask, value = (body.names[part] for part in (insertion.word, insertion.mask, insertion.value))
        body.insert(insertion.target, word, mask, value)


# By rows


def _filled(steps: int, lanes: int) -> float:
    return steps / (-(-steps // lanes) * lanes)


def lanes_of(steps: int) -> int:
    """The invocations of a row, a power of two: the most of which nearly all have a step, 32 at least."""
    if steps <= SHORTEST:
        return ceil_power(steps)
    several = [LANES >> k for k in range(4) if LANES >> k <= ceil_power(steps)]
    return next((n for n in several if _filled(steps, n) >= WELL), max(several, key=lambda n: _filled(steps, n)))


def _bare(index: Expr) -> Expr:
    """An index without conversions between integers of 32 bits."""
    while index.op in ("cast", "bits"):
        (index,) = index.args
    return index


class _Walk:
    """What a legal map reads and writes, its dimensions simplified, the inner one apart."""

    def __init__(self, legal: Legal) -> None:
        self.legal = legal
        self.leaves = leaves = Leaves.of(legal)
        whole = leaves.loops(legal.sizes, [view.strides for view in leaves.targets])
        self.read = (*leaves.loads, *leaves.coordinates)
        lead = len(self.read) if leaves.targets else 0
        self.loops = simplify(whole, lead) if whole.strides else Loops((), (), ())
        if not self.loops.sizes:
            return
        self.inner = [row[-1] for row in self.loops.strides]
        varying = {node for node, step in zip(self.read, self.inner, strict=False) if step}
        self.lines = self._lines()
        """Of fetches along the inner dimension, the steps between elements; their other indices are a row's."""
        self.changes = varies_along_row(leaves.values, varying | set(self.lines))
        for fetch in [one for one in self.lines if any(self.changes[arg] for arg in one.args[:-1])]:
            del self.lines[fetch]
        self.changes = varies_along_row(leaves.values, varying | set(self.lines))
        self.has_quads, self.words = self._quads(), self._words()

    def _lines(self) -> dict[Expr, int]:
        """Fetches whose last index is the walk's own along its inner dimension."""
        found: dict[Expr, int] = {}
        steps = dict(zip(self.leaves.coordinates, self.inner[len(self.leaves.loads) :], strict=False))
        for node in walk(*self.leaves.values):
            if node.op != "fetch" or not node.args:
                continue
            last = _bare(node.args[-1])
            if last.op == "coordinate" and steps.get(last) == 1:
                found[node] = self.legal.sources[int(node.value)].strides[-1]
        return found

    @property
    def count(self) -> int:
        return self.loops.sizes[-1]

    @property
    def rows(self) -> int:
        return math.prod(self.loops.sizes[:-1])

    @property
    def has_rows(self) -> bool:
        """Whether rows have elements for most of the lanes that take them."""
        return _filled(self.count, lanes_of(self.count)) >= FULL

    @property
    def moved(self) -> list[int]:
        """The views that are read or written a word an element, by number: no coordinates."""
        loads, read = len(self.leaves.loads), len(self.read)
        return [v for v in range(len(self.inner)) if v < loads or v >= read]

    def _quads(self) -> bool:
        """Whether 16 bytes of each view can be moved at once."""
        if self.legal.insertions or (self.rows > 1 and self.count % QUAD):
            return False
        for v in self.moved:
            if self.inner[v] not in INNER or (self.inner[v] and any(s % QUAD for s in self.loops.strides[v][:-1])):
                return False
        if not all(self.inner[len(self.read) :]):
            return False
        for fetch, step in self.lines.items():
            view = self.legal.sources[int(fetch.value)]
            if step not in INNER or any(s % QUAD for s in view.strides[:-1]) or self.count % QUAD:
                return False
        return True

    def _words(self) -> dict[object, tuple[int, int]]:
        """By view, its step, and the word within the step that it is of, among the views of its tensor and step."""
        found: dict[object, tuple[int, int]] = {}
        firsts: dict[tuple[str, int], int] = {}
        entries: list[tuple[object, View, int, int]] = [
            (v, self.view(v), self.inner[v], self.loops.offsets[v]) for v in self.moved if self.inner[v]
        ]
        for fetch, step in self.lines.items():
            view = self.legal.sources[int(fetch.value)]
            entries.append((fetch, view, step, view.offset))
        for _, view, step, offset in entries:
            key = (view.tensor, step)
            firsts[key] = min(firsts.get(key, offset), offset)
        for name, view, step, offset in entries:
            found[name] = (step, (offset - firsts[view.tensor, step]) % step if step else 0)
        return found

    def view(self, number: int) -> View:
        """Of what is read or written."""
        read = len(self.read)
        return self.leaves.views[number] if number < read else self.leaves.targets[number - read]

    @property
    def starts(self) -> tuple[tuple[str, int], ...]:
        """Where quads begin, which are to be at multiples of 16 bytes."""
        words = self.words
        found = {
            (self.view(v).tensor, (self.loops.offsets[v] - words[v][1]) * WORD) for v in self.moved if self.inner[v]
        }
        for fetch in self.lines:
            view = self.legal.sources[int(fetch.value)]
            if words[fetch][0]:
                found.add((view.tensor, (view.offset - words[fetch][1]) * WORD))
        return tuple(sorted(found))


class _Rows:
    """The lines of a walk by rows, `width` elements at once."""

    def __init__(self, plan: _Walk, body: Body, width: int) -> None:
        self.plan, self.body, self.width = plan, body, width
        self.legal, self.leaves = plan.legal, plan.leaves
        self.given: list[Expr] = []
        """The parameters of the function of an element."""
        self.row_names: dict[Expr, str] = {}
        self.starts: dict[object, str] = {}

    def kernel(self) -> Kernel:
        plan, body, width = self.plan, self.body, self.width
        loops, steps = plan.loops, -(-plan.count // width)
        body.take(*self.leaves.values)
        is_many = plan.rows * steps >= MANY
        lanes = LANES
        if plan.rows > 1:
            lanes = lanes_of(max(-(-steps // EACH), min(steps, SHORTEST)) if is_many else steps)
        each = min(EACH, -(-steps // lanes)) if is_many else 1
        if plan.rows == 1:
            units = -(-steps // (LANES * each))
            body.say(f"let x = unit * {LANES * each}u + lane;")
            names: list[str] = []
        else:
            blocks = -(-steps // (lanes * each))
            shift = body.number(lanes.bit_length() - 1, "lanes")
            body.say(
                f"let block = unit / {body.number(blocks, 'blocks')};",
                f"let row = (block << (8u - {shift})) + (lane >> {shift});",
                f"if (row >= {body.number(plan.rows, 'rows')}) {{ return; }}",
                f"let x = (unit - block * {body.number(blocks, 'blocks')}) * ({each}u << {shift}) "
                f"+ (lane & ((1u << {shift}) - 1u));",
            )
            names = take_apart(body, "row", loops.pick(range(len(loops.sizes) - 1)), "c")
            units = -(-plan.rows // (LANES // lanes)) * blocks
        outer = Loops(loops.sizes[:-1], tuple(row[:-1] for row in loops.strides), loops.offsets)
        self.at = [body.line(text) for text in places(body, outer, names, "c")]
        self._compute_row()
        self._declare_element()
        count = body.number(steps, "steps")
        apart = "0u" if each == 1 else f"({body.number(lanes.bit_length() - 1, 'lanes')})" if plan.rows > 1 else "8u"
        for k in range(each):
            body.say(f"let x{k} = x{f' + ({k}u << {apart})' if k else ''};")
        if width == QUAD:  # outside of the braces of steps; what is read is bound first
            for node in filter(self._is_moved, self.given):
                is_line = node in plan.lines
                body.tensor(
                    self.legal.sources[int(node.value)] if is_line else plan.view(plan.read.index(node)), "vec4<u32>"
                )
            for v, target in enumerate(self.leaves.targets, len(plan.read)):
                self._start(v, target, self.at[v], loops.offsets[v], plan.inner[v], "x0")
        # All reads come first: a driver does not move them over writes.
        found = [self._read(f"x{k}", f"x{k} < {count}") for k in range(each)]
        for k in range(each):
            body.say(f"if (x{k} < {count}) {{")
            self._write(f"x{k}", found[k])
            body.say("}")
        return body.kernel(units)

    # A row

    def _compute_row(self) -> None:
        """What is the same for a row, and what the function of an element takes of it."""
        plan, body = self.plan, self.body
        same = [node for node in walk(*self.leaves.values) if not plan.changes[node]]
        reads: set[Expr] = set()
        for node in walk(*self.leaves.values):
            if node.op in ("load", "coordinate", "fetch") or any(arg in reads for arg in node.args):
                reads.add(node)
        needed = [node for node in same if node in reads]
        compute(body, needed, dict(zip(self.plan.read, self.at, strict=False)), self.legal.sources)
        self.row_names = {node: body.names[node] for node in needed}
        for fetch in plan.lines:
            view = self.legal.sources[int(fetch.value)]
            indices = [f"u32({body.names[arg]})" for arg in fetch.args[:-1]]
            name = f"{view.tensor} along {fetch.value}"
            strides = [
                body.number(step, (name, k) if step not in (0, 1) else None) for k, step in enumerate(view.strides[:-1])
            ]
            first = body.number(view.offset, (name,) if view.offset else None)
            self.row_names[fetch] = body.line(sum_of(first, indices, strides))

    # An element

    def _declare_element(self) -> None:
        """A function of an element's leaves, called for each of a quad."""
        plan, body = self.plan, self.body
        lines, names, body.lines, body.names = body.lines, body.names, [], {}
        stops = {node for node in plan.read if plan.changes[node]} | set(plan.lines) | set(self.row_names)
        used: list[Expr] = []
        pending = list(self.leaves.values)
        seen: set[Expr] = set()
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            if node in stops:
                used.append(node)
            else:
                pending += node.args
        self.given = sorted(used, key=[*walk(*self.leaves.values)].index)
        parameters = []
        for k, node in enumerate(self.given):
            kind = "u32" if self._is_moved(node) else "i32" if node.op == "coordinate" else WGSL.types[node.type]
            parameters.append(f"p{k}: {kind}")
            body.names[node] = f"p{k}"
            if self._is_moved(node) and node.type is not U32:
                body.put(node, f"bitcast<{WGSL.types[node.type]}>(p{k})")
        compute(body, self.leaves.values, {}, self.legal.sources)
        results = []
        for value in self.leaves.values:
            name = body.names[value]
            results.append(name if value.type is U32 else f"bitcast<u32>({name})")
        fields = ", ".join(f"r{k}: u32" for k in range(len(results)))
        head = f"struct Element {{ {fields} }}\nfn element({', '.join(parameters)}) -> Element {{\n"
        text = head + "\n".join(body.lines) + f"\n  return Element({', '.join(results)});\n}}\n"
        body.lines, body.names = lines, names
        body.declare(text)

    def _is_moved(self, node: Expr) -> bool:
        """Whether a parameter is a word as it lies in memory."""
        return (node.op == "load" and self.plan.changes[node]) or node in self.plan.lines

    def _call(self, x: str, k: int, words: Mapping[Expr, list[str]]) -> str:
        """The call for an element of a step."""
        args = []
        for node in self.given:
            if node in words:
                args.append(words[node][k])
            elif node in self.row_names:
                args.append(self.row_names[node])
            else:  # a coordinate, of which the inner one alone changes along a row
                v = self.plan.read.index(node)
                step = self.body.number(self.plan.inner[v], ("step", v) if self.plan.inner[v] != 1 else None)
                place = x if self.width == 1 else f"({x} * {self.width}u + {k}u)"
                args.append(f"i32({sum_of(self.at[v], [place], [step])})")
        return self.body.line(f"element({', '.join(args)})")

    # Steps

    def _start(self, key: object, view: View, at: str, offset: int, step: int, x: str) -> str:
        """Where the quads of a step begin, the same text for views that are words of one step."""
        plan, body = self.plan, self.body
        word = plan.words[key][1]
        outer: object = key.args[:-1] if isinstance(key, Expr) else plan.loops.strides[int(str(key))][:-1]
        same = (view.tensor, step, offset - word, outer)
        if same not in self.starts:
            base = body.base(body.tensor(view, "vec4<u32>"))
            self.starts[same] = body.line(f"({base} + {at}{f' - {word}u' if word else ''}) / {QUAD}u")
        return f"{self.starts[same]} + {x}{f' * {step}u' if step > 1 else ''}"

    def _read(self, x: str, test: str) -> dict[Expr, list[str]]:
        """The words of a step, by leaf and element."""
        plan, body = self.plan, self.body
        found: dict[Expr, list[str]] = {}
        quads: dict[tuple[str, str], str] = {}
        for node in self.given:
            if not self._is_moved(node):
                continue
            key: object
            if node in plan.lines:
                view, at, step, key = self.legal.sources[int(node.value)], self.row_names[node], plan.lines[node], node
                offset = view.offset
            else:
                key = v = plan.read.index(node)
                view, at, step, offset = plan.view(v), self.at[v], plan.inner[v], plan.loops.offsets[v]
            if self.width == 1:
                name = body.tensor(view)
                stride = body.number(step, ("step", key) if step != 1 else None)
                var = f"w{next(body.fresh)}"
                place = sum_of(at, [x], [stride])
                body.say(f"var {var} = 0u;", f"if ({test}) {{ {var} = {name}[{body.base(name)} + {place}]; }}")
                found[node] = [var]
                continue
            name, start = body.tensor(view, "vec4<u32>"), self._start(key, view, at, offset, step, x)
            parts = []
            for m in range(step):
                place = f"{start} + {m}u" if m else start
                first = m * QUAD // step
                if (name, place) not in quads:
                    var = quads[name, place] = f"w{next(body.fresh)}"
                    guard = test
                    if plan.count % QUAD and first:
                        guard = f"{x} * {QUAD}u + {first}u < {body.number(plan.count, 'count')}"
                    body.say(f"var {var} = vec4<u32>();", f"if ({guard}) {{ {var} = {name}[{place}]; }}")
                parts.append(quads[name, place])
            words = [step * k + plan.words[key][1] for k in range(QUAD)]
            found[node] = [f"{parts[word // QUAD]}.{'xyzw'[word % QUAD]}" for word in words]
        return found

    def _write(self, x: str, words: Mapping[Expr, list[str]]) -> None:
        plan, body, legal = self.plan, self.body, self.legal
        results = [self._call(x, k, words) for k in range(self.width)]
        groups: dict[tuple[str, int, str], dict[int, str]] = {}
        """By tensor, step and where it begins, the words of a step that are written."""
        for number, one in enumerate(legal.writes):
            v = len(plan.read) + number
            step = plan.inner[v]
            if self.width == 1:
                name, stride = body.tensor(one.target), body.number(step, ("step", v) if step not in (0, 1) else None)
                place = sum_of(self.at[v], [x], [stride])
                body.say(f"{name}[{body.base(name)} + {place}] = {results[0]}.r{number};")
                continue
            start = self._start(v, one.target, self.at[v], plan.loops.offsets[v], step, x)
            group = groups.setdefault((body.tensor(one.target, "vec4<u32>"), step, start), {})
            for k in range(QUAD):
                group[step * k + plan.words[v][1]] = f"{results[k]}.r{number}"
        for (name, step, start), held in groups.items():
            for m in range(step):
                self._store(f"{name}[{start}{f' + {m}u' if m else ''}]", x, m, step, held)
        for k, inserted in enumerate(legal.insertions):
            first = len(legal.writes) + 3 * k
            word, mask, value = (f"{results[0]}.r{first + part}" for part in range(3))
            body.insert(inserted.target, word, mask, value)

    def _store(self, place: str, x: str, m: int, step: int, held: Mapping[int, str]) -> None:
        """A quad, or what there is of it."""
        plan, body = self.plan, self.body
        parts = [held.get(m * QUAD + c) for c in range(QUAD)]
        if not any(parts):
            return
        whole = f"{place} = vec4<u32>({', '.join(part or '' for part in parts)});"
        each = [(m * QUAD + c) // step for c in range(QUAD)]
        if all(parts) and not plan.count % QUAD:
            body.say(whole)
            return
        count = body.number(plan.count, "count") if plan.count % QUAD else ""
        pieces = [
            f"if ({x} * {QUAD}u + {each[c]}u < {count}) {{ {place}.{'xyzw'[c]} = {part}; }}"
            if count
            else f"{place}.{'xyzw'[c]} = {part};"
            for c, part in enumerate(parts)
            if part
        ]
        if all(parts):
            body.say(f"if ({x} * {QUAD}u + {each[-1]}u < {count}) {{ {whole} }} else {{", *pieces, "}")
        else:
            body.say(*pieces)

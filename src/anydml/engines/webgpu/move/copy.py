"""Copies: bits are moved by whole words, whatever they mean; a matrix is turned by tiles in workgroup memory."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.engines.webgpu.codegen.walks import places, take_apart
from anydml.engines.webgpu.codegen.wgsl import Body
from anydml.engines.webgpu.device import WORD
from anydml.engines.webgpu.launch import LANES, KernelProgram
from anydml.engines.webgpu.rows.map import flattened, map_kernels, pieces
from anydml.engines.webgpu.rows.words import by_words, has_words
from anydml.ir.expressions import coordinate, fetch, load
from anydml.ir.loops import Loops
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.engines.common.program import Program
    from anydml.engines.webgpu.device import Gpu
    from anydml.engines.webgpu.launch import Bindable, Kernel
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.verbs import Map

U32 = DataType.UINT32
ACROSS, DOWN = 64, 32
"""Elements of a tile: along the source's rows, and along the target's."""
PITCH = ACROSS + 1
"""Words of a tile's row in workgroup memory: a column's lie in different banks."""
LEAST = 16
"""Elements of a row that is worth tiles."""


def plan_copy(verb: Map, memory: Memory) -> Program:
    """A copy without checks."""
    return KernelProgram.of(memory.name, *copy_kernels(verb, lambda: Body.on(memory.gpu), memory.gpu))


def copy_kernels(verb: Map, fresh: Callable[[], Body], gpu: Gpu) -> list[Bindable]:
    """The kernels of a copy, whose bodies may have lines before them, if they are not of tiles."""
    kernels: list[Bindable] = []
    for piece in pieces(flattened(as_words(verb)), gpu) if all(verb.sizes) else ():
        transposed = _transposed_kernel(piece, fresh)
        kernels += map_kernels(piece, fresh, gpu) if transposed is None else [transposed]
    return kernels


def as_words(verb: Map) -> Map:
    """The same for a map that moves bits, in words of 32 where elements lie so."""
    if verb.also or verb.value.op not in ("load", "fetch") or not verb.sizes:
        return verb
    slot, target, value = int(verb.value.value), verb.target, verb.value
    source, width = verb.sources[slot], target.data_type.size_in_bytes
    if source.data_type.size_in_bytes != width:
        return verb
    if width == WORD:
        sources = [replace(view, data_type=U32) if k == slot else view for k, view in enumerate(verb.sources)]
        made = load(slot, U32) if value.op == "load" else fetch(slot, U32, value.args)
        return replace(verb, sources=tuple(sources), target=replace(target, data_type=U32), value=made)
    if width > WORD:
        sources = [
            halves(view) if k == slot else replace(view, sizes=(*view.sizes, 2), strides=(*view.strides, 0))
            for k, view in enumerate(verb.sources)
        ]
        rank = len(verb.sizes)
        made = load(slot, U32) if value.op == "load" else fetch(slot, U32, (*value.args, coordinate(rank)))
        return replace(verb, sources=tuple(sources), target=halves(target), value=made)
    per = WORD // width
    if value.op == "load":
        return verb  # narrow rows are legalised by words
    is_line = value.args and value.args[-1] is coordinate(len(verb.sizes) - 1)
    if not is_line or not (has_words(source, per) and has_words(target, per)) or source.sizes[-1] < target.sizes[-1]:
        return verb
    if any(view.strides[-1] for k, view in enumerate(verb.sources) if k != slot):
        return verb
    count = target.sizes[-1] // per
    sources = [
        by_words(view, per) if k == slot else replace(view, sizes=(*view.sizes[:-1], count))
        for k, view in enumerate(verb.sources)
    ]
    made = fetch(slot, U32, value.args)
    return replace(verb, sources=tuple(sources), target=by_words(target, per), value=made)


def halves(view: View) -> View:
    """The words of 64-bit elements."""
    strides = (*(2 * stride for stride in view.strides), 1)
    return View(view.tensor, U32, (*view.sizes, 2), strides, 2 * view.offset)


def _transposed_kernel(verb: Map, fresh: Callable[[], Body]) -> Kernel | None:
    """A copy whose source is contiguous along one dimension, and its target along another; None for others."""
    if verb.value.op != "load" or verb.also or len(verb.sizes) < 2:
        return None
    source, target = verb.source, verb.target
    width = target.data_type.size_in_bytes
    if source.data_type.size_in_bytes != width or width > WORD:
        return None
    per = WORD // width
    rows = [k for k, stride in enumerate(source.strides) if stride == 1]
    columns = [k for k, stride in enumerate(target.strides) if stride == 1]
    if len(rows) != 1 or len(columns) != 1 or rows == columns:
        return None
    (a,), (b,) = rows, columns
    if min(verb.sizes[a], verb.sizes[b]) < LEAST or source.strides[b] == 0:
        return None
    if per > 1:
        numbers = [verb.sizes[a], verb.sizes[b], source.offset, target.offset]
        numbers += [stride for k, stride in enumerate(source.strides) if k != a]
        numbers += [stride for k, stride in enumerate(target.strides) if k != b]
        if any(number % per for number in numbers):
            return None
    return _tiles(verb, fresh(), a, b, per)


def _span(view: View, per: int) -> View:
    """All words that a view's elements are parts of."""
    reach = [stride * (size - 1) for size, stride in zip(view.sizes, view.strides, strict=True)]
    low, high = view.offset + sum(min(r, 0) for r in reach), view.offset + sum(max(r, 0) for r in reach)
    return View(view.tensor, U32, (high // per - low // per + 1,), (1,), low // per)


def _tiles(verb: Map, body: Body, a: int, b: int, per: int) -> Kernel:
    """Tiles of 64 elements along the source's rows and 32 along the target's, `per` of them in a word."""
    source, target, sizes = verb.source, verb.target, verb.sizes
    others = [k for k in range(len(sizes)) if k not in (a, b)]
    across, down = -(-sizes[a] // ACROSS), -(-sizes[b] // DOWN)
    outer = math.prod(sizes[k] for k in others)
    units = outer * across * down
    body.share("held", "u32", DOWN * PITCH)
    body.say(
        f"if (unit >= {body.number(units, 'units')}) {{ return; }}",
        f"let line = unit / {body.number(across, 'across')};",
        f"let block = line / {body.number(down, 'down')};",
        f"let a0 = (unit - line * {body.number(across, 'across')}) * {ACROSS}u;",
        f"let b0 = (line - block * {body.number(down, 'down')}) * {DOWN}u;",
    )
    strides = tuple(tuple(view.strides[k] for k in others) for view in (source, target))
    loops = Loops(tuple(sizes[k] for k in others), strides, (source.offset, target.offset))
    names = take_apart(body, "block", loops, "c") if others else []
    first = [body.line(text) for text in places(body, loops, names, "c")]
    read, written = (body.tensor(_span(view, per)) for view in (source, target))
    size_a, size_b = body.number(sizes[a], "a"), body.number(sizes[b], "b")
    step_b, step_a = body.number(source.strides[b], "from b"), body.number(target.strides[a], "to a")
    bits, mask, words = 32 // per, (1 << 32 // per) - 1, f" / {per}u" if per > 1 else ""
    row, column = ACROSS // per, DOWN // per
    steps = ACROSS * DOWN // per // LANES
    body.say(*(f"var w{k} = 0u;" for k in range(steps)))
    for k in range(steps):  # all reads come first
        body.say(
            f"{{ let p = lane + {k * LANES}u; let x = a0 + p % {row}u * {per}u; let y = b0 + p / {row}u;",
            f"if (x < {size_a} && y < {size_b}) {{",
            f"w{k} = {read}[{body.base(read)} + ({first[0]} + x + y * {step_b}){words}]; }} }}",
        )
    for k in range(steps):
        body.say(f"{{ let p = lane + {k * LANES}u; let at = p / {row}u * {PITCH}u + p % {row}u * {per}u;")
        for part in range(per):
            value = f"(w{k} >> {part * bits}u) & {mask:#x}u" if per > 1 else f"w{k}"
            body.say(f"held[at + {part}u] = {value};")
        body.say("}")
    body.say("workgroupBarrier();")
    word = " | ".join(f"(held[at + {part * PITCH}u] << {part * bits}u)" for part in range(per))
    for k in range(steps):
        body.say(
            f"{{ let p = lane + {k * LANES}u; let y = p % {column}u * {per}u; let x = p / {column}u;",
            f"let at = y * {PITCH}u + x;",
            f"if (a0 + x < {size_a} && b0 + y < {size_b}) {{",
            f"{written}[{body.base(written)} + ({first[1]} + (a0 + x) * {step_a} + b0 + y){words}] = {word}; }} }}",
        )
    return body.kernel(units)

"""Scatters: an invocation for each element of a block writes all tuples in their order, so that the last one stays.

Of many tuples the last writer of each place is found first: each claims its place with its number, and the largest
stays. Then all that hold theirs write at once.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.engines.webgpu.codegen.cells import read, write
from anydml.engines.webgpu.codegen.walks import places as places_of
from anydml.engines.webgpu.codegen.walks import take_apart
from anydml.engines.webgpu.device import WORD
from anydml.engines.webgpu.launch import LANES, KernelProgram
from anydml.engines.webgpu.move.checks import checked, guarded
from anydml.engines.webgpu.move.copy import as_words, halves
from anydml.engines.webgpu.move.gather import as_one, is_one
from anydml.engines.webgpu.rows.map import QUAD, Aligned, map_kernels
from anydml.engines.webgpu.rows.words import by_words, has_words
from anydml.ir.expressions import const, where
from anydml.ir.loops import Loops
from anydml.ir.patterns import copy_of, filled
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.engines.common.program import Program
    from anydml.engines.webgpu.codegen.wgsl import Body
    from anydml.engines.webgpu.device import Gpu
    from anydml.engines.webgpu.launch import Bindable, Kernel
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Scatter

I32, U32 = DataType.INT32, DataType.UINT32
_CLAIMS = "\0claims"


def plan_scatter(verb: Scatter, memory: Memory) -> Program:
    """The base is copied, and tuples are written over it, one after the other."""
    fresh = functools.partial(guarded, verb.checks, memory.gpu)
    kernels = _base(verb, fresh, memory.gpu)
    indices, updates, target, batch = verb.indices, verb.updates, verb.target, verb.batch_rank
    rank = len(indices.sizes) - 1
    tuples, block = indices.sizes[batch:rank], updates.sizes[rank:]
    blocks, count = (*target.sizes[:batch], *block), math.prod(tuples)
    lanes = math.prod(blocks)
    if lanes and count:
        body = fresh()
        body.say(f"let i = unit * {LANES}u + lane;", f"if (i >= {body.number(lanes, 'lanes')}) {{ return; }}")
        outer = take_apart(body, "i", Loops(blocks, (), ()), "c")
        body.say(f"for (var t = 0u; t < {body.number(count, 'count')}; t++) {{")
        inner = take_apart(body, "t", Loops(tuples, (), ()), "p")
        places = _places(verb, body, [*outer[:batch], *inner])
        body.say(f"if ({_are_inside(places)}) {{")
        _move(verb, body, outer[:batch], inner, places, outer[batch:])
        body.say("}", "}")
        kernels.append(body.kernel(-(-lanes // LANES)))
    return checked(verb.checks, KernelProgram.of(memory.name, *kernels), memory)


def plan_winners(verb: Scatter, memory: Memory) -> Program:
    """The base is copied, each tuple claims its place, and those that hold theirs write."""
    fresh = functools.partial(guarded, verb.checks, memory.gpu)
    batch, rank = verb.batch_rank, len(verb.indices.sizes) - 1
    sizes, tuples = verb.target.sizes[verb.indexed], verb.indices.sizes[batch:rank]
    batches, count, places = (math.prod(of) for of in (verb.target.sizes[:batch], tuples, sizes))
    claims = View(_CLAIMS, U32, (batches * places,), (1,))
    zeros = map_kernels(filled(claims, 0, 0), fresh, memory.gpu)

    def begin(body: Body, number: str) -> tuple[list[str], list[str], list[str], str]:
        """The coordinates of a tuple, the indices in it, and the number of its place."""
        body.say(f"let b = {number} / {body.number(count, 'count')};")
        body.say(f"let t = {number} - b * {body.number(count, 'count')};")
        outer = take_apart(body, "b", Loops(verb.target.sizes[:batch], (), ()), "c") if batch else []
        inner = take_apart(body, "t", Loops(tuples, (), ()), "p")
        found = _places(verb, body, [*outer, *inner])
        body.say(f"if (!({_are_inside(found)})) {{ return; }}")
        at = "b"
        for k, place in enumerate(found):
            at = body.line(f"{at} * {body.number(sizes[k], ('size', k))} + u32({place})")
        return outer, inner, found, at

    claim = fresh()
    claim.say(f"let i = unit * {LANES}u + lane;", f"if (i >= {claim.number(batches * count, 'tuples')}) {{ return; }}")
    *_, at = begin(claim, "i")
    name = claim.tensor(claims, "atomic<u32>")
    claim.say(f"atomicMax(&{name}[{claim.base(name)} + {at}], t + 1u);")

    moved = _by_words(verb)
    block = moved.updates.sizes[rank:]

    def last(width: int) -> Kernel:
        """Those that hold their places write, so many elements of a block an invocation."""
        body, elements = fresh(), math.prod(block) // width
        body.say(
            f"let i = unit * {LANES}u + lane;",
            f"let tuple = i / {body.number(elements, 'elements')};",
            f"let e = i - tuple * {body.number(elements, 'elements')};",
            f"if (tuple >= {body.number(batches * count, 'tuples')}) {{ return; }}",
        )
        outer, inner, found, at = begin(body, "tuple")
        body.say(f"if ({body.load(claims, at, U32)} != t + 1u) {{ return; }}")
        if width == 1:
            _move(moved, body, outer, inner, found, take_apart(body, "e", Loops(block, (), ()), "e") if block else [])
        else:
            parts = []
            for view, middle in ((moved.updates, inner), (moved.target, [f"u32({place})" for place in found])):
                loops = Loops(view.sizes, (view.strides,), (view.offset,))
                (place,) = places_of(body, loops, [*outer, *middle, f"e * {QUAD}u"], view.tensor)
                name = body.tensor(view, "vec4<u32>")
                parts.append(f"{name}[({body.base(name)} + {place}) / {QUAD}u]")
            body.say(f"{parts[1]} = {parts[0]};")
        return body.kernel(-(-batches * count * elements // LANES))

    views = (moved.updates, moved.target)
    has_quads = len(block) == 1 and all(
        view.data_type.size_in_bytes == WORD and view.strides[-1] == 1 and not any(s % QUAD for s in view.strides[:-1])
        for view in views
    )
    writes: Bindable = last(1)
    if has_quads and block[0] % QUAD == 0:
        starts = tuple((view.tensor, view.offset * WORD) for view in views)
        writes = Aligned(last(QUAD), functools.partial(last, 1), starts)
    kernels = [*_base(verb, fresh, memory.gpu), *zeros, claim.kernel(-(-batches * count // LANES)), writes]
    scratch = {_CLAIMS: batches * places * WORD}
    return checked(verb.checks, KernelProgram.of(memory.name, *kernels, scratch=scratch), memory)


def _base(verb: Scatter, fresh: Callable[[], Body], gpu: Gpu) -> list[Bindable]:
    """The copy of the base."""
    return [*map_kernels(as_words(copy_of(verb.source, verb.target)), fresh, gpu)]


def _places(verb: Scatter, body: Body, at: Sequence[str]) -> list[str]:
    """The indices of a tuple, from the start of their dimensions; -1 for one outside."""
    found = []
    for k, size in enumerate(verb.target.sizes[verb.indexed]):
        (place,) = read(body, verb.indices, I32, [*at, f"{k}u"], functools.partial(_placed, size=size))
        found.append(place)
    return found


def _are_inside(places: Sequence[str]) -> str:
    return " && ".join(f"{place} >= 0" for place in places)


def _move(
    verb: Scatter, body: Body, outer: list[str], inner: list[str], places: Sequence[str], block: list[str]
) -> None:
    """An element of a tuple's block, whose bits are moved, whatever they mean."""
    width = verb.updates.data_type.size_in_bytes
    moved = DataType.UINT64 if width == 8 else U32
    bits = {1: DataType.UINT8, 2: DataType.UINT16, 4: U32, 8: DataType.UINT64}[width]
    source, aim = (_as_bits(view, bits) for view in (verb.updates, verb.target))
    parts = read(body, source, moved, [*outer, *inner, *block])
    write(body, aim, moved, parts, [*outer, *(f"u32({place})" for place in places), *block])


def _by_words(verb: Scatter) -> Scatter:
    """The same with blocks in words of 32 bits, where they lie so, and in as few dimensions as they have."""
    width = verb.target.data_type.size_in_bytes
    rank, depth = len(verb.indices.sizes) - 1, verb.batch_rank + verb.tuple_size
    source, updates, target = verb.source, verb.updates, verb.target
    if width > WORD:
        source, updates, target = halves(source), halves(updates), halves(target)
    while len(updates.sizes) > rank + 1 and is_one(updates) and is_one(target):
        source, updates, target = as_one(source), as_one(updates), as_one(target)
    views, per = (updates, target), max(WORD // width, 1)
    if per > 1 and len(updates.sizes) > rank and len(target.sizes) > depth and all(has_words(v, per) for v in views):
        source, updates, target = by_words(source, per), by_words(updates, per), by_words(target, per)
    return replace(verb, sources=(source, verb.indices, updates), target=target)


def _as_bits(view: View, bits: DataType) -> View:
    """Bits are moved, whatever they mean."""
    return replace(view, data_type=bits)


def _placed(index: Expr, *, size: int) -> Expr:
    """An index from the start of its dimension, or -1 for one outside."""
    assert index.type is not None  # noqa: S101 - for type checkers: an index is a number
    of = index.type
    if 2 ** (8 * of.size_in_bytes - of.is_signed) <= size:  # all that are not negative are inside
        return where(index < 0, index.to(I32) + size, index.to(I32)) if of.is_signed else index.to(I32)
    found = where(index < 0, index + const(size, of), index) if of.is_signed else index
    inside = found < const(size, of)
    if of.is_signed:
        inside = inside & (found >= 0)
    return where(inside, found.to(I32), const(-1, I32))

"""Maps: one invocation computes an element of all targets, or a word of narrow ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.engines.webgpu.codegen.walks import TYPES, Leaves, compute, places, take_apart
from anydml.engines.webgpu.launch import LANES
from anydml.ir.legalise import legalise
from anydml.ir.loops import simplify

if TYPE_CHECKING:
    from anydml.engines.webgpu.codegen.wgsl import Body
    from anydml.engines.webgpu.launch import Kernel
    from anydml.ir.legalise import Legal
    from anydml.ir.verbs import Map


def map_kernel(verb: Map, body: Body) -> Kernel | None:
    """The kernel of a map, whose body may have lines before it; None where there is nothing to compute."""
    legal = legalise(verb, TYPES)
    count = math.prod(legal.sizes)
    if not count:
        return None
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

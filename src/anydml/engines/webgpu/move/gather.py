"""Gathers and reversals: what an index chooses lies in rows, which are moved by whole words, 16 bytes a step."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.engines.webgpu.launch import KernelProgram
from anydml.engines.webgpu.move.checks import checked, guarded
from anydml.engines.webgpu.move.copy import as_words
from anydml.engines.webgpu.rows.map import map_kernels
from anydml.ir.expressions import coordinate, fetch
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from anydml.engines.common.program import Program
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.verbs import Map
    from anydml.ir.views import View


def plan_gather(verb: Map, memory: Memory) -> Program:
    """Elements at computed indices, after the checks of those."""
    fresh = functools.partial(guarded, verb.checks, memory.gpu)
    kernels = map_kernels(merged(as_words(merged(verb))), fresh, memory.gpu)
    return checked(verb.checks, KernelProgram.of(memory.name, *kernels), memory)


def merged(verb: Map) -> Map:
    """The same with the last dimensions as one, where each is moved whole, in one piece with the one before."""
    while (found := _merged(verb)) is not None:
        verb = found
    return verb


def _merged(verb: Map) -> Map | None:
    rank, value = len(verb.sizes), verb.value
    if rank < 2 or len(value.args) < 2:
        return None
    lasts = [coordinate(rank - 2), coordinate(rank - 1)]
    if [*value.args[-2:]] != lasts or any(node in lasts for node in walk(*value.args[:-2])):
        return None
    source = verb.sources[int(value.value)]
    if source.sizes[-2:] != verb.sizes[-2:]:
        return None
    views = (*verb.sources, verb.target)
    if not all(map(is_one, views)):
        return None
    *sources, target = map(as_one, views)
    made = fetch(int(value.value), target.data_type, value.args[:-1])
    return replace(verb, sources=tuple(sources), target=target, value=made)


def is_one(view: View) -> bool:
    """Whether the last two dimensions are walked like one."""
    (m, n), (outer, inner) = view.sizes[-2:], view.strides[-2:]
    return m == 1 or n == 1 or outer == inner * n


def as_one(view: View) -> View:
    """The last two dimensions as one."""
    (m, n), (outer, inner) = view.sizes[-2:], view.strides[-2:]
    return replace(view, sizes=(*view.sizes[:-2], m * n), strides=(*view.strides[:-2], outer if n == 1 else inner))

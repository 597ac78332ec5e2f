"""Convolution as implicit GEMM: windows are read where they lie, weights with the channels of the result side by side.

Steps go along one dimension of the terms, most often the channels of the input, so that where a tap lies, and whether
that is inside, is found once for a step. Weights of another order are laid out first: ahead, where they are constants,
and else by a kernel before, which takes a few microseconds.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.engines.webgpu.codegen.wgsl import Body
from anydml.engines.webgpu.gemm.gemm import LEAST, TileProgram, shape_for, sizes_of, split_product
from anydml.engines.webgpu.gemm.tile import Factor, Product, product_of, steps_of
from anydml.engines.webgpu.rows.map import map_kernels
from anydml.ir.contraction import match_contraction
from anydml.ir.patterns import copy_of
from anydml.ir.trees import walk
from anydml.ir.views import View

if TYPE_CHECKING:
    from anydml.engines.common.program import Program
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.verbs import Map, Reduce

WEIGHTS = "weights by tap"
"""The name of a layout."""
LEAST_READ = 128
"""Lines of the windows from which on weights are read often enough to be laid out by a kernel before."""


def plan_windows(verb: Reduce, memory: Memory, constants: frozenset[str] = frozenset()) -> Program | None:
    """For sums of products whose terms, or windows, are several dimensions; None for others."""
    found = match_contraction(verb)
    product = None if found is None else product_of(verb, found)
    if product is None or not all(verb.sizes):
        return None
    leaves = (*product.left.leaves, *product.right.leaves)
    if len(product.terms) == 1 and not any(leaf.limits for leaf in leaves):
        return None
    if min(product.shape[:2]) < LEAST:
        return None

    plan = functools.partial(_tiles, memory=memory, constants=constants)
    return split_product(product, memory, plan) or plan(product)


def _tiles(product: Product, memory: Memory, constants: frozenset[str]) -> TileProgram:
    """In tiles, of weights that are laid out where that is worth it."""
    rows, columns, _ = product.shape
    shape = shape_for(*sizes_of(product, memory))
    laid_out = None
    for factor, group, others in ((product.left, product.rows, columns), (product.right, product.columns, rows)):
        laid_out = laid_out or _laid_out(product, factor, group, others, shape.depth, constants)
    if laid_out is None:
        return TileProgram.of(product, shape, memory)
    changed, copy = laid_out
    name, size = copy.target.tensor, math.prod(copy.target.sizes) * copy.target.data_type.size_in_bytes
    if copy.source.tensor in constants:
        return replace(TileProgram.of(changed, shape, memory), layouts={name: copy})
    before = map_kernels(copy, functools.partial(Body.on, memory.gpu), memory.gpu)
    return TileProgram.of(changed, shape, memory, *before, scratch={name: size})


def _laid_out(
    product: Product,
    factor: Factor,
    group: tuple[tuple[int, ...], ...],
    others: int,
    depth: int,
    constants: frozenset[str],
) -> tuple[Product, Map] | None:
    """The product with a factor whose lines are neighbours in memory, and the copy that lays it out.

    None where they are already, or where it is read too seldom.
    """
    verb, fold = product.primitive, product.found.fold
    if not factor.is_read or factor.leaves[0].limits or not group:
        return None
    (leaf,) = factor.leaves
    outer, inner = steps_of(product, depth)
    last = inner[-1] if inner is not None else product.terms[-1][-1]
    if 1 in (leaf.strides[group[-1][-1]], leaf.strides[last]):
        return None
    slots = [k for k, view in enumerate(verb.sources) if view.tensor == leaf.view.tensor]
    is_read_after = any(
        node.op in ("load", "fetch") and int(node.value) in slots for node in walk(verb.value, known=(fold,))
    )
    if len(slots) != 1 or is_read_after or (leaf.view.tensor not in constants and others < LEAST_READ):
        return None
    (slot,) = slots
    view = verb.sources[slot]
    order = [k for run in (*product.batch, *outer, *([inner] if inner else []), *group) for k in run]
    order = [k for k in order if view.strides[k] and view.sizes[k] > 1]
    sizes = tuple(view.sizes[k] for k in order)
    steps = {k: math.prod(sizes[i + 1 :]) for i, k in enumerate(order)}
    seen = replace(view, sizes=sizes, strides=tuple(view.strides[k] for k in order))
    copy = copy_of(seen, View(WEIGHTS, view.data_type, sizes, tuple(steps.values())))
    sources = list(verb.sources)
    sources[slot] = View(WEIGHTS, view.data_type, view.sizes, tuple(steps.get(k, 0) for k in range(len(view.sizes))))
    made = replace(verb, sources=tuple(sources), rows=verb.rows)
    found = match_contraction(made)
    changed = None if found is None else product_of(made, found)
    return None if changed is None else (changed, copy)

"""Layout order: a map lays its result out in the order of what it reads, and who reads that goes along by strides."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.graph.passes.draft import Draft, redirect
from anydml.graph.recipe import distinct_sizes
from anydml.graph.views import through
from anydml.ir.contraction import is_product
from anydml.ir.patterns import is_plain
from anydml.ir.trees import fetched, walk
from anydml.ir.verbs import Map, Reduce
from anydml.memory import packed_strides

if TYPE_CHECKING:
    from anydml.graph.recipe import Recipe
    from anydml.ir.verbs import Primitive


TIMES = 8
"""How often a map may repeat what it reads, and still lie in its order: as heads share keys."""


def layout_order(recipe: Recipe) -> Recipe:
    """Transposes go through maps, to be met by others or become a product's strides.

    A model of TensorFlow's has one before and one after each convolution: what is computed in between lies as the
    convolution wrote it, and the two cancel each other. Written across its rows a depthwise convolution takes three
    times as long (one thread of an Arm Neoverse-N1).
    """
    draft = Draft(recipe)
    for number in range(len(recipe.steps)):
        step = draft.steps[number]  # which may read already what lies in another order
        made = step.primitive
        if not is_plain(made) or not draft.is_own(made.target) or draft.is_constant(step):
            continue
        nested = None if any(node.op in ("coordinate", "fetch") for node in walk(made.value)) else _nested(made)
        readers = draft.readers(made.target.tensor) if nested else {}
        if nested and all(_goes_along(reader.primitive) for reader in readers.values()):
            turned = _turned(made, nested)
            new = turned.target.pick([nested.index(k) for k in range(len(nested))])
            change = functools.partial(through, target=made.target, source=new)
            changed = redirect(readers, made.target.tensor, change)
            if changed is not None:
                draft.put({**changed, number: replace(step, primitive=turned)})
    return draft.recipe()


def _goes_along(reader: Primitive) -> bool:
    """Whether a reader takes no longer for elements that lie in another order."""
    if isinstance(reader, Reduce):
        return is_product(reader)
    return isinstance(reader, Map) and not reader.checks and not fetched(*reader.values)


def _nested(made: Map) -> list[int] | None:
    """A map's dimensions in the order of the largest of its sources; None where it lies so, or no source is large."""
    target = made.target
    wide = [k for k, size in enumerate(target.sizes) if size > 1]
    inner = min(wide, key=lambda k: abs(target.strides[k]), default=None)
    large = [view for view in made.sources if math.prod(distinct_sizes(view)) * TIMES >= math.prod(target.sizes)]
    if inner is None or not large or any(abs(view.strides[inner]) == 1 for view in large):
        return None
    source = max(large, key=lambda view: math.prod(distinct_sizes(view)))
    if not any(abs(source.strides[k]) == 1 for k in wide):
        return None

    def rank(k: int) -> tuple[bool, int]:
        """Repeated dimensions come first, as they lie in the target."""
        stride = abs(source.strides[k])
        return (stride > 0, -stride if stride else -abs(target.strides[k]))

    return [*(k for k in range(len(target.sizes)) if k not in wide), *sorted(wide, key=rank)]


def _turned(made: Map, nested: list[int]) -> Map:
    """A map that goes through its dimensions in another order, and leaves no gaps."""
    target = made.target.pick(nested)
    strides = [s if n > 1 else 0 for s, n in zip(packed_strides(target.sizes), target.sizes, strict=True)]
    target = replace(target, strides=tuple(strides), offset=0)
    return replace(made, sources=tuple(view.pick(nested) for view in made.sources), target=target)

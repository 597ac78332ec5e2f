"""Zero points: what a zero point takes off sums of products with constants is computed once.

Σ(x - z)·w is Σx·w less z·Σw, and both wrap alike: filters of a quantised network are summed up when it is compiled, and
engines multiply bytes as they lie. A zero point that is known to be 0 goes: filters mostly have such.
"""

from __future__ import annotations

import math
import operator
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.enums import DataType
from anydml.graph.passes.draft import Draft
from anydml.graph.passes.fusion import Sources, with_leaves
from anydml.graph.passes.hoisting import name_ahead, number_ahead, reading
from anydml.graph.passes.index_folding import numbers_of
from anydml.graph.recipe import Step, Store
from anydml.ir.contraction import match_contraction, varies_along
from anydml.ir.expressions import fold
from anydml.ir.trees import loads, walk
from anydml.ir.verbs import Reduce
from anydml.ir.views import View
from anydml.memory import packed_strides

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.graph.recipe import Recipe
    from anydml.ir.expressions import Expr


def zero_points(recipe: Recipe) -> Recipe:
    """Sums of products of bytes less a number, and of constants, are of the bytes alone."""
    if not any(store.kind == "constant" for store in recipe.stores.values()):
        return recipe
    draft, stores, steps = Draft(recipe), dict(recipe.stores), list[Step]()
    for each in recipe.steps:
        step, made = each, each.primitive
        if isinstance(made, Reduce) and (plain := _plain(made, stores)) is not made:
            step, made = replace(step, primitive=plain), plain
        ahead = _ahead(draft, made, name_ahead(step, stores)) if isinstance(made, Reduce) else None
        if ahead is None or not isinstance(made, Reduce):
            steps.append(step)
            continue
        once, old, new = ahead
        stores[once.target.tensor] = Store("scratch", math.prod(once.target.sizes) * 4)
        steps.append(replace(step, primitive=once))
        less = new - number_ahead(made, once.target)
        steps.append(replace(step, primitive=reading(made, once.target, {old: less})))
    is_same = len(steps) == len(recipe.steps) and all(map(operator.is_, steps, recipe.steps))
    return recipe if is_same else replace(recipe, stores=stores, steps=tuple(steps))


def _plain(made: Reduce, stores: Mapping[str, Store]) -> Reduce:
    """A sum of products in which nothing is taken off that is known to be 0."""
    found = match_contraction(made)
    if found is None or found.fold.type is not DataType.INT32:
        return made
    factors = [x for x in (found.left, found.right) if x.op == "sub" and _is_zero(made, x.args[1], stores)]
    changed = reading(made, None, {x: x.args[0] for x in factors}) if factors else made
    return changed if isinstance(changed, Reduce) else made


def _is_zero(made: Reduce, value: Expr, stores: Mapping[str, Store]) -> bool:
    """Whether a number, or what it was converted from, is loaded from a constant that holds zeros alone."""
    leaf = value.args[0] if value.op == "cast" else value
    numbers = numbers_of(made.sources[int(leaf.value)], stores) if leaf.op == "load" else None
    return numbers is not None and not numbers.any()


def _ahead(draft: Draft, made: Reduce, name: str) -> tuple[Reduce, Expr, Expr] | None:
    """The share of a zero point, the sum as it is, and the sum without; None where there is nothing to be had."""
    found = match_contraction(made)
    if found is None or found.fold.type is not DataType.INT32 or draft.is_constant(Step(made, ())):
        return None
    for x, weight in ((found.left, found.right), (found.right, found.left)):
        if x.op != "sub" or not _is_fixed(draft, made, weight) or not _is_fixed(draft, made, x.args[1]):
            continue
        number, zero = x.args
        if varies_along(zero, made.sources) or not loads(zero):
            continue
        return _sum(made, weight, zero, name), found.fold, fold("sum", number * weight)
    return None


def _is_fixed(draft: Draft, made: Reduce, value: Expr) -> bool:
    """Whether an expression depends on constants alone."""
    nodes = list(walk(value))
    is_plain = all(node.op not in ("coordinate", "fetch", "given") for node in nodes)
    return is_plain and all(draft.is_fixed(made.sources[int(one.value)].tensor) for one in loads(value))


def _sum(made: Reduce, weight: Expr, zero: Expr, name: str) -> Reduce:
    """The zero point times the sum of weights, for each of their places."""
    kept, varying = len(made.sizes) - made.depth, varies_along(weight, made.sources)
    sizes = tuple(n if k in varying or k >= kept else 1 for k, n in enumerate(made.sizes))
    sources, instead = Sources(), {}
    for one in loads(weight, zero):
        view = made.sources[int(one.value)]
        strides = tuple(stride if n > 1 else 0 for stride, n in zip(view.strides, sizes, strict=True))
        instead[int(one.value)] = sources.load(replace(view, sizes=sizes, strides=strides))
    results = (*sizes[:kept], *[1] * made.depth)
    packed = (stride if n > 1 else 0 for stride, n in zip(packed_strides(results), results, strict=True))
    target = View(name, DataType.INT32, results, tuple(packed))
    value = fold("sum", with_leaves(weight, instead)) * with_leaves(zero, instead)
    return Reduce(sources.views(), target, value, made.depth, sizes[kept:])

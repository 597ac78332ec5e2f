"""Quantised networks: what constants say of bytes, their zero points and their scales.

Passes that run once, around the optimiser's rounds: `lookup_tables` before them, `zero_points` and `scale_folding`
after.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.core.memory import packed_strides
from anydml.graph.passes.constant_folding import name_ahead, number_ahead, reading, with_parts_ahead
from anydml.graph.passes.draft import Draft, expanded, joined
from anydml.graph.passes.fusion import Sources, inlined, with_leaves, work
from anydml.graph.passes.index_folding import numbers_of
from anydml.graph.recipe import Step, Store, free_name
from anydml.ir.contraction import match_contraction, varies_along
from anydml.ir.expressions import coordinate, fold, load
from anydml.ir.patterns import BYTE_VALUES, is_copy, looked_up
from anydml.ir.trees import fetched, loads, rewrite, walk
from anydml.ir.verbs import Computation, Map, Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.graph.recipe import Recipe
    from anydml.ir.expressions import Expr


# Lookup tables


LITTLE_WORK = 3
"""Operations from which on a byte is looked up."""
FEW = 1024
"""Elements below which they are computed: a table takes 256 of them."""
MOST_SOURCES = 64
"""Of what is computed once, for a table."""
_BYTES = (DataType.INT8, DataType.UINT8)


def lookup_tables(recipe: Recipe) -> Recipe:
    """Lookup tables: what is computed of one byte and of constants is looked up, in a table of all its values.

    A map to bytes that depends on one byte, through any number of maps, becomes a lookup.

    As an activation of a quantised network does: it dequantises a byte, computes, and quantises again. The table is
    computed once, by the same expression, so that it holds the same bits.
    """
    if not any(_makes_bytes(step) for step in recipe.steps):
        return recipe
    draft = Draft(recipe)
    functions: dict[str, Step] = {}
    """Steps known to depend on one byte, by their stores: a map of that byte and constants."""

    def expand(step: Step, stores: dict[str, Store]) -> list[Step] | None:
        found = None if draft.is_constant(step) else _of_byte(draft, step, functions)
        if found is not None and draft.is_own(step.target):
            functions[step.target.tensor] = found
        if found is None or not _makes_bytes(found) or work(found.primitive.values[0]) < LITTLE_WORK:
            return None
        if math.prod(found.primitive.sizes) < FEW:  # last: of open sizes it is found for what may be a lookup alone
            return None
        name = free_name(f"{step.target.tensor} by byte", stores)
        made = found.primitive
        assert isinstance(made, Map)  # noqa: S101 - for type checkers: functions of a byte are maps
        slot = _byte(draft, made)
        assert slot is not None  # noqa: S101 - for type checkers: it was asked before
        table = _table(made, slot, name)
        stores[name] = Store("scratch", BYTE_VALUES)
        lookup = looked_up(made.sources[slot], table.target, made.target)
        return [replace(found, primitive=table), replace(found, primitive=lookup)]

    return expanded(recipe, expand)


def _makes_bytes(step: Step) -> bool:
    made = step.primitive
    is_byte = isinstance(made, Map) and not made.also and made.target.data_type in _BYTES
    return is_byte and not is_copy(made)


def _of_byte(draft: Draft, step: Step, functions: dict[str, Step]) -> Step | None:
    """A step as a map of one byte and constants; None where it is none."""
    made = step.primitive
    if not isinstance(made, Map) or made.checks or made.also or is_copy(made) or fetched(made.value):
        return None
    if any(node.op == "coordinate" for node in walk(made.value)):
        return None
    nodes = step.nodes
    for name in dict.fromkeys(view.tensor for view in made.sources):
        if name in functions:
            before = functions[name].primitive
            assert isinstance(before, Map)  # noqa: S101 - for type checkers: likewise
            whole = inlined(before, made, MOST_SOURCES)
            if whole is None:
                return None
            made, nodes = whole, joined(functions[name].nodes, nodes)
    assert isinstance(made, Map)  # noqa: S101 - for type checkers: functions of a byte are maps
    return None if _byte(draft, made) is None else Step(made, nodes)


def _byte(draft: Draft, made: Map) -> int | None:
    """The one source that is a byte for each element, where all others are one constant each."""
    varying = [
        slot
        for slot, view in enumerate(made.sources)
        if not draft.is_fixed(view.tensor) or any(s for s, n in zip(view.strides, view.sizes, strict=True) if n > 1)
    ]
    if len(varying) != 1:
        return None
    (slot,) = varying
    return slot if made.sources[slot].data_type in _BYTES and not draft.is_fixed(made.sources[slot].tensor) else None


def _table(made: Map, own: int, name: str) -> Map:
    """The results of a map for every byte, in the order of their bits."""
    sizes, kind = (BYTE_VALUES,), made.sources[own].data_type
    others = [slot for slot in range(len(made.sources)) if slot != own]
    views = tuple(replace(made.sources[slot], sizes=sizes, strides=(0,)) for slot in others)
    loads = {slot: load(i, views[i].data_type) for i, slot in enumerate(others)}
    loads[own] = coordinate(0).to(DataType.UINT8).bits(kind)
    target = View(name, made.target.data_type, sizes, (1,))
    return Map(views, target, with_leaves(made.value, loads))


# Zero points


def zero_points(recipe: Recipe) -> Recipe:
    """Zero points: what a zero point takes off sums of products with constants is computed once.

    Σ(x - z)·w is Σx·w less z·Σw, and both wrap alike: filters of a quantised network are summed up when it is compiled,
    and engines multiply bytes as they lie. A zero point that is known to be 0 goes: filters mostly have such.

    Sums of products of bytes less a number, and of constants, are of the bytes alone.
    """
    if not any(store.kind == "constant" for store in recipe.stores.values()):
        return recipe
    draft = Draft(recipe)

    def expand(step: Step, stores: dict[str, Store]) -> list[Step] | None:
        if not isinstance(step.primitive, Reduce):
            return None
        made = _plain(step.primitive, stores)
        ahead = _ahead(draft, made, name_ahead(step, stores))
        if ahead is None:
            return None if made is step.primitive else [replace(step, primitive=made)]
        once, old, new = ahead
        stores[once.target.tensor] = Store("scratch", math.prod(once.target.sizes) * 4)
        less = new - number_ahead(made, once.target)
        return [
            replace(step, primitive=once),
            replace(step, primitive=reading(made, once.target, {old: less})),
        ]

    return expanded(recipe, expand)


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


# Scale folding


def scale_folding(recipe: Recipe) -> Recipe:
    """Scale folding: what is quantised after it was scaled is scaled once, by the quotient of both, which is a
    constant.

    A sum of quantised numbers, (x·s + y·t)/u, is computed as x·(s/u) + y·(t/u), as ONNX Runtime does: a number that
    lies between two steps may be rounded to the other one.

    Divisions by a constant before numbers are rounded to bytes go into the constants that they were scaled by.
    """
    if not any(store.kind == "constant" for store in recipe.stores.values()):
        return recipe
    draft = Draft(recipe)

    def expand(step: Step, stores: dict[str, Store]) -> list[Step] | None:
        made = step.primitive
        if not isinstance(made, Computation) or made.also or draft.is_constant(step):
            return None
        quotient = _quotient(made.value)
        changed = None if quotient is None else _divided(draft, made, *quotient.args)
        if quotient is None or changed is None:
            return None
        divided = replace(made, value=_with(made.value, quotient, changed))
        return with_parts_ahead(step, divided, lambda made: _next_part(draft, made), stores)

    return expanded(recipe, expand)


def _with(value: Expr, old: Expr, new: Expr) -> Expr:
    """A tree with another node in the place of one."""
    return rewrite(value, lambda node: new if node is old else node)


def _quotient(value: Expr) -> Expr | None:
    """The division of what is rounded to a byte, plus a zero point or not."""
    if value.op != "cast" or value.type not in _BYTES:
        return None
    (number,) = value.args
    number = number.args[0] if number.op == "add" else number
    is_quotient = number.op == "rint" and number.args[0].op == "div" and number.type is DataType.FLOAT32
    return number.args[0] if is_quotient else None


def _divided(draft: Draft, made: Computation, value: Expr, by: Expr) -> Expr | None:
    """value/by where a constant in each of the value's terms is divided; None where one has none."""
    if not _is_constant(draft, made, by):
        return None
    if _is_constant(draft, made, value):
        return value / by
    if value.op == "add":
        terms = [_divided(draft, made, term, by) for term in value.args]
        return None if terms[0] is None or terms[1] is None else terms[0] + terms[1]
    if value.op == "mul":
        for one, other in (value.args, value.args[::-1]):
            if (found := _divided(draft, made, one, by)) is not None:
                return other * found if one is value.args[1] else found * other
    return None


def _is_constant(draft: Draft, made: Computation, value: Expr) -> bool:
    """Whether an expression depends on constants alone."""
    nodes = list(walk(value))
    is_plain = all(node.op not in ("coordinate", "fetch") and not node.op.startswith("fold_") for node in nodes)
    return is_plain and all(draft.is_fixed(made.sources[int(one.value)].tensor) for one in loads(value))


def _next_part(draft: Draft, made: Computation) -> Expr | None:
    """A quotient of constants in a step's value: what is computed before has a name that the draft does not know."""
    nodes = (node for node in walk(made.value) if node.op == "div" and loads(node))
    return next((node for node in nodes if _is_constant(draft, made, node)), None)

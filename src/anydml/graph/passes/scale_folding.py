"""Scale folding: what is quantised after it was scaled is scaled once, by the quotient of both, which is a constant.

A sum of quantised numbers, (x·s + y·t)/u, is computed as x·(s/u) + y·(t/u), as ONNX Runtime does: a number that lies
between two steps may be rounded to the other one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.enums import DataType
from anydml.graph.passes.draft import Draft
from anydml.graph.passes.hoisting import map_ahead, name_ahead, number_ahead, reading
from anydml.graph.recipe import Step, Store
from anydml.ir.trees import loads, rewrite, walk
from anydml.ir.verbs import Computation

if TYPE_CHECKING:
    from anydml.graph.recipe import Recipe
    from anydml.ir.expressions import Expr


_BYTES = (DataType.INT8, DataType.UINT8)


def scale_folding(recipe: Recipe) -> Recipe:
    """Divisions by a constant before numbers are rounded to bytes go into the constants that they were scaled by."""
    if not any(store.kind == "constant" for store in recipe.stores.values()):
        return recipe
    draft, stores, steps = Draft(recipe), dict(recipe.stores), list[Step]()
    for step in recipe.steps:
        made = step.primitive
        if isinstance(made, Computation) and not made.also and not draft.is_constant(step):
            quotient = _quotient(made.value)
            changed = None if quotient is None else _divided(draft, made, *quotient.args)
            if quotient is not None and changed is not None:
                made = replace(made, value=_with(made.value, quotient, changed))
                while (part := _next_part(draft, made)) is not None:
                    ahead = map_ahead(made, part, name_ahead(step, stores))
                    stores[ahead.target.tensor] = Store("scratch", math.prod(ahead.target.sizes) * 4)
                    steps.append(replace(step, primitive=ahead))
                    made = reading(made, ahead.target, {part: number_ahead(made, ahead.target)})
        steps.append(step if made is step.primitive else replace(step, primitive=made))
    return recipe if len(steps) == len(recipe.steps) else replace(recipe, stores=stores, steps=tuple(steps))


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
    if not _is_fixed(draft, made, by):
        return None
    if _is_fixed(draft, made, value):
        return value / by
    if value.op == "add":
        terms = [_divided(draft, made, term, by) for term in value.args]
        return None if terms[0] is None or terms[1] is None else terms[0] + terms[1]
    if value.op == "mul":
        for one, other in (value.args, value.args[::-1]):
            if (found := _divided(draft, made, one, by)) is not None:
                return other * found if one is value.args[1] else found * other
    return None


def _is_fixed(draft: Draft, made: Computation, value: Expr) -> bool:
    """Whether an expression depends on constants alone."""
    nodes = list(walk(value))
    is_plain = all(node.op not in ("coordinate", "fetch") and not node.op.startswith("fold_") for node in nodes)
    return is_plain and all(draft.is_fixed(made.sources[int(one.value)].tensor) for one in loads(value))


def _next_part(draft: Draft, made: Computation) -> Expr | None:
    """A quotient of constants in a step's value: what is computed before has a name that the draft does not know."""
    nodes = (node for node in walk(made.value) if node.op == "div" and loads(node))
    return next((node for node in nodes if _is_fixed(draft, made, node)), None)

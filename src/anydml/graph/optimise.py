"""The optimiser: graph passes over a recipe, some in rounds until it stays as it is, the others once around those. Each
can be left out by its name.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.graph.guard import guard
from anydml.graph.passes import PASSES
from anydml.graph.passes.attention import attention
from anydml.graph.passes.constant_folding import ROOM, constant_folding, prepacking
from anydml.graph.passes.horizontal_fusion import horizontal_fusion
from anydml.graph.passes.layout import matrix_layout, nhwc_layout
from anydml.graph.passes.padding import padding
from anydml.graph.passes.quantisation import lookup_tables, scale_folding, zero_points
from anydml.graph.passes.splitting import split_k
from anydml.graph.passes.weight_only import weight_only
from anydml.graph.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from anydml.engines.common.engine import Engine


class Rewritten(NamedTuple):
    """A graph as an engine runs it."""

    once: Recipe
    """The steps that depend on constants alone, and run when the graph is compiled."""
    recipe: Recipe
    """The steps of a dispatch."""
    did: Mapping[str, str]
    """By the passes' names, in their order, what each did."""


def name_of(pass_: Callable[..., Any]) -> str:
    """A pass is called as its function."""
    return pass_.__name__


def told_passes() -> dict[str, str]:
    """By name, what each pass says of itself, after its title, in the first sentence of its docstring."""
    once: tuple[Callable[..., Any], ...] = (
        weight_only,
        padding,
        lookup_tables,
        zero_points,
        scale_folding,
        attention,
        constant_folding,
        horizontal_fusion,
        nhwc_layout,
        matrix_layout,
        split_k,
        prepacking,
    )
    told = {name_of(pass_): (inspect.getdoc(pass_) or "").partition("\n\n")[0] for pass_ in (*PASSES, *once)}
    return {name: " ".join(text.partition(": ")[2].split()) for name, text in sorted(told.items())}


def every_but_layouts() -> frozenset[str]:
    """The passes that a graph without optimisation lacks: weights of few bits are read as they lie all the same."""
    return frozenset(told_passes()) - {name_of(weight_only), name_of(prepacking)}


def laid_out(recipe: Recipe, owned: Collection[str], room: int, disabled: Collection[str]) -> frozenset[str]:
    """The stores that an engine may lay out ahead: constants, and what is given once."""
    if name_of(prepacking) in disabled:
        return frozenset()
    return prepacking(recipe, room) | {*owned}


def room_needed(recipe: Recipe, known: Collection[str], disabled: Collection[str]) -> int:
    """The bytes of room that constants have to be laid out ahead; -1 where they are not, for want of it."""
    if name_of(prepacking) in disabled:
        return 0
    sizes = [store.size_in_bytes for name, store in recipe.stores.items() if store.kind == "constant"]
    is_there = all(name in known for name, store in recipe.stores.items() if store.kind == "constant")
    return math.ceil(sum(sizes) * ROOM) if is_there else -1


def optimise(recipe: Recipe, disabled: Collection[str] = (), did: dict[str, list[int]] | None = None) -> Recipe:
    """A recipe that leaves the same bits in every output, with fewer and smaller passes over memory.

    But for sums and products of floats: in which order an engine adds them up may change with their layout and with
    what is computed beside them, as it may on another engine.

    Every pass takes away a step, elements of a step or a reversed walk, so that two or three rounds are the usual.
    The passes are through when each of them in turn finds nothing left to do. `did` counts by pass the steps that went
    and those that came in their place.
    """
    idle, passes = 0, [pass_ for pass_ in PASSES if name_of(pass_) not in disabled]
    for pass_ in passes * (len(recipe.steps) + 2):
        before, recipe = recipe, pass_(recipe)
        idle = idle + 1 if recipe is before else 0
        _count(name_of(pass_), before, recipe, did)
        if idle == len(passes):
            break
    return recipe


def rewrite(recipe: Recipe, engine: Engine, disabled: Collection[str] = ()) -> Rewritten:
    """The recipe that an engine runs in place of another, without the passes that are disabled."""
    did: dict[str, list[int]] = {}
    traits = engine.traits

    def apply(pass_: Callable[..., Recipe], given: Recipe, *options: object) -> Recipe:
        name = name_of(pass_)
        found = given if name in disabled else pass_(given, *options)
        _count(name, given, found, did)
        return found

    recipe = apply(weight_only, recipe, traits.weight_only_rows, traits.weight_only_blocks)
    recipe = apply(padding, recipe) if traits.masks_padding else recipe
    recipe = apply(lookup_tables, recipe) if traits.uses_lookup_tables else recipe
    recipe = apply(scale_folding, apply(zero_points, optimise(recipe, disabled, did)))
    recipe = apply(attention, recipe, engine.takes)
    if name_of(constant_folding) in disabled:
        once, always = Recipe({}, ()), recipe
    else:
        unpack = None
        if traits.fuses_dequantization and name_of(weight_only) not in disabled:
            few, blocks = traits.weight_only_rows, traits.weight_only_blocks
            unpack = functools.partial(weight_only, few=few, blocks=blocks, are_many=True)
        once, always = constant_folding(recipe, unpack)
    always = apply(horizontal_fusion, guard(always))
    always = apply(nhwc_layout, always, traits.nhwc)
    always = apply(matrix_layout, always) if traits.chooses_matrix_layouts else always
    always = apply(split_k, always, engine.split_k)
    told = {name: f"{_steps(gone)} became {made}" for name, (gone, made) in did.items()}
    if once.steps:
        told[name_of(constant_folding)] = f"{_steps(len(once.steps))} computed once"
    return Rewritten(once, always, told)


def _steps(count: int) -> str:
    return f"{count} step{'s' * (count != 1)}"


def _count(name: str, before: Recipe, after: Recipe, did: dict[str, list[int]] | None) -> None:
    """Count the steps that a pass took away, and those that it made of them."""
    if did is None or after is before:
        return
    if len(after.steps) == len(before.steps) and all(map(operator.is_, before.steps, after.steps)):
        return  # stores alone went
    old, new = ({id(step) for step in recipe.steps} for recipe in (before, after))
    counts = did.setdefault(name, [0, 0])
    counts[0] += len(old - new)
    counts[1] += len(new - old)

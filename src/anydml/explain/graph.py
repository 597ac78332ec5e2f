"""From a graph to its picture: the nodes, the passes over memory that they became, and what each of those moves."""

from __future__ import annotations

import re
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.reference import ReferenceEngine
from anydml.explain.graph_picture import Became, GraphPicture, Pass, Tensor, group_passes, label_stores
from anydml.explain.graph_words import short, word_kind, word_step
from anydml.graph.arena import lay_out
from anydml.graph.lower import lower
from anydml.graph.optimise import rewrite
from anydml.graph.recipe import Recipe
from anydml.graph.wiring import constants, input_descs, node_names, operators, output_descs, slot_names, used_nodes
from anydml.ir.cost import work_of
from anydml.ir.views import View, trace

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.graph.description import GraphDesc
    from anydml.graph.recipe import Step

_EMPTY = Recipe({}, ())
_MADE = re.compile("(output[0-9]+) (held back|once)")
"""The runtime's name for stores of its own beside an output."""
_AHEAD = re.compile("(.+) (laid out(?: more)*)")
"""Its name for constants in the layout of an engine."""


class Recipes(NamedTuple):
    """A graph as it is described and as it runs."""

    before: Recipe
    """A step for each node."""
    after: Recipe
    """The steps of a dispatch."""
    once: Recipe = _EMPTY
    """The steps that are taken when the graph is compiled, on constants alone."""
    did: Mapping[str, str] = MappingProxyType({})
    """By the names of graph passes, what each did."""


def recipes_of(desc: GraphDesc, disabled: Collection[str] = ()) -> Recipes:
    """The recipes of a graph in which nothing is at fault, with some passes disabled."""
    before = lower(desc)
    once, after, did = rewrite(before, ReferenceEngine(), disabled)
    return Recipes(before, after, once, did)


def explain_desc(
    desc: GraphDesc, recipes: Recipes | None = None, *, arena_bytes: int | None = None, title: str = ""
) -> GraphPicture:
    """A picture of a graph in which nothing is at fault: of what it would become, or of the recipes that are given.

    Without `arena_bytes` the scratch memory is what the memory plan says of the recipe.
    """
    recipes = recipes or recipes_of(desc)
    names, used = node_names(desc), used_nodes(desc)
    names_in, names_out = slot_names(desc)
    inputs = dict(zip(names_in, input_descs(desc), strict=True))
    outputs = dict(zip(names_out, output_descs(desc), strict=True))
    idle = tuple(f"{short(names[i])} feeds no output, and does not run." for i in range(len(names)) if i not in used)
    return explain_graph(
        recipes.before,
        recipes.after,
        once=recipes.once,
        did=recipes.did,
        inputs={name: known for name, known in inputs.items() if known is not None},
        outputs={name: known for name, known in outputs.items() if known is not None},
        constants={names[i]: (f"constant{i}", node.desc) for i, node in constants(desc).items()},
        arena_bytes=lay_out(recipes.after).size_in_bytes if arena_bytes is None else arena_bytes,
        operators={names[i]: node.kind for i, node in operators(desc).items()},
        wholes=_wholes(desc, recipes.before),
        notes=idle,
        title=title,
    )


def _wholes(desc: GraphDesc, before: Recipe) -> dict[str, TensorDesc]:
    """The contents of stores that several steps write parts of: the description of the node that has these steps."""
    shared, names = before.shared(), node_names(desc)
    steps: dict[str, list[Step]] = {}
    for step in before.steps:
        steps.setdefault(step.nodes[0], []).append(step)
    found: dict[str, TensorDesc] = {}
    for i, node in operators(desc).items():
        of_node = steps.get(names[i], [])
        if any(step.target.tensor in shared for step in of_node):
            outputs = dict(node.outputs.values())
            pairs = zip(of_node, node.desc.lower(), strict=False)  # copies of its result come after
            kinds = ((step.target.tensor, outputs.get(own.target.tensor)) for step, own in pairs)
            found |= {name: kind for name, kind in kinds if kind is not None}  # temporaries have no description
    return found


def explain_graph(
    before: Recipe,
    after: Recipe,
    *,
    once: Recipe | None = None,
    did: Mapping[str, str] | None = None,
    inputs: Mapping[str, TensorDesc],
    outputs: Mapping[str, TensorDesc],
    constants: Mapping[str, tuple[str, TensorDesc | None]] | None = None,
    arena_bytes: int,
    operators: Mapping[str, str] | None = None,
    wholes: Mapping[str, TensorDesc] | None = None,
    notes: tuple[str, ...] = (),
    title: str = "",
) -> GraphPicture:
    """A picture of a recipe as it was lowered and of the one that runs.

    `inputs` and `outputs` are in their order, by name; `constants` say the store and, where it is known, the
    description of those that have a name; `operators` the operator of each node, for which its primitive stands in
    where it is not said; `wholes` what a store holds that several steps write parts of. `once` holds what is computed
    when the graph is compiled, and `did` what each graph pass did.
    """
    once = once or _EMPTY
    slots = {f"input{i}": (name, desc) for i, (name, desc) in enumerate(inputs.items())}
    slots |= {f"output{i}": (name, desc) for i, (name, desc) in enumerate(outputs.items())}
    known: dict[str, tuple[str, TensorDesc | None]] = {**slots}
    known |= {store: (name, desc) for name, (store, desc) in (constants or {}).items()}
    tensors: dict[str, Tensor] = {}
    whole = []
    for recipe in (before, once, after):
        described = {**(wholes or {}), **{store: desc for store, (_, desc) in known.items() if desc is not None}}
        for store in recipe.stores:  # what is made beside an output is laid out as the output is
            made = _MADE.fullmatch(store) or (_AHEAD.fullmatch(store) if recipe is after else None)
            if made and made[1] in described:
                described[store] = described[made[1]]
        layouts = {store: View.of(store, desc) for store, desc in described.items()}
        for step in recipe.steps:
            for target in step.targets:
                layouts.setdefault(target.tensor, target)
        views = {view.tensor: view for step in reversed(recipe.steps) for view in (*step.sources, *step.targets)}
        for store, view in {**views, **{s: v for s, v in layouts.items() if s in recipe.stores}}.items():
            held = recipe.stores[store]
            name = short(_name(store, known))
            tensors.setdefault(store, Tensor(name, held.kind, view.data_type, view.sizes, held.size_in_bytes))
        whole.append(layouts)
    labels = label_stores(tensors)
    drawn, made_once, run = (
        tuple(_pass(step, layouts, labels) for step in recipe.steps)
        for recipe, layouts in zip((before, once, after), whole, strict=True)
    )
    if any(store.endswith(" held back") and _MADE.fullmatch(store) for store in after.stores):
        notes = ("An output is held back until the last index is known to be inside its dimension.", *notes)
    kinds = {**{step.nodes[0]: word_kind(step) for step in reversed(before.steps)}, **(operators or {})}
    groups = {drawn[group[0]].nodes: group for group in reversed(group_passes(drawn))}  # copies of results come after
    own = {number for group in groups.values() for number in group}
    drawn = tuple(replace(one, operator=kinds[one.nodes[0]] if k in own else "copy") for k, one in enumerate(drawn))
    became = _became(
        drawn, run, made_once, [_places(step)[0] for step in before.steps], [_places(step) for step in after.steps]
    )
    return GraphPicture(drawn, run, made_once, became, tensors, arena_bytes, notes, short(title, 80), did or {})


def _name(store: str, known: Mapping[str, tuple[str, TensorDesc | None]]) -> str:
    if (made := _MADE.fullmatch(store) or _AHEAD.fullmatch(store)) and made[1] in known:
        return f"{known[made[1]][0]} {made[2]}"
    return known[store][0] if store in known else store


def _pass(step: Step, layouts: Mapping[str, View], names: Mapping[str, str]) -> Pass:
    reads = tuple(dict.fromkeys(view.tensor for view in step.sources))
    writes = tuple(target.tensor for target in step.targets)
    return Pass(step.nodes, word_step(step, layouts, names), reads, writes, work_of(step.primitive).bytes)


def _places(step: Step) -> tuple[View, ...]:
    """The store that a step writes, and for one beside an output its part of the output."""
    made = [(target, _MADE.fullmatch(target.tensor)) for target in step.targets]
    return tuple(replace(target, tensor=match[1]) if match else target for target, match in made)


def _became(
    before: Sequence[Pass],
    after: Sequence[Pass],
    once: Sequence[Pass],
    places_before: Sequence[View],
    places_after: Sequence[tuple[View, ...]],
) -> tuple[Became, ...]:
    """By name, and by where it is written where a node has several passes: parts of its result, or copies of it."""
    homes: dict[str, list[int]] = {}
    for number, one in enumerate(after):
        for node in one.nodes:
            homes.setdefault(node, []).append(number)
    made_once = {node for one in once for node in one.nodes}
    places: dict[tuple[str, ...], set[View]] = {}
    for one, place in zip(before, places_before, strict=True):
        places.setdefault(one.nodes, set()).add(place)
    found = []
    for one, place in zip(before, places_before, strict=True):
        numbers = sorted({number for node in one.nodes for number in homes.get(node, ())})
        if len(places[one.nodes]) > 1:
            own = [number for number in numbers if any(_is_part(view, place) for view in places_after[number])]
            numbers = own or [n for n in numbers if places[one.nodes].isdisjoint(places_after[n])] or numbers
        found.append(Became(tuple(numbers), any(node in made_once for node in one.nodes)))
    return tuple(found)


def _is_part(view: View, place: View) -> bool:
    return view == place or (view.tensor == place.tensor and trace(view, place) is not None)

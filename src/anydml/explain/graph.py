"""A picture of a graph: its nodes, the passes over memory that they became, and what each of those moves."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.explain.graph_words import short, word_count, word_step
from anydml.graph.arena import lay_out
from anydml.graph.guard import guard
from anydml.graph.lower import lower
from anydml.graph.optimise import optimise
from anydml.graph.recipe import Recipe
from anydml.graph.rules.constants import split_constants
from anydml.graph.wiring import constants, input_descs, node_names, operators, output_descs, slot_names, used_nodes
from anydml.memory import word_bytes
from anydml.primitives import IndexedCopy, Scan, View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.enums import DataType
    from anydml.graph.description import GraphDesc
    from anydml.graph.recipe import Step, StoreKind
    from anydml.tensor import TensorDesc

_EMPTY = Recipe({}, ())
_MADE = re.compile("(output[0-9]+) (held back|once)")
"""What the runtime calls stores of its own beside an output."""


class Recipes(NamedTuple):
    """A graph as it is described and as it runs."""

    before: Recipe
    """A step for each node."""
    after: Recipe
    """The steps of a dispatch."""
    once: Recipe = _EMPTY
    """The steps that are taken when the graph is compiled, on constants alone."""


def recipes_of(desc: GraphDesc) -> Recipes:
    """What a graph in which nothing is at fault becomes when it is compiled."""
    before = lower(desc)
    once, after = split_constants(optimise(before))
    return Recipes(before, guard(after), once)


@dataclass(frozen=True, slots=True)
class Tensor:
    """What a store holds."""

    name: str
    kind: StoreKind
    data_type: DataType
    sizes: tuple[int, ...]
    size_in_bytes: int


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over memory."""

    nodes: tuple[str, ...]
    """Whose work it does."""
    does: str
    """What that is, in words."""
    reads: tuple[str, ...]
    """The stores that it reads."""
    writes: str
    """The store that it writes."""
    bytes_moved: int
    operator: str = ""
    """That of the node, where it is a node's own pass; a node's further passes are copies of its result."""


@dataclass(frozen=True, slots=True)
class Became:
    """What became of a node's pass."""

    passes: tuple[int, ...] = ()
    """The numbers of the passes after that do its work, from 0."""
    is_once: bool = False
    """Whether some of it is done when the graph is compiled."""

    def __str__(self) -> str:
        several = "es" if len(self.passes) > 1 else ""
        told = f"pass{several} {', '.join(str(n + 1) for n in self.passes)}" if self.passes else ""
        once = "computed once" if self.is_once else ""
        return " and ".join(filter(None, (once, told))) or "not needed"


@dataclass(frozen=True, slots=True)
class GraphPicture:
    """A graph before and after it was compiled.

    `print(picture)` writes it; `.svg()` and `.html()` draw it, and a notebook shows it by itself.
    """

    before: tuple[Pass, ...]
    """A pass for each node."""
    after: tuple[Pass, ...]
    """The passes of a dispatch."""
    once: tuple[Pass, ...]
    """The passes that are made when the graph is compiled."""
    became: tuple[Became, ...]
    """What became of each pass before."""
    tensors: Mapping[str, Tensor]
    """By store."""
    arena_bytes: int
    """The scratch memory of a dispatch."""
    notes: tuple[str, ...] = ()
    title: str = ""

    @property
    def bytes_before(self) -> int:
        """What the nodes move one by one."""
        return sum(one.bytes_moved for one in self.before)

    @property
    def bytes_after(self) -> int:
        """What a dispatch moves."""
        return sum(one.bytes_moved for one in self.after)

    @property
    def summary(self) -> str:
        """The whole in one line."""
        count = len({node for one in self.before for node in one.nodes})
        passes, saved = len(self.before) - len(self.after), self.bytes_before - self.bytes_after
        told = f"{word_count(count, 'node')}: one by one {_moving(self.before)}, compiled {_moving(self.after)}"
        less = [word_count(passes, "pass")] if passes > 0 else []
        less += [f"{word_bytes(saved)} ({100 * saved // self.bytes_before}%)"] if saved > 0 else []
        more = [word_count(-passes, "pass")] if passes < 0 else []
        more += [word_bytes(-saved)] if saved < 0 else []
        changes = [f"{' and '.join(parts)} {word}" for parts, word in ((less, "less"), (more, "more")) if parts]
        return f"{told}: {', '.join(changes)}" if changes else told

    def text(self) -> str:
        """Two tables for a terminal, without colour."""
        from anydml.explain.graph_text import plain

        return plain(self)

    def svg(self) -> str:
        """The graph as a standalone SVG document, light or dark as its reader's system is."""
        from anydml.explain.graph_svg import draw

        return draw(self)

    def html(self) -> str:
        """The drawing and the tables as a page of their own."""
        from anydml.explain.graph_html import page

        return page(self)

    def _repr_svg_(self) -> str:
        """The drawing in a notebook."""
        return self.svg()

    def _repr_html_(self) -> str:
        """The drawing and the tables in a notebook."""
        from anydml.explain.graph_html import fragment

        return fragment(self)

    def __str__(self) -> str:
        return self.text()


def _moving(passes: Sequence[Pass]) -> str:
    size = word_bytes(sum(one.bytes_moved for one in passes))
    return f"{word_count(len(passes), 'pass')} that move{'s' if len(passes) == 1 else ''} {size}"


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
        inputs={name: known for name, known in inputs.items() if known is not None},
        outputs={name: known for name, known in outputs.items() if known is not None},
        constants={names[i]: (f"constant{i}", node.desc) for i, node in constants(desc).items()},
        arena_bytes=lay_out(recipes.after).size_in_bytes if arena_bytes is None else arena_bytes,
        operators={names[i]: node.kind for i, node in operators(desc).items()},
        notes=idle,
        title=title,
    )


def explain_graph(
    before: Recipe,
    after: Recipe,
    *,
    once: Recipe | None = None,
    inputs: Mapping[str, TensorDesc],
    outputs: Mapping[str, TensorDesc],
    constants: Mapping[str, tuple[str, TensorDesc | None]] | None = None,
    arena_bytes: int,
    operators: Mapping[str, str] | None = None,
    notes: tuple[str, ...] = (),
    title: str = "",
) -> GraphPicture:
    """A picture of a recipe as it was lowered and of the one that runs.

    `inputs` and `outputs` are in their order, by name; `constants` say the store and, where it is known, the
    description of those that have a name; `operators` the operator of each node, for which its primitive stands in
    where it is not said. `once` holds what is computed when the graph is compiled.
    """
    once = once or _EMPTY
    slots = {f"input{i}": (name, desc) for i, (name, desc) in enumerate(inputs.items())}
    slots |= {f"output{i}": (name, desc) for i, (name, desc) in enumerate(outputs.items())}
    known: dict[str, tuple[str, TensorDesc | None]] = {**slots}
    known |= {store: (name, desc) for name, (store, desc) in (constants or {}).items()}
    tensors: dict[str, Tensor] = {}
    whole = []
    for recipe in (before, once, after):
        layouts = {store: View.of(store, desc) for store, (_, desc) in known.items() if desc is not None}
        for step in recipe.steps:
            layouts.setdefault(step.target.tensor, step.target)
        views = {view.tensor: view for step in reversed(recipe.steps) for view in (*step.sources, step.target)}
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
    kinds = {**{step.nodes[0]: _kind(step) for step in reversed(before.steps)}, **(operators or {})}
    drawn = tuple(replace(one, operator=kinds.pop(one.nodes[0], "copy")) for one in drawn)
    became = _became(drawn, run, made_once)
    return GraphPicture(drawn, run, made_once, became, tensors, arena_bytes, notes, short(title, 80))


def label_stores(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """What each store is called in words: its name, and its kind too where one of another kind has that name."""
    kinds: dict[str, set[StoreKind]] = {}
    for tensor in tensors.values():
        kinds.setdefault(tensor.name, set()).add(tensor.kind)
    return {store: f"{one.kind} {one.name}" if len(kinds[one.name]) > 1 else one.name for store, one in tensors.items()}


def _name(store: str, known: Mapping[str, tuple[str, TensorDesc | None]]) -> str:
    if (made := _MADE.fullmatch(store)) and made[1] in known:
        return f"{known[made[1]][0]} {made[2]}"
    return known[store][0] if store in known else store


def _pass(step: Step, layouts: Mapping[str, View], names: Mapping[str, str]) -> Pass:
    reads = tuple(dict.fromkeys(view.tensor for view in step.sources))
    return Pass(step.nodes, word_step(step, layouts, names), reads, step.target.tensor, step.bytes_moved)


def _kind(step: Step) -> str:
    if isinstance(step.primitive, Scan):
        return f"running {step.primitive.function}"
    return "gather" if isinstance(step.primitive, IndexedCopy) else "copy"


def _became(before: tuple[Pass, ...], after: tuple[Pass, ...], once: tuple[Pass, ...]) -> tuple[Became, ...]:
    """By name, and by what is written where a node has several passes: an output that is a copy of another."""
    homes: dict[str, list[int]] = {}
    for number, one in enumerate(after):
        for node in one.nodes:
            homes.setdefault(node, []).append(number)
    made_once = {node for one in once for node in one.nodes}
    count: dict[str, int] = {}
    for one in before:
        for node in one.nodes:
            count[node] = count.get(node, 0) + 1
    found = []
    for one in before:
        numbers = sorted({number for node in one.nodes for number in homes.get(node, ())})
        if any(count[node] > 1 for node in one.nodes):
            numbers = [number for number in numbers if after[number].writes == one.writes] or numbers
        found.append(Became(tuple(numbers), any(node in made_once for node in one.nodes)))
    return tuple(found)

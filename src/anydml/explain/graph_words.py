"""The work of a pass of a graph in words, and names and numbers as people read them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.explain.formula import Formula, name_index
from anydml.explain.layout import clean
from anydml.explain.values import write_number, write_single
from anydml.explain.view_words import word_sizes, word_verb, word_view
from anydml.ir.attention import Attend
from anydml.ir.contraction import match_contraction
from anydml.ir.fetches import Gathered, Reversed, match_gathered, match_reversed
from anydml.ir.patterns import Filled, is_copy, match_filled, match_scaled
from anydml.ir.trees import walk
from anydml.ir.verbs import Joined, Map, Primitive, Reduce, Repeat, Scan, Scatter, Sort

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.graph.recipe import Step
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Computation
    from anydml.ir.views import View

_LONGEST_NAME = 32
_LONGEST_IN_FORMULA = 20
_MOST_VIEWS = 2
"""Of those in a formula that more is to be said of."""
_PLAIN = re.compile(r"[\w.]+")
"""Names that no formula is mistaken for part of."""
_ARABIC_MARK = "\u061c"
"""It has no shape of its own, and moves what stands around it."""


class _Words(NamedTuple):
    """The names of views."""

    layouts: Mapping[str, View]
    """The whole tensors that stores hold, where that is known."""
    names: Mapping[str, str]

    def of(self, view: View, name: str | None = None) -> str:
        """A view, by its store's name or another."""
        return word_view(view, self.layouts.get(view.tensor), self.names[view.tensor] if name is None else name)


def word_step(step: Step, layouts: Mapping[str, View], names: Mapping[str, str]) -> str:
    """A sentence: `running sum along axis 1, decreasing, of x[..., ::-1]`.

    `layouts` are the whole tensors that stores hold, where that is known.
    """
    words, primitive = _Words(layouts, names), step.primitive
    each = primitive.apart()
    return "; ".join(_word_target(one, words, is_only=len(each) == 1) for one in each)


def _word_target(primitive: Primitive, words: _Words, *, is_only: bool) -> str:
    parts, target = _VERBS.get(type(primitive), _ANY).told(primitive, words)
    where = words.of(target)
    return ", ".join(parts) + ("" if is_only and where == words.names[target.tensor] else f", into {where}")


def word_kind(step: Step) -> str:
    """The work of a step in a word or two."""
    return _kind_of(step.primitive)


def _kind_of(primitive: Primitive) -> str:
    return _VERBS.get(type(primitive), _ANY).kind(primitive)


# Each verb: what it does and how, in a few words each, and the view that it writes


def _tell_map(primitive: Map, words: _Words) -> tuple[list[str], View]:
    target, simple = primitive.target, match_scaled(primitive)
    if is_copy(primitive):
        return [f"copy {word_sizes(target.sizes)} from {words.of(primitive.source)}"], target
    if fill := match_filled(primitive):
        return _tell_fill(fill), target
    if gather := match_gathered(primitive):
        return _tell_gather(gather, words)
    if reverse := match_reversed(primitive):
        return _tell_reverse(reverse, words)
    if along := _placed_along(primitive):
        where = f"by places along axis {' and '.join(map(str, along))}"
        return [
            f"copy {word_sizes(target.sizes)} from {words.of(primitive.sources[int(primitive.value.value)])} {where}"
        ], target
    if simple is None:
        return _tell_formula(primitive, words), target
    if simple.is_conversion:
        return [f"convert {words.of(primitive.source)} to {target.data_type.name}"], target
    parts = [f"scale {words.of(primitive.source)} by {write_single(simple.scale)}"]
    parts += [f"add {write_single(simple.bias)}"] if simple.bias else []
    return parts + (
        [f"convert to {target.data_type.name}"] if target.data_type != primitive.source.data_type else []
    ), target


def _placed_along(primitive: Map) -> list[int]:
    """The axes along which a map moves elements to places that depend on coordinates alone; none for other maps."""
    nodes = list(walk(primitive.value))
    if primitive.value.op != "fetch" or any(node.op in ("load", "fetch") for node in nodes[:-1]):
        return []
    return [k for k, index in enumerate(primitive.value.args) if index.op not in ("coordinate", "const")]


def _tell_formula(primitive: Computation, words: _Words) -> list[str]:
    """The formula, in which a view is its name and its slices, then what else there is to say of views."""
    sources = primitive.sources
    if primitive.depth:  # along rows and columns nearly everything is repeated: that goes without saying
        sources = tuple(view.pick([k for k, stride in enumerate(view.strides) if stride]) for view in sources)
    names = [_in_formula(words.names[view.tensor]) for view in sources]
    told = [words.of(view, name) for view, name in zip(sources, names, strict=True)]
    others: dict[str, str] = {whole: whole for whole in told}
    """The words on each name: the name alone, where there is no more to say."""
    for k, (view, name, whole) in enumerate(zip(sources, names, told, strict=True)):
        if " " in whole.removeprefix(name).replace(", ", ","):  # more than slices
            while others.get(name, whole) != whole:  # another view of the same store
                name += "'"
                whole = words.of(view, name)
            others[name], told[k] = whole, name

    def leaf(node: Expr) -> str:
        return name_index(node) if node.op == "coordinate" else told[int(node.value)]

    text = Formula(primitive.value, leaf).text(leaf)
    said = [whole for name, whole in others.items() if name != whole and name in text]
    return [f"compute {text}", *said[:_MOST_VIEWS], *["…"] * (len(said) > _MOST_VIEWS)]


def _in_formula(name: str) -> str:
    name = short(name, _LONGEST_IN_FORMULA)
    return name if _PLAIN.fullmatch(name) else f"'{name}'"


def _map_kind(primitive: Map) -> str:
    if is_copy(primitive):
        return "copy"
    if match_filled(primitive):
        return "fill"
    if match_gathered(primitive):
        return "gather"
    if match_reversed(primitive):
        return "reverse"
    if _placed_along(primitive):
        return "copy"
    simple = match_scaled(primitive)
    return "map" if simple is None else "conversion" if simple.is_conversion else "scale"


def _tell_reduce(primitive: Reduce, words: _Words) -> tuple[list[str], View]:
    rows = [size for size in primitive.sizes[len(primitive.sizes) - primitive.depth :] if size > 1]
    along = f"along rows of {word_sizes(rows)}" if rows else ""
    target = primitive.target.pick([k for k, stride in enumerate(primitive.target.strides) if stride])
    return [*_tell_formula(primitive, words), *([along] if along else [])], target


def _reduce_kind(primitive: Reduce) -> str:
    if match_contraction(primitive):
        return "product"
    return "reduction" if primitive.is_by_row else "rows"


def _tell_gather(primitive: Gathered, words: _Words) -> tuple[list[str], View]:
    target = primitive.target
    axis = _axis_of_elements(primitive, words.layouts.get(target.tensor))
    if axis is None:
        return _gather_parts(primitive, words), target
    order = _moved(axis, len(target.sizes))
    source, indices, target = (view.pick(order) for view in (primitive.source, primitive.indices, primitive.target))
    parts = [f"gather {word_sizes(target.sizes)} from {words.of(source)} by {words.of(indices)}"]
    return [*parts, f"element by element along axis {axis}", *(["clamped"] if primitive.clamp else [])], target


def _axis_of_elements(primitive: Gathered, whole: View | None) -> int | None:
    """The axis of a gather in which each index picks one element: it stands last in the primitive, not in the target.

    None for other gathers, and where the target is not a whole tensor that would say it.
    """
    if whole is None or primitive.tuple_size != 1:
        return None
    rank = len(primitive.target.sizes)
    ranks = {len(primitive.source.sizes), len(primitive.indices.sizes) - 1, primitive.batch_rank + 1}
    if _is_shared(primitive) or ranks != {rank}:
        return None
    return next((k for k in range(rank) if primitive.target.pick(_moved(k, rank)) == whole), None)


def _moved(axis: int, rank: int) -> list[int]:
    """The order that moves the last dimension to where an axis is."""
    return [*range(axis), rank - 1, *range(axis, rank - 1)]


def _gather_parts(primitive: Gathered, words: _Words) -> list[str]:
    rank, indices = primitive.batch_rank, primitive.indices
    is_shared = _is_shared(primitive)
    indices = indices.last(len(indices.sizes) - rank) if is_shared else indices
    parts = [f"gather {word_sizes(primitive.target.sizes)} from {words.of(primitive.source)} by {words.of(indices)}"]
    if is_shared:
        parts.append(f"along axis {rank}")
    elif rank:
        parts.append(f"{rank} batch dimension{'s' if rank > 1 else ''}")
    return parts + (["clamped"] if primitive.clamp else [])


def _is_shared(primitive: Gathered) -> bool:
    """Whether all batches, of which there are several, have the same indices."""
    indices, rank = primitive.indices, primitive.batch_rank
    return any(size > 1 for size in indices.sizes[:rank]) and not any(indices.strides[:rank])


def _tell_scan(primitive: Scan, words: _Words) -> tuple[list[str], View]:
    parts = [f"running {primitive.function} along axis {primitive.axis}"]
    parts += ["decreasing"] if primitive.reverse else []
    parts += ["exclusive"] if primitive.exclusive else []
    parts.append(f"of {words.of(primitive.source)}")
    return [" ".join(parts)] if len(parts) == 2 else parts, primitive.target


def _tell_scatter(primitive: Scatter, words: _Words) -> tuple[list[str], View]:
    source, indices, updates = map(words.of, primitive.sources)
    return [f"copy {source}", f"scatter {updates} into it by {indices}"], primitive.target


def _tell_sort(primitive: Sort, words: _Words) -> tuple[list[str], View]:
    which = "largest" if primitive.largest else "smallest"
    count, axis = primitive.target.sizes[primitive.axis], primitive.axis
    return [f"places of the {count} {which} along axis {axis} of {words.of(primitive.source)}"], primitive.target


def _tell_fill(fill: Filled) -> list[str]:
    start, delta = (write_number(number, fill.target.data_type) for number in (fill.start, fill.delta))
    return [f"fill {word_sizes(fill.target.sizes)} with {start}", *([f"{delta} more each time"] if fill.delta else [])]


def _tell_reverse(primitive: Reversed, words: _Words) -> tuple[list[str], View]:
    line = f"reverse {words.of(primitive.source)} along axis {primitive.axis}"
    return [line, f"as far as {words.of(primitive.lengths)} says"], primitive.target


def _tell_attend(primitive: Attend, words: _Words) -> tuple[list[str], View]:
    query, key, value, *others = (words.names[view.tensor] for view in primitive.sources)
    beside = [f"scores with {', '.join(dict.fromkeys(others))}"] if others else []
    return [f"attend from {query} to {key}", *beside, f"add up {value}"], primitive.target


def _tell_repeat(primitive: Repeat, words: _Words) -> tuple[list[str], View]:
    """The steps as they are at all times: in what order they go through those is said once."""
    told = [_word_target(one, words, is_only=False) for step in primitive.steps for one in step.apart()]
    last = primitive.steps[-1].target
    return [f"{word_count(primitive.sizes[0], 'time')} in turn: {'; '.join(told)}"], last


def _tell_joined(primitive: Joined, words: _Words) -> tuple[list[str], View]:
    """The last of the verbs, of what those before it make."""
    *before, last = primitive.verbs
    made = {view.tensor: "it" for verb in before for view in verb.targets if view.tensor not in words.names}
    inner = _Words(words.layouts, {**words.names, **made})
    told = [_word_target(one, inner, is_only=True) for verb in before for one in verb.apart()]
    parts, target = _VERBS.get(type(last), _ANY).told(last, inner)
    return ["; ".join((*told, ", ".join(parts)))], target


def _tell_any(primitive: Primitive, words: _Words) -> tuple[list[str], View]:
    return [f"{word_verb(primitive)} {', '.join(map(words.of, primitive.sources))}"], primitive.target


class _Verb(NamedTuple):
    kind: Callable[[Any], str]
    told: Callable[[Any, _Words], tuple[list[str], View]]


_VERBS: dict[type[Primitive], _Verb] = {
    Map: _Verb(_map_kind, _tell_map),
    Reduce: _Verb(_reduce_kind, _tell_reduce),
    Scan: _Verb(lambda scan: f"running {scan.function}", _tell_scan),
    Scatter: _Verb(word_verb, _tell_scatter),
    Sort: _Verb(lambda _: "order", _tell_sort),
    Repeat: _Verb(word_verb, _tell_repeat),
    Joined: _Verb(lambda joined: _kind_of(joined.verbs[-1]), _tell_joined),
    Attend: _Verb(lambda _: "attention", _tell_attend),
}
_ANY = _Verb(word_verb, _tell_any)
"""Of a verb that has no words of its own."""


# Names and numbers


def word_count(count: int, what: str) -> str:
    """So many of something: `1 pass`, `3 passes`."""
    ending = "" if count == 1 else "es" if what.endswith("s") else "s"
    return f"{count} {what}{ending}"


def tidy(text: str) -> str:
    """Text on one line, without what only a terminal or a reader's eye takes for more than text."""
    return " ".join(clean(text).replace(_ARABIC_MARK, "\ufffd").split())


def short(name: str, longest: int = _LONGEST_NAME) -> str:
    """A name on one line that is not long: they come from anywhere."""
    name = tidy(name)
    return name if len(name) <= longest else name[: longest - 1] + "…"


def word_list(names: Sequence[str], most: int = 6) -> str:
    """Names in a row, and how many there are besides."""
    told = ", ".join(map(short, names[:most]))
    return told if len(names) <= most else f"{told} and {len(names) - most} more"

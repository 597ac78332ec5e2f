"""From a description and data to a picture."""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections import Counter
from functools import partial
from inspect import isfunction
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enums import FeatureLevel
from anydml.core.errors import BindingError, DescriptionError, DmlError, Fault, raise_description_faults, show
from anydml.core.late_imports import import_alone
from anydml.core.operator_type import OperatorType
from anydml.explain.copies import CopyTale, JoinTale
from anydml.explain.fetches import GatherTale, ReversalTale
from anydml.explain.folds import ReduceTale, ScanTale
from anydml.explain.grids import Limits, Scene, choose_inputs, choose_outputs, cut_input, cut_output, draw_grid
from anydml.explain.maps import FillTale, MapTale, MoveTale, match_moved
from anydml.explain.operator_tales import NonzeroTale, RandomTale
from anydml.explain.picture import Element, Picture
from anydml.explain.tale import MOST_SENTENCES, GenericTale, Tale, lower_packed
from anydml.explain.values import read_array, write_single
from anydml.ir.fetches import match_gathered, match_reversed
from anydml.ir.patterns import is_copy, match_filled
from anydml.ir.verbs import Computation, Map, Primitive, Reduce, Scan
from anydml.operators import OperatorDesc, ScaleBias, find_operator
from anydml.operators.fused import FusedActivation
from anydml.operators.schema.fields import bare_name, dml_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.core.enums import LevelName
    from anydml.explain.picture import Coordinate, Grid
    from anydml.explain.tale import Landing
    from anydml.explain.values import Values

_DEFAULT_LIMITS = Limits()


def explain(
    desc: OperatorDesc | type[OperatorDesc] | Callable[..., object] | str,
    *inputs: object,
    feature_level: FeatureLevel | LevelName | str = FeatureLevel.highest(),  # noqa: B008 - a constant
    title: str = "",
    limits: Limits = _DEFAULT_LIMITS,
) -> Picture:
    """Make a picture of what an operator does, of an operator's name or function of its example: `explain("slice1")`.

    `inputs` are arrays in binding order; None, or one that is left away, stands for values that are made up: 1, 2,
    3 …, and indices that count down; one on a GPU is copied from there. A description that is not
    valid at the feature level gives a picture whose `error` says why. `title` names what the description is part of.

    >>> import anydml as dml
    >>> x = dml.TensorDesc("float32", (4,))
    >>> print(explain(dml.CumulativeSummation(input_tensor=x, output_tensor=x, axis=0)).sentences[2])
    output[2] = 1 + 2 + 3 = 6
    """
    way_out = ""
    if isinstance(desc, (str, type)) or isfunction(desc):
        import_alone("anydml.cli.explain_examples")
        from anydml.api.signatures import operator_of_function
        from anydml.cli.explain_examples import example

        name = desc.__name__ if isfunction(desc) else desc
        cls = (operator_of_function(name) if isinstance(name, str) else None) or _operator_of(desc)
        way_out = f"this is the example's: of other tensors {word_description(cls)}"
        desc, others = example(cls)
        inputs = (*inputs, *others[len(inputs) :])
    if not isinstance(desc, OperatorDesc):
        rule = "desc must be an operator description, such as Slice1(...), or an operator's name, such as 'slice1'"
        raise DescriptionError("explain", Fault(field="desc", rule=rule, value=desc, found=show(desc)))
    name, fields, title = desc.type.name, _fields(desc), " ".join(title.split())
    report = desc.check(feature_level)
    try:
        raise_description_faults(name, report.faults)
    except DmlError as error:
        return Picture(name, title, fields, error=error.with_traceback(None))
    primitives = lower_packed(desc)
    kind, primitive = _tale_of(desc, primitives)
    try:
        values = _values(desc, partial(kind.made_up, desc, primitive), inputs)
    except BindingError as error:
        faults = [dataclasses.replace(fault, way_out=fault.way_out or way_out) for fault in error.faults]
        raise BindingError(name, faults) from None
    tale = kind(desc, primitives if len(primitives) > 1 else primitive, values)
    grids, landings = _draw(desc, tale, kind.frames(desc, primitive), values, limits)
    notes = (
        *[f"{grid.tensor}: {grid.left_out} left out." for grid in grids if grid.left_out],
        *_undrawn(desc, grids),
        *_value_notes(values),
        *tale.notes(),
        *[f"{remark}." for remark in report.remarks],
    )
    sentences = tuple(tale.sentences(landings))
    return Picture(name, title, fields, tale.summary, grids, tale.legend, sentences, notes)


def word_description(named: object = None) -> str:
    """How to explain an operator with fields of one's own."""
    try:
        cls = find_operator(named)  # type: ignore[arg-type]  # whatever was given, which is looked at here
    except DmlError:
        cls = find_operator("slice1")
    return f"write explain(dml.{cls.__name__}(...), *inputs), with its fields in the description"


def _operator_of(named: type | str | Callable[..., object]) -> type[OperatorDesc]:
    try:
        return find_operator(named)
    except DescriptionError as error:
        (fault,) = error.faults
        rule, way_out = "desc must name an operator, as 'slice1' does", fault.way_out
        if isinstance(named, str) and named.lower().endswith((".onnx", ".json")):
            way_out = f"the command `anydml explain {named}` shows a model"
        raise DescriptionError(
            "explain", Fault(field="desc", rule=rule, value=named, found=show(named), way_out=way_out)
        ) from None


def shown_inputs(desc: OperatorDesc, *inputs: object) -> list[np.ndarray[Any, Any]]:
    """The inputs of a valid description as its picture has them, every element: those given, and those made up."""
    kind, primitive = _tale_of(desc, lower_packed(desc))
    values = _values(desc, partial(kind.made_up, desc, primitive), inputs)
    frames, found = kind.frames(desc, primitive), []
    for name, tensor in desc.inputs().items():
        elements = [values[name].at(at) for at in np.ndindex(*frames[name])]
        found.append(np.array(elements, tensor.data_type.number_dtype).reshape(tensor.sizes))
    return found


def _fields(desc: OperatorDesc) -> tuple[tuple[str, str], ...]:
    """The attributes as the documents write them; what DirectML does not have, only where it is set."""
    kinds = desc.field_types()
    defaults = {field.name: field.default for field in dataclasses.fields(desc)}
    return tuple(
        (dml_name(name), _write_field(value))
        for name, kind in kinds.items()
        for value in (getattr(desc, name),)
        if (kind.kind == "attribute" and value is not None) or (kind.kind == "extension" and value != defaults[name])
    )


def _write_field(value: object) -> str:
    if isinstance(value, tuple):
        return f"{{{','.join(map(_write_field, value))}}}"
    if isinstance(value, ScaleBias):
        return f"{{{write_single(value.scale)},{write_single(value.bias)}}}"
    if isinstance(value, FusedActivation):
        return " ".join([value.type.name, *(f"{name} {told}" for name, told in _fields(value.desc))])
    if isinstance(value, float):
        with np.errstate(over="ignore"):
            single = np.float32(value)
        return str(single if float(single) == value else value)
    return value.name if isinstance(value, enum.Enum) else str(value).upper() if isinstance(value, bool) else str(value)


def _values(
    desc: OperatorDesc, made_up: Callable[[str, TensorDesc, int], Values], inputs: Sequence[object]
) -> dict[str, Values]:
    tensors, operator = desc.inputs(), desc.type.name
    if len(inputs) > len(tensors):
        rule = f"explain() takes a description and its inputs: {', '.join(tensors) or 'none'}"
        raise BindingError(operator, Fault(field="inputs", rule=rule, found=f"{len(inputs)} arrays"))
    found: dict[str, Values] = {}
    counted: Counter[str] = Counter()
    for (field, tensor), given in itertools.zip_longest(tensors.items(), inputs):
        if given is not None:
            found[field] = read_array(given, tensor, operator, field)
        else:
            found[field] = made_up(field, tensor, counted[bare_name(field)])
        counted[bare_name(field)] += tensor.extent
    return found


def _value_notes(values: Mapping[str, Values]) -> Iterator[str]:
    """Remarks on the values, each once; of several tensors with the same one the longest."""
    notes = dict.fromkeys(one.note for one in values.values() if one.note)
    for note in notes:
        if not any(other != note and other.startswith(note.removesuffix(".")) for other in notes):
            yield note


_TALES: dict[type[Primitive], type[Tale]] = {
    Map: MapTale,
    Reduce: ReduceTale,
    Scan: ScanTale,
}
_PATTERNS: tuple[tuple[Callable[[Map], Any], type[Tale]], ...] = (
    (match_gathered, GatherTale),
    (match_reversed, ReversalTale),
    (match_moved, MoveTale),
)
"""Maps that are told in words of their own."""


_OF_OPERATORS: dict[OperatorType, type[Tale]] = {
    OperatorType.NONZERO_COORDINATES: NonzeroTale,
    OperatorType.RANDOM_GENERATOR: RandomTale,
}
"""Operators that are told in words of their own."""


def _tale_of(desc: OperatorDesc, primitives: Sequence[Primitive]) -> tuple[type[Tale], Any]:
    """The kind of a tale, and what it is told of: the first primitive, or what a pattern made of it."""
    primitive = primitives[0]
    if (own := _OF_OPERATORS.get(desc.type)) is not None:
        return own, primitive
    if all(map(is_copy, primitives)):
        return (CopyTale if len(primitives) == 1 else JoinTale), primitive
    if len(primitives) > 1 or len(primitive.targets) > 1:
        has_formulas = all(isinstance(one, Computation) for one in primitives)
        return (ReduceTale if has_formulas else GenericTale), primitive
    if isinstance(primitive, Map):
        if match_filled(primitive):
            return FillTale, primitive
        for match, kind in _PATTERNS:
            if (found := match(primitive)) is not None:
                return kind, found
    return _TALES.get(type(primitive), GenericTale), primitive


def _draw(
    desc: OperatorDesc,
    tale: Tale,
    frames: Mapping[str, tuple[int, ...]],
    values: Mapping[str, Values],
    limits: Limits,
) -> tuple[tuple[Grid, ...], dict[Element, Landing]]:
    tensors, targets = desc.tensors(), choose_outputs(list(desc.outputs()), limits)
    cuts = {name: cut_output(frames[name], limits, tale.axis, tale.reverse, tale.marks) for name in targets}
    # By turns, so that an input shows something of what each output is made of.
    drawn = itertools.zip_longest(*([Element(name, at) for at in cut.coordinates()] for name, cut in cuts.items()))
    landings = {one: tale.landing(one) for several in drawn for one in several if one is not None}
    marked = _mark_one(tale, landings)
    is_whole = len(targets) == len(desc.outputs()) and not any(cut.left_out for cut in cuts.values())
    scene = Scene(tale, marked, is_whole=is_whole)
    grids = []
    for tensor in choose_inputs(list(values), list(scene.tensors()), limits):
        corners = _corners(tale, tensor)
        if tale.axis is not None:  # a walk is read row by row: the same rows of both
            corners = next(iter(cuts.values())).coordinates()
        cut = cut_input(frames[tensor], limits, scene.used(tensor), corners)
        cell = partial(scene.input_cell, values=values[tensor])
        grids.append(draw_grid(tensor, tensors[tensor], "input", cut, tale, cell))
    grids += [draw_grid(name, tensors[name], "output", cut, tale, scene.output_cell) for name, cut in cuts.items()]
    return tuple(grids), landings


def _mark_one(tale: Tale, landings: dict[Element, Landing]) -> dict[Element, Landing]:
    """Where nothing has a mark of its own, mark one result that the sentences tell of, and what it is computed from.

    That is the one that most elements are used for; a result of 0 teaches least.
    """
    if any(landing.hue or landing.badge for landing in landings.values()):
        return landings
    told = dict(itertools.islice(landings.items(), MOST_SENTENCES))
    if not told:
        return landings
    one = max(told, key=lambda one: (_count_used(told[one]), told[one].value not in ("0", "…")))
    words = f"{one}, and what it is computed from" if _count_used(landings[one]) else f"{one}, which is written out"
    tale.legend = (*((kind, text) for kind, text in tale.legend if kind != "marked"), ("marked", words))
    return {**landings, one: dataclasses.replace(landings[one], hue=1)}


def _count_used(landing: Landing) -> int:
    return len(landing.sources) + len(landing.chosen_by)


def _corners(tale: Tale, tensor: str) -> Sequence[Coordinate]:
    window = tale.window
    return [window.start, window.end] if window is not None and window.tensor == tensor else []


def _undrawn(desc: OperatorDesc, grids: Sequence[Grid]) -> Iterator[str]:
    """Say how many tensors of a field have no grid."""
    drawn = Counter(bare_name(grid.tensor) for grid in grids)
    for field, count in Counter(map(bare_name, desc.tensors())).items():
        if drawn[field] < count:
            yield f"{field}: {count - drawn[field]} of {count} tensors left out."

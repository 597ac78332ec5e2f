"""From a description and data to a picture."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, assert_never

from anydml.enums import FeatureLevel
from anydml.errors import BindingError, DescriptionError, DmlError, Fault, raise_description_faults, show
from anydml.explain.cut import Limits, cut_input, cut_output
from anydml.explain.grids import Scene, draw_grid
from anydml.explain.indexed import IndexedTale
from anydml.explain.picture import Element, Picture
from anydml.explain.scanned import ScannedTale
from anydml.explain.strided import StridedTale
from anydml.explain.tale import lower_packed
from anydml.explain.values import CountedIndices, CountedValues, read_array
from anydml.operators import OperatorDesc
from anydml.operators.fields import dml_name
from anydml.primitives import Fill, IndexedCopy, Map, Reverse, Scan, StridedCopy, views_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.explain.cut import Cut
    from anydml.explain.picture import Cell, Coordinate, Grid
    from anydml.explain.tale import Tale
    from anydml.explain.values import Values
    from anydml.primitives import Primitive

_DEFAULT_LIMITS = Limits()


def explain(
    desc: OperatorDesc,
    *inputs: object,
    feature_level: FeatureLevel | str = FeatureLevel.highest(),  # noqa: B008 - a constant
    title: str = "",
    limits: Limits = _DEFAULT_LIMITS,
) -> Picture:
    """Make a picture of what an operator does.

    `inputs` are arrays in binding order; None, or one that is left away, stands for values that are made up: 1, 2,
    3 …, and indices that count down; one on a GPU is copied from there. A description that is not
    valid at the feature level gives a picture whose `error` says why. `title` names what the description is part of.

    >>> import anydml as dml
    >>> x = dml.TensorDesc("float32", (4,))
    >>> print(explain(dml.CumulativeSummation(input_tensor=x, output_tensor=x, axis=0)).sentences[2])
    output[2] = 1 + 2 + 3 = 6
    """
    if not isinstance(desc, OperatorDesc):
        rule = "desc must be an operator description, such as Slice1(...)"
        raise DescriptionError("explain", Fault(field="desc", rule=rule, value=desc, found=show(desc)))
    name, fields, title = desc.type.name, _fields(desc), " ".join(title.split())
    report = desc.check(feature_level)
    try:
        raise_description_faults(name, report.faults)
    except DmlError as error:
        return Picture(name, title, fields, error=error.with_traceback(None))
    primitive = lower_packed(desc)
    values = _values(desc, primitive, inputs)
    tale = _tale(desc, primitive, values)
    frames = {view.tensor: _frame(desc, primitive, view.tensor) for view in views_of(primitive)}
    grids, scene = _draw(desc, tale, primitive, frames, values, limits)
    notes = (
        *[f"{grid.tensor}: {grid.left_out} left out." for grid in grids if grid.left_out],
        *dict.fromkeys(v.note for v in values.values() if v.note),
        *tale.notes(),
        *[f"{remark}." for remark in report.remarks],
    )
    sentences = tuple(tale.sentences(scene.landings))
    return Picture(name, title, fields, tale.summary, grids, tale.legend, sentences, notes)


def _fields(desc: OperatorDesc) -> tuple[tuple[str, str], ...]:
    """The attributes as the documents write them; what DirectML does not have, only where it is set."""
    kinds = desc.field_types()
    defaults = {field.name: field.default for field in dataclasses.fields(desc)}  # type: ignore[arg-type]
    return tuple(
        (dml_name(name), _write_field(value))
        for name, kind in kinds.items()
        if kind.kind == "attribute" or (kind.kind == "addition" and getattr(desc, name) != defaults[name])
        for value in (getattr(desc, name),)
    )


def _write_field(value: object) -> str:
    if isinstance(value, tuple):
        return f"{{{','.join(map(str, value))}}}"
    return value.name if isinstance(value, enum.Enum) else str(value).upper() if isinstance(value, bool) else str(value)


def _values(desc: OperatorDesc, primitive: Primitive, inputs: Sequence[object]) -> dict[str, Values]:
    fields = [dml_name(name) for name in desc.input_names()]
    operator = desc.type.name
    if len(inputs) > len(fields):
        rule = f"explain() takes a description and its inputs: {', '.join(fields)}"
        raise BindingError(operator, Fault(field="inputs", rule=rule, found=f"{len(inputs)} arrays"))
    found: dict[str, Values] = {}
    for i, field in enumerate(fields):
        tensor = desc.tensors()[field]
        if i < len(inputs) and inputs[i] is not None:
            found[field] = read_array(inputs[i], tensor, operator, field)
        elif isinstance(primitive, IndexedCopy) and field == primitive.indices.tensor:
            found[field] = CountedIndices(tensor, primitive)
        else:
            found[field] = CountedValues(tensor)
    return found


def _tale(desc: OperatorDesc, primitive: Primitive, values: Mapping[str, Values]) -> Tale:
    if isinstance(primitive, StridedCopy):
        return StridedTale(desc, primitive, values)
    if isinstance(primitive, IndexedCopy):
        return IndexedTale(desc, primitive, values)
    if isinstance(primitive, Scan):
        return ScannedTale(desc, primitive, values)
    if isinstance(primitive, (Map, Fill, Reverse)):
        raise NotImplementedError
    assert_never(primitive)


def _frame(desc: OperatorDesc, primitive: Primitive, tensor: str) -> tuple[int, ...]:
    """The dimensions in which a tensor's coordinates are told: those that count, where an operator says so."""
    if isinstance(primitive, IndexedCopy):
        return next(view.sizes for view in views_of(primitive) if view.tensor == tensor)
    return desc.tensors()[tensor].sizes


def _draw(
    desc: OperatorDesc,
    tale: Tale,
    primitive: Primitive,
    frames: Mapping[str, tuple[int, ...]],
    values: Mapping[str, Values],
    limits: Limits,
) -> tuple[tuple[Grid, ...], Scene]:
    tensors, target = desc.tensors(), primitive.target.tensor
    cut = cut_output(frames[target], limits, tale.axis, tale.reverse)
    scene = Scene(tale, target, {at: tale.landing(at) for at in cut.coordinates()}, is_whole=not cut.left_out)
    window = tale.window
    grids = []
    for tensor in values:
        corners = [window.start, window.end] if window is not None and window.tensor == tensor else []
        if tale.axis is not None:
            corners = cut.coordinates()  # a walk is read row by row: the same rows of both
        own = cut_input(frames[tensor], limits, scene.used(tensor), corners)
        grids.append(_draw_input(tensor, desc, own, tale, scene, values[tensor]))
    grids.append(draw_grid(target, tensors[target], "output", cut, tale, scene.output_cell))
    return tuple(grids), scene


def _draw_input(tensor: str, desc: OperatorDesc, cut: Cut, tale: Tale, scene: Scene, values: Values) -> Grid:
    def cell(coordinate: Coordinate) -> Cell:
        return scene.input_cell(Element(tensor, coordinate), values)

    return draw_grid(tensor, desc.tensors()[tensor], "input", cut, tale, cell)

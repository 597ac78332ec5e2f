"""Pictures of maps, fills, reverses, joins, splits and gathers along an axis, against what NumPy makes of the data."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anydml as dml
from anydml.core.enums import NUMPY_TYPES
from anydml.explain import Element, Limits, Picture, explain
from anydml.explain.values import write_value
from families.folding import FOLDING
from families.moving import MOVING
from families.products import PRODUCTS
from tests.explain.test_explain import OPERATORS as OTHERS
from tests.explain.test_maps import MAPS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drawing import Array, Operator

T = dml.TensorDesc
RANDOM = settings(deadline=None, derandomize=False, print_blob=True, max_examples=30 if os.environ.get("CI") else 15)
APART = 10**6
"""The numbers of two tensors' elements are never the same."""


@dataclass(frozen=True, eq=False)
class Case:
    """A description with its data, and for each output the number of the element that each of its elements is from."""

    desc: dml.OperatorDesc
    inputs: list[Array]
    sources: list[Array | None]
    """-1 for an element that is not written; None where there are no sources."""
    values: list[Array]
    chosen: Array | None = None
    """The number of the index or the length that decides over each element."""
    is_marked: Array | None = None
    """Where not all that is used is marked, whether an output element is."""


def draw_sizes(draw: st.DrawFn, rank: int | None = None) -> tuple[int, ...]:
    rank = draw(st.integers(1, 4)) if rank is None else rank
    return tuple(draw(st.integers(1, 4)) for _ in range(rank))


def draw_array(draw: st.DrawFn, sizes: Sequence[int], data_type: dml.DataType | None = None) -> Array:
    """Values of any type, in any order of the dimensions."""
    kind = data_type or pick(draw, NUMPY_TYPES)
    order = draw(st.permutations(range(len(sizes))))
    count, rng = math.prod(sizes), np.random.default_rng(draw(st.integers(0, 99)))
    with np.errstate(invalid="ignore"):  # what an unsigned type makes of a number below 0 is a value as well
        values: Array = pick(draw, (rng.integers(-9, 9, count), rng.standard_normal(count) * 9)).astype(kind.dtype)
    if draw(st.booleans()):
        values = rng.choice(special_values(kind), count)
    return values.reshape([sizes[k] for k in order]).transpose(np.argsort(order))


def pick(draw: st.DrawFn, choices: Sequence[Any]) -> Any:
    return choices[draw(st.integers(0, len(choices) - 1))]


def special_values(kind: dml.DataType) -> Array:
    if not kind.is_float:
        return np.array([0, 1, np.iinfo(kind.dtype).max, np.iinfo(kind.dtype).min], kind.dtype)
    most = np.finfo(kind.dtype).max
    return np.array([0.0, -0.0, 0.5, np.nan, np.inf, -np.inf, most, -most, 255.9, -1.5], kind.dtype)


def draw_indices(draw: st.DrawFn, sizes: Sequence[int], size: int, *, is_clamped: bool) -> tuple[Array, Array]:
    """Indices, and what they stand for: -1 for one outside that is not clamped."""
    dtype = pick(draw, ("uint32", "int32", "uint64", "int64"))
    low = -size - 1 if dtype.startswith("i") else 0
    numbers = [draw(st.integers(low, size)) for _ in range(math.prod(sizes))]
    meant = [n + size if n < 0 else n for n in numbers]
    found = [min(max(n, 0), size - 1) if is_clamped else n if 0 <= n < size else -1 for n in meant]
    return np.array(numbers, dtype).reshape(sizes), np.array(found, "int64").reshape(sizes)


def numbered(sizes: Sequence[int], tensor: int = 0) -> Array:
    return tensor * APART + np.arange(math.prod(sizes)).reshape(sizes)


def described(x: Array, rank: int | None = None) -> dml.TensorDesc:
    return T(dml.DataType(x.dtype), x.shape or (1,)).padded(rank or max(x.ndim, 1))


def make_gather(draw: st.DrawFn) -> Case:
    x = draw_array(draw, draw_sizes(draw, draw(st.integers(1, 3))))
    axis, rank = draw(st.integers(0, x.ndim - 1)), draw(st.integers(0, 2))
    mode = pick(draw, tuple(dml.IndexMode))
    is_clamped = mode is dml.IndexMode.CLAMP
    indices, found = draw_indices(draw, draw_sizes(draw, rank), x.shape[axis], is_clamped=is_clamped)
    count = max(x.ndim, rank, x.ndim - 1 + rank) + draw(st.integers(0, 1))
    desc = dml.Gather.infer(
        input_tensor=described(x, count),
        indices_tensor=described(indices, count),
        axis=axis + count - x.ndim,
        index_dimensions=rank,
        index_mode=mode,
    )
    sources, values = (np.take(of, found.clip(0), axis) for of in (numbered(x.shape), x))
    around = (1,) * axis + found.shape + (1,) * (x.ndim - 1 - axis)
    sources = np.where(np.broadcast_to(found.reshape(around), sources.shape) < 0, -1, sources)
    chosen = np.broadcast_to(numbered(found.shape).reshape(around), sources.shape)
    given = [x.reshape(desc.input_tensor.sizes), indices.reshape(desc.indices_tensor.sizes)]
    return Case(desc, given, [sources], [values], chosen)


def make_gather_elements(draw: st.DrawFn) -> Case:
    x = draw_array(draw, draw_sizes(draw))
    axis, mode = draw(st.integers(0, x.ndim - 1)), pick(draw, tuple(dml.IndexMode))
    sizes = [draw(st.integers(1, 5)) if k == axis else size for k, size in enumerate(x.shape)]
    indices, found = draw_indices(draw, sizes, x.shape[axis], is_clamped=mode is dml.IndexMode.CLAMP)
    desc = dml.GatherElements.infer(
        input_tensor=described(x), indices_tensor=described(indices), axis=axis, index_mode=mode
    )
    sources, values = (np.take_along_axis(of, found.clip(0), axis) for of in (numbered(x.shape), x))
    return Case(desc, [x, indices], [np.where(found < 0, -1, sources)], [values], numbered(sizes))


def make_identity(draw: st.DrawFn) -> Case:
    x = draw_array(draw, draw_sizes(draw))
    scaling = pick(draw, (None, (2.0, 1.0), (-0.5, 0.25), (1.0, 0.0), (0.0, -3.0)))
    desc = dml.ElementWiseIdentity.infer(input_tensor=described(x), scale_bias=scaling)
    values, is_marked = x, None
    if scaling is not None and scaling != (1.0, 0.0):
        with np.errstate(all="ignore"):
            scaled = x.astype("float64") * scaling[0] + scaling[1]
        values = converted(scaled, x.dtype)
        if x.dtype.kind == "f":
            is_marked = np.isfinite(x) & ~np.isfinite(values)
        else:
            is_marked = (scaled <= float(np.iinfo(x.dtype).min) - 1) | (scaled >= float(np.iinfo(x.dtype).max) + 1)
    return Case(desc, [x], [numbered(x.shape)], [values], is_marked=is_marked)


def make_cast(draw: st.DrawFn) -> Case:
    x, kind = draw_array(draw, draw_sizes(draw)), pick(draw, NUMPY_TYPES)
    desc = dml.Cast(input_tensor=described(x), output_tensor=T(kind, x.shape))
    values = converted(x, kind.dtype)
    pairs = list(zip(x.ravel().tolist(), values.ravel().tolist(), strict=True))
    is_float = kind.is_float
    changes = [not (a == b or (is_float and a != a)) for a, b in pairs]
    is_marked = None if x.dtype == kind.dtype else np.array(changes).reshape(x.shape)
    return Case(desc, [x], [numbered(x.shape)], [values], is_marked=is_marked)


def converted(x: Array, dtype: Any) -> Array:
    """Numbers of another type, one by one in plain Python."""
    dtype = np.dtype(dtype)
    with np.errstate(all="ignore"):
        if dtype.kind == "f":
            return x.astype(dtype)
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)

    def convert(number: Any) -> int:
        if isinstance(number, int):
            return (number - low) % (high - low + 1) + low
        if math.isnan(number):
            return 0
        return low if number <= low else high if number >= high else int(number)

    return np.array([convert(number) for number in x.ravel().tolist()], dtype).reshape(x.shape)


def make_join(draw: st.DrawFn) -> Case:
    first = draw_array(draw, draw_sizes(draw))
    axis, kind = draw(st.integers(0, first.ndim - 1)), dml.DataType(first.dtype)
    arrays = [first]
    for _ in range(draw(st.integers(0, 9))):
        sizes = [draw(st.integers(1, 3)) if k == axis else size for k, size in enumerate(first.shape)]
        arrays.append(draw_array(draw, sizes, kind))
    desc = dml.Join.infer(input_tensors=[described(x) for x in arrays], axis=axis)
    sources = np.concatenate([numbered(x.shape, k) for k, x in enumerate(arrays)], axis)
    return Case(desc, arrays, [sources], [np.concatenate(arrays, axis)])


def make_split(draw: st.DrawFn) -> Case:
    sizes = draw_sizes(draw)
    axis = draw(st.integers(0, len(sizes) - 1))
    along = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(1, 9)))]
    x = draw_array(draw, [sum(along) if k == axis else size for k, size in enumerate(sizes)])
    values, sources = (np.split(of, np.cumsum(along)[:-1], axis) for of in (x, numbered(x.shape)))
    desc = dml.Split(input_tensor=described(x), output_tensors=[described(part) for part in values], axis=axis)
    return Case(desc, [x], [*sources], [*values])


def make_fill_value_constant(draw: st.DrawFn) -> Case:
    kind, sizes = pick(draw, NUMPY_TYPES), draw_sizes(draw)
    value = pick(draw, special_values(kind).tolist())
    desc = dml.FillValueConstant(output_tensor=T(kind, sizes), value_data_type=kind, value=value)
    return Case(desc, [], [None], [np.full(sizes, value, kind.dtype)])


def make_fill_value_sequence(draw: st.DrawFn) -> Case:
    kinds = {t for row in dml.FillValueSequence.support for t in row.tensors["OutputTensor"].data_types}
    kind, sizes = pick(draw, sorted(kinds)), draw_sizes(draw)
    start = pick(draw, special_values(kind).tolist())
    delta = draw(st.sampled_from((0, 1, -1, 2, -3, 100)))
    desc = dml.FillValueSequence(
        output_tensor=T(kind, sizes), value_data_type=kind, value_start=start, value_delta=delta
    )
    step = float(delta) if kind.is_float else delta  # 0 * -1.0 is -0.0
    numbers = [start + n * step if delta else start for n in range(math.prod(sizes))]
    with np.errstate(all="ignore"):
        values = np.array(numbers, "float64" if kind.is_float else object)
        values = values.astype(kind.dtype) if kind.is_float else converted(values, kind.dtype)
    return Case(desc, [], [None], [values.reshape(sizes)])


def make_reverse_subsequences(draw: st.DrawFn) -> Case:
    x = draw_array(draw, draw_sizes(draw))
    axis = draw(st.integers(0, x.ndim - 1))
    shape = tuple(1 if k == axis else size for k, size in enumerate(x.shape))
    lengths = np.array([draw(st.integers(0, 7)) for _ in range(math.prod(shape))], "uint32").reshape(shape)
    desc = dml.ReverseSubsequences.infer(
        input_tensor=described(x), sequence_lengths_tensor=described(lengths), axis=axis
    )
    sources, values = numbered(x.shape), x.copy()
    for place in np.ndindex(shape):
        line = (*place[:axis], slice(0, int(lengths[place])), *place[axis + 1 :])
        for of in (sources, values):
            of[line] = of[line][::-1].copy()
    chosen = np.broadcast_to(numbered(shape), x.shape)
    along = np.arange(x.shape[axis]).reshape([-1 if k == axis else 1 for k in range(x.ndim)])
    return Case(desc, [x, lengths], [sources], [values], chosen, along < lengths)


MAKERS: dict[Operator, Callable[[st.DrawFn], Case]] = {
    dml.Gather: make_gather,
    dml.GatherElements: make_gather_elements,
    dml.ElementWiseIdentity: make_identity,
    dml.Cast: make_cast,
    dml.Join: make_join,
    dml.Split: make_split,
    dml.FillValueConstant: make_fill_value_constant,
    dml.FillValueSequence: make_fill_value_sequence,
    dml.ReverseSubsequences: make_reverse_subsequences,
}


def test_every_operator_is_drawn_here_or_there() -> None:
    """Those that fold, products, and those that move are drawn with the documents' examples."""
    assert {*MAKERS, *OTHERS, *MAPS, *FOLDING, *PRODUCTS, *MOVING} == set(dml.OPERATORS.values())


@pytest.mark.parametrize("cls", MAKERS, ids=lambda cls: cls.type.name)
def test_every_element_comes_from_where_the_picture_says(cls: Operator) -> None:
    @RANDOM
    @given(st.composite(MAKERS[cls])())
    def check(case: Case) -> None:
        for limits in (Limits(1000, 1000, 1000, 1000), Limits(planes=2, rows=3, columns=4, tensors=3)):
            picture = explain(case.desc, *case.inputs, limits=limits)
            check_picture(case, picture, is_whole=limits.tensors == 1000)
        for drawing in (picture.text(), picture.html(), explain(case.desc).text()):
            assert drawing
        ElementTree.fromstring(picture.svg())  # noqa: S314 - our own

    check()


def number_in(element: Element, desc: dml.OperatorDesc) -> int:
    """An element's number in its tensor, and apart from those of other tensors of its field."""
    sizes = desc.tensors()[element.tensor].sizes
    at = (0,) * (len(sizes) - len(element.coordinate)) + element.coordinate
    tensor = int(element.tensor.partition("[")[2].removesuffix("]") or 0)
    return tensor * APART + int(np.ravel_multi_index(at, sizes))


def check_picture(case: Case, picture: Picture, *, is_whole: bool) -> None:
    assert picture.error is None
    desc, used = case.desc, set()
    alone = next((found[1] for _, text in picture.legend if (found := re.match(r"(\S+), (and|which)", text))), None)
    outputs = {name: k for k, name in enumerate(desc.outputs())}
    grids = {grid.tensor: grid for grid in picture.grids}
    assert [grid.role for grid in picture.grids] == sorted(grid.role for grid in picture.grids)
    for name in set(outputs) & set(grids):
        sources, values = case.sources[outputs[name]], case.values[outputs[name]].ravel()
        cells = list(grids[name].cells())
        assert not is_whole or len(cells) == len(values)
        for cell in cells:
            n = number_in(cell.element, desc) % APART
            meant = [] if sources is None or sources.ravel()[n] < 0 else [sources.ravel()[n]]
            assert [number_in(source, desc) for source in cell.sources] == meant
            assert cell.is_fault == (sources is not None and not meant)
            assert cell.value == ("?" if cell.is_fault else write_value(values[n]))
            chosen = [] if case.chosen is None else [case.chosen.ravel()[n]]
            assert [number_in(one, desc) for one in cell.chosen_by] == chosen
            is_marked = sources is not None if case.is_marked is None else case.is_marked.ravel()[n]
            assert (cell.hue > 0) == (is_marked if alone is None else str(cell.element) == alone)
            used |= {*cell.sources, *cell.chosen_by} if cell.hue else set()
    for name, array in zip(desc.inputs(), case.inputs, strict=True):
        assert not is_whole or name in grids
        for cell in grids[name].cells() if name in grids else ():
            assert cell.value == write_value(array.ravel()[number_in(cell.element, desc) % APART])
            assert (cell.hue > 0) == (cell.element in used)
    noted = [note for note in picture.notes if "IndexRangeError" in note]
    assert len(noted) == int(any(of is not None and (of < 0).any() for of in case.sources))
    assert is_whole == (not any("left out" in note for note in picture.notes)) or not is_whole


def test_a_number_that_no_float32_holds_is_written() -> None:
    out = dml.TensorDesc("float64", (1,))
    desc = dml.FillValueConstant(output_tensor=out, value_data_type="float64", value=1.7e308)
    assert dict(explain(desc).fields)["Value"] == "1.7e+308"

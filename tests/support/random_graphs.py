"""Random graphs over all operators, with what the functions give for each of their expressions."""

from __future__ import annotations

import functools
import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

import anydml as dml
from doors import as_list
from drawing import in_a_line
from places import get, put

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray[Any, Any]
    Draw = Callable[[st.SearchStrategy[Any]], Any]

FEW = int(os.environ.get("ANYDML_TEST_EXAMPLES", "0"))
TYPES = ("float32", "float16", "int32", "uint32", "uint64", "uint8")
SUMMED = TYPES[:-1]
CASTS = (*TYPES, "int8", "int64", "float64")
MOST_NODES = 8 if FEW else 12


class Built:
    """A graph, and the same calls on arrays."""

    def __init__(self, engine: str, policy: Any, largest: int) -> None:
        self.largest = largest
        """Elements of what is put together."""
        self.graph = dml.Graph(engine, tensor_policy=policy)
        self.device = self.graph.device
        self.values: list[tuple[dml.Expression, Any]] = []
        """Each expression with what the function gave for it."""
        self.arrays: list[Any] = []

    def input(self, array: Array) -> None:
        there = put(array, self.device)
        self.arrays.append(there)
        self.values.append((self.graph.input(dml.TensorDesc.of(array)), there))

    def constant(self, array: Array) -> None:
        self.values.append((self.graph.constant(array), put(array, self.device)))

    def call(self, function: Callable[..., Any], chosen: tuple[int, ...], **options: Any) -> None:
        expressions, arrays = zip(*(self.values[i] for i in chosen), strict=True)
        self.add(function(*expressions, **options), function(*arrays, device=self.device, **options))

    def add(self, made: Any, found: Any) -> None:
        self.values += zip(as_list(made), as_list(found), strict=True)

    def dtype(self, i: int) -> str:
        return self.values[i][0].data_type.dtype.name

    def flatten(self, i: int) -> int:
        """The same memory as one line."""
        expression, there = self.values[i]
        array = np.ascontiguousarray(get(there)).reshape(-1)
        self.values.append((expression.reinterpret((array.size,)), put(array, self.device)))
        return len(self.values) - 1


def numbers(draw: Draw, sizes: tuple[int, ...], dtype: str) -> Array:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if dtype.startswith("f"):
        return rng.standard_normal(sizes).astype(dtype)
    return rng.integers(0, np.iinfo(dtype).max, sizes, dtype, endpoint=True)


def add_slice(draw: Draw, built: Built, i: int) -> None:
    sizes = built.values[i][0].sizes
    offsets = [draw(st.integers(0, size - 1)) for size in sizes]
    windows = [draw(st.integers(1, size - offset)) for size, offset in zip(sizes, offsets, strict=True)]
    if draw(st.booleans()):  # most of it, so that there is something left after several
        offsets, windows = [0] * len(sizes), list(sizes)
    if draw(st.booleans()):
        strides = [draw(st.sampled_from((1, -1, 2, -2))) for _ in sizes]
        options = {"input_window_offsets": offsets, "input_window_sizes": windows, "input_window_strides": strides}
        built.call(dml.slice1, (i,), **options)
        return
    strides = [draw(st.integers(1, 2)) for _ in sizes]
    counts = [1 + (window - 1) // stride for window, stride in zip(windows, strides, strict=True)]
    built.call(dml.slice, (i,), offsets=offsets, sizes=counts, strides=strides)


def add_scan(draw: Draw, built: Built, i: int) -> None:
    expression = built.values[i][0]
    options = {
        "axis": draw(st.integers(0, len(expression.sizes) - 1)),
        "axis_direction": draw(st.sampled_from(("increasing", "decreasing"))),
    }
    if draw(st.booleans()):
        built.call(dml.cumulative_summation, (i,), has_exclusive_sum=draw(st.booleans()), **options)
    else:
        built.call(dml.cumulative_product, (i,), has_exclusive_product=draw(st.booleans()), **options)


def add_gather(draw: Draw, built: Built, i: int) -> None:
    sizes = built.values[i][0].sizes
    batch = draw(st.integers(0, min(1, len(sizes) - 1)))
    width = draw(st.integers(1, len(sizes) - batch))
    count = draw(st.integers(1, 4))
    limits = sizes[batch : batch + width]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from(("int32", "int64", "uint32")))
    low = [0 if dtype.startswith("u") else -limit for limit in limits]
    indices = rng.integers(low, limits, (*sizes[:batch], count, width)).astype(dtype)
    if draw(st.booleans()):
        shape = (*sizes[:batch], count)
        lines = [in_a_line(rng, math.prod(shape), *bounds).reshape(shape) for bounds in zip(low, limits, strict=True)]
        indices = np.stack(lines, axis=-1).astype(dtype)
    (built.constant if draw(st.booleans()) else built.input)(indices)
    mode = draw(st.sampled_from(("raise", "clamp")))
    built.call(dml.gather_nd, (i, len(built.values) - 1), batch_dimension_count=batch, index_mode=mode)


def add_gather_along(draw: Draw, built: Built, i: int) -> None:
    sizes = built.values[i][0].sizes
    axis = draw(st.integers(0, len(sizes) - 1))
    is_by_element = draw(st.booleans())
    shape = [draw(st.integers(1, 4)) for _ in range(draw(st.integers(0, 2)))]
    if is_by_element:
        shape = [draw(st.integers(1, 4)) if k == axis else size for k, size in enumerate(sizes)]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mode, dtype = draw(st.sampled_from(("raise", "clamp"))), draw(st.sampled_from(("int32", "uint64")))
    low, high = 0 if dtype == "uint64" else -sizes[axis], sizes[axis] + (3 if mode == "clamp" else 0)
    indices = np.asarray(rng.integers(low, high, shape or (1,)))
    if draw(st.booleans()):
        indices = in_a_line(rng, indices.size, low, high).reshape(indices.shape)
    indices = indices.astype(dtype)
    (built.constant if draw(st.booleans()) else built.input)(indices)
    function = dml.gather_elements if is_by_element else dml.gather
    built.call(function, (i, len(built.values) - 1), axis=axis, index_mode=mode)


def add_map(draw: Draw, built: Built, i: int) -> None:
    if draw(st.booleans()):
        built.call(dml.cast, (i,), data_type=draw(st.sampled_from(CASTS)))
    else:
        built.call(dml.identity, (i,), scale_bias=draw(st.sampled_from((None, None, (2.0, -1.0), (-0.5, 0.25)))))


def add_join(draw: Draw, built: Built, i: int) -> None:
    """With itself, or with anything else that fits."""
    expression = built.values[i][0]
    axis = draw(st.integers(0, len(expression.sizes) - 1))

    def kind(j: int) -> tuple[Any, ...]:
        other = built.values[j][0]
        sizes = other.sizes
        return (other.data_type, len(sizes), sizes[:axis], sizes[axis + 1 :])

    fitting = [j for j in range(len(built.values)) if kind(j) == kind(i)]
    chosen = [i, *draw(st.lists(st.sampled_from(fitting), max_size=3))]
    if sum(math.prod(built.values[j][0].sizes) for j in chosen) > built.largest:
        chosen = [i]
    given = [built.values[j] for j in draw(st.permutations(chosen))]
    made, found = ([one[k] for one in given] for k in (0, 1))
    built.add(dml.join(made, axis), dml.join(found, axis, device=built.device))


def add_joins(draw: Draw, built: Built, i: int) -> None:
    """A join of what something computes, which is joined again."""
    add_map(draw, built, i)
    add_join(draw, built, len(built.values) - 1)
    add_join(draw, built, len(built.values) - 1)


def add_split(draw: Draw, built: Built, i: int) -> None:
    sizes = built.values[i][0].sizes
    axis = draw(st.integers(0, len(sizes) - 1))
    parts: list[int] = []
    while sum(parts) < sizes[axis]:
        parts.append(draw(st.integers(1, sizes[axis] - sum(parts))))
    built.call(dml.split, (i,), output_axis_sizes=parts, axis=axis)


def add_fill(draw: Draw, built: Built, i: int) -> None:
    """Of the sizes and the type of another, so that it can be put together with that."""
    expression, dtype = built.values[i][0], built.dtype(i)
    start, delta = (draw(st.sampled_from((0, 1, 7, -0.0 if dtype.startswith("f") else 3))) for _ in range(2))
    if draw(st.booleans()) and dtype != "float64":
        function: Any = functools.partial(dml.fill_value_sequence, expression.sizes, start, delta, dtype)
    else:
        function = functools.partial(dml.fill_value_constant, expression.sizes, start, dtype)
    built.add(function(graph=built.graph), function(device=built.device))


def add_reverse(draw: Draw, built: Built, i: int) -> None:
    sizes = built.values[i][0].sizes
    axis = draw(st.integers(0, len(sizes) - 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = rng.integers(0, sizes[axis] + 2, [1 if k == axis else size for k, size in enumerate(sizes)])
    (built.constant if draw(st.booleans()) else built.input)(
        lengths.astype(draw(st.sampled_from(("uint32", "uint64"))))
    )
    built.call(dml.reverse_subsequences, (i, len(built.values) - 1), axis=axis)


KINDS = (add_slice, add_slice, add_scan, add_scan, add_gather, add_gather_along, add_map, add_map, add_join, add_joins,
         add_split, add_fill, add_reverse)  # fmt: skip


@st.composite
def graphs(
    draw: Draw, engine: str, types: tuple[str, ...] = TYPES, most: int = 7, ranks: tuple[int, int] = (1, 4)
) -> tuple[Built, list[int]]:
    """A graph of 1 to 12 nodes, and which of its expressions are outputs; inputs have sizes of 1 to `most`."""
    policy = draw(st.sampled_from(("default", "default", "interleaved_channel")))
    built = Built(engine, policy, 4000 if most < 20 else 4 * most ** ranks[1])
    dtype = draw(st.sampled_from(types))
    for _ in range(draw(st.integers(1, 2))):
        sizes = tuple(draw(st.lists(st.integers(1, most), min_size=ranks[0], max_size=ranks[1])))
        (built.constant if draw(st.integers(0, 3)) == 0 else built.input)(numbers(draw, sizes, dtype))
    usable = list(range(len(built.values)))
    made = []
    for _ in range(draw(st.integers(1, MOST_NODES))):
        i = usable[-1] if draw(st.integers(0, 3)) else draw(st.sampled_from(usable))
        kind = draw(st.sampled_from(KINDS))
        is_large = kind in (add_gather, add_gather_along) and len(built.values[i][0].sizes) > 4
        if is_large or (kind is add_scan and built.dtype(i) not in SUMMED):
            kind = add_slice
        kind(draw, built, i)
        last = 1 if kind is not add_split else draw(st.integers(1, len(built.values[-1][0].source.descs)))
        usable.append(len(built.values) - last)
        made.append(usable[-1])
        if policy == "default" and draw(st.integers(0, 5)) == 0:
            usable.append(built.flatten(usable[-1]))
    others = draw(st.lists(st.sampled_from(usable), max_size=2))
    return built, [made[-1], *others]

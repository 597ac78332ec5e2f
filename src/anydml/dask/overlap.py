"""Operators whose blocks read parts that overlap several of the input: windows, padding, resampling, rearranging.

Which part a block of the output needs is found by computing the indices that the operator fetches at. Windows are
described anew, with the padding that their block has. Operators that move whole blocks or parts of them, and compute
nothing, are Dask's own indexing.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import dask.array as da
import numpy as np
from dask._task_spec import Task, TaskRef

from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import DataType
from anydml.core.late_imports import import_alone
from anydml.core.operator_type import OperatorType, function_name
from anydml.dask.arrays import Chunks, Key, Layer, edges, lazy, meta_like, places
from anydml.dask.blocks import Block, empty_like, run
from anydml.dask.verbs import Verbs
from anydml.engines.reference.evaluate import evaluate
from anydml.ir.expressions import Expr, const, fetch
from anydml.ir.trees import moved, rewrite, walk
from anydml.ir.verbs import Map
from anydml.ir.views import View
from anydml.operators.manipulation import Join, Split, Tile
from anydml.operators.slice import Slice, Slice1

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.dask.blocks import Asked
    from anydml.dask.tensors import Layout, Tensor
    from anydml.operators import OperatorDesc


# Parts that reach over several blocks: cut where the blocks are, and put together where they are needed


Box: TypeAlias = tuple[tuple[int, int], ...]
"""By dimension, where a part begins and where it ends."""


@dataclass(frozen=True)
class Pieces:
    """How pieces are put together: the sizes of the whole, and where each piece begins."""

    sizes: tuple[int, ...]
    starts: tuple[tuple[int, ...], ...]
    shapes: tuple[tuple[int, ...], ...]
    """The pieces' own sizes, in the dimensions of the whole."""

    def joined(self, pieces: Sequence[Any]) -> Any:
        """The part that they make."""
        shown = [piece.reshape(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]
        if len(shown) == 1:
            return shown[0]
        whole = empty_like(shown[0], self.sizes)
        for piece, start in zip(shown, self.starts, strict=True):
            whole[tuple(slice(a, a + n) for a, n in zip(start, piece.shape, strict=True))] = piece
        return whole


def cut_box(
    made: dict[Key, Any], name: str, source: str, layout: Layout, chunks: Chunks, box: Box
) -> tuple[Pieces, list[TaskRef]]:
    """The pieces of a box, one of each block that it touches; tasks that cut some are added."""
    reached = []
    for sizes, (low, high) in zip(chunks, box, strict=True):
        ends = edges(sizes)
        reached.append(
            [
                (i, max(low, a), min(high, b), a)
                for i, (a, b) in enumerate(itertools.pairwise(ends))
                if a < high and low < b
            ]
        )
    refs, starts, shapes = [], [], []
    for parts in itertools.product(*reached):
        place = tuple(i for i, *_ in parts)
        key = layout.key(source, place)
        within = tuple((low - first, high - first) for _, low, high, first in parts)
        whole = tuple(own[i] for own, i in zip(chunks, place, strict=True))
        if within != tuple((0, size) for size in whole):
            own = [(0, 1)] * layout.rank
            for axis, ends_of in zip(layout.axes, within, strict=True):
                if axis is not None:
                    own[axis] = ends_of
            cut = (f"{name}-cut", source, *key[1:], *(end for pair in own for end in pair))
            if cut not in made:
                made[cut] = Task(cut, _cut, TaskRef(key), own)
            key = cut
        refs.append(TaskRef(key))
        starts.append(tuple(low - begin for (_, low, _, _), (begin, _) in zip(parts, box, strict=True)))
        shapes.append(tuple(high - low for _, low, high, _ in parts))
    sizes = tuple(high - low for low, high in box)
    return Pieces(sizes, tuple(starts), tuple(shapes)), refs


def _cut(block: Any, own: Sequence[tuple[int, int]]) -> Any:
    """A part of a block, as an array of its own: a view would keep the whole block."""
    return block[tuple(slice(*ends) for ends in own)].copy()


# Operators that read such parts


_MOST = 2**22
"""Coordinates that are looked at to find what a block needs."""


@dataclass(frozen=True)
class Reaching(Layer):
    """Blocks of an output, each from a part of every input."""

    layouts: tuple[Layout, ...]
    sources: tuple[Chunks, ...]
    """The blocks of the inputs."""
    parts: tuple[tuple[tuple[int, ...], tuple[Box, ...], Any], ...]
    """By block: its place, the part that it needs of each input, and what is run on them."""
    drop: int
    asked: Asked

    def tasks(self, name: str, inputs: Sequence[str]) -> dict[Key, Any]:
        """One a block, and those that cut what it needs."""
        made: dict[Key, Any] = {}
        for place, boxes, desc in self.parts:
            pieces, refs = [], []
            for layout, source, chunks, box in zip(self.layouts, inputs, self.sources, boxes, strict=True):
                how, found = cut_box(made, name, source, layout, chunks, box)
                pieces.append(how)
                refs += found
            key = (name, *place[self.drop :])
            block = Block(self.prefix, place[self.drop :])
            made[key] = Task(key, _run_on_pieces, desc, self.asked, pieces, self.drop, block, *refs)
        return made


def _run_on_pieces(
    desc: OperatorDesc, asked: Asked, pieces: Sequence[Pieces], drop: int, block: Block, *found: Any
) -> Any:
    with block:
        arrays, first = [], 0
        for how in pieces:
            last = first + len(how.starts)
            arrays.append(how.joined(found[first:last]))
            first = last
        result = run(desc, arrays, asked)
        return result.reshape(result.shape[drop:]) if drop else result


def _layer(
    desc: OperatorDesc,
    tensors: Sequence[Tensor],
    parts: Sequence[tuple[tuple[int, ...], tuple[Box, ...], Any]],
    chunks: Chunks,
    rank: int,
    asked: Asked,
) -> Any:
    drop = len(chunks) - rank
    layouts, sources = tuple(x.layout for x in tensors), tuple(x.chunks for x in tensors)
    layer = Reaching(function_name(desc.type), layouts, sources, tuple(parts), drop, asked)
    (output,) = desc.outputs().values()
    arrays = [x.array for x in tensors]
    return lazy(layer, arrays, chunks[drop:], meta_like(arrays[0], rank, output.data_type.dtype))


# What is fetched at places that are computed from coordinates alone


def fetched_parts(
    desc: OperatorDesc, tensors: Mapping[str, Tensor], ranks: Mapping[str, int], asked: Asked
) -> list[Any] | None:
    """The result of an operator that fetches from its one input at places that no data decide; None of others."""
    verb, *others = desc.told()
    if others or not isinstance(verb, Map) or verb.checks or len(tensors) != 1 or len(desc.outputs()) != 1:
        return None
    (x,), (output,) = tensors.values(), desc.outputs().values()
    fetches = [node for node in walk(verb.value) if node.op == "fetch"]
    is_plain = (
        View.of("InputTensor", desc.inputs()["InputTensor"]) == verb.sources[0] if "InputTensor" in tensors else False
    )
    if not fetches or len(verb.sources) != 1 or not is_plain or verb.target.sizes != output.sizes:
        return None
    if any(node.op == "load" for node in walk(verb.value)):
        return None
    chunks = _output_chunks(fetches, x, output.sizes)
    parts = []
    for at in places(chunks):
        block = tuple((edges(own)[i], edges(own)[i + 1]) for own, i in zip(chunks, at, strict=True))
        box = _needed(fetches, block, x.sizes)
        if box is None:
            return None
        parts.append((at, (box,), _fetching(desc.type, verb, block, box)))
    return [_layer(desc, [x], parts, chunks, ranks["OutputTensor"], asked)]


def _output_chunks(fetches: Sequence[Expr], x: Tensor, sizes: Sequence[int]) -> Chunks:
    """Blocks of the output that begin where blocks of the input do, where a dimension walks along one of its."""
    found: list[tuple[int, ...]] = [(size,) for size in sizes]
    for d, own in enumerate(x.chunks):
        index = fetches[0].args[d]
        used = {int(node.value) for node in walk(index) if node.op == "coordinate"}
        if len(own) == 1 or len(used) != 1:
            continue
        (k,) = used
        places_of = _values(index, {k: (0, sizes[k])})
        before = np.concatenate([[-1], places_of[:-1]])
        ends = {0, sizes[k]}
        for edge in edges(own)[1:-1]:
            crossed = np.flatnonzero((places_of >= edge) & (before < edge))
            ends.add(int(crossed[0]) if crossed.size else round(edge * sizes[k] / x.sizes[d]))
        longest = max(1, math.ceil(max(own) * max(1, sizes[k] // x.sizes[d])))
        bounds = sorted(ends)
        pieces: list[int] = []
        for low, high in itertools.pairwise(bounds):
            whole, rest = divmod(high - low, longest) if high - low > 2 * longest else (0, high - low)
            pieces += [longest] * whole + ([rest] if rest else [])
        found[k] = tuple(pieces)
    return tuple(found)


def _values(index: Expr, ranges: Mapping[int, tuple[int, int]]) -> np.ndarray[Any, Any]:
    """An index for every coordinate in some ranges, one after the other."""
    rank = max([*ranges, 0]) + 1
    cuts = [(ranges[k][0] if k in ranges else 0, 1) for k in range(rank)]
    shape = tuple(ranges[k][1] - ranges[k][0] if k in ranges else 1 for k in range(rank))
    return np.asarray(evaluate(moved(index, cuts), (), shape)).reshape(-1)


def _needed(fetches: Sequence[Expr], block: Box, sizes: Sequence[int]) -> Box | None:
    """The part of the input that a block of the output is fetched from; None where data decide."""
    found: list[tuple[int, int]] = []
    for d, size in enumerate(sizes):
        low, high = size, 0
        for one in fetches:
            index = one.args[d]
            used = {int(node.value) for node in walk(index) if node.op == "coordinate"}
            if any(node.op in ("load", "fetch") for node in walk(index)):
                return None
            ranges = {k: block[k] for k in used}
            if math.prod(b - a for a, b in ranges.values()) > _MOST:
                low, high = 0, size
                continue
            values = _values(index, ranges)
            low, high = min(low, int(values.min())), max(high, int(values.max()) + 1)
        found.append((max(low, 0), min(high, size)))
    return tuple(found)


def _fetching(kind: OperatorType, verb: Map, block: Box, box: Box) -> Verbs:
    """The map of a block, which fetches from the part that it needs."""
    sizes = tuple(high - low for low, high in block)
    own = TensorDesc(verb.sources[0].data_type, tuple(high - low for low, high in box))
    made = TensorDesc(verb.target.data_type, sizes)

    def change(node: Expr) -> Expr:
        if node.op != "fetch":
            return node
        at = [index - const(low, DataType.INT64) for index, (low, _) in zip(node.args, box, strict=True)]
        return fetch(0, own.data_type, at)

    value = rewrite(moved(verb.value, [(low, 1) for low, _ in block]), change)
    local = Map((View.of("x", own),), View.of("y", made), value)
    return Verbs(kind, {"x": own}, {"y": made}, (local,))  # type: ignore[call-arg]  # its own fields


# Windows


def windows(
    desc: OperatorDesc, tensors: Mapping[str, Tensor], ranks: Mapping[str, int], asked: Asked
) -> list[Any] | None:
    """The result of a convolution or a pooling whose spatial dimensions are cut; None of others."""
    import_alone("anydml.operators.convolution", "anydml.operators.pooling")
    from anydml.operators.convolution import Convolution
    from anydml.operators.pooling import Pooling

    is_forward = not getattr(desc, "direction", 0)
    if not isinstance(desc, (Convolution, Pooling)) or not is_forward or len(desc.outputs()) != 1:
        return None
    x, (output,) = tensors["InputTensor"], desc.outputs().values()
    others = {field: one for field, one in tensors.items() if field != "InputTensor"}
    if len(x.chunks[1]) > 1 and isinstance(desc, Convolution):
        return None
    if any(len(own) > 1 for one in others.values() for own in one.chunks):
        return None
    window = desc.filter_tensor.sizes[2:] if isinstance(desc, Convolution) else desc.each("window_size")
    numbers = list(zip(desc.each("strides"), desc.each("start_padding"), desc.reaches(window), strict=True))
    channels = x.chunks[1] if isinstance(desc, Pooling) else (output.sizes[1],)
    chunks = (x.chunks[0], channels, *(_windows_cut(own, size, *one) for own, size, one in
                                       zip(x.chunks[2:], output.sizes[2:], numbers, strict=True)))  # fmt: skip
    parts = []
    for at in places(chunks):
        block = tuple((edges(own)[i], edges(own)[i + 1]) for own, i in zip(chunks, at, strict=True))
        box: list[tuple[int, int]] = [block[0], block[1] if isinstance(desc, Pooling) else (0, x.sizes[1])]
        starts, ends = [], []
        for (low, high), size, (stride, padding, reach) in zip(block[2:], x.sizes[2:], numbers, strict=True):
            first, last = low * stride - padding, (high - 1) * stride - padding + reach
            box.append((min(max(first, 0), size - 1), max(min(last, size), 1)))
            starts.append(max(-first, 0))
            ends.append(max(last - size, 0))
        local = _local_windows(desc, tuple(box), tuple(b - a for a, b in block), starts, ends)
        if local is None:
            return None
        parts.append((at, (tuple(box), *(tuple((0, n) for n in one.sizes) for one in others.values())), local))
    given = [x, *others.values()]
    return [_layer(desc, given, parts, chunks, ranks["OutputTensor"], asked)]


def _windows_cut(own: Sequence[int], size: int, stride: int, padding: int, reach: int) -> tuple[int, ...]:  # noqa: ARG001 - as they come
    """Blocks of windows: one begins with the first window that begins in a block of the input."""
    ends = sorted({0, size, *(min(max(-(-(edge + padding) // stride), 0), size) for edge in edges(own)[1:-1])})
    return tuple(b - a for a, b in itertools.pairwise(ends))


def _local_windows(
    desc: Any, box: Box, sizes: tuple[int, ...], starts: Sequence[int], ends: Sequence[int]
) -> OperatorDesc | None:
    """The description of a block: with its part of the input, and its own padding; None where that is not valid."""
    own = TensorDesc(desc.input_tensor.data_type, tuple(high - low for low, high in box))
    made = TensorDesc(desc.output_tensor.data_type, sizes)
    found: OperatorDesc = replace(
        desc, input_tensor=own, output_tensor=made, start_padding=tuple(starts), end_padding=tuple(ends)
    )
    return None if any(found.own_faults()) else found


# Operators that move blocks


def _part(x: Tensor, starts: Sequence[int], steps: Sequence[int], sizes: Sequence[int]) -> Any:
    """The elements start + step·i of each dimension, for i below a size."""
    index = [slice(None)] * x.array.ndim
    for axis, start, step, size in zip(x.axes, starts, steps, sizes, strict=True):
        if axis is not None:
            last = start + step * (size - 1)
            stop = last + (1 if step > 0 else -1)
            index[axis] = slice(start, None if stop < 0 else stop, step)
    return x.array[tuple(index)]


def _slice(desc: Any, tensors: Sequence[Tensor]) -> list[Any]:
    return [_part(tensors[0], desc.offsets, desc.strides, desc.sizes)]


def _slice1(desc: Any, tensors: Sequence[Tensor]) -> list[Any]:
    windows = zip(desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides, strict=True)
    starts = [offset + (size - 1 if stride < 0 else 0) for offset, size, stride in windows]
    return [_part(tensors[0], starts, desc.input_window_strides, desc.output_tensor.sizes)]


def _join(desc: Any, tensors: Sequence[Tensor]) -> list[Any]:
    axis = tensors[0].axes[desc.axis]
    return [da.concatenate([x.array for x in tensors], axis=0 if axis is None else axis)]


def _split(desc: Any, tensors: Sequence[Tensor]) -> list[Any]:
    (x,), found, first = tensors, [], 0
    for output in desc.output_tensors:
        starts = [first if d == desc.axis else 0 for d in range(len(x.sizes))]
        found.append(_part(x, starts, (1,) * len(starts), output.sizes))
        first += output.sizes[desc.axis]
    return found


def _tile(desc: Any, tensors: Sequence[Tensor]) -> list[Any]:
    (x,) = tensors
    array = x.array
    for axis, repeat in zip(x.axes, desc.repeats, strict=True):
        if repeat > 1 and axis is not None:
            array = da.concatenate([array] * repeat, axis=axis)
    return [array]


_RULES: dict[type[OperatorDesc], Callable[[Any, Sequence[Tensor]], list[Any]]] = {
    Join: _join,
    Slice: _slice,
    Slice1: _slice1,
    Split: _split,
    Tile: _tile,
}


def moved_blocks(desc: OperatorDesc, tensors: Mapping[str, Tensor]) -> list[Any] | None:
    """The results of an operator that Dask's indexing carries out; None of others."""
    rule = _RULES.get(type(desc))
    has_added = any(axis is None for x in tensors.values() for axis in x.axes) and isinstance(desc, Join)
    return None if rule is None or has_added else rule(desc, list(tensors.values()))

"""Facts on a model's outputs before a run: as they are declared, or as its nodes show for sizes made up."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.errors import DmlError
from anydml.onnx.graphs import TensorInfo, describe, shape_of
from anydml.onnx.signatures import result_types
from anydml.onnx.tracing import trace
from anydml.onnx.types import ELEMENT_TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.onnx.graphs import Size
    from anydml.onnx.kept import Kept
    from anydml.onnx.reading import Source
    from anydml.onnx.shapes import Binder
    from anydml.onnx.values import Value
    from anydml.runtime.device import Device

_PROBES = (101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191, 193, 197, 199)
"""Primes: what is put together of several open sizes is none of them."""
_LARGE = (
    *(8009, 8011, 8017, 8039, 8053, 8059, 8069, 8081, 8087, 8089, 8093),
    *(8101, 8111, 8117, 8123, 8147, 8161, 8167, 8171, 8179, 8191),
)
"""Sizes for a trace: a limit of 512 or 4,096 on an open size leaves smaller ones as they are."""


def declared_outputs(
    source: Source, inputs: Mapping[str, TensorInfo], binder: Binder, *, is_strict: bool
) -> dict[str, TensorInfo]:
    """The outputs of a model whose shapes are open, as they are declared; types are the nodes' where none is."""
    graph = source.proto.graph
    types = {name: info.element for name, info in inputs.items()}
    types |= {t.name: ELEMENT_TYPES[t.data_type] for t in graph.initializer if t.data_type in ELEMENT_TYPES}
    made = result_types(graph, source.opset, types)
    found: dict[str, TensorInfo] = {}
    for info in graph.output:
        kind = info.type.WhichOneof("value")
        element = made.get(info.name) if kind is None or not info.type.tensor_type.elem_type else None
        # Without a type of its own, and of a node whose types say nothing, it has none: describe() says so.
        if element is not None and kind in (None, "tensor_type"):
            known = TensorInfo(info.name, element, shape_of(info))
        else:
            known = describe(info, source, "output", may_be_foreign=not is_strict)
        found[info.name] = replace(known, shape=binder.resolve(known.shape))
    return found


def with_shapes(
    outputs: dict[str, TensorInfo],
    source: Source,
    inputs: Mapping[str, TensorInfo],
    kept: Kept,
    device: Device,
) -> dict[str, TensorInfo]:
    """The same, and of shapes that are not declared as much as the nodes show: four traces, 1 ms a node."""
    if all(info.shape is not None for info in outputs.values()):
        return outputs
    inferred = _infer(source, inputs, kept, device)
    return {name: replace(o, shape=inferred.get(name)) if o.shape is None else o for name, o in outputs.items()}


def _infer(
    source: Source, inputs: Mapping[str, TensorInfo], kept: Kept, device: Device
) -> dict[str, tuple[Size, ...] | None]:
    """The shapes of outputs: a size that traces agree on, by its number or by the name of an open size."""
    if any(info.shape is None and not info.is_optional for info in inputs.values()):
        return {}
    found: list[dict[str, list[tuple[Size, ...]]]] = []
    for numbers in (_PROBES, (1,), (2,), _LARGE):
        sizes = _open_sizes(inputs, numbers)
        shapes = {
            name: tuple(n if isinstance(n, int) else sizes[n or (name, i)] for i, n in enumerate(info.shape or ()))
            for name, info in inputs.items()
            if not info.is_optional
        }
        try:
            made = trace(source, shapes, {}, device, kept=kept, keep_going=True).outputs
        except DmlError:  # told when the model is run
            if numbers is _LARGE:
                break
            return {}
        times = Counter(sizes.values())
        names = {n: name for name, n in sizes.items() if isinstance(name, str) and times[n] == 1 < len(numbers)}
        found.append({name: _named(value, names) for name, value in made.items()})
    return {name: _agree([shape for each in found for shape in each[name]]) for name in found[0]}


def _open_sizes(inputs: Mapping[str, TensorInfo], numbers: Sequence[int]) -> dict[str | tuple[str, int], int]:
    """A number for each open size, by its name or its place."""
    places = (
        size or (name, i)
        for name, info in inputs.items()
        for i, size in enumerate(info.shape or ())
        if not isinstance(size, int) and not info.is_optional
    )
    return dict(zip(dict.fromkeys(places), itertools.cycle(numbers), strict=False))


def _named(value: Value | None, names: Mapping[int, str]) -> list[tuple[Size, ...]]:
    """The shape of a value that is there, with the names of open sizes."""
    return [] if value is None else [tuple(names.get(size, size) for size in value.shape)]


def _agree(shapes: list[tuple[Size, ...]]) -> tuple[Size, ...] | None:
    """The common part of the shapes of several traces, that of sizes with names first."""
    if not shapes or len({len(shape) for shape in shapes}) > 1:
        return None
    return tuple(_common(sizes) if len(shapes) > 1 else None for sizes in zip(*shapes, strict=True))


def _common(sizes: Sequence[Size]) -> Size:
    first, *others = sizes
    if isinstance(first, str):  # a size that has a name is 1 and 2 in two of the other traces
        return first if all(n in (1, 2, first) for n in others) and len(set(others)) == len(others) else None
    return first if all(n == first for n in others) else None

"""RandomUniform, RandomNormal, those like a tensor, Bernoulli, Multinomial, Dropout: numbers of RANDOM_GENERATOR.

A run draws other numbers than the one before. With a seed the first run after loading draws the same each time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import anydml as dml
from anydml.core.enums import DataType, ReduceFunction
from anydml.onnx.element_types import BOOL, FLOAT, INT32, INT64, element_of, read_element_type
from anydml.onnx.lower.data_movement import convert
from anydml.onnx.lower.elementwise import compute
from anydml.onnx.lower.values import Value, check_dimensions

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.onnx.element_types import ElementType
    from anydml.onnx.lower.bound_node import BoundNode

_UINT32 = element_of(DataType.UINT32)
_DIGITS = {DataType.FLOAT16: 11}
"""Bits that a number below 1 of a type has; 24 of others, which FLOAT32 has."""


def fill_randomly(
    draw: Callable[[BoundNode, ElementType, tuple[int, ...]], Value],
) -> Callable[[BoundNode], list[Value]]:
    """RandomUniform and RandomNormal: an attribute is the shape."""

    def lower(node: BoundNode) -> list[Value]:
        shape = node.integers("shape")
        if shape is None or any(size < 0 for size in shape):
            node.refuse("shape", "shape must be given, with sizes of at least 0", found=str(shape))
        check_dimensions(len(shape), node.label, "shape")
        return [draw(node, _type(node, FLOAT), tuple(shape))]

    return lower


def fill_like(draw: Callable[[BoundNode, ElementType, tuple[int, ...]], Value]) -> Callable[[BoundNode], list[Value]]:
    """RandomUniformLike and RandomNormalLike: the shape is a tensor's, and so is the type where none is given."""

    def lower(node: BoundNode) -> list[Value]:
        like = node.input(0)
        return [draw(node, _type(node, like.element), like.shape)]

    return lower


def uniform(node: BoundNode, element: ElementType, shape: tuple[int, ...]) -> Value:
    """Numbers from low up to high."""
    low, high = node.real("low"), node.real("high")
    return _scaled(node, fractions(node, shape, _DIGITS.get(element.data_type, 24)), high - low, low, element)


def normal(node: BoundNode, element: ElementType, shape: tuple[int, ...]) -> Value:
    """Numbers about a mean, by Box and Muller: √(-2·log u)·cos(2π·v), of a u that is not 0."""
    both = fractions(node, (2, *shape))
    size = both.count // 2
    flat = node.tracer.reshape(both, (2, size))
    u, v = (node.tracer.reshape(_part(node, flat, k, size), shape) for k in range(2))
    far = compute(node, dml.log, _scaled(node, u, 1, 2.0**-24))
    far = compute(node, dml.sqrt, _scaled(node, far, -2, 0))
    way = compute(node, dml.cos, _scaled(node, v, 2 * math.pi, 0))
    return _scaled(node, compute(node, dml.multiply, far, way), node.real("scale"), node.real("mean"), element)


def bernoulli(node: BoundNode) -> list[Value]:
    """Bernoulli: 1 with the probability that an element says."""
    x = node.input(0)
    chances = convert(node, x, FLOAT)
    drawn = compute(node, dml.logical_less_than, fractions(node, x.shape), chances)
    return [convert(node, drawn, _type(node, x.element))]


def multinomial(node: BoundNode) -> list[Value]:
    """Multinomial: classes by the logarithms of their chances, each the largest after a draw of Gumbel's is added."""
    x, count = node.input(0), node.integer("sample_size")
    node.check_rank("input", x, 2, why=", {batch, classes}")
    if count < 1:
        node.refuse("sample_size", "sample_size must be at least 1", value=count)
    element, (batch, classes) = _type(node, INT32), x.shape
    noise = _scaled(node, fractions(node, (batch, count, classes)), 1, 2.0**-25)
    for _ in range(2):  # -log(-log u)
        noise = _scaled(node, compute(node, dml.log, noise), -1, 0)
    logs = node.tracer.reshape(convert(node, x, FLOAT), (batch, 1, classes))
    summed = compute(node, dml.add, noise, logs)
    shape = (batch, count, 1)
    found = node.tracer.apply(dml.reduce, [summed], shape, ReduceFunction.ARGMAX, -1, element=INT64)
    return [convert(node, node.tracer.reshape(found, (batch, count)), element)]


def dropout_by_attributes(node: BoundNode) -> list[Value]:
    """Dropout below opset 12: the ratio is an attribute; below 7 training is what is done unless is_test says so."""
    trains = node.version < 7 and not node.integer("is_test")
    return _dropout(node, node.real("ratio") if trains else 0, BOOL if node.version >= 10 else node.input(0).element)


def dropout(node: BoundNode) -> list[Value]:
    """Dropout from opset 12 on: how much is dropped, half unless it is given, and whether anything is, are inputs."""
    ratio, training = node.optional(1), node.optional(2)
    trains = training is not None and bool(training.values("training_mode").any())
    if trains and ratio is not None:
        return _dropout(node, float(ratio.values("ratio").reshape(-1)[0]), BOOL)
    return _dropout(node, 0.5 if trains else 0, BOOL)


def _dropout(node: BoundNode, ratio: float, mask: ElementType) -> list[Value]:
    """Elements that are kept are the larger for those that are not."""
    x = node.input(0)
    if not 0 <= ratio < 1:
        node.refuse("ratio", "ratio must be at least 0 and less than 1", value=ratio)
    if not ratio:
        return [x, *(node.tracer.fill(dml.fill_value_constant, mask, x.shape, 1) for _ in range(node.output_count - 1))]
    limit = Value.of(FLOAT, ratio)
    kept = compute(node, dml.logical_greater_than_or_equal, fractions(node, x.shape), limit)
    larger = compute(node, dml.multiply, x, Value.of(x.element, 1 / (1 - ratio)))
    found = compute(node, dml.if_, kept, larger, Value.of(x.element, 0), element=x.element)
    return [found, convert(node, kept, mask)][: node.output_count]


def fractions(node: BoundNode, shape: tuple[int, ...], digits: int = 24) -> Value:
    """Random FLOAT32 numbers from 0 up to 1, all multiples of a power of two as likely."""
    read = node.integer if node.rules.attributes.get("seed") == "INT" else node.real  # Dropout has a whole number
    words = node.tracer.draw(shape, read("seed") if node.has("seed") else None)
    bits = compute(node, dml.bit_shift_right, words, Value.of(_UINT32, 32 - digits))
    return _scaled(node, convert(node, bits, FLOAT), 2.0**-digits, 0)


def _scaled(node: BoundNode, x: Value, scale: float, bias: float, element: ElementType = FLOAT) -> Value:
    found = x if scale == 1 else compute(node, dml.multiply, x, Value.of(FLOAT, scale))
    found = compute(node, dml.add, found, Value.of(FLOAT, bias)) if bias else found
    return convert(node, found, element)


def _part(node: BoundNode, x: Value, row: int, size: int) -> Value:
    return node.tracer.apply(dml.slice1, [x], (1, size), [row, 0], [1, size], [1, 1])


def _type(node: BoundNode, usual: ElementType) -> ElementType:
    return read_element_type(node.integer("dtype"), node.label, "dtype") if node.has("dtype") else usual

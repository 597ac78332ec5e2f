"""Einsum: sums of products, whose dimensions are named by letters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import anydml as dml
from anydml.enums import ReduceFunction
from anydml.errors import show
from anydml.memory import packed_strides
from anydml.onnx.lowerings.elementwise import compute
from anydml.onnx.lowerings.moving import spread
from anydml.onnx.lowerings.products import multiply
from anydml.onnx.lowerings.reducing import reduce
from anydml.onnx.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.onnx.nodes import Node


def einsum(node: Node) -> list[Value]:
    """Einsum: letters name dimensions, and those that the result has not are summed."""
    values = node.inputs
    terms, result = _read_equation(node, node.text("equation"), values)
    sizes: dict[str, int] = {}
    for letters, value in zip(terms, values, strict=True):
        own: dict[str, int] = {}
        for letter, size in zip(letters, value.shape, strict=True):
            is_diagonal, known = letter in own, own.get(letter, sizes.get(letter, 1))
            if known != size and (is_diagonal or 1 not in (known, size)):
                rule = f"dimensions of one letter must have one size: {letter} has {known} and {size}"
                node.refuse("Inputs", rule, value=size, found=str(size))
            own[letter] = size
        sizes |= {letter: size for letter, size in own.items() if size != 1 or letter not in sizes}
    operands = [_diagonal(node, letters, value) for letters, value in zip(terms, values, strict=True)]
    while len(operands) > 1:
        first, second, *rest = operands
        needed = set(result).union(*(one.letters for one in rest))
        operands = [_pair(node, first, second, needed, sizes), *rest]
    (last,) = operands
    found = _summed(node, last, set(result))
    return [_ordered(node, found, result, sizes)]


class _Operand(NamedTuple):
    """A tensor, and the letters of its dimensions, each once."""

    letters: str
    value: Value


def _read_equation(node: Node, given: str, values: Sequence[Value]) -> tuple[list[str], str]:
    """The letters of every input and of the result; what an ellipsis stands for has letters of its own."""
    text = given.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(values):
        rule = f"equation must have a term for each of the {len(values)} inputs"
        node.refuse("equation", rule, value=given, found=show(given))
    longest, read = 0, []
    for term, value in zip(terms, values, strict=True):
        plain = term.replace("...", "", 1)
        more = len(value.shape) - len(plain)
        if not all(c.isascii() and c.isalpha() for c in plain) or more < 0 or (more and "..." not in term):
            rule = (
                f"a term must be letters, as many as its input has dimensions, {len(value.shape)}, or have one ellipsis"
            )
            node.refuse("equation", rule, value=given, found=show(term))
        longest = max(longest, more if "..." in term else 0)
        read.append((term, more))
    dots = [chr(0x100 + k) for k in range(longest)]
    found = [term.replace("...", "".join(dots[longest - more :]) if more else "") for term, more in read]
    every = "".join(found)
    if not arrow:
        once = sorted(letter for letter in set(every) if every.count(letter) == 1 and letter not in dots)
        return found, "".join((*dots, *once))
    result = right.replace("...", "".join(dots))
    if right.count("...") > 1 or len(set(result)) < len(result) or not set(result) <= set(every):
        rule = "the result's letters must be the inputs', each once, and so must the ellipsis"
        node.refuse("equation", rule, value=given, found=show(right))
    return found, result


def _diagonal(node: Node, letters: str, value: Value) -> _Operand:
    """A tensor with each letter once: of one that stands twice the diagonal."""
    unique = "".join(dict.fromkeys(letters))
    if unique == letters:
        return _Operand(letters, value)
    steps: dict[str, int] = dict.fromkeys(unique, 0)
    sizes: dict[str, int] = {}
    for letter, size, stride in zip(letters, value.shape, packed_strides(value.shape), strict=True):
        steps[letter] += stride
        sizes[letter] = size
    shape = tuple(sizes[letter] for letter in unique)
    return _Operand(unique, node.tracer.restride(value, shape, tuple(steps[letter] for letter in unique)))


def _pair(node: Node, a: _Operand, b: _Operand, needed: set[str], sizes: dict[str, int]) -> _Operand:
    """Two tensors made one: a product of matrices, in which what is summed lies between."""
    both = set(a.letters) & set(b.letters)
    a, b = (_summed(node, one, needed | both) for one in (a, b))
    batch = [c for c in a.letters if c in both and c in needed]
    inner = [c for c in a.letters if c in both and c not in needed]
    rows, columns = ([c for c in one.letters if c not in both] for one in (a, b))
    count, m, k, n = (math.prod(sizes[c] for c in group) for group in (batch, rows, inner, columns))
    left = node.tracer.reshape(_ordered(node, a, "".join(batch + rows + inner), sizes), (count, m, k))
    right = node.tracer.reshape(_ordered(node, b, "".join(batch + inner + columns), sizes), (count, k, n))
    letters = "".join(batch + rows + columns)
    shape = tuple(sizes[c] for c in letters)
    if not inner:  # nothing is summed: numbers of any type are multiplied
        found = compute(
            node, dml.multiply, node.tracer.reshape(left, (count, m, 1)), node.tracer.reshape(right, (count, 1, n))
        )
    else:
        found = multiply(node, left, right)
    return _Operand(letters, node.tracer.reshape(found, shape))


def _summed(node: Node, operand: _Operand, needed: set[str]) -> _Operand:
    """The dimensions that nothing needs, summed."""
    axes = [k for k, letter in enumerate(operand.letters) if letter not in needed]
    if not axes:
        return operand
    letters = "".join(letter for letter in operand.letters if letter in needed)
    shape = tuple(size for k, size in enumerate(operand.value.shape) if k not in axes)
    if not operand.value.count:  # of nothing the sum is 0
        return _Operand(letters, spread(node, Value.of(operand.value.element, 0), shape))
    value = reduce(node, operand.value, ReduceFunction.SUM, axes)
    return _Operand(letters, node.tracer.reshape(value, shape))


def _ordered(node: Node, operand: _Operand, letters: str, sizes: dict[str, int]) -> Value:
    """A tensor with its dimensions in another order, those of size 1 repeated where others are longer."""
    steps = dict(zip(operand.letters, packed_strides(operand.value.shape), strict=True))
    own = dict(zip(operand.letters, operand.value.shape, strict=True))
    shape = tuple(sizes[c] for c in letters)
    strides = tuple(steps[c] if own[c] == sizes[c] else 0 for c in letters)
    return node.tracer.restride(operand.value, shape, strides)

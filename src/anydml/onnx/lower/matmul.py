"""Products: MatMul, Gemm, those of integers, and Einsum, whose dimensions are named by letters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import anydml as dml
from anydml.core.enums import ReduceFunction
from anydml.core.errors import show
from anydml.core.memory import packed_strides
from anydml.onnx.element_types import FLOAT, INT32
from anydml.onnx.lower.data_movement import convert, spread, transposed
from anydml.onnx.lower.elementwise import common_shape, compute
from anydml.onnx.lower.qdq_to_int8 import Whole, given_zero, whole
from anydml.onnx.lower.reductions import reduce
from anydml.onnx.lower.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.lower.bound_node import BoundNode


# MatMul, Gemm, and the products of integers


_MOST_DIMENSIONS = 4
"""Of GEMM and its kin."""


def matmul(node: BoundNode) -> list[Value]:
    """MatMul: NumPy's, of vectors too."""
    a, b = node.input(0), node.input(1)
    if len(b.shape) > 1 and (several := whole(a, b, -1, b.shape[-2])) is not None:
        return [several.scaled(node, exact(node, several), None)]
    return [multiply(node, a, b)]


def exact(node: BoundNode, factors: Whole) -> Value:
    """The product of two tensors of bytes, each less its zero point."""
    zeros = {"a_zero_point": given_zero(factors.left), "b_zero_point": given_zero(factors.right)}
    shaped = {name: node.tracer.reshape(zero, (1, zero.count)) for name, zero in zeros.items() if zero is not None}
    return _integers(node, factors.left.numbers, factors.right.numbers, shaped)


def multiply(node: BoundNode, a: Value, b: Value) -> Value:
    """NumPy's matrix product of two tensors, of any number of dimensions."""
    if a.shape and b.shape:
        a, b = _with_steps(node, a, len(a.shape) - 1, b, max(len(b.shape) - 2, 0))
    return matrices(node, a, b, lambda x, y, shape: node.tracer.apply(dml.gemm, [x, y], shape))


def _with_steps(node: BoundNode, a: Value, k: int, b: Value, j: int) -> tuple[Value, Value]:
    """Two factors; where they have nothing to be added up, which DirectML has no tensors for, a step of zeros."""
    if a.shape[k] or b.shape[j]:
        return a, b
    sizes = ((one, (*one.shape[:axis], 1, *one.shape[axis + 1 :])) for one, axis in ((a, k), (b, j)))
    x, y = (spread(node, Value.of(one.element, 0), shape) for one, shape in sizes)
    return x, y


def matrices(node: BoundNode, a: Value, b: Value, run: Callable[[Value, Value, tuple[int, ...]], Value]) -> Value:
    """The result of `run` for two tensors of matrices, in as many dimensions as it takes; vectors are made matrices."""
    if not a.shape or not b.shape:
        node.refuse("inputs", "a product needs vectors or matrices", found=f"{a.shape} and {b.shape}")
    left = a.shape if len(a.shape) > 1 else (1, *a.shape)
    right = b.shape if len(b.shape) > 1 else (*b.shape, 1)
    if left[-1] != right[-2]:
        node.refuse("B", f"B must have as many rows as A has columns, {left[-1]}", value=b.shape)
    batch = common_shape(node, left[:-2], right[:-2])
    shape = (*batch, left[-2], right[-1])
    x, y = node.tracer.reshape(a, left), node.tracer.reshape(b, right)
    if len(shape) <= _MOST_DIMENSIONS or not math.prod(shape):
        found = run(x, y, shape)
    elif len(right) == 2:  # one matrix for all: what A counts are rows
        found = run(node.tracer.reshape(x, (math.prod(left[:-1]), left[-1])), y, (math.prod(shape[:-1]), shape[-1]))
    else:
        count = math.prod(batch)
        several = [spread(node, one, (*batch, *one.shape[-2:])) for one in (x, y)]
        x, y = (node.tracer.reshape(one, (count, *one.shape[-2:])) for one in several)
        found = run(x, y, (count, *shape[-2:]))
    kept = (*batch, *left[-2:-1][: len(a.shape) > 1], *right[-1:][: len(b.shape) > 1])
    return node.tracer.reshape(found, kept)


def gemm(node: BoundNode) -> list[Value]:
    """Gemm: alpha·A·B + beta·C."""
    a, b, c = node.input(0), node.input(1), node.optional(2)
    for name, value in (("A", a), ("B", b)):
        node.check_rank(name, value, 2)
    turned = [bool(node.integer(name, 0)) for name in ("transA", "transB")]
    (rows, length), (other, columns) = (v.shape[::-1] if t else v.shape for v, t in zip((a, b), turned, strict=True))
    if length != other:
        rule = f"B must have as many rows as A has columns, {length}, transposed where transA and transB say so"
        node.refuse("B", rule, value=b.shape)
    if c is not None and common_shape(node, c.shape, (rows, columns)) != (rows, columns):
        node.refuse("C", f"C must have a shape that can be broadcast to {(rows, columns)}", value=c.shape)
    several = whole(a, b, 1 - turned[1], length) if node.real("alpha") == node.real("beta") == 1 else None
    if several is not None and not (c is not None and len(c.shape) > 1):
        parts = (
            one._replace(numbers=transposed(node, one.numbers)) if t else one
            for one, t in zip(several, turned, strict=True)
        )
        return [several.scaled(node, exact(node, Whole(*parts)), c)]
    transforms = ("TRANSPOSE" if t else "NONE" for t in turned)
    options: dict[str, Any] = dict(zip(("trans_a", "trans_b"), transforms, strict=True))
    options |= {name: node.real(name) for name in ("alpha", "beta")}

    def call(first: Any, second: Any, third: Any = None, **named: Any) -> Any:
        return dml.gemm(first, second, third, **named)

    a, b = _with_steps(node, a, 1 - turned[0], b, int(turned[1]))
    given = [a, b] if c is None else [a, b, c]
    return [node.tracer.apply(call, given, (rows, columns), **options)]


# Products of integers


def matmul_integer(node: BoundNode) -> list[Value]:
    """MatMulInteger: (A - zero)·(B - zero), exactly."""
    a, b = node.input(0), node.input(1)
    zeros = {"a_zero_point": _by(node, 2, a), "b_zero_point": _by(node, 3, b, is_left=False)}
    return [_integers(node, a, b, {name: value for name, value in zeros.items() if value is not None})]


def _integers(node: BoundNode, a: Value, b: Value, given: dict[str, Value]) -> Value:
    """The exact product of bytes, with the zero points that there are by name."""
    if any(len(zero.shape) > 2 for zero in given.values()) and a.shape[-1]:
        return _less_zeros(node, _integers(node, a, b, {}), a, b, given)

    def run(x: Value, y: Value, shape: tuple[int, ...]) -> Value:
        if not x.shape[-1]:  # of nothing the sum is 0, whatever is taken off each
            return spread(node, Value.of(INT32, 0), shape)

        def call(first: Any, second: Any, *others: Any, **named: Any) -> Any:
            places = dict(zip(given, others, strict=True))
            return dml.matrix_multiply_integer(first, second, **places, **named)

        return node.tracer.apply(call, [x, y, *given.values()], shape, element=INT32)

    return matrices(node, a, b, run)


def _less_zeros(node: BoundNode, total: Value, a: Value, b: Value, given: dict[str, Value]) -> Value:
    """A·B - za·Σb - (Σa - K·za)·zb: each matrix has zero points of its own, which no operator takes. INT32 wraps."""
    left, right = (node.tracer.reshape(one, _as_matrices(one.shape, i)) for i, one in enumerate((a, b)))
    whole = (*common_shape(node, left.shape[:-2], right.shape[:-2]), left.shape[-2], right.shape[-1])
    found = node.tracer.reshape(total, whole)
    zeros = {name: convert(node, zero, INT32) for name, zero in given.items()}
    if (zero := zeros.get("a_zero_point")) is not None:
        sums = reduce(node, convert(node, right, INT32), ReduceFunction.SUM, [len(right.shape) - 2])
        found = compute(node, dml.subtract, found, compute(node, dml.multiply, zero, sums))
    if (other := zeros.get("b_zero_point")) is not None:
        sums = reduce(node, convert(node, left, INT32), ReduceFunction.SUM, [len(left.shape) - 1])
        if zero is not None:
            count = Value.of(INT32, left.shape[-1])
            sums = compute(node, dml.subtract, sums, compute(node, dml.multiply, zero, count))
        found = compute(node, dml.subtract, found, compute(node, dml.multiply, sums, other))
    return node.tracer.reshape(found, total.shape)


def _as_matrices(shape: tuple[int, ...], place: int) -> tuple[int, ...]:
    """The shape of a factor: a vector is the left one's row, the right one's column."""
    return shape if len(shape) > 1 else (*shape, 1) if place else (1, *shape)


def _by(node: BoundNode, index: int, side: Value, *, is_left: bool = True) -> Value | None:
    """A zero point or a scale as a row or a column, or as those of each matrix: one for all, or one for each."""
    value = node.optional(index)
    if value is None or value.count == 1:
        return None if value is None else node.tracer.reshape(value, (1, 1))
    sizes, along, across = _as_matrices(side.shape, int(not is_left)), *((-2, -1) if is_left else (-1, -2))
    shape = value.shape if len(value.shape) > 1 else (*value.shape, 1) if is_left else (1, *value.shape)
    wanted = [*sizes[:-2], 1, 1]
    wanted[along] = sizes[along]
    pairs = zip(shape[::-1], wanted[::-1], strict=False)
    if len(shape) > len(wanted) or shape[across] != 1 or any(size not in (1, most) for size, most in pairs):
        name, kind = node.rules.inputs[index].name, "row" if is_left else "column"
        rule = f"{name} must be one number, or one for each {kind}, or of a shape that can be broadcast to {(*wanted,)}"
        node.refuse(name, rule, value=value.shape)
    return node.tracer.reshape(value, shape if math.prod(shape[:-2]) > 1 else shape[-2:])


def qlinear_matmul(node: BoundNode) -> list[Value]:
    """QLinearMatMul: a product of quantised numbers, quantised again. Scales of FLOAT16 are made FLOAT32."""
    a, b = node.input(0), node.input(3)
    found = []
    for i, side in ((1, a), (2, a), (4, b), (5, b), (6, a), (7, a)):
        node.input(i)
        value = _by(node, i, side, is_left=i not in (4, 5))
        assert value is not None  # noqa: S101 - for type checkers: it was looked at
        found.append(convert(node, value, FLOAT) if value.element.data_type.is_float else value)
    a_scale, a_zero, b_scale, b_zero, y_scale, y_zero = found
    if any(len(value.shape) > 2 for value in found):
        total = convert(node, _integers(node, a, b, {"a_zero_point": a_zero, "b_zero_point": b_zero}), FLOAT)
        # Of vectors the result has no row or column, which their scales have.
        rows, columns = _as_matrices(a.shape, 0)[-2], _as_matrices(b.shape, 1)[-1]
        whole = (*total.shape[: len(total.shape) - (len(a.shape) > 1) - (len(b.shape) > 1)], rows, columns)
        scale = compute(node, dml.divide, compute(node, dml.multiply, a_scale, b_scale), y_scale)
        scaled = compute(node, dml.multiply, node.tracer.reshape(total, whole), scale)
        made = compute(node, dml.quantize_linear, scaled, Value.of(FLOAT, 1), y_zero, element=y_zero.element)
        return [node.tracer.reshape(made, total.shape)]

    def run(x: Value, y: Value, shape: tuple[int, ...]) -> Value:
        if not x.shape[-1]:
            return spread(node, y_zero, shape)
        given = {
            "a": x, "a_scale": a_scale, "a_zero_point": a_zero, "b": y, "b_scale": b_scale, "b_zero_point": b_zero,
            "output_scale": y_scale, "output_zero_point": y_zero,
        }  # fmt: skip

        def call(*values: Any, **named: Any) -> Any:
            return dml.quantized_linear_matrix_multiply(**dict(zip(given, values, strict=True)), **named)

        return node.tracer.apply(call, list(given.values()), shape, element=y_zero.element)

    return [matrices(node, a, b, run)]


# Einsum


def einsum(node: BoundNode) -> list[Value]:
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
                node.refuse("Inputs", rule, value=size)
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


def _read_equation(node: BoundNode, given: str, values: Sequence[Value]) -> tuple[list[str], str]:
    """The letters of every input and of the result; what an ellipsis stands for has letters of its own."""
    text = given.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(values):
        node.refuse("equation", f"equation must have a term for each of the {len(values)} inputs", value=given)
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


def _diagonal(node: BoundNode, letters: str, value: Value) -> _Operand:
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


def _pair(node: BoundNode, a: _Operand, b: _Operand, needed: set[str], sizes: dict[str, int]) -> _Operand:
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


def _summed(node: BoundNode, operand: _Operand, needed: set[str]) -> _Operand:
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


def _ordered(node: BoundNode, operand: _Operand, letters: str, sizes: dict[str, int]) -> Value:
    """A tensor with its dimensions in another order, those of size 1 repeated where others are longer."""
    steps = dict(zip(operand.letters, packed_strides(operand.value.shape), strict=True))
    own = dict(zip(operand.letters, operand.value.shape, strict=True))
    shape = tuple(sizes[c] for c in letters)
    strides = tuple(steps[c] if own[c] == sizes[c] else 0 for c in letters)
    return node.tracer.restride(operand.value, shape, strides)

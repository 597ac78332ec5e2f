"""MoE and QMoE: for each token some of many small networks, which a router chooses, weighted and added up.

Of few tokens the weights of those chosen are gathered; of many all networks are computed for all of them, and what was
not chosen counts for nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import anydml as dml
from anydml.core.enums import AxisDirection, DataType, IndexMode, ReduceFunction
from anydml.onnx.element_types import FLOAT, element_of
from anydml.onnx.lower.data_movement import convert, spread, transposed
from anydml.onnx.lower.elementwise import compute
from anydml.onnx.lower.interleaved_weights import can_be_interleaved
from anydml.onnx.lower.quantization import unpacked
from anydml.onnx.lower.reductions import reduce
from anydml.onnx.lower.slicing import take
from anydml.onnx.lower.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.onnx.lower.bound_node import BoundNode

_UINT8, _UINT32 = element_of(DataType.UINT8), element_of(DataType.UINT32)
_ACTIVATIONS = ("relu", "gelu", "silu", "swiglu", "identity")
_KINDS = {4: DataType.UINT4, 8: DataType.UINT8}
"""By the bits of a weight, what DEQUANTIZE takes its bytes for."""
_JITTER = 0.01
"""Of the sparse mixer: scores that are less than the best by more than twice this part of it count for nothing."""
_ROUTED = 2
"""The experts that the sparse mixer chooses."""


class Experts(NamedTuple):
    """The weights of one product of all experts, (experts, columns, length), and what is added to it."""

    sizes: tuple[int, int, int]
    weights: Value
    bias: Value | None
    bits: int = 0
    """Of a weight; 0 where it is a float."""
    scale: Value | None = None
    """One for each block of a column."""
    zero: Value | None = None
    """Packed as weights are: those of a column, or of 2 dimensions those of an expert, begin with a byte."""

    def matrices(self, node: BoundNode, chosen: Value | None, like: Value) -> Value:
        """The weights of all experts, or of those that are chosen, of a type for products with another tensor."""
        _, columns, length = self.sizes
        weights, scale, zero = (one and _chosen(node, one, chosen) for one in (self.weights, self.scale, self.zero))
        assert weights is not None  # noqa: S101 - for type checkers: the others alone may be left out
        shape = (weights.shape[0], columns, length)
        if scale is None:
            return convert(node, node.tracer.reshape(weights, shape), like.element)
        rows, blocks = shape[0] * columns, scale.count // (scale.shape[0] * columns)
        reads = node.tracer.graph.device.engine.traits.weight_only_rows
        if like.element == FLOAT or (DataType.FLOAT16, self.bits) not in reads:  # which would round each weight
            scale = convert(node, scale, FLOAT)
        scale = node.tracer.reshape(scale, (rows, blocks))
        by_column = zero is not None and len(zero.shape) == 3
        is_even = zero is None or by_column or not columns * self.bits % 8
        if self.bits in _KINDS and is_even:
            pitch = 8 // self.bits * -(-blocks * self.bits // 8) if by_column else 1

            def unpack(x: Any, by: Any, *points: Any) -> Any:
                kind = _KINDS[self.bits]
                points = tuple(point.reinterpret((rows, blocks), (pitch, 1), kind) for point in points)
                return dml.dequantize(x.reinterpret((rows, length), data_type=kind), by, *points)

            given = [weights, scale, *([] if zero is None else [zero])]
            found = node.tracer.apply(unpack, given, (rows, length), element=scale.element, folds=False)
            return convert(node, node.tracer.reshape(found, shape), like.element)
        numbers = convert(node, unpacked(node, weights, self.bits, length, rows), FLOAT)
        points = Value.of(FLOAT, 2 ** (self.bits - 1))
        if zero is not None:
            count, lines = (blocks, rows) if by_column else (columns, shape[0])
            points = convert(node, unpacked(node, zero, self.bits, count, lines), FLOAT)
            points = node.tracer.reshape(points, (rows, blocks, 1))
        apart = compute(node, dml.subtract, node.tracer.reshape(numbers, (rows, blocks, length // blocks)), points)
        by = convert(node, node.tracer.reshape(scale, (rows, blocks, 1)), FLOAT)
        return convert(node, node.tracer.reshape(compute(node, dml.multiply, apart, by), shape), like.element)

    def added(self, node: BoundNode, chosen: Value | None) -> Value | None:
        """What is added, (experts, 1, columns), as FLOAT32."""
        if self.bias is None:
            return None
        found = convert(node, _chosen(node, self.bias, chosen), FLOAT)
        return node.tracer.reshape(found, (found.shape[0], 1, found.shape[1]))


def _chosen(node: BoundNode, value: Value, chosen: Value | None) -> Value:
    if chosen is None:
        return value
    shape = (chosen.count, *value.shape[1:])
    return node.tracer.apply(dml.gather, [value, chosen], shape, 0, IndexMode.CLAMP)


# The node types


_PARTS = ("fc1", "fc2", "fc3")


def mixture(node: BoundNode) -> list[Value]:
    """MoE: weights are floats."""
    return [_mixed(node, dict(zip(_PARTS, ((2, 3), (4, 5), (6, 7)), strict=True)), None)]


def mixture_quantised(node: BoundNode) -> list[Value]:
    """QMoE: weights have 2, 4 or 8 bits, and a scale for each column or each block of one."""
    if (kind := node.text("quant_type")) != "int":
        rule = f"quant_type must be int: weights of {kind} are of types that DirectML lacks"
        node.unsupported("quant_type", rule, "quantise the experts to 4 or 8 bits")
    if node.integer("weights_prepacked") not in (-1, 0, 1):
        node.refuse(
            "weights_prepacked", "weights_prepacked must be -1, 0 or 1", value=node.integer("weights_prepacked")
        )
    for i in range(15, min(node.input_count, 21)):
        if node.optional(i) is not None:
            node.refuse(node.rules.inputs[i].name, f"{node.rules.inputs[i].name} is for a quant_type other than int")
    places = dict(zip(_PARTS, ((2, 4, 3, 11), (5, 7, 6, 12), (8, 10, 9, 13)), strict=True))
    return [_mixed(node, places, node.optional(14))]


def _mixed(node: BoundNode, places: Mapping[str, tuple[int, ...]], shares: Value | None) -> Value:
    x, router = node.input(0), node.input(1)
    node.check_rank("input", x, 2, 3)
    hidden = x.shape[-1]
    tokens = math.prod(x.shape[:-1])
    node.check_rank("router_probs", router, 2)
    count, k = router.shape[1], node.integer("k")
    node.check_shape("router_probs", router, (tokens, count), why=", a row for each token")
    node.check_shape("router_weights", shares, (tokens, count), why=", as router_probs has")
    if not 1 <= k <= count:
        node.refuse("k", f"k must lie in 1 .. {count}, the experts that router_probs has", value=k)
    kind = node.one_of("activation_type", _ACTIVATIONS)
    fusion = node.integer("swiglu_fusion")
    if fusion not in (0, 1, 2):
        node.refuse("swiglu_fusion", "swiglu_fusion must be 0, 1 or 2", value=fusion)
    is_fused = kind == "swiglu" and (fusion > 0 or node.optional(places["fc3"][0]) is None)
    if is_fused and node.optional(places["fc3"][0]) is not None:
        node.refuse("fc3_experts_weights", "fc3_experts_weights must be left out where swiglu_fusion is 1 or 2")
    inner = _inner(node, places["fc2"][0], count, hidden)
    sizes = {
        "fc1": (count, 2 * inner if is_fused else inner, hidden), "fc2": (count, hidden, inner),
        "fc3": (count, inner, hidden),
    }  # fmt: skip
    found = {name: _experts(node, name, places[name], sizes[name]) for name in _PARTS}
    first, second, gate = found["fc1"], found["fc2"], found["fc3"]
    assert first is not None and second is not None  # noqa: S101, PT018 - for type checkers: they must be given
    if not tokens:
        return x
    rows = node.tracer.reshape(x, (tokens, hidden))
    if _reads_floats(node, first.bits):  # no weight, and nothing between the products, is rounded to FLOAT16
        rows = convert(node, rows, FLOAT)
    chosen, weights = _routed(node, convert(node, router, FLOAT), shares, k)
    if 2 * tokens * k <= count:
        flat = node.tracer.reshape(chosen, (tokens * k,))
        each = spread(node, node.tracer.reshape(rows, (tokens, 1, hidden)), (tokens, k, hidden))
        each = node.tracer.reshape(each, (tokens * k, 1, hidden))
        made = _network(node, each, (first, second, gate), flat, fusion if is_fused else -1)
        made = node.tracer.reshape(made, (tokens, k, hidden))
        weights = node.tracer.reshape(weights, (tokens, k, 1))
        made = compute(node, dml.multiply, made, weights)
        if shares is not None:
            is_out = compute(node, dml.logical_equals, weights, Value.of(FLOAT, 0))
            made = compute(node, dml.if_, is_out, Value.of(FLOAT, 0), made)
        total = reduce(node, made, ReduceFunction.SUM, [1])
    else:
        numbers = node.tracer.fill(dml.fill_value_sequence, _UINT32, (1, 1, count), 0, 1)
        is_chosen = compute(node, dml.logical_equals, node.tracer.reshape(chosen, (tokens, k, 1)), numbers)
        parts = compute(node, dml.if_, is_chosen, node.tracer.reshape(weights, (tokens, k, 1)), Value.of(FLOAT, 0))
        by_expert = node.tracer.reshape(reduce(node, parts, ReduceFunction.SUM, [1]), (tokens, count))
        share = node.tracer.reshape(transposed(node, by_expert), (count, tokens, 1))
        made = _network(node, rows, (first, second, gate), None, fusion if is_fused else -1)
        is_asked = compute(node, dml.logical_equals, share, Value.of(FLOAT, 0))
        made = compute(node, dml.if_, is_asked, Value.of(FLOAT, 0), compute(node, dml.multiply, made, share))
        total = reduce(node, made, ReduceFunction.SUM, [0])
    return convert(node, node.tracer.reshape(total, x.shape), x.element)


def _reads_floats(node: BoundNode, bits: int) -> bool:
    """Whether the engine multiplies weights of so many bits by rows of FLOAT32 alone; 2 are as 4."""
    reads = node.tracer.graph.device.engine.traits.weight_only_rows
    wide, half = ((kind, max(bits, 4)) in reads for kind in (DataType.FLOAT32, DataType.FLOAT16))
    return bool(bits) and wide and not half


def _inner(node: BoundNode, place: int, count: int, hidden: int) -> int:
    """The numbers between an expert's two products, by the weights of the second."""
    weights = node.input(place)
    bits = _bits(node, "fc2")
    elements = weights.count * 8 // bits if bits else weights.count
    if len(weights.shape) != 3 or not count or weights.shape[0] != count or elements % max(count * hidden, 1):
        rule = f"fc2_experts_weights must have the weights of {count} experts, {hidden} columns each"
        node.refuse("fc2_experts_weights", rule, value=weights.shape)
    return elements // (count * hidden)


def _bits(node: BoundNode, name: str) -> int:
    """The bits of a weight; 0 for floats."""
    if "expert_weight_bits" not in node.rules.attributes:
        return 0
    bits = node.integer(f"{name}_expert_weight_bits") or node.integer("expert_weight_bits")
    if bits not in (2, 4, 8):
        node.refuse("expert_weight_bits", "expert_weight_bits must be 2, 4 or 8", value=bits)
    return bits


def _experts(node: BoundNode, name: str, places: tuple[int, ...], sizes: tuple[int, int, int]) -> Experts | None:
    """The weights of one product, checked; None for a third that is left out."""
    weights, bias = node.optional(places[0]), node.optional(places[1])
    names = [node.rules.inputs[i].name for i in places]
    if weights is None:
        if name != "fc3":
            node.refuse(names[0], f"{names[0]} must be given")
        return None
    count, columns, length = sizes
    node.check_shape(names[1], bias, (count, columns), why=", a number for each column of each expert")
    if not (bits := _bits(node, name)):
        node.check_shape(names[0], weights, sizes, (count, length, columns))
        return Experts(sizes, weights, bias)
    each = 8 // bits
    if length % each:
        node.refuse(names[0], f"a column of {names[0]} must be whole bytes of {bits} bits each", value=length)
    shapes = [(count, columns, length // each)]
    if (mode := node.integer("weights_prepacked")) and can_be_interleaved(columns, length, bits):
        if mode == 1 and not weights.is_known:
            rule = "weights packed for CUDA must be initializers"
            node.unsupported("weights_prepacked", rule, "build the model with weights_prepacked=0")
    elif mode == 1:
        rule = f"weights of {columns} columns of {length} numbers of {bits} bits are not packed for CUDA"
        node.unsupported("weights_prepacked", rule, "build the model with weights_prepacked=0")
    elif columns % each == 0:
        shapes.append((count, length, columns // each))
    node.check_shape(names[0], weights, *shapes, why=f", of {bits} bits")
    scale, zero, block = node.optional(places[2]), node.optional(places[3]), node.integer("block_size")
    if scale is None:
        node.refuse(names[2], f"{names[2]} must be given")
    if block < 0 or (block and (block < 16 or block & (block - 1) or length % block)):
        rule = f"block_size must be 0, or a power of two from 16 on that divides {length}, the length of a column"
        node.refuse("block_size", rule, value=block)
    # As ONNX Runtime: whether there are blocks is seen by the scales.
    blocks = scale.shape[2] if len(scale.shape) == 3 and scale.shape[2] > 1 else 1
    wanted = [(count, columns, length // block)] if block and blocks > 1 else [(count, columns), (count, columns, 1)]
    node.check_shape(names[2], scale, *wanted, why=", one for each block of each column" if block else "")
    lines = [(count, columns, -(-blocks // each)), *([(count, -(-columns // each))] if blocks == 1 else [])]
    node.check_shape(names[3], zero, *lines, why=f", of {bits} bits")
    return Experts(sizes, weights, bias, bits, scale, zero)


# What is computed


def _routed(node: BoundNode, scores: Value, shares: Value | None, k: int) -> tuple[Value, Value]:
    """Of each token the numbers of the experts, (tokens, k), and how much each counts."""
    tokens = scores.shape[0]
    if "use_sparse_mixer" in node.rules.attributes and node.integer("use_sparse_mixer"):
        if k != _ROUTED or shares is not None:
            node.refuse("k", "k must be 2 where use_sparse_mixer is given, and router_weights left out", value=k)
        return _mixed_sparsely(node, scores)
    is_quantised = "expert_weight_bits" in node.rules.attributes
    if not is_quantised:
        scores = node.tracer.apply(dml.softmax1, [scores], scores.shape, axes=(1,))
    best, chosen = (_best(node, scores, k, i) for i in range(2))
    if shares is not None:
        wide = convert(node, shares, FLOAT)
        best = node.tracer.apply(dml.gather_elements, [wide, chosen], (tokens, k), 1, IndexMode.CLAMP)
    elif is_quantised:  # ONNX Runtime takes the softmax of those that are chosen, whatever normalize_routing_weights is
        return chosen, node.tracer.apply(dml.softmax1, [best], (tokens, k), axes=(1,))
    if node.integer("normalize_routing_weights"):
        total = reduce(node, best, ReduceFunction.SUM, [1])
        is_zero = compute(node, dml.logical_equals, total, Value.of(FLOAT, 0))
        best = compute(node, dml.divide, best, compute(node, dml.if_, is_zero, Value.of(FLOAT, 1), total))
    if shares is not None:  # as ONNX Runtime: what is not above 0, NaN too, leaves its expert out
        counts = compute(node, dml.logical_greater_than, best, Value.of(FLOAT, 0))
        best = compute(node, dml.if_, counts, best, Value.of(FLOAT, 0))
    return chosen, best


def _best(node: BoundNode, scores: Value, k: int, part: int) -> Value:
    """The k largest of each row, or their places."""

    def call(x: Any, *more: Any, **options: Any) -> Any:
        return dml.top_k1(x, *more, **options)[part]

    shape, element = (scores.shape[0], k), (FLOAT, _UINT32)[part]
    return node.tracer.apply(call, [scores], shape, 1, k, AxisDirection.DECREASING, element=element)


def _mixed_sparsely(node: BoundNode, scores: Value) -> tuple[Value, Value]:
    """The sparse mixer of Phi-3.5: each expert's share is the softmax of the scores near its own.

    Those of the second are without the first.
    """
    tokens, count = scores.shape
    values, chosen = (_best(node, scores, _ROUTED, i) for i in range(2))
    numbers = node.tracer.fill(dml.fill_value_sequence, _UINT32, (1, count), 0, 1)
    shares = []
    for i in range(_ROUTED):
        best = take(node, values, (0, i), (tokens, 1), (1, 1))
        factor = compute(node, dml.max, compute(node, dml.abs, scores), best)
        bound = compute(node, dml.multiply, factor, Value.of(FLOAT, 2 * _JITTER))
        is_far = compute(node, dml.logical_greater_than, compute(node, dml.subtract, best, scores), bound)
        if i:
            taken = take(node, chosen, (0, 0), (tokens, 1), (1, 1))
            is_far = compute(node, dml.logical_or, is_far, compute(node, dml.logical_equals, numbers, taken))
        terms = compute(node, dml.exp, compute(node, dml.subtract, scores, best))
        terms = compute(node, dml.if_, is_far, Value.of(FLOAT, 0), terms)
        shares.append(compute(node, dml.recip, reduce(node, terms, ReduceFunction.SUM, [1])))
    return chosen, node.tracer.apply_to_list(dml.join, shares, (tokens, _ROUTED), 1)


def _network(
    node: BoundNode, rows: Value, parts: tuple[Experts, Experts, Experts | None], chosen: Value | None, fusion: int
) -> Value:
    """What experts make of rows, in FLOAT32: all of them of the same, or each that is chosen of its own.

    `fusion` is -1 where the gate is no part of the first product.
    """
    first, second, gate = parts
    inner = second.sizes[2]
    made = _product(node, rows, first, chosen)
    kind = node.text("activation_type")
    if fusion < 0:
        other = None if gate is None else _product(node, rows, gate, chosen)
        made = _activated(node, kind, made, other)
    else:
        lead = made.shape[:-1]
        sizes = (*lead, 2, inner) if fusion == 2 else (*lead, inner, 2)
        pairs = node.tracer.reshape(made, sizes)
        axis = len(lead) + (fusion != 2)
        each = tuple(1 if i == axis else size for i, size in enumerate(sizes))
        halves = [
            take(node, pairs, [half * (i == axis) for i in range(len(sizes))], each, [1] * len(sizes))
            for half in (0, 1)
        ]
        made = _activated(node, kind, *(node.tracer.reshape(half, (*lead, inner)) for half in halves))
    return _product(node, convert(node, made, rows.element), second, chosen)


def _product(node: BoundNode, rows: Value, part: Experts, chosen: Value | None) -> Value:
    """Rows by the weights of each expert, and what is added to it: (experts, rows, columns), in FLOAT32."""
    weights = part.matrices(node, chosen, rows)
    experts, columns, length = weights.shape
    if len(rows.shape) == 2:  # the same rows for all experts: one product
        flat = node.tracer.reshape(weights, (experts * columns, length))
        wide = (rows.shape[0], experts * columns)
        found = node.tracer.apply(dml.gemm, [rows, flat], wide, trans_b="TRANSPOSE")
        apart = node.tracer.reshape(found, (rows.shape[0], experts, columns))
        found = transposed(node, apart, (1, 0, 2))
    else:
        shape = (experts, rows.shape[1], columns)
        found = node.tracer.apply(dml.gemm, [rows, weights], shape, trans_b="TRANSPOSE")
    found, added = convert(node, found, FLOAT), part.added(node, chosen)
    return found if added is None else compute(node, dml.add, found, added)


def _activated(node: BoundNode, kind: str, x: Value, other: Value | None) -> Value:
    """A number by the activation, times its gate's where there is one; both cut off at a limit for SwiGLU."""
    if kind == "swiglu" and other is not None:
        limit = node.real("swiglu_limit")
        if not math.isinf(limit):
            x = compute(node, dml.min, x, Value.of(FLOAT, limit))
            other = compute(node, dml.clip, other, min=-limit, max=limit)
        scaled = compute(node, dml.multiply, x, Value.of(FLOAT, node.real("activation_alpha")))
        made = compute(node, dml.multiply, x, compute(node, dml.sigmoid, scaled))
        other = compute(node, dml.add, other, Value.of(FLOAT, node.real("activation_beta")))
    elif kind == "relu":
        made = compute(node, dml.max, x, Value.of(FLOAT, 0))
    elif kind == "gelu":
        cube = compute(node, dml.multiply, compute(node, dml.multiply, x, x), x)
        inside = compute(node, dml.add, x, compute(node, dml.multiply, cube, Value.of(FLOAT, 0.044715)))
        curve = compute(node, dml.tanh, compute(node, dml.multiply, inside, Value.of(FLOAT, math.sqrt(2 / math.pi))))
        half = compute(node, dml.multiply, x, Value.of(FLOAT, 0.5))
        made = compute(node, dml.multiply, half, compute(node, dml.add, curve, Value.of(FLOAT, 1)))
    elif kind == "identity":
        made = x
    else:
        made = compute(node, dml.multiply, x, compute(node, dml.sigmoid, x))
    return made if other is None else compute(node, dml.multiply, made, other)

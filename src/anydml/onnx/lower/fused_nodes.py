"""Node types that ONNX Runtime's tools write, each as the ONNX nodes that it stands for.

Its quantiser writes nodes of 8-bit numbers, which are dequantised, computed and quantised again; its optimiser writes
products and convolutions with what follows them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType
from anydml.onnx.element_types import FLOAT, element_of
from anydml.onnx.ir import make_node
from anydml.onnx.library import node_rules
from anydml.onnx.lower.bound_node import BoundNode
from anydml.onnx.lower.values import Value
from anydml.onnx.protobuf import ELEMENT_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.ir import Node

    Lowering = Callable[[BoundNode], Sequence[Value | None]]
    Body = Callable[[BoundNode, "Maker"], Sequence[Value | None]]

_VERSION = 17
"""The opset of the nodes that they become."""
_WORD, _LONG = element_of(DataType.INT32), element_of(DataType.INT64)


class Maker:
    """Lowers the nodes that one node stands for."""

    def __init__(self, node: BoundNode, find: Callable[[str, int], Lowering | None]) -> None:
        self._node, self._find = node, find

    def __call__(self, kind: str, *inputs: Value | None, version: int = _VERSION, **attributes: Any) -> Value:
        """The first output of a node."""
        names = ["" if value is None else f"x{i}" for i, value in enumerate(inputs)]
        return self._lower(make_node(kind, names, ["y"], **attributes), version, inputs)

    def like(self, kind: str, *inputs: Value | None, version: int = _VERSION) -> Value:
        """The same, with those of the attributes of the node itself that the other has too."""
        rules = node_rules(kind, version)
        assert rules is not None  # noqa: S101 - for type checkers: it is one of ONNX's own
        made = make_node(kind, ["" if value is None else "x" for value in inputs], ["y"])
        own = tuple(each for each in self._node.origin.attribute if each.name in rules.attributes)
        return self._lower(replace(made, attribute=own), version, inputs)

    def several(self, kind: str, count: int, *inputs: Value | None, **attributes: Any) -> list[Value | None]:
        """The first outputs of a node of ONNX Runtime's own."""
        names = ["" if value is None else f"x{i}" for i, value in enumerate(inputs)]
        made = make_node(kind, names, [f"y{i}" for i in range(count)], **attributes)
        return list(self._all(replace(made, domain="com.microsoft"), 1, inputs))

    def _lower(self, made: Node, version: int, inputs: Sequence[Value | None]) -> Value:
        found = self._all(made, version, inputs)[0]
        assert found is not None  # noqa: S101 - for type checkers: it is asked for
        return found

    def _all(self, made: Node, version: int, inputs: Sequence[Value | None]) -> Sequence[Value | None]:
        lowering = self._find(made.kind, version)
        assert lowering is not None  # noqa: S101 - for type checkers: a test has a node of each type
        return lowering(BoundNode(made, version, inputs, self._node.tracer))


# Of 8-bit numbers


def _opened(node: BoundNode, make: Maker, first: int) -> Value:
    """The numbers that an input and the scale and zero point after it stand for."""
    return make("DequantizeLinear", node.input(first), node.input(first + 1), node.optional(first + 2))


def _closed(node: BoundNode, make: Maker, found: Value, scale: Value, zero: Value | None) -> list[Value]:
    like = node.input(0).element if zero is None else zero.element
    return [make("QuantizeLinear", found, scale, Value.of(like, 0) if zero is None else zero)]


def quantised(kind: str, count: int) -> Body:
    """A node of that many tensors, each with a scale and a zero point, as is the result."""

    def lower(node: BoundNode, make: Maker) -> list[Value]:
        version = min(node.integer("opset", _VERSION), _VERSION) if "opset" in node.rules.attributes else _VERSION
        inputs = [_channels_second(node, make, _opened(node, make, 3 * i)) for i in range(count)]
        found = _channels_last(node, make, make.like(kind, *inputs, version=version))
        return _closed(node, make, found, node.input(3 * count), node.optional(3 * count + 1))

    return lower


def _has_channels_last(node: BoundNode) -> bool:
    """Whether an image's channels are its last dimension: as the attribute says, or the type that has no other way."""
    return bool(node.integer("channels_last")) if "channels_last" in node.rules.attributes else "Nhwc" in node.kind


def _channels_second(node: BoundNode, make: Maker, image: Value) -> Value:
    """An image as ONNX has it, with its channels after the batch."""
    count = len(image.shape)
    return make("Transpose", image, perm=[0, count - 1, *range(1, count - 1)]) if _has_channels_last(node) else image


def _channels_last(node: BoundNode, make: Maker, image: Value) -> Value:
    """An image of ONNX's as the node has it."""
    return make("Transpose", image, perm=[0, *range(2, len(image.shape)), 1]) if _has_channels_last(node) else image


def on_image(kind: str) -> Body:
    """A node of ONNX's whose first input may have its channels last, as has its result then."""

    def lower(node: BoundNode, make: Maker) -> list[Value]:
        image = _channels_second(node, make, node.input(0))
        others = [node.optional(i) for i in range(1, node.input_count)]
        return [_channels_last(node, make, make.like(kind, image, *others))]

    return lower


def concat(node: BoundNode, make: Maker) -> list[Value]:
    """QLinearConcat: the result's scale and zero point come first."""
    parts = [_opened(node, make, i) for i in range(2, node.input_count, 3)]
    return _closed(node, make, make.like("Concat", *parts), node.input(0), node.input(1))


def where(node: BoundNode, make: Maker) -> list[Value]:
    """QLinearWhere: a condition, and two tensors."""
    found = make("Where", node.input(0), _opened(node, make, 1), _opened(node, make, 4))
    return _closed(node, make, found, node.input(7), node.optional(8))


def gemm(node: BoundNode, make: Maker) -> list[Value]:
    """QGemm: an exact product, to which whole numbers are added; then scaled, and quantised where it says how."""
    a, b = (_turned(node, make, node.input(i), name) for i, name in ((0, "transA"), (3, "transB")))
    total = make("MatMulInteger", a, b, node.optional(2), node.optional(5))
    if (bias := node.optional(6)) is not None:
        total = make("Add", total, bias)
    scale = make("Mul", make("Mul", node.input(1), node.input(4)), Value.of(FLOAT, node.real("alpha")))
    found = make("Mul", make("Cast", total, to=1), scale)
    return [found] if node.optional(7) is None else _closed(node, make, found, node.input(7), node.optional(8))


def _product(
    make: Maker, a: Value, b: Value, scales: Sequence[Value], zeros: Sequence[Value | None], bias: Value | None
) -> list[Value]:
    """An exact product, scaled, and a bias; of FLOAT16 scales, computed in FLOAT32."""
    is_row = len(a.shape) == 1  # whose result has no dimension that scales of several matrices have
    rows = make("Unsqueeze", a, Value.of(_LONG, [0])) if is_row else a
    kind = ELEMENT_NUMBERS[scales[0].element.name]
    scale = make("Mul", *(make("Cast", each, to=1) for each in scales))
    found = make("Mul", make("Cast", make("MatMulInteger", rows, b, *zeros), to=1), scale)
    found = make("Squeeze", found, Value.of(_LONG, [-2])) if is_row else found
    whole = found if bias is None else make("Add", found, make("Cast", bias, to=1))
    return [make("Cast", whole, to=kind)]


def matmul_to_float(node: BoundNode, make: Maker) -> list[Value]:
    """MatMulIntegerToFloat."""
    scales, zeros = (node.input(2), node.input(3)), (node.optional(4), node.optional(5))
    bias = _by_column(node, 6, node.input(1).shape[-1] if node.input(1).shape else 1)
    return _product(make, node.input(0), node.input(1), scales, zeros, bias)


def matmul_dynamic(node: BoundNode, make: Maker) -> list[Value]:
    """DynamicQuantizeMatMul: rounded to 8 bits first, by the least and the largest number, as DynamicQuantizeLinear."""
    x, none = node.input(0), Value.of(FLOAT, 0)
    low = make("Min", make("ReduceMin", x, keepdims=0), none)
    high = make("Max", make("ReduceMax", x, keepdims=0), none)
    most = Value.of(FLOAT, 255)
    scale = make("Div", make("Sub", high, low), most)
    point = make("Round", make("Clip", make("Div", make("Sub", none, low), scale), none, most))
    zero = make("Cast", point, to=2)
    rounded = make("QuantizeLinear", x, scale, zero)
    scales, zeros = (scale, node.input(2)), (zero, node.optional(3))
    bias = _by_column(node, 4, node.input(1).shape[-1] if node.input(1).shape else 1)
    return _product(make, rounded, node.input(1), scales, zeros, bias)


# With what follows


def _turned(node: BoundNode, make: Maker, value: Value, name: str) -> Value:
    """A matrix, or several, transposed where the attribute says so."""
    count = len(value.shape)
    if not node.integer(name, 0) or count < 2:
        return value
    return make("Transpose", value, perm=[*range(count - 2), count - 1, count - 2])


def matmul(node: BoundNode, make: Maker) -> list[Value]:
    """FusedMatMul, and TransposeMatMul, its older name: transposed, and times alpha."""
    if any(name in node.rules.attributes and node.integer(name, 0) for name in ("transBatchA", "transBatchB")):
        node.unsupported("transBatchA", "transBatchA and transBatchB are not supported")
    a, b = (_turned(node, make, node.input(i), name) for i, name in enumerate(("transA", "transB")))
    found, alpha = make("MatMul", a, b), node.real("alpha")
    return [found if alpha == 1 else make("Mul", found, Value.of(found.element, alpha))]


_FOLLOWS: dict[str, tuple[str, ...]] = {
    "": (), "Relu": (), "Sigmoid": (), "Tanh": (), "LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"),
    "Clip": ("", ""),
}  # fmt: skip
"""Activations that may follow, and what their numbers are called; of Clip they are inputs."""


def _followed(node: BoundNode, make: Maker, found: Value, numbers: Sequence[float]) -> Value:
    kind = node.text("activation")
    if kind not in _FOLLOWS or len(numbers) < len(_FOLLOWS[kind]):
        known = ", ".join(filter(None, _FOLLOWS))
        node.unsupported(
            "activation", f"activation {kind!r} with {len(numbers)} numbers is not supported; there are {known}"
        )
    if kind == "Clip":
        return make(kind, found, *(Value.of(found.element, number) for number in numbers[:2]))
    named: dict[str, Any] = dict(zip(_FOLLOWS[kind], numbers, strict=False))
    return make(kind, found, **named) if kind else found


def convolution(node: BoundNode, make: Maker) -> list[Value]:
    """FusedConv: a tensor may be added before the activation."""
    found = make.like("Conv", node.input(0), node.input(1), node.optional(2))
    if (other := node.optional(3)) is not None:
        found = make("Add", found, other)
    return [_followed(node, make, found, node.reals("activation_params") if node.has("activation_params") else ())]


def gemm_followed(node: BoundNode, make: Maker) -> list[Value]:
    """FusedGemm."""
    found = make.like("Gemm", node.input(0), node.input(1), node.optional(2))
    return [_followed(node, make, found, _numbers(node))]


def matmul_followed(node: BoundNode, make: Maker) -> list[Value]:
    """FusedMatMulActivation."""
    return [_followed(node, make, matmul(node, make)[0], _numbers(node))]


def _numbers(node: BoundNode) -> list[float]:
    """An activation's numbers that are given."""
    return [node.real(name) for name in ("activation_alpha", "activation_beta") if node.has(name)]


def bias_add(node: BoundNode, make: Maker) -> list[Value]:
    """BiasAdd: a bias and a tensor are added."""
    x, bias, skip = (_wide(make, value) for value in node.inputs)
    return [_narrow(node, make, make("Add", make("Add", x, bias), skip))]


def bias_split_gelu(node: BoundNode, make: Maker) -> list[Value]:
    """BiasSplitGelu: of a sum one half of each row times the Gelu of the other."""
    total = make("Add", *(_wide(make, value) for value in node.inputs))
    size = total.shape[-1] // 2
    if total.shape[-1] % 2:
        node.refuse("X", "X must have rows of an even length", value=total.shape)
    bounds = [Value.of(_LONG, [n]) for n in (0, size, 2 * size, -1)]
    left, right = (make("Slice", total, *bounds[i : i + 2], bounds[3]) for i in range(2))
    return [_narrow(node, make, make("Mul", left, make("Gelu", right, version=20)))]


def group_norm(node: BoundNode, make: Maker) -> list[Value]:
    """GroupNorm: channels last unless it is said otherwise, and times their sigmoid where that is asked for."""
    x, activation = _wide(make, node.input(0)), node.integer("activation")
    if activation not in (0, 1):
        node.refuse("activation", "activation must be 0 or 1", value=activation)
    kind = ELEMENT_NUMBERS[x.element.name]
    by = (make("Cast", node.input(i), to=kind) for i in (1, 2))
    options = {"num_groups": node.integer("groups"), "epsilon": node.real("epsilon")}
    found = make("GroupNormalization", _channels_second(node, make, x), *by, version=21, **options)
    found = make("Mul", found, make("Sigmoid", found)) if activation else found
    return [_narrow(node, make, _channels_last(node, make, found))]


def _by_column(node: BoundNode, index: int, count: int) -> Value | None:
    """An input that may be left out, of a number for each of so many columns."""
    found = node.optional(index)
    if found is not None:
        node.check_shape(node.rules.inputs[index].name, found, (count,), why=", a number for each column")
    return found


def gelu(approximate: str) -> Body:
    """Gelu and BiasGelu, or FastGelu: of a tensor, or of the sum of two."""

    def lower(node: BoundNode, make: Maker) -> list[Value]:
        bias = _by_column(node, 1, node.input(0).shape[-1] if node.input(0).shape else 1)
        whole = node.input(0) if bias is None else make("Add", *(_wide(make, one) for one in (node.input(0), bias)))
        return [_narrow(node, make, make("Gelu", whole, version=20, approximate=approximate))]

    return lower


def quick_gelu(node: BoundNode, make: Maker) -> list[Value]:
    """QuickGelu: x · sigmoid(alpha·x)."""
    x = _wide(make, node.input(0))
    share = make("Sigmoid", make("Mul", x, Value.of(x.element, node.real("alpha"))))
    return [_narrow(node, make, make("Mul", x, share))]


def _wide(make: Maker, value: Value) -> Value:
    """FLOAT16 as FLOAT32, for nodes of several steps that round once."""
    return make("Cast", value, to=ELEMENT_NUMBERS["FLOAT"]) if value.element.name == "FLOAT16" else value


def _narrow(node: BoundNode, make: Maker, found: Value) -> Value:
    """A result of the first input's type."""
    element = node.input(0).element
    return found if found.element == element else make("Cast", found, to=ELEMENT_NUMBERS[element.name])


def embedding(node: BoundNode, make: Maker) -> list[Value | None]:
    """EmbedLayerNormalization: embeddings of tokens, positions and segments, normalised; and how long each text is."""
    ids, segments, mask, places = node.input(0), node.optional(1), node.optional(7), node.optional(8)
    table = node.input(3)
    if len(ids.shape) != 2 or any(one is not None and one.shape != ids.shape for one in (segments, mask)):
        rule = "input_ids must have 2 dimensions, and segment_ids and mask its shape"
        node.refuse("input_ids", rule, value=ids.shape)
    tables = [node.input(2), table, *([] if segments is None else [node.input(4)])]
    width = node.input(2).shape[-1] if node.input(2).shape else 0
    if any(len(one.shape) != 2 or one.shape[1] != width for one in tables):
        rule = f"the embeddings must be matrices of one number of columns, {width}"
        node.refuse("word_embedding", rule, found=" and ".join(str(one.shape) for one in tables))
    for i in (5, 6):
        _by_column(node, i, width)
    if places is None:
        start, end = (Value.of(_LONG, [n]) for n in (0, ids.shape[-1]))
        rows = make("Slice", table, start, end)
    else:
        rows = make("Gather", table, places)
    total = make("Add", make("Gather", node.input(2), ids), rows)
    if segments is not None:
        total = make("Add", total, make("Gather", node.input(4), segments))
    normed = make("LayerNormalization", total, node.input(5), node.input(6), axis=-1, epsilon=node.real("epsilon"))
    lengths = None
    if node.output_count > 1 and node.outputs[1]:
        zeros = Value.of(_WORD, [0] * ids.shape[0])
        lengths = zeros if mask is None else make("ReduceSum", mask, Value.of(_LONG, [1]), keepdims=0)
    return [normed, lengths, total]


BODIES: dict[str, Body] = {
    "QLinearAdd": quantised("Add", 2),
    "QLinearMul": quantised("Mul", 2),
    "QLinearSigmoid": quantised("Sigmoid", 1),
    "QLinearLeakyRelu": quantised("LeakyRelu", 1),
    "QLinearSoftmax": quantised("Softmax", 1),
    "QLinearGlobalAveragePool": quantised("GlobalAveragePool", 1),
    "QLinearAveragePool": quantised("AveragePool", 1),
    "QLinearConv": on_image("QLinearConv"),
    "NhwcConv": on_image("Conv"),
    "NhwcMaxPool": on_image("MaxPool"),
    "QLinearConcat": concat,
    "QLinearWhere": where,
    "QGemm": gemm,
    "MatMulIntegerToFloat": matmul_to_float,
    "DynamicQuantizeMatMul": matmul_dynamic,
    "FusedMatMul": matmul,
    "FusedMatMulActivation": matmul_followed,
    "TransposeMatMul": matmul,
    "FusedConv": convolution,
    "FusedGemm": gemm_followed,
    "Gelu": gelu("none"),
    "BiasAdd": bias_add,
    "BiasGelu": gelu("none"),
    "BiasSplitGelu": bias_split_gelu,
    "FastGelu": gelu("tanh"),
    "QuickGelu": quick_gelu,
    "GroupNorm": group_norm,
    "EmbedLayerNormalization": embedding,
}
"""Of the domain com.microsoft, by name."""

"""PyDirectML's functions: each adds the node of an operator to a graph. The names of arguments are PyDirectML's.

What an operator takes is in `anydml.operators`: here are the defaults, and the order of arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from anydml.arrays import tensor
from anydml.core.errors import DescriptionError, Fault
from anydml.core.parse import read_bool, read_int
from anydml.pydirectml.arguments import REQUIRED, ArgumentError, an, as_argument_error, complete, without_empty
from anydml.pydirectml.device import GraphBuilder
from anydml.pydirectml.enums import (
    ConvolutionDirection,
    ConvolutionMode,
    InterpolationMode,
    MatrixTransform,
    OutputOptions,
    PaddingMode,
    RecurrentNetworkDirection,
    TensorDataType,
)
from anydml.pydirectml.expressions import Expression, FusedActivation, GRUOutputs, MaxPoolingOutputs, make, make_one
from anydml.pydirectml.tensors import Size2D, TensorDesc

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "activation_identity", "activation_linear", "activation_relu", "activation_sigmoid", "activation_soft_max",
    "activation_tanh", "add", "average_pooling", "batch_normalization", "convolution", "divide", "gather", "gemm",
    "gru", "input_tensor", "join", "local_response_normalization", "max_pooling", "mean_variance_normalization",
    "multiply", "padding", "reinterpret", "slice", "subtract", "up_sample_2d", "value_scale_2d",
]  # fmt: skip
Truth: TypeAlias = "bool | Literal[0, 1]"


def input_tensor(scope: GraphBuilder, input_index: int, tensor_desc: TensorDesc) -> Expression:
    """An input of a graph: `input_index` is its place among the bindings of `Device.compute`."""
    built = an("input_tensor", "scope", GraphBuilder, scope)
    desc = an("input_tensor", "tensor_desc", TensorDesc, tensor_desc)
    faults: list[Fault] = []
    index = read_int(input_index, "input_index", faults)
    if index in built.inputs and not faults:
        rule = "input_index must be one that no other input has"
        faults.append(Fault(field="input_index", rule=rule, value=index, found=str(index)))
    if faults:
        raise ArgumentError("input_tensor", faults)
    built.inputs[index] = desc.desc
    return Expression.of(built.graph.input(desc.desc))


def convolution(
    input: Expression,
    filter: Expression,
    bias: Expression | None = None,
    mode: ConvolutionMode = ConvolutionMode.CROSS_CORRELATION,
    direction: ConvolutionDirection = ConvolutionDirection.FORWARD,
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    start_padding: Sequence[int] = (),
    end_padding: Sequence[int] = (),
    output_padding: Sequence[int] = (),
    group_count: int = 1,
    fused_activation: FusedActivation | None = None,
    output_sizes: Sequence[int] = (),
) -> Expression:
    """CONVOLUTION. Where they are empty, strides and dilations are 1, paddings 0, and the output's sizes inferred."""
    given = without_empty(locals(), "input", "filter", "bias")
    if (sizes := given.pop("output_sizes", None)) is not None:
        given["output"] = _described("CONVOLUTION", input, sizes)
    return make_one("CONVOLUTION", given)


def up_sample_2d(input: Expression, scale_size: Size2D, interpolation_mode: InterpolationMode) -> Expression:
    """UPSAMPLE_2D: height and width times whole numbers."""
    given = locals()
    size = an("UPSAMPLE_2D", "scale_size", Size2D, scale_size)
    return make_one("UPSAMPLE_2D", {**given, "scale_size": (size.width, size.height)})


def activation_relu(input: Expression) -> Expression:
    """ACTIVATION_RELU: max(0, x)."""
    return make_one("ACTIVATION_RELU", locals())


def activation_sigmoid(input: Expression) -> Expression:
    """ACTIVATION_SIGMOID: 1/(1 + exp(-x))."""
    return make_one("ACTIVATION_SIGMOID", locals())


def activation_identity(input: Expression) -> Expression:
    """ACTIVATION_IDENTITY: a copy."""
    return make_one("ACTIVATION_IDENTITY", locals())


def activation_tanh(input: Expression) -> Expression:
    """ACTIVATION_TANH: the hyperbolic tangent."""
    return make_one("ACTIVATION_TANH", locals())


def activation_soft_max(input: Expression) -> Expression:
    """ACTIVATION_SOFTMAX: exp(x), divided by the sum of these along the last dimension."""
    return make_one("ACTIVATION_SOFTMAX", locals())


def activation_linear(input: Expression, alpha: float, beta: float) -> Expression:
    """ACTIVATION_LINEAR: alpha·x + beta."""
    return make_one("ACTIVATION_LINEAR", locals())


def add(a: Expression, b: Expression, fused_activation: FusedActivation | None = None) -> Expression:
    """ELEMENT_WISE_ADD1: f(a + b)."""
    return make_one("ELEMENT_WISE_ADD1", locals())


def subtract(a: Expression, b: Expression) -> Expression:
    """ELEMENT_WISE_SUBTRACT: a - b."""
    return make_one("ELEMENT_WISE_SUBTRACT", locals())


def multiply(a: Expression, b: Expression) -> Expression:
    """ELEMENT_WISE_MULTIPLY: a·b."""
    return make_one("ELEMENT_WISE_MULTIPLY", locals())


def divide(a: Expression, b: Expression) -> Expression:
    """ELEMENT_WISE_DIVIDE: a/b."""
    return make_one("ELEMENT_WISE_DIVIDE", locals())


def padding(
    input: Expression,
    padding_mode: PaddingMode,
    padding_value: float,
    start_padding: Sequence[int],
    end_padding: Sequence[int],
) -> Expression:
    """PADDING: elements before and after, of one value or taken from the input."""
    return make_one("PADDING", locals())


def mean_variance_normalization(
    input: Expression,
    scale: Expression | None = None,
    bias: Expression | None = None,
    axes: Sequence[int] = (),
    normalize_variance: Truth = REQUIRED,
    epsilon: float = REQUIRED,
    fused_activation: FusedActivation | None = None,
) -> Expression:
    """MEAN_VARIANCE_NORMALIZATION1: f(scale·(x - mean)/√(variance + epsilon) + bias), along axes."""
    return make_one("MEAN_VARIANCE_NORMALIZATION1", complete("mean_variance_normalization", locals()))


def slice(
    input: Expression,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
) -> Expression:
    """SLICE1: elements of a window at steps, which may be negative."""
    return make_one("SLICE1", locals())


def value_scale_2d(input: Expression, scale: float, bias: Sequence[float]) -> Expression:
    """VALUE_SCALE_2D: scale·x + bias, with a bias for each channel."""
    return make_one("VALUE_SCALE_2D", locals())


def batch_normalization(
    input: Expression,
    mean: Expression,
    variance: Expression,
    scale: Expression,
    bias: Expression,
    spatial: Truth,
    epsilon: float,
    fused_activation: FusedActivation | None = None,
) -> Expression:
    """BATCH_NORMALIZATION: f(scale·(x - mean)/√(variance + epsilon) + bias)."""
    return make_one("BATCH_NORMALIZATION", locals())


def local_response_normalization(
    input: Expression, cross_channel: Truth, local_size: int, alpha: float, beta: float, bias: float
) -> Expression:
    """LOCAL_RESPONSE_NORMALIZATION: x divided by a power of the squares beside it."""
    return make_one("LOCAL_RESPONSE_NORMALIZATION", locals())


def gemm(
    a: Expression,
    b: Expression,
    c: Expression | None = None,
    trans_a: MatrixTransform = MatrixTransform.NONE,
    trans_b: MatrixTransform = MatrixTransform.NONE,
    alpha: float = 1.0,
    beta: float = 1.0,
    fused_activation: FusedActivation | None = None,
) -> Expression:
    """GEMM: f(alpha·a·b + beta·c), of matrices."""
    return make_one("GEMM", locals())


def average_pooling(
    input: Expression,
    strides: Sequence[int],
    window_sizes: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    include_padding: Truth,
) -> Expression:
    """AVERAGE_POOLING: the mean of each window."""
    return make_one("AVERAGE_POOLING", locals())


def max_pooling(
    input: Expression,
    window_sizes: Sequence[int],
    strides: Sequence[int] = (),
    start_padding: Sequence[int] = (),
    end_padding: Sequence[int] = (),
    dilations: Sequence[int] = (),
    output_indices: Truth = False,
) -> MaxPoolingOutputs:
    """MAX_POOLING2: the largest of each window, and where it is. Steps are 1 and paddings 0, where they are empty."""
    given, faults = without_empty(locals(), "input", "window_sizes"), list[Fault]()
    if read_bool(given.pop("output_indices", None), "output_indices", faults):
        given["output_indices_tensor"] = True
    if faults:
        raise ArgumentError("max_pooling", faults)
    made = make("MAX_POOLING2", given)
    return MaxPoolingOutputs(made["OutputTensor"], made.get("OutputIndicesTensor", Expression()))


def reinterpret(
    input: Expression, new_type: TensorDataType, new_size: Sequence[int], new_strides: Sequence[int] | None
) -> Expression:
    """The same memory in another description."""
    inner = an("reinterpret", "input", Expression, input).inner("reinterpret", "input")
    kind = an("reinterpret", "new_type", TensorDataType, new_type)
    return Expression.of(inner.reinterpret(new_size, new_strides, kind.name))


def join(input: Sequence[Expression], axis: int) -> Expression:
    """JOIN: tensors one after another along an axis."""
    return make_one("JOIN", locals())


def gru(
    input: Expression,
    weight: Expression,
    recurrence: Expression,
    bias: Expression | None = None,
    hidden_init: Expression | None = None,
    sequence_lengths: Expression | None = None,
    activation_descs: Sequence[FusedActivation] = REQUIRED,
    direction: RecurrentNetworkDirection = REQUIRED,
    linear_before_reset: int = 1,
    output_options: OutputOptions = REQUIRED,
) -> GRUOutputs:
    """GRU: a layer of gated recurrent units."""
    given = complete("gru", locals())
    options = an("gru", "output_options", OutputOptions, given.pop("output_options"))
    ways = 2 if direction is RecurrentNetworkDirection.BIDIRECTIONAL else 1
    steps, batch, hidden = (*_sizes(input, 4)[1:3], _sizes(recurrence, 4)[3])
    wanted = {
        "output_sequence": (OutputOptions.Sequence, (steps, ways, batch, hidden)),
        "output_single": (OutputOptions.Single, (1, ways, batch, hidden)),
    }
    for name, (option, sizes) in wanted.items():
        is_wanted = options in (OutputOptions.Both, option)
        given[name] = _described("GRU", input, sizes) if is_wanted else None
    made = make("GRU", given)
    return GRUOutputs(*(made.get(f"Output{name}Tensor", Expression()) for name in ("Sequence", "Single")))


def gather(input: Expression, indices: Expression, axis: int, index_dimensions: int) -> Expression:
    """GATHER: the elements or blocks that indices point at along an axis."""
    return make_one("GATHER", locals())


def _sizes(x: object, least: int) -> list[int]:
    """The sizes of a tensor; of what is none, or has too few, numbers that stand in until a check tells."""
    found = x.get_output_desc().sizes if isinstance(x, Expression) else []
    return [*found, *[1] * (least - len(found))]


def _described(kind: str, like: object, sizes: Any) -> tensor.TensorDesc:
    """An output of an input's type."""
    data_type = an(kind, "input", Expression, like).inner(kind, "input").data_type
    try:
        return tensor.TensorDesc(data_type, sizes)
    except DescriptionError as error:
        raise as_argument_error(error.within(kind, "OutputTensor.")) from None

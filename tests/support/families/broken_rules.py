"""Rules of products, windows, attention and regions, broken one by one, with the words of their errors."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from refusals import Broken

if TYPE_CHECKING:
    from collections.abc import Callable


def _broken(act: Callable[[], object], message: str) -> Broken:
    """By the rule that it breaks: `...` at a message's end is for what more is said."""
    error = dml.FeatureLevelError if " needs DML_FEATURE_LEVEL" in message else dml.DescriptionError
    return Broken(message.partition(": ")[2][:60], act, message, error)


# Products and quantisation

T = dml.TensorDesc
A, B, HALF = T("float32", (2, 3)), T("float32", (3, 4)), T("float16", (3, 4))
U, I = T("uint8", (2, 3)), T("int8", (3, 4))  # noqa: E741 - of the type
ONE, BYTE = T("float32", (1, 1)), T("uint8", (1, 1))
SOFTMAX1 = {"Type": "ACTIVATION_SOFTMAX1", "Axes": [2]}
PRODUCT = {"a_tensor": U, "b_tensor": I, "a_scale_tensor": ONE, "b_scale_tensor": ONE}


def gemm(**more: Any) -> dml.OperatorDesc:
    return dml.Gemm.infer(**{"a_tensor": A, "b_tensor": B, **more})


def checked(desc: dml.OperatorDesc, level: str = "6_4") -> None:
    dml.Device("reference", feature_level=level).create_operator(desc)


def integers(**more: Any) -> dml.OperatorDesc:
    return dml.MatrixMultiplyInteger.infer(**{"a_tensor": U, "b_tensor": I, **more})


def quantized(**more: Any) -> dml.OperatorDesc:
    return dml.QuantizedLinearMatrixMultiply.infer(**{**PRODUCT, "output_scale_tensor": ONE, **more})


def to_float(**more: Any) -> dml.OperatorDesc:
    return dml.MatrixMultiplyIntegerToFloat.infer(**{**PRODUCT, **more})


def quantize(**more: Any) -> dml.OperatorDesc:
    given = {"input_tensor": A, "quantization_type": "SCALE", "quantization_tensors": [ONE], **more}
    return dml.Quantize.infer(**given)


def line(**more: Any) -> dml.OperatorDesc:
    return dml.ElementWiseQuantizeLinear.infer(**{"input_tensor": A, "scale_tensor": A, **more})


def added(**more: Any) -> dml.OperatorDesc:
    scales = dict.fromkeys(("a_scale_tensor", "b_scale_tensor", "output_scale_tensor"), ONE)
    return dml.ElementWiseQuantizedLinearAdd.infer(**{"a_tensor": U, "b_tensor": U, **scales, **more})


def dynamic(**more: Any) -> dml.OperatorDesc:
    return dml.DynamicQuantizeLinear.infer(input_tensor=A, **more)


_PRODUCTS: list[tuple[Any, str]] = [
    (lambda: gemm(b_tensor=T("float32", (4, 3))),
     "GEMM: BTensor.Sizes[0] must be ATensor.Sizes[1], 3; got 4; TransB TRANSPOSE would fit"),
    (lambda: gemm(trans_a=True), "GEMM: BTensor.Sizes[0] must be ATensor.Sizes[0], 2; got 3"),
    (lambda: gemm(trans_b="TRANSPOSE"),
     "GEMM: BTensor.Sizes[1] must be ATensor.Sizes[1], 3; got 4; TransB NONE would fit"),
    (lambda: gemm(a_tensor=T("float32", (5, 2, 3)), b_tensor=T("float32", (4, 3, 4))),
     "GEMM: BTensor.Sizes[0] must be ATensor.Sizes[0], 5; got 4; a stride of 0 repeats a matrix"),
    (lambda: gemm(b_tensor=HALF), "GEMM: BTensor.DataType must be ATensor.DataType, FLOAT32; got FLOAT16"),
    (lambda: gemm(a_tensor=T("float32", (3,)), b_tensor=T("float32", (3,))),
     "GEMM: ATensor must have at least 2 dimensions, which are a matrix's; got (3,)"),
    (lambda: gemm(b_tensor=T("float32", (1, 3, 4))),
     "GEMM: BTensor.DimensionCount must be ATensor.DimensionCount, 2; got 3"),
    (lambda: gemm(c_tensor=T("float32", (1, 4))),
     "GEMM: CTensor.Sizes must be (2, 4), the rows of ATensor and the columns of BTensor; got (1, 4)"),
    (lambda: checked(dml.Gemm(a_tensor=A, b_tensor=B, output_tensor=A)),
     "GEMM: OutputTensor.Sizes must be (2, 4), the rows of ATensor and the columns of BTensor; got (2, 3)"),
    (lambda: gemm(trans_a="SIDEWAYS"), "GEMM: TransA must be one of NONE, TRANSPOSE; got 'SIDEWAYS'"),
    (lambda: gemm(alpha="2 of them"), "GEMM: Alpha must be a number; got '2 of them'"),
    (lambda: gemm(fused_activation="SWISH"), "GEMM: FusedActivation.Type must be one of ACTIVATION_CELU, ..."),
    (lambda: gemm(fused_activation=SOFTMAX1),
     "GEMM: FusedActivation.Axes[0] must be below InputTensor.DimensionCount, 2; got 2"),
    (lambda: integers(a_zero_point_tensor=T("int8", (1, 1))),
     "MATRIX_MULTIPLY_INTEGER: AZeroPointTensor.DataType must be ATensor.DataType, UINT8; got INT8"),
    (lambda: integers(a_zero_point_tensor=T("uint8", (3, 1))),
     ("MATRIX_MULTIPLY_INTEGER: AZeroPointTensor.Sizes must be (1, 1) or (2, 1), a number for all or one for each row;"
     " got (3, 1)")),
    (lambda: integers(b_zero_point_tensor=T("int8", (1, 2))),
     ("MATRIX_MULTIPLY_INTEGER: BZeroPointTensor.Sizes must be (1, 1) or (1, 4), a number for all or one for each"
      " column; got (1, 2)")),
    (lambda: integers(b_zero_point_tensor=T("int8", (3,))),
     ("MATRIX_MULTIPLY_INTEGER: BZeroPointTensor.Sizes must be (1,) or (4,), a number for all or one for each column;"
     " got (3,)")),
    (lambda: to_float(bias_tensor=T("float32", (1, 4))),
     ("MATRIX_MULTIPLY_INTEGER_TO_FLOAT: BiasTensor.Sizes must be (2, 4), the rows of ATensor and the columns of"
     " BTensor; got (1, 4)")),
    (lambda: to_float(b_scale_tensor=T("float16", (1, 1))),
     "MATRIX_MULTIPLY_INTEGER_TO_FLOAT: BScaleTensor.DataType must be AScaleTensor.DataType, FLOAT32; got FLOAT16"),
    (lambda: quantized(b_scale_tensor=T("float32", (1,))),
     "QUANTIZED_LINEAR_MATRIX_MULTIPLY: BScaleTensor.DimensionCount must be AScaleTensor.DimensionCount, 2; got 1"),
    (lambda: checked(quantized(output_zero_point_tensor=BYTE, output_tensor=T("int8", (2, 4)))),
     "QUANTIZED_LINEAR_MATRIX_MULTIPLY: OutputTensor.DataType must be OutputZeroPointTensor.DataType, UINT8; got INT8"),
    (lambda: line(scale_tensor=T("float16", (2, 3))),
     "ELEMENT_WISE_QUANTIZE_LINEAR: ScaleTensor.DataType must be InputTensor.DataType, FLOAT32; got FLOAT16"),
    (lambda: line(input_tensor=T("int32", (2, 3)), scale_tensor=T("float16", (2, 3))),
     "ELEMENT_WISE_QUANTIZE_LINEAR: ScaleTensor.DataType must be FLOAT32 with an InputTensor of INT32; got FLOAT16"),
    (lambda: line(scale_tensor=ONE),
     "ELEMENT_WISE_QUANTIZE_LINEAR: ScaleTensor.Sizes must be (2, 3), InputTensor.Sizes; got (1, 1)"),
    (lambda: checked(line(zero_point_tensor=U, output_tensor=T("int8", (2, 3)))),
     "ELEMENT_WISE_QUANTIZE_LINEAR: OutputTensor.DataType must be ZeroPointTensor.DataType, UINT8; got INT8"),
    (lambda: added(b_scale_tensor=T("float32", (2, 2))),
     "ELEMENT_WISE_QUANTIZED_LINEAR_ADD: BScaleTensor.Sizes[1] must be 3 as ATensor.Sizes[1] is, or 1; got 2"),
    (lambda: added(a_zero_point_tensor=T("int8", (1, 1))),
     "ELEMENT_WISE_QUANTIZED_LINEAR_ADD: AZeroPointTensor.DataType must be ATensor.DataType, UINT8; got INT8"),
    (lambda: checked(dynamic(output_scale_tensor=T("float32", (1, 2)))),
     "DYNAMIC_QUANTIZE_LINEAR: OutputScaleTensor.Sizes must be (1, 1), one element; got (1, 2)"),
    (lambda: checked(dynamic(output_zero_point_tensor=T("int8", (1, 1)))),
     "DYNAMIC_QUANTIZE_LINEAR: OutputZeroPointTensor.DataType must be OutputTensor.DataType, UINT8; got INT8"),
    (lambda: quantize(quantization_type="NONE"),
     "QUANTIZE: QuantizationType must be SCALE or SCALE_ZERO_POINT; got NONE"),
    (lambda: quantize(quantization_type="SCALE_ZERO_POINT"),
     ("QUANTIZE: QuantizationTensors must have 2 tensors, the scale and the zero point, for a QuantizationType of"
     " SCALE_ZERO_POINT; got 1")),
    (lambda: quantize(quantization_tensors=[ONE, BYTE]),
     "QUANTIZE: QuantizationTensors must have 1 tensor, the scale, for a QuantizationType of SCALE; got 2"),
    (lambda: quantize(quantization_tensors=[T("float32", (2, 2))]),
     "QUANTIZE: QuantizationTensors[0].Sizes[1] must divide InputTensor.Sizes[1], 3, into blocks; got 2"),
    (lambda: quantize(quantization_tensors=[T("float32", (1,))]),
     "QUANTIZE: QuantizationTensors[0].DimensionCount must be InputTensor.DimensionCount, 2; got 1"),
    (lambda: quantize(quantization_type="SCALE_ZERO_POINT", quantization_tensors=[ONE, T("uint8", (2, 1))]),
     "QUANTIZE: QuantizationTensors[1].Sizes must be (1, 1), QuantizationTensors[0].Sizes; got (2, 1)"),
    (lambda: checked(quantize(output_tensor=T("int4", (2, 3), strides=(5, 1)))),
     ("QUANTIZE: OutputTensor.Strides must put two elements in every byte: without gaps, or of 1 along an even size and"
     " even otherwise; got strides (5, 1) for sizes (2, 3); an odd count of 4-bit elements across a stride leaves half"
     " of a byte; leave Strides out")),
    (lambda: dml.Dequantize.infer(input_tensor=U, quantization_type="SCALE", quantization_tensors=[BYTE]),
     "DEQUANTIZE: QuantizationTensors[0], the scale, must be of FLOAT32 or FLOAT16; got UINT8"),
    (lambda: dml.Dequantize.infer(
        input_tensor=U, quantization_type="SCALE_ZERO_POINT", quantization_tensors=[ONE, T("int8", (1, 1))]),
     "DEQUANTIZE: QuantizationTensors[1].DataType must be InputTensor.DataType, UINT8; got INT8"),
]  # fmt: skip


# Windows

X, W, SMALL = T("float32", (1, 4, 5, 6)), T("float32", (6, 2, 3, 3)), T("float32", (1, 4, 2, 2))
BYTES = {"input_tensor": T("uint8", (1, 2, 4, 4)), "filter_tensor": T("int8", (3, 2, 2, 2))}


def conv(**more: Any) -> dml.OperatorDesc:
    return dml.Convolution.infer(**{"input_tensor": X, "filter_tensor": W, "group_count": 2, **more})


def whole(**more: Any) -> dml.OperatorDesc:
    return dml.ConvolutionInteger.infer(**{**BYTES, **more})


def backward(output: tuple[int, ...]) -> None:
    desc = conv(filter_tensor=T("float32", (4, 3, 3, 3)), direction="BACKWARD", strides=2)
    checked(desc.with_tensors(lambda name, own: T("float32", output) if name == "OutputTensor" else own))


_WINDOWS: list[tuple[Any, str]] = [
    (lambda: conv(group_count=3),
     ("CONVOLUTION: FilterTensor.Sizes[1] times GroupCount, 3, must be InputTensor.Sizes[1], 4; got 2; "
     "GroupCount 2 would fit")),
    (lambda: conv(group_count=0), "CONVOLUTION: GroupCount must be at least 1; got 0"),
    (lambda: conv(filter_tensor=T("float32", (5, 2, 3, 3))),
     "CONVOLUTION: FilterTensor.Sizes[0] must be a multiple of GroupCount, 2; got 5"),
    (lambda: conv(direction="BACKWARD"),
     "CONVOLUTION: FilterTensor.Sizes[0] must be InputTensor.Sizes[1], 4, as Direction is BACKWARD; got 6"),
    (lambda: conv(strides=(1, 0)), "CONVOLUTION: Strides[1] must be at least 1; got 0"),
    (lambda: conv(dilations=(1, 1, 1)),
     "CONVOLUTION: Dilations must have 2 values, one for each spatial dimension of InputTensor; got 3"),
    (lambda: conv(dilations=3, end_padding=(1, 0)),
     ("CONVOLUTION: 2 rules are broken\n"
     "  FilterTensor.Sizes[2], which reaches over 7 elements, must fit into the 6 that InputTensor has with its "
     "padding; got 3; larger padding makes room\n"
     "  FilterTensor.Sizes[3], which reaches over 7 elements, must fit into the 6 that InputTensor has with its "
     "padding; got 3; larger padding makes room")),
    (lambda: conv(bias_tensor=T("float32", (1, 4, 1, 1))),
     "CONVOLUTION: BiasTensor.Sizes must be (1, 6, 1, 1), one for each channel of the output; got (1, 4, 1, 1)"),
    (lambda: conv(filter_tensor=T("float16", (6, 2, 3, 3))),
     "CONVOLUTION: FilterTensor.DataType must be InputTensor.DataType, FLOAT32; got FLOAT16"),
    (lambda: conv(input_tensor=T("float32", (4, 5)), filter_tensor=T("float32", (4, 5))),
     "CONVOLUTION: InputTensor must have at least 3 dimensions, the last ones spatial; got (4, 5)"),
    (lambda: backward((1, 6, 13, 13)),
     "CONVOLUTION: OutputTensor.Sizes[2] must be 11 .. 12, from which InputTensor.Sizes[2] follows; got 13"),
    (lambda: backward((1, 5, 11, 13)),
     "CONVOLUTION: OutputTensor.Sizes[1] must be 6, from which InputTensor.Sizes[1] follows; got 5"),
    (lambda: conv(filter_tensor=T("float32", (4, 3, 3, 3)), direction="BACKWARD", start_padding=(9, 0)),
     "CONVOLUTION: StartPadding[0] and EndPadding[0] must leave an element of the output; got -2 left"),
    (lambda: checked(dml.Convolution(
        input_tensor=X, filter_tensor=W, group_count=2, output_tensor=T("float32", (1, 6, 3, 5)))),
     ("CONVOLUTION: OutputTensor.Sizes must be (1, 6, 3, 4), of the windows that fit into InputTensor; "
     "got (1, 6, 3, 5)")),
    (lambda: checked(conv(fused_activation={"Type": "CLIP", "Min": 0, "Max": 6}), "5_2"),
     "CONVOLUTION: FusedActivation of ELEMENT_WISE_CLIP needs DML_FEATURE_LEVEL_6_0; this device is 5_2"),
    (lambda: conv(fused_activation="ACTIVATION_SOFTMAX"),
     "CONVOLUTION: FusedActivation.Type must be one of ACTIVATION_CELU, ..."),
    (lambda: dml.convolution(np.ones((1, 2, 5), "f"), np.ones((1, 2, 3), "f"),
                             device=dml.Device("reference", feature_level="3_1")),
     "CONVOLUTION: InputTensor of 3 dimensions needs DML_FEATURE_LEVEL_4_0; this device is 3_1, which takes 4 or 5"),
    (lambda: whole(filter_zero_point_tensor=T("int8", (1, 2, 1, 1))),
     ("CONVOLUTION_INTEGER: FilterZeroPointTensor.Sizes must be (1, 1, 1, 1) or (1, 3, 1, 1), a number for all or one "
     "for each channel of the output; got (1, 2, 1, 1)")),
    (lambda: whole(input_zero_point_tensor=T("uint8", (1, 2, 1, 1))),
     "CONVOLUTION_INTEGER: InputZeroPointTensor.Sizes must be (1, 1, 1, 1), a number for all; got (1, 2, 1, 1)"),
    (lambda: dml.MaxPooling.infer(input_tensor=SMALL, window_size=3),
     "MAX_POOLING: 2 rules are broken\n  WindowSize[0], which reaches over 3 elements, must fit into the 2 that ..."),
    (lambda: dml.LpPooling.infer(input_tensor=SMALL, window_size=2, p=0), "LP_POOLING: P must be at least 1; got 0"),
    (lambda: checked(dml.MaxPooling1(input_tensor=SMALL, window_size=2, output_tensor=T("float32", (1, 4, 1, 1)),
                                     output_indices_tensor=T("uint32", (1, 4, 1, 2)))),
     "MAX_POOLING1: OutputIndicesTensor.Sizes must be (1, 4, 1, 1), OutputTensor.Sizes; got (1, 4, 1, 2)"),
    (lambda: dml.MaxPoolingGrad.infer(input_tensor=X, input_gradient_tensor=SMALL, window_size=2, strides=2),
     ("MAX_POOLING_GRAD: InputGradientTensor.Sizes must be (1, 4, 2, 3), of the windows that fit into InputTensor; "
     "got (1, 4, 2, 2)")),
    (lambda: checked(dml.AveragePoolingGrad(input_gradient_tensor=SMALL, output_gradient_tensor=X, window_size=2,
                                            strides=2)),
     "AVERAGE_POOLING_GRAD: OutputGradientTensor.Sizes[3] must be 4 .. 5, into which the windows fit; got 6"),
    (lambda: dml.AveragePoolingGrad.infer(input_gradient_tensor=SMALL, window_size=1, end_padding=(3, 0)),
     "AVERAGE_POOLING_GRAD: StartPadding[0] and EndPadding[0] must leave an element of the output; got -1 left"),
    (lambda: checked(dml.MaxUnpooling(input_tensor=SMALL, indices_tensor=T("uint32", (1, 4, 2, 2)),
                                      output_tensor=T("float32", (1, 5, 4, 4)))),
     "MAX_UNPOOLING: OutputTensor.Sizes[1] must be InputTensor.Sizes[1], 4; got 5"),
    (lambda: dml.QuantizedLinearAveragePooling.infer(
        input_tensor=BYTES["input_tensor"], input_scale_tensor=T("float32", (1, 2, 1, 1)),
        output_scale_tensor=T("float32", (1,)), window_size=2),
     ("QUANTIZED_LINEAR_AVERAGE_POOLING: InputScaleTensor.Sizes must be (1, 1, 1, 1), a number for all; "
     "got (1, 2, 1, 1)")),
]  # fmt: skip


# Attention

Q, K = T("float32", (2, 3, 8)), T("float32", (2, 5, 8))


def attention(**more: Any) -> Any:
    given = {"query_tensor": Q, "key_tensor": K, "value_tensor": K, "head_count": 2, **more}
    desc = dml.MultiheadAttention.infer(**{name: one for name, one in given.items() if one is not None})
    dml.Device("reference").create_operator(desc)
    return desc


def cached(**more: Any) -> dml.OperatorDesc:
    given = {"query_tensor": K, "key_tensor": K, "value_tensor": K, "past_sequence_lengths_tensor": T("int32", (2,))}
    desc = dml.MultiheadAttention1.infer(**{**given, **more})
    dml.Device("reference").create_operator(desc)
    return desc


ROOM, SMALL_ROOM = T("float32", (2, 1, 9, 8)), T("float32", (2, 1, 4, 8))
_ATTENTION: list[tuple[Any, dict[str, Any], str]] = [
    (attention, {"query_tensor": None},
     "QueryTensor must be given, or StackedQueryKeyTensor or StackedQueryKeyValueTensor; got none"),
    (attention, {"stacked_key_value_tensor": T("float32", (2, 5, 2, 2, 4))},
     ("2 rules are broken\n  StackedKeyValueTensor must not be given beside KeyTensor: both have the key\n"
     "  StackedKeyValueTensor must not be given beside ValueTensor: both have the value")),
    (attention, {"key_tensor": T("float16", (2, 5, 8))},
     "KeyTensor.DataType must be QueryTensor.DataType, FLOAT32; got FLOAT16"),
    (attention, {"head_count": 3},
     "3 rules are broken\n  QueryTensor.Sizes[2] must be a multiple of HeadCount, 3; got 8\n  KeyTensor..."),
    (attention, {"head_count": 0}, "HeadCount must be at least 1; got 0"),
    (attention, {"query_tensor": T("float32", (2, 1, 3, 8))},
     "QueryTensor.Sizes must have at least 3 dimensions, and be 1 in all but the last 3; got (2, 1, 3, 8)"),
    (attention, {"value_tensor": T("float32", (2, 4, 8))},
     "ValueTensor.Sizes must be (2, 5, 8), (batch, sequence, heads·head size) of the value; got (2, 4, 8)"),
    (attention, {"bias_tensor": T("float32", (8,))},
     "BiasTensor.Sizes must be (24,), a number for each of the query's, the key's and the value's; got (8,)"),
    (attention, {"past_key_tensor": T("float32", (2, 2, 1, 4))},
     "PastValueTensor must be given beside PastKeyTensor; got none"),
    (attention, {"mask_tensor": T("int32", (1, 2))}, "MaskType must not be NONE with a MaskTensor; it is one of ..."),
    (attention, {"mask_type": "BOOLEAN"}, "MaskTensor must be given with a MaskType of BOOLEAN; got none"),
    (attention, {"mask_type": "BOOLEAN", "mask_tensor": T("int32", (2, 5))},
     "MaskTensor.Sizes must be (2, 2, 3, 5), (batch, heads, sequence, keys); got (2, 5)"),
    (attention, {"mask_type": "KEY_SEQUENCE_END_START", "mask_tensor": T("int32", (2,))},
     "MaskTensor.Sizes must be (2, 2), the ends, then the starts, of each of the batch; got (2,)"),
    (attention, {"output_tensor": T("float32", (2, 5, 8))},
     "OutputTensor.Sizes must be (2, 3, 8), (batch, sequence, heads·head size); got (2, 5, 8)"),
    (cached, {"query_head_count": 2, "key_value_head_count": 4},
     "QueryHeadCount must be a multiple of KeyValueHeadCount, 4; got 2"),
    (cached, {"query_tensor": Q, "past_key_tensor": ROOM, "past_value_tensor": ROOM},
     "PastSequenceLengthsTensor must be given only where there are as many keys as queries, 3; got 5"),
    (cached, {"past_key_tensor": SMALL_ROOM, "past_value_tensor": SMALL_ROOM},
     "there must be room for the 5 new keys among those that are kept; got 4"),
    (cached, {"output_present_key_tensor": ROOM},
     "OutputPresentValueTensor must be given beside OutputPresentKeyTensor; got none"),
]  # fmt: skip


# Regions

ROIS = dml.TensorDesc("float32", (2, 4))
ALIGNED: dict[str, Any] = {
    "input_tensor": dml.TensorDesc("float32", (1, 3, 4, 5)),
    "input_gradient_tensor": dml.TensorDesc("float32", (2, 3, 2, 2)),
    "roi_tensor": ROIS,
    "batch_indices_tensor": dml.TensorDesc("uint32", (2,)),
    "output_gradient_tensor": dml.TensorDesc("float32", (1, 3, 4, 5)),
    "output_roi_gradient_tensor": ROIS,
}
NO_INPUT = {"input_tensor": None, "output_roi_gradient_tensor": None}
_REGIONS: list[tuple[dict[str, Any], str]] = [
    ({"output_gradient_tensor": None, "output_roi_gradient_tensor": None},
     "OutputGradientTensor or OutputROIGradientTensor must be given; got none"),
    ({"input_tensor": None}, "InputTensor must be given for OutputROIGradientTensor; got none"),
    (NO_INPUT | {"reduction_function": "MAX"}, "InputTensor must be given for a ReductionFunction of MAX; got none"),
    (NO_INPUT | {"output_gradient_tensor": dml.TensorDesc("float32", (5, 2, 4, 5))},
     "OutputGradientTensor.Sizes must be (5, 3, 4, 5), {batch, channels, height, width}; got (5, 2, 4, 5)"),
    ({"output_gradient_tensor": dml.TensorDesc("float32", (2, 3, 4, 5))},
     "OutputGradientTensor.Sizes must be (1, 3, 4, 5), InputTensor.Sizes; got (2, 3, 4, 5)"),
    ({"input_gradient_tensor": dml.TensorDesc("float32", (1, 3, 2, 2))},
     "InputGradientTensor.Sizes must be (2, 3, 2, 2), {regions, channels, height, width}; got (1, 3, 2, 2)"),
    ({"input_gradient_tensor": dml.TensorDesc("float16", (2, 3, 2, 2)), "output_roi_gradient_tensor": None,
      "output_gradient_tensor": dml.TensorDesc("float16", (1, 3, 4, 5))},
     "InputGradientTensor.DataType must be InputTensor.DataType, FLOAT32; got FLOAT16"),
    ({"output_roi_gradient_tensor": dml.TensorDesc("float32", (1, 2, 4))},
     "OutputROIGradientTensor.DimensionCount must be ROITensor.DimensionCount, 2; got 3"),
    ({"output_roi_gradient_tensor": dml.TensorDesc("float16", (2, 4))},
     "OutputROIGradientTensor.DataType must be InputGradientTensor.DataType, FLOAT32; got FLOAT16"),
    ({"reduction_function": "SUM"}, "ReductionFunction must be AVERAGE or MAX; got SUM"),
]  # fmt: skip


def aligned(**changes: Any) -> None:
    checked(dml.RoiAlignGrad(**{**ALIGNED, **changes}))


PRODUCTS = [_broken(*one) for one in _PRODUCTS]
WINDOWS = [_broken(*one) for one in _WINDOWS]
ATTENTION = [
    _broken(functools.partial(make, **more), f"MULTIHEAD_ATTENTION{'1' if make is cached else ''}: {message}")
    for make, more, message in _ATTENTION
]
REGIONS = [
    _broken(functools.partial(aligned, **changes), f"ROI_ALIGN_GRAD: {message}") for changes, message in _REGIONS
]

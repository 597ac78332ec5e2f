# mypy: disable-error-code="overload-overlap"
# Numbers alone are arrays, and with an expression belong to its graph.
"""The names of `import anydml`. Written by `python -m scripts.write_stub`."""

from collections.abc import Sequence
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from anydml.runtime.device import DeviceName

from anydml import dask as dask
from anydml import dxdispatch as dxdispatch
from anydml import genai as genai
from anydml import onnx as onnx
from anydml import onnxruntime as onnxruntime
from anydml import pydirectml as pydirectml
from anydml.explain.callable import explain as explain
from anydml.api.builder import Graph as Graph
from anydml.api.expression import Expression as Expression
from anydml.api.numpy_names import arange as arange, broadcast_to as broadcast_to, embedding as embedding, equal as equal, eye as eye, flatten as flatten, full as full, greater as greater, greater_equal as greater_equal, group_norm as group_norm, isfinite as isfinite, isinf as isinf, isnan as isnan, layer_norm as layer_norm, less as less, less_equal as less_equal, matmul as matmul, moveaxis as moveaxis, not_equal as not_equal, ones as ones, outer as outer, pad as pad, reshape as reshape, rms_norm as rms_norm, rsqrt as rsqrt, sort as sort, square as square, swapaxes as swapaxes, tril as tril, triu as triu, trunc as trunc, where as where, zeros as zeros
from anydml.arrays.device_array import DeviceArray as DeviceArray
from anydml.arrays.tensor import TensorDesc as TensorDesc
from anydml.core.enums import AxisDirection as AxisDirection, ConvolutionDirection as ConvolutionDirection, ConvolutionMode as ConvolutionMode, DataType as DataType, DepthSpaceOrder as DepthSpaceOrder, ExecutionFlags as ExecutionFlags, Feature as Feature, FeatureLevel as FeatureLevel, IndexMode as IndexMode, InterpolationMode as InterpolationMode, IsInfinityMode as IsInfinityMode, MatrixTransform as MatrixTransform, MultiheadAttentionMaskType as MultiheadAttentionMaskType, PaddingMode as PaddingMode, QuantizationType as QuantizationType, RandomGeneratorType as RandomGeneratorType, RecurrentNetworkDirection as RecurrentNetworkDirection, ReduceFunction as ReduceFunction, RoundingMode as RoundingMode, TensorFlags as TensorFlags
from anydml.core.errors import BindingError as BindingError, DescriptionError as DescriptionError, DeviceLostError as DeviceLostError, DmlError as DmlError, DynamicSizesError as DynamicSizesError, Fault as Fault, FeatureLevelError as FeatureLevelError, IndexRangeError as IndexRangeError, MissingDependencyError as MissingDependencyError, ModelError as ModelError, ModelFileError as ModelFileError, Place as Place, UnsupportedError as UnsupportedError
from anydml.core.operator_type import OperatorType as OperatorType
from anydml.core.symbolic_sizes import Size as Size
from anydml.engines import DeviceInfo as DeviceInfo, devices as devices
from anydml.engines.common.threads import get_num_threads as get_num_threads, set_num_threads as set_num_threads
from anydml.graph.description import GraphDesc as GraphDesc
from anydml.graph.nodes import ConstantNode as ConstantNode, InputEdge as InputEdge, IntermediateEdge as IntermediateEdge, OperatorNode as OperatorNode, OutputEdge as OutputEdge
from anydml.graph.pass_names import graph_passes as graph_passes
from anydml.operators import FusedActivation as FusedActivation, LevelSupport as LevelSupport, OPERATORS as OPERATORS, OperatorDesc as OperatorDesc, Report as Report, ScaleBias as ScaleBias, TensorSupport as TensorSupport, support as support
from anydml.operators.activations import ActivationCelu as ActivationCelu, ActivationElu as ActivationElu, ActivationGelu as ActivationGelu, ActivationHardSigmoid as ActivationHardSigmoid, ActivationHardSwish as ActivationHardSwish, ActivationLeakyRelu as ActivationLeakyRelu, ActivationLinear as ActivationLinear, ActivationParameterizedRelu as ActivationParameterizedRelu, ActivationParametricSoftplus as ActivationParametricSoftplus, ActivationRelu as ActivationRelu, ActivationReluGrad as ActivationReluGrad, ActivationScaledElu as ActivationScaledElu, ActivationScaledTanh as ActivationScaledTanh, ActivationShrink as ActivationShrink, ActivationSigmoid as ActivationSigmoid, ActivationSoftplus as ActivationSoftplus, ActivationSoftsign as ActivationSoftsign, ActivationSwish as ActivationSwish, ActivationTanh as ActivationTanh, ActivationThresholdedRelu as ActivationThresholdedRelu
from anydml.operators.arithmetic import ElementWiseAbs as ElementWiseAbs, ElementWiseAcos as ElementWiseAcos, ElementWiseAcosh as ElementWiseAcosh, ElementWiseAdd as ElementWiseAdd, ElementWiseAdd1 as ElementWiseAdd1, ElementWiseAsin as ElementWiseAsin, ElementWiseAsinh as ElementWiseAsinh, ElementWiseAtan as ElementWiseAtan, ElementWiseAtanYX as ElementWiseAtanYX, ElementWiseAtanh as ElementWiseAtanh, ElementWiseCeil as ElementWiseCeil, ElementWiseClip as ElementWiseClip, ElementWiseClip1 as ElementWiseClip1, ElementWiseClipGrad as ElementWiseClipGrad, ElementWiseClipGrad1 as ElementWiseClipGrad1, ElementWiseConstantPow as ElementWiseConstantPow, ElementWiseCos as ElementWiseCos, ElementWiseCosh as ElementWiseCosh, ElementWiseDifferenceSquare as ElementWiseDifferenceSquare, ElementWiseDivide as ElementWiseDivide, ElementWiseErf as ElementWiseErf, ElementWiseExp as ElementWiseExp, ElementWiseFloor as ElementWiseFloor, ElementWiseLog as ElementWiseLog, ElementWiseMax as ElementWiseMax, ElementWiseMean as ElementWiseMean, ElementWiseMin as ElementWiseMin, ElementWiseModulusFloor as ElementWiseModulusFloor, ElementWiseModulusTruncate as ElementWiseModulusTruncate, ElementWiseMultiply as ElementWiseMultiply, ElementWiseNegate as ElementWiseNegate, ElementWisePow as ElementWisePow, ElementWiseRecip as ElementWiseRecip, ElementWiseRound as ElementWiseRound, ElementWiseSign as ElementWiseSign, ElementWiseSin as ElementWiseSin, ElementWiseSinh as ElementWiseSinh, ElementWiseSqrt as ElementWiseSqrt, ElementWiseSubtract as ElementWiseSubtract, ElementWiseTan as ElementWiseTan, ElementWiseTanh as ElementWiseTanh, ElementWiseThreshold as ElementWiseThreshold, ValueScale2D as ValueScale2D
from anydml.operators.attention import MultiheadAttention as MultiheadAttention, MultiheadAttention1 as MultiheadAttention1
from anydml.operators.convolution import Convolution as Convolution, ConvolutionInteger as ConvolutionInteger, Fold as Fold, QuantizedLinearConvolution as QuantizedLinearConvolution, Unfold as Unfold
from anydml.operators.elementwise import ActivationIdentity as ActivationIdentity, Cast as Cast, ElementWiseIdentity as ElementWiseIdentity
from anydml.operators.fill import DiagonalMatrix as DiagonalMatrix, DiagonalMatrix1 as DiagonalMatrix1, FillValueConstant as FillValueConstant, FillValueSequence as FillValueSequence, RandomGenerator as RandomGenerator
from anydml.operators.gather import Gather as Gather, GatherElements as GatherElements, GatherND as GatherND, GatherND1 as GatherND1, Scatter as Scatter, ScatterND as ScatterND
from anydml.operators.logic import ElementWiseBitAnd as ElementWiseBitAnd, ElementWiseBitCount as ElementWiseBitCount, ElementWiseBitNot as ElementWiseBitNot, ElementWiseBitOr as ElementWiseBitOr, ElementWiseBitShiftLeft as ElementWiseBitShiftLeft, ElementWiseBitShiftRight as ElementWiseBitShiftRight, ElementWiseBitXor as ElementWiseBitXor, ElementWiseIf as ElementWiseIf, ElementWiseIsInfinity as ElementWiseIsInfinity, ElementWiseIsNaN as ElementWiseIsNaN, ElementWiseLogicalAnd as ElementWiseLogicalAnd, ElementWiseLogicalEquals as ElementWiseLogicalEquals, ElementWiseLogicalGreaterThan as ElementWiseLogicalGreaterThan, ElementWiseLogicalGreaterThanOrEqual as ElementWiseLogicalGreaterThanOrEqual, ElementWiseLogicalLessThan as ElementWiseLogicalLessThan, ElementWiseLogicalLessThanOrEqual as ElementWiseLogicalLessThanOrEqual, ElementWiseLogicalNot as ElementWiseLogicalNot, ElementWiseLogicalOr as ElementWiseLogicalOr, ElementWiseLogicalXor as ElementWiseLogicalXor
from anydml.operators.manipulation import DepthToSpace as DepthToSpace, DepthToSpace1 as DepthToSpace1, Join as Join, ReverseSubsequences as ReverseSubsequences, SpaceToDepth as SpaceToDepth, SpaceToDepth1 as SpaceToDepth1, Split as Split, Tile as Tile
from anydml.operators.normalization import ActivationHardmax as ActivationHardmax, ActivationHardmax1 as ActivationHardmax1, ActivationLogSoftmax as ActivationLogSoftmax, ActivationLogSoftmax1 as ActivationLogSoftmax1, ActivationSoftmax as ActivationSoftmax, ActivationSoftmax1 as ActivationSoftmax1, BatchNormalization as BatchNormalization, BatchNormalizationGrad as BatchNormalizationGrad, BatchNormalizationTraining as BatchNormalizationTraining, BatchNormalizationTrainingGrad as BatchNormalizationTrainingGrad, LocalResponseNormalization as LocalResponseNormalization, LocalResponseNormalizationGrad as LocalResponseNormalizationGrad, LpNormalization as LpNormalization, MeanVarianceNormalization as MeanVarianceNormalization, MeanVarianceNormalization1 as MeanVarianceNormalization1, MeanVarianceNormalization2 as MeanVarianceNormalization2
from anydml.operators.optimizer import AdamOptimizer as AdamOptimizer
from anydml.operators.pooling import AveragePooling as AveragePooling, AveragePooling1 as AveragePooling1, AveragePoolingGrad as AveragePoolingGrad, LpPooling as LpPooling, LpPooling1 as LpPooling1, MaxPooling as MaxPooling, MaxPooling1 as MaxPooling1, MaxPooling2 as MaxPooling2, MaxPoolingGrad as MaxPoolingGrad, MaxUnpooling as MaxUnpooling, QuantizedLinearAveragePooling as QuantizedLinearAveragePooling
from anydml.operators.products import Gemm as Gemm, MatrixMultiplyInteger as MatrixMultiplyInteger, MatrixMultiplyIntegerToFloat as MatrixMultiplyIntegerToFloat, QuantizedLinearMatrixMultiply as QuantizedLinearMatrixMultiply
from anydml.operators.quantization import Dequantize as Dequantize, DynamicQuantizeLinear as DynamicQuantizeLinear, ElementWiseDequantizeLinear as ElementWiseDequantizeLinear, ElementWiseQuantizeLinear as ElementWiseQuantizeLinear, ElementWiseQuantizedLinearAdd as ElementWiseQuantizedLinearAdd, Quantize as Quantize
from anydml.operators.recurrent import Gru as Gru, Lstm as Lstm, Rnn as Rnn
from anydml.operators.reductions import Argmax as Argmax, Argmin as Argmin, CumulativeProduct as CumulativeProduct, CumulativeSummation as CumulativeSummation, Reduce as Reduce
from anydml.operators.regions import RoiAlign as RoiAlign, RoiAlign1 as RoiAlign1, RoiAlignGrad as RoiAlignGrad, RoiPooling as RoiPooling
from anydml.operators.resampling import Resample as Resample, Resample1 as Resample1, Resample2 as Resample2, Resample3 as Resample3, ResampleGrad as ResampleGrad, ResampleGrad1 as ResampleGrad1, Upsample2D as Upsample2D
from anydml.operators.select import NonzeroCoordinates as NonzeroCoordinates, OneHot as OneHot, TopK as TopK, TopK1 as TopK1
from anydml.operators.slice import Padding as Padding, Padding1 as Padding1, Slice as Slice, Slice1 as Slice1, SliceGrad as SliceGrad
from anydml.runtime.binding import BindingProperties as BindingProperties, BufferBinding as BufferBinding
from anydml.runtime.bound import BoundOperator as BoundOperator
from anydml.runtime.commands import CommandList as CommandList, CommandRecorder as CommandRecorder
from anydml.runtime.compiled import CompiledOperator as CompiledOperator, Operator as Operator
from anydml.runtime.device import Device as Device, to_device as to_device
from anydml.runtime.graph import CompiledGraph as CompiledGraph
from anydml.runtime.initializer import OperatorInitializer as OperatorInitializer
from anydml.runtime.symbolic import SymbolicGraph as SymbolicGraph
from anydml.runtime.table import BindingTable as BindingTable

class _HasShape(Protocol):
    @property
    def shape(self) -> Any: ...

_S = TypeVar("_S", bound=np.generic)
_A = TypeVar("_A", bound=_HasShape)
_R = TypeVar("_R")
_Q = TypeVar("_Q")
_Number = float | np.number[Any] | np.bool_
_Plain = _Number | Sequence[Any]
_Device = Device | DeviceName | str
_Activation = FusedActivation | type[OperatorDesc] | OperatorType | str
_ScaleBias = ScaleBias | tuple[float, float]
_DataType = DataType | type[Any] | np.dtype[Any] | str
_AxisDirection = AxisDirection | Literal['INCREASING', 'DECREASING', 'increasing', 'decreasing']
_ConvolutionDirection = ConvolutionDirection | Literal['FORWARD', 'BACKWARD', 'forward', 'backward']
_ConvolutionMode = ConvolutionMode | Literal['CONVOLUTION', 'CROSS_CORRELATION', 'convolution', 'cross_correlation']
_DepthSpaceOrder = DepthSpaceOrder | Literal['DEPTH_COLUMN_ROW', 'COLUMN_ROW_DEPTH', 'depth_column_row', 'column_row_depth']
_IndexMode = IndexMode | Literal['RAISE', 'CLAMP', 'raise', 'clamp']
_InterpolationMode = InterpolationMode | Literal['NEAREST_NEIGHBOR', 'LINEAR', 'nearest_neighbor', 'linear']
_IsInfinityMode = IsInfinityMode | Literal['EITHER', 'POSITIVE', 'NEGATIVE', 'either', 'positive', 'negative']
_MatrixTransform = MatrixTransform | Literal['NONE', 'TRANSPOSE', 'none', 'transpose']
_MultiheadAttentionMaskType = MultiheadAttentionMaskType | Literal['NONE', 'KEY_SEQUENCE_LENGTH', 'KEY_SEQUENCE_END_START', 'KEY_QUERY_SEQUENCE_LENGTH_START_END', 'BOOLEAN', 'none', 'key_sequence_length', 'key_sequence_end_start', 'key_query_sequence_length_start_end', 'boolean']
_PaddingMode = PaddingMode | Literal['CONSTANT', 'EDGE', 'REFLECTION', 'SYMMETRIC', 'WRAP', 'constant', 'edge', 'reflection', 'symmetric', 'wrap']
_RandomGeneratorType = RandomGeneratorType | Literal['PHILOX_4X32_10', 'philox_4x32_10']
_RecurrentNetworkDirection = RecurrentNetworkDirection | Literal['FORWARD', 'BACKWARD', 'BIDIRECTIONAL', 'forward', 'backward', 'bidirectional']
_ReduceFunction = ReduceFunction | Literal['ARGMAX', 'ARGMIN', 'AVERAGE', 'L1', 'L2', 'LOG_SUM', 'LOG_SUM_EXP', 'MAX', 'MIN', 'MULTIPLY', 'SUM', 'SUM_SQUARE', 'argmax', 'argmin', 'average', 'l1', 'l2', 'log_sum', 'log_sum_exp', 'max', 'min', 'multiply', 'sum', 'sum_square']
_RoundingMode = RoundingMode | Literal['HALVES_TO_NEAREST_EVEN', 'TOWARD_ZERO', 'TOWARD_INFINITY', 'halves_to_nearest_even', 'toward_zero', 'toward_infinity']

__version__: str
__all__ = ['ActivationCelu', 'ActivationElu', 'ActivationGelu', 'ActivationHardSigmoid', 'ActivationHardSwish', 'ActivationHardmax', 'ActivationHardmax1', 'ActivationIdentity', 'ActivationLeakyRelu', 'ActivationLinear', 'ActivationLogSoftmax', 'ActivationLogSoftmax1', 'ActivationParameterizedRelu', 'ActivationParametricSoftplus', 'ActivationRelu', 'ActivationReluGrad', 'ActivationScaledElu', 'ActivationScaledTanh', 'ActivationShrink', 'ActivationSigmoid', 'ActivationSoftmax', 'ActivationSoftmax1', 'ActivationSoftplus', 'ActivationSoftsign', 'ActivationSwish', 'ActivationTanh', 'ActivationThresholdedRelu', 'AdamOptimizer', 'Argmax', 'Argmin', 'AveragePooling', 'AveragePooling1', 'AveragePoolingGrad', 'AxisDirection', 'BatchNormalization', 'BatchNormalizationGrad', 'BatchNormalizationTraining', 'BatchNormalizationTrainingGrad', 'BindingError', 'BindingProperties', 'BindingTable', 'BoundOperator', 'BufferBinding', 'Cast', 'CommandList', 'CommandRecorder', 'CompiledGraph', 'CompiledOperator', 'ConstantNode', 'Convolution', 'ConvolutionDirection', 'ConvolutionInteger', 'ConvolutionMode', 'CumulativeProduct', 'CumulativeSummation', 'DataType', 'DepthSpaceOrder', 'DepthToSpace', 'DepthToSpace1', 'Dequantize', 'DescriptionError', 'Device', 'DeviceArray', 'DeviceInfo', 'DeviceLostError', 'DiagonalMatrix', 'DiagonalMatrix1', 'DmlError', 'DynamicQuantizeLinear', 'DynamicSizesError', 'ElementWiseAbs', 'ElementWiseAcos', 'ElementWiseAcosh', 'ElementWiseAdd', 'ElementWiseAdd1', 'ElementWiseAsin', 'ElementWiseAsinh', 'ElementWiseAtan', 'ElementWiseAtanYX', 'ElementWiseAtanh', 'ElementWiseBitAnd', 'ElementWiseBitCount', 'ElementWiseBitNot', 'ElementWiseBitOr', 'ElementWiseBitShiftLeft', 'ElementWiseBitShiftRight', 'ElementWiseBitXor', 'ElementWiseCeil', 'ElementWiseClip', 'ElementWiseClip1', 'ElementWiseClipGrad', 'ElementWiseClipGrad1', 'ElementWiseConstantPow', 'ElementWiseCos', 'ElementWiseCosh', 'ElementWiseDequantizeLinear', 'ElementWiseDifferenceSquare', 'ElementWiseDivide', 'ElementWiseErf', 'ElementWiseExp', 'ElementWiseFloor', 'ElementWiseIdentity', 'ElementWiseIf', 'ElementWiseIsInfinity', 'ElementWiseIsNaN', 'ElementWiseLog', 'ElementWiseLogicalAnd', 'ElementWiseLogicalEquals', 'ElementWiseLogicalGreaterThan', 'ElementWiseLogicalGreaterThanOrEqual', 'ElementWiseLogicalLessThan', 'ElementWiseLogicalLessThanOrEqual', 'ElementWiseLogicalNot', 'ElementWiseLogicalOr', 'ElementWiseLogicalXor', 'ElementWiseMax', 'ElementWiseMean', 'ElementWiseMin', 'ElementWiseModulusFloor', 'ElementWiseModulusTruncate', 'ElementWiseMultiply', 'ElementWiseNegate', 'ElementWisePow', 'ElementWiseQuantizeLinear', 'ElementWiseQuantizedLinearAdd', 'ElementWiseRecip', 'ElementWiseRound', 'ElementWiseSign', 'ElementWiseSin', 'ElementWiseSinh', 'ElementWiseSqrt', 'ElementWiseSubtract', 'ElementWiseTan', 'ElementWiseTanh', 'ElementWiseThreshold', 'ExecutionFlags', 'Expression', 'Fault', 'Feature', 'FeatureLevel', 'FeatureLevelError', 'FillValueConstant', 'FillValueSequence', 'Fold', 'FusedActivation', 'Gather', 'GatherElements', 'GatherND', 'GatherND1', 'Gemm', 'Graph', 'GraphDesc', 'Gru', 'IndexMode', 'IndexRangeError', 'InputEdge', 'IntermediateEdge', 'InterpolationMode', 'IsInfinityMode', 'Join', 'LevelSupport', 'LocalResponseNormalization', 'LocalResponseNormalizationGrad', 'LpNormalization', 'LpPooling', 'LpPooling1', 'Lstm', 'MatrixMultiplyInteger', 'MatrixMultiplyIntegerToFloat', 'MatrixTransform', 'MaxPooling', 'MaxPooling1', 'MaxPooling2', 'MaxPoolingGrad', 'MaxUnpooling', 'MeanVarianceNormalization', 'MeanVarianceNormalization1', 'MeanVarianceNormalization2', 'MissingDependencyError', 'ModelError', 'ModelFileError', 'MultiheadAttention', 'MultiheadAttention1', 'MultiheadAttentionMaskType', 'NonzeroCoordinates', 'OPERATORS', 'OneHot', 'Operator', 'OperatorDesc', 'OperatorInitializer', 'OperatorNode', 'OperatorType', 'OutputEdge', 'Padding', 'Padding1', 'PaddingMode', 'Place', 'QuantizationType', 'Quantize', 'QuantizedLinearAveragePooling', 'QuantizedLinearConvolution', 'QuantizedLinearMatrixMultiply', 'RandomGenerator', 'RandomGeneratorType', 'RecurrentNetworkDirection', 'Reduce', 'ReduceFunction', 'Report', 'Resample', 'Resample1', 'Resample2', 'Resample3', 'ResampleGrad', 'ResampleGrad1', 'ReverseSubsequences', 'Rnn', 'RoiAlign', 'RoiAlign1', 'RoiAlignGrad', 'RoiPooling', 'RoundingMode', 'ScaleBias', 'Scatter', 'ScatterND', 'Size', 'Slice', 'Slice1', 'SliceGrad', 'SpaceToDepth', 'SpaceToDepth1', 'Split', 'SymbolicGraph', 'TensorDesc', 'TensorFlags', 'TensorSupport', 'Tile', 'TopK', 'TopK1', 'Unfold', 'UnsupportedError', 'Upsample2D', 'ValueScale2D', 'abs', 'absolute', 'acos', 'acosh', 'activation_identity', 'activation_tanh', 'adam_optimizer', 'add', 'add1', 'all', 'amax', 'amin', 'any', 'arange', 'arccos', 'arccosh', 'arcsin', 'arcsinh', 'arctan', 'arctan2', 'arctanh', 'argmax', 'argmin', 'argsort', 'asin', 'asinh', 'atan', 'atan2', 'atan_yx', 'atanh', 'average', 'average_pooling', 'average_pooling1', 'average_pooling_grad', 'batch_normalization', 'batch_normalization_grad', 'batch_normalization_training', 'batch_normalization_training_grad', 'bit_and', 'bit_count', 'bit_not', 'bit_or', 'bit_shift_left', 'bit_shift_right', 'bit_xor', 'bitwise_and', 'bitwise_not', 'bitwise_or', 'bitwise_xor', 'broadcast_to', 'cast', 'cat', 'ceil', 'celu', 'clamp', 'clip', 'clip1', 'clip_grad', 'clip_grad1', 'concatenate', 'constant_pow', 'convolution', 'convolution_integer', 'cos', 'cosh', 'count_nonzero', 'cumprod', 'cumsum', 'cumulative_product', 'cumulative_summation', 'depth_to_space', 'depth_to_space1', 'dequantize', 'dequantize_linear', 'devices', 'diagonal_matrix', 'diagonal_matrix1', 'difference_square', 'div', 'divide', 'dynamic_quantize_linear', 'elu', 'embedding', 'equal', 'erf', 'exp', 'expand_dims', 'eye', 'fill_value_constant', 'fill_value_sequence', 'flatten', 'flip', 'floor', 'fmod', 'fold', 'full', 'gather', 'gather_elements', 'gather_nd', 'gather_nd1', 'gelu', 'gemm', 'get_num_threads', 'graph_passes', 'greater', 'greater_equal', 'group_norm', 'gru', 'hard_sigmoid', 'hard_swish', 'hardmax', 'hardmax1', 'identity', 'if_', 'invert', 'is_infinity', 'is_nan', 'isfinite', 'isinf', 'isnan', 'join', 'layer_norm', 'leaky_relu', 'left_shift', 'less', 'less_equal', 'linear', 'local_response_normalization', 'local_response_normalization_grad', 'log', 'log_softmax', 'log_softmax1', 'logical_and', 'logical_equals', 'logical_greater_than', 'logical_greater_than_or_equal', 'logical_less_than', 'logical_less_than_or_equal', 'logical_not', 'logical_or', 'logical_xor', 'logsumexp', 'lp_normalization', 'lp_pooling', 'lp_pooling1', 'lstm', 'matmul', 'matrix_multiply_integer', 'matrix_multiply_integer_to_float', 'max', 'max_pooling', 'max_pooling1', 'max_pooling2', 'max_pooling_grad', 'max_unpooling', 'maximum', 'mean', 'mean_variance_normalization', 'mean_variance_normalization1', 'mean_variance_normalization2', 'min', 'minimum', 'mod', 'modulus_floor', 'modulus_truncate', 'moveaxis', 'mul', 'multihead_attention', 'multihead_attention1', 'multiply', 'neg', 'negate', 'negative', 'nonzero_coordinates', 'not_equal', 'one_hot', 'ones', 'outer', 'pad', 'padding', 'padding1', 'parameterized_relu', 'parametric_softplus', 'permute', 'pow', 'power', 'prelu', 'prod', 'quantize', 'quantize_linear', 'quantized_linear_add', 'quantized_linear_average_pooling', 'quantized_linear_convolution', 'quantized_linear_matrix_multiply', 'random_generator', 'recip', 'reciprocal', 'reduce', 'relu', 'relu_grad', 'remainder', 'repeat', 'resample', 'resample1', 'resample2', 'resample3', 'resample_grad', 'resample_grad1', 'reshape', 'reverse_subsequences', 'right_shift', 'rms_norm', 'rnn', 'roi_align', 'roi_align1', 'roi_align_grad', 'roi_pooling', 'roll', 'round', 'rsqrt', 'scaled_elu', 'scaled_tanh', 'scatter', 'scatter_nd', 'selu', 'set_num_threads', 'shrink', 'sigmoid', 'sign', 'silu', 'sin', 'sinh', 'slice', 'slice1', 'slice_grad', 'softmax', 'softmax1', 'softplus', 'softsign', 'sort', 'space_to_depth', 'space_to_depth1', 'split', 'sqrt', 'square', 'squeeze', 'stack', 'std', 'sub', 'subtract', 'sum', 'support', 'swapaxes', 'swish', 'take', 'take_along_axis', 'tan', 'tanh', 'threshold', 'thresholded_relu', 'tile', 'to_device', 'top_k', 'top_k1', 'topk', 'transpose', 'tril', 'triu', 'true_divide', 'trunc', 'unfold', 'unsqueeze', 'upsample_2d', 'value_scale_2d', 'var', 'where', 'zeros']

class _RandomGeneratorResults(NamedTuple, Generic[_R, _Q]):
    output: _R
    state: Any
class _BatchNormalizationTrainingResults(NamedTuple, Generic[_R, _Q]):
    output: _R
    mean: _R
    variance: _R
class _BatchNormalizationGradResults(NamedTuple, Generic[_R, _Q]):
    gradient: _R
    scale_gradient: _R
    bias_gradient: _R
class _BatchNormalizationTrainingGradResults(NamedTuple, Generic[_R, _Q]):
    gradient: _R
    scale_gradient: _R
    bias_gradient: _R
class _DynamicQuantizeLinearResults(NamedTuple, Generic[_R, _Q]):
    output: _R
    scale: _Q
    zero_point: _R
class _MaxPooling1Results(NamedTuple, Generic[_R, _Q]):
    output: _R
    indices: Any
class _MaxPooling2Results(NamedTuple, Generic[_R, _Q]):
    output: _R
    indices: Any
class _RoiAlignGradResults(NamedTuple, Generic[_R, _Q]):
    gradient: _R
    roi_gradient: Any
class _TopKResults(NamedTuple, Generic[_R, _Q]):
    values: _R
    indices: _Q
class _TopK1Results(NamedTuple, Generic[_R, _Q]):
    values: _R
    indices: _Q
class _NonzeroCoordinatesResults(NamedTuple, Generic[_R, _Q]):
    count: _R  # type: ignore[assignment]
    coordinates: _R
class _AdamOptimizerResults(NamedTuple, Generic[_R, _Q]):
    parameters: _R
    first_moment: _R
    second_moment: _R
class _MultiheadAttentionResults(NamedTuple, Generic[_R, _Q]):
    output: _R
    present_key: Any
    present_value: Any
class _MultiheadAttention1Results(NamedTuple, Generic[_R, _Q]):
    output: _R
    present_key: Any
    present_value: Any
class _RnnResults(NamedTuple, Generic[_R, _Q]):
    sequence: _R
    single: Any
class _LstmResults(NamedTuple, Generic[_R, _Q]):
    sequence: _R
    single: Any
    cell_single: Any
class _GruResults(NamedTuple, Generic[_R, _Q]):
    sequence: _R
    single: Any
@overload
def abs(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ABS: the absolute value: |x|. The lowest number of an integer type, which has none, stays."""
@overload
def abs(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def abs(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def abs(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def acos(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ACOS: the angle whose cosine is x: acos x. It is NaN outside -1 .. 1."""
@overload
def acos(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def acos(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def acos(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def acosh(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ACOSH: the number whose hyperbolic cosine is x: acosh x. It is NaN below 1."""
@overload
def acosh(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def acosh(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def acosh(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def activation_identity(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_IDENTITY: copies every element."""
@overload
def activation_identity(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def activation_identity(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def activation_identity(x: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def activation_tanh(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_TANH: the hyperbolic tangent: tanh x."""
@overload
def activation_tanh(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def activation_tanh(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def activation_tanh(x: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def adam_optimizer(input_parameters: NDArray[_S] | _Plain, input_first_moment: NDArray[_S] | _Plain, input_second_moment: NDArray[_S] | _Plain, gradient: NDArray[_S] | _Plain, training_step: NDArray[Any] | _Plain, learning_rate: float, beta1: float = ..., beta2: float = ..., epsilon: float = ..., *, out: Sequence[NDArray[Any]] | NDArray[_S] | None = None, device: _Device | None = None) -> _AdamOptimizerResults[NDArray[_S], NDArray[Any]]:
    """ADAM_OPTIMIZER: A step of Adam: the parameters x and the moments m and v, updated by the gradient g."""
@overload
def adam_optimizer(input_parameters: _A | _Plain, input_first_moment: _A | _Plain, input_second_moment: _A | _Plain, gradient: _A | _Plain, training_step: _A | _Plain, learning_rate: float, beta1: float = ..., beta2: float = ..., epsilon: float = ..., *, out: Sequence[_A] | _A | None = None, device: _Device | None = None) -> _AdamOptimizerResults[_A, _A]: ...
@overload
def adam_optimizer(input_parameters: Expression | _Plain, input_first_moment: Expression | _Plain, input_second_moment: Expression | _Plain, gradient: Expression | _Plain, training_step: Expression | _Plain, learning_rate: float, beta1: float = ..., beta2: float = ..., epsilon: float = ..., *, out: None = None, device: None = None) -> _AdamOptimizerResults[Expression, Expression]: ...
@overload
def adam_optimizer(input_parameters: Any, input_first_moment: Any, input_second_moment: Any, gradient: Any, training_step: Any, learning_rate: float, beta1: float = ..., beta2: float = ..., epsilon: float = ..., *, out: Any = None, device: _Device | None = None) -> _AdamOptimizerResults[Any, Any]: ...
@overload
def add(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ADD: the sum: a + b. Integers wrap."""
@overload
def add(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def add(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def add(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def add1(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, fused_activation: _Activation | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ADD1: the sum, and an activation of it: f(a + b)."""
@overload
def add1(a: _A | _Plain, b: _A | _Plain, fused_activation: _Activation | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def add1(a: Expression | _Plain, b: Expression | _Plain, fused_activation: _Activation | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def add1(a: Any, b: Any, fused_activation: _Activation | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def argmax(x: NDArray[Any] | _Plain, axes: int | Sequence[int] | None = ..., axis_direction: _AxisDirection = ..., *, out: NDArray[np.int64] | None = None, device: _Device | None = None) -> NDArray[np.int64]:
    """ARGMAX: the index of each row's largest element: row-major, within the axes. INT64 where nothing else is asked for."""
@overload
def argmax(x: _A | _Plain, axes: int | Sequence[int] | None = ..., axis_direction: _AxisDirection = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def argmax(x: Expression, axes: int | Sequence[int] | None = ..., axis_direction: _AxisDirection = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def argmax(x: Any, axes: int | Sequence[int] | None = ..., axis_direction: _AxisDirection = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def argmin(x: NDArray[Any] | _Plain, axes: int | Sequence[int] | None = ..., axis_direction: _AxisDirection = ..., *, out: NDArray[np.int64] | None = None, device: _Device | None = None) -> NDArray[np.int64]:
    """ARGMIN: the index of each row's smallest element: row-major, within the axes. INT64 where nothing else is asked for."""
@overload
def argmin(x: _A | _Plain, axes: int | Sequence[int] | None = ..., axis_direction: _AxisDirection = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def argmin(x: Expression, axes: int | Sequence[int] | None = ..., axis_direction: _AxisDirection = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def argmin(x: Any, axes: int | Sequence[int] | None = ..., axis_direction: _AxisDirection = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def asin(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ASIN: the angle whose sine is x: asin x. It is NaN outside -1 .. 1."""
@overload
def asin(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def asin(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def asin(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def asinh(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ASINH: the number whose hyperbolic sine is x: asinh x."""
@overload
def asinh(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def asinh(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def asinh(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def atan(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ATAN: the angle whose tangent is x: atan x."""
@overload
def atan(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def atan(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def atan(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def atan_yx(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ATAN_YX: the angle of the point (b, a) with the positive x axis: atan2(a, b)."""
@overload
def atan_yx(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def atan_yx(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def atan_yx(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def atanh(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ATANH: the number whose hyperbolic tangent is x: atanh x. It is NaN outside -1 .. 1."""
@overload
def atanh(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def atanh(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def atanh(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def average_pooling(x: NDArray[_S] | _Plain, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., include_padding: bool = ..., dilations: Sequence[int] | int = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """AVERAGE_POOLING1: the mean of each window, whose elements are Dilations apart."""
@overload
def average_pooling(x: _A | _Plain, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., include_padding: bool = ..., dilations: Sequence[int] | int = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def average_pooling(x: Expression, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., include_padding: bool = ..., dilations: Sequence[int] | int = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def average_pooling(x: Any, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., include_padding: bool = ..., dilations: Sequence[int] | int = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def average_pooling1(x: NDArray[_S] | _Plain, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., include_padding: bool = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """AVERAGE_POOLING1: the mean of each window, whose elements are Dilations apart."""
@overload
def average_pooling1(x: _A | _Plain, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., include_padding: bool = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def average_pooling1(x: Expression, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., include_padding: bool = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def average_pooling1(x: Any, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., include_padding: bool = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def average_pooling_grad(input_gradient: NDArray[_S] | _Plain, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., include_padding: bool = ..., output_sizes: Sequence[int] | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """AVERAGE_POOLING_GRAD: the gradient of AVERAGE_POOLING: each number, over as many as its window's mean is of, is added to all of those."""
@overload
def average_pooling_grad(input_gradient: _A | _Plain, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., include_padding: bool = ..., output_sizes: Sequence[int] | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def average_pooling_grad(input_gradient: Expression, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., include_padding: bool = ..., output_sizes: Sequence[int] | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def average_pooling_grad(input_gradient: Any, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., include_padding: bool = ..., output_sizes: Sequence[int] | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def batch_normalization(x: NDArray[_S] | _Plain, mean: NDArray[_S] | _Plain, variance: NDArray[_S] | _Plain, scale: NDArray[_S] | _Plain, bias: NDArray[_S] | _Plain, spatial: bool = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """BATCH_NORMALIZATION: normalises with a mean and a variance that are given: f(Scale·(x - Mean)/√(Variance + Epsilon) + Bias)."""
@overload
def batch_normalization(x: _A | _Plain, mean: _A | _Plain, variance: _A | _Plain, scale: _A | _Plain, bias: _A | _Plain, spatial: bool = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def batch_normalization(x: Expression | _Plain, mean: Expression | _Plain, variance: Expression | _Plain, scale: Expression | _Plain, bias: Expression | _Plain, spatial: bool = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def batch_normalization(x: Any, mean: Any, variance: Any, scale: Any, bias: Any, spatial: bool = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def batch_normalization_grad(x: NDArray[_S] | _Plain, input_gradient: NDArray[_S] | _Plain, mean: NDArray[_S] | _Plain, variance: NDArray[_S] | _Plain, scale: NDArray[_S] | _Plain, epsilon: float = ..., *, out: Sequence[NDArray[Any]] | NDArray[_S] | None = None, device: _Device | None = None) -> _BatchNormalizationGradResults[NDArray[_S], NDArray[Any]]:
    """BATCH_NORMALIZATION_GRAD: the gradients of BATCH_NORMALIZATION with respect to its input, Scale and Bias."""
@overload
def batch_normalization_grad(x: _A | _Plain, input_gradient: _A | _Plain, mean: _A | _Plain, variance: _A | _Plain, scale: _A | _Plain, epsilon: float = ..., *, out: Sequence[_A] | _A | None = None, device: _Device | None = None) -> _BatchNormalizationGradResults[_A, _A]: ...
@overload
def batch_normalization_grad(x: Expression | _Plain, input_gradient: Expression | _Plain, mean: Expression | _Plain, variance: Expression | _Plain, scale: Expression | _Plain, epsilon: float = ..., *, out: None = None, device: None = None) -> _BatchNormalizationGradResults[Expression, Expression]: ...
@overload
def batch_normalization_grad(x: Any, input_gradient: Any, mean: Any, variance: Any, scale: Any, epsilon: float = ..., *, out: Any = None, device: _Device | None = None) -> _BatchNormalizationGradResults[Any, Any]: ...
@overload
def batch_normalization_training(x: NDArray[_S] | _Plain, scale: NDArray[_S] | _Plain, bias: NDArray[_S] | _Plain, fused_add: NDArray[_S] | _Plain | None = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: Sequence[NDArray[Any]] | NDArray[_S] | None = None, device: _Device | None = None) -> _BatchNormalizationTrainingResults[NDArray[_S], NDArray[Any]]:
    """BATCH_NORMALIZATION_TRAINING: normalises with the mean μ and the variance v of the input: f(Scale·(x - μ)/√(v + Epsilon) + Bias + FusedAdd)."""
@overload
def batch_normalization_training(x: _A | _Plain, scale: _A | _Plain, bias: _A | _Plain, fused_add: _A | _Plain | None = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: Sequence[_A] | _A | None = None, device: _Device | None = None) -> _BatchNormalizationTrainingResults[_A, _A]: ...
@overload
def batch_normalization_training(x: Expression | _Plain, scale: Expression | _Plain, bias: Expression | _Plain, fused_add: Expression | _Plain | None = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: None = None, device: None = None) -> _BatchNormalizationTrainingResults[Expression, Expression]: ...
@overload
def batch_normalization_training(x: Any, scale: Any, bias: Any, fused_add: Any | None = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: Any = None, device: _Device | None = None) -> _BatchNormalizationTrainingResults[Any, Any]: ...
@overload
def batch_normalization_training_grad(x: NDArray[_S] | _Plain, input_gradient: NDArray[_S] | _Plain, mean: NDArray[_S] | _Plain, variance: NDArray[_S] | _Plain, scale: NDArray[_S] | _Plain, epsilon: float = ..., *, out: Sequence[NDArray[Any]] | NDArray[_S] | None = None, device: _Device | None = None) -> _BatchNormalizationTrainingGradResults[NDArray[_S], NDArray[Any]]:
    """BATCH_NORMALIZATION_TRAINING_GRAD: the gradients of BATCH_NORMALIZATION_TRAINING with respect to its input, Scale and Bias."""
@overload
def batch_normalization_training_grad(x: _A | _Plain, input_gradient: _A | _Plain, mean: _A | _Plain, variance: _A | _Plain, scale: _A | _Plain, epsilon: float = ..., *, out: Sequence[_A] | _A | None = None, device: _Device | None = None) -> _BatchNormalizationTrainingGradResults[_A, _A]: ...
@overload
def batch_normalization_training_grad(x: Expression | _Plain, input_gradient: Expression | _Plain, mean: Expression | _Plain, variance: Expression | _Plain, scale: Expression | _Plain, epsilon: float = ..., *, out: None = None, device: None = None) -> _BatchNormalizationTrainingGradResults[Expression, Expression]: ...
@overload
def batch_normalization_training_grad(x: Any, input_gradient: Any, mean: Any, variance: Any, scale: Any, epsilon: float = ..., *, out: Any = None, device: _Device | None = None) -> _BatchNormalizationTrainingGradResults[Any, Any]: ...
@overload
def bit_and(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_BIT_AND: the bits that are 1 in both: a & b."""
@overload
def bit_and(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def bit_and(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def bit_and(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def bit_count(x: NDArray[Any] | _Plain, *, out: NDArray[np.uint8] | None = None, device: _Device | None = None) -> NDArray[np.uint8]:
    """ELEMENT_WISE_BIT_COUNT: the number of bits that are 1."""
@overload
def bit_count(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def bit_count(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def bit_count(x: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def bit_not(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_BIT_NOT: every bit the other way round: ~x."""
@overload
def bit_not(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def bit_not(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def bit_not(x: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def bit_or(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_BIT_OR: the bits that are 1 in one or both: a | b."""
@overload
def bit_or(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def bit_or(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def bit_or(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def bit_shift_left(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_BIT_SHIFT_LEFT: the bits b places higher: a << b. It is 0 for a b of the width or more, which the documents leave open."""
@overload
def bit_shift_left(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def bit_shift_left(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def bit_shift_left(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def bit_shift_right(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_BIT_SHIFT_RIGHT: the bits b places lower: a >> b. It is 0 for a b of the width or more, which the documents leave open."""
@overload
def bit_shift_right(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def bit_shift_right(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def bit_shift_right(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def bit_xor(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_BIT_XOR: the bits that differ: a ^ b."""
@overload
def bit_xor(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def bit_xor(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def bit_xor(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def ceil(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_CEIL: the smallest integer that is not below: ⌈x⌉."""
@overload
def ceil(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def ceil(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def ceil(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def celu(x: NDArray[_S] | _Plain, alpha: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_CELU: the continuously differentiable exponential linear unit: max(0, x) + min(0, Alpha·(e^(x/Alpha) - 1))."""
@overload
def celu(x: _A | _Plain, alpha: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def celu(x: Expression, alpha: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def celu(x: Any, alpha: float = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def clip(x: NDArray[_S] | _Plain, min: float, max: float, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_CLIP: between two bounds: max(Min, min(x, Max)). A Min above Max is what comes out everywhere."""
@overload
def clip(x: _A | _Plain, min: float, max: float, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def clip(x: Expression, min: float, max: float, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def clip(x: Any, min: float, max: float, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def clip1(x: NDArray[_S] | _Plain, min: int | float, max: int | float, scale_bias: _ScaleBias | None = ..., min_max_data_type: _DataType | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_CLIP1: between two bounds of the tensor's type: max(Min, min(x, Max)). A Min above Max is what comes out everywhere."""
@overload
def clip1(x: _A | _Plain, min: int | float, max: int | float, scale_bias: _ScaleBias | None = ..., min_max_data_type: _DataType | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def clip1(x: Expression, min: int | float, max: int | float, scale_bias: _ScaleBias | None = ..., min_max_data_type: _DataType | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def clip1(x: Any, min: int | float, max: int | float, scale_bias: _ScaleBias | None = ..., min_max_data_type: _DataType | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def clip_grad(x: NDArray[_S] | _Plain, input_gradient: NDArray[_S] | _Plain, min: float, max: float, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_CLIP_GRAD: the gradient of CLIP: the incoming one where Min < x < Max, and 0 elsewhere, at the bounds and for NaN too."""
@overload
def clip_grad(x: _A | _Plain, input_gradient: _A | _Plain, min: float, max: float, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def clip_grad(x: Expression | _Plain, input_gradient: Expression | _Plain, min: float, max: float, *, out: None = None, device: None = None) -> Expression: ...
@overload
def clip_grad(x: Any, input_gradient: Any, min: float, max: float, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def clip_grad1(x: NDArray[_S] | _Plain, input_gradient: NDArray[_S] | _Plain, min: int | float, max: int | float, min_max_data_type: _DataType | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_CLIP_GRAD1: the gradient of CLIP1: the incoming one where Min < x < Max, and 0 elsewhere, at the bounds and for NaN too."""
@overload
def clip_grad1(x: _A | _Plain, input_gradient: _A | _Plain, min: int | float, max: int | float, min_max_data_type: _DataType | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def clip_grad1(x: Expression | _Plain, input_gradient: Expression | _Plain, min: int | float, max: int | float, min_max_data_type: _DataType | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def clip_grad1(x: Any, input_gradient: Any, min: int | float, max: int | float, min_max_data_type: _DataType | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def constant_pow(x: NDArray[_S] | _Plain, exponent: float, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_CONSTANT_POW: the power of a given exponent: x^Exponent. Of negative numbers it is NaN but for whole exponents."""
@overload
def constant_pow(x: _A | _Plain, exponent: float, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def constant_pow(x: Expression, exponent: float, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def constant_pow(x: Any, exponent: float, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def convolution(x: NDArray[_S] | _Plain, filter: NDArray[_S] | _Plain, bias: NDArray[_S] | _Plain | None = ..., mode: _ConvolutionMode = ..., direction: _ConvolutionDirection = ..., strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., output_padding: Sequence[int] | int = ..., group_count: int = ..., fused_activation: _Activation | None = ..., output_sizes: Sequence[int] | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """CONVOLUTION: lays a filter over every window of the input: the sum of their products over the channels of a group, plus bias."""
@overload
def convolution(x: _A | _Plain, filter: _A | _Plain, bias: _A | _Plain | None = ..., mode: _ConvolutionMode = ..., direction: _ConvolutionDirection = ..., strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., output_padding: Sequence[int] | int = ..., group_count: int = ..., fused_activation: _Activation | None = ..., output_sizes: Sequence[int] | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def convolution(x: Expression | _Plain, filter: Expression | _Plain, bias: Expression | _Plain | None = ..., mode: _ConvolutionMode = ..., direction: _ConvolutionDirection = ..., strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., output_padding: Sequence[int] | int = ..., group_count: int = ..., fused_activation: _Activation | None = ..., output_sizes: Sequence[int] | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def convolution(x: Any, filter: Any, bias: Any | None = ..., mode: _ConvolutionMode = ..., direction: _ConvolutionDirection = ..., strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., output_padding: Sequence[int] | int = ..., group_count: int = ..., fused_activation: _Activation | None = ..., output_sizes: Sequence[int] | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def convolution_integer(x: NDArray[Any] | _Plain, filter: NDArray[Any] | _Plain, input_zero_point: NDArray[Any] | _Plain | None = ..., filter_zero_point: NDArray[Any] | _Plain | None = ..., strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., group_count: int = ..., *, out: NDArray[np.int32] | None = None, device: _Device | None = None) -> NDArray[np.int32]:
    """CONVOLUTION_INTEGER: the convolution of bytes, each less its zero point: Σ(x - zx)·(w - zw), exactly, wrapped to INT32."""
@overload
def convolution_integer(x: _A | _Plain, filter: _A | _Plain, input_zero_point: _A | _Plain | None = ..., filter_zero_point: _A | _Plain | None = ..., strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., group_count: int = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def convolution_integer(x: Expression | _Plain, filter: Expression | _Plain, input_zero_point: Expression | _Plain | None = ..., filter_zero_point: Expression | _Plain | None = ..., strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., group_count: int = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def convolution_integer(x: Any, filter: Any, input_zero_point: Any | None = ..., filter_zero_point: Any | None = ..., strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., group_count: int = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def cos(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_COS: the cosine of an angle in radians: cos x."""
@overload
def cos(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def cos(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def cos(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def cosh(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_COSH: the hyperbolic cosine: cosh x."""
@overload
def cosh(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def cosh(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def cosh(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def depth_to_space(x: NDArray[_S] | _Plain, block_size: int, order: _DepthSpaceOrder = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """DEPTH_TO_SPACE1: makes blocks of rows and columns of channels: Output[n, c, h·B + i, w·B + j] = Input[n, k, h, w]."""
@overload
def depth_to_space(x: _A | _Plain, block_size: int, order: _DepthSpaceOrder = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def depth_to_space(x: Expression, block_size: int, order: _DepthSpaceOrder = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def depth_to_space(x: Any, block_size: int, order: _DepthSpaceOrder = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def depth_to_space1(x: NDArray[_S] | _Plain, block_size: int, order: _DepthSpaceOrder = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """DEPTH_TO_SPACE1: makes blocks of rows and columns of channels: Output[n, c, h·B + i, w·B + j] = Input[n, k, h, w]."""
@overload
def depth_to_space1(x: _A | _Plain, block_size: int, order: _DepthSpaceOrder = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def depth_to_space1(x: Expression, block_size: int, order: _DepthSpaceOrder = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def depth_to_space1(x: Any, block_size: int, order: _DepthSpaceOrder = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def dequantize_linear(x: NDArray[Any] | _Plain, scale: NDArray[_S] | _Plain, zero_point: NDArray[Any] | _Plain | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_DEQUANTIZE_LINEAR: numbers of what was quantised: (x - zero_point)·scale. The zero point may be left out from 6_2 on."""
@overload
def dequantize_linear(x: _A | _Plain, scale: _A | _Plain, zero_point: _A | _Plain | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def dequantize_linear(x: Expression | _Plain, scale: Expression | _Plain, zero_point: Expression | _Plain | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def dequantize_linear(x: Any, scale: Any, zero_point: Any | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def difference_square(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_DIFFERENCE_SQUARE: the square of the difference: (a - b)²."""
@overload
def difference_square(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def difference_square(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def difference_square(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def divide(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_DIVIDE: the quotient: a/b. Of integers it is cut toward zero, and x/0 is 0, which the documents leave open."""
@overload
def divide(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def divide(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def divide(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def dynamic_quantize_linear(x: NDArray[Any] | _Plain, *, out: Sequence[NDArray[Any]] | NDArray[Any] | None = None, device: _Device | None = None) -> _DynamicQuantizeLinearResults[NDArray[Any], NDArray[Any]]:
    """DYNAMIC_QUANTIZE_LINEAR: quantises to the range that the numbers have: round(x/scale) + zero_point, and the scale and the zero point."""
@overload
def dynamic_quantize_linear(x: _A | _Plain, *, out: Sequence[_A] | _A | None = None, device: _Device | None = None) -> _DynamicQuantizeLinearResults[_A, _A]: ...
@overload
def dynamic_quantize_linear(x: Expression, *, out: None = None, device: None = None) -> _DynamicQuantizeLinearResults[Expression, Expression]: ...
@overload
def dynamic_quantize_linear(x: Any, *, out: Any = None, device: _Device | None = None) -> _DynamicQuantizeLinearResults[Any, Any]: ...
@overload
def elu(x: NDArray[_S] | _Plain, alpha: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_ELU: the exponential linear unit: x where x ≥ 0, and else Alpha·(eˣ - 1)."""
@overload
def elu(x: _A | _Plain, alpha: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def elu(x: Expression, alpha: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def elu(x: Any, alpha: float = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def erf(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ERF: the error function: erf x."""
@overload
def erf(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def erf(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def erf(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def exp(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_EXP: the exponential function: eˣ."""
@overload
def exp(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def exp(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def exp(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def floor(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_FLOOR: the largest integer that is not above: ⌊x⌋."""
@overload
def floor(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def floor(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def floor(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def fold(x: NDArray[_S] | _Plain, output_sizes: Sequence[int], window_sizes: Sequence[int], strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """FOLD: sums columns {N, C·window, windows} into a tensor {N, C, …}: each is a window, and windows overlap."""
@overload
def fold(x: _A | _Plain, output_sizes: Sequence[int], window_sizes: Sequence[int], strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def fold(x: Expression, output_sizes: Sequence[int], window_sizes: Sequence[int], strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def fold(x: Any, output_sizes: Sequence[int], window_sizes: Sequence[int], strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def gelu(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_GELU: the Gaussian error linear unit: x·(1 + erf(x/√2))/2."""
@overload
def gelu(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def gelu(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def gelu(x: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def gemm(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, c: NDArray[_S] | _Plain | None = ..., trans_a: _MatrixTransform | bool = ..., trans_b: _MatrixTransform | bool = ..., alpha: float = ..., beta: float = ..., fused_activation: _Activation | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """GEMM: the product of matrices: f(Alpha·A·B + Beta·C), either of A and B transposed first, and C there or not."""
@overload
def gemm(a: _A | _Plain, b: _A | _Plain, c: _A | _Plain | None = ..., trans_a: _MatrixTransform | bool = ..., trans_b: _MatrixTransform | bool = ..., alpha: float = ..., beta: float = ..., fused_activation: _Activation | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def gemm(a: Expression | _Plain, b: Expression | _Plain, c: Expression | _Plain | None = ..., trans_a: _MatrixTransform | bool = ..., trans_b: _MatrixTransform | bool = ..., alpha: float = ..., beta: float = ..., fused_activation: _Activation | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def gemm(a: Any, b: Any, c: Any | None = ..., trans_a: _MatrixTransform | bool = ..., trans_b: _MatrixTransform | bool = ..., alpha: float = ..., beta: float = ..., fused_activation: _Activation | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def gru(x: NDArray[_S] | _Plain, weight: NDArray[_S] | _Plain, recurrence: NDArray[_S] | _Plain, bias: NDArray[_S] | _Plain | None = ..., hidden_init: NDArray[_S] | _Plain | None = ..., sequence_lengths: NDArray[Any] | _Plain | None = ..., activation_descs: Sequence[_Activation] = ..., direction: _RecurrentNetworkDirection = ..., linear_before_reset: bool = ..., output_single: bool = ..., *, out: Sequence[NDArray[Any]] | NDArray[_S] | None = None, device: _Device | None = None) -> _GruResults[NDArray[_S], NDArray[Any]]:
    """GRU: A layer of gated recurrent units: H = (1 - z)·h + z·H at each step."""
@overload
def gru(x: _A | _Plain, weight: _A | _Plain, recurrence: _A | _Plain, bias: _A | _Plain | None = ..., hidden_init: _A | _Plain | None = ..., sequence_lengths: _A | _Plain | None = ..., activation_descs: Sequence[_Activation] = ..., direction: _RecurrentNetworkDirection = ..., linear_before_reset: bool = ..., output_single: bool = ..., *, out: Sequence[_A] | _A | None = None, device: _Device | None = None) -> _GruResults[_A, _A]: ...
@overload
def gru(x: Expression | _Plain, weight: Expression | _Plain, recurrence: Expression | _Plain, bias: Expression | _Plain | None = ..., hidden_init: Expression | _Plain | None = ..., sequence_lengths: Expression | _Plain | None = ..., activation_descs: Sequence[_Activation] = ..., direction: _RecurrentNetworkDirection = ..., linear_before_reset: bool = ..., output_single: bool = ..., *, out: None = None, device: None = None) -> _GruResults[Expression, Expression]: ...
@overload
def gru(x: Any, weight: Any, recurrence: Any, bias: Any | None = ..., hidden_init: Any | None = ..., sequence_lengths: Any | None = ..., activation_descs: Sequence[_Activation] = ..., direction: _RecurrentNetworkDirection = ..., linear_before_reset: bool = ..., output_single: bool = ..., *, out: Any = None, device: _Device | None = None) -> _GruResults[Any, Any]: ...
@overload
def hard_sigmoid(x: NDArray[_S] | _Plain, alpha: float = ..., beta: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_HARD_SIGMOID: A sigmoid of straight lines: max(0, min(Alpha·x + Beta, 1))."""
@overload
def hard_sigmoid(x: _A | _Plain, alpha: float = ..., beta: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def hard_sigmoid(x: Expression, alpha: float = ..., beta: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def hard_sigmoid(x: Any, alpha: float = ..., beta: float = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def hard_swish(x: NDArray[_S] | _Plain, alpha: float = ..., beta: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_HARD_SWISH: A swish of straight lines: x·max(0, min(Alpha·x + Beta, 1))."""
@overload
def hard_swish(x: _A | _Plain, alpha: float = ..., beta: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def hard_swish(x: Expression, alpha: float = ..., beta: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def hard_swish(x: Any, alpha: float = ..., beta: float = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def hardmax(x: NDArray[_S] | _Plain, axis: int | Sequence[int] = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_HARDMAX1: 1 at the first of the largest elements along Axes, in row-major order, and 0 elsewhere."""
@overload
def hardmax(x: _A | _Plain, axis: int | Sequence[int] = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def hardmax(x: Expression, axis: int | Sequence[int] = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def hardmax(x: Any, axis: int | Sequence[int] = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def hardmax1(x: NDArray[_S] | _Plain, axes: int | Sequence[int] = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_HARDMAX1: 1 at the first of the largest elements along Axes, in row-major order, and 0 elsewhere."""
@overload
def hardmax1(x: _A | _Plain, axes: int | Sequence[int] = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def hardmax1(x: Expression, axes: int | Sequence[int] = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def hardmax1(x: Any, axes: int | Sequence[int] = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def identity(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_IDENTITY: copies every element: Output = Input, or Input·Scale + Bias where ScaleBias is given."""
@overload
def identity(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def identity(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def identity(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def if_(condition: NDArray[Any] | _Plain, a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_IF: one of two, by a condition: a where it is not 0, b where it is. Bits are moved."""
@overload
def if_(condition: _A | _Plain, a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def if_(condition: Expression | _Plain, a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def if_(condition: Any, a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def is_infinity(x: NDArray[Any] | _Plain, infinity_mode: _IsInfinityMode = ..., *, out: NDArray[np.uint8] | None = None, device: _Device | None = None) -> NDArray[np.uint8]:
    """ELEMENT_WISE_IS_INFINITY: whether a number is an infinity, either of the two or one of them, as 1 or 0."""
@overload
def is_infinity(x: _A | _Plain, infinity_mode: _IsInfinityMode = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def is_infinity(x: Expression, infinity_mode: _IsInfinityMode = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def is_infinity(x: Any, infinity_mode: _IsInfinityMode = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def is_nan(x: NDArray[Any] | _Plain, *, out: NDArray[np.uint8] | None = None, device: _Device | None = None) -> NDArray[np.uint8]:
    """ELEMENT_WISE_IS_NAN: whether a number is a NaN, as 1 or 0."""
@overload
def is_nan(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def is_nan(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def is_nan(x: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def leaky_relu(x: NDArray[_S] | _Plain, alpha: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_LEAKY_RELU: A rectifier that leaks: x where x ≥ 0, and else Alpha·x."""
@overload
def leaky_relu(x: _A | _Plain, alpha: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def leaky_relu(x: Expression, alpha: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def leaky_relu(x: Any, alpha: float = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def linear(x: NDArray[_S] | _Plain, alpha: float, beta: float, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_LINEAR: A straight line: Alpha·x + Beta, rounded once."""
@overload
def linear(x: _A | _Plain, alpha: float, beta: float, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def linear(x: Expression, alpha: float, beta: float, *, out: None = None, device: None = None) -> Expression: ...
@overload
def linear(x: Any, alpha: float, beta: float, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def local_response_normalization(x: NDArray[_S] | _Plain, local_size: int, cross_channel: bool = ..., alpha: float = ..., beta: float = ..., bias: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """LOCAL_RESPONSE_NORMALIZATION: divides by what the neighbours are: x/(Bias + Alpha/LocalSize·Σx²)^Beta, the sum being of a region around x."""
@overload
def local_response_normalization(x: _A | _Plain, local_size: int, cross_channel: bool = ..., alpha: float = ..., beta: float = ..., bias: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def local_response_normalization(x: Expression, local_size: int, cross_channel: bool = ..., alpha: float = ..., beta: float = ..., bias: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def local_response_normalization(x: Any, local_size: int, cross_channel: bool = ..., alpha: float = ..., beta: float = ..., bias: float = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def local_response_normalization_grad(x: NDArray[_S] | _Plain, input_gradient: NDArray[_S] | _Plain, local_size: int, cross_channel: bool = ..., alpha: float = ..., beta: float = ..., bias: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """LOCAL_RESPONSE_NORMALIZATION_GRAD: the gradient of LOCAL_RESPONSE_NORMALIZATION with respect to its input."""
@overload
def local_response_normalization_grad(x: _A | _Plain, input_gradient: _A | _Plain, local_size: int, cross_channel: bool = ..., alpha: float = ..., beta: float = ..., bias: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def local_response_normalization_grad(x: Expression | _Plain, input_gradient: Expression | _Plain, local_size: int, cross_channel: bool = ..., alpha: float = ..., beta: float = ..., bias: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def local_response_normalization_grad(x: Any, input_gradient: Any, local_size: int, cross_channel: bool = ..., alpha: float = ..., beta: float = ..., bias: float = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def log(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_LOG: the natural logarithm: ln x. It is -inf for 0, and NaN for negative numbers."""
@overload
def log(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def log(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def log(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def log_softmax(x: NDArray[_S] | _Plain, axis: int | Sequence[int] = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_LOG_SOFTMAX1: the logarithm of the softmax along Axes: x - ln Σeˣ, with the largest element taken out first."""
@overload
def log_softmax(x: _A | _Plain, axis: int | Sequence[int] = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def log_softmax(x: Expression, axis: int | Sequence[int] = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def log_softmax(x: Any, axis: int | Sequence[int] = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def log_softmax1(x: NDArray[_S] | _Plain, axes: int | Sequence[int] = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_LOG_SOFTMAX1: the logarithm of the softmax along Axes: x - ln Σeˣ, with the largest element taken out first."""
@overload
def log_softmax1(x: _A | _Plain, axes: int | Sequence[int] = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def log_softmax1(x: Expression, axes: int | Sequence[int] = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def log_softmax1(x: Any, axes: int | Sequence[int] = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def logical_and(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_LOGICAL_AND: whether neither of two is 0, as 1 or 0."""
@overload
def logical_and(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def logical_and(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def logical_and(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def logical_equals(a: NDArray[Any] | _Plain, b: NDArray[Any] | _Plain, *, out: NDArray[np.uint8] | None = None, device: _Device | None = None) -> NDArray[np.uint8]:
    """ELEMENT_WISE_LOGICAL_EQUALS: whether two are equal: a = b, as 1 or 0."""
@overload
def logical_equals(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def logical_equals(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def logical_equals(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def logical_greater_than(a: NDArray[Any] | _Plain, b: NDArray[Any] | _Plain, *, out: NDArray[np.uint8] | None = None, device: _Device | None = None) -> NDArray[np.uint8]:
    """ELEMENT_WISE_LOGICAL_GREATER_THAN: whether the first is larger: a > b, as 1 or 0."""
@overload
def logical_greater_than(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def logical_greater_than(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def logical_greater_than(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def logical_greater_than_or_equal(a: NDArray[Any] | _Plain, b: NDArray[Any] | _Plain, *, out: NDArray[np.uint8] | None = None, device: _Device | None = None) -> NDArray[np.uint8]:
    """ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL: whether the first is larger or equal: a ≥ b, as 1 or 0."""
@overload
def logical_greater_than_or_equal(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def logical_greater_than_or_equal(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def logical_greater_than_or_equal(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def logical_less_than(a: NDArray[Any] | _Plain, b: NDArray[Any] | _Plain, *, out: NDArray[np.uint8] | None = None, device: _Device | None = None) -> NDArray[np.uint8]:
    """ELEMENT_WISE_LOGICAL_LESS_THAN: whether the first is smaller: a < b, as 1 or 0."""
@overload
def logical_less_than(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def logical_less_than(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def logical_less_than(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def logical_less_than_or_equal(a: NDArray[Any] | _Plain, b: NDArray[Any] | _Plain, *, out: NDArray[np.uint8] | None = None, device: _Device | None = None) -> NDArray[np.uint8]:
    """ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL: whether the first is smaller or equal: a ≤ b, as 1 or 0."""
@overload
def logical_less_than_or_equal(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def logical_less_than_or_equal(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def logical_less_than_or_equal(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def logical_not(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_LOGICAL_NOT: whether a number is 0, as 1 or 0."""
@overload
def logical_not(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def logical_not(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def logical_not(x: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def logical_or(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_LOGICAL_OR: whether one of two is not 0, as 1 or 0."""
@overload
def logical_or(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def logical_or(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def logical_or(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def logical_xor(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_LOGICAL_XOR: whether exactly one of two is 0, as 1 or 0."""
@overload
def logical_xor(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def logical_xor(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def logical_xor(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def lp_normalization(x: NDArray[_S] | _Plain, axis: int, epsilon: float = ..., p: int = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """LP_NORMALIZATION: divides each row along Axis by its norm: x/max(‖x‖, Epsilon), with the norm Σ|x| for P = 1 and √Σx² for P = 2."""
@overload
def lp_normalization(x: _A | _Plain, axis: int, epsilon: float = ..., p: int = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def lp_normalization(x: Expression, axis: int, epsilon: float = ..., p: int = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def lp_normalization(x: Any, axis: int, epsilon: float = ..., p: int = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def lp_pooling(x: NDArray[_S] | _Plain, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., p: int = ..., dilations: Sequence[int] | int = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """LP_POOLING1: the norm of each window, whose elements are Dilations apart: (Σ|x|ᵖ)^(1/p), of P. Padding counts as 0."""
@overload
def lp_pooling(x: _A | _Plain, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., p: int = ..., dilations: Sequence[int] | int = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def lp_pooling(x: Expression, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., p: int = ..., dilations: Sequence[int] | int = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def lp_pooling(x: Any, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., p: int = ..., dilations: Sequence[int] | int = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def lp_pooling1(x: NDArray[_S] | _Plain, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., p: int = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """LP_POOLING1: the norm of each window, whose elements are Dilations apart: (Σ|x|ᵖ)^(1/p), of P. Padding counts as 0."""
@overload
def lp_pooling1(x: _A | _Plain, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., p: int = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def lp_pooling1(x: Expression, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., p: int = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def lp_pooling1(x: Any, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., p: int = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def lstm(x: NDArray[_S] | _Plain, weight: NDArray[_S] | _Plain, recurrence: NDArray[_S] | _Plain, bias: NDArray[_S] | _Plain | None = ..., hidden_init: NDArray[_S] | _Plain | None = ..., cell_mem_init: NDArray[_S] | _Plain | None = ..., sequence_lengths: NDArray[Any] | _Plain | None = ..., peephole: NDArray[_S] | _Plain | None = ..., activation_descs: Sequence[_Activation] = ..., direction: _RecurrentNetworkDirection = ..., clip_threshold: float = ..., use_clip_threshold: bool = ..., couple_input_forget: bool = ..., output_single: bool = ..., output_cell_single: bool = ..., *, out: Sequence[NDArray[Any]] | NDArray[_S] | None = None, device: _Device | None = None) -> _LstmResults[NDArray[_S], NDArray[Any]]:
    """LSTM: A layer of long short-term memory: a cell C, its gates i, o, f and c, and H = o·h(C) at each step."""
@overload
def lstm(x: _A | _Plain, weight: _A | _Plain, recurrence: _A | _Plain, bias: _A | _Plain | None = ..., hidden_init: _A | _Plain | None = ..., cell_mem_init: _A | _Plain | None = ..., sequence_lengths: _A | _Plain | None = ..., peephole: _A | _Plain | None = ..., activation_descs: Sequence[_Activation] = ..., direction: _RecurrentNetworkDirection = ..., clip_threshold: float = ..., use_clip_threshold: bool = ..., couple_input_forget: bool = ..., output_single: bool = ..., output_cell_single: bool = ..., *, out: Sequence[_A] | _A | None = None, device: _Device | None = None) -> _LstmResults[_A, _A]: ...
@overload
def lstm(x: Expression | _Plain, weight: Expression | _Plain, recurrence: Expression | _Plain, bias: Expression | _Plain | None = ..., hidden_init: Expression | _Plain | None = ..., cell_mem_init: Expression | _Plain | None = ..., sequence_lengths: Expression | _Plain | None = ..., peephole: Expression | _Plain | None = ..., activation_descs: Sequence[_Activation] = ..., direction: _RecurrentNetworkDirection = ..., clip_threshold: float = ..., use_clip_threshold: bool = ..., couple_input_forget: bool = ..., output_single: bool = ..., output_cell_single: bool = ..., *, out: None = None, device: None = None) -> _LstmResults[Expression, Expression]: ...
@overload
def lstm(x: Any, weight: Any, recurrence: Any, bias: Any | None = ..., hidden_init: Any | None = ..., cell_mem_init: Any | None = ..., sequence_lengths: Any | None = ..., peephole: Any | None = ..., activation_descs: Sequence[_Activation] = ..., direction: _RecurrentNetworkDirection = ..., clip_threshold: float = ..., use_clip_threshold: bool = ..., couple_input_forget: bool = ..., output_single: bool = ..., output_cell_single: bool = ..., *, out: Any = None, device: _Device | None = None) -> _LstmResults[Any, Any]: ...
@overload
def matrix_multiply_integer(a: NDArray[Any] | _Plain, b: NDArray[Any] | _Plain, a_zero_point: NDArray[Any] | _Plain | None = ..., b_zero_point: NDArray[Any] | _Plain | None = ..., *, out: NDArray[np.int32] | None = None, device: _Device | None = None) -> NDArray[np.int32]:
    """MATRIX_MULTIPLY_INTEGER: the product of matrices of bytes, each less its zero point: Σ(a - za)·(b - zb), exactly, wrapped to INT32."""
@overload
def matrix_multiply_integer(a: _A | _Plain, b: _A | _Plain, a_zero_point: _A | _Plain | None = ..., b_zero_point: _A | _Plain | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def matrix_multiply_integer(a: Expression | _Plain, b: Expression | _Plain, a_zero_point: Expression | _Plain | None = ..., b_zero_point: Expression | _Plain | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def matrix_multiply_integer(a: Any, b: Any, a_zero_point: Any | None = ..., b_zero_point: Any | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def matrix_multiply_integer_to_float(a: NDArray[Any] | _Plain, a_scale: NDArray[_S] | _Plain, b: NDArray[Any] | _Plain, b_scale: NDArray[_S] | _Plain, a_zero_point: NDArray[Any] | _Plain | None = ..., b_zero_point: NDArray[Any] | _Plain | None = ..., bias: NDArray[_S] | _Plain | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """MATRIX_MULTIPLY_INTEGER_TO_FLOAT: the product of matrices of integers, each less its zero point, as floats: sa·sb·Σ(a - za)·(b - zb) + bias."""
@overload
def matrix_multiply_integer_to_float(a: _A | _Plain, a_scale: _A | _Plain, b: _A | _Plain, b_scale: _A | _Plain, a_zero_point: _A | _Plain | None = ..., b_zero_point: _A | _Plain | None = ..., bias: _A | _Plain | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def matrix_multiply_integer_to_float(a: Expression | _Plain, a_scale: Expression | _Plain, b: Expression | _Plain, b_scale: Expression | _Plain, a_zero_point: Expression | _Plain | None = ..., b_zero_point: Expression | _Plain | None = ..., bias: Expression | _Plain | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def matrix_multiply_integer_to_float(a: Any, a_scale: Any, b: Any, b_scale: Any, a_zero_point: Any | None = ..., b_zero_point: Any | None = ..., bias: Any | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def max(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_MAX: the larger of two: max(a, b). It is NaN where one of them is, which the documents leave open."""
@overload
def max(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def max(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def max(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def max_pooling(x: NDArray[_S] | _Plain, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """MAX_POOLING2: the largest of each window, whose elements are Dilations apart, NaN where one is, and where it lies."""
@overload
def max_pooling(x: _A | _Plain, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def max_pooling(x: Expression, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def max_pooling(x: Any, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def max_pooling1(x: NDArray[_S] | _Plain, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., output_indices: bool = ..., *, out: Sequence[NDArray[Any]] | NDArray[_S] | None = None, device: _Device | None = None) -> _MaxPooling1Results[NDArray[_S], NDArray[Any]]:
    """MAX_POOLING1: the largest of each window, NaN where one is, and where it lies. Padding is below all numbers."""
@overload
def max_pooling1(x: _A | _Plain, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., output_indices: bool = ..., *, out: Sequence[_A] | _A | None = None, device: _Device | None = None) -> _MaxPooling1Results[_A, _A]: ...
@overload
def max_pooling1(x: Expression, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., output_indices: bool = ..., *, out: None = None, device: None = None) -> _MaxPooling1Results[Expression, Expression]: ...
@overload
def max_pooling1(x: Any, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., output_indices: bool = ..., *, out: Any = None, device: _Device | None = None) -> _MaxPooling1Results[Any, Any]: ...
@overload
def max_pooling2(x: NDArray[_S] | _Plain, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., output_indices: bool = ..., *, out: Sequence[NDArray[Any]] | NDArray[_S] | None = None, device: _Device | None = None) -> _MaxPooling2Results[NDArray[_S], NDArray[Any]]:
    """MAX_POOLING2: the largest of each window, whose elements are Dilations apart, NaN where one is, and where it lies."""
@overload
def max_pooling2(x: _A | _Plain, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., output_indices: bool = ..., *, out: Sequence[_A] | _A | None = None, device: _Device | None = None) -> _MaxPooling2Results[_A, _A]: ...
@overload
def max_pooling2(x: Expression, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., output_indices: bool = ..., *, out: None = None, device: None = None) -> _MaxPooling2Results[Expression, Expression]: ...
@overload
def max_pooling2(x: Any, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., output_indices: bool = ..., *, out: Any = None, device: _Device | None = None) -> _MaxPooling2Results[Any, Any]: ...
@overload
def max_pooling_grad(x: NDArray[_S] | _Plain, input_gradient: NDArray[_S] | _Plain, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """MAX_POOLING_GRAD: the gradient of MAX_POOLING2: each number is added to the first of the largest of its window."""
@overload
def max_pooling_grad(x: _A | _Plain, input_gradient: _A | _Plain, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def max_pooling_grad(x: Expression | _Plain, input_gradient: Expression | _Plain, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def max_pooling_grad(x: Any, input_gradient: Any, window_size: Sequence[int] | int, strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def max_unpooling(x: NDArray[_S] | _Plain, indices: NDArray[Any] | _Plain, output_sizes: Sequence[int] | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """MAX_UNPOOLING: Zeros, but for the elements that indices name, which have the input's numbers: out[index] = x."""
@overload
def max_unpooling(x: _A | _Plain, indices: _A | _Plain, output_sizes: Sequence[int] | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def max_unpooling(x: Expression | _Plain, indices: Expression | _Plain, output_sizes: Sequence[int] | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def max_unpooling(x: Any, indices: Any, output_sizes: Sequence[int] | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def mean(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_MEAN: the mean: (a + b)/2. Of integers it is cut toward zero and does not overflow, which the documents leave open."""
@overload
def mean(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def mean(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def mean(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def mean_variance_normalization(x: NDArray[_S] | _Plain, scale: NDArray[_S] | _Plain | None = ..., bias: NDArray[_S] | _Plain | None = ..., cross_channel: bool = ..., normalize_variance: bool = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """MEAN_VARIANCE_NORMALIZATION: makes the mean of each image 0 and its variance 1: f(Scale·(x - μ)/√(v + Epsilon) + Bias)."""
@overload
def mean_variance_normalization(x: _A | _Plain, scale: _A | _Plain | None = ..., bias: _A | _Plain | None = ..., cross_channel: bool = ..., normalize_variance: bool = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def mean_variance_normalization(x: Expression | _Plain, scale: Expression | _Plain | None = ..., bias: Expression | _Plain | None = ..., cross_channel: bool = ..., normalize_variance: bool = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def mean_variance_normalization(x: Any, scale: Any | None = ..., bias: Any | None = ..., cross_channel: bool = ..., normalize_variance: bool = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def mean_variance_normalization1(x: NDArray[_S] | _Plain, axes: int | Sequence[int], scale: NDArray[_S] | _Plain | None = ..., bias: NDArray[_S] | _Plain | None = ..., normalize_variance: bool = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """MEAN_VARIANCE_NORMALIZATION1: makes the mean of each row along Axes 0 and its variance 1: f(Scale·(x - μ)/√(v + Epsilon) + Bias)."""
@overload
def mean_variance_normalization1(x: _A | _Plain, axes: int | Sequence[int], scale: _A | _Plain | None = ..., bias: _A | _Plain | None = ..., normalize_variance: bool = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def mean_variance_normalization1(x: Expression | _Plain, axes: int | Sequence[int], scale: Expression | _Plain | None = ..., bias: Expression | _Plain | None = ..., normalize_variance: bool = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def mean_variance_normalization1(x: Any, axes: int | Sequence[int], scale: Any | None = ..., bias: Any | None = ..., normalize_variance: bool = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def mean_variance_normalization2(x: NDArray[_S] | _Plain, axes: int | Sequence[int], scale: NDArray[_S] | _Plain | None = ..., bias: NDArray[_S] | _Plain | None = ..., use_mean: bool = ..., use_variance: bool = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """MEAN_VARIANCE_NORMALIZATION2: makes the mean of each row along Axes 0 and its variance 1, or one of them: layer norm and RMS norm."""
@overload
def mean_variance_normalization2(x: _A | _Plain, axes: int | Sequence[int], scale: _A | _Plain | None = ..., bias: _A | _Plain | None = ..., use_mean: bool = ..., use_variance: bool = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def mean_variance_normalization2(x: Expression | _Plain, axes: int | Sequence[int], scale: Expression | _Plain | None = ..., bias: Expression | _Plain | None = ..., use_mean: bool = ..., use_variance: bool = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def mean_variance_normalization2(x: Any, axes: int | Sequence[int], scale: Any | None = ..., bias: Any | None = ..., use_mean: bool = ..., use_variance: bool = ..., epsilon: float = ..., fused_activation: _Activation | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def min(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_MIN: the smaller of two: min(a, b). It is NaN where one of them is, which the documents leave open."""
@overload
def min(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def min(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def min(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def modulus_floor(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_MODULUS_FLOOR: the remainder of the division that is rounded down, with the sign of b: Python's %."""
@overload
def modulus_floor(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def modulus_floor(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def modulus_floor(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def modulus_truncate(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_MODULUS_TRUNCATE: the remainder of the division that is cut toward zero, with the sign of a: C's fmod."""
@overload
def modulus_truncate(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def modulus_truncate(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def modulus_truncate(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def multihead_attention(query: NDArray[Any] | _Plain | None = ..., key: NDArray[Any] | _Plain | None = ..., value: NDArray[Any] | _Plain | None = ..., stacked_query_key: NDArray[Any] | _Plain | None = ..., stacked_key_value: NDArray[Any] | _Plain | None = ..., stacked_query_key_value: NDArray[Any] | _Plain | None = ..., bias: NDArray[Any] | _Plain | None = ..., mask: NDArray[Any] | _Plain | None = ..., relative_position_bias: NDArray[Any] | _Plain | None = ..., past_key: NDArray[Any] | _Plain | None = ..., past_value: NDArray[Any] | _Plain | None = ..., scale: float = ..., mask_filter_value: float = ..., head_count: int = ..., mask_type: _MultiheadAttentionMaskType = ..., output_present_key: bool = ..., output_present_value: bool = ..., *, out: Sequence[NDArray[Any]] | NDArray[Any] | None = None, device: _Device | None = None) -> _MultiheadAttentionResults[NDArray[Any], NDArray[Any]]:
    """MULTIHEAD_ATTENTION: attention of several heads: softmax(Scale·Q·Kᵀ + RelativePositionBias + mask)·V, for each head by itself."""
@overload
def multihead_attention(query: _A | _Plain | None = ..., key: _A | _Plain | None = ..., value: _A | _Plain | None = ..., stacked_query_key: _A | _Plain | None = ..., stacked_key_value: _A | _Plain | None = ..., stacked_query_key_value: _A | _Plain | None = ..., bias: _A | _Plain | None = ..., mask: _A | _Plain | None = ..., relative_position_bias: _A | _Plain | None = ..., past_key: _A | _Plain | None = ..., past_value: _A | _Plain | None = ..., scale: float = ..., mask_filter_value: float = ..., head_count: int = ..., mask_type: _MultiheadAttentionMaskType = ..., output_present_key: bool = ..., output_present_value: bool = ..., *, out: Sequence[_A] | _A | None = None, device: _Device | None = None) -> _MultiheadAttentionResults[_A, _A]: ...
@overload
def multihead_attention(query: Expression | _Plain | None = ..., key: Expression | _Plain | None = ..., value: Expression | _Plain | None = ..., stacked_query_key: Expression | _Plain | None = ..., stacked_key_value: Expression | _Plain | None = ..., stacked_query_key_value: Expression | _Plain | None = ..., bias: Expression | _Plain | None = ..., mask: Expression | _Plain | None = ..., relative_position_bias: Expression | _Plain | None = ..., past_key: Expression | _Plain | None = ..., past_value: Expression | _Plain | None = ..., scale: float = ..., mask_filter_value: float = ..., head_count: int = ..., mask_type: _MultiheadAttentionMaskType = ..., output_present_key: bool = ..., output_present_value: bool = ..., *, out: None = None, device: None = None) -> _MultiheadAttentionResults[Expression, Expression]: ...
@overload
def multihead_attention(query: Any | None = ..., key: Any | None = ..., value: Any | None = ..., stacked_query_key: Any | None = ..., stacked_key_value: Any | None = ..., stacked_query_key_value: Any | None = ..., bias: Any | None = ..., mask: Any | None = ..., relative_position_bias: Any | None = ..., past_key: Any | None = ..., past_value: Any | None = ..., scale: float = ..., mask_filter_value: float = ..., head_count: int = ..., mask_type: _MultiheadAttentionMaskType = ..., output_present_key: bool = ..., output_present_value: bool = ..., *, out: Any = None, device: _Device | None = None) -> _MultiheadAttentionResults[Any, Any]: ...
@overload
def multihead_attention1(query: NDArray[Any] | _Plain | None = ..., key: NDArray[Any] | _Plain | None = ..., value: NDArray[Any] | _Plain | None = ..., stacked_query_key: NDArray[Any] | _Plain | None = ..., stacked_key_value: NDArray[Any] | _Plain | None = ..., stacked_query_key_value: NDArray[Any] | _Plain | None = ..., bias: NDArray[Any] | _Plain | None = ..., mask: NDArray[Any] | _Plain | None = ..., relative_position_bias: NDArray[Any] | _Plain | None = ..., past_key: NDArray[Any] | _Plain | None = ..., past_value: NDArray[Any] | _Plain | None = ..., past_sequence_lengths: NDArray[Any] | _Plain | None = ..., scale: float = ..., mask_filter_value: float = ..., query_head_count: int = ..., key_value_head_count: int = ..., mask_type: _MultiheadAttentionMaskType = ..., output_present_key: bool = ..., output_present_value: bool = ..., *, out: Sequence[NDArray[Any]] | NDArray[Any] | None = None, device: _Device | None = None) -> _MultiheadAttention1Results[NDArray[Any], NDArray[Any]]:
    """MULTIHEAD_ATTENTION1: MULTIHEAD_ATTENTION with fewer heads of keys and values, and with a cache: neither is in the documents yet."""
@overload
def multihead_attention1(query: _A | _Plain | None = ..., key: _A | _Plain | None = ..., value: _A | _Plain | None = ..., stacked_query_key: _A | _Plain | None = ..., stacked_key_value: _A | _Plain | None = ..., stacked_query_key_value: _A | _Plain | None = ..., bias: _A | _Plain | None = ..., mask: _A | _Plain | None = ..., relative_position_bias: _A | _Plain | None = ..., past_key: _A | _Plain | None = ..., past_value: _A | _Plain | None = ..., past_sequence_lengths: _A | _Plain | None = ..., scale: float = ..., mask_filter_value: float = ..., query_head_count: int = ..., key_value_head_count: int = ..., mask_type: _MultiheadAttentionMaskType = ..., output_present_key: bool = ..., output_present_value: bool = ..., *, out: Sequence[_A] | _A | None = None, device: _Device | None = None) -> _MultiheadAttention1Results[_A, _A]: ...
@overload
def multihead_attention1(query: Expression | _Plain | None = ..., key: Expression | _Plain | None = ..., value: Expression | _Plain | None = ..., stacked_query_key: Expression | _Plain | None = ..., stacked_key_value: Expression | _Plain | None = ..., stacked_query_key_value: Expression | _Plain | None = ..., bias: Expression | _Plain | None = ..., mask: Expression | _Plain | None = ..., relative_position_bias: Expression | _Plain | None = ..., past_key: Expression | _Plain | None = ..., past_value: Expression | _Plain | None = ..., past_sequence_lengths: Expression | _Plain | None = ..., scale: float = ..., mask_filter_value: float = ..., query_head_count: int = ..., key_value_head_count: int = ..., mask_type: _MultiheadAttentionMaskType = ..., output_present_key: bool = ..., output_present_value: bool = ..., *, out: None = None, device: None = None) -> _MultiheadAttention1Results[Expression, Expression]: ...
@overload
def multihead_attention1(query: Any | None = ..., key: Any | None = ..., value: Any | None = ..., stacked_query_key: Any | None = ..., stacked_key_value: Any | None = ..., stacked_query_key_value: Any | None = ..., bias: Any | None = ..., mask: Any | None = ..., relative_position_bias: Any | None = ..., past_key: Any | None = ..., past_value: Any | None = ..., past_sequence_lengths: Any | None = ..., scale: float = ..., mask_filter_value: float = ..., query_head_count: int = ..., key_value_head_count: int = ..., mask_type: _MultiheadAttentionMaskType = ..., output_present_key: bool = ..., output_present_value: bool = ..., *, out: Any = None, device: _Device | None = None) -> _MultiheadAttention1Results[Any, Any]: ...
@overload
def multiply(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_MULTIPLY: the product: a·b. Integers wrap."""
@overload
def multiply(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def multiply(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def multiply(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def negate(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_NEGATE: the number of the other sign: -x. Integers wrap."""
@overload
def negate(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def negate(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def negate(x: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def nonzero_coordinates(x: NDArray[Any] | _Plain, *, out: Sequence[NDArray[Any]] | NDArray[np.uint32] | None = None, device: _Device | None = None) -> _NonzeroCoordinatesResults[NDArray[np.uint32], NDArray[Any]]:
    """NONZERO_COORDINATES: how many elements are not 0, and their coordinates, a row for each in the elements' order."""
@overload
def nonzero_coordinates(x: _A | _Plain, *, out: Sequence[_A] | _A | None = None, device: _Device | None = None) -> _NonzeroCoordinatesResults[_A, _A]: ...
@overload
def nonzero_coordinates(x: Expression, *, out: None = None, device: None = None) -> _NonzeroCoordinatesResults[Expression, Expression]: ...
@overload
def nonzero_coordinates(x: Any, *, out: Any = None, device: _Device | None = None) -> _NonzeroCoordinatesResults[Any, Any]: ...
@overload
def one_hot(indices: NDArray[Any] | _Plain, values: NDArray[_S] | _Plain, output_sizes: Sequence[int], axis: int, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ONE_HOT: lines along an axis that have Values[1] at an index and Values[0] elsewhere."""
@overload
def one_hot(indices: _A | _Plain, values: _A | _Plain, output_sizes: Sequence[int], axis: int, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def one_hot(indices: Expression | _Plain, values: Expression | _Plain, output_sizes: Sequence[int], axis: int, *, out: None = None, device: None = None) -> Expression: ...
@overload
def one_hot(indices: Any, values: Any, output_sizes: Sequence[int], axis: int, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def padding(x: NDArray[_S] | _Plain, start_padding: Sequence[int], end_padding: Sequence[int], padding_mode: _PaddingMode = ..., padding_value: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """PADDING: A tensor with StartPadding elements before it and EndPadding after it, in each dimension."""
@overload
def padding(x: _A | _Plain, start_padding: Sequence[int], end_padding: Sequence[int], padding_mode: _PaddingMode = ..., padding_value: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def padding(x: Expression, start_padding: Sequence[int], end_padding: Sequence[int], padding_mode: _PaddingMode = ..., padding_value: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def padding(x: Any, start_padding: Sequence[int], end_padding: Sequence[int], padding_mode: _PaddingMode = ..., padding_value: float = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def padding1(x: NDArray[_S] | _Plain, start_padding: Sequence[int], end_padding: Sequence[int], padding_mode: _PaddingMode = ..., padding_value_data_type: _DataType | None = ..., padding_value: int | float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """PADDING1: A tensor with StartPadding elements before it and EndPadding after it, in each dimension."""
@overload
def padding1(x: _A | _Plain, start_padding: Sequence[int], end_padding: Sequence[int], padding_mode: _PaddingMode = ..., padding_value_data_type: _DataType | None = ..., padding_value: int | float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def padding1(x: Expression, start_padding: Sequence[int], end_padding: Sequence[int], padding_mode: _PaddingMode = ..., padding_value_data_type: _DataType | None = ..., padding_value: int | float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def padding1(x: Any, start_padding: Sequence[int], end_padding: Sequence[int], padding_mode: _PaddingMode = ..., padding_value_data_type: _DataType | None = ..., padding_value: int | float = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def parameterized_relu(x: NDArray[_S] | _Plain, slope: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_PARAMETERIZED_RELU: A rectifier with a slope for each element: x where x ≥ 0, and else slope·x. Integers wrap."""
@overload
def parameterized_relu(x: _A | _Plain, slope: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def parameterized_relu(x: Expression | _Plain, slope: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def parameterized_relu(x: Any, slope: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def parametric_softplus(x: NDArray[_S] | _Plain, alpha: float, beta: float, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_PARAMETRIC_SOFTPLUS: A softplus of two parameters: Alpha·ln(1 + e^(Beta·x))."""
@overload
def parametric_softplus(x: _A | _Plain, alpha: float, beta: float, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def parametric_softplus(x: Expression, alpha: float, beta: float, *, out: None = None, device: None = None) -> Expression: ...
@overload
def parametric_softplus(x: Any, alpha: float, beta: float, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def pow(x: NDArray[_S] | _Plain, exponent: NDArray[Any] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_POW: the power: x^y. The exponents may be of another type from 3_0 on."""
@overload
def pow(x: _A | _Plain, exponent: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def pow(x: Expression | _Plain, exponent: Expression | _Plain, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def pow(x: Any, exponent: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def quantize_linear(x: NDArray[Any] | _Plain, scale: NDArray[Any] | _Plain, zero_point: NDArray[Any] | _Plain | None = ..., *, out: NDArray[Any] | None = None, device: _Device | None = None) -> NDArray[Any]:
    """ELEMENT_WISE_QUANTIZE_LINEAR: Quantises: round(x/scale) + zero_point, halves to even; what lies outside the range takes its nearest end."""
@overload
def quantize_linear(x: _A | _Plain, scale: _A | _Plain, zero_point: _A | _Plain | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def quantize_linear(x: Expression | _Plain, scale: Expression | _Plain, zero_point: Expression | _Plain | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def quantize_linear(x: Any, scale: Any, zero_point: Any | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def quantized_linear_add(a: NDArray[Any] | _Plain, a_scale: NDArray[Any] | _Plain, b: NDArray[Any] | _Plain, b_scale: NDArray[Any] | _Plain, output_scale: NDArray[Any] | _Plain, a_zero_point: NDArray[Any] | _Plain | None = ..., b_zero_point: NDArray[Any] | _Plain | None = ..., output_zero_point: NDArray[Any] | _Plain | None = ..., *, out: NDArray[Any] | None = None, device: _Device | None = None) -> NDArray[Any]:
    """ELEMENT_WISE_QUANTIZED_LINEAR_ADD: the sum of quantised numbers, quantised: round(((a - za)·sa + (b - zb)·sb)/s) + z, halves to even."""
@overload
def quantized_linear_add(a: _A | _Plain, a_scale: _A | _Plain, b: _A | _Plain, b_scale: _A | _Plain, output_scale: _A | _Plain, a_zero_point: _A | _Plain | None = ..., b_zero_point: _A | _Plain | None = ..., output_zero_point: _A | _Plain | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def quantized_linear_add(a: Expression | _Plain, a_scale: Expression | _Plain, b: Expression | _Plain, b_scale: Expression | _Plain, output_scale: Expression | _Plain, a_zero_point: Expression | _Plain | None = ..., b_zero_point: Expression | _Plain | None = ..., output_zero_point: Expression | _Plain | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def quantized_linear_add(a: Any, a_scale: Any, b: Any, b_scale: Any, output_scale: Any, a_zero_point: Any | None = ..., b_zero_point: Any | None = ..., output_zero_point: Any | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def quantized_linear_average_pooling(x: NDArray[Any] | _Plain, input_scale: NDArray[Any] | _Plain, output_scale: NDArray[Any] | _Plain, window_size: Sequence[int] | int, input_zero_point: NDArray[Any] | _Plain | None = ..., output_zero_point: NDArray[Any] | _Plain | None = ..., strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., include_padding: bool = ..., *, out: NDArray[Any] | None = None, device: _Device | None = None) -> NDArray[Any]:
    """QUANTIZED_LINEAR_AVERAGE_POOLING: the mean of each window of quantised numbers, quantised: round(s·Σ(x - z)/count/sy) + zy, halves to even."""
@overload
def quantized_linear_average_pooling(x: _A | _Plain, input_scale: _A | _Plain, output_scale: _A | _Plain, window_size: Sequence[int] | int, input_zero_point: _A | _Plain | None = ..., output_zero_point: _A | _Plain | None = ..., strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., include_padding: bool = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def quantized_linear_average_pooling(x: Expression | _Plain, input_scale: Expression | _Plain, output_scale: Expression | _Plain, window_size: Sequence[int] | int, input_zero_point: Expression | _Plain | None = ..., output_zero_point: Expression | _Plain | None = ..., strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., include_padding: bool = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def quantized_linear_average_pooling(x: Any, input_scale: Any, output_scale: Any, window_size: Sequence[int] | int, input_zero_point: Any | None = ..., output_zero_point: Any | None = ..., strides: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., include_padding: bool = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def quantized_linear_convolution(x: NDArray[Any] | _Plain, input_scale: NDArray[Any] | _Plain, filter: NDArray[Any] | _Plain, filter_scale: NDArray[Any] | _Plain, output_scale: NDArray[Any] | _Plain, input_zero_point: NDArray[Any] | _Plain | None = ..., filter_zero_point: NDArray[Any] | _Plain | None = ..., bias: NDArray[Any] | _Plain | None = ..., output_zero_point: NDArray[Any] | _Plain | None = ..., strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., group_count: int = ..., *, out: NDArray[Any] | None = None, device: _Device | None = None) -> NDArray[Any]:
    """QUANTIZED_LINEAR_CONVOLUTION: the convolution of quantised numbers, quantised: sx·sw·(Σ(x - zx)·(w - zw) + bias)/s, rounded, plus z."""
@overload
def quantized_linear_convolution(x: _A | _Plain, input_scale: _A | _Plain, filter: _A | _Plain, filter_scale: _A | _Plain, output_scale: _A | _Plain, input_zero_point: _A | _Plain | None = ..., filter_zero_point: _A | _Plain | None = ..., bias: _A | _Plain | None = ..., output_zero_point: _A | _Plain | None = ..., strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., group_count: int = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def quantized_linear_convolution(x: Expression | _Plain, input_scale: Expression | _Plain, filter: Expression | _Plain, filter_scale: Expression | _Plain, output_scale: Expression | _Plain, input_zero_point: Expression | _Plain | None = ..., filter_zero_point: Expression | _Plain | None = ..., bias: Expression | _Plain | None = ..., output_zero_point: Expression | _Plain | None = ..., strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., group_count: int = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def quantized_linear_convolution(x: Any, input_scale: Any, filter: Any, filter_scale: Any, output_scale: Any, input_zero_point: Any | None = ..., filter_zero_point: Any | None = ..., bias: Any | None = ..., output_zero_point: Any | None = ..., strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., group_count: int = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def quantized_linear_matrix_multiply(a: NDArray[Any] | _Plain, a_scale: NDArray[Any] | _Plain, b: NDArray[Any] | _Plain, b_scale: NDArray[Any] | _Plain, output_scale: NDArray[Any] | _Plain, a_zero_point: NDArray[Any] | _Plain | None = ..., b_zero_point: NDArray[Any] | _Plain | None = ..., output_zero_point: NDArray[Any] | _Plain | None = ..., *, out: NDArray[Any] | None = None, device: _Device | None = None) -> NDArray[Any]:
    """QUANTIZED_LINEAR_MATRIX_MULTIPLY: the product of quantised matrices, quantised: sa·sb·Σ(a - za)·(b - zb)/s, rounded, plus z."""
@overload
def quantized_linear_matrix_multiply(a: _A | _Plain, a_scale: _A | _Plain, b: _A | _Plain, b_scale: _A | _Plain, output_scale: _A | _Plain, a_zero_point: _A | _Plain | None = ..., b_zero_point: _A | _Plain | None = ..., output_zero_point: _A | _Plain | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def quantized_linear_matrix_multiply(a: Expression | _Plain, a_scale: Expression | _Plain, b: Expression | _Plain, b_scale: Expression | _Plain, output_scale: Expression | _Plain, a_zero_point: Expression | _Plain | None = ..., b_zero_point: Expression | _Plain | None = ..., output_zero_point: Expression | _Plain | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def quantized_linear_matrix_multiply(a: Any, a_scale: Any, b: Any, b_scale: Any, output_scale: Any, a_zero_point: Any | None = ..., b_zero_point: Any | None = ..., output_zero_point: Any | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def random_generator(input_state: NDArray[_S] | _Plain, output_sizes: Sequence[int], type_: _RandomGeneratorType = ..., output_state: bool = ..., *, out: Sequence[NDArray[Any]] | NDArray[_S] | None = None, device: _Device | None = None) -> _RandomGeneratorResults[NDArray[_S], NDArray[Any]]:
    """RANDOM_GENERATOR: random bits that follow from a state alone: the four words that Philox 4x32-10 makes of each counter in turn."""
@overload
def random_generator(input_state: _A | _Plain, output_sizes: Sequence[int], type_: _RandomGeneratorType = ..., output_state: bool = ..., *, out: Sequence[_A] | _A | None = None, device: _Device | None = None) -> _RandomGeneratorResults[_A, _A]: ...
@overload
def random_generator(input_state: Expression, output_sizes: Sequence[int], type_: _RandomGeneratorType = ..., output_state: bool = ..., *, out: None = None, device: None = None) -> _RandomGeneratorResults[Expression, Expression]: ...
@overload
def random_generator(input_state: Any, output_sizes: Sequence[int], type_: _RandomGeneratorType = ..., output_state: bool = ..., *, out: Any = None, device: _Device | None = None) -> _RandomGeneratorResults[Any, Any]: ...
@overload
def recip(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_RECIP: the reciprocal: 1/x."""
@overload
def recip(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def recip(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def recip(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def reduce(x: NDArray[Any] | _Plain, function: _ReduceFunction, axes: int | Sequence[int] | None = ..., *, out: NDArray[Any] | None = None, device: _Device | None = None) -> NDArray[Any]:
    """REDUCE: makes each row along Axes one number. The output keeps the dimensions, which have a size of 1 there."""
@overload
def reduce(x: _A | _Plain, function: _ReduceFunction, axes: int | Sequence[int] | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def reduce(x: Expression, function: _ReduceFunction, axes: int | Sequence[int] | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def reduce(x: Any, function: _ReduceFunction, axes: int | Sequence[int] | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def relu(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_RELU: the rectifier: max(0, x). NaN stays, which the documents leave open."""
@overload
def relu(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def relu(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def relu(x: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def relu_grad(x: NDArray[_S] | _Plain, input_gradient: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_RELU_GRAD: the gradient of RELU: the incoming one where x > 0, and else 0."""
@overload
def relu_grad(x: _A | _Plain, input_gradient: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def relu_grad(x: Expression | _Plain, input_gradient: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def relu_grad(x: Any, input_gradient: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def resample(x: NDArray[_S] | _Plain, scales: Sequence[float], interpolation_mode: _InterpolationMode = ..., output_sizes: Sequence[int] | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """RESAMPLE: A tensor in other sizes: its element o stands at (o + 0.5)/Scale - 0.5 of the input."""
@overload
def resample(x: _A | _Plain, scales: Sequence[float], interpolation_mode: _InterpolationMode = ..., output_sizes: Sequence[int] | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def resample(x: Expression, scales: Sequence[float], interpolation_mode: _InterpolationMode = ..., output_sizes: Sequence[int] | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def resample(x: Any, scales: Sequence[float], interpolation_mode: _InterpolationMode = ..., output_sizes: Sequence[int] | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def resample1(x: NDArray[_S] | _Plain, scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., output_sizes: Sequence[int] | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """RESAMPLE1: A tensor in other sizes: its element o stands at (o - OutputPixelOffset)/Scale - InputPixelOffset of the input."""
@overload
def resample1(x: _A | _Plain, scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., output_sizes: Sequence[int] | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def resample1(x: Expression, scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., output_sizes: Sequence[int] | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def resample1(x: Any, scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., output_sizes: Sequence[int] | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def resample2(x: NDArray[_S] | _Plain, scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., rounding_direction: _AxisDirection = ..., output_sizes: Sequence[int] | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """RESAMPLE2: A tensor in other sizes: its element o stands at (o - OutputPixelOffset)/Scale - InputPixelOffset of the input."""
@overload
def resample2(x: _A | _Plain, scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., rounding_direction: _AxisDirection = ..., output_sizes: Sequence[int] | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def resample2(x: Expression, scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., rounding_direction: _AxisDirection = ..., output_sizes: Sequence[int] | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def resample2(x: Any, scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., rounding_direction: _AxisDirection = ..., output_sizes: Sequence[int] | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def resample3(x: NDArray[_S] | _Plain, scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., rounding_direction: _AxisDirection = ..., antialiased: bool = ..., output_sizes: Sequence[int] | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """RESAMPLE3: A tensor in other sizes: its element o stands at (o - OutputPixelOffset)/Scale - InputPixelOffset of the input."""
@overload
def resample3(x: _A | _Plain, scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., rounding_direction: _AxisDirection = ..., antialiased: bool = ..., output_sizes: Sequence[int] | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def resample3(x: Expression, scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., rounding_direction: _AxisDirection = ..., antialiased: bool = ..., output_sizes: Sequence[int] | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def resample3(x: Any, scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., rounding_direction: _AxisDirection = ..., antialiased: bool = ..., output_sizes: Sequence[int] | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def resample_grad(input_gradient: NDArray[_S] | _Plain, output_sizes: Sequence[int], scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """RESAMPLE_GRAD: the gradient of RESAMPLE1 with respect to its input: the sum of the incoming one where each element went."""
@overload
def resample_grad(input_gradient: _A | _Plain, output_sizes: Sequence[int], scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def resample_grad(input_gradient: Expression, output_sizes: Sequence[int], scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def resample_grad(input_gradient: Any, output_sizes: Sequence[int], scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def resample_grad1(input_gradient: NDArray[_S] | _Plain, output_sizes: Sequence[int], scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., rounding_direction: _AxisDirection = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """RESAMPLE_GRAD1: the gradient of RESAMPLE2 with respect to its input: the sum of the incoming one where each element went."""
@overload
def resample_grad1(input_gradient: _A | _Plain, output_sizes: Sequence[int], scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., rounding_direction: _AxisDirection = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def resample_grad1(input_gradient: Expression, output_sizes: Sequence[int], scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., rounding_direction: _AxisDirection = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def resample_grad1(input_gradient: Any, output_sizes: Sequence[int], scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], interpolation_mode: _InterpolationMode = ..., rounding_direction: _AxisDirection = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def rnn(x: NDArray[_S] | _Plain, weight: NDArray[_S] | _Plain, recurrence: NDArray[_S] | _Plain, bias: NDArray[_S] | _Plain | None = ..., hidden_init: NDArray[_S] | _Plain | None = ..., sequence_lengths: NDArray[Any] | _Plain | None = ..., activation_descs: Sequence[_Activation] = ..., direction: _RecurrentNetworkDirection = ..., output_single: bool = ..., *, out: Sequence[NDArray[Any]] | NDArray[_S] | None = None, device: _Device | None = None) -> _RnnResults[NDArray[_S], NDArray[Any]]:
    """RNN: A recurrent layer: H = f(X·Wᵀ + H·Rᵀ + Wb + Rb) at each step."""
@overload
def rnn(x: _A | _Plain, weight: _A | _Plain, recurrence: _A | _Plain, bias: _A | _Plain | None = ..., hidden_init: _A | _Plain | None = ..., sequence_lengths: _A | _Plain | None = ..., activation_descs: Sequence[_Activation] = ..., direction: _RecurrentNetworkDirection = ..., output_single: bool = ..., *, out: Sequence[_A] | _A | None = None, device: _Device | None = None) -> _RnnResults[_A, _A]: ...
@overload
def rnn(x: Expression | _Plain, weight: Expression | _Plain, recurrence: Expression | _Plain, bias: Expression | _Plain | None = ..., hidden_init: Expression | _Plain | None = ..., sequence_lengths: Expression | _Plain | None = ..., activation_descs: Sequence[_Activation] = ..., direction: _RecurrentNetworkDirection = ..., output_single: bool = ..., *, out: None = None, device: None = None) -> _RnnResults[Expression, Expression]: ...
@overload
def rnn(x: Any, weight: Any, recurrence: Any, bias: Any | None = ..., hidden_init: Any | None = ..., sequence_lengths: Any | None = ..., activation_descs: Sequence[_Activation] = ..., direction: _RecurrentNetworkDirection = ..., output_single: bool = ..., *, out: Any = None, device: _Device | None = None) -> _RnnResults[Any, Any]: ...
@overload
def roi_align(x: NDArray[_S] | _Plain, roi: NDArray[_S] | _Plain, batch_indices: NDArray[Any] | _Plain, output_sizes: Sequence[int], reduction_function: _ReduceFunction = ..., interpolation_mode: _InterpolationMode = ..., spatial_scale_x: float = ..., spatial_scale_y: float = ..., out_of_bounds_input_value: float = ..., minimum_samples_per_output: int = ..., maximum_samples_per_output: int = ..., input_pixel_offset: float = ..., output_pixel_offset: float = ..., align_regions_to_corners: bool = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ROI_ALIGN1: regions of images, sampled between elements, each in the output's sizes."""
@overload
def roi_align(x: _A | _Plain, roi: _A | _Plain, batch_indices: _A | _Plain, output_sizes: Sequence[int], reduction_function: _ReduceFunction = ..., interpolation_mode: _InterpolationMode = ..., spatial_scale_x: float = ..., spatial_scale_y: float = ..., out_of_bounds_input_value: float = ..., minimum_samples_per_output: int = ..., maximum_samples_per_output: int = ..., input_pixel_offset: float = ..., output_pixel_offset: float = ..., align_regions_to_corners: bool = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def roi_align(x: Expression | _Plain, roi: Expression | _Plain, batch_indices: Expression | _Plain, output_sizes: Sequence[int], reduction_function: _ReduceFunction = ..., interpolation_mode: _InterpolationMode = ..., spatial_scale_x: float = ..., spatial_scale_y: float = ..., out_of_bounds_input_value: float = ..., minimum_samples_per_output: int = ..., maximum_samples_per_output: int = ..., input_pixel_offset: float = ..., output_pixel_offset: float = ..., align_regions_to_corners: bool = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def roi_align(x: Any, roi: Any, batch_indices: Any, output_sizes: Sequence[int], reduction_function: _ReduceFunction = ..., interpolation_mode: _InterpolationMode = ..., spatial_scale_x: float = ..., spatial_scale_y: float = ..., out_of_bounds_input_value: float = ..., minimum_samples_per_output: int = ..., maximum_samples_per_output: int = ..., input_pixel_offset: float = ..., output_pixel_offset: float = ..., align_regions_to_corners: bool = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def roi_align1(x: NDArray[_S] | _Plain, roi: NDArray[_S] | _Plain, batch_indices: NDArray[Any] | _Plain, output_sizes: Sequence[int], reduction_function: _ReduceFunction = ..., interpolation_mode: _InterpolationMode = ..., spatial_scale_x: float = ..., spatial_scale_y: float = ..., input_pixel_offset: float = ..., output_pixel_offset: float = ..., out_of_bounds_input_value: float = ..., minimum_samples_per_output: int = ..., maximum_samples_per_output: int = ..., align_regions_to_corners: bool = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ROI_ALIGN1: regions of images, sampled between elements, each in the output's sizes."""
@overload
def roi_align1(x: _A | _Plain, roi: _A | _Plain, batch_indices: _A | _Plain, output_sizes: Sequence[int], reduction_function: _ReduceFunction = ..., interpolation_mode: _InterpolationMode = ..., spatial_scale_x: float = ..., spatial_scale_y: float = ..., input_pixel_offset: float = ..., output_pixel_offset: float = ..., out_of_bounds_input_value: float = ..., minimum_samples_per_output: int = ..., maximum_samples_per_output: int = ..., align_regions_to_corners: bool = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def roi_align1(x: Expression | _Plain, roi: Expression | _Plain, batch_indices: Expression | _Plain, output_sizes: Sequence[int], reduction_function: _ReduceFunction = ..., interpolation_mode: _InterpolationMode = ..., spatial_scale_x: float = ..., spatial_scale_y: float = ..., input_pixel_offset: float = ..., output_pixel_offset: float = ..., out_of_bounds_input_value: float = ..., minimum_samples_per_output: int = ..., maximum_samples_per_output: int = ..., align_regions_to_corners: bool = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def roi_align1(x: Any, roi: Any, batch_indices: Any, output_sizes: Sequence[int], reduction_function: _ReduceFunction = ..., interpolation_mode: _InterpolationMode = ..., spatial_scale_x: float = ..., spatial_scale_y: float = ..., input_pixel_offset: float = ..., output_pixel_offset: float = ..., out_of_bounds_input_value: float = ..., minimum_samples_per_output: int = ..., maximum_samples_per_output: int = ..., align_regions_to_corners: bool = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def roi_align_grad(input_gradient: NDArray[_S] | _Plain, roi: NDArray[_S] | _Plain, batch_indices: NDArray[Any] | _Plain, x: NDArray[_S] | _Plain | None = ..., reduction_function: _ReduceFunction = ..., interpolation_mode: _InterpolationMode = ..., spatial_scale_x: float = ..., spatial_scale_y: float = ..., input_pixel_offset: float = ..., output_pixel_offset: float = ..., minimum_samples_per_output: int = ..., maximum_samples_per_output: int = ..., align_regions_to_corners: bool = ..., output_sizes: Sequence[int] | None = ..., output_roi_gradient: bool = ..., *, out: Sequence[NDArray[Any]] | NDArray[_S] | None = None, device: _Device | None = None) -> _RoiAlignGradResults[NDArray[_S], NDArray[Any]]:
    """ROI_ALIGN_GRAD: the gradients of ROI_ALIGN1 with respect to its images and to its regions."""
@overload
def roi_align_grad(input_gradient: _A | _Plain, roi: _A | _Plain, batch_indices: _A | _Plain, x: _A | _Plain | None = ..., reduction_function: _ReduceFunction = ..., interpolation_mode: _InterpolationMode = ..., spatial_scale_x: float = ..., spatial_scale_y: float = ..., input_pixel_offset: float = ..., output_pixel_offset: float = ..., minimum_samples_per_output: int = ..., maximum_samples_per_output: int = ..., align_regions_to_corners: bool = ..., output_sizes: Sequence[int] | None = ..., output_roi_gradient: bool = ..., *, out: Sequence[_A] | _A | None = None, device: _Device | None = None) -> _RoiAlignGradResults[_A, _A]: ...
@overload
def roi_align_grad(input_gradient: Expression | _Plain, roi: Expression | _Plain, batch_indices: Expression | _Plain, x: Expression | _Plain | None = ..., reduction_function: _ReduceFunction = ..., interpolation_mode: _InterpolationMode = ..., spatial_scale_x: float = ..., spatial_scale_y: float = ..., input_pixel_offset: float = ..., output_pixel_offset: float = ..., minimum_samples_per_output: int = ..., maximum_samples_per_output: int = ..., align_regions_to_corners: bool = ..., output_sizes: Sequence[int] | None = ..., output_roi_gradient: bool = ..., *, out: None = None, device: None = None) -> _RoiAlignGradResults[Expression, Expression]: ...
@overload
def roi_align_grad(input_gradient: Any, roi: Any, batch_indices: Any, x: Any | None = ..., reduction_function: _ReduceFunction = ..., interpolation_mode: _InterpolationMode = ..., spatial_scale_x: float = ..., spatial_scale_y: float = ..., input_pixel_offset: float = ..., output_pixel_offset: float = ..., minimum_samples_per_output: int = ..., maximum_samples_per_output: int = ..., align_regions_to_corners: bool = ..., output_sizes: Sequence[int] | None = ..., output_roi_gradient: bool = ..., *, out: Any = None, device: _Device | None = None) -> _RoiAlignGradResults[Any, Any]: ...
@overload
def roi_pooling(x: NDArray[_S] | _Plain, roi: NDArray[_S] | _Plain, pooled_size: Sequence[int], spatial_scale: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ROI_POOLING: the largest element of each part of each region of an image, a region being taken apart into PooledSize."""
@overload
def roi_pooling(x: _A | _Plain, roi: _A | _Plain, pooled_size: Sequence[int], spatial_scale: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def roi_pooling(x: Expression | _Plain, roi: Expression | _Plain, pooled_size: Sequence[int], spatial_scale: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def roi_pooling(x: Any, roi: Any, pooled_size: Sequence[int], spatial_scale: float = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def round(x: NDArray[_S] | _Plain, rounding_mode: _RoundingMode = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ROUND: rounds to an integer: halves to even numbers (the default), toward zero, or halves away from zero."""
@overload
def round(x: _A | _Plain, rounding_mode: _RoundingMode = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def round(x: Expression, rounding_mode: _RoundingMode = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def round(x: Any, rounding_mode: _RoundingMode = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def scaled_elu(x: NDArray[_S] | _Plain, alpha: float = ..., gamma: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_SCALED_ELU: the scaled exponential linear unit: Gamma·x where x > 0, and else Gamma·Alpha·(eˣ - 1)."""
@overload
def scaled_elu(x: _A | _Plain, alpha: float = ..., gamma: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def scaled_elu(x: Expression, alpha: float = ..., gamma: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def scaled_elu(x: Any, alpha: float = ..., gamma: float = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def scaled_tanh(x: NDArray[_S] | _Plain, alpha: float = ..., beta: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_SCALED_TANH: A hyperbolic tangent of two parameters: Alpha·tanh(Beta·x)."""
@overload
def scaled_tanh(x: _A | _Plain, alpha: float = ..., beta: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def scaled_tanh(x: Expression, alpha: float = ..., beta: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def scaled_tanh(x: Any, alpha: float = ..., beta: float = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def scatter(x: NDArray[_S] | _Plain, indices: NDArray[Any] | _Plain, updates: NDArray[_S] | _Plain, axis: int, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """SCATTER: A copy of the input with updates along an axis: Output[…, Indices[…, i, …], …] = Updates[…, i, …]."""
@overload
def scatter(x: _A | _Plain, indices: _A | _Plain, updates: _A | _Plain, axis: int, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def scatter(x: Expression | _Plain, indices: Expression | _Plain, updates: Expression | _Plain, axis: int, *, out: None = None, device: None = None) -> Expression: ...
@overload
def scatter(x: Any, indices: Any, updates: Any, axis: int, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def shrink(x: NDArray[_S] | _Plain, bias: float = ..., threshold: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_SHRINK: shrinks toward zero: x - Bias where x > Threshold, x + Bias where x < -Threshold, and else 0."""
@overload
def shrink(x: _A | _Plain, bias: float = ..., threshold: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def shrink(x: Expression, bias: float = ..., threshold: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def shrink(x: Any, bias: float = ..., threshold: float = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def sigmoid(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_SIGMOID: the logistic function: 1/(1 + e⁻ˣ)."""
@overload
def sigmoid(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def sigmoid(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def sigmoid(x: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def sign(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_SIGN: -1, 0 or 1 for a negative number, zero or a positive number. NaN stays, which the documents leave open."""
@overload
def sign(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def sign(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def sign(x: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def sin(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_SIN: the sine of an angle in radians: sin x."""
@overload
def sin(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def sin(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def sin(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def sinh(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_SINH: the hyperbolic sine: sinh x."""
@overload
def sinh(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def sinh(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def sinh(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def slice_grad(input_gradient: NDArray[_S] | _Plain, output_sizes: Sequence[int], input_window_offsets: Sequence[int], input_window_sizes: Sequence[int], input_window_strides: Sequence[int], *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """SLICE_GRAD: the gradient of SLICE1 with respect to its input: the incoming one where the slice took, and 0 elsewhere."""
@overload
def slice_grad(input_gradient: _A | _Plain, output_sizes: Sequence[int], input_window_offsets: Sequence[int], input_window_sizes: Sequence[int], input_window_strides: Sequence[int], *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def slice_grad(input_gradient: Expression, output_sizes: Sequence[int], input_window_offsets: Sequence[int], input_window_sizes: Sequence[int], input_window_strides: Sequence[int], *, out: None = None, device: None = None) -> Expression: ...
@overload
def slice_grad(input_gradient: Any, output_sizes: Sequence[int], input_window_offsets: Sequence[int], input_window_sizes: Sequence[int], input_window_strides: Sequence[int], *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def softmax(x: NDArray[_S] | _Plain, axis: int | Sequence[int] = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_SOFTMAX1: the softmax along Axes: eˣ/Σeˣ, with the largest element taken out first."""
@overload
def softmax(x: _A | _Plain, axis: int | Sequence[int] = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def softmax(x: Expression, axis: int | Sequence[int] = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def softmax(x: Any, axis: int | Sequence[int] = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def softmax1(x: NDArray[_S] | _Plain, axes: int | Sequence[int] = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_SOFTMAX1: the softmax along Axes: eˣ/Σeˣ, with the largest element taken out first."""
@overload
def softmax1(x: _A | _Plain, axes: int | Sequence[int] = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def softmax1(x: Expression, axes: int | Sequence[int] = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def softmax1(x: Any, axes: int | Sequence[int] = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def softplus(x: NDArray[_S] | _Plain, steepness: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_SOFTPLUS: A smooth rectifier: ln(1 + e^(Steepness·x))/Steepness. Before 6_4 Steepness is at least 1."""
@overload
def softplus(x: _A | _Plain, steepness: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def softplus(x: Expression, steepness: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def softplus(x: Any, steepness: float = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def softsign(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_SOFTSIGN: x/(1 + |x|)."""
@overload
def softsign(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def softsign(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def softsign(x: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def space_to_depth(x: NDArray[_S] | _Plain, block_size: int, order: _DepthSpaceOrder = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """SPACE_TO_DEPTH1: makes channels of the rows and columns of blocks: Output[n, k, h, w] = Input[n, c, h·B + i, w·B + j]."""
@overload
def space_to_depth(x: _A | _Plain, block_size: int, order: _DepthSpaceOrder = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def space_to_depth(x: Expression, block_size: int, order: _DepthSpaceOrder = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def space_to_depth(x: Any, block_size: int, order: _DepthSpaceOrder = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def space_to_depth1(x: NDArray[_S] | _Plain, block_size: int, order: _DepthSpaceOrder = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """SPACE_TO_DEPTH1: makes channels of the rows and columns of blocks: Output[n, k, h, w] = Input[n, c, h·B + i, w·B + j]."""
@overload
def space_to_depth1(x: _A | _Plain, block_size: int, order: _DepthSpaceOrder = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def space_to_depth1(x: Expression, block_size: int, order: _DepthSpaceOrder = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def space_to_depth1(x: Any, block_size: int, order: _DepthSpaceOrder = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def sqrt(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_SQRT: the square root: √x. It is NaN for negative numbers."""
@overload
def sqrt(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def sqrt(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def sqrt(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def subtract(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_SUBTRACT: the difference: a - b. Integers wrap."""
@overload
def subtract(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def subtract(a: Expression | _Plain, b: Expression | _Plain, *, out: None = None, device: None = None) -> Expression: ...
@overload
def subtract(a: Any, b: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def swish(x: NDArray[_S] | _Plain, sigmoid_input_scale: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_SWISH: the sigmoid linear unit: x·sigmoid(SigmoidInputScale·x)."""
@overload
def swish(x: _A | _Plain, sigmoid_input_scale: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def swish(x: Expression, sigmoid_input_scale: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def swish(x: Any, sigmoid_input_scale: float = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def tan(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_TAN: the tangent of an angle in radians: tan x."""
@overload
def tan(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def tan(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def tan(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def tanh(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_TANH: the hyperbolic tangent: tanh x."""
@overload
def tanh(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def tanh(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def tanh(x: Any, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def threshold(x: NDArray[_S] | _Plain, min: float, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_THRESHOLD: at least a bound: max(x, Min). Of integers the bound loses its fraction; NaN stays."""
@overload
def threshold(x: _A | _Plain, min: float, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def threshold(x: Expression, min: float, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def threshold(x: Any, min: float, scale_bias: _ScaleBias | None = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def thresholded_relu(x: NDArray[_S] | _Plain, alpha: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_THRESHOLDED_RELU: A rectifier with a threshold: x where x > Alpha, and else 0."""
@overload
def thresholded_relu(x: _A | _Plain, alpha: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def thresholded_relu(x: Expression, alpha: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def thresholded_relu(x: Any, alpha: float = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def tile(x: NDArray[_S] | _Plain, repeats: Sequence[int], *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """TILE: A tensor repeated Repeats times in each dimension."""
@overload
def tile(x: _A | _Plain, repeats: Sequence[int], *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def tile(x: Expression, repeats: Sequence[int], *, out: None = None, device: None = None) -> Expression: ...
@overload
def tile(x: Any, repeats: Sequence[int], *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def top_k(x: NDArray[_S] | _Plain, axis: int, k: int, axis_direction: _AxisDirection = ..., *, out: Sequence[NDArray[Any]] | NDArray[_S] | None = None, device: _Device | None = None) -> _TopK1Results[NDArray[_S], NDArray[Any]]:
    """TOP_K1: the K largest or smallest elements along an axis in their order, and their places along it."""
@overload
def top_k(x: _A | _Plain, axis: int, k: int, axis_direction: _AxisDirection = ..., *, out: Sequence[_A] | _A | None = None, device: _Device | None = None) -> _TopK1Results[_A, _A]: ...
@overload
def top_k(x: Expression, axis: int, k: int, axis_direction: _AxisDirection = ..., *, out: None = None, device: None = None) -> _TopK1Results[Expression, Expression]: ...
@overload
def top_k(x: Any, axis: int, k: int, axis_direction: _AxisDirection = ..., *, out: Any = None, device: _Device | None = None) -> _TopK1Results[Any, Any]: ...
@overload
def top_k1(x: NDArray[_S] | _Plain, axis: int, k: int, axis_direction: _AxisDirection = ..., *, out: Sequence[NDArray[Any]] | NDArray[_S] | None = None, device: _Device | None = None) -> _TopK1Results[NDArray[_S], NDArray[Any]]:
    """TOP_K1: the K largest or smallest elements along an axis in their order, and their places along it."""
@overload
def top_k1(x: _A | _Plain, axis: int, k: int, axis_direction: _AxisDirection = ..., *, out: Sequence[_A] | _A | None = None, device: _Device | None = None) -> _TopK1Results[_A, _A]: ...
@overload
def top_k1(x: Expression, axis: int, k: int, axis_direction: _AxisDirection = ..., *, out: None = None, device: None = None) -> _TopK1Results[Expression, Expression]: ...
@overload
def top_k1(x: Any, axis: int, k: int, axis_direction: _AxisDirection = ..., *, out: Any = None, device: _Device | None = None) -> _TopK1Results[Any, Any]: ...
@overload
def unfold(x: NDArray[_S] | _Plain, window_sizes: Sequence[int], strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """UNFOLD: the windows of a tensor {N, C, …}, each as a column of the output {N, C·window, windows}."""
@overload
def unfold(x: _A | _Plain, window_sizes: Sequence[int], strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def unfold(x: Expression, window_sizes: Sequence[int], strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def unfold(x: Any, window_sizes: Sequence[int], strides: Sequence[int] | int = ..., dilations: Sequence[int] | int = ..., start_padding: Sequence[int] | int = ..., end_padding: Sequence[int] | int = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def upsample_2d(x: NDArray[_S] | _Plain, scale_size: Sequence[int], interpolation_mode: _InterpolationMode = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """UPSAMPLE_2D: makes the rows and columns, the last two dimensions, a whole number of times as many."""
@overload
def upsample_2d(x: _A | _Plain, scale_size: Sequence[int], interpolation_mode: _InterpolationMode = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def upsample_2d(x: Expression, scale_size: Sequence[int], interpolation_mode: _InterpolationMode = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def upsample_2d(x: Any, scale_size: Sequence[int], interpolation_mode: _InterpolationMode = ..., *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def value_scale_2d(x: NDArray[_S] | _Plain, scale: float, bias: Sequence[float], *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """VALUE_SCALE_2D: Scale·x + Bias of the element's channel, rounded once. There are 1 or 3 channels, in the second dimension."""
@overload
def value_scale_2d(x: _A | _Plain, scale: float, bias: Sequence[float], *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def value_scale_2d(x: Expression, scale: float, bias: Sequence[float], *, out: None = None, device: None = None) -> Expression: ...
@overload
def value_scale_2d(x: Any, scale: float, bias: Sequence[float], *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def activation_softmax(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_SOFTMAX: the softmax of the last dimension: eˣ/Σeˣ, with the largest element taken out first."""
@overload
def activation_softmax(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def activation_softmax(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def activation_softmax(x: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def activation_log_softmax(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_LOG_SOFTMAX: the logarithm of the softmax of the last dimension: x - ln Σeˣ, with the largest element taken out first."""
@overload
def activation_log_softmax(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def activation_log_softmax(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def activation_log_softmax(x: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def activation_hardmax(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_HARDMAX: 1 at the first of the largest elements of the last dimension, and 0 elsewhere."""
@overload
def activation_hardmax(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def activation_hardmax(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def activation_hardmax(x: Any, *, out: Any = None, device: _Device | None = None) -> Any: ...
@overload
def slice(x: NDArray[_S] | _Plain, offsets: Sequence[int] | int, sizes: Sequence[int] | int, strides: Sequence[int] | int | None = ..., *, out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """SLICE: `sizes` elements from `offsets` on, `strides` apart (1 where not given), in each dimension."""
@overload
def slice(x: _A, offsets: Sequence[int] | int, sizes: Sequence[int] | int, strides: Sequence[int] | int | None = ..., *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def slice(x: Expression, offsets: Sequence[int] | int, sizes: Sequence[int] | int, strides: Sequence[int] | int | None = ..., *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def slice(x: Any, offsets: Sequence[int] | int, sizes: Sequence[int] | int, strides: Sequence[int] | int | None = ..., *, out: Any = ..., device: _Device | None = ...) -> Any: ...
@overload
def slice1(x: NDArray[_S] | _Plain, input_window_offsets: Sequence[int] | int, input_window_sizes: Sequence[int] | int, input_window_strides: Sequence[int] | int | None = ..., output_sizes: Sequence[int] | int | None = ..., *, out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """SLICE1: from a window of `x`, every stride-th element; a negative stride walks from the window's end."""
@overload
def slice1(x: _A, input_window_offsets: Sequence[int] | int, input_window_sizes: Sequence[int] | int, input_window_strides: Sequence[int] | int | None = ..., output_sizes: Sequence[int] | int | None = ..., *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def slice1(x: Expression, input_window_offsets: Sequence[int] | int, input_window_sizes: Sequence[int] | int, input_window_strides: Sequence[int] | int | None = ..., output_sizes: Sequence[int] | int | None = ..., *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def slice1(x: Any, input_window_offsets: Sequence[int] | int, input_window_sizes: Sequence[int] | int, input_window_strides: Sequence[int] | int | None = ..., output_sizes: Sequence[int] | int | None = ..., *, out: Any = ..., device: _Device | None = ...) -> Any: ...
@overload
def gather_nd(x: NDArray[_S] | _Plain, indices: Any, batch_dimension_count: int = ..., index_mode: _IndexMode = ..., *, out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """GATHER_ND, and GATHER_ND1 with batch dimensions: the elements or blocks of `x` that tuples point at."""
@overload
def gather_nd(x: _A, indices: Any, batch_dimension_count: int = ..., index_mode: _IndexMode = ..., *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def gather_nd(x: Expression, indices: Expression | _Plain, batch_dimension_count: int = ..., index_mode: _IndexMode = ..., *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def gather_nd(x: Any, indices: Any, batch_dimension_count: int = ..., index_mode: _IndexMode = ..., *, out: Any = ..., device: _Device | None = ...) -> Any: ...
@overload
def gather_nd1(x: NDArray[_S] | _Plain, indices: Any, batch_dimension_count: int = ..., index_mode: _IndexMode = ..., *, out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """GATHER_ND1: the elements or blocks of `x` that tuples point at, within each batch."""
@overload
def gather_nd1(x: _A, indices: Any, batch_dimension_count: int = ..., index_mode: _IndexMode = ..., *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def gather_nd1(x: Expression, indices: Expression | _Plain, batch_dimension_count: int = ..., index_mode: _IndexMode = ..., *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def gather_nd1(x: Any, indices: Any, batch_dimension_count: int = ..., index_mode: _IndexMode = ..., *, out: Any = ..., device: _Device | None = ...) -> Any: ...
@overload
def gather(x: NDArray[_S] | _Plain, indices: Any, axis: int = ..., index_mode: _IndexMode = ..., *, out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """GATHER: the elements or blocks of `x` that indices point at along an axis, as `numpy.take` has it."""
@overload
def gather(x: _A, indices: Any, axis: int = ..., index_mode: _IndexMode = ..., *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def gather(x: Expression, indices: Expression | _Plain, axis: int = ..., index_mode: _IndexMode = ..., *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def gather(x: Any, indices: Any, axis: int = ..., index_mode: _IndexMode = ..., *, out: Any = ..., device: _Device | None = ...) -> Any: ...
@overload
def gather_elements(x: NDArray[_S] | _Plain, indices: Any, axis: int, index_mode: _IndexMode = ..., *, out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """GATHER_ELEMENTS: along an axis of `x`, the element that each index points at, as `numpy.take_along_axis` has it."""
@overload
def gather_elements(x: _A, indices: Any, axis: int, index_mode: _IndexMode = ..., *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def gather_elements(x: Expression, indices: Expression | _Plain, axis: int, index_mode: _IndexMode = ..., *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def gather_elements(x: Any, indices: Any, axis: int, index_mode: _IndexMode = ..., *, out: Any = ..., device: _Device | None = ...) -> Any: ...
@overload
def scatter_nd(x: NDArray[_S] | _Plain, indices: Any, updates: Any, *, out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """SCATTER_ND: a copy of `x` with elements or blocks of `updates` at the places that tuples point at."""
@overload
def scatter_nd(x: _A, indices: Any, updates: Any, *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def scatter_nd(x: Expression, indices: Expression | _Plain, updates: Any, *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def scatter_nd(x: Any, indices: Any, updates: Any, *, out: Any = ..., device: _Device | None = ...) -> Any: ...
@overload
def cast(x: NDArray[_S] | _Plain, data_type: _DataType, *, out: Any = ..., device: _Device | None = ...) -> NDArray[Any]:
    """CAST: every element as a number of another type."""
@overload
def cast(x: _A, data_type: _DataType, *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def cast(x: Expression, data_type: _DataType, *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def cast(x: Any, data_type: _DataType, *, out: Any = ..., device: _Device | None = ...) -> Any: ...
@overload
def join(tensors: Sequence[NDArray[_S]], axis: int = ..., *, out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """JOIN: tensors one after the other along an axis, as `numpy.concatenate` has it."""
@overload
def join(tensors: Sequence[_A], axis: int = ..., *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def join(tensors: Sequence[Expression], axis: int = ..., *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def join(tensors: Sequence[Any], axis: int = ..., *, out: Any = ..., device: _Device | None = ...) -> Any: ...
@overload
def split(x: NDArray[_S] | _Plain, output_axis_sizes: Sequence[int] | int, axis: int = ..., *, out: Any = ..., device: _Device | None = ...) -> tuple[NDArray[_S], ...]:
    """SPLIT: parts of `x` along an axis, in a tuple: of these sizes, or a number of equal ones as `numpy.split` has it."""
@overload
def split(x: _A, output_axis_sizes: Sequence[int] | int, axis: int = ..., *, out: Any = ..., device: _Device | None = ...) -> tuple[_A, ...]: ...
@overload
def split(x: Expression, output_axis_sizes: Sequence[int] | int, axis: int = ..., *, out: None = ..., device: None = ...) -> tuple[Expression, ...]: ...
@overload
def split(x: Any, output_axis_sizes: Sequence[int] | int, axis: int = ..., *, out: Any = ..., device: _Device | None = ...) -> tuple[Any, ...]: ...
@overload
def reverse_subsequences(x: NDArray[_S] | _Plain, sequence_lengths: Any, axis: int, *, out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """REVERSE_SUBSEQUENCES: the first so many elements along an axis reversed, the rest as they are."""
@overload
def reverse_subsequences(x: _A, sequence_lengths: Any, axis: int, *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def reverse_subsequences(x: Expression, sequence_lengths: Expression | _Plain, axis: int, *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def reverse_subsequences(x: Any, sequence_lengths: Any, axis: int, *, out: Any = ..., device: _Device | None = ...) -> Any: ...
@overload
def fill_value_constant(sizes: Sequence[int] | int, value: float, data_type: _DataType = ..., *, out: Any = ..., device: _Device | None = ..., graph: None = ...) -> Any:
    """FILL_VALUE_CONSTANT: an array of one number, as `numpy.full` has it; an expression, where a graph is given."""
@overload
def fill_value_constant(sizes: Sequence[int] | int, value: float, data_type: _DataType = ..., *, out: None = ..., device: None = ..., graph: Graph) -> Expression: ...
@overload
def fill_value_sequence(sizes: Sequence[int] | int, value_start: float, value_delta: float, data_type: _DataType = ..., *, allow_float64: bool = ..., out: Any = ..., device: _Device | None = ..., graph: None = ...) -> Any:
    """FILL_VALUE_SEQUENCE: start, start + delta, start + 2·delta and so on, in the elements' order."""
@overload
def fill_value_sequence(sizes: Sequence[int] | int, value_start: float, value_delta: float, data_type: _DataType = ..., *, allow_float64: bool = ..., out: None = ..., device: None = ..., graph: Graph) -> Expression: ...
@overload
def diagonal_matrix(sizes: Sequence[int] | int, offset: int = ..., value: float = ..., data_type: _DataType = ..., *, out: Any = ..., device: _Device | None = ..., graph: None = ...) -> Any:
    """DIAGONAL_MATRIX: matrices with a number on a diagonal, `offset` columns right of the main one, and 0 elsewhere."""
@overload
def diagonal_matrix(sizes: Sequence[int] | int, offset: int = ..., value: float = ..., data_type: _DataType = ..., *, out: None = ..., device: None = ..., graph: Graph) -> Expression: ...
@overload
def diagonal_matrix1(x: NDArray[_S] | _Plain = ..., diagonal_fill_begin: int = ..., diagonal_fill_end: int = ..., value: float = ..., sizes: Sequence[int] | int | None = ..., data_type: _DataType = ..., *, out: Any = ..., device: _Device | None = ..., graph: None = ...) -> NDArray[_S]:
    """DIAGONAL_MATRIX1: matrices with a number on some diagonals, and elsewhere `x`; or 0, where `sizes` are given."""
@overload
def diagonal_matrix1(x: _A = ..., diagonal_fill_begin: int = ..., diagonal_fill_end: int = ..., value: float = ..., sizes: Sequence[int] | int | None = ..., data_type: _DataType = ..., *, out: Any = ..., device: _Device | None = ..., graph: None = ...) -> _A: ...
@overload
def diagonal_matrix1(x: Expression = ..., diagonal_fill_begin: int = ..., diagonal_fill_end: int = ..., value: float = ..., sizes: Sequence[int] | int | None = ..., data_type: _DataType = ..., *, out: None = ..., device: None = ..., graph: None = ...) -> Expression: ...
@overload
def diagonal_matrix1(x: Any = ..., diagonal_fill_begin: int = ..., diagonal_fill_end: int = ..., value: float = ..., sizes: Sequence[int] | int | None = ..., data_type: _DataType = ..., *, out: Any = ..., device: _Device | None = ..., graph: None = ...) -> Any: ...
@overload
def cumulative_summation(x: NDArray[_S] | _Plain, axis: int, axis_direction: _AxisDirection = ..., has_exclusive_sum: bool = ..., *, allow_float64: bool = ..., out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """CUMULATIVE_SUMMATION: the running sum along an axis. `out=x` works in place."""
@overload
def cumulative_summation(x: _A, axis: int, axis_direction: _AxisDirection = ..., has_exclusive_sum: bool = ..., *, allow_float64: bool = ..., out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def cumulative_summation(x: Expression, axis: int, axis_direction: _AxisDirection = ..., has_exclusive_sum: bool = ..., *, allow_float64: bool = ..., out: None = ..., device: None = ...) -> Expression: ...
@overload
def cumulative_summation(x: Any, axis: int, axis_direction: _AxisDirection = ..., has_exclusive_sum: bool = ..., *, allow_float64: bool = ..., out: Any = ..., device: _Device | None = ...) -> Any: ...
@overload
def cumulative_product(x: NDArray[_S] | _Plain, axis: int, axis_direction: _AxisDirection = ..., has_exclusive_product: bool = ..., *, allow_float64: bool = ..., out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """CUMULATIVE_PRODUCT: the running product along an axis. `out=x` works in place."""
@overload
def cumulative_product(x: _A, axis: int, axis_direction: _AxisDirection = ..., has_exclusive_product: bool = ..., *, allow_float64: bool = ..., out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def cumulative_product(x: Expression, axis: int, axis_direction: _AxisDirection = ..., has_exclusive_product: bool = ..., *, allow_float64: bool = ..., out: None = ..., device: None = ...) -> Expression: ...
@overload
def cumulative_product(x: Any, axis: int, axis_direction: _AxisDirection = ..., has_exclusive_product: bool = ..., *, allow_float64: bool = ..., out: Any = ..., device: _Device | None = ...) -> Any: ...
@overload
def dequantize(x: NDArray[_S] | _Plain, scale: Any, zero_point: Any = ..., data_type: _DataType = ..., output_sizes: Sequence[int] | None = ..., *, out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """DEQUANTIZE: (x - zero_point)·scale, with a scale and a zero point for each block of `x`, in the scale's type."""
@overload
def dequantize(x: _A, scale: Any, zero_point: Any = ..., data_type: _DataType = ..., output_sizes: Sequence[int] | None = ..., *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def dequantize(x: Expression, scale: Any, zero_point: Any = ..., data_type: _DataType = ..., output_sizes: Sequence[int] | None = ..., *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def dequantize(x: Any, scale: Any, zero_point: Any = ..., data_type: _DataType = ..., output_sizes: Sequence[int] | None = ..., *, out: Any = ..., device: _Device | None = ...) -> Any: ...
@overload
def quantize(x: NDArray[_S] | _Plain, scale: Any, zero_point: Any = ..., data_type: _DataType = ..., *, out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """QUANTIZE: round(x/scale) + zero_point, with a scale and a zero point for each block of `x`, halves to even."""
@overload
def quantize(x: _A, scale: Any, zero_point: Any = ..., data_type: _DataType = ..., *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def quantize(x: Expression, scale: Any, zero_point: Any = ..., data_type: _DataType = ..., *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def quantize(x: Any, scale: Any, zero_point: Any = ..., data_type: _DataType = ..., *, out: Any = ..., device: _Device | None = ...) -> Any: ...
def all(x: Any, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, device: _Device | None = ..., dim: int | Sequence[int] | None = ..., dims: int | Sequence[int] | None = ..., keepdim: bool = ...) -> Any:
    """Whether all elements along axes, or of all, are not 0."""
def amax(x: Any, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, out: Any = ..., device: _Device | None = ..., dim: int | Sequence[int] | None = ..., dims: int | Sequence[int] | None = ..., keepdim: bool = ...) -> Any:
    """The largest element along axes, or of all: REDUCE. (`max` is DirectML's, of two tensors.)"""
def amin(x: Any, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, out: Any = ..., device: _Device | None = ..., dim: int | Sequence[int] | None = ..., dims: int | Sequence[int] | None = ..., keepdim: bool = ...) -> Any:
    """The smallest element along axes, or of all: REDUCE. (`min` is DirectML's, of two tensors.)"""
def any(x: Any, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, device: _Device | None = ..., dim: int | Sequence[int] | None = ..., dims: int | Sequence[int] | None = ..., keepdim: bool = ...) -> Any:
    """Whether any element along axes, or of all, is not 0."""
def argsort(x: Any, axis: int = ..., descending: bool = ..., *, device: _Device | None = ..., dim: int = ..., dims: int = ...) -> Any:
    """The places of the elements along an axis in order, INT64; of equal ones the first comes first: TOP_K1."""
def average(x: Any, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, out: Any = ..., device: _Device | None = ..., dim: int | Sequence[int] | None = ..., dims: int | Sequence[int] | None = ..., keepdim: bool = ...) -> Any:
    """The mean along axes, or of all elements: REDUCE. (`mean` is DirectML's, of two tensors.)"""
def cat(tensors: Sequence[Any], dim: int = ..., *, out: Any = ..., device: _Device | None = ..., axis: int = ...) -> Any:
    """PyTorch's name for `concatenate`."""
def concatenate(tensors: Sequence[Any], axis: int | None = ..., *, out: Any = ..., device: _Device | None = ..., dim: int | None = ..., dims: int | None = ...) -> Any:
    """Tensors one after the other along an axis: JOIN. With `axis=None` all elements, in order."""
def count_nonzero(x: Any, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, device: _Device | None = ..., dim: int | Sequence[int] | None = ..., dims: int | Sequence[int] | None = ..., keepdim: bool = ...) -> Any:
    """The number of elements that are not 0, along axes or of all, INT64: REDUCE."""
def cumprod(x: Any, axis: int | None = ..., *, out: Any = ..., device: _Device | None = ..., dim: int | None = ..., dims: int | None = ...) -> Any:
    """Running products along an axis, or of all elements in order: CUMULATIVE_PRODUCT."""
def cumsum(x: Any, axis: int | None = ..., *, out: Any = ..., device: _Device | None = ..., dim: int | None = ..., dims: int | None = ...) -> Any:
    """Running sums along an axis, or of all elements in order: CUMULATIVE_SUMMATION."""
def expand_dims(x: Any, axis: int | Sequence[int], *, dim: int | Sequence[int] = ..., dims: int | Sequence[int] = ...) -> Any:
    """The same elements with dimensions of size 1 at these axes of the result."""
def flip(x: Any, axis: int | Sequence[int] | None = ..., *, out: Any = ..., device: _Device | None = ..., dim: int | Sequence[int] | None = ..., dims: int | Sequence[int] | None = ...) -> Any:
    """The order of elements reversed along these axes, or all: SLICE1 with strides of -1."""
def logsumexp(x: Any, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, out: Any = ..., device: _Device | None = ..., dim: int | Sequence[int] | None = ..., dims: int | Sequence[int] | None = ..., keepdim: bool = ...) -> Any:
    """The logarithm of the sum of exponentials along axes, or of all elements: REDUCE."""
def permute(x: Any, dims: Sequence[int], *, axes: Sequence[int] = ...) -> Any:
    """PyTorch's name for `transpose`."""
def prod(x: Any, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, dtype: Any = ..., out: Any = ..., device: _Device | None = ..., dim: int | Sequence[int] | None = ..., dims: int | Sequence[int] | None = ..., keepdim: bool = ...) -> Any:
    """The product along axes, or of all elements: REDUCE. Integers are multiplied in 64 bits, if no type is said."""
def repeat(x: Any, repeats: int, axis: int | None = ..., *, out: Any = ..., device: _Device | None = ..., dim: int | None = ..., dims: int | None = ...) -> Any:
    """Each element so many times, along an axis or of all in order: ELEMENT_WISE_IDENTITY. (`tile` repeats the whole.)"""
def roll(x: Any, shift: int, axis: int | None = ..., *, out: Any = ..., device: _Device | None = ..., dim: int | None = ..., dims: int | None = ...) -> Any:
    """The elements moved along an axis, those that leave it entering at its start; of all in order, if not said: JOIN."""
def squeeze(x: Any, axis: int | Sequence[int] | None = ..., *, dim: int | Sequence[int] | None = ..., dims: int | Sequence[int] | None = ...) -> Any:
    """The same elements without these dimensions, which have size 1; without all that have, where none is named."""
def stack(tensors: Sequence[Any], axis: int = ..., *, out: Any = ..., device: _Device | None = ..., dim: int = ..., dims: int = ...) -> Any:
    """Tensors of the same sizes along a new axis: JOIN."""
def std(x: Any, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., ddof: int = ..., *, out: Any = ..., device: _Device | None = ..., dim: int | Sequence[int] | None = ..., dims: int | Sequence[int] | None = ..., keepdim: bool = ..., correction: int = ...) -> Any:
    """The standard deviation along axes, or of all elements: the root of `var`."""
def sum(x: Any, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., *, dtype: Any = ..., out: Any = ..., device: _Device | None = ..., dim: int | Sequence[int] | None = ..., dims: int | Sequence[int] | None = ..., keepdim: bool = ...) -> Any:
    """The sum along axes, or of all elements: REDUCE. Integers are added in 64 bits, if no type is said."""
def take(x: Any, indices: Any, axis: int | None = ..., *, out: Any = ..., device: _Device | None = ..., dim: int | None = ..., dims: int | None = ...) -> Any:
    """Elements at indices along an axis, or of all in order: GATHER."""
def take_along_axis(x: Any, indices: Any, axis: int = ..., *, out: Any = ..., device: _Device | None = ..., dim: int = ..., dims: int = ...) -> Any:
    """For each place the element at an index along an axis: GATHER_ELEMENTS."""
def topk(x: Any, k: int, dim: int = ..., largest: bool = ..., *, device: _Device | None = ..., axis: int = ...) -> Any:
    """PyTorch's call of `top_k`: the largest elements along an axis, or the smallest, and their places: TOP_K1."""
def transpose(x: Any, axes: Sequence[int] | None = ..., *, dims: Sequence[int] | None = ...) -> Any:
    """The same elements with the dimensions in another order: reversed, where none is given."""
def unsqueeze(x: Any, dim: int, *, axis: int = ...) -> Any:
    """PyTorch's name for `expand_dims`."""
def var(x: Any, axis: int | Sequence[int] | None = ..., keepdims: bool = ..., ddof: int = ..., *, out: Any = ..., device: _Device | None = ..., dim: int | Sequence[int] | None = ..., dims: int | Sequence[int] | None = ..., keepdim: bool = ..., correction: int = ...) -> Any:
    """The variance along axes, or of all elements; `ddof=1` divides by one less than the count, as PyTorch does."""
absolute = abs
arccos = acos
arccosh = acosh
arcsin = asin
arcsinh = asinh
arctan = atan
arctan2 = atan_yx
arctanh = atanh
atan2 = atan_yx
bitwise_and = bit_and
bitwise_not = bit_not
bitwise_or = bit_or
bitwise_xor = bit_xor
clamp = clip
div = divide
fmod = modulus_truncate
invert = bit_not
left_shift = bit_shift_left
maximum = max
minimum = min
mod = modulus_floor
mul = multiply
neg = negate
negative = negate
power = pow
prelu = parameterized_relu
reciprocal = recip
remainder = modulus_floor
right_shift = bit_shift_right
selu = scaled_elu
silu = swish
sub = subtract
true_divide = divide
element_wise_identity = identity
element_wise_abs = abs
element_wise_negate = negate
element_wise_sign = sign
element_wise_recip = recip
element_wise_sqrt = sqrt
element_wise_ceil = ceil
element_wise_floor = floor
element_wise_round = round
element_wise_add = add
element_wise_add1 = add1
element_wise_subtract = subtract
element_wise_multiply = multiply
element_wise_divide = divide
element_wise_modulus_truncate = modulus_truncate
element_wise_modulus_floor = modulus_floor
element_wise_difference_square = difference_square
element_wise_mean = mean
element_wise_max = max
element_wise_min = min
element_wise_exp = exp
element_wise_log = log
element_wise_erf = erf
element_wise_sin = sin
element_wise_cos = cos
element_wise_tan = tan
element_wise_asin = asin
element_wise_acos = acos
element_wise_atan = atan
element_wise_sinh = sinh
element_wise_cosh = cosh
element_wise_tanh = tanh
element_wise_asinh = asinh
element_wise_acosh = acosh
element_wise_atanh = atanh
element_wise_atan_yx = atan_yx
element_wise_constant_pow = constant_pow
element_wise_pow = pow
element_wise_threshold = threshold
element_wise_clip = clip
element_wise_clip1 = clip1
element_wise_clip_grad = clip_grad
element_wise_clip_grad1 = clip_grad1
element_wise_logical_equals = logical_equals
element_wise_logical_greater_than = logical_greater_than
element_wise_logical_greater_than_or_equal = logical_greater_than_or_equal
element_wise_logical_less_than = logical_less_than
element_wise_logical_less_than_or_equal = logical_less_than_or_equal
element_wise_logical_not = logical_not
element_wise_logical_and = logical_and
element_wise_logical_or = logical_or
element_wise_logical_xor = logical_xor
element_wise_is_nan = is_nan
element_wise_is_infinity = is_infinity
element_wise_if = if_
element_wise_bit_not = bit_not
element_wise_bit_and = bit_and
element_wise_bit_or = bit_or
element_wise_bit_xor = bit_xor
element_wise_bit_shift_left = bit_shift_left
element_wise_bit_shift_right = bit_shift_right
element_wise_bit_count = bit_count
activation_celu = celu
activation_elu = elu
activation_gelu = gelu
activation_hard_sigmoid = hard_sigmoid
activation_hard_swish = hard_swish
activation_leaky_relu = leaky_relu
activation_linear = linear
activation_parameterized_relu = parameterized_relu
activation_parametric_softplus = parametric_softplus
activation_relu = relu
activation_scaled_elu = scaled_elu
activation_scaled_tanh = scaled_tanh
activation_shrink = shrink
activation_sigmoid = sigmoid
activation_softplus = softplus
activation_softsign = softsign
activation_swish = swish
activation_thresholded_relu = thresholded_relu
activation_relu_grad = relu_grad
activation_softmax1 = softmax1
activation_log_softmax1 = log_softmax1
activation_hardmax1 = hardmax1
element_wise_quantize_linear = quantize_linear
element_wise_dequantize_linear = dequantize_linear
element_wise_quantized_linear_add = quantized_linear_add

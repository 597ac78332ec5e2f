# mypy: disable-error-code="overload-overlap"
# Numbers alone are arrays, and with an expression belong to its graph.
"""What `import anydml` gives. Written by `python -m scripts.write_stub`."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from anydml.runtime.device import DeviceName

from anydml.builder import Expression as Expression, Graph as Graph
from anydml.engines.threads import get_num_threads as get_num_threads, set_num_threads as set_num_threads
from anydml.enums import AxisDirection as AxisDirection, DataType as DataType, ExecutionFlags as ExecutionFlags, Feature as Feature, FeatureLevel as FeatureLevel, IndexMode as IndexMode, IsInfinityMode as IsInfinityMode, RoundingMode as RoundingMode, TensorFlags as TensorFlags
from anydml.errors import BindingError as BindingError, DescriptionError as DescriptionError, DmlError as DmlError, EngineMissingError as EngineMissingError, Fault as Fault, FeatureLevelError as FeatureLevelError, IndexRangeError as IndexRangeError, ModelError as ModelError, ModelFileError as ModelFileError, Place as Place, UnsupportedError as UnsupportedError
from anydml.graph.description import GraphDesc as GraphDesc
from anydml.graph.nodes import ConstantNode as ConstantNode, InputEdge as InputEdge, IntermediateEdge as IntermediateEdge, OperatorNode as OperatorNode, OutputEdge as OutputEdge
from anydml.operator_type import OperatorType as OperatorType
from anydml.operators import FusedActivation as FusedActivation, LevelSupport as LevelSupport, OPERATORS as OPERATORS, OperatorDesc as OperatorDesc, Report as Report, ScaleBias as ScaleBias, TensorSupport as TensorSupport, support as support
from anydml.operators.activations import ActivationCelu as ActivationCelu, ActivationElu as ActivationElu, ActivationGelu as ActivationGelu, ActivationHardSigmoid as ActivationHardSigmoid, ActivationHardSwish as ActivationHardSwish, ActivationLeakyRelu as ActivationLeakyRelu, ActivationLinear as ActivationLinear, ActivationParameterizedRelu as ActivationParameterizedRelu, ActivationParametricSoftplus as ActivationParametricSoftplus, ActivationRelu as ActivationRelu, ActivationReluGrad as ActivationReluGrad, ActivationScaledElu as ActivationScaledElu, ActivationScaledTanh as ActivationScaledTanh, ActivationShrink as ActivationShrink, ActivationSigmoid as ActivationSigmoid, ActivationSoftplus as ActivationSoftplus, ActivationSoftsign as ActivationSoftsign, ActivationSwish as ActivationSwish, ActivationTanh as ActivationTanh, ActivationThresholdedRelu as ActivationThresholdedRelu
from anydml.operators.arithmetic import ElementWiseAbs as ElementWiseAbs, ElementWiseAdd as ElementWiseAdd, ElementWiseAdd1 as ElementWiseAdd1, ElementWiseCeil as ElementWiseCeil, ElementWiseDifferenceSquare as ElementWiseDifferenceSquare, ElementWiseDivide as ElementWiseDivide, ElementWiseFloor as ElementWiseFloor, ElementWiseMax as ElementWiseMax, ElementWiseMean as ElementWiseMean, ElementWiseMin as ElementWiseMin, ElementWiseModulusFloor as ElementWiseModulusFloor, ElementWiseModulusTruncate as ElementWiseModulusTruncate, ElementWiseMultiply as ElementWiseMultiply, ElementWiseNegate as ElementWiseNegate, ElementWiseRecip as ElementWiseRecip, ElementWiseRound as ElementWiseRound, ElementWiseSign as ElementWiseSign, ElementWiseSqrt as ElementWiseSqrt, ElementWiseSubtract as ElementWiseSubtract
from anydml.operators.bitwise import ElementWiseBitAnd as ElementWiseBitAnd, ElementWiseBitCount as ElementWiseBitCount, ElementWiseBitNot as ElementWiseBitNot, ElementWiseBitOr as ElementWiseBitOr, ElementWiseBitShiftLeft as ElementWiseBitShiftLeft, ElementWiseBitShiftRight as ElementWiseBitShiftRight, ElementWiseBitXor as ElementWiseBitXor
from anydml.operators.copies import ActivationIdentity as ActivationIdentity, Cast as Cast, ElementWiseIdentity as ElementWiseIdentity
from anydml.operators.cumulative import CumulativeProduct as CumulativeProduct, CumulativeSummation as CumulativeSummation
from anydml.operators.fill import FillValueConstant as FillValueConstant, FillValueSequence as FillValueSequence
from anydml.operators.gather import GatherND as GatherND, GatherND1 as GatherND1
from anydml.operators.gather_along import Gather as Gather, GatherElements as GatherElements
from anydml.operators.join import Join as Join, Split as Split
from anydml.operators.limits import ElementWiseClip as ElementWiseClip, ElementWiseClip1 as ElementWiseClip1, ElementWiseClipGrad as ElementWiseClipGrad, ElementWiseClipGrad1 as ElementWiseClipGrad1, ElementWiseThreshold as ElementWiseThreshold
from anydml.operators.logic import ElementWiseIf as ElementWiseIf, ElementWiseIsInfinity as ElementWiseIsInfinity, ElementWiseIsNaN as ElementWiseIsNaN, ElementWiseLogicalAnd as ElementWiseLogicalAnd, ElementWiseLogicalEquals as ElementWiseLogicalEquals, ElementWiseLogicalGreaterThan as ElementWiseLogicalGreaterThan, ElementWiseLogicalGreaterThanOrEqual as ElementWiseLogicalGreaterThanOrEqual, ElementWiseLogicalLessThan as ElementWiseLogicalLessThan, ElementWiseLogicalLessThanOrEqual as ElementWiseLogicalLessThanOrEqual, ElementWiseLogicalNot as ElementWiseLogicalNot, ElementWiseLogicalOr as ElementWiseLogicalOr, ElementWiseLogicalXor as ElementWiseLogicalXor
from anydml.operators.reverse import ReverseSubsequences as ReverseSubsequences
from anydml.operators.scaling import ValueScale2D as ValueScale2D
from anydml.operators.slice import Slice as Slice, Slice1 as Slice1
from anydml.operators.transcendental import ElementWiseAcos as ElementWiseAcos, ElementWiseAcosh as ElementWiseAcosh, ElementWiseAsin as ElementWiseAsin, ElementWiseAsinh as ElementWiseAsinh, ElementWiseAtan as ElementWiseAtan, ElementWiseAtanYX as ElementWiseAtanYX, ElementWiseAtanh as ElementWiseAtanh, ElementWiseConstantPow as ElementWiseConstantPow, ElementWiseCos as ElementWiseCos, ElementWiseCosh as ElementWiseCosh, ElementWiseErf as ElementWiseErf, ElementWiseExp as ElementWiseExp, ElementWiseLog as ElementWiseLog, ElementWisePow as ElementWisePow, ElementWiseSin as ElementWiseSin, ElementWiseSinh as ElementWiseSinh, ElementWiseTan as ElementWiseTan, ElementWiseTanh as ElementWiseTanh
from anydml.runtime.binding import BindingProperties as BindingProperties, BufferBinding as BufferBinding
from anydml.runtime.bound import BoundOperator as BoundOperator
from anydml.runtime.commands import CommandList as CommandList, CommandRecorder as CommandRecorder
from anydml.runtime.compiled import CompiledOperator as CompiledOperator, Operator as Operator
from anydml.runtime.device import Device as Device
from anydml.runtime.graph import CompiledGraph as CompiledGraph
from anydml.runtime.initializer import OperatorInitializer as OperatorInitializer
from anydml.runtime.table import BindingTable as BindingTable
from anydml.tensor import TensorDesc as TensorDesc

class _HasShape(Protocol):
    @property
    def shape(self) -> Any: ...

_S = TypeVar("_S", bound=np.generic)
_A = TypeVar("_A", bound=_HasShape)
_Number = float | np.number[Any] | np.bool_
_Plain = _Number | Sequence[Any]
_Device = Device | DeviceName | str
_Activation = FusedActivation | type[OperatorDesc] | OperatorType | str
_ScaleBias = ScaleBias | tuple[float, float]
_DataType = DataType | type[Any] | np.dtype[Any] | str
_AxisDirection = AxisDirection | Literal['INCREASING', 'DECREASING', 'increasing', 'decreasing']
_IndexMode = IndexMode | Literal['RAISE', 'CLAMP', 'raise', 'clamp']
_IsInfinityMode = IsInfinityMode | Literal['EITHER', 'POSITIVE', 'NEGATIVE', 'either', 'positive', 'negative']
_RoundingMode = RoundingMode | Literal['HALVES_TO_NEAREST_EVEN', 'TOWARD_ZERO', 'TOWARD_INFINITY', 'halves_to_nearest_even', 'toward_zero', 'toward_infinity']

__version__: str
__all__ = ['ActivationCelu', 'ActivationElu', 'ActivationGelu', 'ActivationHardSigmoid', 'ActivationHardSwish', 'ActivationIdentity', 'ActivationLeakyRelu', 'ActivationLinear', 'ActivationParameterizedRelu', 'ActivationParametricSoftplus', 'ActivationRelu', 'ActivationReluGrad', 'ActivationScaledElu', 'ActivationScaledTanh', 'ActivationShrink', 'ActivationSigmoid', 'ActivationSoftplus', 'ActivationSoftsign', 'ActivationSwish', 'ActivationTanh', 'ActivationThresholdedRelu', 'AxisDirection', 'BindingError', 'BindingProperties', 'BindingTable', 'BoundOperator', 'BufferBinding', 'Cast', 'CommandList', 'CommandRecorder', 'CompiledGraph', 'CompiledOperator', 'ConstantNode', 'CumulativeProduct', 'CumulativeSummation', 'DataType', 'DescriptionError', 'Device', 'DmlError', 'ElementWiseAbs', 'ElementWiseAcos', 'ElementWiseAcosh', 'ElementWiseAdd', 'ElementWiseAdd1', 'ElementWiseAsin', 'ElementWiseAsinh', 'ElementWiseAtan', 'ElementWiseAtanYX', 'ElementWiseAtanh', 'ElementWiseBitAnd', 'ElementWiseBitCount', 'ElementWiseBitNot', 'ElementWiseBitOr', 'ElementWiseBitShiftLeft', 'ElementWiseBitShiftRight', 'ElementWiseBitXor', 'ElementWiseCeil', 'ElementWiseClip', 'ElementWiseClip1', 'ElementWiseClipGrad', 'ElementWiseClipGrad1', 'ElementWiseConstantPow', 'ElementWiseCos', 'ElementWiseCosh', 'ElementWiseDifferenceSquare', 'ElementWiseDivide', 'ElementWiseErf', 'ElementWiseExp', 'ElementWiseFloor', 'ElementWiseIdentity', 'ElementWiseIf', 'ElementWiseIsInfinity', 'ElementWiseIsNaN', 'ElementWiseLog', 'ElementWiseLogicalAnd', 'ElementWiseLogicalEquals', 'ElementWiseLogicalGreaterThan', 'ElementWiseLogicalGreaterThanOrEqual', 'ElementWiseLogicalLessThan', 'ElementWiseLogicalLessThanOrEqual', 'ElementWiseLogicalNot', 'ElementWiseLogicalOr', 'ElementWiseLogicalXor', 'ElementWiseMax', 'ElementWiseMean', 'ElementWiseMin', 'ElementWiseModulusFloor', 'ElementWiseModulusTruncate', 'ElementWiseMultiply', 'ElementWiseNegate', 'ElementWisePow', 'ElementWiseRecip', 'ElementWiseRound', 'ElementWiseSign', 'ElementWiseSin', 'ElementWiseSinh', 'ElementWiseSqrt', 'ElementWiseSubtract', 'ElementWiseTan', 'ElementWiseTanh', 'ElementWiseThreshold', 'EngineMissingError', 'ExecutionFlags', 'Expression', 'Fault', 'Feature', 'FeatureLevel', 'FeatureLevelError', 'FillValueConstant', 'FillValueSequence', 'FusedActivation', 'Gather', 'GatherElements', 'GatherND', 'GatherND1', 'Graph', 'GraphDesc', 'IndexMode', 'IndexRangeError', 'InputEdge', 'IntermediateEdge', 'IsInfinityMode', 'Join', 'LevelSupport', 'ModelError', 'ModelFileError', 'OPERATORS', 'Operator', 'OperatorDesc', 'OperatorInitializer', 'OperatorNode', 'OperatorType', 'OutputEdge', 'Place', 'Report', 'ReverseSubsequences', 'RoundingMode', 'ScaleBias', 'Slice', 'Slice1', 'Split', 'TensorDesc', 'TensorFlags', 'TensorSupport', 'UnsupportedError', 'ValueScale2D', 'abs', 'acos', 'acosh', 'activation_identity', 'activation_tanh', 'add', 'add1', 'asin', 'asinh', 'atan', 'atan_yx', 'atanh', 'bit_and', 'bit_count', 'bit_not', 'bit_or', 'bit_shift_left', 'bit_shift_right', 'bit_xor', 'cast', 'ceil', 'celu', 'clip', 'clip1', 'clip_grad', 'clip_grad1', 'constant_pow', 'cos', 'cosh', 'cumulative_product', 'cumulative_summation', 'difference_square', 'divide', 'elu', 'erf', 'exp', 'fill_value_constant', 'fill_value_sequence', 'floor', 'gather', 'gather_elements', 'gather_nd', 'gelu', 'get_num_threads', 'hard_sigmoid', 'hard_swish', 'identity', 'if_', 'is_infinity', 'is_nan', 'join', 'leaky_relu', 'linear', 'log', 'logical_and', 'logical_equals', 'logical_greater_than', 'logical_greater_than_or_equal', 'logical_less_than', 'logical_less_than_or_equal', 'logical_not', 'logical_or', 'logical_xor', 'max', 'mean', 'min', 'modulus_floor', 'modulus_truncate', 'multiply', 'negate', 'parameterized_relu', 'parametric_softplus', 'pow', 'recip', 'relu', 'relu_grad', 'reverse_subsequences', 'round', 'scaled_elu', 'scaled_tanh', 'set_num_threads', 'shrink', 'sigmoid', 'sign', 'sin', 'sinh', 'slice', 'slice1', 'softplus', 'softsign', 'split', 'sqrt', 'subtract', 'support', 'swish', 'tan', 'tanh', 'threshold', 'thresholded_relu', 'value_scale_2d']

@overload
def abs(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ABS: the absolute value: |x|. The lowest number of an integer type, which has none, stays."""
@overload
def abs(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def abs(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def acos(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ACOS: the angle whose cosine is x: acos x. It is NaN outside -1 .. 1."""
@overload
def acos(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def acos(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def acosh(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ACOSH: the number whose hyperbolic cosine is x: acosh x. It is NaN below 1."""
@overload
def acosh(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def acosh(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def activation_identity(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_IDENTITY: copies every element."""
@overload
def activation_identity(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def activation_identity(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def activation_tanh(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_TANH: the hyperbolic tangent: tanh x."""
@overload
def activation_tanh(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def activation_tanh(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def add(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ADD: the sum: a + b. Integers wrap."""
@overload
def add(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def add(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def add1(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, fused_activation: _Activation | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ADD1: the sum, and an activation of it: f(a + b)."""
@overload
def add1(a: _A | _Plain, b: _A | _Plain, fused_activation: _Activation | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def add1(a: Expression | _Number, b: Expression | _Number, fused_activation: _Activation | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def asin(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ASIN: the angle whose sine is x: asin x. It is NaN outside -1 .. 1."""
@overload
def asin(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def asin(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def asinh(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ASINH: the number whose hyperbolic sine is x: asinh x."""
@overload
def asinh(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def asinh(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def atan(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ATAN: the angle whose tangent is x: atan x."""
@overload
def atan(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def atan(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def atan_yx(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ATAN_YX: the angle of the point (b, a) with the positive x axis: atan2(a, b)."""
@overload
def atan_yx(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def atan_yx(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def atanh(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ATANH: the number whose hyperbolic tangent is x: atanh x. It is NaN outside -1 .. 1."""
@overload
def atanh(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def atanh(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def bit_and(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_BIT_AND: the bits that are 1 in both: a & b."""
@overload
def bit_and(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def bit_and(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def bit_count(x: NDArray[Any] | _Plain, *, out: NDArray[np.uint8] | None = None, device: _Device | None = None) -> NDArray[np.uint8]:
    """ELEMENT_WISE_BIT_COUNT: the number of bits that are 1."""
@overload
def bit_count(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def bit_count(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def bit_not(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_BIT_NOT: every bit the other way round: ~x."""
@overload
def bit_not(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def bit_not(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def bit_or(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_BIT_OR: the bits that are 1 in one or both: a | b."""
@overload
def bit_or(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def bit_or(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def bit_shift_left(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_BIT_SHIFT_LEFT: the bits b places higher: a << b. It is 0 for a b of the width or more, which the documents leave open."""
@overload
def bit_shift_left(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def bit_shift_left(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def bit_shift_right(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_BIT_SHIFT_RIGHT: the bits b places lower: a >> b. It is 0 for a b of the width or more, which the documents leave open."""
@overload
def bit_shift_right(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def bit_shift_right(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def bit_xor(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_BIT_XOR: the bits that differ: a ^ b."""
@overload
def bit_xor(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def bit_xor(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def ceil(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_CEIL: the smallest integer that is not below: ⌈x⌉."""
@overload
def ceil(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def ceil(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def celu(x: NDArray[_S] | _Plain, alpha: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_CELU: the continuously differentiable exponential linear unit: max(0, x) + min(0, Alpha·(e^(x/Alpha) - 1))."""
@overload
def celu(x: _A | _Plain, alpha: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def celu(x: Expression, alpha: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def clip(x: NDArray[_S] | _Plain, min: float, max: float, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_CLIP: between two bounds: max(Min, min(x, Max)). A Min above Max is what comes out everywhere."""
@overload
def clip(x: _A | _Plain, min: float, max: float, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def clip(x: Expression, min: float, max: float, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def clip1(x: NDArray[_S] | _Plain, min: int | float, max: int | float, scale_bias: _ScaleBias | None = ..., min_max_data_type: _DataType | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_CLIP1: between two bounds of the tensor's type: max(Min, min(x, Max)). A Min above Max is what comes out everywhere."""
@overload
def clip1(x: _A | _Plain, min: int | float, max: int | float, scale_bias: _ScaleBias | None = ..., min_max_data_type: _DataType | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def clip1(x: Expression, min: int | float, max: int | float, scale_bias: _ScaleBias | None = ..., min_max_data_type: _DataType | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def clip_grad(x: NDArray[_S] | _Plain, input_gradient: NDArray[_S] | _Plain, min: float, max: float, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_CLIP_GRAD: the gradient of CLIP: the incoming one where Min < x < Max, and 0 elsewhere, at the bounds and for NaN too."""
@overload
def clip_grad(x: _A | _Plain, input_gradient: _A | _Plain, min: float, max: float, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def clip_grad(x: Expression | _Number, input_gradient: Expression | _Number, min: float, max: float, *, out: None = None, device: None = None) -> Expression: ...
@overload
def clip_grad1(x: NDArray[_S] | _Plain, input_gradient: NDArray[_S] | _Plain, min: int | float, max: int | float, min_max_data_type: _DataType | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_CLIP_GRAD1: the gradient of CLIP1: the incoming one where Min < x < Max, and 0 elsewhere, at the bounds and for NaN too."""
@overload
def clip_grad1(x: _A | _Plain, input_gradient: _A | _Plain, min: int | float, max: int | float, min_max_data_type: _DataType | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def clip_grad1(x: Expression | _Number, input_gradient: Expression | _Number, min: int | float, max: int | float, min_max_data_type: _DataType | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def constant_pow(x: NDArray[_S] | _Plain, exponent: float, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_CONSTANT_POW: the power of a given exponent: x^Exponent. Of negative numbers it is NaN but for whole exponents."""
@overload
def constant_pow(x: _A | _Plain, exponent: float, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def constant_pow(x: Expression, exponent: float, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def cos(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_COS: the cosine of an angle in radians: cos x."""
@overload
def cos(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def cos(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def cosh(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_COSH: the hyperbolic cosine: cosh x."""
@overload
def cosh(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def cosh(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def difference_square(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_DIFFERENCE_SQUARE: the square of the difference: (a - b)²."""
@overload
def difference_square(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def difference_square(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def divide(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_DIVIDE: the quotient: a/b. Of integers it is cut toward zero, and x/0 is 0, which the documents leave open."""
@overload
def divide(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def divide(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def elu(x: NDArray[_S] | _Plain, alpha: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_ELU: the exponential linear unit: x where x ≥ 0, and else Alpha·(eˣ - 1)."""
@overload
def elu(x: _A | _Plain, alpha: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def elu(x: Expression, alpha: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def erf(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ERF: the error function: erf x."""
@overload
def erf(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def erf(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def exp(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_EXP: the exponential function: eˣ."""
@overload
def exp(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def exp(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def floor(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_FLOOR: the largest integer that is not above: ⌊x⌋."""
@overload
def floor(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def floor(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def gelu(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_GELU: the Gaussian error linear unit: x·(1 + erf(x/√2))/2."""
@overload
def gelu(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def gelu(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def hard_sigmoid(x: NDArray[_S] | _Plain, alpha: float = ..., beta: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_HARD_SIGMOID: A sigmoid of straight lines: max(0, min(Alpha·x + Beta, 1))."""
@overload
def hard_sigmoid(x: _A | _Plain, alpha: float = ..., beta: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def hard_sigmoid(x: Expression, alpha: float = ..., beta: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def hard_swish(x: NDArray[_S] | _Plain, alpha: float = ..., beta: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_HARD_SWISH: A swish of straight lines: x·max(0, min(Alpha·x + Beta, 1))."""
@overload
def hard_swish(x: _A | _Plain, alpha: float = ..., beta: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def hard_swish(x: Expression, alpha: float = ..., beta: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def identity(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_IDENTITY: copies every element: Output = Input, or Input·Scale + Bias where ScaleBias is given."""
@overload
def identity(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def identity(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def if_(condition: NDArray[Any] | _Plain, a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_IF: one of two, by a condition: a where it is not 0, b where it is. Bits are moved."""
@overload
def if_(condition: _A | _Plain, a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def if_(condition: Expression | _Number, a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def is_infinity(x: NDArray[Any] | _Plain, infinity_mode: _IsInfinityMode = ..., *, out: NDArray[np.uint8] | None = None, device: _Device | None = None) -> NDArray[np.uint8]:
    """ELEMENT_WISE_IS_INFINITY: whether a number is an infinity, either of the two or one of them, as 1 or 0."""
@overload
def is_infinity(x: _A | _Plain, infinity_mode: _IsInfinityMode = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def is_infinity(x: Expression, infinity_mode: _IsInfinityMode = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def is_nan(x: NDArray[Any] | _Plain, *, out: NDArray[np.uint8] | None = None, device: _Device | None = None) -> NDArray[np.uint8]:
    """ELEMENT_WISE_IS_NAN: whether a number is a NaN, as 1 or 0."""
@overload
def is_nan(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def is_nan(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def leaky_relu(x: NDArray[_S] | _Plain, alpha: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_LEAKY_RELU: A rectifier that leaks: x where x ≥ 0, and else Alpha·x."""
@overload
def leaky_relu(x: _A | _Plain, alpha: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def leaky_relu(x: Expression, alpha: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def linear(x: NDArray[_S] | _Plain, alpha: float, beta: float, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_LINEAR: A straight line: Alpha·x + Beta, rounded once."""
@overload
def linear(x: _A | _Plain, alpha: float, beta: float, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def linear(x: Expression, alpha: float, beta: float, *, out: None = None, device: None = None) -> Expression: ...
@overload
def log(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_LOG: the natural logarithm: ln x. It is -inf for 0, and NaN for negative numbers."""
@overload
def log(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def log(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def logical_and(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_LOGICAL_AND: whether neither of two is 0, as 1 or 0."""
@overload
def logical_and(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def logical_and(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def logical_equals(a: NDArray[Any] | _Plain, b: NDArray[Any] | _Plain, *, out: NDArray[np.uint8] | None = None, device: _Device | None = None) -> NDArray[np.uint8]:
    """ELEMENT_WISE_LOGICAL_EQUALS: whether two are equal: a = b, as 1 or 0."""
@overload
def logical_equals(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def logical_equals(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def logical_greater_than(a: NDArray[Any] | _Plain, b: NDArray[Any] | _Plain, *, out: NDArray[np.uint8] | None = None, device: _Device | None = None) -> NDArray[np.uint8]:
    """ELEMENT_WISE_LOGICAL_GREATER_THAN: whether the first is larger: a > b, as 1 or 0."""
@overload
def logical_greater_than(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def logical_greater_than(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def logical_greater_than_or_equal(a: NDArray[Any] | _Plain, b: NDArray[Any] | _Plain, *, out: NDArray[np.uint8] | None = None, device: _Device | None = None) -> NDArray[np.uint8]:
    """ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL: whether the first is larger or equal: a ≥ b, as 1 or 0."""
@overload
def logical_greater_than_or_equal(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def logical_greater_than_or_equal(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def logical_less_than(a: NDArray[Any] | _Plain, b: NDArray[Any] | _Plain, *, out: NDArray[np.uint8] | None = None, device: _Device | None = None) -> NDArray[np.uint8]:
    """ELEMENT_WISE_LOGICAL_LESS_THAN: whether the first is smaller: a < b, as 1 or 0."""
@overload
def logical_less_than(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def logical_less_than(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def logical_less_than_or_equal(a: NDArray[Any] | _Plain, b: NDArray[Any] | _Plain, *, out: NDArray[np.uint8] | None = None, device: _Device | None = None) -> NDArray[np.uint8]:
    """ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL: whether the first is smaller or equal: a ≤ b, as 1 or 0."""
@overload
def logical_less_than_or_equal(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def logical_less_than_or_equal(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def logical_not(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_LOGICAL_NOT: whether a number is 0, as 1 or 0."""
@overload
def logical_not(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def logical_not(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def logical_or(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_LOGICAL_OR: whether one of two is not 0, as 1 or 0."""
@overload
def logical_or(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def logical_or(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def logical_xor(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_LOGICAL_XOR: whether exactly one of two is 0, as 1 or 0."""
@overload
def logical_xor(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def logical_xor(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def max(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_MAX: the larger of two: max(a, b). It is NaN where one of them is, which the documents leave open."""
@overload
def max(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def max(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def mean(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_MEAN: the mean: (a + b)/2. Of integers it is cut toward zero and does not overflow, which the documents leave open."""
@overload
def mean(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def mean(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def min(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_MIN: the smaller of two: min(a, b). It is NaN where one of them is, which the documents leave open."""
@overload
def min(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def min(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def modulus_floor(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_MODULUS_FLOOR: the remainder of the division that is rounded down, with the sign of b: Python's %."""
@overload
def modulus_floor(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def modulus_floor(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def modulus_truncate(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_MODULUS_TRUNCATE: the remainder of the division that is cut toward zero, with the sign of a: C's fmod."""
@overload
def modulus_truncate(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def modulus_truncate(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def multiply(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_MULTIPLY: the product: a·b. Integers wrap."""
@overload
def multiply(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def multiply(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def negate(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_NEGATE: the number of the other sign: -x. Integers wrap."""
@overload
def negate(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def negate(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def parameterized_relu(x: NDArray[_S] | _Plain, slope: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_PARAMETERIZED_RELU: A rectifier with a slope for each element: x where x ≥ 0, and else slope·x. Integers wrap."""
@overload
def parameterized_relu(x: _A | _Plain, slope: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def parameterized_relu(x: Expression | _Number, slope: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def parametric_softplus(x: NDArray[_S] | _Plain, alpha: float, beta: float, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_PARAMETRIC_SOFTPLUS: A softplus of two parameters: Alpha·ln(1 + e^(Beta·x))."""
@overload
def parametric_softplus(x: _A | _Plain, alpha: float, beta: float, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def parametric_softplus(x: Expression, alpha: float, beta: float, *, out: None = None, device: None = None) -> Expression: ...
@overload
def pow(x: NDArray[_S] | _Plain, exponent: NDArray[Any] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_POW: the power: x^y. The exponents may be of another type from 3_0 on."""
@overload
def pow(x: _A | _Plain, exponent: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def pow(x: Expression | _Number, exponent: Expression | _Number, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def recip(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_RECIP: the reciprocal: 1/x."""
@overload
def recip(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def recip(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def relu(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_RELU: the rectifier: max(0, x). NaN stays, which the documents leave open."""
@overload
def relu(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def relu(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def relu_grad(x: NDArray[_S] | _Plain, input_gradient: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_RELU_GRAD: the gradient of RELU: the incoming one where x > 0, and else 0."""
@overload
def relu_grad(x: _A | _Plain, input_gradient: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def relu_grad(x: Expression | _Number, input_gradient: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def round(x: NDArray[_S] | _Plain, rounding_mode: _RoundingMode = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_ROUND: rounds to an integer: halves to even numbers (the default), toward zero, or halves away from zero."""
@overload
def round(x: _A | _Plain, rounding_mode: _RoundingMode = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def round(x: Expression, rounding_mode: _RoundingMode = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def scaled_elu(x: NDArray[_S] | _Plain, alpha: float = ..., gamma: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_SCALED_ELU: the scaled exponential linear unit: Gamma·x where x > 0, and else Gamma·Alpha·(eˣ - 1)."""
@overload
def scaled_elu(x: _A | _Plain, alpha: float = ..., gamma: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def scaled_elu(x: Expression, alpha: float = ..., gamma: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def scaled_tanh(x: NDArray[_S] | _Plain, alpha: float = ..., beta: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_SCALED_TANH: A hyperbolic tangent of two parameters: Alpha·tanh(Beta·x)."""
@overload
def scaled_tanh(x: _A | _Plain, alpha: float = ..., beta: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def scaled_tanh(x: Expression, alpha: float = ..., beta: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def shrink(x: NDArray[_S] | _Plain, bias: float = ..., threshold: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_SHRINK: shrinks toward zero: x - Bias where x > Threshold, x + Bias where x < -Threshold, and else 0."""
@overload
def shrink(x: _A | _Plain, bias: float = ..., threshold: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def shrink(x: Expression, bias: float = ..., threshold: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def sigmoid(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_SIGMOID: the logistic function: 1/(1 + e⁻ˣ)."""
@overload
def sigmoid(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def sigmoid(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def sign(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_SIGN: -1, 0 or 1 for a negative number, zero or a positive number. NaN stays, which the documents leave open."""
@overload
def sign(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def sign(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def sin(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_SIN: the sine of an angle in radians: sin x."""
@overload
def sin(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def sin(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def sinh(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_SINH: the hyperbolic sine: sinh x."""
@overload
def sinh(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def sinh(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def softplus(x: NDArray[_S] | _Plain, steepness: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_SOFTPLUS: A smooth rectifier: ln(1 + e^(Steepness·x))/Steepness. Before 6_4 Steepness is at least 1."""
@overload
def softplus(x: _A | _Plain, steepness: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def softplus(x: Expression, steepness: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def softsign(x: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_SOFTSIGN: x/(1 + |x|)."""
@overload
def softsign(x: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def softsign(x: Expression, *, out: None = None, device: None = None) -> Expression: ...
@overload
def sqrt(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_SQRT: the square root: √x. It is NaN for negative numbers."""
@overload
def sqrt(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def sqrt(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def subtract(a: NDArray[_S] | _Plain, b: NDArray[_S] | _Plain, *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_SUBTRACT: the difference: a - b. Integers wrap."""
@overload
def subtract(a: _A | _Plain, b: _A | _Plain, *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def subtract(a: Expression | _Number, b: Expression | _Number, *, out: None = None, device: None = None) -> Expression: ...
@overload
def swish(x: NDArray[_S] | _Plain, sigmoid_input_scale: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_SWISH: the sigmoid linear unit: x·sigmoid(SigmoidInputScale·x)."""
@overload
def swish(x: _A | _Plain, sigmoid_input_scale: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def swish(x: Expression, sigmoid_input_scale: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def tan(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_TAN: the tangent of an angle in radians: tan x."""
@overload
def tan(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def tan(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def tanh(x: NDArray[_S] | _Plain, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_TANH: the hyperbolic tangent: tanh x."""
@overload
def tanh(x: _A | _Plain, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def tanh(x: Expression, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def threshold(x: NDArray[_S] | _Plain, min: float, scale_bias: _ScaleBias | None = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ELEMENT_WISE_THRESHOLD: at least a bound: max(x, Min). Of integers the bound loses its fraction; NaN stays."""
@overload
def threshold(x: _A | _Plain, min: float, scale_bias: _ScaleBias | None = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def threshold(x: Expression, min: float, scale_bias: _ScaleBias | None = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def thresholded_relu(x: NDArray[_S] | _Plain, alpha: float = ..., *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """ACTIVATION_THRESHOLDED_RELU: A rectifier with a threshold: x where x > Alpha, and else 0."""
@overload
def thresholded_relu(x: _A | _Plain, alpha: float = ..., *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def thresholded_relu(x: Expression, alpha: float = ..., *, out: None = None, device: None = None) -> Expression: ...
@overload
def value_scale_2d(x: NDArray[_S] | _Plain, scale: float, bias: Sequence[float], *, out: NDArray[_S] | None = None, device: _Device | None = None) -> NDArray[_S]:
    """VALUE_SCALE_2D: Scale·x + Bias of the element's channel, rounded once. There are 1 or 3 channels, in the second dimension."""
@overload
def value_scale_2d(x: _A | _Plain, scale: float, bias: Sequence[float], *, out: _A | None = None, device: _Device | None = None) -> _A: ...
@overload
def value_scale_2d(x: Expression, scale: float, bias: Sequence[float], *, out: None = None, device: None = None) -> Expression: ...
@overload
def cast(x: NDArray[_S] | _Plain, data_type: _DataType, *, out: Any = ..., device: _Device | None = ...) -> NDArray[Any]:
    """CAST: every element as a number of another type."""
@overload
def cast(x: _A, data_type: _DataType, *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def cast(x: Expression, data_type: _DataType, *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def cumulative_product(x: NDArray[_S] | _Plain, axis: int, axis_direction: _AxisDirection = ..., has_exclusive_product: bool = ..., *, allow_float64: bool = ..., out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """CUMULATIVE_PRODUCT: the running product along an axis. `out=x` works in place."""
@overload
def cumulative_product(x: _A, axis: int, axis_direction: _AxisDirection = ..., has_exclusive_product: bool = ..., *, allow_float64: bool = ..., out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def cumulative_product(x: Expression, axis: int, axis_direction: _AxisDirection = ..., has_exclusive_product: bool = ..., *, allow_float64: bool = ..., out: None = ..., device: None = ...) -> Expression: ...
@overload
def cumulative_summation(x: NDArray[_S] | _Plain, axis: int, axis_direction: _AxisDirection = ..., has_exclusive_sum: bool = ..., *, allow_float64: bool = ..., out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """CUMULATIVE_SUMMATION: the running sum along an axis. `out=x` works in place."""
@overload
def cumulative_summation(x: _A, axis: int, axis_direction: _AxisDirection = ..., has_exclusive_sum: bool = ..., *, allow_float64: bool = ..., out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def cumulative_summation(x: Expression, axis: int, axis_direction: _AxisDirection = ..., has_exclusive_sum: bool = ..., *, allow_float64: bool = ..., out: None = ..., device: None = ...) -> Expression: ...
def fill_value_constant(sizes: Sequence[int] | int, value: float, data_type: _DataType = ..., *, out: Any = ..., device: _Device | None = ..., graph: Graph | None = ...) -> Any:
    """FILL_VALUE_CONSTANT: an array of one number, as `numpy.full` has it; an expression, where a graph is given."""
def fill_value_sequence(sizes: Sequence[int] | int, value_start: float, value_delta: float, data_type: _DataType = ..., *, allow_float64: bool = ..., out: Any = ..., device: _Device | None = ..., graph: Graph | None = ...) -> Any:
    """FILL_VALUE_SEQUENCE: start, start + delta, start + 2·delta and so on, in the elements' order."""
@overload
def gather(x: NDArray[_S] | _Plain, indices: Any, axis: int = ..., index_mode: _IndexMode = ..., *, out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """GATHER: the elements or blocks of `x` that indices point at along an axis, as `numpy.take` has it."""
@overload
def gather(x: _A, indices: Any, axis: int = ..., index_mode: _IndexMode = ..., *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def gather(x: Expression, indices: Expression, axis: int = ..., index_mode: _IndexMode = ..., *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def gather_elements(x: NDArray[_S] | _Plain, indices: Any, axis: int, index_mode: _IndexMode = ..., *, out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """GATHER_ELEMENTS: along an axis of `x`, the element that each index points at, as `numpy.take_along_axis` has it."""
@overload
def gather_elements(x: _A, indices: Any, axis: int, index_mode: _IndexMode = ..., *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def gather_elements(x: Expression, indices: Expression, axis: int, index_mode: _IndexMode = ..., *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def gather_nd(x: NDArray[_S] | _Plain, indices: Any, batch_dimension_count: int = ..., index_mode: _IndexMode = ..., *, out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """GATHER_ND, and GATHER_ND1 with batch dimensions: the elements or blocks of `x` that tuples point at."""
@overload
def gather_nd(x: _A, indices: Any, batch_dimension_count: int = ..., index_mode: _IndexMode = ..., *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def gather_nd(x: Expression, indices: Expression, batch_dimension_count: int = ..., index_mode: _IndexMode = ..., *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def join(tensors: Sequence[NDArray[_S]] | _Plain, axis: int, *, out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """JOIN: tensors one after the other along an axis, as `numpy.concatenate` has it."""
@overload
def join(tensors: Sequence[_A], axis: int, *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def join(tensors: Sequence[Expression], axis: int, *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def reverse_subsequences(x: NDArray[_S] | _Plain, sequence_lengths: Any, axis: int, *, out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """REVERSE_SUBSEQUENCES: the first so many elements along an axis reversed, the rest as they are."""
@overload
def reverse_subsequences(x: _A, sequence_lengths: Any, axis: int, *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def reverse_subsequences(x: Expression, sequence_lengths: Expression, axis: int, *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def slice(x: NDArray[_S] | _Plain, offsets: Sequence[int] | int, sizes: Sequence[int] | int, strides: Sequence[int] | int | None = ..., *, out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """SLICE: `sizes` elements from `offsets` on, `strides` apart (1 where not given), in each dimension."""
@overload
def slice(x: _A, offsets: Sequence[int] | int, sizes: Sequence[int] | int, strides: Sequence[int] | int | None = ..., *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def slice(x: Expression, offsets: Sequence[int] | int, sizes: Sequence[int] | int, strides: Sequence[int] | int | None = ..., *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def slice1(x: NDArray[_S] | _Plain, input_window_offsets: Sequence[int] | int, input_window_sizes: Sequence[int] | int, input_window_strides: Sequence[int] | int | None = ..., output_sizes: Sequence[int] | int | None = ..., *, out: Any = ..., device: _Device | None = ...) -> NDArray[_S]:
    """SLICE1: from a window of `x`, every stride-th element; a negative stride walks from the window's end."""
@overload
def slice1(x: _A, input_window_offsets: Sequence[int] | int, input_window_sizes: Sequence[int] | int, input_window_strides: Sequence[int] | int | None = ..., output_sizes: Sequence[int] | int | None = ..., *, out: Any = ..., device: _Device | None = ...) -> _A: ...
@overload
def slice1(x: Expression, input_window_offsets: Sequence[int] | int, input_window_sizes: Sequence[int] | int, input_window_strides: Sequence[int] | int | None = ..., output_sizes: Sequence[int] | int | None = ..., *, out: None = ..., device: None = ...) -> Expression: ...
@overload
def split(x: NDArray[_S] | _Plain, output_axis_sizes: Sequence[int], axis: int, *, out: Any = ..., device: _Device | None = ...) -> list[NDArray[_S]]:
    """SPLIT: parts of `x` along an axis, of these sizes, in a list. `out` takes a list of as many arrays."""
@overload
def split(x: _A, output_axis_sizes: Sequence[int], axis: int, *, out: Any = ..., device: _Device | None = ...) -> list[_A]: ...
@overload
def split(x: Expression, output_axis_sizes: Sequence[int], axis: int, *, out: None = ..., device: None = ...) -> list[Expression]: ...

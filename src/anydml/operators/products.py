"""The products of matrices: GEMM, and those of integers, which are summed exactly and may be scaled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.enums import DataType, FeatureLevel, MatrixTransform
from anydml.errors import DescriptionError, Fault
from anydml.ir.expressions import given
from anydml.operators.contraction import Product
from anydml.operators.fields import Float, Input, OptionalInput, Output, Transform  # noqa: TC001 - read at run time
from anydml.operators.fused import CLIP, FUSED, SOFTMAXES, OptionalActivation, activation_faults, fused_level_faults
from anydml.operators.quantisation import difference, quantised, sum_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive

F32 = DataType.FLOAT32


class Gemm(Product):
    """The product of matrices: f(Alpha·A·B + Beta·C), either of A and B transposed first, and C there or not.

    Sums are of FLOAT32 or better, in an order that does not depend on threads, for FLOAT16 too. A Beta of 0 leaves C
    out, and with it its infinities and NaN.
    """

    whole = ("CTensor",)
    typed_like = dict.fromkeys(("BTensor", "CTensor", "OutputTensor"), "ATensor")

    a_tensor: Input
    b_tensor: Input
    c_tensor: OptionalInput = None
    output_tensor: Output
    trans_a: Transform = MatrixTransform.NONE
    trans_b: Transform = MatrixTransform.NONE
    alpha: Float = 1.0
    beta: Float = 1.0
    fused_activation: OptionalActivation = None

    @staticmethod
    def turned(*, trans_a: Any = None, trans_b: Any = None, **_: Any) -> tuple[bool, bool]:
        """As TransA and TransB say."""

        def is_turned(given: Any) -> bool:
            try:
                return given is True or MatrixTransform(given) is MatrixTransform.TRANSPOSE
            except DescriptionError:  # which the description says
                return False

        return is_turned(trans_a), is_turned(trans_b)

    def rules(self) -> Iterator[Fault]:
        """The matrices fit, and the activation is one that can be fused."""
        faults = list(super().rules())
        yield from faults
        activation = self.fused_activation
        yield from activation_faults(activation, FUSED | CLIP | SOFTMAXES)
        if activation is not None and activation.type in SOFTMAXES and not faults:
            yield from activation.step_faults(self.implied_output_sizes())

    def attribute_level_faults(self, level: FeatureLevel, where: str) -> Iterator[Fault]:
        """CLIP is fused from 6_0 on, and softmaxes from 6_1."""
        yield from super().attribute_level_faults(level, where)
        for kinds, first in ((CLIP, FeatureLevel.LEVEL_6_0), (SOFTMAXES, FeatureLevel.LEVEL_6_1)):
            yield from fused_level_faults(self.fused_activation, kinds, first, level, where)

    def factors(self, elements: Mapping[str, Expr]) -> tuple[Expr, Expr]:
        """Elements in FLOAT32."""
        return elements["ATensor"].to(F32), elements["BTensor"].to(F32)

    def value(self, total: Expr, elements: Mapping[str, Expr]) -> Expr:
        """f(Alpha·total + Beta·c), but for factors of 1."""
        found = total if self.alpha == 1 else given(self.alpha, F32) * total
        if "CTensor" in elements:
            c = elements["CTensor"].to(F32)
            found = found + (c if self.beta == 1 else given(self.beta, F32) * c)
        activation = self.fused_activation
        return found if activation is None or activation.type in SOFTMAXES else activation.apply(found)

    def read(self) -> list[str]:
        """C is not, with a Beta of 0."""
        return [field for field in self.inputs() if field != "CTensor" or self.beta != 0]

    def lower(self) -> tuple[Primitive, ...]:
        """A contraction, and for a softmax a step over its rows, which are kept in FLOAT32 until then."""
        activation = self.fused_activation
        if activation is None or activation.type not in SOFTMAXES:
            return super().lower()
        product, *steps = activation.steps("Product", self.output_tensor)
        return (self.contraction(product), *steps)


class _Whole(Product):
    """A product of integers less their zero points."""

    by_row = ("AScaleTensor", "AZeroPointTensor", "OutputScaleTensor", "OutputZeroPointTensor")
    by_column = ("BScaleTensor", "BZeroPointTensor")
    typed_like = {"AZeroPointTensor": "ATensor", "BZeroPointTensor": "BTensor"}  # noqa: RUF012 - a table that nobody writes to

    def _sum_type(self) -> DataType:
        """The type that holds every sum: a FLOAT64 is exact up to 2^53."""
        if self.a_tensor.data_type.size_in_bytes > 1 or self.b_tensor.data_type.size_in_bytes > 1:
            return DataType.FLOAT64
        return sum_type(self._product_sizes()[-1])

    def factors(self, elements: Mapping[str, Expr]) -> tuple[Expr, Expr]:
        """A less its zero points, and B less its."""
        kind = self._sum_type()
        left, right = (difference(elements[f"{x}Tensor"], elements.get(f"{x}ZeroPointTensor"), kind) for x in "AB")
        return left, right

    def _scale(self, elements: Mapping[str, Expr]) -> Expr:
        return elements["AScaleTensor"].to(F32) * elements["BScaleTensor"].to(F32)


class MatrixMultiplyInteger(_Whole):
    """The product of matrices of bytes, each less its zero point: Σ(a - za)·(b - zb), exactly, wrapped to INT32."""

    result_type = DataType.INT32

    a_tensor: Input
    a_zero_point_tensor: OptionalInput = None
    b_tensor: Input
    b_zero_point_tensor: OptionalInput = None
    output_tensor: Output

    def _scale_counts(self, scales: Sequence[str]) -> Iterator[Fault]:  # noqa: ARG002 - as others
        """Zero points may have different ones."""
        return iter(())

    def _sum_type(self) -> DataType:
        return DataType.INT32

    def implied_output_type(self) -> DataType:
        """INT32."""
        return DataType.INT32

    def value(self, total: Expr, elements: Mapping[str, Expr]) -> Expr:  # noqa: ARG002 - as others
        """The sum."""
        return total


class MatrixMultiplyIntegerToFloat(_Whole):
    """The product of matrices of integers, each less its zero point, as floats: sa·sb·Σ(a - za)·(b - zb) + bias.

    Sums of bytes are exact; those of wider types are of FLOAT64. A and B may be of different types, as ONNX Runtime
    has them, though the documents ask for one.
    """

    whole = ("BiasTensor",)
    typed_like = {**_Whole.typed_like, **dict.fromkeys(("BScaleTensor", "BiasTensor", "OutputTensor"), "AScaleTensor")}  # noqa: RUF012 - a table that nobody writes to

    a_tensor: Input
    a_scale_tensor: Input
    a_zero_point_tensor: OptionalInput = None
    b_tensor: Input
    b_scale_tensor: Input
    b_zero_point_tensor: OptionalInput = None
    bias_tensor: OptionalInput = None
    output_tensor: Output

    def implied_output_type(self) -> DataType:
        """The scales'."""
        return self.a_scale_tensor.data_type

    def value(self, total: Expr, elements: Mapping[str, Expr]) -> Expr:
        """sa·sb·total + bias."""
        found = total.to(F32) * self._scale(elements)
        return found + elements["BiasTensor"].to(F32) if "BiasTensor" in elements else found


class QuantizedLinearMatrixMultiply(_Whole):
    """The product of quantised matrices, quantised: sa·sb·Σ(a - za)·(b - zb)/s, rounded, plus z.

    Sums are exact; halves are rounded to even, and what lies outside the type's range takes its nearest end.
    """

    result_type = None
    typed_like = {**_Whole.typed_like, "OutputTensor": "OutputZeroPointTensor"}  # noqa: RUF012 - a table that nobody writes to

    a_tensor: Input
    a_scale_tensor: Input
    a_zero_point_tensor: OptionalInput = None
    b_tensor: Input
    b_scale_tensor: Input
    b_zero_point_tensor: OptionalInput = None
    output_scale_tensor: Input
    output_zero_point_tensor: OptionalInput = None
    output_tensor: Output

    def implied_output_type(self) -> DataType:
        """The output's zero points', or A's."""
        return (self.output_zero_point_tensor or self.a_tensor).data_type

    def value(self, total: Expr, elements: Mapping[str, Expr]) -> Expr:
        """round(total·sa·sb/s) + z."""
        scale = self._scale(elements) / elements["OutputScaleTensor"]
        zero = elements.get("OutputZeroPointTensor")
        return quantised(total.to(F32) * scale, zero)

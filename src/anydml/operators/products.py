"""The products of matrices: GEMM, and those of integers, which are summed exactly and may be scaled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from anydml.core.enums import DataType, FeatureLevel, MatrixTransform
from anydml.core.errors import DescriptionError, Fault
from anydml.ir.expressions import fold, given, load
from anydml.ir.verbs import Reduce
from anydml.ir.views import View
from anydml.operators.fused import (
    CLIP,
    FUSED,
    SOFTMAXES,
    OptionalActivation,
    activation_faults,
    fused_level_faults,
)
from anydml.operators.lowering import by_row
from anydml.operators.quantization import difference, quantised, sum_type
from anydml.operators.schema.fields import Float, Input, OptionalInput, Output, Transform
from anydml.operators.schema.records import Computed
from anydml.operators.schema.rules import exact_sizes, fault, same_dimension_count
from anydml.operators.schema.sizes import common_sizes, pad, repeats_to

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive
    from anydml.operators.schema.sizes import Sizes, Spread


# The common part: what fits, how a function sees its inputs, and the contraction


class Product(Computed):
    """Matrices of A times those of B: the last two dimensions are a matrix's, those before count the matrices.

    A subclass has its fields, its `factors` and its `value`.
    """

    broadcasts = True
    by_row: ClassVar[tuple[str, ...]] = ()
    """The tensors with a number for each row: in the last dimension but one, or the only one."""
    by_column: ClassVar[tuple[str, ...]] = ()
    """The tensors with a number for each column: in the last dimension."""
    whole: ClassVar[tuple[str, ...]] = ()
    """The tensors of the output's sizes."""

    if TYPE_CHECKING:
        a_tensor: Input
        b_tensor: Input
        output_tensor: Output

    # What subclasses say

    def factors(self, elements: Mapping[str, Expr]) -> tuple[Expr, Expr]:
        """The factors to multiply and sum, of the elements of the inputs by their fields."""
        raise NotImplementedError

    def value(self, total: Expr, elements: Mapping[str, Expr]) -> Expr:
        """The output's element, of the sum and the elements of the inputs."""
        raise NotImplementedError

    @staticmethod
    def turned(**attributes: Any) -> tuple[bool, bool]:  # noqa: ARG004 - for subclasses
        """Whether A and B are transposed first."""
        return False, False

    # Sizes

    def _turned(self) -> tuple[bool, bool]:
        return self.turned(**{name: getattr(self, name) for name in self.field_types()})

    def _product_sizes(self) -> tuple[Sizes, int, int, int]:
        """The matrices' count, then the rows, the columns, and the products in a sum."""
        (a, b), (turned_a, turned_b) = (self.a_tensor.sizes, self.b_tensor.sizes), self._turned()
        rows, length = a[-2:][::-1] if turned_a else a[-2:]
        return a[:-2], rows, b[-2] if turned_b else b[-1], length

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The rows of A by the columns of B."""
        batch, rows, columns, _ = self._product_sizes()
        return (*batch, rows, columns)

    @classmethod
    def spread(cls, sizes: Mapping[str, Sizes], **attributes: Any) -> Spread:
        """How a function sees its inputs: matrices are counted as NumPy broadcasts, numbers are for all."""
        a, b = sizes["ATensor"], sizes["BTensor"]
        for field, own in (("ATensor", a), ("BTensor", b)):
            if len(own) < 2:
                rule = f"{field} must have at least 2 dimensions, which are a matrix's"
                way_out = "x[None, :] makes a vector a row, x[:, None] a column"
                fault = Fault(field=f"{field}.Sizes", rule=rule, value=own, found=str(own), way_out=way_out)
                raise DescriptionError(cls.type.name, fault)
        batch = common_sizes(cls.type.name, ("ATensor", "BTensor"), (a[:-2], b[:-2]), "[:-2]")
        turned_a, turned_b = cls.turned(**attributes)
        product, rank = (*batch, a[-1 - (not turned_a)], b[-1 - turned_b]), len(batch) + 2
        found = {"ATensor": (a, (*batch, *a[-2:])), "BTensor": (b, (*batch, *b[-2:]))}
        for field, own in sizes.items():
            if field in cls.whole:
                found[field] = (own, product) if repeats_to(own, product) else (pad(own, rank), pad(own, rank))
            elif field not in found:
                seen = (*own, 1) if field in cls.by_row and len(own) == 1 else own
                found[field] = (pad(seen, rank), pad(seen, rank))
        return found

    @classmethod
    def usual_tensor(cls, field: str, first: TensorDesc) -> tuple[DataType, Sizes]:
        """B has the sizes that A has transposed, and what scales is one number."""
        *batch, rows, length = (1,) * (2 - first.dimension_count) + first.sizes
        if field in (*cls.by_row, *cls.by_column):
            return first.data_type, (1,) * first.dimension_count
        return first.data_type, (*batch, length if field == "BTensor" else rows, rows)

    # Rules

    def rules(self) -> Iterator[Fault]:
        """The matrices fit, and what scales them has a number for all, or one for each row or column."""
        yield from self.typed_faults(self.inputs())
        scales = self._given((*self.by_row, *self.by_column))
        counts = [fault for field in ("BTensor", *self._given(self.whole)) for fault in self._counted(field)]
        yield from counts
        yield from self._scale_counts(scales)
        if self.a_tensor.dimension_count < 2:
            sizes, rule = self.a_tensor.sizes, "ATensor must have at least 2 dimensions, which are a matrix's"
            yield Fault(field="ATensor.Sizes", rule=rule, value=sizes, found=str(sizes))
        elif not counts:
            unfit = list(self._fitting())
            yield from unfit or self._scaling()

    def _scale_counts(self, scales: Sequence[str]) -> Iterator[Fault]:
        """The rule that scales have one dimension count."""
        for field in scales[1:]:
            yield from same_dimension_count(self, field, scales[0])

    def output_rules(self) -> Iterator[Fault]:
        """The output has the rows of A and the columns of B."""
        yield from self.typed_faults(self.outputs())
        source = "the rows of ATensor and the columns of BTensor"
        counts = list(self._counted("OutputTensor"))
        yield from counts or exact_sizes(self, "OutputTensor", self.implied_output_sizes(), source)

    def _given(self, fields: Sequence[str]) -> list[str]:
        return [field for field in fields if field in self.inputs()]

    def _counted(self, field: str) -> Iterator[Fault]:
        yield from same_dimension_count(self, field, "ATensor")

    def _fitting(self) -> Iterator[Fault]:
        """A sum has as many elements of A as of B, and there are as many matrices."""
        (a, b), (turned_a, turned_b) = (self.a_tensor.sizes, self.b_tensor.sizes), self._turned()
        last = len(a) - 1
        summed = (last - turned_a, last - (not turned_b))
        for mine, other in (*((k, k) for k in range(last - 1)), summed):
            if a[mine] != b[other]:
                rule = f"BTensor.Sizes[{other}] must be ATensor.Sizes[{mine}], {a[mine]}"
                way_out = "a stride of 0 repeats a matrix" if mine < last - 1 else ""
                if mine == summed[0] and b[last - turned_b] == a[mine] and "trans_b" in self.field_types():
                    way_out = f"TransB {'NONE' if turned_b else 'TRANSPOSE'} would fit"
                field = f"BTensor.Sizes[{other}]"
                yield Fault(field=field, rule=rule, value=b, found=str(b[other]), way_out=way_out)

    def _scaling(self) -> Iterator[Fault]:
        sizes = self.implied_output_sizes()
        for field in self._given(self.whole):
            yield from exact_sizes(self, field, sizes, "the rows of ATensor and the columns of BTensor")
        for fields, place, what in ((self.by_row, -2, "row"), (self.by_column, -1, "column")):
            for field in self._given(fields):
                own, count = self.tensors()[field].sizes, sizes[place]
                wanted = [_along(own, place, n) for n in (1, count)]
                if own not in wanted:
                    either = " or ".join(dict.fromkeys(map(str, wanted)))
                    yield fault(f"{field}.Sizes", f"must be {either}, a number for all or one for each {what}", own)

    # What follows

    def lower(self) -> tuple[Primitive, ...]:
        """A contraction."""
        return (self.contraction(View.of("OutputTensor", self.output_tensor)),)

    def contraction(self, target: View) -> Reduce:
        """A is repeated along the columns, B along the rows, and all others along what is summed."""
        batch, rows, columns, length = self._product_sizes()
        sizes, turned = (*batch, rows, columns, length), self._turned()
        views = []
        for field in self.read():
            view = View.of(field, self.tensors()[field])
            *outer, down, across = (0,) * (2 - len(view.strides)) + view.strides
            if field == "ATensor":
                strides = (*outer, across, 0, down) if turned[0] else (*outer, down, 0, across)
            elif field == "BTensor":
                strides = (*outer, 0, down, across) if turned[1] else (*outer, 0, across, down)
            elif field in self.whole:
                strides = (*outer, down, across, 0)
            else:
                step = sum(view.strides)  # of the one dimension that is not of size 1
                strides = (*[0] * len(batch), *((step, 0) if field in self.by_row else (0, step)), 0)
            views.append(View(field, view.data_type, sizes, strides))
        elements = {view.tensor: load(slot, view.data_type) for slot, view in enumerate(views)}
        left, right = self.factors(elements)
        value = self.value(fold("sum", left * right), elements).to(target.data_type)
        return Reduce(tuple(views), by_row(target, 1), value, 1)

    def read(self) -> list[str]:
        """The inputs that are read."""
        return list(self.inputs())


def _along(own: Sizes, place: int, count: int) -> Sizes:
    """Sizes of 1, but for one dimension: the last, or for rows the one before, where there are two."""
    k = max(place, -len(own)) % len(own)
    return tuple(count if j == k else 1 for j in range(len(own)))


# The operators


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
    typed_like = {"AZeroPointTensor": "ATensor", "BZeroPointTensor": "BTensor"}

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
        return DataType.INT32

    def value(self, total: Expr, elements: Mapping[str, Expr]) -> Expr:  # noqa: ARG002 - as others
        return total


class MatrixMultiplyIntegerToFloat(_Whole):
    """The product of matrices of integers, each less its zero point, as floats: sa·sb·Σ(a - za)·(b - zb) + bias.

    Sums of bytes are exact; those of wider types are of FLOAT64. A and B may be of different types, as ONNX Runtime
    has them, though the documents ask for one.
    """

    whole = ("BiasTensor",)
    typed_like = {**_Whole.typed_like, **dict.fromkeys(("BScaleTensor", "BiasTensor", "OutputTensor"), "AScaleTensor")}

    a_tensor: Input
    a_scale_tensor: Input
    a_zero_point_tensor: OptionalInput = None
    b_tensor: Input
    b_scale_tensor: Input
    b_zero_point_tensor: OptionalInput = None
    bias_tensor: OptionalInput = None
    output_tensor: Output

    def implied_output_type(self) -> DataType:
        return self.a_scale_tensor.data_type

    def value(self, total: Expr, elements: Mapping[str, Expr]) -> Expr:
        found = total.to(F32) * self._scale(elements)
        return found + elements["BiasTensor"].to(F32) if "BiasTensor" in elements else found


class QuantizedLinearMatrixMultiply(_Whole):
    """The product of quantised matrices, quantised: sa·sb·Σ(a - za)·(b - zb)/s, rounded, plus z.

    Sums are exact; halves are rounded to even, and what lies outside the type's range takes its nearest end.
    """

    result_type = None
    typed_like = {**_Whole.typed_like, "OutputTensor": "OutputZeroPointTensor"}

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
        scale = self._scale(elements) / elements["OutputScaleTensor"]
        zero = elements.get("OutputZeroPointTensor")
        return quantised(total.to(F32) * scale, zero)

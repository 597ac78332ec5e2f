"""The functions: DirectML's operators on arrays of any library, with NumPy's habits.

Ranks are the arrays' own, negative axes count from the end, the result is a new array of the caller's library unless
`out` is given, and `device` says where and at which feature level to run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.arrays import allocate, view
from anydml.enums import AxisDirection, IndexMode
from anydml.errors import DescriptionError, Fault
from anydml.operators import CumulativeProduct, CumulativeSummation, GatherND, GatherND1, Slice, Slice1
from anydml.parse import read_int
from anydml.runtime.device import Device, device_named
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.arrays import ArrayView
    from anydml.operators import OperatorDesc


def slice(
    x: Any,
    offsets: Sequence[int] | int,
    sizes: Sequence[int] | int,
    strides: Sequence[int] | int | None = None,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """SLICE: `sizes` elements from `offsets` on, `strides` apart (1 where not given), in each dimension.

    >>> slice(np.arange(10), [2], [3], [2])
    array([2, 4, 6])
    """
    call = _Call(Slice, device, x, out)
    strides = (1,) * call.rank if strides is None else strides
    return call.run(
        offsets=call.pad(offsets, 0),
        sizes=call.pad(sizes, 1),
        strides=call.pad(strides, 1),
    )


def slice1(
    x: Any,
    input_window_offsets: Sequence[int] | int,
    input_window_sizes: Sequence[int] | int,
    input_window_strides: Sequence[int] | int | None = None,
    output_sizes: Sequence[int] | int | None = None,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """SLICE1: from a window of `x`, every stride-th element; a negative stride walks from the window's end.

    Without `output_sizes` the result takes all that the window gives.

    >>> slice1(np.arange(10), [2], [6], [-2])
    array([7, 5, 3])
    """
    call = _Call(Slice1, device, x, out)
    strides = (1,) * call.rank if input_window_strides is None else input_window_strides
    return call.run(
        output_sizes=output_sizes,
        input_window_offsets=call.pad(input_window_offsets, 0),
        input_window_sizes=call.pad(input_window_sizes, 1),
        input_window_strides=call.pad(strides, 1),
    )


def gather_nd(
    x: Any,
    indices: Any,
    batch_dimension_count: int = 0,
    index_mode: IndexMode | str = IndexMode.RAISE,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """GATHER_ND, and GATHER_ND1 with batch dimensions: the elements or blocks of `x` that tuples point at.

    The last dimension of `indices` holds the coordinates of a tuple. An index outside its dimension is an error that
    names it; with `index_mode="clamp"` it takes the nearest element.

    >>> gather_nd(np.array([[0, 1], [2, 3]]), np.array([[1], [0]]))
    array([[2, 3],
           [0, 1]])
    """
    faults: list[Fault] = []
    batch = read_int(batch_dimension_count, "BatchDimensionCount", faults)
    cls = GatherND1 if batch or faults else GatherND
    if faults:
        raise DescriptionError(cls.type.name, faults)
    call = _Call(cls, device, x, out)
    seen = view(indices, call.name, "IndicesTensor")
    call.add("IndicesTensor", seen)
    # Where the indices are not yet known to be right, any rank will do to describe them.
    tuple_size = seen.sizes[-1] if seen.sizes else 0
    result_rank = max(len(seen.sizes) - 1 + call.rank - batch - tuple_size, 0)
    call.make_room(len(seen.sizes), result_rank)
    return call.run(
        result_rank=result_rank,
        input_dimension_count=call.rank,
        indices_dimension_count=len(seen.sizes),
        index_mode=index_mode,
        **({"batch_dimension_count": batch} if batch else {}),
    )


def cumulative_summation(
    x: Any,
    axis: int,
    axis_direction: AxisDirection | str = AxisDirection.INCREASING,
    has_exclusive_sum: bool = False,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """CUMULATIVE_SUMMATION: the running sum along an axis. `out=x` works in place.

    >>> cumulative_summation(np.array([2, 1, 3, 5]), 0)
    array([ 2,  3,  6, 11])
    """
    call = _Call(CumulativeSummation, device, x, out)
    return call.run(axis=call.axis(axis), axis_direction=axis_direction, has_exclusive_sum=has_exclusive_sum)


def cumulative_product(
    x: Any,
    axis: int,
    axis_direction: AxisDirection | str = AxisDirection.INCREASING,
    has_exclusive_product: bool = False,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """CUMULATIVE_PRODUCT: the running product along an axis. `out=x` works in place.

    >>> cumulative_product(np.array([2, 1, 3, 5]), 0)
    array([ 2,  2,  6, 30])
    """
    call = _Call(CumulativeProduct, device, x, out)
    return call.run(axis=call.axis(axis), axis_direction=axis_direction, has_exclusive_product=has_exclusive_product)


class _Call:
    """One call: arrays are described, with leading dimensions of size 1 where the device's level asks for more."""

    def __init__(self, cls: type[OperatorDesc], device: Device | str | None, x: object, out: object) -> None:
        if isinstance(device, Device):
            self.device = device
        else:  # what is no name cannot be looked up, and is refused by Device
            self.device = device_named(device) if device is None or isinstance(device, str) else Device(device)
        self.cls = cls
        self.name = cls.type.name
        self.inputs = {"InputTensor": view(x, self.name, "InputTensor")}
        self.out = None if out is None else view(out, self.name, "OutputTensor", convert=False)
        self.rank = len(self.inputs["InputTensor"].sizes)
        self.described_rank = self.rank
        self.make_room(self.rank)

    def add(self, field: str, seen: ArrayView) -> None:
        """Take another input."""
        self.inputs[field] = seen

    def make_room(self, *ranks: int) -> None:
        """Describe with the smallest dimension count of this level that has room for every tensor."""
        needed = max(self.described_rank, *ranks)
        row = self.cls.support.at(self.device.feature_level)
        counts = row.tensors["InputTensor"].dimension_counts if row else ()
        self.described_rank = min((count for count in counts if count >= needed), default=needed)

    def pad(self, values: Any, fill: int) -> Any:
        """Values for the leading dimensions that were added; what is no list is left for the description to refuse."""
        missing = self.described_rank - self.rank
        try:
            return (fill,) * missing + tuple(values) if missing else values
        except TypeError:
            return (fill,) * missing + (values,)

    def axis(self, axis: object) -> int:
        """An axis of the array, negative from the end, as one of the described tensor."""
        faults: list[Fault] = []
        number = read_int(axis, "Axis", faults, -max(self.rank, 1), max(self.rank, 1) - 1)
        if faults:
            raise DescriptionError(self.name, faults)
        return number % max(self.rank, 1) + self.described_rank - self.rank

    def describe(self, field: str, seen: ArrayView) -> TensorDesc:
        """Describe an array, as the operator's tensor that it is."""
        signed = any(stride < 0 for stride in seen.strides)
        sizes, strides = seen.sizes, seen.strides
        if field == "OutputTensor" and not sizes:  # a single element, which a description gives one dimension
            sizes, strides = (1,), (1,)
        try:
            desc = TensorDesc(seen.data_type, sizes, strides=strides, signed_strides=signed)
            return desc.padded(self.described_rank)
        except DescriptionError as error:
            raise error.within(self.name, f"{field}.") from None

    def run(self, *, output_sizes: Any = None, result_rank: int | None = None, **attributes: Any) -> Any:
        """Describe, compile or find compiled, bind and dispatch."""
        tensors = {
            "input_tensor" if field == "InputTensor" else "indices_tensor": self.describe(field, seen)
            for field, seen in self.inputs.items()
        }
        desc = self._complete({**tensors, **attributes}, output_sizes)
        compiled = self.device.compile_cached(desc)
        output: TensorDesc = desc.output_tensor  # type: ignore[attr-defined]  # every operator here has one
        if self.out is not None:
            return compiled.bind_views(list(self.inputs.values()), self.out).dispatch()
        rank = self.rank if result_rank is None else result_rank
        result = allocate(output.data_type, output.sizes[len(output.sizes) - rank :])
        compiled.bind_views(list(self.inputs.values()), view(result, self.name, "OutputTensor")).dispatch()
        return self.inputs["InputTensor"].wrap(result)

    def _complete(self, fields: dict[str, Any], output_sizes: Any) -> OperatorDesc:
        if self.out is not None:
            output = self.describe("OutputTensor", self.out)
        if output_sizes is not None:
            data_type = fields["input_tensor"].data_type
            try:
                asked = TensorDesc(data_type, self.pad(output_sizes, 1))
            except DescriptionError as error:
                raise error.within(self.name, "OutputTensor.") from None
            if self.out is not None and asked.sizes != output.sizes:
                rule = f"out must have the output_sizes, {output_sizes}"
                fault = Fault(field="OutputTensor.Sizes", rule=rule, value=self.out.sizes, found=str(self.out.sizes))
                raise DescriptionError(self.name, fault)
        if self.out is not None:
            return self.cls.of({"output_tensor": output, **fields})
        if output_sizes is not None:
            return self.cls.of({"output_tensor": asked, **fields})
        return self.cls.infer(feature_level=self.device.feature_level, **fields)

"""SLICE_GRAD: what a slice took, back in its place."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read at run time
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from anydml.enums import DataType
from anydml.ir.expressions import const, coordinate, fetch, given, maximum, minimum, where
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map
from anydml.ir.views import View
from anydml.operators.computed import Computed
from anydml.operators.fields import Input, IntArray, Output, SizeArray, UintArray  # noqa: TC001 - read at run time
from anydml.operators.moved import around
from anydml.operators.rules import same_data_type, same_dimension_count
from anydml.operators.slice import Slice1
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.errors import Fault

INT64 = DataType.INT64


class SliceGrad(Computed):
    """The gradient of SLICE1 with respect to its input: the incoming one where the slice took, and 0 elsewhere."""

    implies_output = False
    fills: ClassVar[Mapping[str, float]] = {
        "input_window_offsets": 0, "input_window_sizes": 1, "input_window_strides": 1,
    }  # fmt: skip

    input_gradient_tensor: Input
    output_gradient_tensor: Output
    input_window_offsets: UintArray
    input_window_sizes: SizeArray
    input_window_strides: IntArray

    @property
    def dimension_count(self) -> int:
        """DirectML's DimensionCount, the length of the arrays."""
        return len(self.input_window_offsets)

    @property
    def _slice(self) -> Slice1:
        """The slice whose gradient it is."""
        return Slice1(
            input_tensor=TensorDesc(self.output_gradient_tensor.data_type, self.output_gradient_tensor.sizes),
            output_tensor=TensorDesc(self.input_gradient_tensor.data_type, self.input_gradient_tensor.sizes),
            input_window_offsets=self.input_window_offsets,
            input_window_sizes=self.input_window_sizes,
            input_window_strides=self.input_window_strides,
        )

    def rules(self) -> Iterator[Fault]:
        """The gradients are alike."""
        yield from same_data_type(self, "OutputGradientTensor", "InputGradientTensor")
        yield from same_dimension_count(self, "OutputGradientTensor", "InputGradientTensor")

    def output_rules(self) -> Iterator[Fault]:
        """A slice of the output with these attributes gives the input."""
        forward = self._slice
        faults = list(forward.rules())
        for fault in faults or forward.output_rules():
            yield _renamed(fault)

    def _walk(self) -> tuple[list[int], list[int]]:
        """Where the first element goes, and how far on the next ones do; of a single one no step means anything."""
        sizes = self.input_gradient_tensor.sizes
        steps = [stride if size > 1 else 1 for stride, size in zip(self.input_window_strides, sizes, strict=True)]
        window = zip(self.input_window_offsets, self.input_window_sizes, self.input_window_strides, strict=True)
        return [offset + (size - 1 if stride < 0 else 0) for offset, size, stride in window], steps

    def lower(self) -> tuple[Map, ...]:
        """A copy into the window, and 0 around it; with gaps between its elements a map that looks at each."""
        source = View.of("InputGradientTensor", self.input_gradient_tensor)
        target = View.of("OutputGradientTensor", self.output_gradient_tensor)
        count = source.sizes
        start, steps = self._walk()
        if all(abs(step) == 1 for step in steps):
            low = [at if step > 0 else at - size + 1 for at, step, size in zip(start, steps, count, strict=True)]
            return (copy_of(source, target.window(start, steps, count)), *around(target, low, count, 0))
        return self.told()

    def told(self) -> tuple[Map]:
        """Each element with the place that it comes from, where there is one."""
        source = View.of("InputGradientTensor", self.input_gradient_tensor)
        target = View.of("OutputGradientTensor", self.output_gradient_tensor)
        start, steps = self._walk()
        is_taken, places = const(True, None), []
        for k, (at, step, size) in enumerate(zip(start, steps, source.sizes, strict=True)):
            behind = (coordinate(k) - given(at, INT64)) * (1 if step > 0 else -1)
            by = given(abs(step), INT64)
            # Cut toward 0, what lies before the first has a remainder or is below 0.
            number = behind / by
            is_taken = is_taken & (behind >= 0) & (number * by).equals(behind) & (number < given(size, INT64))
            places.append(minimum(maximum(number, 0), given(size - 1, INT64)))
        kind = source.data_type
        return (Map((source,), target, where(is_taken, fetch(0, kind, places), given(0, kind))),)


def _renamed(fault: Fault) -> Fault:
    """A fault of the slice as its gradient has it: what one takes the other gives."""

    def change(text: str) -> str:
        return text.replace("OutputTensor", "InputGradientTensor").replace(" InputTensor", " OutputGradientTensor")

    return replace(fault, field=change(f" {fault.field}").strip(), rule=change(f" {fault.rule}").strip())

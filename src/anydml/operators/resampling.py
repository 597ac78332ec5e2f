"""RESAMPLE 0 to 3 and UPSAMPLE_2D: a tensor in other sizes, its elements between those that are there."""

from __future__ import annotations

import math
from collections.abc import Mapping  # noqa: TC003 - read at run time
from typing import TYPE_CHECKING, ClassVar

from anydml.enums import AxisDirection, InterpolationMode
from anydml.errors import Fault
from anydml.operators.fields import Direction, FloatArray, Interpolation, Size2D, dml_name
from anydml.operators.moved import at_least_1
from anydml.operators.resampled import Resampled
from anydml.operators.rules import one_value_per_dimension, same_data_type, same_dimension_count
from anydml.operators.sampling import Axis

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.operators.computed import Computed

HALF = 0.5
"""The offset of elements' middles: of the input's, and its negative of the output's."""


def scale_rules(desc: Computed, *names: str) -> Iterator[Fault]:
    """Check that numbers are finite, and those of scales above 0."""
    for name in names:
        for i, value in enumerate(getattr(desc, name)):
            field, is_scale = f"{dml_name(name)}[{i}]", name == "scales"
            if not math.isfinite(value) or (is_scale and value <= 0):
                rule = f"{field} must be finite{' and above 0' if is_scale else ''}"
                yield Fault(field=field, rule=rule, value=value, found=str(value))


class Resampling(Resampled):
    """Scales for each dimension, and sizes that need not be what they give."""

    fills: ClassVar[Mapping[str, float]] = {"scales": 1.0}
    sizes_are_free = True
    if TYPE_CHECKING:
        scales: FloatArray

    def rules(self) -> Iterator[Fault]:
        """There is a scale for each dimension, above 0, and finite offsets."""
        yield from one_value_per_dimension(self, *self.fills)
        yield from scale_rules(self, *self.fills)

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The input's times Scales, rounded down, and at least 1."""
        return tuple(
            max(math.floor(size * scale), 1) for size, scale in zip(self.input_tensor.sizes, self.scales, strict=True)
        )

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type and dimension count: its sizes are free."""
        yield from same_data_type(self, "OutputTensor", "InputTensor")
        yield from same_dimension_count(self, "OutputTensor", "InputTensor")

    def axes(self) -> list[Axis]:
        """By Scales, and the offsets where there are some."""
        count = len(self.scales)
        inputs: Sequence[float] = getattr(self, "input_pixel_offsets", (HALF,) * count)
        outputs: Sequence[float] = getattr(self, "output_pixel_offsets", (-HALF,) * count)
        rounding = getattr(self, "rounding_direction", None)
        sizes = zip(self.input_tensor.sizes, self.output_tensor.sizes, strict=True)
        return [
            Axis(size, length, self.scales[k], inputs[k], outputs[k], rounding)
            for k, (size, length) in enumerate(sizes)
        ]


class Resample(Resampling):
    """A tensor in other sizes: its element o stands at (o + 0.5)/Scale - 0.5 of the input.

    With NEAREST_NEIGHBOR the nearest element is taken, the later one of two; with LINEAR the two around are weighted,
    in each dimension, in FLOAT32. Past the ends the last element goes on. A Scale that is the FLOAT of a ratio of small
    whole numbers is that ratio. Integers are rounded to the nearest,
    halves to even, which the documents leave open.
    """

    interpolation_mode: Interpolation = InterpolationMode.NEAREST_NEIGHBOR
    scales: FloatArray

    @property
    def scale_count(self) -> int:
        """DirectML's ScaleCount, the length of the array."""
        return len(self.scales)


class _WithOffsets(Resampling):
    """Offsets for each dimension."""

    fills: ClassVar[Mapping[str, float]] = {"scales": 1.0, "input_pixel_offsets": 0.0, "output_pixel_offsets": 0.0}

    @property
    def dimension_count(self) -> int:
        """DirectML's DimensionCount, the length of the arrays."""
        return len(self.scales)


class Resample1(_WithOffsets):
    """A tensor in other sizes: its element o stands at (o - OutputPixelOffset)/Scale - InputPixelOffset of the input.

    With NEAREST_NEIGHBOR the nearest element is taken, the later one of two; with LINEAR the two around are weighted,
    in each dimension, in FLOAT32. Past the ends the last element goes on. A Scale that is the FLOAT of a ratio of small
    whole numbers is that ratio. Integers are rounded to the nearest,
    halves to even, which the documents leave open.
    """

    interpolation_mode: Interpolation = InterpolationMode.NEAREST_NEIGHBOR
    scales: FloatArray
    input_pixel_offsets: FloatArray
    output_pixel_offsets: FloatArray


class Resample2(_WithOffsets):
    """A tensor in other sizes: its element o stands at (o - OutputPixelOffset)/Scale - InputPixelOffset of the input.

    With NEAREST_NEIGHBOR the element before or after that is taken, as RoundingDirection says; with LINEAR the two
    around are weighted, in each dimension, in FLOAT32. Past the ends the last element goes on. A Scale that is the
    FLOAT of a ratio of small whole numbers is that ratio. Integers are rounded to the nearest,
    halves to even, which the documents leave open.
    """

    interpolation_mode: Interpolation = InterpolationMode.NEAREST_NEIGHBOR
    rounding_direction: Direction = AxisDirection.INCREASING
    scales: FloatArray
    input_pixel_offsets: FloatArray
    output_pixel_offsets: FloatArray


class Resample3(_WithOffsets):
    """A tensor in other sizes: its element o stands at (o - OutputPixelOffset)/Scale - InputPixelOffset of the input.

    With NEAREST_NEIGHBOR the element before or after that is taken, as RoundingDirection says; with LINEAR the two
    around are weighted, in each dimension, in FLOAT32. With Antialiased, LINEAR and a Scale below 1/2 those up to
    1/Scale away are, by how near they are. Past the ends the last element goes on. A Scale that is the FLOAT of a ratio
    of small whole numbers is that ratio. Integers are rounded to the nearest,
    halves to even, which the documents leave open.
    """

    interpolation_mode: Interpolation = InterpolationMode.NEAREST_NEIGHBOR
    rounding_direction: Direction = AxisDirection.INCREASING
    scales: FloatArray
    input_pixel_offsets: FloatArray
    output_pixel_offsets: FloatArray
    antialiased: bool = False


class Upsample2D(Resampled):
    """Makes the rows and columns, the last two dimensions, a whole number of times as many.

    ScaleSize is the width's number, then the height's. The element o stands at (o + 0.5)/Scale - 0.5 of the input: with
    NEAREST_NEIGHBOR the nearest is taken, with LINEAR the two around are weighted, in FLOAT32. Past the ends the last
    element goes on.
    """

    sizes_from: ClassVar[str] = "those of InputTensor times ScaleSize"

    scale_size: Size2D
    interpolation_mode: Interpolation = InterpolationMode.NEAREST_NEIGHBOR

    def rules(self) -> Iterator[Fault]:
        """The numbers are at least 1."""
        yield from at_least_1(self, "scale_size")

    def _scales(self) -> tuple[int, ...]:
        width, height = self.scale_size
        return (*(1 for _ in self.input_tensor.sizes[2:]), height, width)

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The input's, rows and columns so many times."""
        return tuple(size * scale for size, scale in zip(self.input_tensor.sizes, self._scales(), strict=True))

    def axes(self) -> list[Axis]:
        """By ScaleSize, of elements' middles."""
        sizes = zip(self.input_tensor.sizes, self.output_tensor.sizes, self._scales(), strict=True)
        return [Axis(size, length, float(scale), HALF, -HALF) for size, length, scale in sizes]

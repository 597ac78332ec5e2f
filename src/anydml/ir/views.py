"""Views: which elements of a tensor's memory a verb reads or writes, in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.enums import DataType
    from anydml.tensor import TensorDesc


class Cut(NamedTuple):
    """The kept part of a dimension: `size` indices, `step` apart, from `start` on."""

    start: int
    step: int
    size: int


@dataclass(frozen=True, slots=True)
class View:
    """Part of a bound tensor: element i lies at offset + the sum of i[k]·strides[k], in elements."""

    tensor: str
    """The bind point whose memory this is: `InputTensor`."""
    data_type: DataType
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    """From the tensor's own first element."""

    @classmethod
    def of(cls, tensor: str, desc: TensorDesc) -> View:
        """The whole of a described tensor."""
        return cls(tensor, desc.data_type, desc.sizes, _meaningful(desc.sizes, desc.element_strides))

    def window(self, start: Sequence[int], steps: Sequence[int], sizes: Sequence[int]) -> View:
        """The elements start + steps·i for i below sizes, in each dimension."""
        offset = self.offset + sum(s * stride for s, stride in zip(start, self.strides, strict=True))
        strides = tuple(step * stride for step, stride in zip(steps, self.strides, strict=True))
        return View(self.tensor, self.data_type, tuple(sizes), _meaningful(sizes, strides), offset)

    def named(self, tensor: str) -> View:
        """The same elements of another tensor's memory."""
        return View(tensor, self.data_type, self.sizes, self.strides, self.offset)

    def pick(self, dimensions: Sequence[int]) -> View:
        """The same elements with the dimensions in another order."""
        sizes, strides = ([of[k] for k in dimensions] for of in (self.sizes, self.strides))
        return View(self.tensor, self.data_type, tuple(sizes), tuple(strides), self.offset)

    def last(self, dimension_count: int) -> View:
        """The last dimensions alone; those before them have size 1."""
        first = len(self.sizes) - dimension_count
        return View(self.tensor, self.data_type, self.sizes[first:], self.strides[first:], self.offset)


def _meaningful(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides with 0 where a size of 1 leaves them without meaning: there they may be of any size."""
    return tuple(stride if size > 1 else 0 for size, stride in zip(sizes, strides, strict=True))

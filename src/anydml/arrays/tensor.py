"""TensorDesc: DirectML's DML_BUFFER_TENSOR_DESC, which checks itself."""

from __future__ import annotations

import math
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.arrays import view
from anydml.core.enums import DataType, TensorFlags
from anydml.core.errors import DescriptionError, Fault
from anydml.core.memory import overlaps_itself, packed_strides, span
from anydml.core.parse import UINT32_MAX, UINT64_MAX, read_bool, read_enum, read_int, read_ints

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_DIMENSIONS = 8
MAX_ELEMENTS = UINT32_MAX
_INT64_MAX = 2**63 - 1
_PLAIN = {int}
"""The types of sizes that need no reading."""
_most: ContextVar[int] = ContextVar("most", default=MAX_ELEMENTS)


@contextmanager
def larger_than_memory() -> Iterator[None]:
    """Within it tensors may have any number of elements: they describe arrays that are computed in blocks."""
    token = _most.set(_INT64_MAX)
    try:
        yield
    finally:
        _most.reset(token)


@dataclass(frozen=True, slots=True, weakref_slot=True, init=False, repr=False)
class TensorDesc:
    """A tensor in a buffer: its type, its sizes, and how its elements lie.

    Strides are in elements; where none are given the tensor is packed. A stride of 0 repeats an element along its
    dimension, which only an input may do. DirectML's strides have no sign; with `signed_strides` they may be
    negative, which describes an array that runs backwards (`TensorDesc.of(x[::-1])`) and binds to arrays only.
    """

    data_type: DataType
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None
    flags: TensorFlags
    total_tensor_size_in_bytes: int
    guaranteed_base_offset_alignment: int
    signed_strides: bool

    def __init__(
        self,
        data_type: DataType | str | type | Any,
        sizes: Sequence[int] | int,
        *,
        strides: Sequence[int] | int | None = None,
        flags: TensorFlags | str | int = TensorFlags.NONE,
        total_tensor_size_in_bytes: int | None = None,
        guaranteed_base_offset_alignment: int = 0,
        signed_strides: bool = False,
    ) -> None:
        put = object.__setattr__
        if (
            strides is None
            and type(data_type) is DataType
            and type(sizes) is tuple
            and set(map(type, sizes)) == _PLAIN
            and flags is TensorFlags.NONE
            and total_tensor_size_in_bytes is None
            and type(guaranteed_base_offset_alignment) is int
            and not guaranteed_base_offset_alignment
            and signed_strides is False
            and len(sizes) <= MAX_DIMENSIONS
            and min(sizes) >= 1
            and (count := math.prod(sizes)) <= _most.get()
        ):  # packed, as nearly all are that a model's graph describes: a quarter of the time
            put(self, "data_type", data_type)
            put(self, "sizes", sizes)
            put(self, "signed_strides", False)
            put(self, "strides", None)
            put(self, "flags", flags)
            put(self, "guaranteed_base_offset_alignment", 0)
            put(self, "total_tensor_size_in_bytes", (data_type.bytes_of(count) + 3) & ~3)
            return
        faults: list[Fault] = []
        put(self, "data_type", read_enum(DataType, data_type, "DataType", faults, DataType.FLOAT32))
        put(self, "sizes", read_ints(sizes, "Sizes", faults, low=1))
        put(self, "signed_strides", read_bool(signed_strides, "signed_strides", faults))
        low, high = (-_INT64_MAX, _INT64_MAX) if self.signed_strides else (0, UINT32_MAX)
        way_out = "signed_strides=True describes an array that runs backwards"
        put(self, "strides", None if strides is None else read_ints(strides, "Strides", faults, low, high, way_out))
        put(self, "flags", read_enum(TensorFlags, flags, "Flags", faults, TensorFlags.NONE))
        alignment = read_int(guaranteed_base_offset_alignment, "GuaranteedBaseOffsetAlignment", faults)
        put(self, "guaranteed_base_offset_alignment", alignment)
        if not faults:
            self._check_layout(faults)
        minimum = self.minimum_implied_size_in_bytes if not faults else 0
        total = minimum
        if total_tensor_size_in_bytes is not None:
            total = read_int(total_tensor_size_in_bytes, "TotalTensorSizeInBytes", faults, 0, UINT64_MAX)
            if not faults:
                self._check_total(total, minimum, faults)
        put(self, "total_tensor_size_in_bytes", total)
        if faults:
            raise DescriptionError("TensorDesc", faults)

    def _check_layout(self, faults: list[Fault]) -> None:
        count = len(self.sizes)
        if not 1 <= count <= MAX_DIMENSIONS:
            rule = f"Sizes must have 1 to {MAX_DIMENSIONS} dimensions"
            faults.append(Fault(field="Sizes", rule=rule, value=self.sizes, found=str(count)))
        if self.strides is not None and len(self.strides) != count:
            rule = f"Strides must have as many dimensions as Sizes, {count}"
            faults.append(Fault(field="Strides", rule=rule, value=self.strides, found=str(len(self.strides))))
        elif count > MAX_DIMENSIONS:
            pass  # of thousands of sizes the product has more digits than Python writes
        elif self.element_count > _most.get():
            rule = f"Sizes must multiply to at most 2^32 - 1 = {MAX_ELEMENTS} elements"
            faults.append(Fault(field="Sizes", rule=rule, value=self.sizes, found=str(self.element_count)))
        elif self.extent > _most.get():
            # The reference: "the total size of a buffer tensor may not exceed (2^32 - 1) elements", gaps and all.
            rule = f"Sizes and Strides must span at most 2^32 - 1 = {MAX_ELEMENTS} elements"
            faults.append(Fault(field="Strides", rule=rule, value=self.strides, found=str(self.extent)))
        alignment, width = self.guaranteed_base_offset_alignment, self.data_type.size_in_bytes
        if alignment and (alignment & (alignment - 1) or alignment < width):
            rule = (
                "GuaranteedBaseOffsetAlignment must be 0 or a power of two of at least the element's size,"
                f" {width} for {self.data_type.name}"
            )
            faults.append(
                Fault(field="GuaranteedBaseOffsetAlignment", rule=rule, value=alignment, found=str(alignment))
            )

    def _check_total(self, total: int, minimum: int, faults: list[Fault]) -> None:
        most = self.data_type.bytes_of(MAX_ELEMENTS)
        if total < minimum:
            rule = f"TotalTensorSizeInBytes must be at least the {minimum} that sizes, strides and type imply"
        elif total > max(most, minimum):
            rule = f"TotalTensorSizeInBytes must be at most 2^32 - 1 elements, {most} for {self.data_type.name}"
        else:
            return
        faults.append(Fault(field="TotalTensorSizeInBytes", rule=rule, value=total, found=str(total)))

    @classmethod
    def of(cls, array: object, *, flags: TensorFlags | str | int = TensorFlags.NONE) -> TensorDesc:
        """Describe an array of any library as it lies in memory, strides included."""
        seen = view(array, "TensorDesc", "array", memory=None)
        signed = any(stride < 0 for stride in seen.strides)
        return cls(seen.data_type, seen.sizes, strides=seen.strides, flags=flags, signed_strides=signed)

    @property
    def dimension_count(self) -> int:
        """DirectML's DimensionCount."""
        return len(self.sizes)

    @property
    def element_count(self) -> int:
        """The number of coordinates; a repeated element counts each time."""
        return math.prod(self.sizes)

    @property
    def element_strides(self) -> tuple[int, ...]:
        """The strides, those of a packed tensor where none were given."""
        return packed_strides(self.sizes) if self.strides is None else self.strides

    @property
    def extent(self) -> int:
        """The elements from the lowest to the highest that the tensor touches, gaps included."""
        if self.strides is None:
            return self.element_count
        below, above = span(self.sizes, self.strides)
        return above - below + 1

    @property
    def minimum_implied_size_in_bytes(self) -> int:
        """DMLCalcBufferTensorSize: the bytes the tensor spans, rounded up to a multiple of 4."""
        return (self.data_type.bytes_of(self.extent) + 3) & ~3

    @property
    def is_owned_by_dml(self) -> bool:
        """Whether the data is handed over when the operator is initialized."""
        return TensorFlags.OWNED_BY_DML in self.flags

    @property
    def overlaps_itself(self) -> bool:
        """Whether two coordinates are the same element, as in a broadcast: no output may be so."""
        return self.strides is not None and overlaps_itself(self.sizes, self.strides)

    def padded(self, dimension_count: int) -> TensorDesc:
        """The same tensor with leading dimensions of size 1, up to a count of dimensions."""
        missing = dimension_count - self.dimension_count
        if missing <= 0:
            return self
        sizes = (1,) * missing + self.sizes
        strides = None if self.strides is None else packed_strides(sizes)[:missing] + self.strides
        return TensorDesc(
            self.data_type,
            sizes,
            strides=strides,
            flags=self.flags,
            total_tensor_size_in_bytes=self.total_tensor_size_in_bytes,
            guaranteed_base_offset_alignment=self.guaranteed_base_offset_alignment,
            signed_strides=self.signed_strides,
        )

    def __repr__(self) -> str:
        parts = [repr(self.data_type.name.lower()), repr(self.sizes)]
        if self.strides is not None:
            parts.append(f"strides={self.strides}")
        if self.flags:
            parts.append(f"flags={self.flags.name!r}")
        if self.total_tensor_size_in_bytes != self.minimum_implied_size_in_bytes:
            parts.append(f"total_tensor_size_in_bytes={self.total_tensor_size_in_bytes}")
        if self.guaranteed_base_offset_alignment:
            parts.append(f"guaranteed_base_offset_alignment={self.guaranteed_base_offset_alignment}")
        if self.signed_strides:
            parts.append("signed_strides=True")
        return f"TensorDesc({', '.join(parts)})"

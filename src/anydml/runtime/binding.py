"""Binding: memory is checked against what was described, before anything can write to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anydml.arrays import ArrayView, raw_memory
from anydml.core.enums import DataType
from anydml.core.errors import BindingError, DmlError, Fault, show
from anydml.core.memory import HOST, is_cuda, layout_of, packed_strides, share_elements, without_leading_ones
from anydml.core.parse import UINT64_MAX, read_int

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.core.memory import Buffer

MINIMUM_BUFFER_TENSOR_ALIGNMENT = 16
TEMPORARY_BUFFER_ALIGNMENT = 256
PERSISTENT_BUFFER_ALIGNMENT = 256


@dataclass(frozen=True, slots=True, weakref_slot=True)
class BufferBinding:
    """DML_BUFFER_BINDING: a range of bytes in a raw buffer.

    The buffer is anything with bytes in one piece: a bytearray, an mmap, a ctypes array, a packed array; for a GPU
    a packed array of its own. Without a size the range goes to the buffer's end.
    """

    buffer: object
    offset: int = 0
    size_in_bytes: int | None = None


@dataclass(frozen=True, slots=True, weakref_slot=True)
class BindingProperties:
    """DML_BINDING_PROPERTIES: what a dispatchable needs bound, and how much scratch and lasting memory."""

    required_descriptor_count: int
    temporary_resource_size: int
    persistent_resource_size: int


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """Memory attached to a bind point."""

    field: str
    memory: Buffer
    """The bytes that may be touched."""
    offset: int
    """Bytes from there to the tensor's first element."""
    resource: Buffer
    """The whole buffer that the memory is a part of."""
    layout: tuple[tuple[int, int], ...] = ()
    """(size, stride) of each dimension above size 1."""
    elements: ArrayView | None = None
    """For an array, its elements: two arrays may interleave and yet not touch."""

    @property
    def address(self) -> int:
        """The address of the tensor's first element."""
        return self.memory.address + self.offset

    def touches(self, other: Bound) -> bool:
        """Whether the two share memory: elements for arrays, ranges for raw buffers."""
        if not self.memory.overlaps(other.memory):
            return False
        if self.elements is None or other.elements is None:
            return True
        return share_elements(self.elements.numpy(), other.elements.numpy())

    def has_same_bytes(self, other: Bound) -> bool:
        """Whether the two are the very same bytes, in whatever order."""
        return (self.memory.address, self.memory.size) == (other.memory.address, other.memory.size)


def bind_array(field: str, desc: TensorDesc, seen: ArrayView, *, is_output: bool, faults: list[Fault]) -> Bound:
    """Attach an array: its type, sizes and strides must be the described ones, leading sizes of 1 aside.

    A tensor of 4-bit elements takes their bytes, in an array of UINT8 of any shape.
    """

    def add(rule: str, value: object, found: str, way_out: str = "") -> None:
        faults.append(Fault(field=field, rule=f"{field} {rule}", value=value, found=found, way_out=way_out))

    if desc.data_type.is_half_byte and seen.data_type is DataType.UINT8:
        needed = desc.data_type.bytes_of(desc.extent)
        is_packed = seen.strides == packed_strides(seen.sizes)
        if is_packed and needed <= seen.buffer.size <= desc.total_tensor_size_in_bytes:
            seen = replace(seen, data_type=desc.data_type, sizes=desc.sizes, strides=desc.element_strides)
        else:
            rule = f"must be {needed} bytes in a row, with two elements of {desc.data_type.name} in each"
            add(rule, seen.sizes, f"sizes {seen.sizes} and strides {seen.strides} of UINT8")
            return Bound(field, seen.buffer, seen.offset, seen.buffer)
    layout = layout_of(seen.sizes, seen.strides)
    if seen.data_type != desc.data_type:
        add(f"must be an array of {desc.data_type.name}, as described", seen.data_type, seen.data_type.name)
    if without_leading_ones(seen.sizes) != without_leading_ones(desc.sizes):
        add(f"must be an array of sizes {desc.sizes}, as described", seen.sizes, str(seen.sizes))
    elif layout != layout_of(desc.sizes, desc.element_strides):
        way_out = "describe the array with TensorDesc.of(array), or pass a copy in the described layout"
        add(
            f"must have strides {desc.element_strides}, as described",
            seen.strides,
            str(seen.strides),
            way_out,
        )
    address = seen.buffer.address + seen.offset
    alignment = desc.guaranteed_base_offset_alignment
    if alignment and address % alignment:
        add(f"must start at a multiple of {alignment} bytes, as guaranteed", address, f"address {address:#x}")
    width = seen.data_type.size_in_bytes
    if is_cuda(seen.buffer.device) and address % width:  # a GPU moves whole elements, and stops at one that lies askew
        rule = f"must start at a multiple of {width} bytes, the size of its elements, on {seen.buffer.device}"
        add(rule, address, f"address {address:#x}", "pass a copy")
    if is_output and not seen.buffer.writable:
        add("must be writable", seen.array, "a read-only array")
    return Bound(field, seen.buffer, seen.offset, seen.buffer, layout, seen)


def bind_tensor(
    field: str,
    desc: TensorDesc,
    binding: object,
    *,
    is_output: bool,
    faults: list[Fault],
    memory: str = HOST,
) -> Bound | None:
    """Attach a range of a raw buffer to a described tensor."""
    alignment = max(MINIMUM_BUFFER_TENSOR_ALIGNMENT, desc.guaranteed_base_offset_alignment)
    needed = desc.total_tensor_size_in_bytes
    bound = bind_range(field, binding, needed, alignment, is_output=is_output, faults=faults, memory=memory)
    if any(stride < 0 for stride in desc.element_strides):
        rule = f"{field} has negative strides, which a raw buffer cannot be bound to"
        faults.append(Fault(field=field, rule=rule, value=desc.strides, way_out="bind the array itself"))
    if bound is None:
        return None
    layout = layout_of(desc.sizes, desc.element_strides)
    return Bound(field, bound.memory, bound.offset, bound.resource, layout)


def bind_range(
    field: str,
    binding: object,
    needed: int,
    alignment: int,
    *,
    is_output: bool,
    faults: list[Fault],
    memory: str = HOST,
) -> Bound | None:
    """Attach a range of a raw buffer: in the device's memory, within the buffer, aligned and large enough."""
    before = len(faults)
    if not isinstance(binding, BufferBinding):
        rule = f"{field} must be given a BufferBinding"
        faults.append(Fault(field=field, rule=rule, value=binding, found=show(binding)))
        return None
    try:
        whole = raw_memory(binding.buffer, field, memory)
    except DmlError as error:
        faults.extend(error.faults)
        return None
    offset = read_int(binding.offset, f"{field}.Offset", faults, 0, UINT64_MAX)
    size = max(whole.size - offset, 0)
    if binding.size_in_bytes is not None:
        size = read_int(binding.size_in_bytes, f"{field}.SizeInBytes", faults, 0, UINT64_MAX)
    if len(faults) > before:
        return None
    if offset + size > whole.size or offset > whole.size:
        rule = f"{field}: Offset + SizeInBytes must lie within the buffer of {whole.size} bytes"
        faults.append(Fault(field=field, rule=rule, value=(offset, size), found=f"{offset} + {size}"))
    if size < needed:
        rule = f"{field}: SizeInBytes must be at least {needed}, the total size of what is bound"
        faults.append(Fault(field=field, rule=rule, value=size, found=str(size)))
    if offset % alignment:
        rule = f"{field}: Offset must be a multiple of {alignment}"
        faults.append(Fault(field=field, rule=rule, value=offset, found=str(offset)))
    if is_cuda(whole.device) and whole.address % MINIMUM_BUFFER_TENSOR_ALIGNMENT:
        rule = f"{field}: the buffer must start at a multiple of {MINIMUM_BUFFER_TENSOR_ALIGNMENT} bytes"
        faults.append(Fault(field=field, rule=rule, value=whole.address, found=f"address {whole.address:#x}"))
    if is_output and not whole.writable:
        rule = f"{field} must be writable"
        faults.append(Fault(field=field, rule=rule, value=binding.buffer, found="a read-only buffer"))
    if len(faults) > before:
        return None
    return Bound(field, whole._replace(address=whole.address + offset, size=size), 0, whole)


def hazards(
    inputs: Sequence[Bound], outputs: Sequence[Bound], *, in_place: bool, shares: Mapping[str, str] | None = None
) -> Iterator[Fault]:
    """Find memory that is written while something else uses it.

    Outputs never touch one another. An input may touch an output only where both are the same place in the same
    layout and the operator runs in place, or shares its memory with that input. Inputs may share what they like.
    """
    if _lie_apart(inputs, outputs):
        return
    pairs = shares or {}
    for i, output in enumerate(outputs):
        for other in outputs[:i]:
            if output.touches(other):
                rule = f"{output.field} must not overlap {other.field}: both are written"
                yield Fault(field=output.field, rule=rule, value=output.memory.address)
        for given in inputs:
            if output.touches(given):
                may = in_place or pairs.get(output.field) == given.field
                yield from _shared_place(given, output, in_place=may)


def _lie_apart(inputs: Sequence[Bound], outputs: Sequence[Bound]) -> bool:
    """Whether nothing that is written shares a byte with anything else: one look in the order of addresses.

    A network's training step has hundreds of tensors: to hold each output against each input took 40 ms of ResNet-18.
    """
    places = [(one.memory.device, one.memory.address, one.memory.size, False) for one in inputs]
    places += [(one.memory.device, one.memory.address, one.memory.size, True) for one in outputs]
    device, end, end_of_written = "", 0, 0
    for where, start, size, is_written in sorted(places):
        if where != device:
            device, end, end_of_written = where, 0, 0
        if size and start < (end if is_written else end_of_written):
            return False
        end = max(end, start + size)
        if is_written:
            end_of_written = max(end_of_written, start + size)
    return True


def _shared_place(given: Bound, output: Bound, *, in_place: bool) -> Iterator[Fault]:
    one_buffer = given.elements is None and given.resource.address == output.resource.address
    found = f"{_range(output, one_buffer)} and {_range(given, one_buffer)}"
    way_out = "a BufferBinding without SizeInBytes reaches to the end of its buffer" if given.elements is None else ""
    if not in_place:
        rule = f"{output.field} must not overlap {given.field}: the operator does not run in place"
    elif not output.has_same_bytes(given):
        rule = f"{output.field} may overlap {given.field} only where both are the very same range"
    elif output.layout != given.layout or output.offset != given.offset:
        rule = f"{output.field} may be bound to the range of {given.field} only with the same strides"
        found = f"{[stride for _, stride in output.layout]} and {[stride for _, stride in given.layout]}"
        way_out = ""
    else:
        return
    yield Fault(field=output.field, rule=rule, value=_range(output, one_buffer), found=found, way_out=way_out)


def _range(bound: Bound, in_buffer: bool) -> str:
    start = bound.memory.address - (bound.resource.address if in_buffer else 0)
    return f"bytes {start:#x} .. {start + bound.memory.size:#x}"


def raise_binding_faults(subject: str, faults: Sequence[Fault]) -> None:
    """Raise where there are faults."""
    if faults:
        raise BindingError(subject, faults)

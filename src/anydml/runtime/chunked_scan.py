"""Running sums and products of an array that comes in blocks: a scan goes on from a carry, and gives one to go on with.

The bits are those of the scan of the whole array wherever its order is one element after the other, which a carry
continues exactly: it is the float64 that the scan holds between two elements. So on the CPU and in the reference engine
the blocks' answers are the whole's bits, with these exceptions, which are within one unit in the last place, unless
sums cancel to less than a 2^-29th of the largest:

- a sum of FLOAT32 along a contiguous axis of 131,584 elements or more, of which the array has fewer than 8 rows: the
  CPU adds it up in tiles. Sums of FLOAT16 are exact there too, as long as none passes 2^29.
- on a GPU, where every sum is a tree: again but for FLOAT16.

Integers wrap, and are always exact. A float64's sum in tiles or as a tree rounds as any other order of it does.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays import allocate, device_of, results_in, view, wrap
from anydml.arrays.cuda import on_callers_stream
from anydml.arrays.tensor import TensorDesc
from anydml.core.device_memory import memories
from anydml.core.enums import AxisDirection, DataType
from anydml.core.errors import DescriptionError, Fault, show
from anydml.core.memory import packed_strides
from anydml.core.parse import read_int
from anydml.ir.views import View
from anydml.operators import CumulativeProduct, CumulativeSummation
from anydml.runtime.binding import Bound
from anydml.runtime.device import Device, device_named
from anydml.runtime.staging import Staging, is_elsewhere

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.arrays import ArrayView
    from anydml.engines.common.program import Program
    from anydml.ir.verbs import Scan
    from anydml.operators import OperatorDesc


_SHORT = 8
"""Rows from which on even long ones are added up one element after the other."""


def scan_with_carry(
    x: Any,
    axis: int,
    carry: Any = None,
    *,
    exclusive: bool = False,
    decreasing: bool = False,
    product: bool = False,
    whole: Sequence[int] | None = None,
    device: Device | str | None = None,
    out: Any = None,
) -> tuple[Any, Any]:
    """The running sum, or product, of a block along an axis, and the carry for the next block.

    `carry` is what the block before gave, None for the first; with `decreasing` the first block is the one at the
    axis's end. It has the block's sizes, but for 1 along the axis, and is float64 for floats, of the integers' own type
    otherwise. It is not written to. `whole` are the sizes of the array that the blocks are of: given them, a block of
    few long rows is added up in the order of an array of many.

    Arrays are NumPy's, or CuPy's or PyTorch's on a GPU, and so are both results. A block may be empty. `out` is
    an array for the first result, packed and apart from the block, of its type and sizes.

    >>> y, carry = scan_with_carry(np.array([2, 1], np.int32), 0)
    >>> y, carry
    (array([2, 3], dtype=int32), array([3], dtype=int32))
    >>> scan_with_carry(np.array([3, 5], np.int32), 0, carry)
    (array([ 6, 11], dtype=int32), array([11], dtype=int32))
    """
    cls: type[OperatorDesc] = CumulativeProduct if product else CumulativeSummation
    name = cls.type.name
    if not isinstance(device, Device):
        device = device_named(device or device_of(x))
    memory = device.engine.memory
    seen = view(x, name, "InputTensor", memory=memory)
    kind = DataType.FLOAT64 if seen.data_type.is_float else seen.data_type
    faults: list[Fault] = []
    rank = max(len(seen.sizes), 1)
    axis = read_int(axis, "Axis", faults, -rank, rank - 1) % rank
    across = tuple(1 if k == axis else size for k, size in enumerate(seen.sizes))
    before = None if carry is None else view(carry, name, "carry", memory=memory)
    faults += _find_faults(before, kind, across)
    if not seen.sizes:
        faults.append(Fault(field="InputTensor", rule="x must have a dimension to scan along", value=x))
    target = None if out is None else view(out, name, "out", memory=memory, convert=False)
    faults += _find_out_faults(target, seen)
    if faults:
        raise DescriptionError(name, faults)
    home = results_in(memory, x)
    y = allocate(seen.data_type, seen.sizes, memory=home, like=x) if out is None else out
    after = allocate(kind, across, memory=home, like=x)
    if not math.prod(seen.sizes):
        after[...] = _start(kind, product) if carry is None else carry
        return wrap(y, x), wrap(after, x)
    is_short = whole is not None and math.prod(whole) // max(whole[axis], 1) >= _SHORT
    program = _plan(
        device, cls, seen.data_type, seen.sizes, seen.strides, axis, exclusive, decreasing, is_short, before is not None
    )
    arrays = {"InputTensor": seen, "before": before}
    arrays |= {
        "OutputTensor": view(y, name, "OutputTensor", memory=memory),
        "after": view(after, name, "carry", memory=memory),
    }
    bound = {field: found for field, found in arrays.items() if found is not None}
    places, staging = {field: found.buffer.address + found.offset for field, found in bound.items()}, None
    if memory in memories:
        staging = _staged(bound, device)
        places |= staging.places
    launch = program.bind(places)
    launch = on_callers_stream(launch, [found.buffer for found in bound.values()])
    (launch if staging is None else staging.around(launch))()
    return wrap(y, x), wrap(after, x)


def _staged(bound: Mapping[str, ArrayView], device: Device) -> Staging:
    """Device memory for what lies elsewhere."""
    memory = device.engine.memory
    away = [Bound(field, found.buffer, found.offset, found.buffer) for field, found in bound.items()]
    tensors = {field: _described(found) for field, found in bound.items()}
    return Staging(
        [one for one in away if is_elsewhere(one, memory)],
        tensors,
        ("OutputTensor", "after"),
        memory,
        device.engine.reserve,
    )


def _described(seen: ArrayView) -> TensorDesc:
    signed = any(stride < 0 for stride in seen.strides)
    return TensorDesc(seen.data_type, seen.sizes, strides=seen.strides, signed_strides=signed)


def _find_faults(before: ArrayView | None, kind: DataType, across: tuple[int, ...]) -> list[Fault]:
    """The faults of a carry."""
    if before is None or ((before.data_type, before.sizes, before.strides) == (kind, across, packed_strides(across))):
        return []
    found = f"{before.data_type.name} of sizes {before.sizes} and strides {before.strides}"
    rule = f"carry must be {kind.name} of sizes {across}, packed, as the block before gave it"
    return [Fault(field="carry", rule=rule, value=before.sizes, found=show(found))]


def _find_out_faults(out: ArrayView | None, x: ArrayView) -> list[Fault]:
    """The faults of an array for the result."""
    if out is None:
        return []
    is_packed = out.strides == packed_strides(x.sizes) or not math.prod(x.sizes)
    if (out.data_type, out.sizes) == (x.data_type, x.sizes) and is_packed and not out.buffer.overlaps(x.buffer):
        return []
    rule = f"out must be {x.data_type.name} of sizes {x.sizes}, packed and apart from x"
    found = f"{out.data_type.name} of sizes {out.sizes} and strides {out.strides}"
    return [Fault(field="out", rule=rule, value=out.sizes, found=show(found))]


def _start(kind: DataType, product: bool) -> Any:
    """The neutral element; for a sum of floats -0.0, which leaves -0.0 as it is too."""
    return np.array(1 if product else -0.0 if kind.is_float else 0, kind.dtype)[()]


@functools.lru_cache(maxsize=256)
def _plan(
    device: Device,
    cls: Any,
    data_type: DataType,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    axis: int,
    exclusive: bool,
    decreasing: bool,
    in_turn: bool,
    has_before: bool,
) -> Program:
    """The operator's own verb, planned."""
    tensor = TensorDesc(data_type, sizes, strides=strides, signed_strides=any(stride < 0 for stride in strides))
    desc = cls(
        input_tensor=tensor,
        output_tensor=TensorDesc(data_type, sizes),
        axis=axis,
        axis_direction=AxisDirection.DECREASING if decreasing else AxisDirection.INCREASING,
        allow_float64=data_type is DataType.FLOAT64,
        **{"has_exclusive_product" if cls is CumulativeProduct else "has_exclusive_sum": exclusive},
    )
    device.create_operator(desc)  # which checks it
    return device.engine.compile(carried(desc, has_before=has_before, in_turn=in_turn))


def carried(desc: Any, *, has_before: bool, in_turn: bool = False) -> Scan:
    """The verb of a running sum or product, with tallies that are handed on."""
    scan: Scan
    (scan,) = desc.lower()
    data_type, sizes = scan.source.data_type, scan.source.sizes
    kind = DataType.FLOAT64 if data_type.is_float else data_type
    tallies = TensorDesc(kind, tuple(1 if k == desc.axis else size for k, size in enumerate(sizes)))
    before = (View.of("before", tallies),) if has_before else ()
    return replace(scan, sources=(*scan.sources, *before), after=View.of("after", tallies), in_turn=in_turn)

"""Whether an answer is right, found out on the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.cuda.kinds import CudaRow
from benchmarks.cuda.maps import MapRow
from benchmarks.cuda.pool import Tensor, signed
from benchmarks.cuda.reduces import ReduceRow

CHUNK = 2**27
"""Elements that are looked at in one go: a GiB in float64, of which a handful are alive at a time."""

DIGITS = {torch.float16: (11, -24), torch.float32: (24, -149)}
"""Bits of the significand, and the exponent of the least unit in the last place."""

UNITS = {torch.float16: 0.5, torch.float32: 1.0}
"""How far ours may be from the float64 sum: half a unit is the float16 next to it, as on the cpu engine."""


def as_bits(tensor: Tensor) -> Tensor:
    """A tensor to be compared bit by bit."""
    tensor = signed(tensor)
    if not tensor.dtype.is_floating_point:
        return tensor
    return tensor.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.dtype.itemsize])


def same_bits(got: Tensor, wanted: Tensor) -> bool:
    return bool(torch.equal(as_bits(got).reshape(wanted.shape), as_bits(wanted)))


def fault(row: CudaRow, inputs: list[Tensor], got: Tensor) -> str:
    """What is wrong with ours, or nothing: to the bit, and for sums and functions of floats within the last places."""
    if isinstance(row, ReduceRow):
        return row.fault(inputs, got)
    if not row.exact and isinstance(row, MapRow):
        off = largest(map_units(row, inputs, got))
        return "" if off <= row.units else f"{off:.4g} units in the last place off"
    if not row.exact:
        read = inputs if row.chain is None else row.chain.read(*inputs)
        off = units_off(row, read[0], got)
        return "" if off <= UNITS[got.dtype] else f"{off:.4g} units in the last place off"  # said of NaN as well
    wanted = row.expression(*map(signed, inputs))
    if same_bits(got, wanted):
        return ""
    wrong = (as_bits(got).reshape(wanted.shape) != as_bits(wanted)).view(-1)
    return f"{int(wrong.sum())} of {wrong.numel()} elements differ, the first at {int(wrong.byte().argmax())}"


def is_roughly(row: CudaRow, got: Tensor, right: Tensor) -> bool:
    """A peer's, against one that is right: those that add up in the tensor's own type are so for small sums only."""
    if row.exact:
        return same_bits(got, right)
    few = 500 if right.dtype == torch.float16 else 10_000
    for g, r in zip(got.reshape(-1).split(CHUNK), right.reshape(-1).split(CHUNK), strict=True):
        wrong = ~((g.float() - r.float()).abs() <= 2e-2 * r.abs().float() + 1e-2)
        if bool((wrong & (r.abs() < few)).any()):
            return False
    return True


def units_off(row: CudaRow, x: Tensor, got: Tensor) -> float:
    """The largest distance from the float64 sum, in units in the last place."""
    desc: Any = row.desc
    offs = []
    for numbers, sums in lines(desc.axis, x, got):
        source = numbers.double()
        if desc.axis_direction.name == "DECREASING":
            source, sums = source.flip(-1), sums.flip(-1)
        exact = source.cumsum(-1)
        if desc.has_exclusive_sum:
            exact -= source
        offs.append(units(sums, exact))
    return largest(offs)


def map_units(row: MapRow, inputs: list[Tensor], got: Tensor) -> list[float]:
    """By chunk, the largest distance from the expression computed in float64, in units in the last place."""
    flat = zip(*(tensor.reshape(-1).split(CHUNK) for tensor in (*inputs, got)), strict=True)
    return [units(part, row.expression(*(x.double() for x in parts))) for *parts, part in flat]


def units(got: Tensor, exact: Tensor) -> float:
    """The largest distance from exact numbers, in units in the last place."""
    digits, least = DIGITS[got.dtype]
    unit = torch.exp2((torch.frexp(exact)[1] - digits).clamp_(min=least).double())
    return float(((got.double() - exact).abs() / unit).max()) / (1 + 1e-9)  # exp2 may be off in its own last place


def largest(numbers: list[float]) -> float:
    """The largest, or NaN where there is one."""
    return max(numbers, key=lambda number: (number != number, number))


def lines(axis: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The lines along an axis, a chunk at a time; one alone as a vector, for which PyTorch has a quicker sum."""
    length = tensors[0].shape[axis]
    flat = [t.movedim(axis, -1).reshape(-1, length) for t in tensors]
    if len(flat[0]) == 1:
        yield tuple(t.view(-1) for t in flat)
        return
    step = max(CHUNK // length, 1)
    for first in range(0, len(flat[0]), step):
        yield tuple(t[first : first + step] for t in flat)

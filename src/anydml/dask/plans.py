"""How an operator on dask arrays is carried out: the first rule that fits its description and its blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.dask.blockwise import blockwise
from anydml.dask.choosing import best
from anydml.dask.folds import folded
from anydml.dask.gathers import gathered
from anydml.dask.independent import independent
from anydml.dask.moving import moved_blocks
from anydml.dask.overlap import fetched_parts, windows
from anydml.dask.scans import scanned
from anydml.dask.scatters import scattered
from anydml.describing import argument_of
from anydml.errors import Fault, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.dask.blocks import Asked
    from anydml.dask.independent import Group
    from anydml.dask.tensors import Tensor
    from anydml.operators import OperatorDesc


def plan(desc: OperatorDesc, tensors: Mapping[str, Tensor], ranks: Mapping[str, int], asked: Asked) -> list[Any]:
    """The results of an operator as lazy arrays; `ranks` are the dimensions that the caller expects of each."""
    if (found := moved_blocks(desc, tensors)) is not None:
        return found
    groups = independent(desc)
    if not _dependent(tensors, groups) and (found := blockwise(desc, tensors, groups, ranks, asked)) is not None:
        return found
    for rule in (scanned, gathered, scattered, best, windows, fetched_parts, folded):
        if (found := rule(desc, tensors, ranks, asked)) is not None:
            return found
    raise _refusal(desc, tensors, groups)


def _dependent(tensors: Mapping[str, Tensor], groups: Sequence[Group]) -> dict[str, list[int]]:
    """By tensor, the dimensions that are cut and whose blocks need one another."""
    found: dict[str, list[int]] = {}
    for field, x in tensors.items():
        free = {group[field] for group in groups if field in group}
        cut = [d for d, sizes in enumerate(x.chunks) if len(sizes) > 1 and d not in free]
        if cut:
            found[field] = cut
    return found


def _refusal(desc: OperatorDesc, tensors: Mapping[str, Tensor], groups: Sequence[Group]) -> UnsupportedError:
    """The tensor that has to be one block, and the way to make it that."""
    faults = []
    for field, dims in _dependent(tensors, groups).items():
        x, name = tensors[field], argument_of(type(desc), field)
        axes = [axis for d in dims if (axis := x.axes[d]) is not None]
        counts = " and ".join(f"{len(x.array.chunks[axis])} blocks along axis {axis}" for axis in axes)
        rule = f"{field} must be one block along {'axis' if len(axes) == 1 else 'axes'} {', '.join(map(str, axes))}"
        way_out = f"pass {name}.rechunk({dict.fromkeys(axes, -1)}), where such blocks fit in a worker's memory"
        faults.append(Fault(field=field, rule=rule, value=x.array.chunks, found=counts, way_out=way_out))
    if not faults:
        rule = "the arrays must be one block each: the operator has no form in blocks"
        faults.append(Fault(field=next(iter(tensors)), rule=rule, way_out="pass x.rechunk(-1)"))
    return UnsupportedError(desc.type.name, faults)

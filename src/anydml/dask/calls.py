"""One call of a function on dask arrays: checked as one on arrays is, planned, and made a lazy array.

The plan is the first rule that fits the operator's description and its blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.api.broadcasting import is_number, numbers_of, read_plain
from anydml.api.describing import Call, argument_of, name_slots
from anydml.arrays.tensor import TensorDesc, larger_than_memory
from anydml.arrays.view import describe
from anydml.core.errors import DescriptionError, Fault, UnsupportedError
from anydml.dask.blockwise import blockwise, independent
from anydml.dask.folds import best, folded
from anydml.dask.gathers import gathered
from anydml.dask.overlap import fetched_parts, moved_blocks, windows
from anydml.dask.scans import scanned
from anydml.dask.scatters import scattered
from anydml.dask.tensors import Tensor, as_tensor
from anydml.runtime.device import Device, device_named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.dask.blocks import Asked
    from anydml.dask.blockwise import Group
    from anydml.operators import OperatorDesc


# The plan


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


# The call


class DaskCall(Call):
    """A call on dask arrays, which makes lazy ones."""

    inputs: list[Tensor]

    def __init__(
        self,
        cls: type[OperatorDesc],
        device: Device | str | None,
        out: object,
        inputs: Sequence[object],
        output_sizes: Any,
        spreading: dict[str, Any] | None,
        names: Sequence[str] | None,
        results: Sequence[str] | None,
    ) -> None:
        name = cls.type.name
        if out is not None:
            rule = "out must not be given with a dask array, which nothing is run for"
            way_out = "the result is a lazy array: store it with to_zarr, or compute it"
            raise DescriptionError(name, Fault(field="out", rule=rule, found=describe(out), way_out=way_out))
        found = device if isinstance(device, Device) else device_named(device)
        self.asked = None if device is None else (found.name, str(found.feature_level))
        """The device that blocks are computed on; None for the one that they lie on."""
        fields = name_slots(cls, cls.input_names() if names is None else names, len(inputs))
        with larger_than_memory():
            given: list[Any] = [
                x if is_number(x) or numbers_of(x) is not None else as_tensor(x, name, field)
                for field, x in zip(fields, inputs, strict=True)
            ]
            read = read_plain(cls, found.feature_level, fields, given)
            seen = [as_tensor(read[i], name, fields[i]) if i in read else x for i, x in enumerate(given)]
            if spreading is not None:
                wanted = cls.spread({field: x.sizes for field, x in zip(fields, seen, strict=True)}, **spreading)
                seen = [x.spread(*wanted[field]) for field, x in zip(fields, seen, strict=True)]
                self.scalars = (*fields, *name_slots(cls, cls.output_names(), 1))
        super().__init__(cls, found, seen, output_sizes, names, results)

    def describe(self, field: str, tensor: Tensor) -> TensorDesc:
        """An array as if it lay packed in memory."""
        sizes = tensor.sizes
        if field in ("OutputTensor", *self.scalars) and not sizes:  # one element, which is described in one dimension
            sizes = (1,)
        try:
            return TensorDesc(tensor.data_type, sizes)
        except DescriptionError as error:
            raise error.within(self.name, f"{field}.") from None

    def run(
        self, fills: Mapping[str, float] | None = None, outputs: Sequence[TensorDesc] | None = None, **attributes: Any
    ) -> Any:
        """Describe and check; the whole may have more elements than a tensor of DirectML's."""
        with larger_than_memory():
            return super().run(fills, outputs, **attributes)

    def finish(self, desc: OperatorDesc) -> Any:
        """Plan the blocks."""
        tensors = {
            field: x.padded(given.dimension_count)
            for (field, given), x in zip(desc.inputs().items(), self.inputs, strict=True)
        }
        ranks = {field: self.rank_of(field) for field in desc.outputs()}
        found = plan(desc, tensors, ranks, self.asked)
        return self.hand_over(found)

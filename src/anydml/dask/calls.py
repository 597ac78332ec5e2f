"""One call of a function on dask arrays: checked as one on arrays is, and made a lazy array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.arrays.view import describe
from anydml.broadcasting import is_number, numbers_of, read_plain
from anydml.dask.plans import plan
from anydml.dask.tensors import Tensor, as_tensor
from anydml.describing import Call, name_slots
from anydml.errors import DescriptionError, Fault
from anydml.runtime.device import Device, device_named
from anydml.tensor import TensorDesc, larger_than_memory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.operators import OperatorDesc


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
        return found if self.cls.gives_several() or len(found) > 1 else found[0]

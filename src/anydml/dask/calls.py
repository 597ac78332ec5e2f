"""One call of a function on dask arrays: checked as one on arrays is, and made a lazy array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.arrays.view import describe
from anydml.broadcasting import is_number, number_types, numbers_of, one_of, read_as, read_list_as, read_plain
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
            if spreading is not None:
                seen = self._broadcast(cls, found, fields, inputs, spreading)
                self.scalars = (*fields, *name_slots(cls, cls.output_names(), 1))
            else:
                read = read_plain(cls, found.feature_level, fields, inputs)
                seen = [
                    as_tensor(read.get(i, x), name, field)
                    for i, (field, x) in enumerate(zip(fields, inputs, strict=True))
                ]
        super().__init__(cls, found, seen, output_sizes, names, results)

    @staticmethod
    def _broadcast(
        cls: type[OperatorDesc],
        device: Device,
        fields: Sequence[str],
        inputs: Sequence[Any],
        attributes: dict[str, Any],
    ) -> list[Tensor]:
        """Inputs in sizes that fit; a number, or a list of them, is made an array of the type beside it."""
        name = cls.type.name
        lists = [numbers_of(x) for x in inputs]
        found = [
            None if is_number(x) or several is not None else as_tensor(x, name, field)
            for field, x, several in zip(fields, inputs, lists, strict=True)
        ]
        values = [
            one_of(several) if several is not None else x if is_number(x) else None
            for x, several in zip(inputs, lists, strict=True)
        ]
        types = [None if x is None else x.data_type for x in found]
        seen: list[Tensor] = []
        kinds = number_types(cls, device.feature_level, fields, values, types)
        for x, field, given, several, (kind, like) in zip(found, fields, inputs, lists, kinds, strict=True):
            if x is not None:
                seen.append(x)
            elif several is not None:
                seen.append(as_tensor(read_list_as(several, kind, cls, field, like), name, field))
            else:
                seen.append(as_tensor(read_as(given, kind, cls, field, like), name, field))
        wanted = cls.spread({field: x.sizes for field, x in zip(fields, seen, strict=True)}, **attributes)
        return [
            x if x.sizes == wanted[field][1] else x.spread(*wanted[field])
            for field, x in zip(fields, seen, strict=True)
        ]

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

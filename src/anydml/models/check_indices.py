"""Indices that a model writes out: each must lie in its dimension, which a dispatch would find out otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.reference import find_outside
from anydml.errors import DmlError
from anydml.memory import numpy_view
from anydml.models.bind import by_slot, byte_offset, reword
from anydml.models.constants import first_array
from anydml.models.findings import INDEX
from anydml.operators import OperatorDesc

if TYPE_CHECKING:
    from anydml.ir.verbs import Check, IndexFault
    from anydml.models.findings import Findings
    from anydml.models.model import Binding, Dispatch, Model
    from anydml.models.source import Node

_LARGEST = 2**26
"""Bytes of a resource that is read for its indices."""


def check_indices(command: Dispatch, model: Model, findings: Findings, written: set[str]) -> None:
    """Check the indices of a dispatch in which nothing else is at fault, unless an earlier one computes them."""
    dispatchable = model.dispatchables[command.dispatchable]
    desc = dispatchable.bound
    if not isinstance(desc, OperatorDesc):
        return
    given = by_slot(desc, dispatchable.bindings, initialises=True) | by_slot(desc, command.bindings, initialises=False)
    tensors = desc.inputs()
    for check in (check for primitive in desc.lower() for check in primitive.checks):
        slot = check.indices.tensor
        binding, tensor = given.get(slot), tensors.get(slot)
        if binding is None or tensor is None or binding.resource in written:
            continue
        if (model.resources[binding.resource].size_in_bytes or 0) > _LARGEST:
            continue
        try:
            array = first_array(model, binding, tensor)
        except (DmlError, OSError):  # a file that cannot be read is told when it is
            continue
        if array is None:
            continue
        view = check.indices
        address = array.__array_interface__["data"][0] + view.offset * array.itemsize
        if (outside := find_outside(check, numpy_view(address, view.sizes, view.strides, array.dtype, array))) is None:
            continue
        fault = reword(desc.word_index_fault(outside))
        findings.put(INDEX, _where(model, binding, check, outside), fault, desc.type.name)


def _where(model: Model, binding: Binding, check: Check, outside: IndexFault) -> Node:
    """The number itself where the model has it in a list, else the binding."""
    resource, view = model.resources[binding.resource], check.indices
    values = resource.node.get("initialValues")
    if values is None or not values.is_list or resource.data_type is not view.data_type:
        return binding.node
    place = (*outside.position, outside.dimension - check.dimension)
    number = view.offset + sum(i * stride for i, stride in zip(place, view.strides, strict=True))
    number += (byte_offset(binding, model.resources) - resource.values_offset) // view.data_type.size_in_bytes
    return values.element(number) if 0 <= number < len(values) else binding.node

"""The values that a model gives its resources, as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.dxdispatch.bind import byte_offset

if TYPE_CHECKING:
    from anydml.arrays.tensor import TensorDesc
    from anydml.dxdispatch.model import Binding, Model


def first_array(model: Model, binding: Binding, tensor: TensorDesc) -> np.ndarray[Any, Any] | None:
    """The array of a tensor before anything is dispatched; None where the model does not say it."""
    resource = model.resources[binding.resource]
    if resource.values is None or resource.size_in_bytes is None:
        return None
    memory = np.zeros(resource.size_in_bytes, np.uint8)
    resource.values.fill(memory[resource.values_offset : resource.values_offset + resource.values_size])
    dtype = tensor.data_type.dtype
    steps = [stride * dtype.itemsize for stride in tensor.element_strides]
    return np.ndarray(tensor.sizes, dtype, memory, byte_offset(binding, model.resources), steps)

"""Microsoft's `torch_directml`: `device()` and what it asks of devices.

>>> dml = torch_directml.device()
>>> model.to(dml)
"""

from __future__ import annotations

from typing import Any

import torch

import anydml
from anydml.core.errors import DescriptionError, Fault
from anydml.torch import device as _device

__all__ = [
    "default_device",
    "device",
    "device_count",
    "device_name",
    "disable_tiled_resources",
    "gpu_memory",
    "has_float64_support",
    "is_available",
]

_device.set_up()


def is_available() -> bool:
    """Whether there is a device: the host is one."""
    return True


def device_count() -> int:
    """How many devices there are: the host's engine, and GPUs of the webgpu engine."""
    return len(_device.known())


def default_device() -> int:
    """The number of the device that `device()` gives."""
    return 0


def _checked(device_id: int | None) -> int:
    number = default_device() if device_id is None else device_id
    if type(number) is int and number == default_device():
        return number  # without a look for GPUs
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < device_count():
        rule = f"device_id must be 0 .. {device_count() - 1}"
        raise DescriptionError(
            "torch_directml", Fault(field="device_id", rule=rule, value=device_id, found=repr(device_id))
        )
    return number


def device(device_id: int | None = None) -> Any:
    """The device for `.to(...)` and `device=`."""
    return torch.device(_device.NAME, _checked(device_id))


def device_name(device_id: int | None = None) -> str:
    """What the device calls itself."""
    return str(anydml.Device(_device.engine(_checked(device_id))).name)


def has_float64_support(device_id: int | None = None) -> bool:
    """Whether tensors may be of float64, which PyTorch then computes with on the host."""
    _checked(device_id)
    return True


def gpu_memory(device_id: int | None = None, mb_per_tile: int = 1) -> list[float]:
    """The part of each tile of memory that is in use: of the host's nothing is kept, and there are no tiles."""
    _checked(device_id)
    del mb_per_tile
    return []


def disable_tiled_resources(is_disabled: bool) -> None:
    """There are no tiled resources: accepted, as programs call it."""
    del is_disabled

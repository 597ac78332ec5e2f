"""NVIDIA's GPUs and driver as its management library tells them: it comes with the driver, and needs no package."""

from __future__ import annotations

import contextlib
import ctypes
import os
from dataclasses import dataclass

_LIBRARY = "nvml.dll" if os.name == "nt" else "libnvidia-ml.so.1"
_LONGEST = 96
"""Letters of a name or a version: NVML_DEVICE_NAME_V2_BUFFER_SIZE."""


@dataclass(frozen=True, slots=True)
class Nvidia:
    """The driver's version, and the name of each GPU."""

    driver: str
    gpus: tuple[str, ...]


def find_nvidia() -> Nvidia | None:
    """None where no driver is installed, or where it has no GPU to show."""
    try:
        nvml = ctypes.CDLL(_LIBRARY)
    except OSError:
        return None
    if nvml.nvmlInit_v2() != 0:
        return None
    try:
        text, count = ctypes.create_string_buffer(_LONGEST), ctypes.c_uint()
        nvml.nvmlSystemGetDriverVersion(text, _LONGEST)
        driver, names = text.value.decode(errors="replace"), []
        nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        for index in range(count.value):
            handle = ctypes.c_void_p()
            if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0:
                nvml.nvmlDeviceGetName(handle, text, _LONGEST)
                names.append(text.value.decode(errors="replace"))
        return Nvidia(driver, tuple(names))
    finally:
        with contextlib.suppress(OSError):
            nvml.nvmlShutdown()

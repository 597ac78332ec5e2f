"""OrtDevice, and where the memory of a device's name lies here."""

from __future__ import annotations

import ctypes
import functools
import sys
from dataclasses import dataclass
from enum import IntEnum

from anydml.core.errors import Fault
from anydml.core.memory import HOST
from anydml.core.parse import read_int
from anydml.engines import find_engine
from anydml.engines.cuda import device_count, why_missing
from anydml.onnxruntime.ort_errors import EPFail, InvalidArgument, refuse


class OrtDeviceVendorId(IntEnum):
    """The makers of devices, by their PCI numbers."""

    NONE = 0x0000
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


_KINDS = {
    "cpu": (0, OrtDeviceVendorId.NONE),
    "cuda": (1, OrtDeviceVendorId.NVIDIA),
    "dml": (1, OrtDeviceVendorId.MICROSOFT),
    "gpu": (1, OrtDeviceVendorId.NONE),
    "webgpu": (1, OrtDeviceVendorId.NONE),
}
"""By a device's name, ONNX Runtime's number of its type, and who makes it."""
_MOST = 2**16


@dataclass(frozen=True, slots=True, weakref_slot=True)
class OrtDevice:
    """A device by name and number, as arrays are placed: `OrtDevice.make("dml", 0)`."""

    name: str
    number: int = 0
    vendor: int = 0

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """The device of a name: cpu, cuda, webgpu, or dml and gpu: CUDA's GPU if there is one, else the CPU."""
        if not isinstance(ort_device_name, str) or ort_device_name.lower() not in _KINDS:
            known = ", ".join(map(repr, _KINDS))
            raise refuse("OrtDevice", "device_type", f"device_type must be one of {known}", repr(ort_device_name))
        name = ort_device_name.lower()
        faults: list[Fault] = []
        number = read_int(device_id, "device_id", faults, 0, _MOST)
        vendor = read_int(vendor_id, "vendor_id", faults, -1, _MOST)
        if faults:
            raise InvalidArgument("OrtDevice", faults)
        return OrtDevice(name, number, int(_KINDS[name][1]) if vendor < 0 else vendor)

    @property
    def memory(self) -> str:
        """Where its arrays lie: `cpu`, `cuda:1`."""
        if self.name == "webgpu":
            return find_engine(f"webgpu:{self.number}").memory
        if self.name == "cpu" or (self.name != "cuda" and not count_gpus()):
            return HOST
        if self.number >= (count := count_gpus() if self.name != "cuda" else _count_cuda()):
            rule = f"there is no device {self.name}:{self.number} on this machine"
            way_out = f"there are {count} GPUs" if count else why_missing()
            raise EPFail("OrtDevice", Fault(field="device_id", rule=rule, value=self.number, way_out=way_out))
        return f"cuda:{self.number}"

    def device_id(self) -> int:
        """Its number."""
        return self.number

    def device_type(self) -> int:
        """ONNX Runtime's number of its type: 0 for a CPU, 1 for a GPU."""
        return _KINDS[self.name][0]

    def device_vendor_id(self) -> int:
        """The PCI number of its maker."""
        return self.vendor

    def device_mem_type(self) -> int:
        """0, the device's own memory."""
        return 0

    @staticmethod
    def default_memory() -> int:
        """0, the device's own memory."""
        return 0


@functools.cache
def count_gpus() -> int:
    """The GPUs for DirectML's provider; without a driver PyTorch, whose import takes seconds, is not asked."""
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return 0
    return _count_cuda()


def _count_cuda() -> int:
    return 0 if why_missing() else device_count()

"""ONNX Runtime's interface: what a program that imports onnxruntime calls, on DirectML's operators.

>>> import anydml.onnxruntime as ort  # was: import onnxruntime as ort
>>> session = ort.InferenceSession("model.onnx", providers=["DmlExecutionProvider"])
>>> session.run(None, {"x": x})
"""

from anydml.onnxruntime.binding import IOBinding
from anydml.onnxruntime.description import ModelMetadata, NodeArg
from anydml.onnxruntime.inference import InferenceSession
from anydml.onnxruntime.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from anydml.onnxruntime.ort_device import OrtDevice, OrtDeviceVendorId
from anydml.onnxruntime.ort_errors import (
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoaded,
    NoModel,
    NoSuchFile,
    NotImplemented,
    RuntimeException,
)
from anydml.onnxruntime.ort_value import OrtValue, copy_tensors
from anydml.onnxruntime.process import (
    as_onnxruntime,
    disable_telemetry_events,
    enable_telemetry_events,
    get_build_info,
    get_version_string,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_seed,
)
from anydml.onnxruntime.providers import get_all_providers, get_available_providers, get_device

__version__ = get_version_string()
__all__ = [
    "EPFail",
    "EngineError",
    "ExecutionMode",
    "ExecutionOrder",
    "Fail",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoaded",
    "ModelMetadata",
    "NoModel",
    "NoSuchFile",
    "NodeArg",
    "NotImplemented",
    "OrtDevice",
    "OrtDeviceVendorId",
    "OrtValue",
    "RunOptions",
    "RuntimeException",
    "SessionOptions",
    "as_onnxruntime",
    "copy_tensors",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_version_string",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
]

from anydml.onnxruntime import capi

__all__ += ["capi"]

"""ONNX Runtime GenAI's interface: what a program that imports onnxruntime_genai calls, on DirectML's operators.

>>> import anydml.genai as og  # was: import onnxruntime_genai as og
>>> model = og.Model("folder")
>>> tokenizer = og.Tokenizer(model)
>>> params = og.GeneratorParams(model)
>>> params.set_search_options(max_length=200)
>>> generator = og.Generator(model, params)
>>> generator.append_tokens(tokenizer.encode("Hello"))
>>> while not generator.is_done():
...     generator.generate_next_token()
>>> print(tokenizer.decode(generator.get_sequence(0)))
"""

from anydml.genai.adapters import Adapters
from anydml.genai.config import Config
from anydml.genai.generator import Generator, GeneratorParams
from anydml.genai.log import set_log_callback, set_log_options
from anydml.genai.media import Audios, Images
from anydml.genai.model import Model
from anydml.genai.process import (
    INTERFACE,
    as_onnxruntime_genai,
    disable_telemetry_events,
    enable_telemetry_events,
    get_current_gpu_device_id,
    is_cuda_available,
    is_dml_available,
    is_openvino_available,
    is_qnn_available,
    is_webgpu_available,
    register_execution_provider_library,
    set_current_gpu_device_id,
    unregister_execution_provider_library,
)
from anydml.genai.processor import MultiModalProcessor, StreamingProcessor
from anydml.genai.tensors import NamedTensors, Tensor
from anydml.genai.tokenizer import Tokenizer, TokenizerStream

__version__ = INTERFACE
__all__ = [
    "Adapters",
    "Audios",
    "Config",
    "Generator",
    "GeneratorParams",
    "Images",
    "Model",
    "MultiModalProcessor",
    "NamedTensors",
    "StreamingProcessor",
    "Tensor",
    "Tokenizer",
    "TokenizerStream",
    "as_onnxruntime_genai",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_current_gpu_device_id",
    "is_cuda_available",
    "is_dml_available",
    "is_openvino_available",
    "is_qnn_available",
    "is_webgpu_available",
    "register_execution_provider_library",
    "set_current_gpu_device_id",
    "set_log_callback",
    "set_log_options",
    "unregister_execution_provider_library",
]

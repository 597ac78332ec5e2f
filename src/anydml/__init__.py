"""DirectML's operators on any machine, from Python.

>>> import numpy as np, anydml as dml
>>> dml.cumulative_summation(np.array([2, 1, 3, 5], "float32"), axis=0)
array([ 2.,  3.,  6., 11.], dtype=float32)

What there is, and what `help` tells of by its name:

- Functions on arrays of NumPy, PyTorch, CuPy and DLPack, one for each operator: `gemm`, `convolution`, `softmax`,
  `top_k`. Beside them NumPy's and PyTorch's names where DirectML has none: `matmul`, `sum`, `where`, `concatenate`.
- Graphs of the same functions: `Graph`, whose inputs may have symbolic sizes (`Size`), and what it compiles to,
  `CompiledGraph`; `graph_passes()` lists what rewrites them.
- DirectML's own way: a description for each operator, `Gemm` for DML_GEMM_OPERATOR_DESC, of tensors (`TensorDesc`);
  `Device` compiles it to a `CompiledOperator`, which is bound (`BindingTable`) and recorded (`CommandRecorder`).
  `support(Gemm)` tells types and dimensions at each feature level, `desc.check()` what is wrong with a description.
- Modules, imported when they are first asked for: `onnx`, `onnxruntime`, `dxdispatch`, `pydirectml`, `dask`, `explain`.
- Errors: `DmlError` and its kin. Threads: `set_num_threads`.

On the command line: `anydml --help`.
"""

import anydml.api.numpy_names as _numpy_names
from anydml.api import functions as _functions
from anydml.api.builder import Graph
from anydml.api.docstrings import complete as _complete
from anydml.api.expression import Expression
from anydml.api.signatures import RENAMED as _RENAMED
from anydml.arrays.device_array import DeviceArray
from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import (
    AxisDirection,
    ConvolutionDirection,
    ConvolutionMode,
    DataType,
    DepthSpaceOrder,
    ExecutionFlags,
    Feature,
    FeatureLevel,
    IndexMode,
    InterpolationMode,
    IsInfinityMode,
    MatrixTransform,
    MultiheadAttentionMaskType,
    PaddingMode,
    QuantizationType,
    RandomGeneratorType,
    RecurrentNetworkDirection,
    ReduceFunction,
    RoundingMode,
    TensorFlags,
)
from anydml.core.errors import (
    BindingError,
    DescriptionError,
    DeviceLostError,
    DmlError,
    DynamicSizesError,
    Fault,
    FeatureLevelError,
    IndexRangeError,
    MissingDependencyError,
    ModelError,
    ModelFileError,
    Place,
    UnsupportedError,
)
from anydml.core.late_imports import import_alone as _import
from anydml.core.operator_type import OperatorType
from anydml.core.symbolic_sizes import Size
from anydml.engines import DeviceInfo, devices
from anydml.engines.common.threads import get_num_threads, set_num_threads
from anydml.graph.description import GraphDesc
from anydml.graph.nodes import ConstantNode, InputEdge, IntermediateEdge, OperatorNode, OutputEdge
from anydml.graph.pass_names import graph_passes
from anydml.operators import (
    OPERATORS,
    FusedActivation,
    LevelSupport,
    OperatorDesc,
    Report,
    ScaleBias,
    TensorSupport,
    support,
)
from anydml.runtime.binding import BindingProperties, BufferBinding
from anydml.runtime.bound import BoundOperator
from anydml.runtime.commands import CommandList, CommandRecorder
from anydml.runtime.compiled import CompiledOperator, Operator
from anydml.runtime.device import Device, to_device
from anydml.runtime.graph import CompiledGraph
from anydml.runtime.initializer import OperatorInitializer
from anydml.runtime.symbolic import SymbolicGraph
from anydml.runtime.table import BindingTable

__version__ = "0.2.0"

# The operators' classes are exported by their names, and their functions, which are made or have their docstrings
# completed when they are first asked for; and NumPy's and PyTorch's names for them. `__init__.pyi`, which
# `python -m scripts.write_stub` writes, lists them all.
globals().update({_cls.__name__: _cls for _cls in OPERATORS.values()})
_WRITTEN = {_function.__name__: _function for _function in (*_functions.WRITTEN, *_numpy_names.FAMILIAR)}
__all__ = sorted(
    {name for name, value in globals().items() if name[0] != "_" and not isinstance(value, type(_functions))}
    | {*_functions.function_names(), *_WRITTEN, *_RENAMED}
)
_MODULES = ("dask", "dxdispatch", "explain", "genai", "onnx", "onnxruntime", "pydirectml")
"""They are imported when they are first asked for."""
_FORMER = {
    "EngineMissingError": "MissingDependencyError",
    "PackageMissingError": "MissingDependencyError",
    "rewritings": "graph_passes",
}
"""Names of the release before, for one release."""


def __getattr__(name: str) -> object:
    if name in (*_MODULES, "models"):
        return _import(f"{__name__}.{name}")
    if name in _FORMER:
        _import("warnings")
        import warnings  # for old names alone

        warnings.warn(f"anydml.{name} is anydml.{_FORMER[name]} now", FutureWarning, stacklevel=2)
        return globals()[_FORMER[name]]
    if name in _WRITTEN:
        globals()[name] = written = _complete(_WRITTEN[name])
        return written
    if name in _RENAMED:
        globals()[name] = renamed = _functions.renamed_function(name)
        return renamed
    if name.startswith("_") or name not in {**_functions.derived_classes(), **_functions.exact_classes()}:
        _import("anydml.api.unknown")
        from anydml.api.unknown import word_unknown  # for errors alone

        raise AttributeError(word_unknown(name, {key: globals().get(key) for key in (*__all__, *_MODULES)}), name=name)
    globals()[name] = found = getattr(_functions, name)
    return found


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__, *_MODULES})

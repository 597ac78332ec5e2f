"""PyDirectML, Microsoft's module for DirectML in Python, on any machine: `import anydml.pydirectml as dml`.

`import pydirectml` is the same, where Microsoft's module is not installed. What was written for it runs unchanged.
Four things differ: results have the types of their tensors, where Microsoft's calls all of them float32; the tensor
policies can be read; a number divided by an expression is that, where Microsoft's gives 1/(number·expression); and what
is refused is a `DmlError`, which is a TypeError where pybind11 raises one.
"""

from anydml.pydirectml import enums as _enums
from anydml.pydirectml import functions as _functions
from anydml.pydirectml.arguments import ArgumentError
from anydml.pydirectml.data import Binding, TensorData
from anydml.pydirectml.device import Device, GraphBuilder, Model
from anydml.pydirectml.enums import *
from anydml.pydirectml.expressions import Expression, FusedActivation, GRUOutputs, MaxPoolingOutputs
from anydml.pydirectml.functions import *
from anydml.pydirectml.tensors import Dimensions, Size2D, TensorDesc, TensorPolicy

_CLASSES = (
    ArgumentError, Binding, Device, Dimensions, Expression, FusedActivation, GRUOutputs, GraphBuilder,
    MaxPoolingOutputs, Model, Size2D, TensorData, TensorDesc, TensorPolicy,
)  # fmt: skip
__all__ = [*(cls.__name__ for cls in _CLASSES), *_enums.__all__, *_functions.__all__]

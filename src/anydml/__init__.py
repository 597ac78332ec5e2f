"""anydml: DirectML's operators on any machine, from Python.

>>> import numpy as np, anydml as dml
>>> dml.cumulative_summation(np.array([2, 1, 3, 5], "float32"), axis=0)
array([ 2.,  3.,  6., 11.], dtype=float32)
"""

from anydml.builder import Expression, Graph
from anydml.engines.threads import get_num_threads, set_num_threads
from anydml.enums import (
    AxisDirection,
    DataType,
    ExecutionFlags,
    Feature,
    FeatureLevel,
    IndexMode,
    TensorFlags,
)
from anydml.errors import (
    BindingError,
    DescriptionError,
    DmlError,
    EngineMissingError,
    Fault,
    FeatureLevelError,
    IndexRangeError,
    ModelError,
    ModelFileError,
    Place,
    UnsupportedError,
)
from anydml.functions import (
    cast,
    cumulative_product,
    cumulative_summation,
    fill_value_constant,
    fill_value_sequence,
    gather,
    gather_elements,
    gather_nd,
    identity,
    join,
    reverse_subsequences,
    slice,
    slice1,
    split,
)
from anydml.graph.description import GraphDesc
from anydml.graph.nodes import ConstantNode, InputEdge, IntermediateEdge, OperatorNode, OutputEdge
from anydml.operator_type import OperatorType
from anydml.operators import (
    OPERATORS,
    Cast,
    CumulativeProduct,
    CumulativeSummation,
    ElementWiseIdentity,
    FillValueConstant,
    FillValueSequence,
    Gather,
    GatherElements,
    GatherND,
    GatherND1,
    Join,
    LevelSupport,
    OperatorDesc,
    Report,
    ReverseSubsequences,
    ScaleBias,
    Slice,
    Slice1,
    Split,
    TensorSupport,
    support,
)
from anydml.runtime.binding import BindingProperties, BufferBinding
from anydml.runtime.bound import BoundOperator
from anydml.runtime.commands import CommandList, CommandRecorder
from anydml.runtime.compiled import CompiledOperator, Operator
from anydml.runtime.device import Device
from anydml.runtime.graph import CompiledGraph
from anydml.runtime.initializer import OperatorInitializer
from anydml.runtime.table import BindingTable
from anydml.tensor import TensorDesc

__version__ = "0.1.0"

__all__ = [
    "OPERATORS",
    "AxisDirection",
    "BindingError",
    "BindingProperties",
    "BindingTable",
    "BoundOperator",
    "BufferBinding",
    "Cast",
    "CommandList",
    "CommandRecorder",
    "CompiledGraph",
    "CompiledOperator",
    "ConstantNode",
    "CumulativeProduct",
    "CumulativeSummation",
    "DataType",
    "DescriptionError",
    "Device",
    "DmlError",
    "ElementWiseIdentity",
    "EngineMissingError",
    "ExecutionFlags",
    "Expression",
    "Fault",
    "Feature",
    "FeatureLevel",
    "FeatureLevelError",
    "FillValueConstant",
    "FillValueSequence",
    "Gather",
    "GatherElements",
    "GatherND",
    "GatherND1",
    "Graph",
    "GraphDesc",
    "IndexMode",
    "IndexRangeError",
    "InputEdge",
    "IntermediateEdge",
    "Join",
    "LevelSupport",
    "ModelError",
    "ModelFileError",
    "Operator",
    "OperatorDesc",
    "OperatorInitializer",
    "OperatorNode",
    "OperatorType",
    "OutputEdge",
    "Place",
    "Report",
    "ReverseSubsequences",
    "ScaleBias",
    "Slice",
    "Slice1",
    "Split",
    "TensorDesc",
    "TensorFlags",
    "TensorSupport",
    "UnsupportedError",
    "cast",
    "cumulative_product",
    "cumulative_summation",
    "fill_value_constant",
    "fill_value_sequence",
    "gather",
    "gather_elements",
    "gather_nd",
    "get_num_threads",
    "identity",
    "join",
    "reverse_subsequences",
    "set_num_threads",
    "slice",
    "slice1",
    "split",
    "support",
]

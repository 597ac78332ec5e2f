from anydml.pydirectml.arguments import ArgumentError as ArgumentError
from anydml.pydirectml.data import Binding as Binding
from anydml.pydirectml.data import TensorData as TensorData
from anydml.pydirectml.device import Device as Device
from anydml.pydirectml.device import GraphBuilder as GraphBuilder
from anydml.pydirectml.device import Model as Model
from anydml.pydirectml.enums import *
from anydml.pydirectml.expressions import Expression as Expression
from anydml.pydirectml.expressions import FusedActivation as FusedActivation
from anydml.pydirectml.expressions import GRUOutputs as GRUOutputs
from anydml.pydirectml.expressions import MaxPoolingOutputs as MaxPoolingOutputs
from anydml.pydirectml.functions import *
from anydml.pydirectml.tensors import Dimensions as Dimensions
from anydml.pydirectml.tensors import Size2D as Size2D
from anydml.pydirectml.tensors import TensorDesc as TensorDesc
from anydml.pydirectml.tensors import TensorPolicy as TensorPolicy

"""The onnx package, which enters here alone."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from anydml.errors import EngineMissingError, Fault, ModelError, printable, show

try:
    import onnx
    import onnx.checker
    import onnx.defs
except ImportError as error:
    _fault = Fault(field="onnx", rule="reading ONNX models needs onnx", way_out="pip install 'anydml[onnx]'")
    raise EngineMissingError("anydml.onnx", _fault) from error

AttributeProto: Any = onnx.AttributeProto
ModelProto: Any = onnx.ModelProto
TensorProto: Any = onnx.TensorProto

IR_VERSION: int = onnx.IR_VERSION
"""The newest form of a model that onnx reads."""
OPSET_VERSION: int = onnx.defs.onnx_opset_version()
"""The newest of ONNX's own operators that onnx knows."""
VERSION: str = onnx.__version__
ONNX_DOMAINS = ("", "ai.onnx")
"""Of ONNX's own operators: two names of one domain."""
_TENSOR = "tensor("
"""What ONNX's names of tensors' types begin with: tensor(float)."""
_MOST_INFERRED = 2**26
"""Bytes of a model that is copied for what onnx infers of it."""


def check_node(node: Any, opset: int) -> str:
    """What onnx finds wrong with a node of ONNX's own operators: the count of its inputs, its attributes."""
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = IR_VERSION, {"": opset}
    if node.domain in ONNX_DOMAINS[1:]:  # which onnx knows by the other name alone
        given, node = node, onnx.NodeProto()
        node.CopyFrom(given)
        node.domain = ONNX_DOMAINS[0]
    try:
        onnx.checker.check_node(node, context)
    except Exception as error:  # noqa: BLE001 - ValidationError, and whatever a hostile node leads it to
        return printable(" ".join(str(error).split()))
    return ""


def own_domain(domain: str) -> str:
    """A domain by its one name, which is nothing for ONNX's own."""
    return "" if domain in ONNX_DOMAINS else domain


@dataclass(frozen=True, slots=True)
class InputRule:
    """What ONNX says of an input of a node type."""

    name: str
    allowed: tuple[str, ...]
    """The names of the element types that it may have."""
    shared: str
    """The type variable that makes it of one type with others; nothing where there is none."""
    is_variadic: bool
    """Whether it stands for any number of inputs."""


@functools.cache
def input_rules(kind: str, version: int) -> tuple[InputRule, ...]:
    """What ONNX says of the inputs of one of its own node types; nothing where onnx does not know the type."""
    try:
        schema = onnx.defs.get_schema(kind, version, "")
    except onnx.defs.SchemaError:
        return ()
    variables = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    rules = []
    for given in schema.inputs:
        texts = variables.get(given.type_str, [given.type_str])
        tensors = [text[len(_TENSOR) : -1].upper() for text in texts if text.startswith(_TENSOR)]
        is_variadic = given.option == onnx.defs.OpSchema.FormalParameterOption.Variadic
        is_shared = given.type_str in variables and (given.is_homogeneous or not is_variadic)
        rules.append(InputRule(given.name, tuple(tensors), given.type_str if is_shared else "", is_variadic))
    return tuple(rules)


def infer_outputs(model: Any) -> list[Any]:
    """The outputs as onnx infers them; as they are declared where it does not."""
    import onnx.shape_inference

    if model.ByteSize() > _MOST_INFERRED:
        return list(model.graph.output)
    try:
        return list(onnx.shape_inference.infer_shapes(model).graph.output)
    except Exception:  # noqa: BLE001 - what is wrong with the model is told by whoever traces it
        return list(model.graph.output)


def inline_functions(model: Any) -> Any:
    """The model with calls of its own functions replaced by what they are made of."""
    import onnx.inliner

    return onnx.inliner.inline_local_functions(model)


def backend_base() -> Any:
    """The module of ONNX's backend interface."""
    import onnx.backend.base

    return onnx.backend.base


def not_supposed() -> Any:
    """The exception by which a backend tells ONNX's test runner that something is beyond it."""
    from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

    return BackendIsNotSupposedToImplementIt


def make_node_model(node: Any, inputs: list[Any], outputs_info: list[Any] | None, opset: int | None) -> Any:
    """A model of one node, whose inputs are described by arrays."""
    from onnx import helper

    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in zip([name for name in node.input if name], inputs, strict=True)
    ]
    outputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)
        for name, (dtype, shape) in zip(node.output, outputs_info or [], strict=False)
    ]
    outputs = outputs or [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "node", infos, outputs)
    opsets = [helper.make_opsetid("", OPSET_VERSION if opset is None else opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def run_onnxruntime(model: Any, inputs: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """What ONNX Runtime makes of a model, given by its path or as a ModelProto: these outputs, by name."""
    try:
        import onnxruntime
    except ImportError as error:
        fault = Fault(field="onnxruntime", rule="comparing needs ONNX Runtime", way_out="pip install onnxruntime")
        raise EngineMissingError("anydml.onnx", fault) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what goes wrong is told once, by us
    try:
        given = model if isinstance(model, str) else model.SerializeToString()
        session = onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
        return dict(zip(names, session.run(names, inputs), strict=True))
    except Exception as error:
        rule = f"ONNX Runtime refused the model ({show(' '.join(str(error).split()), 300)})"
        raise ModelError("onnxruntime", Fault(field="", rule=rule)) from error


def with_every_output(model: Any) -> Any:
    """The same model with whatever its nodes make as outputs, as far as onnx can tell their types."""
    import onnx.shape_inference

    found = onnx.shape_inference.infer_shapes(model, data_prop=True)
    known = {info.name for info in found.graph.output}
    made = {name for node in found.graph.node for name in node.output if name}
    found.graph.output.extend(
        info for info in found.graph.value_info if info.name in made - known and info.type.tensor_type.elem_type
    )
    return found

"""ONNX's tables of operators, and what else of its package and of ONNX Runtime's is written in Python.

What they have in C++ that walks through a model may abort the process.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.errors import Fault, MissingDependencyError, ModelError, show
from anydml.core.late_imports import import_alone
from anydml.core.locks import make_lock
from anydml.onnx.contrib_schemas import CONTRIB, TYPES
from anydml.onnx.protobuf import ELEMENT_NUMBERS, Reader, model_message, node_message, onnx

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anydml.onnx.ir import Attribute, Function, Model, Node

IR_VERSION: int = onnx.IR_VERSION
"""The newest form of a model that onnx reads."""
OPSET_VERSION: int = onnx.defs.onnx_opset_version()
"""The newest of ONNX's own operators that onnx knows."""
onnx.defs.get_schema("Identity")  # the first question fills onnx's tables, in 18 ms: with the import, not with a model
VERSION: str = onnx.__version__
_TENSOR = "tensor("
"""The start of ONNX's names of tensors' types: tensor(float)."""


def half_dtype(number: int) -> np.dtype[Any]:
    """NumPy's type for numbers of 4 bits, a byte each, which ml_dtypes has."""
    found: np.dtype[Any] = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    return found


def number_of_dtype(dtype: np.dtype[Any]) -> int:
    """ONNX's number of the type that NumPy's arrays of that type have."""
    return int(onnx.helper.np_dtype_to_tensor_dtype(dtype))


@dataclass(frozen=True, slots=True)
class SlotRule:
    """ONNX's rules for an input or an output of a node type."""

    name: str
    allowed: tuple[str, ...]
    """The names of the element types that it may have."""
    shared: str
    """The type variable that makes it of one type with others; nothing where there is none."""
    is_variadic: bool
    """Whether it stands for any number of inputs."""
    is_single: bool
    """Whether it must be there."""


@dataclass(frozen=True, slots=True)
class NodeRules:
    """ONNX's rules for a node type."""

    inputs: tuple[SlotRule, ...]
    outputs: tuple[SlotRule, ...]
    counts: tuple[tuple[int, int], tuple[int, int]]
    """The fewest and the most inputs and outputs."""
    attributes: dict[str, str]
    """By name, the type."""
    required: tuple[str, ...]
    """The attributes that must be given."""
    defaults: dict[str, Attribute]
    """By name, the attribute that is meant where none is given."""


def _schema(kind: str, version: int) -> Any:
    if kind in CONTRIB and version < CONTRIB[kind].before:
        return _contrib_schema(kind)
    try:
        return onnx.defs.get_schema(kind, version, "")
    except onnx.defs.SchemaError:
        return None


@functools.cache
def _contrib_schema(kind: str) -> Any:
    """A node type that onnx does not know, as it would."""
    found, (domain, _, name), schema = CONTRIB[kind], kind.rpartition("."), onnx.defs.OpSchema

    def parameter(text: str) -> Any:
        label, _, variable = text.rstrip("?*").partition(":")
        options = {"?": schema.FormalParameterOption.Optional, "*": schema.FormalParameterOption.Variadic}
        option = options.get(text[-1], schema.FormalParameterOption.Single)
        return schema.FormalParameter(label, variable, param_option=option, is_homogeneous=not text.endswith("*"))

    def attribute(label: str, default: Any) -> Any:
        if isinstance(default, tuple):
            return schema.Attribute(label, schema.AttrType.FLOATS if default else schema.AttrType.INTS, required=False)
        if default in (None, float):
            return schema.Attribute(label, schema.AttrType.FLOAT if default else schema.AttrType.INT, required=True)
        return schema.Attribute(label, default_value=onnx.helper.make_attribute(label, default))

    slots = [several.split() for several in (found.inputs, found.outputs)]
    used = {text.rstrip("?*").partition(":")[2] for several in slots for text in several}
    return schema(
        name,
        domain,
        1,
        inputs=[parameter(text) for text in slots[0]],
        outputs=[parameter(text) for text in slots[1]],
        type_constraints=[(variable, list(TYPES[variable]), "") for variable in sorted(used)],
        attributes=[attribute(*item) for item in found.attributes.items()],
    )


@functools.cache
def node_rules(kind: str, version: int) -> NodeRules | None:
    """ONNX's rules for a node type; None for one that is not known."""
    schema = _schema(kind, version)
    if schema is None:
        return None
    variables = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    options = onnx.defs.OpSchema.FormalParameterOption

    def rule(given: Any) -> SlotRule:
        texts = variables.get(given.type_str, [given.type_str])
        tensors = [text[len(_TENSOR) : -1].upper() for text in texts if text.startswith(_TENSOR)]
        is_variadic = given.option == options.Variadic
        is_shared = given.type_str in variables and (given.is_homogeneous or not is_variadic)
        shared = given.type_str if is_shared else ""
        return SlotRule(given.name, tuple(tensors), shared, is_variadic, given.option == options.Single)

    attributes = schema.attributes
    return NodeRules(
        tuple(rule(given) for given in schema.inputs),
        tuple(rule(given) for given in schema.outputs),
        ((schema.min_input, schema.max_input), (schema.min_output, schema.max_output)),
        {name: attribute.type.name for name, attribute in attributes.items()},
        tuple(name for name, attribute in attributes.items() if attribute.required),
        _defaults(schema),
    )


def type_variables(kind: str, version: int) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The type variables of a node type's inputs and outputs, by place; None for one that is not known."""
    schema = _schema(kind, version)
    return (
        None
        if schema is None
        else tuple(  # type: ignore[return-value]  # of two
            tuple(given.type_str for given in several) for several in (schema.inputs, schema.outputs)
        )
    )


def optimized(model: Model, folder: str) -> Any:
    """The message of a model as ONNX Runtime's basic optimisation leaves it, before it deals nodes out to providers.

    ImportError where ONNX Runtime is not installed.
    """
    onnxruntime = load_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = f"{folder}/optimized.onnx"
    message = model_message(model).SerializeToString()
    onnxruntime.InferenceSession(message, options, providers=["CPUExecutionProvider"])
    return onnx.load(options.optimized_model_filepath)


def _defaults(schema: Any) -> dict[str, Attribute]:
    several = {name: attribute.default_value for name, attribute in schema.attributes.items()}
    return {name: Reader().attribute(default) for name, default in several.items() if default.name}


@functools.cache
def node_kinds() -> dict[str, list[int]]:
    """The names of the node types, and the opsets that changed each, in order."""
    found: dict[str, list[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            found.setdefault(schema.name, []).append(schema.since_version)
    for kind in CONTRIB:
        found.setdefault(kind, []).append(1)
    return {kind: sorted(found[kind]) for kind in sorted(found)}


@functools.cache
def body_of(kind: str, version: int) -> Function | None:
    """ONNX's definition of one of its own node types, as a function of that opset; None for most types."""
    schema = _schema(kind, version)
    if schema is None or not schema.has_function:
        return None
    found = Reader().function(schema.function_body)
    # Its opset is an older one, whose operators are the same in this.
    return replace(found, opset_import={"": version}, defaults=(*found.defaults, *_defaults(schema).values()))


def definition_of(node: Node, version: int, elements: Sequence[str | None]) -> Function | None:
    """ONNX's definition of a node, for inputs of types of these names; None where there is none."""
    schema = _schema(node.op_type, version)
    types = [
        onnx.TypeProto() if name is None else onnx.helper.make_tensor_type_proto(ELEMENT_NUMBERS[name], None)
        for name in elements
    ]
    since = max(known for known in schema.context_dependent_function_opset_versions if known <= version)
    given = node_message(node).SerializeToString(), [each.SerializeToString() for each in types]
    message = onnx.FunctionProto()
    message.ParseFromString(schema.get_context_dependent_function_with_opset_version(since, *given))
    attributes = {**_defaults(schema), **{each.name: each for each in node.attribute}}
    body = Reader().function(message)
    nodes = [replace(inner, attribute=tuple(resolved(inner.attribute, attributes))) for inner in body.graph.node]
    return replace(body, graph=replace(body.graph, node=nodes)) if nodes else None


def resolved(several: Sequence[Attribute], given: Mapping[str, Attribute]) -> Iterator[Attribute]:
    """A function's attributes for a call with those given; one that nobody gave is left out."""
    for each in several:
        if not each.refers:
            yield each
        elif (actual := given.get(each.refers)) is not None:
            yield replace(actual, name=each.name)


def backend_base() -> Any:
    """The module of ONNX's backend interface."""
    import_alone("onnx.backend.base")
    import onnx.backend.base

    return onnx.backend.base


def not_supposed() -> Any:
    """The exception by which a backend tells ONNX's test runner that something is beyond it."""
    import_alone("onnx.backend.test.runner")
    from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

    return BackendIsNotSupposedToImplementIt


def make_node_model(node: Any, inputs: list[Any], outputs_info: list[Any] | None, opset: int | None) -> Any:
    """A model of one node, whose inputs are described by arrays."""
    import_alone("onnx.helper")
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


def run_onnxruntime(
    model: Model | str, inputs: dict[str, Any], names: list[str], *, is_plain: bool = False
) -> dict[str, Any]:
    """ONNX Runtime's results of a model, or of the one at a path: these outputs, by name.

    With `is_plain` its nodes run one by one, as they are.
    """
    try:
        onnxruntime = load_onnxruntime()
    except ImportError as error:
        fault = Fault(field="onnxruntime", rule="comparing needs ONNX Runtime", way_out="pip install onnxruntime")
        raise MissingDependencyError("anydml.onnx", fault) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what goes wrong is told once, by us
    # An x86 without dot instructions cuts off the sums of two products of bytes, unless they are asked to be exact.
    options.add_session_config_entry("session.x64quantprecision", "1")
    if is_plain:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        given = model if isinstance(model, str) else model_message(model).SerializeToString()
        session = onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
        return dict(zip(names, session.run(names, inputs), strict=True))
    except Exception as error:
        rule = f"ONNX Runtime refused the model ({show(' '.join(str(error).split()), 300)})"
        raise ModelError("onnxruntime", Fault(field="", rule=rule)) from error


# ONNX Runtime itself, which nodes run on that DirectML has no operator for, and answers are compared with.

NAME = "onnxruntime"
_lock = make_lock()
_found: dict[str, Any] = {}
"""Its modules by name, once they were loaded."""


def load_onnxruntime() -> Any:
    """The package; the real one where this library stands in for it under its name. ImportError where there is none."""
    with _lock:
        if not _found:
            if not hasattr(sys.modules.get(NAME), "as_onnxruntime"):
                import_alone(NAME)
                _found.update(_known())
            else:
                ours = take_out()
                try:
                    import_alone(NAME)
                    _found.update(_known())
                finally:
                    take_out()
                    sys.modules.update(ours)
        return _found[NAME]


def take_out() -> dict[str, Any]:
    """The modules of its name, which are gone from those that Python knows."""
    return {name: sys.modules.pop(name) for name in _known()}


def _known() -> dict[str, Any]:
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] == NAME}

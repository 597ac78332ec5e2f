"""Nodes on the host: by ONNX Runtime, else by onnx's reference evaluator.

The evaluator runs what ONNX Runtime does not have: a node type, a version of one or a type of elements; and everything
where ONNX Runtime is not installed. What ONNX Runtime has and refuses is refused, as it is at fault or would not mean
there what it means here. Who runs a node, and why the evaluator does, `explain` and the log say.

Some node types have kernels of their own, which come first.
"""

from __future__ import annotations

import functools
import logging
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx.defs

from anydml.core.errors import DmlError, Fault, ModelError, UnsupportedError, printable, show
from anydml.core.late_imports import import_alone
from anydml.onnx.element_types import type_name
from anydml.onnx.ir import Graph, Model, Node, ValueInfo, ValueType, make_node
from anydml.onnx.library import load_onnxruntime, number_of_dtype
from anydml.onnx.partition.host_kernels import find_kernel
from anydml.onnx.protobuf import Reader, model_message, own_domain
from anydml.onnx.signatures import type_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.onnx.ir import Tensor

    Array = np.ndarray[Any, Any]


_log = logging.getLogger("anydml")
_FOREIGN = ("bfloat", "complex", "float8", "float4", "int4", "int2")
"""In ONNX Runtime's names of types that it has no arrays for."""
_IR_VERSION = 10
"""Of the models that nodes are put in."""
_MOST_TOLD = 300
"""Characters of a reason, the last ones."""
_PREAMBLE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : |/\S+\.(cc|h):\d+ ")
_LESS_EXACT = ("DFT", "STFT")
"""Node types of which ONNX Runtime loses digits: of 200 sums of a DFT 20 were off by up to 3e-4 of 45."""


@functools.cache
def runtime() -> Any:
    """The module of ONNX Runtime; None where it is not installed."""
    try:
        return load_onnxruntime()
    except ImportError:
        return None


@functools.cache
def _known_there() -> dict[tuple[str, str], dict[int, frozenset[str]]]:
    """By domain and name of every node type that ONNX Runtime has, its versions and the attributes of each."""
    there = runtime()
    found: dict[tuple[str, str], dict[int, frozenset[str]]] = {}
    for schema in [] if there is None else there.capi.onnxruntime_pybind11_state.get_all_operator_schema():
        versions = found.setdefault((own_domain(schema.domain), schema.name), {})
        versions[schema.since_version] = frozenset(schema.attributes)
    return found


@functools.cache
def _takes_opset(domain: str, version: int) -> bool:
    """Whether ONNX Runtime takes models of an opset at all: of those that it knows it refuses the newest."""
    x, y = (ValueInfo(name, ValueType("tensor", number_of_dtype(np.dtype(np.float32)), ())) for name in "xy")
    graph = Graph([make_node("Identity", ["x"], ["y"])], [x], [y], name="opset")
    try:
        _make_session(Model(graph, {"": 13, domain: version}, ir_version=_IR_VERSION))
    except Exception:  # noqa: BLE001 - of a class for all that fails; there is nothing else to refuse
        return False
    return True


def _make_session(model: Model) -> Any:
    """A session of ONNX Runtime.

    Nothing is optimised, so that a node means what it says; one thread, so that a small node costs no team of them.
    """
    there = runtime()
    options = there.SessionOptions()
    options.graph_optimization_level = there.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 4
    return there.InferenceSession(model_message(model).SerializeToString(), options, providers=["CPUExecutionProvider"])


def _unknown_there(model: Model) -> str:
    """What of a model that ONNX knows ONNX Runtime does not: an opset, or a version of a node type; else nothing."""
    versions = model.opset_import
    for domain, version in versions.items():
        if not _takes_opset(domain, version):
            return f"opset {version} of {printable(domain or 'ai.onnx')}"
    for node in model.graph.node:
        domain = node.domain
        try:
            since = onnx.defs.get_schema(node.op_type, versions.get(domain, 1), domain).since_version
        except onnx.defs.SchemaError:  # a type of its own
            continue
        known = _known_there().get((domain, node.op_type), {})
        if since not in known or not known[since].issuperset(attribute.name for attribute in node.attribute):
            return f"{printable(node.kind)} of opset {since}"
    return ""


def is_known(node: Node, versions: Mapping[str, int]) -> bool:
    """Whether somebody on the host knows a node's type, in the opset of its domain."""
    domain = node.domain
    try:
        onnx.defs.get_schema(node.op_type, versions.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        return bool(domain) and (domain, node.op_type) in _known_there()
    return True


def make_model(
    nodes: Sequence[Node],
    inputs: Mapping[str, Any],
    gives: Sequence[str],
    tensors: Sequence[Tensor],
    opsets: Mapping[str, int],
) -> Model:
    """Nodes as a model of their own, whose inputs are of the types of these values."""
    infos = []
    for name, value in inputs.items():
        element = value[0] if isinstance(value, list) and value else value
        dtype = getattr(element, "dtype", np.dtype(np.float32))
        kind = ValueType("tensor", number_of_dtype(dtype))
        infos.append(ValueInfo(name, ValueType("sequence", inner=kind) if isinstance(value, list) else kind))
    graph = Graph(nodes, infos, [ValueInfo(name) for name in gives], tensors, name="host")
    return Model(graph, opsets, ir_version=_IR_VERSION)


class Evaluator:
    """A model of host nodes for inputs of certain types."""

    def __init__(self, model: Model, inputs: Mapping[str, Any], label: str) -> None:
        self._label = label
        self.by = ""
        """Who runs it."""
        self.why = ""
        """Why ONNX Runtime does not, where onnx's evaluator does."""
        values = [each for value in inputs.values() for each in (value if isinstance(value, list) else [value])]
        is_plain = all(type(value) is not np.ndarray or value.dtype.type.__module__ == "numpy" for value in values)
        self._own = find_kernel(model) if is_plain else None
        self._run: Callable[[Mapping[str, Any]], Sequence[Any]] | None = None
        self._prepare = functools.partial(self._find_runner, model, inputs, is_plain=is_plain)
        if self._own is None:
            self._run = self._prepare()

    def _find_runner(
        self, model: Model, inputs: Mapping[str, Any], *, is_plain: bool
    ) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
        """ONNX Runtime's function or the evaluator's."""
        session, self.why = self._session(model, inputs, is_plain=is_plain)
        if session is not None:
            self.by = "ONNX Runtime"
            return functools.partial(_run_session, session, [info.name for info in model.graph.output])
        self.by = "onnx's reference evaluator"
        self._check_types(model)
        try:
            import_alone("onnx.reference")
            from onnx.reference import ReferenceEvaluator  # which takes 0.3 s to import

            evaluator = ReferenceEvaluator(model_message(model), new_ops=_stricter())
        except Exception as error:
            rule = f"nothing on the host has it: {self.why}; {self.by}: {_told(error)}"
            raise UnsupportedError(self._label, Fault(field="", rule=rule)) from error
        _log.info("%s: %s runs it, as %s", self._label, self.by, self.why)
        return functools.partial(_run_reference, evaluator)

    def _check_types(self, model: Model) -> None:
        """Refuse inputs of types that ONNX does not allow, which the evaluator takes."""
        graph = model.graph
        types = {info.name: info.type.element for info in graph.input}
        types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
        for node in graph.node:
            elements = [type_name(types[name]) if types.get(name) else None for name in node.input]
            fault = type_fault(node.kind, model.opset_import.get(node.domain, 1), elements)
            if fault is not None:
                raise ModelError(node.label, fault)

    def _session(self, model: Model, inputs: Mapping[str, Any], *, is_plain: bool) -> tuple[Any, str]:
        """A session of ONNX Runtime; None where it lacks what the model needs, and what that is."""
        there = runtime()
        if there is None:
            return None, "ONNX Runtime is not installed"
        if not is_plain:
            return None, "ONNX Runtime has no arrays of its inputs' types"
        if unknown := _unknown_there(model):
            return None, f"ONNX Runtime {there.__version__} has no {unknown}"
        try:
            found = _make_session(model)
        except there.capi.onnxruntime_pybind11_state.NotImplemented as error:
            return None, f"ONNX Runtime lacks it: {_told(error)}"
        except Exception as error:
            if not all(map(_has_type, inputs.values())):
                return None, "ONNX Runtime cannot take the type of an empty sequence or optional value"
            if foreign := _foreign_constant(model):
                return None, f"ONNX Runtime has no arrays of {foreign}"
            raise self._refused("ONNX Runtime", error) from error
        if foreign := next((end.type for end in found.get_outputs() if _is_foreign(end.type)), ""):
            return None, f"ONNX Runtime has no arrays of {foreign}"
        if kinds := [node.op_type for node in model.graph.node if node.op_type in _LESS_EXACT]:
            return None, f"ONNX Runtime loses digits of {kinds[0]}"
        return found, ""

    def _refused(self, by: str, error: Exception) -> ModelError:
        rule = f"{by}, which runs it on the host, refused it ({_told(error)})"
        return ModelError(self._label, Fault(field="", rule=rule, way_out="the reason says what to mend"))

    def run(self, inputs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The outputs of inputs by name."""
        try:
            if self._own is not None and (found := self._own(inputs)) is not None:
                self.by = "a kernel"
                return found
            if self._run is None:
                self._run = self._prepare()
            return tuple(self._run(inputs))
        except (DmlError, MemoryError):
            raise
        except ImportError as error:
            rule = f"{self.by} lacks a package ({show(error, 200)})"
            raise UnsupportedError(self._label, Fault(field="", rule=rule)) from error
        except Exception as error:
            raise self._refused(self.by, error) from error


def _is_foreign(kind: str) -> bool:
    return any(name in kind.lower() for name in _FOREIGN)


@functools.cache
def _stricter() -> list[Any]:
    """The node types of the reference evaluator that answer to what ONNX has no answer for, with its rules."""
    import_alone("onnx.reference.ops.op_stft")
    from onnx.reference.ops.op_stft import STFT as _STFT

    class STFT(_STFT):  # type: ignore[misc]  # onnx has no types
        def _run(self, x: Any, frame_step: Any, window: Any = None, frame_length: Any = None, **more: Any) -> Any:
            label, size = Reader().nodes([self.onnx_node])[0].label, x.shape[1] if x.ndim > 1 else 0
            length = frame_length if frame_length is not None else None if window is None else len(window)
            for name, value, most in (("frame_step", frame_step, 2**63 - 1), ("frame_length", length, size)):
                found = None if value is None else np.asarray(value)
                if found is None or found.size != 1 or not 1 <= found.item() <= most:
                    rule = f"{name} must be one number in 1 .. {most}"
                    raise ModelError(label, Fault(field=name, rule=rule, found="none" if found is None else str(found)))
            if window is not None and window.shape != (int(np.asarray(length).item()),):
                rule = f"window must have the shape of a frame, ({int(np.asarray(length).item())},)"
                raise ModelError(label, Fault(field="window", rule=rule, found=str(window.shape)))
            return super()._run(x, frame_step, window, frame_length, **more)

    return [STFT]


def _foreign_constant(model: Model) -> str:
    """The first type among a model's constants that ONNX Runtime has no arrays for."""
    nodes = [node for node in model.graph.node if node.op_type == "Constant"]
    values = [each.value for node in nodes for each in node.attribute if each.kind == "TENSOR"]
    kinds = (type_name(tensor.data_type) for tensor in (*model.graph.initializer, *values))
    return next(filter(_is_foreign, kinds), "")


def _has_type(value: Any) -> bool:
    """Whether a value says of what type it is."""
    return isinstance(value, np.ndarray) or (isinstance(value, list) and bool(value) and _has_type(value[0]))


def _told(error: Exception) -> str:
    """The reason of an error, which ONNX Runtime tells after numbers, files and lines of its own."""
    text = _PREAMBLE.sub("", " ".join(str(error).split()))
    return show(text if len(text) <= _MOST_TOLD else f"... {text[-_MOST_TOLD:]}", 2 * _MOST_TOLD)


def _run_session(session: Any, names: list[str], inputs: Mapping[str, Any]) -> Sequence[Any]:
    found: Sequence[Any] = session.run(names, inputs)
    return found


def _run_reference(evaluator: Any, inputs: Mapping[str, Any]) -> Sequence[Any]:
    with np.errstate(all="ignore"):
        found = evaluator.run(None, dict(inputs))
    return [np.asarray(each) if isinstance(each, np.generic) else each for each in found]

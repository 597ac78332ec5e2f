"""Nodes on the host: by ONNX Runtime where it is installed and has them, else by onnx's reference evaluator.

NonMaxSuppression has a kernel of its own: for 80 classes of 2,100 boxes ONNX Runtime takes 5.1 ms. NonZero of few
elements is NumPy's: a call of ONNX Runtime's takes 12 us.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx.defs
import onnx.helper
import onnx.numpy_helper

from anydml.alone import import_alone
from anydml.errors import DmlError, Fault, ModelError, UnsupportedError, show
from anydml.onnx.library import make_info, own_domain
from anydml.onnx.parts.finding import finder
from anydml.onnx.parts.suppressing import suppressor
from anydml.onnx.peer import load_onnxruntime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_FOREIGN = ("bfloat", "complex", "float8", "float4", "int4", "int2")
"""In ONNX Runtime's names of types that it has no arrays for."""
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
def _known_there() -> frozenset[tuple[str, str]]:
    """The domain and name of every node type that ONNX Runtime has beside ONNX's own."""
    there = runtime()
    schemas = [] if there is None else there.capi.onnxruntime_pybind11_state.get_all_operator_schema()
    return frozenset((schema.domain, schema.name) for schema in schemas)


def is_known(node: Any, versions: Mapping[str, int]) -> bool:
    """Whether somebody on the host knows a node's type, in the opset of its domain."""
    domain = own_domain(node.domain)
    try:
        onnx.defs.get_schema(node.op_type, versions.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        return bool(domain) and (domain, node.op_type) in _known_there()
    return True


def make_model(
    nodes: Sequence[Any], inputs: Mapping[str, Any], gives: Sequence[str], tensors: Sequence[Any], opsets: Sequence[Any]
) -> Any:
    """Nodes as a model of their own, whose inputs are of the types of these values."""
    infos = []
    for name, value in inputs.items():
        element = value[0] if isinstance(value, list) and value else value
        dtype = getattr(element, "dtype", np.dtype(np.float32))
        number = onnx.helper.np_dtype_to_tensor_dtype(dtype)
        info = onnx.helper.make_tensor_value_info(name, number, None)
        if isinstance(value, list):
            info = onnx.helper.make_tensor_sequence_value_info(name, number, None)
        infos.append(info)
    graph = onnx.helper.make_graph(nodes, "host", infos, [make_info(name) for name in gives], tensors)
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)


class Evaluator:
    """A model of host nodes for inputs of certain types."""

    def __init__(self, model: Any, inputs: Mapping[str, Any], label: str) -> None:
        self._label = label
        self._names = [info.name for info in model.graph.output]
        self.by = ""
        """Who runs it."""
        values = [each for value in inputs.values() for each in (value if isinstance(value, list) else [value])]
        is_plain = all(type(value) is not np.ndarray or value.dtype.type.__module__ == "numpy" for value in values)
        is_exact = all(node.op_type not in _LESS_EXACT for node in model.graph.node)
        session, why = _session(model) if is_plain and is_exact else (None, "")
        self._own, self._own_name = None, "NumPy"
        if is_plain and (own := suppressor(model, onnx.numpy_helper.to_array)) is not None:
            self._own, self._own_name = own, "a kernel"
        elif is_plain:
            self._own = finder(model)
        self._run: Callable[[Mapping[str, Any]], Sequence[Any]]
        if session is not None:
            self.by = "ONNX Runtime"
            self._run = functools.partial(_run_session, session, self._names)
        else:
            self.by = "onnx's reference evaluator"
            try:
                import_alone("onnx.reference")
                from onnx.reference import ReferenceEvaluator  # which takes 0.3 s to import

                evaluator = ReferenceEvaluator(model)
            except Exception as error:
                told = " ".join((f"{why} {error}" if why else str(error)).split())
                rule = f"nothing on the host could run it ({show(told, 400)})"
                raise UnsupportedError(label, Fault(field="", rule=rule)) from error
            self._run = functools.partial(_run_reference, evaluator)

    def run(self, inputs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The outputs of inputs by name."""
        try:
            if self._own is not None and (found := self._own(inputs)) is not None:
                self.by = self._own_name
                return (found,)
            return tuple(self._run(inputs))
        except (DmlError, MemoryError):
            raise
        except ImportError as error:
            rule = f"{self.by} lacks a package ({show(error, 200)})"
            raise UnsupportedError(self._label, Fault(field="", rule=rule)) from error
        except Exception as error:
            rule = f"{self.by} refused it ({show(' '.join(str(error).split()), 300)})"
            raise ModelError(self._label, Fault(field="", rule=rule)) from error


def _session(model: Any) -> tuple[Any, str]:
    """A session of ONNX Runtime; None where it is missing or lacks some of the nodes for these types, and what it said.

    Nothing is optimised, so that a node means what it says; one thread, so that a small node costs no team of them.
    """
    there = runtime()
    if there is None:
        return None, ""
    options = there.SessionOptions()
    options.graph_optimization_level = there.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 4
    try:
        found = there.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - what it lacks, the reference evaluator may have
        return None, f"ONNX Runtime: {error};"
    is_plain = not any(name in output.type for output in found.get_outputs() for name in _FOREIGN)
    return found if is_plain else None, ""


def _run_session(session: Any, names: list[str], inputs: Mapping[str, Any]) -> Sequence[Any]:
    found: Sequence[Any] = session.run(names, inputs)
    return found


def _run_reference(evaluator: Any, inputs: Mapping[str, Any]) -> Sequence[Any]:
    with np.errstate(all="ignore"):
        found = evaluator.run(None, dict(inputs))
    return [np.asarray(each) if isinstance(each, np.generic) else each for each in found]

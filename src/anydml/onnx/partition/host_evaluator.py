"""Nodes on the host: by ONNX Runtime, else by onnx's reference evaluator.

The evaluator runs what ONNX Runtime does not have: a node type, a version of one or a type of elements; and everything
where ONNX Runtime is not installed. What ONNX Runtime has and refuses is refused, as it is at fault or would not mean
there what it means here. Who runs a node, and why the evaluator does, `explain` and the log say.

NonMaxSuppression has a kernel of its own: for 80 classes of 2,100 boxes ONNX Runtime takes 5.1 ms. NonZero of few
elements is NumPy's: a call of ONNX Runtime's takes 12 us. So is StringNormalizer: ONNX Runtime needs a locale for it,
which containers lack.
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
from anydml.onnx.protobuf import Reader, array_of, model_message, own_domain
from anydml.onnx.signatures import type_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.onnx.ir import Tensor

    Array = np.ndarray[Any, Any]


# NonZero of few elements and StringNormalizer, by NumPy


_FEW = 2**14
"""Elements up to which NumPy takes less time than ONNX Runtime."""


def finder(model: Model) -> Callable[[Mapping[str, Any]], Array | None] | None:
    """A function that runs a model of this node alone; None for others. It gives None for what is not its own."""
    if [node.kind for node in model.graph.node] != ["NonZero"]:
        return None
    (name,) = model.graph.node[0].input

    def run(given: Mapping[str, Any]) -> Array | None:
        data = given.get(name)
        if type(data) is not np.ndarray or not data.ndim or data.size > _FEW:
            return None
        return np.array(np.nonzero(data), np.int64)

    return run


def only_node(model: Model, kind: str) -> tuple[Node, dict[str, Array]] | None:
    """The node of a model that has one of this type, and its constants as arrays; None for others."""
    others = [node for node in model.graph.node if node.op_type != "Constant"]
    if [node.kind for node in others] != [kind]:
        return None
    constants = {tensor.name: array_of(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node is not others[0] and (tensor := node.value("value")) is not None:
            constants[node.output[0]] = array_of(tensor)
    return others[0], constants


def normalizer(model: Model) -> Callable[[Mapping[str, Any]], Array | None] | None:
    """The same for a StringNormalizer, by Unicode's upper and lower case, which is that of English locales."""
    if (found := only_node(model, "StringNormalizer")) is None:
        return None
    node, constants = found
    texts = (node.value("case_change_action", b"NONE"), node.value("locale", b"en_US"))
    action, locale = (text.decode(errors="replace") for text in texts)
    is_exact, words = bool(node.value("is_case_sensitive", 0)), node.value("stopwords", ())
    if action not in _CASES or not locale.startswith(("en_", "C.", "POSIX")):
        return None
    change = _CASES[action]
    compare = _CASES["NONE" if is_exact else "UPPER" if action == "UPPER" else "LOWER"]
    removed = {compare(bytes(word).decode(errors="replace")) for word in words}

    def run(given: Mapping[str, Any]) -> Array | None:
        data = {**constants, **given}.get(node.input[0])
        if not isinstance(data, np.ndarray) or data.ndim not in (1, 2) or (data.ndim == 2 and len(data) != 1):
            return None
        left = [change(word) for word in map(str, data.reshape(-1)) if compare(word) not in removed]
        return np.array(left or [""], object).reshape((1,) * (data.ndim - 1) + (-1,))

    return run


_CASES: dict[str, Callable[[str], str]] = {
    "NONE": str,
    # Letter by letter, as C's towlower: one whose other case is two letters stays as it is.
    "LOWER": lambda word: "".join(low if len(low := letter.lower()) == 1 else letter for letter in word),
    "UPPER": lambda word: "".join(up if len(up := letter.upper()) == 1 else letter for letter in word),
}


# NonMaxSuppression, by a kernel: networks of detection end with it


_MOST = 2**26
"""Scores, and places picked, at most."""


def suppressor(model: Model) -> Callable[[Mapping[str, Any]], Array | None] | None:
    """A function that runs a model of this node and constants; None for others.

    It gives None for inputs that somebody else is to look at.
    """
    if (found := only_node(model, "NonMaxSuppression")) is None:
        return None
    node, constants = found
    centred = node.value("center_point_box", 0)
    if centred not in (0, 1):
        return None

    def run(given: Mapping[str, Any]) -> Array | None:
        known = {**constants, **given}
        inputs: list[Any] = [known.get(name) for name in node.input]
        if any(name and value is None for name, value in zip(node.input, inputs, strict=True)):
            return None
        return _suppressed(*inputs, *[None] * (5 - len(inputs)), is_centred=bool(centred))

    return run


def _suppressed(
    boxes: Array, scores: Array, most: Array | None, overlap: Array | None, least: Array | None, *, is_centred: bool
) -> Array | None:
    numbers = [one for one in (most, overlap, least) if one is not None]
    are_three = boxes.ndim == scores.ndim == 3 and boxes.shape == (scores.shape[0], scores.shape[2], 4)
    if (
        not are_three
        or boxes.dtype != np.float32
        or scores.dtype != np.float32
        or any(one.size != 1 for one in numbers)
    ):
        return None
    count = 0 if most is None else min(int(most.item()), boxes.shape[1])
    is_ours = scores.size < _MOST and scores.shape[1] * scores.shape[0] * max(count, 0) < _MOST
    if not (is_ours and np.isfinite(boxes).all() and np.isfinite(scores).all()):
        return None
    batch, classes, places = scores.shape
    if count <= 0 or not scores.size:
        return np.empty((0, 3), np.int64)
    import_alone("anydml.engines.cpu.move.nms")
    from anydml.engines.cpu.move.nms import suppress  # with what compiles kernels, which few models need on a GPU

    left = scores if least is None else np.where(scores > np.float32(least.item()), scores, np.float32(-np.inf))
    part = np.float32(0 if overlap is None else overlap.item())
    if not 0 <= part <= 1:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # boxes past FLOAT32 overlap none, as in ONNX Runtime
        sides = _sides(boxes, is_centred=is_centred)
    found = suppress(sides, left.reshape(-1, places), count, part)
    rows = np.repeat(np.arange(batch * classes), [len(row) for row in found])
    return np.stack([rows // classes, rows % classes, np.concatenate(found)], 1)


def _sides(boxes: Array, *, is_centred: bool) -> Array:
    """The lowest x and y, the highest, and the area of each box: those are given by two corners, or centre and size."""
    a, b = boxes[..., :2], boxes[..., 2:]
    if is_centred:
        half = b / 2
        low, high = a - half, a + half
    else:
        low, high = np.minimum(a, b), np.maximum(a, b)
    size = high - low
    area = size[..., 0] * size[..., 1]
    return np.stack([low[..., 0], low[..., 1], high[..., 0], high[..., 1], area], 1)


# Any other


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
        self._own, self._own_name = None, "NumPy"
        if is_plain and (own := suppressor(model)) is not None:
            self._own, self._own_name = own, "a kernel"
        elif is_plain:
            self._own = finder(model) or normalizer(model)
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
                self.by = self._own_name
                return (found,)
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

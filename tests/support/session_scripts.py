"""What programs do with onnxruntime, each a function of the module: the same answer is expected of both."""

from __future__ import annotations

import copy
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_models import helper, model, node, onnx

if TYPE_CHECKING:
    from collections.abc import Callable

X = np.arange(6, dtype=np.float32).reshape(2, 3)
CPU = ["CPUExecutionProvider"]


def network(**changes: Any) -> bytes:
    """x + w, and that without what is negative: an open size, and a result whose shape the model does not declare."""
    graph = model(
        [node("Add", "x w", "y"), node("Relu", "y", "z")],
        {"x": ("float32", ["n", 3])},
        "y z",
        {"w": np.array([1, -2, 3], np.float32)},
        dtypes={"z": "float32"},
    )
    graph.producer_name, graph.model_version, graph.domain, graph.doc_string = "tests", 3, "a.b", "adds"
    graph.graph.doc_string = "a graph"
    graph.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    helper.set_model_props(graph, {"names": "{0: 'person'}", "stride": "32"})
    for name, value in changes.items():
        setattr(graph, name, value)
    return bytes(graph.SerializeToString())


def typed(dtype: Any, shape: Any = (2,)) -> bytes:
    return bytes(model(node("Identity", "x", "y"), {"x": (dtype, shape)}, dtypes={"y": dtype}).SerializeToString())


def gather() -> bytes:
    inputs = {"x": ("float32", ["n", "k"]), "i": ("int64", ["m"])}
    return bytes(model(node("Gather", "x i", "y"), inputs, dtypes={"y": "float32"}).SerializeToString())


def mislabelled(ort: Any) -> Any:
    """As detectors' files are that call every open size `?`: names are not compared."""
    inputs = {"a": ("float32", [1, "?", "?"]), "b": ("float32", ["?", 1])}
    session = opened(
        ort, bytes(model(node("Mul", "a b", "c"), inputs, "c", dtypes={"c": "float32"}).SerializeToString())
    )
    found = []
    for shape in ((1, 2, 2), (1, 2, 3), (1, 5, 4)):
        a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        found += session.run(None, {"a": a, "b": a[0, :, :1]})
    return found, args(session.get_inputs()), [arg.name for arg in session.get_outputs()]


def sequences(ort: Any) -> Any:
    inputs = [helper.make_tensor_sequence_value_info("s", 1, None), helper.make_tensor_value_info("i", 7, [])]
    outputs = [helper.make_tensor_value_info("y", 1, None), helper.make_tensor_sequence_value_info("t", 1, None)]
    nodes = [node("SequenceAt", "s i", "y"), node("SequenceInsert", "s y", "t")]
    graph = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    session = opened(ort, bytes(graph.SerializeToString()))
    return (
        args(session.get_inputs()),
        args(session.get_outputs()),
        session.run(None, {"s": [X[0], X], "i": np.array(1)}),
    )


def nonzero() -> bytes:
    """Sizes that depend on values."""
    nodes = [node("NonZero", "x", "y"), node("Transpose", "y", "z")]
    return bytes(model(nodes, {"x": ("float32", ["n", 3])}, "z", dtypes={"z": "int64"}).SerializeToString())


def nonzero_bound(ort: Any) -> Any:
    session = opened(ort, nonzero())
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("z")
    session.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu(), [told(value) for value in binding.get_outputs()]


def strings() -> bytes:
    text = helper.make_tensor_value_info("x", onnx.TensorProto.STRING, ["n"])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.STRING, ["n"])
    graph = helper.make_graph([node("Identity", "x", "y")], "g", [text], [result])
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def shipped(ort: Any) -> Any:
    """The models that ONNX Runtime's tutorials load; one is scikit-learn's, and gives dicts."""
    from onnxruntime.datasets import get_example

    found = []
    for name in ("sigmoid.onnx", "mul_1.onnx", "logreg_iris.onnx"):
        session = ort.InferenceSession(get_example(name), providers=CPU)
        (given,) = session.get_inputs()
        x = np.linspace(-2, 2, int(np.prod(given.shape)), dtype=np.float32).reshape(given.shape)
        results = session.run(None, {given.name: x})
        rounded = [result.round(5) if isinstance(result, np.ndarray) else result for result in results]
        found.append((args([given]), args(session.get_outputs()), rounded))
    return found


def overridable() -> bytes:
    graph = model(
        node("Add", "x w", "y"), {"x": ("float32", [2, 3]), "w": ("float32", [3])}, constants={"w": np.ones(3, "f4")}
    )
    return bytes(graph.SerializeToString())


def broken(change: Callable[[Any], Any]) -> bytes:
    graph = onnx.load_model_from_string(network())
    change(graph)
    return bytes(graph.SerializeToString())


def args(several: Any) -> list[Any]:
    return [(arg.name, arg.type, arg.shape) for arg in several]


def told(value: Any) -> Any:
    """All that an OrtValue says of itself."""
    asked = ("shape", "data_type", "element_type", "device_name", "is_tensor", "is_sparse_tensor", "is_tensor_sequence")
    return [getattr(value, name)() for name in (*asked, "has_value", "tensor_size_in_bytes")]


def opened(ort: Any, graph: bytes | None = None, **given: Any) -> Any:
    return ort.InferenceSession(network() if graph is None else graph, **{"providers": CPU, **given})


def fed(*given: Any, graph: bytes | None = None) -> Callable[[Any], Any]:
    """A run: what it is fed with, and the outputs asked for."""
    return lambda ort: opened(ort, graph).run(given[1] if len(given) > 1 else None, given[0])


def bound(bind: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """A run with a binding; what it gives, on the host and as OrtValues."""

    def script(ort: Any) -> Any:
        session = opened(ort)
        binding = session.io_binding()
        kept = bind(ort, binding)
        binding.synchronize_inputs()
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return kept, binding.copy_outputs_to_cpu(), [told(value) for value in binding.get_outputs()]

    return script


def into(dtype: Any, shape: Any) -> Callable[[Any], Any]:
    def bind(ort: Any, binding: Any) -> Any:
        binding.bind_cpu_input("x", X)
        binding.bind_ortvalue_output("z", ort.OrtValue.ortvalue_from_shape_and_type(shape, dtype))

    return bound(bind)


def by_pointer(ort: Any, binding: Any) -> Any:
    out = np.zeros_like(X)
    binding.bind_input("x", "cpu", 0, np.float32, X.shape, X.ctypes.data)
    binding.bind_output("z", "cpu", 0, element_type=np.float32, shape=list(out.shape), buffer_ptr=out.ctypes.data)
    return out


def by_value(ort: Any, binding: Any) -> Any:
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(X, "cpu", 0))
    binding.bind_output("z")
    binding.bind_output("y", "cpu")


def rebound(ort: Any) -> Any:
    session = opened(ort)
    binding = session.io_binding()
    found = []
    for x in (X, X[:1]):
        binding.clear_binding_inputs()
        binding.clear_binding_outputs()
        binding.bind_cpu_input("x", x)
        binding.bind_output("y")
        session.run_with_iobinding(binding, ort.RunOptions())
        found += binding.copy_outputs_to_cpu()
    return found


def in_place(ort: Any) -> Any:
    session = opened(ort)
    value = ort.OrtValue.ortvalue_from_numpy(X.copy())
    address = value.data_ptr()
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_output("y")
    binding.bind_ortvalue_output("z", ort.OrtValue.ortvalue_from_shape_and_type(X.shape, np.float32))
    found = []
    for i in range(6):
        if i == 3:  # where all is memory that stays, a run is no more than a launch
            binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_shape_and_type(X.shape, np.float32))
        value.update_inplace(X + i)
        session.run_with_iobinding(binding)
        found += binding.copy_outputs_to_cpu()
    return found, value.data_ptr() == address


def profiled(ort: Any, folder: Path) -> Any:
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    session = opened(ort, sess_options=options)
    session.run(None, {"x": X})
    path = Path(session.end_profiling())
    events = json.loads(path.read_text())
    names = [event["name"] for event in events]
    asked = (
        "model_run" in names,
        any(name.endswith("_kernel_time") for name in names),
        {event["cat"] for event in events},
    )
    return path.parent == folder, asked, set(events[0]) - {"args"}, session.get_profiling_start_time_ns() > 0


def asynchronous(ort: Any) -> Any:
    session, found = opened(ort), []
    for x in (X, X[0]):
        done = threading.Event()

        def finish(results: Any, data: Any, error: str, done: Any = done) -> None:
            found.append((results, data, bool(error)))
            done.set()

        session.run_async(["y"], {"x": x}, finish, "mine")
        done.wait(10)
    return found


def terminated(ort: Any) -> Any:
    options = ort.RunOptions()
    options.terminate = True
    return opened(ort).run(None, {"x": X}, options)


def directml_options(ort: Any) -> Any:
    """As DirectML's page tells programs to set them."""
    options = ort.SessionOptions()
    options.enable_mem_pattern = False
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads, options.inter_op_num_threads = 1, 1
    options.enable_cpu_mem_arena, options.log_severity_level, options.logid = False, 4, "mine"
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_free_dimension_override_by_name("n", 2)
    options.add_free_dimension_override_by_name("no such size", 2)
    session = opened(ort, sess_options=options)
    kept = session.get_session_options()
    said = [
        kept.enable_mem_pattern,
        kept.intra_op_num_threads,
        kept.get_session_config_entry("session.intra_op.allow_spinning"),
    ]
    return said, args(session.get_inputs()), session.run(None, {"x": X})


def denoted(ort: Any) -> Any:
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 4)
    session = opened(ort, sess_options=options)
    return args(session.get_inputs()), session.run(None, {"x": X})


def replaced(ort: Any) -> Any:
    options = ort.SessionOptions()
    value = ort.OrtValue.ortvalue_from_numpy(np.full(3, 7, np.float32))
    options.add_initializer("w", value)
    return opened(ort, sess_options=options).run(None, {"x": X})


def setting(name: str, value: Any) -> Callable[[Any], Any]:
    def script(ort: Any) -> Any:
        options = ort.SessionOptions()
        setattr(options, name, value)
        return getattr(options, name)

    return script


def defaults(ort: Any) -> Any:
    found = {}
    for cls in (ort.SessionOptions, ort.RunOptions):
        options = cls()
        names = [
            name for name in dir(cls) if not name.startswith("_") and isinstance(getattr(cls(), name), (bool, int, str))
        ]
        found[cls.__name__] = {name: getattr(options, name) for name in names}
    return found


def pickled_by_path(ort: Any, folder: Path) -> Any:
    """As insightface keeps sessions in processes of its own."""

    class Kept(ort.InferenceSession):  # type: ignore[misc]  # the module is a parameter
        def __init__(self, path: str, **given: Any) -> None:
            super().__init__(path, **given)
            self.path = path

        def __getstate__(self) -> Any:
            return {"path": self.path}

        def __setstate__(self, values: Any) -> None:
            Kept.__init__(self, values["path"], providers=CPU)

    (folder / "model.onnx").write_bytes(network())
    session = copy.copy(Kept(str(folder / "model.onnx"), providers=CPU))
    return session.run(None, {"x": X})


def values(ort: Any) -> Any:
    make = ort.OrtValue.ortvalue_from_numpy
    arrays = [X, X.astype("f2"), X.astype("i8"), X > 2, np.array(1.5), np.zeros((0, 3), "u1"), X[:, ::2]]
    value = make(X)
    own = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], 10, "cpu", 0)
    return [
        [told(make(array)) for array in arrays],
        [make(array).numpy() for array in arrays],
        told(own),
        value.data_ptr() == X.ctypes.data,
        np.from_dlpack(value),
        np.asarray(value),
        value.__dlpack_device__(),
        told(ort.OrtValue.from_dlpack(X)),
    ]


def with_values(ort: Any) -> Any:
    session = opened(ort)
    value = ort.OrtValue.ortvalue_from_numpy(X)
    several = session.run_with_ort_values(["z", "y"], {"x": value})
    return [(told(each), each.numpy()) for each in several], session.run(["y"], {"x": value})


def described(ort: Any) -> Any:
    meta = opened(ort).get_modelmeta()
    names = (
        "producer_name",
        "graph_name",
        "domain",
        "description",
        "graph_description",
        "version",
        "custom_metadata_map",
    )
    sessions = [opened(ort, graph) for graph in (network(), overridable(), gather(), typed("float32", None))]
    asked = ("get_inputs", "get_outputs", "get_overridable_initializers")
    return [[args(getattr(session, name)()) for name in asked] for session in sessions], [
        getattr(meta, n) for n in names
    ]


TYPES = ["float64", "float16", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
SCRIPTS: dict[str, Callable[[Any], Any]] = {
    "described": described,
    "mislabelled": mislabelled,
    "strings": fed({"x": np.array(["a", "bc"])}, graph=strings()),
    "strings as objects": fed({"x": np.array(["a", "bc"], object)}, graph=strings()),
    "strings in a list": fed({"x": ["a", "bc"]}, graph=strings()),
    "sequences": sequences,
    "sizes that depend on values": fed({"x": X}, graph=nonzero()),
    "sizes that depend on values, bound": nonzero_bound,
    "shipped": shipped,
    "types": lambda ort: [opened(ort, typed(dtype)).get_inputs()[0].type for dtype in TYPES],
    "answers by type": lambda ort: [opened(ort, typed(d)).run(None, {"x": np.array([0, 1], d)}) for d in TYPES],
    "a list": fed({"x": [[1.0, 2, 3], [4, 5, 6]]}),
    "a list for whole numbers": fed({"x": [1, 2]}, graph=typed("int64")),
    "a list for booleans": fed({"x": [True, False]}, graph=typed("bool")),
    "a list for halves": fed({"x": [1.0, 2.0]}, graph=typed("float16")),
    "a scalar": fed({"x": np.array(2.5, np.float32)}, graph=typed("float32", [])),
    "nothing in it": fed({"x": X[:0]}),
    "strides": fed({"x": np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2]}),
    "columns first": fed({"x": np.asfortranarray(X)}),
    "an array of a subclass": fed({"x": X.view(type("Mine", (np.ndarray,), {}))}),
    "outputs in another order, twice": fed({"x": X}, ["z", "y", "z"]),
    "outputs in a tuple": fed({"x": X}, ("z",)),
    "no outputs named": fed({"x": X}, []),
    "an initializer overridden": fed({"x": X, "w": np.zeros(3, np.float32)}, graph=overridable()),
    "an initializer left": fed({"x": X}, graph=overridable()),
    "a wrong type": fed({"x": X.astype("f8")}),
    "objects": fed({"x": np.array([[1, 2, None]], object)}),
    "a wrong rank": fed({"x": X[0]}),
    "a wrong size": fed({"x": np.ones((2, 4), np.float32)}),
    "an unknown name": fed({"x": X, "q": X}),
    "nothing fed": fed({}),
    "an unknown output": fed({"x": X}, ["q"]),
    "outputs that are no names": fed({"x": X}, [1]),
    "outputs that are one name": fed({"x": X}, "yy"),
    "a string fed": fed({"x": "a"}),
    "an index out of range": fed({"x": X, "i": np.array([9])}, graph=gather()),
    "run options": lambda ort: opened(ort).run(None, {"x": X}, ort.RunOptions()),
    "run options that are none": lambda ort: opened(ort).run(None, {"x": X}, 5),
    "terminated": terminated,
    "options for DirectML": directml_options,
    "sizes by denotation": denoted,
    "an initializer replaced": replaced,
    "an initializer that is no value": lambda ort: ort.SessionOptions().add_initializer("w", X),
    "options' defaults": defaults,
    "a misspelt field": setting("intra_op_threads", 1),
    "threads in words": setting("intra_op_num_threads", "3"),
    "threads": setting("intra_op_num_threads", 3),
    "a level that is a number": setting("graph_optimization_level", 99),
    "a number for yes": setting("enable_mem_pattern", 0),
    "an entry that is not there": lambda ort: ort.SessionOptions().get_session_config_entry("q"),
    "an entry that is a number": lambda ort: ort.SessionOptions().add_session_config_entry("a", 1),
    "a run's entries": lambda ort: ort.RunOptions().get_run_config_entry("q"),
    "values": values,
    "runs with values": with_values,
    "a value of a list": lambda ort: ort.OrtValue.ortvalue_from_numpy([1, 2]),
    "a value of an unknown type": lambda ort: ort.OrtValue.ortvalue_from_shape_and_type([1], 999),
    "a value on an unknown device": lambda ort: ort.OrtValue.ortvalue_from_numpy(X, "abacus", 0),
    "a value written with too few": lambda ort: ort.OrtValue.ortvalue_from_numpy(X).update_inplace(X[0]),
    "a value written with a list": lambda ort: ort.OrtValue.ortvalue_from_numpy(X).update_inplace([1]),
    "devices": lambda ort: [
        (d.device_type(), d.device_id(), d.device_vendor_id(), d.device_mem_type())
        for d in (ort.OrtDevice.make("cpu", 0), ort.OrtDevice.make("cuda", 1), ort.OrtDevice.make("dml", 0))
    ],
    "bound by pointers": bound(by_pointer),
    "bound by values": bound(by_value),
    "bound anew": rebound,
    "bound once, written in place": in_place,
    "bound to memory": into(np.float32, [2, 3]),
    "bound to memory of another type": into(np.float64, [2, 3]),
    "bound to memory of another shape": into(np.float32, [5, 3]),
    "bound to no output": bound(lambda _, binding: binding.bind_cpu_input("x", X)),
    "bound to an unknown input": bound(lambda _, binding: binding.bind_cpu_input("q", X)),
    "bound to an unknown output": bound(lambda _, b: (b.bind_cpu_input("x", X), b.bind_output("q"))),
    "bound to a list": bound(lambda _, binding: binding.bind_cpu_input("x", [[1.0, 2, 3]])),
    "bound without a type": bound(lambda _, binding: binding.bind_output("z", buffer_ptr=8)),
    "asynchronous": asynchronous,
    "providers": lambda ort: (opened(ort).get_providers(), opened(ort).get_provider_options()),
    "providers with options": lambda ort: opened(ort, providers=[(CPU[0], {"a": 1})]).get_provider_options(),
    "providers that are not here": lambda ort: opened(ort, providers=["CoreMLExecutionProvider", *CPU]).get_providers(),
    "a provider twice": lambda ort: opened(ort, providers=CPU * 2).get_providers(),
    "a provider that nobody has": lambda ort: opened(ort, providers=["Foo"], enable_fallback=0),
    "providers that are numbers": lambda ort: opened(ort, providers=[1], enable_fallback=0),
    "options for too many": lambda ort: opened(ort, provider_options=[{}, {}], enable_fallback=0),
    "other providers later": lambda ort: opened(ort).set_providers(CPU),
    "providers that nobody has, later": lambda ort: opened(ort).set_providers(["Foo"]),
    "no such file": lambda ort: ort.InferenceSession("no such file.onnx", providers=CPU),
    "a folder": lambda ort: ort.InferenceSession("/", providers=CPU),
    "no protobuf": lambda ort: ort.InferenceSession(b"garbage!!", providers=CPU),
    "nothing to load": lambda ort: ort.InferenceSession(None, providers=CPU),
    "a node that takes too much": lambda ort: opened(ort, broken(lambda m: m.graph.node[0].input.append("w"))),
    "a severity": lambda ort: ort.set_default_logger_severity(4),
    "a severity that is none": lambda ort: ort.set_default_logger_severity(9),
    "no profile": lambda ort: opened(ort).end_profiling(),
}

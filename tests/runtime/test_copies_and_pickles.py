"""Copies, pickles and weak references of every public object: right, or refused in words that name the way out."""

from __future__ import annotations

import copy
import enum
import functools
import gc
import importlib
import inspect
import pickle
import re
import sys
import tempfile
import threading
import types
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
import genai_folders
from anydml import DeviceArray
from anydml.core.device_memory import memories
from anydml.core.display import Shown
from anydml.core.errors import DmlError
from cases import CASES
from device_double import DoubleMemory
from onnx_models import slice_model

pytest.importorskip("dask.array", reason="every door is open here")
pytest.importorskip("distributed", reason="every door is open here")
pytest.importorskip("tokenizers", reason="every door is open here")
cloudpickle: Any = pytest.importorskip("cloudpickle", reason="Dask pickles with it")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MODELS = Path(__file__).parents[2] / "examples" / "models"
OF_ANYDML = [f"anydml.{name}" for name in dir(dml) if isinstance(getattr(dml, name), types.ModuleType)]
MODULES = ("anydml", *OF_ANYDML, "anydml.onnxruntime.capi")
X = np.arange(12, dtype="float32").reshape(3, 4)


def public_classes() -> set[type]:
    """Classes that public modules list, and those whose objects show themselves to a user."""
    modules = [importlib.import_module(name) for name in MODULES]
    listed = [getattr(module, name) for module in modules for name in getattr(module, "__all__", dir(module))]
    shown = [Shown]
    for cls in shown:
        shown += cls.__subclasses__()
    found = {*(one for one in listed if inspect.isclass(one)), *shown[1:], dml.onnx.Backend.prepare(CROP).__class__}
    # A dataclass with slots is made of another class, which may be about still.
    return {
        cls for cls in found if getattr(sys.modules.get(cls.__module__), cls.__name__, None) is cls and is_ours(cls)
    }


def is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "anydml"


CROP = str(MODELS / "crop.onnx")
NEVER_MADE = {"Dimensions", "Images", "Audios", "MultiModalProcessor", "StreamingProcessor"}
"""PyDirectML has the class, and no way to make one of it; GenAI's are refused."""
ABSTRACT = {dml.OperatorDesc}


def roots() -> Iterator[Any]:
    """Objects that reach one of every public class."""
    device = dml.Device("reference", feature_level="5_0")
    desc = dml.CumulativeSummation.infer(input_tensor=dml.TensorDesc.of(X), axis=1)
    compiled = device.compile(desc)
    graph = dml.Graph("reference", tensor_policy="interleaved_channel")
    expression = dml.relu(graph.input(X, "x") + graph.constant(X, "c")).named("y")
    whole = graph.compile(expression)
    yield from (device, desc, device.create_operator(desc), compiled, compiled.bind(X, out=np.empty_like(X)))
    yield from (graph, expression, whole, whole.bind(X, out=np.empty_like(X)), graph.desc(expression))
    yield dml.devices()[-1]
    symbolic = dml.Graph("reference")
    yield from (dml.Size("n", example=4), symbolic.compile(dml.relu(symbolic.input("float32", ("n",)))))
    table = device.create_binding_table(compiled)
    table.bind_inputs([dml.BufferBinding(bytearray(X.tobytes()))])
    yield from (table, device.create_operator_initializer([compiled]), compiled.binding_properties)
    yield from (device.create_command_recorder(), device.create_command_list())
    yield from (desc.check("1_0"), dml.Gemm.support, dml.ScaleBias(2, 3), dml.FusedActivation("ACTIVATION_RELU"))
    yield from (whole.explain(), dml.explain(desc, X), dml.explain.Limits(), dml.explain.recipes_of(whole.desc))
    yield from onnx_roots()
    yield from dxdispatch_roots()
    yield from pydirectml_roots()
    yield from genai_roots()
    yield dml.dask.AnydmlPlugin()
    yield DeviceArray.of(X, memories.setdefault("double:0", DoubleMemory("double:0")).name)


def onnx_roots() -> Iterator[Any]:
    onnx, model = dml.onnx, slice_model()
    loaded = onnx.load(CROP)
    x = np.ones((4, 4), "float32")
    yield from (loaded, onnx.check(CROP), onnx.Backend(), onnx.Backend.prepare(CROP))
    yield from (onnx.compare(model, {"x": x}, against="reference", every=True), onnx.reduce(model, lambda _: True))
    yield onnx.load(model).profile({"x": x}, runs=1)
    ort = dml.onnxruntime
    options = ort.SessionOptions()
    options.add_session_config_entry("a", "b")
    session = ort.InferenceSession(model.SerializeToString(), options)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    yield from (options, ort.RunOptions(), session, binding, session.get_inputs(), session.get_modelmeta())
    yield from (ort.OrtValue.ortvalue_from_numpy(x.copy()), ort.OrtDevice.make("cpu", 0))


def dxdispatch_roots() -> Iterator[Any]:
    events: list[Any] = []
    for name in ("slice1", "write_npy", "gather_nd"):
        model = dml.dxdispatch.load_model(str(MODELS / f"{name}.json"))
        yield from (model, model.check("2_0"), model.check())
        if name != "write_npy":
            yield model.run(on_event=events.append)
    yield events
    yield next(event.samples.hot for event in events if isinstance(event, dml.dxdispatch.Dispatched))
    yield from (
        dml.dxdispatch.Timing(),
        dml.dxdispatch.Progress("a", 1, 0.5),
        dml.dxdispatch.Printed("a", X.copy(), verbose=True),
    )
    yield dml.dxdispatch.Written("a", Path("b"), "c")


def pydirectml_roots() -> Iterator[Any]:
    py = dml.pydirectml
    device = py.Device(use_gpu=False)
    builder = py.GraphBuilder(device)
    desc = py.TensorDesc(py.TensorDataType.FLOAT32, [1, 1, 4, 4])
    x = py.input_tensor(builder, 0, desc)
    pooled = py.max_pooling(x, strides=[1, 1], window_sizes=[2, 2], start_padding=[0, 0], end_padding=[0, 0])
    model = builder.build(py.ExecutionFlags.NONE, [pooled.values])
    yield from (device, builder, desc, x, pooled, model, py.Binding(x, np.ones(16, "float32")), py.TensorData(X))
    yield from (py.TensorPolicy.default, py.Size2D(1, 2), py.FusedActivation(py.OperatorType.ACTIVATION_RELU))
    yield py.GRUOutputs(x, py.Expression())


def genai_roots() -> Iterator[Any]:
    og = dml.genai
    with tempfile.TemporaryDirectory() as folder:
        genai_folders.make_folder(Path(folder))
        model = og.Model(folder)
        tokenizer, params = og.Tokenizer(model), og.GeneratorParams(model)
    tensors = og.NamedTensors()
    tensors["x"] = X
    yield from (model, model.config, tokenizer, tokenizer.create_stream(), params, og.Generator(model, params))
    yield from (og.Adapters(model), tensors, og.Tensor(X))


def example_of(cls: Any) -> Any:
    """One that its class says how to make."""
    if issubclass(cls, enum.Enum):
        return list(cls)[-1]
    if issubclass(cls, DmlError):
        return cls(
            "Slice1", [dml.Fault(field="Sizes[0]", rule="Sizes[0] must be 1", value=[3], place=dml.Place("a", 1, 2))]
        )
    return None


@functools.cache
def examples() -> dict[type, Any]:
    """An object of every public class."""
    wanted, found = public_classes(), dict[type, Any]()
    for root in roots():
        for one in walk(root):
            found.setdefault(type(one), one)
    made = {cls: example for cls in wanted if (example := example_of(cls)) is not None}
    kept = {cls: example for cls, example in found.items() if cls in wanted}
    return {**made, **kept}


def state(value: Any) -> dict[Any, Any] | None:
    """The parts of a value by name; None for what has none."""
    if isinstance(value, (dict, types.MappingProxyType)):
        return dict(value)
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    if not type(value).__module__.startswith("anydml") or isinstance(value, (type, enum.Enum)):
        return None
    names = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ()) if name != "__weakref__"]
    slots = {name: getattr(value, name) for name in names if hasattr(value, name)}
    return {**getattr(value, "__dict__", {}), **slots}


def walk(root: Any) -> Iterator[Any]:
    seen, pending = dict[int, Any](), [root]
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        yield value
        if not is_shared(value) or value is root:
            pending += (state(value) or {}).values()


def is_shared(value: Any) -> bool:
    """Whether a copy has the very object: it never changes, or it is the device's."""
    kinds = (
        dml.Device,
        dml.CompiledOperator,
        dml.CompiledGraph,
        dml.SymbolicGraph,
        dml.onnx.Model,
        dml.pydirectml.Model,
        dml.genai.Model,
        dml.genai.Tokenizer,
    )
    return isinstance(value, kinds)


def assert_same(a: Any, b: Any, path: str, seen: dict[int, Any]) -> None:
    """Two objects of the same parts, in whatever memory."""
    if a is b or id(a) in seen:
        return
    seen[id(a)] = a
    assert type(a) is type(b), path
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype, path
        assert a.shape == b.shape, path
        assert a.tobytes() == b.tobytes(), path
        return
    if isinstance(a, (dml.Device, types.FunctionType)):
        assert repr(a).partition(" at 0x")[0] == repr(b).partition(" at 0x")[0], path
        return
    ours, theirs = state(a), state(b)
    if ours is None or theirs is None:
        assert a == b or a != a, path  # or NaN
        return
    assert ours.keys() == theirs.keys(), path
    for name in ours:
        assert_same(ours[name], theirs[name], f"{path}.{name}", seen)


def is_mutable(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return bool(value.flags.writeable)
    return isinstance(value, (list, dict, bytearray, set))


def assert_apart(a: Any, b: Any) -> None:
    """Two objects that share nothing which can change."""
    ours = {id(one): one for one in walk(a) if is_mutable(one)}
    for one in walk(b):
        assert id(one) not in ours, f"{type(a).__name__} and its copy share {one!r}"


def by_pickle(value: Any, protocol: int) -> Any:
    return pickle.loads(pickle.dumps(value, protocol))  # noqa: S301 - our own


DEEP: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    **{f"pickle {protocol}": functools.partial(by_pickle, protocol=protocol) for protocol in range(2, 6)},
    "cloudpickle": lambda value: pickle.loads(cloudpickle.dumps(value)),  # noqa: S301 - our own
}
ALL: dict[str, Callable[[Any], Any]] = {"copy": copy.copy, **DEEP}
CLASSES = sorted(public_classes() - ABSTRACT, key=lambda cls: (cls.__module__, cls.__name__))
REFUSED: dict[str, tuple[str, ...]] = {
    "pickle its desc, and compile that": ("CompiledOperator", "CompiledGraph", "BindingTable", "OperatorInitializer"),
    "pickle its Graph, and compile that": ("SymbolicGraph",),
    "pickle its path or its bytes, and load that": ("onnx.Model", "BackendRep"),
    "pickle its GraphBuilder and outputs, and build those": ("pydirectml.Model",),
    "bind the compiled operator to copies of the arrays": ("BoundOperator",),
    "record the dispatches anew": ("CommandList",),
    "bind the arrays, or copies of them, to another": ("IOBinding",),
    "its copy() is another there, and its numpy() can be pickled": ("DeviceArray",),
    "share it, for threads may run it at once, or make another": ("InferenceSession",),
    "share it, for threads may have generators of their own": ("genai.Model",),
    "share it, or make another of the model's folder": ("Tokenizer",),
    "make another by the tokenizer's create_stream()": ("TokenizerStream",),
    "share them, or load their files for another model": ("Adapters",),
    "append its get_sequence(0) to another": ("Generator",),
}
"""What cannot be pickled, by the way out that is named: each holds memory's addresses, or code for one machine."""
NEITHER_COPIED = (
    *("CommandList", "DeviceArray", "IOBinding", "InferenceSession"),
    *("genai.Model", "Tokenizer", "TokenizerStream", "Adapters", "Generator"),
)
NOT_DEEP = (*NEITHER_COPIED, "BoundOperator")


def names_of(cls: type) -> set[str]:
    return {cls.__name__, f"{cls.__module__.split('.')[1]}.{cls.__name__}"}


def way_out_of(cls: type) -> str | None:
    return next((words for words, names in REFUSED.items() if names_of(cls) & {*names}), None)


def id_of(cls: type) -> str:
    return f"{cls.__module__.removeprefix('anydml.')}.{cls.__name__}"


def check_copy(value: Any, made: Any) -> None:
    assert type(made) is type(value)
    assert_same(value, made, type(value).__name__, {})
    assert repr(made).partition(" at 0x")[0] == repr(value).partition(" at 0x")[0]


def test_every_public_class_has_an_example() -> None:
    without = {cls for cls in CLASSES if not issubclass(cls, dml.OperatorDesc)} - examples().keys()
    assert {cls.__name__ for cls in without} == NEVER_MADE


MADE = [cls for cls in CLASSES if not issubclass(cls, dml.OperatorDesc) and cls.__name__ not in NEVER_MADE]


@pytest.mark.parametrize("cls", MADE, ids=id_of)
def test_a_copy_is_equal_and_apart_or_refused_with_the_way_out(cls: type) -> None:
    value, way_out = examples()[cls], way_out_of(cls)
    for name, way in DEEP.items():
        if way_out and (name != "deepcopy" or names_of(cls) & {*NOT_DEEP}):
            with pytest.raises(TypeError, match=re.escape(way_out)):
                way(value)
            continue
        check_copy(value, made := way(value))
        if not is_shared(value):
            assert_apart(value, made)
    if names_of(cls) & {*NEITHER_COPIED}:
        with pytest.raises(TypeError, match=re.escape(str(way_out))):
            copy.copy(value)
    else:
        check_copy(value, copy.copy(value))


def test_every_object_has_weak_references_but_numbers_and_tuples() -> None:
    without = [cls.__name__ for cls in CLASSES if not cls.__weakrefoffset__ and not issubclass(cls, (int, tuple))]
    assert without == []


def test_every_operators_description_is_copied() -> None:
    descs = {case.operator: case.desc(dml.DataType.FLOAT32) for case in CASES}
    assert len(descs) > 100
    for desc in descs.values():
        for way in (copy.copy, copy.deepcopy, DEEP["pickle 5"]):
            assert way(desc) == desc
        assert weakref.ref(desc)() is desc


def test_a_copied_binding_table_has_memory_of_its_own() -> None:
    device = dml.Device("cpu")
    desc = dml.CumulativeSummation.infer(input_tensor=dml.TensorDesc("float32", (4,)), axis=0)
    compiled = device.compile_operator(device.create_operator(desc))
    table = device.create_binding_table(compiled)
    source, target = bytearray(np.ones(4, "float32").tobytes()), bytearray(16)
    table.bind_inputs([dml.BufferBinding(source)])
    table.bind_outputs([dml.BufferBinding(target)])
    copied = copy.deepcopy(table)
    del table
    commands, start = device.create_command_list(), device.create_command_list()
    recorder, ready = device.create_command_recorder(), device.create_operator_initializer([compiled])
    recorder.record_dispatch(start, ready, device.create_binding_table(ready))
    recorder.record_dispatch(commands, compiled, copied)
    device.execute([start, commands])
    written = copied.bindings.outputs
    assert written is not None
    assert np.frombuffer(written[0].buffer, "float32").tolist() == [1, 2, 3, 4]  # type: ignore[attr-defined]
    assert target == bytearray(16)


def test_a_bound_operator_shares_its_memory_or_refuses() -> None:
    x, out = X.copy(), np.zeros_like(X)
    bound = dml.Device("cpu").compile(dml.ActivationRelu.infer(input_tensor=dml.TensorDesc.of(x))).bind(x, out=out)
    copied, held = copy.copy(bound), weakref.ref(bound)
    del bound
    assert copied.dispatch() is out
    assert np.array_equal(out, x)
    with pytest.raises(TypeError, match="ACTIVATION_RELU: a bound operator runs on the very memory"):
        copy.deepcopy({"model": copied})
    del copied
    gc.collect()
    assert held() is None


@pytest.mark.parametrize("way", ALL)
def test_a_copied_graph_goes_on_by_itself(way: str) -> None:
    graph = dml.Graph("cpu")
    y = (-graph.input(X, "x")).named("end")
    other = dml.reduce(y, "SUM").reinterpret((1,))
    if way == "copy":
        copied = copy.copy(graph)
        a, b = copied.refer(y.reference), copied.refer(other.reference)
    else:
        copied, a, b = DEEP[way]((graph, y, other))
    assert a.graph is b.graph is copied is not graph
    assert (a.name, repr(b)) == ("end", repr(other))
    assert copied.desc([a, b]) == graph.desc([y, other])
    with pytest.raises(dml.DescriptionError, match="name must be unique"):
        copied.input(X, "x")
    more = dml.relu(a).named("more")
    graph.constant(X, "more")
    del graph, y, other
    assert np.array_equal(copied.compile(more)(-X), X)


@pytest.mark.parametrize("way", ["deepcopy", "pickle 5"])
def test_a_graph_that_is_deeper_than_pythons_stack_is_copied(way: str) -> None:
    graph = dml.Graph("cpu")
    y = graph.input(X)
    for _ in range(sys.getrecursionlimit()):
        (y,) = graph.add(RELU, (y,), [RELU.output_tensor])
    assert (made := DEEP[way](y)).graph.desc(made) == graph.desc(y)


RELU = dml.ActivationRelu.infer(input_tensor=dml.TensorDesc.of(X))


def test_a_copied_expression_is_of_a_graph_of_its_own_but_for_a_shallow_one() -> None:
    graph = dml.Graph("cpu")
    x = graph.input(X)
    assert copy.copy(x).graph is graph
    assert copy.copy(x).source is x.source
    deep = copy.deepcopy(x)
    assert deep.graph is not graph
    assert np.array_equal(deep.graph.compile(deep + 1)(X), X + 1)
    with pytest.raises(dml.DescriptionError, match="of another graph"):
        graph.compile(deep)


def test_pydirectml_goes_on_with_what_was_pickled() -> None:
    py = dml.pydirectml
    device = py.Device(use_gpu=False)
    builder = py.GraphBuilder(device)
    x = py.input_tensor(builder, 0, py.TensorDesc(py.TensorDataType.FLOAT32, [1, 1, 3, 4]))
    for way in DEEP.values():
        made, graph, start, end, binding = way((device, builder, x, x * 2 + 1, py.Binding(x, X)))
        model = graph.build(py.ExecutionFlags.NONE, [end])
        (result,) = made.compute(model, [binding], [end])
        assert np.array_equal(result, (X * 2 + 1).reshape(1, 1, 3, 4))
        assert start.get_output_desc().sizes == [1, 1, 3, 4]
        assert way(py.TensorPolicy.interleaved_channel) is py.TensorPolicy.interleaved_channel


def test_copied_options_are_apart() -> None:
    options = dml.onnxruntime.SessionOptions()
    options.add_session_config_entry("a", "b")
    options.logid = "one"
    for way in ALL.values():
        copied = way(options)
        copied.add_session_config_entry("c", "d")
        copied.add_free_dimension_override_by_name("n", 2)
        copied.logid = "two"
        assert (options.configuration, options.size_names, options.logid) == ({"a": "b"}, {}, "one")


def all_errors() -> list[type[DmlError]]:
    found: list[type[DmlError]] = [DmlError]
    for cls in found:
        found += cls.__subclasses__()
    return [cls for cls in found if is_ours(cls)]


class Hostile:
    def __reduce__(self) -> Any:
        return (int, ("no number",))


@pytest.mark.parametrize("cls", all_errors(), ids=id_of)
def test_errors_are_pickled_and_copied_whatever_they_are_about(cls: type[DmlError]) -> None:
    for value in (threading.Lock(), lambda: 1, Hostile(), (n for n in "ab"), [threading.Lock()], X):
        error = cls("Slice1", dml.Fault(field="Sizes", rule="Sizes must be a list", value=value, found="none"))
        error.add_note("a note")
        for way in ALL.values():
            made = way(error)
            assert (type(made), str(made), made.hresult) == (cls, str(error), error.hresult)
            assert made.__notes__ == ["a note"]
            assert np.array_equal(made.value, X) or value is not X

"""ONNX Runtime's interface: the same scripts, run with onnxruntime and with anydml.onnx, end the same."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
import tracemalloc
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from onnx_models import helper, model, node, onnx
from session_scripts import CPU, SCRIPTS, X, broken, network, opened, pickled_by_path, profiled, strings, typed

import anydml.onnxruntime as ort  # isort: skip - after the models, which leave this out where onnx is missing
from anydml.onnx.lower import tracer  # isort: skip - likewise

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]


def plain(value: Any) -> Any:
    """A result in terms that compare: arrays with their types, enums by name."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tolist()
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return getattr(value, "name", value)


def outcome(script: Callable[[Any], Any], module: Any) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return plain(script(module)), len(caught)
        except Exception as error:  # noqa: BLE001 - which one is what is compared
            return error, len(caught)


def in_folder(script: Callable[[Any, Path], Any], folder: Path) -> Callable[[Any], Any]:
    return lambda module: script(module, folder / module.__name__)


def same_error(ours: Any, theirs: Exception) -> bool:
    """ONNX Runtime's own by its name, Python's by being one; all of them say more than that."""
    name = type(theirs).__name__
    own = getattr(ort.capi.onnxruntime_pybind11_state, name, None)
    is_same = type(ours) is own if own is not None else isinstance(ours, type(theirs))
    return is_same and isinstance(ours, dml.DmlError) and len(str(ours)) > 15


@pytest.mark.long
def test_scripts_end_as_with_onnxruntime(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is what is compared with")
    runtime.set_default_logger_severity(4)
    scripts = {**SCRIPTS}
    for script in (profiled, pickled_by_path):
        for module in (runtime, ort):
            (tmp_path / script.__name__ / module.__name__).mkdir(parents=True)
        scripts[script.__name__] = in_folder(script, tmp_path / script.__name__)
    wrong = []
    for name, each in scripts.items():
        (theirs, told), (ours, warned) = outcome(each, runtime), outcome(each, ort)
        is_same = same_error(ours, theirs) if isinstance(theirs, Exception) else (ours, warned) == (theirs, told)
        if not is_same:
            wrong.append(f"{name}: {theirs!r} and {told} warnings; here {ours!r} and {warned}")
    assert not wrong, "\n".join(wrong)


def test_directmls_provider_says_what_it_runs_on() -> None:
    for session in (opened(ort, providers=["DmlExecutionProvider"]), opened(ort, providers=None)):
        assert session.get_providers() == ["DmlExecutionProvider", "CPUExecutionProvider"]
        assert session.get_provider_options()["DmlExecutionProvider"] == {
            "device_id": "0",
            "device": session.device.name,
        }
        # What it says may be given back.
        options = session.get_provider_options()
        session.set_providers(list(options), list(options.values()))
        assert session.get_provider_options() == options
    assert "DmlExecutionProvider" in ort.get_available_providers()
    assert ort.get_device().endswith("-DML")
    with pytest.warns(UserWarning, match="DmlExecutionProvider has no options 'device_no'"):
        opened(ort, providers=[("DmlExecutionProvider", {"device_no": 0})])
    with pytest.warns(UserWarning, match="device_id must be a number from 0 on; got 'a'; falling back to CPU"):
        opened(ort, providers=[("DmlExecutionProvider", {"device_id": "a"})])
    with pytest.raises(ort.InvalidArgument, match="device_id must be a number"):
        opened(ort, providers=[("DmlExecutionProvider", {"device_id": "a"})], enable_fallback=0)
    value = ort.OrtValue.ortvalue_from_numpy(X, "dml", 0)
    assert value.memory == opened(ort, providers=None).device.engine.memory


@pytest.mark.parametrize(
    ("script", "error", "message"),
    [
        (lambda: ort.InferenceSession("no.onnx"), ort.NoSuchFile, "no.onnx: the file cannot be read"),
        (lambda: opened(ort, b""), ort.InvalidProtobuf, "model: the file is empty"),
        (lambda: opened(ort, broken(lambda m: setattr(m.graph.node[0], "op_type", "No"))), ort.NotImplemented, "No"),
        (lambda: opened(ort, network(ir_version=99)), ort.NotImplemented, "ir_version 99 is not supported"),
        (lambda: opened(ort).run(None, {"x": X[0]}), ort.InvalidArgument, "input 'x' must have 2 dimensions, (n, 3)"),
        (lambda: opened(ort).run(None, {"x": X.astype("f8")}), ort.InvalidArgument, "input 'x': must be of float32"),
        (lambda: opened(ort).run(None, {"x": [["a"]]}), ort.InvalidArgument, "input 'x' could not be made an array"),
        (lambda: opened(ort).run(None, {}), ValueError, "input 'x' must be given; the model takes 'x'"),
        (lambda: opened(ort).run(None, [X]), TypeError, "input_feed must be a dict of names to arrays"),
        (lambda: opened(ort).run(None, {"x": None}), TypeError, "x must be an array, being tensor(float); got None"),
        (lambda: opened(ort).run_with_ort_values(None, {"x": X}), TypeError, "x must be an OrtValue"),
        (lambda: opened(ort, sess_options=5), TypeError, "sess_options must be a SessionOptions; got 5"),
        (lambda: opened(ort, sess_option=1), TypeError, "sess_option must be one of enable_fallback"),
        (
            lambda: setattr(ort.SessionOptions(), "enable_profilling", True),
            AttributeError,
            "did you mean enable_profiling",
        ),
        (
            lambda: setattr(ort.SessionOptions(), "intra_op_num_threads", -1),
            ort.InvalidArgument,
            "must be 0, for as many",
        ),
        (lambda: ort.SessionOptions().register_custom_ops_library("a.so"), ort.NotImplemented, "cannot run here"),
        (lambda: opened(ort).io_binding().bind_input("x", "cpu", 0, "f4", [2, 3], 0), RuntimeError, "no null pointer"),
        (lambda: opened(ort).io_binding().bind_input("x", "cpu", 0, "f4", [-2], 8), RuntimeError, "not negative"),
        (lambda: ort.OrtValue([]).numpy(), RuntimeError, "it must be a tensor; got a sequence"),
    ],
)
def test_errors_say_field_rule_and_way_out(script: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        script()
    assert isinstance(caught.value, dml.DmlError)
    assert message in str(caught.value)


ODD: list[Any] = [
    None,
    "a",
    "",
    -1,
    10**30,
    1.5,
    [],
    [None],
    {},
    {"x": None},
    {1: X},
    b"a",
    object(),
    np.ones(2, "M8[s]"),
    type,
]


def test_no_argument_leads_to_an_error_of_another_family(tmp_path: Path) -> None:
    """Every method with every odd value in every place, the others being right."""
    value, session = ort.OrtValue.ortvalue_from_numpy(X.copy()), opened(ort)
    options, binding = ort.SessionOptions(), session.io_binding()
    calls: list[tuple[Callable[..., Any], list[Any]]] = [
        (ort.InferenceSession, [network(), options, CPU, None]),
        (session.run, [["y"], {"x": X}, None]),
        (session.run_with_ort_values, [["y"], {"x": value}, None]),
        (session.set_providers, [CPU, [{}]]),
        (binding.bind_cpu_input, ["x", X]),
        (binding.bind_ortvalue_input, ["x", value]),
        (binding.bind_ortvalue_output, ["y", value]),
        (binding.bind_input, ["x", "cpu", 0, np.float32, [2, 3], X.ctypes.data]),
        (binding.bind_output, ["y", "cpu", 0, np.float32, [2, 3], value.data_ptr()]),
        (ort.OrtValue.ortvalue_from_numpy, [X, "cpu", 0, -1]),
        (ort.OrtValue.ortvalue_from_numpy_with_onnx_type, [X, 1]),
        (ort.OrtValue.ortvalue_from_shape_and_type, [[2, 3], np.float32, "cpu", 0]),
        (ort.OrtValue.from_dlpack, [X]),
        (value.update_inplace, [X]),
        (ort.OrtDevice.make, ["cpu", 0, -1]),
        (ort.copy_tensors, [[value], [value]]),
        (ort.SessionOptions().add_initializer, ["w", value]),
        (ort.SessionOptions().add_external_initializers, [["w"], [value]]),
        (ort.SessionOptions().add_free_dimension_override_by_name, ["n", 2]),
        (ort.SessionOptions().add_free_dimension_override_by_denotation, ["DATA_BATCH", 2]),
        (ort.SessionOptions().add_session_config_entry, ["a", "b"]),
        (ort.SessionOptions().get_session_config_entry, ["a"]),
        (ort.SessionOptions().add_provider, ["CPUExecutionProvider", {}]),
        (ort.set_default_logger_severity, [3]),
        *(
            (functools.partial(setattr, ort.SessionOptions(), name), [value])
            for name, value in options.fields().items()
        ),
        *(
            (functools.partial(setattr, ort.RunOptions(), name), [value])
            for name, value in ort.RunOptions.fields().items()
        ),
    ]
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names of providers that are not here
        for call, right in calls:
            for place in range(len(right)):
                for odd in ODD:
                    if place == 5 and isinstance(odd, int):
                        continue  # an address is the caller's word
                    try:
                        call(*right[:place], odd, *right[place + 1 :])
                    except dml.DmlError:
                        continue
                    except Exception as error:  # noqa: BLE001 - which one is told
                        wrong.append(f"{call} with {odd!r} for argument {place}: {error!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
def test_a_program_that_imports_onnxruntime_runs_as_it_is(tmp_path: Path) -> None:
    """The real one is still found by what compares with it."""
    pytest.importorskip("onnxruntime", reason="comparing needs ONNX Runtime")
    onnx.save_model(onnx.load_model_from_string(network()), tmp_path / "model.onnx")
    (tmp_path / "program.py").write_text(
        "import importlib.util, sys\n"
        "import numpy as np\n"
        "import onnxruntime as rt\n"
        "from onnxruntime import InferenceSession, SessionOptions\n"
        "from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument\n"
        "import onnxruntime.capi._pybind_state as C\n"
        "assert C.InvalidArgument is InvalidArgument and importlib.util.find_spec('onnxruntime')\n"
        "session = rt.InferenceSession(sys.argv[1], SessionOptions())\n"
        "name = session.get_inputs()[0].name\n"
        "print(session.run(None, {name: np.ones((1, 3), np.float32)})[0].tolist())\n"
        "try:\n"
        "    session.run(None, {name: np.ones(3, np.float32)})\n"
        "except InvalidArgument as error:\n"
        "    print(error)\n"
        "import anydml.onnx, onnxruntime.datasets\n"
        "real = anydml.onnx.library.load_onnxruntime()\n"
        "assert real is not rt and real.InferenceSession is not rt.InferenceSession is InferenceSession\n"
        "assert sys.modules['onnxruntime'] is rt and rt.datasets.__name__ == 'onnxruntime.datasets'\n"
        "compared = anydml.onnx.compare(sys.argv[1], {name: np.ones((1, 3), np.float32)})\n"
        "print(rt.__name__, tuple(map(int, rt.__version__.split('.')[:2])) > (1, 15))\n"
    )
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "anydml.onnxruntime",
        str(tmp_path / "program.py"),
        str(tmp_path / "model.onnx"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    lines = done.stdout.splitlines()
    assert lines[0] == "[[2.0, -1.0, 4.0]]", done.stderr
    assert lines[1].endswith("model.onnx: input 'x' must have 2 dimensions, (n, 3); got (3,)")
    assert lines[2] == "onnxruntime True"


@pytest.mark.parametrize("name", ["InferenceSession", "SessionOptions", "get_device", "capi"])
def test_names_of_onnx_runtime_are_found_where_they_lay(name: str) -> None:
    with pytest.warns(FutureWarning, match=f"anydml.onnx.{name} is anydml.onnxruntime.{name} now"):
        assert getattr(dml.onnx, name) is getattr(ort, name)
    assert dml.onnx.__version__ == ort.__version__, "which pydoc asks for: without a warning"


def test_modules_are_found_where_they_lay() -> None:
    code = (
        "import warnings; warnings.simplefilter('always')\n"
        "with warnings.catch_warnings(record=True) as found:\n"
        "    from anydml.onnx.session import InferenceSession\n"
        "    from anydml.onnx.capi.onnxruntime_pybind11_state import InvalidArgument\n"
        "import anydml.onnxruntime as ort\n"
        "assert InferenceSession is ort.InferenceSession and InvalidArgument is ort.InvalidArgument\n"
        "print([str(one.message) for one in found if one.category is FutureWarning])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    told = ["anydml.onnx.session is anydml.onnxruntime now", "anydml.onnx.capi is anydml.onnxruntime.capi now"]
    assert done.stdout == f"{told}\n", done.stderr


def test_an_initializer_must_be_of_the_models_type_and_shape() -> None:
    """ONNX Runtime reads past the end, or reads doubles as floats."""
    for array in (np.ones(1, "f4"), np.ones(3, "f8")):
        options = ort.SessionOptions()
        options.add_external_initializers(["w"], [ort.OrtValue.ortvalue_from_numpy(array)])
        with pytest.raises(ort.InvalidArgument, match="initializer 'w' must be of float32 and shape"):
            opened(ort, sess_options=options)


def test_options_of_another_library_are_told_from_ours() -> None:
    theirs = type("SessionOptions", (), {"__module__": "onnxruntime.capi"})()
    with pytest.raises(ort.InvalidArgument, match=r"a SessionOptions; got onnxruntime's; use anydml\.onnx\.Session"):
        opened(ort, sess_options=theirs)
    level = type("GraphOptimizationLevel", (), {"__module__": "onnxruntime.capi"})()
    with pytest.raises(ort.InvalidArgument, match=r"got onnxruntime's; use anydml\.onnx\.GraphOptimizationLevel"):
        ort.SessionOptions().graph_optimization_level = level


def test_nothing_is_rewritten_where_options_ask() -> None:
    passes, found = [], []
    for level in (ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_BASIC):
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        session = opened(ort, sess_options=options)
        found.append(session.run(["z"], {"x": X})[0])
        passes.append(len(session._model.explain().after))
    assert passes == [2, 1]
    np.testing.assert_array_equal(*found)


def test_nodes_on_the_host_are_refused_where_options_ask() -> None:
    assert opened(ort, strings()).run(None, {"x": ["a"]})[0].tolist() == ["a"]
    options = ort.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    with pytest.raises(ort.NotImplemented, match="DirectML has no STRING"):
        opened(ort, strings(), sess_options=options)


def test_threads_are_a_sessions_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    plain_run = dml.onnx.Model.run

    def watched(self: Any, *args: Any, **options: Any) -> Any:
        seen.append(dml.get_num_threads())
        return plain_run(self, *args, **options)

    monkeypatch.setattr(dml.onnx.Model, "run", watched)
    before = dml.get_num_threads()
    options = ort.SessionOptions()
    options.intra_op_num_threads = before + 1
    session = opened(ort, sess_options=options)
    workers = [threading.Thread(target=session.run, args=(None, {"x": X})) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert seen == [before + 1] * 8
    assert dml.get_num_threads() == before


def test_outputs_are_bound_to_memory_that_may_be_written() -> None:
    fixed = X.copy()
    fixed.flags.writeable = False
    with pytest.raises(ort.InvalidArgument, match="output 'y' must be bound to memory that may be written"):
        opened(ort).io_binding().bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(fixed))


def test_what_is_read_and_written_at_once_is_read_first() -> None:
    """As a cache that grows in place; pointers of PyTorch's as detectors bind them."""
    for rows in (2, 10_000):  # copied into, and written by the run itself
        session, cache = opened(ort), np.ones((rows, 3), np.float32)
        expected = session.run(None, {"x": cache})
        binding, beside = session.io_binding(), np.zeros_like(cache)
        binding.bind_cpu_input("x", cache)
        binding.bind_output("y", "cpu", 0, np.float32, cache.shape, cache.ctypes.data)
        binding.bind_output("z", "cpu", 0, np.float32, cache.shape, beside.ctypes.data)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal([cache, beside], expected)


ROOM, WIDTH = 2048, 16


def _decoder(kind: str) -> Any:
    """A step of a decoder with a cache that has room: by GroupQueryAttention, or by a scatter."""
    cache = ("float32", [1, 2, ROOM, WIDTH])
    if kind == "scatter":
        nodes: Any = node("ScatterND", "past_key at new", "present_key")
        inputs = {"past_key": cache, "at": ("int64", [1, 2, 3]), "new": ("float32", [1, 2, WIDTH])}
        return model(nodes, inputs, "present_key", dtypes={"present_key": "float32"})
    names = ["q", "k", "v", "past_key", "past_value", "last", "total"]
    options = {"num_heads": 2, "kv_num_heads": 2, "domain": "com.microsoft"}
    nodes = helper.make_node("GroupQueryAttention", names, ["y", "present_key", "present_value"], **options)
    row = ("float32", [1, 1, 2 * WIDTH])
    inputs = {"q": row, "k": row, "v": row, "past_key": cache, "past_value": cache, "last": ("int32", [1])}
    made = model(nodes, inputs, "y present_key present_value", {"total": np.array([ROOM], np.int32)},
                 dtypes=dict.fromkeys(("y", "present_key", "present_value"), "float32"))  # fmt: skip
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return made


@pytest.mark.parametrize("kind", ["scatter", "attention"])
def test_a_cache_that_is_past_and_present_is_written_in_place(kind: str) -> None:
    """A step of one layer took ten times as long while its caches were computed apart, and copied."""
    session, rng = opened(ort, _decoder(kind)), np.random.default_rng(3)
    names = ("key",) if kind == "scatter" else ("key", "value")
    apart = {f"past_{name}": np.zeros((1, 2, ROOM, WIDTH), np.float32) for name in names}
    shared = {name: ort.OrtValue.ortvalue_from_numpy(apart[f"past_{name}"]) for name in names}
    binding = session.io_binding()
    for name, cache in shared.items():
        binding.bind_ortvalue_input(f"past_{name}", cache)
        binding.bind_ortvalue_output(f"present_{name}", cache)
    for step in range(4):
        if kind == "scatter":
            given: dict[str, Any] = {"at": np.array([[[0, 0, step], [0, 1, step]]])}
            given["new"] = rng.standard_normal((1, 2, WIDTH), np.float32)
        else:
            given = {name: rng.standard_normal((1, 1, 2 * WIDTH), np.float32) for name in "qkv"}
            given["last"] = np.array([step], np.int32)
            binding.bind_output("y", "cpu")
        outputs = [output.name for output in session.get_outputs()]
        wanted = dict(zip(outputs, session.run(None, given | apart), strict=True))
        apart = {f"past_{name}": wanted[f"present_{name}"] for name in names}
        for name, array in given.items():
            binding.bind_cpu_input(name, array)
        tracemalloc.start()
        session.run_with_iobinding(binding)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 4 * 2 * ROOM * WIDTH or step == 0  # no room for another cache
        for name, cache in shared.items():
            np.testing.assert_array_equal(cache.numpy(), wanted[f"present_{name}"])
        if kind != "scatter":
            np.testing.assert_array_equal(binding.get_outputs()[-1].numpy(), wanted["y"])


def test_the_model_is_written_where_options_ask(tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "bound.onnx")
    options.add_free_dimension_override_by_name("n", 2)
    first = opened(ort, sess_options=options)
    again = ort.InferenceSession(tmp_path / "bound.onnx", providers=CPU)
    assert again.get_inputs()[0].shape == [2, 3]
    np.testing.assert_array_equal(first.run(["z"], {"x": X}), again.run(["z"], {"x": X}))
    options.optimized_model_filepath = str(tmp_path / "no" / "bound.onnx")
    with pytest.raises(ort.InvalidArgument, match="optimized_model_filepath could not be written"):
        opened(ort, sess_options=options)


def test_a_seed_is_for_all_that_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracer, "_draw", os.urandom)  # and again at the end
    graph = model(node("RandomUniformLike", "x", "y"), {"x": ("float32", [2, 3])}).SerializeToString()
    found = []
    for seed in (1, 1, 2):
        ort.set_seed(seed)
        found.append(opened(ort, graph).run(None, {"x": X})[0].tolist())
    assert found[0] == found[1] != found[2]


def test_arrays_of_other_libraries_are_taken_and_numpys_given() -> None:
    class Shown:
        def __dlpack__(self, **options: Any) -> Any:
            return X.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return X.__dlpack_device__()

    expected = opened(ort).run(None, {"x": X})
    for given in (Shown(), X.astype(">f4"), X.tolist(), tuple(X.tolist())):
        for ours, theirs in zip(opened(ort).run(None, {"x": given}), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs, strict=True)
    assert type(opened(ort, typed("float32", [])).run(None, {"x": 2.5})[0]) is np.ndarray
    assert type(opened(ort).run(None, {"x": ort.OrtValue.from_dlpack(Shown())})[0]) is np.ndarray

"""ONNX Runtime's interface: the same scripts, run with onnxruntime and with anydml.onnx, end the same."""

from __future__ import annotations

import functools
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from onnx_models import onnx
from session_scripts import CPU, SCRIPTS, X, broken, network, opened, pickled_by_path, profiled

if TYPE_CHECKING:
    from collections.abc import Callable

import anydml.onnxruntime as ort

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

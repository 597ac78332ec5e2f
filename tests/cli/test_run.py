"""`anydml run`: DxDispatch's lines and options, and exit statuses that scripts can rely on."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from modelling import DISPATCH, EXAMPLES, changed, floats, lines, model, program, run, write

if TYPE_CHECKING:
    from pathlib import Path

TIME = r"\d+\.\d{4} ms"
STATISTICS = rf"{TIME} average, {TIME} min, {TIME} median, {TIME} max"


def matches(found: list[str], *patterns: str) -> None:
    assert len(found) == len(patterns), found
    for line, pattern in zip(found, patterns, strict=True):
        assert re.fullmatch(pattern, line), (line, pattern)


def test_dxdispatchs_lines() -> None:
    matches(
        run(EXAMPLES / "slice.json").stdout.splitlines(),
        r"Running on 'reference \(\w+\)'",
        rf"Dispatch 'slice': 1 iterations, {TIME} median \(CPU\)",
        "Resource 'output': 7, 8, 11, 12, 15, 16",
        rf"Dispatch 'strided_slice': 1 iterations, {TIME} median \(CPU\)",
        "Resource 'strided_output': 5, 8, 13, 16",
    )


def test_a_slice_like_dxdispatchs_own(tmp_path: Path) -> None:
    """The shape of the model that comes with DxDispatch: five by five, every second column of three rows."""
    data = model(
        resources={
            "input": floats(*range(1, 26)),
            "output": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 6, "value": 0}},
        },
        dispatchables={
            "slice": {
                "type": "DML_OPERATOR_SLICE",
                "desc": {
                    "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 5, 5]},
                    "OutputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 3, 2]},
                    "DimensionCount": 4,
                    "Offsets": [0, 0, 1, 1],
                    "Sizes": [1, 1, 3, 2],
                    "Strides": [1, 1, 1, 2],
                },
            }
        },
        commands=[
            {**DISPATCH, "dispatchable": "slice", "bindings": {"InputTensor": "input", "OutputTensor": "output"}},
            {"type": "print", "resource": "output"},
        ],
    )  # fmt: skip
    data["$schema"] = "./_schema.json"
    result = run(write(tmp_path, data))
    assert result.stdout.splitlines()[-1] == "Resource 'output': 7, 9, 12, 14, 17, 19"


def test_a_product_like_dxdispatchs_own(tmp_path: Path) -> None:
    data = changed(model(resources={"in": floats(2, 4, 8, 3), "out": floats(0, 0, 0, 0)}), "dispatchables.sum.type",
                   "DML_OPERATOR_CUMULATIVE_PRODUCT")  # fmt: skip
    data = changed(data, "dispatchables.sum.desc.HasExclusiveProduct", False)
    assert run(write(tmp_path, data)).stdout.splitlines()[-1] == "Resource 'out': 2, 8, 64, 192"


@pytest.mark.parametrize(
    ("data_type", "values", "text"),
    [
        (
            "FLOAT32",
            [1, 0.1, 1e10, 16777217, "nan", "inf", "-inf", -0.5],
            "1, 0.1, 1e+10, 1.67772e+07, nan, inf, -inf, -0.5",
        ),
        ("FLOAT64", [1 / 3, 1e300], "0.333333, 1e+300"),
        ("FLOAT16", [65504, 0.1], "65504, 0.0999756"),
        ("INT8", [-128, 65], "-128, 65"),
        ("UINT64", [2**64 - 1], "18446744073709551615"),
    ],
)
def test_values_are_printed_as_dxdispatch_prints_them(tmp_path: Path, data_type: str, values: Any, text: str) -> None:
    resource = {"initialValuesDataType": data_type, "initialValues": values}
    data = {"resources": {"r": resource}, "dispatchables": {}, "commands": [{"type": "PRINT", "resource": "r"}]}
    assert run(write(tmp_path, data)).stdout.splitlines()[1:] == [f"Resource 'r': {text}"]


def test_verbose_printing_shows_the_bits(tmp_path: Path) -> None:
    values = {"valueCount": 11, "valueStart": 0, "valueDelta": 1}
    resource = {"initialValuesDataType": "FLOAT16", "initialValues": values}
    data = {"resources": {"r": resource}, "dispatchables": {},
            "commands": [{"type": "print", "resource": "r", "verbose": True}]}  # fmt: skip
    found = run(write(tmp_path, data)).stdout.splitlines()[1:]
    assert found[:3] == ["Resource 'r':", "[ 0] 0 (0x0000)", "[ 1] 1 (0x3C00)"]
    assert found[-1] == "[10] 10 (0x4900)"


def test_values_of_several_types_are_printed_each_as_its_own(tmp_path: Path) -> None:
    values = [{"type": "UINT32", "value": 6}, {"type": "FLOAT32", "value": 2.5}, {"type": "INT8", "value": -1}]
    for verbose, text in ((False, ["Resource 'r': 6, 2.5, -1"]), (True, ["Resource 'r':", "[0] 6 (0x00000006)",
            "[1] 2.5 (0x40200000)", "[2] -1 (0xFF)"])):  # fmt: skip
        data = {"resources": {"r": {"initialValues": values}}, "dispatchables": {},
                "commands": [{"type": "print", "resource": "r", "verbose": verbose}]}  # fmt: skip
        assert run(write(tmp_path, data)).stdout.splitlines()[1:] == text


def test_a_long_resource_is_printed_whole(tmp_path: Path) -> None:
    values = {"valueCount": 40_000, "valueStart": 0, "valueDelta": 1}
    resource = {"initialValuesDataType": "UINT32", "initialValues": values}
    data = {"resources": {"r": resource}, "dispatchables": {}, "commands": [{"type": "print", "resource": "r"}]}
    found = run(write(tmp_path, data)).stdout.splitlines()[1]
    assert found == "Resource 'r': " + ", ".join(map(str, range(40_000)))


def test_verbosity() -> None:
    path = EXAMPLES / "owned_gather.json"
    one = run(path, "-v", 1, "-i", 3).stdout.splitlines()
    matches(
        one[1:5],
        rf"Initialize 'look_up': {TIME}",
        "Dispatch 'look_up': 3 iterations",
        rf"CPU Timings \(Cold\) : 1 samples, {STATISTICS}",
        rf"CPU Timings \(Hot\)  : 2 samples, {STATISTICS}",
    )
    two = run(path, "-v", "2", "-i", 2, "-w", "0", "-r", "5").stdout.splitlines()
    matches(
        two[2:7],
        "Dispatch 'look_up': 2 iterations",
        rf"CPU Timings \(Hot\)  : 2 samples, {STATISTICS}",
        "The timings of each iteration:",
        rf"iteration 0: {TIME} \(CPU\)",
        rf"iteration 1: {TIME} \(CPU\)",
    )


@pytest.mark.parametrize(
    "options",
    [
        ["--dispatch_iterations", "2", "--dispatch_repeat", "2", "--warmup_samples", "100"],
        ["-t", "0"],
        ["--milliseconds_to_run", "20", "--dispatch_interval", "5", "-w", "4294967295"],
        ["--dml_feature_level", "6.2"],
        ["--feature-level", "DML_FEATURE_LEVEL_2_1"],
        ["--timing_verbosity", "2"],
    ],
)
def test_options_of_dxdispatch_and_no_time_is_nan(options: list[str]) -> None:
    result = run(EXAMPLES / "slice1.json", *options)
    assert result.exit_code == 0
    assert "nan" not in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize(
    "options",
    [["-i", "0"], ["-r", "0"], ["-i", "x"], ["-v", "3"], ["--engine", "tpu"], ["--threads", "0"],
     ["--max-memory", "lots"], ["--allow-files", "/no/such"], ["--dml_feature_level", "9"], ["--nothing"]],
)  # fmt: skip
def test_options_that_cannot_be(options: list[str]) -> None:
    assert program("run", EXAMPLES / "slice.json", *options).exit_code == 2


@pytest.mark.parametrize("size", ["65536", "64K", "1m", "1MiB", "2GB", "1T"])
def test_sizes(size: str) -> None:
    assert run(EXAMPLES / "slice.json", "--max-memory", size).exit_code == 0


def test_engines_and_threads() -> None:
    threads = dml.get_num_threads()
    try:
        result = program("run", EXAMPLES / "slice.json", "--engine", "cpu", "--threads", "3")
        assert re.match(r"Running on 'cpu \(\w+, 3 (threads of a native team|of Python's threads)\)'", result.stdout)
    finally:
        dml.set_num_threads(threads)


def test_exit_statuses(tmp_path: Path, unbuilt: str) -> None:
    assert run(write(tmp_path, model())).exit_code == 0
    assert run(write(tmp_path, changed(model(), "dispatchables.sum.desc.Axis", 4))).exit_code == 1
    assert run(write(tmp_path, "{")).exit_code == 2
    assert run(tmp_path / "none.json").exit_code == 2
    assert run(tmp_path).exit_code == 2
    assert run(write(tmp_path, changed(model(), "dispatchables.sum.type", unbuilt))).exit_code == 3
    assert run(tmp_path / "net.onnx").exit_code == (3 if importlib.util.find_spec("onnx") is None else 2)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    assert lines(run(path), path) == [
        "Error: none.json: the file cannot be read (no such file or directory); got 'none.json'"
    ]


def test_names_from_strangers_do_not_reach_the_terminal(tmp_path: Path) -> None:
    name = "\x1b[31m[red]\n\u202e"
    data = {"resources": {name: floats(1)}, "dispatchables": {}, "commands": [{"type": "print", "resource": name}]}
    result = run(write(tmp_path, data))
    assert result.stdout.splitlines()[1] == r"Resource '\x1b[31m[red]\n\u202e': 1"
    result = run(write(tmp_path, changed(data, "commands.0.resource", name + "x")))
    assert result.stderr.endswith(
        r"there is no resource '\x1b[31m[red]\n\u202ex'; did you mean \x1b[31m[red]\n\u202e?" + "\n"
    )
    assert "\x1b" not in result.output


def test_the_help_has_an_example() -> None:
    for command in ("run", "check"):
        text = program(command, "--help").stdout
        assert "Example" in text
        line, *_ = [line.strip() for line in text.splitlines() if line.strip().startswith("anydml ")]
        arguments = line.replace("examples/models", str(EXAMPLES)).split()[1:]
        has_onnx = importlib.util.find_spec("onnx") is not None
        assert program(*arguments).exit_code in ((0, 1) if has_onnx else (0, 1, 3))  # 3: a model needs onnx


def test_as_a_process_output_is_plain_and_errors_are_apart(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "anydml",
        "run",
        str(EXAMPLES / "slice.json"),
        "--engine",
        "reference",
    ]
    done = subprocess.run([*command, "-t", "300"], capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    bad = write(tmp_path, model(commands=[DISPATCH, 5]))
    done = subprocess.run([*command[:-3], str(bad)], capture_output=True, text=True, check=False)  # noqa: S603 - as above
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: {bad}:")
    assert "Traceback" not in done.stderr


def test_numbers_written_are_those_printed(tmp_path: Path) -> None:
    command = {"type": "writeFile", "resource": "out", "targetPath": "x.npy"}
    result = run(write(tmp_path, model(commands=[DISPATCH, command, {"type": "print", "resource": "out"}])))
    assert result.stdout.splitlines()[-2:] == ["Resource 'out': 1, 3, 6, 10", "Resource 'out' written to 'x.npy'"]
    assert np.load(tmp_path / "x.npy").tolist() == [1, 3, 6, 10]


@pytest.mark.parametrize(
    ("options", "status", "told"),
    [
        ("--queue_type compute", 0, "--queue_type is Direct3D's, and has no effect here"),
        ("--enable_dred", 0, "--enable_dred is Direct3D's, and has no effect here"),
        ("-l 99 -L 2", 0, "--onnx_logging_level is ONNX Runtime's, and has no effect here"),
        ("-c gpu", 2, "--pix_capture_type is not supported: PIX captures the work of Direct3D"),
        ("-F DATA_BATCH:8", 2, "open sizes are bound by their names, with -f, and not by their denotation"),
        ("-p", 2, "--print_onnx_bindings is not for a DxDispatch model"),
        ("-m other.json", 2, "a model is given twice"),
    ],
)
def test_options_that_mean_nothing_here(options: str, status: int, told: str) -> None:
    found = run(EXAMPLES / "slice.json", *options.split())
    assert (found.exit_code, told in " ".join(found.stderr.split())) == (status, True), found.stderr


def test_a_model_by_an_option() -> None:
    assert program("run", "--engine", "reference", "-m", EXAMPLES / "slice.json").exit_code == 0
    assert "Missing argument 'MODEL'" in program("run").stderr


def test_json(tmp_path: Path) -> None:
    nan = changed(model(), "resources.in.initialValues", [1, "nan", 3, "-inf"])
    data = json.loads(run(write(tmp_path, nan), "--json", "--engine", "reference").stdout)
    assert data["device"]["name"] == "reference"
    assert data["resources"] == {"out": [1, "nan", "nan", "nan"]}
    (dispatch,) = data["dispatches"]
    assert dispatch["name"] == "sum"
    assert dispatch["iterations"] == 1
    assert data["written"] == []
    bad = run(write(tmp_path, changed(model(), "dispatchables.sum.desc.Axis", 4)), "--json")
    assert (bad.exit_code, bad.stdout) == (1, "")
    assert run(write(tmp_path, model()), "--json", "--profile").exit_code == 2


def test_the_output_path_is_made(tmp_path: Path) -> None:
    commands = [{"type": "writeFile", "resource": "in", "targetPath": "x.npy"}]
    path, target = write(tmp_path, model(commands=commands)), tmp_path / "a" / "b"
    data = json.loads(run(path, "--output_path", target, "--json").stdout)
    assert data["written"] == [{"resource": "in", "path": str(target / "x.npy")}]
    assert np.load(target / "x.npy").tolist() == [1, 2, 3, 4]


def test_an_onnx_model_as_json(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="ONNX is not installed: make test EXTRAS=onnx")
    target = tmp_path / "a" / "b"
    result = run(EXAMPLES / "crop.onnx", "--json", "--output_path", target, "--engine", "reference")
    data = json.loads(result.stdout)
    (output,) = data["outputs"].values()
    assert np.load(target / "y.npy").shape == tuple(output["shape"])
    assert data["written"] == [{"output": "y", "path": str(target / "y.npy")}]
    assert len(output["first"]) == 8

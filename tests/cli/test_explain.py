"""`anydml explain`: its options, what it prints, and its exit statuses."""

from __future__ import annotations

import os
import re
import shlex
import textwrap
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

import anydml as dml
from anydml.cli.app import app
from anydml.cli.options import options_of
from anydml.explain import explain
from tests.explain.test_explain import TEXTS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.sampled(6)

SLICE1 = "slice1 --sizes 1,1,4,4 --offsets 0,0,0,1 --window 1,1,4,3 --strides 1,1,-2,2"
FULL = (
    "DML_OPERATOR_SLICE1 --input-tensor-sizes {1,1,4,4} --input-window-offsets {0,0,0,1}"
    " --input-window-sizes '[1, 1, 4, 3]' --input-window-strides=1,1,-2,2"
)


def run(line: str, *more: str) -> Result:
    return CliRunner().invoke(app, ["explain", *shlex.split(line), *more], prog_name="anydml")


def printed(line: str, *more: str) -> str:
    result = run(line, *more)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_of_the_documents_example() -> None:
    note = "    No data was given: the values number the elements."
    expected = textwrap.dedent(TEXTS["SLICE1 example 2"]).strip("\n")
    assert printed(SLICE1) == f"{expected}\n\n{note}\n"


@pytest.mark.parametrize(
    "line",
    [
        "SLICE1 --input-sizes 1,1,4,4 --offsets 0,0,0,1 --window 1,1,4,3 --strides 1,1,-2,2",
        FULL,
        SLICE1 + " --type float32 --output-sizes 1,1,2,2 --feature-level 2_1",
    ],
)
def test_the_fields_have_their_full_names_too(line: str) -> None:
    assert printed(line) == printed(SLICE1)


@pytest.mark.parametrize("cls", dml.OPERATORS.values(), ids=lambda cls: cls.type.name)
def test_every_operator_has_help_with_an_example_that_runs(cls: type[dml.OperatorDesc]) -> None:
    text = printed(f"{cls.type.name.lower()} --help")
    assert not re.search(r"[^s]' ", text), "one thing owns with 's"
    example = text.split("Example:\n")[1].splitlines()[0].strip()
    assert all(word.startswith('"') for word in example.split() if "[" in word)  # a pattern of file names, unquoted
    assert example.startswith("anydml explain ")
    assert cls.type.name in printed(example.removeprefix("anydml explain "))
    names = {name for option in options_of(cls) for name in option.opts}
    for field, kind in cls.field_types().items():
        full = f"--{field.rstrip('_').replace('_', '-')}"
        assert full in names or kind.kind in ("input", "output")
        assert kind.kind == "attribute" or kind.kind == "extension" or f"{full}-sizes" in names


def test_a_sum_says_direction_and_terms() -> None:
    line = "cumulative_summation --data [[2,1,3,5],[3,8,7,3]] --axis 1 --direction decreasing --exclusive"
    text = printed(line)
    assert "HasExclusiveSum TRUE" in text
    assert "output[0,0] = 5 + 3 + 1 = 9" in text
    assert "←──" in text
    same = "cumulative_summation --data 2,1,3,5,3,8,7,3 --sizes 2,4 --axis 1 --has-exclusive-sum --axis-direction"
    assert printed(same, "DML_AXIS_DIRECTION_DECREASING") == text


def test_gathers_take_indices_batches_and_modes() -> None:
    text = printed("gather_nd1 --sizes 3,2,2 --indices [[[0,0]],[[1,-1]],[[0,1]]] --batch 1")
    assert "IndicesTensor {3,1,2} INT64" in text
    assert "indices[1,0] = (1, -1) counts from the end: (1, 1), and picks element input[1,1,1] = 8" in text
    assert "is outside dimension 0 of size 2: nothing is written" in printed("gather_nd --sizes 2,2 --indices [[2]]")
    assert "is clamped to (1)" in printed("gather_nd --sizes 2,2 --indices [[2]] --index-mode clamp")
    # Tensors of different ranks are described with as many dimensions as the largest.
    assert "OutputTensor {1,1,1,2,3} FLOAT32" in printed("gather_nd --sizes 4,2,3 --indices [[[[1]]]]")
    assert "IndicesTensor {1,7,1} UINT32" in printed("gather_nd --sizes 4,2,3 --indices-sizes 7,1")


def test_data_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    x = np.arange(24, dtype="int16").reshape(2, 3, 4) * -1
    np.save(path, x)
    text = printed(f"slice --data {path} --offsets 1,0,2 --window 1,2,2")
    assert "InputTensor {2,3,4} INT16" in text
    assert "output[0,0,0] = input[1, 0 + 1*0, 2 + 1*0] = input[1,0,2] = -14" in text
    np.save(path, np.asfortranarray(x))
    assert printed(f"slice --data {path} --offsets 1,0,2 --window 1,2,2") == text
    np.save(tmp_path / "i.npy", np.array([[1], [0]], "int32"))
    assert "IndicesTensor {2,1} INT32" in printed(f"gather_nd --sizes 2,2 --indices {tmp_path / 'i.npy'}")


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("slice1 --sizes 4,4 --offsets 2,2 --window 3,1", 1, "SLICE1: InputWindowOffsets[0] + InputWindowSizes[0]"),
        ("slice1 --sizes 4,4 --offsets 0,0 --window 4,4 --strides 0,0", 1, "SLICE1: 2 rules are broken"),
        ("slice1 --sizes 0,4 --offsets 0,0 --window 1,1", 1, "SLICE1: InputTensor.Sizes[0] must be at least 1"),
        ("slice1 --sizes 99999,99999 --offsets 0,0 --window 1,1", 1, "at most 2^32 - 1"),
        ("slice1 --sizes 4 --offsets 0 --window 4 --output-sizes 5", 1, "OutputTensor.Sizes[0] must lie in 1 .. 4"),
        ("slice1 --sizes 4,4 --offsets 0,0 --window 4,4 --feature-level 2_1", 1, "needs DML_FEATURE_LEVEL_3_0"),
        ("cumulative_product --sizes 4 --axis 1", 1, "CUMULATIVE_PRODUCT: Axis must be below"),
        ("cumulative_product --sizes 4 --axis 0 --type uint8", 1, "InputTensor must be of"),
        ("gather_nd --sizes 2,2 --indices 1.5", 2, "values that uint32 does not hold"),
        ("gather_nd --sizes 2,2", 2, "give --indices-sizes or --indices"),
        ("slice1 --offsets 0 --window 1", 2, "give --sizes or --data"),
        ("slice1 --sizes 4", 2, "Missing option"),
        ("slice1 --sizes 4,a --offsets 0 --window 1", 2, "no list of whole numbers"),
        ("slice1 --sizes 4 --data 1,2 --offsets 0 --window 1", 2, "--data has 2 values, and sizes (4,) need 4"),
        ("slice1 --data 1,x --offsets 0 --window 1", 2, "neither a list of numbers nor a .npy file"),
        ("slice1 --data [[1],[2,3]] --offsets 0 --window 1", 2, "neither a list of numbers"),
        ('slice1 --data ["a"] --offsets 0 --window 1', 2, "neither a list of numbers"),
        ("slice1 --data [true] --offsets 0 --window 1", 2, "must be numbers alone"),
        ("slice1 --data 99999999999999999999999 --offsets 0 --window 1", 2, "must be numbers alone"),
        ("slice1 --data 300 --type uint8 --offsets 0 --window 1", 2, "values that uint8 does not hold"),
        ("slice1 --data NaN --type int8 --offsets 0 --window 1", 2, "values that int8 does not hold"),
        ("slice1 --data missing.npy --offsets 0 --window 1", 2, "No such file"),
        ("slice1 --sizes 4 --type complex --offsets 0 --window 1", 2, "must be one of FLOAT32"),
        ("slice1 --sizes 4 --offsets 0 --window 1 --colour", 2, "No such option"),
        ("slice1 --sizes 4 --offsets 0 --window 1 --feature-level 9_9", 2, "9_9"),
        ("cumulative_product --sizes 4 --axis 0 --direction sideways", 2, "AxisDirection must be one of"),
        ("cumulative_product --sizes 4 --axis up", 2, "Axis must be a whole number"),
        ("cumulative_product --sizes 4 --axis 0 --exclusive=maybe", 2, "'maybe' is neither true nor false"),
        ("slices", 2, "must be the name or the number of a DirectML operator"),
        ("adam_optimizer", 3, "ADAM_OPTIMIZER: the operator is not built yet"),
    ],
)
@pytest.mark.usefixtures("unbuilt")
def test_what_is_wrong_is_said_with_its_status(line: str, status: int, message: str) -> None:
    result = run(line)
    assert (result.exit_code, result.stdout) == (status, "")
    assert message in " ".join(result.stderr.split())


def options(cls: type[dml.OperatorDesc]) -> dict[str, str]:
    """The names of an operator's options, and what each stands for."""
    return {name: str(option.name) for option in options_of(cls) for name in option.opts}


@pytest.mark.parametrize("cls", dml.OPERATORS.values(), ids=lambda cls: cls.type.name)
def test_an_option_is_its_own_fields_and_no_other_word_for_it(cls: type[dml.OperatorDesc]) -> None:
    names = options(cls)
    for name, kind in cls.field_types().items():
        full = f"--{name.rstrip('_').replace('_', '-')}"
        if kind.kind not in ("input", "output"):
            assert names[full] == name or full in ("--sizes", "--type")
        else:  # `--input` is no count of dimensions, and `--output` no number of samples
            assert names.get(f"--{name.removesuffix('_tensor')}", f"{name}_data") == f"{name}_data"


def test_a_short_name_says_one_field() -> None:
    assert "--padding" not in options(dml.MaxPooling)
    assert "--offsets" not in options(dml.Resample1)
    assert "--reset" not in options(dml.Gru)
    assert options(dml.MultiheadAttention)["--mask-type"] == "mask_type"
    assert options(dml.Slice)["--sizes"] == "input_tensor_sizes"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--exclusive", True),
        ("--exclusive true", True),
        ("--exclusive=YES", True),
        ("--exclusive 1", True),
        ("--exclusive False", False),
        ("--has-exclusive-sum no", False),
        ("--exclusive 0", False),
    ],
)
def test_truth_has_many_spellings(words: str, expected: bool) -> None:
    text = printed(f"cumulative_summation --data 1,2 {words} --axis 0")
    assert f"HasExclusiveSum {str(expected).upper()}" in text


def test_flags_of_either_default_and_of_matrices_take_truth() -> None:
    line = "mean_variance_normalization --sizes 1,1,2,2"
    assert "NormalizeVariance FALSE" in printed(f"{line} --normalize-variance off")
    assert "NormalizeVariance TRUE" in printed(f"{line} --normalize-variance on")
    assert "TransA TRANSPOSE" in printed("gemm --a-sizes 2,2 --b-sizes 2,2 --trans-a true")
    sequence = "fill_value_sequence --sizes 2 --start 1 --delta 2"
    assert "AllowFloat64 TRUE" in printed(f"{sequence} --type float64 --allow-float64")
    assert "AllowFloat64" not in printed(f"{sequence} --type float32 --allow-float64 false")


def test_nan_and_infinities_have_many_spellings() -> None:
    line = "is_infinity --data"
    expected = printed(line, "[[1,NaN,Infinity],[-Infinity,0,2]]")
    assert expected == printed(line, "[[1,nan,inf],[-Inf,0,2]]") == printed(line, "[[1,+NAN,+inf],[-infinity,0,2]]")
    assert run(line, "[1,nano]").exit_code == run(line, '["inf"]').exit_code == 2


def test_the_largest_of_64_bits_is_itself_beside_small_ones() -> None:
    text = printed("bit_shift_right --data [0,18446744073709551615] --b [1,1] --type uint64")
    assert "18446744073709551615 >> 1 = 9223372036854775807" in text
    assert run("bit_shift_right --data [-1,18446744073709551615] --b [1,1] --type uint64").exit_code == 2


def test_deep_nesting_and_strange_files_are_usage_errors(tmp_path: Path) -> None:
    assert run("slice1 --offsets 0 --window 1 --data", "[" * 100_000).exit_code == 2
    path = tmp_path / "x.npy"
    np.save(path, np.array([{}], object), allow_pickle=True)
    contents = [path.read_bytes(), b"", b"\x93NUMPY\x01\x00\xff\xff{", b"PK\x03\x04", b"\x93NUMPY" + bytes(200)]
    np.save(path, np.zeros(8, "uint8"))
    contents.append(path.read_bytes().replace(b"(8,)", b"(4000000000,)").replace(b"}" + b" " * 9, b"}"))
    for content in contents:
        path.write_bytes(content)
        result = run(f"slice1 --offsets 0 --window 1 --data {path}")
        assert (result.exit_code, result.stdout) == (2, ""), result.output
    for strange in ("complex64", ">f4", "bool"):
        np.save(path, np.zeros(3, strange))
        result = run(f"slice1 --offsets 0 --window 1 --data {path}")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "Invalid value for --data: must be one of FLOAT32" in result.stderr


@pytest.mark.parametrize(
    "name", ["gather_nd", "GATHER_ND", "gather-nd", "GatherNd", "gather nd", "dml_operator_gather_nd", "108"]
)
def test_an_operator_in_any_spelling(name: str) -> None:
    result = CliRunner().invoke(app, ["support", name])
    assert result.exit_code == 0
    assert "GATHER_ND " in result.stdout


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("softmax", "ACTIVATION_SOFTMAX1"),
        ("Log-Softmax", "ACTIVATION_LOG_SOFTMAX1"),
        ("hardmax", "ACTIVATION_HARDMAX1"),
        ("activation_softmax", "ACTIVATION_SOFTMAX"),
        ("DML_OPERATOR_ACTIVATION_SOFTMAX", "ACTIVATION_SOFTMAX"),
        ("silu", "ACTIVATION_SWISH"),
        ("top_k", "TOP_K"),
        ("max_pooling", "MAX_POOLING"),
    ],
)
def test_a_functions_name_is_the_operator_that_it_computes(name: str, expected: str) -> None:
    assert printed(name).splitlines()[2].split()[0] == expected
    assert explain(name).operator == expected
    if hasattr(dml, name):
        assert explain(getattr(dml, name)).operator == expected


def test_usual_axes_follow() -> None:
    assert "Axes {1}" in printed("softmax --sizes 2,3")
    assert "Axes {0,1}" in printed("reduce --sizes 2,3 --function sum")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nn.Conv2d", "convolution"),
        ("torch.relu", "relu"),
        ("LayerNorm", "mean_variance_normalization2"),
        ("cat", "join"),
        ("avgpool", "average_pooling"),
        ("np.einsum", "gemm"),
    ],
)
def test_another_librarys_name_leads_to_the_operator(name: str, expected: str) -> None:
    result = run(name)
    assert result.exit_code == 2
    assert f"use {expected}" in " ".join(result.stderr.split())


def test_a_name_that_is_nearly_one() -> None:
    result = CliRunner().invoke(app, ["support", "slise1"])
    assert result.exit_code == 2
    assert "did you mean slice1?" in " ".join(result.stderr.split())


# Anything at all

OPTIONS = sorted({name for cls in dml.OPERATORS.values() for option in options_of(cls) for name in option.opts})
WORDS = st.one_of(
    st.sampled_from([*OPTIONS, "--feature-level", "--svg"]),
    st.lists(st.integers(-3, 9), max_size=5).map(lambda items: ",".join(map(str, items))),
    st.lists(st.lists(st.integers(-3, 3), min_size=1, max_size=2), max_size=3).map(str),
    st.sampled_from(
        ["float16", "int64", "5_0", "decreasing", "1e999", "NaN", "-", "x.npy", "0", "-1", str(2**70), "\0"]
    ),
    st.text(max_size=6),
)


@pytest.mark.parametrize("part", range(4))
def test_any_command_line_ends_cleanly(part: int) -> None:
    operators = list(dml.OPERATORS.values())[part::4]

    @settings(deadline=None, max_examples=150 if os.environ.get("CI") else 50, derandomize=False)
    @given(st.sampled_from(operators), st.lists(WORDS, max_size=10))
    def check(cls: type[dml.OperatorDesc], words: list[str]) -> None:
        words = [w for i, w in enumerate(words) if w != "--svg" or words[i + 1 : i + 2] == ["-"]]
        result = CliRunner().invoke(app, ["explain", cls.type.name, *words])
        assert result.exit_code in (0, 1, 2), result.output
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception

    check()


def test_a_picture_of_a_description_is_the_commands_own() -> None:
    desc = dml.Slice1.infer(
        input_tensor=dml.TensorDesc("float32", (1, 1, 4, 4)),
        input_window_offsets=(0, 0, 0, 1),
        input_window_sizes=(1, 1, 4, 3),
        input_window_strides=(1, 1, -2, 2),
    )
    assert f"{explain(desc)}\n" == printed(SLICE1)


@pytest.mark.parametrize("name", ["slice1", "gather", "element_wise_add", "adam_optimizer", "padding"])
def test_an_operator_alone_shows_its_example_and_its_fields(name: str) -> None:
    text = printed(name)
    command, *picture = text.splitlines()
    assert command.startswith(f"$ anydml explain {name} --")
    shown = printed(command.removeprefix("$ anydml explain "))
    assert shown in text
    fields = text.partition("Fields:\n")[2]
    cls = dml.OPERATORS[dml.OperatorType(name)]
    for field in cls.field_types():
        assert "".join(part.capitalize() for part in field.split("_")) in fields, picture
    assert max(map(len, fields.splitlines())) <= 80


def test_choices_are_listed_and_drawings_take_the_example(tmp_path: Path) -> None:
    fields = " ".join(printed("padding").split())
    assert "One of CONSTANT, EDGE, " in fields
    assert ". Given by --mode." in fields
    assert printed(f"padding --html {tmp_path / 'x.html'}") == ""
    assert "PADDING" in (tmp_path / "x.html").read_text()
    assert run("padding --mode edge").exit_code == 2

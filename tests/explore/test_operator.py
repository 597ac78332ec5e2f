"""What the page of an operator shows: forms, faults, pictures and answers, without a browser or a server."""

from __future__ import annotations

import json
import re
import shlex
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import anydml as dml
from anydml.cli.app import app
from anydml.cli.options import options_of
from anydml.explain import explain, shown_inputs
from anydml.explore import operator
from anydml.explore.form import contents_of, groups_of, link, read_command, read_form, read_state
from anydml.operators import OPERATORS, find_operator

if TYPE_CHECKING:
    from pathlib import Path

    from anydml.operators import OperatorDesc


def ask(name: str, **state: str | list[str]) -> Any:
    """What comes of a form; underscores stand for hyphens."""
    given = {key.replace("_", "-"): value for key, value in state.items()}
    return operator.answers()["look"]({"operator": name, "state": given})


def run(line: str) -> Result:
    return CliRunner().invoke(app, shlex.split(line), prog_name="anydml")


def faults(found: Any) -> list[tuple[str, str]]:
    return [(told["key"], told["text"]) for told in found["faults"]]


def as_shown(text: str) -> list[float]:
    """The numbers of an answer; NumPy writes what is true or false as it likes."""
    return [float(number) for number in re.findall(r"-?(?:inf|nan|\d[\d.]*(?:e[+-]?\d+)?)", text.replace("- ", "-"))]


@pytest.mark.parametrize("cls", dml.OPERATORS.values(), ids=lambda cls: cls.type.name)
def test_every_operator_opens_with_its_example(cls: type[dml.OperatorDesc]) -> None:
    form = operator.describe_form(cls)
    keys = [control["key"] for group in form["groups"] for control in group["controls"]]
    assert len(keys) == len(set(keys)) == len(options_of(cls))
    state = read_state(cls, form["example"])
    for group in form["groups"]:
        for control in group["controls"]:
            if control["kind"] == "choice":  # or the page has no option for it
                assert state.get(control["key"], "") in ("", *(value for value, _ in control["choices"]))
    found = operator.look(cls, state)
    assert found["faults"] == []
    assert found["lowest"] is not None
    # The answer, which an engine computed, is what the picture tells.
    reading = read_form(cls, state)
    assert reading.desc is not None
    picture = explain(reading.desc, *reading.arrays)
    answers = {answer["name"]: as_shown(answer["text"]) for answer in found["answers"]}
    for grid in picture.grids:
        drawn = [float(cell.value) for cell in grid.cells()] if grid.role == "output" else []
        if drawn and not grid.left_out:
            np.testing.assert_allclose(answers[grid.tensor], drawn, rtol=1e-3, atol=1e-5)
    # The command line and the link say the same again.
    words = shlex.split(found["command"])
    assert words[:3] == ["anydml", "explain", cls.type.name.lower()]
    assert read_command(cls, words[3:]) == state
    assert link(cls, state) == found["link"]


def test_a_command_line_shows_the_same_picture() -> None:
    state = {"data": "[[1,2],[3,4]]", "axis": "1", "exclusive": "true", "direction": "decreasing"}
    found = ask("cumulative_summation", **state)
    assert found["faults"] == []
    shown = run(found["command"].removeprefix("anydml "))
    assert "output[0,0] = 2" in shown.output
    assert "output[0,0] = 2" in found["picture"]


def test_faults_of_all_fields_are_told_at_once() -> None:
    found = ask("slice1", sizes="4,0", data="1,x", offsets="0,1", window="y", strides="1,z")
    assert [key for key, _ in faults(found)] == ["sizes", "data", "window", "strides"]
    texts = [text for _, text in faults(found)]
    assert texts[0] == "InputTensor.Sizes[1] must be at least 1; got 0"
    assert texts[2] == "InputWindowSizes: 'y' is no list of whole numbers such as 1,1,4,4"
    assert found["picture"] is None
    broken = ask("slice1", sizes="4,4", offsets="0,9", window="4,9", strides="0,1")
    assert {key for key, _ in faults(broken)} == {"offsets", "strides"}


@pytest.mark.parametrize(
    ("name", "state", "key", "text"),
    [
        ("slice1", {"sizes": "4", "offsets": "0", "strides": "1"}, "window", "InputWindowSizes must be given"),
        ("gather", {"sizes": "3,4", "indices": "3,9,0", "axis": "1"}, "indices", "9"),
        ("join", {"sizes": ["2,2", "2,0"], "axis": "1"}, "sizes", "InputTensors[1].Sizes[1] must be at least 1; got 0"),
        ("join", {"data": ["[[1]]", "[[2],[3]]"], "axis": "1"}, "sizes", "InputTensors[1].Sizes[0]"),
        ("slice1", {"type": "flot", "sizes": "4", "offsets": "0", "window": "4", "strides": "1"}, "type", "'flot'"),
        ("reduce", {"sizes": "2,2", "function": "sum", "axes": "7"}, "axes", "Axes[0]"),
        ("cast", {"data": "1.5"}, "output-type", "OutputTensor.DataType"),
        ("gemm", {"data": "1,2", "b-data": "[[1],[2]]", "activation": "no_such"}, "activation", "no_such"),
        ("gemm", {"data": "x.npy"}, "data", "a page reads no files"),
        ("slice1", {"feature-level": "9_9"}, "feature-level", "9_9"),
        ("split", {"sizes": "2,6", "axis": "1"}, "along", "OutputTensors.Sizes"),
    ],
)
def test_a_fault_stands_at_its_field(name: str, state: dict[str, Any], key: str, text: str) -> None:
    found = faults(ask(name, **state))
    assert any(own == key and text in told for own, told in found), found


def test_lengths_of_an_operator_without_an_axis_have_their_own_sizes() -> None:
    words = "--sizes 1,2,1,1 --weight-sizes 1,1,1,1 --recurrence-sizes 1,1,1,1 --activation-descs relu"
    shown = run(f"explain rnn {words} --lengths [[[[2]]]]")
    assert shown.exit_code == 0, shown.output
    assert "SequenceLengthsTensor {1,1,1,1} UINT32" in shown.output


def test_a_level_that_is_too_low_is_told_with_the_lowest_that_is_not() -> None:
    found = ask("cumulative_summation", data="1,2,3", axis="0", feature_level="2_1")
    assert found["lowest"] == "4_0"
    assert [told["level"] for told in found["faults"]] == ["4_0"]


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("slice1", {"sizes": "65535,65536", "offsets": "0,0", "window": "65535,65536", "strides": "1,1"}),
        ("reduce", {"sizes": "65535,65537", "function": "sum", "axes": "0,1"}),
        ("tile", {"sizes": "4,4", "repeats": "16000,16000"}),
        ("activation_softmax", {"sizes": "1,1,1,4294967295"}),
        ("nonzero_coordinates", {"sizes": "60000,1,2,3", "type": "int16"}),
        ("slice1", {"sizes": "4294967295,4294967295"}),
        ("slice1", {"sizes": ",".join(["9"] * 100_000)}),
        ("slice1", {"sizes": "9" * 5000}),
        ("join", {"sizes": ["2,2"] * 500, "axis": "0"}),
        ("gemm", {"data": "[" * 5000}),
    ],
)
def test_enormous_sizes_take_no_memory(name: str, state: dict[str, Any]) -> None:
    tracemalloc.start()
    try:
        found = ask(name, **state)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found["faults"] or (found["picture"] and not found["answers"])
    assert most < 64 << 20


def test_shown_inputs_are_those_given_and_those_made_up() -> None:
    x = dml.TensorDesc("int32", (2, 2))
    desc = dml.ElementWiseAdd.infer(a_tensor=x, b_tensor=x)
    given = np.array([[1, 2], [3, 4]], "int32")
    a, b = shown_inputs(desc, given)
    assert a.tolist() == given.tolist()
    drawn = [int(cell.value) for cell in explain(desc, given).grids[1].cells()]
    assert b.reshape(-1).tolist() == drawn


def test_groups_are_the_tensors_and_the_fields() -> None:
    found = {group.name: (group.role, group.is_optional) for group in groups_of(dml.Gemm)}
    assert found == {
        "ATensor": ("input", False),
        "BTensor": ("input", False),
        "CTensor": ("input", True),
        "Fields": ("attribute", False),
        "OutputTensor": ("output", False),
    }


# The command


def test_a_page_of_one_file_loads_nothing(tmp_path: Path) -> None:
    data, path = tmp_path / "x.npy", tmp_path / "page.html"
    np.save(data, np.array([[1, 2], [3, 4]], "float32"))
    assert run(f"explore cumulative_summation --data {data} --axis 0 --html {path}").exit_code == 0
    text = path.read_text("utf-8")
    assert "[[1., 2.],\n [4., 6.]]" in text
    assert "default-src 'none'" in text
    assert not re.search(r"(?:src|href)=|https?://", text)


def test_a_page_at_fault_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    found = run(f"explore slice1 --sizes 4,0 --offsets 0,0 --window 1,1 --html {path}")
    assert found.exit_code == 1
    assert "InputTensor.Sizes[1] must be at least 1; got 0" in found.output
    assert not path.exists()
    assert run("explore no_such").exit_code == 2
    assert run("explore slice1 --no-such 1").exit_code == 2


def test_a_port_that_is_taken_is_told() -> None:
    pytest.importorskip("uvicorn", reason="needs requirements/explore.txt")
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = run(f"explore --no-browser --port {taken.getsockname()[1]}")
    assert found.exit_code == 3
    assert "leave --port out for one that is free" in found.output


def test_without_its_libraries_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "anydml.explore.server", raising=False)
    found = run("explore --no-browser")
    assert found.exit_code == 3
    assert "pip install 'anydml[explore]'" in found.output


def test_data_for_the_page_is_json() -> None:
    json.dumps([operator.list_operators(), operator.describe_form(dml.Gru)])
    assert len(operator.list_operators()) == len(dml.OPERATORS)


def test_other_libraries_names_find_an_operator() -> None:
    words = {one["name"]: one["words"].split() for one in operator.list_operators()}
    assert {"layer_norm", "layernorm"} <= {*words["mean_variance_normalization2"]}
    assert {"cat", "concat"} <= {*words["join"]}
    assert "avgpool2d" in words["average_pooling"]


@pytest.mark.parametrize(
    ("name", "key", "text", "told"),
    [
        ("activation_celu", "alpha", "x", "Alpha must be a number; got 'x'"),
        (
            "activation_celu",
            "data",
            "[[1],[2,3]]",
            "InputTensor.Data must be numbers such as [[1,2],[3,4]], in rows of",
        ),
        ("element_wise_abs", "scale-bias", "2", "ScaleBias must be two numbers such as 2,0.5; got '2'"),
        (
            "element_wise_add1",
            "activation",
            "[1]",
            "FusedActivation must be the name of an activation such as relu; got",
        ),
    ],
)
def test_a_page_speaks_of_fields_and_not_of_files_or_python(name: str, key: str, text: str, told: str) -> None:
    cls = find_operator(name)
    (fault,) = faults(operator.look(cls, {**read_command(cls, ()), key: text}))
    assert fault[0] == key
    assert fault[1].startswith(told)


@pytest.mark.parametrize("cls", OPERATORS.values(), ids=lambda cls: cls.type.name)
def test_the_form_of_a_description_says_what_it_does(cls: type[OperatorDesc]) -> None:
    """Of each operator's example, there and back."""
    desc = read_form(cls, read_command(cls, ())).desc
    assert desc is not None
    state = contents_of(desc)
    again = read_form(cls, read_state(cls, state))
    assert again.faults == []
    assert again.desc is not None
    assert contents_of(again.desc).keys() == state.keys()
    assert again.desc.tensors() == desc.tensors()
    assert operator.look(cls, state, desc)["is_own"]
    first = next(iter(state))
    assert not operator.look(cls, {**state, first: "7"}, desc)["is_own"]


def test_an_operator_of_a_model_is_shown_with_its_strides() -> None:
    from anydml.arrays.tensor import TensorDesc

    desc = dml.ElementWiseIdentity(
        input_tensor=TensorDesc("float32", (2, 3), strides=(1, 2)), output_tensor=TensorDesc("float32", (2, 3))
    )
    found = operator.look(dml.ElementWiseIdentity, contents_of(desc), desc)
    plain = operator.look(dml.ElementWiseIdentity, contents_of(desc))
    assert found["is_own"]
    assert found["answers"][0]["text"] == "[[1., 3., 5.],\n [2., 4., 6.]]"
    assert plain["answers"][0]["text"] == "[[1., 2., 3.],\n [4., 5., 6.]]"

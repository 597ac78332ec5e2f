"""`anydml explain MODEL.json`: the dispatchables of a model, with the values that it gives them."""

from __future__ import annotations

import html
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from anydml.cli.app import app
from anydml.cli.explain import first_inputs
from anydml.dxdispatch import Model, load_model
from anydml.explain import Picture, explain

MODELS = Path(__file__).parents[2] / "examples" / "models"
SUM = {
    "type": "DML_OPERATOR_CUMULATIVE_SUMMATION",
    "InputTensor": {"DataType": "INT32", "Sizes": [1, 1, 1, 3]},
    "OutputTensor": {"DataType": "INT32", "Sizes": [1, 1, 1, 3]},
    "Axis": 3,
    "AxisDirection": "INCREASING",
    "HasExclusiveSum": False,
}


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["explain", *map(str, words)], prog_name="anydml")


def draw(loaded: Model, name: str) -> Picture:
    dispatchable = loaded.dispatchables[name]
    assert dispatchable.desc is not None
    return explain(dispatchable.desc, *first_inputs(loaded, dispatchable, dispatchable.desc))


def model(folder: Path, **parts: Any) -> Path:
    path = folder / "model.json"
    path.write_text(json.dumps(parts))
    return path


def twice(folder: Path) -> Path:
    """A sum whose output is summed again: what goes into the second is not in the file."""
    numbers = {"initialValuesDataType": "INT32", "initialValues": [70, 71, 72, 73, 20, 9, 50, 0]}
    bind = {"InputTensor": {"name": "a", "elementOffset": 4}, "OutputTensor": "b"}
    return model(
        folder,
        resources={"a": numbers, "b": numbers, "c": numbers},
        dispatchables={"first": SUM, "second": SUM},
        commands=[
            {"type": "dispatch", "dispatchable": "first", "bindings": bind},
            {"type": "dispatch", "dispatchable": "second", "bindings": {"InputTensor": "b", "OutputTensor": "c"}},
        ],
    )


def test_every_dispatchable_with_its_values() -> None:
    result = run(MODELS / "slice1.json")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("dispatchable '") == 2
    assert "output[0,0,0,0] = input[0, 0, 3 - 2*0, 1 + 2*0] = input[0,0,3,1] = 14" in result.stdout
    assert "No data was given" not in result.stdout


def test_one_of_them_as_a_drawing(tmp_path: Path) -> None:
    target = tmp_path / "crop.svg"
    assert run(MODELS / "slice1.json", "--svg", target).exit_code == 2
    assert not target.exists()
    assert run(MODELS / "slice1.json", "--dispatchable", "crop", "--svg", target).exit_code == 0
    assert "dispatchable 'crop'" in html.unescape(target.read_text())


def test_owned_tensors_have_the_values_of_their_initialisation() -> None:
    result = run(MODELS / "owned_gather.json")
    assert "indices[0] = (1) picks row input[1,:], which lands in output[0,:]" in result.stdout
    assert "No data was given" not in result.stdout


def test_offsets_count_and_what_is_computed_on_the_way_is_not_shown_as_given(tmp_path: Path) -> None:
    path = twice(tmp_path)
    assert "output[0,0,0,2] = 20 + 9 + 50 = 79" in run(path, "--dispatchable", "first").stdout
    second = run(path, "--dispatchable", "second").stdout
    assert "output[0,0,0,2] = 1 + 2 + 3 = 6" in second
    assert "No data was given: the values number the elements." in second


def test_a_model_at_fault_elsewhere_says_that_its_values_are_not_read(tmp_path: Path) -> None:
    path = twice(tmp_path)
    path.write_text(path.read_text().replace('"elementOffset": 4', '"elementOffset": 1'))
    result = run(path, "--dispatchable", "first")
    assert result.exit_code == 0
    assert result.stderr.endswith("model.json: not valid at 6_4, so no values are read; see `anydml check`\n")
    assert "No data was given" in result.stdout


def test_values_from_a_file_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([4, 5, 6], "int32"))
    given = {"initialValuesDataType": "INT32", "initialValues": {"sourcePath": "x.npy"}}
    zeros = {"initialValuesDataType": "INT32", "initialValues": {"valueCount": 3, "value": 0}}
    bind = {"InputTensor": "x", "OutputTensor": "y"}
    path = model(
        tmp_path,
        resources={"x": given, "y": zeros},
        dispatchables={"sum": SUM},
        commands=[{"type": "dispatch", "dispatchable": "sum", "bindings": bind}],
    )
    assert "output[0,0,0,2] = 4 + 5 + 6 = 15" in run(path).stdout


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--dispatchable", "nobody"], 2, "there is no dispatchable 'nobody'; there are 'first', 'second'"),
        (["--feature-level", "2_0"], 1, "CUMULATIVE_SUMMATION: the operator needs DML_FEATURE_LEVEL_2_1"),
        (["--allow-files", "/nowhere"], 2, "does not exist"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, words: list[str], status: int, message: str) -> None:
    result = run(twice(tmp_path), *words)
    assert result.exit_code == status, result.output
    assert message in result.stderr


@pytest.mark.parametrize("option", ["--svg", "--html"])
@pytest.mark.parametrize("graph", [[], ["--graph"]])
@pytest.mark.parametrize("spelling", ["mine.json", "./mine.json", "folder/../mine.json", "link.json", "folder/link"])
def test_a_drawing_does_not_take_the_place_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: str, graph: list[str], option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    mine = twice(tmp_path).rename(tmp_path / "mine.json")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.json").symlink_to("mine.json")
    (tmp_path / "folder" / "link").symlink_to(mine)
    before, other = mine.read_bytes(), "--html" if option == "--svg" else "--svg"
    for path, target in (("mine.json", spelling), (spelling, "mine.json"), (mine, spelling)):
        choice = graph or ["--dispatchable", "first"]
        result = run(path, *choice, other, "other", option, target)
        assert result.exit_code == 2, result.output
        assert f"Invalid value for '{option}'" in result.stderr
        assert "the model" in result.stderr
        assert mine.read_bytes() == before
        assert not (tmp_path / "other").exists()
    assert run("mine.json", *choice, option, "folder/mine.json").exit_code == 0


def test_what_is_no_operator_here_is_named(tmp_path: Path, unbuilt: str) -> None:
    path = model(tmp_path, resources={}, dispatchables={"g": {"type": f"DML_OPERATOR_{unbuilt}"}}, commands=[])
    result = run(path)
    assert result.exit_code == 3, result.output
    assert unbuilt in result.stderr
    assert "Traceback" not in result.output


def test_a_model_without_dispatchables_says_so(tmp_path: Path) -> None:
    result = run(model(tmp_path, resources={}, dispatchables={}, commands=[]))
    assert result.exit_code == 1, result.output
    assert "no dispatchable" in result.stderr


def gather(folder: Path, count: int) -> Path:
    """Rows that indices pick, both as large as asked for."""
    tensors = {
        "InputTensor": {"DataType": "UINT32", "Sizes": [1, 1, 1, count]},
        "IndicesTensor": {"DataType": "UINT32", "Sizes": [1, 1, count, 4]},
        "OutputTensor": {"DataType": "UINT32", "Sizes": [1, 1, 1, count]},
    }
    zeros = {"valueCount": count, "value": 0}
    values = {"initialValuesDataType": "UINT32", "initialValues": zeros}
    bind = {"InputTensor": "x", "IndicesTensor": "i", "OutputTensor": "y"}
    desc = {**tensors, "InputDimensionCount": 4, "IndicesDimensionCount": 3}
    return model(
        folder,
        resources={"x": values, "i": {**values, "initialValues": {**zeros, "valueCount": 4 * count}}, "y": values},
        dispatchables={"pick": {"type": "GATHER_ND", "desc": desc}},
        commands=[{"type": "dispatch", "dispatchable": "pick", "bindings": bind}],
    )


def test_the_inputs_of_a_picture_keep_to_the_limit_together(tmp_path: Path) -> None:
    path = gather(tmp_path, 100_000)
    for limit, made_up in ((3_000_000, []), (1_900_000, ["No indices"]), (300_000, ["No data", "No indices"])):
        loaded = load_model(path, max_memory=limit)
        assert loaded.check()
        picture = draw(loaded, "pick")
        assert [words for words in ("No data", "No indices") if words in str(picture)] == made_up


def test_a_picture_takes_the_memory_of_its_inputs_once(tmp_path: Path) -> None:
    sizes = {"DataType": "INT32", "Sizes": [1, 1, 1, 2_000_000]}
    numbers = {"initialValuesDataType": "INT32", "initialValues": {"valueCount": 2_000_000, "value": 7}}
    bind = {"InputTensor": "a", "OutputTensor": "b"}
    path = model(
        tmp_path,
        resources={"a": numbers, "b": numbers},
        dispatchables={"sum": {**SUM, "InputTensor": sizes, "OutputTensor": sizes}},
        commands=[{"type": "dispatch", "dispatchable": "sum", "bindings": bind}],
    )
    loaded = load_model(path)
    tracemalloc.start()
    picture = draw(loaded, "sum")
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "= 7 + 7 + 7 = 21" in str(picture)
    assert taken < 10_000_000


def test_names_of_strangers_are_not_told_at_length(tmp_path: Path) -> None:
    path = model(tmp_path, resources={}, dispatchables={"x" * 10_000: SUM}, commands=[])
    assert len(run(path, "--dispatchable", "y" * 10_000).stderr) < 1_000


def test_a_limit_on_memory_and_an_operator_that_is_also_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "No data was given" not in run(twice(tmp_path), "--dispatchable", "first").stdout
    limited = run(twice(tmp_path), "--dispatchable", "first", "--max-memory", "16")
    assert limited.exit_code == 0
    assert "No data was given" in limited.stdout
    assert "20 + 9" not in limited.stdout
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slice1").write_text("in the way")
    assert "SLICE1" in run("slice1", "--sizes", "4", "--offsets", "0", "--window", "4").stdout

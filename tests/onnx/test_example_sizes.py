"""Models with dynamic sizes that nobody gives: some are assumed, and none is called faulty for a guess."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from onnx_saved import FLOAT, INT64, onnx, program, save  # isort: skip - it asks for onnx

import anydml as dml
import anydml.onnx as front
from anydml.onnx.example_sizes import Examples

if TYPE_CHECKING:
    from pathlib import Path

make = onnx.helper.make_node
UNNAMED: Any = [None, 3, None, None]


def windows(path: Path, sizes: Any, size: int = 8, channels: int = 3) -> Path:
    """A network whose first window reaches over so many elements."""
    weight = np.ones((2, channels, size, size), np.float32)
    nodes = [make("Conv", ["x", "w"], ["c"], name="window", strides=[4, 4]), make("Relu", ["c"], ["y"])]
    return save(path / "windows.onnx", nodes, {"x": (FLOAT, sizes)}, {"y": FLOAT}, {"w": weight})


def two_lengths(path: Path) -> Path:
    """A network that takes no sequences: two of its nodes ask for different lengths."""
    nodes = [
        make("Reshape", ["x", "to"], ["r"], name="form"),
        make("Relu", ["r"], ["y"]),
        make("Reshape", ["x", "other"], ["s"], name="other form"),
        make("Relu", ["s"], ["z"]),
    ]
    constants = {"to": np.array([7, 1111], np.int64), "other": np.array([7, 1109], np.int64)}
    return save(path / "lengths.onnx", nodes, {"x": (FLOAT, ["batch", "n"])}, {"y": FLOAT, "z": FLOAT}, constants)


def test_sizes_with_which_a_model_fits_together_are_assumed(tmp_path: Path) -> None:
    path = windows(tmp_path, ["batch", 3, "h", "w"])
    report = front.check(path)
    assert report
    assert (report.assumed, report.doubt) == ({"batch": 1, "h": 224, "w": 224}, None)
    assert report.outputs["y"].shape == (1, 2, 55, 55)
    options = "--shape batch=1 --shape h=224 --shape w=224"
    told = f"Assumed batch=1, h=224, w=224 for dynamic dimensions; set them with {options}"
    assert told in program("check", path).output
    for command in ("check", "run", "explain"):
        result = program(command, path)
        assert result.exit_code == 0, result.output
        assert told in result.output.replace("\n", " ")
        given = program(command, path, "--shape", "batch=2", "--shape", "h=16", "--shape", "w=9")
        assert given.exit_code == 0
        assert "set them with" not in given.output


def test_sizes_without_names_are_several_and_what_is_told_to_type_works(tmp_path: Path) -> None:
    for name in (None, "?", "-1"):
        path = windows(tmp_path, [name, 3, name, name])
        result = program("check", path)
        assert "Assumed x[0]=1, x[2]=224, x[3]=224" in result.output
        line = re.search(r"set them with (--shape .*)", result.output.replace("\n", " "))
        assert line is not None
        options = shlex.split(line[1].partition(" --shape x=")[0])[:2]
        assert options == ["--shape", "x=1,3,224,224"]
        for typed in (
            options,
            ["--shape", "x=2,3,48,192"],
            [f"--shape=x[{i}]={n}" for i, n in ((0, 1), (2, 9), (3, 8))],
        ):
            for command in ("check", "run"):
                found = program(command, path, *typed)
                assert found.exit_code == 0, found.output
                assert "set them with" not in found.output


def test_a_model_of_views_has_nothing_to_show_and_no_fault(tmp_path: Path) -> None:
    path = save(tmp_path / "view.onnx", [make("Identity", ["x"], ["y"])], {"x": (FLOAT, ["n"])}, {"y": FLOAT})
    result = program("explain", path)
    assert (result.exit_code, "there is nothing to show" in result.output) == (0, True)
    with pytest.raises(dml.ModelError, match="there is nothing to show"):
        front.load(path).explain()


def test_constants_that_nodes_write_out_do_not_count(tmp_path: Path) -> None:
    value = onnx.numpy_helper.from_array(np.ones(2, np.float32))
    nodes = [make("Constant", [], ["k"], value=value), make("Add", ["x", "k"], ["y"])]
    path = save(tmp_path / "add.onnx", nodes, {"x": (FLOAT, ["n"])}, {"y": FLOAT})
    assert "1 node, which runs at feature level" in program("check", path).output
    assert front.check(path).count == 1


def test_a_fault_of_every_size_is_a_fault(tmp_path: Path) -> None:
    path = windows(tmp_path, ["batch", 3, "h", "w"], size=1, channels=5)
    report = front.check(path)
    assert (report.status, report.doubt) == (1, None)
    assert [node.name for node in report.nodes if node.error] == ["window"]
    assert program("check", path).exit_code == program("run", path).exit_code == 1


def test_a_model_that_no_size_fits_is_undetermined(tmp_path: Path) -> None:
    path = two_lengths(tmp_path)
    report = front.check(path)
    assert report.status == 0
    assert report.doubt is not None
    assert report.unknown == 2
    assert "undetermined" in str(report)
    result = program("check", path)
    assert result.exit_code == 0
    assert "undetermined: no sizes were found for its dynamic dimensions" in result.output.replace("\n", " ")
    assert "skipped: depends on a node that is undetermined" in result.output
    data = json.loads(program("check", path, "--json").stdout)
    assert data["valid"] is None
    assert "--shape batch=1 --shape n=77" in data["undetermined"]
    for command in ("run", "explain", "compare"):
        refused = program(command, path)
        assert refused.exit_code == 2, refused.output
        assert "no sizes were found" in refused.output
    with pytest.raises(dml.DynamicSizesError, match="pass those that it is made for"):
        front.load(path).explain()
    assert program("check", path, "--shape", "batch=1", "--shape", "n=7777").exit_code == 1


def asked(nodes: list[Any], sizes: dict[str, Any], constants: dict[str, Any], path: Path) -> dict[str, int]:
    """The sizes that are assumed for a model, which its nodes fit; what is told to type says the same."""
    inputs = {name: (FLOAT, shape) for name, shape in sizes.items()}
    saved = save(path / "asked.onnx", nodes, inputs, {nodes[-1].output[0]: FLOAT}, constants)
    report = front.check(saved)
    assert report
    assert report.doubt is None
    result = program("check", saved)
    typed = shlex.split(re.search(r"set them with (.*)", result.output)[1])  # type: ignore[index]  # it is told
    pasted = program("run", saved, *typed)
    assert pasted.exit_code == 0, pasted.output
    assert "Assumed" not in pasted.output
    return dict(report.assumed)


def test_sizes_that_nodes_ask_for_are_found(tmp_path: Path) -> None:
    reshape = [make("Reshape", ["x", "to"], ["y"])]
    length = {"to": np.array([7, 1111], np.int64)}
    assert asked(reshape, {"x": ["batch", "n"]}, length, tmp_path) == {"batch": 1, "n": 7777}

    window = make("Conv", ["x", "w"], ["c"], strides=[4, 4])
    flat = [window, make("Flatten", ["c"], ["f"]), make("MatMul", ["f", "b"], ["y"])]
    weights = {"w": np.ones((2, 3, 4, 4), np.float32), "b": np.ones((2 * 24 * 24, 5), np.float32)}
    assert asked(flat, {"x": ["n", 3, "h", "w"]}, weights, tmp_path) == {"n": 1, "h": 96, "w": 96}

    joined = [make("Concat", ["x", "y"], ["j"], axis=1), make("MatMul", ["j", "b"], ["z"])]
    found = asked(joined, {"x": ["n", "p"], "y": ["m", "q"]}, {"b": np.ones((77, 5), np.float32)}, tmp_path)
    assert found["p"] + found["q"] == 77

    parts = [make("Split", ["x", "sizes"], ["a", "b"], axis=1), make("Mul", ["a", "c"], ["y"])]
    lengths = {"sizes": np.array([37, 64], np.int64), "c": np.ones(37, np.float32)}
    assert asked(parts, {"x": ["?", "?"]}, lengths, tmp_path)["x[1]"] == 101


def test_a_fault_beside_a_doubt_is_told(tmp_path: Path) -> None:
    nodes = [
        make("Reshape", ["x", "to"], ["r"], name="form"),
        make("MatMul", ["a", "b"], ["m"], name="product"),
        make("Add", ["r", "m"], ["y"]),
    ]
    constants = {"to": np.array([7, 1111], np.int64), "a": np.ones((2, 3), "f"), "b": np.ones((4, 2), "f")}
    path = save(tmp_path / "both.onnx", nodes, {"x": (FLOAT, ["n", "n"])}, {"y": FLOAT}, constants)
    report = front.check(path)
    assert report.status == 1
    assert [node.name for node in report.nodes if node.error] == ["product"]
    assert report.doubt is not None


def test_a_models_metadata_is_asked_first(tmp_path: Path) -> None:
    path = windows(tmp_path, ["batch", 3, "height", "width"])
    model = onnx.load(path)
    onnx.helper.set_model_props(model, {"imgsz": "[96, 64]", "stride": "32"})
    onnx.save(model, path)
    assert front.check(path).assumed == {"batch": 1, "height": 96, "width": 64}


@pytest.mark.parametrize(
    ("shapes", "metadata", "expected"),
    [
        ({"x": ("n", 3, "h", "w")}, {}, {"n": 1, "h": 224, "w": 224}),
        ({"x": ("n", "h", "w", 3)}, {}, {"n": 1, "h": 224, "w": 224}),
        ({"x": ("n", 1, 48, "w")}, {}, {"n": 1, "w": 224}),
        ({"x": ("n", 3, "h", "w")}, {"imgsz": "[640, 480]"}, {"n": 1, "h": 640, "w": 480}),
        ({"x": ("n", 3, "h", "w")}, {"imgsz": "320"}, {"n": 1, "h": 320, "w": 320}),
        ({"x": ("n", 3)}, {}, {"n": 2}),
        ({"x": ("n", 64, "h", "w")}, {}, {"n": 2, "h": 2, "w": 2}),
        ({"ids": ("n", "s"), "mask": ("n", 1, "s", "t")}, {}, {"n": 2, "s": 2, "t": 2}),
        ({"x": ("n", 3, "s", 8), "ids": ("n", "s")}, {}, {"n": 2, "s": 2}),
    ],
)
def test_images_are_of_a_likely_size(shapes: Any, metadata: dict[str, str], expected: dict[str, int]) -> None:
    assert next(Examples(shapes, metadata).assignments()) == expected


def test_a_sound_model_of_images_and_of_lengths_is_not_called_faulty(tmp_path: Path) -> None:
    nodes = [
        make("GlobalAveragePool", ["x"], ["p"]),
        make("Reshape", ["t", "to"], ["r"], name="form"),  # of a length that no guess has
        make("Shape", ["p"], ["s"]),
    ]
    inputs = {"x": (FLOAT, ["b", 3, "h", "w"]), "t": (FLOAT, ["n"])}
    outputs = {"r": FLOAT, "s": INT64}
    path = save(tmp_path / "two.onnx", nodes, inputs, outputs, {"to": np.array([7, 1111], np.int64)})
    report = front.check(path)
    assert report.status == 0
    assert (report.doubt, report.assumed["n"]) == (None, 7777)


def test_assignments_are_tried_once_each() -> None:
    found = list(Examples({"x": ("batch", 3, "h", "w"), "y": ("batch", "n")}, {}).assignments())
    image = {"batch": 1, "h": 224, "w": 224}
    assert found[:3] == [{**image, "n": 2}, dict.fromkeys(("batch", "h", "w", "n"), 2), {**image, "n": 224}]
    assert all(one not in found[:i] for i, one in enumerate(found))
    assert list(Examples({"x": (2, 3)}, {}).assignments()) == [{}]
    language = {"input_ids": ("b", "s"), "attention_mask": ("b", "t"), "past.0": ("b", 2, "p", 8)}
    assert all(one["t"] == one["s"] + one["p"] for one in Examples(language, {}).assignments())
    lengths = list(Examples({"x": ("n", "samples"), "y": (2, "rows", 128)}, {}).assignments())
    assert {"n": 1, "samples": 512, "rows": 1} in lengths


@pytest.mark.parametrize(
    ("given", "status", "told"),
    [
        ("to=[6,1]", 0, "float32[6,1]"),
        ("to=[2.0, 3]", 0, "float32[2,3]"),
        ("to=[6.5,1]", 2, "is no number and no list of numbers that make an array of int64"),
        ("to=[[6],[1,2]]", 2, "is no number and no list"),
        ('to=["6"]', 2, "is no number and no list"),
        ("to=[1e30,1]", 2, "is no number and no list"),
        ("to=6", 1, "input 'to' must have 1 dimensions"),
        ("two=6", 2, "there is no input 'two'"),
        ("to=[6,1", 2, "cannot be read"),
    ],
)
def test_an_input_may_be_numbers(tmp_path: Path, given: str, status: int, told: str) -> None:
    nodes = [make("Reshape", ["x", "to"], ["y"])]
    path = save(tmp_path / "form.onnx", nodes, {"x": (FLOAT, [2, 3]), "to": (INT64, [2])}, {"y": FLOAT})
    result = program("run", path, "--input", given)
    assert (result.exit_code, told in result.output) == (status, True), result.output
    if not status:
        assert "as far as is known" not in program("check", path, "--input", given).output

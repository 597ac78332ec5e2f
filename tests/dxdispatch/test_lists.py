"""Models in which one field has several tensors, and one name several resources."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from anydml.dxdispatch import as_sarif, check_file, load_model
from anydml.dxdispatch.operators import MOST_TENSORS
from modelling import REMOVED, changed, findings, floats, lines, program, write

if TYPE_CHECKING:
    from pathlib import Path

DESC = "dispatchables.join.desc."
OWNED = "being OWNED_BY_DML"


def tensor(size: int, **more: Any) -> dict[str, Any]:
    return {"DataType": "FLOAT32", "Sizes": [size], **more}


def join(*owned: int) -> dict[str, Any]:
    """Two, one and three numbers, one after the other; some of them may be OWNED_BY_DML."""
    flags = [{"Flags": "OWNED_BY_DML"} if i in owned else {} for i in range(3)]
    tensors = [tensor(size, **more) for size, more in zip((2, 1, 3), flags, strict=True)]
    fields = {"InputCount": 3, "InputTensors": tensors, "OutputTensor": tensor(6), "Axis": 0}
    bindings = {"InputTensors": ["a", "b", "c"], "OutputTensor": "out"}
    return {
        "resources": {"a": floats(1, 2), "b": floats(3), "c": floats(4, 5, 6), "out": floats(*[0] * 6)},
        "dispatchables": {"join": {"type": "JOIN", "desc": fields}},
        "commands": [{"type": "dispatch", "dispatchable": "join", "bindings": bindings}],
    }


def split() -> dict[str, Any]:
    fields = {"InputTensor": tensor(6), "OutputCount": 2, "OutputTensors": [tensor(2), tensor(4)], "Axis": 0}
    bindings = {"InputTensor": "in", "OutputTensors": ["a", "b"]}
    return {
        "resources": {"in": floats(*range(6)), "a": floats(0, 0), "b": floats(0, 0, 0, 0)},
        "dispatchables": {"split": {"type": "SPLIT", "desc": fields}},
        "commands": [{"type": "dispatch", "dispatchable": "split", "bindings": bindings}],
    }


def bound(model: Any, *resources: Any, owned: Any = None) -> Any:
    """The model with other resources for InputTensors, at its dispatch and for its initialisation."""
    model["commands"][0]["bindings"]["InputTensors"] = list(resources)
    if owned is not None:
        model["dispatchables"]["join"]["bindings"] = {"InputTensors": owned}
    if not resources:
        del model["commands"][0]["bindings"]["InputTensors"]
    return model


def test_each_tensor_has_its_resource(tmp_path: Path, engine: str) -> None:
    joined, taken_apart = (load_model(write(tmp_path, data)) for data in (join(), split()))
    assert joined.check().findings == taken_apart.check().findings == ()
    assert joined.run(engine).resources["out"].tolist() == [1, 2, 3, 4, 5, 6]
    found = taken_apart.run(engine).resources
    assert (found["a"].tolist(), found["b"].tolist()) == ([0, 1], [2, 3, 4, 5])


def test_one_tensor_alone_needs_no_list(tmp_path: Path) -> None:
    data = changed(join(), f"{DESC}InputTensors", [tensor(6)])
    data = changed(changed(data, f"{DESC}InputCount", 1), "commands.0.bindings.InputTensors", "c")
    data = changed(data, "resources.c", floats(*range(6)))
    assert load_model(write(tmp_path, data)).run("reference").resources["out"].tolist() == list(range(6))


# (path, value, status, where, message)
FAULTS: list[tuple[str, Any, int, str, str]] = [
    (f"{DESC}InputTensors", 5, 2, "$.", "InputTensors must be a list of objects; got 5"),
    (f"{DESC}InputTensors", tensor(6), 2, "$.", "InputTensors must be a list of objects; got an object of 2 members"),
    (f"{DESC}InputTensors", [], 1, "$.", "InputTensors must have at least one tensor; got none"),
    (f"{DESC}InputTensors", REMOVED, 1, "$.dispatchables.join.desc", "InputTensors must be given"),
    (f"{DESC}InputTensors.1", 5, 2, "$.dispatchables.join.desc.InputTensors[1]",
        "InputTensors[1] must be an object; got 5"),
    (f"{DESC}InputTensors.1.Sizes", [0], 1, "$.dispatchables.join.desc.InputTensors[1].Sizes[0]",
        "InputTensors[1].Sizes[0] must be at least 1; got 0"),
    (f"{DESC}InputTensors.1.Sizes", [1, 1], 1, "$.dispatchables.join.desc.InputTensors[1]",
        "InputTensors[1].DimensionCount must be InputTensors[0].DimensionCount, 1; got 2"),
    (f"{DESC}InputTensors.2.DataType", "INT32", 1, "$.dispatchables.join.desc.InputTensors[2].DataType",
        "InputTensors[2].DataType must be InputTensors[0].DataType, FLOAT32; got INT32"),
    (f"{DESC}InputTensors.2.DimensionCount", 2, 1, "$.dispatchables.join.desc.InputTensors[2].DimensionCount",
        "InputTensors[2].DimensionCount must be 1, as many values as are given; got 2"),
    (f"{DESC}InputCount", 2, 1, "$.", "InputCount must be 3, as many tensors as are given; got 2"),
    (f"{DESC}InputCount", "3", 2, "$.", "InputCount must be a whole number; got '3'"),
    ("commands.0.bindings.InputTensors", ["a", "b"], 1, "$.",
        "InputTensors must be bound to 3 resources, one for each of its tensors; got 2"),
    ("commands.0.bindings.InputTensors", "a", 1, "$.",
        "InputTensors must be bound to 3 resources, one for each of its tensors; got 1"),
    ("commands.0.bindings.InputTensors", ["a", "b", "c", "a"], 1, "$.commands[0].bindings.InputTensors[3]",
        "InputTensors must be bound to 3 resources, one for each of its tensors; got 4"),
    ("commands.0.bindings.InputTensors", ["a", 5, "c"], 2, "$.commands[0].bindings.InputTensors[1]",
        "a binding must be a resource's name, or an object with one; got 5"),
    ("commands.0.bindings.InputTensors", ["a", "x", "c"], 1, "$.commands[0].bindings.InputTensors[1]",
        "there is no resource 'x'; there are 'a', 'b', 'c', 'out'"),
    ("commands.0.bindings.InputTensors", ["a", "b", "b"], 1, "$.commands[0].bindings.InputTensors[2]",
        "InputTensors[2]: SizeInBytes must be at least 12, the total size of what is bound; got 4"),
    ("commands.0.bindings.InputTensors", ["a", "b", "out"], 1, "$.commands[0].bindings.OutputTensor",
        ("OutputTensor must not overlap InputTensors[2]: the operator does not run in place; got bytes 0x0 .. 0x18 and"
         " bytes 0x0 .. 0x18; a binding reaches to the end of its resource: bind two resources")),
    ("commands.0.bindings.InputTensors", REMOVED, 1, "$.commands[0].bindings",
        "InputTensors must be bound by the dispatch command"),
    ("commands.0.bindings.InputTensors[0]", "a", 1, "$.commands[0].bindings['InputTensors[0]']",
        "there is no tensor 'InputTensors[0]'; there are InputTensors, OutputTensor"),
    ("dispatchables.join.bindings", {"InputTensors": ["a", "b", "c"]}, 1,
        "$.dispatchables.join.bindings.InputTensors[0]",
        "InputTensors must be bound by the dispatch command, not being OWNED_BY_DML"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "status", "where", "said"), FAULTS)
def test_each_fault_alone(tmp_path: Path, path: str, value: Any, status: int, where: str, said: str) -> None:
    found = findings(tmp_path, changed(join(), path, value))
    is_files_own = said.startswith("a binding must be")
    assert [(at, text) for _, at, text in found] == [
        (f"$.{path}".replace(".0.", "[0].") if where == "$." else where, said if is_files_own else f"JOIN: {said}")
    ]
    assert check_file(tmp_path / "model.json").status == status


def test_faults_of_several_are_found_at_once_and_shown_where_they_stand(tmp_path: Path) -> None:
    data = changed(join(), "commands.0.bindings.InputTensors", ["b", "x", {"name": "c", "elementOffset": 1}])
    path = write(tmp_path, data)
    report = check_file(path)
    found = {fault.fault.place.path: fault.fault.rule for fault in report.faults if fault.fault.place}
    assert list(found) == [f"$.commands[0].bindings.InputTensors[{i}]" for i in range(3)]
    assert found["$.commands[0].bindings.InputTensors[0]"].startswith("InputTensors[0]: SizeInBytes must be at least 8")
    (log,) = json.loads(json.dumps(as_sarif(report)))["runs"]
    logical = [result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] for result in log["results"]]
    assert sorted(set(logical)) == list(found)
    said = lines(program("check", path), path)
    assert "JOIN: InputTensors[0]: SizeInBytes must be at least 8" in said[0]
    assert "'join': JOIN, valid from 4_1 on" in said[-1]


def test_outputs_of_several_must_lie_apart(tmp_path: Path) -> None:
    data = changed(split(), "commands.0.bindings.OutputTensors", ["b", "b"])
    assert findings(tmp_path, data) == [
        (
            "binding",
            "$.commands[0].bindings.OutputTensors[1]",
            "SPLIT: OutputTensors[1] must not overlap OutputTensors[0]: both are written",
        )
    ]
    data = changed(split(), "dispatchables.split.desc.OutputTensors.1.Sizes", [3])
    assert findings(tmp_path, data) == [
        (
            "description",
            "$.dispatchables.split.desc.OutputTensors",
            "SPLIT: the sizes of OutputTensors along the axis must add up to InputTensor.Sizes[0], 6; got 5",
        )
    ]


# OWNED_BY_DML


def test_all_of_several_may_be_owned(tmp_path: Path, engine: str) -> None:
    loaded = load_model(write(tmp_path, bound(join(0, 1, 2), owned=["a", "b", "c"])))
    assert loaded.check().findings == ()
    assert loaded.run(engine).resources["out"].tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("owned", "first", "then"), [([1], ["b"], ["a", "c"]), ([1], "b", ["a", "c"]), ([0, 2], ["a", "c"], ["b"])]
)
def test_some_of_several_are_bound_where_they_belong(
    tmp_path: Path, engine: str, owned: list[int], first: Any, then: list[str]
) -> None:
    """Which DxDispatch cannot do: it asks for all three in either place."""
    data = bound(join(*owned), *then, owned=first)
    loaded = load_model(write(tmp_path, data))
    (remark,) = loaded.check().findings
    assert str(remark).endswith(
        "desc.InputTensors: JOIN: DxDispatch has all of InputTensors OWNED_BY_DML or none of them: it binds them"
        " together"
    )
    assert loaded.run(engine).resources["out"].tolist() == [1, 2, 3, 4, 5, 6]
    assert loaded.check().memory_in_bytes == 48 + sum(4 * (2, 1, 3)[i] + 255 for i in owned)


def test_what_is_owned_keeps_its_first_values(tmp_path: Path, engine: str) -> None:
    data = bound(join(1), "a", "c", owned=["b"])
    data["dispatchables"]["fill"] = {
        "type": "FILL_VALUE_CONSTANT",
        "desc": {"OutputTensor": tensor(1), "ValueDataType": "FLOAT32", "Value": 9},
    }
    data["commands"].insert(0, {"type": "dispatch", "dispatchable": "fill", "bindings": {"OutputTensor": "b"}})
    found = load_model(write(tmp_path, data)).run(engine).resources
    assert (found["b"].tolist(), found["out"].tolist()) == ([9], [1, 2, 3, 4, 5, 6])


def test_counts_of_those_that_are_bound_in_one_place(tmp_path: Path) -> None:
    everywhere = bound(join(1), "a", "b", "c", owned=["a", "b", "c"])
    found = [(place, text) for kind, place, text in findings(tmp_path, everywhere) if kind != "remark"]
    assert found == [
        (
            "$.dispatchables.join.bindings.InputTensors[1]",
            (
                "JOIN: InputTensors must be bound here to one resource, for InputTensors[1]; got 3; the others are"
                " bound by the dispatch command, not being OWNED_BY_DML"
            ),
        ),
        (
            "$.commands[0].bindings.InputTensors[2]",
            (
                "JOIN: InputTensors must be bound here to 2 resources, for InputTensors[0], InputTensors[2]; got 3;"
                f" the others are bound by the dispatchable's own bindings, {OWNED}"
            ),
        ),
    ]
    nowhere = join(1)
    del nowhere["commands"][0]["bindings"]["InputTensors"]
    assert [text for kind, _, text in findings(tmp_path, nowhere) if kind != "remark"] == [
        f"JOIN: InputTensors must be bound by the dispatchable's own bindings, {OWNED}",
        "JOIN: InputTensors must be bound by the dispatch command",
    ]


# Very many


def many(count: int) -> dict[str, Any]:
    fields = {"InputTensor": tensor(count), "OutputCount": count, "OutputTensors": [tensor(1)] * count, "Axis": 0}
    bindings = {"InputTensor": "in", "OutputTensors": [str(i) for i in range(count)]}
    return {
        "resources": {"in": floats(*range(count)), **{str(i): floats(0) for i in range(count)}},
        "dispatchables": {"split": {"type": "SPLIT", "desc": fields}},
        "commands": [{"type": "dispatch", "dispatchable": "split", "bindings": bindings}],
    }


def test_very_many_tensors(tmp_path: Path) -> None:
    loaded = load_model(write(tmp_path, many(300)))
    assert loaded.check().findings == ()
    found = loaded.run("reference").resources
    assert [found[str(i)].tolist() for i in range(300)] == [[i] for i in range(300)]
    data = many(300)
    data["commands"][0]["bindings"]["OutputTensors"] = ["0"] * 300
    assert len(check_file(write(tmp_path, data)).faults) == 1001, "not each of 300 with each"
    ((kind, place, said),) = findings(tmp_path, changed(many(MOST_TENSORS + 1), "commands", []))
    assert (kind, place) == ("unsupported", "$.dispatchables.split.desc.OutputTensors")
    assert said == f"SPLIT: OutputTensors must have at most {MOST_TENSORS} tensors; got {MOST_TENSORS + 1}"

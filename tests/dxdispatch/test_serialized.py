"""Serialized graphs as dispatchables: what they compute, and what a file that is none, or a hostile one, is told."""

from __future__ import annotations

import contextlib
import random
import struct
from typing import TYPE_CHECKING, Any

import flatbuffers
import numpy as np
import pytest

import anydml as dml
from anydml.dxdispatch import check_file, load_model
from anydml.dxdispatch.flatbuffers import Struct, Union, read_flat
from anydml.dxdispatch.serialized import SCHEMA
from modelling import ZEROS, findings, floats, write

if TYPE_CHECKING:
    from pathlib import Path

WIDTHS = {"uint32": 4, "int32": 4, "float": 4, "uint8": 1}


def put(builder: Any, kind: str, value: Any) -> int:
    """Write a table or a struct of the schema from plain values; gives its offset."""
    fields = SCHEMA[kind]
    if isinstance(fields, Struct):
        data = struct.pack(f"<{fields.format}", *value)
        builder.Prep(8, len(data))
        for byte in reversed(data):
            builder.Place(byte, flatbuffers.number_types.Uint8Flags)
        return int(builder.Offset())
    made = {
        name: put_value(builder, field, value[name]) for name, field in fields.items() if value.get(name) is not None
    }
    builder.StartObject(sum(2 if isinstance(field, Union) else 1 for field in fields.values()))
    slot = 0
    for name, field in fields.items():
        if isinstance(field, Union):
            if name in made:
                builder.PrependUint8Slot(slot, made[name][0], 0)
                builder.PrependUOffsetTRelativeSlot(slot + 1, made[name][1], 0)
            slot += 1
        elif name in made:
            (builder.PrependUint64Slot if field == "uint64" else builder.PrependUOffsetTRelativeSlot)(
                slot, made[name], 0
            )
        slot += 1
    return int(builder.EndObject())


def put_value(builder: Any, field: str | Union, value: Any) -> Any:
    if isinstance(field, Union):
        kind, inner = value
        return field.members.index(kind) + 1, put(builder, kind, inner)
    if field == "uint64":
        return value
    if field == "string":
        return builder.CreateString(value)
    inner_kind = field[1:-1]
    if not field.startswith("["):
        return put(builder, field, value)
    if inner_kind in WIDTHS:
        names = {"uint32": "uint32", "int32": "int32", "float": "float32", "uint8": "uint8"}
        return builder.CreateNumpyVector(np.asarray(value, names[inner_kind]))
    made = [put_value(builder, inner_kind, one) for one in value]
    builder.StartVector(4, len(made), 4)
    for one in reversed(made):
        builder.PrependUOffsetTRelative(one)
    return builder.EndVector()


def serialized(graph: dict[str, Any]) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(put(builder, "DmlGraphDesc", graph))
    return bytes(builder.Output())


def tensor(*sizes: int, kind: str = "FLOAT32", **others: Any) -> dict[str, Any]:
    size = 4 * int(np.prod(sizes))
    return {"dataType": f"DML_TENSOR_DATA_TYPE_{kind}", "sizes": sizes, "totalTensorSizeInBytes": size, **others}


def operator(kind: str, inputs: dict[str, Any], outputs: dict[str, Any], **attributes: Any) -> dict[str, Any]:
    """A node of an operator, with tensors by the names of edges; one that is left out has None."""
    several = [{name: one for name, one in tensors.items() if one is not None} for tensors in (inputs, outputs)]
    desc = {
        "type": f"DML_OPERATOR_{kind}",
        "inputs": list(several[0].values()),
        "outputs": list(several[1].values()),
        "attributes": [{"name": name, "val": value} if value else {} for name, value in attributes.items()],
    }
    names = [["" if tensors[name] is None else name for name in tensors] for tensors in (inputs, outputs)]
    return {"desc": ("OperatorNodeDesc", desc), "name": kind.lower(), "inputNames": names[0], "outputNames": names[1]}


def constant(name: str, data: Any) -> dict[str, Any]:
    found = ("ConstantName", {"name": data}) if isinstance(data, str) else ("ConstantRawData", {"data": data})
    return {"desc": ("ConstantNodeDesc", {"data": found}), "name": name, "inputNames": [], "outputNames": [name]}


def network() -> dict[str, Any]:
    """relu(x·w + b), cut off at 2 and 9.5, with x beside it."""
    small, matrix = tensor(1, 1, 1, 3), tensor(1, 1, 3, 3)
    relu = ("Activation", {"type": "DML_OPERATOR_ACTIVATION_LINEAR", "attributes": [
        {"name": "Alpha", "val": ("Float32", (2.0,))}, {"name": "Beta", "val": ("Float32", (1.0,))}]})  # fmt: skip
    bounds = [("ScalarUnionData", {"data": ("ByteArray", (struct.pack("<fI", n, 0),))}) for n in (2.0, 9.5)]
    nodes = [
        constant("w", "weights"),
        constant("b", np.array([1, 0, -1], "<f4").view("uint8")),
        operator("GEMM", {"x": small, "w": matrix, "b": small}, {"y": small}, TransA=("UInt32", (0,)),
                 TransB=("UInt32", (1,)), Alpha=("Float32", (1.0,)), Beta=("Float32", (1.0,)), FusedActivation=relu),
        operator("ELEMENT_WISE_CLIP1", {"y": small}, {"z": small}, ScaleBias=("ScaleBias", (1.0, 0.5)),
                 MinMaxDataType=("UInt32", (1,)), Min=bounds[0], Max=bounds[1]),
        operator("JOIN", {"z": small, "x": small}, {"out": tensor(1, 1, 1, 6)}, Axis=("UInt32", (3,))),
    ]  # fmt: skip
    return {"nodes": nodes, "graphInputNames": ["x"], "graphOutputNames": ["out"]}


def model(**sections: Any) -> dict[str, Any]:
    return {
        "resources": {"in": floats(1, 2, 3), "out": {**ZEROS, "initialValues": {"valueCount": 6, "value": 0}}},
        "dispatchables": {"net": {"type": "dmlSerializedGraph", "sourcePath": "graphs/net.bin"}},
        "commands": [{"type": "dispatch", "dispatchable": "net", "bindings": {"x": "in", "out": "out"}}],
        **sections,
    }


def prepare(folder: Path, graph: dict[str, Any] | bytes | None = None, **sections: Any) -> Path:
    (folder / "graphs").mkdir()
    data = graph if isinstance(graph, bytes) else serialized(network() if graph is None else graph)
    (folder / "graphs" / "net.bin").write_bytes(data)
    (folder / "graphs" / "weights.bin").write_bytes(np.arange(9, dtype="<f4").tobytes())
    return write(folder, model(**sections))


def test_a_graph_computes_what_it_says(tmp_path: Path) -> None:
    loaded = load_model(prepare(tmp_path))
    report = loaded.check()
    assert [(one.name, one.operator) for one in report.dispatchables] == [("net", "graph")]
    assert report.memory_in_bytes >= 36
    x = np.array([1, 2, 3], "float32")
    product = x @ np.arange(9, dtype="float32").reshape(3, 3).T + [1, 0, -1]
    expected = np.concatenate([np.clip(2 * product + 1 + 0.5, 2, 9.5), x])
    np.testing.assert_array_equal(loaded.run().resources["out"], expected)


def test_the_schema_reads_back_what_was_written() -> None:
    graph = network()
    found = read_flat(serialized(graph), "DmlGraphDesc", SCHEMA)
    assert found["graphInputNames"] == ["x"]
    assert [node["name"] for node in found["nodes"]] == [node["name"] for node in graph["nodes"]]
    assert found["nodes"][2]["desc"][1]["inputs"][1]["sizes"] == [1, 1, 3, 3]
    assert found["nodes"][2]["desc"][1]["attributes"][4]["val"][1]["attributes"][0]["val"] == ("Float32", (2.0,))


def broken() -> dict[str, tuple[dict[str, Any], str]]:
    """Graphs at fault, and what is said of them."""
    graph = network()
    nodes = graph["nodes"]
    gone = [nodes[0], {**nodes[1], "desc": None}, *nodes[2:]]
    lost = [constant("w", "nowhere"), *nodes[1:]]
    outside = [constant("w", "../weights"), *nodes[1:]]
    odd = [*nodes[:4], {**nodes[4], "desc": ("OperatorNodeDesc", {**nodes[4]["desc"][1], "type": "DML_OPERATOR_X"})}]
    bare = [*nodes[:4], {**nodes[4], "desc": ("OperatorNodeDesc", {**nodes[4]["desc"][1], "attributes": []})}]
    small = [*nodes[:4], operator("JOIN", {"z": tensor(1, 1, 1, 2), "x": tensor(1, 1, 1, 3)},
                                  {"out": tensor(1, 1, 1, 6)}, Axis=("UInt32", (3,)))]  # fmt: skip
    return {
        "no desc": ({**graph, "nodes": gone}, "nodes[1] 'b': the node must be an operator or a constant"),
        "no file": ({**graph, "nodes": lost}, "the file cannot be read"),
        "outside": ({**graph, "nodes": outside}, 'the path must not have ".."'),
        "no operator": ({**graph, "nodes": odd}, "must be the name or the number of a DirectML operator"),
        "no attribute": ({**graph, "nodes": bare}, "nodes[4] 'join': JOIN: Axis must be given"),
        "no edge": ({**graph, "graphInputNames": ["q"]}, "there must be an input, or a node before it, that gives 'x'"),
        "sizes": ({**graph, "nodes": small}, "nodes[4] 'join': JOIN: OutputTensor.Sizes[3] must be 5"),
        "nothing": ({}, "must be"),
    }


@pytest.mark.parametrize("name", broken())
def test_a_graph_at_fault_is_told_so(name: str, tmp_path: Path) -> None:
    graph, message = broken()[name]
    prepare(tmp_path, graph)
    report = check_file(tmp_path / "model.json")
    assert not report
    assert any(message in str(fault) for fault in report.faults), report.faults
    assert all("$.dispatchables.net" in str(fault) or "$.commands" in str(fault) for fault in report.faults)


def test_bindings_are_checked_by_the_names_of_the_graph(tmp_path: Path) -> None:
    small = {"in": floats(1, 2), "out": ZEROS}
    bindings = {"x": "in", "y": "out"}
    prepare(tmp_path, resources=small, commands=[{"type": "dispatch", "dispatchable": "net", "bindings": bindings}])
    texts = [str(fault) for fault in check_file(tmp_path / "model.json").faults]
    assert any("graph: there is no tensor 'y'; there are x, out" in text for text in texts)
    assert any("graph: out must be bound by the dispatch command" in text for text in texts)
    assert any("x: SizeInBytes must be at least 12" in text for text in texts)


def test_a_level_that_has_not_all_operators_is_told(tmp_path: Path) -> None:
    prepare(tmp_path)
    assert any("needs DML_FEATURE_LEVEL" in str(fault) for fault in check_file(tmp_path / "model.json", "2_0").faults)


def test_hostile_files_end_in_an_error_and_take_no_longer_than_others(tmp_path: Path) -> None:
    data = serialized(network())
    prepare(tmp_path, data)
    chance = random.Random(3)  # noqa: S311 - for tests
    path = tmp_path / "graphs" / "net.bin"
    for _ in range(300):
        spoilt = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            spoilt[chance.randrange(len(spoilt))] = chance.choice([0, 1, 4, 127, 255, chance.randrange(256)])
        path.write_bytes(spoilt[: chance.choice([len(spoilt), len(spoilt), chance.randrange(len(spoilt))])])
        with contextlib.suppress(dml.DmlError):
            load_model(tmp_path / "model.json").check()


def test_many_offsets_to_one_place_are_refused() -> None:
    """A list of 100,000 nodes that are all the same one, which is large, would take gigabytes to read."""
    builder = flatbuffers.Builder(1 << 20)
    names = [builder.CreateString("a" * 1000) for _ in range(100)]
    builder.StartVector(4, 50_000, 4)
    for _ in range(50_000):
        builder.PrependUOffsetTRelative(names[0])
    several = builder.EndVector()
    builder.StartObject(3)
    builder.PrependUOffsetTRelativeSlot(1, several, 0)
    builder.Finish(builder.EndObject())
    with pytest.raises(dml.ModelFileError, match="many lead to the same"):
        read_flat(bytes(builder.Output()), "DmlGraphDesc", SCHEMA)
    with pytest.raises(dml.ModelFileError, match="an offset must lie in its 0 bytes"):
        read_flat(b"", "DmlGraphDesc", SCHEMA)


def test_tables_that_lie_very_deep_are_refused() -> None:
    """An activation with an activation as its attribute, and so on."""
    inner: dict[str, Any] = {"type": "RELU"}
    for _ in range(20):
        inner = {"type": "RELU", "attributes": [{"name": "x", "val": ("Activation", inner)}]}
    builder = flatbuffers.Builder(1024)
    builder.Finish(put(builder, "Activation", inner))
    with pytest.raises(dml.ModelFileError, match="at most 16 deep"):
        read_flat(bytes(builder.Output()), "Activation", SCHEMA)


def test_a_dispatch_of_a_graph_is_no_node_of_another(tmp_path: Path) -> None:
    from anydml.dxdispatch.graph import graph_of

    with pytest.raises(dml.UnsupportedError, match="each dispatchable must be an operator"):
        graph_of(load_model(prepare(tmp_path)))


def test_findings_name_the_file(tmp_path: Path) -> None:
    prepare(tmp_path, b"no graph at all")
    assert [path for _, path, _ in findings(tmp_path, model())] == ["$.dispatchables.net.sourcePath"]

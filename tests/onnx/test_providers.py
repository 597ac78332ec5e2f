"""What ONNX Runtime's providers take to a GPU, foretold from the kernels that it documents."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from onnx_saved import DOUBLE, FLOAT, INT64, onnx, program, save  # isort: skip - it asks for onnx

from anydml.onnx.library import node_kinds
from anydml.onnx.tools.providers import PROVIDERS, Forecast, forecast
from scripts.provider_kernels import by_row, directml, documented, registered, webgpu

if TYPE_CHECKING:
    from pathlib import Path

make = onnx.helper.make_node


def left(found: Forecast) -> dict[str, str]:
    """The kinds of reasons of the nodes on the CPU, by their names."""
    return {node.label.split("'")[1]: node.why.kind for node in found.nodes if node.why is not None}


def tokens(folder: Path) -> Path:
    """Images as tokens, before which a token of its own is put for each of the batch: the beginning of a ViT."""
    nodes = [
        make("Shape", ["x"], ["s"], name="shape"),
        make("Gather", ["s", "zero"], ["n"], name="batch", axis=0),
        make("Unsqueeze", ["n", "first"], ["n1"], name="as list"),
        make("Concat", ["n1", "sizes"], ["to"], name="joined sizes", axis=0),
        make("Expand", ["token", "to"], ["t"], name="repeat"),
        make("Conv", ["x", "w"], ["c"], name="patches", strides=[4, 4]),
        make("Reshape", ["c", "flat"], ["f"], name="flat"),
        make("Transpose", ["f"], ["p"], name="rows", perm=[0, 2, 1]),
        make("Concat", ["t", "p"], ["y"], name="joined tokens", axis=1),
    ]
    constants = {
        "zero": np.array(0, np.int64),
        "first": np.array([0], np.int64),
        "sizes": np.array([1, 8], np.int64),
        "token": np.ones((1, 1, 8), np.float32),
        "w": np.ones((8, 3, 4, 4), np.float32),
        "flat": np.array([0, 8, -1], np.int64),
    }
    return save(folder / "tokens.onnx", nodes, {"x": (FLOAT, ["batch", 3, 16, 16])}, {"y": FLOAT}, constants)


@pytest.mark.parametrize("provider", ["dml", "cuda", "webgpu"])
def test_what_computes_shapes_stays_on_the_cpu(provider: str, tmp_path: Path) -> None:
    """As in a published log: of a vision transformer one Concat ran on the CPU, and another by DirectML."""
    found = forecast(tokens(tmp_path), provider)
    assert left(found) == dict.fromkeys(("batch", "as list", "joined sizes"), "shape")
    assert (found.on_gpu, len(found.nodes)) == (6, 9)
    assert found.copies == ()  # Shape's result lies on the CPU, and Expand reads its sizes there
    assert f"{PROVIDERS[provider]}'s provider of ONNX Runtime {found.version} takes 6 of 9 nodes; 3 stay" in str(found)


def of(nodes: list[Any], inputs: dict[str, Any], output: int, path: Path, opset: int) -> Forecast:
    """DirectML's forecast of a model."""
    saved = save(path / "m.onnx", nodes, inputs, {nodes[-1].output[0]: output})
    model = onnx.load(saved)
    model.opset_import[0].version = opset
    return forecast(model, "dml")


def test_a_node_without_a_kernel_stays_and_its_tensors_are_copied(tmp_path: Path) -> None:
    nodes = [
        make("Relu", ["x"], ["a"], name="before"),
        make("Det", ["a"], ["b"], name="lacks"),
        make("Exp", ["b"], ["y"], name="after"),
    ]
    found = of(nodes, {"x": (FLOAT, [4, 3, 3])}, FLOAT, tmp_path, 13)
    assert left(found) == {"lacks": "no kernel"}
    assert [(copy.name, copy.to_gpu) for copy in found.copies] == [("a", False), ("b", True)]
    assert "ONNX Runtime's DirectML provider has no kernel for Det" in str(found)
    assert "1 tensor copied to the GPU: 'b' for node 'after' (Exp)" in str(found)


def test_opsets_and_types_that_no_kernel_takes(tmp_path: Path) -> None:
    nodes = [make("Transpose", ["x"], ["t"], name="newer"), make("Exp", ["t"], ["y"], name="same")]
    found = of(nodes, {"x": (FLOAT, [2, 3])}, FLOAT, tmp_path, 23)
    assert left(found) == {"newer": "opset"}
    assert "export the model with opset 22" in str(found)
    assert left(of(nodes, {"x": (FLOAT, [2, 3])}, FLOAT, tmp_path, 21)) == {}
    found = of([make("Exp", ["x"], ["y"], name="wide")], {"x": (DOUBLE, [4, 3])}, DOUBLE, tmp_path, 13)
    assert left(found) == {"wide": "data type"}
    assert "takes float16, float32, and no float64" in str(found)
    assert "a Cast to float32 in front of it" in str(found)
    # an input that a kernel reads on the CPU may have any type
    assert (
        left(of([make("Tile", ["x", "n"], ["y"])], {"x": (FLOAT, [2]), "n": (INT64, [1])}, FLOAT, tmp_path, 13)) == {}
    )


def test_types_of_onnx_runtimes_own_nodes_are_those_that_it_documents(tmp_path: Path) -> None:
    domain = {"domain": "com.microsoft"}
    node = make("MatMulNBits", ["x", "b", "s"], ["y"], name="packed", K=32, N=4, bits=4, block_size=32, **domain)
    constants = {"b": np.ones((4, 1, 16), np.uint8), "s": np.ones(4, np.float32)}
    path = save(tmp_path / "m.onnx", [node], {"x": (FLOAT, [2, 32])}, {"y": FLOAT}, constants)
    model = onnx.load(path)
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    assert left(forecast(model, "dml")) == left(forecast(model, "cuda")) == {}


def test_the_command_foretells(tmp_path: Path) -> None:
    path = tokens(tmp_path)
    result = program("check", path, "--provider", "dml")
    assert result.exit_code == 0
    assert "DirectML's provider of ONNX Runtime" in result.output
    assert "no published table has the attributes that a kernel refuses" in result.output
    data = json.loads(program("check", path, "--provider", "cuda", "--json").stdout)["provider"]
    assert (data["provider"], data["on_gpu"], len(data["on_cpu"])) == ("cuda", 6, 3)
    assert program("check", path, "--provider", "directml").exit_code == 2
    assert program("check", "examples/models/slice1.json", "--provider", "dml").exit_code == 2


def test_the_tables_are_of_node_types() -> None:
    from anydml.onnx.tools.providers import _kernels, _tables

    known = node_kinds()
    for provider, rows in _tables()["providers"].items():
        own = [kind for kind in rows if "." not in kind]
        assert len([kind for kind in own if kind in known]) > 0.9 * len(own)
        for kind in rows:
            assert all(1 <= row.first <= (row.last or row.first) for row in _kernels(provider, kind))


def test_the_tables_are_read_from_documents_and_registrations() -> None:
    text = """## Operators implemented by DmlExecutionProvider
|**Operator Domain:** *ai.onnx*||||
|Abs|*in* X:**T**<br> *out* Y:**T**|13+|**T** = tensor(float), tensor(int8)|
|||[6, 12]|**T** = tensor(double)<br/> **T1** = tensor(bool)|
|**Operator Domain:** *com.microsoft*||||
|Gelu|*in* X:**T**|1+|**T** = tensor(float16)|
"""
    found, slots = documented(text)
    assert slots == {"com.microsoft.Gelu": [["T"], []]}
    assert found["dml"] == {
        "Abs": {
            "13+": {"types": {"T": ["float32", "int8"]}},
            "6-12": {"types": {"T": ["float64"], "T1": ["bool"]}},
        },
        "com.microsoft.Gelu": {"1+": {"types": {"T": ["float16"]}}},
    }
    assert webgpu("| Abs | ai.onnx(6-12,13+); com.microsoft(1+) | none |") == {
        "Abs": {"6-12": {}, "13+": {}},
        "com.microsoft.Abs": {"1+": {}},
    }
    source = """ONNX_OPERATOR_VERSIONED_KERNEL_EX(Shape, kOnnxDomain, 1, 12, kCuda, (*KernelDefBuilder::Create())
      .OutputMemoryType(OrtMemTypeCPUInput, 0).InputMemoryType(OrtMemTypeCPUInput, 2), S);"""
    assert registered([source]) == {("Shape", "1-12"): {"cpu_in": [2], "cpu_out": [0]}}
    rows = directml("{REG_INFO_COPY( 7, Reshape, names, types, Supported, requiredConstantCpuInputs(1, 3))},")
    assert by_row(rows, {"Reshape": {"5+": {}, "13+": {}}}) == {("Reshape", "5+"): {"cpu_in": [1, 3], "cpu_out": []}}

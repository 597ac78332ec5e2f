"""Every object that a user can hold says in words what it is, and a notebook shows it."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.core.display import Shown, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

X = np.arange(6, dtype="float32").reshape(2, 3)
MODELS = Path(__file__).parents[2] / "examples" / "models"


def held() -> dict[str, Any]:
    device, graph = dml.Device("reference"), dml.Graph("reference")
    desc = dml.CumulativeSummation.infer(input_tensor=dml.TensorDesc.of(X), axis=1)
    compiled, expression = device.compile(desc), dml.relu(graph.input(X))
    whole = graph.compile(expression)
    model = dml.dxdispatch.load_model(str(MODELS / "slice1.json"))
    found = {
        "Operator": device.create_operator(desc),
        "CompiledOperator": compiled,
        "CUMULATIVE_SUMMATION, bound to its arrays": compiled.bind(X, out=np.empty_like(X)),
        "CompiledGraph": whole,
        "Graph, bound": whole.bind(X, out=np.empty_like(X)),
        "Graph(": graph,
        "Expression": expression,
        "BindingTable for CUMULATIVE_SUMMATION; inputs unbound": device.create_binding_table(compiled),
        "OperatorInitializer for CUMULATIVE_SUMMATION": device.create_operator_initializer([compiled]),
        "CommandRecorder": device.create_command_recorder(),
        "CommandList, open; 0 commands": device.create_command_list(),
        "from level 4_0\n  ATensor       2 to 4 dimensions; FLOAT32, FLOAT16\n": dml.support("GEMM"),
        "2 to 4 dimensions; FLOAT32, FLOAT16": dml.Gemm.support.rows[0].tensors["ATensor"],
        "from level 4_0\n  ATensor ": dml.Gemm.support,
        "CUMULATIVE_SUMMATION: valid, from level 4_0 on": desc.check(),
        "CUMULATIVE_SUMMATION: 2 faults at level 1_0; valid, from level 4_0 on\n  ": desc.check("1_0"),
        "slice1.json: resources input, output, backward_output\n  crop: Slice1(": model,
        "slice1.json: 0 faults at level 6_4\n  'crop': SLICE1, valid from level": model.check(),
        "dispatches: 2; files written: 0\n  input: array(": model.run(),
    }
    if importlib.util.find_spec("onnx"):
        found["crop.onnx: can run at level 6_4, 4 nodes\n  x: float"] = dml.onnx.check(str(MODELS / "crop.onnx"))
        found["crop.onnx': x: float[batch,6]"] = dml.onnx.load(str(MODELS / "crop.onnx"))
    return found


def test_everything_says_what_it_is() -> None:
    for words, value in held().items():
        assert words in str(value), value
        assert repr(value).splitlines()[0] in str(value)
        assert " object at 0x" not in repr(value)
        html = value._repr_html_()
        assert html.startswith("<"), type(value)
        assert "<script src" not in html


def test_reports_tables_models_and_results_are_tables_in_a_notebook() -> None:
    has_table = {type(value).__name__ for value in held().values() if "<table" in value._repr_html_()}
    assert {"BoundOperator", "BindingTable", "LevelSupport", "SupportTable", "Report"} <= has_table
    assert {"Graph", "Expression", "TensorSupport", "OperatorInitializer"} <= has_table
    assert {"Model", "ModelReport", "RunResult"} <= has_table
    table = dml.Gemm.support._repr_html_()
    assert re.findall(r"<th [^>]*>(.*?)</th>", table) == ["from level", "tensor", "dimensions", "types"]
    assert table.count("<tr") == 1 + sum(len(row.tensors) for row in dml.Gemm.support)


def test_a_command_list_is_a_table_of_its_dispatches() -> None:
    device, x = dml.Device("reference"), dml.TensorDesc("float32", (2, 3))
    relu = dml.ActivationRelu(input_tensor=x, output_tensor=x)
    compiled = device.compile_operator(device.create_operator(relu))
    initializer, bindings = device.create_operator_initializer([compiled]), device.create_binding_table(compiled)
    commands, recorder = device.create_command_list(), device.create_command_recorder()
    recorder.record_dispatch(commands, initializer, device.create_binding_table(initializer))
    bindings.bind_inputs([dml.BufferBinding(bytearray(24))])
    bindings.bind_outputs([dml.BufferBinding(bytearray(24))])
    recorder.record_dispatch(commands, compiled, bindings)
    cells = re.findall(r"<td [^>]*>(.*?)</td>", commands._repr_html_())
    assert cells[:4] == ["0", "OperatorInitializer", "ACTIVATION_RELU", "persistent resources"]
    assert cells[4:] == ["1", "ACTIVATION_RELU", "InputTensor FLOAT32 {2,3}", "OutputTensor FLOAT32 {2,3}"]
    device.execute([commands])


def test_a_graph_description_is_a_picture_or_its_faults() -> None:
    device, x = dml.Device("reference"), dml.TensorDesc("float32", (2, 3))
    relu = device.create_operator(dml.ActivationRelu(input_tensor=x, output_tensor=x))
    nodes, outputs = [dml.OperatorNode(relu)], [dml.OutputEdge(0, 0, 0)]  # type: ignore[arg-type]  # as DirectML has it
    assert "<svg" in dml.GraphDesc(1, 1, nodes, [dml.InputEdge(0, 0, 0)], outputs)._repr_html_()
    assert "must be fed by an edge" in dml.GraphDesc(0, 1, nodes, [], outputs)._repr_html_()


def test_columns_of_numbers_stand_on_the_right_and_many_rows_are_cut() -> None:
    class Many(Shown):
        def _shown(self) -> Iterator[str | Table]:
            yield "many"
            yield Table("", ("name", "count", "share"), [("<b>", k, f"{k}.5%") for k in range(1_000)])

    html = Many()._repr_html_()
    first = re.findall(r'<td style="([^"]*)">(.*?)</td>', html)[:3]
    assert [text for _, text in first] == ["&lt;b&gt;", "0", "0.5%"]
    assert ["text-align:right" in style for style, _ in first] == [False, True, True]
    assert html.count("<tr") == 62
    assert "and 940 more" in html


def test_words_are_escaped_in_a_notebook() -> None:
    class Hostile(Shown):
        def __str__(self) -> str:
            return "<script>alert(1)</script>"

    assert "<script>" not in Hostile()._repr_html_()


def test_dataclasses_keep_what_they_compare_by() -> None:
    assert dml.support("GEMM") == dml.Gemm.support.at("6_4")
    with pytest.raises(AttributeError):
        dml.support("GEMM").level = None  # type: ignore[misc,union-attr]  # refused

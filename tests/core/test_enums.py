"""The vocabulary: DirectML's names and values, and the spellings that people type."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pytest

import anydml as dml
from anydml import AxisDirection, DataType, ExecutionFlags, FeatureLevel, OperatorType, TensorFlags
from anydml.core.display import Shown, Table
from anydml.core.enums import LevelName
from anydml.engines import ENGINES
from anydml.runtime.device import DeviceName

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_data_types_have_directml_values() -> None:
    names = ["FLOAT32", "FLOAT16", "UINT32", "UINT16", "UINT8", "INT32", "INT16", "INT8", "FLOAT64", "UINT64", "INT64"]
    assert [(t.name, int(t)) for t in DataType] == list(zip([*names, "UINT4", "INT4"], range(1, 14), strict=True))
    assert {t.dtype for t in DataType} == {np.dtype(name.lower()) for name in names}
    assert [t.bytes_of(3) for t in DataType] == [12, 6, 12, 6, 3, 12, 6, 3, 24, 24, 24, 2, 2]


@pytest.mark.parametrize(
    "spelling",
    ["float32", "FLOAT32", " Float32 ", "DML_TENSOR_DATA_TYPE_FLOAT32", "f4", np.float32, np.dtype("float32"), 1],
)
def test_data_type_spellings(spelling: Any) -> None:
    assert DataType(spelling) is DataType.FLOAT32


@pytest.mark.parametrize("spelling", [None, "", "float8", object(), 0, 14, np.complex64, ">f4", bool, "bool", [1]])
def test_what_is_no_data_type(spelling: Any) -> None:
    with pytest.raises(dml.DescriptionError, match="must be one of FLOAT32, "):
        DataType(spelling)


def test_feature_levels_are_ordered_with_directml_values() -> None:
    names = ["1_0", "2_0", "2_1", "3_0", "3_1", "4_0", "4_1", "5_0", "5_1", "5_2", "6_0", "6_1", "6_2", "6_3", "6_4"]
    assert [str(level) for level in FeatureLevel] == names
    assert [int(level) for level in FeatureLevel] == [int(name.replace("_", ""), 16) << 8 for name in names]
    assert sorted(FeatureLevel) == list(FeatureLevel)
    assert FeatureLevel("2_1") < FeatureLevel("3_0") < FeatureLevel.highest() == FeatureLevel("6_4")
    assert f"{FeatureLevel('5_0')}" == "5_0"
    assert FeatureLevel("5_0").dml_name == "DML_FEATURE_LEVEL_5_0"


@pytest.mark.parametrize(
    "spelling", ["5_0", "DML_FEATURE_LEVEL_5_0", "dml_feature_level_5_0", "LEVEL_5_0", "5.0", 0x5000]
)
def test_feature_level_spellings(spelling: Any) -> None:
    assert FeatureLevel(spelling) is FeatureLevel.LEVEL_5_0


def test_flags_and_directions() -> None:
    assert (int(AxisDirection("increasing")), int(AxisDirection("DML_AXIS_DIRECTION_DECREASING"))) == (0, 1)
    assert AxisDirection.DECREASING.dml_name == "DML_AXIS_DIRECTION_DECREASING"
    assert TensorFlags("DML_TENSOR_FLAG_OWNED_BY_DML") is TensorFlags.OWNED_BY_DML
    assert int(TensorFlags.OWNED_BY_DML) == 1
    assert TensorFlags("none") == TensorFlags(0) == TensorFlags.NONE
    flags = ExecutionFlags("DML_EXECUTION_FLAG_DISABLE_META_COMMANDS | DESCRIPTORS_VOLATILE")
    assert flags == ExecutionFlags(6) == ExecutionFlags.DISABLE_META_COMMANDS | ExecutionFlags.DESCRIPTORS_VOLATILE
    for wrong in ("", "OWNED", 2, None, -1, 1.5):
        with pytest.raises(dml.DescriptionError, match="must be one of NONE, OWNED_BY_DML"):
            TensorFlags(wrong)


def test_operator_types_are_the_headers() -> None:
    assert [int(t) for t in OperatorType] == list(range(len(OperatorType)))
    # Spot checks at the borders of the header's groups of levels.
    assert OperatorType(1) is OperatorType.ELEMENT_WISE_IDENTITY
    known = {"DML_OPERATOR_GRU": 78, "ELEMENT_WISE_SIGN": 79, "gather_nd1": 140, "UNFOLD": 177}
    assert {name: int(OperatorType(name)) for name in known} == known
    assert OperatorType("SCATTER_ELEMENTS") is OperatorType("SCATTER")
    assert OperatorType("slice1").dml_name == "DML_OPERATOR_SLICE1"


@pytest.mark.parametrize("cls", [DataType, FeatureLevel, AxisDirection, dml.IndexMode, OperatorType, TensorFlags])
@pytest.mark.parametrize("value", [np.arange(3), [1], {}, True, 1.0, object()], ids=lambda v: type(v).__name__)
def test_what_no_enumeration_reads(cls: Any, value: Any) -> None:
    with pytest.raises(dml.DescriptionError, match="must be"):
        cls(value)


def test_a_boolean_or_a_float_is_no_number_of_an_enumeration() -> None:
    for value in (True, 1.0, np.True_, np.float32(1)):
        with pytest.raises(dml.DescriptionError, match="DataType must be one of FLOAT32, "):
            dml.TensorDesc(value, (1,))


@pytest.mark.parametrize("cls", [DataType, FeatureLevel, OperatorType, AxisDirection, TensorFlags])
def test_numbers_of_more_digits_than_python_writes(cls: Any) -> None:
    for value in (10**5000, -(10**5000)):
        with pytest.raises(dml.DescriptionError, match="must be"):
            cls(value)


def test_the_names_that_editors_offer_are_all_of_them() -> None:
    assert get_args(LevelName) == tuple(map(str, FeatureLevel))
    assert set(get_args(DeviceName)) == set(ENGINES)


@pytest.mark.parametrize(
    ("cls", "value", "meant"),
    [
        (dml.DataType, "flot32", "FLOAT32"),
        (dml.DataType, "DML_TENSOR_DATA_TYPE_FLOT32", "FLOAT32"),
        (dml.AxisDirection, "increase", "INCREASING"),
        (dml.OperatorType, "GatherND9", "GATHER_ND"),
        (dml.OperatorType, "relu", "ACTIVATION_RELU"),
        (dml.OperatorType, "conv", "CONVOLUTION"),
        (dml.OperatorType, "INVALIDD", ""),
        (dml.AxisDirection, "sideways", ""),
        (dml.DataType, 7.5, ""),
    ],
)
def test_a_near_name_is_suggested(cls: type[dml.DataType], value: object, meant: str) -> None:
    with pytest.raises(dml.DescriptionError) as raised:
        cls(value)
    assert raised.value.faults[0].way_out == (f"did you mean {meant}?" if meant else "")


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
        "slice1.json: valid at feature level 6_4\n  'crop': SLICE1, valid from level": model.check(),
        "dispatches: 2; files written: 0\n  input: array(": model.run(),
    }
    if importlib.util.find_spec("onnx"):
        found["crop.onnx: valid at feature level 6_4, 4 nodes\n  x: float"] = dml.onnx.check(str(MODELS / "crop.onnx"))
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

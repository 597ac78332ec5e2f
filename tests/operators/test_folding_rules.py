"""The rules of the operators that fold, each with its wording, and their levels."""

from __future__ import annotations

import numpy as np
import pytest

import anydml as dml
from anydml import FeatureLevel
from anydml.operators.schema.fields import dml_name
from families.folding import ATTRIBUTES, FOLDING, MVN, SUM, T, describe, make


def test_every_rule_has_the_field_that_it_is_of() -> None:
    with pytest.raises(dml.DescriptionError) as caught:
        make(dml.MeanVarianceNormalization1, **MVN, scale_tensor=T("float32", (5, 3, 3, 5)), epsilon=-1)()
    fields = [fault.field for fault in caught.value.faults]
    assert fields == ["Epsilon", "ScaleTensor.Sizes[0]", "ScaleTensor.Sizes[2]"]


@pytest.mark.parametrize("cls", FOLDING, ids=lambda cls: cls.type.name)
def test_the_first_level_has_it_and_the_one_before_has_not(cls: type[dml.OperatorDesc]) -> None:
    sizes = (1, 1, 2, 3)
    for attributes in ATTRIBUTES.get(cls.type.name, [{}])[:1]:
        desc = describe(cls, dml.DataType.FLOAT32, sizes, (3,), attributes)
        assert desc.check().lowest_level is not None
        for level in FeatureLevel:
            report = desc.check(level)
            if level < cls.introduced():
                assert str(report.faults[0]).startswith("the operator needs ")
        assert desc.check(cls.introduced()).lowest_level == desc.check().lowest_level


def test_functions_have_rows_of_their_own() -> None:
    """As the page lists them, function by function: the lowest level that takes each type."""
    wanted: dict[str, dict[str, str | None]] = {
        "SUM": {"float32": "1_0", "int32": "2_1", "int64": "5_0", "int8": None},
        "AVERAGE": {"float16": "1_0", "int32": None},
        "L1": {"float32": "1_0", "int32": "5_0", "uint64": "5_0", "int16": None},
        "MAX": {"int32": "2_1", "int8": "3_0", "int64": "5_0"},
        "ARGMAX": {"float32": "1_0", "int8": "2_1", "int64": "4_1"},
    }
    for function, levels in wanted.items():
        for kind, level in levels.items():
            desc = dml.Reduce.infer(function=function, input_tensor=T(kind, (1, 1, 2, 2)), axes=(3,))
            if function == "ARGMAX":
                desc = dml.Reduce(
                    function=function, input_tensor=T(kind, (1, 1, 2, 2)), output_tensor=T("uint32", (1, 1, 2, 1)),
                    axes=(3,),
                )  # fmt: skip
            found = desc.check().lowest_level
            assert (found if found is None else str(found)) == level, (function, kind)
    assert {row.functions for row in dml.Reduce.support} == {
        ("ARGMIN", "ARGMAX"), ("AVERAGE", "L2", "LOG_SUM", "LOG_SUM_EXP"), ("L1", "SUM_SQUARE"), ("MIN", "MAX"),
        ("MULTIPLY", "SUM"),
    }  # fmt: skip
    row = dml.support("REDUCE", "2_1")
    assert row is not None
    assert dml.DataType.INT8 in row.tensors["InputTensor"].data_types  # ARGMIN and ARGMAX take it


def test_optional_tensors_keep_their_numbers() -> None:
    """In graphs' edges and in binding tables, as DirectML counts them."""
    g = dml.Graph("reference")
    x, bias = g.input(np.ones((2, 4), "float32")), g.input(np.ones((1, 4), "float32"))
    desc = g.desc(dml.mean_variance_normalization2(x, 1, bias=bias))
    assert [edge.to_node_input_index for edge in desc.input_edges] == [0, 2]
    wrong = dml.GraphDesc(2, 1, desc.nodes, [desc.input_edges[0], dml.InputEdge(1, 0, 1)], desc.output_edges, [])
    with pytest.raises(dml.DmlError, match=r"ToNodeInputIndex must be a tensor that .* has: this one is optional"):
        dml.Device("reference").compile_graph(wrong)
    node = desc.nodes[0]
    assert isinstance(node, dml.OperatorNode)
    device = dml.Device("reference")
    compiled = device.compile_operator(device.create_operator(node.desc))
    table = device.create_binding_table(compiled)
    buffers = [dml.BufferBinding(bytearray(64)) for _ in range(3)]
    table.bind_inputs([buffers[0], None, buffers[1]])
    table.bind_inputs(buffers[:2])
    with pytest.raises(dml.BindingError, match=r"inputs\[1\] must be None: it is of an optional tensor"):
        table.bind_inputs(buffers)


def test_counts_follow_from_the_axes() -> None:
    assert dml.Reduce.infer(**SUM, axes=(1, 3)).axis_count == 2
    assert dml_name("axis_count") == "AxisCount"

"""The vocabulary: DirectML's names and values, and the spellings that people type."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

import anydml as dml
from anydml import AxisDirection, DataType, ExecutionFlags, FeatureLevel, OperatorType, TensorFlags
from anydml.core.enums import LevelName
from anydml.engines import ENGINES
from anydml.runtime.device import DeviceName


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

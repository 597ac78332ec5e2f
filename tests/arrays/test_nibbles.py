"""UINT4 and INT4: two elements to a byte, the first in its low half."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.arrays import allocate, view
from anydml.arrays.nibbles import pack, unpack
from anydml.core.enums import DataType, FeatureLevel
from anydml.operators.schema.facts import support_of, takers_of
from anydml.runtime.binding import bind_array
from anydml.runtime.bound import Layout
from modelling import model, program, run, write

if TYPE_CHECKING:
    from pathlib import Path

    from anydml.core.errors import Fault

HALVES = [DataType.UINT4, DataType.INT4]


@pytest.mark.parametrize("kind", HALVES, ids=str)
def test_numbers_are_packed_low_half_first(kind: DataType) -> None:
    low, high = kind.limits
    numbers = np.arange(low, high + 1).astype(kind.number_dtype)
    assert len(numbers) == 16
    np.testing.assert_array_equal(unpack(pack(numbers), kind), numbers, strict=True)
    assert pack(np.array([1, 2, 3])).tolist() == [0x21, 0x03]
    assert pack(np.array([-1, -8], "int8")).tolist() == [0x8F]


@pytest.mark.parametrize("kind", HALVES, ids=str)
def test_sizes_in_bytes_are_rounded_up(kind: DataType) -> None:
    for sizes, strides, total in (
        ((1,), None, 4), ((8,), None, 4), ((9,), None, 8), ((3, 5), None, 8), ((3, 5), (16, 1), 20),
        ((4, 8), (0, 1), 4),
    ):  # fmt: skip
        desc = dml.TensorDesc(kind, sizes, strides=strides)
        assert desc.total_tensor_size_in_bytes == desc.minimum_implied_size_in_bytes == total
        larger = dml.TensorDesc(kind, sizes, strides=strides, total_tensor_size_in_bytes=total + 4)
        assert larger.minimum_implied_size_in_bytes == total
        with pytest.raises(dml.DescriptionError, match=f"must be at least the {total} that sizes"):
            dml.TensorDesc(kind, sizes, strides=strides, total_tensor_size_in_bytes=total - 1)
    assert repr(desc) == f"TensorDesc('{kind.name.lower()}', (4, 8), strides=(0, 1))"
    layout = Layout.of("InputTensor", dml.TensorDesc(kind, (3, 5)), "cpu")
    assert (layout.below, layout.above, layout.key) == (0, 8, (np.dtype("uint8"), (8,), (1,)))


def test_the_levels_that_have_them() -> None:
    assert takers_of(DataType.INT4) == takers_of(DataType.UINT4) == ["DEQUANTIZE", "QUANTIZE"]
    for kind in HALVES:
        assert kind.introduced is FeatureLevel.LEVEL_6_3
        for level in ("6_2", "6_3"):
            has = dml.Device("reference", feature_level=level).check_feature_support("TENSOR_DATA_TYPE_SUPPORT", kind)
            assert has == (level == "6_3")
    assert (
        HALVES[0]
        in support_of(dml.OperatorType.DEQUANTIZE).row_at(FeatureLevel.highest()).tensors["InputTensor"].data_types
    )


@pytest.mark.parametrize("kind", HALVES, ids=str)
def test_an_operator_that_does_not_take_them_says_which_do(kind: DataType) -> None:
    desc = dml.TensorDesc(kind, [2, 3])
    with pytest.raises(
        dml.DescriptionError, match=f"got {kind.name}; DirectML takes it in DEQUANTIZE and QUANTIZE alone"
    ):
        dml.Device("reference").compile(dml.ElementWiseIdentity(input_tensor=desc, output_tensor=desc))
    with pytest.raises(dml.DescriptionError, match="takes it in DEQUANTIZE and QUANTIZE alone"):
        dml.cast(np.ones(3, "float32"), kind)
    g = dml.Graph("reference")
    with pytest.raises(dml.DescriptionError, match="takes it in DEQUANTIZE and QUANTIZE alone"):
        dml.identity(g.input(desc))


def bound(kind: DataType, array: Any, sizes: Any = (3, 5), *, is_output: bool = False) -> list[Fault]:
    faults: list[Fault] = []
    seen = view(array, "test", "InputTensor", convert=not is_output)
    bind_array("InputTensor", dml.TensorDesc(kind, sizes), seen, is_output=is_output, faults=faults)
    return faults


@pytest.mark.parametrize("kind", HALVES, ids=str)
def test_bytes_are_bound_by_their_number(kind: DataType) -> None:
    for count in (7, 8, 9):
        faults = bound(kind, np.zeros(count, "uint8"), is_output=True)
        assert not faults if count == 8 else "must be 8 bytes in a row, with two elements" in str(faults[0])
    assert not bound(kind, np.zeros((2, 4), "uint8"))
    assert not bound(kind, np.zeros(4, "uint8"), (5,))  # as many as its total size
    assert not bound(kind, np.zeros(3, "uint8"), (5,))
    assert bound(kind, np.zeros((8, 2), "uint8")[:, 0])
    assert "must be an array of" in str(bound(kind, np.zeros(8, "int8"))[0])
    assert allocate(kind, (3, 5)).shape == (8,)
    other = HALVES[1 - HALVES.index(kind)]
    node = dml.ConstantNode(bytes(8), desc=dml.TensorDesc(other, (3, 5)))
    assert len(node.data) == 8
    with pytest.raises(dml.DescriptionError, match="data must have at least 8 bytes"):
        dml.ConstantNode(bytes(7), desc=dml.TensorDesc(other, (3, 5)))


@pytest.mark.parametrize("kind", HALVES, ids=str)
def test_arrays_of_ml_dtypes_are_packed(kind: DataType) -> None:
    library = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    numbers = np.arange(15).reshape(3, 5) % 8
    array = numbers.astype(getattr(library, kind.name.lower()))
    assert DataType(array.dtype) is kind
    assert dml.TensorDesc.of(array).total_tensor_size_in_bytes == 8
    assert not bound(kind, array)
    assert bound(kind, array, (5, 3))
    seen = view(array, "test", "InputTensor")
    np.testing.assert_array_equal(unpack(seen.numpy(), kind)[:15].reshape(3, 5), numbers)
    assert dml.ConstantNode(array).data == pack(numbers).tobytes()
    with pytest.raises(dml.DescriptionError, match="must be an array of packed bytes for an output of 4 bits"):
        bound(kind, array, is_output=True)


def test_resources_of_models(tmp_path: Path) -> None:
    data = model(
        resources={
            "list": {"initialValuesDataType": "INT4", "initialValues": [-8, 7, -1]},
            "same": {"initialValuesDataType": "UINT4", "initialValues": {"value": 9, "valueCount": 4}},
        },
        dispatchables={},
        commands=[{"type": "print", "resource": name} for name in ("list", "same")],
    )
    output = run(write(tmp_path, data)).stdout
    assert "-8, 7, -1, 0" in output
    assert "9, 9, 9, 9" in output
    data["resources"] = {
        "list": {"initialValuesDataType": "INT4", "initialValues": [8]},
        "same": {
            "initialValuesDataType": "UINT4",
            "initialValues": {"valueStart": 0, "valueDelta": 1, "valueCount": 4},
        },
    }
    output = program("check", write(tmp_path, data)).output
    assert "initialValues[0] must be a whole number in -8 .. 7, for INT4" in output
    assert "valueStart is not for UINT4, of which two share a byte" in output

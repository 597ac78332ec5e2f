"""Tensor descriptions: what follows from sizes and strides, how arrays are described; UINT4 and INT4, two to a byte."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.arrays import allocate, view
from anydml.arrays.nibbles import pack, unpack
from anydml.core.enums import DataType, FeatureLevel
from anydml.core.memory import overlaps_itself
from anydml.operators.schema.facts import support_of, takers_of
from anydml.runtime.binding import bind_array
from anydml.runtime.bound import Layout
from modelling import model, program, run, write

if TYPE_CHECKING:
    from pathlib import Path

    from anydml.core.errors import Fault

T = dml.TensorDesc


def test_sizes_in_bytes_are_rounded_up_to_four() -> None:
    assert T("float16", (3,)).total_tensor_size_in_bytes == 8
    assert T("uint8", (1,)).total_tensor_size_in_bytes == 4
    assert T("float64", (1, 2, 3)).total_tensor_size_in_bytes == 48
    # dot(Sizes - 1, Strides) + 1, the documents' formula, with padding at the end of rows
    assert T("float32", (2, 3), strides=(8, 1)).total_tensor_size_in_bytes == (8 + 2 + 1) * 4
    assert T("float32", (1000, 3), strides=(0, 1)).total_tensor_size_in_bytes == 12
    assert T("float64", (2**31, 1)).total_tensor_size_in_bytes == 2**34
    assert T("float32", (3,), total_tensor_size_in_bytes=64).total_tensor_size_in_bytes == 64


def test_strides_are_the_packed_ones_unless_given() -> None:
    assert T("uint8", (2, 3, 4)).element_strides == (12, 4, 1)
    assert T("uint8", (2, 3, 4)).strides is None
    assert T("uint8", [2, 3], strides=np.array([1, 2]).tolist()).element_strides == (1, 2)
    assert T("uint8", 5).sizes == (5,)


def test_a_description_is_a_value() -> None:
    desc = T(
        np.float32, (1, 1, 4, 4), strides=(16, 16, 4, 1), flags="OWNED_BY_DML", guaranteed_base_offset_alignment=32
    )
    assert desc == eval(repr(desc), {"TensorDesc": T})  # noqa: S307 - its own repr
    assert len({desc, copy.deepcopy(desc), pickle.loads(pickle.dumps(desc))}) == 1  # noqa: S301 - our own bytes
    with pytest.raises(AttributeError):
        desc.sizes = (1,)  # type: ignore[misc]  # wrong on purpose


@pytest.mark.parametrize(
    ("make", "strides"),
    [
        (lambda x: x, (20, 5, 1)),
        (lambda x: x.T, (1, 5, 20)),
        (lambda x: x[:, ::2, 1:4], (20, 10, 1)),
        (lambda x: np.broadcast_to(x[0, 0], (3, 4, 5)), (0, 0, 1)),
        (lambda x: x[::-1, :, ::-2], (-20, 5, -2)),
        (lambda x: x[:1, :, :1], (4, 5, 1)),  # a dimension of size 1 has the stride that packing would give
    ],
)
def test_an_array_is_described_as_it_lies(make: Any, strides: tuple[int, ...]) -> None:
    x = np.arange(60, dtype="int16").reshape(3, 4, 5)
    desc = T.of(make(x))
    assert desc.element_strides == strides
    assert desc.sizes == make(x).shape
    assert desc.data_type is dml.DataType.INT16
    assert desc.signed_strides == (min(strides) < 0)


def test_arrays_that_cannot_be_described() -> None:
    packed = np.zeros(4, dtype=[("a", "f4"), ("b", "u1")])
    with pytest.raises(dml.DescriptionError, match="array must have strides of whole elements"):
        T.of(packed["a"])
    with pytest.raises(
        dml.DescriptionError, match=r"must have a data type that is one of FLOAT32.*byte order .*: pass x.astype\('"
    ):
        T.of(np.zeros(3, ">i2"))
    with pytest.raises(dml.DescriptionError, match="no booleans: view the array as uint8"):
        T.of(np.zeros(3, bool))
    for wrong in (None, "text", {}, object(), [[1], [1, 2]], np.zeros(3, "complex64"), np.array(["a"])):
        with pytest.raises(dml.DescriptionError):
            T.of(wrong)


def test_overlap_is_exact() -> None:
    """Every layout of a small family, against a count of the distinct elements."""
    numbers = np.random.default_rng(5)
    for dims in (1, 2, 3):
        for _ in range(2000):
            sizes = numbers.integers(1, 5, dims).tolist()
            strides = numbers.integers(-6, 7, dims).tolist()
            places = [
                sum(i * s for i, s in zip(at, strides, strict=True))
                for at in itertools.product(*(range(n) for n in sizes))
            ]
            assert overlaps_itself(sizes, strides) == (len(set(places)) < len(places)), (sizes, strides)


def test_overlap_is_quick_for_large_tensors() -> None:
    assert not overlaps_itself((65535, 65535), (1, 65535))
    assert not overlaps_itself((2, 3), (3, 2))
    assert not overlaps_itself((1000, 1000, 1000), (1_003_003, 1003, 1))
    assert overlaps_itself((65535, 65535), (65534, 1))
    assert overlaps_itself((1000, 1001), (1000, 1))
    # Hard to decide: not told apart from an overlap, and not searched for ever.
    assert overlaps_itself((3000, 3000, 3000), (2_999_999, 2_999_998, 2_999_993))


def test_leading_dimensions_are_padded() -> None:
    assert T("int8", (2, 3)).padded(4) == T("int8", (1, 1, 2, 3))
    assert T("int8", (2, 3), strides=(1, 2)).padded(3).element_strides == (6, 1, 2)
    assert T("int8", (2, 3)).padded(1) == T("int8", (2, 3))


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

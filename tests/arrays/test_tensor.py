"""Tensor descriptions: what follows from sizes and strides, and how arrays are described."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.core.memory import overlaps_itself

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

"""Lists, ranges and numbers for tensors of indices, lengths or updates: they take the type of their field."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml

X = np.arange(6, dtype="float32").reshape(2, 3)
IMAGE = np.ones((1, 1, 4, 4), "float32")
CALLS: list[tuple[Any, Any]] = [
    (lambda x: dml.gather(x, [1, 0]), X[[1, 0]]),
    (lambda x: dml.gather(x, range(2)), X),
    (lambda x: dml.gather(x, -1), X[-1]),
    (lambda x: dml.gather_nd(x, [[1, 2]]), [5]),
    (lambda x: dml.gather_elements(x, [[0, 1, 0]], axis=0), [[0, 4, 2]]),
    (lambda x: dml.scatter(x, [[0, 1, 0]], [[7, 8, 9]], axis=0), [[7, 1, 9], [3, 8, 5]]),
    (lambda x: dml.scatter_nd(x, [[0]], [[7, 8, 9]]), [[7, 8, 9], [3, 4, 5]]),
    (lambda x: dml.reverse_subsequences(x, [[2], [3]], axis=1), [[1, 0, 2], [5, 4, 3]]),
    (lambda x: dml.join([x, [[1, 2, 3]]]), np.vstack([X, [[1, 2, 3]]])),
    (lambda x: dml.batch_normalization(x, 1, [[4]], 2.0, np.float32(3), epsilon=0), X + 2),
]


@pytest.mark.parametrize(("call", "wanted"), CALLS)
def test_lists_take_the_type_of_their_field(call: Any, wanted: Any) -> None:
    result = call(X)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, wanted)
    graph = dml.Graph()
    np.testing.assert_array_equal(graph.compile(call(graph.input(X)))(X), wanted)


def test_lists_of_operators_that_take_unsigned_indices_alone() -> None:
    unpooled: Any = dml.max_unpooling([[[[1.0, 2.0]]]], [[[[0, 3]]]], output_sizes=(1, 1, 2, 2))
    np.testing.assert_array_equal(unpooled, [[[[1, 0], [0, 2]]]])
    aligned: Any = dml.roi_align(IMAGE, [[0, 0, 2, 2]], [0], output_sizes=(1, 1, 2, 2))
    np.testing.assert_array_equal(aligned, np.ones((1, 1, 2, 2)))
    np.testing.assert_array_equal(dml.one_hot([[0], [2]], [0.0, 1.0], (2, 3), 1), [[1, 0, 0], [0, 0, 1]])
    low = dml.Device("cpu", feature_level="1_0")  # which has indices of UINT32 alone
    np.testing.assert_array_equal(dml.gather(X, [1], device=low), X[1:])


def test_lengths_may_leave_the_axis_out() -> None:
    np.testing.assert_array_equal(dml.reverse_subsequences(X, [2, 3], axis=1), [[1, 0, 2], [5, 4, 3]])
    np.testing.assert_array_equal(dml.reverse_subsequences(X, [2, 1, 2], axis=-2), [[3, 1, 5], [0, 4, 2]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dml.gather(X, [0.5]), "IndicesTensor must be a whole number for INT64; got 0.5"),
        (
            lambda: dml.reverse_subsequences(X, [2, -3], axis=1),
            "SequenceLengthsTensor must lie in 0 .. 4294967295 for UINT32; got -3",
        ),
        (
            lambda: dml.reverse_subsequences(X, np.array([[2], [3]]), axis=1),
            'got INT64; pass sequence_lengths.astype("uint32"): no feature level takes it',
        ),
        (lambda: dml.gather(X, np.array([0], "int16")), 'pass indices.astype("int64"): no feature level takes it'),
        (
            lambda: dml.reduce(np.array([1]), "average"),  # sums take INT64, means do not
            (
                "InputTensor must be of FLOAT32 or FLOAT16; got INT64; no feature level takes it, "
                "so convert the data first"
            ),
        ),
        (lambda: dml.split(X, 2, 1), "or list the parts' sizes; got 2; as in [2, 1]"),
        (lambda: dml.split([1, 2, 3, 4], 3), "got 3; as in [2, 1, 1]"),
        (lambda: dml.split(X, 9), "or list the parts' sizes; got 9"),
        (
            lambda: dml.join(np.ones(2, "int8")),  # type: ignore[call-overload]  # wrong on purpose
            "got array([1, 1], dtype=int8); write join([a, b], axis)",
        ),
        (lambda: dml.split(X, 0), "output_axis_sizes must lie in 1 .. 65536; got 0"),
    ],
)
def test_what_cannot_be_converted_is_told(call: Any, message: str) -> None:
    with pytest.raises(dml.DescriptionError) as raised:
        call()
    assert str(raised.value).endswith(message)


def test_a_number_splits_into_equal_parts() -> None:
    for part, wanted in zip(dml.split(X, 2), np.split(X, 2), strict=True):
        np.testing.assert_array_equal(part, wanted)
    graph = dml.Graph()
    first, *_ = dml.split(graph.input(X), 3, axis=1)
    np.testing.assert_array_equal(graph.compile(first)(X), X[:, :1])

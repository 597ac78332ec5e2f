"""The oracle itself, on the documents' examples and on the numbers at which conversions go wrong."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anydml as dml
import moving_oracle
import oracle
from case_kinds import Case as Document
from case_kinds import by_field
from cases import DOCUMENTS
from drawing import Case, Tensor
from expecting import expected
from families.moving import MOVING

if TYPE_CHECKING:
    from collections.abc import Sequence

F32, U32 = dml.DataType.FLOAT32, dml.DataType.UINT32


def _slots(cls: type[dml.OperatorDesc], kind: str, values: list[Any]) -> dict[str, Any]:
    """Tensors by slot."""
    found: dict[str, Any] = {}
    for name, value in by_field(cls, kind, values).items():
        found |= {f"{name}[{i}]": one for i, one in enumerate(value)} if isinstance(value, tuple) else {name: value}
    return found


OTHERS = (*MOVING, dml.ElementWiseIdentity)  # which oracles of their own families judge


@pytest.mark.parametrize("document", [one for one in DOCUMENTS if one.operator not in OTHERS], ids=str)
def test_the_oracle_does_as_the_documents_do(document: Document) -> None:
    """Every example, with the very attributes that a description has after it is read."""
    desc, arrays = document.desc(F32), document.inputs(F32)
    tensors = [
        Tensor(U32 if x is document.indices else F32, x.shape)
        for x in (*document.sources, document.indices)
        if x is not None
    ]
    names = [name for name, kind in desc.field_types().items() if kind.kind in ("attribute", "extension")]
    attributes = {name: getattr(desc, name) for name in names}
    if (pair := attributes.get("scale_bias")) is not None:
        attributes["scale_bias"] = (pair.scale, pair.bias)
    inputs = _slots(document.operator, "input", tensors)
    outputs = _slots(document.operator, "output", [Tensor(F32, y.shape) for y in document.results])
    contents = dict(zip(inputs, (array.ravel() for array in arrays), strict=True))
    case = Case(document.operator, dml.FeatureLevel.highest(), {**inputs, **outputs}, attributes, contents)
    for got, wanted in zip(expected(case, "reference"), document.results, strict=True):
        assert got.view(np.float32).tolist() == wanted.ravel().tolist()


@pytest.mark.parametrize(
    ("number", "data_type", "wanted"),
    [
        (1.9, "INT8", 1),
        (-1.9, "INT8", -1),
        (-0.9, "UINT8", 0),
        (300.0, "UINT8", 255),
        (-129.0, "INT8", -128),
        (math.inf, "INT64", 2**63 - 1),
        (-math.inf, "UINT32", 0),
        (math.nan, "INT32", 0),
        (2.0**63, "INT64", 2**63 - 1),
        (2.0**64, "UINT64", 2**64 - 1),
        (300, "UINT8", 44),
        (-1, "UINT64", 2**64 - 1),
        (2**63, "INT64", -(2**63)),
        (2**24 + 1, "FLOAT32", 2**24),
        (2**24 + 3, "FLOAT32", 2**24 + 4),
        (2**53 + 1, "FLOAT64", 2**53),
        (2**54 + 2**30 + 1, "FLOAT32", 2**54 + 2**31),  # rounded to FLOAT64 on the way it would be 2**54
        (65519, "FLOAT16", 65504),
        (65520, "FLOAT16", math.inf),
        (-65520, "FLOAT16", -math.inf),
        (2049, "FLOAT16", 2048),
        (2051, "FLOAT16", 2052),
        (65519.99, "FLOAT16", 65504),
        (3.5e38, "FLOAT32", math.inf),
        (2.0**-25, "FLOAT16", 0.0),
        (3 * 2.0**-25, "FLOAT16", 2.0**-23),
        (1e300, "FLOAT64", 1e300),
    ],
)  # fmt: skip
def test_the_oracle_converts_as_it_says(number: float, data_type: str, wanted: float) -> None:
    found = moving_oracle.converted(number, data_type)
    assert (type(found) is float) == data_type.startswith("FLOAT")
    assert found == wanted


def test_the_oracle_fills_as_it_says() -> None:
    values = list(moving_oracle.fill((3,), -0.0, 0, "FLOAT32").values())
    assert [math.copysign(1, value) for value in values] == [-1, -1, -1]
    assert list(moving_oracle.fill((3,), 250, 5, "UINT8").values()) == [250, 255, 4]
    assert list(moving_oracle.fill((2,), 10**400, 1, "FLOAT32").values()) == [math.inf, math.inf]
    assert list(moving_oracle.fill((3,), 0, 0.1, "FLOAT16").values()) == [0, 0.0999755859375, 0.199951171875]


def _grid(rows: Sequence[Sequence[int]]) -> dict[oracle.Coordinate, int]:
    return oracle.tensor((1, 1, len(rows), len(rows[0])), [value for row in rows for value in row])


SQUARE = _grid([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]])
TALLIED = _grid([[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]])


def test_the_oracle_slices_as_the_documents_do() -> None:
    assert oracle.slice_(SQUARE, (0, 0, 1, 2), (1, 1, 3, 2), (1, 1, 1, 1)) == _grid([[7, 8], [11, 12], [15, 16]])
    assert oracle.slice_(SQUARE, (0, 0, 1, 0), (1, 1, 2, 2), (1, 1, 2, 3)) == _grid([[5, 8], [13, 16]])
    window, output = ((0, 0, 0, 1), (1, 1, 4, 3)), (1, 1, 2, 2)
    assert oracle.slice1(SQUARE, *window, (1, 1, 2, 2), output) == _grid([[2, 4], [10, 12]])
    assert oracle.slice1(SQUARE, *window, (1, 1, -2, 2), output) == _grid([[14, 16], [6, 8]])


def test_the_oracle_gathers_as_the_documents_do() -> None:
    square, column = oracle.tensor((2, 2), [0, 1, 2, 3]), oracle.tensor((2, 1), [1, 0])
    assert oracle.gather_nd(square, (2, 2), column, (2, 1), 2, 2) == oracle.tensor((2, 2), [2, 3, 0, 1])
    cube, pairs = oracle.tensor((1, 2, 2, 2), range(8)), oracle.tensor((1, 1, 2, 2), [0, 1, 1, 0])
    result = oracle.gather_nd(cube, (1, 2, 2, 2), pairs, (1, 1, 2, 2), 3, 2)
    assert result == oracle.tensor((1, 1, 2, 2), [2, 3, 4, 5])
    batches = oracle.tensor((1, 3, 2, 2), [0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0])
    result = oracle.gather_nd(oracle.tensor((1, 3, 2, 2), range(12)), (1, 3, 2, 2), batches, (1, 3, 2, 2), 3, 3, 1)
    assert result == oracle.tensor((1, 1, 3, 2), [0, 3, 7, 4, 9, 10])


def test_the_oracle_reads_negative_indices_and_clamps() -> None:
    row = oracle.tensor((3,), [10, 11, 12])
    for index, value in ((-1, 12), (-3, 10)):
        assert oracle.gather_nd(row, (3,), {(0,): index}, (1,), 1, 1) == {(0,): value}
    for index, value in ((-4, 10), (3, 12), (2**64 - 1, 12), (-(2**63), 10)):
        assert oracle.gather_nd(row, (3,), {(0,): index}, (1,), 1, 1, clamp=True) == {(0,): value}
        with pytest.raises(oracle.OutsideError):
            oracle.gather_nd(row, (3,), {(0,): index}, (1,), 1, 1)


@pytest.mark.parametrize(
    ("function", "axis", "decreasing", "exclusive", "rows"),
    [
        ("sum", 3, False, False, [[2, 3, 6, 11], [3, 11, 18, 21], [9, 15, 17, 21]]),
        ("sum", 3, False, True, [[0, 2, 3, 6], [0, 3, 11, 18], [0, 9, 15, 17]]),
        ("sum", 3, True, False, [[11, 9, 8, 5], [21, 18, 10, 3], [21, 12, 6, 4]]),
        ("sum", 2, False, False, [[2, 1, 3, 5], [5, 9, 10, 8], [14, 15, 12, 12]]),
        ("product", 3, False, False, [[2, 2, 6, 30], [3, 24, 168, 504], [9, 54, 108, 432]]),
        ("product", 3, False, True, [[1, 2, 2, 6], [1, 3, 24, 168], [1, 9, 54, 108]]),
        ("product", 3, True, False, [[30, 15, 15, 5], [504, 168, 21, 3], [432, 48, 8, 4]]),
        ("product", 2, False, False, [[2, 1, 3, 5], [6, 8, 21, 15], [54, 48, 42, 60]]),
    ],
)
def test_the_oracle_tallies_as_the_documents_do(
    function: oracle.Function, axis: int, decreasing: bool, exclusive: bool, rows: list[list[int]]
) -> None:
    for data_type in ("FLOAT32", "INT32"):
        result = oracle.cumulative(
            TALLIED, (1, 1, 3, 4), axis, function, data_type, decreasing=decreasing, exclusive=exclusive
        )
        assert result == _grid(rows)


def test_the_oracle_wraps_integers() -> None:
    assert oracle.wrapped(2**31, "INT32") == -(2**31)
    assert oracle.wrapped(-1, "UINT16") == 2**16 - 1
    assert oracle.wrapped(2**64 + 5, "UINT64") == 5
    assert oracle.wrapped(-(2**63) - 1, "INT64") == 2**63 - 1


@given(numerator=st.integers(-(2**41), 2**41), denominator=st.sampled_from((2**25, 2**26, 3 * 2**24)))
@settings(deadline=None, derandomize=False, print_blob=True, max_examples=100)
def test_the_oracle_rounds_fractions_to_float16(numerator: int, denominator: int) -> None:
    number = Fraction(numerator, denominator)
    nearest = oracle.float16_of(number)
    if denominator != 3 * 2**24:  # in float64 exactly, so the other way of rounding has nothing to round twice
        assert nearest == oracle.rounded(float(number), "FLOAT16")
    if abs(number) < 65520:
        with np.errstate(over="ignore"):
            neighbours = np.nextafter(np.float16(nearest), np.array([-np.inf, np.inf], np.float16))
        for neighbour in (float(value) for value in neighbours if np.isfinite(value)):
            assert abs(number - Fraction(nearest)) <= abs(number - Fraction(neighbour))
    else:
        assert nearest == (np.inf if number > 0 else -np.inf)

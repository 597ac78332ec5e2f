"""FLOAT64 where DirectML has it at no level: refused, unless it is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from places import get, put

X = np.random.default_rng(7).standard_normal((40, 33))
FUNCTIONS: dict[Any, Any] = {dml.cumulative_summation: np.cumsum, dml.cumulative_product: np.cumprod}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_and_products_are_numpys(function: Any, axis: int, engine: str) -> None:
    device = dml.Device(engine)
    x = put(X.copy(), device)
    expected = FUNCTIONS[function](X, axis)
    result = get(function(x, axis, allow_float64=True, device=device))
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-13)
    back = get(function(put(np.flip(X, axis).copy(), device), axis, "decreasing", allow_float64=True, device=device))
    np.testing.assert_allclose(np.flip(back, axis), expected, rtol=1e-12, atol=1e-13)
    before = get(function(x, axis, "increasing", True, allow_float64=True, device=device))
    np.testing.assert_allclose(
        before.take(range(1, X.shape[axis]), axis), expected.take(range(X.shape[axis] - 1), axis)
    )
    function(x, axis, allow_float64=True, out=x, device=device)
    np.testing.assert_array_equal(get(x), result)


def test_a_sequence_of_float64(engine: str) -> None:
    device = dml.Device(engine)
    result = get(dml.fill_value_sequence((3, 4), 0.1, 0.3, "float64", allow_float64=True, device=device))
    np.testing.assert_array_equal(result, 0.1 + np.arange(12).reshape(3, 4) * 0.3)


def test_without_being_asked_for_it_is_refused() -> None:
    way_out = "or take it as an extension with allow_float64=True"
    for function in FUNCTIONS:
        with pytest.raises(dml.DescriptionError, match=way_out):
            function(X, 0)
    with pytest.raises(dml.DescriptionError, match=way_out):
        dml.fill_value_sequence(3, 0.1, 0.3, "float64")


def test_a_description_remarks_on_it() -> None:
    tensor = dml.TensorDesc("float64", (2, 3))
    desc = dml.CumulativeSummation(input_tensor=tensor, output_tensor=tensor, axis=0, allow_float64=True)
    assert desc.check().remarks == (
        "FLOAT64 is an extension of DirectML, which has it at no level for CUMULATIVE_SUMMATION",
    )
    plain = dml.TensorDesc("float32", (2, 3))
    assert not dml.CumulativeSummation(
        input_tensor=plain, output_tensor=plain, axis=0, allow_float64=True
    ).check().remarks  # fmt: skip
    with pytest.raises(dml.DescriptionError, match="AllowFloat64 must be True or False"):
        dml.CumulativeSummation(input_tensor=tensor, output_tensor=tensor, axis=0, allow_float64=2)  # type: ignore[arg-type]  # wrong on purpose

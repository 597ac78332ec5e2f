"""The products of matrices and the operators that quantise: what they compute, in every type, layout and level."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings

import anydml as dml
from anydml.operators.schema.fields import dml_name
from attention import assert_attended
from cases import ENGINES
from doors import through_compiled, through_objects
from elementwise import STEPS, assert_within
from places import get, put
from products import PRODUCTS, expected, small_example
from products_drawing import product_cases
from recurrent import GATES
from running import Memory, check_other_bytes, run

if TYPE_CHECKING:
    from drawing import Array, Case

FEW = int(os.environ.get("ANYDML_TEST_EXAMPLES", "0"))
AVERAGE = "AVERAGE_POOLING_GRAD"
"""Which adds up rounded parts of elements: of both signs they may leave as little as what was rounded."""


def steps_of(desc: dml.OperatorDesc) -> int:
    """From one float to the next, that results may be off: functions are not rounded correctly, and sums of e^x."""
    activation = getattr(desc, "fused_activation", None)
    if activation is None:
        return {AVERAGE: 4, "LP_POOLING": 4, "LP_POOLING1": 4}.get(desc.type.name, 0)
    return STEPS.get(activation.type.name.removeprefix("ACTIVATION_"), 0) + 2


def assert_close(got: Array, want: Array, desc: dml.OperatorDesc) -> None:
    """States that went through functions again and again, where they are known: what a step rounds may grow."""
    last, known = 2e-4 if got.dtype == np.float32 else 4e-3, np.isfinite(want)
    largest = np.abs(want[known]).max(initial=0)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got[known].astype(np.float64), want[known], 0, last * (1 + largest), err_msg=str(desc))


@pytest.mark.parametrize("cls", PRODUCTS, ids=lambda cls: cls.type.name)
def test_small_examples(cls: type[dml.OperatorDesc], engine: str) -> None:
    device, (desc, arrays, wanted) = dml.Device(engine), small_example(cls)
    found = device.compile(desc)(*(put(array, device) for array in arrays))
    for got, want in zip(found if isinstance(found, tuple) else [found], wanted, strict=True):
        assert_within(get(got), want, 0)


@pytest.mark.parametrize("engines", [ENGINES], ids="+".join)
@settings(deadline=None, derandomize=False, print_blob=True, max_examples=FEW or (250 if os.environ.get("CI") else 50))
@given(case=product_cases([cls for cls in PRODUCTS if cls not in (dml.Quantize, dml.Dequantize)]))
def test_every_layout_gives_what_the_oracle_gives(engines: list[str], case: Case) -> None:
    desc = case.description()
    arrays = {
        dml_name(slot): case.contents[slot][case.tensors[slot].places].reshape(case.tensors[slot].sizes)
        for slot in case.contents
    }
    wanted = expected(desc, arrays)
    is_attention = desc.type.name.startswith("MULTIHEAD")
    for engine in engines:
        memory = Memory.of(case, engine)
        before = memory.raw.copy()
        found = run(case, memory, engine)
        if is_attention:
            assert_attended(desc, arrays, found, engine)
        for got, want in () if is_attention else zip(found, wanted, strict=True):
            if desc.type.name in GATES:
                assert_close(got, want.ravel(), desc)
            else:
                want = want.ravel()
                if desc.type.name == AVERAGE:
                    (sizes,) = expected(desc, {slot: np.abs(array) for slot, array in arrays.items()})
                    room = steps_of(desc) * np.finfo(got.dtype).eps * sizes.ravel().astype(np.float64)
                    got = np.where(np.abs(got.astype(np.float64) - want) <= room, want, got)
                assert_within(got, want, steps_of(desc), either_zero=True, about=desc)
        check_other_bytes(case, memory, before)


@pytest.mark.parametrize("data_type", ["float32", "float16"])
@pytest.mark.parametrize(
    ("batch", "activation"),
    [
        ((), "SOFTMAX"),
        ((1, 1), "ACTIVATION_SOFTMAX"),
        ((2,), {"Type": "SOFTMAX1", "Axes": [2]}),
        ((2, 3), {"Type": "SOFTMAX1", "Axes": [1, 3]}),
    ],
)
def test_a_softmax_is_a_step_over_the_result(
    engine: str, data_type: str, batch: tuple[int, ...], activation: Any
) -> None:
    device, rng = dml.Device(engine), np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, (*batch, *sizes)).astype(data_type) for sizes in ((5, 3), (3, 7)))
    desc = dml.Gemm.infer(
        a_tensor=dml.TensorDesc.of(a), b_tensor=dml.TensorDesc.of(b), alpha=0.5, fused_activation=activation
    )
    (wanted,) = expected(desc, {"ATensor": a, "BTensor": b})
    for got in (*through_compiled(device, desc, [a, b]), through_objects(device, desc, [a, b])):
        assert_within(got, wanted, 8 if data_type == "float32" else 1)


@pytest.mark.parametrize("data_type", ["float32", "float16"])
def test_sums_are_of_float32_or_better(engine: str, data_type: str) -> None:
    """Against float64: each term is rounded once, and the sum a few times more."""
    device, rng = dml.Device(engine), np.random.default_rng(2)
    a, b, c = (rng.standard_normal(sizes).astype(data_type) for sizes in ((37, 129), (65, 129), (37, 65)))
    left, right, added = (put(one, device) for one in (a, b, c))
    got = get(dml.gemm(left, right, added, trans_b=True, device=device)).astype(np.float64)
    exact = a.astype(np.float64) @ b.astype(np.float64).T + c
    size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64).T + np.abs(c)
    last = np.finfo(data_type).eps / 2 * np.abs(exact)
    assert (np.abs(got - exact) <= 16 * np.finfo(np.float32).eps * size + last).all()

"""A copy with a number around it is one pass on the cpu engine."""

from __future__ import annotations

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu.move import padding as bordered
from anydml.ir.patterns import copy_of, filled
from anydml.ir.views import View
from guarded import guarded
from kernel_families import family_of

pytestmark = pytest.mark.check_bounds

CPU = dml.Device("cpu")
F32 = dml.DataType.FLOAT32
KINDS = [
    ("float32", (1, 3, 5, 7), 2.5),
    ("float16", (2, 1, 4, 5), -3.0),
    ("uint8", (1, 2, 3, 11), 200),
    ("int8", (2, 3, 1, 9), -7),
]


@pytest.mark.parametrize(("kind", "sizes", "number"), KINDS)
def test_constant_padding_is_one_pass(kind: str, sizes: tuple[int, ...], number: float) -> None:
    rng = np.random.default_rng(sizes[-1])
    x = rng.integers(0, 100, sizes).astype(kind)
    for _ in range(6):
        start, end = rng.integers(0, 4, (2, 4)).tolist()
        end[-1] += not any(start)  # there is something around it
        desc = dml.Padding.infer(
            input_tensor=dml.TensorDesc.of(x), padding_mode="CONSTANT", padding_value=number, start_padding=start,
            end_padding=end,
        )  # fmt: skip
        made = CPU.compile(desc)
        np.testing.assert_array_equal(
            made(x), np.pad(x, list(zip(start, end, strict=True)), constant_values=np.array(number, kind))
        )
        (program,) = made._programs
        assert family_of(program) == "bordered"


def test_parts_of_its_rows_may_be_anyones() -> None:
    """Threads share rows out: what is around a row is written with it, and no more."""
    x = np.random.default_rng(0).random((40, 100, 100), np.float32)
    before = dml.get_num_threads()
    try:
        dml.set_num_threads(3)
        found = dml.padding(x, padding_mode="CONSTANT", start_padding=(1, 2, 3), end_padding=(0, 1, 5), device="cpu")
    finally:
        dml.set_num_threads(before)
    np.testing.assert_array_equal(found, np.pad(x, ((1, 0), (2, 1), (3, 5))))


@pytest.mark.parametrize("at_end", [False, True])
def test_nothing_is_read_or_written_past_the_ends(at_end: bool) -> None:
    for sizes, padding in (((3, 9), (1, 1)), ((2, 300), (0, 3)), ((4, 2), (2, 1))):
        x = guarded(np.ones(sizes, np.float32), at_end)
        y = guarded(np.zeros([n + 2 * p for n, p in zip(sizes, padding, strict=True)], np.float32), at_end)
        dml.padding(x, padding_mode="CONSTANT", padding_value=2, start_padding=padding, end_padding=padding, out=y)
        np.testing.assert_array_equal(y, np.pad(x, [(p, p) for p in padding], constant_values=2))


def test_maps_that_leave_gaps_or_overlap_are_no_border() -> None:
    source, inside = View("x", F32, (4, 8), (8, 1), 0), View("y", F32, (4, 8), (10, 1), 0)
    right = View("y", F32, (4, 2), (10, 1), 8)
    assert bordered.plan_padding([copy_of(source, inside), filled(right, 0)])
    for other in (
        View("y", F32, (4, 1), (10, 1), 9),
        View("y", F32, (4, 2), (10, 1), 7),
        View("z", F32, (4, 2), (10, 1), 8),
    ):
        assert bordered.plan_padding([copy_of(source, inside), filled(other, 0)]) is None
    assert bordered.plan_padding([copy_of(source, inside), filled(right, 0), filled(right, 1)]) is None

"""Small windows of the cpu engine where an x86 has masks: texts that know how long lines are."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu.conv import depthwise as programs
from anydml.engines.cpu.conv.stencil import Taps, make_stencil
from anydml.engines.cpu.move import padding as bordered
from anydml.ir.patterns import copy_of, filled
from anydml.ir.views import View
from assembled import assembly
from guarded import guarded
from kernel_families import family_of

pytestmark = pytest.mark.check_bounds

ROLLING = Taps("fma", 3, 3, 1, 1, 1, 1, 16, False, together=0, vectors=4, left=1, width=56, line=56)
SHAPES = {
    "a plane narrower than a vector": ((14, 14), (3, 3), 1),
    "eight lanes": ((7, 7), (3, 3), 1),
    "lines of many blocks": ((9, 211), (3, 3), 1),
    "every other line": ((19, 57), (3, 3), 2),
    "more weights than registers": ((12, 70), (5, 5), 1),
    "as many rows as sums": ((20, 40), (7, 7), 1),
    "one row of a window": ((9, 33), (1, 4), 1),
    "rows alone": ((9, 33), (4, 1), 2),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_mean", [False, True])
def test_texts_that_know_lines_have_the_bits_of_those_that_do_not(
    shape: str, is_mean: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, window, stride = SHAPES[shape]
    rng = np.random.default_rng(len(shape))
    x = rng.random((2, 3, *sizes), np.float32) - np.float32(0.5)
    arrays = [x] if is_mean else [x, rng.random((3, 1, *window), np.float32) - np.float32(0.5)]
    places = {"strides": stride, "start_padding": [n // 2 for n in window], "end_padding": [n // 2 for n in window]}
    tensors = [dml.TensorDesc.of(array) for array in arrays]
    desc: Any
    if is_mean:
        desc = dml.AveragePooling.infer(input_tensor=tensors[0], window_size=window, **places)
    else:
        desc = dml.Convolution.infer(input_tensor=tensors[0], filter_tensor=tensors[1], group_count=3, **places)
    found = []
    for knows in (True, False):
        if not knows:
            monkeypatch.setattr(programs, "suits_wide", lambda _: False)
        found.append(dml.Device("cpu").compile(desc)(*arrays))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("at_end", [False, True])
def test_lines_are_read_and_written_up_to_their_ends(at_end: bool) -> None:
    for shape in ("a plane narrower than a vector", "every other line"):
        sizes, window, stride = SHAPES[shape]
        x, w = (guarded(np.ones(n, np.float32), at_end) for n in ((1, 2, *sizes), (2, 1, *window)))
        desc = dml.Convolution.infer(
            input_tensor=dml.TensorDesc.of(x), filter_tensor=dml.TensorDesc.of(w), strides=stride, group_count=2,
            start_padding=1, end_padding=1,
        )  # fmt: skip
        y = guarded(np.zeros(desc.output_tensor.sizes, np.float32), at_end)
        dml.Device("cpu").compile(desc).bind(x, w, out=y).dispatch()
        np.testing.assert_array_equal(y[..., 1:-1, 1:-1], 9)


@pytest.mark.parametrize(
    "taps",
    [
        ROLLING,
        ROLLING._replace(rows=5, columns=5, left=2, vectors=3),
        ROLLING._replace(down=2, step=2, together=4, vectors=2, width=28),
    ],
)
def test_no_vector_is_spilled(taps: Taps) -> None:
    text = assembly(make_stencil(taps), "x86_64-unknown-linux-gnu", "skylake-avx512")
    assert "vfmadd" in text
    assert not re.search(r"rsp.*%[xyz]mm|%[xyz]mm.*rsp", text), text


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

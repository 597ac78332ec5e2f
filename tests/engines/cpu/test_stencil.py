"""Small windows of the cpu engine where an x86 has masks: texts that know how long lines are."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu.conv import depthwise as programs
from anydml.engines.cpu.conv.stencil import Taps, make_stencil
from assembled import assembly
from guarded import guarded

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

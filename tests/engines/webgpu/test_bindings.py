"""Tensors larger than what a device binds: verbs are cut where nothing goes along a dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.webgpu import launch, why_missing

if TYPE_CHECKING:
    from collections.abc import Callable

WHY = why_missing()
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
ROOM = 64 * 1024


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> dml.Device:
    """A device that binds 64 KiB, and says so."""
    device = dml.Device("webgpu")
    gpu: Any = device.engine._memory.gpu  # type: ignore[attr-defined]  # the engine's own
    room = ROOM + 2 * gpu.offset_alignment
    monkeypatch.setattr(gpu, "largest_binding", room)
    first = gpu.bind_group

    def bind_group(pipeline: Any, entries: Any) -> Any:
        assert all(size <= room for _, _, _, size in entries)
        return first(pipeline, entries)

    monkeypatch.setattr(gpu, "bind_group", bind_group)
    return device


def numbers(*sizes: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(len(sizes)).integers(-9, 9, sizes).astype(np.float32)


A, B, IMAGES = numbers(300, 200), numbers(150, 200), numbers(3, 5, 60, 61)
ROWS, BATCH, STACK = numbers(64, 1024), numbers(9, 40, 50), numbers(9, 50, 60)
CASES: dict[str, Callable[[Any], Any]] = {
    "product": lambda on: dml.gemm(A, B, trans_b="TRANSPOSE", device=on),
    "product of few rows": lambda on: dml.gemm(A[:4], numbers(400, 200), trans_b="TRANSPOSE", device=on),
    "batched product": lambda on: dml.matmul(BATCH, STACK, device=on),
    "convolution": lambda on: dml.convolution(IMAGES, numbers(7, 5, 3, 3), device=on),
    "pooling": lambda on: dml.max_pooling(IMAGES, window_size=(2, 2), strides=(2, 2), device=on),
    "sum of rows": lambda on: dml.sum(ROWS, axis=1, device=on),
    "softmax": lambda on: dml.softmax(ROWS, axis=-1, device=on),
    "running sum": lambda on: dml.cumulative_summation(ROWS, axis=1, device=on),
    "running sum of blocks": lambda on: dml.cumulative_summation(STACK, axis=1, device=on),
    "map": lambda on: dml.add1(ROWS, ROWS[0], device=on),
}


@pytest.mark.parametrize("name", CASES)
def test_answers_are_the_same(name: str, small: dml.Device) -> None:
    found, wanted = (np.asarray(CASES[name](on)) for on in (small, "cpu"))
    np.testing.assert_allclose(found, wanted, 1e-6)


def test_what_nothing_can_be_cut_along_is_told_with_sizes(small: dml.Device) -> None:
    with pytest.raises((MemoryError, dml.DmlError), match=r"(KiB|MiB)"):
        dml.sum(numbers(40_000), axis=0, device=small)
    with pytest.raises((MemoryError, dml.DmlError), match=r"256 KiB.* binds 64.06 KiB at most"):
        dml.sum(ROWS, axis=0, device=small)


def test_a_verb_that_can_be_bound_is_one_program(small: dml.Device) -> None:
    tensor, row = dml.TensorDesc("float32", (8, 64)), dml.TensorDesc("float32", (8, 1))
    compiled = small.compile(dml.Reduce(function="SUM", input_tensor=tensor, output_tensor=row, axes=(1,)))
    assert not any(isinstance(one, launch.Parts) for one in compiled._programs)

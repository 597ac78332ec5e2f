"""NonMaxSuppression by a kernel: as ONNX Runtime picks boxes, and what is left to others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_models import model, node  # isort: skip - it asks for onnx

import anydml as dml
import anydml.onnx
from anydml.engines.cpu.move.nms import make_suppress
from anydml.onnx.partition import host_evaluator
from assembled import assembly

RNG = np.random.default_rng(3)


def detector(most: int | None, overlap: float | None, least: float | None, *, is_centred: bool = False) -> Any:
    numbers = {"most": most, "overlap": overlap, "least": least}
    constants = {
        name: np.array([one], "int64" if name == "most" else "f") for name, one in numbers.items() if one is not None
    }
    names = " ".join(name if name in constants else "" for name in numbers)
    nodes = [node("NonMaxSuppression", f"boxes scores {names}".rstrip(), "y", center_point_box=int(is_centred))]
    inputs = {"boxes": ("float32", [None, None, 4]), "scores": ("float32", [None, None, None])}
    return model(nodes, inputs, "y", constants, dtypes={"y": "int64"})


def drawn(batch: int, classes: int, count: int) -> dict[str, Any]:
    """Boxes of which some are empty, some turned, and scores of which some are equal."""
    boxes = RNG.integers(0, 24, (batch, count, 4)).astype("f") / 8
    return {"boxes": boxes, "scores": RNG.integers(0, 9, (batch, classes, count)).astype("f") / 8}


@pytest.mark.parametrize(
    ("numbers", "is_centred"),
    [
        ((5, 0.3, None), False),
        ((100, 0.5, 0.4), False),
        ((7, 0.25, 0.1), True),
        ((3, None, None), False),
        ((0, 0.5, 0.5), False),
    ],
)
def test_boxes_are_picked_as_onnxruntime_picks_them(
    numbers: tuple[Any, Any, Any], is_centred: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    proto = detector(*numbers, is_centred=is_centred)
    session = runtime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    loaded = dml.onnx.load(proto)
    monkeypatch.setattr(host_evaluator, "_run_session", lambda *_: pytest.fail("ONNX Runtime was asked"))
    for sizes in ((2, 3, 70), (1, 1, 1), (1, 2, 16), (1, 1, 0)):
        inputs = drawn(*sizes)
        np.testing.assert_array_equal(loaded.run(inputs)["y"], session.run(None, inputs)[0])


def test_numbers_that_are_none_are_left_to_others() -> None:
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    proto, inputs = detector(4, 0.5, None), drawn(1, 1, 20)
    inputs["scores"][0, 0, 3] = np.inf
    session = runtime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(dml.onnx.load(proto).run(inputs)["y"], session.run(None, inputs)[0])


@pytest.mark.parametrize("is_centred", [False, True])
def test_boxes_past_float32_overlap_none_and_warn_of_nothing(is_centred: bool) -> None:
    """Areas become inf, and parts of them NaN; ONNX Runtime picks the same."""
    boxes = np.array([[[-3e38, -3e38, 3e38, 3e38], [-2e38, -3e38, 3e38, 3e38], [0, 0, 1e30, 1e30]]], "f")
    scores = np.array([[[1, 3, 2]]], "f")
    found = dml.onnx.load(detector(9, 0.5, None, is_centred=is_centred)).run({"boxes": boxes, "scores": scores})["y"]
    assert found[:, 2].tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("triple", "cpu", "lanes"), [("x86_64-linux-gnu", "x86-64", 4), ("aarch64-linux-gnu", "neoverse-n1", 4)]
)
def test_the_kernel_is_compiled_for_other_cpus(triple: str, cpu: str, lanes: int) -> None:
    assert "kernel:" in assembly(make_suppress(lanes), triple, cpu)

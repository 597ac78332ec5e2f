"""Profiles that ONNX Runtime writes, laid over the graph of the model that it ran."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anydml.core.errors import ModelError
from anydml.explore.drawing import GraphNode, ModelGraph, Slot
from anydml.explore.model import open_model
from anydml.explore.onnxruntime_profile import read_profile
from tests.explore.test_model import saved

needs_onnxruntime = pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime") is None, reason="needs requirements/onnx.txt"
)


def event(name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    category = "Session" if name == "model_run" else "Node"
    return {"cat": category, "name": name, "ts": ts, "dur": dur, "ph": "X", "args": args}


def kernel(name: str, kind: str, ts: float, dur: float) -> dict[str, Any]:
    return event(f"{name}_kernel_time", ts, dur, op_name=kind, provider="CPUExecutionProvider", node_index="0")


GRAPH = ModelGraph(
    "graph",
    [
        GraphNode("Input", "x", outputs=[Slot("", "x")], end="input"),
        GraphNode("Conv", "conv", [Slot("X", "x"), Slot("W", "w", is_weight=True)], [Slot("Y", "c")]),
        GraphNode("Relu", "act", [Slot("X", "c")], [Slot("Y", "r")]),
        GraphNode("Gemm", "", [Slot("A", "r")], [Slot("Y", "g")]),
    ],
)


def test_a_fused_node_is_laid_over_all_that_it_stands_for(tmp_path: Path) -> None:
    """ONNX Runtime names it by the output of the last node, and what it adds has names of its own."""
    runs = [event("model_run", 0, 900), event("model_run", 1000, 60), event("model_run", 2000, 80)]
    kernels = [kernel("r_nchwc", "Conv", ts + 1, dur) for ts, dur in ((0, 800), (1000, 10), (2000, 30))]
    kernels += [kernel("ReorderOutput", "ReorderOutput", ts + 2, 5) for ts in (0, 1000, 2000)]
    kernels += [kernel("g", "Gemm", ts + 3, 15) for ts in (0, 1000, 2000)]
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(runs + kernels))
    found = read_profile(path, [GRAPH])
    assert [(one["nodes"], one["ms"], one["calls"]) for one in found["passes"]] == [
        (["0.1", "0.2"], 0.02, 1), ([], 0.005, 1), (["0.3"], 0.015, 1),
    ]  # fmt: skip
    assert found["ms"] == pytest.approx(0.04)
    assert "the mean of 2; 87.5 % in nodes that the model has" in found["says"]
    path.write_text(json.dumps(runs + kernels)[:-1] + ",")  # of a session that was not ended
    assert read_profile(path, [GRAPH]) == found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "it is no JSON"),
        ("{" * 100_000, "it is no JSON"),
        ("[" * 100_000, "it is no JSON"),
        ("{}", "a list of events"),
        ("[1]", "a list of events"),
        ('[{"name": "a"}]', "a list of events"),
        ('[{"name": "a_kernel_time", "cat": "Node", "ts": 0, "dur": -1, "args": {}}]', "a list of events"),
        ('[{"name": "a_kernel_time", "cat": "Node", "ts": 0, "dur": NaN, "args": {}}]', "a list of events"),
        ('[{"name": "a_kernel_time", "cat": "Node", "ts": 0, "dur": 1, "args": []}]', "none of its nodes"),
        ("[]", "it has no times of nodes"),
        (json.dumps([kernel("other", "Conv", 0, 1)]), "none of its nodes is in this model"),
    ],
)  # fmt: skip
def test_what_is_no_profile_of_the_model_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(ModelError, match=told):
        read_profile(path, [GRAPH])


@needs_onnxruntime
def test_a_profile_of_a_session_covers_its_nodes(tmp_path: Path) -> None:
    import onnxruntime
    from onnx import TensorProto, helper

    make = helper.make_node
    nodes = [
        make("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        make("Relu", ["c"], ["r"], name="act"),
        make("Softmax", ["r"], ["y"], name="soft"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 8, 8])
    path = saved(tmp_path / "net.onnx", nodes, [x], [y], {"w": np.ones((4, 3, 3, 3), np.float32)})
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for _ in range(2):
        session.run(None, {"x": np.ones((1, 3, 8, 8), np.float32)})
    opened = open_model(path, {"profile": Path(session.end_profiling())})
    found = opened.jobs.result("trace")
    graph = opened.work.graphs[0]
    timed = {graph.nodes[int(one.partition(".")[2])].name for each in found["passes"] for one in each["nodes"]}
    assert timed == {"conv", "act", "soft"}
    assert found["ms"] > 0

"""`anydml export`: an ONNX model as a page, run in headless Chromium against the cpu engine."""

from __future__ import annotations

import importlib.util
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner

import browser
from anydml.cli.app import app

onnx = pytest.importorskip("onnx", reason="onnx not installed: make test EXTRAS=onnx has it")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402 - it may not be there

import anydml.onnx as dml_onnx  # noqa: E402 - as above

if TYPE_CHECKING:
    from pathlib import Path

WHY = "" if browser.PROGRAM and importlib.util.find_spec("websockets") else "no Chromium, or no websockets"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Windows, a bias and a rectifier, pooling, a product and a softmax, of an open batch."""
    random = np.random.default_rng(0)
    shapes = {"w": (8, 3, 3, 3), "b": (8,), "f": (512, 10)}
    tensors = [
        numpy_helper.from_array(random.normal(size=s).astype(np.float32) * 0.1, name) for name, s in shapes.items()
    ]
    tensors.append(numpy_helper.from_array(np.array([0, -1]), "flat"))
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Reshape", ["p", "flat"], ["l"]),
        helper.make_node("MatMul", ["l", "f"], ["m"]),
        helper.make_node("Softmax", ["m"], ["y"], axis=1),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in {"x": ["N", 3, 16, 16], "y": ["N", 10]}.items()
    ]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], tensors)
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def _export(*arguments: object) -> tuple[int, str]:
    found = CliRunner().invoke(app, ["export", *map(str, arguments)])
    return found.exit_code, found.output


@pytest.mark.skipif(bool(WHY), reason=f"{WHY}: make test EXTRAS=browser has the latter")
def test_a_model_runs_in_a_browser(model: Path, tmp_path: Path) -> None:
    assert _export(model, "--html", tmp_path / "net.html", "--shape", "N=2") == (0, "")
    x = np.random.default_rng(1).normal(size=(2, 3, 16, 16)).astype(np.float32)
    wanted = dml_onnx.load(model).run({"x": x})["y"]
    with browser.start(browser.WEBGPU) as page:
        page.open(tmp_path / "net.html")
        page.wait("document.getElementById('state').textContent === 'Ready'", "the page is not ready")
        assert page.run("document.title") == "net"
        given = f"{{x: new Float32Array({json.dumps(x.ravel().tolist())})}}"
        for _ in range(2):  # a run leaves nothing behind
            found = page.run(f"model.run({given}).then((o) => Array.from(o.outputs.y))")
            np.testing.assert_allclose(np.array(found).reshape(2, 10), wanted, rtol=1e-5, atol=1e-6)
        assert not page.complaints()


def test_weights_lie_beside_where_that_is_asked_for(model: Path, tmp_path: Path) -> None:
    status, said = _export(model, "--html", tmp_path / "net.html", "--beside", tmp_path / "net.bin", "--title", "<x>")
    assert (status, said) == (0, "Assumed N=2 for dynamic dimensions; set them with --shape N=2\n")
    text = (tmp_path / "net.html").read_text()
    assert (tmp_path / "net.bin").stat().st_size > 4 * 512 * 10 > len(text) // 10
    assert 'beside = "net.bin"' in text
    assert "<title>&lt;x&gt;</title>" in text


def test_what_cannot_be_exported_is_said(model: Path, tmp_path: Path) -> None:
    status, said = _export(tmp_path / "net.json", "--html", tmp_path / "net.html")
    assert (status, "no .onnx file" in said) == (2, True)
    status, said = _export(tmp_path / "none.onnx", "--html", tmp_path / "net.html")
    assert (status, "none.onnx" in said) == (2, True)
    loaded = onnx.load(model)
    loaded.graph.node.append(helper.make_node("NonZero", ["y"], ["z"]))
    loaded.graph.output.append(helper.make_tensor_value_info("z", TensorProto.INT64, [2, None]))
    onnx.save(loaded, model)
    status, said = _export(model, "--html", tmp_path / "net.html")
    assert (status, "known in a run alone" in said) == (3, True), said
    assert not (tmp_path / "net.html").exists()

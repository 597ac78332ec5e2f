"""Recordings as pages that a browser runs: the kernels for core WGSL, in headless Chromium by SwiftShader."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

import browser
from anydml.core.enums import DataType
from anydml.core.errors import UnsupportedError
from anydml.engines import find_engine
from anydml.engines.webgpu import WebGpuEngine
from anydml.engines.webgpu.page import Page, Port, page_of
from anydml.engines.webgpu.recording import Copy, Dispatched, Recording
from anydml.ir.expressions import call, fold, load
from anydml.ir.verbs import Map, Reduce, Scan, Sort
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from anydml.ir.verbs import Primitive

WHY = "" if browser.PROGRAM and importlib.util.find_spec("websockets") else "no Chromium, or no websockets"
in_a_browser = pytest.mark.skipif(bool(WHY), reason=f"{WHY}: make test EXTRAS=browser has the latter")
F32, U8, U32 = DataType.FLOAT32, DataType.UINT8, DataType.UINT32
ROWS, COLUMNS = 35, 12


def _view(name: str, of: DataType, sizes: tuple[int, ...] = (ROWS, COLUMNS)) -> View:
    strides = tuple(int(np.prod(sizes[k + 1 :])) for k in range(len(sizes)))
    return View(name, of, sizes, strides)


def _page(verbs: Sequence[Primitive], views: dict[str, View], given: dict[str, np.ndarray]) -> Page:
    """A page of verbs: what is given is written once, x is the input, and the last tensor is the output."""
    with Recording() as recording:
        engine = WebGpuEngine.over(recording)
        sizes = {name: 4 * -(-np.prod(v.sizes) * v.data_type.size_in_bytes // 4) for name, v in views.items()}
        places = {name: engine.reserve(int(size)).address for name, size in sizes.items()}
        for name, array in given.items():
            recording.write(places[name], array.view(np.uint8).reshape(-1))
        launches = [engine.compile(verb).bind(places) for verb in verbs]
        recording.is_running = True
        for launch in launches:
            launch()

        def port(name: str) -> Port:
            view = views[name]
            size = int(np.prod(view.sizes)) * view.data_type.size_in_bytes
            return Port(name, view.data_type, view.sizes, recording.place(places[name], size))

        return page_of(recording, [port("x")], [port(list(views)[-1])], "</script> & <test>")


@pytest.fixture(scope="module")
def page() -> Iterator[browser.Page]:
    with browser.start(browser.WEBGPU) as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A server of a folder of its own, for weights beside a page: a page that is opened as a file may load none."""
    folder = tmp_path_factory.mktemp("pages")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()


@in_a_browser
@pytest.mark.parametrize("is_beside", [False, True], ids=["inside", "beside"])
def test_a_page_computes_as_the_cpu_engine(
    is_beside: bool, page: browser.Page, address: tuple[str, Path], tmp_path: Path
) -> None:
    x = np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).astype(np.float32)
    weights = np.random.default_rng(1).integers(0, 256, (ROWS, COLUMNS)).astype(np.uint8)
    views = {"x": _view("x", F32), "w": _view("w", U8), "y": _view("y", F32), "z": _view("z", F32)}
    views |= {"s": _view("s", F32), "order": _view("order", U32)}
    power = call("exp", load(0, F32) - fold("max", load(0, F32)))
    verbs = [
        Map((views["x"], views["w"]), views["y"], call("tanh", load(0, F32) * load(1, U8).to(F32))),
        Reduce((views["y"],), views["z"], power / fold("sum", power), 1),
        Scan((views["z"],), views["s"], 1, "sum", reverse=False, exclusive=False),
        Sort((views["s"],), views["order"], 1, largest=True),
    ]
    host = {name: np.zeros(view.sizes, view.data_type.dtype) for name, view in views.items()} | {"x": x, "w": weights}
    for verb in verbs:
        find_engine("cpu").compile(verb).bind({name: array.ctypes.data for name, array in host.items()})()
    made = _page(verbs, views, {"w": weights})
    if is_beside:
        server, folder = address
        (folder / "weights.bin").write_bytes(made.weights)
        (folder / "page.html").write_text(made.html("weights.bin"), "utf-8")
        page.open(f"{server}/page.html")
    else:
        (tmp_path / "page.html").write_text(made.html(), "utf-8")
        page.open(tmp_path / "page.html")
    page.wait("['Ready', 'Done'].includes(document.getElementById('state')?.textContent)", "the page is not ready")
    assert page.run("document.title") == "</script> & <test>"
    given = f"{{x: new Float32Array({json.dumps(x.ravel().tolist())})}}"
    found = page.run(f"model.run({given}).then((o) => Array.from(o.outputs.order))")
    np.testing.assert_array_equal(np.array(found).reshape(ROWS, COLUMNS), host["order"])
    page.run("show()")
    assert page.run("document.getElementById('state').textContent") == "Done"
    assert "ms" in page.run("document.getElementById('time').textContent")
    wrong = page.run("model.run({x: new Float32Array(3)}).catch((error) => error.message)")
    assert wrong == f"the input x must be a Float32Array of {ROWS * COLUMNS} elements"
    assert not page.complaints(address[0] if is_beside else "file:")


def test_what_the_host_would_compute_cannot_be_exported() -> None:
    with Recording() as recording:
        buffer = recording.reserve(16)
        with pytest.raises(UnsupportedError, match=r"export: a part of the model runs on the host"):
            recording.read(buffer.address, 4)


def test_a_kernel_reads_no_bytes_that_it_writes() -> None:
    """In place: what is read there is copied first, since a browser binds no bytes twice."""
    view = _view("x", F32)
    with Recording() as recording:
        engine = WebGpuEngine.over(recording)
        buffer = engine.reserve(4 * ROWS * COLUMNS)
        verb = Map((view,), view.named("y"), call("exp", load(0, F32)))
        engine.compile(verb).bind({"x": buffer.address, "y": buffer.address})()
        copy, dispatched = recording.setup
    assert isinstance(copy, Copy)
    assert isinstance(dispatched, Dispatched)
    read, written = dispatched.bindings
    assert copy.source == written
    assert (copy.target, read.buffer != written.buffer) == (read, True)

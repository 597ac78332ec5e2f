"""The page of models with its server, in a real browser: files opened and dropped, sizes, jobs that fail, two models.

ANYDML_SCREENSHOTS=DIR keeps what was seen.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import browser
from tests.explore.test_differences import network
from tests.explore.test_model import MODELS, saved
from tests.explore.test_onnxruntime_profile import event, kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

NEEDS = {name: f"requirements/{name}.txt" for name in ("onnx",)}
NEEDS |= {"websockets": "requirements/browser.txt", "starlette": "requirements/explore.txt"}
pytestmark = [
    pytest.mark.skipif(browser.PROGRAM is None, reason="no browser here: install chromium"),
    *[
        pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"needs {file}")
        for name, file in NEEDS.items()
    ],
]
KEPT = os.environ.get("ANYDML_SCREENSHOTS")
VIEW = "document.querySelector('#model').view"
PAIR = "document.querySelector('#compare').view"


class Workbench:
    """The page of models, as somebody uses it."""

    def __init__(self, tab: browser.Page, address: str) -> None:
        self.tab, self.address, self.own = tab, address, address.partition("?")[0]

    def show(self, part: str = "model", **options: Any) -> None:
        self.tab.open(f"{self.address}#{part}", **options)

    def choose(self, selector: str, *files: Path) -> None:
        """Choose files in a box for them."""
        root = self.tab.send("DOM.getDocument")["root"]["nodeId"]
        found = self.tab.send("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.tab.send("DOM.setFileInputFiles", nodeId=found, files=list(map(str, files)))

    def drop(self, file: Path, x: int, y: int) -> None:
        """Drag a file over the page, and let it go at a place."""
        data = {"items": [], "files": [str(file)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.tab.send("Input.dispatchDragEvent", type=kind, x=x, y=y, data=data)

    def status(self) -> str:
        return str(self.tab.run(f"{VIEW}.status.textContent"))

    def checked(self, name: str) -> None:
        """Wait for a model that was opened."""
        self.tab.wait(f"{VIEW}?.model.name === {json.dumps(name)} && {VIEW}.done.check")

    def begin(self, file: Path) -> None:
        """Open a model in a page that was just loaded, which may show another."""
        self.show()
        self.tab.wait(f"document.querySelector('.none input') || {VIEW}?.done.check")
        before = self.tab.run(f"{VIEW}?.model.number ?? -1")
        self.choose("#model input[type=file]", file)
        self.tab.wait(f"({VIEW}?.model.number ?? -1) !== {before} && {VIEW}.done.check")

    def keep(self, name: str) -> None:
        if KEPT:
            self.tab.screenshot(Path(KEPT) / f"{name}.png")


@pytest.fixture(scope="module")
def tab() -> Iterator[browser.Page]:
    with browser.start() as found:
        yield found


@pytest.fixture(scope="module")
def bench(tab: browser.Page) -> Iterator[Workbench]:
    command = [sys.executable, "-m", "anydml", "explore", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - our own code
        assert server.stdout is not None
        yield Workbench(tab, server.stdout.readline().strip())
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 0


def open_model(folder: Path, *, target: int | None = None) -> Path:
    """A model of open sizes; with a target a product and a reshape fit at that size alone, which nothing can guess."""
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["h", "w"]) for name in "xy")
    last, weights = "y" if target is None else "m", {}
    made = [helper.make_node("Relu", ["x"], ["r"], name="act")]
    made.append(helper.make_node("MatMul", ["r", "r"], [last], name="mix"))
    if target is not None:
        made.append(helper.make_node("Reshape", ["m", "to"], ["y"], name="flat"))
        weights["to"] = np.array([target, target])
    return saved(folder / ("open.onnx" if target is None else "window.onnx"), made, [x], [y], weights)


def test_a_model_is_opened_dropped_and_replaced(bench: Workbench, tmp_path: Path) -> None:
    bench.show()
    bench.tab.wait("document.querySelector('.none input')")
    bench.choose(".none input", network(tmp_path / "first.onnx"))
    bench.checked("first.onnx")
    bench.drop(network(tmp_path / "second.onnx", extra=True), 300, 400)  # the left half opens
    bench.checked("second.onnx")
    assert bench.tab.run("document.querySelector('.drop').hidden")
    assert bench.tab.run(f"{VIEW}.graph.nodes.filter(one => one.kind === 'Neg').length") == 1
    assert bench.tab.run("location.hash") == "#model"
    assert bench.tab.complaints(bench.own) == []
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"\0garbage" * 99)
    bench.choose(".menu input", bad)
    bench.tab.wait(f"{VIEW}.status.textContent.includes('must be an ONNX model')")
    assert bench.status().startswith("bad.onnx was not opened; second.onnx is still shown: the file must be")
    assert bench.tab.run(f"{VIEW}.status.classList.contains('refused')")
    assert bench.tab.run(f"{VIEW}.model.name") == "second.onnx"
    text = tmp_path / "notes.txt"
    text.write_text("no model")
    bench.choose(".menu input", text)
    told = "notes.txt was not opened; second.onnx is still shown: a model is an .onnx or a .json file; got"
    bench.tab.wait(f"{VIEW}.status.textContent.startsWith({json.dumps(told)})")
    bench.drop(MODELS / "slice1.json", 300, 400)
    bench.checked("slice1.json")
    bench.tab.run(f"{VIEW}.choose(0)")
    bench.tab.wait("document.querySelector('.details a.page')?.hash.includes('&of=a/0.0/0')")


def test_open_sizes_have_a_form_and_a_failed_job_blocks_nothing(bench: Workbench, tmp_path: Path) -> None:
    bench.begin(open_model(tmp_path, target=91))
    bench.tab.run(f"{VIEW}.choose(1)")
    bench.tab.run(f"{VIEW}.buttons.passes.click()")
    bench.tab.wait(
        "[...document.querySelectorAll('.report summary')].some(one => one.textContent === 'Passes could not be done')"
    )
    told = bench.tab.run("[...document.querySelectorAll('.report .refused')].map(one => one.textContent).join()")
    assert "no sizes were found for its dynamic dimensions" in told
    assert not bench.tab.run(f"{VIEW}.buttons.passes.disabled")
    assert bench.status().startswith("Passes could not be done: ")
    style = f"getComputedStyle({VIEW}.status)"
    fault = bench.tab.run("getComputedStyle(document.querySelector('.report .refused')).backgroundColor")
    assert bench.tab.run(f"{style}.backgroundColor") == fault  # where a node is chosen the report is out of sight
    assert bench.tab.run(f"{VIEW}.status.scrollWidth <= {VIEW}.status.clientWidth")
    assert bench.tab.run(f"{VIEW}.status.scrollHeight <= {VIEW}.status.clientHeight")
    bench.tab.run(f"{VIEW}.choose(null)")
    heads = "[...document.querySelectorAll('.reports summary b')].map(one => one.textContent)"
    assert bench.tab.run(heads) == ["Passes", "Check"]  # the newest first
    bench.tab.run("document.querySelector('.sizes').open = true")
    bench.keep("a failed job and the form of sizes")
    for wrong in ("x", "-1", "99999999999"):
        bench.tab.type(".sizes input[name=w]", wrong)
        bench.tab.run("document.querySelector('.sizes button').click()")
        told = bench.tab.run("document.querySelector('.sizes .fault').textContent")
        assert told == f"w must be a whole number from 0 to 4294967295; got {wrong}"
        assert bench.tab.run("document.querySelector('.sizes [aria-invalid=true]').name") == "w"
        assert bench.tab.run("document.querySelector('.sizes').open")
    bench.tab.type(".sizes input[name=w]", "91")
    bench.tab.type(".sizes input[name=h]", "91")
    bench.tab.run("document.querySelector('.sizes button').click()")
    bench.tab.wait(f"{VIEW}.model.sizes[0].value === 91 && {VIEW}.done.check")
    assert bench.tab.run("document.querySelector('.sizes summary').textContent") == "Sizes h=91, w=91"
    bench.tab.run(f"{VIEW}.buttons.passes.click()")
    bench.tab.wait(f"{VIEW}.done.passes")
    assert bench.tab.run(f"{VIEW}.type('y')") == "float[91,91]"


def test_a_node_leads_to_its_operator_and_back(bench: Workbench, tmp_path: Path) -> None:
    bench.begin(network(tmp_path / "first.onnx"))
    number = bench.tab.run(f"{VIEW}.graph.nodes.findIndex(one => one.name === 'act')")
    bench.tab.run(f"{VIEW}.choose({number})")
    bench.tab.wait("document.querySelector('.details a')")
    bench.tab.run("document.querySelector('.details a').click()")
    bench.tab.wait("document.querySelector('h1')?.textContent === 'ACTIVATION_LEAKY_RELU'")
    bench.tab.wait("document.querySelector('#answers pre')")
    fields = {key: bench.tab.run(f"document.querySelector('#field-{key}').value") for key in ("sizes", "alpha")}
    assert fields == {"sizes": "2,2", "alpha": "0.5"}
    note = "document.querySelector('#edit .note')"
    assert not bench.tab.run(f"{note}.hidden")
    bench.keep("an operator of a node")
    bench.tab.type("#field-alpha", "0.75")
    bench.tab.wait(f"{note}.hidden && !location.hash.includes('of=')")
    bench.tab.run(f"location.hash = '#model/0/{number}'")
    bench.tab.wait("document.querySelector('.details h2').textContent === 'LeakyRelu'")


def test_a_profile_of_onnx_runtimes_lies_over_the_graph(bench: Workbench, tmp_path: Path) -> None:
    bench.begin(network(tmp_path / "first.onnx"))
    path = tmp_path / "profile.json"
    events = [event("model_run", 0, 99), kernel("mix", "MatMul", 1, 60), kernel("act", "LeakyRelu", 70, 20)]
    path.write_text(json.dumps(events))
    bench.drop(path, 300, 400)
    bench.tab.wait(f"{VIEW}.done.trace && {VIEW}.mode === 'trace'")
    assert bench.status().startswith("ONNX Runtime's profile: 80 µs a run in nodes on CPU")
    values = f"{VIEW}.graph.scene.boxes.map(one => {VIEW}.shades.value({VIEW}.shades.members(one.item)))"
    named = f"{VIEW}.graph.scene.boxes.map(one => one.name)"
    assert dict(zip(bench.tab.run(named), bench.tab.run(values), strict=True))["mix"] == pytest.approx(0.06)
    legend = f"{VIEW}.shades.legend.textContent"
    assert "ONNX Runtime's time 0" in bench.tab.run(legend)
    for nodes, told in ((["0.1"], "time 0"), (["0.1", "0.2"], "time of the node's pass 0")):
        passes = json.dumps({"passes": [{"nodes": nodes, "ms": 1}], "ms": 1, "says": ""})
        bench.tab.run(f"{VIEW}.finish('profile', {passes}, false)")
        assert bench.tab.run(legend).startswith(told)


def test_a_search_finds_nodes_of_the_very_type_first(bench: Workbench, tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    kinds = {"LeakyRelu": "first", "Neg": "relu", "Relu": "last"}
    names = ["x", "a", "b", "y"]
    nodes = [
        helper.make_node(kind, [names[k]], [names[k + 1]], name=name) for k, (kind, name) in enumerate(kinds.items())
    ]
    bench.begin(saved(tmp_path / "kinds.onnx", nodes, [x], [y], {}))
    found = bench.tab.run(f"{VIEW}.panel.matches('ReLU').map(k => {VIEW}.graph.nodes[k].kind)")
    assert found == ["Relu", "LeakyRelu", "Neg"]


def test_one_model_stands_beside_an_invitation(bench: Workbench, tmp_path: Path) -> None:
    bench.begin(network(tmp_path / "first.onnx"))
    bench.show("compare")
    bench.tab.wait(f"{PAIR}?.stages[0]?.port.frames")
    assert bench.tab.run(f"{PAIR}.status.textContent") == "Open a second model to compare the two."
    bench.tab.hover("#compare canvas")
    bench.tab.run("document.querySelector('#compare canvas').focus()")
    bench.tab.press("ArrowLeft", 37)
    bench.tab.run(f"{PAIR}.choose(0, 1)")
    assert bench.tab.run(f"{PAIR}.stages[0].port.chosen") == 1
    assert bench.tab.complaints(bench.own) == []


@pytest.mark.parametrize(("width", "is_dark"), [(1280, False), (390, True)], ids=["desktop", "phone"])
def test_two_models_stand_side_by_side_with_their_differences(
    bench: Workbench, tmp_path: Path, width: int, is_dark: bool
) -> None:
    bench.begin(network(tmp_path / "first.onnx"))
    bench.choose(".menu > div > span:nth-child(2) input", network(tmp_path / "second.onnx", alpha=0.25, extra=True))
    bench.tab.wait(f"location.hash === '#compare' && {PAIR}?.found && {PAIR}.models[1].name === 'second.onnx'")
    bench.show("compare", width=width, is_dark=is_dark)
    bench.tab.wait(f"{PAIR}?.found && {PAIR}.colours?.[1]")
    assert bench.tab.run(f"{PAIR}.status.textContent") == "Nodes: 4 the same, 1 changed, 1 only in the right one"
    rows = "[...document.querySelectorAll('.pair .slots li')].map(one => one.textContent)"
    assert bench.tab.run(rows) == ["LeakyRelu act changedalpha: 0.5 → 0.25", "Neg more only in the right one"]
    bench.tab.run("document.querySelector('.pair .slots button').click()")
    bench.tab.wait(f"{PAIR}.stages[0].port.chosen !== null")
    both = f"{PAIR}.stages.map((one, k) => {PAIR}.graphs[k].nodes[one.port.chosen].name)"
    assert bench.tab.run(both) == ["act", "act"]
    bench.keep(f"two models {width}")
    assert bench.tab.run("document.documentElement.scrollWidth") <= width
    assert bench.tab.complaints(bench.own) == []


def test_layers_unfold_and_the_graph_is_saved(bench: Workbench, tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    nodes, last = [], "x"
    for layer in range(60):
        for kind in ("Relu", "Neg", "Exp"):
            nodes.append(helper.make_node(kind, [last], [f"{kind}{layer}"], name=f"/layers.{layer}/{kind}"))
            last = f"{kind}{layer}"
    nodes.append(helper.make_node("Identity", [last], ["y"], name="/out"))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    bench.begin(saved(tmp_path / "deep.onnx", nodes, [x], [y], {}))
    kinds = f"{VIEW}.port.graph.boxes.map(one => one.kind)"
    assert bench.tab.run(kinds) == ["Input", "60 \u00d7 layers.0 … layers.59", "Identity", "Output"]
    x_at, y_at = bench.tab.run(
        f"(b => [{VIEW}.port.x + (b.x + b.w - 8) * {VIEW}.port.scale, {VIEW}.port.y + (b.y + 20) * {VIEW}.port.scale])"
        f"({VIEW}.port.graph.boxes[1])"
    )
    left, top = bench.tab.run("(r => [r.x, r.y])(document.querySelector('#model canvas').getBoundingClientRect())")
    for kind in ("mousePressed", "mouseReleased"):
        bench.tab.send("Input.dispatchMouseEvent", type=kind, x=left + x_at, y=top + y_at, button="left", clickCount=1)
    bench.tab.wait(f"{VIEW}.port.graph.boxes.length === 63")
    inner = bench.tab.run(f"{VIEW}.graph.nodes.findIndex(one => one.name === '/layers.7/Neg')")
    bench.tab.run(f"{VIEW}.choose({inner})")  # what is folded away comes in sight
    bench.tab.wait(f"{VIEW}.port.graph.boxes.length === 65 && {VIEW}.port.byItem.has({inner})")
    bench.keep("layers")
    text = bench.tab.run(
        f"import('/static/export.js').then(({{drawing}}) => drawing({VIEW}.port, 'svg')).then(one => one.text())"
    )
    assert text.count("<text") == 65 * 2 + 59 + 2 + bench.tab.run(f"{VIEW}.port.words.flat().length")
    assert ">/layers.7/Neg<" in text
    size = bench.tab.run(
        f"import('/static/export.js').then(({{drawing}}) => drawing({VIEW}.port, 'png')).then(createImageBitmap)"
        ".then(one => [one.width, one.height])"
    )
    width, height = bench.tab.run(f"[{VIEW}.port.graph.width, {VIEW}.port.graph.height]")
    assert size == [pytest.approx(2 * width + 64, abs=2), pytest.approx(2 * height + 64, abs=2)]
    shapes = bench.tab.run(f"{VIEW}.port.words.flat().map(one => one[2])")
    assert set(shapes) == {"2"}


def test_work_is_stopped_and_nodes_of_one_pass_share_a_colour(bench: Workbench, tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2048, 2048]) for name in "xy")
    made = [helper.make_node("MatMul", [f"t{k}" if k else "x", "x"], [f"t{k + 1}"], name=f"mix{k}") for k in range(60)]
    made += [helper.make_node("Tanh", ["t60"], ["u"], name="one"), helper.make_node("Neg", ["u"], ["y"], name="two")]
    bench.begin(saved(tmp_path / "long.onnx", made, [x], [y], {}))
    stop = f"{VIEW}.stopper"
    bench.tab.wait(f"{stop}.hidden")
    bench.tab.run(f"{VIEW}.buttons.profile.click()")
    bench.tab.wait(f"!{stop}.hidden && {VIEW}.status.textContent.includes('running it 5 times')")  # some minutes
    bench.keep("a stop button")
    bench.tab.run(f"{stop}.click()")
    bench.tab.wait(f"{stop}.hidden && {VIEW}.status.textContent.startsWith('Profile: stopped after')")
    assert bench.tab.run(f"[...{VIEW}.modes.options].map(one => one.value)") == ["type", "support"]
    bench.tab.run(f"{VIEW}.buttons.passes.click()")
    bench.tab.wait(f"{VIEW}.done.passes")
    bench.tab.run(f"{VIEW}.stage.unfold({VIEW}.graph.groups.map((_, k) => k)).then(() => {VIEW}.colour('fusion'))")
    colour = "(v, name) => v.shades.colours[v.port.byItem.get(v.graph.nodes.findIndex(n => n.name === name))].join()"
    one, two, far = (bench.tab.run(f"({colour})({VIEW}, '{name}')") for name in ("one", "two", "mix3"))
    assert one == two != far
    assert bench.tab.run(f"{VIEW}.shades.legend.textContent").startswith(
        "nodes of one colour are one pass (1 such pass)"
    )
    assert bench.tab.complaints(bench.own) == []

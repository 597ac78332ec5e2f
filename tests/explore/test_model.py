"""What `anydml explore MODEL` tells a page of a model: graphs, the check, weights, passes, times, other answers."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

import anydml as dml
from anydml.cli.app import app
from anydml.core.errors import ModelError, UnsupportedError
from anydml.explore import categories, page
from anydml.explore.drawing import GraphNode, ModelGraph, Slot
from anydml.explore.jobs import Jobs
from anydml.explore.model import Workspace, open_model, standalone
from anydml.explore.statistics import statistics_of
from anydml.operators import OPERATORS

if TYPE_CHECKING:
    from anydml.explore.model import Opened

HAS_ONNX = importlib.util.find_spec("onnx") is not None
needs_onnx = pytest.mark.skipif(not HAS_ONNX, reason="needs requirements/onnx.txt")
MODELS = Path(__file__).parents[2] / "examples" / "models"
HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\x1b[31m"


def saved(path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: dict[str, Any]) -> Path:
    import onnx
    from onnx import helper

    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, tensors)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=8), path)
    return path


def flow(folder: Path, odd: str = "odd") -> Path:
    """A choice, a product with a weight, a node that nothing can run, and one that the host runs."""
    from onnx import TensorProto, helper

    def info(name: str, sizes: list[int], kind: int = TensorProto.FLOAT) -> Any:
        return helper.make_tensor_value_info(name, kind, sizes)

    make = helper.make_node
    then = helper.make_graph([make("Mul", ["x", "x"], ["t"], name="square")], "then", [], [info("t", [3, 3])])
    other = helper.make_graph([make("Neg", ["x"], ["e"], name="minus")], "other", [], [info("e", [3, 3])])
    nodes = [
        make("If", ["c"], ["a"], name="choose", then_branch=then, else_branch=other),
        make("MatMul", ["x", "w"], ["m"], name="mix"),
        make("Constant", [], ["k"], value_float=2.0),
        make("Mul", ["m", "k"], ["n"], name="twice"),
        make("Mystery", ["n"], ["o"], name=odd, domain="com.example"),
        make("Det", ["n"], ["d"], name="determinant"),
    ]
    outputs = [info("a", [3, 3]), info("o", [3, 3]), info("d", [])]
    weights = {"w": np.arange(9, dtype=np.float32).reshape(3, 3)}
    return saved(folder / "flow.onnx", nodes, [info("x", [3, 3]), info("c", [], TensorProto.BOOL)], outputs, weights)


def place(opened: Opened, name: str, graph: int = 0) -> str:
    return next(f"{graph}.{k}" for k, node in enumerate(opened.work.graphs[graph].nodes) if node.name == name)


@needs_onnx
def test_a_model_is_told_with_what_cannot_run_and_why(tmp_path: Path) -> None:
    opened = open_model(flow(tmp_path), {})
    graph = opened.graph({"graph": 0})
    nodes = {node.get("name", ""): node for node in graph["nodes"] if not node.get("end")}
    assert set(nodes) == {"choose", "mix", "twice", "odd", "determinant"}  # a constant is shown where it is read
    assert nodes["mix"]["in"] == [["A", "x"], ["B", "w", 1]]
    assert graph["types"]["w"] == "float[3,3]"
    found = opened.jobs.result("check")
    assert found["nodes"][place(opened, "odd")]["state"] == "refused"
    assert "com.example.Mystery is not supported" in found["nodes"][place(opened, "odd")]["note"]
    assert found["nodes"][place(opened, "determinant")]["state"] == "host"
    assert "36 bytes" in found["nodes"][place(opened, "determinant")]["note"]
    assert found["nodes"][place(opened, "mix")]["operators"] == ["GEMM"]
    assert found["types"]["m"] == "float[3,3]"


@needs_onnx
def test_bodies_are_graphs_of_their_own_and_their_reads_are_links(tmp_path: Path) -> None:
    opened = open_model(flow(tmp_path), {})
    graph = opened.graph({"graph": 0})
    number, choose = next((k, node) for k, node in enumerate(graph["nodes"]) if node["kind"] == "If")
    bodies = dict(choose["bodies"])
    assert set(bodies) == {"then_branch", "else_branch"}
    assert ["read within", "x"] in choose["in"]
    read = {graph["nodes"][link[0]]["name"] for link in graph["links"] if link[1] == number}
    assert read == {"x", "c"}
    inner = opened.graph({"graph": bodies["then_branch"]})
    assert inner["around"] == 0
    assert [node["kind"] for node in inner["nodes"]] == ["Input", "Mul", "Output"]
    wrong: list[Any] = [{"graph": 9}, {"graph": -1}, {"graph": "0"}, [], None]
    for asked in wrong:
        with pytest.raises(ModelError, match="there is no graph"):
            opened.graph(asked)


@needs_onnx
def test_functions_are_graphs_that_calls_open(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    sets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    add = helper.make_node("Add", ["a", "a"], ["b"], name="sum")
    twice = helper.make_function("own", "Twice", ["a"], ["b"], [add], sets[:1])
    four = helper.make_node("Twice", ["a"], ["b"], name="half", domain="own")
    again = helper.make_function("own", "Again", ["a"], ["b"], [four], sets)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Again", ["x"], ["y"], domain="own")], "graph", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=sets, ir_version=8, functions=[twice, again])
    onnx.save(model, tmp_path / "model.onnx")
    opened = open_model(tmp_path / "model.onnx", {})
    titles = [graph["title"] for graph in opened.overview()["graphs"]]
    assert titles == ["graph", "function Twice", "function Again"]
    assert [node["kind"] for node in opened.graph({"graph": 0})["nodes"]] == ["Input", "Add", "Output"]  # put in place
    call = next(node for node in opened.graph({"graph": 2})["nodes"] if node["kind"] == "own.Twice")
    assert call["bodies"] == [["function", 1]]


@needs_onnx
def test_passes_times_and_other_answers_are_told_by_node() -> None:
    opened = open_model(MODELS / "crop.onnx", {"sizes": ("batch=2", "picks=2")})
    nodes = {f"0.{k}" for k, node in enumerate(opened.work.graphs[0].nodes) if not node.end}
    passes = opened.jobs.result("passes")["passes"]
    assert passes
    assert all(one["nodes"] and set(one["nodes"]) <= nodes and one["does"] for one in passes)
    profile = opened.jobs.result("profile")
    assert profile["ms"] > 0
    assert {place for one in profile["passes"] for place in one["nodes"]} <= nodes
    if importlib.util.find_spec("onnxruntime") is not None:
        found = opened.jobs.result("compare")
        assert all(one["agrees"] for one in found["tensors"].values())
        assert all(one["samples"] and one["samples"][0][1:] for one in found["tensors"].values())
        assert [one["agrees"] for one in found["outputs"]] == [True] * len(found["outputs"])
        json.dumps(found, allow_nan=False)


@needs_onnx
def test_a_weight_is_told_by_its_figures(tmp_path: Path) -> None:
    opened = open_model(flow(tmp_path), {})
    found = opened.weight({"name": "w"})
    assert (found["count"], found["min"], found["max"], found["mean"], found["zeros"]) == (9, 0, 8, 4, 1)
    assert found["bytes"] == 36
    with pytest.raises(ModelError, match="there is no such weight"):
        opened.weight({"name": "x"})


def test_figures_are_those_of_numpy_whatever_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[statistics_of.__module__], "_PIECE", 100)
    numbers = np.random.default_rng(0).normal(3, 2, 1_050).astype(np.float32)
    found = statistics_of(numbers.reshape(50, 21))
    wide = numbers.astype(np.float64)
    for key, value in (("mean", wide.mean()), ("std", wide.std()), ("min", wide.min()), ("max", wide.max())):
        assert found[key] == pytest.approx(value, rel=1e-12)
    assert sum(found["bins"]) == 1_050
    odd = statistics_of(np.array([np.nan, np.inf, -np.inf, 0, 1], np.float16))
    assert (odd["nan"], odd["infinite"], odd["zeros"], odd["min"], odd["max"]) == (1, 2, 1, 0, 1)
    for numbers in (np.zeros(0, np.float32), np.array([1e308, -1e308]), np.array([np.nan]), np.array([True, False])):
        json.dumps(statistics_of(numbers), allow_nan=False)


def test_a_dxdispatch_model_is_its_dispatches_with_their_faults(tmp_path: Path) -> None:
    tensor = {"DataType": "FLOAT32", "Sizes": [4]}
    crop = {
        "type": "DML_OPERATOR_SLICE1", "InputTensor": tensor, "OutputTensor": tensor,
        "InputWindowOffsets": [0], "InputWindowSizes": [4], "InputWindowStrides": [0],
    }  # fmt: skip
    data = {
        "resources": {
            "x": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3, 4]},
            "y": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 4, "value": 0}},
        },
        "dispatchables": {"crop": crop, "bad": {"type": "DML_OPERATOR_FOO"}},
        "commands": [
            {"type": "dispatch", "dispatchable": "crop", "bindings": {"InputTensor": "x", "OutputTensor": "y"}},
            {"type": "dispatch", "dispatchable": "bad", "bindings": {"InputTensor": "y"}},
            {"type": "print", "resource": "y"},
        ],
    }
    path = tmp_path / "model.json"
    path.write_text(json.dumps(data))
    opened = open_model(path, {})
    graph = opened.graph({"graph": 0})
    assert [(node["kind"], node["name"]) for node in graph["nodes"]] == [
        ("SLICE1", "crop"), ("not an operator", "bad"), ("Print", "y"),
    ]  # fmt: skip
    assert graph["links"] == [[0, 1], [0, 2]]
    assert ["InputTensor", "FLOAT32 {4}"] in graph["nodes"][0]["attributes"]
    nodes = opened.jobs.result("check")["nodes"]
    assert "InputWindowStrides[0] must not be 0" in nodes["0.0"]["note"]
    assert nodes["0.1"]["state"] == "refused"
    assert opened.weight({"name": "x"})["mean"] == 2.5


def test_a_dxdispatch_model_that_runs_has_passes_and_times() -> None:
    opened = open_model(MODELS / "slice1.json", {})
    assert opened.jobs.result("check")["nodes"]["0.0"] == {"level": "2_1"}
    assert [one["nodes"] for one in opened.jobs.result("passes")["passes"]] == [["0.0"], ["0.2"]]
    assert [one["nodes"] for one in opened.jobs.result("profile")["passes"]] == [["0.0"], ["0.2"]]


def test_a_page_asks_for_work_until_it_is_done() -> None:
    asks = Workspace([open_model(MODELS / "slice1.json", {})]).answers()
    assert asks["model"]({})["jobs"] == ["check", "passes", "profile"]
    while (state := asks["job"]({"name": "check"}))["state"] == "running":
        time.sleep(0.01)
    assert state["state"] == "done"
    assert asks["job"]({"name": "check"})["result"] == state["result"]
    assert Workspace().answers()["model"]({}) is None


def test_work_that_fails_says_so_and_may_be_asked_for_again() -> None:
    calls = []

    def refuse(_say: Any) -> None:
        calls.append(1)
        raise KeyError("no")

    def add(say: Any) -> int:
        say("adding")
        return 3

    jobs = Jobs({"refuse": refuse, "add": add})
    while (state := jobs.start("add"))["state"] == "running":
        pass
    assert (state["state"], state["result"]) == ("done", 3)
    for times in (1, 2):
        asked = 0
        while (state := jobs.start("refuse"))["state"] == "running" and asked < 1000:
            time.sleep(0.01)
            asked += 1
        assert (state["state"], len(calls)) == ("failed", times)
        assert "KeyError" in state["says"]
    for name, shown in (("other", "'other'"), (["add"], r"\['add'\]")):
        with pytest.raises(ModelError, match=f"there is no work called {shown}"):
            jobs.start(name)


def test_work_is_stopped_at_once_and_blocks_nothing() -> None:
    side = 8192  # half a minute, in one kernel
    x = dml.TensorDesc("float32", (1, 1, side, side))
    product = dml.Device("cpu").compile(dml.Gemm(a_tensor=x, b_tensor=x, output_tensor=x))
    array = np.ones(x.sizes, "float32")
    begun = threading.Event()

    def long(say: Any) -> None:
        say("multiplying")
        begun.set()
        product(array, array)

    jobs = Jobs({"long": long, "next": lambda _say: 3, "last": lambda _say: 4})
    for name in ("long", "next", "last"):
        jobs.start(name)
    assert begun.wait(60)
    assert jobs.stop("next")["state"] == "running"  # it waits for the first
    while jobs.state("next")["state"] == "running":
        time.sleep(0.01)
    assert (jobs.state("next")["state"], jobs.state("long")["state"]) == ("stopped", "running")
    jobs.stop("long")
    while jobs.state("last")["state"] == "running":
        time.sleep(0.01)
    assert jobs.state("long")["state"] == "stopped"
    assert jobs.state("last")["result"] == 4
    assert [jobs.start(name)["state"] for name in ("long", "next")] == ["stopped", "stopped"]  # told once
    while (state := jobs.start("next"))["state"] == "running":
        time.sleep(0.01)
    assert state["result"] == 3
    assert jobs.stop("next")["state"] == "done"
    assert jobs.stop(["next"])["state"] == "waiting"


TRACED = """
import sys, threading, time
from anydml.explore.jobs import Jobs

begun = threading.Event()
def endless(_):
    begun.set()
    while True:
        time.sleep(0)
jobs = Jobs({"done": lambda _: 3, "stopped": endless})
jobs.start("done")
while jobs.state("done")["state"] == "running":
    time.sleep(0.01)
jobs.start("stopped")
begun.wait()
jobs.stop("stopped")
while jobs.state("stopped")["state"] == "running":
    time.sleep(0.01)
sys.settrace(lambda *_: None)
print((lambda: jobs.state("done")["result"])())
"""


def test_work_leaves_no_interrupt_behind() -> None:
    """One that is taken back, or not taken, has every thread look for it: a traced one then never goes on."""
    found = subprocess.run([sys.executable, "-c", TRACED], timeout=60, capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert found.stdout == "3\n"


@needs_onnx
def test_a_comparison_has_one_verdict_for_each_tensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from onnx import TensorProto, helper

    from anydml.explore import onnx_work
    from anydml.onnx.tools.compare import NOT_COMPARED, Comparison, NodeComparison, differ, refused

    made = [helper.make_node("Relu", ["x"], ["r"], name="act"), helper.make_node("Exp", ["r"], ["y"], name="top")]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    opened = open_model(saved(tmp_path / "two.onnx", made, [x], [y], {}), {})
    good, one = np.ones(2, "float32"), np.zeros(2, "float32")
    off, agreed = (differ(name, good, there, 1e-3, 1e-7) for name, there in (("r", one), ("y", good)))
    nodes = (NodeComparison("Relu 'act'", off), NodeComparison("Exp 'top'", differ("y", good, one, 1e-3, 1e-7)))
    found = Comparison((agreed,), "Relu 'act'", off, nodes)
    monkeypatch.setattr(onnx_work, "compare", lambda *_args, **_options: found)
    result = opened.jobs.result("compare")
    assert result["says"] == "1 of 1 output agrees with ONNX Runtime; on the way 1 node is off, the first Relu 'act'"
    assert (result["tensors"]["r"]["agrees"], result["tensors"]["y"]["agrees"]) == (False, True)
    left = replace(found, nodes=(NodeComparison("Relu 'act'", refused("r", f"{NOT_COMPARED}no room")),))
    monkeypatch.setattr(onnx_work, "compare", lambda *_args, **_options: left)
    result = opened.jobs.result("compare")
    assert result["says"] == "1 of 1 output agrees with ONNX Runtime"
    assert not result["tensors"]["r"]["compared"]


@needs_onnx
def test_work_that_open_sizes_make_fail_says_which_and_ends(tmp_path: Path) -> None:
    """A page that asks after it failed began it anew, each time, and showed it at work for ever."""
    from onnx import TensorProto, helper

    node = helper.make_node("Reshape", ["x", "to"], ["y"])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, "h", "w"]) for name in "xy")
    asks = Workspace(
        [open_model(saved(tmp_path / "window.onnx", [node], [x], [y], {"to": np.array([7777])}), {})]
    ).answers()
    for name in ("passes", "profile"):
        asked = 0
        while (state := asks["job"]({"name": name}))["state"] == "running" and asked < 2000:
            time.sleep(0.01)
            asked += 1
        assert state["state"] == "failed"
        assert "no sizes were found for its dynamic dimensions" in state["says"]
        assert "with --shape h=224 --shape w=224" in state["says"]


def test_a_graph_of_ten_thousand_nodes_is_laid_out() -> None:
    nodes = [
        GraphNode("Add", f"n{k}", [Slot("A", f"t{k - 1}"), Slot("B", "t0")], [Slot("C", f"t{k}")])
        for k in range(10_000)
    ]
    graph = ModelGraph("large", nodes).as_data()
    assert len(graph["scene"]["edges"]) == 9_999 + 9_998
    assert graph["scene"]["width"] < 2_000


@needs_onnx
def test_names_of_strangers_stay_text_in_a_page_of_one_file(tmp_path: Path) -> None:
    opened = open_model(flow(tmp_path, HOSTILE), {})
    text = page.standalone(*standalone(opened))
    assert HOSTILE not in text
    assert "<img" not in text
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert text.count("</script>") == 2
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert data
    assert any("onerror" in node.get("name", "") for node in json.loads(data[1])["drawn"][0]["nodes"])
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_without_what_lays_graphs_out_a_model_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "igraph", None)
    with pytest.raises(UnsupportedError, match=r"needs igraph.*pip install 'anydml\[graph\]'"):
        open_model(MODELS / "slice1.json", {})


@needs_onnx
def test_open_sizes_are_told_and_given(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", None, "?", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    path = saved(tmp_path / "open.onnx", [node], [x], [y], {"w": np.ones((3, 2), np.float32)})
    asks = Workspace([open_model(path, {"sizes": ("batch=4",)})]).answers()

    def sizes() -> list[tuple[str, Any]]:
        return [(one["name"], one["value"]) for one in asks["model"]({})["sizes"]]

    assert sizes() == [("batch", 4), ("x[1]", None), ("x[2]", None)]
    asks["sizes"]({"sizes": ["x[2]=7", "batch=1"]})
    assert sizes() == [("batch", 1), ("x[1]", None), ("x[2]", 7)]
    while (state := asks["job"]({"name": "check"}))["state"] == "running":
        time.sleep(0.01)
    found = state["result"]
    assert found["types"]["x"] == f"float[1,{found['sizes']['x[1]']},7,3]"
    for wrong_value in ("x=/etc/hostname", "x=x.npy", "x=", "x"):
        with pytest.raises(ModelError, match="a value is a number or a list"):
            asks["sizes"]({"sizes": [], "values": [wrong_value]})
    for wrong in (["batch=x"], "batch=1", [1], ["batch=1"] * 1000):
        with pytest.raises((ModelError, click.UsageError)):
            asks["sizes"]({"sizes": wrong})
    assert sizes()[0] == ("batch", 1)


@needs_onnx
def test_nodes_have_categories_by_families_of_operators(tmp_path: Path) -> None:
    graph = open_model(flow(tmp_path), {}).graph({"graph": 0})
    found = {node["name"]: node["category"] for node in graph["nodes"] if not node.get("end")}
    assert found == {
        "choose": "control flow", "mix": "matrix product", "twice": "arithmetic, logic", "odd": "other",
        "determinant": "other",
    }  # fmt: skip
    assert categories.of_node("Conv", 17) == categories.of_node("MaxPool", 17) == "convolution, pooling"
    assert categories.of_node("Softmax", 17) == categories.of_node("LayerNormalization", 17) == "normalization"
    assert categories.of_node("Transpose", 17) == categories.of_node("Reshape", 17) == "data movement"
    families = {cls.__module__.rpartition(".")[2] for cls in OPERATORS.values()}
    known = set(" ".join(categories.CATEGORIES.values()).split())
    assert families - known == {"optimizer"}


@needs_onnx
def test_a_node_leads_to_forms_of_its_operators(tmp_path: Path) -> None:
    opened = open_model(flow(tmp_path), {})
    workspace = Workspace([opened])
    asks = workspace.answers()
    where = place(opened, "mix")
    assert asks["node"]({"place": where}) == []  # before it was checked
    opened.jobs.result("check")
    (found,) = asks["node"]({"place": where})
    assert found["name"] == "GEMM"
    assert found["link"].startswith("operator/gemm?sizes=3,3&type=float32&b-sizes=3,3&b-type=float32&trans-a=none")
    assert workspace.desc_of(f"a/{where}/0") is opened.work.descs(where)[0]
    for wrong in (f"b/{where}/0", f"a/{where}/1", f"a/{where}/x", "a/9.9/0", "", f"a/{where}/²"):
        assert workspace.desc_of(wrong) is None
    json.dumps(asks["node"]({"place": [1]}))


def test_help_has_the_options_of_a_model() -> None:
    text = CliRunner().invoke(app, ["explore", "--help"]).output
    assert "--shape NAME=SIZES" in text
    assert "--ort-profile FILE" in text


@needs_onnx
def test_a_value_on_which_depends_what_runs_is_given(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    def branch(kind: str) -> Any:
        return helper.make_graph(
            [helper.make_node(kind, ["x"], [kind], name=kind)], kind, [],
            [helper.make_tensor_value_info(kind, TensorProto.FLOAT, [3])],
        )  # fmt: skip

    node = helper.make_node("If", ["c"], ["y"], name="choose", then_branch=branch("Exp"), else_branch=branch("Neg"))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy")
    c = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    asks = Workspace([open_model(saved(tmp_path / "if.onnx", [node], [x, c], [y], {}), {})]).answers()
    found = {one["name"]: one for one in asks["model"]({})["sizes"]}
    assert found["c"] == {"name": "c", "where": [], "value": None, "is_value": True}

    def job(name: str) -> Any:
        while (state := asks["job"]({"name": name}))["state"] == "running":
            time.sleep(0.01)
        return state

    assert "input 'c' must be given" in job("passes")["says"]
    asks["sizes"]({"values": ["c=true"]})
    assert job("passes")["state"] == "done"
    assert all("state" not in node for node in job("check")["result"]["nodes"].values())  # none is unknown
    assert {one["name"]: one["value"] for one in asks["model"]({})["sizes"]}["c"] == "true"

"""What finds a model's faults: comparing node by node, profiling pass by pass, and cutting down to what fails."""

from __future__ import annotations

import itertools
import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner

import anydml as dml
from anydml.arrays.tensor import TensorDesc
from anydml.cli.app import app
from anydml.graph.lower import all_plain, lower_operator
from anydml.ir.cost import work_of
from onnx_models import helper, model, node, onnx

import anydml.onnx as front  # isort: skip - it needs onnx
from anydml.onnx import library  # isort: skip - as above
from anydml.onnx.tools import compare, minimise  # isort: skip - as above
from anydml.onnx.tools.compare import differ  # isort: skip - as above

if TYPE_CHECKING:
    from pathlib import Path

runtime = pytest.importorskip("onnxruntime", reason="comparing needs ONNX Runtime: make test EXTRAS=onnx")


def program(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def flow_model() -> Any:
    """A chain with computed sizes, two outputs, an If that reads from outside, and a weight that nobody reads."""
    then = helper.make_graph([node("Sqrt", "b", "r")], "then", [], [helper.make_empty_tensor_value_info("r")])
    other = helper.make_graph([node("Neg", "b", "s")], "else", [], [helper.make_empty_tensor_value_info("s")])
    nodes = [
        node("Exp", "x", "a", name="exp"),
        node("Shape", "x", "sizes", name="shape"),
        node("Tanh", "a", "b", name="tanh"),
        node("If", "yes", "c", name="if", then_branch=then, else_branch=other),
        node("Reshape", "c sizes", "d", name="reshape"),
        node("Neg", "d", "y", name="neg"),
        node("Abs", "y", "z", name="abs"),
    ]
    inputs = {"x": ("float32", ["n", 4])}
    return model(nodes, inputs, "z b", {"yes": np.array(True), "idle": np.ones(3, np.float32)})


def has(*kinds: str) -> Any:
    """What fails while a model that ONNX Runtime runs has nodes of these types."""

    def fails(path: str) -> bool:
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        shapes = {one.name: [n if isinstance(n, int) else 2 for n in one.shape] for one in session.get_inputs()}
        session.run(None, {name: np.ones(shape, np.float32) for name, shape in shapes.items()})
        return {*kinds} <= {found.op_type for found in onnx.load(path).graph.node}

    return fails


def test_the_smallest_model_that_fails() -> None:
    for kinds, inputs in ((["Reshape"], ["c"]), (["If"], []), (["Exp", "Abs"], ["x", "y"])):
        found = front.reduce(flow_model(), has(*kinds))
        assert sorted(one.op_type for one in found.model.graph.node) == sorted(kinds), found
        names = [one.name for one in found.model.graph.input]
        assert sorted(names) == inputs or kinds == ["If"]  # whose bodies read what became an input or a constant
        onnx.checker.check_model(found.model)
        if kinds == ["Reshape"]:
            assert onnx.numpy_helper.to_array(found.model.graph.initializer[0]).tolist() == [2, 4]


def test_values_that_matter_become_constants_and_what_cannot_run_is_cut_from_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(path: str) -> bool:
        graph = onnx.load(path).graph
        held = {one.name for one in graph.initializer} | {name for each in graph.node for name in each.output}
        return "a" in held and any(each.op_type == "Tanh" for each in graph.node)

    found = front.reduce(flow_model(), fails, {"x": np.zeros((1, 4), np.float32)})
    assert [one.op_type for one in found.model.graph.node] == ["Tanh"]
    (a,) = found.model.graph.initializer
    assert onnx.numpy_helper.to_array(a).tolist() == [[1.0] * 4]
    steps = list(front.reductions(flow_model(), fails))
    assert [one.nodes for one in steps] == sorted((one.nodes for one in steps), reverse=True)

    def refuse(*_: Any, **__: Any) -> Any:
        raise dml.MissingDependencyError("onnxruntime", dml.Fault(field="", rule="there is none"))

    monkeypatch.setattr(minimise, "run_onnxruntime", refuse)
    monkeypatch.setattr(minimise, "load", refuse)
    assert [one.op_type for one in front.reduce(flow_model(), fails).model.graph.node] == ["Exp", "Tanh"]


def test_reduce_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, small, judge = tmp_path / "m.onnx", tmp_path / "small.onnx", tmp_path / "judge.py"
    path.write_bytes(data := flow_model().SerializeToString())
    judge.write_text("import sys\nsys.exit('found it' if b'Tanh' in open(sys.argv[1], 'rb').read() else 0)\n")
    fails = f"{sys.executable} {judge}"
    result = program("reduce", path, "--fails", fails, "--says", "found it", "-o", small)
    assert result.exit_code == 0, result.output
    assert "Reduced to 1 node, 1 input, 0 initializers, 1 output, after" in result.stdout
    assert [one.op_type for one in onnx.load(small).graph.node] == ["Tanh"]
    bad = tmp_path / "bad.onnx"
    bad.write_text("no model")
    for words, status, said in (
        ((path, "--fails", f"{fails} {{}}", "--says", "something else"), 1, "the model must fail, and does not"),
        ((path, "--fails", "no-such-command {}"), 2, "the command cannot be started (no such file or directory)"),
        ((path, "--fails", "'"), 2, "is no command"),
        ((path, "--fails", " "), 2, "there must be a command"),
        ((path, "--fails", fails, "-o", path), 2, "is the model itself"),
        ((path, "--fails", fails, "-o", tmp_path / "no" / "m.onnx"), 2, "the file cannot be written"),
        ((tmp_path / "none.onnx", "--fails", fails), 2, "the file cannot be read"),
        ((bad, "--fails", fails), 2, "the file must be an ONNX model"),
        ((judge, "--fails", fails), 2, "must be an ONNX model, *.onnx"),
        ((path, "--fails", f'{sys.executable} -c "import time; time.sleep(60)"', "--timeout", 1), 1, "must fail"),
    ):
        result = program("reduce", *words)
        assert (result.exit_code, said in result.output) == (status, True), result.output
    assert path.read_bytes() == data
    answers = iter([True, False, True])

    def judged(_self: object, _path: str) -> bool:
        if (answer := next(answers, None)) is None:
            raise KeyboardInterrupt
        return answer

    monkeypatch.setattr("anydml.cli.reduce._Command.__call__", judged)
    result = program("reduce", path, "--fails", fails)
    assert (result.exit_code, "Interrupted: the best so far has" in result.stdout) == (130, True), result.output
    assert 1 <= len(onnx.load(tmp_path / "m.reduced.onnx").graph.node) < 7
    with pytest.raises(dml.DescriptionError, match="fails must be a function"):
        front.reduce(path, "false")  # type: ignore[arg-type]  # what is tested


def test_verdicts_of_the_table_are_judged_as_the_outputs_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["x", *(f"t{k}" for k in range(30)), "y"]
    path = tmp_path / "m.onnx"
    nodes = [node("Neg", one, other, name=f"neg {other}") for one, other in itertools.pairwise(names)]
    path.write_bytes(model(nodes, {"x": ("float32", [2])}).SerializeToString())
    x = {"x": np.array([1, 2], np.float32)}
    real, wrong = library.run_onnxruntime, {*names[1:]}

    def patched(given: Any, inputs: Any, outputs: list[str], **options: Any) -> dict[str, Any]:
        found = real(given, inputs, outputs, **options)
        return {name: value * np.float32(1.5) if name in wrong else value for name, value in found.items()}

    monkeypatch.setattr(compare, "run_onnxruntime", patched)
    found = front.compare(path, x, alone=True)
    assert not found
    assert all(one.found.errors is not None for one in found.nodes)
    assert [one.alone.errors is not None for one in found.nodes if one.alone] == [True, *[False] * 30]
    wrong.remove("y")
    found = front.compare(path, x, every=True)
    assert found
    assert not found.nodes[0].found.agrees
    result = program("compare", path, "--all")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].endswith(
        "m.onnx agrees with ONNX Runtime; 30 of 31 tensors within it do not, as the table says"
    )


def test_a_difference_that_no_node_has_is_said_to_be_of_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model([node("Neg", "x", "y", name="n")], {"x": ("float32", [2])}).SerializeToString())
    real = library.run_onnxruntime

    def optimised(given: Any, inputs: Any, outputs: list[str], **options: Any) -> dict[str, Any]:
        found = real(given, inputs, outputs, **options)
        return found if options else {name: value + 1 for name, value in found.items()}

    monkeypatch.setattr(compare, "run_onnxruntime", optimised)
    result = program("compare", path)
    assert result.exit_code == 1
    assert "No node differs as it is: what was made of several of them, on either side, does." in result.stdout


@pytest.mark.parametrize("misspelt", [("--shape", "nn=2"), ("--input", "xx=1")])
def test_a_name_that_is_misspelt_is_told_before_a_model_is_run(tmp_path: Path, misspelt: tuple[str, str]) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model([node("Neg", "x", "y")], {"x": ("float32", ["n"])}).SerializeToString())
    result = program("reduce", path, "--fails", f"{sys.executable} -c pass", *misspelt)
    assert result.exit_code == 2
    assert misspelt[1].partition("=")[0] in result.output


def test_every_node_is_compared_and_the_one_that_is_off_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [
        node(kind, *names, name=kind.lower())
        for kind, *names in (("Exp", "x", "a"), ("Neg", "a", "b"), ("Abs", "b", "y"))
    ]
    path = tmp_path / "m.onnx"
    path.write_bytes(model(nodes, {"x": ("float32", [2, 3])}).SerializeToString())
    x = {"x": np.array([[0, 1, np.nan], [np.inf, 4, 5]], np.float32)}
    for side in compare.SIDES:
        found = front.compare(path, x, against=side, alone=True)
        assert found
        assert [one.found.name for one in found.nodes] == ["a", "b", "y"]
        assert (found.nodes[0].found.nans, found.nodes[0].found.infinities) == ((1, 1), (1, 1))
        assert not found.off
    real = library.run_onnxruntime

    def wrong(given: Any, inputs: Any, names: list[str], **options: Any) -> dict[str, Any]:
        """As if Neg and what follows were wrong there."""
        results = real(given, inputs, names, **options)
        return {name: value * np.float32(1.5) if name in "by" else value for name, value in results.items()}

    monkeypatch.setattr(compare, "run_onnxruntime", wrong)
    found = front.compare(path, x, alone=True)
    assert (bool(found), found.first_node) == (False, "node 'neg' (Neg)")
    assert [one.label for one in found.off] == ["node 'neg' (Neg)"]
    assert found.first is not None
    assert found.first.relative == pytest.approx(1 / 3)
    (zero, ten, low), more = (np.array(n, np.float16) for n in (0.0, 10.0, -6e-8)), np.array(10.01, np.float16)
    assert [differ("x", ten, other, 0.0, 0.0).ulps for other in (ten, more)] == [0, 1]
    assert [differ("x", low, other, 0.0, 0.0).ulps for other in (zero, -zero, -low)] == [1, 1, 2]
    assert differ("x", [ten, zero], [ten, more], 0.0, 0.0).name == "x[1]"
    assert differ("x", np.array(["a", "b"]), np.array(["a", "c"]), 0.0, 0.0).where == (1,)
    halves = front.compare(path, x, every=True, max_memory=path.stat().st_size + 40)  # room for one of the three
    assert [one.found.agrees for one in halves.nodes] == [True, False, False]
    result = program("compare", path, "--alone")
    assert result.exit_code == 1
    assert "node 'neg' (Neg) is off by itself: 'b': 6 of 6 elements differ" in result.stdout
    data = json.loads(program("compare", path, "--all", "--json").stdout)
    assert [(one["node"], one["agrees"]) for one in data["nodes"]][1] == ("node 'neg' (Neg)", False)
    assert program("compare", path, "--against", "nobody").exit_code == 2
    with pytest.raises(dml.DescriptionError, match="against must be one of"):
        front.compare(path, x, against="nobody")


def test_sums_of_bytes_are_exact_there_too() -> None:
    """On an x86 without dot instructions ONNX Runtime cuts off 2 x 255 x 127, unless it is asked not to."""
    weights = np.full((64, 8), 127, np.int8)
    given = model([node("MatMulInteger", "x w", "y")], {"x": ("uint8", [4, 64])}, "y", {"w": weights})
    assert front.compare(given, {"x": np.full((4, 64), 255, np.uint8)})


@pytest.mark.long
def test_a_pass_at_fault_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model(node("Neg", "x", "y"), {"x": ("float32", [3])}).SerializeToString())

    def doubled(given: Any, *, disable_passes: Any = (), **options: Any) -> Any:
        """As if a pass were wrong."""
        loaded = front.load(given, disable_passes=disable_passes, **options)
        run, factor = loaded.run, 1 if "fusion" in disable_passes else 2
        monkeypatch.setattr(loaded, "run", lambda x: {name: array * factor for name, array in run(x).items()})
        return loaded

    monkeypatch.setattr(compare, "load", doubled)
    result = program("compare", path, "--all")
    assert "It agrees where a graph pass is disabled: --disable-passes fusion" in result.stdout
    assert "is the first that differs" not in result.stdout


def test_the_work_of_verbs() -> None:
    kinds = {kind.name: operator for kind, operator in dml.OPERATORS.items()}

    def work(name: str, **fields: Any) -> tuple[int, int]:
        steps = lower_operator(kinds[name].infer(**fields), all_plain).steps
        found = [work_of(step.primitive) for step in steps]
        return sum(one.bytes for one in found), sum(one.flops for one in found)

    def tensor(*sizes: int) -> TensorDesc:
        return TensorDesc(dml.DataType.FLOAT32, sizes)

    a, b = tensor(1, 1, 6, 5), tensor(1, 1, 5, 4)
    assert work("GEMM", a_tensor=a, b_tensor=b) == (4 * (30 + 20 + 24), 2 * 6 * 5 * 4)
    whole = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0)}
    window = {**whole, "output_padding": (0, 0), "group_count": 1}
    moved, flops = work("CONVOLUTION", input_tensor=tensor(1, 2, 8, 8), filter_tensor=tensor(3, 2, 3, 3), **window)
    assert (moved, flops) == (4 * (2 * 64 + 3 * 18 + 3 * 36), 2 * 3 * 36 * 18)  # windows meet, and count once
    assert work("ELEMENT_WISE_ADD", a_tensor=tensor(7), b_tensor=tensor(7)) == (84, 7)
    rows, each = 3, work("ELEMENT_WISE_EXP", input_tensor=tensor(1))[1]
    assert work("ACTIVATION_SOFTMAX1", input_tensor=tensor(rows, 10), axes=(1,))[1] == rows * (10 * (each + 4) + 1)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_a_profile_of_a_model(engine: str, tmp_path: Path) -> None:
    nodes = [node("MatMul", "x w", "a", name="product"), node("CumSum", "a axis", "y", name="sums")]
    constants = {"w": np.ones((4, 8), np.float32), "axis": np.array(1)}
    path = tmp_path / "m.onnx"
    path.write_bytes(model(nodes, {"x": ("float32", ["n", 4])}, "y", constants).SerializeToString())
    loaded = front.load(path, device=engine)
    found = loaded.profile({"x": np.ones((2, 4), np.float32)}, runs=3)
    assert found.runs == 3
    assert [one.nodes for one in found.passes] == [("node 'product' (MatMul)",), ("node 'sums' (CumSum)",)]
    assert [(one.work.flops, one.calls) for one in found.passes] == [(2 * 2 * 4 * 8, 1), (16, 1)]
    assert all(0 < one.seconds < found.seconds for one in found.passes)
    assert "node 'product' (MatMul)" in str(found)
    events = json.loads(found.trace())["traceEvents"]
    assert [event["name"] for event in events if event["ph"] == "X"] == [one.nodes[0] for one in found.passes]
    for wrong in (0, "3", True):
        with pytest.raises(dml.DescriptionError, match="runs must"):
            loaded.profile({"x": np.ones((2, 4), np.float32)}, runs=wrong)  # type: ignore[arg-type]  # what is tested
    nodes = [node("Relu", "x", "a", name="relu"), node("Unique", "a", "u", name="unique"), node("Neg", "u", "y")]
    parts = front.load(model(nodes, {"x": ("float32", ["n"])}), device=engine).profile(
        {"x": np.arange(3.0, dtype="f4")}
    )
    assert [(one.nodes[0], one.where) for one in parts.passes][1] == ("node 'unique' (Unique)", "host")
    assert len(parts.spans) == 3
    figures, trace = tmp_path / "p.json", tmp_path / "p.trace.json"
    for file, key in ((figures, "passes"), (trace, "traceEvents")):
        result = program("run", path, "-i", 2, "--engine", engine, "--profile", file)
        assert f"Profile written to '{file}'" in result.stdout
        assert key in json.loads(file.read_text())
    assert program("run", path, "--profile", path).exit_code == 2
    assert program("run", path, "--profile", tmp_path / "no" / "p.json").exit_code == 2


def test_a_profile_is_sorted_and_summed(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w", "a", name="window", strides=[1, 1]),
        node("CumSum", "a axis", "b", name="sums"),
        node("CumSum", "b axis", "c", name="more sums"),
        node("Softmax", "c", "y", name="shares"),
    ]
    constants = {"w": np.ones((4, 2, 5, 5), np.float32), "axis": np.array(2)}
    path = tmp_path / "m.onnx"
    path.write_bytes(model(nodes, {"x": ("float32", [1, 2, 40, 40])}, "y", constants).SerializeToString())
    loaded = front.load(path, device="cpu")
    found, picture = loaded.profile({"x": np.ones((1, 2, 40, 40), np.float32)}, runs=2), loaded.explain()

    told = [one.work.bytes for one in found.passes]
    assert told == [one.bytes_moved for one in picture.after]  # a window's elements count once in both
    lines = str(found).splitlines()
    numbers = [int(line.split()[0]) - 1 for line in lines[1 : 1 + len(told)]]
    assert numbers == sorted(range(len(told)), key=lambda number: -found.passes[number].seconds)
    for totals in (found.by_kind, found.by_route):
        assert sum(one.passes for one in totals) == len(told)
        assert sum(one.seconds for one in totals) == pytest.approx(sum(one.seconds for one in found.passes))
        assert [one.seconds for one in totals] == sorted((one.seconds for one in totals), reverse=True)
    assert {one.name: one.passes for one in found.by_kind}["CumSum"] == 2
    assert [one.route for one in found.passes] == [one.route for one in loaded.schedules]
    assert f"{len(told) - 1} more passes" in found.table(1)

    printed = program("run", path, "--profile", "--top", 1).stdout
    assert f"{len(told) - 1} more passes" in printed
    assert "by node type" in printed
    assert "by route" in printed
    assert program("run", path, "--top", 1).exit_code == 2


def test_a_profile_of_a_dxdispatch_model() -> None:
    result = program("run", "examples/models/slice.json", "-i", 3, "--profile")
    assert result.exit_code == 0, result.output
    assert [line.split()[-1] for line in result.stdout.splitlines() if " 3 " in line and "SLICE" in line] == [
        "SLICE"
    ] * 2
    assert program("run", "examples/models/slice.json", "--profile", "examples/models/slice.json").exit_code == 2

"""Control flow, sequences and optionals in ONNX models: against ONNX Runtime, and their limits."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

import anydml as dml
from onnx_flow import ENDLESS, MODELS, NO, YES, X, flow_model, number, parsed
from onnx_models import model, node, onnx

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing


def check_same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, list):
        assert isinstance(ours, list)
        assert len(ours) == len(theirs)
        for pair in zip(ours, theirs, strict=True):
            check_same(*pair)
    else:
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_as_onnxruntime(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    proto = flow_model(name)
    session = runtime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    loaded = dml.onnx.load(proto)
    for inputs in MODELS[name][1]:
        for _ in range(2):  # as programs are found again
            check_same(list(loaded.run(inputs).values()), session.run(None, inputs))
            monkeypatch.setattr(
                "anydml.onnx.partition.repeated_body.MOST_ROWS", 16
            )  # bytes put together at once: a step or two


def test_a_branch_that_is_known_costs_nothing() -> None:
    text = """
    main (float[N] x, int64 which) => (float[M] y) {
        one = Constant<value = int64 {1}>()
        rows = Size(x)
        is = Greater(rows, one)
        a = If(is) <then_branch = t () => (float[M] b) { b = Neg(x) },
                    else_branch = e () => (float[M] b) { b = Exp(x) }>
        first = Equal(which, one)
        y = If(first) <then_branch = t () => (float[M] b) { b = Add(a, x) },
                       else_branch = e () => (float[M] b) { b = Mul(a, x) }>
    }"""
    proto = parsed(text)
    loaded = dml.onnx.load(proto)
    x = X[0]
    assert loaded.run({"x": x, "which": number(1)})["y"].tolist() == [0, 0, 0]
    assert np.array_equal(loaded.run({"x": x, "which": number(2)})["y"], -x * x)
    np.testing.assert_allclose(loaded.run({"x": x[:1], "which": number(2)})["y"], np.exp(x[:1]) * x[:1], 1e-6)
    report = dml.onnx.check(proto, shapes={"N": 3}, values={"which": number(1)})
    notes = {each.label: each.note for each in report.nodes}
    assert report
    assert "then_branch is taken" in notes["node of 'y' (If)"]
    assert [each.kind for each in report.nodes][-2:] == ["Add", "If"]


def test_what_bodies_hold_is_told() -> None:
    proto = flow_model("loop")
    held = "node of 'y' (Loop), control flow: body has 6 nodes (Add 2, Identity, Less, Mul, ReduceMax)"
    assert held in str(dml.onnx.load(proto).explain()).replace("\n", " ")
    assert dml.onnx.check(proto).nodes[-1].note == held.partition(", ")[2]


def test_scan_of_a_batch() -> None:
    text = """
    main (int64[B] lens, float[B, 2] s, float[B, T, 2] x) => (float[B, 2] e, float[B, T, 2] y) {
        e, y = Scan<num_scan_inputs = 1, directions = [1],
            body = p (float[2] u, float[2] v) => (float[2] n, float[2] o) { n = Add(u, v) o = Identity(n) }>(lens, s, x)
    }"""
    x = np.arange(12, dtype="float32").reshape(2, 3, 2)
    found = dml.onnx.load(parsed(text, 8)).run({"lens": np.array([3, 2]), "s": np.ones((2, 2), "float32"), "x": x})
    for b, length in enumerate((3, 2)):
        sums = 1 + np.cumsum(x[b, :length][::-1], 0)
        assert np.array_equal(found["e"][b], sums[-1])
        assert np.array_equal(found["y"][b, :length], sums)
        assert not found["y"][b, length:].any()


def test_an_endless_loop_is_stopped() -> None:
    loaded = dml.onnx.load(parsed(ENDLESS), max_steps=50)
    x = np.ones(3, "float32")
    assert loaded.run({"x": x, "go": NO})["y"].tolist() == [1, 1, 1]
    with pytest.raises(dml.ModelError, match=r"\(Loop\): a loop must end within max_steps = 50 steps.*max_steps="):
        loaded.run({"x": x, "go": YES})
    assert loaded.run({"x": x, "go": NO})["y"].tolist() == [1, 1, 1]
    wrong: Any = "many"
    with pytest.raises(dml.DescriptionError, match="max_steps"):
        dml.onnx.load(parsed(ENDLESS), max_steps=wrong)


def test_an_interrupt_ends_a_loop() -> None:
    loaded = dml.onnx.load(parsed(ENDLESS), max_steps=2**62)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            loaded.run({"x": np.ones(3, "float32"), "go": YES})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert loaded.run({"x": np.ones(3, "float32"), "go": NO})["y"].tolist() == [1, 1, 1]


def test_what_loops_gather_counts_as_memory() -> None:
    gathered = """
    main (int64 m, float[256] x) => (float[256] y, float[S, 256] z) {
        y, z = Loop(m, , x) <body = b (int64 k, bool c, float[256] v) => (bool d, float[256] w, float[256] o) {
            d = Identity(c) w = Neg(v) o = Add(v, v) }>
    }"""
    listed = """
    main (int64 m, float[256] x) => (seq(float[256]) s) {
        none = SequenceEmpty<dtype = 1>()
        s = Loop(m, , none) <body = b (int64 k, bool c, seq(float[256]) v) => (bool d, seq(float[256]) w) {
            d = Identity(c) real = Cast<to = 1>(k) o = Add(x, real) w = SequenceInsert(v, o) }>
    }"""
    doubled = """
    main (int64 m, float[256] x) => (float[N] y) {
        y = Loop(m, , x) <body = b (int64 k, bool c, float[N] v) => (bool d, float[M] w) {
            d = Identity(c) w = Concat<axis = 0>(v, v) }>
    }"""
    x = np.ones(256, "float32")
    for text in (gathered, listed, doubled):
        loaded = dml.onnx.load(parsed(text), max_memory=2**20)
        assert loaded.run({"m": number(5), "x": x})
        with pytest.raises(dml.DmlError, match="the model's memory must be at most 1 MiB"):
            loaded.run({"m": number(2000), "x": x})


def test_functions_that_call_themselves_in_a_body_are_refused() -> None:
    text = """
    main (float[N] x) => (float[N] y) { y = own.f(x) }
    <domain: "own", opset_import: ["": 17, "own": 1]>
    f (x) => (y) {
        is = Constant<value = bool {1}>()
        y = If(is) <then_branch = t () => (float[N] a) { a = own.f(x) },
                    else_branch = e () => (float[N] a) { a = Neg(x) }>
    }"""
    with pytest.raises(dml.ModelFileError, match="function 'f' must not call itself"):
        dml.onnx.load(parsed(text))


def nested(depth: int) -> Any:
    """Branches within one another."""
    outputs = [onnx.helper.make_empty_tensor_value_info("a")]
    last = graph = onnx.helper.make_graph([node("Neg", "x", "a")], "g", [], outputs)
    for _ in range(depth):
        branch = node("If", "go", "a", then_branch=graph, else_branch=last)
        graph = onnx.helper.make_graph([branch], "g", [], outputs)
    inputs = {"x": ("float32", (2,)), "go": ("bool", ())}
    return model([*graph.node, node("Identity", "a", "y")], inputs, dtypes={"y": "float32"})


def test_how_deep_branches_may_lie() -> None:
    for go in (YES, NO):
        assert dml.onnx.load(nested(24)).run({"x": X[0, :2], "go": go})["y"].tolist() == (-X[0, :2]).tolist()
    with pytest.raises(dml.UnsupportedError, match="graphs must lie within one another at most 24 deep"):
        dml.onnx.load(nested(25))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("b (int64 k, bool c) => (bool d, float[N] w) { d = Identity(c) w = Neg(x) }", "body must have 3 inputs"),
        ("b (int64 k, bool c, float[N] v) => (bool d) { d = Identity(c) }", "body must have 2 outputs"),
        ("b (int64 k, bool c, float[N] v) => (float[N] d, float[N] w) { d = Neg(v) w = Neg(v) }", "one element"),
        ("b (int64 k, bool c, float[N] v) => (bool d, float[N] w) { d = Identity(c) w = Neg(z) }", "nothing makes it"),
        ("b (int64 k, bool c, float[N] v) => (bool d, float[N] w) { d = Identity(c) w = Odd(v) }", "no node type Odd"),
        (
            "b (int64 k, bool c, float[N] v) => (bool d, float[N] w) { d = Identity(c) w = Add(v, c) }",
            "B must be of",
        ),
    ],
)
def test_bodies_that_are_refused(body: str, message: str) -> None:
    text = f"main (int64 m, float[N] x) => (float[N] y) {{ y = Loop(m, , x) <body = {body}> }}"
    with pytest.raises(dml.DmlError, match=message):
        dml.onnx.load(parsed(text)).run({"m": number(2), "x": X[0]})

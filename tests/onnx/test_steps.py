"""Bodies of Loop and Scan that stay bound from step to step and from run to run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu.threads import team
from onnx_flow import X, number, parsed

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing
from anydml.onnx.partition import control_flow  # isort: skip - as above
from anydml.onnx.partition.repeated_body import Quick  # isort: skip - as above
from anydml.onnx.partition.partitioned_graph import Parts  # isort: skip - as above
from anydml.onnx.program import Program  # isort: skip - as above


def test_steps_with_branches_are_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as graphs, a step takes 43 us, and 4 bound."""
    text = """
    main (int64 m, float[3] x) => (float[3] y) {
        yes = Constant<value = bool {1}>()
        y = Loop(m, yes, x) <body = b (int64 k, bool c, float[3] v) => (bool d, float[3] w) {
            nine = Constant<value = int64 {9}>()
            late = Greater(k, nine)
            w = If(late) <then_branch = t () => (float[3] p) { p = Sub(v, x) },
                          else_branch = e () => (float[3] p) { p = Add(v, x) }>
            d = Identity(c)
        }>
    }"""
    loaded, steps = dml.onnx.load(parsed(text)), list[str]()
    for _ in range(2):
        loaded.run({"m": number(9), "x": X[0]})
    body = Parts.run

    def watch(self: Parts, values: Any) -> Any:
        steps.append(self.gives[0])
        return body(self, values)

    monkeypatch.setattr(Parts, "run", watch)
    (y,) = loaded.run({"m": number(21), "x": X[0]}).values()
    np.testing.assert_allclose(y, 0 * X[0], atol=1e-6)
    assert 0 < steps.count("d") < 10  # where the branch that is late is taken first


KEPT = """
main (int64 m, float[3] x) => (float[3] y, int64 z, float[S, 3] each, int64[S] was) {
    yes = Constant<value = bool {1}>()
    y, z, each, was = Loop(m, yes, x, m) <body = b (int64 k, bool c, float[3] v, int64 s) => (
        bool d, float[3] w, int64 t, float[3] shown, int64 u
    ) <int64 t = {7}> {
        d = Identity(c)
        w = Add(v, x)
        shown = Identity(x)
        u = Add(s, k)
    }>
}"""
"""A body that carries a constant, and shows what lies around it."""


def kept_wanted(m: int, x: Any) -> list[Any]:
    was = [m, *[7] * m][:m] + np.arange(m)
    return [x * (m + 1), 7 if m else 0, np.broadcast_to(x, (m, 3)), was]


def test_a_body_stays_bound_from_run_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = dml.onnx.load(parsed(KEPT))
    loaded.run({"m": number(5), "x": X[0]})
    monkeypatch.setattr(Program, "bound", None)  # which nobody may call
    several = [(m, np.full(3, m, "float32")) for m in (5, 1, 2, 6)]
    found = [loaded.run({"m": number(m), "x": x}).values() for m, x in several]
    for (m, x), results in zip(several, found, strict=True):  # each run's own, which no later run has written
        for result, wanted in zip(results, kept_wanted(m, x), strict=True):
            np.testing.assert_array_equal(result, wanted)


def test_short_loops_are_bound_in_the_second_run(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, bodies, run = dml.onnx.load(parsed(KEPT)), list[str](), Parts.run

    def watch(self: Parts, values: Any) -> Any:
        bodies.append(self.gives[0])
        return run(self, values)

    monkeypatch.setattr(Parts, "run", watch)
    x = np.arange(3, dtype="float32")
    for m in (1, 2, 1):
        for result, wanted in zip(loaded.run({"m": number(m), "x": x}).values(), kept_wanted(m, x), strict=True):
            np.testing.assert_array_equal(result, wanted)
    assert bodies == ["y", "d", "y", "y"]


WHILE = """
main (float lim, float x) => (float y) {
    y = Loop(, , x) <body = b (int64 k, bool c, float v) => (bool d, float w) {
        one = Constant<value = float {1}>()
        w = Add(v, one)
        d = Less(w, lim)
    }>
}"""

SCANNED = """
main (float[2] s, float[N, 2] x, float[2] w) => (float[2] e, float[N, 2] y) {
    e, y = Scan<num_scan_inputs = 1, body = b (float[2] u, float[2] v) => (float[2] n, float[2] o) {
        n = Add(u, v) o = Mul(n, w) }>(s, x)
}"""


def test_a_run_like_an_earlier_one_is_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no object for its steps; what each run gives is its own."""
    counted, scanned, ended = (dml.onnx.load(parsed(text)) for text in (KEPT, SCANNED, WHILE))
    rows = np.arange(14, dtype="float32").reshape(7, 2)

    def scan(count: int) -> Any:
        x = np.asfortranarray(rows[:count]) if count == 4 else rows[:count]
        return scanned.run({"s": rows[1], "x": x, "w": rows[2]}).values()

    for _ in range(2):
        counted.run({"m": number(3), "x": X[0]})
        scan(3)
        ended.run({"lim": np.array(3, "float32"), "x": np.array(0, "float32")})
    monkeypatch.setattr(control_flow, "Stepping", None)  # which nobody may call
    found = [(m, counted.run({"m": number(m), "x": X[0] * m}).values()) for m in (1, 2, 5)]
    for m, results in found:
        for result, wanted in zip(results, kept_wanted(m, X[0] * m), strict=True):
            np.testing.assert_allclose(result, wanted, 1e-6)
    several = [(count, scan(count)) for count in (1, 4, 7)]
    for count, (end, each) in several:
        sums = rows[1] + np.cumsum(rows[:count], 0)
        np.testing.assert_array_equal(end, sums[-1])
        np.testing.assert_array_equal(each, sums * rows[2])
    for limit in (1, 8):
        assert ended.run({"lim": np.array(limit, "float32"), "x": np.array(0, "float32")})["y"] == limit


SWEPT = {
    "octets": """
    main (int8[3] s, int8[N, 3] x) => (int8[3] e, int8[N, 3] y, bool[N, 3] z) {
        e, y, z = Scan<num_scan_inputs = 1, body = b (int8[3] u, int8[3] v) => (int8[3] n, int8[3] o, bool[3] p) {
            n = Add(u, v) o = Mul(n, v) p = Greater(n, v) }>(s, x)
    }""",
    "shared": """
    main (float[120, 120] s, float[N, 120] x) => (float[120, 120] e, float[N, 120, 1] y) {
        e, y = Scan<num_scan_inputs = 1, body = b (float[120, 120] u, float[120] v) => (
            float[120, 120] n, float[120, 1] o
        ) <int64[1] axes = {1}> { c = Unsqueeze(v, axes) o = MatMul(u, c) w = Sign(o) n = Add(u, w) }>(s, x)
    }""",
}


@pytest.mark.parametrize("name", SWEPT)
def test_steps_in_one_call_are_as_those_one_by_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows that are no whole words, and of kernels whose work threads share."""
    rng, dtype = np.random.default_rng(3), "int8" if name == "octets" else "float32"
    shape = (3,) if name == "octets" else (120, 120)
    several = [
        {"s": rng.integers(-3, 4, shape).astype(dtype), "x": rng.integers(-3, 4, (count, shape[-1])).astype(dtype)}
        for count in (3, 3, 3, 1, 70)
    ]
    quickly = dml.onnx.load(parsed(SWEPT[name]))
    found = [list(quickly.run(inputs).values()) for inputs in several]
    (body,) = [part._repeated for part in quickly._divided.parts() if isinstance(part, control_flow.Sweep)]  # type: ignore[union-attr]  # it is divided
    is_native = name == "octets" or team.is_available()
    assert [quick._native is not None for idle in body._idle.values() for quick in idle] == [is_native]
    monkeypatch.setattr(Quick, "make_native", lambda *_given, **_options: None)
    slowly = dml.onnx.load(parsed(SWEPT[name]))
    for inputs, results in zip(several, found, strict=True):
        for result, wanted in zip(results, slowly.run(inputs).values(), strict=True):
            np.testing.assert_array_equal(result, wanted)


def test_an_endless_run_like_an_earlier_one_is_stopped() -> None:
    loaded = dml.onnx.load(parsed(WHILE), max_steps=50)
    for _ in range(2):
        for limit in (3, 3, 3, 50):
            assert loaded.run({"lim": np.array(limit, "float32"), "x": np.array(0, "float32")})["y"] == limit
        with pytest.raises(dml.ModelError, match="max_steps = 50"):
            loaded.run({"lim": np.array(51, "float32"), "x": np.array(0, "float32")})


def test_runs_at_the_same_time_have_bodies_of_their_own() -> None:
    loaded = dml.onnx.load(parsed(KEPT))

    def is_right(m: int) -> bool:
        x = np.full(3, m, "float32")
        results = loaded.run({"m": number(m), "x": x}).values()
        return all((result == wanted).all() for result, wanted in zip(results, kept_wanted(m, x), strict=True))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(is_right, [1, 200, 3, 90] * 25))


def test_a_body_that_failed_is_not_used_again() -> None:
    """Its rows are as the step left them that an index of was found outside."""
    text = """
    main (int64 m, float[3] x, int64[1] at) => (float[3] y) {
        yes = Constant<value = bool {1}>()
        y = Loop(m, yes, x) <body = b (int64 k, bool c, float[3] v) => (bool d, float[3] w) {
            d = Identity(c)
            i = Add(at, k)
            one = Gather(x, i)
            w = Add(v, one)
        }>
    }"""
    loaded = dml.onnx.load(parsed(text))
    for start, is_wrong in ((0, False), (0, False), (2, True), (0, False)):
        inputs = {"m": number(3), "x": X[0], "at": np.array([start])}
        if is_wrong:
            with pytest.raises(dml.DmlError, match="3"):
                loaded.run(inputs)
        else:
            np.testing.assert_allclose(loaded.run(inputs)["y"], X[0] + X[0].sum(), rtol=1e-6)

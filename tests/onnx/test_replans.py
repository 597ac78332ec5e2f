"""New sizes of a model: planned once with the sizes left open, and for all others without a trace or a rewriting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from onnx_models import model, node  # isort: skip - it asks for onnx

import anydml as dml
import anydml.onnx
from anydml.core.guards import Tape, cached
from anydml.core.symbolic_sizes import OpenSize, as_numbers, gcd
from anydml.engines.cpu import CpuEngine, plans
from anydml.graph import optimise
from anydml.ir.substitution import Rebuilt
from anydml.ir.views import View
from anydml.onnx import program_cache
from anydml.onnx.lower.trace import trace
from anydml.onnx.program import outline_of
from anydml.runtime import replanning

RNG = np.random.default_rng(0)
WIDTH, HEADS, LAYERS = 24, 3, 4


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found on disk."""
    monkeypatch.setenv(plans.SWITCH, "0")


class Work:
    """What was done to make programs."""

    traces = rewritings = passes = 0

    def told(self) -> tuple[int, int, int]:
        return self.traces, self.rewritings, self.passes


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    done, rewrite, compile_one = Work(), optimise.rewrite, CpuEngine.compile

    def traced(*given: Any, **options: Any) -> Any:
        done.traces += 1
        return trace(*given, **options)

    def rewritten(*given: Any) -> Any:
        done.rewritings += 1
        return rewrite(*given)

    def compiled(*given: Any) -> Any:
        done.passes += 1
        return compile_one(*given)

    monkeypatch.setattr(program_cache, "trace", traced)
    monkeypatch.setattr(optimise, "rewrite", rewritten)
    monkeypatch.setattr(CpuEngine, "compile", compiled)
    return done


def network() -> bytes:
    """Layers of attention over rows of any number, with positions, and shapes computed as exporters have it."""
    tensors: dict[str, Any] = {
        "zero": np.array(0), "one": np.array(1), "first": np.array([0]), "second": np.array([1]),
        "width": np.array([WIDTH]), "heads": np.array([HEADS, WIDTH // HEADS]),
        "positions": RNG.standard_normal((600, WIDTH), "float32"),
    }  # fmt: skip
    nodes = [
        node("Shape", "x", "shape"),
        *(node("Gather", "shape second", "count1"), node("Gather", "shape first", "batch1")),
        node("Squeeze", "count1 first", "count"),
        node("Range", "zero count one", "places"),
        *(node("Gather", "positions places", "placed"), node("Add", "x placed", "h0")),
        node("Concat", "batch1 count1 heads", "apart", axis=0),
        node("Concat", "batch1 count1 width", "whole", axis=0),
    ]
    for i in range(LAYERS):
        tensors |= {f"{name}{i}": RNG.standard_normal((WIDTH, WIDTH), "float32") / 9 for name in ("q", "k", "v")}
        for name in ("q", "k", "v"):
            nodes += [
                node("MatMul", f"h{i} {name}{i}", f"{name}m{i}"),
                node("Reshape", f"{name}m{i} apart", f"{name}r{i}"),
                node("Transpose", f"{name}r{i}", f"{name}t{i}", perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]),
            ]
        nodes += [
            *(node("MatMul", f"qt{i} kt{i}", f"s{i}"), node("Softmax", f"s{i}", f"p{i}", axis=3)),
            *(node("MatMul", f"p{i} vt{i}", f"o{i}"), node("Transpose", f"o{i}", f"ot{i}", perm=[0, 2, 1, 3])),
            *(node("Reshape", f"ot{i} whole", f"w{i}"), node("Add", f"w{i} h{i}", f"h{i + 1}")),
        ]
    made = model(nodes, {"x": ("float32", ["n", "m", WIDTH])}, f"h{LAYERS} whole", tensors)
    return bytes(made.SerializeToString())


def rows(n: int, m: int) -> dict[str, Any]:
    return {"x": np.random.default_rng(n * 1000 + m).standard_normal((n, m, WIDTH), "float32")}


def answer(loaded: Any, n: int, m: int) -> list[bytes]:
    return [array.tobytes() for array in loaded.run(rows(n, m)).values()]


def graph_of(program: Any) -> Any:
    return program.compiled


def test_a_new_size_is_neither_traced_nor_rewritten(work: Work) -> None:
    for m in (70, 45):  # of which nothing that is kept of them pins those that are open
        answer(dml.onnx.load(network()), 2, m)
    work.traces = work.rewritings = 0
    loaded = dml.onnx.load(network())
    for m in (40, 50, 70):
        answer(loaded, 2, m)
    before = work.told()
    assert before[:2] == (3, 3)
    for m in (45, 61, 83):
        answer(loaded, 2, m)
    traces, rewritings, passes = work.told()
    assert (traces, rewritings) == before[:2]
    steps = len(graph_of(list(loaded._programs.values())[-1]).plan.programs)
    assert (passes - before[2]) // 3 < steps // 2  # layers are alike, and planned once


def test_a_size_that_is_cast_to_int32_stays_open(work: Work) -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Cast", "shape", "small", to=6),
        *(node("Gather", "small second", "count"), node("Mul", "count two", "twice")),
        *(node("Cast", "twice", "wide", to=7), node("Concat", "minus wide", "wanted", axis=0)),
        *(node("Add", "x one", "y0"), node("Reshape", "y0 wanted", "y"), node("Add", "twice two", "told")),
    ]
    tensors = {
        "second": np.array([1]), "two": np.array([2], "int32"), "minus": np.array([-1]), "one": np.ones((), "float32"),
    }  # fmt: skip
    made = model(nodes, {"x": ("float32", ["n", "m"])}, "y told", tensors)
    loaded = dml.onnx.load(made.SerializeToString())
    for m in (40, 50, 70, 45, 61, 83):
        found = loaded.run({"x": np.zeros((2, m), "float32")})
        assert found["y"].shape == (1, 2 * m)
        assert (found["told"].dtype, found["told"].tolist()) == (np.dtype("int32"), [2 * m + 2])
    assert work.traces == 3


def test_a_new_size_answers_as_a_model_that_is_loaded_for_it(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    data = network()
    loaded = dml.onnx.load(data)
    sizes = [(2, 40), (2, 50), (3, 41), (2, 45), (1, 45), (2, 1), (2, 8), (3, 3), (2, 24), (2, 512), (1, 1), (5, 64)]
    found = {size: answer(loaded, *size) for size in sizes}
    assert work.traces < len(sizes)
    told = {size: graph_of(loaded._programs[key]) for size, key in zip(sizes, loaded._programs, strict=True)}
    monkeypatch.setattr(replanning.Replans, "find", lambda *_: None)
    for size in sizes:
        fresh = dml.onnx.load(data)
        assert answer(fresh, *size) == found[size], size
        (program,) = fresh._programs.values()
        graph = graph_of(program)
        assert graph.recipe == told[size].recipe, size
        assert graph.lowered == told[size].lowered
        assert str(graph.explain()) == str(told[size].explain())


def test_a_new_size_meets_with_the_same_errors(work: Work) -> None:
    data = network()
    loaded = dml.onnx.load(data)
    for m in (40, 50, 70, 45):
        answer(loaded, 2, m)
    with pytest.raises(dml.DmlError, match="outside dimension 0 of size 600"):
        answer(loaded, 2, 601)
    traces = work.traces
    found = [answer(loaded, 2, m) for m in (61, 599)]
    assert work.traces < traces + 2
    assert found == [answer(dml.onnx.load(data), 2, m) for m in (61, 599)]


def test_several_threads_ask_for_new_sizes(work: Work) -> None:
    from concurrent.futures import ThreadPoolExecutor

    data = network()
    loaded = dml.onnx.load(data)
    sizes = [*range(40, 60)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda m: answer(loaded, 2, m), sizes))
    assert work.traces < len(sizes)
    assert found == [answer(dml.onnx.load(data), 2, m) for m in sizes]


def test_a_second_size_is_planned_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[Any] = []
    plan = replanning.Replans._plan

    def planned(*given: Any) -> Any:
        recorded.append(given[1])
        return plan(*given)

    monkeypatch.setattr(replanning.Replans, "_plan", planned)
    loaded = dml.onnx.load(network())
    for m in (40, 50, 40, 50):
        answer(loaded, 2, m)
    assert not recorded
    answer(loaded, 2, 70)
    assert recorded == [{("x", 0): 2, ("x", 1): 70, ("x", 2): WIDTH}]


def test_a_handler_runs_another_model_amid_a_plan_with_open_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal's, or a finaliser: what is planned then has plain sizes, whatever the plan around it has found."""
    data = network()
    loaded, other = dml.onnx.load(data, device="reference"), dml.onnx.load(data, device="reference")
    runs: list[Any] = []

    def interrupted(found: Any) -> Any:
        runs.append(answer(other, 2, 9))
        return outline_of(found)

    monkeypatch.setattr(program_cache, "outline_of", interrupted)
    for m in (5, 7, 9):
        answer(loaded, 2, m)
    assert runs == [answer(loaded, 2, 9)]
    (program,) = other._programs.values()
    opened: list[Any] = []
    Rebuilt({OpenSize: opened.append})((program.outline, graph_of(program).recipe, graph_of(program).inputs))
    assert not opened


def test_a_new_size_is_rewritten_by_its_constants_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are gathered in their order, all of them, are those there are: no pass."""
    nodes = [
        *(node("Shape", "x", "shape", end=1), node("Squeeze", "shape", "count")),
        *(node("Range", "zero count one", "places"), node("Exp", "x", "e"), node("Gather", "e places", "y")),
    ]
    made = model(nodes, {"x": ("float32", ["n", 3])}, "y", {"zero": np.array(0), "one": np.array(1)})
    data = made.SerializeToString()

    def recipe(loaded: Any) -> Any:
        loaded.run({"x": np.ones((9, 3), "float32")})
        return graph_of(list(loaded._programs.values())[-1]).recipe

    loaded = dml.onnx.load(data, device="reference")
    for n in (5, 7):
        loaded.run({"x": np.ones((n, 3), "float32")})
    found = recipe(loaded)
    assert len(loaded._programs._replans.plans) == 1
    monkeypatch.setattr(replanning.Replans, "find", lambda *_: None)
    assert found == recipe(dml.onnx.load(data, device="reference"))
    assert len(found.steps) == 1


# Tapes


def test_a_tape_holds_for_sizes_of_which_the_same_is_found() -> None:
    tape = Tape()
    sizes: list[Any] = [tape.open(6), tape.open(20)]
    n, m = sizes
    with tape.recording():
        area = n * m
        half = area // 4 if area > 100 else 0
        step = gcd(n, m, 8)
    tape.keep(())
    found = tape.at([9, 30])
    assert found is not None
    with tape.reading(found):
        assert (as_numbers(half), as_numbers(step)) == (67, 1)
    assert tape.at([2, 30]) is None


def test_a_tape_knows_numbers_without_end() -> None:
    tape = Tape()
    n: Any = tape.open(6)
    with tape.recording():
        most = n if n < math.inf else n * -math.inf
    tape.keep(())
    found = tape.at([9])
    assert found is not None
    with tape.reading(found):
        assert as_numbers(most) == 9


def test_whoever_needs_the_number_pins_it() -> None:
    for use in (lambda n: np.zeros(n), lambda n: range(n), int, lambda n: [0] * n, float):
        tape = Tape()
        n = tape.open(6)
        with tape.recording():
            use(n)
        tape.keep(())
        assert tape.at([6]) is not None
        assert tape.at([7]) is None


def test_sizes_that_were_told_apart_stay_apart() -> None:
    tape = Tape()
    n, m = tape.open(6), tape.open(20)
    with tape.recording():
        assert len({n, m, 4}) == 3
    tape.keep([4])
    assert tape.at([7, 8]) is not None
    assert tape.at([7, 7]) is None
    assert tape.at([4, 8]) is None


def test_caches_tell_sizes_apart_by_what_they_are_computed_by() -> None:
    """Nothing is found of sizes that are equal now, nor that one is a plain number's equal then."""
    tape = Tape()
    double: Any = cached(8)(lambda size: size + size)
    n, m = tape.open(6), tape.open(6)
    with tape.recording():
        found = [double(n), double(m), double(6), double(n)]
    tape.keep([12, 7])
    values = tape.at([7, 9])
    assert values is not None
    with tape.reading(values):
        assert as_numbers(found) == [14, 18, 12, 14]


def test_views_that_are_found_among_others_are_told_apart_by_guards() -> None:
    tape = Tape()
    sizes: list[Any] = [tape.open(size) for size in (6, 8, 9)]
    n, m, k = sizes
    views = [View("x", dml.DataType.FLOAT32, (size,), (1,)) for size in (n, m, 4, k)]
    with tape.recording():
        assert len(dict.fromkeys(views[:3])) == 3
    tape.keep([4, 5])
    assert tape.at([5, 7, 7]) is not None
    assert tape.at([7, 7, 9]) is None
    assert tape.at([4, 8, 9]) is None


@pytest.mark.parametrize("kind", ["float32", "float16", "uint8"])
@pytest.mark.parametrize("threads", [1, 2])
def test_columns_of_any_number_take_few_plans(kind: str, threads: int, work: Work) -> None:
    """Of an open number of columns there are whole tiles alone, whose last columns rows of maps compute."""
    rng, depth = np.random.default_rng(1), 24
    if kind == "uint8":
        nodes = [node("MatMulInteger", "a x", "s"), node("Cast", "s", "f", to=1)]
        tensors = {"a": rng.integers(0, 9, (5, depth)).astype("uint8"), "one": np.ones(1, "float32")}
    else:
        nodes = [node("MatMul", "a x", "f")]
        tensors = {"a": rng.standard_normal((5, depth)).astype(kind), "one": np.ones(1, kind)}
    nodes += [node("Add", "f one", "g"), node("Relu", "g", "y")]
    data = model(nodes, {"x": (kind, [depth, "n"])}, "y", tensors)
    loaded, counts = dml.onnx.load(data), range(3, 300)
    given = {n: rng.integers(0, 9, (depth, n)).astype(kind) for n in counts}
    found = {}
    before = dml.get_num_threads()
    try:
        dml.set_num_threads(threads)
        for n in counts:
            found[n] = loaded.run({"x": given[n]})["y"]
    finally:
        dml.set_num_threads(before)
    assert work.passes < 24  # of 297 numbers of columns
    for n in (3, 15, 16, 17, 47, 48, 49, 127, 128, 129, 255, 256, 257, 299):
        np.testing.assert_array_equal(found[n], dml.onnx.load(data).run({"x": given[n]})["y"], err_msg=str(n))

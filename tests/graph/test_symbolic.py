"""Graphs with symbolic sizes: built once, and for every size the answers of a graph that is built for it."""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.core.symbolic_sizes import OpenSize
from anydml.engines.cpu import CpuEngine
from anydml.graph import optimise
from anydml.runtime import replanning

if TYPE_CHECKING:
    from collections.abc import Callable


def numbers(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape, "float32")


def indices(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype="uint32").reshape(shape) % 2


def convolution(g: Any, x: Any) -> Any:
    weights, bias = g.constant(numbers(8, 3, 3, 3)), g.constant(numbers(1, 8, 1, 1))
    y = dml.relu(dml.convolution(x, weights, bias, start_padding=[1, 1], end_padding=[1, 1]))
    y = dml.average_pooling(y, strides=[2, 2], window_size=[2, 2], start_padding=[0, 0], end_padding=[0, 0])
    return dml.amax(y, axis=(2, 3)), y


def product(g: Any, x: Any) -> Any:
    return dml.softmax1(dml.relu(dml.gemm(x, g.constant(numbers(24, 40))) + 1.0), [1])


def attention(_g: Any, x: Any) -> Any:
    n, s, d = x.sizes
    heads = dml.transpose(dml.reshape(x, (n, s, 4, d // 4)), (0, 2, 1, 3))
    weights = dml.softmax1(dml.matmul(heads, dml.transpose(heads, (0, 1, 3, 2))) * 0.25, [3])
    return dml.reshape(dml.transpose(dml.matmul(weights, heads), (0, 2, 1, 3)), (n, s, d)) + x


def slices(_g: Any, x: Any) -> Any:
    n, m = x.sizes
    half = m // 2
    turned = dml.slice1(x, [0, m - half], [n, half], [1, -1])
    return dml.join([dml.slice1(x, [0, 0], [n, half]), turned], axis=1), dml.cumulative_summation(x, axis=0)


def reductions(_g: Any, x: Any) -> Any:
    return dml.sum(x, axis=0), dml.average(x, axis=1), dml.std(x), dml.argmax(x, axes=[0]), dml.logsumexp(x, axis=1)


def broadcasts(_g: Any, x: Any, y: Any) -> Any:
    return x * y + dml.mean(x, y), dml.amax(x, axis=0, keepdims=True) * x, dml.broadcast_to(y, x.sizes)


def gathers(_g: Any, x: Any, i: Any) -> Any:
    return dml.gather(x, i, axis=0) * 2.0, dml.padding(x, start_padding=[1, 0], end_padding=[0, 2])


def views(g: Any, x: Any) -> Any:
    n, m = x.sizes
    filled = dml.fill_value_constant(x.sizes, 2.0, "float32", graph=g)
    return (
        x.reinterpret((m, n)) + 1.0,
        filled * dml.tile(x, [1, 1]),
        dml.squeeze(dml.expand_dims(x, 0), 0),
        *dml.split(dml.join([x, x], axis=0), 2, axis=0),
    )


def sorted_rows(_g: Any, x: Any) -> Any:
    return dml.top_k(x, 1, 1)


def normalised(g: Any, x: Any) -> Any:
    return dml.layer_norm(x, 16, g.constant(numbers(16)), g.constant(numbers(16)))


CASES: list[tuple[Callable[..., Any], dict[str, Any], list[dict[str, int]]]] = [
    (convolution, {"x": ("n", 3, "h", "w")}, [
        {"n": 2, "h": 8, "w": 8}, {"n": 1, "h": 8, "w": 8}, {"n": 3, "h": 9, "w": 12}, {"n": 1, "h": 2, "w": 3},
    ]),
    (product, {"x": ("n", 24)}, [{"n": n} for n in (4, 1, 7, 64, 300, 2, 9)]),
    (attention, {"x": ("n", "s", 32)}, [{"n": n, "s": s} for n, s in ((2, 8), (1, 1), (1, 17), (3, 33))]),
    (slices, {"x": ("n", "m")}, [{"n": n, "m": m} for n, m in ((4, 8), (1, 2), (5, 9), (1, 33))]),
    (reductions, {"x": ("n", "m")}, [{"n": n, "m": m} for n, m in ((4, 8), (1, 1), (1, 33), (70, 3), (3, 70))]),
    (broadcasts, {"x": ("n", "m"), "y": ("m",)}, [{"n": n, "m": m} for n, m in ((4, 8), (1, 2), (5, 1), (1, 1))]),
    (gathers, {"x": ("n", 16), "i": ("k",)}, [{"n": n, "k": k} for n, k in ((4, 3), (2, 1), (77, 200))]),
    (views, {"x": ("n", "m")}, [{"n": n, "m": m} for n, m in ((4, 8), (1, 2), (5, 1), (1, 1), (40, 30))]),
    (sorted_rows, {"x": ("n", "m")}, [{"n": n, "m": m} for n, m in ((4, 8), (1, 2), (5, 1), (9, 90))]),
    (normalised, {"x": ("n", 16)}, [{"n": n} for n in (4, 1, 77)]),
]  # fmt: skip


def several(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (list, tuple)) else [results]


def made(build: Callable[..., Any], inputs: dict[str, Any], sizes: dict[str, int] | None = None) -> Any:
    """A graph with symbolic sizes, or for some."""
    g = dml.Graph()
    types = {name: "uint32" if name == "i" else "float32" for name in inputs}
    shapes = {name: tuple((sizes or {}).get(s, s) for s in shape) for name, shape in inputs.items()}
    return g.compile(several(build(g, *(g.input(types[name], shape, name) for name, shape in shapes.items()))))


def symbolic_graph(g: dml.Graph, outputs: Any, **options: Any) -> Any:
    return g.compile(outputs, **options)


def arrays(inputs: dict[str, Any], sizes: dict[str, int]) -> list[Any]:
    shapes = {name: [sizes.get(s, s) for s in shape] for name, shape in inputs.items()}
    return [indices(*shape) if name == "i" else numbers(*shape) for name, shape in shapes.items()]


def leaves(found: Any) -> list[Any]:
    """What a plan is made of, in order, each with its type."""
    if dataclasses.is_dataclass(found):
        return [type(found), *(leaves(getattr(found, one.name)) for one in dataclasses.fields(found))]
    if isinstance(found, dict):
        return [[key, leaves(one)] for key, one in found.items()]
    if isinstance(found, (tuple, list)):
        return [leaves(one) for one in found]
    assert type(found) is not OpenSize
    return [type(found), found]


def simple() -> Any:
    g = dml.Graph()
    made: Any = g.compile(dml.relu(g.input("float32", ("batch", 4), "x")) + 1.0)
    return made


# Answers


OTHER_KERNELS = {"convolution", "attention", "views"}
"""Graphs of which steps take kernels for any row or any number of columns, where for certain sizes there are closer
ones."""


@pytest.mark.parametrize(("build", "inputs", "sizes"), CASES, ids=[case[0].__name__ for case in CASES])
def test_every_size_answers_as_a_graph_built_for_it(build: Any, inputs: Any, sizes: Any) -> None:
    symbolic = made(build, inputs)
    for size in sizes:
        given, plain = arrays(inputs, size), made(build, inputs, size)
        assert isinstance(plain, dml.CompiledGraph)
        wanted = several(plain(*given))
        for found, want in zip(several(symbolic(*given)), wanted, strict=True):
            assert (found.shape, found.dtype, found.tobytes()) == (want.shape, want.dtype, want.tobytes()), size
        at = symbolic.at(**size)
        assert at.recipe == plain.recipe
        assert str(at.explain()) == str(plain.explain())
        assert [type(program) for program in at.plan.programs] == [type(program) for program in plain.plan.programs]
        if build.__name__ not in OTHER_KERNELS:
            assert leaves(at.plan.programs) == leaves(plain.plan.programs)
        assert leaves(at.plan.once) == leaves(plain.plan.once)
        outputs = [np.empty_like(want) for want in wanted]
        symbolic.bind(*given, out=outputs if len(outputs) > 1 else outputs[0]).dispatch()
        assert [out.tobytes() for out in outputs] == [want.tobytes() for want in wanted]


def test_a_new_size_is_neither_described_nor_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    for owner, name in ((optimise, "rewrite"), (dml.Gemm, "lower")):
        before: Any = getattr(owner, name)

        def counted(*given: Any, before: Any = before, name: str = name) -> Any:
            done.append(name)
            return before(*given)

        monkeypatch.setattr(owner, name, counted)
    model = made(product, {"x": ("n", 24)})
    assert not done
    model(numbers(1000, 24))
    first = len(done)
    assert first
    for n in (1001, 1010, 1100, 1234):
        assert model(numbers(n, 24)).shape == (n, 40)
    assert (len(done), model.plans) == (first, 1)


def test_a_size_of_which_something_else_is_found_is_planned_anew() -> None:
    model = simple()
    assert model.plans == 0
    for n, plans in ((1000, 1), (1001, 1), (1, 2), (1, 2), (1002, 1 + 1)):
        model(numbers(n, 4))
        assert model.plans == plans
    assert repr(model) == (
        "SymbolicGraph(x: float32 (batch, 4) -> output0: float32 (batch, 4), 2 plans for 4 of its sizes, engine='cpu')"
    )


def test_where_symbols_cannot_be_planned_each_size_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replanning, "MOST", 0)
    model = simple()
    for n in (5, 6, 7):
        assert np.array_equal(model(numbers(n, 4)), np.maximum(numbers(n, 4), 0) + 1)
    assert model.plans == 3


def test_constants_are_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    del monkeypatch
    g = dml.Graph()
    model = symbolic_graph(g, dml.gemm(g.input("float32", ("n", 64)), g.constant(numbers(64, 64))))
    held = [set(model.at(n=n).held) for n in (1000, 1001, 1002)]
    assert held[0]
    assert held[0] == held[1] == held[2]


def test_threads_call_with_different_sizes_at_once() -> None:
    model = made(attention, {"x": ("n", "s", 32)})
    wanted = {
        n: made(attention, {"x": ("n", "s", 32)}, {"n": n, "s": 5 + n})(numbers(n, 5 + n, 32)).tobytes()
        for n in range(1, 9)
    }
    faults: list[Any] = []

    def work(first: int) -> None:
        try:
            for i in range(24):
                n = (first + i) % 8 + 1
                assert model(numbers(n, 5 + n, 32)).tobytes() == wanted[n]
        except BaseException as error:  # noqa: BLE001 - told below
            faults.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not faults


def test_bound_graphs_of_several_sizes_stay_bound() -> None:
    model = simple()
    given = {n: (numbers(n, 4), np.empty((n, 4), "float32")) for n in (3, 30, 300)}
    bound = [model.bind(x, out=out) for x, out in given.values()]
    for n in range(400, 420):
        model.at(batch=n)
    for one in bound:
        one.dispatch()
    for x, out in given.values():
        assert np.array_equal(out, np.maximum(x, 0) + 1)


def test_many_sizes_are_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anydml.runtime.plan_cache.MOST", 8)
    model = simple()
    for n in (*range(100, 130), 100):
        assert model(numbers(n, 4)).shape == (n, 4)
    assert len(model._ready) == 8
    assert len(model._known) <= 8


def test_a_graph_that_nobody_has_is_gone_at_once() -> None:
    """With its plans and their constants, and not when Python next looks for cycles."""
    model = simple()
    for n in (5, 6, 7):
        model(numbers(n, 4))
    gc.collect()
    gc.disable()
    try:
        seen = weakref.ref(model)
        del model
        assert seen() is None
    finally:
        gc.enable()


# What builds a graph


def test_a_name_is_one_size_wherever_it_stands() -> None:
    g = dml.Graph()
    x, y = g.input("float32", ("n", "m"), "x"), g.input("float32", ("m", dml.Size("n")), "y")
    model = symbolic_graph(g, dml.gemm(x, y))
    assert model.sizes == ("n", "m")
    assert model(numbers(3, 5), numbers(5, 3)).shape == (3, 3)
    with pytest.raises(dml.BindingError) as caught:
        model(numbers(3, 5), numbers(6, 4))
    assert str(caught.value) == (
        "Graph: 2 rules are broken\n"
        "  y.Sizes[0] must be 5: m is 5 in x.Sizes[1]; got 6; sizes that may differ have names of their own\n"
        "  y.Sizes[1] must be 3: n is 3 in x.Sizes[0]; got 4; sizes that may differ have names of their own"
    )


def test_sizes_compute_and_are_written_by_their_names() -> None:
    g = dml.Graph()
    x = g.input("float32", (dml.Size("n", example=6), 4), "x")
    assert str(x.sizes) == "(n, 4)"
    assert str(x.sizes[0] * 2 - 1) == "(n * 2) - 1"
    y = g.input("float32", (x.sizes[0] * 2, 4), "y")
    z = dml.join([x, y], axis=0)
    assert str(dml.padding(x, start_padding=[0, 0], end_padding=[1, 0]).sizes) == "(n + 1, 4)"
    assert str(z.sizes) == "(n + (n * 2), 4)"


def test_derived_sizes_of_inputs_are_checked() -> None:
    g = dml.Graph()
    x = g.input("float32", ("n", 4), "x")
    model = symbolic_graph(g, dml.join([x, g.input("float32", (x.sizes[0] * 2, 4), "y")], axis=0))
    assert model(numbers(3, 4), numbers(6, 4)).shape == (9, 4)
    with pytest.raises(dml.BindingError, match=r"y must be an array of sizes \(6, 4\), as described; got \(7, 4\)"):
        model(numbers(3, 4), numbers(7, 4))


def test_code_that_decides_by_a_size_holds_where_it_decides_so() -> None:
    g = dml.Graph()
    x = g.input("float32", ("n", 4), "x")
    y = dml.relu(x) if x.sizes[0] > 8 else x * 2.0
    model = symbolic_graph(g, y)
    assert np.array_equal(model(numbers(9, 4)), np.maximum(numbers(9, 4), 0))
    with pytest.raises(dml.DescriptionError) as caught:
        model(numbers(8, 4))
    assert str(caught.value) == (
        "Graph: the code that built the graph found that n > 8 is True; it is False for n=8; build another graph "
        "for such sizes; compiled for n=8"
    )


def test_a_size_whose_number_is_asked_for_is_refused() -> None:
    for ask in (int, range, lambda size: np.zeros((size, 2)), lambda size: {size: 1}):
        g = dml.Graph()
        x = g.input("float32", ("n", 4), "x")
        y = dml.relu(x)
        ask(y.sizes[0])
        with pytest.raises(dml.DescriptionError) as caught:
            g.compile(y)
        assert str(caught.value) == (
            "Graph: sizes must stay symbolic: the number of n was asked for, as int(), range() and NumPy do; got n; "
            "compute with the sizes themselves, or give 'n' a number"
        )


def test_an_operator_that_runs_at_once_takes_the_number() -> None:
    g = dml.Graph()
    x = g.input("float32", ("n", 4), "x")
    assert dml.slice1(np.arange(100), [0], [x.sizes[0]]).shape == (48,)
    assert dml.slice1(np.arange(100), [0], [48]).shape == (48,)
    with pytest.raises(dml.DescriptionError, match="the number of n was asked for"):
        g.compile(dml.relu(x))


def test_inputs_and_constants_before_the_first_symbolic_one() -> None:
    g = dml.Graph()
    weights, row = g.constant(numbers(4, 5), "weights"), g.input(dml.TensorDesc("float32", (1, 5)), "row")
    shifted = row + 1.0
    x = g.input("float32", ("n", 4), "x")
    model = symbolic_graph(g, [(dml.gemm(x, weights) + shifted).named("last"), shifted.named("first")])
    for n in (3, 1):
        found, first = model(x=numbers(n, 4), row=numbers(1, 5))
        p = dml.Graph()
        y = dml.gemm(p.input("float32", (n, 4)), p.constant(numbers(4, 5)))
        wanted = p.compile(y + (p.input("float32", (1, 5)) + 1.0))(numbers(n, 4), numbers(1, 5))
        assert found.tobytes() == wanted.tobytes()
        assert np.array_equal(first, numbers(1, 5) + 1)
    assert list(model.at(n=7).outputs) == ["last", "first"]


def test_a_graph_is_added_to_after_it_was_compiled() -> None:
    g = dml.Graph()
    x = g.input("float32", ("n", 4), "x")
    y = dml.relu(x)
    before = symbolic_graph(g, y)
    z = y * 2.0
    y.named("y")
    after = symbolic_graph(g, z)
    for n in (1, 6):
        assert np.array_equal(after(numbers(n, 4)), 2 * before(numbers(n, 4)))


def test_a_graph_of_nodes() -> None:
    g = dml.Graph(tensor_policy="interleaved_channel")
    x = g.input("float32", ("n", 3, 4, "w"), "x")
    y = dml.relu(x)
    n, _, _, w = y.sizes
    assert str(y.strides) == f"({y.strides[0]}, 1, {y.strides[2]}, 3)"
    (made_of,) = g.add(
        dml.ElementWiseIdentity.infer(input_tensor=y.desc), (y,), [dml.TensorDesc("float32", (n, 3, 4, w))]
    )
    model = symbolic_graph(g, made_of)
    for shape in ((2, 3, 4, 5), (1, 3, 4, 1)):
        assert np.array_equal(model(numbers(*shape)), np.maximum(numbers(*shape), 0))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])  # noqa: S301 - its own
def test_copies_and_pickles(again: Any) -> None:
    g = dml.Graph()
    x = g.input("float32", ("n", 4), "x")
    y = dml.relu(dml.slice1(x, [0, 0], [x.sizes[0] - 1, 4])) + g.constant(numbers(2000, 4)[:1])
    other, out = again((g, y)) if again is not copy.copy else (g, y)
    assert str(out.sizes) == "(n - 1, 4)"
    size = out.sizes[0]
    model = symbolic_graph(other, dml.slice1(out, [1, 0], [size - 1, 4]))
    wanted = (np.maximum(numbers(6, 4)[:5], 0) + numbers(2000, 4)[:1])[1:]
    assert np.array_equal(model(numbers(6, 4)), wanted)
    with pytest.raises(TypeError, match="what is compiled cannot be pickled"):
        pickle.dumps(model)
    assert copy.deepcopy(model) is model


# Errors


def fault(wrong: Callable[[], object], kind: type[dml.DmlError] = dml.DescriptionError) -> str:
    with pytest.raises(kind) as caught:
        wrong()
    return str(caught.value)


def test_sizes_that_no_tensor_has() -> None:
    model = simple()
    assert fault(lambda: model(np.zeros((0, 4), "float32")), dml.BindingError) == (
        "Graph: x.Sizes[0], batch, must be at least 1: no tensor is empty; got 0"
    )
    assert fault(lambda: model.at(batch=0)) == "Graph: batch must be at least 1; got 0"
    assert fault(lambda: model.at(batch=2**31)) == (
        "Graph: input: Sizes must multiply to at most 2^32 - 1 = 4294967295 elements; got 8589934592; "
        "compiled for batch=2147483648"
    )
    assert "read-only" not in fault(lambda: model(np.broadcast_to(np.float32(1), (2**31, 4))))
    assert fault(lambda: model.at(n=3)) == (
        "Graph: 2 rules are broken\n  batch must be given; at() takes batch=\n"
        "  n must be the name of a symbolic size; got 'n'; there are batch="
    )
    assert model(numbers(2, 4)).shape == (2, 4)


def test_arrays_that_do_not_fit() -> None:
    model = simple()
    for array, found in ((numbers(2, 5), "(2, 5)"), (numbers(3, 2, 4), "(3, 2, 4)")):
        assert fault(lambda array=array: model(array), dml.BindingError) == (  # type: ignore[misc]  # a default
            f"Graph: x must be an array of sizes (batch, 4), as described; got {found}"
        )
    assert "x must be an array of FLOAT32" in fault(lambda: model(np.zeros((2, 4), "int32")), dml.BindingError)
    assert fault(lambda: model(), dml.BindingError) == "Graph: x must be given; call() takes x"
    assert "there is no input 'y' to give" in fault(lambda: model(numbers(2, 4), y=1), dml.BindingError)
    assert model(numbers(4)).shape == model(numbers(1, 1, 4)).shape == (1, 4)  # leading sizes of 1 aside


def test_a_rule_that_the_examples_break_names_them() -> None:
    g = dml.Graph()
    x, y = g.input("float32", ("n", 4), "x"), g.input("float32", ("m", 4), "y")
    told = fault(lambda: x + y)
    assert "n" in told
    assert "with the examples n=48, m=80, of which dml.Size gives others" in told


def test_a_rule_that_some_size_breaks_is_told_for_it() -> None:
    g = dml.Graph()
    model = symbolic_graph(g, dml.slice1(g.input("float32", ("n", 4), "x"), [0, 0], [20, 4]))
    assert model(numbers(20, 4)).shape == (20, 4)
    told = fault(lambda: model(numbers(19, 4)))
    assert told.startswith("SLICE1: ")
    assert told.endswith("compiled for n=19")


def test_what_describes_an_input() -> None:
    g = dml.Graph()
    assert fault(lambda: dml.Size("1")) == "Size: name must be a Python name, such as 'batch'; got '1'"
    assert (
        fault(lambda: dml.Size("n", example=0)) == "Size: example must be a whole number of at least 1, or None; got 0"
    )
    assert "name must be a Python name" in fault(lambda: g.input("float32", ("a b", 4)))
    assert "must not be UINT4" in fault(lambda: g.input("uint4", ("n", 4)))
    desc = dml.TensorDesc("float32", (2,))
    assert "sizes must not be given beside a TensorDesc" in fault(lambda: g.input(desc, ("n",)))
    g.input("float32", (dml.Size("k", example=8),))
    told = fault(lambda: g.input("float32", (dml.Size("k", example=9),)))
    assert told == "Graph: example of 'k' must be the one given before, 8; got 9"
    other = dml.Graph().input("float32", ("n",))
    assert "is another's" in fault(lambda: g.input("float32", other.sizes))
    assert "sizes must be of one graph" in fault(lambda: g.input("float32", ("n",)).sizes[0] + other.sizes[0])
    owned = dml.Graph()
    x = owned.input("float32", ("n",)) + owned.input(dml.TensorDesc("float32", (1,), flags="owned_by_dml"))
    assert "Graph.constant(array) makes data part of the graph" in fault(lambda: owned.compile(x))


def test_dimensions_that_come_and_go_are_refused() -> None:
    g = dml.Graph()
    model = symbolic_graph(g, dml.squeeze(g.input("float32", ("n", 1), "x")))
    assert model(numbers(5, 1)).shape == (5,)
    assert "squeeze must give results of the dimensions" in fault(lambda: model(numbers(1, 1)))


def test_options_of_a_compiled_graph() -> None:
    g = dml.Graph()
    y = dml.relu(g.input("float32", ("n", 4), "x") * 2.0)
    assert len(symbolic_graph(g, y, optimise=False).at(n=3).plan.programs) == 2
    assert len(symbolic_graph(g, y, disable_passes=["fusion"]).at(n=3).plan.programs) == 2
    assert len(g.compile(y).schedules) == 1
    assert "disable_passes" in fault(lambda: g.compile(y, disable_passes=["nothing"]))
    assert CpuEngine.name == "cpu"

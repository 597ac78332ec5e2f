"""Decoders whose lengths change at each step: planned once for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from onnx_models import helper, info, node, onnx  # isort: skip - it asks for onnx

import anydml as dml
import anydml.onnx
import anydml.onnxruntime as ort
from anydml.engines.common import cache as files
from anydml.engines.cpu import plans
from anydml.ir.attention import Attend
from anydml.onnx import program_cache
from anydml.onnx.lower import attention, registry
from anydml.onnx.lower import trace as trace_module
from anydml.onnx.lower.trace import trace
from anydml.onnxruntime.ort_errors import InvalidArgument
from anydml.runtime.graph import CompiledGraph
from anydml.runtime.planning import Prepared

if TYPE_CHECKING:
    from pathlib import Path

RNG = np.random.default_rng(0)
WIDTH, HEADS, SHARED, SIZE, LAYERS, WORDS, ROOM = 24, 6, 2, 4, 2, 11, 64
STEPS = 40
PARTS = ("key", "value")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found on disk."""
    monkeypatch.setenv(plans.SWITCH, "0")


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """One element for each trace."""
    found: list[Any] = []

    def traced(*given: Any, **options: Any) -> Any:
        found.append(given[1])
        return trace(*given, **options)

    monkeypatch.setattr(program_cache, "trace", traced)
    return found


def weights(names: str) -> dict[str, Any]:
    return {name: RNG.standard_normal((WIDTH, WIDTH), "float32") / 5 for name in names.split()}


def decoder(nodes: list[Any], tensors: dict[str, Any], past: Any) -> bytes:
    """A model of nodes from `h0` to `h<LAYERS>`, which read pasts and give presents."""
    inputs = [info("ids", "int64", ["b", "s"]), info("mask", "int64", ["b", "t"])]
    outputs = [info("logits", "float32")]
    for i in range(LAYERS):
        for part in PARTS:
            inputs.append(info(f"past_{part}{i}", "float32", past))
            outputs.append(info(f"present_{part}{i}", "float32"))
    tensors = {"table": RNG.standard_normal((WORDS, WIDTH), "float32"), **tensors}
    tensors["back"] = tensors["table"].T.copy()
    used = {name for each in nodes for name in each.input} | {"table", "back"}
    graph = helper.make_graph(
        [node("Gather", "table ids", "h0"), *nodes, node("MatMul", f"h{LAYERS} back", "logits")],
        "decoder", inputs, outputs,
        [onnx.numpy_helper.from_array(np.asarray(one), name) for name, one in tensors.items() if name in used],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


def grouped(room: int = ROOM, size: int | str = SIZE, window: int = -1) -> bytes:
    """As ONNX Runtime GenAI's builder makes them: lengths come of the mask, as INT32."""
    tensors: dict[str, Any] = {
        "one": np.array([1]), "second": np.array(1), "cos": RNG.standard_normal((room, SIZE // 2), "float32"),
        "sin": RNG.standard_normal((room, SIZE // 2), "float32"),
    }  # fmt: skip
    nodes = [
        *(node("ReduceSum", "mask one", "counts", keepdims=0), node("Sub", "counts one", "lasts")),
        node("Cast", "lasts", "seqlens", to=6),
        *(node("Shape", "mask", "shape"), node("Gather", "shape second", "all"), node("Cast", "all", "total", to=6)),
    ]
    for i in range(LAYERS):
        tensors |= weights(f"q{i} o{i}")
        tensors |= {f"{name}{i}": RNG.standard_normal((WIDTH, SHARED * SIZE), "float32") / 5 for name in "kv"}
        nodes += [node("MatMul", f"h{i} {name}{i}", f"{name}m{i}") for name in "qkv"]
        given = f"qm{i} km{i} vm{i} past_key{i} past_value{i} seqlens total cos sin"
        made = f"a{i} present_key{i} present_value{i}"
        options = {"num_heads": HEADS, "kv_num_heads": SHARED, "do_rotary": 1, "domain": "com.microsoft"}
        options["local_window_size"] = window
        nodes.append(node("GroupQueryAttention", given, made, **options))
        nodes += [node("MatMul", f"a{i} o{i}", f"p{i}"), node("Add", f"h{i} p{i}", f"h{i + 1}")]
    return decoder(nodes, tensors, ["b", SHARED, "p", size])


def spelled() -> bytes:
    """Attention spelled out, as PyTorch's exporter has it: positions and the causal mask come of shapes."""
    tensors: dict[str, Any] = {
        "zero": np.array(0), "one": np.array(1), "zeros": np.array([0]), "ones": np.array([1]), "two": np.array([2]),
        "heads": np.array([HEADS, SIZE]), "width": np.array([WIDTH]), "never": np.array(-1e9, "float32"),
        "none": np.array(0, "float32"), "places": RNG.standard_normal((ROOM, WIDTH), "float32"),
    }  # fmt: skip
    nodes = [
        *(node("Shape", "ids", "shape"), node("Gather", "shape zeros", "b1"), node("Gather", "shape ones", "s1")),
        *(node("Shape", "past_key0", "before"), node("Gather", "before two", "p1"), node("Add", "p1 s1", "t1")),
        *(node("Squeeze", f"{name}1", f"{name}0") for name in "pst"),
        *(node("Range", "p0 t0 one", "rows"), node("Range", "zero t0 one", "columns")),
        *(node("Gather", "places rows", "placed"), node("Add", "h0 placed", "x0")),
        *(node("Unsqueeze", "rows ones", "rows2"), node("Unsqueeze", "columns zeros", "columns2")),
        *(node("Less", "rows2 columns2", "later"), node("Where", "later never none", "bias")),
        *(node("Concat", "b1 s1 heads", "apart", axis=0), node("Concat", "b1 s1 width", "whole", axis=0)),
    ]
    for i in range(LAYERS):
        tensors |= weights(f"q{i} k{i} v{i} o{i}")
        for name in "qkv":
            nodes += [
                node("MatMul", f"x{i} {name}{i}", f"{name}m{i}"),
                node("Reshape", f"{name}m{i} apart", f"{name}r{i}"),
                node("Transpose", f"{name}r{i}", f"{name}t{i}", perm=[0, 2, 1, 3]),
            ]
        nodes += [
            node("Concat", f"past_key{i} kt{i}", f"present_key{i}", axis=2),
            node("Concat", f"past_value{i} vt{i}", f"present_value{i}", axis=2),
            node("Transpose", f"present_key{i}", f"turned{i}", perm=[0, 1, 3, 2]),
            *(node("MatMul", f"qt{i} turned{i}", f"score{i}"), node("Add", f"score{i} bias", f"sb{i}")),
            *(node("Softmax", f"sb{i}", f"w{i}", axis=3), node("MatMul", f"w{i} present_value{i}", f"c{i}")),
            *(node("Transpose", f"c{i}", f"ct{i}", perm=[0, 2, 1, 3]), node("Reshape", f"ct{i} whole", f"a{i}")),
            *(node("MatMul", f"a{i} o{i}", f"project{i}"), node("Add", f"x{i} project{i}", f"x{i + 1}")),
        ]
    nodes.append(node("Identity", f"x{LAYERS}", f"h{LAYERS}"))
    return decoder(nodes, tensors, ["b", HEADS, "p", SIZE])


def steps(loaded: Any, heads: int, room: int) -> list[list[Any]]:
    """A prompt of 7 words, and steps of one: what each is given and gives. The cache has `room` from the first on."""
    ids, total, found = np.random.default_rng(1).integers(0, WORDS, (1, 7)), 7, list[list[Any]]()
    cache = {f"past_{part}{i}": np.zeros((1, heads, room, SIZE), "float32") for i in range(LAYERS) for part in PARTS}
    for _ in range(1 + STEPS):
        given = {"ids": ids, "mask": np.ones((1, total), "int64"), **cache}
        results = loaded.run(given)
        found.append([given, results])
        cache = {name: results[name.replace("past", "present")] for name in cache}
        ids, total = results["logits"][:, -1:].argmax(2), total + 1
    return found


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("kind", ["grouped", "shared", "spelled"])
def test_a_step_of_another_length_is_not_traced(kind: str, device: str, traces: list[Any]) -> None:
    """Two traces, with symbols: prompts and steps. Spelled out, or where plans are no data, three: a prompt, a step,
    and one for all steps.
    """
    data = spelled() if kind == "spelled" else grouped()
    loaded = dml.onnx.load(data, device=device)
    found = steps(loaded, HEADS if kind == "spelled" else SHARED, ROOM if kind == "shared" else 0)
    assert len(traces) == (2 if kind != "spelled" and device == "cpu" else 3)
    for given, results in found[:: STEPS // 4]:
        for name, wanted in dml.onnx.load(data, device=device).run(given).items():
            np.testing.assert_array_equal(results[name], wanted, err_msg=name)


@pytest.mark.parametrize("kind", ["grouped", "shared"])
def test_a_thousand_lengths_cost_arithmetic(kind: str, traces: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """No graph is compiled for a length; passes are planned anew where the row of the mask takes another kernel."""
    planned, compiled = list[int](), list[int]()
    plan, follow = Prepared.plan, CompiledGraph.planned

    def planning(*given: Any, **options: Any) -> Any:
        planned.append(total)
        return plan(*given, **options)

    def following(*given: Any, **options: Any) -> Any:
        compiled.append(total)
        return follow(*given, **options)

    monkeypatch.setattr(Prepared, "plan", planning)
    monkeypatch.setattr(CompiledGraph, "planned", following)
    count = 1000
    data = grouped(count + 8)
    loaded, past = dml.onnx.load(data), (1, SHARED, count + 8 if kind == "shared" else 0, SIZE)
    cache = {f"past_{part}{i}": np.zeros(past, "float32") for i in range(LAYERS) for part in PARTS}
    ids, seen = np.zeros((1, 1), "int64"), dict[int, Any]()
    for total in range(1, count + 1):
        given = {"ids": ids, "mask": np.ones((1, total), "int64"), **cache}
        results = loaded.run(given)
        cache = {name: results[name.replace("past", "present")] for name in cache}
        if total in (700, count):
            seen[total] = given, results
        ids = results["logits"][:, -1:].argmax(2)
    assert len(traces) <= 4  # the first step has no past, the second is as it is, and of one past key
    assert len(planned) <= len(traces) + 10
    assert len(compiled) <= 10
    assert max(planned) < 600
    for total, (given, results) in seen.items():
        for name, wanted in dml.onnx.load(data).run(given).items():
            np.testing.assert_array_equal(results[name], wanted, err_msg=f"{name} of {total}")


@pytest.mark.parametrize("window", [-1, 100])
def test_a_thousand_steps_after_a_prompt_take_two_plans_at_most(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, and where the first key is out of a local window; growing caches."""
    planned, prompt, count = list[int](), 70, 1000
    plan = Prepared.plan

    def planning(*given: Any, **options: Any) -> Any:
        planned.append(total)
        return plan(*given, **options)

    monkeypatch.setattr(Prepared, "plan", planning)
    data = grouped(prompt + count, window=window)
    loaded, seen = dml.onnx.load(data), dict[int, Any]()
    cache = {f"past_{part}{i}": np.zeros((1, SHARED, 0, SIZE), "float32") for i in range(LAYERS) for part in PARTS}
    ids = np.arange(prompt)[None] % WORDS
    for total in range(prompt, prompt + count + 1):
        given = {"ids": ids, "mask": np.ones((1, total), "int64"), **cache}
        results = loaded.run(given)
        cache = {name: results[name.replace("past", "present")] for name in cache}
        if total in (99, 100, 101, 128, 700):
            seen[total] = given, results
        ids = results["logits"][:, -1:].argmax(2)
    assert planned.pop(0) == prompt
    assert planned == ([71] if window < 0 else [71, 101])
    for total, (given, results) in seen.items():
        for name, wanted in dml.onnx.load(data).run(given).items():
            np.testing.assert_array_equal(results[name], wanted, err_msg=f"{name} of {total}")


@pytest.mark.parametrize("room", [0, ROOM])
def test_a_step_with_a_local_window_attends_in_one_pass(room: int) -> None:
    """What bounds the window is one row for all heads: those that share keys are queries of one cache."""
    loaded = dml.onnx.load(grouped(window=8))
    cache = np.zeros((1, SHARED, room or 29, SIZE), "float32")
    caches = {f"past_{part}{i}": cache for i in range(LAYERS) for part in PARTS}
    loaded.run({"ids": np.ones((1, 1), "int64"), "mask": np.ones((1, 30), "int64"), **caches})
    program: Any = next(iter(loaded._programs.values()))
    verbs = [type(step.primitive) for step in program.compiled.plan.tell().recipe.steps]
    assert verbs.count(Attend) == LAYERS


def test_prompts_of_other_lengths_are_not_traced(traces: list[Any]) -> None:
    """The first is traced with symbols, for all that follow; a tile's width may ask for another."""
    data, room, lengths = grouped(), ROOM, [30, 21, 45, 37, 19, 52, 26, 49]
    loaded = dml.onnx.load(data)
    cache = {f"past_{part}{i}": np.zeros((1, SHARED, room, SIZE), "float32") for i in range(LAYERS) for part in PARTS}
    for length in lengths:
        ids = np.random.default_rng(length).integers(0, WORDS, (1, length))
        given = {"ids": ids, "mask": np.ones((1, length), "int64"), **cache}
        results = loaded.run(given)
        for name, wanted in dml.onnx.load(data).run(given).items():
            np.testing.assert_array_equal(results[name], wanted, err_msg=f"{name} of {length}")
    # The comparisons trace once each.
    assert len(traces) <= len(lengths) + 2


def test_layers_that_check_their_lengths_are_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first checks of the lengths, all check: with its rule, by whichever of them it is told."""
    lowered = list[str]()
    lower = attention.group_query_attention

    def lowering(node: Any) -> Any:
        lowered.append(node.tracer.label)
        return lower(node)

    found = registry.find_lowering
    monkeypatch.setattr(
        trace_module, "find_lowering", lambda kind, *more: lowering if "Group" in kind else found(kind, *more)
    )
    loaded = dml.onnx.load(grouped())
    caches = {f"past_{part}{i}": np.zeros((1, SHARED, ROOM, SIZE), "float32") for i in range(LAYERS) for part in PARTS}
    for count, total in ((1, 40), (30, 30)):  # a step, a prompt
        lowered.clear()
        loaded.run({"ids": np.ones((1, count), "int64"), "mask": np.ones((1, total), "int64"), **caches})
        assert len(lowered) == 1


@pytest.mark.parametrize("count", [1, 30])
def test_a_length_beyond_the_cache_is_told_with_its_number(count: int) -> None:
    """Not with the symbol that the number is of other lengths."""
    loaded, total = dml.onnx.load(grouped()), max(count, 9)
    caches = {f"past_{part}{i}": np.zeros((1, SHARED, ROOM, SIZE), "float32") for i in range(LAYERS) for part in PARTS}
    given = {"ids": np.ones((1, count), "int64"), "mask": np.full((1, total), 9, "int64"), **caches}
    with pytest.raises(dml.ModelError, match=rf"seqlens_k must lie in 0 \.\. {ROOM - 1}; got {9 * total - 1}"):
        loaded.run(given)


def test_a_prompt_of_another_length_is_run_by_the_same_records() -> None:
    """Positions are made at each run, and no constant is of a certain length, which a plan would be of too."""
    data = grouped()
    loaded = dml.onnx.load(data)
    cache = {f"past_{part}{i}": np.zeros((1, SHARED, ROOM, SIZE), "float32") for i in range(LAYERS) for part in PARTS}
    for length in (34, 40, 35, 48):
        ids = np.random.default_rng(length).integers(0, WORDS, (1, length))
        given = {"ids": ids, "mask": np.ones((1, length), "int64"), **cache}
        results = loaded.run(given)
        programs: list[Any] = list(loaded._programs.values())
        assert (programs[-1]._ready is not None) == (length != 48)  # three plans, and none was found to hold again
        for name, wanted in dml.onnx.load(data).run(given).items():
            np.testing.assert_array_equal(results[name], wanted, err_msg=f"{name} of {length}")


def test_a_prompt_is_found_on_disk(traces: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the third process that begins with it on; another length is then planned with symbols again."""
    monkeypatch.setenv("ANYDML_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv(plans.SWITCH, "1")
    files._prepare.cache_clear()
    try:
        data, found, counts = grouped(), list[Any](), list[int]()
        past = {
            f"past_{part}{i}": np.zeros((1, SHARED, ROOM, SIZE), "float32") for i in range(LAYERS) for part in PARTS
        }
        for _ in range(3):
            loaded = dml.onnx.load(data)
            for length in (30, 21):
                given = {"ids": np.arange(length)[None] % WORDS, "mask": np.ones((1, length), "int64"), **past}
                found.append(loaded.run(given))
                counts.append(len(traces))
    finally:
        files._prepare.cache_clear()
    assert counts == [1, 1, 2, 2, 2, 3]
    for before, after in zip(found[:2], found[4:], strict=True):
        for name, wanted in before.items():
            np.testing.assert_array_equal(after[name], wanted, err_msg=name)


def bound(data: bytes, room: int) -> tuple[Any, Any, dict[str, Any]]:
    """A session, and a binding whose caches are written in place."""
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    binding, caches = session.io_binding(), dict[str, Any]()
    for i in range(LAYERS):
        for part in PARTS:
            cache = ort.OrtValue.ortvalue_from_numpy(np.zeros((1, SHARED, room, SIZE), "float32"))
            binding.bind_ortvalue_input(f"past_{part}{i}", cache)
            binding.bind_ortvalue_output(f"present_{part}{i}", cache)
            caches[f"past_{part}{i}"] = cache.numpy()
    return session, binding, caches


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One element for each run that takes a look at every array."""
    found: list[int] = []
    run_bound = anydml.onnx.Model.run_bound

    def running(self: Any, *given: Any, **options: Any) -> Any:
        found.append(1)
        return run_bound(self, *given, **options)

    monkeypatch.setattr(anydml.onnx.Model, "run_bound", running)
    return found


@pytest.mark.parametrize("is_made", [True, False])
def test_steps_with_bound_caches_look_at_what_is_new(is_made: bool, looks: list[int]) -> None:
    """By numbers alone where the same kernels are taken; the logits' array is bound, or made by each run."""
    data = grouped()
    session, binding, caches = bound(data, ROOM)
    logits = np.zeros((1, 1, WORDS), "float32")
    for total in range(1, STEPS):
        ids = np.array([[total % WORDS]])
        before = {name: cache.copy() for name, cache in caches.items()}
        binding.bind_cpu_input("ids", ids)
        binding.bind_cpu_input("mask", np.ones((1, total), "int64"))
        if total == 1 and is_made:
            binding.bind_output("logits", "cpu")
        elif total == 1:
            binding.bind_ortvalue_output("logits", ort.OrtValue.ortvalue_from_numpy(logits))
        session.run_with_iobinding(binding)
        found = binding.get_outputs()[-1].numpy()
        assert np.shares_memory(found, logits) == (not is_made)
        wanted = dml.onnx.load(data).run({"ids": ids, "mask": np.ones((1, total), "int64"), **before})
        np.testing.assert_array_equal(found, wanted["logits"])
        for name, cache in caches.items():
            np.testing.assert_array_equal(cache, wanted[name.replace("past", "present")], err_msg=name)
    assert len(looks) < 12  # of 39


def test_what_is_bound_in_the_stead_of_others_is_looked_at(looks: list[int]) -> None:
    """A shape that does not fit, another type, memory of an output, a cache of its own: as without earlier steps."""
    data = grouped()
    session, binding, caches = bound(data, ROOM)
    binding.bind_output("logits", "cpu")

    def step(total: int, ids: Any, **more: Any) -> Any:
        binding.bind_cpu_input("ids", ids)
        binding.bind_cpu_input("mask", np.ones((1, total), "int64"))
        for name, array in more.items():
            binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array))
        given = {
            "ids": ids,
            "mask": np.ones((1, total), "int64"),
            **{n: c.copy() for n, c in {**caches, **more}.items()},
        }
        session.run_with_iobinding(binding)
        wanted = dml.onnx.load(data).run(given)["logits"]
        np.testing.assert_array_equal(binding.get_outputs()[-1].numpy(), wanted)

    for total in range(40, 48):
        step(total, np.array([[3]]))
    count = len(looks)
    step(48, np.array([[4]]))
    assert len(looks) == count
    step(50, np.array([[4, 5]]))  # two tokens
    assert len(looks) == count + 1
    for total in range(51, 54):
        step(total, np.array([[3]]))
    with pytest.raises(InvalidArgument, match="int32"):
        step(54, np.array([[3]], "int32"))
    with pytest.raises(InvalidArgument):
        step(ROOM + 1, np.array([[3]]))
    place = caches["past_value0"].reshape(-1)[-2:].view("int64").reshape(1, 1)
    place[...] = 6  # the token lies in the cache, beyond its length
    step(54, place)
    own = np.array(caches["past_key0"])
    step(55, np.array([[3]]), past_key0=own)  # which is no output: its cache is copied
    own[...] += 1
    step(56, np.array([[3]]), past_key0=own)


def test_angles_are_looked_up_once_for_all_layers() -> None:
    """At the same positions: a constant of equal layers is one, so that what is computed of it is the same."""
    loaded = dml.onnx.load(grouped())
    caches = {f"past_{part}{i}": np.zeros((1, SHARED, ROOM, SIZE), "float32") for i in range(LAYERS) for part in PARTS}
    loaded.run({"ids": np.ones((1, 1), "int64"), "mask": np.ones((1, 9), "int64"), **caches})
    program: Any = next(iter(loaded._programs.values()))
    recipe = program.compiled.plan.tell().recipe
    read = [view.sizes[-2:] for step in recipe.steps for view in step.sources]
    assert read.count((ROOM, SIZE // 2)) == 2  # cosines and sines


@pytest.mark.check_bounds
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("heads", [1, 3, 4, 7, 8, 13, 16, 20])
def test_a_query_of_some_heads_that_share_a_cache(heads: int, dtype: str) -> None:
    """Panels are as wide as there are heads, about; keys are of several chunks, and some rows of the cache unused."""
    size, room, total, rng = 24, 600, 541, np.random.default_rng(heads)
    query, keys, values = (rng.standard_normal((rows, size)).astype(dtype) for rows in (heads, room, room))
    keys[total:] = np.nan  # which is not read
    inputs = [info("qkv", dtype, [1, 1, (heads + 2) * size]), info("n", "int32", [1, 1]), info("t", "int32", [1])]
    inputs += [info(name, dtype, [1, 1, room, size]) for name in ("k", "v")]
    outputs = [info("y", dtype), info("k2", dtype), info("v2", dtype)]
    options = {"num_heads": heads, "kv_num_heads": 1, "domain": "com.microsoft"}
    graph = helper.make_graph(
        [node("GroupQueryAttention", "qkv - - k v n t", "y k2 v2", **options)], "g", inputs, outputs
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    loaded = dml.onnx.load(helper.make_model(graph, opset_imports=opsets, ir_version=9))
    packed = np.concatenate([query.reshape(-1), keys[total - 1], values[total - 1]])[None, None]
    given = {"n": np.array([[total - 1]], "int32"), "t": np.array([total], "int32")}
    found = loaded.run({"qkv": packed, "k": keys[None, None], "v": values[None, None], **given})["y"]
    seen = [array.astype(np.float64) for array in (query, keys[:total], values[:total])]
    scores = seen[0] @ seen[1].T / np.sqrt(size)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    wanted = powers @ seen[2] / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(found.reshape(heads, size), wanted, atol=3e-6 if dtype == "float32" else 2e-3)


def test_who_looks_at_a_model_that_ran_whole_does_not_divide_it() -> None:
    """Assumed sizes do not fit together: GenAI's builder leaves the size of a head open, which columns make known."""
    loaded = dml.onnx.load(grouped(size="d"), strict=False)
    steps(loaded, SHARED, 0)
    assert "on the host" not in str(loaded.explain())
    assert loaded.schedules
    assert loaded._divided is None

"""Options and bindings of a session: each does as ONNX Runtime has it, or is refused."""

from __future__ import annotations

import os
import threading
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from onnx_models import helper, model, node
from session_scripts import CPU, X, opened, strings, typed

if TYPE_CHECKING:
    from pathlib import Path

import anydml.onnxruntime as ort
from anydml.onnx.lower import tracer


def test_an_initializer_must_be_of_the_models_type_and_shape() -> None:
    """ONNX Runtime reads past the end, or reads doubles as floats."""
    for array in (np.ones(1, "f4"), np.ones(3, "f8")):
        options = ort.SessionOptions()
        options.add_external_initializers(["w"], [ort.OrtValue.ortvalue_from_numpy(array)])
        with pytest.raises(ort.InvalidArgument, match="initializer 'w' must be of float32 and shape"):
            opened(ort, sess_options=options)


def test_options_of_another_library_are_told_from_ours() -> None:
    theirs = type("SessionOptions", (), {"__module__": "onnxruntime.capi"})()
    with pytest.raises(ort.InvalidArgument, match=r"a SessionOptions; got onnxruntime's; use anydml\.onnx\.Session"):
        opened(ort, sess_options=theirs)
    level = type("GraphOptimizationLevel", (), {"__module__": "onnxruntime.capi"})()
    with pytest.raises(ort.InvalidArgument, match=r"got onnxruntime's; use anydml\.onnx\.GraphOptimizationLevel"):
        ort.SessionOptions().graph_optimization_level = level


def test_nothing_is_rewritten_where_options_ask() -> None:
    passes, found = [], []
    for level in (ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_BASIC):
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        session = opened(ort, sess_options=options)
        found.append(session.run(["z"], {"x": X})[0])
        passes.append(len(session._model.explain().after))
    assert passes == [2, 1]
    np.testing.assert_array_equal(*found)


def test_nodes_on_the_host_are_refused_where_options_ask() -> None:
    assert opened(ort, strings()).run(None, {"x": ["a"]})[0].tolist() == ["a"]
    options = ort.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    with pytest.raises(ort.NotImplemented, match="DirectML has no STRING"):
        opened(ort, strings(), sess_options=options)


def test_threads_are_a_sessions_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    plain_run = dml.onnx.Model.run

    def watched(self: Any, *args: Any, **options: Any) -> Any:
        seen.append(dml.get_num_threads())
        return plain_run(self, *args, **options)

    monkeypatch.setattr(dml.onnx.Model, "run", watched)
    before = dml.get_num_threads()
    options = ort.SessionOptions()
    options.intra_op_num_threads = before + 1
    session = opened(ort, sess_options=options)
    workers = [threading.Thread(target=session.run, args=(None, {"x": X})) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert seen == [before + 1] * 8
    assert dml.get_num_threads() == before


def test_outputs_are_bound_to_memory_that_may_be_written() -> None:
    fixed = X.copy()
    fixed.flags.writeable = False
    with pytest.raises(ort.InvalidArgument, match="output 'y' must be bound to memory that may be written"):
        opened(ort).io_binding().bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(fixed))


def test_what_is_read_and_written_at_once_is_read_first() -> None:
    """As a cache that grows in place; pointers of PyTorch's as detectors bind them."""
    for rows in (2, 10_000):  # copied into, and written by the run itself
        session, cache = opened(ort), np.ones((rows, 3), np.float32)
        expected = session.run(None, {"x": cache})
        binding, beside = session.io_binding(), np.zeros_like(cache)
        binding.bind_cpu_input("x", cache)
        binding.bind_output("y", "cpu", 0, np.float32, cache.shape, cache.ctypes.data)
        binding.bind_output("z", "cpu", 0, np.float32, cache.shape, beside.ctypes.data)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal([cache, beside], expected)


ROOM, WIDTH = 2048, 16


def _decoder(kind: str) -> Any:
    """A step of a decoder with a cache that has room: by GroupQueryAttention, or by a scatter."""
    cache = ("float32", [1, 2, ROOM, WIDTH])
    if kind == "scatter":
        nodes: Any = node("ScatterND", "past_key at new", "present_key")
        inputs = {"past_key": cache, "at": ("int64", [1, 2, 3]), "new": ("float32", [1, 2, WIDTH])}
        return model(nodes, inputs, "present_key", dtypes={"present_key": "float32"})
    names = ["q", "k", "v", "past_key", "past_value", "last", "total"]
    options = {"num_heads": 2, "kv_num_heads": 2, "domain": "com.microsoft"}
    nodes = helper.make_node("GroupQueryAttention", names, ["y", "present_key", "present_value"], **options)
    row = ("float32", [1, 1, 2 * WIDTH])
    inputs = {"q": row, "k": row, "v": row, "past_key": cache, "past_value": cache, "last": ("int32", [1])}
    made = model(nodes, inputs, "y present_key present_value", {"total": np.array([ROOM], np.int32)},
                 dtypes=dict.fromkeys(("y", "present_key", "present_value"), "float32"))  # fmt: skip
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return made


@pytest.mark.parametrize("kind", ["scatter", "attention"])
def test_a_cache_that_is_past_and_present_is_written_in_place(kind: str) -> None:
    """A step of one layer took ten times as long while its caches were computed apart, and copied."""
    session, rng = opened(ort, _decoder(kind)), np.random.default_rng(3)
    names = ("key",) if kind == "scatter" else ("key", "value")
    apart = {f"past_{name}": np.zeros((1, 2, ROOM, WIDTH), np.float32) for name in names}
    shared = {name: ort.OrtValue.ortvalue_from_numpy(apart[f"past_{name}"]) for name in names}
    binding = session.io_binding()
    for name, cache in shared.items():
        binding.bind_ortvalue_input(f"past_{name}", cache)
        binding.bind_ortvalue_output(f"present_{name}", cache)
    for step in range(4):
        if kind == "scatter":
            given: dict[str, Any] = {"at": np.array([[[0, 0, step], [0, 1, step]]])}
            given["new"] = rng.standard_normal((1, 2, WIDTH), np.float32)
        else:
            given = {name: rng.standard_normal((1, 1, 2 * WIDTH), np.float32) for name in "qkv"}
            given["last"] = np.array([step], np.int32)
            binding.bind_output("y", "cpu")
        outputs = [output.name for output in session.get_outputs()]
        wanted = dict(zip(outputs, session.run(None, given | apart), strict=True))
        apart = {f"past_{name}": wanted[f"present_{name}"] for name in names}
        for name, array in given.items():
            binding.bind_cpu_input(name, array)
        tracemalloc.start()
        session.run_with_iobinding(binding)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 4 * 2 * ROOM * WIDTH or step == 0  # no room for another cache
        for name, cache in shared.items():
            np.testing.assert_array_equal(cache.numpy(), wanted[f"present_{name}"])
        if kind != "scatter":
            np.testing.assert_array_equal(binding.get_outputs()[-1].numpy(), wanted["y"])


def test_the_model_is_written_where_options_ask(tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "bound.onnx")
    options.add_free_dimension_override_by_name("n", 2)
    first = opened(ort, sess_options=options)
    again = ort.InferenceSession(tmp_path / "bound.onnx", providers=CPU)
    assert again.get_inputs()[0].shape == [2, 3]
    np.testing.assert_array_equal(first.run(["z"], {"x": X}), again.run(["z"], {"x": X}))
    options.optimized_model_filepath = str(tmp_path / "no" / "bound.onnx")
    with pytest.raises(ort.InvalidArgument, match="optimized_model_filepath could not be written"):
        opened(ort, sess_options=options)


def test_a_seed_is_for_all_that_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracer, "_draw", os.urandom)  # and again at the end
    graph = model(node("RandomUniformLike", "x", "y"), {"x": ("float32", [2, 3])}).SerializeToString()
    found = []
    for seed in (1, 1, 2):
        ort.set_seed(seed)
        found.append(opened(ort, graph).run(None, {"x": X})[0].tolist())
    assert found[0] == found[1] != found[2]


def test_arrays_of_other_libraries_are_taken_and_numpys_given() -> None:
    class Shown:
        def __dlpack__(self, **options: Any) -> Any:
            return X.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return X.__dlpack_device__()

    expected = opened(ort).run(None, {"x": X})
    for given in (Shown(), X.astype(">f4"), X.tolist(), tuple(X.tolist())):
        for ours, theirs in zip(opened(ort).run(None, {"x": given}), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs, strict=True)
    assert type(opened(ort, typed("float32", [])).run(None, {"x": 2.5})[0]) is np.ndarray
    assert type(opened(ort).run(None, {"x": ort.OrtValue.from_dlpack(Shown())})[0]) is np.ndarray

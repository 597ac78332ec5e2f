"""Nodes on the host: who runs them, what is refused, and a process of their own that may crash or hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anydml as dml
from onnx_models import helper, model, onnx

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing
from anydml.onnx.partition import host_evaluator, host_process  # isort: skip - likewise
from paths import PATHS

pytest.importorskip("onnxruntime", reason="the refusals are ONNX Runtime's")
X = np.arange(6, dtype="f").reshape(2, 3)
TEXTS = np.array(["École", "Straße", "MONDAY", "monday"], object)
BFLOAT16 = helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16)


def one_node(kind: str, inputs: dict[str, Any], domain: str = "", **attributes: Any) -> Any:
    """A model of one node, of these inputs."""
    made = helper.make_node(kind, list(inputs), ["y"], domain=domain, **attributes)
    proto = model(made, {name: (array.dtype, array.shape) for name, array in inputs.items()}, opset=20)
    proto.opset_import.extend(helper.make_opsetid(name, 3 if name == "ai.onnx.ml" else 1) for name in {domain} - {""})
    return proto


def tree(true: list[int], false: list[int]) -> dict[str, Any]:
    """A regression tree of these branches, and of leaves after them."""
    count, leaves = len(true), max(*true, *false) + 1 - len(true)
    several = count + leaves
    ends = {"true": true, "false": false}
    return {
        "n_targets": 1,
        "nodes_nodeids": list(range(several)),
        **dict.fromkeys(("nodes_treeids", "nodes_featureids", "nodes_missing_value_tracks_true"), [0] * several),
        "nodes_values": [0.0] * several,
        "nodes_modes": ["BRANCH_LEQ"] * count + ["LEAF"] * leaves,
        **{f"nodes_{name}nodeids": each + [0] * leaves for name, each in ends.items()},
        "target_nodeids": list(range(count, several)),
        **dict.fromkeys(("target_treeids", "target_ids"), [0] * leaves),
        "target_weights": [1.0] * leaves,
    }


def deep_tree(depth: int) -> Any:
    """A tree that is one chain: ONNX Runtime puts it together by a function that calls itself."""
    branches = range(depth)
    attributes = tree([i + 1 for i in branches], [depth + 1 + i for i in branches])
    return one_node("TreeEnsembleRegressor", {"x": X}, "ai.onnx.ml", **attributes)


def endless() -> tuple[Any, dict[str, Any]]:
    """Pairs of words at any distance up to 2^62: ONNX Runtime counts to that."""
    grams: dict[str, Any] = {"ngram_counts": [0, 0], "ngram_indexes": [0], "pool_int64s": [1, 2], "mode": "TF"}
    lengths: dict[str, Any] = {"min_gram_length": 2, "max_gram_length": 2, "max_skip_count": 2**62}
    inputs = {"x": np.arange(6)}
    return one_node("TfIdfVectorizer", inputs, **grams, **lengths), inputs


REFUSED = {
    "a cycle of trees": (
        one_node("TreeEnsembleRegressor", {"x": X}, "ai.onnx.ml", **tree([1, 0, 3], [1, 0, 3])),
        "False node must always be the next node",
    ),
    "keys without values": (
        one_node("LabelEncoder", {"x": np.arange(3)}, "ai.onnx.ml", keys_int64s=[1, 2], values_int64s=[1]),
        "keys_int64s",
    ),
    "two kinds of categories": (
        one_node("OneHotEncoder", {"x": np.arange(3)}, "ai.onnx.ml", cats_int64s=[1, 2], cats_strings=["a"]),
        "Exactly one of 'cats_",
    ),
    "a pattern that looks back": (
        one_node("RegexFullMatch", {"x": np.array(["aa"], object)}, pattern=r"(a)\1"),
        "Invalid regex pattern",
    ),
    "a kind of boxes": (
        one_node("NonMaxSuppression", {"b": np.ones((1, 2, 4), "f"), "s": np.ones((1, 1, 2), "f")}, center_point_box=7),
        "center_point_box",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_told_and_nobody_else_is_asked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    proto, reason = REFUSED[name]
    monkeypatch.setattr(host_evaluator, "_run_reference", lambda *_: pytest.fail("onnx's evaluator was asked"))
    inputs = {
        info.name: np.ones(
            [dim.dim_value for dim in info.type.tensor_type.shape.dim],
            helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type),
        )
        for info in proto.graph.input
    }
    with pytest.raises(dml.ModelError, match="ONNX Runtime, which runs it on the host, refused it") as caught:
        dml.onnx.load(proto).run(inputs)
    (label,) = [f"({each.domain + '.' if each.domain else ''}{each.op_type})" for each in proto.graph.node]
    assert label in str(caught.value)
    assert reason in str(caught.value)


def test_what_onnx_runtime_lacks_is_run_by_onnx_and_told(caplog: pytest.LogCaptureFixture) -> None:
    x = np.arange(4, dtype="d")
    lacking = {"Acos": ({"x": x / 4}, np.arccos(x / 4)), "Abs": ({"x": -x.astype(BFLOAT16)}, x.astype(BFLOAT16))}
    for kind, (inputs, wanted) in lacking.items():
        with caplog.at_level("INFO", "anydml"):
            loaded = dml.onnx.load(one_node(kind, inputs))
            assert np.array_equal(loaded.run(inputs)["y"], wanted)
        assert f"node of 'y' ({kind}): onnx's reference evaluator runs it, as ONNX Runtime " in caplog.text
        assert "on the host by onnx's reference evaluator (ONNX Runtime " in loaded.explain().text()
    loaded = dml.onnx.load(one_node("Unique", {"x": X}, axis=1))
    loaded.run({"x": X})
    assert "on the host by ONNX Runtime: " in loaded.explain().text()
    # Types that ONNX does not allow are nobody's, whatever the evaluator would make of them.
    mixed = {"x": x.astype(BFLOAT16), "z": x}
    with pytest.raises(dml.ModelError, match=r"\(Pow\): Y must be of|\(MatMul\): B must be of BFLOAT16, as A is"):
        dml.onnx.load(one_node("MatMul", mixed)).run(mixed)


@pytest.mark.parametrize("action", ["NONE", "LOWER", "UPPER"])
@pytest.mark.parametrize("is_exact", [0, 1])
def test_texts_are_normalised_without_a_locale(action: str, is_exact: int) -> None:
    attributes: dict[str, Any] = {"case_change_action": action, "is_case_sensitive": is_exact, "stopwords": ["monday"]}
    change: dict[str, Any] = {
        "NONE": str,
        "LOWER": str.lower,
        "UPPER": lambda text: text.replace("ß", "\0").upper().replace("\0", "ß"),
    }
    kept = [text for text in TEXTS if (text if is_exact else text.lower()) != "monday"]
    wanted = [change[action](text) for text in kept]
    for given, shape in ((TEXTS, (-1,)), (TEXTS[None], (1, -1))):
        found = dml.onnx.load(one_node("StringNormalizer", {"x": given}, **attributes)).run({"x": given})["y"]
        assert found.tolist() == np.reshape(np.array(wanted, object), shape).tolist()
    empty = dml.onnx.load(one_node("StringNormalizer", {"x": TEXTS[3:]}, **attributes)).run({"x": TEXTS[3:]})["y"]
    assert empty.tolist() == [""]


def test_the_environment_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = dml.onnx.load(one_node("Unique", {"x": X}))
    monkeypatch.setenv("ANYDML_HOST", "thread")
    with pytest.raises(dml.UnsupportedError, match="ANYDML_HOST must be 'process', or not set; got 'thread'"):
        loaded.run({"x": X})
    monkeypatch.setenv("ANYDML_HOST", "process")
    for given in ("0", "soon", "nan", "inf"):
        monkeypatch.setenv("ANYDML_HOST_TIMEOUT", given)
        with pytest.raises(dml.UnsupportedError, match="ANYDML_HOST_TIMEOUT must be a number of seconds above 0"):
            loaded.run({"x": X})


@pytest.mark.parametrize(
    "value",
    [
        X[:, ::-1],
        np.array(2.5),
        np.zeros((0, 3), "int8"),
        X.astype(BFLOAT16),
        np.arange(-8, 8).astype(helper.tensor_dtype_to_np_dtype(onnx.TensorProto.INT4)),
        TEXTS.reshape(2, 2),
        np.array(["a\0b", "\ud800", b"\xff"], object),
        np.array([], object),
        [X, X.astype(BFLOAT16), None],
        [{"a": 1.5, "b": float("inf")}, {3: "text"}],
        None,
    ],
    ids=str,
)
def test_values_travel(value: Any) -> None:
    buffers: list[Any] = []
    message = {"results": [host_process._encoded(value, buffers)]}
    there, here = os.pipe()
    with FileIO(there, "rb") as source, FileIO(here, "wb") as target:
        threading.Thread(target=host_process._write, args=(target, message, buffers)).start()
        found = host_process._read(source)
    assert found is not None
    (again,) = found["results"]
    same(again, value)


def same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, list):
        for mine, theirs in zip(found, wanted, strict=True):
            same(mine, theirs)
    elif isinstance(wanted, np.ndarray):
        assert (found.dtype, found.shape, found.tolist()) == (wanted.dtype, wanted.shape, wanted.tolist())
    else:
        assert found == wanted


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Host nodes in a process of their own, none of which is left."""
    monkeypatch.setenv("ANYDML_HOST", "process")
    yield monkeypatch
    host_process._end_all()
    host_process._idle.clear()


@pytest.mark.long
def test_a_process_of_its_own_crashes_and_hangs_alone(apart: Any) -> None:
    inputs = {"x": X}
    plain = dml.onnx.load(one_node("Unique", inputs))
    assert plain.run(inputs)["y"].tolist() == X.reshape(-1).tolist()
    assert "on the host by a kernel, in a process of its own: " in plain.explain().text()
    # Refusals are those of nodes at home.
    for name in ("keys without values", "two kinds of categories"):
        proto, reason = REFUSED[name]
        with pytest.raises(dml.ModelError, match="which runs it on the host, refused it") as caught:
            dml.onnx.load(proto).run({"x": np.arange(3)})
        assert reason in str(caught.value)
    (worker,) = host_process._idle  # one for all; whoever ends it between two runs is not noticed
    os.kill(worker._process.pid, signal.SIGTERM)
    worker._process.wait()
    crashing = dml.onnx.load(deep_tree(100_000))
    with pytest.raises(dml.ModelError, match=r"TreeEnsembleRegressor\): the process that runs it.* ended \(SIGSEGV"):
        crashing.run(inputs)
    assert not host_process._workers
    proto, words = endless()
    assert plain.run(inputs)["y"].tolist() == X.reshape(-1).tolist()
    apart.setenv("ANYDML_HOST_TIMEOUT", "0.5")
    with pytest.raises(dml.ModelError, match=r"\(TfIdfVectorizer\): it must be done within 0\.5 s .*_TIMEOUT"):
        dml.onnx.load(proto).run(words)
    assert not host_process._workers


PROGRAM = """
import os, signal, sys, threading, time
import anydml.onnx
from anydml.onnx.partition import host_process
from tests.onnx.test_host import X, endless, one_node

os.environ["ANYDML_HOST"] = "process"
plain = anydml.onnx.load(one_node("Unique", {"x": X}))
def answers():
    return plain.run({"x": X})["y"].tolist() == X.reshape(-1).tolist()
assert answers()
"""


def run_program(code: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*PATHS, *filter(None, sys.path)])}
    return subprocess.Popen(  # noqa: S603 - Python itself
        [sys.executable, "-c", PROGRAM + textwrap.dedent(code)], stdout=subprocess.PIPE, text=True, env=environment
    )


def is_there(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="processes are looked for in /proc")
def test_a_process_of_its_own_lives_as_long_as_its_parent() -> None:
    """Ctrl-C ends what is under way, a forked child has its own, and none outlives a parent that is killed."""
    with run_program("""
        # A child: its parent's worker is not its own, and it does not keep it alive.
        child = os.fork()
        if child == 0:
            assert not host_process._workers
            os._exit(0 if answers() and not host_process._end_all() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert answers() and len(host_process._workers) == 1
        # Ctrl-C.
        proto, words = endless()
        slow = anydml.onnx.load(proto)
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            slow.run(words)
        except KeyboardInterrupt:
            pass
        assert not host_process._workers
        # What hangs when its parent dies.
        threading.Thread(target=slow.run, args=(words,), daemon=True).start()
        while not (host_process._workers and min(host_process._workers, key=id).models):
            time.sleep(0.1)
        print(*[worker._process.pid for worker in host_process._workers], flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """) as program:
        assert program.stdout is not None
        workers = [int(pid) for pid in program.stdout.read().split()]
    assert workers
    assert program.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 20
    while any(map(is_there, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_there, workers))

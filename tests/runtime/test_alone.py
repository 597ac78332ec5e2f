"""What may happen while a kernel is compiled: other threads, signal handlers, finalisers, interrupts, forks."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm
import pytest

from anydml.core import late_imports as alone
from anydml.engines.cpu import build
from anydml.engines.cpu.move.copy import get_copy
from anydml.engines.cpu.move.scan import get_scan
from cold import ANSWER, run

if TYPE_CHECKING:
    from collections.abc import Callable

NAME, OTHER = "copy run 4", "copy run 8"
posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are neither forks nor interval timers")


@pytest.fixture
def compile_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Callable[[str], None]], list[str]]:
    """Have something happen in each compilation; the kernels are new to the process, and to the cache."""
    original = build._compile
    monkeypatch.setenv("ANYDML_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(build, "_kernels", {})

    def prepare(meanwhile: Callable[[str], None]) -> list[str]:
        names: list[str] = []

        def compile_it(name: str, write: Callable[[], Any]) -> bytes:
            names.append(name)
            meanwhile(name)
            return original(name, write)

        monkeypatch.setattr(build, "_compile", compile_it)
        return names

    return prepare


def in_thread(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_kernels_of_a_name_are_loaded_once() -> None:
    assert get_copy("copy run 4") is get_copy("copy run 4")


def test_threads_that_start_together_have_one_kernel(compile_with: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs keep its address alone: a second of the same name would free the first."""
    names = compile_with(lambda _: time.sleep(0.1))
    for _ in ("compiled", "loaded"):
        monkeypatch.setattr(build, "_kernels", {})
        found: list[Any] = []
        ready = threading.Barrier(4)

        def get(found: list[Any] = found, ready: threading.Barrier = ready) -> None:
            ready.wait()
            found.append(get_copy(NAME))

        for thread in [in_thread(get) for _ in range(4)]:
            thread.join(60)
        assert len(found) == 4
        assert len(set(map(id, found))) == 1
    assert names == [NAME]


def test_a_call_from_within_a_compilation(compile_with: Any) -> None:
    """As a finaliser makes one: of another kernel, and of the same."""
    depth: list[str] = []

    def nest(name: str) -> None:
        depth.append(name)
        if len(depth) < 4:
            get_copy(OTHER if len(depth) % 2 else NAME)

    compile_with(nest)
    kernel = get_copy(NAME)
    assert kernel is get_copy(NAME)
    assert len(depth) == 4


def test_finalisers_run_after_a_compilation(compile_with: Any) -> None:
    import gc

    seen: list[Any] = []

    class Cycle:
        def __init__(self) -> None:
            self.own = self

        def __del__(self) -> None:
            seen.append((alone._is_gc_paused, get_copy(OTHER).name))

    def make_garbage(name: str) -> None:
        if name == NAME:
            Cycle()
            assert not gc.isenabled()
            _ = [[] for _ in range(100_000)]
            assert seen == []

    compile_with(make_garbage)
    get_copy(NAME)
    assert gc.isenabled()
    gc.collect()
    assert seen == [(False, OTHER)]


def test_a_call_by_who_holds_the_lock_of_llvmlite(compile_with: Any) -> None:
    """A signal handler may interrupt a call of LLVM while others wait."""
    compile_with(lambda _: None)
    begun = threading.Event()

    def get() -> None:
        begun.set()
        get_copy(OTHER)

    with llvm.ffi.lib._lock:
        thread = in_thread(get)
        begun.wait(60)
        time.sleep(0.05)
        assert get_scan("scan lines i32 sum").name == "scan lines i32 sum"
    thread.join(60)
    assert not thread.is_alive()


def test_without_a_thread_the_caller_compiles(compile_with: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    names = compile_with(lambda _: None)
    monkeypatch.setattr("_thread.start_new_thread", fail)
    assert get_copy(NAME).name == NAME
    assert names == [NAME]


def test_an_error_is_the_callers(compile_with: Any) -> None:
    def fail(_: str) -> None:
        raise ZeroDivisionError

    compile_with(fail)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            get_copy(NAME)


def test_the_compiling_thread_has_a_stack_of_its_own_size(compile_with: Any) -> None:
    before = threading.stack_size(128 * 1024)
    try:
        compile_with(lambda _: None)
        get_copy("transpose 4")
        assert threading.stack_size() == 128 * 1024
    finally:
        threading.stack_size(before)


def test_a_caller_whose_code_has_no_hash() -> None:
    """What Dynamo writes where a function goes on after a graph break has dicts among its constants."""

    def call() -> Any:
        return alone.run_alone(lambda: 5)

    call.__code__ = call.__code__.replace(co_consts=(*call.__code__.co_consts, {}))
    with pytest.raises(TypeError, match="unhashable"):
        hash(call.__code__)
    assert call() == 5


def test_a_module_may_need_a_kernel_while_it_is_imported(
    compile_with: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread that needs the same module would wait for it for ever."""

    def import_it(_: str) -> None:
        importlib.import_module("needs_a_kernel")

    code = f"from anydml.engines.cpu.move.copy import get_copy; found = get_copy({NAME!r}).name"
    (tmp_path / "needs_a_kernel.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    compile_with(import_it)
    try:
        assert importlib.import_module("needs_a_kernel").found == NAME
    finally:
        sys.modules.pop("needs_a_kernel", None)


# Cold processes: LLVM itself is loaded while these happen.


@pytest.mark.long
@posix
def test_signal_handlers_that_need_kernels(tmp_path: Path) -> None:
    """The one that is being compiled, and others, whatever the moment; later rounds load what the first compiled."""
    code = """
from anydml.runtime.device import device_named
right, depth, kept = [], 0, []
def handle(*_):
    global depth
    if depth < 3:
        depth += 1
        right.append(answer(len(right) % 3))
        depth -= 1
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.002)
right += [answer(0), answer(1), answer(2)]
from anydml.engines.cpu import build
while len(right) < 500:
    kept.append(build._kernels)
    build._kernels = {}
    dml.api.calls.known_calls.clear()
    device_named.cache_clear()
    right += [answer(0), answer(1), answer(2)]
signal.setitimer(signal.ITIMER_REAL, 0)
print(len(kept) > 1, all(right))
"""
    assert run(ANSWER + code, tmp_path) == ["True", "True"]


@pytest.mark.long
@posix
def test_an_interrupt_ends_the_waiting_alone(tmp_path: Path) -> None:
    code = """
for delay in (0.01, 0.1, 0.3):
    try:
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()
        answer(1)
        time.sleep(60)
    except KeyboardInterrupt:
        print("interrupted")
print(answer(1), answer(0))
try:
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    answer(2)
    time.sleep(60)
except KeyboardInterrupt:
    print("left")
"""
    assert run(ANSWER + code, tmp_path) == [*["interrupted"] * 3, "True", "True", "left"]


@posix
def test_an_interrupt_while_a_kernel_is_loaded_leaves_no_lock_behind(tmp_path: Path) -> None:
    code = """
import random, signal, threading
import llvmlite.binding.ffi as ffi
from anydml.engines.cpu import build
from anydml.engines.cpu.move.copy import get_copy
get_copy("copy run 4")
signal.signal(signal.SIGALRM, signal.default_int_handler)
free = []
def look():
    free.append(ffi.lib._lock._lock.acquire(timeout=60))
    if free[-1]: ffi.lib._lock._lock.release()
for _ in range(60):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, 3e-3))
        while True:
            build._kernels.clear()
            get_copy("copy run 4")
    except KeyboardInterrupt: pass
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
print(len(free), all(free))
"""
    assert run(code, tmp_path) == ["60", "True"]


FIRST_CALLS = {
    "a product": "np.array_equal(dml.gemm(x, x, trans_b='TRANSPOSE'), x @ x.T)",
    "a softmax": "abs(float(dml.softmax(x).sum()) - 3) < 1e-5",
    "a cast": "np.array_equal(dml.cast(x, 'int32'), x)",
    "a graph": "np.array_equal((g := dml.Graph()).compile(dml.relu(g.input(x)) + 1)(x), x + 1)",
    "a model": "dml.dxdispatch.load_model(slice_json).run().resources['output'][0] == 7",
    "an ONNX model": "dml.onnx.load(crop_onnx).run({'x': y, 'rows': rows})['y'].shape[1] > 0",
    "a picture": "len(dml.explain(dml.ActivationRelu.infer(input_tensor=dml.TensorDesc.of(x))).svg()) > 100",
    "PyDirectML": "dml.pydirectml.Size2D(1, 2).width == 1",
    "a misspelt name": "'relu' in said(lambda: dml.reluu)",
    "a wrong call": "'slice1' in said(lambda: dml.slice1(x, (0, 0), (9, 9), (1, 1))).lower()",
}
INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
import anydml as dml
slice_json, crop_onnx = sys.argv[2:]
x, y, rows = np.arange(12, dtype="f4").reshape(3, 4), np.ones((2, 6), "f4"), np.array([0, 1], "i8")
def said(call):
    try: call()
    except Exception as error: return str(error)
calls, imported, rung = CALLS, [], []
class Bell:
    "Rings at each module that is looked for."
    def find_spec(self, name, *_):
        if name.partition(".")[0] in ("anydml", "onnx", "difflib", "fractions") and not ringing:
            imported.append(name)
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.002)
ringing = []
def handle(*_):
    if ringing: return
    ringing.append(1)
    try:
        call = list(calls)[len(rung) % len(calls)]
        rung.append(call)
        assert eval(calls[call]), call
    finally:
        ringing.clear()
signal.signal(signal.SIGUSR1, handle)
sys.meta_path.insert(0, Bell())
assert eval(calls[sys.argv[1]])
print(len(imported) > 0, len(rung) > 0)
"""


@posix
@pytest.mark.parametrize(
    "first",
    ["a graph", *(pytest.param(name, marks=pytest.mark.long) for name in ("a product", "an ONNX model", "a picture"))],
)
def test_a_handler_that_comes_while_a_module_is_imported_finds_it_whole(first: str) -> None:
    pytest.importorskip("onnx", reason="one of the calls needs it")
    code = INTERRUPTED.replace("CALLS", repr(FIRST_CALLS))
    models = Path(__file__).parents[2] / "examples" / "models"
    command = [sys.executable, "-c", code, first, str(models / "slice.json"), str(models / "crop.onnx")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603 - our own
    assert (result.returncode, result.stdout) == (0, "True True\n"), result.stderr


def test_whatever_is_imported_late_is_imported_alone() -> None:
    """But for the command line's, and what runs on the working thread anyway: the compiler of kernels."""
    root = Path(alone.__file__).parents[1]
    elsewhere = [root / name for name in ("cli", "explore", "engines/cpu/codegen")]
    files = [root / "engines/cpu/build.py", root / "engines/cpu/features.py", root / "alone.py"]
    wrong = []
    for file in root.rglob("*.py"):
        if file in files or any(folder in file.parents for folder in elsewhere):
            continue
        text = file.read_text(encoding="utf-8")
        ours = re.sub(r"^if TYPE_CHECKING:\n(?: .*\n|\n)*", "", text, flags=re.MULTILINE)
        if not re.search(r"^ +(from|import) |import_module|__import__", ours, re.MULTILINE):
            continue
        for function in ast.walk(ast.parse(text)):
            if isinstance(function, ast.FunctionDef) and function.name != "_load_cpu":
                calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
                names = {getattr(call.func, "id", "") for call in calls}
                assert not {"import_module", "__import__"} & names, (file, function.name)
                late = [node for node in ast.walk(function) if isinstance(node, (ast.Import, ast.ImportFrom))]
                first = min((node.lineno for node in late), default=0)
                said = [call.lineno for call in calls if getattr(call.func, "id", "") in ("import_alone", "_import")]
                if late and min(said, default=first + 1) >= first:
                    wrong.append(f"{file.relative_to(root)}: {function.name}")
    assert not wrong

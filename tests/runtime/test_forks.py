"""Forks while another thread imports an engine or compiles a kernel: neither parent nor child hangs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from cold import ANSWER, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.sampled(3)

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
FORK = """
def fork_and_answer(kind):
    child = os.fork()
    if child == 0:
        code = 3
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            code = 0 if answer(kind) and gc.isenabled() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


@pytest.mark.long
@posix
def test_forks_during_a_compilation(tmp_path: Path) -> None:
    """By another thread, at any time: the import of the engine or of LLVM, the compilation, between two."""
    code = """
codes, over = [], threading.Event()
def fork():
    time.sleep(0.02)
    while not over.is_set():
        codes.append(fork_and_answer(len(codes) % 3))
        time.sleep(random.uniform(0, 0.1))
thread = threading.Thread(target=fork)
thread.start()
right = [answer(0), answer(1), answer(2)]
over.set()
thread.join()
print(len(codes) > 0, set(codes), all(right))
"""
    assert run(ANSWER + FORK + code, tmp_path) == ["True", "{0}", "True"]


@pytest.mark.long
@posix
def test_a_fork_in_a_signal_handler_during_a_compilation(tmp_path: Path) -> None:
    code = """
codes = []
def handle(*_):
    codes.append(fork_and_answer(len(codes) % 3))
signal.signal(signal.SIGALRM, handle)
for kind, delay in ((0, 0.02), (1, 0.1), (2, 0.02)):
    signal.setitimer(signal.ITIMER_REAL, delay)
    codes.append(not answer(kind))
signal.setitimer(signal.ITIMER_REAL, 0)
print(len(codes) > 3, sum(codes))
"""
    assert run(ANSWER + FORK + code, tmp_path) == ["True", "0"]


@pytest.mark.long
@posix
def test_a_child_of_a_process_whose_compilation_lasts(tmp_path: Path) -> None:
    """A fork waits for a while, no longer; the child then has none of the locks, whoever holds them."""
    code = """
from anydml.core import late_imports as alone
from anydml.engines.common import cache
from anydml.engines.cpu import build
import llvmlite.binding as llvm
answer(2)
alone.PATIENCE = cache.PATIENCE = 0.2
held, over = threading.Event(), threading.Event()
def hold(name, write=None):
    with llvm.ffi.lib._lock:
        held.set()
        over.wait()
    return original(name, write)
original, build._compile = build._compile, hold
thread = threading.Thread(target=answer, args=(0,))
thread.start()
held.wait()
child = os.fork()
if child == 0:
    build._compile = original
    signal.alarm(60)
    os._exit(0 if answer(1) and answer(0) and gc.isenabled() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
over.set()
thread.join()
print(answer(0), answer(1))
"""
    assert run(ANSWER + FORK + code, tmp_path) == ["0", "True", "True"]


# What another thread is at while it dispatches
BUSY = """
import anydml.onnx
from onnx import TensorProto, helper
def in_place():
    x = np.zeros(3_000_000, "f4")
    tensor = dml.TensorDesc.of(x)
    desc = dml.CumulativeSummation(input_tensor=tensor, output_tensor=tensor, axis=0)
    return dml.Device("cpu").compile(desc).bind(x, out=x).dispatch
def of_many_shapes():
    info = helper.make_tensor_value_info
    node = helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])
    graph = helper.make_graph([node], "g", [info("x", 1, ["a", "b"])], [info("y", 1, None)])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model, sizes = anydml.onnx.load(proto), iter(range(1, 10**9))
    def work():
        x = np.full((next(sizes), 7), 3, "f4")
        if not np.array_equal(model.run({"x": x})["y"], x.T):
            raise ValueError("another size's program")
    return work
"""


@pytest.mark.long
@posix
@pytest.mark.parametrize("kind", ["in_place", "of_many_shapes"])
def test_a_child_has_no_lock_of_its_parents_threads(kind: str, tmp_path: Path) -> None:
    code = f"""
work = {kind}()
def answer(_):
    work()
    return True
answer(0)
over, codes = threading.Event(), set()
def keep_busy():
    while not over.is_set():
        work()
thread = threading.Thread(target=keep_busy)
thread.start()
for _ in range(20):
    time.sleep(random.uniform(0, 0.005))
    codes.add(fork_and_answer(0))
over.set()
thread.join()
print(codes)
"""
    short = FORK.replace("signal.alarm(60)", "signal.alarm(20)")
    assert run(ANSWER + BUSY + short + code, tmp_path) == ["{0}"]


@posix
@pytest.mark.parametrize("phase", ["find_spec", "exec_module"])
def test_a_fork_waits_for_what_another_thread_imports(phase: str, tmp_path: Path) -> None:
    """Of modules that are imported when first needed: Python has a lock for each, before and while its code is run."""
    code = f"""
import importlib.machinery
class Slow(importlib.machinery.SourceFileLoader if {phase!r} == "exec_module" else object):
    def {phase}(self, *given):
        if name_of(given) == "anydml.graph.optimise" and not began.is_set():
            began.set()
            forked.wait(0.3)
        return getattr(super(), {phase!r}, lambda *_: None)(*given)
def name_of(given):
    return getattr(given[0], "__name__", given[0])
began, forked = threading.Event(), threading.Event()
if {phase!r} == "find_spec":
    sys.meta_path.insert(0, Slow())
else:
    details = (Slow, importlib.machinery.SOURCE_SUFFIXES)
    sys.path_hooks.insert(0, importlib.machinery.FileFinder.path_hook(details))
    sys.path_importer_cache.clear()
def answer(_):
    from anydml.graph.optimise import optimise
    return True
thread = threading.Thread(target=answer, args=(0,))
thread.start()
print(began.wait(20), fork_and_answer(0))
forked.set()
thread.join()
"""
    short = FORK.replace("signal.alarm(60)", "signal.alarm(10)")
    assert run(ANSWER + short + code, tmp_path) == ["True", "0"]


@posix
def test_a_fork_waits_for_what_our_code_imports_of_others(tmp_path: Path) -> None:
    """A module of Python's own, that an operator needs; nobody waits for one that a program imports by itself."""
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(0.3)\n")
    code = f"""
import types, anydml.core.late_imports
sys.path.insert(0, {str(tmp_path)!r})
def load():
    import slow
    return True
def answer(_):
    return load()
ours = types.FunctionType(load.__code__, {{**globals(), "__name__": "anydml.any"}})
for work in (ours, load):
    sys.modules.pop("slow", None)
    thread = threading.Thread(target=work)
    thread.start()
    while "slow" not in sys.modules:
        time.sleep(0.001)
    print(anydml.core.late_imports._are_others_importing())
    if work is ours:
        print(fork_and_answer(0))
    thread.join()
"""
    short = FORK.replace("signal.alarm(60)", "signal.alarm(10)")
    assert run(ANSWER + short + code, tmp_path) == ["True", "0", "False"]


@posix
def test_an_import_that_has_not_begun_waits_for_a_fork(tmp_path: Path) -> None:
    """Between the look at other threads' imports and the fork itself none begins."""
    code = """
from anydml.core import late_imports
began = threading.Event()
def answer(_):
    began.set()
    return late_imports.import_alone("anydml.graph.optimise") is not None
def look():
    thread.start()
    began.wait()
    time.sleep(0.2)
    print(answered == [] and "anydml.graph.optimise" not in sys.modules)
answered = []
thread = threading.Thread(target=lambda: answered.append(answer(0)))
hold = late_imports._hold
def hold_and_look(lock, deadline):
    hold(lock, deadline)
    began.is_set() or look()
late_imports._hold = hold_and_look
print(fork_and_answer(0))
thread.join()
print(answered)
"""
    short = FORK.replace("signal.alarm(60)", "signal.alarm(10)")
    assert run(ANSWER + short + code, tmp_path) == ["True", "0", "[True]"]


def test_what_is_computed_once_takes_no_lock() -> None:
    """Before Python 3.12 functools.cached_property has one, which a child would wait for."""
    from anydml.core.locks import cached_property

    class Box:
        @cached_property
        def item(self) -> list[int]:
            """Its item."""
            return []

    box = Box()
    assert box.item is box.item is not Box().item
    assert not hasattr(Box.__dict__["item"], "lock")

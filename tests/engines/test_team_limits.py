"""The threads behind a dispatch where the system gives few cores, few threads or little stack."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.move import scan
from threading_helpers import KINDS, LINUX, run_python

if TYPE_CHECKING:
    from collections.abc import Callable


@LINUX
@pytest.mark.parametrize("kind", KINDS)
def test_more_threads_than_free_cores_do_not_wait_for_one_another(kind: str) -> None:
    code = """
import subprocess
os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:2]))
hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
try:
    dml.set_num_threads(16)
    x = np.random.randint(-9, 9, 4_000_000)
    for _ in range(60):
        out = dml.cumulative_summation(x, axis=0)
    assert np.array_equal(out, np.cumsum(x))
    print("done")
finally:
    for hog in hogs: hog.kill()
"""  # 3 s; with threads that wait for others that do not run, minutes
    assert run_python(code, timeout=300, ANYDML_TEAM=kind).stdout == "done\n"


@LINUX
@pytest.mark.parametrize("kind", KINDS)
def test_where_no_thread_can_be_started_the_dispatch_runs_with_those_that_are_there(kind: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become a user of whom there is no process yet")
    code = """
import resource
x = np.random.rand(500, 4000).astype("f4")
dml.set_num_threads(3)
for _ in range(3):  # the second call makes what later ones are
    first = dml.slice1(x, (0, 0), x.shape, (1, -1))
os.setuid(54321)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
dml.set_num_threads(12)
for _ in range(20):
    assert np.array_equal(dml.slice1(x, (0, 0), x.shape, (1, -1)), first)
assert np.array_equal(first, x[:, ::-1])
try:
    threading.Thread(target=print).start()
except RuntimeError:
    print("no thread")
"""
    result = run_python(code, ANYDML_TEAM=kind)
    assert result.stdout == "no thread\n", result.stderr


@LINUX
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_need_little_stack(kind: str) -> None:
    code = """
threading.stack_size(128 * 1024)
dml.set_num_threads(4)
def work():
    for dtype in ("uint8", "float16", "float32", "float64"):
        x = (np.arange(600 * 700) % 251).astype(dtype).reshape(600, 700)
        assert np.array_equal(dml.slice1(x.T, (0, 0), (700, 600), (1, -1)), x.T[:, ::-1])
        if dtype != "uint8":
            wide = dml.cast(x, "int32")
            assert np.array_equal(dml.cumulative_summation(wide, axis=0), wide.cumsum(0, "int32"))
        rows = np.arange(599, -1, -1).reshape(-1, 1)
        assert np.array_equal(dml.gather_nd(x, rows), x[::-1])
        places = np.tile(np.arange(700)[::-1], (600, 1))
        assert np.array_equal(dml.gather_elements(x, places, axis=1), x[:, ::-1])
    done.append(True)
done = []
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(done)
"""
    result = run_python(code, ANYDML_TEAM=kind)
    assert result.stdout == "[True]\n", result


@LINUX
def test_threads_that_are_woken_keep_off_the_callers_core() -> None:
    """And the caller stays where it may be: 2 of the cores, whichever."""
    code = """
cores = sorted(os.sched_getaffinity(0))[:2]
os.sched_setaffinity(0, cores)
dml.set_num_threads(2)
x = np.zeros(4_000_000, "float32")
dml.add(x, x)
names = {n: open(f"/proc/self/task/{n}/comm").read().strip() for n in os.listdir("/proc/self/task")}
(thread,) = (int(n) for n, name in names.items() if name.startswith("anydml-"))
for _ in range(200):  # on a busy machine it may be woken too late to have any work
    dml.add(x, x)
    kept = os.sched_getaffinity(thread)
    if len(kept) == 1: break
    time.sleep(0.05)
print(len(cores), len(kept), kept <= set(cores), os.sched_getaffinity(0) == set(cores))
"""
    result = run_python(code, ANYDML_TEAM="native")
    assert result.stdout in ("2 1 True True\n", "1 1 True True\n"), result.stderr


def test_threads_from_elsewhere_find_a_block_to_work_in() -> None:
    """Who finds none keeps a core busy: there are enough for callers of several threads each, however few the cores."""
    code = """
from anydml.engines.cpu.threads.scratch import get_scratch
dml.set_num_threads(1)
print(get_scratch().number)
"""
    assert int(run_python(code).stdout) >= 32


def test_a_long_sum_asks_for_no_more_threads_than_it_has_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def bind(program: KernelProgram, places: dict[str, int]) -> Callable[[], Any]:
        asked.append(program.work_items)
        return dispatch(program, places)

    dispatch = KernelProgram.bind
    monkeypatch.setattr(KernelProgram, "bind", bind)
    monkeypatch.setenv("ANYDML_CHECK_BOUNDS", "0")  # a proof binds too
    before = dml.get_num_threads()
    dml.set_num_threads(64)
    try:
        x = np.ones(8 * scan.TILE + 1, np.int32)
        assert dml.cumulative_summation(x, 0)[-1] == len(x)
    finally:
        dml.set_num_threads(before)
    assert asked == [9]

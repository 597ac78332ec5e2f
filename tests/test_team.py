"""The threads behind a dispatch: any number of them, from any number of callers, through forks, signals and limits."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cores import read_quota
from anydml.engines.cpu import team

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the system's threads, signals and limits are Linux's here")
KINDS = ["native", "python"]


@pytest.fixture(params=[1, 2, 16])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = dml.get_num_threads()
    dml.set_num_threads(request.param)
    yield request.param
    dml.set_num_threads(before)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ANYDML_TEAM", request.param)
    return str(request.param)


def reversing(x: np.ndarray) -> dml.OperatorDesc:
    zeros = (0,) * x.ndim
    steps = (*(1,) * (x.ndim - 1), -1)
    tensor = dml.TensorDesc.of(x)
    return dml.Slice1.infer(
        input_tensor=tensor, input_window_offsets=zeros, input_window_sizes=x.shape, input_window_strides=steps
    )


def summing(x: np.ndarray) -> dml.OperatorDesc:
    return dml.CumulativeSummation.infer(input_tensor=dml.TensorDesc.of(x), axis=x.ndim - 1)


def run_python(code: str, *, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    head = "import os, sys, threading, time, signal\nimport numpy as np\nimport anydml as dml\n"
    return subprocess.run(  # noqa: S603 - the code is the test's own
        [sys.executable, "-c", head + code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


# Many callers


def test_many_threads_dispatch_large_work_at_once(threads: int, kind: str) -> None:
    start = threading.Barrier(12)  # more than there are slots for jobs

    def work(seed: int) -> bool:
        x = np.random.default_rng(seed).integers(-1000, 1000, (300, 1000 + seed), "int32")
        out = np.empty_like(x)
        bound = dml.Device("cpu").compile(reversing(x)).bind(x, out=out)
        start.wait()
        for _ in range(20):
            out.fill(7)
            bound.dispatch()
            if not np.array_equal(out, x[:, ::-1]):
                return False
        return True

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(work, range(12)))


@pytest.mark.long
def test_the_number_of_threads_changes_while_others_dispatch() -> None:
    before, stop = dml.get_num_threads(), threading.Event()

    def change() -> None:
        rng = np.random.default_rng(0)
        while not stop.is_set():
            dml.set_num_threads(int(rng.integers(1, 12)))

    changer = threading.Thread(target=change)
    changer.start()
    try:
        x = np.arange(3_000_000, dtype="int64").reshape(3, -1)
        out = np.empty_like(x)
        bound = dml.Device("cpu").compile(summing(x)).bind(x, out=out)
        wanted = np.cumsum(x, 1)
        for _ in range(30):
            out.fill(0)
            bound.dispatch()
            np.testing.assert_array_equal(out, wanted)
    finally:
        stop.set()
        changer.join()
        dml.set_num_threads(before)


# One binding, several threads


def dispatch_at_once(bound: dml.BoundOperator, check: Callable[[int], None], rounds: int) -> None:
    """Dispatch one binding from four threads at once, and look at the answer at rest, round by round."""
    start = threading.Barrier(4)

    def work(_: int) -> None:
        start.wait()
        bound.dispatch()

    with ThreadPoolExecutor(4) as pool:
        for number in range(rounds):
            list(pool.map(work, range(4)))
            check(number)


def test_one_long_sum_is_dispatched_by_several_threads(threads: int, kind: str) -> None:
    x = np.random.default_rng(0).integers(-9, 9, 400_000, "int64")
    out, wanted = np.empty_like(x), np.cumsum(x)

    def check(_: int) -> None:
        np.testing.assert_array_equal(out, wanted)
        out.fill(0)

    dispatch_at_once(dml.Device("cpu").compile(summing(x)).bind(x, out=out), check, 40)


def test_one_graph_is_dispatched_by_several_threads(engine: str) -> None:
    side = 30 if engine == "cuda" else 400
    graph = dml.Graph(device=engine)
    x = graph.input(dml.TensorDesc("int32", (side, side)))
    sums = dml.cumulative_summation(dml.cumulative_summation(x, axis=1), axis=0)
    model = graph.compile(dml.cumulative_summation(sums, axis=1))
    assert model.binding_properties.temporary_resource_size > 0
    data = np.random.default_rng(0).integers(-9, 9, (side, side), "int32")
    wanted = data.cumsum(1, "int32").cumsum(0, "int32").cumsum(1, "int32")
    out = np.empty_like(data)

    def check(_: int) -> None:
        np.testing.assert_array_equal(out, wanted)
        out.fill(0)

    dispatch_at_once(model.bind(data, out=out), check, 5 if engine == "cuda" else 100)


def test_an_operator_in_place_is_run_by_one_thread_after_the_other(engine: str) -> None:
    tensor = dml.TensorDesc("int32", (64, 1000))
    desc = dml.CumulativeSummation(input_tensor=tensor, output_tensor=tensor, axis=1)
    assert desc.in_place
    x = np.random.default_rng(0).integers(-9, 9, (64, 1000), "int32")
    wanted = [x.copy()]

    def check(_: int) -> None:
        for _ in range(4):
            wanted[0] = wanted[0].cumsum(1, "int32")
        np.testing.assert_array_equal(x, wanted[0])

    dispatch_at_once(dml.Device(engine).compile(desc).bind(x, out=x), check, 3 if engine == "cuda" else 20)


def test_a_command_list_is_run_by_one_thread_after_the_other() -> None:
    """Else a thread's copy would come between another's copy and its sum in place."""
    device, x, y = dml.Device("cpu"), np.ones(1_000_000, "int32"), np.empty(1_000_000, "int32")
    tensor = dml.TensorDesc.of(x)
    copying = device.compile(dml.ElementWiseIdentity(input_tensor=tensor, output_tensor=tensor))
    summing = device.compile(dml.CumulativeSummation(input_tensor=tensor, output_tensor=tensor, axis=0))
    commands, recorder = device.create_command_list(), device.create_command_recorder()
    for run, source in ((copying, x), (summing, y)):
        table = device.create_binding_table(run)
        table.bind_inputs([dml.BufferBinding(source)])
        table.bind_outputs([dml.BufferBinding(y)])
        recorder.record_dispatch(commands, run, table)
    wanted = np.arange(1, 1_000_001)
    for _ in range(20):
        threads = [threading.Thread(target=device.execute, args=(commands,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        np.testing.assert_array_equal(y, wanted)


@LINUX
def test_a_binding_that_a_signals_handler_dispatches_again_says_so() -> None:
    code = """
tensor = dml.TensorDesc("int64", (4_000_000,))
x = np.ones(4_000_000, "int64")
desc = dml.CumulativeSummation(input_tensor=tensor, output_tensor=tensor, axis=0)
bound = dml.Device("reference").compile(desc).bind(x, out=x)
said = []
def again(*_):
    try:
        bound.dispatch()
    except dml.BindingError as error:
        said.append(str(error))
signal.signal(signal.SIGALRM, again)
for _ in range(400):
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    bound.dispatch()
    signal.setitimer(signal.ITIMER_REAL, 0)
    if said: break
print(said[0])
"""
    result = run_python(code)
    assert "CUMULATIVE_SUMMATION: this binding is running already, on the same thread" in result.stdout, result.stderr


# Arrays that change between two calls


def changed(x: np.ndarray, change: str) -> None:
    """Change an array in place, as its owner may."""
    if change == "dtype":
        x.dtype = np.dtype("float32")  # type: ignore[misc]  # which NumPy's types call read-only
    elif change == "strides":
        x.strides = (4, 16)
    elif change == "shape":
        x.shape = (2, 8)
    else:
        x.flags.writeable = False


@pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")  # which a later NumPy gives
@pytest.mark.parametrize("change", ["dtype", "shape", "writeable"])
def test_a_call_sees_that_its_output_has_changed(change: str, engine: str) -> None:
    x, out = np.arange(16, dtype="int32").reshape(4, 4).copy(), np.empty((4, 4), "int32")
    run = dml.Device(engine).compile(reversing(x))
    for _ in range(2):
        run(x, out=out)
    out[...] = 7
    changed(out, change)
    before = out.tobytes()
    with pytest.raises(dml.BindingError):
        run(x, out=out)
    assert out.tobytes() == before


@pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")
@pytest.mark.parametrize("change", ["dtype", "shape", "strides"])
def test_a_call_sees_that_its_input_has_changed(change: str, engine: str) -> None:
    x, out = np.arange(16, dtype="int32").reshape(4, 4).copy(), np.empty((4, 4), "int32")
    run = dml.Device(engine).compile(reversing(x))
    for _ in range(2):
        run(x, out=out)
    changed(x, change)
    with pytest.raises(dml.BindingError):  # never the old layout
        run(x, out=out)


@pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")
def test_a_call_sees_a_type_at_the_address_of_the_last_one() -> None:
    x: np.ndarray[Any, Any] = np.ones(4, np.dtype("f4", metadata={"of": 1}))
    out = np.empty(4, "f4")
    tensor = dml.TensorDesc("float32", (4,))
    run = dml.Device("cpu").compile(dml.CumulativeSummation(input_tensor=tensor, output_tensor=tensor, axis=0))
    run(x, out=out)
    place = id(x.dtype)
    x.dtype = np.dtype("u4")  # type: ignore[misc]
    others = [np.dtype("i4", metadata={"of": k}) for k in range(1000)]
    x.dtype = next((other for other in others if id(other) == place), others[0])  # type: ignore[misc]
    with pytest.raises(dml.BindingError):
        run(x, out=out)


# Ctrl-C


@LINUX
def test_a_dispatch_on_pythons_threads_ends_before_whatever_a_handler_raises() -> None:
    code = """
from anydml.engines.cpu import pool
class Late(Exception): pass
def handle(*_): raise Late
signal.signal(signal.SIGALRM, handle)
dml.set_num_threads(2)
done, come = [], threading.Event()
def work(turn):
    if threading.current_thread() is threading.main_thread():
        come.wait()
    else:
        come.set()
        time.sleep(0.5)
        done.append(turn)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    pool.run(work, 2)
except Late:
    print(len(done))
"""
    result = run_python(code)
    assert result.stdout == "1\n", result.stderr


@LINUX
def test_a_handler_dispatches_while_threads_are_started() -> None:
    code = """
from anydml.engines.cpu import pool
import faulthandler
faulthandler.dump_traceback_later(30, exit=True)
start = pool.start_thread
def start_and_be_interrupted(*given):
    started = start(*given)
    os.kill(os.getpid(), signal.SIGUSR1)
    return started
said = []
signal.signal(signal.SIGUSR1, lambda *_: pool.run(said.append, 3))
pool.start_thread = start_and_be_interrupted
dml.set_num_threads(3)
pool.run(said.append, 3)
print(len(said))
"""
    result = run_python(code)
    assert result.stdout == "9\n", result.stderr


@pytest.mark.long
@LINUX
@pytest.mark.parametrize("kind", KINDS)
def test_a_dispatch_ends_before_the_exception_that_interrupts_it(kind: str) -> None:
    code = """
import random
dml.set_num_threads(4)
x = np.random.rand(2000, 2000).astype("f4")
out = np.empty_like(x)
row, long = x.reshape(1, -1), out.reshape(1, -1)
device = dml.Device("cpu")
def slicing(a):
    return dml.Slice1.infer(input_tensor=dml.TensorDesc.of(a), input_window_offsets=(0, 0),
                            input_window_sizes=a.shape, input_window_strides=(1, -1))
summing = dml.CumulativeSummation.infer(input_tensor=dml.TensorDesc.of(row), axis=1)
bounds = [device.compile(slicing(x)).bind(x, out=out), device.compile(summing).bind(row, out=long)]
for bound in bounds: bound.dispatch()
threading.Timer(100, lambda: os._exit(3)).start()
signal.signal(signal.SIGALRM, signal.default_int_handler)
caught = wrong = 0
while caught < 300:
    bound = random.choice(bounds)
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 4e-3))
        while True: bound.dispatch()
    except KeyboardInterrupt:
        out.fill(-1)
        for _ in range(3):
            time.sleep(0.0003)
            wrong += not (out == -1).all()
        caught += 1
print(caught, wrong)
os._exit(0)
"""
    result = run_python(code, ANYDML_TEAM=kind)
    assert result.stdout.split() == ["300", "0"], result


# Limits


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
    assert run_python(code, timeout=60, ANYDML_TEAM=kind).stdout == "done\n"


@LINUX
@pytest.mark.parametrize("kind", KINDS)
def test_where_no_thread_can_be_started_the_dispatch_runs_with_those_that_are_there(kind: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become a user of whom there is no process yet")
    code = """
import resource
x = np.random.rand(500, 4000).astype("f4")
dml.set_num_threads(3)
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


# Forks and the end of the process


@LINUX
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_has_a_team_of_its_own(kind: str) -> None:
    code = """
dml.set_num_threads(3)
x = np.random.rand(500, 4000).astype("f4")
out = np.empty_like(x)
desc = dml.Slice1.infer(input_tensor=dml.TensorDesc.of(x), input_window_offsets=(0, 0), input_window_sizes=x.shape,
                        input_window_strides=(1, -1))
bound = dml.Device("cpu").compile(desc).bind(x, out=out)
bound.dispatch()
stop = threading.Event()
def work():
    y = np.empty_like(x)
    mine = dml.Device("cpu").compile(desc).bind(x, out=y)
    while not stop.is_set():
        mine.dispatch()
others = [threading.Thread(target=work) for _ in range(2)]
for other in others: other.start()
for _ in range(30):
    child = os.fork()
    if not child:
        signal.alarm(20)
        out.fill(0)
        bound.dispatch()
        ok = np.array_equal(out, x[:, ::-1])
        tasks = len(os.listdir("/proc/self/task"))
        os._exit(0 if ok and tasks == 3 else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for other in others: other.join()
print("done")
"""
    result = run_python(code, ANYDML_TEAM=kind)
    assert result.stdout == "done\n", result.stderr


@pytest.mark.long
@LINUX
@pytest.mark.parametrize("kind", KINDS)
def test_the_process_ends_while_a_thread_dispatches(kind: str) -> None:
    code = """
import atexit
dml.set_num_threads(4)
x = np.random.rand(2000, 2000).astype("f4")
def work():
    while True:
        dml.slice1(x, (0, 0), x.shape, (1, -1))
for _ in range(3): threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
def last():
    assert np.array_equal(dml.slice1(x, (0, 0), x.shape, (1, -1)), x[:, ::-1])
    print("last")
atexit.register(last)
class Late:
    def __del__(self):
        dml.slice1(x, (0, 0), x.shape, (1, -1))
keep = Late()
"""
    for _ in range(5):
        result = run_python(code, ANYDML_TEAM=kind)
        assert (result.returncode, result.stdout) == (0, "last\n"), result


@LINUX
def test_the_team_sleeps_when_there_is_nothing_to_do() -> None:
    code = """
dml.set_num_threads(8)
x = np.random.rand(2000, 2000).astype("f4")
dml.slice1(x, (0, 0), x.shape, (1, -1))
time.sleep(0.05)
before = time.process_time()
time.sleep(0.5)
print(len(os.listdir("/proc/self/task")) >= 8, time.process_time() - before < 0.1)
"""  # the CPU time of all threads, whatever else the machine does
    assert run_python(code).stdout == "True True\n"


# What the number of threads comes from


def write_files(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
V1 = "30 23 0:26 {inside} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({}, None),
        ({"proc/mountinfo": V2, "proc/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        ({"proc/mountinfo": V2, "proc/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        (
            {
                "proc/mountinfo": V2,
                "proc/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
                "sys/fs/cgroup/a/cpu.max": "400000 100000\n",
            },
            4.0,
        ),
        (
            {
                "proc/mountinfo": V1.format(inside="/"),
                "proc/cgroup": "4:cpu,cpuacct:/jobs/7\n2:memory:/\n",
                "sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_period_us": "100000\n",
            },
            0.5,
        ),
        (
            {
                "proc/mountinfo": V1.format(inside="/docker/abc"),
                "proc/cgroup": "4:cpu,cpuacct:/docker/abc\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        ({"proc/mountinfo": "odd\n\n- \n", "proc/cgroup": "odd\n::\n"}, None),
        ({"proc/mountinfo": V2, "proc/cgroup": "0::/../..\n", "sys/fs/cgroup/cpu.max": "0 0\n"}, None),
    ],
)
def test_quotas_of_control_groups(files: dict[str, str], wanted: float | None, tmp_path: Path) -> None:
    write_files(tmp_path, files)
    assert read_quota(tmp_path / "proc", tmp_path) == wanted


def test_a_quota_bounds_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from anydml.engines import cores

    monkeypatch.setattr(cores, "read_quota", lambda: 0.2)
    assert cores.count_cores() == 1
    monkeypatch.setattr(cores, "read_quota", lambda: 1e9)
    assert cores.count_cores() == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(("given", "named"), [("native", team.NAME), ("python", "of Python's threads")])
def test_the_engines_name_their_threads(given: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from anydml.engines import list_engines

    monkeypatch.setenv("ANYDML_TEAM", given)
    if given == "native" and not team.is_available():
        pytest.skip("this system lacks what the native team needs")
    found = {info.name: info.devices for info in list_engines()}["cpu"][0]
    assert f", {dml.get_num_threads()} {named}" in found

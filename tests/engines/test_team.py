"""The threads behind a dispatch: any number of them, from any number of callers, and what that number comes from."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest

import anydml as dml
from anydml.engines.common.cores import read_quota
from anydml.engines.cpu.threads import team
from anydml.engines.cpu.threads.team_kernel import SLOTS
from threading_helpers import KINDS, LINUX, reversing, run_python, summing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.sampled(3)


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


@pytest.mark.skipif(not team.is_available(), reason="the native team needs Linux")
def test_threads_numbers_are_not_taken_for_jobs() -> None:
    """Numbers from 65,536 on have the bits of a free seat, and many threads' numbers lie where slots would go on."""
    before, own = dml.get_num_threads(), team.get_team()
    dml.set_num_threads(2)
    place, number = (256 + 128 * SLOTS) // 8 + 16, 1 << 16
    x = np.ones((300, 1000), np.int32)
    try:
        own._state[place] = number
        for _ in range(50):
            dml.Device("cpu").compile(reversing(x)).bind(x, out=np.empty_like(x)).dispatch()
        assert own._state[place] == number
    finally:
        own._state[place] = 0
        dml.set_num_threads(before)


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
    from anydml.engines.common import cores

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

"""What the host does for a dispatch: rows of the queue's table, launches that are kept, scratch memory, copies."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.core.device_memory import memories
from anydml.engines.webgpu import launch, memory, timestamps, transfer, why_missing

WHY = why_missing()
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[launch.Row]:
    """The rows that are made meanwhile."""
    made: list[launch.Row] = []
    first = launch.Row.__init__

    def init(self: launch.Row, *given: Any) -> None:
        made.append(self)
        first(self, *given)

    monkeypatch.setattr(launch.Row, "__init__", init)
    return made


def there(x: Any) -> dml.DeviceArray:
    found: dml.DeviceArray = dml.to_device(np.asarray(x, np.float32), "webgpu")
    return found


def opened() -> Any:
    """The memory of the device, which a test may be the first to use."""
    there([0])
    return memories["webgpu:0"]


def test_a_call_on_memory_that_is_known_binds_nothing(bound: list[launch.Row]) -> None:
    x, y, out = there([1, 2]), there([3, 4]), there([0, 0])
    for _ in range(2):
        dml.add1(x, y, out=out)
    made = len(bound)
    x.copy_from(np.array([5, 6], np.float32))
    dml.add1(x, y, out=out)
    assert out.tolist() == [8, 10]
    assert len(bound) == made
    for _ in range(2):
        assert dml.add1(x, y).tolist() == [8, 10]
    made = len(bound)
    for _ in range(3):  # a result's memory comes back, and the launch with it
        assert dml.add1(x, y).tolist() == [8, 10]
    assert len(bound) == made
    assert dml.add1(y, x, out=there([0, 0])).tolist() == [8, 10]


def test_memory_that_is_given_back_takes_its_launches_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bind groups outlive it; addresses do not come again, and what waited in the table has run."""
    monkeypatch.setattr(memory, "MOST_FREE", -(1 << 60))
    x, own = there([1, 2]), opened()
    results = [dml.add1(x, x) for _ in range(3)]
    last = results[-1]
    addresses = {one.address for one in results}
    del results[:2]
    gc.collect(0)
    assert dml.add1(x, x).address not in addresses
    assert last.tolist() == [2, 4]
    assert own.read(x.address, 4).view(np.float32) == 1


def test_a_graph_is_one_block_of_rows() -> None:
    graph = dml.Graph("webgpu")
    last: Any = graph.input("float32", (64,), "x")
    for _ in range(6):  # a running sum joins no other step
        last = dml.cumulative_summation(last, axis=0)
    compiled = graph.compile(last)
    x, out = there(np.ones(64)), there(np.zeros(64))
    run = compiled.bind(x, out=out)
    own = opened()
    own.wait()
    run.dispatch()
    waiting = len(own.queue.waiting)
    assert waiting >= 6
    blocks = [one for one in gc.get_objects() if type(one) is launch.Launch and len(one.rows) == waiting]
    assert blocks
    wanted = np.ones(64)
    for _ in range(6):
        wanted = np.cumsum(wanted)
    np.testing.assert_array_equal(out.numpy(), wanted.astype(np.float32))


def test_a_run_gets_the_memory_of_the_one_before(bound: list[launch.Row]) -> None:
    """Whatever the order in which results were let go of, so that nothing is bound anew."""
    graph = dml.Graph("webgpu")
    x = graph.input("float32", (64,), "x")
    compiled = graph.compile([dml.cumulative_summation(x, axis=0) * float(number) for number in range(1, 5)])
    given = there(np.arange(64))
    counts = []
    for order in ((0, 1, 2, 3), (3, 1, 0, 2), (2, 3, 1, 0), (1, 0, 3, 2)):
        results = list(compiled(given))
        counts.append(len(bound))
        for k in order:
            results[k] = None
    assert len(set(counts)) == 1


def test_buffers_of_the_latest_sizes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others that came free before go in their stead, so that a network after another makes none in each run."""
    monkeypatch.setattr(memory, "MOST_FREE", 0)
    own = opened()
    made: list[int] = []
    create = type(own)._create

    def creating(self: Any, *given: Any) -> Any:
        made.append(given[0])
        return create(self, *given)

    monkeypatch.setattr(type(own), "_create", creating)
    monkeypatch.setattr(own, "_most_used", 0)
    small = [own.reserve((1 << 20) + 256 * k) for k in range(6)]
    del small
    for _ in range(5):
        large = own.reserve(5 << 20)
        del large
    assert made.count(5 << 20) == 1
    assert own._free_bytes <= own._most_used - own._used


def gathering() -> tuple[Any, Any]:
    """Rows that are gathered and doubled, with work before and after; its input's rows are 10."""
    graph = dml.Graph("webgpu")
    x, i = graph.input("float32", (10, 4), "x"), graph.input("int32", (3, 1), "i")
    picked = dml.gather_nd(x, i)
    total: Any = dml.cumulative_summation(picked, axis=0)
    for _ in range(3):
        total = dml.cumulative_summation(total, axis=1)
    again = dml.gather_nd(dml.cumulative_summation(x, axis=0), i)
    rows = np.arange(40, dtype=np.float32).reshape(10, 4)
    return graph.compile([total, again]), dml.to_device(rows, "webgpu")


def test_what_follows_a_check_of_indices_is_under_way_while_the_host_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing that others see is written before."""
    order: list[str] = []
    own = opened()
    begin, end, submit = type(own).begin_read, type(own).end_read, type(own.queue).submit

    def asked(*given: Any) -> Any:
        read = begin(*given)
        order.append("asked")
        return read

    def waited(*given: Any) -> Any:
        order.append("waited")
        return end(*given)

    def told(self: Any, *given: Any) -> Any:
        order.append(f"{len(self.waiting)} rows")
        return submit(self, *given)

    monkeypatch.setattr(type(own), "begin_read", asked)
    monkeypatch.setattr(type(own), "end_read", waited)
    monkeypatch.setattr(type(own.queue), "submit", told)
    compiled, x = gathering()
    i = dml.to_device(np.array([[1], [3], [5]], np.int32), "webgpu")
    out = [there(np.full((3, 4), 7)) for _ in range(2)]
    own.wait()
    order.clear()
    compiled(x, i, out=out)
    at = order.index("waited")
    assert order.index("asked") < at
    assert int(order[at + 1].split()[0]) > 0, "nothing was dispatched meanwhile"
    wanted = np.asarray(x.numpy())[[1, 3, 5]].cumsum(0)
    for _ in range(3):
        wanted = wanted.cumsum(1)
    np.testing.assert_array_equal(out[0].numpy(), wanted)


def test_results_stay_where_an_index_is_outside() -> None:
    compiled, x = gathering()
    for bad in (10, -11):
        out = [there(np.full((3, 4), 7)) for _ in range(2)]
        wrong, right = (dml.to_device(np.array([[1], [n], [5]], np.int32), "webgpu") for n in (bad, 9))
        for _ in range(2):
            with pytest.raises(dml.IndexRangeError, match=rf"indices\[1\] = \({bad},\) is outside dimension 0 of"):
                compiled(x, wrong, out=out)
        assert all((one.numpy() == 7).all() for one in out)
        compiled(x, right, out=out)
        assert not any((one.numpy() == 7).all() for one in out)


def test_a_profile_has_the_devices_own_times() -> None:
    """Of dispatches in a row, with what the host does between them left out."""
    own = opened()
    stamps = own.timestamps()
    if stamps is None:
        pytest.skip("the device has no clock for passes")
    x, out = there(np.ones(1 << 18)), there(np.zeros(1 << 18))
    run = dml.Graph("webgpu")
    compiled = run.compile(dml.cumulative_summation(run.input("float32", (1 << 18,), "x"), axis=0)).bind(x, out=out)
    for count in (3, timestamps.MOST + 10):  # of one set of marks, and of two
        stamps.begin()
        marks = [stamps.mark()]
        for _ in range(3):
            compiled.dispatch()
            marks.append(stamps.mark())
        marks += [stamps.mark() for _ in range(count - 3)]
        stamps.end()
        times = [stamps.since_first(mark) for mark in marks]
        assert times[0] == 0
        assert times == sorted(times)
        assert 0 < times[3] < 60
    assert out.numpy()[-1] == 1 << 18


def test_a_buffer_that_is_only_read_is_bound_so() -> None:
    """Where a dispatch writes another part of it, it is not; the answers are the same."""
    random = np.random.default_rng(0)
    a, b = random.random((20, 24), np.float32), random.random((24, 28), np.float32)
    graph = dml.Graph("webgpu")
    first, second = graph.input("float32", a.shape, "a"), graph.input("float32", b.shape, "b")
    run = graph.compile(dml.cumulative_summation(dml.gemm(dml.cumulative_summation(first, axis=1), second), axis=1))
    found = run(dml.to_device(a, "webgpu"), dml.to_device(b, "webgpu")).numpy()
    np.testing.assert_allclose(found, (a.cumsum(1) @ b).cumsum(1), rtol=1e-5)
    alone = dml.gemm(dml.to_device(a, "webgpu"), dml.to_device(b, "webgpu")).numpy()
    np.testing.assert_allclose(alone, a @ b, rtol=1e-5)
    own = opened()
    ways = {reads for _, reads, *_ in own.gpu._pipelines if len(reads) == 3}
    assert (True, True, False) in ways
    assert (False, True, False) in ways


def test_launches_of_two_threads_share_scratch_memory() -> None:
    """A long running sum has some, between three kernels: they are appended as one."""
    count = 2**17
    given = [there(np.arange(count) % 7), there(np.arange(count) % 5)]
    bad: list[int] = []

    def run(k: int) -> None:
        wanted = np.cumsum(np.arange(count) % (7, 5)[k]).astype(np.float32)
        for _ in range(8):
            bad.extend([k] * (not np.array_equal(dml.cumulative_summation(given[k], axis=0).numpy(), wanted)))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not bad


def test_more_dispatches_than_the_table_has_rows() -> None:
    x, one = there([0, 0]), there([1, 1])
    for _ in range(1100):
        dml.add1(x, one, out=x)
    assert x.tolist() == [1100, 1100]


@pytest.mark.parametrize("size", [4, 65532, 65536, 65540, 5 * 65536, 1_000_000], ids=str)
def test_a_ring_of_staging_buffers_copies_any_size_both_ways(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By several threads; a second copy finds the ring as the first left it."""
    monkeypatch.setattr(transfer, "SMALL", 8192)
    monkeypatch.setattr(transfer, "get_num_threads", lambda: 3)
    own: Any = dml.Device("webgpu").engine._memory  # type: ignore[attr-defined]  # the engine's own
    ring = transfer.Transfers(own.gpu, own.queue, own._create, 65536)
    buffer, rng = own.reserve(size + 512), np.random.default_rng(size)
    _, block, _ = own.find(buffer.address)
    for offset in (0, 260):
        data = rng.integers(0, 256, size, np.uint8)
        with own.gpu.lock:
            ring.write(block.handle, offset, data)
            np.testing.assert_array_equal(ring.read(block.handle, offset, size), data)
    np.testing.assert_array_equal(own.read(buffer.address + 260, size), data)


@pytest.mark.parametrize(("at", "size"), [(0, 0), (1, 1), (3, 2), (2, 7), (5, 4_000_003), (0, 3_000_001)], ids=str)
def test_bytes_go_anywhere_and_those_beside_stay(at: int, size: int) -> None:
    own: Any = dml.Device("webgpu").engine._memory  # type: ignore[attr-defined]  # the engine's own
    rng = np.random.default_rng(size)
    wanted, data = (rng.integers(0, 256, n, np.uint8) for n in (size + 16, size))
    buffer = own.reserve(wanted.size)
    own.write(buffer.address, wanted)
    own.write(buffer.address + at, data)
    wanted[at : at + size] = data
    np.testing.assert_array_equal(own.read(buffer.address, wanted.size), wanted)
    np.testing.assert_array_equal(own.read(buffer.address + at, size), data)


def test_a_copy_comes_after_what_was_dispatched() -> None:
    x = there(np.ones(2**20))
    out = dml.add1(x, x)
    x.copy_from(np.zeros(2**20, np.float32))
    assert (out.numpy() == 2).all()
    assert not x.numpy().any()


_LARGE = """
import numpy as np, anydml as dml
x = dml.to_device(np.ones(2**23, np.float32), "webgpu")
x.copy_from(x.numpy())
"""


def test_a_process_ends_well_after_large_copies() -> None:
    """No mapping is on its way when Python has gone, which would be told of it."""
    for _ in range(2):
        subprocess.run([sys.executable, "-c", _LARGE], check=True, timeout=120)  # noqa: S603 - our own code


@pytest.mark.parametrize(
    "line", ["t0[0] = nonsense;", "t0[0] = 1u / 0u;", "t0[0] = bitcast<u32>(1.0 / 0.0);", "}", "\0"]
)
def test_a_text_that_naga_refuses_is_an_error(line: str) -> None:
    gpu: Any = dml.Device("webgpu").engine._memory.gpu  # type: ignore[attr-defined]  # the engine's own
    head = "@group(0) @binding(0) var<storage, read_write> t0: array<u32>;"
    text = f"{head} @compute @workgroup_size(64) fn main() {{ {line} }}"
    with pytest.raises(dml.MissingDependencyError, match=r"could not compile a kernel .* use Device\(\"cpu\"\)"):
        gpu.pipeline(text, (False,), 0, has_uniform=False)

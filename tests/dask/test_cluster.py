"""Dask arrays on a cluster of processes, and in a Zarr store: failures, workers that die, threads, kernels."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from paths import PATHS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

distributed = pytest.importorskip("distributed", reason="Dask is not installed: make test EXTRAS=dask")
zarr = pytest.importorskip("zarr", reason="Zarr is not installed: make test EXTRAS=dask")
import dask  # noqa: E402 - where it is
import dask.array as da  # noqa: E402 - it needs Dask

from anydml.dask import AnydmlPlugin  # noqa: E402 - it needs Dask

pytestmark = [
    pytest.mark.long,
    # What Dask's own processes and event loops leave open as they end is none of ours.
    pytest.mark.filterwarnings("default"),
]
SHAPE, CHUNKS = (64, 96), (16, 32)
X = np.random.default_rng(5).normal(size=SHAPE).astype("float32")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@contextlib.contextmanager
def without(names: Iterable[str]) -> Iterator[None]:
    """Whose processes have no such variables, which would come before those that Dask is told of."""
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="module")
def client(cache: Path) -> Iterator[Any]:
    """Two processes with a kernel cache of their own, which is empty."""
    paths = os.pathsep.join([str(Path(dml.__file__).parents[1]), *PATHS])
    environment = {"ANYDML_CACHE_DIR": str(cache), "PYTHONPATH": paths}
    with (
        without(environment),
        dask.config.set({"distributed.nanny.environ": environment, "distributed.scheduler.allowed-failures": 10}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as made,
    ):
        yield made


@pytest.fixture
def stored(tmp_path: Path) -> Any:
    """A real Zarr store."""
    store = zarr.create_array(str(tmp_path / "x.zarr"), shape=SHAPE, chunks=CHUNKS, dtype="float32")
    store[:] = X
    return da.from_zarr(str(tmp_path / "x.zarr"))


def test_from_a_store_to_a_store(client: Any, stored: Any, tmp_path: Path) -> None:
    calls: dict[str, Any] = {
        "sum": lambda x: dml.cumulative_summation(x, 0),
        "rows": lambda x: dml.gather(x, np.array([63, 0, -1, 17]), 0),
        "map": lambda x: dml.sigmoid(dml.add(x, 1.0)),
        "padding": lambda x: dml.padding(x, [1, 2], [3, 4], padding_mode="reflection"),
        "largest": lambda x: dml.reduce(x, "max", axes=[0]),
    }
    for name, call in calls.items():
        dml_result = call(stored).rechunk({0: -1}) if name == "rows" else call(stored)
        path = str(tmp_path / f"{name}.zarr")
        dml_result.rechunk(CHUNKS).to_zarr(path)
        assert zarr.open_array(path)[:].tobytes() == np.ascontiguousarray(call(X)).tobytes(), name


def test_each_kernel_is_compiled_once(client: Any, cache: Path) -> None:
    def listen(path: str) -> None:
        import logging

        log = logging.getLogger("anydml")
        log.setLevel(logging.INFO)
        log.addHandler(logging.FileHandler(f"{path}/{os.getpid()}.log"))

    def compute(k: int) -> float:
        return float(dml.erf(dml.atan(np.full((100, 100), 0.5, "float32")))[0, 0]) + 0 * k

    logs = cache.parent / f"logs-{os.getpid()}"
    logs.mkdir()
    client.run(listen, str(logs))
    assert len(set(client.gather([client.submit(compute, k, pure=False) for k in range(8)]))) == 1
    lines = [line for file in logs.iterdir() for line in file.read_text().splitlines() if line.startswith("compiled")]
    assert lines
    assert len({line.split("'")[1] for line in lines}) == len(lines)


def test_a_worker_dies_and_the_bytes_are_the_same(client: Any, stored: Any) -> None:
    def slowly(block: Any) -> Any:
        time.sleep(0.2)
        return block

    x = stored.map_blocks(slowly, meta=np.empty((0, 0), "float32"))
    future = client.compute(dml.cumulative_summation(dml.softmax1(x, axes=[0]), 0))
    wanted = dml.cumulative_summation(dml.softmax1(stored, axes=[0]), 0).compute(scheduler="synchronous")
    victim = next(iter(client.run(os.getpid).values()))
    time.sleep(0.5)
    os.kill(victim, signal.SIGKILL)
    assert future.result(timeout=240).tobytes() == wanted.tobytes()
    client.wait_for_workers(2, timeout=120)


def test_errors_come_back_whole_and_name_the_block(client: Any, stored: Any) -> None:
    indices = da.from_array(np.array([0, 1, 2, 3, 64, 0]), chunks=2)
    with pytest.raises(dml.IndexRangeError, match=r"indices\[4\] = 64 is outside the axis of size 64") as caught:
        dml.gather(stored, indices, 0).compute()
    assert "in block (2,) of the indices of gather" in caught.value.__notes__

    def shorten(block: Any, block_info: Any = None) -> Any:
        return block[:-1] if block_info[0]["chunk-location"] == (1, 2) else block

    odd = stored.map_blocks(shorten, dtype="float32", chunks=stored.chunks)
    with pytest.raises(ValueError, match="reshape") as wrong:
        dml.exp(odd).compute()
    assert any("in block (1, 2) of exp" in note for note in wrong.value.__notes__)


def test_threads_fit_the_cores_and_warm_kernels_are_there(client: Any) -> None:
    def warm() -> object:
        return dml.tanh(np.zeros((10, 10), "float32"))

    client.register_plugin(AnydmlPlugin(cores=4, warm=[warm]))
    assert set(client.run(dml.get_num_threads).values()) == {4}
    client.unregister_worker_plugin("anydml")
    client.register_plugin(AnydmlPlugin())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    assert sum(client.run(dml.get_num_threads).values()) <= max(cores, 2)
    client.unregister_worker_plugin("anydml")

"""python -m benchmarks.dask --gib 0.25 --workers 2 --rounds 3, --gib 4 --alone for memory, --gib 16 --growth for growth."""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import zarr
from dask.distributed import Client, LocalCluster, wait

from anydml.dask import AnydmlPlugin
from benchmarks.dask.rows import ALONE, ROWS, Alone, Row

COLUMNS = 4096
LINES = 1024
"""Of a block: 16 MiB."""


def fill(path: Path, gib: float) -> Any:
    """A store of float32, in blocks of 16 MiB along its first axis; one that is there already stays."""
    count = max(int(gib * 2**30 / 4 / COLUMNS), LINES)
    if not path.exists():
        store = zarr.create_array(
            str(path), shape=(count, COLUMNS), chunks=(LINES, COLUMNS), dtype="float32", compressors=None
        )
        draw = np.random.default_rng(1)
        for start in range(0, count, LINES):
            store[start : start + LINES] = draw.random((min(LINES, count - start), COLUMNS), "float32")
    return da.from_zarr(str(path))


@contextlib.contextmanager
def workers(count: int, memory: str, cores: int | None = None) -> Iterator[Any]:
    """A client of a cluster of processes, each of one thread, on so many cores; or they share all."""
    with (
        LocalCluster(
            n_workers=count, threads_per_worker=1, processes=True, memory_limit=memory, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        client.register_plugin(AnydmlPlugin(cores))
        yield client


def touch(block: Any) -> Any:
    """One element of a block, so that results are computed and go nowhere."""
    return np.asarray(block).reshape(-1)[:1].reshape((1,) * block.ndim).copy()


def cpu(client: Any) -> float:
    """Seconds of all workers."""
    return float(sum(client.run(time.process_time).values()))


def measure(client: Any, made: Any) -> tuple[float, float]:
    """CPU seconds of all workers, and wall."""
    lazy = made.map_blocks(touch, chunks=tuple((1,) * count for count in made.numblocks), dtype=made.dtype)
    before, start = cpu(client), time.perf_counter()
    lazy.compute()
    return cpu(client) - before, time.perf_counter() - start


def peak() -> int:
    """The most bytes that a worker has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def compare(client: Any, x: Any, row: Row, rounds: int) -> dict[str, float]:
    """The best CPU seconds and the best wall of both, in turns."""
    mine, other = [], []
    measure(client, row.mine(x[: 2 * LINES]))  # kernels are compiled once
    for _ in range(rounds):
        mine.append(measure(client, row.mine(x)))
        other.append(measure(client, row.other(x)))
    cpu_s, wall_s = (min(column) for column in zip(*mine, strict=True))
    other_cpu, other_wall = (min(column) for column in zip(*other, strict=True))
    return {"cpu": cpu_s, "other_cpu": other_cpu, "wall": wall_s, "other_wall": other_wall}


def show_speed(x: Any, rows: list[Row], given: argparse.Namespace) -> list[dict[str, Any]]:
    """Each row twice: from blocks that lie in the workers' memory, and read from the store, which costs both the same."""
    found = []
    print(f"{'':26} {'source':8} {'CPU s':>8} {'Dask':>8} {'ratio':>6} {'at most':>8} {'wall s':>8} {'Dask':>8}")
    with workers(given.workers, given.memory) as client:
        held = x.persist()
        wait(held)
        for row in rows:
            for source, array in (("memory", held), ("store", x)):
                one = compare(client, array, row, given.rounds)
                found.append({"name": row.name, "source": source, "most": row.most, **one})
                seconds = f"{one['cpu']:8.2f} {one['other_cpu']:8.2f} {one['cpu'] / one['other_cpu']:6.2f}"
                walls = f"{one['wall']:8.2f} {one['other_wall']:8.2f}"
                print(f"{row.name:26} {source:8} {seconds} {row.most:8.2f} {walls}", flush=True)
    return found


def show_memory(x: Any, rows: Sequence[Row | Alone], given: argparse.Namespace) -> list[dict[str, Any]]:
    """Each row alone, read from the store by workers of its own: the most memory of one, and whether one was restarted."""
    found = []
    print(f"{'':26} {'CPU s':>8} {'wall s':>8} {'peak MiB':>9} {'restarts':>9}")
    for row in rows:
        with workers(given.workers, given.memory) as client:
            before = client.run(peak)
            seconds, wall = measure(client, row.mine(x))
            after = client.run(peak)
            restarts = len(set(after) - set(before))
        one: dict[str, Any] = {
            "name": row.name,
            "cpu": seconds,
            "wall": wall,
            "peak": max(after.values()),
            "restarts": restarts,
        }
        found.append(one)
        print(f"{row.name:26} {seconds:8.2f} {wall:8.2f} {one['peak'] / 2**20:9.0f} {restarts:9}", flush=True)
    return found


def unstored(gib: float) -> Any:
    """An array that no store has: its blocks are made by the tasks that need them."""
    lines = max(int(gib * 2**30 / 4 / COLUMNS), LINES)
    return da.full((lines, COLUMNS), 0.5, chunks=(LINES, COLUMNS), dtype="float32")


def show_growth(rows: Sequence[Row | Alone], given: argparse.Namespace) -> list[dict[str, Any]]:
    """Each row for a sixteenth of the size, a quarter, a half and the whole, each by workers of its own."""
    found = []
    print(f"{'':26} {'GiB':>6} {'CPU s':>8} {'s/GiB':>8} {'wall s':>8} {'peak MiB':>9}")
    for row in rows:
        for gib in (given.gib / 16, given.gib / 4, given.gib / 2, given.gib):
            with workers(given.workers, given.memory) as client:
                measure(client, row.mine(unstored(0.25)))  # all workers have their kernels
                seconds, wall = measure(client, row.mine(unstored(gib)))
                most = max(client.run(peak).values())
            found.append({"name": row.name, "gib": gib, "cpu": seconds, "wall": wall, "peak": most})
            cost = f"{seconds:8.2f} {seconds / gib:8.2f} {wall:8.2f}"
            print(f"{row.name:26} {gib:6.2f} {cost} {most / 2**20:9.0f}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=0.25, help="size of the array")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="1GiB", help="of a worker")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help="once each and without Dask's: memory, of large arrays")
    parser.add_argument("--growth", action="store_true", help="up to this size, of arrays that are made lazily")
    parser.add_argument("--only", default="", help="rows whose names begin with this")
    parser.add_argument("--store", default="", help="a folder for the array, which stays there")
    parser.add_argument("--json", default="", help="a file for the figures")
    given = parser.parse_args()
    rows = [row for row in ROWS if row.name.startswith(given.only)]
    all_rows: list[Row | Alone] = [*rows, *(row for row in ALONE if row.name.startswith(given.only))]
    folder = Path(given.store or tempfile.mkdtemp())
    try:
        if given.growth:
            found = show_growth(all_rows, given)
        else:
            x = fill(folder / f"{given.gib}.zarr", given.gib)
            print(f"{x.nbytes / 2**30:.2f} GiB in {x.npartitions} blocks, {given.workers} workers of {given.memory}")
            found = show_memory(x, all_rows, given) if given.alone else show_speed(x, rows, given)
    finally:
        if not given.store:
            shutil.rmtree(folder)
    if given.json:
        Path(given.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

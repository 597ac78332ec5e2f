"""python -m benchmarks.dask --gib 0.25 --workers 2 --rounds 3"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import zarr
from dask.distributed import Client, LocalCluster

from anydml.dask import AnydmlPlugin
from benchmarks.dask.rows import ROWS, Row

COLUMNS = 4096
LINES = 1024
"""Of a block: 16 MiB."""


def fill(path: Path, gib: float) -> Any:
    """A store of float32, in blocks of 16 MiB along its first axis."""
    count = max(int(gib * 2**30 / 4 / COLUMNS), LINES)
    store = zarr.create_array(
        str(path), shape=(count, COLUMNS), chunks=(LINES, COLUMNS), dtype="float32", compressors=None
    )
    draw = np.random.default_rng(1)
    for start in range(0, count, LINES):
        store[start : start + LINES] = draw.random((min(LINES, count - start), COLUMNS), "float32")
    return da.from_zarr(str(path))


def touch(block: Any) -> Any:
    """One element of a block, so that results are computed and go nowhere."""
    return np.asarray(block).reshape(-1)[:1].reshape((1,) * block.ndim).copy()


def cpu(client: Any) -> float:
    return float(sum(client.run(time.process_time).values()))


def measure(client: Any, made: Any) -> tuple[float, float]:
    """CPU seconds of all workers, and wall."""
    lazy = made.map_blocks(touch, chunks=tuple((1,) * count for count in made.numblocks), dtype=made.dtype)
    before, start = cpu(client), time.perf_counter()
    lazy.compute()
    return cpu(client) - before, time.perf_counter() - start


def peak(dask_worker: Any) -> int:
    """The most bytes that a worker has had."""
    import resource

    del dask_worker
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def compare(client: Any, x: Any, row: Row, rounds: int) -> dict[str, Any]:
    mine, other = [], []
    measure(client, row.mine(x[: 2 * LINES]))  # kernels are compiled once
    for _ in range(rounds):
        mine.append(measure(client, row.mine(x)))
        other.append(measure(client, row.other(x)))
    ratios = [a[0] / b[0] for a, b in zip(mine, other, strict=True)]
    return {
        "name": row.name,
        "most": row.most,
        "cpu": min(one[0] for one in mine),
        "other_cpu": min(one[0] for one in other),
        "wall": min(one[1] for one in mine),
        "other_wall": min(one[1] for one in other),
        "ratio": statistics.median(ratios),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=0.25, help="size of the array")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="1GiB", help="of a worker")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="rows whose names contain this")
    parser.add_argument("--json", default="", help="a file for the figures")
    given = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        x = fill(Path(folder) / "x.zarr", given.gib)
        with (
            LocalCluster(
                n_workers=given.workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=given.memory,
                dashboard_address=":0",
            ) as cluster,
            Client(cluster) as client,
        ):
            client.register_plugin(AnydmlPlugin())
            print(f"{x.nbytes / 2**30:.2f} GiB in {x.npartitions} blocks, {given.workers} workers of {given.memory}")
            print(f"{'':24} {'CPU s':>8} {'Dask':>8} {'ratio':>6} {'at most':>8} {'wall s':>8} {'Dask':>8}")
            for row in ROWS:
                if given.only in row.name:
                    one = compare(client, x, row, given.rounds)
                    found.append(one)
                    print(
                        f"{one['name']:24} {one['cpu']:8.2f} {one['other_cpu']:8.2f} {one['ratio']:6.2f}"
                        f" {one['most']:8.2f} {one['wall']:8.2f} {one['other_wall']:8.2f}",
                        flush=True,
                    )
            peaks = client.run(peak)
            print("peak of a worker:", f"{max(peaks.values()) / 2**20:.0f} MiB")
    if given.json:
        Path(given.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

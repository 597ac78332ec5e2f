"""python -m benchmarks.dask.speedup --workers 1,2,4,8: how much faster several workers are, where arithmetic is the work.

Blocks lie in the workers' memory, as many for each worker; a worker is a process that has one core to work on. Ideal is
as many times the speed of the first count as there are more workers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
from dask.distributed import wait

import anydml as dml
from benchmarks.dask.__main__ import measure, workers

BLOCKS = 32
"""A multiple of every count of workers; each has 16 MiB."""


def _matrices() -> Any:
    return da.random.default_rng(1).random((BLOCKS * 4096, 1024), dtype="float32", chunks=(4096, 1024))


def _pictures() -> Any:
    return da.random.default_rng(2).random((BLOCKS * 16, 64, 64, 64), dtype="float32", chunks=(16, 64, 64, 64))


def _drawn(*sizes: int) -> Any:
    return np.random.default_rng(3).random(sizes, dtype="float32") - np.float32(0.5)


def _long(x: Any) -> Any:
    for _ in range(8):
        x = dml.gelu(dml.sin(x))
    return x


WORK: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "gemm, 4096 rows by 1024 x 1024": (_matrices, lambda x: dml.gemm(x, _drawn(1024, 1024))),
    "convolution, 64 to 64 of 64 x 64": (
        _pictures,
        lambda x: dml.convolution(x, _drawn(64, 64, 3, 3), start_padding=(1, 1), end_padding=(1, 1)),
    ),
    "map, 8 times gelu of sin": (_matrices, _long),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default="1,2,4,8", help="counts of workers, with commas")
    parser.add_argument("--memory", default="4GiB", help="of a worker")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    counts = [int(count) for count in given.workers.split(",")]
    walls: dict[str, dict[int, float]] = {name: {} for name in WORK}
    for count in counts:
        with workers(count, given.memory, cores=1) as client:
            for name, (make, work) in WORK.items():
                held = make().persist()
                wait(held)
                measure(client, work(held))  # kernels are compiled once
                walls[name][count] = min(measure(client, work(held))[1] for _ in range(given.rounds))
    print(f"{'':34} {'workers':>8} {'wall s':>8} {'times':>6} {'of ideal':>9}")
    for name, by_count in walls.items():
        for count, wall in by_count.items():
            times = by_count[counts[0]] / wall
            print(f"{name:34} {count:8} {wall:8.3f} {times:6.2f} {times * counts[0] / count:9.2f}")


if __name__ == "__main__":
    main()

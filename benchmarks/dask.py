"""Measures functions on dask arrays against plain Dask and NumPy: `python -m benchmarks.dask --gib 4`.

Both run on one cluster of processes, in turns, on the same blocks. Of each the workers' CPU seconds and the time until
it is done are kept, the best of some rounds. Results stay with the workers: of each block one element comes back.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import anydml as dml

COLUMNS = 4096
ROWS_GATHERED, POINTS = 16_384, 200_000

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Case:
    """An operation on an array of rows, of which some make a block."""

    name: str
    ours: Function
    theirs: Function
    most: float
    """Of the peer's CPU seconds, the share that is to be needed at most."""


@dataclass(frozen=True)
class Measured:
    """The best of some rounds, in seconds."""

    name: str
    most: float
    cpu: float
    peer_cpu: float
    wall: float
    peer_wall: float

    @property
    def share(self) -> float:
        """Of the peer's CPU seconds."""
        return self.cpu / self.peer_cpu


def cases(count: int) -> Iterator[Case]:
    """The operations, for an array of so many rows."""
    chance = np.random.default_rng(7)
    chosen = chance.integers(0, count, min(ROWS_GATHERED, count))
    points = np.stack([chance.integers(0, n, POINTS) for n in (count, COLUMNS)], axis=1)
    part = (count // 8, count // 2)
    scan = functools.partial(dml.cumulative_summation, axis=0)
    yield Case("running sum", scan, _sums, 0.5)
    yield Case("running sum, exclusive", functools.partial(scan, has_exclusive_sum=True), _sums_before, 0.5)
    yield Case("running sum, decreasing", functools.partial(scan, axis_direction="decreasing"), _sums_back, 0.5)
    yield Case("rows gathered", lambda x: dml.gather(x, chosen), lambda x: x[chosen], 0.5)
    yield Case("points", lambda x: dml.gather_nd(x, points), lambda x: x.vindex[points[:, 0], points[:, 1]], 1.0)
    yield Case("slice", lambda x: dml.slice1(x, (part[0], 0), (part[1], COLUMNS), (2, 1)),
               lambda x: x[part[0] : sum(part) : 2], 1.0)  # fmt: skip
    yield Case("hard sigmoid", dml.hard_sigmoid, lambda x: (x * np.float32(0.2) + np.float32(0.5)).clip(0, 1), 0.6)
    yield Case("softmax", lambda x: dml.softmax1(x, axes=[0]), _softmax, 0.5)


def _sums(x: Any) -> Any:
    return x.cumsum(axis=0, dtype="float64").astype("float32")


def _sums_before(x: Any) -> Any:
    return (x.cumsum(axis=0, dtype="float64") - x).astype("float32")


def _sums_back(x: Any) -> Any:
    return x[::-1].cumsum(axis=0, dtype="float64")[::-1].astype("float32")


def _softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(axis=0, keepdims=True))
    return powers / powers.sum(axis=0, keepdims=True)


def array_of(gib: float, mib: int, folder: Path | None, seed: int = 3) -> Any:
    """Rows in blocks of some size: in the workers' memory, or in a Zarr store where there is a folder."""
    count, rows = (int(size) // (4 * COLUMNS) for size in (gib * 2**30, mib * 2**20))
    x = da.random.default_rng(seed).standard_normal((count, COLUMNS), dtype="float32", chunks=(rows, COLUMNS))
    if folder is None:
        return x.persist()
    store = folder / f"{gib:g}.zarr"
    x.to_zarr(str(store), compute=True, zarr_array_kwargs={"compressors": None})
    return da.from_zarr(str(store))


def _first(block: Any) -> Any:
    return block.reshape(-1)[:1].reshape((1,) * block.ndim)


def run(client: Client, y: Any) -> tuple[float, float]:
    """The workers' CPU seconds, and the time, that a lazy array takes."""
    kept = y.map_blocks(_first, chunks=tuple((1,) * n for n in y.numblocks), dtype=y.dtype, meta=np.empty(0, y.dtype))
    before, start = sum(client.run(time.process_time).values()), time.perf_counter()
    kept.compute()
    wall = time.perf_counter() - start
    return sum(client.run(time.process_time).values()) - before, wall


def measure(client: Client, case: Case, x: Any, rounds: int) -> Measured:
    """Both in turns; the first round, which compiles kernels, does not count."""
    best = [(math.inf, math.inf)] * 2
    for number in range(rounds + 1):
        for i, function in enumerate((case.ours, case.theirs)):
            found = run(client, function(x))
            if number:
                best[i] = (min(best[i][0], found[0]), min(best[i][1], found[1]))
    (cpu, wall), (peer_cpu, peer_wall) = best
    return Measured(case.name, case.most, cpu, peer_cpu, wall, peer_wall)


def check(case: Case, x: Any) -> None:
    """The answers agree, on an array that fits memory."""
    ours, theirs = dask.compute(case.ours(x), case.theirs(x))
    np.testing.assert_allclose(ours, theirs, 1e-4, 1e-4, err_msg=case.name)


def main(arguments: list[str] | None = None) -> int:
    """Measure what is asked for; 1 where a share is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dask", description=__doc__)
    parser.add_argument("--gib", type=float, nargs="+", default=[1.0], help="the size of the array, or several (1)")
    parser.add_argument("--block", type=int, default=64, metavar="MIB", help="the size of a block (64)")
    parser.add_argument("--workers", type=int, default=2, help="processes, of one thread each (2)")
    parser.add_argument("--memory", default="4GiB", help="of each worker (4GiB)")
    parser.add_argument(
        "--zarr", action="store_true", help="read blocks from a Zarr store, for what does not fit memory"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count (3)")
    parser.add_argument("--only", default="", help="operations whose name has this in it")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args(arguments)
    os.environ["ANYDML_NUM_THREADS"] = "1"
    folder = Path(tempfile.mkdtemp(prefix="anydml-benchmark-")) if options.zarr else None
    found: list[dict[str, Any]] = []
    try:
        with (
            dask.config.set({"distributed.worker.profile.enabled": False}),
            LocalCluster(n_workers=options.workers, threads_per_worker=1, memory_limit=options.memory,
                         dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):  # fmt: skip
            small = array_of(options.block / 256, max(options.block // 16, 1), None)
            for case in cases(small.shape[0]):
                if options.only in case.name:
                    check(case, small)
            print(f"{'GiB':>5}  {'operation':26}{'CPU s':>8}{'peer':>8}{'share':>7}{'wall s':>8}{'peer':>8}")
            for gib in options.gib:
                x = array_of(gib, options.block, folder)
                for case in cases(x.shape[0]):
                    if options.only in case.name:
                        got = measure(client, case, x, options.rounds)
                        found.append({"gib": gib, **asdict(got), "share": got.share})
                        mark = "" if got.share <= got.most else f"  more than {got.most}"
                        print(f"{gib:5g}  {got.name:26}{got.cpu:8.2f}{got.peer_cpu:8.2f}{got.share:7.2f}"
                              f"{got.wall:8.2f}{got.peer_wall:8.2f}{mark}", flush=True)  # fmt: skip
                        if options.json:
                            options.json.write_text(json.dumps(found, indent=1))
    finally:
        if folder is not None:
            shutil.rmtree(folder)
    return int(any(one["share"] > one["most"] for one in found))


if __name__ == "__main__":
    raise SystemExit(main())

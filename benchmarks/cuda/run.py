"""Goes through the rows on the device."""

from __future__ import annotations

import contextlib
import importlib.metadata
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch

import anydml as dml
from benchmarks.cuda.clock import Clock, remark, time_limit
from benchmarks.cuda.contestants import PEERS as CONTESTANTS
from benchmarks.cuda.contestants import warm_up
from benchmarks.cuda.measure import Bench, brief, measure
from benchmarks.cuda.pool import Pool
from benchmarks.cuda.rows import QUICK_SIDE, SIDE, rows
from benchmarks.results import DeviceLostError, Result, result

PEERS = tuple(CONTESTANTS)
CACHE = 60 * 2**20
WARM_UP_SECONDS = 25.0
ALLOWANCES = {"torch": 60.0, "compile": 30.0, "cupy": 15.0, "jax": 15.0}
QUICK_ALLOWANCES = {"torch": 20.0, "compile": 10.0, "cupy": 5.0, "jax": 8.0}


def machine(place: str = "cuda") -> dict[str, Any]:
    """What the figures depend on."""
    versions = {"torch": str(torch.__version__)}
    for name in ("triton", "cupy", "cupy-cuda12x", "cupy-cuda13x", "jax"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name.partition("-")[0]] = importlib.metadata.version(name)
    return {"device": torch.cuda.get_device_name() if place == "cuda" else place, "versions": versions}


def run(
    engine: str,
    quick: bool,
    growth: bool,
    only: str,
    peers: Sequence[str],
    seconds: float | None = None,
    place: str = "cuda",
    side: int | None = None,
) -> Iterator[Result]:
    """Every row, as it is done; after so many seconds the rest are left out."""
    start = time.perf_counter()
    cache = CACHE
    if place == "cuda":
        cache = max(CACHE, getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "L2_cache_size", 0))
    bench = Bench(
        dml.Device(engine), Pool(place), Clock(place), tuple(name for name in PEERS if name in peers), cache,
        rounds=5 if quick else 10, allowances=dict(QUICK_ALLOWANCES if quick else ALLOWANCES),
    )  # fmt: skip
    _warm_up(bench, place, start)
    side = side or (QUICK_SIDE if quick else SIDE)
    for row in rows(bench.pool, side, quick=quick, growth=growth):
        if only not in row.name:
            continue
        began = time.perf_counter()
        if seconds is not None and began - start > seconds:
            remark(f"{row.name}: left out, {seconds:.0f} s are over")
            continue
        remark(f"{began - start:6.1f} s  {row.name}")
        try:
            found = measure(row, bench)
        except Exception as error:  # noqa: BLE001 - the other rows are still to come
            remark(f"  the row failed: {brief(error)}")
            found = result(row, {}, error=brief(error))
        found["elapsed_seconds"] = time.perf_counter() - began
        yield found
        try:
            _free(place)
        except Exception as error:
            raise DeviceLostError(f"the device no longer answers after {row.name!r}: {brief(error)}") from error
    remark(f"{time.perf_counter() - start:6.1f} s  in all")


def _warm_up(bench: Bench, place: str, start: float) -> None:
    for name in bench.peers:
        try:
            with time_limit(WARM_UP_SECONDS):
                warm_up(name, place)
                bench.clock.synchronize()
        except Exception as error:  # noqa: BLE001 - absent, or broken on this machine
            bench.allowances[name] = 0
            remark(f"{name} is left out of every row: {brief(error)}")
        else:
            remark(f"{time.perf_counter() - start:6.1f} s  {name} is ready")


def _free(place: str) -> None:
    if place == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    if "cupy" in sys.modules and hasattr(sys.modules["cupy"], "get_default_memory_pool"):
        sys.modules["cupy"].get_default_memory_pool().free_all_blocks()

"""Runs the rows of the cpu engine: answers are checked first, then contestants are timed round by round."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.cpu import contestants
from benchmarks.cpu.choosing import choosing
from benchmarks.cpu.products import products
from benchmarks.cpu.rows import CpuRow, rows
from benchmarks.cpu.windows import windows
from benchmarks.results import Result, result

PEERS = ("numpy", "torch", "onnxruntime")
PAUSE = 0.02
"""Seconds between contestants: the threads of some spin for a while after their work, on the cores of the next."""


def run(engine: str, threads: int, quick: bool, growth: bool, only: str, peers: Collection[str]) -> Iterator[Result]:
    """Every row, as it is done."""
    dml.set_num_threads(threads)
    contestants.limit_numpy(threads)
    device = dml.Device(engine)
    rng = np.random.default_rng(0)
    others = (make for rows_of in (products, windows, choosing) for make in rows_of(rng, quick, only=only))
    for make in (*rows(quick, growth), *others):
        row = make()
        if only in row.name and (contestants.has_onnx() or not row.is_model):
            yield measure(row, device, threads, 3 if quick else 7, peers)
        del row


def measure(row: CpuRow, device: dml.Device, threads: int, rounds: int, peers: Collection[str]) -> Result:
    """Check that the answers agree, then time them, one after the other in each round."""
    entered: dict[str, Any] = {
        "onnxruntime": contestants.onnx_runtime(row, threads) if "onnxruntime" in peers else None
    }
    if row.is_model:
        entered = {
            "anydml": contestants.ours_as_model(row, device),
            "single": contestants.called(row, device),
            **entered,
        }
    else:
        entered = {
            "anydml": contestants.ours(row, device),
            "single": contestants.single(row, device),
            "numpy": contestants.numpy(row),
            "torch": contestants.torch(row, threads) if "torch" in peers else None,
            **entered,
        }
    asked = ("anydml", "single", *peers)
    entered = {name: entry for name, entry in entered.items() if entry is not None and name in asked}
    wanted = None
    for name, (compute, answer) in entered.items():
        compute()
        got = np.asarray(answer()).reshape(row.output.sizes)
        wanted = got if wanted is None else wanted
        if row.exact:
            np.testing.assert_array_equal(got, wanted, err_msg=f"{row.name}: {name}")
        else:  # peers that add up in the tensor's own type are right for small sums only
            small = np.abs(wanted) < (500 if wanted.dtype == np.float16 else 10_000)
            np.testing.assert_allclose(
                got[small].astype("f8"),
                wanted[small].astype("f8"),
                rtol=row.rtol,
                atol=row.atol,
                err_msg=f"{row.name}: {name}",
            )
    timed: dict[str, Callable[[], object]] = {
        name: compute for name, (compute, _) in entered.items() if row.family != "compile" or name == "anydml"
    }
    if row.flops:
        timed["peak"] = contestants.peak_limit(row.flops, threads)
    elif not row.is_call:
        timed["copy"] = contestants.copy_limit((row.lines or row.bytes) // 2, threads)
    seconds = dict.fromkeys(timed, float("inf"))
    repeat = {"tiny": 2000, "compile": 1}.get(row.family) or max(
        1, min(50, 2**22 // max(row.lines, row.bytes, row.flops // 8))
    )
    for _ in range(rounds):
        for name, compute in timed.items():
            time.sleep(PAUSE)
            start = time.perf_counter()
            for _ in range(repeat):
                compute()
            seconds[name] = min(seconds[name], (time.perf_counter() - start) / repeat)
    return result(row, seconds)

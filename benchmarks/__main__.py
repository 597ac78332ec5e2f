"""Runs the rows: answers are checked first, then contestants are timed round by round."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from benchmarks import contestants
from benchmarks.chart import draw
from benchmarks.rows import Row, rows

if TYPE_CHECKING:
    from collections.abc import Callable

PAUSE = 0.02
"""Seconds between contestants: the threads of some spin for a while after their work, on the cores of the next."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--engine", default="cpu", help="the engine to measure (cpu)")
    parser.add_argument("--threads", type=int, default=2, help="threads for every contestant that can thread (2)")
    parser.add_argument("--quick", action="store_true", help="smaller arrays and fewer rounds: within a minute")
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--svg", type=Path, help="draw a chart here")
    options = parser.parse_args()
    dml.set_num_threads(options.threads)
    device = dml.Device(options.engine)
    results = []
    print(f"{'row':46} {'ours':>9} {'numpy':>9} {'torch':>9} {'onnxrt':>9} {'copy':>9} {'vs peer':>8} {'of copy':>8}")
    for make in rows(options.quick):
        row = make()
        if options.only in row.name:
            results.append(measure(row, device, options.threads, 3 if options.quick else 7))
            show(results[-1])
        del row
    if options.json:
        options.json.write_text(
            json.dumps({"engine": options.engine, "threads": options.threads, "rows": results}, indent=1)
        )
    if options.svg:
        options.svg.write_text(draw(results))
    return 0


def measure(row: Row, device: dml.Device, threads: int, rounds: int) -> dict[str, Any]:
    """Check that the answers agree, then time them, one after the other in each round."""
    entered: dict[str, Any] = {
        "anydml": contestants.ours(row, device),
        "numpy": contestants.numpy(row),
        "torch": contestants.torch(row, threads),
        "onnxruntime": contestants.onnx_runtime(row, threads),
    }
    entered = {name: entry for name, entry in entered.items() if entry is not None}
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
                got[small].astype("f8"), wanted[small].astype("f8"), rtol=2e-2, err_msg=f"{row.name}: {name}"
            )
    timed: dict[str, Callable[[], object]] = {name: compute for name, (compute, _) in entered.items()}
    limit = (row.lines or row.bytes) // 2
    if row.family != "tiny":
        timed["copy"] = contestants.copy_limit(limit, threads)
    seconds = dict.fromkeys(timed, float("inf"))
    repeat = 2000 if row.family == "tiny" else max(1, min(50, 2**22 // max(row.bytes, 1)))
    for _ in range(rounds):
        for name, compute in timed.items():
            time.sleep(PAUSE)
            start = time.perf_counter()
            for _ in range(repeat):
                compute()
            seconds[name] = min(seconds[name], (time.perf_counter() - start) / repeat)
    peers = [t for name, t in seconds.items() if name not in ("anydml", "copy")]
    return {
        "name": row.name,
        "bytes": row.bytes,
        "lines": row.lines or row.bytes,
        "seconds": seconds,
        "share_of_copy": seconds["copy"] / seconds["anydml"] if "copy" in seconds else None,
        "vs_best_peer": min(peers) / seconds["anydml"],
        "goal": {"vs_best_peer": row.goal, "share_of_copy": row.share},
    }


def show(result: dict[str, Any]) -> None:
    """One line."""
    unit, factor = (" us", 1e6) if result["seconds"]["anydml"] < 1e-4 else (" ms", 1e3)
    cells = []
    for name in ("anydml", "numpy", "torch", "onnxruntime", "copy"):
        t = result["seconds"].get(name)
        cells.append(f"{t * factor:6.2f}{unit}" if t is not None else f"{'-':>9}")
    share = result["share_of_copy"]
    flags = "".join(
        mark
        for mark, value, goal in (
            ("<", result["vs_best_peer"], result["goal"]["vs_best_peer"]),
            ("c", share or 9, result["goal"]["share_of_copy"]),
        )
        if value < goal
    )
    text = f"{share:8.2f}" if share is not None else f"{'-':>8}"
    print(f"{result['name']:46} {' '.join(cells)} {result['vs_best_peer']:8.2f} {text} {flags}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

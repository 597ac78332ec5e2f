"""Language models of made-up weights against ONNX Runtime: `python -m benchmarks.language`, once more for each thread count.

BERT-base's encoder and a step of GPT-2's decoder, exported from PyTorch's layers. One run, the two interleaved round by
round; of each the median, and the largest difference between their answers.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime

import anydml as dml
import anydml.onnx
from benchmarks import networks

MODELS: dict[str, Any] = {
    "BERT-base, 1 x 128": ("encoder", lambda: _tokens(1, 128)),
    "BERT-base, 8 x 512": ("encoder", lambda: _tokens(8, 512)),
    "GPT-2 step, 128 before": ("decoder", lambda: _step(128)),
    "GPT-2 step, 1000 before": ("decoder", lambda: _step(1000)),
}

REST = 0.1
"""Seconds before each run: ONNX Runtime's threads spin for a while after theirs, on cores that the next would use."""


def _tokens(batch: int, count: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {"ids": rng.integers(0, 1000, (batch, count)), "mask": np.ones((batch, count), np.int64)}


def _step(before: int) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    return {"ids": rng.integers(0, 1000, (1, 1)), "past": rng.standard_normal((12, 2, 1, 12, before, 64)).astype("f")}


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each model."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.language", description=__doc__)
    parser.add_argument("--threads", type=int, default=2, help="of both contestants (2)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--layers", type=int, default=12, help="of each network (12)")
    parser.add_argument("--only", default="", help="models whose name has this in it")
    options = parser.parse_args(arguments)
    dml.set_num_threads(options.threads)
    chosen = {name: row for name, row in MODELS.items() if options.only in name}
    made = {kind: getattr(networks, kind)(layers=options.layers) for kind in {row[0] for row in chosen.values()}}
    for name, (kind, feeds_of) in chosen.items():
        print(name, *measure(made[kind], _cut(feeds_of(), options.layers), options), sep=" | ", flush=True)
    return 0


def _cut(feeds: dict[str, Any], layers: int) -> dict[str, Any]:
    return {key: value[:layers] if key == "past" else value for key, value in feeds.items()}


def measure(model: bytes, feeds: dict[str, Any], options: argparse.Namespace) -> list[str]:
    """The cells of a row: times, how far ahead ours is, its first run, and how far apart the answers are."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    session = onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
    start = time.perf_counter()
    ours = anydml.onnx.load(model)
    found = ours.run(feeds)
    first = time.perf_counter() - start
    contestants: dict[str, Callable[[], Any]] = {
        "anydml": lambda: ours.run(feeds),
        "ONNX Runtime": lambda: session.run(None, feeds),
    }
    apart = max(
        np.abs(a - b).max() / np.abs(b).max() for a, b in zip(found.values(), session.run(None, feeds), strict=True)
    )
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(options.rounds):
        for name, run in contestants.items():
            time.sleep(REST)
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    medians = [statistics.median(several) for several in times.values()]
    told = [f"{name} {1000 * median:.1f} ms" for name, median in zip(contestants, medians, strict=True)]
    return [*told, f"{medians[1] / medians[0]:.2f} times as fast", f"first run {first:.1f} s", f"apart {apart:.1e}"]


if __name__ == "__main__":
    raise SystemExit(main())

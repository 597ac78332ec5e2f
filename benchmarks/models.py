"""Networks of made-up weights against ONNX Runtime: `python -m benchmarks.models`, once more for each thread count.

One run of each, the two interleaved round by round, of each the median; and the first answer, which loading, compiling
and one run take in a process of their own, with kernels in their cache, of each the least. At the end the geometric
means.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import against

SIZES: dict[str, list[tuple[int, int]]] = {
    "BERT-base": [(1, 128), (8, 512)],
    "GPT-2 step": [(1, 128), (1, 1000)],
    "T5-small": [(1, 128)],
    "Whisper-base encoder": [(1, 0)],
    "Whisper-base decoder step": [(1, 64)],
    "U-Net": [(1, 0)],
    "ViT-B/16": [(1, 0)],
}
"""Batch and length of a network's inputs; of all others, one image and eight."""
REST = 0.1
"""Seconds before each run: ONNX Runtime's threads spin for a while after theirs, on cores that the next would use."""


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each model and size."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
    against.add_options(parser, "of both contestants (2)")
    parser.add_argument("--json", type=Path, help="with --against: write the rows here, after each one anew")
    parser.add_argument("--only", default="", help="models whose name has one of these in it, with commas")
    parser.add_argument("--half", action="store_true", help="networks of FLOAT16")
    parser.add_argument("--small", action="store_true", help="the sizes of the tests, to try this out")
    parser.add_argument(
        "--cpu-time", action="store_true", help="seconds of the processor, for a machine with other work"
    )
    parser.add_argument("--no-first", action="store_true", help="no first answers, which take processes of their own")
    parser.add_argument("--first", nargs=3, metavar=("WHO", "MODEL", "FEEDS"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    clock = time.process_time if options.cpu_time else time.perf_counter
    if options.first:
        who, path, feeds = options.first
        print(_first_here(who, path, feeds, against.only_one(parser, options), clock))
        return 0
    if options.against:
        against.compare(partial(walk, options=options), "models", {}, options)
        return 0
    options.threads = against.only_one(parser, options)
    ratios: dict[str, list[float]] = {"run": [], "first answer": []}
    for label, model, feeds in rows(options):
        print(label, *measure(model, feeds, options, clock, ratios), sep=" | ", flush=True)
    for what, several in ratios.items():
        if several:
            mean = math.exp(statistics.fmean(map(math.log, several)))
            print(
                f"{what}: ONNX Runtime's time over ours {mean:.2f} on the geometric mean, {min(several):.2f} at worst"
            )
    return 0


def rows(options: argparse.Namespace, names: Sequence[str] | None = None) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """The label of each model and size, or of those named, its file and its inputs; they are there until the next."""
    from benchmarks.networks import NETWORKS

    with tempfile.TemporaryDirectory() as folder:
        for name, make in NETWORKS.items():
            sizes = {
                f"{name}, {batch} x {length}" if length else f"{name}, {batch}": (batch, length)
                for batch, length in SIZES.get(name, [(1, 0), (8, 0)])
            }
            asked = [label for label in sizes if names is None or label in names]
            if not asked or not any(part in name for part in options.only.split(",")):
                continue
            network = make(small=options.small)
            model = Path(folder) / f"{name.replace('/', '-')}.onnx"
            model.write_bytes(network.onnx(half=options.half))
            for label in asked:
                yield label, model, network.feeds_of(*sizes[label], half=options.half)
            model.unlink()


def walk(
    _both: tuple[against.Side, against.Side], names: Sequence[str] | None, options: argparse.Namespace
) -> Iterator[tuple[str, Sequence[str]]]:
    """The rows that two trees are timed on, each a model and its inputs as files."""
    for label, model, feeds in rows(options, names):
        np.savez(given := model.with_suffix(".npz"), **feeds)
        yield label, (str(model), str(given))


def run_of(who: str, path: Path | str, threads: int) -> Callable[[dict[str, Any]], list[Any]]:
    """A contestant with the model loaded."""
    if who == "anydml":
        import anydml as dml
        import anydml.onnx

        dml.set_num_threads(threads)
        ours = anydml.onnx.load(str(path))
        return lambda feeds: list(ours.run(feeds).values())
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    return lambda feeds: list(session.run(None, feeds))


CONTESTANTS = {"anydml": "anydml.onnx", "ONNX Runtime": "onnxruntime"}
"""And what each imports before it is timed."""


def measure(
    path: Path,
    feeds: dict[str, Any],
    options: argparse.Namespace,
    clock: Callable[[], float],
    ratios: dict[str, list[float]],
) -> list[str]:
    """The cells of a row: times and how far ahead ours is, of a run and of the first answer; how far apart answers are."""
    runs = {who: run_of(who, path, options.threads) for who in CONTESTANTS}
    ours, theirs = (run(feeds) for run in runs.values())
    times: dict[str, list[float]] = {who: [] for who in runs}
    for _ in range(options.rounds):
        for who, run in runs.items():
            time.sleep(REST)
            start = clock()
            run(feeds)
            times[who].append(clock() - start)
    cells = _cells("run", {who: statistics.median(several) for who, several in times.items()}, ratios)
    if not options.no_first:
        given = path.with_suffix(".npz")
        np.savez(given, **feeds)
        cells += _cells("first answer", {who: _first_apart(who, path, given, options) for who in runs}, ratios)
    return [*cells, f"apart {apart(ours, theirs):.1e}"]


def _cells(what: str, seconds: dict[str, float], ratios: dict[str, list[float]]) -> list[str]:
    ours, theirs = seconds.values()
    ratios[what].append(theirs / ours)
    return [
        *(f"{who} {1000 * took:.1f} ms" for who, took in seconds.items()),
        f"{what} {theirs / ours:.2f} times as fast",
    ]


def apart(ours: list[Any], theirs: list[Any]) -> float:
    """The largest difference between answers as a part of the largest number; infinite where the shapes differ."""
    found = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape:
            return math.inf
        if b.size and b.dtype.kind == "f":
            wide = b.astype(np.float64)
            found = max(found, float(np.abs(a - wide).max() / max(np.abs(wide).max(), 1e-30)))
    return found


def _first_apart(who: str, path: Path, feeds: Path, options: argparse.Namespace) -> float:
    """The least of four in processes of their own, of which the first fills the cache.

    Python's compiled files have a cache too, as those of an installed package have, whatever the environment says.
    """
    words = [sys.executable, "-m", "benchmarks.models", "--threads", str(options.threads)]
    words += ["--cpu-time"] * options.cpu_time + ["--first", who, str(path), str(feeds)]
    found = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found["PYTHONPYCACHEPREFIX"] = str(path.parent / "compiled")
    return min(float(subprocess.check_output(words, env=found)) for _ in range(4))  # noqa: S603 - words of our own


def _first_here(who: str, path: str, feeds: str, threads: int, clock: Callable[[], float]) -> float:
    __import__(CONTESTANTS[who])
    with np.load(feeds) as file:
        given = dict(file)
    start = clock()
    run_of(who, path, threads)(given)
    return clock() - start


if __name__ == "__main__":
    raise SystemExit(main())

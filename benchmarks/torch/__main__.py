"""Networks by torch.compile, ours beside PyTorch's: `python -m benchmarks.torch`, once more for each thread count.

In each round every contestant runs once: eager, inductor, inductor with max-autotune and frozen weights, and anydml, which
lie in one process and share weights. Of times the medians; of ratios, a peer's time over ours in the same round, the median
and half of what lies between the quartiles. Then the overhead of a call, by functions that have next to nothing to compute;
and the first call, which each contestant compiles for in a process of its own: with empty caches, and with the kernels and
the graphs that a process before it left.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

import anydml
from anydml.torch.backend import compile_graph
from benchmarks.language import spread
from benchmarks.table import written
from benchmarks.torch.networks import LARGE, SMALL, Network

REST = 0.02
"""Seconds before each run: threads spin for a while after their work, on the cores of the next contestant's."""
LEAST = 0.02
"""One measurement is of as many calls as take so many seconds."""
CONTESTANTS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda model: model,
    "inductor": lambda model: torch.compile(model, dynamic=False),
    "max-autotune": lambda model: torch.compile(model, dynamic=False, options={"max_autotune": True, "freezing": True}),
    "anydml": lambda model: torch.compile(model, dynamic=False, backend=compile_graph),
}
OURS = "anydml"
TINY: dict[str, tuple[Callable[[], Any], Callable[[], tuple[Any, ...]]]] = {
    "x + 1": (lambda: _add_one, lambda: (torch.zeros(4),)),
    "Linear(16, 16) + relu": (
        lambda: torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()).eval(),
        lambda: (torch.zeros(1, 16),),
    ),
}
TINY_CALLS = 500


def _add_one(x: Any) -> Any:
    return x + 1


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each network, batch and number of threads."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torch", description=__doc__)
    parser.add_argument("--threads", type=_numbers, default=[1, 2], help="with commas (1,2)")
    parser.add_argument("--batch", type=_numbers, default=[1, 8], help="with commas (1,8)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help=f"with commas, parts of the names {', '.join(LARGE)}")
    parser.add_argument("--peers", default="eager,inductor,max-autotune", help="with commas")
    parser.add_argument("--parts", default="run,call,first", help="of run, call and first, with commas")
    parser.add_argument("--training", action="store_true", help="a step: forward, and backward to all weights")
    parser.add_argument("--small", action="store_true", help="the networks of the tests, to try this out")
    parser.add_argument("--cpu-time", action="store_true", help="the processor's seconds, beside other work")
    parser.add_argument("--json", type=Path, help="write all times here")
    parser.add_argument("--first-of", nargs=2, metavar=("NETWORK", "OPTIONS"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # PyTorch's and transformers' own
    clock = time.process_time if options.cpu_time else time.perf_counter
    if options.first_of:
        print(_first_here(*options.first_of))
        return 0
    networks = {
        name: network
        for name, network in (SMALL if options.small else LARGE).items()
        if any(part in name for part in options.only.split(","))
    }
    who = [*(name for name in CONTESTANTS if name in options.peers.split(",")), OURS]
    found: list[dict[str, Any]] = []
    for part, rows in (("run", _runs), ("call", _calls), ("first", _first_calls)):
        if part in options.parts.split(","):
            print(_head(part, who), flush=True)
            several = []
            for row in rows(networks, who, options, clock):
                several.append(row)
                print(_line(row), flush=True)
            print(_means(several), flush=True)
            found += [{"part": part, **row} for row in several]
            if options.json:
                options.json.write_text(json.dumps(found, indent=1))
    return 0


def _numbers(text: str) -> list[int]:
    return [*map(int, text.split(","))]


# The table


def _head(part: str, who: Sequence[str]) -> str:
    about = {"run": "a run", "call": "a call of next to nothing", "first": "the first call"}[part]
    peers = "".join(f" {name + ' / ours':>20}" for name in who if name != OURS)
    return f"\n{about:40} {'threads':>7}" + "".join(f" {name:>12}" for name in who) + peers


def _line(row: dict[str, Any]) -> str:
    ours = statistics.median(row["times"][OURS])
    cells = "".join(f" {written(statistics.median(several), ours):>12}" for several in row["times"].values())
    for name, ratios in _ratios(row).items():
        cells += f" {statistics.median(ratios):>12.2f} ± {spread(ratios):<5.2f}" if name != OURS else ""
    return f"{row['name']:40} {row['threads']:>7}{cells}  {row['note']}".rstrip()


def _ratios(row: dict[str, Any]) -> dict[str, list[float]]:
    """Each contestant's times over ours of the same round."""
    ours = row["times"][OURS]
    return {name: [a / b for a, b in zip(several, ours, strict=True)] for name, several in row["times"].items()}


def _means(rows: Sequence[dict[str, Any]]) -> str:
    lines = []
    for name in rows[0]["times"] if rows else ():
        if name != OURS:
            several = {f"{row['name']}, {row['threads']}": statistics.median(_ratios(row)[name]) for row in rows}
            mean = math.exp(statistics.fmean(map(math.log, several.values())))
            behind = [row for row, ratio in several.items() if ratio < 1]
            lines.append(
                f"{name}'s time over ours: {mean:.2f} on the geometric mean; {len(behind)} of {len(several)} below 1"
                + "".join(f"; {row}" for row in behind)
            )
    return "\n".join(lines)


# Runs


def _runs(
    networks: dict[str, Network], who: Sequence[str], options: argparse.Namespace, clock: Callable[[], float]
) -> Iterator[dict[str, Any]]:
    for (name, network), threads in itertools.product(networks.items(), options.threads):
        _set_threads(threads)
        model = network.build()
        for batch in options.batch:
            feeds = network.feeds(batch)
            runs = {one: _run_of(one, model, feeds, options.training) for one in who}
            note = _apart(runs, options.training)
            times = _in_rounds({one: runs[one] for one in who}, options.rounds, LEAST, clock)
            yield {"name": f"{name}, {batch}", "threads": threads, "times": times, "note": note}
            torch.compiler.reset()


def _set_threads(threads: int) -> None:
    torch.compiler.reset()  # what inductor compiles has the number in it
    torch.set_num_threads(threads)
    anydml.set_num_threads(threads)


def _run_of(who: str, model: Any, feeds: dict[str, Any], training: bool) -> Callable[[], Any]:
    """A contestant's run, which has compiled."""
    called = CONTESTANTS[who](model)

    def infer() -> Any:
        with torch.no_grad():
            return called(**feeds)

    def train() -> Any:
        model.zero_grad(set_to_none=True)
        found = _first_tensor(called(**feeds))
        found.square().mean().backward()
        return found

    run = train if training else infer
    for _ in range(3):
        run()
    return run


def _first_tensor(found: Any) -> Any:
    return next(one for one in tree_leaves(found) if isinstance(one, torch.Tensor))


def _apart(runs: dict[str, Callable[[], Any]], training: bool) -> str:
    """How far our first result is from another contestant's, as a part of its largest number."""
    found = {name: _first_tensor(run()).detach() for name, run in runs.items()}
    other, ours = next(iter(found.values())), found[OURS]
    off = float((ours - other).abs().max() / other.abs().max().clamp(min=1e-30))
    return f"apart {off:.0e}" + (" in training" if training else "")


def _in_rounds(
    runs: dict[str, Callable[[], Any]], rounds: int, least: float, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """The seconds of a run of each, round by round; every other round in the other order."""
    counts = {}
    for name, run in runs.items():
        start = time.perf_counter()
        run()
        counts[name] = max(1, round(least / max(time.perf_counter() - start, 1e-7)))
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds):
        for name in [*runs][:: -1 if number % 2 else 1]:
            time.sleep(REST)
            run, count = runs[name], counts[name]
            start = clock()
            for _ in range(count):
                run()
            times[name].append((clock() - start) / count)
    return times


# Calls


def _calls(
    _: dict[str, Network], who: Sequence[str], options: argparse.Namespace, clock: Callable[[], float]
) -> Iterator[dict[str, Any]]:
    for name, (make, inputs) in TINY.items():
        for threads in options.threads:
            _set_threads(threads)
            model, given = make(), inputs()
            runs = {one: _many(CONTESTANTS[one](model), given) for one in who}
            found = _in_rounds(runs, max(options.rounds, 9), 0, clock)
            times = {one: [took / TINY_CALLS for took in several] for one, several in found.items()}
            yield {"name": name, "threads": threads, "times": times, "note": ""}


def _many(called: Callable[..., Any], given: tuple[Any, ...]) -> Callable[[], Any]:
    def run() -> None:
        with torch.no_grad():
            for _ in range(TINY_CALLS):
                called(*given)

    run()
    return run


# First calls


def _first_calls(
    networks: dict[str, Network], who: Sequence[str], options: argparse.Namespace, _: Callable[[], float]
) -> Iterator[dict[str, Any]]:
    """One process after the other, each contestant's caches in a folder of its own; the second finds them filled."""
    threads, batch = options.threads[-1], options.batch[0]
    compilers = [one for one in who if one != "eager"]
    for name in networks:
        with tempfile.TemporaryDirectory() as folder:
            for about in ("caches empty", "caches filled"):
                times = {one: [_first_apart(name, one, threads, batch, Path(folder), options)] for one in compilers}
                yield {"name": f"{name}, {batch}, {about}", "threads": threads, "times": times, "note": ""}


def _first_apart(name: str, who: str, threads: int, batch: int, folder: Path, options: argparse.Namespace) -> float:
    asked = {"who": who, "threads": threads, "batch": batch, "small": options.small, "training": options.training}
    words = [sys.executable, "-m", "benchmarks.torch", "--first-of", name, json.dumps(asked)]
    own = {"TORCHINDUCTOR_CACHE_DIR": str(folder / who), "ANYDML_CACHE_DIR": str(folder / who)}
    told = subprocess.run(words, env={**os.environ, **own}, check=True, text=True, stdout=subprocess.PIPE)  # noqa: S603 - this module
    return float(told.stdout.split()[-1])


def _first_here(name: str, asked: str) -> float:
    given = json.loads(asked)
    _set_threads(given["threads"])
    network = (SMALL if given["small"] else LARGE)[name]
    model, feeds = network.build(), network.feeds(given["batch"])
    run = _once(CONTESTANTS["eager"], model, feeds, given["training"])
    run()  # what PyTorch does once is no compiler's
    start = time.perf_counter()
    _once(CONTESTANTS[given["who"]], model, feeds, given["training"])()
    return time.perf_counter() - start


def _once(make: Callable[[Any], Any], model: Any, feeds: dict[str, Any], training: bool) -> Callable[[], Any]:
    def run() -> None:
        called = make(model)
        with torch.set_grad_enabled(training):
            found = _first_tensor(called(**feeds))
        if training:
            found.square().mean().backward()

    return run


if __name__ == "__main__":
    raise SystemExit(main())

"""Networks of made-up weights on a GPU against PyTorch: `python -m benchmarks.cuda.networks [--device webgpu]`.

The networks of `benchmarks.models`, in FLOAT32 without TF32, or `--half`. PyTorch as it is, compiled, and compiled with
CUDA graphs. One run, the contestants interleaved round by round: each has the GPU for half a second before its runs count,
since one that was idle, or worked for the other of CUDA and Vulkan, takes five times as long for 0.4 s (H200). Of each the
median, by the host's clock, from a call to the end of its work on the device. At the end the geometric mean against the
best of PyTorch's for each batch. Ours are on PyTorch's device, or on one of the webgpu engine, where all inputs lie too: by
the same GPU's Vulkan, that is.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

import anydml as dml
import anydml.onnx
from anydml.arrays import wait
from benchmarks.networks import NETWORKS, Network

LENGTHS = {"BERT-base": (128, 512), "GPT-2 step": (128, 1000), "T5-small": (128,), "Whisper-base decoder step": (64,)}
"""Of the networks that take a text; batches above eight take the first alone."""
MODES = {"torch.compile": "default", "with graphs": "reduce-overhead"}
WARM = 3
"""Runs that are not timed: contestants compile in them, and capture their launches."""
RISE, ROUND = 0.5, 0.25
"""Seconds of a contestant's runs in a round, before they count and after."""


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each network and size."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda.networks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="networks whose name has one of these in it, with commas")
    parser.add_argument("--batches", default="1,8,32", help="with commas (1,8,32)")
    parser.add_argument("--half", action="store_true", help="networks of FLOAT16")
    parser.add_argument("--small", action="store_true", help="the sizes of the tests, to try this out")
    parser.add_argument("--place", default="cuda", help="another device of PyTorch's, to try this out")
    parser.add_argument("--device", help="ours runs on: that of PyTorch's, or webgpu")
    parser.add_argument(
        "--peers", default="PyTorch,torch.compile,with graphs", help="with commas; compiling takes long"
    )
    options = parser.parse_args(arguments)
    options.device = options.device or options.place
    torch.backends.cudnn.allow_tf32 = False
    ratios: dict[int, list[float]] = {}
    for name, make in NETWORKS.items():
        if any(part in name for part in options.only.split(",")):
            for row in prepared(name, make(small=options.small), options):
                ratio = row.measure(options)
                if ratio is not None:
                    ratios.setdefault(row.batch, []).append(ratio)
    for batch, several in ratios.items():
        mean = math.exp(statistics.fmean(map(math.log, several)))
        print(f"batch {batch}: the best of PyTorch's times over ours {mean:.2f} on the geometric mean")
    return 0


@dataclass(frozen=True)
class Row:
    """A network of one size: contestants that have compiled and warmed up."""

    label: str
    batch: int
    runs: dict[str, Callable[[], Any]]
    about: tuple[str, ...]
    """Our first run, and how far apart the answers are; alone, the reason why there is nothing to measure."""

    def measure(self, options: argparse.Namespace) -> float | None:
        """Print the row; the best peer's time over ours."""
        if not self.runs:
            print(self.label, *self.about, sep=" | ", flush=True)
            return None
        times: dict[str, list[float]] = {name: [] for name in self.runs}
        with torch.no_grad():
            for _ in range(options.rounds):
                for name, run in self.runs.items():
                    times[name] += _round(run, options.device if name == "anydml" else options.place)
        medians = {name: statistics.median(several) for name, several in times.items()}
        ratio = min(median for name, median in medians.items() if name != "anydml") / medians["anydml"]
        cells = [f"{name} {1000 * median:.3f} ms" for name, median in medians.items()]
        print(self.label, *cells, f"{ratio:.2f} times as fast as the best", *self.about, sep=" | ", flush=True)
        return ratio


def prepared(name: str, network: Network, options: argparse.Namespace) -> Iterator[Row]:
    """A network's rows, each ready to be measured."""
    model = network.onnx(half=options.half)
    network.module.to(options.place)
    for batch in map(int, options.batches.split(",")):
        for length in LENGTHS.get(name, (0,))[: 1 if batch > 8 else None]:
            label = f"{name}, {batch} x {length}" if length else f"{name}, {batch}"
            try:
                yield _row(label, model, network, (batch, length), options)
            except Exception as error:  # noqa: BLE001 - the other networks are still to come
                yield Row(label, batch, {}, (f"failed: {' '.join(str(error).split())[:300]}",))


def _row(label: str, model: bytes, network: Network, size: tuple[int, int], options: argparse.Namespace) -> Row:
    made = network.feeds_of(*size, half=options.half)
    feeds = {name: torch.from_numpy(array).to(options.place) for name, array in made.items()}
    ours = anydml.onnx.load(model, device=options.device)
    given = feeds
    if options.device.startswith("webgpu"):
        given = {name: dml.to_device(array, options.device) for name, array in made.items()}
    first = _seconds(lambda: ours.run(given), options.device)
    runs = {"anydml": lambda: ours.run(given), **_peers(network, tuple(feeds.values()), options)}
    with torch.no_grad():
        theirs = network.module(*feeds.values())
        apart = _apart([_tensor(found) for found in ours.run(given).values()], theirs)
        for name, run in list(runs.items()) * WARM:
            _seconds(run, options.device if name == "anydml" else options.place)
    return Row(label, size[0], runs, (f"first run {first:.1f} s", f"apart {apart:.1e}"))


def _peers(network: Network, given: tuple[Any, ...], options: argparse.Namespace) -> dict[str, Callable[[], Any]]:
    """PyTorch in each of its forms that was asked for."""
    wanted = options.peers.split(",")
    found: dict[str, Callable[[], Any]] = {}
    if "PyTorch" in wanted:
        found["PyTorch"] = lambda: network.module(*given)
    for name, mode in MODES.items():
        if name in wanted:
            found[name] = partial(torch.compile(network.module, dynamic=False, mode=mode), *given)
    return found


def _seconds(run: Callable[[], Any], place: str) -> float:
    """From the call to the end of its work on the device."""
    _wait(place)
    start = time.perf_counter()
    run()
    _wait(place)
    return time.perf_counter() - start


def _round(run: Callable[[], Any], place: str) -> list[float]:
    """The seconds of each run of a round, every one waited for."""
    found, rise = list[float](), time.perf_counter() + RISE
    while time.perf_counter() < rise:
        _seconds(run, place)
    while sum(found) < ROUND:
        found.append(_seconds(run, place))
    return found


def _wait(place: str) -> None:
    if place.startswith("cuda"):
        torch.cuda.synchronize()
    elif place.startswith("webgpu"):
        wait(dml.Device(place).engine.memory)


def _tensor(found: Any) -> torch.Tensor:
    return found if isinstance(found, torch.Tensor) else torch.from_numpy(found.numpy())


def _apart(ours: list[Any], theirs: Any) -> float:
    """The largest difference between answers, as a part of the largest number; infinite where the shapes differ."""
    pairs = list(zip(ours, theirs if isinstance(theirs, tuple) else (theirs,), strict=True))
    if any(a.shape != b.shape for a, b in pairs):
        return math.inf
    pairs = [(a.cpu(), b.cpu()) for a, b in pairs]
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs if a.is_floating_point())


if __name__ == "__main__":
    raise SystemExit(main())

"""Language models of made-up weights on a GPU against PyTorch: `python -m benchmarks.cuda.language`.

The networks of `benchmarks.models`, all in FLOAT32 without TF32. One run, the contestants interleaved round by round;
of each the median, by the host's clock, from a call to the end of its work on the device.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import anydml.onnx
from benchmarks.networks import language

SIZES: dict[str, tuple[str, tuple[int, int]]] = {
    "BERT-base, 1 x 128": ("bert", (1, 128)),
    "BERT-base, 8 x 512": ("bert", (8, 512)),
    "GPT-2 step, 128 before": ("gpt2", (1, 128)),
    "GPT-2 step, 1000 before": ("gpt2", (1, 1000)),
}


def feeds_of(kind: str, sizes: tuple[int, int], layers: int, place: str = "cuda") -> dict[str, Any]:
    """The inputs by name, in the order of the network's."""
    batch, count = sizes
    if kind == "bert":
        ids = torch.randint(0, 1000, (batch, count), device=place)
        return {"ids": ids, "mask": torch.ones_like(ids)}
    past = torch.randn((layers, 2, batch, 12, count, 64), device=place)
    return {"ids": torch.randint(0, 1000, (batch, 1), device=place), "past": past}


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each model."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda.language", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--layers", type=int, default=12, help="of each network (12)")
    parser.add_argument("--only", default="", help="models whose name has this in it")
    parser.add_argument("--peers", default="PyTorch,torch.compile", help="with commas; torch.compile takes its time")
    options = parser.parse_args(arguments)
    for name, (kind, sizes) in SIZES.items():
        if options.only in name:
            made = getattr(language, kind)(layers=options.layers)
            model, network = made.onnx(), made.module.cuda()
            feeds = feeds_of(kind, sizes, options.layers)
            print(name, *measure(model, network, feeds, options), sep=" | ", flush=True)
    return 0


def measure(model: bytes, network: Any, feeds: dict[str, Any], options: argparse.Namespace) -> list[str]:
    """The cells of a row: times, our time over each peer's, our first run, and how far apart the answers are."""
    start = time.perf_counter()
    ours = anydml.onnx.load(model, device="cuda")
    ours.run(feeds)
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    given = tuple(feeds.values())
    peers: dict[str, Callable[[], Any]] = {"PyTorch": lambda: network(*given)}
    if "torch.compile" in options.peers:
        compiled = torch.compile(network, dynamic=False)
        peers["torch.compile"] = lambda: compiled(*given)
    entered = {"anydml": lambda: ours.run(feeds)} | {k: run for k, run in peers.items() if k in options.peers}
    times: dict[str, list[float]] = {name: [] for name in entered}
    with torch.no_grad():
        apart = _apart(list(entered["anydml"]().values()), network(*given))
        for number in range(options.rounds + 3):
            for name, run in entered.items():
                torch.cuda.synchronize()
                start = time.perf_counter()
                run()
                torch.cuda.synchronize()
                if number >= 3:  # the first ones compile, and warm up
                    times[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(several) for name, several in times.items()}
    cells = [f"{name} {1000 * median:.2f} ms" for name, median in medians.items()]
    cells += [f"{medians['anydml'] / medians[name]:.2f} of {name}'s time" for name in medians if name != "anydml"]
    return [*cells, f"first run {first:.1f} s", f"apart {apart:.1e}"]


def _apart(ours: list[Any], theirs: Any) -> float:
    """The largest difference between answers, as a part of the largest number."""
    wanted = theirs if isinstance(theirs, tuple) else (theirs,)
    pairs = zip(ours, wanted, strict=True)
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)


if __name__ == "__main__":
    raise SystemExit(main())

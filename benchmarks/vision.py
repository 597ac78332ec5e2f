"""Networks of images with made-up weights against ONNX Runtime: `python -m benchmarks.vision`, for each thread count.

ResNet-50, SqueezeNet and MobileNet-v2, one image and eight at once, as `benchmarks.language` measures.
"""

from __future__ import annotations

import argparse

import numpy as np

import anydml as dml
from benchmarks import vision_networks as networks
from benchmarks.language import measure

MODELS = {"ResNet-50": networks.resnet, "SqueezeNet": networks.squeezenet, "MobileNet-v2": networks.mobilenet}


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each model and batch."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vision", description=__doc__)
    parser.add_argument("--threads", type=int, default=2, help="of both contestants (2)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8], help="images at once (1 8)")
    parser.add_argument("--only", default="", help="models whose name has this in it")
    options = parser.parse_args(arguments)
    dml.set_num_threads(options.threads)
    rng = np.random.default_rng(1)
    for name, make in MODELS.items():
        if options.only not in name:
            continue
        model = make()
        for batch in options.batches:
            images = rng.standard_normal((batch, 3, networks.SIDE, networks.SIDE)).astype("f")
            print(f"{name}, {batch}", *measure(model, {"images": images}, options), sep=" | ", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

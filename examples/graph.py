"""Crop, flip, add up and flip back as one graph: what it becomes when it is compiled, and what that saves.

`python examples/graph.py --svg graph.svg` draws it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import anydml as dml


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--svg", metavar="FILE", type=Path, help="draw the graph")
    svg = parser.parse_args().svg

    graph = dml.Graph("cpu")
    x = graph.input(dml.TensorDesc("float32", (6, 8)), "x")
    crop = dml.slice1(x, [1, 2], [4, 5], [1, 1]).named("crop")
    flip = dml.slice1(crop, [0, 0], [4, 5], [1, -1]).named("flip")
    sums = dml.cumulative_summation(flip, axis=1).named("sums")
    back = dml.slice1(sums, [0, 0], [4, 5], [1, -1]).named("back")
    model = graph.compile(back)

    data = np.arange(48, dtype="float32").reshape(6, 8)
    result = model(data)
    expected = np.cumsum(data[1:5, 2:7][:, ::-1], axis=1)[:, ::-1]
    np.testing.assert_array_equal(result, expected)
    print(f"{result}\n")

    picture = model.explain()
    print(picture)
    if svg is not None:
        svg.write_text(picture.svg(), "utf-8")


if __name__ == "__main__":
    main()

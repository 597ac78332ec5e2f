"""Graphs whose pictures are looked at, and what is read off a drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

import anydml as dml

if TYPE_CHECKING:
    from anydml.explain import GraphPicture

T = dml.TensorDesc
SVG = "{http://www.w3.org/2000/svg}"
X = T("float32", (6, 8))


def crop_flip_sum_flip(name: str = "crop") -> dml.GraphDesc:
    g = dml.Graph("reference")
    x = g.input(X, "x")
    crop = dml.slice1(x, [1, 2], [4, 5], [1, 1]).named(name)
    flip = dml.slice1(crop, [0, 0], [4, 5], [1, -1]).named("flip")
    sums = dml.cumulative_summation(flip, 1).named("sum")
    return g.desc(dml.slice1(sums, [0, 0], [4, 5], [1, -1]).named("y"))


def forked() -> dml.GraphDesc:
    """Two outputs read a copy, a gather reads a constant that is turned round, and one node feeds nothing."""
    g = dml.Graph("reference")
    x = g.input(X, "x")
    rows = g.constant(np.array([[1], [0], [4]], "uint32"), "rows")
    crop = dml.slice1(x, [1, 2], [4, 5], [1, 1]).named("crop")
    across = dml.cumulative_summation(crop, 1).named("across")
    down = dml.cumulative_product(crop, 0, "decreasing", has_exclusive_product=True).named("down")
    picked = dml.gather_nd(x, dml.slice1(rows, [0, 0], [3, 1], [-1, 1]).named("turn"), index_mode="clamp").named("pick")
    dml.cumulative_summation(rows, 0).named("idle")
    return g.desc([across, down, picked])


def chain(count: int) -> dml.GraphDesc:
    g = dml.Graph("reference")
    y = g.input(X, "x")
    for number in range(count):
        y = dml.cumulative_summation(y, number % 2).named(f"node number {number}")
    return g.desc(y)


def told(picture: GraphPicture) -> list[tuple[Any, Any]]:
    return list(zip(picture.before, picture.became, strict=True))


# Drawings


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]  # noqa: S314 - our own


def boxes(svg: str) -> list[tuple[float, float, float, float]]:
    shapes = ElementTree.fromstring(svg).findall(f".//{SVG}g/{SVG}g/{SVG}rect")  # noqa: S314 - our own
    return [(*(float(shape.attrib[name]) for name in ("x", "y", "width", "height")),) for shape in shapes]  # type: ignore[misc]  # four

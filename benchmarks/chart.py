"""A chart of the rows, as SVG: how far ahead of each peer, on a logarithmic scale."""

from __future__ import annotations

import math
from typing import Any

COLOURS = {"numpy": "#4c78a8", "torch": "#f58518", "onnxruntime": "#54a24b", "compile": "#e45756", "cupy": "#72b7b2",
           "jax": "#b279a2", "single": "#555555", "copy": "#bbbbbb"}  # fmt: skip
LEFT, WIDTH, BAR = 330, 560, 9


def draw(results: list[dict[str, Any]]) -> str:
    """One group of bars a row: the peer's time over ours; 1 is level, the copy limit is below it."""
    results = [result for result in results if "anydml" in result["seconds"]]
    entered = {name for result in results for name in result["seconds"]}
    colours = {name: colour for name, colour in COLOURS.items() if name in entered}
    most = max(
        (t / r["seconds"]["anydml"] for r in results for n, t in r["seconds"].items() if n != "anydml"), default=2
    )
    low, high = -1.0, math.log2(max(most, 2))

    def at(ratio: float) -> float:
        return LEFT + (max(math.log2(ratio), low) - low) / (high - low) * WIDTH

    y, parts = 40.0, []
    for ratio in (2.0**k for k in range(-1, math.ceil(high) + 1)):
        parts.append(f'<line x1="{at(ratio):.1f}" y1="30" x2="{at(ratio):.1f}" y2="HEIGHT" stroke="#ddd"/>')
        parts.append(f'<text x="{at(ratio):.1f}" y="24" text-anchor="middle">{ratio:g}x</text>')
    for result in results:
        parts.append(f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{result["name"]}</text>')
        for name, colour in colours.items():
            if (t := result["seconds"].get(name)) is not None:
                end = at(t / result["seconds"]["anydml"])
                left, right = min(end, at(1)), max(end, at(1))
                parts.append(
                    f'<rect x="{left:.1f}" y="{y:.1f}" width="{max(right - left, 1):.1f}" height="{BAR - 2}" fill="{colour}"/>'
                )
                y += BAR
        y += 6
    legend = "".join(
        f'<rect x="{LEFT + 120 * i}" y="{y + 6:.0f}" width="10" height="10" fill="{c}"/><text x="{LEFT + 14 + 120 * i}" y="{y + 15:.0f}">{n}</text>'
        for i, (n, c) in enumerate(colours.items())
    )
    height = y + 30
    body = "\n".join(parts).replace("HEIGHT", f"{y:.0f}")
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 40}" height="{height:.0f}" font-family="sans-serif" font-size="11">'
    title = '<text x="8" y="14" font-size="13">time of each contestant over anydml\'s (more is slower)</text>'
    return f'{head}<rect width="100%" height="100%" fill="white"/>{title}\n{body}\n{legend}</svg>\n'

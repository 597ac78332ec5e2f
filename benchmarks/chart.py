"""A chart of the rows, as SVG: how far ahead of each peer, on a logarithmic scale; dark where its reader's page is."""

from __future__ import annotations

import math
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.table import NAMES

COLOURS = {"numpy": "#4c78a8", "torch": "#f58518", "onnxruntime": "#54a24b", "compile": "#e45756", "cupy": "#72b7b2",
           "jax": "#b279a2", "single": "#8a8a8a", "copy": "#bbbbbb"}  # fmt: skip
WIDTH, BAR = 360, 10
LETTER = 7.2
"""The width of a letter of 13 pixels, at most on the average."""
_LIGHT = ".g{fill:#fff}text{fill:#16181d}line{stroke:#d5d9e0}.one{stroke:#5b6270}"
_DARK = ".g{fill:#16181d}text{fill:#e9ebef}line{stroke:#3a404b}.one{stroke:#a2a9b6}"


def draw(results: list[dict[str, Any]]) -> str:
    """One group of bars a row: the peer's time over ours; 1 is level, the copy limit is below it."""
    results = [result for result in results if "anydml" in result["seconds"]]
    entered = {name for result in results for name in result["seconds"]}
    colours = {name: colour for name, colour in COLOURS.items() if name in entered}
    most = max(
        (t / r["seconds"]["anydml"] for r in results for n, t in r["seconds"].items() if n != "anydml"), default=2
    )
    left_end = 24 + max((len(result["name"]) for result in results), default=0) * LETTER
    low, high = -1.0, math.log2(max(most, 2))

    def at(ratio: float) -> float:
        return left_end + (max(math.log2(ratio), low) - low) / (high - low) * WIDTH

    y, parts = 58.0, []
    for ratio in (2.0**k for k in range(-1, math.ceil(high) + 1)):
        mark = ' class="one"' if ratio == 1 else ""
        parts.append(f'<line{mark} x1="{at(ratio):.1f}" y1="48" x2="{at(ratio):.1f}" y2="HEIGHT"/>')
        parts.append(f'<text x="{at(ratio):.1f}" y="42" text-anchor="middle">{ratio:g}x</text>')
    for result in results:
        there = [name for name in colours if name in result["seconds"]]
        middle = y + len(there) * BAR / 2 + 4
        parts.append(f'<text x="{left_end - 8:.0f}" y="{middle:.1f}" text-anchor="end">{escape(result["name"])}</text>')
        for name in there:
            ratio = result["seconds"][name] / result["seconds"]["anydml"]
            left, right = min(at(ratio), at(1)), max(at(ratio), at(1))
            words = escape(f"{result['name']}: {NAMES.get(name, name)} takes {ratio:.2f} of anydml's time")
            parts.append(
                f'<rect x="{left:.1f}" y="{y:.1f}" width="{max(right - left, 1):.1f}" height="{BAR - 2}"'
                f' fill="{colours[name]}"><title>{words}</title></rect>'
            )
            y += BAR
        y += max(8, 16 - len(there) * BAR)
    x, legend = 8.0, []
    for name, colour in colours.items():
        words = NAMES.get(name, name)
        legend.append(f'<rect x="{x:.0f}" y="20" width="10" height="10" fill="{colour}"/>')
        legend.append(f'<text x="{x + 15:.0f}" y="29">{words}</text>')
        x += 15 + len(words) * LETTER + 16
    body = "\n".join(parts).replace("HEIGHT", f"{y:.0f}")
    width, height, title = (
        round(left_end + WIDTH + 40),
        round(y + 10),
        "Time of each contestant over anydml's: more is slower",
    )
    style = f"text{{font:13px sans-serif}}{_LIGHT}@media (prefers-color-scheme:dark){{{_DARK}}}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' role="img" aria-label="{title}">\n<style>{style}</style>\n<rect class="g" width="{width}" height="{height}"'
        f' rx="8"/>\n<text x="8" y="14">{title}</text>\n{"".join(legend)}\n{body}\n</svg>\n'
    )

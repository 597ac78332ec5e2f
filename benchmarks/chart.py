"""A chart of the rows, as SVG: how far ahead of each peer, on a logarithmic scale; dark where its reader's page is."""

from __future__ import annotations

import math
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.table import NAMES

COLOURS = {"numpy": "#4c78a8", "torch": "#f58518", "onnxruntime": "#54a24b", "compile": "#e45756", "cupy": "#72b7b2",
           "jax": "#b279a2", "single": "#8a8a8a", "copy": "#bbbbbb"}  # fmt: skip
WIDTH, NARROW, BAR = 360, 296, 10
LETTER = 7.2
"""The width of a letter of 13 pixels, at most on the average."""
_LONGEST = 44
"""Letters of a name in a narrow chart."""
_LIGHT = ".g{fill:#fff}text{fill:#16181d}line{stroke:#d5d9e0}.one{stroke:#5b6270}"
_DARK = ".g{fill:#16181d}text{fill:#e9ebef}line{stroke:#3a404b}.one{stroke:#a2a9b6}"


def draw(results: list[dict[str, Any]], *, is_narrow: bool = False) -> str:
    """One group of bars a row: the peer's time over ours; 1 is level, the copy limit is below it.

    A narrow chart is for phones: names stand above their bars.
    """
    results = [result for result in results if "anydml" in result["seconds"]]
    entered = {name for result in results for name in result["seconds"]}
    colours = {name: colour for name, colour in COLOURS.items() if name in entered}
    most = max(
        (t / r["seconds"]["anydml"] for r in results for n, t in r["seconds"].items() if n != "anydml"), default=2
    )
    longest = max((len(result["name"]) for result in results), default=0)
    left_end, across = (16, NARROW) if is_narrow else (24 + longest * LETTER, WIDTH)
    width = round(left_end + across + (24 if is_narrow else 40))
    legend, top = _legend(colours, width)
    low, high = -1.0, math.log2(max(most, 2))

    def at(ratio: float) -> float:
        return left_end + (max(math.log2(ratio), low) - low) / (high - low) * across

    y, parts = top + 28.0, []
    for ratio in (2.0**k for k in range(-1, math.ceil(high) + 1)):
        mark = ' class="one"' if ratio == 1 else ""
        parts.append(f'<line{mark} x1="{at(ratio):.1f}" y1="{top + 18}" x2="{at(ratio):.1f}" y2="HEIGHT"/>')
        parts.append(f'<text x="{at(ratio):.1f}" y="{top + 12}" text-anchor="middle">{ratio:g}x</text>')
    for result in results:
        there = [name for name in colours if name in result["seconds"]]
        middle, side = y + len(there) * BAR / 2 + 4, f'x="{left_end - 8:.0f}"'
        told = result["name"]
        if is_narrow:
            y += 18
            middle = y - 4
            told = told if len(told) <= _LONGEST else f"{told[: _LONGEST - 1]}…"
        else:
            side += ' text-anchor="end"'
        parts.append(f'<text {side} y="{middle:.1f}">{escape(told)}</text>')
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
    body = "\n".join(parts).replace("HEIGHT", f"{y:.0f}")
    height, whole = round(y + 10), "Time of each contestant over anydml's: more is slower"
    title = "Time over anydml's: more is slower" if is_narrow else whole
    style = f"text{{font:13px sans-serif}}{_LIGHT}@media (prefers-color-scheme:dark){{{_DARK}}}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' role="img" aria-label="{title}">\n<style>{style}</style>\n<rect class="g" width="{width}" height="{height}"'
        f' rx="8"/>\n<text x="8" y="14">{title}</text>\n{"".join(legend)}\n{body}\n</svg>\n'
    )


def _legend(colours: dict[str, str], width: int) -> tuple[list[str], int]:
    """The contestants' colours in lines of a width, and where the lines end."""
    x, y, parts = 8.0, 20, []
    for name, colour in colours.items():
        words = NAMES.get(name, name)
        room = 15 + len(words) * LETTER + 16
        if x + room > width and x > 8:
            x, y = 8.0, y + 18
        parts.append(f'<rect x="{x:.0f}" y="{y}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 15:.0f}" y="{y + 9}">{words}</text>')
        x += room
    return parts, y + 14

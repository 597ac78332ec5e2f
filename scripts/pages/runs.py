"""Logged runs of benchmarks, as `benchmarks/runs.json` has them: a table and a chart each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.chart import draw
from benchmarks.table import NAMES
from scripts.pages.drawing import CHART, frame

FILE = Path(__file__).parent.parent.parent / "benchmarks" / "runs.json"


def runs() -> dict[str, dict[str, Any]]:
    """The runs by name."""
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def written_run(name: str) -> str:
    """The title and the machine of a run, the chart, and the figures."""
    run = runs()[name]
    versions = f" {run['versions']}." if run["versions"] else ""
    head = f"{run['machine'][:1].upper()}{run['machine'][1:]}.{versions} `{run['command']}`"
    wide = frame(draw(run["rows"]), f"{CHART} anydml-wide")
    narrow = frame(draw(run["rows"], is_narrow=True), f"{CHART} anydml-narrow")
    return f"{head}\n\n{wide}\n\n{narrow}\n\n{_table(run['rows'])}"


def _table(rows: list[dict[str, Any]]) -> str:
    """The times in one unit."""
    names = list(dict.fromkeys(name for row in rows for name in row["seconds"]))
    unit, factor = ("µs", 1e6) if min(row["seconds"]["anydml"] for row in rows) < 1e-4 else ("ms", 1e3)
    heads = [NAMES.get(name, name) for name in names]
    lines = [f"| {unit} | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(names)}"]
    for row in rows:
        times = (row["seconds"].get(name) for name in names)
        cells = ("-" if time is None else _written(time * factor) for time in times)
        lines.append(f"| {row['name']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _written(time: float) -> str:
    """A time with as many digits as were logged."""
    value = float(f"{time:.4g}")
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"

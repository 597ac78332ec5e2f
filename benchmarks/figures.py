"""The log of figures: a section a version and machine, appended to `figures.md` from a run's JSON file."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from benchmarks.results import judge, trouble
from benchmarks.table import NAMES, ratio, summary, written

FILE = Path(__file__).with_name("figures.md")
CHAINED = {"vs_single": "over single pass", "vs_compile": "ahead of torch.compile"}
"""Columns that a table has where one of its rows is a chain."""


def append(run: dict[str, Any], file: Path = FILE) -> None:
    """Add a run's section at the end."""
    file.write_text(file.read_text().rstrip("\n") + "\n\n" + section(run))


def section(run: dict[str, Any]) -> str:
    """A heading, the versions, a table, and how many goals were met."""
    device = run.get("device", platform.machine())
    with_threads = f", {run['threads']} threads" if "threads" in run else ""
    versions = ", ".join(f"{NAMES.get(name, name)} {version}" for name, version in run.get("versions", {}).items())
    parts = [f"## {run['version']}, {run['date']}, {run['engine']} engine, {device}{with_threads}", ""]
    parts += [f"With {versions}.", ""] if versions else []
    more = {name: text for name, text in CHAINED.items() if any(name in result for result in run["rows"])}
    columns = ["row", "ours", "best peer", "ahead of it", "share of copy speed", *more.values(), "goals"]
    sides = ["---", "---:", "---", "---:", "---:", *("---:" for _ in more), "---"]
    parts += [f"| {' | '.join(columns)} |", f"| {' | '.join(sides)} |"]
    parts += [_line(result, *more) for result in run["rows"]]
    parts += ["", summary(run["rows"]).replace("\n", "  \n"), ""]
    return "\n".join(parts)


def _line(result: dict[str, Any], *more: str) -> str:
    seconds, goal = result["seconds"], result["goal"]
    best = result["best_peer"]
    peer = f"{NAMES.get(best, best)} {written(seconds[best], seconds.get('anydml'))}" if best else "-"
    judged = judge(result)
    missed = [f"{name.replace('_', ' ')} {goal[name]:g}" for name, met in judged.items() if not met]
    verdict = f"misses {', '.join(missed)}" if missed else "met" if judged else "-"
    ours = written(seconds.get("anydml"))
    if result.get("host_us") is not None:
        ours += f" (host {result['host_us']:.1f} us)"
    cells = [result["name"], ours, peer, ratio(result["vs_best_peer"]), ratio(result["share_of_copy"])]
    cells += [ratio(result.get(name)) for name in more]
    return f"| {' | '.join(cells)} | {trouble(result) or verdict} |"

"""What is kept of a row that was measured, as the JSON file has it, and whether it reaches its goals."""

from __future__ import annotations

from typing import Any

from benchmarks.row import Row

Result = dict[str, Any]

AT_LEAST = {"vs_best_peer": "<", "share_of_copy": "c", "share_of_peak": "p", "vs_compile": "t"}
AT_MOST = {"device_us": "l", "host_us": "h", "vs_single": "s", "compile_ms": "m"}
MARKS = AT_LEAST | AT_MOST
"""The goals, and the mark of a row that misses one."""


class DeviceLostError(Exception):
    """The device answers no more: no further row can be measured."""


def result(row: Row, seconds: dict[str, float], **more: Any) -> Result:
    """The figures of a row from each contestant's time; `copy` and `peak` are the machine's own, `single` a chain's."""
    ours, copy = seconds.get("anydml"), seconds.get("copy")
    apart = ("anydml", "copy", "peak", "single", "compile" if row.vs_compile else "")
    peers = {name: t for name, t in seconds.items() if name not in apart}
    best = min(peers, key=lambda name: peers[name], default=None)
    lines = row.lines or row.bytes
    share = copy / ours if ours and copy else None
    return {
        "name": row.name,
        "family": row.family,
        "bytes": row.bytes,
        "lines": lines,
        "seconds": seconds,
        "share_of_copy": share,
        "share_of_copy_by_elements": share * row.bytes / lines if share else None,
        "best_peer": best,
        "vs_best_peer": peers[best] / ours if ours and best else None,
        "goal": row.goals,
        **({"share_of_peak": seconds["peak"] / ours if ours and "peak" in seconds else None} if row.flops else {}),
        **_of_a_graph(row, seconds),
        **more,
    }


def _of_a_graph(row: Row, seconds: dict[str, float]) -> dict[str, float | None]:
    """The figures that only some rows have: those with a goal for it."""
    ours, single, compiled = (seconds.get(name) for name in ("anydml", "single", "compile"))
    found: dict[str, float | None] = {
        "vs_single": ours / single if ours and single else None,
        "vs_compile": compiled / ours if ours and compiled else None,
        "compile_ms": ours * 1e3 if ours else None,
    }
    return {name: value for name, value in found.items() if row.goals[name]}


def trouble(result: Result) -> str:
    """`WRONG` for an answer that is, `FAILED` for one that never came."""
    return "WRONG" if result.get("wrong") else "FAILED" if result.get("error") else ""


def judge(result: Result) -> dict[str, bool]:
    """Each goal of a row that could be judged, and whether it is met; a row in trouble meets none."""
    judged = {}
    for name in MARKS:
        goal, value = result["goal"].get(name, 0), result.get(name)
        if goal and trouble(result):
            judged[name] = False
        elif goal and value is not None:
            judged[name] = value >= goal if name in AT_LEAST else value <= goal
    return judged


def marks(result: Result) -> str:
    """A letter for each goal that is missed."""
    return "".join(MARKS[name] for name, met in judge(result).items() if not met)

"""The report: a line now and then, each fault when it is found, and a summary."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Any

KINDS = ("wrong", "bare", "crash", "hang", "leak")
MOST_SHOWN = 12
"""Faults of a kind that are written out; more are counted, and an item's second is not shown again."""

FAULTS_AGAIN, LINES_AGAIN = 2, 12
"""The most that the summary repeats: some faults, and how each begins."""


class Report:
    """Counts of everything, from every child."""

    def __init__(self, seed: int) -> None:
        self.seed, self.began = seed, time.monotonic()
        self.doors, self.pressures, self.faults = Counter[str](), Counter[str](), Counter[str]()
        self.notes: list[str] = []
        self._told: list[str] = []
        self._shown: set[tuple[str, int | None, str]] = set()

    def note(self, text: str) -> None:
        """Something that was left out, told once."""
        if text not in self.notes:
            self.notes.append(text)
            _say(f"note: {text}")

    def fault(self, fault: dict[str, Any], role: str) -> None:
        """Tell a fault, and how to see it again."""
        self.faults[fault["kind"]] += 1
        item = fault.get("item")
        seen = (fault["kind"], item, "" if item is not None else fault["text"])
        if seen in self._shown or sum(kind == fault["kind"] for kind, *_ in self._shown) >= MOST_SHOWN:
            return
        self._shown.add(seen)
        engine = " --engine webgpu" * (role == "webgpu")
        again = f"python -m stress --seed {self.seed} --item {item}{engine}" if item is not None else ""
        parts = [f"FAULT {fault['kind']} ({role}): {fault['text'].rstrip()}", fault.get("about"), again]
        text = "\n  ".join(part for part in parts if part)
        _say(text)
        self._told.append("\n".join(text.splitlines()[:LINES_AGAIN]))

    def line(self, running: Counter[str]) -> None:
        """How far it is."""
        seconds = time.monotonic() - self.began
        _say(f"{seconds:5.0f} s: {self._counts(running)}")

    def _counts(self, running: Counter[str]) -> str:
        roles = ", ".join(f"{count} {role}" for role, count in running.items())
        return f"{sum(self.doors.values()):,} items; {self._faults()}; running: {roles or 'nothing'}"

    def _faults(self) -> str:
        return ", ".join(f"{self.faults[kind]} {kind}" for kind in KINDS)

    def summary(self) -> int:
        """Tell everything; the exit status."""
        _say(f"seed {self.seed}, {time.monotonic() - self.began:.0f} s, {sum(self.doors.values()):,} items")
        _say("  items:     " + (_listed(self.doors) or "none"))
        _say("  pressures: " + (_listed(self.pressures) or "none"))
        for text in self.notes:
            _say(f"  note:      {text}")
        _say(f"  faults:    {self._faults()}")
        for text in self._told[:FAULTS_AGAIN]:  # where whoever has the end of the output alone finds them
            _say(text)
        nothing_done = not self.doors
        if nothing_done:
            _say("  nothing was done, which proves nothing")
        return int(bool(self.faults) or nothing_done)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()

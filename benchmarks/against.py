"""Two trees interleaved: `--against COMMIT` of `benchmarks` and `benchmarks.models`.

Each tree has a process, which makes its rows ready and times them as it is told (`tree.py`). In each round both are
timed, now one first, now the other; what counts is the ratio of the two times of a round, the other tree's over this
one's: its median over the rounds, and half of what lies between its quartiles as its spread. A row that seems to have
lost is timed again in new processes, since memory may lie badly in one for as long as it lives.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.table import written

HERE = Path(__file__).resolve().parents[1]
LOSS = 0.02
"""The part of its speed that a row may lose."""
LEAST_SECONDS = 0.03
"""One measurement is of as many calls as take this long."""
PAUSE = 0.02
"""Seconds before a measurement: threads spin for a while after their work, on the cores of the other tree's."""
AGAIN = 4
"""Times that a row that seems to have lost is measured once more."""


@dataclass
class Compared:
    """A row, and the seconds of both trees in each round."""

    name: str
    threads: int
    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)
    same_bits: bool = True
    failed: str = ""
    """Why one of the trees has no times."""

    @property
    def ratios(self) -> list[float]:
        return [old / new for old, new in zip(self.old, self.new, strict=True)]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def spread(self) -> float:
        low, _, high = statistics.quantiles(self.ratios, n=4) if len(self.old) > 1 else (0, 0, 0)
        return (high - low) / 2

    @property
    def has_lost(self) -> bool:
        """Whether more is lost than noise explains."""
        return not self.failed and self.ratio + self.spread < 1 - LOSS

    @property
    def seems_lost(self) -> bool:
        return not self.failed and self.ratio < 1 - LOSS

    def __str__(self) -> str:
        head = f"{self.name:46} {self.threads:>2}"
        if self.failed:
            return f"{head} FAILED: {self.failed}"
        old, new = statistics.median(self.old), statistics.median(self.new)
        marks = " other bits" * (not self.same_bits) + " LOST" * self.has_lost
        return f"{head} {written(old, new):>10} {written(new):>10} {self.ratio:6.3f} +- {self.spread:.3f}{marks}"


class TreeError(Exception):
    """What went wrong in a tree's process."""


class Side:
    """A tree's process."""

    def __init__(self, tree: Path, kind: str, options: dict[str, Any]) -> None:
        self.tree = tree
        found = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree / "src"), str(tree)])}
        if kind == "cpu":  # glibc's heap has arrays where what came before left room: one way is 1.8 times as fast
            found["MALLOC_MMAP_THRESHOLD_"] = "65536"
        words = [sys.executable, "-P", str(Path(__file__).with_name("tree.py")), json.dumps([kind, options])]
        self._process = subprocess.Popen(words, env=found, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 - words of our own
        if (place := self.answer()) != str(tree):
            raise TreeError(f"{tree}: its process imported the anydml of {place}")

    def ask(self, *request: object) -> None:
        assert self._process.stdin is not None  # noqa: S101 - for type checkers
        print(json.dumps(request), file=self._process.stdin, flush=True)

    def answer(self) -> Any:
        assert self._process.stdout is not None  # noqa: S101 - for type checkers
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.tree}: its process ended with status {self._process.wait()}")
        found = json.loads(line)
        if isinstance(found, dict):
            raise TreeError(f"{self.tree}: {found['error']}")
        return found

    def __call__(self, *request: object) -> Any:
        self.ask(*request)
        return self.answer()

    def close(self) -> None:
        self._process.communicate()


def together(both: tuple[Side, Side], *request: object) -> list[Any]:
    """What both answer, who work at the same time; an error is raised when both have answered."""
    for side in both:
        side.ask(*request)
    found, errors = [], []
    for side in both:
        try:
            found.append(side.answer())
        except TreeError as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return found


@contextlib.contextmanager
def sides(trees: Sequence[Path], kind: str, options: dict[str, Any]) -> Iterator[tuple[Side, Side]]:
    """The processes of the other tree and of this one."""
    started: list[Side] = []
    try:
        started.extend(Side(tree, kind, options) for tree in trees)
        old, new = started
        yield old, new
    finally:
        for side in started:
            side.close()


@contextlib.contextmanager
def tree_of(what: str) -> Iterator[Path]:
    """A folder that has a tree; of a commit, what benchmarks need of it."""
    if Path(what).is_dir():
        yield Path(what).resolve()
        return
    words = ["git", "archive", what, "src", "benchmarks"]
    done = subprocess.run(words, cwd=HERE, capture_output=True, check=False)  # noqa: S603 - git says what is no commit
    if done.returncode:
        raise SystemExit(f"--against: {what!r} is no folder and no commit: {done.stderr.decode().strip()}")
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as files:
            files.extractall(folder, filter="data")
        yield Path(folder).resolve()


def measure(both: tuple[Side, Side], row: Compared, rounds: int, files: Sequence[str] = ()) -> None:
    """Make a row ready in both trees, and add so many rounds to it."""
    try:
        prepared = together(both, "prepare", row.threads, *files)
        row.same_bits = prepared[0][1] == prepared[1][1]
        repeat = max(1, math.ceil(LEAST_SECONDS / max(min(seconds for seconds, _ in prepared), 1e-7)))
        for number in range(rounds):
            times = {}
            for side in both if number % 2 else both[::-1]:
                time.sleep(PAUSE)
                times[side] = side("time", repeat)
            for kept, side in zip((row.old, row.new), both, strict=True):
                kept.append(times[side])
    except TreeError as error:
        row.failed = str(error)


def add_options(parser: argparse.ArgumentParser, threads: str) -> None:
    """Those of a command that has `--against`."""
    parser.add_argument("--against", metavar="COMMIT", help="time the rows of this tree and of another, interleaved: a commit, or a folder that has a tree")  # fmt: skip
    parser.add_argument("--threads", type=lambda text: [*map(int, text.split(","))], default=[2], help=f"{threads}; with --against several, with commas")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=7)


def only_one(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """The number of threads where one alone makes sense."""
    if len(options.threads) > 1:
        parser.error("--threads: several are for --against")
    (threads,) = options.threads
    return int(threads)


Walk = Callable[[tuple[Side, Side], Sequence[str] | None], Iterator[tuple[str, Sequence[str]]]]
"""The names of rows that both sides stand at, and their files; given names, these alone."""


def operators(both: tuple[Side, Side], names: Sequence[str] | None) -> Iterator[tuple[str, Sequence[str]]]:
    """The rows that this tree has, those that the other lacks left out."""
    old, new = both
    wanted = iter(names) if names is not None else iter(lambda: new("next"), None)
    for name in wanted:
        if names is not None:
            new("find", name)
        if old("find", name):
            yield name, ()
        else:
            print(f"{name:46} is not in the other tree", flush=True)


def compare(walk: Walk, kind: str, given: dict[str, Any], options: argparse.Namespace) -> list[Compared]:
    """Print a line for each row and number of threads, and what is left of those that seem to have lost."""
    print(f"{'row':46} threads  {'other':>8} {'this':>10}  ratio    spread")
    found: dict[tuple[str, int], Compared] = {}
    with tree_of(options.against) as tree:
        for number in range(1 + AGAIN):
            lost = [row for row in found.values() if row.seems_lost]
            if number and not lost:
                break
            if number:
                print(f"once more, in other processes: {len(lost)}", flush=True)
            with sides((tree, HERE), kind, given) as both:
                for name, files in walk(both, list(dict.fromkeys(row.name for row in lost)) if number else None):
                    for threads in options.threads:
                        row = found.setdefault((name, threads), Compared(name, threads))
                        if not number or row in lost:
                            measure(both, row, options.rounds, files)
                            print(row, flush=True)
                    if options.json:
                        options.json.write_text(written_rows([*found.values()]))
    for threads in options.threads:
        print(summary([row for row in found.values() if row.threads == threads]))
    return list(found.values())


def summary(rows: Sequence[Compared]) -> str:
    """The mean of rows of one number of threads, and the names of those that lost."""
    timed, lost = [row for row in rows if not row.failed], [row for row in rows if row.has_lost]
    if not rows:
        return "no row has that name"
    text = f"threads {rows[0].threads}: {len(timed)} rows"
    if timed:
        mean = math.exp(statistics.fmean(math.log(row.ratio) for row in timed))
        text += f", the other tree's time over this one's {mean:.3f} on the geometric mean"
        text += (
            f", {min(row.ratio for row in timed):.3f} at worst; {len(lost)} lost more than {LOSS:.0%} beyond its spread"
        )
    for row in lost:
        text += f"\n  LOST: {row.name} ({row.ratio:.3f} +- {row.spread:.3f})"
    for row in rows:
        text += f"\n  FAILED: {row.name}" * bool(row.failed)
    return text


def written_rows(rows: Sequence[Compared]) -> str:
    """The rows as JSON, every round's times in them."""
    return json.dumps([{**vars(row), "ratio": None if row.failed else row.ratio} for row in rows], indent=1)

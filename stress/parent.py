"""The parent: starts the children, sends them signals, reads what they tell, and ends whoever makes no progress."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anydml.engines.webgpu import why_missing
from stress import ROOT, conditions, watch
from stress.spoiling import Cache

if TYPE_CHECKING:
    from stress.report import Report

NO_PROGRESS = 60.0
"""Seconds after which a child that has done no item is ended."""
NO_END = 300.0
"""Seconds that one has computed, after which it is ended, since an item began that has not ended: a queue of
compilations is shorter."""
LINE = 10.0
LINES = 400
"""Of stderr that are shown: a trace of every thread is long."""
HOG = [sys.executable, "-c", "while True: pass"]
STRIPE = 1_000_000
"""Items between the first ones of two children."""
RANDOM, STEADY, GPU = "random", "steady", "webgpu"
ROLES = (RANDOM, STEADY, *conditions.CONDITIONS)


class Child:
    """A process, and what it has told."""

    def __init__(self, role: str, number: int, folder: Path, options: dict[str, Any]) -> None:
        self.role, self.is_ready, self.has_ended = role, False, False
        self.doors, self.pressures = Counter[str](), Counter[str]()
        self.progress, self.oldest = time.monotonic(), (0.0, -1)
        self._waits: dict[str, float] = {}
        self._stderr = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - as below
        self._log = tempfile.NamedTemporaryFile(dir=folder)  # noqa: SIM115 - it is closed with the child
        given = [
            f"--{name}={value}"
            for name, value in {**options, "start": number * STRIPE, "role": role, "log": self._log.name}.items()
        ]
        paths = [str(ROOT), str(ROOT / "src"), str(ROOT / "tests" / "support"), os.environ.get("PYTHONPATH", "")]
        more = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "MALLOC_ARENA_MAX": "2", "TMPDIR": str(folder)}
        if role == "spoiled":
            more["ANYDML_CACHE_DIR"] = str(folder / "cache")
        self.process = subprocess.Popen(  # noqa: S603 - its own program
            [sys.executable, "-m", "stress", *given],
            env={**os.environ, **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
        )
        assert self.process.stdout is not None  # noqa: S101 - for type checkers
        self._stdout = self.process.stdout.fileno()
        os.set_blocking(self._stdout, False)
        self._rest = b""

    def read(self, report: Report) -> None:
        """Take what it has told since."""
        while True:
            try:
                data = os.read(self._stdout, 1 << 16)
            except BlockingIOError:
                break
            if not data:
                break
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                with contextlib.suppress(json.JSONDecodeError):  # one that a signal cut in two
                    self._take(json.loads(line), report)

    def _take(self, message: dict[str, Any], report: Report) -> None:
        self.is_ready = bool(message.get("ready", self.is_ready))
        self.has_ended = bool(message.get("end", self.has_ended))
        if fault := message.get("fault"):
            report.fault(fault, self.role)
        if note := message.get("note"):
            report.note(note)
        if tick := message.get("tick"):
            doors, pressures = Counter(tick["doors"]), Counter(tick["pressures"])
            if doors != self.doors:  # pressures go on around a thread that waits for ever
                self.progress, self._waits = time.monotonic(), watch.waits(self.process.pid)
            report.doors.update(doors - self.doors)
            report.pressures.update(pressures - self.pressures)
            self.doors, self.pressures, self.oldest = doors, pressures, tick["oldest"]

    def is_stuck(self) -> bool:
        """Whether it makes no progress, or one of its threads has none."""
        idle = time.monotonic() - self.progress
        if idle > NO_PROGRESS:  # which a thread that waits for a CPU cannot help
            waits = watch.waits(self.process.pid)
            idle -= max((seconds - self._waits.get(thread, 0.0) for thread, seconds in waits.items()), default=0.0)
        return idle > NO_PROGRESS or self.oldest[0] > NO_END

    def kill(self) -> None:
        """End it, and it alone."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()

    def end_stuck(self, report: Report) -> None:
        """Have it say where it stands, and end it."""
        self.process.send_signal(signal.SIGUSR1)
        time.sleep(1)
        self.kill()
        text = f"no progress for {time.monotonic() - self.progress:.0f} s, an item for {self.oldest[0]:.0f}\n"
        text += self.stderr()
        report.fault({"kind": "hang", "text": text, **self.under_way()}, self.role)

    def under_way(self) -> dict[str, Any]:
        """The items that it was at, which it notes as it goes: of a thread each."""
        found = [int(number) for number in Path(self._log.name).read_text().replace("\0", " ").split()]
        others = f"items under way: {', '.join(map(str, found))}" if len(found) > 1 else ""
        oldest = self.oldest[1] if self.oldest[1] >= 0 else None
        return {"item": found[0] if len(found) == 1 else oldest, "about": others}

    def stderr(self) -> str:
        """The end of what it wrote there, faulthandler's trace among it."""
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").splitlines()
        kept = [line for line in lines if not line.startswith("anydml: compiling")]
        return "\n".join(kept[-LINES:])

    def ended(self, report: Report) -> None:
        """It is over: well, or by a signal or an exception that nobody caught."""
        self.read(report)
        status = self.process.returncode
        if status or not self.has_ended:
            cause = signal.Signals(-status).name if status < 0 else f"exit status {status}"
            report.fault({"kind": "crash", "text": f"{cause}\n{self.stderr()}", **self.under_way()}, self.role)

    def close(self) -> None:
        """Let go of its files."""
        self._stderr.close()
        self._log.close()
        assert self.process.stdout is not None  # noqa: S101 - for type checkers
        self.process.stdout.close()


class Parent:
    """Everything at once, for so long."""

    def __init__(self, report: Report, seconds: float, threads: int, workers: int, roles: tuple[str, ...]) -> None:
        self.report, self.seconds, self.threads, self.workers, self.roles = report, seconds, threads, workers, roles
        self.folder = Path(tempfile.mkdtemp(prefix="anydml-stress-"))
        self.children: list[Child] = []
        self._cache = Cache(self.folder)
        self._count = 0
        self._hog: subprocess.Popen[bytes] | None = None
        self._chance = random.Random()  # noqa: S311 - when something happens is not part of an item
        self._next_line, self._next_act = 0.0, 0.0
        if not watch.is_possible():
            report.note("leaks and limits are left out: the system has no /proc")
            self.roles = tuple(role for role in roles if role == RANDOM)
        if GPU in self.roles and (why := why_missing()):
            report.note(f"the webgpu engine is left out: {why}")
            self.roles = tuple(role for role in self.roles if role != GPU)

    def run(self) -> None:
        """Until the time is over and every child has ended."""
        deadline = time.monotonic() + self.seconds
        try:
            while self.children or time.monotonic() < deadline:
                if (left := deadline - time.monotonic()) > 0:
                    self._start_missing(left)
                    self._press()
                self._look()
                time.sleep(0.02)
        finally:
            self._stop_hog()
            for child in self.children:
                child.kill()
                child.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _start_missing(self, left: float) -> None:
        """Workers that are as long as the run, and one child of each condition after the other."""
        running = Counter(child.role for child in self.children)
        for role in self.roles:
            for _ in range((self.workers if role == RANDOM else 1) - running[role]):
                options = {"seed": self.report.seed, "seconds": max(left, 1.0), "threads": self.threads}
                number = self._count
                if role == "spoiled":  # the same items, for the same kernels
                    number = 0
                    self.report.pressures.update(f"cache: {name}" for name in self._cache.before_child() if name)
                self.children.append(Child(role, number, self.folder, options))
                self._count += 1
                self.report.pressures[f"children: {role}"] += 1

    def _press(self) -> None:
        """Send a signal, spoil an entry of the cache, start or stop a hog."""
        if time.monotonic() < self._next_act:
            return
        self._next_act = time.monotonic() + self._chance.uniform(0.01, 0.2)
        for child in self.children:
            if child.is_ready and child.process.poll() is None:
                child.process.send_signal(signal.SIGINT)
                self.report.pressures["signals sent"] += 1
        if self._chance.random() < 0.1 and (name := self._cache.spoil()):
            self.report.pressures[f"cache: {name}"] += 1
        if self._chance.random() < 0.02:
            if self._hog is None:
                self._hog = subprocess.Popen(HOG)  # noqa: S603 - its own program
                self.report.pressures["hogs"] += 1
            else:
                self._stop_hog()

    def _stop_hog(self) -> None:
        hog, self._hog = self._hog, None
        if hog is not None:
            hog.kill()
            hog.wait()

    def _look(self) -> None:
        for child in [*self.children]:
            child.read(self.report)
            if child.process.poll() is not None:
                child.ended(self.report)
            elif child.is_stuck():
                child.end_stuck(self.report)
            else:
                continue
            self.children.remove(child)
            child.close()
        if time.monotonic() > self._next_line:
            self._next_line = time.monotonic() + LINE
            self.report.line(Counter(child.role for child in self.children))

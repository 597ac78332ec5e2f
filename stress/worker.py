"""A child process: items from many threads, under pressure, and what it holds before and after."""

from __future__ import annotations

import faulthandler
import itertools
import os
import random
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from stress import items, models, pressures, watch
from stress.messages import Teller

if TYPE_CHECKING:
    from collections.abc import Iterator

TICK = 0.5
FORKED_ITEMS, STEADY_ITEMS = 3, 60
LOOSE, TIGHT = 384 * 2**20, 24 * 2**20
"""How much memory may grow: while new kernels and programs come and go, and while the same items are repeated."""
SPARE = 8
"""Descriptors that interrupts may cost, each of which may come between an open and its `with`; items are thousands."""
INTERRUPTS = 2000
"""For each so many of them one more."""


def _stumbled(error: Exception) -> bool:
    """Whether Python's own library fell over an interrupt, as its removal of a folder does: no code of ours raised it."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, KeyboardInterrupt):
        found = found.__context__
    frames = traceback.extract_tb(error.__traceback__)
    # Two leave no context: a Condition of `threading` that is hit as it waits, and NumPy's question whether an open file
    # is a path, whose failure it takes for yes.
    last = frames[-1].filename
    if (str(error) == "release unlocked lock" and last == threading.__file__) or (
        str(error).endswith("PathLike object, not BufferedReader") and last.startswith(str(Path(np.__file__).parent))
    ):
        found = error
    ours = str(Path(dml.__file__).parent)
    return found is not None and not any(frame.filename.startswith(ours) for frame in frames)


class Worker:
    """Items in a row, each once, by any of the threads."""

    def __init__(self, seed: int, start: int, seconds: float, threads: int, log: str, *, steady: int = 0) -> None:
        self.seed, self.seconds, self.threads, self.steady = seed, seconds, threads, steady
        self.tell = Teller(os.dup(1))
        os.dup2(2, 1)  # whatever prints does not get among the messages
        self.doors, self.pressures = Counter[str](), Counter[str]()
        plain = (n for n in itertools.count(start) if items.door_of(seed, n) in items.PLAIN)
        chosen = list(itertools.islice(plain, steady))
        self._repeated = chosen
        self._numbers: Iterator[int] = itertools.cycle(chosen) if steady else itertools.count(start)
        self._at: dict[int, tuple[float, int]] = {}
        self._log, self._lanes = os.open(log, os.O_WRONLY), itertools.count()
        self._own = threading.local()
        self._is_over, self._rests = threading.Event(), threading.Event()

    # The threads

    def is_busy(self) -> bool:
        """Whether work goes on."""
        return not self._is_over.is_set() and not self._rests.is_set()

    def next_number(self) -> int:
        """The next item of a door that this worker takes."""
        return next(n for n in self._numbers if items.door_of(self.seed, n) in items.PLAIN)

    def do(self, number: int) -> Any:
        """Do an item; its work, where it was right."""
        work = None
        self.begin(number)
        try:
            work = items.make(self.seed, number)
            said = work.judge()
        except Exception as error:  # noqa: BLE001 - whatever is no DmlError is a fault
            if _stumbled(error):
                raise KeyboardInterrupt from None
            if isinstance(error, SystemError) and "AST constructor recursion depth" in str(error):
                return None  # Python's own, where two threads parse literals at once (its issue 106905)
            self.tell.fault("bare", traceback.format_exc(), number, work.about if work else "")
            return None
        finally:
            self.begin(None)
        self.doors[work.door] += 1
        if said:
            self.tell.fault("wrong", said, number, work.about)
        return None if said else work

    def begin(self, number: int | None) -> None:
        """Note what this thread is at, where a crash leaves it: nothing, where it is at nothing."""
        if not hasattr(self._own, "lane"):
            self._own.lane = next(self._lanes)
        lane: int = self._own.lane
        if number is None:
            self._at.pop(lane, None)
        else:
            self._at[lane] = time.process_time(), number
        os.pwrite(self._log, f"{'' if number is None else number:>15}\n".encode(), lane * 16)

    def _loop(self) -> None:
        chance = random.Random()  # noqa: S311 - when something happens is not part of an item
        while self.is_busy():
            number = self.next_number()
            work = self.do(number)
            if self.steady or work is None:
                continue
            if chance.random() < 0.02 and hasattr(os, "fork"):
                pressures.fork(self, [self.next_number() for _ in range(FORKED_ITEMS)])
            elif work.is_lean and chance.random() < 0.05:
                pressures.on_small_stack(self, work.judge, number)

    def _tick(self) -> None:
        while not self._is_over.wait(TICK):
            self.tick()

    def tick(self) -> None:
        """Tell how far it is."""
        now = time.process_time()  # a process that others keep from computing is not to blame
        oldest = max(((now - since, number) for since, number in list(self._at.values())), default=(0.0, -1))
        self.tell(tick={"doors": dict(self.doors), "pressures": dict(self.pressures), "oldest": oldest})

    # From start to end

    def run(self) -> None:
        """Warm up, look, work, look again."""
        self.prepare()
        self._load_all()
        self._phase(self.seconds * 0.4)
        watch_it = watch.is_possible()
        if watch_it:
            watch.fill_team()
            before = watch.Held.now()
        self._phase(self.seconds * 0.6)
        if watch_it:
            spare = SPARE + self.pressures["interrupts"] // INTERRUPTS
            for leak in watch.find_leaks(before, *((TIGHT, 0) if self.steady else (LOOSE, spare))):
                self.tell.fault("leak", f"{leak}, after {sum(self.doors.values())} items")
        self._is_over.set()
        self.tick()
        self.tell(end=True)

    def prepare(self) -> None:
        """Have crashes and exceptions told that nobody catches."""
        faulthandler.enable()
        faulthandler.register(signal.SIGUSR1, all_threads=True)
        warnings.filterwarnings("ignore", category=DeprecationWarning)  # of forks in a process with threads
        sys.unraisablehook = self._unraisable
        threading.excepthook = self._unraisable
        if note := models.note():
            self.tell(note=note)

    def _load_all(self) -> None:
        import llvmlite.binding  # noqa: F401 - an import that is interrupted is not anydml's affair

        threading.Thread(target=self._tick, daemon=True).start()
        if models.IS_THERE:
            models.known_models()
        for number in self._repeated:  # or every one of those that are repeated, for their kernels
            self.do(number)
        left = set() if self.steady else set(items.PLAIN)
        while left:  # one of each, so that every module is there: a fork does not go well with an import
            number = self.next_number()
            if (door := items.door_of(self.seed, number)) in left:
                left.remove(door)
                self.do(number)
        if not self.steady:
            self._signals = pressures.Signals(self)
        self.tell(ready=not self.steady)

    def _unraisable(self, raised: Any) -> None:
        """An exception that nobody could catch; finalisers of Python's own that an interrupt leaves half made are not ours."""
        roots = (str(Path(dml.__file__).parent), str(Path(__file__).parent))
        is_ours = any(frame.filename.startswith(roots) for frame in traceback.extract_tb(raised.exc_traceback))
        if is_ours and not isinstance(raised.exc_value, KeyboardInterrupt):
            trace = "".join(traceback.format_exception(raised.exc_value))
            self.tell.fault("bare", f"in a thread or a callback: {trace}")

    def _phase(self, seconds: float) -> None:
        """Work for so long, the main thread too, which alone is interrupted."""
        self._rests.clear()
        works = [threading.Thread(target=self._loop) for _ in range(self.threads)]
        if not self.steady:
            works.append(threading.Thread(target=pressures.change_threads, args=(self,)))
        for thread in works:
            thread.start()
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if self.steady:
                time.sleep(min(left, TICK))
            else:
                self._signals.run(lambda: self.do(self.next_number()))
        self._rests.set()
        for thread in works:
            thread.join()

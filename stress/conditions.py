"""Children that start anew under a condition: limits, a spoiled cache, odd files."""

from __future__ import annotations

import itertools
import os
import random
import resource
import threading
import time
import traceback
from pathlib import Path

import anydml as dml
from stress import items
from stress.watch import MOST_THREADS
from stress.work import JUDGED
from stress.worker import Worker

NOBODY = 54321
"""A user of whom there is no process."""
MIB = 2**20
MOST_MEMORY = 3072 * MIB
"""The memory of a child that reads what it should not."""
POOL = 5
"""Items of which a spoiled cache has the kernels."""
_chance = random.Random()  # noqa: S311 - when something happens is not part of an item


class Condition(Worker):
    """A child of a few items under a condition."""

    def run(self) -> None:
        """Do what the condition says, and say how it went."""
        self.prepare()
        threading.Thread(target=self._tick, daemon=True).start()
        self.tell(ready=False)
        self.under_condition()
        self._is_over.set()
        self.tick()
        self.tell(end=True)

    def under_condition(self) -> None:
        """Do the items."""
        raise NotImplementedError

    def take(self, doors: tuple[str, ...], count: int) -> list[int]:
        """The next items of some doors."""
        return list(itertools.islice((n for n in self._numbers if items.door_of(self.seed, n) in doors), count))

    def do_within_limits(self, number: int) -> None:
        """An item for which there may be no memory: what Python says then is right too."""
        self.begin(number)
        try:
            work = items.make(self.seed, number)
            said = work.judge()
        except MemoryError:
            self.pressures["memory refused"] += 1
        except Exception:  # noqa: BLE001 - whatever it is, it is a fault
            self.tell.fault("bare", "under a limit: " + traceback.format_exc(), number)
        else:
            self.doors[work.door] += 1
            if said:
                self.tell.fault("wrong", f"under a limit: {said}", number, work.about)
        finally:
            self.begin(None)

    def limit_memory(self, more: int) -> None:
        """Set the most address space to what there is and some more."""
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more, resource.RLIM_INFINITY))
        self.pressures["memory limits"] += 1


class Limited(Condition):
    """Items with all their kernels loaded, then again with no memory to spare, then with no more threads."""

    def under_condition(self) -> None:
        """Free, with little memory, without new threads."""
        numbers = self.take(items.LEAN, 12)
        for threads in (MOST_THREADS, 2):  # the kernels of both: a new user may not be able to read modules' files
            dml.set_num_threads(threads)
            for number in numbers:
                self.do(number)
        self.limit_memory(_chance.choice((1, 4, 16, 64)) * MIB)
        for number in numbers:
            self.do_within_limits(number)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        if os.geteuid() == 0:
            os.setuid(NOBODY)  # root has no limit
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        self.pressures["thread limits"] += 1
        dml.set_num_threads(MOST_THREADS)
        for number in numbers:
            self.do_within_limits(number)


class Spoiled(Condition):
    """A few items of few kernels, whose cache somebody spoils; on one core at times."""

    def under_condition(self) -> None:
        """Do them from several threads."""
        self.limit_memory(MOST_MEMORY)
        if hasattr(os, "sched_setaffinity") and _chance.random() < 0.5:
            os.sched_setaffinity(0, {_chance.choice(sorted(os.sched_getaffinity(0)))})
            self.pressures["single cores"] += 1
        pool = self.take(("function", "compiled", "objects"), POOL)
        dml.set_num_threads(4)
        threads = [threading.Thread(target=self._do_all, args=(_chance.sample(pool, 3),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _do_all(self, numbers: list[int]) -> None:
        for number in numbers:
            self.do_within_limits(number)


class Odd(Condition):
    """Files with changed bytes, with so much memory."""

    def under_condition(self) -> None:
        """One by one."""
        self.limit_memory(MOST_MEMORY)
        for number in self.take(("odd",), 150):
            self.do_within_limits(number)


class Gpu(Condition):
    """Items by every door on the first adapter that WebGPU reaches, from several threads."""

    def under_condition(self) -> None:
        """Do them for as long as others do theirs."""
        os.environ[JUDGED] = "webgpu"
        threads = [threading.Thread(target=self._loop) for _ in range(self.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _loop(self) -> None:
        until = time.monotonic() + self.seconds
        while time.monotonic() < until:
            self.do(self.next_number())


CONDITIONS: dict[str, type[Condition]] = {"limited": Limited, "spoiled": Spoiled, "odd": Odd, "webgpu": Gpu}

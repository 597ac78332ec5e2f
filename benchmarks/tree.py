"""One tree's side of `--against`: a process that makes rows ready and times them, as lines of JSON ask.

It is run by its path, with the root and the `src` of a tree on Python's: `anydml`, `benchmarks` and the rows are that
tree's, so that this file asks them only for what trees of any age have.
"""

from __future__ import annotations

import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import anydml as dml


class Ready(NamedTuple):
    """A row that was compiled, and has run."""

    time: Callable[[int], float]
    """Seconds a call, of so many."""
    digest: int
    """Of its answer's bits."""


def by_host(compute: Callable[[], object]) -> Callable[[int], float]:
    """Times calls by the host's clock."""

    def timed(repeat: int) -> float:
        start = time.perf_counter()
        for _ in range(repeat):
            compute()
        return (time.perf_counter() - start) / repeat

    return timed


class CpuRows:
    """The rows of the cpu engine, in order: each is made when its turn comes, as only one may be in memory."""

    def __init__(self, engine: str, *, quick: bool, growth: bool, only: str) -> None:
        self.device = dml.Device(engine)
        self.given = (quick, growth, only)

    def __iter__(self) -> Iterator[Any]:
        from benchmarks.cpu.choosing import choosing
        from benchmarks.cpu.products import products
        from benchmarks.cpu.rows import rows
        from benchmarks.cpu.windows import windows

        quick, growth, only = self.given
        rng = np.random.default_rng(0)
        others = (make for several in (products, windows, choosing) for make in several(rng, quick, only=only))
        for make in (*rows(quick, growth), *others):
            row = make()
            if only in row.name and (not row.is_model or find_spec("onnx")):
                yield row
            del row

    def prepare(self, row: Any, threads: int) -> Ready:
        from benchmarks.cpu import contestants

        dml.set_num_threads(threads)
        make = contestants.ours_as_model if row.is_model else contestants.ours
        compute, answer = make(row, self.device)
        compute()
        return Ready(by_host(compute), zlib.crc32(np.asarray(answer()).tobytes()))


class CudaRows:
    """The rows of the cuda engine."""

    def __init__(
        self, engine: str, *, quick: bool, growth: bool, only: str, place: str = "cuda", side: int | None = None
    ) -> None:
        """Another device of PyTorch's and a side of a few elements are for tests."""
        from benchmarks.cuda.clock import Clock
        from benchmarks.cuda.pool import Pool
        from benchmarks.cuda.rows import QUICK_SIDE, SIDE, rows

        self.device, self.pool, self.clock = dml.Device(engine), Pool(place), Clock(place)
        self.cache = 0 if side else 60 * 2**20
        made = rows(self.pool, side or (QUICK_SIDE if quick else SIDE), quick=quick, growth=growth)
        self.rows = [row for row in made if only in row.name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def prepare(self, row: Any, _threads: int) -> Ready:
        import torch

        from benchmarks.cuda import contestants

        count = 1 if row.is_call else max(-(-4 * self.cache // max(row.lines or row.bytes, 1)), 1)
        sets = row.sets(count)
        outs = self.pool.room(row.output.data_type.name.lower(), row.output.sizes, count)
        ours = contestants.ours(row, sets, outs, self.device)
        for call in ours.calls:
            call()
        self.clock.synchronize()

        def timed(repeat: int) -> float:
            device, host = self.clock.time(ours, repeat, hide_launch=not row.is_call)
            return host if row.is_call else device

        return Ready(timed, int(outs[0].contiguous().view(torch.uint8).sum(dtype=torch.int64)))


class Models:
    """ONNX models: a row is a file, and a file of its inputs."""

    def __init__(self) -> None:
        self._path = ""
        self._loaded: dict[int, Any] = {}
        """By the number of threads: plans are made for one."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def prepare(self, row: tuple[str, str], threads: int) -> Ready:
        import anydml.onnx

        path, feeds = row
        dml.set_num_threads(threads)
        if self._path != path:
            self._loaded.clear()
            self._path = path
        if threads not in self._loaded:
            self._loaded[threads] = anydml.onnx.load(path)
        model = self._loaded[threads]
        with np.load(feeds) as file:
            given = dict(file)
        answers = model.run(given).values()
        model.run(given)
        return Ready(by_host(lambda: model.run(given)), zlib.crc32(b"".join(map(np.ndarray.tobytes, answers))))


def serve(rows: Any, requests: Iterator[str], reply: Callable[[object], None]) -> None:
    """Answer each request: the next row's name, whether there is one of a name, a row made ready, a time."""
    walk: Iterator[Any] = iter(rows)
    row: Any = None
    ready: Ready | None = None
    for line in requests:
        what, *given = json.loads(line)
        try:
            if what == "next":
                ready = row = None
                row = next(walk, None)
                reply(row and row.name)
            elif what == "find":  # what is left of the walk, and else another from the start
                ready = row = None
                for walk in (walk, iter(rows)):  # noqa: B020 - the walk that found it is gone on with
                    row = next((one for one in walk if one.name == given[0]), None)
                    if row is not None:
                        break
                reply(row is not None)
            elif what == "prepare":
                threads, *files = given
                ready = None
                ready = rows.prepare(files or row, threads)
                ready.time(1)
                reply([ready.time(1), ready.digest])
            elif ready is not None:
                reply(ready.time(*given))
        except Exception as error:  # noqa: BLE001 - whatever a tree says is told to whoever asked
            reply({"error": f"{type(error).__name__}: {error}"})


def main() -> None:
    # What kernels or libraries print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def reply(value: object) -> None:
        print(json.dumps(value), file=answers, flush=True)

    kind, options = json.loads(sys.argv[1])
    make = {"cpu": CpuRows, "cuda": CudaRows, "models": Models}[kind]
    reply(str(Path(dml.__file__).parents[2]))
    serve(make(**options), iter(sys.stdin), reply)


if __name__ == "__main__":
    main()

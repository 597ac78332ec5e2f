"""A plugin for Dask's workers: threads that fit the machine, and kernels that are compiled before they are needed."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from distributed import WorkerPlugin
from tornado.ioloop import PeriodicCallback

from anydml.engines.common.cache import Entry
from anydml.engines.common.cores import count_cores
from anydml.engines.common.threads import set_num_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_EVERY = 5000
"""Milliseconds between two looks at how many workers share the machine."""


class AnydmlPlugin(WorkerPlugin):  # type: ignore[misc]  # Dask has no types
    """For `client.register_plugin(AnydmlPlugin())`: a worker's threads times those of a dispatch fit its cores.

    The cores of a machine are shared out among the workers on it; `cores` says how many each has instead. `warm` are
    functions that are called once in every worker, to have kernels compiled before data come: the first worker of a
    machine compiles them, and the others, which wait for it, load them.
    """

    name = "anydml"

    def __init__(self, cores: int | None = None, warm: Sequence[Callable[[], object]] = ()) -> None:
        self.cores, self.warm = cores, tuple(warm)

    async def setup(self, worker: Any) -> None:
        """Share the cores out, now and as workers come and go; then warm up."""
        await self._share(worker)
        if self.cores is None:
            again = PeriodicCallback(lambda: self._share(worker), _EVERY)
            worker.periodic_callbacks["anydml"] = again
            again.start()
        if self.warm:
            await worker.loop.run_in_executor(None, self._warm)

    async def _share(self, worker: Any) -> None:
        cores = self.cores
        if cores is None:
            known = await worker.scheduler.identity()
            here = [one for one in known["workers"].values() if one["host"] == worker.ip]
            cores = count_cores() // max(len(here), 1)
        set_num_threads(max(cores // worker.state.nthreads, 1))

    def _warm(self) -> None:
        names = repr([getattr(one, "__qualname__", repr(one)) for one in self.warm])
        with Entry("warm", hashlib.sha256(names.encode()).hexdigest()[:16], "any").claim():
            for one in self.warm:
                one()

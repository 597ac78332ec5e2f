"""Faults put in on purpose, to see that they are found: ANYDML_STRESS_PLANT=wrong, bare, crash, hang, memory, …"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from stress.work import Array, Work

EVERY = 5
"""Every fifth item has the fault."""
LEAKED = 8 * 2**20
_kept: list[object] = []


def _wrong(results: list[Array]) -> None:
    results.append(np.zeros(1))


def _bare(_: list[Array]) -> None:
    raise KeyError("planted")


def _crash(_: list[Array]) -> None:
    ctypes.string_at(8)


def _hang(_: list[Array]) -> None:
    time.sleep(10_000)


def _memory(_: list[Array]) -> None:
    _kept.append(np.ones(LEAKED, np.uint8))


def _descriptor(_: list[Array]) -> None:
    _kept.append(os.open(os.devnull, os.O_RDONLY))


def _thread(_: list[Array]) -> None:
    threading.Thread(target=time.sleep, args=(10_000,), daemon=True).start()


FAULTS: dict[str, Callable[[list[Array]], None]] = {
    "wrong": _wrong,
    "bare": _bare,
    "crash": _crash,
    "hang": _hang,
    "memory": _memory,
    "descriptor": _descriptor,
    "thread": _thread,
}


def plant(work: Work, number: int) -> Work:
    """The same work; with a fault, where one is asked for."""
    kind = os.environ.get("ANYDML_STRESS_PLANT", "")
    if not kind or number % EVERY:
        return work

    def got() -> list[Array]:
        results = list(work.got())
        FAULTS[kind](results)
        return results

    return replace(work, got=got)

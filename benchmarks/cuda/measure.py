"""Measures a row: answers are checked first, then contestants are timed round by round."""

from __future__ import annotations

import statistics
import time
import traceback
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

import anydml as dml
from benchmarks.cuda import contestants
from benchmarks.cuda.check import fault, is_roughly
from benchmarks.cuda.clock import Clock, remark, time_limit
from benchmarks.cuda.contestants import PEERS, Contestant, Sets
from benchmarks.cuda.kinds import CudaRow
from benchmarks.cuda.pool import Pool, Tensor, signed
from benchmarks.results import Result, result

POISON = 0xA5
LEAST_SECONDS = 200e-6
"""One measurement is of as many calls as take this long, up to MOST_CALLS."""
MOST_CALLS = 100
LAUNCHES = 1000
PEER_SECONDS = 0.4
"""A peer that is slow is timed in fewer rounds: as many as fit, and one at the least."""
PREPARE_SECONDS = 15.0
TRACE = 1500


@dataclass
class Bench:
    """What every row is measured with."""

    engine: dml.Device
    pool: Pool
    clock: Clock
    peers: tuple[str, ...]
    cache: int
    """The bytes of the device's last cache."""
    rounds: int = 10
    allowances: dict[str, float] = field(default_factory=dict)
    """Seconds left to each peer for getting ready, over all rows: importing, compiling, a first call."""


def measure(row: CudaRow, bench: Bench) -> Result:
    """A row's figures; ours wrong or failing is said in them, a peer's failing leaves it out."""
    footprint = 4 * bench.cache
    count = 1 if row.is_call else -(-footprint // max(row.lines or row.bytes, 1))
    try:
        sets = row.sets(count)
        outs = bench.pool.room(row.output.data_type.name.lower(), row.output.sizes, count)
        start = time.perf_counter()
        entered = {"anydml": contestants.ours(row, sets, outs, bench.engine)}
        outs[0].view(torch.uint8).fill_(POISON)
        entered["anydml"].calls[0]()
        bench.clock.synchronize()
        compiling = time.perf_counter() - start
        wrong = fault(row, list(sets[0]), outs[0])
    except Exception as error:  # noqa: BLE001 - the other rows are still to come
        remark(f"  ours failed: {brief(error)}\n{traceback.format_exc()[-TRACE:]}")
        return result(row, {}, error=brief(error))
    if wrong:
        remark(f"  OUR ANSWER IS WRONG: {wrong}")
    right = None if wrong else outs[0].clone()
    if row.family != "compile":
        entered |= _peers(row, bench, sets, outs, right)
    del right
    if not row.is_call:
        entered["copy"] = contestants.copy(row, bench.pool, footprint)
    pairs = _rounds(row, bench, entered)
    timings = {name: [device for device, _ in times] for name, times in pairs.items()}
    more: dict[str, Any] = {
        "wrong": bool(wrong),
        "compile_seconds": compiling,
        "least": {name: min(t) for name, t in timings.items()},
    }
    seconds = {name: statistics.median(t) for name, t in timings.items()}
    if row.family == "launch" and "anydml" in seconds:
        host = {name: statistics.median(by_host for _, by_host in times) for name, times in pairs.items()}
        more |= {"device_us": seconds["anydml"] * 1e6, "host_us": host["anydml"] * 1e6, "host_seconds": host}
    if wrong:
        more["fault"] = wrong
    if "anydml" not in seconds:
        more["error"] = "it ran once, and then failed"
    return result(row, seconds, **more)


def _peers(row: CudaRow, bench: Bench, sets: Sets, outs: list[Tensor], right: Tensor | None) -> dict[str, Contestant]:
    """The peers that can, and a chain's single pass, each with an answer that was found right."""
    theirs, targets = [[signed(x) for x in inputs] for inputs in sets], [signed(out) for out in outs]
    entered = {}
    enter = {"single": partial(contestants.single, engine=bench.engine)} | {name: PEERS[name] for name in bench.peers}
    for name, make in enter.items():
        left = bench.allowances.get(name, PREPARE_SECONDS)
        if left <= 0:
            continue
        start = time.perf_counter()
        try:
            with time_limit(min(left, PREPARE_SECONDS)):
                peer = make(row, theirs, targets)
                if peer is None:
                    continue
                outs[0].view(torch.uint8).fill_(POISON)
                bench.clock.synchronize()
                answer = peer.answer(targets[0])
                bench.clock.synchronize()
            if right is None or is_roughly(row, answer, signed(right)):
                entered[name] = peer
            else:
                remark(f"  {name} is left out: its answer is not ours")
            del answer
        except ImportError as error:
            bench.allowances[name] = 0
            remark(f"  {name} is left out of every row: {brief(error)}")
            continue
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the peer's
            remark(f"  {name} is left out: {brief(error)}")
        bench.allowances[name] = left = left - (time.perf_counter() - start)
        if left <= 0:
            remark(f"  {name} is left out from here on: the time for getting it ready is spent")
    return entered


def _rounds(row: CudaRow, bench: Bench, entered: dict[str, Contestant]) -> dict[str, list[tuple[float, float]]]:
    """Every contestant's times, the device's and the host's, one contestant after the other in each round."""
    launch = row.family == "launch"
    repeat: dict[str, int] = {}
    rounds: dict[str, int] = {}
    timings: dict[str, list[tuple[float, float]]] = {name: [] for name in entered}

    def once(name: str, calls: int) -> tuple[float, float] | None:
        try:
            return bench.clock.time(entered[name], calls, hide_launch=not row.is_call)
        except Exception as error:  # noqa: BLE001 - it is left out, and the others go on
            remark(f"  {name} is left out: {brief(error)}")
            del entered[name], timings[name]
            return None

    for name in list(entered):
        if (first := once(name, 1)) is None:
            continue
        estimate = max(first[0], 1e-7)
        repeat[name] = LAUNCHES if launch else max(1, min(MOST_CALLS, round(LEAST_SECONDS / estimate)))
        limit = PEER_SECONDS if name in bench.peers else 5 * PEER_SECONDS
        rounds[name] = bench.rounds if launch else max(1, min(bench.rounds, int(limit / (estimate * repeat[name]))))
        if rounds[name] == 1:
            timings[name].append(first)
    for number in range(bench.rounds):
        for name in list(entered):
            if number < rounds[name] and (times := once(name, repeat[name])) is not None:
                timings[name].append(times)
    return timings


def brief(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}"[:300]

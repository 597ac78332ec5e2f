"""What a dispatch, a submit and a read cost the host on the webgpu engine, whatever the device.

    python -m benchmarks.webgpu.host [--adapter N] [--mib 256]

Dispatches on tiny tensors are appended without waiting for any, and the time is that of this thread, whatever else the
machine does. They are recorded into a command buffer when it is submitted, which is measured beside.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.core.device_memory import memories

if TYPE_CHECKING:
    from collections.abc import Callable

MANY = 256
"""Dispatches that are appended at once: they fill the table in half."""
ASKED = {"replayed, recorded and submitted": 1.5, "a function, out=": 3, "an empty submit": 30, "4 bytes back": 75}
"""Microseconds."""


def each(
    run: Callable[[], Any],
    wait: Callable[[], Any],
    times: int = MANY,
    rounds: int = 25,
    clock: Callable[[], float] = time.thread_time,
) -> float:
    """Microseconds of one run among several, of which nobody waits for one: the least of rounds."""
    found = []
    for _ in range(rounds):
        wait()
        begin = clock()
        for _ in range(times):
            run()
        found.append((clock() - begin) / times * 1e6)
    return min(found)


def figures(device: dml.Device) -> dict[str, float]:
    """Microseconds, by what they are of."""
    memory: Any = memories[device.engine.memory]
    x, y, out = (dml.to_device(np.ones(64, np.float32), device) for _ in range(3))
    tensor = dml.TensorDesc("float32", (64,))
    bound = device.compile(dml.ElementWiseAdd1(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)).bind(
        x, y, out=out
    )
    graph = dml.Graph(device)
    last = graph.input("float32", (64,), "x")
    for _ in range(16):  # a running sum joins no other step
        last = dml.cumulative_summation(last, axis=0)
    many = graph.compile(last)
    chain = many.bind(x, out=out)
    steps = len(many.plan.programs)
    more = [dml.to_device(np.ones(64, np.float32), device) for _ in range(300)]
    turns = iter(range(10**9))
    submit, wait = memory.queue.submit, memory.wait

    def recorded(times: int) -> float:
        wait()
        begin = time.thread_time()
        for _ in range(times):
            bound.dispatch()
        submit()
        return time.thread_time() - begin

    def submitted() -> float:
        """A submit of one dispatch."""
        wait()
        bound.dispatch()
        begin = time.thread_time()
        submit()
        return (time.thread_time() - begin) * 1e6

    def fresh() -> None:
        dml.add1(x, more[next(turns) % 300], out=out)

    dml.add1(x, y, out=out), dml.add1(x, y)
    found = {"replayed": each(bound.dispatch, wait)}
    found["replayed, recorded and submitted"] = (
        (min(recorded(500) for _ in range(15)) - min(recorded(100) for _ in range(15))) / 400 * 1e6
    )
    found[f"a step of a graph of {steps}"] = each(chain.dispatch, wait, MANY // steps) / steps
    found["a function, out="] = each(lambda: dml.add1(x, y, out=out), wait)
    found["a function, out=, other arrays each time"] = each(fresh, wait)
    found["a function"] = each(lambda: dml.add1(x, y), wait)
    found["an empty submit"] = min(submitted() for _ in range(99))
    found["4 bytes back"] = each(lambda: memory.read(out.address, 4), wait, 40, clock=time.perf_counter)
    found["an array of 4 bytes back"] = each(out[:1].numpy, wait, 40, clock=time.perf_counter)
    return found


def copies(device: dml.Device, size: int) -> dict[str, float]:
    """GB/s of arrays to the device and back."""
    data = np.ones(size // 4, np.float32)
    there = dml.to_device(data, device)
    found = {}
    for name, run in (("to the device", lambda: there.copy_from(data)), ("back", there.numpy)):
        taken = []
        for _ in range(5):
            begin = time.perf_counter()
            run()
            memories[device.engine.memory].wait()
            taken.append(time.perf_counter() - begin)
        found[name] = size / min(taken) / 1e9
    return found


def main() -> None:
    """Print them."""
    parser = argparse.ArgumentParser(prog="benchmarks.webgpu.host", description=__doc__)
    parser.add_argument("--adapter", type=int, default=0)
    parser.add_argument("--mib", type=int, default=256, help="of an array that is copied")
    options = parser.parse_args()
    device = dml.Device(f"webgpu:{options.adapter}")
    for name, taken in figures(device).items():
        print(f"{name:44} {taken:9.2f} us  {f'asked {ASKED[name]}' if name in ASKED else ''}")
    for name, speed in copies(device, options.mib << 20).items():
        print(f"{name:44} {speed:9.2f} GB/s")


if __name__ == "__main__":
    main()

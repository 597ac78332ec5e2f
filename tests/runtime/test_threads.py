"""One compiled operator, many threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import anydml as dml


def test_eight_threads_dispatch_one_operator_on_buffers_of_their_own(engine: str) -> None:
    tensor = dml.TensorDesc("int32", (64, 257))
    desc = dml.CumulativeSummation(input_tensor=tensor, output_tensor=tensor, axis=1, axis_direction="decreasing")
    run = dml.Device(engine).compile(desc)
    start = threading.Barrier(8)

    def work(seed: int) -> bool:
        x = np.random.default_rng(seed).integers(-1000, 1000, (64, 257), "int32")
        expected = np.cumsum(x[:, ::-1], axis=1, dtype="int32")[:, ::-1]
        out = np.empty_like(x)
        bound = run.bind(x, out=out)
        start.wait()
        for _ in range(50):
            out[...] = 0
            bound.dispatch()
            if not np.array_equal(out, expected) or not np.array_equal(run(x), expected):
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_functions_from_many_threads_share_one_cache(engine: str) -> None:
    x = np.arange(60).reshape(3, 4, 5)

    def work(i: int) -> bool:
        offset = i % 3
        expected = x[offset:, :, :: 1 + i % 2]
        window = (offset, 0, 0), (3 - offset, 4, 5), (1, 1, 1 + i % 2)
        return np.array_equal(dml.slice1(x, *window), expected)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(400)))

"""The call cache: what is found, what is let go of, and what is left to a closer look."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from anydml.runtime.call_cache import CallCache, NamedCalls

X = np.zeros((2, 3), "float32")


def test_a_full_cache_is_emptied() -> None:
    cache: CallCache[str] = CallCache(3)
    for k in range(3):
        cache.keep(k, str(k))
    assert cache == {0: "0", 1: "1", 2: "2"}
    cache.keep(3, "3")
    assert cache == {3: "3"}


def test_what_is_let_go_of_is_found_no_more() -> None:
    cache: CallCache[Any] = CallCache(8)
    one, other = [1], [1]
    for key, found in (("a", one), ("b", other), ("c", one)):
        cache.keep(key, found)
    cache.forget(one)
    assert cache == {"b": other}
    assert cache["b"] is other


def test_many_threads_keep_and_forget() -> None:
    cache: CallCache[int] = CallCache(16)

    def work(first: int) -> bool:
        is_right = True
        for k in range(first, first + 4000):
            cache.keep(k % 40, k % 40)
            is_right &= cache.get(k % 37) in (k % 37, None)
            cache.forget((k + 7) % 40)
        return is_right

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(0, 28, 7)))


@pytest.mark.parametrize(
    "other",
    [
        {"x": X[:, :2], "y": X},  # other sizes
        {"x": X.T, "y": X},  # other strides
        {"x": X.view("int32"), "y": X},
        {"z": X, "y": X},
        {"x": X},
        {"x": X.tolist(), "y": X},
    ],
)
def test_only_calls_on_arrays_alike_are_found(other: dict[str, Any]) -> None:
    calls: NamedCalls[str] = NamedCalls("cpu")
    calls.keep({"x": X, "y": X}, "found")
    assert calls.find({"x": X.copy(), "y": X + 1}) == "found"
    assert calls.find(other) is None
    calls.forget("found")
    assert calls.find({"x": X, "y": X}) is None


def test_arrays_that_are_not_packed_are_not_kept() -> None:
    calls: NamedCalls[str] = NamedCalls("cpu")
    calls.keep({"x": X[:, :2]}, "found")
    assert not len(calls)


def test_values_that_count_are_compared() -> None:
    calls: NamedCalls[str] = NamedCalls("cpu")
    sizes = np.array([2, 3])
    calls.keep({"x": X, "s": sizes}, "found", ["s"])
    assert calls.find({"x": X, "s": sizes.copy()}) == "found"
    assert calls.find({"x": X, "s": sizes + 1}) is None
    calls.keep({"x": X, "s": np.zeros(1000)}, "large", ["s"])  # to compare them would take longer than it saves
    assert len(calls) == 1
    calls.keep({"x": X, "s": sizes}, "of any values")
    assert calls.find({"x": X, "s": sizes + 1}) == "of any values"


def test_no_array_is_kept() -> None:
    calls: NamedCalls[str] = NamedCalls("cpu")
    array = np.zeros(5)
    calls.keep({"x": array}, "found", ["x"])
    seen = weakref.ref(array)
    del array
    gc.collect()
    assert seen() is None

"""Random windows of a slice."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from drawing import pick

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis import strategies as st


def draw_window(draw: st.DrawFn, input_sizes: Sequence[int]) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The sizes of what is sliced, and the attributes."""
    offsets, sizes, strides, output_sizes = [], [], [], []
    for limit in input_sizes:
        output_size = limit - pick(draw, range(limit))
        offset, size, stride = pick(draw, _windows(limit, output_size))
        offsets.append(offset)
        sizes.append(size)
        strides.append(stride)
        output_sizes.append(output_size)
    window = {"input_window_offsets": offsets, "input_window_sizes": sizes, "input_window_strides": strides}
    return tuple(output_sizes), window


@functools.cache
def _windows(limit: int, size: int) -> tuple[tuple[int, int, int], ...]:
    """Every (offset, window size, stride) that lets `size` elements or more be copied out of `limit`."""
    strides = range(1, (limit - 1) // (size - 1) + 1) if size > 1 else (1, 2, limit + 1, 2**31 - 1)
    return tuple(
        (offset, window, -(2**31) if sign * stride == 1 - 2**31 else sign * stride)
        for stride in strides
        for window in range(1 + (size - 1) * stride, limit + 1)
        for offset in range(limit - window + 1)
        for sign in (1, -1)
    )

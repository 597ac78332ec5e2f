"""Rows of attention, against what PyTorch takes by itself, and against its own flash attention."""

from __future__ import annotations

import contextlib
from typing import Any

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import anydml as dml
from anydml.core.enums import DataType
from benchmarks.cuda.kinds import Call, describe
from benchmarks.cuda.pool import Pool, Tensor
from benchmarks.cuda.reduces import ReduceRow


def attention_row(
    name: str, pool: Pool, heads: int, length: int, size: int, dtype: str, *, is_flash: bool = False, **options: Any
) -> ReduceRow:
    """softmax(q·kᵀ/√size)·v by head, of tensors that are (1, sequence, heads·size)."""
    hidden, tensor = heads * size, describe(dtype, (1, length, heads * size))

    def expression(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        parts = [x.view(1, length, heads, size).transpose(1, 2) for x in (q, k, v)]
        return scaled_dot_product_attention(*parts).transpose(1, 2).reshape(1, length, hidden)

    def by_torch(*arguments: Tensor) -> Call:
        *inputs, _ = arguments
        way = (lambda: sdpa_kernel(SDPBackend.FLASH_ATTENTION)) if is_flash else contextlib.nullcontext

        def call() -> Tensor:
            with way():
                return expression(*inputs)

        return call

    def sets(count: int) -> list[list[Tensor]]:
        """Numbers about 0: scores are as far apart as a network's."""
        found = pool.values(dtype, (3, 1, length, hidden), count)
        return [list((one * 4 - 2).unbind(0)) for one in found]

    return ReduceRow(
        name=name, family="product", exact=False, sets=sets, expression=expression, torch=by_torch,
        desc=dml.MultiheadAttention.infer(
            query_tensor=tensor, key_tensor=tensor, value_tensor=tensor, head_count=heads
        ),
        moved=4 * length * hidden * DataType(dtype).size_in_bytes, flops=4 * heads * length * length * size,
        error=2e-3 if dtype == "float16" else 2e-6, **options,
    )  # fmt: skip


def attention_rows(pool: Pool, n: int, *, quick: bool = False) -> list[ReduceRow]:
    """Of BERT's sizes and of a long prompt, on a square of 32768; smaller ones on others."""
    is_full = n >= 8192
    sizes = [(12, 512, 64), (32, 2048, 128)] if is_full else [(2, 20, 16)]
    made = []
    for heads, length, size in sizes:
        for dtype in ("float16", "float32"):
            name = f"attention, {heads} x {length} x {size}, {dtype}"
            common: dict[str, Any] = {
                "heads": heads,
                "length": length,
                "size": size,
                "dtype": dtype,
                "goal": 0.85,
                "quick": quick,
            }
            made.append(attention_row(name, pool, **common))
            if dtype == "float16" and is_full:
                made.append(attention_row(f"{name}, flash", pool, **common, is_flash=True))
    return made

"""The rows of attention: queries, keys and values of as many heads, in FLOAT32 and FLOAT16."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.cpu.rows import CpuRow


def attention_row(
    name: str, heads: int, length: int, size: int, rng: np.random.Generator, dtype: str, **options: Any
) -> CpuRow:
    """softmax(q·kᵀ/√size)·v by head; in FLOAT16 against ONNX Runtime alone: PyTorch takes 17 times as long."""
    inputs = [rng.standard_normal((1, length, heads * size)).astype(dtype) for _ in range(3)]
    fields = ("query_tensor", "key_tensor", "value_tensor")
    desc = dml.MultiheadAttention.infer(
        **dict(zip(fields, map(dml.TensorDesc.of, inputs), strict=True)), head_count=heads
    )

    def by_torch(torch: Any) -> Any:
        parts = [torch.from_numpy(x).reshape(1, length, heads, size).transpose(1, 2) for x in inputs]
        attend = torch.nn.functional.scaled_dot_product_attention
        return lambda _out: attend(*parts).transpose(1, 2).reshape(1, length, heads * size)

    onnx = {"op": "MultiHeadAttention", "domain": "com.microsoft", "constants": [], "attributes": {"num_heads": heads}}
    is_half = dtype == "float16"
    return CpuRow(
        name=name, family="product", inputs=inputs, desc=desc, numpy=None, torch=None if is_half else by_torch,
        onnx=onnx, exact=False, rtol=1e-2 if is_half else 1e-4, atol=1e-2 if is_half else 1e-5,
        flops=4 * heads * length * length * size, **options,
    )  # fmt: skip


def attentions(rng: np.random.Generator, quick: bool, side: int | None) -> list[partial[CpuRow]]:
    """Of BERT's sizes and of a long prompt; small ones for a side that is given."""
    sizes = [(12, 512, 64), (32, 2048, 128)][: 1 if quick else 2]
    return [
        partial(attention_row, f"attention, 1 x {n} x {length} x {size}, {dtype}", n, length, size, rng, dtype)
        for n, length, size in ([(2, side, 4)] if side else sizes)
        for dtype in ("float32", "float16")
    ]

"""Operators that tests bind arrays and buffers to."""

from __future__ import annotations

from typing import Any

import anydml as dml

T = dml.TensorDesc
PAIR = T("float32", (2, 4))


def compiled(desc: dml.OperatorDesc | None = None) -> dml.CompiledOperator:
    return dml.Device().compile(desc or dml.CumulativeSummation(input_tensor=PAIR, output_tensor=PAIR, axis=1))


def copier(sizes: tuple[int, ...] = (2, 4), **options: Any) -> dml.CompiledOperator:
    tensor = T("float32", sizes, **options)
    zeros, ones = (0,) * len(sizes), (1,) * len(sizes)
    return compiled(dml.Slice(input_tensor=tensor, output_tensor=tensor, offsets=zeros, sizes=sizes, strides=ones))

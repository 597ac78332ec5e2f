"""A graph of two nodes, a crop and a running sum, that tests of descriptions change."""

from __future__ import annotations

from typing import Any

import numpy as np

import anydml as dml
from anydml import GraphDesc, InputEdge, IntermediateEdge, OperatorNode, OutputEdge

T = dml.TensorDesc
WIDE, NARROW = T("float32", (2, 6)), T("float32", (2, 3))
CROP = dml.Slice(input_tensor=WIDE, output_tensor=NARROW, offsets=(0, 0), sizes=(2, 3), strides=(1, 2))
SUM = dml.CumulativeSummation(input_tensor=NARROW, output_tensor=NARROW, axis=1)
X = np.arange(12, dtype="float32").reshape(2, 6)
CHAIN = GraphDesc(
    input_count=1,
    output_count=1,
    nodes=[OperatorNode(CROP, "crop"), OperatorNode(SUM)],
    input_edges=[InputEdge(0, 0, 0, "x")],
    output_edges=[OutputEdge(1, 0, 0, "y")],
    intermediate_edges=[IntermediateEdge(0, 0, 1, 0)],
)


def summing(tensor: dml.TensorDesc = NARROW, **options: Any) -> OperatorNode:
    return OperatorNode(dml.CumulativeSummation(input_tensor=tensor, output_tensor=tensor, axis=0), **options)


def messages(graph: GraphDesc, level: str = "6_4") -> list[str]:
    return [str(fault) for fault in graph.check(level).faults]

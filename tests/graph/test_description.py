"""Graphs by description: nodes and edges that fit, and the bits that they give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import ConstantNode, GraphDesc, InputEdge, IntermediateEdge, OperatorNode, OutputEdge
from chains import CHAIN, CROP, NARROW, SUM, WIDE, T, X, messages, summing


def test_a_graph_described_by_hand_runs(engine: str) -> None:
    model = dml.Device(engine).compile_graph(CHAIN)
    assert isinstance(model, dml.CompiledGraph)
    assert (list(model.inputs), list(model.outputs)) == (["x"], ["y"])
    np.testing.assert_array_equal(model(x=X), np.cumsum(X[:, ::2], axis=1))
    report = CHAIN.check("4_0")
    assert (report.faults, report.remarks, report.subject) == ((), (), "Graph")
    assert str(report.lowest_level) == "4_0"


def test_the_builder_gives_the_same_description() -> None:
    g = dml.Graph()
    x = g.input(WIDE, "x")
    y = dml.cumulative_summation(dml.slice(x, [0, 0], [2, 3], [1, 2]).named("crop"), 1)
    given = g.desc(y)
    plain = replace(given, input_descs=None, output_descs=None, input_names=None)
    assert plain == replace(CHAIN, output_edges=[OutputEdge(1, 0, 0)])
    assert (given.input_descs, given.output_descs, given.input_names) == ((WIDE,), (NARROW,), ("x",))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"input_edges": [InputEdge(1, 0, 0)]},
            ["input_edges[0].GraphInputIndex must lie in 0 .. 0, the graph's inputs; got 1"],
        ),
        (
            {"input_edges": [InputEdge(0, 2, 0)]},
            ["input_edges[0].ToNodeIndex must lie in 0 .. 1, the graph's nodes; got 2"],
        ),
        (
            {"input_edges": [InputEdge(0, 0, 1)]},
            ["input_edges[0].ToNodeInputIndex must lie in 0 .. 0, inputs of nodes[0] 'crop'; got 1"],
        ),
        (
            {"output_edges": [OutputEdge(7, 0, 1)]},
            [
                "output_edges[0].FromNodeIndex must lie in 0 .. 1, the graph's nodes; got 7",
                "output_edges[0].GraphOutputIndex must lie in 0 .. 0, the graph's outputs; got 1",
            ],
        ),
        (
            {"output_edges": [OutputEdge(1, 3, 0)]},
            [
                ("output_edges[0].FromNodeOutputIndex must lie in 0 .. 0,"
                " outputs of nodes[1] (CUMULATIVE_SUMMATION); got 3")
            ],
        ),
        (
            {"intermediate_edges": [IntermediateEdge(9, 0, 8, 0)]},
            [
                "intermediate_edges[0].FromNodeIndex must lie in 0 .. 1, the graph's nodes; got 9",
                "intermediate_edges[0].ToNodeIndex must lie in 0 .. 1, the graph's nodes; got 8",
            ],
        ),
        (
            {"nodes": [OperatorNode(CROP, "crop"), OperatorNode(SUM), ConstantNode(X)],
             "intermediate_edges": [IntermediateEdge(0, 0, 1, 0), IntermediateEdge(0, 0, 2, 0)]},
            ["intermediate_edges[1].ToNodeInputIndex: inputs of nodes[2] (constant): there are none; got 0"],
        ),
        (
            {"intermediate_edges": []},
            ["InputTensor of nodes[1] (CUMULATIVE_SUMMATION) must be fed by an edge; got none"],
        ),
        (
            {"intermediate_edges": [IntermediateEdge(0, 0, 1, 0), IntermediateEdge(0, 0, 1, 0, "again")]},
            [
                ("InputTensor of nodes[1] (CUMULATIVE_SUMMATION) must be fed by one edge;"
                " got intermediate_edges[0] and intermediate_edges[1] 'again'")
            ],
        ),
        (
            {"output_edges": [OutputEdge(1, 0, 0), OutputEdge(0, 0, 0)]},
            ["graph output 0 must have one edge; got output_edges[0] and output_edges[1]"],
        ),
        (
            {"output_count": 2, "output_edges": [OutputEdge(1, 0, 1), OutputEdge(0, 0, 1)]},
            [
                "graph output 0 must have an edge; got none",
                "graph output 1 must have one edge; got output_edges[0] and output_edges[1]",
            ],
        ),
        (
            {"input_count": 2, "input_edges": [InputEdge(0, 0, 0), InputEdge(0, 1, 0)], "intermediate_edges": []},
            [
                "graph input 1 must feed a node; got no edge; leave it out, or describe it in input_descs",
                ("input_edges[1]: InputTensor of nodes[1] (CUMULATIVE_SUMMATION) must be of sizes (2, 6), as graph"
                " input 0 is; got (2, 3); reinterpret=True on the edge reads the same memory in another description"),
            ],
        ),
        ({"output_count": 0, "output_edges": []}, ["OutputCount must be at least 1; got 0"]),
    ],
)  # fmt: skip
def test_what_edges_may_connect(change: dict[str, Any], expected: list[str]) -> None:
    graph = replace(CHAIN, **{"input_descs": None, "output_descs": None, **change})
    assert messages(graph) == expected
    with pytest.raises(dml.DescriptionError):
        dml.Device().compile_graph(graph)


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (T("int32", (2, 3)), "must be of FLOAT32, as OutputTensor of nodes[0] 'crop' is; got INT32"),
        (T("float32", (3, 2)), "must be of sizes (2, 3), as OutputTensor of nodes[0] 'crop' is; got (3, 2)"),
        (
            T("float32", (2, 3), strides=(4, 1)),
            "must have strides (3, 1), as OutputTensor of nodes[0] 'crop' has; got (4, 1)",
        ),
    ],
)  # fmt: skip
def test_both_ends_of_an_edge_agree(tensor: dml.TensorDesc, expected: str) -> None:
    graph = replace(CHAIN, nodes=[OperatorNode(CROP, "crop"), summing(tensor, name="sum")])
    assert messages(graph) == [
        (
            f"intermediate_edges[0]: InputTensor of nodes[1] 'sum' {expected};"
            " reinterpret=True on the edge reads the same memory in another description"
        )
    ]
    assert graph.check().faults[0].field == "intermediate_edges[0]"
    marked = replace(graph, intermediate_edges=[IntermediateEdge(0, 0, 1, 0, reinterpret=True)])
    if tensor.extent == 6:
        assert marked.check()
    else:
        assert messages(marked) == [
            (
                "intermediate_edges[0]: InputTensor of nodes[1] 'sum' must fit the bytes 0 .. 24 of OutputTensor of"
                " nodes[0] 'crop', from its first element on; got 0 .. 28"
            )
        ]


def test_leading_sizes_of_one_do_not_matter(engine: str) -> None:
    tensor = T("float32", (1, 1, 2, 3), strides=(99, 7, 3, 1))
    desc = dml.CumulativeSummation(input_tensor=tensor, output_tensor=T("float32", (1, 1, 2, 3)), axis=3)
    model = dml.Device(engine).compile_graph(replace(CHAIN, nodes=[OperatorNode(CROP), OperatorNode(desc)]))
    np.testing.assert_array_equal(model(X), [[np.cumsum(X[:, ::2], axis=1)]])


def test_one_input_for_several_nodes(engine: str) -> None:
    flat = T("int32", (12,))
    bits = dml.Slice.infer(input_tensor=flat, offsets=(6,), sizes=(2,), strides=(1,))
    graph = replace(
        CHAIN,
        output_count=2,
        nodes=[*CHAIN.nodes, OperatorNode(bits)],
        input_edges=[InputEdge(0, 2, 0, reinterpret=True), InputEdge(0, 0, 0, "x")],
        output_edges=[OutputEdge(1, 0, 0), OutputEdge(2, 0, 1)],
        input_descs=None,
        output_descs=None,
    )
    model = dml.Device(engine).compile_graph(graph)
    assert model.inputs == {"x": WIDE}
    np.testing.assert_array_equal(model(X)[1], X.view("int32")[1, :2])
    unmarked = replace(graph, input_edges=[InputEdge(0, 2, 0), InputEdge(0, 0, 0)])
    assert [fault.field for fault in unmarked.check().faults] == ["input_edges[1]", "input_edges[1]"]
    long = replace(graph, nodes=[*CHAIN.nodes, OperatorNode(replace(bits, input_tensor=T("int32", (13,))))])
    assert messages(long) == [
        (
            "input_edges[0]: InputTensor of nodes[2] (SLICE) must fit the bytes 0 .. 48 of graph input 0,"
            " from its first element on; got 0 .. 52"
        )
    ]
    alone = replace(long, input_count=1, nodes=[OperatorNode(bits)], output_count=1, intermediate_edges=[],
                    input_edges=[InputEdge(0, 0, 0, reinterpret=True)], output_edges=[OutputEdge(0, 0, 0)],
                    input_descs=None, output_descs=None)  # fmt: skip
    assert dml.Device().compile_graph(alone).inputs == {"input0": flat}


def test_nodes_may_stand_in_any_order(engine: str) -> None:
    graph = GraphDesc(
        1, 1, [OperatorNode(SUM), OperatorNode(CROP)], [InputEdge(0, 1, 0)], [OutputEdge(0, 0, 0)],
        [IntermediateEdge(1, 0, 0, 0)],
    )  # fmt: skip
    np.testing.assert_array_equal(dml.Device(engine).compile_graph(graph)(X), np.cumsum(X[:, ::2], axis=1))


def test_owned_tensors_are_inputs_of_the_graph() -> None:
    owned = T("float32", (2, 3), flags="OWNED_BY_DML")
    after = OperatorNode(replace(SUM, input_tensor=owned))
    graph = replace(CHAIN, nodes=[OperatorNode(CROP), after])
    assert messages(graph) == [
        (
            "intermediate_edges[0]: InputTensor of nodes[1] (CUMULATIVE_SUMMATION) must not have OWNED_BY_DML,"
            " which is for inputs of the graph"
        )
    ]
    both = GraphDesc(1, 2, [after, OperatorNode(SUM)], [InputEdge(0, 0, 0), InputEdge(0, 1, 0)],
                     [OutputEdge(0, 0, 0), OutputEdge(1, 0, 1)])  # fmt: skip
    assert messages(both) == [
        (
            "input_edges[1]: InputTensor of nodes[1] (CUMULATIVE_SUMMATION) and graph input 0 must both have"
            " OWNED_BY_DML, or neither"
        )
    ]

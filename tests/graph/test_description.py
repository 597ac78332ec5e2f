"""Graphs by description: nodes and edges that fit, the bits that they give, and what is refused with its place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import ConstantNode, GraphDesc, InputEdge, IntermediateEdge, OperatorNode, OutputEdge

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


def test_a_cycle_is_told_edge_by_edge() -> None:
    nodes = [summing(name="a"), summing(name="b"), summing(), summing()]
    edges = [IntermediateEdge(2, 0, 0, 0), IntermediateEdge(0, 0, 1, 0, "on"), IntermediateEdge(1, 0, 2, 0),
             IntermediateEdge(2, 0, 3, 0)]  # fmt: skip
    graph = GraphDesc(0, 1, nodes, [], [OutputEdge(3, 0, 0)], edges)
    assert messages(graph) == [
        (
            "intermediate_edges[1] 'on' must not close a cycle: nodes[0] 'a' → nodes[1] 'b' →"
            " nodes[2] (CUMULATIVE_SUMMATION) → nodes[0] 'a'; got the edges intermediate_edges[1] 'on',"
            " intermediate_edges[2], intermediate_edges[0]"
        )
    ]
    loop = GraphDesc(0, 1, [summing(name="a")], [], [OutputEdge(0, 0, 0)], [IntermediateEdge(0, 0, 0, 0)])
    assert messages(loop) == [
        "intermediate_edges[0] must not close a cycle: nodes[0] 'a' → nodes[0] 'a'; got the edges intermediate_edges[0]"
    ]


def test_what_only_leads_into_a_cycle_is_none_of_it() -> None:
    gather = dml.GatherND(
        input_tensor=NARROW, indices_tensor=T("int32", (2, 1)), output_tensor=NARROW,
        input_dimension_count=2, indices_dimension_count=2,
    )  # fmt: skip
    nodes: list[Any] = [
        OperatorNode(gather, "pick"),
        ConstantNode(np.zeros((2, 1), "int32"), "i"),
        OperatorNode(SUM, "sum"),
    ]
    edges = [IntermediateEdge(1, 0, 0, 1), IntermediateEdge(2, 0, 0, 0), IntermediateEdge(0, 0, 2, 0)]
    graph = GraphDesc(0, 1, nodes, [], [OutputEdge(2, 0, 0)], edges)
    assert messages(graph) == [
        (
            "intermediate_edges[2] must not close a cycle: nodes[0] 'pick' → nodes[2] 'sum' → nodes[0] 'pick';"
            " got the edges intermediate_edges[2], intermediate_edges[1]"
        ),
    ]


def test_a_reinterpretation_may_not_reach_below_the_memory() -> None:
    back = T("float32", (2, 6), strides=(-6, 1), signed_strides=True)
    graph = replace(
        CHAIN,
        nodes=[OperatorNode(replace(CROP, input_tensor=back), "crop"), *CHAIN.nodes[1:]],
        input_edges=[InputEdge(0, 0, 0, reinterpret=True)],
        input_descs=[WIDE],
    )
    assert messages(graph) == [
        (
            "input_edges[0]: InputTensor of nodes[0] 'crop' must fit the bytes 0 .. 48 of graph input 0,"
            " from its first element on; got -24 .. 24"
        ),
    ]
    assert replace(graph, input_descs=[back]).check()


def test_faults_of_operators_come_with_the_node_and_all_together() -> None:
    bad = replace(CROP, strides=(1, 3))
    graph = replace(CHAIN, nodes=[OperatorNode(bad, "crop"), OperatorNode(replace(SUM, axis=2))],
                    output_edges=[OutputEdge(5, 0, 0)])  # fmt: skip
    with pytest.raises(dml.DescriptionError) as caught:
        dml.Device(feature_level="2_1").compile_graph(graph)
    assert str(caught.value) == (
        "Graph: 5 rules are broken\n"
        "  nodes[0] 'crop': SLICE: InputTensor of 2 dimensions needs DML_FEATURE_LEVEL_3_0; this device is 2_1,"
        " which takes 4 or 5\n"
        "  nodes[0] 'crop': SLICE: Offsets[1] + (Sizes[1] - 1) * Strides[1] must be below InputTensor.Sizes[1];"
        " got 0 + 2 * 3 >= 6\n"
        "  nodes[1] (CUMULATIVE_SUMMATION): InputTensor of 2 dimensions needs DML_FEATURE_LEVEL_4_0;"
        " this device is 2_1, which takes 4\n"
        "  nodes[1] (CUMULATIVE_SUMMATION): Axis must be below InputTensor.DimensionCount, 2; got 2\n"
        "  output_edges[0].FromNodeIndex must lie in 0 .. 1, the graph's nodes; got 5"
    )
    assert [fault.field for fault in caught.value.faults[:2]] == [
        "nodes[0] 'crop'.InputTensor.DimensionCount",
        "nodes[0] 'crop'.Offsets[1]",
    ]
    with pytest.raises(dml.FeatureLevelError) as level:
        dml.Device(feature_level="2_1").compile_graph(CHAIN)
    assert str(level.value.needed) == "4_0"
    assert CHAIN.check("2_1").lowest_level is not None


def test_an_output_that_runs_backwards_is_refused() -> None:
    back = T("float32", (2, 3), strides=(-3, 1), signed_strides=True)
    graph = replace(CHAIN, nodes=[OperatorNode(CROP, "crop"), OperatorNode(replace(SUM, output_tensor=back), "sum")])
    assert messages(graph) == ["OutputTensor.Strides of nodes[1] 'sum' must not be negative in a graph; got (-3, 1)"]


# Constants


def constant_graph(node: ConstantNode, **edge: Any) -> GraphDesc:
    return GraphDesc(
        0, 1, [node, OperatorNode(SUM, "sum")], [], [OutputEdge(1, 0, 0)], [IntermediateEdge(0, 0, 1, 0, **edge)]
    )


@pytest.mark.parametrize(
    "node",
    [
        ConstantNode(X[:, ::2]),
        ConstantNode(X[:, ::2].tobytes()),
        ConstantNode(bytearray(X[:, ::2].tobytes() + b"more")),
        ConstantNode(X[:, ::2].tobytes(), desc=NARROW),
        ConstantNode(np.ascontiguousarray(X[:, ::2]), desc=NARROW),
    ],
)
def test_constants(engine: str, node: ConstantNode) -> None:
    model = dml.Device(engine).compile_graph(constant_graph(node))
    np.testing.assert_array_equal(model(), np.cumsum(X[:, ::2], axis=1))


def test_constants_that_do_not_fit() -> None:
    assert messages(constant_graph(ConstantNode(bytes(20), "c"))) == [
        (
            "intermediate_edges[0]: InputTensor of nodes[1] 'sum' must fit the bytes 0 .. 20 of data of nodes[0] 'c',"
            " from its first element on; got 0 .. 24"
        )
    ]
    assert messages(constant_graph(ConstantNode(X))) == [
        (
            "intermediate_edges[0]: InputTensor of nodes[1] 'sum' must be of sizes (2, 6), as data of nodes[0]"
            " (constant) is; got (2, 3); reinterpret=True on the edge reads the same memory in another description"
        )
    ]
    assert constant_graph(ConstantNode(X), reinterpret=True).check()
    bare = GraphDesc(0, 1, [ConstantNode(bytes(8))], [], [OutputEdge(0, 0, 0)])
    assert messages(bare) == [
        (
            "output_edges[0]: data of nodes[0] (constant) is raw bytes without a description;"
            " give the constant as an array, or with a desc"
        )
    ]
    described = replace(bare, output_descs=[T("int32", (2,))])
    np.testing.assert_array_equal(dml.Device().compile_graph(described)(), [0, 0])
    assert messages(replace(bare, output_descs=[T("int32", (3,))])) == [
        (
            "output_edges[0]: graph output 0 must fit the bytes 0 .. 8 of data of nodes[0] (constant),"
            " from its first element on; got 0 .. 12"
        )
    ]


def test_a_constant_is_a_copy(engine: str) -> None:
    data = X[:, ::2].copy()
    node = ConstantNode(data)
    data[:] = 0
    model = dml.Device(engine).compile_graph(constant_graph(node))
    np.testing.assert_array_equal(model(), np.cumsum(X[:, ::2], axis=1))


def test_a_constant_is_not_written_out() -> None:
    assert repr(ConstantNode(X, "c")) == "ConstantNode(name='c', desc=TensorDesc('float32', (2, 6)))"
    assert repr(InputEdge(0, 1, 2)).startswith("InputEdge(graph_input_index=0, to_node_index=1, to_node_input_index=2")


# Remarks, and what is no graph at all


def test_what_nothing_uses_is_remarked_and_left_out() -> None:
    unused = OperatorNode(SUM, "spare")
    graph = replace(
        CHAIN,
        input_count=2,
        nodes=[*CHAIN.nodes, unused, ConstantNode(X)],
        intermediate_edges=[*CHAIN.intermediate_edges, IntermediateEdge(1, 0, 2, 0)],
        input_descs=[None, WIDE],
        output_descs=None,
    )
    remarks = (
        "nodes[2] 'spare' feeds no output of the graph, and does not run",
        "nodes[3] (constant) feeds no output of the graph, and does not run",
        "no output of the graph needs graph input 1, 'input1'",
    )
    assert graph.check().remarks == remarks
    model = dml.Device().compile_graph(graph)
    assert model.remarks == remarks
    assert [step.nodes for step in model.lowered.steps] == [("crop",), ("node1",)]
    np.testing.assert_array_equal(model(X, X), np.cumsum(X[:, ::2], axis=1))


def test_names_are_never_mixed_up(engine: str) -> None:
    """Nodes may be called what stores, slots or other nodes are called."""
    names = ["input0", "node1", "", "output0", "node1"]
    edges = [IntermediateEdge(i, 0, i + 1, 0) for i in range(4)]
    nodes = [OperatorNode(SUM, name) for name in names]
    graph = GraphDesc(1, 2, nodes, [InputEdge(0, 0, 0, "output0")], [OutputEdge(4, 0, 0), OutputEdge(2, 0, 1)], edges)
    model = dml.Device(engine).compile_graph(graph)
    assert (list(model.inputs), list(model.outputs)) == (["output0"], ["output0'", "output1"])
    expected = X[:, :3]
    for _ in range(5):
        expected = np.cumsum(expected, axis=1)
    np.testing.assert_array_equal(model(X[:, :3].copy())[0], expected)


FIVE: Any = 5
WORD: Any = "x"
NONE: Any = None
NO_NODE: Any = SUM


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: OperatorNode(FIVE), "OperatorNode: desc must be an operator description, such as Slice1(...); got 5"),
        (lambda: OperatorNode(SUM, FIVE), "OperatorNode: Name must be a string; got 5"),
        (lambda: ConstantNode(b""), "ConstantNode: data must have at least 1 bytes; got 0"),
        (lambda: ConstantNode(bytes(4), desc=NARROW), "ConstantNode: data must have at least 24 bytes; got 4"),
        (lambda: ConstantNode(bytes(4), desc=FIVE), "ConstantNode: desc must be a TensorDesc, or None; got 5"),
        (lambda: ConstantNode("no"), "ConstantNode: data must be an array: NumPy's, one that speaks DLPack, or a"),
        (lambda: InputEdge(0, -1, WORD), "InputEdge: 2 rules are broken\n  ToNodeIndex must be at least 0; got -1\n"),
        (lambda: InputEdge(0, 0, 0, NONE), "InputEdge: Name must be a string; got None"),
        (lambda: InputEdge(0, 0, 0, "", FIVE), "InputEdge: reinterpret must be True or False; got 5"),
        (lambda: GraphDesc(1, 1, NO_NODE), "Graph: 3 rules are broken\n  nodes must be a list of OperatorNode or"),
        (lambda: GraphDesc(0, 0, [NO_NODE]), "Graph: nodes[0] must be an OperatorNode or ConstantNode; got Cumul"),
        (lambda: GraphDesc(4_000_000_000, 0, []), "Graph: InputCount must be at most 0, the input edges"),
        (lambda: GraphDesc(0, 0, [], input_descs=[FIVE]), "Graph: 2 rules are broken\n  input_descs[0] must be"),
        (lambda: dml.Device().compile_graph(NO_NODE), "Device: desc must be a GraphDesc; got CumulativeSummation("),
        (lambda: dml.Device().compile_graph(CHAIN, "x"), "Device: flags must be one of"),
    ],
)  # fmt: skip
def test_what_is_no_graph(act: Any, message: str) -> None:
    with pytest.raises(dml.DescriptionError) as caught:
        act()
    assert str(caught.value).startswith(message)

"""What a compiled graph is to Python: its names, its copies, and what it refuses."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import anydml as dml

T = dml.TensorDesc
X = np.arange(24, dtype="float32").reshape(4, 6) - 7


def reversed_rows(x: dml.Expression) -> Any:
    return dml.slice1(x, [0, 0], x.sizes, [1, -1])


def test_a_given_name_is_never_another_inputs() -> None:
    g = dml.Graph()
    first, second = g.input(T("float32", (4, 6))), g.input(T("float32", (4, 6)), "input0")
    model = g.compile([reversed_rows(first), reversed_rows(second).named("output0")])
    assert list(model.inputs) == ["input0'", "input0"]
    assert list(model.outputs) == ["output0'", "output0"]
    results = model(X, input0=2 * X)
    np.testing.assert_array_equal(results[0], X[:, ::-1])
    np.testing.assert_array_equal(results[1], 2 * X[:, ::-1])


def test_an_input_that_nothing_reads_keeps_its_name() -> None:
    g = dml.Graph()
    x = g.input(T("float32", (4, 6)), "self")
    g.input(T("float32", (1,)), "spare")
    model = g.compile(reversed_rows(x))
    assert model.remarks == ("no output of the graph needs graph input 1, 'spare'",)
    np.testing.assert_array_equal(model(self=X, spare=np.zeros(1, "float32")), X[:, ::-1])
    out = np.zeros_like(X)
    model.bind(self=X, spare=np.zeros(1, "float32"), out=out).dispatch()
    np.testing.assert_array_equal(out, X[:, ::-1])


def test_a_model_is_copied_by_its_description() -> None:
    g = dml.Graph("reference")
    model = g.compile(reversed_rows(g.input(T("float32", (4, 6)))))
    assert copy.deepcopy(model) is model
    assert copy.copy(model) is model
    with pytest.raises(TypeError, match="Graph: what is compiled cannot be pickled; pickle its desc"):
        pickle.dumps(model)
    device, desc = pickle.loads(pickle.dumps((model.device, model.desc)))  # noqa: S301 - our own
    assert repr(device) == repr(model.device)
    np.testing.assert_array_equal(device.compile_graph(desc).initialize()(X), X[:, ::-1])


def test_gaps_are_not_read_by_another_description() -> None:
    g = dml.Graph(tensor_policy=lambda sizes, _: (2,) if len(sizes) == 1 else None)
    y = dml.slice1(g.input(T("float32", (8,))), [0], [8], [-1])
    with pytest.raises(dml.DescriptionError, match="must have no gaps: nobody writes there"):
        y.reinterpret((15,))
    desc = g.desc(y)
    nodes = [*desc.nodes, dml.OperatorNode(dml.Slice.infer(
        input_tensor=T("float32", (15,)), offsets=[0], sizes=[15], strides=[1]))]  # fmt: skip
    edges = [dml.IntermediateEdge(0, 0, 1, 0, reinterpret=True)]
    graph = dml.GraphDesc(1, 1, nodes, desc.input_edges, [dml.OutputEdge(1, 0, 0)], edges)
    (fault,) = graph.check().faults
    assert fault.rule == (
        "intermediate_edges[0]: OutputTensor of nodes[0] (SLICE1) must have no gaps to be read in another description:"
        " nobody writes there"
    )


def test_what_a_graph_cannot_have() -> None:
    g = dml.Graph()
    desc = g.desc(reversed_rows(g.input(T("float32", (4, 6)), "x")))
    owned = T("float32", (4, 6), flags="OWNED_BY_DML")
    faults = [
        fault.rule
        for changed in (
            replace(desc, output_descs=[owned]),
            replace(desc, input_names=["out"]),
            replace(desc, input_names=None, input_edges=[dml.InputEdge(0, 0, 0, "out")]),
        )
        for fault in changed.check().faults
    ]
    assert faults == [
        "graph output 0 must not have OWNED_BY_DML, which is for inputs of the graph",
        "input_names[0] must not be 'out', which a call has for the outputs",
        "input_edges[0] 'out'.Name must not be 'out', which a call has for the outputs",
    ]
    with pytest.raises(dml.DescriptionError, match="input_names must be 1 names, as InputCount says; got 2"):
        replace(desc, input_names=["x", "y"])
    wrong: list[Any] = [[], {}, 3]
    for policy in wrong:
        with pytest.raises(dml.DescriptionError, match="tensor_policy must be one of 'default'"):
            dml.Graph(tensor_policy=policy)
    with pytest.raises(dml.DescriptionError, match="is symbolic: its tensor has no values yet; compile its graph"):
        np.asarray(g.input(T("float32", (4, 6))))

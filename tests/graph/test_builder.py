"""The builder: functions on expressions, names, policies, reinterpretations, and what is told when they are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from cases import CASES
from doors import as_list

if TYPE_CHECKING:
    from case_kinds import Case

pytestmark = pytest.mark.sampled(8)

T = dml.TensorDesc
X = np.arange(24, dtype="float32").reshape(4, 6)
WORD: Any = "no"
FIVE: Any = 5


@pytest.mark.parametrize("level", ["2_1", "3_0", "6_4"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_case_is_the_same_in_a_graph(engine: str, case: Case, level: str) -> None:
    """Results and refusals alike: a graph of one operator does what the function does on arrays."""
    bare, device = case.bare(), dml.Device(engine, feature_level=level)
    arrays = bare.inputs(dml.DataType.FLOAT32)
    g = dml.Graph(device)
    inputs = [g.input(array) for array in arrays]
    refused = None
    try:
        expected = bare.call(*arrays, device=device)
    except dml.DmlError as error:
        refused = error
    options: dict[str, Any] = {} if inputs else {"graph": g}
    if refused is not None:
        with pytest.raises(type(refused)) as caught:
            bare.call(*inputs, **options)
        assert str(caught.value) == str(refused)
        return
    results = as_list(g.compile(bare.call(*inputs, **options))(*arrays))
    for result, wanted in zip(results, as_list(expected), strict=True):
        np.testing.assert_array_equal(result, wanted)
        assert result.shape == (wanted.shape or (1,))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: dml.slice(x, [0, 4], [4, 3]),
        lambda x: dml.slice(x, [0], [4, 3], [0]),
        lambda x: dml.slice1(x, [0, 0], [4, 6], [0, 1]),
        lambda x: dml.slice1(x, [0, 0], [4, 6], [1, 2], [4, 4]),
        lambda x: dml.slice1(x, [0, 0], [4, 6], [1, 2], WORD),
        lambda x: dml.cumulative_summation(x, 2),
        lambda x: dml.cumulative_summation(x, WORD, axis_direction=WORD),
        lambda x: dml.cumulative_product(x, -3),
        lambda x: dml.gather_nd(x, x),
        lambda x: dml.gather_nd(x, x, -1),
        lambda x: dml.gather_nd(x, x, 2, WORD),
    ],
)
def test_faults_are_those_of_the_function_on_arrays(call: Any) -> None:
    with pytest.raises(dml.DmlError) as on_arrays:
        call(X)
    g = dml.Graph()
    with pytest.raises(dml.DmlError) as on_expressions:
        call(g.input(X))
    assert str(on_expressions.value) == str(on_arrays.value)
    assert type(on_expressions.value) is type(on_arrays.value)


# Expressions


def test_what_an_expression_says() -> None:
    g = dml.Graph("reference")
    x = g.input(T("float32", (4, 6)), "x")
    y = dml.slice1(x, [0, 0], [4, 6], [1, -2]).named("crop")
    assert (y.sizes, y.data_type, y.desc, y.name, y.graph) == (
        (4, 3),
        dml.DataType.FLOAT32,
        T("float32", (4, 3)),
        "crop",
        g,
    )
    assert repr(x) == "Expression(input 'x', TensorDesc('float32', (4, 6)))"
    assert repr(y) == "Expression(SLICE1 'crop', TensorDesc('float32', (4, 3)))"
    assert repr(dml.cumulative_summation(y, 0)) == "Expression(CUMULATIVE_SUMMATION, TensorDesc('float32', (4, 3)))"
    assert repr(g.constant(np.arange(3, dtype="int32"))) == "Expression(constant, TensorDesc('int32', (3,)))"
    assert repr(g) == "Graph(Device('reference', feature_level='6_4'), 1 input, 3 nodes)"
    assert repr(g.compile(y)) == (
        "CompiledGraph(x: TensorDesc('float32', (4, 6)) -> crop: TensorDesc('float32', (4, 3)),"
        " steps=1, engine='reference')"
    )


@pytest.mark.parametrize("optimise", [True, False])
def test_a_single_element_has_no_dimensions_as_a_function_has_it(optimise: bool) -> None:
    place, row, column = np.array([1, 2]), np.array(1), np.array(2)
    g = dml.Graph()
    x = g.input(X)
    element = dml.gather_nd(x, g.constant(place))
    line = dml.gather(x, g.constant(row))
    outputs = [element, line, dml.gather(line, g.constant(column)), dml.cast(dml.identity(element), "int32")]
    assert [y.sizes for y in outputs] == [(), (6,), (), ()]
    found = g.compile(outputs, optimise=optimise)(X)
    one = dml.gather_nd(X, place)
    wanted = [one, dml.gather(X, row), dml.gather(dml.gather(X, row), column), dml.cast(dml.identity(one), "int32")]
    assert [(y.shape, y.dtype, y.tolist()) for y in found] == [(y.shape, y.dtype, y.tolist()) for y in wanted]
    assert (found[0].shape, element.strides) == ((), ())


def test_a_single_element_is_written_into_an_array_of_either_rank() -> None:
    g = dml.Graph()
    element = dml.gather_nd(g.input(X), g.constant(np.array([1, 2])))
    for shape in ((), (1,)):
        out = np.zeros(shape, X.dtype)
        assert g.compile(element)(X, out=out) is out
        assert out.reshape(()) == X[1, 2]
    assert g.compile(element.reinterpret((1,)))(X).shape == (1,)
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    assert g.compile(element)(torch.from_numpy(X.copy())).shape == ()


def test_a_single_element_is_refused_where_a_function_refuses_it() -> None:
    g = dml.Graph()
    element = dml.gather_nd(g.input(X), g.constant(np.array([1, 2])))
    for x in (np.array(3, "float32"), element):
        with pytest.raises(dml.DescriptionError, match=r"InputTensor.Sizes must have 1 to 8 dimensions; got 0"):
            dml.slice(x, [0], [1])


def test_an_input_like_an_array_keeps_its_strides() -> None:
    g = dml.Graph()
    assert g.input(X.T).desc == T.of(X.T)
    assert g.input(X[::-1]).desc.signed_strides


def test_a_graph_may_be_compiled_for_other_outputs() -> None:
    g = dml.Graph()
    x = g.input(X, "x")
    a = dml.slice(x, [0, 0], [2, 6]).named("a")
    b = dml.cumulative_summation(a, 1).named("b")
    first, second = g.compile(a), g.compile([b])
    assert first.remarks == ("nodes[1] 'b' feeds no output of the graph, and does not run",)
    assert second.remarks == ()
    np.testing.assert_array_equal(first(X), X[:2])
    np.testing.assert_array_equal(second(X), np.cumsum(X[:2], axis=1))


def test_reinterpretations() -> None:
    g = dml.Graph()
    x = g.input(X, "x")
    assert x.reinterpret((24,)).desc == T("float32", (24,))
    assert x.reinterpret(data_type="uint32").desc == T("uint32", (4, 6))
    assert x.reinterpret((6, 4), (1, 6)).desc == T("float32", (6, 4), strides=(1, 6))
    assert x.reinterpret(strides=(0, 1)).desc == T("float32", (4, 6), strides=(0, 1))
    assert x.reinterpret((4, 3), (6, 2)).reinterpret((3,)).sizes == (3,)
    assert x.reinterpret().desc == x.desc
    for change, message in (
        (
            {"sizes": (25,)},
            (
                "Graph: reinterpret: the bytes must lie within the 0 .. 96 of Expression(input 'x',"
                " TensorDesc('float32', (4, 6), strides=(6, 1))); got 0 .. 100 of TensorDesc('float32', (25,))"
            ),
        ),
        ({"data_type": "int64"}, "Graph: reinterpret: the bytes must lie within the 0 .. 96 of Expression("),
        ({"sizes": (0,)}, "Graph: reinterpret: Sizes[0] must be at least 1; got 0"),
        ({"strides": (1,)}, "Graph: reinterpret: Strides must have as many dimensions as Sizes, 2; got 1"),
        ({"data_type": "float8"}, "Graph: reinterpret: DataType must be one of"),
    ):
        with pytest.raises(dml.DescriptionError) as caught:
            x.reinterpret(**change)
        assert str(caught.value).startswith(message)


# Policies


def test_policies_lay_out_what_is_inferred() -> None:
    sizes = (2, 3, 4, 5)
    policies: list[tuple[Any, Any]] = [
        ("default", None),
        ("interleaved_channel", (60, 1, 15, 3)),
        (lambda sizes, data_type: (64, 20, 5, 1), (64, 20, 5, 1)),
        (lambda sizes, data_type: None, None),
    ]
    for policy, strides in policies:
        g = dml.Graph(tensor_policy=policy)
        x = g.input(T("float32", sizes))
        assert x.desc.strides is None
        assert dml.cumulative_summation(x, 1).desc == T("float32", sizes, strides=strides)
    g = dml.Graph(tensor_policy="interleaved_channel")
    five = dml.slice(g.input(T("int8", (2, 3, 4, 5, 6))), [0] * 5, [2, 3, 4, 5, 6])
    assert five.desc.strides == (360, 1, 90, 18, 3)
    assert dml.slice(g.input(T("int8", (2, 3, 4))), [0] * 3, [2, 3, 4]).desc.strides == (12, 1, 3)
    assert dml.slice(g.input(T("int8", (2, 3))), [0] * 2, [2, 3]).desc.strides is None


def test_a_policy_has_the_rank_of_the_caller() -> None:
    g = dml.Graph(dml.Device(feature_level="2_1"), tensor_policy="interleaved_channel")
    x = g.input(np.arange(24, dtype="float32").reshape(2, 3, 4))
    y = dml.slice(x, [0, 0, 0], [2, 3, 4])
    assert (y.sizes, y.strides) == ((2, 3, 4), (12, 1, 3))
    result = g.compile(dml.slice(y, [0, 1, 0], [2, 2, 4]))(np.arange(24, dtype="float32").reshape(2, 3, 4))
    np.testing.assert_array_equal(result, np.arange(24).reshape(2, 3, 4)[:, 1:])


@pytest.mark.parametrize(
    ("strides", "message"),
    [
        (
            (0, 1),
            "SLICE: OutputTensor.Strides must give every coordinate an element of its own; got strides (0, 1) for",
        ),
        ((1,), "SLICE: tensor_policy: OutputTensor.Strides must have as many dimensions as Sizes, 2; got 1"),
        ((-6, 1), "SLICE: tensor_policy: OutputTensor.Strides[0] must be at least 0; got -6"),
        ("x", "SLICE: tensor_policy: OutputTensor.Strides must be a list of whole numbers"),
    ],
)
def test_a_policy_that_gives_no_layout(strides: Any, message: str) -> None:
    g = dml.Graph(tensor_policy=lambda sizes, data_type: strides)
    with pytest.raises(dml.DescriptionError) as caught:
        dml.slice(g.input(X), [0, 0], [4, 6])
    assert str(caught.value).startswith(message)


# What is told


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda g, x: dml.gather_nd(x, np.zeros((2, 1), "int64")),
            ("GATHER_ND: IndicesTensor must be an Expression, as another tensor is; got a ndarray;"
            " Graph.constant(array) makes it part of the graph, Graph.input(array) an input"),
        ),
        (
            lambda g, x: dml.gather_nd(X, x),
            ("GATHER_ND: InputTensor must be an Expression, as another tensor is; got a ndarray;"
            " Graph.constant(array) makes it part of the graph, Graph.input(array) an input"),
        ),
        (
            lambda g, x: dml.gather_nd(x, dml.Graph().input(X)),
            ("GATHER_ND: IndicesTensor must be an Expression of the same graph as the others;"
            " got Expression(input, TensorDesc('float32', (4, 6), strides=(6, 1))) of another graph"),
        ),
        (
            lambda g, x: dml.cumulative_summation(x, 0, out=5),
            ("CUMULATIVE_SUMMATION: out must not be given with an Expression: a graph is built, and nothing is run;"
            " got 5; pass out= to the compiled graph"),
        ),
        (
            lambda g, x: dml.cumulative_summation(x, 0, device="cpu"),
            ("CUMULATIVE_SUMMATION: device must not be given with an Expression: a graph is built, and nothing is run;"
            " got 'cpu'; the graph has a device already"),
        ),
        (
            lambda g, x: dml.cumulative_summation(X, 0, out=x),
            ("CUMULATIVE_SUMMATION: 2 rules are broken\n"
            "  out must not be given with an Expression: a graph is built, and nothing is run; got a Expression;"
            " pass out= to the compiled graph\n"
            "  InputTensor must be an Expression, as another tensor is; got a ndarray;"
            " Graph.constant(array) makes it part of the graph, Graph.input(array) an input"),
        ),
        (lambda g, x: g.compile([]), "Graph: outputs must be an Expression, or a list of at least one; got []"),
        (lambda g, x: g.compile(5), "Graph: outputs must be an Expression, or a list of at least one; got 5"),
        (lambda g, x: g.compile([x, 5]), "Graph: outputs[1] must be an Expression; got 5"),
        (
            lambda g, x: g.compile([dml.Graph().input(T("int8", (3,)))]),
            ("Graph: outputs[0] must be an Expression of this graph;"
            " got Expression(input, TensorDesc('int8', (3,))) of another graph"),
        ),
        (lambda g, x: g.compile(x, "fast"), "Device: flags must be one of"),
        (lambda g, x: g.input(X, "x"), "Graph: name must be unique among nodes and inputs; got 'x'"),
        (lambda g, x: g.input(X, ""), "Graph: name must be a string, not empty; got ''"),
        (lambda g, x: g.input(X, FIVE), "Graph: name must be a string, not empty; got 5"),
        (lambda g, x: g.input(X, "out"), "Graph: name must not be 'out', which a call has for the outputs"),
        (lambda g, x: g.input("x"), "Graph: input: array must be an array: NumPy's, one that speaks DLPack"),
        (lambda g, x: g.constant(bytes(4)), "Graph: constant: data must be an array, which says what it is; got"),
        (lambda g, x: g.constant(None), "ConstantNode: data must be an array: NumPy's, one that speaks DLPack"),
        (lambda g, x: g.constant(X, "x"), "Graph: name must be unique among nodes and inputs; got 'x'"),
        (lambda g, x: (x + x).named("x"), "Graph: name must be unique among nodes and inputs"),
        (
            lambda g, x: x.reinterpret((24,)).named("flat"),
            "Graph: name must be given to the expression itself: a reinterpretation of it is no node",
        ),
        (lambda g, x: dml.Graph(FIVE), "Graph: device must be a Device, its name, or None; got 5"),
        (
            lambda g, x: dml.Graph(tensor_policy=FIVE),
            "Graph: tensor_policy must be one of 'default', 'interleaved_channel', or a function; got 5",
        ),
    ],
)  # fmt: skip
def test_what_is_told(act: Any, message: str) -> None:
    g = dml.Graph("reference")
    with pytest.raises(dml.DescriptionError) as caught:
        act(g, g.input(X, "x"))
    assert str(caught.value).startswith(message)


def test_a_refused_input_leaves_no_trace() -> None:
    g = dml.Graph()
    x = g.input(X, "x")
    acts: list[Any] = [
        lambda: g.input(X, "x"),
        lambda: g.constant(X, "x"),
        lambda: dml.slice(x, [9, 9], [1, 1]),
    ]
    for refused in acts:
        with pytest.raises(dml.DescriptionError):
            refused()
    assert (g.desc(x).input_count, len(g.desc(x).nodes)) == (1, 1)
    assert x.named("z").name == "z"
    assert g.input(X, "x").name == "x"


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(dml.MissingDependencyError):
        dml.Graph("tpu")


def test_torch_in_torch_out() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
    g = dml.Graph()
    x = g.input(T("float32", (4, 6)))
    model = g.compile([dml.cumulative_summation(x, 0), x])
    total, same = model(torch.from_numpy(X))
    assert isinstance(total, torch.Tensor)
    np.testing.assert_array_equal(total.numpy(), np.cumsum(X, axis=0))
    np.testing.assert_array_equal(same.numpy(), X)

"""Nodes that read constants alone, of types that the host must take, wherever they stand in a model.

Node types come of ONNX's schemas, answers of ONNX Runtime, or of onnx where that has no kernel."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.core.errors import Fault
from onnx_answers import run_there
from onnx_models import helper, onnx

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing
from anydml.onnx.partition.part import Recut  # isort: skip - likewise
from onnx.reference import ReferenceEvaluator  # isort: skip - likewise
from onnx_answers import assert_same
from onnx_models import model, node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OPSET = 22
TYPES = ("double", "bfloat16", "string", "int64", "float8e4m3fn")
NUMBERS = np.array([[[[0.5, 1, 2], [3, 4, 0.25], [1, 2, 3]]]])
SHAPED = {"ConstantOfShape", "InstanceNormalization"}
"""Node types whose inputs must have certain shapes, which ONNX Runtime or onnx do not look at."""


def info(name: str, kind: str = "", shape: Any = None) -> Any:
    if not kind:
        return helper.make_empty_tensor_value_info(name)
    return helper.make_tensor_value_info(name, onnx.TensorProto.DataType.Value(kind.upper()), shape)


def tensors(arrays: dict[str, Any]) -> list[Any]:
    """Of arrays, or of tensors as they are."""
    return [
        array if isinstance(array, onnx.TensorProto) else onnx.numpy_helper.from_array(array, name)
        for name, array in arrays.items()
    ]


def constants(arrays: dict[str, Any]) -> list[Any]:
    return [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in tensors(arrays)]


def graph(nodes: list[Any], inputs: Any = (), output: str = "y", arrays: Any = ()) -> Any:
    outputs = [info(name) for name in output.split()]
    return helper.make_graph(nodes, "graph", list(inputs), outputs, tensors(dict(arrays)))


def finished(made: Any, functions: Any = ()) -> Any:
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("own", 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=10, functions=functions)


def plainly(nodes: list[Any], arrays: dict[str, Any]) -> Any:
    return finished(graph(nodes, arrays=arrays))


def by_nodes(nodes: list[Any], arrays: dict[str, Any]) -> Any:
    return finished(graph([*constants(arrays), *nodes]))


def in_a_known_branch(nodes: list[Any], arrays: dict[str, Any]) -> Any:
    branch = graph([*constants(arrays), *nodes])
    choice = helper.make_node("If", ["so"], ["z"], then_branch=branch, else_branch=branch)
    return finished(graph([choice], output="z", arrays={"so": np.array(True)}))


def in_a_branch(nodes: list[Any], arrays: dict[str, Any]) -> Any:
    """Which reads constants of the graph around it."""
    branch = graph(nodes)
    choice = helper.make_node("If", ["so"], ["z"], then_branch=branch, else_branch=branch)
    return finished(graph([choice], [info("so", "bool", [])], "z", arrays))


def in_a_loop(nodes: list[Any], arrays: dict[str, Any]) -> Any:
    """The first node is made around it, of constants alone; the last is taken at each step."""
    goes_on = helper.make_node("Identity", ["so"], ["more"])
    body = graph([goes_on, *nodes[1:]], [info("i", "int64", []), info("so", "bool", [])], "more y")
    around = [*constants(arrays), *nodes[:1], helper.make_node("Loop", ["most", ""], ["z"], body=body)]
    return finished(graph(around, output="z", arrays={"most": np.array(2)}))


def in_a_scan(nodes: list[Any], arrays: dict[str, Any]) -> Any:
    body = graph([*constants(arrays), *nodes], [info("row", "float", [1])])
    scan = helper.make_node("Scan", ["rows"], ["z"], body=body, num_scan_inputs=1)
    return finished(graph([scan], output="z", arrays={"rows": np.zeros((2, 1), "f")}))


def in_a_function(nodes: list[Any], arrays: dict[str, Any]) -> Any:
    opsets = [helper.make_opsetid("", OPSET)]
    function = helper.make_function("own", "F", [], ["y"], [*constants(arrays), *nodes], opsets)
    return finished(graph([helper.make_node("F", [], ["y"], domain="own")]), [function])


PLACES = (plainly, by_nodes, in_a_known_branch, in_a_branch, in_a_loop, in_a_scan, in_a_function)


def values(kind: str) -> Any:
    if kind == "string":
        return np.array([["a", "b"], ["École", ""]], object)
    return NUMBERS.astype(helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(kind.upper())))


def every_node() -> Iterator[tuple[str, str, list[Any], dict[str, Any]]]:
    """Each node type of one type of tensors that needs no attributes, in each type that may need the host.

    An Identity follows, which a body reads what was made around it by.
    """
    names = sorted({schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain} - SHAPED)
    for schema in [onnx.defs.get_schema(name, OPSET, "") for name in names if onnx.defs.has(name, OPSET, "")]:
        if schema.deprecated:
            continue
        required = [one for one in schema.inputs if one.option != onnx.defs.OpSchema.FormalParameterOption.Optional]
        allowed = {one.type_param_str: one.allowed_type_strs for one in schema.type_constraints}
        kinds = {one.type_str for one in required}
        made = allowed.get(schema.outputs[0].type_str, [schema.outputs[0].type_str]) if schema.outputs else ["nothing"]
        is_drawn = schema.name.startswith(("Random", "Bernoulli", "Multinomial"))
        if (
            len(kinds) != 1
            or is_drawn
            or not made[0].startswith("tensor(")
            or any(one.required for one in schema.attributes.values())
        ):
            continue
        for kind in TYPES:
            if f"tensor({kind})" in allowed.get(next(iter(kinds)), ()):
                arrays = {f"x{i}": values(kind) for i in range(len(required))}
                others = [f"other{i}" for i in range(1, schema.min_output)]
                first = helper.make_node(schema.name, list(arrays), ["made", *others])
                yield schema.name, kind, [first, helper.make_node("Identity", ["made"], ["y"])], arrays


def answered(proto: Any) -> Any:
    """The answer of ONNX Runtime, or of onnx where that has no kernel; None where there is none."""
    try:
        return run_there(proto, {})[0]
    except Exception as error:  # noqa: BLE001 - of classes that are ONNX Runtime's own
        if type(error).__name__ not in ("NotImplemented", "RuntimeError"):  # the last for want of arrays
            return None
    try:
        with np.errstate(all="ignore"):
            return ReferenceEvaluator(proto).run(None, {})[0]
    except Exception:  # noqa: BLE001 - whatever it raises
        return None


def found_or_error(proto: Any) -> Any:
    """The first output of a model whose inputs are truths, or the error of a run that ends."""
    found: list[Any] = []

    def run() -> None:
        try:
            inputs = {each.name: np.array(True) for each in proto.graph.input}
            found.append(next(iter(dml.onnx.load(proto).run(inputs).values())))
        except BaseException as error:  # noqa: BLE001 - looked at by the caller
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert found, "it does not end"
    return found[0]


def check(place: Callable[..., Any], nodes: list[Any], arrays: dict[str, Any], wanted: Any) -> None:
    """An answer where there is one, or else a refusal of ours; and never nothing at all."""
    given = found_or_error(place(nodes, arrays))
    if wanted is None:
        assert isinstance(given, (np.ndarray, list, dml.DmlError)), given
        return
    assert not isinstance(given, BaseException), given
    if place in (in_a_loop, in_a_scan):
        wanted = np.stack([wanted, wanted])
    assert given.shape == wanted.shape
    if wanted.dtype == object or wanted.dtype.kind in "SU":
        assert given.tolist() == wanted.tolist()
        return
    if wanted.dtype == np.uint8 != given.dtype:  # as ONNX Runtime has floats of 8 bits
        wanted = wanted.view(given.dtype)
    assert given.dtype == wanted.dtype
    tolerance = 1e-6 if given.dtype.type.__module__ == "numpy" else 0.02
    np.testing.assert_allclose(given.astype("d"), wanted.astype("d"), tolerance, tolerance)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: str(place.__name__))
def test_constants_that_need_the_host(place: Any, kind: str) -> None:
    """A model's outputs are what it has, or what its nodes make of it, be it in a branch that is known."""
    x, last = values(kind), helper.make_node("Identity", ["made"], ["y"])
    check(place, [helper.make_node("Identity", ["x"], ["made"]), last], {"x": x}, x)
    if kind in ("double", "bfloat16"):
        wanted = np.sqrt(x.astype("d")).astype(x.dtype)
        check(place, [helper.make_node("Sqrt", ["x"], ["made"]), last], {"x": x}, wanted)


@pytest.mark.parametrize("kind", TYPES)
def test_an_initializer_is_an_output(kind: str) -> None:
    x = values(kind)
    for proto in (finished(graph([], arrays={"y": x})), finished(graph(constants({"y": x})))):
        assert dml.onnx.load(proto).run({})["y"].tolist() == x.tolist()


def test_sequences_of_constants() -> None:
    for kind in TYPES:
        x = values(kind)
        nodes = [helper.make_node("SequenceConstruct", ["x", "x"], ["several"])]
        nodes += [helper.make_node("ConcatFromSequence", ["several"], ["y"], axis=0)]
        for place in (plainly, by_nodes, in_a_known_branch, in_a_branch):
            check(place, nodes, {"x": x}, np.concatenate([x, x]))


def test_what_changes_nothing_ends() -> None:
    """A part that asks for what was done already is told to the user, not asked again."""
    loaded = dml.onnx.load(finished(graph([helper.make_node("Sqrt", ["x"], ["y"])], [info("x", "double", [3])])))
    loaded.run({"x": np.ones(3)})
    assert loaded._divided is not None
    parts = loaded._divided.parts()
    reason = dml.UnsupportedError("model", Fault(field="x", rule="x must be of FLOAT"))
    recut = Recut(reason, frozenset(parts._planner._hosted))
    parts._learn(recut, [])  # of a plan that another thread replaced
    with pytest.raises(dml.UnsupportedError, match="x must be of FLOAT"):
        parts._learn(recut, parts._parts)


KINDS = [name for name in onnx.TensorProto.DataType.keys() if name != "UNDEFINED"]  # noqa: SIM118 - no dict
READERS: list[tuple[str, dict[str, Any]]] = [
    ("Identity", {}), ("Shape", {}), ("Cast", {"to": 1}), ("Concat x x", {"axis": 0}), ("ReduceL2", {}),
    ("Add x x", {}), ("Reshape x x", {}), ("NonZero", {}), ("Range x x x", {}), ("ConstantOfShape", {}),
    ("Gather x x", {}), ("SequenceConstruct", {}), ("Optional", {}), ("TopK x x", {}), ("Where x x x", {}),
    ("DequantizeLinear x x", {}),
]  # fmt: skip


def constant_of(kind: str) -> Any:
    number = onnx.TensorProto.DataType.Value(kind)
    if kind == "STRING":
        return helper.make_tensor("x", number, [2], [b"a", b"b"])
    return onnx.numpy_helper.from_array(np.array([1, 0]).astype(helper.tensor_dtype_to_np_dtype(number)), "x")


@pytest.mark.parametrize("place", PLACES, ids=lambda place: str(place.__name__))
def test_a_constant_of_any_type_gives_an_answer_or_an_error_for_users(place: Any) -> None:
    """Never a bare traceback, an endless retry or an error by which parts of anydml speak to one another."""
    told = (dml.UnsupportedError, dml.ModelError, dml.ModelFileError, dml.IndexRangeError, dml.BindingError)
    for i, kind in enumerate(KINDS):
        for name, attributes in READERS[i % 4 :: 4]:
            op, *inputs = name.split()
            nodes = [helper.make_node(op, inputs or ["x"], ["made"], **attributes)]
            proto = place([*nodes, helper.make_node("Identity", ["made"], ["y"])], {"x": constant_of(kind)})
            given = found_or_error(proto)
            assert type(given) in (np.ndarray, list, *told), (kind, name, given)


def test_a_refusal_for_want_of_values_says_that_they_must_be_given() -> None:
    proto = finished(graph([helper.make_node("NonZero", ["x"], ["y"])], [info("x", "float", [3])]))
    with pytest.raises(dml.DmlError, match="'x'") as caught:
        dml.onnx.load(proto, strict=True).explain()
    assert type(caught.value) is dml.DynamicSizesError


@pytest.mark.long
def test_every_node_type_of_constants() -> None:
    """Each in one of the places, which take turns."""
    several = list(every_node())
    assert len(several) > 150
    failed = {}
    for i, (name, kind, nodes, arrays) in enumerate(several):
        wanted = answered(plainly(nodes, arrays))
        try:
            check(PLACES[i % len(PLACES)], nodes, arrays, wanted)
        except AssertionError as error:
            failed[name, kind, i % len(PLACES)] = str(error)[:300]
    assert not failed


def test_large_fills_are_nodes_and_small_ones_constants() -> None:
    for count, note in ((5, "folded"), (100_000, "folded"), (2_000_000, "")):
        proto = model(
            node("ConstantOfShape", "n", "y", value=onnx.numpy_helper.from_array(np.array([7], "uint16"))),
            {},
            "y",
            {"n": np.array([count])},
        )
        found = dml.onnx.load(proto, device="reference")()
        assert found.dtype == "uint16"
        assert found.tolist() == [7] * count
        (record,) = dml.onnx.check(proto).nodes
        assert record.note == note
        assert [type(desc) for desc in record.descs] == ([] if note else [dml.FillValueConstant])


def test_a_shape_that_is_computed_is_static() -> None:
    """Shape, Gather, Concat and Reshape cost nothing at a run: the model is a view of its input."""
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Concat", "n minus", "t", axis=0),
        node("Reshape", "x t", "r"),
        node("Slice", "r zero n", "y"),
    ]
    constants = {"zero": np.array([0]), "minus": np.array([-1])}
    proto = model(nodes, {"x": ("float32", [2, 3, 4])}, "y", constants, dtypes={"y": "float32"})
    found = dml.onnx.check(proto)
    assert [record.note for record in found.nodes] == [
        "folded",
        "folded",
        "folded",
        "a view, no pass",
        "a view, no pass",
    ]
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)
    assert_same(proto, {"x": x})


def test_what_moves_nothing_is_no_pass() -> None:
    nodes = [
        node("Transpose", "x", "a", perm=[1, 0, 2]),
        node("Expand", "a one", "b"),
        node("Flatten", "b", "c", axis=3),
        node("Slice", "c zero end", "y"),
    ]
    constants = {"one": np.array([1]), "zero": np.array([0]), "end": np.array([2**63 - 1])}
    proto = model(nodes, {"x": ("float32", [1, 3, 2])}, "y", constants)
    found = dml.onnx.check(proto)
    assert [(record.note, record.descs) for record in found.nodes] == [("a view, no pass", ())] * 4
    assert dml.onnx.load(proto).outputs["y"].shape == (6, 1)


def test_indices_that_are_known_are_checked_once() -> None:
    for kind, attributes in (("Gather", {}), ("GatherND", {}), ("GatherElements", {"axis": 0})):
        indices = np.array([[1], [0]]) if kind == "GatherND" else np.array([1, 0])
        known = model(node(kind, "x i", "y", **attributes), {"x": ("float32", [2])}, "y", {"i": indices})
        given = model(node(kind, "x i", "y", **attributes), {"x": ("float32", [2]), "i": ("int64", indices.shape)})
        modes = [getattr(dml.onnx.check(proto).nodes[0].descs[0], "index_mode") for proto in (known, given)]  # noqa: B009 - the base has no such field
        assert modes == [dml.IndexMode.CLAMP, dml.IndexMode.RAISE]


def test_a_transpose_that_a_slice_reads_is_no_pass() -> None:
    nodes = [node("Transpose", "x", "t"), node("Slice", "t s e", "y")]
    proto = model(nodes, {"x": ("float32", [8, 8])}, "y", {"s": np.array([2]), "e": np.array([5])})
    loaded = dml.onnx.load(proto)
    (program,) = loaded._programs.values()
    assert program.compiled is not None
    assert len(program.compiled.recipe.steps) == 1
    x = np.arange(64, dtype="float32").reshape(8, 8)
    assert np.array_equal(loaded(x), x.T[2:5])


def test_more_than_eight_dimensions_are_reshaped_and_nothing_else() -> None:
    shape = (1, 2, 1, 2, 1, 2, 1, 2, 1)
    x = np.arange(16, dtype="float32").reshape(shape)
    proto = model(node("Squeeze", "x", "y"), {"x": ("float32", shape)})
    assert dml.onnx.load(proto)(x).shape == (2, 2, 2, 2)
    squeezed = model([node("Squeeze", "x", "s"), node("Transpose", "s", "y")], {"x": ("float32", shape)})
    assert np.array_equal(dml.onnx.load(squeezed)(x), x.squeeze().T)
    with pytest.raises(
        dml.UnsupportedError, match=r"node of 'y' \(Transpose\): a tensor must have at most 8 dimensions"
    ):
        dml.onnx.load(model(node("Transpose", "x", "y"), {"x": ("float32", shape)}), strict=True)

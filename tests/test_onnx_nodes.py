"""Nodes against ONNX Runtime, bit for bit: random chains of nodes that move elements, and running sums of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anydml as dml
from cases import ENGINES
from onnx_models import helper, model, node, onnx

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing

ort: Any = pytest.importorskip("onnxruntime", reason="the answers are ONNX Runtime's")

TYPES = ["float32", "float64", "float16", "int64", "int32", "uint8", "bool"]
LIMITS = [-(2**63), 2**63 - 1, -(2**31), 2**31 - 1]
ENGINE = next(engine for engine in ENGINES if engine != "reference")


def run_there(proto: Any, inputs: dict[str, Any]) -> list[Any]:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def assert_same(proto: Any, inputs: dict[str, Any], engine: str = ENGINE) -> None:
    found = dml.onnx.load(proto, device=engine).run(inputs)
    for mine, theirs in zip(found.values(), run_there(proto, inputs), strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        assert mine.tobytes() == theirs.tobytes()


class Chain:
    """A model that grows by a node at a time, and the shape of what it gives."""

    def __init__(self, draw: Any, dtype: str, shape: tuple[int, ...]) -> None:
        self.draw, self.dtype, self.shape = draw, dtype, shape
        self.x = np.arange(np.prod(shape)).reshape(shape) * 7 % 23
        self.x = self.x.astype(dtype) if dtype != "bool" else self.x % 3 == 0
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.last = "x"

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def add(self, kind: str, inputs: str, result: Any, outputs: int = 1, **attributes: Any) -> None:
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(node(kind, f"{self.last} {inputs}", " ".join(names), **attributes))
        self.last, self.shape = names[-1], tuple(result)

    def axis(self) -> int:
        return int(self.draw(st.integers(0, len(self.shape) - 1)))

    def draw_from(self, low: int, high: int, sizes: tuple[int, ...]) -> np.ndarray[Any, Any]:
        count = int(np.prod(sizes))
        values = self.draw(st.lists(st.integers(low, high), min_size=count, max_size=count))
        return np.array(values, self.draw(st.sampled_from(["int32", "int64"]))).reshape(sizes)

    # Each makes one node

    def slice(self) -> None:
        axes = self.draw(st.permutations(range(len(self.shape))))[: self.draw(st.integers(1, len(self.shape)))]
        bounds = st.one_of(st.integers(-6, 6), st.sampled_from(LIMITS))
        steps = [self.draw(st.sampled_from([1, 1, 2, 3, -1, -2, 2**40])) for _ in axes]
        starts, ends = ([self.draw(bounds) for _ in axes] for _ in range(2))
        given = [self.constant(np.array(values, "int64")) for values in (starts, ends, axes, steps)]
        shape = list(self.shape)
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
            shape[axis] = count_taken(start, end, step, shape[axis])
        self.add("Slice", " ".join(given), shape)

    def transpose(self) -> None:
        order = self.draw(st.permutations(range(len(self.shape))))
        self.add("Transpose", "", [self.shape[k] for k in order], perm=order)

    def reshape(self) -> None:
        self.add("Reshape", self.constant(np.array([0, -1])), [self.shape[0], int(np.prod(self.shape[1:]))])

    def unsqueeze(self) -> None:
        axis = self.axis()
        self.add("Unsqueeze", self.constant([axis]), [*self.shape[:axis], 1, *self.shape[axis:]])

    def flatten(self) -> None:
        axis = self.axis()
        shape = [int(np.prod(self.shape[:axis])), int(np.prod(self.shape[axis:]))]
        self.add("Flatten", "", shape, axis=axis - len(self.shape) if axis else 0)

    def expand(self) -> None:
        self.add("Expand", self.constant([2, *([1] * len(self.shape))]), [2, *self.shape])

    def concat(self) -> None:
        axis = self.axis()
        shape = [2 * n if k == axis else n for k, n in enumerate(self.shape)]
        self.add("Concat", self.last, shape, axis=axis)

    def split(self) -> None:
        axis, n = self.axis(), 0
        n = int(self.draw(st.integers(0, self.shape[axis])))
        sizes = self.constant([n, self.shape[axis] - n])
        shape = [self.shape[axis] - n if k == axis else m for k, m in enumerate(self.shape)]
        self.add("Split", sizes, shape, outputs=2, axis=axis)

    def gather(self) -> None:
        axis = self.axis()
        n = self.shape[axis]
        indices = self.draw_from(-n, n - 1, self.draw(st.sampled_from([(), (3,), (2, 1)])))
        shape = [*self.shape[:axis], *indices.shape, *self.shape[axis + 1 :]]
        self.add("Gather", self.constant(indices), shape, axis=axis)

    def gather_elements(self) -> None:
        axis = self.axis()
        sizes = tuple(3 if k == axis else max(n - 1, 1) for k, n in enumerate(self.shape))
        indices = self.draw_from(-self.shape[axis], self.shape[axis] - 1, sizes)
        self.add("GatherElements", self.constant(indices), sizes, axis=axis)

    def gather_nd(self) -> None:
        indices = self.draw_from(-self.shape[0], self.shape[0] - 1, (2, 2, 1)).astype("int64")
        self.add("GatherND", self.constant(indices), [2, 2, *self.shape[1:]])

    def cum_sum(self) -> None:
        axis, flags = self.axis(), [self.draw(st.integers(0, 1)) for _ in range(2)]
        self.add("CumSum", self.constant(np.array(axis)), self.shape, exclusive=flags[0], reverse=flags[1])

    def reverse_sequence(self) -> None:
        lengths = self.draw_from(1, self.shape[0], (self.shape[1],)).astype("int64")
        self.add("ReverseSequence", self.constant(lengths), self.shape)

    def grow(self) -> None:
        moves = [self.transpose, self.unsqueeze, self.flatten, self.expand, self.concat, self.split]
        if 0 not in self.shape:
            moves += [self.slice, self.slice, self.reshape, self.gather, self.gather_elements, self.gather_nd]
            moves += [self.cum_sum] * (self.dtype in ("int64", "int32"))
            moves += [self.reverse_sequence] * (len(self.shape) > 1)
        if self.shape:
            self.draw(st.sampled_from(moves))()


def count_taken(start: int, end: int, step: int, size: int) -> int:
    """The count of elements that ONNX's Slice takes, by walking; backwards the greatest ends are open ones."""
    if step < 0 and end in LIMITS[1::2]:
        end = LIMITS[0]
    start, end = (bound + size if bound < 0 else bound for bound in (start, end))
    start = min(max(start, 0), size if step > 0 else size - 1)
    end = min(max(end, 0 if step > 0 else -1), size if step > 0 else size - 1)
    return len(range(start, end, step))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_chains_give_the_bits_of_onnx_runtime(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(TYPES))
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    chain = Chain(data.draw, dtype, shape)
    for _ in range(data.draw(st.integers(1, 4))):
        chain.grow()
    names = " ".join(name for n in chain.nodes for name in n.output)
    dtypes = dict.fromkeys(names.split(), dtype)
    proto = model(chain.nodes, {"x": (dtype, shape)}, names, chain.constants, dtypes=dtypes)
    proto.graph.output.reverse()  # the last is read, and so are all before it
    assert_same(proto, {"x": chain.x})


def test_bounds_of_slices_that_programs_write() -> None:
    x = np.arange(7, dtype="int32")
    for start, end, step in [
        (3, 2**31 - 1, -1), (3, 2**63 - 1, -2), (3, 2**31 - 2, -1), (3, 2**31, -1), (3, 2**63 - 2, -1), (3, 7, -1),
        (2**63 - 1, 2**63 - 1, -1), (-1, 2**31 - 1, -3), (3, 2**31 - 1, 1),
        (-1, -(2**63), -1), (2**31 - 1, -(2**31), -2), (-100, 100, 3), (5, 2, 1), (0, 2**63 - 1, 2**62), (-2, -2, -1),
        (-100, -(2**63), -1), (3, 3, 1), (6, 0, -3),
    ]:  # fmt: skip
        bounds = {"s": np.array([start]), "e": np.array([end]), "a": np.array([0]), "t": np.array([step])}
        fits = max(map(abs, (start, end, step))) < 2**31
        for bound_type in ["int64", *["int32"] * fits]:
            given = {name: array.astype(bound_type) for name, array in bounds.items()}
            proto = model(node("Slice", "x s e a t", "y"), {"x": ("int32", [7])}, "y", given, dtypes={"y": "int32"})
            assert_same(proto, {"x": x})


def test_no_axes_to_squeeze_are_all_of_size_1() -> None:
    x = np.ones((1, 2, 1), "float32")
    for inputs, opset in ((("x a"), 13), (("x"), 11)):
        squeezing = node("Squeeze", inputs, "y")
        if opset < 13:
            squeezing.attribute.append(onnx.helper.make_attribute("axes", [], attr_type=onnx.AttributeProto.INTS))
        constants = {"a": np.zeros(0, "int64")}
        proto = model(squeezing, {"x": ("float32", x.shape)}, "y", constants, opset=opset, dtypes={"y": "float32"})
        assert_same(proto, {"x": x})


def test_old_opsets_have_their_own_forms() -> None:
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)

    def run(*nodes: Any, opset: int, outputs: str = "y", constants: Any = None) -> Any:
        proto = model(list(nodes), {"x": ("float32", [2, 3, 4])}, outputs, constants, opset=opset)
        return dml.onnx.load(proto, device="reference")(x)

    assert np.array_equal(
        run(node("Slice", "x", "y", starts=[1, -3], ends=[9, -1], axes=[1, 2]), opset=1), x[:, 1:, 1:3]
    )
    assert np.array_equal(run(node("Reshape", "x", "y", shape=[0, -1]), opset=1), x.reshape(2, 12))
    assert np.array_equal(run(node("Unsqueeze", "x", "y", axes=[3, 0]), opset=1), x[None, :, :, None])
    assert run(node("Unsqueeze", "x", "u", axes=[1]), node("Squeeze", "u", "y", axes=[1]), opset=1).shape == (2, 3, 4)
    assert run(node("Unsqueeze", "x", "u", axes=[1]), node("Squeeze", "u", "y"), opset=1).shape == (2, 3, 4)
    assert np.array_equal(run(node("Concat", "x x", "y"), opset=1), np.concatenate([x, x], 1))
    parts = run(node("Split", "x", "a b", axis=2, split=[1, 3]), opset=2, outputs="a b")
    assert [part.shape for part in parts] == [(2, 3, 1), (2, 3, 3)]
    assert np.array_equal(run(node("Cast", "x", "y", to="INT32"), opset=1), x.astype("int32"))


def test_num_outputs_leave_the_last_part_smaller() -> None:
    proto = model(node("Split", "x", "a b c", num_outputs=3), {"x": ("int64", [7])}, "a b c", opset=18)
    parts = dml.onnx.load(proto, device="reference")(np.arange(7))
    assert [part.tolist() for part in parts] == [[0, 1, 2], [3, 4, 5], [6]]


@pytest.mark.parametrize(("size", "count"), [(6, 4), (5, 4), (3, 5), (0, 2)])
def test_num_outputs_leave_no_part_empty(size: int, count: int) -> None:
    names = " ".join("abcde"[:count])
    proto = model(node("Split", "x", names, num_outputs=count), {"x": ("float32", [size])}, names, opset=18)
    with pytest.raises(dml.ModelError, match="num_outputs must leave something for each part"):
        dml.onnx.load(proto)
    with pytest.raises(Exception, match="Invalid"):
        run_there(proto, {"x": np.zeros(size, "float32")})


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8", "int64", "uint8", "bool"])
def test_casts_between_the_types_there_are(dtype: str) -> None:
    x = np.array([0, 1, 0, 1]).astype(dtype) if dtype == "bool" else np.array([0, 1, 5, 100]).astype(dtype)
    for other in ["float32", "float64", "float16", "int32", "int64", "uint8"]:
        to = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(other))
        proto = model(node("Cast", "x", "y", to=to), {"x": (dtype, [4])}, "y", dtypes={"y": other})
        assert_same(proto, {"x": x})


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8", "int64", "uint8", "uint64"])
def test_a_cast_to_bool_is_whether_it_is_not_0(dtype: str) -> None:
    x = np.array([0, 1, 0, 100], dtype)
    if x.dtype.kind == "f":
        tiny = np.nextafter(np.array(0, dtype), np.array(1, dtype))  # FLOAT32 has none as small as FLOAT64's
        x = np.concatenate([x, [-0.0, np.nan, -np.inf, tiny, -tiny]]).astype(dtype)
    nodes = [node("Cast", "x", "y", to=onnx.TensorProto.BOOL), node("CastLike", "k b", "z")]
    proto = model(nodes, {"x": (dtype, x.shape)}, "y z", {"k": x, "b": np.array(True)})
    for found in dml.onnx.load(proto, device="reference").run({"x": x}).values():
        assert found.dtype == bool
        assert found.tolist() == (x != 0).tolist()


@pytest.mark.parametrize(
    ("start", "limit", "delta"),
    [(1, 10, 2), (10, -7, -3), (0, 0, 1), (5, 1, 1), (0.5, 2.0, 0.1), (1.0, 0.0, -0.25), (0, 2_000_000, 1)],
)
def test_ranges(start: float, limit: float, delta: float) -> None:
    dtype = "float32" if isinstance(start, float) else "int64"
    numbers = {n: np.array(v, dtype) for n, v in (("start", start), ("limit", limit), ("delta", delta))}
    proto = model(node("Range", "start limit delta", "y"), {}, "y", numbers, dtypes={"y": dtype})
    (theirs,) = run_there(proto, {})
    mine = dml.onnx.load(proto, device=ENGINE)()
    assert mine.shape == theirs.shape
    assert np.allclose(mine, theirs, rtol=1e-6)


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


def test_float_sums_are_at_least_as_precise() -> None:
    x = np.random.default_rng(0).random((1, 100_000), "float32")
    proto = model(
        node("CumSum", "x a", "y"), {"x": ("float32", x.shape)}, "y", {"a": np.array(1)}, dtypes={"y": "float32"}
    )
    mine, (theirs,) = dml.onnx.load(proto)(x), run_there(proto, {"x": x})
    right = np.cumsum(x, 1, "float64")
    assert np.abs(mine - right).max() <= np.abs(theirs - right).max()
    assert np.array_equal(mine, right.astype("float32"))


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
        modes = [getattr(dml.onnx.check(proto).nodes[0].descs[0], "index_mode") for proto in (known, given)]  # noqa: B009
        assert modes == [dml.IndexMode.CLAMP, dml.IndexMode.RAISE]


WIDTHS = (("float32", "int32", "uint32"), ("float64", "int64", "uint64"), ("float16", "uint16"), ("int8", "uint8"))
PAIRS = [(a, b) for several in WIDTHS for a in several for b in several]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_bits_are_read_as_another_type(one: str, other: str, engine: str) -> None:
    """An input, a constant and what a node makes, each as an output and as another node's input, beside themselves."""
    bits = np.dtype(one).itemsize * 8
    x = np.random.default_rng(3).integers(0, 2**bits, (3, 5), f"uint{bits}").view(one)
    number = helper.np_dtype_to_tensor_dtype(np.dtype(other))
    nodes = [
        node("Transpose", "x", "t"),
        *(node("BitCast", name, f"{name}_bits", to=number) for name in ("x", "k", "t")),
        *(node("Slice", f"{name}_bits s e", f"{name}_part") for name in ("x", "k", "t")),
        node("Transpose", "t_bits", "back"),
    ]
    names = "t x_bits k_bits t_bits x_part k_part t_part back"
    constants = {"k": x[::-1].copy(), "s": np.array([1]), "e": np.array([3])}
    loaded = dml.onnx.load(model(nodes, {"x": (one, [3, 5])}, names, constants, opset=26), device=engine)
    found = loaded.run({"x": x})
    wanted = {name: array.copy().view(other) for name, array in (("x", x), ("k", x[::-1]), ("t", x.T))}
    assert found["t"].tobytes() == x.T.copy().tobytes()
    assert found["back"].tobytes() == x.view(other).tobytes()
    for name, array in wanted.items():
        assert found[f"{name}_bits"].dtype == found[f"{name}_part"].dtype == array.dtype
        assert found[f"{name}_bits"].tobytes() == array.tobytes()
        assert found[f"{name}_part"].tobytes() == array[1:3].tobytes()


def test_bits_of_another_count_are_refused() -> None:
    for to, name in ((7, "INT64"), (10, "FLOAT16")):
        proto = model(node("BitCast", "x", "y", to=to, name="b"), {"x": ("float32", [2])}, opset=26)
        with pytest.raises(dml.ModelError) as caught:
            dml.onnx.load(proto)
        assert str(caught.value) == f"node 'b' (BitCast): to must be a type of 32 bits, as FLOAT is; got {name}"


@pytest.mark.parametrize("opset", [15, 19, 21, 23, 24, 25])
def test_a_cast_to_the_type_of_another_tensor(opset: int) -> None:
    x = np.array([-1.5, 2.5, 300], "float32")
    for like in (np.zeros(7, "int16"), np.zeros((), "float16"), np.zeros((0, 3), "float64"), x):
        proto = model(node("CastLike", "x t", "y"), {"x": ("float32", [3])}, "y", {"t": like}, opset=opset)
        found = dml.onnx.load(proto)(x)
        assert (found.dtype, found.tolist()) == (like.dtype, x.astype(like.dtype).tolist())
        given = {"x": ("float32", [3]), "t": (like.dtype, like.shape)}
        assert dml.onnx.load(model(node("CastLike", "x t", "y"), given, opset=opset))(x, like).dtype == like.dtype


def test_a_transpose_that_a_slice_reads_is_no_pass() -> None:
    nodes = [node("Transpose", "x", "t"), node("Slice", "t s e", "y")]
    proto = model(nodes, {"x": ("float32", [8, 8])}, "y", {"s": np.array([2]), "e": np.array([5])})
    loaded = dml.onnx.load(proto)
    (program,) = loaded._programs.values()
    assert program.compiled is not None
    assert len(program.compiled.recipe.steps) == 1
    x = np.arange(64, dtype="float32").reshape(8, 8)
    assert np.array_equal(loaded(x), x.T[2:5])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (node("Slice", "x s e a", "y", name="n"), r"node 'n' \(Slice\): starts, ends, axes and steps must be as many"),
        (node("Slice", "x p p axes2", "y", name="n"), r"axes must name each axis once; got \[0, -2\]"),
        (node("Slice", "x s e a z", "y", name="n"), r"steps\[0\] must not be 0"),
        (node("Gather", "x p", "y", axis=2), r"node of 'y' \(Gather\): axis must lie in -2 .. 1; got 2"),
        (
            node("Gather", "x nine", "y", name="g"),
            r"node 'g' \(Gather\): indices\[0\] = 9 is outside dimension 0 of size 4",
        ),
        (node("GatherND", "x nine", "y", name="g"), r"node 'g' \(GatherND\): indices\[0\] = 9 is outside dimension 0"),
        (node("Gather", "x four", "y"), r"indices\[1\] = 4 is outside dimension 0 of size 4; take -4 .. 3"),
        (node("ReverseSequence", "x nines", "y"), r"sequence_lens must lie in 0 .. 4"),
        (node("GatherElements", "x nine", "y"), "indices must have 2 dimensions, as data has"),
        (node("Reshape", "x nine", "y"), r"shape must have the 16 elements of data, \(4, 4\); got \[9\]"),
        (node("Squeeze", "x p", "y"), "dimension 0 must be of size 1 to be left out; got 4"),
        (node("Transpose", "x", "y", perm=[0, 0]), "perm must name each of 0 .. 1 once"),
        (node("Expand", "x nine", "y"), r"shape must be one that \(4, 4\) can be broadcast to; got \[9\]"),
        (node("Concat", "x p", "y", axis=0), r"inputs\[1\] must be of FLOAT, as inputs\[0\] is; got INT64"),
        (node("Split", "x p", "y w"), r"split must have sizes that add up to 4; got \[0, 1\]"),
        (node("CumSum", "x p", "y"), "axis must be one number; got 2"),
        (node("Flatten", "x", "y", axis=3), "axis must lie in -2 .. 2; got 3"),
        (node("ReverseSequence", "x p", "y"), r"sequence_lens must have the shape \(4,\)"),
        (node("Range", "nine nine z", "y"), "delta not 0"),
        (node("Slice", "x", "y"), r"node of 'y' \(Slice\): a Slice must have 3 .. 5 inputs; got 1"),
        (node("Gather", "x p", "y", axis=1.5), "axis must be of INT; got FLOAT"),
        (node("Gather", "x p", "y", side=1), "a Gather has no attribute 'side'; it has axis"),
    ],
)
def test_what_is_wrong_with_a_node_is_told_at_load(wrong: Any, message: str) -> None:
    constants = {
        "s": np.array([0]),
        "e": np.array([1, 2]),
        "a": np.array([0, 1]),
        "axes2": np.array([0, -2]),
        "p": np.array([0, 1]),
        "z": np.array([0]),
        "nine": np.array([9]),
        "nines": np.array([4, 0, 1, 5]),
        "four": np.array([-4, 4]),
    }
    if "z" in wrong.input and wrong.op_type == "Slice":
        constants |= {"e": np.array([1]), "a": np.array([0])}
    with pytest.raises(dml.DmlError, match=message):
        dml.onnx.load(model(wrong, {"x": ("float32", [4, 4])}, "y", constants))


def test_types_that_an_operator_lacks_are_refused_with_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX refuses UINT8 itself; of a node type whose rules onnx does not know, DirectML is asked."""
    monkeypatch.setattr("anydml.onnx.signatures.node_rules", lambda *_: None)
    proto = model(node("CumSum", "x a", "y", name="sums"), {"x": ("uint8", [3])}, "y", {"a": np.array(0)})
    with pytest.raises(dml.UnsupportedError, match=r"node 'sums' \(CumSum\): CUMULATIVE_SUMMATION: .* got UINT8"):
        dml.onnx.load(proto)


def test_doubles_are_added_up_though_directml_does_not() -> None:
    x = np.random.default_rng(1).random((3, 5))
    proto = model(
        node("CumSum", "x a", "y"), {"x": ("float64", x.shape)}, "y", {"a": np.array(1)}, dtypes={"y": "float64"}
    )
    assert_same(proto, {"x": x})
    (found,) = dml.onnx.check(proto).nodes
    assert found.error is None
    assert found.lowest_level == dml.FeatureLevel("2_1")  # the operator's
    assert found.note == "FLOAT64 is an addition to DirectML, which has it at no level for CUMULATIVE_SUMMATION"


def test_a_level_that_lacks_an_operator_is_told_with_the_node() -> None:
    proto = model(node("CumSum", "x a", "y", name="sums"), {"x": ("int64", [1, 1, 2, 3])}, "y", {"a": np.array(3)})
    with pytest.raises(dml.FeatureLevelError, match=r"node 'sums' \(CumSum\): .* needs DML_FEATURE_LEVEL_5_0"):
        dml.onnx.load(proto, device=dml.Device(feature_level="4_0"))


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
        dml.onnx.load(model(node("Transpose", "x", "y"), {"x": ("float32", shape)}))

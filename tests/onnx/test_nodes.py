"""Nodes against ONNX Runtime, bit for bit: random chains of nodes that move elements, and running sums of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anydml as dml
from onnx_answers import ENGINE, assert_same, run_there
from onnx_models import model, node, onnx

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing

LIMITS = [-(2**63), 2**63 - 1, -(2**31), 2**31 - 1]


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


TYPES = ["float32", "float64", "float16", "int64", "int32", "uint8", "bool"]


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


@pytest.mark.parametrize(("pads", "count"), [([-2, 4], 3), ([3, -2], 2), ([1, -2], 0)])
def test_a_padding_that_cuts_off_more_than_there_is_leaves_its_value(pads: list[int], count: int) -> None:
    proto = model(node("Pad", "x pads seven", "y"), {"x": ("float32", [1])}, "y", {
        "pads": np.array(pads), "seven": np.array(7, "float32"),
    })  # fmt: skip
    np.testing.assert_array_equal(dml.onnx.load(proto).run({"x": np.ones(1, "float32")})["y"], [7] * count)


def test_float_sums_are_at_least_as_precise() -> None:
    x = np.random.default_rng(0).random((1, 100_000), "float32")
    proto = model(
        node("CumSum", "x a", "y"), {"x": ("float32", x.shape)}, "y", {"a": np.array(1)}, dtypes={"y": "float32"}
    )
    mine, (theirs,) = dml.onnx.load(proto)(x), run_there(proto, {"x": x})
    right = np.cumsum(x, 1, "float64")
    assert np.abs(mine - right).max() <= np.abs(theirs - right).max()
    assert np.array_equal(mine, right.astype("float32"))


def test_doubles_are_added_up_though_directml_does_not() -> None:
    x = np.random.default_rng(1).random((3, 5))
    proto = model(
        node("CumSum", "x a", "y"), {"x": ("float64", x.shape)}, "y", {"a": np.array(1)}, dtypes={"y": "float64"}
    )
    assert_same(proto, {"x": x})
    (found,) = dml.onnx.check(proto).nodes
    assert found.error is None
    assert found.lowest_level == dml.FeatureLevel("2_1")  # the operator's
    assert found.note == "FLOAT64 is an extension of DirectML, which has it at no level for CUMULATIVE_SUMMATION"


def test_batch_norm_in_training_of_every_opset() -> None:
    numbers = np.random.default_rng(5)
    x = numbers.standard_normal((2, 3, 4)).astype("float32")
    rows = {name: np.abs(numbers.standard_normal(3)).astype("float32") for name in "sbmv"}
    for opset in (7, 9, 14):
        outputs = "y mean var saved inverse" if opset < 14 else "y mean var"
        norm = node("BatchNormalization", "x s b m v", outputs, **{"training_mode": 1} if opset >= 14 else {})
        proto = model(norm, {"x": ("float32", x.shape)}, outputs, rows, opset=opset)
        found = dml.onnx.load(proto, device=ENGINE).run({"x": x})
        for mine, theirs in zip(found.values(), run_there(proto, {"x": x}), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_outputs_that_are_not_computed_are_refused_when_they_are_read() -> None:
    norm = node("BatchNormalization", "x s s s s", "y mean", name="norm")
    given, ones = {"x": ("float32", (2, 3, 4))}, {"s": np.ones(3, "float32")}
    x = np.ones((2, 3, 4), "float32")
    assert list(dml.onnx.load(model(norm, given, "y", ones)).run({"x": x})) == ["y"]
    with pytest.raises(
        dml.UnsupportedError, match=r"outputs\[1\] of node 'norm' \(BatchNormalization\), 'mean', is not"
    ):
        dml.onnx.load(model(norm, given, "y mean", ones), strict=True).run({"x": x})


@pytest.mark.parametrize(
    ("left", "right"), [((3, 0), (0, 2)), ((0,), (0, 2)), ((3, 0), (0,)), ((0,), (0,)), ((2, 1, 3, 0), (4, 0, 2))]
)
def test_products_of_nothing_are_zeros_as_numpy_has_them(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x, y = np.zeros(left, "float32"), np.zeros(right, "float32")  # ONNX Runtime's are other shapes, and not written
    given = {"x": ("float32", left), "y": ("float32", right)}
    found = dml.onnx.load(model(node("MatMul", "x y", "z"), given, "z")).run({"x": x, "y": y})["z"]
    assert np.array_equal(found, x @ y)
    if len(left) == len(right) == 2:
        proto = model(node("Gemm", "x y c", "z"), given, "z", {"c": np.array([1, 2], "float32")})
        assert np.array_equal(dml.onnx.load(proto).run({"x": x, "y": y})["z"], x @ y + [1, 2])
        turned = {"x": ("float32", left[::-1]), "y": ("float32", right[::-1])}
        proto = model(node("Gemm", "x y", "z", transA=1, transB=1), turned, "z")
        assert np.array_equal(dml.onnx.load(proto).run({"x": x.T, "y": y.T})["z"], x @ y)


def test_a_convolution_to_one_place_and_one_channel() -> None:
    x, w = (np.arange(n, dtype="float32").reshape(1, 2, -1) for n in (14, 6))
    conv = node("Conv", "x w", "y", dilations=[2], strides=[3])
    assert_same(model(conv, {"x": ("float32", x.shape)}, "y", {"w": w}), {"x": x})

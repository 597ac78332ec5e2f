"""The cuda engine's convolutions, poolings, orders and scatters against the reference: on a GPU, or interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cuda import is_interpreted
from guarded import guarded
from places import get, put, why_not_interpreted

pytestmark = [pytest.mark.sampled(interpreted=2), pytest.mark.check_bounds]

ImplicitGemmProgram: Any = pytest.importorskip(
    "anydml.engines.cuda.conv.implicit_gemm",
    reason="Triton is not installed: make test EXTRAS='torch triton'",
    exc_type=ImportError,
).ImplicitGemmProgram
import torch  # noqa: E402 - it may be missing

from anydml.engines.cuda.conv.stencil import StencilProgram  # noqa: E402 - it needs Triton
from anydml.engines.cuda.move.scatter import LastWriterProgram  # noqa: E402 - it needs Triton
from anydml.engines.cuda.move.sort import TopKProgram  # noqa: E402 - it needs Triton
from anydml.engines.cuda.rows.resample import ResampleProgram  # noqa: E402 - it needs Triton

if reason := why_not_interpreted():
    pytest.skip(reason, allow_module_level=True)

CUDA, REFERENCE = dml.Device("cuda"), dml.Device("reference")
PLACE = "cpu" if is_interpreted() else "cuda"
TIMES = 1 if is_interpreted() else 8
"""How many times as many channels there are on a GPU."""
RTOL = {"float16": 2e-3, "float32": 2e-6}
LAST = {1: (0, 2, 1), 2: (0, 2, 3, 1), 3: (0, 2, 3, 4, 1)}


def laid_out(sizes: tuple[int, ...], dtype: str, *, is_last: bool) -> dml.TensorDesc:
    """A tensor whose channels lie beside one another, or not."""
    if not is_last:
        return dml.TensorDesc(dtype, sizes)
    order = LAST[len(sizes) - 2]
    steps = np.cumprod([1, *(sizes[k] for k in reversed(order))])[:-1][::-1]
    strides = dict(zip(order, map(int, steps), strict=True))
    return dml.TensorDesc(dtype, sizes, strides=tuple(strides[k] for k in range(len(sizes))))


def answers(desc: dml.OperatorDesc, inputs: list[np.ndarray[Any, Any]]) -> tuple[Any, list[Any], list[Any]]:
    """What an operator was compiled to on a GPU, and the first outputs of both engines."""
    compiled, found = [], []
    for device, place in ((CUDA, PLACE), (REFERENCE, "cpu")):
        made = device.compile(desc)
        outs = [
            torch.zeros(
                max(t.total_tensor_size_in_bytes // t.data_type.size_in_bytes, 1), dtype=_torch(t), device=place
            )
            for t in desc.outputs().values()
        ]
        views = [
            out.as_strided(t.sizes, t.element_strides) for out, t in zip(outs, desc.outputs().values(), strict=True)
        ]
        given = [
            torch.from_numpy(x).to(place).as_strided(t.sizes, t.element_strides)
            for x, t in zip(inputs, desc.inputs().values(), strict=True)
        ]
        made.bind(*given, out=views if len(views) > 1 else views[0]).dispatch()
        compiled.append(made)
        found.append([view.cpu() for view in views])
    return compiled[0], found[0], found[1]


def _torch(tensor: dml.TensorDesc) -> Any:
    return getattr(torch, tensor.data_type.dtype.name)


def numbers(tensor: dml.TensorDesc, seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    count = tensor.total_tensor_size_in_bytes // tensor.data_type.size_in_bytes
    return rng.standard_normal(count).astype(tensor.data_type.dtype)


# batch, groups, channels of a group, of the result's, sizes, window, strides, padding, dilations
GEOMETRIES: dict[str, tuple[Any, ...]] = {
    "as usual": (2, 1, 20, 18, (5, 6), (3, 3), (1, 1), (1, 1), (1, 1)),
    "no padding": (1, 1, 17, 5, (6, 5), (2, 3), (2, 1), (0, 0), (1, 2)),
    "three channels": (2, 1, 3, 9, (9, 8), (7, 7), (2, 2), (3, 3), (1, 1)),
    "few, dilated": (1, 1, 5, 4, (6, 7), (2, 2), (1, 2), (2, 1), (1, 2)),
    "one tap, apart": (2, 1, 19, 20, (6, 7), (1, 1), (2, 3), (0, 0), (1, 1)),
    "nothing after the sum": (2, 1, 16, 20, (6, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
    "groups": (2, 2, 16, 7, (4, 5), (3, 2), (1, 1), (2, 0), (1, 1)),
    "depthwise": (2, 9, 1, 1, (6, 7), (3, 3), (2, 1), (1, 1), (1, 1)),
    "depthwise, twice": (1, 5, 1, 2, (5, 5), (2, 3), (1, 1), (0, 1), (2, 1)),
    "a line": (2, 1, 18, 6, (9,), (3,), (2,), (1,), (1,)),
    "a volume": (1, 1, 16, 4, (3, 4, 3), (2, 2, 3), (1, 2, 1), (0, 1, 1), (1, 1, 1)),
}


@pytest.mark.parametrize(("is_last", "dtype"), [(False, "float32"), (True, "float16")])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_convolutions(name: str, is_last: bool, dtype: str) -> None:
    batch, groups, inner, outer, sizes, window, strides, pads, dilations = GEOMETRIES[name]
    if inner > 1:  # else depthwise
        inner, outer = inner * TIMES, outer * TIMES
    counts = [
        (size + 2 * pad - (taps - 1) * dilation - 1) // stride + 1
        for size, taps, stride, pad, dilation in zip(sizes, window, strides, pads, dilations, strict=True)
    ]
    x = laid_out((batch, groups * inner, *sizes), dtype, is_last=is_last)
    w = laid_out((groups * outer, inner, *window), dtype, is_last=is_last)
    bias = dml.TensorDesc(dtype, (1, groups * outer, *(1 for _ in sizes)))
    y = laid_out((batch, groups * outer, *counts), dtype, is_last=is_last)
    after: dict[str, Any] = {"bias_tensor": bias, "fused_activation": dml.FusedActivation("relu")}
    desc = dml.Convolution(
        input_tensor=x, filter_tensor=w, output_tensor=y, strides=strides, start_padding=pads, end_padding=pads,
        dilations=dilations, group_count=groups, **({} if name == "nothing after the sum" else after),
    )  # fmt: skip
    tensors = (x, w) if name == "nothing after the sum" else (x, w, bias)
    inputs = [numbers(tensor, seed) for seed, tensor in enumerate(tensors)]
    made, (got,), (wanted,) = answers(desc, inputs)
    schedule = StencilProgram if name.startswith("depthwise") else ImplicitGemmProgram
    assert isinstance(made._programs[-1], schedule)
    off = (got.double() - wanted.double()).abs().max() / wanted.double().abs().max()
    assert off <= RTOL[dtype]


@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("pads", [(0, 0), (1, 1)])
def test_poolings_take_one_step(pads: tuple[int, int], is_last: bool) -> None:
    x = laid_out((2, 5 * TIMES, 7, 6), "float32", is_last=is_last)
    y = laid_out((2, 5 * TIMES, *((size + 2 * pads[0] - 3) // 2 + 1 for size in (7, 6))), "float32", is_last=is_last)
    shape = {"strides": (2, 2), "window_size": (3, 3), "start_padding": pads, "end_padding": pads}
    given = numbers(x, 3)
    given[::7] = np.nan
    for desc in (
        dml.MaxPooling(input_tensor=x, output_tensor=y, **shape),
        dml.AveragePooling(input_tensor=x, output_tensor=y, include_padding=False, **shape),
    ):
        made, (got,), (wanted,) = answers(desc, [given])
        assert [type(program) for program in made._programs] == [StencilProgram]
        assert np.allclose(got, wanted, rtol=1e-6, atol=1e-6, equal_nan=True)


# operator, window, stride, padding, dilation along rows that are 16 wide: in words, alone in one, with results past the
# end
WORDS = [
    ("max", 3, 2, 1, 1),
    ("mean", 2, 2, 0, 1),
    ("depthwise", 3, 1, 1, 1),
    ("max", 5, 3, 2, 1),
    ("mean", 2, 1, 0, 2),
]


@pytest.mark.parametrize(("dtype", "is_last"), [("float16", False), ("float32", True)])
def test_results_of_a_thread_share_what_they_read(dtype: str, is_last: bool) -> None:
    for name, taps, stride, pad, dilation in WORDS:
        count = (16 + 2 * pad - (taps - 1) * dilation - 1) // stride + 1
        x, y = (laid_out((1, 2, *sizes), dtype, is_last=is_last) for sizes in ((3, 16), (2, count)))
        w = laid_out((2, 1, 2, taps), dtype, is_last=is_last)
        shape: Any = {"strides": (1, stride), "start_padding": (0, pad), "end_padding": (0, pad)}
        shape |= {"dilations": (1, dilation), "input_tensor": x, "output_tensor": y}
        desc: dml.OperatorDesc
        if name == "depthwise":
            desc = dml.Convolution(filter_tensor=w, group_count=2, **shape)
        elif name == "max":
            desc = dml.MaxPooling2(window_size=(2, taps), **shape)
        else:
            desc = dml.AveragePooling1(window_size=(2, taps), include_padding=False, **shape)
        inputs = [numbers(tensor, seed) for seed, tensor in enumerate(desc.inputs().values())]
        made, (got,), (wanted,) = answers(desc, inputs)
        assert [type(program) for program in made._programs] == [StencilProgram]
        assert (got.double() - wanted.double()).abs().max() <= RTOL[dtype] * wanted.double().abs().max()


@pytest.mark.skipif(not is_interpreted(), reason="a GPU's memory has no pages to guard it")
def test_results_past_the_end_read_nothing() -> None:
    """Of rows that a thread's results do not fill: windows of those that there are not would lie behind the picture."""
    for rows in (7, 9, 15):
        x = guarded(np.random.default_rng(rows).integers(-9, 9, (1, 1, rows, 19)).astype("float32"), at_end=True)
        found, wanted = (dml.max_pooling(x, window_size=(3, 3), device=one) for one in (CUDA, REFERENCE))
        np.testing.assert_array_equal(found, wanted)


def test_one_result_of_elements_that_lie_apart() -> None:
    """A fold of all dimensions has none that leads from window to window."""
    x = np.random.default_rng(1).integers(-9, 9, (7, 12)).astype("float32")
    for part in (x[::2, ::3], x[::-1, 3:7], x[1:4, 2:5]):
        found = dml.reduce(put(part, CUDA), "sum", axes=[0, 1], device=CUDA)
        np.testing.assert_array_equal(get(found).ravel(), part.sum())


@pytest.mark.parametrize(("dtype", "is_last"), [("float16", False), ("float32", True)])
def test_resampling_by_small_ratios_takes_one_step(dtype: str, is_last: bool) -> None:
    host = dml.Device("cpu")
    for mode, sizes, scales in (
        ("linear", (3, 16), (2, 2)), ("linear", (4, 8), (1.5, 0.5)), ("nearest_neighbor", (4, 7), (0.5, 3)),
        ("nearest_neighbor", (1, 8), (1, 2)),
    ):  # fmt: skip
        into = tuple(int(size * scale) for size, scale in zip(sizes, scales, strict=True))
        x, y = (laid_out((1, 2, *several), dtype, is_last=is_last) for several in (sizes, into))
        desc = dml.Resample(input_tensor=x, output_tensor=y, interpolation_mode=mode, scales=(1, 1, *scales))
        given = numbers(x, 1)
        made, (got,), _ = answers(desc, [given])
        assert [type(program) for program in made._programs] == [ResampleProgram]
        out = torch.zeros(given.size * 16, dtype=_torch(y)).as_strided(y.sizes, y.element_strides)
        source = torch.from_numpy(given).as_strided(x.sizes, x.element_strides)
        host.compile(desc).bind(source, out=out).dispatch()
        assert torch.equal(got, out)  # in passes there are the same bits


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint32", "int8"])
def test_the_first_of_an_order(dtype: str) -> None:
    rng = np.random.default_rng(5)
    for sizes, axis, k in (((3, 200), 1, 5), ((40, 3, 2), 0, 7), ((2, 33), 1, 33)):
        x = (rng.standard_normal(sizes) * 30).astype("float32")
        x = np.abs(x).astype(dtype) if dtype.startswith("u") else x.astype(dtype)
        if dtype.startswith("float"):
            for first, number in enumerate((np.nan, -0.0, 0.0, np.inf, -np.inf)):
                x.flat[first::11] = number
        for direction in ("increasing", "decreasing"):
            desc = dml.TopK1.infer(input_tensor=dml.TensorDesc(dtype, sizes), axis=axis, k=k, axis_direction=direction)
            made, got, wanted = answers(desc, [x.reshape(-1)])
            assert isinstance(made._programs[0], TopKProgram)
            assert np.array_equal(got[1], wanted[1])


def test_of_many_tuples_the_last_one_stays() -> None:
    rng = np.random.default_rng(6)
    x, index = dml.TensorDesc("float32", (11, 3, 10)), dml.TensorDesc("int64", (1, 40, 2))
    updates = dml.TensorDesc("float32", (1, 40, 10))
    desc = dml.ScatterND.infer(
        input_tensor=x, indices_tensor=index, updates_tensor=updates, input_dimension_count=3, indices_dimension_count=2
    )
    places = np.stack([rng.integers(-11, 11, 40), rng.integers(0, 3, 40)], 1)
    inputs = [numbers(x, 1), places.reshape(-1), numbers(updates, 2)]
    made, (got,), (wanted,) = answers(desc, inputs)
    assert isinstance(made._programs[-1], LastWriterProgram)
    assert np.array_equal(got, wanted)

"""Windows of the cpu engine: what tuned kernels compute of planes and lines has the reference's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu.gemm import selection
from kernel_families import PRODUCTS, family_of

pytestmark = [pytest.mark.sampled(3), pytest.mark.check_bounds]

Array = np.ndarray[Any, Any]
CPU, REFERENCE = dml.Device("cpu"), dml.Device("reference")


def whole(rng: np.random.Generator, *sizes: int) -> Array:
    """Numbers of which every sum is exact."""
    return rng.integers(-8, 9, sizes).astype("f")


def compare(desc: dml.OperatorDesc, *arrays: Array) -> bool:
    """The reference's bits. Whether the last step was one of ours."""
    run = CPU.compile(desc)
    got, wanted = run(*arrays), REFERENCE.compile(desc)(*arrays)
    np.testing.assert_array_equal(got, wanted, str(desc))
    return family_of(run._programs[-1]) in PRODUCTS


def sizes_of(rng: np.random.Generator) -> dict[str, Any]:
    """Where windows lie."""
    return {
        "strides": tuple(rng.integers(1, 4, 2)),
        "dilations": tuple(rng.integers(1, 3, 2)),
        "start_padding": tuple(rng.integers(0, 3, 2)),
        "end_padding": tuple(rng.integers(0, 3, 2)),
    }


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """Numbers as Python has them."""
    return {name: tuple(map(int, value)) for name, value in values.items()}


def test_filters_of_one_channel_have_the_bits_of_the_reference() -> None:
    rng, ours = np.random.default_rng(1), 0
    for _ in range(40):
        batch, channels = (int(n) for n in rng.integers(1, 4, 2))
        window = [int(n) for n in rng.integers(1, 4, 2)]
        x = whole(rng, batch, channels, *rng.integers(8, 40, 2))
        w, bias = whole(rng, channels, 1, *window), whole(rng, 1, channels, 1, 1)
        some = [bias] if rng.random() < 0.5 else []
        tensors = zip(("input_tensor", "filter_tensor", "bias_tensor"), (x, w, *some), strict=False)
        desc = dml.Convolution.infer(
            **{name: dml.TensorDesc.of(array) for name, array in tensors},
            **plain(sizes_of(rng)), group_count=channels, fused_activation="relu" if rng.random() < 0.5 else None,
            mode="convolution" if rng.random() < 0.3 else "cross_correlation",
        )  # fmt: skip
        ours += compare(desc, x, w, *some)
    assert ours > 15


def test_the_largest_of_windows_has_the_bits_of_the_reference() -> None:
    rng, ours = np.random.default_rng(2), 0
    for _ in range(30):
        x = whole(rng, *rng.integers(1, 4, 2), *rng.integers(8, 40, 2))
        x[rng.random(x.shape) < 0.02] = np.nan
        desc = dml.MaxPooling2.infer(
            input_tensor=dml.TensorDesc.of(x),
            window_size=tuple(map(int, rng.integers(1, 4, 2))),
            **plain(sizes_of(rng)),
        )
        ours += compare(desc, x)
    assert ours > 10


def test_the_mean_of_windows_has_the_bits_of_the_reference() -> None:
    """With padding that is counted, and without: what sums are divided by differs from place to place."""
    rng, ours = np.random.default_rng(3), 0
    for number in range(24):
        x = whole(rng, *rng.integers(1, 4, 2), *rng.integers(8, 40, 2))
        desc = dml.AveragePooling1.infer(
            input_tensor=dml.TensorDesc.of(x),
            window_size=tuple(map(int, rng.integers(1, 4, 2))),
            include_padding=number % 3 == 0,
            **plain(sizes_of(rng)),
        )
        ours += compare(desc, x)
    assert ours > 8


@pytest.mark.parametrize(
    ("sizes", "window", "stride", "start", "end"),
    [((4, 9), (5, 2), (2, 1), (0, 1), (1, 3)), ((41, 7), (4, 5), (2, 1), (5, 5), (0, 0)), ((6, 71), (3, 3), 2, 1, 1)],
)
def test_windows_that_reach_past_planes_have_the_bits_of_the_reference(
    sizes: tuple[int, int], window: Any, stride: Any, start: Any, end: Any
) -> None:
    """Planes with one row of results; windows that begin more before a line than a vector has; lines of many blocks."""
    x = whole(np.random.default_rng(6), 1, 4, *sizes)
    for kind in (dml.MaxPooling2, dml.AveragePooling1):
        both = {"start_padding": start, "end_padding": end}
        compare(kind.infer(input_tensor=dml.TensorDesc.of(x), window_size=window, strides=stride, **both), x)


def test_windows_of_bytes_have_the_bits_of_the_reference() -> None:
    """Those that are scaled too: some are of one group, some of several, with zero points and without."""
    rng, ours = np.random.default_rng(4), 0
    for number in range(48):
        groups, kept, summed = (int(n) for n in rng.choice([1, 2, 3], 3) * [1, 5, 3])
        if number >= 24:  # a filter for each channel
            kept, summed = 1, 1
        sizes, window = [int(n) for n in rng.integers(9, 30, 2)], [int(n) for n in rng.integers(1, 4, 2)]
        kinds = rng.choice(["uint8", "int8"], 2)
        x, w = (
            rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)
            for kind, shape in zip(kinds, ((2, groups * summed, *sizes), (groups * kept, summed, *window)), strict=True)
        )
        arrays: dict[str, Array] = {"input_tensor": x}
        if number % 2:
            arrays["input_scale_tensor"] = np.full((1, 1, 1, 1), 0.125, "f")
        if number % 3:
            arrays["input_zero_point_tensor"] = rng.integers(0, 100, (1, 1, 1, 1)).astype(kinds[0])
        arrays["filter_tensor"] = w
        channels = (1, groups * kept, 1, 1)
        if number % 2:
            arrays["filter_scale_tensor"] = np.full(channels, 0.25, "f")
        if number % 4 > 1:
            arrays["filter_zero_point_tensor"] = rng.integers(0, 100, channels).astype(kinds[1])
        if number % 2:
            arrays["bias_tensor"] = rng.integers(-99, 99, channels).astype("i4")
            arrays["output_scale_tensor"] = np.full((1, 1, 1, 1), 64, "f")
        kind = dml.QuantizedLinearConvolution if number % 2 else dml.ConvolutionInteger
        tensors = {name: dml.TensorDesc.of(array) for name, array in arrays.items()}
        ours += compare(kind.infer(**tensors, **plain(sizes_of(rng)), group_count=groups), *arrays.values())
    assert ours > 30


@pytest.mark.parametrize(
    ("sizes", "between", "window"),
    [((5, 7, 7), 70, 1), ((600, 9, 70), 8, 1), ((3, 31, 33), 20, 3), ((130, 8, 9), 6, 2)],
)
def test_lines_of_a_target_with_gaps_are_taken_together(
    sizes: tuple[int, int, int], between: int, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of two convolutions writes into the middle of what the second one pads."""
    rng, lines, sides = np.random.default_rng(3), [], selection.operands_of

    def look(primitive: Any) -> Any:
        found = sides(primitive)
        lines.append(0 if found is None else found.line)
        return found

    monkeypatch.setattr(selection, "operands_of", look)
    x, first, second = (
        whole(rng, 2, *sizes),
        whole(rng, between, sizes[0], window, window),
        whole(rng, 3, between, 3, 3),
    )
    bias = whole(rng, 1, between, 1, 1)
    found = []
    for device in (CPU, REFERENCE):
        graph = dml.Graph(device)
        a, b, c, d = (graph.input(dml.TensorDesc.of(array)) for array in (x, first, bias, second))
        hidden = dml.convolution(a, b, c, fused_activation="relu", end_padding=window - 1)
        found.append(
            graph.compile([dml.convolution(hidden, d, start_padding=1, end_padding=1)])(x, first, bias, second)
        )
    np.testing.assert_array_equal(*found)
    assert any(lines)


@pytest.mark.parametrize(
    ("sizes", "filters", "groups"),
    [((20, 9, 9), (21, 20, 3, 3), 1), ((600, 5, 7), (16, 600, 1, 1), 1), ((6, 20, 20), (22, 3, 2, 3), 2)],
)
def test_filters_that_are_laid_out_ahead_change_no_bit(
    sizes: tuple[int, ...], filters: tuple[int, ...], groups: int
) -> None:
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((2, *sizes), np.float32), rng.standard_normal(filters, np.float32)
    given, kept = (
        dml.Convolution.infer(
            input_tensor=dml.TensorDesc.of(x),
            filter_tensor=dml.TensorDesc("float32", filters, flags=flags),
            start_padding=(1, 1),
            group_count=groups,
        )
        for flags in (dml.TensorFlags.NONE, dml.TensorFlags.OWNED_BY_DML)
    )
    run = CPU.compile(kept).initialize(w)
    assert any(program.layouts for program in run._programs)
    np.testing.assert_array_equal(run(x), CPU.compile(given)(x, w))


def test_windows_whose_elements_take_many_operations_have_their_own_columns() -> None:
    """Several vectors are computed as one there; a truth value of each row was read elsewhere but in the first."""
    x = np.random.default_rng(7).standard_normal((1, 3, 32, 32)).astype("float32")
    options: dict[str, Any] = {"window_size": (2, 2), "start_padding": (1, 1), "p": 3}
    wide = np.pad(np.abs(x.astype("float64")), ((0, 0), (0, 0), (1, 0), (1, 0))) ** 3
    wanted = sum(wide[:, :, i : i + 32, j : j + 32] for i in range(2) for j in range(2)) ** (1 / 3)
    np.testing.assert_allclose(dml.lp_pooling(x, device="cpu", **options), wanted, rtol=1e-6)

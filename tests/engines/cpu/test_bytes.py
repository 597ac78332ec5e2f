"""The cpu engine's kernels for bytes: tables of 256, windows of one channel, and poolings, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu.rows import lookup
from anydml.engines.cpu.rows import lookup as kernel
from anydml.ir.patterns import match_lookup
from anydml.ir.verbs import Map
from assembled import assembly
from kernel_families import PRODUCTS, family_of

pytestmark = [pytest.mark.sampled(3), pytest.mark.check_bounds]

RNG = np.random.default_rng(5)


def _silu(g: dml.Graph, x: Any, low: np.dtype[Any]) -> Any:
    kinds = (np.float32(0.03), low.type(3), np.float32(0.021), low.type(-7 if low.kind == "i" else 77))
    scale, point, other, last = (g.constant(np.full((1,) * 4, one)) for one in kinds)
    number = dml.dequantize_linear(x, scale, point)
    return dml.quantize_linear(number * dml.sigmoid(number), other, last)


@pytest.mark.parametrize("low", ["int8", "uint8"])
@pytest.mark.parametrize("width", [1, 3, 7, 14, 16, 31, 64, 65, 130])
def test_a_table_has_the_bits_of_what_it_stands_for(low: str, width: int) -> None:
    """In rows of any length, to a target with room around them."""
    kind = np.dtype(low)
    info = np.iinfo(kind)
    x = RNG.integers(info.min, info.max + 1, (1, 4, 300, width)).astype(kind)
    found = []
    for disabled in ((), "lookup_tables"):
        g = dml.Graph("cpu")
        made = _silu(g, g.input(x, "x"), kind)
        padded = dml.padding(made, padding_mode="CONSTANT", start_padding=(0, 0, 1, 1), end_padding=(0, 0, 1, 2))
        model = g.compile([made, padded], disable_passes=disabled)
        is_there = [match_lookup(step.primitive) for step in model.recipe.steps if isinstance(step.primitive, Map)]
        assert any(is_there) == (not disabled)
        found.append(model(x))
    for ours, plain in zip(*found, strict=True):
        assert np.array_equal(ours, plain)


@pytest.mark.parametrize(
    ("triple", "cpu", "features", "instruction"),
    [
        ("aarch64-unknown-linux-gnu", "neoverse-n1", (), "tbx"),
        ("x86_64-unknown-linux-gnu", "skylake-avx512", ("ssse3", "avx2", "avx512bw"), "vpshufb"),
        ("x86_64-unknown-linux-gnu", "haswell", ("ssse3", "avx2"), "vpshufb"),
        ("x86_64-unknown-linux-gnu", "nehalem", ("ssse3",), "pshufb"),
    ],
)
def test_tables_for_every_cpu(
    triple: str, cpu: str, features: tuple[str, ...], instruction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "IS_ARM", triple.startswith("aarch64"))
    monkeypatch.setattr(kernel, "has_feature", lambda name: name in features)
    assert instruction in assembly(kernel.make_lookup(), triple, cpu)


def test_tables_are_looked_up_by_the_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    """And by elements where a CPU has no instructions for it, or bytes do not lie side by side."""
    x = RNG.integers(0, 256, (1, 2, 40, 33)).astype(np.uint8)
    found = []
    for can in (True, False):
        monkeypatch.setattr(lookup, "can_look_up", lambda can=can: can)
        g = dml.Graph("cpu")
        given = g.input(x, "x")
        turned = dml.slice1(
            given, input_window_offsets=(0,) * 4, input_window_sizes=x.shape, input_window_strides=(1, 1, 1, -1)
        )
        made = g.compile([_silu(g, given, x.dtype), _silu(g, turned, x.dtype)])
        found.append(made(x))
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(found[0][0][..., ::-1], found[0][1])


@pytest.mark.parametrize("low", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("side", "window", "stride"),
    [(7, 3, 1), (7, 5, 1), (14, 3, 2), (14, 5, 1), (15, 3, 1), (16, 7, 1), (17, 5, 2), (33, 3, 1), (40, 3, 2)],
)
def test_windows_of_one_channel_are_summed_exactly(low: str, side: int, window: int, stride: int) -> None:
    """With zero points that are constants, or are not, and with none."""
    info = np.iinfo(low)
    x = RNG.integers(info.min, info.max + 1, (2, 5, side, side)).astype(low)
    weights = RNG.integers(-128, 128, (5, 1, window, window)).astype(np.int8)
    zero, pad = x.dtype.type(info.min + 9), window // 2
    wide = np.pad(x.astype(int) - int(zero), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    count = (side + 2 * pad - window) // stride + 1
    reach = (count - 1) * stride + 1
    exact = np.zeros((2, 5, count, count), int)
    for a, b in np.ndindex(window, window):
        taps = wide[:, :, a : a + reach : stride, b : b + reach : stride]
        exact += taps * weights[:, 0, a, b].astype(int)[:, None, None]
    options: dict[str, Any] = {"strides": stride, "start_padding": pad, "end_padding": pad, "group_count": 5}
    point = np.full((1,) * 4, zero)
    g = dml.Graph("cpu")
    given, number = g.input(x, "x"), g.input(point, "z")
    made = [
        dml.convolution_integer(given, g.constant(weights), input_zero_point=one, **options)
        for one in (number, g.constant(point))
    ]
    for got in g.compile(made)(x, point):
        assert np.array_equal(got, exact)


@pytest.mark.parametrize("is_left", [True, False])
@pytest.mark.parametrize(("low", "other"), [("int8", "uint8"), ("int8", "int8"), ("uint8", "uint8"), ("uint8", "int8")])
@pytest.mark.parametrize("beyond", [0, 1])
def test_products_with_a_constant_are_exact_up_to_the_largest_bytes(
    low: str, other: str, is_left: bool, beyond: int
) -> None:
    """Neighbours of a constant that add up to 128 are the largest whose products with 255 fit 16 bits."""
    least, most = np.iinfo(other).min, np.iinfo(other).max
    x = RNG.choice(np.array([least, most]), (21, 37)).astype(other)
    weights = RNG.integers(-20, 20, (37, 40))
    weights[4:6, ::3], weights[8:10, 1::3] = 64, -64
    weights[4, 3] += beyond
    weights = (weights + (128 if low == "uint8" else 0)).astype(low)
    for zero in (0, 5):
        g = dml.Graph("cpu")
        given, known = g.input(x.T if is_left else x, "x"), g.constant(weights.T if is_left else weights)
        points = [g.constant(np.full((1, 1), zero, kind)) for kind in ((low, other) if is_left else (other, low))]
        made = dml.matrix_multiply_integer(
            *((known, given) if is_left else (given, known)), a_zero_point=points[0], b_zero_point=points[1]
        )
        exact = (x.astype(int) - zero) @ (weights.astype(int) - zero)
        np.testing.assert_array_equal(g.compile(made)(x.T if is_left else x), exact.T if is_left else exact)


@pytest.mark.parametrize("large", [60, 127])
@pytest.mark.parametrize("low", ["int8", "uint8"])
def test_convolutions_by_small_and_large_filters_are_exact(low: str, large: int) -> None:
    x = RNG.integers(np.iinfo(low).min, np.iinfo(low).max + 1, (1, 6, 9, 11)).astype(low)
    weights = RNG.integers(-large, large + 1, (12, 6, 3, 3)).astype(np.int8)
    zero = x.dtype.type(100)
    g = dml.Graph("cpu")
    point = g.constant(np.full((1,) * 4, zero))
    made = dml.convolution_integer(g.input(x, "x"), g.constant(weights), input_zero_point=point)
    wide = x.astype(int) - int(zero)
    exact = sum(
        np.einsum("nchw,oc->nohw", wide[:, :, a : a + 7, b : b + 9], weights[:, :, a, b].astype(int))
        for a, b in np.ndindex(3, 3)
    )
    np.testing.assert_array_equal(g.compile(made)(x), exact)


@pytest.mark.parametrize(("low", "dilation", "stride"), [("uint8", 1, 2), ("int8", 1, 1), ("int8", 2, 1)])
def test_the_largest_of_windows_of_bytes_is_taken_by_the_vector(low: str, dilation: int, stride: int) -> None:
    """Element by element the largest of 3 x 3 by 2 of 64 planes of 112 x 112 takes 3.2 ms, and 0.09 so."""
    info = np.iinfo(low)
    x = RNG.integers(info.min, info.max + 1, (2, 3, 20, 33)).astype(low)
    g = dml.Graph("cpu")
    options: dict[str, Any] = {"strides": stride, "start_padding": 1, "end_padding": 1, "dilations": dilation}
    made = g.compile(dml.max_pooling(g.input(x, "x"), window_size=(3, 3), **options))
    assert family_of(made.plan.programs[-1]) in PRODUCTS
    wide = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=info.min)
    rows, columns = ((size + 2 - 2 * dilation - 1) // stride + 1 for size in x.shape[2:])
    taps = [
        wide[:, :, a * dilation :, b * dilation :][:, :, ::stride, ::stride][:, :, :rows, :columns]
        for a, b in np.ndindex(3, 3)
    ]
    np.testing.assert_array_equal(made(x), np.max(taps, axis=0))

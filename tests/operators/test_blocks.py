"""QUANTIZE and DEQUANTIZE: blocks of every size, 4-bit elements in every layout, and what is refused."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anydml as dml
from cases import ENGINES
from drawing import Tensor, draw_strides, places
from families.products import dequantised, quantised
from places import get, put

pytestmark = pytest.mark.judges("QUANTIZE", "DEQUANTIZE")

Array = np.ndarray[Any, Any]
T, F32 = dml.TensorDesc, dml.DataType.FLOAT32
KINDS = [dml.DataType[name] for name in ("INT4", "UINT4", "INT8", "UINT8")]
SCALES = (0.5, 0.25, 2.0, 0.1, 3.0)
FEW = int(os.environ.get("ANYDML_TEST_EXAMPLES", "0"))


def laid_out(numbers: Array, data_type: dml.DataType, strides: tuple[int, ...]) -> Array:
    """Numbers in memory with these strides: bytes with two each, or an array."""
    where = places(numbers.shape, strides)
    if not data_type.is_half_byte:
        memory = np.full(max(where) + 1, 77, data_type.dtype)
        memory[where] = numbers.ravel()
        steps = [stride * memory.itemsize for stride in strides]
        return np.lib.stride_tricks.as_strided(memory, numbers.shape, steps)
    memory = np.full((max(where) + 2) // 2, 0xA5, np.uint8)
    for place, number in zip(where, numbers.ravel().tolist(), strict=True):
        byte, half = divmod(place, 2)
        memory[byte] = memory[byte] & (0xF0 if half == 0 else 0x0F) | (number & 15) << 4 * half
    return memory


def read(memory: Array, tensor: dml.TensorDesc) -> Array:
    """The numbers of a 4-bit tensor in its bytes; of others the array itself."""
    if not tensor.data_type.is_half_byte:
        return memory
    flat = memory.reshape(-1).view(np.uint8)
    halves = np.stack([flat & 15, flat >> 4], axis=-1).ravel()[places(tensor.sizes, tensor.element_strides)]
    numbers = halves.astype(int) - 16 * (halves > 7) if tensor.data_type.is_signed else halves.astype(int)
    return numbers.reshape(tensor.sizes)


@st.composite
def block_cases(draw: st.DrawFn, cls: type[dml.OperatorDesc]) -> tuple[dml.OperatorDesc, list[Array], Array]:
    """A description, its inputs, and the result."""
    rank = draw(st.integers(1, 4))
    blocks = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    within = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    sizes = tuple(a * b for a, b in zip(blocks, within, strict=True))
    kind, real = draw(st.sampled_from(KINDS)), draw(st.sampled_from([F32, dml.DataType.FLOAT16]))
    rng, (low, high) = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), kind.limits
    is_quantising, has_zeros = cls is dml.Quantize, draw(st.booleans())

    def laid(data_type: dml.DataType, own: tuple[int, ...], *, is_output: bool = False) -> dml.TensorDesc:
        strides = draw_strides(draw, own, is_output=is_output)
        strides = None if strides is not None and is_output and data_type.is_half_byte else strides
        tensor = Tensor(data_type, own, strides)
        return T(data_type, own, strides=tensor.strides)

    descs = [laid(real if is_quantising else kind, sizes), laid(real, blocks)]
    descs += [laid(kind, blocks)] if has_zeros else []
    for i, desc in enumerate(descs):  # what repeats must have one value: it is read back from its memory
        if desc.overlaps_itself or any(size == 1 for size in desc.sizes):
            descs[i] = T(desc.data_type, desc.sizes)
    values = [
        rng.choice(np.array([-7.5, 0.5, 3, 1.25, 100, -0.5], real.dtype), sizes)
        if is_quantising
        else rng.integers(low, high, sizes, endpoint=True),
        rng.choice(np.array(SCALES, real.dtype), blocks),
        rng.integers(low, high, blocks, endpoint=True),
    ]
    arrays = [laid_out(one, desc.data_type, desc.element_strides) for one, desc in zip(values, descs, strict=False)]
    x, scale, zero = values[0], *(spread(one, within) for one in values[1:])
    if not has_zeros:
        zero = np.full(sizes, 0 if kind.is_signed else (high + 1) // 2)
    if is_quantising:
        wide = quantised((x.astype(np.float32) / scale.astype(np.float32)), zero, np.dtype(np.int64))
        wanted = np.clip(wide, low, high)
    else:
        wanted = dequantised(x, scale, zero).astype(real.dtype)
    kinds = dml.QuantizationType.SCALE_ZERO_POINT if has_zeros else dml.QuantizationType.SCALE
    output = laid(kind if is_quantising else real, sizes, is_output=True)
    make: Any = cls
    made = make(input_tensor=descs[0], quantization_type=kinds, quantization_tensors=descs[1:], output_tensor=output)
    return made, arrays, wanted


def spread(blocks: Array, within: tuple[int, ...]) -> Array:
    for axis, count in enumerate(within):
        blocks = np.repeat(blocks, count, axis)
    return blocks


@pytest.mark.parametrize("cls", [dml.Quantize, dml.Dequantize], ids=["QUANTIZE", "DEQUANTIZE"])
@pytest.mark.parametrize("engines", [ENGINES], ids="+".join)
@settings(deadline=None, derandomize=False, print_blob=True, max_examples=FEW or (75 if os.environ.get("CI") else 20))
@given(data=st.data())
def test_blocks_of_every_size_and_layout(cls: type[dml.OperatorDesc], engines: list[str], data: st.DataObject) -> None:
    desc, arrays, wanted = data.draw(block_cases(cls))
    (output,) = desc.outputs().values()
    for engine in engines:
        device = dml.Device(engine, feature_level="6_3")
        got = get(device.compile(desc)(*(put(array, device) for array in arrays)))
        assert got.dtype == output.data_type.dtype
        np.testing.assert_array_equal(read(got, output), wanted, str(desc))


@pytest.mark.parametrize("strides", [(8, 1), (1, 4), (10, 1)])
@pytest.mark.parametrize("blocks", [(4, 1), (4, 2), (4, 3), (4, 6), (2, 1)])
def test_bytes_that_lie_apart_are_written_alone(engine: str, strides: tuple[int, int], blocks: tuple[int, int]) -> None:
    """Halves of other bytes stay; with a gap, with the columns side by side, and blocks of every length."""
    device, sizes = dml.Device(engine), (4, 6)
    output = T("int4", sizes, strides=strides)
    scales = np.linspace(0.5, 1.5, math.prod(blocks), dtype="float32").reshape(blocks)
    x = np.arange(-12, 12, dtype="float32").reshape(sizes)
    desc = dml.Quantize(
        input_tensor=T(F32, sizes),
        quantization_type="SCALE",
        quantization_tensors=[T(F32, blocks)],
        output_tensor=output,
    )
    room = np.full(output.data_type.bytes_of(output.extent), 0xA5, np.uint8)
    out = put(room.copy(), device)
    device.compile(desc)(put(x, device), put(scales, device), out=out)
    wanted = np.clip(np.rint(x / spread(scales, tuple(a // b for a, b in zip(sizes, blocks, strict=True)))), -8, 7)
    np.testing.assert_array_equal(get(out), laid_out(wanted.astype(int), output.data_type, strides))


def test_an_owned_tensor_of_4_bits_is_kept_by_its_bytes(engine: str) -> None:
    device, numbers = dml.Device(engine), np.arange(24).reshape(4, 6) % 16
    for strides in ((6, 1), (7, 1), (1, 5)):
        tensor = T("uint4", (4, 6), strides=strides, flags="OWNED_BY_DML")
        desc = dml.Dequantize.infer(
            input_tensor=tensor, quantization_type="SCALE", quantization_tensors=[T(F32, (4, 1))]
        )
        run = device.compile(desc).initialize(put(laid_out(numbers, tensor.data_type, strides), device))
        scale = put(np.full((4, 1), 0.5, "float32"), device)
        np.testing.assert_array_equal(get(run(scale)), (numbers - 8) / 2)


# Functions


HALVES = [kind for kind in KINDS if kind.is_half_byte]


def packed_sizes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Of bytes with two elements of the last dimension each; all in a row where that is odd."""
    return ((math.prod(sizes) + 1) // 2,) if sizes[-1] % 2 else (*sizes[:-1], sizes[-1] // 2)


def compiled(function: Any, sizes: tuple[int, ...], kind: dml.DataType, *rest: Any, **named: Any) -> Any:
    """A function of one input and constants, as a graph."""
    graph = dml.Graph()
    x = graph.input(dml.TensorDesc(kind, sizes))
    arrays = [graph.constant(one, desc=desc) for one, desc in rest]
    return graph.compile(function(x, *arrays, **named))


@pytest.mark.parametrize("has_zero", [False, True], ids=["scale", "zero"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    ("sizes", "blocks"),
    [
        ((2, 4), (1, 1)), ((2, 4), (2, 2)), ((3, 3), (3, 1)), ((3, 3), (1, 3)),
        ((2, 3, 2), (1, 3, 1)), ((5,), (1,)), ((6,), (3,)),
    ],
)  # fmt: skip
def test_what_is_quantised_comes_back(
    kind: dml.DataType, sizes: tuple[int, ...], blocks: tuple[int, ...], *, has_zero: bool
) -> None:
    """By functions and by graphs, whose bytes are the same in the same sizes, and each takes the other's."""
    quantize: Any = dml.quantize
    dequantize: Any = dml.dequantize
    rng, (low, high) = np.random.default_rng(len(sizes)), kind.limits
    scale = rng.choice([0.5, 0.25, 2.0], blocks).astype("float32")
    zero = rng.integers(low + 3, high - 3, blocks)
    given: list[Any] = [scale, laid_out(zero, kind, dml.TensorDesc(kind, blocks).element_strides)][: 1 + has_zero]
    spread = [np.kron(one, np.ones([a // b for a, b in zip(sizes, blocks, strict=True)])) for one in (scale, zero)]
    middle = spread[1] if has_zero else 0 if kind.is_signed else (high + 1) // 2
    x = ((rng.integers(low, high + 1, sizes) - middle) * spread[0]).astype("float32")
    bytes_of = quantize(x, *given, data_type=kind)
    assert bytes_of.shape == (packed_sizes(sizes) if kind.is_half_byte else sizes)
    descs = [(one, dml.TensorDesc(k, blocks)) for one, k in zip(given, (F32, kind), strict=False)]
    assert np.array_equal(compiled(quantize, sizes, F32, *descs, data_type=kind)(x), bytes_of)
    assert np.array_equal(dequantize(bytes_of, *given, data_type=kind, output_sizes=sizes), x)
    assert np.array_equal(compiled(dequantize, sizes, kind, *descs)(bytes_of), x)
    assert np.array_equal(dequantize(bytes_of, *given, data_type=kind, out=np.empty_like(x)), x)
    if sizes[-1] % 2 == 0 or not kind.is_half_byte:
        assert np.array_equal(dequantize(bytes_of, *given, data_type=kind), x)


def test_sizes_that_bytes_do_not_have_are_refused() -> None:
    four, five = np.zeros((2, 2), "uint8"), np.zeros(5, "uint8")
    several: list[Any] = [
        (four, "int4", (3, 3), r"must be of INT4, or bytes of sizes \(3, 2\) side by side"),
        (five, "int4", (3, 4), r"must be of INT4, or bytes of sizes \(3, 2\)"),
        (five, None, (3, 3), r"output_sizes must be those of x, \(5,\)"),
        (five, "int4", (3, 0), r"output_sizes\[1\] must be at least 1; got 0"),
    ]
    for x, data_type, sizes, message in several:
        with pytest.raises(dml.DescriptionError, match=message):
            dml.dequantize(x, 1.0, data_type=data_type, output_sizes=sizes)


WHOLE = [kind for kind in dml.DataType if not (kind.is_float or kind.is_half_byte)]


@pytest.mark.parametrize("kind", WHOLE, ids=lambda kind: kind.name)
def test_the_zero_point_decides_the_type(kind: dml.DataType) -> None:
    """As a number of NumPy's, an array without dimensions or with one: a type that the operator lacks is refused."""
    x, a = np.array([300.0], "float32"), np.array([1, 2], "int8")
    calls: list[Any] = [
        lambda zero: dml.quantize_linear(x, 1, zero),
        lambda zero: dml.quantize_linear([300.0], 1, zero),
        lambda zero: dml.quantize(x, 1, zero),
        lambda zero: dml.quantized_linear_add(a, 1.0, a, 1.0, 1.0, output_zero_point=zero),
    ]
    for zero in (kind.dtype.type(5), np.array(5, kind.dtype), np.array([5], kind.dtype)):
        for call in calls:
            if kind.name in ("INT8", "UINT8"):
                assert call(zero).dtype == kind.dtype
                continue
            with pytest.raises(dml.DescriptionError, match=f"must be of .*UINT8(,| or) INT8.*; got {kind.name}"):
                call(zero)
    assert dml.quantize_linear(x, 1, 5).dtype == dml.quantize_linear(x, 1, [5]).dtype == np.uint8

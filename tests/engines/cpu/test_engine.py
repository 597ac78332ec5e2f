"""The cpu engine: the reference's bits at every size and for any number of threads, and no byte outside its views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from agreement import answer, assert_same, columns, framed, gathering, padded, slicing, values
from anydml.api import calls
from anydml.core.enums import NUMPY_TYPES
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.features import has_lanes
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.move import scan
from anydml.runtime.call_cache import CallCache
from guarded import guarded

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.sampled(60), pytest.mark.check_bounds]

CPU, REFERENCE = dml.Device("cpu"), dml.Device("reference")
TYPES = [str(t.dtype) for t in NUMPY_TYPES]
SUMMED = ["float32", "float16", "int32", "uint32", "int64", "uint64", "uint16"]


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = dml.get_num_threads()
    dml.set_num_threads(request.param)
    yield request.param
    dml.set_num_threads(before)


@pytest.fixture(params=[("small", 3), ("far", 1), ("past the cache", 3)], ids=str)
def large_from(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The kernels for large outputs, at small sizes: nothing is too small for them; on some threads."""
    kind, number = request.param
    if kind != "small":
        monkeypatch.setattr(figures().move, "prefetch_from", 0)
        monkeypatch.setattr(figures().move, "prefetches", True)
        monkeypatch.setattr(figures().rows, "streams", True)
    if kind == "past the cache":
        monkeypatch.setattr(figures().rows, "stream_from", 0)
    monkeypatch.setattr(calls, "known_calls", CallCache(8))
    before = dml.get_num_threads()
    dml.set_num_threads(number)
    yield kind
    dml.set_num_threads(before)


def same(desc: dml.OperatorDesc, *inputs: np.ndarray, layout: Any = framed) -> np.ndarray:
    """Run on both engines, bit for bit."""
    wanted, got = (answer(device, desc, *inputs, layout=layout) for device in (REFERENCE, CPU))
    assert_same(got, wanted, desc)
    return got


WINDOWS: list[tuple[tuple[int, ...], tuple[slice, ...]]] = [
    ((300, 1001), (slice(None), slice(None))),
    ((300, 1001), (slice(7, 290), slice(3, 999))),
    ((300, 1001), (slice(None), slice(None, None, -1))),
    ((300, 1001), (slice(None, None, -1), slice(None, None, 2))),
    ((300, 1001), (slice(None, None, -3), slice(None, None, -2))),
    ((300, 1001), (slice(None), slice(None, None, 5))),
    ((300, 1001), (slice(None), slice(4, 5))),
    ((9, 40, 3, 65), (slice(None), slice(None, None, -1), slice(None), slice(1, 64))),
    ((9, 40, 3, 65), (slice(None, None, 2), slice(None), slice(None, None, -1), slice(None, None, 3))),
    ((400001,), (slice(None, None, -1),)),
    ((3, 5, 2, 4, 3, 2, 6, 7), (slice(None, None, -1),) * 8),
]


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "float64"])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_slices(dtype: str, window: tuple[Any, Any], large_from: str) -> None:
    shape, cut = window
    base = values(shape, dtype)
    layouts = (framed, columns, padded)
    for i, x in enumerate((base, np.asfortranarray(base), base[::-1], np.broadcast_to(base[:1], base.shape))):
        desc = slicing(x, cut)
        for layout in layouts if i == 0 else layouts[i - 1 : i]:
            np.testing.assert_array_equal(same(desc, x, layout=layout), x[cut])


@pytest.mark.parametrize("dtype", SUMMED)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("direction", ["increasing", "decreasing"])
def test_running_sums(dtype: str, exclusive: bool, direction: str, large_from: str) -> None:
    for shape in ((70, 501), (4, 16), (5, 17), (3, 4000), (2, 37, 64), (6, 1, 130, 3), (1000,), (12, 256)):
        base = values(shape, dtype)
        for x in (base, np.asfortranarray(base), base[..., ::-1]):
            for axis in range(x.ndim):
                desc = dml.CumulativeSummation.infer(
                    input_tensor=dml.TensorDesc.of(x), axis=axis, axis_direction=direction, has_exclusive_sum=exclusive
                )
                same(desc, x)
                same(desc, x, layout=columns)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_running_products_and_in_place(dtype: str, threads: int) -> None:
    x = (1 + values((40, 300), "float32") / 100).astype(dtype)
    for axis in (0, 1):
        desc = dml.CumulativeProduct.infer(input_tensor=dml.TensorDesc.of(x), axis=axis)
        wanted = same(desc, x)
        held = x.copy()
        assert CPU.compile(desc)(held, out=held) is held
        assert held.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint64"])
@pytest.mark.parametrize("direction", ["increasing", "decreasing"])
@pytest.mark.parametrize("rows", [1, 3])
def test_long_rows_give_the_same_bits_for_any_number_of_threads(dtype: str, direction: str, rows: int) -> None:
    x = values((rows, 700_001), dtype)
    desc = dml.CumulativeSummation.infer(
        input_tensor=dml.TensorDesc.of(x), axis=1, axis_direction=direction, has_exclusive_sum=rows == 3
    )
    wanted = REFERENCE.compile(desc)(x)
    before, found = dml.get_num_threads(), []
    for number in (1, 2, 5):
        dml.set_num_threads(number)
        found.append(CPU.compile(desc)(x))
    dml.set_num_threads(before)
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()
    if dtype == "float32":  # added up in fixed pieces, which rounds elsewhere than one by one does
        close = np.abs(found[0].astype("f8") - wanted) <= np.spacing(np.abs(wanted).astype("f4")).astype("f8") + 1e-6
        assert close.all()
    else:
        assert found[0].tobytes() == wanted.tobytes()
    held = x.copy()
    CPU.compile(desc)(held, out=held)
    assert held.tobytes() == found[0].tobytes()


def test_a_long_product_that_is_0_stays_0() -> None:
    """Whatever the numbers after it would give without it."""
    x = np.full(140_000, 4e9, "float32")
    x[5] = 0
    got = CPU.compile(dml.CumulativeProduct.infer(input_tensor=dml.TensorDesc.of(x), axis=0))(x)
    assert got[5:].tobytes() == bytes(4 * (x.size - 5))


@pytest.mark.parametrize("index_type", ["int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
def test_gathers(dtype: str, index_type: str, large_from: str) -> None:
    rng = np.random.default_rng(3)
    for shape, depth, batch, tuples in (
        ((50, 7), 2, 0, (3000,)),
        ((50, 8), 1, 0, (41, 30)),
        ((50, 300), 1, 0, (700,)),
        ((50, 32), 1, 0, (700,)),
        ((50, 1024), 1, 0, (300,)),
        ((6, 5, 4, 9), 3, 0, (1000,)),
        ((6, 5, 4, 9), 4, 0, (1000,)),
        ((6, 5, 4, 9), 1, 1, (6, 33)),
        ((6, 5, 4, 9), 2, 2, (6, 5, 11)),
        ((9,), 1, 0, ()),
    ):
        base = values(shape, dtype)
        sizes = np.array(shape[batch : batch + depth])
        low = -sizes if index_type.startswith("int") else 0 * sizes
        indices = rng.integers(low, sizes, (*tuples, depth)).astype(index_type)
        for x in (base, np.asfortranarray(base), base[::-1]):
            for chosen in (indices, np.asfortranarray(indices)):
                desc = gathering(x, chosen, batch)
                same(desc, x, chosen)
                same(desc, x, chosen, layout=columns)


def test_the_first_of_many_indices_outside_is_named(threads: int) -> None:
    x, out = values((100, 4), "float32"), np.full((300_000, 4), 7, "float32")
    indices = np.zeros((300_000, 1), "int64")
    indices[[299_998, 123_457, 200_000]] = 100
    with pytest.raises(dml.IndexRangeError, match=r"indices\[123457\] = \(100,\) is outside dimension 0 of size 100"):
        dml.gather_nd(x, indices, out=out, device=CPU)
    assert (out == 7).all()


def test_streams_past_the_cache_give_the_same() -> None:
    """Outputs from 32 MiB on are written another way, aligned to their elements or not."""
    x = np.arange(36 * 2**20, dtype="uint8").reshape(2**10, -1)
    for cut in ((slice(None), slice(None, None, -1)), (slice(None, None, -1), slice(None))):
        signs = [s.step or 1 for s in cut]
        np.testing.assert_array_equal(dml.slice1(x, (0, 0), x.shape, signs, device=CPU), x[cut])
    raw = np.zeros(x.nbytes + 3, "uint8")
    askew = raw[3:].view("float32").reshape(2**10, -1)
    dml.slice1(x.view("float32"), (0, 0), askew.shape, (1, -1), out=askew, device=CPU)
    np.testing.assert_array_equal(askew.view("uint32"), x.view("uint32")[:, ::-1])


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64"])
def test_targets_that_are_not_aligned_to_their_elements(dtype: str, large_from: str) -> None:
    """Whatever is written past the cache must be aligned; these go another way."""
    device, x = dml.Device("cpu"), values((70, 192), dtype)
    picks = np.arange(70)[::-1].reshape(-1, 1).copy()

    def askew(shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(x.nbytes + 1, "uint8")[1:].view(dtype).reshape(shape)

    np.testing.assert_array_equal(
        dml.slice1(x, (0, 0), x.shape, (1, -1), out=askew(x.shape), device=device), x[:, ::-1]
    )
    np.testing.assert_array_equal(dml.slice(x.T, (0, 0), x.T.shape, out=askew(x.T.shape), device=device), x.T)
    np.testing.assert_array_equal(dml.gather_nd(x, picks, out=askew(x.shape), device=device), x[::-1])
    for axis in (0, 1):
        for direction in ("increasing", "decreasing"):
            got = dml.cumulative_summation(x, axis, direction, out=askew(x.shape), device=device)
            assert got.tobytes() == dml.cumulative_summation(x, axis, direction, device=REFERENCE).tobytes()


# Memory


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
def test_no_kernel_leaves_its_views(dtype: str, at_end: bool, large_from: str) -> None:
    """Odd sizes and every kind of kernel, against pages that end the process when they are touched."""
    device = dml.Device("cpu")  # one that has compiled nothing yet
    for rows, count in ((1, 1), (3, 7), (4, 16), (5, 33), (4, 63), (8, 129), (7, 257), (9, 1000), (64, 320), (70, 96)):
        x = guarded(values((rows, count), dtype), at_end)
        for steps in ((1, 1), (1, -1), (1, 2), (-1, -2), (1, 3), (2, -3)):
            sizes = [-(-n // abs(s)) for n, s in zip(x.shape, steps, strict=True)]
            out = guarded(np.zeros(sizes, dtype), at_end)
            dml.slice1(x, (0, 0), x.shape, steps, out=out, device=device)
            np.testing.assert_array_equal(out, x[:: steps[0], :: steps[1]])
        out = guarded(np.zeros((count, rows), dtype), at_end)
        dml.slice(x.T, (0, 0), (count, rows), out=out, device=device)
        np.testing.assert_array_equal(out, x.T)
        picks = guarded(np.array([[0], [rows - 1], [rows // 2]]), at_end)
        out = guarded(np.zeros((3, count), dtype), at_end)
        dml.gather_nd(x, picks, out=out, device=device)
        np.testing.assert_array_equal(out, x[picks[:, 0]])
        if dtype != "uint8":
            for axis in (0, 1):
                for direction in ("increasing", "decreasing"):
                    out = guarded(np.zeros(x.shape, dtype), at_end)
                    dml.cumulative_summation(x, axis, direction, out=out, device=device)
                    again = dml.cumulative_summation(x, axis, direction, device=REFERENCE)
                    assert out.tobytes() == again.tobytes()


@pytest.mark.parametrize("at_end", [True, False])
def test_no_long_row_leaves_its_view(at_end: bool) -> None:
    for count in (8 * 16448, 8 * 16448 + 5):
        x = guarded(values((count,), "int32"), at_end)
        for direction in ("increasing", "decreasing"):
            out = guarded(np.zeros_like(x), at_end)
            dml.cumulative_summation(x, 0, direction, out=out, device=CPU)
            np.testing.assert_array_equal(out, dml.cumulative_summation(x, 0, direction, device=REFERENCE))


@pytest.mark.parametrize("by_lanes", [True, False])
@pytest.mark.parametrize("dtype", ["uint16", "float16", "float32"])
def test_running_sums_down_some_columns(dtype: str, by_lanes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a CPU that reads some lanes of a vector, and one that does not."""
    monkeypatch.setenv("ANYDML_KEEP_PLANS", "0")
    monkeypatch.setattr(scan, "has_lanes", lambda: by_lanes and has_lanes())
    for width in (3, 13, 77):
        x = values((2, 9, width), dtype)
        desc = dml.CumulativeSummation.infer(input_tensor=dml.TensorDesc.of(x), axis=1, axis_direction="decreasing")
        run, out = CPU.compile(desc), np.zeros(x.size + 20, dtype)
        program = run._programs[-1]
        assert isinstance(program, KernelProgram)
        is_by_line = " lines " in program.kernel.name
        assert is_by_line == (width < scan.COLUMNS and not (by_lanes and has_lanes()))
        run.bind(x, out=out[10:-10].reshape(x.shape)).dispatch()
        np.testing.assert_array_equal(out[10:-10].reshape(x.shape), REFERENCE.compile(desc)(x))
        assert not out[:10].any()
        assert not out[-10:].any()

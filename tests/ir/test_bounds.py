"""Bounds: plans are proved to stay inside their tensors, and what does not is found, in every kind of record."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import anydml as dml
from anydml.engines import cpu as engine
from anydml.engines.cpu import bounds
from anydml.engines.cpu.families import columns_of_panel, figures
from anydml.engines.cpu.launch.record import HEADER
from anydml.engines.reference.evaluate import evaluate
from anydml.graph import arena
from anydml.ir.bounds import BoundsError, Span, check_fetches, check_views, reach
from anydml.ir.expressions import coordinate, fetch, given, load, maximum, minimum, where
from anydml.ir.fetches import nearest, reversal
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map
from anydml.ir.views import View
from anydml.runtime.chunked_scan import scan_with_carry
from contractions import draw
from tests.engines.cpu.test_direct import beside
from tests.engines.cpu.test_direct import described as convolution
from tests.operators.test_weights import Weights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

pytestmark = pytest.mark.check_bounds

Array = np.ndarray[Any, Any]
F32, INT64 = dml.DataType.FLOAT32, dml.DataType.INT64


# Views and indices


@pytest.mark.parametrize("strides", list(itertools.product((-7, -1, 0, 2), repeat=2)))
def test_a_view_touches_what_its_elements_lie_at(strides: tuple[int, int]) -> None:
    view = View("x", F32, (3, 4), strides, offset=30)
    at = [30 + i * strides[0] + j * strides[1] for i in range(3) for j in range(4)]
    assert reach(view) == Span(4 * min(at), 4 * max(at) + 4)
    check_views([copy_of(view, view.named("y"))], {"x": Span(4 * min(at), 4 * max(at) + 4)})
    for less in (Span(4 * min(at) + 1, 1000), Span(-1000, 4 * max(at) + 3)):
        with pytest.raises(BoundsError, match="Map: a view of 'x'"):
            check_views([copy_of(view, view.named("y"))], {"x": less})


def test_a_view_without_elements_touches_nothing() -> None:
    view = View("x", F32, (3, 0), (5, 1), offset=30)
    assert reach(view) is None
    check_views([copy_of(view, view.named("y"))], {"x": Span(0, 0), "y": Span(0, 0)})


def fetching(index: Any, size: int, count: int = 5) -> Map:
    """A map of one dimension that fetches from a source of some size; its second source has any numbers."""
    source, numbers = View("x", F32, (size,), (1,)), View("i", INT64, (count,), (1,))
    return Map((source, numbers), View("y", F32, (count,), (1,)), fetch(0, F32, [index]))


def _turned(size: int) -> Any:
    """The index of a dimension that is turned round up to a length."""
    line, length = View("x", F32, (size,), (1,)), View("i", dml.DataType.UINT32, (1,), (0,))
    return reversal(line, length, line.named("y"), 0).value.args[0]


PLACE, LOADED = coordinate(0), load(1, INT64)
INSIDE = {
    "coordinate": (PLACE, 5),
    "nearest": (nearest(LOADED, 9), 9),
    "nearest unsigned": (nearest(load(1, dml.DataType.UINT32), 9), 9),
    "clamped": (minimum(maximum(LOADED, 0), given(6, INT64)), 7),
    "turned": (where(PLACE < LOADED, PLACE, 4 - PLACE), 5),
    "turned by a length": (_turned(5), 5),
    "remainder": ((LOADED & 7) % 3, 3),
    "half": ((PLACE + 1) >> 1, 3),
    "clamped float": (minimum(maximum(load(1, F32), 0.0), given(6, F32)).to(INT64), 7),
}  # fmt: skip


@pytest.mark.parametrize("name", INSIDE)
def test_indices_that_stay_inside_are_proved_to(name: str) -> None:
    index, size = INSIDE[name]
    check_fetches(fetching(index, size))
    with pytest.raises(BoundsError, match=f"a fetch from 'x' .* along dimension 0, which has {size - 1} elements"):
        check_fetches(fetching(index, size - 1))


OUTSIDE = {
    "as it is": LOADED,
    "below": PLACE - 1,
    "above": PLACE + 1,
    "clamped below": maximum(LOADED, 0),
    "clamped above": minimum(LOADED, given(4, INT64)),
    "wraps": (LOADED.to(dml.DataType.UINT8) + 1).to(INT64),
    "another's test": where(PLACE < LOADED, LOADED - PLACE, 0 * PLACE),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_indices_that_may_lie_outside_are_found(name: str) -> None:
    with pytest.raises(BoundsError, match="a fetch from 'x'"):
        check_fetches(fetching(OUTSIDE[name], 5))


@pytest.mark.parametrize("seed", range(40))
def test_numbers_lie_in_their_range(seed: int) -> None:
    """Of trees drawn at random: what the reference computes is inside of what is said of it."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-40, 40, (2, 50))
    known = [LOADED, PLACE, given(int(rng.integers(-9, 9)), INT64)]
    for _ in range(8):
        a, b = (known[k] for k in rng.integers(len(known), size=2))
        c = given(int(rng.integers(1, 6)), INT64)
        made = [a + b, a - b, a * c, -a, minimum(a, b), maximum(a, b), where(a < b, b - a, c), where(a <= b, a, b)]
        made += [a % c, a / c, a >> given(1, INT64), a & c]
        known.append(made[rng.integers(len(made))])
    for index in known:
        ((_, found),) = _ranges(index, 50)
        values = evaluate(index, (numbers[0], numbers[1]), (50,))
        # What is loaded is anything of its type, and these are some of it.
        assert found[0] <= values.min() <= values.max() <= found[1], index


def _ranges(index: Any, count: int) -> Iterator[tuple[Any, tuple[float, float]]]:
    from anydml.ir import bounds as proofs
    from anydml.ir.trees import walk

    known: dict[Any, Any] = {}
    for node in walk(index):
        known[node] = (-40, 39) if node is LOADED else proofs._range_of(node, known, (count,))
    yield index, known[index]


def test_a_step_past_its_store_is_found() -> None:
    x, y = (dml.TensorDesc("float32", (4,)) for _ in range(2))
    recipe = dml.Device("cpu").compile(dml.ElementWiseIdentity(input_tensor=x, output_tensor=y)).recipe
    arena.check_bounds(recipe, arena.lay_out(recipe), {})
    stores = {name: dataclasses.replace(store, size_in_bytes=12) for name, store in recipe.stores.items()}
    with pytest.raises(BoundsError, match="a view of 'InputTensor'"):
        arena.check_bounds(dataclasses.replace(recipe, stores=stores), arena.lay_out(recipe), {})


# Records


class Planned(NamedTuple):
    """A program that was compiled, with its verbs."""

    program: Any
    primitives: Sequence[Any]

    def records(self) -> tuple[list[tuple[int, ...]], dict[str, Any]]:
        return bounds.bound_records(self.program, bounds.tensors_of(*self))


def compiled(graph: Callable[[dml.Graph], Any]) -> dml.CompiledGraph:
    g = dml.Graph("cpu")
    return g.compile(graph(g))


def numbers(*sizes: int) -> Array:
    return np.zeros(sizes, "f")


def _scatters() -> None:
    for updates in (numbers(1, 5), numbers(1, 16)[:, ::-3], numbers(1, 4)):
        dml.scatter_nd(numbers(3, updates.shape[1]), np.zeros((1, 1), "i8"), updates)


def _gathers() -> None:
    for width in (1, 3, 8, 40):
        dml.gather_nd(numbers(6, width), np.zeros((9, 1), "i8"))
        dml.gather_nd(numbers(width, 6).T, np.zeros((9, 1), "i8"))
    dml.gather(numbers(50, 3), np.zeros((1, 40), "u4"), axis=0)


def _scans() -> None:
    for x, axis in ((numbers(40, 6), 1), (numbers(6, 40), 0), (numbers(1, 140_000), 1), (numbers(9, 9)[:, ::2], 1)):
        dml.cumulative_summation(x, axis=axis)
    scan_with_carry(numbers(6, 40), 0, numbers(1, 40).astype(float))


def _windows() -> None:
    dml.convolution(numbers(1, 8, 12, 12), numbers(8, 8, 3, 3), start_padding=[1, 1], end_padding=[1, 1])
    dml.max_pooling(numbers(1, 8, 24, 24), window_size=[3, 3], strides=[2, 2], start_padding=[1, 1], end_padding=[1, 1])
    dml.convolution(numbers(1, 4, 20, 20), numbers(4, 1, 3, 3), group_count=4, start_padding=[1, 1], end_padding=[1, 1])
    dml.average_pooling(numbers(1, 4, 20, 20), window_size=[2, 2], strides=[2, 2])


def _product(a: Array, b: Array, constant: int | None = None) -> None:
    """A product in a graph, of which a factor may be a constant, that is laid out ahead."""
    g = dml.Graph("cpu")
    x, y = (g.constant(one.copy()) if k == constant else dml.abs(g.input(one)) for k, one in enumerate((a, b)))
    g.compile(dml.gemm(x, y))


def _products() -> None:
    for m, n, k in ((1, 600, 70), (3, 70, 900), (40, 50, 60), (5, 1, 33), (300, 20, 300), (2, 600, 300)):
        for b in (numbers(k, n), numbers(n, k).T):
            dml.gemm(numbers(m, k), b)
            _product(numbers(m, k), b, 1)
    _product(np.zeros((40, 64), "f2"), np.zeros((64, 96), "f2"), 1)
    _product(numbers(40, 64), numbers(64, 96), 0)
    rng = np.random.default_rng(2)
    for _ in range(6):
        engine.CpuEngine().compile(draw(rng).primitive)
    room = numbers(1, 8, 14, 14)[:, :, 1:-1, 1:-1]  # lines with gaps between them
    dml.convolution(numbers(1, 8, 12, 12), numbers(8, 8, 1, 1), out=room)
    first, second, zero = np.zeros((1, 1, 9, 20), "u1"), np.zeros((1, 1, 20, 30), "i1"), np.zeros((1, 1, 1, 1), "u1")
    dml.matrix_multiply_integer(first, second, zero)


def _looked_up(g: dml.Graph) -> Any:
    by, zero = g.constant(np.array([0.1], "f")), g.constant(np.array([3], "u1"))
    return dml.quantize(dml.sigmoid(dml.dequantize(g.input(np.zeros(90, "u1")), by, zero)), by, zero)


def _attention(g: dml.Graph) -> Any:
    query, key, value = (g.input(numbers(1, 70, 64)) for _ in range(3))
    return dml.multihead_attention(query, key, value, scale=0.1, head_count=2).output


def _conv(describe: Any, x: Array, filters: Array, **more: Any) -> list[dml.CompiledOperator]:
    padding = {"start_padding": [1, 1], "end_padding": [1, 1]}
    return [dml.Device("cpu").compile(describe(x, filters, None, **more, **own)) for own in (padding, {})]


SAMPLES: dict[str, Callable[[], object]] = {
    "copy": lambda: [dml.identity(x) for x in (numbers(9, 9)[:, ::-1], numbers(9, 9)[:, ::2], numbers(9, 8)[:, ::-2])],
    "transpose": lambda: dml.identity(numbers(70, 9).T),
    "bordered": lambda: dml.padding(numbers(3, 9, 9), [0, 1, 2], [0, 2, 1]),
    "placed": lambda: dml.padding(numbers(3, 9, 20), [0, 1, 2], [0, 2, 1], padding_mode="reflection"),
    "reverse": lambda: [
        dml.reverse_subsequences(numbers(4, 5, 6), np.ones(sizes, "u4"), axis=axis)
        for axis, sizes in ((0, (1, 5, 6)), (1, (4, 1, 6)), (2, (4, 5, 1)))
    ],
    "check": _gathers,
    "gather": _gathers,
    "scatter": _scatters,
    "top": lambda: dml.top_k(numbers(5, 40), 1, 3),
    "scan": _scans,
    "rows": lambda: (
        dml.exp(numbers(3, 9)[:, ::2]), dml.reduce(numbers(9, 40, 5), "sum", [1]), dml.softmax(numbers(9, 40)),
        dml.reduce(numbers(3, 400_000), "sum", [1]), dml.add(numbers(4, 1), numbers(9)),
        compiled(_looked_up),
    ),
    "macrokernel": _products,
    "stencil": _windows,
    "attention": lambda: compiled(_attention),
    "repeat": lambda: dml.rnn(numbers(1, 20, 1, 4), numbers(1, 1, 5, 4), numbers(1, 1, 5, 5)).sequence,
    "weights": lambda: [
        case.compile("cpu")
        for kind in ("uint4", "uint8")
        for rows in (2, 60)
        for case in (Weights(kind, rows, 41, 128, 32, zeros=True), Weights(kind, rows, 41, 128, 32, rounded=True))
    ],
    "column-per-lane": lambda: [
        Weights("uint4", rows, 80, 128, 32, zeros=True, are_inputs=given, rounded=rounded).compile("cpu")
        for rows in (2, 60) for given in (False, True) for rounded in (False, True)
    ],
    "direct": lambda: (
        _conv(convolution, numbers(1, 8, 12, 12), numbers(16, 8, 3, 3)),
        _conv(convolution, beside(numbers(1, 8, 12, 12)), numbers(16, 8, 3, 3)),
        _conv(convolution, beside(numbers(1, 16, 12, 12)), numbers(16, 1, 3, 3), group_count=16),
    ),
}  # fmt: skip
"""By family of kernels, calls whose records are of it."""
NEEDS = {
    "direct": (figures().conv.spreads_pixels, "direct convolution is for AVX2"),
    "column-per-lane": (columns_of_panel(4) > 0, "it is for an x86 with AVX-512, or AVX2 without dot instructions"),
}


ENOUGH = 50
"""Counts and strides that are larger and are found, after which no others are tried."""


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Planned]:
    """The programs that are compiled, with their verbs; each was proved."""
    found: list[Planned] = []
    prove = engine._proved

    def note(program: Any, primitives: Sequence[Any]) -> Any:
        found.append(Planned(program, primitives))
        return prove(program, primitives)

    monkeypatch.setenv("ANYDML_CHECK_BOUNDS", "1")
    monkeypatch.setattr(engine, "_proved", note)
    dml.Device("cpu")
    from anydml.api import calls
    from anydml.runtime.device import device_named

    device_named.cache_clear()
    calls.known_calls.clear()
    return found


def _with(words: tuple[int, ...], k: int, word: int) -> tuple[int, ...]:
    """A record with another word."""
    return (*words[:k], word, *words[k + 1 :])


def is_caught(records: Sequence[Sequence[int]], tensors: Any) -> bool:
    try:
        bounds.check_records(records, tensors)
    except BoundsError:
        return True
    return False


@pytest.mark.parametrize("family", SAMPLES)
def test_a_wrong_record_is_found(family: str, planned: list[Planned]) -> None:
    """Every address in a record, one tensor's length off; and its counts and strides, larger."""
    is_there, why = NEEDS.get(family, (True, ""))
    if not is_there:
        pytest.skip(why)
    SAMPLES[family]()
    seen = changed = 0
    for records, tensors in (one.records() for one in planned):
        places = {tensor.place >> bounds.APART: tensor for tensor in tensors.values() if tensor.span.high}
        for words in records:
            record = bounds.Dispatch(words)
            if record.family != family:
                continue
            seen += 1
            for k, word in enumerate(words[HEADER:], HEADER):
                owner = places.get(word + (1 << bounds.APART - 1) >> bounds.APART)
                if owner is not None:
                    size = owner.span.high - owner.span.low
                    for wrong in (word + size, word - size):
                        assert is_caught([_with(words, k, wrong)], tensors), f"{record.name}: word {k} of {word:#x}"
                elif 0 < abs(word) < 1 << 20 and changed < ENOUGH:
                    with contextlib.suppress(KeyError, IndexError, ValueError):  # where it is no record any more
                        changed += is_caught([_with(words, k, 3 * word)], tensors)
    assert seen, f"no record of {family}: {[type(one.program).__name__ for one in planned]}"
    assert changed


def test_every_family_has_a_sample() -> None:
    assert {*SAMPLES} == {*bounds.READERS}


RECORDS: dict[str, tuple[str, ...]] = {
    "CheckedProgram": ("check",),
    "CutProgram": ("rows",),
    "KernelProgram": (
        *("column-per-lane", "attention", "bordered", "macrokernel", "copy", "direct", "gather", "placed", "reverse"),
        *("rows", "scan", "stencil", "top", "transpose", "weights"),
    ),
    "LongScanProgram": ("scan",),
    "LoopProgram": ("repeat",),
    "ScatterProgram": ("copy", "scatter"),
}
"""By program of the cpu engine, the families of kernels whose records it makes. A new one is added with its reader."""
VIEWS = {
    *("AttentionProgram", "CopyProgram", "FillProgram", "GatherProgram", "KernelProgram", "MapProgram", "RankProgram"),
    *("GemmProgram", "ReduceProgram", "ReverseProgram", "ResampleProgram", "ScaleProgram", "ScanProgram"),
    *("ScatterProgram", "StencilProgram", "TopKProgram", "WeightOnlyProgram", "ImplicitGemmProgram"),
    *("LastWriterProgram", "PreparedProgram", "Int4MmaProgram"),
}
"""Programs of the cuda engine, of which views and indices are proved: their masks are for the interpreter to find."""


def programs_in(folder: str) -> set[str]:
    """The classes of a folder of programs that are bound: they, or what they are made of, have a method for it."""
    found = set()
    for path in (Path(dml.__file__).parent / "engines" / folder).rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
                if "bind" in methods or node.name.endswith("Program"):
                    found.add(node.name)
    return found


def test_every_program_is_accounted_for() -> None:
    assert programs_in("cpu") == {*RECORDS}
    assert {family for families in RECORDS.values() for family in families} == {*bounds.READERS}
    assert programs_in("cuda") == VIEWS


def test_a_family_that_nothing_reads_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(bounds.READERS, "transpose")
    with pytest.raises(BoundsError, match="nothing reads records of the family 'transpose'"):
        engine.CpuEngine().compile(copy_of(View("x", F32, (9, 70), (1, 9)), View("y", F32, (9, 70), (70, 1))))


def test_nothing_is_proved_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANYDML_CHECK_BOUNDS")
    monkeypatch.setattr(engine, "_proved", None)
    engine.CpuEngine().compile(copy_of(View("x", F32, (9, 70), (1, 9)), View("y", F32, (9, 70), (70, 1))))


@pytest.mark.parametrize("kind", ["updates", "target"])
def test_a_row_walked_forwards_from_its_end_is_found(kind: str, planned: list[Planned]) -> None:
    """The updates of a scatter, or its target, from the last element of a row that runs backwards."""
    x, updates = numbers(2, 8), numbers(1, 8)[:, :: -1 if kind == "updates" else 1]
    out = numbers(2, 8)[:, :: -1 if kind == "target" else 1]
    try:
        dml.scatter_nd(x, np.zeros((1, 1), "i8"), updates, out=out)
    except BoundsError:
        return  # by the proof itself
    found = [one.records() for one in planned]
    ((records, tensors),) = [pair for pair in found if bounds.Dispatch(pair[0][-1]).family == "scatter"]
    k, words = HEADER + 6 + (kind == "target"), records[-1]  # the step of a block's elements
    assert is_caught([_with(words, k, -words[k])], tensors)


def test_places_past_the_whole_numbers_of_float32_are_inside() -> None:
    """The last place of a side of 2^24 + 4 elements is rounded up to one that is not there."""
    sizes = {"input_tensor": (1, 1, 1, 2**24 + 4), "roi_tensor": (1, 4), "output_tensor": (1, 1, 1, 4)}
    tensors = {field: dml.TensorDesc("float32", own) for field, own in sizes.items()}
    for mode in ("linear", "nearest_neighbor"):
        desc = dml.RoiAlign(
            **tensors, batch_indices_tensor=dml.TensorDesc("uint32", (1,)), reduction_function="average",
            interpolation_mode=mode, spatial_scale_x=1.0, spatial_scale_y=1.0, minimum_samples_per_output=1,
            maximum_samples_per_output=2, out_of_bounds_input_value=0.0,
        )  # fmt: skip
        for verb in desc.lower():
            check_fetches(verb)

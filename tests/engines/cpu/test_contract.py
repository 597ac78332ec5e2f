"""Contractions of the cpu engine: the reference's bits wherever sums are exact, and errors no larger than peers'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu import CpuEngine, plans
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.features import IS_ARM
from anydml.engines.cpu.gemm import work_item as contracted
from anydml.engines.cpu.gemm.operands import AS_IT_LIES, UNPACKED
from anydml.engines.cpu.gemm.selection import RECORD
from anydml.engines.cpu.kernel import Address
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.threads.scratch import Scratch, workspace
from anydml.engines.reference import ReferenceEngine
from anydml.ir.expressions import load
from anydml.ir.verbs import Reduce
from anydml.ir.views import View
from contractions import Drawn, draw, product
from kernel_families import PRODUCTS, family_of

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.sampled(4), pytest.mark.check_bounds]


Array = np.ndarray[Any, Any]


def run(primitive: Reduce, arrays: dict[str, Array], engine: CpuEngine | ReferenceEngine | None = None) -> None:
    places = {name: int(array.__array_interface__["data"][0]) for name, array in arrays.items()}
    (engine or CpuEngine()).compile(primitive).bind(places)()


def check(drawn: Drawn) -> bool:
    """The reference's bits, in the target and around it. Whether it was a contraction of ours."""
    before = drawn.target.copy()
    program = CpuEngine().compile(drawn.primitive)
    run(drawn.primitive, drawn.arrays)
    got = drawn.target.copy()
    drawn.target[...] = before
    run(drawn.primitive, drawn.arrays, ReferenceEngine())
    assert got.tobytes() == drawn.target.tobytes(), (drawn.primitive, np.argwhere(got != drawn.target)[:5])
    return family_of(program) in PRODUCTS


@pytest.fixture
def threads() -> Iterator[None]:
    before = dml.get_num_threads()
    yield
    dml.set_num_threads(before)


@pytest.mark.parametrize("seed", range(4))
def test_any_contraction_has_the_bits_of_the_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ours = [check(draw(rng)) for _ in range(30)]
    assert sum(ours) > 22, ours


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    ("shape", "dtype"), [((600, 700, 530), "float32"), ((610, 1043, 520), "float16"), ((1100, 531, 1025), "float32")]
)
@pytest.mark.usefixtures("threads")
def test_large_products_stay_within_their_scratch(
    shape: tuple[int, int, int], dtype: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several blocks along the steps: what is not in the target between them lies in memory of some size.

    All threads share one scratch here, and nothing is written past it.
    """
    dml.set_num_threads(number)
    memory = np.zeros(workspace().size + 8 * 2**20, np.uint8)
    start = -memory.ctypes.data % 64
    memory[start + workspace().size :] = 77
    monkeypatch.setattr(contracted, "get_scratch", lambda: Scratch(Address(memory.ctypes.data + start), Address(1)))
    m, n, k = shape
    rng = np.random.default_rng(0)
    left, right = (rng.integers(-3, 4, size).astype(dtype) for size in ((m, k), (k, n)))
    target = np.full((m, n + 3), 7, dtype)
    run(product(left, right, target[:, :n]), {"left": left, "right": right, "target": target})
    wanted = left.astype(np.float32) @ right.astype(np.float32)
    np.testing.assert_array_equal(target[:, :n], wanted.astype(dtype))
    assert (target[:, n:] == 7).all()
    assert (memory[start + workspace().size :] == 77).all()
    assert not memory[start : start + 8].any()  # which is free again


@pytest.mark.parametrize("shape", [(200, 150, 300), (5, 900, 700), (3, 200, 1100), (12, 900, 700), (1, 900, 700)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.usefixtures("threads")
def test_the_number_of_threads_changes_no_bit(shape: tuple[int, int, int], dtype: str) -> None:
    m, n, k = shape
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal(size).astype(dtype) for size in ((m, k), (n, k) if m == 3 else (k, n)))
    arrays = {"left": left, "right": right, "target": np.empty((m, n), dtype)}
    primitive = product(left, right.T if m == 3 else right, arrays["target"])
    found = set()
    for number in (1, 2, 5):
        dml.set_num_threads(number)
        run(primitive, arrays)
        found.add(arrays["target"].tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("shape", [(64, 64, 64), (150, 130, 1500), (1, 512, 4096), (8, 300, 2000), (12, 300, 2000)])
@pytest.mark.parametrize("turned", [False, True])
def test_errors_are_no_larger_than_those_of_onnx_runtime(shape: tuple[int, int, int], turned: bool) -> None:
    ort, onnx = (
        pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: make bench has it"),
        pytest.importorskip("onnx", reason="ONNX is not installed: make test EXTRAS=onnx"),
    )
    m, n, k = shape
    rng = np.random.default_rng(1)
    left, right = rng.standard_normal((m, k), np.float32), rng.standard_normal((n, k) if turned else (k, n), np.float32)
    arrays = {"left": left, "right": right, "target": np.empty((m, n), np.float32)}
    run(product(left, right.T if turned else right, arrays["target"]), arrays)
    make = onnx.helper.make_tensor_value_info
    inputs = [make(name, 1, array.shape) for name, array in (("left", left), ("right", right))]
    node = onnx.helper.make_node("Gemm", ["left", "right"], ["target"], transB=int(turned))
    graph = onnx.helper.make_graph([node], "product", inputs, [make("target", 1, (m, n))])
    model = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 17)])
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (theirs,) = session.run(None, {"left": left, "right": right})
    exact = left.astype(np.float64) @ (right.T if turned else right)

    def error(x: Array) -> float:
        return float(np.sqrt(np.mean((x - exact) ** 2)))

    assert error(arrays["target"]) <= 1.02 * error(theirs)  # a sum's last bits are chance, for both


SPAN = figures().gemm.packed_span


@pytest.mark.parametrize("k", [SPAN - 1, SPAN, 2 * SPAN + 3])
def test_columns_whose_steps_lie_side_by_side_are_packed_some_steps_at_a_time(k: int) -> None:
    rng = np.random.default_rng(6)
    left, right = (rng.integers(-3, 4, size).astype(np.float32) for size in ((20, k), (70, k)))
    target = np.full((20, 70), 7, np.float32)
    run(product(left, right.T, target), {"left": left, "right": right, "target": target})
    np.testing.assert_array_equal(target, left @ right.T)


def test_rows_are_read_as_they_lie_unless_their_lines_share_places_of_the_cache() -> None:
    """Either way has the same bits: over several chains, and blocks of them."""
    rng = np.random.default_rng(5)
    left, right = rng.standard_normal((31, 1024), np.float32), rng.standard_normal((1024, 70), np.float32)
    found = []
    for width in (1024, 1027, 1050):
        rows = np.zeros((31, width), np.float32)[:, :1024]
        rows[:] = left
        target = np.full((31, 70), 7, np.float32)
        primitive = product(rows, right, target)
        run(primitive, {"left": rows, "right": right, "target": target})
        program = CpuEngine().compile(primitive)
        assert isinstance(program, KernelProgram)
        found.append((program.record.words[RECORD.word("left_mode")], target))
    (packed, one), (near, _), (apart, other) = found
    assert (packed, near, apart) == (AS_IT_LIES, AS_IT_LIES, AS_IT_LIES if IS_ARM else UNPACKED)
    assert one.tobytes() == other.tobytes()
    np.testing.assert_allclose(one, left.astype(np.float64) @ right, rtol=0, atol=1e-4)


@pytest.mark.parametrize("shape", [(12, 453, 420), (5, 453, 420), (12, 403, 300), (20, 403, 300), (1, 403, 300)])
def test_a_few_rows_read_a_matrix_where_it_lies(shape: tuple[int, int, int]) -> None:
    """By strips from memory, by tiles from the second cache, but for the last columns: nothing past those is read."""
    m, n, k = shape
    rng = np.random.default_rng(4)
    left, wide = (rng.integers(-3, 4, size).astype(np.float32) for size in ((m, k), (k, n + 3)))
    wide[:, n:] = np.nan
    target = np.full((m, n), 7, np.float32)
    run(product(left, wide[:, :n], target), {"left": left, "right": wide, "target": target})
    np.testing.assert_array_equal(target, left @ wide[:, :n])


def test_a_matrix_is_added_where_the_result_is_written() -> None:
    """Sums of several blocks lie elsewhere then; with a row added they lie in the target, and not past its end."""
    rng = np.random.default_rng(2)
    left, right, first = (rng.integers(-3, 4, size).astype(np.float32) for size in ((20, 600), (600, 45), (20, 45)))
    for added in (first, first[:1]):
        target = np.full((20, 50), 7, np.float32)
        target[:, :45] = first
        made = product(left, right, target[:, :45])
        strides = (50, 1, 0) if len(added) > 1 else (0, 1, 0)
        views = (*made.sources, View("added", dml.DataType.FLOAT32, (20, 45, 600), strides))
        primitive = Reduce(views, made.target, made.value + load(2, dml.DataType.FLOAT32), 1)
        memory = target if len(added) > 1 else added.copy()
        run(primitive, {"left": left, "right": right, "added": memory, "target": target})
        np.testing.assert_array_equal(target[:, :45], left @ right + added)
        assert (target[:, 45:] == 7).all()


@pytest.mark.usefixtures("threads")
def test_one_row_reads_4096_columns_whole() -> None:
    """Memory is read at full speed by whole rows, whatever the width of a tile."""
    dml.set_num_threads(1)
    left, right = np.ones((1, 64), np.float32), np.ones((64, 4096), np.float32)
    program = CpuEngine().compile(product(left, right, np.empty((1, 4096), np.float32)))
    assert isinstance(program, KernelProgram)
    assert program.record.words[RECORD.word("column_units")] == 1


def test_a_program_is_bound_again_and_kept_without_its_addresses() -> None:
    """Addresses are put into words that are laid out once; what is kept of a program has none of them."""
    rng = np.random.default_rng(3)
    left, right = (rng.integers(-3, 4, size).astype(np.float32) for size in ((20, 40), (40, 50)))
    targets = [np.full((20, 50), 7, np.float32) for _ in range(3)]
    program = CpuEngine().compile(product(left, right, targets[0]))

    def bind(program: Any, left: Array, target: Array) -> None:
        arrays = {"left": left, "right": right, "target": target}
        program.bind({name: array.ctypes.data for name, array in arrays.items()})()

    twice = 2 * left
    first, second = targets[:2]
    bind(program, left, first)
    bind(program, twice, second)
    np.testing.assert_array_equal(first, left @ right)
    np.testing.assert_array_equal(second, twice @ right)
    kept = plans.dump(program, lambda _: None)
    assert kept == plans.dump(CpuEngine().compile(product(left, right, first)), lambda _: None)
    bind(plans.load(kept, lambda _: None), left, targets[2])
    np.testing.assert_array_equal(targets[2], first)

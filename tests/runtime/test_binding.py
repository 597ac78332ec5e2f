"""Operators that tests bind arrays and buffers to."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import BufferBinding as Bind
from anydml.core.memory import Buffer
from anydml.runtime.binding import Bound, hazards

T = dml.TensorDesc
PAIR = T("float32", (2, 4))


def compiled(desc: dml.OperatorDesc | None = None) -> dml.CompiledOperator:
    return dml.Device().compile(desc or dml.CumulativeSummation(input_tensor=PAIR, output_tensor=PAIR, axis=1))


def copier(sizes: tuple[int, ...] = (2, 4), **options: Any) -> dml.CompiledOperator:
    tensor = T("float32", sizes, **options)
    zeros, ones = (0,) * len(sizes), (1,) * len(sizes)
    return compiled(dml.Slice(input_tensor=tensor, output_tensor=tensor, offsets=zeros, sizes=sizes, strides=ones))


def test_views_that_overlap_are_refused() -> None:
    memory = np.arange(16, dtype="float32")
    before = memory.copy()
    x, y = memory[:8].reshape(2, 4), memory[4:12].reshape(2, 4)
    with pytest.raises(dml.BindingError, match="may overlap InputTensor only where both are the very same range"):
        compiled()(x, out=y)
    with pytest.raises(dml.BindingError, match="must not overlap InputTensor: the operator does not run in place"):
        copier()(x, out=x)
    np.testing.assert_array_equal(memory, before)


def test_an_array_run_backwards_is_not_in_place() -> None:
    x = np.arange(8, dtype="float32").reshape(2, 4)
    with pytest.raises(dml.BindingError, match=r"only with the same strides; got \[4, -1\] and \[4, 1\]"):
        dml.cumulative_summation(x, 1, out=x[:, ::-1])
    square = np.arange(16, dtype="float32").reshape(4, 4)
    with pytest.raises(dml.BindingError, match="only with the same strides"):
        dml.cumulative_summation(square, 1, out=square.T)


def test_views_that_interleave_do_not_overlap() -> None:
    x = np.arange(16, dtype="float32").reshape(2, 8)
    dml.cumulative_summation(x[:, ::2], 1, out=x[:, 1::2])
    np.testing.assert_array_equal(x[:, 1::2], np.cumsum(x[:, ::2], axis=1))
    dml.cumulative_summation(x[:, :4], 1, out=x[:, 4:])
    np.testing.assert_array_equal(x[:, 4:], np.cumsum(x[:, :4], axis=1))


def test_in_place_works_for_every_layout() -> None:
    x = np.arange(16, dtype="float32").reshape(4, 4)
    for same in (x, x.T, x[::-1], x[:, ::2], x[1:3, ::-1]):
        expected = np.cumsum(same, axis=0)
        dml.cumulative_summation(same, 0, out=same)
        np.testing.assert_array_equal(same, expected)


def test_a_gather_may_not_write_over_its_indices() -> None:
    memory = np.arange(8, dtype="uint32").reshape(4, 2)
    with pytest.raises(dml.BindingError, match="OutputTensor must not overlap IndicesTensor"):
        dml.gather_nd(np.arange(8, dtype="uint32"), memory[:, :1], out=memory[:, 0])


def test_inputs_may_share_memory() -> None:
    x = np.array([1, 0, 2], "int32")
    np.testing.assert_array_equal(dml.gather_nd(x, x.reshape(3, 1)), [0, 1, 2])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 4)), "InputTensor must be an array of FLOAT32, as described; got FLOAT64"),
        (np.zeros((4, 2), "float32"), r"InputTensor must be an array of sizes \(2, 4\), as described; got \(4, 2\)"),
        (
            np.zeros((4, 2), "float32").T,
            r"InputTensor must have strides \(4, 1\), as described; got \(1, 2\); describe",
        ),
        (np.zeros((2, 2, 4), "float32"), r"InputTensor must be an array of sizes \(2, 4\)"),
    ],
)
def test_an_array_must_be_what_was_described(array: np.ndarray, message: str) -> None:
    with pytest.raises(dml.BindingError, match=message):
        compiled()(array)


def test_leading_dimensions_of_one_do_not_matter() -> None:
    x = np.arange(8, dtype="float32").reshape(1, 1, 2, 4)
    np.testing.assert_array_equal(compiled()(x), np.cumsum(x[0, 0], axis=1))


def test_an_output_must_be_writable_memory() -> None:
    x = np.zeros((2, 4), "float32")
    frozen = x.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(compiled()(frozen), x)
    with pytest.raises(dml.BindingError, match="OutputTensor must be writable; got a read-only array"):
        compiled()(x, out=frozen)
    with pytest.raises(dml.DescriptionError, match="OutputTensor must be an array that can be written to; got a list"):
        compiled()(x, out=[[0.0] * 4] * 2)


def test_a_guaranteed_alignment_is_checked() -> None:
    memory = np.zeros(64 + 32 + 4, "uint8")
    start = -memory.__array_interface__["data"][0] % 32
    aligned = memory[start : start + 32].view("float32").reshape(2, 4)
    askew = memory[start + 4 : start + 36].view("float32").reshape(2, 4)
    run = copier(guaranteed_base_offset_alignment=32)
    with pytest.raises(dml.BindingError, match="InputTensor must start at a multiple of 32 bytes, as guaranteed"):
        run(askew, out=np.zeros_like(aligned))
    assert compiled()(askew).shape == (2, 4)


def test_memory_that_is_not_aligned_to_elements_works() -> None:
    memory = np.zeros(33, "uint8")
    askew = memory[1:].view("float32").reshape(2, 4)
    askew[...] = np.arange(8).reshape(2, 4)
    dml.cumulative_summation(askew, 1, out=askew)
    np.testing.assert_array_equal(askew, np.cumsum(np.arange(8).reshape(2, 4), axis=1))


def test_the_number_of_arrays_is_checked() -> None:
    x = np.zeros((2, 4), "float32")
    with pytest.raises(dml.BindingError, match=r"call\(\) takes the inputs: InputTensor; got 2 arrays"):
        compiled()(x, x)
    with pytest.raises(dml.BindingError, match=r"bind\(\) takes the inputs: InputTensor; got 0 arrays"):
        compiled().bind(out=x)


def test_owned_tensors_are_initialized_once() -> None:
    owned = T("float32", (2, 4), flags="OWNED_BY_DML")
    run = compiled(dml.CumulativeSummation(input_tensor=owned, output_tensor=PAIR, axis=1))
    with pytest.raises(dml.BindingError, match=r"InputTensor must be given to initialize\(\) first"):
        run()
    with pytest.raises(
        dml.BindingError, match=r"initialize\(\) takes the inputs flagged OWNED_BY_DML: InputTensor; got 0"
    ):
        run.initialize()
    with pytest.raises(dml.BindingError, match="InputTensor must be an array of FLOAT32"):
        run.initialize(np.zeros((2, 4)))
    np.testing.assert_array_equal(run.initialize(np.ones((2, 4), "float32"))(), [[1, 2, 3, 4]] * 2)
    with pytest.raises(dml.BindingError, match="is initialized already, which happens exactly once"):
        run.initialize(np.zeros((2, 4), "float32"))


def test_faults_of_several_arrays_are_reported_together() -> None:
    with pytest.raises(dml.BindingError) as caught:
        compiled()(np.zeros((2, 3)), out=np.zeros((2, 4), "int32"))
    assert [fault.field for fault in caught.value.faults] == ["InputTensor", "InputTensor", "OutputTensor"]
    assert caught.value.hresult == 0x887A0005


def test_a_result_has_the_described_layout() -> None:
    x = np.arange(8, dtype="float32").reshape(2, 4)
    columns = T("float32", (2, 4), strides=(1, 3))
    result = compiled(dml.CumulativeSummation(input_tensor=PAIR, output_tensor=columns, axis=1))(x)
    assert result.strides == (4, 12)
    np.testing.assert_array_equal(result, np.cumsum(x, axis=1))


def test_a_result_that_memory_has_no_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def empty(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(np, "empty", empty)
    with pytest.raises(dml.BindingError, match=r"OutputTensor of sizes \(2, 4\) could not be allocated"):
        compiled()(np.zeros((2, 4), "float32"))


def table(run: dml.CompiledOperator | None = None) -> dml.BindingTable:
    return dml.Device().create_binding_table(run or copier())


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        (Bind(bytearray(64), 8), "InputTensor: Offset must be a multiple of 16; got 8"),
        (Bind(bytearray(64), 0, 28), "SizeInBytes must be at least 32, the total size of what is bound; got 28"),
        (Bind(bytearray(64), 48), "InputTensor: SizeInBytes must be at least 32, .*; got 16"),
        (Bind(bytearray(64), 48, 32), r"Offset \+ SizeInBytes must lie within the buffer of 64 bytes; got 48 \+ 32"),
        (Bind(bytearray(64), -16), r"InputTensor.Offset must be at least 0; got -16"),
        (Bind(bytearray(64), 0, 1.5), "InputTensor.SizeInBytes must be a whole number; got 1.5"),  # type: ignore[arg-type]  # wrong on purpose
        (Bind(bytearray(64), "0"), "InputTensor.Offset must be a whole number; got '0'"),  # type: ignore[arg-type]  # wrong on purpose
        (Bind(None), "InputTensor must be a buffer of bytes, such as a bytearray.*; got None"),
        (Bind(np.zeros((8, 8), "float32")[:, ::2]), "InputTensor must be one piece of memory"),
        (None, "InputTensor must be given a BufferBinding; got None"),
        (bytearray(64), "InputTensor must be given a BufferBinding"),
    ],
)  # fmt: skip
def test_a_range_must_fit(binding: Any, message: str) -> None:
    with pytest.raises(dml.BindingError, match=message):
        table().bind_inputs([binding])


def test_the_alignment_of_a_description_counts() -> None:
    run = copier(guaranteed_base_offset_alignment=64)
    table(run).bind_inputs([Bind(bytearray(128), 64)])
    with pytest.raises(dml.BindingError, match="Offset must be a multiple of 64; got 16"):
        table(run).bind_inputs([Bind(bytearray(128), 16)])


def test_the_total_size_of_a_description_counts() -> None:
    run = copier(total_tensor_size_in_bytes=48)
    with pytest.raises(dml.BindingError, match="SizeInBytes must be at least 48"):
        table(run).bind_inputs([Bind(bytearray(47))])


def test_an_output_buffer_must_be_writable() -> None:
    table().bind_inputs([Bind(bytes(32))])
    with pytest.raises(dml.BindingError, match="OutputTensor must be writable; got a read-only buffer"):
        table().bind_outputs([Bind(bytes(32))])


@pytest.mark.parametrize(
    "buffer",
    [
        bytearray(32),
        np.zeros(32, "uint8"),
        np.zeros((2, 4), "float32"),
        memoryview(bytearray(32)),
        mmap.mmap(-1, 32),
        (ctypes.c_char * 32)(),
    ],
    ids=lambda b: type(b).__name__,
)
def test_kinds_of_buffers(buffer: Any) -> None:
    source = np.arange(8, dtype="float32").tobytes()
    execute(copier(), [Bind(source)], [Bind(buffer)])
    assert bytes(memoryview(buffer).cast("B") if not isinstance(buffer, mmap.mmap) else buffer[:]) == source


def test_a_described_view_that_runs_backwards_binds_to_arrays_only() -> None:
    x = np.arange(4, dtype="float32")
    desc = dml.CumulativeSummation(input_tensor=T.of(x[::-1]), output_tensor=T("float32", 4), axis=0)
    np.testing.assert_array_equal(compiled(desc)(x[::-1]), [3, 5, 6, 6])
    with pytest.raises(
        dml.BindingError, match="InputTensor has negative strides, which a raw buffer cannot be bound to"
    ):
        table(compiled(desc)).bind_inputs([Bind(x)])


def execute(
    run: dml.CompiledOperator, inputs: list[Bind | None], outputs: list[Bind], persistent: Bind | None = None
) -> None:
    commands = dml.CommandList()
    bindings = table(run)
    bindings.bind_inputs(inputs)
    bindings.bind_outputs(outputs)
    bindings.bind_persistent_resource(persistent)
    dml.CommandRecorder().record_dispatch(commands, run, bindings)
    dml.Device().execute(commands)


def test_ranges_that_intersect_are_hazards() -> None:
    memory = bytearray(96)
    execute(copier(), [Bind(memory, 0, 32)], [Bind(memory, 32, 32)])
    with pytest.raises(dml.BindingError, match="must not overlap InputTensor: the operator does not run in place"):
        execute(copier(), [Bind(memory, 0, 32)], [Bind(memory, 0, 32)])
    with pytest.raises(dml.BindingError, match=r"very same range; got bytes 0x10 .. 0x30 and bytes 0x0 .. 0x20"):
        execute(compiled(), [Bind(memory, 0, 32)], [Bind(memory, 16, 32)])
    # The ranges that are bound count, not the bytes that are needed.
    with pytest.raises(dml.BindingError, match="very same range"):
        execute(compiled(), [Bind(memory, 0, 64)], [Bind(memory, 32, 32)])
    with pytest.raises(dml.BindingError, match="very same range"):
        execute(compiled(), [Bind(memory, 0, 32)], [Bind(memory, 0, 48)])
    execute(compiled(), [Bind(memory, 0, 32)], [Bind(memory, 0, 32)])


def test_ranges_in_different_objects_are_told_by_address() -> None:
    memory = np.zeros(96, "uint8")
    start = memory.__array_interface__["data"][0]
    with pytest.raises(
        dml.BindingError, match=rf"got bytes {start + 32:#x} .. {start + 96:#x} and bytes {start:#x} .. "
    ):
        execute(compiled(), [Bind(memory[:64])], [Bind(memory[32:])])
    with pytest.raises(dml.BindingError, match="without SizeInBytes reaches to the end of its buffer"):
        execute(compiled(), [Bind(memory)], [Bind(memory, 64)])


def test_two_objects_over_one_memory_are_one_memory() -> None:
    memory = bytearray(64)
    with pytest.raises(dml.BindingError, match="must not overlap InputTensor"):
        execute(copier(), [Bind(memory, 0, 32)], [Bind(np.frombuffer(memory, "uint8"), 16, 32)])


def test_outputs_must_not_overlap_one_another() -> None:
    """No operator has two outputs yet; the rule is there."""
    memory = Buffer(0x1000, 64, True, None)

    def part(field: str, start: int, size: int) -> Bound:
        return Bound(field, Buffer(0x1000 + start, size, True, None), 0, memory)

    apart = [part("OutputTensor", 0, 32), part("OutputIndicesTensor", 32, 32)]
    assert not list(hazards([], apart, in_place=True))
    crossed = [part("OutputTensor", 0, 32), part("OutputIndicesTensor", 16, 32)]
    (fault,) = hazards([], crossed, in_place=True)
    assert str(fault) == "OutputIndicesTensor must not overlap OutputTensor: both are written"


def test_in_place_needs_one_layout() -> None:
    memory = bytearray(32)
    flipped = T("float32", (2, 4), strides=(1, 2))
    run = compiled(dml.CumulativeSummation(input_tensor=PAIR, output_tensor=flipped, axis=1))
    with pytest.raises(dml.BindingError, match=r"only with the same strides; got \[1, 2\] and \[4, 1\]"):
        execute(run, [Bind(memory)], [Bind(memory)])

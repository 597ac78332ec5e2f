"""The binding rules for raw buffers."""

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
from binding_helpers import PAIR, T, compiled, copier


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

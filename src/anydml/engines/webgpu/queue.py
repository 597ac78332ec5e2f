"""Dispatches on their way to a device: rows of a table, which a compiled loop records into a command buffer.

A row has the handles of a pipeline and a bind group, the immediates and the numbers of workgroups: no object of
wgpu-py's is made at a dispatch. The table is submitted when it is full, and when somebody waits or reads.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from typing import TYPE_CHECKING, Any

from anydml.core.late_imports import import_alone
from anydml.engines.webgpu.timestamps import Mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.engines.webgpu.device import Gpu

ROW = struct.Struct("QQQQIIII")
"""Pipeline, bind group, address of the immediates, their bytes, workgroups in three dimensions, nothing."""
MOST = 512
"""Rows of the table."""
_NAMES = ("SetPipeline", "SetBindGroup", "SetImmediates", "DispatchWorkgroups")
_LOOP = """
%Row = type {{ i64, i64, i64, i64, i32, i32, i32, i32 }}
define void @record(i64 %pass, ptr %rows, i64 %count) {{
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %dispatch ]
  %last = phi i64 [ 0, %entry ], [ %pipeline, %dispatch ]
  %row = getelementptr %Row, ptr %rows, i64 %i
  %pipeline = load i64, ptr %row
  %is_same = icmp eq i64 %pipeline, %last
  br i1 %is_same, label %bind, label %set
set:
  call void inttoptr (i64 {SetPipeline} to ptr)(i64 %pass, i64 %pipeline)
  br label %bind
bind:
  %group_at = getelementptr %Row, ptr %row, i64 0, i32 1
  %group = load i64, ptr %group_at
  call void inttoptr (i64 {SetBindGroup} to ptr)(i64 %pass, i32 0, i64 %group, i64 0, i64 0)
  %bytes_at = getelementptr %Row, ptr %row, i64 0, i32 3
  %bytes = load i64, ptr %bytes_at
  %has_none = icmp eq i64 %bytes, 0
  br i1 %has_none, label %dispatch, label %give
give:
  %numbers_at = getelementptr %Row, ptr %row, i64 0, i32 2
  %numbers = load i64, ptr %numbers_at
  call void inttoptr (i64 {SetImmediates} to ptr)(i64 %pass, i32 0, i64 %numbers, i64 %bytes)
  br label %dispatch
dispatch:
  %x_at = getelementptr %Row, ptr %row, i64 0, i32 4
  %x = load i32, ptr %x_at
  %y_at = getelementptr %Row, ptr %row, i64 0, i32 5
  %y = load i32, ptr %y_at
  %z_at = getelementptr %Row, ptr %row, i64 0, i32 6
  %z = load i32, ptr %z_at
  call void inttoptr (i64 {DispatchWorkgroups} to ptr)(i64 %pass, i32 %x, i32 %y, i32 %z)
  %after = add i64 %i, 1
  %is_more = icmp ult i64 %after, %count
  br i1 %is_more, label %next, label %end
end:
  ret void
}}
"""
_kept: list[Any] = []


@functools.cache
def _loop() -> Any:
    """The compiled loop: 1.0-1.4 us a dispatch, where wgpu-py's objects take 7.9 (H200)."""
    llvm, native = import_alone("llvmlite.binding"), import_alone("wgpu.backends.wgpu_native._ffi")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    library = ctypes.CDLL(native.lib_path)
    places = {
        name: ctypes.cast(getattr(library, f"wgpuComputePassEncoder{name}"), ctypes.c_void_p).value for name in _NAMES
    }
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_LOOP.format(**places)), machine)
    engine.finalize_object()
    _kept.append(engine)
    signature = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)
    return signature(engine.get_function_address("record"))


class Queue:
    """The table of one device: rows that were appended wait in it, with what they name, until they are submitted."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu, self._record = gpu, _loop()
        self.waiting: list[Any] = []
        self.is_timed = False
        """Whether there are marks among them."""
        gpu.on_loss.append(lambda: self.waiting.extend([None] * MOST))  # whoever dispatches submits then, and is told
        self._encoder = gpu.ffi.new("WGPUCommandEncoderDescriptor *")
        self._last = 0
        self._commands = gpu.ffi.new("WGPUCommandBuffer[1]")

    def submit(self, then: Callable[[Any], None] | None = None) -> int:
        """Record what is in the table, and what comes after it on the same encoder, and hand it to the device.

        The number of the submission is what a wait for it is told. Errors are raised. The lock is held, or is taken.
        """
        gpu = self._gpu
        with gpu.lock:
            gpu.check()
            rows = self.waiting[:]
            del self.waiting[: len(rows)]  # others may have appended
            if not rows and then is None:
                return self._last
            lib, ffi = gpu.lib, gpu.ffi
            encoder = lib.wgpuDeviceCreateCommandEncoder(gpu.handle, self._encoder)
            if rows:
                compute = lib.wgpuCommandEncoderBeginComputePass(encoder, ffi.NULL)
                self._record_all(compute, rows)
                lib.wgpuComputePassEncoderEnd(compute)
                lib.wgpuComputePassEncoderRelease(compute)
            if then is not None:
                then(encoder)
            try:
                self._commands[0] = gpu.checked.wgpuCommandEncoderFinish(encoder, ffi.NULL)
                self._last = int(gpu.checked.wgpuQueueSubmitForIndex(gpu.queue, 1, self._commands))
                lib.wgpuCommandBufferRelease(self._commands[0])
            finally:
                lib.wgpuCommandEncoderRelease(encoder)
            return self._last

    def _record_all(self, compute: Any, rows: list[Any]) -> None:
        """Dispatches, and the marks between them."""
        handle, first = int(self._gpu.ffi.cast("uintptr_t", compute)), 0
        for at in [k for k, row in enumerate(rows) if type(row) is Mark] if self.is_timed else ():
            if first < at:
                self._record(handle, b"".join([row.packed for row in rows[first:at]]), at - first)
            self._gpu.lib.wgpuComputePassEncoderWriteTimestamp(compute, rows[at].queries, rows[at].index)
            first = at + 1
        if first < len(rows):
            self._record(handle, b"".join([row.packed for row in rows[first:]]), len(rows) - first)

"""The contestants: each makes a function to be timed, with its output allocated beforehand, and shows its answer."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.gemm.blocking import tile_for
from anydml.engines.cpu.launch.call import make_dispatch
from anydml.engines.cpu.launch.record import HEADER
from anydml.engines.cpu.move.copy import get_copy

if TYPE_CHECKING:
    from benchmarks.cpu.rows import CpuRow

Contestant = tuple[Callable[[], object], Callable[[], np.ndarray]]
"""What is timed, and what it computed."""


def room_for(tensor: dml.TensorDesc) -> np.ndarray[Any, Any]:
    """An array that lies as a tensor does."""
    dtype = tensor.data_type.dtype
    if tensor.strides is None:
        return np.empty(tensor.sizes, dtype)
    strides = [step * dtype.itemsize for step in tensor.strides]
    return np.ndarray(tensor.sizes, dtype, np.empty(tensor.total_tensor_size_in_bytes, np.uint8), 0, strides)


def ours(row: CpuRow, device: dml.Device) -> Contestant:
    out = room_for(row.output)
    graph = row.chain or row.formula
    if graph is not None and row.family == "compile":
        return lambda: graph.compile(device).bind(*row.inputs, out=out).dispatch(), lambda: out
    if graph is not None:
        return graph.compile(device).bind(*row.inputs, out=out).dispatch, lambda: out
    compiled = device.compile(row.desc).initialize(*row.owned)
    others = [np.empty(one.sizes, one.data_type.dtype) for one in [*row.desc.outputs().values()][1:]]
    return compiled.bind(*row.inputs, out=[out, *others] if others else out).dispatch, lambda: out


def single(row: CpuRow, device: dml.Device) -> Contestant | None:
    """The one operator that a chain amounts to, on a view of its input."""
    if row.chain is None or row.chain.single is None:
        return None
    out = np.empty(row.output.sizes, row.output.data_type.dtype)
    return device.compile(row.desc).bind(*row.chain.read(*row.inputs), out=out).dispatch, lambda: out


def openblas(name: str) -> Any:
    """A function of the OpenBLAS that NumPy's wheel brings, by the end of its name; None where there is no such."""
    for file in Path(np.__file__).parent.parent.glob("numpy.libs/*openblas*"):
        library = ctypes.CDLL(str(file))
        for full in (f"scipy_openblas_{name}64_", f"openblas_{name}64_", f"openblas_{name}"):
            if hasattr(library, full):
                return getattr(library, full)
    return None


def limit_numpy(threads: int) -> None:
    """Have NumPy's products take so many threads, as the others do: OpenBLAS takes all that there are by itself."""
    if (limit := openblas("set_num_threads")) is not None:
        limit(threads)


def numpy(row: CpuRow) -> Contestant | None:
    compute = row.numpy
    if compute is None:
        return None
    out = np.empty(row.output.sizes, row.output.data_type.dtype)
    first = compute(out)
    answer = first if isinstance(first, np.ndarray) else out
    return lambda: compute(out), lambda: answer


def torch(row: CpuRow, threads: int) -> Contestant | None:
    if row.torch is None or importlib.util.find_spec("torch") is None:
        return None
    os.environ["OMP_NUM_THREADS"] = str(threads)  # some products on an Arm take as many as were named at the start
    import torch as library

    library.set_num_threads(threads)
    out = library.from_numpy(np.empty(row.output.sizes, row.output.data_type.dtype))
    try:
        compute = row.torch(library)
        first = compute(out)
    except (RuntimeError, TypeError):  # not every type has every operator
        return None
    answer = first if isinstance(first, library.Tensor) else out
    return lambda: compute(out), lambda: answer.numpy()


def has_onnx() -> bool:
    """Whether both ONNX and ONNX Runtime are here."""
    return all(importlib.util.find_spec(name) is not None for name in ("onnx", "onnxruntime"))


def onnx_model(row: CpuRow) -> tuple[Any, dict[str, np.ndarray]]:
    """The row as a model of one node, and its inputs by name."""
    from onnx import TensorProto, helper, numpy_helper

    assert row.onnx is not None  # noqa: S101 - for type checkers: who asks has looked
    kinds = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "int32": TensorProto.INT32,
             "uint8": TensorProto.UINT8, "uint16": TensorProto.UINT16, "int64": TensorProto.INT64}  # fmt: skip
    feeds = dict(zip(("x", "second", "third"), row.inputs, strict=False))
    constants = [
        numpy_helper.from_array(c if isinstance(c, np.ndarray) else np.array(c, np.int64), f"c{i}")
        for i, c in enumerate(row.onnx["constants"])
    ]
    domain = row.onnx.get("domain", "")
    node = helper.make_node(
        row.onnx["op"], [*feeds, *(c.name for c in constants)], row.onnx.get("outputs", ["y"]), domain=domain,
        **row.onnx.get("attributes", {}),
    )  # fmt: skip
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(name, kinds[str(a.dtype)], a.shape) for name, a in feeds.items()],
        [helper.make_tensor_value_info("y", kinds[str(row.output.data_type.dtype)], None)], constants,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", row.onnx.get("opset", 14)), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), feeds


def ours_as_model(row: CpuRow, device: dml.Device) -> Contestant:
    """An ONNX model's run, which allocates its result."""
    import anydml.onnx

    proto, feeds = onnx_model(row)
    model = anydml.onnx.load(proto, device=device)
    answer = model.run(feeds)["y"]
    return lambda: model.run(feeds), lambda: answer


def called(row: CpuRow, device: dml.Device) -> Contestant:
    """The compiled operator, called as a model is run: it allocates its result."""
    compiled = device.compile(row.desc)
    answer = compiled(*row.inputs)
    return lambda: compiled(*row.inputs), lambda: answer


def onnx_session(row: CpuRow, threads: int) -> Any:
    """ONNX Runtime's session for the row; None where it has not the type or the operator."""
    import onnxruntime as ort

    proto, feeds = onnx_model(row)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        session.run(None, feeds)
    except Exception:  # noqa: BLE001 - a type or an operator that it does not have
        return None
    return session


def onnx_runtime(row: CpuRow, threads: int) -> Contestant | None:
    if row.onnx is None or not has_onnx() or (session := onnx_session(row, threads)) is None:
        return None
    import onnxruntime as ort

    _, feeds = onnx_model(row)
    first = session.run(None, feeds)[0]
    if row.is_model:
        return lambda: session.run(None, feeds), lambda: first
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    out = ort.OrtValue.ortvalue_from_shape_and_type(first.shape, first.dtype, "cpu")
    binding.bind_ortvalue_output("y", out)
    session.run_with_iobinding(binding)
    return lambda: session.run_with_iobinding(binding), out.numpy


def copy_limit(count: int, threads: int) -> Callable[[], object]:
    """memcpy of so many bytes, split over the threads."""
    source, target = np.ones(count, np.uint8), np.empty(count, np.uint8)
    target[:] = 0
    parts = max(threads, min(count // 2**22, 4 * threads))
    # The words of a walk over one row in so many segments, which the kernel gives to memcpy.
    words = (source.ctypes.data, target.ctypes.data, count, 1, 1, parts, -(-count // parts), 0)
    dispatch = make_dispatch(get_copy("copy run 1"), words, parts, 2 * count)

    def copy(_keep: Any = (source, target)) -> None:
        dispatch()

    return copy


SUMS = 24
"""Vectors that are added to at once, more than an instruction takes cycles."""


def peak_limit(flops: int, threads: int) -> Callable[[], object]:
    """As many additions and multiplications in registers alone, split over the threads."""
    lanes = tile_for("f32", 64).lanes
    parts = 4 * threads
    rounds = max(-(-flops // (2 * lanes * SUMS * parts)), 1)
    kernel = get_kernel(f"peak {lanes} {SUMS}", partial(_write_peak, lanes))
    return make_dispatch(kernel, (rounds,), parts, flops if threads > 1 else 0)


def _write_peak(lanes: int) -> str:
    """`rounds` steps of a sum in each of some registers, for each unit."""
    kind, name = f"<{lanes} x float>", f"@llvm.fma.v{lanes}f32"
    loop = [f"%s{i} = phi {kind} [ zeroinitializer, %entry ], [ %t{i}, %loop ]" for i in range(SUMS)]
    steps = [f"%t{i} = call {kind} {name}({kind} %x, {kind} %x, {kind} %s{i})" for i in range(SUMS)]
    sums = [f"%a{i} = fadd {kind} %{'t0' if i == 1 else f'a{i - 1}'}, %t{i}" for i in range(1, SUMS)]
    return "\n".join([
        "define i64 @kernel(i64 %words, i64 %begin, i64 %end) {", "entry:",
        f"%at = add i64 %words, {8 * HEADER}", "%place = inttoptr i64 %at to ptr", "%rounds = load i64, ptr %place",
        "%units = sub i64 %end, %begin", "%count = mul i64 %rounds, %units",
        "%f = sitofp i64 %end to float", f"%one = insertelement {kind} poison, float %f, i32 0",
        f"%x = shufflevector {kind} %one, {kind} poison, <{lanes} x i32> zeroinitializer",
        "br label %loop", "loop:", "%i = phi i64 [ 0, %entry ], [ %i1, %loop ]", *loop, *steps,
        "%i1 = add i64 %i, 1", "%is.on = icmp slt i64 %i1, %count", "br i1 %is.on, label %loop, label %out", "out:",
        *sums, f"%last = extractelement {kind} %a{SUMS - 1}, i32 0",
        "%bits = bitcast float %last to i32", 'call void asm sideeffect "", "r"(i32 %bits)',
        "ret i64 0", "}", f"declare {kind} {name}({kind}, {kind}, {kind})",
    ])  # fmt: skip

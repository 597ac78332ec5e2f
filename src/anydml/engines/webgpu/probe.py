"""What a device makes of arithmetic, found by kernels that are compared with NumPy, once for each driver.

WGSL leaves open whether `fma` rounds once, how far off a quotient and a square root are, and what becomes of denormals.
Kernels are written for what is found. The rest must be right: a driver that gets it wrong is refused.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from anydml.core.enums import DataType
from anydml.core.errors import Fault, MissingDependencyError
from anydml.engines.common.cache import Entry, source_digests
from anydml.engines.webgpu.codegen.wgsl import Body
from anydml.engines.webgpu.launch import LANES
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.engines.webgpu.memory import Memory

F32, U32 = DataType.FLOAT32, DataType.UINT32
COUNT = 4096
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


class Arithmetic(NamedTuple):
    """What kernels are written for."""

    fuses: bool
    """Whether `fma` rounds once."""
    divides: bool
    """Whether a quotient is the nearest."""
    roots: bool
    """Whether a square root is."""
    has_denormals: bool
    """Whether FLOAT32 has them; where not they are 0, which WGSL allows."""


def probe(memory: Memory) -> Arithmetic:
    """The arithmetic of a device, kept on disk beside the kernels of other engines."""
    info = memory.gpu.info
    entry = Entry("webgpu arithmetic", source_digests().kernels, f"{info.name} {info.backend} {info.driver}")
    if (known := entry.read()) is not None:
        return Arithmetic(*json.loads(known))
    found = _probed(memory)
    entry.write(json.dumps(found).encode())
    return found


def _probed(memory: Memory) -> Arithmetic:
    a, b, c, small = _numbers()
    given = {"a": a, "b": b, "c": c, "d": small}
    texts = {"fma": "fma(a, b, c)", "quotient": "a / b", "root": "sqrt(abs(a))", "denormal": "d * 0.5"}
    found = _run(memory, Body(fuses="split", exact=True), given, texts)
    with np.errstate(all="ignore"):
        quotient, root = a / b, np.sqrt(np.abs(a))
        exact = (a.astype(np.float64) * b + c.astype(np.float64)).astype(np.float32)
        traits = Arithmetic(
            _same(found["fma"], exact),
            _same(found["quotient"], quotient),
            _same(found["root"], root),
            _same(found["denormal"], small * np.float32(0.5)),
        )
        whole = (a * np.float32(1000)).astype(np.int32)
        wanted = {
            "sums of products": a * b + c,
            "differences of sums": (a + b) - a,
            "products of zero": np.full(COUNT, np.nan, np.float32),
            "fused products": exact,
            "quotients": quotient,
            "square roots": root,
            "roundings": np.rint(a * 8) + np.floor(b * 8) + np.ceil(c * 8) + np.trunc(a * 8),
            "conversions to integers": whole.astype(np.float32),
            "conversions of integers": a.view(np.int32).astype(np.float32),
            "tests of NaN": np.full(COUNT, 1, np.float32),
        }
    texts = {
        "sums of products": "keep(a * b) + c",
        "differences of sums": "keep(a + b) - a",
        "products of zero": "bitcast<f32>(0x7f800000u ^ N.zero) * bitcast<f32>(N.zero)",
        "fused products": "fused(a, b, c)",
        "quotients": "divide(a, b)",
        "square roots": "root(abs(a))",
        "roundings": "((round(a * 8.0) + floor(b * 8.0)) + ceil(c * 8.0)) + trunc(a * 8.0)",
        "conversions to integers": "f32(to_i32(a * 1000.0))",
        "conversions of integers": "f32(bitcast<i32>(a))",
        "tests of NaN": "select(0.0, 1.0, is_nan(bitcast<f32>(0x7fc00000u ^ N.zero)) && !is_nan(a))",
    }
    body = Body(fuses="fma" if traits.fuses else "split", exact=traits.divides and traits.roots)
    found = _run(memory, body, given, texts)
    wrong = [name for name, numbers in wanted.items() if not _same(found[name], numbers)]
    if wrong:
        rule = f"the driver of {memory.gpu.info} computes wrongly: {', '.join(wrong)}"
        way_out = 'use Device("cpu"), or another driver'
        raise MissingDependencyError("Device", Fault(field="name", rule=rule, value=memory.name, way_out=way_out))
    return traits


def _numbers() -> tuple[Floats, Floats, Floats, Floats]:
    """Numbers of which sums cancel, and denormals: the same ones at every run."""
    random = np.random.default_rng(1)
    a, b = (random.normal(size=COUNT).astype(np.float32) for _ in range(2))
    ulps = random.integers(-2, 3, COUNT).astype(np.float32) * np.float32(2**-23)
    c = np.where(np.arange(COUNT) % 2, -(a * b) * (1 + ulps), random.normal(size=COUNT)).astype(np.float32)
    return a, b, c, random.integers(2, 1 << 23, COUNT, np.uint32).view(np.float32)


def _same(found: Floats, wanted: Floats) -> bool:
    is_nan = np.isnan(found) & np.isnan(wanted)
    return bool(np.all((found.view(np.uint32) == wanted.astype(np.float32).view(np.uint32)) | is_nan))


def _run(memory: Memory, body: Body, given: Mapping[str, Floats], texts: Mapping[str, str]) -> dict[str, Floats]:
    """Texts over numbers, by name."""
    result = View("results", F32, (len(texts) * COUNT,), (1,))
    body.say(f"let i = unit * {LANES}u + lane;", f"if (i >= {COUNT}u) {{ return; }}")
    for name in given:
        body.say(f"let {name} = {body.load(View(name, F32, (COUNT,), (1,)), 'i', F32)};")
    for k, text in enumerate(texts.values()):
        body.store(result, f"{k * COUNT}u + i", f"({text})", F32)
    kernel = body.kernel(-(-COUNT // LANES))
    buffers = {name: memory.reserve(4 * COUNT) for name in given}
    for name, numbers in given.items():
        memory.write(buffers[name].address, np.ascontiguousarray(numbers).view(np.uint8))
    buffers["results"] = memory.reserve(4 * COUNT * len(texts))
    kernel.dispatch(memory, {name: buffer.address for name, buffer in buffers.items()})()
    found = memory.read(buffers["results"].address, 4 * COUNT * len(texts)).view(np.float32)
    return dict(zip(texts, found.reshape(len(texts), COUNT), strict=True))

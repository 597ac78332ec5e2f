"""The CPU of this machine: its name, its features, and LLVM's compiler for it.

LLVM itself is loaded in 0.07 s, where something has to be compiled or the CPU was not seen before.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import platform
import sys
from pathlib import Path
from typing import Any

import llvmlite

from anydml.engines.common.cache import Entry

IS_ARM = platform.machine().lower() in ("aarch64", "arm64")


@functools.cache
def load_llvm() -> Any:
    """LLVM, which takes 70 ms to load."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@functools.cache
def find_cpu() -> tuple[str, str]:
    """The CPU's name and the features that this process may use."""
    name, features = _known_cpu()
    if "+amx-int8" in features and not _lends_matrices():
        features = ",".join(one for one in features.split(",") if not one.startswith("+amx"))
    return name, features


_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18
"""Linux's number of the call by which a process asks for registers, the request, and matrix registers."""


def _lends_matrices() -> bool:
    """Whether Linux lends matrix registers to this process; whoever used them without having asked would be ended."""
    return sys.platform == "linux" and not ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST, _TILE_DATA)


def _known_cpu() -> tuple[str, str]:
    """The CPU's name and features, as LLVM says, or said when a process last asked it on this very CPU."""
    stamp = _stamp()
    entry = Entry("cpu", stamp, "") if stamp else None
    if entry is not None and (known := entry.read()) is not None:
        name, _, features = known.decode().partition("\n")
        return name, features
    llvm = load_llvm()
    name, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    features = f"{features},+dotprod" if IS_ARM and _has_dots() else features
    if entry is not None:
        entry.write(f"{name}\n{features}".encode())
    return name, features


_CHANGES = ("processor", "cpu MHz", "core id", "apicid", "initial apicid", "siblings", "physical id", "cpu cores")
"""Lines of Linux on a processor that differ for another of the same kind."""


def _stamp() -> str:
    """A digest of what Linux says of the first processor, and of all that asks LLVM about it; "" elsewhere."""
    try:
        with open("/proc/cpuinfo", "rb") as file:  # noqa: PTH123 - the first lines of thousands
            lines = file.read(8192).decode(errors="replace").partition("\n\n")[0].splitlines()
        own = Path(__file__).read_text(encoding="utf-8")
    except OSError:
        return ""
    lasting = [line for line in lines if not line.startswith(_CHANGES)]
    return hashlib.sha256("\n".join([own, llvmlite.__version__, *lasting]).encode()).hexdigest()[:16]


def _has_dots() -> bool:
    """Whether an Arm has dot products of bytes, which LLVM does not say: Linux does, and every Mac has them."""
    try:
        return "asimddp" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return sys.platform == "darwin"


def make_machine() -> Any:
    """LLVM's compiler for this CPU."""
    cpu, features = find_cpu()
    target = load_llvm().Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features, opt=3, jit=True)


def has_feature(name: str) -> bool:
    """Whether the CPU has some instructions, by LLVM's name for them."""
    return f"+{name}" in find_cpu()[1].split(",")


def has_float16() -> bool:
    """Whether the CPU converts float16 by itself; where it does not, code for it would call what is not there."""
    return IS_ARM or has_feature("f16c")


def has_fma() -> bool:
    """Whether the CPU multiplies and adds with one rounding."""
    return IS_ARM or has_feature("fma")


def has_rounding() -> bool:
    """Whether the CPU rounds floats to whole numbers."""
    return IS_ARM or has_feature("sse4.1")


def multiplies_by_lane() -> bool:
    """Whether arithmetic takes a factor from a lane of a vector, as an Arm's; an x86 spreads it as it is read."""
    return IS_ARM


def has_nan_maximum() -> bool:
    """Whether one instruction gives the larger of two, NaN where either is, and 0 rather than -0."""
    return IS_ARM


def has_signed_dots() -> bool:
    """Whether dot instructions take two signed bytes, as SDOT does: `vpdpbusd` takes an unsigned and a signed one."""
    return IS_ARM


def has_dots(lanes: int) -> bool:
    """Whether the CPU adds up products of bytes by fours, in vectors of so many sums."""
    if IS_ARM:
        return has_feature("dotprod")
    if lanes == 16:
        return has_feature("avx512vnni")
    return has_feature("avxvnni") or (has_feature("avx512vnni") and has_feature("avx512vl"))


def multiplies_bytes(lanes: int) -> bool:
    """Whether bytes are multiplied by fours, in vectors of so many sums: by dot instructions, or by an x86's pairs."""
    return has_dots(lanes) or (not IS_ARM and (lanes < 16 or has_feature("avx512bw")))


def has_matrices() -> bool:
    """Whether the CPU has registers of matrices of bytes."""
    return not IS_ARM and has_feature("amx-int8") and has_feature("avx512vnni")


def rounds_to_float16() -> bool:
    """Whether the CPU rounds float64 to float16 in one step."""
    return IS_ARM or has_feature("avx512fp16")


def has_lanes() -> bool:
    """Whether the CPU reads and writes some lanes of a vector, of any type, as fast as all of them."""
    return has_feature("avx512bw")

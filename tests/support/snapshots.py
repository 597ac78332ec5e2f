"""Snapshots of planning and code generation: what a commit that claims to change nothing is held to.

Planning is a pure function of a verb and a target, and a kernel's text one of its parameters. For each target (a CPU or
GPU that need not be there) the verbs of the case table, of longer rows and of the benchmark networks are planned; kept
in `tests/snapshots/` are, for each verb, the route that takes it and digests of the kernels' machine code and of the
argument records that they are given. `recipes` keeps digests of the networks' optimised recipes.

    python tests/support/snapshots.py                # compare every target with what is kept
    python tests/support/snapshots.py avx2 sm_90     # these targets
    python tests/support/snapshots.py --write        # keep what is found, after a change that is meant

Text that is as it was has the same machine code; only other text is compiled, which takes most of the time.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import inspect
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

from paths import PATHS, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEPT = ROOT / "tests" / "snapshots"
_AVX2 = "sse4.1 ssse3 avx avx2 fma f16c"
_AVX512 = f"{_AVX2} avx512f avx512bw avx512dq avx512vl avx512cd"
_VNNI = f"{_AVX512} avx512vnni"
CPUS = {
    "avx2": ("x86_64-unknown-linux-gnu", "haswell", _AVX2),
    "avx512": ("x86_64-unknown-linux-gnu", "skylake-avx512", _AVX512),
    "vnni": ("x86_64-unknown-linux-gnu", "icelake-server", _VNNI),
    "amx": ("x86_64-unknown-linux-gnu", "sapphirerapids", f"{_VNNI} avx512fp16 avxvnni amx-tile amx-int8"),
    "neoverse": ("aarch64-unknown-linux-gnu", "neoverse-n1", "neon fullfp16 dotprod"),
}
"""Triple, CPU and features of each CPU target."""
GPUS = {"sm_80": (80, 108), "sm_90": (90, 132)}
"""Compute capability and multiprocessors of each GPU target."""
TARGETS = (*CPUS, *GPUS, "recipes")
QUICK = "ANYDML_TEST_SNAPSHOTS_QUICK"
"""The variable of the environment that leaves the networks out, and so half of the time."""
DUMP = "ANYDML_TEST_SNAPSHOTS_DUMP"
"""The variable of the environment that names a folder to write all records to, to see what differs."""
THREADS = 4
LARGEST = 2**26
"""Elements of a verb's result in the corpus."""
_PROCESS = range(2**46, 2**47)
"""Where a process of Linux has its memory: no tensor is bound to an address as high, and bits of floats are higher."""


def digest(*parts: str | bytes) -> str:
    """Sixteen hexadecimal digits."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(f"{len(data)} ".encode() + data)
    return found.hexdigest()[:16]


class Kernels:
    """The kernels of a target: digests of text, and of the machine code that it becomes."""

    def __init__(self, known: dict[str, str], compile_text: Callable[[Any], str | bytes]) -> None:
        self.known, self._compile, self.used = known, compile_text, dict[str, str]()

    def add(self, text: str, source: Any) -> str:
        """The digest of a kernel's machine code; `source` is compiled where the text was not seen before."""
        key = digest(text)
        if key not in self.used:
            self.used[key] = self.known.get(key) or digest(self._compile(source))
        return self.used[key]


def corpus(engine: str, begin: Callable[[], object] = lambda: None) -> Iterator[tuple[str, str, Any, Any]]:
    """A name, the route, the work and the program for each verb that an engine is asked to plan.

    `begin` is called before each is: to find them, all are planned once.
    """
    from anydml.engines import find_engine
    from strides import works

    found = find_engine(engine)
    asked = [(f"{one.case} / {one.route}", one.route, one.work) for one in works(engine, LARGEST)]
    if not os.environ.get(QUICK):
        asked += [(f"{name} / {route}", route, work) for name, route, work in networks(engine)]
    numbers: dict[str, int] = {}
    for name, route, work in asked:
        numbers[name] = numbers.get(name, 0) + 1
        is_one = len(work.primitives) == 1
        begin()
        program = found.compile(work.primitives[0], work.constants) if is_one else found.join(*work)
        yield f"{name} {numbers[name]}", route, work, program


def networks(engine: str) -> Iterator[tuple[str, str, Any]]:
    """The verbs of the benchmark networks, each once."""
    from strides import recording

    seen = set()
    for name, model, feeds in models():
        found: list[tuple[str, Any]] = []
        with recording(engine, found):
            planned(engine, model, feeds)
        for route, work in found:
            if work not in seen:
                seen.add(work)
                yield name, route, work


def models() -> Iterator[tuple[str, bytes, dict[str, Any]]]:
    """The benchmark networks at the sizes of the tests."""
    import torch

    from benchmarks.networks import NETWORKS

    for name, make in NETWORKS.items():
        torch.manual_seed(0)
        network = make(small=True)
        yield name, network.onnx(), network.feeds_of(2, 9)


def planned(engine: str, model: bytes, feeds: dict[str, Any]) -> Any:
    """The compiled graph of a model, for the shapes of these inputs; None where it is planned as it runs, in parts."""
    import anydml.onnx
    from anydml.onnx.program import Program

    loaded = anydml.onnx.load(model, device=anydml.Device(engine))
    program = loaded._program({name: array.shape for name, array in feeds.items()}, feeds)
    return program.compiled if isinstance(program, Program) else None


@contextlib.contextmanager
def nothing_runs() -> Iterator[None]:
    """Programs over constants are compiled, and not run."""
    from anydml.runtime.constants import Constants

    def begin(self: Any, engine: Any, _subject: str, _data: Any, once: Any, _read: Any) -> None:
        self._memory, self.places = [], {}
        for job in once.jobs:
            job.program(engine)

    with mock.patch.object(Constants, "__init__", begin):
        yield


# CPUs


@contextlib.contextmanager
def on_cpu(target: str, kernels: Kernels, names: dict[int, str]) -> Iterator[None]:
    """Plan for another CPU: kernels are written and never run, and have addresses by the digest of their code."""
    from anydml.engines.common.threads import set_num_threads
    from anydml.engines.cpu import build, features
    from anydml.engines.cpu.kernel import Kernel
    from anydml.engines.cpu.threads import scratch, team

    _, cpu, has = CPUS[target]
    written = ",".join(f"+{name}" for name in has.split())

    def make(self: Any) -> Any:
        text, is_python = build.text_of(self._write)
        code = kernels.add(text, (text, is_python))
        address = 2**36 + 16 * int(code[:6], 16)
        names[address] = code
        return build._kernels.setdefault(self.name, Kernel(self.name, lambda _symbol: address, build.find_kernel))

    set_num_threads(THREADS)
    with (
        mock.patch.object(features, "find_cpu", return_value=(cpu, written)),
        mock.patch.object(build, "_find_cached", return_value=None),
        mock.patch.object(build._Making, "run", make),
        mock.patch.object(scratch, "count_cores", return_value=THREADS),
        mock.patch.object(team, "is_available", return_value=True),
        mock.patch.object(team, "get_team", return_value=SimpleNamespace(entry=8)),
    ):
        yield


def object_of(target: str, text: str, is_python: bool) -> bytes:
    """The machine code of a kernel for a CPU that need not be this one."""
    import llvmlite.binding as llvm

    from anydml.engines.cpu import build

    triple, cpu, has = CPUS[target]
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    features = ",".join(f"+{name}" for name in has.split())
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=3, jit=True)
    module = build._optimise(text, machine) if is_python else llvm.parse_assembly(text)
    module.verify()
    code: bytes = machine.emit_object(module)
    return code


def cpu_snapshot(target: str, known: dict[str, str]) -> dict[str, Any]:
    """The routes, machine code and records of the corpus on a CPU."""
    from anydml.engines.cpu.bounds import bound_records, tensors_of

    kernels = Kernels(known, lambda source: object_of(target, *source))
    names: dict[int, str] = {}

    def word(value: int) -> str:
        return names.get(value) or ("memory" if value in _PROCESS else str(value))

    with on_cpu(target, kernels, names), nothing_runs():
        found: dict[str, list[str]] = {}
        told: dict[str, list[str]] = {}
        for name, route, work, program in corpus("cpu"):
            tensors = dict(enumerate(tensors_of(program, work.primitives).items()))
            records, _ = bound_records(program, dict(tensors.values()))
            called = [names.get(words[3], "none") for words in records]
            texts = [" ".join(map(word, (words[0], *words[3:]))) for words in records]
            found[name] = [route, digest(*called), digest(*texts)]
            told[name] = texts
    if folder := os.environ.get(DUMP):
        (Path(folder) / f"{target}.json").write_text(json.dumps(told, indent=0))
    return {"kernels": kernels.used, "works": found}


# GPUs


def gpu_snapshot(target: str, known: dict[str, str]) -> dict[str, Any]:
    """The routes and the PTX of the corpus on a GPU."""
    from triton.backends.compiler import GPUTarget

    from anydml.engines import cuda
    from anydml.engines.cuda import device as figures
    from anydml.engines.cuda import launch

    capability, multiprocessors = GPUS[target]
    of = figures.Figures(0, GPUTarget("cuda", capability, 32), multiprocessors, 8 * 1024)
    kernels = Kernels(known, ptx)
    made: list[str] = []
    begin = launch.Kernel.__init__

    def watch(self: Any, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        fields = (
            self.pointers,
            self.numbers,
            dict(self.constants),
            self.warps,
            self.registers,
            self.fuses,
            self.stages,
        )
        made.append(kernels.add(f"{source_of(self.function)} {named(fields)} {is_small(self)}", self))
        made.append(digest(repr((self.numbers, self.programs))))

    with (
        mock.patch.object(figures, "figures_of", return_value=of),
        mock.patch.object(cuda, "device_count", return_value=1),
        mock.patch.object(launch.Kernel, "__init__", watch),
        mock.patch.object(launch.Kernel, "prepare", return_value=None),
        nothing_runs(),
    ):
        found: dict[str, list[str]] = {}
        for name, route, _work, _program in corpus("cuda", made.clear):
            found[name] = [route, digest(*made)]
    return {"kernels": kernels.used, "works": found}


def source_of(function: Any) -> str:
    """The source of a Triton function and of all that it calls, wherever that lies, with the constants it reads."""
    from triton.language import constexpr

    found: dict[str, str] = {}
    pending = [function]
    while pending:
        one = pending.pop()
        if (text := one.src) in found:
            continue
        found[text] = text
        names = {name: one.fn.__globals__.get(name) for name in one.fn.__code__.co_names}
        parts = [(name, names.get(name), part) for name, part in re.findall(r"\b(\w+)\.(\w+)", text)]
        values = [*names.items(), *((part, getattr(of, part, None)) for _, of, part in parts if inspect.ismodule(of))]
        pending += [value for _, value in values if hasattr(value, "src")]
        constants = [(name, value) for name, value in values if isinstance(value, (int, float, str, constexpr))]
        found[text] += named(sorted(constants))
    return "\n".join(sorted(found.values()))


def is_small(kernel: Any) -> bool:
    """Whether a kernel is compiled to start while the one before still runs."""
    from anydml.engines.cuda.launch import MOST_OVERLAPPING

    return bool(kernel.programs <= MOST_OVERLAPPING * kernel.figures.multiprocessors)


def named(value: object) -> str:
    """A value without the addresses that `repr` shows of functions."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def ptx(kernel: Any) -> str:
    """A kernel's assembly without the names of its source."""
    text: str = kernel._compiled((True,) * len(kernel.pointers)).asm["ptx"]
    name = re.search(r"\.entry (\w+)", text)
    assert name
    return re.sub(r"^\s*(\.loc|\.file|//).*\n", "", text.replace(name[1], "kernel"), flags=re.MULTILINE)


# Recipes


def recipe_snapshot() -> dict[str, Any]:
    """The optimised recipes of the benchmark networks on the CPU."""
    found = {}
    for name, model, feeds in models():
        if (graph := planned("cpu", model, feeds)) is not None:
            found[name] = [digest(named(graph.recipe))]
    return {"kernels": {}, "works": found}


def snapshot(target: str, known: dict[str, str]) -> dict[str, Any]:
    """What planning makes for a target, in a process of its own."""
    if target in CPUS:
        return cpu_snapshot(target, known)
    return recipe_snapshot() if target == "recipes" else gpu_snapshot(target, known)


def kept(target: str) -> dict[str, Any]:
    """What was kept of a target."""
    path = KEPT / f"{target}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"kernels": {}, "works": {}}
    return found


def taken(target: str, *, is_quick: bool = False) -> dict[str, Any]:
    """A snapshot of now, by a process that may believe itself to be on another machine."""
    around = {"ANYDML_KEEP_PLANS": "0", "ANYDML_CHECK_BOUNDS": "0", "TRITON_DISABLE_LINE_INFO": "1"}
    around["PYTHONHASHSEED"] = "0"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        path = os.pathsep.join((str(ROOT / "src"), *PATHS))
        environment = {**os.environ, **around, "PYTHONPATH": path}
        environment.pop("TRITON_INTERPRET", None)
        if is_quick:
            environment[QUICK] = "1"
        command = [sys.executable, __file__, "--into", str(file), target]
        subprocess.run(command, check=True, env=environment)  # noqa: S603 - ours
        found: dict[str, Any] = json.loads(file.read_text())
    return found


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What is not as it was, by the names of works."""
    found = []
    for name in sorted(before["works"].keys() | now["works"].keys()):
        old, new = before["works"].get(name), now["works"].get(name)
        if old != new:
            what = zip(("route", "machine code", "records"), old or [], new or [], strict=False)
            found.append(f"{name}: {', '.join(f'{k} {a} -> {b}' for k, a, b in what if a != b) or 'added or removed'}")
    return found


def main() -> int:
    """Compare targets, or write them; the number of targets that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; all where none is named")
    parser.add_argument("--write", action="store_true", help="keep what is found")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := [one for one in options.targets if one not in TARGETS]:
        parser.error(f"there is no target {', '.join(unknown)}: there are {', '.join(TARGETS)}")
    if options.into:
        (target,) = options.targets
        # Before anything asks, whatever this machine is.
        platform.machine = functools.partial(str, "aarch64" if target == "neoverse" else "x86_64")
        options.into.write_text(json.dumps(snapshot(target, kept(target)["kernels"])))
        return 0
    different = 0
    for target in options.targets or TARGETS:
        now = taken(target)
        found = differences(kept(target), now)
        different += bool(found)
        count = f"{target}: {len(now['works'])} works, {len(now['kernels'])} kernels, {len(found)} differ"
        sys.stdout.write("\n  ".join([count, *found[:20]]) + "\n")
        if options.write:
            KEPT.mkdir(exist_ok=True)
            lines = json.dumps(now, indent=0, sort_keys=True)
            (KEPT / f"{target}.json").write_text(lines + "\n")
    return 0 if options.write else different


if __name__ == "__main__":
    sys.exit(main())

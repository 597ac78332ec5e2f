"""From a kernel's name to its address: compiled once a machine, then loaded from a cache.

Text of LLVM takes 0.015 s for a simple map, a kernel in Python 0.1 s, and either 0.0002 s to be loaded when it is
compiled.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import re
import shutil
import struct
import sys
import time
from typing import TYPE_CHECKING, Any

import llvmlite

from anydml.core.guards import unnoted
from anydml.core.late_imports import import_alone, run_alone, without_collection
from anydml.core.memory import keep_for_ever
from anydml.engines.common.cache import Entry, source_digests
from anydml.engines.cpu.features import find_cpu, load_llvm, make_machine
from anydml.engines.cpu.kernel import Kernel
from anydml.engines.cpu.objects import load_object

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_SYMBOL = struct.Struct("<IBBHQQ")
"""A symbol of an object file: where its name is, two bytes, the part that it lies in, its value and its size."""
SLOW = 0.5
"""Seconds after which a compilation says, on a terminal, what takes so long."""
_log = logging.getLogger("anydml")
_kernels: dict[str, Kernel] = {}
"""One a name, for ever: programs keep addresses in it."""

_DISPATCHED = "define i64 @kernel(i64 %words, i64 %begin, i64 %end)"
"""The head of a kernel that is given a record: Python may call it, by an entry."""
# What Python calls: the words lie in a bytes object, `self`; None is returned, or False for a status other than 0.
_ENTRY = """
define ptr @entry(ptr %self, ptr %unused) {{
  %words = getelementptr i8, ptr %self, i64 {offset}
  %address = ptrtoint ptr %words to i64
  %units = load i64, ptr %words
  %status = call i64 @kernel(i64 %address, i64 0, i64 %units)
  %failed = icmp ne i64 %status, 0
  %slot = select i1 %failed, i64 16, i64 8
  %place = getelementptr i8, ptr %words, i64 %slot
  %result = load ptr, ptr %place
  {count}
  ret ptr %result
}}
"""
# What an entry does before it returns None or False: before 3.12 they are counted like any object.
COUNT = """%old = load i64, ptr %result
  %new = add i64 %old, 1
  store i64 %new, ptr %result"""
if sys.version_info >= (3, 12):
    COUNT = ""


def _by_llvm(code: bytes) -> Callable[[str], int]:
    """Have LLVM load code: what gives the addresses of its symbols."""
    llvm = load_llvm()
    empty = llvm.parse_assembly("")
    engine = llvm.create_mcjit_compiler(empty, make_machine())
    engine.remove_module(empty)  # which would be compiled: 1 ms of 1.4
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    keep_for_ever(engine)
    found: Callable[[str], int] = engine.get_global_value_address
    return found


def get_kernel(name: str, write: Callable[[], Any]) -> Kernel:
    """The kernel of a name, such as `copy run 4`: from the cache, or compiled and cached.

    `write` gives its text, what writes that, or the Python function to be translated; the name says which of those that
    there are it is.
    """
    kernel = _kernels.get(name)
    if kernel is None:
        kernel = _find_cached(name)
    if kernel is None:
        making = _Making(name, write)
        try:  # alone even to load it: Ctrl-C inside of llvmlite would leave llvmlite's lock held for ever
            with unnoted():  # a kernel of a name is the same kernel for all sizes
                kernel = run_alone(making.run, every=SLOW, remind=making.show)
        finally:
            making.tell()
    return kernel


def made_by(maker: str, *given: object) -> Callable[[], Any]:
    """What writes a kernel by `module:name` in this package, imported where a kernel is compiled and no sooner."""

    def write() -> Any:
        module, _, name = maker.partition(":")
        return getattr(import_alone(f"{__package__}.{module}"), name)(*given)

    return write


def kernel_for(family: str, maker: str | Callable[..., Any], *given: Sequence[Any]) -> Kernel:
    """The kernel of a family that is made of some parameters, which name it: `pack p f32 6 8 8`; see `made_by`."""
    parts = (str(getattr(part, "name", part)) for one in given for part in one)
    write = made_by(maker, *given) if isinstance(maker, str) else functools.partial(maker, *given)
    return get_kernel(" ".join([family, *parts]), write)


def find_kernel(name: str) -> Kernel:
    """A kernel that this process has, or that the cache has; LookupError for another."""
    kernel = _kernels.get(name) or _find_cached(name)
    if kernel is None:
        raise LookupError(f"the kernel {name} is not kept")
    return kernel


def _find_cached(name: str) -> Kernel | None:
    """A kernel that the cache has, loaded without LLVM, which nothing may interrupt."""
    is_cpu_known = find_cpu.cache_info().currsize
    code = Entry(name, version(), find_cpu()[0]).read() if is_cpu_known else None
    symbols = None if code is None else load_object(code)
    return None if symbols is None else _kernels.setdefault(name, Kernel(name, _in(symbols), find_kernel))


def _in(symbols: Mapping[str, int]) -> Callable[[str], int]:
    return lambda name: symbols.get(name, 0)


class _Making:
    """A kernel that this process does not have yet."""

    def __init__(self, name: str, write: Callable[[], Any]) -> None:
        self.name, self.note, self.shown, self.is_begun, self._write = name, "", "", False, write

    def run(self) -> Kernel:
        """Load it, or compile it, unless another thread or process has done so by now."""
        if kernel := _kernels.get(self.name):
            return kernel
        entry = Entry(self.name, version(), find_cpu()[0])
        code = entry.read() or self._compile(entry)
        symbols = load_object(code)
        find = _in(symbols) if symbols else _by_llvm(code)
        return _kernels.setdefault(self.name, Kernel(self.name, find, find_kernel))

    def _compile(self, entry: Entry) -> bytes:
        with entry.claim() as folder:
            code = entry.read()
            if code is None:
                start, self.is_begun = time.perf_counter(), True
                with without_collection():
                    code = _compile(self.name, self._write)
                if folder:
                    entry.write(code)
                where = f", once; it is kept in {folder}" if folder else ""
                self.note = f"the kernel '{self.name}' for this CPU in {time.perf_counter() - start:.2f} s{where}"
        return code

    def show(self) -> None:
        """On a terminal, say what takes long, in a line that is taken back; nothing from the level ERROR on."""
        if not self.is_begun or self.shown or not _log.isEnabledFor(logging.WARNING):
            return
        with _ignoring_stderr():
            if sys.stderr.isatty():
                width = shutil.get_terminal_size().columns - 1  # a line that wraps cannot be taken back
                self.shown = f"anydml: compiling the kernel '{self.name}' for this CPU"[:width]
                sys.stderr.write(f"\r{self.shown}")
                sys.stderr.flush()

    def tell(self) -> None:
        """Log what was compiled, on the caller's thread: its handlers' locks may be the caller's already."""
        if self.shown:
            with _ignoring_stderr():
                sys.stderr.write(f"\r{' ' * len(self.shown)}\r")
                sys.stderr.flush()
        if self.note:
            _log.info("compiled %s", self.note)


def _ignoring_stderr() -> contextlib.AbstractContextManager[None]:
    """For a stderr that is not there, closed, or in use."""
    return contextlib.suppress(AttributeError, OSError, RuntimeError, ValueError)


@functools.cache
def version() -> str:
    """Everything that compiled code depends on: what writes it, the compiler, the CPU, and Python's objects."""
    around = llvmlite.__version__, find_cpu(), sys.version_info[:2], getattr(sys, "abiflags", "")
    return hashlib.sha256(repr((source_digests().kernels, *around)).encode()).hexdigest()[:16]


def text_of(write: Callable[[], Any]) -> tuple[str, bool]:
    """A kernel as LLVM IR, and whether it was Python, which is left to the optimiser."""
    made = write()
    if isinstance(made, str):
        return made, False
    if hasattr(made, "write"):
        return made.write(), False
    from anydml.engines.cpu.codegen.translate import translate

    return translate(made), True


def _compile(name: str, write: Callable[[], Any]) -> bytes:
    text, is_python = text_of(write)
    if _DISPATCHED in text:
        text += _ENTRY.format(offset=bytes.__basicsize__ - 1, count=COUNT)
    machine = make_machine()
    module = _optimise(text, machine) if is_python else load_llvm().parse_assembly(text)
    module.verify()
    code: bytes = machine.emit_object(module)
    called = _undefined(code)
    if called is None:
        called = _called(machine.emit_assembly(module))
    if foreign := called - {"memcpy", "memset", "memmove"}:
        raise RuntimeError(f"the kernel {name} needs {foreign}, which this process does not have")
    return code


def _undefined(code: bytes) -> set[str] | None:
    """The symbols that an object file of Linux does not define; None for another: its assembly takes as long again."""
    if code[:6] != b"\x7fELF\2\1":
        return None
    parts = {part.name(): part.data() for part in load_llvm().ObjectFileRef.from_data(code).sections()}
    symbols, names = parts[b".symtab"], parts[b".strtab"]
    found = {names[at : names.index(b"\0", at)] for at, _, _, place, _, _ in _SYMBOL.iter_unpack(symbols) if not place}
    return {name.decode() for name in found if name}


def _called(assembly: str) -> set[str]:
    """The functions that an assembly calls and does not have."""
    # On an x86 a call may be of an address that is loaded first.
    called = set(re.findall(r"^\s+(?:bl|b|callq?|jmp|movabsq)\s+\$?\"?([A-Za-z_][\w.]*)", assembly, re.MULTILINE))
    return called - set(re.findall(r"^\"?([A-Za-z_][\w.]*)\"?:", assembly, re.MULTILINE))


def _optimise(text: str, machine: Any) -> Any:
    """A kernel that was Python, which leaves everything to the optimiser; others are written as they should be."""
    llvm = load_llvm()
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.slp_vectorization = False  # with it rows put together of pieces take 1.4 times as long
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    return module

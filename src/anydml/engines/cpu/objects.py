"""Object files of Linux put into memory, without LLVM, which takes 80 ms and 40 MiB of a process that compiles nothing.

Kernels call nothing but memcpy and its kin, so that little is needed of what a linker does. What is not known here is
left to LLVM: another system's files, another CPU's, or a relocation that no kernel has had.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import struct
import sys
from typing import Any, NamedTuple

from anydml.core.late_imports import import_alone
from anydml.core.memory import keep_for_ever

_SECTION, _SYMBOL, _RELOCATION = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ"), struct.Struct("<QQq")
_SYMBOLS, _RELOCATIONS, _NOTHING = 2, 4, 8
"""Types of sections: a table of symbols, one of relocations, and memory that is 0."""
_WRITE, _ALLOC = 1, 2
"""Flags of sections."""
_X86, _ARM = 62, 183
_CALLED = ("memcpy", "memmove", "memset")
_PAGE = mmap.PAGESIZE


class _OddError(Exception):
    pass


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


def load_object(code: bytes) -> dict[str, int] | None:
    """The addresses of what an object file defines, by name, once it is in memory; None where LLVM has to do it."""
    if not sys.platform.startswith("linux") or code[:6] != b"\x7fELF\2\1" or _system() is None:
        return None
    try:
        return _Image(code).load()
    except (_OddError, struct.error, IndexError, OSError, ValueError):
        return None


class _System(NamedTuple):
    """The system's own functions."""

    places: dict[str, int]
    protect: Any
    flush: Any


@functools.cache
def _system() -> _System | None:
    try:
        libc = ctypes.CDLL(None)
        places = {name: ctypes.cast(getattr(libc, name), ctypes.c_void_p).value or 0 for name in _CALLED}
        # An Arm's caches of code do not see what is written; an x86's do.
        flush = ctypes.CDLL("libgcc_s.so.1")["__clear_cache"] if _machine() == _ARM else None
    except (OSError, AttributeError):
        return None
    if flush is not None:
        flush.argtypes, flush.restype = (ctypes.c_void_p, ctypes.c_void_p), None
    libc.mprotect.argtypes, libc.mprotect.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_int
    return _System(places, libc.mprotect, flush)


def _machine() -> int:
    import_alone("platform")
    import platform

    return {"x86_64": _X86, "aarch64": _ARM}.get(platform.machine(), 0)


class _Image:
    """An object file: code and constants first, then stubs of calls, and from a page of its own on what is written."""

    def __init__(self, code: bytes) -> None:
        self._code = code
        self._machine = struct.unpack_from("<H", code, 18)[0]
        if self._machine not in (_X86, _ARM) or self._machine != _machine():
            raise _OddError
        start, count = struct.unpack_from("<Q", code, 40)[0], struct.unpack_from("<H", code, 60)[0]
        self._sections = [_Section(*_SECTION.unpack_from(code, start + _SECTION.size * i)) for i in range(count)]
        names = self._sections[struct.unpack_from("<H", code, 62)[0]]
        is_frame = [self._text(names, section.name) == ".eh_frame" for section in self._sections]
        held = [
            i for i, one in enumerate(self._sections) if one.flags & _ALLOC and one.size and not is_frame[i]
        ]  # nobody unwinds a kernel
        self._offsets: dict[int, int] = {}
        end = self._lay_out([i for i in held if not self._sections[i].flags & _WRITE], 0)
        self._stubs: dict[tuple[str, int], int] = {}
        self._stubs_at = -(-end // 16) * 16
        tables = [one for one in self._sections if one.kind == _RELOCATIONS and one.info in self._offsets]
        self._split = _whole_pages(self._stubs_at + 32 * sum(one.size // _RELOCATION.size for one in tables))
        written = [i for i in held if self._sections[i].flags & _WRITE]
        self._size = _whole_pages(self._lay_out(written, self._split)) if written else self._split

    def _text(self, table: _Section, at: int) -> str:
        start = table.offset + at
        return self._code[start : self._code.index(b"\0", start)].decode()

    def _lay_out(self, numbers: list[int], end: int) -> int:
        for i in numbers:
            alignment = max(self._sections[i].alignment, 1)
            self._offsets[i] = end = -(-end // alignment) * alignment
            end += self._sections[i].size
        return end

    def load(self) -> dict[str, int]:
        """Put it in memory, and give the addresses of its symbols."""
        system = _system()
        assert system is not None  # noqa: S101 - for type checkers: it was looked at
        memory = mmap.mmap(-1, self._size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE)
        held = (ctypes.c_char * self._size).from_buffer(memory)
        self._memory, self._base = memory, ctypes.addressof(held)
        for i, at in self._offsets.items():
            section = self._sections[i]
            if section.kind != _NOTHING:
                memory[at : at + section.size] = self._code[section.offset : section.offset + section.size]
        found: dict[str, int] = {}
        tables = {i: self._symbols(i) for i, one in enumerate(self._sections) if one.kind == _SYMBOLS}
        for symbols in tables.values():
            found |= {name: self._base + at for name, part, at in symbols if part and name and at >= 0}
        for section in self._sections:
            if section.kind == _RELOCATIONS and section.info in self._offsets:
                self._relocate(section, tables[section.link], system.places)
        if self._split and system.protect(self._base, self._split, mmap.PROT_READ | mmap.PROT_EXEC):
            raise _OddError  # a system that has no code made while it runs
        if system.flush is not None:
            system.flush(self._base, self._base + self._split)
        keep_for_ever(held)
        return found

    def _symbols(self, number: int) -> list[tuple[str, int, int]]:
        """Names, whether each is defined here, and where in the image; -1 for what is not in it."""
        table, found = self._sections[number], []
        names = self._sections[table.link]
        for i in range(table.size // _SYMBOL.size):
            name, _, _, part, value, _ = _SYMBOL.unpack_from(self._code, table.offset + i * _SYMBOL.size)
            at = self._offsets[part] + value if part in self._offsets else -1
            found.append((self._text(names, name), part, at))
        return found

    def _relocate(self, table: _Section, symbols: list[tuple[str, int, int]], known: dict[str, int]) -> None:
        apply = _apply_arm if self._machine == _ARM else _apply_x86
        start = self._offsets[table.info]
        for i in range(table.size // _RELOCATION.size):
            offset, info, addend = _RELOCATION.unpack_from(self._code, table.offset + i * _RELOCATION.size)
            name, part, at = symbols[info >> 32]
            if at < 0 and (part or name not in known):
                raise _OddError
            target = self._base + at if at >= 0 else known[name]
            apply(self, info & 0xFFFFFFFF, start + offset, target + addend, is_far=at < 0)

    # What relocations write

    def put(self, kind: str, at: int, value: int) -> None:
        """A number in memory."""
        struct.pack_into(kind, self._memory, at, value)

    def get(self, at: int) -> int:
        """An instruction of an Arm."""
        found: int = struct.unpack_from("<I", self._memory, at)[0]
        return found

    def place(self, at: int) -> int:
        """The address of a place in the image."""
        return self._base + at

    def stub(self, kind: str, target: int) -> int:
        """Where code lies that jumps to an address (`jump`), or the address itself (`word`)."""
        if (kind, target) not in self._stubs:
            self._stubs[kind, target] = at = self._stubs_at + 32 * len(self._stubs)
            jump = b"\x49\xbb%b\x41\xff\xe3" if self._machine == _X86 else b"\x50\0\0\x58\0\x02\x1f\xd6%b"
            word = struct.pack("<Q", target)
            code = word if kind == "word" else jump.replace(b"%b", word)
            self._memory[at : at + len(code)] = code
        return self._stubs[kind, target]


def _whole_pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


def _fits(value: int, bits: int) -> int:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise _OddError
    return value


def _apply_x86(image: _Image, kind: int, at: int, target: int, *, is_far: bool) -> None:
    """R_X86_64_64, _PC32 and _PLT32; the addend of a call is -4, from its end."""
    if kind == 1:
        image.put("<Q", at, target & 2**64 - 1)
    elif kind in (2, 4):
        there = image.place(image.stub("jump", target + 4)) - 4 if is_far and kind == 4 else target
        image.put("<i", at, _fits(there - image.place(at), 32))
    else:
        raise _OddError


_MOVES = {263: 0, 264: 0, 265: 16, 266: 16, 267: 32, 268: 32, 269: 48}
"""R_AARCH64_MOVW_UABS_G0 to _G3: which 16 bits of an address an instruction has."""
_LOW = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4, 312: 3}
"""The low 12 bits of an address, in units of so many bits: of an addition, and of loads and stores."""


def _apply_arm(image: _Image, kind: int, at: int, target: int, *, is_far: bool) -> None:
    """Addresses in parts of 16 bits, pages and what lies in them, and calls."""
    if kind == 257:  # R_AARCH64_ABS64
        image.put("<Q", at, target & 2**64 - 1)
        return
    code = image.get(at)
    if kind in (311, 312):  # of a word that has the address
        target = image.place(image.stub("word", target))
    if kind in _MOVES:
        code |= (target >> _MOVES[kind] & 0xFFFF) << 5
    elif kind in (282, 283):  # R_AARCH64_JUMP26 and _CALL26
        there = image.place(image.stub("jump", target)) if is_far else target
        code |= _fits(there - image.place(at), 28) >> 2 & 0x3FFFFFF
    elif kind in (275, 311):  # R_AARCH64_ADR_PREL_PG_HI21 and _ADR_GOT_PAGE
        pages = _fits((target >> 12) - (image.place(at) >> 12), 21)
        code |= (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
    elif kind in _LOW:
        code |= (target & 0xFFF) >> _LOW[kind] << 10
    else:
        raise _OddError
    image.put("<I", at, code)

"""Kernels in Python: each statement and expression that they may have, against Python itself."""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from anydml.engines.cpu import build, features
from anydml.engines.cpu.codegen.language import larger, load_word, quotient, remainder, smaller, store_word
from anydml.engines.cpu.codegen.translate import translate
from anydml.engines.cpu.kernel import Kernel
from anydml.engines.cpu.launch.record import HEADER, Layout, Record, Table, Words

SCALE, IS_ODD = 8, True


def _compile(kernel: Any) -> Any:
    code = features.make_machine().emit_object(llvm.parse_assembly(translate(kernel)))
    built = Kernel("line", build._by_llvm(code), build.find_kernel)
    return ctypes.CFUNCTYPE(*[ctypes.c_int64] * 4)(built.address)


def _split(a: int, b: int) -> tuple[int, int]:
    """Two results, of which neither is known."""
    if a < 0 or b <= 0:
        return a, -b
    return quotient(a, b), remainder(a, b)


def _some_work(words: int, begin: int, end: int) -> int:
    total = twice = 0
    for i in range(begin, end):
        if i % 4 == 1 or (i > 20 and not i & 1):
            continue
        whole, rest = _split(i, 7 - i)
        total += whole * SCALE - rest if IS_ODD else 0
        twice = total if -3 <= total < 50 else twice - 1
        for k in range(i, 0, -2):
            total += smaller(k, 5) - larger(k // 4, -k)
    while True:
        total -= 3
        if total < 0 and twice != total:
            break
    is_small = total > -2 or not twice & 3
    store_word(words, 0, total)
    return load_word(words, 8) if is_small else -total % 16


def test_a_kernel_does_as_python_does(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = np.array([0, 12345])
    compiled = _compile(_some_work)
    kept = [0]
    here: dict[str, Any] = {
        "smaller": min, "larger": max, "quotient": lambda a, b: a // b, "remainder": lambda a, b: a % b,
        "load_word": lambda _, at: int(memory[at // 8]), "store_word": lambda _, at, value: kept.__setitem__(0, value),
    }  # fmt: skip
    for name, function in here.items():
        monkeypatch.setitem(globals(), name, function)
    for begin, end in ((0, 0), (0, 3), (2, 9), (5, 40), (0, 64), (-9, 4)):
        found = compiled(memory.ctypes.data, begin, end)
        assert (found, int(memory[0])) == (_some_work(memory.ctypes.data, begin, end), kept[0]), (begin, end)


RECORD = Layout("count", "rank", Table("fixed", 2, "first second", ""), "scale", Table("outer", 0, "size stride"))
REST = Layout("offset", Table("by", 0, "step", ""), header=0)


def _walked(outer: Any, number: int) -> Any:
    """A table, given to a function."""
    return outer[number].size * 1000 + outer[number].stride


def _read_fields(words: int, begin: int, end: int) -> Any:
    w = RECORD(words)
    total = w.count * w.scale + w.fixed[1].first - w.fixed[0].second
    for k in range(w.rank):
        total += _walked(w.outer, k)
    rest, (low, (high, _)) = REST(w.outer[w.rank]), (begin, (end, 0))
    return total + rest.offset * rest.by[high].step - low


def test_kernels_read_records_by_name() -> None:
    fields: dict[str, Words] = {"count": 3, "rank": 2, "fixed": [10, 20, 30], "scale": 7, "outer": [5, 6, 8, 9]}
    record = Record.of([0] * HEADER, RECORD.write(fields), REST.write({"offset": 2, "by": [40, 50, 60]}))
    memory = np.array(record.words)
    assert _compile(_read_fields)(memory.ctypes.data, 4, 2) == 21 + 30 - 20 + 5006 + 8009 + 2 * 60 - 4
    read = RECORD.read(record.words)
    assert (read.scale, [(row.size, row.stride) for row in read.outer]) == (7, [(5, 6), (8, 9)])


def test_what_kernels_do_not_have_is_refused() -> None:
    def with_list(words: int, begin: int, end: int) -> int:
        return [words, begin, end]  # type: ignore[return-value]  # wrong on purpose

    def with_division(words: int, begin: int, end: int) -> int:
        return words // end

    for kernel, part in ((with_list, r"\[words, begin, end\]"), (with_division, "words // end")):
        with pytest.raises(SyntaxError, match=rf"test_translate.py: kernels do not have '{part}'"):
            translate(kernel)

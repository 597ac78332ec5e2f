"""The dimensions outside a kernel's innermost loops: three words each, size, source stride and target stride."""

from __future__ import annotations

from anydml.engines.cpu.language import load_word, quotient, remainder, store_word


def find_row(words: int, table: int, rank: int, number: int, at: int) -> tuple[int, int]:
    """Where a row of some number lies: bytes on in the source and in the target. Its coordinates go to `at`."""
    source = target = 0
    for k in range(rank - 1, -1, -1):
        size = load_word(words, table + 24 * k)
        i = remainder(number, size)
        number = quotient(number, size)
        store_word(at, 8 * k, i)
        source += i * load_word(words, table + 24 * k + 8)
        target += i * load_word(words, table + 24 * k + 16)
    return source, target

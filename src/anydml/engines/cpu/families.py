"""CPU families: one table of what is best on each, every figure with its measurement.

`features.py` says what the CPU can; `figures()` gives what is best on its family: tile shapes, cache blocking, prefetch
distances, work for a thread. Planners and generators read them; the cache of kernels is by CPU, and so by family.

A class has the figures of one idea. Their values are those of an x86, and of any family that has measured no others: a
new family is one more `Family`, with the figures that it has its own of.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from anydml.engines.cpu.features import IS_ARM, has_feature

if TYPE_CHECKING:
    from collections.abc import Mapping


class Figures:
    """The figures of one idea: those that are given, and for all others the class's."""

    def __init__(self, **own: int) -> None:
        if unknown := own.keys() - vars(type(self)).keys():
            raise TypeError(f"{type(self).__name__} has no figures {', '.join(sorted(unknown))}")
        vars(self).update(own)


class Gemm(Figures):
    """Products of matrices: register tiles, cache blocking, packing, prefetching, work items."""

    lanes = 8
    """Lanes of 32 bits of a vector register."""
    registers = 16
    """Vector registers."""
    tile_rows = 6
    """Rows of the register tile: with `tile_vectors`, as many sums as registers hold beside what is multiplied."""
    tile_vectors = 2
    """Vectors of a row of the register tile."""
    pair_rows = 3
    """Rows of a tile of bytes where there are no dot instructions: each column takes two registers."""
    k_block = 256
    """The most steps of the folded dimension that are packed at once: a panel of rows lies in the first cache, which
    has 64 KiB on an Arm of today, and 32 or 48 on others."""
    n_block = 512
    """The most columns of a unit: rows are packed once for all of them. 768 x 768 x 768 takes 24.1 ms so, and 24.5 with
    512 (one thread of a Neoverse-N1)."""
    n_block_prepacked = 256
    """The same where columns are laid out ahead: the second cache has room for a block and for the next one, which is
    fetched meanwhile. 128 x 3072 x 768 takes 5.6 ms so, 5.9 with 512 and 6.2 where nothing is fetched (one thread, 16
    lanes)."""
    right_bytes = 512 * 1024
    """The most bytes of a unit's block of the right factor: it lies in the second cache, which has 1 MiB on a
    Neoverse."""
    result_bytes = 512 * 1024
    """The most bytes of results that a unit of other kernels has before they are finished."""
    sum_bytes = 2048 * 1024
    """The most bytes of a contraction's sums that do not lie in the target until results are computed from them: units
    of few rows pack the right factor again and again. 1024 x 1024 x 1024 with a matrix added takes 17.4 ms so, and 19.2
    with a fourth of it (one thread, 16 lanes)."""
    skinny_columns = 4288
    """The most columns of a unit of a few rows: 4096, in panels of any width up to 192. Rows that are read whole come
    at 15 GB/s on one thread, halves of them at 13 (Arm Neoverse-N1). It is also the sums that strips have at once, a
    quarter of the first cache: 4 x 4096 x 4096 takes 7.2 ms with 1024 columns at once, and 10.5 with all."""
    most_vectors = 12
    """Vectors of a row at most."""
    most_halved = 8
    """Those of a single row, each with three sums: columns are cut alike by most widths."""
    short_panel = 4
    """A last panel of less than this part of a tile's rows leaves some to it, so that all are about alike, where there
    are few panels: 128 x 128 x 128 takes 34.2 us by 13 rows and a last 11, and 34.7 by 14 and a last 2 (one thread)."""
    amx_rows = 8
    """Rows from which on bytes are multiplied by matrix registers: fewer are as quick as their columns are read."""
    amx_result_lines = 8
    """Lines of results that are fetched for a step: they are needed at the end, and seldom near."""
    amx_steps_ahead = 4
    """Steps ahead that columns are fetched."""
    packed_steps = 4
    """Steps at once of rows that lie side by side: 16 x 4096 x 4096 takes 21.6 ms so, and 26.9 step by step."""
    packed_span = 128
    """Steps at once of rows whose steps lie side by side: what is written of a panel stays in the first cache until its
    lines are full. 256 steps of 256 rows 3 KiB apart take 16.5 us so, and 26.7 row by row (one thread, 16 lanes)."""
    fetched_rows_sums = 16
    """Sums of a tile from which on rows are fetched as well, where an x86 reads them: they lie in the second cache, for
    the columns of a tile take the first. 256 x 256 x 256 takes 270 us so, and 284 without (one thread, 16 lanes)."""
    prefetch_bytes = 1024
    """Bytes ahead that packed columns are fetched, a line for each step: a hundredth of the time (Arm Neoverse-N1)."""
    prefetch_lines = 2
    """Lines of columns that are fetched for a step at most: others come by themselves, a stream of the CPU's."""
    prefetch_columns = 32
    """Columns for each row of the next panel that is fetched: as many as a tile's, where rows are."""
    items_per_thread = 4
    """Units for each thread, so that one that is held up leaves its share to the others."""
    skinny_items_per_thread = 2
    """Units for each thread of a product of a few rows, since longer rows are read at higher speed, or of little
    work."""
    item_products = 2**21
    """Products of a unit for which threads have more than a few: 256 x 256 x 256 takes eight threads 65 us in 16 units,
    and 82 in 32; 512 x 512 x 512 takes sixteen 310 us in 32, and 280 in 64 (a Xeon of 2023)."""
    least_item_products = 2**19
    """Products of a unit at the least: 128 x 128 x 128 takes sixteen threads 12 us so, and 24 in 32 units; 256 x 256 x
    256 35, and 42."""
    flops_per_byte = 4
    """Operations in the time that a byte is moved in."""
    products_per_packed = 20
    """Products in the time that an element is packed in: 384 x 384 x 384 takes sixteen threads 131 us so, and 196 where
    8 are thought of."""
    sums_at_once = 6
    """Sums that a few rows have at least, one panel of columns beside the other: each waits four cycles for the one
    before, and there are two units. 1 x 1024 x 256 takes 32.9 us so, and 34.0 panel by panel; 1 x 4096 x 4096 takes 3.9
    ms either way, and 4.1 from three panels at once, which memory has as many streams for (one thread of a
    Neoverse-N1)."""
    float16_rows = 4
    """Rows up to which tiles read FLOAT16 panels; for more those are converted first. An Arm Neoverse-N1 takes 2.5
    cycles to convert four: 4 x 4096 x 4096 takes 6.7 ms so, and 9.0 converted first."""
    first_cache = 8192
    """Elements of a right factor without gaps that the first cache has, packed or not. Others are packed even for two
    panels of rows: 16 x 256 x 256 takes 76 us so, and 192 from columns that lie 1 KiB apart. Rows that lie far apart
    share the cache's places: a head of 128 x 64 among 12 takes 0.96 ms as it lies, and 0.76 packed (one thread of an
    N1)."""
    alike = 2048
    """Bytes from row to row, or a multiple, for which the first cache has few places for all of them, so that they are
    packed. Others are read as they lie: 256 x 256 x 256 takes 244 us so, and 252 packed (one thread, 16 lanes)."""
    far = 2**20
    """Elements of a right factor from which on the block that is packed next is fetched meanwhile: 1024 x 1024 x 1024
    takes 18.2 ms so, and 19.0 without; smaller ones are nearer (one thread, 16 lanes)."""
    steps_ahead = 4
    """Steps whose columns are fetched ahead, where they are read as they lie in the second cache."""
    crowded_panels = 4
    """Panels of rows from which on a right factor may fill three quarters of the first cache at most: the rows and
    results need the rest. 128 x 128 x 128 takes 123 us as it lies, and 116 packed (one thread of an N1)."""


class SmallM(Figures):
    """Products of few rows: the right factor is read once, as it lies."""

    dot_rows = 4
    """Rows for which dot products of a small factor take less time than tiles, which have it packed: 12 of 1 x 129 x 64
    take 0.029 ms in place of 0.036, with a factor that is scaled 0.036 in place of 0.135 (one thread of a
    Neoverse-N1)."""
    least_dots = 512
    """Elements of a small factor from which on that is so."""
    least = 16 * 1024
    """Elements of a factor from which on it is read once."""
    nearby = 160 * 1024
    """Elements of a factor that an x86's second cache has: tiles of few rows read it where it lies, with the columns of
    a few steps to come fetched. 5 x 256 x 256 takes 5.3 us so, and 11 by strips; 12 x 384 x 384 31 us, and 55 packed
    (one thread, 16 lanes)."""
    nearby_panels = 2
    """And the most panels of rows that do."""
    rows = 8
    """Rows up to which columns are not packed: they are read once."""
    steps = 4
    """Steps that a strip takes at once, while an Arm's has the next ones fetched into the second cache. A first cache
    of four ways has no room for more rows that lie 16 KiB apart: 8 x 4096 x 4096 takes 11.5 ms so, and 15.5 with 8."""
    streams = 8
    """The steps of an x86's strip of one row, or of two where there are registers for all their factors: as many
    streams as memory is read by soonest. 2 x 4096 x 4096 takes 5.4 ms so, and 5.8 by four steps of halves of rows."""
    prefetch_elements = 256
    """Elements ahead that an x86 has fetched: past the end of some rows, those where the next ones begin. 1 x 4096 x
    4096 takes 5.2 ms so, as long as a loop that reads alone, and 5.4 where what lies past the end is fetched; by halves
    of rows 5.4 and 6.2, and 8 x 4096 x 4096 7.0, where the second cache has the next rows fetched 7.9 (one thread, 16
    lanes)."""
    short = 128
    """The most steps that are few."""
    arm_prefetch: Mapping[int, int] = {512: 3}
    """Bytes ahead that are fetched for one row, and the cache as LLVM counts, 3 for the first. An Arm's strip of one
    row takes a step at once: memory is then read from one end to the other. 1 x 4096 x 4096 takes 3.6 ms so, 18.5 GB/s
    where a loop that reads alone has 19.9, and 4.7 by four steps (one thread of a Neoverse-N1). Units of some columns
    do not, and take four: 2.9 ms, and 3.7 by one (two threads)."""
    arm_prefetch_dots: Mapping[int, int] = {512: 3, 2048: 2}
    """The same for one row's dot products: it ends a chain every 2 KiB, and waits a while. 3.7 ms in place of 4.2."""
    arm_way = 16 * 1024
    """Bytes of an Arm's first cache that have places of their own."""
    arm_apart = 8 * 1024
    """How far from the columns sums lie among them: at the same places one waits for the other. 1 x 4096 x 4096 takes
    4.3 ms so, and 5.7 there (one thread of a Neoverse-N1)."""
    most_rows = 8
    """Rows that are read once, by lanes, where the right factor is not computed: 9 x 768 x 768 takes 150 us so, and 235
    packed, 14 x 4096 x 4096 9.1 ms, and 12.8; transposed a half to eight tenths (one thread, 16 lanes)."""


class Family:
    """What is best on the CPUs of a family."""

    def __init__(self, name: str, gemm: Gemm, small_m: SmallM) -> None:
        self.name, self.gemm, self.small_m = name, gemm, small_m


SSE = Family("sse", Gemm(lanes=4, tile_rows=4), SmallM())
AVX2 = Family("avx2", Gemm(), SmallM())
AVX512 = Family(
    "avx512",
    Gemm(lanes=16, registers=32, tile_rows=14, pair_rows=10),
    SmallM(most_rows=14),
)
NEOVERSE = Family(
    "neoverse",
    # The first cache has 64 KiB, the second 1 MiB.
    Gemm(
        lanes=4,
        registers=32,
        tile_rows=8,
        tile_vectors=3,
        k_block=512,
        n_block=1024,
        n_block_prepacked=1024,
        right_bytes=768 * 1024,
        first_cache=16384,
    ),
    SmallM(),
)
"""Arm, tuned on a Neoverse-N1."""


@functools.cache
def figures() -> Family:
    """The figures of this CPU's family."""
    if IS_ARM:
        return NEOVERSE
    return AVX512 if has_feature("avx512f") else AVX2 if has_feature("avx2") else SSE

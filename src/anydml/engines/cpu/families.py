"""CPU families: one table of what is best on each, every figure with its measurement.

`features.py` says what the CPU can; `figures()` gives what is best on its family: tile shapes, cache blocking, prefetch
distances, work for a thread. Planners and generators read them; the cache of kernels is by CPU, and so by family.

A class has the figures of one idea. Their values are those of an x86, and of any family that has measured no others: a
new family is one more `Family`, with the figures that it has its own of.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.engines.cpu.features import IS_ARM, has_dots, has_feature, has_lanes

if TYPE_CHECKING:
    from collections.abc import Mapping


NEVER = 2**62
"""More than there is of anything."""


class Figures:
    """The figures of one idea: those that are given, and for all others the class's."""

    def __init__(self, **own: float | str | Mapping[int, int] | tuple[Any, ...]) -> None:
        if unknown := own.keys() - vars(type(self)).keys():
            raise TypeError(f"{type(self).__name__} has no figures {', '.join(sorted(unknown))}")
        vars(self).update(own)


class GemmFigures(Figures):
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
    """The most columns of a unit: rows are packed once for all of them. 768 x 768 x 768 takes 24.1 ms with 1024, and
    24.5 with 512 (one thread of a Neoverse-N1)."""
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
    line_columns = 512
    """Columns of a line, as a target with gaps has them, up to which a product takes several lines together."""
    window_rows = 64
    """Rows or columns that are too few for a product of windows: others may be counted with them."""
    window_rows_times = 4
    """Times that there are more with those, from which on it is so for less than that many too."""
    window_columns = 16
    """Pixels of a line from which on windows of a single filter are packed no more: they fill vectors as they lie."""
    epilogue_nodes = 24
    """Operations at most that are written for each vector of a tile, to compute results from sums."""
    halves_row = True
    """Whether a single row has sums of its own for half of some steps: an Arm's strip takes one step at once."""
    tied_tiles: tuple[tuple[int, int], ...] = ()
    """Rows and vectors of tiles whose every step's sums are waited for, since LLVM would read steps ahead that it has
    no registers for: 6 x 64 x 128 takes 3.0 us so, and 3.2 spilled (Arm Neoverse-N1); others are a hundredth slower."""
    ties_panels = True
    """Whether tiles of several panels, of rows that are not packed, and of bytes without dot instructions are too."""
    small_m_columns = 4288
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
    """Sums of a tile from which on rows are fetched as well: they lie in the second cache, for the columns of a tile
    take the first. 256 x 256 x 256 takes 270 us so, and 284 without (one thread, 16 lanes)."""
    prefetch_bytes = 1024
    """Bytes ahead that packed columns are fetched, a line for each step: a hundredth of the time (Arm Neoverse-N1)."""
    prefetch_lines = 2
    """Lines of columns that are fetched for a step at most: others come by themselves, a stream of the CPU's."""
    prefetch_columns = 32
    """Columns for each row of the next panel that is fetched: as many as a tile's, where rows are."""
    items_per_thread = 4
    """Units for each thread, so that one that is held up leaves its share to the others."""
    small_m_items_per_thread = 2
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
    alike_within = 64
    """Bytes more or less for which that is so: 1023 x 1023 x 1023 takes 17.6 ms packed, and 19.7 as rows lie."""
    fetches_panels = True
    """Whether tiles fetch the block of columns that is packed next, see `far`."""
    far = 2**20
    """Elements of a right factor from which on the block that is packed next is fetched meanwhile: 1024 x 1024 x 1024
    takes 18.2 ms so, and 19.0 without; smaller ones are nearer (one thread, 16 lanes)."""
    steps_ahead = 4
    """Steps whose columns are fetched ahead, where they are read as they lie in the second cache."""
    crowded_panels = 4
    """Panels of rows from which on a right factor may fill three quarters of the first cache at most: the rows and
    results need the rest. 128 x 128 x 128 takes 123 us as it lies, and 116 packed (one thread of an N1)."""


class SmallMFigures(Figures):
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
    """Elements of a factor that the second cache has: tiles of few rows read it where it lies, with the columns of a
    few steps to come fetched. 5 x 256 x 256 takes 5.3 us so, and 11 by strips; 12 x 384 x 384 31 us, and 55 packed (one
    thread, 16 lanes)."""
    nearby_panels = 2
    """And the most panels of rows that do."""
    rows = 8
    """Rows up to which columns are not packed: they are read once."""
    steps = 4
    """Steps that a strip takes at once, where those of `prefetch_bytes` have the next ones fetched into the second
    cache. A first cache of four ways has no room for more rows that lie 16 KiB apart: 8 x 4096 x 4096 takes 11.5 ms so,
    and 15.5 with 8."""
    streams = 8
    """The steps of a strip of one row, or of two where there are registers for all their factors: as many streams as
    memory is read by soonest. 2 x 4096 x 4096 takes 5.4 ms so, and 5.8 by four steps of halves of rows. With one stream
    memory is read from one end to the other: 1 x 4096 x 4096 takes 3.6 ms so, 18.5 GB/s where a loop that reads alone
    has 19.9, and 4.7 by four steps (one thread of a Neoverse-N1). Units of some columns do not then, and take four: 2.9
    ms, and 3.7 by one (two threads)."""
    prefetch_elements = 256
    """Elements ahead that are fetched, 0 where `prefetch_bytes` says it: past the end of some rows, those where the
    next ones begin. 1 x 4096 x 4096 takes 5.2 ms so, as long as a loop that reads alone, and 5.4 where what lies past
    the end is fetched; by halves of rows 5.4 and 6.2, and 8 x 4096 x 4096 7.0, where the second cache has the next rows
    fetched 7.9 (one thread, 16 lanes)."""
    prefetch_bytes: Mapping[int, int] = {}
    """Bytes ahead that are fetched for one row, and the cache, the first or the second."""
    prefetch_bytes_dots: Mapping[int, int] = {}
    """The same for one row's dot products: it ends a chain every 2 KiB, and waits a while. 3.7 ms in place of 4.2 (a
    Neoverse-N1)."""
    short = 128
    """The most steps that are few."""
    way_bytes = 0
    """Bytes of the first cache that have places of their own, where sums are to lie at other places than columns."""
    sums_apart = 0
    """How far from the columns sums lie among them: at the same places one waits for the other. 1 x 4096 x 4096 takes
    4.3 ms so, and 5.7 there (one thread of a Neoverse-N1)."""
    masks_ends = True
    """Whether some lanes of a row's last vector are read at once: 1 x 1000 x 1000 takes 180 us so, and 188 lane by
    lane."""
    dots_one_by_one = False
    """Whether the columns of one row's dot products come one after the other, as they lie, with several sums each,
    where steps are not few: 12 x 1001 of 64 steps take 0.28 ms so, and 0.20 by four (a Neoverse-N1). 1 x 4096 x 4096
    takes 6.6 ms so on an x86, and 5.8 by four."""
    most_rows = 8
    """Rows that are read once, by lanes, where the right factor is not computed. With AVX-512 9 x 768 x 768 takes
    150 us so, and 235 packed, 14 x 4096 x 4096 9.1 ms, and 12.8; transposed a half to eight tenths (one thread)."""

    dot_columns: Mapping[int, int] = {}
    """Columns that dot products of so many rows take at once, where they are not 4 for up to four rows, and 2 for more:
    with the registers of AVX-512 8 x 4096 x 4096 takes 6.2 ms by three, and 6.7 by two (one thread)."""


class StencilFigures(Figures):
    """Depthwise convolution and pooling: blocks of results, parts of planes."""

    sums = 8
    """Registers of sums at once."""
    wide = 2
    """Registers of a row at most. On an Arm Neoverse-N1 144 planes of 56 x 56 by 2 take 179 us with 7, and 205 with
    2."""
    wide_bytes = 2
    """The same of bytes: by 1, 652 us with 6 and 459 with 2."""
    wide_sums = 16
    """Registers of sums of the blocks of an x86 with 32 registers."""
    wide_lanes = 16
    """Lanes of those."""
    byte_lanes = 8
    """Bytes at once at least: as many of 16 bits fill a vector of an Arm's."""
    dot_rows = (4, 8)
    """Rows at once of VNNI's blocks, at least and at most."""
    fold_rows = 4
    """Rows at once where taps are folded line by line."""
    fold_vectors = 2
    """And the most vectors."""
    part_rows = 4
    """Rows of a part of a plane at least."""
    rolling_sums = 16
    """Registers of sums that roll on from line to line."""
    rolling_across = 4
    """Those of a row at most."""
    most_rows = 8
    """Rows at most: texts grow with them."""
    epilogue_nodes = 48
    """Nodes of what is computed from folds up to which that is done where they are: it is written for each of 12
    vectors. 144 planes of 56 x 56, convolved with a bias, take 323 us so, and 367 where folds are written first (one
    thread of an Arm Neoverse-N1)."""
    margin_bytes = 48 * 1024
    """Bytes of lines with margins that a part has: the first cache has them, and results."""
    part = 4096
    """Results of a part of a plane: the first cache has them, with what they are folded from."""
    held_weights = 12
    """Weights at most that registers hold all the time."""
    prefetch_bytes = 2048
    """Bytes from a line, of the input or of results, to the one that is fetched meanwhile: 8 x 384 planes of 14 x 14
    take 0.30 ms so, and 0.39 without."""


class ConvFigures(Figures):
    """Convolution: row blocks of direct ones, panels of weights, cost of tiles."""

    spreads_pixels = False
    """Whether a number is spread as it is read at no cost, so that a pixel is a row of a product as it lies, and
    vectors have 8 lanes or more: direct convolution and NHWC are for those."""
    least_lanes = 8
    """Channels that fill a vector at least."""
    least_places = 4
    """Pixels of a line from which on it is worth a tile."""
    most_vectors = 4
    """Vectors of channels of a direct tile at most."""
    epilogue_nodes = 160
    """Nodes of what is computed from sums in NHWC at most where they are: rows of maps would take the few channels of a
    pixel."""
    block_bytes = 256 * 1024
    """Bytes of a row block that has several lines: the second cache has it, and sums."""
    block_sums = 128 * 1024
    """Bytes of sums of a row block that has several lines."""
    latency = 8
    """Vectors that are added to at once at least: each waits four cycles for the one before, and there are two
    units."""
    loads = 1.2
    """Loads of a step that take as long as products: two take a cycle, but they come in pairs seldom."""
    overhead = 0.5
    """Cycles of each step of a tile beside its products, that of its call and of its epilogue included."""
    fetched_tiles = 16
    """Tiles of a row block up to which weights are fetched: more of them find those in the first cache for long."""
    memcpy_bytes = 1024
    """Bytes of a line from which on `memcpy` moves it, and the CPU itself finds what comes next."""
    piece = 8
    """Steps of a piece, which a tile's text has one by one: 256 channels of 14 x 14, 3 x 3, take 1.80 ms so, and 2.02
    by 16 (one thread, while another is on the same core)."""
    longest_piece = 32
    """The same where no number up to that divides a run of steps."""
    least_piece = 3
    """Steps of a piece at least, where there are as many."""
    prefetch_lines = 2
    """Lines that are fetched to the second cache at a piece of few taps: of weights for later, or of the input. 512
    channels into 512 of 7 x 7, 3 x 3, take 1.81 ms so, and 2.41 without (one thread, 16 lanes)."""
    prefetch_lines_nhwc = 4
    """The same in NHWC, at each piece."""
    prefetch_rows = 2
    """Rows of results that are fetched at once: sums of few steps have no time for one after the other. 64 channels
    into 256 of 56 x 56, 1 x 1, take 0.91 ms so, and 1.05 by one (a Xeon)."""
    window_channels = 64
    """Channels from which on windows that lie apart are a reduce's, which reads memory as it lies: sums of 8 x 64 x
    1,024 along the second axis take 90 us so, and 136 as windows (one thread of a Xeon)."""
    panel_bytes = 256 * 1024
    """Bytes of panels that a unit has at most, if it has several: the second cache keeps them for all of its rows."""
    wide_panel_bytes = 640 * 1024
    """Bytes of a panel wider than the CPU's own at most: every line reads all of it. 512 channels into 512 of eight
    times 7 x 7, 3 x 3, take 15.4 ms so, and 16.9 without (a Xeon)."""
    crowded = 2048
    """Bytes between places, or multiples of them, of which a tile's rows do not fit into the ways of a first cache:
    1,024 channels into 256 of 14 x 14 take 0.85 ms further apart, and 1.12 else (a Xeon of 2.5 GHz)."""


class RowsFigures(Figures):
    """Maps: segments of rows, prefetching, writes past the cache."""

    vector_bytes = 64
    """Bytes of a vector of the widest type in a tree: a line of the cache, several registers where they are shorter."""
    strided_lanes = 16
    """Lanes at most where elements are read one by one."""
    streams = False
    """Whether large outputs are written past the cache wherever rows are runs. On a Xeon forward rows of 256 MiB take
    28.7 ms through the cache and 34 past it, backward ones 67 and 33, for which an x86 streams too; so it does for
    gathered rows of 16 bytes: of 512, 400,000 take two threads 44 ms past the cache and 35 through it."""
    fetches_written = True
    """Whether lines that will be written are fetched ahead."""
    fetched_written = 2048
    """Bytes ahead that they are."""
    fetched_written_from = 2 * 1024 * 1024
    """Bytes of output from which on they are: in a second cache of 1 MiB it gains nothing."""
    aligned_from = 0
    """Bytes of a row of one target from which on its vectors are aligned; 0 for nowhere. A fill of 512 KiB that begins
    16 bytes behind a line, as large arrays of NumPy's do, takes 10.6 us so, and 14.1 without (one thread of a Xeon with
    AVX-512)."""
    fetched_bytes = 4096
    """Bytes of rows to fetch that are asked for ahead: 16,384 rows of 1 KiB, fetched and added to, take 4.6 ms so, 5.9
    with 1024 bytes and 12.6 without (one thread of an Arm Neoverse-N1)."""
    fetched_rows = 16
    """Those rows at most."""
    prefetch_bytes = 128
    """Bytes ahead that a large map's first source is fetched, and each source ahead of the one before. For three
    sources of 64 MiB that is 11.2 ms, 12.2 where all are 384 ahead, and 13.2 without; one thread of an Arm Neoverse-N1
    takes 3.6 to read one."""
    segment = 128 * 1024
    """Bytes of a row, the target's or a source's, that one unit of work goes through."""
    segment_across = 256
    """Elements of a row that one unit goes through where a view lies across the rows: as many lines of the cache."""
    fetched_far = 128 * 1024
    """Bytes of a source from which on its rows are asked for ahead."""
    short = 8
    """Elements of a row below which another dimension is walked along, where that has more: 500 rows of 3 sums take 5
    us so and 14 by the row, of 8 either way 10, and of 60 bytes 60 and 12."""
    lookup_segment = 32 * 1024
    """Bytes of a row that one unit of work goes through where bytes are looked up in a table."""
    stream_from = 32 * 1024 * 1024
    """Bytes of output from which on it is written past the cache."""


class ReduceFigures(Figures):
    """Reductions and normalisations: strips, segments, what is kept for the next pass."""

    window = 25
    """Elements of a window that are folded at once."""
    least_items = 8
    """Units that strips are to leave, where there is a value for each element, or one for every two segments."""
    prefetch_bytes = 512
    """Bytes ahead that are fetched of a strip of `run_strip` elements: it is read as it lies. 16384 x 1024 take 3.5 ms
    so, and 3.9 with the same column of the next row fetched, as narrow strips have it."""
    run_strip = 1024
    """See `prefetch_bytes`."""
    item_bytes = 64 * 1024
    """Bytes of rows that one unit of work goes through, if there are several."""
    strip = 1024
    """Rows that are folded together where vectors lie across them."""
    far_strip = 4096
    """Those whose elements come from far: they are read as they lie. 2048 x 4096 take 2.0 ms so, and 3.6 by 1024 (one
    thread of an Arm Neoverse-N1)."""
    narrow_strip = 64
    """Such rows that one unit has at least, with values for their elements."""
    segment = 64 * 1024
    """Elements of a segment of rows that are cut."""
    near = 1024 * 1024
    """Bytes of a source that caches hold which are near."""
    few_rows = 32
    """Rows, or strips of them, from which on they are not cut."""
    folded_across = 8
    """Elements of a row that are folded before the strip's results so far are read and written, where they lie near:
    512 KiB take 18 us, and 29 one by one. From far they come faster one row of memory after the other: 64 MiB in 3.9
    ms, not 6.2 (one thread of an Arm Neoverse-N1)."""
    folded_across_far = 2
    """Those that come from far, where a fold's type is wider: float64 sums of 64 MiB of float32 take 6.3 ms, not
    8.3."""
    folded_along = 4
    """Vectors folded side by side, so that 4 additions or more are under way: they are 4 registers of an Arm's, or
    less."""
    kept_operations = 12
    """Operations from which on a row's elements are kept for the next pass, and not computed again."""
    kept_operations_near = 2
    """The same where vectors lie along the row, and the nearest cache has room: a layer norm of 128 x 1024 takes 105 us
    so, and 114 computed again (one thread of an Arm Neoverse-N1)."""
    few_operations = 6
    """Operations up to which several vectors are folded side by side: what is more keeps the CPU busy by itself."""
    vectors_at_once = 1
    """Vectors whose values are computed as one where that takes many operations, and a vector is a register, or rows
    are fewer than its lanes: instructions of several take turns then, and wait less for each other. A softmax of 128 x
    1024 takes 54 us so, and 62 one by one; 57 by 2 (one thread of a Xeon with AVX-512)."""


class QuantFigures(Figures):
    """Weights of 4 and 8 bits."""

    prefetch_bytes = 1024
    """Bytes of a panel's weights that are fetched ahead."""
    items_per_thread = 2
    """Units of columns for each thread."""
    most_rows = 8
    """Rows of a unit at most: their sums are in registers."""
    columns_in_turn = 64
    """Columns that all rows take in turn: their weights stay in the second cache, and the digits of some rows in the
    first."""
    rows_at_once = 4
    """Rows whose sums have room in the registers."""
    few_rows: Mapping[int, int] = {4: 8, 8: 2}
    """By the bits of weights, up to how many rows of FLOAT32 are multiplied with them as they are packed; for more they
    are dequantised first, panel by panel. 4, 8 and 12 by 2048 x 2048 of 4 bits take 0.91, 1.77 and 2.64 ms so, and
    1.14, 1.73 and 1.95 dequantised first; 2 and 4 of 8 bits 1.36 and 2.62, and 1.43 and 1.38 (one thread, 8 lanes)."""
    few_rows_with_dots: Mapping[int, int] = {4: 8, 8: 4}
    """The same where the CPU has dot instructions: 4 and 6 by 2048 x 2048 of 8 bits take 0.87 and 1.33 ms so, and 0.97
    and 1.43 dequantised first."""
    row_panels = 4
    """The panels of columns whose scales are transposed in the time that a row is laid out in."""
    few_bytes = 8
    """The same of rows of bytes, by weights of 8 bits: 8 and 16 take 2.0 and 4.0 ms so, and 2.0 and 2.7."""
    few_bytes_with_dots = 32
    """The same with dot instructions: 16 take 1.3 ms so, and 2.0 (16 lanes)."""
    chains = NEVER
    """Columns and rows at once from which on, less one, the sum of a place begins with that of the place above: 8 rows
    take 9.4 ms so in place of 10.2, and one 1.43 in place of 1.25 (Arm Neoverse-N1)."""
    takes_two_columns = False
    """Whether tiles of 4 bits take two columns at once whatever their rows: 32 registers have room for their sums, and
    8 rows take 8.4 ms in place of 9.4, as digits are read half as often (Arm Neoverse-N1)."""
    rounded_with_dots: tuple[int, ...] = (4,)
    """Bits of weights that rows of bytes are multiplied with in less time than FLOAT32, however many rows there are,
    where the CPU has dot instructions: a row by 4096 x 4096 of 4 bits takes a Neoverse-N1 0.42 ms so, and 0.95; 32 by
    2048 x 2048 take 1.28 ms so, and 2.69 as FLOAT32 (one thread, 16 lanes)."""
    rounded_without_dots: tuple[int, ...] = (4,)
    """The same where it has none, and multiplies bytes by pairs: 32 by 2048 x 2048 of 4 bits take 2.4 ms so, and 4.3
    as FLOAT32 (one thread, 8 lanes)."""


class MoveFigures(Figures):
    """Copies, gathers and scatters."""

    prefetches = False
    """Whether copies fetch their input ahead: an x86 does as well by itself."""
    short_row = 512
    """Bytes of a row below which that is so from `prefetch_short_from` on: 7,168 rows of 448 take 29 ns each by memcpy
    and 44 so, and 28,672 of them 93 and 28."""
    prefetch_short_from = 8 * 1024 * 1024
    """See `short_row`."""
    long_rows = "ahead 1"
    """The kernel that gathers rows of any length: `ahead` fetches the next row's first line, `row` all of it."""
    prefetch_from = 1024 * 1024
    """Bytes of output from which on they do."""
    prefetch_bytes = 2048
    """Bytes ahead that they do, where rows do not follow one another: a prefetcher that guesses loses its way at each
    row's end. A block of half by half went from 0.77 of copy speed to 0.83 to 0.88 (Arm Neoverse-N1)."""
    scan_aligned_from = 128
    """Columns of a row from which on a running sum down the rows aligns what it writes."""
    tuples_ahead = 16
    """Tuples ahead whose block is fetched already, where gathers go in batches."""
    fetched_bytes = 2048
    """Of rows longer than a line, so much is fetched ahead there, as whole rows, or as one row's beginning: rows of 512
    bytes out of 100 MB take 14 ms so, and 29 fetched by their first lines alone (two threads of a Neoverse-N1)."""
    taken_bytes = 32
    """Bytes of a piece from which on they are taken one after the other, see `move/gather.py`."""
    near = 256 * 1024
    """Bytes that an index reaches over, up to which elements are read from the cache and need not be fetched ahead."""
    tile_bytes = 512
    """Bytes of a row of which each element has its own place along an axis outside: what such a tile reads fits a
    cache."""


class AttentionFigures(Figures):
    """Attention: panels of queries, chunks of keys."""

    lanes = 8
    """Lanes of the tiles: of a panel's products there are as many sums as registers hold, in tiles for both
    products."""
    queries = 16
    """Of a panel: the columns of the first product, and the rows of the second."""
    keys = 4
    """Rows of a tile of the first, whole groups of those that are packed."""
    rows = 4
    """Of a tile of the second."""
    vectors = 2
    """Of a row there."""
    keys_at_once = 256
    """Keys that a panel of queries takes at once: its scores lie in the first cache."""
    chunk_bytes = 512 * 1024
    """Bytes of a chunk's keys and values, which lie in the second cache."""
    least_queries = 96
    """Queries of a unit at least: each unit packs all keys and values, which takes as long as 8 products an element."""


class ThreadsFigures(Figures):
    """Work for the team of threads; `part` is one for all families, since a call is made small or large by it."""

    chunk = 128 * 1024
    """The least bytes of work for which a thread is woken."""
    part = 32 * 1024
    """The least bytes of work for a thread that is awake: about 3 us, where to hand it over takes 0.7 (a
    Neoverse-N1)."""
    grain = 32 * 1024
    """The least bytes of work that are taken at once."""
    grains = 64
    """The most grains for each thread."""
    shares = 2
    """A thread takes so many parts less than its share of what is left: one that is held up leaves them to the
    others."""
    missed = 1024 * 1024
    """Bytes of work, each time too little to wake a thread for, after which one is woken: to do so takes about 5 us."""
    brief = 128 * 1024
    """Bytes up to which Python's lock is kept: a few microseconds."""
    blocks = 32
    """Blocks of scratch memory at least: whoever finds none waits for another's turn to end, and keeps a core busy.
    Sixteen of Python's threads on two cores took a product 1.8 times as long with four as one after the other."""
    most_blocks = 256
    """And at most."""
    turns = 16
    """Turns for each of Python's threads, so that one that is held up leaves its share to the others."""
    pauses = 5000
    """Pauses before a thread that finds nothing to do sleeps: about 50 us on an Arm Neoverse-N1, and 200 on a Xeon of
    today, where threads take longer to wake: MobileNet-v2 after a rest of 0.1 s takes 16 threads 5.0 ms with 1,000,
    and 3.9 with 20,000."""


class Family(NamedTuple):
    """What is best on the CPUs of a family."""

    name: str
    gemm: GemmFigures
    small_m: SmallMFigures = SmallMFigures()
    conv: ConvFigures = ConvFigures()
    stencil: StencilFigures = StencilFigures()
    quant: QuantFigures = QuantFigures()
    rows: RowsFigures = RowsFigures()
    reduce: ReduceFigures = ReduceFigures()
    move: MoveFigures = MoveFigures()
    attention: AttentionFigures = AttentionFigures()
    threads: ThreadsFigures = ThreadsFigures()

    def lanes_for(self, channels: int) -> int:
        """Lanes of a direct convolution's vectors of so many channels."""
        return self.gemm.lanes if channels > self.conv.least_lanes else self.conv.least_lanes


SSE = Family(
    "sse",
    GemmFigures(lanes=4, tile_rows=4),
    quant=QuantFigures(rounded_without_dots=()),
    attention=AttentionFigures(lanes=4, queries=8),
)
AVX2 = Family("avx2", GemmFigures(), conv=ConvFigures(spreads_pixels=True), rows=RowsFigures(aligned_from=4096))
AVX512 = Family(
    "avx512",
    GemmFigures(lanes=16, registers=32, tile_rows=14, pair_rows=10),
    SmallMFigures(most_rows=14, dot_columns=dict.fromkeys(range(5, 10), 3)),
    conv=ConvFigures(spreads_pixels=True),
    # 16 and 32 by 2048 x 2048 of 4 bits take 1.36 and 2.67 ms a lane for each column, and 1.60 and 2.65 dequantised.
    quant=QuantFigures(few_rows={4: 32, 8: 2}, few_rows_with_dots={4: 32, 8: 4}),
    rows=RowsFigures(aligned_from=4096),
    reduce=ReduceFigures(vectors_at_once=4),
    attention=AttentionFigures(lanes=16, queries=32, keys=12, rows=8),
)
NEOVERSE = Family(
    "neoverse",
    # The first cache has 64 KiB, the second 1 MiB.
    GemmFigures(
        lanes=4,
        registers=32,
        tile_rows=8,
        tile_vectors=3,
        k_block=512,
        n_block=1024,
        n_block_prepacked=1024,
        right_bytes=768 * 1024,
        first_cache=16384,
        halves_row=False,
        tied_tiles=((6, 4),),
        ties_panels=False,
        fetched_rows_sums=NEVER,
        fetches_panels=False,
    ),
    SmallMFigures(
        nearby=0,
        streams=1,
        prefetch_elements=0,
        prefetch_bytes={512: 1},
        prefetch_bytes_dots={512: 1, 2048: 2},
        way_bytes=16 * 1024,
        sums_apart=8 * 1024,
        masks_ends=False,
        dots_one_by_one=True,
    ),
    stencil=StencilFigures(sums=16, wide=7),
    quant=QuantFigures(
        # Before panels were dequantised in one pass, 32 by 4096 x 4096 of 4 bits took 47 ms so, and 40 as packed.
        few_rows={4: 32, 8: 32},
        few_rows_with_dots={4: 32, 8: 32},
        few_bytes=32,
        chains=2,
        takes_two_columns=True,
        rounded_with_dots=(4, 8),
        rounded_without_dots=(),
    ),
    rows=RowsFigures(streams=True, fetches_written=False),
    reduce=ReduceFigures(folded_along=2),
    move=MoveFigures(prefetches=True, scan_aligned_from=0, taken_bytes=NEVER, long_rows="row 1"),
    attention=AttentionFigures(lanes=4, queries=12, keys=8, rows=12),
)
"""Arm, tuned on a Neoverse-N1."""


@functools.cache
def figures() -> Family:
    """The figures of this CPU's family."""
    if IS_ARM:
        return NEOVERSE
    return AVX512 if has_feature("avx512f") else AVX2 if has_feature("avx2") else SSE


def columns_of_panel(bits: int) -> int:
    """Columns of a panel, a lane each; 0 where weights are multiplied otherwise.

    With 16 lanes FLOAT32 takes 8 instructions for 128 weights and a row, and bytes 2 dot products or 5 others; integers
    of three bytes, which 8 lanes multiply by dot products, 36. 1, 8 and 32 rows by 2048 x 2048 take 0.23, 0.73 and 2.7
    ms so, and 0.30, 1.54 and 6.0 by those; rows of bytes 0.17, 0.37 and 1.28, and 0.21, 0.75 and 2.7 (one thread).
    """
    if bits != 4 or not has_feature("avx2"):
        return 0
    return 16 if has_lanes() else 0 if has_dots(8) else 8

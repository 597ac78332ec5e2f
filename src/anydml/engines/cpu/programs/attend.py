"""Attention, planned: panels of queries, chunks of keys, and what a unit of work is."""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.call import SMALL
from anydml.engines.cpu.features import IS_ARM, has_feature, has_float16, has_fma
from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.attend import ROOM, WORDS, make_attend
from anydml.engines.cpu.kernels.pack import Packing, make_pack
from anydml.engines.cpu.kernels.row import Shape, givens
from anydml.engines.cpu.kernels.rows import OUTER_RANK, VIEWS
from anydml.engines.cpu.kernels.soften import SUM, Softening, make_soften
from anydml.engines.cpu.kernels.tile import Tile, make_tile
from anydml.engines.cpu.programs.contracted import ContractProgram, Section
from anydml.engines.cpu.programs.map import VECTOR, digest, lanes_of, row_kernel, row_letter, widest_of, word_of
from anydml.engines.cpu.programs.sides import NOWHERE, Lie
from anydml.engines.cpu.programs.units import FLOPS, TURNS
from anydml.engines.threads import get_num_threads
from anydml.enums import DataType
from anydml.ir.attending import Attend
from anydml.ir.expressions import const, coordinate, load
from anydml.ir.numerics import expand
from anydml.ir.trees import rewrite, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.expressions import Expr
    from anydml.ir.views import View

F32 = DataType.FLOAT32
CHUNK = 256
"""Keys that a panel of queries takes at once: its scores lie in the first cache."""
NEAR = 512 * 1024
"""Bytes of a chunk's keys and values, which lie in the second cache."""
FEWEST = 96
"""Queries of a unit at least: each unit packs all keys and values, which takes as long as 8 products an element."""


class Panels(NamedTuple):
    """Panels that suit a CPU: as many sums as its registers hold, in tiles for both products."""

    lanes: int
    queries: int
    """Of a panel: the columns of the first product, and the rows of the second."""
    keys: int
    """Rows of a tile of the first, whole groups of those that are packed."""
    rows: int
    """Of a tile of the second."""
    vectors: int
    """Of a row there."""


@functools.cache
def panels() -> Panels:
    """Those of this CPU."""
    if IS_ARM:
        return Panels(4, 12, 8, 12, 2)
    if has_feature("avx512f"):
        return Panels(16, 32, 12, 8, 2)
    if has_feature("avx2"):
        return Panels(8, 16, 4, 4, 2)
    return Panels(4, 8, 4, 4, 2)


class _Cut(NamedTuple):
    chunk: int
    most: int
    """Queries of a unit for which there is room."""


def takes_attend(primitive: Attend) -> bool:
    """Whether there are queries enough for a panel, and room for one; fewer are quicker with keys as they lie.

    But for a cache, of which no more is read so than there is: a query of 32 heads, in groups of 4 that share keys and
    values, takes 4.1 ms of 2000 keys in a cache of 4096, and 17.0 otherwise (one thread of an Arm Neoverse-N1).
    """
    primitive = _grouped(primitive)
    *batch, queries, keys = primitive.scores
    kinds = {view.data_type for view in (*primitive.sources[:3], primitive.target)}
    fits = (
        queries >= _fewest(primitive) and keys > 0 and all(batch) and all(primitive.depths) and len(batch) <= OUTER_RANK
    )
    known = has_fma() and (kinds == {F32} or (kinds == {DataType.FLOAT16} and has_float16()))
    nodes = list(walk(primitive.seen))
    is_plain = not any(node.op == "fetch" for node in nodes)
    return fits and known and is_plain and len(nodes) < VIEWS and _cut(primitive).most >= panels().queries


def _fewest(primitive: Attend) -> int:
    """Queries from which on one pass is quicker; of fewer than a panel nothing is read that there is not."""
    nodes = (node for node in walk(primitive.seen) if node.op == "load" and node is not SUM)
    is_apart = all(primitive.beside[int(node.value) - 1].strides[-2] == 0 for node in nodes)
    return 1 if primitive.limit is not None and is_apart else panels().queries


def _grouped(primitive: Attend) -> Attend:
    """Where each head has one query, and some heads share keys and values: those heads as queries of one."""
    sizes, (_, key, value) = primitive.scores, primitive.sources[:3]
    if len(sizes) < 3 or sizes[-2] > 1 or sizes[-3] == 1 or key.strides[-3] or value.strides[-3]:
        return primitive
    last = len(sizes) - 1
    order = [*range(last - 2), last - 1, last - 2, last]
    coordinates = {last - 1: coordinate(last - 2), last - 2: coordinate(last - 1)}

    def turned(tree: Expr) -> Expr:
        return rewrite(tree, lambda node: coordinates.get(int(node.value), node) if node.op == "coordinate" else node)

    shared = [replace(view, sizes=(*view.sizes[:-3], 1, *view.sizes[-2:])) for view in (key, value)]
    query, *beside = (view.pick(order) for view in (primitive.sources[0], *primitive.beside))
    limit = primitive.limit
    return Attend(
        (query, *shared, *beside), primitive.target.pick(order), turned(primitive.score), limit and turned(limit)
    )


def _cut(primitive: Attend) -> _Cut:
    """The keys of a chunk and the queries of a unit, which do not depend on the number of threads."""
    size, value_size = primitive.depths
    own = panels()
    width = own.vectors * own.lanes
    wide = -(-value_size // width) * width
    chunk = min(max(NEAR // (4 * (size + wide)) // own.keys, 1) * own.keys, CHUNK)
    room = ROOM - 4 * ((chunk + own.keys) * (size + own.queries) + chunk * wide)
    return _Cut(chunk, room // (4 * (size + wide + 3)) // own.queries * own.queries)


def plan_attend(primitive: Attend) -> ContractProgram | None:
    """One pass over the keys for each panel of queries.

    12 heads of 512 x 64 take 27.8 ms, and 28.9 by way of their scores; 32 of 2048 x 128 take 2.09 s, where ONNX Runtime
    takes 2.30 and PyTorch 2.45. Of causal attention the former take 16.6, and 31.9 (one thread of an Arm Neoverse-N1).
    """
    if not takes_attend(primitive):
        return None
    primitive = _grouped(primitive)
    own, cut = panels(), _cut(primitive)
    *batch, queries, keys = primitive.scores
    size, value_size = primitive.depths
    query, key, value = primitive.sources[:3]
    columns = own.vectors * own.lanes
    tiles = (
        Tile(own.keys, own.queries // own.lanes, own.lanes, own.keys, IS_ARM),
        Tile(own.rows, own.vectors, own.lanes, own.queries, IS_ARM),
    )
    packs = [
        _pack(query, -2, own.queries),
        _pack(key, -2, own.keys),
        _pack(value, -1, columns),
    ]
    sections = (
        _tensors(primitive),
        _scores(primitive, primitive.score),
        _scores(primitive, primitive.seen),
        _limit(primitive),
        _result(primitive),
    )
    units = _units(primitive, cut.most)
    places = [HEADER + len(WORDS) + len(batch)]
    for section in sections:
        places.append(places[-1] + len(section.words) + len(section.tensors))
    fixed = (
        queries, keys, size, value_size, units, len(batch), own.queries, own.lanes, own.keys, own.rows, columns,
        cut.chunk, int(primitive.limit is not None), int(packs[2][0] == "p"), *(pack.address for _, pack in packs),
        *(get_kernel(tile.name, functools.partial(make_tile, tile)).address for tile in tiles),
        *places[:-1], *batch,
    )  # fmt: skip
    return ContractProgram(
        get_kernel("attend", make_attend), fixed, sections, units * math.prod(batch), _size(primitive)
    )


def _size(primitive: Attend) -> int:
    return 2 * math.prod(primitive.scores) * sum(primitive.depths) // FLOPS


def _units(primitive: Attend, most: int) -> int:
    """Parts of the queries: as many as there is room for, or as threads want where each has enough to do."""
    *batch, queries, _ = primitive.scores
    threads = 1 if _size(primitive) < SMALL else get_num_threads()
    wanted = -(-TURNS * threads // math.prod(batch)) if threads > 1 else 1
    fewest = -(-queries // most)
    return min(max(fewest, min(wanted, max(queries // FEWEST, 1))), -(-queries // panels().queries))


def _pack(view: View, rows: int, panel: int) -> tuple[str, Kernel]:
    """How elements lie, and what packs panels of them: rows are counted along one of the last two dimensions."""
    across, step = view.strides[rows], view.strides[-3 - rows]
    lies = "p" if across == 1 else "t" if step == 1 else "s"
    packing = Packing(lies, "f16" if view.data_type is DataType.FLOAT16 else "f32", panel, panel)
    return lies, get_kernel(packing.name, functools.partial(make_pack, packing))


# Sections


def _lie(view: View) -> Lie:
    width = view.data_type.size_in_bytes
    return Lie(view.tensor, view.offset * width, tuple(stride * width for stride in view.strides), width)


def _leaf(primitive: Attend, leaf: Expr) -> Lie:
    """How a load beside the sum, or a coordinate, lies along the scores."""
    if leaf.op == "coordinate":
        return Lie("", 0, tuple(int(k == leaf.value) for k in range(len(primitive.scores))), 1)
    return _lie(primitive.beside[int(leaf.value) - 1])


def _section(
    address: int, numbers: Sequence[int], lies: Sequence[Lie], steps: Sequence[int], across: Sequence[int], rank: int
) -> Section:
    strides = [lie.strides[k] if lie.strides else 0 for k in range(rank) for lie in lies]
    words = (address, len(lies), len(numbers), *steps, *numbers, *across, *strides)
    return Section(words, tuple((lie.tensor, lie.offset) for lie in lies))


def _tensors(primitive: Attend) -> Section:
    lies = [_lie(view) for view in (*primitive.sources[:3], primitive.target)]
    steps, across = [lie.strides[-1] for lie in lies], [lie.strides[-2] for lie in lies]
    return _section(0, (), lies, steps, across, len(primitive.scores) - 2)


def _scores(primitive: Attend, score: Expr) -> Section:
    """The section that computes scores of sums, and their powers."""
    own, score = panels(), expand(score)
    nodes = list(walk(score))
    leaves = tuple(node for node in nodes if node.op in ("load", "coordinate") and node is not SUM)
    lies = [_leaf(primitive, leaf) for leaf in leaves]
    across = [lie.strides[-2] for lie in lies]
    letters = "".join(row_letter(step // lie.width) for step, lie in zip(across, lies, strict=True))
    shape = Softening(leaves, letters, own.lanes, own.queries)
    key = f"{digest(score)} {shape[1:]}"
    name = f"soften {hashlib.sha256(key.encode()).hexdigest()[:32]}"
    kernel = get_kernel(name, functools.partial(make_soften, score, shape))
    numbers = [word_of(node) for node in givens(nodes)]
    return _section(kernel.address, numbers, lies, [lie.strides[-1] for lie in lies], across, len(primitive.scores) - 2)


def _limit(primitive: Attend) -> Section:
    """The section that computes how many keys a query sees."""
    value = expand(primitive.limit if primitive.limit is not None else const(0, DataType.INT64))
    leaves = [node for node in walk(value) if node.op in ("load", "coordinate")]
    lies = [_leaf(primitive, leaf) for leaf in leaves]
    return _mapped(value, leaves, [*lies, NOWHERE], [0] * len(lies) + [8], len(primitive.scores) - 2)


def _result(primitive: Attend) -> Section:
    """A row of sums, divided by the sum of its powers."""
    value = (load(0, F32) / load(1, F32)).to(primitive.target.data_type)
    lies = [NOWHERE, NOWHERE, _lie(primitive.target)]
    steps = [4, 0, lies[2].strides[-1]]
    return _mapped(value, [load(0, F32), load(1, F32)], lies, steps, len(primitive.scores) - 2)


def _mapped(value: Expr, leaves: Sequence[Expr], lies: Sequence[Lie], steps: Sequence[int], rank: int) -> Section:
    """The row of a map over some views, the last of which is written."""
    nodes = list(walk(value))
    widths = [*(1 if leaf.op == "coordinate" else leaf.type.size_in_bytes for leaf in leaves if leaf.type)]
    widths.append(value.type.size_in_bytes if value.type else 1)
    letters = "".join(row_letter(step // width) for step, width in zip(steps, widths, strict=True))
    shape = Shape(tuple(leaves), letters, lanes_of(nodes, widest_of(nodes), letters, VECTOR), stream=False)
    numbers = [word_of(node) for node in givens(nodes)]
    across = [lie.strides[-2] if lie.strides else 0 for lie in lies]
    return _section(row_kernel((value,), shape).address, numbers, lies, steps, across, rank)

"""Attention in one pass (as FlashAttention): panels of queries, chunks of keys, an online softmax, and values
accumulated. Planned here, with the kernel of a work item.
"""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu.attention.online_softmax import SUM, Softening, make_soften
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Steps
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.features import IS_ARM, has_feature, has_float16, has_fma
from anydml.engines.cpu.gemm.microkernel import Tile, make_microkernel
from anydml.engines.cpu.gemm.operands import NOWHERE, StridedOperand
from anydml.engines.cpu.gemm.packing import Packing, make_pack
from anydml.engines.cpu.gemm.program import Section, record_of, section_of
from anydml.engines.cpu.gemm.work_item import DECLARED, find_place, make_bases, make_stage, take_scratch
from anydml.engines.cpu.gemm.workspace import workspace
from anydml.engines.cpu.launch.call import SMALL
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.launch.record import Layout
from anydml.engines.cpu.rows.map import VECTOR, digest, lanes_of, row_kernel, row_letter, widest_of, word_of
from anydml.engines.cpu.rows.row import Shape, givens
from anydml.engines.cpu.rows.walk import OUTER_RANK, VIEWS
from anydml.enums import DataType
from anydml.ir.attention import Attend
from anydml.ir.expressions import const, coordinate, load
from anydml.ir.numerics import expand
from anydml.ir.trees import rewrite, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.expressions import Expr
    from anydml.ir.views import View

# Attention in one pass: a unit has some queries, and goes through all keys, chunk by chunk. Compiled once for all.
#
# Of each chunk the keys and the values are packed, and lie in the second cache; then panels of queries take it in turn:
# sums of products with the keys, whose tiles have queries side by side, as the next product wants them; what is
# computed of those, their powers, and the sums of values that these weigh. All scores of a panel lie in the first
# cache. A row whose largest score grows is scaled. What is added up when does not depend on the units.
#
# Sections, as a contraction has them: the tensors; the scores, and those of chunks in which some keys are not seen; how
# many are seen; the results.


SECTIONS = ("tensors", "scores", "limited", "limit", "result")
RECORD = Layout(
    "slots", "slot_count", "queries", "keys", "size", "value_size", "row_units", "rank", "panel", "lanes", "key_rows",
    "value_rows", "value_columns", "chunk", "has_limit", "is_beside", "pack_query", "pack_key", "pack_value",
    "tile_scores", "tile_values", *(f"{name}_at" for name in SECTIONS),
)  # fmt: skip
"""After the header, and before the batch's sizes; `_at` are the words at which sections stand."""
TENSORS = ("query", "key", "value", "target")
ONE = 0x3F800000
"""The bits of 1.0."""
HEAD = 64
"""Bytes before what a unit keeps in its scratch: the scratch's lock."""


def make_attention() -> str:
    """The text of the kernel."""
    return "\n".join([make_stage(), make_bases(), _make_rescale(), _write_kernel(), DECLARED])


def _write_kernel() -> str:
    text = Steps()
    RECORD.load(text)
    for name in SECTIONS:
        text.let(name, f"words + {name}_at * 8")
        text.room(f"{name}_bases", VIEWS)
        text.read(f"{name}_views", f"{name} + 8")
        text.read(f"{name}_numbers", f"{name} + 16")
        text.let(f"{name}_words", f"{name} + 24")
        text.let(f"{name}_steps", f"{name}_words + {name}_views * 8")
        text.let(f"{name}_across", f"{name}_steps + ({name}_views + {name}_numbers) * 8")
        text.read(f"{name}_kernel", name)
    for v, name in enumerate(TENSORS):
        text.read(f"{name}_step", f"tensors_steps + {8 * v}")
        text.read(f"{name}_row", f"tensors_across + {8 * v}")
    text.room("places", VIEWS)
    text.room("leaves", VIEWS)
    text.room("seen", 2)
    take_scratch(text, workspace().size)
    text.let("wide", "(value_size + value_columns - 1) // value_columns * value_columns")
    text.let("out_pitch", "wide * 4")
    text.let("score_pitch", "panel * 4")
    text.let("key_memory", f"scratch + {HEAD}")
    text.let("value_memory", "key_memory + (chunk + key_rows) * size * 4")
    text.let("score_memory", "value_memory + chunk * out_pitch")
    text.let("state_memory", "score_memory + (chunk + key_rows) * score_pitch")
    text.let("panels", "(queries + panel - 1) // panel")
    with text.loop("unit", "begin", "end"):
        _write_unit(text)
    text.add("store atomic i64 0, ptr %slot.ptr release, align 8", "ret i64 0")
    return text.define("i64 @kernel(i64 %words, i64 %begin, i64 %end)")


def _write_unit(text: Steps) -> None:
    find_place(text, "unit // row_units", RECORD.end)
    for name in SECTIONS:
        text.invoke("@bases", name, "rank", "places + 8", f"{name}_bases")
    for v, name in enumerate(TENSORS):
        text.read(f"{name}_base", f"tensors_bases + {8 * v}")
    text.let("part", "unit % row_units")
    text.let("first", "panels * part // row_units * panel")
    text.let("last", "min(panels * (part + 1) // row_units * panel, queries)")
    text.let("count", "(last - first + panel - 1) // panel")
    text.let("query_memory", "state_memory + count * score_pitch * 3")
    text.let("out_memory", "query_memory + count * score_pitch * size")
    with text.loop("q", 0, "count"):
        _place(text, "q")
        text.invoke(
            "pack_query", "query_base + q_first * query_row", "query_row", "query_step", "min(panel, queries)", "size",
            "query_memory + q * score_pitch * size",
        )  # fmt: skip
        with text.loop("q_lane", 0, "panel"):
            text.let("state_q", "state_memory + q * score_pitch * 3 + q_lane * 4")
            text.add(f"store float 0xFFF0000000000000, ptr {text.place('state_q')}, align 4")
            text.add(f"store float 0.0, ptr {text.place('state_q + score_pitch')}, align 4")
    _write_limit(text, "last - 1", "unit")
    with text.loop("chunk_at", 0, "end_unit", "chunk"):
        text.let("more", "min(chunk, end_unit - chunk_at)")
        with text.loop("k", 0, "more", "key_rows"):
            text.invoke(
                "pack_key", "key_base + (chunk_at + k) * key_row", "key_row", "key_step", "min(key_rows, more - k)",
                "size", "key_memory + k * size * 4",
            )  # fmt: skip
        text.let("at_once", "value_size // value_columns * value_columns if is_beside != 0 else 0")
        with text.when("at_once"):
            text.invoke(
                "pack_value", "value_base + chunk_at * value_row", "value_step", "value_row", "at_once", "more",
                "value_memory",
            )  # fmt: skip
        with text.loop("column", "at_once", "value_size", "value_columns"):
            text.invoke(
                "pack_value", "value_base + chunk_at * value_row + column * value_step", "value_step", "value_row",
                "min(value_columns, value_size - column)", "more", "value_memory + column * more * 4",
            )  # fmt: skip
        with text.loop("p", 0, "count"):
            _write_panel(text)
    with text.loop("o", 0, "count"):
        _place(text, "o")
        text.let("o_begin", "first + o * panel")
        with text.loop("r", "o_begin", "min(o_begin + panel, last)"):
            text.put("leaves", "out_memory + (o * panel + r - o_first) * out_pitch")
            text.put("leaves + 8", "state_memory + (o * 3 + 1) * score_pitch + (r - o_first) * 4")
            text.put("leaves + 16", "target_base + r * target_row")
            text.invoke("result_kernel", "result_words", "leaves", "value_size")


def _place(text: Steps, panel: str) -> None:
    """The first query of a panel: the last panel has some of those before it, which it does not write.

    Where there are fewer than a panel has, what is computed of others is not written either.
    """
    text.let(f"{panel}_first", f"max(min(first + {panel} * panel, queries - panel), 0)")


def _write_limit(text: Steps, query: str, name: str) -> None:
    """How many keys a query sees."""
    text.put("seen", "keys")
    with text.when("has_limit"):
        text.invoke("@stage", "limit", "limit_bases", query, 0, 1, 1, "limit_views - 1", "seen", 0)
    text.read(f"seen_{name}", "seen")
    text.let(f"end_{name}", f"max(min(seen_{name}, keys), 0)")


def _write_panel(text: Steps) -> None:
    """A panel of queries with a chunk of keys."""
    _place(text, "p")
    text.let("state", "state_memory + p * score_pitch * 3")
    text.let("out", "out_memory + p * panel * out_pitch")
    _write_limit(text, "min(p_first + panel, queries) - 1", "panel")
    _write_limit(text, "p_first", "all")
    text.let("here", "min(more, end_panel - chunk_at)")
    with text.when("here > 0"):
        with text.loop("s", 0, "here", "key_rows"):
            text.invoke(
                "tile_scores", "key_memory + s * size * 4", "query_memory + p * score_pitch * size", "score_pitch",
                "score_memory + s * score_pitch", "score_pitch", "size", 1, 0, 0, 0,
            )  # fmt: skip
        text.let("is_whole", "1 if chunk_at + here <= end_all else 0")
        with text.loop("lane", 0, "panel", "lanes"):
            with text.when("is_whole != 0"):
                _soften(text, "scores")
            with text.when("is_whole == 0"):
                _soften(text, "limited")
        with text.when("chunk_at > 0"):
            text.invoke("@rescale", "out", "out_pitch", "panel", "state + 2 * score_pitch")
        with text.loop("c", 0, "value_size", "value_columns"), text.loop("row", 0, "panel", "value_rows"):
            text.invoke(
                "tile_values", "score_memory + row * 4", "value_memory + c * more * 4", "value_columns * 4",
                "out + row * out_pitch + c * 4", "out_pitch", "here", "1 if chunk_at == 0 else 0", 0, 0, 0,
            )  # fmt: skip


def _soften(text: Steps, name: str) -> None:
    with text.loop(f"{name}_v", 0, f"{name}_views"):
        text.read(f"{name}_base", f"{name}_bases + {name}_v * 8")
        text.read(f"{name}_on", f"{name}_steps + {name}_v * 8")
        text.read(f"{name}_row", f"{name}_across + {name}_v * 8")
        text.put(f"leaves + {name}_v * 8", f"{name}_base + (p_first + lane) * {name}_row + chunk_at * {name}_on")
    text.invoke(f"{name}_kernel", f"{name}_words", "leaves", "score_memory + lane * 4", "here", "state + lane * 4")


def _make_rescale() -> str:
    """Rows, each multiplied with a number of its own, but for 1."""
    text = Steps()
    with text.loop("r", 0, "rows"):
        one = text.new(f"load float, ptr {text.place('factors + r * 4')}, align 4")
        text.add(f"%bits = zext i32 {text.new(f'bitcast float {one} to i32')} to i64")
        with text.when(f"bits != {ONE}"), text.loop("d", 0, "pitch", 16):
            place = text.place("target + r * pitch + d")
            found = text.new(f"load <4 x float>, ptr {place}, align 4")
            made = text.new(f"fmul <4 x float> {found}, {text.spread(one, 'float', 4)}")
            text.add(f"store <4 x float> {made}, ptr {place}, align 4")
    text.add("ret void")
    names = ("target", "pitch", "rows", "factors")
    return text.define(f"private void @rescale({', '.join(f'i64 %{name}' for name in names)})")


# Attention, planned: panels of queries, chunks of keys, and what a unit of work is.


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


def takes_attention(primitive: Attend) -> bool:
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
    room = workspace().sums_at - HEAD - 4096 - 4 * ((chunk + own.keys) * (size + own.queries) + chunk * wide)
    return _Cut(chunk, room // (4 * (size + wide + 3)) // own.queries * own.queries)


def plan_attention(primitive: Attend) -> KernelProgram | None:
    """One pass over the keys for each panel of queries.

    12 heads of 512 x 64 take 27.8 ms, and 28.9 by way of their scores; 32 of 2048 x 128 take 2.09 s, where ONNX Runtime
    takes 2.30 and PyTorch 2.45. Of causal attention the former take 16.6, and 31.9 (one thread of an Arm Neoverse-N1).
    """
    if not takes_attention(primitive):
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
    kernels = [get_kernel(tile.name, functools.partial(make_microkernel, tile)).address for tile in tiles]
    words = {
        "queries": queries, "keys": keys, "size": size, "value_size": value_size, "row_units": units,
        "panel": own.queries, "lanes": own.lanes, "key_rows": own.keys, "value_rows": own.rows,
        "value_columns": columns, "chunk": cut.chunk, "has_limit": int(primitive.limit is not None),
        "is_beside": int(packs[2][0] == "p"), "tile_scores": kernels[0], "tile_values": kernels[1],
        **{f"pack_{name}": pack.address for name, (_, pack) in zip(TENSORS, packs, strict=False)},
    }  # fmt: skip
    record = record_of(RECORD, words, batch, dict(zip(SECTIONS, sections, strict=True)))
    kernel = get_kernel("attend", make_attention)
    return KernelProgram(kernel, record, units * math.prod(batch), _size(primitive))


def _size(primitive: Attend) -> int:
    return 2 * math.prod(primitive.scores) * sum(primitive.depths) // figures().gemm.flops_per_byte


def _units(primitive: Attend, most: int) -> int:
    """Parts of the queries: as many as there is room for, or as threads want where each has enough to do."""
    *batch, queries, _ = primitive.scores
    threads = 1 if _size(primitive) < SMALL else get_num_threads()
    wanted = -(-figures().gemm.items_per_thread * threads // math.prod(batch)) if threads > 1 else 1
    fewest = -(-queries // most)
    return min(max(fewest, min(wanted, max(queries // FEWEST, 1))), -(-queries // panels().queries))


def _pack(view: View, rows: int, panel: int) -> tuple[str, Kernel]:
    """How elements lie, and what packs panels of them: rows are counted along one of the last two dimensions."""
    across, step = view.strides[rows], view.strides[-3 - rows]
    lies = "p" if across == 1 else "t" if step == 1 else "s"
    packing = Packing(lies, "f16" if view.data_type is DataType.FLOAT16 else "f32", panel, panel)
    return lies, get_kernel(packing.name, functools.partial(make_pack, packing))


# Sections


def _lie(view: View) -> StridedOperand:
    width = view.data_type.size_in_bytes
    return StridedOperand(view.tensor, view.offset * width, tuple(stride * width for stride in view.strides), width)


def _leaf(primitive: Attend, leaf: Expr) -> StridedOperand:
    """How a load beside the sum, or a coordinate, lies along the scores."""
    if leaf.op == "coordinate":
        return StridedOperand("", 0, tuple(int(k == leaf.value) for k in range(len(primitive.scores))), 1)
    return _lie(primitive.beside[int(leaf.value) - 1])


def _tensors(primitive: Attend) -> Section:
    lies = [_lie(view) for view in (*primitive.sources[:3], primitive.target)]
    steps, across = [lie.strides[-1] for lie in lies], [lie.strides[-2] for lie in lies]
    return section_of(0, lies, steps, (), across, range(len(primitive.scores) - 2))


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
    steps, batch = [lie.strides[-1] for lie in lies], range(len(primitive.scores) - 2)
    return section_of(kernel.address, lies, steps, numbers, across, batch)


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


def _mapped(
    value: Expr, leaves: Sequence[Expr], lies: Sequence[StridedOperand], steps: Sequence[int], rank: int
) -> Section:
    """The row of a map over some views, the last of which is written."""
    nodes = list(walk(value))
    widths = [*(1 if leaf.op == "coordinate" else leaf.type.size_in_bytes for leaf in leaves if leaf.type)]
    widths.append(value.type.size_in_bytes if value.type else 1)
    letters = "".join(row_letter(step // width) for step, width in zip(steps, widths, strict=True))
    shape = Shape(tuple(leaves), letters, lanes_of(nodes, widest_of(nodes), letters, VECTOR), stream=False)
    numbers = [word_of(node) for node in givens(nodes)]
    across = [lie.strides[-2] if lie.strides else 0 for lie in lies]
    return section_of(row_kernel((value,), shape).address, lies, steps, numbers, across, range(rank))

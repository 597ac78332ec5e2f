"""Attention in one pass (as FlashAttention): panels of queries, chunks of keys, an online softmax, and values
accumulated. Planned here, with the kernel of a work item.

With a KV cache: `operators/attention.py` lowers what appends new keys and values to the cache to a scatter (`_cached`),
and how many keys a query sees to the verb's `limit`. Here `_fewest` lets even a single query take this way, `_grouped`
has heads that share a cache as queries of one, and in the kernel `_keys_seen` evaluates the limit, behind which no key
is packed, read or multiplied.
"""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.core.symbolic_sizes import is_open
from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu.attention.online_softmax import SUM, Soften, Softening
from anydml.engines.cpu.build import get_kernel, kernel_for
from anydml.engines.cpu.codegen.function import Function
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.features import has_float16, has_fma, multiplies_by_lane
from anydml.engines.cpu.gemm.blocking import MicroTile, Packing, letter_of, pack_kernel, tile_kernel
from anydml.engines.cpu.gemm.operands import NOWHERE, letters_of, map_section
from anydml.engines.cpu.gemm.work_item import Section, WorkItems, make_stage, record_of, section_of, stack_words
from anydml.engines.cpu.launch.call import SMALL
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.launch.record import Layout
from anydml.engines.cpu.rows.map import digest, word_of
from anydml.engines.cpu.rows.row import givens
from anydml.engines.cpu.rows.walk import OUTER_RANK, VIEWS
from anydml.engines.cpu.threads.scratch import workspace
from anydml.ir.attention import Attend
from anydml.ir.contraction import StridedOperand, operand_of
from anydml.ir.expressions import const, coordinate, load
from anydml.ir.numerics import expand
from anydml.ir.trees import rewrite, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.codegen.function import Value
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
_FEW = 4, 8, 16
"""Queries of a panel where there are few."""
HEAD = 64
"""Bytes before what a unit keeps in its scratch: the scratch's lock."""


class AttentionItems(WorkItems):
    """The text of the kernel."""

    def __init__(self) -> None:
        super().__init__(RECORD, SECTIONS)

    def write(self) -> str:
        """All of it."""
        f, of, tensors = self.f, self.of, self.sections["tensors"]
        self.steps, self.down = ([read(v) for v in range(4)] for read in (tensors.step, tensors.on))
        """Bytes of the tensors from an element to the next, and from a row to the next."""
        self.leaves, self.seen = stack_words(f, VIEWS), stack_words(f, 2)
        scratch = self.take_scratch(workspace().size)
        self.out_pitch = (of.value_size + of.value_columns - 1) // of.value_columns * of.value_columns * 4
        self.score_pitch = of.panel * 4
        self.key_memory = scratch + HEAD
        self.value_memory = self.key_memory + (of.chunk + of.key_rows) * of.size * 4
        self.score_memory = self.value_memory + of.chunk * self.out_pitch
        self.state_memory = self.score_memory + (of.chunk + of.key_rows) * self.score_pitch
        self.panels = (of.queries + of.panel - 1) // of.panel
        with self.each() as unit:
            self._unit(unit)
        return self.text(make_stage(), _make_rescale())

    def _unit(self, unit: Value) -> None:
        f, of = self.f, self.of
        self.find_place(unit // of.row_units)
        self.find_bases(*SECTIONS)
        self.query, self.key, self.value, self.target = (self.sections["tensors"].base(v) for v in range(4))
        part = unit % of.row_units
        self.first = self.panels * part // of.row_units * of.panel
        last = f.min(self.panels * (part + 1) // of.row_units * of.panel, of.queries)
        self.count = (last - self.first + of.panel - 1) // of.panel
        self.query_memory = self.state_memory + self.count * self.score_pitch * 3
        self.out_memory = self.query_memory + self.count * self.score_pitch * of.size
        with f.loop(0, self.count) as q:
            f.invoke(
                of.pack_query, self.query + self._first_of(q) * self.down[0], self.down[0], self.steps[0],
                f.min(of.panel, of.queries), of.size, self.query_memory + q * self.score_pitch * of.size,
            )  # fmt: skip
            with f.loop(0, of.panel) as lane:
                state = self.state_memory + q * self.score_pitch * 3 + lane * 4
                f.store(f.value(-math.inf, "float"), state)
                f.store(f.value(0, "float"), state + self.score_pitch)
        end = self._keys_seen(last - 1)
        with f.loop(0, end, of.chunk) as chunk:
            self._chunk(chunk, f.min(of.chunk, end - chunk))
        with f.loop(0, self.count) as o:
            start, begin = self._first_of(o), self.first + o * of.panel
            with f.loop(begin, f.min(begin + of.panel, last)) as r:
                f.store(self.out_memory + (o * of.panel + r - start) * self.out_pitch, self.leaves)
                f.store(self.state_memory + (o * 3 + 1) * self.score_pitch + (r - start) * 4, self.leaves + 8)
                f.store(self.target + r * self.down[3], self.leaves + 16)
                self.sections["result"].run_row(self.leaves, of.value_size)

    def _chunk(self, chunk: Value, more: Value) -> None:
        """All queries of a unit with a chunk of keys and values, which are packed."""
        f, of = self.f, self.of
        _, key_step, value_step, _ = self.steps
        _, key_down, value_down, _ = self.down
        with f.loop(0, more, of.key_rows) as k:
            f.invoke(
                of.pack_key, self.key + (chunk + k) * key_down, key_down, key_step, f.min(of.key_rows, more - k),
                of.size, self.key_memory + k * of.size * 4,
            )  # fmt: skip
        whole = of.value_size // of.value_columns * of.value_columns
        at_once = f.select(of.is_beside.ne(0), whole, 0)
        values = self.value + chunk * value_down
        with f.when(at_once):
            f.invoke(of.pack_value, values, value_step, value_down, at_once, more, self.value_memory)
        with f.loop(at_once, of.value_size, of.value_columns) as column:
            f.invoke(
                of.pack_value, values + column * value_step, value_step, value_down,
                f.min(of.value_columns, of.value_size - column), more, self.value_memory + column * more * 4,
            )  # fmt: skip
        with f.loop(0, self.count) as p:
            self._panel(p, chunk, more)

    def _first_of(self, panel: Value) -> Value:
        """The first query of a panel: the last panel has some of those before it, which it does not write.

        Where there are fewer than a panel has, what is computed of others is not written either.
        """
        f, of = self.f, self.of
        return f.max(f.min(self.first + panel * of.panel, of.queries - of.panel), 0)

    def _keys_seen(self, query: Value) -> Value:
        """How many keys a query sees: all of them, or as many as the cache has up to it."""
        f, of = self.f, self.of
        f.store(of.keys, self.seen)
        with f.when(of.has_limit):
            self.stage("limit", query, 0, 1, 1, self.seen, 0)
        return f.max(f.min(f.load("i64", self.seen), of.keys), 0)

    def _panel(self, p: Value, chunk: Value, more: Value) -> None:
        """A panel of queries with a chunk of keys."""
        f, of = self.f, self.of
        first = self._first_of(p)
        state, out = self.state_memory + p * self.score_pitch * 3, self.out_memory + p * of.panel * self.out_pitch
        here = f.min(more, self._keys_seen(f.min(first + of.panel, of.queries) - 1) - chunk)
        seen_by_all = self._keys_seen(first)
        with f.when(here > 0):
            with f.loop(0, here, of.key_rows) as s:
                f.invoke(
                    of.tile_scores, self.key_memory + s * of.size * 4,
                    self.query_memory + p * self.score_pitch * of.size, self.score_pitch,
                    self.score_memory + s * self.score_pitch, self.score_pitch, of.size, 1, 0, 0, 0,
                )  # fmt: skip
            is_whole = chunk + here <= seen_by_all
            with f.loop(0, of.panel, of.lanes) as lane, f.either(is_whole) as arms:
                for arm, name in zip(arms, ("scores", "limited"), strict=True):
                    with arm:
                        section = self.sections[name]
                        section.find_row(self.leaves, first + lane, chunk)
                        scores = self.score_memory + lane * 4
                        f.invoke(section.kernel, section.words, self.leaves, scores, here, state + lane * 4)
            with f.when(chunk > 0):
                f.invoke("@rescale", out, self.out_pitch, of.panel, state + self.score_pitch * 2)
            is_first = f.select(chunk.eq(0), 1, 0)
            with f.loop(0, of.value_size, of.value_columns) as c, f.loop(0, of.panel, of.value_rows) as row:
                f.invoke(
                    of.tile_values, self.score_memory + row * 4, self.value_memory + c * more * 4,
                    of.value_columns * 4, out + row * self.out_pitch + c * 4, self.out_pitch, here, is_first, 0, 0, 0,
                )  # fmt: skip


def _make_rescale() -> str:
    """Rows, each multiplied with a number of its own, but for 1."""
    f = Function("rescale", "target pitch rows factors", "private void")
    target, pitch, rows, factors = f.args
    with f.loop(0, rows) as r:
        factor = f.load("float", factors + r * 4)
        with f.when(factor.ne(1)), f.loop(0, pitch, 16) as d:
            place = target + r * pitch + d
            f.store(f.load("<4 x float>", place) * f.splat(factor, 4), place)
    return f.end()


# Attention, planned: panels of queries, chunks of keys, and what a unit of work is.


F32 = DataType.FLOAT32


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
    return fits and known and is_plain and len(nodes) < VIEWS and _cut(primitive).most >= figures().attention.queries


def _fewest(primitive: Attend) -> int:
    """Queries from which on one pass is quicker; of fewer than a panel nothing is read that there is not."""
    nodes = (node for node in walk(primitive.seen) if node.op == "load" and node is not SUM)
    is_apart = all(primitive.beside[int(node.value) - 1].strides[-2] == 0 for node in nodes)
    return 1 if primitive.limit is not None and is_apart else figures().attention.queries


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
    own = figures().attention
    width = own.vectors * own.lanes
    wide = -(-value_size // width) * width
    chunk = min(max(own.chunk_bytes // (4 * (size + wide)) // own.keys, 1) * own.keys, own.keys_at_once)
    room = workspace().sums_at - HEAD - 4096 - 4 * ((chunk + own.keys) * (size + own.queries) + chunk * wide)
    return _Cut(chunk, room // (4 * (size + wide + 3)) // own.queries * own.queries)


def plan_attention(primitive: Attend) -> KernelProgram:
    """One pass over the keys for each panel of queries.

    12 heads of 512 x 64 take 27.8 ms, and 28.9 by way of their scores; 32 of 2048 x 128 take 2.09 s, where ONNX Runtime
    takes 2.30 and PyTorch 2.45. Of causal attention the former take 16.6, and 31.9 (one thread of an Arm Neoverse-N1).
    """
    primitive = _grouped(primitive)
    own, cut = figures().attention, _cut(primitive)
    *batch, queries, keys = primitive.scores
    panel = _panel_of(queries)
    lanes, rows = min(own.lanes, panel), min(own.rows, panel)
    size, value_size = primitive.depths
    query, key, value = primitive.sources[:3]
    columns = own.vectors * own.lanes
    tiles = (
        MicroTile(own.keys, panel // lanes, lanes, own.keys, multiplies_by_lane()),
        MicroTile(rows, own.vectors, own.lanes, panel, multiplies_by_lane()),
    )
    packs = [_pack(query, -2, panel), _pack(key, -2, own.keys), _pack(value, -1, columns)]
    sections = (
        _tensors(primitive),
        _scores(primitive, primitive.score, panel),
        _scores(primitive, primitive.seen, panel),
        _limit(primitive),
        _result(primitive),
    )
    units = _units(primitive, cut.most)
    words = {
        "queries": queries, "keys": keys, "size": size, "value_size": value_size, "row_units": units,
        "panel": panel, "lanes": lanes, "key_rows": own.keys, "value_rows": rows,
        "value_columns": columns, "chunk": cut.chunk, "has_limit": int(primitive.limit is not None),
        "is_beside": int(packs[2][0] == "p"),
        "tile_scores": tile_kernel(tiles[0]), "tile_values": tile_kernel(tiles[1]),
        **{f"pack_{name}": pack.address for name, (_, pack) in zip(TENSORS, packs, strict=False)},
    }  # fmt: skip
    record = record_of(RECORD, words, batch, dict(zip(SECTIONS, sections, strict=True)))
    kernel = kernel_for("attention", AttentionItems)
    return KernelProgram(kernel, record, units * math.prod(batch), _size(primitive))


def _panel_of(queries: int) -> int:
    """Queries of a panel: of a decoder's step, which has as many as there are heads with one cache, no more than those.

    What is computed beside them is thrown away: 12 heads of 64 that share 4 caches of 512 took 360 us in panels of 32.
    """
    own = figures().attention
    return next((few for few in _FEW if queries <= few < own.queries and few % min(own.rows, few) == 0), own.queries)


def _size(primitive: Attend) -> int:
    return 2 * math.prod(primitive.scores) * sum(primitive.depths) // figures().gemm.flops_per_byte


def _units(primitive: Attend, most: int) -> int:
    """Parts of the queries: as many as there is room for, or as threads want where each has enough to do."""
    *batch, queries, _ = primitive.scores
    if not is_open(queries) and queries <= figures().attention.queries:  # however many keys there are
        return 1
    threads = 1 if _size(primitive) < SMALL else get_num_threads()
    wanted = -(-figures().gemm.items_per_thread * threads // math.prod(batch)) if threads > 1 else 1
    fewest = -(-queries // most)
    own = figures().attention
    return min(max(fewest, min(wanted, max(queries // own.least_queries, 1))), -(-queries // own.queries))


def _pack(view: View, rows: int, panel: int) -> tuple[str, Kernel]:
    """How elements lie, and what packs panels of them: rows are counted along one of the last two dimensions."""
    lies = letter_of(view.strides[-3 - rows], view.strides[rows], 1)
    packing = Packing(lies, "f16" if view.data_type is DataType.FLOAT16 else "f32", panel, panel)
    return lies, pack_kernel(packing)


# Sections


def _leaf(primitive: Attend, leaf: Expr) -> StridedOperand:
    """How a load beside the sum, which is load 0, or a coordinate, lies along the scores."""
    return operand_of(leaf, (primitive.target, *primitive.beside), len(primitive.scores)).in_bytes


def _tensors(primitive: Attend) -> Section:
    lies = [StridedOperand.of(view).in_bytes for view in (*primitive.sources[:3], primitive.target)]
    steps, across = [lie.strides[-1] for lie in lies], [lie.strides[-2] for lie in lies]
    return section_of(0, lies, steps, (), across, range(len(primitive.scores) - 2))


def _scores(primitive: Attend, score: Expr, panel: int) -> Section:
    """The section that computes scores of sums, and their powers."""
    score = expand(score)
    nodes = list(walk(score))
    leaves = tuple(node for node in nodes if node.op in ("load", "coordinate") and node is not SUM)
    lies = [_leaf(primitive, leaf) for leaf in leaves]
    across = [lie.strides[-2] for lie in lies]
    shape = Softening(leaves, letters_of(across, lies), min(figures().attention.lanes, panel), panel)
    key = f"{digest(score)} {shape[1:]}"
    name = f"online-softmax {hashlib.sha256(key.encode()).hexdigest()[:32]}"
    kernel = get_kernel(name, functools.partial(Soften, score, shape))
    numbers = [word_of(node) for node in givens(nodes)]
    steps, batch = [lie.strides[-1] for lie in lies], range(len(primitive.scores) - 2)
    return section_of(kernel.address, lies, steps, numbers, across, batch)


def _limit(primitive: Attend) -> Section:
    """The section that computes how many keys a query sees."""
    value = expand(primitive.limit if primitive.limit is not None else const(0, DataType.INT64))
    leaves = [node for node in walk(value) if node.op in ("load", "coordinate")]
    lies = [*(_leaf(primitive, leaf) for leaf in leaves), NOWHERE._replace(width=8)]
    return _mapped(primitive, value, leaves, lies, [0] * len(leaves) + [8])


def _result(primitive: Attend) -> Section:
    """A row of sums, divided by the sum of its powers."""
    leaves, target = [load(0, F32), load(1, F32)], StridedOperand.of(primitive.target).in_bytes
    value = (leaves[0] / leaves[1]).to(primitive.target.data_type)
    return _mapped(primitive, value, leaves, [NOWHERE, NOWHERE, target], [4, 0, target.strides[-1]])


def _mapped(
    primitive: Attend, value: Expr, leaves: Sequence[Expr], lies: Sequence[StridedOperand], steps: Sequence[int]
) -> Section:
    """Rows of a map across the queries."""
    across = [lie.strides[-2] if lie.strides else 0 for lie in lies]
    return map_section(value, leaves, lies, steps, across, range(len(primitive.scores) - 2))

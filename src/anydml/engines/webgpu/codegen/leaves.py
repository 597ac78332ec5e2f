"""Leaves: the elements that trees read, of any type of at most 32 bits, for kernels that choose their own walk.

An element is read where the walk's coordinates lead, or at lines of them that may lie outside of the source; it is
one number of 32 bits, or four of them at once.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.core.memory import packed_strides
from anydml.engines.webgpu.codegen.walks import TYPES, Leaves
from anydml.engines.webgpu.codegen.wgsl import WGSL
from anydml.engines.webgpu.device import WORD
from anydml.ir.expressions import FOLDS, Expr, load
from anydml.ir.legalise import legalise
from anydml.ir.padded_reads import match_reached
from anydml.ir.row_passes import levels_of
from anydml.ir.trees import rewrite, walk
from anydml.ir.verbs import Write
from anydml.ir.views import View
from anydml.ir.windows import walked_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.webgpu.codegen.wgsl import Body
    from anydml.ir.verbs import Reduce
    from anydml.ir.windows import Axis

F16, F32, I32, U32 = DataType.FLOAT16, DataType.FLOAT32, DataType.INT32, DataType.UINT32
QUAD = 4
"""Elements that are read at once."""
WIDE = {
    F32: F32, I32: I32, U32: U32, F16: F32, DataType.INT8: I32, DataType.INT16: I32, DataType.UINT8: U32,
    DataType.UINT16: U32,
}  # fmt: skip
"""By type in memory, the type of a number that is read."""


class Leaf(NamedTuple):
    """Elements of a source as a walk reads them."""

    view: View
    """All that may be read."""
    start: int
    strides: tuple[int, ...]
    """By dimension of the walk."""
    limits: tuple[Axis, ...]
    """The lines of indices that may lie outside."""
    outside: Expr | None
    """The number that stands there."""

    @property
    def kind(self) -> DataType:
        """In memory."""
        return self.view.data_type

    @property
    def wide(self) -> DataType:
        """As it is read."""
        return WIDE[self.view.data_type]

    @property
    def words(self) -> View:
        """The same memory by words."""
        per = WORD // self.kind.size_in_bytes
        if per == 1:
            return self.view
        reach = [(size - 1) * step for size, step in zip(self.view.sizes, self.view.strides, strict=True)]
        low, high = (self.view.offset + sum(of(one, 0) for one in reach) for of in (min, max))
        return View(self.view.tensor, U32, (high // per - low // per + 1,), (1,), low // per)

    def has_quads(self, dimension: int, size: int) -> bool:
        """Whether four elements along a dimension can be read at once wherever it begins; or are one."""
        if any(axis.steps.get(dimension) for axis in self.limits):
            return False
        others = [step for k, step in enumerate(self.strides) if k != dimension]
        if not self.strides[dimension]:
            return True
        return self.strides[dimension] == 1 and not any(n % QUAD for n in (size, self.start, *others))

    def text(self, body: Body, at: str) -> str:
        """An element."""
        return self.element(body, self.place_of(body, at))

    def quad(self, body: Body, at: str) -> str:
        """Four elements, of which the first is named."""
        return self.element(body, self.place_of(body, at, is_quad=True), is_quad=True)

    def place_of(self, body: Body, at: str, *, is_quad: bool = False) -> str:
        """The number of an element, or of four, in the array that it is read of: it goes on by one for each."""
        name = body.tensor(self.words, self._kept(is_quad))
        base = body.base(name)
        if not is_quad:
            return f"{base} + {at}" if self.kind.size_in_bytes == WORD else at
        return {
            4: f"({base} + {at}) / 4u", 2: f"({base} + ({at}) / 2u) / 2u", 1: f"{base} + ({at}) / 4u"
        }[self.kind.size_in_bytes]  # fmt: skip

    def _kept(self, is_quad: bool) -> str:
        return {4: "vec4<u32>", 2: "vec2<u32>", 1: "u32"}[self.kind.size_in_bytes] if is_quad else "u32"

    def element(self, body: Body, index: str, *, is_quad: bool = False) -> str:
        """The element, or the four, of an index."""
        width = self.kind.size_in_bytes
        name = body.tensor(self.words, self._kept(is_quad))
        if width == WORD:
            kind = f"vec4<{WGSL.types[self.kind]}>" if is_quad else WGSL.types[self.kind]
            return f"bitcast<{kind}>({name}[{index}])"
        if not is_quad:
            place, per = body.line(index), WORD // width
            word = f"{name}[{body.base(name)} + {place} / {per}u]"
            if self.kind is F16:
                return f"unpack2x16float({word})[{place} & 1u]"
            bits = 32 // per
            word = f"bitcast<i32>({word})" if self.wide is I32 else word
            return f"extractBits({word}, ({place} & {per - 1}u) * {bits}u, {bits}u)"
        words = body.line(f"{name}[{index}]")
        if width == 1:
            return f"unpack4x{'I' if self.wide is I32 else 'U'}8({words})"
        if self.kind is F16:
            return f"vec4<f32>(unpack2x16float({words}.x), unpack2x16float({words}.y))"
        kind = WGSL.types[self.wide]
        words = f"bitcast<vec2<{kind}>>({words})"
        cut = ", ".join(f"extractBits({words}.{part}, {by}u, 16u)" for part in "xy" for by in (0, 16))
        return f"vec4<{kind}>({cut})"


def own_views(leaves: Sequence[Leaf], sizes: tuple[int, ...]) -> tuple[View, ...]:
    """Views that no memory has, of what is read by leaves."""
    return tuple(View(f"\0leaf{k}", leaf.wide, sizes, packed_strides(sizes)) for k, leaf in enumerate(leaves))


def take_leaves(values: Sequence[Expr], primitive: Reduce) -> tuple[list[Expr], tuple[Leaf, ...]] | None:
    """Trees with a load of a number of 32 bits, of a source of its own, for each element that they read.

    None where an element is wider, or is fetched at indices that are no lines.
    """
    found: dict[Expr, Leaf] = {}
    pending = list(values)
    while pending:
        node = pending.pop()
        if node in found:
            continue
        is_fetched = node.op in ("where", "fetch") and match_reached(node) is not None
        if node.op == "load" or is_fetched:
            leaf = _leaf_of(node, primitive)
            if leaf is None:
                return None
            found[node] = leaf
        elif node.op == "fetch":
            return None
        else:
            pending += node.args
    made = {node: load(slot, leaf.wide) for slot, (node, leaf) in enumerate(found.items())}
    for node in walk(*values, known=found):
        # A cast of a narrow number takes the one that was read; else it is made narrow again.
        args = [
            made[arg] if arg not in found or node.op == "cast" else made[arg].to(found[arg].kind) for arg in node.args
        ]
        is_done = node.op == "cast" and args[0].type is node.type
        made[node] = args[0] if is_done else Expr(node.op, node.type, tuple(args), node.value)
    whole = [made[value].to(found[value].kind) if value in found else made[value] for value in values]
    return whole, tuple(found.values())


def _leaf_of(node: Expr, primitive: Reduce) -> Leaf | None:
    """What a load, or an element at lines of indices, reads; None for types that are not read."""
    rank = len(primitive.sizes)
    if node.op == "load":
        view = primitive.sources[int(node.value)]
        leaf = Leaf(view, view.offset, view.strides, (), None)
    else:
        walked = walked_by(node, primitive.sources, {})
        if walked is None:
            return None
        strides = tuple(walked.stride(k) for k in range(rank))
        leaf = Leaf(walked.view, walked.start, strides, walked.limits, walked.outside)
    if leaf.kind not in WIDE or node.type is not leaf.kind:
        return None
    return None if leaf.limits and (leaf.outside is None or leaf.outside.op not in ("const", "given")) else leaf


def outside_text(body: Body, leaf: Leaf) -> str:
    """The number that stands where a leaf has no element."""
    outside = leaf.outside
    assert outside is not None  # noqa: S101 - for type checkers: a leaf with limits has it
    node = Expr(outside.op, leaf.wide, (), outside.value)
    if node.op == "const":
        return WGSL.constant(node)
    with body.scope():
        body.given(node)
        return body.names[node]


# Folds of what leaves read


class LeafFolds:
    """A reduce with one value a row whose folds do not depend on one another, as trees over leaves, in 32 bits."""

    def __init__(self, verb: Reduce, values: Sequence[Expr], leaves: tuple[Leaf, ...]) -> None:
        self.verb, self.leaves = verb, leaves
        own = own_views(leaves, verb.sizes)
        first, *also = itertools.starmap(Write, zip(verb.targets, values, strict=True))
        whole = replace(verb, sources=own, value=first.value, also=tuple(also), rows=verb.rows)
        self.legal = legalise(whole, TYPES)
        self.all = Leaves.of(self.legal)
        nodes = list(walk(*self.all.values))
        self.folds = [node for node in nodes if node.op in FOLDS]
        names = {view.tensor: k for k, view in enumerate(own)}
        self.loads = {n: names[self.legal.sources[int(n.value)].tensor] for n in nodes if n.op == "load"}
        """By node, the number of its leaf."""
        self.folded = set(walk(*(arg for fold in self.folds for arg in fold.args)))
        """The nodes that are computed of each element."""
        self.after = set(walk(*self.all.values, known=self.folds))
        """Those that are computed of folds."""
        self.kept = len(verb.sizes) - verb.depth

    @classmethod
    def of(cls, verb: Reduce) -> LeafFolds | None:
        """None where folds depend on one another, or what they read or fold is wider, or is fetched elsewhere."""
        verb = verb.computing(lambda value: rewrite(value, _widened))
        kinds = {node.type for node in walk(*verb.values) if node.op in FOLDS}
        taken = take_leaves(verb.values, verb)
        if taken is None or max(levels_of(*verb.values).values(), default=0) != 1:
            return None
        if any(kind is None or kind.size_in_bytes > WORD for kind in kinds):
            return None
        made = cls(verb, *taken)
        nodes = walk(*made.all.values)
        is_narrow = all(len(fold.args) == 1 for fold in made.folds)
        return made if is_narrow and not any(node.op == "fetch" for node in nodes) else None

    def moving(self) -> list[Sequence[int]]:
        """Strides of all that moves along dimensions of the walk: those that lie as one does may be merged."""
        rank = len(self.verb.sizes)
        rows: list[Sequence[int]] = [(*view.strides, *(0,) * (rank - len(view.strides))) for view in self.all.targets]
        rows += [view.strides for view in self.verb.targets]
        rows += [leaf.strides for leaf in self.leaves]
        rows += [steps_along(axis, rank) for leaf in self.leaves for axis in leaf.limits]
        return rows + [tuple(int(k == node.value) for k in range(rank)) for node in self.all.coordinates]


def _widened(node: Expr) -> Expr:
    """The largest and the smallest of halves are those of their FLOAT32."""
    is_half = node.op in ("fold_max", "fold_min") and node.type is F16
    return Expr(node.op, F32, (node.args[0].to(F32),)).to(F16) if is_half else node


def steps_along(axis: Axis, rank: int) -> tuple[int, ...]:
    """How a line of indices goes along each dimension of a walk."""
    return tuple(axis.steps.get(k, 0) for k in range(rank))


def is_fused(fold: Expr) -> bool:
    """Whether a fold is a sum of products of FLOAT32, each of which is rounded with the sum."""
    return fold.op == "fold_sum" and fold.type is F32 and fold.args[0].op == "mul"

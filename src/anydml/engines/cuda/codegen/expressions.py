"""From an expression tree to a Triton function: text that walks its views, and computes a node a line."""

from __future__ import annotations

import functools
import itertools
import linecache
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import triton
import triton.language as tl

from anydml.engines.cuda.attention import attention_kernel as attention
from anydml.engines.cuda.codegen import arithmetic_kernel as arithmetic
from anydml.engines.cuda.conv import implicit_gemm_kernel as windows
from anydml.engines.cuda.dependent_launch import ask_for_lines, take_turn
from anydml.engines.cuda.gemm import gemm_kernel as products
from anydml.engines.cuda.move.gather_kernel import NONE_OUTSIDE
from anydml.engines.cuda.quant import int4_mma_kernel as nibbles
from anydml.engines.cuda.quant import weight_only_kernel as weights
from anydml.engines.cuda.rows import reduce_kernel as rows
from anydml.engines.cuda.rows import tiles_kernel as places
from anydml.engines.cuda.rows.map_kernel import number_of
from anydml.engines.cuda.rows.tiles import alignment_of
from anydml.engines.cuda.rows.tiles_kernel import begin, fetch, put_four, reach
from anydml.ir.expressions import Expr, maximum, minimum
from anydml.ir.trees import rewrite, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.enums import DataType
    from anydml.ir.views import View

# From an expression to a Triton function: the text of one that walks its views, and computes a node a line.


NAMES = {
    "triton": triton, "tl": tl, "begin": begin, "fetch": fetch, "reach": reach, "put_four": put_four,
    "number_of": number_of, "arithmetic": arithmetic, "rows": rows, "products": products, "weights": weights,
    "attention": attention, "windows": windows, "places": places, "nibbles": nibbles,
    "NONE_OUTSIDE": NONE_OUTSIDE, "take_turn": take_turn, "ask_for_lines": ask_for_lines,
}  # fmt: skip
"""Names that the text of a kernel refers to."""
_numbers = itertools.count()

ANY = {
    **{name: f"arithmetic.truth({{0}} {sign} {{1}})" for name, sign in (("lt", "<"), ("le", "<="), ("eq", "=="))},
    "where": "tl.where({0}, {1}, {2})",
    "and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} ^ {1}", "shl": "{0} << {1}", "shr": "{0} >> {1}",
    **{name: f"tl.{name}({{0}}, {{1}}, propagate_nan=tl.PropagateNan.ALL)" for name in ("maximum", "minimum")},
    "abs": "tl.abs({0})", "cast": "number_of({0}, {type})", "bits": "{0}.to({type}, bitcast=True)",
}  # fmt: skip
FLOAT = ANY | {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "arithmetic.divided({0}, {1})",
    "neg": "({0}.to({bits}, bitcast=True) ^ {sign}).to({type}, bitcast=True)",  # 0 - 0 is not -0
    "fma": "arithmetic.fma({0}, {1}, {2})", "sqrt": "arithmetic.root({0})",
    "exp2": "tl.exp2({0})",  # which no engine has but this one
    **{name: f"arithmetic.{name}({{0}})" for name in ("floor", "ceil", "trunc", "rint")},
}  # fmt: skip
WHOLE = ANY | {
    **{name: f"tl.{name}({{0}}, {{1}}, sanitize_overflow=False)" for name in ("add", "sub", "mul")},
    "div": "{0} // {1}", "rem": "{0} % {1}",
    "neg": "tl.sub({zero}, {0}, sanitize_overflow=False)", "not": "{0} ^ {ones}",
}  # fmt: skip
TRUTH = ANY | {"not": "~{0}"}
"""Operations in Triton by the kind of what they give: a node's arguments, and constants of its type by name."""
BOUNDS = {"maximum": maximum, "minimum": minimum}
"""Operations that Triton has and trees have not."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """A kernel, and what it is to be given."""

    function: Any
    """Takes pointers, a walk's numbers, the coordinates' first ones, the user's numbers, strides, TILE, and REACHes."""
    slots: tuple[int, ...]
    """The sources that it reads."""
    dimensions: tuple[int, ...]
    """The dimensions whose coordinates it computes with: views of the walk after the sources."""
    given: tuple[Expr, ...]
    """The user's numbers."""
    operations: int
    fetches: tuple[Expr, ...]
    """Fetched values, each by a pointer and its source's strides."""


def emit(
    values: Sequence[Expr], sources: Sequence[View] = (), verdicts: int = 0, *, is_interleaved: bool = False
) -> Emitted:
    """A kernel for trees of operations alone, one for each target; of four that are interleaved, for the first.

    It writes nothing where one of so many verdicts finds a fault. Of the sources it must know the strides of those that
    are fetched from.
    """
    values = [rewrite(value, bounded) for value in values]
    nodes = list(walk(*values))
    loads, coordinates, given, fetches = (
        [node for node in nodes if node.op == op] for op in ("load", "coordinate", "given", "fetch")
    )
    names = {node: f"v{number}" for number, node in enumerate(nodes)}
    targets = [f"target{number}" for number in range(1 if is_interleaved else len(values))]
    views = range(len(loads) + len(coordinates) + len(targets))
    pointers = [*(f"p{view}" for view in range(len(loads))), *targets]
    fetched = {node: f"f{number}" for number, node in enumerate(fetches)}
    strides = [f"strides_{name}" for name in fetched.values()]
    guards = [f"verdict{number}" for number in range(verdicts)]
    numbers = ["counts", "blocks", "sizes", *(f"{of}{view}" for view in views for of in ("steps", "strides"))]
    starts = [f"start{number}" for number in range(len(coordinates))]
    chosen = [f"given{number}" for number in range(len(given))]
    constants = [f"{name}: tl.constexpr" for name in ("TILE", *(f"REACH{view}" for view in views))]
    firsts = [f"{start}.to(tl.int64) * REACH{view}.align" for view, start in enumerate(starts, len(loads))]
    bases = [*pointers[: len(loads)], *firsts, *targets]
    walked = [f"steps{view}, sizes, strides{view}, TILE, REACH{view}" for view in views]
    places = [f"reach({base}, row, first, number, {how})" for base, how in zip(bases, walked, strict=True)]
    computed = {
        **{
            node: f"fetch(p{view}, row, first, number, mask, counts, {walked[view]})" for view, node in enumerate(loads)
        },
        **dict(zip(coordinates, places[len(loads) :], strict=False)),
        **{node: from_bits(f"{number}.to(tl.int64)", node.type) for node, number in zip(given, chosen, strict=True)},
    }
    for node in nodes:  # loads come first
        if node.op == "fetch":
            computed[node] = _fetch(node, fetched[node], names, sources[int(node.value)])
        elif node not in computed:
            computed[node] = text_of(node, names)
    parameters = [*pointers, *fetched.values(), *guards, *numbers, *starts, *chosen, *strides, *constants]
    stored = places[-len(targets) :]
    if is_interleaved:
        stores = [f"put_four({stored[0]}, {', '.join(names[value] for value in values)}, mask, TILE)"]
    else:
        stores = [f"tl.store({at}, {names[value]}, mask=mask)" for at, value in zip(stored, values, strict=True)]
    lines = [
        "@triton.jit",
        f"def generated_map({', '.join(parameters)}):",
        *(f"    if tl.load({guard}) != NONE_OUTSIDE:\n        return" for guard in guards),
        "    row, first, number, mask = begin(counts, blocks, TILE)",
        *(f"    {names[node]} = {text}" for node, text in computed.items()),
        *(f"    {store}" for store in stores),
    ]
    slots, dimensions = (tuple(int(node.value) for node in of) for of in (loads, coordinates))
    operations = sum(bool(node.args) for node in nodes)
    return Emitted(function_of("\n".join(lines) + "\n"), slots, dimensions, tuple(given), operations, tuple(fetches))


def _fetch(node: Expr, pointer: str, names: dict[Expr, str], source: View) -> str:
    """Elements at computed places. Strides of 1, and what the others are multiples of, the compiler is to know."""
    parts = list(enumerate(zip(node.args, source.strides, strict=True)))
    align = fetch_align(source)
    far = [f"{names[index]} * strides_{pointer}[{k}]" for k, (index, stride) in parts if stride not in (0, 1)]
    near = [names[index] for _, (index, stride) in parts if stride == 1]
    offset = " + ".join([*([f"({' + '.join(far)}) * {align}"] if far else []), *near]) or "0"
    return f"tl.load({pointer} + arithmetic.spread({offset}, mask), mask=mask)"


def fetch_align(source: View) -> int:
    """The common divisor of a source's strides, those of 1 aside."""
    return alignment_of(stride for stride in source.strides if stride not in (0, 1))


def bounded(node: Expr) -> Expr:
    """A choice between a number and a constant as the larger or the smaller: one instruction of a GPU, not three.

    Of two zeros a tree has the second, and a GPU that of the sign: so the constant is none.
    """
    if node.op != "where" or (limit := node.args[2]).op != "const" or not limit.value:
        return node
    found = [name for name, make in BOUNDS.items() if make(node.args[1], limit) is node]
    return Expr(found[0], node.type, node.args[1:]) if found else node


@functools.cache
def function_of(text: str) -> Any:
    """A Triton function from its text, which Triton reads where Python keeps the lines of files.

    It takes its turn first, where the text does not say when.
    """
    head, line, body = text.partition(":\n")
    if "take_turn()" not in body:
        text = f"{head}{line}    take_turn()\n{body}"
    name = f"<anydml {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space = {**NAMES, "__name__": __name__}
    exec(compile(text, name, "exec"), space)  # noqa: S102 - text of our own, of names and numbers
    return next(found for name, found in space.items() if name.startswith("generated_"))


def bits_of(node: Expr) -> int:
    """A number as kernels take it: the bits of its type, with the sign of an integer of 64."""
    assert node.type is not None  # noqa: S101 - for type checkers: users choose numbers
    if node.type.is_float:
        return int(np.array(node.value, node.type.dtype).view(f"i{node.type.size_in_bytes}"))
    return (int(node.value) + 2**63) % 2**64 - 2**63


def text_of(node: Expr, names: dict[Expr, str]) -> str:
    """A node that is no load, of arguments that have names."""
    if node.op == "const":
        return constant(node)
    table = TRUTH if node.type is None else FLOAT if node.type.is_float else WHOLE
    arguments = [names[arg] for arg in node.args]
    more = {} if node.type is None else _words(node.type)
    return table[node.op].format(*arguments, **more)


def _words(of: DataType) -> dict[str, str]:
    width = 8 * of.size_in_bytes
    kind, bits = type_of(of), f"tl.int{width}"
    ones = -1 if of.is_signed else 2**width - 1
    numbers = {"sign": (-1 << (width - 1), bits), "zero": (0, kind), "ones": (ones, kind)}
    return {"type": kind, "bits": bits} | {name: f"tl.full((), {n}, {type})" for name, (n, type) in numbers.items()}


def constant(node: Expr) -> str:
    """A number of the operator's."""
    if node.type is None:
        return f"tl.full((), {int(node.value)}, tl.int1)"
    if node.type.is_float and (not math.isfinite(node.value) or str(node.value) == "-0.0"):  # which have no literals
        return from_bits(f"tl.full((), {bits_of(node)}, tl.int{8 * node.type.size_in_bytes})", node.type)
    return f"tl.full((), {node.value!r}, {type_of(node.type)})"


def from_bits(text: str, of: DataType | None) -> str:
    """The number whose bits an integer ends with."""
    assert of is not None  # noqa: S101 - for type checkers: truths are not in memory
    if not of.is_float:
        return f"{text}.to({type_of(of)})"
    return f"{text}.to(tl.int{8 * of.size_in_bytes}).to({type_of(of)}, bitcast=True)"


def type_of(of: DataType) -> str:
    """A type as Triton's language names it."""
    return f"tl.{of.dtype.name}"


# The text of a kernel as it grows: line by line, with a name for each node that is computed.


class Lines:
    """Lines of Triton, and the names of what they compute."""

    def __init__(self, indent: str = "", *, is_turned: bool = False) -> None:
        self.names: dict[Expr, str] = {}
        self.lines: list[str] = []
        self.indent = indent
        self.fresh = itertools.count()
        # Of a tile of words the compiler gives neighbouring threads what lies along its first coordinate: where columns
        # do, the largest of 3 x 3 takes 45 us instead of 111.
        self.down, self.beside = ("[None, :]", "[:, None]") if is_turned else ("[:, None]", "[None, :]")
        self.sizes = "TILE.columns, TILE.rows" if is_turned else "TILE.rows, TILE.columns"

    def say(self, *lines: str) -> None:
        """Write lines."""
        self.lines += [self.indent + line for line in lines]

    def put(self, node: Expr, text: str) -> None:
        """Compute a node, under a name of its own."""
        name = f"v{next(self.fresh)}"
        self.say(f"{name} = {text}")
        self.names[node] = name

    def line(self, text: str) -> str:
        """A line, and the name of what it computes."""
        name = f"v{next(self.fresh)}"
        self.say(f"{name} = {text}")
        return name

    def taken_apart(self, name: str, count: int) -> list[str]:
        """The elements of words of so many, a power of two: a tile for each."""
        parts = {0: name}
        half = count
        while half > 1:  # into those at even places and at odd ones
            half //= 2
            last = f"{half}, 2" if half > 1 else "2"
            found = dict[int, str]()
            for place, part in parts.items():
                even, odd = (f"v{next(self.fresh)}" for _ in range(2))
                self.say(f"{even}, {odd} = tl.split(tl.reshape({part}, ({self.sizes}, {last})))")
                found |= {place: even, place + count // half // 2: odd}
            parts = found
        return [parts[place] for place in range(count)]


def put_together(results: Sequence[str]) -> str:
    """Tiles as one of words, whose last coordinates count from the one joined last on."""
    if len(results) == 1:
        return results[0]
    return f"tl.join({put_together(results[::2])}, {put_together(results[1::2])})"

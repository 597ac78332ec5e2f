"""Triton as a dialect, and functions of its text: what the generated kernels of every room are written with."""

from __future__ import annotations

import functools
import itertools
import linecache
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

from anydml.core.enums import DataType
from anydml.engines.common.dialect import Dialect, Lines, bits_of, offset
from anydml.engines.cuda.attention import attention_kernel as attention
from anydml.engines.cuda.codegen import arithmetic_kernel as arithmetic
from anydml.engines.cuda.conv import implicit_gemm_kernel as windows
from anydml.engines.cuda.dependent_launch import ask_for_lines, wait_for_previous
from anydml.engines.cuda.gemm import gemm_kernel as products
from anydml.engines.cuda.move.gather_kernel import NONE_OUTSIDE
from anydml.engines.cuda.quant import int4_mma_kernel as int4_mma
from anydml.engines.cuda.quant import weight_only_kernel as weights
from anydml.engines.cuda.rows import reduce_kernel as rows
from anydml.engines.cuda.rows import tiles_kernel as places
from anydml.engines.cuda.rows.map_kernel import number_of
from anydml.engines.cuda.rows.tiles_kernel import begin, fetch, put_four, reach
from anydml.ir.expressions import Expr, maximum, minimum

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = {
    "triton": triton, "tl": tl, "begin": begin, "fetch": fetch, "reach": reach, "put_four": put_four,
    "number_of": number_of, "arithmetic": arithmetic, "rows": rows, "products": products, "weights": weights,
    "attention": attention, "windows": windows, "places": places, "int4_mma": int4_mma,
    "NONE_OUTSIDE": NONE_OUTSIDE, "wait_for_previous": wait_for_previous, "ask_for_lines": ask_for_lines,
}  # fmt: skip
"""Names that the text of a kernel refers to."""
_numbers = itertools.count()

_ANY = {
    **{name: f"arithmetic.truth({{0}} {sign} {{1}})" for name, sign in (("lt", "<"), ("le", "<="), ("eq", "=="))},
    "where": "tl.where({0}, {1}, {2})",
    "and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} ^ {1}", "shl": "{0} << {1}", "shr": "{0} >> {1}",
    **{name: f"tl.{name}({{0}}, {{1}}, propagate_nan=tl.PropagateNan.ALL)" for name in ("maximum", "minimum")},
    "abs": "tl.abs({0})", "cast": "number_of({0}, {type})", "bits": "{0}.to({type}, bitcast=True)",
}  # fmt: skip
TRITON = Dialect(
    types={None: "tl.int1", **{of: f"tl.{of.dtype.name}" for of in DataType}},
    floats=_ANY | {
        "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "arithmetic.divided({0}, {1})",
        "neg": "({0}.to({bits}, bitcast=True) ^ {sign}).to({type}, bitcast=True)",  # 0 - 0 is not -0
        "fma": "arithmetic.fma({0}, {1}, {2})", "sqrt": "arithmetic.root({0})",
        "exp2": "tl.exp2({0})",  # which no engine has but this one
        **{name: f"arithmetic.{name}({{0}})" for name in ("floor", "ceil", "trunc", "rint")},
    },
    integers=_ANY | {
        **{name: f"tl.{name}({{0}}, {{1}}, sanitize_overflow=False)" for name in ("add", "sub", "mul")},
        "div": "{0} // {1}", "rem": "{0} % {1}",
        "neg": "tl.sub({zero}, {0}, sanitize_overflow=False)", "not": "{0} ^ {ones}",
    },
    truths=_ANY | {"not": "~{0}"},
    literal="tl.full((), {value}, {type})",
    narrow="{0}.to({type})",
)  # fmt: skip
"""Triton's operations: those that it rounds otherwise, compiled or interpreted, are functions of our own."""
BOUNDS = {"maximum": maximum, "minimum": minimum}
"""Operations that Triton has and trees have not."""


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
    if "wait_for_previous()" not in body:
        text = f"{head}{line}    wait_for_previous()\n{body}"
    name = f"<anydml {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space = {**NAMES, "__name__": __name__}
    exec(compile(text, name, "exec"), space)  # noqa: S102 - text of our own, of names and numbers
    return next(found for name, found in space.items() if name.startswith("generated_"))


@dataclass(frozen=True, slots=True)
class Emitted:
    """A generated function, and the leaves of its expression that it takes arguments for."""

    function: Any
    """Takes pointers, the walk's numbers, the coordinates' first ones, the user's numbers, strides, and constants."""
    given: tuple[Expr, ...]
    """The user's numbers."""
    slots: tuple[int, ...] = ()
    """The sources that it reads."""
    dimensions: tuple[int, ...] = ()
    """The dimensions whose coordinates it computes with: views of the walk after the sources."""
    fetches: tuple[Expr, ...] = ()
    """Fetched values, each by a pointer and its source's strides."""
    operations: int = 0

    @property
    def numbers(self) -> list[int]:
        """The user's numbers as arguments."""
        return list(map(bits_of, self.given))


class TritonLines(Lines):
    """Lines of a Triton function over tiles of rows by columns."""

    def __init__(self, indent: str = "", *, is_transposed: bool = False) -> None:
        super().__init__(TRITON, indent)
        # Of a tile of words the compiler gives neighbouring threads what lies along its first coordinate: where columns
        # do, the largest of 3 x 3 takes 45 us instead of 111.
        self.down, self.beside = ("[None, :]", "[:, None]") if is_transposed else ("[:, None]", "[None, :]")
        self.sizes = "TILE.columns, TILE.rows" if is_transposed else "TILE.rows, TILE.columns"

    def define(self, name: str, parameters: Sequence[str]) -> None:
        """Begin the function; what follows is its body."""
        self.lines += ["@triton.jit", f"def generated_{name}({', '.join(parameters)}):"]
        self.indent = "    "

    def take_given(self, nodes: Sequence[Expr], parameters: Sequence[str]) -> None:
        """The user's numbers, of which parameters have the bits."""
        for node, name in zip(nodes, parameters, strict=True):
            self.put(node, given_text(name, node))

    def function(self) -> Any:
        """The function that the lines are."""
        return function_of("\n".join(self.lines) + "\n")

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


def given_text(parameter: str, node: Expr) -> str:
    """A number of the user's, of which a parameter has the bits."""
    return TRITON.from_bits(f"{parameter}.to(tl.int64)", node.type)


def load_text(place: str, masks: Sequence[str], other: str = "0") -> str:
    """Elements, and others where one of the masks is false; nothing is said of those without `other`."""
    masked = f", mask={' & '.join(masks)}{f', other={other}' if other else ''}" if masks else ""
    return f"tl.load({place}{masked})"


def split(number: str, coordinates: str, sizes: str, rank: int) -> list[str]:
    """Lines that take a running number apart, the fastest dimension first."""
    known = sizes.startswith("TILE")
    texts = [f"{sizes}[{k}]" if known else f"{sizes}[{k}].to(tl.int32)" for k in range(rank)]
    return TRITON.coordinates(number, [f"{coordinates}{k}" for k in range(rank)], texts)


def weighted(coordinates: str, strides: str, rank: int, first: str = "") -> str:
    """first + Σ coordinate·stride."""
    names = [f"{coordinates}{k}" for k in range(rank)]
    return offset(names, [f"{strides}[{k}].to({name}.dtype)" for k, name in enumerate(names)], first)

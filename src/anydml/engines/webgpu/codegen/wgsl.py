"""WGSL: the dialect of expressions, functions of our own for what WGSL leaves open, and `Body`, which writes a kernel.

Drivers rewrite the algebra of floats: they fuse a·b + c, cancel (a + b) - a, drop a·0 and a + 0, and take a != a as
false. `keep` hides a number from that, by an XOR with a word that is 0 in every dispatch; tests of NaN are of bits.
"""

from __future__ import annotations

import contextlib
import math
import re
from typing import TYPE_CHECKING

from anydml.core.enums import DataType
from anydml.engines.common.dialect import Dialect, Lines, bits_of
from anydml.engines.webgpu.device import WORD
from anydml.engines.webgpu.launch import LANES, Binding, Kernel, groups_of
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anydml.engines.webgpu.device import Gpu
    from anydml.ir.expressions import Expr
    from anydml.ir.views import View

F32, I32, U32 = DataType.FLOAT32, DataType.INT32, DataType.UINT32
SMALLEST = 2.0**-126
"""The least normal FLOAT32: smaller numbers are no literals."""

FUNCTIONS = """
fn keep(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ N.zero); }
fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
fn to_i32(x: f32) -> i32 {
  if (is_nan(x)) { return 0; }
  if (x >= 2147483648.0) { return 2147483647; }
  if (x <= -2147483648.0) { return i32(-2147483648); }
  return i32(x);
}
fn to_u32(x: f32) -> u32 {
  if (is_nan(x) || x <= 0.0) { return 0u; }
  if (x >= 4294967296.0) { return 4294967295u; }
  return u32(x);
}
"""
FUSED = {
    "fma": "fn fused(a: f32, b: f32, c: f32) -> f32 { return fma(a, b, c); }\n",
    # The product by halves of 12 bits, and both errors, rounded to odd, added to the sum, which is rounded once so.
    # Where halves would overflow, or errors be denormal, factors are scaled: a denormal result is rounded twice.
    "split": """fn half_of(x: f32) -> f32 { let t = keep(4097.0 * x); return keep(t - keep(t - x)); }
fn in_range(a: f32, b: f32, c: f32) -> f32 {
  let p = keep(a * b);
  let s = keep(p + c);
  let ah = half_of(a); let al = keep(a - ah); let bh = half_of(b); let bl = keep(b - bh);
  let pe = keep(keep(keep(keep(ah * bh) - p) + keep(ah * bl)) + keep(al * bh)) + keep(al * bl);
  let v = keep(s - p);
  let se = keep(keep(p - keep(s - v)) + keep(c - v));
  let e = keep(keep(pe) + se);
  let w = keep(e - pe);
  let r = keep(keep(pe - keep(e - w)) + keep(se - w));
  let b0 = bitcast<u32>(e);
  let odd = select(b0 - 1u, b0 + 1u, (e > 0.0) == (r > 0.0));
  return s + bitcast<f32>(select(b0, odd, r != 0.0 && (b0 & 1u) == 0u));
}
fn fused(a: f32, b: f32, c: f32) -> f32 {
  let p = keep(a * b);
  let s = keep(p + c);
  let e = (bitcast<u32>(p) >> 23u) & 255u;
  let is_tiny = e < 40u && abs(c) <= 1e-20;
  let is_huge = max(abs(a), abs(b)) > 1e30;
  let x = select(b, a, abs(a) > abs(b)) * select(1.0, 2.3283064365386963e-10, is_huge);
  let y = select(a, b, abs(a) > abs(b)) * select(1.0, 18446744073709551616.0, is_tiny);
  let z = c * select(select(1.0, 2.3283064365386963e-10, is_huge), 18446744073709551616.0, is_tiny);
  let r = keep(in_range(keep(x), keep(y), keep(z)));
  let found = r * select(select(1.0, 4294967296.0, is_huge), 5.421010862427522e-20, is_tiny);
  let is_plain = e == 255u || (bitcast<u32>(s) & 0x7f800000u) == 0x7f800000u || p == 0.0 || (e < 40u && !is_tiny);
  return select(found, s, is_plain);
}
""",
}
DIVIDE = """
fn divide(a: f32, b: f32) -> f32 {
  let q = keep(a / b);
  let e = bitcast<u32>(q) & 0x7f800000u;
  let d = bitcast<u32>(b) & 0x7f800000u;
  if (e <= 0x0c800000u || e >= 0x7f000000u || d <= 0x00800000u || d >= 0x7e000000u) { return q; }
  return fused(fused(-q, b, a), 1.0 / b, q);
}
"""
ROOT = """
fn root(x: f32) -> f32 {
  let s = keep(sqrt(x));
  let e = bitcast<u32>(x);
  if (e <= 0x0c800000u || e >= 0x7f800000u) { return s; }
  return fused(fused(-s, s, x), 0.5 / s, s);
}
"""
_ANY = {
    "where": "select({2}, {1}, {0})", "bits": "bitcast<{type}>({0})",
    "lt": "({0} < {1})", "le": "({0} <= {1})", "eq": "({0} == {1})",
}  # fmt: skip


class Wgsl(Dialect):
    """The operations of WGSL, in types that every device has: see `ir/legalise.py`."""

    def text(self, node: Expr, names: Mapping[Expr, str]) -> str:
        """A node that reads no memory; what a driver would see through is hidden from it."""
        args = [names[arg] for arg in node.args]
        of = node.args[0].type if node.args else None
        if node.op == "eq" and of is F32 and node.args[0] is node.args[1]:
            return f"!is_nan({args[0]})"
        if node.op == "where" and node.type is F32 and node.args[0].op in ("lt", "le"):
            # A number that is chosen by a comparison of itself would be made a `min` or `max`, which lose NaN.
            test, *both = args
            yes, no = (
                f"keep({name})" if part in node.args[0].args else name
                for part, name in zip(node.args[1:], both, strict=True)
            )
            return f"select({no}, {yes}, {test})"
        if node.op == "where" and (is_least := _clamps(node)) is not None:  # three operations for six
            _, x, end = args
            return f"select(keep({x}), {end}, {end} <= {x})" if is_least else f"select(keep({x}), {end}, {x} <= {end})"
        if node.op == "cast":
            if node.args[0].op == "coordinate" or of is node.type:
                return args[0]
            if of is F32:
                return f"to_{self.types[node.type]}({args[0]})"
            return f"{self.types[node.type]}({args[0]})"
        if node.op == "rem" and node.type is I32:  # Vulkan leaves open what it is of a negative number
            return f"({args[0]} - ({args[0]} / {args[1]}) * {args[1]})"
        if node.op in ("shl", "shr"):
            return f"({args[0]} {'<<' if node.op == 'shl' else '>>'} u32({args[1]}))"
        if node.type is F32 and node.op in ("sub", "div") and node.args[0] is node.args[1]:
            return f"({args[0]} {'-' if node.op == 'sub' else '/'} keep({args[0]}))"
        return super().text(node, names)

    def constant(self, node: Expr) -> str:
        """A number of the operator's; 0, NaN, infinities and denormals are bits, which are no constants to a driver."""
        if node.type is None:
            return "true" if node.value else "false"
        if node.type is F32:
            number = float(node.value)
            if math.isfinite(number) and abs(number) >= SMALLEST:
                return f"f32({number!r})"
            return f"bitcast<f32>({bits_of(node) & 0xFFFFFFFF:#x}u ^ N.zero)"
        if node.type is U32:
            return f"{int(node.value) % 2**32}u"
        return f"i32({(int(node.value) + 2**31) % 2**32 - 2**31})"


WGSL = Wgsl(
    types={None: "bool", F32: "f32", I32: "i32", U32: "u32"},
    floats=_ANY | {
        "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "({0} * {1})", "div": "divide({0}, {1})",
        "neg": "bitcast<f32>(bitcast<u32>({0}) ^ 0x80000000u)", "abs": "abs({0})",
        "fma": "fused({0}, {1}, {2})", "sqrt": "root({0})",
        "floor": "floor({0})", "ceil": "ceil({0})", "trunc": "trunc({0})", "rint": "round({0})",
    },
    integers=_ANY | {
        "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "({0} * {1})", "div": "({0} / {1})", "rem": "({0} % {1})",
        "neg": "({type}(0) - {0})", "abs": "abs({0})", "and": "({0} & {1})", "or": "({0} | {1})", "xor": "({0} ^ {1})",
        "not": "~{0}",
    },
    truths=_ANY | {"and": "({0} && {1})", "or": "({0} || {1})", "xor": "({0} != {1})", "not": "!{0}"},
    literal="{type}({value})",
    narrow="{type}({0})",
    let="let {0} = {1};",
    update="{0} = {1};",
    quotient="({0} / {1})",
    remainder="({0} % {1})",
)  # fmt: skip


def _clamps(node: Expr) -> bool | None:
    """Whether the smaller (or the larger) of a float and a constant is chosen, a NaN staying; None for others."""
    test, x, end = node.args
    if node.type is not F32 or test.op != "or" or end.op != "const" or math.isnan(end.value):
        return None
    if test.args[1] is not x.is_nan or test.args[0] not in (x < end, end < x):
        return None
    return test.args[0] is (x < end)


_SUMS = {"add": (0, 1), "sub": (0, 1), "fma": (2,)}
"""Of what takes part in a sum, the arguments that a driver may fuse or cancel."""
_ROUNDED = {"add", "sub", "mul", "div", "fma"}


def hidden_from_algebra(*values: Expr) -> set[Expr]:
    """The results of float arithmetic that a sum takes."""
    found: set[Expr] = set()
    for node in walk(*values):
        if node.type is F32 and node.op in _SUMS:
            found.update(node.args[k] for k in _SUMS[node.op] if node.args[k].op in _ROUNDED)
    return found


class Body(Lines):
    """A kernel as it is written: bindings of words by tensor, numbers that a dispatch gives, and statements.

    `unit` is the number of the workgroup, and `lane` that of the invocation in it.
    """

    def __init__(self, lanes: int = LANES, fuses: str = "split", exact: bool = False, is_precise: bool = True) -> None:
        super().__init__(WGSL, "  ")
        self.lanes, self.fuses, self.exact = lanes, fuses, exact
        self._spans: dict[str, list[int]] = {}
        """By tensor, the lowest and the highest word that is read or written."""
        self._order: list[tuple[str, str]] = []
        """The tensors that are bound, and as what."""
        self.numbers: list[int] = []
        self._numbered: dict[object, str] = {}
        self._declared: list[str] = []
        self._functions: list[str] = []
        self.is_precise = is_precise
        self.kept: set[Expr] = set()

    @classmethod
    def on(cls, gpu: Gpu) -> Body:
        """For a device."""
        return cls(fuses=gpu.fuses, exact=gpu.is_exact, is_precise=gpu.is_precise)

    def declare(self, text: str) -> None:
        """Functions of a kernel's own."""
        self._functions.append(text)

    def function(
        self, name: str, parameters: str, result: str, given: Mapping[Expr, str], values: Sequence[Expr], form: str
    ) -> None:
        """A function of what its parameters give: a form of some values, which read no memory."""
        lines, names = self.lines, self.names
        self.lines, self.names = [], dict(given)
        self.take(*values)
        for node in walk(*values, known=tuple(self.names)):
            self.operate(node)
        text = form.format(*(self.names[value] for value in values))
        body = "\n".join([*self.lines, f"  return {text};"])
        self.lines, self.names = lines, names
        self.declare(f"fn {name}({parameters}) -> {result} {{\n{body}\n}}\n")

    # What a kernel is given

    def number(self, value: int, key: object = None) -> str:
        """A word that comes with the dispatch, so that one text serves all sizes; small constants are text."""
        if key is None and value in (0, 1):
            return f"{value}u"
        key = key if key is not None else ("value", value)
        if key not in self._numbered:
            self._numbered[key] = f"N.n{len(self.numbers)}"
            self.numbers.append(value)
        return self._numbered[key]

    def tensor(self, view: View, element: str = "u32") -> str:
        """The name of a tensor's words, all of those of the view in reach; FLOAT64 takes two."""
        lowest = highest = view.offset
        for size, stride in zip(view.sizes, view.strides, strict=True):
            reach = (size - 1) * stride
            lowest, highest = lowest + min(reach, 0), highest + max(reach, 0)
        if element == "f64":
            lowest, highest = 2 * lowest, 2 * highest + 1
        span = self._spans.setdefault(view.tensor, [lowest, highest])
        span[:] = [min(span[0], lowest), max(span[1], highest)]
        if (key := (view.tensor, element)) not in self._order:
            self._order.append(key)
        return f"t{self._order.index(key)}"

    def base(self, name: str) -> str:
        """Where a tensor's own first element lies, in words from the binding's first: known when all views are."""
        return f"<{name}>"

    def share(self, name: str, element: str, count: int) -> None:
        """Workgroup memory."""
        self._declared.append(f"var<workgroup> {name}: array<{element}, {count}>;\n")

    def load(self, view: View, at: str, of: DataType) -> str:
        """The text of the word at an index from a view's tensor on, as a number of a type."""
        name = self.tensor(view)
        word = f"{name}[{self.base(name)} + {at}]"
        return word if of is U32 else f"bitcast<{WGSL.types[of]}>({word})"

    def double(self, view: View, coordinates: Sequence[str]) -> str:
        """An element of FLOAT64, on a device that has it."""
        strides = [
            self.number(step, (view.tensor, k) if step not in (0, 1) else None) for k, step in enumerate(view.strides)
        ]
        first = self.number(view.offset, (view.tensor,) if view.offset else None)
        name = self.tensor(view, "f64")
        return f"{name}[{self.base(name)} / 2u + {sum_of(first, coordinates, strides)}]"

    def store(self, view: View, at: str, value: str, of: DataType | None) -> None:
        """Write a word."""
        name = self.tensor(view)
        text = value if of is U32 else f"bitcast<u32>({value})"
        self.say(f"{name}[{self.base(name)} + {at}] = {text};")

    def insert(self, view: View, word: str, mask: str, value: str) -> None:
        """Write a part of a word that other invocations write the rest of."""
        name = self.tensor(view, "atomic<u32>")
        at = self.line(f"{self.base(name)} + u32({word})")
        self.say(f"atomicAnd(&{name}[{at}], ~({mask}));", f"atomicOr(&{name}[{at}], {value});")

    # Expressions

    def take(self, *values: Expr) -> None:
        """Trees that are about to be written."""
        hidden = hidden_from_algebra(*values)
        self.kept |= hidden if self.is_precise else {node for node in hidden if node.op != "mul"}

    def operate(self, node: Expr) -> None:
        """Compute a node that reads no memory."""
        text = self.dialect.text(node, self.names)
        self.put(node, f"keep({text})" if node in self.kept else text)

    def given(self, node: Expr) -> None:
        """A number of the user's, which is no constant."""
        word = self.number(bits_of(node) & 0xFFFFFFFF, key=node)
        self.put(node, word if node.type is U32 else f"bitcast<{WGSL.types[node.type]}>({word})")

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Names that are given within braces are forgotten after them."""
        before = dict(self.names)
        yield
        self.names.clear()
        self.names.update(before)

    # The whole

    def kernel(self, units: int) -> Kernel:
        """The kernel, for so many workgroups."""
        bindings, bases, declared = [], {}, []
        body, functions = "\n".join(self.lines), "".join(self._functions)
        for k, (tensor, element) in enumerate(self._order):
            low, high = self._spans[tensor]
            is_written = re.search(rf"\bt{k}\[[^;]*\](\.[xyzw])? = |\(&t{k}\[", functions + body) is not None
            bindings.append(Binding(tensor, low * WORD, (high - low + 1) * WORD, is_written))
            bases[f"<t{k}>"] = f"N.b{k}" if not low else f"N.b{k} - {self.number(low)}"
            declared.append(f"@group(0) @binding({k}) var<storage, read_write> t{k}: array<{element}>;\n")
        for mark, text in bases.items():
            body, functions = body.replace(mark, text), functions.replace(mark, text)
        used = [FUNCTIONS]
        if not self.exact:
            divide, root = DIVIDE, ROOT
        else:
            divide = "fn divide(a: f32, b: f32) -> f32 { return a / b; }\n"
            root = "fn root(x: f32) -> f32 { return sqrt(x); }\n"
        needs_divide, needs_root = ("divide(" in body + functions, "root(" in body + functions)
        if "fused(" in body + functions or ((needs_divide or needs_root) and not self.exact):
            used.append(FUSED[self.fuses])
        used += [divide] * needs_divide + [root] * needs_root + [functions]
        text = (
            "{NUMBERS}"
            + "".join(declared + self._declared + used)
            + f"@compute @workgroup_size({self.lanes})\nfn main(@builtin(workgroup_id) group: vec3<u32>, "
            "@builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {\n"
            f"  let unit = group.y * groups.x + group.x;\n{body}\n}}\n"
        )
        return Kernel(text, tuple(bindings), tuple(self.numbers), groups_of(units))


def sum_of(first: str, coordinates: Sequence[str], strides: Sequence[str]) -> str:
    """first + Σ coordinate·stride, without what is 0."""
    parts = [first] if first not in ("", "0u") else []
    for at, stride in zip(coordinates, strides, strict=True):
        if stride == "1u":
            parts.append(at)
        elif stride != "0u":
            parts.append(f"{at} * {stride}")
    return " + ".join(parts) or "0u"

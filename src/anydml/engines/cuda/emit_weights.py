"""From a sum of a·q·s, with weights q of few bits, and the expression around it to a Triton function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.engines.cuda.emit import from_bits, function_of, text_of
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.ir.expressions import Expr
    from anydml.ir.weights import Weights


@dataclass(frozen=True, slots=True)
class WeightsForm:
    """The facts that the text of a kernel depends on besides the expression."""

    rows: int
    bits: int
    """Of a weight: 4 or 8."""
    flip: int
    """The bits of a word to be turned, which makes numbers with a sign others without."""
    zero: float
    """The excess of the weights then, where it is no load."""
    times: int
    """Words of a thread in a step."""
    is_even: bool
    """Whether steps fill the columns' lengths."""
    by_block: tuple[bool, ...]
    """By load of the left factor, whether there is one for a block alone."""


def emit_weights(value: Expr, found: Weights, lefts: Sequence[Expr], rests: Sequence[Expr], form: WeightsForm) -> Any:
    """A kernel: some columns a program, with all rows.

    It takes pointers (weights, scales, zero points where they are loads, the left factor's loads, the others', the
    target), the numbers of columns and of words, two strides of each view, the user's numbers, and TILE.
    """
    has_zeros = found.right.has_zeros
    given = [node for node in walk(value) if node.op == "given"]
    own = ["scale", *(["zero"] if has_zeros else [])]
    pointers = ["weights_", *own, *(f"left{k}" for k in range(len(lefts))), *(f"rest{k}" for k in range(len(rests)))]
    pointers.append("target")
    strides = [f"strides_{name}" for name in pointers]
    chosen = [f"given{k}" for k in range(len(given))]
    lines = [
        "@triton.jit",
        f"def generated_weights({', '.join([*pointers, 'columns', 'units', *strides, *chosen])}, TILE: tl.constexpr):",
        "    first_column = tl.program_id(0) * TILE.columns",
        "    count, length = columns.to(tl.int32), units.to(tl.int32)",
        "    ask_for_lines(weights_, strides_weights_[0], first_column, count, length, TILE.columns, TILE.units)",
        "    take_turn()",
        "    column = first_column + tl.arange(0, TILE.columns)",
        "    is_column = column < columns",
        "    across = column.to(tl.int64)[None, :]",
        "    inside = is_column[None, :]",
    ]
    names: dict[Expr, str] = {}
    for node, name in zip(given, chosen, strict=True):
        names[node] = f"v_{name}"
        lines.append(f"    v_{name} = {from_bits(f'{name}.to(tl.int64)', node.type)}")
    lines += [f"    total{m} = tl.full((TILE.units, TILE.columns), 0, tl.float32)" for m in range(form.rows)]
    lines.append(f"    for first in range(0, units.to(tl.int32), {form.times} * TILE.units):")
    lines += [f"        {line}" for line in _step(found, lefts, has_zeros, names, form)]
    for m in range(form.rows):
        lines.append(f"    sum{m} = tl.sum(total{m}, 0)")
        lines += [f"    {line}" for line in _finish(value, found.fold, rests, names, m)]
    return function_of("\n".join(lines) + "\n")


def _step(
    found: Weights, lefts: Sequence[Expr], has_zeros: bool, given: Mapping[Expr, str], form: WeightsForm
) -> list[str]:
    """Words of weights, one a thread: every row with all of them.

    Words that are neighbours are read by threads that are, so that what they need of a row lies together too; a stride
    of 1 that the compiler does not know keeps it from giving four of them to one thread.
    """
    each = 32 // form.bits
    lines = []
    for time in range(form.times):
        lines += [f"unit{time} = first + {time} * TILE.units + tl.arange(0, TILE.units)"]
        mask = "inside"
        if not form.is_even:
            lines.append(f"there{time} = unit{time} < units")
            mask = f"inside & there{time}[:, None]"
        place = f"weights_ + across * strides_weights_[0] + unit{time}[:, None] * strides_weights_[1]"
        flip = f" ^ {form.flip}" if form.flip else ""
        lines.append(f"word{time} = tl.load({place}, mask={mask}, other=0){flip}")
        lines.append(f"block{time} = (unit{time} // TILE.block).to(tl.int64)")
        for name in ("scale", *(["zero"] if has_zeros else [])):
            place = f"{name} + across * strides_{name}[0] + block{time}[:, None] * strides_{name}[1]"
            lines.append(f"{name}{time} = tl.load({place}, mask={mask}, other=0).to(tl.float32)")
    if not has_zeros:
        lines.append(f"zero_ = tl.full((), {form.zero!r}, tl.float32)")
    for time in range(form.times):
        zero = f"zero{time}" if has_zeros else "zero_"
        along = "" if form.is_even else f", mask=there{time}[:, None], other=0"
        for m in range(form.rows):
            for i in range(each // 4):
                names = dict(given)
                for k, (node, is_by_block) in enumerate(zip(lefts, form.by_block, strict=True)):
                    start = f"left{k} + {m} * strides_left{k}[0]"
                    names[node] = f"x{k}"
                    if is_by_block:
                        at = f"{start} + (block{time} * strides_left{k}[1])[:, None]"
                    else:
                        at = f"{start} + (unit{time}[:, None] * {each} + {4 * i} + tl.arange(0, 4)[None, :])"
                    lines.append(f"x{k} = tl.load({at}{along})")
                for number, node in enumerate(walk(found.left, known=names)):
                    names[node] = f"y{number}"
                    lines.append(f"y{number} = {text_of(node, names)}")
                four = ", ".join(f"a{4 * i + k}" for k in range(4))
                lines.append(f"{four} = weights.four({names[found.left]})")
            numbers = ", ".join(f"a{k}" for k in range(each))
            add = "add_nibbles" if form.bits == 4 else "add_bytes"
            none = "tl.full((TILE.units, TILE.columns), 0, tl.float32)"
            lines.append(f"part = weights.{add}({none}, word{time}, {zero}, {numbers})")
            lines.append(f"total{m} = arithmetic.fma(part, scale{time}, total{m})")
    return lines


def _finish(value: Expr, fold: Expr, rests: Sequence[Expr], given: Mapping[Expr, str], m: int) -> list[str]:
    """The result of the sums of a row."""
    names, lines = {**given, fold: f"sum{m}"}, []
    for k, node in enumerate(rests):
        names[node] = f"r{m}_{k}"
        place = f"rest{k} + {m} * strides_rest{k}[0] + column.to(tl.int64) * strides_rest{k}[1]"
        lines.append(f"{names[node]} = tl.load({place}, mask=is_column)")
    for number, node in enumerate(walk(value, known=names)):
        names[node] = f"f{m}_{number}"
        lines.append(f"{names[node]} = {text_of(node, names)}")
    place = f"target + {m} * strides_target[0] + column.to(tl.int64) * strides_target[1]"
    lines.append(f"tl.store({place}, {names[value]}, mask=is_column)")
    return lines

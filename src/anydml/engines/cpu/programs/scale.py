"""Conversions and scales, planned: the line is chosen by the pair of types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.programs.copy import CopyProgram
from anydml.engines.cpu.programs.lines import LineProgram, as_word, kind_of, streams, walk_words
from anydml.ir.patterns import copy_of, match_scaled
from anydml.ir.plan import loops_of, simplify

if TYPE_CHECKING:
    from anydml.ir.patterns import Scaled
    from anydml.ir.verbs import Map


def moves_bits(primitive: Scaled) -> bool:
    """Whether elements only change their type's name: equal types, and integers of one width."""
    source, target = primitive.source.data_type, primitive.target.data_type
    same_width = source.size_in_bytes == target.size_in_bytes
    return primitive.is_conversion and same_width and source.is_float == target.is_float


def plan_scaled(verb: Map) -> CopyProgram | LineProgram | None:
    """Choose the line by the pair of types; a map that moves bits is a copy."""
    if (primitive := match_scaled(verb)) is None:
        return None
    source, target = primitive.source, primitive.target
    if moves_bits(primitive):
        return CopyProgram.plan(copy_of(source, target))
    widths = (source.data_type.size_in_bytes, target.data_type.size_in_bytes)
    loops = simplify(loops_of(source, target), 1)
    words, units = walk_words(loops, widths)
    line = f"line {_function(primitive)}"
    get_kernel(line)
    stream = f"{line} stream" if streams(loops, widths[1], loops.count * widths[1]) else ""
    if stream:
        get_kernel(stream)
    return LineProgram(
        views=(source, target),
        offsets=(loops.offsets[0] * widths[0], loops.offsets[1] * widths[1]),
        walk=get_kernel("walk"),
        line=line,
        words=words,
        parameters=(as_word(primitive.scale), as_word(primitive.bias)),
        rest=(),
        units=units,
        size=loops.count * sum(widths),
        stream=stream,
    )


def _function(primitive: Scaled) -> str:
    """A line's name, with that of the pairs that share it: bits are cut off whatever their sign."""
    source, target = kind_of(primitive.source.data_type), kind_of(primitive.target.data_type)
    if not primitive.is_conversion:
        return f"scale {source} {target}"
    if "f" not in source + target:
        target = f"u{target[1:]}"
        source = f"u{source[1:]}" if int(target[1:]) < int(source[1:]) else source
    return f"convert {source} {target}"

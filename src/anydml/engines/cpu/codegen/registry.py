"""Which source makes the kernel of which name. Loaded only to compile."""

from __future__ import annotations

from typing import Any

from anydml.engines.cpu.codegen.outer_loops import make_line_walk
from anydml.engines.cpu.move.copy_kernel import make_copy, make_transposed
from anydml.engines.cpu.move.gather_kernel import make_check, make_gather
from anydml.engines.cpu.move.padding_kernel import make_bordered, make_placed
from anydml.engines.cpu.move.reverse_kernel import make_reverse, make_reverse_columns
from anydml.engines.cpu.move.scan_kernel import NARROW, make_columns, make_lines, make_long, make_rows
from anydml.engines.cpu.move.scatter_kernel import make_scatter
from anydml.engines.cpu.move.top_k_kernel import make_top


def make_kernel(name: str) -> Any:
    """The Python function of a kernel, to be compiled."""
    family, *rest = name.split()
    if family == "copy":
        kind, width, *flags = rest
        return make_copy(int(width), kind, "stream" in flags, "far" in flags)
    if family == "bordered":
        return make_bordered()
    if family == "placed":
        return make_placed(int(rest[0]))
    if family == "walk":
        return make_line_walk()
    if family == "reverse":
        return (make_reverse_columns if rest else make_reverse)()
    if family == "transpose":
        return make_transposed(int(rest[0]), "stream" in rest)
    if family == "check":
        return make_check(rest[0])
    if family == "gather":
        shape, width, index, *flags = rest
        return make_gather(index, shape, int(width), "stream" in flags, "checked" in flags)
    if family == "scatter":
        shape, width, index = rest
        return make_scatter(index, shape, int(width))
    if family == "top":
        return make_top(rest[0], rest[1], rest[2] == "largest")
    makers: dict[str, Any] = {"lines": make_lines, "rows": make_rows, "columns": make_columns, "long": make_long}
    shape, kind, function, *flags = rest
    options: list[int] = ["exclusive" in flags, "carried" in flags]
    if shape in ("rows", "long"):
        options.append("reverse" in flags)
    if shape == "columns":
        options.append(NARROW if "narrow" in flags else 2 if "deep" in flags else 1)
    if shape in ("rows", "columns"):
        options.append("stream" in flags)
    return makers[shape](kind, function, *options)

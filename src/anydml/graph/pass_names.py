"""The names of graph passes, and those that somebody disables; the passes are imported where they are first needed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from anydml.core.errors import DescriptionError, Fault, show
from anydml.core.late_imports import import_alone

OF_MODELS = {
    "qdq_to_int8": "products and convolutions of dequantised numbers are of the bytes that those were, "
    "and sums are exact.",
}
"""Passes over a model's nodes, before they are a graph."""
OLD_NAMES = {
    "absorb": "store_forwarding",
    "attend": "attention",
    "channels": "nhwc_layout",
    "constants": "constant_folding",
    "dead": "dce",
    "direction": "scan_direction",
    "divide": "split_k",
    "forward": "copy_propagation",
    "fuse": "fusion",
    "hoist": "hoisting",
    "known": "index_folding",
    "layouts": "prepacking",
    "matrices": "matrix_layout",
    "narrow": "narrowing",
    "order": "layout_order",
    "outside": "padding",
    "parts": "part_fusion",
    "rows": "row_fusion",
    "same": "cse",
    "scales": "scale_folding",
    "tables": "lookup_tables",
    "together": "horizontal_fusion",
    "weights": "weight_only",
    "whole": "qdq_to_int8",
    "zeros": "zero_points",
}
"""Names that passes had, which are still taken, with a warning."""


def graph_passes() -> dict[str, str]:
    """The passes of the optimiser that can be disabled, by name, with a sentence on each.

    `Graph.compile`, `Device.compile_graph` and `anydml.onnx.load` take names of it as `disable_passes`, and `explain()`
    says what each did.
    """
    import_alone("anydml.graph.optimise")
    from anydml.graph.optimise import told_passes  # with all passes: 10 ms of import

    return dict(sorted({**told_passes(), **OF_MODELS}.items()))


def read_disabled(given: object, subject: str, *, without: object = None) -> frozenset[str]:
    """The names of passes that somebody disables: one, or several; `without` is the argument's name of before."""
    if without is not None:
        warnings.warn(f"{subject}: without= is called disable_passes= now", FutureWarning, stacklevel=3)
        given = without if given == () else given
    if given == ():
        return frozenset()
    known = graph_passes()
    names = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else None
    names = names if names is None else [renamed(name) for name in names]
    wrong = [given] if names is None else [name for name in names if not isinstance(name, str) or name not in known]
    if wrong:
        rule, way_out = "disable_passes must name graph passes", f"there are {', '.join(known)}"
        fault = Fault(field="disable_passes", rule=rule, value=wrong[0], found=show(wrong[0]), way_out=way_out)
        raise DescriptionError(subject, fault)
    return frozenset(map(str, names or ()))


def renamed(name: object) -> object:
    """The name that a pass has now, of one that it had before."""
    if not isinstance(name, str) or name not in OLD_NAMES:
        return name
    now = OLD_NAMES[name]
    warnings.warn(f"the graph pass {name!r} is called {now!r} now", FutureWarning, stacklevel=4)
    return now

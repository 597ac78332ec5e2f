"""The names of rewritings, and those that somebody leaves out; the rules are imported where they are first needed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from anydml.core.errors import DescriptionError, Fault, show
from anydml.core.late_imports import import_alone

OF_MODELS = {
    "whole": "products and convolutions of dequantised numbers are of the bytes that those were, and sums are exact.",
}
"""Rewritings of a model's nodes, before they are a graph."""
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
    "zeros": "zero_points",
}
"""Names that rewritings had, which are still taken, with a warning."""


def rewritings() -> dict[str, str]:
    """The rewritings that a graph or a model can be compiled without, by name, with a sentence on each.

    `Graph.compile`, `Device.compile_graph` and `anydml.onnx.load` take names of it as `without`, and `explain()` says
    what each did.
    """
    import_alone("anydml.graph.optimise")
    from anydml.graph.optimise import told_rules  # with all rules: 10 ms of import

    return dict(sorted({**told_rules(), **OF_MODELS}.items()))


def read_without(given: object, subject: str) -> frozenset[str]:
    """The names of rewritings that somebody leaves out: one, or several."""
    if given == ():
        return frozenset()
    known = rewritings()
    names = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else None
    names = names if names is None else [renamed(name) for name in names]
    wrong = [given] if names is None else [name for name in names if not isinstance(name, str) or name not in known]
    if wrong:
        rule, way_out = "without must name rewritings", f"there are {', '.join(known)}"
        fault = Fault(field="without", rule=rule, value=wrong[0], found=show(wrong[0]), way_out=way_out)
        raise DescriptionError(subject, fault)
    return frozenset(map(str, names or ()))


def renamed(name: object) -> object:
    """The name that a rewriting has now, of one that it had before."""
    if not isinstance(name, str) or name not in OLD_NAMES:
        return name
    now = OLD_NAMES[name]
    warnings.warn(f"the rewriting {name!r} is called {now!r} now", FutureWarning, stacklevel=2)
    return now

"""The functions: DirectML's operators on arrays of any library, with NumPy's habits.

Ranks are the arrays' own, negative axes count from the end, the result is a new array of the caller's library unless
`out` is given, and `device` says where and at which feature level to run: where the first array lies, if not given.
Given expressions of a graph, a function adds a node to it and gives an expression.
"""

from anydml.functions.copying import cast, identity, join, reverse_subsequences, split
from anydml.functions.cumulative import cumulative_product, cumulative_summation
from anydml.functions.filling import fill_value_constant, fill_value_sequence
from anydml.functions.gathering import gather, gather_elements, gather_nd
from anydml.functions.slicing import slice, slice1

__all__ = [
    "cast",
    "cumulative_product",
    "cumulative_summation",
    "fill_value_constant",
    "fill_value_sequence",
    "gather",
    "gather_elements",
    "gather_nd",
    "identity",
    "join",
    "reverse_subsequences",
    "slice",
    "slice1",
    "split",
]

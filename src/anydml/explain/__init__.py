"""Pictures of what an operator or a graph does, for a terminal, a notebook, a page or a document.

The module is also its function `explain`, which takes an operator's name, or a description with its inputs:

>>> import anydml as dml
>>> picture = dml.explain("slice1")
>>> x = dml.TensorDesc("float32", (4,))
>>> picture = dml.explain(dml.CumulativeSummation(input_tensor=x, output_tensor=x, axis=0), [2, 1, 3, 5])
>>> print(picture.sentences[2])
output[2] = 2 + 1 + 3 = 6

`print(picture)` draws it for a terminal, `picture.svg()` and `picture.html()` for a page; a notebook shows it.
"""

import inspect
import sys
from types import ModuleType
from typing import Any

from anydml.explain.build import explain, shown_inputs, word_description
from anydml.explain.graph import Recipes, explain_desc, explain_graph, recipes_of
from anydml.explain.graph_picture import GraphPicture
from anydml.explain.grids import Limits
from anydml.explain.picture import Cell, Element, Grid, Picture, Plane

__all__ = [
    "Cell",
    "Element",
    "GraphPicture",
    "Grid",
    "Limits",
    "Picture",
    "Plane",
    "Recipes",
    "explain",
    "explain_desc",
    "explain_graph",
    "recipes_of",
    "shown_inputs",
]


class _Module(ModuleType):
    """The module, which may be called as its function: `dml.explain(desc)`."""

    def __call__(self, *args: Any, **options: Any) -> Picture:
        """Make a picture of what an operator does, as `explain.explain` does."""
        try:
            __signature__.bind(*args, **options)
        except TypeError as error:
            raise TypeError(f"explain() {error}; {word_description(*args[:1])}") from None
        return explain(*args, **options)


__signature__ = inspect.signature(explain)
"""What `inspect.signature` tells of the module."""
sys.modules[__name__].__class__ = _Module

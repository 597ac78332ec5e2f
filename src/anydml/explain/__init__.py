"""Pictures of what an operator or a graph does, for a terminal, a notebook, a page or a document."""

import sys
from types import ModuleType
from typing import Any

from anydml.explain.build import explain, shown_inputs
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
        return explain(*args, **options)


sys.modules[__name__].__class__ = _Module

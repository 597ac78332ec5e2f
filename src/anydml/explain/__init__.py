"""Pictures of what an operator or a graph does, for a terminal, a notebook, a page or a document."""

from anydml.explain.build import explain
from anydml.explain.cut import Limits
from anydml.explain.graph import Recipes, explain_desc, explain_graph, recipes_of
from anydml.explain.graph_picture import GraphPicture
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
]

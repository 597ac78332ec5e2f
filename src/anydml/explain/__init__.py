"""Pictures of what an operator does: `explain(desc, x)` for a terminal, a notebook, a page or a document."""

from anydml.explain.build import explain
from anydml.explain.cut import Limits
from anydml.explain.picture import Cell, Element, Grid, Picture, Plane

__all__ = ["Cell", "Element", "Grid", "Limits", "Picture", "Plane", "explain"]

"""`anydml explain MODEL.json --graph`: the dispatches of a model as one graph, and what that would save."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anydml.explain import explain_desc
from anydml.models.graph import graph_of

if TYPE_CHECKING:
    from anydml.enums import FeatureLevel
    from anydml.explain import GraphPicture
    from anydml.models import Model


def draw_graph(model: Model, level: FeatureLevel) -> GraphPicture:
    """A picture of a model whose dispatches are compiled as one graph."""
    desc = graph_of(model, level)
    desc.validate(level)
    return explain_desc(desc, title=f"{Path(model.file).name} as one graph")

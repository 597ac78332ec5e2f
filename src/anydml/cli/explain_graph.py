"""`anydml explain MODEL.json --graph`: the dispatches of a model as one graph, and what that would save."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anydml.explain import explain_desc, recipes_of
from anydml.models.graph import graph_of
from anydml.runtime.device import Device

if TYPE_CHECKING:
    from collections.abc import Collection

    from anydml.enums import FeatureLevel
    from anydml.explain import GraphPicture
    from anydml.models import Model
    from anydml.runtime.schedules import Schedules


def draw_graph(model: Model, level: FeatureLevel, without: Collection[str] = ()) -> GraphPicture:
    """A picture of a model whose dispatches are compiled as one graph, without some rewritings."""
    desc = graph_of(model, level)
    desc.validate(level)
    return explain_desc(desc, recipes_of(desc, without), title=f"{Path(model.file).name} as one graph")


def graph_schedules(model: Model, level: FeatureLevel, without: Collection[str] = ()) -> Schedules:
    """The routes of a model whose dispatches are compiled as one graph on a CPU."""
    return Device("cpu", feature_level=level).compile_graph(graph_of(model, level), without=without).schedules

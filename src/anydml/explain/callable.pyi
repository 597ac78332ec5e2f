# Written by `python -m scripts.write_stub`.
from collections.abc import Callable
from anydml.core.enums import FeatureLevel, LevelName
from anydml.explain import Limits as _Limits, Picture as _Picture, explain as _explain, explain_desc as _explain_desc, explain_graph as _explain_graph, recipes_of as _recipes_of, shown_inputs as _shown_inputs
from anydml.operators import OperatorDesc

class explain(_Picture):
    from anydml.explain import Cell as Cell, Element as Element, GraphPicture as GraphPicture, Grid as Grid, Limits as Limits, Picture as Picture, Plane as Plane, Recipes as Recipes
    explain = staticmethod(_explain)
    explain_desc = staticmethod(_explain_desc)
    explain_graph = staticmethod(_explain_graph)
    recipes_of = staticmethod(_recipes_of)
    shown_inputs = staticmethod(_shown_inputs)
    def __init__(self, desc: OperatorDesc | type[OperatorDesc] | Callable[..., object] | str, *inputs: object, feature_level: FeatureLevel | LevelName | str = ..., title: str = ..., limits: _Limits = ...) -> None: ...

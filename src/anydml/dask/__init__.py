"""DirectML's operators on dask arrays: lazy, in blocks, on one machine or on a cluster.

Every function of anydml takes dask arrays and gives lazy ones. An operator whose blocks would need one another in a way
that has no form in blocks is refused, and the error says what to rechunk; nothing is computed in silence.

`run_model` runs an ONNX model over blocks, `map_blocks` a compiled graph, and `AnydmlPlugin` prepares workers.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from anydml.core.errors import Fault, MissingDependencyError
from anydml.core.late_imports import import_alone

if TYPE_CHECKING:
    from anydml.dask.batches import run_model
    from anydml.dask.models import map_blocks
    from anydml.dask.workers import AnydmlPlugin

__all__ = ["AnydmlPlugin", "map_blocks", "run_model"]
_HOMES = {"AnydmlPlugin": "workers", "map_blocks": "models", "run_model": "batches"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    try:
        return getattr(import_alone(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if not str(error.name).startswith(("dask", "distributed", "tornado")):
            raise
        rule, way_out = f"anydml.dask.{name} needs Dask", "pip install 'anydml[dask]'"
        raise MissingDependencyError("anydml.dask", Fault(field=name, rule=rule, way_out=way_out)) from error


def __dir__() -> list[str]:
    """What can be had: `inspect.getmembers`, which `help` asks, would else stop at the first name."""
    return sorted({*globals(), *(__all__ if all(map(_is_there, ("dask", "distributed"))) else ())})


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # one that is kept out
        return False

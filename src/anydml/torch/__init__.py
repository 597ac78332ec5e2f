"""PyTorch: `torch.compile(model, backend="anydml")` compiles a model to graphs of DirectML's operators.

>>> model = torch.compile(model, backend="anydml", options={"strict": True})

PyTorch finds the backend by its entry point; `backend=anydml.torch.compile_graph` is the same without one.
"""

from __future__ import annotations

from anydml.core.errors import Fault, MissingDependencyError

__all__ = ["compile_graph"]

try:
    from anydml.torch.backend import compile_graph
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    rule, way_out = "the package torch must be there", "pip install 'anydml[torch]'"
    raise MissingDependencyError("torch", Fault(field="torch", rule=rule, value=None, way_out=way_out)) from None

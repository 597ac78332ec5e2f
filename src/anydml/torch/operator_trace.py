"""The graph of one operator, traced while other threads run modules.

FX's tracer puts wrappers of its own in the place of `nn.Module.__call__` and `__getattr__`, of all threads: a compiled
module that one of them calls meanwhile is an error. An operator has no modules, and is traced without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.fx.experimental import proxy_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class _Tracer(proxy_tensor.PythonKeyTracer):  # type: ignore[misc]  # PyTorch types it as Any
    """Records a function's operators, and changes no class."""

    def trace(self, root: Any, concrete_args: Any = None) -> Any:
        """The graph."""
        self.root = torch.nn.Module()
        self.graph = torch.fx.Graph(tracer_cls=type(self))
        self.tensor_attrs: dict[Any, str] = {}
        function, args = self.create_args_for_root(root, False, concrete_args)
        self.create_node("output", "output", (self.create_arg(function(*args)),), {})
        self.submodule_paths = None
        return self.graph


class _Maker(proxy_tensor._MakefxTracer):  # type: ignore[misc]  # as above  # noqa: SLF001 - what make_fx is made of
    def _construct_modes_with_fx_tracer(self, fx_tracer: Any) -> None:
        fx_tracer.__class__ = _Tracer
        super()._construct_modes_with_fx_tracer(fx_tracer)


def trace_operator(function: Callable[..., Any], decompositions: Mapping[Any, Any], tensors: Sequence[Any]) -> Any:
    """As `make_fx(function, decompositions, tracing_mode="fake")(*tensors)`."""
    options = {"pre_dispatch": False, "record_module_stack": False, "_allow_fake_constant": False}
    maker = _Maker(decompositions, "fake", False, _error_on_data_dependent_ops=True, **options)
    return maker.trace(function, *tensors)

"""Models by `torch.compile(..., backend="anydml")`, and the programs that they became."""

from __future__ import annotations

from typing import Any

import torch

from anydml.torch import backend

Module: Any = torch.nn.Module


class Compiled:
    """A compiled model, with the programs that were planned for it so far."""

    def __init__(self, model: Any, *, dynamic: bool | None = False, **options: Any) -> None:
        torch._dynamo.reset()
        self.programs: list[Any] = []
        self.model = model
        self.compiled = torch.compile(model, backend=backend.compile_graph, dynamic=dynamic, options=options or None)

    def __call__(self, *args: Any) -> Any:
        with backend.watching(self.programs.append):
            return self.compiled(*args)

    @property
    def fallbacks(self) -> dict[str, int]:
        """The nodes that PyTorch ran, of all programs."""
        return {name: count for program in self.programs for name, count in program.fallbacks.items()}

    def check(self, *args: Any, **tolerance: float) -> Any:
        """Hold the answer against PyTorch's own."""
        found = self(*args)
        torch.testing.assert_close(found, self.model(*args), check_stride=False, **tolerance)
        return found

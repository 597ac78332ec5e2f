"""A network of PyTorch's own layers with made-up weights, and how it becomes an ONNX model with open sizes."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

Rng = np.random.Generator


@dataclass(frozen=True)
class Network:
    """A module, what it takes, and which of its sizes are open."""

    module: nn.Module
    feeds: Callable[[Rng, int, int], dict[str, Any]]
    """Made-up inputs of a batch and a length: tokens of a text, those before a step, or nothing where it has none."""
    open_sizes: dict[str, dict[int, str]]
    """Of inputs and outputs."""
    outputs: tuple[str, ...]

    def feeds_of(self, batch: int, length: int, *, half: bool = False, seed: int = 1) -> dict[str, Any]:
        """Inputs by name, floats as FLOAT16 where the network is of that."""
        made = self.feeds(np.random.default_rng(seed), batch, length)
        kind = np.float16 if half else np.float32
        return {name: array.astype(kind) if array.dtype.kind == "f" else array for name, array in made.items()}

    def onnx(self, *, half: bool = False, dynamo: bool = False, opset: int | None = None) -> bytes:
        """The model; `dynamo` is PyTorch's newer exporter, which needs onnxscript. The module becomes FLOAT16."""
        module = (self.module.half() if half else self.module.float()).eval()
        feeds = self.feeds_of(2, 5, half=half)
        settings: dict[str, Any] = {"dynamo": dynamo, "opset_version": opset or (18 if dynamo else 17)}
        if dynamo:
            settings["dynamic_shapes"] = _shapes(self, list(feeds))
        else:
            settings["dynamic_axes"] = self.open_sizes
        file = io.BytesIO()
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module,
                tuple(map(torch.from_numpy, feeds.values())),
                file,
                input_names=list(feeds),
                output_names=list(self.outputs),
                **settings,
            )
        return file.getvalue()

    def answers(self, feeds: dict[str, Any], *, half: bool = False, precise: bool = False) -> list[Any]:
        """What PyTorch makes of inputs; `precise`, in FLOAT64 with the weights that the model has."""
        module = self.module.half() if half else self.module.float()
        if precise:
            module = module.double()
        given = (torch.from_numpy(array) for array in feeds.values())
        with torch.no_grad():
            found = module.eval()(*(x.double() if precise and x.is_floating_point() else x for x in given))
        return [part.numpy() for part in (found if isinstance(found, tuple) else (found,))]


def _shapes(network: Network, names: list[str]) -> Any:
    """Which dimensions are open, as the newer exporter takes it; an argument of many takes a tuple of its own."""
    opened = [dict.fromkeys(network.open_sizes.get(name, {}), torch.export.Dim.DYNAMIC) for name in names]
    first = getattr(network.module, "single_arguments", len(names))
    return tuple(opened[:first]) + ((tuple(opened[first:]),) if first < len(names) else ())


def images(side: int) -> Callable[[Rng, int, int], dict[str, Any]]:
    """Inputs of a network that takes pictures."""
    return lambda rng, batch, _length: {"images": rng.standard_normal((batch, 3, side, side))}

"""torchvision, also where its C extension was built for another PyTorch: the operators that detection calls, in Python."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import torch

_SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
}
"""As torchvision declares them; of the second only the name is asked for, when torchvision is imported."""


@functools.cache
def load_torchvision() -> Any:
    """torchvision, with the operators of its extension or with those of this file.

    The wheel of PyPI is built for CUDA: beside a PyTorch without it the extension does not load, and the import would
    fail on the first operator that it expects.
    """
    if is_missing := not _has_extension():
        _define()
    import torchvision

    if is_missing:
        from torchvision import extension
        from torchvision.ops import roi_align

        for module in (extension, roi_align):  # the latter compiles a function of its own else, by inductor
            vars(module)["_has_ops"] = lambda: True
    return torchvision


def _has_extension() -> bool:
    """Whether torchvision's extension loads."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        raise ImportError('torchvision is not installed: make EXTRAS="torch networks"')
    for path in Path(spec.origin).parent.glob("_C*"):
        try:
            torch.ops.load_library(str(path))
        except OSError:
            continue
        return True
    return False


def _define() -> None:
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name, schema in _SCHEMAS.items():
        library.define(name + schema)
    library.impl("nms", _nms, "CPU")
    library.impl("roi_align", _roi_align, "CPU")
    library.impl("roi_align", _foretell_roi_align, "Meta")
    _kept.append(library)  # what it defines goes when it goes


_kept: list[Any] = []


def _nms(boxes: Any, scores: Any, threshold: float) -> Any:
    """The numbers of the boxes that no better one overlaps by more than a threshold, the best first."""
    x0, y0, x1, y1 = boxes.detach().double().numpy().T
    areas = (x1 - x0) * (y1 - y0)
    order, kept = scores.argsort(descending=True, stable=True).numpy(), []
    while order.size:
        best, order = order[0], order[1:]
        kept.append(best)
        wide = np.minimum(x1[best], x1[order]) - np.maximum(x0[best], x0[order])
        high = np.minimum(y1[best], y1[order]) - np.maximum(y0[best], y0[order])
        shared = wide.clip(0) * high.clip(0)
        order = order[shared <= threshold * (areas[best] + areas[order] - shared)]
    return torch.tensor(np.array(kept, np.int64))


def _roi_align(x: Any, rois: Any, scale: float, height: int, width: int, sampling: int, aligned: bool) -> Any:
    """Averages of samples in bins of each region, by torchvision's own Python."""
    from torchvision.ops.roi_align import _roi_align as function

    return getattr(function, "__wrapped__", function)(x, rois, scale, height, width, sampling, aligned)


def _foretell_roi_align(x: Any, rois: Any, _scale: float, height: Any, width: Any, *_: Any) -> Any:
    return x.new_empty((rois.size(0), x.size(1), height, width))

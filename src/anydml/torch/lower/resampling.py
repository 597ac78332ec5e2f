"""Images in other sizes, by straight lines or by whole factors: RESAMPLE, where PyTorch's decomposition has gathers.

PyTorch decomposes these ahead of all tables, so that calls of them in Dynamo's graphs become two operators of our own:
what resizes, and its gradient. 21 planes of 28 x 28 to 224 x 224 take 0.9 ms of a Xeon's thread so, and took 17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from anydml.torch.lower.context import Context, dml

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]

_LINEAR = {"linear": "upsample_linear1d", "bilinear": "upsample_bilinear2d", "trilinear": "upsample_trilinear3d"}
_NEAREST = {1: "upsample_nearest1d", 2: "upsample_nearest2d", 3: "upsample_nearest3d"}
_MODES = {1: "linear", 2: "bilinear", 3: "trilinear"}


# The operators


def _resample(x: torch.Tensor, sizes: list[int], is_linear: bool, align_corners: bool) -> torch.Tensor:
    """Images in other sizes, by PyTorch."""
    mode = _MODES[len(sizes)] if is_linear else "nearest"
    return torch.nn.functional.interpolate(x, sizes, mode=mode, align_corners=align_corners if is_linear else None)


def _resample_gradient(grad: torch.Tensor, own: list[int], is_linear: bool, align_corners: bool) -> torch.Tensor:
    """The gradient of images of sizes, by PyTorch."""
    sizes = list(grad.shape[2:])
    name = _LINEAR[_MODES[len(sizes)]] if is_linear else _NEAREST[len(sizes)]
    function = getattr(torch.ops.aten, f"{name}_backward").default
    corners = [align_corners] if is_linear else []
    found: torch.Tensor = function(grad, sizes, [*grad.shape[:2], *own], *corners)
    return found


def _foretold(x: Any, sizes: Sequence[int], is_linear: bool, align_corners: bool) -> Any:
    """What PyTorch makes of a tensor: it lies as that does."""
    del is_linear, align_corners
    order = torch._prims_common.suggest_memory_format(x)  # noqa: SLF001 - PyTorch's name
    return torch.empty((*x.shape[:2], *sizes), dtype=x.dtype, device=x.device, memory_format=order)


def _remember(ctx: Any, inputs: Any, output: Any) -> None:
    del output
    x, _, ctx.is_linear, ctx.align_corners = inputs
    ctx.own = list(x.shape[2:])


def _backward(ctx: Any, grad: Any) -> Any:
    return resample_gradient(grad, ctx.own, ctx.is_linear, ctx.align_corners), None, None, None


resample: Any = torch.library.custom_op("anydml::resample", _resample, mutates_args=())
resample_gradient: Any = torch.library.custom_op("anydml::resample_gradient", _resample_gradient, mutates_args=())
for _operator in (resample, resample_gradient):
    _operator.register_fake(_foretold)
resample.register_autograd(_backward, setup_context=_remember)


# Calls of PyTorch's


def interpolate(
    x: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Any:  # fmt: skip
    """PyTorch's function, which takes what `resample` cannot."""
    is_linear = _MODES.get(x.dim() - 2) == mode
    sizes = _sizes_of(x, size, scale_factor) if is_linear or mode == "nearest" else None
    if sizes is not None and not is_linear:
        is_whole = not any(one % n for one, n in zip(sizes, x.shape[2:], strict=True))
        sizes = sizes if is_whole and align_corners is None else None
    if sizes is not None and align_corners and any(one == 1 for one in (*sizes, *x.shape[2:])):
        sizes = None
    if sizes is None or antialias:
        return torch.nn.functional.interpolate(
            x, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
        )
    return resample(x, sizes, is_linear, bool(align_corners))


_TYPES = (torch.float32, torch.float16, torch.bfloat16)


def _sizes_of(x: Any, size: Any, scale: Any) -> list[int] | None:
    """The sizes of the result; None where they are not all numbers, or not what the scales say exactly."""
    own = list(x.shape[2:])
    if x.dtype not in _TYPES or len(own) not in _MODES or (size is None) == (scale is None):
        return None
    given = size if scale is None else scale
    sizes = list(given) if isinstance(given, (list, tuple)) else [given] * len(own)
    if len(sizes) != len(own) or not all(type(one) is int and one > 0 for one in x.shape):
        return None
    if scale is not None:
        if not all(type(one) in (int, float) for one in sizes):
            return None
        sizes = [n * one for n, one in zip(own, sizes, strict=True)]
        if any(one != round(one) for one in sizes):
            return None
        sizes = [round(one) for one in sizes]
    return sizes if all(type(one) is int and one > 0 for one in sizes) else None


CALLS = {torch.nn.functional.interpolate: interpolate}
"""By PyTorch's function what stands for it in Dynamo's graphs."""


# Lowerings


def _resampled(context: Context, x: Expression, sizes: Sequence[int], is_linear: bool, align_corners: bool) -> Any:
    given = _places(x.sizes[2:], sizes, is_linear=is_linear, align_corners=align_corners)
    wanted = context.sizes()
    made = dml.resample1(_planes(x), *given, output_sizes=_merged(wanted))
    return dml.reshape(made, wanted)


def _gradient(context: Context, grad: Expression, own: Sequence[int], is_linear: bool, align_corners: bool) -> Any:
    scales, *offsets, mode = _places(own, grad.sizes[2:], is_linear=is_linear, align_corners=align_corners)
    wanted = context.sizes()
    return dml.reshape(dml.resample_grad(_planes(grad), _merged(wanted), scales, *offsets, mode), wanted)


def _planes(x: Expression) -> Any:
    """Volumes as batches of them: RESAMPLE has four dimensions."""
    return dml.reshape(x, _merged(x.sizes)) if len(x.sizes) > 4 else x


def _merged(sizes: Sequence[Any]) -> tuple[Any, ...]:
    return (sizes[0] * sizes[1], *sizes[2:]) if len(sizes) > 4 else tuple(sizes)


def _places(
    own: Sequence[Any], sizes: Sequence[Any], *, is_linear: bool, align_corners: bool
) -> tuple[list[float], list[float], list[float], str]:
    """The scale of each dimension, the pixel offsets of input and output, and the mode."""
    less = int(align_corners)
    scales = [(wanted - less) / (n - less) for n, wanted in zip(own, sizes, strict=True)]
    ahead = [1.0] * (1 if len(scales) > 2 else 2)
    offset, count = 0.5 * (not align_corners), len(ahead) + len(scales)
    return [*ahead, *scales], [offset] * count, [-offset] * count, "linear" if is_linear else "nearest_neighbor"


LOWERINGS: dict[str, Lowering] = {
    "anydml.resample.default": _resampled,
    "anydml.resample_gradient.default": _gradient,
}

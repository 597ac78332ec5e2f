"""Images read at places that a grid names: their gradients, volumes, and resizing by antialiased weights.

Along each dimension a place has taps: neighbours with weights. A pixel's weight at all places is a product of one
factor a dimension, so the gradient of an image is a GEMM with the outer products of these factors.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from anydml.core.enums import DataType
from anydml.torch.lower.context import Context, cast, dml
from anydml.torch.lower.movement import window
from anydml.torch.lower.special import polynomial

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]

F32, INT64 = DataType.FLOAT32, DataType.INT64
_LINEAR, _NEAREST, _CUBIC = 0, 1, 2
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2
_MOST_PRODUCTS = 1 << 28
"""Multiplications of the GEMM that gives an image's gradient; more lose to PyTorch's additions one by one."""


class _Tap(NamedTuple):
    """A neighbour of places along one dimension; outside of the image both of its factors are 0."""

    place: Any
    weight: Any
    slope: Any
    """The weight's derivative by the grid's number; None where it is 0."""


def _coordinate(grid: Any, size: int, *, align_corners: bool) -> tuple[Any, float]:
    """The numbers -1 to 1 as places, and by how much a place moves with its number."""
    if align_corners:
        return dml.multiply(dml.multiply(dml.add(grid, 1.0), 0.5), size - 1.0), (size - 1) / 2
    return dml.multiply(dml.subtract(dml.multiply(dml.add(grid, 1.0), float(size)), 1.0), 0.5), size / 2


def _returned(x: Any, size: int, padding: int, *, align_corners: bool) -> tuple[Any, Any]:
    """Places brought back into the image, and 1, 0 or -1: how they move with those that were given."""
    factor: Any = 1.0
    if padding == _ZEROS:
        return x, factor
    if padding == _REFLECTION:
        low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        span = high - low
        if not span:
            return dml.multiply(x, 0.0), 0.0
        apart = dml.subtract(x, low)
        is_less = dml.logical_less_than(apart, 0.0)
        apart = dml.abs(apart)
        rest = dml.modulus_truncate(apart, span)
        is_odd = dml.logical_equals(dml.modulus_floor(dml.floor(dml.divide(apart, span)), 2.0), 1.0)
        x = dml.add(dml.if_(is_odd, dml.subtract(span, rest), rest), low)
        factor = dml.if_(dml.logical_xor(is_less, is_odd), dml.multiply(x, 0.0) - 1.0, dml.multiply(x, 0.0) + 1.0)
    is_inside = dml.logical_and(dml.logical_greater_than(x, 0.0), dml.logical_less_than(x, size - 1.0))
    factor = dml.if_(is_inside, factor, 0.0) if isinstance(factor, dml.Expression) else cast(is_inside, F32)
    return dml.clip1(x, 0.0, size - 1.0), factor


def _cubic_weights(t: Any) -> list[tuple[Any, Any]]:
    """Weights of four neighbours and their slopes, by the cubic convolution with A = -3/4."""
    a = -0.75
    found = []
    for k, x in enumerate((dml.add(t, 1.0), t, dml.subtract(1.0, t), dml.subtract(2.0, t))):
        far = (-4 * a, 8 * a, -5 * a, a)
        near = (1.0, 0.0, -(a + 3), a + 2)
        factors = far if k in (0, 3) else near
        slopes = [n * one for n, one in enumerate(factors)][1:]
        slope = polynomial(x, slopes)
        found.append((polynomial(x, factors), slope if k < 2 else dml.negate(slope)))
    return found


def _taps(grid: Any, size: int, mode: int, padding: int, *, align_corners: bool) -> list[_Tap]:
    x, scale = _coordinate(grid, size, align_corners=align_corners)
    factor: Any = 1.0
    if mode != _CUBIC:
        x, factor = _returned(x, size, padding, align_corners=align_corners)
    if mode == _NEAREST:
        return [_tap(dml.round(x), size, 1.0, None)]
    first = dml.floor(x)
    t = dml.subtract(x, first)
    if mode == _LINEAR:
        slope = dml.multiply(factor, scale) if isinstance(factor, dml.Expression) else factor * scale
        down = dml.negate(slope) if isinstance(slope, dml.Expression) else -slope
        return [_tap(first, size, dml.subtract(1.0, t), down), _tap(dml.add(first, 1.0), size, t, slope)]
    found = []
    for k, (weight, slope) in enumerate(_cubic_weights(t)):
        place, _ = _returned(dml.add(first, k - 1.0), size, padding, align_corners=align_corners)
        found.append(_tap(place, size, weight, dml.multiply(slope, scale)))
    return found


def _tap(place: Any, size: int, weight: Any, slope: Any) -> _Tap:
    is_inside = dml.logical_and(
        dml.logical_greater_than_or_equal(place, 0.0), dml.logical_less_than_or_equal(place, size - 1.0)
    )

    def masked(one: Any) -> Any:
        if isinstance(one, dml.Expression):
            return dml.if_(is_inside, one, 0.0)
        return dml.multiply(cast(is_inside, F32), one)

    place = cast(dml.if_(is_inside, place, 0.0), INT64)
    return _Tap(place, masked(weight), None if slope is None else masked(slope))


class _Sampling(NamedTuple):
    """The taps of all dimensions, the outermost first, for the places of each image."""

    sizes: list[int]
    taps: list[list[_Tap]]
    batch: int
    places: int

    @classmethod
    def of(cls, x: Expression, grid: Expression, mode: int, padding: int, align_corners: bool) -> _Sampling:
        rank = len(x.sizes) - 2
        batch, count = int(grid.sizes[0]), math.prod(int(one) for one in grid.sizes[1:-1])
        flat = dml.reshape(cast(grid, F32), (batch, count, rank))
        sizes = [int(one) for one in x.sizes[2:]]
        taps = []
        for k, size in enumerate(sizes):  # the grid's last number is of the outermost dimension
            one = dml.reshape(window(flat, 2, rank - 1 - k, 1), (batch, count))
            taps.append(_taps(one, size, mode, padding, align_corners=align_corners))
        return cls(sizes, taps, batch, count)

    def neighbours(self, x: Expression) -> list[tuple[Sequence[_Tap], Any]]:
        """Each combination of taps, and the elements of all channels that lie there."""
        channels = int(x.sizes[1])
        flat = dml.reshape(cast(x, F32), (self.batch, channels, math.prod(self.sizes)))
        found: list[tuple[Sequence[_Tap], Any]] = []
        for several in itertools.product(*self.taps):
            place = several[0].place
            for tap, size in zip(several[1:], self.sizes[1:], strict=True):
                place = dml.add(dml.multiply(place, size), tap.place)
            place = dml.reshape(place, (self.batch, 1, self.places))
            place = dml.broadcast_to(place, (self.batch, channels, self.places))
            found.append((several, dml.gather_elements(flat, place, 2)))
        return found


def _volume(context: Context, x: Expression, grid: Expression, mode: int, padding: int, align_corners: bool) -> Any:
    sampling = _Sampling.of(x, grid, mode, padding, align_corners)
    total: Any = None
    for taps, values in sampling.neighbours(x):
        weight = _product([tap.weight for tap in taps])
        term = dml.multiply(values, dml.reshape(weight, (sampling.batch, 1, sampling.places)))
        total = term if total is None else dml.add(total, term)
    return cast(dml.reshape(total, context.sizes()), context.data_type())


def _product(several: Sequence[Any]) -> Any:
    found = several[0]
    for one in several[1:]:
        found = dml.multiply(found, one)
    return found


def _gradients(
    context: Context,
    grad: Expression,
    x: Expression,
    grid: Expression,
    mode: int,
    padding: int,
    align_corners: bool,
    wanted: Sequence[bool],
) -> Any:
    sampling = _Sampling.of(x, grid, mode, padding, align_corners)
    channels = int(x.sizes[1])
    flat = dml.reshape(cast(grad, F32), (sampling.batch, channels, sampling.places))
    of_image = _of_image(context, flat, sampling) if wanted[0] else None
    of_grid = _of_grid(context, flat, x, sampling) if wanted[1] else None
    return of_image, of_grid


def _of_image(context: Context, grad: Expression, sampling: _Sampling) -> Any:
    batch, count, sizes = sampling.batch, sampling.places, sampling.sizes
    if math.prod((*grad.sizes, *sizes)) > _MOST_PRODUCTS:
        raise context.refuse("a grid of many places in a large image")
    whole: Any = None
    for k, (size, taps) in enumerate(zip(sizes, sampling.taps, strict=True)):
        number = dml.fill_value_sequence((1, 1, size), 0, 1, INT64, graph=context.graph)
        factor: Any = None
        for tap in taps:
            is_it = dml.logical_equals(dml.reshape(tap.place, (batch, count, 1)), number)
            term = dml.if_(is_it, dml.reshape(tap.weight, (batch, count, 1)), 0.0)
            factor = term if factor is None else dml.add(factor, term)
        shape = [batch, count, *(size if k == j else 1 for j in range(len(sizes)))]
        factor = dml.reshape(factor, shape)
        whole = factor if whole is None else dml.multiply(whole, factor)
    made = dml.gemm(grad, dml.reshape(whole, (batch, count, math.prod(sizes))))
    return cast(dml.reshape(made, context.sizes(0)), context.data_type(0))


def _of_grid(context: Context, grad: Expression, x: Expression, sampling: _Sampling) -> Any:
    rank = len(sampling.sizes)
    if any(tap.slope is None for taps in sampling.taps for tap in taps):
        return context.full(0, context.data_type(1), context.sizes(1))
    totals: list[Any] = [None] * rank
    for taps, values in sampling.neighbours(x):
        along = dml.sum(dml.multiply(values, grad), (1,))
        for k in range(rank):
            factors = [tap.slope if k == j else tap.weight for j, tap in enumerate(taps)]
            term = dml.multiply(along, _product(factors))
            totals[k] = term if totals[k] is None else dml.add(totals[k], term)
    made = dml.join([dml.expand_dims(one, 2) for one in reversed(totals)], 2)
    return cast(dml.reshape(made, context.sizes(1)), context.data_type(1))


# Antialiased resizing


def _weights(own: int, wanted: int, scale: float | None, *, align_corners: bool) -> Any:
    """The matrix of one dimension: what PyTorch makes of an image whose rows are each 1 at another column."""
    image = torch.eye(own).reshape(1, 1, own, own)
    found = torch.ops.aten._upsample_bilinear2d_aa.default(image, [own, wanted], align_corners, None, scale)  # noqa: SLF001 - PyTorch's name
    return found.reshape(own, wanted).numpy()


def _resized(context: Context, x: Expression, size: Sequence[int], align_corners: bool, *scales: float | None) -> Any:
    return _by_matrices(context, x, x.sizes[2:], size, align_corners, scales or (None, None), is_gradient=False)


def _resized_gradient(
    context: Context,
    grad: Expression,
    size: Sequence[int],
    own: Sequence[int],
    align_corners: bool,
    *scales: float | None,
) -> Any:
    return _by_matrices(context, grad, own[2:], size, align_corners, scales or (None, None), is_gradient=True)


def _by_matrices(
    context: Context,
    x: Expression,
    own: Sequence[Any],
    wanted: Sequence[Any],
    align_corners: bool,
    scales: Sequence[float | None],
    *,
    is_gradient: bool,
) -> Any:
    if not x.data_type.is_float:
        raise context.refuse("bytes, of which PyTorch rounds the weights")
    down, across = (
        _weights(int(a), int(b), scale, align_corners=align_corners)
        for a, b, scale in zip(own, wanted, scales, strict=True)
    )
    left, right = (down, across.T) if is_gradient else (down.T, across)
    batch = tuple(x.sizes[:2])
    left, right = (dml.broadcast_to(context.graph.constant(one.copy()), (*batch, *one.shape)) for one in (left, right))
    return cast(dml.gemm(left, dml.gemm(cast(x, F32), right)), context.data_type())


LOWERINGS: dict[str, Lowering] = {
    "grid_sampler_2d_backward.default": _gradients,
    "grid_sampler_3d.default": _volume,
    "grid_sampler_3d_backward.default": _gradients,
    "_upsample_bilinear2d_aa.default": _resized,
    "_upsample_bilinear2d_aa_backward.default": _resized_gradient,
}

"""Views, slices, joins and copies: most of them describe memory anew, and cost nothing in a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.torch.lower.context import Context, axis_of, cast, dml

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]

FREE = frozenset(
    f"aten.{name}"
    for name in (
        "view.default", "_unsafe_view.default", "reshape.default", "permute.default", "transpose.int", "t.default",
        "expand.default", "unsqueeze.default", "squeeze.default", "squeeze.dim", "squeeze.dims", "alias.default",
        "detach.default", "slice.Tensor", "select.int", "full.default", "scalar_tensor.default", "zeros.default",
        "ones.default", "lift_fresh_copy.default", "split.Tensor", "split_with_sizes.default", "unbind.int",
    )
)  # fmt: skip
"""Nodes that do no work by themselves: a part of a model that has nothing else is PyTorch's."""


def _view(context: Context, x: Expression, *_: Any) -> Any:
    return reshaped(x, context.sizes())


def reshaped(x: Expression, sizes: Sequence[Any]) -> Any:
    """The elements in order, of other sizes: the same memory, wherever strides can tell."""
    strides = _strides_of(x, sizes)
    if strides is None or not sizes or not x.sizes:
        return dml.reshape(x, tuple(sizes))
    return x.reinterpret(tuple(sizes), tuple(strides))


def _strides_of(x: Expression, sizes: Sequence[Any]) -> list[Any] | None:
    """The strides of the memory in other sizes; None where no strides tell."""
    old = [(size, stride) for size, stride in zip(x.sizes, x.strides, strict=True) if size != 1]
    found, k, place = [1] * len(sizes), 0, 0
    while place < len(sizes) and k < len(old):
        count, wanted, start = old[k][0], sizes[place], place
        while count != wanted:
            if wanted < count:
                place += 1
                if place == len(sizes):
                    return None
                wanted = wanted * sizes[place]
            else:
                if k + 1 == len(old) or old[k][1] != old[k + 1][1] * old[k + 1][0]:
                    return None
                k += 1
                count = count * old[k][0]
        stride = old[k][1]
        for one in range(place, start - 1, -1):
            found[one] = stride
            stride = stride * sizes[one]
        k, place = k + 1, place + 1
    return found


def _same(_: Context, x: Expression, *__: Any) -> Any:
    return x


def _permute(_: Context, x: Expression, dims: Sequence[int]) -> Any:
    return dml.transpose(x, [axis_of(x, dim) for dim in dims]) if dims else x


def _transpose(_: Context, x: Expression, first: int = 0, second: int = 1) -> Any:
    return dml.swapaxes(x, axis_of(x, first), axis_of(x, second)) if len(x.sizes) > 1 else x


def _expand(context: Context, x: Expression, *_: Any, **__: Any) -> Any:
    return dml.broadcast_to(x, context.sizes())


def window(x: Expression, axis: int, start: Any, size: Any, step: Any = 1) -> Any:
    """Every step-th element from a start on, along a dimension."""
    rank, sizes = len(x.sizes), list(x.sizes)
    sizes[axis] = size
    starts, steps = [0] * rank, [1] * rank
    starts[axis], steps[axis] = start, step
    return dml.slice(x, starts, sizes, steps)


def _within(place: Any, size: Any) -> Any:
    """A place from the start on: negative ones count from the end, and none lies outside."""
    if place < 0:
        place = place + size
        return 0 if place < 0 else place
    return size if place > size else place


def _slice(context: Context, x: Expression, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    axis = axis_of(x, dim)
    first = 0 if start is None else start if start == 0 else _within(start, x.sizes[axis])
    if type(first) is int and first == 0 and step == 1 and end is not None and type(end) is int and end >= 2**62:
        return x
    return window(x, axis, first, context.sizes()[axis], step)


def _select(context: Context, x: Expression, dim: int, index: Any) -> Any:
    axis = axis_of(x, dim)
    return dml.reshape(window(x, axis, _within(index, x.sizes[axis]), 1), context.sizes())


def join(context: Context, tensors: Sequence[Expression], dim: int = 0) -> Any:
    """Tensors one behind the other along a dimension."""
    several = [cast(one, context.data_type()) for one in tensors]
    return dml.join(several, axis_of(tensors[0], dim)) if len(several) > 1 else several[0]


def stack(context: Context, tensors: Sequence[Expression], dim: int = 0) -> Any:
    """Tensors one behind the other along a dimension of their own."""
    kind, rank = context.data_type(), len(tensors[0].sizes) + 1
    several = [dml.expand_dims(cast(one, kind), dim % rank) for one in tensors]
    return dml.join(several, dim % rank) if len(several) > 1 else several[0]


def _parts(context: Context, x: Expression, _: Any, dim: int = 0) -> Any:
    axis, start, found = axis_of(x, dim), 0, []
    for k in range(len(context.node.meta["val"])):
        size = context.sizes(k)[axis]
        found.append(None if type(size) is int and not size else window(x, axis, start, size))
        start = start + size
    return tuple(found)


def _unbind(context: Context, x: Expression, dim: int = 0) -> Any:
    axis = axis_of(x, dim)
    several = range(len(context.node.meta["val"]))
    return tuple(dml.reshape(window(x, axis, k, 1), context.sizes(k)) for k in several)


def _flip(_: Context, x: Expression, dims: Sequence[int]) -> Any:
    return dml.flip(x, tuple(axis_of(x, dim) for dim in dims)) if x.sizes and dims else x


def _roll(context: Context, x: Expression, shifts: Any, dims: Any = ()) -> Any:
    several = list(shifts) if isinstance(shifts, (list, tuple)) else [shifts]
    axes = list(dims) if isinstance(dims, (list, tuple)) else [dims]
    if not x.sizes:
        return x
    if not axes:
        return dml.reshape(dml.roll(dml.reshape(x, (-1,)), several[0], 0), context.sizes())
    for shift, dim in zip(several, axes, strict=True):
        x = dml.roll(x, shift, axis_of(x, dim))
    return x


def _pad(context: Context, x: Expression, pads: Sequence[Any], number: Any = 0) -> Any:
    """Padding, of the last dimensions first; a negative one takes elements away."""
    rank, count = len(x.sizes), len(pads) // 2
    starts, ends = [0] * rank, [0] * rank
    for k in range(count):
        starts[rank - 1 - k], ends[rank - 1 - k] = pads[2 * k], pads[2 * k + 1]
    for axis in range(rank):
        less, more = min(starts[axis], 0), min(ends[axis], 0)
        if less or more:
            x = window(x, axis, -less, x.sizes[axis] + less + more)
    starts, ends = [max(one, 0) for one in starts], [max(one, 0) for one in ends]
    if not any(starts) and not any(ends):
        return x
    return dml.padding1(x, starts, ends, padding_value=cast(number, context.data_type()))


def _repeat(context: Context, x: Expression, repeats: Sequence[Any]) -> Any:
    if min(repeats, default=1) < 1:
        raise context.refuse("a result without elements")
    more = len(repeats) - len(x.sizes)
    sizes = [*[1] * more, *x.sizes]
    if not sizes:
        return x
    paired = [one for size in sizes for one in (1, size)]
    wide = [one for count, size in zip(repeats, sizes, strict=True) for one in (count, size)]
    if len(paired) > 8:
        return dml.tile(dml.reshape(x, sizes), list(repeats))
    return dml.reshape(dml.broadcast_to(dml.reshape(x, paired), wide), context.sizes())


def _triangle(function: Callable[..., Any]) -> Lowering:
    return lambda _, x, diagonal=0: function(x, diagonal)


def _put_slice(
    context: Context,
    x: Expression,
    source: Expression,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
) -> Any:
    """A tensor with a window of it replaced: what lies before, the source, and what lies behind."""
    del end
    if step != 1:
        raise context.refuse("a window with gaps")
    axis = axis_of(x, dim)
    first = 0 if start is None else _within(start, x.sizes[axis])
    return replaced(x, cast(source, x.data_type), axis, first)


def _put_place(context: Context, x: Expression, source: Expression, dim: int, index: int) -> Any:
    axis = axis_of(x, dim)
    sizes = [*x.sizes]
    sizes[axis] = 1
    del context
    return replaced(x, dml.reshape(cast(source, x.data_type), sizes), axis, _within(index, x.sizes[axis]))


def replaced(x: Expression, source: Expression, axis: int, first: Any) -> Any:
    """A tensor with a window along a dimension replaced by a source."""
    past = first + source.sizes[axis]
    rest = x.sizes[axis] - past
    parts = [window(x, axis, 0, first)] if first else []
    parts.append(source)
    if rest:
        parts.append(window(x, axis, past, rest))
    return dml.join(parts, axis) if len(parts) > 1 else source


LOWERINGS: dict[str, Lowering] = {
    "alias.default": _same,
    "cat.default": join,
    "constant_pad_nd.default": _pad,
    "detach.default": _same,
    "expand.default": _expand,
    "flip.default": _flip,
    "lift_fresh_copy.default": _same,
    "permute.default": _permute,
    "repeat.default": _repeat,
    "reshape.default": _view,
    "roll.default": _roll,
    "select.int": _select,
    "select_scatter.default": _put_place,
    "slice.Tensor": _slice,
    "slice_scatter.default": _put_slice,
    "split.Tensor": _parts,
    "split_with_sizes.default": _parts,
    "squeeze.default": _view,
    "squeeze.dim": _view,
    "squeeze.dims": _view,
    "stack.default": stack,
    "t.default": _transpose,
    "transpose.int": _transpose,
    "tril.default": _triangle(dml.tril),
    "triu.default": _triangle(dml.triu),
    "unbind.int": _unbind,
    "unsqueeze.default": _view,
    "view.default": _view,
    "_unsafe_view.default": _view,
}

"""NumPy's and PyTorch's names, where no operator of DirectML's has them: each a few lines over the operators.

They take what the functions of operators take: arrays of any library, or expressions of a graph. What they compute is
the operators', in the operators' types; only their habits are NumPy's: `axis` and `keepdims`, which PyTorch's `dim` and
`keepdim` stand for, matrices of one dimension, comparisons that give booleans, sums of integers in 64 bits. Those that
only describe memory anew, as `transpose` does, copy nothing.
"""

from __future__ import annotations

import builtins
import functools
import math
import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml.api.functions as operators
from anydml.api.derived import aliases_of, worded
from anydml.api.expression import Expression
from anydml.arrays.device_array import operations
from anydml.arrays.tensor import TensorDesc
from anydml.arrays.view import is_tensor
from anydml.core.enums import DataType
from anydml.core.errors import DescriptionError, Fault, show
from anydml.core.symbolic_sizes import OpenSize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from anydml.runtime.device import Device

    Axis: TypeAlias = "int | Sequence[int] | None"
    Place: TypeAlias = "Device | str | None"


@functools.cache
def _operator(name: str) -> Callable[..., Any]:
    """An operator's function; the module looks it up among all."""
    return getattr(operators, name)  # type: ignore[no-any-return]  # by its name


def _array(x: Any) -> Any:
    """What is no array yet, a list or a number, as one: of FLOAT32 where it has floats."""
    if isinstance(x, Expression) or hasattr(x, "shape"):
        return x
    made = np.asarray(x)
    return made.astype(np.float32) if made.dtype == np.float64 else made


def _sizes(x: Any) -> tuple[int, ...]:
    return x.sizes if isinstance(x, Expression) else tuple(x.shape) if hasattr(x, "shape") else np.shape(x)


def _refuse(name: str, field: str, rule: str, value: object, way_out: str = "") -> DescriptionError:
    return DescriptionError(name, Fault(field=field, rule=rule, value=value, found=show(value), way_out=way_out))


def _numbers(name: str, field: str, given: Any) -> tuple[int, ...]:
    """An integer, or a list of them."""
    listed = given.tolist() if getattr(given, "ndim", 0) else given
    several: Any = listed if isinstance(listed, (list, tuple)) else (listed,)
    if not builtins.all(hasattr(one, "__index__") and not isinstance(one, (bool, np.bool_)) for one in several):
        raise _refuse(name, field, f"{field} must be an integer, or a list of them", given)
    found: Any = (one if type(one) is OpenSize else one.__index__() for one in several)
    return tuple(found)


def _number(name: str, field: str, given: Any) -> int:
    """One integer."""
    if isinstance(given, (list, tuple)):
        raise _refuse(name, field, f"{field} must be an integer", given)
    return _numbers(name, field, given)[0]


def _axis(name: str, field: str, x: Any, given: Any) -> int:
    """One axis, from the first on."""
    number, rank = _number(name, field, given), len(_sizes(x))
    if not -rank <= number < rank:
        raise _refuse(name, field, f"{field} must lie in {-rank} .. {rank - 1}", given)
    return number % rank


def _axes(name: str, x: Any, axis: Any, rank: int | None = None) -> tuple[int, ...]:
    """Axes from the first on: all of them for None."""
    rank = len(_sizes(x)) if rank is None else rank
    if axis is None:
        return tuple(range(rank))
    if type(axis) is int and -rank <= axis < rank:  # as below, by 3 us less
        return (axis % rank,)
    found = _numbers(name, "axis", axis)
    if builtins.any(not -rank <= one < rank for one in found):
        raise _refuse(name, "axis", f"axis must lie in {-rank} .. {rank - 1}" if rank else "axis must be None", axis)
    if len({one % rank for one in found}) < len(found):
        raise _refuse(name, "axis", "axis must name no dimension twice", axis)
    return tuple(one % rank for one in found)


# Memory that is described anew


def _seen(x: Any, sizes: Sequence[int], strides: Sequence[int]) -> Any:
    """The memory of an expression by sizes and strides; without sizes it is one element."""
    signed = builtins.any(stride < 0 for stride in strides)
    desc = TensorDesc(x.data_type, sizes or (1,), strides=strides or None, signed_strides=signed)
    return x.seen_as(desc, is_scalar=not sizes)


def transpose(x: Any, axes: Sequence[int] | None = None) -> Any:
    """The same elements with the dimensions in another order: reversed, where none is given.

    >>> transpose(np.array([[1, 2], [3, 4]]))
    array([[1, 3],
           [2, 4]])
    """
    rank = len(_sizes(x))
    order = tuple(reversed(range(rank))) if axes is None else _axes("transpose", x, axes)
    if len(order) != rank:
        raise _refuse("transpose", "axes", f"axes must name each of the {rank} dimensions once", axes)
    if isinstance(x, Expression):
        return _seen(x, [x.sizes[k] for k in order], [x.strides[k] for k in order])
    return x.permute(order) if is_tensor(x) else _array(x).transpose(order)


def permute(x: Any, dims: Sequence[int]) -> Any:
    """PyTorch's name for `transpose`.

    >>> permute(np.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return transpose(x, dims)


def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    """The same elements with two dimensions exchanged.

    >>> swapaxes(np.zeros((2, 3, 4)), 0, -1).shape
    (4, 3, 2)
    """
    first, second = _axis("swapaxes", "axis1", x, axis1), _axis("swapaxes", "axis2", x, axis2)
    order = list(range(len(_sizes(x))))
    order[first], order[second] = second, first
    return transpose(x, order)


def moveaxis(x: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """The same elements with some dimensions at other places, and the rest in their order.

    >>> moveaxis(np.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    moved, places = _axes("moveaxis", x, source), _axes("moveaxis", x, destination)
    if len(moved) != len(places):
        raise _refuse("moveaxis", "destination", f"destination must name {len(moved)} places", destination)
    order = [k for k in range(len(_sizes(x))) if k not in moved]
    for place, axis in sorted(zip(places, moved, strict=True)):
        order.insert(place, axis)
    return transpose(x, order)


def reshape(x: Any, shape: Sequence[int] | int) -> Any:
    """The same elements in order, of other sizes, one of which may be -1: what is left for it.

    >>> reshape(np.array([1, 2, 3, 4]), (2, -1))
    array([[1, 2],
           [3, 4]])
    """
    if not isinstance(x, Expression):
        x = _array(x)
        try:
            return x.reshape(shape)
        except (TypeError, ValueError, RuntimeError):  # NumPy's and PyTorch's
            _numbers("reshape", "shape", shape)
            rule = f"shape must have the {math.prod(x.shape)} elements of {tuple(x.shape)}"
            raise _refuse("reshape", "shape", rule, shape) from None
    sizes = list(_numbers("reshape", "shape", shape))
    count, rest = math.prod(x.sizes), math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and rest and count % rest == 0:
        sizes[sizes.index(-1)] = count // rest
    if min(sizes, default=1) < 1 or math.prod(sizes) != count:
        raise _refuse("reshape", "shape", f"shape must have the {count} elements of {x.sizes}", shape)
    packed = TensorDesc(x.data_type, x.sizes or (1,)).element_strides
    x = x if tuple(x.strides) == tuple(packed)[: len(x.strides)] else _operator("identity")(x)
    return _seen(x, sizes, TensorDesc(x.data_type, sizes).element_strides if sizes else ())


def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The same elements in order, with dimensions from one to another as one: all of them, if not said.

    >>> flatten(np.zeros((2, 3, 4)), 1).shape
    (2, 12)
    """
    sizes = _sizes(x)
    if not sizes:
        return reshape(x, -1)
    first, last = _axis("flatten", "start_dim", x, start_dim), _axis("flatten", "end_dim", x, end_dim)
    if last < first:
        raise _refuse("flatten", "end_dim", f"end_dim must not lie before start_dim, {start_dim}", end_dim)
    return reshape(x, (*sizes[:first], math.prod(sizes[first : last + 1]), *sizes[last + 1 :]))


def expand_dims(x: Any, axis: int | Sequence[int]) -> Any:
    """The same elements with dimensions of size 1 at these axes of the result.

    >>> expand_dims(np.array([1, 2]), 0)
    array([[1, 2]])
    """
    sizes = _sizes(x)
    axes = _axes("expand_dims", x, axis, len(sizes) + len(_numbers("expand_dims", "axis", axis)))
    if isinstance(x, Expression):
        old, rank = iter(zip(x.sizes, x.strides, strict=True)), len(sizes) + len(axes)
        made = [(1, 0) if k in axes else next(old) for k in range(rank)]
        return _seen(x, *zip(*made, strict=True)) if made else x
    x = _array(x)
    return x[tuple(None if k in axes else slice(None) for k in range(len(sizes) + len(axes)))]


def unsqueeze(x: Any, dim: int) -> Any:
    """PyTorch's name for `expand_dims`.

    >>> unsqueeze(np.array([1, 2]), 0)
    array([[1, 2]])
    """
    return expand_dims(x, dim)


def squeeze(x: Any, axis: Axis = None) -> Any:
    """The same elements without these dimensions, which have size 1; without all that have, where none is named.

    >>> squeeze(np.array([[1, 2]]))
    array([1, 2])
    """
    sizes = _sizes(x)
    axes = [k for k, size in enumerate(sizes) if size == 1] if axis is None else _axes("squeeze", x, axis)
    if builtins.any(sizes[k] != 1 for k in axes):
        raise _refuse("squeeze", "axis", f"axis must name dimensions of size 1 of {sizes}", axis)
    return _without(_array(x), axes)


def _without(x: Any, axes: Sequence[int]) -> Any:
    """Without some dimensions of size 1."""
    if type(x) is np.ndarray:
        return x.squeeze(tuple(axes))
    sizes = _sizes(x)
    kept = [k for k in range(len(sizes)) if k not in axes]
    if isinstance(x, Expression):
        return _seen(x, [sizes[k] for k in kept], [x.strides[k] for k in kept])
    return x[tuple(slice(None) if k in kept else 0 for k in range(len(sizes)))] if kept else x.reshape(())


def broadcast_to(x: Any, shape: Sequence[int] | int) -> Any:
    """The same elements repeated along dimensions of size 1, and along those that are added in front.

    >>> broadcast_to(np.array([1, 2]), (2, 2))
    array([[1, 2],
           [1, 2]])
    """
    sizes, wanted = _sizes(x), _numbers("broadcast_to", "shape", shape)
    more = len(wanted) - len(sizes)
    if more < 0 or builtins.any(size not in (1, want) for size, want in zip(sizes, wanted[more:], strict=True)):
        raise _refuse("broadcast_to", "shape", f"shape must be one that {sizes} broadcasts to", shape)
    if isinstance(x, Expression):
        strides = [0 if size == 1 else stride for size, stride in zip(sizes, x.strides, strict=True)]
        return _seen(x, wanted, [0] * more + strides)
    if is_tensor(x):
        return x.expand(wanted)
    try:
        return np.broadcast_to(x, wanted)
    except ValueError as error:
        raise _refuse("broadcast_to", "shape", f"shape must be one that an array can have ({error})", shape) from None


# Made of numbers


def full(
    shape: Sequence[int] | int, fill_value: float, dtype: Any = "float32", *, device: Place = None, graph: Any = None
) -> Any:
    """An array of one number: FILL_VALUE_CONSTANT.

    >>> full((2, 2), 7, "int32")
    array([[7, 7],
           [7, 7]], dtype=int32)
    """
    return _operator("fill_value_constant")(shape, fill_value, dtype, device=device, graph=graph)


def zeros(shape: Sequence[int] | int, dtype: Any = "float32", *, device: Place = None, graph: Any = None) -> Any:
    """An array of zeros: FILL_VALUE_CONSTANT.

    >>> zeros(3)
    array([0., 0., 0.], dtype=float32)
    """
    return full(shape, 0, dtype, device=device, graph=graph)


def ones(shape: Sequence[int] | int, dtype: Any = "float32", *, device: Place = None, graph: Any = None) -> Any:
    """An array of ones: FILL_VALUE_CONSTANT.

    >>> ones(3, "int64")
    array([1, 1, 1])
    """
    return full(shape, 1, dtype, device=device, graph=graph)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: Any = None,
    *,
    device: Place = None,
    graph: Any = None,
) -> Any:
    """The numbers from a start on, a step apart, up to a stop and without it: FILL_VALUE_SEQUENCE.

    They are INT64 where all three are whole, else FLOAT32. One argument is the stop, and the start 0.

    >>> arange(2, 9, 3)
    array([2, 5, 8])
    """
    for field, one in (("start", start), ("stop", 0 if stop is None else stop), ("step", step)):
        read = isinstance(one, (int, float, np.integer, np.floating)) and math.isfinite(one)
        if not read:
            raise _refuse("arange", field, f"{field} must be a number", one)
    first, last = (0, start) if stop is None else (start, stop)
    if dtype is None:
        dtype = "int64" if builtins.all(hasattr(one, "__index__") for one in (first, last, step)) else "float32"
    count = math.ceil((last - first) / step) if step else 0
    if count < 1:
        raise _refuse("arange", "stop", f"stop must be such that some number lies between it and {first}", last)
    return _operator("fill_value_sequence")([count], first, step, dtype, device=device, graph=graph)


def eye(
    n: int, m: int | None = None, k: int = 0, dtype: Any = "float32", *, device: Place = None, graph: Any = None
) -> Any:
    """A matrix of zeros with ones on a diagonal: DIAGONAL_MATRIX.

    >>> eye(2, 3, 1, "int32")
    array([[0, 1, 0],
           [0, 0, 1]], dtype=int32)
    """
    return _operator("diagonal_matrix")([n, n if m is None else m], k, 1, dtype, device=device, graph=graph)


# Joined and rearranged


def concatenate(tensors: Sequence[Any], axis: int | None = 0, *, out: Any = None, device: Place = None) -> Any:
    """Tensors one after the other along an axis: JOIN. With `axis=None` all elements, in order.

    >>> concatenate([np.array([1, 2]), np.array([3])])
    array([1, 2, 3])
    """
    if axis is None and isinstance(tensors, (list, tuple)):
        tensors, axis = [reshape(x, -1) for x in tensors], 0
    return _operator("join")(tensors, 0 if axis is None else axis, out=out, device=device)


def cat(tensors: Sequence[Any], dim: int = 0, *, out: Any = None, device: Place = None) -> Any:
    """PyTorch's name for `concatenate`.

    >>> cat([np.array([1, 2]), np.array([3])])
    array([1, 2, 3])
    """
    return concatenate(tensors, dim, out=out, device=device)


def stack(tensors: Sequence[Any], axis: int = 0, *, out: Any = None, device: Place = None) -> Any:
    """Tensors of the same sizes along a new axis: JOIN.

    >>> stack([np.array([1, 2]), np.array([3, 4])], axis=1)
    array([[1, 3],
           [2, 4]])
    """
    if isinstance(tensors, (list, tuple)):
        tensors = [expand_dims(x, axis) for x in tensors]
    return _operator("join")(tensors, axis, out=out, device=device)


def flip(x: Any, axis: Axis = None, *, out: Any = None, device: Place = None) -> Any:
    """The order of elements reversed along these axes, or all: SLICE1 with strides of -1.

    >>> flip(np.array([1, 2, 3]))
    array([3, 2, 1])
    """
    sizes, axes = _sizes(x), _axes("flip", x, axis)
    strides = [-1 if k in axes else 1 for k in range(len(sizes))]
    return _operator("slice1")(x, [0] * len(sizes), list(sizes), strides, out=out, device=device)


def roll(x: Any, shift: int, axis: int | None = None, *, out: Any = None, device: Place = None) -> Any:
    """The elements moved along an axis, those that leave it entering at its start; of all in order, if not said: JOIN.

    >>> roll(np.array([1, 2, 3, 4]), 1)
    array([4, 1, 2, 3])
    """
    x = _array(x)
    if axis is None:
        return reshape(roll(reshape(x, -1), shift, 0, device=device), _sizes(x))
    k, sizes = _axis("roll", "axis", x, axis), _sizes(x)
    count = _number("roll", "shift", shift)
    if not sizes[k] or not (cut := -count % sizes[k]):
        return _operator("identity")(x, out=out, device=device)
    parts = _operator("split")(x, [cut, sizes[k] - cut], k, device=device)
    return _operator("join")(parts[::-1], k, out=out, device=device)


def repeat(x: Any, repeats: int, axis: int | None = None, *, out: Any = None, device: Place = None) -> Any:
    """Each element so many times, along an axis or of all in order: ELEMENT_WISE_IDENTITY. (`tile` repeats the whole.)

    >>> repeat(np.array([1, 2]), 2)
    array([1, 1, 2, 2])
    """
    x, axis = (reshape(_array(x), -1), 0) if axis is None else (_array(x), axis)
    k, sizes = _axis("repeat", "axis", x, axis), _sizes(x)
    count = _number("repeat", "repeats", repeats)
    if count < 1:
        raise _refuse("repeat", "repeats", "repeats must be at least 1", repeats)
    wide = broadcast_to(expand_dims(x, k + 1), (*sizes[: k + 1], count, *sizes[k + 1 :]))
    into = None if out is None else reshape(out, _sizes(wide))
    found = _operator("identity")(wide, out=into, device=device)
    return reshape(found, (*sizes[:k], sizes[k] * count, *sizes[k + 1 :])) if out is None else out


def tril(x: Any, k: int = 0, *, out: Any = None, device: Place = None) -> Any:
    """Matrices with zeros above a diagonal: DIAGONAL_MATRIX1.

    >>> tril(np.array([[1, 2], [3, 4]]))
    array([[1, 0],
           [3, 4]])
    """
    last = _matrix("tril", x)[1]
    after = _number("tril", "k", k) + 1
    return _operator("diagonal_matrix1")(x, after, max(last, after), 0, out=out, device=device)


def triu(x: Any, k: int = 0, *, out: Any = None, device: Place = None) -> Any:
    """Matrices with zeros below a diagonal: DIAGONAL_MATRIX1.

    >>> triu(np.array([[1, 2], [3, 4]]))
    array([[1, 2],
           [0, 4]])
    """
    first, end = -_matrix("triu", x)[0], _number("triu", "k", k)
    return _operator("diagonal_matrix1")(x, min(first, end), end, 0, out=out, device=device)


def _matrix(name: str, x: Any) -> tuple[int, int]:
    """The last two sizes."""
    if len(sizes := _sizes(x)) < 2:
        raise _refuse(name, "x", "x must have at least 2 dimensions", tuple(sizes))
    return sizes[-2], sizes[-1]


def pad(
    x: Any,
    pad_width: Any,
    mode: str = "constant",
    constant_values: float = 0,
    *,
    out: Any = None,
    device: Place = None,
) -> Any:
    """More elements on each side, as `numpy.pad` has it: PADDING. Modes are constant, edge, reflect and symmetric.

    >>> pad(np.array([1, 2], "float32"), (1, 2))
    array([0., 1., 2., 0., 0.], dtype=float32)
    """
    modes = {"constant": "constant", "edge": "edge", "reflect": "reflection", "symmetric": "symmetric"}
    if mode not in modes:
        raise _refuse("pad", "mode", f"mode must be one of {', '.join(modes)}", mode)
    try:
        widths = np.broadcast_to(np.asarray(pad_width), (len(_sizes(x)), 2))
    except ValueError:
        rule = "pad_width must be a number, (before, after), or one such pair for each dimension"
        raise _refuse("pad", "pad_width", rule, pad_width) from None
    before, after = widths.T.tolist()
    padded = _operator("padding1")
    return padded(x, before, after, modes[mode], padding_value=constant_values, out=out, device=device)


# Along axes


def _wide(x: Any, dtype: Any = None) -> Any:
    """Integers in 64 bits, in which NumPy and PyTorch add them; or what is told, in that type."""
    if dtype is not None:
        return _operator("cast")(_array(x), dtype)
    if isinstance(x, Expression):
        kind = x.data_type
        wide = kind if kind.is_float else DataType.INT64 if kind.is_signed else DataType.UINT64
        return x if wide is kind else _operator("cast")(x, wide)
    x = _array(x)
    if getattr(x.dtype, "kind", "") == "f":  # NumPy's: to write the name of one takes 4 us
        return x
    name = str(x.dtype).removeprefix("torch.")
    if not name.startswith(("int", "uint", "bool")) or name.endswith("64"):
        return x
    if name == "bool":
        x = x.view(sys.modules["torch"].uint8 if is_tensor(x) else np.uint8)
    is_signed = is_tensor(x) or not name.startswith("uint")
    return _operator("cast")(x, DataType.INT64 if is_signed else DataType.UINT64)


def _reduced(name: str, function: str, x: Any, axis: Axis, keepdims: bool, out: Any, device: Place) -> Any:
    """REDUCE along axes, which are dropped unless they are kept."""
    x = _array(x)
    axes = _axes(name, x, axis)
    if not axes:  # nothing is folded
        return _operator("identity")(x, out=out, device=device)
    if keepdims:
        return _operator("reduce")(x, function, axes, out=out, device=device)
    if out is None:
        return _without(_operator("reduce")(x, function, axes, device=device), axes)
    _operator("reduce")(x, function, axes, out=expand_dims(out, axes), device=device)
    return out


def sum(  # noqa: A001 - NumPy's name
    x: Any, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None, out: Any = None, device: Place = None
) -> Any:
    """The sum along axes, or of all elements: REDUCE. Integers are added in 64 bits, if no type is said.

    >>> sum(np.array([[1, 2], [3, 4]], "float32"), axis=1)
    array([3., 7.], dtype=float32)
    """
    return _reduced("sum", "sum", _wide(x, dtype), axis, keepdims, out, device)


def prod(
    x: Any, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None, out: Any = None, device: Place = None
) -> Any:
    """The product along axes, or of all elements: REDUCE. Integers are multiplied in 64 bits, if no type is said.

    >>> prod(np.array([2, 3, 4]))
    array(24)
    """
    return _reduced("prod", "multiply", _wide(x, dtype), axis, keepdims, out, device)


def average(x: Any, axis: Axis = None, keepdims: bool = False, *, out: Any = None, device: Place = None) -> Any:
    """The mean along axes, or of all elements: REDUCE. (`mean` is DirectML's, of two tensors.)

    >>> average(np.array([[1, 2], [3, 4]], "float32"), axis=0)
    array([2., 3.], dtype=float32)
    """
    return _reduced("average", "average", x, axis, keepdims, out, device)


def amax(x: Any, axis: Axis = None, keepdims: bool = False, *, out: Any = None, device: Place = None) -> Any:
    """The largest element along axes, or of all: REDUCE. (`max` is DirectML's, of two tensors.)

    >>> amax(np.array([[1, 5], [3, 4]], "float32"), axis=1)
    array([5., 4.], dtype=float32)
    """
    return _reduced("amax", "max", x, axis, keepdims, out, device)


def amin(x: Any, axis: Axis = None, keepdims: bool = False, *, out: Any = None, device: Place = None) -> Any:
    """The smallest element along axes, or of all: REDUCE. (`min` is DirectML's, of two tensors.)

    >>> amin(np.array([[1, 5], [3, 4]], "float32"), axis=1)
    array([1., 3.], dtype=float32)
    """
    return _reduced("amin", "min", x, axis, keepdims, out, device)


def logsumexp(x: Any, axis: Axis = None, keepdims: bool = False, *, out: Any = None, device: Place = None) -> Any:
    """The logarithm of the sum of exponentials along axes, or of all elements: REDUCE.

    >>> logsumexp(np.zeros(4, "float32"))
    array(1.3862944, dtype=float32)
    """
    return _reduced("logsumexp", "log_sum_exp", x, axis, keepdims, out, device)


def var(
    x: Any, axis: Axis = None, keepdims: bool = False, ddof: int = 0, *, out: Any = None, device: Place = None
) -> Any:
    """The variance along axes, or of all elements; `ddof=1` divides by one less than the count, as PyTorch does.

    >>> var(np.array([1, 2, 3, 4], "float32"))
    array(1.25, dtype=float32)
    """
    x = _array(x)
    axes = _axes("var", x, axis)
    count = math.prod(_sizes(x)[k] for k in axes)
    if count <= ddof:
        raise _refuse("var", "ddof", f"ddof must be less than the {count} elements that are averaged", ddof)
    middle = average(x, axes, keepdims=True, device=device)
    squares = _operator("difference_square")(x, middle, device=device)
    if not ddof:
        return average(squares, axes, keepdims, out=out, device=device)
    found = average(squares, axes, keepdims, device=device)
    return _operator("identity")(found, (count / (count - ddof), 0.0), out=out, device=device)


def std(
    x: Any, axis: Axis = None, keepdims: bool = False, ddof: int = 0, *, out: Any = None, device: Place = None
) -> Any:
    """The standard deviation along axes, or of all elements: the root of `var`.

    >>> std(np.array([1, 3], "float32"))
    array(1., dtype=float32)
    """
    return _operator("sqrt")(var(x, axis, keepdims, ddof, device=device), out=out, device=device)


def any(x: Any, axis: Axis = None, keepdims: bool = False, *, device: Place = None) -> Any:  # noqa: A001 - NumPy's name
    """Whether any element along axes, or of all, is not 0.

    >>> any(np.array([[0, 1], [0, 0]], "uint8"), axis=1)
    array([ True, False])
    """
    return _truths(amax(_nonzero(x, device), axis, keepdims, device=device))


def all(x: Any, axis: Axis = None, keepdims: bool = False, *, device: Place = None) -> Any:  # noqa: A001 - NumPy's name
    """Whether all elements along axes, or of all, are not 0.

    >>> all(np.array([[1, 1], [0, 1]], "uint8"), axis=1)
    array([ True, False])
    """
    return _truths(amin(_nonzero(x, device), axis, keepdims, device=device))


def count_nonzero(x: Any, axis: Axis = None, keepdims: bool = False, *, device: Place = None) -> Any:
    """The number of elements that are not 0, along axes or of all, INT64: REDUCE.

    >>> count_nonzero(np.array([[0, 1], [2, 3]], "float32"), axis=0)
    array([1, 2])
    """
    return sum(_nonzero(x, device), axis, keepdims, dtype="int64", device=device)


def _nonzero(x: Any, device: Place) -> Any:
    equal_to = _operator("logical_equals")(x, 0, device=device)
    return _operator("logical_not")(equal_to, device=device)


def cumsum(x: Any, axis: int | None = None, *, out: Any = None, device: Place = None) -> Any:
    """Running sums along an axis, or of all elements in order: CUMULATIVE_SUMMATION.

    >>> cumsum(np.array([1, 2, 3], "float32"))
    array([1., 3., 6.], dtype=float32)
    """
    x, axis = (reshape(x, -1), 0) if axis is None else (x, axis)
    return _operator("cumulative_summation")(x, axis, out=out, device=device)


def cumprod(x: Any, axis: int | None = None, *, out: Any = None, device: Place = None) -> Any:
    """Running products along an axis, or of all elements in order: CUMULATIVE_PRODUCT.

    >>> cumprod(np.array([1, 2, 3], "float32"))
    array([1., 2., 6.], dtype=float32)
    """
    x, axis = (reshape(x, -1), 0) if axis is None else (x, axis)
    return _operator("cumulative_product")(x, axis, out=out, device=device)


def _sorted(name: str, x: Any, axis: int, descending: bool, device: Place) -> Any:
    x = _array(x)
    number = _axis(name, "axis", x, axis)
    way = "decreasing" if descending else "increasing"
    return _operator("top_k1")(x, number, _sizes(x)[number], way, device=device)


def sort(x: Any, axis: int = -1, descending: bool = False, *, device: Place = None) -> Any:
    """The elements along an axis in order: TOP_K1 of all of them.

    >>> sort(np.array([3, 1, 2], "float32"))
    array([1., 2., 3.], dtype=float32)
    """
    return _sorted("sort", x, axis, descending, device)[0]


def argsort(x: Any, axis: int = -1, descending: bool = False, *, device: Place = None) -> Any:
    """The places of the elements along an axis in order, INT64; of equal ones the first comes first: TOP_K1.

    >>> argsort(np.array([3, 1, 2], "float32"))
    array([1, 2, 0])
    """
    return _operator("cast")(_sorted("argsort", x, axis, descending, device)[1], DataType.INT64, device=device)


def topk(x: Any, k: int, dim: int = -1, largest: bool = True, *, device: Place = None) -> Any:
    """PyTorch's call of `top_k`: the largest elements along an axis, or the smallest, and their places: TOP_K1.

    >>> topk(np.array([3, 1, 2]), 2).values
    array([3, 2])
    """
    return _operator("top_k1")(x, dim, k, "decreasing" if largest else "increasing", device=device)


# Chosen and compared


def where(condition: Any, x: Any, y: Any, *, out: Any = None, device: Place = None) -> Any:
    """Elements of `x` where a condition holds, and of `y` elsewhere: ELEMENT_WISE_IF.

    >>> where(np.array([True, False]), np.array([1, 2]), 0)
    array([1, 0])
    """
    return _operator("if_")(condition, x, y, out=out, device=device)


def take(x: Any, indices: Any, axis: int | None = None, *, out: Any = None, device: Place = None) -> Any:
    """Elements at indices along an axis, or of all in order: GATHER.

    >>> take(np.array([10, 20, 30]), [2, 0])
    array([30, 10])
    """
    x, axis = (reshape(x, -1), 0) if axis is None else (x, axis)
    return _operator("gather")(x, indices, axis, out=out, device=device)


def take_along_axis(x: Any, indices: Any, axis: int = -1, *, out: Any = None, device: Place = None) -> Any:
    """For each place the element at an index along an axis: GATHER_ELEMENTS.

    >>> take_along_axis(np.array([[1, 2], [3, 4]]), np.array([[1], [0]]), axis=1)
    array([[2],
           [3]])
    """
    return _operator("gather_elements")(x, indices, axis, out=out, device=device)


def embedding(indices: Any, weight: Any, *, out: Any = None, device: Place = None) -> Any:
    """The rows of a table at indices: GATHER.

    >>> embedding(np.array([1, 0]), np.array([[1.0, 2.0], [3.0, 4.0]], "float32"))
    array([[3., 4.],
           [1., 2.]], dtype=float32)
    """
    return _operator("gather")(weight, indices, 0, out=out, device=device)


def _truths(found: Any) -> Any:
    """A result of 0 and 1 as booleans, where it is an array: the same bytes."""
    if isinstance(found, Expression):
        return found
    return found.view(sys.modules["torch"].bool if is_tensor(found) else np.bool_)


def _compared(name: str, *operands: Any, out: Any, device: Place) -> Any:
    found = _operator(name)(*operands, out=out, device=device)
    return found if out is not None else _truths(found)


def equal(a: Any, b: Any, *, out: Any = None, device: Place = None) -> Any:
    """Whether elements are equal, as booleans: LOGICAL_EQUALS.

    >>> equal(np.array([1, 2]), 2)
    array([False,  True])
    """
    return _compared("logical_equals", a, b, out=out, device=device)


def not_equal(a: Any, b: Any, *, out: Any = None, device: Place = None) -> Any:
    """Whether elements are not equal, as booleans.

    >>> not_equal(np.array([1, 2]), 2)
    array([ True, False])
    """
    return _compared("logical_not", _operator("logical_equals")(a, b, device=device), out=out, device=device)


def greater(a: Any, b: Any, *, out: Any = None, device: Place = None) -> Any:
    """Whether a > b, as booleans: LOGICAL_GREATER_THAN.

    >>> greater(np.array([1, 2]), 1)
    array([False,  True])
    """
    return _compared("logical_greater_than", a, b, out=out, device=device)


def greater_equal(a: Any, b: Any, *, out: Any = None, device: Place = None) -> Any:
    """Whether a ≥ b, as booleans: LOGICAL_GREATER_THAN_OR_EQUAL.

    >>> greater_equal(np.array([1, 2]), 2)
    array([False,  True])
    """
    return _compared("logical_greater_than_or_equal", a, b, out=out, device=device)


def less(a: Any, b: Any, *, out: Any = None, device: Place = None) -> Any:
    """Whether a < b, as booleans: LOGICAL_LESS_THAN.

    >>> less(np.array([1, 2]), 2)
    array([ True, False])
    """
    return _compared("logical_less_than", a, b, out=out, device=device)


def less_equal(a: Any, b: Any, *, out: Any = None, device: Place = None) -> Any:
    """Whether a ≤ b, as booleans: LOGICAL_LESS_THAN_OR_EQUAL.

    >>> less_equal(np.array([1, 2]), 1)
    array([ True, False])
    """
    return _compared("logical_less_than_or_equal", a, b, out=out, device=device)


def isnan(x: Any, *, out: Any = None, device: Place = None) -> Any:
    """Whether elements are NaN, as booleans: IS_NAN.

    >>> isnan(np.array([1, np.nan], "float32"))
    array([False,  True])
    """
    return _compared("is_nan", x, out=out, device=device)


def isinf(x: Any, *, out: Any = None, device: Place = None) -> Any:
    """Whether elements are infinite, as booleans: IS_INFINITY.

    >>> isinf(np.array([1, -np.inf], "float32"))
    array([False,  True])
    """
    return _compared("is_infinity", x, out=out, device=device)


def isfinite(x: Any, *, out: Any = None, device: Place = None) -> Any:
    """Whether elements are neither infinite nor NaN, as booleans.

    >>> isfinite(np.array([1, -np.inf, np.nan], "float32"))
    array([ True, False, False])
    """
    odd = _operator("logical_or")(_operator("is_nan")(x, device=device), _operator("is_infinity")(x, device=device))
    return _compared("logical_not", odd, out=out, device=device)


# Products, powers and normalisation


def square(x: Any, *, out: Any = None, device: Place = None) -> Any:
    """x·x.

    >>> square(np.array([3, -4], "float32"))
    array([ 9., 16.], dtype=float32)
    """
    return _operator("multiply")(x, x, out=out, device=device)


def trunc(x: Any, *, out: Any = None, device: Place = None) -> Any:
    """The whole part: ELEMENT_WISE_ROUND towards 0.

    >>> trunc(np.array([1.5, -1.5], "float32"))
    array([ 1., -1.], dtype=float32)
    """
    return _operator("round")(x, "toward_zero", out=out, device=device)


def rsqrt(x: Any, *, out: Any = None, device: Place = None) -> Any:
    """1/√x.

    >>> rsqrt(np.array([4, 16], "float32"))
    array([0.5 , 0.25], dtype=float32)
    """
    return _operator("recip")(_operator("sqrt")(x, device=device), out=out, device=device)


def outer(a: Any, b: Any, *, out: Any = None, device: Place = None) -> Any:
    """The product of each element of `a` with each of `b`, both in order: ELEMENT_WISE_MULTIPLY.

    >>> outer(np.array([1, 2]), np.array([3, 4]))
    array([[3, 4],
           [6, 8]])
    """
    return _operator("multiply")(reshape(a, (-1, 1)), reshape(b, (1, -1)), out=out, device=device)


def matmul(a: Any, b: Any, *, out: Any = None, device: Place = None) -> Any:
    """The product of matrices, as NumPy has it: GEMM. Leading dimensions broadcast; of one dimension a is a row, b a
    column.

    >>> matmul(np.array([[1, 2], [3, 4]], "float32"), np.array([1, 1], "float32"))
    array([3., 7.], dtype=float32)
    """
    a, b = map(_array, (a, b))
    ranks = [len(_sizes(x)) for x in (a, b)]
    if not ranks[0] or not ranks[1]:
        raise _refuse("matmul", "a" if not ranks[0] else "b", "a and b must have dimensions", (), "use multiply")
    first, last = _sizes(a)[-1], _sizes(b)[max(ranks[1] - 2, 0)]
    if first != last:
        rule = f"the last size of a must be that of b{'' if ranks[1] == 1 else ' before its last'}, {last}"
        raise _refuse("matmul", "a", rule, _sizes(a))
    dropped = ([-2] if ranks[0] == 1 else []) + ([-1] if ranks[1] == 1 else [])
    a, b = expand_dims(a, 0) if ranks[0] == 1 else a, expand_dims(b, 1) if ranks[1] == 1 else b
    if not dropped:
        return _operator("gemm")(a, b, out=out, device=device)
    rank = max(len(_sizes(a)), len(_sizes(b)))
    axes = [axis % rank for axis in dropped]
    if out is None:
        return _without(_operator("gemm")(a, b, device=device), axes)
    _operator("gemm")(a, b, out=expand_dims(out, axes), device=device)
    return out


def layer_norm(
    x: Any,
    normalized_shape: int | Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    out: Any = None,
    device: Place = None,
) -> Any:
    """Each of the last dimensions' slices less its mean, by its deviation: MEAN_VARIANCE_NORMALIZATION2.

    >>> layer_norm(np.array([[1, 3]], "float32"), 2, eps=0.0)
    array([[-1.,  1.]], dtype=float32)
    """
    return _normalised("layer_norm", x, normalized_shape, weight, bias, eps, True, out, device)


def rms_norm(
    x: Any,
    normalized_shape: int | Sequence[int],
    weight: Any = None,
    eps: float = 1e-5,
    *,
    out: Any = None,
    device: Place = None,
) -> Any:
    """Each of the last dimensions' slices by the root of its mean square: MEAN_VARIANCE_NORMALIZATION2.

    >>> rms_norm(np.array([[1, 7]], "float32"), 2, eps=0.0)
    array([[0.2, 1.4]], dtype=float32)
    """
    return _normalised("rms_norm", x, normalized_shape, weight, None, eps, False, out, device)


def _normalised(
    name: str, x: Any, shape: Any, weight: Any, bias: Any, eps: float, use_mean: bool, out: Any, device: Place
) -> Any:
    sizes, wanted = _sizes(x), _numbers(name, "normalized_shape", shape)
    if not wanted or tuple(sizes[len(sizes) - len(wanted) :]) != wanted:
        rule = f"normalized_shape must be the last of the sizes {tuple(sizes)}"
        raise _refuse(name, "normalized_shape", rule, shape)
    axes = list(range(len(sizes) - len(wanted), len(sizes)))
    normalise = _operator("mean_variance_normalization2")
    return normalise(x, axes, weight, bias, use_mean=use_mean, epsilon=eps, out=out, device=device)


def group_norm(
    x: Any,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    out: Any = None,
    device: Place = None,
) -> Any:
    """Groups of channels, the second dimension, each less its mean, by its deviation: MEAN_VARIANCE_NORMALIZATION2.

    >>> group_norm(np.array([[1, 3, 5, 9]], "float32"), 2, eps=0.0)
    array([[-1.,  1., -1.,  1.]], dtype=float32)
    """
    sizes = _sizes(x)
    (count,) = _numbers("group_norm", "num_groups", num_groups)
    if len(sizes) < 2 or count < 1 or sizes[1] % count:
        rule = f"num_groups must divide the channels, the second of the sizes {tuple(sizes)}"
        raise _refuse("group_norm", "num_groups", rule, num_groups)
    grouped = reshape(x, (sizes[0], count, -1))
    found = reshape(_operator("mean_variance_normalization2")(grouped, [2], epsilon=eps, device=device), sizes)
    by_channel = (-1, *[1] * (len(sizes) - 2))
    if weight is not None:
        target = out if bias is None else None
        found = _operator("multiply")(found, reshape(weight, by_channel), out=target, device=device)
    if bias is not None:
        return _operator("add")(found, reshape(bias, by_channel), out=out, device=device)
    return found if out is None or found is out else _operator("identity")(found, out=out, device=device)


# Python's operators on the arrays of devices


def _named(name: str) -> Callable[..., Any]:
    return lambda *operands: _operator(name)(*operands)


operations.update(
    add=_named("add"),
    sub=_named("subtract"),
    mul=_named("multiply"),
    truediv=_named("divide"),
    pow=_named("pow"),
    mod=_named("modulus_floor"),
    neg=_named("negate"),
    abs=_named("abs"),
    matmul=matmul,
    eq=equal,
    ne=not_equal,
    lt=less,
    le=less_equal,
    gt=greater,
    ge=greater_equal,
)

FAMILIAR: tuple[Callable[..., Any], ...] = tuple(
    worded(one, aliases_of(one))
    for name, one in sorted(globals().items())
    if name[0] != "_" and isinstance(one, FunctionType) and one.__module__ == __name__
)
"""All of them, but for those that are only renamed."""

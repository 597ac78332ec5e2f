"""DeviceArray: an array in the memory of a device that no array library knows, such as a WebGPU adapter's."""

from __future__ import annotations

import math
import numbers
import operator
import weakref
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from anydml.core.device_memory import memories
from anydml.core.errors import DescriptionError, Fault, show
from anydml.core.memory import Buffer, packed_strides, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from anydml.core.device_memory import DeviceMemory

    Array = np.ndarray[Any, Any]
    Operand: TypeAlias = "DeviceArray | Array | float | np.number[Any]"

_NAME = "DeviceArray"


def _refuse(field: str, rule: str, value: object, way_out: str = "") -> DescriptionError:
    return DescriptionError(_NAME, Fault(field=field, rule=rule, value=value, found=show(value), way_out=way_out))


operations: dict[str, Callable[..., DeviceArray]] = {}
"""The function of each of Python's operators, by its name in the module `operator`: a layer above enters them."""


def _apply(name: str, *operands: object) -> DeviceArray:
    """The result on the device, where a host array beside one of its own is copied first."""
    place = next(x.device for x in operands if isinstance(x, DeviceArray))
    given = [DeviceArray.of(x, place) if isinstance(x, np.ndarray) else x for x in operands]
    if all(isinstance(x, (DeviceArray, numbers.Real, np.generic)) for x in given):
        return operations[name](*given)
    return NotImplemented  # type: ignore[no-any-return]  # Python asks the other operand


def _packed_steps(shape: tuple[int, ...], width: int) -> tuple[int, ...]:
    return tuple(stride * width for stride in packed_strides(shape))


class Layout:
    """A type, sizes, strides and a memory: arrays alike have the same one, and no call compares or hashes these."""

    __slots__ = ("__weakref__",)


_layouts: weakref.WeakValueDictionary[tuple[Any, ...], Layout] = weakref.WeakValueDictionary()


def layout_key(dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...], memory: str) -> tuple[Layout]:
    """The key of arrays of a layout in a device's memory, for calls; strides are in bytes."""
    found = dtype, shape, strides, memory
    return (_layouts.setdefault(found, Layout()),)


class _Shown:
    """Shows NumPy an array's layout."""

    def __init__(self, array: DeviceArray) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (array.address or 1, False),  # NumPy would allocate what lies nowhere
            "shape": array.shape,
            "strides": array.strides,
            "typestr": array.dtype.str,
        }


class DeviceArray:
    """An array in the memory of a device: `dml.to_device(x, "webgpu")` makes one, and so do the functions on such.

    Its elements are on the host after `numpy()`, which waits for all work on them. Slices, `reshape` and `transpose`
    share its memory; `x[1:] = y` and `copy_from` write to it. Python's operators are functions of DirectML's operators
    on the device: comparisons give booleans, an element each.
    """

    __slots__ = ("__weakref__", "_buffer", "_steps", "_strides", "address", "device", "dtype", "key", "shape")
    __array_ufunc__ = None
    """NumPy computes nothing with it: that would be a copy to the host which nobody sees."""

    _buffer: Buffer
    _strides: tuple[int, ...] | None
    """None where it is packed."""
    _steps: tuple[int, ...] | None
    """The strides, once somebody has asked."""
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    device: str
    """The memory that it lies in: `webgpu:0`."""
    address: int
    """The device's own name of the first element, which tells elements apart and is none of the host's."""
    key: tuple[Layout] | None
    """What calls know its layout by, where programs may be bound to it as it lies and somebody has asked."""

    def __init__(self) -> None:
        raise TypeError('DeviceArray: dml.to_device(x, "webgpu") makes one, of an array of the host\'s')

    @classmethod
    def over(
        cls,
        buffer: Buffer,
        address: int,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
    ) -> DeviceArray:
        """An array over a device's memory, from the address of its first element; strides are in bytes."""
        made = object.__new__(cls)
        made._buffer, made.address, made.dtype, made.shape, made._strides = buffer, address, dtype, shape, strides
        made._steps, made.device, made.key = None, buffer.device, None
        return made

    @classmethod
    def empty(cls, dtype: np.dtype[Any], shape: tuple[int, ...], memory: str) -> DeviceArray:
        """A packed array of new memory, whatever that holds."""
        return cls.maker(dtype, shape, memory)()

    @classmethod
    def maker(cls, dtype: np.dtype[Any], shape: tuple[int, ...], memory: str) -> Callable[[], DeviceArray]:
        """A function that makes packed arrays of new memory, of one layout."""
        size = math.prod(shape) * dtype.itemsize
        key = layout_key(dtype, shape, _packed_steps(shape, dtype.itemsize), memory)

        def make() -> DeviceArray:
            buffer = memories[memory].reserve(size) if size else Buffer(0, 0, True, None, memory)
            made = cls.over(buffer, buffer.address, dtype, shape)
            made.key = key
            return made

        return make

    @classmethod
    def of(cls, array: Array, memory: str) -> DeviceArray:
        """A copy of an array of the host's."""
        packed = np.asarray(array, order="C")
        made = cls.empty(packed.dtype, packed.shape, memory)
        if packed.size:
            memories[memory].write(made.address, packed.reshape(-1).view(np.uint8))
        return made

    # What it is

    @property
    def is_aligned(self) -> bool:
        """Whether programs may be bound to it as it lies; of others the device makes a copy."""
        return self.address % memories[self.device].alignment == 0

    def find_key(self) -> tuple[Layout]:
        """The key of its layout, for whoever knows that it is aligned."""
        if self.key is None:
            self.key = layout_key(self.dtype, self.shape, self.strides, self.device)
        return self.key

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes from an element to the next along each dimension."""
        if self._steps is None:
            self._steps = self._strides or _packed_steps(self.shape, self.dtype.itemsize)
        return self._steps

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.size * self.dtype.itemsize

    @property
    def buffer(self) -> Buffer:
        """The memory that it is a part of, which it keeps."""
        return self._buffer

    @property
    def is_packed(self) -> bool:
        """Whether the elements lie one after the other, the last dimension's first."""
        if self._strides is None or not self.size:
            return True
        packed = zip(self.shape, _packed_steps(self.shape, self.itemsize), self._strides, strict=True)
        return all(stride == want for size, want, stride in packed if size > 1)

    @property
    def _memory(self) -> DeviceMemory:
        return memories[self.device]

    def _range(self) -> tuple[int, int]:
        """The bytes that elements lie in, from the first element on."""
        below, above = span(self.shape, self.strides)
        return below, above + self.itemsize

    # Its elements

    def numpy(self) -> Array:
        """The elements, copied to the host once all work on the device is done."""
        if not self.size:
            return np.empty(self.shape, self.dtype)
        low, high = self._range()
        data = self._memory.read(self.address + low, high - low)
        if self.is_packed:
            return data.view(self.dtype).reshape(self.shape)
        return np.ndarray(self.shape, self.dtype, data, -low, self.strides).copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("DeviceArray: the host's memory has a copy of its elements, and nothing else")
        found = self.numpy()
        return found if dtype is None else found.astype(dtype, copy=False)

    def item(self, *index: Any) -> Any:
        """The only element as a Python number, or the one at an index."""
        if index:
            return self[index[0] if len(index) == 1 and isinstance(index[0], tuple) else index].item()
        self._check_single("item()")
        return self.numpy().item()

    def tolist(self) -> Any:
        """The elements as Python's numbers, in lists."""
        return self.numpy().tolist()

    def copy_from(self, array: Any) -> DeviceArray:
        """Write the elements of an array, which may be repeated along dimensions as NumPy broadcasts; gives itself."""
        if isinstance(array, DeviceArray):
            array = array.numpy()
        try:
            given = np.asarray(array)
            given = given.astype(self.dtype, casting="unsafe" if given.ndim == 0 else "same_kind", copy=False)
        except Exception as error:
            rule, way_out = f"array must have elements that {self.dtype} holds", f'x.astype("{self.dtype}") converts'
            raise _refuse("array", rule, getattr(array, "dtype", type(array).__name__), way_out) from error
        try:
            given = np.broadcast_to(given, self.shape)
        except ValueError as error:
            raise _refuse("array", f"array must be of sizes that {self.shape} takes", given.shape) from error
        self._check_writable()
        if not self.size:
            return self
        low, high = self._range()
        if self.is_packed:
            data = np.ascontiguousarray(given).reshape(-1).view(np.uint8)
        else:  # what lies between the elements stays
            data = self._memory.read(self.address + low, high - low)
            np.ndarray(self.shape, self.dtype, data, -low, self.strides)[...] = given
        self._memory.write(self.address + low, data)
        return self

    def _check_writable(self) -> None:
        if any(size > 1 and stride == 0 for size, stride in zip(self.shape, self.strides, strict=True)):
            raise _refuse("array", "an array that repeats its elements must not be written to", self.strides)

    def _check_single(self, what: str) -> None:
        if self.size != 1:
            raise _refuse("array", f"{what} takes an array of one element", self.shape, "numpy() has all of them")

    # Views

    def _shadow(self) -> Array:
        """NumPy's array of the same layout, whose elements nobody may look at."""
        return np.asarray(_Shown(self))

    def _seen(self, shadow: Array) -> DeviceArray:
        address = shadow.__array_interface__["data"][0] if shadow.size else self.address
        return DeviceArray.over(self._buffer, address, shadow.dtype, shadow.shape, shadow.strides)

    def __getitem__(self, key: Any) -> DeviceArray:
        parts = key if isinstance(key, tuple) else (key,)
        for part in parts:
            if not (isinstance(part, (int, np.integer, slice)) or part is None or part is Ellipsis) or isinstance(
                part, bool
            ):
                rule = "an index must be an integer, a slice, None or ...; no array"
                raise _refuse("index", rule, part, "dml.gather(x, indices) takes elements by an array of indices")
        if Ellipsis not in parts:
            parts = (*parts, ...)  # whatever is left is an array: NumPy would read a lone element
        return self._seen(self._shadow()[parts])

    def __setitem__(self, key: Any, value: Any) -> None:
        self[key].copy_from(value)

    def reshape(self, *shape: Any) -> DeviceArray:
        """The same elements in another shape, of the same memory; of what strides do not allow, a copy."""
        wanted = shape[0] if len(shape) == 1 and not hasattr(type(shape[0]), "__index__") else shape
        try:
            sizes = tuple(map(operator.index, wanted))
            return self._seen(self._shadow().reshape(sizes, copy=False))
        except (TypeError, ValueError) as error:
            try:
                return DeviceArray.of(self.numpy().reshape(sizes), self.device)
            except (UnboundLocalError, ValueError):
                rule = f"shape must be one of {self.size} elements"
                raise _refuse("shape", rule, wanted) from error

    def transpose(self, *axes: Any) -> DeviceArray:
        """The same memory with the dimensions in another order: reversed, where none is given."""
        try:
            return self._seen(self._shadow().transpose(*axes))
        except (TypeError, ValueError) as error:
            raise _refuse("axes", f"axes must name each of the {self.ndim} dimensions once", axes) from error

    @property
    def T(self) -> DeviceArray:  # noqa: N802 - NumPy's name
        """The dimensions in reverse."""
        return self.transpose()

    def view(self, dtype: Any) -> DeviceArray:
        """The same bytes as elements of another type."""
        try:
            return self._seen(self._shadow().view(np.dtype(dtype)))
        except (TypeError, ValueError) as error:
            rule = f"dtype must be a type that the bytes of {self.dtype} in {self.shape} can be seen as"
            raise _refuse("dtype", rule, dtype) from error

    def copy(self) -> DeviceArray:
        """New memory with the same elements, packed."""
        return DeviceArray.of(self.numpy(), self.device)

    # As Python's containers and numbers

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("DeviceArray: an array of no dimensions has no len()")
        return self.shape[0]

    def __iter__(self) -> Iterator[DeviceArray]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        self._check_single("bool()")
        return bool(self.item())

    def __int__(self) -> int:
        self._check_single("int()")
        return int(self.item())

    def __float__(self) -> float:
        self._check_single("float()")
        return float(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise TypeError("DeviceArray: an index must be of integers")
        return int(self)

    # fmt: off
    def __add__(self, other: Operand) -> DeviceArray: return _apply("add", self, other)
    def __radd__(self, other: Operand) -> DeviceArray: return _apply("add", other, self)
    def __sub__(self, other: Operand) -> DeviceArray: return _apply("sub", self, other)
    def __rsub__(self, other: Operand) -> DeviceArray: return _apply("sub", other, self)
    def __mul__(self, other: Operand) -> DeviceArray: return _apply("mul", self, other)
    def __rmul__(self, other: Operand) -> DeviceArray: return _apply("mul", other, self)
    def __truediv__(self, other: Operand) -> DeviceArray: return _apply("truediv", self, other)
    def __rtruediv__(self, other: Operand) -> DeviceArray: return _apply("truediv", other, self)
    def __pow__(self, other: Operand) -> DeviceArray: return _apply("pow", self, other)
    def __rpow__(self, other: Operand) -> DeviceArray: return _apply("pow", other, self)
    def __mod__(self, other: Operand) -> DeviceArray: return _apply("mod", self, other)
    def __rmod__(self, other: Operand) -> DeviceArray: return _apply("mod", other, self)
    def __matmul__(self, other: Operand) -> DeviceArray: return _apply("matmul", self, other)
    def __rmatmul__(self, other: Operand) -> DeviceArray: return _apply("matmul", other, self)
    # Of elements, as NumPy's are, where `object` has them give a bool.
    def __eq__(self, other: object) -> DeviceArray: return _apply("eq", self, other)  # type: ignore[override]
    def __ne__(self, other: object) -> DeviceArray: return _apply("ne", self, other)  # type: ignore[override]
    def __lt__(self, other: Any) -> DeviceArray: return _apply("lt", self, other)
    def __le__(self, other: Any) -> DeviceArray: return _apply("le", self, other)
    def __gt__(self, other: Any) -> DeviceArray: return _apply("gt", self, other)
    def __ge__(self, other: Any) -> DeviceArray: return _apply("ge", self, other)
    __hash__ = object.__hash__
    def __neg__(self) -> DeviceArray: return _apply("neg", self)
    def __abs__(self) -> DeviceArray: return _apply("abs", self)
    # fmt: on

    def __repr__(self) -> str:
        head = f"{_NAME}("
        values = np.array2string(self.numpy(), separator=", ", prefix=head) if self.size else f"shape={self.shape}"
        return f"{head}{values}, dtype={self.dtype}, device={self.device!r})"

    def __str__(self) -> str:
        return str(self.numpy())

    def __reduce__(self) -> NoReturn:
        rule = f"memory of {self.device} can be neither copied nor pickled as it is"
        raise TypeError(f"{_NAME}: {rule}; its copy() is another there, and its numpy() can be pickled")

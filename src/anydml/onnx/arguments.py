"""A caller's arrays as a program takes them: checked, packed, and in the device's memory."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays import DeviceArray, on_host, place_of, view, wrap
from anydml.arrays.cuda import load_torch
from anydml.arrays.fingerprints import as_plain, is_packed
from anydml.arrays.view import describe, is_tensor
from anydml.core.errors import BindingError, Fault, printable, show
from anydml.core.memory import HOST, numpy_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from anydml.onnx.checks import TensorInfo
    from anydml.onnx.element_types import ElementType
    from anydml.onnx.lower.values import Value
    from anydml.onnx.program import Program


class memory_told:  # noqa: N801 - a context manager, of which a generator takes 2 us
    """Say that memory ran out, wherever it did."""

    __slots__ = ("_subject",)

    def __init__(self, subject: str) -> None:
        self._subject = subject

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, MemoryError):
            raise out_of_memory(error, self._subject) from error


def out_of_memory(error: MemoryError, subject: str) -> BindingError:
    """The error of a run for which there is too little memory."""
    return BindingError(subject, Fault(field="memory", rule=f"memory ran out ({show(error)})"))


def hold(inputs: Mapping[str, Any], subject: str) -> dict[str, Any]:
    """The caller's arrays by name, each read once."""
    if not hasattr(inputs, "keys") or isinstance(inputs, type):
        rule = "inputs must be a mapping of names to arrays"
        way_out = "model(array) takes them in the order of the inputs, and InferenceSession is as ONNX Runtime's"
        raise BindingError(subject, Fault(field="inputs", rule=rule, found=describe(inputs), way_out=way_out))
    try:
        return dict(inputs)
    except Exception as error:
        raise BindingError(subject, Fault(field="inputs", rule=f"inputs could not be read ({show(error)})")) from error


def take(array: Any, info: TensorInfo, memory: str) -> Any:
    """An input as a plain array, where it lies; a host array that a GPU is to read is sent there later."""
    subject = f"input '{printable(info.name)}'"
    place = place_of(array)
    if place == memory != HOST:
        return _take_on_device(array, info.element, subject)
    if info.element.is_half and hasattr(type(array), "__array__") and place == HOST:
        numbers = _as_numpy_has_it(array, subject)
        _check_type(numbers.dtype, info.element, subject)
        return np.ascontiguousarray(numbers.astype(info.element.held))
    plain = _take_on_host(array, info.element, subject)
    if info.element.name == "DOUBLE" and isinstance(array, (list, tuple, float)):  # which are Python's floats as well
        plain = np.asarray(array)
    if plain.dtype != info.element.dtype and isinstance(array, (list, tuple, int, float)):
        dtype = info.element.dtype.name
        rule = f"must be an array of {dtype}, the model's {info.element.name}"
        way_out = f"np.array(x, '{dtype}') is one"
        fault = Fault(field="array", rule=rule, value=array, found=describe(array), way_out=way_out)
        raise BindingError(subject, fault)
    _check_type(plain.dtype, info.element, subject)
    return plain if plain.flags.c_contiguous else plain.copy(order="C")


def _take_on_host(array: Any, element: ElementType, subject: str) -> np.ndarray[Any, Any]:
    if isinstance(array, np.generic):
        return np.asarray(array)
    plain = as_plain(array)
    if isinstance(plain, np.ndarray):
        return plain
    if element.is_bool and place_of(array) == HOST:  # which DirectML has not, and no view of it
        return _as_numpy_has_it(array, subject)
    if isinstance(array, np.ndarray) and array.dtype == np.bool_:
        return np.asarray(array)
    return view(array, subject, "array", memory=HOST).numpy()


def _as_numpy_has_it(array: Any, subject: str) -> np.ndarray[Any, Any]:
    """An array of a type that DirectML has not, or has otherwise."""
    try:
        is_shown = hasattr(type(array), "__dlpack__") and not isinstance(array, np.ndarray)
        return np.from_dlpack(array) if is_shown else np.asarray(array).view(np.ndarray)
    except Exception as error:
        rule = f"could not be read ({show(error)})"
        raise BindingError(subject, Fault(field="array", rule=rule, value=array)) from error


def _take_on_device(array: Any, element: ElementType, subject: str) -> Any:
    if isinstance(array, DeviceArray):
        _check_type(array.dtype, element, subject)
        return array if array.is_packed and array.is_aligned else array.copy()
    if not is_tensor(array):
        array = load_torch().from_dlpack(array)
    _check_type(_dtype_of(array), element, subject)
    return array.detach().contiguous()


def _dtype_of(tensor: Any) -> Any:
    """NumPy's type for a tensor's; its name, where NumPy has none."""
    name = str(tensor.dtype).rpartition(".")[2]
    return np.dtype(name) if name in np.sctypeDict else name


def _check_type(found: Any, element: ElementType, subject: str) -> None:
    if found != element.dtype:
        rule = f"must be of {element.dtype.name}, the model's {element.name}"
        way_out = (
            f"x.astype({f'ml_dtypes.{element.dtype.name}' if element.is_half else repr(element.dtype.name)}) converts"
        )
        fault = Fault(field="array", rule=rule, value=found, found=show(str(found)), way_out=way_out)
        raise BindingError(subject, fault)


def hand_over(results: list[Any], elements: Sequence[ElementType], memory: str, first: Any) -> list[Any]:
    """Results in the library and the memory of the first input, or of the first that lies on the device."""
    if memory != HOST and place_of(first) != memory:
        # PyTorch has no type of 4 bits: such a number lies in a byte there.
        pairs = zip(map(on_host, results), elements, strict=True)
        results = [result.view(element.dtype) if element.is_half else result for result, element in pairs]
    if first is None or isinstance(first, (np.ndarray, np.generic, int, float, list, tuple)):
        return results
    if is_tensor(first) and place_of(first) == HOST:
        return [load_torch().from_numpy(result) for result in results]
    return [wrap(result, first) for result in results]


def take_out(array: Any, name: str, value: Value, memory: str) -> Any:
    """An array for an output, which must be laid out as the results are."""
    subject = f"output '{printable(name)}'"
    plain: Any = array if type(array) is np.ndarray else as_plain(array)
    is_numpy = isinstance(plain, np.ndarray)
    if plain is None:
        raise _odd(array, subject, value.element)
    if place_of(array) != memory and not is_numpy:
        rule = "must be a NumPy array or a PyTorch tensor, where the device works"
        raise _no_room(subject, rule, array, f"a tensor on {place_of(array)}")
    _check_type(plain.dtype if is_numpy else _dtype_of(plain), value.element, subject)
    if tuple(plain.shape) != value.shape:
        raise _no_room(subject, f"must have the shape {value.shape}", array, str(tuple(plain.shape)))
    packed = plain.flags.c_contiguous if is_numpy else is_packed(plain)
    if not packed or (is_numpy and not plain.flags.writeable):
        raise _no_room(subject, "must be packed and writable", array)
    return plain


def _odd(array: Any, subject: str, element: ElementType) -> BindingError:
    """The fault of an object that is no plain array."""
    if isinstance(array, np.ndarray):
        rule, way_out = "must be a plain NumPy array", "x.view(np.ndarray) is one"
        return _no_room(subject, rule, array, describe(array), way_out)
    if isinstance(array, DeviceArray):
        return _no_room(subject, "must begin where programs may be bound to", array, way_out="pass its .copy()")
    if is_tensor(array):
        if (dtype := _dtype_of(array)) != element.dtype:
            return _no_room(subject, f"must be of {element.dtype.name}, the model's {element.name}", array, str(dtype))
        if array.requires_grad:
            found, way_out = "one that requires a gradient", "pass x.detach()"
            return _no_room(subject, "must be a tensor without a gradient", array, found, way_out)
        found = f"a {type(array).__name__} on {array.device}, of layout {array.layout}"
        return _no_room(subject, "must be a plain tensor, in memory that NumPy or the device can write", array, found)
    rule = "must be a NumPy array or a PyTorch tensor, where the device works"
    return _no_room(subject, rule, array, describe(array))


def refuse_out(out: object, subject: str, name: str) -> BindingError:
    """Say that `out` is no mapping; `name` is an output's."""
    rule, way_out = "out must be a mapping of the names of outputs to arrays", f"such as {{{name!r}: array}}"
    fault = Fault(field="out", rule=rule, value=out, found=describe(out), way_out=way_out)
    return BindingError(subject, fault)


def find_overlapping(outs: Mapping[str, Any], inputs: Mapping[str, Any], shares: Mapping[str, str]) -> list[str]:
    """The outputs whose arrays overlap an input's, or that of an output before.

    `shares` are the outputs that may be the very memory of an input, as a cache that is written in place.
    """
    spans = {name: _range(array) for name, array in outs.items()}
    ranges: list[tuple[int, int, str]] = [(*_range(array), name) for name, array in inputs.items()]
    apart = sorted({*spans.values(), *(one[:2] for one in ranges)})
    # A decoder has a hundred: where none overlaps another in part, those that lie alike are found at once.
    by: dict[tuple[int, int], list[tuple[int, int, str]]] | None = None
    if all(before[1] <= after[0] for before, after in itertools.pairwise(apart)):
        by = {}
        for one in ranges:
            by.setdefault(one[:2], []).append(one)
    found = []
    for name, (low, high) in spans.items():
        near = ranges if by is None else by.setdefault((low, high), [])
        others = [(start, end, other) for start, end, other in near if low < end and start < high]
        if all((start, end, other) == (low, high, shares.get(name)) for start, end, other in others):
            near.append((low, high, ""))
        else:
            found.append(name)
    return found


def check_apart(outs: Mapping[str, Any], inputs: Mapping[str, Any], shares: Mapping[str, str]) -> None:
    """Check that what is written overlaps nothing else, but for what it may share."""
    for name in find_overlapping(outs, inputs, shares)[:1]:
        raise _no_room(f"output '{printable(name)}'", "must overlap no input and no other output", outs[name])


def _range(array: Any) -> tuple[int, int]:
    if isinstance(array, np.ndarray):
        start = numpy_address(array)
        return start, start + array.nbytes
    if isinstance(array, DeviceArray):
        return array.address, array.address + array.nbytes
    return array.data_ptr(), array.data_ptr() + array.numel() * array.element_size()


def _no_room(subject: str, rule: str, array: object, found: str = "", way_out: str = "") -> BindingError:
    return BindingError(subject, Fault(field="out", rule=rule, value=array, found=found, way_out=way_out))


def host_copy(array: Any) -> np.ndarray[Any, Any]:
    """A copy, which a program keeps: the array is the caller's to change."""
    return on_host(array).copy()


def first_of(inputs: Mapping[str, Any], names: list[str], memory: str) -> Any:
    """The array whose library and memory the results take."""
    given = [inputs[name] for name in names if name in inputs]
    if memory != HOST:
        given = [array for array in given if place_of(array) == memory] or given
    return given[0] if given else None


# Runs into arrays of the caller's.


def check_outputs(out: Mapping[str, Any], names: Iterable[str], subject: str) -> None:
    """Check that there are outputs of the names that arrays are given for."""
    known = list(names)
    for name in out:
        if name not in known:
            rule, way_out = f"there is no output {show(name)}", f"the model has {', '.join(map(printable, known))}"
            raise BindingError(subject, Fault(field="out", rule=rule, value=name, way_out=way_out))


def run_into(
    program: Program,
    arrays: dict[str, Any],
    out: Mapping[str, Any],
    like: Any,
    memory: str,
    subject: str,
    *,
    may_overlap: bool = False,
) -> dict[str, Any] | None:
    """Run a program into arrays of the caller's; what a GPU cannot write is copied afterwards.

    So is what overlaps an input that the program must read until its end, where arrays `may_overlap`. None for values
    that it does not hold for.
    """
    check_outputs(out, program.names, subject)
    taken = {n: take_out(out[n], n, value, memory) for n, value in program.results() if n in out}
    later = find_overlapping(taken, arrays, program.shares)
    if not may_overlap:
        check_apart(taken, arrays, program.shares)
    there = {
        name: x for name, x in taken.items() if name not in later and (memory == HOST or not isinstance(x, np.ndarray))
    }
    results = program.run_into(arrays, [there.get(name) for name in program.names])
    if results is None:
        return None
    found = dict(zip(program.names, results, strict=True))
    for name in taken.keys() - there.keys():
        is_sent = isinstance(taken[name], np.ndarray) and memory != HOST
        taken[name][...] = on_host(found[name]) if is_sent else found[name]
    others = {name: value.element for name, value in program.results() if name not in out}
    handed = hand_over([found[name] for name in others], list(others.values()), memory, like)
    return {**found, **dict(zip(others, handed, strict=True)), **out}

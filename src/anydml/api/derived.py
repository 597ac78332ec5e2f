"""Functions that follow from descriptions: inputs by place, then attributes by place or name."""

from __future__ import annotations

import enum
import functools
import inspect
from dataclasses import MISSING, dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.api.broadcasting import is_number
from anydml.api.calls import Attempt, level_of, make_call
from anydml.api.describing import argument_name
from anydml.api.docstrings import document
from anydml.api.expression import Expression, Recorded, recording_of
from anydml.api.signatures import (
    OUTPUT_SIZES,
    RENAMED,
    arguments_of,
    choices_of,
    exact_name,
    family_of,
    is_type,
    parameters_of,
    signature_of,
)
from anydml.arrays import DeviceArray
from anydml.core.errors import DescriptionError, Fault, show
from anydml.core.late_imports import import_alone
from anydml.core.operator_type import function_name
from anydml.operators import OPERATORS
from anydml.operators.reductions import Folding

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from types import FunctionType

    from anydml.core.enums import FeatureLevel
    from anydml.operators import OperatorDesc

_ALONG = {
    "max": ("amax(x, axis)", "maximum(x, {})"),
    "min": ("amin(x, axis)", "minimum(x, {})"),
    "mean": ("average(x, axis)", "mean({}, x)"),
}
"""Functions of two tensors whose second argument is an axis elsewhere: what has an axis, and what a number."""
_OTHER_NAMES = {
    "axis": ("dim", "dims"), "keepdims": ("keepdim",), "axes": ("dims",), "ddof": ("correction",), "dim": ("axis",),
    "dims": ("axes",),
}  # fmt: skip
"""NumPy's and PyTorch's names of one argument."""
_OTHERWISE = {"sort"}
"""Functions whose call by PyTorch's names means something else: a pair of results."""
NO_ALIASES: Mapping[str, str] = MappingProxyType({})
_INTS = {int}
_ARRAYS = frozenset((np.ndarray, DeviceArray))
"""Types whose objects are no numbers, at a glance."""


@functools.cache
def function_of(cls: type[OperatorDesc]) -> Callable[..., Any]:
    """The function of exactly this operator: on arrays of any library, or expressions of a graph."""
    return _function(exact_name(cls), (cls,))


@functools.cache
def newest_function_of(cls: type[OperatorDesc]) -> Callable[..., Any]:
    """The function of an operator's name: of the newest operator that the device's level and the arrays' types have."""
    family = family_of(cls)
    return function_of(cls) if len(family) == 1 else _function(function_name(cls.type), family)


@functools.cache
def renamed_function(name: str) -> Callable[..., Any]:
    """The function that a name of RENAMED stands for; `maximum` takes numbers that `max` refuses for axes."""
    known = RENAMED[name]
    cls = next(cls for kind, cls in OPERATORS.items() if function_name(kind) == known)
    return _function(name, family_of(cls)) if known in _ALONG else newest_function_of(cls)


@dataclass(frozen=True, slots=True)
class _Operator:
    """What a call asks of the operator that computes it."""

    cls: type[OperatorDesc]
    names: frozenset[str]
    """Its attributes."""
    typed: tuple[str, ...]
    """Those that are data types, by default the first input's."""
    folds: bool

    @classmethod
    def of(cls, one: type[OperatorDesc]) -> _Operator:
        names = frozenset(parameters_of(one))
        typed = tuple(key for key, kind in one.field_types().items() if key in names and is_type(kind))
        return cls(one, names, typed, issubclass(one, Folding) or one.shares_rank)


def _function(name: str, family: tuple[type[OperatorDesc], ...]) -> Callable[..., Any]:
    """The function of an operator, or of several of a name, of which a call takes the newest that it can.

    Inputs of most have sizes that broadcast as NumPy's do, and may be numbers. To the other inputs of an operator that
    folds leading sizes of 1 are added, which they repeat along.
    """
    first, newest = _Operator.of(family[0]), _Operator.of(family[-1])
    several = {one: _Operator.of(one) for one in family}
    gives, signature = family[0].output_names(), signature_of(*family)
    parameters, tensors = choices_of(family), {argument_name(field): field for field in family[0].input_names()}
    names, defaults = tuple(parameters), tuple(parameters.values())
    added = {key: default for key, default in parameters.items() if key not in first.names}
    places = tuple(arguments_of(*family).items())
    usuals = tuple(default for _, default in places)
    least = sum(default is MISSING for default in usuals)
    most = len(places)
    optional = tuple(key for key, default in places if key in tensors and default is not MISSING)
    required = tuple(field for key, field in tensors.items() if key not in optional)
    count = len(required)
    split = _splitter(places, tuple(tensors), names) if optional else None
    optional_outputs = family[0].optional_outputs()
    broadcasts = newest.cls.broadcasts
    known_as: object = family if len(family) > 1 else newest.cls
    along = _ALONG.get(name)

    def in_order(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments, by place: in a microsecond, where `inspect` takes 40."""
        found = (*args, *[named.get(key, default) for key, default in places[len(args) :]])
        taken = sum(key in named for key, _ in places[len(args) :])
        if taken < len(named) or len(args) > most or any(value is MISSING for value in found):
            try:
                signature.bind(*args, **named)
            except TypeError as error:
                raise _wrong_call(name, signature, named, str(error)) from None
        return found

    # Known calls with every attribute left out are found by one thing in the place of all: 4 us less.
    usual: tuple[Any, ...] | None = (object(),) if least == count else None

    def function(*args: Any, out: Any = None, device: Any = None, **named: Any) -> Any:
        if usual is not None and len(args) == count and not named:
            inputs, attributes, exact = args, defaults, usual
        else:
            if named or not least <= len(args) <= most:
                args, named = in_order(args, named), {}
            elif len(args) < most:
                args += usuals[len(args) :]
            inputs, attributes = (args[:count], args[count:]) if split is None else split(args)
            exact = tuple(map(_exact, attributes))
        given = required
        if optional and len(inputs) > count:
            present = [(key, x) for key, x in zip(tensors, inputs, strict=True) if not (x is None and key in optional)]
            given = tuple(tensors[key] for key, _ in present)
            inputs, exact = tuple(x for _, x in present), (*exact, *given)
        arrays = inputs
        for x in inputs:
            if type(x) not in _ARRAYS and broadcasts and is_number(x):
                if along is not None:
                    _refuse_axis(name, *along, *inputs)
                exact += tuple((i, type(y), y or repr(y)) for i, y in enumerate(inputs) if is_number(y))
                arrays = tuple(y for y in inputs if not is_number(y))
                break
        attempt = Attempt(known_as, device, out, arrays, *exact)
        if (result := attempt.run()) is not None:
            return result
        if along is not None:
            _refuse_axis(name, *along, *inputs)
        if Recorded.is_there and (graph := recording_of(inputs)) is not None and not graph.recording.is_within:
            return graph.recording.call(graph, function, args, {"out": out, "device": device})
        values = dict(zip(names, attributes, strict=True))
        one = newest
        if len(family) > 1:
            asked_for = {key for key, default in added.items() if values[key] is not default and values[key] != default}
            one = several[_newest(family, asked_for, level_of(device, inputs))]
            values = {_own_name(key, one.names): value for key, value in values.items()}
            values = {key: value for key, value in values.items() if key in one.names}
        cls = one.cls
        _refuse_decimals(cls, values)
        spreading = values if broadcasts else None
        sizes = values.pop(OUTPUT_SIZES, None)
        if sizes is None and out is None and not cls.implies_output:
            rule = "output_sizes must be given, since nothing implies them"
            raise DescriptionError(cls.type.name, Fault(field=OUTPUT_SIZES, rule=rule, found="None"))
        # `name` stays the function's: Python 3.12.1 and 3.13.0 lose it below to a comprehension that has it too.
        asked = [output for output in optional_outputs if values.pop(argument_name(output))]
        results = (*cls.usual_outputs(), *asked) if asked else None
        call = make_call(
            cls,
            device,
            out,
            *inputs,
            output_sizes=sizes,
            key=attempt.key,
            spreading=spreading,
            names=given,
            results=results,
        )
        call.gives = gives
        for key in one.typed:
            values[key] = call.inputs[0].data_type if values.get(key) is None else values[key]
        if "axis" in values:
            values["axis"] = call.axis(values["axis"])
            if call.faults and "axis" in names[:-1]:  # others are used to an axis in the last place
                order = ", ".join([*tensors, *names])
                call.faults[:] = [replace(fault, way_out=f"the order is {name}({order})") for fault in call.faults]
        if "axes" in values:
            values["axes"] = call.axes(values["axes"])
        if one.folds:
            call.share_rank()
        call.pad_to_least()
        return call.run(cls.fills, **values)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "anydml"
    function.__doc__ = document(*family)
    function.__signature__ = signature  # type: ignore[attr-defined]  # what inspect asks for
    return function


def _own_name(key: str, names: Collection[str]) -> str:
    """An operator's name for an attribute of its family's function."""
    return "axes" if key == "axis" and key not in names else key


def _newest(family: tuple[type[OperatorDesc], ...], asked: set[str], level: FeatureLevel) -> type[OperatorDesc]:
    """The newest operator of a family with what is asked for that a level has; else the first, which says its level."""
    found = [one for one in family if all(_own_name(key, parameters_of(one)) in parameters_of(one) for key in asked)]
    return next((one for one in reversed(found) if one.introduced() <= level), found[0])


def _refuse_axis(name: str, along: str, element_wise: str, a: Any, b: object) -> None:
    """`max(x, 0)` is NumPy's and PyTorch's way to ask for an axis; lists that may be axes are theirs as well."""
    several = b if isinstance(b, (list, tuple)) else (b,)
    if is_number(a) or not all(isinstance(one, (int, np.integer)) and not isinstance(one, bool) for one in several):
        return
    rank = len(a.shape if hasattr(a, "shape") else a.sizes if isinstance(a, Expression) else np.shape(a))
    if several is b and (not all(-rank <= one < rank for one in b) or len(set(b)) < len(b)):
        return
    rule = f"b must not be a whole number, nor a list of axes: {name} works element by element, and has no axis"
    way_out = f"along axes write {along}, and of each element and a number {element_wise.format(show(b))}"
    raise DescriptionError(name, Fault(field="b", rule=rule, value=b, found=show(b), way_out=way_out))


def _refuse_decimals(cls: type[OperatorDesc], values: dict[str, Any]) -> None:
    """`round(x, 1)` is NumPy's way to ask for a decimal, and the number of a mode here; 0 is the same for both."""
    mode = values.get("rounding_mode")
    if not mode or isinstance(mode, enum.Enum) or not hasattr(mode, "__index__"):
        return
    import_alone("anydml.api.unknown")
    from anydml.api.unknown import word_decimals  # for errors alone

    if way_out := word_decimals(mode):
        rule = 'RoundingMode must be a name, such as "toward_zero", and no count of decimals'
        raise DescriptionError(
            cls.type.name, Fault(field="RoundingMode", rule=rule, value=mode, found=str(mode), way_out=way_out)
        )


def aliases_of(function: FunctionType) -> dict[str, str]:
    """Other names of a written function's arguments."""
    code = function.__code__
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    names = [] if function.__name__ in _OTHERWISE else [name for name in own if name in _OTHER_NAMES]
    return {other: name for name in names for other in _OTHER_NAMES[name] if other not in own}


def worded(written: Callable[..., Any], aliases: Mapping[str, str] = NO_ALIASES) -> Callable[..., Any]:
    """A written function whose errors on a wrong call are those of the derived ones.

    `aliases` are other names of its arguments: they are looked at where a call fails, so that no other pays for them.
    """

    @functools.wraps(written)
    def function(*args: Any, **named: Any) -> Any:
        try:
            if Recorded.is_there and (graph := recording_of(args, named)) is not None:
                recording: Any = graph.recording
                if aliases and not aliases.keys().isdisjoint(named):
                    named = _by_own_names(written.__name__, aliases, named)
                return recording.call(graph, written if recording.is_within else function, args, named)
            return written(*args, **named)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # it was called
                raise
        if not aliases.keys().isdisjoint(named):
            return function(*args, **_by_own_names(written.__name__, aliases, named))
        signature = inspect.signature(written)
        try:
            signature.bind(*args, **named)
        except TypeError as error:
            raise _wrong_call(written.__name__, signature, named, str(error)) from None

    function.__module__ = "anydml"
    return function


def _by_own_names(name: str, aliases: Mapping[str, str], named: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names that a function has for them."""
    found: dict[str, Any] = {}
    for key, value in named.items():
        own = aliases.get(key, key)
        if own in found or (own != key and own in named):
            raise TypeError(f"{name}() got {own} twice: {key}= is another name of it")
        found[own] = value
    if "correction" in aliases and "dim" in named and "ddof" not in found:
        rule = "PyTorch divides by one less than the count, correction=1, and NumPy by the count, correction=0"
        raise TypeError(f"{name}() with dim= must be told correction=: {rule}")
    return found


def _wrong_call(name: str, signature: inspect.Signature, named: dict[str, Any], message: str) -> TypeError:
    """A call that lacks an argument or has one too many: the error with the signature, and with what may be meant."""
    import_alone("anydml.api.unknown")
    from anydml.api.unknown import word_arguments, word_meant  # for errors alone

    plain = [_plainly(parameter) for parameter in signature.parameters.values()]
    told = f"it is {name}{inspect.Signature(plain)}"
    hint = word_meant(name) or word_arguments(name, named, signature.parameters)
    return TypeError("; ".join(filter(None, (message, told, hint))))


def _plainly(parameter: inspect.Parameter) -> inspect.Parameter:
    """A parameter as people write it: without a type, and with the name of an enumeration's member."""
    default = parameter.default
    shown = default.name.lower() if isinstance(default, enum.Enum) else default
    return parameter.replace(annotation=inspect.Parameter.empty, default=shown)


def _splitter(places: Any, tensors: tuple[str, ...], names: tuple[str, ...]) -> Callable[[Any], Any]:
    """A function that takes all arguments, by place, apart into the inputs and the attributes."""
    order = {key: place for place, (key, _) in enumerate(places)}
    first, second = ([order[key] for key in keys] for keys in (tensors, names))
    return lambda args: (tuple(args[k] for k in first), tuple(args[k] for k in second))


def _exact(value: Any) -> Any:
    """The identity of an attribute among others: -0.0 is 0.0, and does not compute the same."""
    kind = type(value)
    if kind is float or kind is int:
        return value or (kind, repr(value))
    if kind is list or kind is tuple:
        return (kind, int, *value) if value and set(map(type, value)) == _INTS else (kind, *map(show, value))
    return value

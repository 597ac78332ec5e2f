"""Functions that follow from descriptions: inputs by place, then attributes by place or name."""

from __future__ import annotations

import enum
import functools
import inspect
from dataclasses import MISSING, dataclass, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.api.broadcasting import is_number
from anydml.api.calls import Attempt, level_of, make_call
from anydml.api.describing import argument_name
from anydml.api.expression import Expression, Recorded, recording_of
from anydml.core.enums import FeatureLevel
from anydml.core.errors import DescriptionError, Fault, show
from anydml.core.late_imports import import_alone
from anydml.core.operator_type import function_name, versions_of
from anydml.core.package_data import read_json
from anydml.core.results import result_name
from anydml.operators import OPERATORS
from anydml.operators.reductions import AlongAxes, Folding
from anydml.operators.schema.fields import FIELD_TYPES, ValueType

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from types import FunctionType

    from anydml.operators import OperatorDesc
    from anydml.operators.schema.fields import FieldType

RENAMED = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan_yx", "arctanh": "atanh", "fmod": "modulus_truncate", "maximum": "max", "minimum": "min",
    "mod": "modulus_floor", "negative": "negate", "power": "pow", "prelu": "parameterized_relu",
    "reciprocal": "recip", "remainder": "modulus_floor", "selu": "scaled_elu", "silu": "swish",
}  # fmt: skip
"""Names that are another's for an operator's function."""
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
_OUTPUT_SIZES = "output_sizes"
_INTS = {int}


def parameters_of(cls: type[OperatorDesc]) -> dict[str, Any]:
    """The attributes by name, with their defaults, MISSING for none: those without one first.

    A data type is the first input's where it is not said, axes are those that the class calls usual, and where the
    output's sizes are free they may be given besides. Where nothing implies them they come first. Optional outputs
    are asked for.
    """
    kinds, inputs = cls.field_types(), cls.input_names()
    given = {field.name: field.default for field in fields(cls)}
    names = [name for name, kind in kinds.items() if kind.kind not in ("input", "output")]
    defaults = {name: None if inputs and _is_type(kinds[name]) else given[name] for name in names}
    if issubclass(cls, AlongAxes):
        defaults["axes"] = cls.usual_axes
    if not cls.implies_output:
        defaults = {_OUTPUT_SIZES: MISSING, **defaults}
    elif cls.sizes_are_free:
        defaults[_OUTPUT_SIZES] = None
    defaults |= dict.fromkeys(map(argument_name, cls.optional_outputs()), False)
    return dict(sorted(defaults.items(), key=lambda item: item[1] is not MISSING))


def _is_type(kind: FieldType) -> bool:
    return kind is FIELD_TYPES[ValueType]


@functools.cache
def family_of(cls: type[OperatorDesc]) -> tuple[type[OperatorDesc], ...]:
    """An operator, and the newer ones of its name that take every call of it: SOFTMAX and SOFTMAX1.

    Not SLICE1, whose sizes are a window's and not the result's, ADD1, which has no integers, nor CLIP1, whose bounds
    are of the tensor's type, where CLIP has floats for all.
    """
    newer = (OPERATORS[kind] for kind in versions_of(cls.type)[1:] if kind in OPERATORS)
    return (cls, *(one for one in newer if _takes_calls_of(cls, one)))


def _takes_calls_of(first: type[OperatorDesc], newer: type[OperatorDesc]) -> bool:
    names, latest = parameters_of(first).keys(), parameters_of(newer)
    needed = {key for key, default in latest.items() if default is MISSING}
    if not newer.continues or first.input_names() != newer.input_names() or not needed <= names <= latest.keys():
        return False
    kinds = newer.field_types()
    if any(kinds.get(key, kind) != kind for key, kind in first.field_types().items()):
        return False
    own, theirs = (one.support.row_at(FeatureLevel.highest()).tensors for one in (first, newer))
    return all(set(tensor.data_types) <= set(theirs[field].data_types) for field, tensor in own.items())


@functools.cache
def choices_of(family: tuple[type[OperatorDesc], ...]) -> dict[str, Any]:
    """The attributes of a family's function: those of the first operator in their order, then what newer ones add.

    Added axes are `axis`, as NumPy and PyTorch have it. No added output can be asked for: the function's result stays
    what it is.
    """
    first, newest = family[0], family[-1]
    if first is newest:
        return parameters_of(first)
    latest, names = parameters_of(newest), parameters_of(first)
    found = {key: latest[key] for key in names}
    outputs = set(map(argument_name, newest.optional_outputs()))
    added = {key: default for key, default in latest.items() if key not in names and key not in outputs}
    return found | {"axis" if key == "axes" else key: default for key, default in added.items()}


def arguments_of(*family: type[OperatorDesc]) -> dict[str, Any]:
    """Inputs and attributes by the function's names, with their defaults: what must be given first, inputs first."""
    given = {field.name: field.default for field in fields(family[0])}
    tensors = {argument_name(name): given[name] for name in family[0].input_names()}
    return dict(sorted({**tensors, **choices_of(family)}.items(), key=lambda item: item[1] is not MISSING))


def signature_of(*family: type[OperatorDesc]) -> inspect.Signature:
    """Inputs and attributes by place or name, `out` and `device` by name."""
    place, name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    arguments = [
        inspect.Parameter(key, place, default=inspect.Parameter.empty if default is MISSING else default)
        for key, default in arguments_of(*family).items()
    ]
    options = [inspect.Parameter(key, name, default=None) for key in ("out", "device")]
    return inspect.Signature([*arguments, *options])


@functools.cache
def function_of(cls: type[OperatorDesc]) -> Callable[..., Any]:
    """The function of exactly this operator: on arrays of any library, or expressions of a graph."""
    is_first = len(family_of(cls)) > 1 and function_name(cls.type) != cls.type.name.lower()
    return _function(cls.type.name.lower() if is_first else function_name(cls.type), (cls,))


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
        typed = tuple(key for key, kind in one.field_types().items() if key in names and _is_type(kind))
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
            if type(x) is not np.ndarray and broadcasts and is_number(x):
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
        sizes = values.pop(_OUTPUT_SIZES, None)
        if sizes is None and out is None and not cls.implies_output:
            rule = "output_sizes must be given, since nothing implies them"
            raise DescriptionError(cls.type.name, Fault(field=_OUTPUT_SIZES, rule=rule, found="None"))
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


def document(*family: type[OperatorDesc]) -> str:
    """A docstring: the operator's name, what its class says of it, and an example."""
    cls = family[-1]
    text = inspect.cleandoc(cls.__doc__ or "")
    notes = []
    if len(cls.input_names()) > 1 and cls.broadcasts:
        notes.append(
            "Sizes broadcast as NumPy's do, and numbers or lists of them take the type of an array beside them."
        )
    elif len(cls.input_names()) > 1 and issubclass(cls, Folding):
        notes.append("The other arrays repeat along `x` as NumPy's do.")
    outputs = family[0].output_names()
    if any(cls.field_types()[name].is_tensor_array for name in outputs):
        notes.append("The results are a tuple.")
    elif len(outputs) > 1:
        notes.append(f"The results are a named tuple: {', '.join(map(result_name, outputs))}.")
    asked = {argument_name(name): result_name(name) for name in family[0].optional_outputs()}
    notes += [f"`{field}` is None without `{name}`." for name, field in asked.items()]
    if "fused_activation" in cls.field_types():
        notes.append('`fused_activation` is a name, such as `"relu"`, or `FusedActivation("elu", alpha=0.5)`.')
    if cls.in_place:
        notes.append("`out=x` works in place." if len(cls.input_names()) == 1 else "`out` may be an input.")
    if len(family) > 1:
        exact = [function_name(one.type) for one in family[1:]]
        older = function_of(family[0]).__name__
        exact += [older] if older != function_name(family[0].type) else []
        notes.append(
            f"A level that lacks it has an older operator compute it; exactly one operator "
            f"{'is' if len(exact) == 1 else 'are'} {' and '.join(f'`{name}`' for name in exact)}."
        )
    if others := [name for name, known in RENAMED.items() if known == function_name(cls.type)]:
        notes.append(f"Elsewhere it is called {' and '.join(f'`{name}`' for name in others)}, which stand for it here.")
    call, result = _examples().get(function_name(family[0].type), ("", ""))
    example = [f">>> {call}\n{result}"] if call else []
    word = text.partition(" ")[0]
    text = text[:1].lower() + text[1:] if word.isalpha() and word[1:].islower() else text
    return "\n\n".join([f"{cls.type.name}: {text}", *([" ".join(notes)] if notes else []), *example])


@functools.cache
def _examples() -> dict[str, tuple[str, str]]:
    """A call of each function and its result, as `scripts/examples.py` finds them."""
    found: dict[str, tuple[str, str]] = read_json(__file__, "examples.json")
    return found

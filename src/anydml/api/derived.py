"""Functions that follow from descriptions: inputs by place, then attributes by place or name."""

from __future__ import annotations

import enum
import functools
import inspect
from dataclasses import MISSING, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.api.broadcasting import is_number
from anydml.api.calls import Attempt, make_call
from anydml.api.describing import argument_name
from anydml.api.expression import Recorded, recording_of
from anydml.core.errors import DescriptionError, Fault, show
from anydml.core.late_imports import import_alone
from anydml.core.operator_type import function_name
from anydml.core.package_data import read_json
from anydml.operators.reductions import AlongAxes, Folding
from anydml.operators.schema.fields import FIELD_TYPES, ValueType, dml_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.operators import OperatorDesc
    from anydml.operators.schema.fields import FieldType

RENAMED = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan_yx", "arctanh": "atanh", "fmod": "modulus_truncate", "maximum": "max", "minimum": "min",
    "mod": "modulus_floor", "negative": "negate", "power": "pow", "prelu": "parameterized_relu",
    "reciprocal": "recip", "remainder": "modulus_floor", "selu": "scaled_elu", "silu": "swish",
}  # fmt: skip
"""Names that are another's for the very function of an operator."""
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


def arguments_of(cls: type[OperatorDesc]) -> dict[str, Any]:
    """Inputs and attributes by the function's names, with their defaults: what must be given first, inputs first."""
    given = {field.name: field.default for field in fields(cls)}
    tensors = {argument_name(name): given[name] for name in cls.input_names()}
    return dict(sorted({**tensors, **parameters_of(cls)}.items(), key=lambda item: item[1] is not MISSING))


def signature_of(cls: type[OperatorDesc]) -> inspect.Signature:
    """Inputs and attributes by place or name, `out` and `device` by name."""
    place, name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    arguments = [
        inspect.Parameter(key, place, default=inspect.Parameter.empty if default is MISSING else default)
        for key, default in arguments_of(cls).items()
    ]
    options = [inspect.Parameter(key, name, default=None) for key in ("out", "device")]
    return inspect.Signature([*arguments, *options])


@functools.cache
def function_of(cls: type[OperatorDesc]) -> Callable[..., Any]:
    """The function of an operator: on arrays of any library, or expressions of a graph.

    Inputs of most have sizes that broadcast as NumPy's do, and may be numbers. To the other inputs of an operator that
    folds leading sizes of 1 are added, which they repeat along.
    """
    name, signature = function_name(cls.type), signature_of(cls)
    parameters, tensors = parameters_of(cls), {argument_name(field): field for field in cls.input_names()}
    names, defaults = tuple(parameters), tuple(parameters.values())
    places = tuple(arguments_of(cls).items())
    usuals = tuple(default for _, default in places)
    least = sum(default is MISSING for default in usuals)
    most = len(places)
    optional = tuple(key for key, default in places if key in tensors and default is not MISSING)
    required = tuple(field for key, field in tensors.items() if key not in optional)
    count = len(required)
    split = _splitter(places, tuple(tensors), names) if optional else None
    typed = [key for key, kind in cls.field_types().items() if key in names and _is_type(kind)]
    optional_outputs = cls.optional_outputs()
    broadcasts, folds = cls.broadcasts, issubclass(cls, Folding) or cls.shares_rank

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
                exact += tuple((i, type(y), y or repr(y)) for i, y in enumerate(inputs) if is_number(y))
                arrays = tuple(y for y in inputs if not is_number(y))
                break
        attempt = Attempt(cls, device, out, arrays, *exact)
        if (result := attempt.run()) is not None:
            return result
        if Recorded.is_there and (graph := recording_of(inputs)) is not None and not graph.recording.is_within:
            return graph.recording.call(graph, function, args, {"out": out, "device": device})
        values = dict(zip(names, attributes, strict=True))
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
        for key in typed:
            values[key] = call.inputs[0].data_type if values[key] is None else values[key]
        if "axis" in values:
            values["axis"] = call.axis(values["axis"])
            if call.faults and "axis" in names[:-1]:  # others are used to an axis in the last place
                order = ", ".join([*tensors, *names])
                call.faults[:] = [replace(fault, way_out=f"the order is {name}({order})") for fault in call.faults]
        if "axes" in values:
            values["axes"] = call.axes(values["axes"])
        if folds:
            call.share_rank()
        call.pad_to_least()
        return call.run(cls.fills, **values)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "anydml"
    function.__doc__ = document(cls)
    function.__signature__ = signature  # type: ignore[attr-defined]  # what inspect asks for
    return function


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


def worded(written: Callable[..., Any]) -> Callable[..., Any]:
    """A written function whose errors on a wrong call are those of the derived ones."""

    @functools.wraps(written)
    def function(*args: Any, **named: Any) -> Any:
        try:
            if Recorded.is_there and (graph := recording_of(args, named)) is not None:
                recording: Any = graph.recording
                return recording.call(graph, written if recording.is_within else function, args, named)
            return written(*args, **named)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # it was called
                raise
        signature = inspect.signature(written)
        try:
            signature.bind(*args, **named)
        except TypeError as error:
            raise _wrong_call(written.__name__, signature, named, str(error)) from None

    function.__module__ = "anydml"
    return function


def _wrong_call(name: str, signature: inspect.Signature, named: dict[str, Any], message: str) -> TypeError:
    """A call that lacks an argument or has one too many: the error with the signature, and with what may be meant."""
    import_alone("anydml.api.unknown")
    from anydml.api.unknown import word_arguments, word_meant  # for errors alone

    plain = [_plainly(parameter) for parameter in signature.parameters.values()]
    told = f"it is {name}{inspect.Signature(plain)}"
    hint = word_arguments(name, named, signature.parameters) or word_meant(name)
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


def document(cls: type[OperatorDesc]) -> str:
    """A docstring: the operator's name, what its class says of it, and an example."""
    text = inspect.cleandoc(cls.__doc__ or "")
    notes = []
    if len(cls.input_names()) > 1 and cls.broadcasts:
        notes.append(
            "Sizes broadcast as NumPy's do, and numbers or lists of them take the type of an array beside them."
        )
    elif len(cls.input_names()) > 1 and issubclass(cls, Folding):
        notes.append("The other arrays repeat along `x` as NumPy's do.")
    if cls.gives_several():
        notes.append(f"The result is a list: {', '.join(map(dml_name, cls.output_names()))}.")
    asked = {argument_name(name): dml_name(name) for name in cls.optional_outputs()}
    notes += [f"With `{name}` the result is a list, of {field} too." for name, field in asked.items()]
    if "fused_activation" in cls.field_types():
        notes.append('`fused_activation` is a name, such as `"relu"`, or `FusedActivation("elu", alpha=0.5)`.')
    if cls.in_place:
        notes.append("`out=x` works in place." if len(cls.input_names()) == 1 else "`out` may be an input.")
    if others := [name for name, known in RENAMED.items() if known == function_name(cls.type)]:
        notes.append(f"Elsewhere it is called {' and '.join(f'`{name}`' for name in others)}, which stand for it here.")
    call, result = _examples().get(function_name(cls.type), ("", ""))
    example = [f">>> {call}\n{result}"] if call else []
    word = text.partition(" ")[0]
    text = text[:1].lower() + text[1:] if word.isalpha() and word[1:].islower() else text
    return "\n\n".join([f"{cls.type.name}: {text}", *([" ".join(notes)] if notes else []), *example])


@functools.cache
def _examples() -> dict[str, tuple[str, str]]:
    """A call of each function and its result, as `scripts/examples.py` finds them."""
    found: dict[str, tuple[str, str]] = read_json(__file__, "examples.json")
    return found

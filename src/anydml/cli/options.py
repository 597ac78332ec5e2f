"""The options of an operator, as its fields say them: tensors by sizes, type and data, attributes by name."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeGuard

import click

from anydml.cli.values import DATA, FLOATS, INTS, FieldValue, parse_truth
from anydml.core.errors import show
from anydml.operators.reductions import AlongAxes
from anydml.operators.schema.fields import FIELD_TYPES, OptionalScaleBias, ValueType, WithFloat64, dml_name
from anydml.operators.schema.records import Computed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from anydml.operators import OperatorDesc
    from anydml.operators.schema.fields import FieldType

_ARRAYS = {"UINT_ARRAY": INTS, "INT_ARRAY": INTS, "SIZE_2D": INTS, "FLOAT_ARRAY": FLOATS}
_PARTS = ("sizes", "type", "data")
"""What is said of a tensor: alone of the first."""
ALONG = "sizes_along_axis"
"""The option of an operator that takes a tensor apart: where it is cut, in place of every output's sizes."""


def options_of(cls: type[OperatorDesc]) -> list[click.Option]:
    """The options of an operator: its tensors first, then its attributes by their full names and shorter ones."""
    attributes = [name for name, kind in cls.field_types().items() if kind.kind not in ("input", "output")]
    full = {name: _full_name(cls, name) for name in attributes}
    tensors = [option for name in cls.input_names() for option in _tensor_options(cls, name)]
    tensors += [option for name in cls.output_names() for option in _output_options(cls, name)]
    for option in tensors:  # whose other names are enough: `--mask-type` is MaskType, `--mask-tensor-type` the mask's
        option.opts = [name for name in option.opts if name not in full.values()]
    taken = {name for option in tensors for name in option.opts} | {*full.values()}
    taken |= {f"--{base_name(cls, name)}" for name in (*cls.input_names(), *cls.output_names())}
    short = {name: f"--{_short_name(cls, name)}" for name in attributes}
    several = {name for name, count in Counter(short.values()).items() if count > 1}  # a word that says neither
    names = {name: [full[name], *({short[name]} - taken - several)] for name in attributes}
    return [*tensors, *(_attribute_option(cls, name, names[name]) for name in attributes)]


def spell_flags(options: Iterable[click.Parameter], args: Iterable[str]) -> list[str]:
    """A command line whose flags have no values: of `--exclusive true` the value goes, of `--exclusive no` both."""
    flags = {name: one for one in options if isinstance(one, click.Option) and one.is_flag for name in one.opts}
    found: list[str] = []
    for arg in args:
        name, sign, value = arg.partition("=")
        if sign and name in flags:
            found += _flag(flags[name], name, read_truth(value, flags[name]))
        elif found and found[-1] in flags and (truth := parse_truth(arg)) is not None:
            name = found.pop()
            found += _flag(flags[name], name, truth)
        else:
            found.append(arg)
    return found


def read_truth(value: Any, option: click.Option) -> bool:
    """The value of a flag."""
    if (found := parse_truth(value)) is None:
        raise click.BadParameter(f"{show(value, 60)} is neither true nor false.", param=option)
    return found


def _flag(option: click.Option, name: str, truth: bool) -> list[str]:
    return [name] if truth else option.secondary_opts[:1]


def _names(field: str, *parts: str) -> list[str]:
    """`--input-tensor-sizes` and shorter."""
    return [f"--{field.replace('_', '-')}-{parts[0]}", *[f"--{part}" for part in parts[1:]]]


def base_name(cls: type[OperatorDesc], field: str) -> str:
    """People's word for it: `input_tensor` is the input, `input_tensors` the inputs, `sequence_lengths_tensor` lengths.

    Where that is the name of two, each has all of its own.
    """
    names = [_last_word(name) for name in (*cls.input_names(), *cls.output_names())]
    if names.count(_last_word(field)) > 1:
        return field.removesuffix("_tensor").replace("_", "-")
    return _last_word(field)


def _last_word(field: str) -> str:
    stem, _, plural = field.rpartition("_tensor")
    return ("output" if stem.startswith("output") else stem.rpartition("_")[2]) + plural


def _tensor_options(cls: type[OperatorDesc], name: str) -> Iterator[click.Option]:
    base, is_several = base_name(cls, name), cls.field_types()[name].is_tensor_array
    is_first = name == cls.input_names()[0]
    short = [[part] if is_first else [] for part in _PARTS]
    what = "input's" if is_first and not is_several else base + ("'" if base.endswith("s") else "'s")
    again = "; once for each" if is_several else ""
    follows = "; they follow from the input's and the axis" if follows_axis(cls, name) else ""
    follows = follows or ("; the first input's by default" if follows_first(cls, name) else "")
    follows = "; left out by default" if is_optional(cls, name) else follows
    yield click.Option(
        [f"{name}_sizes", *_names(name, "sizes", f"{base}-sizes", *short[0])],
        type=INTS,
        multiple=is_several,
        help=f"The {what} sizes{again}{follows}.",
    )
    default = "float32" if is_first else "the first input's" if follows_first(cls, name) else "uint32"
    default += ", or a signed type for negative ones" if default == "uint32" and _may_be_signed(cls, name) else ""
    yield click.Option(
        [f"{name}_type", *_names(name, "type", f"{base}-type", *short[1])],
        metavar="TYPE",
        help=f"The {what} data type; by default that of the data, or {default}.",
    )
    letter = [base] if not is_first or len(base) == 1 else []  # `--a` beside `--b`
    names = _names(name, "data", f"{base}-data", *short[2], *letter)
    yield click.Option(
        [f"{name}_data", *names],
        type=DATA,
        multiple=is_several,
        help=f"The {what} values{again}; made up by default.",
    )


def _may_be_signed(cls: type[OperatorDesc], name: str) -> bool:
    return any(one.is_signed for row in cls.support for one in row.tensors[dml_name(name)].data_types)


def _output_options(cls: type[OperatorDesc], name: str) -> Iterator[click.Option]:
    """The options of the output, where nothing else implies them."""
    base, is_several = base_name(cls, name), cls.field_types()[name].is_tensor_array
    is_first = not cls.input_names()
    default = "the largest by default" if cls.implies_output else "the input's by default"
    default = "left out by default" if name in cls.optional_outputs() else default
    short = [f"{base}-sizes", *(["sizes"] if is_first else [])]
    if name != cls.output_names()[0]:
        base, short = name.removesuffix("_tensor").replace("_", " "), []
    told, owns = "once for each" if is_several else "" if is_first else default, "'" if is_several else "'s"
    yield click.Option(
        [f"{name}_sizes", *_names(name, "sizes", *short)],
        type=INTS,
        multiple=is_several,
        help=f"The {base}{owns} sizes{'; ' if told else ''}{told}.",
    )
    if is_several:
        help_text = "The outputs' sizes along the axis, which say all of them."
        yield click.Option([ALONG, "--sizes-along-axis", "--along"], type=INTS, help=help_text)
    elif not cls.implies_output and name == cls.output_names()[0]:
        named, is_free = type_field(cls), has_free_type(cls, name)
        default = f"{dml_name(named)} by default" if named else "what the input is converted to"
        if not is_free:
            default = "the input's by default" if cls.input_names() else "float32 by default"
        names = _names(name, "type", f"{base}-type", *(["to"] if is_free and not named else []))
        yield click.Option([f"{name}_type", *names], metavar="TYPE", help=f"The {base}'s data type; {default}.")


def has_free_type(cls: type[OperatorDesc], name: str) -> bool:
    """Whether an output may be of another type than the first input, or there is none and a field says the type."""
    is_alike = issubclass(cls, Computed) and (dml_name(name) in cls.typed_alike() or not cls.input_names())
    return not is_alike or type_field(cls) is not None


def type_field(cls: type[OperatorDesc]) -> str | None:
    """The attribute that says the output's type, where there is one."""
    return next((name for name, kind in cls.field_types().items() if kind is FIELD_TYPES[ValueType]), None)


def _spoken(field: str) -> str:
    """A field that Python has a name for has an underscore more."""
    return field.rstrip("_")


def _full_name(cls: type[OperatorDesc], field: str) -> str:
    """A field's own name, but for those that the first tensor has."""
    name = f"--{_spoken(field).replace('_', '-')}"
    return f"--{cls.type.name.lower().replace('_', '-')}-{name[2:]}" if name[2:] in _PARTS else name


def _short_name(cls: type[OperatorDesc], field: str) -> str:
    """People's word: `input_window_offsets` are the offsets, `has_exclusive_sum` is exclusive, a type is a type.

    A flag has its own name alone, for its last word may say the opposite: `linear_before_reset` resets nothing.
    """
    words, kind = _spoken(field).split("_"), cls.field_types()[field]
    if kind is FIELD_TYPES[OptionalScaleBias] or (_is_flag(kind) and words[0] not in ("has", "allow")):
        return "-".join(words)
    if words[-1] == "sizes":
        return "window"  # the sizes are the input's
    if words[0] in ("has", "allow"):
        return words[1]
    return words[0] if words[-2:] == ["dimension", "count"] else words[-1]


def _is_flag(kind: FieldType) -> bool:
    return kind in (FIELD_TYPES[bool], FIELD_TYPES[WithFloat64])


def _attribute_option(cls: type[OperatorDesc], name: str, names: Sequence[str]) -> click.Option:
    kind, label = cls.field_types()[name], [name, *names]
    if _is_flag(kind):
        if _default(cls, name) is True:
            label = [name, f"{names[0]}/--no-{names[0][2:]}"]
        return click.Option(label, is_flag=True, default=_default(cls, name) is True, help=f"{dml_name(name)}.")
    has_default = _default(cls, name) is not dataclasses.MISSING or follows(cls, name)
    return click.Option(
        label,
        type=_ARRAYS.get(kind.type) or FieldValue(dml_name(name), kind),
        required=not has_default,
        help=f"{dml_name(name)}{_default_type(cls) if name == type_field(cls) else _default_axes(cls, name)}.",
    )


def _default_type(cls: type[OperatorDesc]) -> str:
    return "; the input's by default" if cls.input_names() else "; float32 by default"


def _default_axes(cls: type[OperatorDesc], name: str) -> str:
    if not has_usual_axes(cls, name):
        return ""
    return "; all by default" if cls.usual_axes is None else "; the last by default"


def has_usual_axes(cls: type[OperatorDesc], name: str) -> TypeGuard[type[AlongAxes]]:
    """Whether a field is the axes of an operator that has usual ones."""
    return name == "axes" and issubclass(cls, AlongAxes) and cls.usual_axes is not dataclasses.MISSING


def _default(cls: type[OperatorDesc], name: str) -> object:
    return next(f.default for f in dataclasses.fields(cls) if f.name == name)


def follows(cls: type[OperatorDesc], name: str) -> bool:
    """Whether a value follows where none is given: a stride of 1, usual axes, dimensions or a type of the data."""
    is_stride = name.endswith("strides") and _default(cls, name) is dataclasses.MISSING
    return is_stride or name == type_field(cls) or counted_tensor(name) is not None or has_usual_axes(cls, name)


def counted_tensor(name: str) -> str | None:
    """The tensor whose dimensions that count a field gives."""
    counts = {"input_dimension_count": "input_tensor", "indices_dimension_count": "indices_tensor"}
    return {**counts, "index_dimensions": "indices_tensor"}.get(name)


def is_optional(cls: type[OperatorDesc], name: str) -> bool:
    """Whether a tensor may be left out."""
    return _default(cls, name) is None


def follows_first(cls: type[OperatorDesc], name: str) -> bool:
    """Whether a tensor is like the first input: of its sizes, and of its type where it takes that."""
    return issubclass(cls, Computed) and name != cls.input_names()[0]


def follows_axis(cls: type[OperatorDesc], name: str) -> bool:
    """Whether a tensor's sizes are the input's, but 1 along the axis."""
    return name == "sequence_lengths_tensor" and "axis" in cls.field_types()

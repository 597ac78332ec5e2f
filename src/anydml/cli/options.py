"""The options of an operator, as its fields say them: tensors by sizes, type and data, attributes by name."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from anydml.cli.values import DATA, FLOATS, INTS, FieldValue
from anydml.operators.schema.fields import FIELD_TYPES, OptionalScaleBias, ValueType, dml_name
from anydml.operators.schema.records import Computed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.operators import OperatorDesc

_ARRAYS = {"UINT_ARRAY": INTS, "INT_ARRAY": INTS, "SIZE_2D": INTS, "FLOAT_ARRAY": FLOATS}
ALONG = "sizes_along_axis"
"""The option of an operator that takes a tensor apart: where it is cut, in place of every output's sizes."""


def options_of(cls: type[OperatorDesc]) -> list[click.Option]:
    """The options of an operator: its tensors first, then its attributes by their full names and shorter ones."""
    taken: set[str] = set()
    found = [option for name in cls.input_names() for option in _tensor_options(cls, name)]
    found += [option for name in cls.output_names() for option in _output_options(cls, name)]
    for option in found:
        taken.update(option.opts)
    for name, kind in cls.field_types().items():
        if kind.kind not in ("input", "output"):
            option = _attribute_option(cls, name, taken)
            taken.update(option.opts)
            found.append(option)
    return found


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
    short = [[part] if is_first else [] for part in ("sizes", "type", "data")]
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


def _short_name(field: str) -> str:
    """People's word: `input_window_offsets` are the offsets, `has_exclusive_sum` is exclusive, a type is a type."""
    words = field.split("_")
    if words[-1] == "sizes":
        return "window"  # the sizes are the input's
    if words[0] == "has":
        return words[1]
    return words[0] if words[-2:] == ["dimension", "count"] else words[-1]


def _attribute_option(cls: type[OperatorDesc], name: str, taken: set[str]) -> click.Option:
    kind = cls.field_types()[name]
    spoken = name.rstrip("_")  # a field that Python has a name for has one more
    full = f"--{spoken.replace('_', '-')}"
    if full in taken:
        full = f"--{cls.type.name.lower().replace('_', '-')}-{spoken}"
    short = full if kind is FIELD_TYPES[OptionalScaleBias] else f"--{_short_name(spoken)}"
    label = [name, *[n for n in dict.fromkeys((full, short)) if n not in taken]]
    if kind is FIELD_TYPES[bool]:
        if _default(cls, name) is True:
            label = [name, f"{full}/--no-{full[2:]}"]
        return click.Option(label, is_flag=True, default=_default(cls, name) is True, help=f"{dml_name(name)}.")
    has_default = _default(cls, name) is not dataclasses.MISSING or follows(cls, name)
    return click.Option(
        label,
        type=_ARRAYS.get(kind.type) or FieldValue(dml_name(name), kind),
        required=not has_default,
        help=f"{dml_name(name)}{_default_type(cls) if name == type_field(cls) else ''}.",
    )


def _default_type(cls: type[OperatorDesc]) -> str:
    return "; the input's by default" if cls.input_names() else "; float32 by default"


def _default(cls: type[OperatorDesc], name: str) -> object:
    return next(f.default for f in dataclasses.fields(cls) if f.name == name)


def follows(cls: type[OperatorDesc], name: str) -> bool:
    """Whether a value follows where none is given: a stride of 1, the dimensions of the data, the type of most data."""
    is_stride = name.endswith("strides") and _default(cls, name) is dataclasses.MISSING
    return is_stride or name == type_field(cls) or counted_tensor(name) is not None


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

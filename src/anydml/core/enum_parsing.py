"""Enumerations that read the spellings people type: values, and names in any case, with DirectML's prefix or not."""

from __future__ import annotations

import enum
import functools
import itertools
import re
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from anydml.core.errors import DescriptionError, Fault, printable, show
from anydml.core.late_imports import import_alone

if TYPE_CHECKING:
    from collections.abc import Iterable

E = TypeVar("E", bound=enum.Enum)

_MOST_COMPARED = 1024
"""Names that a suggestion is looked for in: anydml has 520, and a model very many, and as many that are misspelt."""


def squeeze(name: str) -> str:
    """A name without case and what people write between its words."""
    return re.sub(r"[_\s-]", "", name).lower()


def suggest(value: object, names: Iterable[str], prefix: str = "") -> str:
    """`did you mean FLOAT32?`, where a name is near to what was written; nothing where none is."""
    import_alone("difflib")
    import difflib  # most programs misspell nothing

    if not isinstance(value, str):
        return ""
    known = {squeeze(name): name for name in itertools.islice(names, _MOST_COMPARED)}
    if (meant := _meant_by(value[:60], known.values())) is not None:
        return f"did you mean {meant}?"
    word = squeeze(value[:60]).removeprefix(squeeze(prefix))
    parts = [name for one, name in known.items() if len(word) > 2 and (one.startswith(word) or one.endswith(word))]
    as_long = [one for one in known if abs(len(one) - len(word)) <= max(2, len(word) // 3)]
    near = difflib.get_close_matches(word, as_long, 1, 0.65)
    found = min(parts, key=len, default=known[near[0]] if near else None)
    return f"did you mean {printable(found)}?" if found is not None else ""


def no_member(cls: type[enum.Enum], value: object, choices: Iterable[str], way_out: str = "") -> DescriptionError:
    """The error of a value that is no member of an enumeration."""
    choices = list(choices)
    rule = f"must be one of {', '.join(choices)}"
    way_out = way_out or suggest(value, choices, _written_prefix(cls))
    fault = Fault(field=cls.__name__, rule=rule, value=value, found=show(value), way_out=way_out)
    return DescriptionError(cls.__name__, fault)


def read_name(cls: type[E], value: object, prefix: str) -> E | None:
    """Find a member by its name: with or without DirectML's prefix, in any case."""
    if not isinstance(value, str):
        return None
    return cls.__members__.get(value.strip().upper().removeprefix(prefix))


_LARGE = 2**64
"""A number that no member has: the look-up would write out all its digits, which Python refuses from 4,300 on."""


class SpelledType(enum.EnumMeta):
    """Lets `_missing_` refuse what the look-up itself would trip over, or take for an int that it merely equals."""

    def __call__(cls, value: Any, *args: Any, **options: Any) -> Any:
        """Read a spelling."""
        try:
            hash(value)
            strange = isinstance(value, (bool, float, np.generic))
            strange |= isinstance(value, int) and abs(value) >= _LARGE
        except Exception:  # noqa: BLE001 - a list, an array, or a hostile __hash__
            strange = True
        missing: Any = cls
        return missing._missing_(value) if strange else super().__call__(value, *args, **options)

    def __dir__(cls) -> list[str]:
        """The members, and what classes of ours have; `help` would tell an integer's methods too."""
        ours = {name for base in cls.__mro__ if base.__module__ not in ("builtins", "enum") for name in vars(base)}
        public = {name for name in ours if name[0] != "_"}
        return sorted({"__doc__", "__members__", "__module__", *cls.__members__, *public})


class Spelled(enum.IntEnum, metaclass=SpelledType):
    """An enumeration that reads spellings, in `_missing_`."""

    if TYPE_CHECKING:

        def __new__(cls, value: Any) -> Self:
            """Take any of the spellings."""


def _prefix_of(name: str) -> str:
    """The start of DirectML's constants: `DML_AXIS_DIRECTION_` of AxisDirection's."""
    return f"DML_{re.sub('(?<=[a-z])(?=[A-Z])', '_', name).upper()}_"


def _written_prefix(cls: type[enum.Enum]) -> str:
    """The start of DirectML's constants of an enumeration, as a member of it is written."""
    first = next(iter(cls))
    return str(getattr(first, "dml_name", first.name)).removesuffix(first.name) or _prefix_of(cls.__name__)


class Option(Spelled):
    """A field's enumeration, such as DML_AXIS_DIRECTION: it reads names with DirectML's prefix and without."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        if (member := read_name(cls, value, cls._prefix())) is None:
            raise no_member(cls, value, cls.__members__)
        return member

    @classmethod
    def _prefix(cls) -> str:
        return _prefix_of(cls.__name__)

    @property
    def dml_name(self) -> str:
        """DirectML's own constant: `DML_AXIS_DIRECTION_INCREASING`."""
        return self._prefix() + self.name


class Flags(enum.IntFlag, boundary=enum.STRICT, metaclass=SpelledType):
    """Flags that also read the names: one, or several with | between them."""

    if TYPE_CHECKING:

        def __new__(cls, value: Any) -> Self:
            """Take any of the spellings."""

    @classmethod
    def _missing_(cls, value: object) -> Any:
        flags = [name for name in cls.__members__ if name != "NONE"]
        if isinstance(value, str):
            members = [read_name(cls, part, cls._prefix()) for part in value.split("|")]
            if None not in members:
                return functools.reduce(lambda a, b: a | b, (member for member in members if member is not None))
        elif isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            try:
                return super()._missing_(value)
            except ValueError:
                pass
        raise no_member(cls, value, ["NONE", *flags])

    @classmethod
    def _prefix(cls) -> str:
        return _prefix_of(cls.__name__.removesuffix("s"))

    @property
    def dml_name(self) -> str:
        """DirectML's own constant: `DML_TENSOR_FLAG_OWNED_BY_DML`."""
        return f"{self._prefix()}{self.name}"


# The words that people bring along from other libraries, for suggestions.


_OTHER_WORDS = {
    "AVERAGE": "mean avg",
    "BACKWARD": "back reverse reversed transposed transpose",
    "BIDIRECTIONAL": "both",
    "COLUMN_ROW_DEPTH": "crd",
    "CONSTANT": "zero zeros",
    "DECREASING": "down back backward backwards reverse reversed descending desc right_to_left",
    "DEPTH_COLUMN_ROW": "dcr",
    "EDGE": "replicate nearest border",
    "FLOAT32": "bfloat16 tfloat32 tf32 real",
    "HALVES_TO_NEAREST_EVEN": "even nearest round rint",
    "INCREASING": "up forward forwards ascending asc left_to_right",
    "LINEAR": "bilinear trilinear",
    "MULTIPLY": "prod product mul",
    "NEAREST_NEIGHBOR": "nearest",
    "REFLECTION": "reflect mirror",
    "TOWARD_ZERO": "trunc truncate",
    "TRANSPOSE": "t",
    "UINT8": "bool boolean byte",
    "WRAP": "circular periodic",
    "'clamp'": "clip",
    "'raise'": "error strict",
    "'cpu'": "host llvm",
    "'cuda'": "nvidia triton",
    "'reference'": "numpy oracle",
    "'webgpu'": "gpu wgpu wgsl vulkan metal dml directml dx12 d3d12 amd intel radeon apple rocm",
}
"""By the name that is meant, as errors write it."""


def _meant_by(word: str, names: Iterable[str]) -> str | None:
    """The one of some names that a word of another library stands for."""
    word = word.strip().lower().replace("-", "_")
    return next((name for name in names if word in _OTHER_WORDS.get(name, "").split()), None)

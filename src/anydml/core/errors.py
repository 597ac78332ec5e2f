"""The errors: one family, each saying operator, field, rule, the value found and, where there is one, the way out."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anydml.core.enums import FeatureLevel

E_INVALIDARG = 0x80070057
E_BOUNDS = 0x8000000B
DXGI_ERROR_UNSUPPORTED = 0x887A0004
DXGI_ERROR_DEVICE_REMOVED = 0x887A0005
FAULT, UNUSABLE, MISSING = 1, 2, 3
"""The program's exit statuses: a fault of the author's, a file that cannot be used, something that is not here."""
VERDICTS = {0: "valid", FAULT: "invalid", UNUSABLE: "unusable", MISSING: "unsupported"}
"""What a model is, by the status of its check."""
UNDETERMINED = "undetermined"
"""What a model is that no sizes tried fit, and that may be sound."""


def show(value: object, limit: int = 120) -> str:
    """Write a value into a message: one line, never long, and never an error of its own."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a hostile __repr__, or an int of over 4,300 digits, must not hide the fault
        return f"a {type(value).__name__} that cannot be written out"
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str) -> str:
    """A name from a file or of one, as a terminal may show it: one line, and no control characters."""
    if text.isprintable():  # nearly always; a model's nodes ask thousands of times
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Place:
    """Where something stands in a model file: what editors, compilers and code hosts make a link of, and the path."""

    file: str
    line: int
    column: int
    """Lines and columns count from 1, a column being one character."""
    path: str = ""
    """The value's JSON path: `$.dispatchables.crop.desc.InputWindowStrides[2]`."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" + (f": {self.path}" if self.path else "")


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
class Fault:
    """One rule broken by one field."""

    field: str
    """DirectML's name of the field, with the index of the offending element: `InputWindowStrides[2]`."""
    rule: str
    """The rule that is broken, as a sentence that names the field."""
    value: object = None
    """The value found."""
    found: str = ""
    """The value found as the message words it."""
    way_out: str = ""
    """The way out, where the rule does not imply it."""
    level: FeatureLevel | None = None
    """For a fault of feature level alone: the lowest level that has what is asked for."""
    place: Place | None = None
    """For a fault in a file: where."""
    subject: str = ""
    """For a fault among those of several operators: whose it is."""
    is_slip: bool = False
    """Whether a caller named what there is none of, or data was made up: the model is at no fault then."""
    is_final: bool = False
    """Whether no version has what is asked for: a node type that ONNX lacks, or with `strict` a node of the host's."""

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        try:
            return replace(self, value=copy.deepcopy(self.value, memo))
        except Exception:  # noqa: BLE001 - whatever was given: a lock, a bound operator
            return self

    def __reduce__(self) -> tuple[Any, ...]:
        """With the value in words where it cannot be pickled: an error reaches the process that waits for it."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        try:
            pickle.loads(pickle.dumps(self.value))  # noqa: S301 - what was pickled here
        except Exception:  # noqa: BLE001 - as above
            values["value"] = show(self.value)
        return _fault, (values,)

    def __str__(self) -> str:
        found = f"got {self.found}" if self.found else ""
        said = "; ".join(part for part in (self.rule, found, self.way_out) if part)
        # Whatever a model's author wrote, a terminal is shown one line without control characters.
        return printable(": ".join(part for part in (str(self.place or ""), self.subject, said) if part))


def _fault(values: dict[str, Any]) -> Fault:
    return Fault(**values)


class DmlError(Exception):
    """Anything that goes wrong in anydml.

    `faults` holds every rule broken, `field` and `value` those of the first; `subject` is the operator or object
    at fault; `hresult` is the code that DirectML gives for an error of this kind.
    """

    hresult: ClassVar[int] = E_INVALIDARG

    def __init__(self, subject: str, faults: Fault | Iterable[Fault]) -> None:
        self.subject = subject
        self.faults: tuple[Fault, ...] = (faults,) if isinstance(faults, Fault) else tuple(faults)
        super().__init__(subject, self.faults)

    @property
    def field(self) -> str:
        """The first field at fault."""
        return self.faults[0].field if self.faults else ""

    @property
    def value(self) -> object:
        """The first value at fault."""
        return self.faults[0].value if self.faults else None

    def within(self, subject: str, prefix: str) -> Self:
        """The same error, told of a field of something larger: `Sizes[0] …` becomes `InputTensor.Sizes[0] …`."""
        faults = [replace(f, field=(prefix + f.field).strip(), rule=prefix + f.rule) for f in self.faults]
        return type(self)(subject, faults)

    def __str__(self) -> str:
        if len(self.faults) == 1:
            return str(self.faults[0]) if self.faults[0].place else f"{self.subject}: {self.faults[0]}"
        lines = "".join(f"\n  {fault}" for fault in self.faults)
        count = (
            f"{len(self.faults)} faults"
            if any(f.place for f in self.faults)
            else f"{len(self.faults)} rules are broken"
        )
        return f"{self.subject}: {count}{lines}"


class DescriptionError(DmlError, ValueError):
    """A description that DirectML would refuse: a field of it breaks a rule."""


class FeatureLevelError(DmlError, ValueError):
    """A description that is right, but needs a higher feature level than the device has."""

    hresult = DXGI_ERROR_UNSUPPORTED

    @property
    def needed(self) -> FeatureLevel | None:
        """The lowest level that has everything asked for."""
        return max((fault.level for fault in self.faults if fault.level is not None), default=None)


class BindingError(DmlError, ValueError):
    """A buffer or an array that cannot be bound where it was given, or an object used out of its order."""

    hresult = DXGI_ERROR_DEVICE_REMOVED


class DeviceLostError(BindingError):
    """A device that its driver has given up, with all that lay in its memory. The next of its name is a new one."""


class IndexRangeError(DmlError, IndexError):
    """An index of a gather that lies outside the dimension it indexes. Nothing was written."""

    hresult = E_BOUNDS


class MissingDependencyError(DmlError, RuntimeError, AttributeError):
    """A package or a device that is not there, of an engine or a module of anydml; the message says what to install.

    As an AttributeError it has whoever looks at all that a module has pass it over.
    """

    hresult = DXGI_ERROR_UNSUPPORTED


class UnsupportedError(DmlError, NotImplementedError):
    """Something that DirectML or its tools have, and this version does not."""

    hresult = DXGI_ERROR_UNSUPPORTED


class ModelFileError(DmlError, ValueError):
    """A model, or a file that it names, that cannot be used. Nothing was written."""


class ModelError(DmlError, ValueError):
    """A model whose descriptions, bindings or data break rules. Nothing was written."""


class DynamicSizesError(ModelError):
    """A model with dynamic sizes that nobody gave, and that fits none of those tried. It may be sound."""


def raise_description_faults(subject: str, faults: Sequence[Fault]) -> None:
    """Raise the right member of the family where there are faults: a matter of level alone, or of the description."""
    if faults:
        by_level = all(fault.level is not None for fault in faults)
        raise (FeatureLevelError if by_level else DescriptionError)(subject, faults)

"""PyDirectML's descriptions of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

from anydml.api.builder import TENSOR_POLICIES
from anydml.arrays import tensor
from anydml.core.errors import DescriptionError, Fault
from anydml.core.parse import read_int
from anydml.pydirectml.arguments import ArgumentError, as_argument_error, made_elsewhere
from anydml.pydirectml.enums import TensorDataType, TensorFlags

if TYPE_CHECKING:
    from collections.abc import Sequence


class Dimensions:
    """Sizes or strides. PyDirectML takes lists of numbers for them, and gives lists."""

    def __init__(self) -> None:
        made_elsewhere(Dimensions, "sizes and strides are lists of numbers")


class TensorPolicy:
    """The strides of a tensor that has sizes alone: `TensorPolicy.default`, or `TensorPolicy.interleaved_channel`."""

    default: ClassVar[TensorPolicy]
    """Packed."""
    interleaved_channel: ClassVar[TensorPolicy]
    """The second dimension innermost: NHWC for sizes that are NCHW."""
    name: str

    def __init__(self) -> None:
        made_elsewhere(TensorPolicy, "there are TensorPolicy.default and TensorPolicy.interleaved_channel")

    def __reduce__(self) -> str:
        return f"TensorPolicy.{self.name}"

    def __repr__(self) -> str:
        return f"TensorPolicy.{self.name}"


for _name in TENSOR_POLICIES:
    _policy = object.__new__(TensorPolicy)
    _policy.name = _name
    setattr(TensorPolicy, _name, _policy)

_FORMS = (
    ("data_type", "sizes", "tensor_policy"),
    ("data_type", "flags", "sizes", "tensor_policy"),
    ("data_type", "sizes", "strides"),
    ("data_type", "flags", "sizes", "strides", "total_tensor_size_in_bytes", "guaranteed_base_offset_alignment"),
)
_CLASSES: dict[str, type] = {"data_type": TensorDataType, "flags": TensorFlags, "tensor_policy": TensorPolicy}


class TensorDesc:
    """A tensor: its type, its sizes, and how it lies. Strides are in elements."""

    @overload
    def __init__(self, data_type: TensorDataType, sizes: Sequence[int], tensor_policy: TensorPolicy = ...) -> None: ...
    @overload
    def __init__(
        self, data_type: TensorDataType, flags: TensorFlags, sizes: Sequence[int], tensor_policy: TensorPolicy = ...
    ) -> None: ...
    @overload
    def __init__(self, data_type: TensorDataType, sizes: Sequence[int], strides: Sequence[int] | None) -> None: ...
    @overload
    def __init__(
        self,
        data_type: TensorDataType,
        flags: TensorFlags,
        sizes: Sequence[int],
        strides: Sequence[int] | None,
        total_tensor_size_in_bytes: int,
        guaranteed_base_offset_alignment: int,
    ) -> None: ...
    def __init__(self, *args: Any, **named: Any) -> None:
        given = next((found for form in _FORMS if (found := _fit(form, args, named)) is not None), None)
        if given is None:
            forms = "; ".join(f"({', '.join(form)})" for form in _FORMS)
            types = [*(type(x).__name__ for x in args), *(f"{key}: {type(x).__name__}" for key, x in named.items())]
            rule = f"the arguments must be one of these, a tensor_policy being optional: {forms}"
            fault = Fault(field="TensorDesc", rule=rule, value=args, found=f"({', '.join(types)})")
            raise ArgumentError("TensorDesc", fault)
        policy = given.pop("tensor_policy", TensorPolicy.default)
        data_type, sizes, flags = given.pop("data_type"), given.pop("sizes"), given.pop("flags", TensorFlags.NONE)
        try:
            self.desc = desc = tensor.TensorDesc(data_type.name, sizes, flags=flags.name, **given)
            if (strides := TENSOR_POLICIES[policy.name](desc.sizes, desc.data_type)) is not None:
                self.desc = tensor.TensorDesc(desc.data_type, desc.sizes, flags=desc.flags, strides=strides)
        except DescriptionError as error:
            raise as_argument_error(error) from None

    @classmethod
    def of(cls, desc: tensor.TensorDesc) -> Self:
        """One of anydml's as one of PyDirectML's."""
        made = object.__new__(cls)
        made.desc = desc
        return made

    @property
    def data_type(self) -> TensorDataType:
        """The type of an element."""
        return TensorDataType[self.desc.data_type.name]

    @property
    def flags(self) -> TensorFlags:
        """OWNED_BY_DML, or NONE."""
        return TensorFlags(self.desc.flags.value)

    @property
    def sizes(self) -> list[int]:
        """The sizes."""
        return list(self.desc.sizes)

    @property
    def strides(self) -> list[int] | None:
        """The strides, in elements; None for a packed tensor."""
        return None if self.desc.strides is None else list(self.desc.strides)

    @property
    def total_tensor_size_in_bytes(self) -> int:
        """The bytes that it spans, a multiple of 4."""
        return self.desc.total_tensor_size_in_bytes

    @property
    def guaranteed_base_offset_alignment(self) -> int:
        """A number that divides the address of the tensor, or 0."""
        return self.desc.guaranteed_base_offset_alignment

    def __repr__(self) -> str:
        sizes = ",".join(map(str, self.sizes))
        return f"dml.TensorDesc of type {int(self.data_type)} and shape [{sizes}] with flags {int(self.flags)}"


def _fit(form: tuple[str, ...], args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments by the names of a form, where they are of its types."""
    given = dict(zip(form, args, strict=False))
    if len(args) > len(form) or given.keys() & named.keys() or not named.keys() <= set(form):
        return None
    given |= named
    if any(name not in given and name != "tensor_policy" for name in form):
        return None
    for name, value in given.items():
        is_list = name == "sizes" or (name == "strides" and value is not None)
        if not isinstance(value, _CLASSES.get(name, object)) or (is_list and not _is_list(value)):
            return None
    return given


def _is_list(value: object) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, (str, bytes, dict))


class Size2D:
    """A width and a height."""

    def __init__(self, width: int, height: int) -> None:
        faults: list[Fault] = []
        self.width, self.height = read_int(width, "width", faults), read_int(height, "height", faults)
        if faults:
            raise ArgumentError("Size2D", faults)

    def __repr__(self) -> str:
        return f"dml.Size2D({self.width}, {self.height})"

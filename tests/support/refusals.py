"""Something wrong, and the message that a user reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import anydml as dml

if TYPE_CHECKING:
    from collections.abc import Callable

UNBUILT = "ADAM_OPTIMIZER"
"""The operator that the fixture `unbuilt` takes away."""
BUILT = len({*dml.OPERATORS} - {dml.OperatorType[UNBUILT]})
"""The count of the others."""


@dataclass(frozen=True)
class Broken:
    """Something wrong, the error it gives, and what that says."""

    name: str
    act: Callable[[], object]
    message: str
    error: type[dml.DmlError] = dml.DescriptionError
    field: str | None = None

    def __str__(self) -> str:
        """The operator, which the message begins with, and the name."""
        operator = self.message.partition(":")[0]
        return f"{operator} {self.name}" if operator in dml.OperatorType.__members__ else self.name


def create(cls: type[dml.OperatorDesc], level: str = "6_4", **fields: Any) -> Callable[[], object]:
    """What creates an operator when it is called."""
    return lambda: dml.Device(feature_level=level).create_operator(cls(**fields))


def check_refusal(broken: Broken) -> None:
    """The error, all that it says, and the field that it names."""
    with pytest.raises(dml.DmlError) as caught:
        broken.act()
    whole = broken.message.removesuffix("...")
    assert str(caught.value) == whole or (whole != broken.message and str(caught.value).startswith(whole))
    assert type(caught.value) is broken.error
    assert caught.value.hresult >= 0x80000000  # DirectML's codes of failure have the top bit
    if broken.field is not None:
        assert caught.value.field == broken.field

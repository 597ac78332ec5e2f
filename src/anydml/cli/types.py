"""Values on the command line, read as the library reads them: every spelling that it takes, and its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from anydml.enums import FeatureLevel
from anydml.errors import DmlError
from anydml.operator_type import OperatorType
from anydml.operators import OPERATORS, find_operator

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem as Item


def _complete(names: list[str], incomplete: str) -> list[Item]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class LevelType(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """A feature level: `5_0`, `5.0` or `DML_FEATURE_LEVEL_5_0`."""

    name = "level"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> FeatureLevel:
        """Read it, or say what levels there are."""
        try:
            return FeatureLevel(value)
        except DmlError as error:
            self.fail(str(error.faults[0]), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Item]:  # noqa: ARG002
        """Every level."""
        return _complete([str(level) for level in FeatureLevel], incomplete)


class OperatorNameType(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """An operator: `slice1`, `SLICE1` or `DML_OPERATOR_SLICE1`."""

    name = "operator"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it, or say what operators there are."""
        if isinstance(value, type):
            return value
        try:
            kind = OperatorType(value)
        except DmlError as error:
            self.fail(str(error.faults[0]), param, ctx)
        return find_operator(kind)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Item]:  # noqa: ARG002
        """Every operator that is built."""
        return _complete([kind.name.lower() for kind in OPERATORS], incomplete.lower())


LEVEL, OPERATOR = LevelType(), OperatorNameType()

"""Values on the command line, read as the library reads them: every spelling that it takes, and its messages."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from anydml.api.signatures import operator_of_function
from anydml.api.unknown import operator_instead_of
from anydml.core.enum_parsing import squeeze, suggest
from anydml.core.enums import FeatureLevel
from anydml.core.errors import DescriptionError, DmlError, printable
from anydml.core.operator_type import OperatorType, function_name
from anydml.engines import ENGINES, is_engine_name
from anydml.operators import OPERATORS, find_operator

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem as Item


def _complete(names: list[str], incomplete: str) -> list[Item]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def list_names() -> list[str]:
    """The names of the operators: `relu` and `activation_relu`."""
    return sorted({name for kind in OPERATORS for name in (function_name(kind), kind.name.lower())})


class LevelType(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """A feature level: `5_0`, `5.0` or `DML_FEATURE_LEVEL_5_0`."""

    name = "level"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> FeatureLevel:
        """Read it, or say what levels there are."""
        try:
            return FeatureLevel(value)
        except DmlError as error:
            self.fail(str(error.faults[0]), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Item]:  # noqa: ARG002 - as the base has it
        """Every level."""
        return _complete([str(level) for level in FeatureLevel], incomplete)


class OperatorNameType(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """An operator: `slice1`, `SLICE1`, `DML_OPERATOR_SLICE1` or its number; `gather-nd`, `GatherNd`, `add` too."""

    name = "operator"

    def __init__(self, *, of_function: bool = False) -> None:
        """With `of_function` a function's name is the operator that it computes: `softmax` is ACTIVATION_SOFTMAX1."""
        self._of_function = of_function

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it, or say what operators there are."""
        if isinstance(value, type):
            return value
        if self._of_function and (found := operator_of_function(value)) is not None:
            return found
        names = {squeeze(spelling): kind for kind in OperatorType for spelling in (function_name(kind), kind.name)}
        name = squeeze(value).removeprefix("dmloperator")
        try:
            return find_operator(names.get(name) or (int(name) if name.isdecimal() else value))
        except DescriptionError as error:
            built = [kind.name.lower() for kind in OPERATORS]
            near = suggest(value, map(function_name, OPERATORS)) or suggest(value, built, "dml_operator_")
            way_out = operator_instead_of(value) or near or "`anydml support` lists them"
            self.fail(str(replace(error.faults[0], way_out=way_out)), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Item]:  # noqa: ARG002 - as the base has it
        """Every operator that is built, by both of its names."""
        return _complete(list_names(), incomplete.lower())


class EngineType(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """An engine: `cpu`, `cuda`, `webgpu`, or `cuda:1` for the second GPU."""

    name = "engine"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Take its name, or say what engines there are; whether it can run here is for the device to say."""
        if not is_engine_name(value):
            hint = suggest(value, map(repr, ENGINES))
            told = f"{value!r} is none of {', '.join(ENGINES)} and cuda:1, cuda:2, …, webgpu:1, …"
            self.fail("; ".join(filter(None, (told, hint))), param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Item]:  # noqa: ARG002 - as the base has it
        """Every engine."""
        return _complete(list(ENGINES), incomplete)


class SizeType(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """A size in bytes: `65536`, `64K`, `512M`, `2G`, `2GiB`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it; K, M, G and T are powers of 1024."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"([0-9]{1,12})([KMGT]?)(?:i?B)?", value.strip(), re.IGNORECASE)
        if match is None:
            self.fail(f"{value!r} is no size such as 512M or 2G", param, ctx)
        factor: int = 1024 ** " KMGT".index(match[2].upper() or " ")
        return int(match[1]) * factor


__all__ = ["ENGINE", "EXPLAINED", "LEVEL", "OPERATOR", "SIZE", "printable"]

ENGINE, LEVEL, OPERATOR, SIZE = EngineType(), LevelType(), OperatorNameType(), SizeType()
EXPLAINED = OperatorNameType(of_function=True)

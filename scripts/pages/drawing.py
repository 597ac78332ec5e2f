"""Drawings in a page that is light or dark by its reader's choice: pictures of operators, and charts."""

from __future__ import annotations

import functools
import re
import shlex
from typing import TYPE_CHECKING

import click

from anydml.cli.describe import describe
from anydml.cli.explain import explain
from anydml.cli.showing import checked, draw
from anydml.core.enums import FeatureLevel

if TYPE_CHECKING:
    from anydml.explain import Picture
    from scripts.pages.families import Operator

_STYLE = re.compile(r"<style>(.*)@media \(prefers-color-scheme:dark\)\{(.*)\}</style>\n", re.DOTALL)
PICTURE, CHART = "anydml-picture-frame", "anydml-chart-frame"
"""The classes of frames; all drawings in frames of one class have the same style."""
PHONE = 380
"""Pixels of a phone that a picture may take, but for the name of an operator."""


def command_of(cls: Operator) -> str:
    """The command line that the help of `anydml explain` has as its example."""
    command = explain.get_command(click.Context(explain), cls.type.name.lower())
    assert command is not None  # noqa: S101 - for type checkers: every operator has one
    return (command.help or "").rpartition("\n")[2].strip()


def draw_operator(cls: Operator) -> Picture:
    """The picture of the example."""
    command = explain.get_command(click.Context(explain), cls.type.name.lower())
    assert command is not None  # noqa: S101 - for type checkers: every operator has one
    with command.make_context("explain", shlex.split(command_of(cls))[3:]) as ctx:
        given = {name: value for name, value in ctx.params.items() if name not in ("feature_level", "svg", "html")}
    desc, arrays = describe(cls, given)
    return checked(functools.partial(draw, desc, arrays, FeatureLevel.highest(), ""))


def frame_picture(cls: Operator) -> str:
    """The picture of the example for a page, and one for a phone, whose grids stand one below another."""
    picture = draw_operator(cls)
    wide, narrow = picture.svg(), picture.svg(PHONE)
    if wide == narrow:
        return frame(wide, PICTURE)
    return f"{frame(wide, f'{PICTURE} anydml-wide')}\n{frame(narrow, f'{PICTURE} anydml-narrow')}"


def frame(drawing: str, name: str) -> str:
    """A drawing as a part of a page, without its style, which `style_of` has once for all."""
    return f'<div class="{name}" data-search-exclude>\n{_STYLE.sub("", drawing)}</div>'


def style_of(drawing: str, name: str) -> str:
    """The style of a drawing for all in frames of a class: dark where the page is."""
    found = _STYLE.search(drawing)
    assert found is not None, "a drawing has a style, light and dark"  # noqa: S101 - of our own drawing, for type checkers
    return f'.{name}{{{found[1]}}}\n[data-md-color-scheme="slate"] .{name}{{{found[2]}}}\n'

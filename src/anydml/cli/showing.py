"""Pictures where they are asked for: in files, or printed, in colour and letters that the terminal has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.cli.console import make_console
from anydml.cli.files import write_text
from anydml.explain import Limits
from anydml.explain import explain as make_picture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import Console

    from anydml.core.enums import FeatureLevel
    from anydml.explain import GraphPicture, Picture
    from anydml.explain.text import Line
    from anydml.operators import OperatorDesc

_STYLES = {
    "title": "bold",
    "dim": "dim",
    "window": "red",
    "arrow": "dim",
    "fault": "reverse red",
    "hue1": "bold bright_blue",
    "hue2": "bold yellow",
    "hue3": "bold green",
    "hue4": "bold magenta",
    "hue5": "bold bright_red",
    "hue6": "bold cyan",
}
_PIPED_WIDTH = 100
_FEWER_COLUMNS = (8, 6, 4, 2)


def draw(desc: OperatorDesc, values: Sequence[object], level: FeatureLevel, title: str, limits: Limits) -> Picture:
    """The picture of a description."""
    return make_picture(desc, *values, feature_level=level, title=title, limits=limits)


def checked(drawn: Callable[[Limits], Picture]) -> Picture:
    """A picture as it is by itself; a description at fault is an error."""
    picture = drawn(Limits())
    if picture.error is not None:
        raise picture.error
    return picture


def show_picture(drawn: Callable[[Limits], Picture], svg: str | None = None, html: str | None = None) -> None:
    """Show a picture where it is asked for, on the terminal where nothing is; a description at fault is an error."""
    picture = checked(drawn)
    if svg is not None:
        write_text(svg, picture.svg(), "--svg")
    if html is not None:
        write_text(html, picture.html(), "--html")
    if svg is None and html is None:
        _print_picture(drawn)


def _print_picture(drawn: Callable[[Limits], Picture]) -> None:
    """Print it, in colour where there is colour, with as many columns as a terminal has room for."""
    from anydml.explain.text import lines, needed_width

    console = make_console()
    width = console.width if console.is_terminal else _PIPED_WIDTH
    picture = drawn(Limits())
    for columns in _FEWER_COLUMNS if console.is_terminal else ():
        if needed_width(picture) > width:
            picture = drawn(Limits(columns=columns))
    _print_lines(console, lines(picture, width))


def show_graph(picture: GraphPicture, svg: str | None = None, html: str | None = None) -> None:
    """Show a graph where it is asked for, on the terminal where nothing is."""
    from anydml.explain.graph_text import lines

    if svg is not None:
        write_text(svg, picture.svg(), "--svg")
    if html is not None:
        write_text(html, picture.html(), "--html")
    if svg is None and html is None:
        _print_lines(make_console(), lines(picture))


def _print_lines(console: Console, lines: Iterable[Line]) -> None:
    """Print lines of styled text, in letters that the output has."""
    from rich.text import Text

    from anydml.explain.text import as_ascii

    is_wide = "utf" in console.encoding.lower()
    for line in lines:
        text = Text()
        for piece in line:
            text.append(piece.text if is_wide else as_ascii(piece.text), _STYLES.get(piece.style, ""))
        text.rstrip()
        console.print(text, soft_wrap=True)

"""How far long work is: on a terminal alone, on stderr, one line that is gone afterwards."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeVar

    T = TypeVar("T")

_bars: list[Any] = []
"""Those that are shown now."""


def is_shown() -> bool:
    """Whether somebody looks: stderr is a terminal, and one that can remove a line."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def make_bar(text: str, total: float | None) -> Any:
    """A bar that was started; without a total it shows the time that has passed."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    words = TextColumn("{task.description}", markup=False)
    columns = (BarColumn(), TimeRemainingColumn(), words) if total else (SpinnerColumn(), words, TimeElapsedColumn())
    # What goes to stdout must not go to stderr instead, as rich would have it.
    bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
    bar.add_task(text, total=total)
    bar.start()
    return bar


def tell(text: str) -> None:
    """Write a line to stderr; where progress is shown, above it."""
    if _bars:
        _bars[-1].console.print(text, markup=False, emoji=False, highlight=False, soft_wrap=True)
    else:
        click.echo(text, err=True)


@contextlib.contextmanager
def _shown(text: str, total: float | None) -> Iterator[Any]:
    """A bar, which messages know of."""
    bar = make_bar(text, total)
    _bars.append(bar)
    try:
        yield bar
    finally:
        bar.stop()
        _bars.remove(bar)


@contextlib.contextmanager
def working(text: str) -> Iterator[None]:
    """Show that something is worked at."""
    with _shown(text, None) if is_shown() else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def each(items: Sequence[T], word: Callable[[T], str]) -> Iterator[Iterator[T]]:
    """Go through items, and show which is worked at and, of several, how many are done."""
    if not items or not is_shown():
        yield iter(items)
        return
    with _shown(word(items[0]), len(items) if len(items) > 1 else None) as bar:

        def advance() -> Iterator[T]:
            for done, item in enumerate(items):
                bar.update(bar.task_ids[0], completed=done, description=word(item))
                yield item

        yield advance()

"""The events of a DxDispatch model's run as lines, as DxDispatch writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import click

from anydml.cli.printing import write_values
from anydml.cli.progress import is_shown, make_bar
from anydml.cli.types import printable
from anydml.engines import describe_engine
from anydml.models import Commanded, Dispatched, Figures, Initialised, Printed, Progress, Started, Timing, Written

if TYPE_CHECKING:
    from anydml.models import Event


class Listener:
    """Writes what happens, as it happens; on a terminal also how far a long dispatch is."""

    def __init__(self, verbosity: int, timing: Timing, *, tells_commands: bool = False) -> None:
        self._verbosity, self._timing, self._tells_commands = verbosity, timing, tells_commands
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_bar()

    def __call__(self, event: Event) -> None:
        """Write what happened."""
        if isinstance(event, Progress):
            self._show_progress(event)
            return
        self._stop_bar()
        if isinstance(event, Started):
            click.echo(f"Running on '{event.device.name} ({describe_engine(event.device.engine)})'")
        elif isinstance(event, Initialised):
            if self._verbosity:
                click.echo(f"Initialize {_name(event.name)}: {event.milliseconds:.4f} ms")
        elif isinstance(event, Commanded):
            if self._tells_commands:
                mark, told = ("EndCmd", "hr=0x00000000") if event.is_done else ("StartCmd", printable(event.text))
                click.echo(f"[{mark}][{event.number:04}]\t: {told}")
        elif isinstance(event, Dispatched):
            self._show_times(event)
        elif isinstance(event, Printed):
            click.echo(f"Resource {_name(event.name)}:" + ("\n" if event.verbose else " "), nl=False)
            for text in write_values(event):
                click.echo(text, nl=False)
        elif isinstance(event, Written):
            click.echo(f"Resource {_name(event.name)} written to {_name(event.text)}")

    def _show_times(self, event: Dispatched) -> None:
        samples = event.samples
        count, hot = len(samples.milliseconds), samples.hot
        if hot is None:
            return
        if self._verbosity == 0:
            click.echo(f"Dispatch {_name(event.name)}: {count} iterations, {hot.median:.4f} ms median (CPU)")
            return
        click.echo(f"Dispatch {_name(event.name)}: {count} iterations")
        for title, figures in (("Cold", samples.cold), ("Hot", hot)):
            if figures is not None:
                click.echo(f"CPU Timings {f'({title})':6} : {_figures(figures)}")
        if self._verbosity == 2:
            click.echo("The timings of each iteration:")
            for i, milliseconds in enumerate(samples.milliseconds):
                click.echo(f"iteration {i}: {milliseconds:.4f} ms (CPU)")

    def _show_progress(self, event: Progress) -> None:
        if not is_shown():
            return
        limit = self._timing.milliseconds
        total = self._timing.iterations if limit is None else limit / 1000
        if self._bar is None:
            self._bar = make_bar(f"Dispatch {_name(event.name)}", total)
        done = event.iterations if limit is None else min(event.seconds, total)
        self._bar.update(self._bar.task_ids[0], completed=done)

    def _stop_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _name(text: str) -> str:
    return f"'{printable(text)}'"


def _figures(figures: Figures) -> str:
    return (
        f"{figures.count} samples, {figures.average:.4f} ms average, {figures.least:.4f} ms min,"
        f" {figures.median:.4f} ms median, {figures.most:.4f} ms max"
    )

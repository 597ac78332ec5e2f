"""`anydml run --profile`: what each pass of a model took, as a table, as JSON or for a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from anydml.cli.files import keep_model, write_text
from anydml.cli.types import printable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from anydml.runtime.profile import Profile

_TABLE = "-"
_KINDS: dict[str, Callable[[Profile], str]] = {
    ".trace.json": lambda found: found.trace(),
    ".trace": lambda found: found.trace(),
    ".json": lambda found: found.json(),
    ".txt": lambda found: f"{found}\n",
}
"""By the ending of a file, the first that fits, what is written."""
profile_option = click.option(
    "--profile",
    is_flag=False,
    flag_value=_TABLE,
    metavar="[FILE]",
    help="Show time, bytes and flops of each pass; or write them: *.json, *.trace.json for Perfetto, *.txt.",
)


top_option = click.option(
    "--top", type=click.IntRange(1), metavar="N", help="Of a profile that is printed, the N slowest passes."
)


def check_profile(model: Path, path: str | None, top: int | None, *, as_json: bool) -> None:
    """Refuse a file that cannot be meant, before anything runs."""
    if top is not None and path != _TABLE:
        raise click.UsageError("--top is for a profile that is printed: give --profile without a file.")
    if path is None:
        return
    if path == _TABLE:
        if as_json:
            raise click.UsageError("--json and --profile both write to stdout; give --profile a file.")
        return
    if not path.lower().endswith(tuple(_KINDS)):
        message = f"{path!r} must end in .json, .trace.json or .txt; without a file the table is printed."
        raise click.BadParameter(message, param_hint="'--profile'")
    keep_model(model, profile=path)


def tell_profile(found: Profile, path: str, *, top: int | None = None, is_quiet: bool = False) -> None:
    """Print a profile, or write it in the form that the file's name asks for."""
    if path == _TABLE:
        click.echo(found.table(top))
        return
    write = next(kind for ending, kind in _KINDS.items() if path.lower().endswith(ending))
    write_text(path, write(found), "--profile")
    click.echo(f"Profile written to '{printable(path)}'", err=is_quiet)


def watch_run(engine: str | None, run: Callable[[], object]) -> Profile:
    """The profile of everything that is bound and dispatched meanwhile."""
    from anydml.runtime.device import Device
    from anydml.runtime.profile import Profile
    from anydml.runtime.profiler_hook import Recorder, watching

    device = Device(engine)
    recorder = Recorder(device.engine.memory)
    with watching(recorder), recorder.run():
        run()
    return Profile.of(recorder, device)

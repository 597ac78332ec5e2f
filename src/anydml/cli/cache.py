"""`anydml cache`: compiled kernels and plans of models that are kept on disk."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anydml.cli.check_files import STDIN, find_models
from anydml.cli.console import write_json
from anydml.cli.onnx_inputs import Given, feed, input_options, is_onnx
from anydml.cli.progress import each
from anydml.cli.types import ENGINE, printable
from anydml.core.display import counted
from anydml.core.memory import word_bytes
from anydml.dxdispatch import load_model
from anydml.engines.common.cache import PLANS, find_folder, is_kept

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class _Kept:
    """The files of one kind."""

    kind: str
    files: tuple[Path, ...]

    @property
    def size(self) -> int:
        """Their bytes."""
        total = 0
        for path in self.files:
            with contextlib.suppress(OSError):  # another process may have removed it
                total += path.lstat().st_size
        return total


def list_kept(folder: Path | None) -> Iterator[_Kept]:
    """The kept files: kernels in the folder itself, plans in one within it. Files of others are none of ours."""
    if folder is None:
        return
    for kind, place in (("kernels", folder), (PLANS, folder / PLANS)):
        with contextlib.suppress(OSError):
            yield _Kept(kind, tuple(path for path in sorted(place.iterdir()) if is_kept(path)))


@click.group()
def cache() -> None:
    """Show, clear or fill the cache of compiled kernels and plans.

    It lies in the user's own folder for caches, or where ANYDML_CACHE_DIR says.

    \b
    Examples:
      anydml cache list
      anydml cache warm examples/models/slice1.json
    """


@cache.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def list_(as_json: bool) -> None:
    """Show the folder, and the counts and sizes of its files."""
    folder = find_folder()
    kept = list(list_kept(folder))
    if as_json:
        kinds: dict[str, Any] = {one.kind: {"files": len(one.files), "bytes": one.size} for one in kept}
        write_json({"folder": None if folder is None else str(folder), "kept": kinds})
        return
    click.echo("nothing is kept: there is no folder for it" if folder is None else printable(str(folder)))
    for one in kept:
        click.echo(f"  {one.kind}: {counted(len(one.files), 'file')}, {word_bytes(one.size)}")


@cache.command()
@click.option("-n", "--dry-run", is_flag=True, help="List the files that would be removed, and remove nothing.")
def clear(dry_run: bool) -> None:
    """Remove the compiled kernels and plans.

    They are compiled again when they are needed.
    """
    count = size = 0
    for one in list(list_kept(find_folder())):
        for path in one.files:
            with contextlib.suppress(OSError):
                own = path.lstat().st_size
                if not dry_run:
                    path.unlink()
                count, size = count + 1, size + own
    click.echo(f"{'Would remove' if dry_run else 'Removed'} {counted(count, 'file')}, {word_bytes(size)}")


@cache.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--engine", type=ENGINE, help="The engine to use; the best one here by default (see `anydml engines`).")
@input_options
def warm(paths: tuple[Path, ...], engine: str | None, inputs: tuple[str, ...], sizes: tuple[str, ...]) -> None:
    """Compile models, so that their first run is quick.

    PATHS are models and folders of them. None of the files that a model names is written.

    An ONNX model is run once, with inputs that are given or made up: --shape says the sizes that matter.

    \b
    Examples:
      anydml cache warm examples/models
      anydml cache warm examples/models/crop.onnx --shape batch=8
    """
    if Path(STDIN) in paths:
        raise click.UsageError("Name the models: standard input is not taken here.")
    before = {path for one in list_kept(find_folder()) for path in one.files}
    given = Given(inputs, sizes)
    with each(find_models(paths, None).paths, lambda path: f"Compiling {printable(path.name)}") as models:
        for path in models:
            _warm(path, engine, given)
    new = _Kept("", tuple(path for one in list_kept(find_folder()) for path in one.files if path not in before))
    click.echo(f"{counted(len(new.files), 'new file')}, {word_bytes(new.size)}")


def _warm(path: Path, engine: str | None, given: Given) -> None:
    from anydml.runtime.device import Device

    device = Device(engine)
    if is_onnx(path):
        from anydml.onnx import load

        model = load(path, device=device, shapes=given.shapes())
        model.run(feed(model, given, given.arrays(lambda: model.inputs)))
        return
    loaded = load_model(path)
    loaded.check().raise_faults()
    for one in loaded.dispatchables.values():
        if one.desc is not None:
            device.compile_operator(device.create_operator(one.desc), one.flags)

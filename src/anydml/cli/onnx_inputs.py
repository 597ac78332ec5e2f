"""Shared parts of the commands on ONNX models: inputs from files or made up, dynamic sizes, and the kind of a file."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anydml.cli.progress import tell
from anydml.cli.types import SIZE, printable
from anydml.core.errors import IndexRangeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np

    from anydml.onnx import Model
    from anydml.onnx.checks import TensorInfo

SIZES = "Sizes of an ONNX model's dynamic dimensions: batch=8, or an input's: x=2,3. May be given again."
SEED = "The seed of an ONNX model's inputs that are not given: 0 by default."
INPUTS = (
    "For an ONNX model, an input by its name: x=x.npy, sr=16000, to=[6,1]; or several by theirs: an .npz. May be given "
    "again."
)


STRICT = "Refuse nodes of an ONNX model that would run on the host, having no DirectML operator."
strict_option = click.option("--strict", is_flag=True, help=STRICT)


def is_onnx(model: Path) -> bool:
    """Whether a path is that of an ONNX model, by its ending."""
    return model.suffix.lower() == ".onnx"


def refuse_options(ctx: click.Context, kind: str, *names: str) -> None:
    """Refuse options that mean nothing for a kind of model."""
    for param in ctx.command.params:
        if param.name in names and ctx.get_parameter_source(param.name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{param.opts[-1]} is not for {kind}.", ctx)


@dataclass(frozen=True, slots=True)
class Given:
    """The options on a model's inputs."""

    inputs: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    seed: int | None = None
    max_memory: int | None = None
    strict: bool = False
    disable_passes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.inputs or self.sizes or self.seed is not None)

    def shapes(self) -> dict[str, int | list[int]]:
        """Dynamic sizes and inputs' shapes: `batch=8`, `x=2,3`."""
        found: dict[str, int | list[int]] = {}
        for text in self.sizes:
            name, sign, value = text.rpartition("=")
            parts = [part.strip() for part in value.split(",")] if value.strip() else []
            if not sign or not name or not all(part.isdecimal() and len(part) < 20 for part in parts):
                message = f"{text!r} is no size such as batch=8, and no shape such as x=2,3."
                raise click.BadParameter(message, param_hint="'--shape'")
            found[name] = int(parts[0]) if len(parts) == 1 else [int(part) for part in parts]
        return found

    def arrays(self, inputs: Callable[[], Mapping[str, TensorInfo]]) -> dict[str, np.ndarray[Any, Any]]:
        """The arrays of the files that were named, and those of numbers, which have the types of a model's inputs."""
        from anydml.onnx.tools.random_inputs import read_arrays

        found: dict[str, np.ndarray[Any, Any]] = {}
        for text in self.inputs:
            name, sign, path = text.partition("=")
            literal = None if not sign or Path(text).is_file() or Path(path).exists() else _literal(path)
            if literal is not None:
                found[name] = _numbers(text, literal, inputs().get(name))
                continue
            several = read_arrays(path) if sign and not Path(text).is_file() else read_arrays(text)
            if "" in several:
                if not sign or Path(text).is_file():
                    message = f"{text!r} holds an array without a name: say which input it is for, x={text}."
                    raise click.BadParameter(message, param_hint="'--input'")
                several = {name: several[""]}
            elif sign and not Path(text).is_file():
                if name not in several:
                    message = f"there is no array {name!r} in {path!r}."
                    raise click.BadParameter(message, param_hint="'--input'")
                several = {name: several[name]}
            found |= several
        return found


def _literal(text: str) -> Any:
    """A number or a list of them; None for what is neither."""
    from anydml.cli.values import parse_numbers

    try:
        found = parse_numbers(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, (bool, int, float, list)) else None


def _numbers(text: str, value: Any, info: TensorInfo | None) -> np.ndarray[Any, Any]:
    """An array of numbers of the command line, of an input's type; which there is none of the model says itself."""
    import numpy as np

    try:
        given = np.array(value)
        dtype = given.dtype if info is None else info.element.dtype
        with np.errstate(invalid="ignore", over="ignore"):  # of numbers that do not fit, which are seen to differ
            found = given.astype(dtype)
        is_kept = given.dtype.kind in "biuf" and (dtype.kind not in "biu" or bool(np.all(found == given)))
    except (ValueError, TypeError, OverflowError):
        is_kept = False
    if not is_kept:
        what = "an array" if info is None else f"an array of {dtype_name(info)}"
        message = f"{text!r} is no number and no list of numbers that make {what}."
        raise click.BadParameter(message, param_hint="'--input'")
    return found


def dtype_name(info: TensorInfo) -> str:
    """NumPy's name of an input's type, or ONNX's of one that NumPy has not."""
    return str(getattr(info.element, "dtype", info.element.name))


seed_option = click.option("--seed", type=click.IntRange(0, 2**32 - 1), help=SEED)


MOST = "The most it may take, such as 512M; half of the free memory by default."
memory_option = click.option("--max-memory", type=SIZE, help=MOST)


def input_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what inputs are to a command."""
    for option in (
        click.option("--shape", "sizes", metavar="NAME=SIZES", multiple=True, help=SIZES),
        click.option("--input", "inputs", metavar="[NAME=]FILE|NUMBERS", multiple=True, help=INPUTS),
    ):
        command = option(command)
    return command


def tell_assumed(assumed: Mapping[str, int], shapes: Mapping[str, Sequence[int]]) -> None:
    """Say what sizes were assumed for dynamic dimensions."""
    from anydml.onnx.example_sizes import told

    text = told(assumed, shapes)
    tell(text[:1].upper() + text[1:])


def feed(model: Model, given: Given, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a run: those of files, the others made up; dynamic sizes that nobody gives are assumed."""
    from anydml.onnx.tools.random_inputs import make_up, refuse_made_up

    missing = {name: info for name, info in model.inputs.items() if name not in arrays and not info.is_optional}
    if not missing or arrays.keys() - model.inputs.keys():  # which the model words
        return dict(arrays)
    shapes, assumed = model.assume_shapes(arrays)
    if assumed:
        tell_assumed(assumed, shapes)
    if needed := model.values_needed(shapes, arrays):
        raise refuse_made_up(model.name, needed)
    made = make_up(missing, shapes, model.index_limits(shapes), given.seed or 0, given.max_memory)
    tell(f"Made up from seed {given.seed or 0}: {', '.join(printable(name) for name in made)}")
    return {**arrays, **made}


@contextlib.contextmanager
def made_up_told(inputs: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[None]:
    """Say of an index outside its dimension that inputs were made up, where some were: no fault of the model."""
    try:
        yield
    except IndexRangeError as error:
        made = [printable(name) for name in inputs if name not in given]
        if not made:
            raise
        hint = f"made up: {', '.join(made)}; --input NAME=FILE gives one"
        faults = [
            replace(one, way_out=f"{one.way_out}; {hint}" if one.way_out else hint, is_slip=True)
            for one in error.faults
        ]
        raise IndexRangeError(error.subject, faults) from error


def file_name(name: str) -> str:
    """A tensor's name as that of a file: whatever could lead elsewhere is an underscore."""
    kept = "".join(c if c.isalnum() or c in "-_." else "_" for c in name).strip(".") or "output"
    return os.path.basename(kept)[:200]  # noqa: PTH119 - a name, and no path

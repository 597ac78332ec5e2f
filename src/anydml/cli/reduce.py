"""`anydml reduce MODEL --fails CMD`: a model cut down to the smallest that still shows a fault."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from anydml.cli.files import keep_model, write_bytes
from anydml.cli.onnx_inputs import Given, input_options, is_onnx, memory_option, seed_option
from anydml.cli.types import printable
from anydml.core.errors import Fault, ModelFileError, show
from anydml.core.files import word_reason

_PLACE = "{}"
_CANNOT_TELL = 125
"""The status of a command that cannot judge a candidate, as `git bisect run` has it."""
_MOST_READ = 2**24
"""Bytes of a command's output that are looked at."""


class _Command:
    """A command that judges models."""

    def __init__(self, text: str, seconds: int, says: str | None) -> None:
        try:
            self._words = shlex.split(text)
        except ValueError as error:
            raise click.BadParameter(f"{text!r} is no command ({error}).", param_hint="'--fails'") from None
        if not self._words:
            raise click.BadParameter("there must be a command.", param_hint="'--fails'")
        if self._words[0] == "anydml":  # this one, wherever it is
            self._words[:1] = [sys.executable, "-m", "anydml"]
        if not any(_PLACE in word for word in self._words):
            self._words.append(_PLACE)
        self._seconds, self._says = seconds, says

    def __call__(self, path: str) -> bool:
        """Whether it shows the fault of a model: by its status, and by what it says."""
        with tempfile.TemporaryFile() as output:
            status = self._run([word.replace(_PLACE, path) for word in self._words], output.fileno())
            if status in (None, 0, _CANNOT_TELL):
                return False
            output.seek(0)
            return self._says is None or self._says.encode() in output.read(_MOST_READ)

    def _run(self, words: list[str], output: int) -> int | None:
        """The exit status; None where it took too long. It has a group of its own, which ends with it."""
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own command, without a shell
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        except (OSError, ValueError) as error:
            rule = f"the command cannot be started ({word_reason(error)})"
            raise ModelFileError("--fails", Fault(field="fails", rule=rule, found=show(words[0]))) from error
        try:
            return process.wait(self._seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command, and what it started."""
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--fails", "command", metavar="CMD", required=True, help="The command that shows the fault; {} is a model's path."
)
@click.option(
    "--says", metavar="TEXT", help="Text that its output must have too; without it, it failed for another reason."
)
@click.option(
    "-o", "--output", metavar="FILE", help="Where to write the smallest model; MODEL.reduced.onnx by default."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=60,
    show_default=True,
    help="Seconds that a run may take.",
)
@memory_option
@input_options
@seed_option
def reduce(
    model: Path,
    command: str,
    says: str | None,
    output: str | None,
    timeout: int,
    max_memory: int | None,
    inputs: tuple[str, ...],
    sizes: tuple[str, ...],
    seed: int | None,
) -> None:
    """Cut an ONNX model down to the part that shows a fault.

    CMD is run, without a shell, on one candidate after another: {} in it is replaced by the candidate's path, which is
    put last where there is no {}. A candidate shows the fault where CMD ends with a status other than 0, a crash
    included; 125 says that it cannot be judged, and one that takes too long is stopped: such candidates are not taken.
    The model itself must show it.

    Nodes go from the outputs, from the inputs, then anywhere. A tensor of theirs that others read is computed once,
    from inputs that are given or made up, and becomes an input of its type and shape, or a constant. Every step is
    written at once, so that the best so far stays whatever happens; Ctrl-C ends the search. The model itself is never
    written.

    \b
    Example:
      anydml reduce examples/models/crop.onnx --fails "anydml compare {}" --says "does not agree"
    """
    from anydml.onnx import reductions
    from anydml.onnx.tools.report import inputs_of

    if not is_onnx(model):
        raise click.BadParameter("must be an ONNX model, *.onnx.", param_hint="'MODEL'")
    target = str(model.with_suffix(".reduced.onnx")) if output is None else output
    keep_model(model, output=target)
    judge, given = _Command(command, timeout, says), Given(inputs, sizes, seed, max_memory)
    arrays, last = given.arrays(lambda: inputs_of(model)), ""
    found = reductions(model, judge, arrays, shapes=given.shapes(), seed=seed or 0, max_memory=max_memory)
    with contextlib.closing(found):
        try:
            for one in found:
                write_bytes(target, one.model.SerializeToString(), "--output")
                last = str(one)
                click.echo(last, err=True)
        except KeyboardInterrupt:
            if last:
                click.echo(f"Interrupted: the best so far has {last}; written to '{printable(target)}'")
            raise
    click.echo(f"Reduced to {last}; written to '{printable(target)}'")

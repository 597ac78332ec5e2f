"""The program: its commands, and what becomes of an error.

Exit status: 0 done; 1 the description, model or data is at fault; 2 the command line or a file cannot be used;
3 it needs a part that is not built or not installed; 130 interrupted.
"""

from __future__ import annotations

import errno
import os
from importlib import import_module
from typing import Any

import click

import anydml
from anydml.cli.console import open_output
from anydml.cli.status import INTERRUPTED, status_of
from anydml.cli.wording import as_options
from anydml.core.enum_parsing import suggest
from anydml.core.errors import UNUSABLE, DmlError, show

COMMANDS = {
    "bench": "Measure a language model: tokens a second, time to the first, memory.",
    "cache": "Show, clear or fill the cache of compiled kernels and plans.",
    "chat": "Talk with a language model in a folder of ONNX Runtime GenAI.",
    "check": "Find every fault of DxDispatch and ONNX models.",
    "compare": "Find where an ONNX model differs from ONNX Runtime.",
    "completion": "Print the completion script of a shell.",
    "doctor": "Show versions, engines, CPU, GPUs, threads, caches and extras, and try each engine: text for a report.",
    "engines": "List the engines and devices of this machine, and the packages that a missing one needs.",
    "examples": "Write the example models into a folder, by default examples/models.",
    "explain": "Show the work of an operator or a model as a picture.",
    "explore": "Explore operators and models on a page of a local server.",
    "export": "Write an ONNX model as a page that runs it in any browser with WebGPU.",
    "reduce": "Cut an ONNX model down to the part that shows a fault.",
    "run": "Run a DxDispatch or ONNX model.",
    "schema": "Write a JSON schema of DxDispatch models, so that editors complete and check them.",
    "serve": "Serve a language model to OpenAI's clients.",
    "support": "List the operators, and the types and dimensions that each takes.",
}
"""Each command's first sentence: the list of commands imports none of them, which would take two fifths of its time."""
_ELSEWHERE = {
    "explore": "anydml.explore.command",
    **dict.fromkeys(("bench", "chat", "serve"), "anydml.cli.language_models"),
}
"""Modules of commands whose names are not theirs."""


class _Failure(click.ClickException):
    """An error of ours as click tells it: one message on stderr, and the exit status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.exit_code = status  # type: ignore[misc]  # click's own subclasses have one each


class _App(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            if ctx.resilient_parsing:  # a shell that completes: no place for an error
                return None
            is_model = cmd_name.lower().endswith((".json", ".onnx"))
            hint = f"write `anydml run {show(cmd_name)[1:-1]}`" if is_model else suggest(cmd_name, COMMANDS)
            if cmd_name == "help":
                hint = "write `anydml --help`"
            ctx.fail(f"No such command {show(cmd_name)}{'; ' if hint else '.'}{hint}")
        found: click.Command = getattr(import_module(_ELSEWHERE.get(cmd_name, f"anydml.cli.{cmd_name}")), cmd_name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """List the commands with their first sentences, which are wrapped and not cut."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DmlError as error:
            raise _Failure(as_options(str(error)), status_of(error)) from error
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # click ends quietly
            message = f"the output could not be written ({error.strerror or error})"
            raise _Failure(message, UNUSABLE) from error


@click.group(
    cls=_App,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 done, 1 the description or model is at fault, 2 the command line or a file cannot be used, "
    "3 it needs a part that is not built or not installed.",
)
@click.version_option(anydml.__version__, "-V", "--version", prog_name="anydml")
def app() -> None:
    """DirectML's operators on any machine: run, check and explain DxDispatch models, ONNX models and operators.

    \b
    First steps, in any folder:
      anydml explain slice1                     draw the work of an operator
      anydml examples                           write example models into examples/models
      anydml run examples/models/slice1.json    run a DxDispatch model
      anydml check examples/models/slice1.json  find the faults of a model
      anydml doctor                             show what works on this machine

    \b
    ONNX models need one more package, pip install 'anydml[onnx]':
      anydml run examples/models/crop.onnx
      anydml explain examples/models/crop.onnx
    """


def main() -> None:
    """Run the program."""
    open_output()
    if os.environ.get("_ANYDML_COMPLETE", "").startswith("powershell"):
        import anydml.cli.completion  # noqa: F401 - click does not have this shell: the module adds it
    app(prog_name="anydml")

"""The program: its commands, and what becomes of an error.

Exit status: 0 done; 1 the description, model or data is at fault; 2 the command line or a file cannot be used;
3 it needs something that is not here; 130 interrupted.
"""

from __future__ import annotations

import errno
from typing import Any

import click

import anydml
from anydml.cli.check import check
from anydml.cli.compare import compare
from anydml.cli.console import open_output
from anydml.cli.engines import engines
from anydml.cli.explain import explain
from anydml.cli.reduce import reduce
from anydml.cli.run import run
from anydml.cli.support import support
from anydml.errors import DmlError, EngineMissingError, ModelFileError, UnsupportedError

INTERRUPTED = 130
"""128 and the number of SIGINT, as shells have it: 1 is a model's fault."""


class _AtFault(click.ClickException):
    exit_code = 1


class _Unusable(click.ClickException):
    exit_code = 2


class _Missing(click.ClickException):
    exit_code = 3


def _failure(error: DmlError) -> click.ClickException:
    """An error of ours as click tells it: one message on stderr, and the exit status."""
    if isinstance(error, ModelFileError):
        return _Unusable(str(error))
    return (_Missing if isinstance(error, (EngineMissingError, UnsupportedError)) else _AtFault)(str(error))


class _App(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DmlError as error:
            raise _failure(error) from error
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # click ends quietly
            raise _Unusable(f"the output could not be written ({error.strerror or error})") from error


@click.group(
    cls=_App,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 done, 1 the description or model is at fault, 2 the command line or a file cannot be used, "
    "3 it needs something that is not here.",
)
@click.version_option(anydml.__version__, prog_name="anydml")
def app() -> None:
    """DirectML's operators on any machine."""


for command in (run, check, compare, reduce, explain, support, engines):
    app.add_command(command)


def main() -> None:
    """Run the program."""
    open_output()
    app(prog_name="anydml")

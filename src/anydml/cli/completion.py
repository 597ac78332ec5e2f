"""`anydml completion`: a script that makes a shell complete commands, options, operators and levels."""

from __future__ import annotations

import click

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    For bash put `eval "$(anydml completion bash)"` into ~/.bashrc, for zsh the same with zsh into ~/.zshrc; for fish
    write the script to ~/.config/fish/completions/anydml.fish.

    \b
    Example:
      anydml completion bash
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - for type checkers: click has these three
    maker = kind(ctx.find_root().command, {}, "anydml", "_ANYDML_COMPLETE")
    # `source` would start the shell to ask for its version, which need not be installed here.
    click.echo(maker.source_template % maker.source_vars())

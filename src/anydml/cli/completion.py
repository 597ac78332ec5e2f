"""`anydml completion`: a script that makes a shell complete commands, options, operators and levels."""

from __future__ import annotations

import click

_SHELLS = ("bash", "zsh", "fish")
_MENDED = {
    # A ~/.zshrc without compinit has no compdef.
    "zsh": ("    compdef ", "    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n    compdef "),
    # A description ends at its first comma otherwise.
    "fish": ('string split ","', 'string split --max 1 ","'),
}
"""A part of click's script for a shell, and its replacement."""


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
    click.echo((maker.source_template % maker.source_vars()).replace(*_MENDED.get(shell, ("", ""))))

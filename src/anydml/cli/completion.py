"""`anydml completion`: a script that makes a shell complete commands, options, operators and levels."""

from __future__ import annotations

import os

import click
from click.shell_completion import CompletionItem, ShellComplete, add_completion_class, get_completion_class

_SHELLS = ("bash", "zsh", "fish", "powershell")
_MENDED = {
    # A ~/.zshrc without compinit has no compdef.
    "zsh": ("    compdef ", "    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n    compdef "),
    # A description ends at its first comma otherwise.
    "fish": ('string split ","', 'string split --max 1 ","'),
}
"""A part of click's script for a shell, and its replacement."""
_POWERSHELL = """\
Register-ArgumentCompleter -Native -CommandName %(prog_name)s, %(prog_name)s.exe -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements |
        Where-Object { $_.Extent.EndOffset -lt $cursorPosition } |
        ForEach-Object { if ($null -ne $_.Value) { [string]$_.Value } else { $_.Extent.Text } })
    try {
        $env:%(complete_var)s = 'powershell_complete'
        $env:COMP_WORDS = $words -join "`n"
        $env:COMP_WORD = $wordToComplete
        & %(prog_name)s 2>$null | ForEach-Object {
            $kind, $value, $help = $_ -split "`t", 3
            if ($kind -ne 'plain') {
                [System.Management.Automation.CompletionCompleters]::CompleteFilename($wordToComplete)
            } else {
                [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $help)
            }
        }
    } finally {
        Remove-Item Env:%(complete_var)s, Env:COMP_WORDS, Env:COMP_WORD -ErrorAction SilentlyContinue
    }
}
"""


class PowerShellComplete(ShellComplete):
    """Completion for PowerShell 5 and later, which click does not have: a line holds kind, value and help."""

    name = "powershell"
    source_template = _POWERSHELL

    def get_completion_args(self) -> tuple[list[str], str]:
        """The complete words after the program's name, and the word at the cursor."""
        return os.environ.get("COMP_WORDS", "").split("\n")[1:], os.environ.get("COMP_WORD", "")

    def format_completion(self, item: CompletionItem) -> str:
        """A line of PowerShell's; its tooltips must not be empty."""
        return f"{item.type}\t{item.value}\t{' '.join((item.help or str(item.value)).split())}"


add_completion_class(PowerShellComplete)


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    For bash put `eval "$(anydml completion bash)"` into ~/.bashrc, for zsh the same with zsh into ~/.zshrc; for fish
    write the script to ~/.config/fish/completions/anydml.fish; for PowerShell put
    `anydml completion powershell | Out-String | Invoke-Expression` into $PROFILE.

    \b
    Example:
      anydml completion bash
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - for type checkers: click has the first three
    maker = kind(ctx.find_root().command, {}, "anydml", "_ANYDML_COMPLETE")
    # `source` would start the shell to ask for its version, which need not be installed here.
    click.echo((maker.source_template % maker.source_vars()).replace(*_MENDED.get(shell, ("", ""))))

"""`pgdyno completion`: the script that lets a shell complete verbs, flags, knobs, rules and studies."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from pgdyno.cli.arguments.completing import VARIABLE
from pgdyno.errors import ExitCode

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> int:
    """Print the script that completes pgdyno in SHELL: verbs, flags and their values, files, knobs, rules, studies.

    Keep it where your shell looks, and open a new one:

    \b
    bash  pgdyno completion bash > ~/.local/share/bash-completion/completions/pgdyno
    zsh   pgdyno completion zsh > "${fpath[1]}/_pgdyno"
    fish  pgdyno completion fish > ~/.config/fish/completions/pgdyno.fish

    bash needs the package bash-completion for that; eval "$(pgdyno completion bash)" in ~/.bashrc needs nothing.
    """
    found = get_completion_class(shell)
    assert found is not None, f"click knows {shell}"
    made = found(click.Command("pgdyno"), {}, "pgdyno", VARIABLE)
    click.echo(made.source_template % made.source_vars())  # as source(), which runs the bash that it finds
    return int(ExitCode.OK)

"""`tenure completion`."""

import click

from tenure.cli.output import CommandOutput, with_output
from tenure.cli.program import COMPLETION_VARIABLE


@click.command(short_help="Print the completion script for your shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@with_output
@click.pass_context
def completion(context: click.Context, output: CommandOutput, shell: str) -> None:
    """Print a script that completes commands and options of tenure in your shell.

    \b
    Examples:
      tenure completion bash > ~/.local/share/bash-completion/completions/tenure
      tenure completion zsh > ~/.zfunc/_tenure
      tenure completion fish > ~/.config/fish/completions/tenure.fish
    """
    from click.shell_completion import BashComplete, get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell!r}")
    root = context.find_root()
    made = kind(root.command, {}, "tenure", COMPLETION_VARIABLE)
    # Not `source()`: click would run bash to get its version, and bash may not be installed.
    script = made.source_template % made.source_vars() if isinstance(made, BashComplete) else made.source()
    if output.is_json:
        output.print_record({"shell": shell, "script": script})
    else:
        click.echo(script)


COMMANDS = {"completion": completion}

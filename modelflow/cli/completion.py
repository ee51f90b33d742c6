"""``modelflow completion``: the shell's completion script."""

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Prints the script that completes modelflow's commands and options in a shell.

    \b
    modelflow completion bash >> ~/.bashrc
    """
    root = context.find_root()
    found = get_completion_class(shell)
    assert found is not None  # click knows the three shells that the argument takes
    click.echo(found(root.command, {}, "modelflow", "_MODELFLOW_COMPLETE").source())
    return 0

"""The command ``modelflow completion``: prints the completion script of a shell."""

import click
from click.shell_completion import get_completion_class

from modelflow.cli.options.parameters import Choice
from modelflow.signals import ExitCode

# Bash must add no blank after "input=" and "photos/", because more text follows.
_END = "    return 0\n"
_OPEN = """    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=./] ]]; then
        compopt -o nospace
    fi

"""


@click.command()
@click.argument("shell", type=Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Prints the script that completes modelflow in a shell. It completes commands, options, graphs
    with their nodes, ports and attributes, and units.

    \b
    modelflow completion bash >> ~/.bashrc
    """
    root = context.find_root()
    found = get_completion_class(shell)
    assert found is not None  # click supports the three shells that the argument accepts
    script = found(root.command, {}, "modelflow", "_MODELFLOW_COMPLETE").source()
    click.echo(script.replace(_END, _OPEN + _END) if shell == "bash" else script)
    return ExitCode.OK

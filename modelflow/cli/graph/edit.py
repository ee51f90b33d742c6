"""The command ``modelflow edit``: edits a graph file as a picture in the browser."""

import contextlib
import sys
from pathlib import Path

import click

from modelflow.cli.terminal.listening import show_until_the_end, split_address
from modelflow.errors import explain_os_error


@click.command()
@click.argument("graph", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--listen",
    default="127.0.0.1:0",
    metavar="[HOST:]PORT",
    help="The address of the pages. Port 0: any free port.",
)
@click.option("--no-browser", is_flag=True, help="Print the address, but open no browser.")
def edit(graph: Path, listen: str, no_browser: bool) -> int:
    """Edits a graph file in the browser: its picture, its units' options, its text, its mistakes.

    GRAPH is a TOML or DOT file. If GRAPH does not exist, you choose a graph to begin with, and the
    first save makes the file. You can also run the graph on samples. Saving changes the edited
    lines only. It is refused if another program has changed the file in the meantime. Ctrl-C ends
    the editor.

    \b
    modelflow edit graph.toml
    modelflow edit new.toml --no-browser --listen 8000
    """
    from modelflow.graph.files import look_beside
    from modelflow.studio.edit.editor import Editor

    sys.dont_write_bytecode = True  # cached bytecode is checked against whole seconds only
    host, port = split_address("--listen", listen)
    look_beside(graph)
    with contextlib.ExitStack() as stack:
        with explain_os_error(f"--listen {listen}: cannot listen there"):
            editor = stack.enter_context(Editor(graph, host, port))
        return show_until_the_end("editor", editor.url, is_opened=not no_browser)

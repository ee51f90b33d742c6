"""``modelflow graphs``: the graphs that come with modelflow."""

import json
from pathlib import Path

import click

from modelflow.exit_code import ExitCode

__all__ = ["graphs"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def graphs(as_json: bool) -> int:
    """Lists the graphs that come with modelflow; their names stand for their files everywhere.

    \b
    modelflow graphs
    modelflow run digits
    modelflow draw video_boxes
    """
    from modelflow.config.find import named_graphs, ready_graphs

    found = {
        name: (path, _description(path)) for name, path in named_graphs(ready_graphs()).items()
    }
    if as_json:
        rows = [
            {"name": name, "path": str(path), "description": text}
            for name, (path, text) in found.items()
        ]
        click.echo(json.dumps(rows, indent=2))
        return ExitCode.OK
    width = max(map(len, found), default=0)
    for name, (_, text) in found.items():
        click.echo(f"{click.style(f'{name:{width}}', bold=True)}  {text}".rstrip())
    return ExitCode.OK


def _description(path: Path) -> str:
    """What a graph file says of itself: ``[flow] desc``, or its first comment."""
    from modelflow.config.read import read_config

    said = read_config(path).flow.get("desc")
    if said:
        return str(said)
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = []
    for line in lines:
        if not line.startswith("#") or not line.strip("# "):
            break
        comment.append(line.strip("# "))
    return " ".join(comment)

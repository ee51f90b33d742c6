"""Graphs to begin with: each is whole, and of built-in units alone."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from modelflow.errors import ConfigError, did_you_mean
from modelflow.starters.written import check_name, written

__all__ = ["GRAPHS", "GraphStarter", "dot_text", "graph_text", "new_graph"]


class GraphStarter(NamedTuple):
    """A graph to begin with.

    Attributes:
        about: What it does, in a sentence.
        run: The options with which it runs.
        dot: Its nodes and edges.
    """

    about: str
    run: str
    dot: str


GRAPHS: Mapping[str, GraphStarter] = MappingProxyType(
    {
        "empty": GraphStarter(
            "Gives what it gets.",
            "--input 'input=*.txt'",
            """    input[type=input]
    output[type=output]

    input -> output
""",
        ),
        "images": GraphStarter(
            "Decodes images and makes them small.",
            "--input 'input=*.jpg' --output output=out/",
            """    queue_size = 32
    input[type=input]
    decode[flowunit=image_decoder]
    resize[flowunit=resize, image_width=224, image_height=224]
    encode[flowunit=image_encoder, format=jpeg]
    output[type=output]

    input -> decode -> resize -> encode -> output
""",
        ),
        "files": GraphStarter(
            "Makes the pictures of a folder small, and writes them into another.",
            "",
            """    files[flowunit=file_source, path="photos/*.jpg"]
    decode[flowunit=image_decoder]
    resize[flowunit=resize, image_width=128, image_height=128, keep_ratio=true]
    encode[flowunit=image_encoder, format=jpeg]
    save[flowunit=file_sink, path="thumbnails/{stem}.jpg"]

    files -> decode -> resize -> encode -> save
""",
        ),
        "http": GraphStarter(
            "Answers pictures that are sent over HTTP with small ones.",
            "",
            """    receive[flowunit=httpserver_sync_receive, endpoint="http://127.0.0.1:8080/"]
    decode[flowunit=image_decoder]
    resize[flowunit=resize, image_width=224, image_height=224]
    encode[flowunit=image_encoder, format=jpeg]
    reply[flowunit=httpserver_sync_reply]

    receive -> decode -> resize -> encode -> reply
""",
        ),
        "video": GraphStarter(
            "Makes the frames of a video small, and writes it anew.",
            "",
            """    video[flowunit=video_input, source_url="in.mp4"]
    demux[flowunit=video_demuxer]
    decode[flowunit=video_decoder]
    resize[flowunit=resize, image_width=320, image_height=240]
    encode[flowunit=video_encoder, default_dest_url="out.mp4"]

    video -> demux -> decode -> resize -> encode
""",
        ),
    }
)
"""By name. What they need beside modelflow itself ``modelflow check`` says."""

_TOML = """\
# modelflow check {name}.toml
# modelflow run {name}.toml{run}
[flow]
name = "{name}"
desc = "{about}"

# [driver]
# dir = ["units"]            # folders of your own flow units

[graph]
format = "graphviz"
graphconf = '''{dot}'''
"""


def _starter(starter: str) -> GraphStarter:
    found = GRAPHS.get(starter)
    if found is None:
        near = did_you_mean(starter, GRAPHS)
        message = f"template: got {starter!r}{near}; expected one of {', '.join(GRAPHS)}"
        raise ConfigError(message)
    return found


def dot_text(name: str, starter: str) -> str:
    """Returns a graph to begin with as DOT.

    Raises:
        ConfigError: there is no such one.
    """
    return f"digraph {name} {{\n{_starter(starter).dot}}}"


def graph_text(name: str, starter: str) -> str:
    """Returns a graph to begin with as TOML.

    Raises:
        ConfigError: there is no such one.
    """
    found = _starter(starter)
    run = f" {found.run}" if found.run else ""
    return _TOML.format(name=name, run=run, about=found.about, dot=dot_text(name, starter))


def new_graph(name: str, folder: Path, starter: str = "images") -> list[Path]:
    """Writes a working graph, ``folder/name.toml``.

    Args:
        name: Lower-case letters, digits and ``_``.
        folder: Where to.
        starter: One of `GRAPHS`.

    Returns:
        The file written.

    Raises:
        ConfigError: a bad name, no such graph, or a file of that name is there.
    """
    check_name(name)
    return written({folder / f"{name}.toml": graph_text(name, starter)})

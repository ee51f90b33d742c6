"""Lays out an application: a folder of units, each with its TOML, and a graph."""

import socket
import textwrap

import modelflow.compat.modelbox as modelbox

UNIT = """
# Copyright of somebody
[base]
name = "{name}" # The FlowUnit name
device = "cpu" # The flowunit runs on cpu
version = "1.0.0" # The version of the flowunit
description = "description" # The description of the flowunit
entry = "{name}@{cls}" # Python flowunit entry function
type = "python" # Fixed value

# Flowunit Type
stream = {stream} # Whether the flowunit is a stream flowunit
condition  = {condition} # Whether the flowunit is a condition flowunit
collapse = {collapse} # Whether the flowunit is a collapse flowunit
collapse_all = {collapse} # Whether the flowunit will collapse all the data
expand = {expand} #  Whether the flowunit is a expand flowunit

# The default Flowunit config
[config]
item = "value"

"""


def write_unit(folder, name, cls, code, inputs, outputs, **kinds):
    """Writes ``folder/NAME/NAME.toml`` and ``NAME.py``."""
    place = folder / name
    place.mkdir(parents=True)
    names = ("stream", "condition", "collapse", "expand")
    said = {key: str(bool(kinds.get(key))).lower() for key in names}
    text = UNIT.format(name=name, cls=cls, **said)
    for side, ports in (("input", inputs), ("output", outputs)):
        text += f"[{side}]\n"
        for number, port in enumerate(ports, 1):
            text += f'[{side}.{side}{number}] # port {number}\nname = "{port}"\ntype = "string"\n'
    (place / f"{name}.toml").write_text(text)
    (place / f"{name}.py").write_text("import _flowunit as modelbox\n" + textwrap.dedent(code))


def write_graph(folder, dot):
    """Writes ``folder/graph/demo.toml``; returns its path."""
    path = folder / "graph" / "demo.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"""[driver]
dir = [
    "{folder}/flowunit",
    "{folder}/model",
    "/usr/local/lib"
]
skip-default = false
[profile]
profile=false
trace=false
dir=""
[flow]
name = "demo"
desc = "an application"
[graph]
format = "graphviz"
graphconf = '''digraph demo {{
    node [shape=Mrecord]
    queue_size = 4
    batch_size = 1
{textwrap.indent(textwrap.dedent(dot), "    ")}
}}'''
"""
    )
    return path


def free_port():
    """Returns a port at which no process listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def started(path):
    """Returns the running flow of a graph."""
    flow = modelbox.Flow()
    status = flow.init(str(path))
    assert status, str(status)
    status = flow.start_run()
    assert status, str(status)
    return flow

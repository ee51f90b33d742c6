"""Models that hang or end their process on a file's or a request's command."""

import http.client
import json
import time

from tests.programs import LIMIT
from tests.serve.processes.server_processes import PAUSE

GRAPH = """digraph %(name)s {
    input [type=input]
    unit [flowunit="foreign_units:%(unit)s"]
    output [type=output]
    input -> unit -> output
}"""
UNITS = '''
"""A file of the model's name says what its load does; a request, what happens to it."""

import multiprocessing
import os
import pathlib
import signal
import threading

import modelflow


def act(what):
    if what == "hang":
        threading.Event().wait()
    elif what == "abort":
        os.abort()
    elif what == "exit":
        os._exit(3)
    elif what == "leave":
        raise SystemExit(5)
    elif what == "raise":
        raise ValueError("bad weights")
    elif what == "memory":
        bytearray(1 << 50)
    elif what == "compute":
        pathlib.Path("computes").touch()
        sum(range(10**15))
    elif what == "fork":
        end_a_child()
        child = os.fork()
        if not child:
            signal.pause()
        with open("forked", "a") as forked:
            forked.write(f"{child} ")


def end_a_child():
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    child = context.Process(target=lambda: (ready.set(), signal.pause()))
    child.start()
    ready.wait()
    child.terminate()
    child.join()


class Loads(modelflow.FlowUnit):
    SPEC = modelflow.FlowUnitSpec(
        "Loads",
        {"cpu": lambda: Loads()},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
    )

    def open(self, config):
        act(pathlib.Path("load").read_text() if os.path.exists("load") else "")

    def process(self, ctx):
        ctx.emit_each(lambda buffer: buffer.data)


@modelflow.flowunit
def works(text):
    act(text)
    return text.upper()
'''


def write_models(folder, load="", **units):
    """Writes graphs, for example ``good="works"``; returns the folder."""
    (folder / "foreign_units.py").write_text(UNITS)
    (folder / "load").write_text(load)
    for name, unit in units.items():
        (folder / f"{name}.dot").write_text(GRAPH % {"name": name, "unit": unit})
    return folder


def ask(replica_group, name, text, headers=None):
    """Returns status and document; status 0 means that the connection was lost."""
    connection = replica_group.connect()
    try:
        body = json.dumps({"input": text})
        connection.request("POST", f"/v2/models/{name}/generate", body, headers or {})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    except (OSError, http.client.HTTPException):
        return 0, None
    finally:
        connection.close()


def ask_until(replica_group, status, name, text):
    """Sends requests until the status appears while a process is replaced; returns the document."""
    end = time.monotonic() + LIMIT
    while (found := ask(replica_group, name, text))[0] != status:
        assert found[0] in (0, 404, 503), found
        assert time.monotonic() < end, (found, "".join(replica_group.said))
        time.sleep(PAUSE)
    return found[1]

"""Tests of loads that hang: their effects, and the messages when they return."""

import itertools
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from modelflow.serve.server import ServeOptions, Server
from tests.serve.clients import ask
from tests.serve.processes.server_processes import wait_until

# Longer than the stalls of this process on a busy machine.
_SECONDS = 3.0
_GIVEN_UP = f"it was not loaded within {_SECONDS:g} s (--load-timeout)"

GRAPH = """digraph g {
    input [type=input]
    unit [flowunit="%s:Held", threads=1]
    output [type=output]
    input -> unit -> output
}"""

# `open` waits while the file that `hold` names exists. It calls only functions written in C,
# because then the line where it waits is always one of its own lines.
UNITS = """
import os
import time
from pathlib import Path

import modelflow

HERE = Path(__file__).parent

class Held(modelflow.FlowUnit):
    SPEC = modelflow.FlowUnitSpec(
        "Held",
        {"cpu": lambda: Held()},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
    )

    def open(self, config):
        name = (HERE / "hold").read_text()
        (HERE / f"opened {name}").touch()
        held = f"{HERE}/{name}"
        while name and os.access(held, os.F_OK):
            time.sleep(0.002)

    def process(self, ctx):
        ctx.emit([buffer.data for buffer in ctx.inputs["in"]])
"""


class Holding:
    """A served model whose loads can be blocked."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self.server = folder, server

    def hold(self, name: str) -> None:
        """Makes later loads wait until `release`; with an empty name, they do not wait."""
        if name:
            (self.folder / name).touch()
        (self.folder / "hold").write_text(name)

    def release(self, name: str) -> None:
        (self.folder / name).unlink()

    def load(self) -> tuple[int, str]:
        status, found, _ = ask(self.server, "/v2/repository/models/m/load", {})
        return status, found["error"] if found else ""

    def unload(self) -> None:
        assert ask(self.server, "/v2/repository/models/m/unload", {})[0] == 200


@pytest.fixture
def holding(tmp_path, monkeypatch):
    monkeypatch.setattr("modelflow.serve.repository.loader._LAST_OF_FLOW", 0.05)
    module = f"units_of_{tmp_path.name}"  # an imported module is not read again
    (tmp_path / f"{module}.py").write_text(UNITS)
    (tmp_path / "m.dot").write_text(GRAPH % module)
    (tmp_path / "hold").write_text("")
    options = ServeOptions(http_port=0, load_timeout=_SECONDS, is_repository_open=True)
    with Server({"m": tmp_path / "m.dot"}, options) as server:
        yield Holding(tmp_path, server)
        for path in tmp_path.glob("held *"):
            path.unlink()
        wait_until(lambda: not server._loader._loading)  # loads that were given up are about to end


def test_a_version_of_which_loads_hang_is_loaded_again_when_one_of_them_has_come_back(holding):
    for number in range(3):
        holding.hold(f"held {number}")
        status, error = holding.load()
        assert (status, _GIVEN_UP in error) == (400, True)
    holding.hold("")
    status, error = holding.load()
    assert status == 400
    assert (
        "3 loads of model 'm', version 1 were given up (--load-timeout) and still hang, " in error
    )
    assert "the last one: node 'unit' has been in open for " in error
    assert "units_of_" in error
    assert error.endswith(
        ". The version is not loaded again before one of them ends. Mend the model, then restart "
        "the server, or give the model its own process (--isolate m)"
    )
    holding.release("held 1")
    wait_until(lambda: holding.load()[0] == 200)


def test_what_comes_late_of_a_load_that_was_given_up_is_not_the_end_of_another(holding, caplog):
    caplog.set_level(logging.DEBUG, "modelflow.serve")
    holding.hold("held 0")
    assert holding.load()[0] == 400
    holding.hold("")
    assert holding.load() == (200, "")
    holding.unload()
    loader = holding.server._loader  # loads that were given up end as far as they can
    wait_until(
        lambda: (
            not loader._flows and not any("load" in work.thread.name for work in [*loader._works])
        )
    )
    found = ask(holding.server, "/v2/repository/index", {})[1]
    assert [row["reason"] for row in found if row["name"] == "m"] in ([], [""])
    assert "failed in open: did not return" not in caplog.text


def test_a_load_that_hangs_is_given_up_though_the_model_was_unloaded_meanwhile(holding, caplog):
    holding.unload()  # else the model stays loaded while another is loaded
    with ThreadPoolExecutor() as pool:
        for number in itertools.count():
            holding.hold(f"held {number}")
            loading = pool.submit(holding.load)
            wait_until((holding.folder / f"opened held {number}").exists)
            holding.unload()
            if _GIVEN_UP not in loading.result()[1]:
                break  # else the model was unloaded too late, because this process had stalled
    told = "version 1: a load that is no longer wanted is given up: "
    wait_until(lambda: told in caplog.text)
    hanging = holding.server._loader.list_hanging(("m", 1))
    assert len(hanging) == number + 1
    assert hanging[-1].startswith("node 'unit' has been in open for ")

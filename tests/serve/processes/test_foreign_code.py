"""Tests of models that hang or end their process, in each kind of server, and of other clients."""

import os
import signal
import threading

import pytest

from tests import programs
from tests.serve.processes.faulty_models import ask, ask_until, write_models
from tests.serve.processes.server_processes import (
    serving,
    wait_until,
    wait_until_closed,
    wait_until_ended,
)

KINDS = {
    "alone": {"option": "--drain-delay", "count": 0},
    "replicas": {"option": "--replicas", "count": 2},
    "workers": {"option": "--workers", "count": 2},
}
SEVERAL = [kind for kind in KINDS if kind != "alone"]
YES = (200, {"output": "YES"})


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture(params=SEVERAL)
def several(request):
    return KINDS[request.param]


def unready(replica_group):
    return (replica_group.ask("/readyz")[1] or {}).get("error", "")


def test_what_hangs_is_given_up_and_holds_up_neither_others_nor_the_end(tmp_path, kind):
    write_models(tmp_path, "hang", good="works", bad="Loads", bad2="Loads")
    more = ("--load-timeout", "0.3", "--allow-repository", "--drain-timeout", "1")
    graphs = ("good.dot", "bad.dot", "bad2.dot")
    with serving(tmp_path, *graphs, *more, **kind) as replica_group:
        children = replica_group.children()
        assert ask(replica_group, "good", "yes") == YES
        assert "model 'bad2': version 1: it was not loaded within 0.3 s" in unready(replica_group)
        assert "node 'unit' has been in open for " in unready(replica_group)
        assert replica_group.ask("/livez")[0] == 200
        (tmp_path / "load").write_text("")
        for name in ("bad", "bad2"):
            assert replica_group.ask(f"/v2/repository/models/{name}/load", {})[0] == 200
        assert replica_group.ask("/readyz")[0] == 200
        (tmp_path / "load").write_text("hang")
        status, found = replica_group.ask("/v2/repository/models/bad/load", {})
        assert (status, "it was not loaded within 0.3 s" in found["error"]) == (400, True)
        as_before = "it serves as before"
        assert ask(replica_group, "bad", as_before) == (200, {"output": as_before})

        for _ in range(2):
            status, found = ask(replica_group, "good", "hang", {"Inference-Timeout-Ms": "100"})
            assert (status, found["error"]) == (504, "its deadline passed before it was computed")
        assert replica_group.ask("/livez")[0] == 200
        code = replica_group.end(signal.SIGTERM)
        wait_until_ended(children)
        assert code == (1 if kind is KINDS["alone"] else 143)
        said = "".join(replica_group.said)
        assert "did not return within " in said or "is killed" in said


def test_all_end_with_their_supervisor_though_one_keeps_the_interpreter_busy(tmp_path, several):
    write_models(tmp_path, m="works")
    with serving(tmp_path, "m.dot", **several) as replica_group:
        children = replica_group.children()
        asking = threading.Thread(target=ask, args=(replica_group, "m", "compute"))
        asking.start()
        wait_until(lambda: (tmp_path / "computes").exists())
        replica_group.process.kill()
        wait_until_ended(children)
        asking.join()


def test_a_unit_ends_nothing_by_an_exception_or_a_fork(tmp_path, kind):
    write_models(tmp_path, m="works")
    with serving(tmp_path, "m.dot", **kind) as replica_group:
        children = replica_group.children()
        for what in ("leave", "raise", "memory"):
            assert ask(replica_group, "m", what)[0] in (400, 500)
        for _ in range(4):
            assert ask(replica_group, "m", "fork")[0] == 200
        assert ask(replica_group, "m", "yes") == YES
        assert replica_group.children() == children
        replica_group.process.send_signal(signal.SIGTERM)
        assert replica_group.process.wait(programs.LIMIT) == 143
        wait_until_closed(replica_group)
        left = [int(one) for one in (tmp_path / "forked").read_text().split()]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        wait_until_ended(left)


@pytest.mark.parametrize(("among", "how"), [("replicas", "abort"), ("workers", "exit")])
def test_a_model_whose_load_ends_the_process_is_out_of_service_and_others_serve(
    tmp_path, among, how
):
    write_models(tmp_path, how, good="works", bad="Loads")
    graphs = ("good.dot", "bad.dot", "--allow-repository")
    with serving(tmp_path, *graphs, **KINDS[among]) as replica_group:
        assert ask_until(replica_group, 200, "good", "yes") == {"output": "YES"}
        why = "it has ended its process 2 times while it was loaded"
        assert unready(replica_group) == f"model 'bad': version 1: {why}"
        (version,) = replica_group.ask("/v1/models/bad")[1]["model_version_status"]
        assert (version["state"], version["status"]["error_message"]) == ("END", why)
        counted = replica_group.metrics()
        state = ("model", "bad"), ("state", "END"), ("version", "1")
        assert counted["modelflow_versions", *state] == 1
        deaths = [value for key, value in counted.items() if "process_deaths_total" in key[0]]
        assert sum(deaths) >= 2
        (tmp_path / "load").write_text("")
        assert replica_group.ask("/v2/repository/models/bad/load", {})[0] == 200
        assert ask(replica_group, "bad", "mended") == (200, {"output": "mended"})
        assert unready(replica_group) == ""
        assert replica_group.end(signal.SIGTERM) == 143


def test_a_request_that_ends_the_process_twice_takes_its_model_out_of_service(tmp_path, several):
    write_models(tmp_path, good="works", bad="works")
    with serving(tmp_path, "good.dot", "bad.dot", **several) as replica_group:
        for count in (1, 2):
            ask_until(replica_group, 200, "bad", "yes")
            assert ask(replica_group, "bad", "abort")[0] in (0, 503)
            # Until the process is gone, the next connection may be passed to it and be lost.
            replica_group.wait_for("Fatal Python error: Aborted", count)
        replica_group.wait_for("model 'bad', version 1, is out of service")
        why = "it has ended its process 2 times while it worked for requests"
        ask_until(replica_group, 200, "good", "yes")
        wait_until(lambda: why in unready(replica_group))
        assert ask_until(replica_group, 404, "bad", "yes")["error"].startswith("Servable not found")
        said = "".join(replica_group.said)
        assert "Fatal Python error: Aborted" in said  # and its position
        assert "foreign_units.py" in said
        assert replica_group.end(signal.SIGTERM) == 143


ISOLATED = {
    "one": ("good.dot", "bad.toml", "other.dot", "broken.toml", "--isolate", "other"),
    "replicas": ("good.dot", "bad.dot", "other.dot", "--isolate", "other", "--isolate", "good"),
    "workers": ("good.dot", "bad.dot", "other.dot", "--isolate", "other"),
}
"""The models with isolated processes, by their graph or an option; with replicas, all models."""


@pytest.mark.parametrize("among", ISOLATED)
def test_an_isolated_model_ends_no_process_but_its_own(tmp_path, among):
    write_models(tmp_path, good="works", bad="works", other="works")
    graph = (tmp_path / "bad.dot").read_text()
    isolated = "[serve]\nisolate = true\n"
    (tmp_path / "bad.toml").write_text(f"{isolated}[graph]\ngraphconf = '''{graph}'''")
    (tmp_path / "broken.toml").write_text(f"{isolated}[[nodes]]")
    own = () if among == "one" else ("--isolate", "bad")
    kind = KINDS["alone" if among == "one" else among]
    arguments = (*ISOLATED[among], *own, "--allow-repository")
    with serving(tmp_path, *arguments, **kind) as replica_group:
        for name in ("good", "bad", "other"):
            assert ask_until(replica_group, 200, name, "yes") == YES[1]
        # The model is loaded and unloaded like any other.
        assert replica_group.ask("/v2/repository/models/bad/unload", {})[0] == 200
        assert ask(replica_group, "bad", "yes")[0] == 404
        assert ask(replica_group, "good", "yes") == YES
        assert replica_group.ask("/v2/repository/models/bad/load", {})[0] == 200
        assert ask(replica_group, "bad", "yes") == YES
        rows = replica_group.ask("/v2/repository/index", {})[1]
        index = {one["name"]: one["state"] for one in rows if one["name"] != "broken"}
        assert index == {"good": "READY", "bad": "READY", "other": "READY"}
        figures = replica_group.metrics()
        ok = ("code", "OK"), ("model", "good"), ("version", "1")
        assert figures["modelflow_requests_total", *ok] == 2
        deaths = {key[1]: value for key, value in figures.items() if "deaths_total" in key[0]}
        assert ("process", "the process of model 'bad'") in deaths
        assert not any(deaths.values())

        before = replica_group.children()
        for _ in range(2):
            ask_until(replica_group, 200, "bad", "yes")
            assert ask(replica_group, "bad", "abort")[0] == 503
            assert ask(replica_group, "good", "yes") == YES
        replica_group.wait_for("model 'bad', version 1, is out of service")
        assert ask_until(replica_group, 404, "bad", "yes")
        assert ask(replica_group, "good", "yes") == ask(replica_group, "other", "yes") == YES
        assert "model 'bad': version 1: it has ended its process 2 times" in unready(replica_group)
        after = replica_group.children()
        assert len(set(before) & set(after)) == len(before) - 1  # all but its own process
        assert replica_group.end(signal.SIGTERM) == 143


def test_replicas_that_are_killed_from_outside_blame_no_model(tmp_path):
    """Tests that clients are asked to retry while no replica is alive."""
    write_models(tmp_path, m="works")
    with serving(tmp_path, "m.dot", **KINDS["replicas"]) as replica_group:
        for count in (2, 4):  # replacements after the second death come after a pause
            wait_until(lambda: len(replica_group.children()) == 2)
            for child in replica_group.children():
                os.kill(child, signal.SIGKILL)
            replica_group.wait_for("another takes its place", count=count)
        assert replica_group.ask("/livez")[0] == 200
        status, found = ask(replica_group, "m", "yes")
        assert status in (0, 200) or found["error"].endswith("try again")
        assert ask_until(replica_group, 200, "m", "yes") == YES[1]
        assert "out of service" not in "".join(replica_group.said)
        assert replica_group.end(signal.SIGTERM) == 143

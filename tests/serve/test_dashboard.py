"""Tests of ``/dashboard`` in the browser."""

import asyncio
import contextlib
import http.client
import itertools
import json
import threading
import types
from dataclasses import replace

import pytest

import modelflow
from modelflow.serve.http.dashboard import Dashboard
from modelflow.serve.interfaces import GroupCounts
from modelflow.serve.server import ServeOptions, Server
from modelflow.studio.history import History
from tests.browser import browsing, needs_browser
from tests.programs import LIMIT
from tests.serve.clients import TYPED, ask, mean, send


@pytest.fixture
def added(monkeypatch):
    """Makes samples short, and returns the semaphore that counts them."""
    semaphore, add = threading.Semaphore(0), History.add

    def count(*arguments):
        add(*arguments)
        semaphore.release()

    monkeypatch.setattr(History, "add", count)
    for module in ("modelflow.studio.history", "modelflow.serve.http.dashboard"):
        monkeypatch.setattr(f"{module}.SAMPLE_SECONDS", 0.02)
    return semaphore


@pytest.fixture
def server(tmp_path):
    (tmp_path / "keys").write_text("infer,metrics s3cret\ninfer other")
    graph = TYPED.format(node="batch_size=8")
    flows = {name: modelflow.Flow(graph, units=[mean]) for name in ("beta", "alpha")}
    with Server(flows, ServeOptions(http_port=0, key_file=tmp_path / "keys")) as running:
        yield running


@contextlib.contextmanager
def watched(server, path="/dashboard/events", key="s3cret"):
    client = http.client.HTTPConnection(server.address.removeprefix("http://"), timeout=LIMIT)
    with contextlib.closing(client):
        client.request("GET", path, headers={"x-api-key": key} if key else {})
        yield client.getresponse()


def events(answer):
    name = ""
    for line in answer:
        key, _, value = line.decode().rstrip("\n").partition(": ")
        if key == "event":
            name = value
        elif key == "data":
            yield name, json.loads(value)


def infer(server, model, *rows):
    document = {"instances": [list(row) for row in rows]}
    headers = {"x-api-key": "s3cret"}
    return ask(server, f"/v1/models/{model}:predict", document, headers=headers)[0]


def test_the_page_is_everybodys_and_its_events_are_not(server):
    status, headers, body = send(server, "GET", "/dashboard/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert headers["content-security-policy"].startswith("default-src 'self'")
    assert b"alpha" not in body
    assert send(server, "GET", "/dashboard")[1]["location"] == "/dashboard/"
    assert send(server, "GET", "/dashboard/app.js")[0] == 200
    opened = {"x-api-key": "s3cret"}
    assert send(server, "GET", "/dashboard/secret", headers=opened)[0] == 404
    for key, status in (("", 401), ("wrong", 401), ("other", 403)):
        with watched(server, key=key) as answer:
            assert answer.status == status


def test_the_first_model_is_shown_and_the_others_are_named(server):
    with watched(server) as answer:
        told = events(answer)
        assert next(told) == ("models", {"served": ["alpha", "beta"], "unready": {}})
        assert next(told)[0] == "picture"
        name, frame = next(told)
        assert (name, frame["nodes"][0]["node"]) == ("frame", "mean")


def test_a_model_is_shown_by_its_name_with_what_it_has_done(server):
    assert infer(server, "beta", [1.0, 3.0], [2.0, 4.0]) == 200
    with watched(server, "/dashboard/events/beta") as answer:
        frame = next(value for name, value in events(answer) if name == "frame")
    assert frame["nodes"][0]["rows"] == 2
    with watched(server, "/dashboard/events/alpha") as answer:
        frame = next(value for name, value in events(answer) if name == "frame")
    assert frame["nodes"][0]["rows"] == 0


def test_what_an_error_said_is_not_shown(server):
    assert infer(server, "alpha", [-1.0]) == 500
    with watched(server, "/dashboard/events/alpha") as answer:
        frame = next(value for name, value in events(answer) if name == "frame")
    (trouble,) = frame["troubles"]
    assert list(trouble.pop("at")) == ["ZeroDivisionError"]
    assert trouble == {
        "node": "mean",
        "count": 1,
        "kinds": {"ZeroDivisionError": 1},
        "last": "",
    }


def test_a_model_that_is_not_served_is_said_so(server):
    with watched(server, "/dashboard/events/gamma") as answer:
        told = events(answer)
        assert next(told)[0] == "models"
        assert next(told) == ("lost", "no model 'gamma' is served")


@needs_browser
def test_a_model_that_is_not_ready_is_named_with_the_reason(tmp_path):
    from playwright.sync_api import expect

    (tmp_path / "broken.toml").write_text("[[node]]\nname = 3")
    sources = {"good": modelflow.Flow(TYPED.format(node=""), units=[mean])}
    sources["broken"] = tmp_path / "broken.toml"
    with Server(sources, ServeOptions(http_port=0)) as server, browsing() as browser:
        reason = ask(server, "/readyz")[1]["error"].removeprefix("model 'broken': ")
        with watched(server, key="") as answer:
            models = {"served": ["good"], "unready": {"broken": reason}}
            assert next(events(answer)) == ("models", models)
        browser.open(f"{server.address}/dashboard")
        expect(browser.page.locator("[data-unready=broken]")).to_have_text(f"broken: {reason}")


def test_a_server_that_stops_waits_for_no_page(server):
    with watched(server) as answer:
        told = events(answer)
        next(told)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        assert list(told)[-1] == ("end", {})
        stopping.join()


def test_a_page_that_has_gone_costs_nothing(server):
    dashboard = server._frontend._dashboard
    with watched(server) as answer:
        next(events(answer))
        assert len(dashboard._watches) == 1
    answer.close()
    for _ in range(1000):  # the server learns of the end on its own thread, which answers in order
        assert send(server, "GET", "/dashboard/")[0] == 200
        if not dashboard._watches:
            break
    assert not dashboard._watches


@needs_browser
def test_a_browser_asks_for_the_key_and_shows_one_model_after_the_other(server):
    from playwright.sync_api import expect

    assert infer(server, "beta", [1.0], [2.0], [3.0]) == 200
    with browsing() as browser:
        page = browser.page
        browser.open(f"{server.address}/dashboard")
        expect(page.locator("[data-link=locked]")).to_contain_text("enter the server's API key")
        page.get_by_label("API key").fill("s3cret")
        page.get_by_role("button", name="Show").click()
        rows = page.locator("tr[data-row=mean] td[data-column=rows]")
        expect(rows).to_have_text("0")
        expect(page.get_by_role("navigation").locator("a[aria-current]")).to_have_text("alpha")
        page.get_by_role("link", name="beta").click()
        expect(rows).to_have_text("3")
        page.reload()
        expect(rows).to_have_text("3")
        assert [one for one in browser.complaints if "401" not in one] == []


def test_the_history_of_a_model_grows_without_a_page_and_begins_the_next(added, server):
    for _ in range(8):  # of two models
        assert added.acquire(timeout=LIMIT)
    with watched(server, "/dashboard/events/beta") as answer:
        found = list(itertools.islice(events(answer), 3))
    assert [name for name, _ in found] == ["models", "history", "picture"]
    assert len(found[1][1][0]) == 8


class _Group:
    """Stands for the processes of a server with one model, whose version the test sets."""

    def __init__(self, snapshot):
        self.snapshot = snapshot

    def counts(self, told):
        told(GroupCounts([self.snapshot]))


class _Body:
    """The body of a reply, which keeps the events that follow a change."""

    has_room = True

    def __init__(self):
        self.changes = asyncio.Queue()

    def send(self, data):
        if b"event: changes" in data:
            self.changes.put_nowait(data)


def test_another_version_is_marked_in_the_history(server):
    seen = []
    server._group.counts(seen.append)
    (first, *_) = seen[0].snapshots
    group = _Group(first)
    dashboard = Dashboard(group, types.SimpleNamespace(unready=dict))

    async def watch():
        body = _Body()
        request = types.SimpleNamespace(answer=lambda reply: reply.begin(body))
        dashboard.endpoints[-1].answer["GET"](request, {})
        group.snapshot = replace(first, version=2)
        sent = await asyncio.wait_for(body.changes.get(), LIMIT)
        body.on_gone()
        return sent

    assert b'"version 2"' in asyncio.run(watch())

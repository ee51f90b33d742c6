"""Tests of the repository poller: when the disk is read, and which callers are notified."""

import asyncio

import pytest

from modelflow.serve.repository.config import ServeConfig
from modelflow.serve.repository.poller import RepositoryPoller
from tests.serve.models_on_disk import write_model


class Later:
    """A combined loader and loop queue; reads of the disk and their results wait for the test."""

    def __init__(self):
        self.looks = []

    def look(self, make, done):
        self.looks.append((make, done))

    def post(self, call):
        call()
        return True

    def go(self):
        """Runs the requested reads of the disk."""
        looks, self.looks = self.looks, []
        for make, done in looks:
            try:
                outcome = make()
            except Exception as error:  # noqa: BLE001 - as the loader does
                outcome = error
            done(outcome)


@pytest.fixture
def path(tmp_path):
    write_model(tmp_path / "m.onnx", 2)
    return tmp_path / "m.onnx"


def made(path, poll=0.0):
    later, seen = Later(), []
    poller = RepositoryPoller(ServeConfig({"m": path}), later, poll)
    poller.begin(later, lambda found: seen.append(sorted(found)))
    return poller, later, seen


def test_who_asks_is_told_what_there_is_and_nobody_else(path):
    poller, later, seen = made(path)
    found, told = [], []
    poller.ask(told.append, lambda findings: found.append(sorted(findings)))
    later.go()
    assert (found, told, seen) == ([["m"]], [], [])
    poller.refresh()
    later.go()
    assert seen == [["m"]]


def test_who_waits_is_told_of_the_end_and_not_again(path):
    poller, later, _ = made(path)
    found, told = [], []
    poller.ask(told.append, found.append)
    end = RuntimeError("the end")
    poller.end(end)
    later.go()
    assert (found, told) == ([], [end])


def test_a_look_that_fails_again_and_again_is_said_once(path, caplog):
    poller, later, seen = made(path)
    poller.config = None
    for _ in range(2):
        poller.refresh()
        later.go()
    assert caplog.text.count("the served models continue") == 1
    poller.config = ServeConfig({"m": path})
    poller.refresh()
    later.go()
    poller.config = None
    poller.refresh()
    later.go()
    assert caplog.text.count("the served models continue") == 2  # the poll succeeded in between
    assert seen == [["m"]]


def test_it_looks_every_so_many_seconds_until_its_end(path):
    async def main():
        poller, later, seen = made(path, poll=0.001)
        for number in range(1, 4):
            while not later.looks:
                await asyncio.sleep(0)
            later.go()
            assert seen == [["m"]] * number
        poller.end(RuntimeError("the end"))
        await asyncio.sleep(0.01)
        assert not later.looks

    asyncio.run(main())
